//! The requirements stop by stop, as a strip of bars: a full bar is not met, a low bar is met.

use crate::page::{CellState, MatrixRow, RequirementMatrix};
use maud::{Markup, html};
use ralph_core::redact::Redactor;
use ralph_core::text::count_noun;

pub(super) const LEGEND: &str = "full bar: not met · low bar: met · dot: not reached";
const MAX_ROWS: usize = 20;
const CELL_WIDTH: usize = 12;
const HEIGHT: usize = 16;

/// The requirements that were not met at some stop.
pub(super) fn strip_table(matrix: &RequirementMatrix, redactor: &Redactor) -> Markup {
    let width = matrix.columns.len() * CELL_WIDTH;
    html! {
        table class="grid" {
            tbody {
                @for row in matrix.rows.iter().take(MAX_ROWS) {
                    tr {
                        th scope="row" { (redactor.redact(&row.name)) }
                        td {
                            svg width=(width) viewBox=(format!("0 0 {width} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(describe_row(matrix, row)) {
                                @for (index, cell) in row.cells.iter().enumerate() { (bar(index, cell.state)) }
                            }
                        }
                    }
                }
            }
        }
        @if matrix.rows.len() > MAX_ROWS {
            p class="q" { "and " (count_noun((matrix.rows.len() - MAX_ROWS) as u64, "more requirement")) }
        }
    }
}

fn bar(index: usize, state: CellState) -> Markup {
    let full = CELL_WIDTH - 2;
    let (class, y, width, height) = match state {
        CellState::Unmet => ("u", 1, full, 14),
        CellState::Unknown | CellState::Pending | CellState::AwaitsPerson => ("p", 1, full, 14),
        CellState::Met => ("m", 12, full, 3),
        CellState::Advisory => ("w", 8, full, 7),
        CellState::NotReached => ("p", 13, 2, 2),
    };
    let x = index * CELL_WIDTH + (CELL_WIDTH - width) / 2;
    html! { rect class=(class) x=(x) y=(y) width=(width) height=(height) {} }
}

/// `not met at stops 1 to 19; met at stops 20 to 23`
pub(super) fn describe_row(matrix: &RequirementMatrix, row: &MatrixRow) -> String {
    let mut parts: Vec<(CellState, u32, u32)> = Vec::new();
    for (column, cell) in matrix.columns.iter().zip(&row.cells) {
        match parts.last_mut() {
            Some((state, _, last)) if *state == cell.state => *last = column.last,
            _ => parts.push((cell.state, column.first, column.last)),
        }
    }
    let labels = parts.into_iter().map(|(state, first, last)| {
        let label = state.label();
        if first == last {
            format!("{label} at stop {first}")
        } else {
            format!("{label} at stops {first} to {last}")
        }
    });
    labels.collect::<Vec<_>>().join("; ")
}
