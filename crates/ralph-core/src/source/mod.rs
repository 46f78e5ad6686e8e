//! Readers of files that other tools and agents write. The bytes are untrusted: each reader returns a value or one line
//! that explains why it cannot. The values are then converted to requirements.

use crate::requirement::Finding;
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub mod checklist;
pub mod client_tasks;
pub mod code_fence;
pub mod feature_list;
pub mod item_check;
pub mod lenient_json;
pub mod loop_file;
pub mod orchestrator;
pub mod progress_file;
pub mod quality_gate;
pub mod state_tasks;
pub mod work_list;

const MAX_WHY_CHARS: usize = 160;
const MAX_FINDING_CHARS: usize = 2_000;
const MAX_FINDINGS: usize = 50;

/// Why a file could not be read. Its requirements are then unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    /// One cleaned line: `line 3, column 5: expected value`.
    pub why: String,
}

impl SourceError {
    pub fn new(why: &str) -> Self {
        Self { why: text::clean_line(why, MAX_WHY_CHARS) }
    }
}

impl From<serde_json::Error> for SourceError {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        match message.strip_suffix(&format!(" at line {line} column {column}")) {
            Some(cause) => Self::new(&format!("line {line}, column {column}: {cause}")),
            None => Self::new(&message),
        }
    }
}

fn to_findings<Message: AsRef<str>>(messages: impl IntoIterator<Item = Message>) -> Vec<Finding> {
    messages
        .into_iter()
        .take(MAX_FINDINGS)
        .map(|message| Finding::new(text::clean_line(message.as_ref(), MAX_FINDING_CHARS)))
        .collect()
}

/// `1 of 5 items is`, `2 of 5 items are`: the start of a sentence about the items that are not done.
fn count_of_total(part: usize, whole: usize, noun: &str) -> String {
    let verb = if part == 1 { "is" } else { "are" };
    format!("{part} of {} {verb}", text::count_noun(whole, noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> [Option<SourceError>; 5] {
        [
            orchestrator::read_orchestrator(bytes).err(),
            loop_file::read_loop_file(bytes).err(),
            quality_gate::read_quality_gate(bytes).err(),
            state_tasks::read_task(bytes).err(),
            feature_list::read_features(bytes).err(),
        ]
    }

    #[test]
    fn every_reader_rejects_invalid_json() {
        let deep_list = b"[".repeat(1_000_000);
        let deep_object = br#"{"a":"#.repeat(1_000_000);
        for (bytes, why) in [
            (&b""[..], "it is empty"),
            (b" \r\n\t", "it is empty"),
            (b"\xef\xbb\xbf", "it is empty"),
            (b"{", "line 1, column 1: EOF while parsing an object"),
            (b"{\n  \"a\": ?}", "line 2, column 8: expected value"),
            (b"{\"a\": NaN}", "line 1, column 7: expected value"),
            (b"{\"a\": -Infinity}", "line 1, column 8: invalid number"),
            (b"{} {}", "line 1, column 4: trailing characters"),
            (b"{'a': 1}", "line 1, column 2: key must be a string"),
            (b"{\"a\": 1,}", "line 1, column 9: trailing comma"),
            (b"\xff\xfe{\0}\0", "line 1, column 1: expected value"),
            (b"42", "the file is a number, not an object"),
            (b"null", "the file is null, not an object"),
            (b"true", "the file is true, not an object"),
            (b"\"{}\"", "the file is a string, not an object"),
            (&deep_object, "line 1, column 5000000: EOF while parsing a value"),
        ] {
            for found in read_all(bytes) {
                let shown = found.unwrap().why.replace("an object or a list", "an object");
                assert_eq!(shown, why, "{:?}", &bytes[..bytes.len().min(40)]);
            }
        }
        for found in read_all(&deep_list) {
            assert!(found.is_some());
        }
    }

    #[test]
    fn extra_keys_and_a_byte_order_mark_are_accepted() {
        let deep =
            [&b"{\"deep\":"[..], &b"[".repeat(100_000), &b"]".repeat(100_000), b"}"].concat();
        for bytes in [
            &b"{}"[..],
            b"\xef\xbb\xbf{}",
            b" {} \n",
            br#"{"extra": {"passes": 1}, "more": [1e999, -1, "\ud800"]}"#,
            b"{\"binary\": \"\xff\xfe\"}",
            br#"{"huge": 99999999999999999999999999999999999999999999}"#,
            &deep,
        ] {
            assert_eq!(read_all(bytes), [const { None }; 5], "{:?}", &bytes[..bytes.len().min(40)]);
        }
    }

    #[test]
    fn no_truncated_or_corrupted_file_panics() {
        let good = br#"{"phase":"a","verified_done":true,"conditions":{"memory_search":null},"iteration":3,
            "stages":{"quality":{"status":"failed","details":"x"}},"last_result":"failed","status":"pending",
            "features":[{"id":4,"description":"d","steps":["s",1],"passes":false}],"subject":"\u00e4"}"#;
        for length in 0..good.len() {
            for found in read_all(&good[..length]) {
                assert!(found.is_some(), "{length}");
            }
            for byte in [0, b'"', b'[', b'}', b'9', 0xff] {
                let mut changed = good.to_vec();
                changed[length] = byte;
                for found in read_all(&changed).into_iter().flatten() {
                    assert!(found.why.chars().count() <= MAX_WHY_CHARS);
                }
            }
        }
    }
}
