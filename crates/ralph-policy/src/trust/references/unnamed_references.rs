//! Files that match a pattern, that are in directories which a command enters or adds to `PATH`, and that a program text
//! names.

use super::{MAX_LOOKUPS, ReferenceSearch, SealOrigin, candidate_words};
use crate::trust::executed_scripts::is_pattern;
use crate::trust::pattern_matches::find_matches;
use crate::trust::{TrustError, gate_search, matches_digest};
use ralph_core::sealed_file::SealReason;
use ralph_core::text::clean_line;
use ralph_sys::fs;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const MAX_DIRECTORIES: usize = 1000;
const MAX_SHOWN_CHARS: usize = 80;

impl ReferenceSearch<'_> {
    /// The directories of the project in which commands run. Each may be relative to those before.
    pub(super) fn entered_directories(
        &mut self,
        cwd: &Path,
        entered: &[String],
    ) -> Result<BTreeSet<PathBuf>, TrustError> {
        let mut bases: BTreeSet<PathBuf> = BTreeSet::new();
        bases.extend(self.resolve_inside(cwd));
        for name in entered {
            let mut found = Vec::new();
            for base in &bases.clone() {
                self.lookups += 1;
                if is_pattern(name) {
                    found.extend(self.add_matching_directories(base, name)?);
                } else {
                    found.extend(self.resolve_inside(&base.join(name)));
                }
            }
            bases.extend(found.into_iter().filter(|path| fs::is_directory(path)));
            if bases.len() > MAX_DIRECTORIES || self.lookups > MAX_LOOKUPS {
                return Err(TrustError::TooManyReferences("a command enters too many directories"));
            }
        }
        Ok(bases)
    }

    /// The directories that match a pattern. The list of their names is sealed, because a new one runs more commands.
    fn add_matching_directories(
        &mut self,
        base: &Path,
        pattern: &str,
    ) -> Result<Vec<PathBuf>, TrustError> {
        let budget = MAX_LOOKUPS.saturating_sub(self.lookups);
        let Some(found) = find_matches(base, pattern, budget)? else {
            self.add_unsealed(pattern.to_string());
            return Ok(Vec::new());
        };
        self.lookups += found.lookups;
        let inside = found.paths.iter().filter_map(|path| self.resolve_inside(path));
        let directories: Vec<PathBuf> = inside.filter(|path| fs::is_directory(path)).collect();
        let names: Vec<String> = directories.iter().map(|path| self.relative_name(path)).collect();
        let name = self.relative_name(&fs::normalize_lexically(&base.join(pattern)));
        if !names.is_empty() && !Path::new(&name).is_absolute() {
            let origin = SealOrigin { why: SealReason::Named, by: name.clone() };
            let hash = matches_digest(&names);
            self.add_reference(name, hash, &origin)?;
        }
        Ok(directories)
    }

    /// Adds the programs in a directory that the command line adds to `PATH`.
    pub(super) fn add_search_path(
        &mut self,
        cwd: &Path,
        bases: &BTreeSet<PathBuf>,
        directory: &str,
    ) -> Result<(), TrustError> {
        for base in bases.iter().map(PathBuf::as_path).chain([cwd]) {
            let path = OsStr::new(directory);
            for found in gate_search::directories_in_project(self.project, base, path) {
                let mut programs = Vec::new();
                gate_search::add_programs(self.project, &self.gate, &found, &mut programs)?;
                for program in programs {
                    let origin = SealOrigin { why: program.why, by: program.by };
                    self.add_reference(program.name, program.hash, &origin)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the files that a program text names. One that names none finds them in another way.
    pub(super) fn add_loaded_files(
        &mut self,
        bases: &BTreeSet<PathBuf>,
        text: &str,
    ) -> Result<(), TrustError> {
        let words = candidate_words(std::iter::once(text));
        let mut is_found = false;
        for (base, word) in bases.iter().flat_map(|base| words.iter().map(move |word| (base, word)))
        {
            let real = self.resolve_inside(&base.join(word));
            if real.is_some_and(|path| !fs::is_directory(&path)) {
                is_found = true;
                self.add_if_file(base, word, &SealOrigin::NAMED)?;
            }
        }
        if !is_found {
            self.add_unsealed(clean_line(text, MAX_SHOWN_CHARS));
        }
        Ok(())
    }

    /// Adds the files that match a pattern, and the list of their names: a new one can change the result of the others,
    /// because the last command of a loop decides. A manifest cannot exclude one: the agent may write it beside the file.
    pub(super) fn add_matches(&mut self, base: &Path, pattern: &str) -> Result<(), TrustError> {
        let budget = MAX_LOOKUPS.saturating_sub(self.lookups);
        let Some(found) = find_matches(base, pattern, budget)? else {
            self.add_unsealed(pattern.to_string());
            return Ok(());
        };
        self.lookups += found.lookups;
        let name = self.relative_name(&fs::normalize_lexically(&base.join(pattern)));
        let origin = SealOrigin { why: SealReason::Named, by: name.clone() };
        let mut names = Vec::new();
        for path in found.paths {
            if !fs::is_directory(&path) {
                self.add_if_file(self.project, &path.to_string_lossy(), &origin)?;
                names.push(self.relative_name(&path));
            }
        }
        if names.is_empty() || Path::new(&name).is_absolute() {
            return Ok(());
        }
        let hash = matches_digest(&names);
        self.add_reference(name, hash, &origin)
    }
}
