//! Requirements from the nine conditions of a run that works in phases.

use crate::contract::Judged;
use crate::orchestrator;
use ralph_core::gate::{Gate, Moment};
use ralph_core::record::Asked;
use ralph_core::requirement::{Requirement, Stage, Weight};
use ralph_core::source::orchestrator::{Gauge, Gauges, conditions, ignored};
use ralph_core::waiver;
use ralph_home::faults::{self, Fault, Kind};
use ralph_home::store::Opened;
use ralph_home::world::World;

/// The conditions as requirements; empty for a run without phases.
pub(super) fn of_run(world: &World, seen: &Opened, judged: Option<&Judged>) -> Vec<Requirement> {
    if seen.run.phases == Asked::No {
        return Vec::new();
    }
    let adopted = orchestrator::adopt(&world.home, seen, &world.deadline());
    let (opened, unheeded) = adopted.unwrap_or_else(|error| {
        let fault = Fault::new(Kind::File, &faults::describe(&error)).of_run(&seen.run.id);
        faults::record(&world.home, &fault);
        (seen.clone(), Vec::new())
    });
    let gauge = |stage: Stage| {
        judged.map_or(Gauge::Absent, |judged| gauge(world, &opened, (judged, stage)))
    };
    let gauges = Gauges {
        correctness: gauge(Stage::Correctness),
        quality: gauge(Stage::Quality),
        adversarial: gauge(Stage::Adversarial),
    };
    let mut requirements = conditions(&orchestrator::ground(&world.home, &opened), &gauges);
    requirements.extend(ignored(&unheeded));
    requirements
}

/// The combined state of the required gates of one stage at a stop. Waived gates do not count as open.
fn gauge(world: &World, opened: &Opened, (judged, stage): (&Judged, Stage)) -> Gauge {
    let counts = |gate: &&Gate| {
        gate.stage == stage && gate.weight == Weight::Required && gate.on.contains(&Moment::Stop)
    };
    let gates = opened.run.seal.iter().flat_map(|seal| &seal.policy.gates).filter(counts);
    let measured: Vec<&Requirement> = gates
        .filter_map(|gate| judged.requirements.iter().find(|one| one.name == gate.name))
        .collect();
    let is_open = |one: &&Requirement| {
        one.is_open() && waiver::of(&one.name, &opened.state.waivers, world.arrived_ms).is_none()
    };
    let open: Vec<&Requirement> = measured.iter().copied().filter(is_open).collect();
    let named = |wanted: fn(&Requirement) -> bool| -> Vec<String> {
        open.iter().filter(|one| wanted(one)).map(|one| one.name.clone()).collect()
    };
    let (failed, running) = (named(Requirement::is_unmet), named(Requirement::is_running));
    if measured.is_empty() {
        Gauge::Absent
    } else if open.is_empty() {
        Gauge::Passed
    } else if !failed.is_empty() {
        Gauge::Failed(failed)
    } else if running.len() == open.len() {
        Gauge::Running(running)
    } else {
        Gauge::Untold(named(|_| true))
    }
}
