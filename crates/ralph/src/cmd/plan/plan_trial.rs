//! Tries the checks of steps on the project as it is.

use super::plan_progress::PlanProgress;
use super::{PlanContext, PlannedStep, plan_consent, plan_screen, tell};
use crate::failure::CommandFailure;
use crate::term;
use ralph_core::gate::Gate;
use ralph_core::policy::GateEnvironment;
use ralph_policy::trust;
use ralph_proof::CheckTrialRequest;
use std::ffi::OsString;

/// What an approved policy adds to the environment of its gates. That of any other policy is not used: it could pass a
/// secret on.
#[derive(Default)]
struct TrialSettings {
    environment: GateEnvironment,
    links: Vec<String>,
    path: Option<OsString>,
}

/// Asks for consent to run the checks that have no result yet, and runs them.
pub(super) fn try_new_steps(
    context: &PlanContext<'_>,
    steps: &mut [PlannedStep],
) -> Result<(), CommandFailure> {
    let new: Vec<usize> = (0..steps.len())
        .filter(|at| steps.get(*at).is_some_and(|step| step.trial.is_none()))
        .collect();
    let is_new = |at: &usize| new.contains(at);
    let shown: Vec<&PlannedStep> =
        steps.iter().enumerate().filter(|(at, _)| is_new(at)).map(|(_, step)| step).collect();
    if shown.is_empty() {
        return Ok(());
    }
    plan_consent::require_trial_consent(context, &shown)?;
    tell(context, "trying the checks …");
    let checks: Vec<Gate> =
        shown.iter().enumerate().map(|(at, step)| trial_gate(at, step)).collect();
    let settings = trial_settings(context)?;
    let rules = crate::cmd::explain_files::class_rules(&context.config)?;
    let progress = PlanProgress::new(context);
    let total = u32::try_from(checks.len()).unwrap_or(u32::MAX);
    let trials = ralph_proof::try_checks(&CheckTrialRequest {
        home: &context.home,
        env: context.env,
        project: &context.project,
        checks: &checks,
        environment: &settings.environment,
        path: settings.path.as_deref(),
        links: &settings.links,
        rules: &rules,
        cancel: &context.cancel,
        ended: &|_| {
            // Scripts that are parsed, and checks that run again, count too.
            progress.count(|done| format!("{} of {total} checks tried", done.min(total)));
        },
    });
    drop(progress);
    let trials = trials?;
    if context.cancel.is_cancelled() {
        return Ok(());
    }
    for (at, trial) in new.iter().zip(trials) {
        if let Some(step) = steps.get_mut(*at) {
            step.trial = Some(trial);
        }
    }
    if !context.args.json {
        let tried: Vec<&PlannedStep> = new.iter().filter_map(|at| steps.get(*at)).collect();
        term::out(&plan_screen::render_trials(&tried))?;
    }
    Ok(())
}

fn trial_gate(at: usize, step: &PlannedStep) -> Gate {
    Gate::new(format!("step-{}", at + 1), step.check.invocation())
}

fn trial_settings(context: &PlanContext<'_>) -> Result<TrialSettings, CommandFailure> {
    let subject = trust::policy_subject(&context.home, &context.config, context.env)?;
    if context.config.file.is_none() || !trust::is_approved(&context.home, &subject) {
        return Ok(TrialSettings::default());
    }
    let policy = &context.config.policy;
    Ok(TrialSettings {
        environment: policy.environment.clone(),
        links: policy.verify.link.clone(),
        path: trust::recorded_path(&context.home, &subject),
    })
}
