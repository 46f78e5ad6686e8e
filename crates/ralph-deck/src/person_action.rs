//! What a person can do to a run from a screen. Each action is the command of the same name.

use ralph_core::gate::shell_quote;
use ralph_core::id::RunId;

/// The longest message to an agent, in characters.
pub const LONGEST_MESSAGE: usize = 2_000;
/// The longest reason of a waiver, in characters.
pub const LONGEST_WAIVER_REASON: usize = 300;
/// The longest reason of an acceptance, in characters.
pub const LONGEST_ACCEPT_REASON: usize = 300;

/// An action of a person, with what was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonAction {
    Pause,
    Resume,
    Cancel,
    /// A message for the agent, which also answers its question.
    Tell {
        text: String,
    },
    Waive {
        requirement: String,
        until: String,
        why: String,
    },
    /// Withdraws a waiver.
    Require {
        requirement: String,
    },
    /// As the options of `ralph limits`; an empty text keeps a limit.
    SetLimits {
        iterations: String,
        duration: String,
        cost: String,
    },
    /// Approves a chunk, a phase or the plan, by the name that `ralph approve` takes. An empty one is the only one that waits.
    Approve {
        name: String,
    },
    /// Accepts the work of a run that ended without proof. The reason may be empty.
    Accept {
        why: String,
    },
}

impl PersonAction {
    /// The command line that does the same. What was typed is quoted for a shell.
    pub fn command_line(&self, run: &RunId) -> String {
        match self {
            Self::Pause => format!("ralph pause {run}"),
            Self::Resume => format!("ralph resume {run}"),
            Self::Cancel => format!("ralph cancel {run}"),
            Self::Tell { text } => format!("ralph tell {run} {}", quoted(text)),
            Self::Waive { requirement, until, why } => format!(
                "ralph waive {} --until {} --why {} --run {run}",
                quoted(requirement),
                quoted(until),
                quoted(why)
            ),
            Self::Require { requirement } => {
                format!("ralph waive --undo {} --run {run}", quoted(requirement))
            }
            Self::SetLimits { iterations, duration, cost } => {
                let options = [
                    ("--max-iterations", iterations),
                    ("--max-duration", duration),
                    ("--max-cost", cost),
                ];
                let given = options.iter().filter(|(_, value)| !value.is_empty());
                let given = given.map(|(option, value)| format!(" {option} {}", quoted(value)));
                format!("ralph limits {run}{}", given.collect::<String>())
            }
            Self::Approve { name } if name.is_empty() => format!("ralph approve {run}"),
            Self::Approve { name } => format!("ralph approve {run} {}", quoted(name)),
            Self::Accept { why } if why.is_empty() => format!("ralph accept {run}"),
            Self::Accept { why } => format!("ralph accept {run} --why {}", quoted(why)),
        }
    }
}

/// A word of a command line, quoted if a shell would interpret it. Nothing was typed yet for an empty one.
fn quoted(word: &str) -> String {
    if word.is_empty() { "\"…\"".to_string() } else { shell_quote(word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_a_command_line_that_a_shell_does_not_change() {
        let run = RunId::parse("k7f2").unwrap();
        let waive = |requirement: &str, why: &str| PersonAction::Waive {
            requirement: requirement.to_string(),
            until: "2h".to_string(),
            why: why.to_string(),
        };
        for (action, line) in [
            (PersonAction::Pause, "ralph pause k7f2"),
            (PersonAction::Tell { text: String::new() }, "ralph tell k7f2 \"…\""),
            (PersonAction::Tell { text: "it's $(id)".into() }, "ralph tell k7f2 'it'\\''s $(id)'"),
            (
                waive("feature 2", "`rm`"),
                "ralph waive 'feature 2' --until 2h --why '`rm`' --run k7f2",
            ),
            (
                PersonAction::SetLimits {
                    iterations: "40".into(),
                    duration: String::new(),
                    cost: "50".into(),
                },
                "ralph limits k7f2 --max-iterations 40 --max-cost 50",
            ),
            (PersonAction::Accept { why: String::new() }, "ralph accept k7f2"),
            (PersonAction::Approve { name: String::new() }, "ralph approve k7f2"),
            (PersonAction::Approve { name: "$(id)".into() }, "ralph approve k7f2 '$(id)'"),
            (PersonAction::Tell { text: "{a,b}".into() }, "ralph tell k7f2 '{a,b}'"),
            (PersonAction::Accept { why: "read it".into() }, "ralph accept k7f2 --why 'read it'"),
        ] {
            assert_eq!(action.command_line(&run), line);
        }
    }
}
