//! `ralph ask` and `ralph wait`: an agent's honest ways out.

use super::home;
use crate::cli::{Ask, Wait};
use crate::report::Failure;
use crate::term;
use ralph_core::id::{RunId, SessionId};
use ralph_core::redact::Redactor;
use ralph_core::{limits, text};
use ralph_exec::clock::{self, Deadline};
use ralph_exec::control::{self, Declaration, Named};
use ralph_exec::env::Env;
use ralph_exec::paths::Home;
use serde::Serialize;

const LONGEST_QUESTION: usize = 2_000;
const LONGEST_REASON: usize = 300;
/// A wait that is longer is not a wait but an end.
const LONGEST_WAIT_MS: u64 = 12 * 60 * 60 * 1000;

#[derive(Serialize)]
struct Declared<'a> {
    v: u8,
    run: &'a str,
    what: &'static str,
    until: Option<String>,
}

pub(crate) fn ask(env: &Env, args: &Ask) -> Result<(), Failure> {
    let home = home(env)?;
    let run = run_of(env, &home, args.run.as_deref())?;
    let question = said(env, &args.question.join(" "), LONGEST_QUESTION);
    if question.is_empty() {
        let hint = "say what a person has to decide: `ralph ask \"which database shall it be?\"`";
        return Err(Failure::new("the question is empty", hint));
    }
    let deadline = Deadline::after(super::control::PATIENCE);
    control::declare(&home, &run, Declaration::Asks { question }, &deadline)?;
    if args.json {
        super::print_json(&Declared { v: 1, run: run.as_str(), what: "asks", until: None })?;
    } else {
        let next = "stop now; the run ends as `needs_human` and the person is told";
        term::out(&format!("{}  asks a person; {next}\n", term::paint(term::BOLD, run.as_str())))?;
    }
    Ok(())
}

pub(crate) fn wait(env: &Env, args: &Wait) -> Result<(), Failure> {
    let home = home(env)?;
    let run = run_of(env, &home, args.run.as_deref())?;
    if args.duration == 0 || args.duration > LONGEST_WAIT_MS {
        let what = format!("a wait is at most {} long", limits::duration(LONGEST_WAIT_MS));
        return Err(Failure::new(&what, "if only a person can go on, `ralph ask \"…\"`"));
    }
    let why = said(env, &args.why.join(" "), LONGEST_REASON);
    if why.is_empty() {
        let hint = "say what for: `ralph wait 20m \"the deployment is under way\"`";
        return Err(Failure::new("it is not said what for", hint));
    }
    let until_ms = clock::now_ms().saturating_add(args.duration);
    let deadline = Deadline::after(super::control::PATIENCE);
    control::declare(&home, &run, Declaration::Waits { until_ms, why }, &deadline)?;
    let until = clock::rfc3339(until_ms);
    if args.json {
        let until = Some(until);
        super::print_json(&Declared { v: 1, run: run.as_str(), what: "waits", until })?;
    } else {
        let span = limits::duration(args.duration);
        let name = term::paint(term::BOLD, run.as_str());
        term::out(&format!("{name}  waits for {span}; a stop until then is let go, uncharged\n"))?;
    }
    Ok(())
}

/// It is kept and shown to people, so it is cleaned here once and for all.
fn said(env: &Env, words: &str, most: usize) -> String {
    let clean = text::cut(text::clean(words).trim(), most);
    Redactor::new(env.secrets()).redact(&clean)
}

/// The run that was named, or that of the session whose shell this is.
fn run_of(env: &Env, home: &Home, name: Option<&str>) -> Result<RunId, Failure> {
    let own = env.claude_session();
    let hint = "inside an agent's shell it is known; elsewhere give `--run RUN`";
    let name = name
        .or(own.as_deref())
        .ok_or_else(|| Failure::new("it is not said for which run", hint))?;
    match control::named(home, name) {
        Ok(Named::Run(run)) => Ok(run),
        Ok(Named::Session(_)) | Err(control::ControlError::Unknown(_))
            if SessionId::parse(name).is_some() =>
        {
            let hint = "you may stop freely; `ralph status` shows the runs there are";
            Err(Failure::new("no run holds this session", hint))
        }
        Ok(Named::Session(_)) => Err(Failure::new("no run has that name", hint)),
        Err(error) => Err(error.into()),
    }
}
