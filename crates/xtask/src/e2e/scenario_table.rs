//! The table of scenarios in `docs/simulator.md`.

use super::{AgreedAttempt, ComparedScenario, ComparisonOutcome, install};
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

/// Checks that the table is up to date for these scenarios and the pinned client.
pub(super) fn check_table(played: &[ComparedScenario]) -> Result<()> {
    let text = disk::read_text(&table_file())?;
    let (before, rest) = split_at_table(&text)?;
    let agreeing: Vec<ComparedScenario> = played
        .iter()
        .map(|played| ComparedScenario {
            name: played.name.clone(),
            title: played.title.clone(),
            found: ComparisonOutcome::Agrees(AgreedAttempt { count: 1, before: None }),
        })
        .collect();
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
