//! What reaches the agent from the person's side: commands for ralph, and everything else, which may follow an interrupt.

use crate::faults::{self, Fault, Kind, describe};
use crate::fs::{self, Durability};
use crate::heard;
use crate::holder::{self, Ended, Pointer};
use crate::observe;
use crate::owner::{self, Alive};
use crate::pipeline::Call;
use crate::store::{self, Opened, Step, StoreError};
use crate::surroundings;
use crate::world::World;
use ralph_core::event::{Prompt, PromptMoment};
use ralph_core::facts::Declared;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::Change;
use ralph_core::run::Phase;
use ralph_core::typed::{self, Typed};
use ralph_core::verdict::Verdict;

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
                "ralph: {doubt}; nothing was done\n  hint: type it in a terminal: `ralph status {id}` shows what there is to do"
            ),
        };
    }
    (call.person)(world, spoken)
}

/// How long the transcript is: what it told so far is not about what is asked now.
pub fn transcript_length(prompt: &Prompt) -> u64 {
    let stat = prompt.transcript.as_deref().and_then(|path| fs::stat(path.as_ref()));
    stat.map_or(0, |stat| stat.len)
}

/// A hook that is registered twice, or at both moments, hears of one prompt more than once.
pub fn is_answered(world: &World, spoken: &Spoken<'_>) -> bool {
    let (Typed::Hold(_), Some(id)) = (&spoken.typed, &spoken.prompt.id) else { return false };
    let pointer = holder::pointer(&world.home, spoken.session);
    let Ok(Some(Pointer { run, ended: Ended::No, .. })) = pointer else { return false };
    store::load(&world.home, &run).is_ok_and(|opened| opened.run.prompt.as_ref() == Some(id))
}

/// Why this might not be a person. A prompt that the agent had scheduled, or sent through a client of its own, looks
/// the same in every other way.
fn doubt(world: &World, opened: &Opened) -> Option<&'static str> {
    if fs::exists(&world.home.run(&opened.run.id).posed()) {
        return Some("the agent scheduled commands for ralph, so what is typed here could be its");
    }
    let caller = world.env.claude_pid().and_then(owner::mark);
    let is_another = |owner| caller != Some(owner) && owner::is_alive(&owner) == Alive::Yes;
    if opened.state.process.is_some_and(is_another) {
        return Some("another process of the client has this session open, and the run is its");
    }
    is_roundabout(world).then_some("it did not come from the client itself")
}

/// Somebody below the client called us, and not the client: a program that an agent runs can say anything.
pub fn is_roundabout(world: &World) -> bool {
    world.env.claude_pid().and_then(owner::is_direct) == Some(false)
}

/// An ordinary prompt. After an interrupt it is a person's word against the run's.
fn word(
    world: &World,
    prompt: &Prompt,
    session: &SessionId,
    run: &RunId,
) -> Result<Verdict, StoreError> {
    // The host's own, about work in the background.
    if prompt.moment == PromptMoment::Expanded || prompt.text.starts_with("<task-notification>") {
        return Ok(Verdict::Allow);
    }
    let seen = store::load(&world.home, run)?;
    if seen.state.owner(&seen.run) != Some(session) || seen.state.phase != Phase::Active {
        return Ok(Verdict::Allow);
    }
    if let Some(Declared::Waiting { why, .. }) = &seen.state.declared {
        // Whoever speaks to the agent does not want it to wait.
        let change = Change::Waits { until_ms: world.arrived_ms, why: why.clone() };
        let durability = Durability::Cached;
        store::transact(&world.on(run), |_| Step::Write { change, durability, answer: () })?;
    }
    let news = observe::news(world, prompt.transcript.as_deref(), &seen.state);
    if news.overridden && surroundings::overridden(world, session, run)? {
        return Ok(Verdict::AllowNoting(format!(
            "ralph: overridden: the client ended a turn of run {run} that was held; nothing is verified. \
             `/ralph:goal …` starts again; `ralph doctor` tells how to raise the client's limit"
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
            "ralph: run {run} is paused, because you interrupted the agent; \
             `/ralph:resume` holds it again, `/ralph:cancel` ends the run"
        ))
    } else {
        Verdict::Allow
    })
}
