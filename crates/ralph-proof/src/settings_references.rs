//! Files that the settings of a test runner name: set-up files, plug-ins, transformations. They decide how tests run,
//! wherever they are, but they may be part of the product too.

use std::collections::BTreeSet;
use std::path::Path;

use ralph_git::checkpoint::{BlobContent, Checkpoint, CheckpointError, CheckpointRepository};
use ralph_git::tree::TreeEntryMode;
use ralph_sys::clock::Deadline;

use crate::environment_changes::join_below;
use crate::file_class::{ClassRules, FileClass, classify_file};

/// Keys whose values are files that runners load.
const RUNNER_KEYS: [&str; 5] =
    ["setupFiles", "setupFilesAfterEnv", "globalSetup", "globalTeardown", "testEnvironment"];
/// The same, except that in `package.json` they mean something else.
const GENERIC_KEYS: [&str; 12] = [
    "transform",
    "require",
    "import",
    "loader",
    "preload",
    "runner",
    "resolver",
    "snapshotSerializers",
    "reporters",
    "reporter",
    "ui",
    "plugins",
];
const EXTENSIONS: [&str; 7] = ["", ".js", ".mjs", ".cjs", ".ts", ".mts", ".py"];
const MAX_SETTINGS: usize = 500;
const MAX_SETTINGS_BYTES: usize = 256 * 1024;
const MAX_ALL_BYTES: usize = 16 * 1024 * 1024;
const MAX_VALUE_BYTES: usize = 4_000;

/// The files of the base that its settings name or link to. Paths are relative to the project, `below` the work tree.
pub(crate) fn referenced_by_settings(
    repository: &CheckpointRepository,
    base: &Checkpoint,
    below: &Path,
    rules: &ClassRules,
    deadline: &Deadline,
) -> Result<BTreeSet<String>, CheckpointError> {
    let entries = repository.checkpoint_files(base, deadline)?;
    let in_project = |path: &Path| path.strip_prefix(below).ok()?.to_str().map(ToString::to_string);
    let paths: BTreeSet<String> =
        entries.iter().filter_map(|entry| in_project(Path::new(&entry.path))).collect();
    let mut settings = Vec::new();
    for entry in &entries {
        let Some(path) = in_project(Path::new(&entry.path)) else { continue };
        let is_manifest = path.rsplit('/').next() == Some("package.json");
        let class = classify_file(&path, rules).class;
        let is_link = entry.version.mode == TreeEntryMode::Symlink
            && matches!(class, FileClass::Harness | FileClass::Tests);
        let is_named =
            class == FileClass::Harness || is_manifest || path.ends_with("pyproject.toml");
        if (is_link || is_named) && settings.len() < MAX_SETTINGS {
            settings.push((path, entry, is_link));
        }
    }
    let ids: Vec<_> = settings.iter().map(|(_, entry, _)| entry.version.id).collect();
    let blobs = repository.read_blobs(&ids, MAX_SETTINGS_BYTES, MAX_ALL_BYTES, deadline)?;
    let mut found = BTreeSet::new();
    for (path, entry, is_link) in settings {
        let Some(BlobContent::Content(bytes)) = blobs.get(&entry.version.id) else { continue };
        let text = String::from_utf8_lossy(bytes);
        let words = if is_link { vec![text.to_string()] } else { loaded_words(&path, &text) };
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        for word in words {
            let candidates = [join_below(directory, &word), join_below("", &word)];
            found.extend(candidates.into_iter().flatten().find_map(|file| {
                EXTENSIONS
                    .iter()
                    .map(|extension| format!("{file}{extension}"))
                    .find(|file| paths.contains(file) && *file != path)
            }));
        }
    }
    Ok(found)
}

/// The words in the values of keys that name files to load, and the plug-ins of pytest.
fn loaded_words(path: &str, text: &str) -> Vec<String> {
    let is_manifest = path.ends_with("package.json");
    let generic: &[&str] = if is_manifest { &[] } else { &GENERIC_KEYS };
    let mut words = Vec::new();
    for key in RUNNER_KEYS.iter().chain(generic) {
        for (at, _) in text.match_indices(key) {
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let rest = text.get(at + key.len()..).unwrap_or_default();
            let is_inside = is_word(text.get(..at).and_then(|text| text.chars().next_back()))
                || is_word(rest.chars().next());
            if !is_inside {
                words.extend(split_words(value_text(rest)));
            }
        }
    }
    let mut rest = text;
    while let Some(at) = rest.find("-p ") {
        rest = rest.get(at + 3..).unwrap_or_default();
        let name = rest.split(|c: char| !(c.is_alphanumeric() || "._".contains(c))).next();
        words.extend(name.map(|name| name.replace('.', "/")));
    }
    words
}

/// The text of a value after its key: up to the closing bracket, or the end of the line.
fn value_text(rest: &str) -> &str {
    let start = rest.find(|c: char| !(c.is_whitespace() || ":=\"'".contains(c))).unwrap_or(0);
    let value = rest.get(start..).unwrap_or_default();
    let end = match value.chars().next() {
        Some('[') => value.find(']'),
        Some('{') => value.find('}'),
        // A list in YAML.
        Some('-') => value.find("\n\n"),
        _ => value.find('\n'),
    };
    let end = end.unwrap_or(value.len()).min(MAX_VALUE_BYTES);
    value.get(..end).unwrap_or_default()
}

fn split_words(value: &str) -> Vec<String> {
    let words = value.split(|c: char| c.is_whitespace() || "\"'`,[]{}()".contains(c));
    let words = words.filter(|word| word.contains(['/', '.'])).map(|word| {
        let word = word.trim_end_matches(':');
        word.strip_prefix("<rootDir>/").unwrap_or(word).to_string()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_the_files_that_runners_load() {
        let rows = [
            (
                "jest.config.js",
                "setupFiles: [\"./setup-jest.js\", 'a/b.js'],\n",
                "./setup-jest.js a/b.js",
            ),
            (
                "jest.config.js",
                "transform: { \"^.+$\": \"<rootDir>/tools/t.js\" }\n",
                "^.+$ tools/t.js",
            ),
            (".mocharc.yml", "require: ./hooks.js\nspec: x.js\n", "./hooks.js"),
            (".mocharc.yml", "require:\n  - ./hooks.js\n  - ./b.js\n", "./hooks.js ./b.js"),
            ("package.json", "\"exports\": { \"require\": \"./dist/a.cjs\" }", ""),
            ("package.json", "\"jest\": { \"setupFiles\": [\"./s.js\"] }", "./s.js"),
            ("pytest.ini", "addopts = -p tools.plugin -q\n", "tools/plugin"),
            ("vitest.config.ts", "const required = './x.js'\n", ""),
        ];
        for (path, text, expected) in rows {
            assert_eq!(loaded_words(path, text).join(" "), expected, "{text}");
        }
    }
}
