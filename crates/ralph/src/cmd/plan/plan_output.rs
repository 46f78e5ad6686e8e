//! Writes the list, approves its checks and says how to use it.

use super::{
    PlanContext, PlanOutcome, PlannedStep, plan_agent, plan_consent, plan_screen, relative,
};
use crate::SUCCESS;
use crate::cmd::print_json;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_core::gate::shell_quote;
use ralph_core::source::item_check::ItemCheck;
use ralph_core::text;
use ralph_core::units::format_usd;
use ralph_deck::wording::{self, safe_line};
use ralph_lists::loop_directory::{LOOPS_DIR, PROMPT_FILE};
use ralph_lists::loops::{self, FeatureDraft, FeatureError, FeatureLoop, InitialList, NewLoop};
use ralph_lists::run_lists;
use ralph_policy::trust;
use ralph_proof::CheckTrial;
use serde::Serialize;
use std::path::Path;

/// As `ralph loop new` sets it.
const MAX_ITERATIONS: u32 = 15;

#[derive(Serialize)]
struct PlanJson<'a> {
    v: u8,
    #[serde(rename = "loop")]
    name: &'a str,
    directory: String,
    steps: Vec<StepJson<'a>>,
    left_out: Vec<StepJson<'a>>,
    questions: Vec<QuestionJson<'a>>,
    rounds: u32,
    spent_usd: Option<f64>,
    notes: &'a [String],
    next: String,
    next_in_session: String,
}

#[derive(Serialize)]
struct StepJson<'a> {
    step: &'a str,
    check: &'a ItemCheck,
    /// `failing`, `passing`, `unrunnable`
    base: &'static str,
    why: &'a str,
}

#[derive(Serialize)]
struct QuestionJson<'a> {
    question: &'a str,
    answer: &'a str,
    is_default: bool,
}

pub(super) fn finish(
    context: &PlanContext<'_>,
    name: &str,
    outcome: &PlanOutcome,
) -> Result<u8, CommandFailure> {
    if outcome.steps.is_empty() {
        let is_unrunnable =
            |step: &PlannedStep| matches!(step.trial, Some(CheckTrial::Unrunnable(_)));
        let none_runs = !outcome.left_out.is_empty() && outcome.left_out.iter().all(is_unrunnable);
        let how = if none_runs { "no check can be run" } else { "no check fails" };
        let mut what = format!("{how} on the project as it is, so nothing would measure the goal");
        for note in &outcome.notes {
            what.push_str(&format!("; {note}"));
        }
        let is_by_hand = context.args.no_agent || context.args.from.is_some();
        let hint = if is_by_hand && none_runs {
            "write checks whose programs are installed, and which fail until their steps are done"
        } else if is_by_hand {
            "write checks that fail until their steps are done"
        } else {
            "give the agent decisions with `--answers FILE`, or write checks with `--no-agent`"
        };
        return Err(CommandFailure::new(&what, hint));
    }
    if !context.args.json {
        term::out(&summary(context, name, outcome))?;
    }
    plan_consent::require_list_consent(context, &outcome.steps)?;
    let made = write_list(context, name, outcome)?;
    show_result(context, &made, outcome)?;
    Ok(SUCCESS)
}

fn summary(context: &PlanContext<'_>, name: &str, outcome: &PlanOutcome) -> String {
    let count = text::count_noun(u32::try_from(outcome.steps.len()).unwrap_or(u32::MAX), "step");
    let path = format!("{LOOPS_DIR}/{name}");
    let mut out = format!("\n{}\n", paint(term::BOLD, &format!("the plan: {count} in `{path}`")));
    out.push_str(&plan_screen::render_commands(&outcome.steps.iter().collect::<Vec<_>>()));
    if !outcome.left_out.is_empty() {
        out.push_str("left out, because nothing measures them:\n");
        out.push_str(&plan_screen::render_trials(&outcome.left_out.iter().collect::<Vec<_>>()));
    }
    for note in &outcome.notes {
        out.push_str(&format!("note: {}\n", safe_line(note)));
    }
    if let Some(spent) = outcome.spent_micro_usd {
        let rounds = text::count_noun(outcome.rounds, "round");
        let most = format_usd(context.args.max_cost);
        out.push_str(&format!("{rounds}, {} of {most}\n", format_usd(spent)));
    }
    out
}

/// Writes the list and approves exactly the commands that the person has seen.
fn write_list(
    context: &PlanContext<'_>,
    name: &str,
    outcome: &PlanOutcome,
) -> Result<FeatureLoop, CommandFailure> {
    let drafts = outcome.steps.iter().map(|step| FeatureDraft {
        description: step.description.clone(),
        verify: Some(step.check.clone()),
        ..FeatureDraft::default()
    });
    let goal = Some(goal_with_answers(context, outcome)).filter(|goal| !goal.is_empty());
    let made = loops::create_loop(
        &context.project,
        &NewLoop {
            name,
            source: &InitialList::Drafts(drafts.collect()),
            goal: goal.as_deref(),
            max_iterations: MAX_ITERATIONS,
        },
    )?;
    let list =
        run_lists::read_list_checks(&context.project, &made.list()).map_err(FeatureError::from)?;
    let written = list.items.iter().map(|item| item.check.clone());
    let seen = outcome.steps.iter().map(|step| Some(step.check.clone()));
    if !written.eq(seen) {
        let what = "the written list has other checks than those that were shown; not approved";
        return Err(CommandFailure::untrusted(what, "review it with `ralph trust`"));
    }
    let programs = trust::find_programs_of(&context.config, &list.gates, context.env);
    trust::approve(&context.home, &list.subject, &programs)?;
    Ok(made)
}

/// The goal with the decisions that the steps rest on. A default that no person was asked about is an assumption of the
/// planning agent, not a decision.
fn goal_with_answers(context: &PlanContext<'_>, outcome: &PlanOutcome) -> String {
    let mut goal = context.goal.clone();
    let is_asked = plan_agent::asks_questions(context);
    let (assumed, decided): (Vec<_>, Vec<_>) =
        outcome.answers.iter().partition(|answer| answer.is_default && !is_asked);
    for (heading, answers) in [
        ("Decided before:", decided),
        ("Assumed by the agent that planned; no person answered these:", assumed),
    ] {
        if !answers.is_empty() {
            goal.push_str(&format!("\n\n{heading}\n"));
        }
        for answer in answers {
            goal.push_str(&format!("\n- {} {}", answer.question, answer.answer));
        }
    }
    goal.trim().to_string()
}

fn show_result(
    context: &PlanContext<'_>,
    made: &FeatureLoop,
    outcome: &PlanOutcome,
) -> Result<(), CommandFailure> {
    let directory = relative(&made.directory, context).to_string_lossy().into_owned();
    let next = format!("ralph run --loop {}", shell_quote(&made.name));
    let in_session = session_command(Path::new(&directory));
    if context.args.json {
        print_json(&PlanJson {
            v: 1,
            name: &made.name,
            directory: made.directory.display().to_string(),
            steps: outcome.steps.iter().filter_map(step_json).collect(),
            left_out: outcome.left_out.iter().filter_map(step_json).collect(),
            questions: outcome
                .answers
                .iter()
                .map(|one| QuestionJson {
                    question: &one.question,
                    answer: &one.answer,
                    is_default: one.is_default,
                })
                .collect(),
            rounds: outcome.rounds,
            spent_usd: outcome.spent_micro_usd.map(wording::micro_usd_as_usd),
            notes: &outcome.notes,
            next,
            next_in_session: in_session,
        })?;
        return Ok(());
    }
    term::out(&format!(
        "wrote `{}` and approved its checks\nnext: `{next}`\nor in a session: `{in_session}`\n",
        safe_line(&directory)
    ))?;
    Ok(())
}

fn session_command(directory: &Path) -> String {
    let directory = shell_quote(&safe_line(&directory.to_string_lossy()));
    format!("/ralph:goal --features {directory} Follow the instructions in its {PROMPT_FILE}")
}

/// `None` for a step that was not tried, which only an interruption leaves.
fn step_json(step: &PlannedStep) -> Option<StepJson<'_>> {
    let trial = step.trial.as_ref()?;
    let (base, why) = (trial.word(), trial.describe());
    Some(StepJson { step: &step.description, check: &step.check, base, why })
}
