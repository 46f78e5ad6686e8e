//! The simulated client. This file plays a scenario and starts and ends sessions; the query loop is in `conversation`.

mod agents;
mod background;
mod book;
mod compaction;
pub(crate) mod conversation;
pub(crate) mod hooks;
mod host;
pub(crate) mod input;
mod open;
pub(crate) mod pending;
mod prompts;
mod remark;
mod teammates;
pub(crate) mod told;
pub(crate) mod tools;

use crate::id;
use crate::scenario::{Scenario, Step};
use crate::stage::Stage;
use crate::timeline::{Ending, Entry, Watcher};
use crate::transcript::{Ids, Place, Transcript};
use conversation::{Conversation, Over};
use hooks::{Telling, tell};
use host::{Host, Shared};
use open::Open;
use ralph_sys::fs::FileError;
use ralph_sys::proc::cancel::Cancel;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The exit code of a client that was killed.
const KILLED: i32 = 137;

/// What the simulator needs from its caller.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The `ralph` binary, which supervises hooks and tools.
    pub program: &'a Path,
    /// `PATH` of hooks and tools.
    pub search_path: OsString,
    pub cancel: Arc<Cancel>,
}

#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    #[error("cannot start the stand-in process for the client")]
    StandIn(#[source] std::io::Error),
    #[error(transparent)]
    Transcript(#[from] FileError),
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code of the client.
    pub exit: i32,
    /// Transcripts of all sessions, in order.
    pub transcripts: Vec<PathBuf>,
}

/// Why a session starts: the `source` of `SessionStart`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Startup,
    Resume,
    Fork,
    Clear,
}

impl Source {
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
    stage: &'a Stage,
    options: &Options<'a>,
    watcher: &'a mut Watcher<'a>,
) -> Result<Outcome, PlayError> {
    let mut host = Host::new(scenario, stage, options, watcher);
    let first = scenario.client.session.clone().unwrap_or_else(id::uuid);
    let mut open = Open::first(&mut host, options.program, first)?;
    let mut transcripts = vec![host.transcript_path.clone()];
    let mut is_first = true;
    for step in &scenario.steps {
        match step {
            // Agent turns come from the script.
            Step::Agent(_) | Step::Screen(_) => {}
            Step::Person(text) => {
                if !is_first {
                    host.script.next_prompt();
                }
                is_first = false;
                open.hear(&mut host, text)?;
            }
            Step::Session(step) => open.start(&mut host, options.program, *step)?,
        }
        if !transcripts.contains(&host.transcript_path) {
            transcripts.push(host.transcript_path.clone());
        }
        if let Some(error) = host.trouble.take() {
            host.end_all();
            return Err(error.into());
        }
        if host.is_killed() {
            host.notice("a hook or a tool killed the client".to_owned());
            host.end_all();
            host.emit(&Entry::Exit { code: KILLED });
            return Ok(Outcome { exit: KILLED, transcripts });
        }
        if host.cancel.is_wished() {
            break;
        }
    }
    let exit = open.end(&mut host);
    match host.trouble.take() {
        Some(error) => Err(error.into()),
        None => Ok(Outcome { exit, transcripts }),
    }
}

/// Emits the ending of a prompt and returns the exit code of the client if it exited now.
fn end(host: &mut Host<'_>, over: Over) -> i32 {
    let Over { reason, result, is_error, .. } = over;
    if host.is_killed() {
        // A killed client reports no ending.
        return KILLED;
    }
    host.emit(&Entry::Ending(Ending { reason: reason.to_owned(), result, is_error }));
    i32::from(is_error)
}

/// Starts a session, or continues the one in `before`, and fires `SessionStart`.
fn begin(
    host: &mut Host<'_>,
    session: String,
    source: Source,
    before: Option<&mut Conversation>,
) -> Result<Conversation, FileError> {
    let (home, project) = (&host.stage.home, &host.stage.project);
    let transcript = match source {
        Source::Fork => {
            let from = Place { home, project, session: &host.session };
            Transcript::fork(&from, &session, Ids::random())?
        }
        Source::Startup | Source::Resume | Source::Clear => {
            Transcript::open(&Place { home, project, session: &session }, Ids::random())?
        }
    };
    host.session = session;
    transcript.path().clone_into(&mut host.transcript_path);
    if source != Source::Clear {
        host.cwd.clone_from(&host.stage.project);
    }
    let mut chat = Conversation::new(None, transcript);
    let event = "SessionStart";
    // Neither a new process nor a cleared conversation has a prompt id yet.
    host.prompt = None;
    let mut input = host.input(event, Shared::Neither, None).with("source", source.name());
    if let (Source::Resume | Source::Fork, Some(before)) = (source, before) {
        chat.greetings = std::mem::take(&mut before.greetings);
        chat.answers = before.answers;
        if before.context > 0 {
            input = input
                .with("seconds_since_last_response", 0)
                .with("context_tokens", before.context)
                .with("prompt_cache_likely_expired", false)
                .with("estimated_cache_write_usd", cache_cost(before.context));
        }
        chat.context = before.context;
        chat.pending = std::mem::take(&mut before.pending);
        chat.seen = std::mem::take(&mut before.seen);
    }
    let subject = Some(source.name().to_owned());
    let told = host.inform(Telling { event, subject, agent: None, input });
    book::hooks(host, &mut chat, &told);
    for text in told.additions() {
        // The client drops context that an earlier start of the session already added.
        let words = text.split_once(": ").map_or(text.as_str(), |(_, words)| words).to_owned();
        if !chat.greetings.contains(&words) {
            chat.greetings.push(words);
            chat.pending.context(text);
        }
    }
    Ok(chat)
}

/// The cost of writing this many tokens to the cache, in USD.
#[expect(clippy::cast_precision_loss, reason = "no context has 2⁵² tokens")]
fn cache_cost(tokens: u64) -> f64 {
    const PER_TOKEN: f64 = 0.000_005;
    (tokens as f64 * PER_TOKEN * 10_000.0).round() / 10_000.0
}

fn close(host: &mut Host<'_>, chat: &mut Conversation, reason: &'static str) {
    let event = "SessionEnd";
    let input = host.input(event, Shared::Neither, None).with("reason", reason);
    let subject = Some(reason.to_owned());
    let told = tell(host, Telling { event, subject, agent: None, input });
    host.show(&told, crate::timeline::Effect::Allowed);
    let wrote = chat.transcript.close();
    host.wrote(wrote);
}
