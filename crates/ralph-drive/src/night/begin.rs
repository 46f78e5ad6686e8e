//! Start of the loop: with a new run, or where a previous runner stopped or died.

use super::{DriveError, Next, Night};
use crate::handoff;
use crate::meter;
use crate::ride::Word;
use crate::told::Told;
use ralph_core::drive::{Drove, Meter, Metered, Source};
use ralph_core::facts::{Declared, Driver};
use ralph_core::id::SessionId;
use ralph_core::limits;
use ralph_core::record::{Change, Entry, Outcome, Rule};
use ralph_core::run::{Phase, State};
use ralph_core::status::Status;
use ralph_core::text;
use ralph_home::store::{Opened, StoreError};
use ralph_hook::{anchored, driven};
use ralph_sys::fs;
use ralph_sys::proc::talk;
use std::collections::BTreeMap;
use std::path::PathBuf;

const LARGEST_GOAL: usize = 1024 * 1024;

/// What the previous runner was about to do, derived from the journal.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    /// The agent was working, or a message had been sent to it.
    AtWork,
    /// The work was about to be verified after the agent's exit.
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
        let entries = self.ride.entries();
        if state.driving.count > 0 || state.phase != Phase::Active {
            // Must be the first entry: the time without a runner does not count towards the run.
            let world = self.ride.world(Driver::Alone, None).ok_or(StoreError::OutOfTime)?;
            driven::goes_on(&world, &run.id)?;
        }
        let next = match state.driving.count {
            0 => Next::First(self.prompt()?),
            _ => self.take_up(&state, &entries)?,
        };
        self.ride.stands(None)?;
        if let Some(most) = self.ride.settings.day_micro_usd
            && self.ride.spent_today().is_some_and(|spent| spent >= most)
        {
            let why = format!("today's budget of {} is spent", limits::money(most));
            return Ok(Next::Park(Status::Exhausted, why));
        }
        Ok(next)
    }

    /// Resumes the run. Leftover processes of the last agent are killed first: two agents in one work tree would undo
    /// each other's work.
    fn take_up(&mut self, state: &State, entries: &[Entry]) -> Result<Next, DriveError> {
        if let Some(mark) = state.driving.latest().and_then(|driven| driven.session.mark.as_ref()) {
            talk::end_marked(mark);
        }
        if is_unbilled(entries) {
            self.charge_unbilled(state)?;
        }
        Ok(match left(entries) {
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

    /// Charges the worst case for a turn that was cut off when its runner died: no bill will ever arrive for it.
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
        self.ride.charge(latest.spent, metered)?;
        Ok(())
    }

    /// The prompt of the first session: the goal as given, followed by the terms of the run.
    pub(super) fn prompt(&self) -> Result<String, DriveError> {
        let opened = self.ride.load()?;
        let path = self.ride.home.run(&self.ride.run).goal();
        let goal = fs::read_range(&path, 0, LARGEST_GOAL).unwrap_or_default();
        let goal = String::from_utf8_lossy(&goal);
        let world = self.ride.world(Driver::Alone, None).ok_or(StoreError::OutOfTime)?;
        // The terms do not repeat the goal: it precedes them in full.
        let held = anchored::terms(&world, &opened);
        Ok(if goal.trim().is_empty() { held } else { format!("{}\n\n{held}", goal.trim_end()) })
    }
}

/// Whether an agent was working when its runner died: a message was sent to it and no bill arrived since.
fn is_unbilled(entries: &[Entry]) -> bool {
    let mut turns: BTreeMap<&SessionId, u32> = BTreeMap::new();
    let mut is_at_work = false;
    for entry in entries {
        if let Change::Decided(decided) = &entry.change {
            // After a block the agent goes on working, whether it was answered in-band or by a message.
            is_at_work |= matches!(decided.outcome, Outcome::Blocked { .. });
        }
        let Change::Drove(drove) = &entry.change else { continue };
        match &**drove {
            Drove::Session(_) | Drove::Woke | Drove::PassedOn | Drove::HandsOver { .. } => {
                is_at_work = true;
            }
            Drove::Broke { .. } | Drove::Parked { .. } | Drove::Waits(_) => is_at_work = false,
            Drove::Metered(metered) if metered.source == Source::Agent => {
                let known = turns.insert(&metered.session, metered.turns);
                is_at_work &= metered.turns <= known.unwrap_or(0);
            }
            Drove::Metered(_)
            | Drove::Tried { .. }
            | Drove::Silent { .. }
            | Drove::WaitedEnough { .. }
            | Drove::Settled { .. }
            | Drove::Granted { .. } => {}
        }
    }
    is_at_work
}

fn left(entries: &[Entry]) -> Left {
    entries.iter().rev().find_map(|entry| told(&entry.change)).unwrap_or(Left::AtWork)
}

fn told(change: &Change) -> Option<Left> {
    if let Change::Decided(decided) = change {
        return Some(match (&decided.outcome, decided.rule) {
            (Outcome::HandedOver, _) => Left::HandingOver(decided.because.clone()),
            (Outcome::Allowed, Rule::FinalLook) => Left::Looking,
            // Decided after a person had stopped the run: an earlier entry shows what it was doing.
            (_, Rule::Off) => return None,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Journal entries from a list of short names.
    fn entries(words: &str) -> Vec<Entry> {
        let decided = |rule: &str, outcome: &str| {
            format!(
                r#"{{"decided":{{"rule":"{rule}","outcome":{outcome},"because":"","took_ms":0}}}}"#
            )
        };
        let drove = |drove: &str| format!(r#"{{"drove":{drove}}}"#);
        let metered = |turns: &str, source: &str| {
            drove(&format!(
                r#"{{"metered":{{"session":"s1","source":"{source}","micro_usd":1,"tokens":1,"turns":{turns}}}}}"#
            ))
        };
        let change = |word: &str| match word {
            "session" => drove(r#"{"session":{"id":"s1","how":"fresh","argv":[]}}"#),
            "waits" => drove(
                r#"{"waits":{"cause":"rate_limit","since_ms":0,"until_ms":1,"attempt":1,"why":""}}"#,
            ),
            "woke" => drove(r#""woke""#),
            "broke" => drove(r#"{"broke":{"how":""}}"#),
            "parked" => drove(r#"{"parked":{"status":"cancelled","why":""}}"#),
            "hands-over" => drove(r#"{"hands_over":{"why":"full","permille":null}}"#),
            "blocked" => decided("block", r#"{"blocked":{"reason":""}}"#),
            "final-look" => decided("final-look", r#""allowed""#),
            "off" => decided("off", r#""allowed""#),
            "bill-of-gate" => metered("9", "gate"),
            bill => metered(bill.strip_prefix("bill-").unwrap(), "agent"),
        };
        let entry = |word: &str| {
            let change = change(word);
            let line =
                format!(r#"{{"v":1,"seq":0,"at_ms":0,"prev":"","iteration":0,"change":{change}}}"#);
            serde_json::from_str(&line).unwrap()
        };
        words.split(' ').map(entry).collect()
    }

    /// R-K1b: only an unbilled turn is charged again, however often a runner is killed.
    #[test]
    fn unbilled_turns_are_derived_from_the_journal() {
        for (words, is_at_work) in [
            ("session", true),
            ("session bill-0", true),
            ("session bill-0 blocked bill-0", true),
            ("session bill-0 final-look", true),
            ("session bill-0 final-look bill-1", false),
            ("session bill-1 blocked", true),
            ("session bill-1 blocked bill-2", false),
            ("session bill-1 bill-of-gate", false),
            ("session waits", false),
            ("session bill-1 waits woke", true),
            ("session bill-1 waits woke bill-2 waits", false),
            ("session bill-0 broke", false),
            ("session bill-0 broke session", true),
            ("session bill-0 parked", false),
            ("session bill-1 hands-over", true),
            ("session bill-1 hands-over bill-2", false),
        ] {
            assert_eq!(is_unbilled(&entries(words)), is_at_work, "{words}");
        }
    }

    /// The last entry that determines it wins.
    #[test]
    fn the_resume_point_is_derived_from_the_journal() {
        for (words, expected) in [
            ("session", Left::AtWork),
            ("session blocked", Left::AtWork),
            ("session final-look bill-1", Left::Looking),
            ("session final-look bill-1 parked off", Left::Looking),
            ("session bill-1 waits parked", Left::Waiting),
            ("session waits woke", Left::AtWork),
            ("session blocked hands-over bill-2", Left::HandingOver("full".into())),
        ] {
            assert_eq!(left(&entries(words)), expected, "{words}");
        }
    }
}
