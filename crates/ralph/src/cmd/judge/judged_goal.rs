//! The goal that `ralph judge run` puts to a judge: the given one, that of the run in progress, or the messages of the
//! commits since the base. A judge is never asked about a goal that is not stated.

use crate::failure::CommandFailure;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_core::text::{self, count_noun};
use ralph_deck::wording::safe_line;
use ralph_git::git;
use ralph_home::paths::RalphHome;
use ralph_home::{goal_file, store};
use ralph_hook::project_runs::{self, ProjectRun, RunPurpose};
use ralph_hook::project_scope::ProjectScope;
use ralph_sys::clock::Deadline;
use serde::Serialize;
use std::path::Path;

/// Longer messages of commits are cut.
const MAX_MESSAGES_CHARS: usize = 8_000;
const SHOWN_CHARS: usize = 100;
const HOW_TO_STATE: &str = "say what the change is for: `--goal \"…\"`";

#[derive(Debug, Serialize)]
pub(super) struct JudgedGoal {
    pub text: String,
    pub from: GoalSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GoalSource {
    Option,
    Run,
    /// The author of the change wrote them, so they are the weakest statement of a goal.
    Commits,
}

/// Where a goal is looked for.
pub(super) struct GoalSearch<'a> {
    pub home: &'a RalphHome,
    pub project: &'a Path,
    pub given: Option<&'a str>,
    /// The commit that the work tree is compared with, as the person named it.
    pub base: &'a str,
    /// The id of the last commit that it has in common with the one that is checked out.
    pub common: Option<&'a str>,
}

impl GoalSearch<'_> {
    pub(super) fn find_goal(&self, deadline: &Deadline) -> Result<JudgedGoal, CommandFailure> {
        if let Some(given) = self.given.map(str::trim).filter(|given| !given.is_empty()) {
            return Ok(JudgedGoal { text: given.to_string(), from: GoalSource::Option, run: None });
        }
        if let Some(goal) = self.goal_of_run()? {
            return Ok(goal);
        }
        let messages = self
            .common
            .map(|commit| git::commit_messages_since(self.project, commit, deadline))
            .transpose()
            .map_err(|error| CommandFailure::caused_by("cannot read the commits", &error))?
            .unwrap_or_default();
        if messages.is_empty() {
            let base = safe_line(self.base);
            let what = format!(
                "no goal is given, no run is active here, and there is no commit since `{base}`"
            );
            return Err(CommandFailure::new(&what, HOW_TO_STATE));
        }
        let text = text::truncate(&messages.join("\n\n"), MAX_MESSAGES_CHARS);
        Ok(JudgedGoal { text, from: GoalSource::Commits, run: None })
    }

    /// The goal of the only run in progress.
    fn goal_of_run(&self) -> Result<Option<JudgedGoal>, CommandFailure> {
        let scope = ProjectScope::of_directory(self.project);
        let id = match project_runs::choose_run(self.home, &scope, RunPurpose::Steer)? {
            ProjectRun::One(id) => id,
            ProjectRun::NoneHere => return Ok(None),
            ProjectRun::Several(runs) => {
                let names: Vec<_> = runs.iter().map(|run| format!("`{run}`")).collect();
                let what = format!(
                    "no goal is given, and {} are active here: {}",
                    count_noun(runs.len(), "run"),
                    names.join(", ")
                );
                return Err(CommandFailure::new(&what, HOW_TO_STATE));
            }
        };
        let opened = store::load_run(self.home, &id)?;
        if let RunPhase::Ended(_) = opened.state.phase {
            return Ok(None);
        }
        let goal = goal_file::read_goal(self.home, &opened.run)?;
        let text = String::from_utf8_lossy(&goal).trim().to_string();
        let goal = JudgedGoal { text, from: GoalSource::Run, run: Some(id) };
        Ok(Some(goal).filter(|goal| !goal.text.is_empty()))
    }
}

impl JudgedGoal {
    /// `goal of run k7f2: make it work`
    pub(super) fn describe(&self) -> String {
        let from = match (self.from, &self.run) {
            (GoalSource::Option, _) => "goal".to_string(),
            (GoalSource::Run, Some(run)) => format!("goal of run {run}"),
            (GoalSource::Run, None) => "goal of the run".to_string(),
            (GoalSource::Commits, _) => "goal, from the messages of the commits".to_string(),
        };
        format!("{from}: {}", text::truncate(&safe_line(&self.text), SHOWN_CHARS))
    }
}
