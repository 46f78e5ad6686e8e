//! The position in the script. Processes that are started with the same position file share one queue of turns.

use crate::scenario::{Scenario, ScenarioStep, ScriptedTurn, TurnRepeat};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError, LockError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
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
    /// Positions of the subagents, in the scenario's order.
    agents: Vec<QueuePosition>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct QueuePosition {
    /// Number of finished turns.
    turn: usize,
    /// How often the next turn was already taken.
    given: u32,
}

#[derive(Debug)]
pub(super) struct SharedScript {
    script: Vec<ScriptedTurn>,
    agents: Vec<(String, Vec<ScriptedTurn>)>,
    file: Option<PathBuf>,
    at: ScriptPosition,
}

impl SharedScript {
    pub(super) fn new(scenario: &Scenario, file: Option<PathBuf>) -> Self {
        let script = scenario.steps.iter().filter_map(|step| match step {
            ScenarioStep::Agent(turn) => Some(turn.clone()),
            ScenarioStep::Person(_) | ScenarioStep::Session(_) | ScenarioStep::Screen(_) => None,
        });
        let agents =
            scenario.subagents.iter().map(|agent| (agent.prompt.clone(), agent.turns.clone()));
        let at = ScriptPosition {
            v: FILE_VERSION,
            requests: 0,
            script: QueuePosition::default(),
            agents: Vec::new(),
        };
        Self { script: script.collect(), agents: agents.collect(), file, at }
    }

    /// Takes the next turn. Returns the number of the request and the turn.
    pub(super) fn next_turn(
        &mut self,
        task: Option<&str>,
    ) -> Result<(u64, ScriptedTurn), ScriptPositionError> {
        let Some(file) = self.file.clone() else { return Ok(self.take_turn(task)) };
        let mut beside = file.clone().into_os_string();
        beside.push(".lock");
        let _lock = fs::acquire_lock(&PathBuf::from(beside), &Deadline::after(LOCK_TIMEOUT))?;
        if let Some(bytes) = fs::read_if_exists(&file, MAX_FILE_BYTES)? {
            let at = serde_json::from_slice::<ScriptPosition>(&bytes).ok();
            self.at = at
                .filter(|at| at.v == FILE_VERSION)
                .ok_or(ScriptPositionError::Invalid(file.clone()))?;
        }
        let taken = self.take_turn(task);
        let bytes = serde_json::to_vec(&self.at).unwrap_or_default();
        fs::replace(&file, &bytes, Durability::Cached)?;
        Ok(taken)
    }

    fn take_turn(&mut self, task: Option<&str>) -> (u64, ScriptedTurn) {
        self.at.requests += 1;
        let agent = task
            .map(|task| self.agents.iter().position(|(prompt, _)| task.contains(prompt.as_str())));
        let turn = match agent {
            None => advance_queue(&self.script, &mut self.at.script),
            Some(None) => None,
            Some(Some(number)) => {
                let places = self.at.agents.len().max(number + 1);
                self.at.agents.resize(places, QueuePosition::default());
                let turns = self.agents.get(number).map(|(_, turns)| turns.as_slice());
                let place = self.at.agents.get_mut(number);
                place.zip(turns).and_then(|(place, turns)| advance_queue(turns, place))
            }
        };
        let done = || ScriptedTurn { text: EXHAUSTED_TEXT.to_owned(), ..ScriptedTurn::default() };
        (self.at.requests, turn.unwrap_or_else(done))
    }
}

fn advance_queue(turns: &[ScriptedTurn], place: &mut QueuePosition) -> Option<ScriptedTurn> {
    let turn = turns.get(place.turn)?;
    place.given += 1;
    let is_over = match turn.repeat {
        TurnRepeat::Times(most) => place.given >= most,
        TurnRepeat::Forever => false,
    };
    if is_over {
        *place = QueuePosition { turn: place.turn + 1, given: 0 };
    }
    Some(turn.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScriptedSubagent;

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
            subagents: vec![ScriptedSubagent {
                prompt: "count".to_owned(),
                turns: vec![says("three files", TurnRepeat::Times(1))],
            }],
            ..Scenario::default()
        }
    }

    fn next(turns: &mut SharedScript, task: Option<&str>) -> (u64, String) {
        let (number, turn) = turns.next_turn(task).unwrap();
        (number, turn.text)
    }

    #[test]
    fn a_process_continues_where_the_last_one_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("position");
        let process = || SharedScript::new(&scenario(), Some(file.clone()));
        let taken = [
            next(&mut process(), None),
            next(&mut process(), None),
            next(&mut process(), Some("please count the files")),
            next(&mut process(), None),
            next(&mut process(), None),
            next(&mut process(), Some("please count the files")),
            next(&mut process(), Some("sing")),
        ];
        let texts = [
            "one",
            "twice",
            "three files",
            "twice",
            EXHAUSTED_TEXT,
            EXHAUSTED_TEXT,
            EXHAUSTED_TEXT,
        ];
        let expected: Vec<(u64, String)> = (1..).zip(texts.map(str::to_owned)).collect();
        assert_eq!(taken.as_slice(), expected);
        insta::assert_snapshot!(
            String::from_utf8(fs::read(&file, MAX_FILE_BYTES).unwrap()).unwrap(),
            @r#"{"v":1,"requests":7,"script":{"turn":2,"given":0},"agents":[{"turn":1,"given":0}]}"#
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
                    let texts = (0..50).map(|_| next(&mut turns, None).1);
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
            let error =
                SharedScript::new(&scenario(), Some(file.clone())).next_turn(None).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("`{}` is not a valid script position file", file.display())
            );
            assert_eq!(fs::read(&file, MAX_FILE_BYTES).unwrap(), text.as_bytes());
        }
    }
}
