//! The process of the fake client: its session, its input and its output.

use super::background_commands::BackgroundCommand;
use super::client_flags::RequestedSession;
use super::hook_callbacks::RegisteredCallback;
use super::inbox::{ClientInbox, ExitSignal, InboxEvent};
use super::result_line::UsageMeter;
use super::script_position::{ScriptPositionError, SharedScript};
use super::turn_loop::crash_at;
use super::{FakeClientError, FakeClientExit, FakeClientOptions, FakeClientOutput};
use crate::client_ids;
use crate::client_rules::file_tools::SeenFiles;
use crate::client_rules::hook_input::{HookInput, HookInputContext, SharedInputFields};
use crate::hook_settings::{FlagSettings, LoadedHookSettings, SettingsPlaces, load_settings_files};
use crate::scenario::{Scenario, TurnPoint};
use crate::transcript::{self, ClientSessionPaths, IdGenerator, TranscriptWriter};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError};
use ralph_sys::proc::job::JobResult;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::PathBuf;

const STATE_EVENTS_VARIABLE: &str = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS";
const TERMINATED_EXIT_CODE: u8 = 143;

pub(super) struct FakeClientProcess<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: FakeClientOptions,
    pub(super) inbox: ClientInbox,
    output: &'a mut FakeClientOutput<'a>,
    pub(super) script: SharedScript,
    pub(super) session: String,
    /// Opened at the first write.
    transcript: Option<TranscriptWriter>,
    /// Follows the agent's `cd`.
    pub(super) cwd: PathBuf,
    pub(super) seen: SeenFiles,
    pub(super) model: String,
    pub(super) prompt_id: Option<String>,
    /// Hook callbacks that the driver registered.
    pub(super) hooks: Vec<RegisteredCallback>,
    /// Ids of the requests that the driver has not answered yet.
    pub(super) open_requests: Vec<String>,
    /// The tool call that the driver is asked to permit.
    pub(super) permission_call: Option<String>,
    /// Keys of notices that are shown only once per process.
    pub(super) shown_notices: Vec<&'static str>,
    pub(super) queue: VecDeque<QueuedPrompt>,
    pub(super) tasks: Vec<BackgroundCommand>,
    pub(super) meter: UsageMeter,
    /// Size of the context at the last answer, in tokens.
    pub(super) context: u64,
    /// Whether the driver can still send lines.
    pub(super) is_input_open: bool,
    signal: Option<ExitSignal>,
    code: u8,
}

#[derive(Clone, Debug)]
pub(super) struct QueuedPrompt {
    pub(super) text: String,
    pub(super) priority: PromptPriority,
    /// The run id of the background task that it reports.
    pub(super) task_run_id: Option<String>,
    /// The driver's id for the message, which is repeated in the result.
    pub(super) id: Option<String>,
}

/// When a message that arrives during a turn is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptPriority {
    /// After the next tool.
    Next,
    /// In a separate turn.
    Later,
}

/// Why the current operation is abandoned.
pub(super) enum TurnBreak {
    /// The driver interrupted the turn.
    Interrupted,
    Signal(ExitSignal),
    Exit(FakeClientExit),
    Error(FakeClientError),
}

impl From<FileError> for TurnBreak {
    fn from(error: FileError) -> Self {
        Self::Error(error.into())
    }
}

impl From<FakeClientError> for TurnBreak {
    fn from(error: FakeClientError) -> Self {
        Self::Error(error)
    }
}

impl From<ScriptPositionError> for TurnBreak {
    fn from(error: ScriptPositionError) -> Self {
        Self::Error(error.into())
    }
}

/// The next input, after control requests and messages are handled.
pub(super) enum ReceivedInput {
    /// The input was handled: a control request, or a message that was queued.
    Handled,
    /// The driver's answer to a request, with the id of the request.
    Answer(String, Result<Value, String>),
    Tool(Box<JobResult>),
    Task(String, Box<JobResult>),
    Interrupt,
    /// The driver closed its side.
    Closed,
    /// The deadline passed.
    TimedOut,
}

impl<'a> FakeClientProcess<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        options: FakeClientOptions,
        say: &'a mut FakeClientOutput<'a>,
    ) -> Self {
        let named = options.flags.model.as_deref().or(scenario.client.model.as_deref());
        let model = named.map_or_else(|| transcript::DEFAULT_MODEL.to_owned(), resolve_model);
        let turns = SharedScript::new(scenario, options.position.clone());
        Self {
            scenario,
            inbox: ClientInbox::new(),
            output: say,
            script: turns,
            session: String::new(),
            transcript: None,
            cwd: options.project.clone(),
            seen: SeenFiles::new(),
            model,
            prompt_id: None,
            hooks: Vec::new(),
            open_requests: Vec::new(),
            permission_call: None,
            shown_notices: Vec::new(),
            queue: VecDeque::new(),
            tasks: Vec::new(),
            meter: UsageMeter::default(),
            context: 0,
            is_input_open: true,
            signal: None,
            code: 0,
            options,
        }
    }

    pub(super) fn run(&mut self) -> Result<FakeClientExit, FakeClientError> {
        let ends = match self.open_session() {
            Ok(Some(exit)) => return Ok(exit),
            Ok(None) => self.serve_prompts(),
            Err(error) => return Err(error.into()),
        };
        let code = match ends {
            Ok(()) => self.code,
            Err(TurnBreak::Signal(ExitSignal::Terminate)) => {
                self.fire_session_end();
                TERMINATED_EXIT_CODE
            }
            Err(TurnBreak::Signal(ExitSignal::Interrupt) | TurnBreak::Interrupted) => {
                self.fire_session_end();
                0
            }
            Err(TurnBreak::Exit(exit)) => return Ok(exit),
            Err(TurnBreak::Error(error)) => return Err(error),
        };
        self.cancel_tasks();
        if let Some(transcript) = &mut self.transcript {
            transcript.close()?;
        }
        Ok(FakeClientExit::Code { code, stderr: None })
    }

    /// Opens the session. Returns how the process ends if there is no such session.
    fn open_session(&mut self) -> Result<Option<FakeClientExit>, FileError> {
        let start = self.options.flags.session.clone();
        match start {
            RequestedSession::New(id) => {
                self.session = id.unwrap_or_else(client_ids::new_uuid);
                if fs::exists(&self.transcript_path()) {
                    let text = format!("Error: Session ID {} is already in use.\n", self.session);
                    return Ok(Some(FakeClientExit::Code { code: 1, stderr: Some(text) }));
                }
            }
            RequestedSession::Resumed(id) => {
                self.session = id;
                if !fs::exists(&self.transcript_path()) {
                    return Ok(Some(self.unknown_session_exit()));
                }
                self.transcript()?;
            }
            RequestedSession::Forked { from, to } => {
                self.session = from;
                if self.session_paths().find_transcript()?.is_none() {
                    return Ok(Some(self.unknown_session_exit()));
                }
                let to = to.unwrap_or_else(client_ids::new_uuid);
                self.transcript = Some(TranscriptWriter::fork(
                    &self.session_paths(),
                    &to,
                    IdGenerator::random(),
                )?);
                self.session = to;
            }
        }
        let cost = self.transcript.as_ref().map_or(0.0, TranscriptWriter::cost_usd);
        let models = self.transcript.as_ref().map(|transcript| transcript.usage_by_model().clone());
        self.meter.begin(cost, models.unwrap_or_default());
        Ok(None)
    }

    fn unknown_session_exit(&mut self) -> FakeClientExit {
        let text = format!("No conversation found with session ID: {}", self.session);
        let result = json!({
            "type": "result",
            "subtype": "error_during_execution",
            "is_error": true,
            "duration_ms": 0,
            "duration_api_ms": 0,
            "num_turns": 0,
            "stop_reason": null,
            "total_cost_usd": 0,
            "usage": transcript::usage_json(super::result_line::NO_USAGE),
            "modelUsage": {},
            "permission_denials": [],
            "errors": [text],
        });
        // The process ends in any case.
        drop(self.write_message(result));
        FakeClientExit::Code { code: 1, stderr: Some(format!("{text}\n")) }
    }

    /// Runs queued prompts until the input is closed and no background task is left.
    fn serve_prompts(&mut self) -> Result<(), TurnBreak> {
        let mut is_idle = true;
        loop {
            let next = self.queue.pop_front();
            if let Some(prompt) = next {
                if std::mem::replace(&mut is_idle, false) {
                    self.write_state("running")?;
                }
                let (code, mishap) = self.run_turn(&prompt)?;
                self.code = code;
                crash_at(mishap, TurnPoint::Idle)?;
                if let Some(signal) = self.signal.take() {
                    return Err(TurnBreak::Signal(signal));
                }
                continue;
            }
            if !std::mem::replace(&mut is_idle, true) {
                self.write_state("idle")?;
            }
            if !self.is_input_open && self.tasks.is_empty() {
                return Ok(());
            }
            match self.receive(None) {
                Ok(ReceivedInput::Task(id, finished)) => {
                    self.report_finished_task(&id, &finished)?;
                }
                // An interrupt has no effect while idle.
                Ok(_) | Err(TurnBreak::Interrupted) => {}
                Err(reason) => return Err(reason),
            }
        }
    }

    /// Fires `SessionEnd`, if the driver is still connected.
    fn fire_session_end(&mut self) {
        let input =
            self.hook_input("SessionEnd", SharedInputFields::Neither).with("reason", "other");
        // The session ends in any case.
        drop(self.run_callbacks("SessionEnd", Some("other"), input));
    }

    /// Waits for the next input until the deadline. Control requests are handled here.
    pub(super) fn receive(
        &mut self,
        deadline: Option<&Deadline>,
    ) -> Result<ReceivedInput, TurnBreak> {
        let Some(event) = self.inbox.next(deadline.map(Deadline::remaining)) else {
            return Ok(ReceivedInput::TimedOut);
        };
        Ok(match event {
            InboxEvent::Line(line) => return self.handle_line(line),
            InboxEvent::Closed => {
                self.is_input_open = false;
                ReceivedInput::Closed
            }
            InboxEvent::Invalid => {
                let stderr = Some("Error parsing streaming input line\n".to_owned());
                return Err(TurnBreak::Exit(FakeClientExit::Code { code: 1, stderr }));
            }
            InboxEvent::Tool(finished) => ReceivedInput::Tool(finished),
            InboxEvent::Task(id, finished) => ReceivedInput::Task(id, finished),
            InboxEvent::Signal(ExitSignal::Interrupt) => {
                self.signal = Some(ExitSignal::Interrupt);
                if self.is_busy() {
                    ReceivedInput::Interrupt
                } else {
                    return Err(TurnBreak::Signal(ExitSignal::Interrupt));
                }
            }
            InboxEvent::Signal(ExitSignal::Terminate) => {
                return Err(TurnBreak::Signal(ExitSignal::Terminate));
            }
        })
    }

    fn is_busy(&self) -> bool {
        self.meter.is_in_turn()
    }

    /// Writes a line with the fields that every line has.
    pub(super) fn write_message(&mut self, mut line: Value) -> Result<(), TurnBreak> {
        line["session_id"] = json!(self.session);
        line["uuid"] = json!(client_ids::new_uuid());
        self.write_line(&line)
    }

    pub(super) fn write_line(&mut self, line: &Value) -> Result<(), TurnBreak> {
        if (self.output)(format!("{line}\n").as_bytes()) {
            Ok(())
        } else {
            Err(TurnBreak::Exit(FakeClientExit::Code { code: 1, stderr: None }))
        }
    }

    fn write_state(&mut self, state: &str) -> Result<(), TurnBreak> {
        if self
            .variable(STATE_EVENTS_VARIABLE)
            .is_none_or(|value| !matches!(value.as_str(), "1" | "true"))
        {
            return Ok(());
        }
        self.write_message(
            json!({"type": "system", "subtype": "session_state_changed", "state": state}),
        )
    }

    /// Reports the state of a message, if the driver gave it an id.
    pub(super) fn write_lifecycle(
        &mut self,
        prompt: &QueuedPrompt,
        state: &str,
    ) -> Result<(), TurnBreak> {
        let Some(id) = &prompt.id else { return Ok(()) };
        self.write_message(json!({"type": "command_lifecycle", "command_uuid": id, "state": state}))
    }

    fn session_paths(&self) -> ClientSessionPaths<'_> {
        let FakeClientOptions { home, project, .. } = &self.options;
        ClientSessionPaths { home, project, session: &self.session }
    }

    pub(super) fn transcript_path(&self) -> PathBuf {
        self.session_paths().transcript()
    }

    /// The transcript, which is created at the first use.
    pub(super) fn transcript(&mut self) -> Result<&mut TranscriptWriter, FileError> {
        let transcript = match self.transcript.take() {
            Some(transcript) => transcript,
            None => TranscriptWriter::open(&self.session_paths(), IdGenerator::random())?,
        };
        Ok(self.transcript.insert(transcript))
    }

    /// The transcript, if it was created.
    pub(super) fn opened_transcript(&self) -> Option<&TranscriptWriter> {
        self.transcript.as_ref()
    }

    /// The directory for files of the session, beside its transcript.
    pub(super) fn session_directory(&self) -> PathBuf {
        self.transcript_path().with_extension("")
    }

    pub(super) fn permission_mode(&self) -> &str {
        self.options.flags.permission_mode.as_deref().unwrap_or("default")
    }

    pub(super) fn is_bypassed(&self) -> bool {
        self.permission_mode() == transcript::BYPASS_MODE
    }

    /// An environment variable of the client. Settings override the inherited environment, and `--settings` overrides
    /// other settings.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let mut env = self.load_settings().env;
        let own = || self.options.env.iter().rev().find(|(key, _)| key == name);
        env.remove(name).or_else(|| Some(own()?.1.to_string_lossy().into_owned()))
    }

    pub(super) fn load_settings(&self) -> LoadedHookSettings {
        let FakeClientOptions { home, project, flags, .. } = &self.options;
        let flag = FlagSettings::parse(flags.settings.as_deref());
        load_settings_files(&SettingsPlaces { home, project, flag, plugins: &[] })
    }

    /// The first fields of a hook's input, common to all events.
    pub(super) fn hook_input(&self, event: &str, shared: SharedInputFields) -> HookInput {
        let context = HookInputContext {
            session: &self.session,
            transcript: &self.transcript_path(),
            cwd: &self.cwd,
            prompt_id: self.prompt_id.as_deref(),
            permission_mode: self.permission_mode(),
            agent: None,
        };
        context.input(event, shared)
    }
}

/// Resolves the alias of a model.
pub(super) fn resolve_model(name: &str) -> String {
    match name {
        "default" | "opus" => transcript::DEFAULT_MODEL,
        "sonnet" => "claude-sonnet-5-5",
        "haiku" => "claude-haiku-5-5",
        other => other,
    }
    .to_owned()
}
