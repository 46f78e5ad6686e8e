//! Explains what a gate's result depends on, and whether it is cached. Used by `ralph gate explain`.

use super::result_cache::{CachedResult, ResultCache};
use super::result_key::{self, ResultKey};
use super::{ContentView, GateContext, gate_tools};
use ralph_core::gate::Gate;
use ralph_git::tree::ListingError;
use ralph_sys::fs::FileError;

#[derive(Debug, thiserror::Error)]
pub enum GateExplainError {
    #[error(transparent)]
    Tree(#[from] ListingError),
    #[error(transparent)]
    File(#[from] FileError),
}

#[derive(Debug)]
pub struct GateExplanation {
    pub key: ResultKey,
    /// Number of files that the gate reads.
    pub files: usize,
    pub tools: Vec<String>,
    /// Names of the gate's environment variables, without values.
    pub environment: Vec<String>,
    pub cached: CachedResult,
}

pub fn explain_gate(
    place: &GateContext<'_>,
    gate: &Gate,
) -> Result<GateExplanation, GateExplainError> {
    let view = ContentView::read(place)?;
    let environment = place.gate_environment(gate);
    let files = match (&view, gate.paths.as_slice()) {
        (ContentView::Checkout(_), _) => 0,
        (ContentView::Tree(listing), []) => listing.entries.len(),
        (ContentView::Tree(listing), globs) => {
            result_key::matching_entries(globs, place.project, listing).count()
        }
    };
    let key = view.key(place, gate);
    Ok(GateExplanation {
        key,
        files,
        tools: gate_tools::sealed_tools(gate, place.project, &environment)
            .into_iter()
            .map(|tool| tool.path)
            .collect(),
        environment: environment
            .iter()
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect(),
        cached: ResultCache::open(place.home)?.lookup(&key)?,
    })
}
