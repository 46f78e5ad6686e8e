//! The loop that drives one run over as many sessions as it takes. Each [`NextStep`] ends in another one, until the
//! run has ended or is parked.
//!
//! ```text
//! startup ─▶ First ─┐                                  ┌─ held by the runner itself ──▶ Say
//!            Say ───┼─▶ turn ─▶ ListenEnd ─▶ after_turn ─ context full, no progress ──▶ HandOver ─▶ Fresh
//!            Listen ┘                                  ├─ all requirements met ───────▶ Verify ─▶ Over, or Say
//!                                                      ├─ provider error or limit ────▶ Wait ─▶ Say
//!                                                      └─ only a person can continue ─▶ Ask, Park ─▶ Over
//! ```

mod after;
mod begin;
mod handover;
mod landing;
mod look;
mod report;
mod request;
mod wait;

use crate::agent::{Client, new_session};
use crate::ride::{Ride, Word};
use crate::session::{Conversation, SessionError, Start};
use crate::told::{Report, Told, Watcher};
use crate::wishes::{Wish, Wishes};
use ralph_core::drive::{Drove, How, Remedy, Wait};
use ralph_core::event::Stop;
use ralph_core::facts::Driver;
use ralph_core::id::{RunId, SessionId};
use ralph_core::redact::Redactor;
use ralph_core::status::Status;
use ralph_home::paths::Home;
use ralph_home::store::{self, StoreError};
use ralph_hook::driven::{self, DrivenError};
use ralph_hook::notify;
use ralph_sys::fs::Lock;
use report::Advice;
use std::collections::BTreeMap;

/// The reason on record for a run that a person or the system interrupted.
const WISHED: &str = "stopped by Ctrl-C or a signal";

/// The run to drive, and everything needed to start.
#[derive(Debug)]
pub struct Plan<'a> {
    pub client: &'a Client,
    pub home: &'a Home,
    pub run: RunId,
    pub wishes: &'a Wishes,
    /// Notes for the person, shown before the first session starts.
    pub notes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error("run `{0}` was not started with `ralph run`")]
    NotDriven(RunId),
    #[error("run `{run}` has ended: {}", status.name())]
    HasEnded { run: RunId, status: Status },
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Driven(#[from] DrivenError),
}

/// What the loop does next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Starts the first session with this prompt. It may be a fork of another session.
    First(String),
    /// Starts a new session with this prompt.
    Fresh(String),
    /// Sends a message to the current session, and resumes its process first if it has exited.
    Say(String),
    /// Waits for output that comes without a message from us.
    Listen,
    /// Ends the agent's process, then verifies the work.
    Look,
    /// Verifies the work while the process stays, because the host did not ask about its stop.
    Decide,
    /// Lands exactly this verified commit.
    Land(String),
    HandOver(String),
    Wait(Wait),
    /// Resumes a wait that is already on record.
    WaitOn(Wait),
    /// Asks a person.
    Ask(String),
    /// A person paused the run.
    Paused,
    Park(Status, String),
    Over,
}

/// The state of the loop.
struct Night<'a, 'b> {
    ride: &'a mut Ride<'b>,
    open: Option<Conversation>,
    session: Option<SessionId>,
    /// The last stop that the host asked about.
    stop: Option<Box<Stop>>,
    /// Number of waits since the last turn that ended normally.
    waits: u32,
    /// Consecutive turns that the host ended although they were held.
    overrides: u32,
    /// `HEAD` when the work was last verified.
    judged: Option<String>,
    /// The commit that is being verified before it lands.
    closing: Option<String>,
    /// Held from the merge until the commit has landed.
    landing: Option<Lock>,
    /// How often landing had to start over.
    rounds: u32,
    /// What a person has to do before a parked run can be resumed.
    advice: Advice,
}

/// Drives a run until it ends or until only a person can resume it.
pub fn drive(plan: &Plan<'_>, watcher: &mut dyn Watcher) -> Result<Report, DriveError> {
    let opened = store::load(plan.home, &plan.run)?;
    let settings = opened.state.settings(&opened.run);
    let settings = settings.ok_or_else(|| DriveError::NotDriven(plan.run.clone()))?;
    let _runner_lock = driven::take(plan.home, &plan.run)?;
    let mut ctx = Ride {
        client: plan.client,
        home: plan.home,
        run: plan.run.clone(),
        settings,
        wishes: plan.wishes,
        redactor: Redactor::new(plan.client.env.secrets()),
        watcher,
        word: Word::None,
        heeded: Wish::None,
        denied: BTreeMap::new(),
    };
    let mut run_loop = Night {
        ride: &mut ctx,
        open: None,
        session: None,
        stop: None,
        waits: 0,
        overrides: 0,
        judged: None,
        closing: None,
        landing: None,
        rounds: 0,
        advice: Advice::GoOn,
    };
    let mut next = run_loop.begin(&plan.notes)?;
    while next != Next::Over {
        next = run_loop.step(next)?;
    }
    run_loop.close()?;
    let report = run_loop.report()?;
    run_loop.clear_away()?;
    ctx.tell(&Told::Ended(Box::new(report.clone())));
    Ok(report)
}

impl Night<'_, '_> {
    fn step(&mut self, next: Next) -> Result<Next, DriveError> {
        match next {
            Next::First(prompt) => {
                let is_copy = self.ride.settings.from.is_some();
                self.fresh(if is_copy { How::Forked } else { How::Fresh }, &prompt)
            }
            Next::Fresh(prompt) => self.fresh(How::Fresh, &prompt),
            Next::Say(message) => self.say(&message),
            Next::Listen => {
                let Some(conversation) = &mut self.open else { return Ok(Next::Look) };
                let pause = conversation.listen(self.ride)?;
                self.after(pause)
            }
            Next::Look => {
                self.close()?;
                match self.worktree() {
                    Some(worktree) => self.bring_together(&worktree),
                    None => self.look(Driver::Alone),
                }
            }
            Next::Decide if self.worktree().is_some() => self.look(Driver::Runner),
            Next::Decide => self.look(Driver::Alone),
            Next::Land(commit) => self.land(&commit),
            Next::HandOver(why) => self.hand_over(&why),
            Next::Wait(wait) => self.wait(&wait),
            Next::WaitOn(wait) => self.go_on_waiting(&wait),
            Next::Ask(question) => self.ask(question),
            Next::Paused => {
                let then = Next::Say(self.continuation()?);
                self.paused(then)
            }
            Next::Park(status, why) => self.park(status, &why),
            Next::Over => Ok(Next::Over),
        }
    }

    fn fresh(&mut self, how: How, prompt: &str) -> Result<Next, DriveError> {
        let session = match self.session.take() {
            // The id was chosen when the run was created, and is not in use yet.
            Some(session) if self.ride.load()?.state.driving.count == 0 => session,
            Some(_) | None => new_session().ok_or(SessionError::NoChance)?,
        };
        self.start(session, how, prompt)
    }

    fn say(&mut self, message: &str) -> Result<Next, DriveError> {
        if let Some(conversation) = &mut self.open {
            let pause = conversation.say(self.ride, message)?;
            return self.after(pause);
        }
        match self.ride.load()?.state.driven_session().cloned() {
            Some(session) => self.start(session, How::Resumed, message),
            None => self.fresh(How::Fresh, message),
        }
    }

    fn start(&mut self, session: SessionId, how: How, message: &str) -> Result<Next, DriveError> {
        self.close()?;
        let start = Start { session, how, model: self.model()? };
        let mut conversation = Conversation::start(self.ride, &start)?;
        let pause = conversation.say(self.ride, message)?;
        self.session = Some(conversation.session().clone());
        self.open = Some(conversation);
        self.after(pause)
    }

    /// The stronger model, if that remedy was tried and the run has made no progress since.
    fn model(&self) -> Result<Option<String>, DriveError> {
        let tried = self.ride.load()?.state.driving.tried;
        let settings = &self.ride.settings;
        let stronger = settings.stronger_model.as_ref();
        let stronger = stronger.filter(|_| tried.contains(&Remedy::StrongerModel));
        Ok(stronger.or(settings.model.as_ref()).cloned())
    }

    /// Lets the agent's process, if any, exit by itself.
    fn close(&mut self) -> Result<(), DriveError> {
        if let Some(conversation) = self.open.take() {
            conversation.leave(self.ride)?;
        }
        Ok(())
    }

    /// Terminates the agent's process at once.
    fn cut_off(&mut self) -> Result<(), DriveError> {
        if let Some(conversation) = self.open.take() {
            conversation.end(self.ride)?;
        }
        Ok(())
    }

    /// Parks the run until a person resumes it. `status` and `why` are shown as its state.
    fn park(&mut self, status: Status, why: &str) -> Result<Next, DriveError> {
        // Recorded first, so that a decision that is still under way charges nothing.
        let opened = self.ride.record(Drove::Parked { status, why: why.to_string() })?;
        self.cut_off()?;
        if let Some(world) = self.ride.world(Driver::Alone, None)
            && status != Status::Cancelled
        {
            let _bell = notify::about(&world, &opened.run, status, why);
        }
        Ok(Next::Over)
    }
}
