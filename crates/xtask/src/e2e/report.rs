//! The table of scenarios in `docs/simulator.md`.

use super::{Found, Played, install};
use crate::{disk, shell};
use anyhow::{Result, ensure};
use std::path::PathBuf;

const BEGIN: &str = "<!-- begin: cargo xtask e2e --write -->";
const END: &str = "<!-- end -->";

fn place() -> PathBuf {
    shell::root().join("docs/simulator.md")
}

fn table(version: &str, played: &[Played]) -> String {
    let agree = played.iter().filter(|played| matches!(played.found, Found::Agree(_))).count();
    let mut out = format!(
        "{BEGIN}\n\nClaude Code {version}: {agree} of {} scenarios agree.\n\n| scenario | what it shows | |\n|---|---|---|\n",
        played.len()
    );
    for Played { name, title, found } in played {
        let mark = match found {
            Found::Agree(_) => "agrees",
            Found::Differ(_) | Found::Broken(_) => "**differs**",
        };
        let title = title.replace('|', "\\|");
        out.push_str(&format!("| [`{name}`](../scenarios/{name}) | {title} | {mark} |\n"));
    }
    out.push_str(&format!("\n{END}"));
    out
}

/// Replaces the table.
pub(super) fn write(version: &str, played: &[Played]) -> Result<()> {
    let text = disk::text(&place())?;
    let (before, rest) = split(&text)?;
    disk::write_here(&place(), format!("{before}{}{rest}", table(version, played)).as_bytes())
}

/// Checks that the table is up to date for these scenarios and the pinned client.
pub(super) fn check(played: &[Played]) -> Result<()> {
    let text = disk::text(&place())?;
    let (before, rest) = split(&text)?;
    let agreeing: Vec<Played> = played
        .iter()
        .map(|played| Played {
            name: played.name.clone(),
            title: played.title.clone(),
            found: Found::Agree(1),
        })
        .collect();
    let wanted = format!("{before}{}{rest}", table(install::PINNED, &agreeing));
    ensure!(
        wanted == text,
        "the table in `docs/simulator.md` is stale: run `cargo xtask e2e --write`"
    );
    Ok(())
}

fn split(text: &str) -> Result<(&str, &str)> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    parts.ok_or_else(|| anyhow::anyhow!("`docs/simulator.md` has no markers for the table"))
}
