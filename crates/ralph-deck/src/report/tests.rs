use super::*;
use crate::page::{
    CellState, ChangedFileRow, CostRow, CostRowSource, GateHistoryRow, GateMeasurement, LookFirst,
    LookFirstKind, MatrixCell, MatrixRow, ProofTable, ProofTableRow, QuestionRow, RunStanding,
    SessionRow, StopColumn, TimelineKind, TimelineRow,
};
use pulldown_cmark::{Event, Options, Parser};
use ralph_core::cost_reading::CostBasis;
use ralph_core::record::MeasuredSite;
use ralph_core::status::RunStatus;
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde_json::Value;
use std::time::Duration;

const RUN: &[u8] = include_bytes!("../../../../fixtures/state/v2/run.json");
const STATE: &[u8] = include_bytes!("../../../../fixtures/state/v2/state.json");
const JOURNAL: &[u8] = include_bytes!("../../../../fixtures/state/v2/journal.jsonl");

/// The report of a recorded run. Its journal was edited when it was made a fixture.
fn recorded_report() -> RunReport {
    let directory = tempfile::tempdir().unwrap();
    let home = RalphHome::new(directory.path().to_owned());
    let run = RunId::parse("k7f2").unwrap();
    let paths = home.run(&run);
    fs::create_private_dir(paths.directory()).unwrap();
    for (path, bytes) in
        [(paths.run_record(), RUN), (paths.state(), STATE), (paths.journal(), JOURNAL)]
    {
        assert!(fs::create_new(&path, bytes).unwrap());
    }
    let deadline = Deadline::after(Duration::from_secs(10));
    let env = Env::from_pairs::<&str, &str>([], None, Vec::new());
    RunReport::load(&env, &home, &run, 1_794_915_300_000, &deadline).unwrap()
}

/// A report in which every text that is not ralph's own is `foreign`.
fn report_with(foreign: &str) -> RunReport {
    let mut report = recorded_report();
    let text = || foreign.to_string();
    let page = &mut report.page;
    page.row.title = text();
    page.row.project_name = text();
    page.goal = text();
    page.rests_on = vec![text()];
    page.damage = None;
    page.journal_edit = None;
    page.judged_commit = Some(text());
    page.judged_tree = Some(text());
    page.checkpoint = Some(1);
    report.base_commit = Some(text());
    page.look_first = [(LookFirstKind::Waiver, Some(1)), (LookFirstKind::OutsideGoal, None)]
        .map(|(kind, stop)| LookFirst { kind, text: text(), stop })
        .into();
    let column = StopColumn { first: 1, last: 1, seq: 1, at_ms: 0 };
    page.matrix.columns = vec![column];
    page.matrix.rows = vec![MatrixRow {
        name: text(),
        stage: text(),
        cells: vec![MatrixCell { state: CellState::Unmet, findings: 1 }],
        met_since: None,
        open_stops: 1,
    }];
    page.matrix.always_met = vec![text(), text()];
    page.timeline = vec![TimelineRow {
        seq: 1,
        at_ms: 0,
        kind: TimelineKind::Held,
        stop: Some(1),
        iteration: 1,
        text: text(),
        rule: None,
        reason: Some(text()),
        gates_ms: None,
        cost_micro_usd: None,
        checkpoint: Some(1),
        met: None,
        requirements: None,
    }];
    fill_evidence(page, foreign);
    let file = ChangedFileRow { path: text(), status: "added", added: Some(1), removed: Some(0) };
    let files = vec![file];
    report.changes =
        Some(CheckpointDiff { from: 0, to: 1, files, left_out: 0, added: 1, removed: 0 });
    report.outside_goal = vec![text()];
    report.not_covered = vec![text()];
    report
}

fn fill_evidence(page: &mut RunPage, foreign: &str) {
    let text = || foreign.to_string();
    page.gates = vec![GateHistoryRow {
        name: text(),
        site: MeasuredSite::Clean,
        outcome: text(),
        tests: None,
        findings: 1,
        executed: 1,
        cached: 0,
        failed: 1,
        took_ms: 5,
        saved_ms: 0,
        longest_ms: 5,
        flaky: 0,
        log: Some(text()),
        measurements: vec![GateMeasurement {
            seq: 1,
            at_ms: 0,
            outcome: text(),
            took_ms: 5,
            cached: false,
        }],
    }];
    page.proof = Some(ProofTable {
        verdict: text(),
        rows: vec![ProofTableRow {
            name: "T1",
            code: "new",
            tests: "new",
            result: text(),
            passed: Some(false),
        }],
        doubts: vec![text()],
    });
    page.sessions = vec![SessionRow {
        number: 1,
        session: text(),
        model: Some(text()),
        started_ms: 0,
        turns: 1,
        tokens: 1,
        micro_usd: 1,
        gates_micro_usd: 0,
        is_assumed: false,
        handed_over: None,
        context_permille: None,
    }];
    page.costs = vec![CostRow {
        source: CostRowSource::Session,
        number: Some(1),
        session: Some(text()),
        started_ms: 0,
        model: Some(text()),
        turns: Some(1),
        tokens: Some(1),
        micro_usd: Some(1),
        basis: CostBasis::Reported,
    }];
    page.questions = vec![QuestionRow {
        asked_ms: 0,
        question: text(),
        until_ms: None,
        answered_ms: Some(1),
        answer: Some(text()),
        by: Some(text()),
    }];
}

/// Times are shown in the local time zone.
fn without_times() -> impl Drop {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "[time]");
    settings.add_filter(r"\bUTC([+-]\d+(:\d\d)?)?", "[zone]");
    settings.add_filter(r"(- |<td>)\d\d:\d\d\b", "${1}[time]");
    settings.add_filter(r"\d\d:\d\d (the agent|\|)", "[time] $1");
    settings.add_filter(r"sha256-[^']+'", "sha256-[hash]'");
    settings.add_filter(r"(?s)<style>.*</style>", "<style>…</style>");
    settings.bind_to_scope()
}

#[test]
fn a_damaged_journal_is_named() {
    let _filter = without_times();
    let markdown = render_markdown(&recorded_report(), &Redactor::default());
    insta::assert_snapshot!(markdown, @r"
    # paused, but the journal was edited: make it work

    2 iterations, 16 s, ≈ $0.0016

    Run `k7f2` of `project`
    [time] to [time] [zone]

    ## What that rests on

    - **Measured** not known: the journal was edited
    - **Policy** none
    - **Journal** not to be trusted: the journal was edited: line 2 does not continue the one before it
    - **Next** do not rely on this result: review the work yourself, or run it again

    ## Look at this first

    1. nothing here can be trusted: the journal was edited: line 2 does not continue the one before it

    ## What was asked

    ```text
    make it work
    ```

    ## Evidence

    No gate has a result on record.

    ## What happened

    - [time] started: make it work

    ## Check it

    ```sh
    ralph why k7f2
    ```
    ");
}

/// The commands make sense one after another: no diff of a commit with itself, and no check of a statement before its
/// files are in a commit.
#[test]
fn the_commands_to_check_a_report_fit_the_run() {
    let commands = |base: &str, landed: Option<&str>, status: RunStatus| {
        let mut report = report_with("x");
        report.page.row.standing = RunStanding::Ended(status);
        report.base_commit = Some(base.to_string());
        report.page.judged_commit = Some("2fce081cdd00".to_string());
        report.landed_commit = landed.map(str::to_string);
        report_lines::check_commands(&report).join("\n")
    };
    let shown = [
        commands("c80901203c00", None, RunStatus::Verified),
        commands("c80901203c00", Some("9a48a2c60500"), RunStatus::Verified),
        commands("2fce081cdd00", None, RunStatus::Stuck),
    ];
    insta::assert_snapshot!(shown.join("\n\n"), @"
    ralph why k7f2
    git diff c80901203c 2fce081cdd
    # commit the work first: `verify-report` compares with HEAD
    ralph report k7f2 --attest --out k7f2.intoto.json
    ralph verify-report k7f2.intoto.json

    ralph why k7f2
    git diff c80901203c 2fce081cdd
    ralph report k7f2 --attest --out k7f2.intoto.json
    ralph verify-report k7f2.intoto.json

    ralph why k7f2
    ");
}

#[test]
fn a_proof_may_rest_on_new_tests() {
    let row = |telling| ProofTableRow {
        name: "T3",
        code: "old",
        tests: "new",
        result: String::new(),
        passed: Some(telling),
    };
    let table = |telling| ProofTable {
        verdict: "green".to_string(),
        rows: vec![row(telling)],
        doubts: Vec::new(),
    };
    assert!(table(true).has_telling_tests() && !table(false).has_telling_tests());
}

/// What hostile texts of several kinds try: to close what they are in, to become links, mentions, commands, markup,
/// cells of a table or attributes.
const HOSTILE: [&str; 9] = [
    "` <script>alert(1)</script> ``` </style> <img src=x onerror=alert(1)>",
    "[link](https://evil.example) ![image](https://evil.example/x.png) <https://evil.example>",
    "a | b \\| c \\\\| d | <b>e</b>",
    "1. one",
    "# heading",
    "- item **bold** _slanted_ ~~gone~~ &lt;b&gt; &#60;",
    "@owner closes #1 www.evil.example evil.sh mail@evil.example [skip ci]",
    "\" onload=alert(1) x=\" ' style='x",
    "``",
];

/// The structure of Markdown, without its texts.
fn skeleton(markdown: &str) -> Vec<String> {
    let events = Parser::new_ext(markdown, Options::all());
    // Where a text is inert it has no code span; within a code block, its lines are texts of their own.
    let is_structure = |event: &Event<'_>| !matches!(event, Event::Code(_) | Event::Text(_));
    let mut all: Vec<_> = events.filter(is_structure).map(|event| format!("{event:?}")).collect();
    all.dedup();
    all
}

#[test]
fn foreign_text_stays_text_in_markdown() {
    let expected = skeleton(&render_markdown(&report_with("plain"), &Redactor::default()));
    for foreign in HOSTILE {
        let markdown = render_markdown(&report_with(foreign), &Redactor::default());
        assert_eq!(skeleton(&markdown), expected, "{foreign}\n{markdown}");
        for event in Parser::new_ext(&markdown, Options::all()) {
            if let Event::Text(text) = event {
                assert!(!text.contains("https://evil") && !text.contains("@owner"), "{text}");
            }
        }
    }
    let _filter = without_times();
    insta::assert_snapshot!(render_markdown(&report_with(HOSTILE[2]), &Redactor::default()));
}

/// The tags of a page, with the names of their attributes.
fn tags(html: &str) -> Vec<String> {
    let quoted = |tag: &str| tag.split('"').step_by(2).collect::<String>();
    html.split('<').skip(1).map(|part| quoted(part.split_once('>').unwrap().0)).collect()
}

#[test]
fn foreign_text_stays_text_in_html() {
    let expected = tags(&render_html(&report_with("plain"), &Redactor::default()));
    for foreign in HOSTILE {
        let html = render_html(&report_with(foreign), &Redactor::default());
        assert_eq!(tags(&html), expected, "{foreign}");
    }
    let _filter = without_times();
    let html = render_html(&report_with(HOSTILE[0]), &Redactor::default());
    insta::assert_snapshot!(html.replace("><", ">\n<"));
}

/// The runner names branches and paths between backticks. Markdown of a branch stays text.
#[test]
fn names_in_the_words_of_the_runner_are_code() {
    let mut shown = String::new();
    for text in [
        "merged into `main` as 5c59407cfb",
        "`main` moved",
        "merged into `<b>` as [x](https://evil.example)",
        "one ` alone",
    ] {
        let mut report = recorded_report();
        let row = report.page.timeline.first_mut().unwrap();
        row.kind = TimelineKind::Runner;
        row.text = text.to_string();
        let line =
            |page: &str| page.lines().find(|line| line.contains("runner: ")).unwrap().to_string();
        let markdown = line(&render_markdown(&report, &Redactor::default()));
        let markdown = markdown.replace('\u{2060}', "[word joiner]");
        let html = render_html(&report, &Redactor::default());
        let html = line(&html.replace("<td>", "\n").replace("</td>", "\n"));
        shown.push_str(&format!("{markdown}\n  {html}\n"));
    }
    let _filter = without_times();
    insta::assert_snapshot!(shown, @r"
    - [time] runner: merged into `main` as 5c59407cfb
      runner: merged into <code>main</code> as 5c59407cfb
    - [time] runner: `main` moved
      runner: <code>main</code> moved
    - [time] runner: `` merged into `<b>` as [x](https:[word joiner]//evil.example) ``
      runner: merged into <code>&lt;b&gt;</code> as [x](https://evil.example)
    - [time] runner: `` one ` alone ``
      runner: one ` alone
    ");
}

#[test]
fn secrets_are_removed_from_every_format() {
    let redactor = Redactor::new(vec!["hunter2-hunter2".to_string()]);
    let report = report_with("the password is hunter2-hunter2");
    let formats = [
        render_markdown(&report, &redactor),
        render_html(&report, &redactor),
        render_json(&report, &redactor),
    ];
    for text in formats {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

/// The policy of the page allows exactly its own style, so a browser applies it and nothing else.
#[test]
fn a_page_allows_its_own_style_only() {
    use base64ct::{Base64, Encoding};
    use sha2::{Digest, Sha256};
    let html = render_html(&recorded_report(), &Redactor::default());
    let style = html.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let hash = Base64::encode_string(&Sha256::digest(style));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
    );
    assert!(html.contains(&format!("content=\"{policy}\"")));
    assert!(!html.contains("<script") && !html.contains(" style="));
}

/// The keys of all objects in a value.
fn json_keys(value: &Value, keys: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| json_keys(value, keys)),
        Value::Object(fields) => {
            for (key, value) in fields {
                keys.insert(key.clone());
                json_keys(value, keys);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// docs/json.md promises RFC 3339 times, US dollars, and milliseconds only for durations.
#[test]
fn json_has_the_documented_units() {
    let report = serde_json::to_value(report_with("x")).unwrap();
    let mut keys = std::collections::BTreeSet::new();
    json_keys(&report, &mut keys);
    let units = ["_ms", "_usd", "_share", "_at", "micro", "permille"];
    keys.retain(|key| units.iter().any(|unit| key.contains(unit)));
    insta::assert_snapshot!(keys.into_iter().collect::<Vec<_>>().join(" "), @"answered_at asked_at context_share cost_usd elapsed_ms gates_cost_usd gates_ms handover_at last_seen_at longest_ms max_cost_usd max_duration_ms saved_ms spent_usd started_at took_ms");
    insta::assert_snapshot!(report["page"]["row"]["started_at"], @r#""2026-11-17T11:34:03.836Z""#);
}

/// The timeline of a long night is read for what happened between the holds.
#[test]
fn many_holds_in_a_row_are_joined_in_a_long_timeline() {
    let mut report = report_with("tests failed");
    let hold = report.page.timeline[0].clone();
    let runner = |text: &str| TimelineRow {
        kind: TimelineKind::Runner,
        stop: None,
        text: text.to_string(),
        ..hold.clone()
    };
    let holds = |from: u32, to: u32| {
        (from..=to).map(|stop| TimelineRow { stop: Some(stop), ..hold.clone() }).collect::<Vec<_>>()
    };
    let mut events = |timeline: Vec<TimelineRow>| {
        report.page.timeline = timeline;
        let page = render_markdown(&report, &Redactor::default());
        let (_, events) = page.split_once("## What happened\n\n").unwrap();
        events.split_once("\n\n").unwrap().0.to_string()
    };
    let _filter = without_times();
    let (fresh, trouble) = (runner("session 2 starts"), runner("the provider is overloaded"));
    let night = [holds(1, 20), vec![fresh], holds(21, 24), vec![trouble], holds(25, 60)].concat();
    insta::assert_snapshot!(events(night), @"
    - [time] stop 1, held: tests failed
    - [time] stops 2 to 19, held
    - [time] stop 20, held: tests failed
    - [time] runner: session 2 starts
    - [time] stop 21, held: tests failed
    - [time] stop 22, held: tests failed
    - [time] stop 23, held: tests failed
    - [time] stop 24, held: tests failed
    - [time] runner: the provider is overloaded
    - [time] stop 25, held: tests failed
    - [time] stops 26 to 59, held
    - [time] stop 60, held: tests failed
    ");
    // In a short one, each is listed.
    assert_eq!(events(holds(1, 30)).lines().count(), 30);
}
