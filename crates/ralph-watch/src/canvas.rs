//! Puts text into the cells of a frame. Nothing else writes cells.

use crate::glyphs::{GlyphSet, text_columns};
use crate::palette::TextInk;
use crate::palette::{ColorDepth, ink_style};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Modifier;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The characters of one cell are bounded: a letter can carry any number of combining marks.
const MAX_CELL_CHARS: usize = 8;

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalLook {
    pub glyphs: GlyphSet,
    pub colors: ColorDepth,
}

impl TerminalLook {
    pub const PLAIN: Self = Self { glyphs: GlyphSet::Ascii, colors: ColorDepth::None };
}

/// A frame that is being drawn. Coordinates outside are ignored.
#[derive(Debug)]
pub(crate) struct CellCanvas {
    pub(crate) look: TerminalLook,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    buffer: Buffer,
}

impl CellCanvas {
    pub(crate) fn new(look: TerminalLook, columns: u16, rows: u16) -> Self {
        Self {
            look,
            columns: usize::from(columns),
            rows: usize::from(rows),
            buffer: Buffer::empty(Rect::new(0, 0, columns, rows)),
        }
    }

    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }

    pub(crate) fn glyphs(&self) -> GlyphSet {
        self.look.glyphs
    }

    /// Writes the text from a column on, cut at `most` columns with an ellipsis. Returns the column after it.
    pub(crate) fn put(
        &mut self,
        column: usize,
        row: usize,
        text: &str,
        most: usize,
        ink: TextInk,
    ) -> usize {
        let most = most.min(self.columns.saturating_sub(column));
        let text = self.look.glyphs.fit(text, most);
        self.write(column, row, &text, ink)
    }

    /// Writes the text up to a column, which it does not use. What has no room before `from` is cut.
    pub(crate) fn put_right(
        &mut self,
        from: usize,
        end: usize,
        row: usize,
        text: &str,
        ink: TextInk,
    ) {
        let text = self.look.glyphs.fit(text, end.saturating_sub(from));
        self.write(end.saturating_sub(text_columns(&text)), row, &text, ink);
    }

    fn write(&mut self, mut column: usize, row: usize, text: &str, ink: TextInk) -> usize {
        let style = ink_style(ink, self.look.colors);
        for grapheme in text.graphemes(true) {
            let width = grapheme.width();
            if column + width > self.columns {
                break;
            }
            let end =
                grapheme.char_indices().nth(MAX_CELL_CHARS).map_or(grapheme.len(), |(at, _)| at);
            let symbol = grapheme.get(..end).unwrap_or_default();
            // A mark without a letter before it would join the cell to its left.
            if width == 0 {
                continue;
            }
            self.set_cell(column, row, symbol, style);
            for covered in 1..width {
                self.set_cell(column + covered, row, "", style);
            }
            column += width;
        }
        column
    }

    fn set_cell(
        &mut self,
        column: usize,
        row: usize,
        symbol: &str,
        style: ratatui_core::style::Style,
    ) {
        let (Ok(x), Ok(y)) = (u16::try_from(column), u16::try_from(row)) else { return };
        if let Some(cell) = self.buffer.cell_mut((x, y)) {
            cell.set_symbol(if symbol.is_empty() { " " } else { symbol }).set_style(style);
        }
    }

    /// Shows a line as selected: by bold letters and a mark in its first column, never by colour alone.
    pub(crate) fn select_line(&mut self, row: usize, is_marked: bool) {
        if is_marked {
            let mark = self.look.glyphs.selection();
            self.write(0, row, mark, TextInk::Strong);
        }
        let Ok(y) = u16::try_from(row) else { return };
        for x in 0..self.buffer.area.width {
            if let Some(cell) = self.buffer.cell_mut((x, y)) {
                cell.modifier.insert(Modifier::BOLD);
                cell.modifier.remove(Modifier::DIM);
            }
        }
    }

    /// An empty box.
    pub(crate) fn frame(&mut self, top: usize, bottom: usize) {
        let [top_left, top_right, bottom_left, bottom_right, across, down] =
            self.look.glyphs.frame();
        let inner = across.repeat(self.columns.saturating_sub(2));
        self.put(0, top, &format!("{top_left}{inner}{top_right}"), self.columns, TextInk::Quiet);
        for row in top + 1..bottom {
            self.put(0, row, down, 1, TextInk::Quiet);
            self.put(self.columns.saturating_sub(1), row, down, 1, TextInk::Quiet);
        }
        self.put(
            0,
            bottom,
            &format!("{bottom_left}{inner}{bottom_right}"),
            self.columns,
            TextInk::Quiet,
        );
    }
}

/// The lines of a frame as text, without the spaces at their ends.
pub fn buffer_text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut covered = 0;
        for x in 0..buffer.area.width {
            let symbol = buffer.cell((x, y)).map_or(" ", ratatui_core::buffer::Cell::symbol);
            if covered == 0 {
                line.push_str(symbol);
                covered = symbol.width().saturating_sub(1);
            } else {
                covered -= 1;
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
