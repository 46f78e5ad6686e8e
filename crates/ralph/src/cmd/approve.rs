//! `ralph approve`: a person approves a pipeline chunk, a phase or a plan that the policy leaves to a person.

use super::{identify_caller, open_home, run_choice};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::typed_consent;
use clap::Args;
use ralph_core::approval::approver;
use ralph_core::id::RunId;
use ralph_core::record::RunRecord;
use ralph_core::run::RunPhase;
use ralph_core::source::orchestrator::OrchestratorPhase;
use ralph_core::text;
use ralph_deck::view::given_approval::GivenApprovalView;
use ralph_deck::wording::safe_line;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun};
use ralph_hook::adjustments::person_name;
use ralph_hook::approvals::{self, ApprovalState, ApprovalTarget, RunApproval};
use ralph_hook::control::{self, CommandCaller};
use ralph_hook::overview;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph approve
  ralph approve k7f2 plan

Approves what a run waits for: a pipeline chunk with `approval = true`, a
phase in `[orchestrator] approvals`, or a plan. Without arguments, the
only one of this project that waits. Review the work first:
`ralph checkpoint diff RUN`. Asks you to type a word; agents cannot
approve. In the session itself, type `/ralph:approve`.")]
pub(crate) struct ApproveArgs {
    /// Name the run or its session [default: the only one that waits]
    #[arg(value_name = "RUN|SESSION")]
    pub run: Option<String>,
    /// Name the chunk or phase, or `plan` [default: the only one that waits]
    #[arg(value_name = "CHUNK|PHASE")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// An approval that was recorded.
pub(super) struct RecordedApproval {
    run: RunId,
    approval: RunApproval,
    by: String,
    /// What still waits for an approval.
    left: Vec<String>,
    /// False if it was recorded before, by the person in `by`.
    is_new: bool,
}

impl RecordedApproval {
    /// An approval that the journal has.
    fn read(run: RunId, opened: &LoadedRun, approval: RunApproval) -> Self {
        let state = &opened.state;
        let by = match &approval.target {
            ApprovalTarget::Plan => state.way.approved_by.as_deref(),
            ApprovalTarget::Requirement(name) => approver(&state.approvals, name),
        };
        let by = by.unwrap_or_default().to_string();
        let left = approvals::due_approvals(opened).into_iter().map(|one| one.name).collect();
        Self { run, approval, by, left, is_new: false }
    }

    /// `` `design` is approved; the agent continues at its next turn ``
    pub(super) fn describe(&self) -> String {
        let what = describe(&self.approval);
        if !self.is_new {
            return format!("{what} is already approved by {}", safe_line(&self.by));
        }
        let rest = match self.left.as_slice() {
            [] => "the agent continues at its next turn".to_string(),
            left => format!("still waiting: {}", left.join(", ")),
        };
        format!("{what} is approved; {rest}")
    }
}

pub(crate) fn run(env: &Env, args: &ApproveArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let recorded = approve_work(env, &home, args)?;
    if args.json {
        super::print_json(&GivenApprovalView {
            v: 1,
            run: recorded.run.as_str(),
            approved: &recorded.approval.name,
            by: &recorded.by,
            left: &recorded.left,
        })?;
        return Ok(());
    }
    let id = paint(term::BOLD, recorded.run.as_str());
    term::out(&format!("{id}  {}\n", recorded.describe()))?;
    Ok(())
}

/// Approves what the arguments name, after the word at the terminal that the rules ask for.
pub(super) fn approve_work(
    env: &Env,
    home: &RalphHome,
    args: &ApproveArgs,
) -> Result<RecordedApproval, CommandFailure> {
    let caller = identify_caller(env);
    match caller {
        CommandCaller::Agent => {
            let refusal = control::ControlError::CallerIsAgent { action: "approve the work of" };
            return Err(refusal.into());
        }
        CommandCaller::Hidden => return Err(control::ControlError::CallerHidden.into()),
        CommandCaller::Person | CommandCaller::Session => {}
    }
    let (run, approval) = choose_approval(env, home, args)?;
    let opened = store::load_run(home, &run)?;
    // Nothing is recorded twice, so nothing is asked.
    if approval.state == ApprovalState::Approved {
        return Ok(RecordedApproval::read(run, &opened, approval));
    }
    let (title, project) = (safe_line(&opened.run.title), safe_line(&opened.run.project));
    let action = format!("approve {} of run `{run}` ({title}) in `{project}`", describe(&approval));
    typed_consent::require_while_held(home, &action)?;
    let by = person_name(env);
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    approvals::record_approval(home, &run, &approval.target, &by, caller, &deadline)?;
    let opened = store::load_run(home, &run)?;
    Ok(RecordedApproval { is_new: true, ..RecordedApproval::read(run, &opened, approval) })
}

fn describe(approval: &RunApproval) -> String {
    match approval.target {
        ApprovalTarget::Plan => "the plan".to_string(),
        ApprovalTarget::Requirement(_) => format!("`{}`", approval.name),
    }
}

fn choose_approval(
    env: &Env,
    home: &RalphHome,
    args: &ApproveArgs,
) -> Result<(RunId, RunApproval), CommandFailure> {
    let run = match &args.run {
        Some(name) => {
            let found = run_choice::find_run(home, name, run_choice::unowned_session);
            found.map_err(|failure| name_run_first(name, failure))?
        }
        None => only_waiting_run(env, home)?,
    };
    let opened = store::load_run(home, &run)?;
    let all = approvals::run_approvals(&opened);
    if let Some(name) = &args.name {
        let found = all.iter().find(|one| one.name == *name).cloned();
        let found = found.ok_or_else(|| unknown_name(&run, name, &all))?;
        return match found.state {
            ApprovalState::Due | ApprovalState::Approved => Ok((run, found)),
            ApprovalState::NotReady => Err(CommandFailure::new(
                &format!("{} of run `{run}` is not finished yet", describe(&found)),
                &format!("only finished work can be approved; {}", show_open(&opened.run)),
            )),
        };
    }
    let mut waiting = approvals::due_approvals(&opened);
    match (waiting.pop(), waiting.as_slice()) {
        (Some(only), []) => Ok((run, only)),
        (None, _) => Err(CommandFailure::new(
            &format!("run `{run}` has nothing to approve now"),
            &show_open(&opened.run),
        )),
        (Some(last), others) => {
            let names = others.iter().chain([&last]).map(|one| format!("`{}`", one.name));
            let names = names.collect::<Vec<_>>().join(", ");
            let what = format!("several approvals are due in run `{run}`: {names}");
            Err(CommandFailure::new(
                &what,
                &format!("name it: `ralph approve {run} {}`", last.name),
            ))
        }
    }
}

/// `ralph approve implement` names a phase in place of the run.
fn name_run_first(name: &str, failure: CommandFailure) -> CommandFailure {
    if OrchestratorPhase::ALL.iter().any(|phase| phase.name() == name) {
        return failure.with_hint(&format!("give the run first: `ralph approve RUN {name}`"));
    }
    failure
}

/// The command that shows what is open, also before the first stop.
fn show_open(run: &RunRecord) -> String {
    let command = if run.phases { "orchestrator show" } else { "status" };
    format!("`ralph {command} {}` shows what is open", run.id)
}

fn unknown_name(run: &RunId, name: &str, all: &[RunApproval]) -> CommandFailure {
    let what = format!("run `{run}` has nothing named `{}` to approve", text::clean_line(name, 60));
    let names: Vec<String> = all.iter().map(|one| format!("`{}`", one.name)).collect();
    let hint = match (text::nearest(name, all.iter().map(|one| one.name.as_str())), &*names) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => "its policy requires no approvals".to_string(),
        (None, names) => format!("known names: {}", names.join(", ")),
    };
    CommandFailure::new(&what, &hint)
}

/// The only run of this project that waits. To approve work of another project takes its name.
fn only_waiting_run(env: &Env, home: &RalphHome) -> Result<RunId, CommandFailure> {
    let scope = run_choice::current_scope(env)?;
    let (views, _) = overview::list_run_views(home)?;
    let open = views.into_iter().filter(|view| !matches!(view.phase, RunPhase::Ended(_)));
    let runs = open.filter(|view| !approvals::due_approvals(&view.opened).is_empty());
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        runs.map(|view| view.opened.run).partition(|run| scope.contains_run(run));
    let runs: Vec<RunId> = here.into_iter().map(|run| run.id).collect();
    match runs.as_slice() {
        [] if !elsewhere.is_empty() => {
            let names: Vec<_> = elsewhere.iter().map(|run| format!("`{}`", run.id)).collect();
            let what = "no run of this project waits for an approval";
            let hint = format!("runs of other projects wait: {}", names.join(", "));
            Err(CommandFailure::new(what, &hint))
        }
        [] => Err(CommandFailure::new(
            "no run waits for an approval",
            "`ralph status` lists the runs",
        )),
        [one] => Ok(one.clone()),
        [_, _, ..] => {
            let names: Vec<_> = runs.iter().map(|run| format!("`{run}`")).collect();
            let what = format!("more than one run waits: {}", names.join(", "));
            Err(CommandFailure::new(&what, "name the run: `ralph approve RUN`"))
        }
    }
}
