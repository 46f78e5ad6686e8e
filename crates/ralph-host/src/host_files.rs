//! Where a host keeps its files.

use alloc::string::String;

/// Paths are relative to the directory that the comment names, unless they are absolute.
#[derive(Debug)]
pub struct HostFiles {
    /// The configuration directory, below the home directory, if no variable names another.
    pub config_dir: &'static str,
    /// A person's settings, below the configuration directory.
    pub user_settings: &'static str,
    /// The host's directory in a project.
    pub project_dir: &'static str,
    /// Settings that a project shares, below the project.
    pub project_settings: &'static str,
    /// A person's settings for one project, below the project.
    pub local_settings: &'static str,
    /// Settings of an administrator, which take precedence over all others.
    pub managed_settings: &'static str,
    /// A directory with more settings of an administrator.
    pub managed_settings_dir: &'static str,
    /// The host's own state, below the home directory or the configuration directory.
    pub state: &'static str,
    /// Slash commands, below the configuration directory or the host's directory in a project.
    pub commands: &'static str,
    /// The host's own memory of a project with this path, below the configuration directory.
    pub project_memory: fn(&str) -> String,
    /// The directory with a directory of transcripts for each project, below the configuration directory.
    pub transcripts: &'static str,
    /// The name of a session's transcript in the directory of its project.
    pub transcript_name: fn(&str) -> String,
    /// The directory with the transcripts of a session's subagents, below the path of the session's own transcript
    /// without its extension.
    pub subagent_transcripts: &'static str,
    /// All files and directories below the configuration directory that determine whether the host calls ralph.
    pub guarded_config: &'static [&'static str],
}
