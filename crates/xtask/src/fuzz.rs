//! Runs libFuzzer on a stable toolchain, with the compiler's own coverage pass and the runtime from `libfuzzer-sys`.

use crate::{FuzzOptions, disk, print, shell};
use anyhow::{Context, Result, bail, ensure};
use ralph_sys::parallel::map_with_workers;
use std::path::{Path, PathBuf};
use std::process::Stdio;

pub(crate) const TARGETS: [&str; 11] = [
    "event",
    "sources",
    "transcript",
    "records",
    "text",
    "findings",
    "lexer",
    "hooks",
    "scenario",
    "stream_line",
    "judge_answer",
];

/// Passed in the environment so that they replace the flags of `.cargo/config.toml`, because the fuzzer's C++ runtime is
/// linked dynamically.
const FLAGS: &str = "-C passes=sancov-module \
    -C llvm-args=-sanitizer-coverage-level=4 \
    -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
    -C llvm-args=-sanitizer-coverage-pc-table \
    -C llvm-args=-sanitizer-coverage-trace-compares \
    --cfg fuzzing";

/// Longer inputs find nothing more, but take longer.
const LONGEST: usize = 16 * 1024;
const SECONDS_PER_INPUT: u32 = 10;

pub(crate) fn run(options: &FuzzOptions) -> Result<()> {
    ensure!(
        shell::find_program("g++").is_some(),
        "fuzzing needs g++ for libFuzzer's runtime; install it first"
    );
    let directory = build_targets()?;
    if options.build_only {
        return Ok(());
    }
    let named: Vec<_> = options.targets.iter().map(String::as_str).collect();
    let targets = if named.is_empty() { TARGETS.to_vec() } else { named };
    let results =
        map_with_workers(targets.iter().collect(), shell::cores(), |target| -> Result<()> {
            let corpus = shell::repository_root().join("fuzz/corpus").join(target);
            fill_corpus(target, &corpus)?;
            let executions = run_target(&directory.join(target), &corpus, options.seconds)?;
            print::print_line(&format!(
                "{target}: {executions} executions in {} s without a failure",
                options.seconds
            ));
            Ok(())
        });
    results.into_iter().collect()
}

fn build_targets() -> Result<PathBuf> {
    let target_directory = shell::target_directory().join("fuzz");
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"]);
    cargo.arg(&target_directory).env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS");
    ensure!(cargo.status()?.success(), "the fuzz targets do not build");
    let version = shell::command_output(shell::command("rustc").arg("-vV"))?;
    let version = String::from_utf8(version)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(target_directory.join(host.context("rustc did not report its host")?).join("release"))
}

/// Fills the corpus with recorded events, transcripts and reports, and with the files in `fuzz/seeds`.
fn fill_corpus(target: &str, corpus: &Path) -> Result<()> {
    disk::create_directory(corpus)?;
    let recorded = shell::repository_root().join("fixtures/hosts/claude-code");
    let mut seeds = Vec::new();
    for version in disk::list(&recorded)? {
        match target {
            "event" | "hooks" => seeds.extend(disk::list(&version.join("stdin"))?),
            "transcript" | "text" => seeds.extend(disk::list(&version.join("transcripts"))?),
            _ => {}
        }
    }
    let written_for_it = shell::repository_root().join("fuzz/seeds").join(target);
    if written_for_it.is_dir() {
        seeds.extend(disk::list(&written_for_it)?);
    }
    if target == "stream_line" {
        seeds.extend(disk::list(
            &shell::repository_root().join("crates/ralph-host/fixtures/stream"),
        )?);
    }
    if target == "findings" {
        add_report_seeds(corpus)?;
    }
    if target == "scenario" {
        for directory in ["stop", "tools", "session", "agents"] {
            seeds.extend(disk::list(&shell::repository_root().join("scenarios").join(directory))?);
        }
    }
    for seed in seeds {
        let name = seed.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = disk::read(&seed)?;
        if bytes.len() <= LONGEST {
            disk::write_with_parents(&corpus.join(format!("seed-{name}")), &bytes)?;
            continue;
        }
        let lines =
            bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.len() <= LONGEST);
        for (number, line) in lines.enumerate() {
            disk::write_with_parents(&corpus.join(format!("seed-{name}-{number}")), line)?;
        }
    }
    Ok(())
}

/// Each report is preceded by a line with its format, as the target expects.
fn add_report_seeds(corpus: &Path) -> Result<()> {
    for directory in disk::list(&shell::repository_root().join("fixtures/reports"))? {
        let format = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !directory.is_dir() {
            continue;
        }
        for report in disk::list(&directory)? {
            let name = report.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let seed = [format.as_bytes(), b"\n", &disk::read(&report)?].concat();
            disk::write_with_parents(&corpus.join(format!("seed-{format}-{name}")), &seed)?;
        }
    }
    Ok(())
}

fn run_target(program: &Path, corpus: &Path, seconds: u32) -> Result<u64> {
    let target = program.file_name().unwrap_or_default();
    let artifacts = shell::repository_root().join("fuzz/artifacts").join(target);
    disk::create_directory(&artifacts)?;
    let mut fuzzer = shell::command(program);
    fuzzer.arg(format!("-max_total_time={seconds}"));
    fuzzer.arg(format!("-timeout={SECONDS_PER_INPUT}"));
    fuzzer.arg(format!("-max_len={LONGEST}"));
    fuzzer.args(["-rss_limit_mb=2048", "-print_final_stats=1"]);
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display()));
    let ran = fuzzer.arg(corpus).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        let input = said.lines().find_map(|line| line.split_once("Test unit written to "));
        let input = input.map_or("(no input was saved)", |(_, path)| path);
        let why = said.lines().filter(|line| !line.starts_with('#') && !line.contains("NEW_FUNC"));
        let why = why.take(40).collect::<Vec<_>>().join("\n");
        bail!("{} failed on `{input}`\n{why}", target.display());
    }
    let executions =
        said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    Ok(executions.context("the fuzzer did not report the number of executions")?.trim().parse()?)
}
