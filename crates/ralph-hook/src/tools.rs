//! Tool calls: each one is a heartbeat, and calls that would change ralph's own files or protected files are denied.
//!
//! The rules themselves are in `ralph-guard`; this file supplies them with the paths.

use crate::facts;
use crate::heartbeat;
use ralph_core::event::{ToolCallEvent, ToolDoneEvent};
use ralph_core::policy::GuardAction;
use ralph_core::record::RunChange;
use ralph_core::redact::Redactor;
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_core::verdict::Verdict;
use ralph_gates::gates::result_key::compile_globs;
use ralph_guard::{DeniedCall, GuardContext, GuardScope, GuardedCall};
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::host_env;
use ralph_home::store::{self, LoadedRun, TransactionStep};
use ralph_home::world::World;
use ralph_policy::config;
use ralph_sys::env;
use ralph_sys::fs::{self, Durability};
use ralph_sys::proc::worker::{self, WorkerSpawnError};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const MAX_RECORDED_CALL_CHARS: usize = 300;

pub fn on_call(world: &World, call: &ToolCallEvent) -> Verdict {
    let Some(session) = &call.session else { return Verdict::Allow };
    // Without a readable run only ralph's own files are guarded.
    let held = heartbeat::find_run_and_beat(world, session)
        .and_then(|run| {
            let opened = store::load_run(&world.home, &run);
            opened.inspect_err(|error| facts::record_run_fault(world, &run, error)).ok()
        })
        .filter(|opened| opened.state.owner(&opened.run) == Some(session))
        .filter(|opened| opened.state.phase == RunPhase::Active);
    let objection = held.as_ref().map_or(GuardAction::Deny, |opened| {
        opened.run.seal.as_ref().map_or(GuardAction::Deny, |seal| seal.policy.protect.guard)
    });
    if objection == GuardAction::Off {
        return Verdict::Allow;
    }
    let Some(denied) = guard_call(world, call, held.as_ref()) else { return Verdict::Allow };
    if let Some(opened) = &held {
        record_denial(world, opened, call, &denied);
    }
    let reason = Redactor::new(world.env.secrets()).redact(&denied.reason);
    match objection {
        GuardAction::Ask => Verdict::AskPerson { reason },
        GuardAction::Deny | GuardAction::Off => Verdict::DenyTool { reason },
    }
}

/// Starts the gates in the background after an edit, so that results are ready at the next stop. Happens only if a
/// person registered the hook for this event.
pub fn on_done(world: &World, done: &ToolDoneEvent) -> Verdict {
    let run =
        done.session.as_ref().and_then(|session| heartbeat::find_run_and_beat(world, session));
    let Some(run) = run.filter(|_| world.host.tools.edit_tools.contains(&done.tool.as_str()))
    else {
        return Verdict::Allow;
    };
    if let Ok(LoadedRun { run, state, .. }) = store::load_run(&world.home, &run)
        && state.phase == RunPhase::Active
        && let Some(seal) = &run.seal
        && let Err(error) = start_gate_worker(Path::new(&seal.project))
    {
        let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_run(&run.id);
        faults::record_fault(&world.home, &fault);
    }
    Verdict::Allow
}

/// Starts a background worker. It takes a lock, so a second worker exits immediately.
fn start_gate_worker(project: &Path) -> Result<(), WorkerSpawnError> {
    let program = env::own_executable();
    let arguments = ["gate", "warm", "--project"].map(OsStr::new);
    let worker = worker::spawn_worker(&worker::WorkerSpec {
        program: &program,
        arguments: &[&arguments[..], &[project.as_os_str()]].concat(),
        env: &[],
        log: None,
    })?;
    // The worker is running in any case; a failure here only means that it may end with this process.
    drop(worker.detach());
    Ok(())
}

fn guard_call(world: &World, call: &ToolCallEvent, held: Option<&LoadedRun>) -> Option<DeniedCall> {
    let project = held.map(|opened| PathBuf::from(&opened.run.project));
    let cwd = call.cwd.as_deref().map(PathBuf::from).filter(|cwd| cwd.is_absolute());
    let project =
        project.or_else(|| host_env::host_project_dir(&world.env)).or_else(|| cwd.clone())?;
    let homes = path_spellings(world.home.root());
    let claims =
        call.session.iter().flat_map(|session| path_spellings(&world.home.session_state(session)));
    let claims: Vec<String> = claims.collect();
    let (settings, policies) = match held {
        Some(opened) => {
            let transcript =
                call.transcript.iter().flat_map(|path| path_spellings(Path::new(path)));
            let settings = settings_paths(world, &project).into_iter().chain(transcript).collect();
            (settings, policy_paths(opened, &project))
        }
        None => (Vec::new(), Vec::new()),
    };
    let protected = held.and_then(|opened| opened.run.seal.as_ref()).map(|seal| {
        (compile_globs(&seal.policy.protect.paths), policy_directory(&seal.project, &project))
    });
    let is_protected = |path: &str| {
        protected.as_ref().is_some_and(|(globs, below)| {
            let path = Path::new(path);
            path.strip_prefix(below).is_ok_and(|path| globs.is_match(path))
        })
    };
    let cwd = cwd.unwrap_or_else(|| project.clone());
    let user_home = world.env.home().map(|home| home.to_string_lossy().into_owned());
    let ground = GuardContext {
        host: world.host,
        ralph_homes: &as_strs(&homes),
        claims: &as_strs(&claims),
        user_home: user_home.as_deref(),
        project: &project.to_string_lossy(),
        cwd: &cwd.to_string_lossy(),
        settings: &as_strs(&settings),
        policy_files: &as_strs(&policies),
        is_protected: &is_protected,
        scope: if held.is_some() { GuardScope::Run } else { GuardScope::HomeOnly },
    };
    ralph_guard::judge_call(&GuardedCall { tool: &call.tool, input: &call.input }, &ground)
}

fn as_strs(paths: &[String]) -> Vec<&str> {
    paths.iter().map(String::as_str).collect()
}

/// A path as written and as resolved: an agent may use either.
fn path_spellings(path: &Path) -> Vec<String> {
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
fn settings_paths(world: &World, project: &Path) -> Vec<String> {
    let files = &world.host.files;
    let user = host_env::host_config_dir(&world.env, world.host)
        .into_iter()
        .flat_map(|directory| files.guarded_config.iter().map(move |name| directory.join(name)));
    let own = world.env.home().map(|home| home.join(files.state));
    let local = [files.project_settings, files.local_settings].map(|name| project.join(name));
    user.chain(own).chain(local).flat_map(|path| path_spellings(&path)).collect()
}

fn policy_paths(opened: &LoadedRun, project: &Path) -> Vec<String> {
    let sealed = opened.run.seal.as_ref().map(|seal| PathBuf::from(&seal.project));
    let places = [Some(project.to_path_buf()), sealed].into_iter().flatten();
    places
        .flat_map(|place| config::POLICY_FILE_NAMES.map(|name| place.join(name)))
        .flat_map(|path| path_spellings(&path))
        .collect()
}

/// The directory of the policy, relative to the project that the agent works in.
fn policy_directory(sealed: &str, project: &Path) -> PathBuf {
    Path::new(sealed).strip_prefix(project).map(Path::to_path_buf).unwrap_or_default()
}

/// The input of a call without secrets, which are found only in strings that are not escaped.
fn redact_call(input: &str, redactor: &Redactor) -> String {
    match serde_json::from_str::<Value>(input) {
        Ok(mut input) => {
            redact_strings(&mut input, redactor);
            input.to_string()
        }
        Err(_) => input.to_string(),
    }
}

fn redact_strings(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => *text = redactor.redact(text),
        Value::Array(values) => values.iter_mut().for_each(|value| redact_strings(value, redactor)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| redact_strings(value, redactor));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Records the denied call in the journal.
fn record_denial(world: &World, opened: &LoadedRun, call: &ToolCallEvent, denied: &DeniedCall) {
    let redactor = Redactor::new(world.env.secrets());
    let shorten = |text: &str, most| {
        text::truncate(&redactor.redact(&text::clean_line(text, most * 2)), most)
    };
    let change = RunChange::Denied {
        tool: shorten(&call.tool, 60),
        what: denied.target.name().to_string(),
        call: shorten(&redact_call(call.input.get(), &redactor), MAX_RECORDED_CALL_CHARS),
    };
    let run = &opened.run.id;
    let durability = Durability::Cached;
    let step = |_: &LoadedRun| TransactionStep::Write { change, durability, answer: () };
    if let Err(error) = store::transact(&world.transaction(run), step) {
        facts::record_run_fault(world, run, &error);
    }
}
