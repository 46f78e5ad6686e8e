//! The verification report as the text of a pull request.
//!
//! Whatever is not ours stands in code spans and fences, which it cannot end, and is broken up where a forge would
//! act on it: a squashed request's text becomes a commit message, in which there are no fences.

use ralph_core::redact::Redactor;
use ralph_core::text;

/// GitHub takes 65,536.
pub const MOST_CHARACTERS: usize = 60_000;
const FOOTER: usize = 200;
const LONGEST_GOAL: usize = 6_000;
const LONGEST_LINE: usize = 300;
const LONGEST_NOTES: usize = 12_000;
const LISTED: usize = 100;
/// No secret is longer.
const MARGIN: usize = 8 * 1024;

/// Unseen, and no part of any name: what it stands in is no mention, reference, link or command any more.
const JOINER: char = '\u{2060}';
/// Words in brackets that keep checks from running.
const SKIPS: [&str; 5] = ["skip ", "ci skip", "no ci", "actions skip", "ci-skip"];

#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    pub goal: &'a str,
    /// The end of the run in one line.
    pub outcome: &'a str,
    /// The commit that was verified.
    pub commit: &'a str,
    pub requirements: &'a [Line<'a>],
    /// Subjects, newest first.
    pub commits: &'a [String],
    pub files: &'a [String],
    /// What the agent has to say about it.
    pub notes: Option<&'a str>,
    pub redactor: &'a Redactor,
}

#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    pub mark: Mark,
    pub name: &'a str,
    pub detail: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Met,
    Unmet,
    /// A person said that it need not be met.
    Waived,
    Unknown,
}

/// Markdown of at most [`MOST_CHARACTERS`]; what has no room is counted.
pub fn body(report: &Body<'_>) -> String {
    let redactor = report.redactor;
    let mut page = Page { out: String::new(), length: 0, left_out: 0 };
    page.add(&format!("{}\n", span(report.outcome, redactor)));
    page.add(&format!("\n## Goal\n\n{}", fence(report.goal, LONGEST_GOAL, redactor)));
    page.add(&format!("\n## Verified\n\nOn commit {}:\n\n", span(report.commit, redactor)));
    for Line { mark, name, detail } in report.requirements {
        let detail = detail.trim();
        let detail =
            if detail.is_empty() { String::new() } else { format!(" {}", span(detail, redactor)) };
        page.add(&format!("- {} {}{detail}\n", mark.sign(), span(name, redactor)));
    }
    if let Some(notes) = report.notes {
        page.add(&format!("\n## Notes of the agent\n\n{}", fence(notes, LONGEST_NOTES, redactor)));
    }
    page.list("Commits", report.commits, redactor);
    page.list("Files", report.files, redactor);
    page.end()
}

struct Page {
    out: String,
    /// In characters.
    length: usize,
    left_out: usize,
}

impl Page {
    /// A part is there whole or not at all: half a fence would take the rest in.
    fn add(&mut self, part: &str) {
        let length = self.length + part.chars().count();
        if length + FOOTER <= MOST_CHARACTERS {
            self.length = length;
            self.out.push_str(part);
        } else {
            self.left_out += 1;
        }
    }

    fn list(&mut self, title: &str, items: &[String], redactor: &Redactor) {
        if items.is_empty() {
            return;
        }
        self.add(&format!("\n## {title}\n\n"));
        for item in items.iter().take(LISTED) {
            self.add(&format!("- {}\n", span(item, redactor)));
        }
        self.left_out += items.len().saturating_sub(LISTED);
    }

    fn end(mut self) -> String {
        if self.left_out > 0 {
            self.out.push_str(&format!("\n{} more had no room here.\n", self.left_out));
        }
        self.out
    }
}

impl Mark {
    fn sign(self) -> &'static str {
        match self {
            Self::Met => "✓",
            Self::Unmet => "✗",
            Self::Waived => "·",
            Self::Unknown => "?",
        }
    }
}

/// One line of foreign text as code.
fn span(foreign: &str, redactor: &Redactor) -> String {
    let line = neutral(&text::line(&redacted(foreign, LONGEST_LINE, redactor), LONGEST_LINE));
    if line.is_empty() {
        return "(nothing)".to_owned();
    }
    let ticks = "`".repeat(longest_run(&line) + 1);
    // The spaces are not part of it, and keep its own backticks apart from ours.
    if line.contains('`') {
        format!("{ticks} {line} {ticks}")
    } else {
        format!("{ticks}{line}{ticks}")
    }
}

fn fence(foreign: &str, most: usize, redactor: &Redactor) -> String {
    let cleaned = text::cut(&text::clean(&redacted(foreign, most, redactor)), most);
    let inside = neutral(cleaned.trim_matches('\n'));
    let ticks = "`".repeat(longest_run(&inside).max(2) + 1);
    format!("{ticks}text\n{inside}\n{ticks}\n")
}

/// Enough of it to show `most` characters. A secret that the cut goes through would not be known as one, so what is
/// near the cut is left out.
fn redacted(foreign: &str, most: usize, redactor: &Redactor) -> String {
    let enough = most.saturating_mul(4).saturating_add(2 * MARGIN);
    let Some((end, _)) = foreign.char_indices().nth(enough) else {
        return redactor.redact(foreign);
    };
    let shown = redactor.redact(foreign.get(..end).unwrap_or_default());
    let count = shown.chars().count();
    text::cut(&shown, count.saturating_sub(MARGIN))
}

fn longest_run(text: &str) -> usize {
    text.split(|char| char != '`').map(str::len).max().unwrap_or(0)
}

/// Nobody is mentioned, nothing closed, linked, commanded or skipped by it.
pub(super) fn neutral(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = '\n';
    for (at, char) in text.char_indices() {
        let rest = text.get(at + char.len_utf8()..).unwrap_or_default();
        let next = rest.chars().next().unwrap_or(' ');
        // A command of GitLab's begins a line.
        if char == '/' && before == '\n' && next.is_ascii_alphabetic() {
            out.push(JOINER);
        }
        out.push(char);
        let is_acted_on = match char {
            '@' | '#' => next.is_alphanumeric() || matches!(next, '-' | '_'),
            ':' => rest.starts_with("//"),
            'h' | 'H' => matches!(before, 'g' | 'G') && next == '-',
            '[' => SKIPS.iter().any(|word| starts(rest, word)),
            _ => false,
        };
        if is_acted_on {
            out.push(JOINER);
        }
        before = char;
    }
    out
}

fn starts(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}
