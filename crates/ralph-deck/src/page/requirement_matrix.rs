//! The requirements of a run over its stops.

use crate::json_units;
use ralph_core::proof::ProofVerdict;
use ralph_core::proof_summary::PROOF_REQUIREMENT;
use ralph_core::record::{
    JournalEntry, PendingKind, ReportLine, ReportedStatus, RunChange, StopRecord, StopReport,
};
use ralph_core::text;
use serde::Serialize;
use std::collections::HashMap;

const LONGEST_NAME: usize = 200;
/// Names of requirements come from lists that an agent may have grown.
const MAX_ROWS: usize = 2_000;

/// The requirements of a run over its stops, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequirementMatrix {
    pub columns: Vec<StopColumn>,
    /// Requirements that were not met at some stop, in the order of their first appearance.
    pub rows: Vec<MatrixRow>,
    /// Requirements that were met at every stop that evaluated them.
    pub always_met: Vec<String>,
    /// How many requirements are left out.
    pub left_out: usize,
}

/// One stop, or several in a row where there is no room for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StopColumn {
    /// The number of the first stop.
    pub first: u32,
    pub last: u32,
    /// The journal line of the last stop.
    pub seq: u64,
    #[serde(rename = "at", serialize_with = "json_units::time")]
    pub at_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatrixRow {
    pub name: String,
    pub stage: String,
    /// One for each column.
    pub cells: Vec<MatrixCell>,
    /// Since which stop it is met; `None` if it is not met at the last stop.
    pub met_since: Option<u32>,
    /// At how many stops it was not met.
    pub open_stops: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MatrixCell {
    pub state: CellState,
    /// Zero unless it is not met.
    pub findings: u32,
}

/// From good to bad: a column of several stops shows the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Not evaluated at that stop.
    NotReached,
    Met,
    /// Reported, but waived or not required.
    Advisory,
    /// Its gate still ran.
    Pending,
    /// The work is done, and a person has to approve it.
    AwaitsPerson,
    /// Its gate gave no result.
    Unknown,
    Unmet,
}

impl CellState {
    pub(super) fn of_line(line: &ReportLine) -> Self {
        match (line.standing, line.pending_kind()) {
            (_, Some(PendingKind::NotReached)) => Self::NotReached,
            (_, Some(PendingKind::AwaitsPerson)) => Self::AwaitsPerson,
            (_, Some(PendingKind::Running)) | (ReportedStatus::Pending, None) => Self::Pending,
            (ReportedStatus::Unmet, None) => Self::Unmet,
            (ReportedStatus::Unknown, None) => Self::Unknown,
            (ReportedStatus::Advisory, None) => Self::Advisory,
        }
    }

    /// The state for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::NotReached => "not reached",
            Self::Met => "met",
            Self::Advisory => "waived or advisory",
            Self::Pending => "still running",
            Self::AwaitsPerson => "waits for approval",
            Self::Unknown => "no result",
            Self::Unmet => "not met",
        }
    }
}

impl MatrixCell {
    const NOT_REACHED: Self = Self { state: CellState::NotReached, findings: 0 };
    const MET: Self = Self { state: CellState::Met, findings: 0 };
    const UNMET: Self = Self { state: CellState::Unmet, findings: 0 };

    /// The cell of a requirement that a report lists.
    fn of_line(line: &ReportLine) -> Self {
        let state = CellState::of_line(line);
        Self { state, findings: if state == CellState::Unmet { line.findings } else { 0 } }
    }

    fn worse(self, other: Self) -> Self {
        if other.state > self.state || (other.state == self.state && other.findings > self.findings)
        {
            other
        } else {
            self
        }
    }
}

/// The matrix of a journal, with at most `most_columns` columns.
pub fn requirement_matrix(entries: &[JournalEntry], most_columns: usize) -> RequirementMatrix {
    let stops: Vec<_> = entries.iter().filter_map(reported_stop).collect();
    let width = stops.len().div_ceil(most_columns.max(1)).max(1);
    let mut matrix = MatrixBuilder::default();
    for (number, (entry, stop, report)) in (1_u32..).zip(&stops) {
        let column = (number as usize - 1) / width;
        matrix.start_column(column, number, entry);
        matrix.add_report(column, number, report);
        match unlisted_proof(stop, report) {
            // A proof that never was open is no row.
            Some(ProofVerdict::Verified) if !matrix.positions.contains_key(PROOF_REQUIREMENT) => {}
            Some(ProofVerdict::Verified) => {
                matrix.add_cell(column, number, PROOF_REQUIREMENT, "", MatrixCell::MET);
            }
            Some(_) => matrix.add_cell(column, number, PROOF_REQUIREMENT, "", MatrixCell::UNMET),
            None => {}
        }
    }
    matrix.finish(stops.len())
}

fn reported_stop(entry: &JournalEntry) -> Option<(&JournalEntry, &StopRecord, &StopReport)> {
    if let RunChange::Decided(decided) = &entry.change {
        decided.report.as_ref().map(|report| (entry, &**decided, report))
    } else {
        None
    }
}

/// The result of a proof that is no requirement in the report of its stop. It is one only where it holds the agent: neither
/// where it is good, nor where the run ended without a good one.
fn unlisted_proof(stop: &StopRecord, report: &StopReport) -> Option<ProofVerdict> {
    let proof = stop.proof.as_ref()?;
    let is_listed = report.lines.iter().any(|line| line.name == PROOF_REQUIREMENT);
    (!is_listed).then_some(proof.verdict)
}

#[derive(Default)]
struct MatrixBuilder {
    columns: Vec<StopColumn>,
    rows: Vec<BuiltRow>,
    positions: HashMap<String, usize>,
    left_out: usize,
}

struct BuiltRow {
    name: String,
    stage: String,
    cells: Vec<MatrixCell>,
    met_since: Option<u32>,
    open_stops: u32,
}

impl MatrixBuilder {
    fn start_column(&mut self, column: usize, number: u32, entry: &JournalEntry) {
        if column == self.columns.len() {
            let new =
                StopColumn { first: number, last: number, seq: entry.seq, at_ms: entry.at_ms };
            self.columns.push(new);
        } else if let Some(last) = self.columns.last_mut() {
            *last = StopColumn { last: number, seq: entry.seq, at_ms: entry.at_ms, ..*last };
        }
    }

    fn add_report(&mut self, column: usize, number: u32, report: &StopReport) {
        for name in &report.met {
            self.add_cell(column, number, name, "", MatrixCell::MET);
        }
        for line in &report.lines {
            let cell = MatrixCell::of_line(line);
            self.add_cell(column, number, &line.name, &line.stage, cell);
        }
        for name in &report.also_open {
            self.add_cell(column, number, name, "", MatrixCell::UNMET);
        }
    }

    fn add_cell(&mut self, column: usize, number: u32, name: &str, stage: &str, cell: MatrixCell) {
        let Some(row) = self.row(name) else { return };
        if row.stage.is_empty() {
            row.stage = text::clean_line(stage, LONGEST_NAME);
        }
        row.cells.resize(row.cells.len().max(column + 1), MatrixCell::NOT_REACHED);
        if let Some(known) = row.cells.get_mut(column) {
            *known = known.worse(cell);
        }
        // A requirement that a report lists is open, even if it was not its turn yet.
        if cell.state == CellState::Met {
            row.met_since = row.met_since.or(Some(number));
        } else {
            row.open_stops = row.open_stops.saturating_add(1);
            row.met_since = None;
        }
    }

    fn row(&mut self, name: &str) -> Option<&mut BuiltRow> {
        let known = self.positions.get(name).copied();
        let position = match known {
            Some(position) => position,
            None if self.rows.len() >= MAX_ROWS => {
                self.left_out = self.left_out.saturating_add(1);
                return None;
            }
            None => {
                self.positions.insert(name.to_string(), self.rows.len());
                self.rows.push(BuiltRow {
                    name: text::clean_line(name, LONGEST_NAME),
                    stage: String::new(),
                    cells: Vec::new(),
                    met_since: None,
                    open_stops: 0,
                });
                self.rows.len() - 1
            }
        };
        self.rows.get_mut(position)
    }

    fn finish(self, stops: usize) -> RequirementMatrix {
        let mut matrix = RequirementMatrix {
            columns: self.columns,
            // A name that is left out is counted at every stop.
            left_out: self.left_out.div_ceil(stops.max(1)),
            ..RequirementMatrix::default()
        };
        let width = matrix.columns.len();
        for row in self.rows {
            let BuiltRow { name, stage, mut cells, met_since, open_stops } = row;
            if open_stops == 0 {
                matrix.always_met.push(name);
                continue;
            }
            cells.resize(width, MatrixCell::NOT_REACHED);
            matrix.rows.push(MatrixRow { name, stage, cells, met_since, open_stops });
        }
        matrix
    }
}
