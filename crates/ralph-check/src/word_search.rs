//! Finds words and matching brackets in text.

use alloc::vec::Vec;
use memchr::memmem;

pub(crate) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The positions of `needle` where it is not part of a longer word.
pub(crate) fn find_word<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    memmem::find_iter(text.as_bytes(), needle.as_bytes())
        .filter(move |at| is_bounded(text, *at, needle))
}

pub(crate) fn contains_word(text: &str, needle: &str) -> bool {
    find_word(text, needle).next().is_some()
}

fn is_bounded(text: &str, at: usize, needle: &str) -> bool {
    let bytes = text.as_bytes();
    let joins = |inner: Option<&u8>, outer: Option<&u8>| match (inner, outer) {
        (Some(inner), Some(outer)) => is_word_byte(*inner) && is_word_byte(*outer),
        _ => false,
    };
    let before = at.checked_sub(1).and_then(|at| bytes.get(at));
    let after = bytes.get(at + needle.len());
    !joins(needle.as_bytes().first(), before) && !joins(needle.as_bytes().last(), after)
}

/// Each word and where it starts.
pub(crate) fn split_words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let bytes = text.as_bytes();
        while bytes.get(at).is_some_and(|byte| !is_word_byte(*byte)) {
            at += 1;
        }
        let start = at;
        while bytes.get(at).is_some_and(|byte| is_word_byte(*byte)) {
            at += 1;
        }
        (start < at).then(|| (start, text.get(start..at).unwrap_or_default()))
    })
}

pub(crate) fn word_at(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    let length = rest.bytes().take_while(|byte| is_word_byte(*byte)).count();
    rest.get(..length).unwrap_or_default()
}

/// At most `most` bytes from `at`. Bounds every look ahead: in a file of one line, unbounded ones would be quadratic.
pub(crate) fn text_from(text: &str, at: usize, most: usize) -> &str {
    let mut end = at.saturating_add(most).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(at..end).unwrap_or_default()
}

/// At most `most` bytes before `at`.
pub(crate) fn text_before(text: &str, at: usize, most: usize) -> &str {
    let mut start = at.saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..at).unwrap_or_default()
}

/// The last word of `before`, ignoring trailing white space.
pub(crate) fn last_word(before: &str) -> &str {
    let before = before.trim_end();
    let length = before.bytes().rev().take_while(|byte| is_word_byte(*byte)).count();
    before.get(before.len() - length..).unwrap_or_default()
}

/// The position of the first byte at or after `at` that is not white space.
pub(crate) fn skip_space(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// An FNV-1a hash. Distinguishes test bodies, but is not secure against forgery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FnvHash(u64);

impl FnvHash {
    pub(crate) const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        // So that `ab c` and `a bc` differ.
        self.0 = (self.0 ^ 0xff).wrapping_mul(0x0100_0000_01b3);
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

/// Pairs of matching brackets, by position. Unmatched brackets are left out.
#[derive(Debug)]
pub(crate) struct BracketPairs {
    pairs: Vec<(usize, usize)>,
}

impl BracketPairs {
    /// Each kind is matched separately, so that a stray parenthesis does not affect braces.
    pub(crate) fn find(code: &str) -> Self {
        let mut open: [Vec<usize>; 3] = [Vec::new(), Vec::new(), Vec::new()];
        let [round, square, curly] = &mut open;
        let mut pairs = Vec::new();
        for (at, byte) in code.bytes().enumerate() {
            match byte {
                b'(' => round.push(at),
                b'[' => square.push(at),
                b'{' => curly.push(at),
                b')' => pairs.extend(round.pop().map(|start| (start, at))),
                b']' => pairs.extend(square.pop().map(|start| (start, at))),
                b'}' => pairs.extend(curly.pop().map(|start| (start, at))),
                _ => {}
            }
        }
        pairs.sort_unstable();
        Self { pairs }
    }

    pub(crate) fn close_of(&self, open: usize) -> Option<usize> {
        let at = self.pairs.binary_search_by_key(&open, |pair| pair.0).ok()?;
        self.pairs.get(at).map(|pair| pair.1)
    }
}
