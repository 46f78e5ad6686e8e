//! Finds the files of other loop tools in a project and parses them.

use std::error::Error;
use std::path::{Path, PathBuf};

use ralph_core::text;

use super::{Kept, Understood, features, front_matter, markdown, plan_state, prd, shell_rc, yaml};
use ralph_sys::fs;

const LARGEST_FILE: usize = 8 * 1024 * 1024;
const MOST_ENTRIES: usize = 2000;
/// Maximum number of files read per directory of plans or specifications.
const MOST_OF_A_KIND: usize = 50;

/// Files with the same format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
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

impl Family {
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

    pub(super) fn read(self, text: &str) -> Result<Understood, String> {
        match self {
            Self::Stories => prd::read(text),
            Self::Features => features::read(text),
            Self::Plan => markdown::read(text),
            Self::Task => front_matter::task(text),
            Self::Tasks => yaml::tasks(text),
            Self::PlanState => plan_state::read(text),
            Self::LoopFile => front_matter::loop_file(text),
            Self::Settings => shell_rc::read(text),
            Self::Orchestrator => yaml::orchestrator(text),
            Self::Ralphy => yaml::ralphy(text),
            Self::Progress => whole(text, |text, into| into.progress = Some(text)),
            Self::Prompt => whole(text, |text, into| into.goal.push(text)),
            Self::Notes => whole(text, |text, into| {
                into.kept.push(Kept { key: "text".to_string(), line: Some(1), text });
            }),
        }
    }
}

fn whole(text: &str, put: fn(String, &mut Understood)) -> Result<Understood, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is empty".to_string());
    }
    let mut understood = Understood::default();
    put(text.to_string(), &mut understood);
    Ok(understood)
}

/// Known files, by precedence: where files contradict each other, the earlier one wins.
const KNOWN: [(&str, Family); 33] = [
    ("prd.json", Family::Stories),
    ("tasks/prd.json", Family::Stories),
    ("scripts/ralph/prd.json", Family::Stories),
    (".ralph/prd.json", Family::Stories),
    (".omc/prd.json", Family::Stories),
    ("feature_list.json", Family::Features),
    ("features.json", Family::Features),
    ("RALPH_TASK.md", Family::Task),
    (".ralph/ralph-tasks.md", Family::Plan),
    (".ralph/fix_plan.md", Family::Plan),
    (".ralph/@fix_plan.md", Family::Plan),
    ("fix_plan.md", Family::Plan),
    ("@fix_plan.md", Family::Plan),
    ("IMPLEMENTATION_PLAN.md", Family::Plan),
    (".ralph-state.json", Family::PlanState),
    ("tasks.md", Family::Plan),
    ("tasks.yaml", Family::Tasks),
    ("tasks.yml", Family::Tasks),
    (".ralph/tasks.yml", Family::Tasks),
    (".claude/plan-state.json", Family::PlanState),
    ("plan-state.json", Family::PlanState),
    (".claude/ralph-loop.local.md", Family::LoopFile),
    (".ralphrc", Family::Settings),
    ("ralph.yml", Family::Orchestrator),
    ("ralph.yaml", Family::Orchestrator),
    (".ralphy/config.yaml", Family::Ralphy),
    (".ralph/PROMPT.md", Family::Prompt),
    ("progress.txt", Family::Progress),
    ("claude-progress.txt", Family::Progress),
    (".ralph/progress.md", Family::Progress),
    ("scripts/ralph/progress.txt", Family::Progress),
    (".ralph/guardrails.md", Family::Notes),
    (".ralph/agent/scratchpad.md", Family::Notes),
];

/// One file and its content, or the reason why it could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Relative to the project.
    pub path: String,
    pub family: Family,
    pub said: Result<Understood, String>,
}

/// Reads the known files below a directory, or the one given file.
pub fn gather(project: &Path, from: &Path) -> Vec<Source> {
    let mut gathering = Gathering { project, seen: Vec::new(), sources: Vec::new() };
    if !fs::is_directory(from) {
        let name = from.strip_prefix(project).unwrap_or(from).to_string_lossy().into_owned();
        gathering.look(from, &name, family_of(&name));
        gathering.follow(project);
        return gathering.sources;
    }
    for (name, family) in KNOWN {
        gathering.look(&from.join(name), name, family);
    }
    gathering.plans(from);
    gathering.specifications(from);
    gathering.follow(from);
    gathering.sources
}

/// The family of a file, by its name or its extension.
fn family_of(name: &str) -> Family {
    let known = KNOWN.iter().find(|(known, _)| {
        let known = known.rsplit('/').next().unwrap_or(known);
        name.rsplit('/').next() == Some(known)
    });
    if name.ends_with(".ralphy/config.yaml") {
        return Family::Ralphy;
    }
    match (known, name.rsplit('.').next()) {
        (Some((_, family)), _) => *family,
        (None, Some("json")) => Family::Stories,
        (None, Some("yaml" | "yml")) => Family::Tasks,
        (None, Some("txt")) => Family::Progress,
        (None, _) => Family::Plan,
    }
}

struct Gathering<'p> {
    project: &'p Path,
    seen: Vec<PathBuf>,
    sources: Vec<Source>,
}

impl Gathering<'_> {
    /// Reads a file. A missing file, and one that was already read under another name, is skipped.
    fn look(&mut self, path: &Path, name: &str, family: Family) {
        if fs::stat_link(path).is_none() {
            return;
        }
        let content = match fs::resolve(path) {
            None => Err("it is a broken symbolic link".to_string()),
            Some(real) if !real.starts_with(self.project) => {
                Err("it resolves to a path outside the project".to_string())
            }
            Some(real) if self.seen.contains(&real) => return,
            Some(real) => {
                let content = text_of(&real).and_then(|text| family.read(&text));
                self.seen.push(real);
                content
            }
        };
        self.sources.push(Source { path: name.to_string(), family, said: content });
    }

    /// Adds plans with open items. `docs/plans` may contain other plans too: only those with validation commands belong to
    /// a loop.
    fn plans(&mut self, from: &Path) {
        let directory = "docs/plans";
        let is_markdown = |name: &String| name.to_ascii_lowercase().ends_with("md");
        for name in names(&from.join(directory)).filter(is_markdown) {
            let name = format!("{directory}/{name}");
            let before = self.sources.len();
            self.look(&from.join(&name), &name, Family::Plan);
            let is_plan = |source: &Source| match &source.said {
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
    fn specifications(&mut self, from: &Path) {
        for name in names(&from.join("specs")) {
            let state = format!("specs/{name}/.ralph-state.json");
            if !fs::exists(&from.join(&state)) {
                continue;
            }
            self.look(&from.join(&state), &state, Family::PlanState);
            let tasks = format!("specs/{name}/tasks.md");
            self.look(&from.join(&tasks), &tasks, Family::Plan);
        }
    }

    /// Adds the files that other files refer to.
    fn follow(&mut self, from: &Path) {
        let content = self.sources.iter().filter_map(|source| source.said.as_ref().ok());
        let named: Vec<String> = content.flat_map(|content| content.reads.clone()).collect();
        for name in named {
            let is_below = !name.starts_with('/') && !name.split('/').any(|part| part == "..");
            if is_below && !name.is_empty() {
                self.look(&from.join(&name), &name, Family::Prompt);
            }
        }
    }
}

fn names(directory: &Path) -> impl Iterator<Item = String> + use<> {
    let listed = fs::list(directory, MOST_ENTRIES).unwrap_or_default();
    let names = listed.into_iter().filter_map(|name| name.into_string().ok());
    let plain = names.filter(|name| text::clean(name) == *name && !name.contains('\n'));
    plain.take(MOST_OF_A_KIND)
}

/// Reads a file as the parsers expect it: UTF-8, without a byte order mark, with lines that end in `\n`.
fn text_of(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path, LARGEST_FILE).map_err(|error| {
        let cause = error.source().map(ToString::to_string);
        cause.unwrap_or_else(|| error.to_string())
    })?;
    decoded(&bytes)
}

pub(super) fn decoded(bytes: &[u8]) -> Result<String, String> {
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
