//! Proposals from lessons: a finding that held many runs is worth a rule that finds it earlier. Nothing here applies one.

use super::proposal_rules::{
    PolicyProposal, ProjectSettings, ProposalKind, ProposedEdit, toml_list,
};
use super::stats_rows::StatsProject;
use ralph_core::gate::GateTrigger;
use ralph_core::lesson::Lesson;
use ralph_core::policy::LineCheck;
use ralph_core::text::{self, count_noun};

/// Runs with the same finding that make it a habit.
const REPEATED_RUNS: u32 = 4;
const LONGEST_FINDING: usize = 120;

/// Words of linters' findings that a built-in check of added lines reports too, without running anything.
const LINE_CHECK_WORDS: [(LineCheck, &[&str]); 3] = [
    (
        LineCheck::DebugPrint,
        &["no-console", "console.log", "dbg_macro", "dbg!", "print_stdout", "t201"],
    ),
    (LineCheck::Debugger, &["no-debugger", "t100", "breakpoint()"]),
    (LineCheck::SkippedTest, &["no-disabled-tests", "no-skipped-test", "no-focused-tests"]),
];

/// At most one proposal per finding.
pub(super) fn propose_from_lessons(settings: &ProjectSettings) -> Vec<PolicyProposal> {
    let repeated = settings.lessons.iter().filter(|it| it.run_count() >= REPEATED_RUNS);
    repeated
        .filter_map(|lesson| {
            forbid_lines(settings, lesson).or_else(|| run_earlier(settings, lesson))
        })
        .collect()
}

/// A check of added lines reports the same at once, before slower gates run.
fn forbid_lines(settings: &ProjectSettings, lesson: &Lesson) -> Option<PolicyProposal> {
    let finding = lesson.finding.to_lowercase();
    let mentioned =
        |(_, words): &&(LineCheck, &[&str])| words.iter().any(|word| has_word(&finding, word));
    let (check, _) = LINE_CHECK_WORDS.iter().find(mentioned)?;
    if settings.forbidden.contains(check) {
        return None;
    }
    let mut names: Vec<_> = settings.forbidden.iter().map(|check| check.name()).collect();
    names.push(check.name());
    Some(PolicyProposal {
        number: 0,
        kind: ProposalKind::Forbid,
        project: StatsProject::of(&settings.project),
        title: format!("Check added lines for `{}`", check.name()),
        reason: evidence(lesson),
        gain: "the finding is reported without running a gate".to_string(),
        price: "nothing is run; other lines are not checked".to_string(),
        edit: ProposedEdit::of_section(&settings.file, "lines", "forbid", toml_list(&names)),
    })
}

/// Whether the text contains the word, not as a part of a longer one: `t100` is not in `cost100` or `t1002`.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-');
    text.match_indices(word).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        // A sign at the end of the word, as in `dbg!`, is a boundary itself.
        !before.is_some_and(is_part) && (!found.ends_with(is_part) || !after.is_some_and(is_part))
    })
}

/// The gate runs whenever a task is completed, so that the finding does not wait for the stop.
fn run_earlier(settings: &ProjectSettings, lesson: &Lesson) -> Option<PolicyProposal> {
    let gate = settings.gates.iter().find(|gate| gate.name == lesson.requirement)?;
    if gate.on.contains(&GateTrigger::Task) {
        return None;
    }
    let mut on: Vec<_> = gate.on.iter().map(|trigger| trigger.name()).collect();
    on.push(GateTrigger::Task.name());
    Some(PolicyProposal {
        number: 0,
        kind: ProposalKind::Recurring,
        project: StatsProject::of(&settings.project),
        title: format!("Run `{}` when a task is completed", gate.name),
        reason: evidence(lesson),
        gain: "the finding is seen before the stop".to_string(),
        price: "the gate runs after each task".to_string(),
        edit: ProposedEdit::of_gate(settings, &gate.name, "on", toml_list(&on)),
    })
}

/// The runs and the finding that a proposal rests on.
fn evidence(lesson: &Lesson) -> String {
    format!(
        "`{}` held {} in {} with the same finding: {}. `ralph memory show {}` has the runs; \
         `ralph memory add` saves a note for agents instead.",
        text::clean_line(&lesson.requirement, LONGEST_FINDING),
        count_noun(lesson.hold_count(), "stop"),
        count_noun(lesson.run_count(), "run"),
        text::clean_line(&lesson.finding, LONGEST_FINDING),
        text::clean_line(&lesson.id, LONGEST_FINDING),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_rule_is_a_whole_word() {
        for (finding, check) in [
            ("t201 `print` found", Some(LineCheck::DebugPrint)),
            ("src/app.py:3:1 (t201)", Some(LineCheck::DebugPrint)),
            ("eslint/no-console: unexpected console statement", Some(LineCheck::DebugPrint)),
            ("remove dbg!(value)", Some(LineCheck::DebugPrint)),
            ("t100 trace found", Some(LineCheck::Debugger)),
            ("breakpoint() found", Some(LineCheck::Debugger)),
            ("a cost100 field is missing", None),
            ("port t1000 is in use", None),
            ("abt201 differs", None),
            ("test_t100 failed", None),
            ("no-console-extra is unknown", None),
        ] {
            let found = LINE_CHECK_WORDS
                .iter()
                .find(|(_, words)| words.iter().any(|word| has_word(finding, word)));
            assert_eq!(found.map(|(check, _)| *check), check, "{finding}");
        }
    }
}
