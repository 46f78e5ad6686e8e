//! Sources of published versions, downloaded by the tools of their registries into the target directory. The checksum
//! that the registry reports must be the one in the table.

use super::fix_table::PackageRegistry;
use crate::disk;
use crate::shell::{self, CommandEnd};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// pip builds the metadata of a source, for which it may install a build tool first.
pub(super) const DOWNLOAD_LIMIT: Duration = Duration::from_mins(4);

pub(super) struct PublishedSource<'a> {
    pub(super) registry: PackageRegistry,
    pub(super) package: &'a str,
    pub(super) version: &'a str,
    pub(super) checksum: &'a str,
}

impl PublishedSource<'_> {
    /// The directory with the unpacked source, downloaded first if needed.
    pub(super) fn directory(&self) -> Result<PathBuf> {
        let cache = shell::target_directory().join("real/sources");
        // The checksum is part of the name, so that a corrected table does not find the old source.
        let mark: String =
            self.checksum.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
        let directory = cache.join(format!("{}-{}-{mark}", self.package, self.version));
        if directory.is_dir() {
            return Ok(directory);
        }
        disk::create_directory(&cache)?;
        let workshop = tempfile::Builder::new().prefix("part-").tempdir_in(&cache)?;
        let unpacked = match self.registry {
            PackageRegistry::Crates => self.vendor_crate(workshop.path()),
            PackageRegistry::Npm => self.pack_npm(workshop.path()),
            PackageRegistry::Pypi => self.download_sdist(workshop.path()),
        };
        let unpacked = unpacked.with_context(|| {
            let Self { registry, package, version, .. } = self;
            format!("cannot download `{package}` {version} from {}", registry.name())
        })?;
        disk::move_into_place(&unpacked, &directory)?;
        Ok(directory)
    }

    fn vendor_crate(&self, workshop: &Path) -> Result<PathBuf> {
        let Self { package, version, .. } = self;
        let manifest = format!(
            "[package]\nname = \"download\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[lib]\npath = \"lib.rs\"\n\n[dependencies]\n\"{package}\" = \"={version}\"\n\n[workspace]\n"
        );
        disk::write_with_parents(&workshop.join("Cargo.toml"), manifest.as_bytes())?;
        disk::write_file(&workshop.join("lib.rs"), b"")?;
        let mut cargo = shell::cargo();
        cargo.args(["vendor", "--quiet", "--versioned-dirs", "--manifest-path"]);
        cargo.arg(workshop.join("Cargo.toml")).arg(workshop.join("vendor"));
        run_download(&mut cargo)?;
        let source = workshop.join(format!("vendor/{package}-{version}"));
        let sums = source.join(".cargo-checksum.json");
        let sums_text: Value = serde_json::from_slice(&disk::read(&sums)?)?;
        self.compare_checksum(sums_text["package"].as_str().unwrap_or_default())?;
        disk::remove_file(&sums)?;
        Ok(source)
    }

    fn pack_npm(&self, workshop: &Path) -> Result<PathBuf> {
        let Self { package, version, .. } = self;
        let npm = shell::find_program("npm").context("`npm` was not found: install Node.js")?;
        let mut pack = shell::command(npm);
        pack.args(["pack", "--json", "--loglevel=error", "--pack-destination"]).arg(workshop);
        let ended = run_download(pack.arg(format!("{package}@{version}")))?;
        let packed: Value = serde_json::from_str(&ended.stdout)?;
        let packed = packed.get(0).context("npm reports no package")?;
        self.compare_checksum(packed["integrity"].as_str().unwrap_or_default())?;
        let file = packed["filename"].as_str().context("npm reports no file")?;
        unpack(&workshop.join(file), workshop)
    }

    fn download_sdist(&self, workshop: &Path) -> Result<PathBuf> {
        let Self { package, version, checksum, .. } = self;
        // pip itself refuses a file with another checksum.
        let pinned = format!("{package}=={version} --hash=sha256:{checksum}\n");
        let requirements = workshop.join("requirements.txt");
        disk::write_with_parents(&requirements, pinned.as_bytes())?;
        let mut pip = shell::command(pip_environment()?);
        pip.args(["-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]);
        pip.args(["--no-binary", package, "--require-hashes", "--requirement"]).arg(requirements);
        let downloads = workshop.join("downloads");
        run_download(pip.arg("--dest").arg(&downloads))?;
        let files = disk::list(&downloads)?;
        let file = files.first().context("pip downloaded nothing")?;
        unpack(file, workshop)
    }

    fn compare_checksum(&self, reported: &str) -> Result<()> {
        let Self { package, version, checksum, .. } = self;
        ensure!(
            reported == *checksum,
            "`{package}` {version} has the checksum `{reported}`, and the table has `{checksum}`"
        );
        Ok(())
    }
}

/// The Python of a virtual environment, because the system's Python may be without pip.
fn pip_environment() -> Result<PathBuf> {
    let environment = shell::target_directory().join("real/pip");
    let python = environment.join("bin/python");
    if !environment.join("bin/pip").is_file() {
        let mut venv = shell::command("python3");
        venv.args(["-m", "venv"]).arg(&environment);
        shell::run_within(&mut venv, b"", DOWNLOAD_LIMIT)?.expect_success()?;
    }
    Ok(python)
}

/// Unpacks an archive with one directory in it.
fn unpack(archive: &Path, workshop: &Path) -> Result<PathBuf> {
    let source = workshop.join("unpacked");
    disk::create_directory(&source)?;
    let mut tar = shell::command("tar");
    tar.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(&source);
    shell::run_within(tar.arg("--strip-components=1"), b"", DOWNLOAD_LIMIT)?.expect_success()?;
    Ok(source)
}

/// Runs a tool of a registry, and says what to do if the registry cannot be reached.
pub(super) fn run_download(command: &mut Command) -> Result<CommandEnd> {
    let ended =
        shell::run_within(command, b"", DOWNLOAD_LIMIT).and_then(CommandEnd::expect_success);
    ended.context(
        "the registry did not deliver: check the network, a proxy or a mirror, and try again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_does_not_answer_is_reported_with_what_to_do() {
        let mut tool = shell::command("sh");
        let error = run_download(tool.args(["-c", "echo no route to host >&2; exit 7"]));
        assert_eq!(
            format!("{:#}", error.unwrap_err()),
            "the registry did not deliver: check the network, a proxy or a mirror, and try again: sh -c echo no route to host >&2; exit 7 ended with Some(7) instead of 0\n\nno route to host"
        );
    }

    #[test]
    fn a_source_with_another_checksum_is_refused() {
        let source = PublishedSource {
            registry: PackageRegistry::Npm,
            package: "a",
            version: "1.0.0",
            checksum: "sha512-x",
        };
        assert!(source.compare_checksum("sha512-x").is_ok());
        assert_eq!(
            source.compare_checksum("sha512-y").unwrap_err().to_string(),
            "`a` 1.0.0 has the checksum `sha512-y`, and the table has `sha512-x`"
        );
    }
}
