//! The output of `ralph import --json`.

use super::{ImportPlan, next_steps};
use crate::cmd::init::InstallStatus;
use ralph_core::gate::GateInvocation;
use ralph_deck::wording;
use ralph_lists::import::{ImportSource, ImportedContent};
use ralph_policy::detect::{ProposedGate, ToolLookup};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct ImportJson<'a> {
    v: u8,
    project: String,
    name: &'a str,
    status: InstallStatus,
    features: usize,
    done: usize,
    sources: Vec<ImportSourceJson<'a>>,
    gates: Vec<ImportGateJson<'a>>,
    limits: ImportLimitsJson<'a>,
    notes: Vec<&'a str>,
    files: Vec<ImportFileJson<'a>>,
    next: Vec<String>,
}

#[derive(Serialize)]
struct ImportSourceJson<'a> {
    path: &'a str,
    family: &'static str,
    error: Option<&'a str>,
    items: usize,
    done: usize,
    checks: usize,
    commands: usize,
    protect: &'a [String],
    line_rules: usize,
    goal: bool,
    reference: bool,
    not_understood: Vec<ImportLineJson<'a>>,
    kept: Vec<ImportKeptJson<'a>>,
    ignored: Vec<ImportIgnoredJson<'a>>,
}

#[derive(Serialize)]
struct ImportLineJson<'a> {
    line: u32,
    text: &'a str,
    why: &'static str,
}

#[derive(Serialize)]
struct ImportKeptJson<'a> {
    key: &'a str,
    line: Option<u32>,
}

#[derive(Serialize)]
struct ImportIgnoredJson<'a> {
    key: &'a str,
    why: &'static str,
}

#[derive(Serialize)]
struct ImportGateJson<'a> {
    name: &'a str,
    run: Option<&'a [String]>,
    shell: Option<&'a str>,
    source: String,
    active: bool,
}

#[derive(Serialize)]
struct ImportLimitsJson<'a> {
    max_iterations: Option<u32>,
    max_duration_ms: Option<u64>,
    max_cost_usd: Option<f64>,
    stuck_after: Option<u32>,
    completion_promise: Option<&'a str>,
}

#[derive(Serialize)]
struct ImportFileJson<'a> {
    path: String,
    text: &'a str,
}

pub(super) fn import_json(planned: &ImportPlan, status: InstallStatus) -> ImportJson<'_> {
    let merged = &planned.merged;
    let notes = merged.conflicts.iter().chain(&planned.detected.notes);
    ImportJson {
        v: 1,
        project: planned.project.display().to_string(),
        name: &planned.name,
        status,
        features: merged.features.len(),
        done: merged.features.iter().filter(|feature| feature.passes).count(),
        sources: planned.sources.iter().map(source_json).collect(),
        gates: planned.detected.gates.iter().map(gate_json).collect(),
        limits: ImportLimitsJson {
            max_iterations: merged.limits.iterations,
            max_duration_ms: merged.limits.duration_ms,
            max_cost_usd: merged.limits.micro_usd.map(wording::micro_usd_as_usd),
            stuck_after: merged.limits.stuck_after,
            completion_promise: merged.limits.promise.as_deref(),
        },
        notes: notes.map(String::as_str).collect(),
        files: planned
            .files
            .iter()
            .map(|file| ImportFileJson { path: file.path.display().to_string(), text: &file.text })
            .collect(),
        next: next_steps(planned),
    }
}

fn source_json(source: &ImportSource) -> ImportSourceJson<'_> {
    let content = source.content.as_ref().ok();
    let features = content.map(|content| content.features.as_slice()).unwrap_or_default();
    let kept = content.map(|content| content.kept.as_slice()).unwrap_or_default();
    let ignored = content.map(|content| content.ignored.as_slice()).unwrap_or_default();
    ImportSourceJson {
        path: &source.path,
        family: source.family.name(),
        error: source.content.as_ref().err().map(String::as_str),
        items: features.len(),
        done: features.iter().filter(|feature| feature.passes).count(),
        checks: features.iter().filter(|feature| feature.verify.is_some()).count(),
        commands: content.map_or(0, |content| content.commands.len()),
        protect: content.map(|content| content.protect.as_slice()).unwrap_or_default(),
        line_rules: content.map_or(0, |content| content.line_rules.len()),
        goal: content.is_some_and(|content| !content.goal.is_empty()),
        reference: content.is_some_and(|content| content.is_reference),
        not_understood: content.map(not_understood_json).unwrap_or_default(),
        kept: kept.iter().map(|kept| ImportKeptJson { key: &kept.key, line: kept.line }).collect(),
        ignored: ignored
            .iter()
            .map(|ignored| ImportIgnoredJson { key: &ignored.key, why: ignored.why })
            .collect(),
    }
}

fn not_understood_json(content: &ImportedContent) -> Vec<ImportLineJson<'_>> {
    let lines = content.not_understood();
    lines.map(|(line, why)| ImportLineJson { line: line.line, text: &line.text, why }).collect()
}

fn gate_json(proposal: &ProposedGate) -> ImportGateJson<'_> {
    let (run, shell) = match &proposal.gate.command {
        GateInvocation::Argv(words) => (Some(words.as_slice()), None),
        GateInvocation::Shell(line) => (None, Some(line.as_str())),
    };
    ImportGateJson {
        name: &proposal.gate.name,
        run,
        shell,
        source: proposal.source.display().to_string(),
        active: matches!(proposal.tool, ToolLookup::Found(_)),
    }
}
