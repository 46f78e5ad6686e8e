//! Steps and checks as text. All of it comes from a model or a file, so every line is cleaned. Only commands
//! are shown whole, because a person approves them.

use super::PlannedStep;
use crate::approval_text::whole_command;
use crate::term::{self, paint};
use ralph_deck::wording::safe_line;

/// Steps with their commands, before they are run.
pub(super) fn render_commands(steps: &[&PlannedStep]) -> String {
    let mut out = String::new();
    for (at, step) in steps.iter().enumerate() {
        out.push_str(&format!("{:>3}. {}\n", at + 1, safe_line(&step.description)));
        out.push_str(&format!(
            "     {}\n",
            paint(term::BOLD, &whole_command(&step.check.command_line(), 5))
        ));
    }
    out
}

/// The results of checks before the work.
pub(super) fn render_trials(steps: &[&PlannedStep]) -> String {
    let mut out = String::new();
    for (step, trial) in steps.iter().filter_map(|step| Some((step, step.trial.as_ref()?))) {
        let style = if trial.is_failing() { term::GOOD } else { term::BAD };
        let word = paint(style, &format!("{:<10}", trial.word()));
        out.push_str(&format!("  {word} {}\n", safe_line(&step.description)));
        out.push_str(&format!("             {}\n", whole_command(&step.check.command_line(), 13)));
        out.push_str(&format!("             {}\n", paint(term::DIM, &safe_line(trial.describe()))));
    }
    out
}
