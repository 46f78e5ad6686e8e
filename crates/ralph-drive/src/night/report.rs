//! What is told at the end.

use super::{DriveError, Night};
use crate::ride;
use crate::told::{Open, Report};
use ralph_core::drive::Drove;
use ralph_core::record::{Change, Known, Outcome};
use ralph_core::run::Phase;
use ralph_core::status::Status;
use ralph_core::text;
use ralph_exec::store::Opened;
use ralph_exec::{journal, trail};

const SHOWN_OPEN: usize = 20;

impl Night<'_, '_> {
    pub(super) fn report(&mut self) -> Result<Report, DriveError> {
        let Opened { run, state, .. } = self.ride.load()?;
        let phase = self.ride.phase()?;
        let (status, because) = match (phase, &state.driving.parked) {
            (Phase::Ended(status), _) => (status, self.because(status)),
            (_, Some(parked)) => (parked.status, parked.why.clone()),
            (Phase::Active | Phase::Orphaned | Phase::Paused { .. }, None) => {
                (Status::Crashed, "nobody drives it any more".to_string())
            }
        };
        let trail = trail::keep(self.ride.home, &run, "end of the run");
        let standing = ride::standing(&run, &state, None);
        let lines = state.report.iter().flat_map(|report| &report.lines);
        let open = lines.filter(|line| line.standing != Known::Advisory).take(SHOWN_OPEN);
        let id = &run.id;
        let next = match (phase, status) {
            (Phase::Ended(Status::Verified), _) => None,
            (Phase::Ended(_), _) => Some(format!("ralph why {id}")),
            (_, Status::NeedsHuman) => {
                Some(format!("ralph tell {id} \"…\" && ralph run --resume {id}"))
            }
            _ => Some(format!("ralph run --resume {id}")),
        };
        Ok(Report {
            run: id.clone(),
            title: run.title.clone(),
            status,
            because: self.ride.redactor.redact(&because),
            standing,
            open: open
                .map(|line| Open { name: line.name.clone(), note: text::line(&line.note, 200) })
                .collect(),
            met: state.report.as_ref().map(|report| report.met.clone()).unwrap_or_default(),
            files: trail.files,
            commits: trail.commits,
            checkpoint: trail.checkpoint.map(|number| number.to_string()),
            next,
            settled: self.settled(),
            sessions: state.driving.sessions.iter().map(|it| it.session.id.clone()).collect(),
        })
    }

    /// What became of its work tree.
    pub(super) fn settled(&self) -> Option<String> {
        let entries = journal::read(&self.ride.home.run(&self.ride.run).journal());
        let entries = entries.map(|read| read.entries).unwrap_or_default();
        entries.into_iter().rev().find_map(|entry| {
            let Change::Drove(drove) = entry.change else { return None };
            let Drove::Settled { how } = *drove else { return None };
            Some(how)
        })
    }

    /// What the rule saw that ended it.
    fn because(&self, status: Status) -> String {
        let entries = journal::read(&self.ride.home.run(&self.ride.run).journal());
        let entries = entries.map(|read| read.entries).unwrap_or_default();
        let ended = entries.iter().rev().find_map(|entry| {
            if let Change::Decided(decided) = &entry.change
                && let Outcome::Ended(_) = decided.outcome
            {
                return Some(decided.because.clone());
            }
            if let Change::Overridden { how } = &entry.change {
                return Some(how.clone());
            }
            (entry.change == Change::Cancelled).then(|| "a person cancelled it".to_string())
        });
        ended.unwrap_or_else(|| status.name().to_string())
    }
}
