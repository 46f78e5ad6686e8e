//! Hand-over from one session to the next: its text is written, the old process ends and a fresh one reads the text.

use super::{DriveError, NextStep, RunLoop, STOPPED_BY_SIGNAL};
use crate::run_event::RunEvent;
use crate::session::AgentConversation;
use crate::session_prompts::{self, HandoverInput};
use crate::stop_requests::StopRequest;
use ralph_core::drive::RunnerEvent;
use ralph_core::record::{JournalEntry, RunChange};
use ralph_core::status::RunStatus;
use ralph_home::faults::describe_error;
use ralph_home::goal_file;
use ralph_home::store::LoadedRun;
use ralph_hook::run_output;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability};

impl RunLoop<'_, '_> {
    pub(super) fn hand_over(&mut self, why: &str) -> Result<NextStep, DriveError> {
        let permille = self.conversation.as_ref().and_then(AgentConversation::context_permille);
        self.ctx.record(RunnerEvent::HandsOver { why: why.to_string(), permille })?;
        let notes = match &mut self.conversation {
            Some(conversation) => conversation.request_notes(self.ctx)?,
            None => None,
        };
        self.terminate_conversation()?;
        if self.ctx.stop_request() != StopRequest::None {
            return Ok(NextStep::Park(RunStatus::Cancelled, STOPPED_BY_SIGNAL.to_string()));
        }
        let text = self.write_handover(why, notes.as_deref())?;
        let handover = self.ctx.home.run(&self.ctx.run).handover();
        self.ctx.emit(&RunEvent::HandedOver { why: why.to_string(), permille, handover });
        Ok(NextStep::Fresh(text))
    }

    /// Builds the hand-over from recorded facts and saves a copy in the run's directory.
    fn write_handover(&mut self, why: &str, notes: Option<&str>) -> Result<String, DriveError> {
        let LoadedRun { run, state, .. } = self.ctx.load()?;
        let paths = self.ctx.home.run(&run.id);
        let trail =
            run_output::capture_output(self.ctx.home, &run, "handed over to a fresh session");
        let goal = goal_file::read_goal(self.ctx.home, &run)?;
        let entries = self.ctx.entries_for_display();
        let learned = |entry: &JournalEntry| {
            let RunChange::Learned { title, .. } = &entry.change else { return None };
            Some(title.clone())
        };
        let learnings: Vec<_> = entries.iter().filter_map(learned).collect();
        let goal = String::from_utf8_lossy(&goal);
        let handover = HandoverInput {
            goal: &goal,
            run: &run,
            state: &state,
            entries: &entries,
            changed: &trail.files,
            commits: &trail.commits,
            learnings: &learnings,
            notes,
            why,
            nonce: clock::nonce(),
        };
        let text = session_prompts::handover_text(&handover, &self.ctx.redactor);
        // The next session gets it in its prompt; the files are only for people.
        let next_session = state.driving.count.saturating_add(1);
        for path in [paths.handover(), paths.numbered_handover(next_session)] {
            if let Err(error) = fs::replace(&path, text.as_bytes(), Durability::Cached) {
                self.ctx.note(&format!("the hand-over was not saved: {}", describe_error(&error)));
            }
        }
        Ok(text)
    }
}
