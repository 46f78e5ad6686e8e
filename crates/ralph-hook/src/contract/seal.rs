//! Seals the policy at the start of a run, and checks later that policy, scripts and tools are unchanged.

use std::path::{Path, PathBuf};

use ralph_core::gate::Gate;
use ralph_core::id::RunId;
use ralph_core::policy::{CheckoutMode, IntegrityMode, Policy, RedFirst};
use ralph_core::record::{PolicySeal, RunBase};
use ralph_core::requirement::{
    EvidenceKind, Finding, Requirement, RequirementFailure, RequirementStatus, RequirementWeight,
};
use ralph_core::text;

use super::change_summary::ChangeSummary;
use super::{
    ContractContext, contract_requirement, outside_links, sealed_programs, sealed_variables,
};
use ralph_gates::gates::gate_tools;
use ralph_gates::gates::result_key::compile_globs;
use ralph_git::checkpoint::{
    CheckpointError, CheckpointReason, CheckpointRepository, CheckpointSnapshot,
};
use ralph_git::git;
use ralph_git::tree::{self, AbsentPaths, ListingError, ListingRequest};
use ralph_home::faults::describe_error;
use ralph_home::paths::RalphHome;
use ralph_policy::config::{self, ConfigError, POLICY_FILE_NAMES, ProjectConfig};
use ralph_policy::trust::{self, ApprovalSubject, GateSearch, SealDifference, TrustError};
use ralph_proof::can_mount_checkouts;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::proc::cancel::CancelToken;

const MAX_CHANGED_CHARS: usize = 1000;

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("git is not installed, but the policy compares the work with its base")]
    NeedsGit,
    #[error(transparent)]
    Tree(#[from] ListingError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// The run to seal a policy into.
#[derive(Clone, Copy, Debug)]
pub struct SealRequest<'a> {
    pub home: &'a RalphHome,
    pub env: &'a Env,
    pub run: &'a RunId,
    /// Absolute directories that are not part of the work.
    pub exclude: &'a [PathBuf],
    pub complexity: Option<u8>,
    /// One gate for each program that list checks run.
    pub programs: &'a [Gate],
    pub deadline: Deadline,
}

/// The policy of a project; `None` if it has none.
pub fn load_project_policy(
    home: &RalphHome,
    env: &Env,
    project: &Path,
) -> Result<Option<(ProjectConfig, ApprovalSubject)>, SealError> {
    let config = config::load(&config::find_project(project), home)?;
    let policy = &config.policy;
    let demands_nothing =
        policy.gates.is_empty() && policy.pipeline.is_empty() && policy.judges.is_empty();
    if config.file.is_none() && demands_nothing {
        return Ok(None);
    }
    let subject = trust::policy_subject(home, &config, env)?;
    Ok(Some((config, subject)))
}

/// The defaults for a project without a policy, which are enough to judge list checks.
pub fn load_default_policy(
    home: &RalphHome,
    env: &Env,
    project: &Path,
) -> Result<(ProjectConfig, ApprovalSubject), SealError> {
    let config = config::load(&config::find_project(project), home)?;
    let subject = trust::policy_subject(home, &config, env)?;
    Ok((config, subject))
}

/// Seals a policy into a run: its requirements, the tools of its gates, and the base tree.
pub fn seal_policy(
    sealing: &SealRequest<'_>,
    config: &ProjectConfig,
    subject: &ApprovalSubject,
) -> Result<PolicySeal, SealError> {
    let base = seal_base(sealing, config)?;
    let mounts_checkouts = base.is_some() && probe_checkout_mounts(sealing, &config.project);
    Ok(PolicySeal { mounts_checkouts, ..seal_with_base(sealing, config, subject, base)? })
}

/// Seals a policy with a base that is known already.
pub(super) fn seal_with_base(
    sealing: &SealRequest<'_>,
    config: &ProjectConfig,
    subject: &ApprovalSubject,
    base: Option<RunBase>,
) -> Result<PolicySeal, SealError> {
    let own = || trust::recordable_path(sealing.env.search_path().as_deref());
    let path = trust::recorded_path(sealing.home, subject).or_else(|| own().map(Into::into));
    let environment = &config.policy.environment;
    let search = GateSearch { env: sealing.env, environment, path: path.clone() };
    let programs = trust::policy_programs(&config.policy);
    let gates = programs.iter().chain(sealing.programs);
    let tools = gates
        .flat_map(|gate| gate_tools::sealed_tools(gate, &config.project, &search.variables(gate)));
    Ok(PolicySeal {
        policy: config.policy.clone(),
        project: config.project.to_string_lossy().into_owned(),
        hash: sealed_hash(subject),
        base,
        tools: tools.collect(),
        path: path.and_then(|path| path.into_string().ok()),
        complexity: sealing.complexity,
        git: sealed_programs::seal_git(&config.project),
        files: Some(trust::sealed_policy_files(&config.project, &config.policy, &search)?),
        checks: Vec::new(),
        variables: Some(sealed_variables::seal_variables(sealing.env)),
        mounts_checkouts: false,
    })
}

/// Measured at the start, because every process can send a stop, also one that may not mount anything.
fn probe_checkout_mounts(sealing: &SealRequest<'_>, project: &Path) -> bool {
    let project = fs::resolve(project).unwrap_or_else(|| project.to_owned());
    let root = git::work_tree_root(&project).unwrap_or(&project);
    let cancel = CancelToken::new();
    cancel.is_ok_and(|cancel| can_mount_checkouts(root, sealing.home, sealing.env, &cancel))
}

/// Empty if no part of the policy comes from the repository.
fn sealed_hash(subject: &ApprovalSubject) -> String {
    if subject.needs_approval() { subject.hash.clone() } else { String::new() }
}

/// Checkpoints the base. Without git there is none, which is an error if the policy depends on one.
fn seal_base(
    sealing: &SealRequest<'_>,
    config: &ProjectConfig,
) -> Result<Option<RunBase>, SealError> {
    let (project, policy) = (config.project.as_path(), &config.policy);
    let cache = tree::stat_cache_path(sealing.home, project);
    let listing = tree::list_work_tree(&ListingRequest {
        project,
        exclude: sealing.exclude,
        cache: Some(&cache),
        deadline: &sealing.deadline,
    })?;
    let identity = listing.identity();
    let made = CheckpointRepository::open(sealing.home, sealing.run, project, &sealing.deadline)
        .and_then(|repository| {
            let snapshot = CheckpointSnapshot {
                listing: &listing,
                excluded: sealing.exclude,
                reason: CheckpointReason::Start,
            };
            let made = repository.create(&snapshot, &sealing.deadline)?;
            Ok(repository.hex(&made.checkpoint.commit))
        });
    match made {
        Ok(commit) => {
            let absent = AbsentPaths::of_listing(&listing).map(|paths| paths.0);
            let outside_links = outside_links::seal_outside_links(&listing);
            Ok(Some(RunBase { commit, identity, absent, outside_links }))
        }
        Err(CheckpointError::GitMissing)
            if policy.protect.paths.is_empty()
                && policy.tests.integrity == IntegrityMode::Off
                && policy.tests.red_first == RedFirst::Optional
                && policy.verify.checkout != CheckoutMode::Clean =>
        {
            Ok(None)
        }
        Err(CheckpointError::GitMissing) => Err(SealError::NeedsGit),
        Err(error) => Err(error.into()),
    }
}

/// Guards: the policy and the tools must be the ones that were sealed.
pub(super) fn seal_requirements(
    contract: &ContractContext<'_>,
    change: &ChangeSummary,
) -> Vec<Requirement> {
    vec![policy_requirement(contract), sealed_programs::tools_requirement(contract, change)]
}

fn policy_requirement(contract: &ContractContext<'_>) -> Requirement {
    let home = &contract.world.home;
    // The run has no policy, or a person left it out; only lists have checks.
    let policy = &contract.seal.policy;
    if contract.seal.hash.is_empty() && policy.gates.is_empty() && policy.judges.is_empty() {
        return contract_requirement("policy", RequirementStatus::Met(EvidenceKind::Measured), "");
    }
    let mut may_be_allowed = false;
    let (failure, approved) =
        match load_project_policy(home, &contract.world.env, contract.project()) {
            Ok(now) => match find_policy_breach(contract, now.as_ref().map(|(_, subject)| subject))
            {
                None => {
                    let met = RequirementStatus::Met(EvidenceKind::Measured);
                    return contract_requirement("policy", met, "");
                }
                Some(PolicyBreach { failure, is_approvable, has_files }) => {
                    may_be_allowed = has_files;
                    let is_approved = |(_, subject)| trust::is_approved(home, &subject);
                    (failure, is_approvable && now.is_some_and(is_approved))
                }
            },
            Err(error) => {
                let why = format!("the policy can no longer be read: {}", describe_error(&error));
                (RequirementFailure::new(why), false)
            }
        };
    let mut next = "Restore the policy and the scripts it calls".to_string();
    if may_be_allowed {
        next.push_str("; if the goal needs the change, only a person can allow it, with `--may-change FILE` at the start of a run");
    }
    let mut changed = contract_requirement("policy", RequirementStatus::Unmet(failure), &next);
    // A person who approved the new content knows about the change.
    if approved {
        changed.weight = RequirementWeight::Advisory;
    }
    changed
}

/// A difference from the sealed policy or one of its files.
struct PolicyBreach {
    failure: RequirementFailure,
    /// Whether a person who approves the present content accepts all of it.
    is_approvable: bool,
    /// Whether sealed files changed, which a person could have allowed.
    has_files: bool,
}

/// How the policy, its commands and the sealed files differ from those at the start; `None` if they do not.
fn find_policy_breach(
    contract: &ContractContext<'_>,
    now: Option<&ApprovalSubject>,
) -> Option<PolicyBreach> {
    let (home, seal) = (&contract.world.home, contract.seal);
    // A run whose gates were all typed by a person left the policy file out, or has none.
    let rests_on_checks = seal.policy.gates.iter().all(|gate| seal.is_check(&gate.name))
        && seal.policy.judges.is_empty();
    let now = now.filter(|_| !seal.hash.is_empty() || !rests_on_checks);
    if now.is_none() && !seal.hash.is_empty() {
        let why = "the policy file is gone; the sealed policy still applies";
        let failure = RequirementFailure::new(why.to_string());
        return Some(PolicyBreach { failure, is_approvable: false, has_files: false });
    }
    let then = trust::seal_approval(home, seal);
    let mut items = match (&then, now) {
        (Some(then), Some(now)) => {
            now.command_differences(then).into_iter().map(|one| one.item).collect()
        }
        // Nothing of the policy came from the repository.
        (None, Some(now)) if seal.hash.is_empty() && now.policy_file().is_some() => {
            vec!["the policy".to_string()]
        }
        (None, Some(now)) if !seal.hash.is_empty() && sealed_hash(now) != seal.hash => {
            vec!["the policy".to_string()]
        }
        (_, _) => Vec::new(),
    };
    let mut findings = Vec::new();
    let (mut is_approvable, mut has_files) = (true, false);
    match trust::changed_sealed_files(home, &contract.world.env, seal) {
        Ok(changed) => {
            for one in holding_differences(&seal.policy, changed) {
                let item = format!("`{}`", text::clean_line(&text::reveal(&one.name), 200));
                findings.extend((!one.reason.is_empty()).then(|| {
                    Finding::new(format!(
                        "{item} {}; sealed because {}",
                        one.kind.verb(),
                        one.reason
                    ))
                }));
                items.push(item);
                has_files = true;
                is_approvable &= one.is_approvable;
            }
        }
        Err(error) => {
            let why = describe_error(&error);
            let summary = format!("the sealed files cannot be compared with the start: {why}");
            let failure = RequirementFailure::new(summary);
            return Some(PolicyBreach { failure, is_approvable: false, has_files: false });
        }
    }
    if items.is_empty() {
        return None;
    }
    let what = text::clean_line(&items.join(", "), MAX_CHANGED_CHARS);
    let summary = format!("{what} changed since the run began; the sealed policy still applies");
    let failure = RequirementFailure { findings, ..RequirementFailure::new(summary) };
    Some(PolicyBreach { failure, is_approvable, has_files })
}

/// The changes of sealed files that hold a run. Those that a person allowed do not, nor those for which `protected files`
/// holds.
pub fn holding_differences(
    policy: &Policy,
    mut changed: Vec<SealDifference>,
) -> Vec<SealDifference> {
    changed.retain(|one| !may_change(policy, &one.name) && !is_protected(policy, &one.name));
    changed
}

/// Whether `protected files` holds for the same file, so that one change is reported once.
fn is_protected(policy: &Policy, name: &str) -> bool {
    !POLICY_FILE_NAMES.contains(&name) && compile_globs(&policy.protect.paths).is_match(name)
}

/// Whether a person named this very file in `--may-change`. A glob is meant for tests, and does not free a script that
/// happens to be among them. The policy itself and its commands never may change.
fn may_change(policy: &Policy, name: &str) -> bool {
    let named = &policy.verify.may_change;
    !POLICY_FILE_NAMES.contains(&name) && named.iter().any(|one| one == name)
}

/// The first script of the sealed gates whose current content was not approved.
pub(super) fn find_unapproved_script(contract: &ContractContext<'_>) -> Option<String> {
    let (home, seal) = (&contract.world.home, contract.seal);
    let Ok(mut changed) = trust::changed_sealed_files(home, &contract.world.env, seal) else {
        return Some("the files that the commands name".to_string());
    };
    changed.retain(|one| !may_change(&seal.policy, &one.name));
    let first = format!("`{}`", changed.first()?.name);
    let is_approved_now = load_project_policy(home, &contract.world.env, contract.project())
        .is_ok_and(|now| now.is_some_and(|(_, now)| trust::is_approved(home, &now)));
    let is_accepted = is_approved_now && changed.iter().all(|one| one.is_approvable);
    (!is_accepted).then_some(first)
}
