//! Commands that have a new name work under their old one too, and shells complete the names of things.

use crate::sandbox::{SESSION, Sandbox, run_command};
use insta::assert_snapshot;

const SCENARIO: &str = "name = \"one\"\n[[step]]\nsay = \"done\"\n";

/// Old and new names do the same.
#[test]
fn old_names_work_as_before() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n");
    sandbox.write("loops/csv/feature_list.json", r#"[{"id":1,"description":"one"}]"#);
    sandbox.write("stop.json", sandbox.stop_event(SESSION, ""));
    sandbox.write("a.toml", SCENARIO);
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    let pairs: &[(&str, &str)] = &[
        ("gate list", "list gates"),
        ("loop list", "list loops"),
        ("feature list --loop loops/csv", "list features --loop loops/csv"),
        ("checkpoint list", "list checkpoints"),
        ("waive --list", "list waivers"),
        ("learn --list", "list learnings"),
        ("gate wait", "wait"),
        ("simulate a.toml --quiet", "lab simulate a.toml --quiet"),
        ("simulate --record nowhere.jsonl", "lab record nowhere.jsonl"),
        ("replay stop.json --hook true --json", "lab replay stop.json --hook true --json"),
        ("pretend --scenario nowhere.toml", "lab pretend --scenario nowhere.toml"),
        ("model nowhere.toml", "lab model nowhere.toml"),
        ("gate help run", "gate run --help"),
        ("help gate run", "gate run --help"),
        ("help --all", "--help"),
        ("help", "-h"),
    ];
    let took = regex::Regex::new(r#"\d+ (ms|s)\b|"[a-z_]*ms":\d+"#).unwrap();
    for (old, new) in pairs {
        let [old_way, new_way] = [old, new].map(|line| {
            let ended = sandbox.ralph(line.split_whitespace()).to_string();
            took.replace_all(&ended, "[time]").into_owned()
        });
        assert_eq!(old_way, new_way, "{old}");
        assert!(!new_way.contains("unknown command"), "{new}: {new_way}");
    }
    assert_eq!(sandbox.run_status(&run).0, "armed");
}

#[test]
fn names_of_runs_gates_and_requirements_are_completed() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "ralph.toml",
        "[[gate]]\nname = \"tests\"\nrun = [\"false\"]\n[[gate]]\nname = \"types\"\nrun = [\"true\"]\n",
    );
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    let complete = |words: &[&str]| {
        let ended = sandbox.ralph([&["complete-words", "--"], words].concat());
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{words:?}: {ended}");
        ended.stdout
    };
    assert_eq!(complete(&["why", ""]), format!("{run}\n"));
    assert_eq!(complete(&["tell", "--run", &run[..2]]), format!("{run}\n"));
    assert_eq!(complete(&["gate", "explain", ""]), "tests\ntypes\n");
    assert_eq!(complete(&["gate", "run", "tests", "ty"]), "types\n");
    assert_eq!(complete(&["waive", "te"]), "tests\n");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_snapshot!(complete(&["waive", ""]), @"
    a change
    tests
    policy
    tools
    nothing hidden
    types
    ");
    for words in [&["run", ""][..], &["why", &run, ""], &["nonsense", ""], &[]] {
        assert_eq!(complete(words), "", "{words:?}");
    }
}

/// The script for bash calls ralph for the names that it does not know.
#[test]
fn bash_completes_names() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(["--goal-file", "-"]);
    let script = sandbox.ralph(["completions", "bash"]).stdout;
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ralph"));
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let mut bash = sandbox.tool_command("bash");
    let line = format!(
        "{script}\nCOMP_WORDS=(ralph pause '')\nCOMP_CWORD=2\n_ralph_with_names ralph '' pause\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    );
    let shown = run_command(bash.args(["--norc", "-s"]).env("PATH", path), line.as_bytes());
    assert!(shown.stdout.lines().any(|line| line == run), "{shown}");
}
