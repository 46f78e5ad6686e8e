//! Installs the real client from the package registry, once per version, outside of the checkout.

use crate::{disk, shell};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// The version that the simulator was verified against.
pub(crate) const PINNED_VERSION: &str = "2.1.325";

/// The package with the client's binary; the package that people install is a wrapper around it.
fn client_package() -> Result<String> {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => bail!("there is no client for {other}"),
    };
    let system = match std::env::consts::OS {
        "linux" => "linux",
        "macos" => "darwin",
        other => bail!("there is no client for {other}"),
    };
    Ok(format!("@anthropic-ai/claude-code-{system}-{machine}"))
}

/// The path of the client's binary, installed first if needed.
pub(crate) fn installed_client(version: &str) -> Result<PathBuf> {
    let package = client_package()?;
    let directory = shell::cache_directory()?.join(format!("claude-code-{version}"));
    let program = directory.join("node_modules").join(&package).join("claude");
    if program.is_file() {
        return Ok(program);
    }
    let Some(npm) = shell::find_program("npm") else {
        bail!(
            "Claude Code {version} is not installed, and `npm` was not found: install Node.js, or use `--client`"
        );
    };
    // Concurrent installations use separate directories, and the first one to finish wins.
    let workshop = directory.with_extension(format!("{}.part", std::process::id()));
    disk::create_directory(&workshop)?;
    let mut command = shell::command(npm);
    command.args([
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--loglevel=error",
        "--prefix",
    ]);
    command.arg(&workshop).arg(format!("{package}@{version}"));
    shell::command_output(&mut command).context("the package registry has no such client")?;
    disk::move_into_place(&workshop, &directory)?;
    if !program.is_file() {
        bail!("`{package}` {version} has no program `claude`");
    }
    Ok(program)
}

/// The newest version in the registry.
pub(super) fn latest_version() -> Result<String> {
    let npm = shell::find_program("npm").context("`npm` was not found")?;
    let mut command = shell::command(npm);
    command.args(["view", "--loglevel=error", &client_package()?, "dist-tags.latest"]);
    let said = shell::command_output(&mut command)?;
    let version = String::from_utf8_lossy(&said).trim().to_owned();
    if version.is_empty() {
        bail!("the registry reports no newest version");
    }
    Ok(version)
}
