//! Python: `test…` functions as pytest and unittest collect them, at module level or in test classes.

use super::{Case, Class, Definition, Running, Skips, Suite, Suites, short, stricter};
use crate::source::Source;
use crate::words;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

const SKIPS: [&str; 3] = ["pytest.skip(", "pytest.xfail(", "self.skipTest("];

struct Block<'a> {
    keyword: &'a str,
    name: &'a str,
    /// The rest of the line after the name.
    rest: &'a str,
    at: usize,
    body: Range<usize>,
    decorators: Vec<String>,
}

pub(super) fn cases(source: &Source<'_>) -> Vec<Case> {
    if !source.is_test {
        return Vec::new();
    }
    let whole_file = ["pytestmark = pytest.mark.skip", "pytestmark = pytest.mark.xfail"]
        .iter()
        .find(|mark| words::contains(&source.code, mark));
    let whole_file = whole_file.map_or(Running::Always, |mark| Running::Never(String::from(*mark)));
    let mut suites = Suites::default();
    // The end of the current function: nested functions are not collected.
    let mut function_end = 0;
    let opted_out: Vec<_> = words::find_all(&source.code, "__test__ = False").take(50).collect();
    let skips = Skips::find(source, &SKIPS);
    let mut found = Vec::new();
    for block in blocks(source) {
        suites.leave(block.at);
        let own =
            block.decorators.iter().map(|text| decorated(text)).fold(Running::Always, stricter);
        if block.keyword == "class" {
            let opted_out = opted_out.iter().any(|at| block.body.contains(at));
            let own = if opted_out { Running::Never("__test__ = False".to_owned()) } else { own };
            let has_bases = block.rest.trim_start().starts_with('(')
                && !block.rest.trim_start().starts_with("()");
            let own = if block.name.starts_with("Test") || has_bases {
                own
            } else {
                Running::Never(format!("class {}", block.name))
            };
            suites.enter(Suite { name: short(block.name), end: block.body.end, running: own });
            continue;
        }
        let is_inner = block.at < function_end;
        function_end = function_end.max(block.body.end);
        if is_inner || !block.name.starts_with("test") {
            continue;
        }
        let inside = skips.inside(&block.body);
        let running = [suites.running(own), inside, whole_file.clone()];
        found.push(Case {
            name: suites.name(block.name, "."),
            at: block.at,
            running: running.into_iter().fold(Running::Always, stricter),
            body: block.body,
            focused: None,
            assertions_above: 0,
        });
    }
    found
}

pub(super) fn definitions<'a>(source: &'a Source<'_>) -> Vec<Definition<'a>> {
    let functions = blocks(source).into_iter().filter(|block| block.keyword == "def");
    functions.map(|block| Definition { name: block.name, body: block.body }).collect()
}

pub(super) fn classes<'a>(source: &'a Source<'_>) -> Vec<Class<'a>> {
    let classes = blocks(source).into_iter().filter(|block| block.keyword == "class");
    let class = |block: Block<'a>| Class {
        name: block.name,
        bases: block.rest,
        at: block.at,
        body: block.body,
    };
    classes.map(class).collect()
}

/// Nested functions that are not mentioned again in the outer function, and lambdas that are never used.
pub(super) fn uncalled(source: &Source<'_>) -> Vec<Range<usize>> {
    // Each nested function is searched for in the outer one, and all searches together must stay linear.
    let mut budget = source.text.len().saturating_mul(64);
    let mut found = Vec::new();
    let mut around: Vec<Block<'_>> = Vec::new();
    for block in blocks(source) {
        around.retain(|outer| outer.body.end > block.at);
        if let Some(outer) = around.last()
            && outer.keyword == "def"
            && block.keyword == "def"
            && block.decorators.is_empty()
            && outer.body.len() <= budget
        {
            budget -= outer.body.len();
            if !is_named(source, &outer.body, block.name, &(block.at..block.body.end)) {
                found.push(block.body.clone());
            }
        }
        around.push(block);
    }
    found.extend(idle_lambdas(source));
    found
}

/// Whether a name occurs `within` a range outside of its `own` definition.
fn is_named(source: &Source<'_>, within: &Range<usize>, name: &str, own: &Range<usize>) -> bool {
    let code = source.code.get(within.clone()).unwrap_or_default();
    words::find_all(code, name).any(|at| !own.contains(&(within.start + at)))
}

/// `lambda: …` as a statement, and `check = lambda: …` if `check` occurs nowhere else.
fn idle_lambdas(source: &Source<'_>) -> Vec<Range<usize>> {
    const MOST: usize = 100;
    let whole = 0..source.code.len();
    let lines = words::find_all(&source.code, "lambda").take(MOST).filter_map(|at| {
        let line = source.line(source.line_of(at));
        let lead = source.code.get(line.start..at)?.trim();
        let name = lead.strip_suffix('=').map(str::trim_end);
        let is_idle = lead.is_empty() && !goes_on(source, line.start)
            || name.is_some_and(|name| {
                !name.is_empty()
                    && name.bytes().all(words::is_word_byte)
                    && source
                        .code
                        .get(line.start..at)
                        .is_some_and(|lead| lead.starts_with([' ', '\t']))
                    && !is_named(source, &whole, name, &line)
            });
        is_idle.then_some(line)
    });
    lines.collect()
}

/// Whether the code that begins here continues the previous statement.
fn goes_on(source: &Source<'_>, at: usize) -> bool {
    let before = words::tail(&source.code, at, 500).trim_end();
    before.ends_with(['(', '[', '{', ',', '=', '\\', '+', '|'])
}

fn decorated(decorator: &str) -> Running {
    let named = || short(decorator.split('(').next().unwrap_or_default());
    let arguments = decorator.split_once('(').map_or("", |(_, rest)| rest).trim_start();
    let name = named();
    let last = name.rsplit('.').next().unwrap_or_default();
    match last.trim_start_matches('@') {
        "skip" | "xfail" | "expectedFailure" => Running::Never(name),
        "skipif" | "skipIf" if arguments.starts_with("True") || arguments.starts_with("1,") => {
            Running::Never(name)
        }
        "skipUnless" if arguments.starts_with("False") => Running::Never(name),
        "skipif" | "skipIf" | "skipUnless" => Running::Sometimes(name),
        _ => Running::Always,
    }
}

/// Every `def` and `class`, in the order of the text. A block ends before the next line that is not indented deeper.
fn blocks<'a>(source: &'a Source<'_>) -> Vec<Block<'a>> {
    let mut done = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut decorators = Vec::new();
    let mut depth = 0_i32;
    for number in 1..=source.line_count() {
        let code = source.code_of_line(number);
        let continues = depth > 0 || source.begins_inside(number);
        depth = (depth + balance(code)).max(0);
        let trimmed = code.trim_start();
        if continues || trimmed.is_empty() {
            continue;
        }
        let start = source.line(number).start;
        let margin = code.len() - trimmed.len();
        close(&mut done, &mut open, margin, start);
        if trimmed.starts_with('@') {
            let text = source.text.get(start + margin..source.line(number).end);
            decorators.push(text.unwrap_or_default().to_owned());
            continue;
        }
        let definition = trimmed.strip_prefix("async ").unwrap_or(trimmed).trim_start();
        let keyword = words::word_at(definition, 0);
        let taken = core::mem::take(&mut decorators);
        if matches!(keyword, "def" | "class") {
            let name = words::word_at(definition, words::skip_space(definition, keyword.len()));
            let name_in_line =
                code.len() - definition.len() + words::skip_space(definition, keyword.len());
            let rest = code.get(name_in_line + name.len()..).unwrap_or_default();
            open.push((margin, done.len()));
            let body = start + name_in_line + name.len()..source.text.len();
            done.push(Block {
                keyword,
                name,
                rest,
                at: start + name_in_line,
                body,
                decorators: taken,
            });
        }
    }
    done
}

fn close(done: &mut [Block<'_>], open: &mut Vec<(usize, usize)>, margin: usize, at: usize) {
    while let Some((own, index)) = open.last().copied() {
        if own < margin {
            return;
        }
        if let Some(block) = done.get_mut(index) {
            block.body.end = at.max(block.body.start);
        }
        open.pop();
    }
}

fn balance(code: &str) -> i32 {
    code.bytes().fold(0, |depth, byte| match byte {
        b'(' | b'[' | b'{' => depth + 1,
        b')' | b']' | b'}' => depth - 1,
        _ => depth,
    })
}
