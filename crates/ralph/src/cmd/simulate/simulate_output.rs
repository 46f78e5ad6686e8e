//! Prints the entries of a timeline as they come, or collects the notices of a scenario that is played quietly.

use super::super::print_json;
use crate::failure::CommandFailure;
use crate::term::{self, OutputReader};
use crate::timeline_view::TimelineView;
use ralph_sim::scratch::ScratchProject;
use ralph_sim::timeline::TimelineEntry;

/// The limit on printed lines; `--json` has none.
const MAX_PRINTED_LINES: usize = 2_000;
/// The limit on collected notices.
const MAX_NOTICES: usize = 20;

/// What is printed while a scenario is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputMode {
    Text,
    Json,
    Quiet,
}

pub(super) struct EntryPrinter {
    mode: OutputMode,
    pub view: TimelineView,
    /// Distinct notices and remarks, if they are not printed as they come.
    pub notices: Vec<String>,
    lines: usize,
    /// After a failed write, nothing more is printed.
    pub reader: Result<OutputReader, CommandFailure>,
}

impl EntryPrinter {
    pub(super) fn new(mode: OutputMode, stage: &ScratchProject) -> Self {
        let story = TimelineView::for_stage(stage);
        Self { mode, view: story, notices: Vec::new(), lines: 0, reader: Ok(OutputReader::Open) }
    }

    pub(super) fn print_entry(&mut self, entry: &TimelineEntry) {
        let is_open = matches!(self.reader, Ok(OutputReader::Open));
        self.reader = match self.mode {
            OutputMode::Quiet => return self.collect_notices(entry),
            OutputMode::Text | OutputMode::Json if !is_open => return,
            OutputMode::Json => print_json(entry),
            OutputMode::Text => {
                let text = self.view.render(entry);
                let before = self.lines;
                self.lines += text.lines().count();
                match () {
                    () if before >= MAX_PRINTED_LINES => return,
                    () if self.lines >= MAX_PRINTED_LINES => {
                        term::out("            … cut off here; `--json` prints everything\n")
                    }
                    () => term::out(&text),
                }
            }
        };
    }

    /// Collects notices, which may explain a mismatch.
    fn collect_notices(&mut self, entry: &TimelineEntry) {
        match entry {
            // Has no information: a remark on the hook follows.
            TimelineEntry::Notice { text } if text.ends_with(" hook error occurred") => {}
            TimelineEntry::Notice { text } => self.note(text),
            TimelineEntry::Hook(hook) => {
                for remark in hook.handlers.iter().filter_map(|handled| handled.remark.as_ref()) {
                    self.note(&format!("{}: {remark}", hook.event));
                }
            }
            TimelineEntry::Prompt { .. }
            | TimelineEntry::Request(_)
            | TimelineEntry::Reply(_)
            | TimelineEntry::Tool(_)
            | TimelineEntry::Ending(_)
            | TimelineEntry::Run { .. }
            | TimelineEntry::Exit { .. } => {}
        }
    }

    fn note(&mut self, text: &str) {
        let text = self.view.notice(text);
        if self.notices.len() < MAX_NOTICES && !self.notices.contains(&text) {
            self.notices.push(text);
        }
    }
}
