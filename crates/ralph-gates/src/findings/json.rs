//! One JSON document among other lines.

use serde::Deserialize;

/// So many lines that look like the beginning of a document are tried.
const MOST_TRIES: usize = 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    Empty,
    /// There is none, or none of the wanted shape.
    Garbled,
    /// It begins and does not end.
    CutOff,
}

impl Unread {
    pub(super) fn why(&self) -> &'static str {
        match self {
            Self::Empty => "the report is empty",
            Self::Garbled => "the report cannot be read",
            Self::CutOff => "the report is cut off",
        }
    }
}

/// The first document that begins a line with `open`. Tools print banners before it, and notes after it.
pub(super) fn document<'a, T: Deserialize<'a>>(text: &'a str, open: char) -> Result<T, Unread> {
    if text.trim().is_empty() {
        return Err(Unread::Empty);
    }
    let mut unread = Unread::Garbled;
    let starts = text
        .split_inclusive('\n')
        .scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some((start, line))
        })
        .filter(|(_, line)| line.trim_start().starts_with(open));
    for (start, _) in starts.take(MOST_TRIES) {
        let rest = text.get(start..).unwrap_or_default();
        match serde_json::Deserializer::from_str(rest).into_iter::<T>().next() {
            Some(Ok(document)) => return Ok(document),
            Some(Err(error)) if error.is_eof() => {
                unread = Unread::CutOff;
                // Whatever looks like another beginning lies inside of this one.
                break;
            }
            Some(Err(_)) | None => {}
        }
    }
    Err(unread)
}
