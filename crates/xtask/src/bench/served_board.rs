//! A running `ralph serve`, whose pages are timed.

use super::race::{BenchRacer, RacerProof};
use crate::disk;
use crate::shell::{self, RacerCommand};
use anyhow::{Context, Result};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

pub(super) struct ServedBoard {
    server: Child,
    /// The server prints a line for each browser, so its output stays open.
    _printed: BufReader<ChildStdout>,
    url: String,
    curl: PathBuf,
    cookies: PathBuf,
    env: Vec<(OsString, OsString)>,
}

impl ServedBoard {
    /// Starts a server and follows its link, as a browser would. The cookies are written below `directory`.
    pub(super) fn start(
        ralph: &Path,
        env: Vec<(OsString, OsString)>,
        directory: &Path,
    ) -> Result<Self> {
        let mut command = shell::command(ralph);
        command.env_clear().envs(env.iter().cloned()).args(["serve", "--json", "--port", "0"]);
        let mut server = command.stdout(Stdio::piped()).spawn()?;
        let stdout = server.stdout.take().context("the server has no output")?;
        let mut printed = BufReader::new(stdout);
        let mut first_line = String::new();
        printed.read_line(&mut first_line)?;
        let started: Value =
            serde_json::from_str(&first_line).context("the server did not start")?;
        let address = |key: &str| {
            let found = started[key].as_str().map(str::to_owned);
            found.with_context(|| format!("the server printed no `{key}`"))
        };
        let curl = shell::find_program("curl").context("there is no curl")?;
        let cookies = directory.join("cookies");
        let board = Self { server, _printed: printed, url: address("url")?, curl, cookies, env };
        let link = address("link")?;
        let mut enter = shell::command(&board.curl);
        enter.args(["--silent", "--fail", "--cookie-jar"]).arg(&board.cookies).arg(link);
        shell::command_output(&mut enter)?;
        Ok(board)
    }

    /// One request for a page, with the start of the program that makes it.
    pub(super) fn page(&self, name: &str, path: &str, stdin: PathBuf) -> BenchRacer {
        let mut args: Vec<OsString> =
            ["--silent", "--fail", "--output", "/dev/null", "--cookie"].map(Into::into).into();
        args.push(self.cookies.clone().into());
        args.push(format!("{}{path}", self.url.trim_end_matches('/')).into());
        let command =
            RacerCommand { program: self.curl.clone(), args, env: self.env.clone(), stdin };
        BenchRacer::new(name, command, RacerProof::Exit(0))
    }

    /// The most memory that the server has used so far.
    pub(super) fn peak_mib(&self) -> Result<f64> {
        peak_mib(self.server.id()).context("the server has ended")
    }
}

impl Drop for ServedBoard {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// The highest resident memory of a process so far.
pub(super) fn peak_mib(pid: u32) -> Option<f64> {
    let status = disk::read_text(Path::new(&format!("/proc/{pid}/status"))).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}
