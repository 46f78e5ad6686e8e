//! Comments of people on the pull request of a run, as messages to the agent: `ralph tell --from-pr` while the run lasts,
//! `ralph run --fork RUN --from-review` after its end.

use super::{declare, identify_caller};
use crate::driven_status;
use crate::failure::CommandFailure;
use ralph_core::id::RunId;
use ralph_core::record::{RunChange, RunRecord};
use ralph_core::text;
use ralph_deck::person_action::LONGEST_MESSAGE;
use ralph_drive::forge::{Forge, ReviewComment, read_review_comments};
use ralph_home::journal;
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::adjustments::{self, PersonHint, RunAdjustment};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use std::path::Path;
use std::time::Duration;

const READ_TIMEOUT: Duration = Duration::from_mins(5);
/// More messages than this at once are a conversation rather than a review.
const MAX_SENT: usize = 20;

/// Comments on a pull request that no run has got yet.
#[derive(Default)]
pub(crate) struct NewComments {
    /// Oldest first.
    pub sent: Vec<ReviewComment>,
    /// How many more there are.
    pub left: usize,
}

pub(crate) fn new_comments(
    env: &Env,
    home: &RalphHome,
    run: &RunId,
) -> Result<NewComments, CommandFailure> {
    super::refuse_agent(env, "an agent may not send messages of people", super::ASK_A_PERSON)?;
    let record = store::load_run(home, run)?.run;
    let Some(worktree) = record.worktree() else {
        let what = format!("run `{run}` has no pull request");
        return Err(CommandFailure::new(&what, "`ralph run --pr` opens one"));
    };
    let deadline = Deadline::after(READ_TIMEOUT);
    let comments = Forge::for_issues(Path::new(&worktree.from), env, None, &deadline)
        .and_then(|forge| read_review_comments(&forge, &worktree.branch, &deadline))
        .map_err(|error| {
            let failure = CommandFailure::caused_by("cannot read the pull request", &error);
            match error.remedy() {
                Some(remedy) => failure.with_hint(&remedy),
                None => failure,
            }
        })?;
    let sent = sent_messages(home, &worktree.branch);
    let is_new = |one: &ReviewComment| !sent.iter().any(|message| one.is_in(message));
    let mut comments: Vec<ReviewComment> = comments.into_iter().filter(is_new).collect();
    if comments.is_empty() {
        let what = format!("no new comments from people on the pull request of run `{run}`");
        let hint = "only comments by people with write access count";
        return Err(CommandFailure::new(&what, hint));
    }
    let left = comments.len().saturating_sub(MAX_SENT);
    comments.truncate(MAX_SENT);
    Ok(NewComments { sent: comments, left })
}

/// The messages that runs on this branch have got.
fn sent_messages(home: &RalphHome, branch: &str) -> Vec<String> {
    let is_on_branch =
        |run: &RunRecord| run.worktree().is_some_and(|worktree| worktree.branch == branch);
    let runs = store::list_runs(home).unwrap_or_default();
    let runs = runs
        .into_iter()
        .filter(|run| store::load_run(home, run).is_ok_and(|opened| is_on_branch(&opened.run)));
    let entries = runs.flat_map(|run| {
        let read = journal::read_journal(&home.run(&run).journal());
        read.map(|read| read.entries).unwrap_or_default()
    });
    let message = |change: RunChange| {
        if let RunChange::HintGiven { text, .. } = change { Some(text) } else { None }
    };
    entries.filter_map(|entry| message(entry.change)).collect()
}

/// Queues each comment as a message of its author.
pub(crate) fn send_comments(
    env: &Env,
    home: &RalphHome,
    run: &RunId,
    comments: &[ReviewComment],
) -> Result<(), CommandFailure> {
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    let caller = identify_caller(env);
    let adjustment = RunAdjustment { home, run, caller, by: None, deadline: &deadline };
    for comment in comments {
        let message = declare::clean_text(env, &comment.message(), LONGEST_MESSAGE);
        let by = format!("{} on the pull request", comment.author);
        let hint = PersonHint { text: &message, by: &by, answers: None };
        adjustments::add_hint(&adjustment, &hint)
            .map_err(|error| driven_status::control_failure(home, error))?;
    }
    Ok(())
}

/// `3 comments sent; the agent gets them at its next stop`
pub(crate) fn sent_note(run: &RunId, comments: &NewComments) -> String {
    let NewComments { sent, left } = comments;
    let them = if sent.len() == 1 { "it" } else { "them" };
    let rest = match left {
        0 => String::new(),
        left => format!("; {left} left: `ralph tell {run} --from-pr` sends the rest"),
    };
    let count = text::count_noun(sent.len(), "comment");
    format!("{count} sent; the agent gets {them} at its next stop{rest}")
}
