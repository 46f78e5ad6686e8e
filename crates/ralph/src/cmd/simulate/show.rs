//! Prints the entries of a timeline as they come, or collects the notices of a scenario that is played quietly.

use super::super::print_json;
use crate::story::Story;
use crate::term::{self, Reader};
use ralph_sim::stage::Stage;
use ralph_sim::timeline::Entry;

/// The limit on printed lines; `--json` has none.
const MOST_LINES: usize = 2_000;
/// The limit on collected notices.
const MOST_NOTICES: usize = 20;

/// What is printed while a scenario is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    Story,
    Json,
    Nothing,
}

pub(super) struct Show {
    telling: Telling,
    pub story: Story,
    /// Distinct notices and remarks, if they are not printed as they come.
    pub notices: Vec<String>,
    lines: usize,
    reader: Reader,
}

impl Show {
    pub(super) fn new(telling: Telling, stage: &Stage) -> Self {
        let story = Story::of(stage);
        Self { telling, story, notices: Vec::new(), lines: 0, reader: Reader::There }
    }

    pub(super) fn entry(&mut self, entry: &Entry) {
        let printed = match self.telling {
            Telling::Nothing => return self.keep(entry),
            Telling::Story | Telling::Json if self.reader == Reader::Gone => return,
            Telling::Json => print_json(entry),
            Telling::Story => {
                let text = self.story.tell(entry);
                let before = self.lines;
                self.lines += text.lines().count();
                match () {
                    () if before >= MOST_LINES => return,
                    () if self.lines >= MOST_LINES => {
                        term::out("            … cut off here; `--json` prints everything\n")
                    }
                    () => term::out(&text),
                }
            }
        };
        // After a failed write, nothing more is printed.
        self.reader = printed.unwrap_or(Reader::Gone);
    }

    /// Collects notices, which may explain a mismatch.
    fn keep(&mut self, entry: &Entry) {
        match entry {
            // Has no information: a remark on the hook follows.
            Entry::Notice { text } if text.ends_with(" hook error occurred") => {}
            Entry::Notice { text } => self.note(text),
            Entry::Hook(hook) => {
                for remark in hook.handlers.iter().filter_map(|handled| handled.remark.as_ref()) {
                    self.note(&format!("{}: {remark}", hook.event));
                }
            }
            Entry::Prompt { .. }
            | Entry::Request(_)
            | Entry::Reply(_)
            | Entry::Tool(_)
            | Entry::Ending(_)
            | Entry::Run { .. }
            | Entry::Exit { .. } => {}
        }
    }

    fn note(&mut self, text: &str) {
        let text = self.story.notice(text);
        if self.notices.len() < MOST_NOTICES && !self.notices.contains(&text) {
            self.notices.push(text);
        }
    }
}
