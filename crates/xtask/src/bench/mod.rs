//! How much ralph costs, next to commands that everybody knows.

mod budget;
mod course;
pub(crate) mod fingerprint;
mod race;
mod stage;
mod table;
mod transcript;

use crate::{Hook, say, shell};
use anyhow::{Context, Result, bail};
use race::Racer;
use serde_json::Value;
use std::path::PathBuf;

/// A busy machine misses a budget now and then; twice is no accident.
const SECOND_LOOK: u32 = 3;

pub(crate) fn hook(options: &Hook) -> Result<()> {
    let ralph = built("ralph", "ralph", "--bin")?;
    let stage = stage::Stage::new(ralph)?;
    let mut racers = course::racers(&stage)?;
    race::run(&mut racers, options.rounds)?;
    let print = if options.markdown { table::markdown } else { table::aligned };
    say::out(&print(&racers, course::TRUE));
    let mut judged = budget::judge(&racers);
    if options.check && judged.iter().any(budget::Judged::is_missed) {
        say::err("a budget was missed; measuring again with more rounds");
        racers.retain(Racer::is_judged);
        racers.iter_mut().for_each(Racer::forget);
        race::run(&mut racers, options.rounds.saturating_mul(SECOND_LOOK))?;
        say::out(&print(&racers, course::TRUE));
        judged = budget::judge(&racers);
    }
    say::out(&table::budgets(&judged));
    let missed = judged.iter().filter(|budget| budget.is_missed()).count();
    if options.check && missed > 0 {
        bail!("{missed} of {} budgets missed", judged.len());
    }
    Ok(())
}

/// The release build of a program of ours, of a kind that cargo knows by a flag.
fn built(package: &str, program: &str, flag: &str) -> Result<PathBuf> {
    let args = ["build", "--release", "--package", package, flag, program, "--message-format=json"];
    let messages = shell::output(shell::cargo().args(args))?;
    let messages = messages.split(|byte| *byte == b'\n');
    let built = messages.filter_map(|line| serde_json::from_slice::<Value>(line).ok()).find_map(
        |message| {
            let is_it = message["target"]["name"] == program;
            is_it.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
        },
    );
    built.with_context(|| format!("cargo built no `{program}`"))
}
