//! Stops that only wait for results, and are charged all the same.

const FILES_CHANGED_NOTE: &str = "\nThe files changed, so the wait started over, and this stop counts as an iteration. \
    Do not edit files until the result is available.\n";
const WORKER_LOST_NOTE: &str = "\nralph's background process ended before it had a result, so the wait started over, \
    and this stop counts as an iteration. Leave that process alone.\n";

/// Why results that an agent waits for start anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitRestart {
    FilesChanged,
    /// The process that was to have the results ended without them: an agent can kill it.
    WorkerLost,
}

impl WaitRestart {
    pub(crate) fn because(self) -> &'static str {
        match self {
            Self::FilesChanged => "the files changed during the wait",
            Self::WorkerLost => "the background process ended without a result",
        }
    }

    pub(super) fn note(self) -> &'static str {
        match self {
            Self::FilesChanged => FILES_CHANGED_NOTE,
            Self::WorkerLost => WORKER_LOST_NOTE,
        }
    }
}
