//! A plan from an agent: its questions, its steps, and the rounds in which checks go back to it.

use super::plan_progress::PlanProgress;
use super::{
    AnsweredQuestion, PlanContext, PlanOutcome, PlannedStep, plan_consent, plan_trial,
    planner_failure, tell,
};
use crate::cmd::run::run_plan::find_agent;
use crate::failure::CommandFailure;
use crate::term;
use ralph_core::text;
use ralph_core::units::format_usd;
use ralph_deck::wording::safe_line;
use ralph_drive::agent::AgentClient;
use ralph_drive::planning::plan_answer::{
    PlanAnswer, PlanQuestion, ProposedStep, parse_plan_answer,
};
use ralph_drive::planning::planner::{Planner, PlannerError, PlannerEvent, PlannerSpec};
use ralph_drive::planning::planner_messages::{self, RejectedCheck};
use ralph_sys::fs;
use std::time::Duration;

const TURN_TIMEOUT: Duration = Duration::from_mins(10);
const MAX_NOTES_BYTES: usize = 64 * 1024;
const MAX_ANSWER_CHARS: usize = 1_000;

/// Why a request for a plan failed.
enum PlanRequestError {
    Planner(PlannerError),
    /// Two answers in a row that are not a plan: what is wrong with the second.
    NotAPlan(String),
}

impl From<PlannerError> for PlanRequestError {
    fn from(error: PlannerError) -> Self {
        Self::Planner(error)
    }
}

impl From<PlanRequestError> for CommandFailure {
    fn from(error: PlanRequestError) -> Self {
        match error {
            PlanRequestError::Planner(error) => planner_failure(&error),
            PlanRequestError::NotAPlan(why) => Self::new(
                &format!("the agent answered twice, but not with a plan: {why}"),
                "try again or with another `--model`, or write the steps with `--no-agent`",
            ),
        }
    }
}

pub(super) fn plan_with_agent(context: &PlanContext<'_>) -> Result<PlanOutcome, CommandFailure> {
    let args = context.args;
    let settings = &context.config.runner;
    let host = args.agent.unwrap_or_else(|| ralph_host::recorded_host(&settings.agent));
    let here = context.env.current_dir().unwrap_or_default();
    let notes = read_notes(context)?;
    let client = AgentClient {
        program: find_agent(context.env, args.agent_program.as_deref(), host, &here)?,
        project: context.project.clone(),
        env: context.env.clone(),
    };
    let most = format_usd(args.max_cost);
    tell(
        context,
        &format!("asking `{}` for a plan; it can only read, and spends at most {most}", host.name),
    );
    let mut planner = Planner::start(PlannerSpec {
        host,
        client: &client,
        home: &context.home,
        settings,
        model: args.model.as_deref().or(settings.model.as_deref()),
        max_micro_usd: args.max_cost,
        turn_timeout: TURN_TIMEOUT,
        cancel: &context.cancel,
    })
    .map_err(|error| planner_failure(&error))?;
    let mut outcome = PlanOutcome::default();
    let first = planner_messages::first_message(&context.goal, notes.as_deref());
    let mut plan = ask_for_plan(context, &mut planner, &first)?;
    let answers = answer_questions(context, &plan.questions)?;
    let is_changed = answers.iter().any(|(_, answer)| !answer.is_default);
    if is_changed {
        let given: Vec<(PlanQuestion, String)> = answers
            .iter()
            .map(|(question, answer)| (question.clone(), answer.answer.clone()))
            .collect();
        let message = planner_messages::answers_message(&given);
        plan = ask_for_plan(context, &mut planner, &message)?;
    }
    outcome.answers = answers.into_iter().map(|(_, answer)| answer).collect();
    let mut steps: Vec<PlannedStep> = plan.steps.into_iter().map(PlannedStep::from).collect();
    for round in 1..=args.max_rounds {
        outcome.rounds = round;
        plan_trial::try_new_steps(context, &mut steps)?;
        let rejected: Vec<RejectedCheck> =
            steps.iter().filter_map(PlannedStep::rejection).collect();
        if rejected.is_empty() || round == args.max_rounds || context.cancel.is_cancelled() {
            break;
        }
        let count = text::count_noun(u32::try_from(rejected.len()).unwrap_or(u32::MAX), "check");
        tell(context, &format!("sending {count} back to the agent"));
        let message = planner_messages::rejection_message(&rejected);
        match ask_for_plan(context, &mut planner, &message) {
            Ok(again) => steps = replace_rejected(&steps, again.steps),
            // Checks that fail stay useful.
            Err(error) => {
                let why = CommandFailure::from(error).message().to_string();
                outcome.notes.push(format!("no further round: {why}"));
                break;
            }
        }
    }
    outcome.spent_micro_usd = Some(planner.spent().micro_usd);
    outcome.keep_failing(steps);
    Ok(outcome)
}

fn read_notes(context: &PlanContext<'_>) -> Result<Option<String>, CommandFailure> {
    let Some(file) = &context.args.answers else { return Ok(None) };
    let here = context.env.current_dir().unwrap_or_default();
    let bytes = fs::read(&here.join(file), MAX_NOTES_BYTES)?;
    Ok(Some(text::clean(&String::from_utf8_lossy(&bytes))))
}

/// Asks for a plan. An answer that is none gets one more chance, with the error.
fn ask_for_plan(
    context: &PlanContext<'_>,
    planner: &mut Planner<'_>,
    message: &str,
) -> Result<PlanAnswer, PlanRequestError> {
    let error = match parse_plan_answer(&ask_watched(context, planner, message)?) {
        Ok(plan) => return Ok(plan),
        Err(error) => error,
    };
    tell(context, &format!("the answer was not a plan: {}", safe_line(&error.to_string())));
    let again = ask_watched(context, planner, &planner_messages::retry_message(&error))?;
    parse_plan_answer(&again).map_err(|error| PlanRequestError::NotAPlan(error.to_string()))
}

/// Asks, and shows how often the agent has called a tool.
fn ask_watched(
    context: &PlanContext<'_>,
    planner: &mut Planner<'_>,
    message: &str,
) -> Result<String, PlannerError> {
    let progress = PlanProgress::new(context);
    planner.ask(message, &mut |event| match event {
        PlannerEvent::Tool(tool) => progress.count(|calls| {
            format!(
                "reading the project: {}, last {}",
                text::count_noun(calls, "call"),
                safe_line(&tool)
            )
        }),
        PlannerEvent::Retry => {
            progress
                .count(|_| "the request to the model failed; the client is retrying".to_string());
        }
    })
}

/// Whether the person answers the agent's questions. Otherwise its defaults count.
pub(super) fn asks_questions(context: &PlanContext<'_>) -> bool {
    plan_consent::can_ask(context) && context.args.answers.is_none()
}

/// The person's answers, or the defaults of the agent with `--yes` and after `--answers`.
fn answer_questions(
    context: &PlanContext<'_>,
    questions: &[PlanQuestion],
) -> Result<Vec<(PlanQuestion, AnsweredQuestion)>, CommandFailure> {
    let asks = asks_questions(context);
    let mut answers = Vec::new();
    for question in questions {
        let default = safe_line(&question.default);
        let shown = safe_line(&question.question);
        let typed = if asks {
            term::out(&format!("{shown}\n  [{default}] "))?;
            text::clean_line(&term::read_answer().unwrap_or_default(), MAX_ANSWER_CHARS)
        } else {
            tell(context, &format!("{shown}\n  taking the agent's default: {default}"));
            String::new()
        };
        let is_default = typed.is_empty() || typed == question.default;
        let answer = if is_default { question.default.clone() } else { typed };
        let answered = AnsweredQuestion { question: question.question.clone(), answer, is_default };
        answers.push((question.clone(), answered));
    }
    Ok(answers)
}

/// Puts new steps in the place of the rejected ones. A step that repeats a rejected check stays rejected.
fn replace_rejected(steps: &[PlannedStep], new: Vec<ProposedStep>) -> Vec<PlannedStep> {
    let known = |step: &PlannedStep| {
        steps.iter().find(|known| known.check == step.check).and_then(|known| known.trial.clone())
    };
    let mut new: Vec<PlannedStep> = new.into_iter().map(PlannedStep::from).collect();
    for step in &mut new {
        step.trial = known(step);
    }
    let at = steps.iter().position(|step| !step.is_failing()).unwrap_or(steps.len());
    let mut kept: Vec<PlannedStep> =
        steps.iter().filter(|step| step.is_failing()).cloned().collect();
    // A repeated step is in the plan already.
    new.retain(|step| !kept.iter().any(|known| known.check == step.check));
    kept.splice(at..at, new);
    kept
}

impl From<ProposedStep> for PlannedStep {
    fn from(step: ProposedStep) -> Self {
        Self::new(step.description, step.check)
    }
}

impl PlannedStep {
    /// Why the check goes back to the agent.
    fn rejection(&self) -> Option<RejectedCheck> {
        let trial = self.trial.as_ref().filter(|trial| !trial.is_failing())?;
        let why = format!("{}: {}", trial.word(), trial.describe());
        let (step, check) = (self.description.clone(), self.check.clone());
        Some(RejectedCheck { step, check, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::source::item_check::ItemCheck;
    use ralph_proof::CheckTrial;

    fn step(name: &str, trial: Option<CheckTrial>) -> PlannedStep {
        PlannedStep {
            trial,
            ..PlannedStep::new(name.to_string(), ItemCheck::Argv(vec![name.to_string()]))
        }
    }

    fn proposed(name: &str) -> ProposedStep {
        ProposedStep {
            description: name.to_string(),
            check: ItemCheck::Argv(vec![name.to_string()]),
        }
    }

    /// Failing steps stay, new ones take the place of the rejected ones, and a repeated check keeps its result.
    #[test]
    fn new_steps_replace_the_rejected_ones() {
        let failing = || Some(CheckTrial::Failing("exit 1".to_string()));
        let steps = [
            step("a", failing()),
            step("b", Some(CheckTrial::Passing)),
            step("c", failing()),
            step("d", Some(CheckTrial::Unrunnable("x".to_string()))),
        ];
        let replaced = replace_rejected(&steps, ["e", "b", "c", "f"].map(proposed).to_vec());
        let shown: Vec<String> = replaced
            .iter()
            .map(|step| match &step.trial {
                Some(trial) => format!("{} {}", step.description, trial.word()),
                None => step.description.clone(),
            })
            .collect();
        assert_eq!(shown, ["a failing", "e", "b passing", "f", "c failing"]);
    }
}
