//! The open question of a run, or the approval that it waits for.

use crate::run_tally::{RunTally, bounded};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionTally {
    pub question: String,
    pub at_ms: u64,
    pub until_ms: Option<u64>,
    /// What a person has to approve; `None` for a question that a message answers.
    pub approval: Option<String>,
}

impl RunTally {
    pub(crate) fn ask(&mut self, question: &str, at_ms: u64, approval: Option<String>) {
        let question = bounded(question);
        self.declared_wait_ms = None;
        match &mut self.asked {
            Some(asked) if asked.question == question && asked.approval == approval => {
                asked.until_ms = None;
            }
            asked => {
                *asked = Some(QuestionTally { question, at_ms, until_ms: None, approval });
                self.questions = self.questions.saturating_add(1);
            }
        }
    }

    /// A runner that repeats the agent's question says until when it waits for an answer.
    pub(crate) fn ask_again(&mut self, question: &str, at_ms: u64, until_ms: Option<u64>) {
        if self.asked.as_ref().is_none_or(|asked| asked.question != bounded(question)) {
            self.ask(question, at_ms, None);
        }
        self.declared_wait_ms = None;
        if let Some(asked) = &mut self.asked {
            asked.until_ms = until_ms;
        }
    }
}
