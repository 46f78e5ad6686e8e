//! A plan by hand: steps with checks as text, from an editor, a file or stdin. They are tried and edited again until the
//! person is content.

use super::{PlanContext, PlanOutcome, PlannedStep, plan_consent, plan_trial};
use crate::failure::CommandFailure;
use crate::foreground_editor;
use crate::term;
use ralph_core::gate::GateInvocation;
use ralph_core::source::item_check::ItemCheck;
use ralph_deck::wording::safe_line;
use ralph_drive::planning::plan_text::{
    self, AnnotatedStep, MAX_TEXT_BYTES, PlanTextError, WrittenStep, parse_plan_text,
};
use ralph_policy::detect::typed_command::{self, TypedCommand};
use ralph_sys::fs;
use ralph_sys::stdin;
use std::io::IsTerminal;

/// A step as it was written, and as it is tried.
struct EditedStep {
    written: WrittenStep,
    planned: PlannedStep,
}

pub(super) fn plan_by_hand(context: &PlanContext<'_>) -> Result<PlanOutcome, CommandFailure> {
    let mut text = first_text(context)?;
    let mut outcome = PlanOutcome::default();
    loop {
        outcome.rounds += 1;
        let (steps, mistake) = match read_steps(context, &text) {
            Ok(steps) => (steps, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        if let Some(error) = mistake {
            if !plan_consent::can_ask(context) {
                return Err(text_failure(&error));
            }
            term::err(&format!("{error}\n"));
            text = edit_again(context, &text)?;
            continue;
        }
        if steps.is_empty() {
            return Err(no_steps());
        }
        let (written, mut planned): (Vec<WrittenStep>, Vec<PlannedStep>) =
            steps.into_iter().map(|step| (step.written, step.planned)).unzip();
        plan_trial::try_new_steps(context, &mut planned)?;
        let is_finished =
            planned.iter().all(PlannedStep::is_failing) || context.cancel.is_cancelled();
        if is_finished || !plan_consent::can_ask(context) || !wants_to_edit(&planned)? {
            outcome.keep_failing(planned);
            return Ok(outcome);
        }
        text = open_editor(context, &annotated_text(context, &written, &planned))?;
    }
}

fn no_steps() -> CommandFailure {
    let hint = "write `- STEP` and, below it, `check: COMMAND`";
    CommandFailure::new("there are no steps, so nothing was written", hint)
}

fn text_failure(error: &PlanTextError) -> CommandFailure {
    CommandFailure::new(&error.to_string(), "`ralph plan --help` shows the form")
}

fn first_text(context: &PlanContext<'_>) -> Result<String, CommandFailure> {
    let bytes = match &context.args.from {
        Some(path) => {
            let here = context.env.current_dir().unwrap_or_default();
            fs::read(&here.join(path), MAX_TEXT_BYTES)?
        }
        None if !std::io::stdin().is_terminal() => {
            stdin::read_all(std::io::stdin(), MAX_TEXT_BYTES).map_err(|error| {
                CommandFailure::caused_by("cannot read the steps from stdin", &error)
            })?
        }
        None => return open_editor(context, &plan_text::render_plan_text(&context.goal, &[])),
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read_steps(context: &PlanContext<'_>, text: &str) -> Result<Vec<EditedStep>, PlanTextError> {
    parse_plan_text(text)?.into_iter().map(|written| edited_step(context, written)).collect()
}

/// Splits the command line of a check. A shell runs it only if it needs one.
fn edited_step(
    context: &PlanContext<'_>,
    written: WrittenStep,
) -> Result<EditedStep, PlanTextError> {
    let typed = TypedCommand { command: &written.check, name: None, stage: None };
    let gate =
        typed_command::typed_gate(&context.project, context.env, typed).map_err(|error| {
            let why = format!("`{}`: {error}", safe_line(&written.check));
            PlanTextError { line: written.line, why }
        })?;
    let check = match gate.gate.command {
        GateInvocation::Argv(words) => ItemCheck::Argv(words),
        GateInvocation::Shell(shell) => ItemCheck::Shell { shell },
    };
    Ok(EditedStep { planned: PlannedStep::new(written.description.clone(), check), written })
}

fn wants_to_edit(steps: &[PlannedStep]) -> Result<bool, CommandFailure> {
    let failing = steps.iter().filter(|step| step.is_failing()).count();
    let total = steps.len();
    term::out(&format!("{failing} of {total} checks measure something; edit the others? [Y/n] "))?;
    Ok(term::is_accepted())
}

fn annotated_text(
    context: &PlanContext<'_>,
    written: &[WrittenStep],
    planned: &[PlannedStep],
) -> String {
    let notes: Vec<Option<String>> = planned.iter().map(PlannedStep::note).collect();
    let steps: Vec<AnnotatedStep<'_>> = written
        .iter()
        .zip(&notes)
        .map(|(step, note)| AnnotatedStep {
            description: &step.description,
            check: &step.check,
            note: note.as_deref(),
        })
        .collect();
    plan_text::render_plan_text(&context.goal, &steps)
}

fn edit_again(context: &PlanContext<'_>, text: &str) -> Result<String, CommandFailure> {
    term::out("edit it again? [Y/n] ")?;
    if !term::is_accepted() {
        return Err(CommandFailure::new(
            "nothing was written",
            "`ralph plan --help` shows the form",
        ));
    }
    open_editor(context, text)
}

fn open_editor(context: &PlanContext<'_>, text: &str) -> Result<String, CommandFailure> {
    foreground_editor::edit_text(context.env, &context.home, "plan.txt", text)
}

impl PlannedStep {
    /// The result of its check, as a comment in the text.
    fn note(&self) -> Option<String> {
        self.trial.as_ref().map(|trial| format!("{}: {}", trial.word(), trial.describe()))
    }
}
