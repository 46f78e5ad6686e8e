//! Paths in the order of their bytes, as git keeps them: everything below one directory is one stretch.

use std::ops::Range;

pub(super) trait Ordered {
    fn path(&self, at: usize) -> &[u8];
}

/// A place in a stretch of paths that is passed once, from the front.
pub(super) struct Cursor<'a, O> {
    paths: &'a O,
    next: usize,
    end: usize,
}

impl<'a, O: Ordered> Cursor<'a, O> {
    pub(super) fn new(paths: &'a O, stretch: Range<usize>) -> Self {
        Self { paths, next: stretch.start, end: stretch.end }
    }

    /// Passes everything before `path`.
    pub(super) fn pass(&mut self, path: &[u8]) -> Range<usize> {
        self.pass_while(|found| found < path)
    }

    /// Passes `path` itself, if it is next.
    pub(super) fn take(&mut self, path: &[u8]) -> Option<usize> {
        (self.next < self.end && self.paths.path(self.next) == path).then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Passes what is below `directory`, which ends in a slash, if it is next.
    pub(super) fn take_below(&mut self, directory: &[u8]) -> Range<usize> {
        self.pass_while(|found| found.starts_with(directory))
    }

    pub(super) fn rest(self) -> Range<usize> {
        self.next..self.end
    }

    /// The next path is most often the one, so the search starts with small strides.
    fn pass_while(&mut self, is_passed: impl Fn(&[u8]) -> bool) -> Range<usize> {
        let from = self.next;
        let mut low = from;
        let mut stride = 1;
        let mut high = loop {
            let probe = low.saturating_add(stride - 1);
            if probe >= self.end {
                break self.end;
            }
            if !is_passed(self.paths.path(probe)) {
                break probe;
            }
            low = probe + 1;
            stride *= 2;
        };
        while low < high {
            let middle = low + (high - low) / 2;
            if is_passed(self.paths.path(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.next = low;
        from..low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Ordered for Vec<&'static str> {
        fn path(&self, at: usize) -> &[u8] {
            self[at].as_bytes()
        }
    }

    #[test]
    fn a_stretch_is_passed_once() {
        let paths = vec!["a", "b.c", "b/1", "b/2", "b/3", "b/4", "b/c/5", "b0", "c", "d"];
        let mut cursor = Cursor::new(&paths, 0..9);
        assert_eq!(cursor.take(b"a"), Some(0));
        assert_eq!(cursor.take(b"b"), None);
        assert_eq!(cursor.pass(b"b/"), 1..2);
        assert_eq!(cursor.take_below(b"b/"), 2..7);
        assert_eq!(cursor.take_below(b"b/"), 7..7);
        assert_eq!(cursor.pass(b"z"), 7..9);
        assert_eq!(cursor.rest(), 9..9);
    }

    #[test]
    fn every_place_is_found_from_every_other() {
        let paths = vec!["a", "c", "e", "g", "i", "k", "m", "o", "q"];
        for from in 0..paths.len() {
            for to in from..paths.len() {
                let mut cursor = Cursor::new(&paths, from..paths.len());
                assert_eq!(cursor.pass(paths[to].as_bytes()), from..to);
                assert_eq!(cursor.take(paths[to].as_bytes()), Some(to));
                assert_eq!(cursor.rest(), to + 1..paths.len());
            }
        }
    }
}
