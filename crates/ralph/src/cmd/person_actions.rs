//! The actions of a screen. Each is the command of the same name, with the same checks.

use super::approve::{self, ApproveArgs};
use super::{accept, adjust, control as run_control, identify_caller, tell};
use crate::driven_status;
use crate::failure::CommandFailure;
use crate::typed_consent;
use ralph_core::id::RunId;
use ralph_core::limits::{LimitDefinition, LimitOverrides};
use ralph_core::text;
use ralph_deck::person_action::PersonAction;
use ralph_deck::wording::safe_line;
use ralph_home::paths::RalphHome;
use ralph_home::run_process;
use ralph_home::store;
use ralph_hook::adjustments::{RunAdjustment, person_name};
use ralph_hook::closed_run;
use ralph_hook::control::{self, RunOrSession};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;

/// Does what a person chose on a screen. Returns the confirmation. A waiver, a change of limits, an approval or an
/// acceptance may ask for a word at the terminal, as the command does.
pub(super) fn carry_out(
    env: &Env,
    home: &RalphHome,
    run: &RunId,
    action: &PersonAction,
) -> Result<String, CommandFailure> {
    let done = try_action(env, home, run, action);
    // A screen has no terminal of its own to ask at; the command has.
    done.map_err(|failure| match failure.hint() {
        Some(typed_consent::FOREGROUND_HINT) => {
            let command = action.command_line(run);
            failure.with_hint(&format!("run `{command}` in the foreground of your own terminal"))
        }
        Some(_) | None => failure,
    })
}

fn try_action(
    env: &Env,
    home: &RalphHome,
    run: &RunId,
    action: &PersonAction,
) -> Result<String, CommandFailure> {
    let caller = identify_caller(env);
    let deadline = Deadline::after(run_control::LOCK_TIMEOUT);
    let by = person_name(env);
    let adjustment = RunAdjustment { home, run, caller, by: Some(&by), deadline: &deadline };
    let control_failure = |error| driven_status::control_failure(home, error);
    match action {
        PersonAction::Pause => {
            control::pause_run(&adjustment).map_err(control_failure)?;
            Ok("paused; the agent may stop freely until it is resumed".to_string())
        }
        PersonAction::Resume => resume(&adjustment),
        PersonAction::Cancel => {
            let named = RunOrSession::Run(run.clone());
            let done = closed_run::cancel_or_close(home, &named, caller, &by, &deadline)
                .map_err(control_failure)?;
            Ok(format!("{}; {}", done.name(), done.describe()))
        }
        PersonAction::Tell { text } => tell::send_message(env, &adjustment, text),
        PersonAction::Waive { requirement, until, why } => {
            adjust::waive_requirement(env, &adjustment, requirement, why, until)
        }
        PersonAction::Require { requirement } => adjust::withdraw_waiver(&adjustment, requirement),
        PersonAction::SetLimits { iterations, duration, cost } => {
            let options = [
                ("--max-iterations", iterations),
                ("--max-duration", duration),
                ("--max-cost-usd", cost),
            ];
            let overrides = limit_overrides(&options)?;
            adjust::change_limits(&adjustment, &overrides).map(|(_, done)| done)
        }
        PersonAction::Approve { name } => {
            let name = (!name.is_empty()).then(|| name.clone());
            let args = ApproveArgs { run: Some(run.to_string()), name, json: false };
            approve::approve_work(env, home, &args).map(|recorded| recorded.describe())
        }
        PersonAction::Accept { why } => {
            let accepted = accept::accept_work(env, home, run, why)?;
            let status = safe_line(&accepted.acceptance.describe_status());
            Ok(accepted.next.map_or_else(|| status.clone(), |next| format!("{status}; {next}")))
        }
    }
}

/// A run that ralph drives continues in a terminal of its own, because its runner needs one.
fn resume(adjustment: &RunAdjustment<'_>) -> Result<String, CommandFailure> {
    let RunAdjustment { home, run, .. } = *adjustment;
    let is_driven = store::load_run(home, run)?.run.drive.is_some();
    if is_driven && !run_process::may_be_driven(home, run) {
        let what = format!("no runner drives run `{run}`, so it cannot be resumed from here");
        let hint = format!("`ralph run --resume {run}` in another terminal drives it there");
        return Err(CommandFailure::new(&what, &hint));
    }
    control::resume_held_run(adjustment)
        .map_err(|error| driven_status::control_failure(home, error))?;
    Ok("resumed; the agent is held at its next stop".to_string())
}

/// The limits that were typed; an empty text keeps a limit.
fn limit_overrides(options: &[(&str, &String)]) -> Result<LimitOverrides, CommandFailure> {
    let mut overrides = LimitOverrides::default();
    for (option, typed) in options.iter().filter(|(_, typed)| !typed.trim().is_empty()) {
        let Some(limit) = LimitDefinition::by_option(option) else { continue };
        let Some(value) = limit.unit.parse(typed.trim()) else {
            let shown = text::clean_line(typed, 60);
            let what = format!("`{shown}` is no value for `{option}`");
            let hint = format!("expected {}", limit.unit.expected_instead_of(typed));
            return Err(CommandFailure::new(&what, &hint));
        };
        overrides.set(limit.kind, value);
    }
    Ok(overrides)
}
