//! The verification report as the body of a pull request.
//!
//! Foreign text is put into code spans and fences that it cannot close. In addition, everything in it that a forge would
//! act on is neutralised: when a request is squashed, its body becomes a commit message, where fences have no meaning.

use ralph_core::redact::Redactor;
use ralph_core::text;

/// GitHub accepts 65,536.
pub const MOST_CHARACTERS: usize = 60_000;
const FOOTER: usize = 200;
const LONGEST_GOAL: usize = 6_000;
const LONGEST_LINE: usize = 300;
const LONGEST_NOTES: usize = 12_000;
const LISTED: usize = 100;
/// No secret is longer than this.
const MARGIN: usize = 8 * 1024;

/// A word joiner: invisible, and not part of any name, so it breaks mentions, references, links and commands.
const JOINER: char = '\u{2060}';
/// Bracketed words that make CI skip a commit.
const SKIPS: [&str; 5] = ["skip ", "ci skip", "no ci", "actions skip", "ci-skip"];

/// The content of a pull request's body.
#[derive(Clone, Copy, Debug)]
pub struct RequestBody<'a> {
    pub goal: &'a str,
    /// The result of the run in one line.
    pub outcome: &'a str,
    /// The commit that was verified.
    pub commit: &'a str,
    pub requirements: &'a [RequirementLine<'a>],
    /// Subjects, newest first.
    pub commits: &'a [String],
    pub files: &'a [String],
    /// Notes from the agent.
    pub notes: Option<&'a str>,
    pub redactor: &'a Redactor,
}

/// One requirement in the report.
#[derive(Clone, Copy, Debug)]
pub struct RequirementLine<'a> {
    pub mark: RequirementMark,
    pub name: &'a str,
    pub detail: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequirementMark {
    Met,
    Unmet,
    /// Waived by a person.
    Waived,
    Unknown,
}

/// Markdown of at most [`MOST_CHARACTERS`]; parts that do not fit are counted.
pub fn render_body(report: &RequestBody<'_>) -> String {
    let redactor = report.redactor;
    let mut page = RequestPage { out: String::new(), length: 0, left_out: 0 };
    page.add(&format!("{}\n", code_span(report.outcome, redactor)));
    page.add(&format!("\n## Goal\n\n{}", code_fence(report.goal, LONGEST_GOAL, redactor)));
    page.add(&format!("\n## Verified\n\nOn commit {}:\n\n", code_span(report.commit, redactor)));
    for RequirementLine { mark, name, detail } in report.requirements {
        let detail = detail.trim();
        let detail = if detail.is_empty() {
            String::new()
        } else {
            format!(" {}", code_span(detail, redactor))
        };
        page.add(&format!("- {} {}{detail}\n", mark.sign(), code_span(name, redactor)));
    }
    if let Some(notes) = report.notes {
        page.add(&format!(
            "\n## Notes from the agent\n\n{}",
            code_fence(notes, LONGEST_NOTES, redactor)
        ));
    }
    page.list("Commits", report.commits, redactor);
    page.list("Files", report.files, redactor);
    page.finish()
}

struct RequestPage {
    out: String,
    /// In characters.
    length: usize,
    left_out: usize,
}

impl RequestPage {
    /// Adds a part in full or not at all: half a fence would swallow the rest.
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
            self.add(&format!("- {}\n", code_span(item, redactor)));
        }
        self.left_out += items.len().saturating_sub(LISTED);
    }

    fn finish(mut self) -> String {
        if self.left_out > 0 {
            self.out.push_str(&format!("\n{} more omitted for length.\n", self.left_out));
        }
        self.out
    }
}

impl RequirementMark {
    fn sign(self) -> &'static str {
        match self {
            Self::Met => "✓",
            Self::Unmet => "✗",
            Self::Waived => "·",
            Self::Unknown => "?",
        }
    }
}

/// One line of foreign text as a code span.
pub fn code_span(foreign: &str, redactor: &Redactor) -> String {
    let line = text::clean_line(&redact_excerpt(foreign, LONGEST_LINE, redactor), LONGEST_LINE);
    // The delimiter comes first, so a slash is not at the beginning of a line, and a command can be copied.
    let line = neutralise_after('`', &line);
    if line.is_empty() {
        return "(empty)".to_owned();
    }
    let ticks = "`".repeat(longest_backtick_run(&line) + 1);
    // Markdown strips these spaces; they separate backticks in the text from the delimiters.
    if line.contains('`') {
        format!("{ticks} {line} {ticks}")
    } else {
        format!("{ticks}{line}{ticks}")
    }
}

/// Foreign text of several lines as a code block, cut to `most` characters.
pub fn code_fence(foreign: &str, most: usize, redactor: &Redactor) -> String {
    let cleaned = text::truncate(&text::clean(&redact_excerpt(foreign, most, redactor)), most);
    let inside = neutralise(cleaned.trim_matches('\n'));
    let ticks = "`".repeat(longest_backtick_run(&inside).max(2) + 1);
    format!("{ticks}text\n{inside}\n{ticks}\n")
}

/// A redacted excerpt that is long enough to show `most` characters. A secret that the first cut splits would not be
/// recognised, so the text near that cut is dropped.
fn redact_excerpt(foreign: &str, most: usize, redactor: &Redactor) -> String {
    let enough = most.saturating_mul(4).saturating_add(2 * MARGIN);
    let Some((end, _)) = foreign.char_indices().nth(enough) else {
        return redactor.redact(foreign);
    };
    let shown = redactor.redact(foreign.get(..end).unwrap_or_default());
    let count = shown.chars().count();
    text::truncate(&shown, count.saturating_sub(MARGIN))
}

fn longest_backtick_run(text: &str) -> usize {
    text.split(|char| char != '`').map(str::len).max().unwrap_or(0)
}

/// Breaks everything that a forge would act on: mentions, issue references, links, commands and CI skips.
pub(super) fn neutralise(text: &str) -> String {
    neutralise_after('\n', text)
}

fn neutralise_after(mut before: char, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, char) in text.char_indices() {
        let rest = text.get(at + char.len_utf8()..).unwrap_or_default();
        let next = rest.chars().next().unwrap_or(' ');
        // GitLab's quick actions are at the beginning of a line.
        if char == '/' && before == '\n' && next.is_ascii_alphabetic() {
            out.push(JOINER);
        }
        out.push(char);
        let is_acted_on = match char {
            '@' | '#' => next.is_alphanumeric() || matches!(next, '-' | '_'),
            ':' => rest.starts_with("//"),
            'h' | 'H' => matches!(before, 'g' | 'G') && next == '-',
            '[' => SKIPS.iter().any(|word| starts_with_ignore_case(rest, word)),
            _ => false,
        };
        if is_acted_on {
            out.push(JOINER);
        }
        before = char;
    }
    out
}

fn starts_with_ignore_case(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}
