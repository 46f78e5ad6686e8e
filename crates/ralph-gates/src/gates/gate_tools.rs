//! Finds the programs that a gate runs, so that a result is not used for another version of a tool, and a replaced tool
//! is detected.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::record::GateTool;

use ralph_sys::fs::{self, FileKind};

/// Programs up to this size are identified by content, larger ones by their metadata.
const MAX_HASHED_BYTES: usize = 4 * 1024 * 1024;

/// Launchers, which only find and start another program, and the directories they find it in.
const LAUNCHERS: [(&[&str], &[&str]); 8] = [
    (&["npx"], &["node_modules/.bin"]),
    (&["bunx"], &["node_modules/.bin"]),
    (&["pnpm", "exec"], &["node_modules/.bin"]),
    (&["yarn", "exec"], &["node_modules/.bin"]),
    (&["yarn", "run"], &["node_modules/.bin"]),
    (&["yarn"], &["node_modules/.bin"]),
    (&["uv", "run"], &[".venv/bin"]),
    (&["poetry", "run"], &[".venv/bin"]),
];

/// Files that package managers write whenever they change installed packages.
const INSTALL_MARKERS: [&str; 4] = [
    "node_modules/.package-lock.json",
    "node_modules/.modules.yaml",
    "node_modules/.yarn-state.yml",
    ".venv/pyvenv.cfg",
];

/// Strings that identify the tools of a gate, for the cache key.
pub fn tool_marks(gate: &Gate, project: &Path, path: &OsStr) -> Vec<OsString> {
    let directory = project.join(&gate.cwd);
    let mut marks: Vec<OsString> = gate_programs(gate, &directory, path)
        .into_iter()
        .map(|program| {
            let mut mark = program.clone().into_os_string();
            mark.push("\0");
            mark.push(stat_mark(&program));
            mark
        })
        .collect();
    for installed in INSTALL_MARKERS {
        let file = directory.join(installed);
        if fs::exists(&file) {
            marks.push(stat_mark(&file).into());
        }
    }
    marks
}

/// The tools of a gate, as recorded in a sealed run.
pub fn sealed_tools(gate: &Gate, project: &Path, path: &OsStr) -> Vec<GateTool> {
    gate_programs(gate, &project.join(&gate.cwd), path)
        .into_iter()
        .map(|program| GateTool {
            gate: gate.name.clone(),
            path: program.to_string_lossy().into_owned(),
            content: content_mark(&program),
        })
        .collect()
}

/// The file that would be run, by the rules of `execvp`. `path` is the value of `PATH`.
pub fn find_program(program: &OsStr, directory: &Path, path: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        let file = directory.join(program);
        return is_executable(&file).then_some(file);
    }
    std::env::split_paths(path)
        .map(|entry| directory.join(entry).join(program))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    fs::stat(file).is_some_and(|stat| stat.kind == FileKind::File && stat.mode & 0o111 != 0)
}

fn gate_programs(gate: &Gate, directory: &Path, path: &OsStr) -> Vec<PathBuf> {
    let words: Vec<&str> = match &gate.command {
        GateInvocation::Argv(words) => words.iter().map(String::as_str).collect(),
        // Only a shell can parse the line. Its first word is the program that a stub would replace.
        GateInvocation::Shell(line) => line.split_whitespace().collect(),
    };
    let Some(first) = words.first() else { return Vec::new() };
    let mut found: Vec<PathBuf> =
        find_program(OsStr::new(first), directory, path).into_iter().collect();
    let started = LAUNCHERS.iter().find_map(|(starter, places)| {
        let rest = words.strip_prefix(*starter)?;
        let name = rest.iter().find(|word| !word.starts_with('-'))?;
        places.iter().map(|place| directory.join(place).join(name)).find(|file| is_executable(file))
    });
    found.extend(started.and_then(|file| fs::resolve(&file)));
    found
}

fn stat_mark(file: &Path) -> String {
    fs::stat(file).map_or_else(String::new, |stat| {
        format!("{} {} {} {:o}", stat.len, stat.modified_ns, stat.inode, stat.mode)
    })
}

fn content_mark(file: &Path) -> String {
    match fs::read(file, MAX_HASHED_BYTES) {
        Ok(bytes) => blake3::hash(&bytes).to_hex().to_string(),
        Err(_) => stat_mark(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::testing::sample_gate;
    use ralph_sys::fs::Durability;
    use ralph_sys::proc;

    fn write_program(path: &Path, text: &str) {
        fs::create_private_dir(path.parent().unwrap()).unwrap();
        fs::replace(path, text.as_bytes(), Durability::Cached).unwrap();
        proc::testing::run_successfully(
            Path::new("/"),
            &[OsStr::new("chmod"), OsStr::new("755"), path.as_os_str()],
        );
    }

    #[test]
    fn a_stub_that_comes_first_on_the_path_is_another_tool() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write_program(&root.join("usr/tool"), "#!/bin/sh\n");
        let path = OsString::from(format!("{0}/stubs:{0}/usr", root.display()));
        let check = sample_gate("check", &["tool", "--all"]);
        let before = (tool_marks(&check, root, &path), sealed_tools(&check, root, &path));
        assert_eq!(before.1[0].path, root.join("usr/tool").to_string_lossy());

        write_program(&root.join("stubs/tool"), "#!/bin/sh\nexit 0\n");
        assert_ne!(tool_marks(&check, root, &path), before.0);
        assert_ne!(sealed_tools(&check, root, &path), before.1);
    }

    #[test]
    fn a_launcher_is_identified_by_the_program_it_starts() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write_program(&root.join("bin/npx"), "#!/bin/sh\n");
        write_program(&root.join("node_modules/.bin/tsc"), "one");
        let path = OsString::from(format!("{}/bin", root.display()));
        let types = sample_gate("types", &["npx", "--no-install", "tsc", "--noEmit"]);
        let before = sealed_tools(&types, root, &path);
        assert_eq!(before.len(), 2);
        write_program(&root.join("node_modules/.bin/tsc"), "two");
        assert_ne!(sealed_tools(&types, root, &path), before);
    }

    #[test]
    fn a_missing_tool_is_not_found() {
        let nowhere = OsStr::new("/nowhere");
        assert_eq!(find_program(OsStr::new("tool"), Path::new("/"), nowhere), None);
        assert_eq!(
            sealed_tools(&sample_gate("check", &["tool"]), Path::new("/"), nowhere),
            Vec::new()
        );
        assert_eq!(find_program(OsStr::new("./no"), Path::new("/"), nowhere), None);
    }
}
