use super::*;
use crate::environment_changes::compare_records;
use ralph_sys::clock;
use ralph_sys::fs::Durability;

fn write(path: &Path, text: &str) {
    fs::create_private_dir(path.parent().unwrap()).unwrap();
    fs::replace(path, text.as_bytes(), Durability::Cached).unwrap();
}

struct SampleProject {
    directory: tempfile::TempDir,
    record: EnvironmentRecord,
}

impl SampleProject {
    /// If the record is late, the files changed after the start of the run and before they were recorded.
    fn new(is_late: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for path in ["node_modules/a/index.js", "node_modules/a/package.json", ".venv/lib/b.py"] {
            write(&directory.path().join(path), path);
        }
        let now = clock::now_ms();
        let since = if is_late { now - 60_000 } else { now + 60_000 };
        let roots = Self::roots(directory.path());
        let record =
            record_environment(&roots, directory.path(), since, &RecordLimits::SMALL).unwrap();
        Self { directory, record }
    }

    fn roots(project: &Path) -> Vec<EnvironmentRoot> {
        let root = |name: &str| EnvironmentRoot { name: name.into(), path: project.join(name) };
        vec![root(".venv"), root("node_modules")]
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn now(&self) -> EnvironmentRecord {
        let project = self.directory.path();
        list_environment(&Self::roots(project), project, &self.record).unwrap()
    }

    fn changed(&self) -> Vec<String> {
        let changed = compare_records(&self.record, &self.now());
        changed.into_iter().map(|file| file.path).collect()
    }
}

#[test]
fn caches_and_equal_files_have_not_changed() {
    let sample = SampleProject::new(false);
    let mark = sample.record.content_mark();
    write(&sample.path("node_modules/a/index.js"), "node_modules/a/index.js");
    write(&sample.path("node_modules/.cache/tool/x.js"), "x");
    write(&sample.path("node_modules/.vite/deps/x.js"), "x");
    write(&sample.path("node_modules/.package-lock.json"), "{}");
    write(&sample.path(".venv/lib/__pycache__/b.pyc"), "x");
    assert_eq!(sample.changed(), Vec::<String>::new());
    assert_eq!(sample.now().content_mark(), mark);
}

#[test]
fn an_edit_is_noticed_although_it_restores_length_and_time() {
    let sample = SampleProject::new(false);
    let file = sample.path("node_modules/a/index.js");
    let other = sample.path("other");
    write(&other, "node_modules/a/xxxxx.js");
    ralph_sys::proc::testing::run_successfully(
        Path::new("/"),
        &[OsStr::new("touch"), OsStr::new("-r"), file.as_os_str(), other.as_os_str()],
    );
    ralph_sys::proc::testing::run_successfully(
        Path::new("/"),
        &[OsStr::new("cp"), OsStr::new("-p"), other.as_os_str(), file.as_os_str()],
    );
    assert_eq!(sample.changed(), ["node_modules/a/index.js"]);
    assert_ne!(sample.now().content_mark(), sample.record.content_mark());
}

/// A link to a directory of the project is a package of the workspace. One to a file is code that Node would load
/// instead of a package.
#[test]
fn a_link_to_a_file_is_no_package_of_the_workspace() {
    let sample = SampleProject::new(false);
    write(&sample.path("own/index.js"), "x");
    for (name, target) in [("own", "../own"), ("a.js", "../own/index.js"), ("gone", "../gone")] {
        let link = sample.path("node_modules").join(name);
        std::os::unix::fs::symlink(target, link).unwrap();
    }
    assert_eq!(sample.changed(), ["node_modules/a.js", "node_modules/gone"]);
}

#[test]
fn files_that_changed_before_they_were_recorded_are_unknown() {
    let sample = SampleProject::new(true);
    assert_eq!(
        sample.changed(),
        [".venv/lib/b.py", "node_modules/a/index.js", "node_modules/a/package.json"]
    );
}

#[test]
fn a_record_can_be_read_again() {
    let sample = SampleProject::new(false);
    let bytes = serde_json::to_vec(&sample.record).unwrap();
    let read: EnvironmentRecord = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(read, sample.record);
}
