//! Decides whether the doctor may run a registered command. Settings in a repository are not a person's decision: the
//! client asks before it trusts them, so the doctor must not run them without that trust.

use std::path::{Path, PathBuf};

use super::loaded_hooks::{HookOwner, HookSource, RegisteredHook};
use super::{DoctorContext, hook_command};
use crate::install::program_path::RalphProgram;
use crate::install::settings_layers::SettingsLayerKind;
use ralph_home::host_env;
use ralph_host::HostProfile;
use ralph_sys::fs;

/// The state file of a client can become large.
const MAX_CLIENT_STATE_BYTES: usize = 64 * 1024 * 1024;

/// Whether the command is from the person's own settings, calls a program outside the project directly, or belongs to a
/// project that the client trusts.
pub(super) fn may_run(context: &DoctorContext<'_>, one: &RegisteredHook) -> bool {
    is_personal(context, &one.from) || is_safe_command(context, one) || is_trusted_project(context)
}

/// Whether variables from this settings file may be set. Some variables name programs or libraries to load.
pub(super) fn may_set_variables(context: &DoctorContext<'_>, file: &Path) -> bool {
    is_outside(context.project, file) || is_trusted_project(context)
}

fn is_personal(context: &DoctorContext<'_>, from: &HookSource) -> bool {
    match from {
        HookSource::Layer {
            kind: SettingsLayerKind::User | SettingsLayerKind::Managed, ..
        } => true,
        HookSource::Layer {
            kind: SettingsLayerKind::Project | SettingsLayerKind::Local, ..
        } => false,
        HookSource::Plugin { root, .. } => is_outside(context.project, root),
    }
}

/// Whether the command runs a program outside the project with plain literal arguments.
fn is_safe_command(context: &DoctorContext<'_>, one: &RegisteredHook) -> bool {
    let words = hook_command::expand_words(context.env, &one.from, &one.hook);
    let Some(program) = words.first().map(PathBuf::from) else { return false };
    let is_alone = match one.owner {
        HookOwner::Ralph => true,
        // With arguments it could be a shell or an interpreter.
        HookOwner::Wrapper => words.len() == 1,
        HookOwner::NativeJudge | HookOwner::OtherTool => false,
    };
    let is_literal =
        one.hook.args.is_some() || is_literal_command(context.host, &one.hook.command, &program);
    // A bare name is looked up in the system directories only.
    let is_theirs = is_outside(context.project, &program) && !is_relative_path(&program);
    is_alone && is_literal && is_theirs
}

/// Whether this is a relative path with directories, which points into the project.
fn is_relative_path(program: &Path) -> bool {
    !program.is_absolute() && program.components().count() > 1
}

fn is_literal_command(host: &HostProfile, line: &str, program: &Path) -> bool {
    const PLAIN: &[u8] = b"/._-+:@,=% '\"~";
    let is_plain = |text: &str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii() || PLAIN.contains(&byte))
    };
    let without_home = line.replace("${HOME}", "").replace("$HOME", "");
    let ours = RalphProgram::from_path(program).map(|program| program.hook_command(host, None));
    let rest = ours.ok().and_then(|ours| line.strip_prefix(&ours).map(str::to_string));
    is_plain(&without_home) || rest.is_some_and(|rest| is_plain(&rest))
}

/// Whether the path, resolved or not, is outside the project. A missing path is compared as written.
fn is_outside(project: &Path, path: &Path) -> bool {
    let project = fs::resolve(project).unwrap_or_else(|| project.to_path_buf());
    let inside = fs::resolve(path).unwrap_or_else(|| path.to_path_buf());
    !inside.starts_with(&project) && !path.starts_with(&project)
}

/// Whether a person has accepted the client's trust dialog for this project.
fn is_trusted_project(context: &DoctorContext<'_>) -> bool {
    let DoctorContext { env, host, project, .. } = context;
    let named = host_env::host_config_dir(env, host);
    let accepted = |directory: PathBuf| {
        let path = directory.join(host.files.state);
        let state = fs::read_if_exists(&path, MAX_CLIENT_STATE_BYTES).ok().flatten();
        let project = project.to_str();
        state
            .zip(project)
            .is_some_and(|(state, project)| (host.is_trusted_project)(&state, project))
    };
    named.into_iter().chain(env.home()).any(accepted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_words_are_literal() {
        for (line, expected) in [
            ("/opt/ralph hook claude --deadline 900s", true),
            ("'/opt/a b/ralph' hook claude", true),
            ("\"$HOME\"/bin/ralph hook claude", true),
            ("~/bin/ralph hook claude", true),
            (r"'/opt/o'\''brien/ralph' hook claude", true),
            ("/opt/ralph hook claude; id", false),
            ("/opt/ralph hook claude `id`", false),
            ("/opt/ralph hook claude $(id)", false),
            ("/opt/ralph hook claude && id", false),
            ("/opt/ralph hook claude > x", false),
            ("/opt/ralph hook claude\nid", false),
            ("$HOMELESS/ralph hook claude | id", false),
        ] {
            let words = crate::install::program_path::split_command_words(line);
            let program = PathBuf::from(&words[0]);
            assert_eq!(
                is_literal_command(ralph_host::default_host(), line, &program),
                expected,
                "{line}"
            );
        }
    }
}
