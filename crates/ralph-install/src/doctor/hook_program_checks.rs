//! Checks the program that a hook calls: its path should stay valid, and it should be this version of ralph.

use std::path::Path;

use super::loaded_hooks::{HookOwner, RegisteredHook};
use super::{DoctorCheck, DoctorContext, SafeRepair, hook_command, hook_trial};
use crate::install::program_path::{PathDoubt, doubt_path};
use ralph_home::host_env;
use ralph_sys::fs;

/// Checks that the path of the command is likely to stay valid.
pub(super) fn check_program_path(
    context: &DoctorContext<'_>,
    one: &RegisteredHook,
) -> Vec<DoctorCheck> {
    const NAME: &str = "path";
    if one.owner != HookOwner::Ralph {
        let what = format!("`{}` calls ralph through a wrapper", one.command_line());
        return vec![DoctorCheck::note(NAME, what)];
    }
    let Some(program) = hook_command::called_program(context.env, &one.from, &one.hook) else {
        return Vec::new();
    };
    let shown = program.display();
    if !program.is_absolute() {
        let what = format!("`{shown}` is not an absolute path, so another program may run");
        let repair = one.from.scope().map(SafeRepair::Settings);
        return vec![DoctorCheck::bad(NAME, what).fix(one.from.remedy()).repair(repair)];
    }
    if !fs::exists(&program) {
        return Vec::new();
    }
    let mut checks = Vec::new();
    let host = context.host;
    let plugins = host_env::host_config_dir(context.env, host)
        .map(|directory| directory.join(host.plugins.directory));
    let is_plugin = plugins.is_some_and(|plugins| program.starts_with(plugins));
    let why = if is_plugin {
        Some(PathDoubt::PluginDirectory)
    } else {
        doubt_path(context.env, &program)
    };
    if let Some(why) = why {
        let what = format!("`{shown}` may disappear: {}", why.describe());
        let check = match why {
            PathDoubt::BuildDirectory | PathDoubt::PluginDirectory => DoctorCheck::bad(NAME, what),
            PathDoubt::TemporaryDirectory => DoctorCheck::note(NAME, what),
        };
        checks.push(check.fix("install ralph, then `ralph init`"));
    }
    checks.push(check_program_version(context, &program, one));
    checks
}

fn check_program_version(
    context: &DoctorContext<'_>,
    program: &Path,
    one: &RegisteredHook,
) -> DoctorCheck {
    const NAME: &str = "version";
    let ours = format!("ralph {}", context.version);
    let shown = program.display();
    match hook_trial::program_version(context, program) {
        Some(reported) if reported == ours => {
            DoctorCheck::good(NAME, format!("`{shown}` is {reported}"))
        }
        Some(reported) => {
            let what = format!("`{shown}` is {reported}, but this is {ours}");
            DoctorCheck::bad(NAME, what).fix(format!("{} registers this one", one.from.remedy()))
        }
        None => DoctorCheck::unclear(NAME, format!("`{shown}` did not report a version")),
    }
}
