//! A queue as somebody wrote it, with every mistake at its place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_core::limits::parse_micro_usd;
use ralph_core::text;
use ralph_policy::config::Problem;
use ralph_sys::fs::{self, FileError};

use super::{Queue, Task, markdown, table};

pub(super) const LARGEST: usize = 4 * 1024 * 1024;
pub(super) const MOST_TASKS: usize = 200;
const MOST_NAMES: usize = 64;
const LONGEST_NAME: usize = 64;
const LONGEST_GOAL: usize = 1024 * 1024;
const MOST_PROBLEMS: usize = 20;

/// What a task may say, beside its name and its goal.
pub(super) const TERMS: [&str; 7] =
    ["after", "features", "plan", "complexity", "model", "max_iterations", "max_cost_usd"];

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("{} in the queue", count(.first.len() + .more))]
    Problems {
        first: Vec<Problem>,
        /// How many there are beside these.
        more: usize,
    },
    #[error("cannot find `{}`", .0.display())]
    Missing(PathBuf),
    #[error("`{}` is a link that leads out of the queue", .0.display())]
    LeadsOut(PathBuf),
    #[error("there is no task in `{}`", .0.display())]
    Empty(PathBuf),
    #[error("there are more than {MOST_TASKS} tasks in `{}`", .0.display())]
    TooMany(PathBuf),
    #[error("`{}` is no text in UTF-8", .0.display())]
    NoText(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
}

fn count(problems: usize) -> String {
    if problems == 1 { "1 problem".to_owned() } else { format!("{problems} problems") }
}

/// A word that was written, and where.
#[derive(Clone, Debug)]
pub(super) struct Written<T> {
    pub value: T,
    pub span: Range<usize>,
}

/// A file, and what is wrong in it.
#[derive(Debug)]
pub(super) struct Page {
    pub path: PathBuf,
    pub text: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct Problems {
    first: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(super) fn add(
        &mut self,
        page: &Page,
        span: Range<usize>,
        (message, hint): (String, String),
    ) {
        if self.first.len() >= MOST_PROBLEMS {
            self.more += 1;
            return;
        }
        let hint = (!hint.is_empty()).then_some(hint);
        let (path, source) = (page.path.clone(), Arc::clone(&page.text));
        self.first.push(Problem { path, source, span, message, hint });
    }
}

/// A task as it is written: the tasks that it names may not be there.
#[derive(Debug)]
pub(super) struct Draft {
    pub page: usize,
    pub name: Written<String>,
    pub after: Vec<Written<String>>,
    pub task: Task,
}

/// All of a queue while it is read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub pages: Vec<Page>,
    pub drafts: Vec<Draft>,
    pub problems: Problems,
}

impl Reading {
    /// Problems of the page that was opened last.
    pub(super) fn problem(&mut self, span: Range<usize>, message: String, hint: impl Into<String>) {
        if let Some(page) = self.pages.last() {
            self.problems.add(page, span, (message, hint.into()));
        }
    }

    pub(super) fn open(&mut self, path: &Path) -> Result<Arc<str>, QueueError> {
        let bytes = fs::read(path, LARGEST)?;
        let text = String::from_utf8(bytes).map_err(|_| QueueError::NoText(path.to_owned()))?;
        let text: Arc<str> = text.into();
        self.pages.push(Page { path: path.to_owned(), text: Arc::clone(&text) });
        Ok(text)
    }

    /// One of the [`TERMS`] but `after`, from the words of its value. What is wrong with it is a problem.
    pub(super) fn term(&mut self, task: &mut Task, key: &str, values: &[Written<String>]) {
        if matches!(key, "features" | "plan") {
            let paths: Vec<PathBuf> =
                values.iter().map(|value| PathBuf::from(&value.value)).collect();
            if let Some(empty) = values.iter().find(|value| value.value.is_empty()) {
                let span = empty.span.clone();
                self.problem(span, format!("`{key}` has an empty name"), "name a path");
            }
            if key == "plan" {
                task.plans = paths;
            } else {
                task.features = paths;
            }
            return;
        }
        let [value] = values else {
            let span = values.get(1).map_or(0..0, |value| value.span.clone());
            return self.problem(
                span,
                format!("`{key}` has more than one value"),
                "keep one of them",
            );
        };
        if let Err(expected) = set(task, key, &value.value) {
            let says = format!("`{key}` cannot be `{}`", text::line(&value.value, 60));
            self.problem(value.span.clone(), says, expected);
        }
    }

    /// A goal that there is, and that is no data set.
    pub(super) fn goal(&mut self, goal: &str, span: Range<usize>) -> String {
        if goal.trim().is_empty() {
            self.problem(span, "the goal is empty".to_owned(), "write what is to be reached");
        } else if goal.len() > LONGEST_GOAL {
            let says = format!("the goal is longer than {} KiB", LONGEST_GOAL / 1024);
            self.problem(span, says, "put what is long into files of the project");
        }
        goal.to_owned()
    }
}

fn set(task: &mut Task, key: &str, value: &str) -> Result<(), &'static str> {
    match key {
        "complexity" => {
            let complexity = value.parse().ok().filter(|complexity| *complexity <= 10);
            task.complexity = Some(complexity.ok_or("expected a number from 0 to 10")?);
        }
        "max_iterations" => {
            let most = value.parse().ok().filter(|most| *most > 0);
            task.max_iterations = Some(most.ok_or("a number from 1 is needed")?);
        }
        "max_cost_usd" => {
            let most = parse_micro_usd(value).filter(|most| *most > 0);
            task.max_cost_micro_usd =
                Some(most.ok_or("an amount of USD is needed, such as `2.50`")?);
        }
        _ => {
            let is_part = |char: char| char.is_ascii_alphanumeric() || "._-/:@[]".contains(char);
            let begins = value.starts_with(|char: char| char.is_ascii_alphanumeric());
            let is_name = begins && value.len() <= 200 && value.chars().all(is_part);
            task.model =
                Some(is_name.then(|| value.to_owned()).ok_or("a name such as `opus` is needed")?);
        }
    }
    Ok(())
}

/// Reads a file, or a directory with a file for each task. Nothing is begun while anything is wrong.
pub fn read(path: &Path) -> Result<Queue, QueueError> {
    let source = fs::resolve(path).ok_or_else(|| QueueError::Missing(path.to_owned()))?;
    let mut reading = Reading::default();
    if fs::is_directory(&source) {
        markdown::read(&mut reading, &source)?;
    } else {
        table::read(&mut reading, &source)?;
    }
    if reading.drafts.len() > MOST_TASKS {
        return Err(QueueError::TooMany(source));
    }
    let tasks = linked(&mut reading);
    let Problems { mut first, more } = reading.problems;
    // People read from top to bottom.
    first.sort_by(|one, other| (&one.path, one.span.start).cmp(&(&other.path, other.span.start)));
    if !first.is_empty() {
        return Err(QueueError::Problems { first, more });
    }
    if tasks.is_empty() {
        return Err(QueueError::Empty(source));
    }
    Ok(Queue { source, tasks })
}

/// Tasks by their names: each name once, each that is named there, and no circle.
fn linked(reading: &mut Reading) -> Vec<Task> {
    let Reading { pages, drafts, problems } = reading;
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut add = |draft: &Draft, span: &Range<usize>, says: String, hint: String| {
        if let Some(page) = pages.get(draft.page) {
            problems.add(page, span.clone(), (says, hint));
        }
    };
    for (place, draft) in drafts.iter().enumerate() {
        let name = draft.name.value.as_str();
        if !is_name(name) {
            let says = format!("`{}` is no name for a task", text::line(name, 80));
            let hint = "a name is 1 to 64 letters, digits, `.`, `_` and `-`, and begins with a letter or digit";
            add(draft, &draft.name.span, says, hint.to_owned());
        } else if places.insert(name, place).is_some() {
            let says = format!("there is another task `{name}`");
            add(draft, &draft.name.span, says, "names are unique in a queue".to_owned());
        }
    }
    let mut tasks = Vec::new();
    for (place, draft) in drafts.iter().enumerate() {
        let mut task = draft.task.clone();
        for needed in draft.after.iter().take(MOST_NAMES) {
            let name = needed.value.as_str();
            match places.get(name) {
                Some(other) if *other == place => {
                    let says = format!("`{name}` is to come after itself");
                    add(draft, &needed.span, says, "take it out of `after`".to_owned());
                }
                Some(other) if !task.after.contains(other) => task.after.push(*other),
                Some(_) => {}
                None => {
                    let says = format!("there is no task `{}`", text::line(name, 80));
                    let near = text::nearest(name, places.keys().copied());
                    let hint = near.map_or_else(
                        || "`after` names other tasks of the queue".to_owned(),
                        |near| format!("did you mean `{near}`?"),
                    );
                    add(draft, &needed.span, says, hint);
                }
            }
        }
        if draft.after.len() > MOST_NAMES {
            let says = format!("`after` names more than {MOST_NAMES} tasks");
            add(draft, &draft.name.span, says, "name those that the others come after".to_owned());
        }
        task.name.clone_from(&draft.name.value);
        tasks.push(task);
    }
    if let Some((place, circle)) = circle(&tasks)
        && let Some(draft) = drafts.get(place)
    {
        let names: Vec<String> = circle
            .iter()
            .filter_map(|at| tasks.get(*at))
            .map(|task| format!("`{}`", task.name))
            .collect();
        let says = format!("tasks wait for each other: {}", names.join(" after "));
        add(draft, &draft.name.span, says, "take one of them out of `after`".to_owned());
    }
    tasks
}

pub(super) fn is_name(name: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name.len() <= LONGEST_NAME
        && name.chars().all(is_part)
}

/// Tasks of which each comes after the next, the last after the first, and the place of the first.
fn circle(tasks: &[Task]) -> Option<(usize, Vec<usize>)> {
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
    // Whoever is left waits for one that is left: going on like that leads back to somebody seen before.
    let mut way = vec![first];
    loop {
        let at = *way.last()?;
        let next = tasks.get(at)?.after.iter().find(|next| settled.get(**next) == Some(&false))?;
        if let Some(from) = way.iter().position(|seen| seen == next) {
            let mut circle = way.split_off(from);
            circle.push(*next);
            return Some((*next, circle));
        }
        way.push(*next);
    }
}
