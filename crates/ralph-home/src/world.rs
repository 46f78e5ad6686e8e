//! The process's environment: variables, ralph's home and the deadline. It is built once in `main` and passed on
//! instead of being static, so that tests and the simulator can have several in one process.

use crate::host_env;
use crate::paths::RalphHome;
use crate::store::RunTransaction;
use ralph_core::facts::{BlockCap, StopDriver};
use ralph_core::id::RunId;
use ralph_host::HostProfile;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Everything but a gate finishes within this time unless something is wrong.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct World {
    pub env: Env,
    /// The host that calls, or whose agent is driven.
    pub host: &'static HostProfile,
    pub home: RalphHome,
    /// When the answer must be written, even if evidence is still missing.
    pub answer_deadline: Deadline,
    /// When this process started. A stop that the host delivers twice is recognised by it.
    pub arrived_ms: u64,
    /// The run being decided about, so that an error or a panic can be recorded against it.
    pub current_run: Arc<OnceLock<RunId>>,
    /// Facts from the runner about the agent it started; `None` if no runner drives the agent.
    pub driven: Option<RunnerFacts>,
}

/// Facts about the agent that only the runner that drives it has, partly from the host's stream.
#[derive(Clone, Copy, Debug)]
pub struct RunnerFacts {
    pub driver: StopDriver,
    pub context_permille: Option<u16>,
    pub cap: BlockCap,
    pub spent_today_micro_usd: Option<u64>,
}

impl World {
    /// For the host that started this process. Returns `None` if neither `RALPH_HOME` nor `HOME` is set.
    pub fn new(env: Env, end: Deadline) -> Option<Self> {
        let home = RalphHome::new(env.ralph_home()?);
        let host = host_env::calling_host(&env);
        Some(Self::in_home(env, host, home, end))
    }

    /// With a host and a home that are already known.
    pub fn in_home(env: Env, host: &'static HostProfile, home: RalphHome, end: Deadline) -> Self {
        Self {
            env,
            host,
            home,
            answer_deadline: end,
            arrived_ms: clock::now_ms(),
            current_run: Arc::default(),
            driven: None,
        }
    }

    /// The deadline for one quick step. Only gates may use all the time there is.
    pub fn step_deadline(&self) -> Deadline {
        Deadline::after(STEP_TIMEOUT).min(self.answer_deadline)
    }

    /// A transaction on `run` that has to finish within [`World::step_deadline`].
    pub fn transaction<'a>(&'a self, run: &'a RunId) -> RunTransaction<'a> {
        let deadline = self.step_deadline();
        RunTransaction { home: &self.home, run, deadline, by: None, loaded: None }
    }
}
