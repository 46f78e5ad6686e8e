//! The policy: built-in defaults, then the person's `config.toml`, then the project's `ralph.toml`.
//!
//! Every value records the layer and line it came from, and every problem its span in the source. A later layer
//! replaces values and whole lists; gates, chunks and patterns are replaced one by one, by name.

mod apply;
mod chunk_check;
mod ci_draft;
mod glob_check;
mod judge_backend;
mod judge_check;
mod keys;
mod parse;
mod report_check;
mod schema;
mod url_text;
mod value;

use crate::notify_config::NotifySettings;
use apply::ConfigDraft;
use parse::{ConfigEntry, ConfigProblems, ConfigSetting, ParsedLayer};
use ralph_core::drive::DriveSettings;
use ralph_core::input_bounds::MAX_POLICY_BYTES;
use ralph_core::limits::InvalidLimits;
use ralph_core::model_price::ModelPrice;
use ralph_core::policy::Policy;
use ralph_core::retention::RetentionRules;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_sys::fs::{self, FileError, FileKind};
use serde::Serialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use glob_check::check_glob;
pub use judge_backend::check_backend;
pub use judge_check::{MAX_PROMPT_BYTES, default_judge};
pub use keys::MAX_GATE_TIMEOUT_MS;
pub use schema::json_schema;
pub(crate) use value::toml_list;
pub use value::toml_string;

/// File names of a project's policy. Having both is an error.
pub const POLICY_FILE_NAMES: [&str; 2] = ["ralph.toml", ".ralph.toml"];

const MAX_PROBLEM_CHARS: usize = 200;
const DEFAULTS_TOML: &str = include_str!("defaults.toml");

/// The policy in effect for a project, and where each value came from.
#[derive(Clone, Debug)]
pub struct ProjectConfig {
    pub policy: Policy,
    /// How a runner drives the agent: the defaults, overridden by the person's own file.
    pub runner: DriveSettings,
    /// Absolute, without symbolic links.
    pub project: PathBuf,
    /// The project's policy file, if it has one.
    pub file: Option<PolicyFile>,
    /// One for every value in effect, in the order of the reference.
    pub origins: Vec<SettingOrigin>,
    effective_toml: String,
}

/// A policy file with the text that was read, so that the approved text is the one in effect.
#[derive(Clone, Debug)]
pub struct PolicyFile {
    pub path: PathBuf,
    pub text: Arc<str>,
}

/// One value and where it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingOrigin {
    /// `run.max_iterations`, `gate.tests.timeout`
    pub key: String,
    /// Rendered as TOML.
    pub value: String,
    pub location: ConfigLocation,
}

/// Where a value was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigLocation {
    pub layer: ConfigLayer,
    /// Counted from 1; meaningless for a built-in value.
    pub line: u32,
}

/// The layers, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigLayer {
    #[serde(rename = "default")]
    BuiltIn,
    User,
    Project,
}

/// One mistake in a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub path: PathBuf,
    pub source: Arc<str>,
    /// Byte range in `source`.
    pub span: Range<usize>,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{} in the policy", problem_count(.first.len() + .more))]
    Problems {
        first: Vec<ConfigProblem>,
        /// How many problems there are beyond `first`.
        more: usize,
    },
    #[error("cannot find `{}`", .0.display())]
    NoSuchProject(PathBuf),
    #[error("`{}` has both `{}` and `{}`", .0.display(), POLICY_FILE_NAMES[0], POLICY_FILE_NAMES[1])]
    BothNames(PathBuf),
    #[error("`{}` is a symbolic link to a file outside the project", .0.display())]
    LinkOutsideProject(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
}

impl ProjectConfig {
    /// The layer that set a value; the built-in one if no file did.
    pub fn layer_of(&self, key: &str) -> ConfigLayer {
        let origin = self.origins.iter().find(|origin| origin.key == key);
        origin.map_or(ConfigLayer::BuiltIn, |origin| origin.location.layer)
    }
}

impl ConfigError {
    /// The error on one line, with the place of the first problem. For texts that cannot show an excerpt of the file.
    pub fn describe_on_one_line(&self) -> String {
        match self {
            Self::Problems { first, more } => match first.split_first() {
                Some((problem, rest)) => match rest.len() + more {
                    0 => problem.describe(),
                    others => format!("{} (and {others} more)", problem.describe()),
                },
                None => self.to_string(),
            },
            Self::NoSuchProject(_)
            | Self::BothNames(_)
            | Self::LinkOutsideProject(_)
            | Self::File(_) => self.to_string(),
        }
    }
}

impl ConfigProblem {
    /// ``line 3 of `/p/ralph.toml`: unknown key `gats`, did you mean `gate`?``
    fn describe(&self) -> String {
        let before = self.source.get(..self.span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let message = text::clean_line(&format!("{}{hint}", self.message), MAX_PROBLEM_CHARS);
        format!("line {line} of `{}`: {message}", self.path.display())
    }
}

fn problem_count(count: usize) -> String {
    if count == 1 { "1 problem".to_string() } else { format!("{count} problems") }
}

/// The text of one layer.
#[derive(Debug)]
struct ConfigSource {
    layer: ConfigLayer,
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
    let has_policy = |directory: &&Path| {
        POLICY_FILE_NAMES.iter().any(|name| fs::stat_no_follow(&directory.join(name)).is_some())
    };
    cwd.ancestors()
        .take_while(|directory| directory.starts_with(repository))
        .find(has_policy)
        .unwrap_or(repository)
        .to_path_buf()
}

/// Loads the policy of a project. Without a policy file it is the defaults, overridden by the person's own file.
pub fn load(project: &Path, home: &RalphHome) -> Result<ProjectConfig, ConfigError> {
    let project = resolve_project(project)?;
    let file = match find_policy_file(&project)? {
        Some(path) => Some((path.clone(), fs::read(&path, MAX_POLICY_BYTES)?)),
        None => None,
    };
    load_layers(project, home, file)
}

/// The policy that the project would have with this text in its policy file. Without a file, it would be created under
/// the usual name.
pub fn load_with_text(
    project: &Path,
    home: &RalphHome,
    text: &str,
) -> Result<ProjectConfig, ConfigError> {
    let project = resolve_project(project)?;
    let path = find_policy_file(&project)?.unwrap_or_else(|| project.join(POLICY_FILE_NAMES[0]));
    load_layers(project, home, Some((path, text.as_bytes().to_vec())))
}

fn resolve_project(project: &Path) -> Result<PathBuf, ConfigError> {
    fs::resolve(project).ok_or_else(|| ConfigError::NoSuchProject(project.to_path_buf()))
}

fn load_layers(
    project: PathBuf,
    home: &RalphHome,
    project_file: Option<(PathBuf, Vec<u8>)>,
) -> Result<ProjectConfig, ConfigError> {
    let mut problems = ConfigProblems::default();
    let mut sources = sources_without_project(home, &mut problems)?;
    let mut file = None;
    if let Some((path, bytes)) = project_file
        && let Some(source) = decode_source(ConfigLayer::Project, path, bytes, &mut problems)
    {
        file = Some(PolicyFile { path: source.path.clone(), text: source.text.clone() });
        sources.push(source);
    }
    let merged = merge_layers(&sources, problems)?;
    let ConfigDraft { mut policy, runner, .. } =
        ConfigDraft::build(&merged.settings, &merged.entries);
    let mut problems = ConfigProblems::default();
    judge_check::read_prompts(&mut policy, &project, &merged.entries, &sources, &mut problems);
    if !problems.first.is_empty() {
        return Err(ConfigError::Problems { first: problems.first, more: problems.more });
    }
    let origins = merged.origins();
    let effective_toml = merged.to_toml();
    Ok(ProjectConfig { policy, runner, project, file, origins, effective_toml })
}

/// Loads the notification settings: the defaults, overridden by the person's own file. Projects cannot set them.
pub fn load_notify(home: &RalphHome) -> Result<NotifySettings, ConfigError> {
    let mut problems = ConfigProblems::default();
    let sources = sources_without_project(home, &mut problems)?;
    Ok(ConfigDraft::build(&merge_layers(&sources, problems)?.settings, &[]).notify)
}

/// Loads how a runner drives the agent, including the limit of a day. Projects cannot set this.
pub fn load_runner(home: &RalphHome) -> Result<DriveSettings, ConfigError> {
    let mut problems = ConfigProblems::default();
    let sources = sources_without_project(home, &mut problems)?;
    Ok(ConfigDraft::build(&merge_layers(&sources, problems)?.settings, &[]).runner)
}

/// Loads the address of the OpenTelemetry collector that runs are sent to. Projects cannot set it.
pub fn load_otlp_endpoint(home: &RalphHome) -> Result<Option<String>, ConfigError> {
    let mut problems = ConfigProblems::default();
    let sources = sources_without_project(home, &mut problems)?;
    Ok(ConfigDraft::build(&merge_layers(&sources, problems)?.settings, &[]).otlp_endpoint)
}

/// Loads how long ralph keeps its own files. Projects cannot set this.
pub fn load_keep(home: &RalphHome) -> Result<RetentionRules, ConfigError> {
    let mut problems = ConfigProblems::default();
    let sources = sources_without_project(home, &mut problems)?;
    Ok(ConfigDraft::build(&merge_layers(&sources, problems)?.settings, &[]).keep)
}

/// Loads the person's own prices of models. Projects cannot set them: they would decide what a limit is worth.
pub fn load_prices(home: &RalphHome) -> Result<Vec<ModelPrice>, ConfigError> {
    let mut problems = ConfigProblems::default();
    let sources = sources_without_project(home, &mut problems)?;
    Ok(ConfigDraft::build(&[], &merge_layers(&sources, problems)?.entries).prices)
}

/// All layers except the project's.
fn sources_without_project(
    home: &RalphHome,
    problems: &mut ConfigProblems,
) -> Result<Vec<ConfigSource>, ConfigError> {
    let mut sources = vec![ConfigSource {
        layer: ConfigLayer::BuiltIn,
        path: PathBuf::from("defaults.toml"),
        text: Arc::from(DEFAULTS_TOML),
    }];
    let user = home.user_config();
    if let Some(bytes) = fs::read_if_exists(&user, MAX_POLICY_BYTES)? {
        sources.extend(decode_source(ConfigLayer::User, user, bytes, problems));
    }
    Ok(sources)
}

fn merge_layers(
    sources: &[ConfigSource],
    mut problems: ConfigProblems,
) -> Result<MergedLayers, ConfigError> {
    let mut layers = sources.iter().map(|source| parse::parse_layer(source, &mut problems));
    let defaults = layers.next().unwrap_or_default();
    let merged = layers.fold(MergedLayers::new(defaults), MergedLayers::overlay);
    merged.check(sources, &mut problems);
    if problems.first.is_empty() {
        Ok(merged)
    } else {
        Err(ConfigError::Problems { first: problems.first, more: problems.more })
    }
}

impl ProjectConfig {
    /// The policy in effect as one TOML file. Loading that file gives the same policy.
    pub fn to_toml(&self) -> &str {
        &self.effective_toml
    }
}

fn find_policy_file(project: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let mut found = None;
    for name in POLICY_FILE_NAMES {
        let path = project.join(name);
        let Some(stat) = fs::stat_no_follow(&path) else { continue };
        if found.is_some() {
            return Err(ConfigError::BothNames(project.to_path_buf()));
        }
        let leads_out = || fs::resolve(&path).is_some_and(|target| !target.starts_with(project));
        if stat.kind == FileKind::Symlink && leads_out() {
            return Err(ConfigError::LinkOutsideProject(path));
        }
        found = Some(path);
    }
    Ok(found)
}

fn decode_source(
    layer: ConfigLayer,
    path: PathBuf,
    bytes: Vec<u8>,
    problems: &mut ConfigProblems,
) -> Option<ConfigSource> {
    match String::from_utf8(bytes) {
        Ok(text) => Some(ConfigSource { layer, path, text: text.into() }),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            // The lossy conversion keeps the offsets of all bytes before the first invalid one.
            let text = String::from_utf8_lossy(error.as_bytes()).into();
            let source = ConfigSource { layer, path, text };
            problems.add(&source, at..at, "not valid UTF-8".to_string(), None);
            None
        }
    }
}

/// All layers merged so far.
struct MergedLayers {
    settings: Vec<ConfigSetting>,
    /// The defaults of `[[gate]]` and the other named tables.
    templates: Vec<ConfigEntry>,
    entries: Vec<ConfigEntry>,
}

impl MergedLayers {
    fn new(defaults: ParsedLayer) -> Self {
        Self { settings: defaults.settings, templates: defaults.entries, entries: Vec::new() }
    }

    fn overlay(mut self, later: ParsedLayer) -> Self {
        for setting in later.settings {
            match self.settings.iter_mut().find(|earlier| earlier.key == setting.key) {
                Some(earlier) => *earlier = setting,
                None => self.settings.push(setting),
            }
        }
        for mut entry in later.entries {
            let template = self.templates.iter().find(|template| template.is_in(entry.table));
            for default in template.iter().flat_map(|template| &template.settings) {
                if !entry.settings.iter().any(|setting| setting.key == default.key) {
                    entry.settings.push(default.clone());
                }
            }
            // In the order of the reference, like the other settings.
            let keys = entry.table.keys;
            entry
                .settings
                .sort_by_key(|setting| keys.iter().position(|key| key.name == setting.key));
            let same = |earlier: &&mut ConfigEntry| {
                earlier.is_in(entry.table) && earlier.name == entry.name
            };
            match self.entries.iter_mut().find(same) {
                Some(earlier) => *earlier = entry,
                None => self.entries.push(entry),
            }
        }
        self
    }

    /// Reports problems that involve more than one setting.
    fn check(&self, sources: &[ConfigSource], problems: &mut ConfigProblems) {
        let limits = ConfigDraft::build(&self.settings, &[]).policy.limits;
        if let Err(invalid) = limits.validate() {
            self.add_limits_problem(&invalid, sources, problems);
        }
        chunk_check::check_chunks(&self.entries, sources, problems);
        report_check::check_reports(&self.entries, sources, problems);
        judge_check::check_judges(&self.entries, sources, problems);
        ci_draft::check_ci(&self.entries, sources, problems);
    }

    fn add_limits_problem(
        &self,
        invalid: &InvalidLimits,
        sources: &[ConfigSource],
        problems: &mut ConfigProblems,
    ) {
        let (keys, message, hint): (&[&str], _, _) = match invalid {
            InvalidLimits::MinExceedsMax { least, most } => (
                &["run.min_iterations", "run.max_iterations"],
                format!("`min_iterations` ({least}) is greater than `max_iterations` ({most})"),
                "lower `min_iterations` or raise `max_iterations`",
            ),
            InvalidLimits::Unbounded => (
                &["run.max_duration", "run.max_iterations"],
                "a run needs a limit on iterations or on time".to_string(),
                "set `max_iterations` or `max_duration`; 0 means no limit",
            ),
            InvalidLimits::StuckTooSoon(count) => (
                &["run.stuck_after"],
                format!("`stuck_after` cannot be `{count}`"),
                "raise `stuck_after`",
            ),
        };
        let settings = self.settings.iter().filter(|setting| keys.contains(&&*setting.key));
        let last = settings.max_by_key(|setting| setting.location.layer);
        if let Some(setting) = last
            && let Some(source) =
                sources.iter().find(|source| source.layer == setting.location.layer)
        {
            problems.add(source, setting.span.clone(), message, Some(hint.to_string()));
        }
    }

    fn origins(&self) -> Vec<SettingOrigin> {
        let origin = |key: String, setting: &ConfigSetting| SettingOrigin {
            key,
            value: setting.value.to_toml(),
            location: setting.location,
        };
        let plain = self.settings.iter().map(|setting| origin(setting.key.clone(), setting));
        let entries = self.entries.iter().flat_map(|entry| {
            entry.settings.iter().filter(|setting| setting.key != "name").map(move |setting| {
                origin(format!("{}.{}.{}", entry.table.path, entry.name, setting.key), setting)
            })
        });
        let mut origins: Vec<_> = plain.chain(entries).collect();
        // The sort is stable, so the order within a section is kept.
        origins.sort_by_key(|origin| section_index(&origin.key));
        origins
    }

    fn to_toml(&self) -> String {
        let mut blocks = Vec::new();
        // Sections that only the person's own file may set are not part of the policy.
        for section in keys::ROOT.iter().filter(|section| !section.kind.is_user_only()) {
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
            let within =
                |entry: &&ConfigEntry| entry.table.path.split('.').next() == Some(section.name);
            for entry in self.entries.iter().filter(within) {
                let lines = entry
                    .settings
                    .iter()
                    .map(|setting| format!("{} = {}\n", setting.key, setting.value.to_toml()));
                blocks.push(format!("[[{}]]\n{}", entry.table.path, lines.collect::<String>()));
            }
        }
        blocks.join("\n")
    }
}

fn section_index(key: &str) -> Option<usize> {
    let name = key.split('.').next();
    keys::ROOT.iter().position(|section| Some(section.name) == name)
}

#[cfg(test)]
mod tests;
