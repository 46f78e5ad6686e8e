//! Parses the command that an item names as its check: into words, or, if it needs one, as a line for a shell. Nothing is
//! run here.

use ralph_core::source::feature_list::MAX_CHECK_WORDS;
use ralph_core::source::item_check::ItemCheck;
use ralph_core::text;

const MAX_CHECK_BYTES: usize = 4_000;

/// Why a text is not a check: it is more than a command.
pub const NOT_A_COMMAND: &str = "its check is not just a command; write it as `(verify: COMMAND)`";
const OPEN_QUOTE: &str = "its check has an unclosed quote";
const IS_EMPTY: &str = "its check is empty";
const TOO_LONG: &str = "its check is too long; put it in a script";
const HAS_INVISIBLE: &str = "its check has invisible characters";

/// Words that only a shell understands at the beginning of a command.
const SHELL_BUILTINS: [&str; 17] = [
    "!", ".", "[[", "alias", "cd", "eval", "exec", "export", "for", "if", "set", "source",
    "ulimit", "umask", "until", "while", "{",
];
/// Words that start a sentence rather than a command.
const PROSE_STARTS: [&str; 22] = [
    "a", "all", "by", "check", "confirm", "each", "ensure", "every", "in", "inspect", "it",
    "manual", "manually", "no", "on", "open", "review", "see", "that", "the", "visually", "with",
];
/// Words that occur in a sentence about a command.
const PROSE_WORDS: [&str; 12] = [
    "and", "fails", "is", "passes", "returns", "should", "shows", "succeeds", "that", "the",
    "then", "→",
];
/// Phrases after a command in backticks that only say that it succeeds.
const SUCCESS_PHRASES: [&str; 13] = [
    "",
    "all pass",
    "exit 0",
    "exit code 0",
    "exits 0",
    "exits with 0",
    "green",
    "is green",
    "must pass",
    "ok",
    "pass",
    "passes",
    "succeeds",
];
/// Programs that are recognised without backticks. Any other has to be marked as a command.
const KNOWN_PROGRAMS: [&str; 78] = [
    "act",
    "actionlint",
    "ansible-lint",
    "bash",
    "bazel",
    "biome",
    "black",
    "buf",
    "bun",
    "bundle",
    "bunx",
    "cabal",
    "cargo",
    "clang-tidy",
    "cmake",
    "composer",
    "ctest",
    "curl",
    "cypress",
    "dart",
    "deno",
    "docker",
    "dotnet",
    "eslint",
    "flake8",
    "flutter",
    "gcc",
    "git",
    "go",
    "golangci-lint",
    "gradle",
    "grep",
    "helm",
    "jest",
    "just",
    "kubectl",
    "lein",
    "make",
    "meson",
    "mix",
    "mocha",
    "mvn",
    "mypy",
    "ninja",
    "nix",
    "node",
    "nox",
    "npm",
    "npx",
    "php",
    "phpunit",
    "playwright",
    "pnpm",
    "poetry",
    "pre-commit",
    "prettier",
    "pyright",
    "pytest",
    "python",
    "python3",
    "rake",
    "rspec",
    "ruby",
    "ruff",
    "rustc",
    "sbt",
    "sh",
    "shellcheck",
    "stack",
    "swift",
    "task",
    "test",
    "tox",
    "tsc",
    "uv",
    "vitest",
    "yarn",
    "zig",
];

/// The check of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlanCheck {
    Command(ItemCheck),
    /// Why the check cannot be used.
    Unusable(&'static str),
}

/// How a check is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckNotation {
    /// Marked as a command, with backticks or our own notation.
    AsCommand,
    /// In running text, where it could also be a sentence.
    AsText,
}

/// Finds `(verify: …)`, or `verify: …` in backticks, at the end of an item's source. Returns its offset and the check.
pub(super) fn trailing_check(source: &str) -> Option<(usize, PlanCheck)> {
    let source = source.trim_end();
    let source = source.strip_suffix('.').unwrap_or(source);
    if let Some(before) = source.strip_suffix(')') {
        let at = before.to_ascii_lowercase().rfind("(verify:")?;
        let inner = &before[at + "(verify:".len()..];
        return is_balanced(inner).then(|| (at, parse_check(inner, CheckNotation::AsCommand)));
    }
    let before = source.trim_end_matches('`');
    let ticks = &source[before.len()..];
    if ticks.is_empty() {
        return None;
    }
    let at = before.rfind(ticks)?;
    let code = before[at + ticks.len()..].trim_start();
    let command = strip_verify_label(code)?;
    Some((at, split_command(command, CheckNotation::AsCommand)))
}

/// Splits an item's text into the text before the check at its end, and the check, if it can be run.
pub fn split_trailing_check(text: &str) -> Option<(&str, ItemCheck)> {
    match trailing_check(text)? {
        (at, PlanCheck::Command(check)) => Some((text[..at].trim_end(), check)),
        (_, PlanCheck::Unusable(_)) => None,
    }
}

/// Why the check at the end of an item's text cannot be run; `None` if there is none, or if it can be.
pub fn unusable_trailing_check(text: &str) -> Option<&'static str> {
    match trailing_check(text)?.1 {
        PlanCheck::Command(_) => None,
        PlanCheck::Unusable(why) => Some(why),
    }
}

/// Parses a text that is marked as a command, with backticks or otherwise; fails with the reason why it is none.
pub fn parse_marked_command(text: &str) -> Result<ItemCheck, &'static str> {
    usable_check(split_command(text, CheckNotation::AsCommand))
}

/// Parses running text that may be a command.
pub fn parse_plain_command(text: &str) -> Result<ItemCheck, &'static str> {
    usable_check(split_command(text, CheckNotation::AsText))
}

fn usable_check(check: PlanCheck) -> Result<ItemCheck, &'static str> {
    match check {
        PlanCheck::Command(check) => Ok(check),
        PlanCheck::Unusable(why) => Err(why),
    }
}

/// Parses a check on a line of its own: `Verify: cargo test`, with or without emphasis.
pub(super) fn parse_check_line(line: &str) -> Option<PlanCheck> {
    let rest = strip_verify_label(line.trim().trim_start_matches(['*', '_']))?;
    let rest = rest.trim_matches(['*', '_', ' ']);
    (!rest.is_empty()).then(|| parse_check(rest, CheckNotation::AsText))
}

/// Whether a backtick of the line is still open at its end.
pub(super) fn has_open_backtick(line: &str) -> bool {
    line.bytes().filter(|byte| *byte == b'`').count() % 2 == 1
}

fn strip_verify_label(text: &str) -> Option<&str> {
    let label = text.get(.."verify".len())?;
    let rest = &text["verify".len()..];
    let rest = rest.trim_start_matches(['*', '_', ' ']).strip_prefix(':')?;
    label.eq_ignore_ascii_case("verify").then_some(rest)
}

/// Whether `inner` has no unmatched closing bracket.
fn is_balanced(inner: &str) -> bool {
    let mut depth = 0_i64;
    for byte in inner.bytes() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    true
}

fn parse_check(text: &str, written: CheckNotation) -> PlanCheck {
    let text = text.trim();
    let Some(at) = text.find('`') else { return split_command(text, written) };
    let (before, rest) = text.split_at(at);
    let code = rest.trim_start_matches('`');
    let ticks = &rest[..rest.len() - code.len()];
    let Some((code, after)) = code.split_once(ticks) else {
        return PlanCheck::Unusable(OPEN_QUOTE);
    };
    let before = before.trim().to_lowercase();
    let after =
        after.trim_matches([' ', '.', '*', '_', '→', '-', '=', '>', '(', ')']).to_lowercase();
    if !matches!(before.as_str(), "" | "run" | "execute")
        || !SUCCESS_PHRASES.contains(&after.as_str())
    {
        return PlanCheck::Unusable(NOT_A_COMMAND);
    }
    split_command(code, CheckNotation::AsCommand)
}

fn split_command(text: &str, written: CheckNotation) -> PlanCheck {
    let mut text = text.trim();
    if text.is_empty() {
        return PlanCheck::Unusable(IS_EMPTY);
    }
    if text.len() > MAX_CHECK_BYTES {
        return PlanCheck::Unusable(TOO_LONG);
    }
    if text.chars().any(text::is_hidden) {
        return PlanCheck::Unusable(HAS_INVISIBLE);
    }
    if written == CheckNotation::AsText {
        text = strip_success_phrase(text);
    }
    let Some(words) = shlex::split(text) else { return PlanCheck::Unusable(OPEN_QUOTE) };
    let Some(first) = words.first() else { return PlanCheck::Unusable(IS_EMPTY) };
    let starts_in_shell = SHELL_BUILTINS.contains(&first.as_str()) || is_assignment(first);
    let program = first.trim_start_matches('(').trim_end_matches([';', ')']);
    let is_command = match written {
        CheckNotation::AsCommand => starts_in_shell || program == "[" || could_be_program(program),
        CheckNotation::AsText => {
            // `for each row …` is a sentence.
            (matches!(first.as_str(), "!" | "[[" | "cd")
                || is_assignment(first)
                || KNOWN_PROGRAMS.contains(&program)
                || program.contains('/') && could_be_program(program))
                && !words.iter().any(|word| PROSE_WORDS.contains(&word.as_str()))
        }
    };
    if !is_command {
        return PlanCheck::Unusable(NOT_A_COMMAND);
    }
    let is_line = starts_in_shell || needs_shell(text) || words.len() > MAX_CHECK_WORDS;
    PlanCheck::Command(if is_line {
        ItemCheck::Shell { shell: text.to_string() }
    } else {
        ItemCheck::Argv(words)
    })
}

/// Whether a word sets a variable for the command that follows it: `CI=1`.
fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

fn could_be_program(word: &str) -> bool {
    let is_plain = |char: char| char.is_alphanumeric() || "._-+/@".contains(char);
    !word.starts_with('-')
        && word.chars().all(is_plain)
        && !PROSE_STARTS.contains(&word.to_lowercase().as_str())
}

/// Reduces `cargo test passes.` to `cargo test`. A full stop after a letter ends a sentence; one after a space is an
/// argument.
fn strip_success_phrase(text: &str) -> &str {
    let text = match text.strip_suffix('.') {
        Some(rest) if rest.ends_with(char::is_alphanumeric) => rest,
        Some(_) | None => text,
    };
    let endings = SUCCESS_PHRASES.iter().filter(|ending| !ending.is_empty() && **ending != "ok");
    let shorter = endings
        .filter_map(|ending| text.strip_suffix(ending)?.strip_suffix(' '))
        .min_by_key(|it| it.len());
    shorter.unwrap_or(text).trim_end_matches([' ', '→'])
}

/// Whether a shell would interpret any of the words.
fn needs_shell(text: &str) -> bool {
    let mut quote = None;
    let mut before = ' ';
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '$' | '`') => return true,
            (_, '\\') => {
                chars.next();
            }
            (None, '\'' | '"') => quote = Some(char),
            (None, '&' | '|' | ';' | '<' | '>' | '(' | ')' | '*' | '?' | '{' | '}' | '\n') => {
                return true;
            }
            (None, '~' | '#') if before.is_whitespace() => return true,
            (Some(_) | None, _) => {}
        }
        before = char;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(check: &PlanCheck) -> String {
        match check {
            PlanCheck::Command(ItemCheck::Argv(words)) => words.join("|"),
            PlanCheck::Command(ItemCheck::Shell { shell }) => format!("sh {shell}"),
            PlanCheck::Unusable(why) => format!("- {why}"),
        }
    }

    #[test]
    fn a_check_at_the_end_of_an_item() {
        for (source, expected) in [
            ("a (verify: cargo test parser)", "2 cargo|test|parser"),
            ("a (Verify: `cargo test parser`).", "2 cargo|test|parser"),
            ("a `verify: cargo test parser`", "2 cargo|test|parser"),
            ("a ``verify: cargo test``", "2 cargo|test"),
            ("a (verify: mytool --all \"a b\" 'c d')", "2 mytool|--all|a b|c d"),
            ("a (verify: pytest -k \"a(b)\")", "2 pytest|-k|a(b)"),
            ("a (verify: pytest tests/t.py::t[x])", "2 pytest|tests/t.py::t[x]"),
            ("a (verify: run `cargo test`)", "2 cargo|test"),
            ("a (verify: cargo test) and more (later)", "none"),
            ("a (verify: cargo test) and more", "none"),
            ("a (verify cargo test)", "none"),
            ("(verify: cargo test)", "0 cargo|test"),
            ("a `verify the parser`", "none"),
            ("a `cargo test`", "none"),
            ("a (verify: )", "2 - its check is empty"),
            ("a (verify: x && y)", "2 sh x && y"),
            ("a (verify: `x && y | z`)", "2 sh x && y | z"),
            ("a `verify: (cd x && make)`", "2 sh (cd x && make)"),
            ("a (verify: ! grep -q old a.rs)", "2 sh ! grep -q old a.rs"),
            ("a (verify: cd x)", "2 sh cd x"),
            ("a (verify: A=1 make)", "2 sh A=1 make"),
            ("a (verify: ls *.rs)", "2 sh ls *.rs"),
            ("a (verify: echo \"$HOME\")", "2 sh echo \"$HOME\""),
            ("a (verify: echo '$HOME' \\& a~ a#b)", "2 echo|$HOME|&|a~|a#b"),
            ("a (verify: make # all)", "2 sh make # all"),
            ("a (verify: cargo test 'x)", "2 - its check has an unclosed quote"),
            ("a (verify: cargo\u{200b} test)", "2 - its check has invisible characters"),
            (
                "a (verify: manually in the browser)",
                "2 - its check is not just a command; write it as `(verify: COMMAND)`",
            ),
            (
                "a (verify: --all)",
                "2 - its check is not just a command; write it as `(verify: COMMAND)`",
            ),
            ("", "none"),
            (")", "none"),
            ("`", "none"),
            ("``", "none"),
        ] {
            let found = trailing_check(source)
                .map_or("none".to_string(), |(at, check)| format!("{at} {}", shown(&check)));
            assert_eq!(found, expected, "{source:?}");
        }
    }

    #[test]
    fn a_check_on_a_line_of_its_own() {
        let prose = "- its check is not just a command; write it as `(verify: COMMAND)`";
        for (line, expected) in [
            ("Verify: cargo test parser", "cargo|test|parser"),
            ("verify : cargo test", "cargo|test"),
            ("**Verify**: `pnpm test auth`", "pnpm|test|auth"),
            ("**Verify:** `pnpm test auth` passes.", "pnpm|test|auth"),
            ("_Verify_: `pnpm check` → exit 0.", "pnpm|check"),
            ("Verify: cargo test passes.", "cargo|test"),
            ("Verify: ruff check .", "ruff|check|."),
            ("Verify: go test ./...", "go|test|./..."),
            ("Verify: ./scripts/check.sh fast", "./scripts/check.sh|fast"),
            ("Verify: `mytool check`", "mytool|check"),
            ("Verify: mytool check", prose),
            ("Verify: the page loads", prose),
            ("Verify: make sure that it works", prose),
            ("Verify: `GET` returns 200", prose),
            ("Verify: `cargo test` fails", prose),
            ("Verify: `cargo build` and `cargo test`", prose),
            ("Verify: `pnpm lint && pnpm test`", "sh pnpm lint && pnpm test"),
            ("Verify: cd web && npm test passes.", "sh cd web && npm test"),
            ("Verify: `f(x)` passes", prose),
            ("Verify: for each row, click", prose),
            ("Verify: `cargo test", "- its check has an unclosed quote"),
            ("Verify:", "none"),
            ("Verify the parser", "none"),
            ("Verified: cargo test", "none"),
            ("ver", "none"),
            ("verifü: a", "none"),
        ] {
            let found = parse_check_line(line).map_or("none".to_string(), |check| shown(&check));
            assert_eq!(found, expected, "{line:?}");
        }
    }
}
