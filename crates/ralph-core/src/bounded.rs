//! Text with a limit.

use alloc::string::String;

/// A text that never grows past its limit and always has room for its last words.
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

    pub(crate) fn reserve(&mut self, characters: usize) {
        // Two hundred more for the line that says what was left out.
        self.reserved = characters + 200;
    }

    /// Adds the block whole, or not at all.
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
