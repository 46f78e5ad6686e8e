//! Judges outside of a stop: approved, asked by hand, and named when a run starts.

use crate::adjustments::mask_judge_times;
use crate::judges::{JudgedProject, LONGER_SUM, OTHER_SUM, REVIEW, met, unmet};
use crate::prove::adder;
use crate::sandbox::SESSION;
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;

/// What a person approves: the command, the endpoint and the name of its key, and the text of a prompt.
#[test]
fn an_approval_covers_judges() {
    let sandbox = adder();
    let http = "[[judge]]\nname = \"remote\"\nkind = \"goal\"\nprompt = \"goal.md\"\n\
        backend = { http = \"https://api.example.org\", key = \"EXAMPLE_API_KEY\", model = \"m-1\" }\n";
    sandbox.write("goal.md", "Is the goal met?\n");
    let project = JudgedProject::of(sandbox, &format!("{REVIEW}{http}"));
    let shown: Value =
        serde_json::from_str(&project.sandbox.ralph(["trust", "--json"]).stdout).unwrap();
    let names = |list: &str, key: &str| -> Vec<String> {
        let list = shown[list].as_array().unwrap().iter();
        list.map(|one| one[key].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(
        names("commands", "command").iter().skip(1).collect::<Vec<_>>(),
        ["sh judge.sh", "POST https://api.example.org (model m-1, key from $EXAMPLE_API_KEY)"]
    );
    assert_eq!(names("called", "name"), ["ralph.toml", "goal.md", "judge.sh", "suite.sh"]);
    assert_eq!(
        shown["judges"][1],
        json!({ "name": "remote", "kind": "goal", "required": true, "counts": false,
            "backend": { "http": { "url": "https://api.example.org", "key": "EXAMPLE_API_KEY",
                "model": "m-1", "api": "anthropic" } },
            "prompt": "goal.md", "max_tokens": 20000, "timeout_ms": 300_000, "reviewers": 2,
            "when": [], "min_complexity": 0 })
    );
    let text = project.sandbox.ralph(["trust"]).stdout;
    let sections = text.split("\nthe hash covers").next().unwrap();
    assert_snapshot!(project.mask(sections), @"
    $ROOT/project

    gates:
      suite
        sh suite.sh
        sh → /usr/bin/sh

    they run with CI=true (`[environment] ci = false` leaves it out)

    judges:
      review
        sh judge.sh
        prompt, required, at most 20 k tokens and 5 min for a verdict
        sh → /usr/bin/sh
      remote
        POST https://api.example.org (model m-1, key from $EXAMPLE_API_KEY)
        goal, required, at most 20 k tokens and 5 min for a verdict, instructions from `goal.md`
        curl → /usr/bin/curl
    ");
    assert_snapshot!(project.mask(&project.sandbox.ralph(["list", "gates"]).stdout), @"
    correctness
      suite            `sh suite.sh`
    judges
      review           `sh judge.sh`  (prompt, required, at most 20 k tokens and 5 min for a verdict)
      remote           `POST https://api.example.org (model m-1, key from $EXAMPLE_API_KEY)`  (goal, required, at most 20 k tokens and 5 min for a verdict, instructions from `goal.md`)
    ");
    let listed: Value =
        serde_json::from_str(&project.sandbox.ralph(["list", "gates", "--json"]).stdout).unwrap();
    assert_eq!(listed["judges"], shown["judges"]);
    let checked = project.sandbox.ralph(["doctor"]).stdout;
    let about = ["policy", "tools", "judge"];
    let lines = checked.lines().skip_while(|line| !line.contains(" policy "));
    let lines = lines.filter(|line| about.iter().any(|name| line.contains(&format!(" {name} "))));
    assert_snapshot!(project.mask(&lines.collect::<Vec<_>>().join("\n")), @"
    ✓ policy      `$ROOT/project/ralph.toml`, 1 gate, 2 judges
    ✓ trust       a person approved what the policy runs
    ✓ tools       every gate's program was found
    ✓ judge       review: `sh judge.sh` (prompt, required, at most 20 k tokens and 5 min for a verdict)
    ✗ judge       remote: `POST https://api.example.org (model m-1, key from $EXAMPLE_API_KEY)` (goal, required, at most 20 k tokens and 5 min for a verdict, instructions from `goal.md`); $EXAMPLE_API_KEY is not set in this shell
    ");
    let policy = fs::read_to_string(project.sandbox.project().join("ralph.toml")).unwrap();
    let advisory = policy
        .replace("name = \"remote\"\n", "name = \"remote\"\nrequired = false\n")
        .replace("[\"sh\", \"judge.sh\"]", "[\"no-such-judge\"]")
        .replace("name = \"review\"\n", "name = \"review\"\nrequired = false\n");
    project.sandbox.write("ralph.toml", advisory);
    let checked = project.sandbox.ralph(["doctor"]).stdout;
    let marks = checked
        .lines()
        .filter(|line| [" tools ", " judge "].iter().any(|name| line.contains(name)));
    let marks: Vec<_> = marks.map(|line| line.split(" (").next().unwrap()).collect();
    assert_snapshot!(marks.join("\n"), @"
    ? tools       not found: `no-such-judge` for judge `review`
    ✓ judge       review: `no-such-judge`
    ? judge       remote: `POST https://api.example.org
    ");
    project.sandbox.write("ralph.toml", policy);
    project.sandbox.write("goal.md", "Say met.\n");
    let after: Value =
        serde_json::from_str(&project.sandbox.ralph(["trust", "--json"]).stdout).unwrap();
    assert_ne!(shown["hash"], after["hash"]);
    assert_eq!(after["status"], "untrusted");
}

/// Judges can be asked by hand, without a run.
#[test]
fn judges_are_asked_by_hand() {
    let project = JudgedProject::new(REVIEW);
    let run = |args: &[&str]| {
        let ended = project.sandbox.ralph(["judge", "run"].iter().chain(args));
        mask_judge_times(&project.mask(&ended.to_string()))
    };
    assert_snapshot!(run(&[]), @"
    exit 1
    --- stderr
    error: nothing changed since `HEAD`
      hint: name another base: `--base main`
    ");
    project.sandbox.write("add.sh", LONGER_SUM);
    project.answer(&unmet("sum=0; for one; do"));
    assert_snapshot!(run(&["review"]), @r#"
    exit 1
    --- stderr
    error: no goal is given, no run is active here, and there is no commit since `HEAD`
      hint: say what the change is for: `--goal "…"`
    "#);
    assert_eq!(project.calls(), 0, "no judge is asked about a goal that is not stated");
    assert_snapshot!(run(&["review", "--goal", "add all arguments"]), @"
    exit 1
    --- stdout
    ✗ review: prompt judge: unmet, 1 finding, 1 misquoted and dropped; model-1, prompt [hash], 1 call, 1.2 k tokens, $0.0042, [took]
        add.sh:1: negative numbers are lost
        dropped: add.sh:9: made up (its quote is not in the file)

    --- stderr
    goal: add all arguments
    review: its command runs in a checkout of `HEAD`
    review: asking for a verdict
    ");
    project.answer_text("?");
    let message = "Add all arguments\n\nNot only two.";
    let author = ["-c", "user.name=kim", "-c", "user.email=kim@example.org"];
    project.sandbox.git(&[&author[..], &["commit", "--quiet", "-am", message]].concat());
    assert_snapshot!(run(&["review", "--base", "HEAD^"]), @r#"
    exit 4
    --- stdout
    ? review: prompt judge: unknown: the answer has no JSON object with a verdict: "?"; prompt [hash], 1 call, [took]

    --- stderr
    goal, from the messages of the commits: Add all arguments Not only two.
    review: its command runs in a checkout of `HEAD^`
    review: asking for a verdict
    "#);
    project.answer(&met());
    assert_snapshot!(run(&["review", "--base", "nosuch"]), @"
    exit 1
    --- stderr
    error: git knows no commit `nosuch`
      hint: a judge compares with a commit: `--base main`
    ");
    assert_snapshot!(run(&["revue"]), @"
    exit 1
    --- stderr
    error: there is no judge `revue`
      hint: did you mean `review`?
    ");
    let started = project.sandbox.start_run(["--goal-file", "-"]);
    project.sandbox.write("add.sh", OTHER_SUM);
    let shown: Value =
        serde_json::from_str(&project.sandbox.ralph(["judge", "run", "--json"]).stdout).unwrap();
    assert_eq!(shown["goal"], json!({ "text": "make it work", "from": "run", "run": started }));
    assert_eq!(project.case()["goal"], "make it work");
    assert_eq!(shown["judges"][0]["outcome"], "met");
    assert_eq!(shown["judges"][0]["required"], true);
}

/// A cost is exact only if every call reported its own.
#[test]
fn an_estimated_cost_is_marked() {
    let judge = REVIEW.replace("\"prompt\"", "\"adversarial\"\nreviewers = 3");
    let project = JudgedProject::new(&judge);
    let root = project.sandbox.root().display().to_string();
    let script = format!(
        "cat > /dev/null\necho call >> {root}/calls\n[ \"$(wc -l < {root}/calls)\" -gt 1 ] || exec cat {root}/answer.json\necho '{{\"verdict\": \"met\"}}'\n"
    );
    project.sandbox.write("judge.sh", script);
    project.sandbox.approve_policy();
    project.sandbox.commit();
    // In a fence, behind prose, and with a field that is no number.
    let answer = r#"{"verdict": "met", "model": 7, "usage": {"input_tokens": 1000, "output_tokens": 80.5, "micro_usd": 1000000.5}}"#;
    project.answer_text(&format!("All is well.\n```json\n{answer}\n```\n"));
    project.sandbox.write("add.sh", LONGER_SUM);
    let ended = project.sandbox.ralph(["judge", "run", "--goal", "add all arguments"]);
    let shown = mask_judge_times(&project.mask(&ended.stdout));
    let cost = regex::Regex::new(r"[0-9.]+ k tokens, ≈ \$[0-9.]+").unwrap();
    assert_snapshot!(cost.replace_all(&shown, "[tokens], ≈ $$[cost]"), @"✓ review: adversarial judge: met; prompt [hash], 3 calls, [tokens], ≈ $[cost], [took]");
}

/// A judge that cannot be asked has no verdict; those of the others are printed.
#[test]
fn a_judge_that_cannot_be_asked_hides_no_verdict() {
    let planned = REVIEW.replace("review", "planned").replace("\"prompt\"", "\"plan\"");
    let project = JudgedProject::new(&format!("{REVIEW}{planned}"));
    project.sandbox.write("add.sh", LONGER_SUM);
    project.answer(&met());
    let ended = project.sandbox.ralph(["judge", "run", "--goal", "Add all arguments"]);
    assert_snapshot!(mask_judge_times(&project.mask(&ended.to_string())), @"
    exit 4
    --- stdout
    ✓ review: prompt judge: met; model-1, prompt [hash], 1 call, 1.2 k tokens, $0.0042, [took]
    ? planned: plan judge: unknown: there is no `PLAN.md` to compare with

    --- stderr
    goal: Add all arguments
    review: its command runs in a checkout of `HEAD`
    review: asking for a verdict
    ");
    let shown: Value = serde_json::from_str(
        &project.sandbox.ralph(["judge", "run", "--goal", "x", "--json"]).stdout,
    )
    .unwrap();
    let outcomes: Vec<_> = [0, 1].map(|at| &shown["judges"][at]["outcome"]).to_vec();
    assert_eq!(outcomes, ["met", "unknown"]);
}

/// R-L7a: a person learns at the start of a run that a judge can never give a verdict.
#[test]
fn a_start_names_judges_that_cannot_give_a_verdict() {
    let planned = REVIEW.replace("review", "planned").replace("\"prompt\"", "\"plan\"");
    let small = REVIEW.replace("review", "small") + "max_tokens = 50\n";
    let advisory = planned.replace("planned", "advice") + "required = false\n";
    let ignored = REVIEW.replace("review", "ignored").replace("judge.sh", "private.sh");
    let remote = "[[judge]]\nname = \"remote\"\nkind = \"prompt\"\nrequired = false\nbackend = { http = \"https://api.example.org\", key = \"EXAMPLE_API_KEY\", model = \"m-1\" }\n";
    let host =
        REVIEW.replace("review", "absent").replace("[\"sh\", \"judge.sh\"]", "[\"no-such-judge\"]");
    let judges =
        format!("{REVIEW}{planned}{small}{advisory}{ignored}{remote}{host}required = false\n");
    let notes = |project: &JudgedProject, session: &str| {
        let args = ["start", "make it work", "--yes", "--session", session];
        let started = project.sandbox.ralph(args).stdout;
        let notes = started.lines().filter(|line| line.trim_start().starts_with("note"));
        notes.map(str::trim_start).collect::<Vec<_>>().join("\n")
    };
    let sandbox = adder();
    sandbox.write(".gitignore", "private.sh\n");
    sandbox.write("private.sh", "cat answer.json\n");
    let project = JudgedProject::of(sandbox, &judges);
    assert_snapshot!(notes(&project, "one"), @"
    note    judge absent needs `no-such-judge`, which was not found
    note    judge remote needs $EXAMPLE_API_KEY, which is not set here
    note    judge planned cannot give a verdict: there is no plan to compare with: start the run with `--plan FILE`, or with a `PLAN.md`
    note    judge small cannot give a verdict: max_tokens = 50 leaves no room for the facts
    note    judge ignored cannot give a verdict: `private.sh` is not in the checkout of the base: commit it before the run starts, or keep it outside of the project
    ");
    project.sandbox.ralph(["cancel"]);
    project.sandbox.write("PLAN.md", "- [x] add any number of arguments\n");
    assert_snapshot!(notes(&project, "two"), @"
    note    judge absent needs `no-such-judge`, which was not found
    note    judge remote needs $EXAMPLE_API_KEY, which is not set here
    note    judge small cannot give a verdict: max_tokens = 50 leaves no room for the facts
    note    judge ignored cannot give a verdict: `private.sh` is not in the checkout of the base: commit it before the run starts, or keep it outside of the project
    ");
}

/// A person learns before the approval and at the start of a run that an agent can answer on the loopback.
#[test]
fn services_on_the_loopback_are_pointed_out() {
    let services = "[[judge]]\nname = \"local\"\nkind = \"prompt\"\n\
        backend = { http = \"http://127.0.0.1:8080\", model = \"m-1\" }\n\
        [[judge]]\nname = \"remote\"\nkind = \"prompt\"\n\
        backend = { http = \"https://api.example.org\", model = \"m-1\" }\n\
        [[ci]]\nname = \"ci\"\nprovider = \"http\"\nurl = \"http://localhost/{commit}\"\n";
    let project = JudgedProject::new(services);
    let text = project.sandbox.ralph(["trust"]).stdout;
    let (_, sections) = text.split_once("CI checks:").unwrap();
    let sections = sections.split("\nthe hash covers").next().unwrap();
    let started = project.sandbox.ralph(["start", "make it work", "--yes", "--session", SESSION]);
    let notes = started.stdout.lines().filter(|line| line.trim_start().starts_with("note"));
    let notes = notes.map(str::trim_start).collect::<Vec<_>>().join("\n");
    assert_snapshot!(format!("{sections}\n{notes}"), @"

      ci
        curl http://localhost/{commit}
        checks that the default branch requires, or all, asked every 10 s for at most 30 min
        a process of the agent can answer at localhost
        curl → /usr/bin/curl

    judges:
      local
        POST http://127.0.0.1:8080 (model m-1)
        prompt, required, at most 20 k tokens and 5 min for a verdict
        a process of the agent can answer at 127.0.0.1:8080
        curl → /usr/bin/curl
      remote
        POST https://api.example.org (model m-1)
        prompt, required, at most 20 k tokens and 5 min for a verdict
        curl → /usr/bin/curl

    note    judge local asks `127.0.0.1:8080`, where a process of the agent can answer
    note    gate ci asks `localhost`, where a process of the agent can answer
    ");
}
