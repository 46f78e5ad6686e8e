//! For `cargo xtask bench gates`: prints the fingerprint of the work tree at the first argument. The optional second
//! argument is the stat cache to use. Not an example, because examples are built with the dev-dependencies.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ralph_git::tree::{ListingRequest, list_work_tree};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;

const TIMEOUT: Duration = Duration::from_mins(5);

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> =
        Env::from_process().args().into_iter().map(PathBuf::from).collect();
    let project = arguments.first().map_or(Path::new("."), PathBuf::as_path);
    let cache = arguments.get(1).map(PathBuf::as_path);
    let deadline = Deadline::after(TIMEOUT);
    let (output, code) =
        match list_work_tree(&ListingRequest { project, exclude: &[], cache, deadline: &deadline })
        {
            Ok(listing) => {
                let identity = listing.fingerprint().map(|byte| format!("{byte:02x}")).concat();
                (format!("{identity} {} files\n", listing.entries.len()), ExitCode::SUCCESS)
            }
            Err(error) => (format!("error: {error}\n"), ExitCode::FAILURE),
        };
    drop(std::io::stdout().write_all(output.as_bytes()));
    code
}
