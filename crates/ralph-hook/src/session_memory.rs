//! Gives sessions without a run what ralph remembers of the project, where an approved policy or the person's own settings
//! have `[memory] sessions = true`. A prompt gets what matches its words, and a session gets everything once.

use crate::facts;
use crate::project_memory::{self, GivenMemory, ProjectMemory};
use ralph_core::event::PromptEvent;
use ralph_core::id::SessionId;
use ralph_core::lesson::{self, MemoryBlock, MemoryQuery};
use ralph_core::redact::Redactor;
use ralph_core::verdict::Verdict;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::world::World;
use ralph_policy::config::ProjectConfig;
use ralph_policy::trust;
use ralph_sys::clock;

/// More would mean that the whole memory was given.
const MAX_GIVEN: usize = 1_000;
/// Stands for the memory files among the ids of what was given.
const MEMORY_FILES: &str = "files";

/// The context for a prompt, if its session is to get any. `config` is the policy of its project.
pub(crate) fn prompt_memory(
    world: &World,
    prompt: &PromptEvent,
    session: &SessionId,
    config: &ProjectConfig,
) -> Verdict {
    let policy = &config.policy.memory;
    if !policy.sessions || policy.max_chars == 0 {
        return Verdict::Allow;
    }
    if facts::find_off_switch(world, session.as_str()).is_some() {
        return Verdict::Allow;
    }
    let path = world.home.session_memory(session);
    let mut given = GivenMemory::read(&path).unwrap_or_default().given;
    if given.len() >= MAX_GIVEN {
        return Verdict::Allow;
    }
    let redactor = Redactor::new(world.env.secrets());
    let memory = ProjectMemory::load(&world.home, &config.project, &redactor);
    let query = MemoryQuery {
        goal: prompt.text.clone(),
        requirements: Vec::new(),
        now_ms: clock::now_ms(),
    };
    let (lessons, notes) = lesson::select_memory(&memory.lessons, &memory.notes, &query, &given);
    let most = policy.max_chars as usize;
    let MemoryBlock { mut text, given: mut new } =
        project_memory::render(&lessons, &notes, most, &redactor);
    if !given.iter().any(|id| id == MEMORY_FILES) {
        let room = most.saturating_sub(text.chars().count());
        let files = project_memory::memory_files(&config.project, room, &redactor);
        if !files.is_empty() {
            text.push_str(&files);
            new.push(MEMORY_FILES.to_string());
        }
    }
    if new.is_empty() || !is_approved(world, config) {
        return Verdict::Allow;
    }
    given.extend(new);
    // Without the record, every prompt would get the same again.
    if let Err(error) = GivenMemory::write(&path, given) {
        let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_session(session);
        faults::record_fault(&world.home, &fault);
        return Verdict::Allow;
    }
    Verdict::AddContext { context: text, notice: None }
}

fn is_approved(world: &World, config: &ProjectConfig) -> bool {
    trust::policy_subject(&world.home, config, &world.env)
        .is_ok_and(|subject| trust::is_approved(&world.home, &subject))
}
