//! A word that a person types at the terminal before a command loosens what an agent is held to.
//!
//! An agent can run commands where the checks of the caller do not see it, for example in a terminal multiplexer. The
//! word is new each time and is shown only at the terminal, so that no script knows the answer in advance.

use crate::failure::CommandFailure;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_hook::overview;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::terminal_question::{self, NoAnswer};
use std::time::Duration;

const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);
const WORD_CHARS: u64 = 4;
/// What to do where there is no terminal to type at.
pub(crate) const FOREGROUND_HINT: &str = "run it in the foreground of your own terminal";
/// Without vowels, so that it spells nothing, and without characters that look alike.
const ALPHABET: &[u8] = b"bcdfghjkmnpqrstvwxz";

/// Asks for the word if a run of this user holds an agent, or can hold it again. `action` completes "type the word to …".
pub(crate) fn require_while_held(home: &RalphHome, action: &str) -> Result<(), CommandFailure> {
    match held_run(home)? {
        Some((run, RunPhase::Active)) => {
            ask_for_word(&format!("run `{run}` holds an agent"), action)
        }
        Some((run, _)) => {
            ask_for_word(&format!("run `{run}` is paused and can hold an agent again"), action)
        }
        None => Ok(()),
    }
}

/// Asks for the word in any case.
pub(crate) fn require_always(why: &str, action: &str) -> Result<(), CommandFailure> {
    ask_for_word(why, action)
}

/// A run that holds an agent, or can hold it again: otherwise the agent could pause its run from a detached process,
/// loosen it and resume it. A run that holds now comes first.
pub(crate) fn held_run(home: &RalphHome) -> Result<Option<(RunId, RunPhase)>, CommandFailure> {
    let (views, _) = overview::list_run_views(home)?;
    let open = views.into_iter().filter(|view| {
        let opened = &view.opened;
        !matches!(view.phase, RunPhase::Ended(_)) && opened.state.owner(&opened.run).is_some()
    });
    let first = open.min_by_key(|view| view.phase != RunPhase::Active);
    Ok(first.map(|view| (view.opened.run.id, view.phase)))
}

fn ask_for_word(why: &str, action: &str) -> Result<(), CommandFailure> {
    let word = new_word();
    let question = format!("{why}, so ralph asks a person; type {word} to {action}: ");
    let question = text::clean_line(&question, usize::MAX);
    let answer = terminal_question::ask_at_terminal(
        &format!("{question} "),
        &Deadline::after(ANSWER_TIMEOUT),
    );
    match answer {
        Ok(answer) if answer.eq_ignore_ascii_case(&word) => Ok(()),
        Ok(_) => Err(CommandFailure::untrusted(
            "that was another word; nothing was changed",
            "run the command again and type the word that it shows",
        )),
        Err(error @ (NoAnswer::NoTerminal | NoAnswer::InBackground)) => {
            Err(CommandFailure::untrusted(
                &format!(
                    "{why}, so a person has to confirm this, but {error}; nothing was changed"
                ),
                FOREGROUND_HINT,
            ))
        }
        Err(error @ NoAnswer::TimedOut) => Err(CommandFailure::untrusted(
            &format!("{error}; nothing was changed"),
            "run the command again",
        )),
    }
}

fn new_word() -> String {
    let letters = ALPHABET.len() as u64;
    let mut rest = clock::nonce();
    let mut letter = || {
        let at = usize::try_from(rest % letters).unwrap_or(0);
        rest /= letters;
        char::from(ALPHABET.get(at).copied().unwrap_or(b'x'))
    };
    (0..WORD_CHARS).map(|_| letter()).collect()
}
