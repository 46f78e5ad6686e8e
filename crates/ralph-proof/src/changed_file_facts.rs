//! Changed files that a proof cannot simply take from one version: those that hold code and tests at once, and those
//! that decide how tests run although they look like code.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_check::inline_tests::find_inline_tests;
use ralph_core::gate::Gate;
use ralph_core::proof::ChangedFileFacts;
use ralph_gates::gates::gate_tools::is_placeholder;
use ralph_git::checkpoint::{BlobContent, CheckpointError};
use ralph_sys::clock::Deadline;
use ralph_sys::fs;

use crate::documentation_examples::CHANGED_EXAMPLES;
use crate::file_class::{FileClass, GateFile, GateFileRole, classify_file};
use crate::file_composition::needs_separation;
use crate::naming_conventions::{file_extension, is_mixed_manifest};
use crate::prove::ProofRequest;
use crate::settings_references::referenced_by_settings;
use crate::tree_changes::{ChangedFile, FileChangeKind, TreeChanges};
use crate::tree_composition::TreeComposition;
use crate::untested_base::{BaseFiles, find_base_tests, is_base_untested};

/// How many entries of a directory are looked at.
const MAX_LISTED: usize = 10_000;
const MAX_ROOTS: usize = 100;
const MAX_ROOT_BYTES: usize = 1024 * 1024;

/// How the tests of a proof are composed.
pub(crate) struct ComposedTests<'a> {
    pub(crate) old: &'a TreeComposition,
    pub(crate) new: &'a TreeComposition,
    /// The files that a person allowed to change.
    pub(crate) allowed: &'a TreeComposition,
}

/// What a proof has to know about the changed files, and those whose examples are tests only if the runner runs them.
pub(crate) fn find_file_facts(
    request: &ProofRequest<'_>,
    changes: &TreeChanges,
    tests: &ComposedTests<'_>,
    deadline: &Deadline,
) -> Result<(ChangedFileFacts, Vec<String>), CheckpointError> {
    let ComposedTests { old, new, allowed } = tests;
    let (mut examples, mut inseparable) = (Vec::new(), Vec::new());
    for file in &old.not_separable {
        let is_example = file.why == CHANGED_EXAMPLES;
        let list = if is_example { &mut examples } else { &mut inseparable };
        list.push(file.path.clone());
    }
    inseparable.extend(included_documents(request, &examples, deadline)?);
    inseparable.extend(changed_references(request, changes, deadline)?);
    inseparable.extend(unreadable_files(request, changes));
    if changes.left_out + changes.missing > 0 {
        inseparable.push("files that cannot be read".to_string());
    }
    let below = request.project_below();
    let base = BaseFiles {
        repository: request.repository,
        checkpoint: request.base,
        below: &below,
        rules: request.rules,
    };
    let rewritten = allowed.rewritten.iter().map(|file| &file.path);
    let is_tests = |path: &String| classify_file(path, request.rules).class == FileClass::Tests;
    let facts = ChangedFileFacts {
        inseparable,
        allowed: allowed.from_tests.iter().chain(rewritten).cloned().collect(),
        has_changed_tests: new.from_tests.iter().any(is_tests)
            || new.rewritten.iter().any(|file| !is_mixed_manifest(&file.path)),
        deleted_with_tests: deleted_with_tests(changes),
        deleted_code: deleted_code(request, changes),
        unjudged_tests: Vec::new(),
        new_judges: new_judges(request, changes),
        changed_judges: changed_judges(request, changes),
        is_base_untested: is_base_untested(base, changes, deadline)?,
    };
    if facts.new_judges.is_empty() {
        return Ok((facts, examples));
    }
    let unjudged_tests = find_base_tests(base, deadline)?;
    Ok((ChangedFileFacts { unjudged_tests, ..facts }, examples))
}

/// Gates whose command names files, or reads its commands from files, none of which the base has. If a test or a
/// setting of the base changed too, the base had a judge after all.
fn new_judges(request: &ProofRequest<'_>, changes: &TreeChanges) -> Vec<String> {
    let goes_with_tests = |path: &str| {
        let class = classify_file(path, request.rules).class;
        matches!(class, FileClass::Tests | FileClass::Harness)
    };
    let mut tests = changes.all.iter().filter(|one| goes_with_tests(&one.path));
    if tests.any(|one| one.kind != FileChangeKind::Added) {
        return Vec::new();
    }
    let has_new_judge = |gate: &&&Gate| {
        let mut judges = request.rules.judges_of_gate(&gate.name).peekable();
        judges.peek().is_some() && judges.all(|judge| is_new_judge(changes, judge))
    };
    request.gates.iter().filter(has_new_judge).map(|gate| gate.name.clone()).collect()
}

/// Gates of which a file or a script that they run, or read their commands from, is in the base and changed. If settings
/// changed or were deleted, any gate may have read them.
fn changed_judges(request: &ProofRequest<'_>, changes: &TreeChanges) -> Vec<String> {
    let has_changed_settings = changes.all.iter().any(|one| {
        one.kind != FileChangeKind::Added
            && classify_file(&one.path, request.rules).class == FileClass::Harness
    });
    let has_changed_judge = |gate: &&&Gate| {
        let mut judges = request.rules.judges_of_gate(&gate.name);
        has_changed_settings || judges.any(|judge| is_changed_judge(changes, judge))
    };
    request.gates.iter().filter(has_changed_judge).map(|gate| gate.name.clone()).collect()
}

/// Whether the base has neither the file nor, in a manifest, the script.
fn is_new_judge(changes: &TreeChanges, judge: &GateFile) -> bool {
    let Some(file) = changes.all.iter().find(|one| one.path == judge.path) else { return false };
    let lacks_script = || {
        script_versions(file, judge).is_some_and(|[before, _]| match before.as_deref() {
            Some(script) => is_placeholder(script),
            None => true,
        })
    };
    file.kind == FileChangeKind::Added || lacks_script()
}

fn is_changed_judge(changes: &TreeChanges, judge: &GateFile) -> bool {
    let Some(file) = changes.all.iter().find(|one| one.path == judge.path) else { return false };
    let keeps_script =
        || script_versions(file, judge).is_some_and(|[before, after]| before == after);
    !is_new_judge(changes, judge) && !keeps_script()
}

/// The script of a manifest before and after the change. `None` if the file has none, or was not readable.
fn script_versions(changed: &ChangedFile, judge: &GateFile) -> Option<[Option<String>; 2]> {
    let GateFileRole::Script(name) = &judge.role else { return None };
    let text = changed.as_text()?;
    let script = |side: Option<&str>| -> Option<Option<String>> {
        let manifest: serde_json::Value = serde_json::from_str(side?).ok()?;
        let script = manifest.get("scripts").and_then(|scripts| scripts.get(name));
        Some(script.map(|script| script.as_str().unwrap_or_default().to_string()))
    };
    Some([script(text.before)?, script(text.after)?])
}

/// The documents that a crate includes as its own documentation, so that their examples are its tests.
fn included_documents(
    request: &ProofRequest<'_>,
    documents: &[String],
    deadline: &Deadline,
) -> Result<Vec<String>, CheckpointError> {
    let documents: Vec<&String> =
        documents.iter().filter(|path| file_extension(path) == "md").collect();
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    let is_root = |path: &OsStr| {
        let name = Path::new(path).file_name();
        name == Some(OsStr::new("lib.rs")) || name == Some(OsStr::new("main.rs"))
    };
    let entries = request.repository.checkpoint_files(request.base, deadline)?;
    let roots = entries.iter().filter(|entry| is_root(&entry.path)).take(MAX_ROOTS);
    let ids: Vec<_> = roots.map(|entry| entry.version.id).collect();
    let most = MAX_ROOTS * MAX_ROOT_BYTES;
    let blobs = request.repository.read_blobs(&ids, MAX_ROOT_BYTES, most, deadline)?;
    let texts: Vec<_> = blobs
        .values()
        .filter_map(|blob| match blob {
            BlobContent::Content(bytes) => Some(String::from_utf8_lossy(bytes)),
            BlobContent::TooLarge(_) | BlobContent::Missing => None,
        })
        .filter(|text| text.contains("include_str!"))
        .collect();
    let is_included = |path: &&&String| {
        let name = path.rsplit('/').next().unwrap_or(path);
        texts.iter().any(|text| text.contains(name))
    };
    Ok(documents.iter().filter(is_included).map(ToString::to_string).collect())
}

/// New modules of Python in the root of the project that take the place of installed ones.
pub(crate) fn shadowing_modules(request: &ProofRequest<'_>, changes: &TreeChanges) -> Vec<String> {
    let sites = site_directories(request);
    let is_installed = |module: &str| {
        let names = [module.to_string(), format!("{module}.py")];
        sites.iter().any(|site| names.iter().any(|name| fs::exists(&site.join(name))))
    };
    let added = changes.all.iter().filter(|one| one.kind == FileChangeKind::Added);
    let shadows = added.filter(|one| {
        let module = one.path.split('/').next().unwrap_or_default();
        let module = module.strip_suffix(".py").unwrap_or(module);
        file_extension(&one.path) == "py" && is_installed(module)
    });
    shadows.map(|one| one.path.clone()).collect()
}

/// The directories with installed modules that the gates' Python may use.
fn site_directories(request: &ProofRequest<'_>) -> Vec<PathBuf> {
    let search_path = request.path.map(OsStr::to_owned).or_else(|| request.env.search_path());
    let mut homes: Vec<PathBuf> = [".venv", "venv"].map(|name| request.project.join(name)).into();
    for directory in search_path.iter().flat_map(std::env::split_paths) {
        let program = fs::resolve(&directory.join("python3"));
        homes.extend(program.iter().filter_map(|program| Some(program.parent()?.parent()?.into())));
        homes.extend(program.and(directory.parent().map(Path::to_path_buf)));
    }
    let user = request.env.home().map(|home| home.join(".local"));
    let sites = homes.into_iter().chain(user).flat_map(|home| {
        let lib = home.join("lib");
        let versions = fs::list_if_exists(&lib, MAX_LISTED).unwrap_or_default();
        let versions =
            versions.into_iter().filter(|name| name.as_encoded_bytes().starts_with(b"python3"));
        versions.flat_map(move |name| {
            ["site-packages", "dist-packages"].map(|site| lib.join(&name).join(site))
        })
    });
    sites.filter(|site| fs::is_directory(site)).collect()
}

/// Changed files that count as code, although the settings of the base name them.
fn changed_references(
    request: &ProofRequest<'_>,
    changes: &TreeChanges,
    deadline: &Deadline,
) -> Result<Vec<String>, CheckpointError> {
    let (repository, base) = (request.repository, request.base);
    let below = request.project_below();
    let is_code = |path: &String| classify_file(path, request.rules).class == FileClass::Code;
    let code: Vec<&String> =
        changes.all.iter().map(|one| &one.path).filter(|path| is_code(path)).collect();
    if code.is_empty() {
        return Ok(Vec::new());
    }
    let named = referenced_by_settings(repository, base, &below, request.rules, deadline)?;
    Ok(code.into_iter().filter(|path| named.contains(*path)).cloned().collect())
}

/// Changed files that would have to be taken apart, and cannot be read as text.
fn unreadable_files(request: &ProofRequest<'_>, changes: &TreeChanges) -> Vec<String> {
    let is_mixed = |path: &String| {
        needs_separation(path) && classify_file(path, request.rules).class == FileClass::Code
    };
    let unread = changes.all.iter().filter(|one| !one.is_text());
    unread.map(|one| one.path.clone()).filter(is_mixed).collect()
}

fn deleted_code(request: &ProofRequest<'_>, changes: &TreeChanges) -> Vec<String> {
    let is_code = |path: &String| classify_file(path, request.rules).class == FileClass::Code;
    let deleted = changes.all.iter().filter(|one| one.kind == FileChangeKind::Deleted);
    deleted.map(|one| one.path.clone()).filter(is_code).collect()
}

/// Files of Rust that contained tests and no longer exist.
fn deleted_with_tests(changes: &TreeChanges) -> Vec<String> {
    let texts = changes.texts();
    let has_tests =
        |text: &str| find_inline_tests(text).is_none_or(|found| !found.parts.is_empty());
    let deleted = texts.iter().filter(|text| {
        file_extension(text.path) == "rs"
            && text.after.is_none()
            && text.before.is_some_and(has_tests)
    });
    deleted.map(|text| text.path.to_string()).collect()
}

/// Whether a changed test file of Rust contains no tests. For other languages, names show it.
pub(crate) fn has_changed_helpers(
    changes: &TreeChanges,
    is_tests: &dyn Fn(&String) -> bool,
) -> bool {
    changes.texts().iter().any(|text| {
        let is_helper = |side: Option<&str>| side.is_some_and(|text| !text.contains("test]"));
        file_extension(text.path) == "rs"
            && is_tests(&text.path.to_string())
            && (is_helper(text.before) || is_helper(text.after))
    })
}
