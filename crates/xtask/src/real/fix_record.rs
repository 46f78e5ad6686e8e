//! The record of all replays: a table in `docs/design`, which is parsed again so that some fixes can be replayed without
//! the others.

use super::fix_replay::{PlayEnd, ReplayResult};
use super::fix_table::FixCase;
use ralph_core::text::collapse_whitespace;
use std::collections::BTreeSet;

const COLUMNS: &str = "| project | registry | versions | gates | gates take | held for | held stop takes | the fix | code alone | hidden damage | played |";
const MISTAKE_START: &str = "- ";
const LEFT_OUT: &str = "fail on the unchanged source:";
const NONE: &str = "–";
const MAX_REASON_CHARS: usize = 100;

#[derive(Default)]
pub(super) struct FixRecord {
    rows: Vec<RecordRow>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordRow {
    /// In the order of the columns.
    cells: [String; 11],
    mistakes: Vec<String>,
}

impl RecordRow {
    pub(super) fn new(case: &FixCase, result: &ReplayResult, date: &str) -> Self {
        let names = |passed: bool| {
            let gates = result.gates.iter().filter(|gate| gate.has_passed() == passed);
            gates.map(|gate| gate.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let left_out = names(false);
        let gates = match left_out.as_str() {
            "" => names(true),
            _ => format!("{} ({LEFT_OUT} {left_out})", names(true)),
        };
        // The first line says which requirement holds, the others what it found.
        let reason = result.held_reason.get(1).or(result.held_reason.first());
        let cells = [
            case.package.clone(),
            case.registry.name().to_owned(),
            versions(case),
            gates,
            format!("{:.1} s", result.gate_time().as_secs_f64()),
            reason.map_or_else(|| NONE.to_owned(), |reason| shorten(reason)),
            format!("{:.1} s", result.held_time.as_secs_f64()),
            result.fixed.cell(),
            result.code_alone.cell(),
            result.regression.as_ref().map_or_else(|| NONE.to_owned(), PlayEnd::cell),
            date.to_owned(),
        ];
        let mistakes = result.mistakes(&case.fix).iter().map(|text| clean_cell(text)).collect();
        Self { cells: cells.map(|cell| clean_cell(&cell)), mistakes }
    }

    fn key(&self) -> String {
        let [package, _, versions, ..] = &self.cells;
        format!("{package} {versions}")
    }

    pub(super) fn mistakes(&self) -> &[String] {
        &self.mistakes
    }

    pub(super) fn summary(&self) -> String {
        let [.., held, _, fixed, alone, damage, _] = &self.cells;
        format!("held for {held}; fix {fixed}; code alone {alone}; hidden damage {damage}")
    }

    /// A mistake that the table does not know, or one that it knows and that is gone.
    pub(super) fn surprise(&self, case: &FixCase) -> Option<String> {
        match (&case.fix.known_mistake, self.mistakes.is_empty()) {
            (None, false) => Some(format!("{}: {}", case.label(), self.mistakes.join("; "))),
            (Some(known), true) => {
                Some(format!("{}: this mistake is gone, remove it: {known}", case.label()))
            }
            (None, true) | (Some(_), false) => None,
        }
    }

    /// How the replay ended, without what depends on the machine.
    fn ends(&self) -> (bool, [&str; 3]) {
        let [.., held, _, fixed, alone, damage, _] = &self.cells;
        (held == NONE, [fixed, alone, damage])
    }

    fn line(&self) -> String {
        format!("| {} |\n", self.cells.join(" | "))
    }

    fn parse(line: &str) -> Option<Self> {
        let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let cells: Vec<_> = inner.split(" | ").map(str::to_owned).collect();
        let cells = <[String; 11]>::try_from(cells).ok()?;
        (cells[0] != "project").then(|| Self { cells, mistakes: Vec::new() })
    }
}

impl FixRecord {
    pub(super) fn parse(text: &str) -> Self {
        let mut rows: Vec<_> = text.lines().filter_map(RecordRow::parse).collect();
        for mistake in text.lines().filter_map(|line| line.strip_prefix(MISTAKE_START)) {
            for row in &mut rows {
                if let Some(text) = mistake.strip_prefix(&format!("{}: ", row.key())) {
                    row.mistakes.push(text.to_owned());
                }
            }
        }
        Self { rows }
    }

    #[cfg(test)]
    pub(super) fn has(&self, case: &FixCase) -> bool {
        self.rows.iter().any(|row| row.key() == case.label())
    }

    pub(super) fn agrees_with(&self, row: &RecordRow) -> bool {
        self.rows.iter().any(|known| known.key() == row.key() && known.ends() == row.ends())
    }

    pub(super) fn put(&mut self, row: RecordRow) {
        self.rows.retain(|known| known.key() != row.key());
        self.rows.push(row);
    }

    /// The text of the record: the rows of the tables, in their order.
    pub(super) fn render(&self, cases: &[FixCase]) -> String {
        let row_of = |case: &FixCase| self.rows.iter().find(|row| row.key() == case.label());
        let rows: Vec<_> = cases.iter().filter_map(row_of).collect();
        let projects: BTreeSet<_> = rows.iter().map(|row| &row.cells[0]).collect();
        let count = |column: usize, status: &str| {
            rows.iter()
                .filter(|row| row.cells.get(column).is_some_and(|cell| cell == status))
                .count()
        };
        let held = rows.iter().filter(|row| !row.ends().0).count();
        let damaged = rows.len() - count(9, NONE);
        let mut text = format!(
            "# Bug fixes of published projects\n\nWritten by `cargo xtask real`. Do not edit. The fixes are in [`crates/xtask/real`](../../crates/xtask/real/README.md).\n\n\
            {fixes} fixes of {projects} projects. With the tests of the fix and without its code, {held} of {fixes} stops were held. With the code,\n\
            {verified} of {fixes} runs ended `verified`; {changed} fixes change what the older tests expect, and deserve `needs_review`. The code without its tests ended `green` in {green} of {fixes} runs. Of {damaged} fixes with\n\
            damage that a deleted old test would have noticed, {escaped} ended `verified`.\n\n\
            “Gates” are those that `ralph gate detect` proposed. Those that do not pass on the untouched source are left out, as a person would do:\n\
            {left_out} fixes. Times are of a debug build on a busy machine with two cores: compare them with each other only.\n\n{COLUMNS}\n{line}\n",
            fixes = rows.len(),
            projects = projects.len(),
            verified = count(7, "verified"),
            changed = cases.iter().filter(|case| case.fix.changes_expectations).count(),
            green = count(8, "green") + count(8, "green, held once"),
            escaped = count(9, "verified"),
            left_out = rows.iter().filter(|row| row.cells[3].contains(LEFT_OUT)).count(),
            line = "|---".repeat(11) + "|",
        );
        text.extend(rows.iter().map(|row| row.line()));
        text.push_str("\n## Wrong results\n\n");
        let mut is_right = true;
        for (row, case) in rows.iter().zip(cases.iter().filter(|case| row_of(case).is_some())) {
            for mistake in &row.mistakes {
                is_right = false;
                text.push_str(&format!("{MISTAKE_START}{}: {mistake}\n", row.key()));
            }
            if let Some(known) = &case.fix.known_mistake {
                text.push_str(&format!("  {known}\n"));
            }
        }
        if is_right {
            text.push_str("None.\n");
        }
        text
    }
}

impl PlayEnd {
    fn cell(&self) -> String {
        match self.holds {
            0 => self.status.clone(),
            1 => format!("{}, held once", self.status),
            holds => format!("{}, held {holds} times", self.status),
        }
    }
}

fn versions(case: &FixCase) -> String {
    format!("{} → {}", case.fix.older, case.fix.newer)
}

/// Shortens a finding in its middle: the location is at its start, and the test at its end, in brackets.
fn shorten(text: &str) -> String {
    let (message, name) = match text.rfind(" [") {
        Some(at) if text.ends_with(']') => text.split_at(at),
        Some(_) | None => (text, ""),
    };
    match message.char_indices().nth(MAX_REASON_CHARS) {
        Some((at, _)) => format!("{}…{name}", message.get(..at).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}

/// Text that stays in its cell, and that no reader takes for Markdown.
fn clean_cell(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;");
    collapse_whitespace(&text)
}

#[cfg(test)]
mod tests {
    use super::super::fix_replay::ReplayResult;
    use super::super::fix_table::load_cases;
    use super::*;
    use std::time::Duration;

    fn end(status: &str, holds: usize) -> PlayEnd {
        PlayEnd { status: status.to_owned(), holds, reason: Vec::new() }
    }

    fn result(fixed: PlayEnd) -> ReplayResult {
        ReplayResult {
            gates: Vec::new(),
            held_reason: vec!["tests: 1 finding".to_owned(), "a | b\\c <d>".to_owned()],
            names_the_test: true,
            held_time: Duration::from_millis(1_450),
            fixed,
            code_alone: end("green", 1),
            regression: None,
        }
    }

    #[test]
    fn a_long_finding_keeps_the_name_of_its_test() {
        let long = format!("a.py:1: {} [test_a]", "x".repeat(200));
        assert_eq!(shorten(&long), format!("a.py:1: {}… [test_a]", "x".repeat(92)));
        assert_eq!(shorten("a.py:1: x [test_a]"), "a.py:1: x [test_a]");
    }

    /// Results of fixes that were not replayed this time must survive, with their mistakes.
    #[test]
    fn a_record_that_is_read_again_is_the_same() {
        let mut cases = load_cases().unwrap();
        cases.retain(|case| !case.fix.changes_expectations && case.fix.known_mistake.is_none());
        cases.truncate(2);
        let [right, wrong] = &cases[..] else { panic!("two fixes") };
        let mut record = FixRecord::default();
        record.put(RecordRow::new(right, &result(end("verified", 0)), "2026-01-02"));
        record.put(RecordRow::new(wrong, &result(end("green", 2)), "2026-01-02"));
        let text = record.render(&cases);
        assert_eq!(FixRecord::parse(&text).render(&cases), text);
        let table: Vec<_> = text.lines().filter(|line| line.contains("2026-01-02")).collect();
        let row = |case: &FixCase, fixed: &str| {
            let (name, registry) = (&case.package, case.registry.name());
            let versions = versions(case);
            format!(
                "| {name} | {registry} | {versions} |  | 0.0 s | a \\| b\\\\c &lt;d> | 1.4 s | {fixed} | green, held once | – | 2026-01-02 |"
            )
        };
        assert_eq!(table, [row(right, "verified"), row(wrong, "green, held 2 times")]);
        let mistake = format!(
            "- {}: the fix ended `green` after 2 held stops, not `verified`",
            wrong.label()
        );
        assert!(text.lines().any(|line| line == mistake), "{text}");
    }

    #[test]
    fn only_another_end_is_a_drift() {
        let cases = load_cases().unwrap();
        let case = &cases[0];
        let row = |fixed| RecordRow::new(case, &result(fixed), "2026-01-02");
        let mut record = FixRecord::default();
        record.put(row(end("verified", 0)));
        let mut later = RecordRow::new(case, &result(end("verified", 0)), "2027-01-02");
        later.cells[4] = "9.9 s".to_owned();
        assert!(record.agrees_with(&later));
        assert!(!record.agrees_with(&row(end("green", 1))));
    }

    #[test]
    fn unknown_mistakes_and_known_ones_that_are_gone_are_surprises() {
        let mut case = load_cases().unwrap().swap_remove(0);
        case.fix.changes_expectations = false;
        let surprise = |case: &FixCase, fixed| {
            RecordRow::new(case, &result(fixed), "2026-01-02").surprise(case)
        };
        case.fix.known_mistake = None;
        assert_eq!(surprise(&case, end("verified", 0)), None);
        assert_eq!(
            surprise(&case, end("stuck", 0)),
            Some(format!("{}: the fix ended `stuck`, not `verified`", case.label()))
        );
        case.fix.known_mistake = Some("because".to_owned());
        assert_eq!(surprise(&case, end("stuck", 0)), None);
        assert_eq!(
            surprise(&case, end("verified", 0)),
            Some(format!("{}: this mistake is gone, remove it: because", case.label()))
        );
    }
}
