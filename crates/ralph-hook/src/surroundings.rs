//! Gathers the facts that a decision about one stop needs: owner, off switches, approval, spending.
//!
//! Evidence about the work itself comes from `sources`.

use crate::notify;
use crate::observe::{Sight, Tools};
use ralph_core::decide::Decision;
use ralph_core::event::{Stop, Trouble};
use ralph_core::facts::{Cap, Facts, Off, Owner, Prompt, Trust};
use ralph_core::id::{RunId, SessionId};
use ralph_core::mark::Mark;
use ralph_core::reason::Telling;
use ralph_core::record::{
    Change, Decided, Delivered, Entry, Observed, Origin, Outcome, Process, Run,
};
use ralph_core::redact::Redactor;
use ralph_core::run::{Memory, Phase, State};
use ralph_core::status::Status;
use ralph_core::text;
use ralph_core::verdict::Verdict;
use ralph_home::faults::{self, Fault, Kind, describe};
use ralph_home::journal;
use ralph_home::store::{self, Opened, Step, StoreError};
use ralph_home::world::{Driven, World};
use ralph_home::{run_process, session_pointer};
use ralph_lists::lists;
use ralph_policy::trust;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability};
use ralph_sys::owner::{self, Alive};
use ralph_sys::tail::{self, Window};
use std::ops::ControlFlow;
use std::path::Path;

/// How many consecutive blocks files alone may cause when the host sends no prompt id to tell stops apart.
const MOST_IN_A_ROW: u32 = 25;

const MOST_ITEMS: usize = 500;
const LONGEST_ITEM: usize = 200;

/// How many bytes of the goal the first block quotes.
const SHOWN_GOAL: usize = 16 * 1024;

pub fn facts(world: &World, stop: &Stop, opened: &Opened, sight: &Sight) -> Facts {
    let now_ms = clock::now_ms();
    let facts = Facts {
        off: off(world, opened.run.id.as_str()),
        owner: run_process::owner_of(opened, now_ms, process(world)),
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
            // Without a transcript the count is unknown, and an unknown count must not end a hold.
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

/// A runner meters every session of the run, and knows more from the host's stream than the transcript shows.
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

/// Checked at every stop, because a person may revoke an approval during the run.
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

/// Facts for a session that only files of other tools hold.
pub fn facts_without_run(world: &World, session: &SessionId, stop: &Stop) -> Facts {
    Facts {
        off: off(world, session.as_str()),
        prompt: prompt(world, session, stop),
        ..Facts::quiet(clock::now_ms())
    }
}

/// Whether files already held this prompt. The host's own flag is not enough: a host that never sets it would be held
/// forever.
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
    // An unreadable journal counts as one without earlier holds.
    drop(read);
    if same_prompt || blocks >= MOST_IN_A_ROW { Prompt::HeldAlready } else { Prompt::Fresh }
}

/// Identifies the prompt of a stop in the journal of a session that only files hold.
pub fn prompt_mark(stop: &Stop) -> Option<Delivered> {
    let stop = Mark::of(&[stop.prompt.as_deref()?.as_bytes()]);
    Some(Delivered { stop, length: None })
}

/// The switch that turns ralph off for this run or session, if one is set.
pub fn off(world: &World, id: &str) -> Option<Off> {
    if fs::exists(&world.home.tombstone(id)) {
        Some(Off::Cancelled)
    } else if fs::exists(&world.home.kill_switch()) {
        Some(Off::KillSwitch)
    } else {
        None
    }
}

fn process(world: &World) -> Option<Process> {
    owner::mark(world.env.claude_pid()?)
}

/// An API error at the end of the transcript. The transcript lags, so it counts only if the event has the same text.
fn api_error(stop: &Stop, sight: &Sight) -> Option<Trouble> {
    let last = sight.last.as_ref().filter(|last| last.api_error)?;
    let same = stop.said.as_deref().is_none_or(|said| Some(said) == last.text.as_deref());
    same.then_some(Trouble::Server)
}

/// Allows a stop of a session that does not own the run. A run without any owner is recorded as a fault.
pub fn not_the_owner(world: &World, opened: &Opened) -> Verdict {
    let Opened { run, state, .. } = opened;
    if state.owner(run).is_none() {
        let what = format!("run {} names no owner, so it holds no session", run.id);
        faults::record(&world.home, &Fault::new(Kind::Orphan, &what).of_run(&run.id));
    }
    Verdict::Allow
}

/// Verifies the whole journal. This is slow, so it is done only before a run ends well.
pub fn edited_history(world: &World, run: &RunId) -> Option<String> {
    match journal::is_intact(&world.home.run(run).journal()) {
        Ok(true) => None,
        Ok(false) => Some("`journal.jsonl` was changed in the middle".to_string()),
        Err(error) => Some(describe(&error)),
    }
}

/// Ends a run as overridden if the host ended a turn that ralph had blocked. Returns whether it did.
pub fn overridden(world: &World, session: &SessionId, run: &RunId) -> Result<bool, StoreError> {
    let how = "the host ended the turn although ralph held it, and reported success".to_string();
    let ended = store::transact(&world.on(run), |now| match now.state.phase {
        // Without an answer of ours, another tool's hook may have caused the block.
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
        session_pointer::end_session(world, session, &run.id);
        // The reply to this event cannot ring the bell.
        let _bell = notify::about(world, run, Status::Overridden, &how);
    }
    Ok(ended.is_some())
}

/// Records a failed access to a run as a fault.
pub fn trouble(world: &World, run: &RunId, error: &StoreError) {
    faults::record(&world.home, &Fault::new(Kind::File, &describe(error)).of_run(run));
}

/// Text that only the first block of a run includes.
#[derive(Debug, Default)]
pub struct Words {
    goal: Option<String>,
    adopted: Option<String>,
}

impl Words {
    pub fn of_files(session: &SessionId) -> Self {
        let adopted = format!(
            "Files written by other tools hold this session, once per prompt. \
             A person can release it with `ralph cancel {session}`"
        );
        Self { goal: None, adopted: Some(adopted) }
    }

    pub fn telling<'a>(&'a self, redactor: &'a Redactor) -> Telling<'a> {
        let Self { goal, adopted } = self;
        let (goal, adopted) = (goal.as_deref(), adopted.as_deref());
        Telling { redactor, nonce: clock::nonce(), goal, adopted }
    }
}

/// The goal and the notice of adoption. The goal is repeated after a compaction, because the agent lost it.
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
             A person can release it with `ralph cancel {}`",
            run.id, run.id
        )
    });
    Words { goal, adopted }
}

/// The process to record as owner. A second client that opens the same session does not take over the run.
pub fn owning(world: &World, state: &State) -> Option<Process> {
    let is_other_alive = state.process.is_some_and(|known| owner::is_alive(&known) == Alive::Yes);
    if is_other_alive { None } else { process(world) }
}

/// The journal record of a decision; the caller fills in the fields that only it knows.
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

/// Redacts and bounds the checklist before it is stored for the next stop.
fn kept(mut observed: Observed, redactor: &Redactor) -> Observed {
    if let Some(checklist) = &mut observed.checklist {
        checklist.items.truncate(MOST_ITEMS);
        for item in &mut checklist.items {
            item.text = text::cut(&redactor.redact(&item.text), LONGEST_ITEM);
        }
    }
    observed
}

/// Abbreviates the home directory as `~`.
fn tilde(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
