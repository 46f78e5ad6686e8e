//! The commands of the hook benchmark.

use super::race::{Before, Counter, Pace, Proof, Racer};
use super::stage::{self, Stage};
use super::transcript::{self, Recording};
use crate::shell::{self, Errand};
use crate::{disk, say};
use anyhow::{Context, Result};
use ralph_git::git::STATUS;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) const TRUE: &str = "/bin/true";
pub(crate) const IDLE: &str = "ralph, idle Stop";
pub(crate) const OFF: &str = "ralph, idle Stop with RALPH_OFF=1";
pub(crate) const ARMED: &str = "ralph, armed Stop that blocks";
pub(crate) const GIT: &str = "git status, 500 files";
pub(crate) const FIRST_LOOK: &str = "ralph, first look at a transcript";
pub(crate) const NEXT_LOOK: &str = "ralph, next look at a transcript";

pub(crate) struct Size {
    pub(crate) label: &'static str,
    pub(crate) bytes: u64,
}

pub(crate) const SMALL: Size = Size { label: "1 MB", bytes: 1 << 20 };
const MIDDLE: Size = Size { label: "100 MB", bytes: 100 << 20 };
pub(crate) const LARGE: Size = Size { label: "1 GB", bytes: 1 << 30 };
const FREE_BYTES: u64 = 2 << 30;

const IDLE_SESSION: &str = "bench-idle";
const ARMED_SESSION: &str = "bench-armed";

impl Size {
    pub(crate) fn name(&self, look: &str) -> String {
        format!("{look} of {}", self.label)
    }
}

pub(crate) fn racers(stage: &Stage) -> Result<Vec<Racer>> {
    let mut racers = plain(stage)?;
    racers.push(armed(stage)?);
    let free = transcript::free_bytes(stage.directory.path())?;
    if free < FREE_BYTES {
        let place = stage.directory.path().display();
        say::err(&format!(
            "skipped: transcripts need 2 GB of free space in `{place}`; set `TMPDIR` to use another directory"
        ));
    } else {
        let recording = Recording::read()?;
        for size in [SMALL, MIDDLE, LARGE] {
            racers.extend(looks(stage, &recording, &size)?);
        }
    }
    racers.extend(others(stage)?);
    Ok(racers)
}

fn plain(stage: &Stage) -> Result<Vec<Racer>> {
    let project = stage.project();
    let idle = stage.event(IDLE_SESSION, &project, None)?;
    let hook = stage.errand(&stage.ralph, &["hook", "claude"], &idle);
    let mut off = hook.clone();
    off.env.push(("RALPH_OFF".into(), "1".into()));
    let git = shell::find("git").context("git is not installed")?;
    let mut git = stage.errand(&git, &["-C"], &idle);
    let mut work_tree = OsString::from("--work-tree=");
    work_tree.push(&project);
    git.args.extend([project.into_os_string(), work_tree]);
    git.args.extend(STATUS.into_iter().skip(1).map(OsString::from));
    let ceiling = stage.directory.path().as_os_str();
    git.env.push(("GIT_CEILING_DIRECTORIES".into(), ceiling.into()));
    Ok(vec![
        Racer::new(TRUE, stage.errand(Path::new("/bin/true"), &[], &idle), Proof::Exit(0)),
        Racer::new(IDLE, hook, Proof::Exit(0)),
        Racer::new(OFF, off, Proof::Exit(0)),
        Racer::new(GIT, git, Proof::Exit(0)),
    ])
}

fn armed(stage: &Stage) -> Result<Racer> {
    let features = stage.project().join(".claude/data/ralph-loops/bench");
    stage::features(&features)?;
    stage::tasks(&stage.ralph_home().join("state").join(ARMED_SESSION))?;
    let holding = ["--features", &*features.to_string_lossy()];
    let run = stage.start(ARMED_SESSION, &stage.project(), &holding)?;
    let event = stage.event(ARMED_SESSION, &stage.project(), None)?;
    let hook = stage.errand(&stage.ralph, &["hook", "claude"], &event);
    Ok(charged(ARMED, hook, &run))
}

fn charged(name: &str, hook: Errand, run: &Path) -> Racer {
    Racer::new(name, hook, Proof::Charged(Counter::CountFile(run.join("count"))))
}

fn looks(stage: &Stage, recording: &Recording, size: &Size) -> Result<[Racer; 2]> {
    let transcript = recording.write(stage, size)?;
    let look = |name: &str, session: &str| -> Result<(Racer, PathBuf)> {
        let session = format!("{session}-{}", size.bytes);
        let run = stage.start(&session, &stage.plain_project(), &["--checklist"])?;
        let event = stage.event(&session, &stage.plain_project(), Some(&transcript))?;
        let hook = stage.errand(&stage.ralph, &["hook", "claude"], &event);
        Ok((charged(&size.name(name), hook, &run), run))
    };
    let (mut first, run) = look(FIRST_LOOK, "bench-first")?;
    let keep = |name: &str| Ok((run.join(name), disk::read(&run.join(name))?));
    first.before = Before::Restore(
        [keep("state.json"), keep("journal.jsonl"), keep("count")]
            .into_iter()
            .collect::<Result<_>>()?,
    );
    let (mut next, _) = look(NEXT_LOOK, "bench-next")?;
    next.before = Before::Append(transcript.clone(), recording.turn());
    Ok([first, next])
}

/// The same idle and armed stops as scripts, which do not run git.
fn others(stage: &Stage) -> Result<Vec<Racer>> {
    let mut racers = Vec::new();
    match (shell::find("bash"), shell::find("jq")) {
        (Some(bash), Some(_)) => racers.extend(scripts(stage, "bash + jq", &bash, "hook.sh")?),
        (None, _) | (_, None) => say::err("skipped: the bash hook needs bash and jq"),
    }
    match python() {
        Some(python) => racers.extend(scripts(stage, "Python", &python, "hook.py")?),
        None => say::err("skipped: the Python hook needs python3"),
    }
    Ok(racers)
}

/// The interpreter itself, because version managers wrap it in a shell script.
fn python() -> Option<PathBuf> {
    let mut ask = shell::command(shell::find("python3")?);
    let said = shell::output(ask.args(["-c", "import sys; print(sys.executable)"])).ok()?;
    Some(PathBuf::from(String::from_utf8(said).ok()?.trim()))
}

fn scripts(stage: &Stage, language: &str, interpreter: &Path, script: &str) -> Result<[Racer; 2]> {
    let script = shell::root().join("crates/xtask/compare").join(script);
    let script = script.to_string_lossy().into_owned();
    let session = format!("bench-{}", language.split(' ').next().unwrap_or(language));
    let features = stage.loop_home().join("features").join(&session);
    stage::features(&features)?;
    stage::tasks(&stage.loop_home().join("state").join(&session))?;
    let pointer = stage.loop_home().join("sessions").join(&session);
    disk::write(&pointer, format!("{}\n", features.display()).as_bytes())?;
    let racer = |name: &str, session: &str, proof: Proof| -> Result<Racer> {
        let event = stage.event(session, &stage.plain_project(), None)?;
        let hook = stage.errand(interpreter, &[&script], &event);
        let mut racer = Racer::new(&format!("{language} hook, {name}"), hook, proof);
        racer.pace = Pace::EveryTenth;
        Ok(racer)
    };
    let counter = Counter::ProgressFile(features.join("progress.txt"));
    Ok([
        racer("idle Stop", &format!("{session}-idle"), Proof::Exit(0))?,
        racer("armed Stop that blocks", &session, Proof::Charged(counter))?,
    ])
}
