//! Benchmarks of ralph against well-known commands.

mod budget;
mod course;
mod fingerprint;
mod gates;
mod race;
mod recall;
mod run;
mod stage;
mod table;
mod transcript;

use crate::e2e::install;
use crate::{Drive, Gates, Hook, Manner, Part, Recall, say, shell};
use anyhow::{Result, bail};
use budget::Judged;
use race::{Laps, Racer};

/// Number of measurements before a budget counts as missed. Other load on the machine comes and goes; a real regression
/// shows in every measurement.
const LOOKS: usize = 5;

/// Commands that are timed together, and the budgets they have to keep.
struct Contest {
    racers: Vec<Racer>,
    rounds: u32,
    /// The name of the command that ratios refer to.
    base: String,
    judge: fn(&[Racer]) -> Vec<Judged>,
}

pub(crate) fn hook(options: &Hook) -> Result<()> {
    let stage = stage::Stage::new(shell::built("release", "ralph", "--bin", "ralph")?)?;
    let racers = course::racers(&stage)?;
    let base = course::TRUE.to_owned();
    let contest = Contest { racers, rounds: options.rounds, base, judge: budget::judge };
    settle(&hold(contest, &options.manner)?, &options.manner)
}

pub(crate) fn gates(options: &Gates) -> Result<()> {
    let Gates { rounds, only, manner } = options;
    let mut judged = Vec::new();
    if *only != Some(Part::Fingerprint) {
        let stage = gates::Stage::new(shell::built("release", "ralph", "--bin", "ralph")?)?;
        judged.extend(hold(stage.contest(*rounds)?, manner)?);
    }
    if *only != Some(Part::Gates) {
        let stage = fingerprint::Stage::new(shell::built(
            "release",
            "ralph-git",
            "--example",
            "fingerprint",
        )?)?;
        judged.extend(hold(stage.contest(*rounds)?, manner)?);
    }
    settle(&judged, manner)
}

pub(crate) fn recall(options: &Recall) -> Result<()> {
    let stage = recall::Stage::new(shell::built("release", "ralph", "--bin", "ralph")?)?;
    say::out(&stage.build()?);
    let mut judged = hold(stage.contest(options.rounds)?, &options.manner)?;
    judged.push(stage.questions()?);
    settle(&judged, &options.manner)
}

/// The overhead of the runner over the client alone.
pub(crate) fn run(options: &Drive) -> Result<()> {
    let client = match &options.client {
        Some(client) => client.clone(),
        None => install::client(install::PINNED)?,
    };
    let ralph = shell::built("release", "ralph", "--bin", "ralph")?;
    settle(&run::measure(&ralph, &client, options)?, &options.manner)
}

fn hold(mut contest: Contest, manner: &Manner) -> Result<Vec<Judged>> {
    let Contest { racers, rounds, base, judge } = &mut contest;
    race::run(racers, *rounds)?;
    show(racers.iter().map(|racer| &racer.laps), base, manner);
    let mut best = judge(racers);
    for _ in 1..LOOKS {
        if !manner.check || !best.iter().any(Judged::is_missed) {
            break;
        }
        say::err("a budget was missed; measuring again");
        racers.retain(Racer::is_judged);
        racers.iter_mut().for_each(Racer::forget);
        race::run(racers, *rounds)?;
        show(racers.iter().map(|racer| &racer.laps), base, manner);
        best = best.into_iter().zip(judge(racers)).map(|(one, other)| one.better(other)).collect();
    }
    Ok(best)
}

fn show<'a>(laps: impl Iterator<Item = &'a Laps>, base: &str, manner: &Manner) {
    let print = if manner.markdown { table::markdown } else { table::aligned };
    say::out(&print(&laps.collect::<Vec<_>>(), base));
}

fn settle(judged: &[Judged], manner: &Manner) -> Result<()> {
    say::out(&table::budgets(judged));
    let missed = judged.iter().filter(|budget| budget.is_missed()).count();
    if manner.check && missed > 0 {
        bail!("{missed} of {} budgets missed", judged.len());
    }
    Ok(())
}
