//! Decides in which order gates run, and how many at once.

use std::collections::VecDeque;
use std::sync::Mutex;

use ralph_core::gate::{Gate, Unknown};
use ralph_core::requirement::{Stage, Weight};

use super::history::History;
use super::{Bench, Course, Order, Ran, Seen, not_run, one};

pub(super) fn all(course: &Course<'_>, bench: &Bench<'_>) -> Vec<Ran> {
    let history = History::read(course.place.home, course.place.project);
    let mut results: Vec<(usize, Ran)> = Vec::new();
    let mut waiting_for: Option<Stage> = None;
    for stage in Stage::OF_GATES {
        let members: Vec<(usize, &Gate)> = course
            .gates
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, gate)| gate.stage == stage)
            .collect();
        let members = quick_first(members, &history);
        if let (Some(earlier), Order::Staged) = (waiting_for, course.order) {
            results.extend(members.into_iter().map(|(at, gate)| {
                let why = format!("comes after {} has passed", earlier.name());
                (at, told(course, not_run(gate, Unknown::Skipped(why))))
            }));
            continue;
        }
        let ran = at_once(course, bench, members);
        if waiting_for.is_none()
            && ran
                .iter()
                .any(|(_, ran)| ran.gate.weight == Weight::Required && !(course.accepts)(ran))
        {
            waiting_for = Some(stage);
        }
        results.extend(ran);
    }
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, ran)| ran).collect()
}

/// Sorts gates by the magnitude of their last duration. Gates of similar duration keep the policy's order, so that one
/// slow run on a busy machine does not reorder them. Gates that never ran come last.
fn quick_first<'a>(
    mut members: Vec<(usize, &'a Gate)>,
    history: &History,
) -> Vec<(usize, &'a Gate)> {
    let magnitude = |expected_ms: u64| expected_ms.max(1).ilog2();
    members.sort_by_key(|(_, gate)| history.expected_ms(&gate.name).map_or(u32::MAX, magnitude));
    members
}

/// The end of the queue that a worker takes gates from.
#[derive(Clone, Copy)]
enum End {
    Quickest,
    Longest,
}

/// Runs gates in parallel, quick ones first, so that a quick failure shows early. With more than one core, one worker
/// starts with the longest gates, so that the longest does not start last.
fn at_once(
    course: &Course<'_>,
    bench: &Bench<'_>,
    members: Vec<(usize, &Gate)>,
) -> Vec<(usize, Ran)> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = cores.min(members.len());
    let queue = Mutex::new(VecDeque::from(members));
    let done = Mutex::new(Vec::new());
    let next = |end| {
        let mut queue = queue.lock().ok()?;
        match end {
            End::Quickest => queue.pop_front(),
            End::Longest => queue.pop_back(),
        }
    };
    let work = |end| {
        while let Some((at, gate)) = next(end) {
            let ran = if course.cancel.is_wished() {
                not_run(gate, Unknown::Error("cancelled".to_string()))
            } else {
                one(course, bench, gate)
            };
            let ran = told(course, ran);
            if let Ok(mut done) = done.lock() {
                done.push((at, ran));
            }
        }
    };
    std::thread::scope(|scope| {
        for worker in 1..workers {
            let end = if worker == 1 { End::Longest } else { End::Quickest };
            scope.spawn(move || work(end));
        }
        work(End::Quickest);
    });
    done.into_inner().unwrap_or_default()
}

fn told(course: &Course<'_>, ran: Ran) -> Ran {
    (course.watch)(Seen::Ended(&ran));
    ran
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::testing::gate;
    use ralph_home::paths::Home;
    use std::path::Path;

    #[test]
    fn the_quickest_gates_run_first() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_path_buf());
        let took = [("tests", 9000), ("types", 50), ("lint", 300), ("style", 290)];
        History::write(&home, Path::new("/p"), took.map(|(name, ms)| (name.to_string(), ms)));
        let gates = ["new", "tests", "lint", "style", "newer", "types"];
        let gates = gates.map(|name| gate(name, &["true"]));
        let members = gates.iter().enumerate().collect();
        let ordered = quick_first(members, &History::read(&home, Path::new("/p")));
        let names: Vec<_> = ordered.iter().map(|(_, gate)| gate.name.as_str()).collect();
        assert_eq!(names, ["types", "lint", "style", "tests", "new", "newer"]);
    }
}
