//! Which of ralph's subcommands an agent may run during a run.

use super::DeniedCall;
use super::GuardTarget;
use super::denial_text::deny;
use super::options::CommandArg;
use alloc::format;

/// Judges `ralph …` in the agent's shell.
pub(super) fn judge_ralph_command(args: &[CommandArg<'_>]) -> Option<DeniedCall> {
    let has = |option: &str| args.iter().any(|arg| arg.text == option);
    if has("--help") || has("-h") || has("--dry-run") {
        return None;
    }
    // The only option with a value that may come before the command.
    let args = match args {
        [option, _, rest @ ..] if option.text == "--color" => rest,
        _ => args,
    };
    let mut operands =
        args.iter().map(|arg| arg.text.as_str()).filter(|text| !text.starts_with('-'));
    let first = operands.next()?;
    let command = match first {
        _ if find_subcommand(first).is_some() => first.into(),
        _ => format!("{first} {}", operands.next().unwrap_or("help")),
    };
    let option = match command.as_str() {
        "start" | "orchestrator start" if has("--no-gates") => " --no-gates",
        "ci generate" if has("--write") => " --write",
        "report" if has("--attest") => " --attest",
        "stats" if args.iter().any(|arg| arg.text.starts_with("--apply")) => " --apply",
        "memory export" if args.iter().any(|arg| arg.text.starts_with("--to")) => " --to",
        "learn" if args.iter().any(|arg| arg.text.starts_with("--forget")) => " --forget",
        _ => "",
    };
    let is_group = || {
        RALPH_SUBCOMMANDS
            .iter()
            .any(|(known, _)| known.split_once(' ').is_some_and(|(group, _)| group == first))
    };
    let is_help = first == "help" || command.ends_with(" help") && is_group();
    let is_allowed = is_help || find_subcommand(&command) == Some(SubcommandAccess::Everyone);
    (!is_allowed || !option.is_empty())
        .then(|| deny(GuardTarget::Loosening, &format!("ralph {command}{option}"), ""))
}

/// Whether an agent may run a subcommand of ralph during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubcommandAccess {
    /// Agents too: the subcommand cannot loosen a run.
    Everyone,
    PersonOnly,
}

/// Every subcommand of ralph. Agents may not run one that is missing here; a test of the program compares this table
/// with its command line.
pub const RALPH_SUBCOMMANDS: &[(&str, SubcommandAccess)] = &[
    ("accept", SubcommandAccess::PersonOnly),
    ("approve", SubcommandAccess::PersonOnly),
    ("ask", SubcommandAccess::Everyone),
    ("cancel", SubcommandAccess::PersonOnly),
    ("checkpoint diff", SubcommandAccess::Everyone),
    ("checkpoint list", SubcommandAccess::Everyone),
    ("checkpoint make", SubcommandAccess::Everyone),
    // Deletes the base that a run is compared with.
    ("checkpoint prune", SubcommandAccess::PersonOnly),
    ("checkpoint restore", SubcommandAccess::Everyone),
    // `--write` is not: the agent would choose what CI runs.
    ("ci generate", SubcommandAccess::Everyone),
    // Removes records of runs.
    ("clean", SubcommandAccess::PersonOnly),
    ("complete-words", SubcommandAccess::Everyone),
    ("completions", SubcommandAccess::Everyone),
    ("config", SubcommandAccess::Everyone),
    ("demo", SubcommandAccess::Everyone),
    ("dispute", SubcommandAccess::Everyone),
    ("doctor", SubcommandAccess::Everyone),
    ("explain", SubcommandAccess::Everyone),
    // Sends the records of runs to another program.
    ("export otlp", SubcommandAccess::PersonOnly),
    ("export prometheus", SubcommandAccess::Everyone),
    ("feature add", SubcommandAccess::Everyone),
    ("feature claim", SubcommandAccess::Everyone),
    ("feature list", SubcommandAccess::Everyone),
    ("feature next", SubcommandAccess::Everyone),
    ("feature verify", SubcommandAccess::Everyone),
    ("gate add", SubcommandAccess::PersonOnly),
    ("gate detect", SubcommandAccess::Everyone),
    ("gate explain", SubcommandAccess::Everyone),
    ("gate list", SubcommandAccess::Everyone),
    ("gate run", SubcommandAccess::Everyone),
    ("gate wait", SubcommandAccess::Everyone),
    ("gate warm", SubcommandAccess::Everyone),
    ("help", SubcommandAccess::Everyone),
    // `hook` trusts its input: a prompt piped into it would count as typed by a person.
    ("hook", SubcommandAccess::PersonOnly),
    ("import", SubcommandAccess::Everyone),
    ("init", SubcommandAccess::PersonOnly),
    // Runs any command as a judge, and spends money.
    ("judge bench", SubcommandAccess::PersonOnly),
    ("judge presets", SubcommandAccess::Everyone),
    ("judge run", SubcommandAccess::PersonOnly),
    ("lab model", SubcommandAccess::Everyone),
    ("lab pretend", SubcommandAccess::Everyone),
    ("lab record", SubcommandAccess::PersonOnly),
    // `replay` and `simulate` run any command as a hook, and `replay --live` delivers its payload to the run.
    ("lab replay", SubcommandAccess::PersonOnly),
    ("lab simulate", SubcommandAccess::PersonOnly),
    ("learn", SubcommandAccess::Everyone),
    ("limits", SubcommandAccess::PersonOnly),
    ("list checkpoints", SubcommandAccess::Everyone),
    ("list features", SubcommandAccess::Everyone),
    ("list gates", SubcommandAccess::Everyone),
    ("list learnings", SubcommandAccess::Everyone),
    ("list loops", SubcommandAccess::Everyone),
    ("list queues", SubcommandAccess::Everyone),
    ("list runs", SubcommandAccess::Everyone),
    ("list waivers", SubcommandAccess::PersonOnly),
    ("log", SubcommandAccess::Everyone),
    ("loop list", SubcommandAccess::Everyone),
    ("loop new", SubcommandAccess::Everyone),
    ("man", SubcommandAccess::Everyone),
    ("mcp", SubcommandAccess::Everyone),
    ("memory add", SubcommandAccess::Everyone),
    // `--to` is not: it writes a file of the project.
    ("memory export", SubcommandAccess::Everyone),
    ("memory forget", SubcommandAccess::PersonOnly),
    ("memory learn", SubcommandAccess::Everyone),
    ("memory list", SubcommandAccess::Everyone),
    ("memory show", SubcommandAccess::Everyone),
    ("model", SubcommandAccess::Everyone),
    ("notify", SubcommandAccess::Everyone),
    ("orchestrator approve", SubcommandAccess::PersonOnly),
    ("orchestrator set", SubcommandAccess::Everyone),
    ("orchestrator show", SubcommandAccess::Everyone),
    ("orchestrator start", SubcommandAccess::Everyone),
    ("pause", SubcommandAccess::PersonOnly),
    ("pipeline show", SubcommandAccess::Everyone),
    // Approves checks, and runs commands of a model.
    ("plan", SubcommandAccess::PersonOnly),
    ("pretend", SubcommandAccess::Everyone),
    ("prove", SubcommandAccess::Everyone),
    ("recall", SubcommandAccess::Everyone),
    ("replay", SubcommandAccess::PersonOnly),
    // `--attest` is not: it signs for the user.
    ("report", SubcommandAccess::Everyone),
    ("resume", SubcommandAccess::PersonOnly),
    ("run", SubcommandAccess::Everyone),
    // Its page answers, cancels and waives.
    ("serve", SubcommandAccess::PersonOnly),
    ("simulate", SubcommandAccess::PersonOnly),
    ("sql", SubcommandAccess::Everyone),
    ("start", SubcommandAccess::Everyone),
    ("stats", SubcommandAccess::Everyone),
    ("status", SubcommandAccess::Everyone),
    ("statusline", SubcommandAccess::Everyone),
    ("tell", SubcommandAccess::PersonOnly),
    ("trust", SubcommandAccess::PersonOnly),
    ("uninstall", SubcommandAccess::PersonOnly),
    ("verify", SubcommandAccess::Everyone),
    ("verify-report", SubcommandAccess::Everyone),
    ("wait", SubcommandAccess::Everyone),
    ("waive", SubcommandAccess::PersonOnly),
    // Its keys pause, waive and cancel.
    ("watch", SubcommandAccess::PersonOnly),
    ("why", SubcommandAccess::Everyone),
];

/// Whether a word after `ralph` names a subcommand, or the first word of one.
pub(super) fn is_subcommand_or_group(word: &str) -> bool {
    RALPH_SUBCOMMANDS.iter().any(|(known, _)| known.split(' ').next() == Some(word))
}

fn find_subcommand(name: &str) -> Option<SubcommandAccess> {
    RALPH_SUBCOMMANDS.iter().find(|(known, _)| *known == name).map(|(_, user)| *user)
}
