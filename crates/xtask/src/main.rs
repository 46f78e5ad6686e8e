//! `cargo xtask`: the repository's developer tasks.

mod bench;
mod browser;
mod cheats;
mod disk;
mod e2e;
mod fuzz;
mod history;
mod import_survey;
mod picture;
mod print;
mod real;
mod shell;
mod thorough;
mod tidy;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Benchmarks, fuzzing, end-to-end tests and checks of the repository",
    arg_required_else_help = true
)]
struct XtaskCli {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Benchmark ralph against other commands, as ratios within one run
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Check the pages of `ralph serve` in Chromium (needs node and chromium)
    #[command(
        after_help = "Examples:\n  cargo xtask browser\n  cargo xtask browser --program target/debug/ralph"
    )]
    Browser(BrowserOptions),
    /// Play the table of cheats and honest work, and write the results
    #[command(after_help = "Examples:\n  cargo xtask cheats\n  cargo xtask cheats prove,shell")]
    Cheats(CheatsOptions),
    /// Fuzz the parsers of foreign input (needs g++)
    #[command(
        after_help = "Examples:\n  cargo xtask fuzz\n  cargo xtask fuzz --seconds 600 event sources"
    )]
    Fuzz(FuzzOptions),
    /// Run the scenarios in the simulator and in the real client, and compare
    #[command(
        after_help = "Examples:\n  cargo xtask e2e\n  cargo xtask e2e scenarios/stop/exit-2.toml\n  cargo xtask e2e --client ~/.local/bin/claude --latest\n  cargo xtask e2e --write"
    )]
    E2e(E2eOptions),
    /// Replay git histories through the checks that need no gate, and count holds
    #[command(
        after_help = "Examples:\n  cargo xtask history ../click\n  cargo xtask history ../click ../attrs --commits 500 --json"
    )]
    History(HistoryOptions),
    /// Parse every loop file below directories as `ralph import` does, and count
    #[command(
        after_help = "Examples:\n  cargo xtask import ../smart-ralph\n  cargo xtask import ../a ../b --markdown\n  cargo xtask import ../smart-ralph --reasons"
    )]
    Import(ImportSurveyOptions),
    /// Render `ralph demo`, `ralph prove` and web pages as pictures in `docs`
    #[command(after_help = "Examples:\n  cargo xtask picture\n  cargo xtask picture --check")]
    Picture(PictureOptions),
    /// Replay bug fixes of published projects, and write the results
    #[command(
        after_help = "Examples:\n  cargo xtask real --list\n  cargo xtask real shell-quote h11\n  cargo xtask real --ci"
    )]
    Real(RealOptions),
    /// Test with many more random cases, crashes and fuzzing than CI has time for
    #[command(
        after_help = "Examples:\n  cargo xtask thorough\n  cargo xtask thorough --fuzz-seconds 600"
    )]
    Thorough(ThoroughOptions),
    /// Check sizes, words, names and links, and that each requirement has a test
    Tidy,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Time `ralph hook` against `/bin/true`, `git status` and scripts
    #[command(
        after_help = "Examples:\n  cargo xtask bench hook\n  cargo xtask bench hook --rounds 1000 --markdown\n  cargo xtask bench hook --check"
    )]
    Hook(HookBenchOptions),
    /// Time the run index over 1,000,000 journal lines against `wc -l` (needs jq)
    #[command(
        after_help = "Examples:\n  cargo xtask bench deck\n  cargo xtask bench deck --rounds 5 --markdown\n  cargo xtask bench deck --check"
    )]
    Deck(DeckBenchOptions),
    /// Time gates against `xargs -P` and fingerprints against `git status`
    #[command(
        after_help = "Examples:\n  cargo xtask bench gates\n  cargo xtask bench gates --only fingerprint --rounds 30\n  cargo xtask bench gates --check"
    )]
    Gates(GatesBenchOptions),
    /// Time a proof, and a held stop, against one run of the gates (needs node)
    #[command(
        after_help = "Examples:\n  cargo xtask bench proof\n  cargo xtask bench proof --rounds 11 --markdown\n  cargo xtask bench proof --check"
    )]
    Proof(ProofBenchOptions),
    /// Time `ralph recall` over 10,000 records, and check twenty queries
    #[command(
        after_help = "Examples:\n  cargo xtask bench recall\n  cargo xtask bench recall --rounds 200 --markdown\n  cargo xtask bench recall --check"
    )]
    Recall(RecallBenchOptions),
    /// Count blocks of a scripted agent with and without lessons of earlier runs
    #[command(
        after_help = "Examples:\n  cargo xtask bench memory\n  cargo xtask bench memory --program target/debug/ralph\n  cargo xtask bench memory --check"
    )]
    Memory(MemoryBenchOptions),
    /// Time turns and hand-overs of `ralph run`, and measure its memory
    #[command(
        after_help = "Examples:\n  cargo xtask bench run\n  cargo xtask bench run --client ~/.local/bin/claude --rounds 100\n  cargo xtask bench run --check"
    )]
    Run(RunBenchOptions),
}

#[derive(Args)]
struct BrowserOptions {
    /// Use this program instead of building one
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Only write the pictures of pages in `docs`
    #[arg(long)]
    pictures: bool,
    /// With `--pictures`, fail if a page looks different now instead of writing
    #[arg(long, requires = "pictures")]
    check: bool,
}

#[derive(Args)]
struct ImportSurveyOptions {
    /// Read the files below these directories
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Print a Markdown table with one row per directory
    #[arg(long, conflicts_with = "reasons")]
    markdown: bool,
    /// List every line that was not understood, with the reason
    #[arg(long)]
    reasons: bool,
}

#[derive(Args)]
struct CheatsOptions {
    /// Play only these modes and tables, separated by commas; the other results stay
    #[arg(value_name = "NAMES")]
    only: Option<String>,
}

#[derive(Args)]
struct RunBenchOptions {
    /// Number of timed turns; expensive parts run less often
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(10..))]
    rounds: u32,
    /// Use this client instead of the pinned one from the package registry
    #[arg(long, value_name = "PROGRAM")]
    client: Option<PathBuf>,
    #[command(flatten)]
    output: BenchOutputOptions,
}

#[derive(Args)]
struct ProofBenchOptions {
    /// Number of held stops; the proof, which takes long, is made once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..))]
    rounds: u32,
    #[command(flatten)]
    output: BenchOutputOptions,
}

#[derive(Args)]
struct RecallBenchOptions {
    /// Number of runs per command
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(5..))]
    rounds: u32,
    #[command(flatten)]
    output: BenchOutputOptions,
}

#[derive(Args)]
struct MemoryBenchOptions {
    /// Use this program instead of building one
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    #[command(flatten)]
    output: BenchOutputOptions,
}

#[derive(Args)]
struct DeckBenchOptions {
    /// Number of journal lines
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10_000..=2_000_000))]
    lines: u64,
    /// Use this program instead of building one
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Number of runs per command
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(3..))]
    rounds: u32,
    #[command(flatten)]
    output: BenchOutputOptions,
}

#[derive(Args)]
struct HookBenchOptions {
    /// Number of runs per cheap command; expensive ones run less often
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(20..))]
    rounds: u32,
    #[command(flatten)]
    output: BenchOutputOptions,
}

#[derive(Args)]
struct GatesBenchOptions {
    /// Number of runs per command
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(5..))]
    rounds: u32,
    /// Run only one part
    #[arg(long, value_name = "PART")]
    only: Option<GatesBenchPart>,
    #[command(flatten)]
    output: BenchOutputOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GatesBenchPart {
    Gates,
    Fingerprint,
    LargeTree,
}

#[derive(Args)]
struct BenchOutputOptions {
    /// Print Markdown, for docs/benchmarks.md
    #[arg(long)]
    markdown: bool,
    /// Fail if a budget is missed in all of five measurements
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
struct FuzzOptions {
    /// Seconds per target
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
    /// Build the targets and run none
    #[arg(long)]
    build_only: bool,
    /// Only these targets; all of them by default
    #[arg(value_name = "TARGET", value_parser = fuzz::TARGETS)]
    targets: Vec<String>,
}

#[derive(Args)]
struct HistoryOptions {
    /// Repositories, bare or with a work tree; they are cloned and not changed
    #[arg(value_name = "REPO", required = true)]
    repositories: Vec<PathBuf>,
    /// Number of commits of each main line, the newest ones
    #[arg(long, value_name = "N", default_value_t = 200)]
    commits: usize,
    /// Print one line of JSON per repository, with all findings
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct E2eOptions {
    /// Only these scenarios; all of them by default
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// Use this client instead of the pinned one from the package registry
    #[arg(long, value_name = "PROGRAM")]
    client: Option<PathBuf>,
    /// Use this ralph instead of building one
    #[arg(long, value_name = "PROGRAM")]
    ralph: Option<PathBuf>,
    /// Also try the newest client, if available; differences are only reported
    #[arg(long)]
    latest: bool,
    /// Write the table in `docs/simulator.md`
    #[arg(long)]
    write: bool,
    /// Only the sessions of judges
    #[arg(long, conflicts_with_all = ["scenarios", "write", "latest"])]
    judges: bool,
}

#[derive(Args)]
struct RealOptions {
    /// Only these projects; all of them by default. The other results stay
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the projects and their fixes, and replay nothing
    #[arg(long)]
    list: bool,
    /// Replay a small share, and compare with the record instead of writing it
    #[arg(long)]
    ci: bool,
    /// Use this ralph instead of building one
    #[arg(long, value_name = "PROGRAM")]
    ralph: Option<PathBuf>,
}

#[derive(Args)]
struct ThoroughOptions {
    /// Seconds per fuzz target
    #[arg(long, value_name = "N", default_value_t = 60)]
    fuzz_seconds: u32,
}

#[derive(Args)]
struct PictureOptions {
    /// Fail if a picture differs from a new run, except for times
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let done = match XtaskCli::parse().command {
        XtaskCommand::Bench(BenchCommand::Hook(options)) => bench::bench_hook(&options),
        XtaskCommand::Bench(BenchCommand::Deck(options)) => bench::bench_deck(&options),
        XtaskCommand::Bench(BenchCommand::Gates(options)) => bench::bench_gates(&options),
        XtaskCommand::Bench(BenchCommand::Proof(options)) => bench::bench_proof(&options),
        XtaskCommand::Bench(BenchCommand::Recall(options)) => bench::bench_recall(&options),
        XtaskCommand::Bench(BenchCommand::Memory(options)) => bench::bench_memory(&options),
        XtaskCommand::Bench(BenchCommand::Run(options)) => bench::bench_run(&options),
        XtaskCommand::Browser(options) => browser::run(&options),
        XtaskCommand::Cheats(options) => cheats::run(&options),
        XtaskCommand::E2e(options) => e2e::run(&options),
        XtaskCommand::Fuzz(options) => fuzz::run(&options),
        XtaskCommand::History(options) => history::run(&options),
        XtaskCommand::Import(options) => import_survey::run(&options),
        XtaskCommand::Picture(options) => picture::run(&options),
        XtaskCommand::Real(options) => real::run(&options),
        XtaskCommand::Thorough(options) => thorough::run(&options),
        XtaskCommand::Tidy => tidy::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print::print_error_line(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
