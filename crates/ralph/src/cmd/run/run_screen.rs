//! The text output of a run: the agent's messages and tool calls, gates, decisions, and a status bar at the bottom.

use super::drive_view::DriveOutput;
use super::gate_lines::{gate_line, step_line};
use super::run_report;
use super::status_bar::StatusBar;
use super::text_lines::{LABEL_COLUMNS, cut_line, labelled_line, wrap_line};
use crate::term::{self, TextWidth, paint};
use ralph_core::drive::{SessionOrigin, SilenceResponse};
use ralph_core::proof::ProofStep;
use ralph_core::record::ReportedStatus;
use ralph_core::text;
use ralph_core::units::format_duration;
use ralph_deck::view::run_report::with_limit;
use ralph_deck::wording::safe_line;
use ralph_drive::run_event::{EventSpeaker, MissingRequirement, RunEvent};
use std::path::PathBuf;

/// The maximum width: longer lines are hard to read.
pub(super) const MAX_COLUMNS: usize = 100;
/// How many lines of one message are shown.
const MAX_TEXT_LINES: usize = 60;
const MAX_MISSING: usize = 6;

pub(super) struct RunScreenOptions {
    pub signs: SignSet,
    pub has_bar: bool,
    pub is_quiet: bool,
    pub now_ms: fn() -> u64,
    /// Formats a time in the local time zone.
    pub format_time: fn(u64) -> String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignSet {
    Unicode,
    Ascii,
}

/// The kind of the last printed lines. An empty line separates different kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrintedKind {
    Nothing,
    Text,
    Tool,
    Gate,
    Label,
}

pub(super) struct RunScreen<O> {
    output: O,
    options: RunScreenOptions,
    bar: StatusBar,
    /// The bar as it is drawn, without its line break.
    drawn: String,
    last_kind: PrintedKind,
    run: String,
    gates: Vec<String>,
    /// The end and the attempt of the wait that was printed last.
    waiting: Option<(u64, u32)>,
    /// The step of the proof that was printed last.
    last_step: Option<ProofStep>,
}

impl<O: DriveOutput> RunScreen<O> {
    pub(super) fn new(output: O, look: RunScreenOptions) -> Self {
        Self {
            output,
            options: look,
            bar: StatusBar::default(),
            drawn: String::new(),
            last_kind: PrintedKind::Nothing,
            run: String::new(),
            gates: Vec::new(),
            waiting: None,
            last_step: None,
        }
    }

    /// Erases the bar.
    pub(super) fn close(mut self) -> O {
        self.erase();
        self.output
    }

    pub(super) fn on_event(&mut self, event: &RunEvent) {
        self.update_state(event);
        let is_end = matches!(event, RunEvent::Ended(_));
        if self.options.is_quiet && !is_end {
            return;
        }
        let (kind, text) = self.render_event(event);
        if text.is_empty() {
            self.tick();
            return;
        }
        let text = self.replace_signs(&text);
        self.erase();
        let is_apart = match (self.last_kind, kind) {
            (PrintedKind::Nothing, _) | (PrintedKind::Gate, PrintedKind::Label) => false,
            (before, now) => before != now || is_end,
        };
        self.output.print(&if is_apart { format!("\n{text}") } else { text });
        self.last_kind = kind;
        self.options.has_bar &= !is_end;
        self.tick();
    }

    pub(super) fn tick(&mut self) {
        if !self.options.has_bar {
            return;
        }
        let line = self.bar.line((self.options.now_ms)(), self.output.columns());
        let line = self.replace_signs(&line);
        if line != self.drawn {
            let frame = if line.is_empty() { String::new() } else { format!("{line}\n") };
            self.output.redraw(usize::from(!self.drawn.is_empty()), &frame);
            self.drawn = line;
        }
    }

    fn erase(&mut self) {
        if !self.drawn.is_empty() {
            self.output.redraw(1, "");
            self.drawn.clear();
        }
    }

    /// The width of lines that are cut.
    fn columns(&self) -> usize {
        self.output.columns().min(MAX_COLUMNS)
    }

    fn text_width(&self) -> TextWidth {
        self.output.text_width(MAX_COLUMNS)
    }

    fn replace_signs(&self, text: &str) -> String {
        replace_signs(self.options.signs, text)
    }

    /// Updates the state from an event.
    fn update_state(&mut self, event: &RunEvent) {
        let now_ms = (self.options.now_ms)();
        match event {
            RunEvent::Prepared { run, gates, .. } => {
                self.run = run.to_string();
                self.gates.clone_from(gates);
            }
            RunEvent::GateStarted { name, expected_ms } => {
                self.bar.gate_started(name, now_ms, *expected_ms);
            }
            RunEvent::GateEnded { name, .. } => self.bar.gate_ended(name),
            RunEvent::ProofProgress { step, done, of } => {
                self.bar.set_proof(*step, &describe_progress(*done, *of), now_ms);
            }
            RunEvent::Held { .. } | RunEvent::LetGo { .. } | RunEvent::Ended(_) => {
                self.bar.clear_proof();
                self.last_step = None;
            }
            RunEvent::Standing(standing) => self.bar.set_progress(standing, now_ms),
            RunEvent::Waiting { until_ms, .. } => self.bar.set_wait(Some(("waits", *until_ms))),
            RunEvent::Question { until_ms, .. } => self.bar.set_wait(Some(("asks", *until_ms))),
            RunEvent::Woke | RunEvent::Session { .. } => {
                self.bar.set_wait(None);
                self.waiting = None;
            }
            RunEvent::Said { .. }
            | RunEvent::Tool { .. }
            | RunEvent::ToolFailed { .. }
            | RunEvent::JudgeStep { .. }
            | RunEvent::HandedOver { .. }
            | RunEvent::Trouble { .. }
            | RunEvent::Silent { .. }
            | RunEvent::Tried { .. }
            | RunEvent::Note { .. } => {}
        }
    }

    /// The text of an event; empty if it prints nothing.
    fn render_event(&mut self, event: &RunEvent) -> (PrintedKind, String) {
        match event {
            RunEvent::Said { by, text } => {
                (PrintedKind::Text, message_lines(*by, text, self.text_width()))
            }
            RunEvent::Tool { by, name, what } => {
                (PrintedKind::Tool, tool_line(*by, name, what, self.columns()))
            }
            RunEvent::ToolFailed { by, text } => {
                let line =
                    format!("{}  {} {}", indent(*by), paint(term::BAD, "✗"), safe_line(text));
                (PrintedKind::Tool, cut_line(&line, self.columns()))
            }
            RunEvent::GateEnded { name, outcome, took_ms } => {
                (PrintedKind::Gate, gate_line(name, outcome, *took_ms))
            }
            // A step that is repeated in a new checkout begins twice.
            RunEvent::ProofProgress { step, done: None, .. } if self.last_step == Some(*step) => {
                (PrintedKind::Label, String::new())
            }
            RunEvent::ProofProgress { step, done: None, .. } => {
                self.last_step = Some(*step);
                (PrintedKind::Gate, step_line(step.describe(), self.columns()))
            }
            RunEvent::JudgeStep { name, step } => {
                (PrintedKind::Gate, step_line(&format!("{name}: {step}"), self.columns()))
            }
            RunEvent::GateStarted { .. }
            | RunEvent::ProofProgress { .. }
            | RunEvent::Standing(_) => (PrintedKind::Label, String::new()),
            RunEvent::Ended(report) => {
                let text = run_report::render_report(report, &self.gates, self.text_width());
                (PrintedKind::Label, text)
            }
            RunEvent::Prepared { .. }
            | RunEvent::Session { .. }
            | RunEvent::Held { .. }
            | RunEvent::LetGo { .. }
            | RunEvent::HandedOver { .. }
            | RunEvent::Trouble { .. }
            | RunEvent::Waiting { .. }
            | RunEvent::Woke
            | RunEvent::Silent { .. }
            | RunEvent::Tried { .. }
            | RunEvent::Question { .. }
            | RunEvent::Note { .. } => (PrintedKind::Label, self.render_labelled(event)),
        }
    }

    /// The text of an event of ralph itself.
    fn render_labelled(&mut self, event: &RunEvent) -> String {
        let width = self.text_width();
        let line = |label: &str, text: &str| styled_label_line(label, text, width);
        match event {
            RunEvent::Prepared { title, project, gates, notes, run } => {
                prepared_lines((run.as_str(), title, project), (gates, notes), width)
            }
            RunEvent::Session { session, how, number, model, .. } => {
                let how = match how {
                    SessionOrigin::Fresh => "starts",
                    SessionOrigin::Resumed => "resumes",
                    SessionOrigin::Forked => "starts as a fork",
                };
                let model = model.as_ref().map(|model| format!(", {}", safe_line(model)));
                let model = model.unwrap_or_default();
                line("session", &format!("{number}: {} {how}{model}", session.short()))
            }
            RunEvent::Held { iteration, most, because, missing, .. } => {
                let count = with_limit(
                    &format!("iteration {iteration}"),
                    most.map(|most| most.to_string()),
                );
                let head = line("held", &format!("{count} — {}", safe_line(because)));
                head + &self.missing_lines(missing)
            }
            RunEvent::LetGo { because, .. } => line("let go", &safe_line(because)),
            RunEvent::HandedOver { why, permille, handover } => {
                let full = permille.map(|it| format!("context {} %: ", it / 10));
                let (full, path) = (full.unwrap_or_default(), handover.to_string_lossy());
                let (why, path) = (safe_line(why), safe_line(&path));
                line("over", &format!("{full}{why}; the next session reads `{path}`"))
            }
            RunEvent::Trouble { class, text } => match safe_line(text) {
                text if text.is_empty() => line("trouble", &safe_line(class)),
                text => line("trouble", &format!("{}: {text}", safe_line(class))),
            },
            RunEvent::Waiting { why, until_ms, attempt } => {
                self.wait_line(why, *until_ms, *attempt)
            }
            RunEvent::Woke => line("resumes", "the wait is over"),
            RunEvent::Silent { after_ms, done } => {
                let done = match done {
                    SilenceResponse::Nudged => "the agent is asked for a sign of life",
                    SilenceResponse::Restarted => "the agent is restarted",
                };
                line("silent", &format!("for {}; {done}", format_duration(*after_ms)))
            }
            RunEvent::Tried { remedy, why } => {
                line("tries", &ralph_deck::standing_wording::tried_text(*remedy, why))
            }
            RunEvent::Question { text, until_ms } => {
                let until = (self.options.format_time)(*until_ms);
                let run = &self.run;
                let answer = format!(
                    "answer with `ralph tell {run} \"…\"`; parked at {until} without an answer"
                );
                line("asks", &safe_line(text)) + &line("", &answer)
            }
            RunEvent::Note { text } => line("note", &safe_line(text)),
            RunEvent::Said { .. }
            | RunEvent::Tool { .. }
            | RunEvent::ToolFailed { .. }
            | RunEvent::GateStarted { .. }
            | RunEvent::GateEnded { .. }
            | RunEvent::JudgeStep { .. }
            | RunEvent::ProofProgress { .. }
            | RunEvent::Standing(_)
            | RunEvent::Ended(_) => String::new(),
        }
    }

    /// A wait is printed once, although its event repeats every second.
    fn wait_line(&mut self, why: &str, until_ms: u64, attempt: u32) -> String {
        let wait = (until_ms, attempt);
        if self.waiting.replace(wait) == Some(wait) {
            return String::new();
        }
        let left = until_ms.saturating_sub((self.options.now_ms)());
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        let until = (self.options.format_time)(until_ms);
        let text = format!("{} until {until}{again}: {}", format_duration(left), safe_line(why));
        styled_label_line("waits", &text, self.text_width())
    }

    /// The first requirements that are not met.
    fn missing_lines(&self, open: &[MissingRequirement]) -> String {
        let mut out = String::new();
        for one in open.iter().take(MAX_MISSING) {
            let sign = match one.standing {
                ReportedStatus::Unmet => paint(term::BAD, "✗"),
                ReportedStatus::Unknown => paint(term::WARN, "?"),
                ReportedStatus::Pending | ReportedStatus::Advisory => paint(term::DIM, "·"),
            };
            let text = format!(
                "{:LABEL_COLUMNS$}{sign} {}: {}",
                "",
                safe_line(&one.name),
                safe_line(&one.note)
            );
            out.push_str(&cut_line(&text, self.columns()));
            if let Some(first) = &one.first {
                let text = format!("{:LABEL_COLUMNS$}  {}", "", safe_line(first));
                out.push_str(&cut_line(&text, self.columns()));
            }
        }
        if open.len() > MAX_MISSING {
            let more = open.len() - MAX_MISSING;
            let run = &self.run;
            out.push_str(&format!("{:LABEL_COLUMNS$}  {more} more: `ralph why {run}`\n", ""));
        }
        out
    }
}

/// Replaces signs by letters where there is no UTF-8.
pub(super) fn replace_signs(signs: SignSet, text: &str) -> String {
    match signs {
        SignSet::Unicode => text.to_string(),
        SignSet::Ascii => text
            .replace('✓', "v")
            .replace('✗', "x")
            .replace('·', ".")
            .replace('—', "-")
            .replace('▸', ">")
            .replace('…', "~"),
    }
}

fn prepared_lines(
    (run, title, project): (&str, &str, &PathBuf),
    (gates, notes): (&[String], &[String]),
    width: TextWidth,
) -> String {
    let mut out = labelled_line("", &paint(term::BOLD, run), &safe_line(title), width);
    let names: Vec<_> = gates.iter().map(|name| safe_line(name)).collect();
    let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
    out.push_str(&styled_label_line(
        "project",
        &format!("`{}`", safe_line(&project.to_string_lossy())),
        width,
    ));
    out.push_str(&styled_label_line("gates", &names, width));
    for note in notes {
        out.push_str(&styled_label_line("note", &safe_line(note), width));
    }
    let stop = format!(
        "Ctrl-C lets the turn end, twice ends it now; `ralph run --resume {run}` continues"
    );
    out + &styled_label_line("stop", &stop, width)
}

fn message_lines(by: EventSpeaker, foreign: &str, width: TextWidth) -> String {
    let foreign = text::clean(foreign);
    let foreign = foreign.trim_matches('\n').trim_end();
    if foreign.is_empty() {
        return String::new();
    }
    let indent = indent(by);
    let lines: Vec<_> = foreign.lines().collect();
    let mut out = String::new();
    for line in lines.iter().take(MAX_TEXT_LINES) {
        out.push_str(&wrap_line(&indent, line, width));
    }
    if lines.len() > MAX_TEXT_LINES {
        out.push_str(&format!("{indent}… {} more lines\n", lines.len() - MAX_TEXT_LINES));
    }
    out
}

fn tool_line(by: EventSpeaker, name: &str, what: &str, columns: usize) -> String {
    let (name, what) = (safe_line(name), safe_line(what));
    let line = format!("{}{} {name}  {what}", indent(by), paint(term::DIM, "·"));
    cut_line(line.trim_end(), columns)
}

/// Output of subagents is indented further.
fn indent(by: EventSpeaker) -> String {
    match by {
        EventSpeaker::Agent => "  ".to_string(),
        EventSpeaker::Subagent => "    ".to_string(),
    }
}

fn styled_label_line(label: &str, text: &str, width: TextWidth) -> String {
    let style = match label {
        "held" | "trouble" | "silent" => term::BAD,
        "asks" | "waits" | "note" | "tries" => term::WARN,
        "over" | "session" | "resumes" => term::BOLD,
        _ => term::DIM,
    };
    labelled_line("", &paint(style, label), text, width)
}

/// `, 31 of 148`
fn describe_progress(done: Option<usize>, of: Option<usize>) -> String {
    match (done, of) {
        (Some(done), Some(of)) => format!(", {done} of {of}"),
        (Some(done), None) => format!(", {done} done"),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
#[expect(clippy::too_many_lines, reason = "whole outputs are long")]
mod tests;
