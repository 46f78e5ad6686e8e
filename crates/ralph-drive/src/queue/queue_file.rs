//! Reads a queue from a file or a directory and reports every mistake at its position.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_core::limits::{LimitDefinition, RUN_LIMITS};
use ralph_core::run_terms::{self, GoalTooLong};
use ralph_core::text;
use ralph_policy::config::ConfigProblem;
use ralph_sys::fs::{self, FileError};

use super::{QueueTask, TaskQueue, markdown_queue, toml_queue};

pub(super) const LARGEST: usize = 4 * 1024 * 1024;
pub(super) const MOST_TASKS: usize = 200;
const MOST_DEPENDENCIES: usize = 64;
const LONGEST_NAME: usize = 64;
const MOST_PROBLEMS: usize = 20;

/// The keys of a task besides its name, goal and limits.
const TERM_KEYS: [&str; 5] = ["after", "features", "plan", "complexity", "model"];

/// The keys of a task besides its name and goal.
pub(super) fn term_keys() -> impl Iterator<Item = &'static str> {
    TERM_KEYS.into_iter().chain(RUN_LIMITS.iter().map(|limit| limit.key))
}

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("{} in the queue", count_problems(.first.len() + .more))]
    Problems {
        first: Vec<ConfigProblem>,
        /// Number of problems that are not listed.
        more: usize,
    },
    #[error("cannot find `{}`", .0.display())]
    Missing(PathBuf),
    #[error("`{}` is not TOML, as a queue file must be", .0.display())]
    Markdown(PathBuf),
    #[error("`{}` links to a file outside the queue", .0.display())]
    LeadsOut(PathBuf),
    #[error("no tasks in `{}`", .0.display())]
    Empty(PathBuf),
    #[error("more than {MOST_TASKS} tasks in `{}`", .0.display())]
    TooMany(PathBuf),
    #[error("`{}` is not valid UTF-8", .0.display())]
    NoText(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
}

fn count_problems(problems: usize) -> String {
    if problems == 1 { "1 problem".to_owned() } else { format!("{problems} problems") }
}

/// A value and its position in the file.
#[derive(Clone, Debug)]
pub(super) struct QueueValue<T> {
    pub value: T,
    pub span: Range<usize>,
}

/// A file of the queue.
#[derive(Debug)]
pub(super) struct QueueFile {
    pub path: PathBuf,
    pub text: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct QueueProblems {
    first: Vec<ConfigProblem>,
    more: usize,
}

impl QueueProblems {
    pub(super) fn add(
        &mut self,
        page: &QueueFile,
        span: Range<usize>,
        (message, hint): (String, String),
    ) {
        if self.first.len() >= MOST_PROBLEMS {
            self.more += 1;
            return;
        }
        let hint = (!hint.is_empty()).then_some(hint);
        let (path, source) = (page.path.clone(), Arc::clone(&page.text));
        self.first.push(ConfigProblem { path, source, span, message, hint });
    }
}

/// A task before its dependencies are resolved.
#[derive(Debug)]
pub(super) struct QueueTaskDraft {
    pub file: usize,
    pub name: QueueValue<String>,
    pub after: Vec<QueueValue<String>>,
    pub task: QueueTask,
}

/// The state of reading a queue.
#[derive(Debug, Default)]
pub(super) struct QueueReader {
    pub files: Vec<QueueFile>,
    pub drafts: Vec<QueueTaskDraft>,
    pub problems: QueueProblems,
}

impl QueueReader {
    /// Adds a problem in the file that was opened last.
    pub(super) fn add_problem(
        &mut self,
        span: Range<usize>,
        message: String,
        hint: impl Into<String>,
    ) {
        if let Some(page) = self.files.last() {
            self.problems.add(page, span, (message, hint.into()));
        }
    }

    pub(super) fn open_file(&mut self, path: &Path) -> Result<Arc<str>, QueueError> {
        let bytes = fs::read(path, LARGEST)?;
        let text = String::from_utf8(bytes).map_err(|_| QueueError::NoText(path.to_owned()))?;
        let text: Arc<str> = text.into();
        self.files.push(QueueFile { path: path.to_owned(), text: Arc::clone(&text) });
        Ok(text)
    }

    /// Sets one of the [`term_keys`] except `after`. An invalid value becomes a problem.
    pub(super) fn set_term(
        &mut self,
        task: &mut QueueTask,
        key: &str,
        values: &[QueueValue<String>],
    ) {
        if matches!(key, "features" | "plan") {
            let paths: Vec<String> = values.iter().map(|value| value.value.clone()).collect();
            if let Some(empty) = values.iter().find(|value| value.value.is_empty()) {
                let span = empty.span.clone();
                self.add_problem(span, format!("`{key}` has an empty path"), "give a path");
            }
            if key == "plan" {
                task.terms.lists.plans = paths;
            } else {
                task.terms.lists.features = paths;
            }
            return;
        }
        let [value] = values else {
            let span = values.get(1).map_or(0..0, |value| value.span.clone());
            return self.add_problem(span, format!("`{key}` has more than one value"), "keep one");
        };
        if let Err(expected) = set_term(task, key, &value.value) {
            let message = format!("`{key}` cannot be `{}`", text::clean_line(&value.value, 60));
            self.add_problem(value.span.clone(), message, format!("expected {expected}"));
        }
    }

    /// Checks that a goal is neither empty nor too long.
    pub(super) fn check_goal(&mut self, goal: &str, span: Range<usize>) -> Vec<u8> {
        if goal.trim().is_empty() {
            self.add_problem(
                span,
                "the goal is empty".to_owned(),
                "write what the task is to achieve",
            );
        } else if let Err(error) = run_terms::check_goal_length(goal.as_bytes()) {
            self.add_problem(span, error.to_string(), GoalTooLong::HINT);
        }
        goal.as_bytes().to_vec()
    }
}

fn set_term(task: &mut QueueTask, key: &str, value: &str) -> Result<(), &'static str> {
    if let Some(limit) = LimitDefinition::by_key(key) {
        let given = limit.unit.parse(value).ok_or(limit.unit.expected_instead_of(value))?;
        // 0 would lift a limit of the queue.
        task.terms.limits.set(limit.kind, Some(given).filter(|it| *it > 0).ok_or("more than 0")?);
        return Ok(());
    }
    if key == "complexity" {
        let complexity = value.parse().ok().filter(|complexity| *complexity <= 10);
        task.terms.complexity = Some(complexity.ok_or("a number from 0 to 10")?);
        return Ok(());
    }
    let is_part = |char: char| char.is_ascii_alphanumeric() || "._-/:@[]".contains(char);
    let begins = value.starts_with(|char: char| char.is_ascii_alphanumeric());
    let is_name = begins && value.len() <= 200 && value.chars().all(is_part);
    task.model = Some(is_name.then(|| value.to_owned()).ok_or("a name such as `opus`")?);
    Ok(())
}

/// Reads a queue file, or a directory with one file per task. A queue with any problem is rejected as a whole.
pub fn read_queue(path: &Path) -> Result<TaskQueue, QueueError> {
    let source = fs::resolve(path).ok_or_else(|| QueueError::Missing(path.to_owned()))?;
    let mut reading = QueueReader::default();
    if fs::is_directory(&source) {
        markdown_queue::read_directory(&mut reading, &source)?;
    } else {
        toml_queue::read_file(&mut reading, &source)?;
    }
    if reading.drafts.len() > MOST_TASKS {
        return Err(QueueError::TooMany(source));
    }
    let tasks = resolve_dependencies(&mut reading);
    let QueueProblems { mut first, more } = reading.problems;
    // People read from top to bottom.
    first.sort_by(|one, other| (&one.path, one.span.start).cmp(&(&other.path, other.span.start)));
    if !first.is_empty() {
        return Err(QueueError::Problems { first, more });
    }
    if tasks.is_empty() {
        return Err(QueueError::Empty(source));
    }
    Ok(TaskQueue { source, tasks })
}

/// Resolves dependencies by name, and checks that names are unique and known and that there is no cycle.
fn resolve_dependencies(reading: &mut QueueReader) -> Vec<QueueTask> {
    let QueueReader { files: pages, drafts, problems } = reading;
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut add = |draft: &QueueTaskDraft, span: &Range<usize>, message: String, hint: String| {
        if let Some(page) = pages.get(draft.file) {
            problems.add(page, span.clone(), (message, hint));
        }
    };
    for (place, draft) in drafts.iter().enumerate() {
        let name = draft.name.value.as_str();
        if !is_task_name(name) {
            let message = format!("`{}` is not a valid task name", text::clean_line(name, 80));
            let hint =
                "use 1 to 64 letters, digits, `.`, `_` and `-`, starting with a letter or digit";
            add(draft, &draft.name.span, message, hint.to_owned());
        } else if places.insert(name, place).is_some() {
            let message = format!("duplicate task `{name}`");
            add(draft, &draft.name.span, message, "names must be unique in a queue".to_owned());
        }
    }
    let mut tasks = Vec::new();
    for (place, draft) in drafts.iter().enumerate() {
        let mut task = draft.task.clone();
        for needed in draft.after.iter().take(MOST_DEPENDENCIES) {
            let name = needed.value.as_str();
            match places.get(name) {
                Some(other) if *other == place => {
                    let message = format!("`{name}` depends on itself");
                    add(draft, &needed.span, message, "remove it from `after`".to_owned());
                }
                Some(other) if !task.after.contains(other) => task.after.push(*other),
                Some(_) => {}
                None => {
                    let message = format!("unknown task `{}`", text::clean_line(name, 80));
                    let near = text::nearest(name, places.keys().copied());
                    let hint = near.map_or_else(
                        || "`after` names other tasks of the queue".to_owned(),
                        |near| format!("did you mean `{near}`?"),
                    );
                    add(draft, &needed.span, message, hint);
                }
            }
        }
        if draft.after.len() > MOST_DEPENDENCIES {
            let message = format!("`after` names more than {MOST_DEPENDENCIES} tasks");
            add(draft, &draft.name.span, message, "name only direct dependencies".to_owned());
        }
        task.name.clone_from(&draft.name.value);
        tasks.push(task);
    }
    if let Some((place, circle)) = find_cycle(&tasks)
        && let Some(draft) = drafts.get(place)
    {
        let names: Vec<String> = circle
            .iter()
            .filter_map(|at| tasks.get(*at))
            .map(|task| format!("`{}`", task.name))
            .collect();
        let message = format!("tasks depend on each other: {}", names.join(" after "));
        add(draft, &draft.name.span, message, "remove one of them from `after`".to_owned());
    }
    tasks
}

pub(super) fn is_task_name(name: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name.len() <= LONGEST_NAME
        && name.chars().all(is_part)
}

/// A cycle of tasks that depend on each other, and the index of its first task.
fn find_cycle(tasks: &[QueueTask]) -> Option<(usize, Vec<usize>)> {
    let mut open: Vec<usize> = tasks.iter().map(|task| task.after.len()).collect();
    let mut free: Vec<usize> =
        (0..tasks.len()).filter(|task| open.get(*task) == Some(&0)).collect();
    let mut settled = vec![false; tasks.len()];
    while let Some(done) = free.pop() {
        if let Some(settled) = settled.get_mut(done) {
            *settled = true;
        }
        for (other, task) in tasks.iter().enumerate() {
            if task.after.contains(&done)
                && let Some(left) = open.get_mut(other)
            {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    free.push(other);
                }
            }
        }
    }
    let first = settled.iter().position(|settled| !settled)?;
    // Every remaining task depends on another remaining one, so following dependencies leads back to a task of the path.
    let mut path = vec![first];
    loop {
        let at = *path.last()?;
        let next = tasks.get(at)?.after.iter().find(|next| settled.get(**next) == Some(&false))?;
        if let Some(from) = path.iter().position(|seen| seen == next) {
            let mut cycle = path.split_off(from);
            cycle.push(*next);
            return Some((*next, cycle));
        }
        path.push(*next);
    }
}
