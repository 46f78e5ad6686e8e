//! Requests of the person at the terminal to stop the run: after the current turn, or at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A counter that is shared with the code that receives signals and keys. Requests can be added but not withdrawn.
#[derive(Clone, Debug, Default)]
pub struct StopRequests(Arc<AtomicU32>);

/// The strongest request so far. The order matters: later variants override earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    None,
    /// Finish the current turn, then stop.
    AfterTurn,
    Now,
}

impl StopRequests {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// The counter itself, for a signal handler to increment.
    pub fn counter(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.0)
    }

    pub fn strongest(&self) -> StopRequest {
        match self.0.load(Ordering::SeqCst) {
            0 => StopRequest::None,
            1 => StopRequest::AfterTurn,
            _ => StopRequest::Now,
        }
    }
}
