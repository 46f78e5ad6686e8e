//! The policy: built-in defaults, then the person's `config.toml`, then the project's `ralph.toml`.
//!
//! Every value records the layer and line it came from, and every problem its span in the source. A later layer
//! replaces values and whole lists; gates, chunks and patterns are replaced one by one, by name.

mod apply;
mod chunks;
mod keys;
mod read;
mod schema;
mod value;

use crate::notify_config::Notify;
use keys::Kind;
use ralph_core::drive::Settings;
use ralph_core::limits::Invalid;
use ralph_core::policy::Policy;
use ralph_home::paths::Home;
use ralph_sys::fs::{self, FileError, Kind as FileKind};
use read::{Entry, Problems, Setting, Sheet};
use serde::Serialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use keys::LONGEST_GATE_MS;
pub use schema::schema;

/// File names of a project's policy. Having both is an error.
pub const NAMES: [&str; 2] = ["ralph.toml", ".ralph.toml"];

const DEFAULTS: &str = include_str!("defaults.toml");
const LARGEST: usize = 1024 * 1024;

/// The policy in effect for a project, and where each value came from.
#[derive(Clone, Debug)]
pub struct Config {
    pub policy: Policy,
    /// How a runner drives the agent: the defaults, overridden by the person's own file.
    pub runner: Settings,
    /// Absolute, without symbolic links.
    pub project: PathBuf,
    /// The project's policy file, if it has one.
    pub file: Option<PolicyFile>,
    /// One for every value in effect, in the order of the reference.
    pub origins: Vec<Origin>,
    effective: String,
}

/// A policy file with the text that was read, so that the approved text is the one in effect.
#[derive(Clone, Debug)]
pub struct PolicyFile {
    pub path: PathBuf,
    pub text: Arc<str>,
}

/// One value and where it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `run.max_iterations`, `gate.tests.timeout`
    pub key: String,
    /// Rendered as TOML.
    pub value: String,
    pub place: Place,
}

/// Where a value was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub layer: Layer,
    /// Counted from 1; meaningless for a built-in value.
    pub line: u32,
}

/// The layers, weakest first.
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
    /// Byte range in `source`.
    pub span: Range<usize>,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{} in the policy", problems(.first.len() + .more))]
    Problems {
        first: Vec<Problem>,
        /// How many problems there are beyond `first`.
        more: usize,
    },
    #[error("cannot find `{}`", .0.display())]
    NoSuchProject(PathBuf),
    #[error("`{}` has both `{}` and `{}`", .0.display(), NAMES[0], NAMES[1])]
    Both(PathBuf),
    #[error("`{}` is a symbolic link to a file outside the project", .0.display())]
    LeadsOut(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
}

fn problems(count: usize) -> String {
    if count == 1 { "1 problem".to_string() } else { format!("{count} problems") }
}

/// The text of one layer.
#[derive(Debug)]
struct Source {
    layer: Layer,
    path: PathBuf,
    text: Arc<str>,
}

/// Finds the project directory: the nearest ancestor of `cwd` within its repository that has a policy, else the
/// repository root, else `cwd`.
///
/// Outside a repository only `cwd` itself is considered, so that a policy left in `/tmp` does not apply to everything
/// below it.
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

/// Loads the policy of a project. Without a policy file it is the defaults, overridden by the person's own file.
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

/// Loads the notification settings: the defaults, overridden by the person's own file. Projects cannot set them.
pub fn notify(home: &Home) -> Result<Notify, ConfigError> {
    let mut problems = Problems::default();
    let sources = own_sources(home, &mut problems)?;
    Ok(apply::notify(&merge(&sources, problems)?.settings))
}

/// All layers except the project's.
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
    /// The policy in effect as one TOML file. Loading that file gives the same policy.
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
            // The lossy conversion keeps the offsets of all bytes before the first invalid one.
            let text = String::from_utf8_lossy(error.as_bytes()).into();
            let source = Source { layer, path, text };
            problems.add(&source, at..at, ("not valid UTF-8".to_string(), None));
            None
        }
    }
}

/// All layers merged so far.
struct Merged {
    settings: Vec<Setting>,
    /// The defaults of `[[gate]]` and the other named tables.
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
            // In the order of the reference, like the other settings.
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

    /// Reports problems that involve more than one setting.
    fn check(&self, sources: &[Source], problems: &mut Problems) {
        let policy = apply::policy(&self.settings, &[]);
        let (keys, message, hint): (&[&str], _, _) = match policy.limits.check() {
            Ok(()) => (&[], String::new(), ""),
            Err(Invalid::MorePasses { least, most }) => (
                &["run.min_iterations", "run.max_iterations"],
                format!("`min_iterations` ({least}) is greater than `max_iterations` ({most})"),
                "lower `min_iterations` or raise `max_iterations`",
            ),
            Err(Invalid::NothingEndsIt | Invalid::StuckTooSoon(_)) => (
                &["run.max_duration", "run.max_iterations"],
                "a run needs a limit on iterations or on time".to_string(),
                "set `max_iterations` or `max_duration`; 0 means no limit",
            ),
        };
        let settings = self.settings.iter().filter(|setting| keys.contains(&&*setting.key));
        let last = settings.max_by_key(|setting| setting.place.layer as u8);
        if let Some(setting) = last
            && let Some(source) = sources.iter().find(|source| source.layer == setting.place.layer)
        {
            problems.add(source, setting.span.clone(), (message, Some(hint.to_string())));
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
        // The sort is stable, so the order within a section is kept.
        origins.sort_by_key(|origin| section_of(&origin.key));
        origins
    }

    fn to_toml(&self) -> String {
        let mut blocks = Vec::new();
        // Sections that only the person's own file may set are not part of the policy.
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
