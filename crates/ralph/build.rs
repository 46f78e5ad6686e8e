//! Tells the linker to strip the program and to group the functions of an idle stop, and the program its commit and target.
//!
//! The commit is read from files and not asked of git: a build needs neither git nor a repository, and the same commit
//! gives the same program.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo passes its input to a build script as variables"
)]

use std::env::var;
use std::fs;
use std::path::{Path, PathBuf};

const ORDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hook.ld");

/// Names the commit of a build without a repository, for those who package ralph.
const COMMIT_VARIABLE: &str = "RALPH_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed={ORDER}");
    println!("cargo::rerun-if-env-changed={COMMIT_VARIABLE}");
    let commit = find_commit().unwrap_or_else(|| "unknown".to_string());
    println!("cargo::rustc-env={COMMIT_VARIABLE}={commit}");
    println!("cargo::rustc-env=RALPH_TARGET={}", var("TARGET").unwrap_or_default());
    let holds = |name: &str, part: &str| var(name).is_ok_and(|value| value.contains(part));
    // `strip` of the profile does not apply to a package with an optimization level of its own.
    if holds("PROFILE", "release") && holds("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
    // Where the flags of this repository are in force. `mold` reads no linker scripts.
    if holds("PROFILE", "release")
        && holds("CARGO_CFG_TARGET_FEATURE", "crt-static")
        && holds("CARGO_CFG_TARGET_OS", "linux")
        && !holds("CARGO_ENCODED_RUSTFLAGS", "mold")
    {
        println!("cargo::rustc-link-arg-bins=-Xlinker");
        println!("cargo::rustc-link-arg-bins=--script={ORDER}");
    }
}

/// The commit that is built: as the environment names it, as `cargo package` recorded it, or the head of the repository.
fn find_commit() -> Option<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recorded = || {
        let text = read_tracked(&package.join(".cargo_vcs_info.json"))?;
        let (_, rest) = text.split_once("\"sha1\"")?;
        rest.split('"').nth(1).map(str::to_string)
    };
    let found = var(COMMIT_VARIABLE).ok().or_else(recorded);
    found.or_else(|| head_commit(package.parent()?.parent()?)).filter(|commit| is_commit(commit))
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The commit that `HEAD` of the repository at `root` refers to.
fn head_commit(root: &Path) -> Option<String> {
    let directory = git_directory(root)?;
    let head = read_tracked(&directory.join("HEAD"))?;
    // Changes with every commit, even where the reference itself is packed.
    read_tracked(&directory.join("logs/HEAD"));
    let Some(name) = head.strip_prefix("ref:").map(str::trim) else {
        return Some(head.trim().to_string());
    };
    // A linked work tree keeps its references in the main one.
    let common = read_tracked(&directory.join("commondir"))
        .map_or_else(|| directory.clone(), |common| directory.join(common.trim()));
    let loose = [&directory, &common].into_iter().find_map(|at| read_tracked(&at.join(name)));
    let packed = || {
        let references = read_tracked(&common.join("packed-refs"))?;
        let lines = references.lines().filter_map(|line| line.split_once(' '));
        lines.into_iter().find(|(_, packed)| *packed == name).map(|(id, _)| id.to_string())
    };
    loose.map(|id| id.trim().to_string()).or_else(packed)
}

/// The directory of the repository. In a linked work tree, `.git` is a file that names it.
fn git_directory(root: &Path) -> Option<PathBuf> {
    let path = root.join(".git");
    match read_tracked(&path) {
        Some(link) => Some(root.join(link.strip_prefix("gitdir:")?.trim())),
        None => path.is_dir().then_some(path),
    }
}

/// Reads a file, and builds again when it changes. A missing file is not tracked: cargo would build again every time.
fn read_tracked(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text)
}
