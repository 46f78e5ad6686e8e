//! Checks that are already declared for other loop tools, or written down for agents.
//!
//! | file | imported |
//! |---|---|
//! | `RALPH_TASK.md` | `test_command` of its front matter |
//! | `docs/plans/*.md` | the commands under `## Validation Commands` |
//! | `.ralph.toml` | `task.orchestrate.verify_commands` |
//! | `.ralphy/config.yaml` | `commands.test`, `lint`, `build` |
//! | `.validator/`, `.gauntlet/` | `checks` of `config.yml`, and `checks/*.yml` |
//! | `.claude/gates.json` | `gates`: commands by name |
//! | `ralph.yml` | `backpressure.gates` |
//! | `ralphai.json` | `feedbackCommands` |
//! | `AGENTS.md`, `CLAUDE.md` | fenced commands under a heading about tests |

use serde_json::Value;

use super::command::{self, Origin, Script};
use super::draft::Draft;
use super::place::{Notes, Place};
use super::yaml::{self, Node};

const MOST_PLANS: usize = 50;

pub(super) fn look(root: &Place<'_>, known: &[Draft], notes: &mut Notes) -> Vec<Draft> {
    let mut scripts = Vec::new();
    scripts.extend(task_file(root, notes));
    scripts.extend(plans(root, notes));
    scripts.extend(toml_settings(root, notes));
    scripts.extend(ralphy(root, notes));
    scripts.extend(validator(root, notes));
    scripts.extend(gates_json(root, notes));
    scripts.extend(orchestrator(root, notes));
    scripts.extend(feedback(root, notes));
    for file in ["AGENTS.md", "CLAUDE.md"] {
        scripts.extend(instructions(root, file, notes));
    }
    command::import(root, scripts, known, notes)
}

fn declared(source: &str, label: &str, text: &str) -> Option<Script> {
    let text = text.trim();
    (!text.is_empty()).then(|| Script {
        source: source.to_string(),
        text: text.to_string(),
        cwd: String::new(),
        label: Some(label.to_string()).filter(|label| !label.is_empty()),
        origin: Origin::Declared,
    })
}

/// Reads an optional file; a missing one is not noted.
fn optional(root: &Place<'_>, file: &str, notes: &mut Notes) -> Option<String> {
    if ralph_sys::fs::exists(&root.path(file)) { root.text(file, notes) } else { None }
}

fn yaml_file(root: &Place<'_>, file: &str, notes: &mut Notes) -> Option<Node> {
    let text = optional(root, file, notes)?;
    match yaml::read(&text) {
        Ok(node) => Some(node),
        Err(why) => {
            notes.add(&format!("`{file}` was not read: {why}"));
            None
        }
    }
}

fn json_file(root: &Place<'_>, file: &str, notes: &mut Notes) -> Option<Value> {
    let text = optional(root, file, notes)?;
    let json = serde_json::from_str(&text).ok();
    if json.is_none() {
        notes.add(&format!("`{file}` is not valid JSON"));
    }
    json
}

fn task_file(root: &Place<'_>, notes: &mut Notes) -> Option<Script> {
    let file = "RALPH_TASK.md";
    let text = optional(root, file, notes)?;
    let front = text.strip_prefix("---\n")?.split_once("\n---")?.0;
    let settings = yaml::read(front).ok()?;
    declared(file, "tests", settings.get("test_command")?.text()?)
}

fn plans(root: &Place<'_>, notes: &mut Notes) -> Vec<Script> {
    let mut scripts = Vec::new();
    let directory = "docs/plans";
    let is_plan = |name: &String| name.to_ascii_lowercase().ends_with(".md");
    for name in root.list(directory).into_iter().filter(is_plan).take(MOST_PLANS) {
        let file = format!("{directory}/{name}");
        let Some(text) = root.text(&file, notes) else { continue };
        for command in listed_commands(&text) {
            scripts.extend(declared(&file, "", &command));
        }
    }
    scripts
}

/// The commands of the list under `## Validation Commands`: the text in backticks, or else the whole item.
fn listed_commands(plan: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut is_there = false;
    for line in plan.lines() {
        let line = line.trim();
        if let Some(heading) = line.strip_prefix("##") {
            is_there =
                heading.trim_start_matches('#').trim().eq_ignore_ascii_case("validation commands");
            continue;
        }
        let item = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
        let Some(item) = item.filter(|_| is_there) else { continue };
        let item = item.trim_start_matches("[ ] ").trim_start_matches("[x] ");
        match item.split_once('`').and_then(|(_, rest)| rest.split_once('`')) {
            Some((command, _)) => commands.push(command.to_string()),
            None => commands.push(item.to_string()),
        }
    }
    commands
}

fn toml_settings(root: &Place<'_>, notes: &mut Notes) -> Option<Script> {
    let file = ".ralph.toml";
    let settings = optional(root, file, notes)?.parse::<toml::Table>().ok()?;
    let commands = settings.get("task")?.get("orchestrate")?.get("verify_commands")?;
    declared(file, "", commands.as_str()?)
}

fn ralphy(root: &Place<'_>, notes: &mut Notes) -> Vec<Script> {
    let file = ".ralphy/config.yaml";
    let Some(settings) = yaml_file(root, file, notes) else { return Vec::new() };
    let commands = settings.get("commands").map(Node::entries).unwrap_or_default();
    commands.iter().filter_map(|(name, node)| declared(file, name, node.text()?)).collect()
}

/// `.validator/` and its older name. A check is defined in `config.yml`, or in a file named after it.
fn validator(root: &Place<'_>, notes: &mut Notes) -> Vec<Script> {
    let mut scripts = Vec::new();
    for directory in [".validator", ".gauntlet"] {
        let file = format!("{directory}/config.yml");
        let settings = yaml_file(root, &file, notes);
        let points = settings.as_ref().and_then(|settings| settings.get("entry_points"));
        for point in points.map(Node::items).unwrap_or_default() {
            let below = point.get("path").and_then(Node::text).unwrap_or_default();
            for (name, check) in point
                .get("checks")
                .map(Node::items)
                .unwrap_or_default()
                .iter()
                .flat_map(Node::entries)
            {
                scripts.extend(check_of(root, (&file, name, below), check));
            }
        }
        let checks = format!("{directory}/checks");
        for name in root.list(&checks) {
            let Some(stem) = name.strip_suffix(".yml").or_else(|| name.strip_suffix(".yaml"))
            else {
                continue;
            };
            let file = format!("{checks}/{name}");
            let Some(check) = yaml_file(root, &file, notes) else { continue };
            scripts.extend(check_of(root, (&file, stem, ""), &check));
        }
    }
    scripts
}

fn check_of(
    root: &Place<'_>,
    (file, name, below): (&str, &str, &str),
    check: &Node,
) -> Option<Script> {
    if check.get("run_locally").and_then(Node::text) == Some("false") {
        return None;
    }
    let own = check.get("working_directory").and_then(Node::text);
    let script = declared(file, name, check.get("command")?.text()?)?;
    Some(Script { cwd: command::directory(root, "", own.unwrap_or(below))?, ..script })
}

/// Several tools use a file of this name: with commands by name, commands in objects, or pairs of a name and words.
fn gates_json(root: &Place<'_>, notes: &mut Notes) -> Vec<Script> {
    let file = ".claude/gates.json";
    let Some(json) = json_file(root, file, notes) else { return Vec::new() };
    match json.get("gates") {
        Some(Value::Object(gates)) => gates
            .iter()
            .filter(|(name, _)| !name.starts_with('_') && *name != "install")
            .filter_map(|(name, gate)| {
                let command = gate.as_str().or_else(|| gate.get("command")?.as_str())?;
                declared(file, name, command)
            })
            .collect(),
        Some(Value::Array(gates)) => gates
            .iter()
            .filter_map(|pair| {
                let words: Option<Vec<&str>> =
                    pair.get(1)?.as_array()?.iter().map(Value::as_str).collect();
                let words = words?;
                // Words that need quotes cannot be joined into a command line.
                let is_simple = words.iter().all(|word| !word.contains([' ', '\'', '"', '\\']));
                is_simple.then(|| declared(file, pair.get(0)?.as_str()?, &words.join(" ")))?
            })
            .collect(),
        Some(_) | None => Vec::new(),
    }
}

fn orchestrator(root: &Place<'_>, notes: &mut Notes) -> Vec<Script> {
    let mut scripts = Vec::new();
    for file in ["ralph.yml", "ralph.yaml"] {
        let Some(settings) = yaml_file(root, file, notes) else { continue };
        let gates = settings.get("backpressure").and_then(|it| it.get("gates"));
        for gate in gates.map(Node::items).unwrap_or_default() {
            let name = gate.get("name").and_then(Node::text).unwrap_or_default();
            let command = gate.get("command").and_then(Node::text).unwrap_or_default();
            scripts.extend(declared(file, name, command));
        }
    }
    scripts
}

fn feedback(root: &Place<'_>, notes: &mut Notes) -> Vec<Script> {
    let file = "ralphai.json";
    let Some(json) = json_file(root, file, notes) else { return Vec::new() };
    match json.get("feedbackCommands") {
        Some(Value::Array(commands)) => {
            commands.iter().filter_map(|command| declared(file, "", command.as_str()?)).collect()
        }
        Some(Value::String(commands)) => {
            commands.split(',').filter_map(|command| declared(file, "", command)).collect()
        }
        Some(_) | None => Vec::new(),
    }
}

/// Commands for agents: those in fenced blocks under a heading about tests or checks.
fn instructions(root: &Place<'_>, file: &str, notes: &mut Notes) -> Vec<Script> {
    let Some(text) = optional(root, file, notes) else { return Vec::new() };
    let mut scripts = Vec::new();
    let mut is_there = false;
    let mut block: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        match (&mut block, trimmed.strip_prefix("```")) {
            (None, Some(language)) => {
                let is_shell = matches!(language, "" | "bash" | "sh" | "shell" | "console" | "zsh");
                block = Some(if is_shell { String::new() } else { "\0".to_string() });
            }
            (Some(_), Some(_)) => {
                let text = block.take().unwrap_or_default();
                if is_there && !text.starts_with('\0') {
                    scripts.extend(one_by_one(file, &text));
                }
            }
            (Some(text), None) => {
                text.push_str(trimmed);
                text.push('\n');
            }
            (None, None) if trimmed.starts_with('#') => is_there = is_about_checks(trimmed),
            (None, None) => {}
        }
    }
    scripts
}

/// The lines of a block are as often alternatives as steps of a script, so each becomes a script of its own.
fn one_by_one(file: &str, block: &str) -> Vec<Script> {
    let lines = block.lines().map(|line| line.trim_start_matches("$ ").trim());
    let commands = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    commands
        .filter_map(|command| declared(file, "", command))
        .map(|script| Script { origin: Origin::Prose, ..script })
        .collect()
}

fn is_about_checks(heading: &str) -> bool {
    let heading = heading.to_ascii_lowercase();
    let words = heading.split(|char: char| !char.is_ascii_alphanumeric());
    let about = [
        "test",
        "tests",
        "testing",
        "validation",
        "verification",
        "verify",
        "checks",
        "check",
        "ci",
    ];
    words.into_iter().any(|word| about.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_the_validation_section_of_a_plan() {
        let plan = "# P\n## Validation Commands\n- `go test ./...`\n- Backend: `make lint` first\n- npm test\n\n### Task 1: x\n- [ ] `rm -rf /`\n";
        assert_eq!(listed_commands(plan), ["go test ./...", "make lint", "npm test"]);
    }
}
