//! The outside, built once in `main` and passed on: no statics, so one process can host many worlds.

use crate::clock::{self, Deadline};
use crate::env::Env;
use crate::paths::Home;
use crate::store::Transaction;
use ralph_core::facts::{Cap, Driver};
use ralph_core::id::RunId;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Nothing but a gate needs longer.
const STEP: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct World {
    pub env: Env,
    pub home: Home,
    /// When the answer must be out, whatever is still missing.
    pub end: Deadline,
    /// When this process started, for telling what was on its way at the same time.
    pub arrived_ms: u64,
    /// The run that is being decided about, for whoever has to say what broke.
    pub in_hand: Arc<OnceLock<RunId>>,
    /// What only a runner knows about the agent that it started.
    pub driven: Option<Driven>,
}

/// How a runner stands to the agent, and what the agent's host told it.
#[derive(Clone, Copy, Debug)]
pub struct Driven {
    pub driver: Driver,
    pub context_permille: Option<u16>,
    pub cap: Cap,
    pub spent_today_micro_usd: Option<u64>,
}

impl World {
    /// `None` when neither `RALPH_HOME` nor `HOME` says where things are kept.
    pub fn new(env: Env, end: Deadline) -> Option<Self> {
        let home = Home::new(env.ralph_home()?);
        let arrived_ms = clock::now_ms();
        Some(Self { env, home, end, arrived_ms, in_hand: Arc::default(), driven: None })
    }

    /// For one step that is quick unless something is wrong. Only gates may take as long as there is time.
    pub fn deadline(&self) -> Deadline {
        Deadline::after(STEP).min(self.end)
    }

    pub fn on<'a>(&'a self, run: &'a RunId) -> Transaction<'a> {
        Transaction { home: &self.home, run, deadline: self.deadline(), seen: None }
    }
}
