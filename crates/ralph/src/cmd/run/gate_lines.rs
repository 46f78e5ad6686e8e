//! The lines of gates, of steps of the proof and of judges in the text output of a run.

use super::text_lines::cut_line;
use crate::term::{self, paint};
use ralph_deck::wording::{self, safe_line};

pub(super) fn gate_line(name: &str, outcome: &str, took_ms: u64) -> String {
    let took = wording::short_duration(took_ms);
    let name = safe_line(name);
    match outcome {
        "passed" => format!("  {} {name}  {took}\n", paint(term::GOOD, "✓")),
        "failed" => format!("  {} {name}  {took}\n", paint(term::BAD, "✗")),
        "skipped" => format!("  {} {name}  skipped\n", paint(term::DIM, "·")),
        other => format!("  {} {name}  {}, {took}\n", paint(term::WARN, "?"), safe_line(other)),
    }
}

/// A step that began.
pub(super) fn step_line(text: &str, columns: usize) -> String {
    cut_line(&format!("  {} {}", paint(term::DIM, "▸"), safe_line(text)), columns)
}
