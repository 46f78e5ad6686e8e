//! Plans an installation or a removal: computes all changes and notes, and writes nothing.

use std::path::{Path, PathBuf};

use super::file_change::{self, InstallChange, RecordUpdate};
use super::foreign_setups::{self, ForeignSetup};
use super::install_record::{self, InstallRecord, RecordedFileState};
use super::native_judge::{self, NativeJudgeChoice};
use super::program_path::{self, RalphProgram};
use super::registration::{self, BlockCapSetting, GateWarming, HookExtent, RegistrationChoice};
use super::settings_edit::{self, WantedSettings};
use super::settings_layers::{self, SettingsLayer, SettingsLayerKind, SettingsLayerState};
use super::slash_commands;
use super::{InstallError, install_notes};
use ralph_core::gate::Gate;
use ralph_core::policy::SessionGates;
use ralph_home::paths::RalphHome;
use ralph_host::HostProfile;
use ralph_host::client_settings::NativeJudgeKind;
use ralph_policy::config::{self, ConfigLayer};
use ralph_policy::detect::{self, ProposedGate, ToolLookup};
use ralph_policy::trust;
use ralph_sys::env::Env;

const UNCHOSEN_SESSIONS: &str = "`[session] gates` is not set, so the gates hold only sessions with a goal; \
     `ralph init --session-gates every` extends that to all";

pub use super::proposed_policy::{ProposedPolicy, approve_proposed, is_project_directory};

/// The settings file to install into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallScope {
    /// For one person, in every project.
    User,
    /// For everyone who works on the project.
    Project,
    /// For one person, in this project.
    Local,
}

impl InstallScope {
    pub fn layer(self) -> SettingsLayerKind {
        match self {
            Self::User => SettingsLayerKind::User,
            Self::Project => SettingsLayerKind::Project,
            Self::Local => SettingsLayerKind::Local,
        }
    }
}

/// The environment, the host, ralph's home and the project.
#[derive(Clone, Copy, Debug)]
pub struct InstallContext<'a> {
    pub env: &'a Env,
    pub host: &'static HostProfile,
    pub home: &'a RalphHome,
    pub project: &'a Path,
}

/// The options of `ralph init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstallRequest {
    pub scope: InstallScope,
    pub extent: HookExtent,
    pub warming: GateWarming,
    pub status_line: StatusLineChoice,
    pub judge: NativeJudgeChoice,
    pub gates: GateSetupChoice,
    /// The sessions that the gates of a proposed policy hold.
    pub sessions: SessionGates,
    pub session_setup: SessionSetupChoice,
    pub others: ForeignSetupChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusLineChoice {
    Leave,
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateSetupChoice {
    /// Propose a policy if the project has none.
    Propose,
    Leave,
}

/// Whether an existing policy that does not choose the sessions gets the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSetupChoice {
    Propose,
    Leave,
}

/// Whether setups of other tools that hold an agent are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignSetupChoice {
    Leave,
    Replace,
}

/// Everything that an installation or a removal would do.
#[derive(Clone, Debug)]
pub struct InstallPlan {
    /// The settings file comes first.
    pub changes: Vec<InstallChange>,
    /// The proposed policy among the changes, with its commands. It may add to an existing one.
    pub policy: Option<ProposedPolicy>,
    /// The sessions that the gates hold after the installation; `None` without gates.
    pub sessions: Option<SessionGates>,
    /// The client's own judge after the installation.
    pub judge: Option<NativeJudgeKind>,
    pub foreign: Vec<ForeignSetup>,
    /// Notes for the person.
    pub notes: Vec<String>,
    /// The worst obstacle to holding a session, if any.
    pub obstacle: Option<InstallObstacle>,
    /// The program that the link in ralph's home should point at.
    pub program: Option<PathBuf>,
}

/// Why a run could not hold a session after the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallObstacle {
    /// The client would run no hook; a note explains why.
    HooksAreOff,
    /// The existing policy is not approved, so it runs nothing.
    Unapproved,
}

/// Plans an installation.
pub fn plan_install(
    context: &InstallContext<'_>,
    order: &InstallRequest,
) -> Result<InstallPlan, InstallError> {
    plan_install_with(context, order, &[])
}

/// Plans an installation that also proposes the gates of commands that a person typed.
pub fn plan_install_with(
    context: &InstallContext<'_>,
    order: &InstallRequest,
    typed: &[ProposedGate],
) -> Result<InstallPlan, InstallError> {
    let program = RalphProgram::find(context.env)?;
    let layers = settings_layers::read_layers(context.env, context.host, context.project);
    let policy = survey_policy(context, *order, typed)?;
    let path = settings_path(context, order.scope)?;
    let now = file_change::read_current(&path)?;
    let mut foreign = foreign_setups::find_loop_plugins(&layers);
    foreign
        .extend(foreign_setups::find_stop_hooks(context.host, now.as_deref().unwrap_or_default()));
    let wanted = WantedSettings {
        entries: registration::hook_entries(
            context.host,
            &program,
            policy.registration_choice(*order),
        ),
        judge: native_judge::wanted_judge(
            context.host,
            now.as_deref().unwrap_or_default(),
            order.judge,
        ),
        cap: BlockCapSetting::for_limit(context.host, policy.max_iterations),
        status_line: (order.status_line == StatusLineChoice::Set)
            .then(|| program.status_line_command()),
        disable: Vec::new(),
        cut: Vec::new(),
    };
    // A layer of higher precedence would enable its plugin again.
    let within_reach = foreign.iter().filter(|one| one.is_within(order.scope.layer())).cloned();
    let within_reach: Vec<_> = within_reach.collect();
    let judge = wanted.judge.as_ref().map(|judge| judge.kind);
    let settings = plan_settings(context, (path, now), (order.others, &within_reach), wanted)?;
    let mut changes: Vec<_> = settings.into_iter().collect();
    if let Some(proposed) = &policy.proposed {
        changes.push(proposed.to_change(context.home)?);
    }
    foreign.extend(foreign_setups::find_tool_files(context.host, context.project));
    let mut notes = install_notes::notes_for_install(context.host, &layers, *order, &program);
    if let NativeJudgeChoice::Write(kind) = order.judge {
        notes.extend(native_judge::native_judge_notes(kind));
    }
    notes.extend(policy.notes);
    let can_compare = || install_notes::can_compare_sessions(context.env, context.project);
    if policy.sessions == Some(SessionGates::Every) && !can_compare() {
        notes.push(format!("{}; `git init` changes that", install_notes::NO_COMPARISON));
    }
    let obstacle = if install_notes::are_hooks_off(&layers, order.scope) {
        Some(InstallObstacle::HooksAreOff)
    } else {
        policy.is_unapproved.then_some(InstallObstacle::Unapproved)
    };
    if order.extent != HookExtent::Plugin {
        changes.extend(slash_commands::install_commands(context, order.scope, &mut notes)?);
    }
    Ok(InstallPlan {
        changes,
        policy: policy.proposed,
        sessions: policy.sessions,
        judge,
        foreign,
        notes,
        program: Some(program.path),
        obstacle,
    })
}

/// The change of the settings file; `None` if it already has everything.
fn plan_settings(
    context: &InstallContext<'_>,
    (path, now): (PathBuf, Option<Vec<u8>>),
    (others, foreign): (ForeignSetupChoice, &[ForeignSetup]),
    mut wanted: WantedSettings,
) -> Result<Option<InstallChange>, InstallError> {
    let record = install_record::load_record(context.home, &path)?;
    let before = settings_without_ralph(context, (&path, now.as_deref()), record.as_ref())?;
    let base = before.as_deref().unwrap_or_default();
    let trace = record.as_ref().and_then(|record| record.trace.as_ref());
    // Options of an earlier installation stay in force.
    let line = trace.and_then(|trace| trace.status_line_command(context.host));
    wanted.status_line = wanted.status_line.or(line);
    wanted.disable = trace.map(|trace| trace.disabled_plugins(context.host)).unwrap_or_default();
    let is_taken = |hook: &ForeignSetup| match (others, hook) {
        (_, ForeignSetup::Plugin { .. } | ForeignSetup::Loop(_) | ForeignSetup::Rules(_)) => None,
        (ForeignSetupChoice::Replace, ForeignSetup::Hook { event, index, .. }) => {
            Some((event.clone(), *index))
        }
        (ForeignSetupChoice::Leave, ForeignSetup::Hook { event, index, text, .. }) => {
            let was_cut = trace.is_some_and(|trace| trace.has_cut(event, text));
            was_cut.then(|| (event.clone(), *index))
        }
    };
    if others == ForeignSetupChoice::Replace {
        wanted.disable.extend(foreign.iter().filter_map(|one| match one {
            ForeignSetup::Plugin { name, .. } => Some(name.clone()),
            ForeignSetup::Hook { .. } | ForeignSetup::Loop(_) | ForeignSetup::Rules(_) => None,
        }));
        wanted.cut = foreign.iter().filter_map(is_taken).collect();
    }
    if now.as_deref().is_some_and(|now| settings_edit::is_installed(context.host, now, &wanted)) {
        return Ok(None);
    }
    wanted.cut =
        foreign_setups::find_stop_hooks(context.host, base).iter().filter_map(is_taken).collect();
    let damaged = |fault| InstallError::Damaged { path: path.clone(), fault };
    let (after, trace) = settings_edit::add_ralph(context.host, base, &wanted).map_err(damaged)?;
    let made_before = record.map_or(0, |record| record.made_directories);
    let made_directories = file_change::missing_directories(&path).max(made_before);
    let mut record = Box::new(InstallRecord::new(&path, before.as_deref(), &after));
    record.made_directories = made_directories;
    record.trace = Some(trace);
    let memory = RecordUpdate::Keep { record, before };
    InstallChange { path, current_content: now, new_content: Some(after), memory }
        .checked()
        .map(Some)
}

/// The content of the file without ralph; `None` if the file would not exist.
fn settings_without_ralph(
    context: &InstallContext<'_>,
    (path, now): (&Path, Option<&[u8]>),
    record: Option<&InstallRecord>,
) -> Result<Option<Vec<u8>>, InstallError> {
    let Some(now) = now else { return Ok(None) };
    let touched = record.map(|record| (record, record.file_state(Some(now))));
    if let Some((record, RecordedFileState::Unchanged)) = touched {
        match (&record.before, install_record::original_bytes(context.home, path, record)) {
            (None, _) => return Ok(None),
            (Some(_), Some(bytes)) => return Ok(Some(bytes)),
            // The backup is gone, but the trace is enough.
            (Some(_), None) => {}
        }
    }
    if let Some((_, RecordedFileState::AsBefore)) = touched {
        return Ok(Some(now.to_vec()));
    }
    let trace = record.and_then(|record| record.trace.as_ref());
    let damaged = |fault| InstallError::Damaged { path: path.to_path_buf(), fault };
    let bytes = settings_edit::remove_ralph(context.host, now, trace).map_err(damaged)?;
    let was_made = record.is_some_and(|record| record.before.is_none());
    Ok((!was_made || !settings_edit::is_empty_settings(&bytes)).then_some(bytes))
}

fn settings_path(
    context: &InstallContext<'_>,
    scope: InstallScope,
) -> Result<PathBuf, InstallError> {
    settings_layers::layer_path(context.env, context.host, context.project, scope.layer())
        .ok_or(InstallError::NoHome)
}

/// The parts of the project's policy that matter for the installation.
struct ProjectPolicy {
    gates_ms: u64,
    max_iterations: Option<u32>,
    proposed: Option<ProposedPolicy>,
    sessions: Option<SessionGates>,
    is_unapproved: bool,
    notes: Vec<String>,
}

impl ProjectPolicy {
    fn registration_choice(&self, order: InstallRequest) -> RegistrationChoice {
        RegistrationChoice { extent: order.extent, warming: order.warming, gates_ms: self.gates_ms }
    }
}

fn survey_policy(
    context: &InstallContext<'_>,
    order: InstallRequest,
    typed: &[ProposedGate],
) -> Result<ProjectPolicy, InstallError> {
    let config = config::load(context.project, context.home)?;
    let total = |gates: &mut dyn Iterator<Item = &Gate>| {
        // A stop does not have to wait for a CI provider: the worker continues after it.
        let gates = gates.filter(|gate| !gate.is_ci());
        gates.fold(0, |total: u64, gate| total.saturating_add(gate.timeout_ms))
    };
    let mut policy = ProjectPolicy {
        gates_ms: total(&mut config.policy.gates.iter()),
        max_iterations: config.policy.limits.max_iterations,
        proposed: None,
        sessions: (!config.policy.gates.is_empty()).then_some(config.policy.session.gates),
        is_unapproved: false,
        notes: Vec::new(),
    };
    if let Some(file) = &config.file {
        let subject = trust::policy_subject(context.home, &config, context.env)?;
        if !trust::is_approved(context.home, &subject) {
            let note = "the existing policy is not approved: `ralph trust` shows its commands";
            policy.notes.push(note.to_string());
            policy.is_unapproved = true;
        }
        let is_open = config.layer_of("session.gates") == ConfigLayer::BuiltIn;
        if is_open && policy.sessions.is_some() {
            let is_offered = order.session_setup == SessionSetupChoice::Propose
                && order.gates == GateSetupChoice::Propose;
            if is_offered && !policy.is_unapproved {
                policy.proposed =
                    Some(ProposedPolicy::with_sessions(context, &config, file, order.sessions));
                policy.sessions = Some(order.sessions);
            } else {
                policy.notes.push(UNCHOSEN_SESSIONS.to_string());
            }
        }
        return Ok(policy);
    }
    if order.gates == GateSetupChoice::Leave || !is_project_directory(context.env, context.project)
    {
        return Ok(policy);
    }
    let mut detected = detect::detect_gates(context.project, context.env);
    if !typed.is_empty() {
        detected.add_typed(typed);
    }
    policy.notes.extend(install_notes::survey_notes(&detected));
    if !detected.gates.is_empty() {
        let text = detect::render_policy::render_with_sessions(&detected, order.sessions);
        let proposed = ProposedPolicy {
            text,
            ..ProposedPolicy::from_detected(context.project, context.env, &detected)
        };
        let active = detected.gates.iter().filter(|gate| matches!(gate.tool, ToolLookup::Found(_)));
        let gates_ms = total(&mut active.map(|proposal| &proposal.gate));
        policy.gates_ms = policy.gates_ms.saturating_add(gates_ms);
        if !proposed.gates.is_empty() {
            policy.sessions = Some(order.sessions);
        }
        policy.proposed = Some(proposed);
    }
    Ok(policy)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepPolicy {
    Yes,
    No,
}

/// Plans a removal. Data of runs stays in ralph's home.
pub fn plan_uninstall(
    context: &InstallContext<'_>,
    scopes: &[InstallScope],
    keep: KeepPolicy,
) -> Result<InstallPlan, InstallError> {
    let mut plan = InstallPlan {
        changes: Vec::new(),
        policy: None,
        sessions: None,
        judge: None,
        foreign: Vec::new(),
        notes: Vec::new(),
        program: None,
        obstacle: None,
    };
    for scope in scopes {
        let path = match settings_path(context, *scope) {
            Ok(path) => path,
            Err(_) if scopes.len() > 1 => continue,
            Err(error) => return Err(error),
        };
        let now = file_change::read_current(&path)?;
        let record = install_record::load_record(context.home, &path)?;
        let then = match settings_without_ralph(context, (&path, now.as_deref()), record.as_ref()) {
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
        if record.is_none()
            && then.as_deref().is_some_and(|then| settings_edit::has_block_cap(context.host, then))
            && then != now
        {
            let note = format!(
                "`{}` in `{}` stays: ralph may not have set it",
                context.host.variables.block_cap,
                path.display()
            );
            plan.notes.push(note);
        }
        if record.is_some() || then != now {
            let memory = RecordUpdate::Forget { made_directories };
            plan.changes.push(
                InstallChange { path, current_content: now, new_content: then, memory }
                    .checked()?,
            );
        }
    }
    let leaving: Vec<_> =
        scopes.iter().filter_map(|scope| settings_path(context, *scope).ok()).collect();
    for scope in scopes {
        let is_shared = matches!(scope, InstallScope::User | InstallScope::Local);
        if is_shared && slash_commands::are_commands_used_elsewhere(context.home, &leaving)? {
            let note = "the slash commands stay: ralph is installed elsewhere too";
            if !plan.notes.iter().any(|known| known == note) {
                plan.notes.push(note.to_string());
            }
            continue;
        }
        plan.changes.extend(slash_commands::uninstall_commands(context, *scope, &mut plan.notes)?);
    }
    let layers = settings_layers::read_layers(context.env, context.host, context.project);
    let taken: Vec<_> = scopes.iter().map(|scope| scope.layer()).collect();
    let rest = layers.iter().filter(|layer| !taken.contains(&layer.kind) && has_ralph_hook(layer));
    let rest: Vec<_> = rest.collect();
    plan.changes.extend(plan_policy_removal(context, (keep, &rest), &mut plan.notes)?);
    plan.notes.extend(rest.iter().map(|layer| install_notes::still_installed_note(layer)));
    Ok(plan)
}

fn has_ralph_hook(layer: &SettingsLayer) -> bool {
    match &layer.state {
        SettingsLayerState::Missing | SettingsLayerState::Broken(_) => false,
        SettingsLayerState::Read(settings) => settings
            .hooks
            .iter()
            .any(|hook| program_path::is_ralph_hook(&hook.command, hook.args.as_deref())),
    }
}

/// Removes a proposed policy, unless it was edited since or is still in use.
fn plan_policy_removal(
    context: &InstallContext<'_>,
    (keep, rest): (KeepPolicy, &[&SettingsLayer]),
    notes: &mut Vec<String>,
) -> Result<Option<InstallChange>, InstallError> {
    let path = context.project.join(config::POLICY_FILE_NAMES[0]);
    let Some(record) = install_record::load_record(context.home, &path)? else { return Ok(None) };
    if keep == KeepPolicy::No && !rest.is_empty() {
        notes.push(format!("`{}` stays: it is still in use", config::POLICY_FILE_NAMES[0]));
        return Ok(None);
    }
    let now = file_change::read_current(&path)?;
    let then = match (keep, record.file_state(now.as_deref())) {
        (KeepPolicy::No, RecordedFileState::Unchanged) if record.before.is_some() => {
            // Without the backup, the file stays as it is.
            install_record::original_bytes(context.home, &path, &record).or_else(|| now.clone())
        }
        (KeepPolicy::No, RecordedFileState::Unchanged) => None,
        (KeepPolicy::No, RecordedFileState::Edited) => {
            notes.push(format!("`{}` stays: it was edited since", config::POLICY_FILE_NAMES[0]));
            now.clone()
        }
        (KeepPolicy::Yes, _) | (_, RecordedFileState::AsBefore) => now.clone(),
    };
    let memory = RecordUpdate::Forget { made_directories: 0 };
    Ok(Some(InstallChange { path, current_content: now, new_content: then, memory }))
}
