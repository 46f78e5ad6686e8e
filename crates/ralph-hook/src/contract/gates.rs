//! Gate results of a contract: cached results first, then a worker that runs the remaining gates.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ralph_core::gate::{Gate, GateReport, Outcome, Steadiness};
use ralph_core::policy::Baseline;
use ralph_core::requirement::{Failure, Pending, Requirement, Stage, Standing, Weight};

use super::work::{self, Left, Task, Where};
use super::{Contract, baseline, seal};
use ralph_gates::gates::cache::{Cache, Known};
use ralph_gates::gates::key::globs_of;
use ralph_gates::gates::{Place, View};
use ralph_git::tree::Listing;
use ralph_home::faults::describe;
use ralph_lists::lists;
use ralph_sys::clock::Deadline;

/// Time reserved for the answer when gates use up the rest.
const MARGIN: Duration = Duration::from_secs(4);

/// Selects the gates of the policy that `asks` names and that apply to these changed paths.
pub(super) fn wanted<'a>(
    contract: &Contract<'a>,
    touched: &[String],
    asks: &dyn Fn(&Gate) -> bool,
) -> Vec<&'a Gate> {
    let complexity = contract.seal.complexity.unwrap_or(u8::MAX);
    let counts = |gate: &&Gate| {
        let globs = globs_of(&gate.when);
        asks(gate)
            && gate.min_complexity <= complexity
            && (gate.when.is_empty()
                // Without a base the changed paths are unknown, so the gate applies.
                || contract.seal.base.is_none()
                || touched.iter().any(|path| globs.is_match(Path::new(path))))
    };
    contract.seal.policy.gates.iter().filter(counts).collect()
}

/// The requirements of the gates, in the tree or in a checkout. A worker runs the gates without a cached result, as far
/// as time allows.
pub(super) fn told(inquiry: &Inquiry<'_>) -> Vec<Requirement> {
    let resolve = || {
        let cache = inquiry.cache()?;
        let (board, left) = inquiry.settle(&cache)?;
        Ok(inquiry.requirements(&cache, board, left))
    };
    let all = |standing: Standing| {
        inquiry.wanted.iter().map(|gate| gate.standing(standing.clone())).collect()
    };
    match resolve() {
        Ok(requirements) => requirements,
        Err(Unsettled::Unknown(why)) => all(Standing::Unknown(why)),
        Err(Unsettled::NotRun(why)) => all(Standing::Pending(Pending::NotReached(why))),
    }
}

/// Why gates were not run.
#[derive(Debug)]
pub(super) enum Unsettled {
    Unknown(String),
    /// A script that they call is not the one that a person approved.
    NotRun(String),
}

impl From<String> for Unsettled {
    fn from(why: String) -> Self {
        Self::Unknown(why)
    }
}

/// The requirements of list checks. They run after the gates and separately from them: most checks fail until the end,
/// and no gate should wait for that.
pub(super) fn checked(gates: &Inquiry<'_>, is_busy: bool) -> Vec<Requirement> {
    let wanted: Vec<&Gate> = gates.contract.checks.due.iter().collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    if is_busy {
        return wanted.into_iter().map(|gate| running(gate, "waits for the gates")).collect();
    }
    self::told(&Inquiry { wanted: &wanted, ..*gates })
}

/// The gates to query, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inquiry<'a> {
    pub contract: &'a Contract<'a>,
    pub wanted: &'a [&'a Gate],
    pub place: &'a Place<'a>,
    pub site: Where,
    /// The current listing of the tree, if the caller has one.
    pub listing: Option<&'a Listing>,
}

/// Cached results, by the name of the gate.
#[derive(Debug, Default)]
pub(super) struct Board(pub BTreeMap<String, Known>);

impl Inquiry<'_> {
    pub(super) fn settle(&self, cache: &Cache) -> Result<(Board, Left), Unsettled> {
        let (mut board, mark) = self.look(cache, self.listing)?;
        let mut left = Left::Done;
        let names = self.unknown(cache, &board);
        if !names.is_empty() {
            if let Some(what) = self.unapproved() {
                return Err(Unsettled::NotRun(format!(
                    "not run: {what} changed since it was approved"
                )));
            }
            let until = Deadline::after(self.contract.world.end.remaining().saturating_sub(MARGIN));
            let task = Task { site: self.site, gates: names, mark };
            left = work::start(self.contract, &task, until).map_err(|error| describe(&error))?;
            let before = std::mem::replace(&mut board, self.look(cache, None)?.0);
            board.keep(before);
        }
        Ok((board, left))
    }

    /// A script that one of the gates calls and that was not approved in its current form. It must not run: a tree can
    /// be restored, but the effects of a command cannot.
    fn unapproved(&self) -> Option<String> {
        let contract = self.contract;
        let is_check = |gate: &&&Gate| !contract.is_of_policy(gate);
        let has_checks = self.wanted.iter().any(|gate| is_check(&gate));
        let has_gates = self.wanted.iter().any(|gate| !is_check(&gate));
        let of_gates = || seal::unapproved(contract).filter(|_| has_gates);
        let of_lists = || lists::unapproved(contract.world, contract.run).filter(|_| has_checks);
        of_gates().or_else(of_lists)
    }

    pub(super) fn cache(&self) -> Result<Cache, String> {
        Cache::open(&self.contract.world.home).map_err(|error| describe(&error))
    }

    /// The cached results, and a mark that identifies these gates on this content.
    fn look(&self, cache: &Cache, known: Option<&Listing>) -> Result<(Board, String), String> {
        let view = match known {
            Some(listing) => View::Tree(Cow::Borrowed(listing)),
            None => View::of(self.place).map_err(|error| describe(&error))?,
        };
        let mut asked = blake3::Hasher::new();
        asked.update(self.site.name().as_bytes());
        let known = self.wanted.iter().map(|gate| {
            let key = view.key(self.place, gate);
            asked.update(&key.0);
            let known = cache.look(&key).map_err(|error| describe(&error))?;
            // An unknown result is reported once, then the gate runs again. Otherwise no repair could ever change it.
            if let Known::Result(report) = &known
                && matches!(report.outcome, Outcome::Unknown(_))
            {
                drop(cache.forget(&key, &|| false));
            }
            Ok((gate.name.clone(), known))
        });
        let board = known.collect::<Result<_, String>>().map(Board)?;
        Ok((board, asked.finalize().to_hex().to_string()))
    }

    /// The names of the gates to run: none after a stage that is known to fail.
    fn unknown(&self, cache: &Cache, board: &Board) -> Vec<String> {
        let mut names = Vec::new();
        let mut missing = false;
        for stage in Stage::OF_GATES {
            let members = self.wanted.iter().filter(|gate| gate.stage == stage);
            let mut open = false;
            for gate in members {
                match board.0.get(&gate.name) {
                    Some(Known::Result(report)) => {
                        missing |= self.lacks_base(cache, gate, report);
                        let requirement = self.judged(cache, gate, report);
                        open |= self.contract.holds(&requirement);
                        if !matches!(report.outcome, Outcome::Unknown(_)) {
                            names.push(gate.name.clone());
                        }
                    }
                    Some(Known::Running | Known::Nothing) | None => {
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
    fn lacks_base(&self, cache: &Cache, gate: &Gate, report: &GateReport) -> bool {
        self.site == Where::Tree
            && self.contract.seal.base.is_some()
            && self.is_compared(gate, report)
            && work::known_at_base(self.contract, cache, gate).is_none()
    }

    /// Whether the result is compared with the base. A list check is not: it fails at the base because the item is not
    /// done yet, which excuses nothing.
    fn is_compared(&self, gate: &Gate, report: &GateReport) -> bool {
        self.contract.is_of_policy(gate) && baseline::is_wanted(gate, report)
    }

    fn judged(&self, cache: &Cache, gate: &Gate, report: &GateReport) -> Requirement {
        if !self.contract.is_of_policy(gate) {
            return gate.requirement(report, Baseline::Block);
        }
        let base = self
            .is_compared(gate, report)
            .then(|| work::known_at_base(self.contract, cache, gate))
            .flatten();
        let report = baseline::compared(gate, report.clone(), base.as_ref());
        gate.requirement(&report, self.contract.seal.policy.baseline)
    }

    fn requirements(&self, cache: &Cache, mut board: Board, left: Left) -> Vec<Requirement> {
        let mut requirements = Vec::new();
        let mut waiting_for: Option<Stage> = None;
        for stage in Stage::OF_GATES {
            let mut open = false;
            for gate in self.wanted.iter().filter(|gate| gate.stage == stage) {
                let requirement = match (waiting_for, board.0.remove(&gate.name)) {
                    (Some(earlier), _) => {
                        let why = format!("comes after {} has passed", earlier.name());
                        gate.standing(Standing::Pending(Pending::NotReached(why)))
                    }
                    (None, Some(Known::Result(report)))
                        if left == Left::Running && self.lacks_base(cache, gate, &report) =>
                    {
                        running(gate, "being compared with the base")
                    }
                    (None, Some(Known::Result(report))) => {
                        requirements.extend(flaky(gate, &report));
                        self.judged(cache, gate, &report)
                    }
                    (None, Some(Known::Running)) => running(gate, "still running"),
                    (None, Some(Known::Nothing) | None) => match left {
                        Left::Running => running(gate, "waits for its turn"),
                        Left::Done => {
                            gate.standing(Standing::Unknown("it produced no result".to_string()))
                        }
                    },
                };
                open |= self.contract.holds(&requirement);
                requirements.push(requirement);
            }
            if open && waiting_for.is_none() {
                waiting_for = Some(stage);
            }
        }
        requirements
    }
}

impl Board {
    /// Carries over unknown results, which the lookup removed from the cache, for gates that have no newer result.
    fn keep(&mut self, before: Self) {
        for (name, known) in before.0 {
            let is_unknown = matches!(&known, Known::Result(report) if matches!(report.outcome, Outcome::Unknown(_)));
            if is_unknown && matches!(self.0.get(&name), None | Some(Known::Nothing)) {
                self.0.insert(name, known);
            }
        }
    }
}

/// Reports a gate that failed first and then passed.
fn flaky(gate: &Gate, report: &GateReport) -> Option<Requirement> {
    (report.steadiness == Steadiness::Flaky).then(|| Requirement {
        name: format!("{} (flaky)", gate.name),
        stage: gate.stage,
        standing: Standing::Unmet(Failure {
            findings: report.findings.clone(),
            log: report.log.clone(),
            ..Failure::new("it failed first and passed when run again".to_string())
        }),
        weight: Weight::Advisory,
        next: String::new(),
    })
}

pub(super) fn running(gate: &Gate, how: &str) -> Requirement {
    let why = format!("{how}; the result will be available at the next stop");
    gate.standing(Standing::Pending(Pending::Running(why)))
}
