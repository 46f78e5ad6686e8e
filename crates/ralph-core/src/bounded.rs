//! A string builder with a maximum length.

use alloc::string::String;

/// A text that never grows past its limit and always has room for its closing lines.
pub(crate) struct Bounded {
    text: String,
    length: usize,
    longest: usize,
    reserved: usize,
}

impl Bounded {
    pub(crate) fn new(text: String, longest: usize) -> Self {
        Self { length: text.chars().count(), text, longest, reserved: 0 }
    }

    /// Keeps room for the closing text that [`Self::finish`] appends.
    pub(crate) fn reserve(&mut self, characters: usize) {
        // 200 more for the line that counts the omitted requirements.
        self.reserved = characters + 200;
    }

    /// Appends the whole block or nothing. Returns whether it fitted.
    pub(crate) fn block(&mut self, block: &str) -> bool {
        let length = block.chars().count();
        let fits = self.length + length + self.reserved <= self.longest;
        if fits {
            self.text.push_str(block);
            self.length += length;
        }
        fits
    }

    pub(crate) fn finish(mut self, closing: &str) -> String {
        self.text.push_str(closing);
        self.text
    }
}
