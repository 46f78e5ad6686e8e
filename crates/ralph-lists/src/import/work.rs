//! Imports one work item, whichever names its fields have, and the commands that check the whole project.

use super::tree::{self, Fields, Node};
use super::{Command, Feature, Kept, Understood};
use ralph_policy::detect;

const ID: &[&str] = &["id", "storyId", "taskId", "stepId", "key", "number"];
const TITLE: &[&str] = &["title", "name", "summary", "feature"];
const DESCRIPTION: &[&str] = &["description", "story", "content", "task", "prompt", "details"];
const STEPS: &[&str] = &[
    "steps",
    "acceptanceCriteria",
    "acceptance",
    "criteria",
    "implementationSteps",
    "testSteps",
    "expected",
];
const DONE: &[&str] = &["passes", "passed", "completed", "complete", "done", "finished"];
const AFTER: &[&str] = &["dependsOn", "deps", "dependencies", "blockedBy", "after"];
const CATEGORY: &[&str] = &["category", "phase", "epic", "component", "area", "group"];
const CHECK: &[&str] = &["verify", "verifyCommand", "testCommand", "check", "completionCriteria"];
const PARTS: &[&str] = &["subtasks", "tasks", "children"];

/// Whether a status means done or not done; `None` if it means something else.
fn is_done(status: &str) -> Option<bool> {
    let status = status.trim().to_ascii_lowercase().replace(['-', '_'], " ");
    match status.as_str() {
        "true" | "yes" | "done" | "complete" | "completed" | "verified" | "passed" | "passing"
        | "pass" | "closed" | "finished" => Some(true),
        "false" | "no" | "todo" | "to do" | "pending" | "open" | "new" | "failing" | "failed"
        | "fail" | "not started" | "planned" => Some(false),
        _ => None,
    }
}

/// Imports every work item of a list, or of a map from ids to items.
pub(super) fn read_all(list: &Node, category: Option<&str>, into: &mut Understood) {
    match list {
        Node::List(items) => {
            for item in items.iter().filter(|item| !tree::is_nothing(item)) {
                read(item, None, category, into);
            }
        }
        Node::Map(entries) => {
            for (id, item) in entries {
                read(item, Some(id), category, into);
            }
        }
        Node::Text(text) => into.keep("list", None, text),
    }
}

fn read(item: &Node, key: Option<&str>, category: Option<&str>, into: &mut Understood) {
    if item.entries().is_empty() {
        into.features.push(Feature {
            id: key.unwrap_or_default().to_string(),
            description: tree::inline(item),
            category: category.map(str::to_string),
            ..Feature::default()
        });
        return;
    }
    let mut fields = Fields::of(item);
    let mut feature = Feature {
        id: fields.text(ID).or(key).unwrap_or_default().to_string(),
        description: described(&mut fields),
        ..Feature::default()
    };
    let parts =
        fields.take(PARTS).filter(|parts| parts.items().iter().any(|it| it.text().is_none()));
    if let Some(parts) = parts {
        let group = if feature.description.is_empty() { &feature.id } else { &feature.description };
        read_all(parts, Some(group), into);
        for (key, node) in fields.rest() {
            into.keep(&format!("{group}: {key}"), None, &tree::shown(node));
        }
        return;
    }
    while let Some(steps) = fields.take(STEPS) {
        feature.steps.extend(tree::lines(steps));
    }
    let mut notes = Vec::new();
    feature.passes = passes(&mut fields, &mut notes);
    feature.priority = fields.text(&["priority"]).map(str::to_string);
    feature.after = fields.take(AFTER).map(tree::lines).unwrap_or_default();
    feature.category = fields.text(CATEGORY).or(category).map(str::to_string);
    while let Some(check) = fields.take(CHECK) {
        let (commands, prose) = commands(check);
        feature.steps.extend(prose);
        match (commands.as_slice(), feature.verify.is_none()) {
            ([Check::Words(words)], true) => feature.verify = Some(words.clone()),
            _ => into.commands.extend(commands.into_iter().map(|check| Command {
                label: feature.id.clone(),
                text: match check {
                    Check::Words(words) => words.join(" "),
                    Check::Text(text) => text,
                },
            })),
        }
    }
    for (key, node) in fields.rest() {
        let is_short = match node {
            Node::Text(text) => !text.contains('\n'),
            Node::List(items) => items.len() == 1 && items.iter().all(|item| item.text().is_some()),
            Node::Map(_) => false,
        };
        notes.push(match (matches!(key, "notes" | "note"), is_short) {
            (true, _) => tree::shown(node),
            (false, true) => format!("{key}: {}", tree::inline(node)),
            (false, false) => format!("{key}:\n{}", tree::shown(node)),
        });
    }
    feature.notes = (!notes.is_empty()).then(|| notes.join("\n"));
    into.features.push(feature);
}

fn described(fields: &mut Fields<'_>) -> String {
    let title = fields.text(TITLE).unwrap_or_default().trim();
    let description = fields.text(DESCRIPTION).unwrap_or_default().trim();
    match (title, description) {
        (title, "") => title.to_string(),
        ("", description) => description.to_string(),
        (title, description) if description.starts_with(title) => description.to_string(),
        (title, description) => format!("{}: {description}", title.trim_end_matches([':', '.'])),
    }
}

fn passes(fields: &mut Fields<'_>, notes: &mut Vec<String>) -> bool {
    let flag = fields.text(DONE);
    let status = fields.text(&["status", "state"]);
    for value in [flag, status].into_iter().flatten() {
        if is_done(value).is_none() {
            notes.push(format!("status: {}", value.trim()));
        }
    }
    flag.or(status).and_then(is_done).unwrap_or(false)
}

enum Check {
    Words(Vec<String>),
    /// Needs a shell, or does more than check.
    Text(String),
}

/// Splits a check into commands and prose criteria. A list of single words that starts with a program is one command.
fn commands(node: &Node) -> (Vec<Check>, Vec<String>) {
    let texts = tree::lines(node);
    let is_argv = matches!(node, Node::List(_))
        && texts.len() > 1
        && texts.first().is_some_and(|first| is_command(first))
        && texts.get(1..).unwrap_or_default().iter().all(|word| !is_command(word));
    if is_argv && texts.iter().all(|word| !word.contains(' ')) {
        return (vec![Check::Words(texts)], Vec::new());
    }
    let (commands, prose): (Vec<_>, Vec<_>) = texts.into_iter().partition(|text| is_command(text));
    let check = |text: String| detect::simple(&text).map_or(Check::Text(text), Check::Words);
    (commands.into_iter().map(check).collect(), prose)
}

/// Programs that checks of other tools start with.
const PROGRAMS: [&str; 48] = [
    "bash",
    "biome",
    "bun",
    "bunx",
    "bundle",
    "cargo",
    "cat",
    "cmake",
    "composer",
    "ctest",
    "deno",
    "diff",
    "dotnet",
    "eslint",
    "go",
    "gradle",
    "grep",
    "jest",
    "just",
    "ls",
    "make",
    "mix",
    "mvn",
    "mypy",
    "node",
    "npm",
    "npx",
    "php",
    "phpunit",
    "playwright",
    "pnpm",
    "poetry",
    "prettier",
    "pytest",
    "python",
    "python3",
    "rake",
    "rspec",
    "ruff",
    "sh",
    "swift",
    "task",
    "test",
    "tsc",
    "uv",
    "vitest",
    "yarn",
    "zig",
];

/// Whether a text is a command rather than a sentence.
pub(super) fn is_command(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_sentence = matches!(first, "test" | "make" | "go" | "task" | "just" | "diff")
        && words.next().is_none_or(|second| {
            matches!(second, "the" | "a" | "an" | "that" | "if" | "sure" | "to" | "is")
        });
    first.starts_with("./") || (PROGRAMS.contains(&first) && !is_sentence)
}

/// The command that exactly one step names as the check: `Verify: ` followed only by code.
pub(super) fn check_of(steps: &[String]) -> Option<Vec<String>> {
    let mut found = None;
    for step in steps {
        let plain = step.replace("**", "");
        let Some((label, rest)) = plain.split_once(':') else { continue };
        let label = label.trim().trim_matches('_').to_ascii_lowercase();
        if !matches!(label.as_str(), "verify" | "verification" | "check" | "test") {
            continue;
        }
        let code = rest.trim().trim_end_matches('.');
        let code = code.strip_prefix('`').and_then(|code| code.strip_suffix('`'));
        let Some(words) = code.filter(|code| !code.contains('`')).and_then(detect::simple) else {
            continue;
        };
        if found.is_some() {
            return None;
        }
        found = Some(words);
    }
    found
}

impl Understood {
    pub(super) fn keep(&mut self, key: &str, line: Option<u32>, text: &str) {
        if !text.trim().is_empty() {
            self.kept.push(Kept { key: key.to_string(), line, text: text.trim_end().to_string() });
        }
    }

    /// Keeps the remaining entries of a file, with their lines.
    pub(super) fn keep_rest(&mut self, text: &str, fields: Fields<'_>) {
        for (key, node) in fields.rest() {
            self.keep(key, tree::line_of(text, key), &tree::shown(node));
        }
    }

    /// Adds commands that check the whole project: by name, in objects, or as a list. Other entries of an object are kept.
    pub(super) fn declare(&mut self, node: &Node) {
        match node {
            Node::Map(entries) => {
                for (label, node) in entries {
                    self.declare_one(label, node);
                }
            }
            Node::List(items) => {
                for item in items {
                    self.declare_one("", item);
                }
            }
            Node::Text(_) => self.declare_one("", node),
        }
    }

    fn declare_one(&mut self, label: &str, node: &Node) {
        let mut fields = Fields::of(node);
        let label = fields.text(&["name"]).unwrap_or(label).to_string();
        let command = match node {
            Node::Map(_) => fields.take(&["command", "run", "cmd"]),
            Node::List(_) | Node::Text(_) => Some(node),
        };
        let text = match command {
            Some(Node::List(words)) => words.iter().map(tree::inline).collect::<Vec<_>>().join(" "),
            Some(other) => tree::inline(other),
            None => String::new(),
        };
        for (key, node) in fields.rest() {
            self.keep(format!("{label}: {key}").trim_start_matches(": "), None, &tree::shown(node));
        }
        if !text.trim().is_empty() && text != "null" {
            self.commands.push(Command { label, text });
        }
    }
}
