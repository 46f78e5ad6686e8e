//! Runs gates by stage and in parallel, and caches each result by the content it depends on.
//!
//! Running gates never fails: a gate that cannot be run has the result `unknown`, and the caller decides what that
//! means.

mod execution;
mod explanation;
pub mod gate_history;
pub mod gate_tools;
mod report_files;
mod rerun_selection;
pub mod result_cache;
pub mod result_key;
mod schedule;
pub mod simple_commands;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::gate::{Gate, GateOutcome, GateReport, UnknownReason};
use ralph_core::policy::GateEnvironment;

use crate::command_place::CommandCheckout;
use crate::environment;
pub use explanation::{GateExplainError, GateExplanation, explain_gate};
use gate_history::GateHistory;
use ralph_git::tree::{self, ListingError, ListingRequest, WorkTreeListing};
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::paths::RalphHome;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::private_mounts::PrivateMounts;
use result_cache::{ClaimOutcome, ResultCache, ResultClaim};
use result_key::{ResultKey, ResultKeyInputs};

/// For listing the files again after the gates ran.
const RECHECK_TIMEOUT: Duration = Duration::from_mins(5);

/// The directory, content and environment that gates run with.
#[derive(Clone, Copy, Debug)]
pub struct GateContext<'a> {
    pub home: &'a RalphHome,
    pub env: &'a Env,
    /// The directory of the policy. Gates run here or below.
    pub project: &'a Path,
    pub content: GateContent<'a>,
    pub environment: &'a GateEnvironment,
    /// The `PATH` from when the user approved the policy; `None` for ralph's own.
    pub path: Option<&'a OsStr>,
    /// Directories that the gates see in place of others.
    pub mounts: Option<&'a PrivateMounts>,
    /// The base of a run, as a commit: the command of a `[[ci]]` runs in a checkout of it, and results of CI count for
    /// this base alone. `None` outside of a run: the command runs in the project.
    pub ci_base: Option<&'a str>,
    /// Deadline for listing the files.
    pub deadline: Deadline,
}

/// Which gates to run, and how.
#[derive(Clone, Copy)]
pub struct GateRunRequest<'a> {
    /// The files of the work tree as they are now, if the caller has just listed them.
    pub listing: Option<&'a WorkTreeListing>,
    pub context: GateContext<'a>,
    pub gates: &'a [&'a Gate],
    pub order: GateOrder,
    pub reuse: ResultReuse,
    pub cancel: &'a CancelToken,
    /// The checkout of the context's `ci_base`. It may be absent if no gate has a command that asks CI.
    pub ci_checkout: Option<&'a dyn CommandCheckout>,
    /// Whether the next stage may start after this result.
    pub accepts: &'a (dyn Fn(&GateResult) -> bool + Sync),
    /// Called when a gate starts or ends.
    pub watch: &'a (dyn Fn(GateEvent<'_>) + Sync),
}

/// The files that gates run on.
#[derive(Clone, Copy, Debug)]
pub enum GateContent<'a> {
    /// The work tree that contains the project, in its current state, without the absolute directories in `exclude`.
    Tree { exclude: &'a [PathBuf] },
    /// A checkout in which nothing else runs, with the fingerprint of its content.
    Checkout([u8; 32]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOrder {
    /// A stage starts when the previous one has passed.
    Staged,
    /// All gates run, whatever the results of the others.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultReuse {
    /// Cached results for this content are used.
    Cached,
    /// The same, but a CI provider is asked: it may repeat a job of the same commit.
    CachedUnlessCi,
    Never,
}

/// Reported while gates run.
#[derive(Clone, Copy, Debug)]
pub enum GateEvent<'a> {
    Started(&'a Gate),
    /// It failed and is about to run again, to confirm the failure. The watcher may block until nothing disturbs the
    /// second run.
    Confirming(&'a Gate),
    Ended(&'a GateResult),
    /// The work tree after gates ran.
    TreeListed(&'a WorkTreeListing),
    /// Files of the work tree changed while gates ran.
    TreeChanged {
        before: &'a WorkTreeListing,
        after: &'a WorkTreeListing,
    },
}

#[derive(Clone, Debug)]
pub struct GateResult {
    pub gate: Gate,
    pub report: GateReport,
    pub source: ResultSource,
    key: Option<ResultKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultSource {
    Fresh,
    Cached,
    NotRun,
}

impl std::fmt::Debug for GateRunRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GateRunRequest").field("context", &self.context).finish_non_exhaustive()
    }
}

/// Runs gates and returns the results in the order of the gates.
pub fn run_gates(course: &GateRunRequest<'_>) -> Vec<GateResult> {
    let view = match course.listing {
        Some(listing) => Ok(ContentView::Tree(Cow::Borrowed(listing))),
        None => ContentView::read(&course.context),
    };
    let (cache, view) = match (ResultCache::open(course.context.home), view) {
        (Ok(cache), Ok(view)) => (cache, view),
        (Err(error), _) => return none_can_run(course, &describe_error(&error)),
        (_, Err(error)) => return none_can_run(course, &describe_error(&error)),
    };
    let mut ran = schedule::run_stages(course, &ResultLookup { cache: &cache, view: &view });
    let mut seen = view;
    for last in [false, true] {
        let now = match list_again(course, &ran) {
            Ok(Some(now)) => now,
            Ok(None) => break,
            Err(error) => {
                invalidate_fresh(course, &mut ran, &error);
                break;
            }
        };
        if let ContentView::Tree(listing) = &now {
            (course.watch)(GateEvent::TreeListed(listing));
        }
        if let (ContentView::Tree(before), ContentView::Tree(after)) = (&seen, &now)
            && before.entries != after.entries
        {
            (course.watch)(GateEvent::TreeChanged { before, after });
        }
        let moved = find_changed_inputs(course, &ran, &now);
        if moved.is_empty() {
            break;
        }
        let bench = ResultLookup { cache: &cache, view: &now };
        for at in moved {
            ran[at] = if last {
                unsteady_result(course, &bench, &ran[at])
            } else {
                run_gate(course, &bench, &ran[at].gate)
            };
            (course.watch)(GateEvent::Ended(&ran[at]));
        }
        seen = now;
    }
    // A gate that could not be run has no meaningful duration.
    let fresh = ran.iter().filter(|ran| {
        ran.source == ResultSource::Fresh && !matches!(ran.report.outcome, GateOutcome::Unknown(_))
    });
    let name = |gate: &Gate| match course.context.content {
        GateContent::Tree { .. } => gate.name.clone(),
        GateContent::Checkout(_) => gate_history::checkout_name(&gate.name),
    };
    let took: Vec<_> = fresh.map(|ran| (name(&ran.gate), ran.report.took_ms)).collect();
    if !took.is_empty() {
        GateHistory::write(course.context.home, course.context.project, took);
    }
    ran
}

/// The cache and the content that results are looked up with.
#[derive(Clone, Copy)]
struct ResultLookup<'a> {
    cache: &'a ResultCache,
    view: &'a ContentView<'a>,
}

/// The content at one point in time.
#[derive(Debug)]
pub enum ContentView<'a> {
    Tree(Cow<'a, WorkTreeListing>),
    Checkout([u8; 32]),
}

impl ContentView<'_> {
    pub fn read(place: &GateContext<'_>) -> Result<Self, ListingError> {
        let exclude = match place.content {
            GateContent::Checkout(known) => return Ok(Self::Checkout(known)),
            GateContent::Tree { exclude } => exclude,
        };
        let cache = tree::stat_cache_path(place.home, place.project);
        tree::list_work_tree(&ListingRequest {
            project: place.project,
            exclude,
            cache: Some(&cache),
            deadline: &place.deadline,
        })
        .map(|listing| Self::Tree(Cow::Owned(listing)))
    }

    pub fn key(&self, place: &GateContext<'_>, gate: &Gate) -> ResultKey {
        let environment = place.gate_environment(gate);
        let content = match self {
            Self::Tree(listing) if gate.is_ci() => {
                result_key::commit_fingerprint(listing, place.ci_base)
            }
            Self::Tree(listing) => result_key::input_fingerprint(gate, place.project, listing),
            Self::Checkout(known) => *known,
        };
        result_key::compute_key(
            gate,
            &ResultKeyInputs { project: place.project, environment: &environment, content },
        )
    }
}

impl GateContext<'_> {
    pub(crate) fn gate_environment(&self, gate: &Gate) -> Vec<(OsString, OsString)> {
        environment::gate_environment(self.env, self.environment, gate, self.path)
    }
}

/// The content after gates ran; `None` if none did. The gates may have taken longer than the first listing was allowed
/// to, so this one has its own limit.
fn list_again(
    course: &GateRunRequest<'_>,
    ran: &[GateResult],
) -> Result<Option<ContentView<'static>>, ListingError> {
    if course.cancel.is_cancelled() || ran.iter().all(|ran| ran.source != ResultSource::Fresh) {
        return Ok(None);
    }
    let deadline = Deadline::after(RECHECK_TIMEOUT);
    ContentView::read(&GateContext { deadline, ..course.context }).map(Some)
}

/// Finds the gates whose files changed while they ran. A result counts only for the tree it was measured on, so they
/// are run again.
fn find_changed_inputs(
    course: &GateRunRequest<'_>,
    ran: &[GateResult],
    now: &ContentView<'_>,
) -> Vec<usize> {
    (0..ran.len())
        .filter(|at| ran[*at].source == ResultSource::Fresh)
        .filter(|at| {
            ran[*at].key.is_some_and(|key| key != now.key(&course.context, &ran[*at].gate))
        })
        .collect()
}

/// Without a second listing it is unknown which tree the new results were measured on.
fn invalidate_fresh(course: &GateRunRequest<'_>, ran: &mut [GateResult], error: &ListingError) {
    for result in ran.iter_mut().filter(|result| result.source == ResultSource::Fresh) {
        let unknown = UnknownReason::Error(describe_error(error));
        result.report = GateReport {
            log: result.report.log.take(),
            ..GateReport::unknown(&result.gate, unknown, clock::now_ms())
        };
        (course.watch)(GateEvent::Ended(result));
    }
}

fn unsteady_result(
    course: &GateRunRequest<'_>,
    bench: &ResultLookup<'_>,
    ran: &GateResult,
) -> GateResult {
    let why = "files it reads changed twice while it ran; ignore the files it writes, or list the files it reads in `paths`";
    let unknown = UnknownReason::Inconclusive(why.to_string());
    let report = GateReport {
        log: ran.report.log.clone(),
        ..GateReport::unknown(&ran.gate, unknown, clock::now_ms())
    };
    let key = bench.view.key(&course.context, &ran.gate);
    if let Ok(ClaimOutcome::Claimed(claim)) = bench.cache.claim_fresh(&key, &|| false) {
        store_result(course.context.home, claim, &report);
    }
    GateResult { gate: ran.gate.clone(), report, source: ResultSource::Fresh, key: None }
}

fn run_gate(course: &GateRunRequest<'_>, bench: &ResultLookup<'_>, gate: &Gate) -> GateResult {
    (course.watch)(GateEvent::Started(gate));
    let key = bench.view.key(&course.context, gate);
    let patient = || !course.cancel.is_cancelled();
    let is_reused = match course.reuse {
        ResultReuse::Cached => true,
        ResultReuse::CachedUnlessCi => !gate.is_ci(),
        ResultReuse::Never => false,
    };
    let taken = if is_reused {
        bench.cache.claim(&key, &patient)
    } else {
        bench.cache.claim_fresh(&key, &patient)
    };
    let (report, source) = match taken {
        Ok(ClaimOutcome::Cached(report)) => (*report, ResultSource::Cached),
        Ok(ClaimOutcome::Claimed(claim)) => {
            (run_claimed(course, bench, &key, gate, claim), ResultSource::Fresh)
        }
        Ok(ClaimOutcome::Busy) => {
            let unknown =
                UnknownReason::Error("cancelled while another ralph was running it".to_string());
            (GateReport::unknown(gate, unknown, clock::now_ms()), ResultSource::NotRun)
        }
        Err(error) => {
            let unknown = UnknownReason::Error(describe_error(&error));
            (GateReport::unknown(gate, unknown, clock::now_ms()), ResultSource::NotRun)
        }
    };
    let key = (source == ResultSource::Fresh).then_some(key);
    GateResult { gate: gate.clone(), report, source, key }
}

fn run_claimed(
    course: &GateRunRequest<'_>,
    bench: &ResultLookup<'_>,
    key: &ResultKey,
    gate: &Gate,
    claim: ResultClaim,
) -> GateReport {
    let report = execution::run_with_confirmation(course, gate, |attempt| {
        bench.cache.log_path(gate, key, attempt)
    });
    // A cancelled gate has no meaningful result.
    if !course.cancel.is_cancelled() {
        store_result(course.context.home, claim, &report);
    }
    report
}

/// The result counts even if it cannot be cached, but then every stop runs the gate again.
fn store_result(home: &RalphHome, claim: ResultClaim, report: &GateReport) {
    if let Err(error) = claim.fill(report) {
        faults::record_fault(home, &Fault::new(FaultKind::File, &describe_error(&error)));
    }
}

fn none_can_run(course: &GateRunRequest<'_>, why: &str) -> Vec<GateResult> {
    course
        .gates
        .iter()
        .map(|gate| not_run_result(gate, UnknownReason::Error(why.to_string())))
        .collect()
}

fn not_run_result(gate: &Gate, unknown: UnknownReason) -> GateResult {
    let report = GateReport::unknown(gate, unknown, clock::now_ms());
    GateResult { gate: gate.clone(), report, source: ResultSource::NotRun, key: None }
}

impl GateResult {
    pub fn passed(&self) -> bool {
        self.report.outcome == GateOutcome::Passed
    }
}

/// Helpers for tests of this crate and of dependent crates. Not behind a feature, because every dependent crate would
/// then be built twice, for the tests and for the program.
#[doc(hidden)]
pub mod testing {
    use ralph_core::gate::{Gate, GateInvocation, GateOutcome, GateReport};

    pub fn sample_report(name: &str, outcome: GateOutcome) -> GateReport {
        GateReport { exit: Some(0), took_ms: 3, ..GateReport::new(name, outcome, 4) }
    }

    pub fn sample_gate(name: &str, argv: &[&str]) -> Gate {
        Gate::new(name, GateInvocation::Argv(argv.iter().map(ToString::to_string).collect()))
    }
}
