//! Plays a scenario with `ralph run`, which drives the real client with a scripted model, or the fake client. The events
//! that `ralph run` prints form the timeline.
//!
//! ```text
//! scenario ─ scratch ─▶ ralph run ARGS --json ─▶ agent ─▶ the client ─▶ server: the script
//!    │                     ▲        │              └────▶ ralph pretend: script and client in one
//!    └─ [[runner.at]] ─────┘        └─▶ timeline
//! ```

mod agent;
mod model;
mod strike;
mod trial;

pub use strike::struck;
pub use trial::{TrialError, attempt};

use crate::client;
use crate::scenario::{Act, Moment, Runner, Scenario};
use crate::server::ServerError;
use crate::stage::{self, Stage, Tools};
use crate::timeline::{Entry, Request, Watcher};
use model::Model;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError};
use ralph_sys::proc::talk::{self, Heard, Talk, TalkError, Tie};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Timeout of a scenario.
const LONGEST: Duration = Duration::from_mins(10);
/// Maximum delay until a request, an intervention or a cancellation is noticed.
const LOOK: Duration = Duration::from_millis(5);
const FAREWELL: Duration = Duration::from_secs(30);
const LARGEST_ERRORS: usize = 16 * 1024;
/// Exit code of a killed process, as a shell reports it.
const KILLED: i32 = 137;
/// Exit codes of a runner that left the run to a person: `needs_human`, `rate_limited`, `overridden`, `crashed`,
/// `cancelled`.
const PARKED: [i32; 5] = [5, 8, 9, 10, 130];

#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    #[error("this scenario has no runner")]
    None,
    #[error("the run did not end within {} seconds", LONGEST.as_secs())]
    Endless,
    #[error("`ralph run` exited with code {code} before the run started: {said}")]
    Failed { code: i32, said: String },
    #[error("interrupted")]
    Cancelled,
    #[error("cannot wait for `ralph run`")]
    Wait(#[source] std::io::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Talk(#[from] TalkError),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code of the first run.
    pub code: i32,
    /// Command lines of processes that should have exited.
    pub alive: Vec<String>,
}

/// Plays the scenario in a scratch project that was just set up. Without a client, the agent is the fake one.
pub fn play(
    scenario: &Scenario,
    stage: &Stage,
    (tools, client): (&Tools<'_>, Option<&Path>),
    watcher: &mut Watcher<'_>,
) -> Result<Outcome, RunnerError> {
    let runner = scenario.runner.as_deref().ok_or(RunnerError::None)?;
    client::seed(stage)?;
    let model = Model::serve(scenario, stage, client)?;
    agent::lay(scenario, stage, (tools.program, client))?;
    let (sender, events) = mpsc::channel();
    let scene = Scene { scenario, stage, tools, port: model.port() };
    let mut play = Play {
        scene,
        runner,
        watcher,
        sender,
        events,
        model,
        seats: Vec::new(),
        graves: Vec::new(),
        due: Vec::new(),
    };
    for args in std::iter::once(&runner.args).chain(&runner.beside) {
        let number = play.seats.len();
        let talk = play.start(number, args)?;
        let resumes = if number == 0 { runner.resumes } else { 0 };
        play.seats.push(Seat { talk: Some(talk), run: None, resumes, code: None });
    }
    let code = play.last()?;
    (play.watcher)(&Entry::Exit { code });
    let alive = agent::left(stage);
    Ok(Outcome { code, alive })
}

/// What every runner needs to start.
#[derive(Clone, Copy)]
struct Scene<'a> {
    scenario: &'a Scenario,
    stage: &'a Stage,
    tools: &'a Tools<'a>,
    port: Option<u16>,
}

struct Play<'a, 'b> {
    scene: Scene<'a>,
    runner: &'a Runner,
    watcher: &'a mut Watcher<'b>,
    sender: Sender<Event>,
    events: Receiver<Event>,
    model: Model,
    seats: Vec<Seat>,
    /// Runners that have exited. They are kept, because dropping one would kill the processes that it left behind, which
    /// must be detected instead.
    graves: Vec<Talk>,
    due: Vec<(Deadline, Act)>,
}

/// One of the runs.
struct Seat {
    /// `None` after the runner has exited.
    talk: Option<Talk>,
    /// The id of the run, once the runner has printed it.
    run: Option<String>,
    resumes: u32,
    code: Option<i32>,
}

enum Event {
    Line(usize, Vec<u8>),
    End(usize),
}

impl Play<'_, '_> {
    fn start(&self, number: usize, words: &[String]) -> Result<Talk, RunnerError> {
        let Scene { scenario, stage, tools, port } = self.scene;
        let mut argv: Vec<OsString> = vec![tools.program.into(), "run".into()];
        let own = words.iter().take_while(|word| *word != "--");
        let flags = words.iter().skip_while(|word| *word != "--");
        argv.extend(own.map(OsString::from));
        argv.extend(["--agent-program".into(), agent::place(stage).into(), "--json".into()]);
        argv.extend(flags.map(OsString::from));
        let argv: Vec<&OsStr> = argv.iter().map(OsString::as_os_str).collect();
        let env = client::environment(scenario, &stage.home, tools.search_path, port);
        let env: Vec<_> = env.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
        let spec = talk::Spec {
            argv: &argv,
            cwd: &stage.project,
            env: &env,
            errors: &errors(stage, number),
            mark: None,
            tie: Tie::Loose,
        };
        let sender = self.sender.clone();
        let mut talk = talk::start(&spec, move |heard| {
            // The receiver is gone once the scenario is over.
            sender
                .send(match heard {
                    Heard::Line(line) => Event::Line(number, line),
                    Heard::End => Event::End(number),
                })
                .ok();
        })?;
        talk.hang_up();
        Ok(talk)
    }

    /// Waits until all runners have exited. Returns the exit code of the first run.
    fn last(&mut self) -> Result<i32, RunnerError> {
        let bound = Deadline::after(LONGEST);
        while self.seats.iter().any(|seat| seat.talk.is_some()) {
            if self.scene.tools.cancel.is_wished() {
                return Err(RunnerError::Cancelled);
            }
            if bound.is_over() {
                return Err(RunnerError::Endless);
            }
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Line(number, line)) => self.told(number, &line),
                Ok(Event::End(number)) => self.ended(number)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.count();
            self.act();
        }
        self.count();
        Ok(self.seats.first().and_then(|seat| seat.code).unwrap_or_default())
    }

    fn told(&mut self, number: usize, line: &[u8]) {
        let Ok(told) = serde_json::from_slice::<Value>(line) else { return };
        if let (Some(run), Some(seat)) = (told["run"].as_str(), self.seats.get_mut(number)) {
            seat.run = Some(run.to_owned());
        }
        (self.watcher)(&Entry::Run { runner: number, told });
    }

    /// Emits new requests and schedules the interventions that they trigger.
    fn count(&mut self) {
        for number in self.model.news() {
            (self.watcher)(&Entry::Request(Request { agent: None, messages: Vec::new() }));
            for Moment { after_ms, act, .. } in
                self.runner.moments.iter().filter(|moment| moment.request == number)
            {
                let deadline = Deadline::after(Duration::from_millis(*after_ms));
                self.due.push((deadline, act.clone()));
            }
        }
    }

    fn act(&mut self) {
        let (due, later) =
            std::mem::take(&mut self.due).into_iter().partition(|(at, _)| at.is_over());
        self.due = later;
        let due: Vec<(Deadline, Act)> = due;
        for (_, act) in due {
            let first = self.seats.first().and_then(|seat| seat.talk.as_ref());
            let Scene { scenario, stage, tools, .. } = self.scene;
            match (act, first) {
                (Act::KillRunner, Some(talk)) => talk.kill(),
                (Act::CtrlC, Some(talk)) => talk.interrupt(),
                (Act::KillAgent, _) => agent::kill(stage),
                (Act::Command(command), _) => {
                    let text = stage::said(&command, scenario, stage, tools);
                    (self.watcher)(&Entry::Prompt { text: format!("$ {command}\n{text}") });
                }
                (Act::KillRunner | Act::CtrlC, None) => {}
            }
        }
    }

    /// Handles the exit of a runner, and resumes the run if the scenario says so.
    fn ended(&mut self, number: usize) -> Result<(), RunnerError> {
        let Some(seat) = self.seats.get_mut(number) else { return Ok(()) };
        let Some(mut talk) = seat.talk.take() else { return Ok(()) };
        let code = talk.wait(Deadline::after(FAREWELL)).map_err(RunnerError::Wait)?;
        let code = code.ok_or(RunnerError::Endless)?;
        seat.code = Some(code);
        self.graves.push(talk);
        let run = seat.run.clone();
        let is_unfinished = code == KILLED || PARKED.contains(&code);
        if is_unfinished && seat.resumes > 0 {
            seat.resumes -= 1;
            // A runner that was killed before the run existed starts again from the beginning.
            let args = match run {
                Some(run) => vec!["--resume".to_owned(), run],
                None => self.runner.args.clone(),
            };
            let talk = self.start(number, &args)?;
            if let Some(seat) = self.seats.get_mut(number) {
                seat.talk = Some(talk);
            }
        } else if run.is_none() {
            let said = complaint(&errors(self.scene.stage, number));
            return Err(RunnerError::Failed { code, said });
        }
        Ok(())
    }
}

fn errors(stage: &Stage, number: usize) -> PathBuf {
    stage.root.join(format!("run-{number}.err"))
}

/// The end of the runner's standard error.
fn complaint(path: &Path) -> String {
    let len = fs::stat(path).map_or(0, |found| found.len);
    let from = len.saturating_sub(LARGEST_ERRORS as u64);
    let said = fs::read_range(path, from, LARGEST_ERRORS).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if said.is_empty() { "no output".to_owned() } else { said.join(" · ") }
}
