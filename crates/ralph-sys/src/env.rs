//! The only reader of environment variables, command line arguments and the working directory. Also decides which
//! variables hold secrets.

use crate::os;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A variable whose name contains one of these holds a secret.
const SECRET_NAME_PARTS: [&[u8]; 6] =
    [b"KEY", b"TOKEN", b"SECRET", b"PASSWORD", b"PASSWD", b"CREDENTIAL"];
/// Shorter values are too likely to occur in innocent text.
const MIN_SECRET_CHARS: usize = 8;
/// All-digit values up to this length are counts and limits (`MAX_THINKING_TOKENS=10000000`), not secrets.
const MAX_NUMBER_DIGITS: usize = 10;
/// A longer run of path characters without a `/` is encoded data rather than a file name.
const MAX_PATH_COMPONENT: usize = 32;
/// Common setting values that are long enough to be a secret but are not.
const PLAIN_SETTING_VALUES: [&str; 10] = [
    "disabled",
    "external",
    "internal",
    "keychain",
    "optional",
    "password",
    "required",
    "standard",
    "undefined",
    "unlimited",
];

/// Access to variables, arguments and the working directory. Each is looked up on every call.
#[derive(Clone, Debug)]
pub struct Env {
    source: EnvSource,
}

#[derive(Clone, Debug)]
enum EnvSource {
    Process,
    Pairs {
        variables: Vec<(OsString, OsString)>,
        current_dir: Option<PathBuf>,
        args: Vec<OsString>,
    },
}

/// Holds the path of the copied home that a rehearsal uses.
pub const REHEARSAL_VARIABLE: &str = "RALPH_REHEARSAL";
/// Set for everything that a runner starts; its value identifies the runner.
pub const RUNNER_VARIABLE: &str = "RALPH_DRIVEN";

impl Env {
    pub fn from_process() -> Self {
        Self { source: EnvSource::Process }
    }

    /// The environment another process was started with; empty if it cannot be read.
    pub fn of_process(pid: u32) -> Self {
        let environ = os::read_environment(pid).unwrap_or_default();
        let pair = |entry: &[u8]| {
            let at = memchr::memchr(b'=', entry)?;
            let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            Some((text(&entry[..at]), text(&entry[at + 1..])))
        };
        let variables: Vec<_> = environ.split(|byte| *byte == 0).filter_map(pair).collect();
        Self::from_pairs(variables, None, Vec::new())
    }

    /// An environment of exactly these variables, arguments and working directory, for tests.
    pub fn from_pairs<K: Into<OsString>, V: Into<OsString>>(
        variables: impl IntoIterator<Item = (K, V)>,
        current_dir: Option<PathBuf>,
        args: Vec<OsString>,
    ) -> Self {
        let variables =
            variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { source: EnvSource::Pairs { variables, current_dir, args } }
    }

    /// `$HOME`, when it is absolute.
    pub fn home(&self) -> Option<PathBuf> {
        self.path("HOME").filter(|home| home.is_absolute())
    }

    /// Where other tools keep their settings: `$XDG_CONFIG_HOME`, else `$HOME/.config`.
    pub fn config_home(&self) -> Option<PathBuf> {
        self.path("XDG_CONFIG_HOME").or_else(|| Some(self.home()?.join(".config")))
    }

    /// Where ralph keeps everything: `$RALPH_HOME`, else `$HOME/.ralph`. A relative path is rejected, because it would
    /// mean a different directory after every `cd` of the agent. During a rehearsal the copied home takes precedence
    /// over both, so that a hook command that sets `RALPH_HOME` itself uses the copy too.
    pub fn ralph_home(&self) -> Option<PathBuf> {
        let copy = self.path(REHEARSAL_VARIABLE).filter(|copy| copy.is_absolute());
        if copy.is_some() {
            return copy;
        }
        match self.path("RALPH_HOME") {
            Some(given) => given.is_absolute().then_some(given),
            None => Some(self.home()?.join(".ralph")),
        }
    }

    /// Whether the user turned ralph off for this process: `RALPH_OFF` is set to anything but `0`.
    pub fn is_ralph_off(&self) -> bool {
        self.get("RALPH_OFF").is_some_and(|value| value != "0")
    }

    /// Whether this process decides on a copy of a run, only to show the decision: it must have no effect outside
    /// ralph's home.
    pub fn is_rehearsal(&self) -> bool {
        self.get(REHEARSAL_VARIABLE).is_some_and(|value| value != "0")
    }

    /// All variables, for a program that must run as if it had been started without ralph.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        let mut variables = Vec::new();
        self.for_each_variable(|name, value| variables.push((name.to_owned(), value.to_owned())));
        variables
    }

    pub fn loop_dir(&self) -> Option<PathBuf> {
        self.path("RALPH_LOOP_DIR")
    }

    /// The run whose runner started this process, directly or through an agent.
    pub fn driving_run(&self) -> Option<String> {
        self.get(RUNNER_VARIABLE)?.into_string().ok()
    }

    /// The login name of the user.
    pub fn user_name(&self) -> Option<String> {
        let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| self.get(name));
        named.filter_map(|name| name.into_string().ok()).find(|name| !name.trim().is_empty())
    }

    /// `$PATH`
    pub fn search_path(&self) -> Option<OsString> {
        self.get("PATH")
    }

    /// `$TMPDIR` if it is absolute, else `/tmp`.
    pub fn temporary_dir(&self) -> PathBuf {
        let named = self.get("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
        named.unwrap_or_else(|| PathBuf::from("/tmp"))
    }

    /// Whether this runs as a step of GitHub Actions, which turns certain output lines into annotations.
    pub fn is_github_actions(&self) -> bool {
        self.get("GITHUB_ACTIONS").is_some_and(|value| value == "true")
    }

    /// Whether the terminal, if there is one, can move the cursor: `TERM` is set, and not to `dumb`.
    pub fn can_move_cursor(&self) -> bool {
        self.get("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
    }

    /// Whether the locale is UTF-8. True if no locale is set.
    pub fn supports_utf8(&self) -> bool {
        let set = |name: &str| self.get(name).filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
        locale.is_none_or(|locale| {
            let locale = locale.to_string_lossy().to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        })
    }

    pub fn no_color(&self) -> bool {
        self.get("NO_COLOR").is_some()
    }

    #[expect(clippy::disallowed_methods, reason = "only this module may call it")]
    pub fn current_dir(&self) -> Option<PathBuf> {
        match &self.source {
            EnvSource::Process => std::env::current_dir().ok(),
            EnvSource::Pairs { current_dir, .. } => current_dir.clone(),
        }
    }

    /// The arguments after the program's name.
    pub fn args(&self) -> Vec<OsString> {
        match &self.source {
            EnvSource::Process => std::env::args_os().skip(1).collect(),
            EnvSource::Pairs { args, .. } => args.clone(),
        }
    }

    /// Values of secret variables, which must not reach a log, a prompt or a terminal.
    pub fn secrets(&self) -> Vec<String> {
        let mut secrets = Vec::new();
        self.for_each_variable(|name, value| {
            if is_secret_name(name)
                && let Some(value) = value.to_str()
                && is_secret_value(value)
            {
                secrets.push(value.to_owned());
            }
        });
        secrets
    }

    /// Names of the variables a child must not inherit: git's, because they redirect git to another repository;
    /// ralph's, because a child is not part of the run; and secrets.
    pub fn withheld_names(&self) -> Vec<OsString> {
        let mut withheld = Vec::new();
        self.for_each_variable(|name, _| {
            let bytes = name.as_encoded_bytes();
            if bytes.starts_with(b"GIT_") || bytes.starts_with(b"RALPH_") || is_secret_name(name) {
                withheld.push(name.to_owned());
            }
        });
        withheld
    }

    /// The variables without [`Self::withheld_names`], for a program that needs no more of ralph or the user.
    pub fn variables_without_secrets(&self) -> Vec<(OsString, OsString)> {
        let withheld = self.withheld_names();
        let mut variables = self.variables();
        variables.retain(|(name, _)| !withheld.contains(name));
        variables
    }

    /// The value of a variable that is set and not empty.
    #[expect(clippy::disallowed_methods, reason = "only this module may call it")]
    pub fn get(&self, name: &str) -> Option<OsString> {
        match &self.source {
            EnvSource::Process => std::env::var_os(name),
            EnvSource::Pairs { variables, .. } => variables
                .iter()
                .find(|(candidate, _)| candidate == name)
                .map(|(_, value)| value.clone()),
        }
        .filter(|value| !value.is_empty())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    #[expect(clippy::disallowed_methods, reason = "only this module may call it")]
    pub fn for_each_variable(&self, mut visit: impl FnMut(&OsStr, &OsStr)) {
        match &self.source {
            EnvSource::Process => {
                std::env::vars_os().for_each(|(name, value)| visit(&name, &value));
            }
            EnvSource::Pairs { variables, .. } => {
                for (name, value) in variables {
                    visit(name, value);
                }
            }
        }
    }
}

/// The value of `RALPH_FAILPOINT`, which release builds ignore.
#[cfg(debug_assertions)]
pub(crate) fn failpoint_setting() -> Option<String> {
    Env::from_process().get("RALPH_FAILPOINT")?.into_string().ok()
}

/// A path to the running executable that stays valid when the file is replaced on disk.
pub fn own_executable() -> PathBuf {
    os::own_executable()
}

/// Whether a variable with this name is assumed to hold a secret.
pub fn is_secret_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes().to_ascii_uppercase();
    SECRET_NAME_PARTS.iter().any(|part| memchr::memmem::find(&name, part).is_some())
}

/// Errs on the side of hiding: only values that are obviously settings are not secrets.
fn is_secret_value(value: &str) -> bool {
    let is_number =
        value.len() <= MAX_NUMBER_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = PLAIN_SETTING_VALUES.iter().any(|word| value.eq_ignore_ascii_case(word));
    value.chars().count() >= MIN_SECRET_CHARS && !is_number && !is_word && !is_plain_path(value)
}

fn is_plain_path(value: &str) -> bool {
    let is_rooted = ["/", "~/", "./", "../"].iter().any(|start| value.starts_with(start));
    is_rooted
        && value.split('/').all(|part| {
            part.len() <= MAX_PATH_COMPONENT
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"._-~ @".contains(&byte))
        })
}

/// For tests that run themselves again in another environment.
#[doc(hidden)]
#[expect(clippy::unwrap_used, reason = "only tests call this")]
pub mod testing {
    use super::{Env, OsString, PathBuf};

    pub fn program() -> PathBuf {
        std::env::current_exe().unwrap()
    }

    pub fn variable(name: &str) -> Option<OsString> {
        Env::from_process().get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(variables: &[(&str, &str)]) -> Env {
        Env::from_pairs(variables.iter().copied(), Some(PathBuf::from("/srv/here")), Vec::new())
    }

    #[test]
    fn ralph_home_comes_from_the_first_variable_that_is_set() {
        for (variables, expected) in [
            (&[("RALPH_HOME", "/state"), ("HOME", "/home/u")][..], Some("/state")),
            (&[("RALPH_HOME", ""), ("HOME", "/home/u")], Some("/home/u/.ralph")),
            (&[("RALPH_HOME", "state"), ("HOME", "/home/u")], None),
            (&[("HOME", "/home/u")], Some("/home/u/.ralph")),
            (
                &[("RALPH_REHEARSAL", "/copy"), ("RALPH_HOME", "/state"), ("HOME", "/home/u")],
                Some("/copy"),
            ),
            (&[("RALPH_REHEARSAL", "/copy")], Some("/copy")),
            (&[("RALPH_REHEARSAL", "1"), ("RALPH_HOME", "/state")], Some("/state")),
            (&[("HOME", "")], None),
            (&[("HOME", "u")], None),
            (&[], None),
        ] {
            assert_eq!(env(variables).ralph_home(), expected.map(PathBuf::from), "{variables:?}");
        }
    }

    #[test]
    fn off_means_set_and_not_zero() {
        for (value, expected) in
            [("1", true), ("yes", true), ("00", true), ("0", false), ("", false)]
        {
            assert_eq!(env(&[("RALPH_OFF", value)]).is_ralph_off(), expected, "{value:?}");
        }
        assert!(!env(&[]).is_ralph_off());
    }

    #[test]
    fn an_environment_of_pairs_has_nothing_else() {
        let env = env(&[("RALPH_LOOP_DIR", "/state/loop"), ("NO_COLOR", "1"), ("EMPTY", "")]);
        assert_eq!(env.loop_dir(), Some(PathBuf::from("/state/loop")));
        assert!(env.no_color());
        assert_eq!((env.get("EMPTY"), env.get("PATH")), (None, None));
        assert_eq!(env.current_dir(), Some(PathBuf::from("/srv/here")));
        assert_eq!(env.args(), Vec::<OsString>::new());
    }

    #[test]
    fn values_of_secret_names_are_secrets_unless_they_are_plain_settings() {
        for (name, value, expected) in [
            ("ANTHROPIC_API_KEY", "sk-ant-0123456789", true),
            ("github_token", "ghp_0123456789", true),
            ("DB_PASSWORD", "correct horse", true),
            ("MYSQL_PASSWD", "hunter2hunter2", true),
            ("AWS_SECRET_ACCESS_KEY", "/abc+DEF/ghi012==", true),
            ("API_KEY", "/0123456789abcdef0123456789abcdef0123", true),
            ("PIN_TOKEN", "123456789012", true),
            ("EDITOR", "sk-ant-0123456789", false),
            ("API_KEY", "short", false),
            ("MAX_THINKING_TOKENS", "10000000", false),
            ("TOKEN_CHECK", "disabled", false),
            ("TOKEN_CHECK", "Required", false),
            ("SSH_KEY_FILE", "/home/u/.ssh/id_ed25519", false),
            ("GOOGLE_APPLICATION_CREDENTIALS", "~/gcloud/key.json", false),
        ] {
            let found = env(&[(name, value)]).secrets();
            assert_eq!(found == [value], expected, "{name}={value}: {found:?}");
        }
    }

    #[test]
    fn children_do_not_inherit_git_ralph_or_secrets() {
        let withheld = env(&[
            ("PATH", "/bin"),
            ("GIT_DIR", "/elsewhere"),
            ("GIT_CONFIG_COUNT", "1"),
            ("RALPH_HOME", "/state"),
            ("OPENAI_API_KEY", "x"),
            ("LANG", "C"),
        ])
        .withheld_names();
        assert_eq!(withheld, ["GIT_DIR", "GIT_CONFIG_COUNT", "RALPH_HOME", "OPENAI_API_KEY"]);
    }

    #[test]
    fn the_process_has_a_working_directory() {
        assert!(Env::from_process().current_dir().is_some());
    }
}
