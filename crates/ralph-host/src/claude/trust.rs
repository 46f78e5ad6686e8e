//! Claude Code's record of the projects that a person trusts.

use serde_json::Value;

/// Whether a person has accepted the client's trust dialog for this project, according to the client's state file.
pub(super) fn is_trusted_project(state: &[u8], project: &str) -> bool {
    let state: Option<Value> = serde_json::from_slice(state).ok();
    let accepted = state.as_ref().and_then(|state| {
        state.get("projects")?.get(project)?.get("hasTrustDialogAccepted")?.as_bool()
    });
    accepted == Some(true)
}
