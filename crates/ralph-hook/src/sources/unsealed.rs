//! Why a gate or check whose script ralph cannot name keeps a run from ending `verified`.

use crate::contract::ContractContext;
use ralph_core::requirement::Requirement;
use ralph_core::text;
use ralph_home::faults::describe_error;
use ralph_lists::run_lists::RunLists;
use ralph_policy::trust::{self, UnsealedScript};
use std::path::Path;

/// The reason, if everything else is met. Otherwise it does not matter yet.
pub(super) fn unsealed_reason(
    contract: &ContractContext<'_>,
    lists: &RunLists,
    requirements: &[Requirement],
) -> Option<String> {
    if requirements.iter().any(|one| contract.holds(one)) {
        return None;
    }
    let checks = lists.all_checks();
    let project = Path::new(&contract.seal.project);
    let programs = trust::policy_programs(&contract.seal.policy);
    match trust::unsealed_scripts(project, programs.iter().chain(&checks)) {
        Ok(unsealed) => unsealed.first().map(|first| {
            describe_unsealed(&lists.item_name(&first.gate).unwrap_or(first.gate.clone()), first)
        }),
        Err(error) => Some(format!("the sealed files are not known: {}", describe_error(&error))),
    }
}

/// A sentence for a person: which command, why, and what to do.
pub(crate) fn describe_unsealed(name: &str, script: &UnsealedScript) -> String {
    let (name, command) = (text::clean_line(name, 80), text::clean_line(&script.command, 80));
    format!(
        "{name} runs a script that cannot be sealed, because only the shell knows which (`{command}`): \
         write the file names into its command"
    )
}
