//! A run as an OpenTelemetry trace, and the metrics of all runs, as OTLP/HTTP JSON bodies.
//!
//! The JSON form of the protocol writes ids in hexadecimal and 64-bit numbers as strings. Ids are hashes of the run and of
//! the number of a journal entry, so that a run that is sent twice gives the same spans. Every foreign text is redacted,
//! cleaned and bounded, because it leaves the machine.

mod metric_request;
mod otlp_json;
mod run_spans;
#[cfg(test)]
mod tests;

pub use metric_request::metric_request;
pub use run_spans::{ExportedRun, trace_requests};

/// Where traces are posted to, below the endpoint.
pub const TRACES_PATH: &str = "/v1/traces";
/// Where metrics are posted to, below the endpoint.
pub const METRICS_PATH: &str = "/v1/metrics";
