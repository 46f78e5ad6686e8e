//! What can hold a session's stop.

use crate::record::RunRecord;
use crate::run::RunState;

#[derive(Clone, Copy, Debug)]
pub enum StopHold<'a> {
    /// A run owns the session. Its limits bound the number of blocks.
    Run { run: &'a RunRecord, state: &'a RunState },
    /// Only files that other tools wrote about the session. Without a run there is no counter, so they hold the agent
    /// only once per prompt.
    Files,
}
