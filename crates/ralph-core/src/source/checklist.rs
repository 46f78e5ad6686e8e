//! Checklists: what an agent ticked off in a Markdown task list or with its todo tool.

use super::code_fence::CodeFence;
use super::{count_of_total, to_findings};
use crate::requirement::{
    EvidenceKind, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use crate::text;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

const MAX_ITEM_CHARS: usize = 2_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checklist {
    pub items: Vec<ChecklistItem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecklistItem {
    pub text: String,
    pub done: bool,
}

/// A checkbox at the beginning of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkbox {
    pub done: bool,
    pub weight: RequirementWeight,
    /// The length of the checkbox in bytes.
    pub length: usize,
}

/// Parses `[ ]`, `[x]`, the marks people use for work in progress, and `[ ]*`, which marks an optional item in Kiro.
pub fn parse_checkbox(text: &str) -> Option<Checkbox> {
    let mut chars = text.chars();
    let (open, mark, close) = (chars.next()?, chars.next()?, chars.next()?);
    if (open, close) != ('[', ']') {
        return None;
    }
    let done = match mark {
        'x' | 'X' | '✓' | '✔' | '✅' => true,
        ' ' | '\u{a0}' | '/' | '-' | '~' | '>' | '!' | '?' => false,
        _ => return None,
    };
    let rest = chars.as_str();
    let starred = rest.strip_prefix('*').or_else(|| rest.strip_prefix("\\*"));
    let weight =
        if starred.is_some() { RequirementWeight::Advisory } else { RequirementWeight::Required };
    let rest = starred.unwrap_or(rest);
    // `[x](address)` is a link.
    let ends = rest.is_empty() || rest.starts_with(char::is_whitespace);
    ends.then(|| Checkbox { done, weight, length: text.len() - rest.len() })
}

/// The last task list of a text. A later list supersedes an earlier one.
pub fn from_markdown(markdown: &str) -> Option<Checklist> {
    let mut items = Vec::new();
    let mut fence = CodeFence::default();
    let mut is_in_comment = false;
    let mut list_goes_on = false;
    // Includes lists of plain items: indented text below one is not code.
    let mut any_list_goes_on = false;
    for line in markdown.lines() {
        if is_in_comment || !fence.is_open() && line.trim_start().starts_with("<!--") {
            // A comment is invisible, so it does not end a list.
            is_in_comment = !line.contains("-->");
            continue;
        }
        let is_shown = fence.covers(line) || !any_list_goes_on && is_indented_code(line);
        if !is_shown && let Some(item) = parse_task_item(line) {
            if !list_goes_on {
                items.clear();
            }
            items.push(item);
            list_goes_on = true;
        } else {
            list_goes_on &= is_inside_list(line);
        }
        any_list_goes_on &= is_inside_list(line);
        any_list_goes_on |= !is_shown && strip_list_marker(line.trim_start()).is_some();
    }
    (!items.is_empty()).then_some(Checklist { items })
}

fn is_indented_code(line: &str) -> bool {
    let rest = line.trim_start_matches(' ');
    line.len() - rest.len() >= 4 || rest.starts_with('\t')
}

/// From pairs of content and status.
pub fn from_todos<'a>(todos: impl IntoIterator<Item = (&'a str, &'a str)>) -> Checklist {
    let items = todos.into_iter().map(|(content, status)| ChecklistItem {
        text: text::clean_line(content, MAX_ITEM_CHARS),
        done: status == "completed",
    });
    Checklist { items: items.collect() }
}

fn parse_task_item(line: &str) -> Option<ChecklistItem> {
    let rest = strip_list_marker(line.trim_start())?;
    let mark = parse_checkbox(rest).filter(|mark| mark.weight == RequirementWeight::Required)?;
    Some(ChecklistItem {
        text: text::clean_line(&rest[mark.length..], MAX_ITEM_CHARS),
        done: mark.done,
    })
}

/// What follows `- `, `* `, `+ `, `1. ` or `1) `.
fn strip_list_marker(line: &str) -> Option<&str> {
    let digits = line.bytes().take(10).take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => line.strip_prefix(['-', '*', '+'])?,
        1..=9 => line[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    let text = rest.trim_start();
    (text.len() < rest.len()).then_some(text)
}

/// Whether a line continues a list: a blank line, another item, or an indented line.
fn is_inside_list(line: &str) -> bool {
    line.trim().is_empty()
        || line.starts_with("  ")
        || line.starts_with('\t')
        || strip_list_marker(line).is_some()
}

impl Checklist {
    pub fn requirement(&self) -> Requirement {
        let open = || self.items.iter().filter(|item| !item.done);
        let (standing, next) = match open().count() {
            0 => (RequirementStatus::Met(EvidenceKind::Claimed), ""),
            count => (
                RequirementStatus::Unmet(RequirementFailure {
                    summary: format!(
                        "{} not ticked",
                        count_of_total(count, self.items.len(), "item")
                    ),
                    findings: to_findings(open().map(|item| &item.text)),
                    ..RequirementFailure::default()
                }),
                "Do what the open items say, then show the list again with every item ticked",
            ),
        };
        Requirement {
            name: "checklist".to_owned(),
            stage: RequirementStage::Planning,
            status: standing,
            weight: RequirementWeight::Required,
            next: next.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(markdown: &str) -> String {
        let items = from_markdown(markdown).unwrap_or_default().items;
        let items: Vec<_> = items
            .iter()
            .map(|item| format!("{}{}", if item.done { '+' } else { '-' }, item.text))
            .collect();
        items.join(" ")
    }

    #[test]
    fn the_last_task_list_counts() {
        for (markdown, expected) in [
            ("", ""),
            ("nothing here [ ] at all", ""),
            ("- plain\n- list", ""),
            ("- [ ] a", "-a"),
            ("- [ ] a\n* [x] b\n+ [X] c\n1. [ ] d\n2) [x] e", "-a +b +c -d +e"),
            ("- [ ] a\r\n- [x] b\r\n", "-a +b"),
            ("- [ ] a\n  - [x] b\n\t* [ ] c", "-a +b -c"),
            ("- [ ] a\n\n  more about a\n\n- [x] b", "-a +b"),
            ("- [ ] a\n- note\n- [x] b", "-a +b"),
            ("- [ ] a\n\nNow:\n\n- [x] b", "+b"),
            ("- [ ] a\n# Done\n- [x] b", "+b"),
            ("- [x] b\n\nThat is all.\n", "+b"),
            ("```\n- [ ] a\n```\n", ""),
            ("- [x] b\n~~~md\n- [ ] a\n~~~", "+b"),
            ("- [x] b\n  ```\n  - [ ] code\n  ```\n- [ ] c", "+b -c"),
            ("> - [ ] quoted", ""),
            ("-[ ] a\n- [] b\n- [y] c\n- [ ]d\n- [x](link)", ""),
            ("- [ ]", "-"),
            ("1234567890. [ ] a\n. [ ] b", ""),
            ("- [ ] a \u{1b}[31m b\u{202e}", "-a b"),
            ("-\u{a0}[ ] ä", "-ä"),
            ("- [/] a\n- [-] b\n- [~] c\n- [✓] d\n- [>] e", "-a -b -c +d -e"),
            ("- [x] a\n- [ ]* optional\n- [x]\\* too", "+a"),
            ("- [1] a\n- [a] b\n- [✗] c", ""),
            ("<!--\n- [ ] hidden\n\n- [ ] hidden\n-->\n- [x] a", "+a"),
            ("- [ ] a\n<!-- remark -->\n- [x] b", "-a +b"),
            ("- [x] a\n\n<!-- - [ ] hidden -->", "+a"),
            ("- [x] a\n<!-- never closed\n- [ ] hidden", "+a"),
            ("```\n<!--\n```\n- [ ] a", "-a"),
            ("- [ ] a <!-- remark", "-a <!-- remark"),
            ("Code:\n\n    - [ ] code\n\n- [x] a", "+a"),
            ("- [x] a\n\nCode:\n\n\t- [ ] code", "+a"),
            ("- plain\n    - [ ] a", "-a"),
            ("1. plain\n\n   more\n\n    - [ ] a", "-a"),
            ("   - [ ] a", "-a"),
        ] {
            assert_eq!(shown(markdown), expected, "{markdown:?}");
        }
    }

    #[test]
    fn only_completed_todos_are_done() {
        let list =
            from_todos([("a", "completed"), ("b", "in_progress"), ("c", "pending"), ("d", "")]);
        let done: Vec<_> = list.items.iter().map(|item| item.done).collect();
        assert_eq!(done, [true, false, false, false]);
    }

    #[test]
    fn unticked_items_are_named() {
        let list = from_markdown("- [x] a\n- [ ] b\n- [x] c\n- [ ] d\n- [x] e").unwrap();
        insta::assert_debug_snapshot!(list.requirement(), @r#"
        Requirement {
            name: "checklist",
            stage: Planning,
            status: Unmet(
                RequirementFailure {
                    summary: "2 of 5 items are not ticked",
                    findings: [
                        Finding {
                            place: None,
                            rule: None,
                            message: "b",
                            severity: Error,
                            since: Unknown,
                        },
                        Finding {
                            place: None,
                            rule: None,
                            message: "d",
                            severity: Error,
                            since: Unknown,
                        },
                    ],
                    unlisted: 0,
                    quote: None,
                    log: None,
                },
            ),
            weight: Required,
            next: "Do what the open items say, then show the list again with every item ticked",
        }
        "#);
    }

    #[test]
    fn a_ticked_list_is_a_claim() {
        let list = from_markdown("- [x] a").unwrap();
        assert_eq!(list.requirement().status, RequirementStatus::Met(EvidenceKind::Claimed));
    }

    #[test]
    fn the_summary_counts_every_item_and_findings_are_limited_to_50() {
        let list = from_markdown(&"- [ ] a\n".repeat(1000)).unwrap();
        let RequirementStatus::Unmet(failure) = list.requirement().status else {
            panic!("nothing is ticked")
        };
        assert_eq!(failure.summary, "1000 of 1000 items are not ticked");
        assert_eq!(failure.findings.len(), 50);
    }
}
