//! Reads the check that an author wrote in Markdown: a command with what it should return, in one line or in a block
//! below it. Nothing is run. A check that is not understood has a reason, never a guess.

use ralph_core::gate::shell_quote;
use ralph_core::source::item_check::ItemCheck;

use ralph_policy::detect;

use super::expected_output::{parse_comparison, prints_count};
use super::work_item;
use crate::list_marker::list_item_text;
use crate::plan;

const MAX_LINE_BYTES: usize = 4_000;

const NO_COMMAND: &str = "it names no command";
const MANUAL: &str = "a person or the agent has to look";
const OUTPUT_IN_WORDS: &str = "its expected output is described in words";
const ALTERNATIVES: &str = "it names alternatives";
const CHANGES_STATE: &str = "the command changes more than it checks";
const EMPTY_BLOCK: &str = "no command follows";

/// Words that a label consists of.
const LABELS: [&str; 10] = [
    "verify",
    "verification",
    "verify with",
    "verification command",
    "verification commands",
    "validate",
    "validation",
    "validation command",
    "validation commands",
    "test command",
];

/// First words of a check that only a person or the agent can do.
const MANUAL_STARTS: [&str; 16] = [
    "compare", "confirm", "inspect", "load", "look", "manual", "manually", "open", "read",
    "reload", "review", "search", "use", "view", "visual", "visually",
];

/// What a command in backticks may be introduced with.
const LEADS: [&str; 5] = ["", "run", "execute", "command", "run inline bash validation"];

/// Phrases that only say that a command succeeds.
const SUCCESS: [&str; 37] = [
    "",
    "all checks green",
    "all checks must show passing",
    "all checks pass",
    "all green",
    "all pass",
    "all passing",
    "all tests pass",
    "compiles",
    "exit 0",
    "exit code 0",
    "exits 0",
    "exits 0 with all tests passing",
    "exits with 0",
    "exits with code 0",
    "green",
    "is clean",
    "is green",
    "is successful",
    "must pass",
    "no errors",
    "ok",
    "pass",
    "passed",
    "passes",
    "passes with no errors",
    "passes without errors",
    "passing",
    "returns 0",
    "returns success",
    "runs without errors",
    "shows all checks passing",
    "shows all green",
    "shows all passing",
    "succeeds",
    "succeeds without errors",
    "works",
];

/// Two words that together change more than the work tree's build output. A check runs at every stop, so it must be
/// repeatable.
const CHANGES: [(&str, &str); 20] = [
    ("cargo", "publish"),
    ("docker", "push"),
    ("gh", "release"),
    ("git", "add"),
    ("git", "checkout"),
    ("git", "clean"),
    ("git", "commit"),
    ("git", "merge"),
    ("git", "push"),
    ("git", "rebase"),
    ("git", "reset"),
    ("git", "tag"),
    ("npm", "publish"),
    ("pnpm", "publish"),
    ("pr", "close"),
    ("pr", "create"),
    ("pr", "edit"),
    ("pr", "merge"),
    ("pr", "ready"),
    ("yarn", "publish"),
];

/// Syntax that `/bin/sh` need not have.
const BASH_SYNTAX: [&str; 9] = ["[[", "<(", ">(", "<<<", "&>", "=~", "pipefail", "source ", "{1.."];

/// The check of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckText {
    Command(ItemCheck),
    /// The commands are in the block that follows.
    Block,
    NotUnderstood(&'static str),
}

/// The text after `**Verify**:`, `Validation:` or a similar label; `None` if the line has none.
pub(super) fn strip_label(line: &str) -> Option<&str> {
    let line = line.trim();
    let line = list_item_text(line).unwrap_or(line);
    let is_emphasis = |char: char| matches!(char, '*' | '_');
    let bare = line.trim_start_matches(is_emphasis);
    let (label, rest) = bare.split_once(':')?;
    let label = label.trim_end_matches(is_emphasis).trim().to_ascii_lowercase();
    LABELS.contains(&label.as_str()).then(|| rest.trim_start_matches(is_emphasis).trim())
}

/// Parses the text after a label.
pub(super) fn parse_check_text(text: &str) -> CheckText {
    let text = text.trim();
    if text.is_empty() || text.ends_with(':') {
        return CheckText::Block;
    }
    match parse_checks(text) {
        Ok(check) => CheckText::Command(check),
        Err(why) => CheckText::NotUnderstood(why),
    }
}

/// A criterion or step that is one command and says that it succeeds: `` `make test` exits 0 ``, `$ make test`. A command
/// without such a phrase may be an instruction.
pub(super) fn parse_criterion(text: &str) -> Option<ItemCheck> {
    let text = text.trim();
    if let Some(command) = text.strip_prefix("$ ") {
        return parse_command(command).ok();
    }
    let rest = text.strip_prefix("Run ").or_else(|| text.strip_prefix("run ")).unwrap_or(text);
    let after = rest.strip_prefix('`')?.split_once('`')?.1;
    let says_result = !plain_phrase(after).is_empty() && !after.contains('`');
    says_result.then(|| parse_checks(rest).ok())?
}

/// An item that is to run one command: `` 4.2 Run `make test` ``, `` Run the tests (`make test`) ``. What only prepares the
/// work, and what follows as a sentence about anything but success, makes it work to do rather than a check.
pub(super) fn parse_run_item(text: &str) -> Option<ItemCheck> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let text = if first.starts_with(|char: char| char.is_ascii_digit()) { rest } else { text };
    let rest = ["Run ", "run ", "Execute ", "execute "]
        .iter()
        .find_map(|verb| text.trim_start().strip_prefix(verb))?;
    let [before, code, after] = *rest.split('`').collect::<Vec<_>>() else { return None };
    let says_success = |phrase: &str| {
        phrase.is_empty() || ["pass", "succe", "compil"].iter().any(|word| phrase.contains(word))
    };
    let is_introduced = before.trim().is_empty() || before.trim_end().ends_with(['(', ':']);
    let after = after.trim_matches([' ', ')', '.']).to_lowercase();
    let is_check =
        is_introduced && says_success(&after) && detect::simple_check_words(code).is_some();
    is_check.then(|| parse_command(code).ok())?
}

/// The commands of a fenced block or a list, as one check.
pub(super) fn parse_block(lines: &[&str]) -> Result<ItemCheck, &'static str> {
    let lines: Vec<&str> = lines
        .iter()
        .map(|line| line.strip_prefix("$ ").unwrap_or(line).trim_end())
        .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .collect();
    if lines.is_empty() {
        return Err(EMPTY_BLOCK);
    }
    if lines.iter().all(|line| is_whole_command(line)) {
        let mut checks = Vec::new();
        for line in &lines {
            checks.push(parse_commented(line.trim())?);
        }
        return Ok(join_checks(&checks));
    }
    let script = lines.join("\n");
    let first = lines.first().map(|line| line.trim()).unwrap_or_default();
    // The first word decides whether it is a script at all.
    parse_command(first.trim_end_matches('\\')).or_else(|why| {
        if first.ends_with("<<") || has_open_quote(first) { Ok(shell(first)) } else { Err(why) }
    })?;
    if changes_state(&script) {
        return Err(CHANGES_STATE);
    }
    Ok(shell(&format!("set -e\n{script}")))
}

/// Joins the checks of an item, if it has some.
pub(super) fn join_any_checks(checks: &[ItemCheck]) -> Option<ItemCheck> {
    (!checks.is_empty()).then(|| join_checks(checks))
}

/// Joins at least one check: all have to succeed.
pub(super) fn join_checks(checks: &[ItemCheck]) -> ItemCheck {
    if let [only] = checks {
        return only.clone();
    }
    let parts = checks.iter().map(|check| match check {
        ItemCheck::Argv(_) => check.command_line(),
        ItemCheck::Shell { shell } if needs_group(shell) => format!("({shell}\n)"),
        ItemCheck::Shell { shell } => shell.clone(),
    });
    shell(&parts.collect::<Vec<_>>().join(" && "))
}

/// Whether `&&` after the line would bind to a part of it, or be part of a comment.
fn needs_group(line: &str) -> bool {
    line.contains("||") || line.contains([';', '\n', '#']) || line.contains(" & ")
}

/// Parses commands in backticks, each with what it should return, or a text that is a command.
fn parse_checks(text: &str) -> Result<ItemCheck, &'static str> {
    let spans: Vec<&str> = text.split('`').collect();
    if spans.len() == 1 {
        return parse_plain(text);
    }
    if spans.len().is_multiple_of(2) {
        return Err("it has an unclosed backtick");
    }
    let lead = plain_phrase(spans.first().copied().unwrap_or_default());
    if !LEADS.contains(&lead.as_str()) {
        return Err(if starts_manually(&lead) { MANUAL } else { NO_COMMAND });
    }
    let mut checks = Vec::new();
    let mut rest = spans.get(1..).unwrap_or_default();
    while let [code, after, more @ ..] = rest {
        rest = more;
        let (phrase, connector) = split_connector(after);
        // `returns` followed by a value in backticks.
        if let ([value, after_value, more @ ..], "returns" | "prints" | "outputs" | "shows") =
            (rest, phrase.as_str())
        {
            rest = more;
            let (phrase, connector) = split_connector(after_value);
            if !phrase.is_empty() || connector == Connector::Or {
                return Err(OUTPUT_IN_WORDS);
            }
            checks.push(output_equals(code, value)?);
            continue;
        }
        match connector {
            Connector::Or => return Err(ALTERNATIVES),
            Connector::None if !rest.is_empty() => return Err(OUTPUT_IN_WORDS),
            Connector::None | Connector::And => {}
        }
        checks.push(with_expectation(code, &phrase)?);
    }
    Ok(join_checks(&checks))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Connector {
    None,
    And,
    Or,
}

/// Splits the text after a command into what it should return and the word that connects it with the next command.
fn split_connector(text: &str) -> (String, Connector) {
    let text = text.trim();
    for (word, connector) in [
        ("&&", Connector::And),
        (" and", Connector::And),
        (",", Connector::And),
        (";", Connector::And),
        (" or", Connector::Or),
        ("/", Connector::Or),
    ] {
        let text = format!(" {text}");
        let (before, end) =
            text.split_at_checked(text.len().saturating_sub(word.len())).unwrap_or_default();
        if end.eq_ignore_ascii_case(word) {
            return (plain_phrase(before), connector);
        }
    }
    (plain_phrase(text), Connector::None)
}

/// The phrase in lower case, without emphasis, arrows, remarks in brackets and final punctuation.
fn plain_phrase(text: &str) -> String {
    let mut text = text.trim();
    let trim: &[char] = &[' ', '.', ',', ':', '*', '_', '→', '—', '–', '-'];
    if let Some((before, _)) = text.split_once('(') {
        text = before;
    }
    let text = text.trim().trim_start_matches("=>").trim_start_matches("->").trim_matches(trim);
    let text = text.to_lowercase();
    let text = text.strip_prefix("should ").or_else(|| text.strip_prefix("must ")).unwrap_or(&text);
    let text = text.replace("return ", "returns ");
    text.trim_matches(trim).to_string()
}

fn starts_manually(text: &str) -> bool {
    let first = text.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default();
    MANUAL_STARTS.contains(&first.to_lowercase().as_str())
}

/// A text without backticks.
fn parse_plain(text: &str) -> Result<ItemCheck, &'static str> {
    let parsed = plan::parse_plain_command(text.strip_prefix("$ ").unwrap_or(text));
    match parsed {
        Ok(check) => finish_check(check),
        Err(_) if starts_manually(text) => Err(MANUAL),
        Err(_) => Err(NO_COMMAND),
    }
}

/// Parses a command that is marked as one.
fn parse_command(code: &str) -> Result<ItemCheck, &'static str> {
    let code = code.trim();
    if code.len() > MAX_LINE_BYTES {
        return Err("the command is too long");
    }
    finish_check(
        plan::parse_marked_command(code)
            .map_err(|why| if why == plan::NOT_A_COMMAND { NO_COMMAND } else { why })?,
    )
}

/// Rejects a command that must not run at every stop, and chooses the shell.
pub(super) fn finish_check(check: ItemCheck) -> Result<ItemCheck, &'static str> {
    if changes_state(&check.command_line()) {
        return Err(CHANGES_STATE);
    }
    Ok(match check {
        ItemCheck::Shell { shell } => self::shell(&shell),
        ItemCheck::Argv(words) => ItemCheck::Argv(words),
    })
}

/// A line for a shell; for `bash` if it uses what `sh` need not have.
fn shell(line: &str) -> ItemCheck {
    if BASH_SYNTAX.iter().any(|syntax| line.contains(syntax)) {
        return ItemCheck::Argv(vec!["bash".to_string(), "-c".to_string(), line.to_string()]);
    }
    ItemCheck::Shell { shell: line.to_string() }
}

fn changes_state(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).any(|pair| match pair {
        [one, other] => {
            let one = one.trim_start_matches(['(', '"', '\'']);
            CHANGES.contains(&(one, other.trim_end_matches([';', ')', '"', '\''])))
        }
        _ => false,
    })
}

/// A command whose line may end with a comment about its result.
fn parse_commented(line: &str) -> Result<ItemCheck, &'static str> {
    let Some((command, comment)) = line.rsplit_once(" #") else { return parse_command(line) };
    if has_open_quote(command) {
        return parse_command(line);
    }
    let comment = plain_phrase(comment);
    let comment = comment.strip_prefix("expected").unwrap_or(&comment);
    let phrase = plain_phrase(comment.strip_prefix("expect").unwrap_or(comment));
    with_expectation(command, &phrase).or_else(|why| {
        // Any other comment explains the command.
        if why == OUTPUT_IN_WORDS { parse_command(command) } else { Err(why) }
    })
}

/// Adds what the command should return.
fn with_expectation(code: &str, phrase: &str) -> Result<ItemCheck, &'static str> {
    let check = parse_command(code)?;
    let counts = prints_count(code);
    let says_success = SUCCESS.contains(&phrase) || phrase.starts_with("pass before ");
    if says_success && !(counts && phrase == "returns 0") {
        return Ok(check);
    }
    let phrase = ["returns ", "shows ", "outputs ", "prints ", "is ", "equals ", "count "]
        .iter()
        .find_map(|word| phrase.strip_prefix(word))
        .unwrap_or(phrase);
    if matches!(
        phrase,
        "nothing" | "empty" | "no output" | "no matches" | "no results" | "returns nothing"
    ) {
        return Ok(shell(&format!("test -z \"$({})\"", code.trim())));
    }
    if counts && let Some((operator, number)) = parse_comparison(phrase) {
        return Ok(shell(&format!("test \"$({})\" {operator} {number}", code.trim())));
    }
    Err(OUTPUT_IN_WORDS)
}

/// The command prints exactly a value.
fn output_equals(code: &str, value: &str) -> Result<ItemCheck, &'static str> {
    parse_command(code)?;
    Ok(shell(&format!("test \"$({})\" = {}", code.trim(), shell_quote(value.trim()))))
}

/// Whether the line is complete by itself.
fn is_whole_command(line: &str) -> bool {
    let line = line.trim();
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_control = matches!(
        first,
        "case" | "do" | "done" | "elif" | "else" | "esac" | "fi" | "then" | "{" | "}" | "function"
    );
    let opens =
        ["&&", "||", "|", "\\", "{", "do", "then", "("].iter().any(|end| line.ends_with(end));
    let is_open_loop = matches!(first, "for" | "while" | "until") && !line.ends_with("done")
        || first == "if" && !line.ends_with("fi");
    !is_control && !opens && !is_open_loop && !line.contains("<<") && !has_open_quote(line)
}

fn has_open_quote(line: &str) -> bool {
    shlex::split(line).is_none()
}

/// The command of a list item below a label: in backticks, or the item itself.
pub(super) fn listed_check(item: &str) -> Option<Result<ItemCheck, &'static str>> {
    if item.contains('`') {
        return Some(parse_checks(item));
    }
    work_item::is_command(item).then(|| parse_command(item))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(found: &CheckText) -> String {
        match found {
            CheckText::Command(ItemCheck::Argv(words)) => words.join("|"),
            CheckText::Command(ItemCheck::Shell { shell }) => format!("sh {shell}"),
            CheckText::Block => "block".to_string(),
            CheckText::NotUnderstood(why) => format!("- {why}"),
        }
    }

    #[test]
    fn a_label_and_its_check() {
        for (line, expected) in [
            ("  - **Verify**: `cargo test csv`", "cargo|test|csv"),
            ("**Verify:** `cargo test csv` passes.", "cargo|test|csv"),
            ("- Verify: `a.sh && b.sh | c`", "sh a.sh && b.sh | c"),
            ("- **Verification**: run `make check`", "make|check"),
            ("- **Verify**: $ make check", "make|check"),
            ("- **Verify**: make check", "make|check"),
            (
                "- **Verify**: `bats tests/*.bats` exits 0 with all tests passing",
                "sh bats tests/*.bats",
            ),
            (
                "- **Verify**: `gh pr checks --watch` shows all green (or no CI configured)",
                "gh|pr|checks|--watch",
            ),
            ("- **Verify**: `grep -c a b` returns 1", "sh test \"$(grep -c a b)\" -eq 1"),
            (
                "- **Verify**: `grep -c a b` >= 3 (one per question)",
                "sh test \"$(grep -c a b)\" -ge 3",
            ),
            (
                "- **Verify**: `grep -c 'a|b' c` > 2 AND `grep -c a c | head -1` <= 4",
                "sh test \"$(grep -c 'a|b' c)\" -gt 2 && test \"$(grep -c a c | head -1)\" -le 4",
            ),
            ("- **Verify**: `grep -c a b` returns at least 2", "sh test \"$(grep -c a b)\" -ge 2"),
            ("- **Verify**: `ls a | wc -l` shows 3 files", "sh test \"$(ls a | wc -l)\" -eq 3"),
            ("- **Verify**: `grep -rn a b/` returns nothing", "sh test -z \"$(grep -rn a b/)\""),
            ("- **Verify**: `jq -r .v a` returns `3.2.0`", "sh test \"$(jq -r .v a)\" = 3.2.0"),
            (
                "- **Verify**: `grep -c a b` returns >= 1 && `test -s b`",
                "sh test \"$(grep -c a b)\" -ge 1 && test -s b",
            ),
            ("- **Verify**: `a1 || b1` and `c1`", "sh (a1 || b1\n) && c1"),
            ("- **Verify**: `[[ -f a ]] && [ -s a ]`", "bash|-c|[[ -f a ]] && [ -s a ]"),
            ("- **Verify**: `[ -f a ]`", "[|-f|a|]"),
            ("- **Verify**: `make a` or `make b`", "- it names alternatives"),
            (
                "- **Verify**: `make a` shows the new version",
                "- its expected output is described in words",
            ),
            ("- **Verify**: `/x:start test` asks", "- it names no command"),
            (
                "- **Verify**: Manual test: run `/x` on a spec",
                "- a person or the agent has to look",
            ),
            ("- **Verify**: Read the file and confirm it", "- a person or the agent has to look"),
            ("- **Verify**: All checks pass", "- it names no command"),
            ("- **Verify**: `git push && make`", "- the command changes more than it checks"),
            ("- **Verify**: `gh pr create --title a`", "- the command changes more than it checks"),
            ("- **Verify**: `make", "- it has an unclosed backtick"),
            ("- **Verify**: `make \u{202e}x`", "- its check has invisible characters"),
            ("- **Verify**: `echo 'a`", "- its check has an unclosed quote"),
            ("- **Verify**: All commands must pass:", "block"),
            ("- **Verify**:", "block"),
            ("- Verified: `make`", "none"),
            ("- Verify the parser", "none"),
        ] {
            let found =
                strip_label(line).map_or("none".to_string(), |text| shown(&parse_check_text(text)));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn a_criterion_is_a_check_only_if_it_says_the_result() {
        for (text, expected) in [
            ("`cargo test` exits 0", Some("cargo test")),
            ("Run `cargo test`: all pass", Some("cargo test")),
            ("$ make check", Some("make check")),
            ("run `go test ./...` — must pass before task 2", Some("go test ./...")),
            ("`cargo test`", None),
            ("`User` is deleted", None),
            ("Typecheck passes", None),
            ("`a` and `b` pass", None),
        ] {
            let found = parse_criterion(text).map(|check| check.command_line());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_item_that_runs_a_command_has_it_as_its_check() {
        for (text, expected) in [
            ("6.1 Run `pnpm test` and confirm all tests pass", Some("pnpm test")),
            ("Run full test suite (`npm test`)", Some("npm test")),
            ("5.11 Run `openspec validate a --strict`.", Some("openspec validate a --strict")),
            ("Run `openspec init` to verify the generation", None),
            ("Run `npm install`", None),
            ("Run `make a` and `make b`", None),
            ("Add `make test`", None),
        ] {
            let found = parse_run_item(text).map(|check| check.command_line());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn blocks_become_one_check() {
        for (block, expected) in [
            ("make a", Ok("make a")),
            ("$ make a\n# then\n\nmake b", Ok("make a && make b")),
            ("make a || exit 1\nmake b", Ok("(make a || exit 1\n) && make b")),
            ("grep -c a b  # Should return 3", Ok("test \"$(grep -c a b)\" -eq 3")),
            ("grep -c a b  # every one", Ok("grep -c a b")),
            (
                "for f in a b; do\n  test -s $f\ndone",
                Ok("set -e\nfor f in a b; do\n  test -s $f\ndone"),
            ),
            ("curl -s a \\\n  | jq -e .ok", Ok("set -e\ncurl -s a \\\n  | jq -e .ok")),
            ("# only a remark", Err("no command follows")),
            ("git add .\ngit commit -m x", Err("the command changes more than it checks")),
            ("Expected: it works", Err("it names no command")),
        ] {
            let lines: Vec<&str> = block.lines().collect();
            let found = parse_block(&lines).map(|check| check.command_line());
            assert_eq!(found.as_deref().map_err(|why| *why), expected, "{block}");
        }
    }
}
