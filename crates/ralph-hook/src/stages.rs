//! Writes `state/<session>/quality-gate.json`: the gate results of a run by stage, for other tools to read.

use std::collections::BTreeMap;

use ralph_core::decide::Decision;
use ralph_core::id::SessionId;
use ralph_core::record::{Known, Line, Report, Run};
use ralph_core::requirement::Stage;
use ralph_core::source::orchestrator::Condition;
use ralph_core::source::quality_gate;
use ralph_core::text;
use serde::Serialize;

use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs::{self, FileError};

const LARGEST: usize = 4 * 1024 * 1024;

#[derive(Serialize)]
struct View<'a> {
    ralph_run: &'a str,
    session_id: &'a str,
    last_result: &'static str,
    stages: BTreeMap<&'static str, StageView>,
    last_updated: String,
}

#[derive(Serialize)]
struct StageView {
    status: &'static str,
    details: Option<String>,
}

/// Writes the view of a run with gates, and never over a file that another tool wrote.
pub fn view(
    world: &World,
    session: &SessionId,
    run: &Run,
    decision: &Decision,
) -> Result<(), FileError> {
    let (Some(seal), Some(report)) = (&run.seal, &decision.report) else { return Ok(()) };
    let directory = world.home.state(session);
    let path = directory.join("quality-gate.json");
    let ours = match fs::read_opt(&path, LARGEST)? {
        None => true,
        Some(bytes) => quality_gate::read(&bytes).is_ok_and(|file| file.is_ours()),
    };
    if !ours {
        return Ok(());
    }
    let has_gates = |stage: &Stage| seal.policy.gates.iter().any(|gate| gate.stage == *stage);
    let stages: BTreeMap<_, _> = Stage::OF_GATES
        .into_iter()
        .filter(has_gates)
        .map(|stage| (stage.name(), of_stage(stage, report)))
        .collect();
    let view = View {
        ralph_run: run.id.as_str(),
        session_id: session.as_str(),
        last_result: if report.open() == 0 { "passed" } else { "failed" },
        stages,
        last_updated: clock::rfc3339(clock::now_ms()),
    };
    fs::create_dir(&directory)?;
    let mut bytes = serde_json::to_vec_pretty(&view).unwrap_or_default();
    bytes.push(b'\n');
    fs::overwrite(&path, &bytes)
}

fn of_stage(stage: Stage, report: &Report) -> StageView {
    // Phase conditions only summarise the gates of the same stage.
    let is_of_gates = |line: &&Line| Condition::ALL.iter().all(|it| it.name() != line.name);
    let lines = report.lines.iter().filter(|line| line.stage == stage.name()).filter(is_of_gates);
    let lines: Vec<&Line> = lines.collect();
    let first = |standing: Known| lines.iter().find(|line| line.standing == standing);
    let (status, line) = match (first(Known::Unmet), first(Known::Unknown), first(Known::Pending)) {
        (Some(line), ..) => ("failed", Some(line)),
        (None, Some(line), _) | (None, None, Some(line)) => ("pending", Some(line)),
        (None, None, None) => ("passed", None),
    };
    let details = line.map(|line| text::line(&format!("{}: {}", line.name, line.note), 300));
    StageView { status, details }
}
