//! JavaScript and TypeScript: `package.json`, run with the package manager of its lock file. Tools are started in ways
//! that never download anything.

use ralph_core::gate::{GateInvocation, ReportFormat};
use ralph_gates::gates::gate_tools::is_placeholder;
use serde_json::Value;

use super::ToolLookup;
use super::command_import::{canonical_command, is_visible, name_aspect};
use super::gate_draft::{GateAspect, GateDraft};
use super::node_workspace;
use super::project_dir::{DetectionNotes, ProjectDir};
use super::shell_text::{self, CommandShape};

/// Names of scripts that become gates, in order of preference.
const GATE_SCRIPTS: [&str; 12] = [
    "test",
    "test:unit",
    "typecheck",
    "type-check",
    "types",
    "check",
    "build",
    "lint",
    "format:check",
    "fmt:check",
    "check:format",
    "prettier:check",
];

#[derive(Clone, Copy)]
pub(super) enum PackageManager {
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

struct NodePackage<'a> {
    place: &'a ProjectDir<'a>,
    source: String,
    manager: PackageManager,
    json: Value,
}

impl PackageManager {
    fn detect(place: &ProjectDir<'_>, json: &Value) -> Self {
        let named = json.get("packageManager").and_then(Value::as_str).unwrap_or_default();
        let named = named.split('@').next().unwrap_or_default();
        let locks = [
            ("pnpm-lock.yaml", "pnpm"),
            ("yarn.lock", "yarn"),
            ("bun.lock", "bun"),
            ("bun.lockb", "bun"),
            ("package-lock.json", "npm"),
        ];
        // Packages of a workspace share the lock file of its root.
        let locked = locks.into_iter().find(|(file, _)| place.is_here_or_above(file));
        let locked = locked.map(|(_, name)| name);
        match if named.is_empty() { locked.unwrap_or_default() } else { named } {
            "pnpm" => Self::Pnpm,
            "yarn" => Self::Yarn,
            "bun" => Self::Bun,
            _ => Self::Npm,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Bun => "bun",
        }
    }

    /// The words that start an installed tool, and fail if it is not installed.
    fn exec_words(self) -> &'static [&'static str] {
        match self {
            Self::Npm => &["npx", "--no-install"],
            Self::Pnpm => &["pnpm", "exec"],
            Self::Yarn => &["yarn", "run"],
            Self::Bun => &["bunx", "--no-install"],
        }
    }

    fn install_command(self) -> &'static str {
        match self {
            Self::Npm => "npm ci",
            Self::Pnpm => "pnpm install",
            Self::Yarn => "yarn install",
            Self::Bun => "bun install",
        }
    }
}

pub(super) fn node_gates(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<GateDraft> {
    if !place.has_entry("package.json") {
        return Vec::new();
    }
    let source = place.relative("package.json");
    let Some(text) = place.read_text("package.json", notes) else { return Vec::new() };
    let Ok(json) = serde_json::from_str::<Value>(&text) else {
        notes.add(&format!("`{source}` is not valid JSON"));
        return Vec::new();
    };
    if node_workspace::is_workspace_member(place, notes) {
        return Vec::new();
    }
    let package =
        NodePackage { place, manager: PackageManager::detect(place, &json), source, json };
    let mut drafts: Vec<GateDraft> = Vec::new();
    for name in GATE_SCRIPTS {
        let Some(script) = package.script(name) else { continue };
        let Some(draft) = package.script_gate(name, script, notes) else { continue };
        // One script per aspect; the first name in the list is the most common one.
        if !drafts.iter().any(|known| known.aspect == draft.aspect) {
            drafts.push(draft);
        }
    }
    package.drop_parts(&mut drafts);
    if node_workspace::is_workspace_root(place, &package.json) {
        let more =
            node_workspace::recursive_gates(place, package.manager, &package.json, &drafts, notes);
        drafts.extend(more);
    }
    let has =
        |aspect| move |drafts: &[GateDraft]| drafts.iter().any(|draft| draft.aspect == aspect);
    if !has(GateAspect::Types)(&drafts) {
        drafts.extend(package.types_gate(notes));
    }
    if !has(GateAspect::Lint)(&drafts) {
        drafts.extend(package.lint_gate());
    }
    let is_installed = ["node_modules", ".pnp.cjs"].iter().any(|name| place.is_here_or_above(name));
    if !drafts.is_empty() && !is_installed && package.has_dependencies() {
        notes.add(&format!(
            "`{}`: dependencies are not installed; its gates need `{}` first",
            package.source,
            package.manager.install_command()
        ));
    }
    drafts
}

impl NodePackage<'_> {
    fn script(&self, name: &str) -> Option<&str> {
        self.json.get("scripts")?.get(name)?.as_str()
    }

    /// Drops the gates of scripts that the script of another gate runs.
    fn drop_parts(&self, drafts: &mut Vec<GateDraft>) {
        let script_of = |draft: &GateDraft| {
            let own = draft.covers.iter().find_map(|one| one.strip_prefix("script "));
            own.map(str::to_owned)
        };
        let mut at = 0;
        while let Some(part) = drafts.get(at) {
            let name = script_of(part);
            let whole = drafts.iter().position(|other| {
                let (Some(name), Some(other)) = (&name, script_of(other)) else { return false };
                *name != other && self.scripts_run_by(&other).contains(name)
            });
            match whole {
                Some(whole) => {
                    let part = drafts.remove(at);
                    let whole = if whole > at { whole - 1 } else { whole };
                    if let Some(whole) = drafts.get_mut(whole) {
                        whole.covers.extend(part.covers);
                    }
                }
                None => at += 1,
            }
        }
    }

    /// The scripts that a script and its `pre` and `post` scripts run, directly.
    fn scripts_run_by(&self, name: &str) -> Vec<String> {
        let mut called = Vec::new();
        for own in [format!("pre{name}"), name.to_string(), format!("post{name}")] {
            let text = self.script(&own).unwrap_or_default();
            for command in shell_text::split_commands(text).unwrap_or_default() {
                let words: Vec<&str> = command.split_whitespace().collect();
                match words.as_slice() {
                    ["npm-run-all" | "run-s" | "run-p", names @ ..] => {
                        called.extend(names.iter().map(ToString::to_string));
                    }
                    words => {
                        let canonical = canonical_command(words);
                        called.extend(canonical.strip_prefix("script ").map(str::to_owned));
                    }
                }
            }
        }
        called
    }

    fn has_dependencies(&self) -> bool {
        ["dependencies", "devDependencies", "optionalDependencies"].iter().any(|key| {
            self.json.get(key).and_then(Value::as_object).is_some_and(|names| !names.is_empty())
        })
    }

    fn depends_on(&self, name: &str) -> bool {
        ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"]
            .into_iter()
            .any(|kind| self.json.get(kind).is_some_and(|list| list.get(name).is_some()))
    }

    /// A gate that runs a dependency without downloading it. An installed tool is started by its path, because a launcher
    /// that does not find it exits with 1, just like a failed check.
    fn tool_gate(&self, name: &str, aspect: GateAspect, words: &[String]) -> GateDraft {
        let (program, rest) =
            words.split_first().map_or(("", words), |(first, rest)| (first, rest));
        let installed = format!("node_modules/.bin/{program}");
        let mut argv = match self.place.find_tool(&installed) {
            ToolLookup::Found(_) => vec![installed],
            ToolLookup::Missing(_) => {
                let start = self.manager.exec_words().iter().copied();
                start.chain([program]).map(str::to_owned).collect()
            }
        };
        argv.extend(rest.iter().cloned());
        GateDraft::new(self.place, name, aspect, GateInvocation::Argv(argv))
    }

    fn script_gate(
        &self,
        name: &str,
        script: &str,
        notes: &mut DetectionNotes,
    ) -> Option<GateDraft> {
        let shown = format!("`{}` has a script `{name}`", self.source);
        if is_placeholder(script) {
            notes.add(&format!("{shown} that is only the placeholder of `npm init`"));
            return None;
        }
        if !is_visible(script) {
            notes.add(&format!("{shown} with invisible characters; it was left out"));
            return None;
        }
        let aspect = name_aspect(name)?;
        let words = match shell_text::command_shape(script) {
            CommandShape::Words(words) => words,
            CommandShape::Shell(_) | CommandShape::Unclear => Vec::new(),
        };
        let direct = match words.split_first() {
            Some((program, rest)) => self.known_tool_gate(program, rest),
            None => None,
        };
        let own = format!("script {name}");
        if let Some(draft) = direct {
            return Some(draft.covering(&[&own]).with_reason(&self.source, shown));
        }
        let changes = ["--fix", "--write", "--watch", "--watchAll", "--apply"];
        if script.split_whitespace().any(|word| changes.contains(&word)) {
            notes.add(&format!("{shown} that changes files or never ends; it was left out"));
            return None;
        }
        let client = self.manager.name();
        let started: &[&str] = if name == "test" && client != "bun" {
            &[client, name]
        } else {
            &[client, "run", name]
        };
        let label = match aspect {
            GateAspect::Test => "tests",
            GateAspect::Types => "types",
            GateAspect::Format => "format",
            GateAspect::Build | GateAspect::Lint | GateAspect::Audit | GateAspect::Whole => name,
        };
        Some(
            GateDraft::from_words(self.place, label, aspect, started)
                .covering(&[&own])
                .with_reason(&self.source, shown),
        )
    }

    /// A script that only runs a known tool becomes a gate that runs this tool with a machine-readable report.
    fn known_tool_gate(&self, program: &str, rest: &[String]) -> Option<GateDraft> {
        let package = if program == "tsc" { "typescript" } else { program };
        let is_own = matches!(program, "node" | "bun");
        if !is_own && !self.depends_on(package) {
            return None;
        }
        let without = |dropped: &[&str]| -> Vec<String> {
            rest.iter().filter(|word| !dropped.contains(&word.as_str())).cloned().collect()
        };
        let has_reporter = rest.iter().any(|word| {
            word.contains("reporter") || word.contains("outputFile") || word.contains("--format")
        });
        let own_test = |words: Vec<String>| {
            GateDraft::new(self.place, "tests", GateAspect::Test, GateInvocation::Argv(words))
        };
        match program {
            "vitest" if !has_reporter => {
                let mut words = vec!["vitest".to_string(), "run".to_string()];
                words.extend(without(&["run", "watch", "--watch", "-w", "--ui", "dev"]));
                words.extend(to_strings(&["--reporter=junit", "--outputFile={report}"]));
                let draft = self.tool_gate("tests", GateAspect::Test, &words);
                Some(draft.with_report(ReportFormat::Junit).covering(&["vitest"]))
            }
            "jest" if !has_reporter => {
                Some(self.jest_gate(&without(&["--watch", "--watchAll", "--ci"])))
            }
            "mocha" if !has_reporter => {
                let mut words = vec!["mocha".to_string()];
                words.extend(without(&["--watch", "-w"]));
                words.push("--reporter=tap".to_string());
                let draft = self.tool_gate("tests", GateAspect::Test, &words);
                Some(draft.with_report(ReportFormat::Tap).covering(&["mocha"]))
            }
            "node" if rest.first().is_some_and(|word| word == "--test") && !has_reporter => {
                let mut words = to_strings(&["node", "--test", "--test-reporter=junit"]);
                words.push("--test-reporter-destination={report}".to_string());
                words.extend(without(&["--test", "--watch"]));
                Some(own_test(words).with_report(ReportFormat::Junit))
            }
            "bun" if rest.first().is_some_and(|word| word == "test") && !has_reporter => {
                let mut words = to_strings(&["bun", "test"]);
                words.extend(without(&["test", "--watch"]));
                words.extend(to_strings(&["--reporter=junit", "--reporter-outfile={report}"]));
                Some(own_test(words).with_report(ReportFormat::Junit).covering(&["bun test"]))
            }
            "eslint" if !has_reporter && !rest.iter().any(|word| word == "-f" || word == "-o") => {
                Some(self.eslint_gate(&without(&["--fix"])))
            }
            "tsc" => {
                let mut words = vec!["tsc".to_string()];
                words.extend(without(&["--watch", "-w"]));
                let builds = rest.iter().any(|word| word == "-b" || word == "--build");
                if !builds && !rest.iter().any(|word| word == "--noEmit") {
                    words.push("--noEmit".to_string());
                }
                if !rest.iter().any(|word| word == "--pretty") {
                    words.extend(to_strings(&["--pretty", "false"]));
                }
                let draft = self.tool_gate("types", GateAspect::Types, &words);
                Some(draft.with_report(ReportFormat::Tsc).covering(&["tsc"]))
            }
            _ => None,
        }
    }

    fn jest_gate(&self, rest: &[String]) -> GateDraft {
        let mut words = to_strings(&["jest", "--ci"]);
        words.extend(rest.iter().cloned());
        if !self.depends_on("jest-junit") {
            return self.tool_gate("tests", GateAspect::Test, &words).covering(&["jest"]);
        }
        words.extend(to_strings(&["--reporters=default", "--reporters=jest-junit"]));
        let started = self.tool_gate("tests", GateAspect::Test, &words);
        let tool = started.tool.clone();
        let mut argv = to_strings(&["env", "JEST_JUNIT_OUTPUT_FILE={report}"]);
        if let GateInvocation::Argv(words) = started.gate.command {
            argv.extend(words);
        }
        GateDraft::new(self.place, "tests", GateAspect::Test, GateInvocation::Argv(argv))
            .with_tool(tool)
            .with_report(ReportFormat::Junit)
            .covering(&["jest"])
    }

    fn eslint_gate(&self, rest: &[String]) -> GateDraft {
        let mut words = vec!["eslint".to_string()];
        words.extend(rest.iter().cloned());
        if rest.iter().all(|word| word.starts_with('-')) {
            words.push(".".to_string());
        }
        words.extend(to_strings(&["-f", "json", "-o", "{report}"]));
        let draft = self.tool_gate("lint", GateAspect::Lint, &words);
        draft.with_report(ReportFormat::EslintJson).covering(&["eslint"])
    }

    fn types_gate(&self, notes: &mut DetectionNotes) -> Option<GateDraft> {
        if !self.place.has_entry("tsconfig.json") || !self.depends_on("typescript") {
            return None;
        }
        let source = self.place.relative("tsconfig.json");
        // An unreadable file is noted, and taken for one without references.
        let text = self.place.read_text("tsconfig.json", notes).unwrap_or_default();
        let checker = if self.depends_on("vue-tsc") { "vue-tsc" } else { "tsc" };
        // A configuration that only references others checks nothing without `--build`, and would always pass.
        let words: &[&str] = if text.contains("\"references\"") {
            &[checker, "--build", "--noEmit", "--pretty", "false"]
        } else {
            &[checker, "--noEmit", "--pretty", "false"]
        };
        let draft = self.tool_gate("types", GateAspect::Types, &to_strings(words));
        Some(
            draft
                .with_report(ReportFormat::Tsc)
                .covering(&[checker])
                .with_reason(&source, format!("`{source}` exists, and {checker} is a dependency")),
        )
    }

    fn lint_gate(&self) -> Option<GateDraft> {
        let is_config =
            |name: &&String| name.starts_with("eslint.config.") || name.starts_with(".eslintrc");
        let config = self.place.names().iter().find(is_config)?;
        if !self.depends_on("eslint") {
            return None;
        }
        let source = self.place.relative(config);
        Some(self.eslint_gate(&[]).with_reason(&source, format!("`{source}` sets up eslint")))
    }
}

fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
