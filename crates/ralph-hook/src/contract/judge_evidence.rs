//! The requirements of the policy's judges. They are asked last, when everything that ralph can measure is met: a verdict
//! is slow, costs money, and is only an opinion.

use ralph_core::decide;
use ralph_core::facts::{StopDriver, StopEvidence};
use ralph_core::judge::{CaseEvidence, Judge, JudgeCase, JudgeKind};
use ralph_core::record::JudgeRecord;
use ralph_core::requirement::{
    EVERYTHING_ELSE, EvidenceKind, PendingReason, Requirement, RequirementStatus, RequirementWeight,
};
use ralph_core::run::RunState;
use ralph_core::units;

use super::gate_worker::{self, GateSite, GateTask, WorkerState};
use super::judge_worker::{self, JudgeTask, JudgedTrees, StoredVerdict};
use super::{
    ContractContext, MeasuredContract, change_condition, gate_query, judge_case, judge_meter,
    sealed_programs, sealed_variables,
};
use ralph_gates::gates::result_cache::ResultCache;
use ralph_gates::gates::result_key::ResultKey;
use ralph_home::faults::describe_error;

const RUNNING_TEXT: &str = "is being asked; the verdict will be available at the next stop";

const CHANGED_TEXT: &str =
    "the files changed while it was asked; it is asked again at the next stop";

/// Whether judges may be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgeMode {
    /// The agent wants to stop.
    Ask,
    /// Something else wants to know the state of the run, perhaps the agent itself. Only known verdicts count.
    CachedOnly,
}

/// How much of the budget of the run is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgeBudget {
    /// `None` without a limit on the cost.
    pub left_micro_usd: Option<u64>,
    pub most_micro_usd: Option<u64>,
}

/// The judges of the policy that apply to this run and change.
fn applicable_judges<'a>(contract: &ContractContext<'a>, touched: &[String]) -> Vec<&'a Judge> {
    let touched = change_condition::known_changes(contract, touched);
    let applies = |judge: &&Judge| {
        judge.applies_to_complexity(contract.seal.complexity)
            && change_condition::is_condition_met(&judge.when, touched)
    };
    contract.seal.policy.judges.iter().filter(applies).collect()
}

/// Whether a required judge of this kind applies and is not waived.
pub fn has_required_judge(
    contract: &ContractContext<'_>,
    touched: &[String],
    kind: JudgeKind,
) -> bool {
    let mut judges = applicable_judges(contract, touched).into_iter();
    judges
        .any(|judge| judge.kind == kind && judge.is_required() && !contract.is_waived(&judge.name))
}

/// Adds the requirements of judges to the evidence of a stop, in which everything else is known.
pub fn add_judge_requirements(
    contract: &ContractContext<'_>,
    measured: &MeasuredContract,
    state: &RunState,
    budget: JudgeBudget,
    mode: JudgeMode,
    evidence: &mut StopEvidence,
) {
    let applicable = applicable_judges(contract, &measured.touched);
    if !applicable.is_empty() {
        let query = JudgeQuery { contract, measured, budget, mode };
        add_requirements(&query, state, &applicable, evidence);
    }
    let spent = judge_meter::judge_spending(&contract.world.home, contract.run, state);
    evidence.judging.spent = (spent != state.judges.spent).then_some(spent);
}

/// Whether the agent is held to improve the proof before CI and judges are asked.
pub fn must_improve_proof(
    contract: &ContractContext<'_>,
    state: &RunState,
    evidence: &StopEvidence,
) -> bool {
    let (mode, now_ms) = (contract.seal.policy.verify.proof, contract.world.arrived_ms);
    let proof = evidence.proof.as_ref();
    proof.is_some_and(|proof| decide::holds_for_proof(proof, mode, state, now_ms))
}

/// Adds the requirement of each judge that applies, and asks those that are due.
fn add_requirements(
    query: &JudgeQuery<'_>,
    state: &RunState,
    applicable: &[&Judge],
    evidence: &mut StopEvidence,
) {
    let JudgeQuery { contract, measured, .. } = query;
    let driver = contract.world.driven.map(|driven| driven.driver);
    let is_open =
        evidence.tampering.is_some() || evidence.requirements.iter().any(|one| contract.holds(one));
    if !is_open && driver == Some(StopDriver::Runner) {
        // The runner asks them when the agent's process has exited.
        return;
    }
    let waits_for_proof = !is_open && must_improve_proof(contract, state, evidence);
    if is_open || waits_for_proof || contract.world.env.is_rehearsal() {
        evidence.waits_for_proof |= waits_for_proof;
        evidence.requirements.extend(applicable.iter().copied().filter_map(waiting));
        return;
    }
    let lines = judge_case::evidence_lines(
        &evidence.requirements,
        &evidence.gates,
        evidence.proof.as_ref(),
    );
    let answers = query.resolve(applicable, &lines);
    // A verdict takes time, and what was judged must be what is there now.
    let is_stale = answers.iter().any(|one| one.verdict.is_some())
        && !super::is_tree_unchanged(contract, measured);
    if is_stale {
        let why = "it changed while it was judged";
        evidence.requirements.push(super::unknown_requirement("work tree", why));
    }
    for JudgeReply { judge, requirement, verdict } in answers {
        let record = verdict.map(|verdict| {
            // Without a verdict, the judge is asked about the same case again.
            let is_known = verdict.run != contract.run.id
                || (judge_worker::is_definite(&verdict.result)
                    && state.judges.has_seen(&judge.name, &verdict.result.prompt_hash));
            JudgeRecord::new(judge, &verdict.result, is_known)
        });
        let not_asked = || match &requirement.status {
            RequirementStatus::Unknown(why) => Some(JudgeRecord::not_asked(judge, why)),
            RequirementStatus::Met(_)
            | RequirementStatus::Unmet(_)
            | RequirementStatus::Pending(_) => None,
        };
        evidence.judging.records.extend(record.or_else(not_asked));
        evidence.requirements.push(requirement);
    }
}

/// The requirement of a judge that is not asked yet. An advisory one is not worth a line.
fn waiting(judge: &Judge) -> Option<Requirement> {
    let status = RequirementStatus::Pending(PendingReason::comes_after(EVERYTHING_ELSE));
    (judge.weight == RequirementWeight::Required).then(|| judge.requirement_with(status))
}

/// What became of asking one judge.
struct JudgeReply<'a> {
    judge: &'a Judge,
    requirement: Requirement,
    verdict: Option<StoredVerdict>,
}

struct JudgeQuery<'a> {
    contract: &'a ContractContext<'a>,
    measured: &'a MeasuredContract,
    budget: JudgeBudget,
    mode: JudgeMode,
}

/// A judge whose case is known, or why it is not.
struct PreparedCase<'a> {
    judge: &'a Judge,
    case: Result<(JudgeCase, ResultKey), Box<RequirementStatus>>,
}

/// Whether a required judge keeps the agent from stopping, by its verdict or because it cannot be asked.
fn is_agent_held(prepared: &[PreparedCase<'_>], known: &[Option<StoredVerdict>]) -> bool {
    prepared.iter().zip(known).any(|(one, known)| match (known, &one.case) {
        (Some(known), _) => judge_worker::holds_agent(one.judge, &known.result),
        (None, Err(status)) => {
            one.judge.is_required() && matches!(**status, RequirementStatus::Unknown(_))
        }
        (None, Ok(_)) => false,
    })
}

/// Identifies the cases of a stop. It covers those with a known verdict too: when one verdict is in, a worker that asks
/// the other judges goes on.
fn task_mark(prepared: &[PreparedCase<'_>], trees: &JudgedTrees) -> String {
    let mut hasher = blake3::Hasher::new();
    for (case, _) in prepared.iter().filter_map(|one| one.case.as_ref().ok()) {
        hasher.update(&serde_json::to_vec(case).unwrap_or_default());
    }
    hasher.update(trees.base.as_bytes());
    hasher.update(trees.candidate.as_bytes());
    hasher.finalize().to_hex().to_string()
}

impl JudgeQuery<'_> {
    fn resolve<'j>(&self, judges: &[&'j Judge], lines: &[CaseEvidence]) -> Vec<JudgeReply<'j>> {
        let contract = self.contract;
        let fail = |why: String| -> Vec<JudgeReply<'j>> {
            let reply = |judge: &&'j Judge| JudgeReply {
                judge,
                requirement: judge.requirement_with(RequirementStatus::Unknown(why.clone())),
                verdict: None,
            };
            judges.iter().map(reply).collect()
        };
        let Some(candidate) = &self.measured.candidate else {
            return fail("there is no base to compare the change with".to_string());
        };
        let facts = match judge_case::gather_case_facts(contract, candidate, lines) {
            Ok(facts) => facts,
            Err(why) => return fail(why),
        };
        let cache = match ResultCache::open(&contract.world.home) {
            Ok(cache) => cache,
            Err(error) => return fail(describe_error(&error)),
        };
        let prepare = |judge: &&'j Judge| PreparedCase { judge, case: self.prepare(judge, &facts) };
        let prepared: Vec<PreparedCase<'j>> = judges.iter().map(prepare).collect();
        let mut known: Vec<Option<StoredVerdict>> =
            prepared.iter().map(|one| self.look_up(&cache, one)).collect();
        let is_held = is_agent_held(&prepared, &known);
        let missing: Vec<&JudgeCase> = prepared
            .iter()
            .zip(&known)
            .filter(|(one, known)| known.is_none() && (one.judge.is_required() || !is_held))
            .filter_map(|(one, _)| one.case.as_ref().ok().map(|(case, _)| case))
            .collect();
        let task = JudgeTask {
            mark: task_mark(&prepared, &facts.trees),
            cases: missing.into_iter().cloned().collect(),
            checkpoint: candidate.content.checkpoint,
            trees: facts.trees.clone(),
            budget_micro_usd: self.budget.left_micro_usd,
        };
        let left = match self.ask(&cache, &task) {
            Ok(left) => left,
            Err(why) => {
                let unknown = |_: &Judge| RequirementStatus::Unknown(why.clone());
                return Self::replies(prepared, known, &unknown);
            }
        };
        for (one, known) in prepared.iter().zip(&mut known) {
            if known.is_none() {
                *known = self.look_up(&cache, one);
            }
        }
        let is_held = is_agent_held(&prepared, &known);
        let is_missing =
            prepared.iter().zip(&known).any(|(one, it)| it.is_none() && one.case.is_ok());
        // The worker does not keep a verdict about other files than those of the case.
        let has_changed = is_missing
            && self.mode == JudgeMode::Ask
            && left == WorkerState::Done
            && !super::is_tree_unchanged(contract, self.measured);
        let why = if has_changed { CHANGED_TEXT } else { "it gave no verdict" };
        let otherwise = |judge: &Judge| {
            if is_held && !judge.is_required() {
                return RequirementStatus::Pending(PendingReason::comes_after(EVERYTHING_ELSE));
            }
            self.status_without_verdict(left, why)
        };
        Self::replies(prepared, known, &otherwise)
    }

    /// `why` explains the missing verdict of a judge that was asked.
    fn status_without_verdict(&self, left: WorkerState, why: &str) -> RequirementStatus {
        match left {
            WorkerState::Running => {
                RequirementStatus::Pending(PendingReason::Running(RUNNING_TEXT.to_string()))
            }
            WorkerState::Done if self.mode == JudgeMode::CachedOnly => {
                let why = "is asked when the agent stops".to_string();
                RequirementStatus::Pending(PendingReason::NotReached(why))
            }
            WorkerState::Done => RequirementStatus::Unknown(why.to_string()),
        }
    }

    /// The case of a judge and the key of its verdict, or the status of one that is not asked.
    fn prepare(
        &self,
        judge: &Judge,
        facts: &judge_case::CaseFacts,
    ) -> Result<(JudgeCase, ResultKey), Box<RequirementStatus>> {
        let contract = self.contract;
        if contract.is_waived(&judge.name) {
            let why = "is not asked while it is waived".to_string();
            return Err(Box::new(RequirementStatus::Pending(PendingReason::NotReached(why))));
        }
        if judge.kind == JudgeKind::Amended && !facts.change.amends_tests {
            // No existing test changed: that is measured, so no judge is needed.
            return Err(Box::new(RequirementStatus::Met(EvidenceKind::Measured)));
        }
        if sealed_programs::is_judge_replaced(contract, judge) {
            let why = "its program was replaced since the run began".to_string();
            return Err(Box::new(RequirementStatus::Unknown(why)));
        }
        let case =
            facts.case_for(judge).map_err(|why| Box::new(RequirementStatus::Unknown(why)))?;
        let key = judge_worker::verdict_key(contract, judge, &case, &facts.trees);
        Ok((case, key))
    }

    /// A known verdict. What gave none is reported once and then asked again: otherwise no repair could change it.
    fn look_up(&self, cache: &ResultCache, one: &PreparedCase<'_>) -> Option<StoredVerdict> {
        let (_, key) = one.case.as_ref().ok()?;
        let known = judge_worker::read_verdict(cache, key)?;
        if !judge_worker::is_definite(&known.result) {
            if self.mode == JudgeMode::CachedOnly {
                return None;
            }
            drop(cache.clear(key, &|| false));
        }
        Some(known)
    }

    fn ask(&self, cache: &ResultCache, task: &JudgeTask) -> Result<WorkerState, String> {
        if task.cases.is_empty() || self.mode == JudgeMode::CachedOnly {
            return Ok(WorkerState::Done);
        }
        let contract = self.contract;
        if let (Some(0), Some(most)) = (self.budget.left_micro_usd, self.budget.most_micro_usd) {
            let most = units::format_usd(most);
            return Err(format!("not asked, because the budget of {most} is spent"));
        }
        if let Some(what) = super::seal::find_unapproved_script(contract) {
            return Err(format!("not asked: {what} changed since it was approved"));
        }
        if let Some(why) = sealed_variables::describe_changed_variables(contract) {
            return Err(format!("not asked: {why}"));
        }
        let gates = task.cases.iter().map(|case| case.judge.clone()).collect();
        let until = gate_query::worker_deadline(contract);
        let worker_task = GateTask { site: GateSite::Judge, gates, mark: task.mark.clone() };
        let hand_over = || judge_worker::give_task(contract, cache, task);
        gate_worker::run_gate_worker(contract, &worker_task, until, hand_over)
            .map_err(|error| describe_error(&error))
    }

    fn replies<'j>(
        prepared: Vec<PreparedCase<'j>>,
        known: Vec<Option<StoredVerdict>>,
        otherwise: &dyn Fn(&Judge) -> RequirementStatus,
    ) -> Vec<JudgeReply<'j>> {
        let reply = |(one, verdict): (PreparedCase<'j>, Option<StoredVerdict>)| {
            let judge = one.judge;
            let requirement = match (&one.case, &verdict) {
                (_, Some(verdict)) => judge.requirement(&verdict.result),
                (Err(status), None) => judge.requirement_with(RequirementStatus::clone(status)),
                (Ok(_), None) => judge.requirement_with(otherwise(judge)),
            };
            JudgeReply { judge, requirement, verdict }
        };
        prepared.into_iter().zip(known).map(reply).collect()
    }
}
