//! What the handlers share.

use crate::access::AccessKeys;
use crate::allowed_hosts::AllowedHosts;

use crate::live_hub::LiveHub;
use crate::refusal::RefusedRequest;
use crate::run_actions::RunCommands;
use ralph_home::paths::RalphHome;
use ralph_sys::env::Env;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Pages that are made at the same time. More wait.
const MAX_RENDERS: usize = 4;
/// How long a page waits for its turn.
const RENDER_WAIT: Duration = Duration::from_secs(20);

pub(crate) struct ServerState {
    pub(crate) access: AccessKeys,
    pub(crate) hosts: AllowedHosts,
    pub(crate) port: u16,
    pub(crate) env: Env,
    pub(crate) home: RalphHome,
    pub(crate) commands: Box<dyn RunCommands>,
    pub(crate) live: LiveHub,
    pub(crate) renders: Arc<Semaphore>,
}

impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerState").field("port", &self.port).finish_non_exhaustive()
    }
}

impl ServerState {
    pub(crate) fn new_render_slots() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(MAX_RENDERS))
    }

    /// Browsers share cookies between all ports of a host, so two servers need two names.
    pub(crate) fn cookie_name(&self) -> String {
        format!("ralph-{}", self.port)
    }

    /// The cookie with the time of the last visit.
    pub(crate) fn visit_cookie_name(&self) -> String {
        format!("ralph_seen-{}", self.port)
    }
}

/// Does work with files in a thread of its own, a few at a time.
pub(crate) async fn run_blocking<T: Send + 'static>(
    state: &Arc<ServerState>,
    work: impl FnOnce(&ServerState) -> T + Send + 'static,
) -> Result<T, RefusedRequest> {
    let waiting = tokio::time::timeout(RENDER_WAIT, Arc::clone(&state.renders).acquire_owned());
    let Ok(Ok(slot)) = waiting.await else { return Err(RefusedRequest::Busy) };
    let state = Arc::clone(state);
    let done = tokio::task::spawn_blocking(move || {
        let result = work(&state);
        drop(slot);
        result
    });
    done.await.map_err(|_| RefusedRequest::Failed)
}
