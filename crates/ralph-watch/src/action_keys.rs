//! The action keys that do something for a run.

use ralph_deck::page::{BoardGroup, BoardRow, OpenQuestion, RunStanding};

/// The keys with their names, most important first: `a answer`.
pub(crate) fn action_keys(row: &BoardRow) -> Vec<&'static str> {
    if row.standing.has_ended() {
        return if can_be_closed(row) { vec!["x close"] } else { Vec::new() };
    }
    let answer = row.question.as_ref().map(|question| match question {
        OpenQuestion { approval: Some(_), .. } => "a approve",
        OpenQuestion { approval: None, .. } => "a answer",
    });
    let pause = (!row.needs_runner).then_some(match row.standing {
        RunStanding::Paused | RunStanding::Orphaned | RunStanding::Parked(_) => "p resume",
        RunStanding::Working
        | RunStanding::Waiting
        | RunStanding::Asks
        | RunStanding::Unprotected
        | RunStanding::Ended(_)
        | RunStanding::Accepted => "p pause",
    });
    let keys = [answer, Some("t tell"), pause, Some("w waive"), Some("x cancel")];
    keys.into_iter().flatten().collect()
}

/// Whether it ended and waits for a person, until one closes it.
pub(crate) fn can_be_closed(row: &BoardRow) -> bool {
    row.standing.has_ended() && row.group() == BoardGroup::WaitingForYou
}
