//! Handles what a person types: a message, a custom slash command, or a built-in one.

use super::compaction::{self, Trigger};
use super::conversation::{Conversation, Over, converse};
use super::hooks::{Telling, tell};
use super::host::{Host, Shared};
use super::told::Told;
use super::{Source, background, begin, book, close};
use crate::id;
use crate::timeline::{Effect, Entry};
use crate::transcript::Origin;
use ralph_sys::fs::{self, FileError};

const LARGEST_COMMAND: usize = 1024 * 1024;

pub(super) fn say(
    host: &mut Host<'_>,
    chat: &mut Conversation,
    text: &str,
) -> Result<Over, FileError> {
    host.emit(&Entry::Prompt { text: text.to_owned() });
    let (command, arguments) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let arguments = arguments.trim();
    match command {
        "/clear" => {
            host.prompt = Some(chat.transcript.begin());
            close(host, chat, "clear");
            *chat = begin(host, id::uuid(), Source::Clear, None)?;
            return Ok(Over::new("completed", ""));
        }
        "/compact" => {
            host.prompt = Some(chat.transcript.begin());
            let instructions = Some(arguments.to_owned()).filter(|text| !text.is_empty());
            let done = compaction::compact(host, chat, &Trigger::Manual(instructions));
            return Ok(Over::new("completed", done.err().unwrap_or_default()));
        }
        _ => {}
    }
    chat.transcript.queue(text)?;
    host.prompt = Some(chat.transcript.begin());
    chat.begin();
    if let Some(over) = submit(host, chat, text, text) {
        return Ok(over);
    }
    match command.strip_prefix('/').and_then(|name| template(host, name)) {
        Some((source, body)) => {
            let name = command.trim_start_matches('/');
            let prompt = format!("{command} {arguments}");
            let prompt = prompt.trim_end();
            if let Some(over) = expand(host, chat, &Expansion { name, arguments, source, prompt }) {
                return Ok(over);
            }
            chat.pending.text(format!(
                "<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n<command-args>{arguments}\
                 </command-args>"
            ));
            chat.pending.text(filled(&body, arguments));
        }
        None if text.is_empty() => chat.pending.text("(no content)".to_owned()),
        None => chat.pending.text(text.to_owned()),
    }
    chat.transcript.prompt(text, Origin::Person)?;
    Ok(converse(host, chat))
}

/// Wakes the agent with a notification, which the client submits as a prompt.
pub(super) fn notify(host: &mut Host<'_>, chat: &mut Conversation, text: &str) -> Over {
    host.emit(&Entry::Prompt { text: text.to_owned() });
    host.prompt = Some(chat.transcript.begin());
    chat.begin();
    let announced = background::announced(text);
    if let Some(over) = submit(host, chat, text, &announced) {
        return over;
    }
    chat.pending.text(announced);
    let wrote = chat.transcript.prompt(text, Origin::Task);
    host.wrote(wrote);
    converse(host, chat)
}

/// Adds a notification in the middle of a turn.
pub(super) fn mention(host: &mut Host<'_>, chat: &mut Conversation, text: &str) {
    host.emit(&Entry::Prompt { text: text.to_owned() });
    let mentioned = background::mentioned(text);
    if submit(host, chat, text, &mentioned).is_none() {
        chat.pending.context(mentioned);
    }
}

/// Fires `UserPromptSubmit`. Returns `Some` if a hook blocks the prompt.
fn submit(host: &mut Host<'_>, chat: &mut Conversation, prompt: &str, sent: &str) -> Option<Over> {
    let event = "UserPromptSubmit";
    let input = host.input(event, Shared::Mode, None).with("prompt", prompt);
    let told = tell(host, Telling { event, subject: None, agent: None, input });
    judge(host, chat, &told, &Judged { prompt, kept: Some(sent) })
}

struct Expansion<'a> {
    name: &'a str,
    arguments: &'a str,
    source: &'static str,
    prompt: &'a str,
}

fn expand(host: &mut Host<'_>, chat: &mut Conversation, expansion: &Expansion<'_>) -> Option<Over> {
    let event = "UserPromptExpansion";
    let input = host
        .input(event, Shared::Mode, None)
        .with("expansion_type", "slash_command")
        .with("command_name", expansion.name)
        .with("command_args", expansion.arguments)
        .with("command_source", expansion.source)
        .with("prompt", expansion.prompt);
    let subject = Some(expansion.name.to_owned());
    let told = tell(host, Telling { event, subject, agent: None, input });
    judge(host, chat, &told, &Judged { prompt: expansion.prompt, kept: None })
}

struct Judged<'a> {
    prompt: &'a str,
    /// The text that stays in the conversation even if the prompt is stopped.
    kept: Option<&'a str>,
}

fn judge(
    host: &mut Host<'_>,
    chat: &mut Conversation,
    told: &Told,
    judged: &Judged<'_>,
) -> Option<Over> {
    book::hooks(host, chat, told);
    if let Some(text) = told.refused_prompt(judged.prompt) {
        let Some(stop) = told.stop() else {
            host.show(told, Effect::Blocked { reasons: told.reasons() });
            return Some(Over::new("prompt_blocked", text));
        };
        host.show(told, Effect::Stopped { reason: stop.reason.clone() });
        match judged.kept {
            // A notification is marked as such.
            Some(kept) if kept != judged.prompt => {
                chat.pending.text(kept.to_owned());
                chat.pending.text(background::announced(&text));
            }
            Some(kept) => {
                chat.pending.text(kept.to_owned());
                chat.pending.text(text.clone());
            }
            None => chat.pending.text(text.clone()),
        }
        return Some(Over::new("prompt_blocked", text));
    }
    let added = told.additions();
    let effect = match told.contexts() {
        contexts if contexts.is_empty() => Effect::Allowed,
        context => Effect::Continued { context },
    };
    host.show(told, effect);
    for text in added {
        chat.pending.context(text);
    }
    None
}

/// Finds a slash command of the user, the project or a plugin. Returns its source and its text without front matter. The
/// part before a colon is a directory or a plugin.
fn template(host: &Host<'_>, name: &str) -> Option<(&'static str, String)> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let parts: Vec<&str> = name.split(':').collect();
    if parts.iter().any(|part| part.is_empty() || !part.chars().all(is_plain)) {
        return None;
    }
    let file = format!("{}.md", parts.join("/"));
    let places = [("userSettings", &host.stage.home), ("projectSettings", &host.stage.project)];
    let settings =
        places.map(|(source, place)| (source, place.join(".claude/commands").join(&file)));
    let plugins = host.stage.plugins.iter().filter_map(|plugin| {
        let (first, rest) = file.split_once('/')?;
        (plugin.file_name()? == first).then(|| ("plugin", plugin.join("commands").join(rest)))
    });
    settings.into_iter().chain(plugins).find_map(|(source, path)| {
        let bytes = fs::read_opt(&path, LARGEST_COMMAND).ok()??;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some((source, without_front_matter(&text).to_owned()))
    })
}

/// Replaces `$ARGUMENTS` and `$0` to `$9`; the first word is `$0`.
fn filled(body: &str, arguments: &str) -> String {
    let mut body = body.replace("$ARGUMENTS", arguments);
    for (place, word) in arguments.split_whitespace().enumerate().take(10) {
        body = body.replace(&format!("${place}"), word);
    }
    body
}

fn without_front_matter(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("---\n") else { return text };
    rest.split_once("\n---\n").map_or(text, |(_, body)| body)
}
