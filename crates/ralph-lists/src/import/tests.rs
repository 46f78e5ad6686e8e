//! Files as other tools write them, valid and broken: their imported content, and that nothing is lost.
#![expect(
    clippy::format_collect,
    clippy::needless_for_each,
    reason = "short code that builds snapshots is easier to read"
)]

use std::path::Path;

use insta::assert_snapshot;
use ralph_core::source::feature_list as list;
use ralph_core::source::item_check::ItemCheck;

use ralph_policy::detect::DetectedGates;

use super::data_tree::{self, DataNode};
use super::import_sources::decode_text;
use super::{FileFamily, ImportSource, ImportedContent, find_sources, loop_files, merge_sources};

fn read(family: FileFamily, bytes: &[u8]) -> Result<ImportedContent, String> {
    decode_text(bytes).and_then(|text| family.parse("sample.yml", &text))
}

/// A compact rendering of the imported content.
fn render_content(content: &Result<ImportedContent, String>) -> String {
    let content = match content {
        Ok(content) => content,
        Err(why) => return format!("not read: {why}"),
    };
    let mut out = String::new();
    let mut put = |line: String| out.push_str(&format!("{line}\n"));
    content.name.iter().for_each(|name| put(format!("name {name}")));
    content.goal.iter().for_each(|goal| put(format!("goal {goal:?}")));
    for feature in &content.features {
        put(format!(
            "{} {} {:?} {:?}{}{}{}{}{}",
            if feature.passes { "[x]" } else { "[ ]" },
            if feature.id.is_empty() { "·" } else { &feature.id },
            feature.description,
            feature.steps,
            feature
                .verify
                .iter()
                .map(|it| format!(" verify {}", it.command_line()))
                .collect::<String>(),
            feature.priority.iter().map(|it| format!(" priority {it}")).collect::<String>(),
            if feature.after.is_empty() {
                String::new()
            } else {
                format!(" after {:?}", feature.after)
            },
            feature.category.iter().map(|it| format!(" in {it:?}")).collect::<String>(),
            feature.notes.iter().map(|it| format!(" notes {it:?}")).collect::<String>(),
        ));
    }
    for command in &content.commands {
        put(format!("command {}: {}", command.label, command.text));
    }
    if !content.limits.to_options().is_empty() {
        put(format!("limits {}", content.limits.to_options().join(" ")));
    }
    content.protect.iter().for_each(|glob| put(format!("protect {glob}")));
    content.progress.iter().for_each(|text| put(format!("progress {text:?}")));
    content.referenced_files.iter().for_each(|path| put(format!("reads {path}")));
    for kept in &content.kept {
        let line = kept.line.map_or("?".to_string(), |line| line.to_string());
        put(format!("kept {}@{line} {:?}", kept.key, kept.text));
    }
    content.line_rules.iter().for_each(|rule| put(format!("{rule:?}")));
    if content.is_reference {
        put("a reference".to_string());
    }
    for (line, why) in content.not_understood() {
        put(format!("not understood {}: {:?}: {why}", line.line, line.text));
    }
    for ignored in &content.ignored {
        put(format!("ignored {} {:?}: {}", ignored.key, ignored.text, ignored.why));
    }
    out.trim_end().to_string()
}

const STORIES: &str = r#"{
  "project": "MyApp",
  "branchName": "ralph/task-priority",
  "description": "Task Priority System",
  "verificationCommands": {"typecheck": "npm run build", "test": "npm test"},
  "userStories": [
    {"id": "US-002", "title": "Show it", "description": "As a user, I want to see it.",
     "acceptanceCriteria": ["A badge is shown", "Typecheck passes"], "priority": 2, "passes": false, "notes": ""},
    {"id": "US-001", "title": "Store it", "description": "Store it in the database.",
     "acceptanceCriteria": ["A column is there"], "priority": 1, "passes": true, "notes": "migration 7",
     "completionCriteria": ["npm test -- store"], "architectVerified": true}
  ]
}"#;

const WITH_DEPENDENCIES: &str = r#"{"name": "Test Feature", "userStories": [
  {"id": "A", "title": "Last", "dependsOn": ["B"], "labels": ["slow", "final"], "passes": false},
  {"id": "B", "title": "First", "dependsOn": [], "passes": false},
  {"id": "C", "title": "Round", "dependsOn": ["D", "A"]},
  {"id": "D", "title": "And round", "dependsOn": ["C", "gone"]}
], "metadata": {"createdAt": "2026-01-29", "version": "1.0.0"}}"#;

const PLAIN_LIST: &str = r#"[
  {"category": "Test setup", "description": "Set vitest up", "steps": ["Install", "Configure"], "started": true, "complete": true},
  {"category": "Core", "description": "Map paths", "steps": [], "started": false, "complete": false},
  "Write the manual"
]"#;

const FEATURES: &str = r#"{"project": "chat", "total_features": 3, "features": [
  {"category": "functional", "description": "New chat button", "steps": ["Open it", "Click"], "passes": true},
  {"id": "infra-1", "name": "sitemap", "description": "XML sitemap", "type": "infrastructure", "status": "in_progress"},
  {"id": "infra-2", "name": "robots", "status": "complete", "verify": ["node", "check.js"]}
], "init_script": "init.sh"}"#;

const FIX_PLAN: &str = "# Fix Plan\n\nWhat is left.\n\n## High Priority\n- [ ] HIGH: Parse `a`\n- [x] Write tests\n      for all of it\n\n```\n- [ ] not a task\n```\n## Optional\n- [ ] polish\n\n## Notes\n- one thing\n";

const SPEC_TASKS: &str = "---\nspec: add-skills-doc\nphase: tasks\ntotal_tasks: 3\n---\n\n# Tasks: add-skills-doc\n\n## Phase 1: Make It Work\n\nFocus: the directory.\n\n- [x] 1.1 Create the directory\n  - **Do**: Create `skills/`\n  - **Verify**: `ls skills/`\n  - _Requirements: FR-1_\n- [ ] 1.2 [P] Write SKILL.md\n  - **Verify**: `cat skills/SKILL.md | grep -c ralph` returns 11\n- [ ] V1 [VERIFY] Quality check\n  - **Verify**: `gh pr create --title x`\n";

const RALPH_TASKS: &str = "# Ralph Tasks\n\n- [x] Epic: Guardrails\n  - [x] Add `docs/guardrails.md`\n  - [/] Add a script\n- [ ] Epic: Adapter (verify: cargo test adapter)\n";

const PLAN: &str = "# Unbounded reader\n\n## Overview\nReplace the scanner.\n\n## Validation Commands\n- `go test ./...`\n- Lint: `golangci-lint run` before the commit\n- [ ] make check\n\n### Task 1: Read\n- [x] write the reader\n- [ ] test it\n\n### Task 2: Use it\n- [ ] replace the calls\n";

const PLAN_WITH_FENCE: &str = "# P\n\n- [ ] one\n\n## Validation Commands\n\n```bash\n# types\nnpx tsc --noEmit\ncd web && npm test\n```\n\n## After\ntext\n";

const TASK: &str = "---\ntask: Build a REST API\ntest_command: \"npm test\"\ncompletion_criteria:\n  - All endpoints work\nmax_iterations: 50\n---\n\n# Task: REST API\n\n## Success Criteria\n\n1. [ ] `npm start` runs\n2. [x] POST /tasks\n";

const TASK_WITHOUT_BOXES: &str = "---\ntask: Tidy up\ncompletion_criteria:\n  - No warnings\n  - Docs are there\n---\nJust do it.\n";

const LOOP_FILE: &str = "---\nactive: true\niteration:5\nsession_id:\nmax_iterations: 30\ncompletion_promise: \"ALL DONE\"\nstarted_at: \"2026-01-03T00:20:45Z\"\nreview_enabled: true\n---\n\nMake the tests pass.\n\nThen stop.\n";

const LOOP_FILE_UNLIMITED: &str =
    "---\nactive: true\niteration: 1\nmax_iterations: 0\ncompletion_promise: null\n---\nGo on.\n";

const RALPHY_TASKS: &str = "tasks:\n  - title: Create the schema   # first\n    completed: true\n    parallel_group: 1\n    description: |\n      Users and tasks.\n      PostgreSQL.\n  - title: Set up authentication\n    completed: false\n    parallel_group: 2\n";

const NESTED_TASKS: &str = "default_model: opus\ntasks:\n  - id: \"1\"\n    name: Backend\n    description: All of it\n    subtasks:\n      - {id: \"1.1\", name: Schema, component: db, status: done, deps: []}\n      - id: \"1.2\"\n        name: Routes\n        status: blocked\n        deps: [\"1.1\"]\n        implementation_steps: [Add them, Test them]\n        related_files: [src/routes.rs]\n";

const RC: &str = "# Ralph configuration\nPROJECT_NAME=\"chrono vault\"\nMAX_CALLS_PER_HOUR=300   # more is not allowed\nexport CB_NO_PROGRESS_THRESHOLD=${CB_NO_PROGRESS_THRESHOLD:-5}\nTEST_COMMAND='npm test'\nALLOWED_TOOLS=\"Write,Read,Bash(*)\"\nMAX_LOOPS=0\nCLAUDE_CODE_CMD=\"claude\"\n";

const ORCHESTRATOR: &str = "event_loop:\n  completion_promise: LOOP_COMPLETE\n  max_iterations: 150\n  max_runtime_seconds: 28800\n  max_cost_usd: 12.5\n  prompt_file: PROMPT.md\n  starting_event: work.start\n\ncli:\n  backend: claude # or another\nbackpressure:\n  gates:\n    - name: fmt\n      command: cargo fmt --all -- --check\n      on_fail: \"Run it.\"\nhooks:\n  events:\n    pre.loop.complete:\n      - name: audit\n        command: [\"cargo\", \"audit\"]\n        on_error: block\n      - name: tell\n        command: [\"notify\"]\n        on_error: warn\nhats:\n  planner:\n    instructions: |\n      Plan it.\n      # not a comment\n";

const RALPHY: &str = "# Ralphy\nproject:\n  name: \"better\"\n  language: \"TypeScript\"\ncommands:\n  test: \"bun test\"\n  lint: \"\"\n  build: \"bun run build && bun run size\"\nrules:\n  - \"Never use any\"\nboundaries:\n  never_touch:\n    - \"*.lock\"\n    - \".git/**\"\n";

const PLAN_STATE: &str = r#"{"version": "3.0.0", "plan_name": "Memory Overhaul", "current_phase": "w1", "last_updated": "2026-04-07",
  "phases": [{"phase_id": "w0", "phase_name": "Security"}],
  "barriers": {"tests_passing": true},
  "steps": [
    {"id": "W0.1", "phase": "w0", "name": "snapshot", "status": "completed", "priority": "P0", "evidence": "a.tar.gz"},
    {"id": "W1.1", "phase": "w1", "name": "delete hooks", "status": "pending", "priority": "P1"}],
  "loop_state": {"max_iterations": 25, "current_iteration": 3}}"#;

const PLAN_STATE_BY_ID: &str = r#"{"task": "Upgrade", "steps": {"1": {"name": "a", "status": "verified"}, "2": {"name": "b", "status": "in_progress"}}}"#;

const SPEC_STATE: &str = r#"{"phase": "execution", "taskIndex": 2, "totalTasks": 5, "specName": "test-spec", "maxGlobalIterations": 100, "source": "plan"}"#;

const TASK_MASTER: &str = r#"{
  "master": {
    "tasks": [
      {"id": 1, "title": "Parse", "description": "Parse rows", "details": "With a lexer.", "testStrategy": "Unit tests for quotes.", "status": "done", "dependencies": [], "priority": "high", "subtasks": []},
      {"id": 2, "title": "Export", "description": "Write rows", "status": "in-progress", "dependencies": [1], "priority": "medium", "complexity": 5, "subtasks": [
        {"id": 1, "title": "Quote", "description": "Quote fields", "status": "pending", "dependencies": [], "acceptanceCriteria": "`cargo test quote` exits 0", "parentTaskId": 2},
        {"id": 2, "title": "Stream", "description": "", "status": "pending", "dependencies": [1, "1"]}
      ]},
      {"id": 3, "title": "Later", "description": "Not now", "status": "deferred", "dependencies": []}
    ],
    "metadata": {"description": "Main"}
  },
  "web": {"tasks": [{"id": 1, "title": "Page", "status": "pending", "dependencies": []}], "metadata": {}},
  "old": {"tasks": [{"id": 1, "title": "Gone", "status": "done", "dependencies": []}], "metadata": {}}
}"#;

const ISSUES: &str = r#"{"id":"bd-1","title":"Epic","description":"All of it","status":"open","priority":1,"issue_type":"epic","labels":["csv"]}
{"id":"bd-2","title":"Quote fields","description":"As RFC 4180","acceptance_criteria":"- `cargo test quote` passes\n- Docs updated","status":"in_progress","priority":2,"issue_type":"task","created_at":"2026-01-01T00:00:00Z","dependencies":[{"issue_id":"bd-2","depends_on_id":"bd-1","type":"parent-child"},{"issue_id":"bd-2","depends_on_id":"bd-3","type":"blocks"},{"issue_id":"bd-2","depends_on_id":"bd-9","type":"related"}]}
{"id":"bd-3","title":"Lexer","description":"","status":"open","priority":1,"issue_type":"task"}
issues of the old tracker
"#;

const VALIDATOR: &str = "name: shop\nbase_branch: main\nentry_points:\n  - path: \".\"\n    checks:\n      - lint:\n          command: npx eslint .\n          timeout: 60\n      - size\n    reviews:\n      - code-quality\n  - path: apps/api\n    checks:\n      - test:\n          command: npm test\n  - path: packages/*\n    checks:\n      - build:\n          command: npm run build\n";

const VALIDATOR_CHECK: &str =
    "command: bun test --since=${BASE_BRANCH}\nworking_directory: web # only here\n";

const RULE_FOR_FILES: &str = "---\nname: no-env\nenabled: true\nevent: file\naction: block\nconditions:\n  - field: file_path\n    operator: regex_match\n    pattern: \\.env$|^secrets/\n---\n\nSecrets stay where they are.\n";

const RULE_FOR_TEXT: &str = "---\nname: no console\nenabled: true\nevent: file\naction: block\npattern: console\\.log\\(\n---\nUse the \"logger\".\n";

const RULE_FOR_COMMANDS: &str = "---\nname: no-rm\nenabled: true\nevent: bash\npattern: rm\\s+-rf\naction: block\n---\n\nAsk first.\n";

const CHECKED_TASKS: &str = "\
# Tasks

- [ ] 1.1 Block
  - **Verify**: All commands must pass:
    ```bash
    # types first
    npm run typecheck
    grep -c todo src/a.ts  # Should return 0
    ```
- [ ] 1.2 List
  - **Verification**:
    - `npm test`
    - `npm run lint` exits 0
- [x] 1.3 Words
  - **Verify**: Manual test in the browser
- [ ] 1.4 Two
  - **Verify**: `test -s a && test -s b`
  - `cargo doc` succeeds
- [ ] 1.5 Push (verify: `git push && make`)
  - **Verify**: `git push origin main`
- [ ] 1.6 A script
  - Verify:
    ```sh
    for f in a b; do
      test -s \"$f\"
    done
    ```
- [ ] 1.7 No end
  - **Verify**:
- [ ] 1.8 Reads `Makefile`, then runs `make`
";

fn sample_files() -> Vec<(&'static str, FileFamily, &'static str)> {
    vec![
        ("prd.json", FileFamily::Stories, STORIES),
        ("deps/prd.json", FileFamily::Stories, WITH_DEPENDENCIES),
        ("list/prd.json", FileFamily::Stories, PLAIN_LIST),
        ("feature_list.json", FileFamily::Features, FEATURES),
        ("fix_plan.md", FileFamily::Plan, FIX_PLAN),
        ("tasks.md", FileFamily::Plan, SPEC_TASKS),
        (".ralph/ralph-tasks.md", FileFamily::Plan, RALPH_TASKS),
        ("docs/plans/a.md", FileFamily::Plan, PLAN),
        ("docs/plans/b.md", FileFamily::Plan, PLAN_WITH_FENCE),
        ("RALPH_TASK.md", FileFamily::Task, TASK),
        ("other/RALPH_TASK.md", FileFamily::Task, TASK_WITHOUT_BOXES),
        (".claude/ralph-loop.local.md", FileFamily::LoopFile, LOOP_FILE),
        ("other/ralph-loop.local.md", FileFamily::LoopFile, LOOP_FILE_UNLIMITED),
        ("tasks.yaml", FileFamily::Tasks, RALPHY_TASKS),
        (".ralph/tasks.yml", FileFamily::Tasks, NESTED_TASKS),
        (".ralphrc", FileFamily::Settings, RC),
        ("ralph.yml", FileFamily::Orchestrator, ORCHESTRATOR),
        (".ralphy/config.yaml", FileFamily::Ralphy, RALPHY),
        ("plan-state.json", FileFamily::PlanState, PLAN_STATE),
        ("other/plan-state.json", FileFamily::PlanState, PLAN_STATE_BY_ID),
        (".ralph-state.json", FileFamily::PlanState, SPEC_STATE),
        (".taskmaster/tasks/tasks.json", FileFamily::TaskMaster, TASK_MASTER),
        (".beads/issues.jsonl", FileFamily::Issues, ISSUES),
        (".validator/config.yml", FileFamily::Validator, VALIDATOR),
        (".validator/checks/sample.yml", FileFamily::ValidatorCheck, VALIDATOR_CHECK),
        (".claude/hookify.env.local.md", FileFamily::Rule, RULE_FOR_FILES),
        (".claude/hookify.log.local.md", FileFamily::Rule, RULE_FOR_TEXT),
        (".claude/hookify.rm.local.md", FileFamily::Rule, RULE_FOR_COMMANDS),
        ("checks/tasks.md", FileFamily::Plan, CHECKED_TASKS),
        ("PRD.md", FileFamily::Plan, "# Product\n\nNothing to tick.\n"),
        ("progress.txt", FileFamily::Progress, "## Codebase Patterns\n- Status: COMPLETE\n"),
    ]
}

#[test]
fn files_of_other_tools_are_imported() {
    let mut out = String::new();
    for (name, family, text) in sample_files() {
        out.push_str(&format!("== {name}\n{}\n", render_content(&read(family, text.as_bytes()))));
    }
    assert_snapshot!(out);
}

#[test]
fn unreadable_files_give_a_one_line_reason() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let half = STORIES.get(..300).unwrap();
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain(*b"{\0}\0").collect();
    let deep = "[".repeat(100_000);
    let mut out = String::new();
    for (what, family, bytes) in [
        ("half", FileFamily::Stories, half.as_bytes()),
        ("empty", FileFamily::Stories, b""),
        ("a number", FileFamily::Stories, b"42"),
        ("a string", FileFamily::Features, b"\"x\""),
        ("deep", FileFamily::Features, deep.as_bytes()),
        ("UTF-16", FileFamily::Stories, &utf16),
        ("binary", FileFamily::Plan, b"- [ ] a\n- [ ] \xff\n"),
        ("empty plan", FileFamily::Plan, b"\n \n"),
        ("bomb", FileFamily::Tasks, bomb.as_bytes()),
        ("a scalar", FileFamily::Tasks, b"hello"),
        ("a list", FileFamily::Orchestrator, b"- a"),
        ("tabs", FileFamily::Ralphy, b"a:\n\t- b: ]"),
        ("no settings", FileFamily::LoopFile, b"Just text\n"),
        ("never ends", FileFamily::LoopFile, b"---\nactive: true\n"),
        ("prose", FileFamily::Settings, b"hello world\n"),
        ("a list", FileFamily::PlanState, b"[]"),
        ("empty", FileFamily::Task, b""),
        ("empty", FileFamily::Progress, b"\n"),
    ] {
        out.push_str(&format!("{what}: {}\n", render_content(&read(family, bytes))));
    }
    assert_snapshot!(out, @"
    half: not read: line 8, column 11: EOF while parsing a string
    empty: not read: it is empty
    a number: not read: it is neither a list nor an object
    a string: not read: it is neither a list nor an object
    deep: not read: line 1, column 128: recursion limit exceeded
    UTF-16: not read: it is UTF-16, not UTF-8
    binary: not read: line 2: it is not UTF-8
    empty plan: not read: it is empty
    bomb: not read: its aliases expand too far
    a scalar: not read: it is neither a list nor a map
    a list: not read: it is not a map
    tabs: not read: it is not valid YAML
    no settings: not read: it does not start with settings between `---`
    never ends: not read: it does not start with settings between `---`
    prose: not read: it has no settings
    a list: not read: it is not an object
    empty: not read: it is empty
    empty: not read: it is empty
    ");
}

#[test]
fn byte_order_marks_and_line_endings_do_not_matter() {
    for (name, family, text) in sample_files() {
        let plain = read(family, text.as_bytes());
        let other = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(read(family, other.as_bytes()), plain, "{name}");
    }
}

/// No part of a file makes a parser panic.
#[test]
fn truncated_files_do_not_panic() {
    for (_, family, text) in sample_files() {
        for end in (0..text.len()).step_by(5).filter(|end| text.is_char_boundary(*end)) {
            let (head, tail) = text.split_at(end);
            let _ = (family.parse("x", head).is_ok(), family.parse("x", tail).is_ok());
        }
    }
}

fn parse_source(name: &str, family: FileFamily, text: &str) -> ImportSource {
    ImportSource { path: name.to_string(), family, content: read(family, text.as_bytes()) }
}

#[test]
fn many_files_are_merged_into_one_loop() {
    let sources = [
        parse_source("prd.json", FileFamily::Stories, STORIES),
        parse_source("deps/prd.json", FileFamily::Stories, WITH_DEPENDENCIES),
        parse_source("again/prd.json", FileFamily::Stories, STORIES),
        parse_source(".ralphrc", FileFamily::Settings, RC),
        parse_source("loop.md", FileFamily::LoopFile, LOOP_FILE),
    ];
    let merged = merge_sources(&sources);
    let ids: Vec<_> = merged
        .features
        .iter()
        .map(|feature| {
            format!(
                "{}{}",
                feature.id,
                feature.after.iter().map(|it| format!("<{it}")).collect::<String>()
            )
        })
        .collect();
    let mut out = format!("{:?}\n{}\n", merged.name, ids.join(" "));
    out.push_str(&format!(
        "{}\n{}",
        merged.limits.to_options().join(" "),
        merged.conflicts.join("\n")
    ));
    assert_snapshot!(out, @r#"
    Some("task-priority")
    US-001 US-002 B A<B C<A D<C
    --max-iterations 30 --stuck-after 5 --completion-promise "ALL DONE"
    `deps/prd.json`: `D` depends on a missing feature (`gone`); the dependency was dropped
    `deps/prd.json`: `C` depends on `D` in a cycle; the cycle was broken
    `again/prd.json`: 2 of its items are also in an earlier file
    "#);
}

#[test]
fn loop_names_are_derived_from_the_name_of_the_work() {
    for (name, expected) in [
        ("ralph/task-priority", Some("task-priority")),
        ("My App: v2!", Some("my-app-v2")),
        ("Größe", Some("gr-e")),
        ("../../etc", Some("etc")),
        ("current", None),
        ("…", None),
        ("", None),
    ] {
        assert_eq!(super::loop_slug(name).as_deref(), expected, "{name}");
    }
    let long = super::loop_slug(&"a-".repeat(100)).unwrap();
    assert!(long.len() <= 48 && !long.ends_with('-'), "{long}");
}

/// Values that stand for the status of a work item.
const STATES: &[&str] = &[
    "true",
    "false",
    "null",
    "completed",
    "complete",
    "pending",
    "open",
    "done",
    "verified",
    "blocks",
    "parent-child",
    "2026-01-01T00:00:00Z",
];

/// Every meaningful text of a file.
fn texts_in(family: FileFamily, text: &str) -> Vec<String> {
    fn scalars(node: &DataNode, out: &mut Vec<String>) {
        match node {
            DataNode::Text(text) => out.extend(text.lines().map(str::to_string)),
            DataNode::List(items) => items.iter().for_each(|item| scalars(item, out)),
            DataNode::Map(entries) => entries.iter().for_each(|(_, node)| scalars(node, out)),
        }
    }
    let mut out = Vec::new();
    match family {
        FileFamily::Issues => {
            for line in text.lines() {
                match data_tree::parse_json_tree(line) {
                    Ok(node) => scalars(&node, &mut out),
                    Err(_) => out.push(line.to_string()),
                }
            }
            out.iter_mut().for_each(|text| *text = text.trim_start_matches("- ").to_string());
        }
        FileFamily::Stories
        | FileFamily::Features
        | FileFamily::PlanState
        | FileFamily::TaskMaster => {
            scalars(&data_tree::parse_json_tree(text).unwrap(), &mut out);
        }
        FileFamily::Tasks
        | FileFamily::Orchestrator
        | FileFamily::Ralphy
        | FileFamily::Validator
        | FileFamily::ValidatorCheck => {
            scalars(&data_tree::parse_yaml_tree(text).unwrap(), &mut out);
            out.extend(
                text.lines().filter_map(|line| line.split_once(" #")).map(|(_, it)| it.to_string()),
            );
        }
        FileFamily::Settings => {
            let values =
                text.lines().map(|line| line.split_once('=').map_or(line, |(_, value)| value));
            let value = |value: &str| value.rsplit(":-").next().unwrap_or(value).to_string();
            out.extend(values.map(value));
        }
        // The file itself is read.
        FileFamily::Reference => {}
        FileFamily::Plan
        | FileFamily::Task
        | FileFamily::Rule
        | FileFamily::LoopFile
        | FileFamily::Progress
        | FileFamily::Prompt
        | FileFamily::Notes => {
            let lines = text.lines().map(|line| {
                line.trim_start_matches(['#', '-', ' ', '*'])
                    .trim_start_matches("[ ] ")
                    .trim_start_matches("[x] ")
                    .trim_start_matches("[/] ")
            });
            out.extend(lines.map(|line| match line.split_once(':') {
                _ if line.starts_with("```") || line == "Validation Commands" => String::new(),
                Some((key, value))
                    if key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') =>
                {
                    value.trim().trim_matches('"').to_string()
                }
                _ => line.to_string(),
            }));
        }
    }
    let trimmed =
        out.iter().map(|text| text.trim().trim_matches(['"', '\'', '}', '`']).trim().to_string());
    trimmed.filter(|text| !text.is_empty() && !STATES.contains(&text.as_str())).collect()
}

/// Every text of a file ends up in a feature, a gate, a limit, the goal, the progress or a note, or is listed as left
/// out.
#[test]
fn no_text_is_lost() {
    let mut lost = Vec::new();
    for (name, family, text) in sample_files() {
        let sources = [parse_source(name, family, text)];
        let merged = merge_sources(&sources);
        let commands = loop_files::declared_commands(&merged);
        let notes = loop_files::render_notes(&sources, &merged, &[]);
        let files = loop_files::render_files("x", &merged, &notes).unwrap();
        let mut all: String = files.iter().map(|file| file.text.clone()).collect();
        for feature in &merged.features {
            let texts =
                [&feature.description].into_iter().chain(&feature.steps).chain(&feature.notes);
            texts.for_each(|text| all.push_str(&format!(" {text}")));
            all.extend(feature.verify.as_ref().map(ItemCheck::command_line));
        }
        commands
            .iter()
            .for_each(|command| all.push_str(&format!(" {} {}", command.label, command.command)));
        all.push_str(&merged.limits.to_options().join(" "));
        all.push_str(
            &merged.limits.duration_ms.map_or(String::new(), |ms| (ms / 1000).to_string()),
        );
        all.push_str(&format!(
            "{:?} {:?}",
            sources[0].content.as_ref().unwrap().name,
            sources[0].content.as_ref().unwrap().referenced_files
        ));
        all.push_str(&loop_files::render_import_policy(DetectedGates::default(), &merged));
        // The file itself is read.
        let is_reference = sources[0].content.as_ref().is_ok_and(|content| content.is_reference);
        let texts = if is_reference { Vec::new() } else { texts_in(family, text) };
        for missing in texts.into_iter().filter(|text| !all.contains(text)) {
            lost.push(format!("{name}: {missing}"));
        }
    }
    assert_eq!(lost, <[String; 0]>::default());
}

/// The reader of feature lists can read the written list.
#[test]
fn the_written_list_is_readable() {
    for (name, family, text) in sample_files() {
        let merged = merge_sources(&[parse_source(name, family, text)]);
        let files = loop_files::render_files("x", &merged, "").unwrap();
        let Some(file) = files.iter().find(|file| file.path.ends_with("feature_list.json")) else {
            assert_eq!(merged.features, [], "{name}");
            continue;
        };
        let read = list::read_features(file.text.as_bytes()).unwrap();
        let ids: Vec<_> =
            read.features.iter().map(|feature| (&feature.id, feature.passes)).collect();
        let expected: Vec<_> =
            merged.features.iter().map(|feature| (&feature.id, feature.passes)).collect();
        assert_eq!(ids, expected, "{name}");
    }
}

#[test]
fn large_lists_and_long_dependency_chains_are_fast() {
    let same = vec![r#"{"id": "a", "description": "d"}"#; 15_000].join(",");
    let merged =
        merge_sources(&[parse_source("prd.json", FileFamily::Stories, &format!("[{same}]"))]);
    let last = merged.features.last().unwrap();
    assert_eq!((merged.features.len(), last.id.as_str()), (15_000, "a-15000"));
    assert_eq!(merged.conflicts.last().unwrap(), "and 14979 more");
    let chain: Vec<_> =
        (0..15_000).map(|n| format!(r#"{{"id": "i{n}", "dependsOn": ["i{}"]}}"#, n + 1)).collect();
    let merged = merge_sources(&[parse_source(
        "prd.json",
        FileFamily::Stories,
        &format!("[{}]", chain.join(",")),
    )]);
    assert_eq!(merged.features.first().unwrap().id, "i14999");
    assert_eq!(
        merged.conflicts,
        [
            "`prd.json`: `i14999` depends on a missing feature (`i15000`); the dependency was dropped"
        ]
    );
}

#[test]
fn a_directory_that_cannot_be_listed_is_a_source_that_cannot_be_read() {
    let project = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("specs", project.path().join("specs")).unwrap();
    let found = find_sources(project.path(), project.path());
    assert_eq!((found.len(), found[0].path.as_str()), (1, "specs"));
    assert!(found[0].content.is_err());
}

/// A change with its tasks in several files, and one that is done.
const OPENSPEC_CHANGES: [(&str, &str); 6] = [
    ("big/tasks/1-parse.md", SPEC_TASKS),
    ("big/tasks/2-done.md", "- [x] 1.1 Read it\n"),
    ("big/tasks/3-details.md", "# Task: only text\n"),
    ("big/proposal.md", "# Why\n"),
    ("old/tasks.md", "- [x] all (`tasks/all.md`)\n"),
    ("old/tasks/all.md", "# Task: all\n"),
];

#[test]
fn files_are_found_by_name_and_links_out_of_the_project_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("p");
    let put = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        ralph_sys::fs::replace_with_mode(
            &path,
            text.as_bytes(),
            ralph_sys::fs::SharedFileMode::Ordinary,
        )
        .unwrap();
    };
    put("secret.md", "- [ ] secret\n");
    put("p/.ralph/fix_plan.md", FIX_PLAN);
    put("p/specs/a/tasks.md", SPEC_TASKS);
    put("p/specs/a/.ralph-state.json", SPEC_STATE);
    put("p/specs/b/tasks.md", SPEC_TASKS);
    for (name, text) in OPENSPEC_CHANGES {
        put(&format!("p/openspec/changes/{name}"), text);
    }
    put("p/docs/plans/a.md", PLAN);
    put("p/docs/plans/done.md", &PLAN.replace("[ ]", "[x]"));
    put("p/docs/plans/idea.md", "# Only text\n");
    put("p/ralph.yml", ORCHESTRATOR);
    put("p/PROMPT.md", "Do it.\n");
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, project.join(at)).unwrap();
    link(".ralph/fix_plan.md", "fix_plan.md");
    link("../secret.md", "tasks.md");
    link("prd.json", "prd.json");
    link("nowhere", ".ralphrc");
    std::fs::create_dir(project.join("features.json")).unwrap();
    let found = find_sources(&project, &project);
    let lines: Vec<_> = found
        .iter()
        .map(|source| match &source.content {
            Ok(content) => format!("{}: {} features", source.path, content.features.len()),
            Err(why) => format!("{}: {why}", source.path),
        })
        .collect();
    assert_snapshot!(lines.join("\n"), @r"
    prd.json: it is a broken symbolic link
    features.json: it is not a regular file
    .ralph/fix_plan.md: 2 features
    tasks.md: it resolves to a path outside the project
    .ralphrc: it is a broken symbolic link
    ralph.yml: 0 features
    PROMPT.md: 0 features
    docs/plans/a.md: 3 features
    docs/plans/done.md: 0 features
    specs/a/.ralph-state.json: 0 features
    specs/a/tasks.md: 3 features
    specs/b/tasks.md: 3 features
    openspec/changes/big/tasks/1-parse.md: 3 features
    openspec/changes/big/tasks/2-done.md: 0 features
    openspec/changes/big/tasks/3-details.md: 0 features
    openspec/changes/big/proposal.md: 0 features
    openspec/changes/old/tasks.md: 0 features
    ");
    let one = find_sources(&project, &project.join("docs/plans/a.md"));
    assert_eq!((one.len(), one[0].path.as_str()), (1, "docs/plans/a.md"));
    let large = project.join("tasks.yaml");
    ralph_sys::fs::replace_with_mode(
        &large,
        &vec![b' '; 9 * 1024 * 1024],
        ralph_sys::fs::SharedFileMode::Ordinary,
    )
    .unwrap();
    let content = &find_sources(&project, Path::new(&large))[0].content;
    assert_eq!(content, &Err("it is larger than 8388608 bytes".to_string()));
}

#[test]
fn names_beyond_the_limit_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let root = ralph_sys::fs::resolve(directory.path()).unwrap();
    ralph_sys::fs::create_user_dir(&root.join("docs/plans")).unwrap();
    for number in 10..62 {
        let name = root.join(format!("docs/plans/{number}.md"));
        ralph_sys::fs::replace_user_file(&name, b"# A plan\n").unwrap();
        ralph_sys::fs::replace_user_file(&name.with_extension("png"), b"").unwrap();
    }
    let sources = find_sources(&root, &root);
    let shown: Vec<_> = sources.iter().map(|it| (it.path.as_str(), it.content.clone())).collect();
    let why = "only the first 50 of 52 names are read".to_string();
    assert_eq!(shown, [("docs/plans/60.md", Err(why))]);
}

/// Hostile lists: every line is bounded, and nothing of a command is hidden.
#[test]
fn hostile_lists_are_read() {
    let many: String = (0..10_000)
        .map(|number| format!("- [ ] {number} a\n  - **Verify**: `test -e f{number} && make`\n"))
        .collect();
    let content = FileFamily::Plan.parse("tasks.md", &many).unwrap();
    assert_eq!((content.features.len(), content.check_lines.len()), (10_000, 10_000));
    assert!(content.features.iter().all(|feature| feature.verify.is_some()));
    let nested: String =
        (0..3_000).map(|depth| format!("{}- [ ] a\n", " ".repeat(depth))).collect();
    assert_eq!(FileFamily::Plan.parse("tasks.md", &nested).unwrap().features.len(), 3_000);
    let unclosed = format!("- [ ] a\n  - **Verify**:\n{}", "    ```sh\n    make\n".repeat(2_001));
    assert!(FileFamily::Plan.parse("tasks.md", &unclosed).is_ok());
    let deep = format!("{{\"master\":{{\"tasks\":{}", "[".repeat(100_000));
    let why = FileFamily::TaskMaster.parse("tasks.json", &deep).unwrap_err();
    assert_eq!(why, "line 1, column 145: recursion limit exceeded");
    let lines = "{\"id\":\"a\",\"title\":\"t\"}\n".repeat(10_000);
    let source = parse_source(".beads/issues.jsonl", FileFamily::Issues, &lines);
    let merged = merge_sources(&[source]);
    let ids: std::collections::BTreeSet<_> = merged.features.iter().map(|one| &one.id).collect();
    assert_eq!(ids.len(), 10_000);
    for (name, family, text) in [
        ("tasks.md", FileFamily::Plan, "- [ ] a\n  - **Verify**: `make \u{1b}[2J`\n"),
        ("tasks.md", FileFamily::Plan, "- [ ] a (verify: `make \u{202e}x`)\n"),
        ("prd.json", FileFamily::Stories, r#"[{"id": 1, "verify": "make \u0007"}]"#),
        ("prd.json", FileFamily::Stories, r#"[{"id": 1, "verify": ["make", "\u0000"]}]"#),
    ] {
        let merged = merge_sources(&[parse_source(name, family, text)]);
        let checks: Vec<_> = merged.features.iter().filter_map(|one| one.verify.clone()).collect();
        assert_eq!(checks, [], "{text:?}");
        let files = loop_files::render_files("x", &merged, "").unwrap();
        assert!(!files.is_empty());
    }
}

/// A command that is never closed must not take in the rest of the file: each line would copy all lines before it.
#[test]
fn a_wrapped_command_is_joined_up_to_a_limit() {
    let list = |lines: usize| {
        let wrapped = "    and more words\n".repeat(lines);
        format!("- [ ] one\n  Verify: `a\n{wrapped}    Verify: `true`\n")
    };
    let found = |lines: usize| {
        let content = read(FileFamily::Plan, list(lines).as_bytes()).unwrap();
        let shown = content.check_lines.iter().map(|it| (it.line, it.why_not)).collect::<Vec<_>>();
        format!("{lines}: {shown:?}")
    };
    assert_snapshot!([2, 1_000].map(found).join("\n"), @r#"
    2: [(2, Some("it has an unclosed backtick"))]
    1000: [(2, Some("it has an unclosed backtick")), (1003, None)]
    "#);
}

#[test]
fn rules_of_the_same_name_are_numbered() {
    let rule = |name| parse_source(name, FileFamily::Rule, RULE_FOR_TEXT);
    let merged = merge_sources(&[rule("a"), rule("b")]);
    let names: Vec<String> = loop_files::render_rules(&merged)
        .lines()
        .filter_map(|line| Some(line.strip_prefix("name = ")?.to_string()))
        .collect();
    assert_eq!(names, ["\"no-console\"", "\"no-console-2\""]);
}
