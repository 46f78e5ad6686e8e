//! The scratch directory that a scenario runs in: a home and a project, isolated from the user's own files.
//!
//! ```text
//! ROOT/home/.claude/settings.json          user
//! ROOT/project/.claude/settings.json       project
//! ROOT/project/.claude/settings.local.json local
//! ROOT/project/.claude/hooks/N.sh          hooks that the scenario defines as scripts
//! ROOT/flag.json                           passed to the client as `--settings`
//! ROOT/plugins/NAME/                       `--plugin-dir`
//!
//! If the scenario names the project's directory, the project is in that directory below `project`.
//! ```

use crate::hook_settings::{FlagSettings, SettingsPlaces};
use crate::scenario::{Scenario, ScenarioHook, ScenarioHookCommand, ScenarioSettingsLayer};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError, FileKind};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::job::{self, CaptureLimits, JobEnd, JobSpec};
use serde_json::{Map, Value, json};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

const COMMAND_TIMEOUT: Duration = Duration::from_mins(2);
/// Most files that a copied project may have.
const MAX_COPIED_FILES: usize = 10_000;
const MAX_COPIED_BYTES: usize = 64 * 1024 * 1024;
const MAX_STDERR_BYTES: usize = 16 * 1024;

#[derive(Clone, Debug)]
pub struct ScratchProject {
    pub root: PathBuf,
    pub home: PathBuf,
    pub project: PathBuf,
    /// The file for `--settings`, if the scenario or the user provides one.
    pub flag: Option<PathBuf>,
    pub plugins: Vec<PathBuf>,
}

impl ScratchProject {
    pub(crate) fn settings_places(&self) -> SettingsPlaces<'_> {
        SettingsPlaces {
            home: &self.home,
            project: &self.project,
            flag: self.flag.as_deref().map_or(FlagSettings::Absent, FlagSettings::File),
            plugins: &self.plugins,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` has more than {MAX_COPIED_FILES} files", .0.display())]
    TooMany(PathBuf),
    #[error("setup command `{command}` failed ({how})\n{output}")]
    SetUp { command: String, how: String, output: String },
}

/// The environment of `setup` and `says` commands.
#[derive(Clone, Copy, Debug)]
pub struct ScenarioCommandContext<'a> {
    /// The `ralph` binary, which supervises the commands.
    pub program: &'a Path,
    pub search_path: &'a OsStr,
    pub cancel: &'a CancelToken,
}

/// Runs the scenario's `setup` commands in the project before the client starts.
pub fn run_setup(
    scenario: &Scenario,
    stage: &ScratchProject,
    tools: &ScenarioCommandContext<'_>,
) -> Result<(), ScratchError> {
    for command in &scenario.setup {
        let (failed, output) = run_command(command, scenario, stage, tools);
        if let Some(how) = failed {
            let output = output.trim_end().to_owned();
            return Err(ScratchError::SetUp { command: command.clone(), how, output });
        }
    }
    Ok(())
}

/// The output of a command, followed by how it failed, if it did.
pub fn command_output(
    command: &str,
    scenario: &Scenario,
    stage: &ScratchProject,
    tools: &ScenarioCommandContext<'_>,
) -> String {
    let (failed, output) = run_command(command, scenario, stage, tools);
    match failed {
        None => output,
        Some(how) => format!("{output}({how})\n"),
    }
}

fn run_command(
    command: &str,
    scenario: &Scenario,
    stage: &ScratchProject,
    tools: &ScenarioCommandContext<'_>,
) -> (Option<String>, String) {
    let mut env: Vec<(OsString, OsString)> = vec![("PATH".into(), tools.search_path.to_owned())];
    env.extend(scenario.env.iter().map(|(name, value)| (name.into(), value.into())));
    // The last value of a variable wins: commands never see the user's own home.
    env.push(("HOME".into(), stage.home.clone().into()));
    let argv = ["/bin/sh", "-c", command].map(OsString::from);
    let finished = job::run_job(&JobSpec {
        program: tools.program,
        argv: &argv,
        cwd: &stage.project,
        env: &env,
        capture_limits: CaptureLimits { head: 2000, tail: 2000 },
        deadline: Deadline::after(COMMAND_TIMEOUT),
        ..JobSpec::with_defaults(tools.cancel)
    });
    let how = match finished.end {
        JobEnd::Exited(0) => None,
        JobEnd::Exited(code) => Some(format!("exit code {code}")),
        JobEnd::Signalled(signal) => Some(format!("signal {signal}")),
        JobEnd::TimedOut => Some("timed out".to_owned()),
        JobEnd::Cancelled => Some("cancelled".to_owned()),
        JobEnd::CouldNotStart(error) => Some(error.to_string()),
        JobEnd::Lost => Some("it killed its parent".to_owned()),
    };
    let output = [finished.output.head, finished.output.tail].concat();
    (how, String::from_utf8_lossy(&output).into_owned())
}

/// The last lines of a process's standard error, without blank ones.
pub(crate) fn last_stderr_lines(path: &Path) -> Result<Vec<String>, FileError> {
    let len = fs::stat(path).map_or(0, |found| found.len);
    let from = len.saturating_sub(MAX_STDERR_BYTES as u64);
    let bytes = fs::read_range(path, from, MAX_STDERR_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

/// Creates the files of a scenario below `root`, which must exist and be empty.
pub fn build(scenario: &Scenario, root: &Path) -> Result<ScratchProject, ScratchError> {
    let root = fs::resolve(root).unwrap_or_else(|| root.to_owned());
    let home = root.join("home");
    let mut project = root.join("project");
    project.extend(&scenario.client.directory);
    fs::create_private_dir(&home)?;
    fs::create_private_dir(&project)?;
    if let Some(from) = &scenario.copy {
        copy_tree(from, &project, &mut 0)?;
    }
    for (name, text) in &scenario.files {
        write_file(&project.join(name), text)?;
    }
    for (name, text) in &scenario.home {
        write_file(&home.join(name), text)?;
    }
    let mut scripts = ScriptDirectory { directory: project.join(".claude/hooks"), count: 0 };
    let mut flag = None;
    let layers = [
        (ScenarioSettingsLayer::User, home.join(".claude/settings.json"), &scenario.settings.user),
        (
            ScenarioSettingsLayer::Project,
            project.join(".claude/settings.json"),
            &scenario.settings.project,
        ),
        (
            ScenarioSettingsLayer::Local,
            project.join(".claude/settings.local.json"),
            &scenario.settings.local,
        ),
        (ScenarioSettingsLayer::Flag, root.join("flag.json"), &None),
    ];
    for (layer, path, settings) in layers {
        let mut settings =
            settings.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        let own = scenario.hooks.iter().filter(|hook| hook.layer == layer);
        add_hooks(&mut settings, own, &mut scripts)?;
        if !settings.is_empty() {
            if layer == ScenarioSettingsLayer::Flag {
                flag = Some(path.clone());
            }
            write_file(&path, &pretty_json(&Value::Object(settings)))?;
        }
    }
    let mut plugins = Vec::new();
    for plugin in &scenario.plugins {
        let directory = root.join("plugins").join(&plugin.name);
        if let Some(from) = &plugin.copy {
            fs::create_private_dir(&directory)?;
            copy_tree(from, &directory, &mut 0)?;
            plugins.push(directory);
            continue;
        }
        let manifest = json!({"name": plugin.name, "version": "1.0.0", "description": "a plugin"});
        write_file(&directory.join(".claude-plugin/plugin.json"), &pretty_json(&manifest))?;
        let mut scripts = ScriptDirectory { directory: directory.join("hooks"), count: 0 };
        let mut hooks = Map::new();
        add_hooks(&mut hooks, plugin.hooks.iter(), &mut scripts)?;
        write_file(&directory.join("hooks/hooks.json"), &pretty_json(&Value::Object(hooks)))?;
        plugins.push(directory);
    }
    Ok(ScratchProject { root, home, project, flag, plugins })
}

/// Copies the scripts that accompany a user's settings file to both places where its commands may look for them: the
/// project's and the home's `.claude/hooks`.
pub fn copy_user_scripts(stage: &ScratchProject, scripts: &Path) -> Result<(), ScratchError> {
    for place in [&stage.project, &stage.home] {
        let directory = place.join(".claude/hooks");
        fs::create_private_dir(&directory)?;
        copy_tree(scripts, &directory, &mut 0)?;
    }
    Ok(())
}

struct ScriptDirectory {
    directory: PathBuf,
    count: usize,
}

fn add_hooks<'a>(
    settings: &mut Map<String, Value>,
    hooks: impl Iterator<Item = &'a ScenarioHook>,
    scripts: &mut ScriptDirectory,
) -> Result<(), FileError> {
    for hook in hooks {
        let mut handler = json!({"type": "command"});
        match &hook.run {
            ScenarioHookCommand::Command(command) => handler["command"] = json!(command),
            ScenarioHookCommand::Program { command, args } => {
                handler["command"] = json!(command);
                handler["args"] = json!(args);
            }
            ScenarioHookCommand::Script(text) => {
                scripts.count += 1;
                let name = format!("{}.sh", scripts.count);
                write_file(&scripts.directory.join(&name), text)?;
                let place = if scripts.directory.ends_with(".claude/hooks") {
                    "$CLAUDE_PROJECT_DIR/.claude/hooks"
                } else {
                    "${CLAUDE_PLUGIN_ROOT}/hooks"
                };
                handler["command"] = json!(format!("{}\"{place}/{name}\"", interpreter(text)));
            }
            ScenarioHookCommand::Evaluator { kind, prompt, model } => {
                handler = json!({"type": kind.name(), "prompt": prompt});
                if let Some(model) = model {
                    handler["model"] = json!(model);
                }
            }
        }
        if let Some(timeout) = hook.timeout {
            handler["timeout"] = json!(timeout);
        }
        if hook.is_async {
            handler["async"] = json!(true);
        }
        let mut group = json!({"hooks": [handler]});
        if let Some(matcher) = &hook.matcher {
            group["matcher"] = json!(matcher);
        }
        let events = settings.entry("hooks").or_insert_with(|| json!({}));
        add_hook_group(events, &hook.event, group);
    }
    Ok(())
}

/// Appends a hook group for an event. A value of the wrong type under `hooks` is replaced.
fn add_hook_group(events: &mut Value, event: &str, group: Value) {
    if !events.is_object() {
        *events = json!({});
    }
    let Some(events) = events.as_object_mut() else { return };
    match events.get_mut(event).and_then(Value::as_array_mut) {
        Some(groups) => groups.push(group),
        None => {
            events.insert(event.to_owned(), json!([group]));
        }
    }
}

/// A script without a `#!` line is run by `sh`.
fn interpreter(script: &str) -> &'static str {
    if script.starts_with("#!") { "" } else { "sh " }
}

fn pretty_json(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Writes a file, executable if it starts with `#!`, and creates its parent directory.
fn write_file(path: &Path, text: &str) -> Result<(), FileError> {
    if let Some(directory) = path.parent() {
        fs::create_private_dir(directory)?;
    }
    fs::replace_with_mode(path, text.as_bytes(), file_mode(text.as_bytes()))
}

fn file_mode(bytes: &[u8]) -> fs::SharedFileMode {
    if bytes.starts_with(b"#!") {
        fs::SharedFileMode::Executable
    } else {
        fs::SharedFileMode::Ordinary
    }
}

/// Copies files and directories. Symlinks and `.git` are skipped.
fn copy_tree(from: &Path, to: &Path, count: &mut usize) -> Result<(), ScratchError> {
    for name in fs::list(from, MAX_COPIED_FILES)? {
        if name == ".git" {
            continue;
        }
        *count += 1;
        if *count > MAX_COPIED_FILES {
            return Err(ScratchError::TooMany(from.to_owned()));
        }
        let (source, target) = (from.join(&name), to.join(&name));
        let Some(found) = fs::stat_no_follow(&source) else { continue };
        match found.kind {
            FileKind::Directory => {
                fs::create_private_dir(&target)?;
                copy_tree(&source, &target, count)?;
            }
            FileKind::File => {
                let mode = if found.mode & 0o111 == 0 {
                    fs::SharedFileMode::Ordinary
                } else {
                    fs::SharedFileMode::Executable
                };
                fs::replace_with_mode(&target, &fs::read(&source, MAX_COPIED_BYTES)?, mode)?;
            }
            FileKind::Symlink | FileKind::Other => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{ScenarioClient, ScenarioPlugin, ScenarioSettings};
    use std::os::unix::fs::symlink;

    /// Every file below `root` with its content; `*` marks executables.
    fn listed(root: &Path) -> String {
        let mut lines = Vec::new();
        let mut waiting = vec![root.to_owned()];
        while let Some(directory) = waiting.pop() {
            for name in fs::list(&directory, 1000).unwrap() {
                let path = directory.join(name);
                let found = fs::stat_no_follow(&path).unwrap();
                let shown = path.strip_prefix(root).unwrap().display();
                match found.kind {
                    FileKind::Directory => waiting.push(path),
                    FileKind::File => {
                        let text = String::from_utf8(fs::read(&path, 10_000).unwrap()).unwrap();
                        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
                        let mark = if found.mode & 0o100 == 0 { "" } else { "*" };
                        lines.push(format!("{shown}{mark}: {text}"));
                    }
                    FileKind::Symlink | FileKind::Other => lines.push(format!("{shown}: no file")),
                }
            }
        }
        lines.sort();
        lines.join("\n")
    }

    fn hook(run: ScenarioHookCommand, layer: ScenarioSettingsLayer) -> ScenarioHook {
        ScenarioHook { event: "Stop".to_owned(), run, layer, ..ScenarioHook::default() }
    }

    fn script(text: &str) -> ScenarioHookCommand {
        ScenarioHookCommand::Script(text.to_owned())
    }

    fn files(files: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    /// Each layer has its own file, scripts are numbered across layers, and other settings of the scenario are kept.
    #[test]
    fn hooks_are_written_to_the_settings_of_their_layer() {
        let root = tempfile::tempdir().unwrap();
        let program = ScenarioHookCommand::Program {
            command: "gate".to_owned(),
            args: vec!["-x".to_owned()],
        };
        let matched = ScenarioHook {
            event: "PreToolUse".to_owned(),
            matcher: Some("Write|Edit".to_owned()),
            timeout: Some(0.5),
            is_async: true,
            ..hook(script("#!/usr/bin/perl\nexit 2"), ScenarioSettingsLayer::Local)
        };
        let user = json!({"env": {"A": "1"}, "hooks": {"Stop": [{"hooks": []}], "Other": 3}});
        let scenario = Scenario {
            settings: ScenarioSettings {
                user: Some(user),
                project: Some(json!({"hooks": 3})),
                local: None,
            },
            hooks: vec![
                hook(ScenarioHookCommand::Command("one".to_owned()), ScenarioSettingsLayer::User),
                hook(script("exit 0"), ScenarioSettingsLayer::Project),
                hook(script("exit 2"), ScenarioSettingsLayer::Project),
                matched,
                hook(program, ScenarioSettingsLayer::Flag),
            ],
            ..Scenario::default()
        };
        let stage = build(&scenario, root.path()).unwrap();
        assert_eq!(stage.flag, Some(stage.root.join("flag.json")));
        insta::assert_snapshot!(listed(root.path()), @r#"
        flag.json: { "hooks": { "Stop": [ { "hooks": [ { "args": [ "-x" ], "command": "gate", "type": "command" } ] } ] } }
        home/.claude/settings.json: { "env": { "A": "1" }, "hooks": { "Other": 3, "Stop": [ { "hooks": [] }, { "hooks": [ { "command": "one", "type": "command" } ] } ] } }
        project/.claude/hooks/1.sh: exit 0
        project/.claude/hooks/2.sh: exit 2
        project/.claude/hooks/3.sh*: #!/usr/bin/perl exit 2
        project/.claude/settings.json: { "hooks": { "Stop": [ { "hooks": [ { "command": "sh \"$CLAUDE_PROJECT_DIR/.claude/hooks/1.sh\"", "type": "command" } ] }, { "hooks": [ { "command": "sh \"$CLAUDE_PROJECT_DIR/.claude/hooks/2.sh\"", "type": "command" } ] } ] } }
        project/.claude/settings.local.json: { "hooks": { "PreToolUse": [ { "hooks": [ { "async": true, "command": "\"$CLAUDE_PROJECT_DIR/.claude/hooks/3.sh\"", "timeout": 0.5, "type": "command" } ], "matcher": "Write|Edit" } ] } }
        "#);
    }

    #[test]
    fn a_scenario_without_hooks_has_no_settings() {
        let root = tempfile::tempdir().unwrap();
        let scenario = Scenario {
            files: files(&[("src/a.py", "x"), ("run.sh", "#!/bin/sh\ntrue")]),
            home: files(&[(".config/tool.toml", "y")]),
            ..Scenario::default()
        };
        let stage = build(&scenario, root.path()).unwrap();
        assert_eq!((stage.flag, stage.plugins), (None, Vec::new()));
        insta::assert_snapshot!(listed(root.path()), @"
        home/.config/tool.toml: y
        project/run.sh*: #!/bin/sh true
        project/src/a.py: x
        ");
    }

    #[test]
    fn a_plugin_gets_a_manifest_hooks_and_scripts() {
        let root = tempfile::tempdir().unwrap();
        let hooks = vec![hook(script("exit 2"), ScenarioSettingsLayer::Project)];
        let scenario = Scenario {
            plugins: vec![ScenarioPlugin { name: "keeper".to_owned(), copy: None, hooks }],
            ..Scenario::default()
        };
        let stage = build(&scenario, root.path()).unwrap();
        assert_eq!(stage.plugins, [stage.root.join("plugins/keeper")]);
        insta::assert_snapshot!(listed(root.path()), @r#"
        plugins/keeper/.claude-plugin/plugin.json: { "description": "a plugin", "name": "keeper", "version": "1.0.0" }
        plugins/keeper/hooks/1.sh: exit 2
        plugins/keeper/hooks/hooks.json: { "hooks": { "Stop": [ { "hooks": [ { "command": "sh \"${CLAUDE_PLUGIN_ROOT}/hooks/1.sh\"", "type": "command" } ] } ] } }
        "#);
    }

    #[test]
    fn copies_a_whole_plugin_and_names_the_project_directory() {
        let from = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        write_file(&from.path().join("commands/go.md"), "Go.").unwrap();
        write_file(&from.path().join("hooks/hooks.json"), "{}").unwrap();
        let copy = Some(from.path().to_owned());
        let plugins = vec![ScenarioPlugin { name: "keeper".to_owned(), copy, hooks: Vec::new() }];
        let directory = Some("Übung mit 'Leerzeichen'".to_owned());
        let scenario = Scenario {
            client: ScenarioClient { directory, ..ScenarioClient::default() },
            files: files(&[("a.txt", "x")]),
            plugins,
            ..Scenario::default()
        };
        let stage = build(&scenario, root.path()).unwrap();
        assert_eq!(stage.plugins, [stage.root.join("plugins/keeper")]);
        assert_eq!(stage.project, stage.root.join("project/Übung mit 'Leerzeichen'"));
        insta::assert_snapshot!(listed(root.path()), @"
        plugins/keeper/commands/go.md: Go.
        plugins/keeper/hooks/hooks.json: {}
        project/Übung mit 'Leerzeichen'/a.txt: x
        ");
    }

    /// The scenario's own files override copied ones.
    #[test]
    fn a_project_is_copied_without_git_and_without_symlinks() {
        let from = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        let given = |name: &str, text: &str| write_file(&from.path().join(name), text).unwrap();
        given("a.txt", "theirs");
        given("b.txt", "theirs");
        given("tool.sh", "#!/bin/sh\ntrue");
        given(".git/config", "x");
        given("sub/.git", "gitdir: elsewhere");
        given("sub/deep/c.txt", "c");
        symlink("/etc/passwd", from.path().join("link")).unwrap();
        symlink(from.path(), from.path().join("sub/round")).unwrap();
        let scenario = Scenario {
            copy: Some(from.path().to_owned()),
            files: files(&[("b.txt", "ours")]),
            ..Scenario::default()
        };
        build(&scenario, root.path()).unwrap();
        insta::assert_snapshot!(listed(root.path()), @"
        project/a.txt: theirs
        project/b.txt: ours
        project/sub/deep/c.txt: c
        project/tool.sh*: #!/bin/sh true
        ");
    }

    #[test]
    fn copying_a_missing_directory_fails() {
        let root = tempfile::tempdir().unwrap();
        let copy = Some(root.path().join("nowhere"));
        let error = build(&Scenario { copy, ..Scenario::default() }, root.path()).unwrap_err();
        let error = error.to_string().replace(&root.path().display().to_string(), "ROOT");
        insta::assert_snapshot!(error, @"cannot list `ROOT/nowhere`");
    }

    #[test]
    fn scripts_beside_settings_are_copied_to_the_project_and_the_home() {
        let from = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        write_file(&from.path().join("lib/common.sh"), "true").unwrap();
        write_file(&from.path().join("gate.sh"), "#!/bin/sh\ntrue").unwrap();
        let stage = build(&Scenario::default(), root.path()).unwrap();
        copy_user_scripts(&stage, from.path()).unwrap();
        insta::assert_snapshot!(listed(root.path()), @"
        home/.claude/hooks/gate.sh*: #!/bin/sh true
        home/.claude/hooks/lib/common.sh: true
        project/.claude/hooks/gate.sh*: #!/bin/sh true
        project/.claude/hooks/lib/common.sh: true
        ");
    }
}
