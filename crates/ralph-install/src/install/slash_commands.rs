//! The slash commands of the plugin, written into the client's `commands` directory for installations without the
//! plugin.

use std::path::{Path, PathBuf};

use super::InstallError;
use super::file_change::{self, InstallChange, RecordUpdate};
use super::install_plan::{InstallContext, InstallScope};
use super::install_record::{self, InstallRecord, RecordedFileState};
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_sys::fs;

/// Path below the client's `commands` directory, and content. A subdirectory becomes the part of the name before the
/// colon.
pub const COMMAND_FILES: &[(&str, &str)] = &[
    ("ralph/approve.md", include_str!("../../../../plugin/commands/approve.md")),
    ("ralph/ask.md", include_str!("../../../../plugin/commands/ask.md")),
    ("ralph/cancel.md", include_str!("../../../../plugin/commands/cancel.md")),
    ("ralph/goal.md", include_str!("../../../../plugin/commands/goal.md")),
    ("ralph/limits.md", include_str!("../../../../plugin/commands/limits.md")),
    ("ralph/loop.md", include_str!("../../../../plugin/commands/loop.md")),
    ("ralph/off.md", include_str!("../../../../plugin/commands/off.md")),
    ("ralph/on.md", include_str!("../../../../plugin/commands/on.md")),
    ("ralph/orchestrator.md", include_str!("../../../../plugin/commands/orchestrator.md")),
    ("ralph/pause.md", include_str!("../../../../plugin/commands/pause.md")),
    ("ralph/plan.md", include_str!("../../../../plugin/commands/plan.md")),
    ("ralph/resume.md", include_str!("../../../../plugin/commands/resume.md")),
    ("ralph/status.md", include_str!("../../../../plugin/commands/status.md")),
    ("ralph/tell.md", include_str!("../../../../plugin/commands/tell.md")),
    ("ralph/verify.md", include_str!("../../../../plugin/commands/verify.md")),
    ("ralph/waive.md", include_str!("../../../../plugin/commands/waive.md")),
    ("ralph/why.md", include_str!("../../../../plugin/commands/why.md")),
    ("ralph-loop.md", include_str!("../../../../plugin/commands/ralph-loop.md")),
];

/// Where the client looks for commands. A person's own commands are shared by all their projects.
fn commands_directory(context: &InstallContext<'_>, scope: InstallScope) -> Option<PathBuf> {
    let host = context.host;
    let directory = match scope {
        InstallScope::User | InstallScope::Local => host_env::host_config_dir(context.env, host)?,
        InstallScope::Project => context.project.join(host.files.project_dir),
    };
    Some(directory.join(host.files.commands))
}

/// The changes that install every command. A file that ralph did not write stays, with a note.
pub(super) fn install_commands(
    context: &InstallContext<'_>,
    scope: InstallScope,
    notes: &mut Vec<String>,
) -> Result<Vec<InstallChange>, InstallError> {
    let directory = commands_directory(context, scope).ok_or(InstallError::NoHome)?;
    let mut changes = Vec::new();
    for (name, text) in COMMAND_FILES {
        let path = directory.join(name);
        let now = file_change::read_current(&path)?;
        if now.as_deref() == Some(text.as_bytes()) {
            continue;
        }
        let known = install_record::load_record(context.home, &path)?;
        let is_ours = known
            .as_ref()
            .is_some_and(|known| known.file_state(now.as_deref()) == RecordedFileState::Unchanged);
        if now.is_some() && !is_ours {
            notes.push(format!("`{}` was not written by ralph and stays", path.display()));
            continue;
        }
        let made_before = known.map_or(0, |known| known.made_directories);
        let mut record = Box::new(InstallRecord::new(&path, None, text.as_bytes()));
        record.made_directories = file_change::missing_directories(&path).max(made_before);
        let memory = RecordUpdate::Keep { record, before: None };
        let then = Some(text.as_bytes().to_vec());
        changes.push(
            InstallChange { path, current_content: now, new_content: then, memory }.checked()?,
        );
    }
    Ok(changes)
}

/// The changes that remove the commands. Files that were edited since stay, with a note.
pub(super) fn uninstall_commands(
    context: &InstallContext<'_>,
    scope: InstallScope,
    notes: &mut Vec<String>,
) -> Result<Vec<InstallChange>, InstallError> {
    let Some(directory) = commands_directory(context, scope) else { return Ok(Vec::new()) };
    let mut changes = Vec::new();
    for (name, _) in COMMAND_FILES {
        let path = directory.join(name);
        let Some(record) = install_record::load_record(context.home, &path)? else { continue };
        let now = file_change::read_current(&path)?;
        let then = match record.file_state(now.as_deref()) {
            RecordedFileState::Unchanged => None,
            RecordedFileState::AsBefore => now.clone(),
            RecordedFileState::Edited => {
                notes.push(format!("`{}` stays: it was edited since", path.display()));
                now.clone()
            }
        };
        let memory = RecordUpdate::Forget { made_directories: record.made_directories };
        changes.push(
            InstallChange { path, current_content: now, new_content: then, memory }.checked()?,
        );
    }
    Ok(changes)
}

/// Whether a path is one of the command files.
pub fn is_command_file(path: &Path) -> bool {
    COMMAND_FILES.iter().any(|(name, _)| path.ends_with(Path::new("commands").join(name)))
}

/// Whether settings outside `leaving` still use this person's commands.
pub(super) fn are_commands_used_elsewhere(
    home: &RalphHome,
    leaving: &[PathBuf],
) -> Result<bool, InstallError> {
    let recorded = install_record::recorded_settings(home)?;
    Ok(recorded.iter().any(|path| !leaving.contains(path) && fs::exists(path)))
}
