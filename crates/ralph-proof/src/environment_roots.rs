//! The directories with installed packages that the gates of a project use.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_core::gate::{Gate, GateInvocation};
use ralph_sys::env::Env;
use ralph_sys::fs;

use crate::environment_changes::NODE_MODULES;
use crate::installed_packages::DEPENDENCY_DIRECTORIES;

/// Directories with installed packages that are linked into checkouts only if the policy names them.
pub(crate) const OTHER_DIRECTORIES: [&str; 6] =
    ["vendor/bundle", "env", "site-packages", "__pypackages__", ".bundle", "bundle"];
const PYTHON_MANIFESTS: [&str; 6] =
    ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "tox.ini"];
/// How many versions of Python are looked at.
const MAX_VERSIONS: usize = 1_000_000;

/// A directory with installed packages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvironmentRoot {
    /// Relative to the project, below the home directory as `~/…`, or absolute.
    pub name: String,
    pub path: PathBuf,
}

/// Whether a linked directory has installed packages, by its name.
pub fn is_package_directory(name: &str) -> bool {
    let directories = DEPENDENCY_DIRECTORIES.iter().chain(&OTHER_DIRECTORIES);
    directories.into_iter().any(|known| Path::new(name).ends_with(known))
}

/// Finds the environments that gates use. `links` are the directories that the policy links into checkouts, and `path` is
/// the `PATH` of the gates, if it is not that of `env`.
pub fn environment_roots(
    project: &Path,
    links: &[String],
    gates: &[Gate],
    env: &Env,
    path: Option<&OsStr>,
) -> Vec<EnvironmentRoot> {
    let mut names: BTreeSet<String> =
        links.iter().filter(|name| is_package_directory(name)).cloned().collect();
    let working = gates.iter().map(|gate| gate.cwd.trim_start_matches("./")).chain([""]);
    for directory in working.flat_map(|working| Path::new(working).ancestors()) {
        for name in DEPENDENCY_DIRECTORIES.iter().chain(&OTHER_DIRECTORIES[..1]) {
            names.extend(directory.join(name).to_str().map(ToString::to_string));
        }
    }
    // Packages may be installed above the project, in the root of its work tree.
    let top = ralph_git::git::work_tree_root(project);
    let above = top.and_then(|top| Some(project.strip_prefix(top).ok()?.components().count()));
    for level in 1..=above.unwrap_or(0) {
        let up = "../".repeat(level);
        names.extend(DEPENDENCY_DIRECTORIES.iter().map(|name| format!("{up}{name}")));
    }
    let root = |name: String| EnvironmentRoot { path: project.join(&name), name };
    let mut roots: Vec<EnvironmentRoot> =
        names.into_iter().map(root).filter(|root| fs::is_directory(&root.path)).collect();
    roots.extend(outside_environments(project, gates, env, path));
    roots.extend(packages_above(project, env));
    let has_own = roots.iter().any(|root| is_virtual_environment(&root.path));
    let has_manifest = || PYTHON_MANIFESTS.iter().any(|name| fs::exists(&project.join(name)));
    if !has_own && (gates.iter().any(names_python) || has_manifest()) {
        roots.extend(user_site_roots(env));
    }
    roots
}

fn is_virtual_environment(path: &Path) -> bool {
    fs::exists(&path.join("pyvenv.cfg")) || path.to_str().is_some_and(|path| path.ends_with("venv"))
}

/// The virtual environments outside the work tree that are active or on the search path, or whose programs gates call.
fn outside_environments(
    project: &Path,
    gates: &[Gate],
    env: &Env,
    path: Option<&OsStr>,
) -> Vec<EnvironmentRoot> {
    let of_program = |program: &Path| Some(program.parent()?.parent()?.to_path_buf());
    let search_path = path.map(OsStr::to_owned).or_else(|| env.search_path());
    let searched = search_path.iter().flat_map(std::env::split_paths);
    let called = gates.iter().flat_map(|gate| {
        let directory = project.join(&gate.cwd);
        let words: Vec<&str> = match &gate.command {
            GateInvocation::Argv(words) => words.iter().map(String::as_str).collect(),
            GateInvocation::Shell(line) => line.split_whitespace().collect(),
        };
        let paths = words.into_iter().filter(|word| word.contains('/'));
        paths.filter_map(|word| of_program(&directory.join(word))).collect::<Vec<_>>()
    });
    let active = env.get("VIRTUAL_ENV").map(PathBuf::from);
    let named = active.into_iter().chain(searched.filter_map(|bin| Some(bin.parent()?.into())));
    let is_environment =
        |path: &PathBuf| path.is_absolute() && fs::exists(&path.join("pyvenv.cfg"));
    let project = fs::resolve(project).unwrap_or_else(|| project.to_owned());
    let work_tree = ralph_git::git::work_tree_root(&project).unwrap_or(&project);
    let found = named.chain(called).filter(is_environment).filter_map(|path| fs::resolve(&path));
    let outside: BTreeSet<PathBuf> = found.filter(|path| !path.starts_with(work_tree)).collect();
    outside.into_iter().map(|path| name_outside(path, env)).collect()
}

/// Node looks for packages in every directory above a file, up to the root of the file system.
fn packages_above(project: &Path, env: &Env) -> Vec<EnvironmentRoot> {
    let project = fs::resolve(project).unwrap_or_else(|| project.to_owned());
    let work_tree = ralph_git::git::work_tree_root(&project).unwrap_or(&project);
    let above = work_tree.ancestors().skip(1).map(|directory| directory.join(NODE_MODULES));
    // A work tree may be among the packages itself.
    let found = above.filter(|path| fs::is_directory(path) && !work_tree.starts_with(path));
    found.map(|path| name_outside(path, env)).collect()
}

fn name_outside(path: PathBuf, env: &Env) -> EnvironmentRoot {
    let home = env.home().and_then(|home| fs::resolve(&home));
    let below = home.as_ref().and_then(|home| path.strip_prefix(home).ok());
    let name = match below {
        Some(below) => Path::new("~").join(below).display().to_string(),
        None => path.display().to_string(),
    };
    EnvironmentRoot { name, path }
}

fn names_python(gate: &Gate) -> bool {
    let is_python = |word: &str| word.contains("python") || word.contains("pytest");
    match &gate.command {
        GateInvocation::Argv(words) => words.iter().any(|word| is_python(word)),
        GateInvocation::Shell(line) => is_python(line),
    }
}

/// Without a virtual environment, Python finds the packages that the user installed for all projects.
fn user_site_roots(env: &Env) -> Vec<EnvironmentRoot> {
    let own = env.get("PYTHONUSERBASE").map(|base| (PathBuf::from(&base), PathBuf::from(base)));
    let local = || Some((PathBuf::from("~/.local"), env.home()?.join(".local")));
    let Some((shown, base)) = own.or_else(local) else {
        return Vec::new();
    };
    let versions = fs::list_if_exists(&base.join("lib"), MAX_VERSIONS).unwrap_or_default();
    let is_python = |name: &&std::ffi::OsString| name.as_encoded_bytes().starts_with(b"python3");
    let root = |name: &std::ffi::OsString| {
        let below = Path::new("lib").join(name).join("site-packages");
        let name = shown.join(&below).display().to_string();
        EnvironmentRoot { name, path: base.join(below) }
    };
    let roots = versions.iter().filter(is_python).map(root);
    roots.filter(|root| fs::is_directory(&root.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_sys::fs::Durability;

    fn write(path: &Path, text: &str) {
        fs::create_private_dir(path.parent().unwrap()).unwrap();
        fs::replace(path, text.as_bytes(), Durability::Cached).unwrap();
    }

    /// An environment outside of the work tree is found by a variable, the search path or the command of a gate. One inside
    /// of it has its own rules.
    #[test]
    fn environments_outside_of_the_work_tree_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::resolve(directory.path()).unwrap();
        let project = root.join("home/work/project");
        for environment in ["home/active", "searched", "called", "shell", "home/work/own", "unused"]
        {
            write(&root.join(environment).join("pyvenv.cfg"), "home = /usr/bin\n");
        }
        write(&root.join("home/work/.git/HEAD"), "ref: refs/heads/main\n");
        write(&root.join("plain/bin/tool"), "");
        fs::create_private_dir(&project).unwrap();
        let text = |below: &str| root.join(below).to_str().unwrap().to_string();
        let env = Env::from_pairs(
            [
                ("HOME", text("home")),
                ("VIRTUAL_ENV", text("home/active")),
                ("PATH", text("unused/bin")),
            ],
            None,
            Vec::new(),
        );
        let path = [text("searched/bin"), text("home/work/own/bin"), text("plain/bin")].join(":");
        let gates = [
            Gate::new("argv", GateInvocation::Argv(vec!["../../../called/bin/python".to_string()])),
            Gate::new(
                "shell",
                GateInvocation::Shell(format!("cd x && {} t", text("shell/bin/tool"))),
            ),
        ];
        let roots = environment_roots(&project, &[], &gates, &env, Some(OsStr::new(&path)));
        let names: Vec<String> =
            roots.iter().map(|found| found.name.replace(root.to_str().unwrap(), "$ROOT")).collect();
        assert_eq!(names, ["$ROOT/called", "~/active", "$ROOT/searched", "$ROOT/shell"]);
    }

    /// Packages above the work tree are found, but not those that it is one of.
    #[test]
    fn packages_above_the_work_tree_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::resolve(directory.path()).unwrap();
        for path in ["node_modules/a", "home/node_modules/b", "home/code/node_modules/c"] {
            fs::create_private_dir(&root.join(path)).unwrap();
        }
        let home = root.join("home");
        let env = Env::from_pairs([("HOME", &home)], None, Vec::new());
        for (work_tree, expected) in [
            (
                "home/code/project",
                &["~/code/node_modules", "~/node_modules", "$ROOT/node_modules"][..],
            ),
            ("home/node_modules/project", &["$ROOT/node_modules"]),
        ] {
            let project = root.join(work_tree);
            write(&project.join(".git/HEAD"), "ref: refs/heads/main\n");
            let found = environment_roots(&project, &[], &[], &env, Some(OsStr::new("")));
            let names: Vec<String> = found
                .iter()
                .map(|found| found.name.replace(root.to_str().unwrap(), "$ROOT"))
                .collect();
            assert_eq!(names, expected, "{work_tree}");
        }
    }
}
