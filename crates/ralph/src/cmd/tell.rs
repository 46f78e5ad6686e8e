//! `ralph tell`: a message to the agent, which also answers its question. The session command of the same name uses the
//! functions here too.

use super::adjust::find_run;
use super::{declare, identify_caller, open_home, pull_review, run_choice};
use crate::driven_status;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use clap::Args;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_deck::page::{AskedQuestion, asked_question};
use ralph_deck::person_action::LONGEST_MESSAGE;
use ralph_home::paths::RalphHome;
use ralph_home::run_process;
use ralph_home::store;
use ralph_hook::adjustments::{self, PersonHint, RunAdjustment, person_name};
use ralph_hook::control;
use ralph_hook::overview::RunView;
use ralph_hook::project_runs::RunPurpose;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use serde::Serialize;

const QUOTE_HINT: &str = "`ralph status --all` lists runs; to send these words to the run of this project, quote them as one";
/// How long the id of a run is.
const RUN_ID_CHARS: usize = 4;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph tell \"the old format may go\"\n  ralph tell k7f2 \"look at src/parser.rs first\"\n  ralph tell k7f2 --from-pr\n\nThe agent is held at its next stop and gets the message there, even\nwhen everything is met. Limits still end the run."
)]
pub(crate) struct TellArgs {
    /// Send this text; a run or session may be named before it
    #[arg(value_name = "[RUN|SESSION] TEXT", required_unless_present = "from_pr")]
    pub text: Vec<String>,
    /// Name the run or its session [default: the run of this project]
    #[arg(long, value_name = "RUN|SESSION")]
    pub run: Option<String>,
    /// Send new review comments from the run's pull request
    #[arg(long)]
    pub from_pr: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct MessageJson<'a> {
    v: u8,
    run: &'a str,
    what: &'static str,
}

#[derive(Serialize)]
struct ReviewJson<'a> {
    v: u8,
    run: &'a str,
    what: &'static str,
    comments: usize,
    /// New comments that were not sent yet.
    left: usize,
}

pub(crate) fn run(env: &Env, args: &TellArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    if args.from_pr {
        return send_review(env, &home, args);
    }
    let (run, words) = message_operands(env, &home, args)?;
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    let (caller, by) = (identify_caller(env), person_name(env));
    let adjustment =
        RunAdjustment { home: &home, run: &run, caller, by: Some(&by), deadline: &deadline };
    let done = send_message(env, &adjustment, &words.join(" "))?;
    if args.json {
        super::print_json(&MessageJson { v: 1, run: run.as_str(), what: "told" })?;
    } else {
        term::out(&format!("{}  {done}\n", paint(term::BOLD, run.as_str())))?;
    }
    Ok(())
}

/// Sends the comments on the pull request of a run that has not ended.
fn send_review(env: &Env, home: &RalphHome, args: &TellArgs) -> Result<(), CommandFailure> {
    let run = match (args.text.as_slice(), &args.run) {
        ([], None) => run_choice::project_run(env, home, RunPurpose::Steer)?,
        ([], Some(name)) | ([name], None) => find_run(home, name)?,
        _ => {
            let hint = "run `ralph tell RUN --from-pr`";
            return Err(CommandFailure::new("`--from-pr` takes no text", hint));
        }
    };
    let opened = store::load_run(home, &run)?;
    if let RunPhase::Ended(status) = control::effective_phase(home, &opened) {
        let what = format!("run `{run}` has ended: {}", status.name());
        let hint = format!("`ralph run --fork {run} --from-review` continues it with the comments");
        return Err(CommandFailure::new(&what, &hint));
    }
    let comments = pull_review::new_comments(env, home, &run)?;
    pull_review::send_comments(env, home, &run, &comments.sent)?;
    if args.json {
        let (run, left, comments) = (run.as_str(), comments.left, comments.sent.len());
        super::print_json(&ReviewJson { v: 1, run, what: "told", comments, left })?;
    } else {
        let note = pull_review::sent_note(&run, &comments);
        term::out(&format!("{}  {note}\n", paint(term::BOLD, run.as_str())))?;
    }
    Ok(())
}

/// The run and the words of a message. The first of several words may name the run.
fn message_operands<'a>(
    env: &Env,
    home: &RalphHome,
    args: &'a TellArgs,
) -> Result<(RunId, &'a [String]), CommandFailure> {
    let words = args.text.as_slice();
    if let Some(name) = &args.run {
        return Ok((find_run(home, name)?, words));
    }
    match words {
        // `ralph tell k7f2`: the text was forgotten. It must not reach the agent as a message.
        [name] if run_choice::is_known_run(home, name) => {
            let what = format!("the message to run `{name}` is missing");
            let hint = format!("give the text: `ralph tell {name} \"…\"`");
            Err(CommandFailure::new(&what, &hint))
        }
        [name, rest @ ..] if !rest.is_empty() && run_choice::is_known_name(home, name) => {
            Ok((find_run(home, name)?, rest))
        }
        // `ralph tell k7f3 hi`: a wrong name must not become part of a message to another run.
        [name, rest @ ..] if !rest.is_empty() && has_shape_of_run_id(name) => {
            let found = find_run(home, name).map(|run| (run, rest));
            found.map_err(|failure| match failure.hint() {
                Some(hint) if hint.starts_with("did you mean") => failure,
                Some(_) | None => failure.with_hint(QUOTE_HINT),
            })
        }
        // A longer wrong name before a quoted text, such as that of a session.
        [name, text] if text.contains(char::is_whitespace) && RunId::parse(name).is_some() => {
            Ok((find_run(home, name)?, std::slice::from_ref(text)))
        }
        _ => Ok((run_choice::project_run(env, home, RunPurpose::Steer)?, words)),
    }
}

/// Whether a word looks like the id of a run.
fn has_shape_of_run_id(word: &str) -> bool {
    word.len() == RUN_ID_CHARS
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Queues a message for the agent's next stop, or as the answer to its question. Returns the confirmation for the person.
pub(crate) fn send_message(
    env: &Env,
    adjustment: &RunAdjustment<'_>,
    words: &str,
) -> Result<String, CommandFailure> {
    let length = words.trim().chars().count();
    if length > LONGEST_MESSAGE {
        let what = format!("the message has {length} characters, more than {LONGEST_MESSAGE}");
        return Err(CommandFailure::new(
            &what,
            "put it into a file of the project and send the path",
        ));
    }
    let words = declare::clean_text(env, words, LONGEST_MESSAGE);
    if words.is_empty() {
        let hint = "give the text: `ralph tell RUN \"…\"`";
        return Err(CommandFailure::new("the message is empty", hint));
    }
    let asked = open_question(adjustment);
    let by = person_name(env);
    let hint = PersonHint { text: &words, by: &by, answers: asked.as_ref().map(|one| one.seq) };
    adjustments::add_hint(adjustment, &hint)
        .map_err(|error| driven_status::control_failure(adjustment.home, error))?;
    let RunAdjustment { home, run, .. } = *adjustment;
    // A runner that waits for the answer passes it on within a second.
    Ok(if asked.is_some_and(|one| one.question.until_ms.is_some()) {
        "sent; the agent reads it at once".to_string()
    } else if needs_runner(home, run) {
        format!("kept; `ralph run --resume {run}` continues the run and gives it to the agent")
    } else {
        "sent; the agent gets it at its next stop".to_string()
    })
}

/// Whether ralph drives the run and no runner does so now.
fn needs_runner(home: &RalphHome, run: &RunId) -> bool {
    store::load_run(home, run).is_ok_and(|opened| opened.run.drive.is_some())
        && !run_process::may_be_driven(home, run)
}

/// The question that a message would answer now.
fn open_question(RunAdjustment { home, run, .. }: &RunAdjustment<'_>) -> Option<AskedQuestion> {
    let view = store::load_run(home, run).map(|opened| RunView::new(home, opened)).ok()?;
    asked_question(home, &view).filter(|asked| asked.question.approval.is_none())
}
