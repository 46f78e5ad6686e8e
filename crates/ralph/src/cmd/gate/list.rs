//! `ralph gate list`: the gates of the policy, stage by stage.

use super::args::GateList;
use super::{moments, policy};
use crate::cmd::{home, print_json};
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording;
use ralph_core::gate::Gate;
use ralph_core::requirement::{Stage, Weight};
use ralph_core::text;
use ralph_gates::gates::history::History;
use ralph_sys::env::Env;
use serde::Serialize;

#[derive(Serialize)]
struct GatesJson<'a> {
    v: u8,
    project: String,
    gates: Vec<GateJson<'a>>,
}

#[derive(Serialize)]
pub(super) struct GateJson<'a> {
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

pub(crate) fn run(env: &Env, args: &GateList) -> Result<(), Failure> {
    let home = home(env)?;
    let config = policy(env, &home, args.project.as_deref())?;
    let history = History::read(&home, &config.project);
    let gates = &config.policy.gates;
    if args.json {
        let gates = gates.iter().map(|gate| json(gate, &history)).collect();
        print_json(&GatesJson { v: 1, project: config.project.display().to_string(), gates })?;
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
    for stage in Stage::OF_GATES {
        let members: Vec<_> = gates.iter().filter(|gate| gate.stage == stage).collect();
        if members.is_empty() {
            continue;
        }
        out.push_str(&format!("{}\n", paint(term::BOLD, stage.name())));
        for gate in members {
            let took =
                history.expected_ms(&gate.name).map(wording::short_duration).unwrap_or_default();
            let mut notes = Vec::new();
            if gate.weight == Weight::Advisory {
                notes.push("advisory".to_string());
            }
            if moments(gate) != "stop" {
                notes.push(format!("on {}", moments(gate)));
            }
            let notes =
                if notes.is_empty() { String::new() } else { format!("  ({})", notes.join("; ")) };
            out.push_str(&format!(
                "  {:<width$}  {took:>7}  `{}`{}\n",
                text::line(&gate.name, 60),
                text::line(&gate.shown(), 200),
                paint(term::DIM, &notes)
            ));
        }
    }
    term::out(&out)?;
    Ok(())
}

pub(super) fn json<'a>(gate: &'a Gate, history: &History) -> GateJson<'a> {
    GateJson {
        name: &gate.name,
        stage: gate.stage.name(),
        required: gate.weight == Weight::Required,
        command: gate.shown(),
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
