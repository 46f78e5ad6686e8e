//! `ralph log`: prints the journal of a run, line by line.

use super::home;
use crate::cli::Log;
use crate::report::Failure;
use crate::term::{self, Reader};
use crate::wording::{self, safe};
use ralph_core::drive::Drove;
use ralph_core::id::RunId;
use ralph_core::record::{Change, Entry, Move};
use ralph_core::redact::Redactor;
use ralph_core::run::{Phase, State};
use ralph_home::paths::Home;
use ralph_hook::overview::{self, History};
use ralph_sys::clock;
use ralph_sys::env::Env;
use serde::Serialize;
use std::time::Duration;

/// How often `--follow` checks for new lines.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct EntryJson<'a> {
    v: u8,
    name: &'a str,
    seq: u64,
    at: String,
    iteration: u32,
    prev: &'a str,
    change: &'a Change,
}

pub(crate) fn run(env: &Env, args: &Log) -> Result<(), Failure> {
    let home = home(env)?;
    let history = overview::history(&home, args.name.as_deref());
    let Some(history) = history.map_err(|error| super::unknown(&home, error))? else {
        return Err(Failure::new(
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
    if reader == Reader::Gone || !args.follow {
        return Ok(());
    }
    match RunId::parse(&history.name) {
        Some(run) => follow(&home, output, &run, history.entries.len()),
        None => Ok(()),
    }
}

fn follow(
    home: &Home,
    output: (&Redactor, &Log),
    run: &RunId,
    mut shown: usize,
) -> Result<(), Failure> {
    loop {
        let history = overview::of_run(home, run)?;
        let reader = print(output, &history, shown)?;
        if reader == Reader::Gone || !goes_on(&history.entries) {
            return Ok(());
        }
        shown = history.entries.len().max(shown);
        clock::pause(LOOK);
    }
}

fn goes_on(entries: &[Entry]) -> bool {
    State::replay(entries).is_none_or(|(_, state)| !matches!(state.phase, Phase::Ended(_)))
}

fn print(
    (redactor, args): (&Redactor, &Log),
    history: &History,
    from: usize,
) -> Result<Reader, Failure> {
    for (at, entry) in history.entries.iter().enumerate().skip(from) {
        let reader = if args.json {
            let change = harmless(redactor, &entry.change);
            super::print_json(&EntryJson {
                v: 1,
                name: &history.name,
                seq: entry.seq,
                at: clock::rfc3339(entry.at_ms),
                iteration: entry.iteration,
                prev: &entry.prev,
                change: &change,
            })?
        } else {
            term::out(&line(entry, history.entries.get(..at).unwrap_or_default()))?
        };
        if reader == Reader::Gone {
            return Ok(reader);
        }
    }
    Ok(Reader::There)
}

/// Redacts secrets in the agent's arguments. The journal keeps them unredacted, because resuming the run needs them.
fn harmless(redactor: &Redactor, change: &Change) -> Change {
    let mut change = change.clone();
    let run = if let Change::Restored(restored) = &mut change {
        Some(&mut restored.run)
    } else if let Change::Started(run) = &mut change {
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
fn took_over(before: &[Entry]) -> &'static str {
    let reason = before.iter().rev().find_map(|entry| {
        let Change::Drove(drove) = &entry.change else { return None };
        match drove.as_ref() {
            Drove::HandsOver { .. } => Some("takes over"),
            Drove::Session(_) => Some("replaces one that the agent does not know"),
            Drove::Metered(_)
            | Drove::Waits(_)
            | Drove::Woke
            | Drove::WaitedEnough { .. }
            | Drove::Tried { .. }
            | Drove::Silent { .. }
            | Drove::Broke { .. }
            | Drove::Parked { .. }
            | Drove::Settled { .. }
            | Drove::Granted { .. }
            | Drove::PassedOn => None,
        }
    });
    reason.unwrap_or("takes over")
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind of journal line")]
fn line(entry: &Entry, before: &[Entry]) -> String {
    let what = match &entry.change {
        Change::Started(run) => {
            format!("started    {} ({})", safe(&run.title), wording::limits(&run.limits))
        }
        Change::Restored(_) => {
            "restored   the journal was damaged or missing; its remains are kept next to it"
                .to_string()
        }
        Change::Decided(decided) => {
            format!(
                "{:<10} {} (rule `{}`)",
                wording::outcome(decided),
                safe(&decided.because),
                decided.rule.name()
            )
        }
        Change::Trouble { class } => {
            format!("trouble    the turn ended by {}", ralph_core::text::line(class, 60))
        }
        Change::Paused => "paused".to_string(),
        Change::Resumed => "resumed".to_string(),
        Change::Cancelled => "cancelled".to_string(),
        Change::Interrupted { .. } => {
            "paused     a person interrupted the agent and sent another prompt".to_string()
        }
        Change::Asked { question } => format!("asks       {}", safe(question)),
        Change::Waits { until_ms, why } => {
            format!("waits      until {}: {}", wording::when(*until_ms), safe(why))
        }
        Change::Moved { to, how, .. } => {
            let how = match how {
                Move::Reopened => "was reopened",
                Move::Cleared => "follows one that was cleared; paused",
                Move::TakenUp => "continues the run",
                Move::Resumed => "is held again",
                Move::HandedOver => took_over(before),
            };
            format!("moved      session {} {how}", to.short())
        }
        Change::Compacted => "compacted  the conversation was summarised".to_string(),
        Change::Anchored => {
            "reminded   the agent got the goal and the state of the run again".to_string()
        }
        Change::Denied { tool, what, call } => {
            format!("denied     {} ({}): {}", safe(tool), safe(what), safe(call))
        }
        Change::Told { text } => format!("message    {}", safe(text)),
        Change::Waived(waiver) => format!(
            "waived     {} by {} until {}: {}",
            safe(&waiver.requirement),
            safe(&waiver.by),
            wording::when(waiver.until_ms),
            safe(&waiver.why)
        ),
        Change::Insisted { requirement } => {
            format!("unwaived   {} is required again", safe(requirement))
        }
        Change::Disputed(dispute) => {
            format!("disputed   {}: {}", safe(&dispute.requirement), safe(&dispute.why))
        }
        Change::Limited(limits) => format!("limits     {}", wording::limits(limits)),
        Change::Stepped(step) => format!("step       {}", wording::step(step)),
        Change::Recalled { query, found } => {
            format!("recalled   \"{}\": {found} found", safe(query))
        }
        Change::Learned { title, .. } => format!("learned    {}", safe(title)),
        Change::Drove(drove) => wording::drove(drove),
        Change::Overridden { how } => format!("overridden {}", safe(how)),
        Change::Part(part) => format!(
            "{:<10} {}: {} (rule `{}`)",
            part.rule.outcome(),
            wording::part(part),
            safe(&part.because),
            part.rule.name()
        ),
    };
    format!("{}  {what}\n", wording::when(entry.at_ms))
}
