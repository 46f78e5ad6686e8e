//! Serves the model of the agent, if needed, and counts its requests.

use super::agent_program;
use crate::fake_client::{self, ScriptPositionError};
use crate::scenario::Scenario;
use crate::scratch::ScratchProject;
use crate::script::ModelScript;
use crate::server::{
    self, ModelEvent, ModelServer, ModelServerError, ModelServerOptions, ScriptPace,
};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct RequestCounter {
    source: RequestSource,
    /// Number of requests that were already reported.
    reported: u64,
}

enum RequestSource {
    /// The model server for the real client.
    Server { server: ModelServer, asked: Arc<AtomicU64> },
    /// The position file of the fake client, which needs no server and counts its own requests.
    Position(PathBuf),
}

impl RequestCounter {
    pub(super) fn start(
        scenario: &Scenario,
        stage: &ScratchProject,
        client: Option<&Path>,
    ) -> Result<Self, ModelServerError> {
        if client.is_none() {
            let source = RequestSource::Position(agent_program::position_path(stage));
            return Ok(Self { source, reported: 0 });
        }
        let asked = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&asked);
        let options = ModelServerOptions {
            port: 0,
            project: stage.project.clone(),
            pace: ScriptPace::Driven,
            observer: Box::new(move |happened| {
                let is_asked = matches!(happened, ModelEvent::Requested(_));
                counter.fetch_add(u64::from(is_asked), Ordering::SeqCst);
            }),
        };
        let server = server::serve(ModelScript::new(scenario), options)?;
        let source = RequestSource::Server { server, asked };
        Ok(Self { source, reported: 0 })
    }

    pub(super) fn port(&self) -> Option<u16> {
        match &self.source {
            RequestSource::Server { server, .. } => Some(server.address().port()),
            RequestSource::Position(_) => None,
        }
    }

    /// The numbers of the requests since the last call.
    pub(super) fn new_requests(&mut self) -> Result<RangeInclusive<u64>, ScriptPositionError> {
        let asked = match &self.source {
            RequestSource::Server { asked, .. } => asked.load(Ordering::SeqCst),
            RequestSource::Position(path) => fake_client::request_count(path)?,
        };
        let first = self.reported + 1;
        self.reported = asked.max(self.reported);
        Ok(first..=self.reported)
    }
}
