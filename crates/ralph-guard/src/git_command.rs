//! Git commands that skip hooks, hide changes, or touch checkpoints (R-S8b).

use super::denial_text::deny;
use super::guarded_path::PathUse;
use super::options::{CommandArg, parse_options};
use super::script_walk::{PipeFeed, ShellState};
use super::simple_command::ShellCommand;
use super::word_expansion::WordSpelling;
use super::{DeniedCall, GuardScope, GuardTarget, file_programs};
use alloc::format;
use alloc::vec::Vec;

pub(super) fn judge_git(
    command: &ShellCommand<'_>,
    shell: &ShellState<'_>,
    feed: &PipeFeed,
) -> Option<DeniedCall> {
    let mut shell = shell.clone();
    let is_run = shell.ground.scope == GuardScope::Run;
    let mut elsewhere: Vec<WordSpelling> = Vec::new();
    let mut rest = command.args.get(1..)?.iter();
    let subcommand = loop {
        let arg = rest.next()?;
        match arg.text.as_str() {
            "-C" => shell.change_directory(Some(rest.next()?)),
            "-c" => {
                let setting = &rest.next()?.text;
                if is_run && is_hooks_path(setting) {
                    let how = format!("git -c {setting}");
                    return Some(deny(GuardTarget::GitHooks, &how, ""));
                }
                let found = alias_script(setting).and_then(|run| shell.judge_nested_script(run));
                if found.is_some() {
                    return found;
                }
            }
            "--git-dir" | "--work-tree" => elsewhere.extend(rest.next()?.spellings.clone()),
            "--namespace" | "--super-prefix" => drop(rest.next()?),
            text if is_run && text.strip_prefix("--config-env=").is_some_and(is_hooks_path) => {
                return Some(deny(GuardTarget::GitHooks, "git --config-env", "core.hooksPath"));
            }
            text if !text.starts_with('-') => break text,
            _ => {
                elsewhere.extend(arg.spellings_after("--work-tree=", &shell));
                elsewhere.extend(arg.spellings_after("--git-dir=", &shell));
            }
        }
    };
    let args = rest.as_slice();
    let input = command.input.as_deref();
    judge_git_in_ralph_home(subcommand, &elsewhere, &shell)
        .or_else(|| judge_changed_files(subcommand, args, input, &shell))
        .or_else(|| {
            if is_run { judge_git_tricks(subcommand, command, args, &shell, feed) } else { None }
        })
}

fn is_hooks_path(setting: &str) -> bool {
    setting
        .get(.."core.hookspath".len())
        .is_some_and(|key| key.eq_ignore_ascii_case("core.hookspath"))
}

/// The script in `alias.NAME=!SCRIPT`.
fn alias_script(setting: &str) -> Option<&str> {
    let (key, value) = setting.split_once('=')?;
    let is_alias = key.get(..6).is_some_and(|section| section.eq_ignore_ascii_case("alias."));
    value.strip_prefix('!').filter(|_| is_alias)
}

/// Denies every command but read-only ones in a work tree that is ralph's home.
fn judge_git_in_ralph_home(
    subcommand: &str,
    elsewhere: &[WordSpelling],
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    const READ_ONLY: [&str; 14] = [
        "status",
        "log",
        "diff",
        "show",
        "ls-files",
        "grep",
        "blame",
        "describe",
        "branch",
        "remote",
        "help",
        "version",
        "rev-parse",
        "for-each-ref",
    ];
    if READ_ONLY.contains(&subcommand) {
        return None;
    }
    let how = format!("git {subcommand}");
    let here = shell.directory.as_ref().map(super::guarded_path::PathPattern::spelling);
    let places: Vec<WordSpelling> = elsewhere.iter().cloned().chain(here).collect();
    shell.objection(PathUse::Write, &places, &how).filter(|found| is_ralph_file(found.target))
}

fn judge_changed_files(
    subcommand: &str,
    args: &[CommandArg<'_>],
    input: Option<&str>,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    match subcommand {
        "rm" | "mv" | "clean" => {
            let options = parse_options(args, &["e"], shell);
            if options.has("n", "dry-run") || options.has_long("cached") {
                return None;
            }
            if subcommand != "clean" {
                return file_programs::judge_file_program(subcommand, args, shell);
            }
            // Only untracked files are removed, and the policy is tracked.
            let mut found = options.operands.iter().map(|arg| &arg.spellings);
            found.find_map(|spellings| {
                shell
                    .objection(PathUse::Remove, spellings, "git clean")
                    .filter(|found| is_ralph_file(found.target))
            })
        }
        "apply" | "am" => judge_patch(input?, shell, "git apply"),
        _ => None,
    }
}

fn is_ralph_file(what: GuardTarget) -> bool {
    matches!(what, GuardTarget::Home | GuardTarget::Key)
}

/// Judges the files that a patch changes.
pub(super) fn judge_patch(diff: &str, shell: &ShellState<'_>, how: &str) -> Option<DeniedCall> {
    // The last three are those of `apply_patch`.
    const MARKS: [&str; 6] =
        ["+++ b/", "--- a/", "+++ ", "*** Update File: ", "*** Add File: ", "*** Delete File: "];
    diff.lines().find_map(|line| {
        let path = MARKS.iter().find_map(|mark| line.strip_prefix(mark))?;
        let path = path.split('\t').next().unwrap_or_default().trim();
        shell.objection(PathUse::Write, &[WordSpelling::literal(path)], how)
    })
}

fn judge_git_tricks(
    subcommand: &str,
    command: &ShellCommand<'_>,
    args: &[CommandArg<'_>],
    shell: &ShellState<'_>,
    feed: &PipeFeed,
) -> Option<DeniedCall> {
    let how = |option: &str| format!("git {subcommand} {option}");
    match subcommand {
        "commit" | "push" | "merge" | "rebase" | "pull" | "am" | "cherry-pick" | "revert" => {
            if let Some(option) = hook_skipping_option(subcommand, args) {
                return Some(deny(GuardTarget::GitHooks, &how(option), ""));
            }
            let skips = |name: &str| {
                shell.is_set(name)
                    || command
                        .environment
                        .iter()
                        .any(|(other, value)| other == name && !value.is_empty())
            };
            if matches!(subcommand, "commit" | "push" | "merge") && skips("SKIP") {
                return Some(deny(GuardTarget::GitHooks, &format!("SKIP=… git {subcommand}"), ""));
            }
            let writes_refs = args
                .iter()
                .any(|arg| arg.text.starts_with("refs/ralph") || arg.text.contains(":refs/ralph"));
            (subcommand == "push" && writes_refs)
                .then(|| deny(GuardTarget::CheckpointRefs, "git push", "refs/ralph"))
        }
        "config" => judge_git_config(args),
        "update-index" => {
            let hides = |arg: &&CommandArg<'_>| {
                matches!(arg.text.as_str(), "--assume-unchanged" | "--skip-worktree")
            };
            args.iter().find(hides).map(|arg| deny(GuardTarget::HiddenChanges, &how(&arg.text), ""))
        }
        "update-ref" | "fetch" => {
            let is_target = |text: &str| match subcommand {
                "fetch" => text.contains(":refs/ralph"),
                _ => text.starts_with("refs/ralph"),
            };
            let input = command.input.as_deref().is_some_and(|input| input.contains("refs/ralph"));
            let is_ours = args.iter().any(|arg| is_target(&arg.text))
                || subcommand == "update-ref" && (feed.is_about_refs || input);
            is_ours.then(|| {
                deny(GuardTarget::CheckpointRefs, &format!("git {subcommand}"), "refs/ralph")
            })
        }
        _ => None,
    }
}

/// The option that skips the hooks, if there is one. `-n` means that only for `commit`.
fn hook_skipping_option<'a>(subcommand: &str, args: &'a [CommandArg<'_>]) -> Option<&'a str> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.text.as_str() {
            "--" => return None,
            // Git accepts unique beginnings of an option.
            "--no-verify" | "--no-verif" | "--no-veri" => return Some("--no-verify"),
            "--message" | "--file" | "--fixup" => drop(rest.next()),
            text if text.starts_with("--") => {}
            text => {
                for (at, letter) in text.strip_prefix('-').unwrap_or_default().char_indices() {
                    match letter {
                        'n' if subcommand == "commit" => return Some("-n"),
                        // The rest of the word, or the next word, is the value.
                        'm' | 'F' | 'C' | 'c' | 't' | 'X' => {
                            if at + 2 == text.len() {
                                rest.next();
                            }
                            break;
                        }
                        'S' | 'u' => break,
                        _ => {}
                    }
                }
            }
        }
    }
    None
}

/// Denies changes to `core.hooksPath`. Reading it is allowed.
fn judge_git_config(args: &[CommandArg<'_>]) -> Option<DeniedCall> {
    let at = args.iter().position(|arg| is_hooks_path(&arg.text))?;
    let before = args.get(..at)?;
    let has = |words: &[&str]| before.iter().any(|arg| words.contains(&arg.text.as_str()));
    let is_unset = has(&["--unset", "--unset-all", "unset"]);
    let has_value =
        args.get(at + 1).is_some_and(|arg| !arg.text.starts_with('-') || arg.text.is_empty());
    (!has(&["get", "--get", "--get-all", "--get-regexp", "list"]) && (is_unset || has_value))
        .then(|| deny(GuardTarget::GitHooks, "git config core.hooksPath", ""))
}
