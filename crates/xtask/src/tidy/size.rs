//! Limits the size of source files.

use super::{TidyException, TidyFile};

const MOST_LINES: usize = 500;
const WHAT: &str = "size";

const EXCEPTIONS: &[TidyException] = &[];

pub(crate) fn check_size(source: &TidyFile) -> Option<String> {
    let lines = source.split().0.lines().count();
    let is_excepted = EXCEPTIONS.iter().any(|except| except.covers(source, WHAT));
    (lines > MOST_LINES && !is_excepted).then(|| {
        format!("{}: {lines} lines without tests, at most {MOST_LINES} are allowed", source.path)
    })
}
