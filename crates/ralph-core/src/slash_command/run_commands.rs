//! Slash commands about an active run: `/ralph:tell`, `/ralph:waive` and `/ralph:limits`.

use super::{CommandMistake, SlashCommand, first_word, is_option, take_option, unquote};
use crate::limits::{LimitDefinition, limit_options};
use crate::run_terms::RunTerms;
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The arguments of `/ralph:waive`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaiveCommand {
    List,
    Requirement {
        name: String,
        why: String,
        /// As typed, not parsed yet.
        until: String,
    },
    Undo(String),
}

const WAIVE_OPTIONS: [&str; 4] = ["--why", "--until", "--undo", "--list"];
const WAIVE_USAGE: &str = "type `/ralph:waive REQUIREMENT --until 2h --why \"…\"`, \
                            `/ralph:waive --undo REQUIREMENT`, or `/ralph:waive` to list waivers";

pub(super) fn parse_tell(rest: &str) -> Result<SlashCommand, CommandMistake> {
    let message = unquote(rest.trim()).trim();
    if message.is_empty() {
        return Err(CommandMistake {
            what: "no message given".to_string(),
            hint: "type the message for the agent's next stop: `/ralph:tell …`".to_string(),
        });
    }
    Ok(SlashCommand::Tell(message.to_string()))
}

pub(super) fn parse_limits(rest: &str) -> Result<SlashCommand, CommandMistake> {
    let mut terms = RunTerms::default();
    let mut rest = rest.trim();
    while !rest.is_empty() {
        let first = first_word(rest);
        let name = first.split('=').next().unwrap_or(first);
        if LimitDefinition::by_option(name).is_none() {
            return Err(CommandMistake {
                what: format!("`{}` is not a limit", text::clean_line(name, 60)),
                hint: match text::nearest(name, limit_options()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        format!("available: {}", limit_options().collect::<Vec<_>>().join(", "))
                    }
                },
            });
        }
        rest = take_option(rest, &mut terms)
            .map_err(|mistake| CommandMistake { hint: LIMITS_USAGE.to_string(), ..mistake })?
            .trim_start();
    }
    Ok(SlashCommand::Limits(terms.limits))
}

const LIMITS_USAGE: &str =
    "type `/ralph:limits --max-iterations 40`, or `/ralph:limits` to show them";

/// The words after the command and after each of its options.
#[derive(Default)]
struct WaiveWords<'a> {
    name: Vec<&'a str>,
    why: Vec<&'a str>,
    until: Vec<&'a str>,
    undo: Option<Vec<&'a str>>,
    list: Option<Vec<&'a str>>,
}

/// Each option takes all words up to the next option, so that a reason need not be quoted.
pub(super) fn parse_waive(rest: &str) -> Result<SlashCommand, CommandMistake> {
    let mut words = WaiveWords::default();
    let mut target = &mut words.name;
    let mut rest = rest.trim();
    while !rest.is_empty() {
        let first = first_word(rest);
        rest = rest[first.len()..].trim_start();
        if !is_option(first) {
            target.push(unquote(first));
            continue;
        }
        let name = first.split('=').next().unwrap_or(first);
        target = match name {
            "--why" => &mut words.why,
            "--until" => &mut words.until,
            "--undo" => words.undo.get_or_insert_default(),
            "--list" => words.list.get_or_insert_default(),
            _ => return Err(unknown_option(name)),
        };
        target.extend(first.split_once('=').map(|(_, value)| unquote(value)));
    }
    let join = |words: Vec<&str>| words.join(" ").trim().to_string();
    let [name, why, until] = [words.name, words.why, words.until].map(join);
    let is_bare = name.is_empty() && why.is_empty() && until.is_empty();
    let mistake =
        |what: &str| Err(CommandMistake { what: what.to_string(), hint: WAIVE_USAGE.to_string() });
    Ok(SlashCommand::Waive(match (words.undo.map(join), words.list.map(join)) {
        (None, None) if is_bare => WaiveCommand::List,
        (None, Some(list)) if is_bare && list.is_empty() => WaiveCommand::List,
        (Some(undo), None) if is_bare && !undo.is_empty() => WaiveCommand::Undo(undo),
        (Some(_), None) if is_bare => return mistake("no requirement given"),
        (Some(_), _) | (_, Some(_)) => {
            return mistake("`--undo` and `--list` cannot be combined with other arguments");
        }
        (None, None) if name.is_empty() => return mistake("no requirement given"),
        (None, None) if why.is_empty() => return mistake("no reason given (`--why`)"),
        (None, None) if until.is_empty() => return mistake("no end given (`--until`)"),
        (None, None) => WaiveCommand::Requirement { name, why, until },
    }))
}

fn unknown_option(name: &str) -> CommandMistake {
    let hint = match text::nearest(name, WAIVE_OPTIONS.into_iter()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => WAIVE_USAGE.to_string(),
    };
    CommandMistake { what: format!("unknown option `{}`", text::clean_line(name, 60)), hint }
}
