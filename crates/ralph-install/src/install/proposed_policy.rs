//! The policy that an installation proposes: a new one with the detected gates, or an existing one with a choice of the
//! sessions that its gates hold.

use std::path::{Path, PathBuf};

use super::InstallError;
use super::file_change::{InstallChange, RecordUpdate};
use super::install_plan::InstallContext;
use super::install_record::{self, InstallRecord, RecordedFileState};
use ralph_core::gate::Gate;
use ralph_core::policy::{GateEnvironment, SessionGates};
use ralph_core::sealed_file::SealedFile;
use ralph_home::paths::RalphHome;
use ralph_policy::config::{self, PolicyFile, ProjectConfig};
use ralph_policy::detect::{self, DetectedGates, ToolLookup};
use ralph_policy::policy_edit;
use ralph_policy::trust::{self, GateSearch};
use ralph_sys::env::Env;
use ralph_sys::fs;

/// A policy to create, or to add to.
#[derive(Clone, Debug)]
pub struct ProposedPolicy {
    pub path: PathBuf,
    pub text: String,
    /// The current content of the file, if it exists.
    pub(super) current: Option<String>,
    /// Each gate with its literal command and the path of its program.
    pub gates: Vec<(String, String, PathBuf)>,
    /// The files that its gates seal in a run.
    pub sealed: Vec<SealedFile>,
}

/// Whether a directory can be a project. The root and a home directory are none, whatever files they contain.
pub fn is_project_directory(env: &Env, directory: &Path) -> bool {
    let directory = fs::resolve(directory).unwrap_or_else(|| directory.to_path_buf());
    let home = env.home().and_then(|home| fs::resolve(&home));
    directory.parent().is_some() && home != Some(directory)
}

impl ProposedPolicy {
    /// An existing, approved policy with a choice of the sessions that its gates hold.
    pub(super) fn with_sessions(
        context: &InstallContext<'_>,
        config: &ProjectConfig,
        file: &PolicyFile,
        sessions: SessionGates,
    ) -> Self {
        let InstallContext { env, .. } = context;
        let programs = trust::find_programs(config, env).programs;
        let gate = |gate: &Gate| {
            let program = programs.iter().find(|program| program.gate == gate.name);
            let program = program.map(|it| it.found.as_ref().unwrap_or(&it.program).into());
            let command = trust::display_command(&gate.command);
            (gate.name.clone(), command, program.unwrap_or_default())
        };
        let environment = &config.policy.environment;
        let path = trust::recordable_path(env.search_path().as_deref()).map(Into::into);
        let search = GateSearch { env, environment, path };
        Self {
            path: file.path.clone(),
            text: policy_edit::add_sessions(&file.text, sessions),
            current: Some(file.text.to_string()),
            gates: config.policy.gates.iter().map(gate).collect(),
            sealed: trust::sealed_files(&config.project, &config.policy.gates, &search)
                .unwrap_or_default(),
        }
    }

    pub fn from_detected(project: &Path, env: &Env, detected: &DetectedGates) -> Self {
        let gates = detected.gates.iter().filter_map(|proposal| match &proposal.tool {
            ToolLookup::Found(path) => {
                let command = trust::display_command(&proposal.gate.command);
                Some((proposal.gate.name.clone(), command, path.clone()))
            }
            ToolLookup::Missing(_) => None,
        });
        let active = detected.gates.iter().filter(|gate| matches!(gate.tool, ToolLookup::Found(_)));
        let active: Vec<Gate> = active.map(|proposal| proposal.gate.clone()).collect();
        let resolved = fs::resolve(project).unwrap_or_else(|| project.to_path_buf());
        let path = trust::recordable_path(env.search_path().as_deref()).map(Into::into);
        let search = GateSearch { env, environment: &GateEnvironment::default(), path };
        Self {
            // An error is reported by the approval, which needs the same files.
            sealed: trust::sealed_files(&resolved, &active, &search).unwrap_or_default(),
            path: project.join(config::POLICY_FILE_NAMES[0]),
            text: detect::render_policy::render(detected),
            current: None,
            gates: gates.collect(),
        }
    }

    pub(super) fn to_change(&self, home: &RalphHome) -> Result<InstallChange, InstallError> {
        let bytes = self.text.clone().into_bytes();
        let current = self.current.clone().map(String::into_bytes);
        // `ralph uninstall` removes a file that an earlier installation created, and restores every other one.
        let is_ours = install_record::load_record(home, &self.path)?.is_some_and(|record| {
            let state = record.file_state(current.as_deref());
            record.before.is_none() && state == RecordedFileState::Unchanged
        });
        let before = current.clone().filter(|_| !is_ours);
        let record = Box::new(InstallRecord::new(&self.path, before.as_deref(), &bytes));
        let memory = RecordUpdate::Keep { record, before };
        InstallChange {
            path: self.path.clone(),
            current_content: current,
            new_content: Some(bytes),
            memory,
        }
        .checked()
    }
}

/// Records the person's approval of the proposed policy, after it was written. Fails if the file differs from the
/// proposal.
pub fn approve_proposed(
    context: &InstallContext<'_>,
    proposed: &ProposedPolicy,
) -> Result<(), InstallError> {
    let config = config::load(context.project, context.home)?;
    if config.file.as_ref().is_none_or(|file| *file.text != *proposed.text) {
        return Err(InstallError::Changed(proposed.path.clone()));
    }
    let subject = trust::policy_subject(context.home, &config, context.env)?;
    let search_path = trust::find_programs(&config, context.env);
    trust::approve(context.home, &subject, &search_path)?;
    Ok(())
}
