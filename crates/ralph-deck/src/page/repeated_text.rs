//! Removes text from timeline rows that an earlier row already shows.

use super::timeline::{TimelineKind, TimelineRow};

/// Texts that the journal repeats on several lines, each of which says something else besides.
#[derive(Default)]
pub(super) struct RepeatedText {
    /// The question that a person has not answered yet.
    question: Option<String>,
    /// Why the last session was ended.
    hand_over: Option<String>,
}

impl RepeatedText {
    /// Leaves out of a row what an earlier one says; `false` if nothing remains.
    pub(super) fn remove_repeated(&mut self, row: &mut TimelineRow) -> bool {
        let is_decision = row.rule.is_some();
        match row.kind {
            TimelineKind::Asked if self.question.as_ref() == Some(&row.text) => return false,
            TimelineKind::Asked => self.question = Some(row.text.clone()),
            TimelineKind::Answered => self.question = None,
            TimelineKind::HandedOver if self.hand_over.as_ref() == Some(&row.text) => return false,
            TimelineKind::HandedOver if is_decision => self.hand_over = Some(row.text.clone()),
            TimelineKind::LetGo | TimelineKind::Runner => {
                if let Some(question) = &self.question {
                    if row.text == *question {
                        row.text = "until a person answers".to_string();
                    } else if let Some(rest) = row.text.strip_suffix(question.as_str()) {
                        row.text = rest.trim_end_matches(": ").to_string();
                    }
                }
            }
            TimelineKind::Started
            | TimelineKind::Held
            | TimelineKind::HandedOver
            | TimelineKind::Ended
            | TimelineKind::Person
            | TimelineKind::Agent
            | TimelineKind::Denied
            | TimelineKind::Damage
            | TimelineKind::Note => {}
        }
        true
    }
}
