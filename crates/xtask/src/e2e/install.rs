//! The real client, from the package registry, kept outside the checkout: once per version.

use crate::{disk, shell};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// What the simulator was measured against.
pub(crate) const PINNED: &str = "2.1.325";

/// The package that holds the client itself; the one that people install is a wrapper around it.
fn package() -> Result<String> {
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

/// The client's program.
pub(crate) fn client(version: &str) -> Result<PathBuf> {
    let package = package()?;
    let directory = shell::cache_directory()?.join(format!("claude-code-{version}"));
    let program = directory.join("node_modules").join(&package).join("claude");
    if program.is_file() {
        return Ok(program);
    }
    let Some(npm) = shell::find("npm") else {
        bail!(
            "Claude Code {version} is not here, and neither is `npm` to get it: install Node.js, or give the program \
             with `--client`"
        );
    };
    // Whoever installs at the same time works in a directory of their own, and the first one wins.
    let workshop = directory.with_extension(format!("{}.part", std::process::id()));
    disk::directory(&workshop)?;
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
    shell::output(&mut command).context("the package registry has no such client")?;
    disk::settle(&workshop, &directory)?;
    if !program.is_file() {
        bail!("`{package}` {version} has no program `claude`");
    }
    Ok(program)
}

/// What the registry calls the newest.
pub(super) fn latest() -> Result<String> {
    let npm = shell::find("npm").context("`npm` is not here")?;
    let mut command = shell::command(npm);
    command.args(["view", "--loglevel=error", &package()?, "dist-tags.latest"]);
    let said = shell::output(&mut command)?;
    let version = String::from_utf8_lossy(&said).trim().to_owned();
    if version.is_empty() {
        bail!("the registry names no newest version");
    }
    Ok(version)
}
