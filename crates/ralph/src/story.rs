//! Renders the timeline of a simulated session as text, line by line, with a summary at the end.

use crate::term::{BAD, BOLD, DIM, GOOD, ODD, paint};
use crate::wording::{safe, short_duration};
use ralph_core::text;
use ralph_sim::check::{Counts, Mismatch};
use ralph_sim::stage::Stage;
use ralph_sim::timeline::{Effect, Ending, Entry, Handled, Hook, Lane, Reply, Role, Said, Tool};
use serde_json::Value;

/// How many characters of a text are shown on its line.
const LONGEST: usize = 160;
/// How many lines of a reason are shown.
const REASON_LINES: usize = 6;
/// Indents a line that belongs to the one above.
const INDENT: &str = "            ";
/// Begins a prompt that the client writes in the person's name.
const NOTIFICATION: &str = "<task-notification>";

/// Renders the entries of a timeline in order.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// The last prompt, which the model's next request repeats and the view does not.
    said: String,
    places: Places,
}

/// Paths of the scratch directory, each with the short name that replaces it.
#[derive(Debug, Default)]
struct Places(Vec<(String, &'static str)>);

/// How the scenario's expectations compare with the timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Judged<'a> {
    AsExpected,
    NothingExpected,
    Otherwise(&'a [Mismatch]),
}

impl Places {
    fn of(stage: &Stage) -> Self {
        let path = |path: &std::path::Path| path.display().to_string();
        let project = path(&stage.project);
        Self(vec![
            (format!("{project}/"), ""),
            (project, "."),
            (path(&stage.home), "~"),
            (path(&stage.root), "$SCRATCH"),
        ])
    }

    /// An event of the runner. `standing` and `gate_started` are too frequent to show.
    fn ran(&self, event: &Value) -> String {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let shown = match text("event") {
            "standing" | "gate_started" => return String::new(),
            "prepared" => text("title").to_owned(),
            "session" => format!("{}, {}", text("how"), text("session")),
            "said" | "note" | "tool_failed" | "question" => text("text").to_owned(),
            "tool" => format!("{} {}", text("name"), text("what")),
            "gate_ended" => format!("{} {}", text("name"), text("outcome")),
            "let_go" => format!("{}: {}", text("rule"), text("because")),
            "trouble" => format!("{}: {}", text("class"), text("text")),
            "waiting" => format!("{}, until {}", text("why"), text("until")),
            "silent" => text("done").to_owned(),
            "tried" => format!("{}: {}", text("remedy"), text("why")),
            "ended" => format!("{}: {}", text("status"), text("because")),
            _ => format!("{}{}", text("because"), text("why")),
        };
        line(&text("event").replace('_', " "), None, &self.short(&shown))
    }

    /// One line without control characters, with scratch paths replaced.
    fn short(&self, foreign: &str) -> String {
        let mut text = safe(foreign);
        for (path, name) in &self.0 {
            text = text.replace(path, name);
        }
        text::line(&text, LONGEST)
    }
}

impl Story {
    pub(crate) fn of(stage: &Stage) -> Self {
        Self { said: String::new(), places: Places::of(stage) }
    }

    pub(crate) fn tell(&mut self, entry: &Entry) -> String {
        if let Entry::Prompt { text } = entry {
            self.said.clone_from(text);
        }
        let places = &self.places;
        match entry {
            Entry::Prompt { text } if text.starts_with(NOTIFICATION) => {
                line("client", None, &paint(BOLD, &places.short(summary_of(text))))
            }
            Entry::Prompt { text } => line("person", None, &paint(BOLD, &places.short(text))),
            Entry::Request(request) => {
                let messages = request.messages.iter().filter(|message| self.is_news(message));
                messages.map(|message| places.reads(&request.agent, message)).collect()
            }
            Entry::Reply(reply) => places.replied(reply),
            Entry::Tool(tool) => places.called(tool),
            Entry::Hook(hook) => begun(hook) + &places.hooked(hook),
            Entry::Notice { text } => line("notice", None, &paint(ODD, &places.short(text))),
            Entry::Ending(ending) => ended(ending),
            Entry::Run { told, .. } => places.ran(told),
            Entry::Exit { code } => line("exit", None, &code.to_string()),
        }
    }

    fn is_news(&self, message: &Said) -> bool {
        let is_notified = self.said.starts_with(NOTIFICATION) && message.text.contains(&self.said);
        let is_repeated = message.text.trim_end() == self.said.trim_end();
        message.role != Role::Tool && !is_notified && !is_repeated
    }

    /// The last lines: the counts, and which expectations were not met.
    pub(crate) fn summary(&self, counts: &Counts, judged: Judged<'_>, took_ms: u64) -> String {
        let Counts { requests, stops, blocks, overridden, tools, hooks } = *counts;
        let mut parts = vec![
            many(requests, "model call"),
            many(tools, "tool call"),
            many(hooks, "hook") + " run",
            many(stops, "stop"),
            format!("{blocks} held"),
        ];
        if overridden > 0 {
            parts.push(format!("{overridden} overridden"));
        }
        parts.push(moment(took_ms));
        let mut out = parts.join(" · ") + "\n";
        match judged {
            Judged::AsExpected => {
                out.push_str(&format!("{} all expectations met\n", paint(GOOD, "✓")));
            }
            Judged::NothingExpected => {
                out.push_str(&format!("{} no expectations\n", paint(DIM, "·")));
            }
            Judged::Otherwise(mismatches) => {
                for line in self.mismatches(mismatches) {
                    out.push_str(&format!("{} {line}\n", paint(BAD, "✗")));
                }
            }
        }
        out
    }

    /// The expectations that were not met, a line each.
    pub(crate) fn mismatches(&self, mismatches: &[Mismatch]) -> impl Iterator<Item = String> {
        mismatches.iter().map(|Mismatch { what, expected, found }| {
            let (expected, found) = (self.places.short(expected), self.places.short(found));
            format!("{}: expected {expected}, found {found}", safe(what))
        })
    }

    /// The text of a notice that the client shows to the person.
    pub(crate) fn notice(&self, text: &str) -> String {
        self.places.short(text)
    }
}

fn line(label: &str, agent: Option<&Lane>, what: &str) -> String {
    let agent = agent.and_then(Option::as_ref);
    let agent = agent.map(|kind| format!("({}) ", safe(kind))).unwrap_or_default();
    format!("{} {agent}{what}\n", paint(DIM, &format!("{label:>11}")))
}

pub(crate) fn many(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Settings from the command line are called `flag` by the client, but the person gave no such flag here.
pub(crate) fn settings(source: &str) -> String {
    if source == "flag" {
        "the given settings".to_owned()
    } else {
        format!("{} settings", safe(source))
    }
}

/// `12 ms`, `1.2 s`
pub(crate) fn moment(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { short_duration(ms) }
}

/// A line for a session that was resumed or forked; empty for all other events.
fn begun(hook: &Hook) -> String {
    let source = hook.input.get("source").and_then(Value::as_str);
    match (hook.event.as_str(), source) {
        ("SessionStart", Some("resume")) => line("session", None, &paint(BOLD, "resumed")),
        ("SessionStart", Some("fork")) => line("session", None, &paint(BOLD, "forked")),
        _ => String::new(),
    }
}

/// The text between the `<summary>` tags of a notification, or all of it.
fn summary_of(notification: &str) -> &str {
    let inner =
        notification.split_once("<summary>").and_then(|(_, rest)| rest.split_once("</summary>"));
    inner.map_or(notification, |(summary, _)| summary)
}

impl Places {
    fn reads(&self, agent: &Lane, message: &Said) -> String {
        line("model reads", Some(agent), &paint(DIM, &self.short(&message.text)))
    }

    fn replied(&self, reply: &Reply) -> String {
        let what = match &reply.error {
            Some(error) => paint(BAD, &self.short(error)),
            None if reply.text.is_empty() => return String::new(),
            None => self.short(&reply.text),
        };
        line("agent", Some(&reply.agent), &what)
    }

    fn called(&self, tool: &Tool) -> String {
        let input = ["command", "file_path", "prompt", "subject", "taskId"];
        let input =
            input.iter().find_map(|name| tool.input.get(name)?.as_str()).unwrap_or_default();
        let call = format!("{} {}", safe(&tool.name), self.short(input));
        let mut out = line("tool", Some(&tool.agent), call.trim_end());
        let style = if tool.is_error { BAD } else { DIM };
        out.push_str(&format!("{INDENT}{}\n", paint(style, &self.short(&tool.result))));
        out
    }

    fn hooked(&self, hook: &Hook) -> String {
        if hook.handlers.is_empty() {
            return String::new();
        }
        let (verdict, texts) = match &hook.effect {
            Effect::Allowed => (paint(GOOD, allowed(&hook.event)), Vec::new()),
            Effect::Blocked { reasons } => (paint(BAD, blocked(&hook.event)), reasons.clone()),
            Effect::Stopped { reason } => {
                (paint(ODD, "ended by `continue: false`"), reason.iter().cloned().collect())
            }
            Effect::Overridden { reasons } => {
                (paint(ODD, "too many blocks in a row: the client lets go"), reasons.clone())
            }
            Effect::Continued { context } if hook.event.ends_with("Stop") => {
                (paint(BAD, "continues, with context"), context.clone())
            }
            Effect::Continued { context } => (paint(GOOD, "adds context"), context.clone()),
        };
        let mut out = line(&safe(&hook.event), Some(&hook.agent), &verdict);
        for text in texts {
            out.push_str(&self.quoted(&text));
        }
        for handled in &hook.handlers {
            out.push_str(&self.handler(handled));
        }
        out
    }

    fn quoted(&self, foreign: &str) -> String {
        let lines: Vec<&str> = foreign.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut out = String::new();
        for line in lines.iter().take(REASON_LINES) {
            out.push_str(&format!("{INDENT}{}\n", self.short(line)));
        }
        if lines.len() > REASON_LINES {
            let more = format!("… {} more", many((lines.len() - REASON_LINES) as u64, "line"));
            out.push_str(&format!("{INDENT}{}\n", paint(DIM, &more)));
        }
        out
    }

    fn handler(&self, handled: &Handled) -> String {
        let how = format!(
            "{} in {}, {}: {}",
            self.short(&handled.ended),
            moment(handled.ms),
            settings(&handled.source),
            self.short(&handled.command)
        );
        let mut out = format!("{INDENT}{}\n", paint(DIM, &how));
        let Some(remark) = &handled.remark else { return out };
        for (name, printed) in [("stdout", &handled.stdout), ("stderr", &handled.stderr)] {
            let printed = self.short(printed);
            if !printed.is_empty() {
                out.push_str(&format!("{INDENT}{}\n", paint(DIM, &format!("{name}: {printed}"))));
            }
        }
        out.push_str(&format!("{INDENT}{} {}\n", paint(ODD, "!"), self.short(remark)));
        out
    }
}

/// One hook and its answer, with paths as they are.
pub(crate) fn handler(handled: &Handled) -> String {
    Places::default().handler(handled)
}

fn allowed(event: &str) -> &'static str {
    match event {
        "Stop" | "SubagentStop" | "TeammateIdle" => "let go",
        _ => "nothing to add",
    }
}

fn blocked(event: &str) -> &'static str {
    match event {
        "Stop" | "SubagentStop" | "TeammateIdle" => "held",
        "PreToolUse" => "denied",
        "UserPromptSubmit" | "UserPromptExpansion" => "dropped",
        _ => "objected",
    }
}

fn ended(ending: &Ending) -> String {
    let style = if ending.is_error { BAD } else { BOLD };
    let mut what = paint(style, &safe(&ending.reason));
    if ending.result.is_empty() && ending.reason == "completed" {
        what.push_str(", without output");
    }
    line("end", None, &what)
}
