//! The gates of a policy, and what the result of one depends on.

use crate::gate_wording;
use crate::wording::{self, count_noun};
use ralph_core::ci_query::CiQuery;
use ralph_core::coverage::CoverageConditions;
use ralph_core::gate::{FindingLimits, Gate, GateTrigger};
use ralph_core::judge::{Judge, JudgeBackend};
use ralph_core::policy::Policy;
use ralph_core::requirement::RequirementWeight;
use ralph_gates::findings::write;
use ralph_gates::gates::GateExplanation;
use ralph_gates::gates::gate_history::GateHistory;
use ralph_gates::gates::result_cache::CachedResult;
use ralph_sys::clock;
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Serialize)]
pub struct GateListView<'a> {
    pub v: u8,
    pub project: String,
    pub gates: Vec<GateDefinitionView<'a>>,
    pub judges: Vec<JudgeDefinitionView<'a>>,
}

/// A `[[judge]]` without its instructions. The backend is that of `ralph.toml`: the key is the name of a variable.
#[derive(Debug, Serialize)]
pub struct JudgeDefinitionView<'a> {
    pub name: &'a str,
    pub kind: &'static str,
    pub required: bool,
    pub counts: bool,
    pub backend: &'a JudgeBackend,
    pub prompt: Option<&'a str>,
    pub max_tokens: u64,
    pub timeout_ms: u64,
    pub reviewers: u8,
    pub when: &'a [String],
    pub min_complexity: u8,
}

/// A `[[ci]]`: where it asks, and for how long.
#[derive(Debug, Serialize)]
pub struct CiDefinitionView<'a> {
    pub name: &'a str,
    pub required: bool,
    #[serde(flatten)]
    pub query: &'a CiQuery,
    pub timeout_ms: u64,
}

#[derive(Debug, Serialize)]
pub struct GateDefinitionView<'a> {
    pub name: &'a str,
    pub stage: &'static str,
    pub required: bool,
    pub command: String,
    pub cwd: &'a str,
    pub timeout_ms: u64,
    pub paths: &'a [String],
    pub when: &'a [String],
    pub on: Vec<&'static str>,
    pub min_complexity: u8,
    pub report: &'static str,
    pub tier: &'static str,
    #[serde(skip_serializing_if = "CoverageConditions::is_empty")]
    pub coverage: &'a CoverageConditions,
    #[serde(skip_serializing_if = "FindingLimits::is_empty")]
    pub limits: FindingLimits,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci: Option<&'a CiQuery>,
    pub last_took_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
pub struct GateExplainView<'a> {
    pub v: u8,
    #[serde(rename = "gate")]
    pub definition: GateDefinitionView<'a>,
    pub approved: bool,
    pub key: String,
    pub files: usize,
    pub tools: &'a [String],
    pub environment: &'a [String],
    pub known: &'static str,
    pub result: Option<write::GateReportJson<'a>>,
}

pub fn gate_list_view<'a>(
    project: &Path,
    policy: &'a Policy,
    history: &GateHistory,
) -> GateListView<'a> {
    let gates = policy.gates.iter().map(|gate| gate_definition_view(gate, history)).collect();
    let judges = policy.judges.iter().map(judge_definition_view).collect();
    GateListView { v: 1, project: project.display().to_string(), gates, judges }
}

pub fn judge_definition_view(judge: &Judge) -> JudgeDefinitionView<'_> {
    JudgeDefinitionView {
        name: &judge.name,
        kind: judge.kind.name(),
        required: judge.is_required(),
        counts: judge.counts,
        backend: &judge.backend,
        prompt: judge.prompt_file.as_deref(),
        max_tokens: judge.max_tokens,
        timeout_ms: judge.timeout_ms,
        reviewers: judge.reviewers,
        when: &judge.when,
        min_complexity: judge.min_complexity,
    }
}

/// `None` for a gate that asks no provider.
pub fn ci_definition_view(gate: &Gate) -> Option<CiDefinitionView<'_>> {
    Some(CiDefinitionView {
        name: &gate.name,
        required: gate.weight == RequirementWeight::Required,
        query: gate.ci.as_ref()?,
        timeout_ms: gate.timeout_ms,
    })
}

pub fn gate_definition_view<'a>(gate: &'a Gate, history: &GateHistory) -> GateDefinitionView<'a> {
    GateDefinitionView {
        name: &gate.name,
        stage: gate.stage.name(),
        required: gate.weight == RequirementWeight::Required,
        command: gate.command_line(),
        cwd: &gate.cwd,
        timeout_ms: gate.timeout_ms,
        paths: &gate.paths,
        when: &gate.when,
        on: gate.on.iter().map(|moment| moment.name()).collect(),
        min_complexity: gate.min_complexity,
        report: gate.report.name(),
        tier: gate.tier.name(),
        coverage: &gate.coverage,
        limits: gate.limits,
        ci: gate.ci.as_ref(),
        last_took_ms: history.expected_ms(&gate.name),
    }
}

pub fn gate_explain_view<'a>(
    definition: GateDefinitionView<'a>,
    gate: &'a Gate,
    explained: &'a GateExplanation,
    is_approved: bool,
) -> GateExplainView<'a> {
    let (known, result) = match &explained.cached {
        CachedResult::Result(report) => {
            let ran = write::ReportedGate { gate, report, cached: true };
            ("result", Some(write::gate_report_json(&ran)))
        }
        CachedResult::Running => ("running", None),
        CachedResult::Missing => ("nothing", None),
    };
    GateExplainView {
        v: 1,
        definition,
        approved: is_approved,
        key: explained.key.hex(),
        files: explained.files,
        tools: &explained.tools,
        environment: &explained.environment,
        known,
        result,
    }
}

/// The moments at which a gate runs.
pub fn moment_names(gate: &Gate) -> String {
    gate.on.iter().map(|moment: &GateTrigger| moment.name()).collect::<Vec<_>>().join(", ")
}

/// What a gate reads.
pub fn read_files_text(paths: &[String], files: usize) -> String {
    let noun = count_noun(files, "file");
    if paths.is_empty() {
        format!("everything: {noun}")
    } else {
        format!("{}: {noun}", paths.join(", "))
    }
}

/// What is known about the gate and the present content.
pub fn cached_result_text(explained: &GateExplanation) -> String {
    match &explained.cached {
        CachedResult::Missing => "no result for this content yet: it would run".to_string(),
        CachedResult::Running => "it is running now".to_string(),
        CachedResult::Result(report) => {
            let note = gate_wording::gate_note(report);
            let note = if note.is_empty() { String::new() } else { format!(": {note}") };
            let ago = wording::ago(clock::now_ms(), report.at_ms);
            format!("{}{note} ({ago}, key {})", report.outcome.name(), &explained.key.hex()[..12])
        }
    }
}
