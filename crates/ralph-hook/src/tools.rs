//! Tool calls: each one is a heartbeat, and calls that would change ralph's own files or protected files are denied.
//!
//! The rules themselves are in `ralph-guard`; this file supplies them with the paths.

use crate::heard;
use crate::surroundings;
use ralph_core::event::{ToolCall, ToolDone};
use ralph_core::policy::Objection;
use ralph_core::record::Change;
use ralph_core::redact::Redactor;
use ralph_core::run::Phase;
use ralph_core::text;
use ralph_core::verdict::Verdict;
use ralph_gates::gates::key::globs_of;
use ralph_guard::{Call, Denied, Ground, Scope};
use ralph_home::faults::{self, Fault, Kind, describe};
use ralph_home::store::{self, Opened, Step};
use ralph_home::world::World;
use ralph_policy::config;
use ralph_sys::env;
use ralph_sys::fs::{self, Durability};
use ralph_sys::proc::worker::{self, SpawnError};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Tools after which gate results may change.
const EDITS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];

const LONGEST_CALL: usize = 300;

pub fn on_call(world: &World, call: &ToolCall) -> Verdict {
    let Some(session) = &call.session else { return Verdict::Allow };
    let held = heard::run_of(world, session)
        .and_then(|run| store::load(&world.home, &run).ok())
        .filter(|opened| opened.state.owner(&opened.run) == Some(session))
        .filter(|opened| opened.state.phase == Phase::Active);
    let objection = held.as_ref().map_or(Objection::Deny, |opened| {
        opened.run.seal.as_ref().map_or(Objection::Deny, |seal| seal.policy.protect.guard)
    });
    if objection == Objection::Off {
        return Verdict::Allow;
    }
    let Some(denied) = judge(world, call, held.as_ref()) else { return Verdict::Allow };
    if let Some(opened) = &held {
        note(world, opened, call, &denied);
    }
    let reason = Redactor::new(world.env.secrets()).redact(&denied.reason);
    match objection {
        Objection::Ask => Verdict::Ask { reason },
        Objection::Deny | Objection::Off => Verdict::Deny { reason },
    }
}

/// Starts the gates in the background after an edit, so that results are ready at the next stop. Happens only if a
/// person registered the hook for this event.
pub fn on_done(world: &World, done: &ToolDone) -> Verdict {
    let run = done.session.as_ref().and_then(|session| heard::run_of(world, session));
    let Some(run) = run.filter(|_| EDITS.contains(&done.tool.as_str())) else {
        return Verdict::Allow;
    };
    if let Ok(Opened { run, state, .. }) = store::load(&world.home, &run)
        && state.phase == Phase::Active
        && let Some(seal) = &run.seal
        && let Err(error) = warm(Path::new(&seal.project))
    {
        let fault = Fault::new(Kind::File, &describe(&error)).of_run(&run.id);
        faults::record(&world.home, &fault);
    }
    Verdict::Allow
}

/// Starts a background worker. It takes a lock, so a second worker exits immediately.
fn warm(project: &Path) -> Result<(), SpawnError> {
    let program = env::this_program();
    let arguments = ["gate", "warm", "--project"].map(OsStr::new);
    let worker = worker::spawn(&worker::Spec {
        program: &program,
        arguments: &[&arguments[..], &[project.as_os_str()]].concat(),
        env: &[],
        log: None,
    })?;
    // The worker is running in any case; a failure here only means that it may end with this process.
    drop(worker.let_go());
    Ok(())
}

fn judge(world: &World, call: &ToolCall, held: Option<&Opened>) -> Option<Denied> {
    let project = held.map(|opened| PathBuf::from(&opened.run.project));
    let cwd = call.cwd.as_deref().map(PathBuf::from).filter(|cwd| cwd.is_absolute());
    let project = project.or_else(|| world.env.project_dir()).or_else(|| cwd.clone())?;
    let homes = spellings(world.home.root());
    let claims = call.session.iter().flat_map(|session| spellings(&world.home.state(session)));
    let claims: Vec<String> = claims.collect();
    let (settings, policies) = match held {
        Some(opened) => {
            let transcript = call.transcript.iter().flat_map(|path| spellings(Path::new(path)));
            let settings = settings(world, &project).into_iter().chain(transcript).collect();
            (settings, policies(opened, &project))
        }
        None => (Vec::new(), Vec::new()),
    };
    let protected = held
        .and_then(|opened| opened.run.seal.as_ref())
        .map(|seal| (globs_of(&seal.policy.protect.paths), inside(&seal.project, &project)));
    let is_protected = |path: &str| {
        protected.as_ref().is_some_and(|(globs, below)| {
            let path = Path::new(path);
            path.strip_prefix(below).is_ok_and(|path| globs.is_match(path))
        })
    };
    let cwd = cwd.unwrap_or_else(|| project.clone());
    let user_home = world.env.home().map(|home| home.to_string_lossy().into_owned());
    let ground = Ground {
        ralph_homes: &texts(&homes),
        claims: &texts(&claims),
        user_home: user_home.as_deref(),
        project: &project.to_string_lossy(),
        cwd: &cwd.to_string_lossy(),
        settings: &texts(&settings),
        policy_files: &texts(&policies),
        is_protected: &is_protected,
        scope: if held.is_some() { Scope::Run } else { Scope::HomeOnly },
    };
    ralph_guard::judge(&Call { tool: &call.tool, input: &call.input }, &ground)
}

fn texts(paths: &[String]) -> Vec<&str> {
    paths.iter().map(String::as_str).collect()
}

/// A path as written and as resolved: an agent may use either.
fn spellings(path: &Path) -> Vec<String> {
    // The root or a relative path would match every path.
    if !path.is_absolute() || path.parent().is_none() {
        return Vec::new();
    }
    let mut found = vec![path.to_string_lossy().into_owned()];
    if let Some(resolved) = fs::resolve(path) {
        let resolved = resolved.to_string_lossy().into_owned();
        if !found.contains(&resolved) {
            found.push(resolved);
        }
    }
    found
}

/// Files that determine whether the host still calls ralph.
fn settings(world: &World, project: &Path) -> Vec<String> {
    let user = world.env.claude_config_dir().into_iter().flat_map(|directory| {
        ["settings.json", "settings.local.json", "plugins"].map(|name| directory.join(name))
    });
    let own = world.env.home().map(|home| home.join(".claude.json"));
    let local =
        ["settings.json", "settings.local.json"].map(|name| project.join(".claude").join(name));
    user.chain(own).chain(local).flat_map(|path| spellings(&path)).collect()
}

fn policies(opened: &Opened, project: &Path) -> Vec<String> {
    let sealed = opened.run.seal.as_ref().map(|seal| PathBuf::from(&seal.project));
    let places = [Some(project.to_path_buf()), sealed].into_iter().flatten();
    places
        .flat_map(|place| config::NAMES.map(|name| place.join(name)))
        .flat_map(|path| spellings(&path))
        .collect()
}

/// The directory of the policy, relative to the project that the agent works in.
fn inside(sealed: &str, project: &Path) -> PathBuf {
    Path::new(sealed).strip_prefix(project).map(Path::to_path_buf).unwrap_or_default()
}

/// Records the denied call in the journal.
fn note(world: &World, opened: &Opened, call: &ToolCall, denied: &Denied) {
    let redactor = Redactor::new(world.env.secrets());
    let shorten = |text: &str, most| text::cut(&redactor.redact(&text::line(text, most * 2)), most);
    let change = Change::Denied {
        tool: shorten(&call.tool, 60),
        what: denied.what.name().to_string(),
        call: shorten(call.input.get(), LONGEST_CALL),
    };
    let run = &opened.run.id;
    let durability = Durability::Cached;
    let step = |_: &Opened| Step::Write { change, durability, answer: () };
    if let Err(error) = store::transact(&world.on(run), step) {
        surroundings::trouble(world, run, &error);
    }
}
