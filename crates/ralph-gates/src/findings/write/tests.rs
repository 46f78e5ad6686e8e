use super::*;
use crate::findings::{OutputExtent, ReportContext, read_report};
use ralph_core::gate::{GateInvocation, ParsedReport, ReportFormat, ResultStability, TestCounts};
use ralph_core::requirement::{FindingAge, RequirementStage};
use std::path::Path;

const HOSTILE: &str = "]]></failure>\u{1b}[31m%0A::set-output name=x::y\r\n::error::<b>&\"'`` | @you [x](y)\u{202e}\u{ffff}";

fn gate(name: &str, stage: RequirementStage, weight: RequirementWeight) -> Gate {
    Gate { stage, weight, ..Gate::new(name, GateInvocation::Argv(vec!["true".into()])) }
}

fn report(name: &str, outcome: GateOutcome) -> GateReport {
    GateReport {
        exit: Some(0),
        took_ms: 1_234,
        ..GateReport::new(name, outcome, 1_790_000_000_000)
    }
}

/// Writes one gate with each kind of outcome, some with text that tries to break out of the format.
fn write_samples(write: fn(&[ReportedGate<'_>]) -> String) -> String {
    let mut hostile = Finding::new(HOSTILE.into());
    hostile.rule = Some("a:b,c%".into());
    hostile.place =
        Some(FindingLocation { file: "src/my file,1.rs".into(), line: Some(3), column: Some(5) });
    hostile.since = FindingAge::New;
    let mut old = Finding::new("was there".into());
    old.severity = FindingSeverity::Warning;
    old.place = Some(FindingLocation { file: "/usr/x.h".into(), line: None, column: None });
    old.since = FindingAge::PreExisting;
    let mut tests = report("tests", GateOutcome::Failed);
    tests.findings = vec![hostile.clone(), old];
    tests.finding_count = 40;
    tests.tests = Some(TestCounts { run: 12, failed: 2, skipped: 1 });
    tests.exit = Some(1);
    tests.steadiness = ResultStability::Confirmed;
    tests.log = Some("/home/user/.ralph/logs/tests.log".into());
    let mut advice = report("advice", GateOutcome::Failed);
    advice.findings = vec![Finding::new("could be nicer".into())];
    advice.finding_count = 1;
    let broken = GateOutcome::Unknown(UnknownReason::Error(HOSTILE.into()));
    let late = GateOutcome::Unknown(UnknownReason::timeout(300_000));
    let skipped = GateOutcome::Unknown(UnknownReason::Skipped("an earlier stage failed".into()));
    let required = |name, stage| gate(name, stage, RequirementWeight::Required);
    let gates = [
        (required("build", RequirementStage::Correctness), report("build", GateOutcome::Passed)),
        (required("tests", RequirementStage::Correctness), tests),
        (gate("advice", RequirementStage::Quality, RequirementWeight::Advisory), advice),
        (required("scan", RequirementStage::Security), report("scan", broken)),
        (required("slow", RequirementStage::Security), report("slow", late)),
        (required("attack", RequirementStage::Adversarial), report("attack", skipped)),
        (required("bare", RequirementStage::Quality), report("bare", GateOutcome::Failed)),
    ];
    let ran: Vec<_> = gates
        .iter()
        .map(|(gate, report)| ReportedGate { gate, report, cached: gate.name == "build" })
        .collect();
    write(&ran)
}

fn read_back(format: ReportFormat, written: &str) -> ParsedReport {
    let project = Path::new("/project");
    let context = ReportContext {
        root: project,
        cwd: project,
        extent: OutputExtent::Complete,
        is_file: crate::findings::FileProbe::default(),
        is_excluded: None,
    };
    read_report(format, written.as_bytes(), &context)
}

#[test]
fn junit_is_well_formed_for_any_text() {
    let written = write_samples(write_junit);
    let reading = read_back(ReportFormat::Junit, &written);
    assert_eq!(reading.tests, Some(TestCounts { run: 6, failed: 4, skipped: 1 }));
    assert_eq!(reading.doubt, None);
    insta::assert_snapshot!(written, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="ralph" tests="7" failures="2" errors="2" skipped="1" time="8.638">
      <testsuite name="ralph" tests="7" failures="2" errors="2" skipped="1" time="8.638">
        <testcase classname="ralph.correctness" name="build" time="1.234"/>
        <testcase classname="ralph.correctness" name="tests" time="1.234">
          <failure type="failed" message="2 of 12 tests failed, 40 findings">
    src/my file,1.rs:3:5: error: ]]&gt;&lt;/failure&gt;%0A::set-output name=x::y ::error::&lt;b&gt;&amp;&quot;&apos;`` | @you [x](y) [a:b,c%]
    /usr/x.h: warning: was there
    and 38 more
    full log: /home/user/.ralph/logs/tests.log
    </failure>
        </testcase>
        <testcase classname="ralph.quality" name="advice" time="1.234">
          <system-out>
    error: could be nicer
    </system-out>
        </testcase>
        <testcase classname="ralph.security" name="scan" time="1.234">
          <error type="error" message="]]&gt;&lt;/failure&gt;%0A::set-output name=x::y ::error::&lt;b&gt;&amp;&quot;&apos;`` | @you [x](y)"></error>
        </testcase>
        <testcase classname="ralph.security" name="slow" time="1.234">
          <error type="timeout" message="timed out after 5 min"></error>
        </testcase>
        <testcase classname="ralph.adversarial" name="attack" time="1.234">
          <skipped message="an earlier stage failed"/>
        </testcase>
        <testcase classname="ralph.quality" name="bare" time="1.234">
          <failure type="failed" message="0 findings"></failure>
        </testcase>
      </testsuite>
    </testsuites>
    "#);
}

#[test]
fn sarif_can_be_read_back() {
    let written = write_samples(|ran| write_sarif(ran).unwrap());
    let reading = read_back(ReportFormat::Sarif, &written);
    assert_eq!(reading.finding_count, 4);
    assert_eq!(reading.findings[0].place.as_ref().unwrap().file, "src/my file,1.rs");
    insta::assert_snapshot!(written);
}

#[test]
fn github_gets_one_command_per_line_and_no_other() {
    insta::assert_snapshot!(write_samples(|ran| write_github(ran, Path::new(""))), @r#"
    ::error file=src/my file%2C1.rs,line=3,col=5,title=tests%3A a%3Ab%2Cc%25::]]></failure>%250A::set-output name=x::y ::error::<b>&"'`` | @you [x](y)￿
    ::warning file=/usr/x.h,title=tests::was there
    ::warning title=advice::could be nicer
    ::error title=scan (error)::]]></failure>%250A::set-output name=x::y ::error::<b>&"'`` | @you [x](y)￿
    ::error title=slow (timeout)::timed out after 5 min
    ::notice title=attack (skipped)::an earlier stage failed
    ::error title=bare (failed)::0 findings
    "#);
}

#[test]
fn markdown_shows_untrusted_text_as_code() {
    insta::assert_snapshot!(write_samples(write_markdown), @r#"
    **ralph: failed** — 1 of 7 gates passed

    | | gate | stage | outcome | tests | findings | time |
    |---|---|---|---|---|---|---|
    | ✓ | `build` | correctness | passed |  | 0 | cached |
    | ✗ | `tests` | correctness | failed | 12 ran, 2 failed, 1 skipped | 40 | 1 s |
    | · | `advice` | quality | failed, advisory |  | 1 | 1 s |
    | ? | `scan` | security | error |  | 0 | 1 s |
    | ? | `slow` | security | timeout |  | 0 | 1 s |
    | · | `attack` | adversarial | skipped |  | 0 | 1 s |
    | ✗ | `bare` | quality | failed |  | 0 | 1 s |

    #### `tests`

    - `src/my file,1.rs:3:5` error: ```]]></failure>%0A::set-output name=x::y ::error::<b>&"'`` ¦ @you [x](y)￿``` (`a:b,c%`)
    - `/usr/x.h` warning, pre-existing: `was there`
    - and 38 more

    #### `advice`

    - error: `could be nicer`

    #### `scan`

    - error: ```]]></failure>%0A::set-output name=x::y ::error::<b>&"'`` ¦ @you [x](y)￿```

    #### `slow`

    - timeout: `timed out after 5 min`

    #### `attack`

    - skipped: `an earlier stage failed`
    "#);
}

#[test]
fn json_is_one_object_on_one_line() {
    insta::assert_snapshot!(write_samples(|ran| write_json(ran).unwrap()), @r#"{"v":1,"outcome":"failed","gates":[{"name":"build","stage":"correctness","weight":"required","outcome":"passed","why":null,"cached":true,"exit":0,"tests":null,"steadiness":"once","finding_count":0,"findings":[],"took_ms":1234,"at":"2026-09-21T14:13:20.000Z","log":null},{"name":"tests","stage":"correctness","weight":"required","outcome":"failed","why":null,"cached":false,"exit":1,"tests":{"run":12,"failed":2,"skipped":1},"steadiness":"confirmed","finding_count":40,"findings":[{"file":"src/my file,1.rs","line":3,"column":5,"rule":"a:b,c%","message":"]]></failure>%0A::set-output name=x::y ::error::<b>&\"'`` | @you [x](y)￿","severity":"error","since":"new","signature":"8ecafbd33663ce0a"},{"file":"/usr/x.h","line":null,"column":null,"rule":null,"message":"was there","severity":"warning","since":"pre_existing","signature":"7914c3a776ddda05"}],"took_ms":1234,"at":"2026-09-21T14:13:20.000Z","log":"/home/user/.ralph/logs/tests.log"},{"name":"advice","stage":"quality","weight":"advisory","outcome":"failed","why":null,"cached":false,"exit":0,"tests":null,"steadiness":"once","finding_count":1,"findings":[{"file":null,"line":null,"column":null,"rule":null,"message":"could be nicer","severity":"error","since":"unknown","signature":"4e29eb14b9ffd5c0"}],"took_ms":1234,"at":"2026-09-21T14:13:20.000Z","log":null},{"name":"scan","stage":"security","weight":"required","outcome":"error","why":"]]></failure>%0A::set-output name=x::y ::error::<b>&\"'`` | @you [x](y)￿","cached":false,"exit":0,"tests":null,"steadiness":"once","finding_count":0,"findings":[],"took_ms":1234,"at":"2026-09-21T14:13:20.000Z","log":null},{"name":"slow","stage":"security","weight":"required","outcome":"timeout","why":"timed out after 5 min","cached":false,"exit":0,"tests":null,"steadiness":"once","finding_count":0,"findings":[],"took_ms":1234,"at":"2026-09-21T14:13:20.000Z","log":null},{"name":"attack","stage":"adversarial","weight":"required","outcome":"skipped","why":"an earlier stage failed","cached":false,"exit":0,"tests":null,"steadiness":"once","finding_count":0,"findings":[],"took_ms":1234,"at":"2026-09-21T14:13:20.000Z","log":null},{"name":"bare","stage":"quality","weight":"required","outcome":"failed","why":null,"cached":false,"exit":0,"tests":null,"steadiness":"once","finding_count":0,"findings":[],"took_ms":1234,"at":"2026-09-21T14:13:20.000Z","log":null}]}"#);
}

#[test]
fn without_gates_the_outcome_is_unknown() {
    assert_eq!(write_json(&[]).unwrap(), "{\"v\":1,\"outcome\":\"unknown\",\"gates\":[]}\n");
    assert_eq!(write_github(&[], Path::new("")), "");
}

/// GitHub knows files by their path in the repository, also if the project is a directory of it.
#[test]
fn annotations_name_files_of_the_repository() {
    let gate = gate("tests", RequirementStage::Correctness, RequirementWeight::Required);
    let name_file = |below: &str, file: &str| {
        let mut report = report("tests", GateOutcome::Failed);
        let mut finding = Finding::new("x".into());
        finding.place = Some(FindingLocation { file: file.into(), line: None, column: None });
        report.findings = vec![finding];
        let ran = ReportedGate { gate: &gate, report: &report, cached: false };
        let written = write_github(&[ran], Path::new(below));
        let file = written.strip_prefix("::error file=").and_then(|rest| rest.split_once(','));
        file.unwrap().0.to_owned()
    };
    for (below, file, expected) in [
        ("", "src/a.rs", "src/a.rs"),
        ("", "./src/a.rs", "src/a.rs"),
        ("", "../a.rs", "../a.rs"),
        ("web/app", "src/a.rs", "web/app/src/a.rs"),
        ("web/app", "./src/../b.rs", "web/app/b.rs"),
        ("web/app", "../../../a.rs", "../a.rs"),
        ("web/app", "/usr/x.h", "/usr/x.h"),
    ] {
        assert_eq!(name_file(below, file), expected, "{below} {file}");
    }
}

/// GitHub takes a line for a command if it begins with `::` after blanks, or has `##[` anywhere.
#[test]
fn text_for_people_has_no_commands_of_github() {
    for (line, expected) in [
        ("::add-mask::x", ": :add-mask::x"),
        ("  \t::stop-commands::y\n", "  \t: :stop-commands::y\n"),
        ("\u{a0}::a\r\n\r\n::b", "\u{a0}: :a\r\n\r\n: :b"),
        ("x ##[error]z", "x ## [error]z"),
        ("fine: a::b ::c # [x]", "fine: a::b ::c # [x]"),
    ] {
        assert_eq!(without_github_commands(line), expected);
    }
}
