//! `ralph gate warm` runs gates ahead of a stop, or as the background worker of one; `ralph wait` waits for that
//! worker.

use super::gate_args::{GateWaitArgs, GateWarmArgs};
use super::{load_policy, require_approval};
use crate::cmd::{cancel_on_signals, cancel_on_signals_or, open_home, print_json, run_choice};
use crate::failure::CommandFailure;
use crate::{FAILURE, SUCCESS, term};
use ralph_core::gate::{Gate, GateTrigger};
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_gates::gates::{
    self, GateContent, GateContext, GateOrder, GateResult, GateRunRequest, ResultReuse,
};
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_home::world::World;
use ralph_hook::cleaning_worker;
use ralph_hook::contract::gate_worker::{self, GateSite, GateTask};
use ralph_hook::project_runs::RunPurpose;
use ralph_policy::trust;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::fs::file_slot::{self, SlotContent};
use ralph_sys::proc::worker::ParentLink;
use serde::Serialize;
use std::time::Duration;

/// A worker has no deadline of its own: the timeouts of its gates bound it.
const WORKER_TIMEOUT: Duration = Duration::from_hours(24);

#[derive(Serialize)]
struct GateWaitJson<'a> {
    v: u8,
    run: &'a str,
    status: &'static str,
}

pub(crate) fn run(env: &Env, args: &GateWarmArgs) -> Result<u8, CommandFailure> {
    let home = open_home(env)?;
    match &args.run {
        Some(run) => run_as_worker(env, &home, run, args),
        None => warm_project(env, &home, args),
    }
}

/// Runs as the worker of a stop. Results go to the cache, errors to stderr, which is the worker's log.
fn run_as_worker(
    env: &Env,
    home: &RalphHome,
    run: &str,
    args: &GateWarmArgs,
) -> Result<u8, CommandFailure> {
    let unknown =
        || CommandFailure::new("there is no such run", "`ralph status --all` lists all runs");
    let run = RunId::parse(run).ok_or_else(unknown)?;
    let world = World::new(env.clone(), Deadline::after(WORKER_TIMEOUT)).ok_or_else(unknown)?;
    let tombstones = [home.tombstone(run.as_str()), home.kill_switch()];
    let (own, asked, mark) = (home.clone(), run.clone(), args.mark.clone().unwrap_or_default());
    let is_obsolete =
        move || !mark.is_empty() && gate_worker::is_task_cancelled(&own, &asked, &mark);
    let cancel = cancel_on_signals_or(move || {
        tombstones.iter().any(|path| fs::exists(path)) || is_obsolete()
    })?;
    if args.leashed {
        ParentLink::attach(&cancel).map_err(|error| {
            CommandFailure::caused_by("cannot watch the parent process", &error)
        })?;
    }
    let site = args.site.unwrap_or(GateSite::Tree);
    let mark = args.mark.clone().unwrap_or_default();
    let task = GateTask { site, gates: args.names.clone(), mark };
    gate_worker::perform_task(&world, &run, &task, &cancel)
        .map_err(|error| CommandFailure::caused_by("the gates could not be run", &error))?;
    if !env.is_rehearsal() {
        cleaning_worker::clean_if_due(home);
    }
    Ok(SUCCESS)
}

/// Runs gates after an edit. Only one process at a time per project: a second one would run the same gates.
fn warm_project(env: &Env, home: &RalphHome, args: &GateWarmArgs) -> Result<u8, CommandFailure> {
    let config = load_policy(env, home, args.project.as_deref())?;
    let subject = require_approval(env, home, &config, None)?;
    let path = home.warming_lock(&config.project);
    if let Some(parent) = path.parent() {
        fs::create_private_dir(parent)?;
    }
    let Some(_alone) = file_slot::acquire(&path, &|| false)? else { return Ok(SUCCESS) };
    let wanted: Vec<&Gate> = config
        .policy
        .gates
        .iter()
        .filter(|gate| {
            if args.names.is_empty() {
                gate.on.contains(&GateTrigger::Stop) && !gate.is_ci()
            } else {
                args.names.contains(&gate.name)
            }
        })
        .collect();
    let recorded = trust::recorded_path(home, &subject);
    let cancel = cancel_on_signals()?;
    let ran = gates::run_gates(&GateRunRequest {
        listing: None,
        context: GateContext {
            home,
            env,
            project: &config.project,
            content: GateContent::Tree { exclude: &[home.root().to_path_buf()] },
            environment: &config.policy.environment,
            path: recorded.as_deref(),
            mounts: None,
            ci_base: None,
            deadline: Deadline::after(super::LISTING_TIMEOUT),
        },
        gates: &wanted,
        order: GateOrder::Staged,
        reuse: ResultReuse::Cached,
        cancel: &cancel,
        ci_checkout: None,
        accepts: &GateResult::passed,
        watch: &|_| {},
    });
    Ok(if ran.iter().all(GateResult::passed) { SUCCESS } else { FAILURE })
}

pub(crate) fn wait_for_gates(env: &Env, args: &GateWaitArgs) -> Result<u8, CommandFailure> {
    let home = open_home(env)?;
    let named = args.name.clone().or_else(|| host_env::host_session(env));
    let hint = "give a run or session; `ralph status` lists them";
    let no_run = |_: &_| CommandFailure::new("no run holds this session", hint);
    let run = match named {
        Some(named) => run_choice::find_run(&home, &named, no_run)?,
        // The reason for a hold names this command, and a person may run it too.
        None => run_choice::project_run(env, &home, RunPurpose::Steer)?,
    };
    let deadline = Deadline::after(Duration::from_millis(args.timeout));
    let path = home.run(&run).worker_lock();
    let cancel = cancel_on_signals()?;
    let free = match file_slot::peek(&path, 0) {
        Ok(SlotContent::Free(_)) => true,
        Ok(SlotContent::Held) | Err(_) => {
            file_slot::acquire(&path, &|| !deadline.has_passed() && !cancel.is_cancelled())?
                .is_some()
        }
    };
    let status = if free { "done" } else { "running" };
    if args.json {
        print_json(&GateWaitJson { v: 1, run: run.as_str(), status })?;
    } else if !free {
        term::out("gates are still running; wait again\n")?;
    } else if let RunPhase::Ended(status) = store::load_run(&home, &run)?.state.phase {
        term::out(&format!(
            "run `{run}` has ended: {}; there is nothing to wait for\n",
            status.name()
        ))?;
    } else {
        term::out("no gate of this run is running; stop again to get the results\n")?;
    }
    Ok(if free { SUCCESS } else { FAILURE })
}
