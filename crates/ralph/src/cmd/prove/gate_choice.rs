//! Chooses the gates of a proof by hand: those that prove a run, or those that a person names.

use super::super::gate::find_gate;
use crate::failure::CommandFailure;
use ralph_core::gate::{Gate, GateTrigger};
use ralph_deck::view::proof_report::LeftOutGateView;
use ralph_deck::wording::safe_line;
use ralph_policy::config::ProjectConfig;

/// The gates of a proof, and those of a stop that are not among them.
pub(super) struct GateChoice<'a> {
    pub(super) gates: Vec<&'a Gate>,
    pub(super) left_out: Vec<LeftOutGateView<'a>>,
}

pub(super) fn choose_gates<'a>(
    config: &'a ProjectConfig,
    names: &[String],
) -> Result<GateChoice<'a>, CommandFailure> {
    if !names.is_empty() {
        let mut gates: Vec<&Gate> = Vec::new();
        for name in names {
            let gate = find_gate(config, name)?;
            if !gates.iter().any(|known| known.name == gate.name) {
                gates.push(gate);
            }
        }
        return Ok(GateChoice { gates, left_out: Vec::new() });
    }
    let runs_here = |gate: &&Gate| gate.on.contains(&GateTrigger::Stop) && !gate.is_ci();
    let at_stop = config.policy.gates.iter().filter(runs_here);
    let (gates, others): (Vec<&Gate>, Vec<&Gate>) =
        at_stop.partition(|gate| gate.takes_part_in_proof());
    let left_out = |gate: &&'a Gate| LeftOutGateView {
        gate: &gate.name,
        because: if gate.proof { "advisory" } else { "proof = false" },
    };
    let left_out: Vec<_> = others.iter().map(left_out).collect();
    match (gates.is_empty(), left_out.is_empty()) {
        (false, _) => Ok(GateChoice { gates, left_out }),
        (true, true) => {
            let what = format!("no gates are set up for `{}`", config.project.display());
            let hint = "`ralph gate detect` proposes some and lists missing tools";
            Err(CommandFailure::new(&what, hint))
        }
        (true, false) => {
            let what = format!("no gate is part of a proof: {}", name_left_out(&left_out));
            Err(CommandFailure::new(&what, "name one with `--gate` to use it all the same"))
        }
    }
}

/// `lint (advisory), services (proof = false)`
pub(super) fn name_left_out(gates: &[LeftOutGateView<'_>]) -> String {
    let names: Vec<String> =
        gates.iter().map(|one| format!("{} ({})", safe_line(one.gate), one.because)).collect();
    names.join(", ")
}
