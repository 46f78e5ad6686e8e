//! What the handlers share.

use crate::access::{AccessKeys, SecretText};
use crate::allowed_hosts::AllowedHosts;
use crate::change_totals::KnownChanges;
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
/// Actions that are carried out at the same time. They have slots of their own, because one can wait for a word at the terminal.
const MAX_ACTIONS: usize = 4;
/// How long a page or an action waits for its turn.
const SLOT_WAIT: Duration = Duration::from_secs(20);
/// Pages, actions, and reports to the terminal.
pub(crate) const MAX_THREADS: usize = MAX_RENDERS + MAX_ACTIONS + 4;

pub(crate) struct ServerState {
    pub(crate) access: AccessKeys,
    pub(crate) hosts: AllowedHosts,
    pub(crate) port: u16,
    /// The address for a browser, without a token.
    pub(crate) url: String,
    pub(crate) env: Env,
    pub(crate) home: RalphHome,
    pub(crate) commands: Box<dyn RunCommands>,
    pub(crate) live: LiveHub,
    pub(crate) changes: KnownChanges,
    pub(crate) slots: WorkSlots,
}

/// Limits how much happens at the same time.
#[derive(Debug)]
pub(crate) struct WorkSlots {
    renders: Arc<Semaphore>,
    actions: Arc<Semaphore>,
}

impl Default for WorkSlots {
    fn default() -> Self {
        let slots = |most| Arc::new(Semaphore::new(most));
        Self { renders: slots(MAX_RENDERS), actions: slots(MAX_ACTIONS) }
    }
}

impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerState").field("port", &self.port).finish_non_exhaustive()
    }
}

impl ServerState {
    /// The address that exchanges this token for a session.
    pub(crate) fn link(&self, token: &SecretText) -> String {
        format!("{}enter?token={}", self.url, token.as_str())
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

/// Reads files for a page in a thread of its own, a few at a time.
pub(crate) async fn run_blocking<T: Send + 'static>(
    state: &Arc<ServerState>,
    work: impl FnOnce(&ServerState) -> T + Send + 'static,
) -> Result<T, RefusedRequest> {
    run_in_slot(state, &state.slots.renders, work).await
}

/// Carries out an action of a person in a thread of its own, a few at a time.
pub(crate) async fn run_action<T: Send + 'static>(
    state: &Arc<ServerState>,
    work: impl FnOnce(&ServerState) -> T + Send + 'static,
) -> Result<T, RefusedRequest> {
    run_in_slot(state, &state.slots.actions, work).await
}

async fn run_in_slot<T: Send + 'static>(
    state: &Arc<ServerState>,
    slots: &Arc<Semaphore>,
    work: impl FnOnce(&ServerState) -> T + Send + 'static,
) -> Result<T, RefusedRequest> {
    let waiting = tokio::time::timeout(SLOT_WAIT, Arc::clone(slots).acquire_owned());
    let Ok(Ok(slot)) = waiting.await else { return Err(RefusedRequest::Busy) };
    let state = Arc::clone(state);
    let done = tokio::task::spawn_blocking(move || {
        let result = work(&state);
        drop(slot);
        result
    });
    done.await.map_err(|_| RefusedRequest::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_actions::EntryReport;
    use ralph_core::id::RunId;
    use ralph_deck::person_action::PersonAction;
    use std::net::SocketAddr;
    use std::sync::mpsc;

    struct NoCommands;

    impl RunCommands for NoCommands {
        fn carry_out(&self, _: &RunId, _: &PersonAction) -> Result<String, String> {
            Err(String::new())
        }

        fn test_notification(&self) -> Result<String, String> {
            Err(String::new())
        }

        fn report_entry(&self, _: &EntryReport) {}
    }

    /// Actions wait for a word at the terminal, for minutes.
    #[test]
    fn pages_are_made_while_every_slot_for_actions_is_taken() {
        let home = RalphHome::new(std::path::PathBuf::from("/nonexistent"));
        let state = Arc::new(ServerState {
            access: AccessKeys::generate().unwrap().0,
            hosts: AllowedHosts::of(SocketAddr::from(([127, 0, 0, 1], 1))),
            port: 1,
            url: String::new(),
            env: Env::from_pairs(Vec::<(String, String)>::new(), None, Vec::new()),
            live: LiveHub::new(&home),
            home,
            commands: Box::new(NoCommands),
            changes: KnownChanges::default(),
            slots: WorkSlots::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(MAX_THREADS)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (mut typed, mut waiting) = (Vec::new(), Vec::new());
            for _ in 0..MAX_ACTIONS {
                let (sender, receiver) = mpsc::channel::<()>();
                let state = Arc::clone(&state);
                waiting.push(tokio::spawn(async move {
                    run_action(&state, move |_| receiver.recv().ok()).await
                }));
                typed.push(sender);
            }
            tokio::task::yield_now().await;
            assert_eq!(state.slots.actions.available_permits(), 0);
            assert_eq!(run_blocking(&state, |_| 7).await, Ok(7));
            drop(typed);
            for action in waiting {
                assert_eq!(action.await.unwrap(), Ok(None));
            }
        });
    }
}
