//! `state/<session>/orchestrator.json` at the start of a run that works in phases: nothing is done yet. The agent says
//! there how far it is; what it says is a claim, and the gates decide.

use crate::clock;
use crate::fs::{self, FileError};
use crate::world::World;
use ralph_core::id::SessionId;
use ralph_core::record::Run;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Serialize)]
struct Begun<'a> {
    ralph_run: &'a str,
    phase: &'static str,
    verified_done: bool,
    conditions: Conditions,
    last_updated: String,
}

#[expect(clippy::struct_excessive_bools, reason = "other tools read them as such")]
#[derive(Default, Serialize)]
struct Conditions {
    memory_search: bool,
    task_classified: bool,
    must_have_answered: bool,
    plan_approved: bool,
    implementation_complete: bool,
    correctness_passed: Option<bool>,
    quality_passed: Option<bool>,
    adversarial_passed: Option<bool>,
    retrospective_done: bool,
}

/// A file that is there already says more than this one.
pub fn begin(world: &World, session: &SessionId, run: &Run) -> Result<PathBuf, FileError> {
    let directory = world.home.state(session);
    fs::create_dir(&directory)?;
    let begun = Begun {
        ralph_run: run.id.as_str(),
        phase: "planning",
        verified_done: false,
        conditions: Conditions::default(),
        last_updated: clock::rfc3339(clock::now_ms()),
    };
    let mut bytes = serde_json::to_vec_pretty(&begun).unwrap_or_default();
    bytes.push(b'\n');
    let path = directory.join("orchestrator.json");
    fs::create_new(&path, &bytes)?;
    Ok(path)
}
