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
    assert_snapshot!(out, @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `prd.json` (stories)
        understood  2 items · 1 done · 0 checks · the goal
        as notes    branchName (line 3)

    ✓ `progress.txt` (progress)
        understood  progress so far

    1 of 2 marked as passing: claims until their checks pass

    create `.claude/data/ralph-loops/task-priority/RALPH_PROMPT.md`, 8 lines
    create `.claude/data/ralph-loops/task-priority/feature_list.json`, 23 lines
    create `.claude/data/ralph-loops/task-priority/progress.txt`, 11 lines
    create `.claude/data/ralph-loops/task-priority/NOTES.md`, 7 lines

    created 4 files; `rm -r .claude/data/ralph-loops/task-priority` removes all of it
    next: `/ralph:goal --features .claude/data/ralph-loops/task-priority` in the agent's session

    === .claude/data/ralph-loops/task-priority/NOTES.md
    # Notes

    Content that `ralph import` read and could not place elsewhere, verbatim.

    ## `prd.json`: branchName, line 3

    ralph/task-priority

    === .claude/data/ralph-loops/task-priority/RALPH_PROMPT.md
    # task-priority

    MyApp

    Add priority levels to tasks

    Make every feature in `feature_list.json`, next to this file, pass: in order, one at a time.
    Everything else from the imported files is in `NOTES.md`, next to this file.

    === .claude/data/ralph-loops/task-priority/feature_list.json
    {
      "features": [
        {
          "id": "US-001",
          "description": "Store priority",
          "steps": [
            "A column is there"
          ],
          "passes": true,
          "priority": 1,
          "notes": "migration 7"
        },
        {
          "id": "US-002",
          "description": "Show priority",
          "steps": [
            "A badge is shown"
          ],
          "passes": false,
          "priority": 2
        }
      ]
    }

    === .claude/data/ralph-loops/task-priority/progress.txt
    # Progress of task-priority

    - Iteration: 0
    - Status: IN_PROGRESS

    ## Earlier progress, from `progress.txt`

    ## Codebase Patterns
    - Use `sql`
    ---
    - Status: COMPLETE
    "#);
}

#[test]
fn a_prd_with_dependencies_between_stories() {
    let prd = r#"{"name": "Merge Outputs", "userStories": [
        {"id": "T-3", "title": "Merge", "dependsOn": ["T-1", "T-2"], "labels": ["final"]},
        {"id": "T-1", "title": "One", "completionCriteria": ["npm test -- one"]},
        {"id": "T-2", "title": "Two", "completionCriteria": ["npm test -- two && npm run lint"]}]}"#;
    assert_snapshot!(import_and_show(&[("tasks/prd.json", prd)], &[]), @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `tasks/prd.json` (stories)
        understood  3 items · 0 done · 1 check · 1 command · the goal

    create `.claude/data/ralph-loops/merge-outputs/RALPH_PROMPT.md`, 5 lines
    create `.claude/data/ralph-loops/merge-outputs/feature_list.json`, 33 lines
    create `.claude/data/ralph-loops/merge-outputs/progress.txt`, 4 lines
    create `ralph.toml`, 22 lines

    # Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `tasks/prd.json` declares it as a check
    [[gate]]
    name = "t-2"
    stage = "correctness"
    run = ["npm", "test", "--", "two"]
    timeout = "10m"

    # `tasks/prd.json` declares it as a check
    [[gate]]
    name = "t-2-2"
    stage = "quality"
    run = ["npm", "run", "lint"]
    timeout = "5m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    created 4 files; `rm -r .claude/data/ralph-loops/merge-outputs ralph.toml` removes all of it
    next: `ralph trust`, after reviewing what it would run
    next: `/ralph:goal --features .claude/data/ralph-loops/merge-outputs` in the agent's session

    === .claude/data/ralph-loops/merge-outputs/RALPH_PROMPT.md
    # merge-outputs

    Merge Outputs

    Make every feature in `feature_list.json`, next to this file, pass: in order, one at a time.

    === .claude/data/ralph-loops/merge-outputs/feature_list.json
    {
      "features": [
        {
          "id": "T-1",
          "description": "One",
          "steps": [],
          "passes": false,
          "verify": [
            "npm",
            "test",
            "--",
            "one"
          ]
        },
        {
          "id": "T-2",
          "description": "Two",
          "steps": [],
          "passes": false
        },
        {
          "id": "T-3",
          "description": "Merge",
          "steps": [],
          "passes": false,
          "after": [
            "T-1",
            "T-2"
          ],
          "notes": "labels: final"
        }
      ]
    }

    === .claude/data/ralph-loops/merge-outputs/progress.txt
    # Progress of merge-outputs

    - Iteration: 0
    - Status: IN_PROGRESS

    === ralph.toml
    # Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `tasks/prd.json` declares it as a check
    [[gate]]
    name = "t-2"
    stage = "correctness"
    run = ["npm", "test", "--", "two"]
    timeout = "10m"

    # `tasks/prd.json` declares it as a check
    [[gate]]
    name = "t-2-2"
    stage = "quality"
    run = ["npm", "run", "lint"]
    timeout = "5m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]
    "#);
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
    next: `/ralph:goal --features .claude/data/ralph-loops/chat` in the agent's session

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
    assert_snapshot!(out, @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `.ralph/fix_plan.md` (plan)
        understood  2 items · 1 done · 0 checks
        as notes    text (line 1)

    ✓ `.ralphrc` (settings)
        understood  --stuck-after 5
        as notes    settings (line 1)

    ✓ `.ralph/PROMPT.md` (prompt)
        understood  the goal

    1 of 2 marked as passing: claims until their checks pass

    create `.claude/data/ralph-loops/chronovault/RALPH_PROMPT.md`, 6 lines
    create `.claude/data/ralph-loops/chronovault/feature_list.json`, 18 lines
    create `.claude/data/ralph-loops/chronovault/progress.txt`, 4 lines
    create `.claude/data/ralph-loops/chronovault/NOTES.md`, 14 lines

    created 4 files; `rm -r .claude/data/ralph-loops/chronovault` removes all of it
    next: `/ralph:goal --features .claude/data/ralph-loops/chronovault --stuck-after 5` in the agent's session

    === .claude/data/ralph-loops/chronovault/NOTES.md
    # Notes

    Content that `ralph import` read and could not place elsewhere, verbatim.

    ## `.ralph/fix_plan.md`: text, line 1

    # Fix Plan
    ## Optional
    - [ ] Polish

    ## `.ralphrc`: settings, line 1

    # Settings
    MAX_CALLS_PER_HOUR=300

    === .claude/data/ralph-loops/chronovault/RALPH_PROMPT.md
    # chronovault

    You are Ralph. Work on the plan.

    Make every feature in `feature_list.json`, next to this file, pass: in order, one at a time.
    Everything else from the imported files is in `NOTES.md`, next to this file.

    === .claude/data/ralph-loops/chronovault/feature_list.json
    {
      "features": [
        {
          "id": "1",
          "description": "Parse `a`",
          "steps": [],
          "passes": false,
          "category": "High Priority"
        },
        {
          "id": "2",
          "description": "Write tests",
          "steps": [],
          "passes": true,
          "category": "High Priority"
        }
      ]
    }

    === .claude/data/ralph-loops/chronovault/progress.txt
    # Progress of chronovault

    - Iteration: 0
    - Status: IN_PROGRESS
    "#);
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
    next: `ralph start --session ID --goal-file .claude/data/ralph-loops/project/RALPH_PROMPT.md --max-iterations 30 --completion-promise "ALL TESTS PASS"`

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
    assert_snapshot!(import_and_show(&sources, &[]), @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `specs/add-export/.ralph-state.json` (plan state)
        understood  --max-iterations 100
        left out    phase, taskIndex: run state of the other tool

    ✓ `specs/add-export/tasks.md` (plan)
        understood  2 items · 1 done · 1 check
        as notes    text (line 4)

    1 of 2 marked as passing: claims until their checks pass

    create `.claude/data/ralph-loops/add-export/RALPH_PROMPT.md`, 4 lines
    create `.claude/data/ralph-loops/add-export/feature_list.json`, 25 lines
    create `.claude/data/ralph-loops/add-export/progress.txt`, 5 lines
    create `.claude/data/ralph-loops/add-export/NOTES.md`, 12 lines

    created 4 files; `rm -r .claude/data/ralph-loops/add-export` removes all of it
    next: `ralph trust`, after reviewing what it would run
    next: `/ralph:goal --features .claude/data/ralph-loops/add-export --max-iterations 100` in the agent's session

    === .claude/data/ralph-loops/add-export/NOTES.md
    # Notes

    Content that `ralph import` read and could not place elsewhere, verbatim.

    ## `specs/add-export/tasks.md`: text, line 4

    # Tasks

    ## Not imported

    - `specs/add-export/.ralph-state.json`: `phase` execution: run state of the other tool
    - `specs/add-export/.ralph-state.json`: `taskIndex` 1: run state of the other tool

    === .claude/data/ralph-loops/add-export/RALPH_PROMPT.md
    # add-export

    Make every feature in `feature_list.json`, next to this file, pass: in order, one at a time.
    Everything else from the imported files is in `NOTES.md`, next to this file.

    === .claude/data/ralph-loops/add-export/feature_list.json
    {
      "features": [
        {
          "id": "1.1",
          "description": "1.1 Write the parser",
          "steps": [
            "**Verify**: `cargo test parser`"
          ],
          "passes": true,
          "verify": [
            "cargo",
            "test",
            "parser"
          ],
          "category": "Phase 1"
        },
        {
          "id": "1.2",
          "description": "1.2 [VERIFY] Check all of it",
          "steps": [],
          "passes": false,
          "category": "Phase 1"
        }
      ]
    }

    === .claude/data/ralph-loops/add-export/progress.txt
    # Progress of add-export

    - Iteration: 0
    - Max Iterations: 100
    - Status: IN_PROGRESS
    "#);
}

#[test]
fn tasks_in_yaml_with_commands_and_boundaries() {
    let tasks = "tasks:\n  - title: Create the schema\n    completed: true\n    parallel_group: 1\n  - title: Log in\n    completed: false\n";
    let config = "project:\n  name: \"shop\"\ncommands:\n  test: \"npm test\"\n  lint: \"npm run lint\"\nrules:\n  - \"Never use any\"\nboundaries:\n  never_touch:\n    - \"*.lock\"\n";
    let out = import_and_show(&[("tasks.yaml", tasks), (".ralphy/config.yaml", config)], &[]);
    assert_snapshot!(out, @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `tasks.yaml` (tasks)
        understood  2 items · 1 done · 0 checks

    ✓ `.ralphy/config.yaml` (settings)
        understood  2 commands · 1 path to protect
        as notes    rules (line 6)

    1 of 2 marked as passing: claims until their checks pass

    create `.claude/data/ralph-loops/shop/RALPH_PROMPT.md`, 4 lines
    create `.claude/data/ralph-loops/shop/feature_list.json`, 17 lines
    create `.claude/data/ralph-loops/shop/progress.txt`, 4 lines
    create `.claude/data/ralph-loops/shop/NOTES.md`, 11 lines
    create `ralph.toml`, 22 lines

    # Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `.ralphy/config.yaml` declares it as a check
    [[gate]]
    name = "test"
    stage = "correctness"
    run = ["npm", "test"]
    timeout = "10m"

    # `.ralphy/config.yaml` declares it as a check
    [[gate]]
    name = "lint"
    stage = "quality"
    run = ["npm", "run", "lint"]
    timeout = "5m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    [protect]
    paths = ["*.lock"]

    created 5 files; `rm -r .claude/data/ralph-loops/shop ralph.toml` removes all of it
    next: `ralph trust`, after reviewing what it would run
    next: `/ralph:goal --features .claude/data/ralph-loops/shop` in the agent's session

    === .claude/data/ralph-loops/shop/NOTES.md
    # Notes

    Content that `ralph import` read and could not place elsewhere, verbatim.

    ## `.ralphy/config.yaml`: rules, line 6

    - Never use any

    ## Files not to be changed

    - `*.lock`

    === .claude/data/ralph-loops/shop/RALPH_PROMPT.md
    # shop

    Make every feature in `feature_list.json`, next to this file, pass: in order, one at a time.
    Everything else from the imported files is in `NOTES.md`, next to this file.

    === .claude/data/ralph-loops/shop/feature_list.json
    {
      "features": [
        {
          "id": "1",
          "description": "Create the schema",
          "steps": [],
          "passes": true,
          "notes": "parallel_group: 1"
        },
        {
          "id": "2",
          "description": "Log in",
          "steps": [],
          "passes": false
        }
      ]
    }

    === .claude/data/ralph-loops/shop/progress.txt
    # Progress of shop

    - Iteration: 0
    - Status: IN_PROGRESS

    === ralph.toml
    # Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `.ralphy/config.yaml` declares it as a check
    [[gate]]
    name = "test"
    stage = "correctness"
    run = ["npm", "test"]
    timeout = "10m"

    # `.ralphy/config.yaml` declares it as a check
    [[gate]]
    name = "lint"
    stage = "quality"
    run = ["npm", "run", "lint"]
    timeout = "5m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    [protect]
    paths = ["*.lock"]
    "#);
}

#[test]
fn a_plan_with_validation_commands() {
    let plan = "# Reader\n\n## Overview\nReplace the scanner.\n\n## Validation Commands\n- `go test ./...`\n- `rm -rf build`\n\n### Task 1: Read\n- [x] write it\n- [ ] test it\n";
    let out = import_and_show(&[("docs/plans/reader.md", plan)], &["docs/plans/reader.md"]);
    assert_snapshot!(out, @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `docs/plans/reader.md` (plan)
        understood  2 items · 1 done · 0 checks · 2 commands
        as notes    text (line 1)

    1 of 2 marked as passing: claims until their checks pass
    1 command has no gate: kept as notes

    create `.claude/data/ralph-loops/reader/RALPH_PROMPT.md`, 4 lines
    create `.claude/data/ralph-loops/reader/feature_list.json`, 18 lines
    create `.claude/data/ralph-loops/reader/progress.txt`, 4 lines
    create `.claude/data/ralph-loops/reader/NOTES.md`, 13 lines
    create `ralph.toml`, 15 lines

    # Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `docs/plans/reader.md` declares it as a check
    [[gate]]
    name = "go-test"
    stage = "correctness"
    run = ["go", "test", "./..."]
    timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    created 5 files; `rm -r .claude/data/ralph-loops/reader ralph.toml` removes all of it
    next: `ralph trust`, after reviewing what it would run
    next: `/ralph:goal --features .claude/data/ralph-loops/reader` in the agent's session

    === .claude/data/ralph-loops/reader/NOTES.md
    # Notes

    Content that `ralph import` read and could not place elsewhere, verbatim.

    ## `docs/plans/reader.md`: text, line 1

    # Reader
    ## Overview
    Replace the scanner.

    ## Commands without a gate of their own

    - `docs/plans/reader.md`: `rm -rf build`

    === .claude/data/ralph-loops/reader/RALPH_PROMPT.md
    # reader

    Make every feature in `feature_list.json`, next to this file, pass: in order, one at a time.
    Everything else from the imported files is in `NOTES.md`, next to this file.

    === .claude/data/ralph-loops/reader/feature_list.json
    {
      "features": [
        {
          "id": "1",
          "description": "write it",
          "steps": [],
          "passes": true,
          "category": "Task 1: Read"
        },
        {
          "id": "2",
          "description": "test it",
          "steps": [],
          "passes": false,
          "category": "Task 1: Read"
        }
      ]
    }

    === .claude/data/ralph-loops/reader/progress.txt
    # Progress of reader

    - Iteration: 0
    - Status: IN_PROGRESS

    === ralph.toml
    # Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `docs/plans/reader.md` declares it as a check
    [[gate]]
    name = "go-test"
    stage = "correctness"
    run = ["go", "test", "./..."]
    timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]
    "#);
}

#[test]
fn a_task_with_a_test_command_and_guardrails() {
    let task = "---\ntask: Build a REST API\ntest_command: \"npm test\"\nmax_iterations: 50\n---\n\n# Task\n\n1. [ ] POST /tasks\n2. [x] GET /tasks\n";
    let out = import_and_show(
        &[("RALPH_TASK.md", task), (".ralph/guardrails.md", "### Sign: read first\n")],
        &["--name", "api"],
    );
    assert_snapshot!(out, @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `RALPH_TASK.md` (task)
        understood  2 items · 1 done · 0 checks · 1 command · --max-iterations 50 · the goal

    ✓ `.ralph/guardrails.md` (notes)
        as notes    text (line 1)

    1 of 2 marked as passing: claims until their checks pass

    create `.claude/data/ralph-loops/api/RALPH_PROMPT.md`, 11 lines
    create `.claude/data/ralph-loops/api/feature_list.json`, 18 lines
    create `.claude/data/ralph-loops/api/progress.txt`, 5 lines
    create `.claude/data/ralph-loops/api/NOTES.md`, 7 lines
    create `ralph.toml`, 15 lines

    # Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `RALPH_TASK.md` declares it as a check
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["npm", "test"]
    timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    created 5 files; `rm -r .claude/data/ralph-loops/api ralph.toml` removes all of it
    next: `ralph trust`, after reviewing what it would run
    next: `/ralph:goal --features .claude/data/ralph-loops/api --max-iterations 50` in the agent's session

    === .claude/data/ralph-loops/api/NOTES.md
    # Notes

    Content that `ralph import` read and could not place elsewhere, verbatim.

    ## `.ralph/guardrails.md`: text, line 1

    ### Sign: read first

    === .claude/data/ralph-loops/api/RALPH_PROMPT.md
    # api

    Build a REST API

    # Task

    1. [ ] POST /tasks
    2. [x] GET /tasks

    Make every feature in `feature_list.json`, next to this file, pass: in order, one at a time.
    Everything else from the imported files is in `NOTES.md`, next to this file.

    === .claude/data/ralph-loops/api/feature_list.json
    {
      "features": [
        {
          "id": "1",
          "description": "POST /tasks",
          "steps": [],
          "passes": false,
          "category": "Task"
        },
        {
          "id": "2",
          "description": "GET /tasks",
          "steps": [],
          "passes": true,
          "category": "Task"
        }
      ]
    }

    === .claude/data/ralph-loops/api/progress.txt
    # Progress of api

    - Iteration: 0
    - Max Iterations: 50
    - Status: IN_PROGRESS

    === ralph.toml
    # Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `RALPH_TASK.md` declares it as a check
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["npm", "test"]
    timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]
    "#);
}

#[test]
fn orchestrator_settings() {
    let settings = "event_loop:\n  prompt_file: PROMPT.md\n  completion_promise: LOOP_COMPLETE\n  max_iterations: 100\n  max_runtime_seconds: 3600\nbackpressure:\n  gates:\n    - name: tests\n      command: cargo test --all\n      on_fail: Mend them.\ncli:\n  backend: claude\n";
    let out = import_and_show(&[("ralph.yml", settings), ("PROMPT.md", "Mend the parser.\n")], &[]);
    assert_snapshot!(out, @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `ralph.yml` (settings)
        understood  1 command · --max-iterations 100 --max-duration 3600s --completion-promise LOOP_COMPLETE
        as notes    tests: on_fail, cli (line 11)

    ✓ `PROMPT.md` (prompt)
        understood  the goal

    create `.claude/data/ralph-loops/project/RALPH_PROMPT.md`, 5 lines
    create `.claude/data/ralph-loops/project/NOTES.md`, 11 lines
    create `ralph.toml`, 15 lines

    # Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `ralph.yml` declares it as a check
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["cargo", "test", "--all"]
    timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]

    created 3 files; `rm -r .claude/data/ralph-loops/project ralph.toml` removes all of it
    next: `ralph trust`, after reviewing what it would run
    next: `ralph start --session ID --goal-file .claude/data/ralph-loops/project/RALPH_PROMPT.md --max-iterations 100 --max-duration 3600s --completion-promise LOOP_COMPLETE`

    === .claude/data/ralph-loops/project/NOTES.md
    # Notes

    Content that `ralph import` read and could not place elsewhere, verbatim.

    ## `ralph.yml`: tests: on_fail

    Mend them.

    ## `ralph.yml`: cli, line 11

    backend: claude

    === .claude/data/ralph-loops/project/RALPH_PROMPT.md
    # project

    Mend the parser.

    Everything else from the imported files is in `NOTES.md`, next to this file.

    === ralph.toml
    # Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.

    # `ralph.yml` declares it as a check
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["cargo", "test", "--all"]
    timeout = "10m"

    [lines]
    forbid = ["todo", "placeholder", "debug-print", "debugger", "skipped-test"]

    # Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
    # [protect]
    # paths = ["tests/**"]
    "#);
}

#[test]
fn a_plan_state() {
    let state = r#"{"version": "3", "plan_name": "Memory Overhaul", "phases": [{"phase_id": "w0", "phase_name": "Security"}],
        "barriers": {"tests_passing": true},
        "steps": [{"id": "W0.1", "phase": "w0", "name": "snapshot", "status": "completed", "evidence": "a.tar"},
                  {"id": "W0.2", "phase": "w0", "name": "migrate", "status": "pending"}]}"#;
    assert_snapshot!(import_and_show(&[(".claude/plan-state.json", state)], &[]), @r#"
    exit 0
    --- stdout
    $ROOT/project

    ✓ `.claude/plan-state.json` (plan state)
        understood  2 items · 1 done · 0 checks · the goal
        as notes    phases, barriers (line 2)
        left out    version: run state of the other tool

    1 of 2 marked as passing: claims until their checks pass

    create `.claude/data/ralph-loops/memory-overhaul/RALPH_PROMPT.md`, 6 lines
    create `.claude/data/ralph-loops/memory-overhaul/feature_list.json`, 19 lines
    create `.claude/data/ralph-loops/memory-overhaul/progress.txt`, 4 lines
    create `.claude/data/ralph-loops/memory-overhaul/NOTES.md`, 16 lines

    created 4 files; `rm -r .claude/data/ralph-loops/memory-overhaul` removes all of it
    next: `/ralph:goal --features .claude/data/ralph-loops/memory-overhaul` in the agent's session

    === .claude/data/ralph-loops/memory-overhaul/NOTES.md
    # Notes

    Content that `ralph import` read and could not place elsewhere, verbatim.

    ## `.claude/plan-state.json`: phases

    - phase_id: w0
      phase_name: Security

    ## `.claude/plan-state.json`: barriers, line 2

    tests_passing: true

    ## Not imported

    - `.claude/plan-state.json`: `version` 3: run state of the other tool

    === .claude/data/ralph-loops/memory-overhaul/RALPH_PROMPT.md
    # memory-overhaul

    Memory Overhaul

    Make every feature in `feature_list.json`, next to this file, pass: in order, one at a time.
    Everything else from the imported files is in `NOTES.md`, next to this file.

    === .claude/data/ralph-loops/memory-overhaul/feature_list.json
    {
      "features": [
        {
          "id": "W0.1",
          "description": "snapshot",
          "steps": [],
          "passes": true,
          "category": "Security",
          "notes": "evidence: a.tar"
        },
        {
          "id": "W0.2",
          "description": "migrate",
          "steps": [],
          "passes": false,
          "category": "Security"
        }
      ]
    }

    === .claude/data/ralph-loops/memory-overhaul/progress.txt
    # Progress of memory-overhaul

    - Iteration: 0
    - Status: IN_PROGRESS
    "#);
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

    `$ROOT/project/ralph.toml` exists and is not changed; these gates could be added:

    # `RALPH_TASK.md` declares it as a check
    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["npm", "run", "check"]
    timeout = "20m"

    created 3 files; `rm -r .claude/data/ralph-loops/one-2` removes all of it
    next: `ralph trust`, after reviewing what it would run
    next: `/ralph:goal --features .claude/data/ralph-loops/one-2` in the agent's session
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
    {"v":1,"project":"$ROOT/project","name":"task-priority","status":"planned","features":2,"done":1,"sources":[{"path":"prd.json","family":"stories","error":null,"items":2,"done":1,"checks":0,"commands":0,"kept":[{"key":"branchName","line":3}],"ignored":[]}],"gates":[],"limits":{"max_iterations":null,"max_duration_ms":null,"max_cost_usd":null,"stuck_after":null,"completion_promise":null},"notes":[],"files":[{"path":".claude/data/ralph-loops/task-priority/RALPH_PROMPT.md","text":"# task-priority\n\nMyApp\n\nAdd priority levels to tasks\n\nMake every feature in `feature_list.json`, next to this file, pass: in order, one at a time.\nEverything else from the imported files is in `NOTES.md`, next to this file.\n"},{"path":".claude/data/ralph-loops/task-priority/feature_list.json","text":"{\n  \"features\": [\n    {\n      \"id\": \"US-001\",\n      \"description\": \"Store priority\",\n      \"steps\": [\n        \"A column is there\"\n      ],\n      \"passes\": true,\n      \"priority\": 1,\n      \"notes\": \"migration 7\"\n    },\n    {\n      \"id\": \"US-002\",\n      \"description\": \"Show priority\",\n      \"steps\": [\n        \"A badge is shown\"\n      ],\n      \"passes\": false,\n      \"priority\": 2\n    }\n  ]\n}\n"},{"path":".claude/data/ralph-loops/task-priority/progress.txt","text":"# Progress of task-priority\n\n- Iteration: 0\n- Status: IN_PROGRESS\n"},{"path":".claude/data/ralph-loops/task-priority/NOTES.md","text":"# Notes\n\nContent that `ralph import` read and could not place elsewhere, verbatim.\n\n## `prd.json`: branchName, line 3\n\nralph/task-priority\n"}],"next":["`/ralph:goal --features .claude/data/ralph-loops/task-priority` in the agent's session"]}
    "##);
    let made = sandbox.ralph(["import", "--json", "--yes"]);
    let object: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(object["status"], "written");
    for file in object["files"].as_array().unwrap() {
        let path = sandbox.project().join(file["path"].as_str().unwrap());
        assert_eq!(fs::read_to_string(path).unwrap(), file["text"].as_str().unwrap());
    }
}
