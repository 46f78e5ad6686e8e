//! Plays the person at the client's terminal: types the scenario's input when the client is ready, presses Esc, and
//! reads the screen.

use super::compare::Difference;
use super::tmux::{self, Program, Terminal};
use crate::{disk, shell};
use anyhow::{Context, Result, anyhow, bail, ensure};
use ralph_sim::check::{Check, Mismatch};
use ralph_sim::scenario::{self, Interrupt, Mistakes, Player, Scenario, Step};
use ralph_sim::script::Script;
use ralph_sim::server::{self, Asked, Happened, Options, Pace, Server, Who};
use ralph_sim::stage::{self, Stage, Tools};
use ralph_sim::timeline::{Entry, Request};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::proc::cancel::Cancel;
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Generous, because the machine may be busy.
const BEGINNING: Duration = Duration::from_mins(1);
/// From the input to the end of the turn, gates included.
const TURN: Duration = Duration::from_mins(1);
const TYPING: Duration = Duration::from_secs(20);
const FAREWELL: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(60);
/// Consecutive idle screens before the client counts as idle, because input takes a moment to arrive.
const QUIET: u32 = 6;
/// Precedes the person's input, and appears nowhere else in the last lines.
const PROMPT: char = '❯';
const BUSY: &str = "esc to interrupt";
/// Precedes the name of the client's activity, which ends in `…`. With a status line there is no room for `BUSY`.
const SPINNER: [char; 6] = ['·', '✢', '*', '✶', '✻', '✽'];
/// Precedes a running command.
const RUNNING: &str = "Running ";
/// Number of final characters by which the input is recognised, because the line may be wrapped.
const TAIL: usize = 12;
/// Number of final characters of an approved API key that the client stores.
const KNOWN: usize = 20;

pub(super) fn play(ralph: &Path, client: &Path, path: &Path) -> Result<Vec<Difference>> {
    let scenario = read(path)?;
    let only = scenario.only == Some(Player::Terminal);
    ensure!(only, "this scenario does not say `only = \"terminal\"`");
    let root = tempfile::tempdir().context("cannot make a directory")?;
    let stage = stage::build(&scenario, root.path())?;
    let cancel = Cancel::new().context("cannot wait for commands")?;
    let search_path = search_path(ralph);
    let tools = Tools { program: ralph, search_path: &search_path, cancel: &cancel };
    stage::set_up(&scenario, &stage, &tools)?;
    seed(&stage)?;
    let (sender, happened) = mpsc::channel();
    let options = Options {
        port: 0,
        project: stage.project.clone(),
        pace: Pace::Driven,
        // The receiver is gone once the scenario is over.
        observer: Box::new(move |news| sender.send(news).unwrap_or_default()),
    };
    let server = server::serve(Script::new(&scenario), options)?;
    let argv = arguments(client, &scenario, &stage);
    let env = environment(&scenario, &stage, &server, &search_path);
    let program = Program { argv: &argv, env: &env, directory: &stage.project };
    let terminal = Terminal::open(&stage.root, &program)?;
    let mut person =
        Person { terminal, server, happened, check: Check::new(&scenario.expect), asked: 0 };
    let screen = person.steps(&scenario.steps)?;
    let mut check = person.leave()?;
    check.see(&screen);
    check.ask(|command| stage::said(command, &scenario, &stage, &tools));
    let (_, missed) = check.finish(&stage);
    let missed: Vec<_> = missed
        .iter()
        .map(|Mismatch { what, expected, found }| {
            format!("{what}: expected {expected}, found {found}")
        })
        .collect();
    ensure!(missed.is_empty(), "{}\n{}", missed.join("\n"), tmux::lines(&screen));
    Ok(Vec::new())
}

pub(super) fn read(path: &Path) -> Result<Scenario> {
    scenario::read(path).map_err(|mistakes| match &mistakes {
        Mistakes::Found(problems) => {
            let messages: Vec<_> = problems.iter().map(|each| each.message.as_str()).collect();
            anyhow!("{mistakes}: {}", messages.join("; "))
        }
        Mistakes::NotText(_) | Mistakes::File(_) => mistakes.into(),
    })
}

/// A `PATH` on which `ralph` is this binary.
pub(super) fn search_path(ralph: &Path) -> OsString {
    let mut path = ralph.parent().unwrap_or(Path::new("")).as_os_str().to_owned();
    path.push(":");
    path.push(shell::path_variable());
    path
}

/// Answers the questions that the client asks at its first start.
fn seed(stage: &Stage) -> Result<()> {
    let project = stage.project.to_string_lossy();
    let key = server::KEY.get(server::KEY.len().saturating_sub(KNOWN)..).unwrap_or_default();
    let known = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "bypassPermissionsModeAccepted": true,
        "customApiKeyResponses": {"approved": [key], "rejected": []},
        "projects": {project: {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
    });
    disk::write_here(&stage.home.join(".claude.json"), known.to_string().as_bytes())
}

fn arguments(client: &Path, scenario: &Scenario, stage: &Stage) -> Vec<OsString> {
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

fn environment(
    scenario: &Scenario,
    stage: &Stage,
    server: &Server,
    search_path: &OsString,
) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), search_path.clone()),
        ("LANG".into(), "C.UTF-8".into()),
        ("TERM".into(), "xterm-256color".into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".into(), "1".into()),
        ("CLAUDE_CODE_MAX_RETRIES".into(), "0".into()),
        ("IS_SANDBOX".into(), "1".into()),
    ];
    // Later entries win: a scenario may change the ones above, but not the server.
    env.extend(scenario.env.iter().map(|(name, value)| (name.into(), value.into())));
    env.extend([
        ("HOME".into(), stage.home.clone().into()),
        ("ANTHROPIC_API_KEY".into(), server::KEY.into()),
        ("ANTHROPIC_BASE_URL".into(), server.url().into()),
    ]);
    env
}

/// When the next input is typed.
enum Moment {
    Beginning,
    AfterTurn,
    Meanwhile,
}

struct Person<'a> {
    terminal: Terminal,
    server: Server,
    happened: Receiver<Happened>,
    check: Check<'a>,
    /// Number of unanswered requests.
    asked: usize,
}

impl<'a> Person<'a> {
    /// Plays the steps and returns the final screen.
    fn steps(&mut self, steps: &[Step]) -> Result<String> {
        self.idle("the input line", BEGINNING)?;
        let mut moment = Moment::Beginning;
        for step in steps {
            match step {
                Step::Person(text) => {
                    match moment {
                        Moment::Beginning => self.enter(text)?,
                        Moment::AfterTurn => {
                            self.idle("the end of a turn", TURN)?;
                            self.server.next_prompt();
                            self.enter(text)?;
                        }
                        // Everything until the input arrives belongs to the turn that it interrupts.
                        Moment::Meanwhile => {
                            self.enter(text)?;
                            self.server.next_prompt();
                        }
                    }
                    moment = Moment::AfterTurn;
                }
                Step::Screen(text) => {
                    self.shown(text)?;
                    moment = Moment::Meanwhile;
                }
                Step::Agent(turn) => self.interrupt(turn.interrupt)?,
                Step::Session(_) => bail!("a terminal has one client and no `session`"),
            }
        }
        let last = matches!(steps.last(), Some(Step::Screen(_)));
        if last { self.terminal.screen() } else { self.idle("the end of a turn", TURN) }
    }

    /// Waits until the client is idle and returns the screen.
    fn idle(&mut self, what: &str, wait: Duration) -> Result<String> {
        let Self { terminal, happened, check, asked, .. } = self;
        let mut quiet = 0;
        terminal.until(what, wait, |screen| {
            hear(happened, check, asked, |_| {});
            let waits = *asked == 0 && screen.contains(PROMPT) && !is_busy(screen);
            quiet = if waits { quiet + 1 } else { 0 };
            quiet >= QUIET
        })
    }

    fn shown(&mut self, text: &str) -> Result<()> {
        let Self { terminal, happened, check, asked, .. } = self;
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let wanted = words(text);
        terminal.until(&format!("{text:?}"), TURN, |screen| {
            hear(happened, check, asked, |_| {});
            words(screen).contains(&wanted)
        })?;
        Ok(())
    }

    fn enter(&self, text: &str) -> Result<()> {
        let last = text.chars().rev().take(TAIL).collect::<Vec<_>>();
        let last: String = last.into_iter().rev().filter(|char| !char.is_whitespace()).collect();
        let is_typed = |screen: &str| {
            let typed = screen.rsplit(PROMPT).next().unwrap_or_default();
            let typed: String = typed.chars().filter(|char| !char.is_whitespace()).collect();
            typed.contains(&last)
        };
        self.terminal.write(text)?;
        self.terminal.until("the typed text", TYPING, is_typed)?;
        self.terminal.press("Enter")?;
        self.terminal.until("an empty input line", TYPING, |screen| !is_typed(screen))?;
        Ok(())
    }

    fn interrupt(&mut self, interrupt: Interrupt) -> Result<()> {
        let Self { terminal, happened, check, asked, .. } = self;
        let wanted = match interrupt {
            Interrupt::No => return Ok(()),
            Interrupt::Answer => {
                let mut is_due = false;
                terminal.until("a request to the model", TURN, |_| {
                    hear(happened, check, asked, |news| {
                        is_due |= news.who == Who::Main && news.turn.interrupt != Interrupt::No;
                    });
                    is_due
                })?;
                BUSY
            }
            Interrupt::Tools => RUNNING,
        };
        terminal.until(&format!("{wanted:?}"), TURN, |screen| {
            hear(happened, check, asked, |_| {});
            screen.contains(wanted)
        })?;
        terminal.press("Escape")
    }

    /// Exits the client. If it does not exit by itself, it is killed with its terminal.
    fn leave(mut self) -> Result<Check<'a>> {
        self.enter("/exit")?;
        let deadline = Deadline::after(FAREWELL);
        while !deadline.is_over() {
            if let Some(code) = self.terminal.ended()? {
                self.check.watch(&Entry::Exit { code });
                break;
            }
            clock::pause(LOOK);
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

fn hear(
    happened: &Receiver<Happened>,
    check: &mut Check<'_>,
    asked: &mut usize,
    mut look: impl FnMut(&Asked),
) {
    for news in happened.try_iter() {
        match news {
            Happened::Asked(news) => {
                *asked += 1;
                check.watch(&Entry::Request(Request { agent: None, messages: Vec::new() }));
                look(&news);
            }
            Happened::Answered(_) => *asked = asked.saturating_sub(1),
        }
    }
}
