//! The text output of a run: the agent's messages and tool calls, gates, decisions, and a status bar at the bottom.

use super::bar::Bar;
use super::report;
use super::view::Output;
use crate::term::{self, paint};
use crate::wording::{self, safe};
use ralph_core::drive::{How, Silence};
use ralph_core::limits::duration;
use ralph_core::record::Known;
use ralph_core::text;
use ralph_drive::told::{Missing, Speaker, Told};
use std::path::PathBuf;

/// The column where the text of labelled lines begins.
const LABEL: usize = 8;
/// The maximum width: longer lines are hard to read.
const WIDEST: usize = 100;
/// How many lines of one message are shown.
const MOST_LINES: usize = 60;
const MOST_MISSING: usize = 6;

pub(super) struct Look {
    pub signs: Signs,
    pub has_bar: bool,
    pub is_quiet: bool,
    pub first_line: report::First,
    pub now_ms: fn() -> u64,
    /// Formats a time in the local time zone.
    pub when: fn(u64) -> String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signs {
    Unicode,
    Ascii,
}

/// The kind of the last printed lines. An empty line separates different kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Text,
    Tool,
    Gate,
    Label,
}

pub(super) struct Screen<O> {
    output: O,
    look: Look,
    bar: Bar,
    /// The bar as it is drawn, without its line break.
    drawn: String,
    last: Kind,
    run: String,
    gates: Vec<String>,
    /// The end and the attempt of the wait that was printed last.
    waiting: Option<(u64, u32)>,
}

impl<O: Output> Screen<O> {
    pub(super) fn new(output: O, look: Look) -> Self {
        Self {
            output,
            look,
            bar: Bar::default(),
            drawn: String::new(),
            last: Kind::Nothing,
            run: String::new(),
            gates: Vec::new(),
            waiting: None,
        }
    }

    /// Erases the bar.
    pub(super) fn close(mut self) -> O {
        self.erase();
        self.output
    }

    pub(super) fn tell(&mut self, event: &Told) {
        self.note(event);
        let is_end = matches!(event, Told::Ended(_));
        if self.look.is_quiet && !is_end {
            return;
        }
        let (kind, text) = self.drawn(event);
        if text.is_empty() {
            self.tick();
            return;
        }
        let text = self.spelled(&text);
        self.erase();
        let is_apart = match (self.last, kind) {
            (Kind::Nothing, _) | (Kind::Gate, Kind::Label) => false,
            (before, now) => before != now || is_end,
        };
        self.output.print(&if is_apart { format!("\n{text}") } else { text });
        self.last = kind;
        self.look.has_bar &= !is_end;
        self.tick();
    }

    pub(super) fn tick(&mut self) {
        if !self.look.has_bar {
            return;
        }
        let line = self.bar.line((self.look.now_ms)(), self.output.columns());
        let line = self.spelled(&line);
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

    fn columns(&self) -> usize {
        self.output.columns().min(WIDEST)
    }

    fn spelled(&self, text: &str) -> String {
        spelled(self.look.signs, text)
    }

    /// Updates the state from an event.
    fn note(&mut self, event: &Told) {
        let now_ms = (self.look.now_ms)();
        match event {
            Told::Prepared { run, gates, .. } => {
                self.run = run.to_string();
                self.gates.clone_from(gates);
            }
            Told::GateStarted { name } => self.bar.gate_started(name, now_ms),
            Told::GateEnded { name, .. } => self.bar.gate_ended(name),
            Told::Standing(standing) => self.bar.stand(standing, now_ms),
            Told::Waiting { until_ms, .. } => self.bar.wait(Some(("waits", *until_ms))),
            Told::Question { until_ms, .. } => self.bar.wait(Some(("asks", *until_ms))),
            Told::Woke | Told::Session { .. } => {
                self.bar.wait(None);
                self.waiting = None;
            }
            Told::Said { .. }
            | Told::Tool { .. }
            | Told::ToolFailed { .. }
            | Told::Held { .. }
            | Told::LetGo { .. }
            | Told::HandedOver { .. }
            | Told::Trouble { .. }
            | Told::Silent { .. }
            | Told::Tried { .. }
            | Told::Note { .. }
            | Told::Ended(_) => {}
        }
    }

    /// The text of an event; empty if it prints nothing.
    fn drawn(&mut self, event: &Told) -> (Kind, String) {
        match event {
            Told::Said { by, text } => (Kind::Text, said(*by, text, self.columns())),
            Told::Tool { by, name, what } => (Kind::Tool, tool(*by, (name, what), self.columns())),
            Told::ToolFailed { by, text } => {
                let line = format!("{}  {} {}", indent(*by), paint(term::BAD, "✗"), safe(text));
                (Kind::Tool, one_line(&line, self.columns()))
            }
            Told::GateEnded { name, outcome, took_ms } => {
                (Kind::Gate, gate(name, outcome, *took_ms))
            }
            Told::GateStarted { .. } | Told::Standing(_) => (Kind::Label, String::new()),
            Told::Ended(report) => {
                let columns = (self.columns(), self.look.first_line);
                (Kind::Label, report::told(report, &self.gates, columns))
            }
            Told::Prepared { .. }
            | Told::Session { .. }
            | Told::Held { .. }
            | Told::LetGo { .. }
            | Told::HandedOver { .. }
            | Told::Trouble { .. }
            | Told::Waiting { .. }
            | Told::Woke
            | Told::Silent { .. }
            | Told::Tried { .. }
            | Told::Question { .. }
            | Told::Note { .. } => (Kind::Label, self.labelled(event)),
        }
    }

    /// The text of an event of ralph itself.
    fn labelled(&mut self, event: &Told) -> String {
        let columns = self.columns();
        let line = |label: &str, text: &str| label_line(label, text, columns);
        match event {
            Told::Prepared { title, project, gates, notes, run } => {
                prepared((run.as_str(), title, project), (gates, notes), columns)
            }
            Told::Session { session, how, number, model, .. } => {
                let how = match how {
                    How::Fresh => "starts",
                    How::Resumed => "resumes",
                    How::Forked => "starts as a fork",
                };
                let model = model.as_ref().map(|model| format!(", {}", safe(model)));
                let model = model.unwrap_or_default();
                line("session", &format!("{number}: {} {how}{model}", session.short()))
            }
            Told::Held { iteration, most, because, missing, .. } => {
                let count = super::bar::of_most(
                    &format!("iteration {iteration}"),
                    most.map(|most| most.to_string()),
                );
                let head = line("held", &format!("{count} — {}", safe(because)));
                head + &self.missing(missing)
            }
            Told::LetGo { because, .. } => line("let go", &safe(because)),
            Told::HandedOver { why, permille, handoff } => {
                let full = permille.map(|it| format!("context {} %: ", it / 10));
                let path = safe(&handoff.to_string_lossy());
                let why = safe(why);
                line(
                    "over",
                    &format!("{}{why}; the next session reads `{path}`", full.unwrap_or_default()),
                )
            }
            Told::Trouble { class, text } => match safe(text) {
                text if text.is_empty() => line("trouble", &safe(class)),
                text => line("trouble", &format!("{}: {text}", safe(class))),
            },
            Told::Waiting { why, until_ms, attempt } => self.wait(why, (*until_ms, *attempt)),
            Told::Woke => line("resumes", "the wait is over"),
            Told::Silent { after_ms, done } => {
                let done = match done {
                    Silence::Nudged => "the agent is asked for a sign of life",
                    Silence::Restarted => "the agent is restarted",
                };
                line("silent", &format!("for {}; {done}", duration(*after_ms)))
            }
            Told::Tried { remedy, why } => {
                line("tries", &format!("{}: {}", remedy.name(), safe(why)))
            }
            Told::Question { text, until_ms } => {
                let until = (self.look.when)(*until_ms);
                let run = &self.run;
                let answer = format!(
                    "answer with `ralph tell {run} \"…\"`; parked at {until} without an answer"
                );
                line("asks", &safe(text)) + &line("", &answer)
            }
            Told::Note { text } => line("note", &safe(text)),
            Told::Said { .. }
            | Told::Tool { .. }
            | Told::ToolFailed { .. }
            | Told::GateStarted { .. }
            | Told::GateEnded { .. }
            | Told::Standing(_)
            | Told::Ended(_) => String::new(),
        }
    }

    /// A wait is printed once, although its event repeats every second.
    fn wait(&mut self, why: &str, wait: (u64, u32)) -> String {
        if self.waiting.replace(wait) == Some(wait) {
            return String::new();
        }
        let (until_ms, attempt) = wait;
        let left = until_ms.saturating_sub((self.look.now_ms)());
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        let until = (self.look.when)(until_ms);
        let text = format!("{} until {until}{again}: {}", duration(left), safe(why));
        label_line("waits", &text, self.columns())
    }

    /// The first requirements that are not met.
    fn missing(&self, open: &[Missing]) -> String {
        let mut out = String::new();
        for one in open.iter().take(MOST_MISSING) {
            let sign = match one.standing {
                Known::Unmet => paint(term::BAD, "✗"),
                Known::Unknown => paint(term::ODD, "?"),
                Known::Pending | Known::Advisory => paint(term::DIM, "·"),
            };
            let text = format!("{:LABEL$}{sign} {}: {}", "", safe(&one.name), safe(&one.note));
            out.push_str(&one_line(&text, self.columns()));
            if let Some(first) = &one.first {
                let text = format!("{:LABEL$}  {}", "", safe(first));
                out.push_str(&one_line(&text, self.columns()));
            }
        }
        if open.len() > MOST_MISSING {
            let more = open.len() - MOST_MISSING;
            let run = &self.run;
            out.push_str(&format!("{:LABEL$}  {more} more: `ralph why {run}`\n", ""));
        }
        out
    }
}

/// Replaces signs by letters where there is no UTF-8.
pub(super) fn spelled(signs: Signs, text: &str) -> String {
    match signs {
        Signs::Unicode => text.to_string(),
        Signs::Ascii => text
            .replace('✓', "v")
            .replace('✗', "x")
            .replace('·', ".")
            .replace('—', "-")
            .replace('▸', ">")
            .replace('…', "~"),
    }
}

fn prepared(
    (run, title, project): (&str, &str, &PathBuf),
    (gates, notes): (&[String], &[String]),
    columns: usize,
) -> String {
    let mut out = line_of("", &paint(term::BOLD, run), &safe(title), columns);
    let names: Vec<_> = gates.iter().map(|name| safe(name)).collect();
    let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
    out.push_str(&label_line(
        "project",
        &format!("`{}`", safe(&project.to_string_lossy())),
        columns,
    ));
    out.push_str(&label_line("gates", &names, columns));
    for note in notes {
        out.push_str(&label_line("note", &safe(note), columns));
    }
    let stop = format!(
        "Ctrl-C lets the turn end, twice ends it now; `ralph run --resume {run}` continues"
    );
    out + &label_line("stop", &stop, columns)
}

fn said(by: Speaker, foreign: &str, columns: usize) -> String {
    let foreign = text::clean(foreign);
    let foreign = foreign.trim_matches('\n').trim_end();
    if foreign.is_empty() {
        return String::new();
    }
    let indent = indent(by);
    let lines: Vec<_> = foreign.lines().collect();
    let mut out = String::new();
    for line in lines.iter().take(MOST_LINES) {
        out.push_str(&wrapped(&indent, line, columns));
    }
    if lines.len() > MOST_LINES {
        out.push_str(&format!("{indent}… {} more lines\n", lines.len() - MOST_LINES));
    }
    out
}

fn tool(by: Speaker, (name, what): (&str, &str), columns: usize) -> String {
    let (name, what) = (safe(name), safe(what));
    let line = format!("{}{} {name}  {what}", indent(by), paint(term::DIM, "·"));
    one_line(line.trim_end(), columns)
}

fn gate(name: &str, outcome: &str, took_ms: u64) -> String {
    let took = wording::short_duration(took_ms);
    let name = safe(name);
    match outcome {
        "passed" => format!("  {} {name}  {took}\n", paint(term::GOOD, "✓")),
        "failed" => format!("  {} {name}  {took}\n", paint(term::BAD, "✗")),
        "skipped" => format!("  {} {name}  skipped\n", paint(term::DIM, "·")),
        other => format!("  {} {name}  {}, {took}\n", paint(term::ODD, "?"), safe(other)),
    }
}

/// Output of subagents is indented further.
fn indent(by: Speaker) -> String {
    match by {
        Speaker::Agent => "  ".to_string(),
        Speaker::Subagent => "    ".to_string(),
    }
}

fn label_line(label: &str, text: &str, columns: usize) -> String {
    let style = match label {
        "held" | "trouble" | "silent" => term::BAD,
        "asks" | "waits" | "note" | "tries" => term::ODD,
        "over" | "session" | "resumes" => term::BOLD,
        _ => term::DIM,
    };
    line_of("", &paint(style, label), text, columns)
}

/// A label and a text that wraps below itself, with an optional mark in front.
pub(super) fn line_of(mark: &str, label: &str, text: &str, columns: usize) -> String {
    let head = if mark.is_empty() { label.to_string() } else { format!("{mark} {label}") };
    let column = if mark.is_empty() { LABEL } else { LABEL + 2 };
    let taken = width(&term::plain(&head));
    let gap = " ".repeat(column.saturating_sub(taken).max(1));
    let body = wrapped(&" ".repeat(column), text, columns);
    format!("{head}{gap}{}", body.get(column..).unwrap_or_default())
}

/// Cuts a line to the terminal, so that it does not wrap.
fn one_line(line: &str, columns: usize) -> String {
    let is_whole = width(&term::plain(line)) < columns;
    if is_whole {
        return format!("{line}\n");
    }
    format!("{}…\n", term::fit(line, columns.saturating_sub(2)))
}

/// Wraps one line of text, each line with `indent` and the line's own indentation. A word that is too wide is not
/// broken, so that it can be copied.
pub(super) fn wrapped(indent: &str, line: &str, columns: usize) -> String {
    let own: String = line.chars().take_while(|char| *char == ' ').take(columns / 3).collect();
    let room = columns.saturating_sub(width(indent) + width(&own) + 1).max(20);
    let mut out = String::new();
    let mut taken = 0;
    for word in words(line, room) {
        let word_width = width(word);
        if taken == 0 || taken + 1 + word_width > room {
            if taken > 0 {
                out.push('\n');
            }
            out.push_str(indent);
            out.push_str(&own);
            taken = 0;
        } else {
            out.push(' ');
            taken += 1;
        }
        out.push_str(word);
        taken += word_width;
    }
    out.push('\n');
    out
}

/// Splits at spaces, but not between two backticks as long as there is room, so that commands can be copied.
fn words(line: &str, room: usize) -> impl Iterator<Item = &str> {
    let mut rest = line.trim_start_matches(' ');
    std::iter::from_fn(move || {
        let space = |from: usize| rest.get(from..)?.find(' ').map(|at| from + at);
        let first = space(0).unwrap_or(rest.len());
        let is_open =
            |end: usize| rest.get(..end).is_some_and(|it| it.matches('`').count() % 2 == 1);
        let closing = |from: usize| rest.get(from..)?.find('`').map(|at| from + at + 1);
        let end = match is_open(first).then(|| closing(first)).flatten() {
            Some(close) => space(close).unwrap_or(rest.len()),
            None => first,
        };
        let end = if rest.get(..end).is_some_and(|it| width(it) > room) { first } else { end };
        let (word, after) = rest.split_at_checked(end)?;
        rest = after.trim_start_matches(' ');
        (!word.is_empty()).then_some(word)
    })
}

fn width(text: &str) -> usize {
    text.chars().map(term::width).sum()
}

#[cfg(test)]
#[path = "tests.rs"]
#[expect(clippy::too_many_lines, reason = "whole outputs are long")]
mod tests;
