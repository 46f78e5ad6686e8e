//! Measures the tests on one side of a change, so that they can be compared with the other side.

use super::assertions::Assertions;
use super::cases::{self, Case, Running};
use super::language::Dialect;
use super::source::Source;
use super::words::{self, Fingerprint};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use ralph_core::requirement::Place;

/// One test.
#[derive(Debug)]
pub(crate) struct Tested<'a> {
    pub(crate) path: &'a str,
    pub(crate) dialect: Dialect,
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) running: Running,
    pub(crate) identity: Identity,
    pub(crate) assertions: usize,
    pub(crate) swallows: usize,
    pub(crate) start: Start,
}

/// Hashes that identify a test when its name changes.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// Hash of the whole body; `None` if the body is too short.
    pub(crate) body: Option<u64>,
    /// Hashes of its lines, sorted.
    pub(crate) lines: Vec<u64>,
    /// Hashes of its assertions, sorted.
    pub(crate) assertions: Vec<u64>,
}

/// How a test begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Works,
    /// With an unconditional `return`.
    Returns,
}

/// A test or suite that excludes all others.
#[derive(Debug)]
pub(crate) struct Focus<'a> {
    pub(crate) path: &'a str,
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) construct: &'static str,
}

/// All the tests on one side of a change.
#[derive(Debug, Default)]
pub(crate) struct Side<'a> {
    pub(crate) tests: Vec<Tested<'a>>,
    pub(crate) focused: Vec<Focus<'a>>,
    /// How often each assertion occurs in all files.
    pub(crate) assertions: BTreeMap<u64, usize>,
}

/// A shorter body does not identify a test.
const SHORTEST_BODY: usize = 24;

impl<'a> Side<'a> {
    pub(crate) fn add(&mut self, source: &Source<'a>) {
        let cases = cases::cases(source);
        let Some(dialect) = source.language.dialect().filter(|_| !cases.is_empty()) else {
            return;
        };
        let assertions = Assertions::of(source);
        for line in assertions.lines() {
            *self.assertions.entry(*line).or_default() += 1;
        }
        let swallowed = swallowed(source);
        // Bodies may nest, and hashing all of them must stay linear.
        let mut budget = source.text.len().saturating_mul(4);
        for case in cases {
            let place = source.place(case.at);
            if let Some(construct) = case.focused {
                let (path, name) = (source.path, case.name.clone());
                self.focused.push(Focus { path, name, place: place.clone(), construct });
            }
            let is_suite = case.focused.is_some() && case.body.is_empty();
            if !is_suite {
                let is_affordable = case.body.len() <= budget;
                budget = budget.saturating_sub(case.body.len());
                let mut identity =
                    if is_affordable { identity(source, &case.body) } else { Identity::default() };
                if is_affordable {
                    identity.assertions.extend(assertions.lines_within(&case.body));
                    identity.assertions.sort_unstable();
                }
                let within = swallowed.iter().filter(|at| case.body.contains(at)).count();
                self.tests.push(Tested {
                    path: source.path,
                    dialect,
                    place,
                    identity,
                    assertions: assertions.within(&case.body) + case.assertions_above,
                    swallows: within,
                    start: start(source, &case),
                    running: case.running,
                    name: case.name,
                });
            }
        }
    }
}

impl Tested<'_> {
    /// The name without modules, classes and suites.
    pub(crate) fn own_name(&self) -> &str {
        let separator = match self.dialect {
            Dialect::Rust => "::",
            Dialect::JavaScript => " > ",
            Dialect::Python | Dialect::Go | Dialect::Java => ".",
        };
        self.name.rsplit(separator).next().unwrap_or(&self.name)
    }
}

/// Hashes the body, without white space and comments, and each of its lines.
fn identity(source: &Source<'_>, body: &Range<usize>) -> Identity {
    let code = source.code.as_bytes().get(body.clone()).unwrap_or_default();
    let text = source.text.as_bytes().get(body.clone()).unwrap_or_default();
    let mut whole = Fingerprint::EMPTY;
    let mut length = 0;
    let mut lines = Vec::new();
    for (code, text) in code.split(|byte| *byte == b'\n').zip(text.split(|byte| *byte == b'\n')) {
        let mut line = Fingerprint::EMPTY;
        let mut of_line = 0;
        // White space in the code is white space or a comment in the text.
        for (_, byte) in code.iter().zip(text).filter(|(code, _)| !code.is_ascii_whitespace()) {
            line.add(&[*byte]);
            whole.add(&[*byte]);
            of_line += 1;
        }
        length += of_line;
        if of_line > 3 {
            lines.push(line.value());
        }
    }
    lines.sort_unstable();
    let body = (length >= SHORTEST_BODY).then(|| whole.value());
    Identity { body, lines, assertions: Vec::new() }
}

fn start(source: &Source<'_>, case: &Case) -> Start {
    let code = source.code.get(case.body.clone()).unwrap_or_default();
    let begins = match source.language.dialect() {
        Some(Dialect::Python) => {
            let mut lines = code.lines().skip(1).map(str::trim);
            // Skips the docstring and the rest of the parameters.
            lines.find(|line| !line.is_empty() && !line.starts_with(['"', ')'])).unwrap_or_default()
        }
        Some(Dialect::JavaScript) => code.split_once('{').map_or("", |(_, rest)| rest),
        Some(Dialect::Rust | Dialect::Go | Dialect::Java) | None => code,
    };
    let begins = begins.trim_start();
    let after = begins.strip_prefix("return").map(|rest| rest.trim_start_matches([' ', '\t']));
    match after {
        Some(rest) if rest.is_empty() || rest.starts_with([';', '\n', '\r', '}']) => Start::Returns,
        _ => Start::Works,
    }
}

/// The positions where failures are caught and ignored.
fn swallowed(source: &Source<'_>) -> Vec<usize> {
    const MOST: usize = 200;
    let code = &source.code;
    match source.language.dialect() {
        None => Vec::new(),
        Some(Dialect::Python) => {
            let caught = words::find_all(code, "except").take(MOST * 4).filter(|at| {
                let line = source.line_of(*at);
                let clause = source.code.get(*at..source.line(line).end).unwrap_or_default();
                let what = clause.trim_start_matches("except").trim().trim_end_matches(':');
                let broad = ["", "Exception", "BaseException", "AssertionError"];
                let broad = broad.contains(&what.split(" as ").next().unwrap_or_default().trim());
                broad
                    && matches!(
                        source.code_of_line(line + 1).trim(),
                        "pass" | "..." | "return" | "continue"
                    )
            });
            let suppressed = ["suppress(AssertionError", "suppress(Exception"];
            let suppressed = suppressed.iter().flat_map(|needle| words::find_all(code, needle));
            caught.chain(suppressed).take(MOST).collect()
        }
        Some(Dialect::JavaScript | Dialect::Java) => words::find_all(code, "catch")
            .filter(|at| drops_what_it_catches(source, at + "catch".len()))
            .take(MOST)
            .collect(),
        Some(Dialect::Go) => words::find_all(code, "recover()").take(MOST).collect(),
        Some(Dialect::Rust) => words::find_all(code, "catch_unwind(").take(MOST).collect(),
    }
}

/// `catch (e) {}`, `catch {}` or `.catch(() => {})`
fn drops_what_it_catches(source: &Source<'_>, at: usize) -> bool {
    let code = source.code.as_bytes();
    let mut next = words::skip_space(&source.code, at);
    if code.get(next) == Some(&b'(')
        && let Some(close) = source.brackets.close_of(next)
    {
        let inside = source.code.get(next + 1..close.min(next + 60)).unwrap_or_default();
        let inside: String = inside.chars().filter(|char| !char.is_whitespace()).collect();
        if inside.ends_with("=>{}") {
            return true;
        }
        next = words::skip_space(&source.code, close + 1);
    }
    code.get(next) == Some(&b'{')
        && source.brackets.close_of(next) == Some(words::skip_space(&source.code, next + 1))
}
