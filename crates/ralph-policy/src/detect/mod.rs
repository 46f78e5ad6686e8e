//! Inspects a project and proposes gates. It reads files and looks up tools on `PATH`; it runs nothing.
//!
//! The files of a project may be hostile: reads are bounded, symbolic links out of the project are not followed, and
//! commands with invisible characters are left out.

mod cargo;
mod ci;
mod command;
mod draft;
mod go;
mod json_node;
mod jvm;
mod make;
mod node;
mod peers;
mod place;
mod python;
mod shell;
pub mod write;
pub mod yaml;

use std::path::{Path, PathBuf};

use ralph_core::gate::Gate;

use self::draft::Draft;
use self::place::{Notes, Place, Project};
use ralph_sys::env::Env;

/// Maximum number of proposed gates; people do not read a longer proposal.
const MOST_GATES: usize = 40;

/// The result of inspecting a project: proposed gates and everything else for a new policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detected {
    pub gates: Vec<Proposal>,
    /// Tools that proposed gates need and that are not installed. Such a gate is proposed as a comment, so it can never
    /// pass.
    pub missing: Vec<MissingTool>,
    /// Notes for the person, such as what was left out and why.
    pub notes: Vec<String>,
    /// Globs of files that an agent should not change.
    pub protect: Vec<String>,
    /// Ignored directories without which the gates cannot run in a clean checkout.
    pub link: Vec<String>,
}

/// A proposed gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub gate: Gate,
    /// Why the gate is proposed, as text.
    pub why: String,
    /// The file that it is derived from, relative to the project.
    pub source: PathBuf,
    pub confidence: Confidence,
    pub tool: Tool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The project is set up for it.
    Certain,
    /// A guess; a person should review it.
    Likely,
}

/// The result of looking up the program that a gate runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tool {
    Found(PathBuf),
    /// The name of the program.
    Missing(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTool {
    pub tool: String,
    /// The gates that need it.
    pub for_what: String,
}

/// A command that another tool's files declare as a check of the whole project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The declaring file, relative to the project.
    pub source: String,
    /// The author's name for it; may be empty.
    pub label: String,
    pub command: String,
}

/// How a project nested in another one of the same stack is treated.
#[derive(Clone, Copy)]
enum Nesting {
    /// A gate of the outer project covers the inner one's gate of the same aspect.
    Covered,
    /// Each project gets its own gates.
    Apart,
}

/// Detects the gates of one language or build tool.
struct Stack {
    name: &'static str,
    look: fn(&Place<'_>, &mut Notes) -> Vec<Draft>,
    nesting: Nesting,
}

const STACKS: [Stack; 5] = [
    Stack { name: "rust", look: cargo::look, nesting: Nesting::Covered },
    Stack { name: "node", look: node::look, nesting: Nesting::Covered },
    Stack { name: "python", look: python::look, nesting: Nesting::Covered },
    Stack { name: "go", look: go::look, nesting: Nesting::Apart },
    Stack { name: "jvm", look: jvm::look, nesting: Nesting::Covered },
];

/// Proposes gates for a project.
pub fn survey(project: &Path, env: &Env) -> Detected {
    let project = Project::open(project, env);
    let mut notes = Notes::default();
    let places = project.places(&mut notes);
    let Some(root) = places.first() else {
        notes.add("the project directory cannot be read");
        return Detected { notes: notes.into_list(), ..Detected::default() };
    };
    let mut drafts = Vec::new();
    for stack in &STACKS {
        for place in &places {
            let found = (stack.look)(place, &mut notes);
            let new = found.into_iter().filter(|draft| !is_covered(&drafts, stack, draft));
            let new: Vec<_> = new.map(|draft| draft.of(stack.name)).collect();
            drafts.extend(new);
        }
    }
    let targets = make::look(root, &drafts, &mut notes);
    drafts.extend(targets);
    let declared = peers::look(root, &drafts, &mut notes);
    drafts.extend(declared);
    let imported = ci::look(root, &drafts, &mut notes);
    drafts.extend(imported);
    if drafts.is_empty() {
        notes.add("no gate was found, and without one a run ends only at its limits: docs/gates.md shows how to write one");
    }
    finish(drafts, notes, root)
}

/// Turns declared commands into gates. Also returns the indices of the commands that are not fully covered by those
/// gates: they prepare or publish, cannot run on their own, or repeat another command.
pub fn declared(project: &Path, env: &Env, commands: &[Declared]) -> (Detected, Vec<usize>) {
    let project = Project::open(project, env);
    let mut notes = Notes::default();
    let Some(root) = project.place(String::new(), &mut notes) else {
        return (Detected::default(), (0..commands.len()).collect());
    };
    let mut drafts: Vec<Draft> = Vec::new();
    let mut without = Vec::new();
    for (number, declared) in commands.iter().enumerate() {
        let script = command::Script {
            source: declared.source.clone(),
            text: declared.command.clone(),
            cwd: String::new(),
            label: Some(declared.label.clone()).filter(|label| !label.is_empty()),
            origin: command::Origin::Declared,
        };
        let new = command::import(&root, vec![script], &drafts, &mut Notes::default());
        let parts = shell::commands(&declared.command).unwrap_or_default();
        let parts = parts.iter().filter(|part| !part.starts_with("cd ")).count();
        if new.is_empty() || new.len() < parts {
            without.push(number);
        }
        drafts.extend(new);
    }
    (finish(drafts, notes, &root), without)
}

/// The words of a command that needs no shell, has no invisible characters and is not a setup command; `None` for any
/// other.
pub fn simple(command: &str) -> Option<Vec<String>> {
    let shell::Shape::Words(words) = shell::shape(command.trim()) else { return None };
    let names: Vec<&str> = words.iter().map(String::as_str).collect();
    let only_looks = matches!(names.first(), Some(&("cat" | "ls")));
    let is_check = command::is_seen(command.trim()) && (only_looks || !command::is_setup(&names));
    is_check.then_some(words)
}

/// Whether a directory above has a gate of the same stack and aspect.
fn is_covered(drafts: &[Draft], stack: &Stack, draft: &Draft) -> bool {
    match stack.nesting {
        Nesting::Apart => false,
        Nesting::Covered => drafts.iter().any(|other| {
            other.stack == stack.name
                && other.aspect == draft.aspect
                && place::is_below(&draft.gate.cwd, &other.gate.cwd)
        }),
    }
}

fn finish(mut drafts: Vec<Draft>, mut notes: Notes, root: &Place<'_>) -> Detected {
    if drafts.len() > MOST_GATES {
        notes.add(&format!(
            "only the first {MOST_GATES} gates are proposed; {} more were left out",
            drafts.len().saturating_sub(MOST_GATES)
        ));
        drafts.truncate(MOST_GATES);
    }
    draft::name_apart(&mut drafts);
    drafts.sort_by_key(|draft| draft.gate.stage);
    let mut missing: Vec<(String, Vec<String>)> = Vec::new();
    for draft in &drafts {
        if let Tool::Missing(tool) = &draft.tool {
            match missing.iter_mut().find(|(name, _)| name == tool) {
                Some((_, gates)) => gates.push(format!("`{}`", draft.gate.name)),
                None => missing.push((tool.clone(), vec![format!("`{}`", draft.gate.name)])),
            }
        }
    }
    let (protect, link) = surroundings(root, &drafts);
    Detected {
        gates: drafts.into_iter().map(Draft::into_proposal).collect(),
        missing: missing
            .into_iter()
            .map(|(tool, gates)| MissingTool { tool, for_what: gates.join(", ") })
            .collect(),
        notes: notes.into_list(),
        protect,
        link,
    }
}

/// Files and directories that decide whether checks pass, with the globs that protect them. Tests are not among them:
/// the work adds tests, and weakened ones are detected anyway. Neither is the policy: it is sealed.
const PROTECTED: [(&str, &str); 24] = [
    (".github", ".github/**"),
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

/// Globs to protect, and ignored directories to link into a clean checkout.
fn surroundings(root: &Place<'_>, drafts: &[Draft]) -> (Vec<String>, Vec<String>) {
    let mut protect: Vec<String> = Vec::new();
    for (name, glob) in PROTECTED {
        if root.has(name) && !protect.iter().any(|known| known == glob) {
            protect.push(glob.to_string());
        }
    }
    let mut link: Vec<String> = Vec::new();
    for above in drafts.iter().flat_map(|draft| Path::new(&draft.gate.cwd).ancestors()) {
        for directory in ["node_modules", ".venv"] {
            let path = place::join(&above.to_string_lossy(), directory);
            if !link.contains(&path)
                && ralph_sys::fs::is_directory(&root.project().root().join(&path))
            {
                link.push(path);
            }
        }
    }
    (protect, link)
}

#[cfg(test)]
mod tests;
