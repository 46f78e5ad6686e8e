//! `ralph list gates`: the gates of the policy, stage by stage, then its judges.

use super::gate_args::GateListArgs;
use super::load_policy;
use crate::cmd::{open_home, print_json};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_core::gate::GateTier;
use ralph_core::requirement::{RequirementStage, RequirementWeight};
use ralph_core::text;
use ralph_deck::view::gate_list::{self, moment_names};
use ralph_deck::wording;
use ralph_gates::gates::gate_history::GateHistory;
use ralph_sys::env::Env;

pub(crate) fn run(env: &Env, args: &GateListArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let config = load_policy(env, &home, args.output.project.as_deref())?;
    let history = GateHistory::read(&home, &config.project);
    let gates = &config.policy.gates;
    if args.output.json {
        print_json(&gate_list::gate_list_view(&config.project, &config.policy, &history))?;
        return Ok(());
    }
    let judges = &config.policy.judges;
    if gates.is_empty() && judges.is_empty() {
        term::out(&format!(
            "no gates are set up for `{}`; `ralph gate detect` proposes some\n",
            config.project.display()
        ))?;
        return Ok(());
    }
    let names = gates.iter().map(|gate| &gate.name).chain(judges.iter().map(|judge| &judge.name));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for stage in RequirementStage::GATE_STAGES {
        let members: Vec<_> = gates.iter().filter(|gate| gate.stage == stage).collect();
        if members.is_empty() {
            continue;
        }
        out.push_str(&format!("{}\n", paint(term::BOLD, stage.name())));
        for gate in members {
            let took =
                history.expected_ms(&gate.name).map(wording::short_duration).unwrap_or_default();
            let mut notes = Vec::new();
            if gate.weight == RequirementWeight::Advisory {
                notes.push("advisory".to_string());
            }
            if gate.tier == GateTier::Slow {
                notes.push("slow: after everything else".to_string());
            }
            notes.extend(gate.ci.as_ref().map(|query| query.describe(gate.timeout_ms)));
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
    if !judges.is_empty() {
        out.push_str(&format!("{}\n", paint(term::BOLD, "judges")));
    }
    for judge in judges {
        let notes = format!("  ({})", judge.describe_limits());
        out.push_str(&format!(
            "  {:<width$}  {:>7}  `{}`{}\n",
            text::clean_line(&judge.name, 60),
            "",
            text::clean_line(&text::reveal(&judge.backend.describe()), 200),
            paint(term::DIM, &notes)
        ));
    }
    term::out(&out)?;
    Ok(())
}
