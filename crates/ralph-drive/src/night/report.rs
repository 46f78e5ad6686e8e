//! The final report of a driven run, and the next command it suggests.

use super::{DriveError, Night};
use crate::ending::Ending;
use crate::ride;
use crate::told::{Denied, Open, Report};
use ralph_core::drive::{Drove, Meter, Metered, Source};
use ralph_core::ending;
use ralph_core::record::{Change, Entry, Known, Outcome, Run};
use ralph_core::run::Phase;
use ralph_core::status::Status;
use ralph_core::text;
use ralph_git::{git, worktree};
use ralph_home::store::Opened;
use ralph_hook::trail::{self, Trail};
use std::collections::BTreeMap;
use std::path::Path;

const SHOWN_OPEN: usize = 20;
const SHOWN_ID: usize = 10;

/// What a person has to do before a parked run can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    GoOn,
    /// Answer the agent's question.
    Answer,
    /// Resolve a conflict with the target branch.
    Resolve,
    Trust,
    LogIn,
    Pay,
    /// Start another run: the model of this one does not exist and cannot be changed.
    BeginAnother,
    CopyAnother,
}

impl Advice {
    pub(super) fn of(ending: &Ending) -> Self {
        match ending {
            Ending::Auth(_) => Self::LogIn,
            Ending::Billing(_) => Self::Pay,
            Ending::NotFound(_) => Self::BeginAnother,
            Ending::Done
            | Ending::Unasked
            | Ending::Overridden
            | Ending::Empty
            | Ending::HookStopped
            | Ending::MaxTurns
            | Ending::Budget
            | Ending::RateLimited { .. }
            | Ending::Overloaded
            | Ending::Network
            | Ending::Server
            | Ending::ContextFull
            | Ending::OutputLimit
            | Ending::Refused
            | Ending::Interrupted
            | Ending::NoSession
            | Ending::Error(_)
            | Ending::Crashed(_)
            | Ending::Silent => Self::GoOn,
        }
    }
}

impl Night<'_, '_> {
    pub(super) fn report(&mut self) -> Result<Report, DriveError> {
        let Opened { run, state, .. } = self.ride.load()?;
        let phase = self.ride.phase()?;
        let entries = self.ride.entries();
        let (status, because) = match (phase, &state.driving.parked) {
            (Phase::Ended(status), _) => (status, because(&entries, status)),
            (_, Some(parked)) => (parked.status, parked.why.clone()),
            (Phase::Active | Phase::Orphaned | Phase::Paused { .. }, None) => {
                (Status::Crashed, "no runner drives it any more".to_string())
            }
        };
        let trail = trail::keep(self.ride.home, &run, "end of the run");
        let standing = ride::standing(&run, &state, None);
        let lines = state.report.iter().flat_map(|report| &report.lines);
        let open = lines.filter(|line| line.standing != Known::Advisory).take(SHOWN_OPEN);
        let next = match phase {
            Phase::Ended(Status::Verified) => self.to_look_at(&run, &trail),
            Phase::Ended(Status::Exhausted) => Some(ending::another(&run.id, status)),
            Phase::Ended(_) => Some(format!("ralph why {}", run.id)),
            Phase::Active | Phase::Orphaned | Phase::Paused { .. } => Some(self.to_go_on(&run)),
        };
        let settled = settled(&entries);
        let is_mentioned = settled.is_some() || self.names_tree(&because);
        let unmerged = self.unmerged(&trail).filter(|_| !is_mentioned);
        let denied = |(tool, count): (&String, &u32)| Denied { tool: tool.clone(), count: *count };
        Ok(Report {
            run: run.id.clone(),
            title: run.title.clone(),
            status,
            because: self.ride.redactor.redact(&because),
            standing,
            open: open
                .map(|line| Open { name: line.name.clone(), note: text::line(&line.note, 200) })
                .collect(),
            met: state.report.as_ref().map(|report| report.met.clone()).unwrap_or_default(),
            // A commit made after the verification was not judged.
            commit: trail.commit().filter(|commit| {
                self.judged.as_ref().is_none_or(|judged| judged.starts_with(commit.as_str()))
            }),
            uncommitted: trail.work.as_ref().map(|work| work.changed_count),
            files: trail.files,
            commits: trail.commits,
            checkpoint: trail.checkpoint.map(|number| number.to_string()),
            next,
            settled,
            unmerged,
            assumed_micro_usd: assumed(&entries),
            denied: self.ride.denied.iter().map(denied).collect(),
            sessions: state.driving.sessions.iter().map(|it| it.session.id.clone()).collect(),
        })
    }

    /// How the run's work tree was settled, if it was.
    pub(super) fn settled(&self) -> Option<String> {
        settled(&self.ride.entries())
    }

    fn unmerged(&self, trail: &Trail) -> Option<String> {
        let worktree = self.ride.settings.worktree.as_ref()?;
        let changed = trail.work.as_ref().map(|work| work.changed_count);
        Some(worktree::unmerged(worktree, changed))
    }

    /// Whether the reason already contains the path of the work tree.
    fn names_tree(&self, because: &str) -> bool {
        let worktree = self.ride.settings.worktree.as_ref();
        worktree.is_some_and(|worktree| because.contains(&format!("`{}`", worktree.path)))
    }

    /// The command that shows the verified work from the person's directory. Landed work is reported separately.
    fn to_look_at(&self, run: &Run, trail: &Trail) -> Option<String> {
        let work = trail.work.as_ref().filter(|_| self.ride.settings.worktree.is_none())?;
        let project = Path::new(&run.project);
        let here = self.ride.client.env.current_dir();
        let is_here = here.is_some_and(|here| git::root(&here) == git::root(project));
        let git = if is_here { "git".to_string() } else { worktree::git_at(&run.project) };
        let base = self.ride.settings.base().filter(|base| work.head.as_deref() != Some(*base));
        let base = base.map(|base| base.get(..SHOWN_ID).unwrap_or(base));
        match (work.changed_count, &work.head) {
            (0, _) => Some(format!("{git} diff {}", base?)),
            (_, Some(_)) => Some(format!("{git} status && {git} diff {}", base.unwrap_or("HEAD"))),
            (_, None) => Some(format!("{git} status")),
        }
    }

    fn to_go_on(&self, run: &Run) -> String {
        let id = &run.id;
        let go_on = format!("ralph run --resume {id}");
        match self.advice {
            Advice::GoOn => go_on,
            Advice::Answer => format!("ralph tell {id} \"…\" && {go_on}"),
            Advice::Trust => format!("ralph trust && {go_on}"),
            Advice::LogIn => format!("`claude /login` or set its API key, then `{go_on}`"),
            Advice::Pay => format!("fix the billing problem, then `{go_on}`"),
            Advice::BeginAnother => {
                format!("`ralph run --model …` with another model, or `{go_on}` once it exists")
            }
            Advice::CopyAnother => {
                "`ralph run … --fork` with a session that the agent has".to_string()
            }
            Advice::Resolve => match &self.ride.settings.worktree {
                Some(tree) => {
                    let merge = worktree::resolve(tree);
                    format!("`{merge}`, resolve and commit there, then `{go_on}`")
                }
                None => go_on,
            },
        }
    }
}

/// Why the run ended, from its journal.
fn because(entries: &[Entry], status: Status) -> String {
    let ended = entries.iter().rev().find_map(|entry| {
        if let Change::Decided(decided) = &entry.change
            && let Outcome::Ended(_) = decided.outcome
        {
            return Some(decided.because.clone());
        }
        if let Change::Overridden { how } = &entry.change {
            return Some(how.clone());
        }
        (entry.change == Change::Cancelled).then(|| "cancelled by a person".to_string())
    });
    ended.unwrap_or_else(|| status.name().to_string())
}

fn settled(entries: &[Entry]) -> Option<String> {
    entries.iter().rev().find_map(|entry| {
        let Change::Drove(drove) = &entry.change else { return None };
        let Drove::Settled { how } = drove.as_ref() else { return None };
        Some(how.clone())
    })
}

/// The part of the metered cost that was assumed and never billed.
fn assumed(entries: &[Entry]) -> u64 {
    let mut sessions: BTreeMap<&str, Assumed> = BTreeMap::new();
    for entry in entries {
        let Change::Drove(drove) = &entry.change else { continue };
        match drove.as_ref() {
            // A new process does not bill what an earlier one spent.
            Drove::Session(session) => {
                sessions.entry(session.id.as_str()).or_default().in_flight = 0;
            }
            Drove::Metered(metered) if metered.source == Source::Agent => {
                sessions.entry(metered.session.as_str()).or_default().add(metered);
            }
            Drove::Metered(_)
            | Drove::HandsOver { .. }
            | Drove::Waits(_)
            | Drove::Woke
            | Drove::WaitedEnough { .. }
            | Drove::Tried { .. }
            | Drove::Silent { .. }
            | Drove::Broke { .. }
            | Drove::Parked { .. }
            | Drove::Settled { .. }
            | Drove::Granted { .. }
            | Drove::PassedOn => {}
        }
    }
    sessions.values().fold(0, |sum: u64, session| sum.saturating_add(session.micro_usd))
}

/// The assumed cost of one session.
#[derive(Default)]
struct Assumed {
    spent: u64,
    micro_usd: u64,
    /// The part that belongs to a turn that may still be billed.
    in_flight: u64,
}

impl Assumed {
    fn add(&mut self, metered: &Metered) {
        let grown = metered.micro_usd.saturating_sub(self.spent);
        match metered.meter {
            Meter::Assumed => {
                self.micro_usd = self.micro_usd.saturating_add(grown);
                self.in_flight = self.in_flight.saturating_add(grown);
            }
            Meter::Told => {
                // If the bill is lower than the assumption, the rest stays assumed: recorded costs never shrink.
                let left = self.spent.saturating_sub(metered.micro_usd).min(self.in_flight);
                let billed = std::mem::take(&mut self.in_flight).saturating_sub(left);
                self.micro_usd = self.micro_usd.saturating_sub(billed);
            }
        }
        self.spent = self.spent.max(metered.micro_usd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::drive::{How, Session};
    use ralph_core::id::SessionId;

    /// A cost that is assumed in the middle of a turn is billed at its end, unless the process exits first.
    #[test]
    fn only_unbilled_costs_stay_assumed() {
        use Meter::{Assumed, Told};
        for (story, expected) in [
            (&[Some((5, Told)), Some((9, Told))][..], 0),
            (&[Some((5, Told)), Some((8, Assumed)), Some((9, Told))], 0),
            (&[Some((5, Told)), Some((8, Assumed)), Some((6, Told))], 2),
            (&[Some((5, Told)), Some((15, Assumed))], 10),
            (&[Some((5, Told)), Some((15, Assumed)), None, Some((16, Told))], 10),
            (&[Some((1, Assumed)), None, Some((2, Assumed)), None, Some((7, Told))], 2),
            (&[], 0),
        ] {
            let id = SessionId::parse("s1").unwrap();
            let entries = story.iter().map(|step| match step {
                None => Drove::Session(Session {
                    id: id.clone(),
                    how: How::Resumed,
                    model: None,
                    argv: Vec::new(),
                    env: Vec::new(),
                    mark: None,
                }),
                Some((micro_usd, meter)) => Drove::Metered(Metered {
                    session: id.clone(),
                    source: Source::Agent,
                    micro_usd: *micro_usd,
                    tokens: 0,
                    turns: 0,
                    meter: *meter,
                }),
            });
            let entries: Vec<_> = entries.map(entry).collect();
            assert_eq!(assumed(&entries), expected, "{story:?}");
        }
    }

    fn entry(drove: Drove) -> Entry {
        Entry {
            v: ralph_core::record::VERSION,
            seq: 0,
            at_ms: 0,
            iteration: 0,
            change: Change::Drove(Box::new(drove)),
            prev: String::new(),
            after: String::new(),
        }
    }
}
