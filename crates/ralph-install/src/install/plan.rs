//! Plans an installation or a removal: computes all changes and notes, and writes nothing.

use std::path::{Path, PathBuf};

use super::change::{self, Change, Memory};
use super::command::{self, Program};
use super::commands;
use super::edit::{self, Wanted};
use super::foreign::{self, Foreign};
use super::layers::{self, Layer, LayerKind, State};
use super::record::{self, Record, Touched};
use super::registration::{self, BLOCK_CAP, Cap, Choice, Extent, Warming};
use super::{InstallError, notes};
use ralph_core::gate::Gate;
use ralph_home::paths::Home;
use ralph_policy::config;
use ralph_policy::detect::{self, Detected, Tool};
use ralph_policy::trust;
use ralph_sys::env::Env;
use ralph_sys::fs;

/// The settings file to install into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For one person, in every project.
    User,
    /// For everyone who works on the project.
    Project,
    /// For one person, in this project.
    Local,
}

impl Scope {
    pub fn layer(self) -> LayerKind {
        match self {
            Self::User => LayerKind::User,
            Self::Project => LayerKind::Project,
            Self::Local => LayerKind::Local,
        }
    }
}

/// The environment, ralph's home and the project.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    pub env: &'a Env,
    pub home: &'a Home,
    pub project: &'a Path,
}

/// The options of `ralph init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub scope: Scope,
    pub extent: Extent,
    pub warming: Warming,
    pub status_line: StatusLine,
    pub gates: Gates,
    pub others: Others,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusLine {
    Leave,
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gates {
    /// Propose a policy if the project has none.
    Propose,
    Leave,
}

/// Whether setups of other tools that hold an agent are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    Leave,
    Replace,
}

/// Everything that an installation or a removal would do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The settings file comes first.
    pub changes: Vec<Change>,
    /// The proposed policy among the changes, with its commands.
    pub policy: Option<Proposed>,
    pub foreign: Vec<Foreign>,
    /// Notes for the person.
    pub notes: Vec<String>,
    /// The worst obstacle to holding a session, if any.
    pub obstacle: Option<Obstacle>,
    /// The program that the link in ralph's home should point at.
    pub program: Option<PathBuf>,
}

/// Why a run could not hold a session after the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The client would run no hook; a note explains why.
    HooksAreOff,
    /// The existing policy is not approved, so it runs nothing.
    Unapproved,
}

/// A policy to create.
#[derive(Clone, Debug)]
pub struct Proposed {
    pub path: PathBuf,
    pub text: String,
    /// Each gate with its literal command and the path of its program.
    pub gates: Vec<(String, String, PathBuf)>,
}

/// Plans an installation.
pub fn install(ground: &Ground<'_>, order: &Order) -> Result<Plan, InstallError> {
    let program = Program::find(ground.env)?;
    let layers = layers::read(ground.env, ground.project);
    let policy = policy(ground, order.gates)?;
    let path = settings_path(ground, order.scope)?;
    let now = change::look(&path)?;
    let mut foreign = foreign::plugins(&layers);
    foreign.extend(foreign::hooks(now.as_deref().unwrap_or_default()));
    let wanted = Wanted {
        entries: registration::entries(&program, policy.choice(*order)),
        cap: Cap::for_limit(policy.max_iterations),
        status_line: (order.status_line == StatusLine::Set).then(|| program.status_line()),
        disable: Vec::new(),
        cut: Vec::new(),
    };
    // A layer of higher precedence would enable its plugin again.
    let within_reach = foreign.iter().filter(|one| one.is_within(order.scope.layer())).cloned();
    let within_reach: Vec<_> = within_reach.collect();
    let settings = settings(ground, (path, now), (order.others, &within_reach), wanted)?;
    let mut changes: Vec<_> = settings.into_iter().collect();
    changes.extend(policy.proposed.as_ref().map(Proposed::change));
    foreign.extend(foreign::files(ground.project));
    let mut notes = notes::of_install(&layers, order.scope, &program);
    notes.extend(policy.notes);
    let obstacle = if notes::is_off(&layers, order.scope) {
        Some(Obstacle::HooksAreOff)
    } else {
        policy.is_unapproved.then_some(Obstacle::Unapproved)
    };
    if order.extent != Extent::Plugin {
        changes.extend(commands::install(ground, order.scope, &mut notes)?);
    }
    Ok(Plan {
        changes,
        policy: policy.proposed,
        foreign,
        notes,
        program: Some(program.path),
        obstacle,
    })
}

/// The change of the settings file; `None` if it already has everything.
fn settings(
    ground: &Ground<'_>,
    (path, now): (PathBuf, Option<Vec<u8>>),
    (others, foreign): (Others, &[Foreign]),
    mut wanted: Wanted,
) -> Result<Option<Change>, InstallError> {
    let record = record::load(ground.home, &path);
    let before = without(ground.home, (&path, now.as_deref()), record.as_ref())?;
    let base = before.as_deref().unwrap_or_default();
    let trace = record.as_ref().and_then(|record| record.trace.as_ref());
    // Options of an earlier installation stay in force.
    let line = trace.and_then(edit::Trace::status_line);
    wanted.status_line = wanted.status_line.or(line);
    wanted.disable = trace.map(edit::Trace::disabled).unwrap_or_default();
    let is_taken = |hook: &Foreign| match (others, hook) {
        (_, Foreign::Plugin { .. } | Foreign::Loop(_) | Foreign::Rules(_)) => None,
        (Others::Replace, Foreign::Hook { event, index, .. }) => Some((event.clone(), *index)),
        (Others::Leave, Foreign::Hook { event, index, text, .. }) => {
            let was_cut = trace.is_some_and(|trace| trace.has_cut(event, text));
            was_cut.then(|| (event.clone(), *index))
        }
    };
    if others == Others::Replace {
        wanted.disable.extend(foreign.iter().filter_map(|one| match one {
            Foreign::Plugin { name, .. } => Some(name.clone()),
            Foreign::Hook { .. } | Foreign::Loop(_) | Foreign::Rules(_) => None,
        }));
        wanted.cut = foreign.iter().filter_map(is_taken).collect();
    }
    if now.as_deref().is_some_and(|now| edit::is_there(now, &wanted)) {
        return Ok(None);
    }
    wanted.cut = foreign::hooks(base).iter().filter_map(is_taken).collect();
    let damaged = |fault| InstallError::Damaged { path: path.clone(), fault };
    let (after, trace) = edit::add(base, &wanted).map_err(damaged)?;
    let made_before = record.map_or(0, |record| record.made_directories);
    let made_directories = change::missing_directories(&path).max(made_before);
    let mut record = Box::new(Record::new(&path, before.as_deref(), &after));
    record.made_directories = made_directories;
    record.trace = Some(trace);
    let memory = Memory::Keep { record, before };
    Change { path, now, then: Some(after), memory }.checked().map(Some)
}

/// The content of the file without ralph; `None` if the file would not exist.
fn without(
    home: &Home,
    (path, now): (&Path, Option<&[u8]>),
    record: Option<&Record>,
) -> Result<Option<Vec<u8>>, InstallError> {
    let Some(now) = now else { return Ok(None) };
    let touched = record.map(|record| (record, record.touched(Some(now))));
    if let Some((record, Touched::No)) = touched {
        match (&record.before, record::before(home, path, record)) {
            (None, _) => return Ok(None),
            (Some(_), Some(bytes)) => return Ok(Some(bytes)),
            // The backup is gone, but the trace is enough.
            (Some(_), None) => {}
        }
    }
    if let Some((_, Touched::NotWritten)) = touched {
        return Ok(Some(now.to_vec()));
    }
    let trace = record.and_then(|record| record.trace.as_ref());
    let damaged = |fault| InstallError::Damaged { path: path.to_path_buf(), fault };
    let bytes = edit::strip(now, trace).map_err(damaged)?;
    let was_made = record.is_some_and(|record| record.before.is_none());
    Ok((!was_made || !edit::is_empty(&bytes)).then_some(bytes))
}

fn settings_path(ground: &Ground<'_>, scope: Scope) -> Result<PathBuf, InstallError> {
    layers::path(ground.env, ground.project, scope.layer()).ok_or(InstallError::NoHome)
}

/// The parts of the project's policy that matter for the installation.
struct Policy {
    gates_ms: u64,
    max_iterations: Option<u32>,
    proposed: Option<Proposed>,
    is_unapproved: bool,
    notes: Vec<String>,
}

impl Policy {
    fn choice(&self, order: Order) -> Choice {
        Choice { extent: order.extent, warming: order.warming, gates_ms: self.gates_ms }
    }
}

fn policy(ground: &Ground<'_>, gates: Gates) -> Result<Policy, InstallError> {
    let config = config::load(ground.project, ground.home)?;
    let total = |gates: &mut dyn Iterator<Item = &Gate>| {
        gates.fold(0, |total: u64, gate| total.saturating_add(gate.timeout_ms))
    };
    let mut policy = Policy {
        gates_ms: total(&mut config.policy.gates.iter()),
        max_iterations: config.policy.limits.max_iterations,
        proposed: None,
        is_unapproved: false,
        notes: Vec::new(),
    };
    if config.file.is_some() {
        let subject = trust::subject(&config)?;
        if !trust::is_approved(ground.home, &subject) {
            let note = "the existing policy is not approved: `ralph trust` shows its commands";
            policy.notes.push(note.to_string());
            policy.is_unapproved = true;
        }
        return Ok(policy);
    }
    // A home directory is not a project, whatever files it contains.
    let is_home =
        ground.env.home().and_then(|home| fs::resolve(&home)) == fs::resolve(ground.project);
    if gates == Gates::Leave || is_home {
        return Ok(policy);
    }
    let detected = detect::survey(ground.project, ground.env);
    policy.notes.extend(notes::of_survey(&detected));
    if !detected.gates.is_empty() {
        let proposed = Proposed::from(ground.project, &detected);
        let active = detected.gates.iter().filter(|gate| matches!(gate.tool, Tool::Found(_)));
        let gates_ms = total(&mut active.map(|proposal| &proposal.gate));
        policy.gates_ms = policy.gates_ms.saturating_add(gates_ms);
        policy.proposed = Some(proposed);
    }
    Ok(policy)
}

impl Proposed {
    pub fn from(project: &Path, detected: &Detected) -> Self {
        let gates = detected.gates.iter().filter_map(|proposal| match &proposal.tool {
            Tool::Found(path) => {
                let command = trust::literal(&proposal.gate.command);
                Some((proposal.gate.name.clone(), command, path.clone()))
            }
            Tool::Missing(_) => None,
        });
        Self {
            path: project.join(config::NAMES[0]),
            text: detect::write::render(detected),
            gates: gates.collect(),
        }
    }

    fn change(&self) -> Change {
        let bytes = self.text.clone().into_bytes();
        let record = Box::new(Record::new(&self.path, None, &bytes));
        let memory = Memory::Keep { record, before: None };
        Change { path: self.path.clone(), now: None, then: Some(bytes), memory }
    }
}

/// Records the person's approval of the proposed policy, after it was written. Fails if the file differs from the
/// proposal.
pub fn approve(ground: &Ground<'_>, proposed: &Proposed) -> Result<(), InstallError> {
    let config = config::load(ground.project, ground.home)?;
    if config.file.as_ref().is_none_or(|file| *file.text != *proposed.text) {
        return Err(InstallError::Changed(proposed.path.clone()));
    }
    let subject = trust::subject(&config)?;
    let search_path = trust::search_path(&config, ground.env.search_path().as_deref());
    trust::approve(ground.home, &subject, &search_path)?;
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepPolicy {
    Yes,
    No,
}

/// Plans a removal. Data of runs stays in ralph's home.
pub fn uninstall(
    ground: &Ground<'_>,
    scopes: &[Scope],
    keep: KeepPolicy,
) -> Result<Plan, InstallError> {
    let mut plan = Plan {
        changes: Vec::new(),
        policy: None,
        foreign: Vec::new(),
        notes: Vec::new(),
        program: None,
        obstacle: None,
    };
    for scope in scopes {
        let path = match settings_path(ground, *scope) {
            Ok(path) => path,
            Err(_) if scopes.len() > 1 => continue,
            Err(error) => return Err(error),
        };
        let now = change::look(&path)?;
        let record = record::load(ground.home, &path);
        let then = match without(ground.home, (&path, now.as_deref()), record.as_ref()) {
            // Without a record, ralph never wrote to this file.
            Err(InstallError::Damaged { path, fault }) if record.is_none() => {
                plan.notes.push(format!(
                    "`{}` cannot be parsed and is left unchanged: {fault}",
                    path.display()
                ));
                continue;
            }
            then => then?,
        };
        let made_directories = record.as_ref().map_or(0, |record| record.made_directories);
        if record.is_none() && then.as_deref().is_some_and(edit::has_cap) && then != now {
            let note =
                format!("`{BLOCK_CAP}` in `{}` stays: ralph may not have set it", path.display());
            plan.notes.push(note);
        }
        if record.is_some() || then != now {
            let memory = Memory::Forget { made_directories };
            plan.changes.push(Change { path, now, then, memory }.checked()?);
        }
    }
    let leaving: Vec<_> =
        scopes.iter().filter_map(|scope| settings_path(ground, *scope).ok()).collect();
    for scope in scopes {
        let is_shared = matches!(scope, Scope::User | Scope::Local);
        if is_shared && commands::are_used_elsewhere(ground.home, &leaving) {
            continue;
        }
        plan.changes.extend(commands::uninstall(ground, *scope, &mut plan.notes)?);
    }
    let layers = layers::read(ground.env, ground.project);
    let taken: Vec<_> = scopes.iter().map(|scope| scope.layer()).collect();
    let rest = layers.iter().filter(|layer| !taken.contains(&layer.kind) && has_ours(layer));
    let rest: Vec<_> = rest.collect();
    plan.changes.extend(policy_removal(ground, (keep, &rest), &mut plan.notes)?);
    plan.notes.extend(rest.iter().map(|layer| notes::still_in(layer)));
    Ok(plan)
}

fn has_ours(layer: &Layer) -> bool {
    match &layer.state {
        State::Missing | State::Broken(_) => false,
        State::Read(settings) => settings
            .hooks
            .iter()
            .any(|hook| command::is_hook_of_ours(&hook.command, hook.args.as_deref())),
    }
}

/// Removes a proposed policy, unless it was edited since or is still in use.
fn policy_removal(
    ground: &Ground<'_>,
    (keep, rest): (KeepPolicy, &[&Layer]),
    notes: &mut Vec<String>,
) -> Result<Option<Change>, InstallError> {
    let path = ground.project.join(config::NAMES[0]);
    let Some(record) = record::load(ground.home, &path) else { return Ok(None) };
    if keep == KeepPolicy::No && !rest.is_empty() {
        notes.push(format!("`{}` stays: it is still in use", config::NAMES[0]));
        return Ok(None);
    }
    let now = change::look(&path)?;
    let then = match (keep, record.touched(now.as_deref())) {
        (KeepPolicy::No, Touched::No) => None,
        (KeepPolicy::No, Touched::Since) => {
            notes.push(format!("`{}` stays: it was edited since", config::NAMES[0]));
            now.clone()
        }
        (KeepPolicy::Yes, _) | (_, Touched::NotWritten) => now.clone(),
    };
    let memory = Memory::Forget { made_directories: 0 };
    Ok(Some(Change { path, now, then, memory }))
}
