//! Plays the person at the client's terminal: types the scenario's input when the client is ready, presses Esc, and
//! reads the screen.

use super::compare::TraceDifference;
use super::tmux::{self, TerminalProgram, TmuxTerminal};
use crate::{disk, shell};
use anyhow::{Context, Result, anyhow, bail, ensure};
use ralph_sim::mismatch::{ExpectationMismatch, ExpectationWatcher};
use ralph_sim::scenario::{
    self, Scenario, ScenarioError, ScenarioPlayer, ScenarioStep, ScreenStep, ShellStep,
    TurnInterrupt, TypedAnswer,
};
use ralph_sim::scratch::{self, ScenarioCommandContext, ScratchProject};
use ralph_sim::script::ModelScript;
use ralph_sim::server::{
    self, ModelEvent, ModelRequest, ModelServer, ModelServerOptions, RequestOrigin, ScriptPace,
};
use ralph_sim::timeline::{TimelineEntry, TimelineRequest};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::proc::cancel::CancelToken;
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Generous, because the machine may be busy.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// From the input to the end of the turn, gates included.
const TURN_TIMEOUT: Duration = Duration::from_mins(1);
/// For a command at the shell, which may drive a whole run.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(3);
const TYPING_TIMEOUT: Duration = Duration::from_secs(20);
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(60);
/// Consecutive idle screens before the client counts as idle, because input takes a moment to arrive.
const IDLE_SCREENS: u32 = 6;
/// Precedes the person's input, and appears nowhere else in the last lines.
const PROMPT: char = '❯';
/// The prompt of the shell, without the space after it.
const SHELL_PROMPT: &str = "$";
const BUSY: &str = "esc to interrupt";
/// Precedes the name of the client's activity, which ends in `…`. With a status line there is no room for `BUSY`.
const SPINNER: [char; 6] = ['·', '✢', '*', '✶', '✻', '✽'];
/// Precedes a running command.
const RUNNING: &str = "Running ";
/// Number of final characters by which the input is recognised, because the line may be wrapped.
const RECOGNISED_CHARACTERS: usize = 12;
/// Number of final characters of an approved API key that the client stores.
const STORED_KEY_CHARACTERS: usize = 20;

pub(super) fn play_at_terminal(
    ralph: &Path,
    client: &Path,
    path: &Path,
) -> Result<Vec<TraceDifference>> {
    let scenario = read_scenario(path)?;
    let only = scenario.only == Some(ScenarioPlayer::Terminal);
    ensure!(only, "this scenario does not say `only = \"terminal\"`");
    let root = tempfile::tempdir().context("cannot make a directory")?;
    let stage = scratch::build(&scenario, root.path())?;
    let cancel = CancelToken::new().context("cannot wait for commands")?;
    let has_shell = scenario.steps.iter().any(|step| matches!(step, ScenarioStep::Shell(_)));
    let mut search_path = search_path(ralph);
    if has_shell {
        search_path = with_client_on_path(client, &stage, &search_path)?;
    }
    let tools =
        ScenarioCommandContext { program: ralph, search_path: &search_path, cancel: &cancel };
    scratch::run_setup(&scenario, &stage, &tools)?;
    answer_first_start(&stage)?;
    let (sender, happened) = mpsc::channel();
    let options = ModelServerOptions {
        port: 0,
        project: stage.project.clone(),
        pace: ScriptPace::Driven,
        // The receiver is gone once the scenario is over.
        observer: Box::new(move |news| sender.send(news).unwrap_or_default()),
    };
    let server = server::serve(ModelScript::new(&scenario), options)?;
    let argv = if has_shell {
        vec!["sh".into(), "-i".into()]
    } else {
        client_arguments(client, &scenario, &stage)
    };
    let env = client_environment(&scenario, &stage, &server, &search_path);
    let program = TerminalProgram { argv: &argv, env: &env, directory: &stage.project };
    let terminal = TmuxTerminal::open(&stage.root, &program)?;
    let mut person = TerminalPerson {
        terminal,
        server,
        happened,
        check: ExpectationWatcher::new(&scenario.expect),
        asked: 0,
        has_shell,
    };
    let has_prompt = scenario.steps.iter().any(|step| matches!(step, ScenarioStep::Person(_)));
    let screen = person.play_steps(&scenario.steps)?;
    if has_prompt {
        person.type_and_submit("/exit")?;
    }
    if has_shell {
        person.exit_shell()?;
    }
    let mut check = person.wait_for_exit()?;
    check.check_screen(&screen);
    check.check_command_output(|command| {
        scratch::command_output(command, &scenario, &stage, &tools)
    });
    let (_, missed) = check.finish(&stage);
    let missed: Vec<_> = missed
        .iter()
        .map(|ExpectationMismatch { what, expected, found }| {
            format!("{what}: expected {expected}, found {found}")
        })
        .collect();
    ensure!(missed.is_empty(), "{}\n{}", missed.join("\n"), tmux::screen_lines(&screen));
    Ok(Vec::new())
}

pub(super) fn read_scenario(path: &Path) -> Result<Scenario> {
    scenario::read(path).map_err(|mistakes| match &mistakes {
        ScenarioError::Invalid(problems) => {
            let messages: Vec<_> = problems.iter().map(|each| each.message.as_str()).collect();
            anyhow!("{mistakes}: {}", messages.join("; "))
        }
        ScenarioError::NotText(_) | ScenarioError::File(_) => mistakes.into(),
    })
}

/// A `PATH` on which `ralph` is this binary.
pub(super) fn search_path(ralph: &Path) -> OsString {
    let mut path = ralph.parent().unwrap_or(Path::new("")).as_os_str().to_owned();
    path.push(":");
    path.push(shell::path_variable());
    path
}

/// The same `PATH` with the client as `claude`, for a shell in which a person types its name.
fn with_client_on_path(
    client: &Path,
    stage: &ScratchProject,
    search_path: &OsString,
) -> Result<OsString> {
    let programs = stage.root.join("programs");
    disk::link_file(client, &programs.join("claude"))?;
    let mut path = programs.into_os_string();
    path.push(":");
    path.push(search_path);
    Ok(path)
}

/// Answers the questions that the client asks at its first start.
fn answer_first_start(stage: &ScratchProject) -> Result<()> {
    let project = stage.project.to_string_lossy();
    let key = server::DUMMY_API_KEY
        .get(server::DUMMY_API_KEY.len().saturating_sub(STORED_KEY_CHARACTERS)..)
        .unwrap_or_default();
    let known = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "bypassPermissionsModeAccepted": true,
        "customApiKeyResponses": {"approved": [key], "rejected": []},
        "projects": {project: {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
    });
    disk::write_file(&stage.home.join(".claude.json"), known.to_string().as_bytes())
}

fn client_arguments(client: &Path, scenario: &Scenario, stage: &ScratchProject) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec![client.into()];
    let mut add = |words: &[&str]| argv.extend(words.iter().map(OsString::from));
    add(&["--permission-mode", "bypassPermissions"]);
    if let Some(session) = &scenario.client.session {
        add(&["--session-id", session]);
    }
    if let Some(model) = &scenario.client.model {
        add(&["--model", model]);
    }
    if let Some(flag) = &stage.flag {
        argv.extend(["--settings".into(), flag.into()]);
    }
    for plugin in &stage.plugins {
        argv.extend(["--plugin-dir".into(), plugin.into()]);
    }
    argv
}

fn client_environment(
    scenario: &Scenario,
    stage: &ScratchProject,
    server: &ModelServer,
    search_path: &OsString,
) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), search_path.clone()),
        ("LANG".into(), "C.UTF-8".into()),
        ("TERM".into(), "xterm-256color".into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".into(), "1".into()),
        ("CLAUDE_CODE_MAX_RETRIES".into(), "0".into()),
        ("IS_SANDBOX".into(), "1".into()),
        ("PS1".into(), format!("{SHELL_PROMPT} ").into()),
    ];
    // Later entries win: a scenario may change the ones above, but not the server.
    env.extend(scenario.env.iter().map(|(name, value)| (name.into(), value.into())));
    env.extend([
        ("HOME".into(), stage.home.clone().into()),
        ("ANTHROPIC_API_KEY".into(), server::DUMMY_API_KEY.into()),
        ("ANTHROPIC_BASE_URL".into(), server.url().into()),
    ]);
    env
}

/// When the next input is typed.
enum InputMoment {
    Beginning,
    AfterTurn,
    Meanwhile,
}

struct TerminalPerson<'a> {
    terminal: TmuxTerminal,
    server: ModelServer,
    happened: Receiver<ModelEvent>,
    check: ExpectationWatcher<'a>,
    /// Number of unanswered requests.
    asked: usize,
    /// Whether the terminal runs a shell.
    has_shell: bool,
}

impl<'a> TerminalPerson<'a> {
    /// Plays the steps and returns the final screen.
    fn play_steps(&mut self, steps: &[ScenarioStep]) -> Result<String> {
        let mut moment = InputMoment::Beginning;
        for step in steps {
            match step {
                ScenarioStep::Person(text) => {
                    match moment {
                        InputMoment::Beginning => {
                            self.wait_until_idle("the input line", START_TIMEOUT)?;
                            self.type_and_submit(text)?;
                        }
                        InputMoment::AfterTurn => {
                            self.wait_until_idle("the end of a turn", TURN_TIMEOUT)?;
                            self.server.next_prompt();
                            self.type_and_submit(text)?;
                        }
                        // Everything until the input arrives belongs to the turn that it interrupts.
                        InputMoment::Meanwhile => {
                            self.type_and_submit(text)?;
                            self.server.next_prompt();
                        }
                    }
                    moment = InputMoment::AfterTurn;
                }
                ScenarioStep::Screen(ScreenStep { text, keys }) => {
                    self.wait_for_text(text)?;
                    for key in keys {
                        self.terminal.press_key(key)?;
                    }
                    // Before the client is started at a shell, the text is that of a command.
                    if !(self.has_shell && matches!(moment, InputMoment::Beginning)) {
                        moment = InputMoment::Meanwhile;
                    }
                }
                ScenarioStep::Agent(turn) => self.interrupt(turn.interrupt)?,
                ScenarioStep::Shell(step) => {
                    ensure!(
                        matches!(moment, InputMoment::Beginning),
                        "a `shell` step comes before the first `person`"
                    );
                    self.type_command(step)?;
                }
                ScenarioStep::Session(_) => bail!("a terminal has one client and no `session`"),
            }
        }
        let is_client_shown = !matches!(moment, InputMoment::Beginning);
        if is_client_shown && matches!(steps.last(), Some(ScenarioStep::Screen(_))) {
            self.terminal.screen()
        } else if matches!(moment, InputMoment::Beginning) {
            self.wait_for_shell(COMMAND_TIMEOUT)
        } else {
            self.wait_until_idle("the end of a turn", TURN_TIMEOUT)
        }
    }

    /// Types a command at the shell and answers its question.
    fn type_command(&mut self, ShellStep { command, answer }: &ShellStep) -> Result<()> {
        self.wait_for_shell(COMMAND_TIMEOUT)?;
        self.terminal.type_text(command)?;
        self.terminal.press_key("Enter")?;
        if let Some(TypedAnswer { question, text }) = answer {
            self.wait_for_text(question)?;
            self.terminal.type_text(text)?;
            self.terminal.press_key("Enter")?;
        }
        Ok(())
    }

    /// Waits until the shell waits for a command and returns the screen.
    fn wait_for_shell(&mut self, wait: Duration) -> Result<String> {
        let Self { terminal, happened, check, asked, .. } = self;
        terminal.wait_until("the shell's prompt", wait, |screen| {
            handle_server_events(happened, check, asked, |_| {});
            screen.trim_end().lines().last() == Some(SHELL_PROMPT)
        })
    }

    /// Exits the shell with the exit code of the last command.
    fn exit_shell(&mut self) -> Result<()> {
        self.wait_for_shell(EXIT_TIMEOUT)?;
        self.terminal.type_text("exit")?;
        self.terminal.press_key("Enter")
    }

    /// Waits until the client is idle and returns the screen.
    fn wait_until_idle(&mut self, what: &str, wait: Duration) -> Result<String> {
        let Self { terminal, happened, check, asked, .. } = self;
        let mut quiet = 0;
        terminal.wait_until(what, wait, |screen| {
            handle_server_events(happened, check, asked, |_| {});
            let waits = *asked == 0 && screen.contains(PROMPT) && !is_busy(screen);
            quiet = if waits { quiet + 1 } else { 0 };
            quiet >= IDLE_SCREENS
        })
    }

    fn wait_for_text(&mut self, text: &str) -> Result<()> {
        let Self { terminal, happened, check, asked, .. } = self;
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let wanted = words(text);
        terminal.wait_until(&format!("{text:?}"), TURN_TIMEOUT, |screen| {
            handle_server_events(happened, check, asked, |_| {});
            words(screen).contains(&wanted)
        })?;
        Ok(())
    }

    fn type_and_submit(&self, text: &str) -> Result<()> {
        let last = text.chars().rev().take(RECOGNISED_CHARACTERS).collect::<Vec<_>>();
        let last: String = last.into_iter().rev().filter(|char| !char.is_whitespace()).collect();
        let is_typed = |screen: &str| {
            let typed = screen.rsplit(PROMPT).next().unwrap_or_default();
            let typed: String = typed.chars().filter(|char| !char.is_whitespace()).collect();
            typed.contains(&last)
        };
        self.terminal.type_text(text)?;
        self.terminal.wait_until("the typed text", TYPING_TIMEOUT, is_typed)?;
        self.terminal.press_key("Enter")?;
        self.terminal
            .wait_until("an empty input line", TYPING_TIMEOUT, |screen| !is_typed(screen))?;
        Ok(())
    }

    fn interrupt(&mut self, interrupt: TurnInterrupt) -> Result<()> {
        let Self { terminal, happened, check, asked, .. } = self;
        let wanted = match interrupt {
            TurnInterrupt::No => return Ok(()),
            TurnInterrupt::Answer => {
                let mut is_due = false;
                terminal.wait_until("a request to the model", TURN_TIMEOUT, |_| {
                    handle_server_events(happened, check, asked, |news| {
                        is_due |= news.origin == RequestOrigin::Main
                            && news.turn.interrupt != TurnInterrupt::No;
                    });
                    is_due
                })?;
                BUSY
            }
            TurnInterrupt::Tools => RUNNING,
        };
        terminal.wait_until(&format!("{wanted:?}"), TURN_TIMEOUT, |screen| {
            handle_server_events(happened, check, asked, |_| {});
            screen.contains(wanted)
        })?;
        terminal.press_key("Escape")
    }

    /// Waits until the program of the terminal exits. If it does not, it is killed with its terminal.
    fn wait_for_exit(mut self) -> Result<ExpectationWatcher<'a>> {
        let deadline = Deadline::after(EXIT_TIMEOUT);
        while !deadline.has_passed() {
            if let Some(code) = self.terminal.exit_code()? {
                self.check.watch(&TimelineEntry::Exit { code });
                break;
            }
            clock::sleep(POLL_INTERVAL);
        }
        Ok(self.check)
    }
}

fn is_busy(screen: &str) -> bool {
    let spins = |line: &str| {
        let mut words = line.split(' ');
        let [first, second] = [words.next(), words.next()].map(Option::unwrap_or_default);
        !first.is_empty() && first.trim_matches(SPINNER).is_empty() && second.ends_with('…')
    };
    screen.contains(BUSY) || screen.lines().any(spins)
}

fn handle_server_events(
    happened: &Receiver<ModelEvent>,
    check: &mut ExpectationWatcher<'_>,
    asked: &mut usize,
    mut look: impl FnMut(&ModelRequest),
) {
    for news in happened.try_iter() {
        match news {
            ModelEvent::Requested(news) => {
                *asked += 1;
                check.watch(&TimelineEntry::Request(TimelineRequest {
                    agent: None,
                    messages: Vec::new(),
                }));
                look(&news);
            }
            ModelEvent::Answered(_) => *asked = asked.saturating_sub(1),
        }
    }
}
