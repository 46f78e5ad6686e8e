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

mod after_turn;
mod handover;
mod landing;
mod landing_pr;
mod report;
mod startup;
mod verify;
mod wait;

use crate::agent::{AgentClient, new_session_id};
use crate::run_context::{HintDelivery, RunContext};
use crate::run_event::{DriveReport, RunEvent, RunWatcher};
use crate::session::{AgentConversation, SessionError, SessionLaunch};
use crate::stop_requests::{StopRequest, StopRequests};
use ralph_core::drive::{PlannedWait, Remedy, RunnerEvent, SessionOrigin};
use ralph_core::event::StopEvent;
use ralph_core::facts::StopDriver;
use ralph_core::id::{RunId, SessionId};
use ralph_core::redact::Redactor;
use ralph_core::status::RunStatus;
use ralph_home::goal_file::GoalFileError;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, StoreError};
use ralph_hook::notify;
use ralph_hook::runner::{self, RunnerStateError};
use ralph_sys::fs::FileLock;
use report::ResumeAdvice;
use std::collections::BTreeMap;

/// The reason on record for a run that a person or the system interrupted.
const STOPPED_BY_SIGNAL: &str = "stopped by Ctrl-C or a signal";

/// The run to drive, and everything needed to start.
#[derive(Debug)]
pub struct DrivePlan<'a> {
    pub client: &'a AgentClient,
    pub home: &'a RalphHome,
    pub run: RunId,
    pub stop_requests: &'a StopRequests,
    /// Notes for the person, shown before the first session starts.
    pub notes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error("run `{0}` was not started with `ralph run`")]
    NotDriven(RunId),
    #[error("run `{run}` has ended: {}", status.name())]
    HasEnded { run: RunId, status: RunStatus },
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Goal(#[from] GoalFileError),
    #[error(transparent)]
    Driven(#[from] RunnerStateError),
}

/// What the loop does next.
#[derive(Debug, PartialEq, Eq)]
enum NextStep {
    /// Starts the first session with this prompt. It may be a fork of another session.
    First(String),
    /// Starts a new session with this prompt.
    Fresh(String),
    /// Sends a message to the current session, and resumes its process first if it has exited.
    Say(String),
    /// Waits for output that comes without a message from us.
    Listen,
    /// Ends the agent's process, then verifies the work.
    Verify,
    /// Verifies the work while the process stays, because the host did not ask about its stop.
    VerifyInPlace,
    /// Lands exactly this verified commit.
    Land(String),
    HandOver(String),
    Wait(PlannedWait),
    /// Resumes a wait that is already on record.
    ResumeWait(PlannedWait),
    /// Asks a person.
    Ask(String),
    /// A person paused the run.
    Paused,
    Park(RunStatus, String),
    Over,
}

/// The state of the loop.
struct RunLoop<'a, 'b> {
    ctx: &'a mut RunContext<'b>,
    conversation: Option<AgentConversation>,
    session: Option<SessionId>,
    /// The last stop that the host asked about.
    last_stop: Option<Box<StopEvent>>,
    /// Number of waits since the last turn that ended normally.
    consecutive_waits: u32,
    /// Consecutive turns that the host ended although they were held.
    overrides: u32,
    /// `HEAD` when the work was last verified.
    verified_head: Option<String>,
    /// Whether the work was verified alone, before it is merged with a target that has moved.
    is_work_verified: bool,
    /// The commit that is being verified before it lands.
    landing_commit: Option<String>,
    /// Held from the merge until the commit has landed.
    landing_lock: Option<FileLock>,
    /// How often landing had to start over.
    landing_rounds: u32,
    /// What a person has to do before a parked run can be resumed.
    advice: ResumeAdvice,
}

/// Drives a run until it ends or until only a person can resume it.
pub fn drive(
    plan: &DrivePlan<'_>,
    watcher: &mut dyn RunWatcher,
) -> Result<DriveReport, DriveError> {
    let opened = store::load_run(plan.home, &plan.run)?;
    let settings = opened.state.drive_settings(&opened.run);
    let settings = settings.ok_or_else(|| DriveError::NotDriven(plan.run.clone()))?;
    let _runner_lock = runner::lock_run(plan.home, &plan.run)?;
    let mut ctx = RunContext {
        client: plan.client,
        home: plan.home,
        run: plan.run.clone(),
        settings,
        stop_requests: plan.stop_requests,
        redactor: Redactor::new(plan.client.env.secrets()),
        watcher,
        hint_delivery: HintDelivery::None,
        acknowledged: StopRequest::None,
        denied_tools: BTreeMap::new(),
    };
    let mut run_loop = RunLoop {
        ctx: &mut ctx,
        conversation: None,
        session: None,
        last_stop: None,
        consecutive_waits: 0,
        overrides: 0,
        verified_head: None,
        is_work_verified: false,
        landing_commit: None,
        landing_lock: None,
        landing_rounds: 0,
        advice: ResumeAdvice::Resume,
    };
    let mut next = run_loop.begin(&plan.notes)?;
    while next != NextStep::Over {
        next = run_loop.step(next)?;
    }
    run_loop.close_conversation()?;
    let report = run_loop.build_report()?;
    run_loop.remove_landed_worktree()?;
    ctx.emit(&RunEvent::Ended(Box::new(report.clone())));
    Ok(report)
}

impl RunLoop<'_, '_> {
    fn step(&mut self, next: NextStep) -> Result<NextStep, DriveError> {
        match next {
            NextStep::First(prompt) => {
                let is_copy = self.ctx.settings.from.is_some();
                self.start_session(
                    if is_copy { SessionOrigin::Forked } else { SessionOrigin::Fresh },
                    &prompt,
                )
            }
            NextStep::Fresh(prompt) => self.start_session(SessionOrigin::Fresh, &prompt),
            NextStep::Say(message) => self.send_message(&message),
            NextStep::Listen => {
                let Some(conversation) = &mut self.conversation else {
                    return Ok(NextStep::Verify);
                };
                let pause = conversation.listen(self.ctx)?;
                self.after_listening(pause)
            }
            NextStep::Verify => {
                self.close_conversation()?;
                match self.worktree() {
                    Some(worktree) => self.merge_and_verify(&worktree),
                    None => self.verify_work(StopDriver::RunnerAlone),
                }
            }
            NextStep::VerifyInPlace if self.worktree().is_some() => {
                self.verify_work(StopDriver::Runner)
            }
            NextStep::VerifyInPlace => self.verify_work(StopDriver::RunnerAlone),
            NextStep::Land(commit) => self.land(&commit),
            NextStep::HandOver(why) => self.hand_over(&why),
            NextStep::Wait(wait) => self.begin_wait(&wait),
            NextStep::ResumeWait(wait) => self.resume_wait(&wait),
            NextStep::Ask(question) => self.ask_person(question),
            NextStep::Paused => {
                let then = NextStep::Say(self.continuation_message()?);
                self.wait_while_paused(then)
            }
            NextStep::Park(status, why) => self.park(status, &why),
            NextStep::Over => Ok(NextStep::Over),
        }
    }

    fn start_session(&mut self, how: SessionOrigin, prompt: &str) -> Result<NextStep, DriveError> {
        let session = match self.session.take() {
            // The id was chosen when the run was created, and is not in use yet.
            Some(session) if self.ctx.load()?.state.driving.count == 0 => session,
            Some(_) | None => new_session_id().ok_or(SessionError::NoChance)?,
        };
        self.start_conversation(session, how, prompt)
    }

    fn send_message(&mut self, message: &str) -> Result<NextStep, DriveError> {
        if let Some(conversation) = &mut self.conversation {
            let pause = conversation.send_and_listen(self.ctx, message)?;
            return self.after_listening(pause);
        }
        match self.ctx.load()?.state.driven_session().cloned() {
            Some(session) => self.start_conversation(session, SessionOrigin::Resumed, message),
            None => self.start_session(SessionOrigin::Fresh, message),
        }
    }

    fn start_conversation(
        &mut self,
        session: SessionId,
        how: SessionOrigin,
        message: &str,
    ) -> Result<NextStep, DriveError> {
        self.close_conversation()?;
        let start = SessionLaunch { session, how, model: self.session_model()? };
        let mut conversation = AgentConversation::start(self.ctx, &start)?;
        let pause = conversation.send_and_listen(self.ctx, message)?;
        self.session = Some(conversation.session().clone());
        self.conversation = Some(conversation);
        self.after_listening(pause)
    }

    /// The stronger model, if that remedy was tried and the run has made no progress since.
    fn session_model(&self) -> Result<Option<String>, DriveError> {
        let tried = self.ctx.load()?.state.driving.tried;
        let settings = &self.ctx.settings;
        let stronger = settings.stronger_model.as_ref();
        let stronger = stronger.filter(|_| tried.contains(&Remedy::StrongerModel));
        Ok(stronger.or(settings.model.as_ref()).cloned())
    }

    /// Lets the agent's process, if any, exit by itself.
    fn close_conversation(&mut self) -> Result<(), DriveError> {
        if let Some(conversation) = self.conversation.take() {
            conversation.shut_down(self.ctx)?;
        }
        Ok(())
    }

    /// Terminates the agent's process at once.
    fn terminate_conversation(&mut self) -> Result<(), DriveError> {
        if let Some(conversation) = self.conversation.take() {
            conversation.terminate(self.ctx)?;
        }
        Ok(())
    }

    /// Parks the run until a person resumes it. `status` and `why` are shown as its state.
    fn park(&mut self, status: RunStatus, why: &str) -> Result<NextStep, DriveError> {
        // Recorded first, so that a decision that is still under way charges nothing.
        let opened = self.ctx.record(RunnerEvent::Parked { status, why: why.to_string() })?;
        self.terminate_conversation()?;
        if status != RunStatus::Cancelled {
            let world = self.ctx.world(StopDriver::RunnerAlone, None);
            let next = self.parked_advice(&opened.run, &opened.state);
            let _bell = notify::announce_parked(&world, &opened.run, status, why, next);
        }
        Ok(NextStep::Over)
    }
}
