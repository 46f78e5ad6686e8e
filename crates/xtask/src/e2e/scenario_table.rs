//! The table of scenarios in `docs/simulator.md`.

use super::{AgreedAttempt, ComparedScenario, ComparisonOutcome, install, scenario_heading};
use crate::{disk, shell};
use anyhow::{Result, ensure};
use std::path::PathBuf;

const BEGIN: &str = "<!-- begin: cargo xtask e2e --write -->";
const END: &str = "<!-- end -->";

fn table_file() -> PathBuf {
    shell::repository_root().join("docs/simulator.md")
}

fn render_table(version: &str, played: &[ComparedScenario]) -> String {
    let agree =
        played.iter().filter(|played| matches!(played.found, ComparisonOutcome::Agrees(_))).count();
    let mut out = format!(
        "{BEGIN}\n\nClaude Code {version}: {agree} of {} scenarios agree.\n\n| scenario | what it shows | |\n|---|---|---|\n",
        played.len()
    );
    for ComparedScenario { name, title, found } in played {
        let mark = match found {
            ComparisonOutcome::Agrees(_) => "agrees",
            ComparisonOutcome::Differs(_) | ComparisonOutcome::Broken(_) => "**differs**",
        };
        let title = title.replace('|', "\\|");
        out.push_str(&format!("| [`{name}`](../scenarios/{name}) | {title} | {mark} |\n"));
    }
    out.push_str(&format!("\n{END}"));
    out
}

/// Replaces the table.
pub(super) fn write_table(version: &str, played: &[ComparedScenario]) -> Result<()> {
    let text = disk::read_text(&table_file())?;
    let (before, rest) = split_at_table(&text)?;
    disk::write_file(
        &table_file(),
        format!("{before}{}{rest}", render_table(version, played)).as_bytes(),
    )
}

/// Checks that the table lists these scenarios, all of them as agreeing with the pinned client. Needs no results, so that a
/// stale table is reported before anything is played.
pub(super) fn check_table(scenarios: &[PathBuf]) -> Result<()> {
    let text = disk::read_text(&table_file())?;
    let (before, rest) = split_at_table(&text)?;
    let mut agreeing: Vec<ComparedScenario> = scenarios
        .iter()
        .map(|scenario| {
            let (name, title) = scenario_heading(scenario);
            let found = ComparisonOutcome::Agrees(AgreedAttempt { count: 1, before: None });
            ComparedScenario { name, title, found }
        })
        .collect();
    agreeing.sort_by(|one, other| one.name.cmp(&other.name));
    let wanted = format!("{before}{}{rest}", render_table(install::PINNED_VERSION, &agreeing));
    ensure!(
        wanted == text,
        "the table in `docs/simulator.md` is stale: run `cargo xtask e2e --write`"
    );
    Ok(())
}

fn split_at_table(text: &str) -> Result<(&str, &str)> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    parts.ok_or_else(|| anyhow::anyhow!("`docs/simulator.md` has no markers for the table"))
}
