//! Usage errors: turns clap's errors into the format of every other error, with a hint.

use crate::failure::CommandFailure;
use crate::term;
use crate::{FAILURE, SUCCESS};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ralph_core::limits::RUN_LIMITS;
use ralph_core::text;

const WAIVE_HINT: &str =
    "say until when and why: `ralph waive tests --until 2h --why \"the service is down\"`";

/// Exit code 1, not clap's 2: 2 means "block" to a host and "limit reached" to a script.
pub(crate) fn report_parse_error(
    error: &clap::Error,
    command: &clap::Command,
    typed: &[String],
) -> u8 {
    if !error.use_stderr() {
        return match term::out(&error.render().ansi().to_string()) {
            Ok(_) => SUCCESS,
            Err(failure) => {
                failure.print();
                FAILURE
            }
        };
    }
    match usage_failure(error, command, typed) {
        Some(failure) => failure.print(),
        None => term::err(&error.render().ansi().to_string()),
    }
    FAILURE
}

/// `None` if clap's own text is to be printed.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "clap's kinds are open; the rest keeps clap's text"
)]
fn usage_failure(
    error: &clap::Error,
    command: &clap::Command,
    typed: &[String],
) -> Option<CommandFailure> {
    let texts = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        Some(_) | None => Vec::new(),
    };
    let text = |kind| texts(kind).into_iter().next();
    let first = typed.first().map(String::as_str);
    let known = first.filter(|first| command.find_subcommand(first).is_some());
    let help = help_hint(command, typed);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let name = text(ContextKind::InvalidArg)?;
            Some(unknown_argument((&name, text(ContextKind::SuggestedArg)), known, help))
        }
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand)?;
            let hint = unknown_command_hint(command, known, &name);
            let what = format!("unknown command `{}`", text::clean_line(&name, 80));
            Some(CommandFailure::new(&what, &hint.unwrap_or(help)))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let name = argument_name(&text(ContextKind::InvalidArg)?);
            let name = typed_alias(&name, typed).unwrap_or(name);
            let value = text(ContextKind::InvalidValue).unwrap_or_default();
            let choices = texts(ContextKind::ValidValue).join(", ");
            let why = std::error::Error::source(error).map(ToString::to_string);
            let hint = match (why, choices.is_empty()) {
                (Some(why), _) => why,
                (None, false) => format!("possible values: {choices}"),
                (None, true) => help,
            };
            let what = if value.is_empty() {
                format!("`{name}` needs a value")
            } else {
                format!("`{name}` cannot be `{}`", text::clean_line(&value, 80))
            };
            Some(CommandFailure::new(&what, &hint))
        }
        ErrorKind::InvalidUtf8 => {
            Some(CommandFailure::new("an argument is not valid UTF-8", &help))
        }
        ErrorKind::MissingRequiredArgument => {
            let help = match known {
                Some("waive") => WAIVE_HINT.to_string(),
                Some(_) | None => {
                    usage_command(error).map_or(help, |of| format!("run `{of} --help`"))
                }
            };
            Some(missing_arguments(&texts(ContextKind::InvalidArg), &help))
        }
        ErrorKind::TooManyValues => {
            let name = argument_name(&text(ContextKind::InvalidArg)?);
            Some(CommandFailure::new(&format!("`{name}` takes no value"), &help))
        }
        ErrorKind::ArgumentConflict => {
            let name = argument_name(&text(ContextKind::InvalidArg)?);
            let what = match argument_name(&text(ContextKind::PriorArg)?) {
                other if other == name => format!("`{name}` is given more than once"),
                other => format!("`{name}` and `{other}` cannot be used together"),
            };
            Some(CommandFailure::new(&what, &help))
        }
        _ => None,
    }
}

/// What a misspelt command may have meant, if anything comes near.
fn unknown_command_hint(
    command: &clap::Command,
    known: Option<&str>,
    name: &str,
) -> Option<String> {
    let common = common_name_hint(name).filter(|_| known.is_none());
    if let Some(hint) = common {
        return Some(hint.to_string());
    }
    let of = known.and_then(|known| command.find_subcommand(known)).unwrap_or(command);
    let names = || of.get_subcommands().map(clap::Command::get_name);
    let swapped = names().find(|known| has_same_letters(known, name));
    let near = swapped.or_else(|| text::nearest(name, names()));
    near.map(|near| format!("did you mean `{near}`?"))
}

fn missing_arguments(names: &[String], hint: &str) -> CommandFailure {
    let be = if names.len() == 1 { "is" } else { "are" };
    let names: Vec<_> = names.iter().map(|name| format!("`{}`", argument_name(name))).collect();
    CommandFailure::new(&format!("{} {be} missing", names.join(" and ")), hint)
}

/// Names the help of the innermost command that was typed.
fn help_hint(command: &clap::Command, typed: &[String]) -> String {
    let (mut of, mut words) = (command, vec!["ralph"]);
    for word in typed {
        let Some(inner) = of.find_subcommand(word) else { break };
        words.push(word);
        of = inner;
    }
    format!("run `{} --help`", words.join(" "))
}

/// Whether one word has the letters of the other in another order, as after `statsu` for `status`.
fn has_same_letters(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|word| {
        let mut letters: Vec<char> = word.to_lowercase().chars().collect();
        letters.sort_unstable();
        letters
    });
    one == other
}

/// A hint for a command that other programs have under another name.
fn common_name_hint(name: &str) -> Option<&'static str> {
    Some(match name {
        "stop" | "kill" | "abort" | "end" | "quit" => {
            "`ralph cancel RUN` ends a run, `ralph pause RUN` suspends it"
        }
        "continue" => "`ralph resume RUN` continues a paused run",
        "list" | "ls" | "ps" => "`ralph status` lists the runs",
        "runs" => "`ralph list runs` lists the runs",
        "gates" => "`ralph list gates` lists the gates",
        _ => return None,
    })
}

/// The alias of the option that was typed. clap names the option itself, which the person may not know.
fn typed_alias(option: &str, typed: &[String]) -> Option<String> {
    let limit = RUN_LIMITS.iter().find(|limit| limit.option == option)?;
    let alias = limit.option_alias?;
    let is_alias = |word: &String| word.split('=').next() == Some(alias);
    typed.iter().any(is_alias).then(|| alias.to_string())
}

fn unknown_argument(
    (name, similar): (&str, Option<String>),
    of: Option<&str>,
    help: String,
) -> CommandFailure {
    let hint = match (name.starts_with('-'), similar) {
        _ if of == Some("run") && is_agent_flag(name) => {
            "put the agent's flags after `--`, as in `ralph run \"…\" -- --permission-mode acceptEdits`"
                .to_string()
        }
        _ if of == Some("trust") && name == "--yes" => {
            "`ralph trust --hash HASH` approves this hash without asking; `ralph trust` shows it"
                .to_string()
        }
        (_, Some(similar)) => format!("did you mean `{similar}`?"),
        (false, None) if of == Some("run") => {
            "quote the goal, as in `ralph run \"fix the tests\"`".to_string()
        }
        (false, None) if of == Some("start") => {
            "give the goal with `--goal-file FILE`, or on stdin with `--goal-file -`".to_string()
        }
        (_, None) => help,
    };
    let noun = if name.starts_with('-') { "option" } else { "argument" };
    CommandFailure::new(&format!("unknown {noun} `{}`", text::clean_line(name, 80)), &hint)
}

/// The command whose arguments are wrong, as in `ralph checkpoint restore`: the usage line up to its first argument.
fn usage_command(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return None };
    let usage = usage.to_string();
    let words = usage.split_whitespace().skip_while(|word| *word != "ralph");
    let words: Vec<&str> = words.take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Whether it is a flag of the driven agent rather than one of ralph's.
fn is_agent_flag(name: &str) -> bool {
    let name = name.split('=').next().unwrap_or(name);
    ralph_host::HOSTS.iter().any(|host| host.flags.useful.contains(&name))
}

/// Strips clap's decoration: `RUN|SESSION` from `<RUN|SESSION>...`, `--session` from `--session <ID>`, `--client` from
/// `--client[=<PROGRAM>]`.
fn argument_name(name: &str) -> String {
    let name = name.trim_start_matches(['<', '[']);
    name.split([' ', '<', '>', '[', ']', '=', '.']).next().unwrap_or_default().to_string()
}
