//! Plays the person: sends the prompts of the scenario when the client is ready for them, and interrupts.

use super::launch::{self, Launch, Place, Session};
use super::story::{Seen, Story};
use super::tap::Tap;
use super::{ClientError, Outcome, handlers, without_port};
use crate::id;
use crate::scenario::{Interrupt, Scenario, SessionStep, Step};
use crate::script::Script;
use crate::server::{self, Happened, Options, Pace, Server, Who};
use crate::timeline::Watcher;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::proc::talk::{Heard, Talk};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// How long one prompt may take, including hooks and background tasks.
const PROMPT: Duration = Duration::from_mins(20);
/// How long to wait for a background task while nothing happens.
const QUIET: Duration = Duration::from_mins(1);
/// How long the client may take to exit after its input is closed.
const FAREWELL: Duration = Duration::from_mins(1);
const SEND: Duration = Duration::from_secs(30);
/// How long a tool runs before the person interrupts it.
const INTO_TOOL: Duration = Duration::from_millis(300);
/// Delay of the interrupt after the answer, if nothing shows that the tool runs.
const AFTER_ANSWER: Duration = Duration::from_secs(3);
/// How long to wait for the tap of `StopFailure`.
const LATE_TAP: Duration = Duration::from_secs(2);
/// How long a tap may take to store its input.
const LAST_TAP: Duration = Duration::from_millis(200);
/// Number of messages at the end of a request that are searched for task notifications.
const LATEST: usize = 3;
const LOOK: Duration = Duration::from_millis(10);
/// Maximum delay until a cancellation is noticed.
const LONGEST_LOOK: Duration = Duration::from_millis(200);
/// Limit for the observations of one prompt; further ones are dropped.
const MOST_SEEN: usize = 1_000_000;

enum Event {
    Seen(Seen),
    /// The client closed its output.
    End,
}

pub(super) fn play(
    scenario: &Scenario,
    launch: &Launch<'_>,
    watcher: &mut Watcher<'_>,
) -> Result<Outcome, ClientError> {
    launch::seed(launch.stage)?;
    let (sender, events) = mpsc::channel();
    let told = sender.clone();
    let options = Options {
        port: 0,
        project: launch.stage.project.clone(),
        pace: Pace::Driven,
        observer: Box::new(move |happened| {
            let seen = match happened {
                Happened::Asked(asked) => Seen::Asked(asked),
                Happened::Answered(answered) => Seen::Answered(answered),
            };
            // The receiver is gone once the scenario is over.
            told.send(Event::Seen(seen)).ok();
        }),
    };
    let server = server::serve(Script::new(scenario), options)?;
    let tap = Tap::lay(launch.stage, server.address().port())?;
    let settings = tap.settings.clone();
    let known = handlers::load(launch.stage, &tap);
    let story = Story::new(tap, known, launch.stage.project.clone());
    let id = scenario.client.session.clone().unwrap_or_else(id::uuid);
    let place = Place { settings: &settings, port: server.address().port() };
    let talk = start(launch, &Session::New(id.clone()), &place, &sender)?;
    let mut driver = Driver {
        launch,
        server: &server,
        place,
        sender,
        events,
        story,
        watcher,
        talk: Some(talk),
        aside: Vec::new(),
        id,
        state: State::default(),
        code: 0,
        has_begun: false,
    };
    driver.steps(&scenario.steps)?;
    driver.leave()?;
    while let Some(talk) = driver.aside.pop() {
        driver.talk = Some(talk);
        driver.leave()?;
    }
    Ok(Outcome { transcripts: driver.story.transcripts, code: driver.code })
}

fn start(
    launch: &Launch<'_>,
    session: &Session,
    place: &Place<'_>,
    sender: &Sender<Event>,
) -> Result<Talk, ClientError> {
    let sender = sender.clone();
    let port = place.port;
    launch.start(session, place, move |heard| {
        let event = match heard {
            Heard::Line(line) => {
                let Ok(line) = serde_json::from_str(&without_port(&line, port)) else { return };
                Event::Seen(Seen::Line { at_ns: clock::now_ns(), line })
            }
            Heard::End => Event::End,
        };
        // The receiver is gone once the scenario is over.
        sender.send(event).ok();
    })
}

struct Driver<'a, 'b> {
    launch: &'a Launch<'a>,
    server: &'a Server,
    place: Place<'a>,
    sender: Sender<Event>,
    events: Receiver<Event>,
    story: Story,
    watcher: &'a mut Watcher<'b>,
    /// `None` after the client has exited.
    talk: Option<Talk>,
    /// Clients that stay open and idle while another one is active.
    aside: Vec<Talk>,
    /// The id of the current session.
    id: String,
    state: State,
    code: i32,
    /// Whether the client printed anything.
    has_begun: bool,
}

/// The state of the current prompt.
#[derive(Debug, Default)]
struct State {
    is_busy: bool,
    /// Background tasks whose end was not reported to the agent yet.
    tasks: BTreeSet<String>,
    interrupt: Option<Due>,
    has_failed: bool,
}

#[derive(Debug)]
enum Due {
    Now,
    /// While the tools of the next answer run.
    InTools,
    At(Deadline),
}

impl Driver<'_, '_> {
    fn steps(&mut self, steps: &[Step]) -> Result<(), ClientError> {
        let mut is_first = true;
        for step in steps {
            match step {
                Step::Person(text) => {
                    if !is_first {
                        self.server.next_prompt();
                    }
                    is_first = false;
                    // A client that has exited gets no prompts until the session is resumed.
                    if self.talk.is_some() {
                        self.prompt(text)?;
                    }
                }
                Step::Session(step) => {
                    match step {
                        SessionStep::Resume | SessionStep::Fork => self.leave()?,
                        SessionStep::New => self.aside.extend(self.talk.take()),
                    }
                    let session = match step {
                        SessionStep::New => {
                            self.id = id::uuid();
                            Session::New(self.id.clone())
                        }
                        SessionStep::Resume => Session::Resumed(self.id.clone()),
                        SessionStep::Fork => {
                            let from = std::mem::replace(&mut self.id, id::uuid());
                            Session::Forked { from, to: self.id.clone() }
                        }
                    };
                    self.talk = Some(start(self.launch, &session, &self.place, &self.sender)?);
                }
                Step::Agent(_) | Step::Screen(_) => {}
            }
        }
        Ok(())
    }

    fn prompt(&mut self, text: &str) -> Result<(), ClientError> {
        self.story.hear(Seen::Person { at_ns: clock::now_ns(), text: text.to_owned() });
        self.state = State { is_busy: true, ..State::default() };
        let message = json!({"type": "user", "message": {"role": "user", "content": text}});
        if self.say(&message).is_err() {
            return self.ended();
        }
        let deadline = Deadline::after(PROMPT);
        while self.state.is_busy || !self.state.tasks.is_empty() {
            let quiet = if self.state.is_busy { deadline } else { Deadline::after(QUIET) };
            match self.next(deadline.min(quiet)) {
                Next::Something => {}
                Next::Cancelled => return Err(ClientError::Cancelled),
                Next::End => return self.ended(),
                Next::Nothing if self.state.is_busy => {
                    return Err(ClientError::Silent { what: "answer a prompt", after: PROMPT });
                }
                // A task that never ends, or whose end is never reported.
                Next::Nothing => break,
            }
            self.interrupt();
        }
        if self.state.has_failed {
            self.await_failure();
        }
        self.tell();
        Ok(())
    }

    fn say(&mut self, message: &Value) -> std::io::Result<()> {
        let Some(talk) = &mut self.talk else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        talk.say(format!("{message}\n").as_bytes(), Deadline::after(SEND))
    }

    /// Waits for the next event until the deadline, or until an interrupt is due.
    fn next(&mut self, deadline: Deadline) -> Next {
        let bound = match &self.state.interrupt {
            Some(Due::At(due)) => deadline.min(*due),
            Some(Due::Now | Due::InTools) | None => deadline,
        };
        loop {
            if self.launch.cancel.is_wished() {
                return Next::Cancelled;
            }
            match self.events.recv_timeout(bound.remaining().min(LONGEST_LOOK)) {
                Ok(Event::Seen(seen)) => {
                    self.look(&seen);
                    if self.story.len() < MOST_SEEN {
                        self.story.hear(seen);
                    }
                    return Next::Something;
                }
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return Next::End,
                Err(RecvTimeoutError::Timeout) if deadline.is_over() => return Next::Nothing,
                Err(RecvTimeoutError::Timeout) if bound.is_over() => return Next::Something,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn look(&mut self, seen: &Seen) {
        match seen {
            Seen::Asked(asked) => {
                if asked.who == Who::Main {
                    self.state.interrupt = match asked.turn.interrupt {
                        Interrupt::No => None,
                        Interrupt::Answer => Some(Due::Now),
                        Interrupt::Tools => Some(Due::InTools),
                    };
                    // Context from hooks may follow the notification, so several messages are searched.
                    let latest = asked.messages.iter().rev().take(LATEST);
                    let texts: Vec<String> = latest.map(Value::to_string).collect();
                    let is_reported =
                        |task: &String| texts.iter().any(|text| text.contains(&task_tag(task)));
                    self.state.tasks.retain(|task| !is_reported(task));
                }
            }
            Seen::Line { line, .. } => self.look_at_line(line),
            Seen::Person { .. } | Seen::Answered(_) | Seen::Exit { .. } => {}
        }
    }

    fn look_at_line(&mut self, line: &Value) {
        self.has_begun = true;
        if let Some(id) = line["session_id"].as_str() {
            id.clone_into(&mut self.id);
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
                self.move_interrupt(INTO_TOOL);
            }
            (Some("assistant"), _) => self.move_interrupt(AFTER_ANSWER),
            _ => {}
        }
    }

    fn move_interrupt(&mut self, wait: Duration) {
        if let Some(Due::InTools | Due::At(_)) = self.state.interrupt {
            self.state.interrupt = Some(Due::At(Deadline::after(wait)));
        }
    }

    fn interrupt(&mut self) {
        let is_due = match &self.state.interrupt {
            Some(Due::Now) => true,
            Some(Due::At(due)) => due.is_over(),
            Some(Due::InTools) | None => false,
        };
        if is_due {
            self.state.interrupt = None;
            let request = json!({"subtype": "interrupt"});
            let message =
                json!({"type": "control_request", "request_id": "interrupt", "request": request});
            // If the client has exited, the next read detects it.
            self.say(&message).ok();
        }
    }

    /// Waits for the tap of `StopFailure`, whose hooks run while the client already reports the end of the turn.
    fn await_failure(&mut self) {
        let bound = Deadline::after(LATE_TAP);
        while !self.story.tap.has_kept("StopFailure") && !bound.is_over() {
            clock::pause(LOOK);
        }
    }

    fn tell(&mut self) {
        let settings = handlers::load(self.launch.stage, &self.story.tap);
        self.story.read_settings(settings);
        for entry in self.story.tell() {
            (self.watcher)(&entry);
        }
    }

    /// Closes the client's input and waits until it exits.
    fn leave(&mut self) -> Result<(), ClientError> {
        let Some(talk) = &mut self.talk else { return Ok(()) };
        talk.hang_up();
        let deadline = Deadline::after(FAREWELL);
        loop {
            match self.next(deadline) {
                Next::Something => {}
                Next::Cancelled => return Err(ClientError::Cancelled),
                Next::End => return self.ended(),
                Next::Nothing => {
                    return Err(ClientError::Silent { what: "exit", after: FAREWELL });
                }
            }
        }
    }

    /// Collects the exit code after the client closed its output.
    fn ended(&mut self) -> Result<(), ClientError> {
        let Some(mut talk) = self.talk.take() else { return Ok(()) };
        let code = talk.wait(Deadline::after(FAREWELL)).map_err(ClientError::Wait)?;
        let silent = ClientError::Silent { what: "exit", after: FAREWELL };
        self.code = code.ok_or(silent)?;
        if self.code > 128 {
            // Taps may briefly outlive a killed client.
            clock::pause(LAST_TAP);
        }
        drop(talk);
        if !self.has_begun && self.code != 0 {
            let said = self.launch.complaint();
            return Err(ClientError::Failed { code: self.code, said });
        }
        self.story.hear(Seen::Exit { at_ns: clock::now_ns(), code: self.code });
        self.tell();
        Ok(())
    }
}

enum Next {
    /// The user cancelled the scenario.
    Cancelled,
    Something,
    Nothing,
    End,
}

/// The tag that names the task in a notification.
fn task_tag(task: &str) -> String {
    format!("<task-id>{task}</task-id>")
}
