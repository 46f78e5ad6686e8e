//! The errors about a policy or a person's own settings.

use crate::excerpt;
use crate::failure::{CommandFailure, error_chain, file_hint};
use ralph_core::text;
use ralph_policy::config::{self, ConfigError, ConfigProblem};

const USER_CONFIG_NAME: &str = "config.toml";

impl From<ConfigError> for CommandFailure {
    fn from(error: ConfigError) -> Self {
        let (excerpts, hint) = match &error {
            ConfigError::Problems { first, more } => {
                let hint = "`ralph config --schema` describes every key";
                (excerpt::render(first, *more), Some(hint.to_string()))
            }
            ConfigError::NoSuchProject(_) => (String::new(), Some("check the path".to_string())),
            ConfigError::BothNames(_) => {
                let [keep, delete] = config::POLICY_FILE_NAMES;
                let hint = format!("keep `{keep}` and delete `{delete}`, or the other way round");
                (String::new(), Some(hint))
            }
            ConfigError::LinkOutsideProject(_) => {
                let hint = "put the file itself there; settings for all projects go into `~/.ralph/config.toml`";
                (String::new(), Some(hint.to_string()))
            }
            ConfigError::File(file) => (String::new(), file_hint(file)),
        };
        let failure = Self::from_chain(error_chain(Some(&error)), hint);
        failure.with_excerpts(excerpts, own_settings_problem(&error))
    }
}

/// The message about mistakes that are all in the person's own settings, which are no policy of a project.
fn own_settings_problem(error: &ConfigError) -> Option<String> {
    let ConfigError::Problems { first, more } = error else { return None };
    let is_own = |problem: &ConfigProblem| problem.path.ends_with(USER_CONFIG_NAME);
    let count = text::count_noun(u64::try_from(first.len() + more).unwrap_or(u64::MAX), "problem");
    let is_all_own = !first.is_empty() && first.iter().all(is_own);
    is_all_own.then(|| format!("{count} in your own `{USER_CONFIG_NAME}`"))
}
