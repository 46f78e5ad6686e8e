//! `ralph feature verify`: runs the checks of features as a run would.

use super::feature_args::FeatureVerifyArgs;
use super::{ChosenLoop, choose_loop, trust_command};
use crate::cmd::gate;
use crate::failure::CommandFailure;
use crate::term;
use ralph_core::gate::Gate;
use ralph_core::policy::GateEnvironment;
use ralph_core::source::work_list::{self, ListItem};
use ralph_deck::view::feature_list::feature_id;
use ralph_deck::view::gate_results::{gate_exit_code, reported_gate};
use ralph_deck::wording::safe_line;
use ralph_gates::findings::write;
use ralph_gates::gates::{
    self, GateContent, GateContext, GateEvent, GateOrder, GateResult, GateRunRequest, ResultReuse,
};
use ralph_lists::loops::{self, FeatureError};
use ralph_lists::run_lists::{self, ListWithChecks};
use ralph_policy::{config, trust};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;

pub(crate) fn run(env: &Env, args: &FeatureVerifyArgs) -> Result<u8, CommandFailure> {
    let chosen = choose_loop(env, &args.which)?;
    let checked = run_lists::read_list_checks(&chosen.project, &chosen.selected.list())
        .map_err(FeatureError::from)?;
    let named = wanted_checks(&chosen, &checked, args)?;
    if !trust::is_approved(&chosen.home, &checked.subject) {
        let what = format!(
            "the checks of `{}` are not approved, so none was run",
            safe_line(&chosen.selected.name)
        );
        let hint = format!(
            "`{}` shows what would run and asks for approval",
            trust_command(env, &chosen.selected)
        );
        return Err(CommandFailure::untrusted(&what, &hint));
    }
    let config = config::load(&chosen.project, &chosen.home)?;
    // The environment of the checks is that of the policy.
    if config.policy.environment != GateEnvironment::default() {
        gate::require_approval(env, &chosen.home, &config, None)?;
    }
    let path = trust::recorded_path(&chosen.home, &checked.subject);
    let cancel = crate::cmd::cancel_on_signals()?;
    let exclude = [chosen.selected.directory.clone(), chosen.home.root().to_path_buf()];
    let gates: Vec<&Gate> = named.iter().map(|(gate, _)| gate).collect();
    let course = GateRunRequest {
        listing: None,
        context: GateContext {
            home: &chosen.home,
            env,
            project: &config.project,
            content: GateContent::Tree { exclude: &exclude },
            environment: &config.policy.environment,
            path: path.as_deref(),
            mounts: None,
            ci_base: None,
            deadline: Deadline::after(gate::LISTING_TIMEOUT),
        },
        gates: &gates,
        order: GateOrder::All,
        reuse: ResultReuse::Cached,
        cancel: &cancel,
        ci_checkout: None,
        accepts: &GateResult::passed,
        watch: &|_| {},
    };
    let line = |seen: GateEvent<'_>| {
        if let GateEvent::Ended(ran) = seen {
            gate::gate_run::plain_line(GateEvent::Ended(&with_feature_name(ran, &named)));
        }
    };
    let watch: &(dyn Fn(GateEvent<'_>) + Sync) = if args.which.json { &|_| {} } else { &line };
    let ran: Vec<GateResult> = gates::run_gates(&GateRunRequest { watch, ..course })
        .iter()
        .map(|ran| with_feature_name(ran, &named))
        .collect();
    if args.which.json {
        let results: Vec<_> = ran.iter().map(reported_gate).collect();
        term::out(
            &write::write_json(&results).map_err(|error| gate::gate_run::report_failure(&error))?,
        )?;
    } else {
        term::out(&gate::gate_run::render_results(&ran, "check"))?;
    }
    Ok(if cancel.is_cancelled() { gate::gate_run::INTERRUPTED } else { gate_exit_code(&ran) })
}

/// The checks to run, each with the name of its feature. They are numbered as in the run that works on the loop, so
/// that its next stop reuses the cached results.
fn wanted_checks(
    chosen: &ChosenLoop,
    checked: &ListWithChecks,
    args: &FeatureVerifyArgs,
) -> Result<Vec<(Gate, String)>, CommandFailure> {
    let number = chosen.run.as_ref().and_then(|view| {
        let path = checked.list.path.to_string_lossy();
        view.opened.run.lists.iter().position(|list| list.path == path)
    });
    let gates = work_list::check_gates(number.unwrap_or(0), &checked.items);
    let items = checked.items.iter().filter(|item| item.check.is_some());
    let mut all: Vec<(Gate, String)> =
        gates.into_iter().zip(items.map(|item| item.name.clone())).collect();
    if all.is_empty() {
        let what = format!("no feature of `{}` has a check", safe_line(&chosen.selected.name));
        let hint = "`ralph feature add \"…\" --verify -- ARGV…` adds one with a check; the others are claims";
        return Err(CommandFailure::new(&what, hint));
    }
    if args.ids.is_empty() {
        return Ok(all);
    }
    let mut names = Vec::new();
    let list = loops::read_feature_list(&checked.list.path).map_err(FeatureError::from)?;
    for given in &args.ids {
        let at = loops::feature_position(&checked.list.path, &list, given)?;
        let item = checked.items.get(at);
        names.extend(item.map(require_check).transpose()?.map(|item| item.name.clone()));
    }
    all.retain(|(_, name)| names.contains(name));
    Ok(all)
}

fn require_check(item: &ListItem) -> Result<&ListItem, CommandFailure> {
    if item.check.is_some() {
        return Ok(item);
    }
    let hint = format!("follow its steps, then `ralph feature claim {}`", feature_id(item));
    Err(CommandFailure::new(&format!("{} has no check, only a claim", item.name), &hint))
}

/// The result under the name of its feature instead of the internal name of the check.
fn with_feature_name(ran: &GateResult, named: &[(Gate, String)]) -> GateResult {
    let name = named.iter().find(|(gate, _)| gate.name == ran.gate.name);
    let name = name.map_or_else(|| ran.gate.name.clone(), |(_, name)| name.clone());
    let mut called = ran.clone();
    called.gate.name = name;
    called
}
