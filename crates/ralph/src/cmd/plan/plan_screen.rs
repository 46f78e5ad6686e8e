//! Steps and checks as text. All of it comes from a model or a file, so every line is cleaned. Only commands
//! are shown whole, because a person approves them.

use super::PlannedStep;
use crate::approval_text::whole_command;
use crate::term::{self, paint};
use ralph_deck::wording::safe_line;
use ralph_proof::CheckTrial;

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
    for step in steps {
        let (style, word, how) = match &step.trial {
            Some(CheckTrial::Red(how)) => (term::GOOD, "red", how.as_str()),
            Some(CheckTrial::Green) => {
                (term::BAD, "green", "passes already, so it measures nothing")
            }
            Some(CheckTrial::Unrunnable(why)) => (term::BAD, "unrunnable", why.as_str()),
            None => (term::DIM, "not run", ""),
        };
        let word = paint(style, &format!("{word:<10}"));
        out.push_str(&format!("  {word} {}\n", safe_line(&step.description)));
        out.push_str(&format!("             {}\n", whole_command(&step.check.command_line(), 13)));
        if !how.is_empty() {
            out.push_str(&format!("             {}\n", paint(term::DIM, &safe_line(how))));
        }
    }
    out
}
