//! From a plan to the end of the night.

use super::prepare::{Plan, Work};
use super::view::View;
use crate::cmd::{home, start};
use crate::report::Failure;
use ralph_drive::agent::Client;
use ralph_drive::{DriveError, Wishes};
use ralph_exec::env::Env;
use ralph_exec::proc::signals;
use std::path::PathBuf;

pub(super) fn go(env: &Env, plan: Plan, view: &mut View) -> Result<(), Failure> {
    let home = home(env)?;
    let Plan { work, program, mut notes } = plan;
    let run = match work {
        Work::New(new) => {
            let begun = start::begin(env, &home, &new.demand)?;
            notes.extend(begun.notes);
            begun.run
        }
        Work::Resumed(opened) => opened.run,
    };
    let wishes = Wishes::default();
    signals::count(&wishes.counter())
        .and_then(|()| signals::outlive_readers())
        .map_err(|error| Failure::because("cannot listen to signals", &error))?;
    let client = Client { program, project: PathBuf::from(&run.project), env: env.clone() };
    let run = run.id;
    let plan = ralph_drive::Plan { client: &client, home: &home, run, wishes: &wishes, notes };
    ralph_drive::drive(&plan, view).map(drop).map_err(failed)
}

fn failed(error: DriveError) -> Failure {
    let hint = match &error {
        DriveError::Driven(_) => "`ralph status` shows what goes on",
        DriveError::NotDriven(_) | DriveError::HasEnded { .. } => {
            "`ralph run \"…\"` begins another"
        }
        DriveError::Session(_) | DriveError::Store(_) => "`ralph run --resume RUN` goes on with it",
    };
    Failure::because("the run broke off", &error).with_hint(hint)
}
