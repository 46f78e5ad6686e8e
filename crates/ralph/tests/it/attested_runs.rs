//! `ralph report --attest` and `ralph verify-report`: signed statements about real runs, and what is rejected.

use crate::runner::RunnerSandbox;
use crate::sandbox::{CommandOutcome, Sandbox, run_command};
use insta::{allow_duplicates, assert_snapshot};
use ralph_attest::{SignedEnvelope, load_signing_key};
use ralph_home::paths::RalphHome;
use serde_json::Value;
use std::fs;
use std::path::Path;

const COMMITTED: &str = r#"
[[step]]
tools = [{ edit = "main.sh", old = "hello", new = "goodbye" }]

[[step]]
tools = [{ run = "git add -A && git -c user.name=t -c user.email=t@t commit -qm goodbye" }]

[[step]]
agent = "Done."
"#;
const STATEMENT: &str = "statement.json";

/// A run that ended `verified` on a commit, and the statement about it.
fn attested_run() -> RunnerSandbox {
    let runner = RunnerSandbox::new(COMMITTED);
    assert_eq!(runner.start(&[]).code, Some(0));
    let path = runner.root_path(STATEMENT);
    let attested = runner.sandbox.ralph(["report", "--attest", "--out", path.to_str().unwrap()]);
    assert_eq!(attested.code, Some(0), "{attested}");
    runner
}

fn verify(runner: &RunnerSandbox, args: &[&str]) -> CommandOutcome {
    let path = runner.root_path(STATEMENT);
    runner.sandbox.ralph([&["verify-report", path.to_str().unwrap()], args].concat())
}

fn masked() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"run [0-9a-z]{4},", "run [run],");
    settings.add_filter(r"\b[0-9a-f]{40}\b", "[commit]");
    settings.add_filter(r"\b[0-9a-f]{16}\b", "[key]");
    settings.add_filter(r"\b[0-9a-f]{12}\b", "[policy]");
    settings.add_filter(r"\b[0-9a-f]{10}\b", "[id]");
    settings.add_filter(r"column \d+", "column [n]");
    settings.bind_to_scope()
}

#[test]
fn a_statement_is_valid_for_what_was_judged() {
    let runner = attested_run();
    let _masked = masked();
    assert_snapshot!(verify(&runner, &[]), @"
    exit 0
    --- stdout
    valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✓ commit    HEAD has the judged tree [id]
    ✓ policy    [policy], 2 files as judged
    ");
    assert_snapshot!(verify(&runner, &["--policy", "000000000000"]), @r"
    exit 1
    --- stdout
    not valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✓ commit    HEAD has the judged tree [id]
    ✗ policy    the run was judged by another policy, [policy]
                `ralph trust` shows the hash of the policy as it is now
    ");
    let policy = runner.sandbox.ralph(["trust", "--json"]);
    let policy: Value = serde_json::from_str(&policy.stdout).unwrap();
    assert_eq!(verify(&runner, &["--policy", policy["hash"].as_str().unwrap()]).code, Some(0));
    // Later work was not judged. It does not change what was.
    runner.sandbox.write("notes.txt", "later\n");
    runner.sandbox.commit();
    assert_eq!(verify(&runner, &[]).code, Some(1));
    assert_snapshot!(verify(&runner, &["--judged-commit"]), @r"
    exit 0
    --- stdout
    valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✓ commit    [id] has the judged tree [id]; HEAD was not compared
    ✓ policy    [policy], 2 files as judged
    ");
    let json: Value =
        serde_json::from_str(&verify(&runner, &["--json", "--judged-commit"]).stdout).unwrap();
    assert_eq!((&json["valid"], &json["predicate"]["status"]), (&true.into(), &"verified".into()));
}

/// A file that is not there is the mistake, wherever the command runs; `--json` prints nothing but JSON.
#[test]
fn a_statement_that_cannot_be_read_is_named() {
    let sandbox = Sandbox::without_git("project");
    assert_snapshot!(sandbox.ralph(["verify-report", "nope.json"]), @r"
    exit 1
    --- stderr
    error: cannot read the statement
      caused by: cannot read `nope.json`
      caused by: No such file or directory (os error 2)
      hint: `ralph report RUN --attest --out FILE` writes one
    ");
    assert_snapshot!(sandbox.ralph(["verify-report", "nope.json", "--json"]), @r#"
    exit 1
    --- stdout
    {"v":1,"valid":false,"checks":[{"name":"input","passed":false,"detail":"cannot read the statement: cannot read `nope.json`: No such file or directory (os error 2)","hint":"`ralph report RUN --attest --out FILE` writes one"}],"tree":null,"judged_commit":null,"landed_commit":null,"predicate":null}
    "#);
    sandbox.write("some.json", "{}");
    assert_snapshot!(sandbox.ralph(["verify-report", "some.json", "--json"]), @r#"
    exit 1
    --- stdout
    {"v":1,"valid":false,"checks":[{"name":"input","passed":false,"detail":"this is not in a git repository","hint":"change to the repository, or name it: `--repo DIR`"}],"tree":null,"judged_commit":null,"landed_commit":null,"predicate":null}
    "#);
}

/// The same run has the same statement, until a commit has the judged tree.
#[test]
fn a_statement_is_deterministic() {
    let runner = attested_run();
    let again = runner.sandbox.ralph(["report", "--attest"]);
    assert_eq!(again.stdout, fs::read_to_string(runner.root_path(STATEMENT)).unwrap());
}

#[test]
fn a_clone_checks_a_note_with_the_signers_key() {
    let runner = attested_run();
    let _masked = masked();
    assert_snapshot!(runner.sandbox.ralph(["report", "--attest", "--note"]), @"
    exit 0
    --- stdout
    added to commit [id] under refs/notes/ralph
    ");
    assert_snapshot!(runner.sandbox.ralph(["verify-report", "--note", "HEAD"]), @r"
    exit 0
    --- stdout
    valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✓ commit    [id] has the judged tree [id]
    ✓ policy    [policy], 2 files as judged
    ");
    let key = runner.sandbox.ralph(["report", "--public-key"]).stdout;
    let other = Sandbox::new();
    let from = runner.sandbox.project().to_str().unwrap();
    other.git(&["fetch", "-q", from, "HEAD:refs/heads/work", "refs/notes/ralph:refs/notes/ralph"]);
    assert_snapshot!(other.ralph(["verify-report", "--note", "work"]), @"
    exit 1
    --- stdout
    not valid
    ✗ signature signed by a key that is not known here
                ask the signer for the output of `ralph report --public-key`, and pass it with `--key`
    ");
    fs::write(other.root().join("key.pub"), &key).unwrap();
    let file = other.root().join("key.pub");
    for given in [key.trim(), file.to_str().unwrap()] {
        let checked = other.ralph(["verify-report", "--note", "work", "--key", given]);
        assert_eq!(checked.code, Some(0), "{checked}");
    }
    assert_snapshot!(other.ralph(["verify-report", "--note", "HEAD"]), @"
    exit 1
    --- stderr
    error: commit `HEAD` has no note of ralph
      hint: `ralph report RUN --attest --note` adds one; others fetch it with `git fetch origin refs/notes/ralph:refs/notes/ralph`
    ");
    assert_snapshot!(other.ralph(["verify-report", "--note", "work", "--key", "nonsense"]), @"
    exit 1
    --- stderr
    error: `--key` is neither a public key nor a readable file
      caused by: cannot read `nonsense`
      caused by: No such file or directory (os error 2)
      hint: `ralph report --public-key` prints the key of its signer
    ");
}

/// The work tree of a merged run is removed, and the statement is about the repository that it came from.
#[test]
fn a_statement_about_a_merged_run_is_valid() {
    let below = Sandbox::without_git("repository/below");
    below.git(&["init", "--quiet", "--initial-branch=main", ".."]);
    for (sandbox, directory) in [(Sandbox::new(), ""), (below, "below")] {
        let runner = RunnerSandbox::with_client_flags(sandbox, COMMITTED, "");
        assert_eq!(runner.start(&["--worktree"]).code, Some(0));
        let run = runner.run_id();
        assert!(!runner.sandbox.home().join("ralph-worktrees").join(&run).exists());
        let path = runner.root_path(STATEMENT);
        let attest = ["report", &run, "--attest", "--out", path.to_str().unwrap()];
        let attested = runner.sandbox.ralph(attest);
        assert_eq!(attested.code, Some(0), "{attested}");
        let statement =
            serde_json::from_str::<Value>(&verify(&runner, &["--json"]).stdout).unwrap();
        assert_eq!(statement["predicate"]["policy"]["directory"], directory);
        let _masked = masked();
        allow_duplicates!(assert_snapshot!(verify(&runner, &[]), @"
        exit 0
        --- stdout
        valid: run [run], verified, Let main.sh say goodbye.
        ✓ signature by key [key]
        ✓ status    verified, as 2 gate results say
        ✓ commit    HEAD has the judged tree [id]
        ✓ policy    [policy], 2 files as judged
        "));
        let noted = runner.sandbox.ralph(["report", &run, "--attest", "--note"]);
        assert_eq!(noted.code, Some(0), "{noted}");
        let noted = runner.sandbox.ralph(["verify-report", "--note", "HEAD"]);
        assert_eq!(noted.code, Some(0), "{noted}");
    }
}

/// A note of another tool, or of a person, is not replaced.
#[test]
fn a_foreign_note_stays() {
    let runner = attested_run();
    runner.sandbox.git(&[
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t",
        "notes",
        "--ref=ralph",
        "add",
        "-m",
        "mine",
    ]);
    let _masked = masked();
    assert_snapshot!(runner.sandbox.ralph(["report", "--attest", "--note"]), @"
    exit 1
    --- stderr
    error: commit `[commit]` has a note under refs/notes/ralph that is no statement
      hint: `git notes --ref=ralph remove [commit]` removes it
    ");
}

/// Signs an edited payload with the key of the home, as an agent with its user's rights could.
fn forge_with_own_key(runner: &RunnerSandbox, edit: impl Fn(&mut Value)) -> Vec<u8> {
    let home = RalphHome::new(runner.sandbox.ralph_home(""));
    let key = load_signing_key(&home).unwrap();
    let envelope = fs::read(runner.root_path(STATEMENT)).unwrap();
    let envelope = SignedEnvelope::parse(&envelope).unwrap();
    let payload = envelope.verified_payload(&key.public()).unwrap();
    let mut statement: Value = serde_json::from_slice(payload).unwrap();
    edit(&mut statement);
    SignedEnvelope::sign(serde_json::to_vec(&statement).unwrap(), &key).to_json().into_bytes()
}

/// The statement with another payload and the old signature.
fn swap_payload(original: &[u8], forged: &[u8]) -> Vec<u8> {
    let mut original: Value = serde_json::from_slice(original).unwrap();
    let forged: Value = serde_json::from_slice(forged).unwrap();
    original["payload"] = forged["payload"].clone();
    serde_json::to_vec(&original).unwrap()
}

#[test]
fn a_forged_statement_is_rejected() {
    let runner = attested_run();
    let original = fs::read(runner.root_path(STATEMENT)).unwrap();
    let failed = |statement: &mut Value| {
        statement["predicate"]["gates"][0]["outcome"] = "failed".into();
    };
    let commit = |statement: &mut Value| {
        statement["subject"][2]["digest"]["gitCommit"] = "0".repeat(40).into();
        statement["subject"][1]["digest"]["gitCommit"] = "0".repeat(40).into();
    };
    // Another home with the same runs signs the same statement with a key of its own.
    let other = Sandbox::new();
    for name in ["runs", "trust"] {
        copy_tree(&runner.sandbox.ralph_home(name), &other.ralph_home(name));
    }
    let mut command = other.tool_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["report", "--attest"]).arg(runner.run_id());
    let foreign = run_command(command.current_dir(runner.sandbox.project()), b"");
    assert_eq!(foreign.code, Some(0), "{foreign}");
    let foreign = foreign.stdout.into_bytes();
    let mut signature_of_other: Value = serde_json::from_slice(&original).unwrap();
    signature_of_other["signatures"][0]["sig"] =
        serde_json::from_slice::<Value>(&foreign).unwrap()["signatures"][0]["sig"].clone();
    let edits: [(&str, Vec<u8>); 14] = [
        ("payload edited", swap_payload(&original, &forge_with_own_key(&runner, failed))),
        ("signature of another key", serde_json::to_vec(&signature_of_other).unwrap()),
        ("signed again by another key", foreign),
        ("gate failed, signed again", forge_with_own_key(&runner, failed)),
        ("other commits, signed again", forge_with_own_key(&runner, commit)),
        (
            "other tree, signed again",
            forge_with_own_key(&runner, |one| {
                one["subject"][0]["digest"]["gitTree"] = "1".repeat(40).into();
            }),
        ),
        (
            "other policy, signed again",
            forge_with_own_key(&runner, |one| {
                one["predicate"]["policy"]["files"][1]["blake3"] = "0".repeat(64).into();
            }),
        ),
        (
            "no tree, signed again",
            forge_with_own_key(&runner, |one| {
                drop(one["subject"].as_array_mut().unwrap().remove(0));
            }),
        ),
        (
            "option as a commit, signed again",
            forge_with_own_key(&runner, |one| {
                one["subject"][1]["digest"]["gitCommit"] = "--output=x".into();
            }),
        ),
        (
            "other predicate, signed again",
            forge_with_own_key(&runner, |one| {
                one["predicateType"] = "https://evil.example\u{1b}[31m".into();
            }),
        ),
        (
            "unknown field, signed again",
            forge_with_own_key(&runner, |one| {
                one["predicate"]["\u{1b}[31m\u{202e}extra"] = 1.into();
            }),
        ),
        ("truncated", original[..original.len() / 2].to_vec()),
        ("empty", Vec::new()),
        ("10 MB", vec![b' '; 10 * 1024 * 1024]),
    ];
    let mut rejected = String::new();
    for (name, bytes) in edits {
        fs::write(runner.root_path(STATEMENT), bytes).unwrap();
        rejected.push_str(&format!("== {name}\n{}\n", verify(&runner, &["--judged-commit"])));
    }
    let _masked = masked();
    assert_snapshot!(rejected);
    // A clone of a squashed merge has the tree that was judged, and none of the commits.
    fs::write(runner.root_path(STATEMENT), original).unwrap();
    fs::write(runner.root_path(STATEMENT), forge_with_own_key(&runner, commit)).unwrap();
    assert_snapshot!(verify(&runner, &[]), @r"
    exit 0
    --- stdout
    valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✓ commit    HEAD has the judged tree [id]; the judged commits are not in this repository
    ✓ policy    [policy], 2 files as judged
    ");
}

#[test]
fn a_changed_tree_and_a_changed_policy_are_rejected() {
    let runner = attested_run();
    let original = fs::read_to_string(runner.sandbox.project().join("ralph.toml")).unwrap();
    let mut rejected = String::new();
    for (name, path, text) in [
        ("tree", "main.sh", "echo goodbye # and more\n"),
        ("policy", "ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n"),
        ("script", "tests.sh", "exit 0\n"),
        ("deleted script", "tests.sh", ""),
    ] {
        let before = fs::read_to_string(runner.sandbox.project().join(path)).unwrap();
        if text.is_empty() {
            fs::remove_file(runner.sandbox.project().join(path)).unwrap();
        } else {
            runner.sandbox.write(path, text);
        }
        runner.sandbox.commit();
        rejected.push_str(&format!("== {name}\n{}\n", verify(&runner, &[])));
        runner.sandbox.write(path, before);
    }
    // Back to the judged files, in another commit.
    runner.sandbox.write("ralph.toml", original);
    runner.sandbox.commit();
    assert_eq!(verify(&runner, &[]).code, Some(0));
    let _masked = masked();
    assert_snapshot!(rejected, @"
    == tree
    exit 1
    --- stdout
    not valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✗ commit    HEAD has tree [id], but [id] was judged
                `git diff [id] [id]` shows the difference; the work landed as [id], which `--judged-commit` checks
    ✓ policy    [policy], 2 files as judged


    == policy
    exit 1
    --- stdout
    not valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✗ commit    HEAD has tree [id], but [id] was judged
                `git diff [id] [id]` shows the difference; the work landed as [id], which `--judged-commit` checks
    ✗ policy    `ralph.toml` is not what the gates were judged by
                restore the old policy, or run it again with the new one


    == script
    exit 1
    --- stdout
    not valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✗ commit    HEAD has tree [id], but [id] was judged
                `git diff [id] [id]` shows the difference; the work landed as [id], which `--judged-commit` checks
    ✗ policy    `tests.sh` is not what the gates were judged by
                restore the old policy, or run it again with the new one


    == deleted script
    exit 1
    --- stdout
    not valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✗ commit    HEAD has tree [id], but [id] was judged
                `git diff [id] [id]` shows the difference; the work landed as [id], which `--judged-commit` checks
    ✗ policy    `tests.sh` is not what the gates were judged by
                restore the old policy, or run it again with the new one
    ");
}

/// Only a good end can be attested, and only from a journal that nothing has edited.
#[test]
fn what_proves_nothing_is_not_attested() {
    let runner = RunnerSandbox::new("[[step]]\nagent = \"No.\"\nrepeat = \"forever\"\n");
    let _masked = masked();
    assert_snapshot!(runner.sandbox.ralph(["report", "--attest"]).to_string().replace(&runner.sandbox.root().display().to_string(), "$ROOT"), @r#"
    exit 1
    --- stderr
    error: there is no run in `$ROOT/project`
      hint: `ralph run "…"` starts one, `ralph start "…"` holds an open session
    "#);
    assert_ne!(runner.start(&["--max-iterations", "1"]).code, Some(0));
    let id = runner.run_id();
    let refused = |text: String| text.replace(&format!("`{id}`"), "`[run]`");
    assert_snapshot!(refused(runner.sandbox.ralph(["report", "--attest"]).to_string()), @"
    exit 1
    --- stderr
    error: cannot attest the run
      caused by: run `[run]` ended exhausted, so there is nothing to attest
      hint: only runs that ended `verified`, `green` or `claimed` can be attested; `ralph accept` makes `needs_review` verified
    ");
    let runner = attested_run();
    let id = runner.run_id();
    let refused = |text: String| text.replace(&format!("`{id}`"), "`[run]`");
    let journal = runner.sandbox.ralph_home("runs").join(&id).join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"passed\"", "\"failed\"", 1)).unwrap();
    assert_snapshot!(refused(runner.sandbox.ralph(["report", "--attest"]).to_string()), @"
    exit 1
    --- stderr
    error: cannot attest the run
      caused by: the journal of run `[run]` is damaged at line 5
      hint: a damaged journal proves nothing: run it again
    ");
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A statement has the title of the goal, which may be hostile.
#[test]
fn nothing_of_a_statement_reaches_the_terminal_raw() {
    let runner = attested_run();
    let hostile = forge_with_own_key(&runner, |one| {
        one["predicate"]["goal"]["title"] = "\u{1b}[2Jx\u{202e}\r\nvalid".into();
        one["predicate"]["run"] = "\u{1b}]0;x\u{7}".into();
    });
    fs::write(runner.root_path(STATEMENT), hostile).unwrap();
    let _masked = masked();
    assert_snapshot!(verify(&runner, &[]), @r"
    exit 0
    --- stdout
    valid: run , verified, x valid
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✓ commit    HEAD has the judged tree [id]
    ✓ policy    [policy], 2 files as judged
    ");
}

/// A run of this project that ended `verified`, and the statement about it.
fn attested_project(write_project: impl FnOnce(&Sandbox)) -> RunnerSandbox {
    let runner = RunnerSandbox::with_project(COMMITTED, |sandbox| {
        sandbox.write("main.sh", "echo hello\n");
        write_project(sandbox);
    });
    assert_eq!(runner.start(&[]).code, Some(0));
    let path = runner.root_path(STATEMENT);
    let attested =
        runner.sandbox.ralph(["report", "--attest", "--note", "--out", path.to_str().unwrap()]);
    assert_eq!(attested.code, Some(0), "{attested}");
    runner
}

const TEST_FILE: &str = "[ \"$(sh main.sh)\" = goodbye ]\n";

/// A gate can find its scripts by a pattern. A commit with one more of them is not what was judged.
#[test]
fn a_policy_with_a_pattern_is_compared_by_names() {
    let runner = attested_project(|sandbox| {
        sandbox.write("tests/greeting.sh", TEST_FILE);
        let gate = "[[gate]]\nname = \"tests\"\nshell = \"for t in tests/*.sh; do sh $t || exit 1; done\"\n";
        sandbox.write("ralph.toml", gate);
    });
    let _masked = masked();
    assert_snapshot!(verify(&runner, &[]), @r"
    exit 0
    --- stdout
    valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✓ commit    HEAD has the judged tree [id]
    ✓ policy    [policy], 2 files as judged
    ");
    runner.sandbox.write("tests/other.sh", "true\n");
    runner.sandbox.commit();
    assert_snapshot!(verify(&runner, &[]), @"
    exit 1
    --- stdout
    not valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✗ commit    HEAD has tree [id], but [id] was judged
                `git diff [id] [id]` shows the difference; the work landed as [id], which `--judged-commit` checks
    ✗ policy    `tests/*.sh` is not what the gates were judged by
                restore the old policy, or run it again with the new one
    ");
}

/// The host writes its local settings while it runs, so that they are in no checkpoint. A commit can have them.
#[test]
fn committed_local_settings_are_no_difference() {
    let runner = attested_project(|sandbox| {
        sandbox.write("tests.sh", TEST_FILE);
        sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"tests.sh\"]\n");
        sandbox.write(".claude/settings.local.json", "{}\n");
    });
    let _masked = masked();
    assert_snapshot!(verify(&runner, &[]), @r"
    exit 0
    --- stdout
    valid: run [run], verified, Let main.sh say goodbye.
    ✓ signature by key [key]
    ✓ status    verified, as 2 gate results say
    ✓ commit    HEAD has the judged tree [id], apart from the host's local settings
    ✓ policy    [policy], 2 files as judged
    ");
    // The commit has landed, so that the note is on it.
    assert_eq!(runner.sandbox.ralph(["verify-report", "--note", "HEAD"]).code, Some(0));
    // Another difference is one.
    runner.sandbox.write(".claude/settings.json", "{}\n");
    runner.sandbox.commit();
    assert_eq!(verify(&runner, &[]).code, Some(1));
}
