//! `ralph gate warm` runs gates ahead of a stop, or as the background worker of one; `ralph gate wait` waits for that
//! worker.

use super::args::{GateWait, GateWarm};
use super::{approved, policy};
use crate::cmd::{home, print_json};
use crate::report::Failure;
use crate::{FAILURE, SUCCESS, term};
use ralph_core::gate::{Gate, Moment};
use ralph_core::id::RunId;
use ralph_gates::gates::{self, Content, Course, Order, Place, Ran, Reuse};
use ralph_home::paths::Home;
use ralph_home::world::World;
use ralph_hook::contract::work::{self, Task, Where};
use ralph_hook::control::Named;
use ralph_policy::trust;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::fs::slot::{self, Peeked};
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::signals;
use ralph_sys::proc::worker::Leash;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// A worker has no deadline of its own: the timeouts of its gates bound it.
const WORKER: Duration = Duration::from_hours(24);

#[derive(Serialize)]
struct WaitJson<'a> {
    v: u8,
    run: &'a str,
    status: &'static str,
}

pub(crate) fn run(env: &Env, args: &GateWarm) -> Result<u8, Failure> {
    let home = home(env)?;
    match &args.run {
        Some(run) => of_run(env, &home, run, args),
        None => of_project(env, &home, args),
    }
}

/// Runs as the worker of a stop. Results go to the cache, errors to stderr, which is the worker's log.
fn of_run(env: &Env, home: &Home, run: &str, args: &GateWarm) -> Result<u8, Failure> {
    let unknown = || Failure::new("there is no such run", "`ralph status --all` lists all runs");
    let run = RunId::parse(run).ok_or_else(unknown)?;
    let world = World::new(env.clone(), Deadline::after(WORKER)).ok_or_else(unknown)?;
    let tombstones = [home.tombstone(run.as_str()), home.kill_switch()];
    let (own, asked, mark) = (home.clone(), run.clone(), args.mark.clone().unwrap_or_default());
    let is_obsolete = move || !mark.is_empty() && work::is_called_off(&own, &asked, &mark);
    let cancel = cancel(move || tombstones.iter().any(|path| fs::exists(path)) || is_obsolete())?;
    if args.leashed {
        Leash::follow(&cancel)
            .map_err(|error| Failure::because("cannot watch the parent process", &error))?;
    }
    let site = args.site.unwrap_or(Where::Tree);
    let mark = args.mark.clone().unwrap_or_default();
    let task = Task { site, gates: args.names.clone(), mark };
    work::perform(&world, &run, &task, &cancel)
        .map_err(|error| Failure::because("the gates could not be run", &error))?;
    Ok(SUCCESS)
}

/// Runs gates after an edit. Only one process at a time per project: a second one would run the same gates.
fn of_project(env: &Env, home: &Home, args: &GateWarm) -> Result<u8, Failure> {
    let config = policy(env, home, args.project.as_deref())?;
    let subject = approved(home, &config, None)?;
    let path = home.warming(&config.project);
    if let Some(parent) = path.parent() {
        fs::create_dir(parent)?;
    }
    let Some(_alone) = slot::take(&path, &|| false)? else { return Ok(SUCCESS) };
    let wanted: Vec<&Gate> = config
        .policy
        .gates
        .iter()
        .filter(|gate| {
            if args.names.is_empty() {
                gate.on.contains(&Moment::Stop)
            } else {
                args.names.contains(&gate.name)
            }
        })
        .collect();
    let recorded = trust::recorded_path(home, &subject);
    let cancel = cancel(|| false)?;
    let ran = gates::run(&Course {
        place: Place {
            home,
            env,
            project: &config.project,
            content: Content::Tree { exclude: &[home.root().to_path_buf()] },
            environment: &config.policy.environment,
            path: recorded.as_deref(),
            deadline: Deadline::after(super::LISTING),
        },
        gates: &wanted,
        order: Order::Staged,
        reuse: Reuse::Known,
        cancel: &cancel,
        accepts: &Ran::passed,
        watch: &|_| {},
    });
    Ok(if ran.iter().all(Ran::passed) { SUCCESS } else { FAILURE })
}

fn cancel(elsewhere: impl Fn() -> bool + Send + Sync + 'static) -> Result<Arc<Cancel>, Failure> {
    let cancel = Cancel::or_when(elsewhere).map(Arc::new);
    let cancel = cancel.map_err(|error| Failure::because("cannot set up cancellation", &error))?;
    signals::wish_on_signals(&cancel)
        .map_err(|error| Failure::because("cannot watch for signals", &error))?;
    Ok(cancel)
}

pub(crate) fn wait(env: &Env, args: &GateWait) -> Result<u8, Failure> {
    let home = home(env)?;
    let named = args.name.clone().or_else(|| env.claude_session());
    let hint = "give a run or session; `ralph status` lists them";
    let named = named.ok_or_else(|| Failure::new("no run given", hint))?;
    let Named::Run(run) = crate::cmd::named(&home, &named)? else {
        return Err(Failure::new("no run holds this session", hint));
    };
    let deadline = Deadline::after(Duration::from_millis(args.timeout));
    let path = home.run(&run).working();
    let cancel = cancel(|| false)?;
    let free = match slot::peek(&path, 0) {
        Ok(Peeked::Free(_)) => true,
        Ok(Peeked::Held) | Err(_) => {
            slot::take(&path, &|| !deadline.is_over() && !cancel.is_wished())?.is_some()
        }
    };
    let status = if free { "done" } else { "running" };
    if args.json {
        print_json(&WaitJson { v: 1, run: run.as_str(), status })?;
    } else if free {
        term::out("no gate of this run is running; stop again to get the results\n")?;
    } else {
        term::out("gates are still running; wait again\n")?;
    }
    Ok(if free { SUCCESS } else { FAILURE })
}
