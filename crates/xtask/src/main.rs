//! `cargo xtask`: everything about the repository that is not the product.

mod bench;
mod disk;
mod e2e;
mod fuzz;
mod picture;
mod say;
mod shell;
mod tidy;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Measure, fuzz, compare, picture and tidy ralph",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure against other commands, in one run and as ratios
    #[command(subcommand)]
    Bench(Bench),
    /// Feed the readers of foreign bytes whatever breaks them (needs g++)
    #[command(
        after_help = "Examples:\n  cargo xtask fuzz\n  cargo xtask fuzz --seconds 600 event sources"
    )]
    Fuzz(Fuzz),
    /// Play the scenarios through the simulator and through the real client, and compare
    #[command(
        after_help = "Examples:\n  cargo xtask e2e\n  cargo xtask e2e scenarios/stop/exit-2.toml\n  cargo xtask e2e --client ~/.local/bin/claude --latest\n  cargo xtask e2e --write"
    )]
    E2e(E2e),
    /// Draw what `ralph demo` prints as `docs/demo.svg`
    #[command(after_help = "Examples:\n  cargo xtask picture\n  cargo xtask picture --check")]
    Picture(Picture),
    /// Check sizes, words, names, links and that every requirement has a test
    Tidy,
}

#[derive(Subcommand)]
enum Bench {
    /// Time `ralph hook` next to `/bin/true`, `git status` and the same hook in bash and Python
    #[command(
        after_help = "Examples:\n  cargo xtask bench hook\n  cargo xtask bench hook --rounds 1000 --markdown\n  cargo xtask bench hook --check"
    )]
    Hook(Hook),
    /// Time `ralph gate run` next to `xargs -P`, and the fingerprint of a large repository next to `git status`
    #[command(
        after_help = "Examples:\n  cargo xtask bench gates\n  cargo xtask bench gates --only fingerprint --rounds 30\n  cargo xtask bench gates --check"
    )]
    Gates(Gates),
    /// Time `ralph recall` over 10,000 past records next to `/bin/true`, and ask it twenty questions
    #[command(
        after_help = "Examples:\n  cargo xtask bench recall\n  cargo xtask bench recall --rounds 200 --markdown\n  cargo xtask bench recall --check"
    )]
    Recall(Recall),
    /// Time a turn and a hand-over of `ralph run` next to the client by itself, and see what it keeps in memory
    #[command(
        after_help = "Examples:\n  cargo xtask bench run\n  cargo xtask bench run --client ~/.local/bin/claude --rounds 100\n  cargo xtask bench run --check"
    )]
    Run(Drive),
}

#[derive(Args)]
struct Drive {
    /// How many turns are timed; dear things are done less often
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(10..))]
    rounds: u32,
    /// This client instead of the pinned one from the package registry
    #[arg(long, value_name = "PROGRAM")]
    client: Option<PathBuf>,
    #[command(flatten)]
    manner: Manner,
}

#[derive(Args)]
struct Recall {
    /// How often each command runs
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(5..))]
    rounds: u32,
    #[command(flatten)]
    manner: Manner,
}

#[derive(Args)]
struct Hook {
    /// How often each cheap command runs; dear ones run less
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(20..))]
    rounds: u32,
    #[command(flatten)]
    manner: Manner,
}

#[derive(Args)]
struct Gates {
    /// How often each command runs
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(5..))]
    rounds: u32,
    /// One part alone
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    #[command(flatten)]
    manner: Manner,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Gates,
    Fingerprint,
}

#[derive(Args)]
struct Manner {
    /// Print Markdown, for the README
    #[arg(long)]
    markdown: bool,
    /// Fail when a budget is missed in every one of five looks
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
struct Fuzz {
    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
    /// Only these targets; all of them by default
    #[arg(value_name = "TARGET", value_parser = fuzz::TARGETS)]
    targets: Vec<String>,
}

#[derive(Args)]
struct E2e {
    /// Only these scenarios; all of them by default
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// This client instead of the pinned one from the package registry
    #[arg(long, value_name = "PROGRAM")]
    client: Option<PathBuf>,
    /// Then the newest client as well, if it can be had; what it does differently is told, and no failure
    #[arg(long)]
    latest: bool,
    /// Write the table in `docs/simulator.md`
    #[arg(long)]
    write: bool,
}

#[derive(Args)]
struct Picture {
    /// Fail when the picture shows another text than the demo prints; times may differ
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Bench(Bench::Hook(options)) => bench::hook(&options),
        Verb::Bench(Bench::Gates(options)) => bench::gates(&options),
        Verb::Bench(Bench::Recall(options)) => bench::recall(&options),
        Verb::Bench(Bench::Run(options)) => bench::run(&options),
        Verb::E2e(options) => e2e::run(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Picture(options) => picture::run(&options),
        Verb::Tidy => tidy::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::err(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
