//! The tabs of a run that are lists or texts: the reason, gates, checkpoints and the log.

use crate::duration_text::{exact_duration, permille};
use crate::glyphs::GlyphSet;
use crate::layout::board_row_lines::gate_progress;
use crate::layout::run_layout::RunFrame;
use crate::layout::timeline_lines::{kind_ink, newest_rows};
use crate::opened_run::OpenedRun;
use crate::palette::TextInk;
use crate::screen_line::ScreenLine;
use ralph_core::record::MeasuredSite;
use ralph_core::text::count_noun;
use ralph_deck::page::{
    CheckpointRow, GateHistoryRow, ProofTable, RunPage, TimelineRow, state_label,
};

const LONGEST_REASON_LINES: usize = 2_000;
const BAR_COLUMNS: usize = 20;

/// What the agent read at the selected stop, or at the last one that was held.
pub(crate) fn reason_lines(frame: RunFrame<'_>, screen: &OpenedRun) -> Vec<ScreenLine> {
    let older = |seq: u64| {
        let known = screen.older_reason.as_ref().filter(|known| known.seq == seq);
        known.map(|known| known.text.as_str()).filter(|text| !text.is_empty())
    };
    let mut newest_first = screen.page.timeline.iter().rev();
    let found = newest_first.find_map(|row| match screen.reason_seq {
        Some(seq) if row.seq != seq => None,
        _ => row.reason.as_deref().or_else(|| older(row.seq)).map(|reason| (row, reason)),
    });
    let Some((row, reason)) = found else {
        let text = match screen.reason_seq {
            Some(_) => "the agent read nothing here",
            None => "the agent has not been held yet",
        };
        return vec![ScreenLine::text(1, text, TextInk::Quiet)];
    };
    let stop = row.stop.map(|stop| format!(" at stop {stop}")).unwrap_or_default();
    let rule = row.rule.map(|rule| format!(", rule {rule}")).unwrap_or_default();
    let title = format!("What the agent read{stop}, {}{rule}", frame.time(row.at_ms));
    let mut lines = vec![ScreenLine::text(1, title, TextInk::Strong), ScreenLine::blank()];
    let texts = frame.glyphs.wrap(reason, frame.end().saturating_sub(3), LONGEST_REASON_LINES);
    lines.extend(texts.into_iter().map(|text| ScreenLine::text(3, text, TextInk::Plain)));
    lines
}

/// The gates that run now against their usual time, then the results of all.
pub(crate) fn gate_lines(frame: RunFrame<'_>, page: &RunPage) -> Vec<ScreenLine> {
    let mut lines = Vec::new();
    for gate in page.row.running_gates() {
        let text = gate_progress(gate, frame.state.now_ms);
        let used = gate.since_ms.zip(gate.usual_ms).map(|(since_ms, usual_ms)| {
            permille(frame.state.now_ms.saturating_sub(since_ms), usual_ms)
        });
        let mark = if frame.glyphs == GlyphSet::Unicode { "•" } else { "*" };
        let mut line = ScreenLine::text(1, mark, TextInk::Plain).with(3, 44, text, TextInk::Strong);
        if let Some(used) = used {
            let bar = frame.glyphs.bar(BAR_COLUMNS, used);
            let ink = if used > 1500 { TextInk::Unclear } else { TextInk::Plain };
            line = line.with(49, BAR_COLUMNS, bar, ink);
        }
        lines.push(line);
        let step = gate.step.iter().map(|step| ScreenLine::text(5, step, TextInk::Quiet));
        lines.extend(step);
    }
    let steps = page.row.activity.iter().flat_map(|activity| &activity.proof);
    lines.extend(
        steps.map(|step| {
            ScreenLine::text(3, format!("proof: {}", step.describe()), TextInk::Strong)
        }),
    );
    if !lines.is_empty() {
        lines.push(ScreenLine::blank());
    }
    if page.gates.is_empty() && page.judges.is_empty() {
        lines.push(ScreenLine::text(1, "no gate has given a result yet", TextInk::Quiet));
        return lines;
    }
    lines.extend(gate_table(page));
    lines.extend(judge_table(page));
    lines.extend(page.proof.iter().flat_map(|proof| proof_lines(frame, proof)));
    lines
}

fn gate_table(page: &RunPage) -> Vec<ScreenLine> {
    if page.gates.is_empty() {
        return Vec::new();
    }
    let head = [(24, "last"), (44, "took"), (56, "runs"), (62, "cached"), (70, "flaky")];
    let mut line = ScreenLine::text(1, "GATE", TextInk::Strong);
    for (column, text) in head {
        line = line.with(column, 12, text, TextInk::Quiet);
    }
    let rows = page.gates.iter().enumerate().map(|(number, gate)| gate_line(gate, number));
    std::iter::once(line).chain(rows).collect()
}

/// The latest verdict of each judge, and what all of them cost.
fn judge_table(page: &RunPage) -> Vec<ScreenLine> {
    if page.judges.is_empty() {
        return Vec::new();
    }
    let mut lines = Vec::new();
    if !page.gates.is_empty() {
        lines.push(ScreenLine::blank());
    }
    let head = ScreenLine::text(1, "JUDGE", TextInk::Strong);
    lines.push(head.with(24, 12, "last", TextInk::Quiet).with(
        56,
        24,
        "asked, usage",
        TextInk::Quiet,
    ));
    for (number, judge) in page.judges.iter().enumerate() {
        let ink = match judge.outcome.as_str() {
            "met" => TextInk::Good,
            "unmet" | "impossible" => TextInk::Bad,
            _ => TextInk::Unclear,
        };
        let usage = match judge.usage() {
            usage if usage.is_empty() => judge.asked.to_string(),
            usage => format!("{}: {usage}", judge.asked),
        };
        let line = ScreenLine::default()
            .with(1, 22, judge.name.clone(), TextInk::Plain)
            .with(24, 31, judge.verdict(), ink)
            .with(56, usize::MAX, usage, TextInk::Plain);
        lines.push(line.of_item(&format!("judge {number}")));
    }
    lines
}

fn gate_line(gate: &GateHistoryRow, number: usize) -> ScreenLine {
    let place = match gate.site {
        MeasuredSite::Tree => "",
        MeasuredSite::Clean => ", clean",
        MeasuredSite::Base => ", base",
    };
    let outcome = match (gate.outcome.as_str(), gate.findings, gate.tests) {
        (outcome, 0, Some(tests)) => {
            format!("{outcome}, {}", count_noun(u64::from(tests.run), "test"))
        }
        (outcome, 0, None) => outcome.to_string(),
        (outcome, findings, _) => {
            format!("{outcome}, {}", count_noun(u64::from(findings), "finding"))
        }
    };
    let ink = match gate.outcome.as_str() {
        "passed" => TextInk::Good,
        "failed" => TextInk::Bad,
        _ => TextInk::Unclear,
    };
    let took = gate.measurements.iter().rev().find(|one| !one.cached).map(|one| one.took_ms);
    let took = took.map(exact_duration).unwrap_or_default();
    let count = |count: u32| if count == 0 { String::new() } else { count.to_string() };
    ScreenLine::default()
        .with(1, 22, format!("{}{place}", gate.name), TextInk::Plain)
        .with(24, 19, outcome, ink)
        .with(44, 11, took, TextInk::Plain)
        .with(56, 5, gate.executed.to_string(), TextInk::Plain)
        .with(62, 7, count(gate.cached), TextInk::Plain)
        .with(70, 6, count(gate.flaky), TextInk::Unclear)
        .of_item(&format!("gate {number}"))
}

fn proof_lines(frame: RunFrame<'_>, proof: &ProofTable) -> Vec<ScreenLine> {
    let title = format!("PROOF: {}", state_label(&proof.verdict));
    let mut lines = vec![ScreenLine::blank(), ScreenLine::text(1, title, TextInk::Strong)];
    let is_unicode = frame.glyphs == GlyphSet::Unicode;
    for row in &proof.rows {
        let (mark, ink) = match row.passed {
            Some(true) => (if is_unicode { "✓" } else { "V" }, TextInk::Good),
            Some(false) => (if is_unicode { "✗" } else { "X" }, TextInk::Bad),
            None => (" ", TextInk::Plain),
        };
        let what = format!("{} code, {} tests", row.code, row.tests);
        let line = ScreenLine::text(1, mark, ink).with(3, 2, row.name, TextInk::Plain);
        let line = line.with(6, 20, what, TextInk::Plain);
        let line = line.with(27, usize::MAX, row.result.clone(), TextInk::Plain);
        // An item can be selected, so that the screen scrolls to it.
        lines.push(line.of_item(&format!("proof {}", row.name)));
    }
    lines.extend(proof.doubts.iter().enumerate().map(|(number, doubt)| {
        let line = ScreenLine::text(3, doubt.clone(), TextInk::Unclear);
        line.of_item(&format!("doubt {number}"))
    }));
    lines
}

pub(crate) fn checkpoint_lines(
    frame: RunFrame<'_>,
    page: &RunPage,
    checkpoints: &[CheckpointRow],
) -> Vec<ScreenLine> {
    if checkpoints.is_empty() {
        return vec![ScreenLine::text(1, "no checkpoint yet", TextInk::Quiet)];
    }
    let text = "enter compares with the one before, r shows how to restore";
    let mut lines = vec![ScreenLine::text(1, text, TextInk::Quiet), ScreenLine::blank()];
    for one in checkpoints.iter().rev() {
        let judged = page.checkpoint == Some(one.number);
        let line = ScreenLine::default()
            .with_right(1, 6, one.number.to_string(), TextInk::Plain)
            .with(8, 5, frame.time(one.at_ms), TextInk::Quiet)
            .with(15, usize::MAX, one.why.clone(), TextInk::Plain);
        let judged = if judged { "judged last" } else { "" };
        let line = line.with_right(50, frame.end(), judged, TextInk::Quiet);
        lines.push(line.of_item(&one.number.to_string()));
    }
    lines
}

/// The journal, oldest first, so that new lines appear at the bottom.
pub(crate) fn log_lines(frame: RunFrame<'_>, page: &RunPage) -> Vec<ScreenLine> {
    let line = |row: &TimelineRow| {
        ScreenLine::default()
            .with_right(0, 6, row.seq.to_string(), TextInk::Quiet)
            .with(8, 5, frame.time(row.at_ms), TextInk::Quiet)
            .with(15, 9, row.kind.label(), kind_ink(row.kind))
            .with(25, usize::MAX, row.text.clone(), TextInk::Plain)
    };
    let (older, rows) = newest_rows(page);
    older.into_iter().chain(rows.iter().map(line)).collect()
}
