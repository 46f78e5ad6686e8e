//! The status of a run that ralph drives itself: sessions, waits, and how to continue.

use crate::wording::{self, FactMark, MarkedText, safe_line};
use ralph_core::drive::{DriveSettings, RunWorktree, RunnerEvent, WaitCause};
use ralph_core::record::{JournalEntry, RunChange, RunRecord};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_git::worktree::{self, RunRepository};
use ralph_hook::overview::RunView;
use ralph_sys::clock::{self, Deadline};
use serde::Serialize;
use std::time::Duration;

/// Long enough for paths, which must stay complete to be copied.
const LONGEST_ADVICE: usize = 2_000;
/// Without an answer of git, the advice fits work that is committed and work that is not.
const GIT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the status lines say about work that is not merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmergedDetail {
    /// That it is not merged, for a list of runs.
    Brief,
    /// Where it is, and the commands that show and merge it.
    Commands,
    /// Nothing: the caller adds [`unmerged_text`] itself.
    Omitted,
}

#[derive(Debug, Serialize)]
pub struct DrivenRunView<'a> {
    pub sessions: u32,
    pub tokens: u64,
    pub max_tokens: Option<u64>,
    pub model: Option<&'a str>,
    pub worktree: Option<&'a str>,
    pub skips_permissions: bool,
    pub waiting: Option<RunWaitView<'a>>,
    pub parked: Option<ParkedRunView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct RunWaitView<'a> {
    pub cause: WaitCause,
    pub until: String,
    pub why: &'a str,
}

#[derive(Debug, Serialize)]
pub struct ParkedRunView<'a> {
    pub status: RunStatus,
    pub why: &'a str,
    pub resume: String,
}

/// The status of a driven run; `None` for other runs.
pub fn driven_run_view(view: &RunView) -> Option<DrivenRunView<'_>> {
    let settings = view.opened.run.drive.as_ref()?;
    let (run, state) = (&view.opened.run, &view.opened.state);
    let driving = &state.driving;
    let is_parked = matches!(view.phase, RunPhase::Paused { .. });
    let latest = driving.latest_session().and_then(|driven| driven.session.model.as_deref());
    Some(DrivenRunView {
        sessions: driving.count,
        tokens: view.opened.state.total_spent().tokens,
        max_tokens: state.limits(run).max_tokens,
        model: latest.or(settings.model.as_deref()),
        worktree: settings.worktree.as_ref().map(|tree| tree.path.as_str()),
        skips_permissions: skips_permissions(settings),
        waiting: driving.wait.as_ref().filter(|_| view.phase == RunPhase::Active).map(|wait| {
            let until = clock::format_rfc3339(wait.until_ms);
            RunWaitView { cause: wait.cause, until, why: &wait.why }
        }),
        parked: driving.parked.as_ref().filter(|_| is_parked).map(|parked| ParkedRunView {
            status: parked.status,
            why: &parked.why,
            resume: format!("ralph run --resume {}", run.id),
        }),
    })
}

/// Whether a person started the agent without permission prompts.
fn skips_permissions(settings: &DriveSettings) -> bool {
    ralph_host::recorded_host(&settings.agent).flags.skip_permissions(&settings.arguments)
}

/// What happened to the work tree of the run at its end, from its journal.
pub fn worktree_outcome(entries: &[JournalEntry]) -> Option<String> {
    entries.iter().rev().find_map(|entry| {
        let RunChange::Drove(drove) = &entry.change else { return None };
        let RunnerEvent::Settled { how } = drove.as_ref() else { return None };
        Some(how.clone())
    })
}

/// The status lines of a run that ralph drives itself; none for other runs. The caller gets `worktree_outcome` from
/// the journal, with the function of that name.
pub fn status_lines(
    run: &RunRecord,
    state: &RunState,
    phase: RunPhase,
    worktree_outcome: Option<&str>,
    unmerged: UnmergedDetail,
) -> Vec<MarkedText> {
    let Some(settings) = &run.drive else { return Vec::new() };
    let mut lines = Vec::new();
    let id = &run.id;
    if let Some(wait) = state.driving.wait.as_ref().filter(|_| phase == RunPhase::Active) {
        let (until, why) = (wording::local_time(wait.until_ms), safe_line(&wait.why));
        lines.push(format!("waits until {until} ({}): {why}", wait.cause.name()));
    }
    match (&state.driving.parked, phase) {
        (Some(parked), RunPhase::Paused { .. }) => {
            let how = format!("`ralph run --resume {id}` continues");
            let why = safe_line(&parked.why);
            let has_hint = why.contains(&how);
            lines.push(if has_hint {
                format!("parked: {why}")
            } else {
                format!("parked: {why}; {how}")
            });
        }
        (None, RunPhase::Paused { .. }) => {
            lines.push(format!("paused by a person; `ralph resume {id}` continues"));
        }
        (_, RunPhase::Orphaned) => {
            lines.push(format!("no runner drives it; `ralph run --resume {id}` continues"));
        }
        (_, RunPhase::Active | RunPhase::Ended(_)) => {}
    }
    if let Some(tree) = &settings.worktree {
        lines.extend(match (phase, worktree_outcome) {
            _ if is_named_by_reason(tree, state, phase) => None,
            (RunPhase::Ended(_), Some(how)) => Some(safe_line(how)),
            (RunPhase::Ended(_) | RunPhase::Paused { .. }, None) => match unmerged {
                UnmergedDetail::Brief => brief_unmerged_text(run, state, phase),
                UnmergedDetail::Commands => unmerged_text(run, state, phase, None),
                UnmergedDetail::Omitted => None,
            },
            (RunPhase::Active | RunPhase::Orphaned | RunPhase::Paused { .. }, _) => Some(format!(
                "works in `{}`, on branch `{}`",
                safe_line(&tree.path),
                safe_line(&tree.branch)
            )),
        });
    }
    let mut lines: Vec<_> = lines.into_iter().map(MarkedText::unmarked).collect();
    if skips_permissions(settings) {
        let text = "the agent runs without permission prompts, as a person requested";
        lines.push(MarkedText::new(FactMark::Unclear, text.to_string()));
    }
    lines
}

/// The work tree with work that is not merged, unless the reason for parking names it.
fn unmerged_tree<'a>(
    run: &'a RunRecord,
    state: &RunState,
    phase: RunPhase,
) -> Option<&'a RunWorktree> {
    let tree = run.worktree()?;
    let is_unmerged = match phase {
        RunPhase::Ended(RunStatus::Verified) => state.accepted.is_some(),
        RunPhase::Ended(_) | RunPhase::Paused { .. } => true,
        RunPhase::Active | RunPhase::Orphaned => false,
    };
    (is_unmerged && !is_named_by_reason(tree, state, phase)).then_some(tree)
}

/// Whether the reason for which the run is parked says where the work is.
fn is_named_by_reason(tree: &RunWorktree, state: &RunState, phase: RunPhase) -> bool {
    state.driving.parked.as_ref().is_some_and(|parked| {
        let path = format!("`{}`", tree.path);
        matches!(phase, RunPhase::Paused { .. }) && parked.why.contains(&path)
    })
}

fn brief_unmerged_text(run: &RunRecord, state: &RunState, phase: RunPhase) -> Option<String> {
    let tree = unmerged_tree(run, state, phase)?;
    Some(
        removed_text(run, tree).unwrap_or_else(|| {
            format!("not merged; `ralph status {}` shows how to merge it", run.id)
        }),
    )
}

/// Where work is that is not merged, and the commands that show and merge it. Asks git whether it is committed.
pub fn unmerged_text(
    run: &RunRecord,
    state: &RunState,
    phase: RunPhase,
    worktree_outcome: Option<&str>,
) -> Option<String> {
    let tree = unmerged_tree(run, state, phase).filter(|_| worktree_outcome.is_none())?;
    Some(removed_text(run, tree).unwrap_or_else(|| {
        let text = worktree::locate_unmerged(tree, &Deadline::after(GIT_TIMEOUT));
        text::clean_line(&text, LONGEST_ADVICE)
    }))
}

/// A fork works in the same tree, and may have merged it.
fn removed_text(run: &RunRecord, tree: &RunWorktree) -> Option<String> {
    let is_removed = RunRepository::of_project(run).is_work_tree_removed();
    is_removed.then(|| format!("its work tree `{}` was removed", safe_line(&tree.path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::drive::{
        CostSource, LandingMode, MeterBasis, MeterReading, PlannedWait, RunnerSession,
        SessionOrigin,
    };
    use ralph_core::id::{RunId, SessionId};
    use ralph_core::record::FORMAT_VERSION;

    const THEN: u64 = 1_794_000_000_000;

    fn run(settings: DriveSettings) -> RunRecord {
        RunRecord {
            owner: SessionId::parse("s1"),
            title: "nested quotes".into(),
            drive: Some(Box::new(settings)),
            ..RunRecord::new(RunId::parse("k7f2").unwrap(), "/srv/parser".into(), THEN)
        }
    }

    fn after(run: &RunRecord, drove: Vec<RunnerEvent>) -> RunState {
        let mut state = RunState::new(run);
        for (at, drove) in (1..).zip(drove) {
            state.apply(&JournalEntry {
                v: FORMAT_VERSION,
                seq: at,
                at_ms: THEN + at * 1000,
                iteration: 0,
                change: RunChange::Drove(Box::new(drove)),
                prev: String::new(),
                after: String::new(),
                by: None,
            });
        }
        state
    }

    fn render_status(run: &RunRecord, state: &RunState) -> String {
        let word = wording::standing(state, state.phase);
        let progress = wording::progress(run, state, THEN + 60_000);
        let mut out = format!("{word}: {progress}\n");
        for line in status_lines(run, state, state.phase, None, UnmergedDetail::Brief) {
            out.push_str(&format!("  {line}\n"));
        }
        out
    }

    /// R-S8a, R-K2c: the status shows skipped permissions, the cause of a wait, and how to continue.
    #[test]
    fn status_of_a_driven_run_shows_its_state_and_how_to_continue() {
        let session = |id: &str| {
            RunnerEvent::Session(RunnerSession {
                id: SessionId::parse(id).unwrap(),
                how: SessionOrigin::Fresh,
                model: None,
                argv: Vec::new(),
                env: Vec::new(),
                mark: None,
            })
        };
        let metered = |id: &str, micro_usd| {
            RunnerEvent::Metered(MeterReading {
                session: SessionId::parse(id).unwrap(),
                source: CostSource::Agent,
                micro_usd,
                tokens: 1_000,
                turns: 1,
                meter: MeterBasis::Told,
            })
        };
        let usual = run(DriveSettings::DEFAULT);
        let mut drove =
            vec![session("s1"), metered("s1", 1_500_000), session("s2"), metered("s2", 320_000)];
        let mut out = render_status(&usual, &after(&usual, drove.clone()));
        let wait = PlannedWait {
            cause: WaitCause::RateLimit,
            since_ms: THEN,
            until_ms: THEN + 1,
            attempt: 1,
            why: "the five-hour\u{1b}[31m window".into(),
            window: None,
        };
        drove.push(RunnerEvent::Waits(wait));
        let waits = render_status(&usual, &after(&usual, drove.clone()));
        out.push_str(&waits.replace(&wording::local_time(THEN + 1), "$TIME"));
        let why = "more than 6 h would have to be waited for".to_string();
        drove.push(RunnerEvent::Parked { status: RunStatus::RateLimited, why });
        out.push_str(&render_status(&usual, &after(&usual, drove)));
        let unprompted = unprompted();
        out.push_str(&render_status(&unprompted, &after(&unprompted, Vec::new())));
        insta::assert_snapshot!(out, @r"
        working: claude s1 · iteration 0 of 25 · session 2 · 1 min of 8 h · $1.82 of $20
        waiting: claude s1 · iteration 0 of 25 · session 2 · 1 min of 8 h · $1.82 of $20
          waits until $TIME (rate limit): the five-hour window
        parked: claude s1 · iteration 0 of 25 · session 2 · 6 s of 8 h · $1.82 of $20
          parked: more than 6 h would have to be waited for; `ralph run --resume k7f2` continues
        working: claude s1 · iteration 0 of 25 · 1 min of 8 h
          works in `/srv/parser-k7f2`, on branch `ralph/k7f2`
          ? the agent runs without permission prompts, as a person requested
        ");
    }

    /// A run in a work tree of its own, without permission prompts.
    fn unprompted() -> RunRecord {
        run(DriveSettings {
            arguments: vec!["--permission-mode=bypassPermissions".into()],
            worktree: Some(RunWorktree {
                path: "/srv/parser-k7f2".into(),
                branch: "ralph/k7f2".into(),
                from: "/srv/parser".into(),
                into: Some("main".into()),
                base: "3f1c2ab".into(),
                then: LandingMode::Merge,
                checks_ms: None,
                draft: false,
            }),
            ..DriveSettings::DEFAULT
        })
    }

    /// The status names the work tree until its work is merged, and never twice.
    #[test]
    fn status_names_the_work_tree_until_it_is_merged() {
        let unprompted = unprompted();
        let mut out = String::new();
        let parked = |status, why: &str| RunnerEvent::Parked { status, why: why.into() };
        let conflict = "it conflicts with `main`; work tree `/srv/parser-k7f2` is kept";
        let limit = "a limit; `ralph run --resume k7f2` continues";
        for drove in
            [parked(RunStatus::NeedsHuman, conflict), parked(RunStatus::RateLimited, limit)]
        {
            out.push_str(&render_status(&unprompted, &after(&unprompted, vec![drove])));
        }
        for (status, settled) in [
            (RunStatus::Stuck, None),
            (RunStatus::Stuck, Some("merged into `main` as 9e1f00d")),
            (RunStatus::Verified, None),
        ] {
            let state = RunState::new(&unprompted);
            for detail in [UnmergedDetail::Brief, UnmergedDetail::Commands] {
                let phase = RunPhase::Ended(status);
                let ended = status_lines(&unprompted, &state, phase, settled, detail);
                let ended: Vec<_> = ended.iter().map(MarkedText::to_string).collect();
                out.push_str(&format!("ended:\n  {}\n", ended.join("\n  ")));
            }
        }
        insta::assert_snapshot!(out, @r"
        parked: claude s1 · iteration 0 of 25 · 1 s of 8 h
          parked: it conflicts with `main`; work tree `/srv/parser-k7f2` is kept; `ralph run --resume k7f2` continues
          ? the agent runs without permission prompts, as a person requested
        parked: claude s1 · iteration 0 of 25 · 1 s of 8 h
          parked: a limit; `ralph run --resume k7f2` continues
          not merged; `ralph status k7f2` shows how to merge it
          ? the agent runs without permission prompts, as a person requested
        ended:
          not merged; `ralph status k7f2` shows how to merge it
          ? the agent runs without permission prompts, as a person requested
        ended:
          not merged: branch `ralph/k7f2`, work tree `/srv/parser-k7f2`; `git -C /srv/parser-k7f2 diff 3f1c2ab` and `git -C /srv/parser-k7f2 status` show it, `git -C /srv/parser merge ralph/k7f2` merges what is committed
          ? the agent runs without permission prompts, as a person requested
        ended:
          merged into `main` as 9e1f00d
          ? the agent runs without permission prompts, as a person requested
        ended:
          merged into `main` as 9e1f00d
          ? the agent runs without permission prompts, as a person requested
        ended:
          ? the agent runs without permission prompts, as a person requested
        ended:
          ? the agent runs without permission prompts, as a person requested
        ");
    }
}
