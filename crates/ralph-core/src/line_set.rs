//! A set of line numbers, kept as ranges: a file of a hundred thousand lines is often a handful of them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// No source file has more lines. Larger numbers come from damaged or hostile reports.
pub const MAX_LINE: u32 = 10_000_000;

/// Line numbers from 1 on. Written to disk as `3-9,11`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineSet {
    /// Sorted, with a gap between two of them.
    ranges: Vec<LineRange>,
}

/// The lines from `first` to `last`, with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    pub first: u32,
    pub last: u32,
}

impl LineRange {
    /// `None` if it is empty or beyond [`MAX_LINE`].
    pub fn new(first: u32, last: u32) -> Option<Self> {
        (1 <= first && first <= last && last <= MAX_LINE).then_some(Self { first, last })
    }

    pub fn count(self) -> u32 {
        self.last - self.first + 1
    }
}

impl LineSet {
    /// The lines of these ranges, in any order.
    pub fn from_ranges(mut ranges: Vec<LineRange>) -> Self {
        ranges.sort_unstable_by_key(|range| range.first);
        let mut joined: Vec<LineRange> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.first <= last.last.saturating_add(1) => {
                    last.last = last.last.max(range.last);
                }
                Some(_) | None => joined.push(range),
            }
        }
        joined.shrink_to_fit();
        Self { ranges: joined }
    }

    /// Numbers that no line can have are left out.
    pub fn from_lines(lines: impl IntoIterator<Item = u32>) -> Self {
        Self::from_ranges(lines.into_iter().filter_map(|line| LineRange::new(line, line)).collect())
    }

    pub fn ranges(&self) -> &[LineRange] {
        &self.ranges
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The number of lines. At most [`MAX_LINE`], because ranges do not overlap.
    pub fn count(&self) -> u32 {
        self.ranges.iter().map(|range| range.count()).sum()
    }

    /// The lines that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut mine, mut others) =
            (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut both = Vec::new();
        while let (Some(one), Some(two)) = (mine.peek(), others.peek()) {
            both.extend(LineRange::new(one.first.max(two.first), one.last.min(two.last)));
            if one.last <= two.last {
                mine.next();
            } else {
                others.next();
            }
        }
        Self { ranges: both }
    }

    /// The lines of this set that are not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut others = other.ranges.iter().peekable();
        for range in &self.ranges {
            let mut first = range.first;
            while let Some(other) = others.peek() {
                if other.first > range.last {
                    break;
                }
                left.extend(LineRange::new(first, other.first.saturating_sub(1)));
                first = first.max(other.last.saturating_add(1));
                if other.last > range.last {
                    break;
                }
                others.next();
            }
            left.extend(LineRange::new(first, range.last));
        }
        Self { ranges: left }
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for range in &self.ranges {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&match range {
                LineRange { first, last } if first == last => format!("{first}"),
                LineRange { first, last } => format!("{first}-{last}"),
            });
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            LineRange::new(first.parse().ok()?, last.parse().ok()?)
        };
        let parts = text.split(',').filter(|part| !part.is_empty());
        parts.map(range).collect::<Option<Vec<_>>>().map(Self::from_ranges)
    }
}

impl Serialize for LineSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for LineSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("not a list of line ranges"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    fn set(text: &str) -> LineSet {
        LineSet::parse(text).unwrap()
    }

    #[test]
    fn ranges_are_sorted_and_joined() {
        for (text, expected, count) in [
            ("", "", 0),
            ("3", "3", 1),
            ("4,3", "3-4", 2),
            ("1-5,2-3,7", "1-5,7", 6),
            ("7-9,1-2,3-6", "1-9", 9),
        ] {
            assert_eq!(set(text).to_text(), expected);
            assert_eq!(set(text).count(), count);
        }
        for text in ["0", "5-3", "x", "1-", "10000001", "-3"] {
            assert_eq!(LineSet::parse(text), None, "{text}");
        }
        assert_eq!(LineSet::from_lines([0, 9, u32::MAX]).to_text(), "9");
    }

    /// The operations agree with those of an ordinary set, for every pair of sets of six lines.
    #[test]
    fn operations_agree_with_a_plain_set() {
        let plain = |bits: u32| -> BTreeSet<u32> {
            (1..=6).filter(|line| bits >> (line - 1) & 1 == 1).collect()
        };
        for (one, two) in (0..64).flat_map(|one| (0..64).map(move |two| (one, two))) {
            let (one, two) = (plain(one), plain(two));
            let (mine, other) =
                (LineSet::from_lines(one.clone()), LineSet::from_lines(two.clone()));
            let both = LineSet::from_lines(one.intersection(&two).copied());
            let left = LineSet::from_lines(one.difference(&two).copied());
            assert_eq!(mine.intersection(&other), both, "{one:?} {two:?}");
            assert_eq!(mine.difference(&other), left, "{one:?} {two:?}");
            assert_eq!(set(&mine.to_text()), mine);
            assert_eq!(mine.count().to_string(), one.len().to_string());
        }
    }
}
