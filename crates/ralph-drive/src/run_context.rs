//! The state that all sessions of a run share: settings, home, redactor and the watcher that receives events.

use crate::agent::{self, AgentClient};
use crate::backoff::RetryContext;
use crate::run_event::{RunEvent, RunProgress, RunWatcher};
use crate::stop_requests::{StopRequest, StopRequests};
use ralph_core::drive::{DriveSettings, MeterReading, RunnerEvent};
use ralph_core::facts::{BlockCap, StopDriver};
use ralph_core::id::RunId;
use ralph_core::limits::LimitUsage;
use ralph_core::record::{JournalEntry, RunRecord};
use ralph_core::redact::Redactor;
use ralph_core::run::{DriveState, RunPhase, RunState, Spending};
use ralph_core::text;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun, StoreError};
use ralph_home::world::{RunnerFacts, World};
use ralph_home::{journal, ledger};
use ralph_hook::{control, notify, runner};
use ralph_host::HostProfile;
use ralph_sys::clock::{self, Deadline};
use std::collections::BTreeMap;
use std::time::Duration;

/// Only the runner waits for a decision, so gates may take as long as their own timeouts allow.
const LONGEST_ANSWER: Duration = Duration::from_hours(24);
const LONGEST_TOOL: usize = 80;
const LONGEST_DENIAL: usize = 300;
const MAX_HOST_CHARS: usize = 120;
const MOST_TOOLS: usize = 20;

pub(crate) struct RunContext<'a> {
    pub client: &'a AgentClient,
    pub home: &'a RalphHome,
    pub run: RunId,
    pub settings: DriveSettings,
    pub stop_requests: &'a StopRequests,
    pub redactor: Redactor,
    pub watcher: &'a mut dyn RunWatcher,
    pub hint_delivery: HintDelivery,
    /// The stop request that was last acknowledged.
    pub acknowledged: StopRequest,
    /// Number of denied calls by tool.
    pub denied_tools: BTreeMap<String, u32>,
}

/// Whether the next message contains a person's hints, which are delivered once the agent answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HintDelivery {
    None,
    Pending,
}

impl std::fmt::Debug for RunContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ride").field("run", &self.run).finish_non_exhaustive()
    }
}

impl RunContext<'_> {
    pub(crate) fn emit(&mut self, event: &RunEvent) {
        self.watcher.on_event(event);
    }

    pub(crate) fn note(&mut self, text: &str) {
        let text = ralph_core::text::clean_line(&self.redactor.redact(text), 1_000);
        self.emit(&RunEvent::Note { text });
    }

    /// Records a call that the client denied, and counts it for the report, up to the number of tools that it lists.
    pub(crate) fn record_denied_call(&mut self, tool: &str, message: &str) {
        let tool = text::clean_line(&self.redactor.redact(tool), LONGEST_TOOL);
        let call = text::clean_line(&self.redactor.redact(message), LONGEST_DENIAL);
        let world = self.world_without_driver();
        if let Err(error) = runner::record_denied_call(&world, &self.run, tool.clone(), call) {
            self.record_fault(&error);
        }
        if self.denied_tools.len() < MOST_TOOLS || self.denied_tools.contains_key(&tool) {
            let count = self.denied_tools.entry(tool).or_default();
            *count = count.saturating_add(1);
        }
    }

    pub(crate) fn stop_request(&self) -> StopRequest {
        self.stop_requests.strongest()
    }

    /// Confirms a Ctrl-C to the person and explains what another one does.
    pub(crate) fn acknowledge_stop_request(&mut self) {
        let wish = self.stop_request();
        if wish > self.acknowledged {
            self.acknowledged = wish;
            self.note(match wish {
                StopRequest::None => return,
                StopRequest::AfterTurn => {
                    "stopping after this turn; press Ctrl-C again to stop now"
                }
                StopRequest::Now => "stopping now",
            });
        }
    }

    pub(crate) fn host(&self) -> &'static HostProfile {
        ralph_host::recorded_host(&self.settings.agent)
    }

    pub(crate) fn world(&self, driver: StopDriver, context_permille: Option<u16>) -> World {
        let cap = BlockCap::At(self.block_cap());
        // With an unreadable ledger the agent may go on until it stops, but no new session starts.
        let spent_today = self.spent_today().inspect_err(|error| self.record_fault(error));
        let spent_today_micro_usd = spent_today.unwrap_or(None);
        let known = RunnerFacts { driver, context_permille, cap, spent_today_micro_usd };
        World { driven: Some(known), ..self.world_without_driver() }
    }

    /// A world without facts about the driver, for operations that decide nothing.
    fn world_without_driver(&self) -> World {
        let (env, home) = (self.client.env.clone(), self.home.clone());
        World::in_home(env, self.host(), home, Deadline::after(LONGEST_ANSWER))
    }

    /// What all runs have spent today; `None` without a daily limit.
    pub(crate) fn spent_today(&self) -> Result<Option<u64>, StoreError> {
        match self.settings.day_micro_usd {
            Some(_) => Ok(ledger::spent_today(self.home, clock::now_ms()).map(Some)?),
            None => Ok(None),
        }
    }

    fn record_fault(&self, error: &dyn std::error::Error) {
        let fault = Fault::new(FaultKind::File, &describe_error(error)).with_run(&self.run);
        faults::record_fault(self.home, &fault);
    }

    /// Unlimited if the run cannot be loaded: the next operation reports that error.
    fn block_cap(&self) -> u32 {
        let opened = self.load();
        opened.map_or(u32::MAX, |it| agent::block_cap(it.state.limits(&it.run)))
    }

    /// The host and port of the model's provider. The address may contain credentials, which are left out.
    pub(crate) fn provider(&self) -> String {
        let command_line = &self.host().command_line;
        let given = self.client.env.get(command_line.provider_variable);
        let given = given.map(|url| url.to_string_lossy().into_owned());
        let url = given.as_deref().unwrap_or(command_line.provider_url);
        let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        format!("`{}`", text::clean_line(host, MAX_HOST_CHARS))
    }

    /// The input of the backoff policy.
    pub(crate) fn retry_context<'a>(&'a self, driving: &'a DriveState) -> RetryContext<'a> {
        RetryContext {
            run: &self.run,
            waits: &self.settings.waits,
            driving,
            now_ms: clock::now_ms(),
            local_second_of_day: clock::local_second_of_day,
        }
    }

    pub(crate) fn load(&self) -> Result<LoadedRun, StoreError> {
        store::load_run(self.home, &self.run)
    }

    pub(crate) fn record(&self, drove: RunnerEvent) -> Result<LoadedRun, StoreError> {
        runner::record_drive(&self.world_without_driver(), &self.run, drove)
    }

    /// Records a question to the person, and announces it.
    pub(crate) fn record_question(&self, question: &str, until_ms: u64) -> Result<(), StoreError> {
        let asked = RunnerEvent::AsksPerson { question: question.to_string(), until_ms };
        let LoadedRun { run, state, .. } = self.record(asked)?;
        notify::announce_question(
            &self.world_without_driver(),
            &run,
            state.seq,
            question,
            until_ms,
        );
        Ok(())
    }

    /// Records a question that a pause removed from the state of the run.
    pub(crate) fn record_question_again(&self, question: &str) -> Result<(), StoreError> {
        runner::record_question_again(&self.world_without_driver(), &self.run, question)
    }

    /// Records the session's cost, and books its growth since `booked` in today's ledger.
    pub(crate) fn charge(
        &self,
        booked: Spending,
        metered: MeterReading,
    ) -> Result<LoadedRun, StoreError> {
        if let Some(expense) = ledger::LedgerEntry::new(&self.run, booked, &metered) {
            // If the ledger cannot be written, daily limits do not count this cost; the run's own limit still does.
            if let Err(error) = ledger::append_spending(self.home, clock::now_ms(), &expense) {
                self.record_fault(&error);
            }
        }
        self.record(RunnerEvent::Metered(metered))
    }

    /// All journal entries, up to the first damaged one.
    pub(crate) fn entries(&self) -> Result<Vec<JournalEntry>, StoreError> {
        Ok(journal::read_journal(&self.home.run(&self.run).journal())?.entries)
    }

    /// Like [`entries`](Self::entries), for texts that are useful without the history. If the journal cannot be read,
    /// emits a note and returns no entries.
    pub(crate) fn entries_for_display(&mut self) -> Vec<JournalEntry> {
        self.entries().unwrap_or_else(|error| {
            self.note(&format!("the run's history is left out: {}", describe_error(&error)));
            Vec::new()
        })
    }

    /// The run's phase, which another process may have changed meanwhile.
    pub(crate) fn phase(&self) -> Result<RunPhase, StoreError> {
        Ok(control::effective_phase(self.home, &self.load()?))
    }

    pub(crate) fn emit_progress(
        &mut self,
        context_permille: Option<u16>,
    ) -> Result<(), StoreError> {
        let opened = self.load()?;
        self.emit_progress_of(&opened, context_permille);
        Ok(())
    }

    /// Like [`emit_progress`](Self::emit_progress), for a run that is already loaded.
    pub(crate) fn emit_progress_of(&mut self, opened: &LoadedRun, context_permille: Option<u16>) {
        let standing = run_progress(&opened.run, &opened.state, context_permille);
        self.emit(&RunEvent::Standing(standing));
    }
}

pub(crate) fn run_progress(
    run: &RunRecord,
    state: &RunState,
    context_permille: Option<u16>,
) -> RunProgress {
    let spent = state.total_spent();
    RunProgress {
        limits: state.limits(run).clone(),
        usage: LimitUsage {
            micro_usd: Some(spent.micro_usd),
            tokens: Some(spent.tokens),
            ..LimitUsage::recorded(state, clock::now_ms())
        },
        context_permille,
        sessions: state.driving.count,
        open: state.report.as_ref().map(ralph_core::record::StopReport::open_count),
        total: state.report.as_ref().map(|report| report.total),
        tally: state.report.as_ref().map(ralph_core::record::StopReport::tally),
    }
}
