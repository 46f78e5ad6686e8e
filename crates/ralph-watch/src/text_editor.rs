//! A field that a person types into: one line, or several.

use crate::key_event::WatchKey;
use unicode_segmentation::UnicodeSegmentation;

/// A text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextEditor {
    text: String,
    /// A byte offset between two characters of the reader.
    cursor: usize,
    most_chars: usize,
    is_multiline: bool,
}

impl TextEditor {
    pub(crate) fn single_line(text: &str, most_chars: usize) -> Self {
        let mut editor = Self { most_chars, ..Self::default() };
        editor.insert(text);
        editor
    }

    pub(crate) fn multi_line(text: &str, most_chars: usize) -> Self {
        let mut editor = Self { most_chars, is_multiline: true, ..Self::default() };
        editor.insert(text);
        editor
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn chars(&self) -> usize {
        self.text.chars().count()
    }

    pub(crate) fn most_chars(&self) -> usize {
        self.most_chars
    }

    /// The text before and after the cursor.
    pub(crate) fn halves(&self) -> (&str, &str) {
        self.text.split_at_checked(self.cursor).unwrap_or((&self.text, ""))
    }

    pub(crate) fn replace(&mut self, text: &str) {
        self.text.clear();
        self.cursor = 0;
        self.insert(text);
    }

    /// Inserts what is typed or pasted, without control characters.
    pub(crate) fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut room = self.most_chars.saturating_sub(self.chars());
        for char in text.chars() {
            let char = match char {
                '\n' if self.is_multiline => char,
                '\n' | '\t' => ' ',
                char if char.is_control() => continue,
                char => char,
            };
            if room == 0 {
                return;
            }
            room -= 1;
            self.text.insert(self.cursor, char);
            self.cursor += char.len_utf8();
        }
    }

    /// Handles a key that edits. Returns false for a key that means nothing to a field.
    pub(crate) fn press(&mut self, key: WatchKey) -> bool {
        match key {
            WatchKey::Char(char) => self.insert(char.encode_utf8(&mut [0; 4])),
            WatchKey::Enter if self.is_multiline => self.insert("\n"),
            WatchKey::Left => self.cursor = self.before_cursor(),
            WatchKey::Right => self.cursor = self.after_cursor(),
            WatchKey::Home | WatchKey::Ctrl('a') => self.cursor = self.line_start(),
            WatchKey::End => self.cursor = self.line_end(),
            WatchKey::Up if self.is_multiline => self.move_line(false),
            WatchKey::Down if self.is_multiline => self.move_line(true),
            WatchKey::Backspace | WatchKey::Ctrl('h') => {
                let start = self.before_cursor();
                self.text.drain(start..self.cursor);
                self.cursor = start;
            }
            WatchKey::Delete | WatchKey::Ctrl('d') => {
                let end = self.after_cursor();
                self.text.drain(self.cursor..end);
            }
            WatchKey::Ctrl('u') => {
                let start = self.line_start();
                self.text.drain(start..self.cursor);
                self.cursor = start;
            }
            WatchKey::Ctrl('k') => {
                let end = self.line_end();
                self.text.drain(self.cursor..end);
            }
            WatchKey::Ctrl('w') => {
                let (before, _) = self.halves();
                let kept = before.trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
                self.text.drain(kept..self.cursor);
                self.cursor = kept;
            }
            WatchKey::Ctrl(_)
            | WatchKey::Up
            | WatchKey::Down
            | WatchKey::PageUp
            | WatchKey::PageDown
            | WatchKey::Enter
            | WatchKey::Escape
            | WatchKey::Tab
            | WatchKey::BackTab => return false,
        }
        true
    }

    fn before_cursor(&self) -> usize {
        let (before, _) = self.halves();
        before.grapheme_indices(true).next_back().map_or(0, |(start, _)| start)
    }

    fn after_cursor(&self) -> usize {
        let (_, after) = self.halves();
        self.cursor + after.graphemes(true).next().map_or(0, str::len)
    }

    fn line_start(&self) -> usize {
        self.halves().0.rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.cursor + self.halves().1.find('\n').unwrap_or(self.halves().1.len())
    }

    fn move_line(&mut self, is_down: bool) {
        let start = self.line_start();
        let column =
            self.text.get(start..self.cursor).map_or(0, |text| text.graphemes(true).count());
        let target = if is_down {
            self.line_end() + 1
        } else {
            let Some(before) = start.checked_sub(1) else { return };
            self.text.get(..before).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1)
        };
        let Some(line) = self.text.get(target..) else { return };
        let line = line.split('\n').next().unwrap_or_default();
        let offset = line.grapheme_indices(true).nth(column).map_or(line.len(), |(at, _)| at);
        self.cursor = target + offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut TextEditor, keys: &[WatchKey]) -> String {
        for key in keys {
            editor.press(*key);
        }
        let (before, after) = editor.halves();
        format!("{before}|{after}")
    }

    #[test]
    fn keys_edit_a_text() {
        use WatchKey::{Backspace, Char, Ctrl, Delete, Down, End, Enter, Home, Left, Right, Up};
        let mut field = TextEditor::single_line("k7f2", 6);
        assert_eq!(typed(&mut field, &[Left, Left, Char('x'), Char('y'), Char('z')]), "k7xy|f2");
        assert_eq!(typed(&mut field, &[Home, Delete, End, Backspace]), "7xyf|");
        assert_eq!(typed(&mut field, &[Enter, Up, Ctrl('u'), Char('a')]), "a|");
        let mut editor = TextEditor::multi_line("keep them\nat once", 100);
        assert_eq!(typed(&mut editor, &[Up]), "keep th|em\nat once");
        assert_eq!(typed(&mut editor, &[Ctrl('w'), Enter]), "keep \n|em\nat once");
        assert_eq!(typed(&mut editor, &[Down, End, Down, Right]), "keep \nem\nat once|");
        editor.insert(" paste\r\nd \u{1b}[31m");
        assert_eq!(typed(&mut editor, &[Ctrl('a'), Ctrl('k')]), "keep \nem\nat once paste\n|");
        let mut family = TextEditor::single_line("e\u{301}x", 9);
        assert_eq!(typed(&mut family, &[Left, Backspace]), "|x");
    }
}
