//! What can be known about the cost of a session before its first stop: its model, and whether the client's status line
//! reports the session's cost to ralph.

use crate::transcript_reader::resolve_transcript;
use ralph_core::id::SessionId;
use ralph_core::model_price::ModelPrice;
use ralph_home::host_env;
use ralph_home::world::World;
use ralph_host::HostProfile;
use ralph_host::transcript_usage::TranscriptUsage;
use ralph_policy::price_list;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::tail::{self, TailWindow};
use serde_json::{Map, Value};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const MAX_PROJECTS: usize = 20_000;
const MAX_SETTINGS_BYTES: usize = 4 * 1024 * 1024;
/// How far back the model of the last call is looked for.
const MAX_MODEL_SEARCH: u64 = 4 * 1024 * 1024;

/// The model that the session uses; `None` for a session without an answer, unless the environment names one.
pub fn session_model(world: &World, session: &SessionId) -> Option<String> {
    last_model(world, session).or_else(|| configured_model(&world.env, world.host))
}

/// The model that the environment names. A name without a version, such as `opus`, leaves the choice to the client.
pub fn configured_model(env: &Env, host: &HostProfile) -> Option<String> {
    let named = host_env::host_model(env, host)?;
    named.contains(|each: char| each.is_ascii_digit()).then_some(named)
}

fn last_model(world: &World, session: &SessionId) -> Option<String> {
    let path = find_transcript(world, session)?;
    let window = TailWindow { end: fs::stat(&path)?.len, step: 128 * 1024, most: MAX_MODEL_SEARCH };
    let mut model = None;
    let visited = tail::visit_lines_backward(&path, &window, |line| {
        match (world.host.parse_usage_line)(line) {
            Some(TranscriptUsage::Call(call)) => {
                model = Some(call.usage.model);
                ControlFlow::Break(())
            }
            Some(TranscriptUsage::Compaction { .. }) | None => ControlFlow::Continue(()),
        }
    });
    // An unreadable part adds nothing.
    drop(visited);
    model
}

/// The transcript of a session, whichever project the host filed it under.
fn find_transcript(world: &World, session: &SessionId) -> Option<PathBuf> {
    let directory = host_env::host_config_dir(&world.env, world.host)?;
    let directory = directory.join(world.host.files.transcripts);
    let projects = fs::list_if_exists(&directory, MAX_PROJECTS).unwrap_or_default();
    let name = (world.host.files.transcript_name)(session.as_str());
    let paths = projects.iter().map(|project| directory.join(project).join(&name));
    let path = paths.into_iter().find(|path| fs::exists(path))?;
    resolve_transcript(world, path.to_str()?)
}

/// Whether a price or the client's status line tells what the model costs.
pub fn is_cost_known(
    env: &Env,
    host: &HostProfile,
    project: &Path,
    own: &[ModelPrice],
    model: &str,
) -> bool {
    price_list::price_table(own).find(model).is_some()
        || is_status_line_registered(env, host, project)
}

/// Whether the settings of the host make `ralph statusline` its status line.
pub fn is_status_line_registered(env: &Env, host: &HostProfile, project: &Path) -> bool {
    let files = &host.files;
    let config = host_env::host_config_dir(env, host);
    let own = config.map(|directory| directory.join(files.user_settings));
    let shared = [files.local_settings, files.project_settings].map(|name| project.join(name));
    let settings = shared.into_iter().chain(own);
    // The first file that names a status line decides.
    let command = settings.into_iter().find_map(|path| status_line_command(host, &path));
    command.is_some_and(|command| command.contains("ralph") && command.contains("statusline"))
}

fn status_line_command(host: &HostProfile, path: &Path) -> Option<String> {
    let bytes = fs::read_if_exists(path, MAX_SETTINGS_BYTES).ok()??;
    let settings: Map<String, Value> = serde_json::from_slice(&bytes).ok()?;
    let schema = &host.settings;
    (schema.status_line_command)(settings.get(schema.status_line)?)
}
