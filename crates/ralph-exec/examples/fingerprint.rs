//! Says what the work tree at its first argument is; the second names the file that remembers what was read.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ralph_exec::clock::Deadline;
use ralph_exec::env::Env;
use ralph_exec::tree::{Survey, list};

const PATIENCE: Duration = Duration::from_mins(5);

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> =
        Env::from_process().args().into_iter().map(PathBuf::from).collect();
    let project = arguments.first().map_or(Path::new("."), PathBuf::as_path);
    let cache = arguments.get(1).map(PathBuf::as_path);
    let deadline = Deadline::after(PATIENCE);
    let (said, code) = match list(&Survey { project, exclude: &[], cache, deadline: &deadline }) {
        Ok(listing) => {
            let identity = listing.identity().map(|byte| format!("{byte:02x}")).concat();
            (format!("{identity} {} files\n", listing.entries.len()), ExitCode::SUCCESS)
        }
        Err(error) => (format!("error: {error}\n"), ExitCode::FAILURE),
    };
    drop(std::io::stdout().write_all(said.as_bytes()));
    code
}
