//! Gathers the evidence: every source of requirements is read here and nowhere else.

use crate::adopt::{self, LoopState};
use crate::contract::{self, Contract};
use crate::faults::{self, Fault, Kind};
use crate::fs;
use crate::git::{self, GitState};
use crate::observe::Sight;
use crate::store::Opened;
use crate::tree::{self, Survey};
use crate::world::World;
use ralph_core::claim;
use ralph_core::event::Stop;
use ralph_core::facts::{Evidence, Tree};
use ralph_core::gate::{Gate, Moment};
use ralph_core::id::SessionId;
use ralph_core::record::{Asked, Origin, Run};
use ralph_core::requirement::{
    Evidence as Proof, Failure, Finding, Requirement, Stage, Standing, Weight,
};
use ralph_core::run::State;
use ralph_core::source::checklist;
use ralph_core::source::{Garbled, features, loop_file, orchestrator, quality_gate, tasks};
use ralph_core::text;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const LARGEST_FILE: usize = 4 * 1024 * 1024;
const MOST_TASKS: usize = 5_000;
const MOST_TASK_BYTES: u64 = 16 * 1024 * 1024;

/// What a run demands, on the tree as it is now.
pub fn for_run(world: &World, opened: &Opened, stop: &Stop, sight: &Sight) -> Evidence {
    let run = &opened.run;
    let mut evidence = Evidence {
        requirements: Vec::new(),
        tree: Tree::Unknown,
        own_limit: None,
        tampering: None,
    };
    for directory in &run.features {
        feature_list(run, Path::new(directory), &mut evidence);
    }
    if let Some(promise) = &run.promise {
        evidence.requirements.push(promised(promise, stop));
    }
    if run.checklist == Asked::Yes {
        evidence.requirements.push(ticked(stop, sight));
    }
    let owner = opened.state.owner(run);
    let files = owner.map(|session| session_files(world, session)).unwrap_or_default();
    let exclude: Vec<PathBuf> = run.features.iter().map(PathBuf::from).collect();
    let work = if files.asks_git() {
        git::status(Path::new(&run.project), &exclude, &world.deadline())
    } else {
        GitState::NotARepository
    };
    evidence.requirements.extend(uncommitted(&files, &work));
    if run.phases == Asked::Yes && files.orchestrator == Present::No {
        evidence.requirements.push(gone("orchestrator", "`orchestrator.json`"));
    }
    evidence.requirements.extend(files.requirements);
    match &run.seal {
        Some(seal) => {
            let State { iteration, parts, .. } = &opened.state;
            let contract = Contract { world, run, seal, iteration: *iteration, parts };
            sealed(&contract, &mut evidence);
        }
        None => evidence.tree = tree_of(world, run),
    }
    // What guards the judge does not measure the work, and what subagents are held to is not all of it.
    let counts_here = |gate: &Gate| gate.on.contains(&Moment::Stop);
    let is_measured = match &run.seal {
        Some(seal) if !seal.policy.gates.iter().any(counts_here) => {
            !run.features.is_empty() || run.promise.is_some() || run.checklist == Asked::Yes
        }
        Some(_) => true,
        None => evidence.requirements.iter().any(|one| one.weight == Weight::Required),
    };
    if !is_measured {
        evidence.requirements.push(unmeasured());
    }
    evidence
}

/// What the policy demands comes last: gates are dear, and a clean checkout dearer.
fn sealed(contract: &Contract<'_>, evidence: &mut Evidence) {
    let judged = contract::judge(contract);
    evidence.tree = judged.tree();
    evidence.requirements.extend(judged.requirements.iter().cloned());
    if !evidence.requirements.iter().any(Requirement::is_open) && judged.tampering.is_none() {
        evidence.requirements.extend(contract::confirm(contract, &judged));
    }
    evidence.tampering = judged.tampering;
}

fn tree_of(world: &World, run: &Run) -> Tree {
    let home = world.home.root().to_path_buf();
    let exclude: Vec<PathBuf> = run.features.iter().map(PathBuf::from).chain([home]).collect();
    let project = Path::new(&run.project);
    let listed = tree::list(&Survey {
        project,
        exclude: &exclude,
        cache: Some(&tree::cache(&world.home, project)),
        deadline: &world.deadline(),
    });
    match listed {
        Ok(listing) => Tree::Known(listing.mark()),
        Err(error) => {
            // Without the tree nobody can be called stuck; only the limits end the run.
            let what = format!(
                "the state of `{}` could not be told: {}",
                run.project,
                faults::describe(&error)
            );
            faults::record(&world.home, &Fault::new(Kind::File, &what).of_run(&run.id));
            Tree::Unknown
        }
    }
}

/// What other tools wrote about a session that no run of ours owns.
pub fn for_files(world: &World, session: &SessionId, project: Option<&Path>) -> Evidence {
    let files = session_files(world, session);
    let work = match project {
        Some(project) if files.asks_git() => git::status(project, &[], &world.deadline()),
        Some(_) | None => GitState::NotARepository,
    };
    let uncommitted = uncommitted(&files, &work);
    let mut requirements = files.requirements;
    requirements.extend(uncommitted);
    Evidence { requirements, tree: Tree::Unknown, own_limit: None, tampering: None }
}

fn feature_list(run: &Run, directory: &Path, evidence: &mut Evidence) {
    let many = run.features.len() > 1;
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let name = text::line(&name, 60);
    let file = shown(run, &directory.join(adopt::FEATURES));
    let state = match LoopState::read(directory) {
        Ok(state) => state,
        Err(error) => {
            let name =
                if many { format!("{name}: feature list") } else { "feature list".to_string() };
            let next = format!("Make `{file}` valid again");
            evidence.requirements.push(requirement(
                name,
                Standing::Unknown(crate::faults::describe(&error)),
                next,
            ));
            return;
        }
    };
    let complete = run.origin == Origin::Adopted && state.is_complete();
    if run.origin == Origin::Adopted && state.progress.iteration >= state.limit() {
        let (iteration, limit) = (state.progress.iteration, state.limit());
        evidence.own_limit = Some(format!(
            "REACHED_LIMIT: `{}` is at iteration {iteration} of {limit}",
            adopt::PROGRESS
        ));
    }
    let at = run.features.iter().position(|known| Path::new(known) == directory);
    let listed = at.and_then(|at| run.listed.get(at)).copied().unwrap_or(0);
    if (state.list.features.len() as u64) < u64::from(listed) {
        let what = format!("`{file}` with the {listed} features that it had");
        evidence.requirements.push(gone("feature list", &what));
    }
    let mut requirements = state.list.requirements(&file);
    if requirements.is_empty() && complete {
        requirements.push(requirement(
            "feature list".to_string(),
            Standing::Met(Proof::Claimed),
            String::new(),
        ));
    }
    for mut one in requirements {
        if complete {
            one.standing = Standing::Met(Proof::Claimed);
        }
        if many {
            let longer = format!("{name}: {}", one.name);
            one.next = one.next.replace(&one.name, &longer);
            one.name = longer;
        }
        evidence.requirements.push(one);
    }
}

/// What the run was begun with, and what somebody took away.
fn gone(name: &str, what: &str) -> Requirement {
    let failure = Failure::new(format!("{what} is not there any more"));
    requirement(name.to_string(), Standing::Unmet(failure), format!("Bring back {what}"))
}

/// A path as the agent knows it, from the project. It comes from the repository, so it is cleaned like the rest.
fn shown(run: &Run, path: &Path) -> String {
    let path = path.strip_prefix(&run.project).unwrap_or(path);
    text::line(&path.to_string_lossy(), 200).replace('`', "'")
}

fn promised(promise: &str, stop: &Stop) -> Requirement {
    let kept = stop.said.as_deref().is_some_and(|said| claim::promised(said, promise));
    let standing = if kept {
        Standing::Met(Proof::Claimed)
    } else {
        Standing::Unmet(Failure::new(
            "not given yet as the last line of a message, alone".to_string(),
        ))
    };
    let promise = text::line(promise, 200);
    let next = format!(
        "When, and only when, the goal is really reached, end your message with the line <promise>{promise}</promise>"
    );
    requirement("promise".to_string(), standing, next)
}

fn ticked(stop: &Stop, sight: &Sight) -> Requirement {
    let said = stop.said.as_deref().and_then(checklist::from_markdown);
    let known = sight.observed.as_ref().and_then(|observed| observed.checklist.clone());
    if let Some(list) = said.or(known) {
        return list.requirement();
    }
    let why = "no task list was found in the conversation".to_string();
    let next = "Write the task list as `- [ ]` lines and tick what is done".to_string();
    requirement("checklist".to_string(), Standing::Unmet(Failure::new(why)), next)
}

fn unmeasured() -> Requirement {
    let why = "nothing measures this goal; its limits end the run, or stops that bring nothing new"
        .to_string();
    let next = "Go on with the goal and improve what is there".to_string();
    requirement("goal".to_string(), Standing::Unmet(Failure::new(why)), next)
}

#[derive(Debug, Default)]
struct SessionFiles {
    requirements: Vec<Requirement>,
    orchestrator: Present,
    r#loop: Present,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Present {
    Yes,
    #[default]
    No,
}

impl SessionFiles {
    /// Whether it matters what is committed.
    fn asks_git(&self) -> bool {
        self.orchestrator == Present::Yes || self.r#loop == Present::Yes
    }
}

fn session_files(world: &World, session: &SessionId) -> SessionFiles {
    let directory = world.home.state(session);
    let mut files = SessionFiles::default();
    if !fs::exists(&directory) {
        return files;
    }
    let tell = |what: &str| {
        faults::record(&world.home, &Fault::new(Kind::File, what).of_session(session));
    };
    if let Some(it) = adopted(&directory.join("orchestrator.json"), orchestrator::read, &tell) {
        files.orchestrator = Present::Yes;
        files.requirements.push(it.requirement());
    }
    if let Some(it) = adopted(&directory.join("loop.json"), loop_file::read, &tell) {
        let requirement = it.requirement();
        files.r#loop = if requirement.is_some() { Present::Yes } else { Present::No };
        files.requirements.extend(requirement);
    }
    if let Some(it) = adopted(&directory.join("quality-gate.json"), quality_gate::read, &tell) {
        files.requirements.extend(it.requirement());
    }
    files.requirements.extend(task_files(world, &directory.join("tasks"), &tell));
    files
}

/// Reported, never held against the agent: a file that cannot be read says neither yes nor no.
fn adopted<T>(
    path: &Path,
    read: fn(&[u8]) -> Result<T, Garbled>,
    tell: &dyn Fn(&str),
) -> Option<T> {
    match fs::read_opt(path, LARGEST_FILE) {
        Ok(bytes) => match read(&bytes?) {
            Ok(value) => Some(value),
            Err(garbled) => {
                tell(&format!("cannot read `{}`: {}", path.display(), garbled.why));
                None
            }
        },
        Err(error) => {
            tell(&crate::faults::describe(&error));
            None
        }
    }
}

fn task_files(world: &World, directory: &Path, tell: &dyn Fn(&str)) -> Option<Requirement> {
    if !fs::exists(directory) {
        return None;
    }
    let names = match fs::list(directory, MOST_TASKS) {
        Ok(names) => names,
        Err(error) => {
            tell(&crate::faults::describe(&error));
            return None;
        }
    };
    let is_json = |name: &&OsString| Path::new(name).extension().is_some_and(|it| it == "json");
    let mut tasks = Vec::new();
    let mut room = MOST_TASK_BYTES;
    for path in names.iter().filter(is_json).map(|name| directory.join(name)) {
        let length = fs::stat(&path).map_or(0, |stat| stat.len);
        if length > room || world.end.is_over() {
            tell(&format!("`{}` holds more than can be read in time", directory.display()));
            break;
        }
        room -= length;
        tasks.extend(adopted(&path, tasks::read, tell));
    }
    tasks::requirement(&tasks)
}

fn uncommitted(files: &SessionFiles, work: &GitState) -> Option<Requirement> {
    let weight = match (&files.orchestrator, &files.r#loop) {
        (Present::Yes, _) => Weight::Required,
        (Present::No, Present::Yes) => Weight::Advisory,
        (Present::No, Present::No) => return None,
    };
    let standing = match work {
        GitState::NotARepository | GitState::Unavailable(_) => return None,
        GitState::Known(work) if work.changed_count == 0 => Standing::Met(Proof::Measured),
        GitState::Known(work) => {
            let noun = if work.changed_count == 1 {
                "1 path is".to_string()
            } else {
                format!("{} paths are", work.changed_count)
            };
            let findings = work.changed.iter().map(|path| Finding::new(path.clone())).collect();
            Standing::Unmet(Failure { findings, ..Failure::new(format!("{noun} not committed")) })
        }
    };
    let next = "Commit what belongs to the work".to_string();
    Some(Requirement {
        weight,
        stage: Stage::Quality,
        ..requirement("uncommitted changes".to_string(), standing, next)
    })
}

fn requirement(name: String, standing: Standing, next: String) -> Requirement {
    Requirement { name, stage: Stage::Correctness, standing, weight: Weight::Required, next }
}

/// Writes the loop directory's own view of a run that was just decided.
pub fn advance(run: &Run, iteration: u32) -> Result<(), fs::FileError> {
    rewrite(run, |bytes| ralph_core::source::progress::with_iteration(bytes, iteration))
}

pub fn finish(run: &Run, status: &str) -> Result<(), fs::FileError> {
    rewrite(run, |bytes| ralph_core::source::progress::with_status(bytes, status))
}

fn rewrite(run: &Run, edit: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Result<(), fs::FileError> {
    for directory in &run.features {
        let path = Path::new(directory).join(adopt::PROGRESS);
        // A link that leads out of the loop's directory leads to a file that is none of ours.
        if fs::resolve(&path).is_some_and(|resolved| !resolved.starts_with(directory)) {
            return Err(fs::FileError::refused(&path, "it leads out of the loop's directory"));
        }
        if let Some(bytes) = fs::read_opt(&path, adopt::LARGEST_LIST)?
            && let Some(edited) = edit(&bytes)
        {
            put(&path, &bytes, &edited)?;
        }
    }
    Ok(())
}

/// A number of as many digits is put over the old one: the file stays the same file, and that is cheaper too.
fn put(path: &Path, before: &[u8], after: &[u8]) -> Result<(), fs::FileError> {
    let differs = |(old, new): (&u8, &u8)| old != new;
    let Some(from) = before.iter().zip(after).position(differs) else { return Ok(()) };
    if before.len() != after.len() {
        return fs::replace_keeping_mode(path, after);
    }
    let last = before.iter().zip(after).rposition(differs).unwrap_or(from);
    fs::patch(path, from as u64, &after[from..=last])
}

pub fn readable(directory: &Path) -> Result<features::FeatureList, adopt::AdoptError> {
    LoopState::read(directory).map(|state| state.list)
}
