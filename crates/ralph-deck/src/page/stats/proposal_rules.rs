//! Proposals: changes of the policy that the figures suggest, each with its evidence. Nothing here applies one.

use super::finding_rules;
use super::gate_tables::GateStatistics;
use super::hold_table::{HoldRow, HoldTable, hold_table};
use super::stats_rows::{LimitHit, StatsProject, StatsRows, StatsRun, percent};
use ralph_core::gate::{Gate, GateTrigger, RerunPolicy};
use ralph_core::lesson::Lesson;
use ralph_core::limits::RunLimits;
use ralph_core::policy::LineCheck;
use ralph_core::requirement::RequirementStage;
use ralph_core::text::count_noun;
use ralph_core::units::{format_duration, format_usd};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// A gate that holds at least this share of the stops of a project is worth an earlier look, in thousandths.
const HOLDS_OFTEN_PERMILLE: u32 = 300;
const HOLDS_OFTEN_STOPS: u64 = 5;
const HOLDS_OFTEN_RUNS: u64 = 3;
/// A gate up to this long can run whenever a task is completed.
const QUICK_MS: u64 = 10_000;
const FLAKY_RESULTS: u64 = 3;
const FLAKY_PERMILLE: u32 = 50;
const SLOW_MS: u64 = 30_000;
const SLOW_RESULTS: u64 = 10;
/// A gate that passed this often in a row can wait for the others.
const ALWAYS_PASSED: u64 = 50;
/// Below this, an earlier stage costs nothing worth saving.
const WORTH_WAITING_MS: u64 = 1_000;
const LIMIT_RUNS: u64 = 3;
const LIMIT_PERMILLE: u32 = 200;
/// How long a run may wait for the provider, if it was parked for that.
const PROPOSED_WAIT: &str = "12h";
const HOUR_MS: u64 = 60 * 60 * 1000;

/// What is set now in a project whose runs are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectSettings {
    /// The directory, as the runs name it.
    pub project: String,
    /// The policy file.
    pub file: String,
    /// The person's own file.
    pub user_file: String,
    pub gates: Vec<Gate>,
    pub limits: RunLimits,
    pub wait_for_limits_ms: u64,
    /// The built-in checks of added lines.
    pub forbidden: Vec<LineCheck>,
    /// What ralph learned from its runs.
    pub lessons: Vec<Lesson>,
}

/// Which rule made a proposal. The names are part of `applied.jsonl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalKind {
    /// Run a quick gate that often holds agents before the stop.
    Earlier,
    /// Repeat every failure of a flaky gate.
    Repeat,
    /// Don't run a slow gate again for changes that it does not read.
    Narrow,
    /// Run a gate that always passes after the others.
    Later,
    /// Raise a limit that many runs hit.
    Raise,
    /// Wait for the provider's limits.
    Wait,
    /// Check added lines for what held many runs.
    Forbid,
    /// Run a gate earlier whose same finding held many runs.
    Recurring,
}

/// A change that the figures suggest. It is shown, and applied only if a person asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyProposal {
    /// For `ralph stats --apply`.
    pub number: usize,
    pub kind: ProposalKind,
    pub project: StatsProject,
    /// `Run tsc when a task is completed`
    pub title: String,
    /// The figures that it rests on.
    pub reason: String,
    /// What it would have saved, or is expected to.
    pub gain: String,
    /// What it costs.
    pub price: String,
    pub edit: ProposedEdit,
}

/// One value of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProposedEdit {
    pub file: String,
    /// Whether the file is the person's own one.
    pub is_user_file: bool,
    /// `run` or `runner`; `gate` with the name in `gate`.
    pub section: String,
    pub gate: Option<String>,
    pub key: String,
    /// As TOML.
    pub value: String,
    /// The whole edit as TOML.
    pub toml: String,
}

impl ProposedEdit {
    pub(super) fn of_gate(
        settings: &ProjectSettings,
        gate: &str,
        key: &str,
        value: String,
    ) -> Self {
        let toml = format!("[[gate]]\nname = \"{gate}\"\n{key} = {value}\n");
        Self {
            file: settings.file.clone(),
            is_user_file: false,
            section: "gate".to_string(),
            gate: Some(gate.to_string()),
            key: key.to_string(),
            value,
            toml,
        }
    }

    pub(super) fn of_section(file: &str, section: &str, key: &str, value: String) -> Self {
        let toml = format!("[{section}]\n{key} = {value}\n");
        Self {
            file: file.to_string(),
            is_user_file: section == "runner",
            section: section.to_string(),
            gate: None,
            key: key.to_string(),
            value,
            toml,
        }
    }
}

/// The proposals of all projects, numbered.
pub(super) fn propose_changes(
    rows: &StatsRows,
    gates: &[GateStatistics],
    projects: &[ProjectSettings],
) -> Vec<PolicyProposal> {
    let mut proposals = Vec::new();
    for settings in projects {
        let holds =
            hold_table(rows, |run| run.project == settings.project && !run.is_session, usize::MAX);
        for gate in &settings.gates {
            let statistics = gates
                .iter()
                .find(|one| one.project.path == settings.project && one.gate == gate.name);
            let Some(statistics) = statistics else { continue };
            let context = ProposalGate { settings, gate, statistics, holds: &holds };
            proposals.extend(context.propose());
        }
        proposals.extend(propose_limits(rows, settings));
        let known: Vec<_> = proposals.iter().map(|one| one.edit.clone()).collect();
        let learned = finding_rules::propose_from_lessons(settings);
        proposals.extend(learned.into_iter().filter(|one| !known.contains(&one.edit)));
    }
    numbered(proposals)
}

/// The proposals from findings that held several runs. They rest on those runs alone, however many others there are.
pub(super) fn propose_learned(projects: &[ProjectSettings]) -> Vec<PolicyProposal> {
    numbered(projects.iter().flat_map(finding_rules::propose_from_lessons).collect())
}

fn numbered(mut proposals: Vec<PolicyProposal>) -> Vec<PolicyProposal> {
    let is_again = |one: &PolicyProposal, other: &PolicyProposal| one.edit == other.edit;
    // Two lessons can lead to the same change.
    let is_learned =
        |one: &PolicyProposal| matches!(one.kind, ProposalKind::Forbid | ProposalKind::Recurring);
    proposals
        .dedup_by(|one, other| (one.edit.is_user_file || is_learned(one)) && is_again(one, other));
    for (position, proposal) in proposals.iter_mut().enumerate() {
        proposal.number = position + 1;
    }
    proposals
}

/// A gate of a policy and what is known about it.
struct ProposalGate<'a> {
    settings: &'a ProjectSettings,
    gate: &'a Gate,
    statistics: &'a GateStatistics,
    holds: &'a HoldTable,
}

impl ProposalGate<'_> {
    fn propose(&self) -> Vec<PolicyProposal> {
        let rules = [self.earlier(), self.repeat(), self.narrow(), self.later()];
        rules.into_iter().flatten().collect()
    }

    fn proposal(&self, kind: ProposalKind, key: &str, value: String) -> PolicyProposal {
        PolicyProposal {
            number: 0,
            kind,
            project: StatsProject::of(&self.settings.project),
            title: String::new(),
            reason: String::new(),
            gain: String::new(),
            price: String::new(),
            edit: ProposedEdit::of_gate(self.settings, &self.gate.name, key, value),
        }
    }

    fn hold(&self) -> Option<&HoldRow> {
        self.holds.rows.iter().find(|row| row.requirement == self.gate.name)
    }

    fn earlier(&self) -> Option<PolicyProposal> {
        let hold = self.hold()?;
        // An earlier look saves only the stops at which the next one was good.
        let is_often = hold.met_at_once > 0
            && hold.held_permille >= HOLDS_OFTEN_PERMILLE
            && hold.held_stops >= HOLDS_OFTEN_STOPS
            && hold.runs >= HOLDS_OFTEN_RUNS;
        let mean_ms = self.statistics.mean_ms;
        if !is_often || mean_ms > QUICK_MS || self.gate.on.contains(&GateTrigger::Task) {
            return None;
        }
        let mut on: Vec<_> = self.gate.on.iter().map(|trigger| trigger.name()).collect();
        on.push(GateTrigger::Task.name());
        let (name, share) = (&self.gate.name, percent(hold.held_permille));
        Some(PolicyProposal {
            title: format!("Run `{name}` when a task is completed"),
            reason: format!(
                "It held {} of {} held stops ({share}) in {}, and was met at the very next stop {} of {} times.",
                hold.held_stops,
                self.holds.held_stops,
                count_noun(hold.runs, "run"),
                hold.met_at_once,
                hold.met_runs
            ),
            gain: format!("up to {}", count_noun(hold.met_at_once, "held stop")),
            price: format!("{} after each task", format_duration(mean_ms)),
            ..self.proposal(ProposalKind::Earlier, "on", toml_list(&on))
        })
    }

    fn repeat(&self) -> Option<PolicyProposal> {
        let GateStatistics { flaky, flaky_permille, executed, mean_ms, .. } = *self.statistics;
        let is_flaky = flaky >= FLAKY_RESULTS && flaky_permille >= FLAKY_PERMILLE;
        let is_repeated = match self.gate.rerun {
            RerunPolicy::Always => true,
            RerunPolicy::Tests => self.gate.report.counts_tests(),
            RerunPolicy::Never => false,
        };
        if !is_flaky || is_repeated {
            return None;
        }
        let false_holds = self.hold().map_or(0, |hold| hold.false_holds);
        let waived = match false_holds {
            0 => String::new(),
            count => format!(", and it caused {}", count_noun(count, "false hold")),
        };
        Some(PolicyProposal {
            title: format!("Repeat every failure of `{}`", self.gate.name),
            reason: format!(
                "{flaky} of {executed} results ({}) differed from another one on the same content{waived}. \
                 A failure would have to occur twice to count.",
                percent(flaky_permille)
            ),
            gain: "holds for failures that do not repeat".to_string(),
            price: format!("{} per failure", format_duration(mean_ms)),
            ..self.proposal(ProposalKind::Repeat, "rerun", "\"always\"".to_string())
        })
    }

    fn narrow(&self) -> Option<PolicyProposal> {
        let GateStatistics { executed, cached_permille, mean_ms, took_ms, .. } = *self.statistics;
        if mean_ms < SLOW_MS || executed < SLOW_RESULTS || !self.gate.paths.is_empty() {
            return None;
        }
        let paths = toml_list(&["**", "!**/*.md", "!docs/**"]);
        Some(PolicyProposal {
            title: format!("Don't run `{}` again for documentation", self.gate.name),
            reason: format!(
                "It ran {executed} times and took {} each, {} in total; {} of its results came from the cache. \
                 Without `paths`, every change runs it again.",
                format_duration(mean_ms),
                format_duration(took_ms),
                percent(cached_permille)
            ),
            gain: format!("{} per change of documentation", format_duration(mean_ms)),
            price: "it does not see those files; list what it reads, if you know it".to_string(),
            ..self.proposal(ProposalKind::Narrow, "paths", paths)
        })
    }

    fn later(&self) -> Option<PolicyProposal> {
        let GateStatistics { executed, cached, failed, no_result, flaky, mean_ms, .. } =
            *self.statistics;
        let passed = executed + cached;
        let has_peer =
            |other: &Gate| other.stage == self.gate.stage && other.name != self.gate.name;
        if failed + no_result + flaky > 0
            || self.hold().is_some()
            || passed < ALWAYS_PASSED
            || mean_ms < WORTH_WAITING_MS
            || self.gate.stage != RequirementStage::Correctness
            || !self.settings.gates.iter().any(has_peer)
        {
            return None;
        }
        let stage = RequirementStage::Quality.name();
        Some(PolicyProposal {
            title: format!("Run `{}` after the other gates", self.gate.name),
            reason: format!(
                "It passed all {passed} times. A gate of a later stage runs once the stage before has passed."
            ),
            gain: format!("{} at stops that another gate holds", format_duration(mean_ms)),
            price: "a failure is seen one stage later".to_string(),
            ..self.proposal(ProposalKind::Later, "stage", format!("\"{stage}\""))
        })
    }
}

fn propose_limits(rows: &StatsRows, settings: &ProjectSettings) -> Vec<PolicyProposal> {
    let runs: Vec<_> = rows
        .runs
        .iter()
        .filter(|run| run.project == settings.project && !run.is_session)
        .filter(|run| run.ended_ms.is_some() || run.limit_hit().is_some())
        .collect();
    let with_progress: HashSet<_> = rows
        .requirements
        .iter()
        .filter(|row| row.stops_until_met.is_some())
        .map(|row| row.run.as_str())
        .collect();
    let mut proposals = Vec::new();
    for limit in [LimitHit::Iterations, LimitHit::Time, LimitHit::Cost, LimitHit::RateLimit] {
        // A limit that a person gave for one run says nothing about that of the policy.
        let runs: Vec<_> =
            runs.iter().filter(|run| has_policy_limit(run, limit, &settings.limits)).collect();
        let all = u64::try_from(runs.len()).unwrap_or(u64::MAX);
        // More of the same does not help a run that met nothing on its way.
        let is_close = |run: &StatsRun| {
            limit == LimitHit::RateLimit || with_progress.contains(run.id.as_str())
        };
        let hit = runs.iter().filter(|run| run.limit_hit() == Some(limit) && is_close(run));
        let hit = u64::try_from(hit.count()).unwrap_or(u64::MAX);
        let share = super::stats_rows::permille(hit, all);
        if hit < LIMIT_RUNS || share < LIMIT_PERMILLE {
            continue;
        }
        let counted = format!("{hit} of {all} runs ({})", percent(share));
        proposals.extend(propose_limit(settings, limit, &counted));
    }
    proposals
}

/// Whether the limit of a run was that of the policy.
fn has_policy_limit(run: &StatsRun, limit: LimitHit, policy: &RunLimits) -> bool {
    match limit {
        LimitHit::Iterations => run.max_iterations == policy.max_iterations,
        LimitHit::Time => run.max_time_ms == policy.max_duration_ms,
        LimitHit::Cost => run.max_micro_usd == policy.max_cost_micro_usd,
        LimitHit::RateLimit | LimitHit::Other => true,
    }
}

fn propose_limit(
    settings: &ProjectSettings,
    limit: LimitHit,
    counted: &str,
) -> Option<PolicyProposal> {
    let limits = &settings.limits;
    let (key, now, value, shown) = match limit {
        LimitHit::Iterations => {
            let most = limits.max_iterations?;
            let raised = raised(most.into());
            ("max_iterations", most.to_string(), raised.to_string(), raised.to_string())
        }
        LimitHit::Time => {
            let most = limits.max_duration_ms?;
            let hours = raised(most).div_ceil(HOUR_MS);
            let value = format!("\"{hours}h\"");
            ("max_duration", format_duration(most), value, format!("{hours} h"))
        }
        LimitHit::Cost => {
            let most = limits.max_cost_micro_usd?;
            let usd = raised(most).div_ceil(1_000_000);
            ("max_cost_usd", format_usd(most), format!("{usd}.0"), format!("${usd}"))
        }
        LimitHit::RateLimit => return propose_wait(settings, counted),
        LimitHit::Other => return None,
    };
    Some(PolicyProposal {
        number: 0,
        kind: ProposalKind::Raise,
        project: StatsProject::of(&settings.project),
        title: format!("Raise the limit of {} to {shown}", limit.name()),
        reason: format!(
            "{counted} with this limit made progress and ended at it; it is {now} now. Smaller goals would help as well."
        ),
        gain: "runs that were close to their end".to_string(),
        price: format!("a run that leads nowhere can use up to {shown}"),
        edit: ProposedEdit::of_section(&settings.file, "run", key, value),
    })
}

fn propose_wait(settings: &ProjectSettings, counted: &str) -> Option<PolicyProposal> {
    if settings.wait_for_limits_ms > 0 {
        return None;
    }
    let value = format!("\"{PROPOSED_WAIT}\"");
    Some(PolicyProposal {
        number: 0,
        kind: ProposalKind::Wait,
        project: StatsProject::of(&settings.project),
        title: "Wait for the provider's rate limits".to_string(),
        reason: format!(
            "{counted} were parked because of the provider's rate limit, and none may wait for it now."
        ),
        gain: "runs that continue without you".to_string(),
        price: "a run can take hours longer".to_string(),
        edit: ProposedEdit::of_section(&settings.user_file, "runner", "wait_for_limits", value),
    })
}

fn raised(limit: u64) -> u64 {
    limit.saturating_mul(3) / 2
}

pub(super) fn toml_list(items: &[&str]) -> String {
    let quoted: Vec<_> = items.iter().map(|item| format!("\"{item}\"")).collect();
    format!("[{}]", quoted.join(", "))
}
