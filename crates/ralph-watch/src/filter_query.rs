//! The filter of the board, applied to the runs that are loaded. Earlier runs are found by the index, with the same words.

use ralph_core::units::{parse_duration, parse_micro_usd};
use ralph_deck::page::{BoardGroup, BoardRow, RunStanding};

/// Conditions that all have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterQuery {
    conditions: Vec<FilterCondition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FilterCondition {
    kind: ConditionKind,
    leaves_out: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ConditionKind {
    Word(String),
    Is(String),
    Gate(String),
    Project(String),
    SinceMs(u64),
    MoreThan(u64),
    LessThan(u64),
}

impl FilterQuery {
    /// A condition that is not complete yet, such as `is:`, leaves nothing out.
    pub fn parse(text: &str) -> Self {
        let conditions = text.split_whitespace().filter_map(|word| {
            let (leaves_out, word) = match word.strip_prefix('-') {
                Some(rest) => (true, rest),
                None => (false, word),
            };
            Some(FilterCondition { kind: ConditionKind::parse(word)?, leaves_out })
        });
        Self { conditions: conditions.collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Names of states are alternatives; all other conditions hold together.
    pub fn matches(&self, row: &BoardRow, now_ms: u64) -> bool {
        let is_state = |one: &&FilterCondition| one.is_wanted_state();
        let mut states = self.conditions.iter().filter(is_state).peekable();
        let is_wanted = states.peek().is_none() || states.any(|one| one.kind.holds(row, now_ms));
        let others = self.conditions.iter().filter(|one| !one.is_wanted_state());
        is_wanted && others.into_iter().all(|one| one.kind.holds(row, now_ms) != one.leaves_out)
    }
}

impl FilterCondition {
    fn is_wanted_state(&self) -> bool {
        !self.leaves_out && matches!(self.kind, ConditionKind::Is(_))
    }
}

impl ConditionKind {
    fn parse(word: &str) -> Option<Self> {
        let lower = word.to_lowercase();
        let amount = |text: &str| parse_micro_usd(text.strip_suffix("usd").unwrap_or(text));
        let (key, value) = lower.split_once(':').unwrap_or(("", &lower));
        if value.is_empty() {
            return None;
        }
        Some(match key {
            "is" => Self::Is(value.replace('-', "_")),
            "gate" => Self::Gate(value.to_string()),
            "project" => Self::Project(value.to_string()),
            "since" => Self::SinceMs(parse_duration(value)?),
            _ => match (lower.strip_prefix('>'), lower.strip_prefix('<')) {
                (Some(more), _) => Self::MoreThan(amount(more)?),
                (_, Some(less)) => Self::LessThan(amount(less)?),
                (None, None) => Self::Word(lower),
            },
        })
    }

    fn holds(&self, row: &BoardRow, now_ms: u64) -> bool {
        let has = |text: &str, word: &str| text.to_lowercase().contains(word);
        match self {
            Self::Word(word) => {
                let branch = row.branch.as_deref().unwrap_or_default();
                [&row.title, &row.project_name, &row.run, branch].iter().any(|text| has(text, word))
            }
            Self::Is(name) => is_named(row.standing, name),
            Self::Gate(name) => row.gates.iter().any(|gate| has(&gate.name, name)),
            Self::Project(name) => has(&row.project_name, name),
            Self::SinceMs(age) => row.last_ms >= now_ms.saturating_sub(*age),
            Self::MoreThan(most) => row.spent_micro_usd.is_some_and(|spent| spent > *most),
            Self::LessThan(most) => row.spent_micro_usd.is_some_and(|spent| spent < *most),
        }
    }
}

/// Whether the run is in a group, or has a name: `parked`, `ended`, `needs_review`.
fn is_named(standing: RunStanding, name: &str) -> bool {
    let group = standing.group();
    match name {
        "ended" => standing.has_ended(),
        "parked" => matches!(standing, RunStanding::Parked(_)),
        "active" => !standing.has_ended(),
        "yours" => group == BoardGroup::WaitingForYou,
        _ => standing.name().starts_with(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_pages::sample_board;

    #[test]
    fn conditions_select_runs() {
        let board = sample_board();
        let rows: Vec<_> = board.waiting.iter().chain(&board.working).chain(&board.ended).collect();
        for (query, expected) in [
            ("", "k7f2 e1vd m3qz 2ubr p0w8 t4hb w6jc 9qd1 b2ls x9nn"),
            ("shop-api", "k7f2 p0w8"),
            ("SHOP -queue", "k7f2"),
            ("is:verified", "9qd1 b2ls x9nn"),
            ("is:needs-review", "m3qz"),
            ("is:ended >7usd", "t4hb 9qd1"),
            ("<1usd", "w6jc b2ls"),
            ("is:verified is:claimed -csv", "w6jc x9nn"),
            ("is:yours", "k7f2 e1vd m3qz"),
            ("project:ledger", "t4hb 9qd1"),
            ("gate:tests", "2ubr"),
            ("since:1h is:ended", "e1vd m3qz t4hb"),
            ("is: since:x >y", "k7f2 e1vd m3qz 2ubr p0w8 t4hb w6jc 9qd1 b2ls x9nn"),
            ("nothing-like-it", ""),
        ] {
            let query_parsed = FilterQuery::parse(query);
            let found: Vec<_> = rows
                .iter()
                .filter(|row| query_parsed.matches(row, board.now_ms))
                .map(|row| row.run.as_str())
                .collect();
            assert_eq!(found.join(" "), expected, "{query}");
        }
    }
}
