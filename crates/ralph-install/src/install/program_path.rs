//! The command that the client runs: an absolute path that stays valid after an upgrade, quoted for `/bin/sh`.
//!
//! Also recognises ralph's commands in settings.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_core::gate::shell_quote;
use ralph_host::{HOSTS, HostProfile};
use ralph_sys::env::{self, Env};
use ralph_sys::fs;

/// The path of this program, by a name that stays valid after an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RalphProgram {
    pub path: PathBuf,
    /// Quoted for `/bin/sh`.
    quoted: String,
    /// Why the path may become invalid.
    pub doubt: Option<PathDoubt>,
}

/// Why a program may disappear from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathDoubt {
    BuildDirectory,
    TemporaryDirectory,
    PluginDirectory,
}

impl PathDoubt {
    pub fn describe(self) -> &'static str {
        match self {
            Self::BuildDirectory => "it is in a build directory, which the next build may replace",
            Self::TemporaryDirectory => "it is in a temporary directory",
            Self::PluginDirectory => "it is in a plugin's directory, which an upgrade replaces",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ProgramPathError {
    #[error("cannot find this program: it was replaced or removed while it ran")]
    Gone,
    #[error("the path of this program, `{}`, is not UTF-8", .0.display())]
    NotText(PathBuf),
}

impl RalphProgram {
    /// The running program. Its name on `PATH` is preferred, because that stays when a version is replaced.
    pub fn find(env: &Env) -> Result<Self, ProgramPathError> {
        let running = fs::resolve(&env::own_executable()).ok_or(ProgramPathError::Gone)?;
        let doubt = |path: &Path| doubt_path(env, path);
        let chosen = choose_lasting_path(&running, &env.search_path().unwrap_or_default(), doubt);
        Ok(Self { doubt: doubt(&chosen), ..Self::from_path(&chosen)? })
    }

    pub fn from_path(path: &Path) -> Result<Self, ProgramPathError> {
        let text = path.to_str().ok_or_else(|| ProgramPathError::NotText(path.to_path_buf()))?;
        Ok(Self { path: path.to_path_buf(), quoted: shell_quote(text), doubt: None })
    }

    /// The command of a hook, with a deadline in seconds or the default one.
    pub fn hook_command(&self, host: &HostProfile, deadline: Option<u32>) -> String {
        let deadline = deadline.map(|seconds| format!(" --deadline {seconds}s"));
        format!("{} hook {}{}", self.quoted, host.name, deadline.unwrap_or_default())
    }

    pub fn status_line_command(&self) -> String {
        format!("{} statusline", self.quoted)
    }
}

fn choose_lasting_path(
    running: &Path,
    search_path: &OsStr,
    doubt: impl Fn(&Path) -> Option<PathDoubt>,
) -> PathBuf {
    let name = running.file_name().unwrap_or(OsStr::new("ralph"));
    let mut candidates: Vec<_> = std::env::split_paths(search_path)
        .filter(|directory| directory.is_absolute())
        .flat_map(|directory| [directory.join("ralph"), directory.join(name)])
        .filter(|path| fs::resolve(path).as_deref() == Some(running))
        .collect();
    candidates.push(running.to_path_buf());
    let lasting = candidates.iter().position(|path| doubt(path).is_none());
    candidates.swap_remove(lasting.unwrap_or(0))
}

pub(crate) fn doubt_path(env: &Env, path: &Path) -> Option<PathDoubt> {
    let is_build = |directory: &Path| {
        directory.file_name() == Some(OsStr::new("target"))
            || fs::exists(&directory.join("CACHEDIR.TAG"))
    };
    let temporary = env.temporary_dir();
    let temporary = [&temporary, Path::new("/tmp"), Path::new("/var/tmp"), Path::new("/dev/shm")];
    let in_plugins = |above: &&Path| {
        HOSTS.iter().any(|host| {
            above.ends_with(Path::new(host.files.config_dir).join(host.plugins.directory))
        })
    };
    let mut plugins = path.ancestors().filter(in_plugins);
    if path.ancestors().skip(1).any(is_build) {
        Some(PathDoubt::BuildDirectory)
    } else if temporary.iter().any(|directory| path.starts_with(directory)) {
        Some(PathDoubt::TemporaryDirectory)
    } else {
        plugins.next().map(|_| PathDoubt::PluginDirectory)
    }
}

/// Whether a hook's command is ralph's own, wherever ralph is installed.
pub fn is_ralph_hook(command: &str, args: Option<&[String]>) -> bool {
    HOSTS.iter().any(|host| is_ralph_invocation(command, args, &["hook", host.name]))
}

pub fn is_ralph_status_line(command: &str) -> bool {
    is_ralph_invocation(command, None, &["statusline"])
}

fn is_ralph_invocation(command: &str, args: Option<&[String]>, does: &[&str]) -> bool {
    let line = match args {
        None => split_command_words(command),
        Some(args) => std::iter::once(command.to_string()).chain(args.iter().cloned()).collect(),
    };
    let Some((program, rest)) = line.split_first() else { return false };
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let rest: Vec<_> = rest.iter().map(String::as_str).collect();
    name.starts_with("ralph") && rest.starts_with(does)
}

/// Splits a command line into words. Handles quotes and backslashes, but no expansions.
pub(crate) fn split_command_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            (_, Some(open)) if char == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            (_, None) if char.is_whitespace() => words.extend(word.take()),
            (_, _) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_only_if_needed() {
        for (path, expected) in [
            ("/home/u/.cargo/bin/ralph", "/home/u/.cargo/bin/ralph hook claude"),
            ("/opt/ralph-1.2+x/ralph", "/opt/ralph-1.2+x/ralph hook claude"),
            ("/home/a b/ralph", "'/home/a b/ralph' hook claude"),
            ("/home/jürgen/ralph", "'/home/jürgen/ralph' hook claude"),
            ("/home/o'brien/ralph", r"'/home/o'\''brien/ralph' hook claude"),
            ("/home/$USER/`id`/ralph", "'/home/$USER/`id`/ralph' hook claude"),
        ] {
            let program = RalphProgram::from_path(Path::new(path)).unwrap();
            assert_eq!(program.hook_command(ralph_host::default_host(), None), expected);
            let command = program.hook_command(ralph_host::default_host(), Some(870));
            assert!(is_ralph_hook(&command, None), "{path}");
            assert!(is_ralph_status_line(&program.status_line_command()), "{path}");
        }
    }

    #[test]
    fn foreign_hooks_are_not_taken_for_ralphs() {
        let args = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (command, words, expected) in [
            ("ralph hook claude", None, true),
            ("\"/a b/ralph\" hook claude --style json", None, true),
            ("/a\\ b/ralph hook claude", None, true),
            ("/bin/ralph", Some(args(&["hook", "claude"])), true),
            ("/bin/ralph hook claude", Some(args(&[])), false),
            ("ralph hook codex", None, false),
            ("ralph", None, false),
            ("", None, false),
            ("sh -c 'ralph hook claude'", None, false),
            ("/opt/other hook claude", None, false),
            ("cd x && ralph hook claude", None, false),
            ("${CLAUDE_PLUGIN_ROOT}/hooks/stop-hook.sh", None, false),
        ] {
            assert_eq!(is_ralph_hook(command, words.as_deref()), expected, "{command}");
        }
    }

    /// R-H2b: the name on `PATH` is used, not the file of this version.
    #[test]
    fn a_lasting_path_is_preferred() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::resolve(dir.path()).unwrap();
        let place = |name: &str| root.join(name);
        for directory in ["store/ralph-1.0", "bin", "target/release"] {
            fs::create_private_dir(&place(directory)).unwrap();
        }
        let running = place("store/ralph-1.0/ralph");
        fs::replace_with_mode(&running, b"", fs::SharedFileMode::Executable).unwrap();
        std::os::unix::fs::symlink(&running, place("bin/ralph")).unwrap();
        std::os::unix::fs::symlink(&running, place("target/release/ralph")).unwrap();
        let doubt =
            |path: &Path| path.starts_with(place("target")).then_some(PathDoubt::BuildDirectory);
        let found = |path: &str| {
            let path = path.replace('$', &root.display().to_string());
            let found = choose_lasting_path(&running, OsStr::new(&path), doubt);
            found.strip_prefix(&root).unwrap().display().to_string()
        };
        assert_eq!(found("/usr/bin:$/bin"), "bin/ralph");
        assert_eq!(found("$/target/release:$/bin"), "bin/ralph");
        assert_eq!(found("/usr/bin"), "store/ralph-1.0/ralph");
        assert_eq!(found(""), "store/ralph-1.0/ralph");
    }

    #[test]
    fn temporary_paths_are_doubted() {
        let env = Env::from_pairs([("TMPDIR", "/scratch")], None, Vec::new());
        for (path, expected) in [
            ("/home/u/.cargo/bin/ralph", None),
            ("/src/x/target/release/ralph", Some(PathDoubt::BuildDirectory)),
            ("/scratch/ralph", Some(PathDoubt::TemporaryDirectory)),
            ("/tmp/ralph", Some(PathDoubt::TemporaryDirectory)),
            ("/home/u/.claude/plugins/cache/x/1.0/ralph", Some(PathDoubt::PluginDirectory)),
        ] {
            assert_eq!(doubt_path(&env, Path::new(path)), expected, "{path}");
        }
    }
}
