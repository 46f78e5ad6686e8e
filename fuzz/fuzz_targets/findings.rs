//! Tool reports: for any input, findings are clean, bounded and counted, a doubt is one line, and the reports that ralph
//! writes can be parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::coverage::{FileCoverage, MeasuredCoverage};
use ralph_core::gate::{
    Gate, GateInvocation, GateOutcome, GateReport, MAX_FINDINGS, ParsedReport, ReportFormat,
};
use ralph_core::test_cases::TestCases;
use ralph_gates::findings::write::{
    ReportedGate, write_github, write_json, write_junit, write_markdown, write_sarif,
};
use ralph_gates::findings::{
    FileProbe, GateProcessEnd, OutputExtent, ReportContext, finding_signature, judge_gate,
    read_report,
};
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Some((format, bytes)) = chosen(data) else {
        return;
    };
    let how = bytes.last().map_or(0, |last| last % 8);
    let end = String::from_utf8_lossy(&bytes[bytes.len() / 2..]);
    let extent = if bytes.len().is_multiple_of(2) {
        OutputExtent::Complete
    } else {
        OutputExtent::Truncated { end: &end }
    };
    let root = Path::new("/project");
    let context = ReportContext {
        root,
        cwd: Path::new("/project/web"),
        extent,
        is_file: FileProbe::default(),
        is_excluded: None,
    };
    let report = read_report(format, bytes, &context);
    is_sound(&report);
    let gate = gate(format);
    let judged = judge_gate(
        &gate,
        &GateProcessEnd::Exited(i32::from(how)),
        report,
        &String::from_utf8_lossy(bytes),
    );
    is_sound(&judged.report);
    let may_pass = how == 0 && judged.report.doubt.is_none();
    assert!(may_pass || judged.outcome != GateOutcome::Passed);
    is_written(&gate, judged.outcome, judged.report, &context);
});

/// Seeds from recorded reports begin with a line that names their format.
fn chosen(data: &[u8]) -> Option<(ReportFormat, &[u8])> {
    let named = ReportFormat::ALL.iter().copied().find_map(|format| {
        let rest = data.strip_prefix(format.name().as_bytes())?;
        Some((format, rest.strip_prefix(b"\n")?))
    });
    let (choice, rest) = data.split_first()?;
    Some(named.unwrap_or((ReportFormat::ALL[usize::from(*choice) % ReportFormat::ALL.len()], rest)))
}

fn is_sound(report: &ParsedReport) {
    assert!(report.findings.len() <= MAX_FINDINGS + 1);
    assert!(report.finding_count as usize >= report.findings.len());
    report.doubt.iter().for_each(|doubt| is_line(doubt, 160));
    if let Some(cases) = &report.cases {
        let lists = [&cases.passed, &cases.failed, &cases.skipped];
        assert!(lists.iter().all(|names| names.is_sorted_by(|one, next| one < next)));
        lists.into_iter().flatten().for_each(|name| is_line(name, 1_000));
        let json = serde_json::to_string(cases).unwrap();
        assert_eq!(&serde_json::from_str::<TestCases>(&json).unwrap(), cases);
    }
    if let Some(coverage) = &report.coverage {
        assert!(coverage.covered <= coverage.lines);
        assert!(coverage.lines > 0 || report.doubt.is_some());
        coverage.files.keys().for_each(|path| is_inside(path));
        let lines = |file: &FileCoverage| file.covered.count() + file.missed.count();
        let counted = coverage.files.values().map(lines).fold(0_u32, u32::saturating_add);
        assert!(coverage.is_truncated || counted == coverage.lines);
        let json = serde_json::to_string(coverage).unwrap();
        assert_eq!(&serde_json::from_str::<Box<MeasuredCoverage>>(&json).unwrap(), coverage);
    }
    for finding in &report.findings {
        is_line(&finding.message, 1_000);
        finding.rule.iter().for_each(|rule| is_line(rule, 200));
        if let Some(place) = &finding.place {
            is_line(&place.file, 800);
            let mut moved = finding.clone();
            moved.place.iter_mut().for_each(|place| place.line = Some(7));
            assert_eq!(finding_signature(finding), finding_signature(&moved));
        }
    }
}

fn is_inside(path: &str) {
    is_line(path, 2_000);
    let mut parts = Path::new(path).components();
    assert!(parts.all(|part| matches!(part, std::path::Component::Normal(_))), "{path}");
}

fn is_line(text: &str, most: usize) {
    assert!(!text.is_empty());
    assert!(text.chars().count() <= most, "{text:?}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

fn is_written(
    gate: &Gate,
    outcome: GateOutcome,
    parsed: ParsedReport,
    context: &ReportContext<'_>,
) {
    let is_failure = outcome == GateOutcome::Failed;
    let report = GateReport {
        findings: parsed.findings,
        finding_count: parsed.finding_count,
        tests: parsed.tests,
        cases: parsed.cases,
        ..GateReport::new(&gate.name, outcome, 1)
    };
    let ran = [ReportedGate { gate, report: &report, cached: false }];
    let again = read_report(ReportFormat::Junit, write_junit(&ran).as_bytes(), context);
    assert_eq!(again.doubt, None);
    assert!(again.tests.unwrap().failed > 0 || !is_failure);
    let again = read_report(ReportFormat::Sarif, write_sarif(&ran).unwrap().as_bytes(), context);
    assert!(again.finding_count as usize <= report.findings.len() + 1);
    assert!(serde_json::from_str::<serde_json::Value>(&write_json(&ran).unwrap()).is_ok());
    for command in write_github(&ran, Path::new("web")).lines() {
        assert!(
            ["::error ", "::warning ", "::notice "].iter().any(|kind| command.starts_with(kind))
        );
    }
    assert!(write_markdown(&ran).lines().count() < 40);
}

fn gate(report: ReportFormat) -> Gate {
    Gate { report, ..Gate::new("gate", GateInvocation::Argv(vec!["true".into()])) }
}
