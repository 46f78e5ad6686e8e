//! The cache key of a gate's result: a hash of everything that the result depends on. A dependency that is missing here
//! would make ralph use stale results.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ralph_core::gate::Gate;

use super::gate_tools;
use crate::environment;
use ralph_git::tree::{self, TreeEntry, WorkTreeListing};
use ralph_sys::clock;

/// Incremented when results of older versions must no longer be used.
const KEY_FORMAT: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultKey(pub [u8; 32]);

impl ResultKey {
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

/// What a key depends on besides the gate itself.
#[derive(Clone, Copy, Debug)]
pub struct ResultKeyInputs<'a> {
    /// The directory of the policy. Gates run here or below.
    pub project: &'a Path,
    /// The gate's complete environment.
    pub environment: &'a [(OsString, OsString)],
    /// Fingerprint of the files that the gate reads.
    pub content: [u8; 32],
}

pub fn compute_key(gate: &Gate, setting: &ResultKeyInputs<'_>) -> ResultKey {
    let mut hasher = blake3::Hasher::new();
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    field(&KEY_FORMAT.to_le_bytes());
    // The whole gate: even another timeout may change the result. One that cannot be encoded matches no other key.
    let no_match = |_| clock::nonce().to_le_bytes().to_vec();
    field(&serde_json::to_vec(gate).unwrap_or_else(no_match));
    field(setting.project.as_os_str().as_bytes());
    for (name, value) in environment::relevant_variables(setting.environment) {
        field(name.as_bytes());
        field(value.as_bytes());
    }
    for tool in gate_tools::tool_marks(gate, setting.project, setting.environment) {
        field(tool.as_bytes());
    }
    field(&setting.content);
    ResultKey(hasher.finalize().into())
}

/// The fingerprint of the files that the gate reads.
pub fn input_fingerprint(gate: &Gate, project: &Path, listing: &WorkTreeListing) -> [u8; 32] {
    if gate.paths.is_empty() {
        return listing.fingerprint();
    }
    tree::fingerprint_entries(matching_entries(&gate.paths, project, listing))
}

/// The fingerprint of the files together with the commit that is checked out, for a gate that asks about the commit. A
/// run must not use an answer that its agent got: the command that gave it may have run in the work tree.
pub fn commit_fingerprint(listing: &WorkTreeListing, base: Option<&str>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&listing.fingerprint());
    hasher.update(listing.head.as_deref().unwrap_or_default().as_bytes());
    if let Some(base) = base {
        hasher.update(b" asked for a run since ");
        hasher.update(base.as_bytes());
    }
    hasher.finalize().into()
}

/// The entries that match the globs, which are relative to the project.
pub fn matching_entries<'a>(
    globs: &[String],
    project: &Path,
    listing: &'a WorkTreeListing,
) -> impl Iterator<Item = &'a TreeEntry> + use<'a> {
    let globs = compile_globs(globs);
    let below = project.strip_prefix(&listing.root).unwrap_or(Path::new(""));
    let below = below.to_path_buf();
    listing.entries.iter().filter(move |entry| {
        Path::new(&entry.path).strip_prefix(&below).is_ok_and(|path| globs.is_match(path))
    })
}

/// Compiled globs. A path matches if one of them includes it and none excludes it.
#[derive(Clone, Debug)]
pub struct PathGlobs {
    included: GlobSet,
    excluded: GlobSet,
}

impl PathGlobs {
    pub fn is_match(&self, path: impl AsRef<Path>) -> bool {
        self.included.is_match(&path) && !self.excluded.is_match(&path)
    }
}

/// `*` does not cross directories, `**` does; a glob after a `!` excludes. An invalid glob matches nothing; the policy's
/// parser rejects it earlier.
pub fn compile_globs(globs: &[String]) -> PathGlobs {
    let (excluding, including): (Vec<_>, Vec<_>) =
        globs.iter().map(String::as_str).partition(|glob| glob.starts_with('!'));
    PathGlobs {
        included: compile_set(&including),
        excluded: compile_set(&excluding.into_iter().map(|glob| &glob[1..]).collect::<Vec<_>>()),
    }
}

fn compile_set(globs: &[&str]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        if let Ok(glob) = GlobBuilder::new(glob).literal_separator(true).build() {
            set.add(glob);
        }
    }
    set.build().unwrap_or_else(|_| GlobSet::empty())
}

pub(super) fn path_variable(environment: &[(OsString, OsString)]) -> &OsStr {
    environment.iter().find(|(name, _)| name == "PATH").map_or(OsStr::new(""), |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::testing::sample_gate;
    use ralph_git::tree::{FingerprintMemo, ObjectId, TreeEntryMode};
    use std::path::PathBuf;

    fn listing(files: &[(&str, u8)]) -> WorkTreeListing {
        let entries = files
            .iter()
            .map(|(path, content)| TreeEntry {
                path: path.into(),
                mode: TreeEntryMode::File,
                id: ObjectId([*content; 32]),
            })
            .collect();
        let (root, absent, memo) = (PathBuf::from("/repo"), Vec::new(), FingerprintMemo::default());
        WorkTreeListing { root, head: None, entries, absent, memo }
    }

    #[test]
    fn the_key_changes_with_everything_that_can_change_the_result() {
        let project = Path::new("/repo/web");
        let environment = [(OsString::from("PATH"), OsString::from("/nowhere"))];
        let setting = ResultKeyInputs { project, environment: &environment, content: [1; 32] };
        let types = sample_gate("types", &["tsc"]);
        let key = compute_key(&types, &setting);
        assert_eq!(compute_key(&types, &setting), key);
        let other = [(OsString::from("PATH"), OsString::from("/elsewhere"))];
        assert_ne!(compute_key(&types, &ResultKeyInputs { environment: &other, ..setting }), key);
        let [path] = environment.clone();
        let elsewhere = [path, (OsString::from("TMPDIR"), OsString::from("/tmp/host"))];
        assert_eq!(
            compute_key(&types, &ResultKeyInputs { environment: &elsewhere, ..setting }),
            key
        );
        assert_ne!(
            compute_key(&types, &ResultKeyInputs { project: Path::new("/repo"), ..setting }),
            key
        );
        assert_ne!(compute_key(&types, &ResultKeyInputs { content: [2; 32], ..setting }), key);
        assert_ne!(compute_key(&Gate { timeout_ms: 1, ..types.clone() }, &setting), key);
        assert_ne!(compute_key(&sample_gate("types", &["tsc", "-b"]), &setting), key);
    }

    #[test]
    fn a_gate_depends_on_the_files_that_its_globs_match() {
        let project = Path::new("/repo/web");
        let files = [("README.md", 1), ("web/a.ts", 2), ("web/b/c.ts", 3), ("web/d.css", 4)];
        let of = |globs: &[&str], files: &[(&str, u8)]| {
            let paths = globs.iter().map(ToString::to_string).collect();
            input_fingerprint(
                &Gate { paths, ..sample_gate("types", &["tsc"]) },
                project,
                &listing(files),
            )
        };
        let types = of(&["**/*.ts"], &files);
        for (changed, same) in [
            (&[("README.md", 9), ("web/a.ts", 2), ("web/b/c.ts", 3), ("web/d.css", 9)][..], true),
            (&[("a.ts", 1), ("web/a.ts", 2), ("web/b/c.ts", 3)], true),
            (&[("web/a.ts", 9), ("web/b/c.ts", 3)], false),
            (&[("web/a.ts", 2)], false),
            (&[("web/a.ts", 2), ("web/b/c.ts", 3), ("web/e.ts", 3)], false),
        ] {
            assert_eq!(of(&["**/*.ts"], changed) == types, same, "{changed:?}");
        }
        let top = of(&["*.ts"], &files);
        assert_eq!(of(&["*.ts"], &[("web/a.ts", 2), ("web/b/c.ts", 9)]), top);
        let own = of(&["**/*.ts", "!b/**"], &files);
        for (changed, same) in [
            (&[("web/a.ts", 2), ("web/b/c.ts", 9), ("web/b/d.ts", 1)][..], true),
            (&[("web/a.ts", 9), ("web/b/c.ts", 3)], false),
        ] {
            assert_eq!(of(&["**/*.ts", "!b/**"], changed) == own, same, "{changed:?}");
            assert_eq!(of(&["!b/**", "**/*.ts"], changed) == own, same, "{changed:?}");
        }
        let all = of(&[], &files);
        assert_ne!(
            of(&[], &[("README.md", 9), ("web/a.ts", 2), ("web/b/c.ts", 3), ("web/d.css", 4)]),
            all
        );
    }
}
