//! `ralph run`: prepares a run, drives it, and shows what happens.
//!
//! ```text
//! run_args ─ run_plan (gate_source) ─▶ RunPlan ─▶ dry_run: what would be done
//!   └─ queue: many of them               └─▶ drive_run ─ RunEvent ─▶ drive_view: run_screen · run_json
//! ```

mod again;
pub(crate) mod args;
mod bar;
mod dry;
mod go;
mod grants;
mod json;
mod policy;
pub(crate) mod prepare;
pub(crate) mod queue;
mod report;
mod screen;
mod view;

use crate::SUCCESS;
use crate::report::Failure;
use crate::term;
use args::Run;
use ralph_sys::env::Env;
use view::View;

/// Returns the exit code of the status that the run ended with. Failures exit 1, because every other code is a status.
pub(crate) fn run(env: &Env, args: &Run) -> Result<u8, Failure> {
    driven(env, args).map_err(Failure::ordinary)
}

fn driven(env: &Env, args: &Run) -> Result<u8, Failure> {
    if args.queue.is_some() {
        return queue::run(env, args);
    }
    if let Some(name) = &args.resume
        && let Some(id) = queue::named(env, name)?
    {
        return queue::resume(env, &id, args);
    }
    let plan = prepare::prepare(env, args)?;
    go::ready(env, &plan)?;
    if args.dry_run {
        if args.json {
            super::print_json(&dry::json(env, &plan))?;
        } else {
            term::out(&dry::shown(env, &plan))?;
        }
        return Ok(SUCCESS);
    }
    let mut view = View::new(env, args);
    go::go(env, plan, &mut view)?;
    view.finish()
}
