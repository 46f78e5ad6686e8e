//! One question to a backend and its reply, and the state of a verdict that takes several.

use crate::answer_parser::{self, ParsedReply};
use crate::call_ledger::CallLedger;
use crate::case_text::{self, CaseQuestion, QuestionRole};
use crate::copied_answer;
use crate::quote_check::QuotedFiles;
use crate::{JudgeRequest, JudgeStep};
use ralph_core::judge::JudgeCase;
use ralph_core::model_price::shown_model;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_sys::clock::Deadline;
use ralph_sys::proc::cancel::CancelToken;
use std::collections::BTreeSet;

const MAX_WHY_CHARS: usize = 300;

/// A question as the backends get it.
#[derive(Debug)]
pub(crate) struct ModelCall<'a> {
    /// Cleaned, redacted and cut to the budget.
    pub(crate) case: &'a JudgeCase,
    pub(crate) question: &'a CaseQuestion,
    /// The instructions and how to answer.
    pub(crate) instructions: &'a str,
    /// The fenced facts.
    pub(crate) facts: &'a str,
    pub(crate) max_output_tokens: u64,
    /// What the call may cost, as far as that is known.
    pub(crate) max_micro_usd: Option<u64>,
    pub(crate) deadline: Deadline,
}

/// The reply of a backend. Foreign text, bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelReply {
    /// The text of the answer, or why there is none.
    pub(crate) answer: Result<String, String>,
    pub(crate) usage: ReplyUsage,
    pub(crate) model: Option<String>,
}

/// What the backend reported about a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplyUsage {
    /// `None` if it reported nothing.
    pub(crate) tokens: Option<TokenCounts>,
    /// The cost that the backend itself reported.
    pub(crate) micro_usd: Option<u64>,
    /// What the call costs if it reported neither.
    pub(crate) unreported: UnreportedCall,
}

/// What is known about a call that reports neither tokens nor a cost, the cheapest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnreportedCall {
    /// Nothing was sent: there is no call to count.
    Unsent,
    /// The service could not be reached or refused it.
    Refused,
    /// The model may have answered it, whatever became of the answer. The provider bills it all the same, so the call
    /// costs its estimate.
    #[default]
    Billed,
}

/// Tokens as providers bill them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenCounts {
    pub(crate) input: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    pub(crate) output: u64,
}

impl TokenCounts {
    /// The tokens without those that the model read again from its cache: each round of tool calls repeats all earlier ones.
    pub(crate) fn without_cache_reads(self) -> u64 {
        self.input.saturating_add(self.cache_write).saturating_add(self.output)
    }

    pub(crate) fn all_input(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

impl ModelReply {
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self { answer: Err(why.into()), usage: ReplyUsage::default(), model: None }
    }

    /// The backend could not be asked at all: its program or key is missing.
    pub(crate) fn unsent(why: impl Into<String>) -> Self {
        Self::unreported(UnreportedCall::Unsent, why)
    }

    pub(crate) fn unreported(unreported: UnreportedCall, why: impl Into<String>) -> Self {
        let usage = ReplyUsage { unreported, ..ReplyUsage::default() };
        Self { usage, ..Self::failed(why) }
    }
}

pub(crate) trait JudgeModel {
    fn call(&self, call: &ModelCall<'_>) -> ModelReply;
}

/// The state of one verdict.
pub(crate) struct VerdictCalls<'a> {
    pub(crate) request: &'a JudgeRequest<'a>,
    pub(crate) model: &'a dyn JudgeModel,
    pub(crate) cancel: &'a CancelToken,
    pub(crate) redactor: &'a Redactor,
    pub(crate) ledger: CallLedger,
    pub(crate) deadline: Deadline,
    pub(crate) model_name: Option<String>,
    /// Files that the judge was not shown, or only in part.
    pub(crate) unseen: BTreeSet<String>,
}

impl VerdictCalls<'_> {
    /// Asks the backend once. The error is why there is no answer, cleaned and redacted.
    pub(crate) fn ask(
        &mut self,
        question: &CaseQuestion,
        step: &JudgeStep<'_>,
    ) -> Result<ParsedReply, String> {
        if self.cancel.is_cancelled() {
            return Err("cancelled".to_string());
        }
        if self.deadline.has_passed() {
            return Err(self.timeout_reason());
        }
        let request = self.request;
        let instructions = case_text::instructions(request.judge, question);
        let room = self.ledger.case_tokens(&instructions)?;
        let case = case_text::case_for(request.case, question);
        let case = case_text::prepare_case(&case, self.redactor, room);
        // A confirmation is about one file on purpose.
        if !matches!(question.role, QuestionRole::Confirm(_)) {
            let redacted = case.redacted.iter().map(|one| &one.file);
            self.unseen.extend(case.omitted.iter().chain(redacted).cloned());
        }
        let prompt = case_text::render_prompt(&instructions, &case, question, self.redactor);
        let opened = self.ledger.open_call(&prompt)?;
        request.support.report_progress(step);
        request.support.book_estimate(&opened.estimate);
        let reply = self.model.call(&ModelCall {
            case: &case,
            question,
            instructions: &prompt.instructions,
            facts: &prompt.facts,
            max_output_tokens: opened.max_output_tokens,
            max_micro_usd: opened.max_micro_usd,
            deadline: self.deadline,
        });
        let used = self.ledger.close_call(&prompt, &reply, request.prices);
        request.support.book_cost(&used);
        if let Some(model) = &reply.model {
            self.model_name = Some(shown_model(model));
        }
        let answer = reply.answer.map_err(|why| self.safe_reason(&why))?;
        self.ledger.check_session_tokens()?;
        let reply = answer_parser::parse_reply(&answer)
            .map_err(|error| self.safe_reason(&error.to_string()))?;
        if copied_answer::is_copied(&reply, &self.quoted_files()) {
            return Err("its answer is a copy of text in the goal, the plan or the change".into());
        }
        Ok(reply)
    }

    pub(crate) fn quoted_files(&self) -> QuotedFiles<'_> {
        let JudgeRequest { files: root, case, .. } = *self.request;
        QuotedFiles { root, case, redactor: self.redactor }
    }

    pub(crate) fn timeout_reason(&self) -> String {
        format!("no verdict within {} s", self.request.judge.timeout_ms.div_ceil(1000))
    }

    pub(crate) fn safe_reason(&self, why: &str) -> String {
        text::truncate(
            &self.redactor.redact(&text::clean_line(why, 2 * MAX_WHY_CHARS)),
            MAX_WHY_CHARS,
        )
    }
}
