//! Checks the pages of `ralph serve` in a real browser, and takes the pictures of them for the documentation.

mod sample_home;
mod sample_project;

use crate::{BrowserOptions, disk, print, shell};
use anyhow::{Context, Result, bail};
use sample_home::{write_hostile_run, write_many_runs, write_sample_board};
use sample_project::{CHANGED_RUN, write_compared_runs};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The driver of the browser and the accessibility rules, both without dependencies.
const TOOLS: [&str; 2] = ["playwright-core@1.65.1", "axe-core@4.14.0"];
const TOOLS_NAME: &str = "browser-playwright-1.65.1-axe-4.14.0";
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const MANY_RUNS: u32 = 5_000;
const TIMEOUT: Duration = Duration::from_mins(5);

pub(crate) fn run(options: &BrowserOptions) -> Result<()> {
    if options.pictures {
        return take_pictures(options.program.as_deref());
    }
    let scratch = scratch_directory()?;
    let home = |name: &str| -> Result<PathBuf> {
        let path = scratch.path().join(name);
        disk::create_directory(&path)?;
        Ok(path)
    };
    let (empty, board, hostile, many) =
        (home("empty")?, home("board")?, home("hostile")?, home("many")?);
    write_sample_board(&board)?;
    write_hostile_run(&hostile)?;
    write_many_runs(&many, MANY_RUNS)?;
    let (compared, project) = (home("compared")?, home("project")?);
    write_compared_runs(&compared, &project)?;
    let config = json!({
        "homes": { "empty": empty, "board": board, "hostile": hostile, "many": many, "compared": compared },
        "many": MANY_RUNS,
        "changed": CHANGED_RUN,
    });
    drive_browser(scratch.path(), options.program.as_deref(), config)
}

/// Writes `docs/board-light.png` and its peers.
pub(crate) fn take_pictures(program: Option<&Path>) -> Result<()> {
    let scratch = scratch_directory()?;
    let board = scratch.path().join("board");
    disk::create_directory(&board)?;
    write_sample_board(&board)?;
    let docs = shell::repository_root().join("docs");
    let config = json!({ "homes": { "board": board }, "pictures": docs });
    drive_browser(scratch.path(), program, config)
}

fn drive_browser(scratch: &Path, program: Option<&Path>, mut config: Value) -> Result<()> {
    let ralph = match program {
        Some(program) => std::path::absolute(program)?,
        None => shell::build_program("release", "ralph")?,
    };
    let browser = BROWSERS.iter().find_map(|name| shell::find_program(name));
    let browser = browser.context("no browser was found: `apt-get install chromium`")?;
    config["ralph"] = json!(ralph);
    config["chromium"] = json!(browser);
    config["tools"] = json!(installed_tools()?);
    let path = scratch.join("config.json");
    disk::write_with_parents(&path, config.to_string().as_bytes())?;
    let script = shell::repository_root().join("crates/xtask/browser/checks.js");
    let node = shell::find_program("node").context("`node` was not found: install Node.js")?;
    let ended = shell::run_within(shell::command(node).arg(script).arg(path), b"", TIMEOUT)?;
    print::print_line(ended.stdout.trim_end());
    if ended.code == Some(0) {
        return Ok(());
    }
    bail!("the pages have faults:\n{}", ended.stderr.trim_end())
}

/// In memory if possible, because thousands of runs are synced to disk one by one.
fn scratch_directory() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let built = tempfile::Builder::new().prefix("ralph-browser-").tempdir_in(memory);
    Ok(built.or_else(|_| tempfile::tempdir())?)
}

/// The directory with the tools, installed once.
fn installed_tools() -> Result<PathBuf> {
    let directory = shell::cache_directory()?.join(TOOLS_NAME);
    if directory.is_dir() {
        return Ok(directory);
    }
    let npm = shell::find_program("npm").context("`npm` was not found: install Node.js")?;
    // Concurrent installations use separate directories, and the first one to finish wins.
    let workshop = directory.with_extension(format!("{}.part", std::process::id()));
    disk::create_directory(&workshop)?;
    let mut install = shell::command(npm);
    install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
    install.arg("--prefix").arg(&workshop).args(TOOLS);
    shell::command_output(&mut install).context("the package registry has no such tools")?;
    disk::move_into_place(&workshop, &directory)?;
    Ok(directory)
}
