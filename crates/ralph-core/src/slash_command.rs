//! Parses the slash commands that a person types in a session: `/ralph:goal …`, `/ralph:cancel`, and those of the
//! official ralph-loop plugin. The goal is kept byte for byte. A misspelt option is an error, never silently part of the
//! goal.

mod run_commands;

use crate::id::RunId;
use crate::limits::{LimitDefinition, LimitOverrides, limit_options};
use crate::run_terms::RunTerms;
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use run_commands::WaiveCommand;

/// Prompts that start with none of these are not for ralph.
const PREFIXES: [&str; 3] = ["/ralph:", "/ralph-loop", "/cancel-ralph"];

const MAX_PROMISE_CHARS: usize = 200;

/// A parsed slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlashCommand {
    /// Start a run for this session.
    Start(RunTerms),
    Status,
    Why,
    Verify,
    Pause,
    /// Resume this session's run, or take over the named run in this session.
    Resume(Option<String>),
    Cancel,
    /// Let the gates of the project no longer hold this session.
    Off,
    /// Undo `/ralph:off`.
    On,
    /// The agent should put its question to the person.
    Ask,
    /// The agent should propose steps with a check each.
    Plan,
    /// Approve the plan of an orchestrated run.
    Approve,
    /// Send the agent a message, delivered at its next stop.
    Tell(String),
    Waive(WaiveCommand),
    /// Change the limits; show them if none is given.
    Limits(LimitOverrides),
}

/// Why a command was rejected, and what to type instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandMistake {
    pub what: String,
    pub hint: String,
}

/// The options of a goal besides its limits.
const TERM_OPTIONS: [&str; 7] = [
    "--completion-promise",
    "--features",
    "--plan",
    "--checklist",
    "--tasks",
    "--may-change",
    "--complexity",
];

fn goal_options() -> impl Iterator<Item = &'static str> {
    limit_options().chain(TERM_OPTIONS)
}

const COMMANDS: [&str; 17] = [
    "goal",
    "plan",
    "loop",
    "orchestrator",
    "status",
    "why",
    "verify",
    "pause",
    "resume",
    "cancel",
    "off",
    "on",
    "ask",
    "approve",
    "tell",
    "waive",
    "limits",
];

/// Understood for people who come from the official plugin, but not listed.
const PLUGIN_COMMAND: &str = "ralph-loop";

/// Whether a prompt is a command for ralph, valid or not.
pub fn is_ralph_command(prompt: &str) -> bool {
    parse(prompt).is_some()
}

impl SlashCommand {
    /// Whether only a person may give it, because it loosens the run's hold.
    pub fn requires_person(&self) -> bool {
        self.reserved_arguments().is_some()
    }

    /// The same command in a terminal, with `RUN` for the run, if only a person may give it.
    fn reserved_arguments(&self) -> Option<&'static str> {
        match self {
            Self::Pause => Some("pause RUN"),
            Self::Resume(_) => Some("resume RUN"),
            Self::Cancel | Self::Off => Some("cancel RUN"),
            Self::Approve => Some("approve RUN"),
            Self::Tell(_) => Some("tell RUN …"),
            Self::Waive(_) => Some("waive … --run RUN"),
            Self::Limits(_) => Some("limits RUN …"),
            Self::Start(_)
            | Self::Status
            | Self::Why
            | Self::Verify
            | Self::On
            | Self::Ask
            | Self::Plan => None,
        }
    }

    /// The same command in a terminal: ``ralph waive … --run k7f2``. `None` if an agent may give it too.
    pub fn terminal_command(&self, run: &RunId) -> Option<String> {
        let arguments = self.reserved_arguments()?.replace("RUN", run.as_str());
        Some(format!("ralph {arguments}"))
    }
}

/// Whether a prompt is a command that only a person may give.
pub fn impersonates_person(prompt: &str) -> bool {
    matches!(parse(prompt), Some(Ok(typed)) if typed.requires_person())
}

/// `None` if the prompt is not for ralph.
pub fn parse(prompt: &str) -> Option<Result<SlashCommand, CommandMistake>> {
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
    Some(parse_command(name, rest))
}

fn parse_command(name: &str, rest: &str) -> Result<SlashCommand, CommandMistake> {
    match name {
        "goal" | "loop" | "ralph-loop" => parse_goal(rest).map(SlashCommand::Start),
        "orchestrator" => {
            parse_goal(rest).map(|terms| SlashCommand::Start(RunTerms { phases: true, ..terms }))
        }
        "status" => expect_no_arguments(name, rest, SlashCommand::Status),
        "why" => expect_no_arguments(name, rest, SlashCommand::Why),
        "verify" => expect_no_arguments(name, rest, SlashCommand::Verify),
        "pause" => expect_no_arguments(name, rest, SlashCommand::Pause),
        "approve" => expect_no_arguments(name, rest, SlashCommand::Approve),
        "cancel" | "cancel-ralph" => expect_no_arguments("cancel", rest, SlashCommand::Cancel),
        "off" => expect_no_arguments(name, rest, SlashCommand::Off),
        "on" => expect_no_arguments(name, rest, SlashCommand::On),
        "tell" => run_commands::parse_tell(rest),
        "waive" => run_commands::parse_waive(rest),
        "limits" => run_commands::parse_limits(rest),
        // The rest of the prompt is for the agent.
        "ask" => Ok(SlashCommand::Ask),
        "plan" => Ok(SlashCommand::Plan),
        "resume" => match rest.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] => Ok(SlashCommand::Resume(None)),
            [run] if !run.starts_with('-') => Ok(SlashCommand::Resume(Some((*run).to_string()))),
            [_, ..] => Err(CommandMistake {
                what: "`/ralph:resume` takes at most one run".to_string(),
                hint: "type `/ralph:resume` or `/ralph:resume RUN`".to_string(),
            }),
        },
        other => Err(CommandMistake {
            what: format!("unknown command `/ralph:{}`", text::clean_line(other, 60)),
            hint: match text::nearest(other, COMMANDS.into_iter().chain([PLUGIN_COMMAND])) {
                Some(near) => format!("did you mean `/ralph:{near}`?"),
                None => format!("available: {}", COMMANDS.join(", ")),
            },
        }),
    }
}

fn expect_no_arguments(
    name: &str,
    rest: &str,
    typed: SlashCommand,
) -> Result<SlashCommand, CommandMistake> {
    if rest.trim().is_empty() {
        return Ok(typed);
    }
    Err(CommandMistake {
        what: format!("`/ralph:{name}` takes no arguments"),
        hint: if matches!(typed, SlashCommand::Off | SlashCommand::On) {
            format!("type `/ralph:{name}` alone; it applies to the gates in this session")
        } else {
            format!("type `/ralph:{name}` alone; it applies to this session's run")
        },
    })
}

/// Options stand before the goal on the first line or after it on the last line. Quoted text, and everything after
/// `--`, belongs to the goal.
fn parse_goal(rest: &str) -> Result<RunTerms, CommandMistake> {
    let mut terms = RunTerms::default();
    let body = rest.trim();
    let (front, goal) = match take_leading_options(body, &mut terms)? {
        GoalRemainder::Literal(goal) => return finish_goal(terms, goal),
        GoalRemainder::More(goal) => (body.len() - goal.len(), goal),
    };
    let goal = take_trailing_options(goal, &mut terms)?;
    let goal = goal.trim();
    reject_stray_option(goal, front > 0)?;
    let goal = unquote(goal).to_string();
    finish_goal(terms, &goal)
}

fn finish_goal(mut terms: RunTerms, goal: &str) -> Result<RunTerms, CommandMistake> {
    terms.goal = goal.as_bytes().to_vec();
    if goal.trim().is_empty() && terms.promise.is_none() && terms.lists.is_empty() {
        return Err(CommandMistake {
            what: "no goal given".to_string(),
            hint: "type the goal: `/ralph:goal make the parser handle nested quotes`".to_string(),
        });
    }
    Ok(terms)
}

/// The text after the leading options.
enum GoalRemainder<'a> {
    /// Everything after `--`: the goal as it is.
    Literal(&'a str),
    /// The goal, possibly followed by options.
    More(&'a str),
}

fn take_leading_options<'a>(
    body: &'a str,
    terms: &mut RunTerms,
) -> Result<GoalRemainder<'a>, CommandMistake> {
    let mut rest = body;
    loop {
        rest = rest.trim_start();
        let word = first_word(rest);
        if word == "--" {
            return Ok(GoalRemainder::Literal(rest[2..].trim()));
        }
        if !is_option(word) {
            return Ok(GoalRemainder::More(rest));
        }
        rest = take_option(rest, terms)?;
    }
}

/// Takes the options at the end of the last line. They start at the first word that looks like an option, so that a
/// misspelt one is an error and not part of the goal.
fn take_trailing_options<'a>(
    goal: &'a str,
    terms: &mut RunTerms,
) -> Result<&'a str, CommandMistake> {
    let line = goal.rfind('\n').map_or(0, |at| at + 1);
    let Some(start) = find_first_option(&goal[line..]).map(|at| line + at) else {
        return Ok(goal);
    };
    let mut rest = &goal[start..];
    while !rest.trim_start().is_empty() {
        let next = rest.trim_start();
        let word = first_word(next);
        if word == "--" {
            return Err(CommandMistake {
                what: "`--` must come before the goal".to_string(),
                hint: "type the options, then `--`, then the goal".to_string(),
            });
        }
        if !is_option(word) {
            return Err(CommandMistake {
                what: format!("unexpected `{}` after an option", text::clean_line(word, 60)),
                hint: "quote the goal, or put all options before it".to_string(),
            });
        }
        rest = take_option(next, terms)?;
    }
    Ok(&goal[..start])
}

/// The position of the first option in a line: a word with two dashes, outside quotes and backticks.
fn find_first_option(line: &str) -> Option<usize> {
    let mut at = 0;
    while at < line.len() {
        let blank = line[at..].len() - line[at..].trim_start().len();
        at += blank;
        let word = first_word(&line[at..]);
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
fn reject_stray_option(goal: &str, has_front: bool) -> Result<(), CommandMistake> {
    let Some((first, _)) = goal.split_once('\n') else { return Ok(()) };
    // Right after the command or after other options, it would already have been parsed as an option.
    let Some(at) = find_first_option(first).filter(|at| *at > 0 || !has_front) else {
        return Ok(());
    };
    let name = first_word(&first[at..]);
    let name = name.split('=').next().unwrap_or(name);
    // A name that fits exactly is its own nearest name.
    if text::nearest(name, goal_options()).is_some() {
        return Err(CommandMistake {
            what: format!("`{}` is in the middle of the goal", text::clean_line(name, 60)),
            hint: "put options before the goal or at its end; everything after `--` is the goal"
                .to_string(),
        });
    }
    Ok(())
}

fn take_option<'a>(rest: &'a str, terms: &mut RunTerms) -> Result<&'a str, CommandMistake> {
    let first = first_word(rest);
    let (name, attached) = match first.split_once('=') {
        Some((name, value)) => (name, Some(unquote(value))),
        None => (first, None),
    };
    let after = &rest[first.len()..];
    if !goal_options().any(|known| known == name) {
        let hint = match text::nearest(name, goal_options()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "if it is part of the goal, put `--` before the goal".to_string(),
        };
        return Err(CommandMistake {
            what: format!("unknown option `{}`", text::clean_line(name, 60)),
            hint,
        });
    }
    if let "--checklist" | "--tasks" = name {
        terms.lists.checklist |= name == "--checklist";
        terms.lists.tasks |= name == "--tasks";
        return match attached {
            None => Ok(after),
            Some(_) => Err(invalid_value(name, "no value")),
        };
    }
    let (value, after) = if let Some(value) = attached {
        (value, after)
    } else {
        let after = after.trim_start();
        let next = first_word(after);
        if next.is_empty() || is_option(next) {
            return Err(invalid_value(name, expected_value(name)));
        }
        (unquote(next), &after[next.len()..])
    };
    set_option(terms, name, value)?;
    Ok(after)
}

fn set_option(terms: &mut RunTerms, name: &str, value: &str) -> Result<(), CommandMistake> {
    if let Some(limit) = LimitDefinition::by_option(name) {
        if terms.limits.get(limit.kind).is_some() {
            return Err(CommandMistake {
                what: format!("`{}` is given more than once", limit.option),
                hint: "keep one of them".to_string(),
            });
        }
        let wrong = || invalid_value(name, limit.unit.expected_instead_of(value));
        terms.limits.set(limit.kind, limit.unit.parse(value).ok_or_else(wrong)?);
        return Ok(());
    }
    let wrong = || invalid_value(name, expected_value(name));
    match name {
        "--completion-promise" => {
            let fits = (1..=MAX_PROMISE_CHARS).contains(&value.chars().count());
            if !fits || value.trim().is_empty() || value.contains(['<', '>']) {
                return Err(wrong());
            }
            terms.promise = Some(value.to_string());
        }
        "--features" => terms.lists.features.push(value.to_string()),
        "--plan" => terms.lists.plans.push(value.to_string()),
        "--may-change" => terms.may_change.push(value.to_string()),
        _ => {
            let complexity = value.parse().ok().filter(|complexity| *complexity <= 10);
            terms.complexity = Some(complexity.ok_or_else(wrong)?);
        }
    }
    Ok(())
}

fn expected_value(name: &str) -> &'static str {
    if let Some(limit) = LimitDefinition::by_option(name) {
        return limit.unit.expected();
    }
    match name {
        "--completion-promise" => "a phrase without `<` and `>`, in quotes if it has spaces",
        "--features" => "a directory",
        "--plan" => "a file",
        "--may-change" => "a glob such as `tests/api_*.py`",
        _ => "a number from 0 to 10",
    }
}

fn invalid_value(name: &str, wanted: &str) -> CommandMistake {
    CommandMistake {
        what: format!("`{name}` needs {wanted}"),
        hint: "if it is part of the goal, put `--` before the goal".to_string(),
    }
}

fn is_option(word: &str) -> bool {
    word.strip_prefix("--")
        .is_some_and(|name| name.starts_with(|it: char| it.is_ascii_alphabetic()))
}

/// The first word, including text that quotes or backticks hold together.
fn first_word(text: &str) -> &str {
    let mut quote: Option<char> = None;
    for (at, it) in text.char_indices() {
        match quote {
            Some(open) if it == open => quote = None,
            None if it.is_whitespace() => return &text[..at],
            None if opens_quote(text, at, it) => quote = Some(it),
            Some(_) | None => {}
        }
    }
    text
}

/// Whether a character opens a quotation. An apostrophe inside a word does not, and neither does a quote that is never
/// closed.
fn opens_quote(text: &str, at: usize, it: char) -> bool {
    let is_quote =
        matches!(it, '"' | '`') || (it == '\'' && (at == 0 || text[..at].ends_with('=')));
    is_quote && text[at + it.len_utf8()..].contains(it)
}

/// Removes quotes that enclose the whole text.
fn unquote(text: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote))
            && !inner.contains(quote)
        {
            return inner;
        }
    }
    text
}
