//! Finds the programs that a gate runs, so that a result is not used for another version of a tool, and a replaced tool
//! is detected.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ralph_core::gate::Gate;
use ralph_core::record::GateTool;

use super::result_key;
use super::simple_commands::{self, GateCommandLine, PACKAGE_RUNNERS};
use ralph_sys::fs::{self, RegularFile};
use ralph_sys::proc::program_search;

/// Programs up to this size are identified by content, larger ones by their metadata.
const MAX_HASHED_BYTES: u64 = 256 * 1024 * 1024;
const HASH_BLOCK_BYTES: usize = 1024 * 1024;
const MAX_PACKAGE_BYTES: usize = 4 * 1024 * 1024;
/// How many scripts of `package.json` can call each other.
const MAX_SCRIPT_DEPTH: usize = 3;
const MAX_PROGRAMS: usize = 64;
const PACKAGE_PROGRAMS: &str = "node_modules/.bin";
const PLACEHOLDER_TEXT: &str = "no test specified";

/// Launchers, which only find and start another program, and the directories they find it in. A directory may begin with
/// a variable of the gate; if that is set, the directories after it do not count.
const LAUNCHERS: [(&[&str], &[&str]); 8] = [
    (&["npx"], &["node_modules/.bin"]),
    (&["bunx"], &["node_modules/.bin"]),
    (&["pnpm", "exec"], &["node_modules/.bin"]),
    (&["yarn", "exec"], &["node_modules/.bin"]),
    (&["yarn", "run"], &["node_modules/.bin"]),
    (&["yarn"], &["node_modules/.bin"]),
    (&["uv", "run"], &["$UV_PROJECT_ENVIRONMENT/bin", ".venv/bin"]),
    (&["poetry", "run"], &["$VIRTUAL_ENV/bin", ".venv/bin"]),
];

/// Files that package managers write whenever they change installed packages.
const INSTALL_MARKERS: [&str; 4] = [
    "node_modules/.package-lock.json",
    "node_modules/.modules.yaml",
    "node_modules/.yarn-state.yml",
    ".venv/pyvenv.cfg",
];

/// The environment of a gate: names and values.
pub type EnvironmentPairs = [(OsString, OsString)];

/// A program that a gate runs, found on its `PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedProgram {
    /// The word of the command.
    pub word: String,
    pub path: PathBuf,
}

/// Strings that identify the tools of a gate, for the cache key.
pub fn tool_marks(gate: &Gate, project: &Path, variables: &EnvironmentPairs) -> Vec<OsString> {
    let directory = project.join(&gate.cwd);
    let mut marks: Vec<OsString> = gate_programs(gate, project, variables)
        .into_iter()
        .map(|program| {
            let mark = stat_mark(&program.path);
            let mut marked = program.path.into_os_string();
            marked.push("\0");
            marked.push(mark);
            marked
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
pub fn sealed_tools(gate: &Gate, project: &Path, variables: &EnvironmentPairs) -> Vec<GateTool> {
    gate_programs(gate, project, variables)
        .into_iter()
        .map(|program| GateTool {
            gate: gate.name.clone(),
            path: program.path.to_string_lossy().into_owned(),
            content: content_mark(&program.path),
        })
        .collect()
}

/// Whether a program still has the content that was sealed.
pub fn has_sealed_content(path: &Path, content: &str) -> bool {
    // Older versions sealed large programs by their metadata.
    content == content_mark(path) || content == stat_mark(path)
}

/// The programs that a gate runs in its complete environment.
pub fn gate_programs(
    gate: &Gate,
    project: &Path,
    variables: &EnvironmentPairs,
) -> Vec<ResolvedProgram> {
    programs_of_scripts(gate, project, variables, &|_| true)
}

/// The programs that a gate runs itself or by the scripts of a `package.json` that `is_followed` accepts. It gets their
/// names as sealed files have them: `package.json: scripts.test`
pub fn programs_of_scripts(
    gate: &Gate,
    project: &Path,
    variables: &EnvironmentPairs,
    is_followed: &dyn Fn(&str) -> bool,
) -> Vec<ResolvedProgram> {
    let directory = project.join(&gate.cwd);
    let mut search = ProgramLookup { project, variables, is_followed, found: Vec::new() };
    let path = result_key::path_variable(variables);
    for command in simple_commands::gate_commands(&gate.command) {
        search.add_command(&command, &directory, path, 0);
    }
    search.found
}

struct ProgramLookup<'a> {
    project: &'a Path,
    variables: &'a EnvironmentPairs,
    is_followed: &'a dyn Fn(&str) -> bool,
    found: Vec<ResolvedProgram>,
}

impl ProgramLookup<'_> {
    fn add_command(
        &mut self,
        command: &GateCommandLine<'_>,
        directory: &Path,
        path: &OsStr,
        depth: usize,
    ) {
        let directory =
            command.entered.iter().fold(directory.to_owned(), |inner, name| inner.join(name));
        let words = command.words.as_slice();
        let Some(first) = words.first() else { return };
        let program = program_search::find_program(OsStr::new(first), &directory, path);
        self.add(first, program.map(resolve_installed));
        let started = LAUNCHERS.iter().find_map(|(starter, places)| {
            let rest = words.strip_prefix(*starter)?;
            let name = rest.iter().find(|word| !word.starts_with('-'))?;
            let places = self.launcher_directories(places);
            let found = self.ancestors(&directory).find_map(|ancestor| {
                let mut files = places.iter().map(|place| ancestor.join(place).join(name));
                files.find(|file| program_search::is_executable(file))
            });
            Some((*name, found?))
        });
        if let Some((name, file)) = started {
            self.add(name, Some(resolve_installed(file)));
        }
        if PACKAGE_RUNNERS.contains(&simple_commands::base_name(first)) && depth < MAX_SCRIPT_DEPTH
        {
            self.add_scripts(words, &directory, path, depth);
        }
    }

    /// The programs of the scripts in the nearest `package.json`. Any word that is the name of a script counts as a call.
    fn add_scripts(&mut self, words: &[&str], directory: &Path, path: &OsStr, depth: usize) {
        let mut packages = self.ancestors(directory).map(|ancestor| ancestor.join("package.json"));
        let Some(file) = packages.find(|file| fs::exists(file)) else { return };
        let Ok(Some(package)) = fs::read_json::<serde_json::Value>(&file, MAX_PACKAGE_BYTES) else {
            return;
        };
        let base = file.parent().unwrap_or(directory);
        let own = self.ancestors(base).map(|ancestor| ancestor.join(PACKAGE_PROGRAMS));
        let Ok(path) = std::env::join_paths(own.chain(std::env::split_paths(path))) else { return };
        let manifest = file.strip_prefix(self.project).unwrap_or(&file).to_string_lossy();
        for word in words {
            let script = package.get("scripts").and_then(|scripts| scripts.get(*word));
            let script = script.and_then(|script| script.as_str());
            let is_followed = |line: &&str| {
                !is_placeholder(line) && (self.is_followed)(&format!("{manifest}: scripts.{word}"))
            };
            let Some(line) = script.filter(is_followed) else { continue };
            for command in simple_commands::line_commands(line) {
                self.add_command(&command, base, &path, depth + 1);
            }
        }
    }

    fn launcher_directories(&self, places: &[&str]) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for place in places {
            let Some((variable, rest)) =
                place.strip_prefix('$').and_then(|place| place.split_once('/'))
            else {
                found.push(PathBuf::from(place));
                continue;
            };
            let set =
                self.variables.iter().find(|(name, value)| name == variable && !value.is_empty());
            if let Some((_, value)) = set {
                return vec![Path::new(value).join(rest)];
            }
        }
        found
    }

    /// The directory and those above it, up to the project.
    fn ancestors<'b>(&self, directory: &'b Path) -> impl Iterator<Item = &'b Path> + use<'b> {
        let project = self.project.to_owned();
        directory.ancestors().take_while(move |ancestor| ancestor.starts_with(&project))
    }

    fn add(&mut self, word: &str, program: Option<PathBuf>) {
        let Some(path) = program else { return };
        if self.found.len() < MAX_PROGRAMS && self.found.iter().all(|known| known.path != path) {
            self.found.push(ResolvedProgram { word: word.to_owned(), path });
        }
    }
}

/// The first script of a `package.json` that a gate runs and that does not exist yet.
pub fn missing_script(gate: &Gate, project: &Path) -> Option<String> {
    let cwd = project.join(&gate.cwd);
    simple_commands::gate_commands(&gate.command).iter().find_map(|command| {
        let name = called_script(&command.words)?;
        let directory = command.entered.iter().fold(cwd.clone(), |inner, name| inner.join(name));
        let above = directory.ancestors().take_while(|above| above.starts_with(project));
        let mut manifests = above.map(|above| above.join("package.json"));
        let manifest = manifests.find(|file| fs::exists(file));
        let package = manifest
            .and_then(|file| fs::read_json::<serde_json::Value>(&file, MAX_PACKAGE_BYTES).ok()?);
        let script =
            package.as_ref().and_then(|package| package.get("scripts")?.get(name)?.as_str());
        script.is_none_or(is_placeholder).then(|| name.to_string())
    })
}

/// `test` in `npm test`, and `unit` in `pnpm run unit`. Other words may be commands of the package manager.
fn called_script<'a>(words: &[&'a str]) -> Option<&'a str> {
    let (first, rest) = words.split_first()?;
    let mut rest = rest.iter().copied().filter(|word| !word.starts_with('-'));
    let name = match rest.next()? {
        "run" | "run-script" => rest.next(),
        "test" | "t" | "tst" => Some("test"),
        _ => None,
    };
    name.filter(|_| PACKAGE_RUNNERS.contains(&simple_commands::base_name(first)))
}

/// Whether a script is the one that `npm init` writes in place of one, with any exit code. It judges nothing, so it may
/// be replaced.
pub fn is_placeholder(script: &str) -> bool {
    let Some(rest) = script.trim().strip_prefix("echo ") else { return false };
    let (echoed, end) = rest.split_once("&&").unwrap_or((rest, "exit 0"));
    let echoed = echoed.trim();
    let quoted = ['"', '\''].iter().find_map(|quote| {
        let inner = echoed.strip_prefix(*quote)?.strip_suffix(*quote)?;
        // Anything that a shell would run or read makes it another script.
        let is_text = !inner.contains([*quote, '$', '`', '\\']);
        is_text.then_some(inner)
    });
    quoted.is_some_and(|text| text.contains(PLACEHOLDER_TEXT))
        && matches!(end.trim(), "exit 0" | "exit 1")
}

/// Package managers link the programs of packages into one directory. The file that runs is the one behind the link.
fn resolve_installed(file: PathBuf) -> PathBuf {
    let is_link = file.parent().is_some_and(|parent| parent.ends_with(PACKAGE_PROGRAMS));
    if is_link { fs::resolve(&file).unwrap_or(file) } else { file }
}

fn stat_mark(file: &Path) -> String {
    fs::stat(file).map_or_else(String::new, |stat| {
        format!("{} {} {} {:o}", stat.len, stat.modified_ns, stat.inode, stat.mode)
    })
}

/// Hash of a program's content, or its metadata if it is too large or cannot be read.
pub fn content_mark(file: &Path) -> String {
    hash_content(file).unwrap_or_else(|| stat_mark(file))
}

fn hash_content(file: &Path) -> Option<String> {
    let opened = RegularFile::open(file).ok()?;
    if opened.opened_len() > MAX_HASHED_BYTES {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    loop {
        let block = opened.read_at(at, HASH_BLOCK_BYTES).ok()?;
        if block.is_empty() || at > MAX_HASHED_BYTES {
            return Some(hasher.finalize().to_hex().to_string());
        }
        hasher.update(&block);
        at += u64::try_from(block.len()).unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::testing::sample_gate;
    use ralph_core::gate::GateInvocation;
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

    fn path_only(path: impl Into<OsString>) -> Vec<(OsString, OsString)> {
        vec![("PATH".into(), path.into())]
    }

    #[test]
    fn a_stub_that_comes_first_on_the_path_is_another_tool() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write_program(&root.join("usr/tool"), "#!/bin/sh\n");
        let path = path_only(format!("{0}/stubs:{0}/usr", root.display()));
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
        let path = path_only(format!("{}/bin", root.display()));
        let types = sample_gate("types", &["npx", "--no-install", "tsc", "--noEmit"]);
        let before = sealed_tools(&types, root, &path);
        assert_eq!(before.len(), 2);
        write_program(&root.join("node_modules/.bin/tsc"), "two");
        assert_ne!(sealed_tools(&types, root, &path), before);
    }

    /// R-V1j: `uv run` starts the programs of the environment that a variable names.
    #[test]
    fn a_launcher_follows_the_variables_of_the_gate() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for program in ["bin/uv", ".venv/bin/pytest", ".ci/bin/pytest"] {
            write_program(&root.join(program), program);
        }
        let mut variables = path_only(format!("{}/bin", root.display()));
        let tests = sample_gate("tests", &["uv", "run", "pytest"]);
        let found = |variables: &EnvironmentPairs| {
            let last = gate_programs(&tests, root, variables).pop().unwrap();
            last.path.strip_prefix(root).unwrap().display().to_string()
        };
        assert_eq!(found(&variables), ".venv/bin/pytest");
        variables.push(("UV_PROJECT_ENVIRONMENT".into(), ".ci".into()));
        assert_eq!(found(&variables), ".ci/bin/pytest");
    }

    /// A script of `package.json` finds the programs of the installed packages before all others.
    #[test]
    fn the_programs_of_scripts_and_shell_lines_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let scripts = r#"{"scripts":{"test":"npm run unit -- --ci","unit":"NODE_ENV=test jest"}}"#;
        fs::create_private_dir(&root.join("web")).unwrap();
        fs::replace(&root.join("web/package.json"), scripts.as_bytes(), Durability::Cached)
            .unwrap();
        for program in ["bin/npm", "bin/jest", "bin/make", "web/node_modules/.bin/jest"] {
            write_program(&root.join(program), program);
        }
        let path = path_only(format!("{}/bin", root.display()));
        let line = GateInvocation::Shell("cd web && npm test && make lint".to_string());
        let found = gate_programs(&Gate::new("all", line), root, &path);
        let shown = |program: &ResolvedProgram| {
            let path = program.path.strip_prefix(root).unwrap().display();
            format!("{} {path}", program.word)
        };
        assert_eq!(
            found.iter().map(shown).collect::<Vec<_>>(),
            ["npm bin/npm", "jest web/node_modules/.bin/jest", "make bin/make"]
        );
    }

    /// R-V1h: a script that does not exist yet may choose its programs later.
    #[test]
    fn scripts_that_do_not_exist_yet_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write_program(&root.join("bin/npm"), "npm");
        write_program(&root.join("bin/node"), "node");
        write_program(&root.join("bin/echo"), "echo");
        let path = path_only(format!("{}/bin", root.display()));
        let written = |scripts: Option<&str>, words: &[&str]| {
            let manifest = root.join("package.json");
            match scripts {
                Some(scripts) => {
                    let text = format!(r#"{{"scripts":{{{scripts}}}}}"#);
                    fs::overwrite(&manifest, text.as_bytes()).unwrap();
                }
                None => drop(fs::remove_file(&manifest)),
            }
            let gate = sample_gate("tests", words);
            let missing = missing_script(&gate, root);
            let programs = programs_of_scripts(&gate, root, &path, &|name| {
                name != "package.json: scripts.new"
            });
            let words: Vec<_> = programs.into_iter().map(|program| program.word).collect();
            format!("{} {}", missing.as_deref().unwrap_or("-"), words.join(" "))
        };
        let placeholder = r#""test":"echo \"Error: no test specified\" && exit 1""#;
        for (scripts, words, expected) in [
            (None, &["npm", "test"][..], "test npm"),
            (Some(""), &["npm", "--silent", "t"], "test npm"),
            (Some(placeholder), &["npm", "test"], "test npm"),
            (Some(r#""test":"node --test""#), &["npm", "test"], "- npm node"),
            (Some(""), &["npm", "run", "unit"], "unit npm"),
            (Some(r#""new":"node --test""#), &["npm", "run", "new"], "- npm"),
            (Some(""), &["npm", "ci"], "- npm"),
            (Some(""), &["node", "test"], "- node"),
        ] {
            assert_eq!(written(scripts, words), expected, "{scripts:?} {words:?}");
        }
    }

    #[test]
    fn a_program_of_any_size_is_sealed_by_content() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("large");
        write_program(&file, &"x".repeat(5_000_000));
        let mark = content_mark(&file);
        write_program(&file, &"x".repeat(5_000_000));
        assert!(has_sealed_content(&file, &mark));
        write_program(&file, &"y".repeat(5_000_000));
        assert!(!has_sealed_content(&file, &mark));
        assert!(has_sealed_content(&file, &stat_mark(&file)));
    }

    #[test]
    fn a_missing_tool_is_not_found() {
        let check = sample_gate("check", &["tool"]);
        assert_eq!(sealed_tools(&check, Path::new("/"), &path_only("/nowhere")), Vec::new());
    }
}
