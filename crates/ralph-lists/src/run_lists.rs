//! Feature lists and plans of a run: the items sealed at its start, with the ticks of the current files.
//!
//! While a file cannot be read, for example because it is just being written, its last readable version counts.

use crate::loop_directory;
use crate::plan::{self, PlanComparison};
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::input_bounds::MAX_LIST_BYTES;
use ralph_core::record::{ListKind, ListSeal, RunRecord};
use ralph_core::requirement::{
    PendingReason, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use ralph_core::source::feature_list;
use ralph_core::source::work_list::{self, ListDifference, ListItem};
use ralph_core::text;
use ralph_home::faults::describe_error;
use ralph_home::paths::{RalphHome, RunPaths};
use ralph_home::store::LoadedRun;
use ralph_home::world::World;
use ralph_policy::trust::{self, ApprovalSubject, TrustError};
use ralph_sys::fs::{self, Durability, FileError};
use serde::{Deserialize, Serialize};
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The number of consecutive stops after which an unreadable list holds the agent.
const UNREADABLE_STOPS_LIMIT: u32 = 3;

/// The file of a list that a run has to complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFile {
    pub path: PathBuf,
    pub kind: ListKind,
}

/// A list as it is recorded at the start of a run.
#[derive(Clone, Debug)]
pub struct SealedList {
    pub seal: ListSeal,
    pub items: Vec<ListItem>,
    /// The items as they are stored next to the run.
    pub copy: Vec<u8>,
}

/// The current state of one list of a run.
#[derive(Clone, Debug)]
pub struct RunList {
    /// The path of the file as the agent knows it.
    pub file: String,
    pub kind: ListKind,
    /// The sealed items with their current ticks, and the items added since.
    pub items: Vec<ListItem>,
    /// The items of a plan as they were sealed, including their ticks.
    pub sealed_items: Vec<ListItem>,
}

/// All lists of a run.
#[derive(Debug, Default)]
pub struct RunLists {
    pub lists: Vec<RunList>,
    /// Requirements about the files themselves, such as an unreadable file.
    pub requirements: Vec<Requirement>,
    /// Files that could not be read.
    pub unreadable_files: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot read `{}`: {why}", path.display())]
    Invalid { path: PathBuf, why: String },
    #[error("`{}` contains no items", path.display())]
    Empty { path: PathBuf },
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("cannot seal the list: {0}")]
    Seal(#[from] serde_json::Error),
}

/// Reads the items of a list.
pub fn read_list(named: &ListFile) -> Result<Vec<ListItem>, ListError> {
    parse_items(named, &fs::read(&named.path, MAX_LIST_BYTES)?)
}

fn parse_items(named: &ListFile, bytes: &[u8]) -> Result<Vec<ListItem>, ListError> {
    let path = &named.path;
    let items = match named.kind {
        ListKind::Features => feature_list::read_features(bytes).map(|list| list.items()),
        ListKind::Plan => plan::parse_plan(bytes).map(|plan| plan.items),
    };
    items.map_err(|garbled| ListError::Invalid { path: path.clone(), why: garbled.why })
}

/// Reads a list and seals it for a run.
pub fn seal_list(project: &Path, named: &ListFile) -> Result<SealedList, ListError> {
    let ListWithChecks { items, gates, subject, .. } = read_list_checks(project, named)?;
    if items.is_empty() {
        return Err(ListError::Empty { path: named.path.clone() });
    }
    let seal = ListSeal {
        path: named.path.to_string_lossy().into_owned(),
        kind: named.kind,
        digest: items_digest(&items)?,
        count: u32::try_from(items.len()).unwrap_or(u32::MAX),
        approval: if gates.is_empty() { String::new() } else { subject.hash },
    };
    let copy = serde_json::to_vec(&items)
        .map_err(|error| ListError::Invalid { path: named.path.clone(), why: error.to_string() })?;
    Ok(SealedList { seal, items, copy })
}

/// A list and its checks.
#[derive(Clone, Debug)]
pub struct ListWithChecks {
    pub list: ListFile,
    pub items: Vec<ListItem>,
    /// The checks, named as in a run with only this list.
    pub gates: Vec<Gate>,
    /// What a person approves: the commands, named after the items that they check.
    pub subject: ApprovalSubject,
}

pub fn read_list_checks(project: &Path, named: &ListFile) -> Result<ListWithChecks, ListError> {
    let items = read_list(named)?;
    let gates = work_list::check_gates(0, &items);
    // The path of a list is resolved, so the project must be too for the prefix to match.
    let project = fs::resolve(project).unwrap_or_else(|| project.to_path_buf());
    let mut subject = trust::checks_subject(&project, &named.path, &gates)?;
    let of = items.iter().filter(|item| item.check.is_some());
    for (command, item) in subject.commands.iter_mut().zip(of) {
        command.gate.clone_from(&item.name);
    }
    Ok(ListWithChecks { list: named.clone(), items, gates, subject })
}

fn items_digest(items: &[ListItem]) -> Result<String, serde_json::Error> {
    Ok(blake3::hash(&work_list::sealed_bytes(items)?).to_hex().to_string())
}

/// Paths that are not part of the work: the lists, which the agent ticks, and ralph's own files.
pub fn excluded_paths(home: &RalphHome, run: &RunRecord) -> Vec<PathBuf> {
    // Other files next to a list may be part of the work.
    let features = run.features.iter().flat_map(|directory| {
        [loop_directory::FEATURES_FILE, loop_directory::PROGRESS_FILE]
            .map(|name| Path::new(directory).join(name))
    });
    let plans = run.lists.iter().filter(|list| list.kind == ListKind::Plan);
    let plans = plans.map(|list| PathBuf::from(&list.path));
    features.chain(plans).chain([home.root().to_path_buf()]).collect()
}

/// Every check of a run's sealed lists.
pub fn sealed_checks(home: &RalphHome, run: &RunRecord) -> Vec<Gate> {
    let paths = home.run(&run.id);
    let of = |(number, seal): (usize, &ListSeal)| match sealed_items(&paths, number, seal) {
        Some(items) if !seal.approval.is_empty() => work_list::check_gates(number, &items),
        Some(_) | None => Vec::new(),
    };
    run.lists.iter().enumerate().flat_map(of).collect()
}

/// The names of the items that have checks, by the names of the checks.
pub fn check_item_names(home: &RalphHome, run: &RunRecord) -> BTreeMap<String, String> {
    let paths = home.run(&run.id);
    let mut names = BTreeMap::new();
    for (number, seal) in run.lists.iter().enumerate() {
        for (position, item) in sealed_items(&paths, number, seal).into_iter().flatten().enumerate()
        {
            names.insert(work_list::check_name(number, position), item.name);
        }
    }
    names
}

/// One check per program, so that each program is listed once.
pub fn one_check_per_program(checks: &[Gate]) -> Vec<Gate> {
    let mut programs: Vec<Gate> = Vec::new();
    let program = |gate: &Gate| match &gate.command {
        GateInvocation::Argv(words) => words.first().cloned(),
        GateInvocation::Shell(_) => None,
    };
    for check in checks {
        if !programs.iter().any(|known| program(known) == program(check)) {
            programs.push(check.clone());
        }
    }
    programs
}

/// The copy made at the start of the run, if it is unchanged.
pub fn sealed_items(paths: &RunPaths, number: usize, seal: &ListSeal) -> Option<Vec<ListItem>> {
    let bytes = fs::read(&paths.list(number), MAX_LIST_BYTES).ok()?;
    let items: Vec<ListItem> = serde_json::from_slice(&bytes).ok()?;
    (items_digest(&items).ok()? == seal.digest).then_some(items)
}

/// Reads every list of a run.
pub fn read_run_lists(world: &World, opened: &LoadedRun) -> RunLists {
    let run = &opened.run;
    let mut lists = RunLists::default();
    for (number, seal) in run.lists.iter().enumerate() {
        lists.add_list(world, opened, number, seal);
    }
    if run.lists.is_empty() {
        for directory in &run.features {
            lists.add_unsealed_list(run, Path::new(directory));
        }
    }
    if lists.lists.len() > 1 {
        lists.prefix_item_names();
    }
    lists
}

impl RunLists {
    fn add_list(&mut self, world: &World, opened: &LoadedRun, number: usize, seal: &ListSeal) {
        let paths = world.home.run(&opened.run.id);
        let named = ListFile { path: PathBuf::from(&seal.path), kind: seal.kind };
        let file = display_path(&opened.run, &named.path);
        let label = list_label(&opened.run, &named);
        // Read only if needed: an unchanged feature list without checks does not need its copy.
        let sealed = LazyCell::new(|| sealed_items(&paths, number, seal));
        let bytes = fs::read(&named.path, MAX_LIST_BYTES).map_err(ListError::from);
        let now = match bytes.and_then(|bytes| Ok((parse_items(&named, &bytes)?, bytes))) {
            Ok((items, bytes)) => {
                save_last_read(&paths, number, &bytes, &items);
                items
            }
            Err(error) => {
                self.add_unreadable(opened, &named, &error);
                // Without any readable version, the missing copy is reported below.
                load_last_read(&paths, number).or_else(|| sealed.clone()).unwrap_or_default()
            }
        };
        let is_unchanged = items_digest(&now).is_ok_and(|digest| digest == seal.digest);
        // Only the copy shows which items of a plan were ticked at the start, and gate workers take checks from it.
        let needs_copy = seal.kind == ListKind::Plan || !seal.approval.is_empty();
        let (items, difference) = if is_unchanged && (!needs_copy || sealed.is_some()) {
            (now, ListDifference::default())
        } else if let Some(sealed) = &*sealed {
            work_list::merge_with_sealed(sealed, &now)
        } else {
            // Without the sealed copy nothing in the list can be trusted.
            let why = format!("the sealed copy of `{file}` is missing or was edited");
            let status = RequirementStatus::Unknown(why);
            self.requirements.push(list_requirement(label.clone(), status, String::new()));
            (now, ListDifference::default())
        };
        self.requirements.extend(difference.requirement(&file, &label));
        if !seal.approval.is_empty() {
            let checks = work_list::check_gates(number, &items);
            self.requirements.extend(changed_scripts_requirement(
                &world.home,
                &opened.run,
                seal,
                &label,
                &checks,
            ));
        }
        let then = match seal.kind {
            ListKind::Plan => sealed.clone().unwrap_or_default(),
            ListKind::Features => Vec::new(),
        };
        self.lists.push(RunList { file, kind: seal.kind, items, sealed_items: then });
    }

    /// Adds a list of a run started by an older version of ralph, which did not seal lists: only the current file counts.
    fn add_unsealed_list(&mut self, run: &RunRecord, directory: &Path) {
        let named = ListFile {
            path: directory.join(loop_directory::FEATURES_FILE),
            kind: ListKind::Features,
        };
        let file = display_path(run, &named.path);
        match read_list(&named) {
            Ok(items) => {
                let items =
                    items.into_iter().map(|item| ListItem { check: None, ..item }).collect();
                self.lists.push(RunList {
                    file,
                    kind: named.kind,
                    items,
                    sealed_items: Vec::new(),
                });
            }
            Err(error) => {
                let next = format!("Make `{file}` valid again");
                let why = describe_error(&error);
                self.requirements.push(list_requirement(
                    list_label(run, &named),
                    RequirementStatus::Unknown(why),
                    next,
                ));
            }
        }
    }

    /// Reports an unreadable list. The agent may be writing it at this moment, so this holds the agent only after a few
    /// stops.
    fn add_unreadable(&mut self, opened: &LoadedRun, named: &ListFile, error: &ListError) {
        let file = &display_path(&opened.run, &named.path);
        let is_gone = matches!(error, ListError::File(error) if error.is_missing());
        let why = match error {
            ListError::Invalid { why, .. } => format!("`{file}` does not parse: {why}"),
            ListError::File(_) if is_gone => format!("`{file}` no longer exists"),
            ListError::File(_)
            | ListError::Empty { .. }
            | ListError::Trust(_)
            | ListError::Seal(_) => describe_error(error),
        };
        self.unreadable_files.push(file.clone());
        let known = opened.state.garbled.iter().find(|known| known.file == *file);
        let stops = known.map_or(0, |known| known.stops) + 1;
        let next = if is_gone {
            format!("Restore `{file}`")
        } else {
            format!("Make `{file}` valid again")
        };
        let label = list_label(&opened.run, named);
        let mut one = list_requirement(
            label,
            RequirementStatus::Unmet(RequirementFailure::new(why.clone())),
            next,
        );
        if !is_gone && stops < UNREADABLE_STOPS_LIMIT {
            // Pending keeps the run from ending well without counting against the agent yet.
            let so = format!("{why}; its last readable version counts");
            one.status = RequirementStatus::Pending(PendingReason::NotReached(so));
        }
        self.requirements.push(one);
    }

    /// Prefixes items with the name of their list, because items of different lists may share a name.
    fn prefix_item_names(&mut self) {
        for list in &mut self.lists {
            let path = Path::new(&list.file);
            let name = match list.kind {
                ListKind::Features => path.parent().and_then(Path::file_name),
                ListKind::Plan => path.file_name(),
            };
            let name = text::clean_line(&name.unwrap_or_default().to_string_lossy(), 60);
            for item in list.items.iter_mut().chain(&mut list.sealed_items) {
                item.name = format!("{name}: {}", item.name);
            }
        }
    }

    /// The name of the item that a check belongs to.
    pub fn item_name(&self, check: &str) -> Option<String> {
        let (number, position) = work_list::parse_check_name(check)?;
        Some(self.lists.get(number)?.items.get(position)?.name.clone())
    }

    /// Renames a requirement that is named after a check to the name of the check's item.
    pub fn name_after_item(&self, mut requirement: Requirement) -> Requirement {
        let (check, rest) = match requirement.name.split_once(' ') {
            Some((check, rest)) => (check.to_string(), format!(" {rest}")),
            None => (requirement.name.clone(), String::new()),
        };
        if let Some(item) = self.item_name(&check) {
            requirement.next = requirement.next.replace(&check, &item);
            requirement.name = format!("{item}{rest}");
        }
        requirement
    }

    /// A requirement for items of plans that are ticked although the work does not show them.
    pub fn discrepancies(&self, touched: &[String]) -> Option<Requirement> {
        let plans = self.lists.iter().filter(|list| list.kind == ListKind::Plan);
        let compared: Vec<PlanComparison<'_>> = plans
            .map(|list| PlanComparison {
                file: &list.file,
                sealed_items: &list.sealed_items,
                current_items: &list.items,
            })
            .collect();
        plan::plan_discrepancies(&compared, touched)
    }

    /// The checks to run now.
    pub fn due_checks(&self) -> Vec<Gate> {
        let lists = self.lists.iter().enumerate();
        lists.flat_map(|(at, list)| work_list::due_check_gates(at, &list.items)).collect()
    }

    /// Every check of the lists.
    pub fn all_checks(&self) -> Vec<Gate> {
        let lists = self.lists.iter().enumerate();
        lists.flat_map(|(at, list)| work_list::check_gates(at, &list.items)).collect()
    }

    pub fn programs(&self) -> Vec<Gate> {
        one_check_per_program(&self.all_checks())
    }
}

/// The items of a file when it was last readable.
#[derive(Serialize, Deserialize)]
struct LastReadItems<Items> {
    /// The hash of the file's bytes. It comes first, so that most stops only read the beginning.
    of: String,
    items: Items,
}

/// Saves the current items for a time when the file cannot be read.
fn save_last_read(paths: &RunPaths, number: usize, bytes: &[u8], items: &[ListItem]) {
    let of = blake3::hash(bytes).to_hex().to_string();
    let path = paths.list_latest(number);
    let beginning = format!("{{\"of\":\"{of}\"");
    let known = fs::read_range(&path, 0, beginning.len());
    if known.is_ok_and(|known| known == beginning.as_bytes()) {
        return;
    }
    let Ok(bytes) = serde_json::to_vec(&LastReadItems { of, items }) else { return };
    // An error is ignored: without this copy the sealed list counts.
    drop(fs::replace(&path, &bytes, Durability::Cached));
}

fn load_last_read(paths: &RunPaths, number: usize) -> Option<Vec<ListItem>> {
    let bytes = fs::read(&paths.list_latest(number), MAX_LIST_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok().map(|kept: LastReadItems<Vec<ListItem>>| kept.items)
}

/// The requirement that holds while the scripts that checks call differ from the approved ones.
fn changed_scripts_requirement(
    home: &RalphHome,
    run: &RunRecord,
    seal: &ListSeal,
    label: &str,
    checks: &[Gate],
) -> Option<Requirement> {
    let project = run.seal.as_ref().map_or(&run.project, |seal| &seal.project);
    let name = format!("checks of {label}");
    let requirement = |standing, next| list_requirement(name.clone(), standing, next);
    let now = match trust::checks_subject(Path::new(project), Path::new(&seal.path), checks) {
        Ok(now) => now,
        Err(error) => {
            return Some(requirement(
                RequirementStatus::Unknown(describe_error(&error)),
                String::new(),
            ));
        }
    };
    if now.hash == seal.approval {
        return None;
    }
    let then = trust::hash_approval(home, project, &seal.approval);
    let has_approval = then.is_some();
    let changed = then.map(|then| now.changed_files(&then)).unwrap_or_default();
    // A file that a check names and that did not exist before is part of the work.
    if has_approval && changed.is_empty() {
        return None;
    }
    let count = changed.len();
    let summary = match changed.first() {
        Some(first) if count == 1 => format!("{first} changed since it was approved"),
        Some(first) => format!("{first} and {} more changed since they were approved", count - 1),
        None => "the files that they call changed since they were approved".to_string(),
    };
    let next = "Restore the files that these checks call".to_string();
    let mut changed = requirement(RequirementStatus::Unmet(RequirementFailure::new(summary)), next);
    // A person who approved the new content knows about the change.
    if trust::is_approved(home, &now) {
        changed.weight = RequirementWeight::Advisory;
    }
    Some(changed)
}

fn list_requirement(name: String, standing: RequirementStatus, next: String) -> Requirement {
    let (stage, weight) = (RequirementStage::Planning, RequirementWeight::Required);
    Requirement { name, stage, status: standing, weight, next }
}

/// The name of a list in requirements about the list itself.
fn list_label(run: &RunRecord, named: &ListFile) -> String {
    let own = match named.kind {
        ListKind::Features => named.path.parent().and_then(Path::file_name),
        ListKind::Plan => named.path.file_name(),
    };
    let own = text::clean_line(&own.unwrap_or_default().to_string_lossy(), 60).replace('`', "'");
    match named.kind {
        ListKind::Plan => format!("plan {own}"),
        ListKind::Features if run.lists.len() > 1 => format!("{own}: feature list"),
        ListKind::Features => "feature list".to_string(),
    }
}

/// A path as the agent knows it, relative to the project. It comes from the repository, so it is sanitized.
pub fn display_path(run: &RunRecord, path: &Path) -> String {
    let path = path.strip_prefix(&run.project).unwrap_or(path);
    text::clean_line(&path.to_string_lossy(), 200).replace('`', "'")
}
