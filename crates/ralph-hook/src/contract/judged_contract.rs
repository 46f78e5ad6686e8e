//! What a run must fulfil, for the case of a judge: from the sealed policy and the sealed lists, not from the current
//! files, which the agent can edit.

use super::ContractContext;
use ralph_core::gate::Gate;
use ralph_core::judge::{ContractItem, ContractKind};
use ralph_core::record::ListKind;
use ralph_core::redact::Redactor;
use ralph_core::requirement::RequirementWeight;
use ralph_core::source::work_list::ListItem;
use ralph_core::text;
use ralph_lists::run_lists::sealed_items;

const MAX_ITEM_CHARS: usize = 500;
const MAX_STEPS: usize = 30;
const MAX_ITEMS: usize = 400;

/// The required gates and items of a run, redacted.
pub(super) fn read_contract(
    contract: &ContractContext<'_>,
    redactor: &Redactor,
) -> Result<Vec<ContractItem>, String> {
    let run = contract.run;
    let mut items = gate_items(&contract.seal.policy.gates, redactor);
    let paths = contract.world.home.run(&run.id);
    for (number, seal) in run.lists.iter().enumerate() {
        let sealed = sealed_items(&paths, number, seal)
            .ok_or("the sealed copy of a list is missing or was edited")?;
        let required = sealed.iter().filter(|item| item.weight == RequirementWeight::Required);
        items.extend(required.map(|item| list_item(item, seal.kind, redactor)));
    }
    if let Some(more) = items.len().checked_sub(MAX_ITEMS).filter(|more| *more > 0) {
        items.truncate(MAX_ITEMS);
        let kind = items.last().map_or(ContractKind::Gate, |item| item.kind);
        items.push(ContractItem { name: format!("and {more} more"), ..ContractItem::new(kind) });
    }
    Ok(items)
}

/// The required gates of a policy.
pub(super) fn gate_items(gates: &[Gate], redactor: &Redactor) -> Vec<ContractItem> {
    let required = gates.iter().filter(|gate| gate.weight == RequirementWeight::Required);
    let item = |gate: &Gate| ContractItem {
        name: safe_line(&gate.name, redactor),
        command: (!gate.is_ci()).then(|| safe_line(&gate.command_line(), redactor)),
        ..ContractItem::new(ContractKind::Gate)
    };
    required.map(item).collect()
}

fn list_item(item: &ListItem, kind: ListKind, redactor: &Redactor) -> ContractItem {
    ContractItem {
        kind: match kind {
            ListKind::Features => ContractKind::Feature,
            ListKind::Plan => ContractKind::PlanStep,
        },
        name: safe_line(&item.name, redactor),
        text: safe_line(&item.text, redactor),
        steps: item.steps.iter().take(MAX_STEPS).map(|step| safe_line(step, redactor)).collect(),
        command: item.check.as_ref().map(|check| safe_line(&check.command_line(), redactor)),
    }
}

fn safe_line(foreign: &str, redactor: &Redactor) -> String {
    text::clean_line(&redactor.redact(&text::clean(foreign)), MAX_ITEM_CHARS)
}
