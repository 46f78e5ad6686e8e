//! A timeline as a person reads it.

use crate::term::{BAD, BOLD, DIM, GOOD, ODD, paint};
use crate::wording::{safe, short_duration};
use ralph_core::text;
use ralph_sim::check::{Counts, Mismatch};
use ralph_sim::timeline::{Effect, Ending, Entry, Handled, Hook, Lane, Reply, Role, Said, Tool};

/// How much of a text is shown on its line.
const LONGEST: usize = 160;
/// How many lines of a reason are shown.
const REASON_LINES: usize = 6;
/// What stands before the first column of a line that belongs to another.
const INDENT: &str = "            ";

/// Tells a timeline line by line.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// What was said last, which the model's reading of it need not repeat.
    said: String,
}

impl Story {
    pub(crate) fn tell(&mut self, entry: &Entry) -> String {
        match entry {
            Entry::Prompt { text } => {
                self.said.clone_from(text);
                line("person", None, &paint(BOLD, &short(text)))
            }
            Entry::Request(request) => {
                let heard = request.messages.iter().filter(|said| self.is_news(said));
                heard.map(|said| reads(&request.agent, said)).collect()
            }
            Entry::Reply(reply) => replied(reply),
            Entry::Tool(tool) => called(tool),
            Entry::Hook(hook) => hooked(hook),
            Entry::Notice { text } => line("notice", None, &paint(ODD, &short(text))),
            Entry::Ending(ending) => ended(ending),
            Entry::Exit { code } => line("exit", None, &code.to_string()),
        }
    }

    fn is_news(&self, said: &Said) -> bool {
        said.role != Role::Tool && said.text.trim_end() != self.said.trim_end()
    }
}

fn line(who: &str, agent: Option<&Lane>, what: &str) -> String {
    let agent = agent.and_then(Option::as_ref);
    let agent = agent.map(|kind| format!("({}) ", safe(kind))).unwrap_or_default();
    format!("{} {agent}{what}\n", paint(DIM, &format!("{who:>11}")))
}

fn short(foreign: &str) -> String {
    text::line(&safe(foreign), LONGEST)
}

fn reads(agent: &Lane, said: &Said) -> String {
    line("model reads", Some(agent), &paint(DIM, &short(&said.text)))
}

fn replied(reply: &Reply) -> String {
    let what = match &reply.error {
        Some(error) => paint(BAD, &short(error)),
        None if reply.text.is_empty() => return String::new(),
        None => short(&reply.text),
    };
    line("agent", Some(&reply.agent), &what)
}

fn called(tool: &Tool) -> String {
    let input = ["command", "file_path", "prompt", "subject", "taskId"];
    let input = input.iter().find_map(|name| tool.input.get(name)?.as_str()).unwrap_or_default();
    let mut out =
        line("tool", Some(&tool.agent), &format!("{} {}", safe(&tool.name), short(input)));
    let style = if tool.is_error { BAD } else { DIM };
    out.push_str(&format!("{INDENT}{}\n", paint(style, &short(&tool.result))));
    out
}

fn hooked(hook: &Hook) -> String {
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
            (paint(ODD, "held once too often: the client lets go"), reasons.clone())
        }
        Effect::Continued { context } if hook.event.ends_with("Stop") => {
            (paint(BAD, "goes on, with context"), context.clone())
        }
        Effect::Continued { context } => (paint(GOOD, "adds context"), context.clone()),
    };
    let mut out = line(&hook.event, Some(&hook.agent), &verdict);
    for text in texts {
        out.push_str(&quoted(&text));
    }
    for handled in &hook.handlers {
        out.push_str(&handler(handled));
    }
    out
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

fn quoted(foreign: &str) -> String {
    let lines: Vec<&str> = foreign.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = lines.iter().take(REASON_LINES).map(|line| format!("{INDENT}{}\n", short(line)));
    let mut out: String = shown.collect();
    if lines.len() > REASON_LINES {
        out.push_str(&format!(
            "{INDENT}{}\n",
            paint(DIM, &format!("… {} lines more", lines.len() - REASON_LINES))
        ));
    }
    out
}

pub(crate) fn handler(handled: &Handled) -> String {
    let took = short_duration(handled.ms);
    let how = format!(
        "{} in {took}, {} settings: {}",
        handled.ended,
        handled.source,
        short(&handled.command)
    );
    let mut out = format!("{INDENT}{}\n", paint(DIM, &how));
    if let Some(remark) = &handled.remark {
        out.push_str(&format!("{INDENT}{} {}\n", paint(ODD, "!"), short(remark)));
    }
    out
}

fn ended(ending: &Ending) -> String {
    let style = if ending.is_error { BAD } else { BOLD };
    let mut what = paint(style, &ending.reason);
    if ending.result.is_empty() && ending.reason == "completed" {
        what.push_str(", with nothing to show");
    }
    line("end", None, &what)
}

/// The last lines: how it went, and what was expected and did not come.
pub(crate) fn summary(counts: &Counts, mismatches: &[Mismatch], took_ms: u64) -> String {
    let Counts { requests, stops, blocks, overridden, tools, hooks } = counts;
    let mut out = format!(
        "\n{requests} model calls, {tools} tool calls, {stops} stops: {blocks} held, {overridden} overridden; {hooks} hooks \
         ran; {}\n",
        short_duration(took_ms)
    );
    for mismatch in mismatches {
        out.push_str(&format!(
            "{} {}: expected {}, found {}\n",
            paint(BAD, "✗"),
            safe(&mismatch.what),
            short(&mismatch.expected),
            short(&mismatch.found)
        ));
    }
    if mismatches.is_empty() {
        out.push_str(&format!("{} everything came true\n", paint(GOOD, "✓")));
    }
    out
}
