//! Checks of the repository's text that no compiler does.

mod banned_words;
mod links;
mod module_cycles;
mod names;
mod requirements;
mod size;
mod unique_names;

use crate::{disk, print, shell};
use anyhow::{Result, bail};
use std::path::Path;

/// A Rust or Markdown file that git does not ignore.
pub(crate) struct TidyFile {
    /// Relative to the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A deliberate exception from a rule.
pub(crate) struct TidyException {
    pub(crate) path: &'static str,
    pub(crate) what: &'static str,
    pub(crate) reason: &'static str,
}

pub(crate) fn run() -> Result<()> {
    let sources = tidy_files()?;
    let mut complaints = Vec::new();
    for source in &sources {
        if source.is_rust() {
            complaints.extend(size::check_size(source));
            complaints.extend(names::check_names(source));
        } else {
            complaints.extend(links::check_links(source));
        }
        complaints.extend(banned_words::check_words(source));
    }
    complaints.extend(unique_names::check_types(&sources));
    complaints.extend(unique_names::check_stems(&sources));
    complaints.extend(module_cycles::check_cycles(&sources));
    complaints.extend(requirements::check_requirements(&sources));
    if complaints.is_empty() {
        print::print_line(&format!("{} files are tidy", sources.len()));
        return Ok(());
    }
    for complaint in &complaints {
        print::print_error_line(complaint);
    }
    bail!("{} complaints", complaints.len())
}

fn tidy_files() -> Result<Vec<TidyFile>> {
    let mut git = shell::command("git");
    git.current_dir(shell::repository_root());
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
    let listed = String::from_utf8(shell::command_output(&mut git)?)?;
    let mut sources = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let file = shell::repository_root().join(path);
        if file.is_file() {
            sources.push(TidyFile { path: path.to_owned(), text: disk::read_text(&file)? });
        }
    }
    Ok(sources)
}

impl TidyFile {
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

impl TidyException {
    pub(crate) fn covers(&self, source: &TidyFile, what: &str) -> bool {
        debug_assert_ne!(self.reason, "");
        self.what == what && source.path.starts_with(self.path)
    }
}
