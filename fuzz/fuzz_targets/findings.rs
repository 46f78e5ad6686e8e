//! Tool reports: for any input, findings are clean, bounded and counted, a doubt is one line, and the reports that ralph
//! writes can be parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::gate::{
    Command, Format, Gate, GateReport, MOST_FINDINGS, MinTests, Outcome, Reading, Rerun, Steadiness,
};
use ralph_core::requirement::{Stage, Weight};
use ralph_gates::findings::write::{Cached, Ran, github, json, junit, markdown, sarif};
use ralph_gates::findings::{Context, Extent, How, judge, read, signature};
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Some((format, bytes)) = chosen(data) else {
        return;
    };
    let how = bytes.last().map_or(0, |last| last % 8);
    let extent = if bytes.len().is_multiple_of(2) { Extent::Whole } else { Extent::CutOff };
    let root = Path::new("/project");
    let context = Context { root, cwd: Path::new("/project/web"), extent };
    let reading = read(format, bytes, &context);
    is_sound(&reading);
    let gate = gate(format);
    let judged =
        judge(&gate, &How::Exited(i32::from(how)), reading, &String::from_utf8_lossy(bytes));
    is_sound(&judged.reading);
    let may_pass = how == 0 && judged.reading.doubt.is_none();
    assert!(may_pass || judged.outcome != Outcome::Passed);
    is_written(&gate, judged.outcome, judged.reading, &context);
});

/// Seeds from recorded reports begin with a line that names their format.
fn chosen(data: &[u8]) -> Option<(Format, &[u8])> {
    let named = Format::ALL.into_iter().find_map(|format| {
        let rest = data.strip_prefix(format.name().as_bytes())?;
        Some((format, rest.strip_prefix(b"\n")?))
    });
    let (choice, rest) = data.split_first()?;
    Some(named.unwrap_or((Format::ALL[usize::from(*choice) % Format::ALL.len()], rest)))
}

fn is_sound(reading: &Reading) {
    assert!(reading.findings.len() <= MOST_FINDINGS + 1);
    assert!(reading.finding_count as usize >= reading.findings.len());
    reading.doubt.iter().for_each(|doubt| is_line(doubt, 160));
    for finding in &reading.findings {
        is_line(&finding.message, 1_000);
        finding.rule.iter().for_each(|rule| is_line(rule, 200));
        if let Some(place) = &finding.place {
            is_line(&place.file, 800);
            let mut moved = finding.clone();
            moved.place.iter_mut().for_each(|place| place.line = Some(7));
            assert_eq!(signature(finding), signature(&moved));
        }
    }
}

fn is_line(text: &str, most: usize) {
    assert!(!text.is_empty());
    assert!(text.chars().count() <= most, "{text:?}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

fn is_written(gate: &Gate, outcome: Outcome, reading: Reading, context: &Context<'_>) {
    let is_failure = outcome == Outcome::Failed;
    let report = GateReport {
        name: gate.name.clone(),
        outcome,
        findings: reading.findings,
        finding_count: reading.finding_count,
        tests: reading.tests,
        exit: None,
        steadiness: Steadiness::Once,
        took_ms: 1,
        at_ms: 1,
        log: None,
    };
    let ran = [Ran { gate, report: &report, cached: Cached::No }];
    let again = read(Format::Junit, junit(&ran).as_bytes(), context);
    assert_eq!(again.doubt, None);
    assert!(again.tests.unwrap().failed > 0 || !is_failure);
    let again = read(Format::Sarif, sarif(&ran).as_bytes(), context);
    assert!(again.finding_count as usize <= report.findings.len() + 1);
    assert!(serde_json::from_str::<serde_json::Value>(&json(&ran)).is_ok());
    for command in github(&ran).lines() {
        assert!(
            ["::error ", "::warning ", "::notice "].iter().any(|kind| command.starts_with(kind))
        );
    }
    assert!(markdown(&ran).lines().count() < 40);
}

fn gate(report: Format) -> Gate {
    Gate {
        name: "gate".into(),
        stage: Stage::Correctness,
        command: Command::Argv(vec!["true".into()]),
        cwd: String::new(),
        timeout_ms: 1,
        paths: Vec::new(),
        when: Vec::new(),
        on: Vec::new(),
        min_complexity: 0,
        weight: Weight::Required,
        report,
        min_tests: MinTests::Some,
        rerun: Rerun::Tests,
        env: Vec::new(),
    }
}
