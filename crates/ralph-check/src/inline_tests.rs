//! Finds the parts of a Rust file that are compiled for tests only: `#[cfg(test)]` items and test functions, with the
//! blocks around them, so that they can be exchanged for those of another version of the file.

use crate::source_text::SourceText;
use crate::test_cases::rust::{ItemAttributes, find_attributes, is_test_attribute};
use crate::word_search::{skip_space, word_at};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use ralph_core::text::collapse_whitespace;

/// A file with more attributes is assumed to be generated.
const MAX_ATTRIBUTES: usize = 50_000;
const MAX_DEPTH: usize = 64;
const MAX_PARTS: usize = 5000;
/// Bounds the search for the end of an item: in hostile text each of many items could end at the end of the file.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// The test-only parts of a file, in the order of the text. No part contains another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InlineTests {
    pub parts: Vec<InlineTest>,
    /// The modules, implementations and traits of the file, which may contain parts.
    pub blocks: Vec<ItemBlock>,
    /// Whether the whole file is test-only (`#![cfg(test)]`).
    pub is_whole_file: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineTest {
    /// From the comment or attribute above it to its end, without the indentation before it.
    pub range: Range<usize>,
    /// The headers of the blocks around it, outermost first: `mod a`, `impl Parser`.
    pub parents: Vec<String>,
    /// `mod tests`, `fn parses`; for an import or an implementation its whole header.
    pub name: String,
    pub kind: InlineTestKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineTestKind {
    /// An item of a file, module, implementation or trait, for tests only.
    Item,
    /// A statement, field, match arm or item inside other code.
    Fragment,
    /// `#[cfg(any(test, …))]`: compiled for tests, but not for tests only.
    Shared,
}

/// The body of a module, implementation or trait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemBlock {
    /// The headers of the blocks around it and its own, outermost first.
    pub path: Vec<String>,
    /// The text between its braces.
    pub inner: Range<usize>,
}

/// Finds the test-only parts of a Rust file. `None` if its brackets do not match, or if it exceeds a limit that no
/// handwritten file reaches.
pub fn find_inline_tests(text: &str) -> Option<InlineTests> {
    let source = SourceText::new("a.rs", text);
    let attributes = find_attributes(&source);
    if attributes.len() > MAX_ATTRIBUTES {
        return None;
    }
    let mut found = InlineTests { is_whole_file: is_whole_file(&source), ..InlineTests::default() };
    let mut waiting = attributes.iter().filter_map(|group| Some((group, is_shared_item(group)?)));
    let mut next = waiting.next();
    let mut open: Vec<OpenBracket> = Vec::new();
    let mut statement = 0;
    for (at, byte) in source.code.bytes().enumerate() {
        while let Some((group, is_shared)) = next.filter(|(group, _)| group.start <= at) {
            if found.parts.last().is_none_or(|last| last.range.end <= group.start) {
                found.parts.push(read_part(&source, group, is_shared, &open));
                if found.parts.len() > MAX_PARTS {
                    return None;
                }
            }
            next = waiting.next();
        }
        match byte {
            b'(' | b'[' | b'{' => {
                let header = if byte == b'{' { block_header(&source, statement..at) } else { None };
                if open.len() >= MAX_DEPTH {
                    return None;
                }
                open.push(OpenBracket { byte, at, header });
            }
            b')' | b']' | b'}' => {
                let last = open.pop()?;
                if !matches!((last.byte, byte), (b'(', b')') | (b'[', b']') | (b'{', b'}')) {
                    return None;
                }
                if last.header.is_some() {
                    let path = open.iter().filter_map(|open| open.header.clone());
                    let path = path.chain(last.header).collect();
                    found.blocks.push(ItemBlock { path, inner: last.at + 1..at });
                }
            }
            _ => {}
        }
        if matches!(byte, b'{' | b'}' | b';') {
            statement = at + 1;
        }
    }
    open.is_empty().then_some(found)
}

struct OpenBracket {
    byte: u8,
    at: usize,
    /// The header of a module, an implementation or a trait.
    header: Option<String>,
}

fn is_whole_file(source: &SourceText<'_>) -> bool {
    let start = skip_space(&source.code, 0);
    source.code.get(start..).is_some_and(|rest| rest.starts_with("#![cfg(test)]"))
}

/// Whether an item that is compiled for tests is also compiled without them; `None` if it is not compiled for tests.
fn is_shared_item(group: &ItemAttributes<'_>) -> Option<bool> {
    if group.list.iter().any(|attribute| is_test_attribute(attribute)) {
        return Some(false);
    }
    let conditions = group.list.iter().filter_map(|attribute| {
        let plain: String = attribute.chars().filter(|char| !char.is_whitespace()).collect();
        let inner = plain.strip_prefix("cfg(")?.strip_suffix(')')?.to_owned();
        let names_test = inner.split([',', '(', ')']).any(|word| word == "test");
        (names_test && !inner.contains("not(test)")).then(|| inner.contains("any("))
    });
    conditions.reduce(|one, other| one && other)
}

fn block_header(source: &SourceText<'_>, range: Range<usize>) -> Option<String> {
    let mut start = skip_space(&source.code, range.start);
    while source.code.get(start..).is_some_and(|rest| rest.starts_with('#')) {
        let bracket = start + 1 + usize::from(source.code.as_bytes().get(start + 1) == Some(&b'!'));
        start = skip_space(&source.code, source.brackets.close_of(bracket)? + 1);
    }
    let header = collapse_whitespace(source.text.get(start..range.end)?);
    let words = header.split([' ', '<']);
    let first = words
        .into_iter()
        .find(|word| !word.starts_with("pub") && !matches!(*word, "unsafe" | "default" | "const"));
    matches!(first, Some("mod" | "impl" | "trait")).then_some(header)
}

fn read_part(
    source: &SourceText<'_>,
    group: &ItemAttributes<'_>,
    is_shared: bool,
    open: &[OpenBracket],
) -> InlineTest {
    let parents: Vec<String> = open.iter().filter_map(|open| open.header.clone()).collect();
    let is_among_items = open.iter().all(|open| open.header.is_some());
    let item = read_item(source, group.item_at);
    // A fragment is only compared, never moved, so the end of its line is precise enough.
    let line_end = source.line(source.line_of(group.item_at)).end;
    let (end, name) = item.clone().unwrap_or((line_end.max(group.item_at), String::new()));
    let kind = match (is_shared, is_among_items && item.is_some()) {
        (true, _) => InlineTestKind::Shared,
        (false, true) => InlineTestKind::Item,
        (false, false) => InlineTestKind::Fragment,
    };
    InlineTest { range: start_with_comments(source, group.start)..end, parents, name, kind }
}

/// The start of the comment lines directly above, which belong to the item.
fn start_with_comments(source: &SourceText<'_>, at: usize) -> usize {
    let mut number = source.line_of(at);
    let first = source.line(number);
    if !source.text.get(first.start..at).is_some_and(|before| before.trim().is_empty()) {
        return at;
    }
    let mut start = at;
    while number > 1 {
        number -= 1;
        let line = source.line(number);
        let text = source.text.get(line.clone()).unwrap_or_default();
        let trimmed = text.trim_start();
        if !trimmed.starts_with("//")
            || trimmed.starts_with("//!")
            || source.starts_inside_literal(number)
        {
            break;
        }
        start = line.start + (text.len() - trimmed.len());
    }
    start
}

/// The end and the name of the item that starts here; `None` if none does.
fn read_item(source: &SourceText<'_>, start: usize) -> Option<(usize, String)> {
    let code = &source.code;
    let mut at = start;
    loop {
        let word = word_at(code, at);
        let after = skip_space(code, at + word.len());
        match word {
            "pub" if code.as_bytes().get(after) == Some(&b'(') => {
                at = skip_space(code, source.brackets.close_of(after)? + 1);
            }
            "pub" | "unsafe" | "async" | "default" => at = after,
            "const" if matches!(word_at(code, after), "fn" | "unsafe" | "async" | "extern") => {
                at = after;
            }
            "extern" if word_at(code, after) != "crate" => {
                // In `extern "C" fn`, the content of the string is replaced with quotes.
                let rest = code.get(after..)?;
                let literal = rest.len() - rest.trim_start_matches('"').len();
                at = skip_space(code, after + literal);
            }
            "fn" | "mod" | "struct" | "enum" | "union" | "trait" | "type" | "static" | "const"
            | "macro_rules" | "use" | "impl" | "extern" => {
                return read_declaration(source, word, at, after);
            }
            "" => return None,
            _ => return read_macro_call(source, at),
        }
    }
}

fn read_declaration(
    source: &SourceText<'_>,
    keyword: &str,
    at: usize,
    after: usize,
) -> Option<(usize, String)> {
    let ends_at_semicolon = matches!(keyword, "type" | "static" | "const" | "use" | "extern");
    let mut here = after;
    let end = loop {
        if here > after + MAX_HEADER_BYTES {
            return None;
        }
        match source.code.as_bytes().get(here)? {
            b'{' if !ends_at_semicolon => break source.brackets.close_of(here)? + 1,
            b'(' | b'[' | b'{' => here = source.brackets.close_of(here)? + 1,
            b';' => break here + 1,
            b'}' | b')' | b']' => return None,
            _ => here += 1,
        }
    };
    let name = match keyword {
        "use" | "extern" => collapse_whitespace(source.text.get(at..end)?),
        "impl" => collapse_whitespace(source.text.get(at..here)?),
        "macro_rules" => {
            let name_at = skip_space(&source.code, after + 1);
            format!("macro_rules {}", word_at(&source.code, name_at))
        }
        _ => {
            let name_at = if keyword == "static" && word_at(&source.code, after) == "mut" {
                skip_space(&source.code, after + 3)
            } else {
                after
            };
            format!("{keyword} {}", word_at(&source.code, name_at))
        }
    };
    Some((end, name))
}

/// `proptest! { … }`, `thread_local!(…);`
fn read_macro_call(source: &SourceText<'_>, at: usize) -> Option<(usize, String)> {
    let rest = source.code.get(at..)?;
    let is_path = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:".contains(byte);
    let path = rest.bytes().take_while(is_path).count();
    let name = rest.get(..path)?;
    if rest.as_bytes().get(path) != Some(&b'!') {
        return None;
    }
    let open = skip_space(&source.code, at + path + 1);
    if !matches!(source.code.as_bytes().get(open), Some(b'(' | b'[' | b'{')) {
        return None;
    }
    let close = source.brackets.close_of(open)?;
    let next = skip_space(&source.code, close + 1);
    let end = if source.code.as_bytes().get(next) == Some(&b';') { next + 1 } else { close + 1 };
    Some((end, format!("{name}!")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(text: &str) -> String {
        let Some(found) = find_inline_tests(text) else {
            return "brackets do not match".to_owned();
        };
        let parts = found.parts.iter().map(|part| {
            let body = text.get(part.range.clone()).unwrap_or_default();
            let lines = body.lines().count();
            format!(
                "{:?} {} in [{}], {lines} lines\n",
                part.kind,
                part.name,
                part.parents.join(", ")
            )
        });
        parts.collect()
    }

    #[test]
    fn items_for_tests_are_found_with_their_extent() {
        let text = r##"//! Header.
use std::fmt;
#[cfg(test)]
use std::{io, fs};

/// Doc.
#[cfg(all(test, unix))]
pub(crate) const fn helper() -> [u8; 2] { [b'{', b'}'] }

#[cfg(test)]
const X: &str = "}";
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(not(test))]
fn real() {}
#[cfg(feature = "test")]
fn also_real() {}

impl Parser {
    #[cfg(test)]
    fn peek(&self) -> u8 { 0 }
    fn next(&self) {
        #[cfg(test)]
        let x = 1;
    }
}

mod inner {
    #[tokio::test]
    #[ignore]
    async fn top() {}
    #[cfg(test)]
    impl fmt::Debug for Parser { fn f() {} }
}

#[cfg(test)]
proptest::proptest! { #[test] fn law(x in 0..3) {} }

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;

#[cfg(test)]
mod more {
    #[test]
    fn one() { assert_eq!(r"#[cfg(test)]", "{"); }
}
"##;
        insta::assert_snapshot!(describe(text), @"
        Item use std::{io, fs}; in [], 2 lines
        Item fn helper in [], 3 lines
        Item const X in [], 2 lines
        Shared mod testing in [], 2 lines
        Item fn peek in [impl Parser], 2 lines
        Fragment  in [impl Parser], 2 lines
        Item fn top in [mod inner], 3 lines
        Item impl fmt::Debug for Parser in [mod inner], 2 lines
        Item proptest::proptest! in [], 2 lines
        Item mod tests in [], 3 lines
        Item mod more in [], 5 lines
        ");
    }

    #[test]
    fn hostile_text_takes_bounded_time() {
        for piece in
            ["#[test]fn ", "#[test]\nfn ", "#[test]\na::b ", "#[cfg(test)]\n", "impl ", "#[x] {"]
        {
            find_inline_tests(&piece.repeat(200_000 / piece.len()));
        }
    }

    #[test]
    fn unusual_texts_are_not_errors() {
        for (text, expected) in [
            ("", ""),
            ("#[cfg(test)]", "Fragment  in [], 1 lines\n"),
            ("#[cfg(test)] }", "brackets do not match"),
            ("fn a( {", "brackets do not match"),
            ("fn a() { ) }", "brackets do not match"),
            ("struct A { #[cfg(test)] b: u8 }", "Fragment  in [], 1 lines\n"),
            ("#[test] fn", "Fragment  in [], 1 lines\n"),
        ] {
            assert_eq!(describe(text), expected, "{text}");
        }
        assert!(
            find_inline_tests("#![cfg(test)]\nfn a() {}").is_some_and(|found| found.is_whole_file)
        );
    }
}
