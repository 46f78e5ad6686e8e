//! What a run is doing or how it ended: its label, its mark and the attention that it needs.
//!
//! Every screen takes the label from here, so that a state has one word everywhere.

use super::board_row::OpenQuestion;
use ralph_core::facts::DeclaredPause;
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;
use serde::{Serialize, Serializer};

/// What a run is doing or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStanding {
    Working,
    /// For a rate limit, the network, or what the agent named.
    Waiting,
    /// The agent asked a person something.
    Asks,
    Paused,
    /// Its session or its runner has died.
    Orphaned,
    /// No hook of its session reaches ralph, so nothing holds it. Nothing records this; it is detected when the run is shown.
    Unprotected,
    /// Its runner gave up; it continues when a person resumes it.
    Parked(RunStatus),
    Ended(RunStatus),
    /// It ended without proof, and a person accepted its work. Its status is `verified`.
    Accepted,
}

/// The attention that a run needs. A screen has one hue for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    InProgress,
    /// Proved.
    Done,
    /// Finished without proof.
    Unproven,
    /// A person has to answer or judge.
    NeedsPerson,
    NotDone,
    Broken,
    /// Ended from outside.
    Closed,
}

/// The part of the board that a run is listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BoardGroup {
    WaitingForYou,
    Working,
    Ended,
}

impl RunStanding {
    pub const ALL: [Self; 20] = [
        Self::Working,
        Self::Waiting,
        Self::Asks,
        Self::Paused,
        Self::Orphaned,
        Self::Unprotected,
        Self::Parked(RunStatus::RateLimited),
        Self::Ended(RunStatus::Verified),
        Self::Accepted,
        Self::Ended(RunStatus::Green),
        Self::Ended(RunStatus::Claimed),
        Self::Ended(RunStatus::Exhausted),
        Self::Ended(RunStatus::Stuck),
        Self::Ended(RunStatus::NeedsHuman),
        Self::Ended(RunStatus::NeedsReview),
        Self::Ended(RunStatus::GateBroken),
        Self::Ended(RunStatus::RateLimited),
        Self::Ended(RunStatus::Cancelled),
        Self::Ended(RunStatus::Overridden),
        Self::Ended(RunStatus::Crashed),
    ];

    pub fn from_state(state: &RunState, phase: RunPhase) -> Self {
        let asks = state.declared.as_ref().and_then(DeclaredPause::question).is_some();
        match (phase, &state.driving.parked) {
            (RunPhase::Ended(RunStatus::Verified), _) if state.accepted.is_some() => Self::Accepted,
            (RunPhase::Ended(status), _) => Self::Ended(status),
            (RunPhase::Paused { .. }, Some(parked)) => Self::Parked(parked.status),
            (RunPhase::Paused { .. }, None) => Self::Paused,
            (RunPhase::Orphaned, _) => Self::Orphaned,
            (RunPhase::Active, _) if asks => Self::Asks,
            (RunPhase::Active, _) if state.driving.wait.is_some() || state.declared.is_some() => {
                Self::Waiting
            }
            (RunPhase::Active, _) => Self::Working,
        }
    }

    /// The standing of an active run, given its open question. The state has only the question that the
    /// agent declared; those of the runner, and the answers, are in the journal.
    #[must_use]
    pub fn with_question(self, question: Option<&OpenQuestion>) -> Self {
        match self {
            Self::Working | Self::Waiting | Self::Asks if question.is_some() => Self::Asks,
            Self::Asks => Self::Working,
            Self::Working
            | Self::Waiting
            | Self::Paused
            | Self::Orphaned
            | Self::Unprotected
            | Self::Parked(_)
            | Self::Ended(_)
            | Self::Accepted => self,
        }
    }

    /// From the names in the index; `None` if this version does not know them.
    pub fn from_names(phase: &str, status: &str) -> Option<Self> {
        match phase {
            "ended" => RunStatus::parse(status).map(Self::Ended),
            "parked" => RunStatus::parse(status).map(Self::Parked),
            _ => {
                let open = [Self::Working, Self::Waiting, Self::Asks, Self::Paused, Self::Orphaned];
                open.into_iter().find(|standing| standing.name() == status)
            }
        }
    }

    /// The name in JSON and in filters. `parked` whatever the status: the run continues when a person resumes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Asks => "asks",
            Self::Paused => "paused",
            Self::Orphaned => "orphaned",
            Self::Unprotected => "unprotected",
            Self::Parked(_) => "parked",
            Self::Ended(status) => status.name(),
            Self::Accepted => RunStatus::Verified.name(),
        }
    }

    /// The phase in the index and in filters.
    pub fn phase_name(self) -> &'static str {
        match self {
            Self::Working | Self::Waiting | Self::Asks | Self::Unprotected => "active",
            Self::Paused | Self::Orphaned | Self::Parked(_) => self.name(),
            Self::Ended(_) | Self::Accepted => "ended",
        }
    }

    /// The status in the index and in filters: that under which a run was parked, else the name. The index does not know
    /// `unprotected`; such a run is `working` there.
    pub fn status_name(self) -> &'static str {
        match self {
            Self::Parked(status) => status.name(),
            Self::Unprotected => Self::Working.name(),
            Self::Working
            | Self::Waiting
            | Self::Asks
            | Self::Paused
            | Self::Orphaned
            | Self::Ended(_)
            | Self::Accepted => self.name(),
        }
    }

    /// The name of its drawing and of its place on a page. No two standings have the same.
    pub fn key(self) -> &'static str {
        if self == Self::Accepted { "accepted" } else { self.name() }
    }

    /// The name for people: `needs review`.
    pub fn label(self) -> String {
        state_label(self.key())
    }

    /// One character, different for every label.
    pub fn mark(self) -> char {
        match self {
            Self::Working => '•',
            Self::Waiting => '…',
            Self::Asks => '?',
            Self::Paused => '‖',
            Self::Orphaned => 'o',
            Self::Unprotected => 'u',
            Self::Parked(_) => 'p',
            Self::Accepted => 'a',
            Self::Ended(status) => match status {
                RunStatus::Verified => '✓',
                RunStatus::Green => '+',
                RunStatus::Claimed => '~',
                RunStatus::Exhausted => '▁',
                RunStatus::Stuck => '=',
                RunStatus::NeedsHuman => '¿',
                RunStatus::NeedsReview => '!',
                RunStatus::GateBroken => '#',
                RunStatus::RateLimited => '%',
                RunStatus::Cancelled => '-',
                RunStatus::Overridden => '→',
                RunStatus::Crashed => '✗',
            },
        }
    }

    /// The mark for terminals without UTF-8.
    pub fn ascii_mark(self) -> char {
        match self.mark() {
            '•' => '*',
            '…' => '.',
            '‖' => '"',
            '✓' => 'V',
            '▁' => '_',
            '¿' => 'h',
            '→' => '>',
            '✗' => 'X',
            plain => plain,
        }
    }

    pub fn attention(self) -> Attention {
        match self {
            Self::Working | Self::Waiting => Attention::InProgress,
            Self::Asks => Attention::NeedsPerson,
            Self::Paused => Attention::Closed,
            Self::Accepted => Attention::Done,
            Self::Orphaned | Self::Unprotected => Attention::Broken,
            Self::Parked(status) | Self::Ended(status) => match status {
                RunStatus::Verified => Attention::Done,
                RunStatus::Green | RunStatus::Claimed => Attention::Unproven,
                RunStatus::NeedsHuman | RunStatus::NeedsReview => Attention::NeedsPerson,
                RunStatus::Exhausted | RunStatus::Stuck | RunStatus::RateLimited => {
                    Attention::NotDone
                }
                RunStatus::GateBroken | RunStatus::Crashed => Attention::Broken,
                RunStatus::Cancelled | RunStatus::Overridden => Attention::Closed,
            },
        }
    }

    pub fn group(self) -> BoardGroup {
        match self {
            Self::Asks | Self::Paused | Self::Orphaned | Self::Unprotected | Self::Parked(_) => {
                BoardGroup::WaitingForYou
            }
            Self::Ended(status) if status.waits_for_person() => BoardGroup::WaitingForYou,
            Self::Working | Self::Waiting => BoardGroup::Working,
            Self::Ended(_) | Self::Accepted => BoardGroup::Ended,
        }
    }

    /// The order within a group: what costs most while it waits comes first.
    pub fn urgency(self) -> u8 {
        match self {
            Self::Asks => 0,
            Self::Parked(_) => 1,
            Self::Orphaned | Self::Unprotected => 2,
            Self::Ended(RunStatus::NeedsHuman) => 3,
            Self::Ended(RunStatus::GateBroken) => 4,
            Self::Ended(RunStatus::NeedsReview) => 5,
            Self::Paused | Self::Working => 6,
            Self::Waiting => 7,
            Self::Ended(RunStatus::Crashed) => 8,
            Self::Ended(RunStatus::Stuck) => 9,
            Self::Ended(RunStatus::Exhausted) => 10,
            Self::Ended(RunStatus::RateLimited) => 11,
            Self::Ended(RunStatus::Overridden) => 12,
            Self::Ended(RunStatus::Green) => 13,
            Self::Ended(RunStatus::Claimed) => 14,
            Self::Accepted => 15,
            Self::Ended(RunStatus::Verified) => 16,
            Self::Ended(RunStatus::Cancelled) => 17,
        }
    }

    pub fn has_ended(self) -> bool {
        matches!(self, Self::Ended(_) | Self::Accepted)
    }
}

/// The name of a state for people: `needs review`.
pub fn state_label(name: &str) -> String {
    name.replace('_', " ")
}

impl Serialize for RunStanding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// R-U2c: every final status has a mark of its own, with and without UTF-8.
    #[test]
    fn every_label_has_a_mark_of_its_own() {
        let names: BTreeSet<_> = RunStanding::ALL.iter().map(|standing| standing.label()).collect();
        let marks: BTreeMap<_, _> =
            RunStanding::ALL.iter().map(|standing| (standing.mark(), standing.label())).collect();
        let plain: BTreeMap<_, _> = RunStanding::ALL
            .iter()
            .map(|standing| (standing.ascii_mark(), standing.label()))
            .collect();
        assert_eq!((marks.len(), plain.len()), (names.len(), names.len()));
        assert!(plain.keys().all(char::is_ascii));
        for status in RunStatus::ALL {
            assert!(RunStanding::ALL.contains(&RunStanding::Ended(status)));
        }
    }
}
