//! The final report of a driven run, and the next command it suggests.

use super::{DriveError, RunLoop};
use crate::run_context;
use crate::run_event::{DeniedTool, DriveReport, OpenRequirement};
use crate::turn_ending::TurnEnding;
use ralph_core::drive::RunnerEvent;
use ralph_core::ending::{self, ParkedWait};
use ralph_core::facts::DeclaredPause;
use ralph_core::record::{JournalEntry, ReportedStatus, RunChange, RunRecord, StopOutcome};
use ralph_core::requirement::OLD_FAILURES_REQUIREMENT;
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_git::{git, worktree};
use ralph_home::store::{LoadedRun, StoreError};
use ralph_hook::run_output::{self, RunOutput};
use std::path::Path;

const SHOWN_OPEN: usize = 20;
const SHOWN_ID: usize = 10;

/// What a person has to do before a parked run can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResumeAdvice {
    Resume,
    /// Answer the agent's question.
    Answer,
    /// Resolve a conflict with the target branch.
    Resolve,
    Trust,
    LogIn,
    Pay,
    /// Start another run: the model of this one does not exist and cannot be changed.
    ChangeModel,
    ForkAnother,
}

impl ResumeAdvice {
    pub(super) fn for_ending(ending: &TurnEnding) -> Self {
        match ending {
            TurnEnding::Auth(_) => Self::LogIn,
            TurnEnding::Billing(_) => Self::Pay,
            TurnEnding::NotFound(_) => Self::ChangeModel,
            TurnEnding::Done
            | TurnEnding::Unasked
            | TurnEnding::Overridden
            | TurnEnding::Empty
            | TurnEnding::HookStopped
            | TurnEnding::MaxTurns
            | TurnEnding::Budget
            | TurnEnding::RateLimited { .. }
            | TurnEnding::Overloaded
            | TurnEnding::Network
            | TurnEnding::Server
            | TurnEnding::ContextFull
            | TurnEnding::OutputLimit
            | TurnEnding::Refused
            | TurnEnding::Interrupted
            | TurnEnding::NoSession
            | TurnEnding::Error(_)
            | TurnEnding::Crashed(_)
            | TurnEnding::Silent => Self::Resume,
        }
    }
}

impl RunLoop<'_, '_> {
    pub(super) fn build_report(&mut self) -> Result<DriveReport, DriveError> {
        let LoadedRun { run, state, .. } = self.ctx.load()?;
        let phase = self.ctx.phase()?;
        let entries = self.ctx.entries_for_display();
        let (status, because) = match (phase, &state.driving.parked) {
            (RunPhase::Ended(status), _) => (status, ending_reason(&entries, status)),
            (_, Some(parked)) => (parked.status, parked.why.clone()),
            (RunPhase::Active | RunPhase::Orphaned | RunPhase::Paused { .. }, None) => {
                (RunStatus::Crashed, "no runner drives it any more".to_string())
            }
        };
        let trail = run_output::capture_output(self.ctx.home, &run, "end of the run");
        let standing = run_context::run_progress(&run, &state, None);
        let lines = state.report.iter().flat_map(|report| &report.lines);
        let open = lines.filter(|line| line.standing != ReportedStatus::Advisory).take(SHOWN_OPEN);
        let next = self.next_command(&run, &state, phase, &trail);
        let settled = last_landing_outcome(&entries);
        let is_mentioned = settled.is_some() || self.names_worktree(&because);
        let unmerged = self.unmerged_work(&trail).filter(|_| !is_mentioned);
        let denied =
            |(tool, count): (&String, &u32)| DeniedTool { tool: tool.clone(), count: *count };
        Ok(DriveReport {
            run: run.id.clone(),
            title: run.title.clone(),
            agent: self.ctx.settings.agent.clone(),
            status,
            because: self.ctx.redactor.redact(&because),
            standing,
            open: open
                .map(|line| OpenRequirement {
                    name: line.name.clone(),
                    note: text::clean_line(&line.note, 200),
                })
                .collect(),
            met: state.report.as_ref().map(|report| report.met.clone()).unwrap_or_default(),
            old_failures: state.report.iter().flat_map(|report| &report.lines).find_map(|line| {
                let is_named = line.name == OLD_FAILURES_REQUIREMENT;
                is_named.then(|| text::clean_line(&line.note, 300))
            }),
            // A commit made after the verification was not judged.
            commit: trail.commit().filter(|commit| {
                self.verified_head.as_ref().is_none_or(|judged| judged.starts_with(commit.as_str()))
            }),
            uncommitted: trail.work.as_ref().map(|work| work.changed_count),
            files: trail.files,
            commits: trail.commits,
            checkpoint: trail.checkpoint.map(|number| number.to_string()),
            next,
            settled,
            unmerged,
            assumed_micro_usd: state.driving.assumed_micro_usd(),
            denied: self.ctx.denied_tools.iter().map(denied).collect(),
            sessions: state.driving.sessions.iter().map(|it| it.session.id.clone()).collect(),
        })
    }

    /// How the run's work tree was settled, if it was.
    pub(super) fn landing_outcome(&self) -> Result<Option<String>, StoreError> {
        Ok(last_landing_outcome(&self.ctx.entries()?))
    }

    fn unmerged_work(&self, trail: &RunOutput) -> Option<String> {
        let worktree = self.ctx.settings.worktree.as_ref()?;
        let changed = trail.work.as_ref().map(|work| work.changed_count);
        Some(worktree::describe_unmerged(worktree, changed))
    }

    /// Whether the reason already contains the path of the work tree.
    fn names_worktree(&self, because: &str) -> bool {
        let worktree = self.ctx.settings.worktree.as_ref();
        worktree.is_some_and(|worktree| because.contains(&format!("`{}`", worktree.path)))
    }

    /// The command that shows the verified work from the person's directory. Landed work is reported separately.
    fn review_command(&self, run: &RunRecord, trail: &RunOutput) -> Option<String> {
        let work = trail.work.as_ref().filter(|_| self.ctx.settings.worktree.is_none())?;
        let project = Path::new(&run.project);
        let here = self.ctx.client.env.current_dir();
        let is_here =
            here.is_some_and(|here| git::work_tree_root(&here) == git::work_tree_root(project));
        let git = if is_here { "git".to_string() } else { worktree::git_command_in(&run.project) };
        let base = self.ctx.settings.base().filter(|base| work.head.as_deref() != Some(*base));
        let base = base.map(|base| base.get(..SHOWN_ID).unwrap_or(base));
        match (work.changed_count, &work.head) {
            (0, _) => Some(format!("{git} diff {}", base?)),
            (_, Some(_)) => Some(format!("{git} status && {git} diff {}", base.unwrap_or("HEAD"))),
            (_, None) => Some(format!("{git} status")),
        }
    }

    /// What the report suggests next: a command or a sentence.
    fn next_command(
        &self,
        run: &RunRecord,
        state: &RunState,
        phase: RunPhase,
        trail: &RunOutput,
    ) -> Option<String> {
        match phase {
            RunPhase::Ended(RunStatus::Verified) => self.review_command(run, trail),
            RunPhase::Ended(RunStatus::Green | RunStatus::NeedsReview) => {
                let id = &run.id;
                let review = self
                    .review_command(run, trail)
                    .unwrap_or_else(|| format!("ralph checkpoint diff {id}"));
                Some(format!(
                    "review the change (`{review}`, `ralph why {id}`), then run `ralph accept {id}`, or undo it"
                ))
            }
            RunPhase::Ended(status @ RunStatus::Exhausted) => {
                Some(ending::fork_command(&run.id, status))
            }
            RunPhase::Ended(status @ RunStatus::NeedsHuman) => {
                Some(ending::next_step(status, run, state.limits(run), None))
            }
            RunPhase::Ended(_) => Some(format!("ralph why {}", run.id)),
            RunPhase::Active | RunPhase::Orphaned | RunPhase::Paused { .. } => {
                Some(self.resume_command(run))
            }
        }
    }

    /// The next step of a parked run in a sentence.
    pub(super) fn parked_advice(&self, run: &RunRecord, state: &RunState) -> String {
        if let Some(DeclaredPause::Approval(_)) = state.declared {
            let approve = format!("ralph approve {}", run.id);
            let wait = ParkedWait::Approval(&approve);
            return ending::parked_step(RunStatus::NeedsHuman, run, wait, None);
        }
        if self.advice == ResumeAdvice::Answer {
            return ending::parked_step(RunStatus::NeedsHuman, run, ParkedWait::Answer, None);
        }
        let command = self.resume_command(run);
        if command.contains('`') { command } else { format!("`{command}`") }
    }

    fn resume_command(&self, run: &RunRecord) -> String {
        let id = &run.id;
        let go_on = format!("ralph run --resume {id}");
        match self.advice {
            ResumeAdvice::Resume => go_on,
            ResumeAdvice::Answer => format!("ralph tell {id} \"…\" && {go_on}"),
            ResumeAdvice::Trust => format!("ralph trust && {go_on}"),
            ResumeAdvice::LogIn => {
                let login = self.ctx.host().command_line.login;
                format!("`{login}` or set its API key, then `{go_on}`")
            }
            ResumeAdvice::Pay => format!("fix the billing problem, then `{go_on}`"),
            ResumeAdvice::ChangeModel => {
                format!("`ralph run --model …` with another model, or `{go_on}` once it exists")
            }
            ResumeAdvice::ForkAnother => {
                "`ralph run … --fork` with a session that the agent has".to_string()
            }
            ResumeAdvice::Resolve => match &self.ctx.settings.worktree {
                Some(tree) => {
                    let merge = worktree::conflict_command(tree);
                    format!("`{merge}`, resolve and commit there, then `{go_on}`")
                }
                None => go_on,
            },
        }
    }
}

/// Why the run ended, from its journal.
fn ending_reason(entries: &[JournalEntry], status: RunStatus) -> String {
    let ended = entries.iter().rev().find_map(|entry| {
        if let RunChange::Decided(decided) = &entry.change
            && let StopOutcome::Ended(_) = decided.outcome
        {
            return Some(decided.because.clone());
        }
        if let RunChange::Overridden { how } = &entry.change {
            return Some(how.clone());
        }
        (entry.change == RunChange::Cancelled).then(|| "cancelled by a person".to_string())
    });
    ended.unwrap_or_else(|| status.name().to_string())
}

fn last_landing_outcome(entries: &[JournalEntry]) -> Option<String> {
    entries.iter().rev().find_map(|entry| {
        let RunChange::Drove(drove) = &entry.change else { return None };
        let RunnerEvent::Settled { how } = drove.as_ref() else { return None };
        Some(how.clone())
    })
}
