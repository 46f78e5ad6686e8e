//! Plays the person: sends the prompts of the scenario when the client is ready for them, and interrupts.

use super::hook_tap::HookTap;
use super::launch::{self, ClientLaunch, LaunchTarget, LaunchedSession};
use super::timeline_builder::{ClientObservation, TimelineBuilder};
use super::{RealClientError, RealClientOutcome, expected_handlers, mask_port};
use crate::client_ids;
use crate::scenario::{Scenario, ScenarioStep, SessionStep, TurnInterrupt};
use crate::script::ModelScript;
use crate::server::{self, ModelEvent, ModelServer, ModelServerOptions, RequestOrigin, ScriptPace};
use crate::timeline::TimelineWatcher;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::proc::line_process::{LineProcess, LineProcessOutput};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// How long one prompt may take, including hooks and background tasks.
const PROMPT_TIMEOUT: Duration = Duration::from_mins(20);
/// How long to wait for a background task while nothing happens.
const TASK_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the client may take to exit after its input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_mins(1);
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a tool runs before the person interrupts it.
const INTERRUPT_TOOL_DELAY: Duration = Duration::from_millis(300);
/// Delay of the interrupt after the answer, if nothing shows that the tool runs.
const INTERRUPT_ANSWER_DELAY: Duration = Duration::from_secs(3);
/// How long to wait for the tap of `StopFailure`.
const FAILURE_TAP_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a tap may take to store its input.
const LAST_TAP_DELAY: Duration = Duration::from_millis(200);
/// Number of messages at the end of a request that are searched for task notifications.
const SEARCHED_MESSAGES: usize = 3;
const TAP_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum delay until a cancellation is noticed.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Limit for the observations of one prompt; further ones are dropped.
const MAX_OBSERVATIONS: usize = 1_000_000;

enum ClientDriverEvent {
    Observed(ClientObservation),
    /// The client closed its output.
    End,
}

pub(super) fn play_scenario(
    scenario: &Scenario,
    launch: &ClientLaunch<'_>,
    watcher: &mut TimelineWatcher<'_>,
) -> Result<RealClientOutcome, RealClientError> {
    launch::seed_client_home(launch.stage)?;
    let (sender, events) = mpsc::channel();
    let observations = sender.clone();
    let options = ModelServerOptions {
        port: 0,
        project: launch.stage.project.clone(),
        pace: ScriptPace::Driven,
        observer: Box::new(move |happened| {
            let seen = match happened {
                ModelEvent::Requested(asked) => ClientObservation::Request(asked),
                ModelEvent::Answered(answered) => ClientObservation::Answer(answered),
            };
            // The receiver is gone once the scenario is over.
            observations.send(ClientDriverEvent::Observed(seen)).ok();
        }),
    };
    let server = server::serve(ModelScript::new(scenario), options)?;
    let tap = HookTap::install(launch.stage, server.address().port())?;
    let settings = tap.settings.clone();
    let known = expected_handlers::load_hook_settings(launch.stage, &tap);
    let story = TimelineBuilder::new(tap, known, launch.stage.project.clone());
    let id = scenario.client.session.clone().unwrap_or_else(client_ids::new_uuid);
    let place = LaunchTarget { settings: &settings, port: server.address().port() };
    let talk = start_client(launch, &LaunchedSession::New(id.clone()), &place, &sender)?;
    let mut driver = ClientDriver {
        launch,
        server: &server,
        place,
        sender,
        events,
        builder: story,
        watcher,
        talk: Some(talk),
        idle: Vec::new(),
        session_id: id,
        state: DrivenPromptState::default(),
        code: 0,
        has_begun: false,
    };
    driver.play_steps(&scenario.steps)?;
    driver.close_client()?;
    while let Some(talk) = driver.idle.pop() {
        driver.talk = Some(talk);
        driver.close_client()?;
    }
    Ok(RealClientOutcome { transcripts: driver.builder.transcripts, code: driver.code })
}

fn start_client(
    launch: &ClientLaunch<'_>,
    session: &LaunchedSession,
    place: &LaunchTarget<'_>,
    sender: &Sender<ClientDriverEvent>,
) -> Result<LineProcess, RealClientError> {
    let sender = sender.clone();
    let port = place.port;
    launch.start(session, place, move |heard| {
        let event = match heard {
            LineProcessOutput::Line(line) => {
                let Ok(line) = serde_json::from_str(&mask_port(&line, port)) else { return };
                ClientDriverEvent::Observed(ClientObservation::Line {
                    at_ns: clock::now_ns(),
                    line,
                })
            }
            LineProcessOutput::End => ClientDriverEvent::End,
        };
        // The receiver is gone once the scenario is over.
        sender.send(event).ok();
    })
}

struct ClientDriver<'a, 'b> {
    launch: &'a ClientLaunch<'a>,
    server: &'a ModelServer,
    place: LaunchTarget<'a>,
    sender: Sender<ClientDriverEvent>,
    events: Receiver<ClientDriverEvent>,
    builder: TimelineBuilder,
    watcher: &'a mut TimelineWatcher<'b>,
    /// `None` after the client has exited.
    talk: Option<LineProcess>,
    /// Clients that stay open and idle while another one is active.
    idle: Vec<LineProcess>,
    /// The id of the current session.
    session_id: String,
    state: DrivenPromptState,
    code: i32,
    /// Whether the client printed anything.
    has_begun: bool,
}

/// The state of the current prompt.
#[derive(Debug, Default)]
struct DrivenPromptState {
    is_busy: bool,
    /// Background tasks whose end was not reported to the agent yet.
    tasks: BTreeSet<String>,
    interrupt: Option<InterruptDue>,
    has_failed: bool,
}

#[derive(Debug)]
enum InterruptDue {
    Now,
    /// While the tools of the next answer run.
    InTools,
    At(Deadline),
}

impl ClientDriver<'_, '_> {
    fn play_steps(&mut self, steps: &[ScenarioStep]) -> Result<(), RealClientError> {
        let mut is_first = true;
        for step in steps {
            match step {
                ScenarioStep::Person(text) => {
                    if !is_first {
                        self.server.next_prompt();
                    }
                    is_first = false;
                    // A client that has exited gets no prompts until the session is resumed.
                    if self.talk.is_some() {
                        self.play_prompt(text)?;
                    }
                }
                ScenarioStep::Session(step) => {
                    match step {
                        SessionStep::Resume | SessionStep::Fork => self.close_client()?,
                        SessionStep::New => self.idle.extend(self.talk.take()),
                    }
                    let session = match step {
                        SessionStep::New => {
                            self.session_id = client_ids::new_uuid();
                            LaunchedSession::New(self.session_id.clone())
                        }
                        SessionStep::Resume => LaunchedSession::Resumed(self.session_id.clone()),
                        SessionStep::Fork => {
                            let from =
                                std::mem::replace(&mut self.session_id, client_ids::new_uuid());
                            LaunchedSession::Forked { from, to: self.session_id.clone() }
                        }
                    };
                    self.talk =
                        Some(start_client(self.launch, &session, &self.place, &self.sender)?);
                }
                ScenarioStep::Agent(_) | ScenarioStep::Screen(_) | ScenarioStep::Shell(_) => {}
            }
        }
        Ok(())
    }

    fn play_prompt(&mut self, text: &str) -> Result<(), RealClientError> {
        self.builder
            .observe(ClientObservation::Person { at_ns: clock::now_ns(), text: text.to_owned() });
        self.state = DrivenPromptState { is_busy: true, ..DrivenPromptState::default() };
        let message = json!({"type": "user", "message": {"role": "user", "content": text}});
        if self.send_message(&message).is_err() {
            return self.collect_exit();
        }
        let deadline = Deadline::after(PROMPT_TIMEOUT);
        while self.state.is_busy || !self.state.tasks.is_empty() {
            let quiet = if self.state.is_busy { deadline } else { Deadline::after(TASK_TIMEOUT) };
            match self.wait_for_event(deadline.min(quiet)) {
                DriverWaitResult::Something => {}
                DriverWaitResult::Cancelled => return Err(RealClientError::Cancelled),
                DriverWaitResult::End => return self.collect_exit(),
                DriverWaitResult::TimedOut if self.state.is_busy => {
                    return Err(RealClientError::TimedOut {
                        what: "answer a prompt",
                        after: PROMPT_TIMEOUT,
                    });
                }
                // A task that never ends, or whose end is never reported.
                DriverWaitResult::TimedOut => break,
            }
            self.interrupt_if_due();
        }
        if self.state.has_failed {
            self.await_failure_tap();
        }
        self.emit_entries();
        Ok(())
    }

    fn send_message(&mut self, message: &Value) -> std::io::Result<()> {
        let Some(talk) = &mut self.talk else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        talk.send(format!("{message}\n").as_bytes(), Deadline::after(SEND_TIMEOUT))
    }

    /// Waits for the next event until the deadline, or until an interrupt is due.
    fn wait_for_event(&mut self, deadline: Deadline) -> DriverWaitResult {
        let bound = match &self.state.interrupt {
            Some(InterruptDue::At(due)) => deadline.min(*due),
            Some(InterruptDue::Now | InterruptDue::InTools) | None => deadline,
        };
        loop {
            if self.launch.cancel.is_cancelled() {
                return DriverWaitResult::Cancelled;
            }
            match self.events.recv_timeout(bound.remaining().min(CANCEL_POLL_INTERVAL)) {
                Ok(ClientDriverEvent::Observed(seen)) => {
                    self.update_state(&seen);
                    if self.builder.pending_len() < MAX_OBSERVATIONS {
                        self.builder.observe(seen);
                    }
                    return DriverWaitResult::Something;
                }
                Ok(ClientDriverEvent::End) | Err(RecvTimeoutError::Disconnected) => {
                    return DriverWaitResult::End;
                }
                Err(RecvTimeoutError::Timeout) if deadline.has_passed() => {
                    return DriverWaitResult::TimedOut;
                }
                Err(RecvTimeoutError::Timeout) if bound.has_passed() => {
                    return DriverWaitResult::Something;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn update_state(&mut self, seen: &ClientObservation) {
        match seen {
            ClientObservation::Request(asked) => {
                if asked.origin == RequestOrigin::Main {
                    self.state.interrupt = match asked.turn.interrupt {
                        TurnInterrupt::No => None,
                        TurnInterrupt::Answer => Some(InterruptDue::Now),
                        TurnInterrupt::Tools => Some(InterruptDue::InTools),
                    };
                    // Context from hooks may follow the notification, so several messages are searched.
                    let latest = asked.messages.iter().rev().take(SEARCHED_MESSAGES);
                    let texts: Vec<String> = latest.map(Value::to_string).collect();
                    let is_reported =
                        |task: &String| texts.iter().any(|text| text.contains(&task_tag(task)));
                    self.state.tasks.retain(|task| !is_reported(task));
                }
            }
            ClientObservation::Line { line, .. } => self.update_state_from_line(line),
            ClientObservation::Person { .. }
            | ClientObservation::Answer(_)
            | ClientObservation::Exit { .. } => {}
        }
    }

    fn update_state_from_line(&mut self, line: &Value) {
        self.has_begun = true;
        if let Some(id) = line["session_id"].as_str() {
            id.clone_into(&mut self.session_id);
        }
        match (line["type"].as_str(), line["subtype"].as_str()) {
            (Some("result"), _) => {
                self.state.is_busy = false;
                self.state.has_failed |= line["terminal_reason"] == "api_error";
                // A notification that a hook blocked ends with its prompt.
                let result = line["result"].as_str().unwrap_or_default();
                self.state.tasks.retain(|task| !result.contains(&task_tag(task)));
            }
            (_, Some("task_started")) if line["is_backgrounded"] == true => {
                let id = line["task_id"].as_str().unwrap_or_default();
                self.state.tasks.insert(id.to_owned());
            }
            (_, Some("hook_started")) if line["hook_event"] == "UserPromptSubmit" => {
                self.state.is_busy = true;
            }
            (_, Some("hook_response")) if line["hook_event"] == "PreToolUse" => {
                self.schedule_interrupt(INTERRUPT_TOOL_DELAY);
            }
            (Some("assistant"), _) => self.schedule_interrupt(INTERRUPT_ANSWER_DELAY),
            _ => {}
        }
    }

    fn schedule_interrupt(&mut self, wait: Duration) {
        if let Some(InterruptDue::InTools | InterruptDue::At(_)) = self.state.interrupt {
            self.state.interrupt = Some(InterruptDue::At(Deadline::after(wait)));
        }
    }

    fn interrupt_if_due(&mut self) {
        let is_due = match &self.state.interrupt {
            Some(InterruptDue::Now) => true,
            Some(InterruptDue::At(due)) => due.has_passed(),
            Some(InterruptDue::InTools) | None => false,
        };
        if is_due {
            self.state.interrupt = None;
            let request = json!({"subtype": "interrupt"});
            let message =
                json!({"type": "control_request", "request_id": "interrupt", "request": request});
            // If the client has exited, the next read detects it.
            self.send_message(&message).ok();
        }
    }

    /// Waits for the tap of `StopFailure`, whose hooks run while the client already reports the end of the turn.
    fn await_failure_tap(&mut self) {
        let bound = Deadline::after(FAILURE_TAP_TIMEOUT);
        while !self.builder.tap.has_unused("StopFailure") && !bound.has_passed() {
            clock::sleep(TAP_POLL_INTERVAL);
        }
    }

    fn emit_entries(&mut self) {
        let settings = expected_handlers::load_hook_settings(self.launch.stage, &self.builder.tap);
        self.builder.replace_settings(settings);
        for entry in self.builder.take_entries() {
            (self.watcher)(&entry);
        }
    }

    /// Closes the client's input and waits until it exits.
    fn close_client(&mut self) -> Result<(), RealClientError> {
        let Some(talk) = &mut self.talk else { return Ok(()) };
        talk.close_input();
        let deadline = Deadline::after(EXIT_TIMEOUT);
        loop {
            match self.wait_for_event(deadline) {
                DriverWaitResult::Something => {}
                DriverWaitResult::Cancelled => return Err(RealClientError::Cancelled),
                DriverWaitResult::End => return self.collect_exit(),
                DriverWaitResult::TimedOut => {
                    return Err(RealClientError::TimedOut { what: "exit", after: EXIT_TIMEOUT });
                }
            }
        }
    }

    /// Collects the exit code after the client closed its output.
    fn collect_exit(&mut self) -> Result<(), RealClientError> {
        let Some(mut talk) = self.talk.take() else { return Ok(()) };
        let code = talk.wait(Deadline::after(EXIT_TIMEOUT)).map_err(RealClientError::Wait)?;
        let silent = RealClientError::TimedOut { what: "exit", after: EXIT_TIMEOUT };
        self.code = code.ok_or(silent)?;
        if self.code > 128 {
            // Taps may briefly outlive a killed client.
            clock::sleep(LAST_TAP_DELAY);
        }
        drop(talk);
        if !self.has_begun && self.code != 0 {
            let said = self.launch.last_stderr_line()?;
            return Err(RealClientError::Failed { code: self.code, said });
        }
        self.builder.observe(ClientObservation::Exit { at_ns: clock::now_ns(), code: self.code });
        self.emit_entries();
        Ok(())
    }
}

enum DriverWaitResult {
    /// The user cancelled the scenario.
    Cancelled,
    Something,
    TimedOut,
    End,
}

/// The tag that names the task in a notification.
fn task_tag(task: &str) -> String {
    format!("<task-id>{task}</task-id>")
}
