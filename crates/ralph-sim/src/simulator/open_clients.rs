//! The open clients: the active one and those that stay idle meanwhile.

use super::background_work::{self, BackgroundCompletion};
use super::client_process::SimulatedClient;
use super::conversation::SimulatedConversation;
use super::{
    SimulatedSessionSource, SimulatorError, begin_session, close_session, emit_ending, prompts,
};
use crate::client_ids;
use crate::scenario::SessionStep;
use crate::timeline::TimelineEntry;
use ralph_sys::fs::FileError;
use ralph_sys::proc::decoy::{self, DecoyProcess};
use std::path::{Path, PathBuf};

pub(super) struct OpenClients {
    chat: SimulatedConversation,
    /// The exit code of the active client if it exited now.
    exit: i32,
    idle: Vec<IdleClient>,
}

struct IdleClient {
    chat: SimulatedConversation,
    exit: i32,
    session: String,
    transcript: PathBuf,
    prompt: Option<String>,
    client: DecoyProcess,
}

impl OpenClients {
    pub(super) fn start_first(
        host: &mut SimulatedClient<'_>,
        program: &Path,
        session: String,
    ) -> Result<Self, SimulatorError> {
        start_stand_in(host, program)?;
        let chat = begin_session(host, session, SimulatedSessionSource::Startup, None)?;
        Ok(Self { chat, exit: 0, idle: Vec::new() })
    }

    pub(super) fn submit_prompt(
        &mut self,
        host: &mut SimulatedClient<'_>,
        text: &str,
    ) -> Result<(), FileError> {
        let over = prompts::submit_prompt(host, &mut self.chat, text)?;
        self.exit = emit_ending(host, over);
        while !host.should_stop()
            && let Some(woken) = background_work::finish_oldest(host, &mut self.chat)
        {
            if let BackgroundCompletion::NotifyAgent(notification) = woken {
                let over = prompts::wake_agent(host, &mut self.chat, &notification);
                self.exit = emit_ending(host, over);
            }
        }
        Ok(())
    }

    /// Starts another client process, which replaces the active one or runs beside it.
    pub(super) fn start_session(
        &mut self,
        host: &mut SimulatedClient<'_>,
        program: &Path,
        step: SessionStep,
    ) -> Result<(), SimulatorError> {
        let (session, source) = match step {
            SessionStep::Resume => (host.session.clone(), SimulatedSessionSource::Resume),
            SessionStep::Fork => (client_ids::new_uuid(), SimulatedSessionSource::Fork),
            SessionStep::New => (client_ids::new_uuid(), SimulatedSessionSource::Startup),
        };
        let aside = match step {
            SessionStep::Resume | SessionStep::Fork => {
                self.close_active(host);
                None
            }
            SessionStep::New => host.client.take(),
        };
        let (before, transcript) = (host.session.clone(), host.transcript_path.clone());
        let prompt = host.prompt_id.clone();
        start_stand_in(host, program)?;
        // A fork copies the session that `host` still points to.
        let chat = begin_session(host, session, source, Some(&mut self.chat))?;
        let left = std::mem::replace(&mut self.chat, chat);
        if let Some(client) = aside {
            self.idle.push(IdleClient {
                chat: left,
                exit: self.exit,
                session: before,
                transcript,
                prompt,
                client,
            });
        }
        self.exit = 0;
        Ok(())
    }

    fn close_active(&mut self, host: &mut SimulatedClient<'_>) {
        close_session(host, &mut self.chat, "other");
        host.emit(&TimelineEntry::Exit { code: self.exit });
    }

    /// Ends all clients, the newest first. Returns the exit code of the oldest.
    pub(super) fn close_all(mut self, host: &mut SimulatedClient<'_>) -> i32 {
        close_session(host, &mut self.chat, "other");
        host.end_children();
        host.emit(&TimelineEntry::Exit { code: self.exit });
        while let Some(silent) = self.idle.pop() {
            (host.session, host.transcript_path) = (silent.session, silent.transcript);
            (host.prompt_id, host.pid) = (silent.prompt, silent.client.pid());
            host.client = Some(silent.client);
            (self.chat, self.exit) = (silent.chat, silent.exit);
            self.close_active(host);
        }
        self.exit
    }
}

/// Starts the stand-in process, which a hook may kill instead of a real client.
fn start_stand_in(host: &mut SimulatedClient<'_>, program: &Path) -> Result<(), SimulatorError> {
    let client = decoy::start_decoy(program).map_err(SimulatorError::StandIn)?;
    host.pid = client.pid();
    host.client = Some(client);
    Ok(())
}
