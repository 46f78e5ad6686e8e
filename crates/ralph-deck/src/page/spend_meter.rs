//! What a run has spent, line by line of its journal.

use ralph_core::drive::{CostSource, MeterReading, RunnerEvent};
use ralph_core::id::SessionId;
use ralph_core::record::RunChange;
use ralph_core::run::Spending;

/// What a run has spent so far, by its journal lines.
#[derive(Default)]
pub(super) struct SpendMeter {
    sessions: Vec<MeteredSession>,
    /// The total of all sessions; `None` if none was metered.
    metered: Option<u64>,
    /// The total of a session that a person started.
    estimated: Option<u64>,
    /// The total of all judges.
    judges: Spending,
    taken: u64,
}

/// What a session cost according to one source, as last metered.
#[derive(Debug)]
struct MeteredSession {
    session: SessionId,
    source: CostSource,
    micro_usd: u64,
}

impl SpendMeter {
    pub(super) fn read(&mut self, change: &RunChange) {
        if let RunChange::Drove(drove) = change
            && let RunnerEvent::Metered(metered) = drove.as_ref()
        {
            self.read_meter(metered);
        } else if let RunChange::Decided(decided) = change {
            if let Some(cost) = &decided.cost {
                self.estimated = cost.spent_micro_usd().max(self.estimated);
            }
            if let Some(spent) = decided.judge_spending {
                self.judges = self.judges.highest(spent);
            }
        }
    }

    fn read_meter(&mut self, metered: &MeterReading) {
        let is_metered = |known: &&mut MeteredSession| {
            known.source == metered.source && known.session == metered.session
        };
        // Of hundreds of sessions, the latest are metered.
        let mut before = 0;
        if let Some(known) = self.sessions.iter_mut().rev().find(is_metered) {
            before = known.micro_usd;
            // A meter that goes backwards was reset.
            known.micro_usd = metered.micro_usd.max(before);
        } else {
            self.sessions.push(MeteredSession {
                session: metered.session.clone(),
                source: metered.source,
                micro_usd: metered.micro_usd,
            });
        }
        let added = metered.micro_usd.saturating_sub(before);
        self.metered = Some(self.metered.unwrap_or_default().saturating_add(added));
    }

    /// `None` if nothing was metered.
    pub(super) fn total(&self) -> Option<u64> {
        self.judges.added_to(self.metered.or(self.estimated))
    }

    /// What was spent since the last call.
    pub(super) fn take_since_last(&mut self) -> Option<u64> {
        let total = self.total()?;
        let since = total.saturating_sub(self.taken);
        self.taken = total;
        Some(since)
    }
}
