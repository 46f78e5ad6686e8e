//! `ralph sql`: runs a read-only SQL query over all runs.

use super::open_home;
use crate::failure::CommandFailure;
use crate::term::{self, OutputReader, paint};
use crate::text_table::{ColumnSide, TextTable};
use crate::value_parsers::parse_duration;
use clap::Args;
use ralph_core::text;
use ralph_deck::run_index::{SqlCell, SqlError, schema_text};
use ralph_sys::env::Env;
use ralph_sys::stdin;
use std::ops::ControlFlow;
use std::time::Duration;

const MAX_QUERY_BYTES: usize = 1024 * 1024;
/// A table must be complete before it can be aligned, so it has at most this many rows and cells.
const MAX_TABLE_ROWS: usize = 10_000;
const MAX_TABLE_CELLS: usize = 200_000;
const MAX_CELL_CHARS: usize = 1000;
const MAX_TABLE_CELL_CHARS: usize = 200;
/// Rows are printed in pieces of this many bytes.
const PRINT_BYTES: usize = 64 * 1024;
const SCHEMA_HINT: &str = "`ralph sql --schema` lists the tables and columns";

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph sql \"SELECT status, count(*) FROM run GROUP BY status\"
  ralph sql \"SELECT day, sum(micro_usd) FROM run_day GROUP BY day\"
  ralph sql --csv \"SELECT * FROM stop WHERE run = 'k7f2'\" > stops.csv
  ralph sql --json - < query.sql
  ralph sql --schema

The query can only read. `run`, `run_requirement`, `run_gate`,
`run_judge` and `run_day` are indexed. `stop`, `gate_result`,
`open_requirement` and `event` read the journals, so name a run where
you can. The index is brought up to date first. It is a cache without
hash checks: only `ralph why` and `ralph report` read the whole journal
and check it.

A table shows at most 10,000 rows, and 200 characters of a cell.
`--csv` and `--json` print all rows, and 1,000 characters of a cell.")]
pub(crate) struct SqlArgs {
    /// Run this query; `-` reads it from stdin
    #[arg(value_name = "QUERY", required_unless_present = "schema")]
    pub query: Option<String>,
    /// Show the tables and columns
    #[arg(long, conflicts_with_all = ["query", "json", "csv"])]
    pub schema: bool,
    /// Print one JSON object per row
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print CSV with a header
    #[arg(long)]
    pub csv: bool,
    /// End the query after this time
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub timeout: u64,
}

pub(crate) fn run(env: &Env, args: &SqlArgs) -> Result<(), CommandFailure> {
    let Some(query) = &args.query else {
        term::out(&schema_text())?;
        return Ok(());
    };
    let query = if query == "-" { read_query()? } else { query.clone() };
    let index = super::open_index(&open_home(env)?)?;
    let mut printer = RowPrinter::new(args);
    let timeout = Duration::from_millis(args.timeout);
    let columns =
        index.into_sql()?.query(&query, timeout, |columns, row| printer.add(columns, &row))?;
    printer.finish(&columns)
}

fn read_query() -> Result<String, CommandFailure> {
    let bytes = stdin::read_all(std::io::stdin(), MAX_QUERY_BYTES)
        .map_err(|error| CommandFailure::caused_by("cannot read the query from stdin", &error))?;
    String::from_utf8(bytes)
        .map_err(|error| CommandFailure::caused_by("the query on stdin is not UTF-8", &error))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RowFormat {
    Table,
    Json,
    Csv,
}

/// Prints rows as they come, except a table, which is aligned at the end.
struct RowPrinter {
    format: RowFormat,
    rows: Vec<Vec<TableCell>>,
    /// Text that is not printed yet.
    pending: String,
    has_header: bool,
    left_out: bool,
    failure: Option<CommandFailure>,
}

impl RowPrinter {
    fn new(args: &SqlArgs) -> Self {
        let format = match (args.json, args.csv) {
            (true, _) => RowFormat::Json,
            (false, true) => RowFormat::Csv,
            (false, false) => RowFormat::Table,
        };
        let (rows, pending) = (Vec::new(), String::new());
        Self { format, rows, pending, has_header: false, left_out: false, failure: None }
    }

    fn add(&mut self, columns: &[String], row: &[SqlCell]) -> ControlFlow<()> {
        match self.format {
            RowFormat::Table if self.rows.len() >= most_rows(columns.len()) => {
                self.left_out = true;
                return ControlFlow::Break(());
            }
            RowFormat::Table => self.rows.push(row.iter().map(TableCell::of).collect()),
            RowFormat::Json => self.pending.push_str(&json_row(columns, row)),
            RowFormat::Csv => {
                self.put_csv_header(columns);
                self.pending.push_str(&csv_line(row.iter().map(csv_cell)));
            }
        }
        if self.pending.len() < PRINT_BYTES {
            return ControlFlow::Continue(());
        }
        match term::out(&std::mem::take(&mut self.pending)) {
            Ok(OutputReader::Open) => ControlFlow::Continue(()),
            Ok(OutputReader::Closed) => ControlFlow::Break(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn put_csv_header(&mut self, columns: &[String]) {
        if !std::mem::replace(&mut self.has_header, true) {
            let names = columns.iter().map(|name| csv_cell(&SqlCell::Text(name.clone())));
            self.pending.push_str(&csv_line(names));
        }
    }

    fn finish(mut self, columns: &[String]) -> Result<(), CommandFailure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        match self.format {
            RowFormat::Table => self.pending = table_text(columns, &self.rows),
            RowFormat::Csv => self.put_csv_header(columns),
            RowFormat::Json => {}
        }
        term::out(&self.pending)?;
        if self.left_out {
            let mark = paint(term::WARN, "?");
            let rest = "`--csv` and `--json` print all rows";
            let count = text::count_noun(self.rows.len(), "row");
            term::err(&format!("{mark} only the first {count}; {rest}\n"));
        }
        Ok(())
    }
}

fn most_rows(columns: usize) -> usize {
    MAX_TABLE_ROWS.min(MAX_TABLE_CELLS / columns.max(1))
}

/// A cell as the table shows it. A query can build cells of many megabytes, so none is kept as it is.
#[derive(Debug)]
struct TableCell {
    text: String,
    is_number: bool,
}

impl TableCell {
    fn of(cell: &SqlCell) -> Self {
        let is_number = !matches!(cell, SqlCell::Text(_) | SqlCell::Blob(_));
        Self { text: cell_text(cell, MAX_TABLE_CELL_CHARS), is_number }
    }
}

fn json_row(columns: &[String], row: &[SqlCell]) -> String {
    let cell = |cell: &SqlCell| match cell {
        SqlCell::Null => serde_json::Value::Null,
        SqlCell::Integer(number) => (*number).into(),
        SqlCell::Real(number) => (*number).into(),
        SqlCell::Text(_) | SqlCell::Blob(_) => cell_text(cell, MAX_CELL_CHARS).into(),
    };
    // Written by hand, because a JSON map would sort the columns.
    let field = |(name, value): (&String, &SqlCell)| {
        format!("{}:{}", serde_json::Value::from(name.as_str()), cell(value))
    };
    let fields: Vec<_> = columns.iter().zip(row).map(field).collect();
    format!("{{\"v\":1,\"row\":{{{}}}}}\n", fields.join(","))
}

/// A cell as text without control characters.
fn cell_text(cell: &SqlCell, most: usize) -> String {
    match cell {
        SqlCell::Null => String::new(),
        SqlCell::Integer(number) => number.to_string(),
        SqlCell::Real(number) => number.to_string(),
        SqlCell::Text(text) => text::clean_line(text, most),
        SqlCell::Blob(bytes) => {
            let digits: Vec<_> =
                bytes.iter().take(most / 2).map(|byte| format!("{byte:02x}")).collect();
            digits.concat()
        }
    }
}

/// A text that a spreadsheet would run as a formula gets an apostrophe.
fn csv_cell(cell: &SqlCell) -> String {
    let text = cell_text(cell, MAX_CELL_CHARS);
    match cell {
        SqlCell::Text(_) if text.starts_with(['=', '+', '-', '@']) => format!("'{text}"),
        SqlCell::Text(_)
        | SqlCell::Null
        | SqlCell::Integer(_)
        | SqlCell::Real(_)
        | SqlCell::Blob(_) => text,
    }
}

/// One line as RFC 4180 has it.
fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let quoted = |cell: String| {
        if cell.contains(['"', ',', '\n', '\r']) || cell.starts_with(' ') || cell.ends_with(' ') {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell
        }
    };
    let mut line = cells.map(quoted).collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

fn table_text(columns: &[String], rows: &[Vec<TableCell>]) -> String {
    let header: Vec<_> =
        columns.iter().map(|name| text::clean_line(name, MAX_TABLE_CELL_CHARS)).collect();
    let body: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| cell.text.clone()).collect()).collect();
    let side = |at: usize| {
        let mut column = rows.iter().filter_map(|row| row.get(at));
        if column.all(|cell| cell.is_number) { ColumnSide::Right } else { ColumnSide::Left }
    };
    let columns: Vec<_> =
        header.iter().enumerate().map(|(at, name)| (name.as_str(), side(at))).collect();
    let table = TextTable { columns: &columns, rows: &body, indent: "", header_style: term::BOLD };
    let mut out = table.render();
    if body.is_empty() {
        out.push_str(&format!("{}\n", paint(term::DIM, "no rows")));
    }
    out
}

impl From<SqlError> for CommandFailure {
    fn from(error: SqlError) -> Self {
        let hint = match &error {
            SqlError::Empty => "`ralph sql --help` has examples",
            SqlError::SeveralQueries => "run `ralph sql` once for each query",
            SqlError::NotAllowed => {
                "the index is a cache; to change runs, use ralph's commands: `ralph --help`"
            }
            SqlError::TimedOut(_) => {
                "name a run in `stop`, `gate_result`, `open_requirement` and `event`, or use `--timeout 5m`"
            }
            SqlError::IndexReplaced => "it is built again from the journals",
            SqlError::Wrong(_) => SCHEMA_HINT,
        };
        Self::new(&error.to_string(), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_limited_number_of_cells_and_long_cells_are_cut() {
        for (columns, expected) in [(0, 10_000), (1, 10_000), (20, 10_000), (40, 5_000)] {
            assert_eq!(most_rows(columns), expected, "{columns}");
        }
        assert_eq!(most_rows(2_000), 100);
        let args = SqlArgs { query: None, schema: false, json: false, csv: false, timeout: 0 };
        let mut printer = RowPrinter::new(&args);
        let columns = vec!["wide".to_string(); 2_000];
        let row = vec![SqlCell::Text("x".repeat(100_000)); 2_000];
        let added = (0..200).take_while(|_| printer.add(&columns, &row).is_continue()).count();
        assert_eq!((added, printer.left_out), (100, true));
        let longest = printer.rows.iter().flatten().map(|cell| cell.text.len()).max();
        assert!(longest.is_some_and(|bytes| bytes <= 4 * MAX_TABLE_CELL_CHARS));
    }
}
