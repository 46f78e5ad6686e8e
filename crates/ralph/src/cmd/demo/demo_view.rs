//! Renders the demo as text: what the person and the agent do, and how ralph answers.

use super::super::why;
use crate::term::{self, BAD, BOLD, DIM, GOOD, paint, text_width, wrap};
use ralph_core::gate;
use ralph_core::units;
use ralph_deck::view::decisions::run_decision;
use ralph_deck::wording::safe_line;
use ralph_hook::overview::DecisionHistory;
use ralph_sim::mismatch::TimelineCounts;
use ralph_sim::timeline::{HookEffect, TimelineEntry, TimelineHook, TimelineReply, TimelineTool};
use serde_json::Value;

/// Longer lines are hard to read, and the picture in the README has this width.
const MAX_COLUMNS: usize = 80;
/// Narrower terminals cut lines off.
const MIN_COLUMNS: usize = 40;
/// As wide as the column with the speaker.
const MARGIN: &str = "       ";
/// The room for the note at the right edge. Fixed, so that lines break at the same places whatever the times are.
const NOTE_COLUMNS: usize = 18;
/// How many lines of a reason are shown.
const REASON_LINES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DemoSpeaker {
    You,
    Agent,
    Ralph,
}

impl DemoSpeaker {
    fn name(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Agent => "agent",
            Self::Ralph => "ralph",
        }
    }
}

/// Renders entries one after the other.
#[derive(Debug, Default)]
pub(super) struct DemoView {
    last: Option<DemoSpeaker>,
}

impl DemoView {
    pub(super) fn render(&mut self, entry: &TimelineEntry) -> String {
        match entry {
            TimelineEntry::Prompt { text } => {
                self.speaker_lines(DemoSpeaker::You, &wrap_indented(&safe_line(text), 0))
            }
            TimelineEntry::Reply(TimelineReply { text, .. }) if !text.is_empty() => self
                .speaker_lines(
                    DemoSpeaker::Agent,
                    &wrap_indented(&format!("\"{}\"", safe_line(text)), 0),
                ),
            TimelineEntry::Tool(tool) => self.speaker_lines(DemoSpeaker::Agent, &tool_lines(tool)),
            TimelineEntry::Hook(hook) if is_stop(hook) => {
                self.speaker_lines(DemoSpeaker::Ralph, &verdict_lines(hook))
            }
            TimelineEntry::Reply(_)
            | TimelineEntry::Hook(_)
            | TimelineEntry::Request(_)
            | TimelineEntry::Notice { .. }
            | TimelineEntry::Ending(_)
            | TimelineEntry::Run { .. }
            | TimelineEntry::Exit { .. } => String::new(),
        }
    }

    /// Names the speaker only when it changes, and puts an empty line above a new turn of the agent.
    fn speaker_lines(&mut self, who: DemoSpeaker, lines: &[String]) -> String {
        let last = self.last.replace(who);
        let mut out = String::new();
        if who == DemoSpeaker::Agent && last.is_some_and(|last| last != who) {
            out.push('\n');
        }
        for (number, line) in lines.iter().enumerate() {
            if number == 0 && last != Some(who) {
                out.push_str(&paint(BOLD, &format!("{:<1$}", who.name(), MARGIN.len())));
            } else {
                out.push_str(MARGIN);
            }
            out.push_str(&format!("{line}\n"));
        }
        out
    }
}

fn is_stop(hook: &TimelineHook) -> bool {
    hook.event == "Stop" && !hook.handlers.is_empty()
}

/// How long the client waited at a stop.
pub(super) fn wait_ms(entry: &TimelineEntry) -> Option<u64> {
    match entry {
        TimelineEntry::Hook(hook) if is_stop(hook) => {
            hook.handlers.iter().map(|handled| handled.ms).max()
        }
        TimelineEntry::Hook(_)
        | TimelineEntry::Prompt { .. }
        | TimelineEntry::Request(_)
        | TimelineEntry::Reply(_)
        | TimelineEntry::Tool(_)
        | TimelineEntry::Notice { .. }
        | TimelineEntry::Ending(_)
        | TimelineEntry::Run { .. }
        | TimelineEntry::Exit { .. } => None,
    }
}

fn tool_lines(tool: &TimelineTool) -> Vec<String> {
    let input = |name: &str| tool.input.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut lines = if tool.name == "Edit" {
        let name = input("file_path").rsplit('/').next().unwrap_or_default();
        let (old, new) = (input("old_string"), input("new_string"));
        // Removed lines are shown only if nothing replaces them.
        let change = if new.is_empty() {
            old.lines().map(|line| paint(BAD, &format!("  - {}", safe_line(line)))).collect()
        } else {
            new.lines()
                .map(|line| paint(GOOD, &format!("  + {}", safe_line(line))))
                .collect::<Vec<_>>()
        };
        let mut lines = vec![format!("edits {}", safe_line(name))];
        lines.extend(change);
        lines
    } else {
        vec![format!("$ {}{}", safe_line(input("command")), count_test_points(&tool.result))]
    };
    if tool.is_error {
        lines.extend(wrap_indented(&paint(BAD, &safe_line(&tool.result)), 2));
    }
    lines
}

/// The number of TAP test points in the output of a test run, if it has any.
fn count_test_points(output: &str) -> String {
    let count = |start: &str| output.lines().filter(|line| line.starts_with(start)).count();
    match (count("ok "), count("not ok ")) {
        (0, 0) => String::new(),
        (good, 0) => paint(DIM, &format!("   {good} ok")),
        (good, bad) => paint(DIM, &format!("   {good} ok, {bad} not ok")),
    }
}

fn verdict_lines(hook: &TimelineHook) -> Vec<String> {
    let took = hook.handlers.iter().map(|handled| handled.ms).max().unwrap_or_default();
    let took = units::format_duration(took);
    match &hook.effect {
        HookEffect::Blocked { reasons } => held_lines(&reasons.join("\n"), &took),
        HookEffect::Allowed => {
            let text = hook.handlers.iter().find_map(|handled| final_message(&handled.stdout));
            let text = text.as_deref().unwrap_or("let go");
            let (end, what) = text.split_once(": ").unwrap_or((text, ""));
            lines_with_note(&format!("{} {what}", paint(GOOD, &format!("✓ {end}:"))), &took)
        }
        HookEffect::Stopped { reason } => {
            lines_with_note(&safe_line(reason.as_deref().unwrap_or("ended")), &took)
        }
        HookEffect::Overridden { .. } => {
            lines_with_note("too many blocks in a row: the client lets go", &took)
        }
        HookEffect::Continued { context } => lines_with_note(&safe_line(&context.join(" ")), &took),
    }
}

/// The message to the person at the end of a run, without the run's id and the next step, which the demo shows itself.
fn final_message(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let text = safe_line(answer.get("systemMessage")?.as_str()?);
    let text = text.strip_prefix("ralph: ").unwrap_or(&text);
    Some(text.rsplit_once(" (run ").map_or(text, |(text, _)| text).to_owned())
}

/// The first lines of the reason that the agent reads, without the fences around quoted text. The reason begins with
/// `ralph: iteration 1 of 25 — 1 of 6 requirements is not met (run k7f2)`.
fn held_lines(reason: &str, took: &str) -> Vec<String> {
    let mut lines = reason.lines();
    let first = safe_line(lines.next().unwrap_or_default());
    let first = first.strip_prefix("ralph: ").unwrap_or(&first);
    let (count, what) = first.split_once(" — ").unwrap_or(("", first));
    let (what, names) = without_ids(what);
    let count = count.strip_prefix("iteration ").unwrap_or(count);
    let head = format!("{} {what}{names}", paint(BAD, "✗ held:"));
    let mut out = lines_with_note(&head, &format!("{count} · {took}"));
    let mut is_goal = false;
    let mut shown = Vec::new();
    for line in lines {
        if line.starts_with('┌') {
            is_goal = line.ends_with("the goal, in the person's words");
        } else if let Some(quoted) = line.strip_prefix("│ ") {
            if !is_goal {
                shown.extend(wrap_indented(&format!("    {}", safe_line(quoted)), 4));
            }
        } else if let Some(open) = line.strip_prefix("✗ ") {
            shown.extend(wrap_indented(&format!("  {} {}", paint(BAD, "✗"), safe_line(open)), 4));
        }
    }
    shown.truncate(REASON_LINES);
    out.extend(shown);
    out
}

/// Drops the ids: `… no progress (tests; state 14af6d7; run k7f2)` becomes `… no progress` and ` (tests)`.
fn without_ids(text: &str) -> (&str, String) {
    let Some((before, inside)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("))
    else {
        return (text, String::new());
    };
    let is_id = |part: &&str| part.starts_with("run ") || part.starts_with("state ");
    let names: Vec<_> = inside.split("; ").filter(|part| !is_id(part)).collect();
    let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join("; ")) };
    (before, names)
}

/// Wraps the text, with a note at the right edge of its first line.
fn lines_with_note(text: &str, note: &str) -> Vec<String> {
    let room = text_columns() - MARGIN.len();
    let mut lines = wrap(text, room.saturating_sub(NOTE_COLUMNS), 2);
    if let Some(first) = lines.first_mut() {
        let gap = room.saturating_sub(text_width(first) + text_width(note));
        first.push_str(&format!("{}{}", " ".repeat(gap), paint(DIM, note)));
    }
    lines
}

pub(super) fn opening_text() -> String {
    let text = "A scripted agent that stops too early. Its edits, the tests, the hook and the \
                journal are real; everything stays in a scratch directory.";
    format!("{}\n\n", wrap(&paint(DIM, text), text_columns(), 0).join("\n"))
}

pub(super) fn count_text(counts: &TimelineCounts, waits_ms: &[u64]) -> String {
    let TimelineCounts { stops, blocks, .. } = counts;
    let all = units::format_duration(waits_ms.iter().sum());
    let text = format!("{stops} stops, {blocks} of them held; {all} of waiting in total");
    format!("\n{}\n", wrap(&paint(BOLD, &text), text_columns(), 0).join("\n"))
}

/// The decisions as `ralph why` prints them, without the evidence, which the demo has just shown.
pub(super) fn decisions_text(history: &DecisionHistory) -> String {
    let title = "Every decision is in the journal. After a run of your own, `ralph why` shows them like this, newest first:";
    let mut out = format!("{}\n", wrap(title, text_columns(), 0).join("\n"));
    for (entry, decided) in history.entries.iter().filter_map(run_decision).rev() {
        let head = why::decision_head(history, entry, decided);
        out.push_str(&format!("{}\n", wrap(head.trim_end(), text_columns(), 10).join("\n")));
    }
    out
}

pub(super) fn kept_text(root: &str, run: &str) -> String {
    let project = gate::shell_quote(&format!("{root}/project"));
    let root = gate::shell_quote(root);
    format!(
        "\nThe files are kept. Look around:\n  \
         cd {project}\n  \
         ../ralph why {run}\n  \
         ../ralph status --all\n  \
         ../ralph checkpoint diff {run} 2 3\n\
         and delete them when you are done:\n  \
         rm -r {root}\n"
    )
}

pub(super) fn closing_text() -> String {
    let text = "Next: run `ralph init` in one of your projects";
    format!("\n{}\n", wrap(text, text_columns(), 6).join("\n"))
}

fn text_columns() -> usize {
    term::columns().clamp(MIN_COLUMNS, MAX_COLUMNS)
}

fn wrap_indented(text: &str, indent: usize) -> Vec<String> {
    wrap(text, text_columns() - MARGIN.len(), indent)
}
