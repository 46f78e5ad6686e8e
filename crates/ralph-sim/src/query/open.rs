//! The open clients: the active one and those that stay idle meanwhile.

use super::background::{self, Woken};
use super::conversation::Conversation;
use super::host::Host;
use super::{PlayError, Source, begin, close, end, prompts};
use crate::id;
use crate::scenario::SessionStep;
use crate::timeline::Entry;
use ralph_sys::fs::FileError;
use ralph_sys::proc::stand_in::{self, StandIn};
use std::path::{Path, PathBuf};

pub(super) struct Open {
    chat: Conversation,
    /// The exit code of the active client if it exited now.
    exit: i32,
    silent: Vec<Silent>,
}

struct Silent {
    chat: Conversation,
    exit: i32,
    session: String,
    transcript: PathBuf,
    prompt: Option<String>,
    client: StandIn,
}

impl Open {
    pub(super) fn first(
        host: &mut Host<'_>,
        program: &Path,
        session: String,
    ) -> Result<Self, PlayError> {
        start(host, program)?;
        let chat = begin(host, session, Source::Startup, None)?;
        Ok(Self { chat, exit: 0, silent: Vec::new() })
    }

    pub(super) fn hear(&mut self, host: &mut Host<'_>, text: &str) -> Result<(), FileError> {
        let over = prompts::say(host, &mut self.chat, text)?;
        self.exit = end(host, over);
        while !host.is_over()
            && let Some(woken) = background::next(host, &mut self.chat)
        {
            if let Woken::Agent(notification) = woken {
                let over = prompts::notify(host, &mut self.chat, &notification);
                self.exit = end(host, over);
            }
        }
        Ok(())
    }

    /// Starts another client process, which replaces the active one or runs beside it.
    pub(super) fn start(
        &mut self,
        host: &mut Host<'_>,
        program: &Path,
        step: SessionStep,
    ) -> Result<(), PlayError> {
        let (session, source) = match step {
            SessionStep::Resume => (host.session.clone(), Source::Resume),
            SessionStep::Fork => (id::uuid(), Source::Fork),
            SessionStep::New => (id::uuid(), Source::Startup),
        };
        let aside = match step {
            SessionStep::Resume | SessionStep::Fork => {
                self.close(host);
                None
            }
            SessionStep::New => host.client.take(),
        };
        let (before, transcript) = (host.session.clone(), host.transcript_path.clone());
        let prompt = host.prompt.clone();
        start(host, program)?;
        // A fork copies the session that `host` still points to.
        let chat = begin(host, session, source, Some(&mut self.chat))?;
        let left = std::mem::replace(&mut self.chat, chat);
        if let Some(client) = aside {
            self.silent.push(Silent {
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

    fn close(&mut self, host: &mut Host<'_>) {
        close(host, &mut self.chat, "other");
        host.emit(&Entry::Exit { code: self.exit });
    }

    /// Ends all clients, the newest first. Returns the exit code of the oldest.
    pub(super) fn end(mut self, host: &mut Host<'_>) -> i32 {
        close(host, &mut self.chat, "other");
        host.end_all();
        host.emit(&Entry::Exit { code: self.exit });
        while let Some(silent) = self.silent.pop() {
            (host.session, host.transcript_path) = (silent.session, silent.transcript);
            (host.prompt, host.pid) = (silent.prompt, silent.client.pid());
            host.client = Some(silent.client);
            (self.chat, self.exit) = (silent.chat, silent.exit);
            self.close(host);
        }
        self.exit
    }
}

/// Starts the stand-in process, which a hook may kill instead of a real client.
fn start(host: &mut Host<'_>, program: &Path) -> Result<(), PlayError> {
    let client = stand_in::start(program).map_err(PlayError::StandIn)?;
    host.pid = client.pid();
    host.client = Some(client);
    Ok(())
}
