//! Start of an agent's process, and the initial state of its conversation.

use super::{
    Activity, CARRIED, Context, Conversation, Event, Manner, Nudge, QUEUE, SessionError, Start,
    answer,
};
use crate::agent::{self, Call};
use crate::ending::TurnFacts;
use crate::meter::{self, Opening, Tally};
use crate::ride::Ride;
use crate::told::Told;
use crate::wire;
use ralph_core::drive::{Session as Record, Source};
use ralph_core::facts::Driver;
use ralph_core::id::SessionId;
use ralph_home::store::StoreError;
use ralph_hook::contract::progress;
use ralph_hook::driven;
use ralph_sys::clock::Stopwatch;
use ralph_sys::proc::talk::{self, Heard, Talk};
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, SyncSender};

impl Conversation {
    /// Starts the agent. It is recorded before it runs, so that after a crash the next runner can find its processes.
    pub(crate) fn start(ctx: &mut Ride<'_>, start: &Start) -> Result<Self, SessionError> {
        let opened = ctx.load()?;
        let day = ctx.settings.day_micro_usd;
        let day = day.map(|most| most.saturating_sub(ctx.spent_today().unwrap_or(0)));
        let limits = opened.state.limits(&opened.run);
        let caps = meter::native_caps(limits, opened.state.driving.spent(), day);
        let block_cap = agent::block_cap(limits);
        let call = Call {
            session: &start.session,
            how: start.how,
            model: start.model.as_deref(),
            caps: &caps,
            block_cap,
        };
        let argv = agent::argv(&ctx.client.program, &ctx.settings, &call);
        let mark = talk::new_mark();
        let record = Record {
            id: start.session.clone(),
            how: start.how,
            model: start.model.clone(),
            argv: agent::shown(&argv, &ctx.redactor),
            env: agent::kept(ctx.client, (&ctx.run, block_cap), &ctx.redactor),
            mark: mark.clone(),
        };
        let world = ctx.world(Driver::Alone, None).ok_or(StoreError::OutOfTime)?;
        driven::enter(&world, &ctx.run, &record)?;
        let number = ctx.load()?.state.driving.count;
        ctx.tell(&Told::Session {
            session: start.session.clone(),
            how: start.how,
            number,
            model: start.model.clone(),
            argv: record.argv,
        });
        let (sender, events) = mpsc::sync_channel(QUEUE);
        let place = (ctx.home, &ctx.run);
        let hear = hearing(sender.clone());
        let talk = agent::start(ctx.client, place, (&argv, block_cap, mark.as_deref()), hear)?;
        let mut conversation = Self::new(talk, (sender, events), Tally::open(opening(ctx, start)?));
        conversation.progress = progress::since(ctx.home, &ctx.run, 0).1;
        conversation.send(&wire::initialize("initialize", &answer::hooks()));
        conversation.send(&wire::session_cost(CARRIED));
        Ok(conversation)
    }

    fn new(
        talk: Talk,
        (sender, events): (SyncSender<Event>, Receiver<Event>),
        tally: Tally,
    ) -> Self {
        Self {
            booked: tally.spent(),
            session: tally.session().clone(),
            talk,
            events,
            sender,
            tally,
            facts: TurnFacts::default(),
            decision: None,
            said: None,
            model: None,
            windows: BTreeMap::new(),
            context_tokens: None,
            context: Context::Unasked,
            used: BTreeMap::new(),
            activity: Activity::default(),
            answering: BTreeMap::new(),
            question: None,
            heard: Stopwatch::start(),
            looked: Stopwatch::start(),
            nudge: Nudge::No,
            paused: None,
            manner: Manner::Usual,
            stop: None,
            requests: 0,
            asking: None,
            died: None,
            settled: None,
            progress: 0,
        }
    }
}

fn hearing(lines: SyncSender<Event>) -> impl FnMut(Heard) + Send + 'static {
    move |heard| {
        let event = match heard {
            Heard::Line(line) => Event::Line(line),
            Heard::End => Event::End,
        };
        // The receiver is gone once the conversation has ended.
        drop(lines.send(event));
    }
}

/// The initial values for the cost tally of a new process.
fn opening(ctx: &Ride<'_>, start: &Start) -> Result<Opening, SessionError> {
    let driving = ctx.load()?.state.driving;
    let spent = |id: &SessionId| {
        driving
            .sessions
            .iter()
            .find(|driven| driven.session.id == *id)
            .map(|it| (it.spent, it.turns))
    };
    let (known, turns) = spent(&start.session).unwrap_or_default();
    Ok(Opening {
        session: start.session.clone(),
        source: Source::Agent,
        known,
        turns,
        carried: known,
        worst_turn_micro_usd: meter::worst_turn(&driving, &ctx.settings),
    })
}
