//! Every example of the help texts, of the README and of `docs` runs as it stands, in a project where it makes sense.
//!
//! `RALPH_GENERATE=1 cargo test -p ralph --test it examples` writes the real output into the pages.

use crate::example_project::{ExampleProject, ProjectState};
use crate::example_text::{CodeBlock, code_blocks, command_lines, help_examples, is_same_output};
use crate::sandbox::SESSION;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Examples that no test can run, and why.
const NOT_RUN: &[(&str, &str)] = &[
    (
        "ralph lab simulate scenario.toml --client",
        "needs the real client; `cargo xtask e2e` plays it",
    ),
    (
        "ANTHROPIC_BASE_URL=http://127.0.0.1:8765 ANTHROPIC_API_KEY=sk-ant-dummy-000000000000000000000000 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 claude",
        "opens the client's own screen",
    ),
    ("ralph demo --slow", "pauses for half a minute, so that a person can read along"),
    ("ralph serve", SERVE_TESTS),
    ("ralph serve --open", SERVE_TESTS),
    ("ralph serve --port 8080 --json", SERVE_TESTS),
    ("ralph serve --port 7391 --metrics", SERVE_TESTS),
    ("ralph status --watch", "redraws the screen of a terminal until Ctrl-C"),
    ("ralph man start | man -l -", "needs a manual reader"),
    ("cargo install --locked --path crates/ralph", "builds the release binary"),
    ("cargo run --release -- demo", "builds the release binary"),
    (
        "ralph lab simulate scenarios/stop/exit-2.toml --client",
        "needs the real client; `cargo xtask e2e` plays it",
    ),
    ("cargo xtask e2e", "needs the real client"),
    ("cargo test --workspace", "runs this test"),
    ("claude mcp add ralph -- ralph mcp", "needs the real client"),
    ("codex mcp add ralph -- ralph mcp", "needs Codex"),
    ("ralph plan \"export the orders as CSV\"", PLAN_TESTS),
    ("ralph plan \"export the orders as CSV\" --yes --json", PLAN_TESTS),
    ("ralph plan --goal-file goal.md --answers decisions.txt", PLAN_TESTS),
    (
        "ralph plan --no-agent \"export the orders as CSV\"",
        "opens an editor; `tests/it/plan.rs` has one",
    ),
    ("ralph stats --apply 1", "needs ten runs; `tests/it/stats.rs` has them"),
    ("ralph export otlp", COLLECTOR_TESTS),
    ("ralph export otlp k7f2 --to http://127.0.0.1:4318", COLLECTOR_TESTS),
    ("ralph run --issue gh:acme/rocket#7 --pr --draft", ISSUE_TESTS),
    ("ralph run --fork k7f2 --from-review", REVIEW_TESTS),
    ("ralph tell k7f2 --from-pr", REVIEW_TESTS),
    ("ralph plan --issue 123", ISSUE_TESTS),
    ("ralph run --issue 123", ISSUE_TESTS),
    ("ralph run --issue 123 --comment", ISSUE_TESTS),
    ("ralph run --issue 123 --comment --worktree --pr", ISSUE_TESTS),
    ("ralph run --queue gh:label:ralph --parallel 2", ISSUE_TESTS),
    ("ralph judge bench --host claude", JUDGE_TESTS),
    ("ralph judge run", JUDGE_TESTS),
    ("ralph judge run review", JUDGE_TESTS),
    ("ralph judge run review --base main", JUDGE_TESTS),
    ("ralph judge run goal-review --goal \"the export has a header row\" --json", JUDGE_TESTS),
    ("ralph judge bench --host claude --model haiku --max-cost 2", JUDGE_TESTS),
    (
        "ralph judge bench --http https://api.anthropic.com --key ANTHROPIC_API_KEY --model claude-haiku-4-5 --kind adversarial",
        JUDGE_TESTS,
    ),
    ("ralph judge bench --judge review --case go-map-race", JUDGE_TESTS),
    ("ralph judge bench --json -- ./judge | jq .score", JUDGE_TESTS),
];

const JUDGE_TESTS: &str = "needs a judge; `tests/it/judges.rs` and `judge_scores.rs` have some";
const PLAN_TESTS: &str = "needs an agent that answers with a plan; `tests/it/plan.rs` has one";
const COLLECTOR_TESTS: &str = "needs a collector; `tests/it/stats.rs` has one";
const SERVE_TESTS: &str = "serves until Ctrl-C; `tests/it/serve.rs` speaks with it";
const REVIEW_TESTS: &str = "needs a pull request; `tests/it/ci_reviews.rs` reviews one";
const ISSUE_TESTS: &str = "needs a tracker; `tests/it/issues.rs` has one";

/// How a line runs where it does not exit with 0 in a project with a held run.
struct LineCase {
    line: &'static str,
    state: ProjectState,
    code: i32,
    /// Lines that the example follows.
    after: &'static [&'static str],
    /// Ctrl-C is pressed when this line appears.
    until: &'static str,
    /// A file instead of the terminal's keyboard.
    input: &'static str,
    /// Whether the agent's shell runs it.
    agent: bool,
}

static CASE: LineCase = case("", ProjectState::Held, 0);

const fn case(line: &'static str, state: ProjectState, code: i32) -> LineCase {
    LineCase { line, state, code, after: &[], until: "", input: "", agent: false }
}

const BELL: &str = "printf '[notify]\nbell = true\n' > ~/.ralph/config.toml";

/// A run has taught something already.
const LEARNED: &[&str] = &["ralph memory learn k7f2"];

/// A run that a person accepted, on a commit.
const ATTESTABLE: &[&str] = &[
    "git add -A . ':!.claude'",
    "git -c user.name=t -c user.email=t@t commit -qm work",
    "ralph accept",
];
const ATTESTED: &[&str] = &[
    "git add -A . ':!.claude'",
    "git -c user.name=t -c user.email=t@t commit -qm work",
    "ralph accept",
    "ralph report k7f2 --attest --note --out k7f2.intoto.json",
    "ralph report --public-key > build.pub",
];

static LINE_CASES: &[LineCase] = &[
    case("ralph init", ProjectState::Fresh, 0),
    case("ralph init --dry-run", ProjectState::Fresh, 0),
    case(r#"ralph init --gate "sh test.sh""#, ProjectState::Fresh, 0),
    case("ralph init --scope user --no-gates", ProjectState::Fresh, 0),
    case("ralph init --native-judge --dry-run", ProjectState::Fresh, 0),
    case("ralph init --native-judge", ProjectState::Fresh, 0),
    case("ralph init --native-judge=agent", ProjectState::Fresh, 0),
    case("ralph init --native-judge=off", ProjectState::Fresh, 0),
    case("ralph init --yes --replace --json", ProjectState::Fresh, 0),
    case("ralph gate detect", ProjectState::Fresh, 0),
    case("ralph gate detect --write", ProjectState::Fresh, 0),
    case(r#"ralph gate add "sh test.sh""#, ProjectState::Fresh, 0),
    case("ralph import", ProjectState::Fresh, 0),
    case("ralph import --dry-run", ProjectState::Fresh, 0),
    case("ralph import --yes --json | jq '.next'", ProjectState::Fresh, 0),
    case("ralph import prd.json --name checkout", ProjectState::Fresh, 0),
    case("ralph loop new csv --from features.md", ProjectState::Fresh, 0),
    case("ralph loop new csv --from feature_list.json --max-iterations 30", ProjectState::Fresh, 0),
    case(
        r#"ralph loop new csv --goal "A command line tool that reads and writes CSV""#,
        ProjectState::Fresh,
        0,
    ),
    case(r#"ralph run "make the parser handle nested quotes""#, ProjectState::Fresh, 0),
    case(
        "echo 'fix the tests' | ralph start --goal-file - --max-duration 2h",
        ProjectState::Ready,
        0,
    ),
    case(r#"ralph start "make the parser handle nested quotes""#, ProjectState::Ready, 0),
    case("ralph start --goal-file goal.md --checklist --max-iterations 10", ProjectState::Ready, 0),
    case(
        "ralph start --session 5999882c-e786-462c-84d4-07d1c65b5e76 --tasks",
        ProjectState::Ready,
        0,
    ),
    case(r#"ralph gate add "./e2e.sh" --yes --json | jq .gate"#, ProjectState::Ready, 0),
    case(r#"ralph gate add "npm run lint" --name lint --stage quality"#, ProjectState::Ready, 0),
    case("ralph gate run", ProjectState::Ready, 0),
    case("ralph gate run --changed --format sarif > findings.sarif", ProjectState::Ready, 0),
    case("ralph gate run --stage security --all", ProjectState::Ready, 0),
    case("ralph gate run --all --summary gates.md", ProjectState::Ready, 0),
    case("ralph gate run tests types --no-cache", ProjectState::Ready, 0),
    case("ralph gate run --trust-hash 3f9a1c07d2e4 --format github", ProjectState::Ready, 0),
    case("ralph gate warm", ProjectState::Ready, 0),
    case("ralph gate warm types", ProjectState::Ready, 0),
    case(r#"ralph orchestrator start "implement auth""#, ProjectState::Ready, 0),
    case(
        "ralph orchestrator start --goal-file goal.md --complexity 8 --max-duration 2h",
        ProjectState::Ready,
        0,
    ),
    case("ralph prove main", ProjectState::Ready, 0),
    case("ralph prove main..HEAD", ProjectState::Ready, 0),
    case("ralph prove main...HEAD", ProjectState::Ready, 0),
    case("ralph prove HEAD~1..HEAD --json", ProjectState::Ready, 0),
    case("ralph prove main --hunks 20", ProjectState::Ready, 0),
    case(
        r#"ralph run "add a --verbose flag" --check "sh check-verbose.sh""#,
        ProjectState::Ready,
        0,
    ),
    case("ralph run --goal-file goal.md --max-duration 8h --max-cost 20", ProjectState::Ready, 0),
    // The agent of the test does not claim the features without a check.
    case("ralph run --loop csv --worktree", ProjectState::Ready, 4),
    case(
        r#"ralph run "now do it" --fork 0b53ac6e-53a9-4d0e-9c5d-6f1a2c9be1aa"#,
        ProjectState::Ready,
        0,
    ),
    LineCase {
        after: &["ralph run 'say bye' --yes; git stash --include-untracked --quiet"],
        ..case("ralph run --queue queue.toml --parallel 2", ProjectState::Ready, 0)
    },
    case("ralph run \"Quote fields that hold commas\"", ProjectState::Fresh, 0),
    case(
        "ralph run \"Quote fields that hold commas\" --max-cost 5 --wait-for-limits 6h",
        ProjectState::Fresh,
        0,
    ),
    case(
        "ralph run --goal-file goal.md --max-duration 8h --max-cost 20 --wait-for-limits 6h",
        ProjectState::Ready,
        0,
    ),
    case(
        r#"ralph run "upgrade to axum 0.8" -- --permission-mode acceptEdits --allowedTools "Bash(cargo *)""#,
        ProjectState::Ready,
        0,
    ),
    case("ralph lab simulate scenarios/stop/exit-2.toml", ProjectState::Checkout, 0),
    case("ralph lab simulate scenarios/stop/exit-2.toml --json", ProjectState::Checkout, 0),
    case("ralph lab simulate scenarios/stop scenarios/tools", ProjectState::Checkout, 0),
    case(
        "ralph lab simulate scenarios/try --hook scenarios/try/gate.sh",
        ProjectState::Checkout,
        1,
    ),
    case(
        r#"ralph run "upgrade to axum 0.8" --dry-run -- --permission-mode acceptEdits"#,
        ProjectState::Ready,
        0,
    ),
    case("ralph trust --hash 3f9a1c07d2e4", ProjectState::Ready, 0),
    case("ralph trust --revoke", ProjectState::Ready, 0),
    case("ralph uninstall", ProjectState::Ready, 0),
    case("ralph uninstall --dry-run --keep-policy", ProjectState::Ready, 0),
    case("ralph uninstall --all", ProjectState::Ready, 0),
    case("ralph approve", ProjectState::Phases, 0),
    case("ralph approve k7f2 plan", ProjectState::Phases, 0),
    case("ralph orchestrator approve", ProjectState::Phases, 0),
    case("ralph orchestrator approve k7f2", ProjectState::Phases, 0),
    case("ralph orchestrator show", ProjectState::Phases, 0),
    case("ralph orchestrator show k7f2 --json | jq -r '.missing[]'", ProjectState::Phases, 0),
    LineCase {
        agent: true,
        ..case("ralph orchestrator set memory_search", ProjectState::Phases, 0)
    },
    LineCase {
        agent: true,
        ..case("ralph orchestrator set task_classified --complexity 8", ProjectState::Phases, 0)
    },
    LineCase {
        agent: true,
        ..case("ralph orchestrator set implementation_complete --undo", ProjectState::Phases, 0)
    },
    LineCase {
        agent: true,
        ..case("ralph orchestrator set phase implement", ProjectState::Phases, 0)
    },
    case("ralph verify", ProjectState::Held, 1),
    case("ralph verify k7f2", ProjectState::Held, 1),
    case(
        r#"ralph verify --json | jq '.requirements[] | select(.state != "met")'"#,
        ProjectState::Held,
        1,
    ),
    case("ralph run --resume k7f2", ProjectState::Parked, 0),
    case("ralph run --resume k7f2 --wait-for-limits 6h", ProjectState::Parked, 0),
    LineCase {
        after: &["ralph cancel k7f2"],
        ..case("ralph run --fork k7f2 --max-cost 40", ProjectState::Parked, 0)
    },
    case("ralph resume", ProjectState::Parked, 0),
    case("ralph resume k7f2", ProjectState::Parked, 0),
    case("ralph accept", ProjectState::Review, 0),
    case(r#"ralph accept k7f2 --why "the old format was meant to go""#, ProjectState::Review, 0),
    case("ralph checkpoint prune k7f2", ProjectState::Review, 0),
    LineCase {
        after: ATTESTABLE,
        ..case("ralph report k7f2 --attest --out k7f2.intoto.json", ProjectState::Review, 0)
    },
    LineCase {
        after: ATTESTABLE,
        ..case("ralph report k7f2 --attest --note", ProjectState::Review, 0)
    },
    LineCase {
        after: ATTESTED,
        ..case("ralph verify-report k7f2.intoto.json", ProjectState::Review, 0)
    },
    LineCase {
        after: ATTESTED,
        ..case("ralph verify-report k7f2.intoto.json --judged-commit", ProjectState::Review, 0)
    },
    LineCase {
        after: ATTESTED,
        ..case("ralph verify-report --note HEAD", ProjectState::Review, 0)
    },
    LineCase {
        after: ATTESTED,
        ..case(
            "ralph verify-report k7f2.intoto.json --key build.pub --json",
            ProjectState::Review,
            0,
        )
    },
    LineCase {
        after: &["echo 'echo bye' >> main.sh", "echo 'sh main.sh | grep -q bye' > tests/bye.sh"],
        ..case("ralph prove", ProjectState::Ready, 0)
    },
    LineCase {
        after: &["printf -- '- Say bye\n  check: sh main.sh | grep -q bye\n' > steps.txt"],
        ..case("ralph plan --from steps.txt", ProjectState::Ready, 0)
    },
    case("ralph feature verify", ProjectState::Held, 1),
    case("ralph feature verify 4", ProjectState::Held, 1),
    case("ralph feature verify 4 5 --loop csv", ProjectState::Held, 1),
    case("ralph lab simulate --hook PreToolUse=./my-guard.sh", ProjectState::Held, 1),
    LineCase {
        after: &["mkdir -p ~/.local/share/man/man1"],
        ..case("ralph man > ~/.local/share/man/man1/ralph.1", ProjectState::Held, 0)
    },
    LineCase { after: &[BELL], ..case("ralph notify --test", ProjectState::Held, 0) },
    LineCase {
        after: &[BELL],
        ..case("ralph notify --test --json | jq '.told[].how'", ProjectState::Held, 0)
    },
    case("ralph hook claude < event.json", ProjectState::Held, 2),
    LineCase {
        after: &["ralph waive tests --until 2h --why down"],
        ..case("ralph waive --undo tests", ProjectState::Held, 0)
    },
    LineCase { after: LEARNED, ..case("ralph memory show acece2bd", ProjectState::Held, 0) },
    LineCase { after: LEARNED, ..case("ralph memory show acece2bd --json", ProjectState::Held, 0) },
    LineCase { after: LEARNED, ..case("ralph memory forget acece2bd", ProjectState::Held, 0) },
    LineCase {
        after: &["mkdir -p docs/plans/parser"],
        ..case("ralph memory export --to docs/plans/parser/MEMORY.md", ProjectState::Held, 0)
    },
    LineCase {
        after: &["ralph learn - --title 'How releases are cut' < notes.md"],
        ..case("ralph learn --forget 20261115-133802-how-releases-are-cut", ProjectState::Held, 0)
    },
    LineCase {
        until: "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
        ..case("ralph lab model try/tests-first.toml --port 8765", ProjectState::Held, 130)
    },
    LineCase { until: "held", ..case("ralph log --follow", ProjectState::Held, 130) },
    LineCase {
        agent: true,
        ..case(r#"ralph wait "the deployment is under way" --for 20m"#, ProjectState::Held, 0)
    },
    LineCase {
        agent: true,
        ..case(r#"ralph ask "should the old format still be read?""#, ProjectState::Held, 0)
    },
    LineCase {
        agent: true,
        ..case(r#"ralph dispute "feature 4" "it contradicts feature 2""#, ProjectState::Held, 0)
    },
    LineCase {
        agent: true,
        ..case(r#"ralph dispute tests "one of them wants the year 2025""#, ProjectState::Held, 0)
    },
    LineCase {
        input: "/dev/null",
        ..case(
            "ralph lab pretend --scenario a.toml -- -p --input-format stream-json --output-format stream-json --verbose",
            ProjectState::Held,
            0,
        )
    },
];

/// The examples of all help texts.
fn lines_of_help() -> Vec<String> {
    let page = fs::read_to_string(Path::new(REPOSITORY).join("docs/cli.md")).unwrap();
    let blocks = code_blocks(&page);
    blocks.iter().flat_map(|block| help_examples(&block.lines)).collect()
}

/// Runs each line by itself. Returns those that do not exit as they should.
fn run_lines(lines: &[String]) -> Vec<String> {
    let mut by_state: BTreeMap<ProjectState, BTreeSet<&str>> = BTreeMap::new();
    for line in lines {
        if NOT_RUN.iter().any(|(known, _)| known == line) {
            continue;
        }
        by_state.entry(line_case(line).state).or_default().insert(line);
    }
    let mut wrong = Vec::new();
    for (state, lines) in by_state {
        let mut project = ExampleProject::new(state, &["k7f2"]);
        let mut is_changed = false;
        for line in lines {
            if is_changed {
                project.reset();
            }
            let case = line_case(line);
            for before in case.after {
                project.type_line(before, &[]);
            }
            let input =
                if case.input.is_empty() { String::new() } else { format!(" < {}", case.input) };
            let shell = if case.agent {
                format!("CLAUDECODE=1 CLAUDE_CODE_SESSION_ID={SESSION} ")
            } else {
                String::new()
            };
            let until = [case.until.to_string(), "^C".to_string()];
            let until = if case.until.is_empty() { &[][..] } else { &until };
            let typed = project.type_line(&format!("{shell}{line}{input}"), until);
            is_changed =
                !case.after.is_empty() || !READING.iter().any(|start| line.starts_with(start));
            if typed.code != case.code {
                wrong.push(format!(
                    "$ {line}\n{}\nexit {}, not {}",
                    typed.output.join("\n"),
                    typed.code,
                    case.code
                ));
            }
        }
    }
    wrong
}

/// The beginnings of examples that leave the project as it is.
const READING: [&str; 22] = [
    "ralph checkpoint diff",
    "ralph completions",
    "ralph config",
    "ralph demo",
    "ralph doctor --json",
    "ralph explain",
    "ralph export",
    "ralph feature next",
    "ralph gate explain",
    "ralph help",
    "ralph lab",
    "ralph list",
    "ralph log",
    "ralph man",
    "ralph orchestrator show",
    "ralph pipeline",
    "ralph prove",
    "ralph recall",
    "ralph stats",
    "ralph statusline",
    "ralph status",
    "ralph why",
];

fn line_case(line: &str) -> &'static LineCase {
    LINE_CASES.iter().find(|case| case.line == line).unwrap_or(&CASE)
}

/// One test per state of the project, so that they run side by side. Most examples need a held run, so these are divided.
macro_rules! help_tests {
    ($(($name:ident, $state:ident, $part:literal of $parts:literal)),* $(,)?) => {
        $(#[test]
        fn $name() {
            check_help(ProjectState::$state, $part, $parts);
        })*

        const HELP_TESTS: &[(ProjectState, usize, usize)] = &[$((ProjectState::$state, $part, $parts)),*];
    };
}

help_tests! {
    (help_in_a_fresh_project, Fresh, 0 of 1),
    (help_in_an_approved_project, Ready, 0 of 2),
    (help_in_an_approved_project_continued, Ready, 1 of 2),
    (help_with_a_held_run, Held, 0 of 3),
    (help_with_a_held_run_continued, Held, 1 of 3),
    (help_with_a_held_run_concluded, Held, 2 of 3),
    (help_with_a_run_in_review, Review, 0 of 1),
    (help_with_phases, Phases, 0 of 1),
    (help_with_a_parked_run, Parked, 0 of 1),
    (help_in_a_checkout, Checkout, 0 of 1),
}

fn check_help(state: ProjectState, part: usize, parts: usize) {
    let lines: BTreeSet<String> =
        lines_of_help().into_iter().filter(|line| line_case(line).state == state).collect();
    let lines: Vec<String> = lines.into_iter().skip(part).step_by(parts).collect();
    let wrong = run_lines(&lines);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_example_of_a_help_is_in_a_test() {
    for line in lines_of_help() {
        let state = line_case(&line).state;
        let parts: Vec<_> = HELP_TESTS.iter().filter(|test| test.0 == state).collect();
        assert!(!parts.is_empty(), "{line}: no test for {state:?}");
        for (index, (_, part, count)) in parts.iter().enumerate() {
            assert_eq!((*part, *count), (index, parts.len()), "{state:?}");
        }
    }
}

/// How the example blocks of a page run, in their order.
enum BlockCase {
    /// Each line by itself, as the examples of a help.
    Lines,
    /// From the top to the bottom, in a project of its own. Lines that prepare it come first.
    Story { state: ProjectState, runs: &'static [&'static str], setup: &'static [&'static str] },
    /// As `Story`, in the project of the block before.
    Continued,
    /// The same, after these lines.
    ContinuedAfter(&'static [&'static str]),
    /// No test runs it, for this reason.
    NotRun(&'static str),
}

const fn story(state: ProjectState, setup: &'static [&'static str]) -> BlockCase {
    BlockCase::Story { state, runs: &["k7f2"], setup }
}

use BlockCase::{Continued, ContinuedAfter, Lines, NotRun};

/// A library whose test passes, as the pages show it.
const LIBRARY: &[&str] = &[
    "cd ~ && rm -r csv && cargo new --quiet --lib csv && cd csv",
    "printf 'pub fn row(fields: &[&str]) -> String {\n    fields.join(\",\")\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn fields_are_joined() {\n        assert_eq!(super::row(&[\"a\", \"b\"]), \"a,b\");\n    }\n}\n' > src/lib.rs",
    "cargo generate-lockfile --quiet && git add -A && git commit --quiet -m 'A library'",
];

/// One test per page, and the table of all of them.
macro_rules! page_tests {
    ($(($name:ident, $path:literal, &[$($case:expr),* $(,)?] $(,)?)),* $(,)?) => {
        const PAGES: &[(&str, &[BlockCase])] = &[$(($path, &[$($case),*])),*];

        $(#[test]
        fn $name() {
            check_page($path);
        })*
    };
}

page_tests! {
    (sql_page, "docs/sql.md", &[story(ProjectState::Review, &[])]),
    (readme, "README.md", &[Lines, Lines]),
    (agents_page, "docs/agents.md", &[NotRun("a moment at which subagents are working")]),
    (benchmarks_page, "docs/benchmarks.md", &[NotRun("measures for minutes")]),
    (cleaning_page, "docs/cleaning.md",
        &[story(ProjectState::Review, &[])],
    ),
    (judges_page, "docs/judges.md", &[story(ProjectState::Fresh, &[]), Lines]),
    (doctor_page, "docs/doctor.md",
        &[story(
            ProjectState::Ready,
            &["sed -i 's|/[^ \"]*/bin/ralph|'$HOME'/bin/ralph|' .claude/settings.local.json"],
        )],
    ),
    (memory_page, "docs/memory.md", &[story(ProjectState::Held, LEARNED)]),
    (features_page, "docs/features.md",
        &[
            story(
                ProjectState::Fresh,
                &[
                    "printf -- '- Import a CSV file\n  - Open it\n  - See rows\n- Export as CSV (verify: sh checks/export.sh)\n' > features.md",
                    "mkdir checks; printf 'echo nothing was exported\nexit 1\n' | tee checks/export.sh > checks/sort.sh",
                ],
            ),
            Continued,
            Continued,
            story(
                ProjectState::Fresh,
                &[
                    "printf -- '- [ ] Read (verify: sh types.sh)\n- [ ] Write (verify: in the browser)\n' > PLAN.md",
                    "ralph trust --plan PLAN.md",
                ],
            ),
        ],
    ),
    (gates_page, "docs/gates.md",
        &[
            story(ProjectState::Empty, LIBRARY),
            ContinuedAfter(&[
                "ralph trust",
                "echo 'cargo test --quiet' > test.sh",
                "cp ralph.toml ../saved.toml",
            ]),
            ContinuedAfter(&[
                "cp ../saved.toml ralph.toml; ralph trust",
                "sed -i 's/join(\",\")/join(\";\")/' src/lib.rs",
            ]),
            Continued,
            NotRun("a moment at which a slow gate is running"),
            story(ProjectState::Ready, &["touch tests/conftest.py"]),
        ],
    ),
    (hook_page, "docs/hook.md", &[NotRun("the status line of a moment")]),
    (import_page, "docs/import.md", &[NotRun("`tests/it/import.rs` compares this output with its files")]),
    (install_page, "docs/install.md", &[Lines]),
    (native_judge_page, "docs/native-judge.md", &[Lines]),
    (ci_page, "docs/ci.md", &[NotRun(REVIEW_TESTS)]),
    (issues_page, "docs/issues.md", &[Lines, NotRun(ISSUE_TESTS)]),
    (orchestrator_page, "docs/orchestrator.md", &[NotRun("a moment in the middle of a run"), NotRun("the same run")]),
    (plan_page, "docs/plan.md", &[NotRun(PLAN_TESTS)]),
    (report_page, "docs/report.md",
        &[
            Lines,
            NotRun("a run that ended `verified`; `tests/it/attested_runs.rs` has one"),
            NotRun("another clone; `tests/it/attested_runs.rs` has one"),
            NotRun("a remote; `tests/it/attested_runs.rs` has one"),
        ],
    ),
    (sample_report_page, "docs/sample-report.md",
        &[NotRun("the commands of one run; `tests/it/run_reports.rs` plays it")],
    ),
    (sample_night_page, "docs/sample-night.md",
        &[NotRun("the commands of one run; `cargo xtask e2e` plays `scenarios/long/night.toml`")],
    ),
    (prove_page, "docs/prove.md", &[Lines, NotRun("needs pytest"), NotRun("needs a test runner of npm")]),
    (quickstart_page, "docs/quickstart.md",
        &[Lines, story(ProjectState::Empty, LIBRARY), Continued, Lines, Continued],
    ),
    (run_page, "docs/run.md",
        &[Lines, story(ProjectState::Empty, LIBRARY), NotRun("needs the real client"), Lines],
    ),
    (serve_page, "docs/serve.md", &[NotRun(SERVE_TESTS), NotRun(SERVE_TESTS)]),
    (simulator_page, "docs/simulator.md",
        &[
            story(ProjectState::Empty, &["mkdir -p ~/.claude/projects/-home-you-app"]),
            Continued,
            Continued,
            Continued,
            Continued,
            NotRun("the notes name the recorded session"),
            NotRun("a client has to ask the model"),
            NotRun("`cargo xtask e2e` plays it; it takes eight seconds"),
            story(ProjectState::Checkout, &[]),
        ],
    ),
    (stats_page, "docs/stats.md",
        &[NotRun("takes 45 runs"), NotRun("the same runs"), story(ProjectState::Review, &[])],
    ),
    (troubleshooting_page, "docs/troubleshooting.md", &[Lines, Lines]),
    (walkthrough_page, "docs/walkthrough.md",
        &[
            BlockCase::Story {
                state: ProjectState::Empty,
                runs: &["gui7"],
                setup: &["cd ~; rm -r ~/csv"],
            },
            Continued,
            Continued,
            Continued,
            Continued,
            Continued,
            Continued,
            Continued,
            Continued,
            Continued,
        ],
    ),
    (watch_page, "docs/watch.md", &[Lines]),
    (scenarios_readme, "scenarios/README.md", &[Lines]),
}

/// A page whose blocks run, and what was wrong with them.
struct PageCheck {
    path: &'static str,
    text: String,
    wrong: Vec<String>,
}

impl PageCheck {
    fn run_blocks(&mut self, cases: &[BlockCase]) {
        let blocks = code_blocks(&self.text);
        let blocks: Vec<_> =
            blocks.into_iter().filter(|block| block.is_transcript() || block.is_script()).collect();
        if blocks.len() != cases.len() {
            let starts: Vec<_> = blocks
                .iter()
                .map(|block| format!("{}: {}", block.first_line, block.lines[0]))
                .collect();
            self.wrong.push(format!(
                "{} has {} example blocks, its table {}:\n{}",
                self.path,
                blocks.len(),
                cases.len(),
                starts.join("\n")
            ));
            return;
        }
        let mut project = None;
        for (block, case) in blocks.iter().zip(cases) {
            match case {
                Lines => {
                    self.wrong.extend(run_lines(&command_lines(&block.lines)));
                    continue;
                }
                NotRun(reason) => {
                    assert!(!reason.is_empty());
                    continue;
                }
                BlockCase::Story { state, runs, setup } => {
                    let mut new = ExampleProject::new(*state, runs);
                    type_setup(&mut new, setup);
                    project = Some(new);
                }
                Continued | ContinuedAfter(_) => {}
            }
            let project = project.as_mut().expect("a block to continue");
            if let ContinuedAfter(lines) = case {
                type_setup(project, lines);
            }
            if block.is_transcript() {
                self.play_transcript(project, block);
            } else {
                let typed = project.type_line(&block.lines.join("\n"), &[]);
                if typed.code != 0 {
                    self.wrong.push(format!(
                        "{}:{}: exit {}\n{}",
                        self.path,
                        block.first_line,
                        typed.code,
                        typed.output.join("\n")
                    ));
                }
            }
        }
    }

    fn play_transcript(&mut self, project: &mut ExampleProject, block: &CodeBlock) {
        let mut real = Vec::new();
        let mut differs = false;
        for command in block.transcript() {
            real.extend(format!("$ {}", command.line).lines().map(str::to_string));
            if NOT_RUN.iter().any(|(known, _)| *known == command.line) {
                real.extend(command.output);
                continue;
            }
            let typed = project.type_line(&command.line, &command.output);
            if is_same_output(&command.output, &typed.output) {
                real.extend(command.output);
                continue;
            }
            differs = true;
            self.wrong.push(format!(
                "{}:{}: $ {}\n--- shown\n{}\n--- real, exit {}\n{}",
                self.path,
                block.first_line,
                command.line,
                command.output.join("\n"),
                typed.code,
                typed.output.join("\n")
            ));
            real.extend(typed.output);
        }
        if differs {
            self.text = self.text.replace(&block.lines.join("\n"), &real.join("\n"));
        }
    }
}

fn type_setup(project: &mut ExampleProject, lines: &[&str]) {
    for line in lines {
        let typed = project.type_line(line, &[]);
        assert_eq!(typed.code, 0, "{line}\n{}", typed.output.join("\n"));
    }
}

fn pages_with_examples() -> Vec<String> {
    let names = fs::read_dir(Path::new(REPOSITORY).join("docs")).unwrap().flatten();
    let names = names.map(|entry| format!("docs/{}", entry.file_name().to_string_lossy()));
    let pages = names.chain(["README.md".to_string(), "scenarios/README.md".to_string()]);
    let has_examples = |path: &String| {
        Path::new(path).extension().is_some_and(|end| end == "md")
            && path != "docs/cli.md"
            && code_blocks(&fs::read_to_string(Path::new(REPOSITORY).join(path)).unwrap())
                .iter()
                .any(|block| block.is_transcript() || block.is_script())
    };
    let mut pages: Vec<_> = pages.filter(has_examples).collect();
    pages.sort();
    pages
}

fn check_page(path: &'static str) {
    let (_, cases) = PAGES.iter().find(|(known, _)| *known == path).unwrap();
    let file = Path::new(REPOSITORY).join(path);
    let text = fs::read_to_string(&file).unwrap();
    let mut check = PageCheck { path, text: text.clone(), wrong: Vec::new() };
    check.run_blocks(cases);
    if std::env::var_os("RALPH_GENERATE").is_some() && check.text != text {
        fs::write(&file, &check.text).unwrap();
    }
    assert!(check.wrong.is_empty(), "{}", check.wrong.join("\n\n"));
}

/// A page that is added, or an example that is removed, changes the tables above.
#[test]
fn every_example_is_in_a_table_and_every_entry_has_an_example() {
    let pages = pages_with_examples();
    let mut known: Vec<_> = PAGES.iter().map(|(path, _)| path.to_string()).collect();
    known.sort();
    assert_eq!(pages, known, "pages with examples");
    let mut lines: Vec<_> = lines_of_help();
    for path in pages {
        let text = fs::read_to_string(Path::new(REPOSITORY).join(path)).unwrap();
        for block in code_blocks(&text) {
            if block.is_transcript() {
                lines.extend(block.transcript().into_iter().map(|command| command.line));
            } else {
                lines.extend(command_lines(&block.lines));
            }
        }
    }
    let not_run = NOT_RUN.iter().map(|(line, _)| *line);
    let entries = LINE_CASES.iter().map(|case| case.line).chain(not_run);
    let unused: Vec<_> = entries.filter(|entry| !lines.iter().any(|line| line == entry)).collect();
    assert_eq!(unused, Vec::<&str>::new(), "entries without an example");
}
