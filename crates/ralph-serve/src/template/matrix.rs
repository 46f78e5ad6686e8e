//! The requirements of a run by stop.

use super::stops::stop_link;
use maud::{Markup, html};
use ralph_core::text;
use ralph_deck::page::{CellState, MatrixCell, MatrixRow, RequirementMatrix, RunPage, StopColumn};

/// More stops are drawn as a strip.
const MAX_CELL_COLUMNS: usize = 24;
/// A phone shows the last ones.
const PHONE_COLUMNS: usize = 8;
const STRIP_UNIT: usize = 6;

pub(crate) fn matrix_section(page: &RunPage) -> Markup {
    let matrix = &page.matrix;
    html! {
        section #requirements aria-labelledby="h-req" {
            div.head { h2 #h-req { "Requirements" } span.quiet { "by stop; the number is how many findings" } }
            @if matrix.columns.is_empty() {
                p.hint { "Nothing has been measured yet. ralph measures when the agent wants to stop." }
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Requirements by stop" {
                    @if matrix.columns.len() <= MAX_CELL_COLUMNS { (cells(page)) } @else { (strips(matrix)) }
                }
                (key())
                @if matrix.left_out > 0 { p.hint { (text::count_noun(matrix.left_out, "more requirement")) } }
            }
        }
    }
}

fn cells(page: &RunPage) -> Markup {
    let matrix = &page.matrix;
    let old = matrix.columns.len().saturating_sub(PHONE_COLUMNS);
    html! {
        table.matrix {
            thead { tr {
                th scope="col" { span.sr { "Requirement" } }
                @for (at, column) in matrix.columns.iter().enumerate() {
                    th.m-old[at < old] scope="col" {
                        (stop_link(page, column.last, &html! { span.sr { "stop " } (column.last) }))
                    }
                }
                th.now scope="col" { "Now" }
            } }
            tbody {
                @for row in &matrix.rows { (cell_row(row, old)) }
                @if !matrix.always_met.is_empty() {
                    tr.quietrow {
                        th scope="row" title=(matrix.always_met.join(", ")) { (always_met(matrix)) }
                        @for at in 0..matrix.columns.len() { td.m-old[at < old] { (cell(MatrixCell { state: CellState::Met, findings: 0 }, false)) } }
                        td.now { "met at every stop" }
                    }
                }
            }
        }
    }
}

fn always_met(matrix: &RequirementMatrix) -> String {
    let count = matrix.always_met.len();
    match matrix.always_met.first() {
        Some(name) if count == 1 => name.clone(),
        _ if matrix.rows.is_empty() => text::count_noun(count, "requirement"),
        _ => text::count_noun(count, "other"),
    }
}

fn cell_row(row: &MatrixRow, old: usize) -> Markup {
    let mut was_open = false;
    html! {
        tr {
            th scope="row" { span.lbl title=(row.name) { (row.name) } }
            @for (at, one) in row.cells.iter().enumerate() {
                @let turned = was_open && one.state == CellState::Met;
                @let () = { if one.state != CellState::NotReached { was_open = is_open(one.state); } };
                td.m-old[at < old] { (cell(*one, turned)) }
            }
            td.now { (now(row)) }
        }
    }
}

fn is_open(state: CellState) -> bool {
    state > CellState::Advisory
}

fn now(row: &MatrixRow) -> Markup {
    let state = row.cells.last().map_or(CellState::NotReached, |cell| cell.state);
    html! {
        @match (state, row.met_since) {
            (_, Some(since)) => { span.s-met { (CellState::Met.label()) } span.quiet { " since stop " (since) } },
            (CellState::Unmet, None) => { span.s-unmet { (state.label()) } },
            (CellState::Unknown, None) => { span.s-unknown { (state.label()) } },
            (CellState::Pending | CellState::AwaitsPerson, None) => { span.s-pending { (state.label()) } },
            (CellState::Advisory, None) => { span.s-waived { (state.label()) } },
            (CellState::NotReached | CellState::Met, None) => { span.quiet { (CellState::NotReached.label()) } },
        }
    }
}

/// One requirement at one stop. `turned` is whether it became met there.
fn cell(cell: MatrixCell, turned: bool) -> Markup {
    let label = cell_label(cell);
    match cell.state {
        CellState::Unmet => html! {
            svg.cell.c-unmet viewBox="0 0 26 26" role="img" aria-label=(label) {
                rect.b width="26" height="26" rx="2" {}
                @if cell.findings > 0 { text x="13" y="17" { @if cell.findings > 99 { "99+" } @else { (cell.findings) } } }
                @else { path.x d="M9 9l8 8M17 9l-8 8" {} }
            }
        },
        CellState::Met if turned => html! {
            svg.cell.c-turn viewBox="0 0 26 26" role="img" aria-label=(label) {
                rect.r x="1" y="1" width="24" height="24" rx="2" {}
                path.t d="M8 13.5l3.5 3.5 6.5-7.5" {}
            }
        },
        CellState::Met => html! {
            svg.cell.c-met viewBox="0 0 26 26" role="img" aria-label=(label) { path.t d="M8 13.5l3.5 3.5 6.5-7.5" {} }
        },
        CellState::NotReached => html! {
            svg.cell.c-pend viewBox="0 0 26 26" role="img" aria-label=(label) { circle.d cx="13" cy="13" r="1.8" {} }
        },
        CellState::Pending | CellState::AwaitsPerson | CellState::Unknown => html! {
            svg.cell.c-unk viewBox="0 0 26 26" role="img" aria-label=(label) {
                rect.q x="1" y="1" width="24" height="24" rx="2" {}
                text x="13" y="17" { (open_mark(cell.state)) }
            }
        },
        CellState::Advisory => html! {
            svg.cell.c-wvd viewBox="0 0 26 26" role="img" aria-label=(label) {
                rect.q x="1" y="1" width="24" height="24" rx="2" {}
                text x="13" y="17" { "w" }
            }
        },
    }
}

/// The letter of a requirement that is open without having failed.
fn open_mark(state: CellState) -> &'static str {
    match state {
        CellState::Unknown => "?",
        CellState::AwaitsPerson => "a",
        CellState::NotReached
        | CellState::Met
        | CellState::Advisory
        | CellState::Pending
        | CellState::Unmet => "…",
    }
}

fn cell_label(cell: MatrixCell) -> String {
    let label = cell.state.label();
    match cell.findings {
        0 => label.to_string(),
        findings => format!("{label}, {}", text::count_noun(findings, "finding")),
    }
}

fn key() -> Markup {
    let unmet = |findings| MatrixCell { state: CellState::Unmet, findings };
    let state = |state| MatrixCell { state, findings: 0 };
    html! {
        ul.key aria-label="Key" {
            li { (cell(unmet(7), false)) " " (CellState::Unmet.label()) ", findings" }
            li { (cell(unmet(0), false)) " " (CellState::Unmet.label()) }
            li { (cell(state(CellState::Met), true)) " became met" }
            @for other in [CellState::Met, CellState::Pending, CellState::AwaitsPerson, CellState::Unknown, CellState::Advisory, CellState::NotReached] {
                li { (cell(state(other), false)) " " (other.label()) }
            }
        }
    }
}

/// One bar per stop, for long runs.
fn strips(matrix: &RequirementMatrix) -> Markup {
    let first = matrix.columns.first().map_or(1, |column| column.first);
    let last = matrix.columns.last().map_or(1, |column| column.last);
    html! {
        table.matrix.strips {
            thead { tr {
                th scope="col" { span.sr { "Requirement" } }
                th scope="col" { "stops " (first) " to " (last) }
                th.now scope="col" { "Now" }
            } }
            tbody {
                @for row in &matrix.rows {
                    tr {
                        th scope="row" { span.lbl title=(row.name) { (row.name) } }
                        td { (strip(row, &matrix.columns)) }
                        td.now { (now(row)) }
                    }
                }
                @if !matrix.always_met.is_empty() {
                    tr.quietrow {
                        th scope="row" title=(matrix.always_met.join(", ")) { (always_met(matrix)) }
                        td {}
                        td.now { "met at every stop" }
                    }
                }
            }
        }
    }
}

fn strip(row: &MatrixRow, columns: &[StopColumn]) -> Markup {
    let width = columns.len() * STRIP_UNIT;
    let label = format!(
        "not met at {} of {}",
        row.open_stops,
        columns.last().map_or(0, |column| column.last)
    );
    html! {
        svg.stripes viewBox={ "0 0 " (width) " 18" } preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (at, cell) in row.cells.iter().enumerate() {
                @let x = at * STRIP_UNIT;
                @match cell.state {
                    CellState::Unmet => { rect.unmet x=(x) y="0" width=(STRIP_UNIT - 1) height="18" {} },
                    CellState::Unknown | CellState::Pending | CellState::AwaitsPerson => { rect.unknown x=(x) y="4" width=(STRIP_UNIT - 1) height="10" {} },
                    CellState::Advisory => { rect.waived x=(x) y="6" width=(STRIP_UNIT - 1) height="6" {} },
                    CellState::Met => { rect.met x=(x) y="15" width=(STRIP_UNIT - 1) height="3" {} },
                    CellState::NotReached => {},
                }
            }
        }
    }
}
