//! What a person types in a session, carried out: the words that the commands use, without a terminal.

use crate::cmd::{start, status, verify, why, words};
use crate::report::Failure;
use crate::term;
use ralph_core::id::RunId;
use ralph_core::limits::Bounds;
use ralph_core::record::Asked;
use ralph_core::typed::{Kind, Typed, Waive, Wish};
use ralph_core::verdict::Verdict;
use ralph_exec::clock::Deadline;
use ralph_exec::control::{self, Caller, Named};
use ralph_exec::orchestrator;
use ralph_exec::overview;
use ralph_exec::prompts::{self, Spoken};
use ralph_exec::store;
use ralph_exec::succession;
use ralph_exec::words::Speech;
use ralph_exec::world::World;
use std::path::PathBuf;

/// As many decisions as fit below a prompt.
const SHOWN_DECISIONS: usize = 5;

pub(crate) fn answer(world: &World, spoken: &Spoken<'_>) -> Verdict {
    let done = match &spoken.typed {
        Typed::Hold(wish) => hold(world, spoken, wish),
        Typed::Status => status(world, spoken).map(|text| said(&text)),
        Typed::Why => why(world, spoken).map(|text| said(&text)),
        Typed::Verify => verify(world, spoken).map(|text| said(&text)),
        Typed::Pause => pause(world, spoken).map(|text| said(&text)),
        Typed::Resume(name) => resume(world, spoken, name.as_deref()),
        Typed::Cancel => cancel(world, spoken).map(|text| said(&text)),
        Typed::Ask => Ok(Verdict::Allow),
        Typed::Approve => approve(world, spoken),
        Typed::Tell(text) => tell(world, spoken, text).map(|text| said(&text)),
        Typed::Waive(wish) => waive(world, spoken, wish).map(|text| said(&text)),
        Typed::Limits(bounds) => limits(world, spoken, bounds).map(|text| said(&text)),
    };
    done.unwrap_or_else(|failure| said(&format!("ralph: {}", failure.told())))
}

fn said(text: &str) -> Verdict {
    Verdict::Answer { text: term::plain(text).trim_end().to_string() }
}

fn hold(world: &World, spoken: &Spoken<'_>, wish: &Wish) -> Result<Verdict, Failure> {
    let project = project(world, spoken)?;
    let demand = start::Demand {
        session: spoken.session.clone(),
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
        prompt: spoken.prompt.id.clone(),
        phases: match wish.kind {
            Kind::Goal => Asked::No,
            Kind::Orchestrator => Asked::Yes,
        },
        transcript_length: prompts::transcript_length(spoken.prompt),
        max_tokens: None,
        handover_at_permille: None,
        drive: None,
        id: None,
        here: project.clone(),
        project,
    };
    if let Some(run) = &spoken.run
        && control::is_untouched(&world.home, run)?
    {
        // A prompt that was taken back before its first answer, and is sent again.
        let named = Named::Run(run.clone());
        control::cancel(&world.home, &named, Caller::Session, &world.deadline())?;
    }
    let begun = match start::begin(&world.env, &world.home, &demand) {
        Ok(begun) => begun,
        // A hook that is registered twice was called twice at once, and the other was faster.
        Err(_) if prompts::is_answered(world, spoken) => return Ok(Verdict::Allow),
        Err(failure) => return Err(failure),
    };
    let run = &begun.run;
    let phases = match wish.kind {
        Kind::Goal => String::new(),
        Kind::Orchestrator => {
            let path = orchestrator::path(&world.home, spoken.session);
            format!(
                "It goes in phases: `ralph orchestrator show` tells what is missing and whose it is, `ralph orchestrator set …` \
                 says what of yours is done, and so does `{}`. The person approves the plan with `/ralph:approve`.\n",
                path.display()
            )
        }
    };
    let terms = term::plain(&start::terms(run));
    let terms = terms.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let context = format!(
        "ralph holds this session from now on (run {}): you can stop when it finds the work done on the tree as it is, \
         not when you say so.\n{terms}\n{phases}\
         Work on what the person asked for. If only a person can decide something, run `ralph ask \"…\"` and stop; \
         to wait for something outside, run `ralph wait \"…\" --for 20m` and stop; if a requirement is wrong, run \
         `ralph dispute REQUIREMENT \"…\"` and go on with the rest. `ralph status` shows how it stands.\n",
        run.id,
    );
    let title = if run.title.is_empty() { String::new() } else { format!(": {}", run.title) };
    let mut notice = format!("ralph: run {} holds this session{title}\n{terms}\n", run.id);
    for note in &begun.notes {
        notice.push_str(&format!("note: {note}\n"));
    }
    notice.push_str("`/ralph:status` shows how it stands, `/ralph:cancel` ends it");
    Ok(Verdict::Tell { context, notice: Some(notice) })
}

fn project(world: &World, spoken: &Spoken<'_>) -> Result<PathBuf, Failure> {
    let told = spoken.prompt.cwd.as_deref().map(PathBuf::from);
    let found = world.env.project_dir().or(told).filter(|path| path.is_absolute());
    let found = found.ok_or_else(|| {
        Failure::new("it is not known which project this is", "start the client in a directory")
    })?;
    start::directory(&found, &found)
}

fn status(world: &World, spoken: &Spoken<'_>) -> Result<String, Failure> {
    match last_run(world, spoken)? {
        Some(run) => status::of_run(&world.home, &run),
        None => Ok(nobody()),
    }
}

fn why(world: &World, spoken: &Spoken<'_>) -> Result<String, Failure> {
    match last_run(world, spoken)? {
        Some(run) => {
            let history = overview::of_run(&world.home, &run)?;
            Ok(why::shown(&history, SHOWN_DECISIONS))
        }
        None => Ok(nobody()),
    }
}

fn verify(world: &World, spoken: &Spoken<'_>) -> Result<String, Failure> {
    verify::shown(world, spoken.session, spoken.run.as_ref())
}

fn pause(world: &World, spoken: &Spoken<'_>) -> Result<String, Failure> {
    let run = held(spoken)?;
    match control::pause(&world.home, run, Caller::Session, &world.deadline()) {
        // A hook that is registered twice asks twice.
        Ok(()) | Err(control::ControlError::NothingToDo { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(format!("ralph: run {run} is paused; `/ralph:resume` holds the agent again"))
}

fn resume(world: &World, spoken: &Spoken<'_>, name: Option<&str>) -> Result<Verdict, Failure> {
    let run = match (name, &spoken.run) {
        (Some(name), _) => match control::named(&world.home, name)? {
            Named::Run(run) => run,
            Named::Session(_) => {
                return Err(Failure::new("no run has that name", "`ralph status` lists the runs"));
            }
        },
        (None, Some(run)) => run.clone(),
        (None, None) => succession::waiting(&world.home, &project(world, spoken)?)?,
    };
    match succession::take_up(world, &run, spoken) {
        Ok(()) | Err(control::ControlError::NothingToDo { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(said(&format!(
        "ralph: run {run} holds this session again from the next stop on; say what the agent shall do now\n{}",
        status::of_run(&world.home, &run)?
    )))
}

fn cancel(world: &World, spoken: &Spoken<'_>) -> Result<String, Failure> {
    let run = held(spoken)?;
    let named = Named::Run(run.clone());
    control::cancel(&world.home, &named, Caller::Session, &world.deadline())?;
    Ok(format!("ralph: run {run} is cancelled; the session is free, and nothing was deleted"))
}

/// The agent hears of it too: it is what it waited for.
fn approve(world: &World, spoken: &Spoken<'_>) -> Result<Verdict, Failure> {
    let run = held(spoken)?;
    orchestrator::approve(&world.home, run, Caller::Session, &world.deadline())?;
    Ok(Verdict::Tell {
        context: format!(
            "ralph: the person approved the plan of run {run}. Go on with the work.\n"
        ),
        notice: Some(format!("ralph: the plan of run {run} is approved")),
    })
}

fn tell(world: &World, spoken: &Spoken<'_>, text: &str) -> Result<String, Failure> {
    let run = held(spoken)?;
    let done = words::told(&world.env, &speech(world, run, &world.deadline()), text)?;
    Ok(format!("ralph: run {run}: {done}"))
}

fn waive(world: &World, spoken: &Spoken<'_>, wish: &Waive) -> Result<String, Failure> {
    let run = held(spoken)?;
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

fn limits(world: &World, spoken: &Spoken<'_>, bounds: &Bounds) -> Result<String, Failure> {
    let run = held(spoken)?;
    let (_, done) = words::limited(&speech(world, run, &world.deadline()), bounds)?;
    Ok(format!("ralph: run {run}: {done}"))
}

fn speech<'a>(world: &'a World, run: &'a RunId, deadline: &'a Deadline) -> Speech<'a> {
    Speech { home: &world.home, run, caller: Caller::Session, deadline }
}

fn held<'a>(spoken: &'a Spoken<'_>) -> Result<&'a RunId, Failure> {
    let hint = "`/ralph:goal …` starts a run, `ralph status` lists the runs there are";
    spoken.run.as_ref().ok_or_else(|| Failure::new("no run holds this session", hint))
}

/// The run of the session, also when it has ended.
fn last_run(world: &World, spoken: &Spoken<'_>) -> Result<Option<RunId>, Failure> {
    if let Some(run) = &spoken.run {
        return Ok(Some(run.clone()));
    }
    match control::named(&world.home, spoken.session.as_str()) {
        Ok(Named::Run(run)) => Ok(Some(run)),
        Ok(Named::Session(_)) | Err(control::ControlError::Unknown(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn nobody() -> String {
    "ralph: no run holds this session; `/ralph:goal …` starts one".to_string()
}
