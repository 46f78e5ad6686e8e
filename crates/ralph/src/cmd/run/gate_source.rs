//! Finds the gates of a run: those of the approved policy, detected ones, or one that a person types. Nothing here is
//! asked or written before [`accept_gates`], and no repository command runs before the approval.

use super::run_args::RunArgs;
use crate::failure::CommandFailure;
use crate::typed_consent;
use ralph_core::gate::Gate;
use ralph_core::policy::GateEnvironment;
use ralph_core::sealed_file::SealedFile;
use ralph_home::world::World;
use ralph_hook::control::{self, GateSelection, RunRequest};
use ralph_install::install::install_plan::{self, InstallContext, ProposedPolicy};
use ralph_policy::config::ProjectConfig;
use ralph_policy::detect::{self, DetectedGates, ProposedGate};
use ralph_policy::trust::{self, GateSearch};
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::Path;

pub(crate) enum GateSource {
    /// The approved policy.
    Policy(Box<ProjectConfig>),
    /// Detected or typed gates that are not approved yet.
    Proposed(ProposedPolicy),
    /// No gates were detected. A person can type one.
    Undetected(Box<DetectedGates>),
    /// A person left the gates out, or the directory is no project.
    NoGates,
}

impl GateSource {
    /// Files besides the policy that decide what the gates do. They are sealed: an agent that changes one is held.
    pub(super) fn sealed_files(&self, env: &Env, request: &RunRequest) -> Vec<SealedFile> {
        let own = match self {
            // A failure is ignored here: the policy has been approved already.
            Self::Policy(config) => {
                let environment = &config.policy.environment;
                let path = trust::recordable_path(env.search_path().as_deref()).map(Into::into);
                let search = GateSearch { env, environment, path };
                trust::sealed_files(&config.project, &config.policy.gates, &search)
                    .unwrap_or_default()
            }
            Self::Proposed(proposed) => proposed.sealed.clone(),
            Self::Undetected(_) | Self::NoGates => Vec::new(),
        };
        let is_new = |file: &SealedFile| own.iter().all(|known| known.name != file.name);
        let of_checks = check_files(env, &request.project, &request.terms.checks);
        let added: Vec<_> = of_checks.into_iter().filter(is_new).collect();
        own.into_iter().chain(added).collect()
    }
}

fn check_files(env: &Env, project: &Path, checks: &[Gate]) -> Vec<SealedFile> {
    let path = trust::recordable_path(env.search_path().as_deref()).map(Into::into);
    let search = GateSearch { env, environment: &GateEnvironment::default(), path };
    trust::sealed_files(project, checks, &search).unwrap_or_default()
}

pub(super) fn find_gates(
    world: &World,
    request: &RunRequest,
    args: &RunArgs,
) -> Result<GateSource, CommandFailure> {
    let World { env, home, .. } = world;
    if let Some(approved) = control::approved_policy(home, env, request)? {
        return Ok(GateSource::Policy(Box::new(approved.config)));
    }
    let project = &request.project;
    if request.gates == GateSelection::Skipped || !install_plan::is_project_directory(env, project)
    {
        return Ok(GateSource::NoGates);
    }
    let detected = detect::detect_gates(project, env);
    let proposed = ProposedPolicy::from_detected(project, env, &detected);
    if proposed.gates.is_empty() {
        return Ok(GateSource::Undetected(Box::new(detected)));
    }
    if args.worktree || args.pr {
        let what = "the project has no `ralph.toml`, and a work tree starts from a commit";
        let hint =
            "`ralph gate detect --write` creates it; commit it, and approve it with `ralph trust`";
        return Err(CommandFailure::new(what, hint));
    }
    Ok(GateSource::Proposed(proposed))
}

/// The policy with one gate that a person typed, beside everything else that was detected.
pub(super) fn typed_policy(
    env: &Env,
    project: &Path,
    detected: &DetectedGates,
    gate: ProposedGate,
) -> ProposedPolicy {
    let mut detected = detected.clone();
    detected.add_typed(&[gate]);
    ProposedPolicy::from_detected(project, env, &detected)
}

/// Creates the policy file with exactly the shown gates.
pub(super) fn write_policy(proposed: &ProposedPolicy) -> Result<(), CommandFailure> {
    if fs::create_new_user_file(&proposed.path, proposed.text.as_bytes())? {
        return Ok(());
    }
    let what = format!("`{}` was just created by another process", proposed.path.display());
    Err(CommandFailure::new(&what, "`ralph trust` shows what it runs and asks for approval"))
}

/// Writes the policy and approves exactly the shown gates.
pub(super) fn accept_gates(
    world: &World,
    request: &RunRequest,
    proposed: &ProposedPolicy,
) -> Result<GateSource, CommandFailure> {
    let World { env, home, .. } = world;
    typed_consent::require_while_held(home, "approve these gates")?;
    write_policy(proposed)?;
    let context = InstallContext { env, host: world.host, home, project: &request.project };
    install_plan::approve_proposed(&context, proposed)?;
    let approved = control::approved_policy(home, env, request)?;
    Ok(approved
        .map_or(GateSource::NoGates, |approved| GateSource::Policy(Box::new(approved.config))))
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
        let args = RunArgs::default();
        let GateSource::Proposed(proposed) = find_gates(&world, &request, &args).unwrap() else {
            panic!("no gate was detected")
        };
        assert!(!project.join("ralph.toml").exists(), "a proposal writes nothing");
        let GateSource::Policy(config) = accept_gates(&world, &request, &proposed).unwrap() else {
            panic!("no policy was written")
        };
        let names: Vec<_> = config.policy.gates.iter().map(|gate| gate.name.as_str()).collect();
        assert_eq!(names, ["tests"]);
        let expected =
            ProposedPolicy::from_detected(&project, &env, &detect::detect_gates(&project, &env))
                .text;
        assert_eq!(std::fs::read_to_string(project.join("ralph.toml")).unwrap(), expected);
        // From now on it is a policy like any other, and needs no question.
        assert!(matches!(find_gates(&world, &request, &args), Ok(GateSource::Policy(_))));
        assert!(accept_gates(&world, &request, &proposed).is_err(), "it replaces no file");
        std::fs::write(project.join("ralph.toml"), format!("{expected}# changed\n")).unwrap();
        assert!(
            find_gates(&world, &request, &args).is_err(),
            "a yes does not approve an existing file"
        );
    }
}
