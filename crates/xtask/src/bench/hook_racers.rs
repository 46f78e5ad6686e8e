//! The commands of the hook benchmark.

use super::gates::approve_policy;
use super::hook_stage::{self, HookStage};
use super::large_transcript::{self, RecordedTranscript};
use super::race::{BenchRacer, IterationCounter, RacerPace, RacerProof, RacerSetup};
use crate::shell::{self, RacerCommand};
use crate::{disk, print};
use anyhow::{Context, Result, ensure};
use ralph_git::git::status_arguments;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) const TRUE: &str = "/bin/true";
pub(crate) const IDLE: &str = "ralph, idle Stop";
pub(crate) const OFF: &str = "ralph, idle Stop with RALPH_OFF=1";
pub(crate) const ARMED: &str = "ralph, armed Stop that blocks";
pub(crate) const GIT: &str = "git status, 500 files";
pub(crate) const GATED: &str = "ralph, Stop with gates of the session, nothing changed";
pub(crate) const GATED_GIT: &str = "git status, 500 files and a policy";
pub(crate) const FIRST_READ: &str = "ralph, first look at a transcript";
pub(crate) const NEXT_READ: &str = "ralph, next look at a transcript";

pub(crate) struct TranscriptSize {
    pub(crate) label: &'static str,
    pub(crate) bytes: u64,
}

pub(crate) const SMALL: TranscriptSize = TranscriptSize { label: "1 MB", bytes: 1 << 20 };
const MIDDLE: TranscriptSize = TranscriptSize { label: "100 MB", bytes: 100 << 20 };
pub(crate) const LARGE: TranscriptSize = TranscriptSize { label: "1 GB", bytes: 1 << 30 };
const FREE_BYTES: u64 = 2 << 30;

const IDLE_SESSION: &str = "bench-idle";
const GATED_SESSION: &str = "bench-gated";
const ARMED_SESSION: &str = "bench-armed";

impl TranscriptSize {
    pub(crate) fn name(&self, look: &str) -> String {
        format!("{look} of {}", self.label)
    }
}

pub(crate) fn all_racers(stage: &HookStage) -> Result<Vec<BenchRacer>> {
    let mut racers = plain_racers(stage)?;
    racers.extend(gated_racers(stage)?);
    racers.push(armed_racer(stage)?);
    let free = large_transcript::free_bytes(stage.directory.path())?;
    if free < FREE_BYTES {
        let place = stage.directory.path().display();
        print::print_error_line(&format!(
            "skipped: transcripts need 2 GB of free space in `{place}`; set `TMPDIR` to use another directory"
        ));
    } else {
        let recording = RecordedTranscript::read()?;
        for size in [SMALL, MIDDLE, LARGE] {
            racers.extend(transcript_racers(stage, &recording, &size)?);
        }
    }
    racers.extend(script_hooks(stage)?);
    Ok(racers)
}

fn plain_racers(stage: &HookStage) -> Result<Vec<BenchRacer>> {
    let project = stage.project();
    let idle = stage.event(IDLE_SESSION, &project, None)?;
    let hook = stage.command(&stage.ralph, &["hook", "claude"], &idle);
    let mut off = hook.clone();
    off.env.push(("RALPH_OFF".into(), "1".into()));
    Ok(vec![
        BenchRacer::new(
            TRUE,
            stage.command(Path::new("/bin/true"), &[], &idle),
            RacerProof::Exit(0),
        ),
        BenchRacer::new(IDLE, hook, RacerProof::Exit(0)),
        BenchRacer::new(OFF, off, RacerProof::Exit(0)),
        status_racer(stage, GIT, &project, &idle)?,
    ])
}

fn status_racer(stage: &HookStage, name: &str, project: &Path, input: &Path) -> Result<BenchRacer> {
    let git = shell::find_program("git").context("git is not installed")?;
    let mut git = stage.command(&git, &["-C"], input);
    let mut work_tree = OsString::from("--work-tree=");
    work_tree.push(project);
    git.args.extend([project.as_os_str().to_owned(), work_tree]);
    git.args.extend(status_arguments().map(OsString::from));
    let ceiling = stage.directory.path().as_os_str();
    git.env.push(("GIT_CEILING_DIRECTORIES".into(), ceiling.into()));
    Ok(BenchRacer::new(name, git, RacerProof::Exit(0)))
}

/// A stop after a prompt that the agent only answered. The gate always fails, so a stop that ran it would not exit with 0.
fn gated_racers(stage: &HookStage) -> Result<[BenchRacer; 2]> {
    let project = stage.gated_project();
    approve_policy(&stage.ralph, &stage.env(), &project)?;
    let prompt = stage.prompt(GATED_SESSION, &project)?;
    let mut hook = shell::command(&stage.ralph);
    hook.env_clear().envs(stage.env()).args(["hook", "claude"]);
    shell::command_output_with_input(&mut hook, &prompt)?;
    let note = stage.ralph_home().join("session-notes").join(GATED_SESSION);
    ensure!(note.is_file(), "the gates do not hold the session");
    let event = stage.event(GATED_SESSION, &project, None)?;
    let stop = stage.command(&stage.ralph, &["hook", "claude"], &event);
    Ok([
        status_racer(stage, GATED_GIT, &project, &event)?,
        BenchRacer::new(GATED, stop, RacerProof::Exit(0)),
    ])
}

fn armed_racer(stage: &HookStage) -> Result<BenchRacer> {
    let features = stage.project().join(".claude/data/ralph-loops/bench");
    hook_stage::write_features(&features)?;
    hook_stage::write_tasks(&stage.ralph_home().join("state").join(ARMED_SESSION))?;
    let holding = ["--features", &*features.to_string_lossy()];
    let run = stage.start_run(ARMED_SESSION, &stage.project(), &holding)?;
    let event = stage.event(ARMED_SESSION, &stage.project(), None)?;
    let hook = stage.command(&stage.ralph, &["hook", "claude"], &event);
    Ok(charged_racer(ARMED, hook, &run))
}

fn charged_racer(name: &str, hook: RacerCommand, run: &Path) -> BenchRacer {
    BenchRacer::new(name, hook, RacerProof::Charged(IterationCounter::CountFile(run.join("count"))))
}

fn transcript_racers(
    stage: &HookStage,
    recording: &RecordedTranscript,
    size: &TranscriptSize,
) -> Result<[BenchRacer; 2]> {
    let transcript = recording.write(stage, size)?;
    let look = |name: &str, session: &str| -> Result<(BenchRacer, PathBuf)> {
        let session = format!("{session}-{}", size.bytes);
        let run = stage.start_run(&session, &stage.plain_project(), &["--checklist"])?;
        let event = stage.event(&session, &stage.plain_project(), Some(&transcript))?;
        let hook = stage.command(&stage.ralph, &["hook", "claude"], &event);
        Ok((charged_racer(&size.name(name), hook, &run), run))
    };
    let (mut first, run) = look(FIRST_READ, "bench-first")?;
    let keep = |name: &str| Ok((run.join(name), disk::read(&run.join(name))?));
    first.setup = RacerSetup::Restore(
        [keep("state.json"), keep("journal.jsonl"), keep("count")]
            .into_iter()
            .collect::<Result<_>>()?,
    );
    let (mut next, _) = look(NEXT_READ, "bench-next")?;
    next.setup = RacerSetup::Append(transcript.clone(), recording.last_turn());
    Ok([first, next])
}

/// The same idle and armed stops as scripts, which do not run git.
fn script_hooks(stage: &HookStage) -> Result<Vec<BenchRacer>> {
    let mut racers = Vec::new();
    match (shell::find_program("bash"), shell::find_program("jq")) {
        (Some(bash), Some(_)) => {
            racers.extend(script_racers(stage, "bash + jq", &bash, "hook.sh")?);
        }
        (None, _) | (_, None) => {
            print::print_error_line("skipped: the bash hook needs bash and jq");
        }
    }
    match python_interpreter() {
        Some(python) => racers.extend(script_racers(stage, "Python", &python, "hook.py")?),
        None => print::print_error_line("skipped: the Python hook needs python3"),
    }
    Ok(racers)
}

/// The interpreter itself, because version managers wrap it in a shell script.
fn python_interpreter() -> Option<PathBuf> {
    let mut ask = shell::command(shell::find_program("python3")?);
    let said = shell::command_output(ask.args(["-c", "import sys; print(sys.executable)"])).ok()?;
    Some(PathBuf::from(String::from_utf8(said).ok()?.trim()))
}

fn script_racers(
    stage: &HookStage,
    language: &str,
    interpreter: &Path,
    script: &str,
) -> Result<[BenchRacer; 2]> {
    let script = shell::repository_root().join("crates/xtask/compare").join(script);
    let script = script.to_string_lossy().into_owned();
    let session = format!("bench-{}", language.split(' ').next().unwrap_or(language));
    let features = stage.loop_home().join("features").join(&session);
    hook_stage::write_features(&features)?;
    hook_stage::write_tasks(&stage.loop_home().join("state").join(&session))?;
    let pointer = stage.loop_home().join("sessions").join(&session);
    disk::write_with_parents(&pointer, format!("{}\n", features.display()).as_bytes())?;
    let racer = |name: &str, session: &str, proof: RacerProof| -> Result<BenchRacer> {
        let event = stage.event(session, &stage.plain_project(), None)?;
        let hook = stage.command(interpreter, &[&script], &event);
        let mut racer = BenchRacer::new(&format!("{language} hook, {name}"), hook, proof);
        racer.pace = RacerPace::EveryTenth;
        Ok(racer)
    };
    let counter = IterationCounter::ProgressFile(features.join("progress.txt"));
    Ok([
        racer("idle Stop", &format!("{session}-idle"), RacerProof::Exit(0))?,
        racer("armed Stop that blocks", &session, RacerProof::Charged(counter))?,
    ])
}
