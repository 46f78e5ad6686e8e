//! A cursor over paths sorted by their bytes, as git sorts them. Everything below one directory is contiguous.

use std::ops::Range;

pub(super) trait SortedPaths {
    fn path(&self, at: usize) -> &[u8];
}

/// A position in a range of sorted paths. It only moves forward.
pub(super) struct PathCursor<'a, O> {
    paths: &'a O,
    next: usize,
    end: usize,
}

impl<'a, O: SortedPaths> PathCursor<'a, O> {
    pub(super) fn new(paths: &'a O, stretch: Range<usize>) -> Self {
        Self { paths, next: stretch.start, end: stretch.end }
    }

    /// Skips everything before `path` and returns the skipped range.
    pub(super) fn skip_to(&mut self, path: &[u8]) -> Range<usize> {
        self.skip_while(|found| found < path)
    }

    /// Skips `path` if it is next, and returns its position.
    pub(super) fn take(&mut self, path: &[u8]) -> Option<usize> {
        (self.next < self.end && self.paths.path(self.next) == path).then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Skips everything below `directory`, which ends in a slash, if that is next.
    pub(super) fn take_directory(&mut self, directory: &[u8]) -> Range<usize> {
        self.skip_while(|found| found.starts_with(directory))
    }

    pub(super) fn rest(self) -> Range<usize> {
        self.next..self.end
    }

    /// A galloping search, because the next path is usually the wanted one.
    fn skip_while(&mut self, is_passed: impl Fn(&[u8]) -> bool) -> Range<usize> {
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

    impl SortedPaths for Vec<&'static str> {
        fn path(&self, at: usize) -> &[u8] {
            self[at].as_bytes()
        }
    }

    #[test]
    fn the_cursor_moves_forward_through_a_range() {
        let paths = vec!["a", "b.c", "b/1", "b/2", "b/3", "b/4", "b/c/5", "b0", "c", "d"];
        let mut cursor = PathCursor::new(&paths, 0..9);
        assert_eq!(cursor.take(b"a"), Some(0));
        assert_eq!(cursor.take(b"b"), None);
        assert_eq!(cursor.skip_to(b"b/"), 1..2);
        assert_eq!(cursor.take_directory(b"b/"), 2..7);
        assert_eq!(cursor.take_directory(b"b/"), 7..7);
        assert_eq!(cursor.skip_to(b"z"), 7..9);
        assert_eq!(cursor.rest(), 9..9);
    }

    #[test]
    fn every_position_is_found_from_every_earlier_one() {
        let paths = vec!["a", "c", "e", "g", "i", "k", "m", "o", "q"];
        for from in 0..paths.len() {
            for to in from..paths.len() {
                let mut cursor = PathCursor::new(&paths, from..paths.len());
                assert_eq!(cursor.skip_to(paths[to].as_bytes()), from..to);
                assert_eq!(cursor.take(paths[to].as_bytes()), Some(to));
                assert_eq!(cursor.rest(), to + 1..paths.len());
            }
        }
    }
}
