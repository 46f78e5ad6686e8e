//! The question that a run waits with, from its journal.
//!
//! The state of a run has only what the agent declared. A runner also asks on behalf of the client, such as for a
//! permission, and only the journal has until when it waits.

use super::board_row::{
    OpenQuestion, awaited_approval, clean_question, clean_title, declared_question,
};
use ralph_core::approval;
use ralph_core::drive::RunnerEvent;
use ralph_core::facts::DeclaredPause;
use ralph_core::record::{JournalEntry, MoveReason, RunChange, StopOutcome};
use ralph_core::run::RunPhase;
use ralph_home::paths::RalphHome;
use ralph_hook::overview::{self, RunView};

/// A question, and the number of the journal line that first asked it.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedQuestion {
    pub question: OpenQuestion,
    pub seq: u64,
}

/// The newest question, unless something after it answered or ended it.
pub fn open_question(entries: &[JournalEntry]) -> Option<OpenQuestion> {
    last_asked(entries).map(|asked| asked.question)
}

fn last_asked(entries: &[JournalEntry]) -> Option<AskedQuestion> {
    let mut open: Option<AskedQuestion> = None;
    for entry in entries {
        let seq = entry.seq;
        match effect_of(&entry.change) {
            QuestionEffect::Asked { text, approval } => {
                let text = clean_question(text);
                let asked_ms = entry.at_ms;
                match &mut open {
                    Some(AskedQuestion { question: known, .. })
                        if known.text == text && known.approval == approval =>
                    {
                        known.until_ms = None;
                    }
                    known => {
                        let question = OpenQuestion { text, asked_ms, until_ms: None, approval };
                        *known = Some(AskedQuestion { question, seq });
                    }
                }
            }
            QuestionEffect::Repeated { text, until_ms } => {
                let text = clean_question(text);
                let asked_ms = entry.at_ms;
                let until_ms = Some(until_ms);
                match &mut open {
                    Some(AskedQuestion { question: known, .. }) if known.text == text => {
                        known.until_ms = until_ms;
                    }
                    known => {
                        let question = OpenQuestion { text, asked_ms, until_ms, approval: None };
                        *known = Some(AskedQuestion { question, seq });
                    }
                }
            }
            // A message approves nothing.
            QuestionEffect::Answered => {
                open = open.filter(|known| known.question.approval.is_some());
            }
            QuestionEffect::Closed => open = None,
            QuestionEffect::WaitEnded => {
                if let Some(known) = &mut open {
                    known.question.until_ms = None;
                }
            }
            QuestionEffect::Unchanged => {}
        }
    }
    open
}

/// The question of a run that has not ended. Only an active run waits for the answer until a time: a runner that died has
/// recorded no end of its wait.
pub fn question_in_phase(entries: &[JournalEntry], phase: RunPhase) -> Option<OpenQuestion> {
    asked_in_phase(entries, phase).map(|asked| asked.question)
}

fn asked_in_phase(entries: &[JournalEntry], phase: RunPhase) -> Option<AskedQuestion> {
    let AskedQuestion { question, seq } = last_asked(entries)?;
    match phase {
        RunPhase::Active => Some(AskedQuestion { question, seq }),
        RunPhase::Paused { .. } | RunPhase::Orphaned => {
            Some(AskedQuestion { question: OpenQuestion { until_ms: None, ..question }, seq })
        }
        RunPhase::Ended(_) => None,
    }
}

/// The question of a run, and the journal line that asked it; `None` without a readable journal.
pub fn asked_question(home: &RalphHome, view: &RunView) -> Option<AskedQuestion> {
    asked_in_phase(&overview::run_history(home, &view.opened.run.id).ok()?.entries, view.phase)
}

/// The question of a run. Without a readable journal, the one that its state has.
pub fn view_question(home: &RalphHome, view: &RunView) -> Option<OpenQuestion> {
    if matches!(view.phase, RunPhase::Ended(_)) {
        return None;
    }
    let declared = declared_question(&view.opened.state, view.phase);
    if view.opened.run.drive.is_none() && declared.is_none() {
        return None;
    }
    match overview::run_history(home, &view.opened.run.id) {
        Ok(history) => question_in_phase(&history.entries, view.phase),
        Err(_) => declared,
    }
}

/// What a journal line does to an open question.
enum QuestionEffect<'a> {
    Asked {
        text: &'a str,
        approval: Option<String>,
    },
    /// A runner asks what the agent asked, or asks for the client.
    Repeated {
        text: &'a str,
        until_ms: u64,
    },
    Answered,
    Closed,
    /// The question stays open, but nothing waits for the answer any more.
    WaitEnded,
    Unchanged,
}

fn effect_of(change: &RunChange) -> QuestionEffect<'_> {
    let is_closed = match change {
        RunChange::Asked { question } => {
            return QuestionEffect::Asked { text: question, approval: None };
        }
        RunChange::Restored(known) => match known.state.declared.as_ref() {
            Some(declared @ (DeclaredPause::NeedsHuman(text) | DeclaredPause::Approval(text))) => {
                let approval = awaited_approval(declared, known.state.report.as_ref());
                return QuestionEffect::Asked { text, approval };
            }
            Some(DeclaredPause::Waiting { .. }) | None => true,
        },
        RunChange::Drove(drove) => match drove.as_ref() {
            RunnerEvent::AsksPerson { question, until_ms } => {
                return QuestionEffect::Repeated { text: question, until_ms: *until_ms };
            }
            RunnerEvent::Parked { .. } => return QuestionEffect::WaitEnded,
            RunnerEvent::PassedOn | RunnerEvent::Session(_) | RunnerEvent::WaitedEnough { .. } => {
                true
            }
            RunnerEvent::Metered(_)
            | RunnerEvent::HandsOver { .. }
            | RunnerEvent::Waits(_)
            | RunnerEvent::Woke
            | RunnerEvent::Tried { .. }
            | RunnerEvent::Silent { .. }
            | RunnerEvent::Broke { .. }
            | RunnerEvent::Settled { .. }
            | RunnerEvent::ProofBase { .. }
            | RunnerEvent::Granted { .. } => false,
        },
        RunChange::Decided(decided) if decided.awaits_approval() => {
            let approval = approval::first_awaited_name(decided.report.as_ref());
            let approval = Some(clean_title(&approval));
            return QuestionEffect::Asked { text: &decided.because, approval };
        }
        RunChange::Decided(decided) => {
            matches!(decided.outcome, StopOutcome::Blocked { .. } | StopOutcome::HandedOver)
        }
        RunChange::Moved { how, .. } => *how == MoveReason::Resumed,
        // The runner reads the message within a second.
        RunChange::HintGiven { .. } => return QuestionEffect::Answered,
        RunChange::Approved(_)
        | RunChange::Paused
        | RunChange::Interrupted { .. }
        | RunChange::Resumed
        | RunChange::Waits { .. } => true,
        RunChange::Started(_)
        | RunChange::Trouble { .. }
        | RunChange::Cancelled
        | RunChange::Compacted
        | RunChange::Anchored
        | RunChange::Denied { .. }
        | RunChange::Overridden { .. }
        | RunChange::Part(_)
        | RunChange::Waived(_)
        | RunChange::WaiverRevoked { .. }
        | RunChange::Disputed(_)
        | RunChange::Limited(_)
        | RunChange::Stepped(_)
        | RunChange::Recalled { .. }
        | RunChange::Learned { .. }
        | RunChange::Accepted(_) => false,
    };
    if is_closed { QuestionEffect::Closed } else { QuestionEffect::Unchanged }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::approval::PersonApproval;
    use ralph_core::digest64::Digest64;
    use ralph_core::record::{
        DecisionRule, FORMAT_VERSION, PendingKind, ReportLine, ReportedStatus, StopRecord,
        StopReport,
    };

    const THEN: u64 = 1_794_000_000_000;

    fn open_after(changes: Vec<RunChange>) -> Option<OpenQuestion> {
        let entries: Vec<_> = (0..)
            .zip(changes)
            .map(|(seq, change)| JournalEntry {
                v: FORMAT_VERSION,
                seq,
                at_ms: THEN + seq * 1000,
                iteration: 0,
                change,
                prev: String::new(),
                after: String::new(),
                by: None,
            })
            .collect();
        open_question(&entries)
    }

    /// A stop at which only a person's approval is missing.
    fn awaits_approval(because: &str) -> RunChange {
        let outcome = StopOutcome::Allowed;
        let mut stop = StopRecord::new(DecisionRule::NeedsHuman, outcome, because.to_string());
        stop.report = Some(StopReport {
            lines: vec![ReportLine {
                name: "chunk design".into(),
                stage: "correctness".into(),
                judge: None,
                standing: ReportedStatus::Pending,
                pending: Some(PendingKind::AwaitsPerson),
                was: None,
                note: "waits for a person".into(),
                first: None,
                listed: Vec::new(),
                findings: 0,
                signature: Digest64(1),
            }],
            ..StopReport::default()
        });
        RunChange::Decided(Box::new(stop))
    }

    fn runner_asks(question: &str, until_ms: u64) -> RunChange {
        let question = question.to_string();
        RunChange::Drove(Box::new(RunnerEvent::AsksPerson { question, until_ms }))
    }

    /// A runner asks again after a pause, and for the client without any declaration of the agent.
    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn question_is_open_until_something_answers_it() {
        let asked = || RunChange::Asked { question: "which licence?".into() };
        let question = |text: &str, after: u64, until_ms| {
            let asked_ms = THEN + after * 1000;
            Some(OpenQuestion { text: text.into(), asked_ms, until_ms, approval: None })
        };
        let wait = "a person has to approve design: `ralph approve k7f2 design`";
        let approval = |until_ms| {
            let question = question(wait, 0, until_ms).unwrap();
            Some(OpenQuestion { approval: Some("design".into()), ..question })
        };
        let approved = || {
            RunChange::Approved(PersonApproval {
                requirement: "chunk design".into(),
                by: "kim".into(),
            })
        };
        let told =
            || RunChange::HintGiven { text: "MIT".into(), by: Some("kim".into()), answers: None };
        let parked = || {
            let why = "stopped by a person".to_string();
            let status = ralph_core::status::RunStatus::Cancelled;
            RunChange::Drove(Box::new(RunnerEvent::Parked { status, why }))
        };
        let passed_on = || RunChange::Drove(Box::new(RunnerEvent::PassedOn));
        for (name, changes, expected) in [
            ("declared", vec![asked()], question("which licence?", 0, None)),
            (
                "asked by the runner too",
                vec![asked(), runner_asks("which licence?", THEN + 9)],
                question("which licence?", 0, Some(THEN + 9)),
            ),
            (
                "asked again after a pause",
                vec![
                    asked(),
                    runner_asks("which licence?", THEN + 9),
                    RunChange::Paused,
                    RunChange::Resumed,
                    runner_asks("which licence?", THEN + 90),
                ],
                question("which licence?", 4, Some(THEN + 90)),
            ),
            (
                "asked for the client",
                vec![runner_asks("may the agent use Bash: make", THEN + 9)],
                question("may the agent use Bash: make", 0, Some(THEN + 9)),
            ),
            ("paused", vec![asked(), RunChange::Paused], None),
            ("answered", vec![asked(), runner_asks("which licence?", THEN + 9), told()], None),
            ("passed on", vec![asked(), passed_on()], None),
            (
                "parked",
                vec![asked(), runner_asks("which licence?", THEN + 9), parked()],
                question("which licence?", 0, None),
            ),
            ("answered after that", vec![asked(), parked(), told()], None),
            ("waits for an approval", vec![awaits_approval(wait)], approval(None)),
            ("a message approves nothing", vec![awaits_approval(wait), told()], approval(None)),
            ("approved", vec![awaits_approval(wait), told(), approved()], None),
            (
                "a runner waits for an approval",
                vec![awaits_approval(wait), runner_asks(wait, THEN + 9)],
                approval(Some(THEN + 9)),
            ),
            (
                "the agent asks in the words of an approval",
                vec![RunChange::Asked { question: wait.into() }],
                question(wait, 0, None),
            ),
            ("and is answered", vec![RunChange::Asked { question: wait.into() }, told()], None),
        ] {
            assert_eq!(open_after(changes), expected, "{name}");
        }
    }
}
