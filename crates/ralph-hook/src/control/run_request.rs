//! A request for a run, and the checks that need no lock: paths, limits, goal, policy and the approval of commands.

use super::ControlError;
use crate::contract::{self, SealError};
use ralph_core::drive::DriveSettings;
use ralph_core::gate::Gate;
use ralph_core::goal_origin::goal_title;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::RunLimits;
use ralph_core::model_price::ModelPrice;
use ralph_core::record::ListKind;
use ralph_core::redact::Redactor;
use ralph_core::run_terms::{self, GoalTooLong, RequestedLists, RunTerms};
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_home::world::World;
use ralph_lists::list_approval;
use ralph_lists::loop_directory;
use ralph_lists::run_lists::{self, ListFile, SealedList};
use ralph_policy::config::{self, ProjectConfig};
use ralph_policy::trust::{self, ApprovalSubject, TrustError};
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

const MAX_PROMISE_CHARS: usize = 200;

/// A run to start, whatever asks for it: `ralph start`, `ralph run`, a slash command, a queue or `ralph doctor`.
#[derive(Clone, Debug)]
pub struct RunRequest {
    pub session: SessionId,
    pub project: PathBuf,
    /// The directory that relative paths of lists start from.
    pub base_dir: PathBuf,
    pub terms: RunTerms,
    pub gates: GateSelection,
    /// The prompt that asks for the run, if one does.
    pub prompt: Option<StartPrompt>,
    /// The runner's settings; `None` if a person starts the agent.
    pub drive: Option<Box<DriveSettings>>,
    /// The id, if it was chosen earlier because a branch or directory is named after it.
    pub id: Option<RunId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateSelection {
    /// The gates of the project's approved policy.
    Policy,
    Skipped,
}

#[derive(Clone, Debug, Default)]
pub struct StartPrompt {
    /// The host's id of the prompt.
    pub id: Option<String>,
    /// The length of the transcript at the start; 0 if there is none.
    pub transcript_length: u64,
}

/// A policy that a person approved.
#[derive(Clone, Debug)]
pub struct ApprovedPolicy {
    pub config: ProjectConfig,
    pub subject: ApprovalSubject,
    /// The names of gates that a person typed for this run; the subject does not cover them.
    pub checks: Vec<String>,
}

impl ApprovedPolicy {
    /// Adds the gates that a person typed. They come last, so that a file which other gates name too stays theirs.
    fn add_checks(&mut self, checks: &[Gate]) {
        let gates = &mut self.config.policy.gates;
        for check in checks {
            let is_taken = |name: &String| gates.iter().any(|gate| gate.name == *name);
            let names = (self.checks.len() + 1..).map(|number| format!("check-{number}"));
            let Some(name) = names.into_iter().find(|name| !is_taken(name)) else { continue };
            self.checks.push(name.clone());
            gates.push(Gate { name, ..check.clone() });
        }
    }
}

/// Why a run was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("`{}` is not a directory", .0.display())]
    NotADirectory(PathBuf),
    #[error("`{}` is not valid UTF-8", .0.display())]
    NotUtf8(PathBuf),
    #[error("`{}` is not a file", .0.display())]
    NotAFile(PathBuf),
    #[error("`--completion-promise` needs 1 to 200 printable characters without `<` and `>`")]
    InvalidPromise,
    #[error("`--may-change {glob}`: {why}")]
    InvalidGlob { glob: String, why: String },
    #[error(transparent)]
    Goal(#[from] GoalTooLong),
    /// The policy cannot be read.
    #[error(transparent)]
    Policy(#[from] SealError),
    #[error("this policy is not approved, so nothing was run")]
    PolicyUnapproved,
    #[error(transparent)]
    Approval(#[from] TrustError),
}

impl RunRequest {
    /// A run with the gates of the project's policy, which a person or an agent in an open session works on.
    pub fn new(session: SessionId, project: PathBuf, terms: RunTerms) -> Self {
        Self {
            session,
            base_dir: project.clone(),
            project,
            terms,
            gates: GateSelection::Policy,
            prompt: None,
            drive: None,
            id: None,
        }
    }

    /// The limits of the run: its own, then the policy's, then the defaults.
    pub fn limits(&self, policy: Option<&ProjectConfig>) -> RunLimits {
        let usual = policy.map_or(&RunLimits::DEFAULT, |config| &config.policy.limits);
        self.terms.limits.apply_to(usual)
    }

    /// The files of its lists, with paths as they are in the request.
    pub fn list_files(&self) -> Vec<ListFile> {
        let lists = &self.terms.lists;
        let features = lists.features.iter().map(|directory| ListFile {
            path: Path::new(directory).join(loop_directory::FEATURES_FILE),
            kind: ListKind::Features,
        });
        let plans =
            lists.plans.iter().map(|plan| ListFile { path: plan.into(), kind: ListKind::Plan });
        features.chain(plans).collect()
    }
}

/// A request that can be started, with everything that was read to check it.
#[derive(Debug)]
pub struct CheckedRequest {
    /// The request with resolved paths.
    pub request: RunRequest,
    pub title: String,
    pub(super) limits: RunLimits,
    pub(super) lists: Vec<SealedList>,
    /// The person's own prices of models.
    pub(super) prices: Vec<ModelPrice>,
    /// The policy to seal into the run, if any.
    pub(super) policy: Option<ApprovedPolicy>,
}

/// Resolves and checks a request without starting the run.
pub fn check_request(world: &World, request: RunRequest) -> Result<CheckedRequest, StartError> {
    let request = resolve_lists(request)?;
    let approved = approved_policy(&world.home, &world.env, &request)?;
    check_promise(request.terms.promise.as_deref())?;
    check_may_change(&request.terms.may_change)?;
    run_terms::check_goal_length(&request.terms.goal)?;
    let limits = request.limits(approved.as_ref().map(|approved| &approved.config));
    limits.validate().map_err(ControlError::from)?;
    if request.drive.is_none() {
        super::reject_runner_limits(&request.terms.limits)?;
    }
    let terms = &request.terms;
    if terms.goal.is_empty()
        && terms.lists.is_empty()
        && terms.promise.is_none()
        && terms.checks.is_empty()
        && approved.is_none()
    {
        return Err(ControlError::NothingToHold.into());
    }
    // The directory of the policy file, or where it would be. Checks run there.
    let project = match &approved {
        Some(approved) => approved.config.project.clone(),
        None => config::find_project(&request.project),
    };
    let mut lists = Vec::new();
    for file in request.list_files() {
        lists.push(run_lists::seal_list(&project, &file).map_err(ControlError::from)?);
    }
    let mut policy =
        choose_policy(&world.home, &world.env, &request, (approved, &project), &lists)?;
    if let Some(policy) = &mut policy {
        policy.add_checks(&request.terms.checks);
    }
    let title = run_title(&request.terms, &Redactor::new(world.env.secrets()));
    let prices = config::load_prices(&world.home).map_err(SealError::from)?;
    Ok(CheckedRequest { request, title, limits, lists, prices, policy })
}

/// Replaces the paths of lists with absolute ones, each once.
fn resolve_lists(mut request: RunRequest) -> Result<RunRequest, StartError> {
    let lists = &request.terms.lists;
    let (mut features, mut plans) = (Vec::new(), Vec::new());
    for named in &lists.features {
        let found = list_directory(Path::new(named), &request.base_dir)?;
        push_once(&mut features, &found);
    }
    for named in &lists.plans {
        let found = plan_file(Path::new(named), &request.base_dir)?;
        push_once(&mut plans, &found);
    }
    request.terms.lists = RequestedLists { features, plans, ..*lists };
    Ok(request)
}

fn push_once(paths: &mut Vec<String>, found: &Path) {
    // Resolved paths are valid UTF-8.
    let found = found.to_string_lossy().into_owned();
    if !paths.contains(&found) {
        paths.push(found);
    }
}

/// The approved policy of the project; `None` without gates. An unapproved policy is an error: the run does not start.
pub fn approved_policy(
    home: &RalphHome,
    env: &Env,
    request: &RunRequest,
) -> Result<Option<ApprovedPolicy>, StartError> {
    if request.gates == GateSelection::Skipped {
        return Ok(None);
    }
    let Some((config, subject)) = contract::load_project_policy(home, env, &request.project)?
    else {
        return Ok(None);
    };
    if !trust::is_approved(home, &subject) {
        trust::check_approval_file(home, &subject)?;
        return Err(StartError::PolicyUnapproved);
    }
    Ok(Some(ApprovedPolicy { config, subject, checks: Vec::new() }))
}

/// The policy for the run. Without a policy file, an empty one is used if lists have checks, a person typed checks or a
/// runner drives the run.
/// Fails if a person has not approved the checks of a list.
fn choose_policy(
    home: &RalphHome,
    env: &Env,
    request: &RunRequest,
    (approved, project): (Option<ApprovedPolicy>, &Path),
    lists: &[SealedList],
) -> Result<Option<ApprovedPolicy>, ControlError> {
    let mut has_checks = false;
    for list in lists.iter().filter(|list| !list.seal.approval.is_empty()) {
        has_checks = true;
        if !trust::is_hash_approved(home, &project.to_string_lossy(), &list.seal.approval) {
            let path = Path::new(&list.seal.path);
            let path = path.strip_prefix(&request.project).unwrap_or(path);
            let trust = list_approval::trust_command(list.seal.kind, path);
            let list = text::clean_line(&path.to_string_lossy(), 200);
            return Err(ControlError::Unapproved { list, trust });
        }
    }
    // A driven run needs a policy even without gates, because only a sealed policy checkpoints the start.
    let has_checks = has_checks || !request.terms.checks.is_empty();
    if approved.is_some() || !(has_checks || request.drive.is_some()) {
        return Ok(approved);
    }
    let (mut config, subject) = contract::load_default_policy(home, env, &request.project)?;
    // The request names no policy, so its gates and judges do not apply.
    config.policy.gates.clear();
    config.policy.judges.clear();
    Ok(Some(ApprovedPolicy {
        config,
        subject: ApprovalSubject { references: Vec::new(), ..subject },
        checks: Vec::new(),
    }))
}

fn check_may_change(globs: &[String]) -> Result<(), StartError> {
    for glob in globs {
        config::check_glob(glob)
            .map_err(|why| StartError::InvalidGlob { glob: glob.clone(), why })?;
    }
    Ok(())
}

fn check_promise(promise: Option<&str>) -> Result<(), StartError> {
    match promise {
        Some(promise)
            if promise.trim().is_empty()
                || promise.chars().count() > MAX_PROMISE_CHARS
                || promise.contains(['<', '>'])
                || promise != text::clean(promise) =>
        {
            Err(StartError::InvalidPromise)
        }
        Some(_) | None => Ok(()),
    }
}

/// The directory of a feature list, given as the directory, the list file or the name of a loop.
pub fn list_directory(path: &Path, base: &Path) -> Result<PathBuf, StartError> {
    if path.file_name().is_some_and(|name| name == loop_directory::FEATURES_FILE)
        && !fs::is_directory(&base.join(path))
    {
        return resolve_directory(path.parent().unwrap_or(Path::new(".")), base);
    }
    // The name of a loop, as for `ralph feature --loop`.
    let named = base.join(loop_directory::DEFAULT_DIRECTORY).with_file_name(path);
    let is_name = path.components().count() == 1 && !fs::is_directory(&base.join(path));
    if is_name && fs::is_directory(&named) {
        return resolve_directory(&named, base);
    }
    resolve_directory(path, base)
}

pub fn plan_file(path: &Path, base: &Path) -> Result<PathBuf, StartError> {
    let resolved = fs::resolve(&base.join(path)).filter(|path| !fs::is_directory(path));
    let resolved = resolved.filter(|path| path.to_str().is_some());
    resolved.ok_or_else(|| StartError::NotAFile(path.to_path_buf()))
}

pub fn resolve_directory(path: &Path, base: &Path) -> Result<PathBuf, StartError> {
    let resolved = fs::resolve(&base.join(path)).filter(|path| fs::is_directory(path));
    let resolved = resolved.ok_or_else(|| StartError::NotADirectory(path.to_path_buf()))?;
    if resolved.to_str().is_none() {
        return Err(StartError::NotUtf8(resolved));
    }
    Ok(resolved)
}

/// A one-line title of the work, redacted.
fn run_title(terms: &RunTerms, redactor: &Redactor) -> String {
    let lists = &terms.lists;
    let names: Vec<_> = lists
        .features
        .iter()
        .chain(&lists.plans)
        .filter_map(|path| Path::new(path).file_name())
        .map(|name| name.to_string_lossy())
        .collect();
    let goal = String::from_utf8_lossy(&terms.goal);
    let title = match (goal_title(&goal), names.is_empty()) {
        ("", false) if lists.plans.is_empty() => format!("the features of {}", names.join(", ")),
        ("", false) => format!("everything in {}", names.join(" and ")),
        ("", true) => match &terms.promise {
            Some(promise) => format!("promise \"{promise}\""),
            None if lists.checklist => "the conversation's task list".to_string(),
            None if lists.tasks => "the client's task list".to_string(),
            None => "the gates of the project".to_string(),
        },
        (first, _) => first.to_string(),
    };
    text::clean_line(&redactor.redact(&title), 80)
}
