//! What a reviewer should look at first, most important first.

use super::board_row::stop_report;
use super::run_standing::RunStanding;
use super::timeline::outcome_in_brackets;
use crate::view::decisions::journal_damage_text;
use ralph_core::record::{JournalEntry, ReportLine, ReportedStatus, RunChange, StopRecord};
use ralph_core::requirement::{OLD_FAILURES_REQUIREMENT, TEST_CHANGES_REQUIREMENT};
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_home::journal::JournalDamage;
use ralph_tally::DisputeOutcomes;
use serde::Serialize;

const LONGEST_LINE: usize = 300;
/// How many lines of one kind are listed.
const MAX_OF_A_KIND: usize = 20;
/// Requirements of ralph itself whose failure a reviewer should know of, even if it was repaired later.
const GUARDED: [&str; 5] =
    ["test integrity", "protected files", "policy", "nothing hidden", "added lines"];

/// Something a reviewer should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LookFirst {
    pub kind: LookFirstKind,
    pub text: String,
    /// The stop that it appeared at.
    pub stop: Option<u32>,
}

/// In the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LookFirstKind {
    /// The journal was edited or is missing.
    JournalEdit,
    /// ralph's own files were edited.
    Tampering,
    /// The agent asked, and no person has answered.
    Question,
    /// A requirement that was not met when the run ended or stopped.
    Unmet,
    /// Why the run ended without a good result.
    Halted,
    /// Why a run that has not ended waits for a person.
    Waits,
    /// Why a run whose requirements are met is not verified: no test shows that the work is needed, or a judge decided.
    Unproved,
    /// A test of the base no longer passes on the new code.
    BrokenTest,
    /// An expectation of an old test changed.
    AmendedTest,
    /// A test of the base no longer runs.
    RemovedTest,
    /// A file with tests was there before and was changed or deleted.
    ChangedTestFile,
    /// A judge that holds nothing says that the work is not done.
    Advice,
    /// A person accepted the work without proof.
    Accepted,
    Waiver,
    Dispute,
    /// Files that may decide what is checked were changed: CI, the policy, what it protects, settings of tools.
    SettingsChanged,
    /// A change to tests, settings or lines that ralph guards was made and undone later.
    Undone,
    /// A failure that was there before.
    OldFailure,
    DeniedCall,
    /// Changed files that the goal does not seem to be about: a guess from their names.
    OutsideGoal,
}

impl LookFirstKind {
    /// Whether it is about tests that were there before the work.
    pub(super) fn is_about_tests(self) -> bool {
        matches!(self, Self::BrokenTest | Self::AmendedTest | Self::RemovedTest)
    }

    /// The kind for people, before or after the text.
    pub fn label(self) -> &'static str {
        match self {
            Self::JournalEdit => "nothing here can be trusted",
            Self::Question => "the agent asks",
            Self::Unmet => "not met",
            Self::Halted => "why it ended",
            Self::Waits => "why it waits for you",
            Self::Unproved => "why it is not verified",
            Self::Tampering => "ralph's own files were edited",
            Self::BrokenTest => "an old test no longer passes",
            Self::AmendedTest => "an old test was changed",
            Self::RemovedTest => "an old test no longer runs",
            Self::ChangedTestFile => "an old test file was changed",
            Self::Advice => "an advisory judge says not met",
            Self::Accepted => "accepted without proof",
            Self::Waiver => "waived",
            Self::Dispute => "disputed by the agent",
            Self::SettingsChanged => "checks may have changed",
            Self::Undone => "made and undone",
            Self::OldFailure => "failed before the work too",
            Self::DeniedCall => "a tool call was denied",
            Self::OutsideGoal => "perhaps not asked for (a guess: the goal names other files)",
        }
    }
}

/// What is known of a run besides the changes in its journal.
pub(super) struct LookFirstContext<'a> {
    pub standing: RunStanding,
    /// Why it ended or was parked.
    pub note: Option<&'a str>,
    /// The open question, or the last question of a run that ended because of it.
    pub question: Option<&'a str>,
    pub journal_edit: Option<&'a JournalDamage>,
}

/// What a reviewer should look at first, with what a run that did not end well waits for.
pub(super) fn run_look_first(
    entries: &[JournalEntry],
    context: &LookFirstContext<'_>,
) -> Vec<LookFirst> {
    let mut found = look_first(entries);
    if let Some(damage) = context.journal_edit {
        found.push(look_first_line(LookFirstKind::JournalEdit, &journal_damage_text(damage), None));
    } else if needs_person(context.standing) {
        let question = context.question;
        found.extend(question.map(|asked| look_first_line(LookFirstKind::Question, asked, None)));
        found.extend(unmet_lines(entries));
        let note = context.note.filter(|_| question.is_none());
        let kind =
            if context.standing.has_ended() { LookFirstKind::Halted } else { LookFirstKind::Waits };
        found.extend(note.map(|note| look_first_line(kind, note, None)));
    } else if context.standing == RunStanding::Ended(RunStatus::Green) {
        found.extend(context.note.map(|note| look_first_line(LookFirstKind::Unproved, note, None)));
    }
    found.sort_by_key(|one| one.kind);
    found
}

/// Whether a run has stopped, and not with a good result.
fn needs_person(standing: RunStanding) -> bool {
    match standing {
        RunStanding::Working | RunStanding::Waiting | RunStanding::Accepted => false,
        RunStanding::Asks
        | RunStanding::Paused
        | RunStanding::Orphaned
        | RunStanding::Unprotected
        | RunStanding::Parked(_) => true,
        RunStanding::Ended(status) => {
            !matches!(status, RunStatus::Verified | RunStatus::Green | RunStatus::Claimed)
        }
    }
}

/// The requirements that were open at the last judged stop, each with its first finding.
fn unmet_lines(entries: &[JournalEntry]) -> Vec<LookFirst> {
    let stops = || entries.iter().filter_map(|entry| stop_report(&entry.change));
    let stop = u32::try_from(stops().count()).unwrap_or(u32::MAX);
    let Some(report) = stops().next_back() else { return Vec::new() };
    let open = report.lines.iter().filter(|open| {
        matches!(open.standing, ReportedStatus::Unmet | ReportedStatus::Unknown)
            && open.name != TEST_CHANGES_REQUIREMENT
            && open.name != OLD_FAILURES_REQUIREMENT
    });
    open.take(MAX_OF_A_KIND)
        .map(|open| {
            let what = open.first.as_ref().unwrap_or(&open.note);
            look_first_line(LookFirstKind::Unmet, &format!("{}: {what}", open.name), Some(stop))
        })
        .collect()
}

/// What a reviewer should look at first, most important first.
pub fn look_first(entries: &[JournalEntry]) -> Vec<LookFirst> {
    let mut found = Vec::new();
    let mut stop = 0_u32;
    let mut last: Option<&StopRecord> = None;
    let mut guarded: Vec<(&str, u32, Option<u32>)> = Vec::new();
    let disputes = DisputeOutcomes::from_journal(entries);
    for entry in entries {
        if let RunChange::Decided(decided) = &entry.change {
            if let Some(report) = &decided.report {
                stop = stop.saturating_add(1);
                note_guarded(&mut guarded, &report.lines, stop);
                last = Some(decided);
            }
            if let Some(what) = &decided.tampering {
                found.push(look_first_line(LookFirstKind::Tampering, what, Some(stop)));
            }
        }
        if let RunChange::Disputed(dispute) = &entry.change {
            let outcome = outcome_in_brackets(disputes.of_line(entry.seq));
            let text = format!("{}{outcome}: {}", dispute.requirement, dispute.why);
            found.push(look_first_line(LookFirstKind::Dispute, &text, Some(stop)));
        }
        found.extend(change_line(&entry.change, stop));
    }
    for (name, first, undone) in guarded {
        if let Some(undone) = undone {
            let text = format!("{name}: not met at stop {first}, repaired by stop {undone}");
            found.push(look_first_line(LookFirstKind::Undone, &text, Some(first)));
        }
    }
    found.extend(last.into_iter().flat_map(|last| last_lines(last, stop)));
    found.sort_by_key(|one| one.kind);
    found.dedup_by(|one, other| one.kind == other.kind && one.text == other.text);
    let mut count = (None, 0);
    found.retain(|one| {
        count =
            if count.0 == Some(one.kind) { (count.0, count.1 + 1) } else { (Some(one.kind), 1) };
        count.1 <= MAX_OF_A_KIND
    });
    found
}

pub(super) fn look_first_line(kind: LookFirstKind, text: &str, stop: Option<u32>) -> LookFirst {
    LookFirst {
        kind,
        text: text::clean_line(text, LONGEST_LINE),
        stop: stop.filter(|stop| *stop > 0),
    }
}

/// Remembers when a guarded requirement was first not met, and when it was met again.
fn note_guarded<'a>(
    guarded: &mut Vec<(&'a str, u32, Option<u32>)>,
    lines: &'a [ReportLine],
    stop: u32,
) {
    let is_open = |name: &str| lines.iter().any(|line| line.name == name);
    for (name, _, undone) in guarded.iter_mut() {
        *undone = if is_open(name) { None } else { undone.or(Some(stop)) };
    }
    for line in lines.iter().filter(|line| GUARDED.contains(&line.name.as_str())) {
        if !guarded.iter().any(|(name, ..)| *name == line.name) {
            guarded.push((&line.name, stop, None));
        }
    }
}

fn change_line(change: &RunChange, stop: u32) -> Option<LookFirst> {
    let (kind, text) = if let RunChange::Waived(waiver) = change {
        let text = format!("{} waived by {}: {}", waiver.requirement, waiver.by, waiver.why);
        (LookFirstKind::Waiver, text)
    } else if let RunChange::Accepted(acceptance) = change {
        (LookFirstKind::Accepted, acceptance.describe())
    } else if let RunChange::Denied { tool, what, call } = change {
        (LookFirstKind::DeniedCall, format!("{tool} ({what}): {call}"))
    } else {
        return None;
    };
    Some(look_first_line(kind, &text, Some(stop)))
}

/// What the last judged stop says about tests, and what judges say that hold nothing.
fn last_lines(last: &StopRecord, stop: u32) -> Vec<LookFirst> {
    let mut found = Vec::new();
    let stop = Some(stop);
    if let Some(proof) = &last.proof {
        let broken = proof.broken_lines();
        found.extend(
            broken.iter().map(|text| look_first_line(LookFirstKind::BrokenTest, text, stop)),
        );
        let allowed = proof.allowed.iter();
        found.extend(allowed.map(|file| {
            look_first_line(
                LookFirstKind::AmendedTest,
                &format!("{file} was allowed to change"),
                stop,
            )
        }));
        let removed = proof.removed.iter();
        found.extend(removed.map(|test| {
            look_first_line(LookFirstKind::RemovedTest, &format!("{test} no longer runs"), stop)
        }));
    }
    for open in last.report.iter().flat_map(|report| &report.lines) {
        let kind = match open.name.as_str() {
            TEST_CHANGES_REQUIREMENT => LookFirstKind::AmendedTest,
            OLD_FAILURES_REQUIREMENT => LookFirstKind::OldFailure,
            name if open.judge.is_some() && open.standing == ReportedStatus::Advisory => {
                let what = open.first.as_ref().unwrap_or(&open.note);
                found.push(look_first_line(
                    LookFirstKind::Advice,
                    &format!("{name}: {what}"),
                    stop,
                ));
                continue;
            }
            _ => continue,
        };
        let listed = open.first.iter().chain(&open.listed);
        let before = found.len();
        found.extend(listed.map(|text| look_first_line(kind, text, stop)));
        if found.len() == before {
            found.push(look_first_line(kind, &open.note, stop));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn stop(lines: &Value, rest: &Value) -> Value {
        let mut stop = json!({
            "rule": "block", "outcome": {"blocked": {"reason": "not yet"}}, "because": "not yet", "took_ms": 1,
            "report": {
                "total": 9, "unmet": 1, "unknown": 0, "failures": "0000000000000000", "lines": lines, "met": ["tests"],
            },
        });
        stop.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({ "decided": stop })
    }

    fn open(name: &str, standing: &str, first: &str, listed: &[&str]) -> Value {
        let findings = listed.len() + 1;
        json!({
            "name": name, "stage": "quality", "standing": standing, "note": "a note", "first": first,
            "listed": listed, "findings": findings, "signature": "0000000000000000",
        })
    }

    /// One line for each kind, in the order of the page. `Question`, `Unmet`, `Halted`, `JournalEdit` and what
    /// is said about changed files are not in the journal alone.
    fn show(changes: &[Value]) -> String {
        let entry = |(seq, change): (usize, &Value)| {
            let line = json!({"v": 2, "seq": seq, "at_ms": 0, "prev": "", "iteration": 0, "change": change});
            serde_json::from_value::<JournalEntry>(line).unwrap()
        };
        let entries: Vec<_> = changes.iter().enumerate().map(entry).collect();
        let line = |one: LookFirst| {
            let stop = one.stop.map(|stop| format!(" (stop {stop})")).unwrap_or_default();
            format!("{}{stop}: {}", one.kind.label(), one.text)
        };
        look_first(&entries).into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_kind_has_its_place() {
        let judge = json!({"judge": "prompt"});
        let mut advice = open("review", "advisory", "no test of the limit", &[]);
        advice.as_object_mut().unwrap().extend(judge.as_object().unwrap().clone());
        let last = [
            open("test changes", "advisory", "cart.sh: 3 is 4 now", &["tax.sh: a line is gone"]),
            open("old failures", "advisory", "e2e failed before too", &[]),
            open("style", "advisory", "not shown", &[]),
            advice,
        ];
        let proof = json!({
            "verdict": "needs_review", "held": 3, "telling": 1, "broken_count": 1,
            "broken": [{"gate": "tests", "test": "test_total", "how": "fails", "message": "3 is not 4"}],
            "removed": ["test_tax"], "allowed": ["tests/cart.sh"],
        });
        let integrity = open("test integrity", "unmet", "an assertion is gone", &[]);
        let waiver =
            json!({"requirement": "lint", "why": "the tool is down", "by": "ada", "until_ms": 9});
        let changes = [
            json!({"denied": {"tool": "Bash", "what": "git", "call": "git push"}}),
            stop(&json!([integrity]), &json!({"tampering": "`run.json` was changed"})),
            json!({"disputed": {"requirement": "tests", "why": "one wants the year 2025"}}),
            json!({"disputed": {"requirement": "fmt", "why": "the goal is another"}}),
            json!({ "waived": waiver }),
            json!({"disputed": {"requirement": "lint", "why": "the tool is down"}}),
            json!({ "waived": waiver }),
            stop(&json!(last), &json!({"proof": proof, "outcome": {"ended": "needs_review"}})),
            json!({"accepted": {"by": "ada", "why": "the goal asks for it", "at_ms": 9, "was": "needs_review"}}),
        ];
        insta::assert_snapshot!(show(&changes), @"
        ralph's own files were edited (stop 1): `run.json` was changed
        an old test no longer passes (stop 2): test_total fails on the new code: 3 is not 4
        an old test was changed (stop 2): tests/cart.sh was allowed to change
        an old test was changed (stop 2): cart.sh: 3 is 4 now
        an old test was changed (stop 2): tax.sh: a line is gone
        an old test no longer runs (stop 2): test_tax no longer runs
        an advisory judge says not met (stop 2): review: no test of the limit
        accepted without proof (stop 2): accepted by ada: the goal asks for it
        waived (stop 1): lint waived by ada: the tool is down
        disputed by the agent (stop 1): tests (met later): one wants the year 2025
        disputed by the agent (stop 1): fmt (upheld by ada): the goal is another
        disputed by the agent (stop 1): lint (upheld by ada): the tool is down
        made and undone (stop 1): test integrity: not met at stop 1, repaired by stop 2
        failed before the work too (stop 2): e2e failed before too
        a tool call was denied: Bash (git): git push
        ");
    }

    /// A requirement that is still open at the last stop was not undone, and of many lines only the first are shown.
    #[test]
    fn lines_of_a_kind_are_limited_and_not_repeated() {
        let integrity = || json!([open("test integrity", "unmet", "an assertion is gone", &[])]);
        let denied = |call: usize| json!({"denied": {"tool": "Bash", "what": "git", "call": format!("git push {call}")}});
        let mut changes = vec![stop(&integrity(), &json!({})), stop(&integrity(), &json!({}))];
        changes.extend((0..30).map(|call| denied(call / 2)));
        assert_eq!(show(&changes).lines().count(), 15);
        changes.extend((0..30).map(denied));
        let shown = show(&changes);
        assert_eq!(shown.lines().count(), MAX_OF_A_KIND, "{shown}");
        assert!(shown.lines().all(|line| line.starts_with("a tool call was denied")), "{shown}");
    }
}
