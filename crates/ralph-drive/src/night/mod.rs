//! One run over as many sessions as it takes.
//!
//! ```text
//! begin ─▶ First ─┐                         ┌─ held by the runner itself ─▶ Say
//!          Say ───┼─▶ a turn ─▶ Pause ─▶ after ─ context full, no progress ──▶ HandOver ─▶ Fresh
//!          Listen ┘                         ├─ all met ─────────────────────▶ Look ─▶ Over, or Say
//!                                           ├─ weather ─────────────────────▶ Wait ─▶ Say
//!                                           └─ only a person goes on ───────▶ Ask, Park ─▶ Over
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
use ralph_exec::driven::{self, DrivenError};
use ralph_exec::fs::Lock;
use ralph_exec::notify;
use ralph_exec::paths::Home;
use ralph_exec::store::{self, StoreError};
use report::Advice;
use std::collections::BTreeMap;

/// Why nobody goes on with it, where a person or the system wished so.
const WISHED: &str = "Ctrl-C or a signal ended it";

/// What is to be driven, and how it is begun.
#[derive(Debug)]
pub struct Plan<'a> {
    pub client: &'a Client,
    pub home: &'a Home,
    pub run: RunId,
    pub wishes: &'a Wishes,
    /// What the person would otherwise find out too late.
    pub notes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error("run `{0}` was not started to be driven")]
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

/// What is done next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The first session, which may be a copy of another one.
    First(String),
    /// A new session, which starts from this.
    Fresh(String),
    /// Said in the session that there is, whether or not its process is.
    Say(String),
    /// Something is still to come by itself.
    Listen,
    /// The process ends, and the work is looked at once more.
    Look,
    /// The same while the process stays: its host did not ask.
    Decide,
    /// What was verified goes back, exactly this commit.
    Land(String),
    HandOver(String),
    Wait(Wait),
    /// The same for one that is on record.
    WaitOn(Wait),
    /// A person is asked.
    Ask(String),
    /// A person paused it.
    Paused,
    Park(Status, String),
    Over,
}

/// A night at work.
struct Night<'a, 'b> {
    ride: &'a mut Ride<'b>,
    open: Option<Conversation>,
    session: Option<SessionId>,
    /// The last stop that the host asked about.
    stop: Option<Box<Stop>>,
    /// Waits since a turn last ended as it should.
    waits: u32,
    /// Turns in a row that the host ended though they were held.
    overrides: u32,
    /// The commit that was there when the work was last looked at.
    judged: Option<String>,
    /// The commit that is being looked at as it would land.
    closing: Option<String>,
    /// Held while it lands.
    landing: Option<Lock>,
    /// How often the target moved away meanwhile.
    rounds: u32,
    /// What a person has to do before it goes on, set where it is parked.
    advice: Advice,
}

/// Drives a run to its end, or until only a person can go on with it.
pub fn drive(plan: &Plan<'_>, watcher: &mut dyn Watcher) -> Result<Report, DriveError> {
    let opened = store::load(plan.home, &plan.run)?;
    let settings = opened.state.settings(&opened.run);
    let settings = settings.ok_or_else(|| DriveError::NotDriven(plan.run.clone()))?;
    let _reins = driven::take(plan.home, &plan.run)?;
    let mut ride = Ride {
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
    let mut night = Night {
        ride: &mut ride,
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
    let mut next = night.begin(&plan.notes)?;
    while next != Next::Over {
        next = night.step(next)?;
    }
    night.close()?;
    let report = night.report()?;
    night.clear_away()?;
    ride.tell(&Told::Ended(Box::new(report.clone())));
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
            // Named when the run began, and not used yet.
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

    /// A stronger one for as long as nothing has moved since it was tried.
    fn model(&self) -> Result<Option<String>, DriveError> {
        let tried = self.ride.load()?.state.driving.tried;
        let settings = &self.ride.settings;
        let stronger = settings.stronger_model.as_ref();
        let stronger = stronger.filter(|_| tried.contains(&Remedy::StrongerModel));
        Ok(stronger.or(settings.model.as_ref()).cloned())
    }

    /// Lets the process end, if there is one: it has nothing left to do.
    fn close(&mut self) -> Result<(), DriveError> {
        if let Some(conversation) = self.open.take() {
            conversation.leave(self.ride)?;
        }
        Ok(())
    }

    /// Ends it at once.
    fn cut_off(&mut self) -> Result<(), DriveError> {
        if let Some(conversation) = self.open.take() {
            conversation.end(self.ride)?;
        }
        Ok(())
    }

    /// Nobody drives it any more until a person does. What is said last is what it is shown as.
    fn park(&mut self, status: Status, why: &str) -> Result<Next, DriveError> {
        // On record first: what is being decided meanwhile charges nothing then.
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
