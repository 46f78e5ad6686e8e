//! Explains what a gate's result depends on, and whether it is cached. Used by `ralph gate explain`.

use super::cache::{Cache, Known};
use super::key::{self, Key};
use super::{Place, View, tools};
use ralph_core::gate::Gate;
use ralph_git::tree::TreeError;
use ralph_sys::fs::FileError;
use std::ffi::OsStr;

#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    File(#[from] FileError),
}

#[derive(Debug)]
pub struct Explained {
    pub key: Key,
    /// Number of files that the gate reads.
    pub files: usize,
    pub tools: Vec<String>,
    /// Names of the gate's environment variables, without values.
    pub environment: Vec<String>,
    pub known: Known,
}

pub fn explain(place: &Place<'_>, gate: &Gate) -> Result<Explained, ExplainError> {
    let view = View::of(place)?;
    let environment = place.environment_of(gate);
    let files = match (&view, gate.paths.as_slice()) {
        (View::Checkout(_), _) => 0,
        (View::Tree(listing), []) => listing.entries.len(),
        (View::Tree(listing), globs) => key::selected(globs, place.project, listing).count(),
    };
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(""), |(_, value)| value);
    let key = view.key(place, gate);
    Ok(Explained {
        key,
        files,
        tools: tools::sealed(gate, place.project, path).into_iter().map(|tool| tool.path).collect(),
        environment: environment
            .iter()
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect(),
        known: Cache::open(place.home)?.look(&key)?,
    })
}
