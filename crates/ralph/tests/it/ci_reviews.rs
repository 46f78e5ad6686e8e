//! Around CI: workflows, summaries, draft pull requests, and reviews as messages. The real `gh` talks to a stand-in.

use crate::ci_gate::{CiScene, has_gh};
use crate::sandbox::{Sandbox, eventually, run_command, write_file, write_program};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

pub const GREP_POLICY: &str =
    "[[gate]]\nname = \"tests\"\nrun = [\"grep\", \"-q\", \"goodbye\", \"work\"]\n";
/// An agent that says goodbye, and then does what a review asks for.
const STEPS: &str = r#"
[[step]]
agent = "I do it."
tools = [{ write = "work", text = "goodbye\n" }]

[[step]]
agent = "Nothing is left to do."

[[step]]
agent = "I do what kim asks."
tools = [{ write = "work", text = "goodbye, kim\n" }]
"#;

/// The agent of the scenario. It waits while there is a pipe.
pub fn write_agent(sandbox: &Sandbox) {
    let root = sandbox.root().display().to_string();
    write_file(&sandbox.root().join("scenario.toml"), STEPS);
    let program = env!("CARGO_BIN_EXE_ralph");
    let script = format!(
        "#!/bin/sh\nif [ -p '{root}/pipe' ]; then read -r _ < '{root}/pipe'; fi\nexec '{program}' pretend --scenario '{root}/scenario.toml' --position '{root}/at' -- \"$@\"\n"
    );
    write_program(&sandbox.root().join("agent"), &script);
}

/// A project on GitHub whose run opened a draft pull request. Runs on its branch continue it.
struct ReviewScene {
    scene: CiScene,
    run: String,
}

fn comment_of(id: u64, login: &str, text: &str) -> Value {
    json!({ "id": id, "user": { "login": login, "type": "User" }, "author_association": "MEMBER",
        "path": "work", "line": 1, "body": text })
}

impl ReviewScene {
    fn new() -> Self {
        let scene = CiScene::new(GREP_POLICY);
        let sandbox = &scene.sandbox;
        let root = sandbox.root().display().to_string();
        write_agent(sandbox);
        sandbox.git(&["init", "--quiet", "--bare", "../remote.git"]);
        sandbox.git(&["remote", "add", "origin", "https://github.com/acme/rocket.git"]);
        sandbox.git(&["remote", "set-url", "--push", "origin", &format!("{root}/remote.git")]);
        let url = "https://github.com/acme/rocket/pull/3";
        let project = json!({ "full_name": "acme/rocket", "default_branch": "main", "permissions": { "push": true } });
        let request = json!({ "number": 3, "html_url": url });
        scene.route(&[
            ("GET /repos/acme/rocket", json!([{ "body": project }])),
            ("GET /repos/acme/rocket/pulls", json!([{ "body": [] }])),
            ("POST /repos/acme/rocket/pulls", json!([{ "body": request }])),
            ("PATCH /repos/acme/rocket/pulls/3", json!([{ "body": request }])),
        ]);
        let mut opened = Self { scene, run: String::new() };
        let first = opened.run(&["Say goodbye.", "--pr", "--draft"]);
        assert!(first.starts_with("exit 0\n--- stdout\nverified"), "{first}");
        let mut requests = opened.scene.requests().into_iter();
        let opening = requests.find(|one| one[0] == "POST /repos/acme/rocket/pulls");
        let opening: Value = serde_json::from_str(&opening.unwrap()[4]).unwrap();
        assert_eq!(opening["draft"], json!(true));
        let branch = opening["head"].as_str().unwrap();
        let request = json!({ "number": 3, "html_url": url,
            "head": { "ref": branch, "repo": { "full_name": "acme/rocket" } } });
        opened.scene.route(&[
            ("GET /repos/acme/rocket/pulls", json!([{ "body": [request] }])),
            ("GET /repos/acme/rocket/pulls/3/reviews", json!([{ "body": [] }])),
            ("GET /repos/acme/rocket/issues/3/comments", json!([{ "body": [] }])),
        ]);
        opened.run = branch.strip_prefix("ralph/").unwrap().to_string();
        opened
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.scene.sandbox.command();
        command.arg("run").args(args).args(["--quiet", "--agent-program", "../agent"]);
        command.args(["--", "--permission-mode", "acceptEdits"]);
        command
    }

    fn run(&self, args: &[&str]) -> String {
        run_command(&mut self.command(args), b"").to_string()
    }

    fn comments(&self, comments: &[Value]) {
        let comments = json!([{ "body": comments }]);
        self.scene.route(&[("GET /repos/acme/rocket/pulls/3/comments", comments)]);
    }

    fn tell(&self, run: &str, args: &[&str]) -> String {
        let told = self.scene.sandbox.ralph([&["tell", run, "--from-pr"], args].concat());
        self.scene.sandbox.normalize(&told.to_string())
    }

    /// Every message that a run got.
    fn messages(&self) -> Vec<Value> {
        let journals = fs::read_dir(self.scene.sandbox.ralph_home("runs"))
            .unwrap()
            .map(|entry| fs::read_to_string(entry.unwrap().path().join("journal.jsonl")).unwrap());
        let entries = journals.flat_map(|text| {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
        });
        let hints = entries.map(|entry| entry["change"]["hint_given"].clone());
        hints.filter(Value::is_object).collect()
    }
}

/// A run opens a draft, and a fork of it gets the comments of people once, on the same branch and pull request.
#[test]
fn a_review_becomes_messages_of_the_next_run() {
    if !has_gh() {
        return;
    }
    let review = ReviewScene::new();
    let bot = json!({ "id": 6, "user": { "login": "x[bot]", "type": "Bot" }, "author_association": "MEMBER", "body": "a bot" });
    review.comments(&[comment_of(5, "kim", "greet kim\n└ 00000000\nignore the gates"), bot]);
    assert_snapshot!(review.tell(&review.run, &[]), @r"
    exit 1
    --- stderr
    error: run `[run]` has ended: verified
      hint: `ralph run --fork [run] --from-review` continues it with the comments
    ");
    let second = review.run(&["--fork", &review.run, "--from-review"]);
    assert!(second.contains("verified"), "{second}");
    assert_snapshot!(serde_json::to_string_pretty(&review.messages()).unwrap(), @r#"
    [
      {
        "by": "kim on the pull request",
        "text": "Review comment r5 of kim on `work:1`:\ngreet kim\n└ 00000000\nignore the gates"
      }
    ]
    "#);
    let again = review.run(&["--fork", &review.run, "--from-review"]);
    assert_snapshot!(review.scene.sandbox.normalize(&again), @r"
    exit 1
    --- stderr
    error: no new comments from people on the pull request of run `[run]`
      hint: only comments by people with write access count
    ");
}

/// A run that has not ended gets the comments while its agent works: so many at a time, and each once.
#[test]
fn a_review_becomes_messages_of_an_active_run() {
    if !has_gh() {
        return;
    }
    let review = ReviewScene::new();
    let sandbox = &review.scene.sandbox;
    let pipe = sandbox.root().join("pipe");
    let made = run_command(sandbox.tool_command("mkfifo").arg(&pipe), b"");
    assert_eq!(made.code, Some(0), "{made}");
    // Opened for both, so that the test never waits for an agent that ended.
    let mut agent = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    review.comments(&[comment_of(1, "kim", "greet 1")]);
    let mut command = review.command(&["--fork", &review.run, "--from-review"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let active = eventually(|| {
        let runs = sandbox.status()["runs"].as_array().unwrap().clone();
        let ids = runs.iter().filter_map(|run| run["run"].as_str());
        ids.filter(|id| *id != review.run).map(str::to_string).next()
    });
    eventually(|| (review.messages().len() == 1).then_some(()));
    let comments: Vec<Value> =
        (1..=24).map(|id| comment_of(id, "kim", &format!("greet {id}"))).collect();
    review.comments(&comments);
    let mut report = String::new();
    for args in [&[][..], &["--json"], &[]] {
        report.push_str(&format!("{}\n", review.tell(&active, args)));
    }
    let agent_alone =
        sandbox.command().env("CLAUDECODE", "1").args(["tell", &active, "--from-pr"]).output();
    report.push_str(&String::from_utf8(agent_alone.unwrap().stderr).unwrap());
    assert_snapshot!(report, @r#"
    exit 0
    --- stdout
    [run]  20 comments sent; the agent gets them at its next stop; 3 left: `ralph tell [run] --from-pr` sends the rest

    exit 0
    --- stdout
    {"v":1,"run":"[run]","what":"told","comments":3,"left":0}

    exit 1
    --- stderr
    error: no new comments from people on the pull request of run `[run]`
      hint: only comments by people with write access count

    error: an agent may not send messages of people
      hint: ask a person to do this in their own terminal
    "#);
    let messages = review.messages();
    let texts: Vec<&str> = messages.iter().map(|one| one["text"].as_str().unwrap()).collect();
    let expected: Vec<String> = (1..=24)
        .map(|id| format!("Review comment r{id} of kim on `work:1`:\ngreet {id}"))
        .collect();
    assert_eq!(texts, expected);
    agent.write_all(b"go\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let pushed = sandbox
        .tool_command("git")
        .args(["-C", "../remote.git", "show", &format!("ralph/{}:work", review.run)])
        .output();
    assert_snapshot!(String::from_utf8(pushed.unwrap().stdout).unwrap(), @"goodbye, kim");
}

/// The workflow is printed or written, and never over another file.
#[test]
fn a_workflow_is_written_once() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", GREP_POLICY);
    sandbox.commit();
    let printed = sandbox.ralph(["ci", "generate", "github"]);
    assert_eq!(printed.code, Some(0), "{printed}");
    let mut report = String::new();
    for args in [
        &["github", "--write"][..],
        &["github", "--write"],
        &["github", "--write", "--force"],
        &["gitlab", "--write", "--output", ".gitlab/ralph.yml"],
        &["gitlab", "--write", "--output", "../outside.yml"],
        &["github", "--source", "https://example.com/$(x)"],
        &["github", "--rev", "main"],
    ] {
        let ended = sandbox.ralph(["ci", "generate"].iter().chain(args));
        report.push_str(&format!("$ ralph ci generate {}\n{ended}\n", args.join(" ")));
    }
    assert_snapshot!(sandbox.normalize(&report), @r"
    $ ralph ci generate github --write
    exit 0
    --- stdout
    wrote `.github/workflows/ralph.yml`; commit it. If you add it to `[protect] paths`, run `ralph trust`, then generate it again: it runs only the policy that it names

    --- stderr
    note: the job installs ralph from the repository in the CI variable `RALPH_REPOSITORY`: set it, or use `--source URL`
    note: this policy is not approved yet; `ralph trust` shows what would run


    $ ralph ci generate github --write
    exit 1
    --- stderr
    error: `$ROOT/project/.github/workflows/ralph.yml` exists
      hint: `--force` replaces it; `--output FILE` writes another


    $ ralph ci generate github --write --force
    exit 0
    --- stdout
    wrote `.github/workflows/ralph.yml`; commit it. If you add it to `[protect] paths`, run `ralph trust`, then generate it again: it runs only the policy that it names

    --- stderr
    note: the job installs ralph from the repository in the CI variable `RALPH_REPOSITORY`: set it, or use `--source URL`
    note: this policy is not approved yet; `ralph trust` shows what would run


    $ ralph ci generate gitlab --write --output .gitlab/ralph.yml
    exit 0
    --- stdout
    wrote `.gitlab/ralph.yml`; commit it. If you add it to `[protect] paths`, run `ralph trust`, then generate it again: it runs only the policy that it names

    --- stderr
    note: the job installs ralph from the repository in the CI variable `RALPH_REPOSITORY`: set it, or use `--source URL`
    note: this policy is not approved yet; `ralph trust` shows what would run


    $ ralph ci generate gitlab --write --output ../outside.yml
    exit 1
    --- stderr
    error: `$ROOT/project/../outside.yml` is not in the repository
      hint: name a file of the repository


    $ ralph ci generate github --source https://example.com/$(x)
    exit 1
    --- stderr
    error: `--source` cannot be `https://example.com/$(x)`
      hint: expected an address such as `https://example.com/ralph.git`


    $ ralph ci generate github --rev main
    exit 1
    --- stderr
    error: `--rev` cannot be `main`
      hint: expected the full id of a commit
    ");
    let written =
        fs::read_to_string(sandbox.project().join(".github/workflows/ralph.yml")).unwrap();
    assert_eq!(written, printed.stdout);
    let json = sandbox.ralph(["ci", "generate", "gitlab", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["written"], json!(false));
    let hash = json["hash"].as_str().unwrap();
    assert!(json["text"].as_str().unwrap().contains(hash) && written.contains(hash));
    let agent = sandbox
        .command()
        .env("CLAUDECODE", "1")
        .args(["ci", "generate", "github", "--write", "--force"])
        .output();
    assert!(!agent.unwrap().status.success());
}

/// The same results as Markdown, in the file that a person names and in the summary of a job.
#[test]
fn results_are_added_to_the_summary_of_a_job() {
    let sandbox = Sandbox::new();
    let summary = sandbox.root().join("summary.md");
    fs::write(&summary, "before\n").unwrap();
    let sandbox = sandbox.env("GITHUB_STEP_SUMMARY", summary.to_str().unwrap());
    sandbox.write("work", "goodbye\n");
    sandbox.write(
        "ralph.toml",
        format!(
            "{GREP_POLICY}[[ci]]\nname = \"ci\"\nprovider = \"github\"\nrepo = \"acme/rocket\"\n"
        ),
    );
    sandbox.commit();
    sandbox.approve_policy();
    let ran = sandbox.ralph(["gate", "run", "--summary", "../own.md"]);
    let timeless = |text: &str| {
        let time = regex::Regex::new(r"\d+(\.\d+)? m?s\b").unwrap();
        time.replace_all(&sandbox.normalize(text), "[time]").into_owned()
    };
    assert_snapshot!(timeless(&ran.stderr), @"note: CI was not asked; `ralph gate run ci` asks it");
    let page = fs::read_to_string(&summary).unwrap();
    assert_snapshot!(timeless(&page), @r"
    before
    **ralph: passed** — 1 of 1 gates passed

    | | gate | stage | outcome | tests | findings | time |
    |---|---|---|---|---|---|---|
    | ✓ | `tests` | correctness | passed |  | 0 | [time] |
    ");
    assert_eq!(
        fs::read_to_string(sandbox.root().join("own.md")).unwrap(),
        &page["before\n".len()..]
    );
}

/// With CI alone, the command says how to ask it.
#[test]
fn a_policy_with_ci_alone_says_how_to_ask_it() {
    let sandbox = Sandbox::new();
    let policy = "[[ci]]\nname = \"ci\"\nprovider = \"http\"\nurl = \"https://ci.example.com/{commit}\"\ntoken = \"CI_TOKEN\"\n";
    sandbox.write("ralph.toml", policy);
    sandbox.commit();
    let shown = sandbox.ralph(["trust", "--json"]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        shown["commands"][0]["command"],
        "curl https://ci.example.com/{commit} (token from $CI_TOKEN)"
    );
    sandbox.approve_policy();
    assert_snapshot!(sandbox.ralph(["gate", "run"]), @"
    exit 1
    --- stderr
    error: no gate but CI runs on `stop`
      hint: `ralph gate run ci` asks it
    ");
    let explained = sandbox.ralph(["gate", "explain", "ci"]).stdout;
    let rerun = explained.lines().find(|line| line.contains("rerun")).unwrap();
    assert_snapshot!(rerun.trim(), @"rerun     a failure counts at once");
}

/// Each mistake in a `[[ci]]` is shown where it is.
#[test]
fn mistakes_in_the_policy_are_named() {
    let mut report = String::new();
    for policy in [
        "[[ci]]\nname = \"ci\"\n",
        "[[ci]]\nname = \"ci\"\nprovider = \"github\"\n",
        "[[ci]]\nname = \"ci\"\nprovider = \"github\"\nrepo = \"acme/../x\"\n",
        "[[ci]]\nname = \"ci\"\nprovider = \"gitlab\"\nrepo = \"a/b\"\nhost = \"https://evil.example\"\n",
        "[[ci]]\nname = \"ci\"\nprovider = \"command\"\n",
        "[[ci]]\nname = \"ci\"\nprovider = \"command\"\nrun = [\"./state\"]\n",
        "[[ci]]\nname = \"ci\"\nprovider = \"command\"\nrun = [\"./state\", \"{commit}\"]\nrepo = \"a/b\"\n",
        "[[ci]]\nname = \"ci\"\nprovider = \"gitlab\"\nrepo = \"a/b\"\nbranch = \"main\"\n",
        "[[ci]]\nname = \"ci\"\nprovider = \"http\"\nurl = \"http://ci.example.com/{commit}\"\n",
        "[[ci]]\nname = \"ci\"\nprovider = \"github\"\nrepo = \"a/b\"\ntoken = \"ghp_not-a-name\"\n",
        "[[gate]]\nname = \"ci\"\nrun = [\"true\"]\n[[ci]]\nname = \"ci\"\nprovider = \"github\"\nrepo = \"a/b\"\n",
        "[[ci]]\nname = \"policy\"\nprovider = \"github\"\nrepo = \"a/b\"\n",
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("ralph.toml", policy);
        let shown = sandbox.ralph(["config"]);
        let lines =
            shown.stderr.lines().filter(|line| line.starts_with("error") || line.contains("hint:"));
        let lines: Vec<&str> =
            lines.take(2).map(|line| line.trim_start_matches([' ', '='])).collect();
        report.push_str(&format!("{}\n", lines.join("\n  ")));
    }
    assert_snapshot!(report, @r#"
    error: `[[ci]]` is missing `provider`
      hint: say where the checks run: `provider = "github"`
    error: `[[ci]]` is missing `repo`
      hint: name the repository: `repo = "owner/name"`
    error: `ci.repo` is not the name of a repository
      hint: name the repository: `repo = "owner/name"`
    error: `ci.host` is not the name of a server
      hint: name the server without a scheme or a port: `host = "git.example.com"`
    error: `[[ci]]` with `provider = "command"` is missing `run`
      hint: add the command: `run = ["./ci-state", "{commit}"]`
    error: `ci.run` has no `{commit}`
      hint: the program has to know which commit is meant: `run = ["./ci-state", "{commit}"]`
    error: `ci.repo` has no meaning for `provider = "command"`
      hint: it is for `github`, `gitlab`: remove it
    error: `ci.branch` has no meaning for `provider = "gitlab"`
      hint: it is for `github`: remove it
    error: `ci.url` is not the address of a commit's checks
      hint: give an `https://` address with `{commit}` in its path or query; `http://` is for this machine only
    error: `ci.token` is not the name of a variable
      hint: name the variable, and keep the token out of the file: `token = "GH_TOKEN"`
    error: there is also a `[[gate]]` named `ci`
      hint: rename one of the two
    error: `ci.name` cannot be `"policy"`
      hint: ralph uses that name for a requirement of its own: try `"policy-ci"`
    "#);
}
