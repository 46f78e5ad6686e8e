//! Processes, environment and clock. The only module that uses them.
#![expect(
    clippy::disallowed_methods,
    reason = "a developer tool does not need the product's wrappers"
)]

use crate::disk;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The root of the repository. Determined at run time, because a target directory can be shared by several checkouts.
pub(crate) fn repository_root() -> PathBuf {
    let here =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    here.ancestors().nth(2).map_or_else(PathBuf::new, Path::to_path_buf)
}

pub(crate) fn target_directory() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    named.map_or_else(|| repository_root().join("target"), |named| repository_root().join(named))
}

pub(crate) fn path_variable() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = path_variable();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

pub(crate) fn instant() -> Instant {
    Instant::now()
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(repository_root());
    command
}

pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// The stdout of a command that must succeed.
pub(crate) fn command_output(command: &mut Command) -> Result<Vec<u8>> {
    command_output_with_code(command, 0)
}

/// The stdout of a command that must exit with `code`.
pub(crate) fn command_output_with_code(command: &mut Command, code: i32) -> Result<Vec<u8>> {
    let Output { status, stdout, stderr } = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    if status.code() != Some(code) {
        bail!("{command:?} failed, {status}\n{}", String::from_utf8_lossy(&stderr));
    }
    Ok(stdout)
}

/// The stdout of a command that must succeed, with a file as its input.
pub(crate) fn command_output_with_input(command: &mut Command, input: &Path) -> Result<Vec<u8>> {
    let output = command.stdin(disk::open(input)?).output();
    let Output { status, stdout, stderr } =
        output.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed\n{}", String::from_utf8_lossy(&stderr));
    Ok(stdout)
}

/// Builds a program of the workspace and returns its path. Always selects the same packages, so that cargo resolves the
/// same features for every program and reuses the crates that are already built.
pub(crate) fn build_program(profile: &str, program: &str) -> Result<PathBuf> {
    // Cargo chooses the features of a dependency for the packages it builds, so another selection than that of the tests
    // would compile most crates once more.
    let selected: &[&str] = if profile == "dev" {
        &["--workspace", "--all-targets"]
    } else {
        &["--package", "ralph", "--package", "ralph-git", "--bin", program]
    };
    let args = ["build", "--profile", profile, "--message-format=json"];
    let messages = command_output(cargo().args(args).args(selected))?;
    let messages = messages.split(|byte| *byte == b'\n');
    let built = messages.filter_map(|line| serde_json::from_slice::<Value>(line).ok()).find_map(
        |message| {
            let is_it = message["target"]["name"] == program
                && message["target"]["kind"][0] == "bin"
                && message["profile"]["test"] == false;
            is_it.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
        },
    );
    built.with_context(|| format!("cargo built no `{program}`"))
}

/// Makes a repository of a directory, with one commit of all its files.
pub(crate) fn commit_all(env: &[(OsString, OsString)], project: &Path) -> Result<()> {
    let author = ["-c", "user.name=xtask", "-c", "user.email=xtask@example.invalid"];
    for step in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message=all"]] {
        let mut git = Command::new("git");
        git.env_clear().envs(env.iter().map(|(name, value)| (name, value)));
        command_output(git.arg("-C").arg(project).args(author).args(step))?;
    }
    Ok(())
}

/// Exit code, stdout and stderr of a command that may fail.
pub(crate) fn run_command(command: &mut Command) -> Result<(i32, String, String)> {
    let output = command.stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } =
        output.with_context(|| format!("cannot start {command:?}"))?;
    let code = status.code().with_context(|| format!("{command:?} was killed"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((code, text(&stdout), text(&stderr)))
}

/// A command that ended in time.
#[derive(Debug)]
pub(crate) struct CommandEnd {
    /// The command, for messages.
    name: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl CommandEnd {
    pub(crate) fn expect_success(self) -> Result<Self> {
        self.expect_code(0)
    }

    pub(crate) fn expect_code(self, code: i32) -> Result<Self> {
        let Self { name, code: ended, stdout, stderr, .. } = &self;
        let last = |text: &str| {
            text.get(text.floor_char_boundary(text.len().saturating_sub(1500))..)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        ensure!(
            *ended == Some(code),
            "{name} ended with {ended:?} instead of {code}\n{}\n{}",
            last(stdout),
            last(stderr)
        );
        Ok(self)
    }
}

/// Runs a command with input, and kills its process group at the limit.
pub(crate) fn run_within(
    command: &mut Command,
    input: &[u8],
    limit: Duration,
) -> Result<CommandEnd> {
    let name = command.get_program().to_string_lossy().into_owned();
    let words = command.get_args().take(3).map(|word| word.to_string_lossy().into_owned());
    let name = [name].into_iter().chain(words).collect::<Vec<_>>().join(" ");
    let began = Instant::now();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let (sender, receiver) = mpsc::channel();
    read_in_background(child.stdout.take(), 0, sender.clone());
    read_in_background(child.stderr.take(), 1, sender);
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read its input closes the pipe.
        stdin.write_all(input).ok();
    }
    let mut texts = [String::new(), String::new()];
    for _ in 0..texts.len() {
        let left = limit.saturating_sub(began.elapsed());
        let Ok((at, text)) = receiver.recv_timeout(left) else {
            kill_group(&mut child);
            bail!("{name} took longer than {} s", limit.as_secs());
        };
        if let Some(slot) = texts.get_mut::<usize>(at) {
            *slot = text;
        }
    }
    let code = child.wait()?.code();
    let [stdout, stderr] = texts;
    Ok(CommandEnd { name, code, stdout, stderr, took: began.elapsed() })
}

fn read_in_background(
    pipe: Option<impl Read + Send + 'static>,
    at: usize,
    sender: Sender<(usize, String)>,
) {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).ok();
        }
        // The receiver is gone after the limit.
        sender.send((at, String::from_utf8_lossy(&bytes).into_owned())).ok();
    });
}

fn kill_group(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        kill_process_group(group, Signal::KILL).ok();
    }
    child.wait().ok();
}

/// A variable of the environment, or a directory below the home directory in its place.
pub(crate) fn variable_or_home(name: &str, below_home: &str) -> Option<OsString> {
    std::env::var_os(name).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(PathBuf::from(home).join(below_home).into())
    })
}

pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The cache for downloads, outside of any checkout.
pub(crate) fn cache_directory() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.filter(|path| path.is_absolute()).or(home);
    Ok(cache.context("`HOME` is not set")?.join("ralph-e2e"))
}

/// One command to time, with its complete environment.
#[derive(Clone, Debug)]
pub(crate) struct RacerCommand {
    /// Absolute, because the standard library does not use `posix_spawn` if it has to search `PATH`.
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) stdin: PathBuf,
}

/// Runs a command and returns its duration and exit code.
pub(crate) fn time_command(errand: &RacerCommand) -> Result<(Duration, i32)> {
    ensure!(errand.program.is_absolute(), "`{}` is not absolute", errand.program.display());
    let mut command = Command::new(&errand.program);
    command
        .args(&errand.args)
        .env_clear()
        .envs(errand.env.iter().map(|(name, value)| (name, value)));
    command.stdin(disk::open(&errand.stdin)?).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let status = command.status();
    let took = began.elapsed();
    let status = status.with_context(|| format!("cannot start `{}`", errand.program.display()))?;
    let code = status.code().with_context(|| format!("{errand:?} was killed"))?;
    Ok((took, code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_a_limit_and_its_processes_end_with_it() {
        let mut shell = command("sh");
        shell.args(["-c", "sleep 1000 & wait"]);
        let error = run_within(&mut shell, b"", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.to_string(), "sh -c sleep 1000 & wait took longer than 0 s");
        let ended = run_within(&mut command("cat"), b"in", Duration::from_mins(1)).unwrap();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "in"));
    }
}
