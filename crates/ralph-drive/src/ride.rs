//! The state that all sessions of a run share: settings, home, redactor and the watcher that receives events.

use crate::agent::{self, Client};
use crate::told::{Standing, Told, Watcher};
use crate::weather::Sky;
use crate::wishes::{Wish, Wishes};
use ralph_core::drive::{Drove, Metered, Settings};
use ralph_core::facts::{Cap, Driver};
use ralph_core::id::RunId;
use ralph_core::record::{Entry, Run};
use ralph_core::redact::Redactor;
use ralph_core::run::{Driving, Phase, Spent, State};
use ralph_home::paths::Home;
use ralph_home::store::{self, Opened, StoreError};
use ralph_home::world::{Driven, World};
use ralph_home::{journal, ledger};
use ralph_hook::{control, driven};
use ralph_sys::clock::{self, Deadline};
use std::collections::BTreeMap;
use std::time::Duration;

/// Only the runner waits for a decision, so gates may take as long as their own timeouts allow.
const LONGEST_ANSWER: Duration = Duration::from_hours(24);
const LONGEST_TOOL: usize = 80;
const MOST_TOOLS: usize = 20;

pub(crate) struct Ride<'a> {
    pub client: &'a Client,
    pub home: &'a Home,
    pub run: RunId,
    pub settings: Settings,
    pub wishes: &'a Wishes,
    pub redactor: Redactor,
    pub watcher: &'a mut dyn Watcher,
    pub word: Word,
    /// The stop request that was last acknowledged.
    pub heeded: Wish,
    /// Number of denied calls by tool.
    pub denied: BTreeMap<String, u32>,
}

/// Whether the next message contains a person's hints, which are delivered once the agent answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    None,
    ToBePassedOn,
}

impl std::fmt::Debug for Ride<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ride").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Ride<'_> {
    pub(crate) fn tell(&mut self, event: &Told) {
        self.watcher.tell(event);
    }

    pub(crate) fn note(&mut self, text: &str) {
        let text = ralph_core::text::line(&self.redactor.redact(text), 1_000);
        self.tell(&Told::Note { text });
    }

    /// Counts a denied call for the report, up to the number of tools that it lists.
    pub(crate) fn denied(&mut self, tool: &str) {
        let tool = ralph_core::text::line(&self.redactor.redact(tool), LONGEST_TOOL);
        if self.denied.len() < MOST_TOOLS || self.denied.contains_key(&tool) {
            let count = self.denied.entry(tool).or_default();
            *count = count.saturating_add(1);
        }
    }

    pub(crate) fn wish(&self) -> Wish {
        self.wishes.get()
    }

    /// Confirms a Ctrl-C to the person and explains what another one does.
    pub(crate) fn acknowledge(&mut self) {
        let wish = self.wish();
        if wish > self.heeded {
            self.heeded = wish;
            self.note(match wish {
                Wish::None => return,
                Wish::AfterTheTurn => "stopping after this turn; press Ctrl-C again to stop now",
                Wish::Now => "stopping now",
            });
        }
    }

    pub(crate) fn world(&self, driver: Driver, context_permille: Option<u16>) -> Option<World> {
        let world = self.plain_world()?;
        let cap = Cap::At(self.block_cap());
        let spent_today_micro_usd = self.spent_today();
        let known = Driven { driver, context_permille, cap, spent_today_micro_usd };
        Some(World { driven: Some(known), ..world })
    }

    /// A world without facts about the driver, for operations that decide nothing.
    fn plain_world(&self) -> Option<World> {
        let world = World::new(self.client.env.clone(), Deadline::after(LONGEST_ANSWER))?;
        Some(World { home: self.home.clone(), ..world })
    }

    pub(crate) fn spent_today(&self) -> Option<u64> {
        self.settings.day_micro_usd?;
        // An unreadable ledger imposes no limit; the run's own limit still applies.
        ledger::today(self.home, clock::now_ms()).ok()
    }

    /// Unlimited if the run cannot be loaded: the next operation reports that error.
    fn block_cap(&self) -> u32 {
        let opened = self.load();
        opened.map_or(u32::MAX, |it| agent::block_cap(it.state.limits(&it.run)))
    }

    /// The input of the backoff policy.
    pub(crate) fn sky<'a>(&'a self, driving: &'a Driving) -> Sky<'a> {
        Sky {
            run: &self.run,
            waits: &self.settings.waits,
            driving,
            now_ms: clock::now_ms(),
            local: clock::local_second_of_day,
        }
    }

    pub(crate) fn load(&self) -> Result<Opened, StoreError> {
        store::load(self.home, &self.run)
    }

    pub(crate) fn record(&self, drove: Drove) -> Result<Opened, StoreError> {
        let world = self.plain_world().ok_or(StoreError::OutOfTime)?;
        driven::record(&world, &self.run, drove)
    }

    /// Records the session's cost, and books its growth since `booked` in today's ledger.
    pub(crate) fn charge(&self, booked: Spent, metered: Metered) -> Result<Opened, StoreError> {
        if let Some(expense) = ledger::Entry::new(&self.run, booked, &metered) {
            // If the ledger cannot be written, the daily limit is not enforced; the run's own limit still is.
            drop(ledger::add(self.home, clock::now_ms(), &expense));
        }
        self.record(Drove::Metered(metered))
    }

    /// All journal entries; none if the journal cannot be read.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let read = journal::read(&self.home.run(&self.run).journal());
        read.map(|read| read.entries).unwrap_or_default()
    }

    /// The run's phase, which another process may have changed meanwhile.
    pub(crate) fn phase(&self) -> Result<Phase, StoreError> {
        Ok(control::phase(self.home, &self.load()?))
    }

    pub(crate) fn stands(&mut self, context_permille: Option<u16>) -> Result<(), StoreError> {
        let opened = self.load()?;
        self.stands_as(&opened, context_permille);
        Ok(())
    }

    /// Like [`emit_progress`](Self::emit_progress), for a run that is already loaded.
    pub(crate) fn stands_as(&mut self, opened: &Opened, context_permille: Option<u16>) {
        let standing = standing(&opened.run, &opened.state, context_permille);
        self.tell(&Told::Standing(standing));
    }
}

pub(crate) fn standing(run: &Run, state: &State, context_permille: Option<u16>) -> Standing {
    let limits = state.limits(run);
    let spent = state.driving.spent();
    Standing {
        iteration: state.iteration,
        max_iterations: limits.max_iterations,
        context_permille,
        spent_micro_usd: spent.micro_usd,
        max_cost_micro_usd: limits.max_cost_micro_usd,
        tokens: spent.tokens,
        max_tokens: limits.max_tokens,
        elapsed_ms: state.elapsed_ms(clock::now_ms()),
        max_duration_ms: limits.max_duration_ms,
        sessions: state.driving.count,
        open: state.report.as_ref().map(ralph_core::record::Report::open),
        total: state.report.as_ref().map(|report| report.total),
    }
}
