//! The history part of a handoff, from the journal: failed attempts, messages from people, and logs.

use super::{Handoff, LONGEST_LINE, LONGEST_NAME, is_open};
use ralph_core::drive::{self, Drove, Silence};
use ralph_core::limits;
use ralph_core::mark::Mark;
use ralph_core::reason;
use ralph_core::record::{Change, Decided, Entry, Known, Line, Outcome};
use ralph_core::redact::Redactor;
use std::collections::BTreeMap;

/// A requirement counts as a failed attempt only if it stayed open for this many stops.
const SEVERAL: u32 = 3;
const SHOWN_EVENTS: usize = 12;
const LONGEST_EVENT: usize = 300;
const SAID: usize = 16;

/// Requirements that stayed open, longest first, then remedies and failures, latest first.
pub(super) fn failed(handoff: &Handoff<'_>, redactor: &Redactor) -> Vec<String> {
    let mut open: Vec<_> = stubborn(handoff.entries).into_iter().collect();
    open.sort_by_key(|(name, kept)| (u32::MAX - kept.stops, *name));
    let open = open.into_iter().filter(|(_, kept)| kept.stops >= SEVERAL);
    let open = open.map(|(name, kept)| sentence(name, &kept, redactor));
    let events = handoff.entries.iter().rev().filter_map(|entry| {
        let said = event(&entry.change)?;
        Some(format!(
            "- iteration {}: {}",
            entry.iteration,
            reason::say(&said, LONGEST_EVENT, redactor)
        ))
    });
    open.chain(events.take(SHOWN_EVENTS)).collect()
}

/// For how many consecutive stops a requirement has been open, and for how many with the same failure.
struct Kept<'a> {
    line: &'a Line,
    signature: Mark,
    stops: u32,
    same: u32,
}

fn stubborn(entries: &[Entry]) -> BTreeMap<&str, Kept<'_>> {
    let mut kept: BTreeMap<&str, Kept<'_>> = BTreeMap::new();
    for report in entries.iter().filter_map(held).filter_map(|held| held.report.as_ref()) {
        let mut now = BTreeMap::new();
        for line in report.lines.iter().filter(|line| is_open(line)) {
            let before = kept.remove(line.name.as_str());
            let stops = before.as_ref().map_or(0, |before| before.stops).saturating_add(1);
            let same = before.filter(|before| before.signature == line.signature);
            let same = same.map_or(0, |before| before.same).saturating_add(1);
            let signature = line.signature;
            now.insert(line.name.as_str(), Kept { line, signature, stops, same });
        }
        kept = now;
    }
    kept.retain(|_, kept| kept.line.standing != Known::Pending);
    kept
}

/// The decision of a charged stop.
fn held(entry: &Entry) -> Option<&Decided> {
    let Change::Decided(decided) = &entry.change else { return None };
    let is_charged = matches!(decided.outcome, Outcome::Blocked { .. } | Outcome::HandedOver);
    is_charged.then_some(decided)
}

fn sentence(name: &str, kept: &Kept<'_>, redactor: &Redactor) -> String {
    let name = reason::say(name, LONGEST_NAME, redactor);
    let how = match kept.same {
        1 => "each time differently".to_owned(),
        same if same == kept.stops => "always in the same way".to_owned(),
        same => format!("the last {same} times in the same way"),
    };
    let mut out = format!("- {name} was not met at the last {} stops, {how}", kept.stops);
    if let Some(first) = &kept.line.first {
        out.push_str(&format!("\n    │ {}", reason::say(first, LONGEST_LINE, redactor)));
    }
    out
}

fn event(change: &Change) -> Option<String> {
    if let Change::Decided(decided) = change {
        let because = decided.because.split("; trying ").next()?;
        return Some(format!("tried {}, because {because}", decided.remedy?.name()));
    }
    if let Change::Overridden { how } = change {
        return Some(format!("the host ended a turn that was held: {how}"));
    }
    if let Change::Denied { what, .. } = change {
        return Some(format!("a tool call was denied: {what}"));
    }
    let Change::Drove(drove) = change else { return None };
    if let Drove::Silent { after_ms, done: Silence::Restarted } = drove.as_ref() {
        let after = limits::duration(*after_ms);
        return Some(format!("restarted after {after} without a sign of activity"));
    }
    let is_failure = matches!(drove.as_ref(), Drove::Tried { .. } | Drove::Broke { .. });
    drive::remark(drove).filter(|_| is_failure)
}

/// The latest messages from a person during the run, oldest first.
pub(super) fn said(entries: &[Entry]) -> String {
    let mut latest: Vec<_> = entries.iter().rev().filter_map(told).take(SAID).collect();
    latest.reverse();
    latest.join("\n")
}

fn told(entry: &Entry) -> Option<&str> {
    if let Change::Told { text } = &entry.change { Some(text) } else { None }
}

/// The log with all findings of a requirement. A report does not store it, so it is taken from the last answer that
/// named it.
pub(super) fn log<'a>(line: &Line, entries: &'a [Entry]) -> Option<&'a str> {
    let heading = format!("✗ {} ({}): ", line.name, line.stage);
    entries.iter().rev().filter_map(held).find_map(|decided| {
        let Outcome::Blocked { reason } = &decided.outcome else { return None };
        let mut lines = reason.lines().skip_while(|said| !said.starts_with(&heading)).skip(1);
        // Quoted lines begin with a mark, so a line with this prefix is ralph's own.
        let own = lines.by_ref().take_while(|said| said.starts_with(['│', '┌', '└', ' ']));
        let mut logs = own.filter_map(|said| said.strip_prefix("    all of it: `"));
        logs.next()?.strip_suffix('`')
    })
}
