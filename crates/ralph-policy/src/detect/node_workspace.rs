//! Workspaces of packages: one gate runs a script in all of them.

use ralph_gates::gates::gate_tools::is_placeholder;
use serde_json::Value;

use super::command_import::name_aspect;
use super::gate_draft::{GateAspect, GateDraft};
use super::node::PackageManager;
use super::project_dir::{self, DetectionNotes, ProjectDir};

/// Scripts that are run in every package that has them, in order of preference.
const RECURSIVE_SCRIPTS: [&str; 8] =
    ["test", "test:unit", "typecheck", "type-check", "types", "build", "lint", "format:check"];

/// Whether this directory is the root of a workspace.
pub(super) fn is_workspace_root(place: &ProjectDir<'_>, json: &Value) -> bool {
    place.has_entry("pnpm-workspace.yaml") || json.get("workspaces").is_some()
}

/// Whether a directory above is the root of a workspace. Its gates are about all packages below it.
pub(super) fn is_workspace_member(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> bool {
    let above = std::path::Path::new(&place.cwd).ancestors().skip(1);
    above.into_iter().any(|cwd| {
        let read = |name: &str, notes: &mut DetectionNotes| {
            let path = project_dir::join_relative(&cwd.to_string_lossy(), name);
            place.directory_at("").and_then(|root| root.read_text(&path, notes))
        };
        let Some(manifest) = read("package.json", notes) else { return false };
        let Ok(json) = serde_json::from_str::<Value>(&manifest) else { return false };
        json.get("workspaces").is_some() || read("pnpm-workspace.yaml", notes).is_some()
    })
}

/// Gates that run scripts of the packages, for aspects that no script of the root covers.
pub(super) fn recursive_gates(
    place: &ProjectDir<'_>,
    manager: PackageManager,
    json: &Value,
    own: &[GateDraft],
    notes: &mut DetectionNotes,
) -> Vec<GateDraft> {
    let packages = package_scripts(place, notes);
    let mut drafts: Vec<GateDraft> = Vec::new();
    for script in RECURSIVE_SCRIPTS {
        let Some(aspect) = name_aspect(script) else { continue };
        let count =
            packages.iter().filter(|scripts| scripts.iter().any(|one| one == script)).count();
        let is_known = own.iter().chain(&drafts).any(|draft| draft.aspect == aspect);
        if count == 0 || is_known {
            continue;
        }
        let words = recursive_words(manager, has_modern_yarn(place, json), script);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let label = match aspect {
            GateAspect::Test => "tests",
            GateAspect::Types => "types",
            GateAspect::Build
            | GateAspect::Lint
            | GateAspect::Format
            | GateAspect::Audit
            | GateAspect::Whole => script,
        };
        let noun = if count == 1 { "package has" } else { "packages have" };
        drafts.push(
            GateDraft::from_words(place, label, aspect, &words)
                .covering(&[&format!("script {script}")])
                .with_reason(
                    &place.relative("package.json"),
                    format!("{count} {noun} a script `{script}`"),
                ),
        );
    }
    drafts
}

fn recursive_words(manager: PackageManager, is_modern: bool, script: &str) -> Vec<String> {
    let words: &[&str] = match manager {
        PackageManager::Npm => &["npm", "run", script, "--workspaces", "--if-present"],
        PackageManager::Pnpm => &["pnpm", "-r", "--if-present", "run", script],
        PackageManager::Yarn if is_modern => {
            &["yarn", "workspaces", "foreach", "-A", "run", script]
        }
        PackageManager::Yarn => &["yarn", "workspaces", "run", script],
        PackageManager::Bun => &["bun", "run", "--filter", "*", script],
    };
    words.iter().map(ToString::to_string).collect()
}

/// Whether the project uses Yarn 2 or later, whose commands differ.
fn has_modern_yarn(place: &ProjectDir<'_>, json: &Value) -> bool {
    let named = json.get("packageManager").and_then(Value::as_str);
    match named.and_then(|named| named.strip_prefix("yarn@")) {
        Some(version) => !version.starts_with("0.") && !version.starts_with("1."),
        None => place.has_entry(".yarnrc.yml"),
    }
}

/// The names of the scripts of each package below.
fn package_scripts(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<Vec<String>> {
    let mut packages = Vec::new();
    for below in place.project().directories(notes) {
        let is_below =
            below.cwd != place.cwd && project_dir::is_at_or_below(&below.cwd, &place.cwd);
        if !is_below || !below.has_entry("package.json") {
            continue;
        }
        let Some(text) = below.read_text("package.json", notes) else { continue };
        let Ok(json) = serde_json::from_str::<Value>(&text) else { continue };
        let Some(scripts) = json.get("scripts").and_then(Value::as_object) else { continue };
        let real = scripts
            .iter()
            .filter(|(_, text)| text.as_str().is_some_and(|text| !is_placeholder(text)));
        packages.push(real.map(|(name, _)| name.clone()).collect());
    }
    packages
}
