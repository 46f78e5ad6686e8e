//! The person's consent: before checks run, and before a list is written and approved.
//!
//! `--yes` is the same answer, given on the command line. Nothing that an agent, a goal or a file says is an answer, and
//! while a run holds an agent, a person has to confirm at the terminal.

use super::plan_screen;
use super::{PlanContext, PlannedStep};
use crate::failure::CommandFailure;
use crate::term;
use crate::typed_consent;
use ralph_core::text;

/// Fails before anything is asked or spent if there is no way to approve the commands.
pub(super) fn require_consent_possible(context: &PlanContext<'_>) -> Result<(), CommandFailure> {
    if context.args.yes || can_ask(context) {
        return Ok(());
    }
    let why =
        if context.args.json { "`--json` does not ask" } else { "not a terminal, so I can't ask" };
    Err(CommandFailure::untrusted(
        &format!("checks run only once a person has seen them; {why}"),
        if context.args.json {
            "add `--yes` to run and approve the checks unread"
        } else if context.args.no_agent {
            "give the steps with `--from FILE`, so that the terminal is free for your answer, or add `--yes` to run and approve the checks unread"
        } else {
            "run it in a terminal, or with `--yes` to run and approve the checks unread"
        },
    ))
}

pub(super) fn can_ask(context: &PlanContext<'_>) -> bool {
    term::can_ask() && !context.args.json && !context.args.yes
}

/// Shows the commands and asks whether they may be run.
pub(super) fn require_trial_consent(
    context: &PlanContext<'_>,
    steps: &[&PlannedStep],
) -> Result<(), CommandFailure> {
    if !context.args.json {
        term::out(&plan_screen::render_commands(steps))?;
    }
    let count = text::count_noun(u32::try_from(steps.len()).unwrap_or(u32::MAX), "check");
    let question =
        format!("run {} on a copy of the project? [y/N] ", describe(&count, steps.len()));
    confirm(context, &question, "run these checks", "nothing was run or written")
}

/// Shows what would be written and asks whether to write and approve it.
pub(super) fn require_list_consent(
    context: &PlanContext<'_>,
    steps: &[PlannedStep],
) -> Result<(), CommandFailure> {
    let count = text::count_noun(u32::try_from(steps.len()).unwrap_or(u32::MAX), "step");
    let question =
        format!("write {} and approve the checks? [y/N] ", describe(&count, steps.len()));
    confirm(context, &question, "approve these checks", "nothing was written")
}

fn describe(count: &str, number: usize) -> String {
    if number == 1 {
        format!("this {}", count.trim_start_matches("1 "))
    } else {
        format!("these {count}")
    }
}

fn confirm(
    context: &PlanContext<'_>,
    question: &str,
    action: &str,
    otherwise: &str,
) -> Result<(), CommandFailure> {
    if can_ask(context) {
        term::out(question)?;
        if !term::is_confirmed().unwrap_or(false) {
            let hint = "`ralph plan --from FILE` tries checks that you wrote yourself";
            return Err(CommandFailure::untrusted(&format!("not approved; {otherwise}"), hint));
        }
    }
    typed_consent::require_while_held(&context.home, action)
}
