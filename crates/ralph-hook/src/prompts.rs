//! Prompts: ralph commands that a person types in a session, and ordinary prompts, which may follow an interrupt.

use crate::heard;
use crate::observe;
use crate::pipeline::Call;
use crate::surroundings;
use ralph_core::event::{Prompt, PromptMoment};
use ralph_core::facts::Declared;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::Change;
use ralph_core::run::Phase;
use ralph_core::typed::{self, Typed};
use ralph_core::verdict::Verdict;
use ralph_home::faults::{self, Fault, Kind, describe};
use ralph_home::session_pointer::{self, Ended, Pointer};
use ralph_home::store::{self, Opened, Step, StoreError};
use ralph_home::world::World;
use ralph_sys::fs::{self, Durability};
use ralph_sys::owner::{self, Alive};

/// A command for ralph, as a person typed it in a session.
#[derive(Debug)]
pub struct Spoken<'a> {
    pub prompt: &'a Prompt,
    pub session: &'a SessionId,
    pub typed: Typed,
    /// The run that holds the session now.
    pub run: Option<RunId>,
}

pub fn on(world: &World, call: &Call, prompt: &Prompt) -> Verdict {
    let Some(session) = &prompt.session else { return Verdict::Allow };
    let run = heard::run_of(world, session);
    match typed::parse(&prompt.text) {
        Some(Err(mistake)) => Verdict::Answer {
            text: format!("ralph: {}; nothing was done\n  hint: {}", mistake.what, mistake.hint),
        },
        Some(Ok(typed)) => command(world, call, &Spoken { prompt, session, typed, run }),
        None => run.map_or(Verdict::Allow, |run| {
            word(world, prompt, session, &run).unwrap_or_else(|error| {
                let fault = Fault::new(Kind::File, &describe(&error)).of_run(&run);
                faults::record(&world.home, &fault);
                Verdict::Allow
            })
        }),
    }
}

fn command(world: &World, call: &Call, spoken: &Spoken<'_>) -> Verdict {
    if is_answered(world, spoken) {
        return Verdict::Allow;
    }
    let run = spoken.run.as_ref().and_then(|run| store::load(&world.home, run).ok());
    if spoken.typed.loosens()
        && let Some(opened) = &run
        && let Some(doubt) = doubt(world, opened)
    {
        let id = &opened.run.id;
        return Verdict::Answer {
            text: format!(
                "ralph: {doubt}; nothing was done\n  hint: type it in a terminal; `ralph status {id}` shows the next step"
            ),
        };
    }
    (call.person)(world, spoken)
}

/// The current length of the transcript. Events before this offset do not concern the new run.
pub fn transcript_length(prompt: &Prompt) -> u64 {
    let stat = prompt.transcript.as_deref().and_then(|path| fs::stat(path.as_ref()));
    stat.map_or(0, |stat| stat.len)
}

/// Whether this prompt has already started the run. A hook registered twice, or for both prompt events, receives one
/// prompt more than once.
pub fn is_answered(world: &World, spoken: &Spoken<'_>) -> bool {
    let (Typed::Hold(_), Some(id)) = (&spoken.typed, &spoken.prompt.id) else { return false };
    let pointer = session_pointer::pointer(&world.home, spoken.session);
    let Ok(Some(Pointer { run, ended: Ended::No, .. })) = pointer else { return false };
    store::load(&world.home, &run).is_ok_and(|opened| opened.run.prompt.as_ref() == Some(id))
}

/// Why a command may not come from a person. A prompt that the agent scheduled, or sent through a client it started,
/// looks the same otherwise.
fn doubt(world: &World, opened: &Opened) -> Option<&'static str> {
    if fs::exists(&world.home.run(&opened.run.id).posed()) {
        return Some("the agent scheduled ralph commands, so this may not come from a person");
    }
    let caller = world.env.claude_pid().and_then(owner::mark);
    let is_another = |owner| caller != Some(owner) && owner::is_alive(&owner) == Alive::Yes;
    if opened.state.process.is_some_and(is_another) {
        return Some("the run belongs to another client process that has this session open");
    }
    is_roundabout(world).then_some("the command did not come directly from the client")
}

/// Whether a descendant of the client called the hook, rather than the client itself. A program that the agent runs can
/// send any event.
pub fn is_roundabout(world: &World) -> bool {
    world.env.claude_pid().and_then(owner::is_direct) == Some(false)
}

/// An ordinary prompt. After an interrupt it pauses the run, because the person wants something else.
fn word(
    world: &World,
    prompt: &Prompt,
    session: &SessionId,
    run: &RunId,
) -> Result<Verdict, StoreError> {
    // Sent by the host itself, about background work.
    if prompt.moment == PromptMoment::Expanded || prompt.text.starts_with("<task-notification>") {
        return Ok(Verdict::Allow);
    }
    let seen = store::load(&world.home, run)?;
    if seen.state.owner(&seen.run) != Some(session) || seen.state.phase != Phase::Active {
        return Ok(Verdict::Allow);
    }
    if let Some(Declared::Waiting { why, .. }) = &seen.state.declared {
        // A person who prompts the agent does not want it to keep waiting.
        let change = Change::Waits { until_ms: world.arrived_ms, why: why.clone() };
        let durability = Durability::Cached;
        store::transact(&world.on(run), |_| Step::Write { change, durability, answer: () })?;
    }
    let news = observe::news(world, prompt.transcript.as_deref(), &seen.state);
    if news.overridden && surroundings::overridden(world, session, run)? {
        return Ok(Verdict::AllowNoting(format!(
            "ralph: overridden: the client ended a held turn of run {run}, so nothing is verified. \
             `/ralph:goal …` starts again; `ralph doctor` shows how to raise the client's limit"
        )));
    }
    if !news.interrupted {
        return Ok(Verdict::Allow);
    }
    let paused = store::transact(&world.on(run), |now| match now.state.phase {
        Phase::Active => Step::Write {
            change: Change::Interrupted { seen: news.seen },
            durability: Durability::Synced,
            answer: true,
        },
        Phase::Paused { .. } | Phase::Orphaned | Phase::Ended(_) => Step::Leave(false),
    })?;
    Ok(if paused {
        Verdict::AllowNoting(format!(
            "ralph: run {run} is paused because you interrupted the agent; \
             `/ralph:resume` continues it, `/ralph:cancel` ends it"
        ))
    } else {
        Verdict::Allow
    })
}
