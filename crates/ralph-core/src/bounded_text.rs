//! A string builder with a maximum length.

use alloc::string::String;

/// A text that never grows past its limit and always has room for its closing lines.
pub(crate) struct BoundedText {
    text: String,
    chars: usize,
    max_chars: usize,
    reserved: usize,
}

impl BoundedText {
    pub(crate) fn new(text: String, longest: usize) -> Self {
        Self { chars: text.chars().count(), text, max_chars: longest, reserved: 0 }
    }

    /// Keeps room for the closing text that [`Self::finish`] appends.
    pub(crate) fn reserve(&mut self, characters: usize) {
        // 200 more for the line that counts the omitted requirements.
        self.reserved = characters + 200;
    }

    /// Appends the whole block or nothing. Returns whether it fitted.
    pub(crate) fn push_block(&mut self, block: &str) -> bool {
        let length = block.chars().count();
        let fits = self.chars + length + self.reserved <= self.max_chars;
        if fits {
            self.text.push_str(block);
            self.chars += length;
        }
        fits
    }

    pub(crate) fn finish(mut self, closing: &str) -> String {
        self.text.push_str(closing);
        self.text
    }
}
