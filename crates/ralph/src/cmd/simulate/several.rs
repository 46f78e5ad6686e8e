//! Plays several scenarios: prints one line each, and a total.

use super::play::{self, Played, World};
use super::show::Telling;
use super::{SummaryJson, YOURS};
use crate::cmd::print_json;
use crate::report::Failure;
use crate::term::{self, BAD, GOOD, paint};
use crate::wording::safe;
use crate::{FAILURE, SUCCESS, story};
use ralph_sys::clock::Stopwatch;
use ralph_sys::fs::{self, Kind};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The limit on the number of scenarios.
const MOST: usize = 10_000;
const DEEPEST: usize = 32;

/// The scenarios on the command line. A single file is shown in full.
pub(super) enum Named {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

#[derive(Serialize)]
struct ErrorJson {
    kind: &'static str,
    v: u8,
    path: String,
    error: String,
}

/// Expands each directory to the scenarios in it, sorted by path.
pub(super) fn named(paths: &[PathBuf]) -> Result<Named, Failure> {
    if let [path] = paths
        && !fs::is_directory(path)
    {
        return Ok(Named::One(path.clone()));
    }
    let mut all = Vec::new();
    for path in paths {
        if !fs::is_directory(path) {
            all.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        gather(path, DEEPEST, &mut found)?;
        if found.is_empty() {
            let what = format!("there is no scenario in `{}`", path.display());
            return Err(Failure::new(&what, "scenarios are files whose names end in `.toml`"));
        }
        found.sort();
        all.append(&mut found);
    }
    Ok(Named::Several(all))
}

/// Skips hidden files and symbolic links.
fn gather(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for name in fs::list(directory, MOST)? {
        let path = directory.join(&name);
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        match fs::stat_link(&path).map(|stat| stat.kind) {
            Some(Kind::Directory) if depth > 0 => gather(&path, depth - 1, found)?,
            Some(Kind::File) if path.extension().is_some_and(|name| name == "toml") => {
                found.push(path);
            }
            Some(Kind::Directory | Kind::File | Kind::Symlink | Kind::Other) | None => {}
        }
        if found.len() > MOST {
            let what = format!("there are more than {MOST} scenarios in `{}`", directory.display());
            return Err(Failure::new(&what, "name fewer of them"));
        }
    }
    Ok(())
}

pub(super) fn play(world: &World<'_>, paths: &[PathBuf]) -> Result<u8, Failure> {
    let watch = Stopwatch::start();
    let (mut failed, mut has_mismatches) = (0, false);
    for path in paths {
        let played = play::one(world, path, Telling::Nothing);
        if world.cancel.is_wished() {
            return Ok(super::INTERRUPTED);
        }
        match &played {
            Ok(played) if played.came_true() => {}
            Ok(_) => {
                failed += 1;
                has_mismatches = true;
            }
            Err(_) => failed += 1,
        }
        if world.args.json {
            print(path, played)?;
        } else {
            tell(world, path, played)?;
        }
    }
    if !world.args.json {
        let ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
        let total = story::many(paths.len() as u64, "scenario");
        let passed = paths.len() - failed;
        let took = story::moment(ms);
        let gap = if world.args.quiet && failed == 0 { "" } else { "\n" };
        term::out(&format!("{gap}{total} · {passed} passed · {failed} failed · {took}\n"))?;
        if has_mismatches && world.given.is_any() {
            term::out(YOURS)?;
        }
    }
    Ok(if failed == 0 { SUCCESS } else { FAILURE })
}

fn print(path: &Path, played: Result<Played, Failure>) -> Result<(), Failure> {
    match played {
        Ok(played) => {
            for notice in &played.notices {
                term::err(&format!("notice: {}: {notice}\n", safe(&path.display().to_string())));
            }
            print_json(&SummaryJson::of(path, &played))?;
        }
        Err(failure) => {
            let (path, error) = (path.display().to_string(), failure.what().to_owned());
            print_json(&ErrorJson { kind: "error", v: 1, path, error })?;
            failure.print();
        }
    }
    Ok(())
}

fn tell(world: &World<'_>, path: &Path, played: Result<Played, Failure>) -> Result<(), Failure> {
    let shown = safe(&path.display().to_string());
    match played {
        Ok(played) => {
            let mut out = String::new();
            if !played.came_true() {
                out.push_str(&format!("{} {shown}\n", paint(BAD, "✗")));
                for line in played.story.mismatches(&played.mismatches) {
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
            term::out(&format!("{} {shown}: {}\n", paint(BAD, "✗"), safe(failure.what())))?;
            failure.print();
        }
    }
    Ok(())
}
