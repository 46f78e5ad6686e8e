//! In which order, and how many at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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
        let ran = at_once(course, bench, &members);
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

/// A failure that takes a second to see is not waited for. What never ran comes last, in the order of the policy.
fn quick_first<'a>(
    mut members: Vec<(usize, &'a Gate)>,
    history: &History,
) -> Vec<(usize, &'a Gate)> {
    members.sort_by_key(|(_, gate)| history.expected_ms(&gate.name).unwrap_or(u64::MAX));
    members
}

fn at_once(
    course: &Course<'_>,
    bench: &Bench<'_>,
    members: &[(usize, &Gate)],
) -> Vec<(usize, Ran)> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some((at, gate)) = members.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ran = if course.cancel.is_wished() {
                not_run(gate, Unknown::Error("cancelled".to_string()))
            } else {
                one(course, bench, gate)
            };
            let ran = told(course, ran);
            if let Ok(mut done) = done.lock() {
                done.push((*at, ran));
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 1..cores.min(members.len()) {
            scope.spawn(work);
        }
        work();
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
    use crate::paths::Home;
    use std::path::Path;

    #[test]
    fn what_was_quick_last_time_runs_first() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_path_buf());
        let took = [("tests", 9000), ("types", 50), ("lint", 300)];
        History::write(&home, Path::new("/p"), took.map(|(name, ms)| (name.to_string(), ms)));
        let gates = ["new", "tests", "lint", "newer", "types"].map(|name| gate(name, &["true"]));
        let members = gates.iter().enumerate().collect();
        let ordered = quick_first(members, &History::read(&home, Path::new("/p")));
        let names: Vec<_> = ordered.iter().map(|(_, gate)| gate.name.as_str()).collect();
        assert_eq!(names, ["types", "lint", "tests", "new", "newer"]);
    }
}
