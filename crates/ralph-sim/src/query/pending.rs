//! What the model has not been told yet.
//!
//! The client puts a round into at most one user message and one system message: answers of tools first, then texts,
//! and whatever a hook added as context last.

use crate::timeline::{Role, Said};

#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    tools: Vec<String>,
    texts: Vec<String>,
    context: Vec<String>,
}

impl Pending {
    pub(super) fn tool(&mut self, result: String) {
        self.tools.push(result);
    }

    pub(super) fn text(&mut self, text: String) {
        self.texts.push(text);
    }

    pub(super) fn context(&mut self, text: String) {
        self.context.push(text);
    }

    /// The messages of the next request; nothing is pending afterwards.
    pub(super) fn take(&mut self) -> Vec<Said> {
        let Self { tools, texts, context } = std::mem::take(self);
        let mut messages: Vec<Said> =
            tools.into_iter().map(|text| said(Role::Tool, text)).collect();
        let context = context.join("\n\n");
        if messages.is_empty() && texts.is_empty() {
            if !context.is_empty() {
                messages.push(said(Role::User, reminder(&context)));
            }
            return messages;
        }
        let last = texts.len().saturating_sub(1);
        for (index, mut text) in texts.into_iter().enumerate() {
            if index < last {
                text.push('\n');
            }
            messages.push(said(Role::User, text));
        }
        if !context.is_empty() {
            messages.push(said(Role::System, context));
        }
        messages
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
    fn a_round_is_told_the_way_the_client_merges_it() {
        let round = told(|pending| {
            pending.text("first".to_owned());
            pending.context("one".to_owned());
            pending.text("second".to_owned());
            pending.context("two".to_owned());
            pending.tool("ran".to_owned());
        });
        let expected = [
            (Role::Tool, "ran"),
            (Role::User, "first\n"),
            (Role::User, "second"),
            (Role::System, "one\n\ntwo"),
        ];
        assert_eq!(round, expected.map(|(role, text)| (role, text.to_owned())));
    }

    #[test]
    fn context_alone_becomes_what_the_user_says() {
        let round = told(|pending| pending.context("some context".to_owned()));
        let text = "<system-reminder>\nsome context\n</system-reminder>".to_owned();
        assert_eq!(round, [(Role::User, text)]);
    }
}
