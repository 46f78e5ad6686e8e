//! Gives the agent of a run what ralph remembers of the project: lessons of earlier runs, notes, and the memory files of
//! the repository. Everything is fenced as data.

use crate::contract::{CONTRACT_REQUIREMENTS, LINES_REQUIREMENT};
use crate::project_scope::run_directory;
use crate::reminder;
use ralph_core::lesson::{self, Lesson, MemoryBlock, MemoryNote, MemoryQuery};
use ralph_core::policy::MemoryPolicy;
use ralph_core::proof_summary::PROOF_REQUIREMENT;
use ralph_core::reason::ReasonContext;
use ralph_core::record::{RunOrigin, RunRecord};
use ralph_core::redact::Redactor;
use ralph_core::reminder::{MemoryFile, fence_memories};
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::learning_file;
use ralph_home::lesson_store;
use ralph_home::paths::RalphHome;
use ralph_home::world::World;
use ralph_policy::config;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const GIVEN_VERSION: u8 = 1;
const MAX_GIVEN_BYTES: usize = 256 * 1024;
/// Notes that are compared with a goal, the newest ones. Each costs the reading of a small file.
const MAX_NOTES: usize = 200;
const MAX_CUE_BYTES: usize = 16 * 1024;
/// The name of the lessons in a reminder.
const LESSONS_NAME: &str = "ralph's memory of this project";

/// `runs/<run>/memory.json` and `session-memory/<session>`: what an agent was given, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenMemory {
    pub v: u8,
    pub given: Vec<String>,
}

impl GivenMemory {
    /// `None` if there is none, or if this version cannot read it.
    pub fn read(path: &Path) -> Option<Self> {
        let given = fs::read_json::<Self>(path, MAX_GIVEN_BYTES).ok()??;
        (given.v == GIVEN_VERSION).then_some(given)
    }

    pub fn write(path: &Path, given: Vec<String>) -> Result<(), FileError> {
        if let Some(parent) = path.parent() {
            fs::create_private_dir(parent)?;
        }
        let bytes = fs::encode_json(path, &Self { v: GIVEN_VERSION, given })?;
        fs::replace(path, &bytes, Durability::Cached)
    }
}

/// What ralph remembers of a project.
#[derive(Debug, Default)]
pub struct ProjectMemory {
    pub lessons: Vec<Lesson>,
    pub notes: Vec<MemoryNote>,
}

impl ProjectMemory {
    /// Lessons that cannot be read become a fault: the agent works without them.
    pub fn load(home: &RalphHome, project: &Path, redactor: &Redactor) -> Self {
        let lessons = lesson_store::load_lessons(home, project).unwrap_or_else(|error| {
            faults::record_fault(home, &Fault::new(FaultKind::File, &describe_error(&error)));
            Vec::new()
        });
        Self { lessons, notes: load_notes(home, project, redactor) }
    }

    fn only(mut self, given: &[String]) -> Self {
        self.lessons.retain(|lesson| given.contains(&lesson.id));
        self.notes.retain(|note| given.contains(&note.id));
        self
    }
}

fn load_notes(home: &RalphHome, project: &Path, redactor: &Redactor) -> Vec<MemoryNote> {
    let mut files = learning_file::learning_files(&home.project_learnings(project));
    // Their names begin with the time.
    files.sort();
    let newest = files.iter().rev().take(MAX_NOTES);
    let learnings = newest.filter_map(|path| learning_file::read_learning(path, redactor));
    learnings
        .map(|it| MemoryNote { id: it.id, title: it.title, text: it.text, at_ms: it.at_ms })
        .collect()
}

/// The project that a run's lessons belong to: the directory with the policy. A run with a work tree of its own belongs
/// to the repository that the tree came from.
pub fn memory_project(run: &RunRecord) -> PathBuf {
    let directory = Path::new(run_directory(run));
    let directory = fs::resolve(directory).unwrap_or_else(|| directory.to_path_buf());
    config::find_project(&directory)
}

/// The sealed policy of a run; a run without a policy has the defaults.
pub fn memory_policy(run: &RunRecord) -> MemoryPolicy {
    run.seal.as_ref().map(|seal| seal.policy.memory.clone()).unwrap_or_default()
}

/// Whether the agent of the run was given its part of the memory already.
pub fn has_given(home: &RalphHome, run: &RunRecord) -> bool {
    fs::exists(&home.run(&run.id).given_memory())
}

/// The lessons and notes for the agent of a run; `None` if there is nothing for it. They are chosen once; later calls
/// return the same ones, as far as they still exist.
pub fn run_memory(world: &World, run: &RunRecord) -> Option<String> {
    let policy = memory_policy(run);
    if policy.max_chars == 0 || run.origin == RunOrigin::Session {
        return None;
    }
    let path = world.home.run(&run.id).given_memory();
    let redactor = Redactor::new(world.env.secrets());
    let memory = ProjectMemory::load(&world.home, &memory_project(run), &redactor);
    let most = policy.max_chars as usize;
    if let Some(known) = GivenMemory::read(&path) {
        let memory = memory.only(&known.given);
        let (lessons, notes) = (memory.lessons.iter(), memory.notes.iter());
        let block =
            render(&lessons.collect::<Vec<_>>(), &notes.collect::<Vec<_>>(), most, &redactor);
        return Some(block.text).filter(|text| !text.is_empty());
    }
    let query = MemoryQuery {
        goal: goal_start(&world.home, run),
        requirements: measured_requirements(run),
        now_ms: clock::now_ms(),
    };
    let (lessons, notes) = lesson::select_memory(&memory.lessons, &memory.notes, &query, &[]);
    let block = render(&lessons, &notes, most, &redactor);
    if !world.env.is_rehearsal()
        && let Err(error) = GivenMemory::write(&path, block.given)
    {
        let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_run(&run.id);
        faults::record_fault(&world.home, &fault);
    }
    Some(block.text).filter(|text| !text.is_empty())
}

/// The same, followed by excerpts of the repository's own memory files. Both together keep the limit.
pub fn start_memory(world: &World, run: &RunRecord) -> Option<String> {
    let most = memory_policy(run).max_chars as usize;
    let mut text = run_memory(world, run).unwrap_or_default();
    let room = most.saturating_sub(text.chars().count());
    let redactor = Redactor::new(world.env.secrets());
    text.push_str(&memory_files(Path::new(&run.project), room, &redactor));
    Some(text).filter(|text| !text.is_empty())
}

/// Excerpts of the repository's own memory files, in at most `most` characters.
pub(crate) fn memory_files(project: &Path, most: usize, redactor: &Redactor) -> String {
    fence_memories(&reminder::project_memories(project), most, &fence_context(redactor))
}

/// What the agent was given, for a reminder after its context was lost.
pub fn reminder_memory(world: &World, run: &RunRecord) -> Option<MemoryFile> {
    let known = GivenMemory::read(&world.home.run(&run.id).given_memory())?;
    if known.given.is_empty() || memory_policy(run).max_chars == 0 {
        return None;
    }
    let redactor = Redactor::new(world.env.secrets());
    let memory =
        ProjectMemory::load(&world.home, &memory_project(run), &redactor).only(&known.given);
    let now_ms = clock::now_ms();
    let lessons = memory.lessons.iter().map(|it| lesson::describe_lesson(it, now_ms, &redactor));
    let notes = memory.notes.iter().map(|note| format!("note: {}", note.title));
    let text = lessons.chain(notes).collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then(|| MemoryFile { name: LESSONS_NAME.to_string(), text })
}

pub(crate) fn render(
    lessons: &[&Lesson],
    notes: &[&MemoryNote],
    most: usize,
    redactor: &Redactor,
) -> MemoryBlock {
    lesson::render_block(lessons, notes, clock::now_ms(), most, &fence_context(redactor))
}

fn fence_context(redactor: &Redactor) -> ReasonContext<'_> {
    ReasonContext { redactor, nonce: clock::nonce(), goal: None, adoption_notice: None }
}

/// The first part of the goal; the title of a run whose goal cannot be read.
pub(crate) fn goal_start(home: &RalphHome, run: &RunRecord) -> String {
    let goal = fs::read_range(&home.run(&run.id).goal(), 0, MAX_CUE_BYTES);
    let goal = goal.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    if goal.trim().is_empty() { run.title.clone() } else { goal }
}

/// The requirements that can hold the run and that lessons are about: its gates, and ralph's own checks of the change.
pub(crate) fn measured_requirements(run: &RunRecord) -> Vec<String> {
    let gates = run.seal.iter().flat_map(|seal| &seal.policy.gates).map(|gate| gate.name.clone());
    let own = CONTRACT_REQUIREMENTS.iter().chain([&LINES_REQUIREMENT, &PROOF_REQUIREMENT]);
    gates.chain(own.map(ToString::to_string)).collect()
}
