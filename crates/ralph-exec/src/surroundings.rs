//! Facts about the world around one stop.

use crate::clock;
use crate::faults::{self, Fault, Kind, describe};
use crate::fs::{self, Durability};
use crate::journal;
use crate::lists;
use crate::notify;
use crate::observe::{Sight, Tools};
use crate::owner::{self, Alive};
use crate::store::{self, Opened, Step, StoreError};
use crate::tail::{self, Window};
use crate::trust;
use crate::world::{Driven, World};
use ralph_core::decide::Decision;
use ralph_core::event::{Stop, Trouble};
use ralph_core::facts::{Cap, Facts, Off, Owner, Prompt, Trust};
use ralph_core::id::{RunId, SessionId};
use ralph_core::reason::Telling;
use ralph_core::record::{
    Change, Decided, Delivered, Entry, Mark, Observed, Origin, Outcome, Process, Run,
};
use ralph_core::redact::Redactor;
use ralph_core::run::{Memory, Phase, State};
use ralph_core::status::Status;
use ralph_core::text;
use ralph_core::verdict::Verdict;
use std::ops::ControlFlow;
use std::path::Path;

/// Without a process to ask about, silence for this long means that nobody is there.
pub const SILENCE_MS: u64 = 24 * 60 * 60 * 1000;

/// How often files alone may hold without a prompt to tell the stops apart by.
const MOST_IN_A_ROW: u32 = 25;

const MOST_ITEMS: usize = 500;
const LONGEST_ITEM: usize = 200;

/// As much of a goal as a first block shows.
const SHOWN_GOAL: usize = 16 * 1024;

pub fn facts(world: &World, stop: &Stop, opened: &Opened, sight: &Sight) -> Facts {
    let now_ms = clock::now_ms();
    let facts = Facts {
        off: off(world, opened.run.id.as_str()),
        owner: owner_of(opened, now_ms, process(world)),
        delivery: sight.delivery,
        trouble: api_error(stop, sight),
        trust: approval(world, &opened.run),
        tampering: opened.tampering.clone(),
        spent_micro_usd: sight.observed.as_ref().and_then(Observed::spent_micro_usd),
        context_permille: sight.observed.as_ref().and_then(Observed::context_permille),
        declared: opened.state.declared.clone(),
        queued: sight.queued,
        in_a_row: match sight.tools {
            Tools::None => opened.state.in_a_row,
            // Without a transcript nobody knows, and nobody is let go for that.
            Tools::Used | Tools::Unknown => 0,
        },
        cap: world.env.block_cap().map_or(Cap::USUAL, |setting| Cap::from_setting(&setting)),
        ..Facts::quiet(now_ms)
    };
    match world.driven {
        None => facts,
        Some(driven) => driven_facts(facts, &driven, &opened.state),
    }
}

/// A runner meters all sessions of the run, and its host tells it more than a transcript does.
fn driven_facts(facts: Facts, driven: &Driven, state: &State) -> Facts {
    let spent = state.driving.spent();
    Facts {
        owner: Owner::Present,
        driver: driven.driver,
        cap: driven.cap,
        context_permille: driven.context_permille.or(facts.context_permille),
        spent_micro_usd: Some(spent.micro_usd),
        spent_tokens: Some(spent.tokens),
        spent_today_micro_usd: driven.spent_today_micro_usd,
        ..facts
    }
}

/// A person may take an approval back while the run goes on.
fn approval(world: &World, run: &Run) -> Trust {
    match &run.seal {
        Some(seal) if !trust::is_seal_approved(&world.home, seal) => {
            let what = format!("the policy of `{}`", seal.project);
            Trust::Missing { what, how: "ralph trust".to_string() }
        }
        Some(_) | None => match lists::are_approved(&world.home, run) {
            Ok(()) => Trust::Approved,
            Err(lists::Unapproved { what, trust }) => Trust::Missing { what, how: trust },
        },
    }
}

pub fn facts_without_run(world: &World, session: &SessionId, stop: &Stop) -> Facts {
    Facts {
        off: off(world, session.as_str()),
        prompt: prompt(world, session, stop),
        ..Facts::quiet(clock::now_ms())
    }
}

/// The host's flag says whether a prompt was held before; a host that never sets it must not hold for ever either.
fn prompt(world: &World, session: &SessionId, stop: &Stop) -> Prompt {
    let path = world.home.held_journal(session);
    let Some(stat) = fs::stat(&path) else { return Prompt::Fresh };
    let mut blocks = 0;
    let mut same_prompt = false;
    let window = Window { end: stat.len, step: 16 * 1024, most: 256 * 1024 };
    let read = tail::backward(&path, &window, |line| {
        let Ok(Entry { change: Change::Decided(last), .. }) = serde_json::from_slice(line) else {
            return ControlFlow::Break(());
        };
        let Outcome::Blocked { .. } = last.outcome else { return ControlFlow::Break(()) };
        blocks += 1;
        same_prompt |= last.delivery.is_some() && last.delivery == prompt_mark(stop);
        if same_prompt { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    // What cannot be read says nothing about the prompt.
    drop(read);
    if same_prompt || blocks >= MOST_IN_A_ROW { Prompt::HeldAlready } else { Prompt::Fresh }
}

pub fn prompt_mark(stop: &Stop) -> Option<Delivered> {
    let stop = Mark::of(&[stop.prompt.as_deref()?.as_bytes()]);
    Some(Delivered { stop, length: None })
}

pub fn off(world: &World, id: &str) -> Option<Off> {
    if fs::exists(&world.home.tombstone(id)) {
        Some(Off::Cancelled)
    } else if fs::exists(&world.home.kill_switch()) {
        Some(Off::KillSwitch)
    } else {
        None
    }
}

pub fn owner_of(opened: &Opened, now_ms: u64, caller: Option<Process>) -> Owner {
    match (opened.state.process, caller) {
        (Some(known), Some(caller)) if known == caller => Owner::Present,
        (Some(known), _) => match owner::is_alive(&known) {
            Alive::Yes | Alive::Unknown => Owner::Present,
            Alive::No => Owner::Gone,
        },
        (None, None) if now_ms.saturating_sub(opened.state.last_seen_ms) > SILENCE_MS => {
            Owner::Gone
        }
        (None, None | Some(_)) => Owner::Present,
    }
}

fn process(world: &World) -> Option<Process> {
    owner::mark(world.env.claude_pid()?)
}

/// The transcript lags, so an error in it counts only when the event shows the very same text.
fn api_error(stop: &Stop, sight: &Sight) -> Option<Trouble> {
    let last = sight.last.as_ref().filter(|last| last.api_error)?;
    let same = stop.said.as_deref().is_none_or(|said| Some(said) == last.text.as_deref());
    same.then_some(Trouble::Server)
}

/// A run that another session owns is none of this one's business; one that nobody owns is reported, once.
pub fn not_the_owner(world: &World, opened: &Opened) -> Verdict {
    let Opened { run, state, .. } = opened;
    if state.owner(run).is_none() {
        let what = format!("run {} names no owner, so it holds nobody", run.id);
        faults::record(&world.home, &Fault::new(Kind::Orphan, &what).of_run(&run.id));
    }
    Verdict::Allow
}

/// Looks at the whole journal, which only a run that is about to end well is worth.
pub fn edited_history(world: &World, run: &RunId) -> Option<String> {
    match journal::is_intact(&world.home.run(run).journal()) {
        Ok(true) => None,
        Ok(false) => Some("`journal.jsonl` was changed in the middle".to_string()),
        Err(error) => Some(describe(&error)),
    }
}

/// The host ended a turn that we had held. It calls that a success; a run does not.
pub fn overridden(world: &World, session: &SessionId, run: &RunId) -> Result<bool, StoreError> {
    let how = "the host ended the turn although it was held, and calls that a success".to_string();
    let ended = store::transact(&world.on(run), |now| match now.state.phase {
        // Another tool's hook may have held it after we let go.
        Phase::Active if now.state.answer.is_some() => Step::Write {
            change: Change::Overridden { how: how.clone() },
            durability: Durability::Synced,
            answer: Some(now.run.clone()),
        },
        Phase::Active | Phase::Paused { .. } | Phase::Orphaned | Phase::Ended(_) => {
            Step::Leave(None)
        }
    })?;
    if let Some(run) = &ended {
        crate::aftermath::forget(world, session, &run.id);
        // Whoever answers the host here has no bell to ring.
        let _bell = notify::about(world, run, Status::Overridden, &how);
    }
    Ok(ended.is_some())
}

pub fn trouble(world: &World, run: &RunId, error: &StoreError) {
    faults::record(&world.home, &Fault::new(Kind::File, &describe(error)).of_run(run));
}

/// What is said once only, with the first block.
#[derive(Debug, Default)]
pub struct Words {
    goal: Option<String>,
    adopted: Option<String>,
}

impl Words {
    pub fn of_files(session: &SessionId) -> Self {
        let adopted = format!(
            "Files that other tools wrote about this session hold it, once per prompt. \
             A person can let go with `ralph cancel {session}`"
        );
        Self { goal: None, adopted: Some(adopted) }
    }

    pub fn telling<'a>(&'a self, redactor: &'a Redactor) -> Telling<'a> {
        let Self { goal, adopted } = self;
        let (goal, adopted) = (goal.as_deref(), adopted.as_deref());
        Telling { redactor, nonce: clock::nonce(), goal, adopted }
    }
}

pub fn words(world: &World, opened: &Opened) -> Words {
    let Opened { run, state, .. } = opened;
    if state.iteration != run.first_iteration && state.memory == Memory::Whole {
        return Words::default();
    }
    let goal = (run.goal_bytes > 0)
        .then(|| fs::read_range(&world.home.run(&run.id).goal(), 0, SHOWN_GOAL).ok())
        .flatten()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let is_first = state.iteration == run.first_iteration;
    let adopted = (is_first && run.origin == Origin::Adopted).then(|| {
        let directory = run.features.first().map(String::as_str).unwrap_or_default();
        let shown = text::line(&tilde(Path::new(directory), world.env.home().as_deref()), 300);
        let shown = shown.replace('`', "'");
        format!(
            "ralph now holds this session, and no other, to `{shown}` (run {}). \
             A person can let go with `ralph cancel {}`",
            run.id, run.id
        )
    });
    Words { goal, adopted }
}

/// The process to remember: another client that has the session open as well does not make the run its own.
pub fn owning(world: &World, state: &State) -> Option<Process> {
    let is_other_alive = state.process.is_some_and(|known| owner::is_alive(&known) == Alive::Yes);
    if is_other_alive { None } else { process(world) }
}

pub fn record(world: &World, decision: Decision, sight: &Sight, redactor: &Redactor) -> Decided {
    Decided {
        rule: decision.rule,
        outcome: decision.outcome,
        because: decision.because,
        mark: decision.mark,
        delivery: sight
            .delivery
            .map(|delivery| Delivered { stop: Mark(delivery.stop), length: delivery.length }),
        report: decision.report,
        observed: sight.observed.clone().map(|observed| kept(observed, redactor)),
        process: process(world),
        tampering: None,
        in_a_row: 0,
        garbled: Vec::new(),
        remedy: decision.remedy,
        background: None,
        took_ms: 0,
    }
}

/// A task list is kept from stop to stop; what it holds is redacted and bounded like everything that is kept.
fn kept(mut observed: Observed, redactor: &Redactor) -> Observed {
    if let Some(checklist) = &mut observed.checklist {
        checklist.items.truncate(MOST_ITEMS);
        for item in &mut checklist.items {
            item.text = text::cut(&redactor.redact(&item.text), LONGEST_ITEM);
        }
    }
    observed
}

/// Shortens a path below the person's home the way people write it.
fn tilde(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
