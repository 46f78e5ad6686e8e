//! Landing by pull request: pushes the branch, opens the request with the report as its body and, if configured, waits
//! for its checks.

use super::landing::{kept, kept_back};
use super::{DriveError, Next, Night};
use crate::forge::{self, Body, Checks, Forge, ForgeError, Line, Mark, Request};
use crate::told::Told;
use crate::wishes::Wish;
use ralph_core::drive::Worktree;
use ralph_core::facts::Driver;
use ralph_core::limits;
use ralph_core::status::Status;
use ralph_core::text;
use ralph_home::store::{Opened, StoreError};
use ralph_hook::trail;
use ralph_sys::clock::{self, Deadline, Stopwatch};
use ralph_sys::fs::{self, Durability, FileError};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(5);
const LARGEST_GOAL: usize = 64 * 1024;
const TICK: Duration = Duration::from_millis(200);
/// Interval between queries of the forge.
const LOOK: Duration = Duration::from_secs(15);
/// Checks that have not started after this time are assumed not to exist.
const NONE_YET: Duration = Duration::from_mins(2);
/// Maximum number of times that failed checks are returned to the agent.
const MOST_ROUNDS: u32 = 5;

#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(transparent)]
    Forge(#[from] ForgeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    File(#[from] FileError),
}

enum Checked {
    Passed(String),
    Failed(String),
    Untold(String),
    Wished,
}

impl Night<'_, '_> {
    pub(super) fn request(
        &mut self,
        worktree: &Worktree,
        commit: &str,
    ) -> Result<Next, DriveError> {
        let opened = match self.opened(worktree, commit) {
            Ok(opened) => opened,
            Err(error) => return Ok(kept_back(worktree, &error)),
        };
        let (forge, url) = opened;
        let Some(most) = worktree.checks_ms else {
            self.settle(format!("{url} is open, on branch `{}`", worktree.branch))?;
            return self.look(Driver::Alone);
        };
        Ok(match self.checked(&forge, commit, Duration::from_millis(most)) {
            Checked::Passed(what) => {
                self.settle(format!("{url} is open, and {what}"))?;
                self.look(Driver::Alone)?
            }
            Checked::Failed(what) if self.rounds < MOST_ROUNDS => {
                self.rounds = self.rounds.saturating_add(1);
                self.settle(format!("{url}: {what}"))?;
                Next::Say(crate::handoff::after_checks(&what))
            }
            Checked::Failed(what) => {
                Next::Park(Status::NeedsReview, format!("{url}: {what}; {}", kept(worktree)))
            }
            Checked::Untold(what) => Next::Park(Status::GateBroken, format!("{url}: {what}")),
            Checked::Wished => Next::Park(
                Status::Cancelled,
                "stopped by a person while waiting for checks".to_string(),
            ),
        })
    }

    /// Pushes the branch and opens or updates the pull request.
    fn opened(
        &mut self,
        worktree: &Worktree,
        commit: &str,
    ) -> Result<(Forge, String), RequestError> {
        let deadline = Deadline::after(PATIENCE);
        let forge =
            forge::check(Path::new(&worktree.from), &self.ride.client.env, None, &deadline)?;
        forge::push(&forge, worktree, commit, &deadline)?;
        let (title, body) = self.written(commit)?;
        let base = worktree.into.as_deref().or(forge.default_branch.as_deref()).unwrap_or("main");
        let request = Request { title: &title, body: &body, head: &worktree.branch, base };
        let opened = forge::open(&forge, &request, &deadline)?;
        let url = opened.url().to_string();
        Ok((forge, url))
    }

    fn written(&self, commit: &str) -> Result<(String, PathBuf), RequestError> {
        let Opened { run, state, .. } = self.ride.load()?;
        let paths = self.ride.home.run(&run.id);
        let goal = fs::read_range(&paths.goal(), 0, LARGEST_GOAL).unwrap_or_default();
        let goal = String::from_utf8_lossy(&goal);
        let trail = trail::keep(self.ride.home, &run, "before the pull request");
        let met = state.report.as_ref().map(|report| report.met.as_slice()).unwrap_or_default();
        let lines: Vec<_> =
            met.iter().map(|name| Line { mark: Mark::Met, name, detail: "" }).collect();
        let outcome = format!(
            "verified: {} — {} over {}, {}, {}",
            run.title,
            text::counted(state.iteration.into(), "iteration"),
            text::counted(state.driving.count.into(), "session"),
            limits::duration(state.elapsed_ms(clock::now_ms())),
            limits::money(state.driving.spent().micro_usd)
        );
        let page = forge::body(&Body {
            goal: &goal,
            outcome: &outcome,
            commit,
            requirements: &lines,
            commits: &trail.commits,
            files: &trail.files,
            notes: None,
            redactor: &self.ride.redactor,
        });
        let path = paths.directory().join("request.md");
        fs::replace(&path, page.as_bytes(), Durability::Cached)?;
        Ok((run.title, path))
    }

    /// Waits for the checks of a commit, at most for `most` or until a stop request.
    fn checked(&mut self, forge: &Forge, commit: &str, most: Duration) -> Checked {
        let until_ms = clock::now_ms().saturating_add(u64::try_from(most.as_millis()).unwrap_or(0));
        let began = Stopwatch::start();
        let mut asked: Option<Stopwatch> = None;
        while clock::now_ms() < until_ms {
            self.ride.watcher.tick();
            if self.ride.wish() != Wish::None {
                return Checked::Wished;
            }
            if asked.as_ref().is_some_and(|asked| asked.elapsed() < LOOK) {
                clock::pause(TICK);
                continue;
            }
            asked = Some(Stopwatch::start());
            let why = match forge::checks(forge, commit, &Deadline::after(PATIENCE)) {
                Ok(Checks::Passed { count }) => {
                    return Checked::Passed(format!("all its checks pass ({count})"));
                }
                Ok(Checks::Failed { failed }) => {
                    let named = failed.iter().map(|one| match &one.url {
                        Some(url) => format!("{} ({url})", one.name),
                        None => one.name.clone(),
                    });
                    let named = named.collect::<Vec<_>>().join(", ");
                    return Checked::Failed(format!("failed checks: {named}"));
                }
                Ok(Checks::Pending { names }) => format!("checks: {}", names.join(", ")),
                Ok(Checks::None) if began.elapsed() > NONE_YET => {
                    return Checked::Untold("no checks run for this commit".to_string());
                }
                Ok(Checks::None) => "waiting for checks to start".to_string(),
                Err(error) => ralph_home::faults::describe(&error),
            };
            self.ride.tell(&Told::Waiting { why, until_ms, attempt: 1 });
        }
        let most = limits::duration(u64::try_from(most.as_millis()).unwrap_or(u64::MAX));
        Checked::Untold(format!("its checks did not finish within {most}"))
    }
}
