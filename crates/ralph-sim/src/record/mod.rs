//! Converts the transcript of a real session into a scenario.
//!
//! Prompts become steps of the person, answers become steps of the agent, and the effect of hooks at stops becomes the
//! expectation. Hook commands are not copied: the user who plays the scenario chooses the hooks to test.
//!
//! A transcript may contain secrets, and so may the scenario: the caller must redact the text before showing it.

mod recorded_line;
mod recorded_tools;
mod session_recorder;

#[cfg(test)]
mod tests;

use crate::scenario::{Scenario, ScenarioStep, ScriptedSubagent};
use ralph_sys::fs::{self, FileError};
use ralph_sys::tail;
use session_recorder::{RecordedLane, SessionRecorder};
use std::path::{Path, PathBuf};

/// Bytes read at a time, which also limits the length of a line.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
const MAX_TRANSCRIPT_BYTES: u64 = 1024 * 1024 * 1024;
const MAX_SUBAGENTS: usize = 1000;

#[derive(Debug)]
pub struct RecordedScenario {
    pub scenario: Scenario,
    /// Number of lines that could not be parsed.
    pub unreadable_lines: usize,
    /// Remarks for the user, for example about parts of the session that a scenario cannot reproduce.
    pub notes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is larger than 1 GiB", .0.display())]
    TooLarge(PathBuf),
    #[error("`{}` is not a transcript: none of its lines can be parsed", .0.display())]
    NotATranscript(PathBuf),
    #[error("`{}` contains no prompt", .0.display())]
    NoPrompt(PathBuf),
}

/// Reads a transcript and those of its subagents, which the client stores beside it.
pub fn record_transcript(path: &Path) -> Result<RecordedScenario, RecordError> {
    let mut session = SessionRecorder::new(RecordedLane::Main);
    read_lines(path, &mut session)?;
    if session.lines == 0 {
        return Err(RecordError::NotATranscript(path.to_owned()));
    }
    let mut agents = Vec::new();
    let mut broken = session.broken;
    for file in subagent_files(path)? {
        let mut agent = SessionRecorder::new(RecordedLane::Agent);
        agent.continue_from(&session);
        if read_lines(&file, &mut agent).is_ok() {
            session.add_subagent_size(&agent);
            broken += agent.broken;
            agents.extend(agent.into_subagent());
        } else {
            broken += 1;
        }
    }
    let notes = session.notes(broken);
    let mut scenario = session.into_scenario();
    scenario.subagents = merge_subagents(agents);
    if !scenario.steps.iter().any(|step| matches!(step, ScenarioStep::Person(_))) {
        return Err(RecordError::NoPrompt(path.to_owned()));
    }
    Ok(RecordedScenario { scenario, unreadable_lines: broken, notes })
}

/// The files `SESSION/subagents/agent-ID.jsonl` beside `SESSION.jsonl`, if there are any.
fn subagent_files(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let directory = path.with_extension("").join("subagents");
    if !fs::exists(&directory) {
        return Ok(Vec::new());
    }
    let names = fs::list(&directory, MAX_SUBAGENTS)?;
    let files = names.into_iter().map(|name| directory.join(name));
    Ok(files.filter(|file| file.extension().is_some_and(|end| end == "jsonl")).collect())
}

/// Merges subagents with the same task, because a scenario distinguishes subagents only by their task.
fn merge_subagents(agents: Vec<ScriptedSubagent>) -> Vec<ScriptedSubagent> {
    let mut merged: Vec<ScriptedSubagent> = Vec::new();
    for agent in agents {
        match merged.iter_mut().find(|known| known.prompt == agent.prompt) {
            Some(known) => known.turns.extend(agent.turns),
            None => merged.push(agent),
        }
    }
    merged
}

fn read_lines(path: &Path, session: &mut SessionRecorder) -> Result<(), RecordError> {
    let mut from = 0;
    loop {
        let chunk = tail::read_lines_from(path, from, MAX_LINE_BYTES)?;
        if chunk.len > MAX_TRANSCRIPT_BYTES {
            return Err(RecordError::TooLarge(path.to_owned()));
        }
        for line in chunk.lines() {
            session.read_line(line);
        }
        if chunk.bytes.is_empty() && chunk.end > from {
            session.broken += 1;
        }
        if session.is_full() {
            return Ok(());
        }
        if chunk.end == from {
            // The last line of a killed session may lack its newline and still be complete.
            session.read_line(&fs::read_range(path, chunk.end, MAX_LINE_BYTES)?);
            return Ok(());
        }
        from = chunk.end;
    }
}
