//! Slash commands about an active run: `/ralph:tell`, `/ralph:waive` and `/ralph:limits`.

use super::{Mistake, Typed, Wish, is_option, option, unquoted, word};
use crate::limits::Bounds;
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The arguments of `/ralph:waive`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waive {
    List,
    Requirement {
        name: String,
        why: String,
        /// As typed, not parsed yet.
        until: String,
    },
    Undo(String),
}

const OF_LIMITS: [&str; 6] = [
    "--max-iterations",
    "--min-iterations",
    "--max-duration",
    "--max-cost-usd",
    "--max-cost",
    "--stuck-after",
];
const OF_WAIVE: [&str; 4] = ["--why", "--until", "--undo", "--list"];
const HOW_TO_WAIVE: &str = "type `/ralph:waive REQUIREMENT --until 2h --why \"…\"`, \
                            `/ralph:waive --undo REQUIREMENT`, or `/ralph:waive` to list waivers";

pub(super) fn tell(rest: &str) -> Result<Typed, Mistake> {
    let message = unquoted(rest.trim()).trim();
    if message.is_empty() {
        return Err(Mistake {
            what: "no message given".to_string(),
            hint: "type the message for the agent's next stop: `/ralph:tell …`".to_string(),
        });
    }
    Ok(Typed::Tell(message.to_string()))
}

pub(super) fn limits(rest: &str) -> Result<Typed, Mistake> {
    let mut request = Wish::default();
    let mut rest = rest.trim();
    while !rest.is_empty() {
        let first = word(rest);
        let name = first.split('=').next().unwrap_or(first);
        if !OF_LIMITS.contains(&name) {
            return Err(Mistake {
                what: format!("`{}` is not a limit", text::line(name, 60)),
                hint: match text::nearest(name, OF_LIMITS.into_iter()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("available: {}", OF_LIMITS.join(", ")),
                },
            });
        }
        rest = option(rest, &mut request)
            .map_err(|mistake| Mistake { hint: HOW_TO_LIMIT.to_string(), ..mistake })?
            .trim_start();
    }
    Ok(Typed::Limits(Bounds {
        max_iterations: request.max_iterations,
        min_iterations: request.min_iterations,
        max_duration_ms: request.max_duration_ms,
        max_cost_micro_usd: request.max_cost_micro_usd,
        stuck_after: request.stuck_after,
        ..Bounds::default()
    }))
}

const HOW_TO_LIMIT: &str =
    "type `/ralph:limits --max-iterations 40`, or `/ralph:limits` to show them";

/// Each option takes all words up to the next option, so that a reason need not be quoted.
pub(super) fn waive(rest: &str) -> Result<Typed, Mistake> {
    let mut words: [Vec<&str>; 5] = Default::default();
    let mut given = [false; 5];
    let mut at = 0;
    let mut rest = rest.trim();
    while !rest.is_empty() {
        let first = word(rest);
        rest = rest[first.len()..].trim_start();
        let (name, attached) = match first.split_once('=') {
            Some((name, value)) if is_option(first) => (name, Some(value)),
            Some(_) | None => (first, None),
        };
        if is_option(first) {
            let known = OF_WAIVE.iter().position(|known| *known == name);
            at = known.ok_or_else(|| unknown(name))? + 1;
            given[at] = true;
            words[at].extend(attached.map(unquoted));
        } else {
            words[at].push(unquoted(first));
        }
    }
    let [name, why, until, undo, list] = words.map(|words| words.join(" ").trim().to_string());
    let [_, _, _, undoes, lists] = given;
    let nothing_else = name.is_empty() && why.is_empty() && until.is_empty();
    match (undoes, lists) {
        (true, false) if nothing_else && !undo.is_empty() => Ok(Typed::Waive(Waive::Undo(undo))),
        (false, true) if nothing_else && list.is_empty() => Ok(Typed::Waive(Waive::List)),
        (false, false) if nothing_else => Ok(Typed::Waive(Waive::List)),
        (false, false) => {
            for (value, what) in [
                (&name, "no requirement given"),
                (&why, "no reason given (`--why`)"),
                (&until, "no end given (`--until`)"),
            ] {
                if value.is_empty() {
                    let what = what.to_string();
                    return Err(Mistake { what, hint: HOW_TO_WAIVE.to_string() });
                }
            }
            Ok(Typed::Waive(Waive::Requirement { name, why, until }))
        }
        (true, _) | (_, true) => Err(Mistake {
            what: "`--undo` and `--list` cannot be combined with other arguments".to_string(),
            hint: HOW_TO_WAIVE.to_string(),
        }),
    }
}

fn unknown(name: &str) -> Mistake {
    let hint = match text::nearest(name, OF_WAIVE.into_iter()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => HOW_TO_WAIVE.to_string(),
    };
    Mistake { what: format!("unknown option `{}`", text::line(name, 60)), hint }
}
