//! Rust: functions with a test attribute. Documentation tests are not counted.

use super::{FoundTest, OpenSuite, SuiteStack, TestExecution, body_after, stricter_execution};
use crate::source_text::SourceText;
use crate::word_search;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;

/// The attributes of one item.
pub(crate) struct ItemAttributes<'a> {
    /// The position of the first attribute.
    pub(crate) start: usize,
    pub(crate) item_at: usize,
    pub(crate) list: Vec<&'a str>,
}

const TEST_ATTRIBUTES: [&str; 7] =
    ["test", "rstest", "test_case", "wasm_bindgen_test", "quickcheck", "proptest", "bench"];

pub(super) fn find_rust_tests(source: &SourceText<'_>) -> Vec<FoundTest> {
    let code = &source.code;
    let attributes = find_attributes(source);
    let above = |at: usize| {
        let index = attributes.partition_point(|group| group.item_at <= at);
        let group = index.checked_sub(1).and_then(|index| attributes.get(index))?;
        let between = code.get(group.item_at..at)?;
        (between.len() < 80 && !between.contains([';', '{', '}'])).then_some(group)
    };
    let whole_file = file_execution(source);
    let mut suites = SuiteStack::default();
    let mut found = Vec::new();
    for (at, word) in
        word_search::split_words(code).filter(|(_, word)| matches!(*word, "fn" | "mod"))
    {
        let name_at = word_search::skip_space(code, at + word.len());
        let name = word_search::word_at(code, name_at);
        let Some(body) = body_after(source, name_at + name.len()) else {
            continue;
        };
        suites.leave(at);
        let group = above(at);
        let list = group.map(|group| group.list.as_slice()).unwrap_or_default();
        let own = list
            .iter()
            .map(|attribute| attribute_execution(attribute))
            .fold(TestExecution::Always, stricter_execution);
        if word == "mod" {
            suites.enter(OpenSuite { name: name.to_owned(), end: body.end, execution: own });
        } else if list.iter().any(|attribute| is_test_attribute(attribute)) {
            let expects_panic =
                list.iter().any(|attribute| attribute_path(attribute) == "should_panic");
            found.push(FoundTest {
                name: suites.qualified_name(name, "::"),
                at: name_at,
                start: group.map_or(at, |group| group.start),
                execution: stricter_execution(whole_file.clone(), suites.execution(own)),
                body,
                focused: None,
                expects_panic,
            });
        }
    }
    found
}

pub(crate) fn find_attributes<'a>(source: &SourceText<'a>) -> Vec<ItemAttributes<'a>> {
    let code = &source.code;
    let mut found: Vec<ItemAttributes<'a>> = Vec::new();
    for at in memchr::memmem::find_iter(code.as_bytes(), b"#[") {
        let Some(close) = source.brackets.close_of(at + 1) else {
            continue;
        };
        let text = source.text.get(at + 2..close).unwrap_or_default();
        let item_at = word_search::skip_space(code, close + 1);
        match found.last_mut() {
            Some(group) if group.item_at == at => {
                group.item_at = item_at;
                group.list.push(text);
            }
            // An attribute inside the arguments of another one.
            Some(group) if group.item_at > at => {}
            _ => found.push(ItemAttributes { start: at, item_at, list: Vec::from([text]) }),
        }
    }
    found
}

/// `#![cfg(any())]` at the top.
fn file_execution(source: &SourceText<'_>) -> TestExecution {
    let found = memchr::memmem::find_iter(source.code.as_bytes(), b"#![").take(50);
    found
        .filter_map(|at| source.text.get(at + 3..source.brackets.close_of(at + 2)?))
        .map(attribute_execution)
        .fold(TestExecution::Always, stricter_execution)
}

fn attribute_path(attribute: &str) -> &str {
    attribute.split(['(', '=', ' ', '\n']).next().unwrap_or_default().trim()
}

pub(crate) fn is_test_attribute(attribute: &str) -> bool {
    let path = attribute_path(attribute);
    TEST_ATTRIBUTES.contains(&path.rsplit("::").next().unwrap_or(path))
}

fn attribute_execution(attribute: &str) -> TestExecution {
    let whole = format!("#[{}]", ralph_core::text::clean_line(attribute, 60));
    match attribute_path(attribute) {
        "ignore" => TestExecution::Never("#[ignore]".to_owned()),
        "cfg_attr" if word_search::contains_word(attribute, "ignore") => {
            TestExecution::Sometimes(whole)
        }
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
                TestExecution::Never(whole)
            } else if matches!(condition.as_str(), "cfg(test)" | "cfg(not(fuzzing))") {
                TestExecution::Always
            } else {
                TestExecution::Sometimes(whole)
            }
        }
        _ => TestExecution::Always,
    }
}
