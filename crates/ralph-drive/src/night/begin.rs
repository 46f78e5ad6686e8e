//! How a night begins: anew, or where another one broke off.

use super::{DriveError, Next, Night};
use crate::handoff;
use crate::meter;
use crate::ride::Word;
use crate::told::Told;
use ralph_core::drive::{Drove, Meter, Metered, Source};
use ralph_core::facts::{Declared, Driver};
use ralph_core::limits;
use ralph_core::record::{Change, Entry, Outcome, Rule};
use ralph_core::run::{Phase, State};
use ralph_core::status::Status;
use ralph_core::text;
use ralph_exec::proc::talk;
use ralph_exec::store::{Opened, StoreError};
use ralph_exec::{anchored, driven, fs, journal};
use std::path::PathBuf;

const LARGEST_GOAL: usize = 1024 * 1024;

/// What the last runner was about to do, from what it had put on record.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    /// The agent was at work, or had been told something.
    AtWork,
    /// It was to be looked at once more when its process had ended.
    Looking,
    HandingOver(String),
    Waiting,
}

impl Night<'_, '_> {
    pub(super) fn begin(&mut self, notes: &[String]) -> Result<Next, DriveError> {
        let Opened { run, state, .. } = self.ride.load()?;
        let gates = run.seal.iter().flat_map(|seal| &seal.policy.gates);
        self.ride.tell(&Told::Prepared {
            run: run.id.clone(),
            title: run.title.clone(),
            project: PathBuf::from(&run.project),
            gates: gates.map(|gate| text::line(&gate.name, 80)).collect(),
            notes: notes.to_vec(),
        });
        self.session.clone_from(&run.owner);
        if let Phase::Ended(status) = state.phase {
            return Err(DriveError::HasEnded { run: run.id, status });
        }
        if let Some(most) = self.ride.settings.day_micro_usd
            && self.ride.spent_today().is_some_and(|spent| spent >= most)
        {
            let why = format!("the {} of this day are spent", limits::money(most));
            return Ok(Next::Park(Status::Exhausted, why));
        }
        let next = match state.driving.count {
            0 => Next::First(self.prompt()?),
            _ => self.take_up(&state)?,
        };
        if state.driving.count > 0 || state.phase != Phase::Active {
            let world = self.ride.world(Driver::Alone, None).ok_or(StoreError::OutOfTime)?;
            driven::goes_on(&world, &run.id)?;
        }
        self.ride.stands(None)?;
        Ok(next)
    }

    /// Whoever is left of the last process ends first: two agents in one tree undo each other's work.
    fn take_up(&mut self, state: &State) -> Result<Next, DriveError> {
        if let Some(mark) = state.driving.latest().and_then(|driven| driven.session.mark.as_ref()) {
            talk::end_marked(mark);
        }
        let entries = journal::read(&self.ride.home.run(&self.ride.run).journal());
        let entries = entries.map(|read| read.entries).unwrap_or_default();
        if is_unbilled(&entries) {
            self.charge_unbilled(state)?;
        }
        Ok(match left(&entries) {
            Left::Waiting => match &state.driving.wait {
                Some(wait) => Next::WaitOn(wait.clone()),
                None => Next::Say(self.continuation()?),
            },
            Left::HandingOver(why) => Next::HandOver(why),
            Left::Looking => Next::Look,
            Left::AtWork if !state.hints.is_empty() => {
                self.ride.word = Word::ToBePassedOn;
                let question = match &state.declared {
                    Some(Declared::NeedsHuman(question)) => question.as_str(),
                    Some(Declared::Waiting { .. }) | None => "",
                };
                Next::Say(handoff::answered(question, &state.hints.join("\n")))
            }
            Left::AtWork => Next::Say(self.continuation()?),
        })
    }

    /// A runner that died could not say what its agent was at: nobody will ever bill it, so the worst is taken.
    fn charge_unbilled(&self, state: &State) -> Result<(), DriveError> {
        let Some(latest) = state.driving.latest() else { return Ok(()) };
        let worst = meter::worst_turn(&state.driving, &self.ride.settings);
        let metered = Metered {
            session: latest.session.id.clone(),
            source: Source::Agent,
            micro_usd: latest.spent.micro_usd.saturating_add(worst),
            tokens: latest.spent.tokens,
            turns: latest.turns,
            meter: Meter::Assumed,
        };
        self.ride.record(Drove::Metered(metered))?;
        Ok(())
    }

    /// What a first session starts from: the goal as it was given, and what the agent is held to.
    pub(super) fn prompt(&self) -> Result<String, DriveError> {
        let opened = self.ride.load()?;
        let path = self.ride.home.run(&self.ride.run).goal();
        let goal = fs::read_range(&path, 0, LARGEST_GOAL).unwrap_or_default();
        let goal = String::from_utf8_lossy(&goal);
        let world = self.ride.world(Driver::Alone, None).ok_or(StoreError::OutOfTime)?;
        // The goal stands above it, whole.
        let held = anchored::terms(&world, &opened);
        Ok(if goal.trim().is_empty() { held } else { format!("{}\n\n{held}", goal.trim_end()) })
    }
}

/// Whether an agent was at work when its runner died. One that was parked was billed first.
fn is_unbilled(entries: &[Entry]) -> bool {
    let mut drove = entries.iter().rev().filter_map(|entry| {
        let Change::Drove(drove) = &entry.change else { return None };
        Some(&**drove)
    });
    let last = drove.find(|one| matches!(one, Drove::Session(_) | Drove::Parked { .. }));
    matches!(last, Some(Drove::Session(_)))
}

fn left(entries: &[Entry]) -> Left {
    entries.iter().rev().find_map(|entry| told(&entry.change)).unwrap_or(Left::AtWork)
}

fn told(change: &Change) -> Option<Left> {
    if let Change::Decided(decided) = change {
        return Some(match (&decided.outcome, decided.rule) {
            (Outcome::HandedOver, _) => Left::HandingOver(decided.because.clone()),
            (Outcome::Allowed, Rule::FinalLook) => Left::Looking,
            _ => Left::AtWork,
        });
    }
    let Change::Drove(drove) = change else { return None };
    match drove.as_ref() {
        Drove::Waits(_) => Some(Left::Waiting),
        Drove::HandsOver { why, .. } => Some(Left::HandingOver(why.clone())),
        Drove::Session(_)
        | Drove::Woke
        | Drove::WaitedEnough { .. }
        | Drove::Broke { .. }
        | Drove::Silent { .. } => Some(Left::AtWork),
        Drove::Metered(_)
        | Drove::Tried { .. }
        | Drove::Parked { .. }
        | Drove::Settled { .. }
        | Drove::Granted { .. }
        | Drove::PassedOn => None,
    }
}
