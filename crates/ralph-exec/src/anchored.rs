//! Gathers what an agent is told when it may have forgotten: the goal, how it stands, and what was written down in the
//! project for whoever comes next.

use crate::clock;
use crate::fs;
use crate::store::Opened;
use crate::world::World;
use ralph_core::anchor::{self, Anchor, Memory};
use ralph_core::reason::Telling;
use ralph_core::redact::Redactor;
use std::path::{Path, PathBuf};

const SHOWN_GOAL: usize = 16 * 1024;
const LARGEST_MEMORY: usize = 16 * 1024;
const MOST_PLANS: usize = 10_000;
const MOST_MEMORIES: usize = 4;

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

/// What an agent is held to, for one that has the goal before its eyes.
pub fn terms(world: &World, opened: &Opened) -> String {
    let Opened { run, state, .. } = opened;
    let redactor = Redactor::new(world.env.secrets());
    let telling = Telling { redactor: &redactor, nonce: clock::nonce(), goal: None, adopted: None };
    let memories = memories(Path::new(&run.project));
    anchor::text(&Anchor { run, state, goal: None, memories: &memories }, &telling)
}

/// `.ralph/memory.md`, then the `MEMORY.md` of each plan, the one written last first.
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

/// Only what really lies in the project: a link out of it could show anything.
fn read(project: &Path, path: &Path) -> Option<Memory> {
    let place = fs::resolve(&project.join(path))?;
    if !place.starts_with(fs::resolve(project)?) {
        return None;
    }
    let bytes = fs::read_range(&place, 0, LARGEST_MEMORY).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.trim().is_empty()).then(|| Memory { name: path.display().to_string(), text })
}
