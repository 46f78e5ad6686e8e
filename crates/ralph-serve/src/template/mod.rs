//! The pages, as functions from views to markup. Everything that is interpolated is escaped by `maud`.

pub(crate) mod board;
pub(crate) mod changes;
mod curves;
#[cfg(test)]
mod extreme_values;
pub(crate) mod facts;
pub(crate) mod frame;
mod gates;
pub(crate) mod history;
pub(crate) mod marks;
mod matrix;
pub(crate) mod queues;
pub(crate) mod run;
pub(crate) mod run_forms;
mod sessions;
pub(crate) mod states;
pub(crate) mod stats;
pub(crate) mod stops;
