//! Opens the index of runs for a command.

use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_deck::IndexCoverage;
use ralph_deck::run_index::{RunIndex, RunIndexError};
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use std::time::Duration;

/// The index of a million journal lines is built in seconds; the next command continues.
const REFRESH_TIMEOUT: Duration = Duration::from_mins(1);

/// The index with everything that was appended until now. Reports on stderr if something is missing.
pub(crate) fn open_index(home: &RalphHome) -> Result<RunIndex, CommandFailure> {
    let (index, coverage) = RunIndex::open_refreshed(home, &Deadline::after(REFRESH_TIMEOUT))?;
    if coverage == IndexCoverage::Partial {
        let mark = paint(term::WARN, "?");
        term::err(&format!("{mark} the index is incomplete; the next command continues it\n"));
    }
    Ok(index)
}

impl From<RunIndexError> for CommandFailure {
    fn from(error: RunIndexError) -> Self {
        Self::caused_by("cannot read the index of runs", &error)
            .with_hint("delete `index` in ralph's home; it is rebuilt")
    }
}
