//! Messages that the next request to the model will contain.
//!
//! The client merges them into one user message and one system message. Here they stay separate texts: tool results
//! first, then user texts, then context from hooks.

use crate::timeline::{Role, Said};

#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    tools: Vec<String>,
    texts: Vec<String>,
    context: Vec<String>,
}

impl Pending {
    pub(crate) fn tool(&mut self, result: String) {
        self.tools.push(result);
    }

    pub(crate) fn text(&mut self, text: String) {
        self.texts.push(text);
    }

    /// Adds a user text before all others.
    pub(super) fn first(&mut self, text: String) {
        self.texts.insert(0, text);
    }

    pub(crate) fn context(&mut self, text: String) {
        self.context.push(text);
    }

    /// Removes and returns the messages for the next request.
    pub(crate) fn take(&mut self) -> Vec<Said> {
        let Self { tools, texts, context } = std::mem::take(self);
        if tools.is_empty() && texts.is_empty() && !context.is_empty() {
            // A request must end with a user message.
            return vec![said(Role::User, reminder(&context.join("\n\n")))];
        }
        let tools = tools.into_iter().map(|text| said(Role::Tool, text));
        let texts = texts.into_iter().map(|text| said(Role::User, text));
        let context = context.into_iter().map(|text| said(Role::System, text));
        tools.chain(texts).chain(context).collect()
    }
}

fn said(role: Role, text: String) -> Said {
    Said { role, text }
}

fn reminder(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fill: impl FnOnce(&mut Pending)) -> Vec<(Role, String)> {
        let mut pending = Pending::default();
        fill(&mut pending);
        let messages = pending.take();
        assert_eq!(pending.take(), []);
        messages.into_iter().map(|said| (said.role, said.text)).collect()
    }

    #[test]
    fn messages_are_ordered_as_the_client_merges_them() {
        let round = told(|pending| {
            pending.text("first".to_owned());
            pending.context("one".to_owned());
            pending.text("second".to_owned());
            pending.context("two".to_owned());
            pending.tool("ran".to_owned());
        });
        let expected = [
            (Role::Tool, "ran"),
            (Role::User, "first"),
            (Role::User, "second"),
            (Role::System, "one"),
            (Role::System, "two"),
        ];
        assert_eq!(round, expected.map(|(role, text)| (role, text.to_owned())));
    }

    #[test]
    fn context_alone_becomes_a_user_message() {
        let round = told(|pending| pending.context("some context".to_owned()));
        let text = "<system-reminder>\nsome context\n</system-reminder>".to_owned();
        assert_eq!(round, [(Role::User, text)]);
    }
}
