//! Whether installed packages change while a command runs that loads them. Their content before and after does not show
//! it: a process could put other files there in the meantime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_core::text;

use crate::environment_record::list_metadata;
use crate::environment_roots::EnvironmentRoot;

const MAX_NAMED: usize = 3;
const MAX_PATH_CHARS: usize = 120;

/// The metadata of all files and directories of the environments at one time.
#[derive(Debug)]
pub(crate) struct EnvironmentMarks {
    roots: Vec<EnvironmentRoot>,
    project: PathBuf,
    /// `None` if there are too many files. Then a run that ends is compared with its start by other means.
    marks: Option<BTreeMap<String, String>>,
}

impl EnvironmentMarks {
    pub(crate) fn read(roots: Vec<EnvironmentRoot>, project: &Path) -> Self {
        let marks = list_metadata(&roots, project).ok();
        Self { roots, project: project.to_owned(), marks }
    }

    /// Names the first packages that are not as they were, or have been changed and restored.
    pub(crate) fn describe_package_change(&self) -> Option<String> {
        let before = self.marks.as_ref()?;
        let Ok(now) = list_metadata(&self.roots, &self.project) else {
            return Some("installed packages can no longer be compared".to_string());
        };
        let gone = before.keys().filter(|path| !now.contains_key(*path));
        let new = now.iter().filter(|(path, mark)| before.get(*path) != Some(mark));
        let mut changed: Vec<&str> =
            gone.chain(new.map(|(path, _)| path)).map(String::as_str).collect();
        changed.sort_unstable();
        // A file says more than the directories around it.
        let changed: Vec<&str> =
            changed.iter().copied().filter(|path| !is_parent(path, &changed)).collect();
        let names =
            changed.iter().take(MAX_NAMED).map(|path| text::clean_line(path, MAX_PATH_CHARS));
        let names = names.collect::<Vec<_>>().join(", ");
        (!changed.is_empty()).then(|| format!("installed packages changed while it ran: {names}"))
    }
}

/// Whether another of the sorted paths is below this one.
fn is_parent(path: &str, sorted: &[&str]) -> bool {
    let after = sorted.partition_point(|other| *other <= path);
    sorted[after..]
        .iter()
        .take_while(|other| other.starts_with(path))
        .any(|other| Path::new(other).starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_sys::fs::{self, Durability};
    use ralph_sys::proc::testing::run_successfully;

    /// Changes that are undone are noticed too, and so is a directory that is exchanged as a whole. Caches may change.
    #[test]
    fn changes_of_packages_are_noticed_even_if_they_are_undone() {
        let changes: [(&str, &[&str], Option<&str>); 7] = [
            ("nothing", &[], None),
            ("cache", &["mkdir", ".cache/tool"], None),
            ("rewrite", &["touch", "kit/index.js"], Some("node_modules/kit/index.js")),
            ("new file", &["cp", "kit/index.js", "kit/json.js"], Some("node_modules/kit/json.js")),
            ("removal", &["rm", "kit/index.js"], Some("node_modules/kit/index.js")),
            (
                "swap of a file",
                &["sh", "-c", "mv kit/index.js x && echo 2 > kit/index.js && mv x kit/index.js"],
                Some("node_modules/kit/index.js"),
            ),
            (
                "swap of a directory",
                &["sh", "-c", "mv kit x && mv x kit"],
                Some("node_modules/kit"),
            ),
        ];
        for (what, command, expected) in changes {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("node_modules");
            fs::create_private_dir(&path.join("kit")).unwrap();
            fs::create_private_dir(&path.join(".cache")).unwrap();
            fs::replace(&path.join("kit/index.js"), b"1\n", Durability::Cached).unwrap();
            let root = EnvironmentRoot { name: "node_modules".to_string(), path: path.clone() };
            let marks = EnvironmentMarks::read(vec![root], directory.path());
            if !command.is_empty() {
                run_successfully(&path, command);
            }
            let expected =
                expected.map(|name| format!("installed packages changed while it ran: {name}"));
            assert_eq!(marks.describe_package_change(), expected, "{what}");
        }
    }
}
