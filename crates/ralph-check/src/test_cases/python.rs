//! Python: `test…` functions as pytest and unittest collect them, at module level or in test classes.

use super::{
    FoundTest, FunctionDefinition, OpenSuite, PythonClass, SkipCalls, SuiteStack, TestExecution,
    shorten_name, stricter_execution,
};
use crate::constant_condition::constant_truth;
use crate::source_text::SourceText;
use crate::word_search;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

const PYTHON_SKIP_CALLS: [&str; 3] = ["pytest.skip(", "pytest.xfail(", "self.skipTest("];

struct PythonBlock<'a> {
    keyword: &'a str,
    name: &'a str,
    /// The rest of the line after the name.
    rest: &'a str,
    at: usize,
    body: Range<usize>,
    decorators: Vec<String>,
    /// Where the decorators begin.
    start: usize,
}

pub(super) fn find_python_tests(source: &SourceText<'_>) -> Vec<FoundTest> {
    if !source.is_test {
        return Vec::new();
    }
    let whole_file = ["pytestmark = pytest.mark.skip", "pytestmark = pytest.mark.xfail"]
        .iter()
        .find(|mark| word_search::contains_word(&source.code, mark));
    let whole_file =
        whole_file.map_or(TestExecution::Always, |mark| TestExecution::Never(String::from(*mark)));
    let mut suites = SuiteStack::default();
    // The end of the current function: nested functions are not collected.
    let mut function_end = 0;
    let opted_out: Vec<_> =
        word_search::find_word(&source.code, "__test__ = False").take(50).collect();
    let skips = SkipCalls::find(source, &PYTHON_SKIP_CALLS);
    let mut found = Vec::new();
    for block in find_blocks(source) {
        suites.leave(block.at);
        let own = block
            .decorators
            .iter()
            .map(|text| decorator_execution(text))
            .fold(TestExecution::Always, stricter_execution);
        if block.keyword == "class" {
            let opted_out = opted_out.iter().any(|at| block.body.contains(at));
            let own =
                if opted_out { TestExecution::Never("__test__ = False".to_owned()) } else { own };
            let has_bases = block.rest.trim_start().starts_with('(')
                && !block.rest.trim_start().starts_with("()");
            let own = if block.name.starts_with("Test") || has_bases {
                own
            } else {
                TestExecution::Never(format!("class {}", block.name))
            };
            suites.enter(OpenSuite {
                name: shorten_name(block.name),
                end: block.body.end,
                execution: own,
            });
            continue;
        }
        let is_inner = block.at < function_end;
        function_end = function_end.max(block.body.end);
        if is_inner || !block.name.starts_with("test") {
            continue;
        }
        let inside = skips.execution_within(&block.body);
        let running = [suites.execution(own), inside, whole_file.clone()];
        found.push(FoundTest {
            name: suites.qualified_name(block.name, "."),
            at: block.at,
            start: block.start,
            execution: running.into_iter().fold(TestExecution::Always, stricter_execution),
            body: block.body,
            focused: None,
            expects_panic: false,
        });
    }
    found
}

pub(super) fn find_python_functions<'a>(source: &'a SourceText<'_>) -> Vec<FunctionDefinition<'a>> {
    let functions = find_blocks(source).into_iter().filter(|block| block.keyword == "def");
    functions.map(|block| FunctionDefinition { name: block.name, body: block.body }).collect()
}

pub(super) fn find_python_classes<'a>(source: &'a SourceText<'_>) -> Vec<PythonClass<'a>> {
    let classes = find_blocks(source).into_iter().filter(|block| block.keyword == "class");
    let class = |block: PythonBlock<'a>| PythonClass {
        name: block.name,
        bases: block.rest,
        at: block.at,
        body: block.body,
    };
    classes.map(class).collect()
}

/// Nested functions that are not mentioned again in the outer function, and lambdas that are never used.
pub(super) fn find_uncalled_python_functions(source: &SourceText<'_>) -> Vec<Range<usize>> {
    // Each nested function is searched for in the outer one, and all searches together must stay linear.
    let mut budget = source.text.len().saturating_mul(64);
    let mut found = Vec::new();
    let mut around: Vec<PythonBlock<'_>> = Vec::new();
    for block in find_blocks(source) {
        around.retain(|outer| outer.body.end > block.at);
        if let Some(outer) = around.last()
            && outer.keyword == "def"
            && block.keyword == "def"
            && block.decorators.is_empty()
            && outer.body.len() <= budget
        {
            budget -= outer.body.len();
            if !is_mentioned(source, &outer.body, block.name, &(block.at..block.body.end)) {
                found.push(block.body.clone());
            }
        }
        around.push(block);
    }
    found.extend(find_unused_lambdas(source));
    found
}

/// Whether a name occurs `within` a range outside of its `own` definition.
fn is_mentioned(
    source: &SourceText<'_>,
    within: &Range<usize>,
    name: &str,
    own: &Range<usize>,
) -> bool {
    let code = source.code.get(within.clone()).unwrap_or_default();
    word_search::find_word(code, name).any(|at| !own.contains(&(within.start + at)))
}

/// `lambda: …` as a statement, and `check = lambda: …` if `check` occurs nowhere else.
fn find_unused_lambdas(source: &SourceText<'_>) -> Vec<Range<usize>> {
    const MOST: usize = 100;
    let whole = 0..source.code.len();
    let lines = word_search::find_word(&source.code, "lambda").take(MOST).filter_map(|at| {
        let line = source.line(source.line_of(at));
        let lead = source.code.get(line.start..at)?.trim();
        let name = lead.strip_suffix('=').map(str::trim_end);
        let is_idle = lead.is_empty() && !continues_statement(source, line.start)
            || name.is_some_and(|name| {
                !name.is_empty()
                    && name.bytes().all(word_search::is_word_byte)
                    && source
                        .code
                        .get(line.start..at)
                        .is_some_and(|lead| lead.starts_with([' ', '\t']))
                    && !is_mentioned(source, &whole, name, &line)
            });
        is_idle.then_some(line)
    });
    lines.collect()
}

/// Whether the code that begins here continues the previous statement.
fn continues_statement(source: &SourceText<'_>, at: usize) -> bool {
    let before = word_search::text_before(&source.code, at, 500).trim_end();
    before.ends_with(['(', '[', '{', ',', '=', '\\', '+', '|'])
}

fn decorator_execution(decorator: &str) -> TestExecution {
    let named = || shorten_name(decorator.split('(').next().unwrap_or_default());
    let arguments = decorator.split_once('(').map_or("", |(_, rest)| rest).trim_start();
    let name = named();
    let last = name.rsplit('.').next().unwrap_or_default();
    let condition = constant_truth(arguments.split([',', ')']).next().unwrap_or_default());
    match last.trim_start_matches('@') {
        "skip" | "xfail" | "expectedFailure" => TestExecution::Never(name),
        "skipif" | "skipIf" if condition == Some(true) => TestExecution::Never(name),
        "skipUnless" if condition == Some(false) => TestExecution::Never(name),
        // The test runs after all.
        "skipif" | "skipIf" | "skipUnless" if condition.is_some() => TestExecution::Always,
        "skipif" | "skipIf" | "skipUnless" => TestExecution::Sometimes(name),
        _ => TestExecution::Always,
    }
}

/// Every `def` and `class`, in the order of the text. A block ends before the next line that is not indented deeper.
fn find_blocks<'a>(source: &'a SourceText<'_>) -> Vec<PythonBlock<'a>> {
    let mut done = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut decorators = Vec::new();
    let mut decorated_at = None;
    let mut depth = 0_i32;
    for number in 1..=source.line_count() {
        let code = source.code_of_line(number);
        let continues = depth > 0 || source.starts_inside_literal(number);
        depth = (depth + bracket_balance(code)).max(0);
        let trimmed = code.trim_start();
        if continues || trimmed.is_empty() {
            continue;
        }
        let start = source.line(number).start;
        let margin = code.len() - trimmed.len();
        close_blocks(&mut done, &mut open, margin, start);
        if trimmed.starts_with('@') {
            let text = source.text.get(start + margin..source.line(number).end);
            decorators.push(text.unwrap_or_default().to_owned());
            decorated_at = decorated_at.or(Some(start));
            continue;
        }
        let definition = trimmed.strip_prefix("async ").unwrap_or(trimmed).trim_start();
        let keyword = word_search::word_at(definition, 0);
        let taken = core::mem::take(&mut decorators);
        let first = decorated_at.take();
        if matches!(keyword, "def" | "class") {
            let name = word_search::word_at(
                definition,
                word_search::skip_space(definition, keyword.len()),
            );
            let name_in_line =
                code.len() - definition.len() + word_search::skip_space(definition, keyword.len());
            let rest = code.get(name_in_line + name.len()..).unwrap_or_default();
            open.push((margin, done.len()));
            let body = start + name_in_line + name.len()..source.text.len();
            done.push(PythonBlock {
                keyword,
                name,
                rest,
                at: start + name_in_line,
                body,
                decorators: taken,
                start: first.unwrap_or(start),
            });
        }
    }
    done
}

fn close_blocks(
    done: &mut [PythonBlock<'_>],
    open: &mut Vec<(usize, usize)>,
    margin: usize,
    at: usize,
) {
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

fn bracket_balance(code: &str) -> i32 {
    code.bytes().fold(0, |depth, byte| match byte {
        b'(' | b'[' | b'{' => depth + 1,
        b')' | b']' | b'}' => depth - 1,
        _ => depth,
    })
}
