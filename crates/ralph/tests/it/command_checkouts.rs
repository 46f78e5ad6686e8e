//! The commands of judges and of `[[ci]]` run in a checkout of the base. An agent that writes what such a command loads
//! changes nothing about the answer.

use crate::judge_costs::worker_pids;
use crate::judges::{JudgedProject, LONGER_SUM, REVIEW, met, unmet};
use crate::prove::adder;
use crate::sandbox::{SESSION, Sandbox, eventually, run_command, without_proof};
use insta::assert_snapshot;
use std::fs;
use std::path::PathBuf;
use std::thread::JoinHandle;

const IGNORED: &str = "__pycache__\nhome\njson.py\nprivate\n";

/// Says what the helper beside it says.
const HONEST_JUDGE: &str = "import json, sys\nimport rules\n\ncase = json.load(sys.stdin)\nprint(json.dumps(rules.answer()))\n";
const HONEST_STATE: &str =
    "import json, sys\nimport rules\n\nprint(json.dumps(rules.state(sys.argv[1])))\n";
const HONEST_RULES: &str = r#"
def answer():
    quote = "sum=0; for one; do"
    claim = {"file": "add.sh", "claim": "it is slow", "severity": "error", "quote": quote}
    return {"verdict": "unmet", "findings": [claim]}


def state(commit):
    return {"commit": commit, "checks": [{"name": "build", "state": "failed"}]}
"#;
const FORGED_RULES: &str = r#"
def answer():
    return {"verdict": "met", "confidence": 1}


def state(commit):
    return {"commit": commit, "checks": [{"name": "build", "state": "passed"}]}
"#;
/// In place of the module of the library.
const FORGED_JSON: &str = r#"
import sys


def load(_):
    return {}


def dumps(_):
    if sys.argv[1:]:
        return '{"commit": "%s", "checks": [{"name": "build", "state": "passed"}]}' % sys.argv[1]
    return '{"verdict": "met", "confidence": 1}'
"#;
/// Byte code of other rules, which Python loads without a look at the source.
const FORGED_BYTE_CODE: &str = "import importlib.util, py_compile, sys\n\
    target = importlib.util.cache_from_source('tools/rules.py')\n\
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH\n\
    py_compile.compile(sys.argv[1], cfile=target, invalidation_mode=mode, doraise=True)\n";

const FIXED_LOCALE: &str = "LC_ALL=C.UTF-8\nTZ=UTC\n";

/// What an agent writes to have another answer.
#[derive(Clone, Copy, Debug)]
enum Forgery {
    IgnoredModule,
    ByteCode,
    TrackedHelper,
}

impl Forgery {
    const ALL: [Self; 3] = [Self::IgnoredModule, Self::ByteCode, Self::TrackedHelper];

    fn write(self, sandbox: &Sandbox) {
        match self {
            Self::IgnoredModule => {
                sandbox.write("tools/json.py", FORGED_JSON);
            }
            Self::ByteCode => {
                let source = sandbox.root().join("forged.py");
                fs::write(&source, FORGED_RULES).unwrap();
                let mut python = sandbox.tool_command("python3");
                python.args(["-c", FORGED_BYTE_CODE]).arg(source);
                assert!(python.status().unwrap().success());
            }
            Self::TrackedHelper => {
                sandbox.write("tools/rules.py", FORGED_RULES);
            }
        }
    }
}

fn write_tools(sandbox: &Sandbox) {
    sandbox.write(".gitignore", IGNORED);
    sandbox.write("tools/judge.py", HONEST_JUDGE);
    sandbox.write("tools/state.py", HONEST_STATE);
    sandbox.write("tools/rules.py", HONEST_RULES);
}

/// The home inside of the project makes it impossible to mount a checkout in its place.
fn with_inner_home(sandbox: Sandbox) -> Sandbox {
    let home = sandbox.project().join("home");
    sandbox.env("HOME", home.to_str().unwrap())
}

fn python_judge(sandbox: Sandbox) -> JudgedProject {
    write_tools(&sandbox);
    let command = "\"python3\", \"tools/judge.py\"";
    JudgedProject::of(sandbox, &REVIEW.replace("\"sh\", \"judge.sh\"", command))
}

fn line_about(name: &str, stop: &str) -> String {
    stop.lines().find(|line| line.contains(name)).unwrap_or(stop).to_string()
}

/// R-S5a: whatever the agent puts beside a judge, the judge that was there at the start answers.
#[test]
fn code_beside_a_judge_does_not_change_its_verdict() {
    for forgery in Forgery::ALL {
        for sandbox in [adder(), with_inner_home(adder())] {
            let project = python_judge(sandbox);
            let run = project.start();
            forgery.write(&project.sandbox);
            let review = line_about(" review (", &project.stop());
            assert_eq!(review, "✗ review (judge, prompt): 1 finding", "{forgery:?}");
            assert_eq!(project.sandbox.run_status(&run).0, "held", "{forgery:?}");
        }
    }
}

fn ci_project(sandbox: Sandbox) -> Sandbox {
    write_tools(&sandbox);
    let policy = r#"
        [[ci]]
        name = "ci"
        provider = "command"
        run = ["python3", "tools/state.py", "{commit}"]
        timeout = "1m"
        poll = "100ms"
        start = "200ms"
    "#;
    sandbox.write("ralph.toml", without_proof(policy));
    sandbox.write("work", "no\n");
    sandbox.commit();
    sandbox.approve_policy();
    sandbox
}

/// R-S5a: the same for a command that asks CI. By hand it runs in the project, where the forgery works, but a run does not
/// use the result that its agent got there.
#[test]
fn code_beside_a_ci_command_does_not_change_its_answer() {
    for forgery in Forgery::ALL {
        for sandbox in [Sandbox::new(), with_inner_home(Sandbox::new())] {
            let sandbox = ci_project(sandbox);
            let run = sandbox.start_run(["--goal-file", "-"]);
            sandbox.write("work", "yes\n");
            forgery.write(&sandbox);
            sandbox.commit();
            let mut own = sandbox.command();
            own.env("CLAUDECODE", "1").args(["gate", "run", "ci"]);
            assert!(own.output().unwrap().status.success(), "{forgery:?}");
            let stop = sandbox.send_stop(SESSION, "");
            assert_eq!(line_about(" ci (ci", &stop.stderr), "✗ ci (ci): 1 finding", "{forgery:?}");
            assert_eq!(sandbox.run_status(&run).0, "held", "{forgery:?}");
        }
    }
}

/// Stops that wait for the same checks of CI share the process that asks for them. Cancelling the run ends it long before
/// its timeout.
#[test]
fn stops_that_wait_for_ci_share_a_worker() {
    let sandbox = ci_project(Sandbox::new());
    let policy = fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap();
    sandbox.write("ralph.toml", policy.replace("\"1m\"", "\"20m\""));
    sandbox.write("tools/rules.py", HONEST_RULES.replace("failed", "pending"));
    let asked = sandbox.root().join("asked");
    let note = format!("import os\nos.system('echo asked >> {}')\n", asked.display());
    sandbox.write("tools/state.py", format!("{note}{HONEST_STATE}"));
    sandbox.approve_policy();
    sandbox.commit();
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "yes\n");
    sandbox.commit();
    let event = sandbox.stop_event(SESSION, "");
    let held = [0; 3].map(|_| {
        let command = ["hook", "claude", "--deadline", "6s"];
        let held = sandbox.ralph_with_input(command, event.as_bytes()).stderr;
        let first = held.lines().next().unwrap_or_default().to_string();
        (sandbox.normalize(&first), worker_pids(&sandbox, "tree").len())
    });
    let expected = "ralph: waiting for ci; nothing else is open (run [run])".to_string();
    assert_eq!(held, [0; 3].map(|_| (expected.clone(), 1)));
    let count = || fs::read_to_string(&asked).unwrap().lines().count();
    // The wait goes on in the background.
    let before = count();
    eventually(|| (count() > before).then_some(()));
    sandbox.ralph(["cancel", &run]);
    eventually(|| worker_pids(&sandbox, "tree").is_empty().then_some(()));
    let at_the_end = count();
    let waited = sandbox.ralph(["gate", "wait", &run, "--timeout", "1m"]);
    assert_snapshot!(sandbox.normalize(&waited.to_string()), @r"
    exit 0
    --- stdout
    run `[run]` has ended: cancelled; there is nothing to wait for
    ");
    assert_eq!(sandbox.run_status(&run).0, "cancelled");
    assert_eq!(count(), at_the_end);
}

/// R-S6b: a stop with another language or time zone does not change what the commands of judges and CI get.
#[test]
fn no_stop_chooses_the_language_of_a_command() {
    let stop_elsewhere = |sandbox: &Sandbox| {
        let mut hook = sandbox.command();
        hook.args(["hook", "claude"]).env("LANG", "C").env("LC_ALL", "POSIX");
        hook.env("TZ", "Asia/Tokyo");
        run_command(&mut hook, sandbox.stop_event(SESSION, "").as_bytes())
    };
    let print = |sandbox: &Sandbox| {
        format!("env | grep -E '^(LANG|LC_|TZ)' | sort > {}/seen\n", sandbox.root().display())
    };
    let project = JudgedProject::new(REVIEW);
    let script = fs::read_to_string(project.sandbox.project().join("judge.sh")).unwrap();
    project.sandbox.write("judge.sh", print(&project.sandbox) + &script);
    project.sandbox.commit();
    project.sandbox.approve_policy();
    project.answer(&met());
    let run = project.start();
    stop_elsewhere(&project.sandbox);
    let seen = fs::read_to_string(project.path("seen")).unwrap();
    assert_eq!((project.status(&run).as_str(), seen.as_str()), ("verified", FIXED_LOCALE));

    let sandbox = ci_project(Sandbox::new());
    let policy = fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap();
    sandbox.write(
        "ralph.toml",
        policy.replace("\"python3\", \"tools/state.py\"", "\"sh\", \"state.sh\""),
    );
    sandbox.write("state.sh", print(&sandbox) + "exec python3 tools/state.py \"$1\"\n");
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "yes\n");
    sandbox.commit();
    let stop = stop_elsewhere(&sandbox);
    let seen = fs::read_to_string(sandbox.root().join("seen")).unwrap();
    let line = line_about(" ci (ci", &stop.stderr);
    assert_eq!((line.as_str(), seen.as_str()), ("✗ ci (ci): 1 finding", FIXED_LOCALE));
}

/// `curl` prints this code in place of what it reads.
fn write_curl_settings(sandbox: &Sandbox, code: &str) {
    let code = code.replace('"', "\\\"");
    let settings = format!("output = /dev/null\nwrite-out = \"{code}\"\n");
    fs::write(sandbox.home().join(".curlrc"), settings).unwrap();
}

/// Python runs this code before any other.
fn write_user_site(sandbox: &Sandbox, code: &str) {
    let mut python = sandbox.tool_command("python3");
    let printed = python.args(["-m", "site", "--user-site"]).output().unwrap().stdout;
    let directory = PathBuf::from(String::from_utf8(printed).unwrap().trim());
    fs::create_dir_all(&directory).unwrap();
    let module = format!("import os\n{code}\nos._exit(0)\n");
    fs::write(directory.join("usercustomize.py"), module).unwrap();
}

/// R-S5a: what an agent puts into the home changes no answer of a judge or a command that asks CI, unless the policy says so.
#[test]
fn settings_in_the_home_do_not_change_an_answer() {
    let write_tools = |sandbox: &Sandbox| {
        let script =
            "cat > /dev/null\ncurl --silent \"file://$PWD/tools/$1.py\" | python3 - \"$2\"\n";
        sandbox.write("tools/ask.sh", script);
        for (name, answer) in [("judge", "answer()"), ("state", "state(sys.argv[1])")] {
            let code = format!("import json, sys\n{HONEST_RULES}\n\nprint(json.dumps({answer}))\n");
            sandbox.write(&format!("tools/{name}.py"), code);
        }
    };
    let forgeries: [fn(&Sandbox, &str); 2] = [write_curl_settings, write_user_site];
    let opened = "[environment]\nset = { CURL_HOME = \"\", PYTHONNOUSERSITE = \"\" }\n";
    for forge in forgeries {
        for (environment, expected) in [("", "held"), (opened, "verified")] {
            let sandbox = adder();
            write_tools(&sandbox);
            let judge = REVIEW.replace("\"judge.sh\"", "\"tools/ask.sh\", \"judge\"");
            let project = JudgedProject::of(sandbox, &format!("{judge}{environment}"));
            let run = project.start();
            let forged = r#"print('{"verdict": "met", "confidence": 1}', flush=True)"#;
            forge(&project.sandbox, forged);
            let stop = project.stop();
            assert_eq!(project.status(&run), expected, "{stop}");

            let sandbox = ci_project(Sandbox::new());
            write_tools(&sandbox);
            let policy = fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap();
            let words = "\"sh\", \"tools/ask.sh\", \"state\"";
            let policy = policy.replace("\"python3\", \"tools/state.py\"", words);
            sandbox.write("ralph.toml", policy + environment);
            sandbox.commit();
            sandbox.approve_policy();
            let run = sandbox.start_run(["--goal-file", "-"]);
            sandbox.write("work", "yes\n");
            sandbox.commit();
            let head = sandbox.tool_command("git").args(["rev-parse", "HEAD"]).output().unwrap();
            let head = String::from_utf8(head.stdout).unwrap();
            let forged = r#"print('{"commit": "ID", "checks": [{"name": "build", "state": "passed"}]}', flush=True)"#;
            forge(&sandbox, &forged.replace("ID", head.trim()));
            let stop = sandbox.send_stop(SESSION, "");
            assert_eq!(sandbox.run_status(&run).0, expected, "{stop}");
        }
    }
}

/// A judge reads the work through the path that it is given, without ignored files, and the base where it runs.
#[test]
fn a_judge_reads_the_candidate_where_it_is_told() {
    for sandbox in [adder(), with_inner_home(adder())] {
        let project = JudgedProject::of(sandbox, REVIEW);
        let root = project.sandbox.root().display().to_string();
        project.sandbox.write(
            "judge.sh",
            format!(
                "cat > {root}/case.json\n\
                 {{ printenv RALPH_CANDIDATE; ls -A \"$RALPH_CANDIDATE\"; cat \"$RALPH_CANDIDATE/add.sh\" add.sh; }} > {root}/seen\n\
                 touch \"$RALPH_CANDIDATE/more\" more\n\
                 cat {root}/answer.json\n"
            ),
        );
        project.sandbox.write(".gitignore", IGNORED);
        project.sandbox.commit();
        project.sandbox.approve_policy();
        project.answer(&met());
        let run = project.start();
        project.sandbox.write("private", "a secret\n");
        project.stop();
        assert_eq!(project.status(&run), "verified");
        let seen = fs::read_to_string(project.path("seen")).unwrap();
        let (candidate, seen) = seen.split_once('\n').unwrap();
        let files = ".git\n.gitignore\nREADME.md\nadd.sh\njudge.sh\nralph.toml\nsuite.sh\ntests\n";
        assert_eq!(seen, format!("{files}{LONGER_SUM}echo $(($1 + $2))\n"));
        assert_eq!(project.case()["files"], candidate);
        assert!(!fs::exists(candidate).unwrap(), "{candidate}");
        assert!(!fs::exists(project.sandbox.project().join("more")).unwrap());
    }
}

/// Puts the tools into this ignored directory, and asks a judge there. `ROOT` in the command is the project.
fn ignored_judge(sandbox: Sandbox, directory: &str, command: &str) -> JudgedProject {
    let policy = fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap();
    sandbox.write("ralph.toml", format!("[verify]\nlink = [\"linked\"]\n{policy}"));
    sandbox.write(".gitignore", "home\nlinked\nnode_modules\nprivate\n");
    sandbox.write(&format!("{directory}/judge.py"), HONEST_JUDGE);
    sandbox.write(&format!("{directory}/rules.py"), FORGED_RULES);
    let command = command.replace("ROOT", sandbox.project().to_str().unwrap());
    let words = format!("\"python3\", \"{command}\"");
    JudgedProject::of(sandbox, &REVIEW.replace("\"sh\", \"judge.sh\"", &words))
}

/// A script that is not in the checkout is named, with what to do about it. A linked directory is not there either:
/// nothing would notice what an agent adds to it. Installed packages are.
#[test]
fn a_script_that_the_base_does_not_have_gives_no_verdict() {
    let ask = |sandbox: Sandbox, directory: &str, command: &str| {
        let project = ignored_judge(sandbox, directory, command);
        let run = project.start();
        let stop = project.stop();
        match project.status(&run).as_str() {
            "held" => line_about(" review (", &stop),
            status => status.to_string(),
        }
    };
    let shown = [
        ask(adder(), "private", "private/judge.py"),
        ask(adder(), "private", "ROOT/private/judge.py"),
        ask(adder(), "linked", "linked/judge.py"),
        ask(adder(), "node_modules/kit", "node_modules/kit/judge.py"),
        ask(with_inner_home(adder()), "private", "private/judge.py"),
        ask(with_inner_home(adder()), "linked", "linked/judge.py"),
        ask(with_inner_home(adder()), "node_modules/kit", "node_modules/kit/judge.py"),
        ask(with_inner_home(adder()), "node_modules/kit", "ROOT/node_modules/kit/judge.py"),
    ];
    assert_snapshot!(shown.join("\n"), @"
    ? review (judge, prompt): no result: `private/judge.py` is not in the checkout of the base: commit it before the run starts, or keep it outside of the project
    ? review (judge, prompt): no result: `$ROOT/project/private/judge.py` is not in the checkout of the base: commit it before the run starts, or keep it outside of the project
    ? review (judge, prompt): no result: `linked/judge.py` is not in the checkout of the base: commit it before the run starts, or keep it outside of the project
    verified
    ? review (judge, prompt): no result: `private/judge.py` is not in the checkout of the base: commit it before the run starts, or keep it outside of the project
    ? review (judge, prompt): no result: `linked/judge.py` is not in the checkout of the base: commit it before the run starts, or keep it outside of the project
    verified
    ? review (judge, prompt): no result: `$ROOT/project/node_modules/kit/judge.py` is not in the checkout of the base: name it relative to the project
    ");
}

/// Installed packages are those of the work tree, so a module that the agent adds to them answers. The proof reports it.
#[test]
fn code_beside_an_installed_judge_is_not_verified() {
    let project = ignored_judge(adder(), "node_modules/kit", "node_modules/kit/judge.py");
    let run = project.start();
    project.sandbox.write("node_modules/kit/json.py", FORGED_JSON);
    project.stop();
    assert_snapshot!(project.stop(), @r#"
    exit 0
    --- stdout
    {"systemMessage":"ralph: needs_review: make it work — installed packages changed, and no declared dependency explains it: node_modules/kit (json.py added); all 6 requirements are met after 1 iteration and [took], 1 of them by the judge review (run [run]); review the change before you keep it: `ralph checkpoint diff [run]`, `ralph why [run]`; then `ralph accept [run]`, or undo it"}
    "#);
    assert_eq!(project.status(&run), "needs_review");
}

/// The same for a command that asks CI.
#[test]
fn a_ci_command_that_the_base_does_not_have_gives_no_result() {
    let sandbox = ci_project(Sandbox::new());
    let policy = fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap();
    sandbox.write("ralph.toml", policy.replace("tools/state.py", "private"));
    sandbox.write("private", HONEST_STATE);
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "yes\n");
    sandbox.commit();
    let stop = sandbox.send_stop(SESSION, "");
    assert_snapshot!(line_about(" ci (ci", &stop.stderr), @"? ci (ci): no result: `private` is not in the checkout of the base: commit it before the run starts, or keep it outside of the project");
}

/// A command that says what a package says, and waits for the agent before and after it reads the package.
const SLOW_COMMAND: &str = "cat > /dev/null; : > ROOT/asks; : < ROOT/goes\ncat node_modules/kit/answer\n: > ROOT/asks; : < ROOT/goes\n";

/// Exchanges a package while the command runs, as a process of the agent can, and restores it before the command ends.
fn swap_package(sandbox: &Sandbox, forged: &str) -> JoinHandle<()> {
    let (root, forged) = (sandbox.root().to_owned(), forged.to_string());
    let answer = sandbox.project().join("node_modules/kit/answer");
    let kept = answer.with_extension("kept");
    let mut pipes = sandbox.tool_command("mkfifo");
    assert!(pipes.args([root.join("asks"), root.join("goes")]).status().unwrap().success());
    std::thread::spawn(move || {
        fs::read(root.join("asks")).unwrap();
        fs::rename(&answer, &kept).unwrap();
        fs::write(&answer, forged).unwrap();
        fs::write(root.join("goes"), "").unwrap();
        fs::read(root.join("asks")).unwrap();
        fs::rename(&kept, &answer).unwrap();
        fs::write(root.join("goes"), "").unwrap();
    })
}

fn write_slow_command(sandbox: &Sandbox, path: &str) {
    let script = SLOW_COMMAND.replace("ROOT", sandbox.root().to_str().unwrap());
    sandbox.write(path, script);
    sandbox.write(".gitignore", "home\nnode_modules\n");
}

/// R-S5a: a package that is exchanged while the judge runs, and restored, gives no verdict.
#[test]
fn packages_swapped_while_a_judge_runs_give_no_verdict() {
    let project = JudgedProject::of(adder(), REVIEW);
    write_slow_command(&project.sandbox, "judge.sh");
    let quote = "sum=0; for one; do";
    project.sandbox.write("node_modules/kit/answer", unmet(quote).to_string());
    project.sandbox.commit();
    project.sandbox.approve_policy();
    let run = project.start();
    let exchange = swap_package(&project.sandbox, &met().to_string());
    let stop = project.stop();
    assert_snapshot!(line_about(" review (", &stop), @"? review (judge, prompt): no result: installed packages changed while it ran: node_modules/kit/answer");
    assert!(exchange.is_finished(), "{stop}");
    assert_eq!(project.status(&run), "held");
}

/// The same for a command that asks CI.
#[test]
fn packages_swapped_while_ci_is_asked_give_no_result() {
    let sandbox = ci_project(Sandbox::new());
    let policy = fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap();
    sandbox.write(
        "ralph.toml",
        policy.replace("\"python3\", \"tools/state.py\"", "\"sh\", \"state.sh\""),
    );
    write_slow_command(&sandbox, "state.sh");
    sandbox.write("node_modules/kit/answer", "{}");
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "yes\n");
    sandbox.commit();
    let commit = sandbox.tool_command("git").args(["rev-parse", "HEAD"]).output().unwrap().stdout;
    let commit = String::from_utf8(commit).unwrap();
    let passed = format!(
        r#"{{"commit": "{}", "checks": [{{"name": "build", "state": "passed"}}]}}"#,
        commit.trim()
    );
    let exchange = swap_package(&sandbox, &passed);
    let stop = sandbox.send_stop(SESSION, "");
    assert_snapshot!(line_about(" ci (ci", &stop.stderr), @"? ci (ci): no result: installed packages changed while it ran: node_modules/kit/answer");
    assert!(exchange.is_finished(), "{stop}");
    assert_eq!(sandbox.run_status(&run).0, "held");
}
