//! The generated workflows, played: their steps run in a fresh clone, with a home of their own and `ralph` on `PATH`.

use crate::prove::SUITE;
use crate::sandbox::{CommandOutcome, Sandbox, run_command, write_file};
use insta::assert_snapshot;
use ralph_policy::detect::yaml::{DataNode, parse_yaml};
use regex::Regex;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const POLICY: &str = r#"
[[gate]]
name = "suite"
run = ["sh", "suite.sh"]
report = "tap"

[[gate]]
name = "lint"
run = ["sh", "lint.sh"]
report = "sarif"
proof = false

[[gate]]
name = "scan"
run = ["sh", "scan.sh"]
proof = false
"#;

const LINT: &str = "test ! -e found.json || { cat found.json; exit 1; }\necho '{\"version\":\"2.1.0\",\"runs\":[{\"results\":[]}]}'\n";
const SCAN: &str = "test ! -e broken || exec ./missing-program\n";

/// What a hostile tool reports: commands of GitHub, markup, controls, and a file outside of the project.
fn hostile_report() -> String {
    let finding = |message: &str, file: Option<&str>| {
        let at = |file| json!([{ "physicalLocation": { "artifactLocation": { "uri": file }, "region": { "startLine": 3 } } }]);
        let locations = file.map_or_else(|| json!([]), at);
        json!({ "ruleId": "x::y", "level": "error", "message": { "text": message }, "locations": locations })
    };
    let results = [
        finding("::stop-commands::x", None),
        finding("##[error]forged", None),
        finding(
            "<b>x</b> | `y` %0A::error::z \u{1b}[31m\u{202e}@team\n::add-mask::w",
            Some("src/a,b.sh"),
        ),
        finding("]]></failure><script>", Some("../shared/c.sh")),
    ];
    json!({ "version": "2.1.0", "runs": [{ "results": results }] }).to_string()
}

/// A repository with a project in `directory` and the workflow of one provider on `main`. The branch `work` has a change
/// with a test that fails without it.
struct WorkflowScene {
    sandbox: Sandbox,
    directory: &'static str,
    workflow: String,
}

impl WorkflowScene {
    fn new(provider: &str, directory: &'static str) -> Self {
        let sandbox = Sandbox::new();
        let scene = Self { sandbox, directory, workflow: String::new() };
        scene.write("ralph.toml", POLICY);
        scene.write("suite.sh", SUITE);
        scene.write("lint.sh", LINT);
        scene.write("scan.sh", SCAN);
        scene.write("add.sh", "echo $(($1 + $2))\n");
        scene.write("tests/adds.sh", "test \"$(sh add.sh 1 2)\" = 3\n");
        let project = scene.sandbox.project().join(directory);
        let project = project.to_str().unwrap();
        let written =
            scene.sandbox.ralph(["ci", "generate", provider, "--write", "--project", project]);
        assert_eq!(written.code, Some(0), "{written}");
        let file = match provider {
            "github" => ".github/workflows/ralph.yml",
            _ => ".gitlab-ci.yml",
        };
        let workflow = fs::read_to_string(scene.sandbox.project().join(file)).unwrap();
        scene.sandbox.commit();
        scene.sandbox.git(&["checkout", "--quiet", "-b", "work"]);
        scene.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
        scene.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
        scene.sandbox.commit();
        Self { workflow, ..scene }
    }

    fn write(&self, path: &str, text: &str) {
        write_file(&self.sandbox.project().join(self.directory).join(path), text);
    }

    /// Plays the workflow for the branch `work`, as for a pull request, in a fresh clone.
    fn play(&self) -> PlayedJob {
        let place = tempfile::tempdir_in(self.sandbox.root()).unwrap();
        let place = place.keep();
        let job = PlayedJob {
            clone: place.join("clone"),
            home: place.join("home"),
            shown: String::new(),
        };
        fs::create_dir(&job.home).unwrap();
        self.sandbox.git(&["clone", "--quiet", ".", job.clone.to_str().unwrap()]);
        let workflow = parse_yaml(&self.workflow).unwrap();
        if let Some(gates) = workflow.get("jobs").and_then(|jobs| jobs.get("gates")) {
            job.play_github(&workflow, gates)
        } else {
            job.play_gitlab(workflow.get("ralph web").unwrap())
        }
    }
}

/// A job that ended, and what it left.
struct PlayedJob {
    clone: PathBuf,
    home: PathBuf,
    shown: String,
}

impl PlayedJob {
    fn command(&self, line: &str, directory: &Path) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_ralph")).parent().unwrap();
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", line]);
        command.env_clear().current_dir(directory);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        command.env("HOME", &self.home).env("TZ", "UTC");
        command
    }

    /// Every step but the installation. A failed step ends the job.
    fn play_github(mut self, workflow: &DataNode, job: &DataNode) -> Self {
        let summary = self.home.join("summary.md");
        for step in job.get("steps").unwrap().items() {
            let Some(line) = step.get("run").and_then(DataNode::text) else { continue };
            let name = step.get("name").and_then(DataNode::text).unwrap();
            if name == "Install ralph" {
                continue;
            }
            let below = step.get("working-directory").and_then(DataNode::text).unwrap_or_default();
            let mut command = self.command(line, &self.clone.join(below));
            command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary);
            for (name, value) in [workflow, step]
                .into_iter()
                .filter_map(|one| one.get("env"))
                .flat_map(DataNode::entries)
            {
                let value = value.text().unwrap().replace("${{ github.base_ref }}", "main");
                command.env(name, value);
            }
            let ended = run_command(&mut command, b"");
            self.show(name, &ended);
            if ended.code != Some(0) {
                break;
            }
        }
        let page = fs::read_to_string(summary).unwrap_or_default();
        self.shown.push_str(&format!("== summary\n{page}"));
        self
    }

    /// The script as one shell script, then the script after the job.
    fn play_gitlab(mut self, job: &DataNode) -> Self {
        let mut git = self.command("git rev-parse origin/main", &self.clone);
        let base = run_command(&mut git, b"").stdout;
        for part in ["script", "after_script"] {
            let lines = job.get(part).unwrap().texts().join("\n");
            let mut command = self.command(&lines, &self.clone);
            command.env("GITLAB_CI", "true").env("CI_MERGE_REQUEST_DIFF_BASE_SHA", base.trim());
            for (name, value) in job.get("variables").unwrap().entries() {
                command.env(name, value.text().unwrap());
            }
            let ended = run_command(&mut command, b"");
            self.show(part, &ended);
        }
        let reports = job.get("artifacts").and_then(|artifacts| artifacts.get("reports"));
        let report = reports.and_then(|reports| reports.get("junit")?.text()).unwrap();
        let page = fs::read_to_string(self.clone.join(report)).unwrap();
        self.shown.push_str(&format!("== {report}\n{page}"));
        self
    }

    /// Progress is left out: its order varies.
    fn show(&mut self, name: &str, ended: &CommandOutcome) {
        let errors =
            ended.stderr.lines().filter(|line| line.trim_start().starts_with(['e', 'h', 'n']));
        let code = ended.code.unwrap();
        self.shown.push_str(&format!("== {name}: exit {code}\n{}", ended.stdout));
        for line in errors {
            self.shown.push_str(&format!("{line}\n"));
        }
    }

    fn text(&self) -> String {
        let mut text = self.shown.clone();
        for (pattern, replacement) in [
            (r" +\d+(\.\d+)? m?s\b", " [time]"),
            (r#"time="[0-9.]+""#, r#"time="[time]""#),
            (r"\b[0-9a-f]{64}\b", "[hash]"),
            (r"-[0-9a-f]{12}\.log", "-[key].log"),
        ] {
            text = Regex::new(pattern).unwrap().replace_all(&text, replacement).into_owned();
        }
        text.replace(self.home.to_str().unwrap(), "$HOME")
    }
}

/// R-L7c: the workflow of GitHub runs the gates of the approved policy alone, and proves the change. Findings become
/// annotations at files of the repository, and the results are in the summary.
#[test]
fn the_workflow_of_github_runs_as_it_is_written() {
    let scene = WorkflowScene::new("github", "web app");
    assert_snapshot!(scene.play().text(), @"
    == Run the gates: exit 0
    correctness
      ✓ suite [time]
      ✓ lint [time]
      ✓ scan [time]

    3 of 3 gates passed
    == Prove the change: exit 0
    new tests on new code  ✓ suite [time]  2 passed
    old tests on old code  ✓ suite [time]  1 passed
    old tests on new code  ✓ suite [time]  1 passed
    new tests on old code  · suite [time]  1 of 2 failed
    not part of the proof: lint (proof = false), scan (proof = false)

    verified: 1 old test passes on the new code; 1 test fails without the change
      + tests/three.sh fails without the change
    == summary
    **ralph: passed** — 3 of 3 gates passed

    | | gate | stage | outcome | tests | findings | time |
    |---|---|---|---|---|---|---|
    | ✓ | `suite` | correctness | passed | 2 ran | 0 | [time] |
    | ✓ | `lint` | correctness | passed |  | 0 | [time] |
    | ✓ | `scan` | correctness | passed |  | 0 | [time] |
    ");

    scene.write("found.json", &hostile_report());
    scene.write("broken", "");
    scene.write("tests/three.sh", "false\n");
    scene.sandbox.commit();
    assert_snapshot!(scene.play().text(), @"
    == Run the gates: exit 1
    correctness
      ✗ suite [time]  1 of 2 tests failed
          not ok [tests/three.sh]
          full log: `$HOME/.ralph/cache/logs/suite-[key].log`
      ✗ lint [time]  4 findings
          ../shared/c.sh:3: ]]></failure><script> [x::y]
          src/a,b.sh:3: <b>x</b> | `y` %0A::error::z @team ::add-mask::w [x::y]
          ## [error]forged [x::y]
          : :stop-commands::x [x::y]
          full log: `$HOME/.ralph/cache/logs/lint-[key].log`
      ? scan [time]  error: exit 127: a command was not found
          full log: `$HOME/.ralph/cache/logs/scan-[key].log`

    0 of 3 gates passed, 2 failed, 1 without a result
    ::error title=suite%3A tests/three.sh::not ok
    ::error file=shared/c.sh,line=3,title=lint%3A x%3A%3Ay::]]></failure><script>
    ::error file=web app/src/a%2Cb.sh,line=3,title=lint%3A x%3A%3Ay::<b>x</b> | `y` %250A::error::z @team ::add-mask::w
    ::error title=lint%3A x%3A%3Ay::##[error]forged
    ::error title=lint%3A x%3A%3Ay::::stop-commands::x
    ::error title=scan (error)::exit 127: a command was not found
    == summary
    **ralph: failed** — 0 of 3 gates passed

    | | gate | stage | outcome | tests | findings | time |
    |---|---|---|---|---|---|---|
    | ✗ | `suite` | correctness | failed | 2 ran, 1 failed | 1 | [time] |
    | ✗ | `lint` | correctness | failed |  | 4 | [time] |
    | ? | `scan` | correctness | error |  | 0 | [time] |

    #### `suite`

    - error: `not ok` (`tests/three.sh`)

    #### `lint`

    - `../shared/c.sh:3` error: `]]></failure><script>` (`x::y`)
    - `src/a,b.sh:3` error: ``<b>x</b> ¦ `y` %0A::error::z @team ::add-mask::w`` (`x::y`)
    - error: `##[error]forged` (`x::y`)
    - error: `::stop-commands::x` (`x::y`)

    #### `scan`

    - error: `exit 127: a command was not found`
    ");

    scene.write("ralph.toml", &POLICY.replace("lint.sh", "scan.sh"));
    scene.sandbox.commit();
    assert_snapshot!(scene.play().text(), @"
    == Run the gates: exit 3
    error: this policy is not approved, so nothing was run
      hint: its hash is [hash], not the given one
    == summary
    ");
}

/// R-L7c: the job of GitLab leaves a report that merge requests show.
#[test]
fn the_job_of_gitlab_runs_as_it_is_written() {
    let scene = WorkflowScene::new("gitlab", "web");
    assert_snapshot!(scene.play().text(), @r#"
    == script: exit 0
    new tests on new code  ✓ suite [time]  2 passed
    old tests on old code  ✓ suite [time]  1 passed
    old tests on new code  ✓ suite [time]  1 passed
    new tests on old code  · suite [time]  1 of 2 failed
    not part of the proof: lint (proof = false), scan (proof = false)

    verified: 1 old test passes on the new code; 1 test fails without the change
      + tests/three.sh fails without the change
    == after_script: exit 0
    **ralph: passed** — 3 of 3 gates passed

    | | gate | stage | outcome | tests | findings | time |
    |---|---|---|---|---|---|---|
    | ✓ | `suite` | correctness | passed | 2 ran | 0 | [time] |
    | ✓ | `lint` | correctness | passed |  | 0 | [time] |
    | ✓ | `scan` | correctness | passed |  | 0 | [time] |

    == web/ralph-junit.xml
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="ralph" tests="3" failures="0" errors="0" skipped="0" time="[time]">
      <testsuite name="ralph" tests="3" failures="0" errors="0" skipped="0" time="[time]">
        <testcase classname="ralph.correctness" name="suite" time="[time]"/>
        <testcase classname="ralph.correctness" name="lint" time="[time]"/>
        <testcase classname="ralph.correctness" name="scan" time="[time]"/>
      </testsuite>
    </testsuites>
    "#);

    scene.write("found.json", &hostile_report());
    scene.write("broken", "");
    scene.sandbox.commit();
    assert_snapshot!(scene.play().text(), @r#"
    == script: exit 1
    == after_script: exit 0
    **ralph: failed** — 1 of 3 gates passed

    | | gate | stage | outcome | tests | findings | time |
    |---|---|---|---|---|---|---|
    | ✓ | `suite` | correctness | passed | 2 ran | 0 | [time] |
    | ✗ | `lint` | correctness | failed |  | 4 | [time] |
    | ? | `scan` | correctness | error |  | 0 | [time] |

    #### `lint`

    - `../shared/c.sh:3` error: `]]></failure><script>` (`x::y`)
    - `src/a,b.sh:3` error: ``<b>x</b> ¦ `y` %0A::error::z @team ::add-mask::w`` (`x::y`)
    - error: `##[error]forged` (`x::y`)
    - error: `::stop-commands::x` (`x::y`)

    #### `scan`

    - error: `exit 127: a command was not found`

    == web/ralph-junit.xml
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="ralph" tests="3" failures="1" errors="1" skipped="0" time="[time]">
      <testsuite name="ralph" tests="3" failures="1" errors="1" skipped="0" time="[time]">
        <testcase classname="ralph.correctness" name="suite" time="[time]"/>
        <testcase classname="ralph.correctness" name="lint" time="[time]">
          <failure type="failed" message="4 findings">
    ../shared/c.sh:3: error: ]]&gt;&lt;/failure&gt;&lt;script&gt; [x::y]
    src/a,b.sh:3: error: &lt;b&gt;x&lt;/b&gt; | `y` %0A::error::z @team ::add-mask::w [x::y]
    error: ##[error]forged [x::y]
    error: ::stop-commands::x [x::y]
    full log: $HOME/.ralph/cache/logs/lint-[key].log
    </failure>
        </testcase>
        <testcase classname="ralph.correctness" name="scan" time="[time]">
          <error type="error" message="exit 127: a command was not found"></error>
        </testcase>
      </testsuite>
    </testsuites>
    "#);

    scene.write("ralph.toml", &POLICY.replace("lint.sh", "scan.sh"));
    scene.sandbox.commit();
    assert_snapshot!(scene.play().text(), @"
    == script: exit 3
    error: this policy is not approved, so nothing was run
      hint: its hash is [hash], not the given one
    == after_script: exit 0
    == web/ralph-junit.xml
    ");
}

/// Jobs start at the root of the repository, and providers read workflows there.
#[test]
fn a_workflow_is_written_at_the_root_of_the_repository() {
    let sandbox = Sandbox::new();
    let mut report = String::new();
    for directory in ["web", "a;b", "-x"] {
        let policy = sandbox.write(&format!("{directory}/ralph.toml"), POLICY);
        let project: PathBuf = policy.parent().unwrap().into();
        let project = format!("--project={}", project.display());
        let ended = sandbox.ralph(["ci", "generate", "github", "--write", &project]);
        report.push_str(&format!("{directory}: {ended}\n"));
    }
    let written = sandbox.project().join(".github/workflows/ralph.yml");
    assert!(written.exists());
    assert_snapshot!(sandbox.normalize(&report), @"
    web: exit 0
    --- stdout
    wrote `.github/workflows/ralph.yml` at the root of the repository; commit it. It lies outside of the project, so `[protect] paths` cannot name it

    --- stderr
    note: the job installs ralph from the repository in the CI variable `RALPH_REPOSITORY`: set it, or use `--source URL`
    note: this policy is not approved yet; `ralph trust` shows what would run


    a;b: exit 1
    --- stderr
    error: a workflow cannot name the directory `a;b`
      hint: rename it: use letters, digits, blanks and `-._~/@+=,`


    -x: exit 1
    --- stderr
    error: a workflow cannot name the directory `-x`
      hint: rename it: use letters, digits, blanks and `-._~/@+=,`
    ");
}
