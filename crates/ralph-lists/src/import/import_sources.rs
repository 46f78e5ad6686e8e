//! Finds the files of other loop tools in a project and parses them.

use std::error::Error;
use std::path::{Path, PathBuf};

use ralph_core::text;

use super::ImportedContent;
use super::file_families::{
    FILE_DIRECTORIES, FileFamily, KNOWN_FILES, SPECIFICATIONS, SpecificationLayout, family_of_name,
    is_common_file, is_markdown,
};
use ralph_sys::fs::{self, FileError};

const MAX_IMPORT_BYTES: usize = 8 * 1024 * 1024;
const MAX_DIR_ENTRIES: usize = 2000;
/// Maximum number of files read per directory of plans or specifications.
const MAX_FILES_PER_DIR: usize = 50;

/// One file and its content, or the reason why it could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportSource {
    /// Relative to the project.
    pub path: String,
    pub family: FileFamily,
    pub content: Result<ImportedContent, String>,
}

/// Reads the known files below a directory, or the one given file.
pub fn find_sources(project: &Path, from: &Path) -> Vec<ImportSource> {
    let mut gathering = SourceSearch { project, visited: Vec::new(), sources: Vec::new() };
    if !fs::is_directory(from) {
        let name = from.strip_prefix(project).unwrap_or(from).to_string_lossy().into_owned();
        gathering.read_file(from, &name, family_of_name(&name));
        gathering.add_referenced_files(project);
        return gathering.sources;
    }
    for (name, family) in KNOWN_FILES {
        gathering.read_file(&from.join(name), name, family);
    }
    for directory in ["docs/plans", "doc/plans"] {
        gathering.add_plans(from, directory);
    }
    for layout in &SPECIFICATIONS {
        gathering.add_specifications(from, layout);
    }
    for one in &FILE_DIRECTORIES {
        for name in gathering.visible_names(from, one.directory, |name| (one.is_file)(name)) {
            let name = format!("{}/{name}", one.directory);
            gathering.read_file(&from.join(&name), &name, one.family);
        }
    }
    gathering.add_referenced_files(from);
    gathering.drop_common_files();
    gathering.sources
}

struct SourceSearch<'p> {
    project: &'p Path,
    visited: Vec<PathBuf>,
    sources: Vec<ImportSource>,
}

impl SourceSearch<'_> {
    /// Reads a file. A missing file, and one that was already read under another name, is skipped.
    fn read_file(&mut self, path: &Path, name: &str, family: FileFamily) {
        if fs::stat_no_follow(path).is_none() {
            return;
        }
        let content = match fs::resolve(path) {
            None => Err("it is a broken symbolic link".to_string()),
            Some(real) if !real.starts_with(self.project) => {
                Err("it resolves to a path outside the project".to_string())
            }
            Some(real) if self.visited.contains(&real) => return,
            Some(real) => {
                let content = read_text(&real).and_then(|text| family.parse(name, &text));
                self.visited.push(real);
                content
            }
        };
        self.sources.push(ImportSource { path: name.to_string(), family, content });
    }

    /// Adds plans with open items. The directory may contain other plans too: only those with commands belong to a loop.
    fn add_plans(&mut self, from: &Path, directory: &str) {
        for name in self.visible_names(from, directory, |name| is_markdown(name)) {
            let name = format!("{directory}/{name}");
            let before = self.sources.len();
            self.read_file(&from.join(&name), &name, FileFamily::Plan);
            let Some(source) = self.sources.get_mut(before) else { continue };
            if !leave_out_if_done(source) && !leave_out_without_checks(source) {
                self.sources.truncate(before);
            }
        }
    }

    /// Adds the tasks of specifications, and the documents of those with open tasks.
    fn add_specifications(&mut self, from: &Path, layout: &SpecificationLayout) {
        let directory = layout.directory;
        let is_wanted =
            |name: &String| !is_markdown(name) && !layout.excluded.contains(&name.as_str());
        for name in self.visible_names(from, directory, is_wanted) {
            let state = format!("{directory}/{name}/.ralph-state.json");
            self.read_file(&from.join(&state), &state, FileFamily::PlanState);
            let before = self.sources.len();
            let tasks = format!("{directory}/{name}/tasks.md");
            self.read_file(&from.join(&tasks), &tasks, FileFamily::Plan);
            let is_listed = self.sources.get_mut(before).map(leave_out_if_done);
            if is_listed == Some(true) {
                continue;
            }
            // Large changes have a file for each part: with boxes of its own, or a document that `tasks.md` names.
            let parts = format!("{directory}/{name}/tasks");
            for part in self.visible_names(from, &parts, |name| is_markdown(name)) {
                let part = format!("{parts}/{part}");
                self.read_file(&from.join(&part), &part, FileFamily::Plan);
            }
            let added = self.sources.get_mut(before..).unwrap_or_default();
            let open = added.iter_mut().filter_map(|source| {
                let has_items = source.content.as_ref().is_ok_and(|it| !it.features.is_empty());
                (has_items && !leave_out_if_done(source)).then_some(())
            });
            if open.count() == 0 && is_listed.is_none() {
                continue;
            }
            for document in layout.documents {
                let name = format!("{directory}/{name}/{document}");
                self.read_file(&from.join(&name), &name, FileFamily::Reference);
            }
            let inner = format!("{directory}/{name}/specs");
            for name in self.visible_names(from, &inner, |_| true) {
                let name = format!("{inner}/{name}/spec.md");
                self.read_file(&from.join(&name), &name, FileFamily::Reference);
            }
        }
    }

    /// A project without any other file has no loop.
    fn drop_common_files(&mut self) {
        let is_common = |source: &ImportSource| match &source.content {
            Ok(content) => is_common_file(&source.path) && content.features.is_empty(),
            Err(_) => false,
        };
        if self.sources.iter().all(is_common) {
            self.sources.clear();
        }
    }

    /// The names in a directory that are wanted and printable, at most [`MAX_FILES_PER_DIR`] of them. An unreadable
    /// directory is added as an unreadable source, and so is the first name beyond the limit.
    fn visible_names(
        &mut self,
        from: &Path,
        directory: &str,
        is_wanted: impl Fn(&String) -> bool,
    ) -> Vec<String> {
        let names = match fs::list(&from.join(directory), MAX_DIR_ENTRIES) {
            Ok(names) => names,
            Err(error) => {
                let is_known = self.sources.iter().any(|source| source.path == directory);
                if !error.is_missing() && !is_known {
                    let (path, content) = (directory.to_string(), Err(describe_cause(&error)));
                    self.sources.push(ImportSource { path, family: FileFamily::Plan, content });
                }
                return Vec::new();
            }
        };
        let names = names.into_iter().filter_map(|name| name.into_string().ok());
        let plain = names.filter(|name| text::clean(name) == *name && !name.contains('\n'));
        let mut names: Vec<String> = plain.filter(is_wanted).collect();
        let count = names.len();
        let rest = names.split_off(count.min(MAX_FILES_PER_DIR));
        self.sources.extend(rest.first().map(|name| ImportSource {
            path: format!("{directory}/{name}"),
            family: FileFamily::Plan,
            content: Err(format!("only the first {MAX_FILES_PER_DIR} of {count} names are read")),
        }));
        names
    }

    /// Adds the files that other files refer to.
    fn add_referenced_files(&mut self, from: &Path) {
        let content = self.sources.iter().filter_map(|source| source.content.as_ref().ok());
        let named: Vec<String> =
            content.flat_map(|content| content.referenced_files.clone()).collect();
        for name in named {
            let is_below = !name.starts_with('/') && !name.split('/').any(|part| part == "..");
            if is_below && !name.is_empty() {
                self.read_file(&from.join(&name), &name, FileFamily::Prompt);
            }
        }
    }
}

/// Leaves out the items of a task list that is done, and returns whether it is.
fn leave_out_if_done(source: &mut ImportSource) -> bool {
    let Ok(content) = &mut source.content else { return false };
    let is_done =
        !content.features.is_empty() && content.features.iter().all(|feature| feature.passes);
    if is_done {
        let count = content.features.len();
        *content = ImportedContent::default();
        let what = if count == 1 { "1 item".to_string() } else { format!("{count} items") };
        content.ignore_entry(&what, "", "the whole list is done");
    }
    is_done
}

/// Leaves out the items of a plan without commands. Returns whether the source is to be shown: a document without items is
/// not.
fn leave_out_without_checks(source: &mut ImportSource) -> bool {
    let Ok(content) = &mut source.content else { return true };
    let has_checks = !content.commands.is_empty()
        || content.features.iter().any(|feature| feature.verify.is_some());
    let count = content.features.len();
    if count > 0 && !has_checks {
        *content = ImportedContent::default();
        let what = if count == 1 { "1 item".to_string() } else { format!("{count} items") };
        content.ignore_entry(&what, "", "the plan has no commands; name the file to import it");
    }
    count > 0
}

/// Reads a file as the parsers expect it: UTF-8, without a byte order mark, with lines that end in `\n`.
fn read_text(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path, MAX_IMPORT_BYTES).map_err(|error| describe_cause(&error))?;
    decode_text(&bytes)
}

/// The cause alone, because the path is shown beside it.
fn describe_cause(error: &FileError) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

pub(super) fn decode_text(bytes: &[u8]) -> Result<String, String> {
    if matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        return Err("it is UTF-16, not UTF-8".to_string());
    }
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = memchr::memchr_iter(b'\n', before).count().saturating_add(1);
        format!("line {line}: it is not UTF-8")
    })?;
    Ok(text.replace("\r\n", "\n"))
}
