//! Renders the timeline of a simulated session as text, line by line, with a summary at the end.

use crate::term::{BAD, BOLD, DIM, GOOD, WARN, paint};
use ralph_core::proof::ProofStep;
use ralph_core::text;
use ralph_deck::wording::{precise_duration, safe_line};
use ralph_sim::mismatch::{ExpectationMismatch, TimelineCounts};
use ralph_sim::scratch::ScratchProject;
use ralph_sim::timeline::{
    AgentLane, HandlerResult, HookEffect, MessageRole, TimelineEnding, TimelineEntry, TimelineHook,
    TimelineMessage, TimelineReply, TimelineTool,
};
use serde::Deserialize as _;
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
pub(crate) struct TimelineView {
    /// The last prompt, which the model's next request repeats and the view does not.
    last_prompt: String,
    aliases: PathAliases,
}

/// Paths of the scratch directory, each with the short name that replaces it.
#[derive(Debug, Default)]
struct PathAliases(Vec<(String, &'static str)>);

/// How the scenario's expectations compare with the timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExpectationResult<'a> {
    Met,
    NothingExpected,
    Mismatched(&'a [ExpectationMismatch]),
}

impl PathAliases {
    fn for_stage(stage: &ScratchProject) -> Self {
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
    fn runner_event(&self, event: &Value) -> String {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let shown = match text("event") {
            "standing" | "gate_started" => return String::new(),
            "prepared" => text("title").to_owned(),
            "session" => format!("{}, {}", text("how"), text("session")),
            "said" | "note" | "tool_failed" | "question" => text("text").to_owned(),
            "tool" => format!("{} {}", text("name"), text("what")),
            "gate_ended" => format!("{} {}", text("name"), text("outcome")),
            // One line for each step; its count of tests changes too often.
            "proof_progress" if !event["done"].is_null() => return String::new(),
            "proof_progress" => {
                let step = ProofStep::deserialize(&event["step"]);
                step.map_or_else(|_| text("step").to_owned(), |step| step.describe().to_owned())
            }
            "let_go" => format!("{}: {}", text("rule"), text("because")),
            "trouble" => format!("{}: {}", text("class"), text("text")),
            "waiting" => format!("{}, until {}", text("why"), text("until")),
            "silent" => text("done").to_owned(),
            "tried" => format!("{}: {}", text("remedy"), text("why")),
            "ended" => format!("{}: {}", text("status"), text("because")),
            _ => format!("{}{}", text("because"), text("why")),
        };
        let label = match text("event") {
            "proof_progress" => "proof".to_owned(),
            event => event.replace('_', " "),
        };
        labeled_line(&label, None, &self.short(&shown))
    }

    /// One line without control characters, with scratch paths replaced.
    fn short(&self, foreign: &str) -> String {
        let mut text = safe_line(foreign);
        for (path, name) in &self.0 {
            text = text.replace(path, name);
        }
        text::clean_line(&text, LONGEST)
    }
}

impl TimelineView {
    pub(crate) fn for_stage(stage: &ScratchProject) -> Self {
        Self { last_prompt: String::new(), aliases: PathAliases::for_stage(stage) }
    }

    pub(crate) fn render(&mut self, entry: &TimelineEntry) -> String {
        if let TimelineEntry::Prompt { text } = entry {
            self.last_prompt.clone_from(text);
        }
        let places = &self.aliases;
        match entry {
            TimelineEntry::Prompt { text } if text.starts_with(NOTIFICATION) => {
                labeled_line("client", None, &paint(BOLD, &places.short(summary_of(text))))
            }
            TimelineEntry::Prompt { text } => {
                labeled_line("person", None, &paint(BOLD, &places.short(text)))
            }
            TimelineEntry::Request(request) => {
                let messages = request.messages.iter().filter(|message| self.is_news(message));
                messages.map(|message| places.model_input(&request.agent, message)).collect()
            }
            TimelineEntry::Reply(reply) => places.reply(reply),
            TimelineEntry::Tool(tool) => places.tool_call(tool),
            TimelineEntry::Hook(hook) => session_change(hook) + &places.hook(hook),
            TimelineEntry::Notice { text } => {
                labeled_line("notice", None, &paint(WARN, &places.short(text)))
            }
            TimelineEntry::Ending(ending) => ending_line(ending),
            TimelineEntry::Run { told, .. } => places.runner_event(told),
            TimelineEntry::Exit { code } => labeled_line("exit", None, &code.to_string()),
        }
    }

    fn is_news(&self, message: &TimelineMessage) -> bool {
        let is_notified =
            self.last_prompt.starts_with(NOTIFICATION) && message.text.contains(&self.last_prompt);
        let is_repeated = message.text.trim_end() == self.last_prompt.trim_end();
        message.role != MessageRole::Tool && !is_notified && !is_repeated
    }

    /// The last lines: the counts, and which expectations were not met.
    pub(crate) fn summary(
        &self,
        counts: &TimelineCounts,
        judged: ExpectationResult<'_>,
        took_ms: u64,
    ) -> String {
        let TimelineCounts { requests, stops, blocks, overridden, tools, hooks } = *counts;
        let mut parts = vec![
            text::count_noun(requests, "model call"),
            text::count_noun(tools, "tool call"),
            text::count_noun(hooks, "hook") + " run",
            text::count_noun(stops, "stop"),
            format!("{blocks} held"),
        ];
        if overridden > 0 {
            parts.push(format!("{overridden} overridden"));
        }
        parts.push(precise_duration(took_ms));
        let mut out = parts.join(" · ") + "\n";
        match judged {
            ExpectationResult::Met => {
                out.push_str(&format!("{} all expectations met\n", paint(GOOD, "✓")));
            }
            ExpectationResult::NothingExpected => {
                out.push_str(&format!("{} no expectations\n", paint(DIM, "·")));
            }
            ExpectationResult::Mismatched(mismatches) => {
                for line in self.mismatches(mismatches) {
                    out.push_str(&format!("{} {line}\n", paint(BAD, "✗")));
                }
            }
        }
        out
    }

    /// The expectations that were not met, a line each.
    pub(crate) fn mismatches(
        &self,
        mismatches: &[ExpectationMismatch],
    ) -> impl Iterator<Item = String> {
        mismatches.iter().map(|ExpectationMismatch { what, expected, found }| {
            let (expected, found) = (self.aliases.short(expected), self.aliases.short(found));
            format!("{}: expected {expected}, found {found}", safe_line(what))
        })
    }

    /// The text of a notice that the client shows to the person.
    pub(crate) fn notice(&self, text: &str) -> String {
        self.aliases.short(text)
    }
}

fn labeled_line(label: &str, agent: Option<&AgentLane>, what: &str) -> String {
    let agent = agent.and_then(Option::as_ref);
    let agent = agent.map(|kind| format!("({}) ", safe_line(kind))).unwrap_or_default();
    format!("{} {agent}{what}\n", paint(DIM, &format!("{label:>11}")))
}

/// Settings from the command line are called `flag` by the client, but the person gave no such flag here.
pub(crate) fn settings_label(source: &str) -> String {
    if source == "flag" {
        "the given settings".to_owned()
    } else {
        format!("{} settings", safe_line(source))
    }
}

/// A line for a session that was resumed or forked; empty for all other events.
fn session_change(hook: &TimelineHook) -> String {
    let source = hook.input.get("source").and_then(Value::as_str);
    match (hook.event.as_str(), source) {
        ("SessionStart", Some("resume")) => labeled_line("session", None, &paint(BOLD, "resumed")),
        ("SessionStart", Some("fork")) => labeled_line("session", None, &paint(BOLD, "forked")),
        _ => String::new(),
    }
}

/// The text between the `<summary>` tags of a notification, or all of it.
fn summary_of(notification: &str) -> &str {
    let inner =
        notification.split_once("<summary>").and_then(|(_, rest)| rest.split_once("</summary>"));
    inner.map_or(notification, |(summary, _)| summary)
}

impl PathAliases {
    fn model_input(&self, agent: &AgentLane, message: &TimelineMessage) -> String {
        labeled_line("model reads", Some(agent), &paint(DIM, &self.short(&message.text)))
    }

    fn reply(&self, reply: &TimelineReply) -> String {
        let what = match &reply.error {
            Some(error) => paint(BAD, &self.short(error)),
            None if reply.text.is_empty() => return String::new(),
            None => self.short(&reply.text),
        };
        labeled_line("agent", Some(&reply.agent), &what)
    }

    fn tool_call(&self, tool: &TimelineTool) -> String {
        let input = ["command", "file_path", "prompt", "subject", "taskId"];
        let input =
            input.iter().find_map(|name| tool.input.get(name)?.as_str()).unwrap_or_default();
        let call = format!("{} {}", safe_line(&tool.name), self.short(input));
        let mut out = labeled_line("tool", Some(&tool.agent), call.trim_end());
        let style = if tool.is_error { BAD } else { DIM };
        out.push_str(&format!("{INDENT}{}\n", paint(style, &self.short(&tool.result))));
        out
    }

    fn hook(&self, hook: &TimelineHook) -> String {
        if hook.handlers.is_empty() {
            return String::new();
        }
        let (verdict, texts) = match &hook.effect {
            HookEffect::Allowed => (paint(GOOD, allowed_label(&hook.event)), Vec::new()),
            HookEffect::Blocked { reasons } => {
                (paint(BAD, blocked_label(&hook.event)), reasons.clone())
            }
            HookEffect::Stopped { reason } => {
                (paint(WARN, "ended by `continue: false`"), reason.iter().cloned().collect())
            }
            HookEffect::Overridden { reasons } => {
                (paint(WARN, "too many blocks in a row: the client lets go"), reasons.clone())
            }
            HookEffect::Continued { context } if hook.event.ends_with("Stop") => {
                (paint(BAD, "continues, with context"), context.clone())
            }
            HookEffect::Continued { context } => (paint(GOOD, "adds context"), context.clone()),
        };
        let mut out = labeled_line(&safe_line(&hook.event), Some(&hook.agent), &verdict);
        for text in texts {
            out.push_str(&self.quote(&text));
        }
        for handled in &hook.handlers {
            out.push_str(&self.handler(handled));
        }
        out
    }

    fn quote(&self, foreign: &str) -> String {
        let lines: Vec<&str> = foreign.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut out = String::new();
        for line in lines.iter().take(REASON_LINES) {
            out.push_str(&format!("{INDENT}{}\n", self.short(line)));
        }
        if lines.len() > REASON_LINES {
            let more =
                format!("… {} more", text::count_noun((lines.len() - REASON_LINES) as u64, "line"));
            out.push_str(&format!("{INDENT}{}\n", paint(DIM, &more)));
        }
        out
    }

    fn handler(&self, handled: &HandlerResult) -> String {
        let how = format!(
            "{} in {}, {}: {}",
            self.short(&handled.ended),
            precise_duration(handled.ms),
            settings_label(&handled.source),
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
        out.push_str(&format!("{INDENT}{} {}\n", paint(WARN, "!"), self.short(remark)));
        out
    }
}

/// One hook and its answer, with paths as they are.
pub(crate) fn render_handler(handled: &HandlerResult) -> String {
    PathAliases::default().handler(handled)
}

fn allowed_label(event: &str) -> &'static str {
    match event {
        "Stop" | "SubagentStop" | "TeammateIdle" => "let go",
        _ => "nothing to add",
    }
}

fn blocked_label(event: &str) -> &'static str {
    match event {
        "Stop" | "SubagentStop" | "TeammateIdle" => "held",
        "PreToolUse" => "denied",
        "UserPromptSubmit" | "UserPromptExpansion" => "dropped",
        _ => "objected",
    }
}

fn ending_line(ending: &TimelineEnding) -> String {
    let style = if ending.is_error { BAD } else { BOLD };
    let mut what = paint(style, &safe_line(&ending.reason));
    if ending.result.is_empty() && ending.reason == "completed" {
        what.push_str(", without output");
    }
    labeled_line("end", None, &what)
}
