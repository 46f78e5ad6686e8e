//! Scripts of `package.json`: only those that are called, with their `pre` and `post` scripts.

use super::TrustError;
use super::references::ReferenceSearch;
use ralph_sys::fs;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

pub(super) const PACKAGE_RUNNERS: [&str; 4] = ["npm", "pnpm", "yarn", "bun"];

const MAX_PACKAGE_BYTES: usize = 4 * 1024 * 1024;
/// Scripts that an installation runs implicitly.
const INSTALL_SCRIPTS: [&str; 5] =
    ["preinstall", "install", "postinstall", "preprepare", "prepare"];

/// The scripts of a `package.json`.
pub(super) enum PackageScripts {
    Scripts(BTreeMap<String, String>),
    /// Not valid JSON, so it is unknown which scripts are called; the whole file counts.
    Invalid,
}

/// Adds the scripts of the nearest `package.json` that a command calls. Any word that is the name of a script counts as
/// a call, because which word is the script depends on the options of four programs.
pub(super) fn add_called_scripts(
    search: &mut ReferenceSearch,
    base: &Path,
    called: &BTreeSet<&str>,
) -> Result<(), TrustError> {
    let nearest = search.ancestors_in_project(base).into_iter().find_map(|directory| {
        let path = directory.join("package.json");
        fs::exists(&path).then_some((directory, path))
    });
    let Some((directory, path)) = nearest else { return Ok(()) };
    let known = search.packages.get(&path).cloned();
    let package = if let Some(known) = known { known } else { Rc::new(read_package(&path)?) };
    search.packages.insert(path.clone(), Rc::clone(&package));
    let PackageScripts::Scripts(scripts) = &*package else { return search.add_file(&path) };
    for script in script_names(called) {
        let Some(line) = scripts.get(&script) else { continue };
        let name = format!("{}: scripts.{script}", search.relative_name(&path));
        if search.mark_visited(&name) {
            search.add_reference(name, blake3::hash(line.as_bytes()).to_hex().to_string())?;
            search.pending_scripts.push((directory.clone(), line.clone()));
        }
    }
    Ok(())
}

fn read_package(path: &Path) -> Result<PackageScripts, TrustError> {
    let bytes = fs::read(path, MAX_PACKAGE_BYTES)?;
    let Ok(package) = serde_json::from_slice::<Value>(&bytes) else {
        return Ok(PackageScripts::Invalid);
    };
    let scripts = package.get("scripts").and_then(Value::as_object).into_iter().flatten();
    let lines = scripts.filter_map(|(name, line)| Some((name.clone(), line.as_str()?.to_string())));
    Ok(PackageScripts::Scripts(lines.collect()))
}

fn script_names(called: &BTreeSet<&str>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for word in called {
        match *word {
            "t" | "tst" => names.extend(["pretest", "test", "posttest"].map(str::to_string)),
            "install" | "i" | "ci" | "add" => names.extend(INSTALL_SCRIPTS.map(str::to_string)),
            word => names.extend([format!("pre{word}"), word.to_string(), format!("post{word}")]),
        }
    }
    names
}
