//! The base of a run: the checkpoint that was sealed when it started.

use std::time::Duration;

use super::ContractContext;
use ralph_core::record::RunOrigin;
use ralph_git::checkpoint::{Checkpoint, CheckpointError, CheckpointRepository};
use ralph_sys::clock::Deadline;

/// For writing out a large tree.
pub(super) const CHECKOUT_TIMEOUT: Duration = Duration::from_mins(5);

/// Finds the base checkpoint. Fails if it is not the commit that was sealed.
pub(super) fn find_base(
    contract: &ContractContext<'_>,
    repository: &CheckpointRepository,
    deadline: &Deadline,
) -> Result<Checkpoint, CheckpointError> {
    // A session without a run begins at a commit of the project, or at a checkpoint that is not its own.
    if let (RunOrigin::Session, Some(base)) = (contract.run.origin, &contract.seal.base) {
        let found = repository.find_commit(&base.commit, deadline)?;
        return found.ok_or_else(|| CheckpointError::CommitMissing(base.commit.clone()));
    }
    confirm_base(contract, repository, repository.find(0, deadline)?, deadline)
}

/// Fails if the checkpoint is not the sealed base.
pub(super) fn confirm_base(
    contract: &ContractContext<'_>,
    repository: &CheckpointRepository,
    first: Checkpoint,
    deadline: &Deadline,
) -> Result<Checkpoint, CheckpointError> {
    let sealed = contract.seal.base.as_ref().map(|base| base.commit.as_str());
    if sealed == Some(repository.hex(&first.commit).as_str()) {
        repository.verify_commit(&first, deadline)?;
        Ok(first)
    } else {
        Err(CheckpointError::Replaced { number: 0 })
    }
}

/// The base of a proof: the commit of the target branch that the work was merged with, or else the base of the run.
pub(super) fn find_proof_base(
    contract: &ContractContext<'_>,
    repository: &CheckpointRepository,
    deadline: &Deadline,
) -> Result<Checkpoint, CheckpointError> {
    let Some(commit) = contract.proof_base else {
        return find_base(contract, repository, deadline);
    };
    let target = repository.find_commit(commit, deadline)?;
    target.ok_or_else(|| CheckpointError::CommitMissing(commit.to_string()))
}

pub(super) fn open_repository(
    contract: &ContractContext<'_>,
    deadline: &Deadline,
) -> Result<CheckpointRepository, CheckpointError> {
    let world = contract.world;
    let repository =
        CheckpointRepository::open(&world.home, &contract.run.id, contract.project(), deadline)?;
    Ok(if world.env.is_rehearsal() { repository.for_comparison() } else { repository })
}
