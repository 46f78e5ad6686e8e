//! Scripts of `package.json`: only those that are called, with their `pre` and `post` scripts.

use super::TrustError;
use super::called::Search;
use ralph_sys::fs;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

pub(super) const RUNNERS: [&str; 4] = ["npm", "pnpm", "yarn", "bun"];

const LARGEST: usize = 4 * 1024 * 1024;
/// Scripts that an installation runs implicitly.
const ON_INSTALL: [&str; 5] = ["preinstall", "install", "postinstall", "preprepare", "prepare"];

/// The scripts of a `package.json`.
pub(super) enum Package {
    Scripts(BTreeMap<String, String>),
    /// Not valid JSON, so it is unknown which scripts are called; the whole file counts.
    Garbled,
}

/// Adds the scripts of the nearest `package.json` that a command calls. Any word that is the name of a script counts as
/// a call, because which word is the script depends on the options of four programs.
pub(super) fn follow(
    search: &mut Search,
    base: &Path,
    called: &BTreeSet<&str>,
) -> Result<(), TrustError> {
    let nearest = search.upwards(base).into_iter().find_map(|directory| {
        let path = directory.join("package.json");
        fs::exists(&path).then_some((directory, path))
    });
    let Some((directory, path)) = nearest else { return Ok(()) };
    let known = search.packages.get(&path).cloned();
    let package = if let Some(known) = known { known } else { Rc::new(read(&path)?) };
    search.packages.insert(path.clone(), Rc::clone(&package));
    let Package::Scripts(scripts) = &*package else { return search.add_file(&path) };
    for script in names(called) {
        let Some(line) = scripts.get(&script) else { continue };
        let name = format!("{}: scripts.{script}", search.name(&path));
        if search.is_first(&name) {
            search.add(name, blake3::hash(line.as_bytes()).to_hex().to_string())?;
            search.later.push((directory.clone(), line.clone()));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Package, TrustError> {
    let bytes = fs::read(path, LARGEST)?;
    let Ok(package) = serde_json::from_slice::<Value>(&bytes) else { return Ok(Package::Garbled) };
    let scripts = package.get("scripts").and_then(Value::as_object).into_iter().flatten();
    let lines = scripts.filter_map(|(name, line)| Some((name.clone(), line.as_str()?.to_string())));
    Ok(Package::Scripts(lines.collect()))
}

fn names(called: &BTreeSet<&str>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for word in called {
        match *word {
            "t" | "tst" => names.extend(["pretest", "test", "posttest"].map(str::to_string)),
            "install" | "i" | "ci" | "add" => names.extend(ON_INSTALL.map(str::to_string)),
            word => names.extend([format!("pre{word}"), word.to_string(), format!("post{word}")]),
        }
    }
    names
}
