//! Finds the files of a project that the commands of its gates name.
//!
//! It errs on the side of too many: every word that is a file counts, tried from every directory that the command names,
//! because `cd web && ./check` is as common as `./web/check`. Only sources and tests that a tool merely reads are
//! excluded, because they are the work to be judged: `pytest tests/test_a.py`. Files that a command finds by itself are
//! out of scope.

use super::package;
use super::{Called, TrustError};
use ralph_core::gate::{Command, Gate};
use ralph_sys::fs::{self, Kind, Regular};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

const MOST_WORDS: usize = 5000;
const MOST_LOOKS: usize = 200_000;
const MOST_FILES: usize = 1000;
/// Longer words cannot be paths.
const LONGEST_WORD: usize = 4096;
/// Large enough for an executable in the repository; a larger file is data.
const LARGEST_FILE: u64 = 256 * 1024 * 1024;
const CHUNK: usize = 1024 * 1024;
const LARGEST_RECIPES: usize = 1024 * 1024;

/// Programs that run recipes from a file that the command line does not name.
const RUNNERS: &[(&[&str], &[&str])] = &[
    (&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"]),
    (&["just"], &["justfile", "Justfile", "JUSTFILE", ".justfile"]),
    (&["task"], &["Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml"]),
    (&["rake"], &["Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"]),
    (&["tox"], &["tox.ini"]),
    (&["nox"], &["noxfile.py"]),
    (&["pre-commit", "prek"], &[".pre-commit-config.yaml"]),
    (&["cargo"], &[".cargo/config.toml", ".cargo/config"]),
];

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
];

/// Programs that read files and never execute them.
const VIEWERS: [&str; 9] = ["[", "egrep", "fgrep", "grep", "ls", "rg", "stat", "test", "wc"];

/// Extensions of files that count as the work, unless they are executable.
const SOURCES: [&str; 26] = [
    "c", "cc", "cpp", "cs", "css", "cts", "go", "h", "hpp", "html", "java", "js", "jsx", "kt",
    "mjs", "mts", "php", "pl", "py", "rb", "rs", "scala", "svelte", "swift", "ts", "tsx",
];

/// After one of these words an interpreter does not run a script of the project; files on its command line are the work.
const NO_SCRIPT: [&str; 3] = ["-m", "--test", "test"];

/// Prefixes of lines in recipe files that include another file.
const INCLUDES: [&str; 5] = ["include ", "-include ", "sinclude ", "import ", "import? "];

pub(super) fn by_gates(project: &Path, gates: &[Gate]) -> Result<Vec<Called>, TrustError> {
    let mut search = Search {
        project,
        called: BTreeSet::new(),
        seen: BTreeSet::new(),
        hashed: BTreeSet::new(),
        packages: BTreeMap::new(),
        later: Vec::new(),
        looks: 0,
        names: Names::Scripts,
    };
    for gate in gates {
        search.file(project, &gate.cwd)?;
        let words = match &gate.command {
            // The program itself may come from the repository; the files it reads are the work.
            Command::Argv(argv) if only_looks(argv) => {
                words(argv.iter().take(1).map(String::as_str))
            }
            Command::Argv(argv) => words(argv.iter().map(String::as_str)),
            Command::Shell(line) => words(std::iter::once(line.as_str())),
        };
        search.names = match &gate.command {
            Command::Argv(argv) => Names::in_order(argv.iter().flat_map(|word| parts(word))),
            Command::Shell(line) => Names::in_order(parts(line)),
        };
        search.command(&project.join(&gate.cwd), &words)?;
        // Iterative, because scripts may call each other deeper than the stack allows.
        while let Some((directory, line)) = search.later.pop() {
            search.names = Names::in_order(parts(&line));
            search.command(&directory, &self::words(std::iter::once(line.as_str())))?;
        }
    }
    Ok(search.called.into_iter().collect())
}

/// What the arguments of an interpreter are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Scripts,
    /// Files that a module reads: `python -m pytest tests`.
    Work,
}

impl Names {
    /// Judges by the flags and the first word after the interpreter, which come before anything that could be a script.
    fn in_order<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let words: Vec<&str> = words.collect();
        let is_interpreter = |word: &str| {
            INTERPRETERS.iter().any(|(names, _)| names.contains(&interpreter(program(word))))
        };
        let starts = words.iter().enumerate().filter(|(_, word)| is_interpreter(word));
        let mut verdicts = starts.map(|(at, _)| {
            let rest = &words[at + 1..];
            let flags = rest.iter().take_while(|word| word.starts_with('-')).count();
            rest.iter().take(flags + 1).any(|word| NO_SCRIPT.contains(word) || is_line(word))
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

/// Whether a flag such as `-c` or `-ec` means that the next word is the script itself.
fn is_line(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.ends_with('c')
}

/// Strips a version: `python3.11` is `python`.
fn interpreter(program: &str) -> &str {
    program.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.')
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |char: char| char.is_whitespace() || ";|&()<>`\"'$".contains(char);
    text.split(is_between).filter(|word| !word.is_empty())
}

/// Whether a command only reads the files it names, and takes no patterns from a file.
fn only_looks(argv: &[String]) -> bool {
    let takes_patterns = |word: &String| word.starts_with("-f") || word.starts_with("--file");
    let looks = argv.first().is_some_and(|first| VIEWERS.contains(&first.as_str()));
    looks && !argv.iter().any(takes_patterns)
}

/// The search for references, with everything found so far.
pub(super) struct Search<'a> {
    /// Absolute, without symbolic links.
    project: &'a Path,
    called: BTreeSet<Called>,
    /// Files searched for includes, and scripts already followed.
    seen: BTreeSet<String>,
    hashed: BTreeSet<PathBuf>,
    /// Every `package.json` read so far.
    pub(super) packages: BTreeMap<PathBuf, Rc<package::Package>>,
    /// Script lines still to be searched, with their working directories.
    pub(super) later: Vec<(PathBuf, String)>,
    looks: usize,
    names: Names,
}

impl Search<'_> {
    /// Adds everything that `words` name, relative to `cwd` and to the directories among them.
    pub(super) fn command(&mut self, cwd: &Path, words: &BTreeSet<&str>) -> Result<(), TrustError> {
        if words.len() > MOST_WORDS {
            return Err(TrustError::TooMuch("a command has thousands of words"));
        }
        let mut bases: BTreeSet<PathBuf> = BTreeSet::new();
        bases.extend(self.inside(cwd));
        let directories = words.iter().filter_map(|word| self.inside(&cwd.join(word)));
        bases.extend(directories.filter(|path| fs::is_directory(path)).collect::<Vec<_>>());
        for base in &bases {
            for word in words {
                if !is_work(&base.join(word), (words, self.names)) {
                    self.file(base, word)?;
                }
            }
            for (programs, files) in RUNNERS {
                if words.iter().any(|word| programs.contains(&program(word))) {
                    self.recipes(base, files)?;
                }
            }
            if words.iter().any(|word| package::RUNNERS.contains(&program(word))) {
                package::follow(self, base, words)?;
            }
        }
        Ok(())
    }

    /// Adds the file at `word` if it is a file in the project.
    fn file(&mut self, base: &Path, word: &str) -> Result<(), TrustError> {
        self.looks += 1;
        if self.looks > MOST_LOOKS {
            return Err(TrustError::TooMuch("too many words in too many directories"));
        }
        let path = base.join(word);
        let Some(real) = fs::resolve(&path) else { return Ok(()) };
        if let Ok(name) = real.strip_prefix(self.project) {
            let is_new = self.hashed.insert(real.clone());
            if is_new && fs::stat(&real).is_some_and(|stat| stat.kind == Kind::File) {
                let name = name.to_string_lossy().into_owned();
                let hash = hash(&real)?;
                return self.add(name, hash);
            }
        } else if let Some(name) =
            lexically(&path).strip_prefix(self.project).ok().and_then(Path::to_str)
        {
            // The target outside the project is the person's, but the link is the repository's.
            let target = real.to_string_lossy();
            let hash = blake3::hash(target.as_bytes()).to_hex().to_string();
            return self.add(format!("{name} -> {target}"), hash);
        }
        Ok(())
    }

    /// Adds the files that a runner looks for from `base` upwards, and their includes.
    fn recipes(&mut self, base: &Path, files: &[&str]) -> Result<(), TrustError> {
        for directory in self.upwards(base) {
            for name in files {
                let path = directory.join(name);
                self.file(&directory, name)?;
                self.included(&path)?;
            }
        }
        Ok(())
    }

    fn included(&mut self, path: &Path) -> Result<(), TrustError> {
        let mut waiting = vec![path.to_path_buf()];
        while let Some(path) = waiting.pop() {
            let Some(path) = self.inside(&path) else { continue };
            if !self.is_first(&path.to_string_lossy()) {
                continue;
            }
            let Ok(bytes) = fs::read(&path, LARGEST_RECIPES) else { continue };
            let text = String::from_utf8_lossy(&bytes);
            let directory = path.parent().unwrap_or(self.project).to_path_buf();
            for line in text.lines() {
                let Some(rest) = INCLUDES.iter().find_map(|word| line.strip_prefix(word)) else {
                    continue;
                };
                for word in words(std::iter::once(rest)) {
                    self.file(&directory, word)?;
                    waiting.push(directory.join(word));
                }
            }
        }
        Ok(())
    }

    /// A directory and its ancestors, up to the project.
    pub(super) fn upwards(&self, base: &Path) -> Vec<PathBuf> {
        let above = base.ancestors().take_while(|directory| directory.starts_with(self.project));
        above.map(Path::to_path_buf).collect()
    }

    /// Marks `name` as visited; returns whether it was new.
    pub(super) fn is_first(&mut self, name: &str) -> bool {
        self.seen.insert(name.to_string())
    }

    pub(super) fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.project).unwrap_or(path).to_string_lossy().into_owned()
    }

    pub(super) fn add(&mut self, name: String, hash: String) -> Result<(), TrustError> {
        self.called.insert(Called { name, hash });
        if self.called.len() > MOST_FILES {
            return Err(TrustError::TooMuch("more than a thousand files"));
        }
        Ok(())
    }

    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), TrustError> {
        self.file(self.project, &path.to_string_lossy())
    }

    fn inside(&self, path: &Path) -> Option<PathBuf> {
        fs::resolve(path).filter(|real| real.starts_with(self.project))
    }
}

/// Whether a file is part of the work that a command reads or writes, rather than a script or configuration.
fn is_work(path: &Path, (words, names): (&BTreeSet<&str>, Names)) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_source = extension.is_none_or(|extension| SOURCES.contains(&extension));
    if !is_source || name.starts_with('.') || name.contains(".config.") {
        return false;
    }
    let Some(stat) = fs::stat(path).filter(|stat| stat.kind == Kind::File) else { return false };
    let interprets = |(programs, extensions): &(&[&str], &[&str])| {
        extension.is_none_or(|extension| extensions.contains(&extension))
            && words.iter().any(|word| programs.contains(&interpreter(program(word))))
    };
    let is_interpreted = INTERPRETERS.iter().any(interprets) && names == Names::Scripts;
    let is_executable =
        stat.mode & 0o111 != 0 || fs::read_range(path, 0, 2).is_ok_and(|start| start == b"#!");
    !is_interpreted && !is_executable
}

/// The words of a command that could be paths. A quoted text counts both as a whole and word by word.
pub(super) fn words<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut words = BTreeSet::new();
    for text in texts {
        words.insert(text);
        words.extend(text.split(['"', '\'']));
        words.extend(parts(text));
    }
    let options: Vec<_> = words.iter().filter_map(|word| option_value(word)).collect();
    words.extend(options);
    words.retain(|word| !word.is_empty() && word.len() <= LONGEST_WORD && !word.contains('\0'));
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

fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Removes `.` and `..` without resolving symbolic links.
fn lexically(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => out.push(part),
        }
    }
    out
}

fn hash(path: &Path) -> Result<String, TrustError> {
    let file = Regular::open(path)?;
    if file.len() > LARGEST_FILE {
        return Err(TrustError::TooMuch("one of the files is larger than 256 MiB"));
    }
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    // A file that keeps growing while it is read must not block forever.
    while at <= LARGEST_FILE {
        let chunk = file.read_at(at, CHUNK)?;
        if chunk.is_empty() {
            break;
        }
        at += chunk.len() as u64;
        hasher.update(&chunk);
    }
    Ok(hasher.finalize().to_hex().to_string())
}
