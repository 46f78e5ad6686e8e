//! The position in the script. Processes that are started with the same position file share one queue of turns.

use crate::scenario::{Scenario, ScenarioStep, ScriptedTurn};
use crate::script::QueuePosition;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, LockError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The answer when the script is exhausted.
const EXHAUSTED_TEXT: &str = "done";
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_FILE_BYTES: usize = 1024 * 1024;
const FILE_VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum ScriptPositionError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("`{}` is not a valid script position file", .0.display())]
    Invalid(PathBuf),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ScriptPosition {
    v: u32,
    /// Number of requests to the model.
    requests: u64,
    script: QueuePosition,
    /// Always empty: the fake client runs no subagents. Kept for the format.
    agents: [(); 0],
}

#[derive(Debug)]
pub(super) struct SharedScript {
    script: Vec<ScriptedTurn>,
    file: Option<PathBuf>,
    at: ScriptPosition,
}

/// The number of requests so far, by the position file of a fake client. There is no file before the first request.
pub(crate) fn request_count(file: &Path) -> Result<u64, ScriptPositionError> {
    Ok(read_position(file)?.map_or(0, |at| at.requests))
}

fn read_position(file: &Path) -> Result<Option<ScriptPosition>, ScriptPositionError> {
    let Some(bytes) = fs::read_if_exists(file, MAX_FILE_BYTES)? else { return Ok(None) };
    let at = serde_json::from_slice::<ScriptPosition>(&bytes).ok();
    let at = at.filter(|at| at.v == FILE_VERSION);
    at.map(Some).ok_or_else(|| ScriptPositionError::Invalid(file.to_owned()))
}

impl SharedScript {
    pub(super) fn new(scenario: &Scenario, file: Option<PathBuf>) -> Self {
        let script = scenario.steps.iter().filter_map(|step| match step {
            ScenarioStep::Agent(turn) => Some(turn.clone()),
            ScenarioStep::Person(_)
            | ScenarioStep::Session(_)
            | ScenarioStep::Screen(_)
            | ScenarioStep::Shell(_) => None,
        });
        let at = ScriptPosition {
            v: FILE_VERSION,
            requests: 0,
            script: QueuePosition::default(),
            agents: [],
        };
        Self { script: script.collect(), file, at }
    }

    /// Takes the next turn. Returns the number of the request and the turn.
    pub(super) fn next_turn(&mut self) -> Result<(u64, ScriptedTurn), ScriptPositionError> {
        let Some(file) = self.file.clone() else { return Ok(self.take_turn()) };
        let mut lock_file = file.clone().into_os_string();
        lock_file.push(".lock");
        let _lock = fs::acquire_lock(&PathBuf::from(lock_file), &Deadline::after(LOCK_TIMEOUT))?;
        if let Some(at) = read_position(&file)? {
            self.at = at;
        }
        let taken = self.take_turn();
        let bytes =
            serde_json::to_vec(&self.at).map_err(|_| ScriptPositionError::Invalid(file.clone()))?;
        fs::replace(&file, &bytes, Durability::Cached)?;
        Ok(taken)
    }

    fn take_turn(&mut self) -> (u64, ScriptedTurn) {
        self.at.requests += 1;
        let turn = self.at.script.take(&self.script);
        let done = || ScriptedTurn { text: EXHAUSTED_TEXT.to_owned(), ..ScriptedTurn::default() };
        (self.at.requests, turn.unwrap_or_else(done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::TurnRepeat;

    fn says(text: &str, repeat: TurnRepeat) -> ScriptedTurn {
        ScriptedTurn { text: text.to_owned(), repeat, ..ScriptedTurn::default() }
    }

    fn scenario() -> Scenario {
        Scenario {
            steps: vec![
                ScenarioStep::Agent(says("one", TurnRepeat::Times(1))),
                ScenarioStep::Person("Go on.".to_owned()),
                ScenarioStep::Agent(says("twice", TurnRepeat::Times(2))),
            ],
            ..Scenario::default()
        }
    }

    fn next(turns: &mut SharedScript) -> (u64, String) {
        let (number, turn) = turns.next_turn().unwrap();
        (number, turn.text)
    }

    #[test]
    fn a_process_continues_where_the_last_one_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("position");
        let process = || SharedScript::new(&scenario(), Some(file.clone()));
        let taken = [(); 5].map(|()| next(&mut process()));
        let texts = ["one", "twice", "twice", EXHAUSTED_TEXT, EXHAUSTED_TEXT];
        let expected: Vec<(u64, String)> = (1..).zip(texts.map(str::to_owned)).collect();
        assert_eq!(taken.as_slice(), expected);
        assert_eq!(request_count(&file).unwrap(), 5);
        insta::assert_snapshot!(
            String::from_utf8(fs::read(&file, MAX_FILE_BYTES).unwrap()).unwrap(),
            @r#"{"v":1,"requests":5,"script":{"turn":2,"given":0},"agents":[]}"#
        );
    }

    #[test]
    fn concurrent_processes_never_take_the_same_turn() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("position");
        let turn =
            |number: u32| ScenarioStep::Agent(says(&number.to_string(), TurnRepeat::Times(1)));
        let scenario = Scenario { steps: (0..200).map(turn).collect(), ..Scenario::default() };
        let mut taken: Vec<u32> = std::thread::scope(|scope| {
            let workers = [(); 4].map(|()| {
                scope.spawn(|| {
                    let mut turns = SharedScript::new(&scenario, Some(file.clone()));
                    let texts = (0..50).map(|_| next(&mut turns).1);
                    texts.map(|text| text.parse().unwrap()).collect::<Vec<u32>>()
                })
            });
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        taken.sort_unstable();
        assert_eq!(taken, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn an_invalid_position_file_is_an_error_and_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("position");
        for text in ["", "{}", r#"{"v":2,"requests":1,"script":{"turn":0,"given":0},"agents":[]}"#]
        {
            fs::overwrite(&file, text.as_bytes()).unwrap();
            let error = SharedScript::new(&scenario(), Some(file.clone())).next_turn().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("`{}` is not a valid script position file", file.display())
            );
            assert_eq!(fs::read(&file, MAX_FILE_BYTES).unwrap(), text.as_bytes());
        }
    }
}
