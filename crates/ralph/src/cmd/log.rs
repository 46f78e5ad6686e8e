//! `ralph log`: the journal, line by line.

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

/// How soon a new line is shown; a person does not see the difference to at once.
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
            "`ralph start --help` shows how to begin one",
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

/// What a person gave the agent on its command line is kept as it was, since whoever goes on with the run needs it;
/// it is shown without secrets.
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

/// Why a fresh session goes on stands in the line above, unless the one before was lost.
fn took_over(before: &[Entry]) -> &'static str {
    let said = before.iter().rev().find_map(|entry| {
        let Change::Drove(drove) = &entry.change else { return None };
        match drove.as_ref() {
            Drove::HandsOver { .. } => Some("takes over"),
            Drove::Session(_) => Some("takes the place of one that the agent does not know"),
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
    said.unwrap_or("takes over")
}

#[expect(clippy::too_many_lines, reason = "one arm for each thing that can happen")]
fn line(entry: &Entry, before: &[Entry]) -> String {
    let what = match &entry.change {
        Change::Started(run) => {
            format!("started    {} ({})", safe(&run.title), wording::limits(&run.limits))
        }
        Change::Restored(_) => {
            "restored   the journal was damaged or gone; what was left of it is kept beside it"
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
            "paused     a person interrupted the agent and said something else".to_string()
        }
        Change::Asked { question } => format!("asks       {}", safe(question)),
        Change::Waits { until_ms, why } => {
            format!("waits      until {}: {}", wording::when(*until_ms), safe(why))
        }
        Change::Moved { to, how, .. } => {
            let how = match how {
                Move::Reopened => "was opened again",
                Move::Cleared => "follows one that was cleared; paused",
                Move::TakenUp => "takes the run up",
                Move::Resumed => "is held again",
                Move::HandedOver => took_over(before),
            };
            format!("moved      session {} {how}", to.short())
        }
        Change::Compacted => "compacted  the conversation was summed up".to_string(),
        Change::Anchored => "anchored   the agent was told where it stands".to_string(),
        Change::Denied { tool, what, call } => {
            format!("denied     {} ({}): {}", safe(tool), safe(what), safe(call))
        }
        Change::Told { text } => format!("told       {}", safe(text)),
        Change::Waived(waiver) => format!(
            "waived     {} by {} until {}: {}",
            safe(&waiver.requirement),
            safe(&waiver.by),
            wording::when(waiver.until_ms),
            safe(&waiver.why)
        ),
        Change::Insisted { requirement } => {
            format!("insisted   {} is no longer waived", safe(requirement))
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
