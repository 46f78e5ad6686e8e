//! Parses the slash commands that a person types in a session: `/ralph:goal …`, `/ralph:cancel`, and those of the
//! official ralph-loop plugin. The goal is kept byte for byte. A misspelt option is an error, never silently part of the
//! goal.

mod during;

use crate::limits::{self, Bounds};
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use during::Waive;

/// Prompts that start with none of these are not for ralph.
const PREFIXES: [&str; 3] = ["/ralph:", "/ralph-loop", "/cancel-ralph"];

const LONGEST_PROMISE: usize = 200;

/// A parsed slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Start a run for this session.
    Hold(Wish),
    Status,
    Why,
    Verify,
    Pause,
    /// Resume this session's run, or take over the named run in this session.
    Resume(Option<String>),
    Cancel,
    /// The agent should put its question to the person.
    Ask,
    /// Approve the plan of an orchestrated run.
    Approve,
    /// Send the agent a message, delivered at its next stop.
    Tell(String),
    Waive(Waive),
    /// Change the limits; show them if none is given.
    Limits(Bounds),
}

/// The goal and options of a run to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    pub goal: String,
    pub kind: Kind,
    pub max_iterations: Option<u32>,
    pub max_duration_ms: Option<u64>,
    pub max_cost_micro_usd: Option<u64>,
    pub stuck_after: Option<u32>,
    pub promise: Option<String>,
    pub min_iterations: Option<u32>,
    pub features: Vec<String>,
    pub plans: Vec<String>,
    pub checklist: bool,
    pub tasks: bool,
    pub complexity: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Goal,
    /// The agent works in phases and reports them in `orchestrator.json`.
    Orchestrator,
}

/// Why a command was rejected, and what to type instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub what: String,
    pub hint: String,
}

const OPTIONS: [&str; 12] = [
    "--max-iterations",
    "--min-iterations",
    "--max-duration",
    "--max-cost-usd",
    "--max-cost",
    "--stuck-after",
    "--completion-promise",
    "--features",
    "--plan",
    "--checklist",
    "--tasks",
    "--complexity",
];

const COMMANDS: [&str; 15] = [
    "goal",
    "loop",
    "orchestrator",
    "status",
    "why",
    "verify",
    "pause",
    "resume",
    "cancel",
    "ask",
    "approve",
    "tell",
    "waive",
    "limits",
    "ralph-loop",
];

/// Whether a prompt is a command for ralph, valid or not.
pub fn is_ours(prompt: &str) -> bool {
    parse(prompt).is_some()
}

impl Typed {
    /// Whether only a person may give it, because it loosens the run's hold.
    pub fn loosens(&self) -> bool {
        match self {
            Self::Pause
            | Self::Resume(_)
            | Self::Cancel
            | Self::Approve
            | Self::Tell(_)
            | Self::Waive(_)
            | Self::Limits(_) => true,
            Self::Hold(_) | Self::Status | Self::Why | Self::Verify | Self::Ask => false,
        }
    }
}

/// Whether a prompt is a command that only a person may give.
pub fn poses(prompt: &str) -> bool {
    matches!(parse(prompt), Some(Ok(typed)) if typed.loosens())
}

/// `None` if the prompt is not for ralph.
pub fn parse(prompt: &str) -> Option<Result<Typed, Mistake>> {
    let prompt = prompt.trim_start();
    if !PREFIXES.iter().any(|prefix| prompt.starts_with(prefix)) {
        return None;
    }
    let end = prompt.find(char::is_whitespace).unwrap_or(prompt.len());
    let (name, rest) = prompt.split_at(end);
    let name = match name {
        "/ralph-loop" | "/ralph-loop:ralph-loop" => "loop",
        "/cancel-ralph" | "/ralph-loop:cancel-ralph" => "cancel",
        other => other.strip_prefix("/ralph:")?,
    };
    Some(command(name, rest))
}

fn command(name: &str, rest: &str) -> Result<Typed, Mistake> {
    match name {
        "goal" | "loop" | "ralph-loop" => wish(rest).map(Typed::Hold),
        "orchestrator" => {
            wish(rest).map(|request| Typed::Hold(Wish { kind: Kind::Orchestrator, ..request }))
        }
        "status" => alone(name, rest, Typed::Status),
        "why" => alone(name, rest, Typed::Why),
        "verify" => alone(name, rest, Typed::Verify),
        "pause" => alone(name, rest, Typed::Pause),
        "approve" => alone(name, rest, Typed::Approve),
        "cancel" | "cancel-ralph" => alone("cancel", rest, Typed::Cancel),
        "tell" => during::tell(rest),
        "waive" => during::waive(rest),
        "limits" => during::limits(rest),
        // The rest of the prompt is for the agent.
        "ask" => Ok(Typed::Ask),
        "resume" => match rest.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] => Ok(Typed::Resume(None)),
            [run] if !run.starts_with('-') => Ok(Typed::Resume(Some((*run).to_string()))),
            [_, ..] => Err(Mistake {
                what: "`/ralph:resume` takes at most one run".to_string(),
                hint: "type `/ralph:resume` or `/ralph:resume RUN`".to_string(),
            }),
        },
        other => Err(Mistake {
            what: format!("unknown command `/ralph:{}`", text::line(other, 60)),
            hint: match text::nearest(other, COMMANDS.into_iter()) {
                Some(near) => format!("did you mean `/ralph:{near}`?"),
                None => format!("available: {}", COMMANDS[..14].join(", ")),
            },
        }),
    }
}

fn alone(name: &str, rest: &str, typed: Typed) -> Result<Typed, Mistake> {
    if rest.trim().is_empty() {
        return Ok(typed);
    }
    Err(Mistake {
        what: format!("`/ralph:{name}` takes no arguments"),
        hint: format!("type `/ralph:{name}` alone; it applies to this session's run"),
    })
}

/// Options stand before the goal on the first line or after it on the last line. Quoted text, and everything after
/// `--`, belongs to the goal.
fn wish(rest: &str) -> Result<Wish, Mistake> {
    let mut request = Wish::default();
    let body = rest.trim();
    let (front, goal) = match leading(body, &mut request)? {
        Rest::Literal(goal) => return finish(request, goal),
        Rest::More(goal) => (body.len() - goal.len(), goal),
    };
    let goal = trailing(goal, &mut request)?;
    let goal = goal.trim();
    stray(goal, front > 0)?;
    let goal = unquoted(goal).to_string();
    finish(request, &goal)
}

fn finish(mut request: Wish, goal: &str) -> Result<Wish, Mistake> {
    request.goal = goal.to_string();
    let lists = !request.features.is_empty() || !request.plans.is_empty();
    let measured = request.promise.is_some() || lists || request.checklist || request.tasks;
    if request.goal.trim().is_empty() && !measured {
        return Err(Mistake {
            what: "no goal given".to_string(),
            hint: "type the goal: `/ralph:goal make the parser handle nested quotes`".to_string(),
        });
    }
    Ok(request)
}

/// The text after the leading options.
enum Rest<'a> {
    /// Everything after `--`: the goal as it is.
    Literal(&'a str),
    /// The goal, possibly followed by options.
    More(&'a str),
}

fn leading<'a>(body: &'a str, request: &mut Wish) -> Result<Rest<'a>, Mistake> {
    let mut rest = body;
    loop {
        rest = rest.trim_start();
        let word = word(rest);
        if word == "--" {
            return Ok(Rest::Literal(rest[2..].trim()));
        }
        if !is_option(word) {
            return Ok(Rest::More(rest));
        }
        rest = option(rest, request)?;
    }
}

/// Takes the options at the end of the last line. They start at the first word that looks like an option, so that a
/// misspelt one is an error and not part of the goal.
fn trailing<'a>(goal: &'a str, request: &mut Wish) -> Result<&'a str, Mistake> {
    let line = goal.rfind('\n').map_or(0, |at| at + 1);
    let Some(start) = options_in(&goal[line..]).map(|at| line + at) else {
        return Ok(goal);
    };
    let mut rest = &goal[start..];
    while !rest.trim_start().is_empty() {
        let next = rest.trim_start();
        let word = word(next);
        if word == "--" {
            return Err(Mistake {
                what: "`--` must come before the goal".to_string(),
                hint: "type the options, then `--`, then the goal".to_string(),
            });
        }
        if !is_option(word) {
            return Err(Mistake {
                what: format!("unexpected `{}` after an option", text::line(word, 60)),
                hint: "quote the goal, or put all options before it".to_string(),
            });
        }
        rest = option(next, request)?;
    }
    Ok(&goal[..start])
}

/// The position of the first option in a line: a word with two dashes, outside quotes and backticks.
fn options_in(line: &str) -> Option<usize> {
    let mut at = 0;
    while at < line.len() {
        let blank = line[at..].len() - line[at..].trim_start().len();
        at += blank;
        let word = word(&line[at..]);
        if word.is_empty() {
            return None;
        }
        if is_option(word) {
            return Some(at);
        }
        at += word.len();
    }
    None
}

/// Rejects an option on the first line of a longer goal, where it would be overlooked.
fn stray(goal: &str, has_front: bool) -> Result<(), Mistake> {
    let Some((first, _)) = goal.split_once('\n') else { return Ok(()) };
    // Right after the command or after other options, it would already have been parsed as an option.
    let Some(at) = options_in(first).filter(|at| *at > 0 || !has_front) else { return Ok(()) };
    let name = word(&first[at..]);
    let name = name.split('=').next().unwrap_or(name);
    if OPTIONS.contains(&name) || text::nearest(name, OPTIONS.into_iter()).is_some() {
        return Err(Mistake {
            what: format!("`{}` is in the middle of the goal", text::line(name, 60)),
            hint: "put options before the goal or at its end; everything after `--` is the goal"
                .to_string(),
        });
    }
    Ok(())
}

fn option<'a>(rest: &'a str, request: &mut Wish) -> Result<&'a str, Mistake> {
    let first = word(rest);
    let (name, attached) = match first.split_once('=') {
        Some((name, value)) => (name, Some(unquoted(value))),
        None => (first, None),
    };
    let after = &rest[first.len()..];
    if !OPTIONS.contains(&name) {
        let hint = match text::nearest(name, OPTIONS.into_iter()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "if it is part of the goal, put `--` before the goal".to_string(),
        };
        return Err(Mistake { what: format!("unknown option `{}`", text::line(name, 60)), hint });
    }
    if let "--checklist" | "--tasks" = name {
        request.checklist |= name == "--checklist";
        request.tasks |= name == "--tasks";
        return match attached {
            None => Ok(after),
            Some(_) => Err(wrong_value(name, "no value")),
        };
    }
    let (value, after) = if let Some(value) = attached {
        (value, after)
    } else {
        let after = after.trim_start();
        let next = word(after);
        if next.is_empty() || is_option(next) {
            return Err(wrong_value(name, wanted(name)));
        }
        (unquoted(next), &after[next.len()..])
    };
    set(request, name, value)?;
    Ok(after)
}

fn set(request: &mut Wish, name: &str, value: &str) -> Result<(), Mistake> {
    let wrong = || wrong_value(name, wanted(name));
    let count = |value: &str| value.parse::<u32>().map_err(|_| wrong());
    match name {
        "--max-iterations" => request.max_iterations = Some(count(value)?),
        "--min-iterations" => request.min_iterations = Some(count(value)?),
        "--stuck-after" => request.stuck_after = Some(count(value)?),
        "--max-duration" => {
            request.max_duration_ms = Some(match value {
                "0" => 0,
                value => limits::parse_duration(value).ok_or_else(wrong)?,
            });
        }
        "--max-cost-usd" | "--max-cost" => {
            request.max_cost_micro_usd = Some(limits::parse_micro_usd(value).ok_or_else(wrong)?);
        }
        "--completion-promise" => {
            let fits = (1..=LONGEST_PROMISE).contains(&value.chars().count());
            if !fits || value.trim().is_empty() || value.contains(['<', '>']) {
                return Err(wrong());
            }
            request.promise = Some(value.to_string());
        }
        "--features" => request.features.push(value.to_string()),
        "--plan" => request.plans.push(value.to_string()),
        _ => {
            let complexity = value.parse().ok().filter(|complexity| *complexity <= 10);
            request.complexity = Some(complexity.ok_or_else(wrong)?);
        }
    }
    Ok(())
}

fn wanted(name: &str) -> &'static str {
    match name {
        "--max-iterations" | "--min-iterations" | "--stuck-after" => "a whole number",
        "--max-duration" => "a duration such as `90m`",
        "--max-cost-usd" | "--max-cost" => "an amount such as `20` or `1.50`",
        "--completion-promise" => "a phrase without `<` and `>`, in quotes if it has spaces",
        "--features" => "a directory",
        "--plan" => "a file",
        _ => "a number from 0 to 10",
    }
}

fn wrong_value(name: &str, wanted: &str) -> Mistake {
    Mistake {
        what: format!("`{name}` needs {wanted}"),
        hint: "if it is part of the goal, put `--` before the goal".to_string(),
    }
}

fn is_option(word: &str) -> bool {
    word.strip_prefix("--")
        .is_some_and(|name| name.starts_with(|it: char| it.is_ascii_alphabetic()))
}

/// The first word, including text that quotes or backticks hold together.
fn word(text: &str) -> &str {
    let mut quote: Option<char> = None;
    for (at, it) in text.char_indices() {
        match quote {
            Some(open) if it == open => quote = None,
            None if it.is_whitespace() => return &text[..at],
            None if opens(text, at, it) => quote = Some(it),
            Some(_) | None => {}
        }
    }
    text
}

/// Whether a character opens a quotation. An apostrophe inside a word does not, and neither does a quote that is never
/// closed.
fn opens(text: &str, at: usize, it: char) -> bool {
    let is_quote =
        matches!(it, '"' | '`') || (it == '\'' && (at == 0 || text[..at].ends_with('=')));
    is_quote && text[at + it.len_utf8()..].contains(it)
}

/// Removes quotes that enclose the whole text.
fn unquoted(text: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote))
            && !inner.contains(quote)
        {
            return inner;
        }
    }
    text
}
