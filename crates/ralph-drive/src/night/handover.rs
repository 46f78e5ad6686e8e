//! Hand-over from one session to the next: the handoff is written, the old process ends and a fresh one reads it.

use super::{DriveError, Next, Night, WISHED};
use crate::handoff::{self, Handoff};
use crate::session::Conversation;
use crate::told::Told;
use crate::wishes::Wish;
use ralph_core::drive::Drove;
use ralph_core::record::{Change, Entry};
use ralph_core::status::Status;
use ralph_home::store::Opened;
use ralph_hook::trail;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability};

const LARGEST_GOAL: usize = 64 * 1024;

impl Night<'_, '_> {
    pub(super) fn hand_over(&mut self, why: &str) -> Result<Next, DriveError> {
        let permille = self.open.as_ref().and_then(Conversation::permille);
        self.ride.record(Drove::HandsOver { why: why.to_string(), permille })?;
        let notes = match &mut self.open {
            Some(conversation) => conversation.notes(self.ride)?,
            None => None,
        };
        self.cut_off()?;
        if self.ride.wish() != Wish::None {
            return Ok(Next::Park(Status::Cancelled, WISHED.to_string()));
        }
        let text = self.handoff(why, notes.as_deref())?;
        let handoff = self.ride.home.run(&self.ride.run).handoff();
        self.ride.tell(&Told::HandedOver { why: why.to_string(), permille, handoff });
        Ok(Next::Fresh(text))
    }

    /// Builds the handoff from recorded facts and saves a copy in the run's directory.
    fn handoff(&mut self, why: &str, notes: Option<&str>) -> Result<String, DriveError> {
        let Opened { run, state, .. } = self.ride.load()?;
        let paths = self.ride.home.run(&run.id);
        let trail = trail::keep(self.ride.home, &run, "handed over to a fresh session");
        let goal = fs::read_range(&paths.goal(), 0, LARGEST_GOAL).unwrap_or_default();
        let entries = self.ride.entries();
        let learned = |entry: &Entry| {
            let Change::Learned { title, .. } = &entry.change else { return None };
            Some(title.clone())
        };
        let learnings: Vec<_> = entries.iter().filter_map(learned).collect();
        let goal = String::from_utf8_lossy(&goal);
        let handoff = Handoff {
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
        let text = handoff::text(&handoff, &self.ride.redactor);
        // The next session gets it in its prompt; the file is only for people, so a failed write is harmless.
        drop(fs::replace(&paths.handoff(), text.as_bytes(), Durability::Cached));
        Ok(text)
    }
}
