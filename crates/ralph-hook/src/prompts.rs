//! Prompts: ralph commands that a person types in a session, and ordinary prompts, which may follow an interrupt.

use crate::dispatch::HookCall;
use crate::facts;
use crate::heartbeat;
use crate::project_memory;
use crate::session_gates;
use crate::transcript_reader;
use ralph_core::event::{PromptEvent, PromptMoment};
use ralph_core::facts::DeclaredPause;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::RunChange;
use ralph_core::run::RunPhase;
use ralph_core::slash_command::{self, SlashCommand};
use ralph_core::verdict::Verdict;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::host_env;
use ralph_home::session_pointer::{self, SessionPointer};
use ralph_home::store::{self, LoadedRun, StoreError, TransactionStep};
use ralph_home::world::World;
use ralph_sys::fs::{self, Durability};
use ralph_sys::process_identity::{self, HookCaller, Liveness};

/// A command for ralph, as a person typed it in a session.
#[derive(Debug)]
pub struct CommandRequest<'a> {
    pub prompt: &'a PromptEvent,
    pub session: &'a SessionId,
    pub typed: SlashCommand,
    /// The run that holds the session now.
    pub run: Option<RunId>,
}

pub fn on_prompt(world: &World, call: &HookCall, prompt: &PromptEvent) -> Verdict {
    let Some(session) = &prompt.session else { return Verdict::Allow };
    let run = heartbeat::find_run_and_beat(world, session);
    match slash_command::parse(&prompt.text) {
        Some(Err(mistake)) => Verdict::AnswerPrompt {
            text: format!("ralph: {}; nothing was done\n  hint: {}", mistake.what, mistake.hint),
        },
        Some(Ok(typed)) => {
            on_ralph_command(world, call, &CommandRequest { prompt, session, typed, run })
        }
        None => {
            let Some(run) = run else {
                return session_gates::on_prompt(world, prompt, session);
            };
            on_ordinary_prompt(world, prompt, session, &run).unwrap_or_else(|error| {
                let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_run(&run);
                faults::record_fault(&world.home, &fault);
                Verdict::Allow
            })
        }
    }
}

fn on_ralph_command(world: &World, call: &HookCall, spoken: &CommandRequest<'_>) -> Verdict {
    if is_duplicate_start(world, spoken) {
        return Verdict::Allow;
    }
    if let Some(id) = &spoken.run
        && let Some(command) = replaced_command(&spoken.typed, id)
        && let Some(doubt) = impersonation_doubt(world, id)
    {
        return Verdict::AnswerPrompt {
            text: format!(
                "ralph: {doubt}; nothing was done\n  hint: run `{command}` in a terminal of your own, outside of any sandbox"
            ),
        };
    }
    (call.execute_command)(world, spoken)
}

/// The command for a terminal, if only a person may give this one to the run. Another goal ends the run.
fn replaced_command(typed: &SlashCommand, run: &RunId) -> Option<String> {
    let replaces_run = matches!(typed, SlashCommand::Start(_));
    if replaces_run { Some(format!("ralph cancel {run}")) } else { typed.terminal_command(run) }
}

/// The current length of the transcript. Events before this offset do not concern the new run.
pub fn transcript_length(prompt: &PromptEvent) -> u64 {
    transcript_reader::transcript_length(prompt.transcript.as_deref())
}

/// Whether this prompt has already started the run. A hook registered twice, or for both prompt events, receives one
/// prompt more than once.
pub fn is_duplicate_start(world: &World, spoken: &CommandRequest<'_>) -> bool {
    let (SlashCommand::Start(_), Some(id)) = (&spoken.typed, &spoken.prompt.id) else {
        return false;
    };
    let pointer = session_pointer::read_pointer(&world.home, spoken.session);
    let Ok(Some(SessionPointer { run, ended: false, .. })) = pointer else {
        return false;
    };
    store::load_run(&world.home, &run).is_ok_and(|opened| opened.run.prompt.as_ref() == Some(id))
}

/// Why a command may not come from a person. A prompt that the agent scheduled, or sent through a client it started,
/// looks the same otherwise. A run that cannot be read has no known owner; the other doubts still count, because the
/// agent could have damaged it. So do they if the sender is the owner: a forged stop makes its sender the owner.
fn impersonation_doubt(world: &World, run: &RunId) -> Option<&'static str> {
    if fs::exists(&world.home.run(run).impersonation_mark()) {
        return Some("the agent scheduled ralph commands, so this may not come from a person");
    }
    let owner = store::load_run(&world.home, run)
        .inspect_err(|error| facts::record_run_fault(world, run, error))
        .map_or(None, |opened| opened.state.process);
    // Every client names its process.
    let Some(client) = host_env::host_process_id(&world.env) else {
        return Some("no client process is known, so this may not come from a person");
    };
    let sender = process_identity::identify_hook_caller(client);
    let is_beyond_view = |owner| process_identity::is_ancestor(&owner).is_none();
    if sender == HookCaller::Hidden || owner.is_some_and(is_beyond_view) {
        return Some("ralph cannot see which process sent the command");
    }
    let caller = host_env::host_process(&world.env);
    let is_another =
        |owner| caller != Some(owner) && process_identity::check_liveness(&owner) != Liveness::Dead;
    if owner.is_some_and(is_another) {
        return Some("the run belongs to another client process that has this session open");
    }
    if sender == HookCaller::OtherProcess {
        return Some("the command did not come directly from the client");
    }
    match process_identity::client_and_ancestors(client) {
        Some(pids) => pids
            .into_iter()
            .any(|pid| host_env::is_agent_process(&world.env, pid))
            .then_some("an agent or a runner started the client that sent the command"),
        // The owner of the run is known, and it is the client.
        None if owner.is_some() && owner == caller => None,
        None => Some("ralph cannot see which process started the client"),
    }
}

/// Whether the event certainly came from the client that it names, or names none. A program that the agent runs can send
/// any event and name any process as the client.
pub fn is_from_client(world: &World) -> bool {
    matches!(event_sender(world), None | Some(HookCaller::Client))
}

fn event_sender(world: &World) -> Option<HookCaller> {
    host_env::host_process_id(&world.env).map(process_identity::identify_hook_caller)
}

/// The memory of the project, with the first prompt after `ralph start`: the agent learns of such a run no earlier.
fn first_prompt_memory(world: &World, seen: &LoadedRun) -> Verdict {
    let is_new = seen.run.drive.is_none() && seen.state.iteration == seen.run.first_iteration;
    if !is_new || project_memory::has_given(&world.home, &seen.run) {
        return Verdict::Allow;
    }
    project_memory::start_memory(world, &seen.run)
        .map_or(Verdict::Allow, |context| Verdict::AddContext { context, notice: None })
}

/// An ordinary prompt. After an interrupt it pauses the run, because the person wants something else.
fn on_ordinary_prompt(
    world: &World,
    prompt: &PromptEvent,
    session: &SessionId,
    run: &RunId,
) -> Result<Verdict, StoreError> {
    // Sent by the host itself, about background work.
    if prompt.moment == PromptMoment::Expanded
        || prompt.text.starts_with(world.host.own_prompt_prefix)
    {
        return Ok(Verdict::Allow);
    }
    let seen = store::load_run(&world.home, run)?;
    if seen.state.owner(&seen.run) != Some(session) || seen.state.phase != RunPhase::Active {
        return Ok(Verdict::Allow);
    }
    if let Some(DeclaredPause::Waiting { why, .. }) = &seen.state.declared {
        // A person who prompts the agent does not want it to keep waiting.
        let change = RunChange::Waits { until_ms: world.arrived_ms, why: why.clone() };
        let durability = Durability::Cached;
        store::transact(&world.transaction(run), |_| TransactionStep::Write {
            change,
            durability,
            answer: (),
        })?;
    }
    let news =
        transcript_reader::read_interruptions(world, prompt.transcript.as_deref(), &seen.state);
    if news.overridden && facts::record_override(world, session, run)? {
        return Ok(Verdict::AllowWithNotice(format!(
            "ralph: overridden: the client ended a held turn of run {run}, so nothing is verified. \
             `/ralph:goal …` starts again; `ralph doctor` shows how to raise the client's limit"
        )));
    }
    if !news.interrupted {
        return Ok(first_prompt_memory(world, &seen));
    }
    let paused = store::transact(&world.transaction(run), |now| match now.state.phase {
        RunPhase::Active => TransactionStep::Write {
            change: RunChange::Interrupted { seen: news.seen },
            durability: Durability::Synced,
            answer: true,
        },
        RunPhase::Paused { .. } | RunPhase::Orphaned | RunPhase::Ended(_) => {
            TransactionStep::Leave(false)
        }
    })?;
    Ok(if paused {
        Verdict::AllowWithNotice(format!(
            "ralph: run {run} is paused because you interrupted the agent; \
             `/ralph:resume` continues it, `/ralph:cancel` ends it"
        ))
    } else {
        Verdict::Allow
    })
}
