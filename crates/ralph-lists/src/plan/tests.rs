//! Plans as people, agents and other tools write them, and malformed ones.

use super::*;
use proptest::prelude::*;
use ralph_core::input_bounds::MAX_LIST_ITEMS;
use ralph_core::requirement::{RequirementStatus, RequirementWeight};
use std::os::unix::fs::symlink;

fn render_plan(bytes: &[u8]) -> String {
    let plan = match parse_plan(bytes) {
        Ok(plan) => plan,
        Err(garbled) => return format!("garbled: {}", garbled.why),
    };
    let mut lines: Vec<String> = plan.title.iter().map(|title| format!("# {title}")).collect();
    for item in &plan.items {
        let tick = if item.done { 'x' } else { ' ' };
        let line = item.line.unwrap_or_default();
        lines.push(format!("{line} [{tick}] {}", item.name));
        if !item.name.ends_with(&item.text) {
            lines.push(format!("    text: {}", item.text));
        }
        if item.weight == RequirementWeight::Advisory {
            lines.push("    optional".to_string());
        }
        if let Some(check) = &item.check {
            lines.push(format!("    check: {}", serde_json::to_string(check).unwrap()));
        }
        if !item.names.is_empty() {
            lines.push(format!("    names: {}", item.names.join(" ")));
        }
    }
    lines.extend(plan.notes.iter().map(|note| note.format_for("PLAN.md")));
    lines.join("\n")
}

macro_rules! check_file {
    ($file:literal, @$snapshot:literal) => {
        let bytes = include_bytes!(concat!("../../../../fixtures/plans/", $file));
        insta::assert_snapshot!(render_plan(bytes), @$snapshot);
    };
}

#[test]
fn a_plan_of_the_clients_plan_mode() {
    check_file!("claude-plan-mode.md", @r#"
    # Plan: CSV export
    14 [x] Steps: Move rows() from src/export/json.rs to src/export/rows.rs
        text: Move `rows()` from `src/export/json.rs` to `src/export/rows.rs`
        names: src/export/json.rs src/export/rows.rs
    15 [ ] Steps: Write the CSV writer in src/export/csv.rs, quoting as RFC 4…
        text: Write the CSV writer in `src/export/csv.rs`, quoting as RFC 4180 says
        check: ["cargo","test","csv_export"]
        names: src/export/csv.rs
    16 [ ] Steps: Offer --format csv in src/cli.rs
        text: Offer `--format csv` in src/cli.rs
        names: src/cli.rs
    17 [ ] Steps: Document it in README.md and docs/export.md
        names: README.md docs/export.md
    "#);
}

#[test]
fn an_implementation_plan_of_the_playbook() {
    check_file!("ralph-playbook.md", @r#"
    # Implementation Plan
    9 [x] Priority 1: Parser: 1.1 Tokenise quoted strings — specs/parser.md
        names: specs/parser.md
    10 [ ] Priority 1: Parser: 1.2 Nested quotes, see src/parser.rs:88
        text: 1.2 Nested quotes, see `src/parser.rs:88`
        names: src/parser.rs
    11 [x] Priority 1: Parser: single inside double
    12 [ ] Priority 1: Parser: double inside single
    13 [ ] Priority 1: Parser: 1.3 Error positions; today only the line is known
    17 [ ] Priority 2: Evaluator: Short-circuit && and ||
        text: Short-circuit `&&` and `||`
    18 [ ] Priority 2: Evaluator: Integer overflow is an error
        check: ["cargo","test","--test","overflow"]
    22 [ ] Discovered issues: Value::Null compares equal to 0
        text: `Value::Null` compares equal to `0`
    23 [ ] Discovered issues: The REPL forgets history
    "#);
}

#[test]
fn a_fix_plan_with_optional_sections() {
    check_file!("frankbria-fix-plan.md", @"
    # Ralph Fix Plan
    4 [x] High Priority: Set up the build
    5 [ ] High Priority: Parse the configuration file
    6 [ ] High Priority: Report errors with a line number
    9 [ ] Medium Priority: Watch the file and reload
    12 [ ] Hardening: Limit its size to 1 MiB
    15 [ ] Low Priority (OPTIONAL): Colours
        optional
    17 [ ] Themes: A dark one
        optional
    20 [x] Completed: Project initialisation
    23 [ ] OPTIONAL: Windows
        optional
    ");
}

#[test]
fn tasks_of_smart_ralph() {
    check_file!("smart-ralph-tasks.md", @r#"
    # Tasks: token refresh
    11 [x] Phase 1: Make It Work (POC): 1.1 [P] Store the refresh token
        check: ["pnpm","test","auth/login"]
        names: migrations/0007_refresh.sql src/auth/login.ts src/auth/store.ts
    21 [ ] Phase 1: Make It Work (POC): 1.2 [P] Rotate it
        check: {"shell":"curl -s localhost:3000/health | jq -e .ok"}
        names: src/auth/rotate.ts
    26 [ ] Phase 1: Make It Work (POC): 1.3 [VERIFY] Quality checkpoint: pnpm lint && pnpm test
        text: 1.3 [VERIFY] Quality checkpoint: `pnpm lint && pnpm test`
    32 [ ] Phase 2: Refactoring: 2.1 Extract the clock
        check: ["pnpm","check"]
    37 [ ] Phase 3: Testing: 3.1 Unit tests
        check: ["pnpm","test","unit"]
    40 [ ] Phase 3: Testing: V4 [VERIFY] Full local CI
        check: ["pnpm","run","ci"]
    `PLAN.md:28`: its check is not just a command; write it as `(verify: COMMAND)`
    `PLAN.md:39`: the item already has a check; this one is ignored
    "#);
}

#[test]
fn a_plan_of_ralphex() {
    check_file!("ralphex-plan.md", @"
    # Fresh start for finished logs
    20 [x] Task 1: Detect a finished log: add isCompleted(path string) bool, reading the last 256 byt…
        text: add `isCompleted(path string) bool`, reading the last 256 bytes
    21 [x] Task 1: Detect a finished log: truncate instead of appending
    24 [ ] Task 1: Detect a finished log: run go test ./pkg/progress/ — must pass
        text: run `go test ./pkg/progress/` — must pass
    28 [ ] Task 2: Documentation: update CLAUDE.md if needed
        names: CLAUDE.md
    29 [ ] Task 2: Documentation: use this format for [ ] unchecked items
    ");
}

#[test]
fn tasks_of_spec_kit() {
    check_file!("spec-kit-tasks.md", @"
    # Tasks: Photo albums
    16 [x] Phase 1: Setup (Shared Infrastructure): T001 Create project structure per implementation plan
    17 [ ] Phase 1: Setup (Shared Infrastructure): T002 [P] Configure linting in .eslintrc.json
        names: .eslintrc.json
    23 [ ] Tests for User Story 1 (OPTIONAL - only if tests requested)…: T010 [P] [US1] Contract test for albums in tests/contract/t…
        text: T010 [P] [US1] Contract test for albums in tests/contract/test_albums.py
        optional
        names: tests/contract/test_albums.py
    27 [ ] Implementation for User Story 1: T012 [P] [US1] Create Album model in src/models/album.py
        names: src/models/album.py
    28 [ ] Implementation for User Story 1: T013 [US1] Implement AlbumService in src/services/album_ser…
        text: T013 [US1] Implement AlbumService in src/services/album_service.py (depends on T012)
        names: src/services/album_service.py
    36 [ ] Phase N: Polish & Cross-Cutting Concerns: TXXX [P] Documentation updates in docs/
        names: docs/
    ");
}

#[test]
fn tasks_of_kiro() {
    check_file!("kiro-tasks.md", @"
    # Implementation Plan
    3 [x] Implementation Plan: 1. Set up project structure
        names: src/models/ src/services/
    7 [ ] Implementation Plan: 2. Implement data models
    8 [ ] Implementation Plan: 2.1 Create interfaces in src/models/types.ts
        names: src/models/types.ts
    12 [ ] Implementation Plan: 2.2 Write unit tests for models
        optional
    15 [ ] Implementation Plan: 3. Create storage mechanism
    16 [x] Implementation Plan: 3.1 Connection utilities
    17 [ ] Implementation Plan: 3.2 Property tests for the pool
        optional
    18 [ ] Implementation Plan: 3.2.1 generators
        optional
    19 [ ] Implementation Plan: 3.3 Retry on failure
    ");
}

#[test]
fn nested_lists() {
    check_file!("nested.md", @r#"
    # Release
    3 [ ] Release: Cut the branch
    4 [x] Release: freeze
    5 [ ] Release: tag
    6 [ ] Release: sign the tag
        check: ["git","verify-tag","v1"]
    12 [ ] Release: a box below a plain bullet
    13 [x] Release: Announce on the list, and in CHANGELOG.md
        text: Announce on the list, and in `CHANGELOG.md`
        names: CHANGELOG.md
    18 [ ] Release: but this is one
    "#);
}

#[test]
fn boxes_in_code_and_comments_are_not_items() {
    check_file!("code-and-comments.md", @"
    # Boxes that are not items
    3 [ ] Boxes that are not items: the only one
    28 [ ] Boxes that are not items: folded away, but an item
    36 [ ] Boxes that are not items: real text
    ");
}

#[test]
fn optional_sections_and_items_are_recognised() {
    check_file!("optional.md", @"
    # Backlog
    4 [ ] Must have: login
    5 [ ] Must have: profile picture (optional)
        optional
    6 [ ] Must have: Optional: nickname
        optional
    7 [ ] Must have: name (optional) field is validated
    10 [ ] Nice-to-have: avatars
        optional
    12 [ ] Required for avatars: storage
        optional
    15 [ ] Optional arguments: --verbose
        text: `--verbose`
    18 [x] Future work / out of scope: rewrite it
        optional
    21 [ ] Support Optional in the parser: grammar
    24 [ ] Later: all of it again
        optional
    27 [ ] Now: this
    `PLAN.md:14`: this section is required; add `(optional)` to its heading if it is not
    ");
}

#[test]
fn checks_that_items_name() {
    check_file!("checks.md", @r#"
    # Checks
    3 [ ] Checks: plain
        check: ["cargo","test","parser"]
    4 [ ] Checks: in backticks
        check: ["npm","run","check","--","--bail"]
    5 [ ] Checks: quoted
        check: ["pytest","-k","a and b"]
    6 [ ] Checks: on the next line
        check: ["make","check"]
    8 [ ] Checks: on the next line, wrapped
        check: ["cargo","test","--all"]
    11 [ ] Checks: in a paragraph
        check: ["./scripts/check.sh","--fast"]
    14 [ ] Checks: with a pipe
        check: {"shell":"cargo test | tail"}
    15 [ ] Checks: with two
        check: ["make","a"]
    17 [ ] Checks: with a variable
        check: {"shell":"echo $HOME"}
    18 [ ] Checks: in words
    20 [ ] Checks: Verify: this is the item itself
    21 [ ] Checks: fails on purpose
    23 [ ] Checks: open quote
        text: open quote (verify: echo "a)
    24 [ ] Checks: not at the end (verify: make a) of it
    25 [ ] Checks: empty
        text: empty (verify:)
    26 [ ] Checks: stars
        check: {"shell":"ls a*b*c"}
    27 [ ] Checks: parent
    28 [ ] Checks: child
        check: ["make","child"]
    `PLAN.md:16`: the item already has a check; this one is ignored
    `PLAN.md:19`: its check is not just a command; write it as `(verify: COMMAND)`
    `PLAN.md:22`: its check is not just a command; write it as `(verify: COMMAND)`
    `PLAN.md:23`: its check has an unclosed quote
    `PLAN.md:25`: its check is empty
    "#);
}

#[test]
fn unusual_files() {
    let utf16: Vec<u8> = "\u{feff}- [ ] a".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let huge = b"- [ ] a\n".repeat(MAX_PLAN_BYTES / 8 + 1);
    let cases: [(&str, &[u8]); 28] = [
        ("empty", b""),
        ("blank", b" \n\t\r\n"),
        ("no newline at the end", b"- [ ] a"),
        ("carriage returns and newlines", b"# A\r\n\r\n- [ ] a\r\n  Verify: make a\r\n- [x] b\r\n"),
        ("carriage returns alone", b"# A\r- [ ] a\r- [x] b"),
        ("byte order mark", b"\xef\xbb\xbf- [ ] a\n- [x] b"),
        ("latin-1", b"# \xdcbung\n- [ ] Gr\xfc\xdfe\n"),
        ("UTF-16", &utf16),
        ("binary", b"\x7fELF\0\0"),
        ("no Markdown", b"{\"features\": [{\"passes\": false}]}"),
        ("too large", &huge),
        ("half a line", b"# A\n- [x] a\n- [ ] b\n- [ "),
        ("half a box", b"- [ ] a\n- ["),
        ("code that never ends", b"- [ ] a\n```sh\n- [ ] b\n"),
        ("a comment that never ends", b"- [ ] a\n\n<!-- hidden\n\n- [ ] b\n"),
        ("boxes without text", b"- [ ]\n- [x] \n- [] a\n-[ ] b\n- [ ]c\n- [  ] d\n- [ ] e\n"),
        ("the same again", b"## A\n- [ ] a\n- [x] a\n- [ ] a (2)\n- [ ] a\n## A\n- [ ] a\n"),
        ("TOML front matter", b"+++\ntitle = \"x\"\n# - [ ] a\n+++\n- [ ] b\n"),
        ("YAML front matter", b"---\ntitle: x\ntags:\n  - a\n...\n- [ ] b\n"),
        ("front matter that never ends", b"---\ntitle: x\n- [ ] b\n"),
        ("a plan between rules", b"---\nGoal: all of it\n\n- [ ] b\n\n---\n- [ ] c\n"),
        ("headings underlined", b"Plan\n====\n\nFuture work\n-----------\n- [ ] b\n\nNow\n---\n- [ ] c\n"),
        ("a heading in a list", b"- # A\n- [ ] b\n  ## C\n  - [ ] d\n"),
        ("hidden characters", "# A\u{202e}\n- [ ] a\u{200b}\u{1b}[31mb`c\u{1b}]0;x\u{7}`\n".as_bytes()),
        ("backticks", b"## `a``b\n- [ ] ``c ` d`` and ` e\n"),
        ("a reference called x", b"- [x] a [x] b\n- [ ] [x]\n\n[x]: https://example.org\n"),
        ("emphasis, links, images, tags", b"- [ ] **a** _b_ [c](https://example.org) ![d](https://example.org/d.png) Vec<T> &amp; \\*e\\*\n"),
        ("other marks", "- [✓] a\n- [✔] b\n- [>] c\n- [!] d\n- [?] e\n- [y] f\n- [\u{a0}] g\n".as_bytes()),
    ];
    let all: Vec<String> =
        cases.iter().map(|(name, bytes)| format!("== {name}\n{}", render_plan(bytes))).collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn names_and_texts_are_cut() {
    let long = format!("# {}\n- [ ] {}\n", "h".repeat(5_000), "word ".repeat(5_000));
    let plan = parse_plan(long.as_bytes()).unwrap();
    let item = &plan.items[0];
    let lengths =
        [plan.title.as_ref().unwrap(), &item.name, &item.text].map(|it| it.chars().count());
    assert_eq!(lengths, [2_000, 60 + 2 + 60, 2_000]);
}

/// R-S4c: a tick only sets `done`; everything else about the item stays the same.
#[test]
fn a_tick_is_a_claim() {
    let before = parse_plan(b"# A\n- [ ] src/a.rs parses (verify: cargo test)\n").unwrap();
    let after = parse_plan(b"# A\n- [x] src/a.rs parses (verify: cargo test)\n").unwrap();
    let claimed: Vec<ListItem> =
        before.items.iter().map(|item| ListItem { done: true, ..item.clone() }).collect();
    assert_eq!(after.items, claimed);
}

#[test]
fn items_and_nesting_are_bounded() {
    for (text, expected) in [
        ("- [ ] a\n".repeat(MAX_LIST_ITEMS), "20000 items"),
        ("- [ ] a\n".repeat(MAX_LIST_ITEMS + 1), "it has more than 20,000 items or headings"),
        ("# a\n".repeat(MAX_LIST_ITEMS + 1), "it has more than 20,000 items or headings"),
        (format!("a\n{}[ ] a\n", "- ".repeat(64)), "1 items"),
        (format!("a\n{}[ ] a\n", "- ".repeat(65)), "line 2 starts more than 64 nested lists"),
        (format!("{}\n- [ ] a\n", "- ".repeat(100)), "1 items"),
        (format!("{}- [ ] a\n", "> ".repeat(100)), "line 1 starts more than 64 nested lists"),
        (format!("- [ ] a\n\n{}b\n- [ ] c\n", " ".repeat(100_000)), "2 items"),
    ] {
        let found = match parse_plan(text.as_bytes()) {
            Ok(plan) => format!("{} items", plan.items.len()),
            Err(garbled) => garbled.why,
        };
        assert_eq!(found, expected);
    }
}

fn nested_boxes(lines: usize) -> String {
    let lines: Vec<_> = (0..lines).map(|line| "  ".repeat(line % 60) + "- [ ] a\n").collect();
    lines.concat()
}

#[test]
fn a_megabyte_of_brackets_or_of_nested_boxes_is_read() {
    let brackets = "[".repeat(1024 * 1024);
    assert_eq!(parse_plan(brackets.as_bytes()).unwrap().items.len(), 0);
    assert_eq!(parse_plan(nested_boxes(15_000).as_bytes()).unwrap().items.len(), 15_000);
}

/// A measure of the work that the Markdown parser does for a text.
fn parser_work(text: &str) -> usize {
    let document = document::prepare_document(text.as_bytes()).unwrap();
    let events = pulldown_cmark::Parser::new(&document.text);
    events.map(|event| 1 + format!("{event:?}").len() / 64).sum()
}

/// Sixteen times the text is at most about sixteen times the work, for any text.
#[test]
fn parsing_takes_linear_time() {
    let shapes: [(&str, &dyn Fn(usize) -> String); 12] = [
        ("brackets", &|size| "[".repeat(size)),
        ("boxes on one line", &|size| "- [ ] ".repeat(size / 6).replacen("- ", "-", 64)),
        ("nested boxes", &|size| nested_boxes(size / 70)),
        ("a deep list and blank lines", &|size| {
            format!("{}a{}", "- ".repeat(60), "\n".repeat(size))
        }),
        ("backticks of every length", &|size| {
            (1..).map(|it| "`".repeat(it)).take(size.isqrt()).collect::<Vec<_>>().join(" ")
        }),
        ("stars", &|size| "*a **a ".repeat(size / 7)),
        ("comments that begin", &|size| "a <!-- ".repeat(size / 7)),
        ("tags that begin", &|size| "<a b='".repeat(size / 6)),
        ("references", &|size| "[a]: b\n[a]\n".repeat(size / 11)),
        ("quotes", &|size| {
            "> ".repeat(30).repeat(size / 60).replace("> > > > > > > > > > >", "a\n>")
        }),
        ("checks that do not end", &|size| {
            format!("- [ ] a\n{}", "  Verify: `a\n".repeat(size / 13))
        }),
        ("indentation", &|size| " ".repeat(size)),
    ];
    for (name, shape) in shapes {
        let (small, large) = (parser_work(&shape(8 * 1024)), parser_work(&shape(128 * 1024)));
        assert!(large <= 20 * small.max(64), "{name}: {small} steps, then {large}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        assert_plan_is_valid(&bytes);
    }

    #[test]
    fn no_pieces_of_plans_panic(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        assert_plan_is_valid(text.as_bytes());
    }
}

const PIECES: [&str; 40] = [
    "- [ ] ",
    "- [x] ",
    "* [/] ",
    "1. [ ]* ",
    "  ",
    "    ",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    "# ",
    "## Optional\n",
    "```",
    "~~~",
    "<!--",
    "-->",
    "> ",
    "(verify: ",
    ")",
    "Verify: ",
    "`",
    "``",
    "cargo test",
    "src/a.rs",
    "ä",
    "\u{202e}",
    "[x]",
    "[x]: b\n",
    "(optional)",
    "---\n",
    "a: b\n",
    "**",
    "_",
    "\\",
    "&&",
    "'",
    "\"",
    "<a",
    "|",
];

fn assert_plan_is_valid(bytes: &[u8]) {
    let Ok(plan) = parse_plan(bytes) else { return };
    let lines = u32::try_from(bytes.len()).unwrap() + 1;
    let mut names: Vec<&str> = plan.items.iter().map(|item| item.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), plan.items.len(), "names are unique");
    for item in &plan.items {
        assert!(!item.text.is_empty() && item.text.chars().count() <= 2_000);
        assert!(item.name.chars().count() <= 140 && !item.name.contains('`'));
        assert!(!item.name.chars().chain(item.text.chars()).any(text::is_hidden));
        assert!(item.names.len() <= 16);
        assert!(item.names.iter().all(|name| !name.contains("..") && !name.starts_with('/')));
        assert!(item.check.as_ref().is_none_or(|check| !check.command_line().is_empty()));
        assert!(item.line.is_some_and(|line| 0 < line && line <= lines));
    }
}

fn project(files: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for file in files {
        let path = directory.path().join(file);
        fs::create_private_dir(path.parent().unwrap()).unwrap();
        fs::replace(&path, b"- [ ] a\n", fs::Durability::Cached).unwrap();
    }
    directory
}

#[test]
fn plans_are_found_in_conventional_locations() {
    let project = project(&[
        "README.md",
        "tasks.md",
        "PLAN.md",
        "IMPLEMENTATION_PLAN.md",
        "fix_plan.md",
        "@fix_plan.md",
        ".ralph/fix_plan.md",
        "specs/002-b/tasks.md",
        "specs/001-a/tasks.md",
        "specs/001-a/plan.md",
        "docs/plans/b/PLAN.md",
        "docs/plans/a/PLAN.md",
        "docs/plans/2026-01-csv.md",
        "docs/plans/README.md",
        "docs/plans/notes.txt",
        "docs/plans/.hidden.md",
        "docs/plans/completed/old.md",
    ]);
    let found: Vec<_> =
        find_plans(project.path()).unwrap().iter().map(|path| path.display().to_string()).collect();
    insta::assert_snapshot!(found.join("\n"), @"
    PLAN.md
    IMPLEMENTATION_PLAN.md
    fix_plan.md
    @fix_plan.md
    .ralph/fix_plan.md
    tasks.md
    specs/001-a/tasks.md
    specs/002-b/tasks.md
    docs/plans/a/PLAN.md
    docs/plans/b/PLAN.md
    docs/plans/2026-01-csv.md
    ");
    assert_eq!(find_plans(&project.path().join("none")).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn a_directory_of_plans_that_cannot_be_listed_is_an_error() {
    let project = project(&["PLAN.md"]);
    symlink("specs", project.path().join("specs")).unwrap();
    assert!(find_plans(project.path()).is_err());
}

#[test]
fn symbolic_links_are_not_followed_out_of_the_project_or_in_cycles() {
    let outside = project(&["secret.md"]);
    let project = project(&["docs/plans/real.md", "docs/plans/dir.md/x"]);
    let at = |file: &str| project.path().join(file);
    symlink(outside.path().join("secret.md"), at("PLAN.md")).unwrap();
    symlink("docs/plans/real.md", at("tasks.md")).unwrap();
    symlink("fix_plan.md", at("fix_plan.md")).unwrap();
    symlink(outside.path(), at("docs/plans/away")).unwrap();
    symlink(at("docs/plans"), at("docs/plans/loop")).unwrap();
    assert_eq!(find_plans(project.path()).unwrap(), [PathBuf::from("tasks.md")]);
    let why = |file: &str| {
        let error = load_plan(project.path(), Path::new(file)).unwrap_err();
        ralph_home::faults::describe_error(&error)
            .replace(&project.path().display().to_string(), "…")
    };
    let all =
        ["PLAN.md", "fix_plan.md", "docs/plans", "none.md", "docs/plans/away/secret.md"].map(why);
    insta::assert_snapshot!(all.join("\n"), @"
    cannot read plan `…/PLAN.md`: it resolves to a path outside the project
    cannot read `…/fix_plan.md`: Too many levels of symbolic links (os error 40)
    cannot read `…/docs/plans`: it is not a regular file
    cannot read `…/none.md`: No such file or directory (os error 2)
    cannot read plan `…/docs/plans/away/secret.md`: it resolves to a path outside the project
    ");
    assert_eq!(load_plan(project.path(), Path::new("tasks.md")).unwrap().items.len(), 1);
}

#[test]
fn large_and_binary_files_are_rejected() {
    let project = project(&["PLAN.md", "binary.md"]);
    ralph_sys::proc::testing::run_successfully(
        project.path(),
        &["truncate", "-s", "100M", "PLAN.md"],
    );
    fs::replace(&project.path().join("binary.md"), b"a\0", fs::Durability::Cached).unwrap();
    let why = |file: &str| {
        let error = load_plan(project.path(), Path::new(file)).unwrap_err();
        ralph_home::faults::describe_error(&error)
            .replace(&project.path().display().to_string(), "…")
    };
    insta::assert_snapshot!(["PLAN.md", "binary.md"].map(why).join("\n"), @"
    cannot read `…/PLAN.md`: it is larger than 4194304 bytes
    cannot read plan `…/binary.md`: it is not text: NUL at byte 1
    ");
}

/// R-S4c: an item that is ticked although nothing that it names changed is reported.
#[test]
fn a_tick_without_work_is_reported() {
    let then = parse_plan(b"# P\n- [ ] a: src/a.rs\n- [ ] b: src/b/\n- [ ] c\n- [x] d: src/d.rs\n- [ ] e: e.rs\n- [ ] f: src/f.rs\n").unwrap();
    let now = parse_plan(b"# P\n- [x] a: src/a.rs\n- [x] b: src/b/\n- [x] c\n- [x] d: src/d.rs\n- [x] e: e.rs\n- [ ] f: src/f.rs\n- [x] new: `src/g.rs` src/h.rs src/i.rs src/j.rs src/k.rs\n").unwrap();
    let report = |touched: &[&str]| {
        let touched: Vec<String> = touched.iter().map(ToString::to_string).collect();
        let list = PlanComparison {
            file: "PLAN.md",
            sealed_items: &then.items,
            current_items: &now.items,
        };
        plan_discrepancies(&[list], &touched).map_or("nothing".to_string(), |requirement| {
            assert_eq!(requirement.weight, RequirementWeight::Advisory);
            let RequirementStatus::Unmet(failure) = requirement.status else {
                panic!("it is unmet")
            };
            let lines = failure.findings.iter().map(|finding| {
                let place = finding.place.as_ref().unwrap();
                format!("{}:{} {}", place.file, place.line.unwrap(), finding.message)
            });
            let lines: Vec<_> = [failure.summary].into_iter().chain(lines).collect();
            lines.join("\n")
        })
    };
    let all = [
        report(&[]),
        report(&["src/a.rs", "src/b/deep/x.rs", "crates/e/e.rs"]),
        report(&["src/ab.rs", "src/b.rs", "some.rs", "src/k.rs"]),
        report(&["crates/x/src/a.rs", "src/b", "e.rs", "src/h.rs"]),
    ];
    insta::assert_snapshot!(all.join("\n--\n"), @"
    4 items are ticked, but nothing that they name changed
    PLAN.md:2 P: a: src/a.rs: ticked, but nothing it names changed: `src/a.rs`
    PLAN.md:3 P: b: src/b/: ticked, but nothing it names changed: `src/b/`
    PLAN.md:6 P: e: e.rs: ticked, but nothing it names changed: `e.rs`
    PLAN.md:8 P: new: src/g.rs src/h.rs src/i.rs src/j.rs src/k.rs: ticked, but nothing it names changed: `src/g.rs`, `src/h.rs`, `src/i.rs`, `src/j.rs`, 1 more
    --
    1 item is ticked, but nothing that it names changed
    PLAN.md:8 P: new: src/g.rs src/h.rs src/i.rs src/j.rs src/k.rs: ticked, but nothing it names changed: `src/g.rs`, `src/h.rs`, `src/i.rs`, `src/j.rs`, 1 more
    --
    3 items are ticked, but nothing that they name changed
    PLAN.md:2 P: a: src/a.rs: ticked, but nothing it names changed: `src/a.rs`
    PLAN.md:3 P: b: src/b/: ticked, but nothing it names changed: `src/b/`
    PLAN.md:6 P: e: e.rs: ticked, but nothing it names changed: `e.rs`
    --
    nothing
    ");
}

#[test]
fn only_the_first_ticks_without_work_are_listed() {
    let now = parse_plan("- [x] a src/a.rs\n".repeat(MAX_LIST_ITEMS).as_bytes()).unwrap();
    let touched: Vec<String> = (0..50_000).map(|number| format!("src/b/{number}.rs")).collect();
    let list = PlanComparison { file: "PLAN.md", sealed_items: &[], current_items: &now.items };
    let requirement = plan_discrepancies(&[list], &touched).unwrap();
    let RequirementStatus::Unmet(failure) = requirement.status else { panic!("it is unmet") };
    assert_eq!((failure.findings.len(), failure.unlisted), (50, MAX_LIST_ITEMS - 50));
    assert_eq!(failure.summary, "20000 items are ticked, but nothing that they name changed");
}
