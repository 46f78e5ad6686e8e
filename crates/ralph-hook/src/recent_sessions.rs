//! The sessions that exist, and those of a project that were active lately, by the transcripts that the host writes. A
//! session without a run leaves no trace in ralph's own files.

use ralph_core::id::SessionId;
use ralph_home::host_env;
use ralph_host::HostProfile;
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::Path;

const MAX_PROJECTS: usize = 10_000;
const MAX_TRANSCRIPTS: usize = 10_000;
/// The host writes a transcript with every message, so an open session that a person uses is not silent for longer.
pub const RECENT_MS: u64 = 30 * 60 * 1000;

/// A session with the time of its last message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentSession {
    pub session: SessionId,
    pub active_ms: u64,
}

/// Whether the host has a transcript of this session, for any project; `None` if that cannot be known.
pub fn has_transcript(env: &Env, host: &HostProfile, session: &SessionId) -> Option<bool> {
    let directory = host_env::host_config_dir(env, host)?.join(host.files.transcripts);
    // Without any transcript, the host may keep them elsewhere.
    let projects = fs::list(&directory, MAX_PROJECTS).ok().filter(|names| !names.is_empty())?;
    let name = (host.files.transcript_name)(session.as_str());
    Some(projects.iter().any(|project| fs::exists(&directory.join(project).join(&name))))
}

/// The sessions that the host started in `project` and that were active within [`RECENT_MS`], latest first.
pub fn recent_sessions(
    env: &Env,
    host: &HostProfile,
    project: &Path,
    now_ms: u64,
) -> Vec<RecentSession> {
    let Some(config) = host_env::host_config_dir(env, host) else { return Vec::new() };
    let Some(project) = project.to_str() else { return Vec::new() };
    // The memory of a project lies beside its transcripts.
    let memory = config.join((host.files.project_memory)(project));
    let Some(directory) = memory.parent() else { return Vec::new() };
    let names = fs::list_if_exists(directory, MAX_TRANSCRIPTS).unwrap_or_default();
    let mut found: Vec<_> = names
        .iter()
        .filter_map(|name| {
            let session = SessionId::parse(name.to_str()?.strip_suffix(".jsonl")?)?;
            let active_ms = fs::stat(&directory.join(name))?.modified_ns / 1_000_000;
            let is_recent = now_ms.saturating_sub(active_ms) <= RECENT_MS;
            is_recent.then_some(RecentSession { session, active_ms })
        })
        .collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.active_ms));
    found
}
