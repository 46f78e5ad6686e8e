//! Lets a person edit a text in an editor of their own, at the terminal of this process.

use crate::failure::CommandFailure;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::proc::foreground;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EDITOR_TIMEOUT: Duration = Duration::from_hours(24);
const FALLBACK_EDITOR: &str = "vi";
/// The largest text that is read back.
pub(crate) const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// Opens `$VISUAL` or `$EDITOR` on a file of this name. An editor that fails discards the text.
pub(crate) fn edit_text(
    env: &Env,
    home: &RalphHome,
    file_name: &str,
    text: &str,
) -> Result<String, CommandFailure> {
    let named = env.get("VISUAL").or_else(|| env.get("EDITOR"));
    let named = named.map(|named| named.to_string_lossy().into_owned());
    let named = named.filter(|named| !named.trim().is_empty());
    let editor = named.unwrap_or_else(|| FALLBACK_EDITOR.to_string());
    let directory = home.scratch(clock::nonce());
    fs::create_private_dir(&directory)?;
    let file: PathBuf = directory.join(file_name);
    fs::replace_user_file(&file, text.as_bytes())?;
    let mut argv: Vec<OsString> = editor.split_whitespace().map(OsString::from).collect();
    argv.push(file.clone().into_os_string());
    let ended = foreground::run_in_foreground(&argv, Deadline::after(EDITOR_TIMEOUT));
    let edited = fs::read(&file, MAX_TEXT_BYTES);
    drop(fs::remove_file(&file));
    drop(fs::remove_empty_dir(&directory));
    match ended {
        Ok(Some(true)) => Ok(String::from_utf8_lossy(&edited?).into_owned()),
        Ok(Some(false) | None) => {
            Err(CommandFailure::new("the editor failed, so its text is not used", "try again"))
        }
        Err(error) => {
            let failure = CommandFailure::caused_by("cannot start the editor", &error);
            Err(failure.with_hint("set `EDITOR` to an editor that is installed"))
        }
    }
}
