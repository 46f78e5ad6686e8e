//! Slash commands about an active run: `/ralph:tell`, `/ralph:waive` and `/ralph:limits`.

use super::{
    CommandMistake, GoalRequest, SlashCommand, first_word, is_option, take_option, unquote,
};
use crate::limits::LimitOverrides;
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

const LIMIT_OPTIONS: [&str; 6] = [
    "--max-iterations",
    "--min-iterations",
    "--max-duration",
    "--max-cost-usd",
    "--max-cost",
    "--stuck-after",
];
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
    let mut request = GoalRequest::default();
    let mut rest = rest.trim();
    while !rest.is_empty() {
        let first = first_word(rest);
        let name = first.split('=').next().unwrap_or(first);
        if !LIMIT_OPTIONS.contains(&name) {
            return Err(CommandMistake {
                what: format!("`{}` is not a limit", text::clean_line(name, 60)),
                hint: match text::nearest(name, LIMIT_OPTIONS.into_iter()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("available: {}", LIMIT_OPTIONS.join(", ")),
                },
            });
        }
        rest = take_option(rest, &mut request)
            .map_err(|mistake| CommandMistake { hint: LIMITS_USAGE.to_string(), ..mistake })?
            .trim_start();
    }
    Ok(SlashCommand::Limits(LimitOverrides {
        max_iterations: request.max_iterations,
        min_iterations: request.min_iterations,
        max_duration_ms: request.max_duration_ms,
        max_cost_micro_usd: request.max_cost_micro_usd,
        stuck_after: request.stuck_after,
        ..LimitOverrides::default()
    }))
}

const LIMITS_USAGE: &str =
    "type `/ralph:limits --max-iterations 40`, or `/ralph:limits` to show them";

/// Each option takes all words up to the next option, so that a reason need not be quoted.
pub(super) fn parse_waive(rest: &str) -> Result<SlashCommand, CommandMistake> {
    let mut words: [Vec<&str>; 5] = Default::default();
    let mut given = [false; 5];
    let mut at = 0;
    let mut rest = rest.trim();
    while !rest.is_empty() {
        let first = first_word(rest);
        rest = rest[first.len()..].trim_start();
        let (name, attached) = match first.split_once('=') {
            Some((name, value)) if is_option(first) => (name, Some(value)),
            Some(_) | None => (first, None),
        };
        if is_option(first) {
            let known = WAIVE_OPTIONS.iter().position(|known| *known == name);
            at = known.ok_or_else(|| unknown_option(name))? + 1;
            given[at] = true;
            words[at].extend(attached.map(unquote));
        } else {
            words[at].push(unquote(first));
        }
    }
    let [name, why, until, undo, list] = words.map(|words| words.join(" ").trim().to_string());
    let [_, _, _, undoes, lists] = given;
    let nothing_else = name.is_empty() && why.is_empty() && until.is_empty();
    match (undoes, lists) {
        (true, false) if nothing_else && !undo.is_empty() => {
            Ok(SlashCommand::Waive(WaiveCommand::Undo(undo)))
        }
        (false, true) if nothing_else && list.is_empty() => {
            Ok(SlashCommand::Waive(WaiveCommand::List))
        }
        (false, false) if nothing_else => Ok(SlashCommand::Waive(WaiveCommand::List)),
        (false, false) => {
            for (value, what) in [
                (&name, "no requirement given"),
                (&why, "no reason given (`--why`)"),
                (&until, "no end given (`--until`)"),
            ] {
                if value.is_empty() {
                    let what = what.to_string();
                    return Err(CommandMistake { what, hint: WAIVE_USAGE.to_string() });
                }
            }
            Ok(SlashCommand::Waive(WaiveCommand::Requirement { name, why, until }))
        }
        (true, _) | (_, true) => Err(CommandMistake {
            what: "`--undo` and `--list` cannot be combined with other arguments".to_string(),
            hint: WAIVE_USAGE.to_string(),
        }),
    }
}

fn unknown_option(name: &str) -> CommandMistake {
    let hint = match text::nearest(name, WAIVE_OPTIONS.into_iter()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => WAIVE_USAGE.to_string(),
    };
    CommandMistake { what: format!("unknown option `{}`", text::clean_line(name, 60)), hint }
}
