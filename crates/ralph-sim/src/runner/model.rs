//! Serves the model of the agent, if needed, and counts its requests.

use super::agent;
use crate::scenario::Scenario;
use crate::script::Script;
use crate::server::{self, Happened, Options, Pace, Server, ServerError};
use crate::stage::Stage;
use ralph_sys::fs;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const LARGEST: usize = 1024 * 1024;

pub(super) struct Model {
    source: Source,
    /// Number of requests that were already reported.
    told: u64,
}

enum Source {
    /// The model server for the real client.
    Server { server: Server, asked: Arc<AtomicU64> },
    /// The position file of the fake client, which needs no server and counts its own requests.
    Position(PathBuf),
}

impl Model {
    pub(super) fn serve(
        scenario: &Scenario,
        stage: &Stage,
        client: Option<&Path>,
    ) -> Result<Self, ServerError> {
        if client.is_none() {
            let source = Source::Position(agent::position(stage));
            return Ok(Self { source, told: 0 });
        }
        let asked = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&asked);
        let options = Options {
            port: 0,
            project: stage.project.clone(),
            pace: Pace::Driven,
            observer: Box::new(move |happened| {
                let is_asked = matches!(happened, Happened::Asked(_));
                counter.fetch_add(u64::from(is_asked), Ordering::SeqCst);
            }),
        };
        let server = server::serve(Script::new(scenario), options)?;
        let source = Source::Server { server, asked };
        Ok(Self { source, told: 0 })
    }

    pub(super) fn port(&self) -> Option<u16> {
        match &self.source {
            Source::Server { server, .. } => Some(server.address().port()),
            Source::Position(_) => None,
        }
    }

    /// The numbers of the requests since the last call.
    pub(super) fn news(&mut self) -> std::ops::RangeInclusive<u64> {
        let asked = match &self.source {
            Source::Server { asked, .. } => asked.load(Ordering::SeqCst),
            Source::Position(path) => {
                let bytes = fs::read_opt(path, LARGEST).ok().flatten().unwrap_or_default();
                let at = serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
                // The file is replaced atomically, but does not exist before the first request.
                at["requests"].as_u64().unwrap_or(self.told)
            }
        };
        let first = self.told + 1;
        self.told = asked.max(self.told);
        first..=self.told
    }
}
