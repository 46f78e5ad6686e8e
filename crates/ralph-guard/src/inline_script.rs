//! Short programs in other languages, passed on the command line or as a here-document. Detects calls that write to a
//! guarded file, whose name is given literally or by a variable that was assigned it.

use super::DeniedCall;
use super::git_command::judge_patch;
use super::guarded_path::PathUse;
use super::script_walk::ShellState;
use super::simple_command::{ShellCommand, argument_after_option};
use super::word_expansion::{ShellValues, WordSpelling};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The most string literals to examine. A program with more is not a one-liner.
const MAX_LITERALS: usize = 2048;

/// How many bytes around a name are searched for its call.
const CALL_SEARCH_BYTES: usize = 512;

pub(super) fn judge_interpreter(
    program: &str,
    command: &ShellCommand<'_>,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let args = command.args.get(1..).unwrap_or_default();
    let option = match program {
        "patch" => return judge_patch(command.input.as_deref()?, shell, program),
        "apply_patch" => {
            let given = args.first().map(|arg| arg.text.as_str());
            return judge_patch(command.input.as_deref().or(given)?, shell, program);
        }
        "deno" if args.first().is_some_and(|arg| arg.text == "eval") => {
            return judge_inline_script(&args.get(1)?.text, program, shell);
        }
        "perl" | "ruby" | "node" | "bun" | "lua" => 'e',
        "php" => 'r',
        "awk" | "gawk" => {
            let script = args.iter().find(|arg| !arg.text.starts_with('-'))?;
            return judge_inline_script(&script.text, program, shell);
        }
        _ if program.starts_with("python") => 'c',
        _ => return None,
    };
    let is_fed = args.iter().all(|arg| arg.text.starts_with('-'));
    let script = argument_after_option(args, option)
        .or_else(|| command.input.as_deref().filter(|_| is_fed))?;
    judge_inline_script(script, program, shell)
}

/// A string literal of the program and its position, including the quotes.
struct ScriptStringLiteral<'a> {
    text: &'a str,
    from: usize,
    to: usize,
}

fn judge_inline_script(script: &str, program: &str, shell: &ShellState<'_>) -> Option<DeniedCall> {
    let is_homely = ["home", "HOME", "expanduser"].iter().any(|word| script.contains(word));
    for literal in string_literals(script) {
        let before = script.get(..literal.from).unwrap_or_default();
        let calls = enclosing_calls(before);
        if calls.iter().any(|call| RUNNING_CALLS.contains(&method_name(call)))
            && let Some(found) = shell.judge_nested_script(literal.text)
        {
            return Some(found);
        }
        let Some(found) = objection_to_write(literal.text, is_homely, program, shell) else {
            continue;
        };
        // `print > "file"`. Within brackets `>` is a comparison.
        let is_redirected =
            program.ends_with("awk") && calls.len() == 1 && before.trim_end().ends_with('>');
        if is_redirected
            || literal.text.starts_with('>')
            || is_written(script, literal.from, literal.to)
        {
            return Some(found);
        }
        let Some(name) = assigned_variable(before) else { continue };
        let uses = script.match_indices(name).map(|(at, _)| (at, at + name.len()));
        let mut uses = uses
            .filter(|(from, to)| *from > literal.to && is_whole_name(script, *from, *to))
            .take(64);
        if uses.any(|(from, to)| is_written(script, from, to)) {
            return Some(found);
        }
    }
    None
}

/// The objection to writing to the file that this string names.
fn objection_to_write(
    literal: &str,
    is_homely: bool,
    program: &str,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let path = literal.trim_start_matches('>').trim();
    if path.is_empty() || path.contains('\n') || path.len() > CALL_SEARCH_BYTES {
        return None;
    }
    let home = shell.home_of("");
    let mut spellings = Vec::new();
    if let (Some(rest), Some(home)) = (path.strip_prefix('~'), &home) {
        spellings.push(WordSpelling::literal(&format!("{home}{rest}")));
    } else {
        spellings.push(WordSpelling::literal(path));
        // `os.path.join(home, ".ralph", …)`
        let relative = path.trim_start_matches('/');
        if let Some(home) = home.filter(|_| is_homely && relative.starts_with('.')) {
            spellings.push(WordSpelling::literal(&format!("{home}/{relative}")));
        }
    }
    shell.objection(PathUse::Write, &spellings, program)
}

fn string_literals(script: &str) -> impl Iterator<Item = ScriptStringLiteral<'_>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let rest = script.get(at..)?;
        let from = at + rest.find(['"', '\'', '`'])?;
        let quote = script.get(from..=from)?;
        let inside = script.get(from + 1..)?;
        let end = inside.match_indices(quote).map(|(end, _)| end).find(|end| {
            let escapes = inside.as_bytes().get(..*end).unwrap_or_default().iter().rev();
            escapes.take_while(|byte| **byte == b'\\').count() % 2 == 0
        })?;
        at = from + end + 2;
        Some(ScriptStringLiteral { text: inside.get(..end)?, from, to: at })
    })
    .take(MAX_LITERALS)
}

fn is_name_char(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '.' | ':')
}

/// The names of the calls whose brackets are open at the end of `before`, innermost first.
fn enclosing_calls(before: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut depth = 0_usize;
    let from = before.len().saturating_sub(CALL_SEARCH_BYTES);
    let from =
        (from..=before.len()).find(|from| before.is_char_boundary(*from)).unwrap_or(before.len());
    let text = before.get(from..).unwrap_or_default();
    // `unlink "x"`, without brackets.
    out.push(last_name(text.trim_end()));
    for (at, char) in text.char_indices().rev() {
        match char {
            ')' | ']' => depth += 1,
            '(' | '[' if depth > 0 => depth -= 1,
            '(' | '[' => out.push(last_name(text.get(..at).unwrap_or_default().trim_end())),
            '\n' | ';' if depth == 0 => break,
            _ => {}
        }
    }
    out
}

fn last_name(text: &str) -> &str {
    let from = text.trim_end_matches(is_name_char).len();
    text.get(from..).unwrap_or_default()
}

fn method_name(name: &str) -> &str {
    name.rsplit(['.', ':']).next().unwrap_or_default()
}

/// Functions that run a shell command.
const RUNNING_CALLS: [&str; 8] =
    ["system", "run", "call", "check_call", "check_output", "Popen", "exec", "execSync"];

/// Functions that change the file that one of their arguments names.
const WRITING_CALLS: [&str; 20] = [
    "remove",
    "unlink",
    "rmtree",
    "rmdir",
    "rename",
    "move",
    "truncate",
    "chmod",
    "mkdir",
    "makedirs",
    "touch",
    "rmSync",
    "unlinkSync",
    "renameSync",
    "writeFile",
    "writeFileSync",
    "writeTextFile",
    "writeTextFileSync",
    "appendFileSync",
    "file_put_contents",
];

/// Whether the text at this position is an argument of a call that writes, or such a method is called on it.
fn is_written(script: &str, from: usize, to: usize) -> bool {
    let before = script.get(..from).unwrap_or_default();
    let after = script.get(to..).unwrap_or_default();
    let calls = enclosing_calls(before);
    let writes = |call: &&str| *call == "File.write" || WRITING_CALLS.contains(&method_name(call));
    if calls.iter().any(writes) {
        return true;
    }
    let after: String = after
        .chars()
        .take(CALL_SEARCH_BYTES)
        .take_while(|char| !matches!(char, '\n' | ';'))
        .collect();
    let opens = calls.iter().any(|call| method_name(call) == "open");
    opens && has_write_mode(before, &after) || has_write_method(&after)
}

/// Whether a file mode for writing follows the name, as in `, "w")`, or precedes it, as in `">", `.
fn has_write_mode(before: &str, after: &str) -> bool {
    let end = after.find(')').unwrap_or(after.len());
    // The brackets of `expanduser(…)` close before the mode.
    let rest = after.get(
        ..end + 1 + after.get(end + 1..).map_or(0, |rest| rest.find(')').unwrap_or(rest.len())),
    );
    let rest = rest.unwrap_or(after);
    let modes = ["\"w", "'w", "\"a", "'a"];
    let is_mode = |mark: &str| {
        rest.match_indices(mark).any(|(at, _)| {
            let tail = rest.get(at + mark.len()..).unwrap_or_default();
            let lead = rest.get(..at).unwrap_or_default().trim_end();
            tail.trim_start_matches(['b', 't', '+']).starts_with(['"', '\''])
                && lead.ends_with([',', '='])
        })
    };
    modes.iter().any(|mark| is_mode(mark)) || {
        let lead = before.trim_end().trim_end_matches(',').trim_end();
        [">'", ">\""].iter().any(|mark| lead.ends_with(mark))
    }
}

/// Whether a method such as `.write_text(` follows the name, or a path that begins with it: `home / ".ralph" / "off"`.
fn has_write_method(after: &str) -> bool {
    let mut chain = after.trim_start_matches([')', ' ']);
    while let Some(next) = chain.strip_prefix('/') {
        let Some((_, rest)) = next.trim_start_matches([' ', '"', '\'']).split_once(['"', '\''])
        else {
            break;
        };
        chain = rest.trim_start_matches([')', ' ']);
    }
    let Some(chain) = chain.strip_prefix('.') else { return false };
    let name: String =
        chain.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
    ["write_text", "write_bytes", "unlink", "touch", "rename", "mkdir", "rmdir"]
        .contains(&name.as_str())
}

/// The variable that the string after `before` is assigned to.
fn assigned_variable(before: &str) -> Option<&str> {
    let line = before.rsplit(['\n', ';']).next().unwrap_or_default();
    let (left, right) = line.split_once('=')?;
    if right.starts_with(['=', '>', '~']) {
        return None;
    }
    let left = left.trim_end();
    let name = last_name(left);
    let is_variable =
        !name.is_empty() && name.chars().all(|char| char.is_alphanumeric() || char == '_');
    is_variable.then_some(name)
}

fn is_whole_name(script: &str, from: usize, to: usize) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || char == '_';
    let before = script.get(..from).and_then(|text| text.chars().next_back());
    let after = script.get(to..).and_then(|text| text.chars().next());
    !before.is_some_and(is_part) && !after.is_some_and(is_part)
}
