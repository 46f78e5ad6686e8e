//! `ralph import`: directories as other loop tools leave them, the output, and the created files.

use crate::sandbox::{Sandbox, read_files, write_program};
use insta::assert_snapshot;
use ralph_core::source::feature_list;
use std::fmt::Write;
use std::fs;

/// A project on a machine where npm, cargo and go are installed.
fn project_with_sources(sources: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::without_git("project");
    let bin = sandbox.root().join("bin");
    for name in ["npm", "cargo", "go"] {
        write_program(&bin.join(name), "#!/bin/sh\ntouch was-run\n");
    }
    for (path, text) in sources {
        sandbox.write(path, text);
    }
    let path = bin.display().to_string();
    sandbox.env("PATH", &path)
}

/// Imports, and returns the output and every new file. Asserts that the sources are unchanged, that no tool was run and
/// that the list can be read.
fn import_and_show(sources: &[(&str, &str)], args: &[&str]) -> String {
    let sandbox = project_with_sources(sources);
    let ended = sandbox.ralph([&["import", "--yes"], args].concat());
    let mut out = sandbox.normalize(&ended.to_string());
    for (path, bytes) in read_files(sandbox.project()) {
        let name = path.strip_prefix(sandbox.project()).unwrap().to_str().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        match sources.iter().find(|(source, _)| *source == name) {
            Some((_, before)) => assert_eq!(text, *before, "{name} is unchanged"),
            None => write!(out, "\n=== {name}\n{text}").unwrap(),
        }
        if name.ends_with("feature_list.json") && name.starts_with(".claude") {
            let features = feature_list::read_features(text.as_bytes()).unwrap().features;
            assert_ne!(features, []);
        }
        assert_ne!(name, "was-run");
    }
    out
}

const PRD_JSON: &str = r#"{
  "project": "MyApp",
  "branchName": "ralph/task-priority",
  "description": "Add priority levels to tasks",
  "userStories": [
    {"id": "US-002", "title": "Show priority", "acceptanceCriteria": ["A badge is shown"], "priority": 2, "passes": false, "notes": ""},
    {"id": "US-001", "title": "Store priority", "acceptanceCriteria": ["A column is there"], "priority": 1, "passes": true, "notes": "migration 7"}
  ]
}
"#;

#[test]
fn a_prd_with_stories_and_progress() {
    let progress = "## Codebase Patterns\n- Use `sql`\n---\n- Status: COMPLETE\n";
    let out = import_and_show(&[("prd.json", PRD_JSON), ("progress.txt", progress)], &[]);
    assert_snapshot!(out);
}

#[test]
fn a_prd_with_dependencies_between_stories() {
    let prd = r#"{"name": "Merge Outputs", "userStories": [
        {"id": "T-3", "title": "Merge", "dependsOn": ["T-1", "T-2"], "labels": ["final"]},
        {"id": "T-1", "title": "One", "completionCriteria": ["npm test -- one"]},
        {"id": "T-2", "title": "Two", "completionCriteria": ["npm test -- two && npm run lint"]}]}"#;
    assert_snapshot!(import_and_show(&[("tasks/prd.json", prd)], &[]));
}

#[test]
fn a_feature_list() {
    let list = r#"[{"category": "functional", "description": "New chat", "steps": ["Open", "Click"], "passes": true},
        {"category": "style", "description": "Dark mode", "steps": [], "passes": false}]"#;
    let out = import_and_show(
        &[("feature_list.json", list), ("claude-progress.txt", "Session 1: began\n")],
        &["--name", "chat"],
    );
    assert_snapshot!(out, @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `feature_list.json` (features)
        understood  2 items · 1 done · 0 checks

    ✓ `claude-progress.txt` (progress)
        understood  progress so far

    1 of 2 marked as passing: claims until their checks pass

    create `.claude/data/ralph-loops/chat/RALPH_PROMPT.md`, 3 lines
    create `.claude/data/ralph-loops/chat/feature_list.json`, 21 lines
    create `.claude/data/ralph-loops/chat/progress.txt`, 8 lines

    created 3 files; `rm -r .claude/data/ralph-loops/chat` removes all of it
    next: `ralph run --loop chat`
    next: `/ralph:goal --features .claude/data/ralph-loops/chat` in the agent's session instead

    === .claude/data/ralph-loops/chat/RALPH_PROMPT.md
    # chat

    Make every feature in `feature_list.json`, next to this file, pass: in order, one at a time.

    === .claude/data/ralph-loops/chat/feature_list.json
    {
      "features": [
        {
          "id": "1",
          "description": "New chat",
          "steps": [
            "Open",
            "Click"
          ],
          "passes": true,
          "category": "functional"
        },
        {
          "id": "2",
          "description": "Dark mode",
          "steps": [],
          "passes": false,
          "category": "style"
        }
      ]
    }

    === .claude/data/ralph-loops/chat/progress.txt
    # Progress of chat

    - Iteration: 0
    - Status: IN_PROGRESS

    ## Earlier progress, from `claude-progress.txt`

    Session 1: began
    "#);
}

#[test]
fn a_fix_plan_with_settings() {
    let plan = "# Fix Plan\n\n## High Priority\n- [ ] Parse `a`\n- [x] Write tests\n\n## Optional\n- [ ] Polish\n";
    let settings = "# Settings\nPROJECT_NAME=\"chronovault\"\nMAX_CALLS_PER_HOUR=300\nCB_NO_PROGRESS_THRESHOLD=5\n";
    let out = import_and_show(
        &[
            (".ralph/fix_plan.md", plan),
            (".ralphrc", settings),
            (".ralph/PROMPT.md", "You are Ralph. Work on the plan.\n"),
        ],
        &[],
    );
    assert_snapshot!(out);
}

#[test]
fn the_state_file_of_the_official_plugin() {
    let state = "---\nactive: true\niteration: 4\nsession_id: 5999882c\nmax_iterations: 30\ncompletion_promise: \"ALL TESTS PASS\"\nstarted_at: \"2026-01-03T00:20:45Z\"\n---\n\nMake the tests pass.\n";
    assert_snapshot!(import_and_show(&[(".claude/ralph-loop.local.md", state)], &[]), @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `.claude/ralph-loop.local.md` (loop)
        understood  --max-iterations 30 --completion-promise "ALL TESTS PASS" · the goal
        left out    active, iteration, session_id, started_at: run state of the other tool

    create `.claude/data/ralph-loops/project/RALPH_PROMPT.md`, 5 lines
    create `.claude/data/ralph-loops/project/NOTES.md`, 10 lines

    created 2 files; `rm -r .claude/data/ralph-loops/project` removes all of it
    next: `ralph run --goal-file .claude/data/ralph-loops/project/RALPH_PROMPT.md --max-iterations 30`
    next: `/ralph:goal --max-iterations 30 --completion-promise "ALL TESTS PASS" Follow the instructions in .claude/data/ralph-loops/project/RALPH_PROMPT.md` in the agent's session instead

    === .claude/data/ralph-loops/project/NOTES.md
    # Notes

    Content that `ralph import` read and could not place elsewhere, verbatim.

    ## Not imported

    - `.claude/ralph-loop.local.md`: `active` true: run state of the other tool
    - `.claude/ralph-loop.local.md`: `iteration` 4: run state of the other tool
    - `.claude/ralph-loop.local.md`: `session_id` 5999882c: run state of the other tool
    - `.claude/ralph-loop.local.md`: `started_at` 2026-01-03T00:20:45Z: run state of the other tool

    === .claude/data/ralph-loops/project/RALPH_PROMPT.md
    # project

    Make the tests pass.

    Everything else from the imported files is in `NOTES.md`, next to this file.
    "#);
}

#[test]
fn a_spec_in_progress() {
    let tasks = "---\nspec: add-export\n---\n# Tasks\n\n## Phase 1\n- [x] 1.1 Write the parser\n  - **Verify**: `cargo test parser`\n- [ ] 1.2 [VERIFY] Check all of it\n";
    let state = r#"{"phase": "execution", "taskIndex": 1, "specName": "add-export", "maxGlobalIterations": 100}"#;
    let sources =
        [("specs/add-export/tasks.md", tasks), ("specs/add-export/.ralph-state.json", state)];
    assert_snapshot!(import_and_show(&sources, &[]));
}

#[test]
fn tasks_in_yaml_with_commands_and_boundaries() {
    let tasks = "tasks:\n  - title: Create the schema\n    completed: true\n    parallel_group: 1\n  - title: Log in\n    completed: false\n";
    let config = "project:\n  name: \"shop\"\ncommands:\n  test: \"npm test\"\n  lint: \"npm run lint\"\nrules:\n  - \"Never use any\"\nboundaries:\n  never_touch:\n    - \"*.lock\"\n";
    let out = import_and_show(&[("tasks.yaml", tasks), (".ralphy/config.yaml", config)], &[]);
    assert_snapshot!(out);
}

#[test]
fn a_plan_with_validation_commands() {
    let plan = "# Reader\n\n## Overview\nReplace the scanner.\n\n## Validation Commands\n- `go test ./...`\n- `rm -rf build`\n\n### Task 1: Read\n- [x] write it\n- [ ] test it\n";
    let out = import_and_show(&[("docs/plans/reader.md", plan)], &["docs/plans/reader.md"]);
    assert_snapshot!(out);
}

#[test]
fn a_task_with_a_test_command_and_guardrails() {
    let task = "---\ntask: Build a REST API\ntest_command: \"npm test\"\nmax_iterations: 50\n---\n\n# Task\n\n1. [ ] POST /tasks\n2. [x] GET /tasks\n";
    let out = import_and_show(
        &[("RALPH_TASK.md", task), (".ralph/guardrails.md", "### Sign: read first\n")],
        &["--name", "api"],
    );
    assert_snapshot!(out);
}

#[test]
fn orchestrator_settings() {
    let settings = "event_loop:\n  prompt_file: PROMPT.md\n  completion_promise: LOOP_COMPLETE\n  max_iterations: 100\n  max_runtime_seconds: 3600\nbackpressure:\n  gates:\n    - name: tests\n      command: cargo test --all\n      on_fail: Mend them.\ncli:\n  backend: claude\n";
    let out = import_and_show(&[("ralph.yml", settings), ("PROMPT.md", "Mend the parser.\n")], &[]);
    assert_snapshot!(out);
}

#[test]
fn a_plan_state() {
    let state = r#"{"version": "3", "plan_name": "Memory Overhaul", "phases": [{"phase_id": "w0", "phase_name": "Security"}],
        "barriers": {"tests_passing": true},
        "steps": [{"id": "W0.1", "phase": "w0", "name": "snapshot", "status": "completed", "evidence": "a.tar"},
                  {"id": "W0.2", "phase": "w0", "name": "migrate", "status": "pending"}]}"#;
    assert_snapshot!(import_and_show(&[(".claude/plan-state.json", state)], &[]));
}

/// An unreadable file does not prevent the import of the others. If all are unreadable, nothing is created.
#[test]
fn broken_sources_are_reported_and_fail_only_if_all_are_broken() {
    let half = &PRD_JSON[..200];
    let some = project_with_sources(&[("prd.json", half), ("fix_plan.md", "- [ ] mend it\n")]);
    let shown = some.ralph(["import", "--dry-run"]);
    assert_snapshot!(some.normalize(&shown.to_string()), @"
    exit 0
    --- stdout
    $ROOT/project

    ✗ `prd.json` was not read: line 6, column 69: EOF while parsing a value

    ✓ `fix_plan.md` (plan)
        understood  1 item · 0 done · 0 checks

    create `.claude/data/ralph-loops/project/RALPH_PROMPT.md`, 3 lines
    create `.claude/data/ralph-loops/project/feature_list.json`, 10 lines
    create `.claude/data/ralph-loops/project/progress.txt`, 4 lines

    nothing was created
    ");
    let all = project_with_sources(&[("prd.json", half), ("tasks.yaml", "a: [")]);
    let refused = all.ralph(["import", "--yes"]);
    assert_snapshot!(all.normalize(&refused.to_string()), @"
    exit 1
    --- stderr
    ✗ `prd.json` was not read: line 6, column 69: EOF while parsing a value

    ✗ `tasks.yaml` was not read: it is not valid YAML

    error: none of the files could be read
      hint: nothing was created; fix one of them, then try again
    ");
    let none = project_with_sources(&[]);
    let refused = none.ralph(["import", "--yes"]);
    assert_snapshot!(none.normalize(&refused.to_string()), @"
    exit 1
    --- stderr
    error: no loop files found in `$ROOT/project`
      hint: `ralph import --help` lists the files that it reads
    ");
    for sandbox in [some, all, none] {
        assert!(!sandbox.project().join(".claude").exists());
    }
}

const RULE_FOR_FILES: &str = "---\nname: no-env\nenabled: true\nevent: file\naction: block\nconditions:\n  - field: file_path\n    operator: regex_match\n    pattern: \\.env$\n---\nNo.\n";
const RULE_FOR_TEXT: &str = "---\nname: no console\nenabled: true\nevent: file\naction: block\npattern: console\\.log\\(\n---\nUse the \"logger\".\n";

/// The created policy is valid; an existing one is not changed, and what could be added to it is shown.
#[test]
fn rules_and_a_prompt_with_a_promise() {
    let sources = [
        ("PROMPT.md", "Do it.\n\nOutput LOOP_COMPLETE when done.\n"),
        (".claude/hookify.env.local.md", RULE_FOR_FILES),
        (".claude/hookify.log.local.md", RULE_FOR_TEXT),
    ];
    assert_snapshot!(import_and_show(&sources, &["--name", "rules"]));
    let sandbox = project_with_sources(&sources);
    assert_eq!(sandbox.ralph(["import", "--yes"]).code, Some(0));
    let shown = sandbox.ralph(["trust"]);
    assert_eq!(shown.code, Some(3), "the policy is valid and not approved: {shown}");
    let shown = sandbox.ralph(["import", "--dry-run", "--name", "again"]);
    let (_, shown) = shown.stdout.split_once("exists and is not changed").unwrap();
    assert_snapshot!(shown, @r#"
    ; this could be added:

    [protect]
    paths = ["**/*.env"]

    [[lines.pattern]]
    name = "no-console"
    pattern = "console\\.log\\("
    message = "Use the \"logger\"."

    nothing was created
    "#);
}

/// Nothing is created without `--yes`, and no existing file is overwritten.
#[test]
fn existing_files_are_not_overwritten() {
    let policy = "[[gate]]\nname = \"mine\"\nrun = [\"npm\", \"test\"]\n";
    let task = "---\ntest_command: npm run check\n---\n- [ ] one\n";
    let sandbox = project_with_sources(&[("ralph.toml", policy), ("RALPH_TASK.md", task)]);
    let unasked = sandbox.ralph(["import", "--name", "one"]);
    assert_eq!(unasked.code, Some(1), "{unasked}");
    assert!(!sandbox.project().join(".claude").exists());
    assert_eq!(sandbox.ralph(["import", "--name", "one", "--yes"]).code, Some(0));
    let before = read_files(&sandbox.project().join(".claude"));
    let again = sandbox.ralph(["import", "--name", "one", "--yes"]);
    assert_snapshot!(sandbox.normalize(&again.to_string()), @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `RALPH_TASK.md` (task)
        understood  1 item · 0 done · 0 checks · 1 command · the goal

    note: there is a loop `one` already, so this one is named `one-2`

    create `.claude/data/ralph-loops/one-2/RALPH_PROMPT.md`, 5 lines
    create `.claude/data/ralph-loops/one-2/feature_list.json`, 10 lines
    create `.claude/data/ralph-loops/one-2/progress.txt`, 4 lines

    `$ROOT/project/ralph.toml` exists and is not changed; this could be added:

    # `RALPH_TASK.md` declares it as a check
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["npm", "run", "check"]
    timeout = "20m"

    created 3 files; `rm -r .claude/data/ralph-loops/one-2` removes all of it
    next: `ralph trust`, after reviewing what it would run
    next: `ralph run --loop one-2`
    next: `/ralph:goal --features .claude/data/ralph-loops/one-2` in the agent's session instead
    "#);
    let after = read_files(&sandbox.project().join(".claude"));
    assert!(before.iter().all(|file| after.contains(file)));
    assert_eq!(fs::read_to_string(sandbox.project().join("ralph.toml")).unwrap(), policy);
    let bad = sandbox.ralph(["import", "--name", "current"]);
    assert_snapshot!(bad.stderr, @"
    error: `--name` cannot be `current`
      hint: expected lowercase letters, digits and `-`, but not `current`, which the first session to stop would take over
    ");
    let outside = sandbox.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir_all(sandbox.project().join(".claude")).unwrap();
    std::os::unix::fs::symlink(&outside, sandbox.project().join(".claude")).unwrap();
    let refused = sandbox.ralph(["import", "--name", "two", "--yes"]);
    assert_eq!((refused.code, read_files(&outside).len()), (Some(1), 0), "{refused}");
}

/// An agent may run `ralph import`, because it only creates files.
#[test]
fn json_output_is_one_object() {
    let sandbox = project_with_sources(&[("prd.json", PRD_JSON)]).env("CLAUDECODE", "1");
    let shown = sandbox.ralph(["import", "--json", "--dry-run"]);
    assert_snapshot!(sandbox.normalize(&shown.to_string()), @r##"
    exit 0
    --- stdout
    {"v":1,"project":"$ROOT/project","name":"task-priority","status":"planned","features":2,"done":1,"sources":[{"path":"prd.json","family":"stories","error":null,"items":2,"done":1,"checks":0,"commands":0,"protect":[],"line_rules":0,"goal":true,"reference":false,"not_understood":[],"kept":[{"key":"branchName","line":3}],"ignored":[]}],"gates":[],"limits":{"max_iterations":null,"max_duration_ms":null,"max_cost_usd":null,"stuck_after":null,"completion_promise":null},"notes":[],"files":[{"path":".claude/data/ralph-loops/task-priority/RALPH_PROMPT.md","text":"# task-priority\n\nMyApp\n\nAdd priority levels to tasks\n\nMake every feature in `feature_list.json`, next to this file, pass: in order, one at a time.\nEverything else from the imported files is in `NOTES.md`, next to this file.\n"},{"path":".claude/data/ralph-loops/task-priority/feature_list.json","text":"{\n  \"features\": [\n    {\n      \"id\": \"US-001\",\n      \"description\": \"Store priority\",\n      \"steps\": [\n        \"A column is there\"\n      ],\n      \"passes\": true,\n      \"priority\": 1,\n      \"notes\": \"migration 7\"\n    },\n    {\n      \"id\": \"US-002\",\n      \"description\": \"Show priority\",\n      \"steps\": [\n        \"A badge is shown\"\n      ],\n      \"passes\": false,\n      \"priority\": 2\n    }\n  ]\n}\n"},{"path":".claude/data/ralph-loops/task-priority/progress.txt","text":"# Progress of task-priority\n\n- Iteration: 0\n- Status: IN_PROGRESS\n"},{"path":".claude/data/ralph-loops/task-priority/NOTES.md","text":"# Notes\n\nContent that `ralph import` read and could not place elsewhere, verbatim.\n\n## `prd.json`: branchName, line 3\n\nralph/task-priority\n"}],"next":["`ralph run --loop task-priority`","`/ralph:goal --features .claude/data/ralph-loops/task-priority` in the agent's session instead"]}
    "##);
    let made = sandbox.ralph(["import", "--json", "--yes"]);
    let object: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(object["status"], "written");
    for file in object["files"].as_array().unwrap() {
        let path = sandbox.project().join(file["path"].as_str().unwrap());
        assert_eq!(fs::read_to_string(path).unwrap(), file["text"].as_str().unwrap());
    }
}
