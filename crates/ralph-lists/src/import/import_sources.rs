//! Finds the files of other loop tools in a project and parses them.

use std::error::Error;
use std::path::{Path, PathBuf};

use ralph_core::text;

use super::{
    ImportedContent, KeptText, feature_list, front_matter, markdown, plan_state, prd, shell_rc,
    yaml_files,
};
use ralph_sys::fs::{self, FileError};

const MAX_IMPORT_BYTES: usize = 8 * 1024 * 1024;
const MAX_DIR_ENTRIES: usize = 2000;
/// Maximum number of files read per directory of plans or specifications.
const MAX_FILES_PER_DIR: usize = 50;

/// Files with the same format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFamily {
    Stories,
    Features,
    Plan,
    Task,
    Tasks,
    PlanState,
    LoopFile,
    Settings,
    Orchestrator,
    Ralphy,
    Progress,
    Prompt,
    Notes,
}

impl FileFamily {
    pub fn name(self) -> &'static str {
        match self {
            Self::Stories => "stories",
            Self::Features => "features",
            Self::Plan => "plan",
            Self::Task => "task",
            Self::Tasks => "tasks",
            Self::PlanState => "plan state",
            Self::LoopFile => "loop",
            Self::Settings | Self::Orchestrator | Self::Ralphy => "settings",
            Self::Progress => "progress",
            Self::Prompt => "prompt",
            Self::Notes => "notes",
        }
    }

    pub(super) fn parse(self, text: &str) -> Result<ImportedContent, String> {
        match self {
            Self::Stories => prd::import_prd(text),
            Self::Features => feature_list::import_feature_list(text),
            Self::Plan => markdown::import_plan(text),
            Self::Task => front_matter::import_task(text),
            Self::Tasks => yaml_files::import_tasks(text),
            Self::PlanState => plan_state::import_plan_state(text),
            Self::LoopFile => front_matter::import_loop_file(text),
            Self::Settings => shell_rc::import_shell_rc(text),
            Self::Orchestrator => yaml_files::import_orchestrator(text),
            Self::Ralphy => yaml_files::import_ralphy(text),
            Self::Progress => import_whole_text(text, |text, into| into.progress = Some(text)),
            Self::Prompt => import_whole_text(text, |text, into| into.goal.push(text)),
            Self::Notes => import_whole_text(text, |text, into| {
                into.kept.push(KeptText { key: "text".to_string(), line: Some(1), text });
            }),
        }
    }
}

fn import_whole_text(
    text: &str,
    put: fn(String, &mut ImportedContent),
) -> Result<ImportedContent, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is empty".to_string());
    }
    let mut understood = ImportedContent::default();
    put(text.to_string(), &mut understood);
    Ok(understood)
}

/// Known files, by precedence: where files contradict each other, the earlier one wins.
const KNOWN_FILES: [(&str, FileFamily); 33] = [
    ("prd.json", FileFamily::Stories),
    ("tasks/prd.json", FileFamily::Stories),
    ("scripts/ralph/prd.json", FileFamily::Stories),
    (".ralph/prd.json", FileFamily::Stories),
    (".omc/prd.json", FileFamily::Stories),
    ("feature_list.json", FileFamily::Features),
    ("features.json", FileFamily::Features),
    ("RALPH_TASK.md", FileFamily::Task),
    (".ralph/ralph-tasks.md", FileFamily::Plan),
    (".ralph/fix_plan.md", FileFamily::Plan),
    (".ralph/@fix_plan.md", FileFamily::Plan),
    ("fix_plan.md", FileFamily::Plan),
    ("@fix_plan.md", FileFamily::Plan),
    ("IMPLEMENTATION_PLAN.md", FileFamily::Plan),
    (".ralph-state.json", FileFamily::PlanState),
    ("tasks.md", FileFamily::Plan),
    ("tasks.yaml", FileFamily::Tasks),
    ("tasks.yml", FileFamily::Tasks),
    (".ralph/tasks.yml", FileFamily::Tasks),
    (".claude/plan-state.json", FileFamily::PlanState),
    ("plan-state.json", FileFamily::PlanState),
    (".claude/ralph-loop.local.md", FileFamily::LoopFile),
    (".ralphrc", FileFamily::Settings),
    ("ralph.yml", FileFamily::Orchestrator),
    ("ralph.yaml", FileFamily::Orchestrator),
    (".ralphy/config.yaml", FileFamily::Ralphy),
    (".ralph/PROMPT.md", FileFamily::Prompt),
    ("progress.txt", FileFamily::Progress),
    ("claude-progress.txt", FileFamily::Progress),
    (".ralph/progress.md", FileFamily::Progress),
    ("scripts/ralph/progress.txt", FileFamily::Progress),
    (".ralph/guardrails.md", FileFamily::Notes),
    (".ralph/agent/scratchpad.md", FileFamily::Notes),
];

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
    gathering.add_plans(from);
    gathering.add_specifications(from);
    gathering.add_referenced_files(from);
    gathering.sources
}

/// The family of a file, by its name or its extension.
fn family_of_name(name: &str) -> FileFamily {
    let known = KNOWN_FILES.iter().find(|(known, _)| {
        let known = known.rsplit('/').next().unwrap_or(known);
        name.rsplit('/').next() == Some(known)
    });
    if name.ends_with(".ralphy/config.yaml") {
        return FileFamily::Ralphy;
    }
    match (known, name.rsplit('.').next()) {
        (Some((_, family)), _) => *family,
        (None, Some("json")) => FileFamily::Stories,
        (None, Some("yaml" | "yml")) => FileFamily::Tasks,
        (None, Some("txt")) => FileFamily::Progress,
        (None, _) => FileFamily::Plan,
    }
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
                let content = read_text(&real).and_then(|text| family.parse(&text));
                self.visited.push(real);
                content
            }
        };
        self.sources.push(ImportSource { path: name.to_string(), family, content });
    }

    /// Adds plans with open items. `docs/plans` may contain other plans too: only those with validation commands belong to
    /// a loop.
    fn add_plans(&mut self, from: &Path) {
        let directory = "docs/plans";
        let is_markdown = |name: &String| name.to_ascii_lowercase().ends_with("md");
        for name in self.visible_names(from, directory, is_markdown) {
            let name = format!("{directory}/{name}");
            let before = self.sources.len();
            self.read_file(&from.join(&name), &name, FileFamily::Plan);
            let is_plan = |source: &ImportSource| match &source.content {
                Ok(content) => {
                    !content.commands.is_empty()
                        && content.features.iter().any(|feature| !feature.passes)
                }
                Err(_) => true,
            };
            if self.sources.get(before).is_some_and(|source| !is_plan(source)) {
                self.sources.truncate(before);
            }
        }
    }

    /// Adds specifications whose tasks are in progress, which have a state file.
    fn add_specifications(&mut self, from: &Path) {
        for name in self.visible_names(from, "specs", |_| true) {
            let state = format!("specs/{name}/.ralph-state.json");
            if !fs::exists(&from.join(&state)) {
                continue;
            }
            self.read_file(&from.join(&state), &state, FileFamily::PlanState);
            let tasks = format!("specs/{name}/tasks.md");
            self.read_file(&from.join(&tasks), &tasks, FileFamily::Plan);
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
                if !error.is_missing() {
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
