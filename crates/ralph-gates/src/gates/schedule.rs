//! Decides in which order gates run, and how many at once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use ralph_core::gate::{Gate, GateBatch, UnknownReason};
use ralph_core::requirement::RequirementWeight;

use super::gate_history::GateHistory;
use super::{
    GateEvent, GateOrder, GateResult, GateRunRequest, ResultLookup, not_run_result, run_gate,
};

pub(super) fn run_stages(course: &GateRunRequest<'_>, bench: &ResultLookup<'_>) -> Vec<GateResult> {
    let history = GateHistory::read(course.context.home, course.context.project);
    let mut results: Vec<(usize, GateResult)> = Vec::new();
    let mut waiting_for: Option<GateBatch> = None;
    for batch in GateBatch::all() {
        let members: Vec<(usize, &Gate)> = course
            .gates
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, gate)| gate.batch() == batch)
            .collect();
        let members = sort_by_duration(members, &history);
        if let (Some(earlier), GateOrder::Staged) = (waiting_for, course.order) {
            results.extend(members.into_iter().map(|(at, gate)| {
                let why = batch.wait_reason(earlier).why().to_string();
                (at, report_ended(course, not_run_result(gate, UnknownReason::Skipped(why))))
            }));
            continue;
        }
        let ran = run_in_parallel(course, bench, members);
        if waiting_for.is_none()
            && ran.iter().any(|(_, ran)| {
                ran.gate.weight == RequirementWeight::Required && !(course.accepts)(ran)
            })
        {
            waiting_for = Some(batch);
        }
        results.extend(ran);
    }
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, ran)| ran).collect()
}

/// Sorts gates by the magnitude of their last duration. Gates of similar duration keep the policy's order, so that one
/// slow run on a busy machine does not reorder them. Gates that never ran come last.
fn sort_by_duration<'a>(
    mut members: Vec<(usize, &'a Gate)>,
    history: &GateHistory,
) -> Vec<(usize, &'a Gate)> {
    let magnitude = |expected_ms: u64| expected_ms.max(1).ilog2();
    members.sort_by_key(|(_, gate)| history.expected_ms(&gate.name).map_or(u32::MAX, magnitude));
    members
}

/// The end of the queue that a worker takes gates from.
#[derive(Clone, Copy)]
enum QueueEnd {
    Quickest,
    Longest,
}

/// Runs gates in parallel, quick ones first, so that a quick failure shows early. With more than one core, one worker
/// starts with the longest gates, so that the longest does not start last.
fn run_in_parallel(
    course: &GateRunRequest<'_>,
    bench: &ResultLookup<'_>,
    members: Vec<(usize, &Gate)>,
) -> Vec<(usize, GateResult)> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = cores.min(members.len());
    let queue = Mutex::new(VecDeque::from(members));
    let done = Mutex::new(Vec::new());
    let next = |end| {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            QueueEnd::Quickest => queue.pop_front(),
            QueueEnd::Longest => queue.pop_back(),
        }
    };
    let work = |end| {
        while let Some((at, gate)) = next(end) {
            let ran = if course.cancel.is_cancelled() {
                not_run_result(gate, UnknownReason::Error("cancelled".to_string()))
            } else {
                run_gate(course, bench, gate)
            };
            let ran = report_ended(course, ran);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, ran));
        }
    };
    std::thread::scope(|scope| {
        for worker in 1..workers {
            let end = if worker == 1 { QueueEnd::Longest } else { QueueEnd::Quickest };
            scope.spawn(move || work(end));
        }
        work(QueueEnd::Quickest);
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn report_ended(course: &GateRunRequest<'_>, ran: GateResult) -> GateResult {
    (course.watch)(GateEvent::Ended(&ran));
    ran
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::testing::sample_gate;
    use ralph_home::paths::RalphHome;
    use std::path::Path;

    #[test]
    fn the_quickest_gates_run_first() {
        let dir = tempfile::tempdir().unwrap();
        let home = RalphHome::new(dir.path().to_path_buf());
        let took = [("tests", 9000), ("types", 50), ("lint", 300), ("style", 290)];
        GateHistory::write(&home, Path::new("/p"), took.map(|(name, ms)| (name.to_string(), ms)));
        let gates = ["new", "tests", "lint", "style", "newer", "types"];
        let gates = gates.map(|name| sample_gate(name, &["true"]));
        let members = gates.iter().enumerate().collect();
        let ordered = sort_by_duration(members, &GateHistory::read(&home, Path::new("/p")));
        let names: Vec<_> = ordered.iter().map(|(_, gate)| gate.name.as_str()).collect();
        assert_eq!(names, ["types", "lint", "style", "tests", "new", "newer"]);
    }
}
