//! `ralph replay`: sends one captured payload to the configured hooks and shows what the client would do. ralph's own
//! hooks decide about a copy of the run, unless `--live` is given.

pub(crate) mod args;
mod settings;
mod show;

use super::scratch;
use super::simulate::{INTERRUPTED, search_path};
use crate::report::Failure;
use crate::{FAILURE, SUCCESS};
use args::{Expected, Replay as Args};
use ralph_core::id::SessionId;
use ralph_core::record::{Change, Entry};
use ralph_core::text;
use ralph_home::paths::Home;
use ralph_hook::overview::History;
use ralph_hook::rehearsal::{self, Held};
use ralph_sim::replay::{self, Client, Decision, Payload, PayloadError, Replayed, Scene};
use ralph_sim::settings::EVENTS;
use ralph_sim::timeline::Effect;
use ralph_sys::clock::Stopwatch;
use ralph_sys::env::{self, Env};
use ralph_sys::fs;
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::signals;
use ralph_sys::stdin;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// ralph's own decision, if ralph was among the hooks.
enum Ruling {
    /// The journal has the decision.
    Recorded(History),
    /// Nothing was recorded; the rule and the reason are derived from the payload and the state.
    Unrecorded { rule: &'static str, because: String },
}

/// The result of a replay.
struct Shown {
    replayed: Replayed,
    ruling: Option<Ruling>,
    project: PathBuf,
    /// The explanation to print if no hook ran.
    silence: String,
    ms: u64,
}

pub(crate) fn run(env: &Env, args: &Args) -> Result<u8, Failure> {
    let payload = read(env, args)?;
    let here = env.current_dir().unwrap_or_else(|| PathBuf::from("/"));
    let project = project(args, &payload, &here)?;
    let found = settings::load(env, args, &payload, &project)?;
    let root = scratch(env, "ralph-replay")?;
    let replayed = play(env, args, &payload, &Stage { found, project, root: &root });
    let removed = fs::remove_made_dir(&root);
    let Some(shown) = replayed? else { return Ok(INTERRUPTED) };
    removed?;
    if args.json {
        show::as_json(args, &shown)?;
    } else {
        show::to_person(args, &shown)?;
    }
    Ok(match args.expect {
        Some(expected) if !is_met(expected, shown.replayed.decision) => FAILURE,
        Some(_) | None => SUCCESS,
    })
}

fn is_met(expected: Expected, found: Decision) -> bool {
    match expected {
        Expected::Blocked => found == Decision::Blocked,
        Expected::Allowed => found == Decision::Allowed,
        Expected::Stopped => found == Decision::Stopped,
    }
}

fn read(env: &Env, args: &Args) -> Result<Payload, Failure> {
    let what = "the payload cannot be read";
    let bytes = if args.payload == Path::new("-") {
        stdin::read_all(std::io::stdin(), replay::LARGEST)
            .map_err(|error| Failure::because(what, &error))?
    } else {
        let path = env.current_dir().unwrap_or_default().join(&args.payload);
        if fs::is_special(&path) {
            let what = format!("`{}` is not a regular file", args.payload.display());
            return Err(Failure::new(&what, "pipe it in instead, as `-`"));
        }
        fs::read(&path, replay::LARGEST)?
    };
    Payload::read(&bytes).map_err(|error| match &error {
        PayloadError::UnknownEvent(name) => Failure::new(&error.to_string(), &nearest(name)),
        PayloadError::NoEvent | PayloadError::NotAnObject => {
            let hint =
                "a payload is what a hook reads on stdin: the hook `cat > payload.json` saves one";
            Failure::new(&format!("not a hook payload: {error}"), hint)
        }
        PayloadError::NotJson(_) => Failure::because(what, &error),
    })
}

fn nearest(name: &str) -> String {
    let lower: Vec<String> = EVENTS.iter().map(|event| event.to_lowercase()).collect();
    let near = text::nearest(name, lower.iter().map(String::as_str));
    let near = EVENTS.iter().find(|event| Some(event.to_lowercase().as_str()) == near);
    match near {
        Some(event) => format!("did you mean `{event}`?"),
        None => format!("the events are {}", EVENTS.join(", ")),
    }
}

/// The project of the session: the given one, the payload's `cwd`, or the current directory.
fn project(args: &Args, payload: &Payload, here: &Path) -> Result<PathBuf, Failure> {
    if let Some(named) = &args.project {
        let path = here.join(named);
        return fs::resolve(&path).filter(|path| fs::is_directory(path)).ok_or_else(|| {
            Failure::new(&format!("`{}` is not a directory", named.display()), "check the path")
        });
    }
    Ok(directory_of(payload).unwrap_or_else(|| here.to_owned()))
}

/// The payload's `cwd`, if it exists on this machine.
fn directory_of(payload: &Payload) -> Option<PathBuf> {
    let cwd = PathBuf::from(payload.text("cwd")?);
    (cwd.is_absolute() && fs::is_directory(&cwd)).then_some(cwd)
}

struct Stage<'a> {
    found: settings::Found,
    project: PathBuf,
    root: &'a Path,
}

/// `None` if it was interrupted.
fn play(
    env: &Env,
    args: &Args,
    payload: &Payload,
    stage: &Stage<'_>,
) -> Result<Option<Shown>, Failure> {
    let cancel = Cancel::new().map(Arc::new);
    let cancel = cancel.map_err(|error| Failure::because("cannot wait for hooks", &error))?;
    signals::wish_on_signals(&cancel)
        .map_err(|error| Failure::because("cannot listen for signals", &error))?;
    let program = env::this_program();
    let settings = &stage.found.loaded;
    let session = SessionId::parse(payload.session());
    let homes = homes(env, args, session.as_ref(), stage)?;
    let home = homes.as_ref().map(|homes| &homes.used);
    let mut variables = env.variables();
    variables.push(("PATH".into(), search_path(env, &program)));
    let cwd = directory_of(payload).unwrap_or_else(|| stage.project.clone());
    let claude = env.claude_config_dir().unwrap_or_else(|| stage.root.to_owned());
    let scene = Scene {
        program: &program,
        cancel: &cancel,
        env: variables,
        forced: forced(args, payload, home, stage.root)?,
        project: &stage.project,
        cwd: &cwd,
        plugin_data: claude.join("plugins/data"),
        client: if args.live { Client::Unnamed } else { Client::StandIn },
    };
    let before = decided(home, session.as_ref()).map_or(0, |history| history.entries.len());
    let watch = Stopwatch::start();
    let replayed = replay::run(payload, settings, scene);
    let mut replayed =
        replayed.map_err(|error| Failure::because("the payload cannot be replayed", &error))?;
    let ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
    if cancel.is_wished() {
        return Ok(None);
    }
    if let Some(homes) = &homes {
        named_for_real(&mut replayed, homes);
    }
    replayed.notices.extend(stage.found.notices.iter().cloned());
    let is_ours = replayed.hook.handlers.iter().any(|handled| calls_ralph(&handled.command));
    let ruling = is_ours.then(|| {
        let history = decided(home, session.as_ref());
        let history = history.map(|history| since(history, before));
        match history {
            Some(history) if !history.entries.is_empty() => Ruling::Recorded(history),
            Some(_) | None => unrecorded(env, payload, home, session.as_ref()),
        }
    });
    let (project, silence) = (stage.project.clone(), stage.found.silence.clone());
    Ok(Some(Shown { replayed, ruling, project, silence, ms }))
}

/// The real home of ralph, and the home that its hooks use.
struct Homes {
    real: Home,
    /// A copy, unless `--live` is given.
    used: Home,
}

fn homes(
    env: &Env,
    args: &Args,
    session: Option<&SessionId>,
    stage: &Stage<'_>,
) -> Result<Option<Homes>, Failure> {
    let configured = stage.found.loaded.env.get("RALPH_HOME").filter(|path| !path.is_empty());
    let real = match configured.map(PathBuf::from) {
        Some(path) => Some(path).filter(|path| path.is_absolute()),
        None => env.ralph_home(),
    };
    let Some(real) = real.map(Home::new) else { return Ok(None) };
    let root = stage.root.join("ralph");
    let used = match session {
        _ if args.live => real.clone(),
        None => Home::new(root),
        Some(session) => rehearsal::copy(&real, session, &root)
            .map_err(|error| Failure::because("the session's run cannot be copied", &error))?,
    };
    Ok(Some(Homes { real, used }))
}

/// Replaces paths of the copied home by those of the real one.
fn named_for_real(replayed: &mut Replayed, homes: &Homes) {
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
        Effect::Allowed => {}
        Effect::Blocked { reasons: texts }
        | Effect::Overridden { reasons: texts }
        | Effect::Continued { context: texts } => {
            texts.iter_mut().for_each(renamed);
        }
        Effect::Stopped { reason } => reason.iter_mut().for_each(renamed),
    }
}

fn forced(
    args: &Args,
    payload: &Payload,
    home: Option<&Home>,
    root: &Path,
) -> Result<Vec<(OsString, OsString)>, Failure> {
    let mut forced: Vec<(OsString, OsString)> = Vec::new();
    if payload.event() == "SessionStart" {
        let path = root.join("environment.sh");
        fs::put(&path, b"", fs::Mode::Ordinary)?;
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

fn decided(home: Option<&Home>, session: Option<&SessionId>) -> Option<History> {
    rehearsal::history(home?, session?)
}

/// Keeps only the decisions after the first `before` entries.
fn since(mut history: History, before: usize) -> History {
    let is_decision = |entry: &Entry| matches!(entry.change, Change::Decided(_));
    history.entries = history.entries.into_iter().skip(before).filter(is_decision).collect();
    history
}

fn unrecorded(
    env: &Env,
    payload: &Payload,
    home: Option<&Home>,
    session: Option<&SessionId>,
) -> Ruling {
    let event = payload.event();
    let (rule, because) = match (home, session) {
        (None, _) => ("not-mine", "cannot determine ralph's home directory".to_owned()),
        (_, None) => ("not-mine", "the payload has no valid session id".to_owned()),
        (Some(_), Some(_)) if env.is_off() => ("off", "`RALPH_OFF` is set".to_owned()),
        (Some(_), Some(_)) if event == "StopFailure" => {
            ("not-mine", "the turn failed, and no decision was needed".to_owned())
        }
        (Some(_), Some(_)) if event != "Stop" => {
            ("not-mine", format!("no decision was recorded for {event}"))
        }
        (Some(home), Some(session)) => {
            let because = match rehearsal::held(home, session) {
                Held::No => "no run holds this session",
                Held::NoLonger => "the run of this session has ended",
                Held::ByRun | Held::ByFiles => {
                    "no decision was recorded; `ralph status` may show why"
                }
            };
            ("not-mine", because.to_owned())
        }
    };
    Ruling::Unrecorded { rule, because }
}
