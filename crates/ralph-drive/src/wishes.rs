//! What the person at the terminal wants: nothing, an end after this turn, or an end now.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Shared with whoever hears signals or keys. Once wished, it stays so.
#[derive(Clone, Debug, Default)]
pub struct Wishes(Arc<AtomicU32>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    None,
    /// Finish the turn, and then no more.
    AfterTheTurn,
    Now,
}

impl Wishes {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// For who counts signals.
    pub fn counter(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.0)
    }

    pub fn get(&self) -> Wish {
        match self.0.load(Ordering::SeqCst) {
            0 => Wish::None,
            1 => Wish::AfterTheTurn,
            _ => Wish::Now,
        }
    }
}
