//! Asks judges. A judge is a program or a model that reads the facts about a change and returns a structured verdict.
//!
//! A judge's answer is foreign text and an opinion. So it is parsed strictly, every finding is checked against the files
//! it quotes, and whatever goes wrong is an unknown result: never met, and never a reason to ask for ever. The crate does
//! not know runs or policies; its callers decide when a judge is asked and what follows from the result.

mod answer_parser;
mod backend;
pub mod bench;
mod call_ledger;
mod case_text;
mod contract_text;
mod copied_answer;
mod diff_sections;
pub mod given_reply;
mod judge_call;
pub mod presets;
mod quote_check;
mod reviewers;
mod single_judge;

use call_ledger::CallLedger;
pub use call_ledger::check_token_limit;
use judge_call::VerdictCalls;
use ralph_core::judge::{
    CaseEvidence, DroppedFinding, Judge, JudgeCase, JudgeFinding, JudgeKind, JudgeOutcome,
    JudgeResult, JudgeUsage, ReviewTest,
};
use ralph_core::judge_requirement::MAX_DROPPED;
use ralph_core::model_price::PriceTable;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_core::units::format_duration;
use ralph_gates::command_place::CommandPlace;
use ralph_sys::clock::{Deadline, Stopwatch};
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::CancelToken;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Raised when a prompt or the parsing of answers changes, so that cached results of older versions are not used.
const CASE_KEY_FORMAT: u32 = 5;

/// A case, and everything that is needed to put it to a judge.
#[derive(Clone, Copy, Debug)]
pub struct JudgeRequest<'a> {
    pub judge: &'a Judge,
    pub case: &'a JudgeCase,
    /// The files that findings are checked against: a checkout of the candidate, or the work tree. An agent judge reads
    /// them, and a command judge gets their path.
    pub files: &'a Path,
    /// Where a command judge runs, and which variables it gets: those of a gate, and those that are named there.
    pub place: &'a CommandPlace<'a>,
    /// A directory of ralph's own, for private files that last as long as a call.
    pub scratch: &'a Path,
    pub env: &'a Env,
    /// The `PATH` of gates, if it differs from that of `env`.
    pub search_path: Option<&'a OsStr>,
    /// The host's program, if it is not the one on the `PATH`.
    pub host_program: Option<&'a Path>,
    /// The ralph executable, which supervises processes: [`ralph_sys::env::own_executable`].
    pub supervisor: &'a Path,
    pub prices: &'a PriceTable,
    /// What the verdict may cost. Calls whose price is unknown are bounded by the judge's `max_tokens` alone.
    pub budget_micro_usd: Option<u64>,
    pub support: &'a dyn JudgeSupport,
}

/// What the caller does for a judge. Every function may be left out.
pub trait JudgeSupport: fmt::Debug {
    /// Called before every call of the backend.
    fn report_progress(&self, _step: &JudgeStep<'_>) {}

    /// Called before every call of the backend, so that it is paid for even if this process does not see its end.
    fn book_estimate(&self, _estimate: &JudgeUsage) {}

    /// Called after every call of the backend. The cost replaces the estimate.
    fn book_cost(&self, _used: &JudgeUsage) {}

    /// The trusted gates that an agent judge may have run.
    fn gate_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Runs one of [`Self::gate_names`] on the candidate; `None` if it gave no result.
    fn run_gate(&self, _name: &str, _deadline: Deadline) -> Option<CaseEvidence> {
        None
    }

    /// Whether [`Self::try_test`] runs tests. Otherwise reviewers are not asked for any.
    fn runs_tests(&self) -> bool {
        false
    }

    /// Runs a test that a reviewer wrote to show this finding, on a checkout of the candidate.
    fn try_test(
        &self,
        _finding: &JudgeFinding,
        _test: &ReviewTest,
        _deadline: Deadline,
    ) -> TestTrial {
        TestTrial::Rejected("tests of reviewers are not run".to_string())
    }
}

/// For a judge that gets nothing but its case.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJudgeSupport;

impl JudgeSupport for NoJudgeSupport {}

/// What a judge is asked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgeStep<'a> {
    Verdict,
    Reviewer {
        number: u8,
        of: u8,
    },
    /// A reviewer checks a finding of another one.
    Confirmation {
        file: &'a str,
        line: Option<u32>,
    },
    /// A gate runs for an agent judge.
    Gate(&'a str),
    /// A test of a reviewer runs.
    Test(&'a str),
    /// The service asked to wait, or did not answer.
    Retry {
        after_ms: u64,
        /// In the words of the service: foreign text.
        why: &'a str,
    },
}

const MAX_STEP_CHARS: usize = 120;

impl JudgeStep<'_> {
    /// One short line, without what a service or a file name could do to a terminal.
    pub fn describe(&self) -> String {
        let line = |foreign: &str| text::clean_line(foreign, MAX_STEP_CHARS);
        match self {
            Self::Verdict => "asking for a verdict".to_string(),
            Self::Reviewer { number, of } => format!("asking reviewer {number} of {of}"),
            Self::Confirmation { file, .. } => {
                format!("having a finding in {} confirmed", line(file))
            }
            Self::Gate(gate) => format!("running {} in a checkout", line(gate)),
            Self::Test(test) => format!("trying the test {} in a checkout", line(test)),
            Self::Retry { after_ms, why } => {
                format!("trying again in {}: {}", format_duration(*after_ms), line(why))
            }
        }
    }
}

/// What came of a test that a reviewer wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestTrial {
    /// The test runner ran it, it is a test by the harness's rules, and it fails on the candidate: the finding stands.
    /// The text names the test and says how it fails.
    Fails(String),
    /// It passes on the candidate, so it does not show what the finding claims.
    Passes,
    /// The harness does not accept it as a test, or it could not be run, and why.
    Rejected(String),
}

/// Asks the judge about the case. Never fails: whatever goes wrong is an [`JudgeOutcome::Unknown`].
pub fn ask_judge(request: &JudgeRequest<'_>, cancel: &CancelToken) -> JudgeResult {
    let model = backend::BackendModel { request, cancel };
    ask_model(request, &model, cancel)
}

/// [`ask_judge`] with any model.
fn ask_model(
    request: &JudgeRequest<'_>,
    model: &dyn judge_call::JudgeModel,
    cancel: &CancelToken,
) -> JudgeResult {
    let watch = Stopwatch::start();
    let judge = request.judge;
    let redactor = Redactor::new(request.env.secrets());
    let mut session = VerdictCalls {
        request,
        model,
        cancel,
        redactor: &redactor,
        ledger: CallLedger::new(request),
        deadline: Deadline::after(Duration::from_millis(judge.timeout_ms)),
        model_name: None,
        unseen: BTreeSet::new(),
    };
    let opinion = match (&request.place.refusal, judge.kind) {
        (Some(why), _) => JudgeOpinion::unknown(session.safe_reason(why)),
        (None, JudgeKind::Adversarial) => reviewers::ask_reviewers(&mut session),
        (
            None,
            JudgeKind::Prompt
            | JudgeKind::Agent
            | JudgeKind::Plan
            | JudgeKind::Goal
            | JudgeKind::Amended,
        ) => single_judge::ask_once(&mut session),
    };
    let opinion = match request.place.describe_package_change() {
        Some(why) => JudgeOpinion::unknown(session.safe_reason(&why)),
        None => opinion,
    };
    let took = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut dropped = opinion.dropped;
    dropped.truncate(MAX_DROPPED);
    JudgeResult {
        judge: judge.name.clone(),
        outcome: opinion.outcome,
        findings: opinion.findings,
        dropped,
        reason: opinion.reason,
        misquoted: opinion.misquoted,
        unconfirmed: opinion.unconfirmed,
        unread: opinion.unread,
        rejected_tests: opinion.rejected_tests,
        unseen: session.unseen.into_iter().collect(),
        prompt_hash: prompt_hash(judge, request.case),
        model: session.model_name,
        usage: session.ledger.usage,
        took_ms: took,
        cached: false,
    }
}

/// A result before it is completed with usage and hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JudgeOpinion {
    pub(crate) outcome: JudgeOutcome,
    pub(crate) findings: Vec<JudgeFinding>,
    pub(crate) reason: Option<String>,
    pub(crate) dropped: Vec<DroppedFinding>,
    pub(crate) misquoted: u32,
    pub(crate) unconfirmed: u32,
    pub(crate) unread: u32,
    /// Why tests of reviewers were not accepted.
    pub(crate) rejected_tests: Vec<String>,
}

impl JudgeOpinion {
    pub(crate) fn new(outcome: JudgeOutcome, findings: Vec<JudgeFinding>) -> Self {
        Self {
            outcome,
            findings,
            reason: None,
            dropped: Vec::new(),
            misquoted: 0,
            unconfirmed: 0,
            unread: 0,
            rejected_tests: Vec::new(),
        }
    }

    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        let outcome = JudgeOutcome::Unknown { why: why.into() };
        Self::new(outcome, Vec::new())
    }
}

/// Key of the cached result: everything that influences a verdict.
pub fn case_key(judge: &Judge, case: &JudgeCase) -> String {
    #[derive(Serialize)]
    struct CaseKey<'a> {
        format: u32,
        kind: JudgeKind,
        backend: &'a ralph_core::judge::JudgeBackend,
        max_tokens: u64,
        reviewers: u8,
        tests: bool,
        prompt: String,
    }
    let key = CaseKey {
        format: CASE_KEY_FORMAT,
        kind: judge.kind,
        backend: &judge.backend,
        max_tokens: judge.max_tokens,
        reviewers: judge.reviewers,
        tests: judge.tests,
        prompt: prompt_hash(judge, case),
    };
    let bytes = serde_json::to_vec(&key).unwrap_or_default();
    blake3::hash(&bytes).to_hex().to_string()
}

/// Hash of the instructions and the case.
fn prompt_hash(judge: &Judge, case: &JudgeCase) -> String {
    let texts = [
        presets::judge_instructions(judge),
        presets::ANSWER_RULES,
        presets::CONFIRM_PRESET,
        presets::GATE_RULES,
        presets::TEST_RULES,
    ];
    let bytes = serde_json::to_vec(&(texts, case)).unwrap_or_default();
    blake3::hash(&bytes).to_hex().to_string()
}

#[cfg(test)]
mod judge_tests;
