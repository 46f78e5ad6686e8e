//! `ralph log`: prints the journal of a run, line by line.

use super::open_home;
use crate::cli::LogArgs;
use crate::describe::{self, safe_line};
use crate::failure::CommandFailure;
use crate::term::{self, OutputReader};
use ralph_core::drive::RunnerEvent;
use ralph_core::id::RunId;
use ralph_core::record::{JournalEntry, MoveReason, RunChange};
use ralph_core::redact::Redactor;
use ralph_core::run::{RunPhase, RunState};
use ralph_home::paths::RalphHome;
use ralph_hook::overview::{self, DecisionHistory};
use ralph_sys::clock;
use ralph_sys::env::Env;
use serde::Serialize;
use std::time::Duration;

/// How often `--follow` checks for new lines.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct JournalLineJson<'a> {
    v: u8,
    name: &'a str,
    seq: u64,
    at: String,
    iteration: u32,
    prev: &'a str,
    change: &'a RunChange,
}

pub(crate) fn run(env: &Env, args: &LogArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let history = overview::find_history(&home, args.name.as_deref());
    let Some(history) = history.map_err(|error| super::unknown_name_failure(&home, error))? else {
        return Err(CommandFailure::new(
            "there is no run yet",
            "`ralph start --help` shows how to start one",
        ));
    };
    if let Some(broken) = &history.broken
        && !args.json
    {
        term::err(&super::why::broken_line(broken));
    }
    let redactor = Redactor::new(env.secrets());
    let output = (&redactor, args);
    let reader = print(output, &history, 0)?;
    if reader == OutputReader::Closed || !args.follow {
        return Ok(());
    }
    match RunId::parse(&history.name) {
        Some(run) => follow(&home, output, &run, history.entries.len()),
        None => Ok(()),
    }
}

fn follow(
    home: &RalphHome,
    output: (&Redactor, &LogArgs),
    run: &RunId,
    mut shown: usize,
) -> Result<(), CommandFailure> {
    loop {
        let history = overview::run_history(home, run)?;
        let reader = print(output, &history, shown)?;
        if reader == OutputReader::Closed || !is_in_progress(&history.entries) {
            return Ok(());
        }
        shown = history.entries.len().max(shown);
        clock::sleep(FOLLOW_INTERVAL);
    }
}

fn is_in_progress(entries: &[JournalEntry]) -> bool {
    RunState::replay(entries).is_none_or(|(_, state)| !matches!(state.phase, RunPhase::Ended(_)))
}

fn print(
    (redactor, args): (&Redactor, &LogArgs),
    history: &DecisionHistory,
    from: usize,
) -> Result<OutputReader, CommandFailure> {
    for (at, entry) in history.entries.iter().enumerate().skip(from) {
        let reader = if args.json {
            let change = redact_arguments(redactor, &entry.change);
            super::print_json(&JournalLineJson {
                v: 1,
                name: &history.name,
                seq: entry.seq,
                at: clock::format_rfc3339(entry.at_ms),
                iteration: entry.iteration,
                prev: &entry.prev,
                change: &change,
            })?
        } else {
            term::out(&journal_line(entry, history.entries.get(..at).unwrap_or_default()))?
        };
        if reader == OutputReader::Closed {
            return Ok(reader);
        }
    }
    Ok(OutputReader::Open)
}

/// Redacts secrets in the agent's arguments. The journal keeps them unredacted, because resuming the run needs them.
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
            | RunnerEvent::Woke
            | RunnerEvent::WaitedEnough { .. }
            | RunnerEvent::Tried { .. }
            | RunnerEvent::Silent { .. }
            | RunnerEvent::Broke { .. }
            | RunnerEvent::Parked { .. }
            | RunnerEvent::Settled { .. }
            | RunnerEvent::Granted { .. }
            | RunnerEvent::PassedOn => None,
        }
    });
    reason.unwrap_or("takes over")
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind of journal line")]
fn journal_line(entry: &JournalEntry, before: &[JournalEntry]) -> String {
    let what = match &entry.change {
        RunChange::Started(run) => {
            format!("started    {} ({})", safe_line(&run.title), describe::limits(&run.limits))
        }
        RunChange::Restored(_) => {
            "restored   the journal was damaged or missing; its remains are kept next to it"
                .to_string()
        }
        RunChange::Decided(decided) => {
            format!(
                "{:<10} {} (rule `{}`)",
                describe::decision_outcome(decided),
                safe_line(&decided.because),
                decided.rule.name()
            )
        }
        RunChange::Trouble { class } => {
            format!("trouble    the turn ended by {}", ralph_core::text::clean_line(class, 60))
        }
        RunChange::Paused => "paused".to_string(),
        RunChange::Resumed => "resumed".to_string(),
        RunChange::Cancelled => "cancelled".to_string(),
        RunChange::Interrupted { .. } => {
            "paused     a person interrupted the agent and sent another prompt".to_string()
        }
        RunChange::Asked { question } => format!("asks       {}", safe_line(question)),
        RunChange::Waits { until_ms, why } => {
            format!("waits      until {}: {}", describe::local_time(*until_ms), safe_line(why))
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
        RunChange::HintGiven { text } => format!("message    {}", safe_line(text)),
        RunChange::Waived(waiver) => format!(
            "waived     {} by {} until {}: {}",
            safe_line(&waiver.requirement),
            safe_line(&waiver.by),
            describe::local_time(waiver.until_ms),
            safe_line(&waiver.why)
        ),
        RunChange::WaiverRevoked { requirement } => {
            format!("unwaived   {} is required again", safe_line(requirement))
        }
        RunChange::Disputed(dispute) => {
            format!("disputed   {}: {}", safe_line(&dispute.requirement), safe_line(&dispute.why))
        }
        RunChange::Limited(limits) => format!("limits     {}", describe::limits(limits)),
        RunChange::Stepped(step) => format!("step       {}", describe::orchestrator_step(step)),
        RunChange::Recalled { query, found } => {
            format!("recalled   \"{}\": {found} found", safe_line(query))
        }
        RunChange::Learned { title, .. } => format!("learned    {}", safe_line(title)),
        RunChange::Drove(drove) => describe::runner_action(drove),
        RunChange::Overridden { how } => format!("overridden {}", safe_line(how)),
        RunChange::Part(part) => format!(
            "{:<10} {}: {} (rule `{}`)",
            part.rule.outcome_label(),
            describe::part_owner(part),
            safe_line(&part.because),
            part.rule.name()
        ),
    };
    format!("{}  {what}\n", describe::local_time(entry.at_ms))
}
