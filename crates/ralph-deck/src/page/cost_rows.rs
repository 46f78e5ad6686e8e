//! What each session of a run and its judges cost: rows that add up to what the run has spent.

use super::run_sessions::SessionRow;
use crate::json_units;
use ralph_core::cost_reading::CostBasis;
use ralph_core::record::{CostReading, JournalEntry, RunChange};
use ralph_core::run::Spending;
use serde::Serialize;

/// A row of "Cost by session".
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CostRow {
    pub source: CostRowSource,
    /// The number of the session in a driven run.
    pub number: Option<u32>,
    pub session: Option<String>,
    #[serde(rename = "started_at", serialize_with = "json_units::time")]
    pub started_ms: u64,
    pub model: Option<String>,
    pub turns: Option<u32>,
    pub tokens: Option<u64>,
    /// `None` if no cost is known.
    #[serde(rename = "cost_usd", serialize_with = "json_units::optional_usd")]
    pub micro_usd: Option<u64>,
    #[serde(rename = "cost_basis")]
    pub basis: CostBasis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CostRowSource {
    /// A session of a driven run, with what its gates spent on models.
    Session,
    /// The session that a person works in.
    Owner,
    /// All judges of the run together.
    Judges,
}

impl CostRow {
    /// The first column of a table.
    pub fn label(&self) -> String {
        match self.source {
            CostRowSource::Session => self.number.unwrap_or_default().to_string(),
            CostRowSource::Owner => "1".to_string(),
            CostRowSource::Judges => "judges".to_string(),
        }
    }

    /// `$1.82`, `≈ $1.82`, `~$4`, `unknown`
    pub fn cost_text(&self) -> String {
        self.basis.column_text(self.micro_usd)
    }
}

/// The rows of a run, oldest first and the judges last. `owner` is the session that holds the run.
pub(super) fn cost_rows(
    entries: &[JournalEntry],
    sessions: &[SessionRow],
    owner: Option<&str>,
) -> Vec<CostRow> {
    let mut rows: Vec<CostRow> = sessions.iter().map(session_cost).collect();
    if rows.is_empty() {
        rows.extend(owner_cost(entries, owner));
    }
    rows.extend(judge_cost(entries));
    rows
}

fn session_cost(session: &SessionRow) -> CostRow {
    CostRow {
        source: CostRowSource::Session,
        number: Some(session.number),
        session: Some(session.session.clone()),
        started_ms: session.started_ms,
        model: session.model.clone(),
        turns: Some(session.turns),
        tokens: Some(session.tokens),
        micro_usd: Some(session.micro_usd.saturating_add(session.gates_micro_usd)),
        basis: if session.is_assumed { CostBasis::PartlyAssumed } else { CostBasis::Reported },
    }
}

/// The session of a person, of which only the cost is read; `None` if no stop read it.
fn owner_cost(entries: &[JournalEntry], owner: Option<&str>) -> Option<CostRow> {
    let mut known: Option<CostReading> = None;
    for entry in entries {
        if let RunChange::Decided(decided) = &entry.change
            && let Some(cost) = &decided.cost
        {
            known.get_or_insert_default().merge(cost);
        }
    }
    let known = known?;
    Some(CostRow {
        source: CostRowSource::Owner,
        number: None,
        session: owner.map(str::to_string),
        started_ms: entries.first()?.at_ms,
        model: None,
        turns: None,
        tokens: None,
        micro_usd: known.spent_micro_usd(),
        basis: known.basis(),
    })
}

fn judge_cost(entries: &[JournalEntry]) -> Option<CostRow> {
    let mut spent = Spending::default();
    let mut first_ms = None;
    for entry in entries {
        if let RunChange::Decided(decided) = &entry.change
            && let Some(total) = decided.judge_spending
        {
            spent = spent.highest(total);
            first_ms = first_ms.or(Some(entry.at_ms));
        }
    }
    (!spent.is_zero()).then_some(CostRow {
        source: CostRowSource::Judges,
        number: None,
        session: None,
        started_ms: first_ms?,
        model: None,
        turns: None,
        tokens: Some(spent.tokens),
        micro_usd: Some(spent.micro_usd),
        basis: CostBasis::Reported,
    })
}

#[cfg(test)]
mod tests {
    use super::super::curves::spend_curve;
    use super::super::run_sessions::session_rows;
    use super::*;
    use ralph_core::limits::LimitUsage;
    use ralph_core::run::RunState;

    const DRIVEN: &[u8] = include_bytes!("../../../../fixtures/state/v1/driven-journal.jsonl");
    const HELD: &[u8] = include_bytes!("../../../../fixtures/state/v2/journal.jsonl");

    /// A recorded journal. With `judges`, its judges have spent that at the first stop and twice that at the second.
    fn read_journal(bytes: &[u8], judges: Option<Spending>) -> Vec<JournalEntry> {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut entries: Vec<JournalEntry> =
            lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
        let stops = entries.iter_mut().filter_map(|entry| {
            if let RunChange::Decided(decided) = &mut entry.change { Some(decided) } else { None }
        });
        for (number, decided) in stops.enumerate() {
            decided.judge_spending = match (number, judges) {
                (0, judges) => judges,
                (1, Some(judges)) => Some(judges.plus(judges)),
                (_, _) => None,
            };
        }
        entries
    }

    #[test]
    fn the_rows_and_the_curve_add_up_to_what_is_spent() {
        let judges = Spending { micro_usd: 70_000, tokens: 9_000 };
        let mut shown = String::new();
        for (name, bytes) in [("driven", DRIVEN), ("held", HELD)] {
            for judges in [None, Some(judges)] {
                let entries = read_journal(bytes, judges);
                let (_, state) = RunState::replay(&entries).unwrap();
                let spent = LimitUsage::recorded(&state, 0).micro_usd;
                let rows = cost_rows(&entries, &session_rows(&entries), Some("5999882c"));
                let costs = rows.iter().filter_map(|row| row.micro_usd);
                assert_eq!(costs.reduce(u64::saturating_add), spent, "{name}");
                let points = spend_curve(&entries, 600);
                assert_eq!(points.last().map(|point| point.value), spent, "{name}");
                for row in rows {
                    let (label, cost, tokens) = (row.label(), row.cost_text(), row.tokens);
                    shown += &format!("{name}: {label} {:?} {cost} {tokens:?}\n", row.source);
                }
            }
        }
        insta::assert_snapshot!(shown, @"
        driven: 1 Session ~$1.84 Some(340000)
        driven: 2 Session $0 Some(0)
        driven: 1 Session ~$1.84 Some(340000)
        driven: 2 Session $0 Some(0)
        driven: judges Judges $0.14 Some(18000)
        held: 1 Owner ≈ $0.0016 None
        held: 1 Owner ≈ $0.0016 None
        held: judges Judges $0.14 Some(18000)
        ");
    }
}
