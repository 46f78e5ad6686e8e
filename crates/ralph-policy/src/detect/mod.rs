//! Inspects a project and proposes gates. It reads files and looks up tools on `PATH`; it runs nothing.
//!
//! The files of a project may be hostile: reads are bounded, symbolic links out of the project are not followed, and
//! commands with invisible characters are left out.

mod cargo;
mod ci;
mod ci_facts;
mod command_import;
mod gate_draft;
mod go;
mod json_node;
mod jvm;
mod make;
mod managed_runtimes;
mod native_build;
mod node;
mod node_workspace;
mod peer_tools;
mod plain_tests;
mod project_dir;
mod python;
pub mod render_policy;
mod shell_text;
pub mod typed_command;
pub mod yaml;

use std::path::{Path, PathBuf};

use ralph_core::gate::Gate;

pub use self::ci_facts::CiVariable;
use self::gate_draft::GateDraft;
use self::project_dir::{DetectionNotes, InspectedProject, ProjectDir};
use ralph_sys::env::Env;

const NO_GATE_NOTE: &str = "no gate was found";
/// Maximum number of proposed gates; people do not read a longer proposal.
const MAX_PROPOSED_GATES: usize = 40;

/// The result of inspecting a project: proposed gates and everything else for a new policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectedGates {
    pub gates: Vec<ProposedGate>,
    /// Tools that proposed gates need and that are not installed. Such a gate is proposed as a comment, so it can never
    /// pass.
    pub missing: Vec<MissingTool>,
    /// Notes for the person, such as what was left out and why.
    pub notes: Vec<String>,
    /// Globs of files that an agent should not change.
    pub protect_globs: Vec<String>,
    /// Ignored directories without which the gates cannot run in a clean checkout.
    pub linked_directories: Vec<String>,
    /// Variables that CI sets to one value, and on which results depend.
    pub variables: Vec<CiVariable>,
}

impl DetectedGates {
    /// Puts the gates that a person typed first. They replace detected ones of the same name or command.
    pub fn add_typed(&mut self, typed: &[ProposedGate]) {
        let is_typed = |found: &ProposedGate| {
            typed.iter().any(|one| {
                one.gate.name == found.gate.name || one.gate.command == found.gate.command
            })
        };
        self.gates.retain(|found| !is_typed(found));
        self.gates.splice(0..0, typed.iter().cloned());
        self.notes.retain(|note| !note.starts_with(NO_GATE_NOTE));
    }
}

/// A proposed gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedGate {
    pub gate: Gate,
    /// Why the gate is proposed, as text.
    pub why: String,
    /// The file that it is derived from, relative to the project.
    pub source: PathBuf,
    pub confidence: ProposalConfidence,
    pub tool: ToolLookup,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalConfidence {
    /// The project is set up for it.
    Certain,
    /// A guess; a person should review it.
    Likely,
}

/// The result of looking up the program that a gate runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolLookup {
    Found(PathBuf),
    /// The name of the program.
    Missing(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTool {
    pub tool: String,
    /// The gates that need it.
    pub gates: String,
}

/// A command that another tool's files declare as a check of the whole project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredCommand {
    /// The declaring file, relative to the project.
    pub source: String,
    /// The author's name for it; may be empty.
    pub label: String,
    pub command: String,
}

/// How a project nested in another one of the same stack is treated.
#[derive(Clone, Copy)]
enum StackNesting {
    /// A gate of the outer project covers the inner one's gate of the same aspect.
    Covered,
    /// Each project gets its own gates.
    Independent,
}

/// Detects the gates of one language or build tool.
struct StackDetector {
    name: &'static str,
    detect: fn(&ProjectDir<'_>, &mut DetectionNotes) -> Vec<GateDraft>,
    nesting: StackNesting,
}

const STACK_DETECTORS: [StackDetector; 10] = [
    StackDetector { name: "rust", detect: cargo::cargo_gates, nesting: StackNesting::Covered },
    StackDetector { name: "node", detect: node::node_gates, nesting: StackNesting::Covered },
    StackDetector { name: "python", detect: python::python_gates, nesting: StackNesting::Covered },
    StackDetector { name: "go", detect: go::go_gates, nesting: StackNesting::Independent },
    StackDetector { name: "jvm", detect: jvm::jvm_gates, nesting: StackNesting::Covered },
    StackDetector {
        name: "native",
        detect: native_build::native_gates,
        nesting: StackNesting::Covered,
    },
    StackDetector {
        name: "dotnet",
        detect: managed_runtimes::dotnet_gates,
        nesting: StackNesting::Covered,
    },
    StackDetector {
        name: "ruby",
        detect: managed_runtimes::ruby_gates,
        nesting: StackNesting::Covered,
    },
    StackDetector {
        name: "php",
        detect: managed_runtimes::php_gates,
        nesting: StackNesting::Covered,
    },
    StackDetector {
        name: "elixir",
        detect: managed_runtimes::elixir_gates,
        nesting: StackNesting::Covered,
    },
];

/// Proposes gates for a project.
pub fn detect_gates(project: &Path, env: &Env) -> DetectedGates {
    let project = InspectedProject::open(project, env);
    let mut notes = DetectionNotes::default();
    let places = project.directories(&mut notes);
    let Some(root) = places.first() else {
        notes.add("the project directory cannot be read");
        return DetectedGates { notes: notes.into_list(), ..DetectedGates::default() };
    };
    let mut drafts = Vec::new();
    for stack in &STACK_DETECTORS {
        for place in &places {
            let found = (stack.detect)(place, &mut notes);
            let new = found.into_iter().filter(|draft| !is_covered(&drafts, stack, draft));
            let new: Vec<_> = new.map(|draft| draft.with_stack(stack.name)).collect();
            drafts.extend(new);
        }
    }
    let facts = ci::read_facts(root, &mut notes);
    facts.fit_rust_gates(&mut drafts, &mut notes);
    let targets = make::make_gates(root, &drafts, &mut notes);
    drafts.extend(targets);
    let declared = peer_tools::peer_tool_gates(root, &drafts, &mut notes);
    drafts.extend(declared);
    let imported = ci::ci_gates(root, &drafts, &mut notes);
    drafts.extend(imported);
    let plain = plain_tests::plain_gates(root, &drafts, &mut notes);
    drafts.extend(plain);
    native_build::note_uncovered(&places, &drafts, &mut notes);
    let variables = facts.agreed_variables(&mut notes);
    if drafts.is_empty() {
        notes.add(&format!("{NO_GATE_NOTE}, and without one a run ends as `claimed` when the agent says so, or at a limit: `ralph gate add \"CMD\"` adds one"));
    }
    DetectedGates { variables, ..build_result(drafts, notes, root) }
}

/// The gates of declared commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredGates {
    pub detected: DetectedGates,
    /// Indices of the commands that the gates do not fully cover: they prepare or publish, cannot run on their own, or
    /// repeat another command.
    pub without_gate: Vec<usize>,
}

/// Turns declared commands into gates.
pub fn import_declared(project: &Path, env: &Env, commands: &[DeclaredCommand]) -> DeclaredGates {
    let project = InspectedProject::open(project, env);
    let mut notes = DetectionNotes::default();
    let Some(root) = project.directory(String::new(), &mut notes) else {
        let detected = DetectedGates { notes: notes.into_list(), ..DetectedGates::default() };
        return DeclaredGates { detected, without_gate: (0..commands.len()).collect() };
    };
    let mut drafts: Vec<GateDraft> = Vec::new();
    let mut without_gate = Vec::new();
    for (number, declared) in commands.iter().enumerate() {
        let script = command_import::ImportedScript {
            source: declared.source.clone(),
            text: declared.command.clone(),
            cwd: String::new(),
            label: Some(declared.label.clone()).filter(|label| !label.is_empty()),
            origin: command_import::CommandOrigin::Declared,
        };
        // Notes about commands without a gate are dropped: the caller reports those commands itself.
        let mut unused = DetectionNotes::default();
        let new = command_import::import_scripts(&root, vec![script], &drafts, &mut unused);
        let parts = shell_text::split_commands(&declared.command).unwrap_or_default();
        let parts = parts.iter().filter(|part| !part.starts_with("cd ")).count();
        if new.is_empty() || new.len() < parts {
            without_gate.push(number);
        }
        drafts.extend(new);
    }
    DeclaredGates { detected: build_result(drafts, notes, &root), without_gate }
}

/// The words of a command that needs no shell, has no invisible characters and is not a setup command; `None` for any
/// other.
pub fn simple_check_words(command: &str) -> Option<Vec<String>> {
    let shell_text::CommandShape::Words(words) = shell_text::command_shape(command.trim()) else {
        return None;
    };
    let names: Vec<&str> = words.iter().map(String::as_str).collect();
    let only_looks = matches!(names.first(), Some(&("cat" | "ls")));
    let is_check = command_import::is_visible(command.trim())
        && (only_looks || !command_import::is_setup_command(&names));
    is_check.then_some(words)
}

/// Whether a directory above has a gate of the same stack and aspect.
fn is_covered(drafts: &[GateDraft], stack: &StackDetector, draft: &GateDraft) -> bool {
    match stack.nesting {
        StackNesting::Independent => false,
        StackNesting::Covered => drafts.iter().any(|other| {
            other.stack == stack.name
                && other.aspect == draft.aspect
                && project_dir::is_at_or_below(&draft.gate.cwd, &other.gate.cwd)
        }),
    }
}

fn build_result(
    mut drafts: Vec<GateDraft>,
    mut notes: DetectionNotes,
    root: &ProjectDir<'_>,
) -> DetectedGates {
    if drafts.len() > MAX_PROPOSED_GATES {
        notes.add(&format!(
            "only the first {MAX_PROPOSED_GATES} gates are proposed; {} more were left out",
            drafts.len().saturating_sub(MAX_PROPOSED_GATES)
        ));
        drafts.truncate(MAX_PROPOSED_GATES);
    }
    gate_draft::assign_unique_names(&mut drafts);
    drafts.sort_by_key(|draft| draft.gate.stage);
    let mut missing: Vec<(String, Vec<String>)> = Vec::new();
    for draft in &drafts {
        if let ToolLookup::Missing(tool) = &draft.tool {
            match missing.iter_mut().find(|(name, _)| name == tool) {
                Some((_, gates)) => gates.push(format!("`{}`", draft.gate.name)),
                None => missing.push((tool.clone(), vec![format!("`{}`", draft.gate.name)])),
            }
        }
    }
    let linked_directories = linked_directories(root, &drafts);
    DetectedGates {
        gates: drafts.into_iter().map(GateDraft::into_proposal).collect(),
        missing: missing
            .into_iter()
            .map(|(tool, gates)| MissingTool { tool, gates: gates.join(", ") })
            .collect(),
        notes: notes.into_list(),
        protect_globs: protected_globs(root),
        linked_directories,
        variables: Vec::new(),
    }
}

/// Files and directories that decide whether checks pass, with the globs that protect them. Tests are not among them:
/// the work adds tests, and weakened ones are detected anyway. Neither is the policy: it is sealed.
const PROTECTED_GLOBS: [(&str, &str); 25] = [
    (".github", ".github/workflows/**"),
    (".github", ".github/actions/**"),
    (".circleci", ".circleci/**"),
    (".gitlab-ci.yml", ".gitlab-ci.yml"),
    ("azure-pipelines.yml", "azure-pipelines.yml"),
    (".travis.yml", ".travis.yml"),
    (".pre-commit-config.yaml", ".pre-commit-config.yaml"),
    ("clippy.toml", "clippy.toml"),
    (".clippy.toml", ".clippy.toml"),
    ("rustfmt.toml", "rustfmt.toml"),
    ("deny.toml", "deny.toml"),
    ("eslint.config.js", "eslint.config.*"),
    ("eslint.config.mjs", "eslint.config.*"),
    ("eslint.config.ts", "eslint.config.*"),
    (".eslintrc.json", ".eslintrc*"),
    (".eslintrc.js", ".eslintrc*"),
    (".eslintrc.cjs", ".eslintrc*"),
    ("biome.json", "biome.json"),
    ("ruff.toml", "ruff.toml"),
    (".flake8", ".flake8"),
    ("mypy.ini", "mypy.ini"),
    ("pytest.ini", "pytest.ini"),
    ("tox.ini", "tox.ini"),
    (".golangci.yml", ".golangci.*"),
    (".golangci.yaml", ".golangci.*"),
];

fn protected_globs(root: &ProjectDir<'_>) -> Vec<String> {
    let mut protect: Vec<String> = Vec::new();
    for (name, glob) in PROTECTED_GLOBS {
        if root.has_entry(name) && !protect.iter().any(|known| known == glob) {
            protect.push(glob.to_string());
        }
    }
    protect
}

/// Ignored directories to link into a clean checkout.
fn linked_directories(root: &ProjectDir<'_>, drafts: &[GateDraft]) -> Vec<String> {
    let mut link: Vec<String> = Vec::new();
    for above in drafts.iter().flat_map(|draft| Path::new(&draft.gate.cwd).ancestors()) {
        for directory in ["node_modules", ".venv"] {
            let path = project_dir::join_relative(&above.to_string_lossy(), directory);
            if !link.contains(&path)
                && ralph_sys::fs::is_directory(&root.project().root().join(&path))
            {
                link.push(path);
            }
        }
    }
    link
}

#[cfg(test)]
mod tests;
