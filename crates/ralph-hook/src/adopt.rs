//! Adopts loop directories (`feature_list.json`, `progress.txt`), which name no owner. The first session to stop in the
//! project takes one over, exactly once; no second session is ever held by it.

use crate::contract::{self, Sealing};
use crate::control;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::Limits;
use ralph_core::policy::OnTampering;
use ralph_core::record::{Asked, ListKind, Origin, Run, Seal, VERSION};
use ralph_core::run::Phase;
use ralph_core::source::{features, list, progress};
use ralph_core::text;
use ralph_home::faults::{self, Fault, Kind, describe};
use ralph_home::session_pointer::{self, Ended, Pointer};
use ralph_home::store::{self, Papers, StoreError};
use ralph_home::world::World;
use ralph_lists::lists;
use ralph_lists::loop_directory;
use ralph_policy::config;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LARGEST_CLAIM: usize = 4096;
/// Sealing lists the whole tree, once per loop.
const SEALING: Duration = Duration::from_mins(1);

/// The iteration limit if `progress.txt` names none.
const DEFAULT_ITERATIONS: u32 = 15;

/// A loop directory, and how it was found.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A person named it in `RALPH_LOOP_DIR`.
    Named(PathBuf),
    /// It is at the default location.
    Found(PathBuf),
}

/// The file in `adopted/` that records which session took a loop directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Claim {
    v: u8,
    run: RunId,
    session: String,
}

#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot read `{}`: {why}", path.display())]
    Garbled { path: PathBuf, why: String },
}

impl Binding {
    pub fn directory(&self) -> &Path {
        match self {
            Self::Named(path) | Self::Found(path) => path,
        }
    }
}

/// Adopts a loop directory for the session and returns the run. Returns `None` if another session has claimed it or no
/// work is open.
pub fn take(
    world: &World,
    binding: &Binding,
    session: &SessionId,
    project: &Path,
) -> Result<Option<RunId>, AdoptError> {
    let Some(directory) = fs::resolve(binding.directory()) else {
        return Ok(None);
    };
    let claim_path = world.home.adoption(&directory);
    // Checked without the lock first, because most calls find the directory already claimed.
    if let Owner::Another = owner(world, binding, session, &claim_path)? {
        return Ok(None);
    }
    let state = LoopState::read(&directory)?;
    if let Some(parent) = claim_path.parent() {
        fs::create_dir(parent)?;
    }
    let _lock = fs::lock(&claim_path.with_extension("lock"), &world.deadline())
        .map_err(StoreError::from)?;
    let claim = match owner(world, binding, session, &claim_path)? {
        Owner::Another => return Ok(None),
        Owner::Us(claim) => claim,
        Owner::Nobody if matches!(binding, Binding::Found(_)) && !state.has_something_to_hold() => {
            return Ok(None);
        }
        Owner::Nobody => {
            let run = control::new_id(&world.home);
            let claim = Claim { v: VERSION, run, session: session.to_string() };
            let bytes = serde_json::to_vec(&claim).unwrap_or_default();
            fs::replace(&claim_path, &bytes, Durability::Synced)?;
            claim
        }
    };
    let mut run = state.run(&claim, session, project);
    let mut copies = Vec::new();
    if !fs::exists(&world.home.run(&run.id).journal()) {
        let named = lists::Named {
            path: directory.join(loop_directory::FEATURES),
            kind: ListKind::Features,
        };
        match lists::seal(&config::find_project(project), &named) {
            Ok(list) => {
                copies.push(lists::copy(&list.items));
                run.lists.push(list.seal.clone());
                run.seal = sealed(world, &run, &list);
            }
            Err(error) => {
                let what = format!("cannot seal the loop's feature list: {}", describe(&error));
                faults::record(&world.home, &Fault::new(Kind::File, &what).of_run(&run.id));
                run.seal = None;
            }
        }
    }
    // A claim of this session may remain from before a crash. Creating a run that exists changes nothing.
    let papers = Papers { goal: b"", lists: &copies };
    store::create(&world.home, &run, &papers, &world.deadline())?;
    let _pointing =
        session_pointer::lock(&world.home, session, &world.deadline()).map_err(StoreError::from)?;
    let pointer = Pointer { v: VERSION, run: claim.run.clone(), ended: Ended::No };
    session_pointer::point(&world.home, session, &pointer)?;
    Ok(Some(claim.run))
}

/// Seals the project's policy into the run. An unapproved policy is sealed too: none of its commands run, and every
/// stop reports that.
fn sealed(world: &World, run: &Run, list: &lists::Sealed) -> Option<Box<Seal>> {
    let sealing = Sealing {
        home: &world.home,
        env: &world.env,
        run: &run.id,
        exclude: &lists::excluded(&world.home, run),
        complexity: None,
        programs: &lists::programs(&list::checks(0, &list.items)),
        deadline: Deadline::after(SEALING).min(world.end),
    };
    let project = Path::new(&run.project);
    let policy = contract::policy(&world.home, project).and_then(|policy| match policy {
        // Checks of the list need a policy even if the project has none.
        None if !list.seal.approval.is_empty() => contract::bare(&world.home, project).map(Some),
        policy => Ok(policy),
    });
    let sealed = policy.and_then(|policy| {
        policy.map(|(config, subject)| contract::seal(&sealing, &config, &subject)).transpose()
    });
    match sealed {
        Ok(seal) => seal.map(Box::new),
        Err(error) => {
            let what = format!("the loop runs without a policy: {}", describe(&error));
            faults::record(&world.home, &Fault::new(Kind::File, &what).of_run(&run.id));
            None
        }
    }
}

enum Owner {
    Nobody,
    Us(Claim),
    Another,
}

fn owner(
    world: &World,
    binding: &Binding,
    session: &SessionId,
    path: &Path,
) -> Result<Owner, AdoptError> {
    let Some(bytes) = fs::read_opt(path, LARGEST_CLAIM)? else { return Ok(Owner::Nobody) };
    match serde_json::from_slice::<Claim>(&bytes) {
        Ok(claim) if claim.session == session.as_str() => Ok(Owner::Us(claim)),
        Ok(claim) if is_free(world, binding, &claim) => Ok(Owner::Nobody),
        Ok(_) => Ok(Owner::Another),
        Err(error) => {
            let why = error.to_string();
            Err(AdoptError::Garbled { path: path.to_path_buf(), why })
        }
    }
}

/// Whether another session may take the directory: only if a person named it again and its last run is over.
fn is_free(world: &World, binding: &Binding, claim: &Claim) -> bool {
    match binding {
        Binding::Found(_) => false,
        Binding::Named(_) => match store::load(&world.home, &claim.run) {
            Ok(opened) => {
                matches!(control::phase(&world.home, &opened), Phase::Ended(_) | Phase::Orphaned)
            }
            Err(StoreError::NoSuchRun(_)) => true,
            Err(_) => false,
        },
    }
}

/// The content of the two files.
#[derive(Debug)]
pub struct LoopState {
    directory: PathBuf,
    pub list: features::FeatureList,
    pub progress: progress::Progress,
}

impl LoopState {
    pub fn read(directory: &Path) -> Result<Self, AdoptError> {
        let path = directory.join(loop_directory::FEATURES);
        let bytes = fs::read(&path, loop_directory::LARGEST_LIST)?;
        let list = features::read(&bytes)
            .map_err(|garbled| AdoptError::Garbled { path, why: garbled.why })?;
        let progress =
            fs::read_opt(&directory.join(loop_directory::PROGRESS), loop_directory::LARGEST_LIST)?;
        Ok(Self {
            directory: directory.to_path_buf(),
            list,
            progress: progress::read(&progress.unwrap_or_default()),
        })
    }

    pub fn is_complete(&self) -> bool {
        self.progress.status.as_deref() == Some("COMPLETE")
    }

    pub fn limit(&self) -> u32 {
        self.progress.max_iterations.unwrap_or(DEFAULT_ITERATIONS)
    }

    fn has_something_to_hold(&self) -> bool {
        // A feature with a check is verified even if the list marks it as passing.
        let is_checked = self.list.features.iter().any(|feature| feature.verify.is_some());
        let is_open = !self.is_complete() && self.list.next().is_some();
        (is_open || is_checked) && self.progress.iteration < self.limit()
    }

    fn run(&self, claim: &Claim, session: &SessionId, project: &Path) -> Run {
        let directory = &self.directory;
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        Run {
            v: VERSION,
            id: claim.run.clone(),
            owner: Some(session.clone()),
            started_ms: ralph_sys::clock::now_ms(),
            project: project.to_string_lossy().into_owned(),
            origin: Origin::Adopted,
            first_iteration: self.progress.iteration,
            limits: Limits {
                max_iterations: Some(self.limit()),
                // The loop's own iteration limit bounds it, so it never counts as stuck.
                stuck_after: u32::MAX,
                ..Limits::DEFAULT
            },
            features: vec![directory.to_string_lossy().into_owned()],
            promise: None,
            checklist: Asked::No,
            goal_bytes: 0,
            title: text::line(
                &match self.list.features.len() {
                    1 => format!("the feature of loop {name}"),
                    count => format!("the {count} features of loop {name}"),
                },
                120,
            ),
            on_tampering: OnTampering::Block,
            prompt: None,
            listed: Vec::new(),
            lists: Vec::new(),
            tasks: Asked::No,
            phases: Asked::No,
            transcript_length: 0,
            process: None,
            seal: None,
            drive: None,
        }
    }
}
