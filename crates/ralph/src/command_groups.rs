//! The commands in groups, as `ralph -h` and `ralph help --all` show them.

use crate::term::{self, paint};
use std::ffi::OsString;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph init
  ralph run \"make the parser handle nested quotes\"
  ralph why

To turn ralph off, set `RALPH_OFF=1` or create the file `~/.ralph/off`.";

const OPTIONS: [&str; 3] = [
    "      --color WHEN  Color the output: auto, always or never",
    "  -h, --help        Show the common commands; `--help` shows all of them",
    "  -V, --version     Print the version",
];

/// A heading with its commands. `common` are the commands that a new user needs.
struct CommandGroup {
    title: &'static str,
    common: &'static [&'static str],
    rest: &'static [&'static str],
}

const GROUPS: &[CommandGroup] = &[
    CommandGroup { title: "Start", common: &["init", "run", "plan", "demo"], rest: &["start"] },
    CommandGroup {
        title: "Watch",
        common: &["status", "why", "log", "watch", "report", "stats", "serve"],
        rest: &["list", "recall", "memory", "sql", "verify-report"],
    },
    CommandGroup {
        title: "Steer",
        common: &["pause", "resume", "cancel", "tell", "limits", "waive"],
        rest: &["approve", "accept", "checkpoint"],
    },
    CommandGroup {
        title: "Gates",
        common: &["verify", "gate", "trust"],
        rest: &["judge", "prove", "ci", "explain", "config"],
    },
    CommandGroup {
        title: "Work lists",
        common: &[],
        rest: &["feature", "loop", "pipeline", "orchestrator", "import"],
    },
    CommandGroup {
        title: "Installation and help",
        common: &[],
        rest: &["doctor", "clean", "uninstall", "completions", "man", "help"],
    },
    CommandGroup { title: "Hook development", common: &[], rest: &["lab"] },
    CommandGroup { title: "For agents", common: &[], rest: &["ask", "wait", "dispute", "learn"] },
    CommandGroup {
        title: "For other programs",
        common: &[],
        rest: &["hook", "mcp", "statusline", "notify", "export"],
    },
];

/// How much the help of the whole program shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelpExtent {
    Common,
    Everything,
}

/// Everything for `ralph --help`. Other words have no influence on the help of the whole program.
pub(crate) fn requested_extent(words: &[OsString]) -> HelpExtent {
    let is_option = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
    let words = term::ColorWhen::without_option(words);
    if words.iter().take_while(is_option).any(|word| word == "--help") {
        HelpExtent::Everything
    } else {
        HelpExtent::Common
    }
}

pub(crate) fn render_help(command: &clap::Command, extent: HelpExtent) -> String {
    let about = match extent {
        HelpExtent::Common => command.get_about(),
        HelpExtent::Everything => command.get_long_about(),
    };
    let mut out = about.map(ToString::to_string).unwrap_or_default();
    out.push_str(&format!("\n\n{} ralph [OPTIONS] [COMMAND]\n", paint(term::BOLD, "Usage:")));
    for group in GROUPS {
        let rest = if extent == HelpExtent::Everything { group.rest } else { &[] };
        out.push_str(&render_group(command, group.title, &[group.common, rest].concat()));
    }
    out.push_str(&format!("\n{}\n{}\n\n", paint(term::BOLD, "Options:"), OPTIONS.join("\n")));
    out.push_str(EXAMPLES);
    out.push_str(match extent {
        HelpExtent::Common => {
            "\n`ralph` alone shows the state of this project and the next step.\n\
             `ralph help --all` shows all commands, `ralph help COMMAND` one of them.\n"
        }
        HelpExtent::Everything => {
            "\n`ralph` alone shows the state of this project and the next step.\n"
        }
    });
    out
}

fn render_group(command: &clap::Command, title: &str, names: &[&str]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut out = format!("\n{}\n", paint(term::BOLD, &format!("{title}:")));
    for name in names {
        let about = command.find_subcommand(name).and_then(clap::Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let pad = " ".repeat(width - name.len());
        out.push_str(&format!("  {}{pad}  {about}\n", paint(term::BOLD, name)));
    }
    out
}

/// The names of all groups' commands.
#[cfg(test)]
pub(crate) fn grouped_commands() -> Vec<&'static str> {
    GROUPS.iter().flat_map(|group| group.common.iter().chain(group.rest)).copied().collect()
}
