//! Plays a scenario with `ralph run`, which drives the real client with a scripted model, or the fake client. The
//! events that `ralph run` prints form the timeline.
//!
//! ```text
//! scenario ─ scratch ─▶ [ralph plan] ─▶ ralph run ARGS --json ─▶ agent ─▶ the client ─▶ server: the script
//!    │                     ▲        │              └────▶ ralph lab pretend: script and client in one
//!    └─ [[runner.at]] ─────┘        └─▶ timeline
//! ```

mod agent_program;
mod plan_play;
mod random_crashes;
mod request_counter;
mod scenario_trial;

pub use random_crashes::with_random_crashes;
pub use scenario_trial::{ScenarioTrialError, run_trial};

use crate::fake_client::ScriptPositionError;
use crate::real_client;
use crate::scenario::{InterventionAction, RunnerIntervention, Scenario, ScenarioRunner};
use crate::scratch::{self, ScenarioCommandContext, ScratchProject};
use crate::server::ModelServerError;
use crate::timeline::{TimelineEntry, TimelineRequest, TimelineWatcher};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::FileError;
use ralph_sys::proc::line_process::{
    self, LineProcess, LineProcessError, LineProcessOutput, OnParentDeath,
};
use request_counter::RequestCounter;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Timeout of a scenario.
const SCENARIO_TIMEOUT: Duration = Duration::from_mins(10);
/// Maximum delay until a request, an intervention or a cancellation is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Exit code of a killed process, as a shell reports it.
const KILLED_EXIT_CODE: i32 = 137;
/// Exit codes of a runner that left the run to a person: `needs_human`, `rate_limited`, `overridden`, `crashed`,
/// `cancelled`.
const PARKED_EXIT_CODES: [i32; 5] = [5, 8, 9, 10, 130];

#[derive(Debug, thiserror::Error)]
pub enum RunnerPlayError {
    #[error("this scenario has no runner")]
    NoRunner,
    #[error("the run did not end within {} seconds", SCENARIO_TIMEOUT.as_secs())]
    TimedOut,
    #[error("`ralph run` exited with code {code} before the run started: {said}")]
    Failed { code: i32, said: String },
    #[error("`ralph plan` exited with code {code}: {said}")]
    PlanFailed { code: i32, said: String },
    #[error("interrupted")]
    Cancelled,
    #[error("cannot wait for `ralph run`")]
    Wait(#[source] std::io::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Position(#[from] ScriptPositionError),
    #[error(transparent)]
    Server(#[from] ModelServerError),
    #[error(transparent)]
    Talk(#[from] LineProcessError),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunnerPlayOutcome {
    /// Exit code of the first run, or of the plan if no run was started.
    pub code: i32,
    /// Output of `ralph plan`, and of the first `ralph run` if it started no run.
    pub output: String,
    /// Command lines of processes that should have exited.
    pub leftover_processes: Vec<String>,
}

/// Plays the scenario in a scratch project that was just set up. Without a client, the agent is the fake one.
pub fn play(
    scenario: &Scenario,
    stage: &ScratchProject,
    tools: &ScenarioCommandContext<'_>,
    client: Option<&Path>,
    watcher: &mut TimelineWatcher<'_>,
) -> Result<RunnerPlayOutcome, RunnerPlayError> {
    let runner = scenario.runner.as_deref().ok_or(RunnerPlayError::NoRunner)?;
    real_client::seed_client_home(stage)?;
    let model = RequestCounter::start(scenario, stage, client)?;
    agent_program::install_agent(scenario, stage, tools.program, client)?;
    let (sender, events) = mpsc::channel();
    let mut play = RunnerPlay {
        context: RunnerPlayContext { scenario, stage, tools, port: model.port() },
        runner,
        watcher,
        sender,
        events,
        model,
        runs: Vec::new(),
        exited: Vec::new(),
        due: Vec::new(),
        output: String::new(),
    };
    let code = play.play_plan_and_runs()?;
    (play.watcher)(&TimelineEntry::Exit { code });
    Ok(RunnerPlayOutcome {
        code,
        output: play.output,
        leftover_processes: agent_program::leftover_processes(stage),
    })
}

/// Inputs that all runners share.
#[derive(Clone, Copy)]
struct RunnerPlayContext<'a> {
    scenario: &'a Scenario,
    stage: &'a ScratchProject,
    tools: &'a ScenarioCommandContext<'a>,
    port: Option<u16>,
}

struct RunnerPlay<'a, 'b> {
    context: RunnerPlayContext<'a>,
    runner: &'a ScenarioRunner,
    watcher: &'a mut TimelineWatcher<'b>,
    sender: Sender<RunnerPlayEvent>,
    events: Receiver<RunnerPlayEvent>,
    model: RequestCounter,
    runs: Vec<PlayedRun>,
    /// Runners that have exited. They are kept, because dropping one would kill the processes that it left behind,
    /// which must be detected instead.
    exited: Vec<LineProcess>,
    due: Vec<(Deadline, InterventionAction)>,
    /// See [`RunnerPlayOutcome::output`].
    output: String,
}

/// One of the runs.
struct PlayedRun {
    /// `None` after the runner has exited.
    talk: Option<LineProcess>,
    /// The id of the run, once the runner has printed it.
    run_id: Option<String>,
    resumes: u32,
    code: Option<i32>,
}

enum RunnerPlayEvent {
    Line(usize, Vec<u8>),
    End(usize),
}

impl RunnerPlay<'_, '_> {
    /// Returns the exit code of the first run, or of the plan if no run was started.
    fn play_plan_and_runs(&mut self) -> Result<i32, RunnerPlayError> {
        let runner = self.runner;
        if !runner.plan.is_empty() {
            let code = self.make_plan()?;
            if code != 0 || runner.args.is_empty() {
                return Ok(code);
            }
        }
        for args in std::iter::once(&runner.args).chain(&runner.beside) {
            let number = self.runs.len();
            let talk = self.start_runner(number, args)?;
            let resumes = if number == 0 { runner.resumes } else { 0 };
            self.runs.push(PlayedRun { talk: Some(talk), run_id: None, resumes, code: None });
        }
        self.run_to_end()
    }

    fn start_runner(
        &self,
        number: usize,
        words: &[String],
    ) -> Result<LineProcess, RunnerPlayError> {
        self.start_ralph("run", &["--json"], number, words)
    }

    fn start_ralph(
        &self,
        command: &str,
        more: &[&str],
        number: usize,
        words: &[String],
    ) -> Result<LineProcess, RunnerPlayError> {
        let RunnerPlayContext { scenario, stage, tools, port } = self.context;
        let mut argv: Vec<OsString> = vec![tools.program.into(), command.into()];
        let own = words.iter().take_while(|word| *word != "--");
        let flags = words.iter().skip_while(|word| *word != "--");
        argv.extend(own.map(OsString::from));
        argv.extend(["--agent-program".into(), agent_program::agent_path(stage).into()]);
        argv.extend(more.iter().map(OsString::from));
        argv.extend(flags.map(OsString::from));
        let argv: Vec<&OsStr> = argv.iter().map(OsString::as_os_str).collect();
        let env = real_client::client_environment(scenario, &stage.home, tools.search_path, port);
        let env: Vec<_> = env.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
        let spec = line_process::LineProcessSpec {
            argv: &argv,
            cwd: &stage.project,
            env: &env,
            stderr_path: &stderr_path(stage, number),
            mark: None,
            on_parent_death: OnParentDeath::KeepRunning,
        };
        let sender = self.sender.clone();
        let mut talk = line_process::start_line_process(&spec, move |heard| {
            // The receiver is gone once the scenario is over.
            sender
                .send(match heard {
                    LineProcessOutput::Line(line) => RunnerPlayEvent::Line(number, line),
                    LineProcessOutput::End => RunnerPlayEvent::End(number),
                })
                .ok();
        })?;
        talk.close_input();
        Ok(talk)
    }

    /// Waits until all runners have exited. Returns the exit code of the first run.
    fn run_to_end(&mut self) -> Result<i32, RunnerPlayError> {
        let bound = Deadline::after(SCENARIO_TIMEOUT);
        while self.runs.iter().any(|seat| seat.talk.is_some()) {
            if self.context.tools.cancel.is_cancelled() {
                return Err(RunnerPlayError::Cancelled);
            }
            if bound.has_passed() {
                return Err(RunnerPlayError::TimedOut);
            }
            match self.events.recv_timeout(POLL_INTERVAL) {
                Ok(RunnerPlayEvent::Line(number, line)) => self.handle_line(number, &line),
                Ok(RunnerPlayEvent::End(number)) => self.handle_exit(number)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.count_requests()?;
            self.run_due_interventions()?;
        }
        self.count_requests()?;
        Ok(self.runs.first().and_then(|seat| seat.code).unwrap_or_default())
    }

    fn handle_line(&mut self, number: usize, line: &[u8]) {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return };
        if let (Some(run), Some(seat)) = (event["run"].as_str(), self.runs.get_mut(number)) {
            seat.run_id = Some(run.to_owned());
        }
        (self.watcher)(&TimelineEntry::Run { runner: number, told: event });
    }

    /// Emits new requests and schedules the interventions that they trigger.
    fn count_requests(&mut self) -> Result<(), RunnerPlayError> {
        for number in self.model.new_requests()? {
            (self.watcher)(&TimelineEntry::Request(TimelineRequest {
                agent: None,
                messages: Vec::new(),
            }));
            for RunnerIntervention { after_ms, action, .. } in
                self.runner.interventions.iter().filter(|moment| moment.request == number)
            {
                let deadline = Deadline::after(Duration::from_millis(*after_ms));
                self.due.push((deadline, action.clone()));
            }
        }
        Ok(())
    }

    fn run_due_interventions(&mut self) -> Result<(), RunnerPlayError> {
        let (due, later) =
            std::mem::take(&mut self.due).into_iter().partition(|(at, _)| at.has_passed());
        self.due = later;
        let due: Vec<(Deadline, InterventionAction)> = due;
        for (_, action) in due {
            let first = self.runs.first().and_then(|seat| seat.talk.as_ref());
            let RunnerPlayContext { scenario, stage, tools, .. } = self.context;
            match (action, first) {
                (InterventionAction::KillRunner, Some(talk)) => talk.kill(),
                (InterventionAction::CtrlC, Some(talk)) => talk.interrupt(),
                (InterventionAction::KillAgent, _) => agent_program::kill_latest_agent(stage)?,
                (InterventionAction::Command(command), _) => {
                    let text = scratch::command_output(&command, scenario, stage, tools);
                    (self.watcher)(&TimelineEntry::Prompt { text: format!("$ {command}\n{text}") });
                }
                (InterventionAction::KillRunner | InterventionAction::CtrlC, None) => {}
            }
        }
        Ok(())
    }

    /// Handles the exit of a runner, and resumes the run as often as the scenario allows.
    fn handle_exit(&mut self, number: usize) -> Result<(), RunnerPlayError> {
        let Some(seat) = self.runs.get_mut(number) else { return Ok(()) };
        let Some(mut talk) = seat.talk.take() else { return Ok(()) };
        let code = talk.wait(Deadline::after(EXIT_TIMEOUT)).map_err(RunnerPlayError::Wait)?;
        let code = code.ok_or(RunnerPlayError::TimedOut)?;
        seat.code = Some(code);
        self.exited.push(talk);
        let run = seat.run_id.clone();
        let is_unfinished = code == KILLED_EXIT_CODE || PARKED_EXIT_CODES.contains(&code);
        if is_unfinished && seat.resumes > 0 {
            seat.resumes -= 1;
            // A runner that was killed before the run existed starts again from the beginning.
            let args = match run {
                Some(run) => vec!["--resume".to_owned(), run],
                None => self.runner.args.clone(),
            };
            let talk = self.start_runner(number, &args)?;
            if let Some(seat) = self.runs.get_mut(number) {
                seat.talk = Some(talk);
            }
        } else if run.is_none() && number == 0 && self.expects_output() {
            let errors = self.read_stderr(number)?;
            self.add_output("run", &errors);
        } else if run.is_none() {
            let lines = scratch::last_stderr_lines(&stderr_path(self.context.stage, number))?;
            let said = if lines.is_empty() { "no output".to_owned() } else { lines.join(" · ") };
            return Err(RunnerPlayError::Failed { code, said });
        }
        Ok(())
    }
}

fn stderr_path(stage: &ScratchProject, number: usize) -> PathBuf {
    stage.root.join(format!("run-{number}.err"))
}
