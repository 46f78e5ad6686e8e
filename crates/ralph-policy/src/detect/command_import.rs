//! Imports commands written for CI or for other tools: decides which of them are checks, which an existing gate already
//! covers, and which cannot be gates.

use ralph_core::gate::GateInvocation;
use ralph_core::text;

use super::gate_draft::{GateAspect, GateDraft, slug};
use super::project_dir::{self, DetectionNotes, ProjectDir};
use super::shell_text::{self, CommandShape};

pub(super) const MAX_COMMAND_BYTES: usize = 1000;
/// Maximum number of commands imported from CI, and from other tools.
const MAX_IMPORTED: usize = 12;

/// Where a command was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandOrigin {
    /// Declared as a check in the settings of another tool.
    Declared,
    /// A step of a CI job.
    Ci,
    /// A code block in instructions for agents.
    Prose,
}

/// A script and the file it comes from.
#[derive(Clone, Debug)]
pub(super) struct ImportedScript {
    pub(super) source: String,
    pub(super) text: String,
    /// Relative to the project.
    pub(super) cwd: String,
    /// The author's name for it.
    pub(super) label: Option<String>,
    pub(super) origin: CommandOrigin,
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
pub(super) fn import_scripts(
    root: &ProjectDir<'_>,
    scripts: Vec<ImportedScript>,
    known: &[GateDraft],
    notes: &mut DetectionNotes,
) -> Vec<GateDraft> {
    let mut drafts: Vec<GateDraft> = Vec::new();
    let mut import_notes = ImportNotes::default();
    for script in scripts {
        let mut refused = 0;
        let commands = shell_text::split_commands(&script.text);
        if commands.is_none() {
            refused = 1;
        }
        let mut cwd = script.cwd.clone();
        for text in commands.unwrap_or_default() {
            if !is_visible(&text) {
                notes.add(&format!(
                    "`{}` has a command with invisible characters; it was left out",
                    script.source
                ));
                continue;
            }
            match import_command(root, &script, &text, &cwd) {
                ImportOutcome::ChangedDirectory(to) => cwd = to,
                ImportOutcome::Skipped => refused += 1,
                ImportOutcome::UnknownDirectory => {
                    refused += 1;
                    break;
                }
                ImportOutcome::Gate(draft) => match covering_gate(&draft, known) {
                    Some(ours) => {
                        if let Some(command) = variant_with_flags(ours, &draft) {
                            import_notes.add_variant(&ours.gate.name, command);
                        }
                    }
                    None => add_draft(&mut drafts, *draft, known, notes),
                },
            }
        }
        import_notes.count_left_out(script.source, refused);
    }
    import_notes.write_notes(notes);
    drafts
}

/// The known gate that already covers this one.
fn covering_gate<'d>(draft: &GateDraft, known: &'d [GateDraft]) -> Option<&'d GateDraft> {
    let canonical = draft.covers.first()?;
    known.iter().find(|other| other.gate.cwd == draft.gate.cwd && other.covers.contains(canonical))
}

/// How a command of a script is handled.
enum ImportOutcome {
    Gate(Box<GateDraft>),
    /// A `cd`: the following commands run there.
    ChangedDirectory(String),
    Skipped,
    /// A `cd` to an unknown directory: the following commands would run in the wrong place.
    UnknownDirectory,
}

fn import_command(
    root: &ProjectDir<'_>,
    script: &ImportedScript,
    text: &str,
    cwd: &str,
) -> ImportOutcome {
    let (words, command) = match shell_text::command_shape(text) {
        CommandShape::Unclear => {
            return if text.starts_with("cd ") {
                ImportOutcome::UnknownDirectory
            } else {
                ImportOutcome::Skipped
            };
        }
        CommandShape::Words(words) => (words.clone(), GateInvocation::Argv(words)),
        CommandShape::Shell(words) => (words, GateInvocation::Shell(text.to_string())),
    };
    let names: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["cd", to] = names.as_slice() {
        return resolve_directory(root, cwd, to)
            .map_or(ImportOutcome::UnknownDirectory, ImportOutcome::ChangedDirectory);
    }
    if is_setup_command(&names) {
        return ImportOutcome::Skipped;
    }
    let label = script.label.as_deref().unwrap_or_default();
    let aspect = match script.origin {
        CommandOrigin::Declared => {
            command_aspect(&names).or_else(|| name_aspect(label)).or(Some(GateAspect::Test))
        }
        CommandOrigin::Ci | CommandOrigin::Prose => command_aspect(&names),
    };
    let Some(aspect) = aspect else { return ImportOutcome::Skipped };
    let (Some(place), Some(first)) = (root.directory_at(cwd), names.first()) else {
        return ImportOutcome::UnknownDirectory;
    };
    let name = match script.origin {
        CommandOrigin::Declared if !label.is_empty() => slug(label),
        CommandOrigin::Declared | CommandOrigin::Ci | CommandOrigin::Prose => {
            slug(&names.join("-"))
        }
    };
    let why = match script.origin {
        CommandOrigin::Declared => format!("`{}` declares it as a check", script.source),
        CommandOrigin::Ci => format!("`{}` runs it", script.source),
        CommandOrigin::Prose => format!("`{}` instructs agents to run it", script.source),
    };
    let draft = GateDraft::new(&place, &name, aspect, command)
        .with_tool(place.find_tool(first))
        .covering(&[&canonical_command(&names)])
        .with_reason(&script.source, why);
    let draft = if script.origin == CommandOrigin::Declared { draft } else { draft.likely() };
    ImportOutcome::Gate(Box::new(draft))
}

fn add_draft(
    drafts: &mut Vec<GateDraft>,
    draft: GateDraft,
    known: &[GateDraft],
    notes: &mut DetectionNotes,
) {
    let cwd = draft.gate.cwd.clone();
    let canonical = draft.covers.first().cloned().unwrap_or_default();
    let is_wrapper = canonical.starts_with("make ") || canonical.starts_with("just ");
    let is_repeated = drafts.iter().any(|other| {
        other.gate.cwd == cwd
            && other.covers == draft.covers
            && has_all_words(&other.gate.command, &draft.gate.command)
    });
    if is_repeated || (is_wrapper && is_aspect_covered(known.iter(), &cwd, draft.aspect)) {
        return;
    }
    if drafts.len() == MAX_IMPORTED {
        notes.add(&format!(
            "only the first {MAX_IMPORTED} commands of CI and other tools were imported"
        ));
        return;
    }
    drafts.push(draft);
}

/// Whether `one` has every word of `other`, so that it does at least as much.
fn has_all_words(one: &GateInvocation, other: &GateInvocation) -> bool {
    match (one, other) {
        (GateInvocation::Argv(ours), GateInvocation::Argv(theirs)) => {
            theirs.iter().all(|word| ours.contains(word))
        }
        (GateInvocation::Argv(_), GateInvocation::Shell(_)) | (GateInvocation::Shell(_), _) => {
            one == other
        }
    }
}

/// Words that do not affect which things are checked.
const NEUTRAL_WORDS: [&str; 9] =
    ["--", "--all", "--check", "--color", "--frozen", "--locked", "--verbose", "--workspace", "-v"];

/// The other command if it runs the same tool with additional flags: one gate is enough, but the person should know.
fn variant_with_flags(ours: &GateDraft, theirs: &GateDraft) -> Option<String> {
    let (GateInvocation::Argv(our_words), GateInvocation::Argv(their_words)) =
        (&ours.gate.command, &theirs.gate.command)
    else {
        return None;
    };
    let is_new = |word: &String| {
        !our_words.contains(word)
            && !NEUTRAL_WORDS.contains(&word.as_str())
            && !word.starts_with('+')
            && !word.starts_with("--color=")
    };
    let is_same_tool = our_words.first() == their_words.first() && ours.aspect == theirs.aspect;
    (is_same_tool && their_words.iter().any(is_new)).then(|| their_words.join(" "))
}

/// Notes collected during an import and added at its end.
#[derive(Default)]
struct ImportNotes {
    /// How many commands of each file were left out.
    left_out: Vec<(String, u32)>,
    /// Commands that a gate covers although they have additional flags.
    variants: Vec<(String, Vec<String>)>,
}

impl ImportNotes {
    fn count_left_out(&mut self, source: String, count: u32) {
        match self.left_out.iter_mut().find(|(known, _)| *known == source) {
            Some((_, sum)) => *sum += count,
            None => self.left_out.push((source, count)),
        }
    }

    fn add_variant(&mut self, gate: &str, command: String) {
        match self.variants.iter_mut().find(|(known, _)| known == gate) {
            Some((_, commands)) if commands.contains(&command) => {}
            Some((_, commands)) => commands.push(command),
            None => self.variants.push((gate.to_string(), vec![command])),
        }
    }

    fn write_notes(self, notes: &mut DetectionNotes) {
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
    mut known: impl Iterator<Item = &'d GateDraft>,
    cwd: &str,
    aspect: GateAspect,
) -> bool {
    known.any(|other| {
        other.gate.cwd == cwd
            && (aspect == GateAspect::Whole
                || other.aspect == aspect
                || other.aspect == GateAspect::Whole)
    })
}

/// Whether a command is short, on one line, and free of invisible characters.
pub(super) fn is_visible(command: &str) -> bool {
    command.len() <= MAX_COMMAND_BYTES && !command.contains('\n') && text::clean(command) == command
}

/// Resolves `to` to an existing directory below `cwd`.
pub(super) fn resolve_directory(root: &ProjectDir<'_>, cwd: &str, to: &str) -> Option<String> {
    let to = to.trim_start_matches("./").trim_end_matches('/');
    if matches!(to, "" | ".") {
        return Some(cwd.to_string());
    }
    let is_inside = !to.starts_with(['/', '~', '-'])
        && to.split('/').all(|part| !matches!(part, ".." | "" | "."))
        && project_dir::is_plain_name(to);
    let path = project_dir::join_relative(cwd, to);
    (is_inside && root.directory_at(&path).is_some()).then_some(path)
}

pub(super) fn is_setup_command(words: &[&str]) -> bool {
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
fn strip_launcher<'w>(words: &'w [&'w str]) -> &'w [&'w str] {
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
    if inner.is_empty() { words } else { strip_launcher(inner) }
}

/// A canonical name for what a command does, the same for every way to invoke it.
pub(super) fn canonical_command(words: &[&str]) -> String {
    let words = strip_launcher(words);
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
pub(super) fn command_aspect(words: &[&str]) -> Option<GateAspect> {
    let canonical = canonical_command(words);
    let checks = words.iter().any(|word| {
        matches!(*word, "--check" | "--check-only" | "--diff" | "--list-different" | "-c" | "-l")
    });
    match canonical.as_str() {
        "ava" | "bats" | "bazel test" | "bun test" | "cargo nextest" | "cargo test" | "ctest"
        | "cypress" | "deno test" | "dotnet test" | "go test" | "gradle" | "jest" | "maven"
        | "mix test" | "mocha" | "nox" | "phpunit" | "playwright" | "pytest" | "rspec"
        | "swift test" | "tox" | "unittest" | "vitest" => Some(GateAspect::Test),
        "mypy" | "pyright" | "svelte-check" | "tsc" | "vue-tsc" => Some(GateAspect::Types),
        "actionlint" | "biome check" | "biome ci" | "biome lint" | "cargo clippy" | "codespell"
        | "deno lint" | "eslint" | "flake8" | "go vet" | "golangci-lint" | "hadolint"
        | "markdownlint" | "oxlint" | "pylint" | "rubocop" | "ruff check" | "shellcheck"
        | "staticcheck" | "stylelint" | "typos" | "yamllint" => Some(GateAspect::Lint),
        "black" | "cargo fmt" | "deno fmt" | "isort" | "prettier" | "ruff format" | "rustfmt" => {
            checks.then_some(GateAspect::Format)
        }
        "bandit" | "cargo audit" | "cargo deny" | "gitleaks" | "govulncheck" | "pip-audit"
        | "semgrep" | "trivy" => Some(GateAspect::Audit),
        "cargo build" | "cargo check" | "dotnet build" | "go build" => Some(GateAspect::Build),
        _ => {
            let name = canonical
                .strip_prefix("script ")
                .or_else(|| canonical.strip_prefix("make "))
                .or_else(|| canonical.strip_prefix("just "))
                .or_else(|| canonical.strip_prefix("task "))
                .or_else(|| canonical.strip_prefix("composer "))
                .or_else(|| canonical.strip_prefix("rake "))
                .or_else(|| canonical.strip_prefix("bash "))
                .or_else(|| canonical.strip_prefix("sh "))
                .or_else(|| words.first().filter(|first| first.contains('/')).copied())?;
            name_aspect(basename(name))
        }
    }
}

/// What a script, target or job checks, judged by its name.
pub(super) fn name_aspect(name: &str) -> Option<GateAspect> {
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split(|char: char| !char.is_ascii_alphanumeric()).collect();
    let has_any = |words: &[&str]| parts.iter().any(|part| words.contains(part));
    if has_any(&["watch", "fix", "dev", "deploy", "publish", "install", "update", "write"]) {
        None
    } else if has_any(&["audit", "security", "deny"]) {
        Some(GateAspect::Audit)
    } else if has_any(&["fmt", "format", "prettier"]) {
        has_any(&["check"]).then_some(GateAspect::Format)
    } else if has_any(&["typecheck", "types", "type", "tsc", "mypy"]) {
        Some(GateAspect::Types)
    } else if has_any(&["lint", "eslint", "clippy", "vet", "style", "ruff"]) {
        Some(GateAspect::Lint)
    } else if has_any(&["test", "tests", "unit", "e2e", "integration", "spec", "pytest"]) {
        Some(GateAspect::Test)
    } else if has_any(&["build", "compile"]) {
        Some(GateAspect::Build)
    } else if has_any(&["check", "checks", "ci", "verify", "validate"]) {
        Some(GateAspect::Whole)
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
            ("uv run --frozen pytest -q", "pytest", Some(GateAspect::Test)),
            ("python -m pytest", "pytest", Some(GateAspect::Test)),
            ("poetry run python -m pytest", "pytest", Some(GateAspect::Test)),
            ("cargo +nightly test --all", "cargo test", Some(GateAspect::Test)),
            ("npm run lint", "script lint", Some(GateAspect::Lint)),
            ("pnpm test:unit", "script test:unit", Some(GateAspect::Test)),
            ("yarn exec tsc", "tsc", Some(GateAspect::Types)),
            ("npx --no-install eslint .", "eslint", Some(GateAspect::Lint)),
            ("./gradlew build", "gradle", Some(GateAspect::Test)),
            ("ruff format .", "ruff format", None),
            ("ruff format --check .", "ruff format", Some(GateAspect::Format)),
            ("bash ci/test.sh", "bash ci/test.sh", Some(GateAspect::Test)),
            ("./scripts/verify.sh", "verify.sh", Some(GateAspect::Whole)),
            ("make ci", "make ci", Some(GateAspect::Whole)),
            ("node server.js", "node", None),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(
                (canonical_command(&words).as_str(), command_aspect(&words)),
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
            assert_eq!(is_setup_command(&words), expected, "{command}");
        }
    }
}
