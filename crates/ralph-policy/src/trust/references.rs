//! Finds the files of a project that decide the results of its gates.
//!
//! It errs on the side of too many: every word that is a file counts, tried from every directory that the command names,
//! because `cd web && ./check` is as common as `./web/check`. Only files that are certainly the work to be judged are
//! excluded: sources and tests that a tool merely reads (`pytest tests/test_a.py`), operands of checkers
//! (`shellcheck greet.sh`) and programs whose output is compared. Scripts that a command executes by a pattern or a
//! variable are in `executed_scripts`. Files that a program finds by itself are out of scope.

mod unnamed_references;

use super::code_texts::expand_code_texts;
use super::command_parts::{CommandPart, gate_parts, line_parts, takes_script_text};
use super::content_hash::hash_deciding_content;
use super::executed_scripts::{find_executed_scripts, is_pattern};
use super::work_arguments::{judging_words, names_judge, strip_version};
use super::{TrustError, package_scripts, runner_files};
use ralph_core::gate::Gate;
use ralph_core::requirement::RequirementWeight;
use ralph_core::sealed_file::{SealReason, SealedFile};
use ralph_gates::gates::simple_commands::{PACKAGE_RUNNERS, base_name};
use ralph_sys::fs::{self, FileKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

const MAX_WORDS: usize = 5000;
const MAX_LOOKUPS: usize = 200_000;
const MAX_FILES: usize = 1000;
/// Longer words cannot be paths.
const MAX_WORD_BYTES: usize = 4096;
/// Generated makefiles can have several megabytes.
pub(super) const MAX_RECIPE_BYTES: usize = 16 * 1024 * 1024;

/// Interpreters, and the file extensions of their scripts.
const INTERPRETERS: &[(&[&str], &[&str])] = &[
    (&["sh", "bash", "dash", "zsh", "ksh"], &["sh", "bash", "zsh", "ksh"]),
    (&["python", "pypy"], &["py"]),
    (
        &["node", "nodejs", "deno", "bun", "tsx", "ts-node"],
        &["js", "mjs", "cjs", "ts", "mts", "cts"],
    ),
    (&["ruby"], &["rb"]),
    (&["perl"], &["pl"]),
    (&["php"], &["php"]),
    (&["lua", "luajit"], &["lua"]),
    (&["Rscript"], &["R", "r"]),
    (&["julia"], &["jl"]),
    (&["elixir"], &["exs"]),
    (&["tclsh", "expect"], &["tcl", "exp"]),
    (&["fish"], &["fish"]),
];

/// Extensions of files that count as the work, unless they are executable.
const SOURCE_EXTENSIONS: [&str; 26] = [
    "c", "cc", "cpp", "cs", "css", "cts", "go", "h", "hpp", "html", "java", "js", "jsx", "kt",
    "mjs", "mts", "php", "pl", "py", "rb", "rs", "scala", "svelte", "swift", "ts", "tsx",
];

/// After one of these words an interpreter does not run a script of the project; files on its command line are the work.
const NO_SCRIPT_WORDS: [&str; 3] = ["-m", "--test", "test"];

/// The files that decide the results of gates, by name.
pub(super) fn find_references<'a>(
    project: &Path,
    gates: impl IntoIterator<Item = &'a Gate>,
) -> Result<Vec<SealedFile>, TrustError> {
    Ok(search_gates(project, gates)?.references.into_values().collect())
}

/// The commands of required gates and of list checks that execute a script which ralph cannot name, and so cannot seal.
pub fn unsealed_scripts<'a>(
    project: &Path,
    gates: impl IntoIterator<Item = &'a Gate>,
) -> Result<Vec<UnsealedScript>, TrustError> {
    let required = gates.into_iter().filter(|gate| gate.weight == RequirementWeight::Required);
    Ok(search_gates(project, required)?.unsealed.into_iter().collect())
}

fn search_gates<'a, 'g>(
    project: &'a Path,
    gates: impl IntoIterator<Item = &'g Gate>,
) -> Result<ReferenceSearch<'a>, TrustError> {
    let mut search = ReferenceSearch {
        project,
        gate: String::new(),
        references: BTreeMap::new(),
        unsealed: BTreeSet::new(),
        visited: BTreeSet::new(),
        hashed: BTreeSet::new(),
        packages: BTreeMap::new(),
        pending_scripts: Vec::new(),
        lookups: 0,
    };
    for gate in gates {
        search.gate.clone_from(&gate.name);
        search.add_if_file(project, &gate.cwd, &SealOrigin::NAMED)?;
        search.search_command(&project.join(&gate.cwd), &gate_parts(&gate.command))?;
        // Iterative, because scripts may call each other deeper than the stack allows.
        while let Some((directory, line)) = search.pending_scripts.pop() {
            search.search_command(&directory, &line_parts(&line))?;
        }
    }
    Ok(search)
}

/// A command that executes a script which cannot be sealed, because only a shell knows its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnsealedScript {
    pub gate: String,
    /// The interpreter and its operand, as one line: `sh $x.sh`.
    pub command: String,
}

/// Why a reference was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SealOrigin {
    pub(super) why: SealReason,
    pub(super) by: String,
}

impl SealOrigin {
    const NAMED: Self = Self { why: SealReason::Named, by: String::new() };
}

/// What the arguments of an interpreter are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterpreterArguments {
    Scripts,
    /// Files that a module reads: `python -m pytest tests`.
    Work,
}

impl InterpreterArguments {
    /// Judges by the flags and the first word after the interpreter, which come before anything that could be a script.
    fn classify<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let words: Vec<&str> = words.collect();
        let is_interpreter = |word: &str| is_interpreter(strip_version(base_name(word)));
        let starts = words.iter().enumerate().filter(|(_, word)| is_interpreter(word));
        let mut verdicts = starts.map(|(at, _)| {
            let rest = &words[at + 1..];
            let flags = rest.iter().take_while(|word| word.starts_with('-')).count();
            rest.iter()
                .take(flags + 1)
                .any(|word| NO_SCRIPT_WORDS.contains(word) || takes_script_text(word))
        });
        let reads = words.iter().any(|word| matches!(*word, "." | "source"));
        let first = verdicts.next().filter(|_| !reads);
        if first == Some(true) && verdicts.all(|is_work| is_work) {
            Self::Work
        } else {
            Self::Scripts
        }
    }
}

/// Whether a program, without its version, runs scripts.
pub(super) fn is_interpreter(program: &str) -> bool {
    INTERPRETERS.iter().any(|(names, _)| names.contains(&program))
}

fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |char: char| char.is_whitespace() || ";|&()<>`\"'$".contains(char);
    text.split(is_between).filter(|word| !word.is_empty())
}

/// The search for references, with everything found so far.
pub(super) struct ReferenceSearch<'a> {
    /// Absolute, without symbolic links.
    project: &'a Path,
    /// The gate whose command is searched.
    gate: String,
    references: BTreeMap<String, SealedFile>,
    unsealed: BTreeSet<UnsealedScript>,
    /// Files searched for includes, and scripts already followed.
    visited: BTreeSet<String>,
    hashed: BTreeSet<PathBuf>,
    /// Every `package.json` read so far.
    pub(super) packages: BTreeMap<PathBuf, Rc<package_scripts::PackageScripts>>,
    /// Script lines still to be searched, with their working directories.
    pub(super) pending_scripts: Vec<(PathBuf, String)>,
    lookups: usize,
}

impl ReferenceSearch<'_> {
    /// Adds everything that decides the result of the commands, relative to `cwd` and to the directories that they name.
    fn search_command(&mut self, cwd: &Path, parts: &[CommandPart]) -> Result<(), TrustError> {
        let every = candidate_words(parts.iter().flat_map(|part| &part.words).map(String::as_str));
        if every.len() > MAX_WORDS {
            return Err(TrustError::TooManyReferences("a command has thousands of words"));
        }
        let toplevel =
            fs::exists(&self.project.join(".git")).then(|| self.project.to_string_lossy());
        let parts = &expand_code_texts(parts.to_vec(), toplevel.as_deref());
        let executed = find_executed_scripts(parts, toplevel.as_deref());
        let mut bases = self.entered_directories(cwd, &executed.directories)?;
        let directories = every.iter().filter_map(|word| self.resolve_inside(&cwd.join(word)));
        bases.extend(directories.filter(|path| fs::is_directory(path)).collect::<Vec<_>>());
        for part in parts {
            let words = candidate_words(judging_words(part).into_iter());
            let all = part.words.iter().flat_map(|word| split_words(word));
            let arguments = InterpreterArguments::classify(all);
            for base in &bases {
                self.search_words(base, &words, arguments)?;
            }
        }
        for command in executed.unknown {
            self.add_unsealed(command);
        }
        for directory in &executed.search_path {
            self.add_search_path(cwd, &bases, directory)?;
        }
        for text in executed.loading_texts {
            self.add_loaded_files(&bases, &text)?;
        }
        for (base, path) in
            bases.iter().flat_map(|base| executed.paths.iter().map(move |path| (base, path)))
        {
            if is_pattern(path) {
                self.add_matches(base, path)?;
            } else {
                self.add_if_file(base, path, &SealOrigin::NAMED)?;
            }
        }
        Ok(())
    }

    fn add_unsealed(&mut self, command: String) {
        self.unsealed.insert(UnsealedScript { gate: self.gate.clone(), command });
    }

    fn search_words(
        &mut self,
        base: &Path,
        words: &BTreeSet<&str>,
        arguments: InterpreterArguments,
    ) -> Result<(), TrustError> {
        for word in words {
            let path = base.join(word);
            if !is_work_file(&path, words, arguments) && !self.is_product(&path) {
                self.add_if_file(base, word, &SealOrigin::NAMED)?;
            }
            for entry in entry_files(word, words) {
                self.add_if_file(base, &entry, &SealOrigin::NAMED)?;
            }
        }
        let programs: BTreeSet<&str> = words.iter().map(|word| base_name(word)).collect();
        for runner in runner_files::RUNNERS {
            let program = match runner.programs {
                [] => Some(""),
                known => known.iter().find(|program| programs.contains(*program)).copied(),
            };
            if let Some(program) = program {
                let origin = SealOrigin { why: runner.why, by: program.to_string() };
                self.add_runner_files(base, runner.files, &origin)?;
            }
        }
        if PACKAGE_RUNNERS.iter().any(|runner| programs.contains(runner)) {
            package_scripts::add_called_scripts(self, base, words)?;
        }
        Ok(())
    }

    /// Adds the file at `word` if it is a file in the project.
    fn add_if_file(
        &mut self,
        base: &Path,
        word: &str,
        origin: &SealOrigin,
    ) -> Result<(), TrustError> {
        self.lookups += 1;
        if self.lookups > MAX_LOOKUPS {
            return Err(TrustError::TooManyReferences("too many words in too many directories"));
        }
        let path = base.join(word);
        let Some(real) = fs::resolve(&path) else { return Ok(()) };
        if let Ok(name) = real.strip_prefix(self.project) {
            let is_new = self.hashed.insert(real.clone());
            if is_new && fs::stat(&real).is_some_and(|stat| stat.kind == FileKind::File) {
                let name = name.to_string_lossy().into_owned();
                return match hash_deciding_content(&real)? {
                    Some(hash) => self.add_reference(name, hash, origin),
                    None => Ok(()),
                };
            }
        } else if let Some(name) =
            fs::normalize_lexically(&path).strip_prefix(self.project).ok().and_then(Path::to_str)
        {
            // The target outside the project is the person's, but the link is the repository's.
            let target = real.to_string_lossy();
            let hash = blake3::hash(target.as_bytes()).to_hex().to_string();
            return self.add_reference(format!("{name} -> {target}"), hash, origin);
        }
        Ok(())
    }

    /// Whether the manifest says that the file is a program which the project makes. A name that suggests a check
    /// takes precedence.
    fn is_product(&self, path: &Path) -> bool {
        let Some(real) = self.resolve_inside(path).filter(|path| !fs::is_directory(path)) else {
            return false;
        };
        let name = self.relative_name(&real);
        let above = self.ancestors_in_project(real.parent().unwrap_or(self.project));
        let mut manifests = above.iter().map(|directory| directory.join("package.json"));
        let manifest = manifests.find(|manifest| fs::exists(manifest));
        !names_judge(&name)
            && manifest.is_some_and(|manifest| package_scripts::publishes(&manifest, &real))
    }

    /// Adds the files that a runner looks for from `base` upwards, and their includes.
    fn add_runner_files(
        &mut self,
        base: &Path,
        files: &[&str],
        origin: &SealOrigin,
    ) -> Result<(), TrustError> {
        for directory in self.ancestors_in_project(base) {
            for name in files {
                let path = directory.join(name);
                self.add_if_file(&directory, name, origin)?;
                self.add_includes(&path)?;
            }
        }
        Ok(())
    }

    fn add_includes(&mut self, path: &Path) -> Result<(), TrustError> {
        let mut waiting = vec![path.to_path_buf()];
        while let Some(path) = waiting.pop() {
            let Some(path) = self.resolve_inside(&path) else { continue };
            if !self.mark_visited(&path.to_string_lossy()) {
                continue;
            }
            if fs::stat(&path).is_none_or(|stat| stat.kind != FileKind::File) {
                continue;
            }
            // An unreadable recipe is an error, because the files that it includes would be missed.
            let bytes = fs::read(&path, MAX_RECIPE_BYTES)?;
            let text = String::from_utf8_lossy(&bytes);
            let directory = path.parent().unwrap_or(self.project).to_path_buf();
            let origin = SealOrigin { why: SealReason::Included, by: self.relative_name(&path) };
            for rest in text.lines().filter_map(runner_files::included_text) {
                for word in candidate_words(std::iter::once(rest)) {
                    self.add_if_file(&directory, word, &origin)?;
                    waiting.push(directory.join(word));
                }
            }
        }
        Ok(())
    }

    /// A directory and its ancestors, up to the project.
    pub(super) fn ancestors_in_project(&self, base: &Path) -> Vec<PathBuf> {
        let above = base.ancestors().take_while(|directory| directory.starts_with(self.project));
        above.map(Path::to_path_buf).collect()
    }

    /// Marks `name` as visited; returns whether it was new.
    pub(super) fn mark_visited(&mut self, name: &str) -> bool {
        self.visited.insert(name.to_string())
    }

    pub(super) fn relative_name(&self, path: &Path) -> String {
        path.strip_prefix(self.project).unwrap_or(path).to_string_lossy().into_owned()
    }

    pub(super) fn add_reference(
        &mut self,
        name: String,
        hash: String,
        origin: &SealOrigin,
    ) -> Result<(), TrustError> {
        let SealOrigin { why, by } = origin.clone();
        let file = SealedFile { name: name.clone(), hash, gate: self.gate.clone(), why, by };
        self.references.entry(name).or_insert(file);
        if self.references.len() > MAX_FILES {
            return Err(TrustError::TooManyReferences("more than a thousand files"));
        }
        Ok(())
    }

    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), TrustError> {
        self.add_if_file(self.project, &path.to_string_lossy(), &SealOrigin::NAMED)
    }

    fn resolve_inside(&self, path: &Path) -> Option<PathBuf> {
        fs::resolve(path).filter(|real| real.starts_with(self.project))
    }
}

/// The files that an interpreter runs if it is given a directory, or the name of a module.
fn entry_files(word: &str, words: &BTreeSet<&str>) -> Vec<String> {
    let is_run_by =
        |names: &[&str]| words.iter().any(|word| names.contains(&strip_version(base_name(word))));
    let mut entries = Vec::new();
    if is_run_by(&["python", "pypy"]) {
        entries.push(format!("{word}/__main__.py"));
        if words.contains("-m") {
            let module = word.replace('.', "/");
            entries.extend([format!("{module}.py"), format!("{module}/__main__.py")]);
        }
    }
    if is_run_by(&["node", "nodejs", "bun"]) {
        entries.push(format!("{word}/index.js"));
    }
    entries
}

/// Whether a file is part of the work that a command reads or writes, rather than a script or configuration.
fn is_work_file(path: &Path, words: &BTreeSet<&str>, arguments: InterpreterArguments) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_source = extension.is_none_or(|extension| SOURCE_EXTENSIONS.contains(&extension));
    let runs_recipe =
        words.iter().any(|word| matches!(base_name(word), "gmake" | "just" | "make" | "task"));
    let names_recipe = ["-f", "--file", "--justfile", "--makefile", "--taskfile"];
    let is_recipe = extension.is_none()
        && runs_recipe
        && words.iter().any(|word| names_recipe.iter().any(|option| word.starts_with(option)));
    if !is_source || is_recipe || name.starts_with('.') || name.contains(".config.") {
        return false;
    }
    let Some(stat) = fs::stat(path).filter(|stat| stat.kind == FileKind::File) else {
        return false;
    };
    let interprets = |(programs, extensions): &(&[&str], &[&str])| {
        extension.is_none_or(|extension| extensions.contains(&extension))
            && words.iter().any(|word| programs.contains(&strip_version(base_name(word))))
    };
    let is_interpreted =
        INTERPRETERS.iter().any(interprets) && arguments == InterpreterArguments::Scripts;
    let is_executable =
        stat.mode & 0o111 != 0 || fs::read_range(path, 0, 2).is_ok_and(|start| start == b"#!");
    !is_interpreted && !is_executable
}

/// The words of a command that could be paths. A quoted text counts both as a whole and word by word.
pub(super) fn candidate_words<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut words = BTreeSet::new();
    for text in texts {
        words.insert(text);
        words.extend(text.split(['"', '\'']));
        words.extend(split_words(text));
    }
    let options: Vec<_> = words.iter().filter_map(|word| option_value(word)).collect();
    words.extend(options);
    words.retain(|word| !word.is_empty() && word.len() <= MAX_WORD_BYTES && !word.contains('\0'));
    words
}

/// The `x` of `--config=x`, `-fx` or `@x`.
fn option_value(word: &str) -> Option<&str> {
    if let Some((_, value)) = word.split_once('=') {
        return Some(value);
    }
    if let Some(value) = word.strip_prefix('@') {
        return Some(value);
    }
    let flag = word.strip_prefix('-').filter(|flag| !flag.starts_with('-'))?;
    let mut rest = flag.chars();
    rest.next()?;
    Some(rest.as_str())
}
