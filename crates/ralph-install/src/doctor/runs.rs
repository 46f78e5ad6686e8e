//! Checks runs that have not ended: orphaned, unprotected, unreadable, or without their project.

use std::path::Path;

use super::protection;
use super::{Check, Scene};
use ralph_core::run::Phase;
use ralph_core::text;
use ralph_home::faults::describe;
use ralph_hook::overview::{self, RunView};
use ralph_sys::clock;
use ralph_sys::fs;

const NAME: &str = "run";
/// The report lists at most this many runs.
const MOST: usize = 20;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Check> {
    let (runs, unreadable) = match overview::runs(scene.home) {
        Ok(found) => found,
        Err(error) if error.is_missing() => return Vec::new(),
        Err(error) => return vec![Check::unclear(NAME, describe(&error))],
    };
    let going: Vec<_> =
        runs.into_iter().filter(|view| !matches!(view.phase, Phase::Ended(_))).collect();
    let unprotected = protection::of_runs(scene.env, scene.home, &going);
    let mut checks: Vec<_> = going
        .iter()
        .zip(&unprotected)
        .take(MOST)
        .map(|(view, unprotected)| of_run(view, unprotected.as_ref()))
        .collect();
    checks.extend(unreadable.iter().take(MOST).map(|one| {
        let path = scene.home.run(&one.run);
        Check::bad(NAME, format!("{} cannot be read: {}", one.run, describe(&one.error)))
            .fix(format!("inspect `{}`", path.directory().display()))
    }));
    checks
}

fn of_run(view: &RunView, unprotected: Option<&protection::Unprotected>) -> Check {
    let run = &view.opened.run;
    let id = &run.id;
    let title = text::line(&run.title, 60);
    let project = Path::new(&run.project);
    if !fs::is_directory(project) {
        let what =
            format!("{id} ({title}) works in `{}`, which no longer exists", project.display());
        return Check::bad(NAME, what).fix(format!("`ralph cancel {id}`"));
    }
    match (view.phase, unprotected) {
        (Phase::Orphaned, _) => {
            Check::bad(NAME, format!("{id} ({title}) is orphaned: its session is gone"))
                .fix(format!("`ralph resume {id}` continues it, `ralph cancel {id}` ends it"))
        }
        (Phase::Active, Some(why)) => Check::bad(
            NAME,
            format!("{id} ({title}) is unprotected: {}", why.in_words(clock::now_ms())),
        )
        .fix(why.remedy()),
        (Phase::Active, None) => Check::good(NAME, format!("{id} ({title}) is active")),
        (Phase::Paused { .. }, _) => Check::note(NAME, format!("{id} ({title}) is paused"))
            .fix(format!("`ralph resume {id}`")),
        (Phase::Ended(_), _) => Check::good(NAME, format!("{id} ({title}) has ended")),
    }
}
