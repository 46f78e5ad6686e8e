//! Builds the reminder for an agent that may have lost its context: the goal, the state of the run, and the notes that
//! earlier sessions left in the project.

use crate::project_memory;
use ralph_core::lesson;
use ralph_core::reason::ReasonContext;
use ralph_core::record::RunRecord;
use ralph_core::redact::Redactor;
use ralph_core::reminder::{self, MemoryFile, Reminder};
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::goal_file;
use ralph_home::store::LoadedRun;
use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

const MAX_REMINDER_GOAL_BYTES: usize = 16 * 1024;
const MAX_MEMORY_BYTES: usize = 16 * 1024;
const MAX_PLANS: usize = 10_000;
const MAX_MEMORIES: usize = 4;

/// The full reminder, with the goal.
pub fn build_reminder(world: &World, opened: &LoadedRun) -> String {
    let LoadedRun { run, state, .. } = opened;
    let redactor = Redactor::new(world.env.secrets());
    let reason_context = ReasonContext {
        redactor: &redactor,
        nonce: clock::nonce(),
        goal: None,
        adoption_notice: None,
    };
    let goal = goal_excerpt(world, run);
    let given = project_memory::reminder_memory(world, run);
    let files = project_memories(Path::new(&run.project));
    let memories: Vec<_> = given.into_iter().chain(files).collect();
    let anchor = Reminder { run, state, goal: goal.as_deref(), memories: &memories };
    reminder::render_reminder(&anchor, &reason_context)
}

/// The first part of the goal, more of it than any message quotes; `None` if the run has no goal. If it cannot be read,
/// the agent gets the error instead, because it would otherwise work without knowing that there is a goal.
pub fn goal_excerpt(world: &World, run: &RunRecord) -> Option<String> {
    if run.goal_bytes == 0 {
        return None;
    }
    Some(match goal_file::read_goal(&world.home, run) {
        Ok(mut goal) => {
            goal.truncate(MAX_REMINDER_GOAL_BYTES);
            String::from_utf8_lossy(&goal).into_owned()
        }
        Err(error) => {
            let what = describe_error(&error);
            faults::record_fault(
                &world.home,
                &Fault::new(FaultKind::File, &what).with_run(&run.id),
            );
            format!("(ralph cannot show the goal: {what}. Ask the person for it with `ralph ask`.)")
        }
    })
}

/// The reminder without the goal, for an agent that was just given the goal.
pub fn build_reminder_without_goal(world: &World, opened: &LoadedRun) -> String {
    let LoadedRun { run, state, .. } = opened;
    let redactor = Redactor::new(world.env.secrets());
    let reason_context = ReasonContext {
        redactor: &redactor,
        nonce: clock::nonce(),
        goal: None,
        adoption_notice: None,
    };
    let memories = project_memories(Path::new(&run.project));
    reminder::render_reminder(
        &Reminder { run, state, goal: None, memories: &memories },
        &reason_context,
    )
}

/// `.ralph/memory.md`, then the `MEMORY.md` of each plan, most recently modified first.
pub fn project_memories(project: &Path) -> Vec<MemoryFile> {
    let plans = project.join("docs/plans");
    let names = fs::list(&plans, MAX_PLANS).unwrap_or_default();
    let mut found: Vec<(u64, PathBuf)> = names
        .iter()
        .map(|name| Path::new("docs/plans").join(name).join("MEMORY.md"))
        .filter_map(|path| Some((fs::stat(&project.join(&path))?.modified_ns, path)))
        .collect();
    found.sort_by_key(|(modified, path)| (std::cmp::Reverse(*modified), path.clone()));
    let own = PathBuf::from(".ralph/memory.md");
    let all = std::iter::once(own).chain(found.into_iter().map(|(_, path)| path));
    all.filter_map(|path| read_memory(project, &path)).take(MAX_MEMORIES).collect()
}

/// Reads a file only if no part of its path in the project is a symlink: a repository could let one lead to any file, also
/// to one of the project that git does not track, such as `.git/config`.
fn read_memory(project: &Path, path: &Path) -> Option<MemoryFile> {
    let place = fs::resolve(&project.join(path))?;
    if place != fs::resolve(project)?.join(path) {
        return None;
    }
    let bytes = fs::read_range(&place, 0, MAX_MEMORY_BYTES).ok()?;
    let text = lesson::without_export(&String::from_utf8_lossy(&bytes));
    let text = text.trim_end().to_string();
    (!text.trim().is_empty()).then(|| MemoryFile { name: plain_name(path), text })
}

/// A name stands outside of the fence around a text, so one that could read as a sentence is not shown.
fn plain_name(path: &Path) -> String {
    let name = path.display().to_string();
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._-/".contains(char);
    if name.chars().all(is_plain) { name } else { "the MEMORY.md of a plan".to_string() }
}
