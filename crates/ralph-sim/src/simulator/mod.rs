//! The simulated client. This file plays a scenario and starts and ends sessions; the query loop is in `conversation`.

mod background_work;
mod client_process;
mod compaction;
mod conversation;
pub(crate) mod evaluator_hooks;
pub(crate) mod hook_dispatch;
mod open_clients;
pub(crate) mod pending_messages;
mod prompts;
mod subagents;
mod teammates;
mod tool_calls;

use crate::client_ids;
use crate::client_rules::event_outcome::DispatchedEvent;
use crate::client_rules::hook_input::SharedInputFields;
use crate::client_rules::transcript_records::record_hooks;
use crate::scenario::{Scenario, ScenarioStep};
use crate::scratch::ScratchProject;
use crate::timeline::{TimelineEnding, TimelineEntry, TimelineWatcher};
use crate::transcript::{ClientSessionPaths, IdGenerator, TranscriptWriter};
use client_process::SimulatedClient;
use conversation::{PromptOutcome, SimulatedConversation};
use hook_dispatch::fire_event;
use open_clients::OpenClients;
use ralph_sys::fs::FileError;
use ralph_sys::proc::cancel::CancelToken;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The exit code of a client that was killed.
const KILLED_EXIT_CODE: i32 = 137;

/// Inputs of the simulator besides the scenario.
#[derive(Clone, Debug)]
pub struct SimulatorOptions<'a> {
    /// The `ralph` binary, which supervises hooks and tools.
    pub program: &'a Path,
    /// `PATH` of hooks and tools.
    pub search_path: OsString,
    pub cancel: Arc<CancelToken>,
}

#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    #[error("cannot start the stand-in process for the client")]
    StandIn(#[source] std::io::Error),
    #[error(transparent)]
    Transcript(#[from] FileError),
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationOutcome {
    /// Exit code of the client.
    pub exit: i32,
    /// Transcripts of all sessions, in order.
    pub transcripts: Vec<PathBuf>,
}

/// Why a session starts: the `source` of `SessionStart`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SimulatedSessionSource {
    Startup,
    Resume,
    Fork,
    Clear,
}

impl SimulatedSessionSource {
    fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Resume => "resume",
            Self::Fork => "fork",
            Self::Clear => "clear",
        }
    }
}

/// Plays a scenario to its end.
pub fn play<'a>(
    scenario: &'a Scenario,
    stage: &'a ScratchProject,
    options: &SimulatorOptions<'a>,
    watcher: &'a mut TimelineWatcher<'a>,
) -> Result<SimulationOutcome, SimulatorError> {
    let mut host = SimulatedClient::new(scenario, stage, options, watcher);
    let first = scenario.client.session.clone().unwrap_or_else(client_ids::new_uuid);
    let mut open = OpenClients::start_first(&mut host, options.program, first)?;
    let mut transcripts = vec![host.transcript_path.clone()];
    let mut is_first = true;
    for step in &scenario.steps {
        match step {
            // Agent turns come from the script.
            ScenarioStep::Agent(_) | ScenarioStep::Screen(_) | ScenarioStep::Shell(_) => {}
            ScenarioStep::Person(text) => {
                if !is_first {
                    host.script.start_next_prompt();
                }
                is_first = false;
                open.submit_prompt(&mut host, text)?;
            }
            ScenarioStep::Session(step) => open.start_session(&mut host, options.program, *step)?,
        }
        if !transcripts.contains(&host.transcript_path) {
            transcripts.push(host.transcript_path.clone());
        }
        if let Some(error) = host.write_error.take() {
            host.end_children();
            return Err(error.into());
        }
        if host.is_killed() {
            host.notice("a hook or a tool killed the client".to_owned());
            host.end_children();
            host.emit(&TimelineEntry::Exit { code: KILLED_EXIT_CODE });
            return Ok(SimulationOutcome { exit: KILLED_EXIT_CODE, transcripts });
        }
        if host.cancel.is_cancelled() {
            break;
        }
    }
    let exit = open.close_all(&mut host);
    match host.write_error.take() {
        Some(error) => Err(error.into()),
        None => Ok(SimulationOutcome { exit, transcripts }),
    }
}

/// Emits the ending of a prompt and returns the exit code of the client if it exited now.
fn emit_ending(host: &mut SimulatedClient<'_>, over: PromptOutcome) -> i32 {
    let PromptOutcome { reason, result, is_error, .. } = over;
    if host.is_killed() {
        // A killed client reports no ending.
        return KILLED_EXIT_CODE;
    }
    host.emit(&TimelineEntry::Ending(TimelineEnding {
        reason: reason.to_owned(),
        result,
        is_error,
    }));
    i32::from(is_error)
}

/// Starts a session, or continues the one in `before`, and fires `SessionStart`.
fn begin_session(
    host: &mut SimulatedClient<'_>,
    session: String,
    source: SimulatedSessionSource,
    before: Option<&mut SimulatedConversation>,
) -> Result<SimulatedConversation, FileError> {
    let (home, project) = (&host.stage.home, &host.stage.project);
    let transcript = match source {
        SimulatedSessionSource::Fork => {
            let from = ClientSessionPaths { home, project, session: &host.session };
            TranscriptWriter::fork(&from, &session, IdGenerator::random())?
        }
        SimulatedSessionSource::Startup
        | SimulatedSessionSource::Resume
        | SimulatedSessionSource::Clear => TranscriptWriter::open(
            &ClientSessionPaths { home, project, session: &session },
            IdGenerator::random(),
        )?,
    };
    host.session = session;
    transcript.path().clone_into(&mut host.transcript_path);
    if source != SimulatedSessionSource::Clear {
        host.cwd.clone_from(&host.stage.project);
    }
    let mut chat = SimulatedConversation::new(None, transcript);
    let event = "SessionStart";
    // Neither a new process nor a cleared conversation has a prompt id yet.
    host.prompt_id = None;
    let mut input =
        host.hook_input(event, SharedInputFields::Neither, None).with("source", source.name());
    if let (SimulatedSessionSource::Resume | SimulatedSessionSource::Fork, Some(before)) =
        (source, before)
    {
        chat.start_contexts = std::mem::take(&mut before.start_contexts);
        chat.answers = before.answers;
        if before.context_tokens > 0 {
            input = input
                .with("seconds_since_last_response", 0)
                .with("context_tokens", before.context_tokens)
                .with("prompt_cache_likely_expired", false)
                .with("estimated_cache_write_usd", cache_write_cost(before.context_tokens));
        }
        chat.context_tokens = before.context_tokens;
        chat.pending = std::mem::take(&mut before.pending);
        chat.seen = std::mem::take(&mut before.seen);
    }
    let subject = Some(source.name().to_owned());
    let outcome = host.fire_context_event(DispatchedEvent { event, subject, agent: None, input });
    host.note_write(record_hooks(&mut chat.transcript, &outcome));
    for text in outcome.context_texts() {
        // The client drops context that an earlier start of the session already added.
        let words = text.split_once(": ").map_or(text.as_str(), |(_, words)| words).to_owned();
        if !chat.start_contexts.contains(&words) {
            chat.start_contexts.push(words);
            chat.pending.add_context(text);
        }
    }
    Ok(chat)
}

/// The cost of writing this many tokens to the cache, in USD.
#[expect(clippy::cast_precision_loss, reason = "no context has 2⁵² tokens")]
fn cache_write_cost(tokens: u64) -> f64 {
    const PER_TOKEN: f64 = 0.000_005;
    (tokens as f64 * PER_TOKEN * 10_000.0).round() / 10_000.0
}

fn close_session(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    reason: &'static str,
) {
    let event = "SessionEnd";
    let input = host.hook_input(event, SharedInputFields::Neither, None).with("reason", reason);
    let subject = Some(reason.to_owned());
    let outcome = fire_event(host, DispatchedEvent { event, subject, agent: None, input });
    host.emit_hook(&outcome, crate::timeline::HookEffect::Allowed);
    let wrote = chat.transcript.close();
    host.note_write(wrote);
}
