//! Carries out the `/ralph:…` commands that a person types in a session. They do what the commands of the same name
//! do in a terminal, and return their text as the answer to the prompt.

use crate::cmd::{start, status, verify, why, words};
use crate::report::Failure;
use crate::term;
use ralph_core::id::RunId;
use ralph_core::limits::Bounds;
use ralph_core::record::Asked;
use ralph_core::typed::{Kind, Typed, Waive, Wish};
use ralph_core::verdict::Verdict;
use ralph_home::store;
use ralph_home::world::World;
use ralph_hook::control::{self, Caller, Named};
use ralph_hook::orchestrator;
use ralph_hook::overview;
use ralph_hook::prompts::{self, Spoken};
use ralph_hook::succession;
use ralph_hook::words::Speech;
use ralph_sys::clock::Deadline;
use std::path::PathBuf;

/// How many decisions `/ralph:why` shows: about as many as fit below a prompt.
const SHOWN_DECISIONS: usize = 5;

pub(crate) fn answer(world: &World, request: &Spoken<'_>) -> Verdict {
    let done = match &request.typed {
        Typed::Hold(wish) => hold(world, request, wish),
        Typed::Status => status(world, request).map(|text| said(&text)),
        Typed::Why => why(world, request).map(|text| said(&text)),
        Typed::Verify => verify(world, request).map(|text| said(&text)),
        Typed::Pause => pause(world, request).map(|text| said(&text)),
        Typed::Resume(name) => resume(world, request, name.as_deref()),
        Typed::Cancel => cancel(world, request).map(|text| said(&text)),
        Typed::Ask => Ok(Verdict::Allow),
        Typed::Approve => approve(world, request),
        Typed::Tell(text) => tell(world, request, text).map(|text| said(&text)),
        Typed::Waive(wish) => waive(world, request, wish).map(|text| said(&text)),
        Typed::Limits(bounds) => limits(world, request, bounds).map(|text| said(&text)),
    };
    done.unwrap_or_else(|failure| said(&format!("ralph: {}", failure.told())))
}

fn said(text: &str) -> Verdict {
    Verdict::Answer { text: term::plain(text).trim_end().to_string() }
}

fn hold(world: &World, request: &Spoken<'_>, wish: &Wish) -> Result<Verdict, Failure> {
    let project = project(world, request)?;
    let demand = start::Demand {
        session: request.session.clone(),
        goal: wish.goal.as_bytes().to_vec(),
        max_iterations: wish.max_iterations,
        max_duration: wish.max_duration_ms,
        max_cost_micro_usd: wish.max_cost_micro_usd,
        stuck_after: wish.stuck_after,
        min_iterations: wish.min_iterations,
        features: wish.features.iter().map(PathBuf::from).collect(),
        plans: wish.plans.iter().map(PathBuf::from).collect(),
        tasks: if wish.tasks { Asked::Yes } else { Asked::No },
        promise: wish.promise.clone(),
        checklist: if wish.checklist { Asked::Yes } else { Asked::No },
        gates: start::Gates::OfThePolicy,
        complexity: wish.complexity,
        prompt: request.prompt.id.clone(),
        phases: match wish.kind {
            Kind::Goal => Asked::No,
            Kind::Orchestrator => Asked::Yes,
        },
        transcript_length: prompts::transcript_length(request.prompt),
        max_tokens: None,
        handover_at_permille: None,
        drive: None,
        id: None,
        here: project.clone(),
        project,
    };
    if let Some(run) = &request.run
        && control::is_untouched(&world.home, run)?
    {
        // The person withdrew the prompt before its first answer and sends it again.
        let named = Named::Run(run.clone());
        control::cancel(&world.home, &named, Caller::Session, &world.deadline())?;
    }
    let begun = match start::begin(&world.env, &world.home, &demand) {
        Ok(begun) => begun,
        // The hook is registered twice, and the other process started the run first.
        Err(_) if prompts::is_answered(world, request) => return Ok(Verdict::Allow),
        Err(failure) => return Err(failure),
    };
    let run = &begun.run;
    let phases = match wish.kind {
        Kind::Goal => String::new(),
        Kind::Orchestrator => {
            let path = orchestrator::path(&world.home, request.session);
            format!(
                "The work goes in phases: `ralph orchestrator show` lists what is missing and who does it. Report what you have done \
                 with `ralph orchestrator set …` or in `{}`. The person approves the plan with `/ralph:approve`.\n",
                path.display()
            )
        }
    };
    let terms = term::plain(&start::terms(run));
    let terms = terms.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let context = format!(
        "ralph holds this session from now on (run {}): you can stop when it finds the work done in the current tree, \
         not when you say so.\n{terms}\n{phases}\
         Work on what the person asked for. If only a person can decide something, run `ralph ask \"…\"` and stop; \
         to wait for something outside, run `ralph wait \"…\" --for 20m` and stop; if a requirement is wrong, run \
         `ralph dispute REQUIREMENT \"…\"` and go on with the rest. `ralph status` shows the state of the run.\n",
        run.id,
    );
    let title = if run.title.is_empty() { String::new() } else { format!(": {}", run.title) };
    let mut notice = format!("ralph: run {} holds this session{title}\n{terms}\n", run.id);
    for note in &begun.notes {
        notice.push_str(&format!("note: {note}\n"));
    }
    notice.push_str("`/ralph:status` shows its state, `/ralph:cancel` ends it");
    Ok(Verdict::Tell { context, notice: Some(notice) })
}

fn project(world: &World, request: &Spoken<'_>) -> Result<PathBuf, Failure> {
    let cwd = request.prompt.cwd.as_deref().map(PathBuf::from);
    let found = world.env.project_dir().or(cwd).filter(|path| path.is_absolute());
    let found = found.ok_or_else(|| {
        Failure::new(
            "cannot determine the project directory",
            "start the client in the project directory",
        )
    })?;
    start::directory(&found, &found)
}

fn status(world: &World, request: &Spoken<'_>) -> Result<String, Failure> {
    match last_run(world, request)? {
        Some(run) => status::of_run(&world.home, &run),
        None => Ok(nobody()),
    }
}

fn why(world: &World, request: &Spoken<'_>) -> Result<String, Failure> {
    match last_run(world, request)? {
        Some(run) => {
            let history = overview::of_run(&world.home, &run)?;
            Ok(why::shown(&history, SHOWN_DECISIONS))
        }
        None => Ok(nobody()),
    }
}

fn verify(world: &World, request: &Spoken<'_>) -> Result<String, Failure> {
    verify::shown(world, request.session, request.run.as_ref())
}

fn pause(world: &World, request: &Spoken<'_>) -> Result<String, Failure> {
    let run = held(request)?;
    match control::pause(&world.home, run, Caller::Session, &world.deadline()) {
        // A hook that is registered twice pauses twice.
        Ok(()) | Err(control::ControlError::NothingToDo { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(format!("ralph: run {run} is paused; `/ralph:resume` holds the agent again"))
}

fn resume(world: &World, request: &Spoken<'_>, name: Option<&str>) -> Result<Verdict, Failure> {
    let run = match (name, &request.run) {
        (Some(name), _) => match control::named(&world.home, name)? {
            Named::Run(run) => run,
            Named::Session(_) => {
                return Err(Failure::new("no run has that name", "`ralph status` lists the runs"));
            }
        },
        (None, Some(run)) => run.clone(),
        (None, None) => succession::waiting(&world.home, &project(world, request)?)?,
    };
    match succession::take_up(world, &run, request) {
        Ok(()) | Err(control::ControlError::NothingToDo { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(said(&format!(
        "ralph: run {run} holds this session again from the next stop on; now tell the agent what to do\n{}",
        status::of_run(&world.home, &run)?
    )))
}

fn cancel(world: &World, request: &Spoken<'_>) -> Result<String, Failure> {
    let run = held(request)?;
    let named = Named::Run(run.clone());
    control::cancel(&world.home, &named, Caller::Session, &world.deadline())?;
    Ok(format!("ralph: run {run} is cancelled; the session is free, and nothing was deleted"))
}

/// Approves the plan, and reports it to the agent too, because the agent waits for it.
fn approve(world: &World, request: &Spoken<'_>) -> Result<Verdict, Failure> {
    let run = held(request)?;
    orchestrator::approve(&world.home, run, Caller::Session, &world.deadline())?;
    Ok(Verdict::Tell {
        context: format!(
            "ralph: the person approved the plan of run {run}. Go on with the work.\n"
        ),
        notice: Some(format!("ralph: the plan of run {run} is approved")),
    })
}

fn tell(world: &World, request: &Spoken<'_>, text: &str) -> Result<String, Failure> {
    let run = held(request)?;
    let done = words::told(&world.env, &speech(world, run, &world.deadline()), text)?;
    Ok(format!("ralph: run {run}: {done}"))
}

fn waive(world: &World, request: &Spoken<'_>, wish: &Waive) -> Result<String, Failure> {
    let run = held(request)?;
    let deadline = world.deadline();
    let speech = speech(world, run, &deadline);
    let done = match wish {
        Waive::List => {
            let listed = words::listed(&store::load(&world.home, run)?);
            let nothing = format!("ralph: nothing is waived in run {run}");
            return Ok(if listed.is_empty() { nothing } else { listed });
        }
        Waive::Undo(name) => words::insisted(&speech, name)?,
        Waive::Requirement { name, why, until } => {
            words::waived(&world.env, &speech, (name, why, until))?
        }
    };
    Ok(format!("ralph: run {run}: {done}"))
}

fn limits(world: &World, request: &Spoken<'_>, bounds: &Bounds) -> Result<String, Failure> {
    let run = held(request)?;
    let (_, done) = words::limited(&speech(world, run, &world.deadline()), bounds)?;
    Ok(format!("ralph: run {run}: {done}"))
}

fn speech<'a>(world: &'a World, run: &'a RunId, deadline: &'a Deadline) -> Speech<'a> {
    Speech { home: &world.home, run, caller: Caller::Session, deadline }
}

fn held<'a>(request: &'a Spoken<'_>) -> Result<&'a RunId, Failure> {
    let hint = "`/ralph:goal …` starts a run, `ralph status` lists the runs";
    request.run.as_ref().ok_or_else(|| Failure::new("no run holds this session", hint))
}

/// The run that holds the session, or the last one that did.
fn last_run(world: &World, request: &Spoken<'_>) -> Result<Option<RunId>, Failure> {
    if let Some(run) = &request.run {
        return Ok(Some(run.clone()));
    }
    match control::named(&world.home, request.session.as_str()) {
        Ok(Named::Run(run)) => Ok(Some(run)),
        Ok(Named::Session(_)) | Err(control::ControlError::Unknown(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn nobody() -> String {
    "ralph: no run holds this session; `/ralph:goal …` starts one".to_string()
}
