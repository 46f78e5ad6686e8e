//! `ralph gate explain`: what the result of a gate depends on, and its cached result.

use super::gate_args::GateExplainArgs;
use super::{find_gate, load_policy};
use crate::cmd::{open_home, print_json};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_core::gate::{Gate, GateTier, RerunPolicy};
use ralph_core::requirement::RequirementWeight;
use ralph_core::text;
use ralph_core::units;
use ralph_deck::view::gate_list::{
    cached_result_text, gate_definition_view, gate_explain_view, moment_names, read_files_text,
};
use ralph_gates::gates::gate_history::GateHistory;
use ralph_gates::gates::{self, GateContent, GateContext, GateExplanation};
use ralph_policy::trust;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;

pub(crate) fn run(env: &Env, args: &GateExplainArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let config = load_policy(env, &home, args.output.project.as_deref())?;
    let gate = find_gate(&config, &args.name)?;
    let subject = trust::policy_subject(&home, &config, env)?;
    let is_approved = trust::is_approved(&home, &subject);
    let path = trust::recorded_path(&home, &subject);
    let place = GateContext {
        home: &home,
        env,
        project: &config.project,
        content: GateContent::Tree { exclude: &[home.root().to_path_buf()] },
        environment: &config.policy.environment,
        path: path.as_deref(),
        mounts: None,
        ci_base: None,
        deadline: Deadline::after(super::LISTING_TIMEOUT),
    };
    let explained = gates::explain_gate(&place, gate)
        .map_err(|error| CommandFailure::caused_by("cannot explain the gate", &error))?;
    let history = GateHistory::read(&home, &config.project);
    if args.output.json {
        let definition = gate_definition_view(gate, &history);
        print_json(&gate_explain_view(definition, gate, &explained, is_approved))?;
        return Ok(());
    }
    term::out(&render_explanation(gate, &explained, is_approved))?;
    Ok(())
}

fn render_explanation(gate: &Gate, explained: &GateExplanation, is_approved: bool) -> String {
    let place = if gate.cwd.is_empty() {
        String::new()
    } else {
        format!(", in `{}`", text::clean_line(&gate.cwd, 200))
    };
    let weight = match gate.weight {
        RequirementWeight::Required => "required",
        RequirementWeight::Advisory => "advisory",
    };
    let mut rows = vec![
        ("runs", format!("`{}`{place}", text::clean_line(&gate.command_line(), 400))),
        ("stage", format!("{}, {weight}, on {}", gate.stage.name(), moment_names(gate))),
        ("timeout", units::format_duration(gate.timeout_ms)),
        ("reads", read_files_text(&gate.paths, explained.files)),
    ];
    let rerun = match gate.rerun {
        RerunPolicy::Tests => "a failed test has to fail twice",
        RerunPolicy::Always => "every failure has to occur twice",
        RerunPolicy::Never => "a failure counts at once",
    };
    rows.push(("rerun", rerun.to_string()));
    if !gate.when.is_empty() {
        rows.push(("when", format!("something in {} changed", gate.when.join(", "))));
    }
    rows.push(("report", gate.report.name().to_string()));
    let conditions = condition_texts(gate);
    if !conditions.is_empty() {
        rows.push(("requires", conditions.join(", ")));
    }
    rows.push((
        "tools",
        if explained.tools.is_empty() {
            "not found on `PATH`".to_string()
        } else {
            explained.tools.join(", ")
        },
    ));
    rows.push(("sees", explained.environment.join(" ")));
    rows.push((
        "approved",
        if is_approved { "yes".to_string() } else { "no: run `ralph trust`".to_string() },
    ));
    rows.push(("known", cached_result_text(explained)));
    let mut out = format!("{}\n", paint(term::BOLD, &text::clean_line(&gate.name, 60)));
    for (label, value) in rows {
        out.push_str(&format!("  {label:<8}  {}\n", text::clean_line(&value, 2000)));
    }
    out
}

/// `80 % coverage, 90 % of changed lines, at most 0 warnings`
fn condition_texts(gate: &Gate) -> Vec<String> {
    let (coverage, limits) = (&gate.coverage, &gate.limits);
    let limit = |most: Option<u32>, noun: &str| {
        most.map(|most| format!("at most {}", text::count_noun(most, noun)))
    };
    let slow = gate.tier == GateTier::Slow;
    let texts = [
        slow.then(|| "everything else first".to_string()),
        coverage.min.map(|share| format!("{} coverage", share.describe())),
        coverage.min_changed.map(|share| format!("{} of changed lines", share.describe())),
        coverage.ratchet.then(|| "no less coverage than at the start".to_string()),
        limit(limits.errors, "error"),
        limit(limits.warnings, "warning"),
        limit(limits.notes, "note"),
    ];
    texts.into_iter().flatten().collect()
}
