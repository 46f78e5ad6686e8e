//! Splits a Markdown file into sections by its headings.

use ralph_core::source::code_fence::CodeFence;
use ralph_core::text;

/// Longer sections are split, because a single word hardly matters for the rank of a long text.
const LARGEST: usize = 8 * 1024;
const MOST: usize = 5_000;
const LONGEST_TITLE: usize = 200;
const DEEPEST: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemorySection {
    /// The heading and its parent headings; empty before the first heading.
    pub title: String,
    /// The first line, counted from 1.
    pub line: u32,
    pub body: String,
}

pub(crate) fn split_sections(text: &str) -> Vec<MemorySection> {
    let mut sections = Vec::new();
    let mut headings: Vec<(usize, String)> = Vec::new();
    let mut fence = CodeFence::default();
    let mut open = MemorySection { title: String::new(), line: 1, body: String::new() };
    for (number, line) in (1_u32..).zip(text.lines()) {
        if sections.len() >= MOST {
            return sections;
        }
        let found = if fence.covers(line) { None } else { parse_heading(line) };
        if let Some((depth, name)) = found {
            let is_below = headings.last().is_some_and(|(above, _)| *above < depth);
            headings.retain(|(above, _)| *above < depth);
            headings.push((depth, name));
            let names: Vec<_> = headings.iter().map(|(_, name)| name.as_str()).collect();
            let title = text::clean_line(&names.join(" › "), LONGEST_TITLE);
            let next = MemorySection { title, line: number, body: String::new() };
            let before = std::mem::replace(&mut open, next);
            // A heading that has only subheadings is already part of their titles.
            if !is_below || !before.body.trim().is_empty() {
                close_section(before, &mut sections);
            }
            continue;
        }
        let line = &text::truncate(line, LARGEST);
        if open.body.len() + line.len() > LARGEST && !open.body.trim().is_empty() {
            let next =
                MemorySection { title: open.title.clone(), line: number, body: String::new() };
            close_section(std::mem::replace(&mut open, next), &mut sections);
        }
        open.body.push_str(line);
        open.body.push('\n');
    }
    close_section(open, &mut sections);
    sections
}

fn close_section(section: MemorySection, sections: &mut Vec<MemorySection>) {
    if !section.title.is_empty() || !section.body.trim().is_empty() {
        sections.push(section);
    }
}

fn parse_heading(line: &str) -> Option<(usize, String)> {
    let rest = line.trim_start_matches('#');
    let depth = line.len() - rest.len();
    let name = rest.trim().trim_end_matches('#').trim_end();
    let is_one = (1..=DEEPEST).contains(&depth) && rest.starts_with(' ') && !name.is_empty();
    is_one.then(|| (depth, name.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_outside_of_code_begin_sections() {
        let text = "before\n# One\na\n```\n# no heading\n```\n## Below ##\nb\n#no\n####### no\n# Two\n#\n# Three\n## A\n## B\n";
        let found: Vec<_> = split_sections(text)
            .into_iter()
            .map(|MemorySection { title, line, body }| format!("{line} {title:?} {body:?}"))
            .collect();
        assert_eq!(
            found,
            [
                r#"1 "" "before\n""#,
                r#"2 "One" "a\n```\n# no heading\n```\n""#,
                r#"7 "One › Below" "b\n#no\n####### no\n""#,
                r##"11 "Two" "#\n""##,
                r#"14 "Three › A" """#,
                r#"15 "Three › B" """#,
            ]
        );
        assert_eq!(split_sections(""), []);
        assert_eq!(split_sections("\n \n"), []);
    }

    #[test]
    fn long_sections_are_split_between_lines_and_their_number_is_bounded() {
        let long =
            (0..2000).map(|number| number.to_string()).collect::<Vec<_>>().join(" line\n") + "\n";
        let cut = split_sections(&long);
        assert!(cut.iter().all(|section| section.body.len() <= LARGEST));
        assert_eq!(cut.iter().map(|section| section.body.as_str()).collect::<String>(), long);
        assert_eq!(cut.iter().map(|section| section.line).collect::<Vec<_>>(), [1, 923, 1750]);
        assert_eq!(split_sections(&"# x\n".repeat(100_000)).len(), MOST);
    }
}
