//! The policy: built-in defaults, then the person's `config.toml`, then the project's `ralph.toml`.
//!
//! Every value remembers where it came from, and every mistake where it stands. A later layer replaces values and
//! whole lists; gates and patterns are replaced one by one, by name.

mod apply;
mod chunks;
mod keys;
mod read;
mod schema;
mod value;

use crate::fs::{self, FileError, Kind as FileKind};
use crate::notify::Notify;
use crate::paths::Home;
use keys::Kind;
use ralph_core::drive::Settings;
use ralph_core::limits::Invalid;
use ralph_core::policy::Policy;
use read::{Entry, Problems, Setting, Sheet};
use serde::Serialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use keys::LONGEST_GATE_MS;
pub use schema::schema;

/// What a project's policy may be called. Having both is an error.
pub const NAMES: [&str; 2] = ["ralph.toml", ".ralph.toml"];

const DEFAULTS: &str = include_str!("defaults.toml");
const LARGEST: usize = 1024 * 1024;

/// The policy in force, and how it came to be.
#[derive(Clone, Debug)]
pub struct Config {
    pub policy: Policy,
    /// How a runner drives the agent: what is built in and what the person's own file says.
    pub runner: Settings,
    /// Absolute, without symbolic links.
    pub project: PathBuf,
    /// The project's own policy, where it has one.
    pub file: Option<PolicyFile>,
    /// One for every value in force, in the order of the reference.
    pub origins: Vec<Origin>,
    effective: String,
}

/// The bytes that were read, so that what is approved is what is obeyed.
#[derive(Clone, Debug)]
pub struct PolicyFile {
    pub path: PathBuf,
    pub text: Arc<str>,
}

/// One value and where it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `run.max_iterations`, `gate.tests.timeout`
    pub key: String,
    /// As TOML.
    pub value: String,
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub layer: Layer,
    /// From 1; without meaning for a built-in value.
    pub line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    #[serde(rename = "default")]
    BuiltIn,
    User,
    Project,
}

/// One mistake in a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub path: PathBuf,
    pub source: Arc<str>,
    /// In bytes of the source.
    pub span: Range<usize>,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{} in the policy", problems(.first.len() + .more))]
    Problems {
        first: Vec<Problem>,
        /// How many there are beside these.
        more: usize,
    },
    #[error("cannot find `{}`", .0.display())]
    NoSuchProject(PathBuf),
    #[error("`{}` has both `{}` and `{}`", .0.display(), NAMES[0], NAMES[1])]
    Both(PathBuf),
    #[error("`{}` is a link that leads out of the project", .0.display())]
    LeadsOut(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
}

fn problems(count: usize) -> String {
    if count == 1 { "1 problem".to_string() } else { format!("{count} problems") }
}

/// A file with its text, at its place among the layers.
#[derive(Debug)]
struct Source {
    layer: Layer,
    path: PathBuf,
    text: Arc<str>,
}

/// The nearest directory from `cwd` upwards with a policy, within the repository; else the repository; else `cwd`.
///
/// Outside a repository nothing above `cwd` is looked at: what lies in `/tmp` is no policy for what is below.
pub fn find_project(cwd: &Path) -> PathBuf {
    let Some(repository) = cwd.ancestors().find(|directory| fs::exists(&directory.join(".git")))
    else {
        return cwd.to_path_buf();
    };
    let has_policy =
        |directory: &&Path| NAMES.iter().any(|name| fs::stat_link(&directory.join(name)).is_some());
    cwd.ancestors()
        .take_while(|directory| directory.starts_with(repository))
        .find(has_policy)
        .unwrap_or(repository)
        .to_path_buf()
}

/// The policy of a project. A project without a file has what is built in and what the person's own file says.
pub fn load(project: &Path, home: &Home) -> Result<Config, ConfigError> {
    let project =
        fs::resolve(project).ok_or_else(|| ConfigError::NoSuchProject(project.to_path_buf()))?;
    let mut problems = Problems::default();
    let mut sources = own_sources(home, &mut problems)?;
    let mut file = None;
    if let Some(path) = policy_file(&project)? {
        let bytes = fs::read(&path, LARGEST)?;
        if let Some(source) = source(Layer::Project, path, bytes, &mut problems) {
            file = Some(PolicyFile { path: source.path.clone(), text: source.text.clone() });
            sources.push(source);
        }
    }
    let merged = merge(&sources, problems)?;
    let policy = apply::policy(&merged.settings, &merged.entries);
    let runner = apply::runner(&merged.settings);
    let origins = merged.origins();
    let effective = merged.to_toml();
    Ok(Config { policy, runner, project, file, origins, effective })
}

/// Who is told when a run ends: what is built in and what the person's own file says, whatever the project is.
pub fn notify(home: &Home) -> Result<Notify, ConfigError> {
    let mut problems = Problems::default();
    let sources = own_sources(home, &mut problems)?;
    Ok(apply::notify(&merge(&sources, problems)?.settings))
}

/// All layers but the project's.
fn own_sources(home: &Home, problems: &mut Problems) -> Result<Vec<Source>, ConfigError> {
    let mut sources = vec![Source {
        layer: Layer::BuiltIn,
        path: PathBuf::from("defaults.toml"),
        text: Arc::from(DEFAULTS),
    }];
    let user = home.user_config();
    if let Some(bytes) = fs::read_opt(&user, LARGEST)? {
        sources.extend(source(Layer::User, user, bytes, problems));
    }
    Ok(sources)
}

fn merge(sources: &[Source], mut problems: Problems) -> Result<Merged, ConfigError> {
    let mut layers = sources.iter().map(|source| read::read(source, &mut problems));
    let defaults = layers.next().unwrap_or_default();
    let merged = layers.fold(Merged::new(defaults), Merged::under);
    merged.check(sources, &mut problems);
    if problems.first.is_empty() {
        Ok(merged)
    } else {
        Err(ConfigError::Problems { first: problems.first, more: problems.more })
    }
}

impl Config {
    /// The policy in force as one TOML file, which read again means the same.
    pub fn to_toml(&self) -> &str {
        &self.effective
    }
}

fn policy_file(project: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let mut found = None;
    for name in NAMES {
        let path = project.join(name);
        let Some(stat) = fs::stat_link(&path) else { continue };
        if found.is_some() {
            return Err(ConfigError::Both(project.to_path_buf()));
        }
        let leads_out = || fs::resolve(&path).is_some_and(|target| !target.starts_with(project));
        if stat.kind == FileKind::Symlink && leads_out() {
            return Err(ConfigError::LeadsOut(path));
        }
        found = Some(path);
    }
    Ok(found)
}

fn source(layer: Layer, path: PathBuf, bytes: Vec<u8>, problems: &mut Problems) -> Option<Source> {
    match String::from_utf8(bytes) {
        Ok(text) => Some(Source { layer, path, text: text.into() }),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            // Replacing what is no UTF-8 leaves the bytes before it where they are.
            let text = String::from_utf8_lossy(error.as_bytes()).into();
            let source = Source { layer, path, text };
            problems.add(&source, at..at, ("this is not UTF-8".to_string(), None));
            None
        }
    }
}

/// All layers so far.
struct Merged {
    settings: Vec<Setting>,
    /// What every gate and pattern starts from.
    templates: Vec<Entry>,
    entries: Vec<Entry>,
}

impl Merged {
    fn new(defaults: Sheet) -> Self {
        Self { settings: defaults.settings, templates: defaults.entries, entries: Vec::new() }
    }

    fn under(mut self, later: Sheet) -> Self {
        for setting in later.settings {
            match self.settings.iter_mut().find(|earlier| earlier.key == setting.key) {
                Some(earlier) => *earlier = setting,
                None => self.settings.push(setting),
            }
        }
        for mut entry in later.entries {
            let template = self.templates.iter().find(|template| template.table == entry.table);
            for default in template.iter().flat_map(|template| &template.settings) {
                if !entry.settings.iter().any(|setting| setting.key == default.key) {
                    entry.settings.push(default.clone());
                }
            }
            // In the order of the reference, like all the rest.
            let keys = keys::table(entry.table);
            entry
                .settings
                .sort_by_key(|setting| keys.iter().position(|key| key.name == setting.key));
            let same =
                |earlier: &&mut Entry| earlier.table == entry.table && earlier.name == entry.name;
            match self.entries.iter_mut().find(same) {
                Some(earlier) => *earlier = entry,
                None => self.entries.push(entry),
            }
        }
        self
    }

    /// What no single value is to blame for.
    fn check(&self, sources: &[Source], problems: &mut Problems) {
        let policy = apply::policy(&self.settings, &[]);
        let (keys, says, hint): (&[&str], _, _) = match policy.limits.check() {
            Ok(()) => (&[], String::new(), ""),
            Err(Invalid::MorePasses { least, most }) => (
                &["run.min_iterations", "run.max_iterations"],
                format!("at least {least} iterations are more than the {most} that a run may have"),
                "make `min_iterations` smaller or `max_iterations` larger",
            ),
            Err(Invalid::NothingEndsIt | Invalid::StuckTooSoon(_)) => (
                &["run.max_duration", "run.max_iterations"],
                "a run needs a limit on iterations or on time".to_string(),
                "give `max_iterations` or `max_duration` a number; 0 is without limit",
            ),
        };
        let settings = self.settings.iter().filter(|setting| keys.contains(&&*setting.key));
        let last = settings.max_by_key(|setting| setting.place.layer as u8);
        if let Some(setting) = last
            && let Some(source) = sources.iter().find(|source| source.layer == setting.place.layer)
        {
            problems.add(source, setting.span.clone(), (says, Some(hint.to_string())));
        }
        chunks::check(&self.entries, sources, problems);
    }

    fn origins(&self) -> Vec<Origin> {
        let origin = |key: String, setting: &Setting| Origin {
            key,
            value: setting.value.to_toml(),
            place: setting.place,
        };
        let plain = self.settings.iter().map(|setting| origin(setting.key.clone(), setting));
        let entries = self.entries.iter().flat_map(|entry| {
            entry.settings.iter().filter(|setting| setting.key != "name").map(move |setting| {
                origin(format!("{}.{}.{}", entry.table, entry.name, setting.key), setting)
            })
        });
        let mut origins: Vec<_> = plain.chain(entries).collect();
        // Stable: within a section everything stays as it was.
        origins.sort_by_key(|origin| section_of(&origin.key));
        origins
    }

    fn to_toml(&self) -> String {
        let mut blocks = Vec::new();
        // What only the person's own file may say is no part of the policy.
        for section in keys::ROOT.iter().filter(|section| !matches!(section.kind, Kind::Own(_))) {
            let prefix = format!("{}.", section.name);
            let mut block = String::new();
            for setting in &self.settings {
                if let Some(key) = setting.key.strip_prefix(&prefix) {
                    block.push_str(&format!("{key} = {}\n", setting.value.to_toml()));
                }
            }
            if !block.is_empty() {
                blocks.push(format!("[{}]\n{block}", section.name));
            }
            let within = |entry: &&Entry| entry.table.split('.').next() == Some(section.name);
            for entry in self.entries.iter().filter(within) {
                let lines = entry
                    .settings
                    .iter()
                    .map(|setting| format!("{} = {}\n", setting.key, setting.value.to_toml()));
                blocks.push(format!("[[{}]]\n{}", entry.table, lines.collect::<String>()));
            }
        }
        blocks.join("\n")
    }
}

fn section_of(key: &str) -> Option<usize> {
    let name = key.split('.').next();
    keys::ROOT.iter().position(|section| Some(section.name) == name)
}

#[cfg(test)]
mod tests;
