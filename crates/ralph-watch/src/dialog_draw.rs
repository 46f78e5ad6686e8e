//! Draws the dialogs.

use crate::canvas::CellCanvas;
use crate::dialog::{FormDialog, FormKind, MessageDialog, WatchDialog};
use crate::duration_text::in_time;
use crate::glyphs::GlyphSet;
use crate::palette::TextInk;
use crate::text_editor::TextEditor;
use crate::watch_state::WatchState;
use ralph_deck::page::OpenQuestion;

const FORM_LABEL_COLUMNS: usize = 13;
const MAX_NOTE_LINES: usize = 4;

impl WatchDialog {
    pub(crate) fn draw(&self, state: &WatchState, canvas: &mut CellCanvas) {
        match self {
            Self::Help => draw_help(canvas),
            Self::Message(message) => draw_message(message, state, canvas),
            Self::Form(form) => draw_form(form, state, canvas),
        }
    }
}

fn draw_foot(state: &WatchState, canvas: &mut CellCanvas, keys: &str) {
    let row = canvas.rows.saturating_sub(1);
    let (text, ink) = match &state.message {
        Some(message) if message.is_error => (message.text.as_str(), TextInk::Bad),
        Some(message) => (message.text.as_str(), TextInk::Strong),
        None => (keys, TextInk::Quiet),
    };
    let most = canvas.columns.saturating_sub(1);
    canvas.put(1, row, text, most, ink);
}

fn draw_message(message: &MessageDialog, state: &WatchState, canvas: &mut CellCanvas) {
    let MessageDialog { run, row, rests_on, editor } = message;
    let (columns, rows) = (canvas.columns, canvas.rows);
    let end = columns.saturating_sub(1);
    let title = format!("{run} {}  {}", row.standing.label(), row.title);
    canvas.put(1, 0, &title, end.saturating_sub(1), TextInk::Strong);
    let mut at = 2;
    let question = answered_question(message);
    if let Some(question) = question {
        let asked = format!("The agent asks, {}", (state.time_text)(question.asked_ms));
        canvas.put(1, at, &asked, end, TextInk::Plain);
        let most = rows.saturating_sub(14).max(1);
        let texts = canvas.glyphs().wrap(&question.text, columns.saturating_sub(4), most);
        canvas.frame(at + 1, at + 2 + texts.len());
        for (number, text) in texts.iter().enumerate() {
            canvas.put(2, at + 2 + number, text, columns.saturating_sub(4), TextInk::Strong);
        }
        at += 3 + texts.len();
        if !rests_on.is_empty() && rows >= 24 {
            canvas.put(1, at, "Not met at the last stop", end, TextInk::Plain);
            let mark = if canvas.glyphs() == GlyphSet::Unicode { "✗" } else { "X" };
            for (number, text) in rests_on.iter().take(3).enumerate() {
                canvas.put(2, at + 1 + number, mark, 1, TextInk::Bad);
                canvas.put(4, at + 1 + number, text, end.saturating_sub(4), TextInk::Plain);
            }
            at += 1 + rests_on.len().min(3);
        }
        at += 1;
    }
    let label = if question.is_some() { "Your answer" } else { "A message for the agent" };
    canvas.put(1, at, label, end, TextInk::Plain);
    let count = format!("{} of {}", editor.chars(), editor.most_chars());
    canvas.put_right(30, end, at, &count, TextInk::Quiet);
    let note = note_text(message, state);
    let notes = canvas.glyphs().wrap(&note, end.saturating_sub(1), MAX_NOTE_LINES);
    let bottom = rows.saturating_sub(2 + notes.len()).max(at + 3).min(at + 9);
    canvas.frame(at + 1, bottom);
    draw_editor(editor, canvas, at + 2, bottom);
    for (number, note) in notes.iter().enumerate() {
        let row = bottom + 1 + number;
        if row + 1 < rows {
            canvas.put(1, row, note, end.saturating_sub(1), TextInk::Quiet);
        }
    }
    draw_foot(state, canvas, "ctrl-s send   ctrl-e open $EDITOR   esc keep as draft");
}

/// The question that the message answers. It approves nothing.
fn answered_question(message: &MessageDialog) -> Option<&OpenQuestion> {
    message.row.question.as_ref().filter(|question| question.approval.is_none())
}

fn note_text(message: &MessageDialog, state: &WatchState) -> String {
    let run = &message.run;
    if message.row.needs_runner {
        return format!("The agent gets it when the run is resumed: `ralph run --resume {run}`");
    }
    let Some(question) = answered_question(message) else {
        return "The agent gets it at its next stop".to_string();
    };
    let Some(until_ms) = question.until_ms else {
        return "The agent gets it at its next stop".to_string();
    };
    let (at, left) = ((state.time_text)(until_ms), in_time(until_ms, state.now_ms));
    format!(
        "The agent reads it at once. Not answered by {at} ({left}), the run is parked and waits for \
         `ralph tell {run} \"…\"` and `ralph run --resume {run}`"
    )
}

/// The lines of a text around its cursor, inside a box.
fn draw_editor(editor: &TextEditor, canvas: &mut CellCanvas, top: usize, bottom: usize) {
    let (before, after) = editor.halves();
    let glyphs = canvas.glyphs();
    let width = canvas.columns.saturating_sub(4);
    // An empty last line is a line too.
    let wrap = |text: &str| glyphs.wrap(&format!("{text}\u{0}"), width, usize::MAX);
    let marker = glyphs.visible("\u{0}").into_owned();
    let with_cursor = format!("{before}{}{after}", glyphs.cursor());
    let lines: Vec<String> =
        wrap(&with_cursor).into_iter().map(|line| line.replace(&marker, "")).collect();
    let cursor_line = wrap(before).len().saturating_sub(1);
    let height = bottom.saturating_sub(top).max(1);
    let first = (cursor_line + 1).saturating_sub(height);
    for (number, line) in lines.iter().skip(first).take(height).enumerate() {
        canvas.put(2, top + number, line, width, TextInk::Plain);
    }
}

fn draw_form(form: &FormDialog, state: &WatchState, canvas: &mut CellCanvas) {
    let FormDialog { kind, run, row, fields, focus } = form;
    let end = canvas.columns.saturating_sub(1);
    let verb = match kind {
        FormKind::Waive => "Waive a requirement of",
        FormKind::Limits => "Change the limits of",
        FormKind::Cancel if row.standing.has_ended() => "Close",
        FormKind::Cancel => "Cancel",
    };
    canvas.put(1, 0, &format!("{verb} {run}  {}", row.title), end, TextInk::Strong);
    let mut at = 2;
    for (number, field) in fields.iter().enumerate() {
        let is_focused = number == *focus;
        let ink = if is_focused { TextInk::Strong } else { TextInk::Plain };
        canvas.put(2, at, field.label, FORM_LABEL_COLUMNS, ink);
        let column = 2 + FORM_LABEL_COLUMNS;
        let (before, after) = field.editor.halves();
        let cursor = canvas.glyphs().cursor();
        let text = if is_focused {
            // The end of a long text is what a person types.
            let room = end.saturating_sub(column + 1);
            let kept = last_columns(before, room.saturating_sub(after.len().min(room / 2)));
            format!("{kept}{cursor}{after}")
        } else {
            field.editor.text().to_string()
        };
        canvas.put(column, at, &text, end.saturating_sub(column), ink);
        canvas.put(column, at + 1, &field.hint, end.saturating_sub(column), TextInk::Quiet);
        if is_focused {
            canvas.put(0, at, canvas.look.glyphs.selection(), 1, TextInk::Strong);
        }
        at += 3;
    }
    let notes: &[&str] = match kind {
        FormKind::Waive => &[
            "It is still measured, but blocks no stop until then, at most 30 days.",
            "A run that ends during a waiver ends as claimed.",
        ],
        FormKind::Limits => {
            &["An empty field keeps the limit. Changes count from the next stop on."]
        }
        FormKind::Cancel if row.standing.has_ended() => {
            &["It keeps its status and no longer waits for you. Nothing is deleted."]
        }
        FormKind::Cancel => &["The session can stop freely afterwards; nothing is deleted."],
    };
    for note in notes {
        canvas.put(2, at, note, end.saturating_sub(2), TextInk::Quiet);
        at += 1;
    }
    draw_foot(state, canvas, "enter next or confirm   tab next field   esc back");
}

/// The end of a text that fits.
fn last_columns(text: &str, columns: usize) -> &str {
    let mut rest = text;
    while crate::glyphs::text_columns(rest) > columns {
        let mut chars = rest.chars();
        chars.next();
        rest = chars.as_str();
    }
    rest
}

const HELP: &str = "\
  Everywhere                             On a run
  ↑ ↓  k j     move                      1 to 6  stops, reason, gates, diff,
  enter        open                              checkpoints, log
  esc  h       back                      ← →     older, newer stops
  g  G         top, bottom               a       answer, or approve
  /            filter; on a run: search  t       tell the agent something
  n  N         next, previous match      w       waive the selected row
  s            sort: needs you, newest,  p       pause, resume
               cost                      x       cancel; asks for the run id
  e            earlier runs              l       change limits
  ctrl-l       draw again                r       how to restore a checkpoint
  q  ctrl-c    quit; runs go on          y       show the command of the next
                                                 action, instead of doing it
  Marks
  ✓ verified      ~ claimed       ? asks              ! needs review
  + green         ¿ needs human   # gate broken       % rate limited
  ▁ exhausted     = stuck         ✗ crashed           → overridden
  - cancelled     • working       … waiting           ‖ paused
  o orphaned      u unprotected   p parked            a accepted  ≡ queue

  In the matrix: ✓ met   ✗ or a number: not met, findings   · not reached
                 ? no result   w waived or advisory   • still running
                 a waits for approval
  Quitting never stops a run.";

const ASCII_HELP: [(&str, &str); 12] = [
    ("↑ ↓  k j     move", "up down k j  move"),
    ("← →     older", "arrows  older"),
    ("✓ verified", "V verified"),
    ("¿ needs human", "h needs human"),
    ("▁ exhausted", "_ exhausted"),
    ("✗ crashed", "X crashed"),
    ("→ overridden", "> overridden"),
    (
        "• working       … waiting           ‖ paused",
        "* working       . waiting           \" paused",
    ),
    ("≡ queue", "Q queue"),
    ("✓ met   ✗ or", "V met   X or"),
    ("· not reached", ". not reached"),
    ("• still running", "* still running"),
];

fn draw_help(canvas: &mut CellCanvas) {
    let end = canvas.columns.saturating_sub(1);
    let mut text = HELP.to_string();
    if canvas.glyphs() == GlyphSet::Ascii {
        for (unicode, ascii) in ASCII_HELP {
            text = text.replace(unicode, ascii);
        }
    }
    canvas.put(1, 0, "ralph  keys", end, TextInk::Strong);
    canvas.put_right(30, end, 0, "any key closes", TextInk::Quiet);
    let is_short = canvas.rows < 26;
    let lines = text.lines().filter(|line| !is_short || !line.is_empty());
    for (number, line) in lines.enumerate() {
        canvas.put(0, 1 + number, line, end, TextInk::Plain);
    }
}
