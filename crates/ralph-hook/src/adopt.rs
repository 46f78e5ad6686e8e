//! Adopts loop directories (`feature_list.json`, `progress.txt`), which name no owner. The first session to stop in the
//! project takes one over, exactly once; no second session is ever held by it.
//!
//! A loop at the default location may have come with the repository, so it holds no session until a person approved its
//! features.

use crate::contract::{self, SealRequest};
use crate::control;
use ralph_core::id::{RunId, SessionId};
use ralph_core::input_bounds::MAX_LIST_BYTES;
use ralph_core::limits::RunLimits;
use ralph_core::record::{ListKind, PolicySeal, RunOrigin, RunRecord};
use ralph_core::run::RunPhase;
use ralph_core::source::{feature_list, progress_file, work_list};
use ralph_core::text;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::session_pointer::{self, SessionPointer};
use ralph_home::store::{self, RunFiles, StoreError};
use ralph_home::world::World;
use ralph_lists::run_lists::{self, ListError, ListFile, SealedList};
use ralph_lists::{list_approval, loop_directory};
use ralph_policy::config;
use ralph_policy::trust;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

const CLAIM_VERSION: u8 = 1;
const MAX_CLAIM_BYTES: usize = 4096;
/// Sealing lists the whole tree, once per loop.
const LOOP_SEAL_TIMEOUT: Duration = Duration::from_mins(1);

/// The iteration limit if `progress.txt` names none.
const DEFAULT_LOOP_ITERATIONS: u32 = 15;

/// A loop directory, and how it was found.
#[derive(Clone, Debug)]
pub enum LoopBinding {
    /// A person named it in `RALPH_LOOP_DIR`.
    Named(PathBuf),
    /// It is at the default location.
    Found(PathBuf),
}

/// The result of looking at a loop directory on behalf of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopAdoption {
    Adopted(RunId),
    /// No person approved it.
    Unapproved(LoopNotice),
    /// Another session has claimed it, or no work is open.
    NotAvailable,
}

/// The notice that a loop waits for a person's approval. It is shown once for the same content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopNotice {
    /// Records the content that the notice was shown for.
    record: PathBuf,
    hash: String,
}

/// The file in `adopted/` that records which session took a loop directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct AdoptionClaim {
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
    #[error(transparent)]
    List(#[from] ListError),
}

impl LoopBinding {
    pub fn directory(&self) -> &Path {
        match self {
            Self::Named(path) | Self::Found(path) => path,
        }
    }
}

/// Adopts a loop directory for the session.
pub fn adopt_loop(
    world: &World,
    binding: &LoopBinding,
    session: &SessionId,
    project: &Path,
) -> Result<LoopAdoption, AdoptError> {
    let Some(directory) = fs::resolve(binding.directory()) else {
        return Ok(LoopAdoption::NotAvailable);
    };
    let claim_path = world.home.adoption(&directory);
    // Checked without the lock first, because most calls find the directory already claimed.
    if let ClaimOwner::OtherSession = claim_owner(world, binding, session, &claim_path)? {
        return Ok(LoopAdoption::NotAvailable);
    }
    let state = LoopFiles::read(&directory)?;
    let limits = state.limits(world, project);
    let mut sealed = seal_loop_list(&directory, project);
    if let Some(parent) = claim_path.parent() {
        fs::create_private_dir(parent)?;
    }
    let _lock = fs::acquire_lock(&claim_path.with_extension("lock"), &world.step_deadline())
        .map_err(StoreError::from)?;
    let claim = match claim_owner(world, binding, session, &claim_path)? {
        ClaimOwner::OtherSession => return Ok(LoopAdoption::NotAvailable),
        ClaimOwner::ThisSession(claim) => claim,
        ClaimOwner::Unclaimed => {
            if let LoopBinding::Found(_) = binding {
                if !state.has_open_work(&limits) {
                    return Ok(LoopAdoption::NotAvailable);
                }
                // The approved items are the ones that are sealed, even if the file changes meanwhile.
                let list = sealed?;
                let project = config::find_project(project);
                let subject = list_approval::adoption_subject(&project, &list);
                if !trust::is_approved(&world.home, &subject) {
                    let record = claim_path.with_extension("notice");
                    return Ok(LoopAdoption::Unapproved(LoopNotice { record, hash: subject.hash }));
                }
                sealed = Ok(list);
            }
            let run = control::new_run_id(&world.home);
            let claim = AdoptionClaim { v: CLAIM_VERSION, run, session: session.to_string() };
            let bytes = fs::encode_json(&claim_path, &claim)?;
            fs::replace(&claim_path, &bytes, Durability::Synced)?;
            claim
        }
    };
    let mut run = RunRecord {
        host: world.host.recorded_name(),
        limits,
        ..state.to_run(world, &claim, session, project)
    };
    let mut copies = Vec::new();
    if !fs::exists(&world.home.run(&run.id).journal()) {
        match sealed {
            Ok(list) => {
                copies.push(list.copy.clone());
                run.lists.push(list.seal.clone());
                run.seal = seal_loop_policy(world, &run, &list);
            }
            Err(error) => {
                let what =
                    format!("cannot seal the loop's feature list: {}", describe_error(&error));
                faults::record_fault(
                    &world.home,
                    &Fault::new(FaultKind::File, &what).with_run(&run.id),
                );
                run.seal = None;
            }
        }
    }
    // A claim of this session may remain from before a crash. Creating a run that exists changes nothing.
    let papers = RunFiles { goal: b"", lists: &copies };
    store::create_run(&world.home, &run, &papers, &world.step_deadline())?;
    let _pointing = session_pointer::lock_session(&world.home, session, &world.step_deadline())
        .map_err(StoreError::from)?;
    let pointer = SessionPointer::to_run(&claim.run);
    session_pointer::write_pointer(&world.home, session, &pointer)?;
    Ok(LoopAdoption::Adopted(claim.run))
}

fn seal_loop_list(directory: &Path, project: &Path) -> Result<SealedList, ListError> {
    let path = directory.join(loop_directory::FEATURES_FILE);
    let named = ListFile { path, kind: ListKind::Features };
    run_lists::seal_list(&config::find_project(project), &named)
}

impl LoopNotice {
    /// The text for the person; `None` if it was shown before.
    pub fn show_once(&self) -> Option<String> {
        let shown = fs::read_if_exists(&self.record, MAX_CLAIM_BYTES).ok().flatten();
        if shown.is_some_and(|shown| shown == self.hash.as_bytes()) {
            return None;
        }
        // If it cannot be recorded, it is shown again at the next stop.
        drop(fs::replace(&self.record, self.hash.as_bytes(), Durability::Cached));
        let directory = loop_directory::DEFAULT_DIRECTORY;
        let list = Path::new(directory).join(loop_directory::FEATURES_FILE);
        let command = list_approval::trust_command(ListKind::Features, &list);
        Some(format!(
            "ralph: found the loop `{directory}`, which holds no session until a person approves \
             it; `{command}` shows its features and asks"
        ))
    }
}

/// Seals the project's policy into the run. An unapproved policy is sealed too: none of its commands run, and every
/// stop reports that.
fn seal_loop_policy(world: &World, run: &RunRecord, list: &SealedList) -> Option<Box<PolicySeal>> {
    let sealing = SealRequest {
        home: &world.home,
        env: &world.env,
        run: &run.id,
        exclude: &run_lists::excluded_paths(&world.home, run),
        complexity: None,
        programs: &run_lists::one_check_per_program(&work_list::check_gates(0, &list.items)),
        deadline: Deadline::after(LOOP_SEAL_TIMEOUT).min(world.answer_deadline),
    };
    let project = Path::new(&run.project);
    let policy =
        contract::load_project_policy(&world.home, &world.env, project).and_then(|policy| {
            match policy {
                // Checks of the list need a policy even if the project has none.
                None if !list.seal.approval.is_empty() => {
                    contract::load_default_policy(&world.home, &world.env, project).map(Some)
                }
                policy => Ok(policy),
            }
        });
    let sealed = policy.and_then(|policy| {
        policy
            .map(|(config, subject)| contract::seal_policy(&sealing, &config, &subject))
            .transpose()
    });
    match sealed {
        Ok(seal) => seal.map(Box::new),
        Err(error) => {
            let what = format!("the loop runs without a policy: {}", describe_error(&error));
            faults::record_fault(
                &world.home,
                &Fault::new(FaultKind::File, &what).with_run(&run.id),
            );
            None
        }
    }
}

enum ClaimOwner {
    Unclaimed,
    ThisSession(AdoptionClaim),
    OtherSession,
}

fn claim_owner(
    world: &World,
    binding: &LoopBinding,
    session: &SessionId,
    path: &Path,
) -> Result<ClaimOwner, AdoptError> {
    let Some(bytes) = fs::read_if_exists(path, MAX_CLAIM_BYTES)? else {
        return Ok(ClaimOwner::Unclaimed);
    };
    match serde_json::from_slice::<AdoptionClaim>(&bytes) {
        Ok(claim) if claim.session == session.as_str() => Ok(ClaimOwner::ThisSession(claim)),
        Ok(claim) if is_claim_released(world, binding, &claim) => Ok(ClaimOwner::Unclaimed),
        Ok(_) => Ok(ClaimOwner::OtherSession),
        Err(error) => {
            let why = error.to_string();
            Err(AdoptError::Garbled { path: path.to_path_buf(), why })
        }
    }
}

/// Whether another session may take the directory: only if a person named it again and its last run is over.
fn is_claim_released(world: &World, binding: &LoopBinding, claim: &AdoptionClaim) -> bool {
    match binding {
        LoopBinding::Found(_) => false,
        LoopBinding::Named(_) => match store::load_run(&world.home, &claim.run) {
            Ok(opened) => {
                matches!(
                    control::effective_phase(&world.home, &opened),
                    RunPhase::Ended(_) | RunPhase::Orphaned
                )
            }
            Err(StoreError::NoSuchRun(_)) => true,
            Err(_) => false,
        },
    }
}

/// The content of the two files.
#[derive(Debug)]
pub struct LoopFiles {
    directory: PathBuf,
    pub list: feature_list::FeatureList,
    pub progress: progress_file::ProgressFile,
}

impl LoopFiles {
    pub fn read(directory: &Path) -> Result<Self, AdoptError> {
        let path = directory.join(loop_directory::FEATURES_FILE);
        let bytes = fs::read(&path, MAX_LIST_BYTES)?;
        let list = feature_list::read_features(&bytes)
            .map_err(|garbled| AdoptError::Garbled { path, why: garbled.why })?;
        let progress =
            fs::read_if_exists(&directory.join(loop_directory::PROGRESS_FILE), MAX_LIST_BYTES)?;
        Ok(Self {
            directory: directory.to_path_buf(),
            list,
            progress: progress_file::read_progress(&progress.unwrap_or_default()),
        })
    }

    pub fn is_complete(&self) -> bool {
        self.progress.status.as_deref() == Some("COMPLETE")
    }

    pub fn iteration_limit(&self) -> u32 {
        self.progress.max_iterations.unwrap_or(DEFAULT_LOOP_ITERATIONS)
    }

    /// The policy's limits, or the defaults. The file may only lower the number of iterations. An unapproved policy
    /// sets no limits, because it may have come with the loop.
    fn limits(&self, world: &World, project: &Path) -> RunLimits {
        let policy = contract::load_default_policy(&world.home, &world.env, project).ok();
        let approved = policy.filter(|(_, subject)| trust::is_approved(&world.home, subject));
        let usual = approved.map_or(RunLimits::DEFAULT, |(config, _)| config.policy.limits);
        let iterations = self.iteration_limit();
        let iterations = usual.max_iterations.map_or(iterations, |most| most.min(iterations));
        RunLimits { max_iterations: Some(iterations), min_iterations: 0, ..usual }
    }

    fn has_open_work(&self, limits: &RunLimits) -> bool {
        // A feature with a check is verified even if the list marks it as passing.
        let is_checked = self.list.features.iter().any(|feature| feature.verify.is_some());
        let is_open = !self.is_complete() && self.list.next_feature().is_some();
        let is_within = limits.max_iterations.is_none_or(|most| self.progress.iteration < most);
        (is_open || is_checked) && is_within
    }

    fn to_run(
        &self,
        world: &World,
        claim: &AdoptionClaim,
        session: &SessionId,
        project: &Path,
    ) -> RunRecord {
        let directory = &self.directory;
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        RunRecord {
            owner: Some(session.clone()),
            origin: RunOrigin::Adopted,
            // A file with problems is reported when a person starts a run.
            prices: config::load_prices(&world.home).unwrap_or_default(),
            first_iteration: self.progress.iteration,
            features: vec![directory.to_string_lossy().into_owned()],
            title: text::clean_line(
                &match self.list.features.len() {
                    1 => format!("the feature of loop {name}"),
                    count => format!("the {count} features of loop {name}"),
                },
                120,
            ),
            ..RunRecord::new(
                claim.run.clone(),
                project.to_string_lossy().into_owned(),
                ralph_sys::clock::now_ms(),
            )
        }
    }
}
