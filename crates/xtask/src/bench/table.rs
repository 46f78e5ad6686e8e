//! Formats results as tables.

use super::budget::{BudgetOutcome, BudgetResult};
use super::race::RacerTimes;
use std::fmt::Write as _;

/// Column headings; the last two name the command that the ratios refer to.
fn headings(base: &str) -> [String; 7] {
    let base = base.rsplit('/').next().unwrap_or(base).split(',').next().unwrap_or(base);
    ["command", "runs", "min ms", "median ms", "p90 ms", "median ÷", "min ÷"].map(|heading| {
        if heading.ends_with('÷') { format!("{heading} {base}") } else { heading.to_owned() }
    })
}

fn rows(all: &[&RacerTimes], base: &str) -> Vec<[String; 7]> {
    let base = all.iter().find(|laps| laps.name == base);
    let base = |percent| base.map_or(f64::NAN, |laps| laps.percentile(percent));
    let row = |laps: &&RacerTimes| {
        let [min, median, p90] = [0, 50, 90].map(|percent| laps.percentile(percent));
        [
            laps.name.clone(),
            laps.times.len().to_string(),
            format!("{min:.2}"),
            format!("{median:.2}"),
            format!("{p90:.2}"),
            format!("{:.2}", median / base(50)),
            format!("{:.2}", min / base(0)),
        ]
    };
    all.iter().map(row).collect()
}

pub(crate) fn render_aligned(all: &[&RacerTimes], base: &str) -> String {
    let mut rows = rows(all, base);
    rows.insert(0, headings(base));
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut out = String::new();
    for row in &rows {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let _ = match column {
                0 => write!(out, "{cell:<width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
        }
        out.push('\n');
    }
    out
}

pub(crate) fn render_markdown(all: &[&RacerTimes], base: &str) -> String {
    let headings = headings(base);
    let mut out =
        format!("| {} |\n|---|{}\n", headings.join(" | "), "--:|".repeat(headings.len() - 1));
    for row in rows(all, base) {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
    out
}

pub(crate) fn render_budgets(judged: &[BudgetResult]) -> String {
    let mut out = String::new();
    for BudgetResult { what, found, limit, outcome } in judged {
        let word = match outcome {
            BudgetOutcome::Kept => "kept",
            BudgetOutcome::Missed => "MISSED",
            BudgetOutcome::NotMeasured => "not measured",
        };
        let _ = writeln!(out, "{word}: {what}: {found:.3} of at most {limit:.2}");
    }
    out
}
