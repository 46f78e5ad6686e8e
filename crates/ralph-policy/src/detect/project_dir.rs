//! The directories of a project, with bounded reads of the files in them.

use std::path::{Path, PathBuf};

use ralph_core::text;

use super::ToolLookup;
use super::yaml::{self, DataNode};
use ralph_sys::env::Env;
use ralph_sys::fs::{self, FileKind};

/// Manifests are small; larger files are not read.
const MAX_FILE_BYTES: usize = 1024 * 1024;
const MAX_DIR_ENTRIES: usize = 20_000;
const MAX_DIRECTORIES: usize = 2000;
/// How many levels below the root nested projects are searched for.
const MAX_NESTING: usize = 3;
const MAX_NOTES: usize = 30;

/// Directories that contain third-party code or generated output.
const SKIPPED_DIRECTORIES: [&str; 18] = [
    "__pycache__",
    "bower_components",
    "build",
    "coverage",
    "dist",
    "env",
    "examples",
    "fixtures",
    "node_modules",
    "out",
    "site-packages",
    "target",
    "templates",
    "testdata",
    "third_party",
    "tmp",
    "vendor",
    "venv",
];

/// The project under inspection, with the absolute directories of `PATH`.
pub(super) struct InspectedProject {
    root: PathBuf,
    search_path: Vec<PathBuf>,
}

/// One directory of a project.
pub(super) struct ProjectDir<'a> {
    project: &'a InspectedProject,
    /// Relative to the root; empty is the root itself.
    pub(super) cwd: String,
    names: Vec<String>,
}

/// Notes for the person, without duplicates.
#[derive(Default)]
pub(super) struct DetectionNotes(Vec<String>);

impl DetectionNotes {
    pub(super) fn add(&mut self, note: &str) {
        let note = text::clean_line(note, 300);
        if !self.0.contains(&note) && self.0.len() < MAX_NOTES {
            self.0.push(note);
        }
    }

    pub(super) fn into_list(self) -> Vec<String> {
        self.0
    }
}

impl InspectedProject {
    pub(super) fn open(root: &Path, env: &Env) -> Self {
        let root = fs::resolve(root).unwrap_or_else(|| root.to_path_buf());
        let path = env.search_path().unwrap_or_default();
        // A relative directory would mean a different one in every project.
        let search = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        Self { root, search_path: search.collect() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The root, with which programs can be found. Its names are not listed.
    pub(super) fn root_directory(&self) -> ProjectDir<'_> {
        ProjectDir { project: self, cwd: String::new(), names: Vec::new() }
    }

    /// The root and the directories below it, breadth first.
    pub(super) fn directories(&self, notes: &mut DetectionNotes) -> Vec<ProjectDir<'_>> {
        let mut places: Vec<ProjectDir<'_>> = Vec::new();
        let mut waiting = vec![String::new()];
        for depth in 0..=MAX_NESTING {
            let mut below = Vec::new();
            for cwd in waiting {
                if places.len() == MAX_DIRECTORIES {
                    notes.add(&format!(
                        "only the first {MAX_DIRECTORIES} directories were searched"
                    ));
                    return places;
                }
                let Some(place) = self.directory(cwd, notes) else { continue };
                if depth < MAX_NESTING {
                    below.extend(place.subdirectories());
                }
                places.push(place);
            }
            waiting = below;
        }
        places
    }

    pub(super) fn directory(
        &self,
        cwd: String,
        notes: &mut DetectionNotes,
    ) -> Option<ProjectDir<'_>> {
        let listed = match fs::list(&self.root.join(&cwd), MAX_DIR_ENTRIES) {
            Ok(listed) => listed,
            Err(error) => {
                if cwd.is_empty() || !error.is_missing() {
                    notes.add(&format!("`{}` could not be listed", display_cwd(&cwd)));
                }
                return None;
            }
        };
        let names = listed.into_iter().filter_map(|name| name.into_string().ok());
        Some(ProjectDir {
            project: self,
            cwd,
            names: names.filter(|name| is_plain_name(name)).collect(),
        })
    }

    /// Finds a program on `PATH`, as a shell would.
    fn find_program(&self, name: &str) -> Option<PathBuf> {
        self.search_path.iter().map(|directory| directory.join(name)).find(|path| is_program(path))
    }
}

impl<'a> ProjectDir<'a> {
    pub(super) fn project(&self) -> &'a InspectedProject {
        self.project
    }

    /// Another directory of the project, by its path from the root. Its names are not listed.
    pub(super) fn directory_at(&self, cwd: &str) -> Option<Self> {
        let path = self.project.root.join(cwd);
        let is_inside = fs::resolve(&path)?.starts_with(&self.project.root);
        let place = ProjectDir { project: self.project, cwd: cwd.to_string(), names: Vec::new() };
        (is_inside && fs::is_directory(&path)).then_some(place)
    }

    /// Whether this directory has an entry of that name.
    pub(super) fn has_entry(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Whether a path below this directory exists.
    pub(super) fn has_path(&self, path: &str) -> bool {
        fs::exists(&self.project.root.join(&self.cwd).join(path))
    }

    /// Whether this directory or one above it in the project has an entry of that name.
    pub(super) fn is_here_or_above(&self, name: &str) -> bool {
        let above = Path::new(&self.cwd).ancestors();
        above.into_iter().any(|cwd| fs::exists(&self.project.root.join(cwd).join(name)))
    }

    /// The first of these names that exists in this directory.
    pub(super) fn first_present<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.has_entry(name))
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.project.root.join(&self.cwd).join(name)
    }

    /// The path of `name` relative to the project.
    pub(super) fn relative(&self, name: &str) -> String {
        join_relative(&self.cwd, name)
    }

    /// Reads a text file below this directory. A file that exists but cannot be read is noted.
    pub(super) fn read_text(&self, name: &str, notes: &mut DetectionNotes) -> Option<String> {
        let path = self.path(name);
        let inside = fs::resolve(&path)?;
        let shown = self.relative(name);
        if !inside.starts_with(&self.project.root) {
            notes
                .add(&format!("`{shown}` resolves to a path outside the project and was not read"));
            return None;
        }
        let bytes = match fs::read_if_exists(&inside, MAX_FILE_BYTES) {
            Ok(bytes) => bytes?,
            Err(error) => {
                let why = std::error::Error::source(&error)
                    .map_or_else(|| error.to_string(), ToString::to_string);
                notes.add(&format!("`{shown}` was not read: {why}"));
                return None;
            }
        };
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        let text = std::str::from_utf8(bytes).ok().map(str::to_owned);
        if text.is_none() {
            notes.add(&format!("`{shown}` is not UTF-8 and was not read"));
        }
        text
    }

    /// Reads a YAML file below this directory. A file that exists but cannot be read is noted.
    pub(super) fn read_yaml(&self, name: &str, notes: &mut DetectionNotes) -> Option<DataNode> {
        let text = self.read_text(name, notes)?;
        let parsed = yaml::parse_yaml(&text);
        parsed.inspect_err(|why| notes.add(&format!("`{name}` was not read: {why}"))).ok()
    }

    /// The names in a directory below this one, sorted. A directory that exists but cannot be listed is noted.
    pub(super) fn list_names(&self, name: &str, notes: &mut DetectionNotes) -> Vec<String> {
        let below = self.project.directory(self.relative(name), notes);
        below.map_or_else(Vec::new, |below| below.names)
    }

    /// Looks up a program by name on `PATH`, or by path in this directory.
    pub(super) fn find_tool(&self, name: &str) -> ToolLookup {
        let found = if name.contains('/') {
            Some(self.path(name)).filter(|path| is_program(path))
        } else {
            self.project.find_program(name)
        };
        found.map_or_else(|| ToolLookup::Missing(name.to_string()), ToolLookup::Found)
    }

    /// The first of these programs if all exist, else the first missing one.
    pub(super) fn find_tools(&self, names: &[&str]) -> ToolLookup {
        let mut tools = names.iter().map(|name| self.find_tool(name));
        let first = tools.next().unwrap_or(ToolLookup::Missing(String::new()));
        let lacking = |tool: &ToolLookup| matches!(tool, ToolLookup::Missing(_));
        if lacking(&first) { first } else { tools.find(lacking).unwrap_or(first) }
    }

    fn subdirectories(&self) -> Vec<String> {
        let candidates = self
            .names
            .iter()
            .filter(|name| !name.starts_with('.') && !SKIPPED_DIRECTORIES.contains(&name.as_str()));
        let real = candidates.filter(|name| {
            // A symbolic link may lead anywhere, and in cycles.
            fs::stat_no_follow(&self.path(name))
                .is_some_and(|stat| stat.kind == FileKind::Directory)
        });
        real.map(|name| self.relative(name)).collect()
    }
}

fn is_program(path: &Path) -> bool {
    fs::stat(path).is_some_and(|stat| stat.kind == FileKind::File && stat.mode & 0o111 != 0)
}

/// Whether a name is short and free of invisible characters.
pub(super) fn is_plain_name(name: &str) -> bool {
    name.len() <= 200 && !name.contains('\n') && text::clean(name) == name
}

/// Whether `path` is `above` or below it; both are relative to the root.
pub(super) fn is_at_or_below(path: &str, above: &str) -> bool {
    above.is_empty() || Path::new(path).starts_with(above)
}

pub(super) fn join_relative(cwd: &str, name: &str) -> String {
    if cwd.is_empty() { name.to_string() } else { format!("{cwd}/{name}") }
}

fn display_cwd(cwd: &str) -> &str {
    if cwd.is_empty() { "." } else { cwd }
}
