//! Makes the statement about a run from its journal.

use crate::attested_policy::attest_policy;
use crate::run_statement::{
    AttestedAcceptance, AttestedDispute, AttestedGate, AttestedGoal, AttestedJournal,
    AttestedJudge, AttestedPolicy, AttestedProof, AttestedRequirements, AttestedStatus,
    AttestedTests, AttestedWaiver, JUDGED_SUBJECT, LANDED_SUBJECT, PREDICATE_TYPE, RunPredicate,
    RunStatement, STATEMENT_TYPE, StatementSubject, TREE_SUBJECT,
};
use ralph_core::id::RunId;
use ralph_core::judge::Judge;
use ralph_core::proof_summary::ProofRecord;
use ralph_core::record::{
    Acceptance, GateRecord, JournalEntry, JudgeRecord, JudgedContent, MeasuredSite, PolicySeal,
    RunChange, RunRecord, StopOutcome, StopRecord, Waiver,
};
use ralph_core::requirement::RequirementWeight;
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;
use ralph_git::commit_content::CommitReader;
use ralph_git::worktree::{GitCommandError, RunRepository, find_landed_commit};
use ralph_home::goal_file::read_goal;
use ralph_home::journal::{self, JournalDamage};
use ralph_home::paths::RalphHome;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, FileError};
use sha2::{Digest, Sha256};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum AttestError {
    #[error("cannot read the journal of run `{run}`")]
    Journal { run: RunId, source: FileError },
    #[error("the journal of run `{run}` is damaged at line {line}")]
    Damaged { run: RunId, line: u64 },
    #[error("a newer ralph wrote the journal of run `{run}`")]
    Newer { run: RunId },
    #[error("run `{run}` has not ended")]
    NotEnded { run: RunId },
    #[error("run `{run}` ended {}, so there is nothing to attest", status.name())]
    NotAttestable { run: RunId, status: RunStatus },
    #[error("the journal of run `{run}` has not exactly one decision that ended it {}", status.name())]
    AmbiguousEnd { run: RunId, status: RunStatus },
    #[error("the journal of run `{run}` does not name the commit that was judged")]
    NothingJudged { run: RunId },
    #[error("the project of run `{run}` is in no git repository")]
    NoRepository { run: RunId },
    #[error("the files that the approval of the policy of run `{run}` covers are no longer known")]
    PolicyUnknown { run: RunId },
    #[error(transparent)]
    Git(#[from] GitCommandError),
}

#[derive(Debug)]
pub struct AttestRequest<'a> {
    pub home: &'a RalphHome,
    pub run: &'a RunId,
    /// Of this program.
    pub version: &'a str,
    pub deadline: Deadline,
}

/// A statement, and the repository that it is about.
#[derive(Debug)]
pub struct BuiltStatement {
    pub statement: RunStatement,
    pub repository: CommitReader,
}

pub fn build_statement(request: &AttestRequest<'_>) -> Result<BuiltStatement, AttestError> {
    let id = || request.run.clone();
    let path = request.home.run(request.run).journal();
    let read = journal::read_journal(&path)
        .map_err(|source| AttestError::Journal { run: id(), source })?;
    match read.damage {
        None | Some(JournalDamage::TornLine) => {}
        Some(JournalDamage::BrokenChain { line }) => {
            return Err(AttestError::Damaged { run: id(), line: line as u64 });
        }
        // Reading a file that is missing fails above.
        Some(JournalDamage::Missing) => return Err(AttestError::Damaged { run: id(), line: 1 }),
        Some(JournalDamage::NewerFormat { .. }) => return Err(AttestError::Newer { run: id() }),
    }
    let (run, state) = RunState::replay(&read.entries)
        .ok_or_else(|| AttestError::Damaged { run: id(), line: 1 })?;
    let (ended, status) = match state.phase {
        RunPhase::Ended(status) => {
            let attested = AttestedStatus::of_run(status)
                .ok_or_else(|| AttestError::NotAttestable { run: id(), status })?;
            (state.accepted.as_ref().map_or(status, |accepted| accepted.was), attested)
        }
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
            return Err(AttestError::NotEnded { run: id() });
        }
    };
    let (end, stop) = find_end(&read.entries, ended)
        .ok_or_else(|| AttestError::AmbiguousEnd { run: id(), status: ended })?;
    let judged = stop.judged.as_ref().ok_or_else(|| AttestError::NothingJudged { run: id() })?;
    let (repository, directory) = open_repository(&run, request.deadline)
        .ok_or_else(|| AttestError::NoRepository { run: id() })?;
    let seal = run.seal.as_deref();
    let policy = match seal {
        None => None,
        Some(seal) => {
            let policy = attest_policy(request.home, seal, &repository, &directory, &judged.tree)?;
            Some(policy.ok_or_else(|| AttestError::PolicyUnknown { run: id() })?)
        }
    };
    let landed = find_landed_commit(&repository, &run, &judged.tree, &directory)?;
    let ended = EndedRun { run: &run, state: &state, end, stop, status };
    let predicate = RunPredicate {
        ralph_version: request.version.to_string(),
        goal: attest_goal(request.home, &run),
        journal: AttestedJournal { entries: read.entries.len() as u64, head: read.head.clone() },
        ..ended.predicate(policy)
    };
    let statement = RunStatement {
        statement_type: STATEMENT_TYPE.to_string(),
        subject: subjects(judged, landed.as_deref()),
        predicate_type: PREDICATE_TYPE.to_string(),
        predicate,
    };
    Ok(BuiltStatement { statement, repository })
}

/// The decision that ended a run with a status. `None` if another decision ended it too: an end is final, so the results
/// of a later one are not those that the status rests on.
fn find_end(entries: &[JournalEntry], status: RunStatus) -> Option<(&JournalEntry, &StopRecord)> {
    let mut ends = entries.iter().filter_map(|entry| {
        let RunChange::Decided(stop) = &entry.change else { return None };
        let StopOutcome::Ended(ended) = stop.outcome else { return None };
        Some((entry, &**stop, ended))
    });
    let (entry, stop, ended) = ends.next()?;
    (ended == status && ends.next().is_none()).then_some((entry, stop))
}

/// The repository of the policy, and the path of its directory there.
fn open_repository(run: &RunRecord, deadline: Deadline) -> Option<(CommitReader, String)> {
    let project = run.seal.as_deref().map_or(run.project.as_str(), |seal| seal.project.as_str());
    let place = RunRepository::of_directory(run, Path::new(project));
    let reader = CommitReader::open(&fs::resolve(&place.directory)?, deadline)?;
    let below = place.path_below(reader.root()).to_str()?.to_string();
    Some((reader, below))
}

fn subjects(judged: &JudgedContent, landed: Option<&str>) -> Vec<StatementSubject> {
    let known = [(TREE_SUBJECT, judged.tree.as_str()), (JUDGED_SUBJECT, &judged.commit)];
    let landed = landed.map(|commit| (LANDED_SUBJECT, commit));
    known.into_iter().chain(landed).map(|(name, id)| StatementSubject::new(name, id)).collect()
}

fn attest_goal(home: &RalphHome, run: &RunRecord) -> AttestedGoal {
    let goal = read_goal(home, run).ok();
    let hash = |goal: Vec<u8>| format!("{:x}", Sha256::digest(goal));
    AttestedGoal { title: run.title.clone(), bytes: run.goal_bytes, sha256: goal.map(hash) }
}

struct EndedRun<'a> {
    run: &'a RunRecord,
    state: &'a RunState,
    end: &'a JournalEntry,
    stop: &'a StopRecord,
    status: AttestedStatus,
}

impl EndedRun<'_> {
    fn predicate(&self, policy: Option<AttestedPolicy>) -> RunPredicate {
        let Self { run, state, end, stop, status } = self;
        let seal = run.seal.as_deref();
        let report = stop.report.clone().unwrap_or_default();
        let in_force = state.waivers.iter().filter(|waiver| end.at_ms < waiver.until_ms);
        RunPredicate {
            run: run.id.as_str().to_string(),
            status: *status,
            started_at: clock::format_rfc3339(run.started_ms),
            ended_at: clock::format_rfc3339(end.at_ms),
            ralph_version: String::new(),
            goal: AttestedGoal { title: String::new(), bytes: 0, sha256: None },
            policy,
            requirements: AttestedRequirements {
                rule: stop.rule.name().to_string(),
                total: report.total,
                open: report.open_count(),
                met: report.met,
            },
            gates: stop.gates.iter().map(|gate| attest_gate(gate, seal)).collect(),
            judges: stop.judges.iter().map(|judge| attest_judge(judge, seal)).collect(),
            proof: stop.proof.as_ref().map(attest_proof),
            waivers: in_force.map(attest_waiver).collect(),
            disputes: state
                .disputes
                .iter()
                .map(|one| AttestedDispute {
                    requirement: one.requirement.clone(),
                    why: one.why.clone(),
                })
                .collect(),
            accepted: state.accepted.as_ref().map(attest_acceptance),
            tampered: state.tampered,
            limits: state.limits(run).clone(),
            iterations: end.iteration,
            journal: AttestedJournal { entries: 0, head: String::new() },
        }
    }
}

/// A gate that the policy does not have belongs to a list, and is required.
fn attest_gate(record: &GateRecord, seal: Option<&PolicySeal>) -> AttestedGate {
    let gate = seal.and_then(|seal| seal.policy.gates.iter().find(|gate| gate.name == record.name));
    let site = match record.site {
        MeasuredSite::Tree => "tree",
        MeasuredSite::Clean => "clean",
        MeasuredSite::Base => "base",
    };
    AttestedGate {
        name: record.name.clone(),
        site: site.to_string(),
        required: gate.is_none_or(|gate| gate.weight == RequirementWeight::Required),
        outcome: record.outcome.clone(),
        tests: record.tests.map(|tests| AttestedTests {
            run: tests.run,
            failed: tests.failed,
            skipped: tests.skipped,
        }),
        findings: record.findings,
        key: record.key.clone(),
    }
}

/// A judge that the sealed policy does not have confirms nothing.
fn attest_judge(record: &JudgeRecord, seal: Option<&PolicySeal>) -> AttestedJudge {
    let mut judges = seal.into_iter().flat_map(|seal| &seal.policy.judges);
    let judge = judges.find(|judge| judge.name == record.name);
    AttestedJudge {
        name: record.name.clone(),
        kind: record.kind,
        required: judge.is_some_and(Judge::is_required),
        counts: judge.is_some_and(|judge| judge.counts),
        outcome: record.outcome.clone(),
        model: record.model.clone(),
        prompt_hash: record.prompt_hash.clone(),
    }
}

fn attest_proof(proof: &ProofRecord) -> AttestedProof {
    AttestedProof {
        verdict: proof.verdict,
        old_tests_held: proof.held,
        tests_failing_without_change: proof.telling,
        old_tests_broken: proof.broken_count,
        broken: proof.broken.clone(),
        doubts: proof.doubts.clone(),
        removed: proof.removed.clone(),
        allowed_to_change: proof.allowed.clone(),
    }
}

fn attest_waiver(waiver: &Waiver) -> AttestedWaiver {
    AttestedWaiver {
        requirement: waiver.requirement.clone(),
        why: waiver.why.clone(),
        by: waiver.by.clone(),
        until: clock::format_rfc3339(waiver.until_ms),
    }
}

fn attest_acceptance(acceptance: &Acceptance) -> AttestedAcceptance {
    AttestedAcceptance {
        by: acceptance.by.clone(),
        why: acceptance.why.clone(),
        at: clock::format_rfc3339(acceptance.at_ms),
        was: acceptance.was.name().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stop(seq: u64, outcome: &serde_json::Value) -> JournalEntry {
        let decided = json!({"rule": "verified", "outcome": outcome, "because": "", "took_ms": 0});
        let entry = json!({"v": 2, "seq": seq, "at_ms": 0, "prev": "", "iteration": 0});
        let mut entry = entry.as_object().unwrap().clone();
        entry.insert("change".into(), json!({ "decided": decided }));
        serde_json::from_value(entry.into()).unwrap()
    }

    /// What is attested is what the status rests on.
    #[test]
    fn a_run_has_one_end() {
        let end = |status: &str| json!({ "ended": status });
        for (name, outcomes, status, expected) in [
            ("one end", vec![json!("allowed"), end("verified")], RunStatus::Verified, Some(1)),
            ("a stop after it", vec![end("green"), json!("allowed")], RunStatus::Green, Some(0)),
            ("accepted", vec![end("needs_review")], RunStatus::NeedsReview, Some(0)),
            ("another status", vec![end("green")], RunStatus::Verified, None),
            ("ended again", vec![end("verified"), end("verified")], RunStatus::Verified, None),
            ("worse at first", vec![end("stuck"), end("verified")], RunStatus::Verified, None),
            ("worse later", vec![end("verified"), end("stuck")], RunStatus::Verified, None),
            ("no end", vec![json!("allowed")], RunStatus::Verified, None),
        ] {
            let entries: Vec<_> = (0..).zip(&outcomes).map(|(at, one)| stop(at, one)).collect();
            let found = find_end(&entries, status).map(|(entry, _)| entry.seq);
            assert_eq!(found, expected, "{name}");
        }
    }
}
