//! Reads the variables of hosts. [`HostVariables`] has their names.

use ralph_core::record::ProcessIdentity;
use ralph_host::{HOSTS, HostProfile, HostVariables};
use ralph_sys::env::{Env, RUNNER_VARIABLE};
use ralph_sys::fs;
use ralph_sys::process_identity;
use std::ffi::OsString;
use std::path::PathBuf;

/// The host whose agent's shell started this process, or the default one in a person's shell.
pub fn calling_host(env: &Env) -> &'static HostProfile {
    let is_caller = |host: &&HostProfile| env.get(host.variables.agent_shell).is_some();
    HOSTS.into_iter().find(is_caller).unwrap_or_else(ralph_host::default_host)
}

/// The session whose agent or hook started this process.
pub fn host_session(env: &Env) -> Option<String> {
    variable_of_any_host(env, |variables| variables.session)?.into_string().ok()
}

/// The id of the host's process that started this one.
pub fn host_process_id(env: &Env) -> Option<u32> {
    variable_of_any_host(env, |variables| variables.process)?.to_str()?.parse().ok()
}

pub fn host_process(env: &Env) -> Option<ProcessIdentity> {
    host_process_id(env).and_then(process_identity::identify_process)
}

/// The project that the host was started in.
pub fn host_project_dir(env: &Env) -> Option<PathBuf> {
    variable_of_any_host(env, |variables| variables.project_dir).map(PathBuf::from)
}

/// Whether an agent's shell started this process, rather than a person's.
pub fn is_agent_shell(env: &Env) -> bool {
    env.get(RUNNER_VARIABLE).is_some()
        || variable_of_any_host(env, |variables| variables.agent_shell).is_some()
}

/// Whether an agent's shell that uses the same ralph home started the process.
pub fn is_agent_process(env: &Env, pid: u32) -> bool {
    // Resolved, because one directory has many paths.
    let home = |env: &Env| env.ralph_home().map(|home| fs::resolve(&home).unwrap_or(home));
    let other = Env::of_process(pid);
    is_agent_shell(&other) && home(&other) == home(env)
}

/// The directory with the host's own settings and state.
pub fn host_config_dir(env: &Env, host: &HostProfile) -> Option<PathBuf> {
    let named = env.get(host.variables.config_dir).map(PathBuf::from);
    named.or_else(|| Some(env.home()?.join(host.files.config_dir)))
}

/// The task list that the host is configured to use instead of one per session.
pub fn host_task_list(env: &Env, host: &HostProfile) -> Option<String> {
    env.get(host.variables.task_list)?.into_string().ok()
}

/// The configured number of consecutive blocks that the host allows.
pub fn host_block_cap(env: &Env, host: &HostProfile) -> Option<String> {
    env.get(host.variables.block_cap)?.into_string().ok()
}

/// The model that new sessions of the host use.
pub fn host_model(env: &Env, host: &HostProfile) -> Option<String> {
    env.get(host.variables.model)?.into_string().ok()
}

fn variable_of_any_host(env: &Env, name: fn(&HostVariables) -> &'static str) -> Option<OsString> {
    HOSTS.iter().find_map(|host| env.get(name(&host.variables)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(variables: &[(&str, &str)]) -> Env {
        Env::from_pairs(variables.iter().copied(), None, Vec::new())
    }

    #[test]
    fn host_variables_are_read_inside_an_agent_and_absent_outside() {
        let host = ralph_host::default_host();
        let inside = env(&[
            ("HOME", "/home/u"),
            ("CLAUDECODE", "1"),
            ("CLAUDE_PID", "4021"),
            ("CLAUDE_CODE_SESSION_ID", "5999882c"),
            ("CLAUDE_PROJECT_DIR", "/repo"),
        ]);
        assert_eq!(host_process_id(&inside), Some(4021));
        assert_eq!(host_session(&inside).as_deref(), Some("5999882c"));
        assert_eq!(host_project_dir(&inside), Some(PathBuf::from("/repo")));
        assert_eq!(host_config_dir(&inside, host), Some(PathBuf::from("/home/u/.claude")));
        assert!(is_agent_shell(&inside));

        let outside = env(&[("CLAUDE_PID", "-1"), ("CLAUDECODE", "")]);
        assert_eq!(host_process_id(&outside), None);
        assert_eq!(host_session(&outside), None);
        assert_eq!(host_config_dir(&outside, host), None);
        assert!(!is_agent_shell(&outside));
        assert!(is_agent_shell(&env(&[("RALPH_DRIVEN", "run")])));
    }
}
