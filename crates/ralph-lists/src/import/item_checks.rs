//! Finds the checks that the items of a Markdown list name: on a line with a label, in the block below it, or as a
//! criterion that says how its command ends.

use std::collections::{BTreeMap, BTreeSet};

use ralph_core::source::item_check::ItemCheck;
use ralph_core::source::work_list::ListItem;
use ralph_core::text;

use super::CheckLine;
use super::check_text::{self, CheckText};
use crate::list_marker::list_item_text;
use crate::plan;

const MAX_SHOWN_CHARS: usize = 200;
/// A longer wrapped command is not joined: each further line would copy all lines before it.
const MAX_WRAPPED_BYTES: usize = 4_000;

/// The checks of a list's items.
#[derive(Default)]
pub(super) struct ItemChecks {
    /// By the line of the item.
    by_item: BTreeMap<u32, Vec<ItemCheck>>,
    pub(super) lines: Vec<CheckLine>,
    /// Lines of blocks whose text is part of a check.
    pub(super) taken: BTreeSet<u32>,
}

impl ItemChecks {
    /// The check of the item at a line. Several become one that needs all of them.
    pub(super) fn take(&mut self, line: u32) -> Option<ItemCheck> {
        self.by_item.remove(&line).map(|checks| check_text::join_checks(&checks))
    }
}

struct CheckScanner<'t> {
    lines: Vec<&'t str>,
    items: BTreeSet<u32>,
    found: ItemChecks,
    /// The checks of `found`, with the lines of their items: an item may have very many.
    seen: BTreeSet<(u32, Vec<String>)>,
}

/// The item that a line belongs to.
#[derive(Clone, Copy)]
struct OpenItem {
    line: u32,
    indent: usize,
}

pub(super) fn find_item_checks(body: &str, items: &[ListItem]) -> ItemChecks {
    let mut scanner = CheckScanner {
        lines: body.lines().collect(),
        items: items.iter().filter_map(|item| item.line).collect(),
        found: ItemChecks::default(),
        seen: BTreeSet::new(),
    };
    for item in items {
        scanner.add_trailing_check(item);
    }
    scanner.scan();
    scanner.found.lines.sort_by_key(|line| line.line);
    scanner.found
}

impl CheckScanner<'_> {
    /// Adds `(verify: …)` at the end of an item.
    fn add_trailing_check(&mut self, item: &ListItem) {
        let line = item.line.unwrap_or_default();
        // The text of the item is cleaned, so an invisible character shows only in its line.
        let source = line.checked_sub(1).and_then(|at| self.lines.get(at as usize));
        let is_visible = source
            .is_none_or(|line| !line.chars().any(|char| text::is_hidden(char) && char != '\t'));
        let check = plan::split_trailing_check(&item.text).map(|(_, check)| {
            if !is_visible {
                return Err("its check has invisible characters");
            }
            check_text::finish_check(check)
        });
        let why = || plan::unusable_trailing_check(&item.text).map(Err);
        let whole = || {
            let runs = || check_text::parse_run_item(&item.text);
            check_text::parse_criterion(&item.text).or_else(runs).map(Ok)
        };
        if let Some(found) = check.or_else(why).or_else(whole) {
            self.add(line, line, &item.text, found);
        }
    }

    fn scan(&mut self) {
        let mut open: Option<OpenItem> = None;
        let mut at = 0;
        while let Some(line) = self.lines.get(at).copied() {
            let number = line_number(at);
            let (indent, trimmed) = (indentation(line), line.trim());
            let mut next = at.saturating_add(1);
            if fence_mark(trimmed).is_some() {
                next = self.fence_end(at);
            } else if self.items.contains(&number) {
                open = Some(OpenItem { line: number, indent });
            } else if !trimmed.is_empty() {
                let is_below = open.is_some_and(|item| indent > item.indent);
                open = open.filter(|_| is_below);
                if let Some(item) = open {
                    next = self.read_line(at, item);
                } else if trimmed.contains("**") && check_text::strip_label(line).is_some() {
                    self.add(0, number, line, Err("it belongs to no item"));
                }
            }
            at = next;
        }
    }

    /// Reads one line of an item; returns the index of the next line to read.
    fn read_line(&mut self, at: usize, item: OpenItem) -> usize {
        let line = self.lines.get(at).copied().unwrap_or_default();
        let (number, mut next) = (line_number(at), at.saturating_add(1));
        let Some(mut text) = check_text::strip_label(line).map(str::to_string) else {
            let step = list_item_text(line.trim()).unwrap_or(line.trim());
            if let Some(check) = check_text::parse_criterion(step) {
                self.add(item.line, number, step, Ok(check));
            }
            return next;
        };
        // A command in backticks may be wrapped.
        while text.len() <= MAX_WRAPPED_BYTES
            && text.matches('`').count() % 2 == 1
            && let Some(more) = self.continuation(next, indentation(line))
        {
            text = format!("{text} {more}");
            next = next.saturating_add(1);
        }
        match check_text::parse_check_text(&text) {
            CheckText::Command(check) => self.add(item.line, number, line, Ok(check)),
            CheckText::NotUnderstood(why) => self.add(item.line, number, line, Err(why)),
            CheckText::Block => {
                let (end, found) = self.read_block(next, indentation(line));
                let is_understood = found.is_ok();
                self.add(item.line, number, line, found);
                if is_understood {
                    // Comments are not part of the check.
                    let is_whole =
                        |at: &usize| self.lines.get(*at).is_some_and(|line| !line.contains('#'));
                    let whole: Vec<u32> = (next..end).filter(is_whole).map(line_number).collect();
                    self.found.taken.extend(whole);
                }
                next = end;
            }
        }
        next
    }

    /// The text of a line that continues the one before it.
    fn continuation(&self, at: usize, above: usize) -> Option<&str> {
        let line = self.lines.get(at)?;
        let is_more = indentation(line) > above
            && !line.trim().is_empty()
            && !self.items.contains(&line_number(at))
            && list_item_text(line.trim()).is_none();
        is_more.then(|| line.trim())
    }

    /// Reads the fenced blocks and lists below a label. Returns the index after them and their commands as one check.
    fn read_block(&self, from: usize, above: usize) -> (usize, Result<ItemCheck, &'static str>) {
        let mut checks = Vec::new();
        let mut at = from;
        let mut why = None;
        while let Some(line) = self.lines.get(at) {
            let trimmed = line.trim();
            let is_inside = indentation(line) > above
                || fence_mark(trimmed).is_some() && indentation(line) >= above
                || trimmed.is_empty();
            if !is_inside || self.items.contains(&line_number(at)) {
                break;
            }
            if fence_mark(trimmed).is_some() {
                let end = self.fence_end(at);
                let inner = self.lines.get(at.saturating_add(1)..end.saturating_sub(1));
                match check_text::parse_block(&unindent(inner.unwrap_or_default())) {
                    Ok(check) => checks.push(check),
                    Err(reason) => why = why.or(Some(reason)),
                }
                at = end;
                continue;
            }
            let item = list_item_text(trimmed).unwrap_or(trimmed);
            match check_text::listed_check(item) {
                Some(Ok(check)) => checks.push(check),
                Some(Err(reason)) => why = why.or(Some(reason)),
                // A sentence among commands.
                None if trimmed.is_empty() => {}
                None => why = why.or(Some("a line of its block is no command")),
            }
            at = at.saturating_add(1);
        }
        let found = match (why, checks.is_empty()) {
            (None, false) => Ok(check_text::join_checks(&checks)),
            (why, _) => Err(why.unwrap_or("no command follows")),
        };
        (at, found)
    }

    /// The index after the fence that begins at a line.
    fn fence_end(&self, at: usize) -> usize {
        let mark = self.lines.get(at).and_then(|line| fence_mark(line.trim())).unwrap_or_default();
        let from = at.saturating_add(1);
        let rest = self.lines.get(from..).unwrap_or_default();
        let is_end = |line: &&str| {
            let line = line.trim();
            line.starts_with(mark) && line.trim_matches(['`', '~']).is_empty()
        };
        let inside = rest.iter().position(is_end).unwrap_or(rest.len());
        from.saturating_add(inside).saturating_add(1).min(self.lines.len())
    }

    fn add(&mut self, item: u32, line: u32, text: &str, found: Result<ItemCheck, &'static str>) {
        let text = text::clean_line(text, MAX_SHOWN_CHARS);
        let why_not = match found {
            Ok(check) => {
                if self.seen.insert((item, check_words(&check))) {
                    self.found.by_item.entry(item).or_default().push(check);
                }
                None
            }
            Err(why) => Some(why),
        };
        self.found.lines.push(CheckLine { line, text, why_not });
    }
}

/// The words of a check, to compare it with others. A line for a shell differs from a program of the same name.
fn check_words(check: &ItemCheck) -> Vec<String> {
    match check {
        ItemCheck::Argv(words) => words.clone(),
        ItemCheck::Shell { shell } => vec![String::new(), shell.clone()],
    }
}

/// The marks that a fence begins with.
fn fence_mark(trimmed: &str) -> Option<&str> {
    let marks = trimmed.len().saturating_sub(trimmed.trim_start_matches(['`', '~']).len());
    trimmed.get(..marks).filter(|marks| marks.len() >= 3)
}

fn line_number(at: usize) -> u32 {
    u32::try_from(at.saturating_add(1)).unwrap_or(u32::MAX)
}

fn indentation(line: &str) -> usize {
    line.len().saturating_sub(line.trim_start().len())
}

/// The lines without their common indentation.
fn unindent<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let common = filled.map(|line| indentation(line)).min().unwrap_or(0);
    lines.iter().map(|line| line.get(common..).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scan of all checks found so far for each line would take minutes.
    #[test]
    fn an_item_with_very_many_checks_keeps_each_once() {
        let count = 30_000;
        let lines = (0..count).map(|number| format!("  - verify: `grep -q {number} out.txt`\n"));
        let body = format!(
            "- [ ] all of it\n{}{}",
            lines.clone().collect::<String>(),
            lines.collect::<String>()
        );
        let item = ListItem {
            name: "all".to_string(),
            text: "all of it".to_string(),
            steps: Vec::new(),
            done: false,
            check: None,
            weight: ralph_core::requirement::RequirementWeight::Required,
            line: Some(1),
            names: Vec::new(),
        };
        let mut found = find_item_checks(&body, &[item]);
        assert_eq!(found.lines.len(), 2 * count);
        let ItemCheck::Shell { shell } = found.take(1).unwrap() else { panic!("not joined") };
        assert_eq!(shell.matches("grep").count(), count);
    }
}
