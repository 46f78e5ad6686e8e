//! Checks runs that have not ended: orphaned, unprotected, unreadable, or without their project.

use std::path::Path;

use super::protection;
use super::{DoctorCheck, DoctorContext};
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_home::faults::describe_error;
use ralph_hook::overview::{self, RunView};
use ralph_sys::clock;
use ralph_sys::fs;

const NAME: &str = "run";
/// The report lists at most this many runs.
const MAX_LISTED_RUNS: usize = 20;

pub(super) fn check_runs(context: &DoctorContext<'_>) -> Vec<DoctorCheck> {
    let (runs, unreadable) = match overview::list_run_views(context.home) {
        Ok(found) => found,
        Err(error) if error.is_missing() => return Vec::new(),
        Err(error) => return vec![DoctorCheck::unclear(NAME, describe_error(&error))],
    };
    let going: Vec<_> =
        runs.into_iter().filter(|view| !matches!(view.phase, RunPhase::Ended(_))).collect();
    let unprotected = protection::find_unprotected(context.env, context.home, &going);
    let mut checks: Vec<_> = going
        .iter()
        .zip(&unprotected)
        .take(MAX_LISTED_RUNS)
        .map(|(view, unprotected)| check_run(view, unprotected.as_ref(), context.project))
        .collect();
    checks.extend(unreadable.iter().take(MAX_LISTED_RUNS).map(|one| {
        let path = context.home.run(&one.run);
        DoctorCheck::bad(
            NAME,
            format!("{} cannot be read: {}", one.run, describe_error(&one.error)),
        )
        .fix(format!("inspect `{}`", path.directory().display()))
    }));
    checks
}

fn check_run(
    view: &RunView,
    unprotected: Option<&protection::UnprotectedReason>,
    here: &Path,
) -> DoctorCheck {
    let run = &view.opened.run;
    let id = &run.id;
    let title = text::clean_line(&run.title, 60);
    let project = Path::new(&run.project);
    if !fs::is_directory(project) {
        let what =
            format!("{id} ({title}) works in `{}`, which no longer exists", project.display());
        return DoctorCheck::bad(NAME, what).fix(format!("`ralph cancel {id}`"));
    }
    let is_here = fs::resolve(here).is_some_and(|here| here.starts_with(project));
    let title = if is_here { title } else { format!("{title}, in `{}`", project.display()) };
    // `ralph resume` cannot start an agent, and without its runner a driven run has none.
    let resume = match (&run.drive, &view.opened.state.driving.parked, view.phase) {
        (Some(_), Some(_), _) | (Some(_), _, RunPhase::Orphaned) => {
            format!("`ralph run --resume {id}`")
        }
        (Some(_) | None, _, _) => format!("`ralph resume {id}`"),
    };
    match (view.phase, unprotected) {
        (RunPhase::Orphaned, _) => {
            let gone =
                if run.drive.is_some() { "no runner drives it" } else { "its session is gone" };
            DoctorCheck::bad(NAME, format!("{id} ({title}) is orphaned: {gone}"))
                .fix(format!("{resume} continues it, `ralph cancel {id}` ends it"))
        }
        (RunPhase::Active, Some(why)) => DoctorCheck::bad(
            NAME,
            format!("{id} ({title}) is unprotected: {}", why.describe(clock::now_ms())),
        )
        .fix(why.remedy()),
        (RunPhase::Active, None) => DoctorCheck::good(NAME, format!("{id} ({title}) is active")),
        (RunPhase::Paused { .. }, _) => {
            DoctorCheck::note(NAME, format!("{id} ({title}) is paused")).fix(resume)
        }
        (RunPhase::Ended(_), _) => DoctorCheck::good(NAME, format!("{id} ({title}) has ended")),
    }
}
