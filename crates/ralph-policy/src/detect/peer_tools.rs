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

use super::command_import::{self, CommandOrigin, ImportedScript};
use super::gate_draft::GateDraft;
use super::project_dir::{DetectionNotes, ProjectDir};
use super::yaml::{self, DataNode};

const MAX_PLANS: usize = 50;

pub(super) fn peer_tool_gates(
    root: &ProjectDir<'_>,
    known: &[GateDraft],
    notes: &mut DetectionNotes,
) -> Vec<GateDraft> {
    let mut scripts = Vec::new();
    scripts.extend(task_file_script(root, notes));
    scripts.extend(plan_scripts(root, notes));
    scripts.extend(ralph_toml_script(root, notes));
    scripts.extend(ralphy_scripts(root, notes));
    scripts.extend(validator_scripts(root, notes));
    scripts.extend(gates_json_scripts(root, notes));
    scripts.extend(orchestrator_scripts(root, notes));
    scripts.extend(feedback_scripts(root, notes));
    for file in ["AGENTS.md", "CLAUDE.md"] {
        scripts.extend(instruction_scripts(root, file, notes));
    }
    command_import::import_scripts(root, scripts, known, notes)
}

fn declared_script(source: &str, label: &str, text: &str) -> Option<ImportedScript> {
    let text = text.trim();
    (!text.is_empty()).then(|| ImportedScript {
        source: source.to_string(),
        text: text.to_string(),
        cwd: String::new(),
        label: Some(label.to_string()).filter(|label| !label.is_empty()),
        origin: CommandOrigin::Declared,
    })
}

fn read_json_file(root: &ProjectDir<'_>, file: &str, notes: &mut DetectionNotes) -> Option<Value> {
    let text = root.read_text(file, notes)?;
    let json = serde_json::from_str(&text).ok();
    if json.is_none() {
        notes.add(&format!("`{file}` is not valid JSON"));
    }
    json
}

fn task_file_script(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Option<ImportedScript> {
    let file = "RALPH_TASK.md";
    let text = root.read_text(file, notes)?;
    let front = text.strip_prefix("---\n")?.split_once("\n---")?.0;
    let settings = yaml::parse_yaml(front)
        .inspect_err(|why| notes.add(&format!("`{file}` was not read: {why}")))
        .ok()?;
    declared_script(file, "tests", settings.get("test_command")?.text()?)
}

fn plan_scripts(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<ImportedScript> {
    let mut scripts = Vec::new();
    let directory = "docs/plans";
    let is_plan = |name: &String| name.to_ascii_lowercase().ends_with(".md");
    for name in root.list_names(directory, notes).into_iter().filter(is_plan).take(MAX_PLANS) {
        let file = format!("{directory}/{name}");
        let Some(text) = root.read_text(&file, notes) else { continue };
        for command in validation_commands(&text) {
            scripts.extend(declared_script(&file, "", &command));
        }
    }
    scripts
}

/// The commands of the list under `## Validation Commands`: the text in backticks, or else the whole item.
fn validation_commands(plan: &str) -> Vec<String> {
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

fn ralph_toml_script(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Option<ImportedScript> {
    let file = ".ralph.toml";
    let settings = root.read_text(file, notes)?.parse::<toml::Table>();
    let settings =
        settings.inspect_err(|_| notes.add(&format!("`{file}` is not valid TOML"))).ok()?;
    let commands = settings.get("task")?.get("orchestrate")?.get("verify_commands")?;
    declared_script(file, "", commands.as_str()?)
}

fn ralphy_scripts(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<ImportedScript> {
    let file = ".ralphy/config.yaml";
    let Some(settings) = root.read_yaml(file, notes) else { return Vec::new() };
    let commands = settings.get("commands").map(DataNode::entries).unwrap_or_default();
    commands.iter().filter_map(|(name, node)| declared_script(file, name, node.text()?)).collect()
}

/// `.validator/` and its older name. A check is defined in `config.yml`, or in a file named after it.
fn validator_scripts(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<ImportedScript> {
    let mut scripts = Vec::new();
    for directory in [".validator", ".gauntlet"] {
        let file = format!("{directory}/config.yml");
        let settings = root.read_yaml(&file, notes);
        let points = settings.as_ref().and_then(|settings| settings.get("entry_points"));
        for point in points.map(DataNode::items).unwrap_or_default() {
            let below = point.get("path").and_then(DataNode::text).unwrap_or_default();
            for (name, check) in point
                .get("checks")
                .map(DataNode::items)
                .unwrap_or_default()
                .iter()
                .flat_map(DataNode::entries)
            {
                scripts.extend(validator_check(root, &file, name, below, check));
            }
        }
        let checks = format!("{directory}/checks");
        for name in root.list_names(&checks, notes) {
            let Some(stem) = name.strip_suffix(".yml").or_else(|| name.strip_suffix(".yaml"))
            else {
                continue;
            };
            let file = format!("{checks}/{name}");
            let Some(check) = root.read_yaml(&file, notes) else { continue };
            scripts.extend(validator_check(root, &file, stem, "", &check));
        }
    }
    scripts
}

fn validator_check(
    root: &ProjectDir<'_>,
    file: &str,
    name: &str,
    below: &str,
    check: &DataNode,
) -> Option<ImportedScript> {
    if check.get("run_locally").and_then(DataNode::text) == Some("false") {
        return None;
    }
    let own = check.get("working_directory").and_then(DataNode::text);
    let script = declared_script(file, name, check.get("command")?.text()?)?;
    Some(ImportedScript {
        cwd: command_import::resolve_directory(root, "", own.unwrap_or(below))?,
        ..script
    })
}

/// Several tools use a file of this name: with commands by name, commands in objects, or pairs of a name and words.
fn gates_json_scripts(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<ImportedScript> {
    let file = ".claude/gates.json";
    let Some(json) = read_json_file(root, file, notes) else { return Vec::new() };
    match json.get("gates") {
        Some(Value::Object(gates)) => gates
            .iter()
            .filter(|(name, _)| !name.starts_with('_') && *name != "install")
            .filter_map(|(name, gate)| {
                let command = gate.as_str().or_else(|| gate.get("command")?.as_str())?;
                declared_script(file, name, command)
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
                is_simple
                    .then(|| declared_script(file, pair.get(0)?.as_str()?, &words.join(" ")))?
            })
            .collect(),
        Some(_) | None => Vec::new(),
    }
}

fn orchestrator_scripts(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<ImportedScript> {
    let mut scripts = Vec::new();
    for file in ["ralph.yml", "ralph.yaml"] {
        let Some(settings) = root.read_yaml(file, notes) else { continue };
        let gates = settings.get("backpressure").and_then(|it| it.get("gates"));
        for gate in gates.map(DataNode::items).unwrap_or_default() {
            let name = gate.get("name").and_then(DataNode::text).unwrap_or_default();
            let command = gate.get("command").and_then(DataNode::text).unwrap_or_default();
            scripts.extend(declared_script(file, name, command));
        }
    }
    scripts
}

fn feedback_scripts(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<ImportedScript> {
    let file = "ralphai.json";
    let Some(json) = read_json_file(root, file, notes) else { return Vec::new() };
    match json.get("feedbackCommands") {
        Some(Value::Array(commands)) => commands
            .iter()
            .filter_map(|command| declared_script(file, "", command.as_str()?))
            .collect(),
        Some(Value::String(commands)) => {
            commands.split(',').filter_map(|command| declared_script(file, "", command)).collect()
        }
        Some(_) | None => Vec::new(),
    }
}

/// An open fenced block.
enum FencedBlock {
    /// Its lines so far.
    Shell(String),
    OtherLanguage,
}

/// Commands for agents: those in fenced blocks under a heading about tests or checks.
fn instruction_scripts(
    root: &ProjectDir<'_>,
    file: &str,
    notes: &mut DetectionNotes,
) -> Vec<ImportedScript> {
    let Some(text) = root.read_text(file, notes) else { return Vec::new() };
    let mut scripts = Vec::new();
    let mut is_there = false;
    let mut block: Option<FencedBlock> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        match (&mut block, trimmed.strip_prefix("```")) {
            (None, Some(language)) => {
                let is_shell = matches!(language, "" | "bash" | "sh" | "shell" | "console" | "zsh");
                let shell = FencedBlock::Shell(String::new());
                block = Some(if is_shell { shell } else { FencedBlock::OtherLanguage });
            }
            (Some(_), Some(_)) => {
                if let Some(FencedBlock::Shell(text)) = block.take().filter(|_| is_there) {
                    scripts.extend(line_scripts(file, &text));
                }
            }
            (Some(FencedBlock::Shell(text)), None) => {
                text.push_str(trimmed);
                text.push('\n');
            }
            (None, None) if trimmed.starts_with('#') => is_there = is_about_checks(trimmed),
            (Some(FencedBlock::OtherLanguage) | None, None) => {}
        }
    }
    scripts
}

/// The lines of a block are as often alternatives as steps of a script, so each becomes a script of its own.
fn line_scripts(file: &str, block: &str) -> Vec<ImportedScript> {
    let lines = block.lines().map(|line| line.trim_start_matches("$ ").trim());
    let commands = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    commands
        .filter_map(|command| declared_script(file, "", command))
        .map(|script| ImportedScript { origin: CommandOrigin::Prose, ..script })
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
        assert_eq!(validation_commands(plan), ["go test ./...", "make lint", "npm test"]);
    }
}
