//! `ralph run`: prepares a run, drives it, and shows what happens.
//!
//! ```text
//! run_args ─ issue_run ─ run_plan (gate_source) ─▶ RunPlan ─▶ dry_run: what would be done
//!   └─ queue: many of them               └─▶ run_consent ─▶ drive_run ─ RunEvent ─▶ drive_view: run_screen · run_json
//! ```

mod drive_run;
mod drive_view;
mod dry_run;
mod fork_run;
mod gate_lines;
mod gate_source;
pub(crate) mod issue_run;
mod permission_notes;
pub(crate) mod queue;
pub(crate) mod run_args;
mod run_consent;
mod run_json;
pub(crate) mod run_plan;
mod run_report;
mod run_screen;
mod status_bar;
mod text_lines;

use crate::SUCCESS;
use crate::failure::CommandFailure;
use crate::term::{self, TextWidth};
use drive_view::{DriveView, RunResult};
use ralph_sys::env::Env;
use run_args::RunArgs;

/// Returns the exit code of the status that the run ended with. Failures exit 1, because every other code is a status.
pub(crate) fn run(env: &Env, args: &RunArgs) -> Result<u8, CommandFailure> {
    run_driven(env, args).map_err(CommandFailure::with_failure_code)
}

fn run_driven(env: &Env, args: &RunArgs) -> Result<u8, CommandFailure> {
    if args.queue.is_some() {
        return queue::run_queue(env, args);
    }
    if let Some(name) = &args.resume
        && let Some(id) = queue::find_queue(env, name)?
    {
        return queue::resume_queue(env, &id, args);
    }
    let resolved = issue_run::resolve_issue(env, args)?;
    let mut plan = match &resolved {
        Some(resolved) => run_plan::prepare_run(env, &resolved.args)?,
        None => run_plan::prepare_run(env, args)?,
    };
    if let Some(resolved) = resolved {
        issue_run::add_to_plan(&mut plan, resolved);
    }
    drive_run::check_ready(env, &plan)?;
    if args.dry_run {
        run_consent::apply_given_answer(&mut plan);
        if args.json {
            super::print_json(&dry_run::dry_run_json(env, &plan))?;
        } else {
            term::out(&dry_run::render_dry_run(env, &plan))?;
        }
        return Ok(SUCCESS);
    }
    let plan = run_consent::settle_plan(env, args, plan)?;
    let mut view = DriveView::new(env, args);
    drive_run::drive_plan(env, plan, &mut view)?;
    let ended = view.take_result();
    let code = view.finish()?;
    if let Some(ended) = &ended
        && let Some(path) = super::report::write_reports(env, &ended.report.run)
        && !args.json
    {
        term::out(&run_report::report_line(&path, TextWidth::of_stdout(run_screen::MAX_COLUMNS)))?;
    }
    if let Some(RunResult { report, gates }) = ended.filter(|_| args.comment) {
        match issue_run::comment_on_issue(env, &report, &gates) {
            Ok(done) if !args.json && !args.quiet => drop(term::out(&done)?),
            Ok(_) => {}
            // The run has its result; a tracker that cannot be reached does not change it.
            Err(failure) => failure.print(),
        }
    }
    Ok(code)
}
