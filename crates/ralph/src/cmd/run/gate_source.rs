//! Chooses the gates of a run: those of the approved policy, or detected gates that a person approves. No repository
//! command runs before the approval.

use super::run_args::RunArgs;
use crate::cmd::init::{self, ConfirmationOptions};
use crate::cmd::init_text;
use crate::failure::CommandFailure;
use crate::term;
use ralph_core::sealed_file::SealedFile;
use ralph_home::world::World;
use ralph_hook::control::{self, GateSelection, RunRequest};
use ralph_install::install::install_plan::{self, InstallContext, ProposedPolicy};
use ralph_policy::config::ProjectConfig;
use ralph_policy::detect;
use ralph_policy::trust::{self, GateSearch};
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::io::IsTerminal;

pub(crate) enum GateSource {
    /// The approved policy.
    Policy(Box<ProjectConfig>),
    /// Detected gates that are not approved yet; only for a dry run.
    Proposed(ProposedPolicy),
    /// No gates were detected, or a person left them out.
    NoGates,
}

impl GateSource {
    /// Files besides the policy that decide what the gates do. They are sealed: an agent that changes one is held.
    pub(super) fn sealed_files(&self, env: &Env) -> Vec<SealedFile> {
        match self {
            // A failure is ignored here: the policy has been approved already.
            Self::Policy(config) => {
                let environment = &config.policy.environment;
                let path = trust::recordable_path(env.search_path().as_deref()).map(Into::into);
                let search = GateSearch { env, environment, path };
                trust::sealed_files(&config.project, &config.policy.gates, &search)
                    .unwrap_or_default()
            }
            Self::Proposed(proposed) => proposed.sealed.clone(),
            Self::NoGates => Vec::new(),
        }
    }
}

pub(super) fn settle_gates(
    world: &World,
    request: &RunRequest,
    args: &RunArgs,
) -> Result<GateSource, CommandFailure> {
    let World { env, home, .. } = world;
    if let Some(approved) = control::approved_policy(home, env, request)? {
        return Ok(GateSource::Policy(Box::new(approved.config)));
    }
    let Some(proposed) = detect_gates(env, request) else { return Ok(GateSource::NoGates) };
    if args.dry_run {
        return Ok(GateSource::Proposed(proposed));
    }
    if args.worktree || args.pr {
        let what = "the project has no `ralph.toml`, and a work tree starts from a commit";
        let hint =
            "`ralph gate detect --write` creates it; commit it, and approve it with `ralph trust`";
        return Err(CommandFailure::new(what, hint));
    }
    confirm_gates(&proposed, args)?;
    let context = InstallContext { env, host: world.host, home, project: &request.project };
    if !fs::create_new_user_file(&proposed.path, proposed.text.as_bytes())? {
        let what = format!("`{}` was just created by another process", proposed.path.display());
        return Err(CommandFailure::new(
            &what,
            "`ralph trust` shows what it runs and asks for approval",
        ));
    }
    install_plan::approve_proposed(&context, &proposed)?;
    let approved = control::approved_policy(home, env, request)?;
    Ok(approved
        .map_or(GateSource::NoGates, |approved| GateSource::Policy(Box::new(approved.config))))
}

/// Detects gates for a project without a policy.
fn detect_gates(env: &Env, request: &RunRequest) -> Option<ProposedPolicy> {
    let project = &request.project;
    // A home directory is not a project, whatever it contains.
    let is_home = env.home().and_then(|home| fs::resolve(&home)).as_deref() == Some(project);
    if request.gates == GateSelection::Skipped || is_home {
        return None;
    }
    let proposed = ProposedPolicy::from_detected(project, env, &detect::detect_gates(project, env));
    (!proposed.gates.is_empty()).then_some(proposed)
}

/// Shows the gates and asks a person to approve them. Without a terminal and without `--yes`, nothing is approved.
fn confirm_gates(proposed: &ProposedPolicy, args: &RunArgs) -> Result<(), CommandFailure> {
    let is_watched = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !args.yes && (args.json || !is_watched) {
        let names: Vec<_> = proposed.gates.iter().map(|(name, ..)| name.as_str()).collect();
        let what = format!("the detected gates are not approved: {}", names.join(", "));
        let hint = "`ralph init` shows what they run and asks; `--yes` approves them, `--no-gates` runs without gates";
        return Err(CommandFailure::new(&what, hint));
    }
    if !args.json && !args.quiet {
        let path = proposed.path.display();
        term::out(&format!(
            "no policy yet; I would create `{path}`\n{}\n",
            init_text::render_gates(proposed).trim_start_matches('\n')
        ))?;
    }
    let asking = ConfirmationOptions { yes: args.yes, json: args.json, command: "run" };
    init::confirm(&asking, "write it and approve these gates? [y/N] ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::id::SessionId;
    use ralph_core::run_terms::RunTerms;
    use ralph_sys::clock::Deadline;
    use std::time::Duration;

    /// A yes writes exactly the gates that were shown, and approves exactly them.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests prepare files without ralph-sys")]
    fn a_yes_approves_exactly_the_shown_gates() {
        let root = tempfile::tempdir().unwrap();
        let project = fs::resolve(root.path()).unwrap().join("project");
        let bin = root.path().join("bin");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink("/bin/sh", bin.join("npm")).unwrap();
        std::fs::write(project.join("package.json"), r#"{"scripts": {"test": "./all.sh"}}"#)
            .unwrap();
        let home = root.path().join("home");
        let variables = [("PATH", bin.as_os_str()), ("RALPH_HOME", home.as_os_str())];
        let env = Env::from_pairs(variables, Some(project.clone()), Vec::new());
        let world = World::new(env.clone(), Deadline::after(Duration::from_mins(1))).unwrap();
        let session = SessionId::parse("s1").unwrap();
        let request = RunRequest::new(session, project.clone(), RunTerms::default());
        let args = RunArgs { yes: true, quiet: true, ..RunArgs::default() };
        let GateSource::Policy(config) = settle_gates(&world, &request, &args).unwrap() else {
            panic!("no policy was written")
        };
        let names: Vec<_> = config.policy.gates.iter().map(|gate| gate.name.as_str()).collect();
        assert_eq!(names, ["tests"]);
        let expected =
            ProposedPolicy::from_detected(&project, &env, &detect::detect_gates(&project, &env))
                .text;
        assert_eq!(std::fs::read_to_string(project.join("ralph.toml")).unwrap(), expected);
        // From now on it is a policy like any other, and needs no question.
        let again = RunArgs::default();
        assert!(matches!(settle_gates(&world, &request, &again), Ok(GateSource::Policy(_))));
        std::fs::write(project.join("ralph.toml"), format!("{expected}# changed\n")).unwrap();
        assert!(
            settle_gates(&world, &request, &args).is_err(),
            "a yes does not approve an existing file"
        );
    }
}
