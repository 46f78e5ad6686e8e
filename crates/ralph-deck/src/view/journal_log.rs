//! The journal of a run or session, line by line.

use crate::wording::{self, safe_line};
use ralph_core::approval;
use ralph_core::closed_run;
use ralph_core::drive::RunnerEvent;
use ralph_core::record::{JournalEntry, MoveReason, RunChange, RunOrigin};
use ralph_core::redact::Redactor;
use ralph_core::run::{RunPhase, RunState};
use ralph_sys::clock;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct JournalLineView<'a> {
    pub v: u8,
    pub name: &'a str,
    pub seq: u64,
    pub at: String,
    pub iteration: u32,
    pub prev: &'a str,
    pub change: RunChange,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'a str>,
}

/// The view of an entry. Secrets in the agent's arguments are redacted: the journal keeps them, because resuming the run
/// needs them.
pub fn journal_line_view<'a>(
    name: &'a str,
    entry: &'a JournalEntry,
    redactor: &Redactor,
) -> JournalLineView<'a> {
    JournalLineView {
        v: 1,
        name,
        seq: entry.seq,
        at: clock::format_rfc3339(entry.at_ms),
        iteration: entry.iteration,
        prev: &entry.prev,
        change: redact_arguments(redactor, &entry.change),
        by: entry.by.as_deref(),
    }
}

/// Whether more lines can follow.
pub fn is_in_progress(entries: &[JournalEntry]) -> bool {
    RunState::replay(entries).is_none_or(|(_, state)| !matches!(state.phase, RunPhase::Ended(_)))
}

fn redact_arguments(redactor: &Redactor, change: &RunChange) -> RunChange {
    let mut change = change.clone();
    let run = if let RunChange::Restored(restored) = &mut change {
        Some(&mut restored.run)
    } else if let RunChange::Started(run) = &mut change {
        Some(&mut **run)
    } else {
        None
    };
    if let Some(settings) = run.and_then(|run| run.drive.as_mut()) {
        for argument in &mut settings.arguments {
            *argument = redactor.redact(argument);
        }
    }
    change
}

/// Why a fresh session takes over: by a hand-over, or because the agent lost the session before.
fn handover_verb(before: &[JournalEntry]) -> &'static str {
    let reason = before.iter().rev().find_map(|entry| {
        let RunChange::Drove(drove) = &entry.change else { return None };
        match drove.as_ref() {
            RunnerEvent::HandsOver { .. } => Some("takes over"),
            RunnerEvent::Session(_) => Some("replaces one that the agent does not know"),
            RunnerEvent::Metered(_)
            | RunnerEvent::Waits(_)
            | RunnerEvent::AsksPerson { .. }
            | RunnerEvent::Woke
            | RunnerEvent::WaitedEnough { .. }
            | RunnerEvent::Tried { .. }
            | RunnerEvent::Silent { .. }
            | RunnerEvent::Broke { .. }
            | RunnerEvent::Parked { .. }
            | RunnerEvent::Settled { .. }
            | RunnerEvent::Granted { .. }
            | RunnerEvent::ProofBase { .. }
            | RunnerEvent::PassedOn => None,
        }
    });
    reason.unwrap_or("takes over")
}

/// The entry in words, after its time. `before` are the entries before it.
pub fn journal_line_text(entry: &JournalEntry, before: &[JournalEntry]) -> String {
    let what = journal_change_text(entry, before);
    format!("{}  {what}", wording::local_time(entry.at_ms))
}

/// The entry in words. `before` are the entries before it.
pub fn journal_change_text(entry: &JournalEntry, before: &[JournalEntry]) -> String {
    let what = describe_change(entry, before);
    match &entry.by {
        Some(by) => {
            let by = safe_line(by);
            // The first word is a column.
            if what.contains(' ') {
                format!("{what}, by {by}")
            } else {
                format!("{what:<10} by {by}")
            }
        }
        None => what,
    }
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind of journal line")]
fn describe_change(entry: &JournalEntry, before: &[JournalEntry]) -> String {
    match &entry.change {
        RunChange::Started(run) if run.origin == RunOrigin::Session => {
            format!("started    {}", safe_line(&run.title))
        }
        RunChange::Started(run) => {
            format!("started    {} ({})", safe_line(&run.title), wording::limits(&run.limits))
        }
        RunChange::Restored(_) => {
            "restored   the journal was damaged or missing; its remains are kept next to it"
                .to_string()
        }
        RunChange::Decided(decided) => {
            format!(
                "{:<10} {} (rule `{}`)",
                wording::decision_outcome(decided),
                safe_line(&decided.because),
                decided.rule.name()
            )
        }
        RunChange::Trouble { class } => {
            format!("trouble    the turn was cut short by {}", wording::turn_end_cause(class))
        }
        RunChange::Paused => "paused".to_string(),
        RunChange::Resumed => "resumed".to_string(),
        RunChange::Cancelled if closed_run::is_ended(before) => "closed".to_string(),
        RunChange::Cancelled => "cancelled".to_string(),
        RunChange::Interrupted { .. } => {
            "paused     a person interrupted the agent and sent another prompt".to_string()
        }
        RunChange::Asked { question } => format!("asks       {}", safe_line(question)),
        RunChange::Waits { until_ms, why } => {
            format!("waits      until {}: {}", wording::local_time(*until_ms), safe_line(why))
        }
        RunChange::Moved { to, how, .. } => {
            let how = match how {
                MoveReason::Reopened => "was reopened",
                MoveReason::Cleared => "follows one that was cleared; paused",
                MoveReason::TakenUp => "continues the run",
                MoveReason::Resumed => "is held again",
                MoveReason::HandedOver => handover_verb(before),
            };
            format!("moved      session {} {how}", to.short())
        }
        RunChange::Compacted => "compacted  the conversation was summarised".to_string(),
        RunChange::Anchored => {
            "reminded   the agent got the goal and the state of the run again".to_string()
        }
        RunChange::Denied { tool, what, call } => {
            format!("denied     {} ({}): {}", safe_line(tool), safe_line(what), safe_line(call))
        }
        RunChange::HintGiven { text, by, .. } => match by {
            Some(by) => format!("message    {} (by {})", safe_line(text), safe_line(by)),
            None => format!("message    {}", safe_line(text)),
        },
        RunChange::Waived(waiver) => format!(
            "waived     {} by {} until {}: {}",
            safe_line(&waiver.requirement),
            safe_line(&waiver.by),
            wording::local_time(waiver.until_ms),
            safe_line(&waiver.why)
        ),
        RunChange::WaiverRevoked { requirement } => {
            format!("unwaived   {} is required again", safe_line(requirement))
        }
        RunChange::Disputed(dispute) => {
            format!("disputed   {}: {}", safe_line(&dispute.requirement), safe_line(&dispute.why))
        }
        RunChange::Approved(one) => {
            let name = safe_line(approval::approval_name(&one.requirement));
            format!("approved   {name} by {}", safe_line(&one.by))
        }
        RunChange::Limited(limits) => format!("limits     {}", wording::limits(limits)),
        RunChange::Stepped(step) => format!("step       {}", wording::orchestrator_step(step)),
        RunChange::Recalled { query, found } => {
            format!("recalled   \"{}\": {found} found", safe_line(query))
        }
        RunChange::Learned { title, .. } => format!("learned    {}", safe_line(title)),
        RunChange::Drove(drove) => wording::runner_action(drove),
        RunChange::Accepted(acceptance) => {
            format!("verified   {}", safe_line(&acceptance.describe()))
        }
        RunChange::Overridden { how } => format!("overridden {}", safe_line(how)),
        RunChange::Part(part) => format!(
            "{:<10} {}: {} (rule `{}`)",
            part.rule.outcome_label(),
            wording::part_owner(part),
            safe_line(&part.because),
            part.rule.name()
        ),
    }
}
