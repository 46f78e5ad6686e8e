//! Handles what a person types: a message, a custom slash command, or a built-in one.

use super::client_process::SimulatedClient;
use super::compaction::{self, CompactionRequest};
use super::conversation::{PromptOutcome, SimulatedConversation, run_query_loop};
use super::hook_dispatch::fire_event;
use super::{SimulatedSessionSource, background_work, begin_session, close_session};
use crate::client_ids;
use crate::client_rules::event_outcome::{DispatchedEvent, EventOutcome};
use crate::client_rules::hook_input::SharedInputFields;
use crate::client_rules::transcript_records::record_hooks;
use crate::timeline::{HookEffect, TimelineEntry};
use crate::transcript::WrittenPromptOrigin;
use ralph_sys::fs::{self, FileError};

const MAX_COMMAND_BYTES: usize = 1024 * 1024;

pub(super) fn submit_prompt(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    text: &str,
) -> Result<PromptOutcome, FileError> {
    host.emit(&TimelineEntry::Prompt { text: text.to_owned() });
    let (command, arguments) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let arguments = arguments.trim();
    match command {
        "/clear" => {
            host.prompt_id = Some(chat.transcript.begin_prompt());
            close_session(host, chat, "clear");
            *chat =
                begin_session(host, client_ids::new_uuid(), SimulatedSessionSource::Clear, None)?;
            return Ok(PromptOutcome::new("completed", ""));
        }
        "/compact" => {
            host.prompt_id = Some(chat.transcript.begin_prompt());
            let instructions = Some(arguments.to_owned()).filter(|text| !text.is_empty());
            let done = compaction::compact(host, chat, &CompactionRequest::Manual(instructions));
            return Ok(PromptOutcome::new("completed", done.err().unwrap_or_default()));
        }
        _ => {}
    }
    chat.transcript.write_queued_prompt(text)?;
    host.prompt_id = Some(chat.transcript.begin_prompt());
    chat.begin_prompt();
    if let Some(over) = fire_prompt_submit(host, chat, text, text) {
        return Ok(over);
    }
    match command.strip_prefix('/').and_then(|name| find_slash_command(host, name)) {
        Some((source, body)) => {
            let name = command.trim_start_matches('/');
            let prompt = format!("{command} {arguments}");
            let prompt = prompt.trim_end();
            if let Some(over) = fire_prompt_expansion(
                host,
                chat,
                &SlashCommandExpansion { name, arguments, source, prompt },
            ) {
                return Ok(over);
            }
            chat.pending.add_user_text(format!(
                "<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n<command-args>{arguments}\
                 </command-args>"
            ));
            chat.pending.add_user_text(fill_arguments(&body, arguments));
        }
        None if text.is_empty() => chat.pending.add_user_text("(no content)".to_owned()),
        None => chat.pending.add_user_text(text.to_owned()),
    }
    chat.transcript.write_prompt(text, WrittenPromptOrigin::Person)?;
    Ok(run_query_loop(host, chat))
}

/// Wakes the agent with a notification, which the client submits as a prompt.
pub(super) fn wake_agent(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    text: &str,
) -> PromptOutcome {
    host.emit(&TimelineEntry::Prompt { text: text.to_owned() });
    host.prompt_id = Some(chat.transcript.begin_prompt());
    chat.begin_prompt();
    let announced = background_work::wake_up_text(text);
    if let Some(over) = fire_prompt_submit(host, chat, text, &announced) {
        return over;
    }
    chat.pending.add_user_text(announced);
    let wrote = chat.transcript.write_prompt(text, WrittenPromptOrigin::Task);
    host.note_write(wrote);
    run_query_loop(host, chat)
}

/// Adds a notification in the middle of a turn.
pub(super) fn notify_during_turn(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    text: &str,
) {
    host.emit(&TimelineEntry::Prompt { text: text.to_owned() });
    let mentioned = background_work::notification_text(text);
    if fire_prompt_submit(host, chat, text, &mentioned).is_none() {
        chat.pending.add_context(mentioned);
    }
}

/// Fires `UserPromptSubmit`. Returns `Some` if a hook blocks the prompt.
fn fire_prompt_submit(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    prompt: &str,
    sent: &str,
) -> Option<PromptOutcome> {
    let event = "UserPromptSubmit";
    let input = host.hook_input(event, SharedInputFields::Mode, None).with("prompt", prompt);
    let outcome = fire_event(host, DispatchedEvent { event, subject: None, agent: None, input });
    apply_prompt_answers(host, chat, &outcome, &SubmittedPrompt { prompt, kept: Some(sent) })
}

struct SlashCommandExpansion<'a> {
    name: &'a str,
    arguments: &'a str,
    source: &'static str,
    prompt: &'a str,
}

fn fire_prompt_expansion(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    expansion: &SlashCommandExpansion<'_>,
) -> Option<PromptOutcome> {
    let event = "UserPromptExpansion";
    let input = host
        .hook_input(event, SharedInputFields::Mode, None)
        .with("expansion_type", "slash_command")
        .with("command_name", expansion.name)
        .with("command_args", expansion.arguments)
        .with("command_source", expansion.source)
        .with("prompt", expansion.prompt);
    let subject = Some(expansion.name.to_owned());
    let outcome = fire_event(host, DispatchedEvent { event, subject, agent: None, input });
    apply_prompt_answers(
        host,
        chat,
        &outcome,
        &SubmittedPrompt { prompt: expansion.prompt, kept: None },
    )
}

struct SubmittedPrompt<'a> {
    prompt: &'a str,
    /// The text that stays in the conversation even if the prompt is stopped.
    kept: Option<&'a str>,
}

fn apply_prompt_answers(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    outcome: &EventOutcome,
    judged: &SubmittedPrompt<'_>,
) -> Option<PromptOutcome> {
    host.note_write(record_hooks(&mut chat.transcript, outcome));
    if let Some(text) = outcome.prompt_refusal(judged.prompt) {
        let Some(stop) = outcome.continue_false() else {
            host.emit_hook(outcome, HookEffect::Blocked { reasons: outcome.reasons() });
            return Some(PromptOutcome::new("prompt_blocked", text));
        };
        host.emit_hook(outcome, HookEffect::Stopped { reason: stop.reason.clone() });
        match judged.kept {
            // A notification is marked as such.
            Some(kept) if kept != judged.prompt => {
                chat.pending.add_user_text(kept.to_owned());
                chat.pending.add_user_text(background_work::wake_up_text(&text));
            }
            Some(kept) => {
                chat.pending.add_user_text(kept.to_owned());
                chat.pending.add_user_text(text.clone());
            }
            None => chat.pending.add_user_text(text.clone()),
        }
        return Some(PromptOutcome::new("prompt_blocked", text));
    }
    let added = outcome.context_texts();
    host.emit_hook(outcome, outcome.context_effect());
    for text in added {
        chat.pending.add_context(text);
    }
    None
}

/// Finds a slash command of the user, the project or a plugin. Returns its source and its text without front matter.
/// The part before a colon is a directory or a plugin.
fn find_slash_command(
    host: &mut SimulatedClient<'_>,
    name: &str,
) -> Option<(&'static str, String)> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let parts: Vec<&str> = name.split(':').collect();
    if parts.iter().any(|part| part.is_empty() || !part.chars().all(is_plain)) {
        return None;
    }
    let file = format!("{}.md", parts.join("/"));
    let stage = host.stage;
    let places = [("userSettings", &stage.home), ("projectSettings", &stage.project)];
    let settings =
        places.map(|(source, place)| (source, place.join(".claude/commands").join(&file)));
    let plugins = stage.plugins.iter().filter_map(|plugin| {
        let (first, rest) = file.split_once('/')?;
        (plugin.file_name()? == first).then(|| ("plugin", plugin.join("commands").join(rest)))
    });
    for (source, path) in settings.into_iter().chain(plugins) {
        match fs::read_if_exists(&path, MAX_COMMAND_BYTES) {
            Ok(Some(bytes)) => {
                let text = String::from_utf8_lossy(&bytes);
                return Some((source, strip_front_matter(&text).to_owned()));
            }
            Ok(None) => {}
            Err(error) => host.notice_once(error.to_string()),
        }
    }
    None
}

/// Replaces `$ARGUMENTS` and `$0` to `$9`; the first word is `$0`.
fn fill_arguments(body: &str, arguments: &str) -> String {
    let mut body = body.replace("$ARGUMENTS", arguments);
    for (place, word) in arguments.split_whitespace().enumerate().take(10) {
        body = body.replace(&format!("${place}"), word);
    }
    body
}

fn strip_front_matter(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("---\n") else { return text };
    rest.split_once("\n---\n").map_or(text, |(_, body)| body)
}
