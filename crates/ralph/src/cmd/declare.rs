//! `ralph ask`, `ralph wait "…"` and `ralph dispute`: how an agent declares that it cannot go on by itself.

use super::{open_home, run_choice};
use crate::failure::CommandFailure;
use crate::term;
use clap::Args;
use ralph_core::dispute::{NamedRequirement as Meant, find_named};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{Dispute, ReportLine, ReportedStatus, RunChange};
use ralph_core::redact::Redactor;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_core::{text, units};
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun};
use ralph_hook::control::{self, CommandCaller, RunOrSession};
use ralph_hook::phases;
use ralph_hook::project_runs::RunPurpose;
use ralph_hook::resume_session::{self, AgentDeclaration};
use ralph_policy::config;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use serde::Serialize;

const LONGEST_QUESTION: usize = 2_000;
const LONGEST_REASON: usize = 300;
/// A longer wait would amount to the end of the run.
const LONGEST_WAIT_MS: u64 = 12 * 60 * 60 * 1000;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph ask \"should the old format still be read?\"\n  ralph ask --run k7f2 \"what is the staging password?\"\n\nThe run ends as `needs_human` at the next stop, and the person gets the\nquestion."
)]
pub(crate) struct AskArgs {
    /// Ask this question
    #[arg(value_name = "QUESTION", required = true)]
    pub question: Vec<String>,
    /// Name the run or its session [default in an agent's shell: its own]
    #[arg(long, value_name = "RUN|SESSION")]
    pub run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph dispute tests \"one of them wants the year 2025\"\n  ralph dispute \"feature 4\" \"it contradicts feature 2\"\n\nThe requirement stays open until a person has looked at it. Go on with\nthe rest: when nothing else is open, the run ends as `needs_human` with\nyour reason."
)]
pub(crate) struct DisputeArgs {
    /// Name the requirement as in the reason for the hold
    #[arg(value_name = "REQUIREMENT")]
    pub requirement: String,
    /// Describe what is wrong with it
    #[arg(value_name = "WHY", required = true)]
    pub why: Vec<String>,
    /// Name the run or its session [default in an agent's shell: its own]
    #[arg(long, value_name = "RUN|SESSION")]
    pub run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct DeclarationJson<'a> {
    v: u8,
    run: &'a str,
    what: &'static str,
    until: Option<String>,
}

pub(crate) fn ask(env: &Env, args: &AskArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let run = named_or_own_run(env, &home, args.run.as_deref())?;
    let next = record_question(env, &home, &run, &args.question.join(" "))?;
    if args.json {
        super::print_json(&DeclarationJson { v: 1, run: run.as_str(), what: "asks", until: None })?;
    } else {
        term::out(&format!("{}  {next}\n", term::paint(term::BOLD, run.as_str())))?;
    }
    Ok(())
}

/// Records a question of the agent; returns what follows from it.
pub(super) fn record_question(
    env: &Env,
    home: &RalphHome,
    run: &RunId,
    question: &str,
) -> Result<String, CommandFailure> {
    let question = clean_text(env, question, LONGEST_QUESTION);
    if question.is_empty() {
        let hint = "give the question: `ralph ask \"which database should it be?\"`";
        return Err(CommandFailure::new("the question is empty", hint));
    }
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    resume_session::record_declaration(home, run, AgentDeclaration::Asks { question }, &deadline)?;
    let next = format!("stop now; the run ends as `needs_human`{}", notified_suffix(home));
    Ok(format!("asks a person; {next}"))
}

/// Whether the person learns of it at once, or when they look.
fn notified_suffix(home: &RalphHome) -> &'static str {
    match config::load_notify(home) {
        Ok(settings) if settings.channels.is_empty() => "",
        Ok(settings) if settings.statuses.contains(&RunStatus::NeedsHuman) => {
            " and the person is notified"
        }
        Ok(_) | Err(_) => "",
    }
}

/// A wait for something external.
pub(super) struct DeclaredWait<'a> {
    pub(super) run: Option<&'a str>,
    pub(super) why: &'a str,
    pub(super) duration_ms: u64,
    pub(super) json: bool,
}

pub(super) fn declare_wait(env: &Env, wait: &DeclaredWait<'_>) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let run = named_or_own_run(env, &home, wait.run)?;
    if wait.duration_ms == 0 || wait.duration_ms > LONGEST_WAIT_MS {
        let what = format!(
            "a wait takes at most {}, and more than 0",
            units::format_duration(LONGEST_WAIT_MS)
        );
        return Err(CommandFailure::new(
            &what,
            "if only a person can decide, run `ralph ask \"…\"`",
        ));
    }
    let why = clean_text(env, wait.why, LONGEST_REASON);
    if why.is_empty() {
        let hint = "describe what you are waiting for: `ralph wait \"the deployment is under way\" --for 20m`";
        return Err(CommandFailure::new("no reason given", hint));
    }
    let until_ms = clock::now_ms().saturating_add(wait.duration_ms);
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    resume_session::record_declaration(
        &home,
        &run,
        AgentDeclaration::Waits { until_ms, why },
        &deadline,
    )?;
    let until = clock::format_rfc3339(until_ms);
    if wait.json {
        let until = Some(until);
        super::print_json(&DeclarationJson { v: 1, run: run.as_str(), what: "waits", until })?;
    } else {
        let span = units::format_duration(wait.duration_ms);
        let name = term::paint(term::BOLD, run.as_str());
        term::out(&format!(
            "{name}  waits for {span}; until then stops are allowed and not counted\n"
        ))?;
    }
    Ok(())
}

pub(crate) fn dispute(env: &Env, args: &DisputeArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let run = named_or_own_run(env, &home, args.run.as_deref())?;
    let next = record_dispute(env, &home, &run, &args.requirement, &args.why.join(" "))?;
    if args.json {
        let what = "disputes";
        super::print_json(&DeclarationJson { v: 1, run: run.as_str(), what, until: None })?;
    } else {
        term::out(&format!("{}  {next}\n", term::paint(term::BOLD, run.as_str())))?;
    }
    Ok(())
}

/// Records a dispute of the agent; returns what follows from it.
pub(super) fn record_dispute(
    env: &Env,
    home: &RalphHome,
    run: &RunId,
    requirement: &str,
    why: &str,
) -> Result<String, CommandFailure> {
    let why = clean_text(env, why, LONGEST_REASON);
    if why.is_empty() {
        let hint =
            "describe what is wrong: `ralph dispute tests \"one of them wants the year 2025\"`";
        return Err(CommandFailure::new("no reason given", hint));
    }
    let opened = store::load_run(home, run)?;
    let requirement = disputable_name(requirement, &opened)?;
    refuse_early_dispute(&requirement, &opened)?;
    let is_disputed = |line: &ReportLine| {
        line.name == requirement
            || opened.state.disputes.iter().any(|one| one.requirement == line.name)
    };
    let report = opened.state.report.as_ref();
    let mut open = report.iter().flat_map(|report| &report.lines);
    let is_work = |line: &ReportLine| {
        matches!(line.standing, ReportedStatus::Unmet | ReportedStatus::Unknown)
    };
    let rest = open.any(|line| is_work(line) && !is_disputed(line));
    let next = if rest {
        "a person will look at it; go on with the rest".to_string()
    } else {
        let notified = notified_suffix(home);
        format!("nothing else is open, so stop: the run ends as `needs_human`{notified}")
    };
    let dispute = Dispute { requirement: requirement.clone(), why };
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    let declaration = AgentDeclaration::Disputes(dispute);
    resume_session::record_declaration(home, run, declaration, &deadline)?;
    Ok(format!("disputes {requirement}; {next}"))
}

/// A dispute about a judge is about its findings. Made before there are any, it would stand against findings that the agent
/// has not seen.
fn refuse_early_dispute(requirement: &str, opened: &LoadedRun) -> Result<(), CommandFailure> {
    let seal = opened.run.seal.as_ref();
    let is_judge =
        seal.is_some_and(|seal| seal.policy.judges.iter().any(|judge| judge.name == requirement));
    if !is_judge || opened.state.judges.has_raised(requirement) {
        return Ok(());
    }
    let what = format!("the judge {requirement} has raised nothing yet");
    let hint = "a dispute is about findings; if only a person can decide, run `ralph ask \"…\"`";
    Err(CommandFailure::new(&what, hint))
}

/// The full name of an open requirement in the last report: only a requirement that holds the agent can be disputed.
fn disputable_name(name: &str, opened: &LoadedRun) -> Result<String, CommandFailure> {
    let shown = text::clean_line(name, 120);
    let Some(report) = &opened.state.report else {
        let hint = "stop first: the reason names what is not met";
        return Err(CommandFailure::new(
            "nothing was measured yet, so there is nothing to dispute",
            hint,
        ));
    };
    let names = || {
        let open = report.lines.iter().filter(|line| line.standing != ReportedStatus::Advisory);
        let names: Vec<_> = open.map(|line| format!("`{}`", line.name)).take(8).collect();
        if names.is_empty() {
            return "at the last stop everything was met".to_string();
        }
        format!("at the last stop these were open: {}", names.join(", "))
    };
    match find_named(name, report) {
        Meant::Open(name) => Ok(name),
        Meant::Unlisted => Ok(shown),
        Meant::Met(name) => {
            Err(CommandFailure::new(&format!("`{name}` was met at the last stop"), &names()))
        }
        Meant::Advisory(name) => Err(CommandFailure::new(
            &format!("`{name}` is advisory: it never blocks a stop"),
            &names(),
        )),
        Meant::NotFound(near) => Err(CommandFailure::new(
            &format!("there is no requirement `{shown}`"),
            &near.map_or_else(names, |near| format!("did you mean `{near}`?")),
        )),
    }
}

/// Removes control characters and secrets from text that is recorded and shown to people.
pub(super) fn clean_text(env: &Env, words: &str, most: usize) -> String {
    let clean = text::truncate(text::clean(words).trim(), most);
    Redactor::new(env.secrets()).redact(&clean)
}

/// Records an action of the agent in the journal of its run. Does nothing if the run has ended.
pub(super) fn record_action(
    home: &RalphHome,
    run: &RunId,
    done: RunChange,
) -> Result<(), CommandFailure> {
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    match phases::record_event(home, run, done, &deadline) {
        Ok(()) | Err(control::ControlError::HasEnded { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The hint names the active run of the project, if there is exactly one.
fn no_run_given(env: &Env, home: &RalphHome) -> CommandFailure {
    let is_active = |run: &RunId| {
        store::load_run(home, run)
            .is_ok_and(|opened| !matches!(opened.state.phase, RunPhase::Ended(_)))
    };
    let found = run_choice::find_project_run(env, home, RunPurpose::Steer).ok().flatten();
    let named = found.filter(is_active);
    let named = named.as_ref().map_or("RUN", RunId::as_str);
    let hint = format!("give `--run {named}`; only an agent's shell has a default");
    CommandFailure::new("no run given", &hint)
}

/// The named run, or the run of the session whose shell this is.
pub(super) fn named_or_own_run(
    env: &Env,
    home: &RalphHome,
    name: Option<&str>,
) -> Result<RunId, CommandFailure> {
    let own = host_env::host_session(env);
    let name = name.or(own.as_deref()).ok_or_else(|| no_run_given(env, home))?;
    match control::resolve_name(home, name) {
        Ok(RunOrSession::Run(run)) => {
            let opened = store::load_run(home, &run)?;
            let owner = opened.state.owner(&opened.run).map(SessionId::as_str);
            if super::identify_caller(env) != CommandCaller::Person && owner != own.as_deref() {
                let hint = "an agent can act only for its own session";
                return Err(CommandFailure::new("that run holds another session", hint));
            }
            Ok(run)
        }
        Ok(RunOrSession::Session(_)) | Err(control::ControlError::UnknownName(_))
            if Some(name) == own.as_deref() =>
        {
            let hint = "you may stop freely; `ralph status` lists the runs";
            Err(CommandFailure::new("no run holds this session", hint))
        }
        Ok(RunOrSession::Session(session)) => Err(super::run_choice::unowned_session(&session)),
        Err(error) => Err(error.into()),
    }
}
