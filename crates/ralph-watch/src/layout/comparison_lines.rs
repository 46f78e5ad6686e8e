//! The files that a run changed, and two versions of one of them.

use crate::layout::run_layout::RunFrame;
use crate::palette::TextInk;
use crate::screen_line::ScreenLine;
use ralph_core::text::count_noun;
use ralph_deck::page::{ChangedFileRow, CheckpointDiff, FileComparison, SideBySideLine};

pub(crate) fn changed_file_lines(frame: RunFrame<'_>, changed: &CheckpointDiff) -> Vec<ScreenLine> {
    let CheckpointDiff { from, to, files, left_out, added, removed } = changed;
    let count = count_noun(files.len() + left_out, "file");
    let title = format!("{count} changed from checkpoint {from} to {to}: +{added} -{removed}");
    let mut lines = vec![ScreenLine::text(1, title, TextInk::Strong), ScreenLine::blank()];
    lines.extend(files.iter().map(|file| file_line(frame, file)));
    if *left_out > 0 {
        lines.push(ScreenLine::text(1, count_noun(*left_out, "more file"), TextInk::Quiet));
    }
    lines
}

fn file_line(frame: RunFrame<'_>, file: &ChangedFileRow) -> ScreenLine {
    let mark = match file.status {
        "added" => "A",
        "deleted" => "D",
        "type_changed" => "T",
        _ => "M",
    };
    let end = frame.end();
    let line = ScreenLine::default()
        .with(1, 1, mark, TextInk::Plain)
        .with(3, end.saturating_sub(18), file.path.clone(), TextInk::Plain)
        .of_item(&file.path);
    match (file.added, file.removed) {
        (Some(added), Some(removed)) => line
            .with_right(
                end.saturating_sub(14),
                end.saturating_sub(7),
                format!("+{added}"),
                TextInk::Good,
            )
            .with_right(end.saturating_sub(7), end, format!("-{removed}"), TextInk::Bad),
        _ => line.with_right(end.saturating_sub(14), end, "not text", TextInk::Quiet),
    }
}

/// Side by side where there is room, else the old lines before the new ones.
pub(crate) fn comparison_lines(
    frame: RunFrame<'_>,
    comparison: &FileComparison,
    from: u32,
    to: u32,
) -> Vec<ScreenLine> {
    let title = format!("{}, checkpoint {from} to {to}", comparison.path);
    let mut lines = vec![ScreenLine::text(1, title, TextInk::Strong), ScreenLine::blank()];
    lines.extend(comparison.note.iter().map(|note| {
        ScreenLine::text(1, format!("there is no comparison: {note}"), TextInk::Quiet)
    }));
    if frame.is_full() {
        lines.extend(comparison.lines.iter().map(|line| side_by_side(frame, line)));
    } else {
        lines.extend(
            comparison.lines.chunk_by(|one, next| one.changed == next.changed).flat_map(unified),
        );
    }
    if comparison.left_out > 0 {
        let text = count_noun(comparison.left_out, "more line");
        lines.push(ScreenLine::text(1, text, TextInk::Quiet));
    }
    lines
}

fn is_gap(line: &SideBySideLine) -> bool {
    line.before.is_none() && line.after.is_none()
}

fn side_by_side(frame: RunFrame<'_>, line: &SideBySideLine) -> ScreenLine {
    if is_gap(line) {
        return ScreenLine::text(1, "…", TextInk::Quiet);
    }
    let half = frame.columns() / 2;
    let mut out = ScreenLine::default();
    let sides = [(0, &line.before, "-", TextInk::Bad), (half, &line.after, "+", TextInk::Good)];
    for (column, side, mark, ink) in sides {
        let Some((number, text)) = side else { continue };
        let (mark, ink) = if line.changed { (mark, ink) } else { (" ", TextInk::Plain) };
        out = out
            .with_right(column, column + 6, number.to_string(), TextInk::Quiet)
            .with(column + 7, 1, mark, ink)
            .with(column + 9, half.saturating_sub(10), text.clone(), ink);
    }
    out
}

/// A stretch of changed or of unchanged lines.
fn unified(stretch: &[SideBySideLine]) -> Vec<ScreenLine> {
    let line = |number: u32, mark: &str, text: &str, ink: TextInk| {
        ScreenLine::default()
            .with_right(0, 6, number.to_string(), TextInk::Quiet)
            .with(7, 1, mark, ink)
            .with(9, usize::MAX, text, ink)
    };
    if stretch.iter().any(|one| one.changed) {
        let before = stretch.iter().filter_map(|one| one.before.as_ref());
        let after = stretch.iter().filter_map(|one| one.after.as_ref());
        let before = before.map(|(number, text)| line(*number, "-", text, TextInk::Bad));
        let after = after.map(|(number, text)| line(*number, "+", text, TextInk::Good));
        return before.chain(after).collect();
    }
    let unchanged = stretch.iter().map(|one| match (&one.after, &one.before) {
        (Some((number, text)), _) | (None, Some((number, text))) => {
            line(*number, " ", text, TextInk::Plain)
        }
        (None, None) => ScreenLine::text(1, "…", TextInk::Quiet),
    });
    unchanged.collect()
}
