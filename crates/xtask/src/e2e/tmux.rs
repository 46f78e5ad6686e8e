//! A terminal for the client: tmux on a private socket, killed on drop.

use crate::{disk, shell};
use anyhow::{Context, Result, bail};
use ralph_sys::clock::{self, Deadline};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// High enough for a whole conversation, so that nothing scrolls away. In a wider terminal the client would show files
/// next to the conversation.
const SIZE: [&str; 4] = ["-x", "130", "-y", "220"];
/// Keeps the screen after the client has exited.
const SETTINGS: &[u8] = b"set -g remain-on-exit on\nset -g status off\n";
const POLL_INTERVAL: Duration = Duration::from_millis(60);

pub(super) struct TmuxTerminal {
    program: PathBuf,
    socket: OsString,
    /// The directory of the socket.
    directory: PathBuf,
}

/// The program to run in the terminal.
pub(super) struct TerminalProgram<'a> {
    pub(super) argv: &'a [OsString],
    pub(super) env: &'a [(OsString, OsString)],
    pub(super) directory: &'a Path,
}

pub(super) fn tmux_program() -> Result<PathBuf> {
    shell::find_program("tmux")
        .context("`tmux` was not found; install it to play scenarios at the client's terminal")
}

impl TmuxTerminal {
    /// `directory` must exist and be private.
    pub(super) fn open(directory: &Path, inside: &TerminalProgram<'_>) -> Result<Self> {
        let settings = directory.join("tmux.conf");
        disk::write_file(&settings, SETTINGS)?;
        let socket = format!("ralph-{:016x}", clock::nonce()).into();
        let terminal = Self { program: tmux_program()?, socket, directory: directory.to_owned() };
        let mut command = terminal.command();
        command.arg("-f").arg(&settings).args(["new-session", "-d"]).args(SIZE);
        command.arg("-c").arg(inside.directory).args(["--", "env", "-i"]);
        for (name, value) in inside.env {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            command.arg(escape_word(&pair));
        }
        command.args(inside.argv.iter().map(|argument| escape_word(argument)));
        shell::command_output(&mut command)?;
        Ok(terminal)
    }

    fn command(&self) -> Command {
        let mut command = shell::command(&self.program);
        command.env_clear().env("PATH", shell::path_variable()).env("LANG", "C.UTF-8");
        command.env("TERM", "xterm-256color").env("HOME", &self.directory);
        command.env("TMUX_TMPDIR", &self.directory).arg("-L").arg(&self.socket);
        command
    }

    pub(super) fn screen(&self) -> Result<String> {
        let shown = shell::command_output(self.command().args(["capture-pane", "-p"]))?;
        Ok(String::from_utf8_lossy(&shown).into_owned())
    }

    /// Types a text literally.
    pub(super) fn type_text(&self, text: &str) -> Result<()> {
        let text = escape_word(OsStr::new(text));
        shell::command_output(self.command().args(["send-keys", "-l", "--"]).arg(text))?;
        Ok(())
    }

    /// Presses a key, by tmux's name for it.
    pub(super) fn press_key(&self, key: &str) -> Result<()> {
        shell::command_output(self.command().args(["send-keys", key]))?;
        Ok(())
    }

    /// The exit code of the program, if it has exited.
    pub(super) fn exit_code(&self) -> Result<Option<i32>> {
        let format = "#{pane_dead} #{pane_dead_status}";
        let said = shell::command_output(self.command().args(["display-message", "-p", format]))?;
        let said = String::from_utf8_lossy(&said);
        let code = said.trim().strip_prefix("1 ").map(|code| code.parse().unwrap_or(-1));
        Ok(code)
    }

    /// Waits until the screen satisfies the condition, and returns the screen.
    pub(super) fn wait_until(
        &self,
        what: &str,
        wait: Duration,
        mut is_true: impl FnMut(&str) -> bool,
    ) -> Result<String> {
        let deadline = Deadline::after(wait);
        loop {
            let screen = self.screen()?;
            if is_true(&screen) {
                return Ok(screen);
            }
            if deadline.has_passed() {
                let (after, shown) = (wait.as_secs(), screen_lines(&screen));
                bail!("the terminal did not show {what} within {after} seconds\n{shown}");
            }
            clock::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for TmuxTerminal {
    fn drop(&mut self) {
        // Fails harmlessly if the server never started.
        shell::run_command(self.command().arg("kill-server")).ok();
    }
}

/// Escapes a trailing `;`, which would end tmux's command.
fn escape_word(text: &OsStr) -> OsString {
    let bytes = text.as_encoded_bytes();
    let Some(before) = bytes.strip_suffix(b";").and_then(|it| str::from_utf8(it).ok()) else {
        return text.to_owned();
    };
    format!("{before}\\;").into()
}

/// The non-empty lines of a screen.
pub(super) fn screen_lines(screen: &str) -> String {
    let lines = screen.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.map(|line| format!("      | {line}")).collect();
    lines.join("\n")
}
