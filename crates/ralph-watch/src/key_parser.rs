//! Turns the bytes that a terminal sends into keys, pasted text and mouse events.
//!
//! An escape character at the end of what was read may be the escape key, or the beginning of a sequence whose rest is still
//! on its way. The caller decides by waiting. Sequences that mean nothing here are skipped as a whole.

use crate::key_event::{PersonInput, WatchKey};

const ESCAPE: u8 = 0x1b;
const PASTE_END: &[u8] = b"\x1b[201~";
/// A longer sequence is not of a terminal.
const LONGEST_SEQUENCE: usize = 64;
const LARGEST_PASTE: usize = 64 * 1024;

/// Keeps what is incomplete between two reads.
#[derive(Debug, Default)]
pub(crate) struct KeyParser {
    pending: Vec<u8>,
    /// The text of a paste that has not ended.
    paste: Option<Vec<u8>>,
}

/// A parsed piece, and how many bytes it took. `input` is `None` for what means nothing.
struct ParsedPiece {
    length: usize,
    input: Option<PersonInput>,
    starts_paste: bool,
}

impl ParsedPiece {
    fn key(length: usize, key: WatchKey) -> Self {
        Self { length, input: Some(PersonInput::Key(key)), starts_paste: false }
    }

    fn ignored(length: usize) -> Self {
        Self { length, input: None, starts_paste: false }
    }
}

impl KeyParser {
    /// The inputs that the bytes complete.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<PersonInput> {
        self.pending.extend_from_slice(bytes);
        let mut inputs = Vec::new();
        while !self.pending.is_empty() {
            if self.paste.is_some() {
                if !self.read_paste(&mut inputs) {
                    break;
                }
                continue;
            }
            let Some(piece) = parse_piece(&self.pending) else {
                if self.pending.len() > LONGEST_SEQUENCE {
                    self.pending.clear();
                }
                break;
            };
            self.pending.drain(..piece.length.clamp(1, self.pending.len()));
            inputs.extend(piece.input);
            if piece.starts_paste {
                self.paste = Some(Vec::new());
            }
        }
        inputs
    }

    /// Whether only an escape character is left.
    pub(crate) fn has_lone_escape(&self) -> bool {
        self.paste.is_none() && self.pending == [ESCAPE]
    }

    /// The escape key, if only an escape character is left and nothing followed it.
    pub(crate) fn end_escape(&mut self) -> Option<PersonInput> {
        let is_key = self.has_lone_escape();
        if is_key {
            self.pending.clear();
        }
        is_key.then_some(PersonInput::Key(WatchKey::Escape))
    }

    /// Returns false if the end of the paste has not been read.
    fn read_paste(&mut self, inputs: &mut Vec<PersonInput>) -> bool {
        let Some(text) = &mut self.paste else { return true };
        let end = self.pending.windows(PASTE_END.len()).position(|window| window == PASTE_END);
        // The beginning of the end may be at the end of what was read.
        let taken = end.unwrap_or(self.pending.len().saturating_sub(PASTE_END.len()));
        let room = LARGEST_PASTE.saturating_sub(text.len());
        text.extend(self.pending.iter().take(taken.min(room)));
        if end.is_none() {
            self.pending.drain(..taken);
            return false;
        }
        self.pending.drain(..taken + PASTE_END.len());
        let text = self.paste.take().unwrap_or_default();
        inputs.push(PersonInput::Paste(String::from_utf8_lossy(&text).into_owned()));
        true
    }
}

/// The first piece; `None` if it is incomplete.
fn parse_piece(bytes: &[u8]) -> Option<ParsedPiece> {
    let first = *bytes.first()?;
    Some(match first {
        ESCAPE => return parse_escape(bytes),
        b'\r' | b'\n' => ParsedPiece::key(1, WatchKey::Enter),
        b'\t' => ParsedPiece::key(1, WatchKey::Tab),
        0x7f | 0x08 => ParsedPiece::key(1, WatchKey::Backspace),
        0x01..=0x1a => ParsedPiece::key(1, WatchKey::Ctrl(char::from(first - 1 + b'a'))),
        0x00 | 0x1c..=0x1f => ParsedPiece::ignored(1),
        0x20..=0x7e => ParsedPiece::key(1, WatchKey::Char(char::from(first))),
        0x80..=0xff => return parse_character(bytes),
    })
}

/// A character of several bytes.
fn parse_character(bytes: &[u8]) -> Option<ParsedPiece> {
    let length = match bytes.first()? {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some(ParsedPiece::ignored(1)),
    };
    let character = bytes.get(..length)?;
    let char = std::str::from_utf8(character).ok().and_then(|text| text.chars().next());
    Some(match char {
        Some(char) => ParsedPiece::key(length, WatchKey::Char(char)),
        None => ParsedPiece::ignored(1),
    })
}

fn parse_escape(bytes: &[u8]) -> Option<ParsedPiece> {
    match bytes.get(1) {
        None => None,
        Some(&ESCAPE) => Some(ParsedPiece::key(1, WatchKey::Escape)),
        Some(b'[') => parse_control_sequence(bytes),
        Some(b'O') => {
            let key = bytes.get(2).and_then(|last| cursor_key(*last));
            Some(key.map_or(ParsedPiece::ignored(3), |key| ParsedPiece::key(3, key)))
        }
        // Alt and a letter mean nothing here, and must not act as the letter alone.
        Some(_) => {
            let letter = parse_piece(bytes.get(1..)?)?;
            Some(ParsedPiece::ignored(1 + letter.length))
        }
    }
}

fn cursor_key(last: u8) -> Option<WatchKey> {
    Some(match last {
        b'A' => WatchKey::Up,
        b'B' => WatchKey::Down,
        b'C' => WatchKey::Right,
        b'D' => WatchKey::Left,
        b'H' => WatchKey::Home,
        b'F' => WatchKey::End,
        b'Z' => WatchKey::BackTab,
        _ => return None,
    })
}

/// `ESC [`, parameters and a final byte.
fn parse_control_sequence(bytes: &[u8]) -> Option<ParsedPiece> {
    let rest = bytes.get(2..)?;
    let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    let length = 2 + end + 1;
    let parameters = std::str::from_utf8(rest.get(..end)?).unwrap_or_default();
    let last = *rest.get(end)?;
    if let Some(mouse) = parameters.strip_prefix('<') {
        let input = if last == b'M' { mouse_input(mouse) } else { None };
        return Some(ParsedPiece { length, input, starts_paste: false });
    }
    let key = match (last, parameters.split(';').next().unwrap_or_default()) {
        (b'~', "1" | "7") => Some(WatchKey::Home),
        (b'~', "4" | "8") => Some(WatchKey::End),
        (b'~', "3") => Some(WatchKey::Delete),
        (b'~', "5") => Some(WatchKey::PageUp),
        (b'~', "6") => Some(WatchKey::PageDown),
        (b'~', "200") => {
            return Some(ParsedPiece { length, input: None, starts_paste: true });
        }
        (last, _) => cursor_key(last),
    };
    Some(key.map_or(ParsedPiece::ignored(length), |key| ParsedPiece::key(length, key)))
}

/// `button;column;row`, from 1.
fn mouse_input(parameters: &str) -> Option<PersonInput> {
    let mut numbers = parameters.split(';').map(|number| number.parse::<u16>().ok());
    let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
    match button {
        0 => Some(PersonInput::Click {
            column: column.saturating_sub(1),
            row: row.saturating_sub(1),
        }),
        64 => Some(PersonInput::ScrollUp),
        65 => Some(PersonInput::ScrollDown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(reads: &[&[u8]]) -> String {
        let mut parser = KeyParser::default();
        let mut inputs: Vec<_> = reads.iter().flat_map(|bytes| parser.read(bytes)).collect();
        inputs.extend(parser.end_escape());
        inputs.iter().map(|input| format!("{input:?}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn bytes_are_keys() {
        for (reads, expected) in [
            (
                &[&b"aQ \r\x7f\t\x03"[..]][..],
                "Key(Char('a')) Key(Char('Q')) Key(Char(' ')) Key(Enter) Key(Backspace) Key(Tab) Key(Ctrl('c'))",
            ),
            (&[b"\x1b"], "Key(Escape)"),
            (&[b"\x1b\x1b[A"], "Key(Escape) Key(Up)"),
            (
                &[b"\x1bOB\x1b[1;5C\x1b[Z\x1b[6~\x1b[3~"],
                "Key(Down) Key(Right) Key(BackTab) Key(PageDown) Key(Delete)",
            ),
            (&[b"\x1b", b"[", b"5~x"], "Key(PageUp) Key(Char('x'))"),
            (&[b"\x1bq\x1b[99zj"], "Key(Char('j'))"),
            (&["ä日".as_bytes()], "Key(Char('ä')) Key(Char('日'))"),
            (&[b"\xe6\x97", b"\xa5"], "Key(Char('日'))"),
            (&[b"\xff\xc2q"], "Key(Char('q'))"),
            (&[b"\x1b[200~p\nx\x1b[20", b"1~q"], "Paste(\"p\\nx\") Key(Char('q'))"),
            (&[b"\x1b[<0;5;7M\x1b[<0;5;7m\x1b[<64;1;1M"], "Click { column: 4, row: 6 } ScrollUp"),
        ] {
            assert_eq!(parsed(reads), expected, "{reads:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(reads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let mut parser = KeyParser::default();
            for bytes in &reads {
                parser.read(bytes);
                prop_assert!(parser.pending.len() <= LONGEST_SEQUENCE);
            }
        }
    }
}
