//! The status of a run that ralph drives itself, as text and as JSON: sessions, waits, and how to continue.

use crate::cmd::run::args::{Permissions, permissions};
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::{self, safe};
use ralph_core::drive::{Cause, Drove, Worktree};
use ralph_core::ending;
use ralph_core::facts::Declared;
use ralph_core::record::{Change, Entry, Run};
use ralph_core::run::{Phase, State};
use ralph_core::status::Status;
use ralph_core::text;
use ralph_git::worktree;
use ralph_home::paths::Home;
use ralph_home::store;
use ralph_hook::control::ControlError;
use ralph_hook::overview::RunView;
use ralph_sys::clock;
use serde::Serialize;

/// Long enough for paths, which must stay complete to be copied.
const LONGEST_ADVICE: usize = 2_000;

#[derive(Serialize)]
pub(crate) struct DrivenJson<'a> {
    sessions: u32,
    tokens: u64,
    max_tokens: Option<u64>,
    model: Option<&'a str>,
    worktree: Option<&'a str>,
    skips_permissions: bool,
    waiting: Option<WaitingJson<'a>>,
    parked: Option<ParkedJson<'a>>,
}

#[derive(Serialize)]
struct WaitingJson<'a> {
    cause: Cause,
    until: String,
    why: &'a str,
}

#[derive(Serialize)]
struct ParkedJson<'a> {
    status: Status,
    why: &'a str,
    resume: String,
}

pub(crate) fn json(view: &RunView) -> Option<DrivenJson<'_>> {
    let settings = view.opened.run.drive.as_ref()?;
    let (run, state) = (&view.opened.run, &view.opened.state);
    let driving = &state.driving;
    let is_parked = matches!(view.phase, Phase::Paused { .. });
    let latest = driving.latest().and_then(|driven| driven.session.model.as_deref());
    Some(DrivenJson {
        sessions: driving.count,
        tokens: driving.spent().tokens,
        max_tokens: state.limits(run).max_tokens,
        model: latest.or(settings.model.as_deref()),
        worktree: settings.worktree.as_ref().map(|tree| tree.path.as_str()),
        skips_permissions: skips_permissions(run),
        waiting: driving.wait.as_ref().filter(|_| view.phase == Phase::Active).map(|wait| {
            let until = clock::rfc3339(wait.until_ms);
            WaitingJson { cause: wait.cause, until, why: &wait.why }
        }),
        parked: driving.parked.as_ref().filter(|_| is_parked).map(|parked| ParkedJson {
            status: parked.status,
            why: &parked.why,
            resume: format!("ralph run --resume {}", run.id),
        }),
    })
}

/// Whether a person started the agent of a driven run without permission prompts.
fn skips_permissions(run: &Run) -> bool {
    let arguments = run.drive.as_ref().map(|settings| settings.arguments.as_slice());
    arguments.is_some_and(|flags| permissions(flags) == Permissions::Skipped)
}

/// What happened to the work tree of the run at its end, from its journal.
pub(crate) fn settled(entries: &[Entry]) -> Option<String> {
    entries.iter().rev().find_map(|entry| {
        let Change::Drove(drove) = &entry.change else { return None };
        let Drove::Settled { how } = drove.as_ref() else { return None };
        Some(how.clone())
    })
}

/// Adds a hint to an error about a driven run that has ended: how to continue its work.
pub(crate) fn failed(home: &Home, error: ControlError) -> Failure {
    let ControlError::HasEnded { run, status } = &error else { return error.into() };
    let is_driven = store::load(home, run).is_ok_and(|opened| opened.run.drive.is_some());
    let then = if *status == Status::Verified {
        "starts a new run from its last session"
    } else {
        "continues from its last session"
    };
    let hint = is_driven.then(|| {
        format!("`ralph why {run}` shows how; `{}` {then}", ending::another(run, *status))
    });
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.with_hint(&hint),
        None => failure,
    }
}

/// The status lines of a run that ralph drives itself; none for other runs.
pub(crate) fn lines(run: &Run, state: &State, phase: Phase, settled: Option<&str>) -> Vec<String> {
    let Some(settings) = &run.drive else { return Vec::new() };
    let mut lines = Vec::new();
    let id = &run.id;
    if let Some(wait) = state.driving.wait.as_ref().filter(|_| phase == Phase::Active) {
        let (until, why) = (wording::when(wait.until_ms), safe(&wait.why));
        lines.push(format!("waits until {until} ({}): {why}", wait.cause.name()));
    }
    match (&state.driving.parked, phase) {
        (Some(parked), Phase::Paused { .. }) => {
            let how = format!("`ralph run --resume {id}` continues");
            let why = safe(&parked.why);
            let has_hint = why.contains(&how);
            lines.push(if has_hint {
                format!("parked: {why}")
            } else {
                format!("parked: {why}; {how}")
            });
        }
        (None, Phase::Paused { .. }) => {
            let how =
                format!("`ralph resume {id}`, and `ralph run --resume {id}` if it has no runner");
            lines.push(format!("paused by a person; continue with {how}"));
        }
        (_, Phase::Orphaned) => {
            lines.push(format!("no runner drives it; `ralph run --resume {id}` continues"));
        }
        (_, Phase::Active | Phase::Ended(_)) => {}
    }
    if let Some(Declared::NeedsHuman(question)) =
        state.declared.as_ref().filter(|_| phase == Phase::Active)
    {
        lines.push(format!("asks: {}; answer with `ralph tell {id} \"…\"`", safe(question)));
    }
    if let Some(tree) = &settings.worktree {
        lines.extend(worktree_line(tree, state, (phase, settled)));
    }
    if skips_permissions(run) {
        let mark = paint(term::ODD, "?");
        lines.push(format!(
            "{mark} the agent runs without permission prompts, as a person requested"
        ));
    }
    lines
}

/// Where the work is, unless it has been merged or the reason for parking names it.
fn worktree_line(
    tree: &Worktree,
    state: &State,
    (phase, settled): (Phase, Option<&str>),
) -> Option<String> {
    let is_named = state.driving.parked.as_ref().is_some_and(|parked| {
        let path = format!("`{}`", tree.path);
        matches!(phase, Phase::Paused { .. }) && parked.why.contains(&path)
    });
    match (phase, settled) {
        _ if is_named => None,
        (Phase::Ended(Status::Verified), None) => None,
        (Phase::Ended(_), Some(how)) => Some(safe(how)),
        (Phase::Ended(_) | Phase::Paused { .. }, None) => {
            Some(text::line(&worktree::unmerged(tree, None), LONGEST_ADVICE))
        }
        (Phase::Active | Phase::Orphaned | Phase::Paused { .. }, _) => {
            Some(format!("works in `{}`, on branch `{}`", safe(&tree.path), safe(&tree.branch)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::plain;
    use ralph_core::drive::{How, Meter, Metered, Session, Settings, Source, Then, Wait, Worktree};
    use ralph_core::id::{RunId, SessionId};
    use ralph_core::limits::Limits;
    use ralph_core::policy::OnTampering;
    use ralph_core::record::{Asked, Origin, VERSION};

    const THEN: u64 = 1_794_000_000_000;

    fn run(settings: Settings) -> Run {
        Run {
            v: VERSION,
            id: RunId::parse("k7f2").unwrap(),
            owner: SessionId::parse("s1"),
            started_ms: THEN,
            project: "/srv/parser".into(),
            origin: Origin::Started,
            first_iteration: 0,
            limits: Limits::DEFAULT,
            features: Vec::new(),
            promise: None,
            checklist: Asked::No,
            goal_bytes: 0,
            title: "nested quotes".into(),
            on_tampering: OnTampering::Block,
            prompt: None,
            listed: Vec::new(),
            lists: Vec::new(),
            tasks: Asked::No,
            phases: Asked::No,
            transcript_length: 0,
            process: None,
            seal: None,
            drive: Some(Box::new(settings)),
        }
    }

    fn after(run: &Run, drove: Vec<Drove>) -> State {
        let mut state = State::new(run);
        for (at, drove) in (1..).zip(drove) {
            state.apply(&Entry {
                v: VERSION,
                seq: at,
                at_ms: THEN + at * 1000,
                iteration: 0,
                change: Change::Drove(Box::new(drove)),
                prev: String::new(),
                after: String::new(),
            });
        }
        state
    }

    fn render_status(run: &Run, state: &State) -> String {
        let word = wording::standing(state, state.phase);
        let progress = wording::progress(run, state, THEN + 60_000);
        let mut out = format!("{word}: {progress}\n");
        for line in lines(run, state, state.phase, None) {
            out.push_str(&format!("  {}\n", plain(&line)));
        }
        out
    }

    /// R-S8a, R-K2c: the status shows skipped permissions, the cause of a wait, and how to continue.
    #[test]
    fn status_of_a_driven_run_shows_its_state_and_how_to_continue() {
        let session = |id: &str| {
            Drove::Session(Session {
                id: SessionId::parse(id).unwrap(),
                how: How::Fresh,
                model: None,
                argv: Vec::new(),
                env: Vec::new(),
                mark: None,
            })
        };
        let metered = |id: &str, micro_usd| {
            Drove::Metered(Metered {
                session: SessionId::parse(id).unwrap(),
                source: Source::Agent,
                micro_usd,
                tokens: 1_000,
                turns: 1,
                meter: Meter::Told,
            })
        };
        let usual = run(Settings::DEFAULT);
        let mut drove =
            vec![session("s1"), metered("s1", 1_500_000), session("s2"), metered("s2", 320_000)];
        let mut out = render_status(&usual, &after(&usual, drove.clone()));
        let wait = Wait {
            cause: Cause::RateLimit,
            since_ms: THEN,
            until_ms: THEN + 1,
            attempt: 1,
            why: "the five-hour\u{1b}[31m window".into(),
            window: None,
        };
        drove.push(Drove::Waits(wait));
        let waits = render_status(&usual, &after(&usual, drove.clone()));
        out.push_str(&waits.replace(&wording::when(THEN + 1), "$TIME"));
        let why = "more than 6 h would have to be waited for".to_string();
        drove.push(Drove::Parked { status: Status::RateLimited, why });
        out.push_str(&render_status(&usual, &after(&usual, drove)));
        let unprompted = unprompted();
        out.push_str(&render_status(&unprompted, &after(&unprompted, Vec::new())));
        insta::assert_snapshot!(out, @"
        armed: claude s1 · iteration 0 of 25 · session 2 · 1 min of 8 h · $1.82 of $20
        waiting: claude s1 · iteration 0 of 25 · session 2 · 1 min of 8 h · $1.82 of $20
          waits until $TIME (rate limit): the five-hour window
        rate_limited: claude s1 · iteration 0 of 25 · session 2 · 6 s of 8 h · $1.82 of $20
          parked: more than 6 h would have to be waited for; `ralph run --resume k7f2` continues
        armed: claude s1 · iteration 0 of 25 · 1 min of 8 h
          works in `/srv/parser-k7f2`, on branch `ralph/k7f2`
          ? the agent runs without permission prompts, as a person requested
        ");
    }

    /// A run in a work tree of its own, without permission prompts.
    fn unprompted() -> Run {
        run(Settings {
            arguments: vec!["--permission-mode=bypassPermissions".into()],
            worktree: Some(Worktree {
                path: "/srv/parser-k7f2".into(),
                branch: "ralph/k7f2".into(),
                from: "/srv/parser".into(),
                into: Some("main".into()),
                base: "3f1c2ab".into(),
                then: Then::Merge,
                checks_ms: None,
            }),
            ..Settings::DEFAULT
        })
    }

    /// The status names the work tree until its work is merged, and never twice.
    #[test]
    fn status_names_the_work_tree_until_it_is_merged() {
        let unprompted = unprompted();
        let mut out = String::new();
        let parked = |status, why: &str| Drove::Parked { status, why: why.into() };
        let conflict = "it conflicts with `main`; work tree `/srv/parser-k7f2` is kept";
        let limit = "a limit; `ralph run --resume k7f2` continues";
        for drove in [parked(Status::NeedsHuman, conflict), parked(Status::RateLimited, limit)] {
            out.push_str(&render_status(&unprompted, &after(&unprompted, vec![drove])));
        }
        for (status, settled) in [
            (Status::Stuck, None),
            (Status::Stuck, Some("merged into `main` as 9e1f00d")),
            (Status::Verified, None),
        ] {
            let ended = lines(&unprompted, &State::new(&unprompted), Phase::Ended(status), settled);
            out.push_str(&format!("ended:\n  {}\n", plain(&ended.join("\n  "))));
        }
        insta::assert_snapshot!(out, @"
        needs_human: claude s1 · iteration 0 of 25 · 1 s of 8 h
          parked: it conflicts with `main`; work tree `/srv/parser-k7f2` is kept; `ralph run --resume k7f2` continues
          ? the agent runs without permission prompts, as a person requested
        rate_limited: claude s1 · iteration 0 of 25 · 1 s of 8 h
          parked: a limit; `ralph run --resume k7f2` continues
          not merged: branch `ralph/k7f2`, work tree `/srv/parser-k7f2`; `git -C /srv/parser-k7f2 diff 3f1c2ab` and `git -C /srv/parser-k7f2 status` show it, `git -C /srv/parser merge ralph/k7f2` merges what is committed
          ? the agent runs without permission prompts, as a person requested
        ended:
          not merged: branch `ralph/k7f2`, work tree `/srv/parser-k7f2`; `git -C /srv/parser-k7f2 diff 3f1c2ab` and `git -C /srv/parser-k7f2 status` show it, `git -C /srv/parser merge ralph/k7f2` merges what is committed
          ? the agent runs without permission prompts, as a person requested
        ended:
          merged into `main` as 9e1f00d
          ? the agent runs without permission prompts, as a person requested
        ended:
          ? the agent runs without permission prompts, as a person requested
        ");
    }
}
