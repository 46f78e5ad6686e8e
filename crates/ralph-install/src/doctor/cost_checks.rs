//! Checks whether limits on the cost of a session can be enforced.

use super::{DoctorCheck, DoctorContext};
use ralph_core::record::unpriced_limit;
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_hook::overview::{self, RunView};
use ralph_hook::session_model;
use ralph_policy::{config, price_list};

const NAME: &str = "cost";
const MAX_MODEL_CHARS: usize = 100;

/// Reports active runs whose limit does not work, and a model that would make it so in the next run.
pub(super) fn check_cost_limit(context: &DoctorContext<'_>) -> Vec<DoctorCheck> {
    let (runs, _) = overview::list_run_views(context.home).unwrap_or_default();
    let active = runs.iter().filter(|view| view.phase == RunPhase::Active);
    let gaps = active.filter_map(|view| {
        let gap = run_gap(view)?;
        Some(DoctorCheck::unclear(NAME, format!("run {}: {gap}", view.opened.run.id)))
    });
    gaps.chain(check_configured_model(context)).collect()
}

fn run_gap(view: &RunView) -> Option<String> {
    let (run, state) = (&view.opened.run, &view.opened.state);
    let most = state.limits(run).max_cost_micro_usd.filter(|_| run.drive.is_none())?;
    state.cost.as_ref()?.limit_gap(most)
}

fn check_configured_model(context: &DoctorContext<'_>) -> Option<DoctorCheck> {
    let model = session_model::configured_model(context.env, context.host)?;
    // A file with problems is reported by another check.
    let own = config::load_prices(context.home).unwrap_or_default();
    let policy = config::load(context.project, context.home).ok()?.policy;
    let most = policy.limits.max_cost_micro_usd?;
    let is_metered = price_list::price_table(&own).find(&model).is_some()
        || session_model::is_status_line_registered(context.env, context.host, context.project);
    let models = [text::clean_line(&model, MAX_MODEL_CHARS)];
    let check = DoctorCheck::unclear(NAME, unpriced_limit(most, &models));
    let fix = "add its price, or make `ralph statusline` the client's status line: `ralph init --statusline`";
    (!is_metered).then(|| check.fix(fix))
}
