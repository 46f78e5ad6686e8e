//! `ralph gate list`: the gates of the policy, stage by stage.

use super::gate_args::GateListArgs;
use super::{load_policy, moment_names};
use crate::cmd::{open_home, print_json};
use crate::describe;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_core::gate::Gate;
use ralph_core::requirement::{RequirementStage, RequirementWeight};
use ralph_core::text;
use ralph_gates::gates::gate_history::GateHistory;
use ralph_sys::env::Env;
use serde::Serialize;

#[derive(Serialize)]
struct GateListJson<'a> {
    v: u8,
    project: String,
    gates: Vec<GateDefinitionJson<'a>>,
}

#[derive(Serialize)]
pub(super) struct GateDefinitionJson<'a> {
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
    pub last_took_ms: Option<u64>,
}

pub(crate) fn run(env: &Env, args: &GateListArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let config = load_policy(env, &home, args.project.as_deref())?;
    let history = GateHistory::read(&home, &config.project);
    let gates = &config.policy.gates;
    if args.json {
        let gates = gates.iter().map(|gate| gate_json(gate, &history)).collect();
        print_json(&GateListJson { v: 1, project: config.project.display().to_string(), gates })?;
        return Ok(());
    }
    if gates.is_empty() {
        term::out(&format!(
            "no gates are set up for `{}`; `ralph gate detect` proposes some\n",
            config.project.display()
        ))?;
        return Ok(());
    }
    let width = gates.iter().map(|gate| gate.name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for stage in RequirementStage::GATE_STAGES {
        let members: Vec<_> = gates.iter().filter(|gate| gate.stage == stage).collect();
        if members.is_empty() {
            continue;
        }
        out.push_str(&format!("{}\n", paint(term::BOLD, stage.name())));
        for gate in members {
            let took =
                history.expected_ms(&gate.name).map(describe::short_duration).unwrap_or_default();
            let mut notes = Vec::new();
            if gate.weight == RequirementWeight::Advisory {
                notes.push("advisory".to_string());
            }
            if moment_names(gate) != "stop" {
                notes.push(format!("on {}", moment_names(gate)));
            }
            let notes =
                if notes.is_empty() { String::new() } else { format!("  ({})", notes.join("; ")) };
            out.push_str(&format!(
                "  {:<width$}  {took:>7}  `{}`{}\n",
                text::clean_line(&gate.name, 60),
                text::clean_line(&gate.command_line(), 200),
                paint(term::DIM, &notes)
            ));
        }
    }
    term::out(&out)?;
    Ok(())
}

pub(super) fn gate_json<'a>(gate: &'a Gate, history: &GateHistory) -> GateDefinitionJson<'a> {
    GateDefinitionJson {
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
        last_took_ms: history.expected_ms(&gate.name),
    }
}
