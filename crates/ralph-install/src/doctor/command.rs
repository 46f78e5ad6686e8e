//! Analyses the text of a hook command without running it.

use std::path::{Path, PathBuf};

use super::registered::From;
use crate::install::command::words;
use crate::install::layers::Hook;
use ralph_sys::env::Env;
use ralph_sys::fs;

/// A longer script is not a wrapper.
const LARGEST_SCRIPT: usize = 64 * 1024;

/// The words of the command, as far as they can be determined without a shell. A leading home directory is expanded.
pub(super) fn spelt(env: &Env, from: &From, hook: &Hook) -> Vec<String> {
    let raw = match &hook.args {
        None => words(&hook.command),
        Some(args) => std::iter::once(hook.command.clone()).chain(args.iter().cloned()).collect(),
    };
    raw.into_iter().map(|word| filled(env, from, &word)).collect()
}

fn filled(env: &Env, from: &From, word: &str) -> String {
    let home = env.home().unwrap_or_default();
    let home = home.to_string_lossy();
    let root = match from {
        From::Plugin { root, .. } => root.to_string_lossy().into_owned(),
        From::Layer { .. } => String::new(),
    };
    let word = word.replace("${CLAUDE_PLUGIN_ROOT}", &root);
    let rest = ["~", "$HOME", "${HOME}"]
        .iter()
        .find_map(|start| word.strip_prefix(start).filter(|rest| rest.starts_with('/')));
    rest.map_or_else(|| word.clone(), |rest| format!("{home}{rest}"))
}

/// Whether a foreign command calls ralph, directly or through a script.
pub(super) fn calls_ours(env: &Env, from: &From, hook: &Hook) -> bool {
    let words = spelt(env, from, hook);
    if mentions(&words.join(" ")) {
        return true;
    }
    let scripts = words.iter().filter(|word| word.starts_with('/')).take(4);
    scripts
        .map(Path::new)
        .filter_map(|path| fs::read(path, LARGEST_SCRIPT).ok())
        .any(|bytes| bytes.starts_with(b"#!") && std::str::from_utf8(&bytes).is_ok_and(mentions))
}

fn mentions(text: &str) -> bool {
    text.lines().any(|line| line.contains("ralph") && line.contains("hook claude"))
}

/// The program that is called; `None` for an empty command.
pub(super) fn program(env: &Env, from: &From, hook: &Hook) -> Option<PathBuf> {
    spelt(env, from, hook).into_iter().next().map(PathBuf::from)
}

/// The deadline on the command line, in seconds.
pub(super) fn own_deadline(env: &Env, from: &From, hook: &Hook) -> u64 {
    /// The default deadline of `ralph hook`.
    const USUAL: u64 = 570;
    let words = spelt(env, from, hook);
    let mut words = words.iter();
    let given = words.find_map(|word| match word.strip_prefix("--deadline") {
        Some("") => Some(None),
        Some(attached) => attached.strip_prefix('=').map(|value| Some(value.to_string())),
        None => None,
    });
    let given = given.and_then(|attached| attached.or_else(|| words.next().cloned()));
    let given = given.and_then(|value| ralph_core::limits::parse_duration(&value));
    given.map_or(USUAL, |ms| ms.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::layers::Mode;

    fn hook(command: &str) -> Hook {
        Hook {
            event: "Stop".to_string(),
            matcher: None,
            kind: "command".to_string(),
            command: command.to_string(),
            args: None,
            timeout: None,
            mode: Mode::Waits,
        }
    }

    #[test]
    fn wrappers_of_ralph_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::from_pairs([("HOME", dir.path().as_os_str())], None, Vec::new());
        let from = From::Plugin { name: "p@m".to_string(), root: dir.path().to_path_buf() };
        for (name, text) in [
            ("wrapper", "#!/bin/sh\necho hello\nexec /opt/ralph hook claude\n"),
            ("other", "#!/bin/sh\necho ralph\n"),
            ("text", "ralph hook claude\n"),
        ] {
            fs::put(&dir.path().join(name), text.as_bytes(), fs::Mode::Program).unwrap();
        }
        for (command, expected) in [
            ("cd x && ralph hook claude", true),
            ("sh -c 'ralph hook claude'", true),
            ("~/wrapper", true),
            ("$HOME/wrapper a", true),
            ("\"${CLAUDE_PLUGIN_ROOT}/wrapper\"", true),
            ("~/other", false),
            ("~/text", false),
            ("~/nowhere", false),
            ("/dev/zero", false),
            ("", false),
        ] {
            assert_eq!(calls_ours(&env, &from, &hook(command)), expected, "{command}");
        }
    }

    #[test]
    fn a_deadline_is_read_in_every_form() {
        let env = Env::from_pairs([("HOME", "/home/u")], None, Vec::new());
        let from = From::Plugin { name: String::new(), root: PathBuf::new() };
        for (command, expected) in [
            ("ralph hook claude", 570),
            ("ralph hook claude --deadline 900s", 900),
            ("ralph hook claude --deadline=15m", 900),
            ("ralph hook claude --deadline", 570),
            ("ralph hook claude --deadline soon", 570),
        ] {
            assert_eq!(own_deadline(&env, &from, &hook(command)), expected, "{command}");
        }
    }
}
