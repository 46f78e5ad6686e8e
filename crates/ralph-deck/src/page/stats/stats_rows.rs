//! The rows that the stats are computed from. The index of runs provides them; tests write them by hand.

use crate::page::RunStanding;
use ralph_core::cost_reading::CostBasis;
use ralph_core::status::RunStatus;
use ralph_core::text;
use serde::Serialize;
use std::path::Path;

const LONGEST_NAME: usize = 120;
const LONGEST_TITLE: usize = 300;
const LONGEST_PATH: usize = 1_000;

/// What the index has of all runs in scope, and of sessions without a run that gates held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsRows {
    pub runs: Vec<StatsRun>,
    pub requirements: Vec<StatsRequirement>,
    pub gates: Vec<StatsGate>,
    pub judges: Vec<StatsJudge>,
}

/// A run, or a session without one.
#[expect(clippy::struct_excessive_bools, reason = "columns of the index")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsRun {
    pub id: String,
    pub project: String,
    pub title: String,
    /// Whether it is a session without a run.
    pub is_session: bool,
    pub last_ms: u64,
    pub ended_ms: Option<u64>,
    /// The ISO week of its end, or of its last entry: `2026-W46`.
    pub week: String,
    /// `active`, `paused`, `parked`, `orphaned` or `ended`.
    pub phase: String,
    /// The final status, that of a parked run, or `working`, `waiting`, `asks`, `paused`, `orphaned`.
    pub status: String,
    pub iteration: u32,
    pub max_iterations: Option<u32>,
    pub ran_ms: u64,
    pub max_time_ms: Option<u64>,
    /// `None` if it is unknown.
    pub micro_usd: Option<u64>,
    pub cost_basis: CostBasis,
    pub max_micro_usd: Option<u64>,
    pub tokens: Option<u64>,
    pub stops: u32,
    pub held: u32,
    /// Whether it has a question that no person has answered, or waits for an approval.
    pub is_asking: bool,
    pub is_accepted: bool,
    /// Whether a person closed it after an end that waits for one.
    pub is_closed: bool,
}

/// A requirement of a run that was open at least once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsRequirement {
    pub run: String,
    pub name: String,
    pub stage: String,
    /// Stops that were held while it was open.
    pub held_stops: u32,
    /// `None` if it was never met.
    pub stops_until_met: Option<u32>,
    pub waived: bool,
    pub disputed: bool,
    /// Whether a person agreed with the last dispute.
    pub is_dispute_upheld: bool,
}

/// The results of a gate of a run at one site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsGate {
    pub run: String,
    pub name: String,
    /// `tree`, `clean` or `base`.
    pub site: String,
    pub executed: u32,
    pub cached: u32,
    pub passed: u32,
    pub failed: u32,
    pub no_result: u32,
    /// Results that differ from another one on the same content.
    pub flaky: u32,
    pub took_ms: u64,
    /// Time that cached results did not cost.
    pub saved_ms: u64,
    pub longest_ms: u64,
}

/// The verdicts of a judge of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsJudge {
    pub run: String,
    pub name: String,
    pub kind: String,
    pub verdicts: u32,
    /// Verdicts that were known already and cost nothing.
    pub cached: u32,
    pub met: u32,
    pub unmet: u32,
    pub impossible: u32,
    pub no_verdict: u32,
    /// Findings that were dropped because their quote is not in the file.
    pub misquoted: u32,
    /// Findings that were dropped because no other reviewer confirmed them.
    pub unconfirmed: u32,
    pub tokens: u64,
    /// `None` if no cost is known.
    pub micro_usd: Option<u64>,
}

/// The project that a row belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct StatsProject {
    /// The last part of the path.
    pub name: String,
    pub path: String,
}

impl StatsRows {
    /// Cleans and bounds every foreign text, once, before anything is computed from it.
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        let name = |text: &mut String| *text = text::clean_line(text, LONGEST_NAME);
        for run in &mut self.runs {
            for text in [&mut run.id, &mut run.week, &mut run.phase, &mut run.status] {
                name(text);
            }
            run.project = text::clean_line(&run.project, LONGEST_PATH);
            run.title = text::clean_line(&run.title, LONGEST_TITLE);
        }
        for requirement in &mut self.requirements {
            for text in [&mut requirement.run, &mut requirement.name, &mut requirement.stage] {
                name(text);
            }
        }
        for gate in &mut self.gates {
            for text in [&mut gate.run, &mut gate.name, &mut gate.site] {
                name(text);
            }
        }
        for judge in &mut self.judges {
            for text in [&mut judge.run, &mut judge.name, &mut judge.kind] {
                name(text);
            }
        }
        self
    }

    /// Keeps the runs for which `is_wanted`, and their requirements, gates and judges.
    #[must_use]
    pub fn filtered(&self, is_wanted: impl Fn(&StatsRun) -> bool) -> Self {
        let runs: Vec<_> = self.runs.iter().filter(|run| is_wanted(run)).cloned().collect();
        let known: std::collections::HashSet<_> = runs.iter().map(|run| run.id.as_str()).collect();
        let requirements = self.requirements.iter().filter(|row| known.contains(row.run.as_str()));
        let gates = self.gates.iter().filter(|row| known.contains(row.run.as_str()));
        let judges = self.judges.iter().filter(|row| known.contains(row.run.as_str()));
        Self {
            requirements: requirements.cloned().collect(),
            gates: gates.cloned().collect(),
            judges: judges.cloned().collect(),
            runs,
        }
    }

    /// The run of each row, by id.
    pub(in crate::page) fn by_id(&self) -> std::collections::HashMap<&str, &StatsRun> {
        self.runs.iter().map(|run| (run.id.as_str(), run)).collect()
    }
}

impl StatsRun {
    /// The state as every screen names it; the status of a newer version as it is.
    pub(in crate::page) fn state(&self) -> &str {
        match RunStanding::from_names(&self.phase, &self.status) {
            Some(_) if self.is_accepted => RunStanding::Accepted.key(),
            Some(standing) => standing.name(),
            None => &self.status,
        }
    }

    /// Whether all of its cost is known. Otherwise a part has no known price, or nothing is known.
    pub(super) fn is_cost_known(&self) -> bool {
        self.micro_usd.is_some() && self.cost_basis != CostBasis::Incomplete
    }

    /// Whether that cost is not what the client reported.
    pub(super) fn is_cost_estimated(&self) -> bool {
        self.is_cost_known() && self.cost_basis != CostBasis::Reported
    }

    /// Which limit it ran into, if its status says that it did. The index keeps numbers, not the limit's name.
    pub(super) fn limit_hit(&self) -> Option<LimitHit> {
        let is_reached = |used: Option<u64>, most: Option<u64>| {
            used.zip(most).is_some_and(|(used, most)| used >= most)
        };
        match self.status.as_str() {
            "rate_limited" => Some(LimitHit::RateLimit),
            "exhausted" => Some(
                if is_reached(Some(self.iteration.into()), self.max_iterations.map(u64::from)) {
                    LimitHit::Iterations
                } else if is_reached(Some(self.ran_ms), self.max_time_ms) {
                    LimitHit::Time
                } else if is_reached(self.micro_usd.map(|spent| spent * 2), self.max_micro_usd) {
                    // The budget ends a run before it is spent, once the next turn would not fit into it.
                    LimitHit::Cost
                } else {
                    LimitHit::Other
                },
            ),
            _ => None,
        }
    }

    pub(super) fn is_verified(&self) -> bool {
        self.status == "verified" && !self.is_session
    }

    /// Whether it has ended and waits for a person, who judges it, repairs something or continues its work.
    pub(super) fn waits_after_end(&self) -> bool {
        let status = RunStatus::parse(&self.status).filter(|_| self.phase == "ended");
        status.is_some_and(RunStatus::waits_for_person) && !self.is_closed
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended_ms.is_some() && !self.is_session
    }

    /// When it ended, or its last entry was written.
    pub(super) fn end_ms(&self) -> u64 {
        self.ended_ms.unwrap_or(self.last_ms)
    }
}

impl StatsProject {
    pub(in crate::page) fn of(path: &str) -> Self {
        let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        Self { name: name.unwrap_or_else(|| path.to_string()), path: path.to_string() }
    }
}

/// A limit that ended a run, or parked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitHit {
    Iterations,
    Time,
    Cost,
    /// The provider's rate limit.
    RateLimit,
    /// Tokens, or the budget of a day.
    Other,
}

impl LimitHit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Iterations => "iterations",
            Self::Time => "time",
            Self::Cost => "cost",
            Self::RateLimit => "rate limit",
            Self::Other => "tokens or the day's budget",
        }
    }
}

/// `part` of `whole` in thousandths, rounded; 0 of nothing.
pub(super) fn permille(part: u64, whole: u64) -> u32 {
    if whole == 0 {
        return 0;
    }
    let rounded = (u128::from(part) * 1000 + u128::from(whole) / 2) / u128::from(whole);
    u32::try_from(rounded).unwrap_or(u32::MAX)
}

/// The value at `quarter` quarters of the sorted values: 1 and 3 bound the middle half, 2 is the median.
pub(super) fn quartile(sorted: &[u64], quarter: usize) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    let (low, high) = (last * quarter / 4, (last * quarter).div_ceil(4));
    let (low, high) = (sorted.get(low)?, sorted.get(high)?);
    Some(low + (high - low) / 2)
}

/// `41 %`, `2.5 %`
pub fn percent(permille: u32) -> String {
    match (permille / 10, permille % 10) {
        (whole, 0) => format!("{whole} %"),
        (whole @ 0..10, tenth) => format!("{whole}.{tenth} %"),
        (whole, tenth) => format!("{} %", whole + u32::from(tenth >= 5)),
    }
}
