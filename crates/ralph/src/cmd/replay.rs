//! `ralph lab replay`: sends one captured payload to the configured hooks and shows what the client would do. ralph's own
//! hooks decide about a copy of the run, unless `--live` is given.

pub(crate) mod replay_args;
mod replay_output;
mod replay_settings;

use super::create_scratch_dir;
use super::simulate::{INTERRUPTED, search_path, simulated_host};
use crate::failure::CommandFailure;
use crate::{FAILURE, SUCCESS};
use ralph_core::id::SessionId;
use ralph_core::record::{JournalEntry, RunChange};
use ralph_core::text;
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_hook::overview::DecisionHistory;
use ralph_hook::rehearsal::{self, RehearsalHold};
use ralph_sim::hook_settings::CLIENT_EVENTS;
use ralph_sim::replay::{
    self, HookPayload, HookPayloadError, ReplayClientProcess, ReplayContext, ReplayDecision,
    ReplayReport,
};
use ralph_sim::timeline::HookEffect;
use ralph_sys::clock::Stopwatch;
use ralph_sys::env::{self, Env};
use ralph_sys::fs;
use ralph_sys::stdin;
use replay_args::{ExpectedDecision, ReplayArgs as Args};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// ralph's own decision, if ralph was among the hooks.
enum RalphDecision {
    /// The journal has the decision.
    Recorded(DecisionHistory),
    /// Nothing was recorded; the rule and the reason are derived from the payload and the state.
    Unrecorded { rule: &'static str, because: String },
}

/// The result of a replay.
struct ReplayResult {
    replayed: ReplayReport,
    ruling: Option<RalphDecision>,
    project: PathBuf,
    /// The explanation to print if no hook ran.
    no_hook_text: String,
    ms: u64,
}

pub(crate) fn run(env: &Env, args: &Args) -> Result<u8, CommandFailure> {
    let payload = read_payload(env, args)?;
    let here = env.current_dir().unwrap_or_else(|| PathBuf::from("/"));
    let project = project_dir(args, &payload, &here)?;
    let found = replay_settings::load_settings(env, args, &payload, &project)?;
    let root = create_scratch_dir(env, "ralph-replay")?;
    let replayed =
        replay_payload(env, args, &payload, &ReplayStage { found, project, root: &root });
    let removed = fs::remove_own_dir_tree(&root);
    let Some(shown) = replayed? else { return Ok(INTERRUPTED) };
    removed?;
    if args.json {
        replay_output::print_json_result(args, &shown)?;
    } else {
        replay_output::print_text_result(args, &shown)?;
    }
    Ok(match args.expect {
        Some(expected) if !meets_expectation(expected, shown.replayed.decision) => FAILURE,
        Some(_) | None => SUCCESS,
    })
}

fn meets_expectation(expected: ExpectedDecision, found: ReplayDecision) -> bool {
    match expected {
        ExpectedDecision::Blocked => found == ReplayDecision::Blocked,
        ExpectedDecision::Allowed => found == ReplayDecision::Allowed,
        ExpectedDecision::Stopped => found == ReplayDecision::Stopped,
    }
}

fn read_payload(env: &Env, args: &Args) -> Result<HookPayload, CommandFailure> {
    let what = "the payload cannot be read";
    let bytes = if args.payload == Path::new("-") {
        stdin::read_all(std::io::stdin(), replay::MAX_PAYLOAD_BYTES)
            .map_err(|error| CommandFailure::caused_by(what, &error))?
    } else {
        let path = env.current_dir().unwrap_or_default().join(&args.payload);
        if fs::is_special(&path) {
            let what = format!("`{}` is not a regular file", args.payload.display());
            return Err(CommandFailure::new(&what, "pipe it in instead, as `-`"));
        }
        fs::read(&path, replay::MAX_PAYLOAD_BYTES)?
    };
    HookPayload::parse(&bytes).map_err(|error| match &error {
        HookPayloadError::UnknownEvent(name) => {
            CommandFailure::new(&error.to_string(), &nearest_event(name))
        }
        HookPayloadError::NoEvent | HookPayloadError::NotAnObject => {
            let hint =
                "a payload is what a hook reads on stdin: the hook `cat > payload.json` saves one";
            CommandFailure::new(&format!("not a hook payload: {error}"), hint)
        }
        HookPayloadError::NotJson(_) => CommandFailure::caused_by(what, &error),
    })
}

fn nearest_event(name: &str) -> String {
    let lower: Vec<String> = CLIENT_EVENTS.iter().map(|event| event.to_lowercase()).collect();
    let near = text::nearest(name, lower.iter().map(String::as_str));
    let near = CLIENT_EVENTS.iter().find(|event| Some(event.to_lowercase().as_str()) == near);
    match near {
        Some(event) => format!("did you mean `{event}`?"),
        None => format!("the events are {}", CLIENT_EVENTS.join(", ")),
    }
}

/// The project of the session: the given one, the payload's `cwd`, or the current directory.
fn project_dir(args: &Args, payload: &HookPayload, here: &Path) -> Result<PathBuf, CommandFailure> {
    if let Some(named) = &args.project {
        let path = here.join(named);
        return fs::resolve(&path).filter(|path| fs::is_directory(path)).ok_or_else(|| {
            CommandFailure::new(
                &format!("`{}` is not a directory", named.display()),
                "check the path",
            )
        });
    }
    Ok(payload_cwd(payload).unwrap_or_else(|| here.to_owned()))
}

/// The payload's `cwd`, if it exists on this machine.
fn payload_cwd(payload: &HookPayload) -> Option<PathBuf> {
    let cwd = PathBuf::from(payload.text("cwd")?);
    (cwd.is_absolute() && fs::is_directory(&cwd)).then_some(cwd)
}

struct ReplayStage<'a> {
    found: replay_settings::ReplaySettings,
    project: PathBuf,
    root: &'a Path,
}

/// `None` if it was interrupted.
fn replay_payload(
    env: &Env,
    args: &Args,
    payload: &HookPayload,
    stage: &ReplayStage<'_>,
) -> Result<Option<ReplayResult>, CommandFailure> {
    let cancel = super::cancel_on_signals()?;
    let program = env::own_executable();
    let settings = &stage.found.loaded;
    let session = SessionId::parse(payload.session_id());
    let homes = replay_homes(env, args, session.as_ref(), stage)?;
    let home = homes.as_ref().map(|homes| &homes.used);
    let mut variables = env.variables();
    variables.push(("PATH".into(), search_path(env, &program)));
    let cwd = payload_cwd(payload).unwrap_or_else(|| stage.project.clone());
    let host = simulated_host();
    let config = host_env::host_config_dir(env, host).unwrap_or_else(|| stage.root.to_owned());
    let scene = ReplayContext {
        program: &program,
        cancel: &cancel,
        env: variables,
        env_overrides: forced_variables(args, payload, home, stage.root)?,
        project: &stage.project,
        cwd: &cwd,
        plugin_data: config.join(host.plugins.directory).join("data"),
        client: if args.live { ReplayClientProcess::Unnamed } else { ReplayClientProcess::StandIn },
    };
    let before = session_history(home, session.as_ref()).map_or(0, |history| history.entries.len());
    let watch = Stopwatch::start();
    let replayed = replay::run(payload, settings, scene);
    let mut replayed = replayed
        .map_err(|error| CommandFailure::caused_by("the payload cannot be replayed", &error))?;
    let ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
    if cancel.is_cancelled() {
        return Ok(None);
    }
    if let Some(homes) = &homes {
        restore_real_paths(&mut replayed, homes);
    }
    replayed.notices.extend(stage.found.notices.iter().cloned());
    let is_ours = replayed.hook.handlers.iter().any(|handled| calls_ralph(&handled.command));
    let ruling = is_ours.then(|| {
        let history = session_history(home, session.as_ref());
        let history = history.map(|history| decisions_after(history, before));
        match history {
            Some(history) if !history.entries.is_empty() => RalphDecision::Recorded(history),
            Some(_) | None => unrecorded_decision(env, payload, home, session.as_ref()),
        }
    });
    let (project, silence) = (stage.project.clone(), stage.found.no_hook_text.clone());
    Ok(Some(ReplayResult { replayed, ruling, project, no_hook_text: silence, ms }))
}

/// The real home of ralph, and the home that its hooks use.
struct ReplayHomes {
    real: RalphHome,
    /// A copy, unless `--live` is given.
    used: RalphHome,
}

fn replay_homes(
    env: &Env,
    args: &Args,
    session: Option<&SessionId>,
    stage: &ReplayStage<'_>,
) -> Result<Option<ReplayHomes>, CommandFailure> {
    let configured = stage.found.loaded.env.get("RALPH_HOME").filter(|path| !path.is_empty());
    let real = match configured.map(PathBuf::from) {
        Some(path) => Some(path).filter(|path| path.is_absolute()),
        None => env.ralph_home(),
    };
    let Some(real) = real.map(RalphHome::new) else { return Ok(None) };
    let root = stage.root.join("ralph");
    let used = match session {
        _ if args.live => real.clone(),
        None => RalphHome::new(root),
        Some(session) => rehearsal::copy_home(&real, session, &root).map_err(|error| {
            CommandFailure::caused_by("the session's run cannot be copied", &error)
        })?,
    };
    Ok(Some(ReplayHomes { real, used }))
}

/// Replaces paths of the copied home by those of the real one.
fn restore_real_paths(replayed: &mut ReplayReport, homes: &ReplayHomes) {
    let (Some(used), Some(real)) = (homes.used.root().to_str(), homes.real.root().to_str()) else {
        return;
    };
    let renamed = |text: &mut String| {
        if text.contains(used) {
            *text = text.replace(used, real);
        }
    };
    replayed.reads.iter_mut().for_each(|message| renamed(&mut message.text));
    replayed.person.iter_mut().for_each(renamed);
    for handled in &mut replayed.hook.handlers {
        renamed(&mut handled.stdout);
        renamed(&mut handled.stderr);
    }
    match &mut replayed.hook.effect {
        HookEffect::Allowed => {}
        HookEffect::Blocked { reasons: texts }
        | HookEffect::Overridden { reasons: texts }
        | HookEffect::Continued { context: texts } => {
            texts.iter_mut().for_each(renamed);
        }
        HookEffect::Stopped { reason } => reason.iter_mut().for_each(renamed),
    }
}

fn forced_variables(
    args: &Args,
    payload: &HookPayload,
    home: Option<&RalphHome>,
    root: &Path,
) -> Result<Vec<(OsString, OsString)>, CommandFailure> {
    let mut forced: Vec<(OsString, OsString)> = Vec::new();
    if payload.event() == "SessionStart" {
        let path = root.join("environment.sh");
        fs::replace_with_mode(&path, b"", fs::SharedFileMode::Ordinary)?;
        forced.push(("CLAUDE_ENV_FILE".into(), path.into()));
    }
    if let Some(home) = home.filter(|_| !args.live) {
        forced.push(("RALPH_HOME".into(), home.root().into()));
        forced.push((ralph_sys::env::REHEARSAL_VARIABLE.into(), home.root().into()));
    }
    Ok(forced)
}

/// Whether a command is one of ralph's own hooks: it contains the words `ralph hook`.
fn calls_ralph(command: &str) -> bool {
    let bare = |word: &str| word.trim_matches(['"', '\'']).to_owned();
    let words: Vec<String> = command.split_whitespace().map(bare).collect();
    let is_ralph = |word: &str| Path::new(word).file_name().is_some_and(|name| name == "ralph");
    words.windows(2).any(|pair| matches!(pair, [first, next] if is_ralph(first) && next == "hook"))
}

fn session_history(
    home: Option<&RalphHome>,
    session: Option<&SessionId>,
) -> Option<DecisionHistory> {
    rehearsal::session_decisions(home?, session?)
}

/// Keeps only the decisions after the first `before` entries.
fn decisions_after(mut history: DecisionHistory, before: usize) -> DecisionHistory {
    let is_decision = |entry: &JournalEntry| matches!(entry.change, RunChange::Decided(_));
    history.entries = history.entries.into_iter().skip(before).filter(is_decision).collect();
    history
}

fn unrecorded_decision(
    env: &Env,
    payload: &HookPayload,
    home: Option<&RalphHome>,
    session: Option<&SessionId>,
) -> RalphDecision {
    let event = payload.event();
    let (rule, because) = match (home, session) {
        (None, _) => ("not-mine", "cannot determine ralph's home directory".to_owned()),
        (_, None) => ("not-mine", "the payload has no valid session id".to_owned()),
        (Some(_), Some(_)) if env.is_ralph_off() => ("off", "`RALPH_OFF` is set".to_owned()),
        (Some(_), Some(_)) if event == "StopFailure" => {
            ("not-mine", "the turn failed, and no decision was needed".to_owned())
        }
        (Some(_), Some(_)) if event != "Stop" => {
            ("not-mine", format!("no decision was recorded for {event}"))
        }
        (Some(home), Some(session)) => {
            let because = match rehearsal::session_hold(home, session) {
                RehearsalHold::No => "no run holds this session",
                RehearsalHold::NoLonger => "the run of this session has ended",
                RehearsalHold::ByRun | RehearsalHold::ByFiles => {
                    "no decision was recorded; `ralph status` may show why"
                }
            };
            ("not-mine", because.to_owned())
        }
    };
    RalphDecision::Unrecorded { rule, because }
}
