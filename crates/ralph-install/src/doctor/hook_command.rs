//! Analyses the text of a hook command without running it.

use std::path::{Path, PathBuf};

use super::loaded_hooks::HookSource;
use crate::install::program_path::split_command_words;
use ralph_host::client_settings::HookSetting;
use ralph_host::{HOSTS, HostProfile};
use ralph_sys::env::Env;
use ralph_sys::fs;

/// A longer script is not a wrapper.
const MAX_SCRIPT_BYTES: usize = 64 * 1024;

/// The words of the command, as far as they can be determined without a shell. A leading home directory is expanded.
pub(super) fn expand_words(env: &Env, from: &HookSource, hook: &HookSetting) -> Vec<String> {
    let raw = match &hook.args {
        None => split_command_words(&hook.command),
        Some(args) => std::iter::once(hook.command.clone()).chain(args.iter().cloned()).collect(),
    };
    raw.into_iter().map(|word| expand_home(env, from, &word)).collect()
}

fn expand_home(env: &Env, from: &HookSource, word: &str) -> String {
    let home = env.home().unwrap_or_default();
    let home = home.to_string_lossy();
    let root = match from {
        HookSource::Plugin { root, .. } => root.to_string_lossy().into_owned(),
        HookSource::Layer { .. } => String::new(),
    };
    let word = HOSTS.iter().fold(word.to_string(), |word, host| {
        word.replace(&format!("${{{}}}", host.variables.plugin_root), &root)
    });
    let rest = ["~", "$HOME", "${HOME}"]
        .iter()
        .find_map(|start| word.strip_prefix(start).filter(|rest| rest.starts_with('/')));
    rest.map_or_else(|| word.clone(), |rest| format!("{home}{rest}"))
}

/// Whether a foreign command calls ralph, directly or through a script.
pub(super) fn is_ralph_wrapper(env: &Env, from: &HookSource, hook: &HookSetting) -> bool {
    let words = expand_words(env, from, hook);
    if mentions_hook(&words.join(" ")) {
        return true;
    }
    let scripts = words.iter().filter(|word| word.starts_with('/')).take(4);
    scripts.map(Path::new).filter_map(|path| fs::read(path, MAX_SCRIPT_BYTES).ok()).any(|bytes| {
        bytes.starts_with(b"#!") && std::str::from_utf8(&bytes).is_ok_and(mentions_hook)
    })
}

fn mentions_hook(text: &str) -> bool {
    let is_hook = |line: &str, host: &HostProfile| line.contains(&format!("hook {}", host.name));
    let is_any = |line: &str| HOSTS.iter().any(|host| is_hook(line, host));
    text.lines().any(|line| line.contains("ralph") && is_any(line))
}

/// The program that is called; `None` for an empty command.
pub(super) fn called_program(env: &Env, from: &HookSource, hook: &HookSetting) -> Option<PathBuf> {
    expand_words(env, from, hook).into_iter().next().map(PathBuf::from)
}

/// The deadline on the command line, in seconds.
pub(super) fn hook_deadline_secs(env: &Env, from: &HookSource, hook: &HookSetting) -> u64 {
    /// The default deadline of `ralph hook`.
    const USUAL: u64 = 570;
    let words = expand_words(env, from, hook);
    let mut words = words.iter();
    let given = words.find_map(|word| match word.strip_prefix("--deadline") {
        Some("") => Some(None),
        Some(attached) => attached.strip_prefix('=').map(|value| Some(value.to_string())),
        None => None,
    });
    let given = given.and_then(|attached| attached.or_else(|| words.next().cloned()));
    let given = given.and_then(|value| ralph_core::units::parse_duration(&value));
    given.map_or(USUAL, |ms| ms.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_host::client_settings::HookMode;

    fn hook(command: &str) -> HookSetting {
        HookSetting {
            event: "Stop".to_string(),
            matcher: None,
            kind: "command".to_string(),
            command: command.to_string(),
            prompt: None,
            args: None,
            timeout: None,
            mode: HookMode::Waits,
        }
    }

    #[test]
    fn wrappers_of_ralph_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::from_pairs([("HOME", dir.path().as_os_str())], None, Vec::new());
        let from = HookSource::Plugin { name: "p@m".to_string(), root: dir.path().to_path_buf() };
        for (name, text) in [
            ("wrapper", "#!/bin/sh\necho hello\nexec /opt/ralph hook claude\n"),
            ("other", "#!/bin/sh\necho ralph\n"),
            ("text", "ralph hook claude\n"),
        ] {
            fs::replace_with_mode(
                &dir.path().join(name),
                text.as_bytes(),
                fs::SharedFileMode::Executable,
            )
            .unwrap();
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
            assert_eq!(is_ralph_wrapper(&env, &from, &hook(command)), expected, "{command}");
        }
    }

    #[test]
    fn a_deadline_is_read_in_every_form() {
        let env = Env::from_pairs([("HOME", "/home/u")], None, Vec::new());
        let from = HookSource::Plugin { name: String::new(), root: PathBuf::new() };
        for (command, expected) in [
            ("ralph hook claude", 570),
            ("ralph hook claude --deadline 900s", 900),
            ("ralph hook claude --deadline=15m", 900),
            ("ralph hook claude --deadline", 570),
            ("ralph hook claude --deadline soon", 570),
        ] {
            assert_eq!(hook_deadline_secs(&env, &from, &hook(command)), expected, "{command}");
        }
    }
}
