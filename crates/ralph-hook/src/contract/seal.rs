//! Seals the policy at the start of a run, and checks later that policy, scripts and tools are unchanged.

use std::path::{Path, PathBuf};

use ralph_core::gate::Gate;
use ralph_core::id::RunId;
use ralph_core::policy::{CheckoutMode, IntegrityMode, RedFirst};
use ralph_core::record::{PolicySeal, RunBase};
use ralph_core::requirement::{
    EvidenceKind, Requirement, RequirementFailure, RequirementStatus, RequirementWeight,
};

use super::change_summary::ChangeSummary;
use super::{ContractContext, contract_requirement, sealed_programs};
use ralph_gates::environment;
use ralph_gates::gates::gate_tools;
use ralph_git::checkpoint::{
    CheckpointError, CheckpointReason, CheckpointRepository, CheckpointSnapshot,
};
use ralph_git::tree::{self, ListingError, ListingRequest};
use ralph_home::faults::describe_error;
use ralph_home::paths::RalphHome;
use ralph_policy::config::{self, ConfigError, POLICY_FILE_NAMES, ProjectConfig};
use ralph_policy::trust::{self, ApprovalSubject, TrustError};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;

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
    project: &Path,
) -> Result<Option<(ProjectConfig, ApprovalSubject)>, SealError> {
    let config = config::load(&config::find_project(project), home)?;
    let demands_nothing = config.policy.gates.is_empty() && config.policy.pipeline.is_empty();
    if config.file.is_none() && demands_nothing {
        return Ok(None);
    }
    let subject = trust::policy_subject(&config)?;
    Ok(Some((config, subject)))
}

/// The defaults for a project without a policy, which are enough to judge list checks.
pub fn load_default_policy(
    home: &RalphHome,
    project: &Path,
) -> Result<(ProjectConfig, ApprovalSubject), SealError> {
    let config = config::load(&config::find_project(project), home)?;
    let subject = trust::policy_subject(&config)?;
    Ok((config, subject))
}

/// Seals a policy into a run: its requirements, the tools of its gates, and the base tree.
pub fn seal_policy(
    sealing: &SealRequest<'_>,
    config: &ProjectConfig,
    subject: &ApprovalSubject,
) -> Result<PolicySeal, SealError> {
    let path = trust::recorded_path(sealing.home, subject).or_else(|| sealing.env.search_path());
    let search = environment::gate_search_path(&config.policy.environment, path.clone());
    let search = search.unwrap_or_default();
    let gates = config.policy.gates.iter().chain(sealing.programs);
    let tools = gates.flat_map(|gate| gate_tools::sealed_tools(gate, &config.project, &search));
    Ok(PolicySeal {
        policy: config.policy.clone(),
        project: config.project.to_string_lossy().into_owned(),
        hash: sealed_hash(subject),
        base: seal_base(sealing, config)?,
        tools: tools.collect(),
        path: path.and_then(|path| path.into_string().ok()),
        complexity: sealing.complexity,
        git: sealed_programs::seal_git(),
    })
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
    let identity = blake3::Hash::from_bytes(listing.fingerprint()).to_hex().to_string();
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
        Ok(commit) => Ok(Some(RunBase { commit, identity })),
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
    if contract.seal.hash.is_empty() && contract.seal.policy.gates.is_empty() {
        return contract_requirement("policy", RequirementStatus::Met(EvidenceKind::Measured), "");
    }
    let (summary, approved) = match load_project_policy(home, contract.project()) {
        Ok(Some((_, now))) if sealed_hash(&now) == contract.seal.hash => {
            return contract_requirement(
                "policy",
                RequirementStatus::Met(EvidenceKind::Measured),
                "",
            );
        }
        Ok(Some((_, now))) => {
            let then = trust::seal_approval(home, contract.seal);
            let changed = then.map(|then| now.differences(&then)).unwrap_or_default();
            let mut items = changed.iter().map(|one| one.item.as_str()).peekable();
            if items.peek().is_some() && items.clone().all(|item| may_change(contract, item)) {
                let met = RequirementStatus::Met(EvidenceKind::Measured);
                return contract_requirement("policy", met, "");
            }
            let approved = trust::is_approved(home, &now);
            let what = match items.peek() {
                Some(_) => items.collect::<Vec<_>>().join(", "),
                None => "the policy".to_string(),
            };
            (
                format!("{what} changed since the run began; the sealed policy still applies"),
                approved,
            )
        }
        Ok(None) => ("the policy file is gone; the sealed policy still applies".to_string(), false),
        Err(error) => {
            (format!("the policy can no longer be read: {}", describe_error(&error)), false)
        }
    };
    let failure = RequirementFailure::new(summary);
    let next = "Restore the policy and the scripts it calls";
    let mut changed = contract_requirement("policy", RequirementStatus::Unmet(failure), next);
    // A person who approved the new content knows about the change.
    if approved {
        changed.weight = RequirementWeight::Advisory;
    }
    changed
}

/// Whether a person named this very file in `--may-change`. A glob is meant for tests, and does not free a script that
/// happens to be among them. The policy itself and its commands never may change.
fn may_change(contract: &ContractContext<'_>, item: &str) -> bool {
    let name = item.strip_prefix('`').and_then(|item| item.strip_suffix('`'));
    let named = &contract.seal.policy.verify.may_change;
    name.is_some_and(|name| {
        !POLICY_FILE_NAMES.contains(&name) && named.iter().any(|one| one == name)
    })
}

/// The first script of the sealed gates whose current content was not approved.
pub(super) fn find_unapproved_script(contract: &ContractContext<'_>) -> Option<String> {
    let (home, seal) = (&contract.world.home, contract.seal);
    let then = trust::seal_approval(home, seal)?;
    let changed = trust::changed_scripts(contract.project(), &seal.policy.gates, &then);
    let first = changed.into_iter().find(|item| !may_change(contract, item))?;
    let is_approved_now = load_project_policy(home, contract.project())
        .is_ok_and(|now| now.is_some_and(|(_, now)| trust::is_approved(home, &now)));
    (!is_approved_now).then_some(first)
}
