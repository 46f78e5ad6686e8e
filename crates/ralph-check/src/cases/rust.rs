//! Rust: functions with a test attribute. Documentation tests are not counted.

use super::{Case, Running, Suite, Suites, body_after, stricter};
use crate::source::Source;
use crate::words;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;

/// The attributes of one item.
struct Attributes<'a> {
    item_at: usize,
    list: Vec<&'a str>,
}

const TESTS: [&str; 7] =
    ["test", "rstest", "test_case", "wasm_bindgen_test", "quickcheck", "proptest", "bench"];

pub(super) fn cases(source: &Source<'_>) -> Vec<Case> {
    let code = &source.code;
    let attributes = attributes(source);
    let above = |at: usize| {
        let index = attributes.partition_point(|group| group.item_at <= at);
        let group = index.checked_sub(1).and_then(|index| attributes.get(index))?;
        let between = code.get(group.item_at..at)?;
        (between.len() < 80 && !between.contains([';', '{', '}'])).then_some(&group.list)
    };
    let whole_file = attributes_of_file(source);
    let mut suites = Suites::default();
    let mut found = Vec::new();
    for (at, word) in words::words(code).filter(|(_, word)| matches!(*word, "fn" | "mod")) {
        let name_at = words::skip_space(code, at + word.len());
        let name = words::word_at(code, name_at);
        let Some(body) = body_after(source, name_at + name.len()) else {
            continue;
        };
        suites.leave(at);
        let list = above(at).map(Vec::as_slice).unwrap_or_default();
        let own = list.iter().map(|attribute| running(attribute)).fold(Running::Always, stricter);
        if word == "mod" {
            suites.enter(Suite { name: name.to_owned(), end: body.end, running: own });
        } else if list.iter().any(|attribute| is_test(attribute)) {
            let above = list.iter().filter(|attribute| counts(attribute)).count();
            found.push(Case {
                name: suites.name(name, "::"),
                at: name_at,
                running: stricter(whole_file.clone(), suites.running(own)),
                body,
                focused: None,
                assertions_above: above,
            });
        }
    }
    found
}

fn attributes<'a>(source: &Source<'a>) -> Vec<Attributes<'a>> {
    let code = &source.code;
    let mut found: Vec<Attributes<'a>> = Vec::new();
    for at in memchr::memmem::find_iter(code.as_bytes(), b"#[") {
        let Some(close) = source.brackets.close_of(at + 1) else {
            continue;
        };
        let text = source.text.get(at + 2..close).unwrap_or_default();
        let item_at = words::skip_space(code, close + 1);
        match found.last_mut() {
            Some(group) if group.item_at == at => {
                group.item_at = item_at;
                group.list.push(text);
            }
            // An attribute inside the arguments of another one.
            Some(group) if group.item_at > at => {}
            _ => found.push(Attributes { item_at, list: Vec::from([text]) }),
        }
    }
    found
}

/// `#![cfg(any())]` at the top.
fn attributes_of_file(source: &Source<'_>) -> Running {
    let found = memchr::memmem::find_iter(source.code.as_bytes(), b"#![").take(50);
    found
        .filter_map(|at| source.text.get(at + 3..source.brackets.close_of(at + 2)?))
        .map(running)
        .fold(Running::Always, stricter)
}

fn path(attribute: &str) -> &str {
    attribute.split(['(', '=', ' ', '\n']).next().unwrap_or_default().trim()
}

fn is_test(attribute: &str) -> bool {
    let path = path(attribute);
    TESTS.contains(&path.rsplit("::").next().unwrap_or(path))
}

/// Whether the attribute counts as an assertion: `#[should_panic]`, and each case of a parametrised test.
fn counts(attribute: &str) -> bool {
    matches!(path(attribute).split("::").next(), Some("should_panic" | "case" | "test_case"))
}

fn running(attribute: &str) -> Running {
    let whole = format!("#[{}]", ralph_core::text::line(attribute, 60));
    match path(attribute) {
        "ignore" => Running::Never("#[ignore]".to_owned()),
        "cfg_attr" if words::contains(attribute, "ignore") => Running::Sometimes(whole),
        "cfg" => {
            let condition: alloc::string::String =
                attribute.chars().filter(|char| !char.is_whitespace()).collect();
            let names_nothing = ["any()", "not(test)", "not(all())", "FALSE", "false"]
                .iter()
                .any(|nothing| condition.contains(nothing));
            let feature = condition.split("feature=\"").nth(1).unwrap_or_default();
            let is_unlikely = ["never", "disabled", "broken", "skip", "ignored", "off", "none"]
                .iter()
                .any(|word| feature.starts_with(word));
            if names_nothing || is_unlikely {
                Running::Never(whole)
            } else if matches!(condition.as_str(), "cfg(test)" | "cfg(not(fuzzing))") {
                Running::Always
            } else {
                Running::Sometimes(whole)
            }
        }
        _ => Running::Always,
    }
}
