//! Finds and parses one JSON document among other lines.

use serde::Deserialize;

/// How many lines that look like the start of a document are tried.
const MAX_ATTEMPTS: usize = 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum JsonDocumentError {
    Empty,
    /// There is no document, or none of the expected form.
    Invalid,
    /// The document starts but does not end.
    Truncated,
}

impl JsonDocumentError {
    pub(super) fn doubt(&self) -> &'static str {
        match self {
            Self::Empty => "the report is empty",
            Self::Invalid => "the report cannot be parsed",
            Self::Truncated => "the report is truncated",
        }
    }
}

/// Parses the first document that starts with `open` at the beginning of a line. Tools print banners before and notes
/// after it.
pub(super) fn parse_document<'a, T: Deserialize<'a>>(
    text: &'a str,
    open: char,
) -> Result<T, JsonDocumentError> {
    if text.trim().is_empty() {
        return Err(JsonDocumentError::Empty);
    }
    let mut unread = JsonDocumentError::Invalid;
    let starts = text
        .split_inclusive('\n')
        .scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some((start, line))
        })
        .filter(|(_, line)| line.trim_start().starts_with(open));
    for (start, _) in starts.take(MAX_ATTEMPTS) {
        let rest = text.get(start..).unwrap_or_default();
        match serde_json::Deserializer::from_str(rest).into_iter::<T>().next() {
            Some(Ok(document)) => return Ok(document),
            Some(Err(error)) if error.is_eof() => {
                unread = JsonDocumentError::Truncated;
                // Any later start would be inside this document.
                break;
            }
            Some(Err(_)) | None => {}
        }
    }
    Err(unread)
}
