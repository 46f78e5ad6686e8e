//! What a person fills in before an action: a message, a waiver, limits, the id of a run to cancel; and the help.

use crate::text_editor::TextEditor;
use ralph_core::id::RunId;
use ralph_deck::page::BoardRow;
use ralph_deck::person_action::{LONGEST_MESSAGE, LONGEST_WAIVER_REASON, PersonAction};

const LONGEST_NAME: usize = 200;
const LONGEST_TIME: usize = 40;

/// A screen in front of the board or the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WatchDialog {
    Help,
    Message(MessageDialog),
    Form(FormDialog),
}

/// A message to the agent, which may be the answer to its question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MessageDialog {
    pub(crate) run: RunId,
    pub(crate) row: BoardRow,
    /// What the question rests on: the requirements that are not met.
    pub(crate) rests_on: Vec<String>,
    pub(crate) editor: TextEditor,
}

impl MessageDialog {
    pub(crate) fn new(run: RunId, row: BoardRow, draft: &str, rests_on: Vec<String>) -> Self {
        Self { run, row, rests_on, editor: TextEditor::multi_line(draft, LONGEST_MESSAGE) }
    }

    pub(crate) fn action(&self) -> PersonAction {
        PersonAction::Tell { text: self.editor.text().to_string() }
    }
}

/// To which field of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FocusMove {
    Next,
    Previous,
}

/// What a form is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormKind {
    Waive,
    Limits,
    Cancel,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FormField {
    pub(crate) label: &'static str,
    pub(crate) hint: String,
    pub(crate) editor: TextEditor,
    pub(crate) is_required: bool,
}

/// Some fields of one line each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FormDialog {
    pub(crate) kind: FormKind,
    pub(crate) run: RunId,
    pub(crate) row: BoardRow,
    pub(crate) fields: Vec<FormField>,
    pub(crate) focus: usize,
}

impl FormDialog {
    pub(crate) fn waive(run: RunId, row: BoardRow, requirement: &str) -> Self {
        let field = |label, hint: &str, text: &str, most| FormField {
            label,
            hint: hint.to_string(),
            editor: TextEditor::single_line(text, most),
            is_required: true,
        };
        let open = match row.open_names.as_slice() {
            [] => "the name as the matrix shows it".to_string(),
            names => format!("open: {}", names.join(", ")),
        };
        let fields = vec![
            field("requirement", &open, requirement, LONGEST_NAME),
            field("until", "2h, a date, or 2026-11-20T18:00:00Z", "", LONGEST_TIME),
            field(
                "reason",
                "every report shows it, with your user name if it is known",
                "",
                LONGEST_WAIVER_REASON,
            ),
        ];
        let focus = usize::from(!requirement.is_empty());
        Self { kind: FormKind::Waive, run, row, fields, focus }
    }

    /// Each field shows the limit now; an empty one keeps it.
    pub(crate) fn limits(run: RunId, row: BoardRow) -> Self {
        let now = |text: Option<String>| {
            text.map_or("no limit now".to_string(), |it| format!("now {it}"))
        };
        let field = |label, hint| FormField {
            label,
            hint,
            editor: TextEditor::single_line("", LONGEST_TIME),
            is_required: false,
        };
        let fields = vec![
            field("iterations", now(row.max_iterations.map(|most| most.to_string()))),
            field("time", now(row.max_duration_ms.map(ralph_core::units::format_duration))),
            field("cost in USD", now(row.max_micro_usd.map(ralph_core::units::format_usd))),
        ];
        Self { kind: FormKind::Limits, run, row, fields, focus: 0 }
    }

    pub(crate) fn cancel(run: RunId, row: BoardRow) -> Self {
        let verb = if row.standing.has_ended() { "close" } else { "cancel" };
        let hint = format!("type {run} to {verb} this run");
        let editor = TextEditor::single_line("", LONGEST_TIME);
        let fields = vec![FormField { label: "run", hint, editor, is_required: true }];
        Self { kind: FormKind::Cancel, run, row, fields, focus: 0 }
    }

    pub(crate) fn field(&self, index: usize) -> String {
        self.fields
            .get(index)
            .map(|field| field.editor.text().trim().to_string())
            .unwrap_or_default()
    }

    /// The action with what was typed; the error says what is missing.
    pub(crate) fn action(&self) -> Result<PersonAction, String> {
        let missing =
            |field: &&FormField| field.is_required && field.editor.text().trim().is_empty();
        if let Some(field) = self.fields.iter().find(missing) {
            return Err(match self.kind {
                FormKind::Cancel => format!("type {}, or esc to go back", self.run),
                FormKind::Waive | FormKind::Limits => format!("the {} is missing", field.label),
            });
        }
        match self.kind {
            FormKind::Cancel
                if self.field(0) != self.run.as_str() && self.row.standing.has_ended() =>
            {
                Err(format!("that is not {}; nothing was closed", self.run))
            }
            FormKind::Cancel if self.field(0) != self.run.as_str() => {
                Err(format!("that is not {}; nothing was cancelled", self.run))
            }
            FormKind::Cancel => Ok(PersonAction::Cancel),
            FormKind::Waive => Ok(PersonAction::Waive {
                requirement: self.field(0),
                until: self.field(1),
                why: self.field(2),
            }),
            FormKind::Limits if self.fields.iter().all(|field| field.editor.text().is_empty()) => {
                Err("no limit was entered; esc goes back".to_string())
            }
            FormKind::Limits => Ok(PersonAction::SetLimits {
                iterations: self.field(0),
                duration: self.field(1),
                cost: self.field(2),
            }),
        }
    }

    pub(crate) fn focused(&mut self) -> Option<&mut TextEditor> {
        self.fields.get_mut(self.focus).map(|field| &mut field.editor)
    }

    pub(crate) fn move_focus(&mut self, to: FocusMove) {
        let count = self.fields.len().max(1);
        let step = match to {
            FocusMove::Next => 1,
            FocusMove::Previous => count - 1,
        };
        self.focus = (self.focus + step) % count;
    }
}

/// The requirements that are open, as lines for a question.
pub(crate) fn open_lines(page: &ralph_deck::page::RunPage) -> Vec<String> {
    use ralph_deck::page::CellState;
    let open = page.matrix.rows.iter().filter_map(|row| {
        let last = row.cells.last().filter(|cell| cell.state > CellState::Advisory)?;
        Some(match last.findings {
            0 => row.name.clone(),
            findings => {
                let findings = ralph_core::text::count_noun(u64::from(findings), "finding");
                format!("{}: {findings}", row.name)
            }
        })
    });
    open.collect()
}
