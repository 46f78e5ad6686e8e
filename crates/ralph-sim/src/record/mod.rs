//! Converts the transcript of a real session into a scenario.
//!
//! Prompts become steps of the person, answers become steps of the agent, and the effect of hooks at stops becomes the
//! expectation. Hook commands are not copied: the user who plays the scenario chooses the hooks to test.
//!
//! A transcript may contain secrets, and so may the scenario: the caller must redact the text before showing it.

mod session;
mod tools;
mod wire;

#[cfg(test)]
mod tests;

use crate::scenario::{Scenario, Step, Subagent};
use ralph_sys::fs::{self, FileError};
use ralph_sys::tail;
use session::{Lane, Session};
use std::path::{Path, PathBuf};

/// Bytes read at a time, which also limits the length of a line.
const LONGEST_LINE: usize = 16 * 1024 * 1024;
const LARGEST: u64 = 1024 * 1024 * 1024;
const MOST_AGENTS: usize = 1000;

#[derive(Debug)]
pub struct Recording {
    pub scenario: Scenario,
    /// Number of lines that could not be parsed.
    pub broken: usize,
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
    NoTranscript(PathBuf),
    #[error("`{}` contains no prompt", .0.display())]
    NoPrompt(PathBuf),
}

/// Reads a transcript and those of its subagents, which the client stores beside it.
pub fn record(path: &Path) -> Result<Recording, RecordError> {
    let mut session = Session::new(Lane::Main);
    each_line(path, &mut session)?;
    if session.lines == 0 {
        return Err(RecordError::NoTranscript(path.to_owned()));
    }
    let mut agents = Vec::new();
    let mut broken = session.broken;
    for file in agent_files(path) {
        let mut agent = Session::new(Lane::Agent);
        agent.go_on_from(&session);
        if each_line(&file, &mut agent).is_ok() {
            session.spend(&agent);
            broken += agent.broken;
            agents.extend(agent.into_subagent());
        } else {
            broken += 1;
        }
    }
    let notes = session.notes(broken);
    let mut scenario = session.into_scenario();
    scenario.subagents = merged(agents);
    if !scenario.steps.iter().any(|step| matches!(step, Step::Person(_))) {
        return Err(RecordError::NoPrompt(path.to_owned()));
    }
    Ok(Recording { scenario, broken, notes })
}

/// The files `SESSION/subagents/agent-ID.jsonl` beside `SESSION.jsonl`, if there are any.
fn agent_files(path: &Path) -> Vec<PathBuf> {
    let directory = path.with_extension("").join("subagents");
    let names = fs::list(&directory, MOST_AGENTS).unwrap_or_default();
    let files = names.into_iter().map(|name| directory.join(name));
    files.filter(|file| file.extension().is_some_and(|end| end == "jsonl")).collect()
}

/// Merges subagents with the same task, because a scenario distinguishes subagents only by their task.
fn merged(agents: Vec<Subagent>) -> Vec<Subagent> {
    let mut merged: Vec<Subagent> = Vec::new();
    for agent in agents {
        match merged.iter_mut().find(|known| known.prompt == agent.prompt) {
            Some(known) => known.turns.extend(agent.turns),
            None => merged.push(agent),
        }
    }
    merged
}

fn each_line(path: &Path, session: &mut Session) -> Result<(), RecordError> {
    let mut from = 0;
    loop {
        let chunk = tail::forward(path, from, LONGEST_LINE)?;
        if chunk.len > LARGEST {
            return Err(RecordError::TooLarge(path.to_owned()));
        }
        for line in chunk.lines() {
            session.line(line);
        }
        if chunk.bytes.is_empty() && chunk.end > from {
            session.broken += 1;
        }
        if session.is_full() {
            return Ok(());
        }
        if chunk.end == from {
            // The last line of a killed session may lack its newline and still be complete.
            session.line(&fs::read_range(path, chunk.end, LONGEST_LINE)?);
            return Ok(());
        }
        from = chunk.end;
    }
}
