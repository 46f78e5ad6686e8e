//! Runs gates by stage and in parallel, and caches each result by the content it depends on.
//!
//! Running gates never fails: a gate that cannot be run has the result `unknown`, and the caller decides what that
//! means.

mod attempt;
pub mod cache;
mod explain;
pub mod history;
pub mod key;
mod schedule;
pub mod tools;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ralph_core::gate::{Gate, GateReport, Outcome, Unknown};
use ralph_core::policy::Environment;

use crate::environment;
use cache::{Cache, Claim, Taken};
pub use explain::{ExplainError, Explained, explain};
use history::History;
use key::{Key, Setting};
use ralph_git::tree::{self, Listing, Survey, TreeError};
use ralph_home::faults::describe;
use ralph_home::paths::Home;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::Cancel;

/// The directory, content and environment that gates run with.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub home: &'a Home,
    pub env: &'a Env,
    /// The directory of the policy. Gates run here or below.
    pub project: &'a Path,
    pub content: Content<'a>,
    pub environment: &'a Environment,
    /// The `PATH` from when the user approved the policy; `None` for ralph's own.
    pub path: Option<&'a OsStr>,
    /// Deadline for listing the files.
    pub deadline: Deadline,
}

/// Which gates to run, and how.
#[derive(Clone, Copy)]
pub struct Course<'a> {
    pub place: Place<'a>,
    pub gates: &'a [&'a Gate],
    pub order: Order,
    pub reuse: Reuse,
    pub cancel: &'a Cancel,
    /// Whether the next stage may start after this result.
    pub accepts: &'a (dyn Fn(&Ran) -> bool + Sync),
    /// Called when a gate starts or ends.
    pub watch: &'a (dyn Fn(Seen<'_>) + Sync),
}

/// The files that gates run on.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// The work tree that contains the project, in its current state, without the absolute directories in `exclude`.
    Tree { exclude: &'a [PathBuf] },
    /// A checkout in which nothing else runs, with the fingerprint of its content.
    Checkout([u8; 32]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A stage starts when the previous one has passed.
    Staged,
    /// All gates run, whatever the results of the others.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Cached results for this content are used.
    Known,
    Nothing,
}

/// Reported while gates run.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    Started(&'a Gate),
    Ended(&'a Ran),
}

#[derive(Clone, Debug)]
pub struct Ran {
    pub gate: Gate,
    pub report: GateReport,
    pub source: Source,
    key: Option<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Fresh,
    Cached,
    NotRun,
}

impl std::fmt::Debug for Course<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GateRunRequest").field("context", &self.place).finish_non_exhaustive()
    }
}

/// Runs gates and returns the results in the order of the gates.
pub fn run(course: &Course<'_>) -> Vec<Ran> {
    let (cache, view) = match (Cache::open(course.place.home), View::of(&course.place)) {
        (Ok(cache), Ok(view)) => (cache, view),
        (Err(error), _) => return cannot(course, &describe(&error)),
        (_, Err(error)) => return cannot(course, &describe(&error)),
    };
    let mut ran = schedule::all(course, &Bench { cache: &cache, view: &view });
    for last in [false, true] {
        let Some((now, moved)) = moved(course, &ran) else { break };
        let bench = Bench { cache: &cache, view: &now };
        for at in moved {
            ran[at] = if last {
                unsteady(course, &bench, &ran[at])
            } else {
                one(course, &bench, &ran[at].gate)
            };
            (course.watch)(Seen::Ended(&ran[at]));
        }
    }
    // A gate that could not be run has no meaningful duration.
    let fresh = ran.iter().filter(|ran| {
        ran.source == Source::Fresh && !matches!(ran.report.outcome, Outcome::Unknown(_))
    });
    let took: Vec<_> = fresh.map(|ran| (ran.gate.name.clone(), ran.report.took_ms)).collect();
    if !took.is_empty() {
        History::write(course.place.home, course.place.project, took);
        cache.tidy();
    }
    ran
}

/// The cache and the content that results are looked up with.
#[derive(Clone, Copy)]
struct Bench<'a> {
    cache: &'a Cache,
    view: &'a View<'a>,
}

/// The content at one point in time.
#[derive(Debug)]
pub enum View<'a> {
    Tree(Cow<'a, Listing>),
    Checkout([u8; 32]),
}

impl View<'_> {
    pub fn of(place: &Place<'_>) -> Result<Self, TreeError> {
        let exclude = match place.content {
            Content::Checkout(known) => return Ok(Self::Checkout(known)),
            Content::Tree { exclude } => exclude,
        };
        let cache = tree::cache(place.home, place.project);
        tree::list(&Survey {
            project: place.project,
            exclude,
            cache: Some(&cache),
            deadline: &place.deadline,
        })
        .map(|listing| Self::Tree(Cow::Owned(listing)))
    }

    pub fn key(&self, place: &Place<'_>, gate: &Gate) -> Key {
        let environment = place.environment_of(gate);
        let content = match self {
            Self::Tree(listing) => key::content(gate, place.project, listing),
            Self::Checkout(known) => *known,
        };
        key::of(gate, &Setting { project: place.project, environment: &environment, content })
    }
}

impl Place<'_> {
    pub(crate) fn environment_of(&self, gate: &Gate) -> Vec<(OsString, OsString)> {
        environment::for_gate(self.env, self.environment, gate, self.path)
    }
}

/// Finds the gates whose files changed while they ran. A result counts only for the tree it was measured on, so they
/// are run again.
fn moved(course: &Course<'_>, ran: &[Ran]) -> Option<(View<'static>, Vec<usize>)> {
    if course.cancel.is_wished() || ran.iter().all(|ran| ran.source != Source::Fresh) {
        return None;
    }
    let now = View::of(&course.place).ok()?;
    let moved: Vec<usize> = (0..ran.len())
        .filter(|at| ran[*at].source == Source::Fresh)
        .filter(|at| ran[*at].key.is_some_and(|key| key != now.key(&course.place, &ran[*at].gate)))
        .collect();
    (!moved.is_empty()).then_some((now, moved))
}

fn unsteady(course: &Course<'_>, bench: &Bench<'_>, ran: &Ran) -> Ran {
    let why = "files it reads changed twice while it ran; ignore the files it writes, or list the files it reads in `paths`";
    let unknown = Unknown::Inconclusive(why.to_string());
    let report = GateReport {
        log: ran.report.log.clone(),
        ..GateReport::unknown(&ran.gate, unknown, clock::now_ms())
    };
    let key = bench.view.key(&course.place, &ran.gate);
    if let Ok(Taken::Ours(claim)) = bench.cache.take_anew(&key, &|| false) {
        drop(claim.settle(&report));
    }
    Ran { gate: ran.gate.clone(), report, source: Source::Fresh, key: None }
}

fn one(course: &Course<'_>, bench: &Bench<'_>, gate: &Gate) -> Ran {
    (course.watch)(Seen::Started(gate));
    let key = bench.view.key(&course.place, gate);
    let patient = || !course.cancel.is_wished();
    let taken = match course.reuse {
        Reuse::Known => bench.cache.take(&key, &patient),
        Reuse::Nothing => bench.cache.take_anew(&key, &patient),
    };
    let (report, source) = match taken {
        Ok(Taken::Result(report)) => (*report, Source::Cached),
        Ok(Taken::Ours(claim)) => (measured(course, bench, &key, (gate, claim)), Source::Fresh),
        Ok(Taken::Busy) => {
            let unknown =
                Unknown::Error("cancelled while another ralph was running it".to_string());
            (GateReport::unknown(gate, unknown, clock::now_ms()), Source::NotRun)
        }
        Err(error) => {
            let unknown = Unknown::Error(describe(&error));
            (GateReport::unknown(gate, unknown, clock::now_ms()), Source::NotRun)
        }
    };
    let key = (source == Source::Fresh).then_some(key);
    Ran { gate: gate.clone(), report, source, key }
}

fn measured(
    course: &Course<'_>,
    bench: &Bench<'_>,
    key: &Key,
    (gate, claim): (&Gate, Claim),
) -> GateReport {
    let report = attempt::settled(course, gate, |attempt| bench.cache.log(gate, key, attempt));
    // A cancelled gate has no meaningful result.
    if !course.cancel.is_wished() {
        drop(claim.settle(&report));
    }
    report
}

fn cannot(course: &Course<'_>, why: &str) -> Vec<Ran> {
    course.gates.iter().map(|gate| not_run(gate, Unknown::Error(why.to_string()))).collect()
}

fn not_run(gate: &Gate, unknown: Unknown) -> Ran {
    let report = GateReport::unknown(gate, unknown, clock::now_ms());
    Ran { gate: gate.clone(), report, source: Source::NotRun, key: None }
}

impl Ran {
    pub fn passed(&self) -> bool {
        self.report.outcome == Outcome::Passed
    }
}

#[cfg(any(test, feature = "testing"))]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "only tests call this"
)]
pub mod testing {
    use ralph_core::gate::{
        Command, Format, Gate, GateReport, MinTests, Moment, Outcome, Rerun, Steadiness,
    };
    use ralph_core::requirement::{Stage, Weight};

    pub fn report(name: &str, outcome: Outcome) -> GateReport {
        GateReport {
            name: name.to_string(),
            outcome,
            findings: Vec::new(),
            finding_count: 0,
            tests: None,
            exit: Some(0),
            steadiness: Steadiness::Once,
            took_ms: 3,
            at_ms: 4,
            log: None,
        }
    }

    pub fn gate(name: &str, argv: &[&str]) -> Gate {
        Gate {
            name: name.to_string(),
            stage: Stage::Correctness,
            command: Command::Argv(argv.iter().map(ToString::to_string).collect()),
            cwd: String::new(),
            timeout_ms: 60_000,
            paths: Vec::new(),
            when: Vec::new(),
            on: vec![Moment::Stop],
            min_complexity: 0,
            weight: Weight::Required,
            report: Format::Text,
            min_tests: MinTests::Some,
            rerun: Rerun::Tests,
            env: Vec::new(),
        }
    }
}
