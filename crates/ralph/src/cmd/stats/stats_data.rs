//! Chooses whose runs statistics are computed from.

use crate::cmd::run_choice;
use crate::failure::CommandFailure;
use ralph_deck::page::stats::StatsRows;
use ralph_deck::stats_source::{self, StatsData};
use ralph_home::paths::RalphHome;
use ralph_hook::project_scope::ProjectScope;
use ralph_sys::env::Env;
use std::path::PathBuf;

/// Whose runs are wanted.
pub(crate) enum ProjectChoice {
    /// The project of the current directory, or all if it has no runs.
    Current,
    Named(PathBuf),
    All,
}

/// What statistics are computed from, and the project that it is limited to.
pub(crate) fn load_data(
    env: &Env,
    home: &RalphHome,
    choice: &ProjectChoice,
) -> Result<(StatsData, Option<PathBuf>), CommandFailure> {
    let rows = load_rows(home)?;
    let scope = match choice {
        ProjectChoice::All => None,
        ProjectChoice::Named(directory) => Some(ProjectScope::of_directory(directory)),
        // A directory without runs has nothing to show.
        ProjectChoice::Current => Some(run_choice::current_scope(env)?)
            .filter(|scope| !stats_source::projects_with_runs(&rows, Some(scope)).is_empty()),
    };
    let data = StatsData::load(home, &rows, scope.as_ref())?;
    Ok((data, scope.map(|scope| scope.root().to_path_buf())))
}

/// The rows of all runs on this machine.
pub(crate) fn load_rows(home: &RalphHome) -> Result<StatsRows, CommandFailure> {
    let mut rows = crate::cmd::open_index(home)?.stats_rows()?;
    stats_source::check_liveness(home, &mut rows);
    Ok(rows)
}
