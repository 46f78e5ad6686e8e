//! A cheap first scan of a shell command. Nearly all commands contain nothing that the guard could object to.

use ralph_host::HOSTS;

/// Whether the command must be parsed: it names a program that changes something, or ralph's home, writes to a file, or is
/// spelled in a way that could hide any of these from this scan.
pub(super) fn needs_parsing(command: &str, ralph_homes: &[&str]) -> bool {
    let names_home = |home: &&str| {
        let name = home.rsplit('/').find(|name| !name.is_empty());
        name.is_some_and(|name| command.contains(name))
    };
    if ralph_homes.iter().any(names_home) {
        return true;
    }
    let bytes = command.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        let is_word = is_word_byte(byte);
        if !is_word {
            let next = bytes.get(at + 1).copied();
            let before = at.checked_sub(1).and_then(|before| bytes.get(before)).copied();
            let rest = bytes.get(at + 1..).unwrap_or_default();
            match byte {
                b'>' if before != Some(b'>') && is_file_target(rest) => return true,
                b'\\' if next.is_some_and(|next| next.is_ascii_alphabetic()) => return true,
                b'\'' | b'"'
                    if before.is_some_and(is_word_byte) && next.is_some_and(is_word_byte) =>
                {
                    return true;
                }
                _ => {}
            }
            at += 1;
            continue;
        }
        let from = at;
        while bytes.get(at).copied().is_some_and(is_word_byte) {
            at += 1;
        }
        if is_relevant_word(bytes.get(from..at).unwrap_or_default()) {
            return true;
        }
    }
    false
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Whether the target after `>` is a file: not another descriptor and not `/dev/null`.
fn is_file_target(rest: &[u8]) -> bool {
    if let [b'&', b'0'..=b'9' | b'-', ..] = rest {
        return false;
    }
    let target = rest.strip_prefix(b">").or_else(|| rest.strip_prefix(b"|")).unwrap_or(rest);
    !target.trim_ascii_start().starts_with(b"/dev/null")
}

fn is_relevant_word(word: &[u8]) -> bool {
    RELEVANT_WORDS.binary_search_by(|known| known.as_bytes().cmp(word)).is_ok()
        || LONG_WORDS.iter().any(|known| known.as_bytes() == word)
        || word.starts_with(b"python")
        || HOSTS.iter().any(|host| {
            word == host.program.as_bytes() || word.ends_with(host.variables.agent_shell.as_bytes())
        })
        || word.windows(5).any(|window| window.eq_ignore_ascii_case(b"ralph"))
}

/// Programs that change something, and other words that matter to the guard. Sorted.
const RELEVANT_WORDS: &[&str] = &[
    "-delete",
    "-exec",
    "-execdir",
    "-ok",
    "-okdir",
    "HUSKY",
    "LEFTHOOK",
    "SKIP",
    "am",
    "apply",
    "apply_patch",
    "awk",
    "bun",
    "chmod",
    "chown",
    "clean",
    "commit",
    "config",
    "cp",
    "curl",
    "dd",
    "deno",
    "ed",
    "gawk",
    "install",
    "kill",
    "killall",
    "ln",
    "lua",
    "merge",
    "mkdir",
    "mv",
    "node",
    "patch",
    "perl",
    "php",
    "pkill",
    "pull",
    "push",
    "rebase",
    "rm",
    "rmdir",
    "rsync",
    "ruby",
    "scp",
    "sed",
    "shred",
    "sort",
    "sponge",
    "tar",
    "tee",
    "touch",
    "trash",
    "trash-put",
    "truncate",
    "unlink",
    "unzip",
    "wget",
    "xargs",
    "yq",
];

const LONG_WORDS: [&str; 5] =
    ["--no-verify", "HUSKY_SKIP_HOOKS", "hooksPath", "update-index", "update-ref"];

#[cfg(test)]
mod tests {
    use super::{RELEVANT_WORDS, needs_parsing};

    #[test]
    fn the_word_list_is_sorted() {
        assert!(RELEVANT_WORDS.is_sorted());
    }

    #[test]
    fn only_relevant_commands_are_parsed() {
        for command in [
            "ls -la",
            "git status --short && git diff HEAD~1 -- src",
            "cargo test --workspace 2>&1 | tail -40",
            "make 2>/dev/null >>/dev/null",
            "grep -rn 'fn main' src | head",
            "echo \"it is fine\"",
        ] {
            assert!(!needs_parsing(command, &["/home/u/.loops"]), "{command}");
        }
        for command in [
            "echo a>b",
            "r'm' x",
            "r\\m x",
            "x rm",
            "ls ~/.RALPH",
            "cat ~/.loops/key",
            "echo >| b",
            "env -uCLAUDECODE x",
        ] {
            assert!(needs_parsing(command, &["/home/u/.loops"]), "{command}");
        }
    }
}
