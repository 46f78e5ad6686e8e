//! What the gates of a contract say: known results first, then a worker that finds out the rest.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ralph_core::gate::{Gate, GateReport, Moment, Outcome};
use ralph_core::requirement::{Pending, Requirement, Stage, Standing};

use super::work::{self, Left, Task, Where};
use super::{Contract, baseline};
use crate::clock::Deadline;
use crate::faults::describe;
use crate::gates::cache::{Cache, Known};
use crate::gates::key::globs_of;
use crate::gates::{Content, Place, View};

/// What is left to say the answer in when gates had all the time there was.
const MARGIN: Duration = Duration::from_secs(4);

/// The gates that count at a stop of this run, after these paths were changed.
pub(super) fn wanted<'a>(contract: &Contract<'a>, touched: &[String]) -> Vec<&'a Gate> {
    let complexity = contract.seal.complexity.unwrap_or(u8::MAX);
    let counts = |gate: &&Gate| {
        let globs = globs_of(&gate.when);
        gate.on.contains(&Moment::Stop)
            && gate.min_complexity <= complexity
            && (gate.when.is_empty() || touched.iter().any(|path| globs.is_match(Path::new(path))))
    };
    contract.seal.policy.gates.iter().filter(counts).collect()
}

/// Asks the gates, in the tree or in a checkout. A worker finds out what is not known, for as long as there is time.
pub(super) fn told(
    contract: &Contract<'_>,
    wanted: &[&Gate],
    place: &Place<'_>,
) -> Vec<Requirement> {
    match Inquiry::open(contract, wanted, place).and_then(|inquiry| inquiry.settle()) {
        Ok(requirements) => requirements,
        Err(why) => {
            wanted.iter().map(|gate| gate.standing(Standing::Unknown(why.clone()))).collect()
        }
    }
}

struct Inquiry<'a> {
    contract: &'a Contract<'a>,
    wanted: &'a [&'a Gate],
    place: &'a Place<'a>,
    cache: Cache,
}

/// What is known, by the gate's name.
#[derive(Default)]
struct Board(BTreeMap<String, Known>);

impl<'a> Inquiry<'a> {
    fn open(
        contract: &'a Contract<'a>,
        wanted: &'a [&'a Gate],
        place: &'a Place<'a>,
    ) -> Result<Self, String> {
        let cache = Cache::open(&contract.world.home).map_err(|error| describe(&error))?;
        Ok(Self { contract, wanted, place, cache })
    }

    fn settle(&self) -> Result<Vec<Requirement>, String> {
        let mut board = self.look()?;
        let mut left = Left::Done;
        let names = self.unknown(&board);
        if !names.is_empty() {
            let until = Deadline::after(self.contract.world.end.remaining().saturating_sub(MARGIN));
            let place = match self.place.content {
                Content::Tree { .. } => Where::Tree,
                Content::Checkout(_) => Where::Clean,
            };
            let task = Task { place, gates: names };
            left = work::start(self.contract, &task, until).map_err(|error| describe(&error))?;
            board = self.look()?;
        }
        Ok(self.requirements(board, left))
    }

    fn look(&self) -> Result<Board, String> {
        let view = View::of(self.place).map_err(|error| describe(&error))?;
        let known = self.wanted.iter().map(|gate| {
            let key = view.key(self.place, gate);
            let known = self.cache.look(&key).map_err(|error| describe(&error))?;
            // What told nothing is told once and then asked for again, or nobody could ever mend it.
            if let Known::Result(report) = &known
                && matches!(report.outcome, Outcome::Unknown(_))
            {
                drop(self.cache.forget(&key, &|| false));
            }
            Ok((gate.name.clone(), known))
        });
        known.collect::<Result<_, String>>().map(Board)
    }

    /// The names of gates that have to be asked: none beyond a stage that is known not to pass.
    fn unknown(&self, board: &Board) -> Vec<String> {
        let mut names = Vec::new();
        let mut missing = false;
        for stage in Stage::OF_GATES {
            let members = self.wanted.iter().filter(|gate| gate.stage == stage);
            let mut open = false;
            for gate in members {
                match board.0.get(&gate.name) {
                    Some(Known::Result(report)) => {
                        let requirement = self.judged(gate, report);
                        open |= requirement.is_open();
                        if !matches!(report.outcome, Outcome::Unknown(_)) {
                            names.push(gate.name.clone());
                        }
                    }
                    Some(Known::Running | Known::Nothing) | None => {
                        missing = true;
                        names.push(gate.name.clone());
                    }
                }
            }
            if open {
                break;
            }
        }
        if missing { names } else { Vec::new() }
    }

    fn judged(&self, gate: &Gate, report: &GateReport) -> Requirement {
        let base = baseline::is_wanted(gate, report)
            .then(|| work::known_at_base(self.contract, &self.cache, gate))
            .flatten();
        let report = baseline::compared(gate, report.clone(), base.as_ref());
        gate.requirement(&report, self.contract.seal.policy.baseline)
    }

    fn requirements(&self, mut board: Board, left: Left) -> Vec<Requirement> {
        let mut told = Vec::new();
        let mut waiting_for: Option<Stage> = None;
        for stage in Stage::OF_GATES {
            let mut open = false;
            for gate in self.wanted.iter().filter(|gate| gate.stage == stage) {
                let requirement = match (waiting_for, board.0.remove(&gate.name)) {
                    (Some(earlier), _) => {
                        let why = format!("comes after {} has passed", earlier.name());
                        gate.standing(Standing::Pending(Pending::NotReached(why)))
                    }
                    (None, Some(Known::Result(report))) => self.judged(gate, &report),
                    (None, Some(Known::Running)) => running(gate, "still running"),
                    (None, Some(Known::Nothing) | None) => match left {
                        Left::Running => running(gate, "waits for its turn"),
                        Left::Done => {
                            gate.standing(Standing::Unknown("it left no result".to_string()))
                        }
                    },
                };
                open |= requirement.is_open();
                told.push(requirement);
            }
            if open && waiting_for.is_none() {
                waiting_for = Some(stage);
            }
        }
        told
    }
}

fn running(gate: &Gate, how: &str) -> Requirement {
    let why = format!("{how}; its result is there at the next stop");
    gate.standing(Standing::Pending(Pending::Running(why)))
}
