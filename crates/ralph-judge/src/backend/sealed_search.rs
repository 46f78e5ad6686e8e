//! Finds the program of a backend where a run seals it. The agent may control the `PATH` of a hook, so a program
//! found there could forge verdicts.

use crate::JudgeRequest;
use ralph_core::policy::GateEnvironment;
use ralph_gates::environment::gate_search_path;
use ralph_sys::env::Env;
use ralph_sys::proc::program_search;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The program, searched for as the seal does: in the policy's own `PATH`, then in the recorded one. The `PATH` of the
/// environment counts only if none was recorded.
pub(super) fn find_program(request: &JudgeRequest<'_>, program: &str) -> Option<PathBuf> {
    let paths = search_paths(request.place.environment, request.search_path, request.env);
    paths.iter().find_map(|path| find_absolute(program, path))
}

fn search_paths(variables: &GateEnvironment, recorded: Option<&OsStr>, env: &Env) -> Vec<OsString> {
    let recorded = recorded.map(OsStr::to_owned).or_else(|| env.search_path());
    gate_search_path(variables, None).into_iter().chain(recorded).collect()
}

/// Replaces the `PATH` of a program, because it may itself start others: a script names its interpreter.
pub(super) fn use_recorded_path(
    request: &JudgeRequest<'_>,
    variables: &mut Vec<(OsString, OsString)>,
) {
    if let Some(path) = request.search_path {
        variables.retain(|(name, _)| name != "PATH");
        variables.push(("PATH".into(), path.to_owned()));
    }
}

/// Relative directories of the `PATH` are left out, because the project may be one of them.
fn find_absolute(program: &str, path: &OsStr) -> Option<PathBuf> {
    let absolute = std::env::split_paths(path).filter(|entry| entry.is_absolute());
    let path = std::env::join_paths(absolute).ok()?;
    program_search::find_program(OsStr::new(program), Path::new("/"), &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_searched_for_where_it_is_sealed() {
        let env = Env::from_pairs([("PATH", "/agent")], None, Vec::new());
        for (own, recorded, expected) in [
            (None, None, &["/agent"][..]),
            (None, Some("/sealed"), &["/sealed"]),
            (Some("/own"), Some("/sealed"), &["/own", "/sealed"]),
        ] {
            let set = own.map(|path: &str| ("PATH".to_string(), path.to_string()));
            let set = set.into_iter().collect();
            let variables = GateEnvironment { set, ..GateEnvironment::default() };
            assert_eq!(search_paths(&variables, recorded.map(OsStr::new), &env), expected);
        }
        assert!(find_absolute("sh", OsStr::new("/bin")).is_some());
        assert_eq!(find_absolute("sh", OsStr::new("bin:../bin:")), None);
    }
}
