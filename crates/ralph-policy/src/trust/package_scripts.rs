//! Scripts of `package.json`: only those that are called, with their `pre` and `post` scripts.

use super::TrustError;
use super::references::{ReferenceSearch, SealOrigin};
use ralph_core::sealed_file::SealReason;
use ralph_gates::gates::gate_tools::is_placeholder;
use ralph_sys::fs;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

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
    let manifest = search.relative_name(&path);
    for CalledScript { script, caller } in called_scripts(called) {
        let Some(line) = scripts.get(&script) else { continue };
        let name = format!("{manifest}: scripts.{script}");
        if search.mark_visited(&name) {
            let origin = match caller {
                ScriptCaller::Command => SealOrigin { why: SealReason::Script, by: String::new() },
                ScriptCaller::Script(main) => SealOrigin {
                    why: SealReason::Script,
                    by: format!("{manifest}: scripts.{main}"),
                },
                ScriptCaller::Installation => {
                    SealOrigin { why: SealReason::Settings, by: "install".to_string() }
                }
            };
            let hash = blake3::hash(line.as_bytes()).to_hex().to_string();
            search.add_reference(name, hash, &origin)?;
            search.pending_scripts.push((directory.clone(), line.clone()));
        }
    }
    Ok(())
}

fn read_package(path: &Path) -> Result<PackageScripts, TrustError> {
    Ok(parse_package(&fs::read(path, MAX_PACKAGE_BYTES)?))
}

pub(super) fn parse_package(bytes: &[u8]) -> PackageScripts {
    let Ok(package) = serde_json::from_slice::<Value>(bytes) else {
        return PackageScripts::Invalid;
    };
    let scripts = package.get("scripts").and_then(Value::as_object).into_iter().flatten();
    let lines = scripts.filter_map(|(name, line)| Some((name.clone(), line.as_str()?.to_string())));
    let lines = lines.filter(|(_, line)| !is_placeholder(line));
    PackageScripts::Scripts(lines.collect())
}

/// Whether a manifest names the file as the entry of the package, or as one of its programs.
pub(super) fn publishes(manifest: &Path, file: &Path) -> bool {
    let Ok(Some(package)) = fs::read_json::<Value>(manifest, MAX_PACKAGE_BYTES) else {
        return false;
    };
    let directory = manifest.parent().unwrap_or(manifest);
    let bin = package.get("bin");
    let programs = bin.and_then(Value::as_object).into_iter().flat_map(|bin| bin.values());
    let named = ["main", "module"].iter().filter_map(|key| package.get(*key));
    let mut named = named.chain(bin).chain(programs).filter_map(Value::as_str);
    let resolve = |name: &str| fs::resolve(&directory.join(name));
    // Every file in this directory is a program.
    let programs = package.get("directories").and_then(|all| all.get("bin")?.as_str());
    programs.is_some_and(|name| resolve(name).as_deref() == file.parent())
        || named.any(|name| resolve(name).is_some_and(|path| path == file))
}

struct CalledScript {
    script: String,
    caller: ScriptCaller,
}

/// What makes a package runner call a script.
enum ScriptCaller {
    Command,
    /// It runs before or after this script.
    Script(String),
    Installation,
}

/// Main scripts come before those that run with them, so that a script which is both counts as called by the command.
fn called_scripts(called: &BTreeSet<&str>) -> Vec<CalledScript> {
    let mut mains = BTreeSet::new();
    let mut scripts = Vec::new();
    for word in called {
        match *word {
            "t" | "tst" => {
                mains.insert("test");
            }
            "install" | "i" | "ci" | "add" => {
                scripts.extend(INSTALL_SCRIPTS.map(|script| CalledScript {
                    script: script.to_string(),
                    caller: ScriptCaller::Installation,
                }));
            }
            word => {
                mains.insert(word);
            }
        }
    }
    let command =
        |main: &&str| CalledScript { script: main.to_string(), caller: ScriptCaller::Command };
    scripts.extend(mains.iter().map(command));
    let around = |main: &&str| {
        [format!("pre{main}"), format!("post{main}")]
            .map(|script| CalledScript { script, caller: ScriptCaller::Script(main.to_string()) })
    };
    scripts.extend(mains.iter().flat_map(around));
    scripts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a line that echoes the text of `npm init` is no judge; a command that mentions it is.
    #[test]
    fn a_command_that_mentions_the_placeholder_is_a_script() {
        for (script, is_script) in [
            (r#"echo "Error: no test specified" && exit 1"#, false),
            (r#"echo "Error: no test specified""#, false),
            ("echo 'no test specified' && exit 0", false),
            (r#"node test.js # echo "Error: no test specified" && exit 1"#, true),
            (r#"echo "no test specified $(node test.js)" && exit 1"#, true),
            (r#"echo "no test specified" && node test.js"#, true),
            (r#"echo "no test specified" "more" && exit 1"#, true),
            (r#"echo "no test specified" && exit 1 && node test.js"#, true),
            ("echo no test specified; node test.js", true),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("package.json");
            let package = serde_json::json!({ "scripts": { "test": script } });
            fs::overwrite(&path, package.to_string().as_bytes()).unwrap();
            let PackageScripts::Scripts(scripts) = read_package(&path).unwrap() else {
                panic!("{script}")
            };
            assert_eq!(scripts.contains_key("test"), is_script, "{script}");
        }
    }
}
