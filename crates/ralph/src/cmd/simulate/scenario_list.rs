//! Plays several scenarios: prints one line each, and a total.

use super::built_in;
use super::scenario_play::{self, PlayedScenario, SimulateContext};
use super::simulate_output::OutputMode;
use super::{GIVEN_HOOKS_NOTE, ScenarioSummaryJson};
use crate::cmd::print_json;
use crate::failure::CommandFailure;
use crate::term::{self, BAD, DIM, GOOD, paint};
use crate::{FAILURE, SUCCESS};
use ralph_deck::wording::{count_noun, precise_duration, safe_line};
use ralph_sys::clock::Stopwatch;
use ralph_sys::fs::{self, FileKind};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The limit on the number of scenarios.
const MAX_SCENARIOS: usize = 10_000;
const MAX_DEPTH: usize = 32;

/// The scenarios on the command line. A single file is shown in full.
pub(super) enum ScenarioSelection {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

#[derive(Serialize)]
struct ScenarioErrorJson {
    kind: &'static str,
    v: u8,
    path: String,
    error: String,
}

#[derive(Serialize)]
struct SkippedScenarioJson {
    kind: &'static str,
    v: u8,
    path: String,
    why: String,
}

/// Expands each directory to the scenarios in it, sorted by path. Without a path, the built-in ones are selected.
pub(super) fn select_scenarios(paths: &[PathBuf]) -> Result<ScenarioSelection, CommandFailure> {
    if let [path] = paths
        && !fs::is_directory(path)
    {
        return Ok(ScenarioSelection::One(path.clone()));
    }
    if paths.is_empty() {
        return Ok(ScenarioSelection::Several(built_in::built_in_paths()));
    }
    let mut all = Vec::new();
    for path in paths {
        if !fs::is_directory(path) {
            all.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        collect_scenarios(path, MAX_DEPTH, &mut found)?;
        if found.is_empty() {
            let what = format!("there is no scenario in `{}`", path.display());
            return Err(CommandFailure::new(
                &what,
                "scenarios are files whose names end in `.toml`",
            ));
        }
        found.sort();
        all.append(&mut found);
    }
    Ok(ScenarioSelection::Several(all))
}

/// Skips hidden files and symbolic links.
fn collect_scenarios(
    directory: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> Result<(), CommandFailure> {
    for name in fs::list(directory, MAX_SCENARIOS)? {
        let path = directory.join(&name);
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        match fs::stat_no_follow(&path).map(|stat| stat.kind) {
            Some(FileKind::Directory) if depth > 0 => collect_scenarios(&path, depth - 1, found)?,
            Some(FileKind::File) if path.extension().is_some_and(|name| name == "toml") => {
                found.push(path);
            }
            Some(FileKind::Directory | FileKind::File | FileKind::Symlink | FileKind::Other)
            | None => {}
        }
        if found.len() > MAX_SCENARIOS {
            let what = format!(
                "there are more than {MAX_SCENARIOS} scenarios in `{}`",
                directory.display()
            );
            return Err(CommandFailure::new(&what, "name fewer of them"));
        }
    }
    Ok(())
}

pub(super) fn play_all(
    world: &SimulateContext<'_>,
    paths: &[PathBuf],
) -> Result<u8, CommandFailure> {
    let watch = Stopwatch::start();
    let (mut failed, mut skipped, mut has_mismatches) = (0, 0, false);
    for path in paths {
        // A directory may contain scenarios for several players.
        if let Some(why) = scenario_play::other_player_of(world, path) {
            skipped += 1;
            print_skipped(world, path, &why)?;
            continue;
        }
        let played = scenario_play::play_scenario(world, path, OutputMode::Quiet);
        if world.cancel.is_cancelled() {
            return Ok(super::INTERRUPTED);
        }
        match &played {
            Ok(played) if played.meets_expectations() => {}
            Ok(_) => {
                failed += 1;
                has_mismatches = true;
            }
            Err(_) => failed += 1,
        }
        if world.args.json {
            print_result_json(path, played)?;
        } else {
            print_result(world, path, played)?;
        }
    }
    if !world.args.json {
        let ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
        let total = count_noun(paths.len(), "scenario");
        let passed = paths.len() - failed - skipped;
        let skipped = if skipped == 0 { String::new() } else { format!(" · {skipped} skipped") };
        let took = precise_duration(ms);
        let gap = if world.args.quiet && failed == 0 { "" } else { "\n" };
        term::out(&format!(
            "{gap}{total} · {passed} passed · {failed} failed{skipped} · {took}\n"
        ))?;
        if has_mismatches && world.hook_overrides.is_any() {
            term::out(GIVEN_HOOKS_NOTE)?;
        }
    }
    Ok(if failed == 0 { SUCCESS } else { FAILURE })
}

fn print_skipped(
    world: &SimulateContext<'_>,
    path: &Path,
    why: &CommandFailure,
) -> Result<(), CommandFailure> {
    if world.args.json {
        let (path, why) = (path.display().to_string(), why.message().to_owned());
        print_json(&SkippedScenarioJson { kind: "skipped", v: 1, path, why })?;
    } else if !world.args.quiet {
        let shown = safe_line(&path.display().to_string());
        let mark = paint(DIM, "·");
        term::out(&format!("{mark} {shown}: skipped: {}\n", safe_line(why.message())))?;
    }
    Ok(())
}

fn print_result_json(
    path: &Path,
    played: Result<PlayedScenario, CommandFailure>,
) -> Result<(), CommandFailure> {
    match played {
        Ok(played) => {
            for notice in &played.notices {
                term::err(&format!(
                    "notice: {}: {notice}\n",
                    safe_line(&path.display().to_string())
                ));
            }
            print_json(&ScenarioSummaryJson::from_played(path, &played))?;
        }
        Err(failure) => {
            let (path, error) = (path.display().to_string(), failure.message().to_owned());
            print_json(&ScenarioErrorJson { kind: "error", v: 1, path, error })?;
            failure.print();
        }
    }
    Ok(())
}

fn print_result(
    world: &SimulateContext<'_>,
    path: &Path,
    played: Result<PlayedScenario, CommandFailure>,
) -> Result<(), CommandFailure> {
    let shown = safe_line(&path.display().to_string());
    match played {
        Ok(played) => {
            let mut out = String::new();
            if !played.meets_expectations() {
                out.push_str(&format!("{} {shown}\n", paint(BAD, "✗")));
                for line in played.view.mismatches(&played.mismatches) {
                    out.push_str(&format!("    {line}\n"));
                }
                for notice in &played.notices {
                    out.push_str(&format!("    notice: {notice}\n"));
                }
            } else if !world.args.quiet {
                out.push_str(&format!("{} {shown}\n", paint(GOOD, "✓")));
            }
            if let Some(root) = &played.kept {
                out.push_str(&format!("    the files are in {}\n", root.display()));
            }
            term::out(&out)?;
        }
        Err(failure) => {
            term::out(&format!("{} {shown}: {}\n", paint(BAD, "✗"), safe_line(failure.message())))?;
            failure.print();
        }
    }
    Ok(())
}
