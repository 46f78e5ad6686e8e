//! Times commands in turns, so that noise affects all of them equally.

use crate::disk;
use crate::shell::{self, RacerCommand};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;

/// Warm-up rounds, a tenth of all rounds within these bounds, to fill caches and raise CPU clocks.
const WARM_UP: std::ops::RangeInclusive<u32> = 1..=5;

pub(crate) struct BenchRacer {
    pub(crate) command: RacerCommand,
    pub(crate) setup: RacerSetup,
    pub(crate) proof: RacerProof,
    pub(crate) pace: RacerPace,
    pub(crate) times: RacerTimes,
}

/// The measured durations of one command.
pub(crate) struct RacerTimes {
    pub(crate) name: String,
    pub(crate) times: Vec<Duration>,
}

impl RacerTimes {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), times: Vec::new() }
    }

    /// A percentile of the durations, in milliseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        times.get(last * percent / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RacerPace {
    EveryRound,
    /// Expensive, and without a budget.
    EveryTenth,
}

/// Preparation before each run, outside of the measured time.
pub(crate) enum RacerSetup {
    Nothing,
    /// Restores the contents of these files.
    Restore(Vec<(PathBuf, Vec<u8>)>),
    Append(PathBuf, Vec<u8>),
    /// Deletes a file, if it exists.
    Remove(PathBuf),
}

/// How a run is proven to have done its work.
pub(crate) enum RacerProof {
    Exit(i32),
    /// It blocked, and the counter was incremented.
    Charged(IterationCounter),
    /// The same, and this file grew by one byte, which its gate appends.
    Held(IterationCounter, PathBuf),
    /// It exited with 0, and each of these files grew by this many bytes, one per run of its command.
    Ran(Vec<PathBuf>, u64),
}

pub(crate) enum IterationCounter {
    /// A file that contains only the number.
    CountFile(PathBuf),
    ProgressFile(PathBuf),
}

impl BenchRacer {
    pub(crate) fn new(name: &str, errand: RacerCommand, proof: RacerProof) -> Self {
        let (before, pace, laps) =
            (RacerSetup::Nothing, RacerPace::EveryRound, RacerTimes::new(name));
        Self { command: errand, setup: before, proof, pace, times: laps }
    }

    pub(crate) fn is_judged(&self) -> bool {
        self.pace == RacerPace::EveryRound
    }

    pub(crate) fn clear_times(&mut self) {
        self.times.times.clear();
    }

    fn run_once(&mut self) -> Result<Duration> {
        match &self.setup {
            RacerSetup::Nothing => {}
            RacerSetup::Restore(files) => {
                for (path, bytes) in files {
                    disk::write_with_parents(path, bytes)?;
                }
            }
            RacerSetup::Append(path, bytes) => disk::append(path, bytes)?,
            RacerSetup::Remove(path) => {
                if path.exists() {
                    disk::remove_file(path)?;
                }
            }
        }
        match &self.proof {
            RacerProof::Exit(expected) => {
                let (took, code) = shell::time_command(&self.command)?;
                ensure!(code == *expected, "it exited with {code} instead of {expected}");
                Ok(took)
            }
            RacerProof::Charged(counter) => time_charged(&self.command, counter),
            RacerProof::Held(counter, ran) => {
                let before = disk::file_length(ran)?;
                let took = time_charged(&self.command, counter)?;
                let times = disk::file_length(ran)? - before;
                ensure!(times == 1, "its gate ran {times} times instead of once");
                Ok(took)
            }
            RacerProof::Ran(counters, times) => {
                let lengths = || counters.iter().map(|path| disk::file_length(path));
                let before = lengths().collect::<Result<Vec<_>>>()?;
                let (took, code) = shell::time_command(&self.command)?;
                ensure!(code == 0, "it exited with {code} instead of 0");
                for (before, after) in before.into_iter().zip(lengths()) {
                    let ran = after? - before;
                    ensure!(ran == *times, "a command ran {ran} times instead of {times}");
                }
                Ok(took)
            }
        }
    }
}

/// Times a stop that must block and be counted.
fn time_charged(command: &RacerCommand, counter: &IterationCounter) -> Result<Duration> {
    let before = counter.read()?;
    let (took, code) = shell::time_command(command)?;
    ensure!(code == 2, "it exited with {code} and did not block");
    let after = counter.read()?;
    ensure!(after == before + 1, "its counter went from {before} to {after}");
    Ok(took)
}

impl IterationCounter {
    fn read(&self) -> Result<u64> {
        match self {
            Self::CountFile(path) => Ok(disk::read_text(path)?.trim().parse()?),
            Self::ProgressFile(path) => {
                let text = disk::read_text(path)?;
                let line = text.lines().find_map(|line| line.strip_prefix("- Iteration: "));
                Ok(line.context("the progress file has no counter")?.trim().parse()?)
            }
        }
    }
}

pub(crate) fn median_time(racers: &[BenchRacer], name: &str) -> f64 {
    let racer = racers.iter().find(|racer| racer.times.name == name);
    racer.map_or(f64::NAN, |racer| racer.times.percentile(50))
}

pub(crate) fn time_racers(racers: &mut [BenchRacer], rounds: u32) -> Result<()> {
    let warm_up = (rounds / 10).clamp(*WARM_UP.start(), *WARM_UP.end());
    for round in 0..warm_up + rounds {
        for racer in racers.iter_mut() {
            if racer.pace == RacerPace::EveryTenth && round % 10 != 0 {
                continue;
            }
            let took =
                racer.run_once().with_context(|| format!("{}, round {round}", racer.times.name))?;
            if round >= warm_up {
                racer.times.times.push(took);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_durations() {
        let mut laps = RacerTimes::new("any");
        assert!(laps.percentile(50).is_nan());
        laps.times = [5, 1, 4, 2, 3].map(Duration::from_millis).to_vec();
        let found = [0, 50, 90, 100].map(|percent| laps.percentile(percent).round());
        assert_eq!(found.map(|time| time.to_string()), ["1", "3", "4", "5"]);
    }
}
