//! Recognises fenced code blocks in Markdown. Their content is quoted, so it must not count as a claim or a task.

/// Tracks fences while a text is read line by line.
#[derive(Debug, Default)]
pub struct CodeFence {
    open: Option<FenceMarker>,
}

#[derive(Clone, Copy, Debug)]
struct FenceMarker {
    char: char,
    length: usize,
}

impl CodeFence {
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether this line is code or one of the fences around it.
    pub fn covers(&mut self, line: &str) -> bool {
        let found = parse_marker(line);
        match (self.open, found) {
            (None, None) => false,
            (None, Some((marker, rest))) => {
                // Backticks after the opening ones make it an inline code span.
                if marker.char == '`' && rest.contains('`') {
                    return false;
                }
                self.open = Some(marker);
                true
            }
            (Some(_), None) => true,
            (Some(open), Some((marker, rest))) => {
                if marker.char == open.char
                    && marker.length >= open.length
                    && rest.trim().is_empty()
                {
                    self.open = None;
                }
                true
            }
        }
    }
}

fn parse_marker(line: &str) -> Option<(FenceMarker, &str)> {
    let line = line.trim_start();
    let char = line.chars().next().filter(|char| matches!(char, '`' | '~'))?;
    let rest = line.trim_start_matches(char);
    let length = line.len() - rest.len();
    (length >= 3).then_some((FenceMarker { char, length }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn fenced_lines_are_recognised() {
        for (text, covered) in [
            ("a", "."),
            ("```\na\n```\nb", "###."),
            ("```rust\na\n```\nb", "###."),
            ("~~~\n```\n~~~\nb", "###."),
            ("````\n```\n````\nb", "###."),
            ("```\na\n`````\nb", "###."),
            ("```\na\n``` b\nc", "####"),
            ("```\nnever closed\n\nb", "####"),
            ("``\na", ".."),
            ("```inline``` code\na", ".."),
            ("~~~ a`b\nc", "##"),
            ("  ```\n  a\n  ```\nb", "###."),
        ] {
            let mut fence = CodeFence::default();
            let found: String =
                text.lines().map(|line| if fence.covers(line) { '#' } else { '.' }).collect();
            assert_eq!(found, covered, "{text:?}");
        }
    }
}
