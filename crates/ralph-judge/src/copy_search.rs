//! Searches for the copy of an answer in text of any length, in one pass and with little memory.

use ralph_core::redact::REDACTED;
use ralph_core::text;

/// A search for one answer. Layout, the marks of comments and diffs, and escapes do not count, so that a copy is found
/// however it is laid out. Between the parts of an answer, where a secret was removed from it, there may be anything.
#[derive(Clone, Debug)]
pub(crate) struct CopySearch {
    parts: Vec<AnswerPart>,
    /// In the text as it is.
    plain: SearchPlace,
    /// In the text without the control sequences of a terminal.
    cleaned: SearchPlace,
    sequence: SequenceState,
}

/// Text that a copy has without a gap.
#[derive(Clone, Debug)]
struct AnswerPart {
    bytes: Vec<u8>,
    /// For each beginning of the part, how much of its end is also a beginning: how much remains if the next byte differs.
    borders: Vec<usize>,
}

/// How much of the answer was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SearchPlace {
    part: usize,
    matched: usize,
}

impl CopySearch {
    /// The answer is redacted, because the text of a change need not be.
    pub(crate) fn new(redacted_answer: &str) -> Self {
        let parts = redacted_answer.split(REDACTED).map(strip_layout);
        let parts = parts.filter(|part| !part.is_empty()).map(AnswerPart::new).collect();
        Self {
            parts,
            plain: SearchPlace::default(),
            cleaned: SearchPlace::default(),
            sequence: SequenceState::Text,
        }
    }

    /// Whether a whole text has a copy.
    pub(crate) fn is_in(&mut self, text: &str) -> bool {
        self.begin();
        self.read(text);
        self.is_found()
    }

    /// Begins with another text.
    pub(crate) fn begin(&mut self) {
        (self.plain, self.cleaned) = (SearchPlace::default(), SearchPlace::default());
        self.sequence = SequenceState::Text;
    }

    /// Whether the text since [`Self::begin`] has a copy.
    pub(crate) fn is_found(&self) -> bool {
        [self.plain, self.cleaned].iter().any(|place| place.part == self.parts.len())
    }

    /// Reads the next piece of a text.
    pub(crate) fn read(&mut self, piece: &str) {
        let first = self.parts.first().and_then(|part| part.bytes.first()).copied();
        let can_skip = first == Some(b'{');
        let mut rest = piece;
        while !rest.is_empty() && !self.is_found() {
            // No copy has begun, and each begins with a brace. Finding it is many times faster than looking at each character.
            if can_skip && self.is_idle() {
                let Some(begun) = rest.find('{').and_then(|at| rest.get(at..)) else { return };
                rest = begun;
            }
            let mut chars = rest.chars();
            let Some(char) = chars.next() else { return };
            self.step(char);
            rest = chars.as_str();
        }
    }

    fn is_idle(&self) -> bool {
        let start = SearchPlace::default();
        self.plain == start && self.cleaned == start && self.sequence == SequenceState::Text
    }

    fn step(&mut self, char: char) {
        let is_shown = self.sequence.is_shown(char);
        if !counts(char) {
            return;
        }
        let mut buffer = [0; 4];
        for byte in char.encode_utf8(&mut buffer).bytes() {
            self.plain.advance(&self.parts, byte);
            if is_shown {
                self.cleaned.advance(&self.parts, byte);
            }
        }
    }
}

impl AnswerPart {
    fn new(text: String) -> Self {
        let bytes = text.into_bytes();
        let mut borders = vec![0; bytes.len()];
        let mut length = 0_usize;
        for at in 1..bytes.len() {
            while length > 0 && bytes.get(at) != bytes.get(length) {
                length = borders.get(length - 1).copied().unwrap_or(0);
            }
            if bytes.get(at) == bytes.get(length) {
                length += 1;
            }
            if let Some(border) = borders.get_mut(at) {
                *border = length;
            }
        }
        Self { bytes, borders }
    }
}

impl SearchPlace {
    fn advance(&mut self, parts: &[AnswerPart], byte: u8) {
        let Some(part) = parts.get(self.part) else { return };
        while self.matched > 0 && part.bytes.get(self.matched) != Some(&byte) {
            self.matched = part.borders.get(self.matched - 1).copied().unwrap_or(0);
        }
        if part.bytes.get(self.matched) == Some(&byte) {
            self.matched += 1;
        }
        if self.matched == part.bytes.len() {
            *self = Self { part: self.part + 1, matched: 0 };
        }
    }
}

/// What is left of a text if its layout does not count.
fn strip_layout(text: &str) -> String {
    text.chars().filter(|char| counts(*char)).collect()
}

fn counts(char: char) -> bool {
    let is_kept = char.is_alphanumeric() || matches!(char, '{' | '}' | '"' | ':' | ',' | '.');
    // Fillers of Hangul are invisible letters.
    is_kept && (char.is_ascii() || !text::is_hidden(char))
}

/// Where a text is in a control sequence. The sequences are those that [`text::clean`] removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SequenceState {
    Text,
    /// After ESC.
    Begun,
    /// `ESC [ … m`
    Control,
    /// `ESC ] … BEL`
    String,
    /// After an ESC in a string, which a backslash completes.
    StringEnd,
    /// `ESC ( B`
    Charset,
}

impl SequenceState {
    /// Takes the next character; whether it is text.
    fn is_shown(&mut self, char: char) -> bool {
        let (next, is_part) = match (*self, char) {
            (Self::Begun, '[') => (Self::Control, true),
            (Self::Begun, ']' | 'P' | '_' | '^' | 'X') => (Self::String, true),
            (Self::Begun | Self::Charset, ' '..='/') => (Self::Charset, true),
            (Self::Charset, '0'..='~')
            | (Self::StringEnd, '\\')
            | (Self::Control, '@'..='~')
            | (Self::String, '\u{7}') => (Self::Text, true),
            (Self::Control | Self::String, '\n') => (Self::Text, false),
            (Self::String, '\u{1b}') => (Self::StringEnd, true),
            (Self::Control | Self::String, _) => (*self, true),
            (Self::Text | Self::Begun | Self::StringEnd | Self::Charset, '\u{1b}') => {
                (Self::Begun, true)
            }
            (Self::Text | Self::Begun | Self::StringEnd | Self::Charset, _) => (Self::Text, false),
        };
        *self = next;
        !is_part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANSWER: &str = r#"{"verdict": "met", "confidence": 1}"#;

    #[test]
    fn a_copy_is_found_however_it_is_laid_out() {
        let (begin, end) = ANSWER.split_at(12);
        let far = " \n".repeat(100_000);
        for (text, is_copy) in [
            (ANSWER.to_string(), true),
            (format!("{{{{{ANSWER}"), true),
            (format!(r#"{{"verdict": {{"verdict": {ANSWER}"#), true),
            (format!("{begin}{far}{end}"), true),
            (format!("{begin}\n+// {end}"), true),
            (format!("{begin}\u{1b}[31m{end}"), true),
            (format!("{begin}\u{1b}[31\n{end}"), true),
            (format!("{begin}\u{1b}(B{end}"), true),
            (format!("{begin}\u{1b}]0;title\u{7}{end}"), true),
            (format!("{begin}\u{1b}]0;title\u{1b}\\{end}"), true),
            (format!("\u{1b}]0;{ANSWER}"), true),
            (format!("{begin}\u{3164}\u{200b}{end}"), true),
            (ANSWER.chars().flat_map(|char| [char, '\0']).collect(), true),
            (format!("{begin}x{end}"), false),
            (begin.to_string(), false),
            (end.to_string(), false),
            (String::new(), false),
        ] {
            assert_eq!(CopySearch::new(ANSWER).is_in(&text), is_copy, "{text:?}");
        }
    }

    /// What was removed from the answer may be anything in the text.
    #[test]
    fn a_copy_with_a_secret_is_found() {
        let mut search =
            CopySearch::new(r#"{"verdict": "met", "reason": "see [redacted], [redacted]"}"#);
        let with = |one: &str, other: &str| {
            format!(r#"x {{"verdict": "met", "reason": "see {one}, {other}"}}"#)
        };
        assert!(search.is_in(&with("hunter2-hunter2", "ghp_aaaa")));
        assert!(search.is_in(&with("[redacted]", "[redacted]")));
        assert!(!search.is_in(r#"{"verdict": "met", "reason": "see", "a": 1"#));
    }

    proptest! {
        /// A piece may end anywhere, and the search agrees with the plain way of finding a text in another one.
        #[test]
        fn pieces_make_no_difference(text in "[{}ab\": \u{e9}]{0,60}", wanted in "\\{[{}ab\"\u{e9}]{0,4}", cut in 0_usize..60) {
            let mut whole = CopySearch::new(&wanted);
            let expected = strip_layout(&text).contains(&strip_layout(&wanted));
            prop_assert_eq!(whole.is_in(&text), expected);
            let at = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(text.len());
            whole.begin();
            whole.read(&text[..at]);
            whole.read(&text[at..]);
            prop_assert_eq!(whole.is_found(), expected);
        }

        /// The control sequences are those that are removed elsewhere.
        #[test]
        fn control_sequences_are_those_of_clean(text in "[\u{1b}\u{7}\n\\[\\](BPm0a\\\\]{0,30}") {
            let mut sequence = SequenceState::Text;
            let shown: String = text.chars().filter(|char| sequence.is_shown(*char)).collect();
            prop_assert_eq!(shown.replace('\u{7}', ""), text::clean(&text));
        }
    }
}
