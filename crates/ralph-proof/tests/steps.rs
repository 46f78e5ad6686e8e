//! Proofs of a small project with real gates. Gates need a supervisor, which is the running program, so this is a
//! program of its own rather than a set of test functions.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it is a test, but has no test functions"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ralph_core::gate::{
    Gate, GateInvocation, GateOutcome, GateReport, ReportFormat, RerunPolicy, UnknownReason,
};
use ralph_core::id::RunId;
use ralph_core::policy::{GateEnvironment, Policy};
use ralph_core::proof::{CanaryResult, ProofStep};
use ralph_core::requirement::Finding;
use ralph_core::test_cases::TestCases;
use ralph_gates::gates::result_key::compile_globs;
use ralph_git::checkpoint::{Checkpoint, CheckpointRepository};
use ralph_home::paths::RalphHome;
use ralph_proof::{
    CheckoutTree, ClassRules, HunkLimits, HunkResult, HunkTrials, ProofDirectory, ProofProgress,
    ProofReport, ProofRequest, ResultReuse, StepOutcome, prove, run_in_checkout, try_hunks,
};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs::{self, Durability};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::supervisor;
use ralph_sys::proc::testing::run_successfully;

/// Runs every file in `tests` and reports it by name.
const SUITE: &str = r#"
count=0
bad=0
for test in tests/*.sh; do
  count=$((count + 1))
  if sh "$test" > /dev/null 2>&1; then echo "ok $count - $test"; else echo "not ok $count - $test"; bad=1; fi
done
echo "1..$count"
exit $bad
"#;

type ProofCase = (&'static str, fn());

const CASES: [ProofCase; 17] = [
    ("packages of the project stay as they are", packages_of_the_project_stay_as_they_are),
    ("old failures are those of the project", old_failures_are_those_of_the_project),
    ("gates run on single trees", gates_run_on_single_trees),
    ("results are cached by content", results_are_cached_by_content),
    ("an unknown result is not reused", an_unknown_result_is_not_reused),
    ("the same files run once", the_same_files_run_once),
    ("allowed tests may change", allowed_tests_may_change),
    ("long suites run only changed tests", long_suites_run_only_changed_tests),
    ("the number of old tests is expected", the_number_of_old_tests_is_expected),
    ("a test that was red passes twice", a_test_that_was_red_passes_twice),
    ("files named like tests hold in both versions", files_named_like_tests_hold_in_both_versions),
    ("ignored files take no part in long suites", ignored_files_take_no_part_in_long_suites),
    ("tests outside of the project count", tests_outside_of_the_project_count),
    ("gates may write what they write", gates_may_write_what_they_write),
    ("a checkout that disagrees is in doubt", a_checkout_that_disagrees_is_in_doubt),
    ("a checkout is not installed", a_checkout_is_not_installed),
    ("hunks are reverted one by one", hunks_are_reverted_one_by_one),
];

fn main() -> ExitCode {
    let args = Env::from_process().args();
    if args.first().is_some_and(|first| first == supervisor::SUPERVISOR_ARGUMENT) {
        return ExitCode::from(supervisor::run_supervisor());
    }
    let wanted = args.iter().filter_map(|word| word.to_str()).find(|word| !word.starts_with('-'));
    for (name, case) in CASES {
        if wanted.is_none_or(|wanted| name.contains(wanted)) {
            case();
            println!("ok {name}");
        }
    }
    ExitCode::SUCCESS
}

/// A repository with a program that adds numbers and two tests of it.
struct SmallProject {
    dir: tempfile::TempDir,
    /// Ralph's home. Inside of the project, it keeps checkouts from being mounted in the project's place.
    home: PathBuf,
    gate: Gate,
    may_change: Vec<String>,
    gate_writes: Vec<String>,
    /// The directory of the policy in the repository.
    below: &'static str,
    /// Which steps ran, as opposed to those with cached results.
    ran: Mutex<Vec<ProofStep>>,
}

impl SmallProject {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let argv = ["sh", "suite.sh"].map(ToString::to_string).to_vec();
        let mut gate = Gate::new("suite", GateInvocation::Argv(argv));
        gate.report = ReportFormat::Tap;
        let home = dir.path().join("home");
        let (may_change, gate_writes) = (Vec::new(), Vec::new());
        let ran = Mutex::default();
        let project = Self { dir, home, gate, may_change, gate_writes, below: "", ran };
        fs::create_private_dir(&project.path()).unwrap();
        project.git(&["init", "--quiet"]);
        project.write("suite.sh", SUITE);
        project.write("add.sh", "echo $(($1 + $2))\n");
        project.write("tests/adds.sh", "test \"$(sh add.sh 1 2)\" = 3\n");
        project.write("tests/zero.sh", "test \"$(sh add.sh 0 0)\" = 0\n");
        project.commit();
        project
    }

    fn path(&self) -> PathBuf {
        fs::resolve(self.dir.path()).unwrap().join("project")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_private_dir(path.parent().unwrap()).unwrap();
        fs::replace(&path, text.as_bytes(), Durability::Cached).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(&self.path().join(path)).unwrap();
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        let author = ["-c", "user.name=t", "-c", "user.email=t@t"];
        self.git(&[&author[..], &["commit", "--quiet", "-m", "x"]].concat());
    }

    fn git(&self, args: &[&str]) {
        run_successfully(&self.path(), &[&["git"], args].concat());
    }

    /// Calls `act` with a request to prove the last commit.
    fn with_request<T>(
        &self,
        tree_reports: &[GateReport],
        act: impl FnOnce(&ProofRequest<'_>) -> T,
    ) -> T {
        let deadline = Deadline::after(Duration::from_mins(1));
        let home = RalphHome::new(self.home.clone());
        let path = std::env::join_paths(["/usr/local/bin", "/usr/bin", "/bin"]).unwrap();
        let env = Env::from_pairs([("PATH", path)], None, Vec::new());
        let cancel = CancelToken::new().unwrap();
        let directory = ProofDirectory::create(&home, &env, &self.path(), &cancel).unwrap();
        let name = RunId::temporary(clock::nonce());
        let project = self.path();
        let repository =
            CheckpointRepository::open_temporary(&name, directory.root(), &project, &deadline)
                .unwrap();
        let find = |commit: &str| -> Checkpoint {
            repository.find_commit(commit, &deadline).unwrap().unwrap()
        };
        act(&ProofRequest {
            home: &home,
            env: &env,
            project: &project.join(self.below),
            repository: &repository,
            base: &find("HEAD~1"),
            candidate: &find("HEAD"),
            gates: &[&self.gate],
            environment: &GateEnvironment::default(),
            path: None,
            links: &[],
            installed: [0; 32],
            rules: &ClassRules::new(&Policy::default(), Vec::new()),
            may_change: &self.may_change,
            accepts_old_failures: false,
            tree_reports,
            base_reports: None,
            gate_writes: &self.gate_writes,
            reuse: ResultReuse::Cached,
            must_mount: false,
            directory: &directory,
            cancel: &cancel,
            watch: &|progress| {
                if progress.tests.is_none() && !progress.has_ended {
                    self.ran.lock().unwrap_or_else(PoisonError::into_inner).push(progress.step);
                }
            },
            ended: &|_| {},
        })
    }

    fn prove(&self) -> String {
        self.with_request(&[], |request| self.describe(&prove(request).unwrap()))
    }

    /// Proves a commit on which the gate passed in the project.
    fn prove_after(&self, tree: GateReport) -> String {
        self.with_request(&[tree], |request| self.describe(&prove(request).unwrap()))
    }

    fn run_at(&self, tree: CheckoutTree<'_>) -> Vec<GateReport> {
        self.with_request(&[], |request| run_in_checkout(request, tree, &|_| None).unwrap())
    }

    /// The verdict, the steps that ran, those that share the result of another, and the tests.
    fn describe(&self, report: &ProofReport) -> String {
        let mut words = vec![report.proof.verdict.name().to_string()];
        let mut ran: Vec<ProofStep> =
            self.ran.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        ran.sort_unstable();
        let ran: Vec<&str> = ran.into_iter().map(ProofStep::name).collect();
        words.push(format!("ran [{}]", ran.join(" ")));
        for step in &report.steps {
            if let StepOutcome::SameAs(other) = &step.outcome {
                words.push(format!("{} is {}", step.step.name(), other.name()));
            }
        }
        words.extend(report.proof.telling.iter().map(|one| format!("+{}", one.test)));
        words.extend(report.proof.broken.iter().map(|one| format!("-{}", one.test)));
        words.extend(report.proof.doubts.iter().cloned());
        words.join("; ")
    }
}

/// The result of the base is found by a later proof, and that of a proof by the next; that of another gate is not.
fn results_are_cached_by_content() {
    let mut project = SmallProject::new();
    project.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    project.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    project.commit();
    let measured = project.run_at(CheckoutTree::Base);
    assert_eq!(measured[0].cases.as_ref().unwrap().passed.len(), 2);
    project.ran.lock().unwrap().clear();
    assert_eq!(project.prove(), "verified; ran [now old-tests new-tests]; +tests/three.sh");
    assert_eq!(project.prove(), "verified; ran []; +tests/three.sh");
    project.gate.timeout_ms += 1;
    assert_eq!(project.prove(), "verified; ran [before now old-tests new-tests]; +tests/three.sh");
}

/// R-V1g: a gate writes to its own view or copy of the packages. One that writes to those of the project, because it knows
/// their path, proves nothing.
fn packages_of_the_project_stay_as_they_are() {
    for (is_mounted, is_absolute, expected) in [
        (true, false, "passed; node_modules/tool is old"),
        (true, true, "passed; node_modules/tool is old"),
        (false, false, "passed; node_modules/tool is old"),
        (
            false,
            true,
            "installed packages changed while it ran: node_modules/tool; node_modules/tool is new",
        ),
    ] {
        let mut project = SmallProject::new();
        project.write(".gitignore", "node_modules\n.home\n");
        let directory = if is_absolute { project.path() } else { ".".into() };
        let write = format!("echo new > {}/node_modules/tool", directory.display());
        project.write("suite.sh", &format!("{write}\necho 'ok 1 - a'\necho 1..1\n"));
        project.commit();
        project.write("add.sh", "echo 3\n");
        project.commit();
        project.write("node_modules/tool", "old\n");
        if !is_mounted {
            project.home = project.path().join(".home");
        }
        let reports = project.run_at(CheckoutTree::Base);
        let outcome = match &reports[0].outcome {
            GateOutcome::Unknown(UnknownReason::Inconclusive(why)) => why.clone(),
            other @ (GateOutcome::Passed | GateOutcome::Failed | GateOutcome::Unknown(_)) => {
                other.name().to_string()
            }
        };
        let tool = fs::read(&project.path().join("node_modules/tool"), 9).unwrap();
        let tool = String::from_utf8_lossy(tool.trim_ascii_end());
        assert_eq!(format!("{outcome}; node_modules/tool is {tool}"), expected);
    }
}

/// R-L7d: a test that fails in a checkout of the base was red before only if it failed in the project too.
fn old_failures_are_those_of_the_project() {
    let project = SmallProject::new();
    project.write("tests/old.sh", "test -e local\n");
    project.commit();
    project.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    project.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    project.commit();
    let report = |outcome: GateOutcome, failed: &[&str]| {
        let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
        let findings = failed.iter().map(|test| Finding::new(test.clone())).collect();
        let cases = Some(TestCases { failed, is_complete: true, ..TestCases::default() });
        GateReport { cases, findings, ..GateReport::new("suite", outcome, 0) }
    };
    for (in_project, expected) in [
        (Some(vec![report(GateOutcome::Failed, &["tests/old.sh"])]), "verified"),
        (Some(vec![report(GateOutcome::Failed, &["tests/zero.sh"])]), "failed"),
        (Some(vec![report(GateOutcome::Passed, &[])]), "failed"),
        (Some(Vec::new()), "failed"),
        (None, "green"),
    ] {
        let verdict = project.with_request(&[], |request| {
            let base_reports = in_project.as_deref();
            let request = ProofRequest { accepts_old_failures: true, base_reports, ..*request };
            prove(&request).unwrap().proof.verdict
        });
        assert_eq!(verdict.name(), expected, "{in_project:?}");
    }
}

/// The three trees that gates run on outside of a proof.
fn gates_run_on_single_trees() {
    let project = SmallProject::new();
    project.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    project.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    project.write("tests/zero.sh", "test \"$(sh add.sh 5 5)\" = 0\n");
    project.commit();
    let names = |tests: &[String]| {
        let stems = tests.iter().map(|test| test.trim_start_matches("tests/"));
        stems.collect::<Vec<_>>().join(" ")
    };
    let run = |tree: CheckoutTree<'_>| {
        let reports = project.run_at(tree);
        let cases = reports[0].cases.as_ref().unwrap();
        format!("passed: {}; failed: {}", names(&cases.passed), names(&cases.failed))
    };
    let protected = |glob: &str| compile_globs(&[glob.to_string()]);
    assert_eq!(run(CheckoutTree::Base), "passed: adds.sh zero.sh; failed: ");
    assert_eq!(run(CheckoutTree::NewTests), "passed: adds.sh; failed: three.sh zero.sh");
    for (glob, expected) in [
        ("none", "passed: adds.sh three.sh; failed: zero.sh"),
        ("tests/z*", "passed: adds.sh three.sh zero.sh; failed: "),
        ("tests/*", "passed: adds.sh zero.sh; failed: "),
        ("add.sh", "passed: adds.sh; failed: three.sh zero.sh"),
    ] {
        let protected = protected(glob);
        assert_eq!(run(CheckoutTree::Candidate { protected: &protected }), expected, "{glob}");
    }
}

fn an_unknown_result_is_not_reused() {
    let project = SmallProject::new();
    project.write("tests/three.sh", "kill -9 $PPID\n");
    project.commit();
    let expected = project.prove();
    assert!(expected.starts_with("failed; ran [now]; suite gave no result: "), "{expected}");
    assert_eq!(project.prove(), expected);
}

/// Without changed tests the old tests on the new code are the new tests on the new code. If these passed in the
/// project, one run is enough for both.
fn the_same_files_run_once() {
    let project = SmallProject::new();
    project.write("add.sh", "# Adds.\necho $(($1 + $2))\n");
    project.commit();
    let tree = passed_report(&["tests/adds.sh", "tests/zero.sh"]);
    assert_eq!(
        project.prove_after(tree),
        "green; ran [before now]; old-tests is now; new-tests is before"
    );
}

/// A person who allowed a test to change does not have to review it. Others may not change with it.
fn allowed_tests_may_change() {
    let mut project = SmallProject::new();
    project.write("add.sh", "echo $(($1 + $2 + 1))\n");
    project.write("tests/adds.sh", "test \"$(sh add.sh 1 2)\" = 4\n");
    project.remove("tests/zero.sh");
    project.commit();
    assert_eq!(
        project.prove(),
        "needs_review; ran [before now old-tests old-tests new-tests]; +tests/adds.sh; -tests/adds.sh; -tests/zero.sh"
    );
    project.may_change = vec!["tests/adds.sh".to_string()];
    assert_eq!(
        project.prove(),
        "needs_review; ran [before old-tests old-tests]; +tests/adds.sh; -tests/zero.sh"
    );
    project.may_change = vec!["tests/*.sh".to_string()];
    assert_eq!(project.prove(), "verified; ran [old-tests]; new-tests is before; +tests/adds.sh");
}

/// A stand-in for a runner that is given files or a directory. It knows no real tests of that runner, so that the canary,
/// which is one, fails.
const FAKE_BATS: &str = r#"#!/bin/sh
[ "$*" = tests ] && set -- tests/*.bats
count=0
bad=0
for test; do
  count=$((count + 1))
  if sh "$test" > /dev/null 2>&1; then echo "ok $count - $test"; else echo "not ok $count - $test"; bad=1; fi
done
echo "1..$count"
exit $bad
"#;

/// R-V1a, R-V1b: tests in files that did not change count as in the project, and a weakened test is still found.
fn long_suites_run_only_changed_tests() {
    for (weak, expected) in [
        (false, "verified; ran [before now old-tests new-tests]; held 2; +tests/b.bats"),
        (
            true,
            "needs_review; ran [before now old-tests old-tests new-tests]; held 1; +tests/b.bats; -tests/b.bats",
        ),
    ] {
        let mut project = SmallProject::new();
        project.write("bats", FAKE_BATS);
        run_successfully(&project.path(), &["chmod", "755", "bats"]);
        project.write("tests/a.bats", "test \"$(sh add.sh 1 2)\" = 3\n");
        project.write("tests/b.bats", "test \"$(sh add.sh 0 0)\" = 0\n");
        project.commit();
        let sum = if weak {
            "[ \"$1\" = 0 ] && echo 9 || echo $(($1 + $2))"
        } else {
            "echo $(($1 + $2 + ${3:-0}))"
        };
        project.write("add.sh", &format!("{sum}\n"));
        let test = if weak {
            "test \"$(sh add.sh 0 0)\" = 9\n"
        } else {
            "test \"$(sh add.sh 0 0 1)\" = 1\n"
        };
        project.write("tests/b.bats", test);
        project.commit();
        let argv = ["./bats", "tests"].map(ToString::to_string).to_vec();
        project.gate.command = GateInvocation::Argv(argv);
        let tree = passed_report(&["tests/a.bats", "tests/b.bats"]);
        let (mut selected, mut whole) = (Vec::new(), Vec::new());
        let shown = project.with_request(&[GateReport { took_ms: 11_000, ..tree }], |request| {
            let report = prove(request).unwrap();
            for step in &report.steps {
                let StepOutcome::Ran { reports, canaries, .. } = &step.outcome else { continue };
                let cases = reports[0].cases.as_ref().unwrap();
                let count = cases.passed.len() + cases.failed.len();
                let list = if count == 1 { &mut selected } else { &mut whole };
                list.push(step.step);
                let expected = match step.step {
                    ProofStep::OldTests => CanaryResult::Failed,
                    ProofStep::Before
                    | ProofStep::Now
                    | ProofStep::NewTests
                    | ProofStep::OldSettings => CanaryResult::NotPossible,
                };
                assert_eq!(canaries[0], expected);
            }
            let held = format!("]; held {}", report.proof.held);
            project.describe(&report).replacen(']', &held, 1)
        });
        assert_eq!(shown, expected);
        assert_eq!(selected, [ProofStep::Now, ProofStep::OldTests, ProofStep::NewTests]);
        assert_eq!(whole, [ProofStep::Before]);
    }
}

/// Without a measured base, the old tests are expected to be as many as the new ones. The suite waits for the first
/// report of its progress, at most as long as its timeout.
fn the_number_of_old_tests_is_expected() {
    let mut project = SmallProject::new();
    let seen = project.dir.path().join("seen");
    let wait = format!(
        "  if ! test -e tests/three.sh && grep -q sum add.sh; then until test -e '{}'; do sleep 0.05; done; fi\ndone\n",
        seen.display()
    );
    project.write("suite.sh", &SUITE.replacen("done\n", &wait, 1));
    project.commit();
    project.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    project.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    project.commit();
    project.gate.timeout_ms = 60_000;
    let expected = Mutex::new(None);
    project.with_request(&[], |request| {
        let watch = |progress: ProofProgress| {
            if let (ProofStep::OldTests, Some(tests)) = (progress.step, progress.tests) {
                *expected.lock().unwrap() = tests.of;
                fs::replace(&seen, b"", Durability::Cached).unwrap();
            }
        };
        let request = ProofRequest { reuse: ResultReuse::Never, watch: &watch, ..*request };
        assert_eq!(prove(&request).unwrap().proof.verdict.name(), "verified");
    });
    assert_eq!(expected.into_inner().unwrap(), Some(3));
}

/// R-V1a: a test that was not selected ran once on the new code. If nothing else notices the change, it runs again.
fn a_test_that_was_red_passes_twice() {
    let lucky = "`tests/a.bats` fails without the change, passes in the project and does not pass in a clean checkout of it";
    for (sum, test, expected) in [
        (
            "echo $(($1 + $2))",
            "true",
            "verified; ran [before now now old-tests new-tests]; +tests/a.bats".to_string(),
        ),
        (
            "echo $(($1 - $2))",
            "true",
            format!("green; ran [before now now old-tests new-tests]; {lucky}"),
        ),
        (
            "echo $(($1 - $2)); touch done",
            "sh add.sh 1 1 && test -e done",
            "verified; ran [before now old-tests new-tests]; +tests/a.bats; +tests/b.bats"
                .to_string(),
        ),
    ] {
        let mut project = SmallProject::new();
        project.write("bats", FAKE_BATS);
        run_successfully(&project.path(), &["chmod", "755", "bats"]);
        project.write("add.sh", "echo broken\n");
        project.write("tests/a.bats", "test \"$(sh add.sh 1 2)\" = 3\n");
        project.write("tests/b.bats", "true\n");
        project.commit();
        project.write("add.sh", &format!("{sum}\n"));
        project.write("tests/b.bats", &format!("{test}\n# changed\n"));
        project.commit();
        let argv = ["./bats", "tests"].map(ToString::to_string).to_vec();
        project.gate.command = GateInvocation::Argv(argv);
        project.gate.rerun = RerunPolicy::Never;
        let tree = passed_report(&["tests/a.bats", "tests/b.bats"]);
        assert_eq!(project.prove_after(GateReport { took_ms: 11_000, ..tree }), expected);
    }
}

/// R-V1b: a file that is named like a test and contains none may be a helper with the expected results, or code. Old tests
/// have to pass with both versions of it, unless a person allowed it to change.
fn files_named_like_tests_hold_in_both_versions() {
    let unclear = "old tests fail with the old version of sums-test.js, which may be code or a helper of tests";
    let verified = "verified; ran [before now old-tests old-tests new-tests]; +tests/three.sh";
    for (sum, sums, allowed, expected) in [
        ("$(($1 + $2 + ${3:-0}))", "3 # of 1 and 2", "", verified.to_string()),
        (
            "$(($1 + $2 + ${3:-0} + ($1 == 1 && !${3:-0})))",
            "4",
            "",
            format!(
                "green; ran [before now old-tests old-tests new-tests]; +tests/three.sh; {unclear}"
            ),
        ),
        (
            "$(($1 + $2 + ${3:-0} + ($1 == 1 && !${3:-0})))",
            "4",
            "sums-test.js",
            "verified; ran [before now old-tests new-tests]; +tests/three.sh".to_string(),
        ),
    ] {
        let mut project = SmallProject::new();
        project.write("sums-test.js", "3\n");
        project.write(
            "tests/adds.sh",
            "read -r sum rest < sums-test.js; test \"$(sh add.sh 1 2)\" = $sum\n",
        );
        project.commit();
        project.write("sums-test.js", &format!("{sums}\n"));
        project.write("add.sh", &format!("echo {sum}\n"));
        project.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
        project.commit();
        project.may_change = vec![allowed.to_string()];
        assert_eq!(project.prove(), expected, "{sums}");
    }
}

/// R-V1f: the tests of a long suite that did not change ran in the project only. If ignored files changed since the base,
/// all of them run once in a checkout, too.
fn ignored_files_take_no_part_in_long_suites() {
    let hour_ms = 3_600_000;
    for (file, base_ms, code, expected) in [
        (None, 0, "echo $(($1 + $2 + ${3:-0}))", "verified; ran [before now old-tests new-tests]"),
        (
            Some("__pycache__/a.pyc"),
            0,
            "echo $(($1 + $2 + ${3:-0}))",
            "verified; ran [before now old-tests new-tests]",
        ),
        (
            Some("local/a.log"),
            clock::now_ms() + hour_ms,
            "echo $(($1 + $2 + ${3:-0}))",
            "verified; ran [before now old-tests new-tests]",
        ),
        (
            Some("local/a.log"),
            clock::now_ms() - hour_ms,
            "echo $(($1 + $2 + ${3:-0}))",
            "verified; ran [before now now old-tests new-tests]",
        ),
        (
            Some("local/add.sh"),
            clock::now_ms() - hour_ms,
            "test $1 = 1 && . ./local/add.sh; echo $(($1 + $2 + ${3:-0}))",
            "green; ran [before now now old-tests new-tests]; +tests/b.bats; `tests/a.bats` passes in the project and fails in a clean checkout of it",
        ),
    ] {
        let mut project = SmallProject::new();
        project.write("bats", FAKE_BATS);
        run_successfully(&project.path(), &["chmod", "755", "bats"]);
        project.write(".gitignore", "local\n__pycache__\n");
        project.write("tests/a.bats", "test \"$(sh add.sh 1 2)\" = 3\n");
        project.write("tests/b.bats", "test \"$(sh add.sh 0 0)\" = 0\n");
        project.commit();
        project.write("add.sh", &format!("{code}\n"));
        project.write("tests/b.bats", "test \"$(sh add.sh 0 0 1)\" = 1\n");
        project.commit();
        if let Some(file) = file {
            project.write(file, ":\n");
        }
        project.gate.command = GateInvocation::Argv(vec!["./bats".into(), "tests".into()]);
        project.gate.rerun = RerunPolicy::Never;
        let tree = passed_report(&["tests/a.bats", "tests/b.bats"]);
        let shown = project.with_request(&[GateReport { took_ms: 11_000, ..tree }], |request| {
            let base = Checkpoint { at_ms: base_ms, ..request.base.clone() };
            project.describe(&prove(&ProofRequest { base: &base, ..*request }).unwrap())
        });
        let shown = shown.strip_suffix("; +tests/b.bats").unwrap_or(&shown);
        assert_eq!(shown, expected, "{file:?}");
    }
}

/// R-V1a, R-V1b: the project is a directory of the work tree, and its gate runs tests and reads settings outside of it.
fn tests_outside_of_the_project_count() {
    let suite = SUITE.replace("tests/*.sh", "../tests/*.sh ../qa/*.sh");
    let settings = "[tool.pytest.ini_options]\naddopts = \"-q\"\n";
    let broken = "echo $(($1 + $2 + ${3:-0} + ($1 == 1 && !${3:-0})))\n";
    let works = "echo $(($1 + $2 + ${3:-0}))\n";
    for (code, path, text, expected) in [
        (works, "tests/note.md", "Adds.\n".to_string(), "verified; +../tests/three.sh"),
        (
            broken,
            "tests/adds.sh",
            "true\n".to_string(),
            "needs_review; +../tests/three.sh; -../tests/adds.sh",
        ),
        (
            broken,
            "suite.sh",
            suite.replace("if sh", "if true sh"),
            "needs_review; -../tests/adds.sh; `suite` fails with the settings of the base (suite.sh), even without the tests that fail with them: ../tests/adds.sh",
        ),
        (
            works,
            "qa/adds.sh",
            "true\n".to_string(),
            "green; +../tests/three.sh; tests that count as code were changed: ../qa/adds.sh; `[tests] paths` in ralph.toml can name them",
        ),
        (
            works,
            "pom.xml",
            "<skipTests/>\n".to_string(),
            "green; +../tests/three.sh; tests cannot be separated from code in ../pom.xml",
        ),
        (works, "pyproject.toml", settings.replace("-q", "-v"), "verified; +../tests/three.sh"),
    ] {
        let mut project = SmallProject::new();
        project.below = "app";
        for path in ["suite.sh", "add.sh", "tests/adds.sh", "tests/zero.sh"] {
            project.remove(path);
        }
        project.write("app/add.sh", "echo $(($1 + $2))\n");
        project.write("suite.sh", &suite);
        project.write("pom.xml", "<a/>\n");
        project.write("pyproject.toml", settings);
        project.write("tests/adds.sh", "test \"$(sh add.sh 1 2)\" = 3\n");
        project.write("qa/adds.sh", "test \"$(sh add.sh 2 2)\" = 4\n");
        project.commit();
        project.write("app/add.sh", code);
        project.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
        project.write(path, &text);
        project.commit();
        project.gate.command = GateInvocation::Argv(vec!["sh".into(), "../suite.sh".into()]);
        let shown = project.prove();
        let without_steps = shown.split("; ").filter(|word| !word.starts_with("ran ["));
        assert_eq!(without_steps.collect::<Vec<_>>().join("; "), expected, "{path}");
    }
}

/// R-V1e: a lock file that the gate brings up to date is no reason for doubt, nor is a file that it writes in the project
/// too, unless that is a test or may contain one.
fn gates_may_write_what_they_write() {
    for (file, written, expected) in [
        ("Cargo.lock", &[][..], "verified"),
        ("data/sizes.txt", &["data/sizes.txt"], "verified"),
        ("data/sizes.txt", &[], "failed"),
        ("tests/sizes.txt", &["tests/sizes.txt"], "failed"),
        ("sizes.py", &["sizes.py"], "failed"),
        ("package.json", &["package.json"], "failed"),
    ] {
        let mut project = SmallProject::new();
        project.write(file, "old\n");
        project.write("suite.sh", &format!("wc -c < add.sh > {file}\n{SUITE}"));
        project.commit();
        project.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
        project.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
        project.commit();
        project.gate_writes = written.iter().map(ToString::to_string).collect();
        let shown = project.prove();
        assert_eq!(shown.split(';').next(), Some(expected), "{file}: {shown}");
    }
}

/// R-V1f: a gate that passes in the project and fails in a checkout proves nothing, and is no failure of the change.
fn a_checkout_that_disagrees_is_in_doubt() {
    let project = SmallProject::new();
    project.write("tests/local.sh", "test -e ignored.txt\n");
    project.commit();
    let tree = passed_report(&["tests/adds.sh", "tests/local.sh", "tests/zero.sh"]);
    assert_eq!(
        project.prove_after(tree),
        "green; ran [now]; `suite` passes in the project and fails in a clean checkout of it: not ok"
    );
    assert_eq!(project.prove(), "failed; ran []; `suite` fails on the change itself");
}

/// In a long suite the changed tests run first, and all others only if these pass. Results are cached, so a second trial
/// runs nothing. An executable file stays executable, which its test needs.
fn hunks_are_reverted_one_by_one() {
    let mut project = SmallProject::new();
    let counter = project.dir.path().join("runs");
    let count = format!("#!/bin/sh\necho \"$*\" >> '{}'\n", counter.display());
    project.write("bats", &FAKE_BATS.replacen("#!/bin/sh\n", &count, 1));
    let lines = "one=$1\ntwo=$2\n: ${one:=0}\n: ${two:=0}\nthree=0\necho $((one + two + three))\n";
    project.write("add", &format!("#!/bin/sh\n{lines}"));
    run_successfully(&project.path(), &["chmod", "755", "bats", "add"]);
    project.write("tests/a.bats", "test \"$(./add 1 2)\" = 3 && test ! -e gone\n");
    project.write("gone", "");
    project.write("tests/b.bats", "test \"$(./add 0 0)\" = 0\n");
    project.commit();
    project.remove("gone");
    let usage = "#!/bin/sh\ntest \"$1\" != --help || echo usage\n";
    project.write("add", &format!("{usage}{}", lines.replace("three=0", "three=${3:-0}")));
    run_successfully(&project.path(), &["chmod", "755", "add"]);
    project.write("tests/b.bats", "test \"$(./add 0 0 1)\" = 1\n");
    project.write("unused", "a\nb\nc\n");
    project.write("notes.md", "Adds three.\n");
    project.commit();
    project.gate.command = GateInvocation::Argv(vec!["./bats".to_string(), "tests".to_string()]);
    project.gate.rerun = RerunPolicy::Never;
    let try_all = |limits: HunkLimits| {
        project.with_request(&[], |request| {
            let mut report = prove(request).unwrap();
            assert_eq!(report.proof.verdict.name(), "verified");
            for step in &mut report.steps {
                if let StepOutcome::Ran { reports, .. } = &mut step.outcome {
                    reports[0].took_ms = 11_000;
                }
            }
            fs::replace(&counter, b"", Durability::Cached).unwrap();
            let trials = try_hunks(request, &report, limits, &|_| {}).unwrap();
            let ran = String::from_utf8(fs::read(&counter, 10_000).unwrap()).unwrap();
            (describe_trials(&trials), ran)
        })
    };
    let whole_time = HunkLimits { count: 10, time: Duration::from_mins(5) };
    let all = "4 found, 1 trivial; add:2 unnoticed; add:7 noticed; gone noticed; unused unnoticed";
    let selected = "tests/b.bats\ntests\n";
    // By size: `unused`, both hunks of `add`, `gone`.
    let expected = format!("{selected}tests/b.bats\n{selected}{selected}");
    assert_eq!(
        try_all(HunkLimits { count: 10, time: Duration::ZERO }).0,
        "4 found, 1 trivial; out of time"
    );
    let (first, ran) = try_all(whole_time);
    assert_eq!(first, all);
    assert_eq!(sorted_lines(&ran), sorted_lines(&expected));
    assert_eq!(try_all(whole_time), (all.to_string(), String::new()));
    let (one, _) = try_all(HunkLimits { count: 1, ..whole_time });
    assert_eq!(one, "4 found, 1 trivial; unused unnoticed");
}

fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn describe_trials(trials: &HunkTrials) -> String {
    let mut words = vec![format!("{} found, {} trivial", trials.found, trials.trivial)];
    for tried in &trials.tried {
        let line = tried.hunk.lines.map_or(String::new(), |(first, _)| format!(":{first}"));
        let result = match &tried.result {
            HunkResult::Noticed => "noticed",
            HunkResult::Unnoticed => "unnoticed",
            HunkResult::Unknown(why) => why,
        };
        words.push(format!("{}{line} {result}", tried.hunk.path));
    }
    if trials.out_of_time {
        words.push("out of time".to_string());
    }
    words.join("; ")
}

/// `uv run` would install the code of a checkout into the virtual environment of the project, which is linked there.
fn a_checkout_is_not_installed() {
    let project = SmallProject::new();
    project.write("tests/installs.sh", "test \"$UV_NO_SYNC\" = 1\n");
    project.commit();
    assert_eq!(project.prove(), "green; ran [before now old-tests]");
}

/// The report of a gate that passed in the project.
fn passed_report(names: &[&str]) -> GateReport {
    let passed = names.iter().map(ToString::to_string).collect();
    let cases = TestCases { passed, is_complete: true, ..TestCases::default() };
    GateReport { cases: Some(cases), ..GateReport::new("suite", GateOutcome::Passed, 0) }
}
