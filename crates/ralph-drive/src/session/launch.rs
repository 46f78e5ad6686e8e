//! Start of an agent's process, and the initial state of its conversation.

use super::{
    AgentConversation, CARRIED_COST_REQUEST, ClientActivity, ContextQuery, ConversationEvent,
    EVENT_QUEUE, NudgeState, SessionError, SessionLaunch, StopHandling,
};
use crate::agent;
use crate::meter::{self, CostTally, TallyStart};
use crate::run_context::RunContext;
use crate::run_event::RunEvent;
use crate::turn_ending::TurnFacts;
use ralph_core::drive::{CostSource, RunnerSession as Record};
use ralph_core::facts::StopDriver;
use ralph_core::id::SessionId;
use ralph_home::store::StoreError;
use ralph_hook::contract::gate_log;
use ralph_hook::runner;
use ralph_host::agent_launch::AgentLaunch;
use ralph_host::stream::StreamProtocol;
use ralph_sys::clock::Stopwatch;
use ralph_sys::proc::line_process::{self, LineProcess, LineProcessOutput};
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, SyncSender};

impl AgentConversation {
    /// Starts the agent. It is recorded before it runs, so that after a crash the next runner can find its processes.
    pub(crate) fn start(
        ctx: &mut RunContext<'_>,
        start: &SessionLaunch,
    ) -> Result<Self, SessionError> {
        let opened = ctx.load()?;
        let spent_today = ctx.spent_today()?;
        let day = ctx.settings.day_micro_usd.zip(spent_today);
        let day = day.map(|(most, spent)| most.saturating_sub(spent));
        let limits = opened.state.limits(&opened.run);
        let caps = meter::native_caps(limits, opened.state.total_spent(), day);
        let block_cap = agent::block_cap(limits);
        let call = AgentLaunch {
            session: &start.session,
            how: start.how,
            model: start.model.as_deref(),
            max_budget_usd: caps.max_budget_usd.as_deref(),
            block_cap,
        };
        let argv = agent::agent_argv(&ctx.client.program, &ctx.settings, &call);
        let mark = line_process::new_process_mark();
        let record = Record {
            id: start.session.clone(),
            how: start.how,
            model: start.model.clone(),
            argv: agent::redacted_argv(&argv, &ctx.redactor),
            env: agent::recorded_environment(
                ctx.host(),
                ctx.client,
                (&ctx.run, block_cap),
                &ctx.redactor,
            ),
            mark: mark.clone(),
        };
        let world = ctx.world(StopDriver::RunnerAlone, None);
        runner::enter_session(&world, &ctx.run, &record)?;
        let number = ctx.load()?.state.driving.count;
        ctx.emit(&RunEvent::Session {
            session: start.session.clone(),
            how: start.how,
            number,
            model: start.model.clone(),
            argv: record.argv,
        });
        let (sender, events) = mpsc::sync_channel(EVENT_QUEUE);
        let place = (ctx.home, &ctx.run);
        let hear = forward_lines(sender.clone());
        let talk = agent::start_agent(
            ctx.host(),
            ctx.client,
            place,
            (&argv, block_cap, mark.as_deref()),
            hear,
        )?;
        let stream = &ctx.host().stream;
        let tally = CostTally::new(tally_start(ctx, start)?);
        let mut conversation = Self::new(talk, stream, (sender, events), tally);
        conversation.progress =
            gate_log::read_gate_log(ctx.home, &ctx.run, 0).map_err(StoreError::File)?.1;
        conversation.send(&(stream.open_conversation)("initialize"));
        conversation.send(&(stream.session_cost_request)(CARRIED_COST_REQUEST));
        Ok(conversation)
    }

    fn new(
        talk: LineProcess,
        stream: &'static StreamProtocol,
        (sender, events): (SyncSender<ConversationEvent>, Receiver<ConversationEvent>),
        tally: CostTally,
    ) -> Self {
        Self {
            booked: tally.spent(),
            session: tally.session().clone(),
            talk,
            stream,
            events,
            sender,
            tally,
            facts: TurnFacts::default(),
            decision: None,
            last_text: None,
            model: None,
            windows: BTreeMap::new(),
            context_tokens: None,
            context_query: ContextQuery::NotSent,
            window_use: BTreeMap::new(),
            activity: ClientActivity::default(),
            answering: BTreeMap::new(),
            question: None,
            since_activity: Stopwatch::start(),
            since_poll: Stopwatch::start(),
            nudge: NudgeState::NotSent,
            since_pause: None,
            stop_handling: StopHandling::Decide,
            last_stop: None,
            requests: 0,
            pending_stop: None,
            since_exit: None,
            since_settled: None,
            progress: 0,
        }
    }
}

fn forward_lines(
    lines: SyncSender<ConversationEvent>,
) -> impl FnMut(LineProcessOutput) + Send + 'static {
    move |heard| {
        let event = match heard {
            LineProcessOutput::Line(line) => ConversationEvent::Line(line),
            LineProcessOutput::End => ConversationEvent::End,
        };
        // The receiver is gone once the conversation has ended.
        drop(lines.send(event));
    }
}

/// The initial values for the cost tally of a new process.
fn tally_start(ctx: &RunContext<'_>, start: &SessionLaunch) -> Result<TallyStart, SessionError> {
    let driving = ctx.load()?.state.driving;
    let spent = |id: &SessionId| {
        driving
            .sessions
            .iter()
            .find(|driven| driven.session.id == *id)
            .map(|it| (it.spent, it.turns))
    };
    let (known, turns) = spent(&start.session).unwrap_or_default();
    Ok(TallyStart {
        session: start.session.clone(),
        source: CostSource::Agent,
        known,
        turns,
        carried: known,
        worst_turn_micro_usd: meter::worst_turn_cost(&driving, &ctx.settings),
    })
}
