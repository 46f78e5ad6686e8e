//! The context of a search: ralph's home, the project and the redactor.

use ralph_core::redact::Redactor;
use ralph_home::host_env;
use ralph_home::learning_file;
use ralph_home::paths::RalphHome;
use ralph_host::HostProfile;
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

/// Built once per command and passed on.
#[derive(Debug)]
pub struct RecallContext {
    pub home: RalphHome,
    /// With symbolic links resolved, if it exists.
    pub project: PathBuf,
    host: &'static HostProfile,
    /// The client's configuration directory, which contains its memory of each project.
    client: Option<PathBuf>,
    redactor: Redactor,
}

impl RecallContext {
    pub fn new(env: &Env, home: RalphHome, project: &Path) -> Self {
        let host = host_env::calling_host(env);
        Self {
            home,
            project: fs::resolve(project).unwrap_or_else(|| project.to_path_buf()),
            host,
            client: host_env::host_config_dir(env, host),
            redactor: Redactor::new(env.secrets()),
        }
    }

    /// The project's path as records store it.
    pub fn project_name(&self) -> String {
        self.project.display().to_string()
    }

    /// The directory of the client's own memory of a project.
    pub(crate) fn client_memory(&self, project: &Path) -> Option<PathBuf> {
        Some(self.client.as_ref()?.join((self.host.files.project_memory)(project.to_str()?)))
    }

    /// Foreign text without hidden characters, control sequences and secrets.
    pub(crate) fn clean_and_redact(&self, foreign: &[u8]) -> String {
        learning_file::clean_and_redact(foreign, &self.redactor)
    }

    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}
