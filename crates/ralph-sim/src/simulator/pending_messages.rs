//! Messages that the next request to the model will contain.
//!
//! The client merges them into one user message and one system message. Here they stay separate texts: tool results
//! first, then user texts, then context from hooks.

use crate::timeline::{MessageRole, TimelineMessage};

#[derive(Clone, Debug, Default)]
pub(crate) struct PendingMessages {
    tools: Vec<String>,
    texts: Vec<String>,
    context: Vec<String>,
}

impl PendingMessages {
    pub(crate) fn add_tool_result(&mut self, result: String) {
        self.tools.push(result);
    }

    pub(crate) fn add_user_text(&mut self, text: String) {
        self.texts.push(text);
    }

    /// Adds a user text before all others.
    pub(super) fn prepend_user_text(&mut self, text: String) {
        self.texts.insert(0, text);
    }

    pub(crate) fn add_context(&mut self, text: String) {
        self.context.push(text);
    }

    /// Removes and returns the messages for the next request.
    pub(crate) fn take(&mut self) -> Vec<TimelineMessage> {
        let Self { tools, texts, context } = std::mem::take(self);
        if tools.is_empty() && texts.is_empty() && !context.is_empty() {
            // A request must end with a user message.
            return vec![message(MessageRole::User, system_reminder(&context.join("\n\n")))];
        }
        let tools = tools.into_iter().map(|text| message(MessageRole::Tool, text));
        let texts = texts.into_iter().map(|text| message(MessageRole::User, text));
        let context = context.into_iter().map(|text| message(MessageRole::System, text));
        tools.chain(texts).chain(context).collect()
    }
}

fn message(role: MessageRole, text: String) -> TimelineMessage {
    TimelineMessage { role, text }
}

fn system_reminder(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_messages(fill: impl FnOnce(&mut PendingMessages)) -> Vec<(MessageRole, String)> {
        let mut pending = PendingMessages::default();
        fill(&mut pending);
        let messages = pending.take();
        assert_eq!(pending.take(), []);
        messages.into_iter().map(|said| (said.role, said.text)).collect()
    }

    #[test]
    fn messages_are_ordered_as_the_client_merges_them() {
        let round = taken_messages(|pending| {
            pending.add_user_text("first".to_owned());
            pending.add_context("one".to_owned());
            pending.add_user_text("second".to_owned());
            pending.add_context("two".to_owned());
            pending.add_tool_result("ran".to_owned());
        });
        let expected = [
            (MessageRole::Tool, "ran"),
            (MessageRole::User, "first"),
            (MessageRole::User, "second"),
            (MessageRole::System, "one"),
            (MessageRole::System, "two"),
        ];
        assert_eq!(round, expected.map(|(role, text)| (role, text.to_owned())));
    }

    #[test]
    fn context_alone_becomes_a_user_message() {
        let round = taken_messages(|pending| pending.add_context("some context".to_owned()));
        let text = "<system-reminder>\nsome context\n</system-reminder>".to_owned();
        assert_eq!(round, [(MessageRole::User, text)]);
    }
}
