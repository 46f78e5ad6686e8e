//! Carries out the `/ralph:…` commands that a person types in a session. They do what the commands of the same name
//! do in a terminal, and return their text as the answer to the prompt.

use crate::cmd::{adjust, run_choice, start, status, tell, verify, why};
use crate::failure::CommandFailure;
use crate::term;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::LimitOverrides;
use ralph_core::run_terms::RunTerms;
use ralph_core::slash_command::{SlashCommand, WaiveCommand};
use ralph_core::verdict::Verdict;
use ralph_home::host_env;
use ralph_home::store;
use ralph_home::world::World;
use ralph_hook::adjustments::{RunAdjustment, person_name};
use ralph_hook::approvals::{self, ApprovalTarget, RunApproval};
use ralph_hook::control::{self, CommandCaller, RunOrSession, RunRequest, StartPrompt, StartedRun};
use ralph_hook::overview;
use ralph_hook::phases;
use ralph_hook::project_memory;
use ralph_hook::prompts::{self, CommandRequest};
use ralph_hook::resume_session;
use ralph_sys::clock::Deadline;
use std::path::PathBuf;

/// How many decisions `/ralph:why` shows: about as many as fit below a prompt.
const SHOWN_DECISIONS: usize = 5;

pub(crate) fn run_prompt_command(world: &World, request: &CommandRequest<'_>) -> Verdict {
    // The host shows the answer, not a terminal.
    term::use_plain_text();
    let done = match &request.typed {
        SlashCommand::Start(terms) => start_run(world, request, terms),
        SlashCommand::Status => status(world, request).map(|text| text_answer(&text)),
        SlashCommand::Why => why(world, request).map(|text| text_answer(&text)),
        SlashCommand::Verify => verify(world, request).map(|text| text_answer(&text)),
        SlashCommand::Pause => pause(world, request).map(|text| text_answer(&text)),
        SlashCommand::Resume(name) => resume(world, request, name.as_deref()),
        SlashCommand::Cancel => cancel(world, request).map(|text| text_answer(&text)),
        SlashCommand::Off => switch_off(world, request).map(|text| text_answer(&text)),
        SlashCommand::On => switch_on(world, request).map(|text| text_answer(&text)),
        SlashCommand::Ask | SlashCommand::Plan => Ok(Verdict::Allow),
        SlashCommand::Approve => approve(world, request),
        SlashCommand::Tell(text) => tell(world, request, text).map(|text| text_answer(&text)),
        SlashCommand::Waive(wish) => waive(world, request, wish).map(|text| text_answer(&text)),
        SlashCommand::Limits(overrides) => {
            limits(world, request, overrides).map(|text| text_answer(&text))
        }
    };
    done.unwrap_or_else(|failure| text_answer(&format!("ralph: {}", failure.to_plain_text())))
}

fn text_answer(text: &str) -> Verdict {
    Verdict::AnswerPrompt { text: text.trim_end().to_string() }
}

fn start_run(
    world: &World,
    request: &CommandRequest<'_>,
    terms: &RunTerms,
) -> Result<Verdict, CommandFailure> {
    let project = project_dir(world, request)?;
    if let Some(run) = &request.run
        && control::is_untouched(&world.home, run)?
    {
        // The person withdrew the prompt before its first answer and sends it again.
        release(world, &RunOrSession::Run(run.clone()))?;
    }
    let prompt = StartPrompt {
        id: request.prompt.id.clone(),
        transcript_length: prompts::transcript_length(request.prompt),
    };
    let run_request = RunRequest {
        prompt: Some(prompt),
        ..RunRequest::new(request.session.clone(), project, terms.clone())
    };
    match control::start_run(world, run_request) {
        Ok(started) => Ok(started_answer(world, request.session, &started)),
        // The hook is registered twice, and the other process started the run first.
        Err(_) if prompts::is_duplicate_start(world, request) => Ok(Verdict::Allow),
        Err(error) => Err(error.into()),
    }
}

fn started_answer(world: &World, session: &SessionId, started: &StartedRun) -> Verdict {
    let run = &started.run;
    let phases = if run.phases {
        let path = phases::view_path(&world.home, session);
        format!(
            "The work goes in phases: `ralph orchestrator show` lists what is missing and who does it. Report what you have done \
             with `ralph orchestrator set …` or in `{}`. The person approves the plan with `/ralph:approve`.\n",
            path.display()
        )
    } else {
        String::new()
    };
    let line = |(label, value): (&str, String)| format!("{label:<7} {value}").trim().to_string();
    let terms = start::contract_lines(started).into_iter().map(line).collect::<Vec<_>>().join("\n");
    let context = format!(
        "ralph holds this session from now on (run {}): you can stop when it finds the work done in the current tree, \
         not when you say so.\n{terms}\n{phases}\
         Work on what the person asked for. If only a person can decide something, run `ralph ask \"…\"` and stop; \
         to wait for something outside, run `ralph wait \"…\" --for 20m` and stop; if a requirement is wrong, run \
         `ralph dispute REQUIREMENT \"…\"` and go on with the rest. `ralph status` shows the state of the run.\n",
        run.id,
    );
    let memory = project_memory::start_memory(world, run);
    let context = memory.map(|memory| format!("{context}\n{memory}")).unwrap_or(context);
    let title = if run.title.is_empty() { String::new() } else { format!(": {}", run.title) };
    let mut notice = format!("ralph: run {} holds this session{title}\n{terms}\n", run.id);
    for note in &started.notes {
        notice.push_str(&format!("note: {}\n", start::note_text(note)));
    }
    notice.push_str("`/ralph:status` shows its state, `/ralph:cancel` ends it");
    Verdict::AddContext { context, notice: Some(notice) }
}

fn project_dir(world: &World, request: &CommandRequest<'_>) -> Result<PathBuf, CommandFailure> {
    let cwd = request.prompt.cwd.as_deref().map(PathBuf::from);
    let found = host_env::host_project_dir(&world.env).or(cwd).filter(|path| path.is_absolute());
    let found = found.ok_or_else(|| {
        CommandFailure::new(
            "cannot determine the project directory",
            "start the client in the project directory",
        )
    })?;
    Ok(control::resolve_directory(&found, &found)?)
}

fn status(world: &World, request: &CommandRequest<'_>) -> Result<String, CommandFailure> {
    match last_run(world, request)? {
        Some(run) => status::render_run(&world.home, &run),
        None => Ok(no_run_text()),
    }
}

fn why(world: &World, request: &CommandRequest<'_>) -> Result<String, CommandFailure> {
    match last_run(world, request)? {
        Some(run) => {
            let history = overview::run_history(&world.home, &run)?;
            Ok(why::render_history(&history, SHOWN_DECISIONS))
        }
        None => Ok(no_run_text()),
    }
}

fn verify(world: &World, request: &CommandRequest<'_>) -> Result<String, CommandFailure> {
    let run = match &request.run {
        Some(run) => Some(run.clone()),
        // The gates of the project judge a session without a run.
        None => last_run(world, request)?.filter(RunId::is_of_session),
    };
    if run.is_none()
        && let Some(offer) = verify::offer_gates(&world.env, &world.home)?
    {
        return Ok(offer);
    }
    verify::render_verification(world, request.session, run.as_ref())
}

fn pause(world: &World, request: &CommandRequest<'_>) -> Result<String, CommandFailure> {
    let run = held_run(request)?;
    let (by, deadline) = (person_name(&world.env), world.step_deadline());
    match control::pause_run(&session_adjustment(world, run, &by, &deadline)) {
        // A hook that is registered twice pauses twice.
        Ok(()) | Err(control::ControlError::NothingToDo { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(format!("ralph: run {run} is paused; `/ralph:resume` holds the agent again"))
}

fn resume(
    world: &World,
    request: &CommandRequest<'_>,
    name: Option<&str>,
) -> Result<Verdict, CommandFailure> {
    let run = match (name, &request.run) {
        (Some(name), _) => match control::resolve_name(&world.home, name)? {
            RunOrSession::Run(run) => run,
            RunOrSession::Session(session) => return Err(run_choice::unowned_session(&session)),
        },
        (None, Some(run)) => run.clone(),
        (None, None) => {
            resume_session::find_resumable_run(&world.home, &project_dir(world, request)?)?
        }
    };
    match resume_session::resume_in_session(world, &run, request) {
        Ok(()) | Err(control::ControlError::NothingToDo { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(text_answer(&format!(
        "ralph: run {run} holds this session again from the next stop on; now tell the agent what to do\n{}",
        status::render_run(&world.home, &run)?
    )))
}

fn cancel(world: &World, request: &CommandRequest<'_>) -> Result<String, CommandFailure> {
    let run = held_run(request)?;
    release(world, &RunOrSession::Run(run.clone()))?;
    Ok(format!("ralph: run {run} is cancelled; the session is free, and nothing was deleted"))
}

fn release(world: &World, named: &RunOrSession) -> Result<(), CommandFailure> {
    let (caller, by) = (CommandCaller::Session, person_name(&world.env));
    let deadline = world.step_deadline();
    Ok(control::cancel_run_or_session(&world.home, named, caller, &by, &deadline)?)
}

fn switch_off(world: &World, request: &CommandRequest<'_>) -> Result<String, CommandFailure> {
    if let Some(run) = &request.run {
        return Err(CommandFailure::new(
            &format!("run {run} holds this session, not only the gates of the project"),
            "type `/ralph:cancel` to end the run",
        ));
    }
    release(world, &RunOrSession::Session(request.session.clone()))?;
    Ok("ralph: the gates no longer hold this session; `/ralph:on` turns them on again".to_string())
}

fn switch_on(world: &World, request: &CommandRequest<'_>) -> Result<String, CommandFailure> {
    control::readmit_session(&world.home, request.session)?;
    Ok("ralph: from the next prompt on, the gates hold this session if the project's policy says so \
        (`[session] gates`)"
        .to_string())
}

/// Approves the plan, or whatever else waits for a person, and reports it to the agent too, because the agent waits for it.
fn approve(world: &World, request: &CommandRequest<'_>) -> Result<Verdict, CommandFailure> {
    let run = held_run(request)?;
    let waiting = approvals::due_approvals(&store::load_run(&world.home, run)?);
    if waiting.is_empty() {
        // Reports why there is no plan to approve.
        phases::approve_plan(&world.home, run, CommandCaller::Session, &world.step_deadline())?;
    }
    for one in &waiting {
        let (by, caller) = ("a person, in the session", CommandCaller::Session);
        let deadline = world.step_deadline();
        approvals::record_approval(&world.home, run, &one.target, by, caller, &deadline)?;
    }
    let is_plan = |one: &RunApproval| one.target == ApprovalTarget::Plan;
    let what = if waiting.iter().all(is_plan) {
        "the plan".to_string()
    } else {
        waiting.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let verb = if waiting.len() > 1 { "are" } else { "is" };
    Ok(Verdict::AddContext {
        context: format!("ralph: the person approved {what} of run {run}. Go on with the work.\n"),
        notice: Some(format!("ralph: {what} of run {run} {verb} approved")),
    })
}

fn tell(world: &World, request: &CommandRequest<'_>, text: &str) -> Result<String, CommandFailure> {
    let run = held_run(request)?;
    let (by, deadline) = (person_name(&world.env), world.step_deadline());
    let adjustment = session_adjustment(world, run, &by, &deadline);
    let done = tell::send_message(&world.env, &adjustment, text)?;
    Ok(format!("ralph: run {run}: {done}"))
}

fn waive(
    world: &World,
    request: &CommandRequest<'_>,
    wish: &WaiveCommand,
) -> Result<String, CommandFailure> {
    let run = held_run(request)?;
    let (by, deadline) = (person_name(&world.env), world.step_deadline());
    let adjustment = session_adjustment(world, run, &by, &deadline);
    let done = match wish {
        WaiveCommand::List => {
            let listed = adjust::waiver_lines(&store::load_run(&world.home, run)?);
            let nothing = format!("ralph: nothing is waived in run {run}");
            return Ok(if listed.is_empty() { nothing } else { listed });
        }
        WaiveCommand::Undo(name) => adjust::withdraw_waiver(&adjustment, name)?,
        WaiveCommand::Requirement { name, why, until } => {
            adjust::waive_requirement(&world.env, &adjustment, name, why, until)?
        }
    };
    Ok(format!("ralph: run {run}: {done}"))
}

fn limits(
    world: &World,
    request: &CommandRequest<'_>,
    overrides: &LimitOverrides,
) -> Result<String, CommandFailure> {
    let run = held_run(request)?;
    let (by, deadline) = (person_name(&world.env), world.step_deadline());
    let adjustment = session_adjustment(world, run, &by, &deadline);
    let (_, done) = adjust::change_limits(&adjustment, overrides)?;
    Ok(format!("ralph: run {run}: {done}"))
}

fn session_adjustment<'a>(
    world: &'a World,
    run: &'a RunId,
    by: &'a str,
    deadline: &'a Deadline,
) -> RunAdjustment<'a> {
    let caller = CommandCaller::Session;
    RunAdjustment { home: &world.home, run, caller, by: Some(by), deadline }
}

fn held_run<'a>(request: &'a CommandRequest<'_>) -> Result<&'a RunId, CommandFailure> {
    let hint = "`/ralph:goal …` starts a run, `ralph status` lists the runs";
    request.run.as_ref().ok_or_else(|| CommandFailure::new("no run holds this session", hint))
}

/// The run that holds the session, or the last one that did.
fn last_run(world: &World, request: &CommandRequest<'_>) -> Result<Option<RunId>, CommandFailure> {
    if let Some(run) = &request.run {
        return Ok(Some(run.clone()));
    }
    match control::resolve_name(&world.home, request.session.as_str()) {
        Ok(RunOrSession::Run(run)) => Ok(Some(run)),
        Ok(RunOrSession::Session(_)) | Err(control::ControlError::UnknownName(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn no_run_text() -> String {
    "ralph: no run holds this session; `/ralph:goal …` starts one".to_string()
}
