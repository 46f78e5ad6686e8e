//! Prints entries as they come.

use super::super::print_json;
use crate::story::Story;
use crate::term::{self, Reader};
use ralph_sim::stage::Stage;
use ralph_sim::timeline::Entry;

/// Nobody reads more; `--json` has it all.
const MOST_LINES: usize = 2_000;
/// Of different notices that are kept.
const MOST_NOTICES: usize = 20;

/// How much is told while it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    Story,
    Json,
    Nothing,
}

pub(super) struct Show {
    telling: Telling,
    pub story: Story,
    /// Notices and remarks, each once, where they are not told as they come.
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
                        term::out("            … and so on; `--json` tells all of it\n")
                    }
                    () => term::out(&text),
                }
            }
        };
        // Whoever cannot be printed to is not printed to again.
        self.reader = printed.unwrap_or(Reader::Gone);
    }

    /// What may be the cause of a disappointment.
    fn keep(&mut self, entry: &Entry) {
        match entry {
            // Says nothing by itself.
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
