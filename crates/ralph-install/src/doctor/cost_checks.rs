//! Checks whether limits on the cost of a session can be enforced.

use super::{DoctorCheck, DoctorContext};
use ralph_core::model_price;
use ralph_core::record::unpriced_limit;
use ralph_core::run::RunPhase;
use ralph_hook::overview;
use ralph_hook::session_model;
use ralph_policy::config;

const NAME: &str = "cost";

/// Reports active runs whose limit does not work, and a model that would make it so in the next run.
pub(super) fn check_cost_limit(context: &DoctorContext<'_>) -> Vec<DoctorCheck> {
    let (runs, _) = overview::list_run_views(context.home).unwrap_or_default();
    let active = runs.iter().filter(|view| view.phase == RunPhase::Active);
    let gaps = active.filter_map(|view| {
        let gap = view.opened.state.cost_limit_gap(&view.opened.run)?;
        Some(DoctorCheck::unclear(NAME, format!("run {}: {gap}", view.opened.run.id)))
    });
    gaps.chain(check_configured_model(context)).collect()
}

fn check_configured_model(context: &DoctorContext<'_>) -> Option<DoctorCheck> {
    let model = session_model::configured_model(context.env, context.host)?;
    // A file with problems is reported by another check.
    let own = config::load_prices(context.home).unwrap_or_default();
    let policy = config::load(context.project, context.home).ok()?.policy;
    let most = policy.limits.max_cost_micro_usd?;
    let (env, host) = (context.env, context.host);
    let is_known = session_model::is_cost_known(env, host, context.project, &own, &model);
    let models = [model_price::shown_model(&model)];
    let check = DoctorCheck::unclear(NAME, unpriced_limit(most, &models));
    let fix = "add its price, or make `ralph statusline` the client's status line: `ralph init --statusline`";
    (!is_known).then(|| check.fix(fix))
}
