//! The history part of a hand-over, from the journal: failed attempts, messages from people, and logs.

use super::{HandoverInput, LONGEST_LINE, LONGEST_NAME, is_open};
use ralph_core::digest64::Digest64;
use ralph_core::drive::{self, RunnerEvent, SilenceResponse};
use ralph_core::reason::{self, FULL_LOG_LABEL, OLD_FULL_LOG_LABEL};
use ralph_core::record::{
    JournalEntry, ReportLine, ReportedStatus, RunChange, StopOutcome, StopRecord,
};
use ralph_core::redact::Redactor;
use ralph_core::units;
use std::collections::BTreeMap;

/// A requirement counts as a failed attempt only if it stayed open for this many stops.
const SHOWN_FROM_STOPS: u32 = 3;
const SHOWN_EVENTS: usize = 12;
const LONGEST_EVENT: usize = 300;
const SHOWN_MESSAGES: usize = 16;

/// Requirements that stayed open, longest first, then remedies and failures, latest first.
pub(super) fn failed_attempts(handover: &HandoverInput<'_>, redactor: &Redactor) -> Vec<String> {
    let mut open: Vec<_> = open_streaks(handover.entries).into_iter().collect();
    open.sort_by_key(|(name, kept)| (u32::MAX - kept.stops, *name));
    let open = open.into_iter().filter(|(_, kept)| kept.stops >= SHOWN_FROM_STOPS);
    let open = open.map(|(name, kept)| describe_streak(name, &kept, redactor));
    let events = handover.entries.iter().rev().filter_map(|entry| {
        let said = describe_event(&entry.change)?;
        Some(format!(
            "- iteration {}: {}",
            entry.iteration,
            reason::safe_line(&said, LONGEST_EVENT, redactor)
        ))
    });
    open.chain(events.take(SHOWN_EVENTS)).collect()
}

/// For how many consecutive stops a requirement has been open, and for how many with the same failure.
struct OpenStreak<'a> {
    line: &'a ReportLine,
    signature: Digest64,
    stops: u32,
    same: u32,
}

fn open_streaks(entries: &[JournalEntry]) -> BTreeMap<&str, OpenStreak<'_>> {
    let mut kept: BTreeMap<&str, OpenStreak<'_>> = BTreeMap::new();
    for report in entries.iter().filter_map(charged_stop).filter_map(|held| held.report.as_ref()) {
        let mut now = BTreeMap::new();
        for line in report.lines.iter().filter(|line| is_open(line)) {
            let before = kept.remove(line.name.as_str());
            let stops = before.as_ref().map_or(0, |before| before.stops).saturating_add(1);
            let same = before.filter(|before| before.signature == line.signature);
            let same = same.map_or(0, |before| before.same).saturating_add(1);
            let signature = line.signature;
            now.insert(line.name.as_str(), OpenStreak { line, signature, stops, same });
        }
        kept = now;
    }
    kept.retain(|_, kept| kept.line.standing != ReportedStatus::Pending);
    kept
}

/// The decision of a charged stop.
fn charged_stop(entry: &JournalEntry) -> Option<&StopRecord> {
    let RunChange::Decided(decided) = &entry.change else { return None };
    let is_charged =
        matches!(decided.outcome, StopOutcome::Blocked { .. } | StopOutcome::HandedOver);
    is_charged.then_some(decided)
}

fn describe_streak(name: &str, kept: &OpenStreak<'_>, redactor: &Redactor) -> String {
    let name = reason::safe_line(name, LONGEST_NAME, redactor);
    let how = match kept.same {
        1 => "each time differently".to_owned(),
        same if same == kept.stops => "always in the same way".to_owned(),
        same => format!("the last {same} times in the same way"),
    };
    let mut out = format!("- {name} was not met at the last {} stops, {how}", kept.stops);
    if let Some(first) = &kept.line.first {
        out.push_str(&format!("\n    │ {}", reason::safe_line(first, LONGEST_LINE, redactor)));
    }
    out
}

fn describe_event(change: &RunChange) -> Option<String> {
    if let RunChange::Decided(decided) = change {
        let because = decided.because.split("; trying ").next()?;
        return Some(format!("tried {}, because {because}", decided.remedy?.name()));
    }
    if let RunChange::Overridden { how } = change {
        return Some(format!("the host ended a turn that was held: {how}"));
    }
    if let RunChange::Denied { tool, what, .. } = change {
        return Some(format!("a tool call was denied: {tool}, {what}"));
    }
    let RunChange::Drove(drove) = change else { return None };
    if let RunnerEvent::Silent { after_ms, done: SilenceResponse::Restarted } = drove.as_ref() {
        let after = units::format_duration(*after_ms);
        return Some(format!("restarted after {after} without a sign of activity"));
    }
    let is_failure =
        matches!(drove.as_ref(), RunnerEvent::Tried { .. } | RunnerEvent::Broke { .. });
    drive::describe_event(drove).filter(|_| is_failure)
}

/// The latest messages from a person during the run, oldest first.
pub(super) fn person_messages(entries: &[JournalEntry]) -> String {
    let mut latest: Vec<_> =
        entries.iter().rev().filter_map(person_message).take(SHOWN_MESSAGES).collect();
    latest.reverse();
    latest.join("\n")
}

fn person_message(entry: &JournalEntry) -> Option<&str> {
    if let RunChange::HintGiven { text, .. } = &entry.change { Some(text) } else { None }
}

/// The log with all findings of a requirement. A report does not store it, so it is taken from the last answer that
/// named it.
pub(super) fn find_log<'a>(line: &ReportLine, entries: &'a [JournalEntry]) -> Option<&'a str> {
    let heading = format!("✗ {} ({}): ", line.name, line.stage);
    let labels = [FULL_LOG_LABEL, OLD_FULL_LOG_LABEL].map(|label| format!("    {label} `"));
    entries.iter().rev().filter_map(charged_stop).find_map(|decided| {
        let StopOutcome::Blocked { reason } = &decided.outcome else { return None };
        let mut lines = reason.lines().skip_while(|said| !said.starts_with(&heading)).skip(1);
        // Quoted lines begin with a mark, so a line with this prefix is ralph's own.
        let own = lines.by_ref().take_while(|said| said.starts_with(['│', '┌', '└', ' ']));
        let mut logs = own
            .filter_map(|said| labels.iter().find_map(|label| said.strip_prefix(label.as_str())));
        logs.next()?.strip_suffix('`')
    })
}
