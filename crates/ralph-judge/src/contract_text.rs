//! The contract of a run as facts of a prompt.

use ralph_core::judge::{ContractItem, ContractKind};
use ralph_core::text;

const MAX_ITEM_CHARS: usize = 500;

/// The first items whose text has at most `most` bytes, with a note about the others. `safe` cleans and redacts.
pub(crate) fn fit_contract(
    contract: &[ContractItem],
    most: usize,
    safe: impl Fn(&str) -> String,
) -> Vec<ContractItem> {
    let line = |foreign: &String| text::clean_line(&safe(foreign), MAX_ITEM_CHARS);
    let mut room = most;
    let mut kept: Vec<ContractItem> = Vec::new();
    for item in contract {
        let item = ContractItem {
            kind: item.kind,
            name: line(&item.name),
            text: line(&item.text),
            steps: item.steps.iter().map(line).collect(),
            command: item.command.as_ref().map(line),
        };
        let Some(left) = room.checked_sub(item_text(&item).len()) else { break };
        room = left;
        kept.push(item);
    }
    if let Some(first) = contract.get(kept.len()) {
        let count = text::count_noun(contract.len() - kept.len(), "requirement");
        let name = format!("[ralph left out {count} to fit the token budget]");
        kept.push(ContractItem { name, ..ContractItem::new(first.kind) });
    }
    kept
}

/// One line for each item, and one for each of its steps.
pub(crate) fn contract_text(contract: &[ContractItem]) -> String {
    contract.iter().map(item_text).collect()
}

fn item_text(item: &ContractItem) -> String {
    let label = match item.kind {
        ContractKind::Gate => "gate ",
        // Their names say what they are.
        ContractKind::Feature | ContractKind::PlanStep => "",
    };
    let what = if item.text.is_empty() { String::new() } else { format!(": {}", item.text) };
    let by = item.command.as_ref().map(|command| format!(" (measured by `{command}`)"));
    let mut lines = format!("{label}{}{what}{}\n", item.name, by.unwrap_or_default());
    for step in &item.steps {
        lines.extend(["  - ", step, "\n"]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(number: usize) -> ContractItem {
        ContractItem {
            name: format!("feature {number}"),
            text: "numbers\nare summed".to_string(),
            steps: vec!["add one\u{1b}[2J".to_string(), "add hunter2".to_string()],
            ..ContractItem::new(ContractKind::Feature)
        }
    }

    #[test]
    fn a_contract_is_clean_and_fits() {
        let gate = ContractItem {
            name: "suite".to_string(),
            command: Some("sh suite.sh".to_string()),
            ..ContractItem::new(ContractKind::Gate)
        };
        let contract = [gate, feature(1), feature(2), feature(3)];
        let safe = |foreign: &str| text::clean(foreign).replace("hunter2", "[redacted]");
        let shown = |most| contract_text(&fit_contract(&contract, most, safe));
        insta::assert_snapshot!(shown(180), @"
        gate suite (measured by `sh suite.sh`)
        feature 1: numbers are summed
          - add one
          - add [redacted]
        feature 2: numbers are summed
          - add one
          - add [redacted]
        [ralph left out 1 requirement to fit the token budget]
        ");
        assert_eq!(shown(10), "gate [ralph left out 4 requirements to fit the token budget]\n");
        assert_eq!(shown(10_000).lines().count(), 10);
        assert_eq!(contract_text(&fit_contract(&[], 0, safe)), "");
    }
}
