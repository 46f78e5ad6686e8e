//! Lists what ralph keeps, with the state, age and size of each. Reads only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::project_scope::run_directory;
use ralph_core::digest64::Digest64;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::RunRecord;
use ralph_core::retention::{StoredItem, StoredKind, StoredState};
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_git::ralph_refs::{self, RalphRefs};
use ralph_git::worktree;
use ralph_home::paths::RalphHome;
use ralph_home::run_process;
use ralph_home::store::{self, LoadedRun, StoreError};
use ralph_policy::config::{self, MAX_GATE_TIMEOUT_MS};
use ralph_proof::ListedProofDirectory;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::file_slot::{self, SlotContent};
use ralph_sys::fs::{self, FileError, FileKind};

use super::linked_directories::{is_link, list_own};
use crate::control;
use crate::session_note::SessionNote;

const MAX_ENTRIES: usize = 100_000;
const HOUR_MS: u64 = 60 * 60 * 1000;
/// A session that was used since then may still be open.
const OPEN_SESSION_MS: u64 = 24 * HOUR_MS;
/// A directory without a record that is older than this is not one that is being created.
const CREATION_MS: u64 = HOUR_MS;
/// Small files of the person, or that ralph needs to know what happened.
const PERSONAL: &str =
    "config.toml signing-key trust learnings memory spend faults queues held state deck";

/// Whose files are listed. Caches and leftovers belong to no project and are part of every list.
#[derive(Clone, Debug)]
pub enum CleanScope {
    /// Its runs, sessions and refs. The path has no links.
    Project(PathBuf),
    EveryProject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InventoryDetail {
    /// With sizes, refs without a run, and whether the work of each work tree is merged.
    Full,
    /// Only what costs no more than a look at each file.
    Quick,
}

/// Something that ralph keeps.
#[derive(Clone, Debug)]
pub struct StoredEntry {
    pub item: StoredItem,
    pub target: CleanTarget,
}

/// What has to be removed. Paths are made from names that were checked, below directories that ralph knows.
#[derive(Clone, Debug)]
pub enum CleanTarget {
    /// The directory of a run or of a session's record, and its refs in this project.
    Run {
        id: RunId,
        project: Option<PathBuf>,
        sessions: Vec<SessionId>,
    },
    /// A directory inside a run.
    OldCheckout(RunId),
    ProofDirectory(ListedProofDirectory),
    /// The record of the run has its description.
    Worktree(RunId),
    SessionNote(SessionId),
    /// Its own lock.
    CacheEntry(PathBuf),
    File(PathBuf),
    Directory(PathBuf),
    Refs {
        project: PathBuf,
        run: String,
    },
    /// Never removed by itself.
    Nothing(&'static str),
}

impl CleanTarget {
    /// For people and `--json`.
    pub fn name(&self) -> String {
        match self {
            Self::Run { id, .. } | Self::OldCheckout(id) | Self::Worktree(id) => id.to_string(),
            Self::ProofDirectory(directory) => directory.path.display().to_string(),
            Self::SessionNote(session) => session.to_string(),
            Self::CacheEntry(path) | Self::File(path) | Self::Directory(path) => {
                path.display().to_string()
            }
            Self::Refs { run, .. } => format!("refs/ralph/{run}/"),
            Self::Nothing(name) => (*name).to_string(),
        }
    }
}

struct InventoryScan<'a> {
    home: &'a RalphHome,
    scope: &'a CleanScope,
    detail: InventoryDetail,
    deadline: &'a Deadline,
    now_ms: u64,
    entries: Vec<StoredEntry>,
}

pub(super) fn take_inventory(
    home: &RalphHome,
    scope: &CleanScope,
    detail: InventoryDetail,
    deadline: &Deadline,
) -> Result<Vec<StoredEntry>, FileError> {
    let now_ms = clock::now_ms();
    let mut all = InventoryScan { home, scope, detail, deadline, now_ms, entries: Vec::new() };
    if !is_link(&home.runs()) {
        all.add_runs()?;
    }
    all.add_sessions()?;
    all.add_proof_directories();
    if !is_link(&home.cache()) {
        all.add_cache()?;
    }
    all.add_scratch()?;
    if detail == InventoryDetail::Full {
        all.add_unowned_refs();
        all.add_kept_files()?;
    }
    Ok(all.entries)
}

impl InventoryScan<'_> {
    fn includes(&self, project: Option<&Path>) -> bool {
        match (self.scope, project) {
            (CleanScope::EveryProject, _) => true,
            // A project below this one has a policy or a repository of its own.
            (CleanScope::Project(wanted), Some(project)) => {
                let project = fs::resolve(project).unwrap_or_else(|| project.to_path_buf());
                project == *wanted || config::find_project(&project) == *wanted
            }
            (CleanScope::Project(_), None) => false,
        }
    }

    fn size(&self, path: &Path) -> u64 {
        match self.detail {
            InventoryDetail::Full => fs::measure_tree(path),
            InventoryDetail::Quick => 0,
        }
    }

    /// The time since the file was last written.
    fn age(&self, path: &Path) -> u64 {
        let modified = fs::stat_no_follow(path).map(|stat| stat.modified_ns / 1_000_000);
        modified.map_or(0, |modified| self.now_ms.saturating_sub(modified))
    }

    fn add(&mut self, item: StoredItem, target: CleanTarget) {
        self.entries.push(StoredEntry { item, target });
    }

    fn add_runs(&mut self) -> Result<(), FileError> {
        let sessions = sessions_by_run(self.home)?;
        for id in store::list_runs(self.home)? {
            if !is_own_directory(self.home.run(&id).directory()) {
                continue;
            }
            let loaded = store::load_run(self.home, &id);
            let project =
                loaded.as_ref().ok().map(|opened| PathBuf::from(run_directory(&opened.run)));
            if !self.includes(project.as_deref()) {
                continue;
            }
            let paths = self.home.run(&id);
            let state = match &loaded {
                Ok(opened) => retention_state(self.home, opened),
                Err(error) => self.broken_state(error, paths.directory()),
            };
            let age_ms = match &loaded {
                Ok(opened) => self.now_ms.saturating_sub(opened.state.last_seen_ms),
                Err(_) => self.age(paths.directory()),
            };
            let named = project.as_ref().map(|path| path.to_string_lossy().into_owned());
            let item = |kind, state, bytes| StoredItem {
                kind,
                state,
                age_ms,
                bytes,
                project: named.clone(),
            };
            let checkout = self.size(&paths.old_checkout());
            let bytes = self.size(paths.directory()).saturating_sub(checkout);
            if fs::exists(&paths.old_checkout()) {
                let is_over = !matches!(state, StoredState::InUse | StoredState::Unreadable);
                let state = if is_over { StoredState::Leftover } else { state };
                let item = item(StoredKind::Checkout, state, checkout);
                self.add(item, CleanTarget::OldCheckout(id.clone()));
            }
            let state = match loaded.as_ref().ok().and_then(existing_worktree) {
                Some((path, record)) => {
                    let found = self.worktree_state(state, record);
                    let item = item(StoredKind::Worktree, found, self.size(&path));
                    self.add(item, CleanTarget::Worktree(id.clone()));
                    // A run is needed to land, or to remove, its work tree.
                    if state == StoredState::InUse { state } else { StoredState::Unmerged }
                }
                None => state,
            };
            let sessions = sessions.get(id.as_str()).cloned().unwrap_or_default();
            let target = CleanTarget::Run { id, project, sessions };
            self.add(item(StoredKind::Run, state, bytes), target);
        }
        Ok(())
    }

    fn broken_state(&self, error: &StoreError, directory: &Path) -> StoredState {
        match error {
            StoreError::NoSuchRun(_) if self.age(directory) > CREATION_MS => StoredState::Leftover,
            StoreError::NoSuchRun(_) => StoredState::InUse,
            StoreError::File(_)
            | StoreError::Lock(_)
            | StoreError::TimedOut
            | StoreError::Newer { .. }
            | StoreError::Unreadable { .. } => StoredState::Unreadable,
        }
    }

    /// Git is asked only if a person waits for the answer.
    fn worktree_state(&self, run: StoredState, record: &RunRecord) -> StoredState {
        let is_over = !matches!(run, StoredState::InUse | StoredState::Unreadable);
        match record.drive.as_ref().and_then(|drive| drive.worktree.as_ref()) {
            _ if !is_over => StoredState::InUse,
            Some(worktree)
                if self.detail == InventoryDetail::Full
                    && worktree::has_landed(self.home, worktree, self.deadline)
                        .is_ok_and(|landed| landed) =>
            {
                StoredState::Leftover
            }
            Some(_) | None => StoredState::Unmerged,
        }
    }

    /// Notes of sessions without a run, and the records that belong to them.
    fn add_sessions(&mut self) -> Result<(), FileError> {
        let mut noted: BTreeMap<String, (u64, PathBuf)> = BTreeMap::new();
        for name in list_own(&self.home.session_notes())? {
            let Some(session) = name.to_str().and_then(SessionId::parse) else { continue };
            let path = self.home.session_note(&session);
            let age_ms = self.age(&path);
            let note = SessionNote::read(self.home, &session);
            let project = note.as_ref().map(|note| PathBuf::from(&note.project));
            if let Some(project) = &project {
                let base = RunId::of_session(Digest64::of_parts(&[session.as_str().as_bytes()]).0);
                let record = note.and_then(|note| note.record);
                for id in [Some(base), record].into_iter().flatten() {
                    noted.insert(id.to_string(), (age_ms, project.clone()));
                }
            }
            if self.includes(project.as_deref()) {
                let item = StoredItem {
                    kind: StoredKind::SessionNote,
                    state: session_state(age_ms),
                    age_ms,
                    bytes: self.size(&path),
                    project: None,
                };
                self.add(item, CleanTarget::SessionNote(session));
            }
        }
        for name in list_own(&self.home.session_memories())? {
            let Some(session) = name.to_str().and_then(SessionId::parse) else { continue };
            let path = self.home.session_memory(&session);
            let age_ms = self.age(&path);
            let (kind, state) = (StoredKind::SessionNote, session_state(age_ms));
            let item = shared_item(kind, state, age_ms, self.size(&path));
            self.add(item, CleanTarget::File(path));
        }
        let records = if is_link(&self.home.runs()) {
            Vec::new()
        } else {
            store::list_session_records(self.home)?
        };
        for id in records {
            let paths = self.home.run(&id);
            if !is_own_directory(paths.directory()) {
                continue;
            }
            let own_age = self.age(&paths.journal()).max(self.age(paths.directory()));
            let (note_age, noted_in) = noted.get(id.as_str()).cloned().unzip();
            let age_ms = note_age.unwrap_or(u64::MAX).min(own_age);
            let recorded = || {
                store::load_run(self.home, &id).ok().map(|it| PathBuf::from(run_directory(&it.run)))
            };
            let project = noted_in
                .or_else(recorded)
                .or_else(|| ralph_refs::recorded_project(&paths.shadow_repository()));
            if !self.includes(project.as_deref()) {
                continue;
            }
            let is_busy = is_held(&paths.worker_lock()) || is_held(&paths.base_lock());
            let state = if is_busy { StoredState::InUse } else { session_state(age_ms) };
            let bytes = self.size(paths.directory());
            let kind = StoredKind::SessionRecord;
            let item = StoredItem { kind, state, age_ms, bytes, project: None };
            self.add(item, CleanTarget::Run { id, project, sessions: Vec::new() });
        }
        Ok(())
    }

    /// The directories of proofs, outside ralph's home.
    fn add_proof_directories(&mut self) {
        for directory in ralph_proof::list_recorded_directories(self.home) {
            let state =
                if directory.is_abandoned { StoredState::Leftover } else { StoredState::InUse };
            let bytes = self.size(&directory.path);
            let item = shared_item(StoredKind::Checkout, state, 0, bytes);
            self.add(item, CleanTarget::ProofDirectory(directory));
        }
    }

    fn add_cache(&mut self) -> Result<(), FileError> {
        let cache = self.home.cache();
        for name in list_own(&cache.join("gates"))? {
            let directory = cache.join("gates").join(name);
            self.add_files(&directory, StoredKind::GateResult, CleanTarget::CacheEntry)?;
        }
        self.add_files(&cache.join("logs"), StoredKind::GateLog, CleanTarget::File)?;
        for name in ["stat", "history"] {
            self.add_files(&cache.join(name), StoredKind::TreeCache, CleanTarget::File)?;
        }
        Ok(())
    }

    fn add_files(
        &mut self,
        directory: &Path,
        kind: StoredKind,
        target: fn(PathBuf) -> CleanTarget,
    ) -> Result<(), FileError> {
        if !is_own_directory(directory) {
            return Ok(());
        }
        for name in fs::list_if_exists(directory, MAX_ENTRIES)? {
            let path = directory.join(name);
            let Some(stat) = fs::stat_no_follow(&path) else { continue };
            if stat.kind != FileKind::File {
                continue;
            }
            let age_ms = self.now_ms.saturating_sub(stat.modified_ns / 1_000_000);
            let item = shared_item(kind, StoredState::Rebuildable, age_ms, stat.len);
            self.add(item, target(path));
        }
        Ok(())
    }

    /// Directories of gates, and those that an earlier cleaning did not finish.
    fn add_scratch(&mut self) -> Result<(), FileError> {
        for name in list_own(&self.home.scratch_directories())? {
            let path = self.home.scratch_directories().join(name);
            let age_ms = self.age(&path);
            // No gate runs for longer, so its process is gone.
            let is_stale = age_ms > MAX_GATE_TIMEOUT_MS + HOUR_MS;
            let state = if is_stale { StoredState::Leftover } else { StoredState::InUse };
            let item = shared_item(StoredKind::Scratch, state, age_ms, self.size(&path));
            self.add(item, CleanTarget::Directory(path));
        }
        for name in list_own(&self.home.trash())? {
            let path = self.home.trash().join(name);
            let (kind, state) = (StoredKind::Trash, StoredState::Leftover);
            let item = shared_item(kind, state, self.age(&path), self.size(&path));
            self.add(item, CleanTarget::Directory(path));
        }
        Ok(())
    }

    /// Refs in the project whose run is not in this home.
    fn add_unowned_refs(&mut self) {
        let projects: BTreeSet<PathBuf> = match self.scope {
            CleanScope::Project(project) => BTreeSet::from([project.clone()]),
            CleanScope::EveryProject => {
                let named = self.entries.iter().filter_map(|entry| entry.item.project.as_ref());
                named.map(PathBuf::from).collect()
            }
        };
        for project in projects {
            // Without git, or without the project, its refs cannot be listed.
            let Ok(refs) = RalphRefs::read(&project, self.deadline) else { continue };
            for (run, count) in refs.runs() {
                let is_here =
                    RunId::parse(run).is_some_and(|id| fs::exists(self.home.run(&id).directory()));
                for _ in (0..count).filter(|_| !is_here) {
                    let (kind, state) = (StoredKind::CheckpointRefs, StoredState::Unowned);
                    let item = shared_item(kind, state, 0, 0);
                    let target = CleanTarget::Refs { project: project.clone(), run: run.into() };
                    self.add(item, target);
                }
            }
        }
    }

    fn add_kept_files(&mut self) -> Result<(), FileError> {
        let home = self.home;
        for directory in [home.root().to_path_buf(), home.sessions(), home.trust(), home.memory()] {
            for name in fs::list_if_exists(&directory, MAX_ENTRIES)? {
                if name.to_string_lossy().contains(".quarantined-") {
                    let path = directory.join(name);
                    let (kind, state) = (StoredKind::Quarantined, StoredState::Unreadable);
                    let item = shared_item(kind, state, 0, self.size(&path));
                    self.add(item, CleanTarget::File(path));
                }
            }
        }
        for (kind, name) in
            [(StoredKind::RecallIndex, "index"), (StoredKind::InstallRecord, "install")]
                .into_iter()
                .chain(PERSONAL.split(' ').map(|name| (StoredKind::PersonalFile, name)))
        {
            let path = home.root().join(name);
            if fs::exists(&path) {
                let bytes = self.size(&path);
                let item = shared_item(kind, StoredState::Permanent, 0, bytes);
                self.add(item, CleanTarget::Nothing(name));
            }
        }
        Ok(())
    }
}

/// An item that belongs to no project.
fn shared_item(kind: StoredKind, state: StoredState, age_ms: u64, bytes: u64) -> StoredItem {
    StoredItem { kind, state, age_ms, bytes, project: None }
}

/// The state of a run, as far as cleaning is concerned.
pub(super) fn retention_state(home: &RalphHome, opened: &LoadedRun) -> StoredState {
    let (run, paths) = (&opened.run, home.run(&opened.run.id));
    let RunPhase::Ended(status) = control::effective_phase(home, opened) else {
        return StoredState::InUse;
    };
    let is_driven = run.drive.is_some() && run_process::may_be_driven(home, &run.id);
    if is_driven || is_held(&paths.worker_lock()) || is_held(&paths.base_lock()) {
        return StoredState::InUse;
    }
    match status {
        RunStatus::NeedsHuman | RunStatus::NeedsReview => StoredState::AwaitsPerson,
        RunStatus::Green => StoredState::Acceptable,
        RunStatus::Verified
        | RunStatus::Claimed
        | RunStatus::Exhausted
        | RunStatus::Stuck
        | RunStatus::GateBroken
        | RunStatus::RateLimited
        | RunStatus::Cancelled
        | RunStatus::Overridden
        | RunStatus::Crashed => StoredState::Ended,
    }
}

fn session_state(age_ms: u64) -> StoredState {
    if age_ms > OPEN_SESSION_MS { StoredState::Ended } else { StoredState::InUse }
}

/// Not a link: what it leads to is not ralph's.
pub(super) fn is_own_directory(path: &Path) -> bool {
    fs::stat_no_follow(path).is_some_and(|stat| stat.kind == FileKind::Directory)
}

fn is_held(path: &Path) -> bool {
    matches!(file_slot::peek(path, 0), Ok(SlotContent::Held))
}

fn existing_worktree(opened: &LoadedRun) -> Option<(PathBuf, &RunRecord)> {
    let worktree = opened.run.drive.as_ref()?.worktree.as_ref()?;
    let path = PathBuf::from(&worktree.path);
    fs::is_directory(&path).then_some((path, &opened.run))
}

/// The sessions whose pointer names each run.
fn sessions_by_run(home: &RalphHome) -> Result<BTreeMap<String, Vec<SessionId>>, FileError> {
    const MAX_POINTER_BYTES: usize = 4096;
    #[derive(serde::Deserialize)]
    struct PointedRun {
        run: String,
    }
    let mut sessions: BTreeMap<String, Vec<SessionId>> = BTreeMap::new();
    for name in fs::list_if_exists(&home.sessions(), MAX_ENTRIES)? {
        let Some(session) = name.to_str().and_then(SessionId::parse) else { continue };
        let path = home.session_pointer(&session);
        if let Ok(Some(pointer)) = fs::read_json::<PointedRun>(&path, MAX_POINTER_BYTES) {
            sessions.entry(pointer.run).or_default().push(session);
        }
    }
    Ok(sessions)
}
