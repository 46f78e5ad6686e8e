//! Chooses whose runs statistics are computed from.

use crate::cmd::run_choice;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_deck::IndexCoverage;
use ralph_deck::page::insights::StatsRows;
use ralph_deck::run_index::RunIndexError;
use ralph_deck::stats_source::{self, StatsData};
use ralph_home::paths::RalphHome;
use ralph_hook::project_scope::ProjectScope;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use std::path::PathBuf;
use std::time::Duration;

/// The next call continues where this one ended.
const REFRESH_TIMEOUT: Duration = Duration::from_mins(1);

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
    let loaded = stats_source::load_rows(home, &Deadline::after(REFRESH_TIMEOUT));
    let (rows, coverage) = loaded.map_err(|error| index_failure(&error))?;
    if coverage == IndexCoverage::Partial {
        let mark = paint(term::WARN, "?");
        term::err(&format!("{mark} the index is incomplete; the next call continues it\n"));
    }
    Ok(rows)
}

fn index_failure(error: &RunIndexError) -> CommandFailure {
    CommandFailure::caused_by("cannot read the runs", error)
        .with_hint("delete `index` in ralph's home; it is rebuilt")
}
