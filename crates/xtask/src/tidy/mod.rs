//! Checks of the repository's text that no compiler does.

mod links;
mod names;
mod requirements;
mod size;
mod words;

use crate::{disk, say, shell};
use anyhow::{Result, bail};
use std::path::Path;

/// A Rust or Markdown file that git does not ignore.
pub(crate) struct Source {
    /// Relative to the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A deliberate exception from a rule.
pub(crate) struct Except {
    pub(crate) path: &'static str,
    pub(crate) what: &'static str,
    pub(crate) reason: &'static str,
}

pub(crate) fn run() -> Result<()> {
    let sources = sources()?;
    let mut complaints = Vec::new();
    for source in &sources {
        if source.is_rust() {
            complaints.extend(size::check(source));
            complaints.extend(names::check(source));
        } else {
            complaints.extend(links::check(source));
        }
        complaints.extend(words::check(source));
    }
    complaints.extend(requirements::check(&sources));
    if complaints.is_empty() {
        say::out(&format!("{} files are tidy", sources.len()));
        return Ok(());
    }
    for complaint in &complaints {
        say::err(complaint);
    }
    bail!("{} complaints", complaints.len())
}

fn sources() -> Result<Vec<Source>> {
    let mut git = shell::command("git");
    git.current_dir(shell::root());
    git.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "*.rs",
        "*.md",
    ]);
    let listed = String::from_utf8(shell::output(&mut git)?)?;
    let mut sources = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let file = shell::root().join(path);
        if file.is_file() {
            sources.push(Source { path: path.to_owned(), text: disk::text(&file)? });
        }
    }
    Ok(sources)
}

impl Source {
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    /// Whether the whole file is test code, judged by its path.
    pub(crate) fn is_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"))
    }

    /// Splits the file into code and tests.
    pub(crate) fn split(&self) -> (&str, &str) {
        match self.text.find("#[cfg(test)]\nmod ") {
            _ if self.is_test() => ("", &self.text),
            Some(at) => self.text.split_at(at),
            None => (&self.text, ""),
        }
    }
}

impl Except {
    pub(crate) fn covers(&self, source: &Source, what: &str) -> bool {
        debug_assert!(!self.reason.is_empty());
        self.what == what && source.path.starts_with(self.path)
    }
}
