//! JavaScript and TypeScript: `package.json`, run with the package manager of its lock file. Tools are started in ways
//! that never download anything.

use ralph_core::gate::{Command, Format};
use serde_json::Value;

use super::Tool;
use super::command::{aspect_of_name, is_seen};
use super::draft::{Aspect, Draft};
use super::place::{Notes, Place};
use super::shell::{self, Shape};

/// Names of scripts that become gates, in order of preference.
const SCRIPTS: [&str; 12] = [
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
enum Client {
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

struct Package<'a> {
    place: &'a Place<'a>,
    source: String,
    client: Client,
    json: Value,
}

impl Client {
    fn of(place: &Place<'_>, json: &Value) -> Self {
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
    fn exec(self) -> &'static [&'static str] {
        match self {
            Self::Npm => &["npx", "--no-install"],
            Self::Pnpm => &["pnpm", "exec"],
            Self::Yarn => &["yarn", "run"],
            Self::Bun => &["bunx", "--no-install"],
        }
    }

    fn install(self) -> &'static str {
        match self {
            Self::Npm => "npm ci",
            Self::Pnpm => "pnpm install",
            Self::Yarn => "yarn install",
            Self::Bun => "bun install",
        }
    }
}

pub(super) fn look(place: &Place<'_>, notes: &mut Notes) -> Vec<Draft> {
    if !place.has("package.json") {
        return Vec::new();
    }
    let source = place.relative("package.json");
    let Some(text) = place.text("package.json", notes) else { return Vec::new() };
    let Ok(json) = serde_json::from_str::<Value>(&text) else {
        notes.add(&format!("`{source}` is not valid JSON"));
        return Vec::new();
    };
    let package = Package { place, client: Client::of(place, &json), source, json };
    let mut drafts: Vec<Draft> = Vec::new();
    for name in SCRIPTS {
        let Some(script) = package.script(name) else { continue };
        let Some(draft) = package.gate(name, script, notes) else { continue };
        // One script per aspect; the first name in the list is the most common one.
        if !drafts.iter().any(|known| known.aspect == draft.aspect) {
            drafts.push(draft);
        }
    }
    let has = |aspect| move |drafts: &[Draft]| drafts.iter().any(|draft| draft.aspect == aspect);
    if !has(Aspect::Types)(&drafts) {
        drafts.extend(package.types());
    }
    if !has(Aspect::Lint)(&drafts) {
        drafts.extend(package.lint());
    }
    let is_installed = ["node_modules", ".pnp.cjs"].iter().any(|name| place.is_here_or_above(name));
    if !drafts.is_empty() && !is_installed {
        notes.add(&format!(
            "`{}`: dependencies are not installed; its gates need `{}` first",
            package.source,
            package.client.install()
        ));
    }
    drafts
}

impl Package<'_> {
    fn script(&self, name: &str) -> Option<&str> {
        self.json.get("scripts")?.get(name)?.as_str()
    }

    fn depends_on(&self, name: &str) -> bool {
        ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"]
            .into_iter()
            .any(|kind| self.json.get(kind).is_some_and(|list| list.get(name).is_some()))
    }

    /// A gate that runs a dependency without downloading it. An installed tool is started by its path, because a launcher
    /// that does not find it exits with 1, just like a failed check.
    fn tool(&self, name: &str, aspect: Aspect, words: &[String]) -> Draft {
        let (program, rest) =
            words.split_first().map_or(("", words), |(first, rest)| (first, rest));
        let installed = format!("node_modules/.bin/{program}");
        let mut argv = match self.place.tool(&installed) {
            Tool::Found(_) => vec![installed],
            Tool::Missing(_) => {
                let start = self.client.exec().iter().copied();
                start.chain([program]).map(str::to_owned).collect()
            }
        };
        argv.extend(rest.iter().cloned());
        Draft::new(self.place, name, aspect, Command::Argv(argv))
    }

    fn gate(&self, name: &str, script: &str, notes: &mut Notes) -> Option<Draft> {
        let shown = format!("`{}` has a script `{name}`", self.source);
        if script.contains("no test specified") {
            notes.add(&format!("{shown} that is only the placeholder of `npm init`"));
            return None;
        }
        if !is_seen(script) {
            notes.add(&format!("{shown} with invisible characters; it was left out"));
            return None;
        }
        let aspect = aspect_of_name(name)?;
        let words = match shell::shape(script) {
            Shape::Words(words) => words,
            Shape::Shell(_) | Shape::Unclear => Vec::new(),
        };
        let direct = match words.split_first() {
            Some((program, rest)) => self.direct(program, rest),
            None => None,
        };
        let own = format!("script {name}");
        if let Some(draft) = direct {
            return Some(draft.covers(&[&own]).because(&self.source, shown));
        }
        let changes = ["--fix", "--write", "--watch", "--watchAll", "--apply"];
        if script.split_whitespace().any(|word| changes.contains(&word)) {
            notes.add(&format!("{shown} that changes files or never ends; it was left out"));
            return None;
        }
        let client = self.client.name();
        let started: &[&str] = if name == "test" && client != "bun" {
            &[client, name]
        } else {
            &[client, "run", name]
        };
        let label = match aspect {
            Aspect::Test => "tests",
            Aspect::Types => "types",
            Aspect::Format => "format",
            Aspect::Build | Aspect::Lint | Aspect::Audit | Aspect::Whole => name,
        };
        Some(
            Draft::argv(self.place, label, aspect, started)
                .covers(&[&own])
                .because(&self.source, shown),
        )
    }

    /// A script that only runs a known tool becomes a gate that runs this tool with a machine-readable report.
    fn direct(&self, program: &str, rest: &[String]) -> Option<Draft> {
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
        match program {
            "vitest" if !has_reporter => {
                let mut words = vec!["vitest".to_string(), "run".to_string()];
                words.extend(without(&["run", "watch", "--watch", "-w", "--ui", "dev"]));
                words.extend(strings(&["--reporter=junit", "--outputFile={report}"]));
                let draft = self.tool("tests", Aspect::Test, &words);
                Some(draft.report(Format::Junit).covers(&["vitest"]))
            }
            "jest" if !has_reporter => {
                Some(self.jest(&without(&["--watch", "--watchAll", "--ci"])))
            }
            "mocha" if !has_reporter => {
                let mut words = vec!["mocha".to_string()];
                words.extend(without(&["--watch", "-w"]));
                words.push("--reporter=tap".to_string());
                let draft = self.tool("tests", Aspect::Test, &words);
                Some(draft.report(Format::Tap).covers(&["mocha"]))
            }
            "node" if rest.first().is_some_and(|word| word == "--test") && !has_reporter => {
                let mut words = strings(&["node", "--test", "--test-reporter=junit"]);
                words.push("--test-reporter-destination={report}".to_string());
                words.extend(without(&["--test", "--watch"]));
                let draft = Draft::new(self.place, "tests", Aspect::Test, Command::Argv(words));
                Some(draft.report(Format::Junit))
            }
            "bun" if rest.first().is_some_and(|word| word == "test") && !has_reporter => {
                let mut words = strings(&["bun", "test"]);
                words.extend(without(&["test", "--watch"]));
                words.extend(strings(&["--reporter=junit", "--reporter-outfile={report}"]));
                let draft = Draft::new(self.place, "tests", Aspect::Test, Command::Argv(words));
                Some(draft.report(Format::Junit).covers(&["bun test"]))
            }
            "eslint" if !has_reporter && !rest.iter().any(|word| word == "-f" || word == "-o") => {
                Some(self.eslint(&without(&["--fix"])))
            }
            "tsc" => {
                let mut words = vec!["tsc".to_string()];
                words.extend(without(&["--watch", "-w"]));
                let builds = rest.iter().any(|word| word == "-b" || word == "--build");
                if !builds && !rest.iter().any(|word| word == "--noEmit") {
                    words.push("--noEmit".to_string());
                }
                if !rest.iter().any(|word| word == "--pretty") {
                    words.extend(strings(&["--pretty", "false"]));
                }
                let draft = self.tool("types", Aspect::Types, &words);
                Some(draft.report(Format::Tsc).covers(&["tsc"]))
            }
            _ => None,
        }
    }

    fn jest(&self, rest: &[String]) -> Draft {
        let mut words = strings(&["jest", "--ci"]);
        words.extend(rest.iter().cloned());
        if !self.depends_on("jest-junit") {
            return self.tool("tests", Aspect::Test, &words).covers(&["jest"]);
        }
        words.extend(strings(&["--reporters=default", "--reporters=jest-junit"]));
        let started = self.tool("tests", Aspect::Test, &words);
        let tool = started.tool.clone();
        let mut argv = strings(&["env", "JEST_JUNIT_OUTPUT_FILE={report}"]);
        if let Command::Argv(words) = started.gate.command {
            argv.extend(words);
        }
        Draft::new(self.place, "tests", Aspect::Test, Command::Argv(argv))
            .needs(tool)
            .report(Format::Junit)
            .covers(&["jest"])
    }

    fn eslint(&self, rest: &[String]) -> Draft {
        let mut words = vec!["eslint".to_string()];
        words.extend(rest.iter().cloned());
        if rest.iter().all(|word| word.starts_with('-')) {
            words.push(".".to_string());
        }
        words.extend(strings(&["-f", "json", "-o", "{report}"]));
        let draft = self.tool("lint", Aspect::Lint, &words);
        draft.report(Format::EslintJson).covers(&["eslint"])
    }

    fn types(&self) -> Option<Draft> {
        if !self.place.has("tsconfig.json") || !self.depends_on("typescript") {
            return None;
        }
        let source = self.place.relative("tsconfig.json");
        let text = self.place.text("tsconfig.json", &mut Notes::default()).unwrap_or_default();
        let checker = if self.depends_on("vue-tsc") { "vue-tsc" } else { "tsc" };
        // A configuration that only references others checks nothing without `--build`, and would always pass.
        let words: &[&str] = if text.contains("\"references\"") {
            &[checker, "--build", "--noEmit", "--pretty", "false"]
        } else {
            &[checker, "--noEmit", "--pretty", "false"]
        };
        let draft = self.tool("types", Aspect::Types, &strings(words));
        Some(
            draft
                .report(Format::Tsc)
                .covers(&[checker])
                .because(&source, format!("`{source}` exists, and {checker} is a dependency")),
        )
    }

    fn lint(&self) -> Option<Draft> {
        let is_config =
            |name: &&String| name.starts_with("eslint.config.") || name.starts_with(".eslintrc");
        let config = self.place.names().iter().find(is_config)?;
        if !self.depends_on("eslint") {
            return None;
        }
        let source = self.place.relative(config);
        Some(self.eslint(&[]).because(&source, format!("`{source}` sets up eslint")))
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
