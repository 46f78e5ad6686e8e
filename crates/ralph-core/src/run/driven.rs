//! What the journal tells about how a run was driven.

use super::{Phase, State};
use crate::drive::{Drove, Metered, Remedy, Session, Source, Wait};
use crate::id::SessionId;
use crate::record::{Decided, is_zero};
use crate::status::Status;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// How many sessions are remembered one by one; older ones only in the sum.
const SESSIONS: usize = 64;

/// The failures of so many stops are remembered.
const COUNTS: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driving {
    /// The latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<Driven>,
    /// How many there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub count: u32,
    /// What sessions cost that are no longer listed.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub before: Spent,
    /// The dearest turn so far.
    #[serde(default)]
    pub worst_turn_micro_usd: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// Limits that were waited for, and for how long in all; the same for errors.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resumes: u32,
    #[serde(default)]
    pub waited_limit_ms: u64,
    #[serde(default)]
    pub waited_errors_ms: u64,
    /// Tried since the work last moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Remedy>,
    /// A fresh session is due, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handing_over: Option<String>,
    /// Breaks and restarts since a turn last ended as it should.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub broken: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Parked>,
    /// What was open at the latest stops, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<u32>,
    /// What was open when the session began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_at_start: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driven {
    #[serde(flatten)]
    pub session: Session,
    pub at_ms: u64,
    pub spent: Spent,
    /// Of gates that asked a model.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub gates: Spent,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    pub micro_usd: u64,
    pub tokens: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    pub status: Status,
    pub why: String,
}

impl Spent {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    fn and(self, other: Self) -> Self {
        Self {
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

impl Driving {
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// All sessions together.
    pub fn spent(&self) -> Spent {
        self.sessions
            .iter()
            .fold(self.before, |sum, driven| sum.and(driven.spent).and(driven.gates))
    }

    pub fn latest(&self) -> Option<&Driven> {
        self.sessions.last()
    }
}

impl State {
    pub(super) fn drove(&mut self, drove: &Drove, at_ms: u64) {
        match drove {
            Drove::Session(session) => self.began(session, at_ms),
            Drove::Metered(metered) => self.metered(metered),
            Drove::HandsOver { why, .. } => self.driving.handing_over = Some(why.clone()),
            Drove::Waits(wait) => self.driving.wait = Some(wait.clone()),
            Drove::Woke => self.woke(at_ms),
            Drove::Tried { remedy, .. } => self.driving.tried.push(*remedy),
            Drove::Silent { .. } | Drove::Broke { .. } => {
                self.driving.broken = self.driving.broken.saturating_add(1);
            }
            Drove::Parked { status, why } => {
                self.driving.parked = Some(Parked { status: *status, why: why.clone() });
                self.phase = Phase::Paused { since_ms: at_ms };
            }
            Drove::Settled { .. } => {}
        }
    }

    fn began(&mut self, session: &Session, at_ms: u64) {
        let driving = &mut self.driving;
        driving.handing_over = None;
        driving.parked = None;
        let id = &session.id;
        // A session that is opened again goes on counting.
        let before = driving.sessions.iter().position(|driven| driven.session.id == *id);
        let before = before.map(|at| driving.sessions.remove(at));
        if before.is_none() {
            driving.count = driving.count.saturating_add(1);
            driving.open_at_start = driving.open.last().copied();
        }
        driving.sessions.push(match before {
            Some(driven) => Driven { session: session.clone(), ..driven },
            None => Driven {
                session: session.clone(),
                at_ms,
                spent: Spent::default(),
                gates: Spent::default(),
                turns: 0,
            },
        });
        if driving.sessions.len() > SESSIONS {
            let old = driving.sessions.remove(0);
            driving.before = driving.before.and(old.spent).and(old.gates);
        }
    }

    fn metered(&mut self, metered: &Metered) {
        let is_it = |driven: &&mut Driven| driven.session.id == metered.session;
        let Some(driven) = self.driving.sessions.iter_mut().find(is_it) else { return };
        let now = Spent { micro_usd: metered.micro_usd, tokens: metered.tokens };
        let known = match metered.source {
            Source::Agent => &mut driven.spent,
            Source::Gate => &mut driven.gates,
        };
        // A meter that goes backwards was reset, and nothing that was spent comes back.
        let turn = now.micro_usd.saturating_sub(known.micro_usd);
        known.micro_usd = known.micro_usd.max(now.micro_usd);
        known.tokens = known.tokens.max(now.tokens);
        if metered.source == Source::Agent {
            driven.turns = driven.turns.max(metered.turns);
            self.driving.broken = 0;
            self.driving.worst_turn_micro_usd = self.driving.worst_turn_micro_usd.max(turn);
        }
    }

    fn woke(&mut self, at_ms: u64) {
        use crate::drive::Cause;
        let Some(wait) = self.driving.wait.take() else { return };
        let took = at_ms.saturating_sub(wait.since_ms);
        match wait.cause {
            Cause::RateLimit => {
                self.driving.resumes = self.driving.resumes.saturating_add(1);
                self.driving.waited_limit_ms = self.driving.waited_limit_ms.saturating_add(took);
            }
            Cause::Overload | Cause::Network | Cause::Server => {
                self.driving.waited_errors_ms = self.driving.waited_errors_ms.saturating_add(took);
            }
            Cause::Declared => self.declared = None,
        }
    }

    /// Runs that nobody drives have neither.
    pub(super) fn progressed(&mut self, decided: &Decided) {
        if let Some(report) = decided.report.as_ref().filter(|_| self.driving.count > 0) {
            self.counted(report.weight());
        }
        if let Some(remedy) = decided.remedy {
            self.driving.tried.push(remedy);
            // It has to have a chance.
            self.stale = 0;
            self.driving.open.drain(..self.driving.open.len().saturating_sub(1));
        }
    }

    /// What was open at a stop of a driven run. Progress forgets what was tried.
    fn counted(&mut self, open: u32) {
        let driving = &mut self.driving;
        let least = driving.open.iter().min().copied();
        if least.is_some_and(|least| open < least) {
            driving.tried.clear();
            driving.open.clear();
        }
        driving.open.push(open);
        if driving.open.len() > COUNTS {
            driving.open.remove(0);
        }
        if driving.open_at_start.is_none() {
            driving.open_at_start = Some(open);
        }
    }

    /// The session that the runner has to go on with, if it was ever there.
    pub fn driven_session(&self) -> Option<&SessionId> {
        self.driving.latest().map(|driven| &driven.session.id)
    }
}
