//! Gate results of a contract: cached results first, then a worker that runs the remaining gates.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use ralph_core::coverage::ChangedLines;
use ralph_core::gate::{Gate, GateBatch, GateOutcome, GateReport, ResultStability, UnknownReason};
use ralph_core::record::{GateRecord, MeasuredSite};
use ralph_core::requirement::{
    PendingKind, PendingReason, Requirement, RequirementFailure, RequirementStatus,
    RequirementWeight,
};

use super::gate_worker::{self, GateSite, GateTask, WorkerState};
use super::listing_notes::ListingNotes;
use super::pipeline_contract::MeasuredPipeline;
use super::{
    ContractContext, baseline, change_condition, checkout_results, coverage_evidence, seal,
    session_contract,
};
use ralph_gates::gates::result_cache::{CachedResult, ResultCache};
use ralph_gates::gates::result_key::ResultKey;
use ralph_gates::gates::{ContentView, GateContext};
use ralph_git::tree::WorkTreeListing;
use ralph_home::faults::describe_error;
use ralph_lists::list_approval;
use ralph_sys::clock::Deadline;

/// How much of a result's key the journal keeps.
const KEY_DIGITS: usize = 16;
/// Time reserved for the answer when gates use up the rest.
const WORKER_MARGIN: Duration = Duration::from_secs(4);

/// Selects the gates of the policy that `asks` names and that apply to these changed paths. Gates that ask a CI provider
/// are not among them: they come after everything else.
pub(super) fn select_gates<'a>(
    contract: &ContractContext<'a>,
    touched: &[String],
    asks: &dyn Fn(&Gate) -> bool,
) -> Vec<&'a Gate> {
    select_applicable(contract, touched, &|gate| !gate.is_ci() && asks(gate))
}

/// Selects the gates that ask a CI provider and apply to these changed paths.
pub(super) fn select_ci_gates<'a>(
    contract: &ContractContext<'a>,
    touched: &[String],
) -> Vec<&'a Gate> {
    select_applicable(contract, touched, &Gate::is_ci)
}

fn select_applicable<'a>(
    contract: &ContractContext<'a>,
    touched: &[String],
    asks: &dyn Fn(&Gate) -> bool,
) -> Vec<&'a Gate> {
    let complexity = contract.seal.complexity.unwrap_or(u8::MAX);
    let touched = change_condition::known_changes(contract, touched);
    let counts = |gate: &&Gate| {
        asks(gate)
            && gate.min_complexity <= complexity
            && change_condition::is_condition_met(&gate.when, touched)
    };
    contract.seal.policy.gates.iter().filter(counts).collect()
}

/// When the hook stops waiting for a worker.
pub(super) fn worker_deadline(contract: &ContractContext<'_>) -> Deadline {
    let left = contract.world.answer_deadline.remaining();
    Deadline::after(left.saturating_sub(WORKER_MARGIN))
}

/// The requirements of the gates, in the tree or in a checkout. A worker runs the gates without a cached result, as far
/// as time allows.
pub(super) fn gate_requirements(query: &GateQuery<'_>) -> MeasuredGates {
    let mut measured = judge_gates(query);
    if query.site == GateSite::Tree {
        measured.requirements.extend(baseline::old_failures_requirement(&measured.accepted));
    }
    measured
}

/// The requirements of gates, and what they rest on.
#[derive(Debug, Default)]
pub(super) struct MeasuredGates {
    pub requirements: Vec<Requirement>,
    /// The failures that the base excuses.
    pub accepted: Vec<GateReport>,
    /// The results that were used, for the journal.
    pub records: Vec<GateRecord>,
}

/// Judges the gates like [`gate_requirements`], and leaves it to the caller to name the accepted failures.
pub(super) fn judge_gates(query: &GateQuery<'_>) -> MeasuredGates {
    let resolve = || {
        let cache = query.open_cache()?;
        let (board, left) = query.resolve(&cache)?;
        Ok(query.requirements(&cache, board, left))
    };
    let all = |standing: RequirementStatus| {
        let gates = query.wanted.iter();
        let requirements = gates.map(|gate| gate.requirement_with(standing.clone())).collect();
        MeasuredGates { requirements, ..MeasuredGates::default() }
    };
    match resolve() {
        Ok(measured) => measured,
        Err(GatesNotRun::Unknown(why)) => all(RequirementStatus::Unknown(why)),
        Err(GatesNotRun::NotRun(why)) => {
            all(RequirementStatus::Pending(PendingReason::NotReached(why)))
        }
    }
}

/// Why gates were not run.
#[derive(Debug)]
pub(super) enum GatesNotRun {
    Unknown(String),
    /// A script that they call is not the one that a person approved.
    NotRun(String),
}

impl From<String> for GatesNotRun {
    fn from(why: String) -> Self {
        Self::Unknown(why)
    }
}

/// The requirements of list checks. They run after the gates, also those of the pipeline, and separately from them: most
/// checks fail until the end, and no gate should wait for that.
pub(super) fn list_check_requirements(
    query: &GateQuery<'_>,
    pipeline: &MeasuredPipeline,
) -> MeasuredGates {
    let wanted: Vec<&Gate> = query.contract.checks.due.iter().collect();
    if wanted.is_empty() {
        return MeasuredGates::default();
    }
    if pipeline.is_busy {
        let waiting = wanted.into_iter().map(|it| running_requirement(it, "waits for the gates"));
        return MeasuredGates { requirements: waiting.collect(), ..MeasuredGates::default() };
    }
    gate_requirements(&GateQuery { wanted: &wanted, ..*query })
}

/// The gates to query, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateQuery<'a> {
    pub contract: &'a ContractContext<'a>,
    pub wanted: &'a [&'a Gate],
    pub place: &'a GateContext<'a>,
    pub site: GateSite,
    /// The current listing of the tree, if the caller has one.
    pub listing: Option<&'a WorkTreeListing>,
    pub wait: WorkerWait,
    /// The lines that the run changed; `None` if they are not known.
    pub changed: Option<&'a [ChangedLines]>,
}

/// How long a stop waits for gates that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerWait {
    UntilAnswer,
    AtMost(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookupTime {
    /// Gates without a result can still run.
    BeforeWorker,
    AfterWorker,
}

/// Cached results, by the name of the gate.
#[derive(Debug, Default)]
pub(super) struct KnownGateResults(pub BTreeMap<String, KnownResult>);

#[derive(Debug)]
pub(super) struct KnownResult {
    pub result: CachedResult,
    key: ResultKey,
}

impl GateQuery<'_> {
    pub(super) fn resolve(
        &self,
        cache: &ResultCache,
    ) -> Result<(KnownGateResults, WorkerState), GatesNotRun> {
        let (mut board, mark) = self.look_up(cache, self.listing, LookupTime::BeforeWorker)?;
        let mut left = WorkerState::Done;
        let names = self.gates_to_run(cache, &board);
        if !names.is_empty() {
            if let Some(what) = self.unapproved_script() {
                return Err(GatesNotRun::NotRun(format!(
                    "not run: {what} changed since it was approved"
                )));
            }
            let until = worker_deadline(self.contract);
            let until = match self.wait {
                WorkerWait::UntilAnswer => until,
                WorkerWait::AtMost(most) => until.min(Deadline::after(most)),
            };
            let notes = ListingNotes { contract: self.contract, cache, mark: &mark };
            let hand_over = || {
                if let Some(listing) = self.listing {
                    notes.give(listing);
                }
                Ok(())
            };
            let task = GateTask { site: self.site, gates: names, mark: mark.clone() };
            left = gate_worker::run_gate_worker(self.contract, &task, until, hand_over)
                .map_err(|error| describe_error(&error))?;
            let unchanged = self.listing.filter(|listing| notes.has_ended_with(listing));
            let before = std::mem::replace(
                &mut board,
                self.look_up(cache, unchanged, LookupTime::AfterWorker)?.0,
            );
            board.keep_reported_once(before, self.wanted);
        }
        Ok((board, left))
    }

    /// A script that one of the gates calls and that was not approved in its current form. It must not run: a tree can
    /// be restored, but the effects of a command cannot.
    fn unapproved_script(&self) -> Option<String> {
        let contract = self.contract;
        let is_check = |gate: &&&Gate| !contract.is_of_policy(gate);
        let has_checks = self.wanted.iter().any(|gate| is_check(&gate));
        let has_gates = self.wanted.iter().any(|gate| !is_check(&gate));
        let of_gates = || seal::find_unapproved_script(contract).filter(|_| has_gates);
        let of_lists = || {
            list_approval::first_unapproved_script(&contract.world.home, contract.run)
                .filter(|_| has_checks)
        };
        of_gates().or_else(of_lists)
    }

    pub(super) fn open_cache(&self) -> Result<ResultCache, String> {
        ResultCache::open(&self.contract.world.home).map_err(|error| describe_error(&error))
    }

    /// The cached results, and a mark that identifies these gates on this content.
    fn look_up(
        &self,
        cache: &ResultCache,
        known: Option<&WorkTreeListing>,
        time: LookupTime,
    ) -> Result<(KnownGateResults, String), String> {
        let view = match known {
            Some(listing) => ContentView::Tree(Cow::Borrowed(listing)),
            None => ContentView::read(self.place).map_err(|error| describe_error(&error))?,
        };
        let mut asked = blake3::Hasher::new();
        asked.update(self.site.name().as_bytes());
        let known = self.wanted.iter().map(|gate| {
            let key = view.key(self.place, gate);
            asked.update(&key.0);
            let known = cache.lookup(&key).map_err(|error| describe_error(&error))?;
            // Otherwise no repair could ever change it.
            if let CachedResult::Result(report) = &known
                && is_reported_once(gate, report)
            {
                drop(cache.clear(&key, &|| false));
            }
            if let CachedResult::Result(report) = &known
                && time == LookupTime::BeforeWorker
                && checkout_results::failed_during_base_measurement(self.contract, cache, report)
            {
                drop(cache.clear(&key, &|| false));
                return Ok((gate.name.clone(), KnownResult { result: CachedResult::Missing, key }));
            }
            Ok((gate.name.clone(), KnownResult { result: known, key }))
        });
        let board = known.collect::<Result<_, String>>().map(KnownGateResults)?;
        Ok((board, asked.finalize().to_hex().to_string()))
    }

    /// The names of the gates to run: none after a stage that is known to fail.
    fn gates_to_run(&self, cache: &ResultCache, board: &KnownGateResults) -> Vec<String> {
        let mut names = Vec::new();
        let mut missing = false;
        for batch in GateBatch::all() {
            let members = self.wanted.iter().filter(|gate| gate.batch() == batch);
            let mut open = false;
            for gate in members {
                match board.0.get(&gate.name).map(|known| &known.result) {
                    Some(CachedResult::Result(report)) => {
                        missing |= self.lacks_base(cache, gate, report);
                        let requirement = self.requirement_for(cache, gate, report);
                        open |= self.contract.holds(&requirement);
                        if !is_reported_once(gate, report) {
                            names.push(gate.name.clone());
                        }
                    }
                    Some(CachedResult::Running | CachedResult::Missing) | None => {
                        missing = true;
                        names.push(gate.name.clone());
                    }
                }
            }
            if open {
                break;
            }
        }
        if missing { names } else { Vec::new() }
    }

    /// Whether the base still lacks a result to compare with. Happens if the result is from `ralph gate run` or a
    /// warm-up.
    fn lacks_base(&self, cache: &ResultCache, gate: &Gate, report: &GateReport) -> bool {
        self.site == GateSite::Tree
            && self.contract.seal.base.is_some()
            && self.is_compared_with_base(gate, report)
            && checkout_results::base_result(self.contract, cache, gate, report).is_none()
    }

    /// Whether the result is compared with the base. A list check is not: it fails at the base because the item is not
    /// done yet, which excuses nothing.
    fn is_compared_with_base(&self, gate: &Gate, report: &GateReport) -> bool {
        // The base has no commit that a provider was asked about.
        self.contract.is_of_policy(gate)
            && !gate.is_ci()
            && baseline::needs_base_result(gate, report)
    }

    fn requirement_for(
        &self,
        cache: &ResultCache,
        gate: &Gate,
        report: &GateReport,
    ) -> Requirement {
        let is_typed = self.contract.seal.checks.contains(&gate.name);
        if !self.contract.is_of_policy(gate) || is_typed && report.lacks_named_file() {
            return gate.check_requirement(report);
        }
        let base = self
            .is_compared_with_base(gate, report)
            .then(|| checkout_results::base_result(self.contract, cache, gate, report))
            .flatten()
            .or_else(|| self.unmeasured_base(gate, report));
        let policy = &self.contract.seal.policy;
        if let Some(status) =
            session_contract::excused_failure(self.contract, report, base.as_ref())
        {
            return gate.requirement_with(status);
        }
        let proof = policy.verify.proof;
        let report = baseline::compare_with_base(gate, report.clone(), base.as_ref(), proof);
        let report = coverage_evidence::judge_changed_lines(gate, report, self.changed);
        gate.requirement(&report, policy.baseline)
    }

    /// Stands for the base of a failed gate that has no result there.
    fn unmeasured_base(&self, gate: &Gate, report: &GateReport) -> Option<GateReport> {
        let is_expected =
            self.site == GateSite::Tree && self.contract.seal.base.is_some() && !gate.is_ci();
        let why = "the base has not been measured".to_string();
        let unknown = UnknownReason::Inconclusive(why);
        (is_expected && report.outcome == GateOutcome::Failed)
            .then(|| GateReport::unknown(gate, unknown, report.at_ms))
    }

    /// Whether the last stop was answered while the gate ran.
    fn was_running(&self, gate: &Gate) -> bool {
        let lines = self.contract.last_report.map_or(&[][..], |report| &report.lines);
        lines
            .iter()
            .any(|line| line.name == gate.name && line.pending == Some(PendingKind::Running))
    }

    /// The entry of the journal for a result.
    fn record(&self, gate: &Gate, known: &KnownResult) -> Option<GateRecord> {
        let CachedResult::Result(report) = &known.result else { return None };
        let site = match self.site {
            GateSite::Clean => MeasuredSite::Clean,
            GateSite::Red | GateSite::Base | GateSite::Proof => MeasuredSite::Base,
            GateSite::Tree | GateSite::Judge => MeasuredSite::Tree,
        };
        // The run's own worker went on with it after the last stop, so this is the first time that it is used.
        let is_own = self.was_running(gate) && report.at_ms >= self.contract.run.started_ms;
        let is_cached = report.at_ms < self.contract.world.arrived_ms && !is_own;
        let key: String = known.key.hex().chars().take(KEY_DIGITS).collect();
        // A job that was repeated for the same commit is another measurement, so the gate is not flaky.
        let key = if gate.is_ci() { format!("{key}-{:x}", report.at_ms) } else { key };
        let changed_coverage = coverage_evidence::changed_count(gate, report, self.changed);
        let record = GateRecord::from_report(report, site, key, is_cached);
        Some(GateRecord { changed_coverage, ..record })
    }

    fn requirements(
        &self,
        cache: &ResultCache,
        mut board: KnownGateResults,
        left: WorkerState,
    ) -> MeasuredGates {
        let mut requirements = Vec::new();
        let mut accepted = Vec::new();
        let mut records = Vec::new();
        let mut waiting_for: Option<GateBatch> = None;
        for batch in GateBatch::all() {
            let mut open = false;
            for gate in self.wanted.iter().filter(|gate| gate.batch() == batch) {
                let known = board.0.remove(&gate.name);
                records.extend(known.as_ref().and_then(|known| self.record(gate, known)));
                let result = known.map(|known| known.result);
                let requirement = match (waiting_for, result) {
                    (Some(earlier), _) => {
                        let why = batch.wait_reason(earlier);
                        gate.requirement_with(RequirementStatus::Pending(why))
                    }
                    (None, Some(CachedResult::Result(report)))
                        if left == WorkerState::Running
                            && checkout_results::depends_on_base(self.contract, &report)
                            && self.lacks_base(cache, gate, &report) =>
                    {
                        running_requirement(gate, "being compared with the base")
                    }
                    (None, Some(CachedResult::Result(report))) => {
                        requirements.extend(flaky_requirement(gate, &report));
                        let requirement = self.requirement_for(cache, gate, &report);
                        if report.outcome == GateOutcome::Failed && !requirement.is_open() {
                            accepted.push(*report);
                        }
                        requirement
                    }
                    (None, Some(CachedResult::Running)) => {
                        running_requirement(gate, "still running")
                    }
                    (None, Some(CachedResult::Missing) | None) => match left {
                        WorkerState::Running => running_requirement(gate, "waits for its turn"),
                        WorkerState::Done => gate.requirement_with(RequirementStatus::Unknown(
                            "it produced no result".to_string(),
                        )),
                    },
                };
                open |= self.contract.holds(&requirement);
                requirements.push(requirement);
            }
            if open && waiting_for.is_none() {
                waiting_for = Some(batch);
            }
        }
        MeasuredGates { requirements, accepted, records }
    }
}

impl KnownGateResults {
    /// Carries over results that the lookup removed from the cache, for gates that have no newer result.
    fn keep_reported_once(&mut self, before: Self, gates: &[&Gate]) {
        for (name, known) in before.0 {
            let gate = gates.iter().find(|gate| gate.name == name);
            let is_removed = matches!((&known.result, gate), (CachedResult::Result(report), Some(gate)) if is_reported_once(gate, report));
            let now = self.0.get(&name).map(|known| &known.result);
            if is_removed && matches!(now, None | Some(CachedResult::Missing)) {
                self.0.insert(name, known);
            }
        }
    }
}

/// Whether a result is reported once, and then the gate runs again: one that is unknown, and a failure at a CI provider,
/// where a person can repeat a job of the same commit.
fn is_reported_once(gate: &Gate, report: &GateReport) -> bool {
    match report.outcome {
        GateOutcome::Unknown(_) => true,
        GateOutcome::Failed => gate.is_ci(),
        GateOutcome::Passed => false,
    }
}

/// Reports a gate that failed first and then passed.
fn flaky_requirement(gate: &Gate, report: &GateReport) -> Option<Requirement> {
    (report.steadiness == ResultStability::Flaky).then(|| Requirement {
        name: format!("{} (flaky)", gate.name),
        stage: gate.stage,
        status: RequirementStatus::Unmet(RequirementFailure {
            findings: report.findings.clone(),
            log: report.log.clone(),
            ..RequirementFailure::new("it failed first and passed when run again".to_string())
        }),
        weight: RequirementWeight::Advisory,
        next: String::new(),
    })
}

pub(super) fn running_requirement(gate: &Gate, how: &str) -> Requirement {
    let why = format!("{how}; the result will be available at the next stop");
    gate.requirement_with(RequirementStatus::Pending(PendingReason::Running(why)))
}
