//! Benchmarks of ralph against well-known commands.

mod budget;
mod deck;
mod fingerprint;
mod gates;
mod hook_racers;
mod hook_stage;
mod journal_corpus;
mod large_transcript;
mod large_tree;
mod memory;
mod proof;
mod race;
mod recall;
mod run;
mod served_board;
mod table;

pub(crate) use gates::approve_policy;
pub(crate) use hook_stage::client_fixtures;

use crate::e2e::install;
use crate::{
    BenchOutputOptions, DeckBenchOptions, GatesBenchOptions, GatesBenchPart, HookBenchOptions,
    MemoryBenchOptions, ProofBenchOptions, RecallBenchOptions, RunBenchOptions, print, shell,
};
use anyhow::{Result, bail};
use budget::BudgetResult;
use race::{BenchRacer, RacerTimes};

/// Number of measurements before a budget counts as missed. Other load on the machine comes and goes; a real regression
/// shows in every measurement.
const MEASUREMENTS: usize = 5;

/// Commands that are timed together, and the budgets they have to keep.
struct BenchRace {
    racers: Vec<BenchRacer>,
    rounds: u32,
    /// The name of the command that ratios refer to.
    base: String,
    judge: fn(&[BenchRacer]) -> Vec<BudgetResult>,
}

pub(crate) fn bench_hook(options: &HookBenchOptions) -> Result<()> {
    let stage = hook_stage::HookStage::new(shell::build_program("release", "ralph")?)?;
    let racers = hook_racers::all_racers(&stage)?;
    let base = hook_racers::TRUE.to_owned();
    let contest = BenchRace { racers, rounds: options.rounds, base, judge: budget::judge_hook };
    report_budgets(&run_race(contest, &options.output)?, &options.output)
}

pub(crate) fn bench_gates(options: &GatesBenchOptions) -> Result<()> {
    let GatesBenchOptions { rounds, only, output: manner } = options;
    let mut judged = Vec::new();
    if matches!(only, None | Some(GatesBenchPart::Gates)) {
        let stage = gates::GatesStage::new(shell::build_program("release", "ralph")?)?;
        judged.extend(run_race(stage.contest(*rounds)?, manner)?);
    }
    if matches!(only, None | Some(GatesBenchPart::Fingerprint)) {
        let stage =
            fingerprint::FingerprintStage::new(shell::build_program("release", "fingerprint")?)?;
        judged.extend(run_race(stage.contest(*rounds)?, manner)?);
    }
    if matches!(only, None | Some(GatesBenchPart::LargeTree)) {
        let stage = large_tree::LargeTreeStage::new(shell::build_program("release", "ralph")?)?;
        judged.extend(run_race(stage.contest(*rounds)?, manner)?);
    }
    report_budgets(&judged, manner)
}

pub(crate) fn bench_recall(options: &RecallBenchOptions) -> Result<()> {
    let stage = recall::RecallStage::new(shell::build_program("release", "ralph")?)?;
    print::print_line(&stage.build()?);
    let mut judged = run_race(stage.contest(options.rounds)?, &options.output)?;
    judged.push(stage.questions()?);
    report_budgets(&judged, &options.output)
}

/// Whether lessons of earlier runs reach the run that needs them.
pub(crate) fn bench_memory(options: &MemoryBenchOptions) -> Result<()> {
    let ralph = memory::stage_program(options.program.as_deref())?;
    report_budgets(&memory::MemoryStage::new(ralph)?.measure()?, &options.output)
}

/// The cost of the run index, and of what the screens ask it.
pub(crate) fn bench_deck(options: &DeckBenchOptions) -> Result<()> {
    let ralph = memory::stage_program(options.program.as_deref())?;
    let stage = deck::DeckStage::new(ralph, options.lines)?;
    print::print_line(&stage.write()?);
    let built = stage.build()?;
    print::print_line(&built.summary);
    let mut judged = run_race(stage.contest(options.rounds)?, &options.output)?;
    judged.push(built.memory);
    judged.extend(stage.serve(options.rounds, &options.output)?);
    report_budgets(&judged, &options.output)
}

/// The cost of a proof, and of a stop that is held before it comes to one.
pub(crate) fn bench_proof(options: &ProofBenchOptions) -> Result<()> {
    let stage = proof::ProofStage::new(shell::build_program("release", "ralph")?)?;
    let manner = &options.output;
    // Policies are approved before the run whose agent stays held: from then on a person would have to confirm it.
    let mut judged = measure_budgets(&|| stage.measure_proof(manner), manner.check)?;
    judged.extend(run_race(stage.held_contest(options.rounds)?, manner)?);
    report_budgets(&judged, manner)
}

/// The overhead of the runner over the client alone.
pub(crate) fn bench_run(options: &RunBenchOptions) -> Result<()> {
    let client = match &options.client {
        Some(client) => client.clone(),
        None => install::installed_client(install::PINNED_VERSION)?,
    };
    let ralph = shell::build_program("release", "ralph")?;
    report_budgets(&run::measure(&ralph, &client, options)?, &options.output)
}

fn run_race(mut contest: BenchRace, manner: &BenchOutputOptions) -> Result<Vec<BudgetResult>> {
    let BenchRace { racers, rounds, base, judge } = &mut contest;
    race::time_racers(racers, *rounds)?;
    print_times(racers.iter().map(|racer| &racer.times), base, manner);
    let mut best = judge(racers);
    for _ in 1..MEASUREMENTS {
        if !manner.check || !best.iter().any(BudgetResult::is_missed) {
            break;
        }
        print::print_error_line("a budget was missed; measuring again");
        racers.retain(BenchRacer::is_judged);
        racers.iter_mut().for_each(BenchRacer::clear_times);
        race::time_racers(racers, *rounds)?;
        print_times(racers.iter().map(|racer| &racer.times), base, manner);
        best = best.into_iter().zip(judge(racers)).map(|(one, other)| one.better(other)).collect();
    }
    Ok(best)
}

type BudgetMeasurement<'a> = dyn Fn() -> Result<Vec<BudgetResult>> + 'a;

/// Measures again while a budget is missed, if budgets are checked.
fn measure_budgets(measure: &BudgetMeasurement<'_>, is_checked: bool) -> Result<Vec<BudgetResult>> {
    let mut best = measure()?;
    for _ in 1..MEASUREMENTS {
        if !is_checked || !best.iter().any(BudgetResult::is_missed) {
            break;
        }
        print::print_error_line("a budget was missed; measuring again");
        best = best.into_iter().zip(measure()?).map(|(one, other)| one.better(other)).collect();
    }
    Ok(best)
}

fn print_times<'a>(
    laps: impl Iterator<Item = &'a RacerTimes>,
    base: &str,
    manner: &BenchOutputOptions,
) {
    let print = if manner.markdown { table::render_markdown } else { table::render_aligned };
    print::print_line(&print(&laps.collect::<Vec<_>>(), base));
}

fn report_budgets(judged: &[BudgetResult], manner: &BenchOutputOptions) -> Result<()> {
    print::print_line(&table::render_budgets(judged));
    let missed = judged.iter().filter(|budget| budget.is_missed()).count();
    if manner.check && missed > 0 {
        bail!("{missed} of {} budgets missed", judged.len());
    }
    Ok(())
}
