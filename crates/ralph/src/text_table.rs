//! Tables of text in aligned columns, for a terminal.

use crate::term::{self, paint};
use anstyle::Style;

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnSide {
    Left,
    Right,
}

/// A table with a header. Columns are as wide as their widest cell.
pub(crate) struct TextTable<'a> {
    pub(crate) columns: &'a [(&'a str, ColumnSide)],
    pub(crate) rows: &'a [Vec<String>],
    /// In front of every line.
    pub(crate) indent: &'a str,
    pub(crate) header_style: Style,
}

impl TextTable<'_> {
    /// The header and one line for each row.
    pub(crate) fn render(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| (*name).to_string()).collect();
        let widths: Vec<usize> = (0..names.len()).map(|at| self.column_width(at)).collect();
        let header = paint(self.header_style, &self.line(&names, &widths));
        let rows = self.rows.iter().map(|row| self.line(row, &widths));
        let lines: Vec<String> = std::iter::once(header).chain(rows).collect();
        lines.join("\n") + "\n"
    }

    fn column_width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(String::as_str);
        let name = self.columns.get(at).map(|(name, _)| *name);
        cells.chain(name).map(term::text_width).max().unwrap_or(0)
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let aligned =
            cells.iter().zip(widths).zip(self.columns).map(|((cell, width), (_, side))| {
                let gap = " ".repeat(width.saturating_sub(term::text_width(cell)));
                match side {
                    ColumnSide::Left => format!("{cell}{gap}"),
                    ColumnSide::Right => format!("{gap}{cell}"),
                }
            });
        let line = format!("{}{}", self.indent, aligned.collect::<Vec<_>>().join("  "));
        line.trim_end().to_string()
    }
}
