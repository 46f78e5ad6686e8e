//! Imports commands written for CI or for other tools: decides which of them are checks, which an existing gate already
//! covers, and which cannot be gates.

use ralph_core::gate::Command;
use ralph_core::text;

use super::draft::{Aspect, Draft, slug};
use super::place::{self, Notes, Place};
use super::shell::{self, Shape};

const LONGEST: usize = 1000;
/// Maximum number of commands imported from CI, and from other tools.
const MOST_IMPORTED: usize = 12;

/// Where a command was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Declared as a check in the settings of another tool.
    Declared,
    /// A step of a CI job.
    Ci,
    /// A code block in instructions for agents.
    Prose,
}

/// A script and the file it comes from.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) source: String,
    pub(super) text: String,
    /// Relative to the project.
    pub(super) cwd: String,
    /// The author's name for it.
    pub(super) label: Option<String>,
    pub(super) origin: Origin,
}

/// Programs that prepare, fetch, publish or clean up.
const SETUP_PROGRAMS: [&str; 56] = [
    ".",
    "apk",
    "apt",
    "apt-get",
    "aws",
    "az",
    "brew",
    "cat",
    "chmod",
    "codecov",
    "conda",
    "corepack",
    "coveralls",
    "cp",
    "curl",
    "docker",
    "docker-compose",
    "dnf",
    "echo",
    "exit",
    "export",
    "gcloud",
    "gh",
    "git",
    "glab",
    "helm",
    "kubectl",
    "ls",
    "mamba",
    "mkdir",
    "mv",
    "nvm",
    "pip",
    "pip3",
    "pipx",
    "podman",
    "printf",
    "pwd",
    "reviewdog",
    "rm",
    "rsync",
    "rustup",
    "scp",
    "set",
    "sleep",
    "source",
    "ssh",
    "sudo",
    "tar",
    "terraform",
    "touch",
    "twine",
    "unzip",
    "vercel",
    "wget",
    "yum",
];

/// Words that mark any command as one that prepares, publishes, changes files or never ends.
const SETUP_WORDS: [&str; 20] = [
    "--apply",
    "--fix",
    "--watch",
    "--watchAll",
    "--write",
    "add",
    "clone",
    "deploy",
    "dev",
    "download",
    "install",
    "login",
    "publish",
    "push",
    "release",
    "serve",
    "start",
    "sync",
    "upload",
    "watch",
];

const NODE_MANAGERS: [&str; 4] = ["bun", "npm", "pnpm", "yarn"];

/// Turns scripts into gates, leaving out commands that `known` gates cover.
pub(super) fn import(
    root: &Place<'_>,
    scripts: Vec<Script>,
    known: &[Draft],
    notes: &mut Notes,
) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    let mut import_notes = Told::default();
    for script in scripts {
        let mut refused = 0;
        let commands = shell::commands(&script.text);
        if commands.is_none() {
            refused = 1;
        }
        let mut cwd = script.cwd.clone();
        for text in commands.unwrap_or_default() {
            if !is_seen(&text) {
                notes.add(&format!(
                    "`{}` has a command with invisible characters; it was left out",
                    script.source
                ));
                continue;
            }
            match taken(root, &script, &text, &cwd) {
                Taken::Moved(to) => cwd = to,
                Taken::LeftOut => refused += 1,
                Taken::Lost => {
                    refused += 1;
                    break;
                }
                Taken::Gate(draft) => match known_gate(&draft, known) {
                    Some(ours) => {
                        if let Some(command) = variant(ours, &draft) {
                            import_notes.variant(&ours.gate.name, command);
                        }
                    }
                    None => add(&mut drafts, *draft, known, notes),
                },
            }
        }
        import_notes.left_out(script.source, refused);
    }
    import_notes.note(notes);
    drafts
}

/// The known gate that already covers this one.
fn known_gate<'d>(draft: &Draft, known: &'d [Draft]) -> Option<&'d Draft> {
    let essence = draft.covers.first()?;
    known.iter().find(|other| other.gate.cwd == draft.gate.cwd && other.covers.contains(essence))
}

/// How a command of a script is handled.
enum Taken {
    Gate(Box<Draft>),
    /// A `cd`: the following commands run there.
    Moved(String),
    LeftOut,
    /// A `cd` to an unknown directory: the following commands would run in the wrong place.
    Lost,
}

fn taken(root: &Place<'_>, script: &Script, text: &str, cwd: &str) -> Taken {
    let (words, command) = match shell::shape(text) {
        Shape::Unclear => {
            return if text.starts_with("cd ") { Taken::Lost } else { Taken::LeftOut };
        }
        Shape::Words(words) => (words.clone(), Command::Argv(words)),
        Shape::Shell(words) => (words, Command::Shell(text.to_string())),
    };
    let names: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["cd", to] = names.as_slice() {
        return directory(root, cwd, to).map_or(Taken::Lost, Taken::Moved);
    }
    if is_setup(&names) {
        return Taken::LeftOut;
    }
    let label = script.label.as_deref().unwrap_or_default();
    let aspect = match script.origin {
        Origin::Declared => {
            aspect_of(&names).or_else(|| aspect_of_name(label)).or(Some(Aspect::Test))
        }
        Origin::Ci | Origin::Prose => aspect_of(&names),
    };
    let Some(aspect) = aspect else { return Taken::LeftOut };
    let (Some(place), Some(first)) = (root.at(cwd), names.first()) else { return Taken::Lost };
    let name = match script.origin {
        Origin::Declared if !label.is_empty() => slug(label),
        Origin::Declared | Origin::Ci | Origin::Prose => slug(&names.join("-")),
    };
    let why = match script.origin {
        Origin::Declared => format!("`{}` declares it as a check", script.source),
        Origin::Ci => format!("`{}` runs it", script.source),
        Origin::Prose => format!("`{}` instructs agents to run it", script.source),
    };
    let draft = Draft::new(&place, &name, aspect, command)
        .needs(place.tool(first))
        .covers(&[&essence(&names)])
        .because(&script.source, why);
    let draft = if script.origin == Origin::Declared { draft } else { draft.likely() };
    Taken::Gate(Box::new(draft))
}

fn add(drafts: &mut Vec<Draft>, draft: Draft, known: &[Draft], notes: &mut Notes) {
    let cwd = draft.gate.cwd.clone();
    let essence = draft.covers.first().cloned().unwrap_or_default();
    let is_wrapper = essence.starts_with("make ") || essence.starts_with("just ");
    let is_repeated = drafts.iter().any(|other| {
        other.gate.cwd == cwd
            && other.covers == draft.covers
            && has_all_words(&other.gate.command, &draft.gate.command)
    });
    if is_repeated || (is_wrapper && is_aspect_covered(known.iter(), &cwd, draft.aspect)) {
        return;
    }
    if drafts.len() == MOST_IMPORTED {
        notes.add(&format!(
            "only the first {MOST_IMPORTED} commands of CI and other tools were imported"
        ));
        return;
    }
    drafts.push(draft);
}

/// Whether `one` has every word of `other`, so that it does at least as much.
fn has_all_words(one: &Command, other: &Command) -> bool {
    match (one, other) {
        (Command::Argv(ours), Command::Argv(theirs)) => {
            theirs.iter().all(|word| ours.contains(word))
        }
        (Command::Argv(_), Command::Shell(_)) | (Command::Shell(_), _) => one == other,
    }
}

/// Words that do not affect which things are checked.
const HARMLESS: [&str; 9] =
    ["--", "--all", "--check", "--color", "--frozen", "--locked", "--verbose", "--workspace", "-v"];

/// The other command if it runs the same tool with additional flags: one gate is enough, but the person should know.
fn variant(ours: &Draft, theirs: &Draft) -> Option<String> {
    let (Command::Argv(our_words), Command::Argv(their_words)) =
        (&ours.gate.command, &theirs.gate.command)
    else {
        return None;
    };
    let is_new = |word: &String| {
        !our_words.contains(word)
            && !HARMLESS.contains(&word.as_str())
            && !word.starts_with('+')
            && !word.starts_with("--color=")
    };
    let is_same_tool = our_words.first() == their_words.first() && ours.aspect == theirs.aspect;
    (is_same_tool && their_words.iter().any(is_new)).then(|| their_words.join(" "))
}

/// Notes collected during an import and added at its end.
#[derive(Default)]
struct Told {
    /// How many commands of each file were left out.
    left_out: Vec<(String, u32)>,
    /// Commands that a gate covers although they have additional flags.
    variants: Vec<(String, Vec<String>)>,
}

impl Told {
    fn left_out(&mut self, source: String, count: u32) {
        match self.left_out.iter_mut().find(|(known, _)| *known == source) {
            Some((_, sum)) => *sum += count,
            None => self.left_out.push((source, count)),
        }
    }

    fn variant(&mut self, gate: &str, command: String) {
        match self.variants.iter_mut().find(|(known, _)| known == gate) {
            Some((_, commands)) if commands.contains(&command) => {}
            Some((_, commands)) => commands.push(command),
            None => self.variants.push((gate.to_string(), vec![command])),
        }
    }

    fn note(self, notes: &mut Notes) {
        for (gate, commands) in self.variants {
            let shown: Vec<_> =
                commands.iter().take(3).map(|command| format!("`{command}`")).collect();
            let more = match commands.len().saturating_sub(shown.len()) {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            notes.add(&format!(
                "gate `{gate}` covers {}{more}, but without those flags",
                shown.join(", ")
            ));
        }
        for (source, count) in self.left_out.into_iter().filter(|(_, count)| *count > 0) {
            let what = if count == 1 { "1 command was" } else { &format!("{count} commands were") };
            notes.add(&format!("`{source}`: {what} left out (not a check, or not runnable alone)"));
        }
    }
}

/// Whether a gate in that directory already covers this aspect. Any gate covers part of [`GateAspect::Whole`].
pub(super) fn is_aspect_covered<'d>(
    mut known: impl Iterator<Item = &'d Draft>,
    cwd: &str,
    aspect: Aspect,
) -> bool {
    known.any(|other| {
        other.gate.cwd == cwd
            && (aspect == Aspect::Whole || other.aspect == aspect || other.aspect == Aspect::Whole)
    })
}

/// Whether a command is short, on one line, and free of invisible characters.
pub(super) fn is_seen(command: &str) -> bool {
    command.len() <= LONGEST && !command.contains('\n') && text::clean(command) == command
}

/// Resolves `to` to an existing directory below `cwd`.
pub(super) fn directory(root: &Place<'_>, cwd: &str, to: &str) -> Option<String> {
    let to = to.trim_start_matches("./").trim_end_matches('/');
    if matches!(to, "" | ".") {
        return Some(cwd.to_string());
    }
    let is_inside = !to.starts_with(['/', '~', '-'])
        && to.split('/').all(|part| !matches!(part, ".." | "" | "."))
        && place::is_plain(to);
    let path = place::join(cwd, to);
    (is_inside && root.at(&path).is_some()).then_some(path)
}

pub(super) fn is_setup(words: &[&str]) -> bool {
    let program = words.first().copied().map(basename).unwrap_or_default();
    let second = words.get(1).copied().unwrap_or_default();
    SETUP_PROGRAMS.contains(&program)
        || words.iter().skip(1).any(|word| SETUP_WORDS.contains(word))
        || (NODE_MANAGERS.contains(&program)
            && matches!(second, "ci" | "i" | "exec" if words.len() == 2))
        || (program == "go" && matches!(second, "mod" | "generate" | "get"))
        || words.iter().any(|word| word.ends_with(":fix") || word.ends_with(":watch"))
}

fn basename(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Strips launchers: `uv run pytest`, `python -m pytest` and `pytest` are the same tool.
fn unwrapped<'w>(words: &'w [&'w str]) -> &'w [&'w str] {
    let skip_flags = |rest: &'w [&'w str]| {
        let flags = rest.iter().take_while(|word| word.starts_with('-')).count();
        rest.get(flags..).unwrap_or_default()
    };
    let program = words.first().copied().map(basename).unwrap_or_default();
    let inner = match (program, words.get(1..).unwrap_or_default()) {
        ("npx" | "bunx" | "pnpx", rest)
        | ("pnpm" | "npm" | "yarn" | "bundle", ["exec", rest @ ..])
        | ("uv" | "poetry" | "pdm" | "pipenv" | "hatch" | "rye", ["run", rest @ ..]) => {
            skip_flags(rest)
        }
        ("python" | "python3", ["-m", rest @ ..]) => rest,
        _ => return words,
    };
    if inner.is_empty() { words } else { unwrapped(inner) }
}

/// A canonical name for what a command does, the same for every way to invoke it.
pub(super) fn essence(words: &[&str]) -> String {
    let words = unwrapped(words);
    let program = words.first().copied().map(basename).unwrap_or_default();
    let mut rest = words.iter().skip(1).filter(|word| !word.starts_with(['-', '+']));
    let second = rest.next().copied().unwrap_or_default();
    match program {
        "npm" | "pnpm" | "yarn" | "bun" => match (program, second) {
            (_, "run") => format!("script {}", rest.next().copied().unwrap_or_default()),
            ("npm", "t") => "script test".to_string(),
            ("bun", "test") => "bun test".to_string(),
            (_, script) => format!("script {script}"),
        },
        "mvn" | "mvnw" => "maven".to_string(),
        "gradle" | "gradlew" => "gradle".to_string(),
        "cargo" | "go" | "make" | "just" | "task" | "ruff" | "biome" | "deno" | "dotnet"
        | "swift" | "mix" | "bazel" | "composer" | "rake" | "mise" | "bash" | "sh" => {
            format!("{program} {second}").trim_end().to_string()
        }
        _ => program.to_string(),
    }
}

/// What a command checks, or `None` if it is not a check.
fn aspect_of(words: &[&str]) -> Option<Aspect> {
    let essence = essence(words);
    let checks = words.iter().any(|word| {
        matches!(*word, "--check" | "--check-only" | "--diff" | "--list-different" | "-c" | "-l")
    });
    match essence.as_str() {
        "ava" | "bats" | "bazel test" | "bun test" | "cargo nextest" | "cargo test" | "ctest"
        | "cypress" | "deno test" | "dotnet test" | "go test" | "gradle" | "jest" | "maven"
        | "mix test" | "mocha" | "nox" | "phpunit" | "playwright" | "pytest" | "rspec"
        | "swift test" | "tox" | "unittest" | "vitest" => Some(Aspect::Test),
        "mypy" | "pyright" | "svelte-check" | "tsc" | "vue-tsc" => Some(Aspect::Types),
        "actionlint" | "biome check" | "biome ci" | "biome lint" | "cargo clippy" | "codespell"
        | "deno lint" | "eslint" | "flake8" | "go vet" | "golangci-lint" | "hadolint"
        | "markdownlint" | "oxlint" | "pylint" | "rubocop" | "ruff check" | "shellcheck"
        | "staticcheck" | "stylelint" | "typos" | "yamllint" => Some(Aspect::Lint),
        "black" | "cargo fmt" | "deno fmt" | "isort" | "prettier" | "ruff format" | "rustfmt" => {
            checks.then_some(Aspect::Format)
        }
        "bandit" | "cargo audit" | "cargo deny" | "gitleaks" | "govulncheck" | "pip-audit"
        | "semgrep" | "trivy" => Some(Aspect::Audit),
        "cargo build" | "cargo check" | "dotnet build" | "go build" => Some(Aspect::Build),
        _ => {
            let name = essence
                .strip_prefix("script ")
                .or_else(|| essence.strip_prefix("make "))
                .or_else(|| essence.strip_prefix("just "))
                .or_else(|| essence.strip_prefix("task "))
                .or_else(|| essence.strip_prefix("composer "))
                .or_else(|| essence.strip_prefix("rake "))
                .or_else(|| essence.strip_prefix("bash "))
                .or_else(|| essence.strip_prefix("sh "))
                .or_else(|| words.first().filter(|first| first.contains('/')).copied())?;
            aspect_of_name(basename(name))
        }
    }
}

/// What a script, target or job checks, judged by its name.
pub(super) fn aspect_of_name(name: &str) -> Option<Aspect> {
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split(|char: char| !char.is_ascii_alphanumeric()).collect();
    let has_any = |words: &[&str]| parts.iter().any(|part| words.contains(part));
    if has_any(&["watch", "fix", "dev", "deploy", "publish", "install", "update", "write"]) {
        None
    } else if has_any(&["audit", "security", "deny"]) {
        Some(Aspect::Audit)
    } else if has_any(&["fmt", "format", "prettier"]) {
        has_any(&["check"]).then_some(Aspect::Format)
    } else if has_any(&["typecheck", "types", "type", "tsc", "mypy"]) {
        Some(Aspect::Types)
    } else if has_any(&["lint", "eslint", "clippy", "vet", "style", "ruff"]) {
        Some(Aspect::Lint)
    } else if has_any(&["test", "tests", "unit", "e2e", "integration", "spec", "pytest"]) {
        Some(Aspect::Test)
    } else if has_any(&["build", "compile"]) {
        Some(Aspect::Build)
    } else if has_any(&["check", "checks", "ci", "verify", "validate"]) {
        Some(Aspect::Whole)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invocation_of_a_tool_has_one_canonical_name_and_aspect() {
        for (command, expected, aspect) in [
            ("uv run --frozen pytest -q", "pytest", Some(Aspect::Test)),
            ("python -m pytest", "pytest", Some(Aspect::Test)),
            ("poetry run python -m pytest", "pytest", Some(Aspect::Test)),
            ("cargo +nightly test --all", "cargo test", Some(Aspect::Test)),
            ("npm run lint", "script lint", Some(Aspect::Lint)),
            ("pnpm test:unit", "script test:unit", Some(Aspect::Test)),
            ("yarn exec tsc", "tsc", Some(Aspect::Types)),
            ("npx --no-install eslint .", "eslint", Some(Aspect::Lint)),
            ("./gradlew build", "gradle", Some(Aspect::Test)),
            ("ruff format .", "ruff format", None),
            ("ruff format --check .", "ruff format", Some(Aspect::Format)),
            ("bash ci/test.sh", "bash ci/test.sh", Some(Aspect::Test)),
            ("./scripts/verify.sh", "verify.sh", Some(Aspect::Whole)),
            ("make ci", "make ci", Some(Aspect::Whole)),
            ("node server.js", "node", None),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(
                (essence(&words).as_str(), aspect_of(&words)),
                (expected, aspect),
                "{command}"
            );
        }
    }

    #[test]
    fn commands_that_prepare_publish_or_change_files_are_setup() {
        for (command, expected) in [
            ("npm ci", true),
            ("make ci", false),
            ("npx playwright install", true),
            ("npm run lint:fix", true),
            ("eslint --fix .", true),
            ("cargo publish", true),
            ("sudo make test", true),
            ("cargo build --release", false),
            ("npm test", false),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(is_setup(&words), expected, "{command}");
        }
    }
}
