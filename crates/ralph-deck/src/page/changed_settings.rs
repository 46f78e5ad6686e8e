//! The files that a run changed and that decide what is checked: the policy, what it protects, CI, settings of tools.

use super::look_first::{LookFirst, LookFirstKind, look_first_line};
use crate::view::run_report::join_names;
use ralph_check::Language;
use ralph_check::tool_settings::is_ci_file;
use ralph_core::policy::Policy;
use ralph_core::record::PolicySeal;
use ralph_core::text;
use ralph_gates::gates::result_key::{PathGlobs, compile_globs};
use ralph_git::checkpoint::ChangeStatus;
use ralph_policy::config::POLICY_FILE_NAMES;
use ralph_proof::{ClassRules, FileClass, classify_file};

/// How many files of a group are named.
pub(super) const MAX_NAMED: usize = 3;
/// That many fit into a line, with how they changed.
const LONGEST_NAME: usize = 70;

/// A file that a run changed.
#[derive(Clone, Debug)]
pub(super) struct ChangedRunFile {
    /// Relative to the root of the repository.
    pub(super) path: String,
    /// Relative to the project, if it is in there.
    pub(super) project_path: String,
    pub(super) status: ChangeStatus,
}

/// In the order of the lines. A file is in the first group that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SettingGroup {
    Policy,
    GateScript,
    Protected,
    Ci,
    ToolSettings,
}

impl SettingGroup {
    const ALL: [Self; 5] =
        [Self::Policy, Self::GateScript, Self::Protected, Self::Ci, Self::ToolSettings];

    fn label(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::GateScript => "read by a gate",
            Self::Protected => "protected",
            Self::Ci => "CI",
            Self::ToolSettings => "settings and scripts",
        }
    }
}

/// Sorts the changed files of a run into groups, by its sealed policy or else by their names.
pub(super) struct RunFileRules<'a> {
    classes: ClassRules,
    protected: PathGlobs,
    gate_scripts: Vec<&'a str>,
}

impl<'a> RunFileRules<'a> {
    pub(super) fn new(seal: Option<&'a PolicySeal>) -> Self {
        let (classes, protected) = match seal {
            Some(seal) => (
                ClassRules::new(&seal.policy, Vec::new()),
                compile_globs(&seal.policy.protect.paths),
            ),
            None => (ClassRules::new(&Policy::default(), Vec::new()), compile_globs(&[])),
        };
        let sealed = seal.and_then(|seal| seal.files.as_ref()).into_iter().flatten();
        let gate_scripts = sealed.map(|file| file.name.as_str()).collect();
        Self { classes, protected, gate_scripts }
    }

    pub(super) fn is_test(&self, file: &ChangedRunFile) -> bool {
        classify_file(&file.project_path, &self.classes).class == FileClass::Tests
    }

    /// Whether it has tests and was there before the work.
    pub(super) fn is_old_test(&self, file: &ChangedRunFile) -> bool {
        file.status != ChangeStatus::Added && self.is_test(file)
    }

    fn group(&self, file: &ChangedRunFile) -> Option<SettingGroup> {
        let path = file.project_path.as_str();
        let is_ci = is_ci_file(path) || is_ci_file(&file.path);
        let class = || classify_file(path, &self.classes).class;
        if POLICY_FILE_NAMES.contains(&path.rsplit('/').next().unwrap_or(path)) {
            Some(SettingGroup::Policy)
        } else if self.gate_scripts.contains(&path) {
            Some(SettingGroup::GateScript)
        } else if self.protected.is_match(path) {
            Some(SettingGroup::Protected)
        } else if is_ci && Language::from_path(path) != Language::Prose {
            Some(SettingGroup::Ci)
        } else {
            (class() == FileClass::Harness).then_some(SettingGroup::ToolSettings)
        }
    }

    /// Whether a line of [`Self::changed_settings`] is about this file.
    pub(super) fn is_setting(&self, file: &ChangedRunFile) -> bool {
        self.group(file).is_some()
    }

    /// A line that names old test files that were changed, apart from those that `named` is about. Their tests can be
    /// weaker now, also if no runner names them.
    pub(super) fn changed_test_files(
        &self,
        files: &[ChangedRunFile],
        named: &[LookFirst],
    ) -> Option<LookFirst> {
        let named = named.iter().filter(|one| one.kind.is_about_tests());
        let words = named.flat_map(|one| one.text.split([' ', ',', ':', '`', '(', ')']));
        let words: Vec<_> = words.collect();
        let is_named = |file: &ChangedRunFile| {
            [&file.path, &file.project_path].iter().any(|path| words.contains(&path.as_str()))
        };
        let is_old = |file: &&ChangedRunFile| file.status != ChangeStatus::Added;
        let is_shown = |file: &&ChangedRunFile| {
            self.is_test(file) && !self.is_setting(file) && !is_named(file)
        };
        let shown: Vec<_> =
            files.iter().filter(is_old).filter(is_shown).map(describe_change).collect();
        let text = join_names(&shown, MAX_NAMED);
        (!shown.is_empty()).then(|| look_first_line(LookFirstKind::ChangedTestFile, &text, None))
    }

    /// A line for each group with changed files, so that many files of one do not hide the others.
    pub(super) fn changed_settings(&self, files: &[ChangedRunFile]) -> Vec<LookFirst> {
        let grouped: Vec<_> =
            files.iter().filter_map(|file| Some((self.group(file)?, file))).collect();
        let line = |group: SettingGroup| {
            let of_group = grouped.iter().filter(|(of, _)| *of == group);
            let names: Vec<_> = of_group.map(|(_, file)| describe_change(file)).collect();
            (!names.is_empty()).then(|| {
                let text = format!("{}: {}", group.label(), join_names(&names, MAX_NAMED));
                look_first_line(LookFirstKind::SettingsChanged, &text, None)
            })
        };
        SettingGroup::ALL.into_iter().filter_map(line).collect()
    }
}

/// `ralph.toml (modified)`
fn describe_change(file: &ChangedRunFile) -> String {
    let change = match file.status {
        ChangeStatus::Added => "added",
        ChangeStatus::Deleted => "deleted",
        ChangeStatus::Modified => "modified",
        ChangeStatus::TypeChanged => "type changed",
    };
    format!("{} ({change})", text::truncate(&text::reveal_name(file.path.as_bytes()), LONGEST_NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(path: &str, status: ChangeStatus) -> ChangedRunFile {
        let project_path = path.strip_prefix("web/").unwrap_or(path).to_string();
        ChangedRunFile { path: path.to_string(), project_path, status }
    }

    fn show(paths: &[(&str, ChangeStatus)], seal: Option<&PolicySeal>) -> String {
        let files: Vec<_> = paths.iter().map(|(path, status)| changed(path, *status)).collect();
        let lines = RunFileRules::new(seal).changed_settings(&files);
        let line = |one: &LookFirst| format!("{}: {}", one.kind.label(), one.text);
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn sealed_policy() -> PolicySeal {
        let mut policy = Policy::default();
        policy.protect.paths = vec!["schema/**".to_string()];
        policy.tests.harness = vec!["rules.txt".to_string()];
        let seal = serde_json::json!({
            "policy": policy, "project": "/p", "hash": "",
            "files": [{"name": "checks.sh", "hash": "", "gate": "tests", "why": "named"}],
        });
        serde_json::from_value(seal).unwrap()
    }

    #[test]
    fn changed_settings_have_a_line_for_each_group() {
        use ChangeStatus::{Added, Deleted, Modified, TypeChanged};
        let changes = [
            (".github/README.md", Added),
            (".github/workflows/ci.yml", Added),
            (".gitlab-ci.yml", Modified),
            ("Jenkinsfile", TypeChanged),
            ("web/.circleci/config.yml", Modified),
            ("web/checks.sh", Modified),
            ("web/jest.config.js", Deleted),
            ("web/node_modules/a/jest.config.js", Added),
            ("web/ralph.toml", Modified),
            ("web/rules.txt", Modified),
            ("web/schema/ralph.toml", Added),
            ("web/schema/table.sql", Modified),
            ("web/src/cart.js", Modified),
            ("web/tests/cart.test.js", Modified),
        ];
        let seal = sealed_policy();
        insta::assert_snapshot!(show(&changes, Some(&seal)), @r"
        checks may have changed: policy: web/ralph.toml (modified), web/schema/ralph.toml (added)
        checks may have changed: read by a gate: web/checks.sh (modified)
        checks may have changed: protected: web/schema/table.sql (modified)
        checks may have changed: CI: .github/workflows/ci.yml (added), .gitlab-ci.yml (modified), Jenkinsfile (type changed), web/.circleci/config.yml (modified)
        checks may have changed: settings and scripts: web/jest.config.js (deleted), web/rules.txt (modified)
        ");
        // Without a policy, names decide.
        insta::assert_snapshot!(show(&changes, None), @r"
        checks may have changed: policy: web/ralph.toml (modified), web/schema/ralph.toml (added)
        checks may have changed: CI: .github/workflows/ci.yml (added), .gitlab-ci.yml (modified), Jenkinsfile (type changed), web/.circleci/config.yml (modified)
        checks may have changed: settings and scripts: web/jest.config.js (deleted)
        ");
        assert_eq!(show(&[("src/cart.js", Modified)], Some(&seal)), "");
        let hostile = format!("scripts/\u{1b}[31m\u{202e}{}/check.sh", "a".repeat(500));
        insta::assert_snapshot!(show(&[(&hostile, Added)], None), @r"checks may have changed: settings and scripts: scripts/\u{1b}[31m\u{202e}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… (added)");
    }

    /// Test files that were there before are named once, whether or not a runner names their tests.
    #[test]
    fn changed_test_files_are_named_once() {
        use ChangeStatus::{Added, Deleted, Modified};
        let changes = [
            ("tests/a.sh", Modified),
            ("tests/b.sh", Deleted),
            ("tests/c.sh", Modified),
            ("tests/new.sh", Added),
            ("src/cart.js", Modified),
        ];
        let files: Vec<_> = changes.iter().map(|(path, status)| changed(path, *status)).collect();
        let named =
            [look_first_line(LookFirstKind::AmendedTest, "tests/c.sh was allowed to change", None)];
        let line = RunFileRules::new(None).changed_test_files(&files, &named).unwrap();
        insta::assert_snapshot!(
            format!("{}: {}", line.kind.label(), line.text),
            @"an old test file was changed: tests/a.sh (modified), tests/b.sh (deleted)"
        );
        assert_eq!(RunFileRules::new(None).changed_test_files(&files[2..], &named), None);
    }

    /// A proof needs new tests, whatever files the goal names.
    #[test]
    fn tests_are_distinguished_from_code() {
        let rules = RunFileRules::new(None);
        for (path, expected) in [
            ("tests/farewell.rs", true),
            ("src/farewell_test.go", true),
            ("src/lib.rs", false),
            (".github/workflows/ci.yml", false),
        ] {
            let file = changed(path, ChangeStatus::Added);
            assert_eq!(rules.is_test(&file), expected, "{path}");
        }
    }
}
