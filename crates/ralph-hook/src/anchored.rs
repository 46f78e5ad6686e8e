//! Builds the reminder for an agent that may have lost its context: the goal, the state of the run, and the notes that
//! earlier sessions left in the project.

use ralph_core::anchor::{self, Anchor, Memory};
use ralph_core::reason::Telling;
use ralph_core::redact::Redactor;
use ralph_home::store::Opened;
use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

const SHOWN_GOAL: usize = 16 * 1024;
const LARGEST_MEMORY: usize = 16 * 1024;
const MOST_PLANS: usize = 10_000;
const MOST_MEMORIES: usize = 4;

/// The full reminder, with the goal.
pub fn text(world: &World, opened: &Opened) -> String {
    let Opened { run, state, .. } = opened;
    let redactor = Redactor::new(world.env.secrets());
    let telling = Telling { redactor: &redactor, nonce: clock::nonce(), goal: None, adopted: None };
    let goal = (run.goal_bytes > 0)
        .then(|| fs::read_range(&world.home.run(&run.id).goal(), 0, SHOWN_GOAL).ok())
        .flatten()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let memories = memories(Path::new(&run.project));
    let anchor = Anchor { run, state, goal: goal.as_deref(), memories: &memories };
    anchor::text(&anchor, &telling)
}

/// The reminder without the goal, for an agent that was just given the goal.
pub fn terms(world: &World, opened: &Opened) -> String {
    let Opened { run, state, .. } = opened;
    let redactor = Redactor::new(world.env.secrets());
    let telling = Telling { redactor: &redactor, nonce: clock::nonce(), goal: None, adopted: None };
    let memories = memories(Path::new(&run.project));
    anchor::text(&Anchor { run, state, goal: None, memories: &memories }, &telling)
}

/// `.ralph/memory.md`, then the `MEMORY.md` of each plan, most recently modified first.
pub fn memories(project: &Path) -> Vec<Memory> {
    let plans = project.join("docs/plans");
    let names = fs::list(&plans, MOST_PLANS).unwrap_or_default();
    let mut found: Vec<(u64, PathBuf)> = names
        .iter()
        .map(|name| Path::new("docs/plans").join(name).join("MEMORY.md"))
        .filter_map(|path| Some((fs::stat(&project.join(&path))?.modified_ns, path)))
        .collect();
    found.sort_by_key(|(modified, path)| (std::cmp::Reverse(*modified), path.clone()));
    let own = PathBuf::from(".ralph/memory.md");
    let all = std::iter::once(own).chain(found.into_iter().map(|(_, path)| path));
    all.filter_map(|path| read(project, &path)).take(MOST_MEMORIES).collect()
}

/// Reads a file only if it resolves to a path inside the project; a symlink could point at any file.
fn read(project: &Path, path: &Path) -> Option<Memory> {
    let place = fs::resolve(&project.join(path))?;
    if !place.starts_with(fs::resolve(project)?) {
        return None;
    }
    let bytes = fs::read_range(&place, 0, LARGEST_MEMORY).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.trim().is_empty()).then(|| Memory { name: path.display().to_string(), text })
}
