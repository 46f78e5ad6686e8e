//! What can hold a session's stop.

use crate::record::Run;
use crate::run::State;

#[derive(Clone, Copy, Debug)]
pub enum Hold<'a> {
    /// A run owns the session. Its limits bound the number of blocks.
    Run { run: &'a Run, state: &'a State },
    /// Only files that other tools wrote about the session. Without a run there is no counter, so they hold the agent
    /// only once per prompt.
    Files,
}
