//! The lines of a screen before they are cells: fixed lines at the top, a list that scrolls, and one line at the bottom.

use crate::canvas::CellCanvas;
use crate::palette::TextInk;
use ralph_core::text::count_noun;

/// From here on a terminal has room for blank lines.
const ROOMY_ROWS: usize = 24;

/// A piece of text in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinePart {
    place: PartPlace,
    pub(crate) text: String,
    ink: TextInk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartPlace {
    /// From a column on, at most so many columns.
    From { column: usize, most: usize },
    /// Ends before a column, and uses none before `from`.
    Until { from: usize, end: usize },
}

/// A line of a screen. The lines of an item are selected together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScreenLine {
    pub(crate) parts: Vec<LinePart>,
    /// The item that the line belongs to.
    pub(crate) item: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchDirection {
    Forward,
    Backward,
}

impl ScreenLine {
    pub(crate) fn blank() -> Self {
        Self::default()
    }

    /// One text from a column to the end of the line.
    pub(crate) fn text(column: usize, text: impl Into<String>, ink: TextInk) -> Self {
        Self::default().with(column, usize::MAX, text, ink)
    }

    pub(crate) fn with(
        mut self,
        column: usize,
        most: usize,
        text: impl Into<String>,
        ink: TextInk,
    ) -> Self {
        let place = PartPlace::From { column, most };
        self.parts.push(LinePart { place, text: text.into(), ink });
        self
    }

    pub(crate) fn with_right(
        mut self,
        from: usize,
        end: usize,
        text: impl Into<String>,
        ink: TextInk,
    ) -> Self {
        let place = PartPlace::Until { from, end };
        self.parts.push(LinePart { place, text: text.into(), ink });
        self
    }

    pub(crate) fn of_item(mut self, item: &str) -> Self {
        self.item = Some(item.to_string());
        self
    }

    fn draw(&self, canvas: &mut CellCanvas, row: usize) {
        for LinePart { place, text, ink } in &self.parts {
            match *place {
                PartPlace::From { column, most } => {
                    canvas.put(column, row, text, most, *ink);
                }
                PartPlace::Until { from, end } => canvas.put_right(from, end, row, text, *ink),
            }
        }
    }

    fn has(&self, words: &str) -> bool {
        self.parts.iter().any(|part| part.text.to_lowercase().contains(words))
    }
}

/// What a list shows and which item is selected. Both stay with the item when lines are added before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListPosition {
    pub(crate) selected: Option<String>,
    /// Where the selected item was, in case it disappears.
    index: usize,
    /// The first line that is shown.
    pub(crate) scroll: usize,
    /// Whether the end is shown whenever lines are added.
    pub(crate) follows: bool,
}

/// How a key moves in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListMove {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

/// The lines of a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScreenLayout {
    pub(crate) head: Vec<ScreenLine>,
    pub(crate) body: Vec<ScreenLine>,
    pub(crate) foot: ScreenLine,
}

impl ScreenLayout {
    /// The lines that the list has. Where there is room, the line above the keys is left free.
    fn height(&self, rows: usize) -> usize {
        let below = if rows < ROOMY_ROWS { 1 } else { 2 };
        rows.saturating_sub(self.head.len() + below)
    }

    /// The items in their order.
    fn items(&self) -> Vec<&str> {
        let mut items: Vec<&str> = Vec::new();
        for item in self.body.iter().filter_map(|line| line.item.as_deref()) {
            if items.last() != Some(&item) {
                items.push(item);
            }
        }
        items
    }

    /// Moves the selection, or the lines if nothing can be selected.
    pub(crate) fn step(&self, position: &mut ListPosition, rows: usize, step: ListMove) {
        let items = self.items();
        let height = self.height(rows).max(1);
        let page = height.saturating_sub(2).max(1);
        let last_line = self.body.len().saturating_sub(height);
        let moved = |at: usize, page: usize, last: usize| match step {
            ListMove::Up => at.saturating_sub(1),
            ListMove::Down => (at + 1).min(last),
            ListMove::PageUp => at.saturating_sub(page),
            ListMove::PageDown => (at + page).min(last),
            ListMove::First => 0,
            ListMove::Last => last,
        };
        if items.is_empty() {
            position.scroll = moved(position.scroll.min(last_line), page, last_line);
            position.follows &= position.scroll == last_line;
            position.follows |= step == ListMove::Last;
            return;
        }
        let at = items.iter().position(|item| Some(*item) == position.selected.as_deref());
        let at = moved(at.unwrap_or(0), page, items.len() - 1);
        position.index = at;
        position.selected = items.get(at).map(ToString::to_string);
    }

    /// Selects the next line that has these words, which are in lower case.
    pub(crate) fn find(
        &self,
        position: &mut ListPosition,
        words: &str,
        direction: SearchDirection,
    ) -> bool {
        let selected = |line: &&ScreenLine| line.item.is_some() && line.item == position.selected;
        let at = self.body.iter().position(|line| selected(&line)).unwrap_or(position.scroll);
        let is_other = |index: &usize| {
            let line = self.body.get(*index);
            line.is_some_and(|line| line.has(words) && (line.item.is_none() || !selected(&line)))
        };
        let count = self.body.len();
        let mut order = (1..=count).map(|step| match direction {
            SearchDirection::Forward => (at + step) % count.max(1),
            SearchDirection::Backward => (at + count - step) % count.max(1),
        });
        let Some(found) = order.find(is_other) else { return false };
        match self.body.get(found).and_then(|line| line.item.clone()) {
            Some(item) => position.selected = Some(item),
            None => position.scroll = found,
        }
        position.follows = false;
        true
    }

    /// Makes the position valid for these lines: something is selected, and all of it is shown.
    pub(crate) fn settle(&self, position: &mut ListPosition, rows: usize) {
        let items = self.items();
        let height = self.height(rows);
        // The last line says how much is below.
        let last_scroll = self.body.len().saturating_sub(height);
        let selected = items.iter().position(|item| Some(*item) == position.selected.as_deref());
        if let Some(index) = selected {
            position.index = index;
        } else {
            position.index = position.index.min(items.len().saturating_sub(1));
            position.selected = items.get(position.index).map(ToString::to_string);
        }
        if position.follows {
            position.scroll = last_scroll;
        }
        position.scroll = position.scroll.min(last_scroll);
        let is_selected = |line: &ScreenLine| line.item.is_some() && line.item == position.selected;
        let Some(first) = self.body.iter().position(is_selected) else { return };
        let last = self.body.iter().rposition(is_selected).unwrap_or(first);
        if position.index == 0 {
            // The headings above the first item are seen with it.
            position.scroll = 0;
        }
        let shown = |scroll: usize| {
            let clipped = usize::from(scroll + height < self.body.len());
            scroll + height.saturating_sub(clipped)
        };
        if first < position.scroll {
            position.scroll = first;
        }
        while last >= shown(position.scroll) && position.scroll < first {
            position.scroll += 1;
        }
    }

    pub(crate) fn draw(&self, canvas: &mut CellCanvas, position: &ListPosition) {
        let rows = canvas.rows;
        for (row, line) in self.head.iter().enumerate().take(rows.saturating_sub(1)) {
            line.draw(canvas, row);
        }
        let (top, height) = (self.head.len(), self.height(rows));
        let rest = self.body.get(position.scroll..).unwrap_or_default();
        let is_clipped = rest.len() > height && height > 0;
        let shown = if is_clipped { height - 1 } else { height };
        let mut is_marked = false;
        for (row, line) in rest.iter().take(shown).enumerate() {
            line.draw(canvas, top + row);
            if line.item.is_some() && line.item == position.selected {
                canvas.select_line(top + row, !is_marked);
                is_marked = true;
            }
        }
        if is_clipped {
            hidden_line(rest.get(shown..).unwrap_or_default()).draw(canvas, top + shown);
        }
        if rows > 0 {
            self.foot.draw(canvas, rows - 1);
        }
    }

    /// The item at a row of the screen.
    pub(crate) fn item_at(&self, position: &ListPosition, row: usize) -> Option<&str> {
        let line = row.checked_sub(self.head.len())? + position.scroll;
        self.body.get(line)?.item.as_deref()
    }
}

/// How many items, or lines where there are none, are not shown. A single line is shown instead of its count.
fn hidden_line(hidden: &[ScreenLine]) -> ScreenLine {
    let mut items: Vec<_> = hidden.iter().filter_map(|line| line.item.as_deref()).collect();
    items.dedup();
    let texts: Vec<_> = hidden.iter().filter(|line| !line.parts.is_empty()).collect();
    match (items.as_slice(), texts.as_slice()) {
        ([], [only]) => (*only).clone(),
        ([], _) => ScreenLine::text(
            4,
            format!("{} below", count_noun(hidden.len(), "more line")),
            TextInk::Quiet,
        ),
        (items, _) => ScreenLine::text(4, format!("{} more below", items.len()), TextInk::Quiet),
    }
}
