//! Writes `state/<session>/quality-gate.json`: the gate results of a run by stage, for other tools to read.

use std::collections::BTreeMap;

use ralph_core::decide::StopDecision;
use ralph_core::id::SessionId;
use ralph_core::record::{ReportLine, ReportedStatus, RunRecord, StopReport};
use ralph_core::requirement::RequirementStage;
use ralph_core::source::orchestrator::OrchestratorCondition;
use ralph_core::source::quality_gate;
use ralph_core::text;
use serde::Serialize;

use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs::{self, FileError};

const MAX_QUALITY_GATE_BYTES: usize = 4 * 1024 * 1024;

#[derive(Serialize)]
struct QualityGateView<'a> {
    ralph_run: &'a str,
    session_id: &'a str,
    last_result: &'static str,
    stages: BTreeMap<&'static str, QualityStageView>,
    last_updated: String,
}

#[derive(Serialize)]
struct QualityStageView {
    status: &'static str,
    details: Option<String>,
}

/// Writes the view of a run with gates, and never over a file that another tool wrote.
pub fn write_quality_gate_view(
    world: &World,
    session: &SessionId,
    run: &RunRecord,
    decision: &StopDecision,
) -> Result<(), FileError> {
    let (Some(seal), Some(report)) = (&run.seal, &decision.report) else { return Ok(()) };
    let directory = world.home.session_state(session);
    let path = directory.join("quality-gate.json");
    let ours = match fs::read_if_exists(&path, MAX_QUALITY_GATE_BYTES)? {
        None => true,
        Some(bytes) => quality_gate::read_quality_gate(&bytes).is_ok_and(|file| file.is_ours()),
    };
    if !ours {
        return Ok(());
    }
    let has_gates =
        |stage: &RequirementStage| seal.policy.gates.iter().any(|gate| gate.stage == *stage);
    let stages: BTreeMap<_, _> = RequirementStage::GATE_STAGES
        .into_iter()
        .filter(has_gates)
        .map(|stage| (stage.name(), stage_view(stage, report)))
        .collect();
    let view = QualityGateView {
        ralph_run: run.id.as_str(),
        session_id: session.as_str(),
        last_result: if report.open_count() == 0 { "passed" } else { "failed" },
        stages,
        last_updated: clock::format_rfc3339(clock::now_ms()),
    };
    fs::create_private_dir(&directory)?;
    fs::overwrite(&path, &fs::encode_pretty_json(&path, &view)?)
}

fn stage_view(stage: RequirementStage, report: &StopReport) -> QualityStageView {
    // Phase conditions only summarise the gates of the same stage.
    let is_of_gates =
        |line: &&ReportLine| OrchestratorCondition::ALL.iter().all(|it| it.name() != line.name);
    let lines = report.lines.iter().filter(|line| line.stage == stage.name()).filter(is_of_gates);
    let lines: Vec<&ReportLine> = lines.collect();
    let first = |standing: ReportedStatus| lines.iter().find(|line| line.standing == standing);
    let (status, line) = match (
        first(ReportedStatus::Unmet),
        first(ReportedStatus::Unknown),
        first(ReportedStatus::Pending),
    ) {
        (Some(line), ..) => ("failed", Some(line)),
        (None, Some(line), _) | (None, None, Some(line)) => ("pending", Some(line)),
        (None, None, None) => ("passed", None),
    };
    let details = line.map(|line| text::clean_line(&format!("{}: {}", line.name, line.note), 300));
    QualityStageView { status, details }
}
