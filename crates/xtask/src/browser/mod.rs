//! Checks the pages of `ralph serve` in a real browser, and takes the pictures of them for the documentation.

mod detailed_runs;
mod sample_home;
mod sample_journal;
mod sample_project;
mod sample_queue;

use crate::picture::page_pictures;
use crate::{BrowserOptions, disk, print, shell};
use anyhow::{Context, Result, bail};
use detailed_runs::{
    APPROVAL_RUN, DETAILED_RUNS, DRIVEN_RUN, PROVED_RUN, SampleWording, write_detailed_runs,
};
use ralph_sys::fs::file_slot::FileSlot;
use sample_home::{write_hostile_run, write_many_runs, write_sample_board};
use sample_project::{CHANGED_RUN, write_compared_runs};
use sample_queue::{EndedQueueRuns, write_queue};
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
    let program = options.program.as_deref();
    match (options.pictures, options.check) {
        (true, true) => return page_pictures::check(program),
        (true, false) => return page_pictures::take(program),
        (false, _) => {}
    }
    let homes = SampleHomes::new()?;
    let (empty, board, many) = (homes.add("empty")?, homes.add("board")?, homes.add("many")?);
    let (hostile, detailed) = (homes.add("hostile")?, homes.add("detailed")?);
    let one = homes.add("one")?;
    write_many_runs(&one, 1)?;
    write_hostile_run(&hostile)?;
    write_many_runs(&many, MANY_RUNS)?;
    let _running = [
        write_sample_board(&board)?,
        write_detailed_home(&detailed, SampleWording::Realistic)?,
        write_detailed_home(&hostile, SampleWording::Hostile)?,
    ];
    let compared = homes.add_compared()?;
    let config = json!({
        "homes": {
            "empty": empty, "one": one, "board": board, "hostile": hostile, "many": many, "compared": compared,
            "detailed": detailed,
        },
        "many": MANY_RUNS,
        "changed": CHANGED_RUN,
        "detailed": DETAILED_RUNS,
        "driven": DRIVEN_RUN,
        "proved": PROVED_RUN,
    });
    homes.drive_browser(program, config)
}

/// What each picture of a page shows, as JSON. With a directory, takes them too.
pub(crate) fn describe_pictures(program: Option<&Path>, pictures: Option<&Path>) -> Result<String> {
    let homes = SampleHomes::new()?;
    let (board, detailed) = (homes.add("board")?, homes.add("detailed")?);
    let _running =
        [write_sample_board(&board)?, write_detailed_home(&detailed, SampleWording::Realistic)?];
    let compared = homes.add_compared()?;
    let described = homes.scratch.path().join("described.json");
    let config = json!({
        "homes": { "board": board, "compared": compared, "detailed": detailed },
        "pictures": pictures,
        "described": described,
        "driven": DRIVEN_RUN,
        "proved": PROVED_RUN,
    });
    homes.drive_browser(program, config)?;
    disk::read_text(&described)
}

/// Four runs and a queue with everything that a page can show.
fn write_detailed_home(home: &Path, wording: SampleWording) -> Result<FileSlot> {
    let runs = EndedQueueRuns { landed: PROVED_RUN, parked: APPROVAL_RUN };
    write_queue(home, &runs, wording)?;
    write_detailed_runs(home, wording)
}

/// The homes of the servers, below a directory that is removed at the end.
struct SampleHomes {
    scratch: tempfile::TempDir,
}

impl SampleHomes {
    fn new() -> Result<Self> {
        Ok(Self { scratch: scratch_directory()? })
    }

    /// A home that is that of the person, too: its settings call ralph, so that runs are protected.
    fn add(&self, name: &str) -> Result<PathBuf> {
        let path = self.scratch.path().join(name);
        let hook = json!({ "type": "command", "command": "ralph hook claude", "timeout": 600 });
        let settings = json!({ "hooks": { "Stop": [{ "hooks": [hook] }] } });
        let place = path.join(".claude/settings.json");
        disk::write_with_parents(&place, settings.to_string().as_bytes())?;
        Ok(path)
    }

    /// A home with enough runs to compare, and its project beside it.
    fn add_compared(&self) -> Result<PathBuf> {
        let (compared, project) = (self.add("compared")?, self.add("project")?);
        write_compared_runs(&compared, &project)?;
        Ok(compared)
    }

    fn drive_browser(&self, program: Option<&Path>, config: Value) -> Result<()> {
        drive_browser(self.scratch.path(), program, config)
    }
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
