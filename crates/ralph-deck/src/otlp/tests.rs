use super::*;
use crate::page::insights::{StatsRows, StatsRun};
use crate::page::metrics::metric_families;
use insta::assert_snapshot;
use ralph_core::gate::ResultStability;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{
    DecisionRule, GateRecord, JournalEntry, MeasuredSite, RunChange, RunRecord, StopOutcome,
    StopRecord, StopReport,
};
use ralph_core::redact::Redactor;
use ralph_core::status::RunStatus;
use serde_json::Value;

const START_MS: u64 = 1_794_915_243_836;

fn sample_run(title: &str) -> RunRecord {
    RunRecord {
        owner: SessionId::parse("5999882c"),
        title: title.to_string(),
        ..RunRecord::new(RunId::parse("k7f2").unwrap(), "/home/you/shop".into(), START_MS)
    }
}

fn gate(name: &str, outcome: &str, cached: bool) -> GateRecord {
    GateRecord {
        name: name.to_string(),
        site: MeasuredSite::Tree,
        outcome: outcome.to_string(),
        took_ms: 1_200,
        cached,
        steadiness: ResultStability::default(),
        findings: 2,
        tests: None,
        key: "key".to_string(),
        log: None,
    }
}

fn stop(outcome: StopOutcome, because: &str, gates: Vec<GateRecord>) -> RunChange {
    let report = StopReport { total: 3, unmet: 1, ..StopReport::default() };
    let stop = StopRecord {
        report: Some(report),
        gates,
        took_ms: 1_500,
        ..StopRecord::new(DecisionRule::Block, outcome, because.to_string())
    };
    RunChange::Decided(Box::new(stop))
}

fn entries(changes: Vec<RunChange>) -> Vec<JournalEntry> {
    let entry = |(seq, change): (u64, RunChange)| JournalEntry {
        v: 2,
        seq,
        at_ms: START_MS + seq * 10_000,
        prev: String::new(),
        iteration: u32::try_from(seq).unwrap(),
        after: String::new(),
        change,
    };
    (0..).zip(changes).map(entry).collect()
}

fn sample_bodies(title: &str, gate_name: &str) -> Vec<String> {
    let run = sample_run(title);
    let entries = entries(vec![
        RunChange::Started(Box::new(run.clone())),
        stop(
            StopOutcome::Blocked { reason: "r".to_string() },
            title,
            vec![gate(gate_name, "failed", false), gate("lint", "passed", true)],
        ),
        stop(StopOutcome::Ended(RunStatus::Verified), "all met", Vec::new()),
    ]);
    let exported = ExportedRun {
        run: &run,
        status: "verified",
        has_ended: true,
        micro_usd: Some(1_820_000),
        tokens: Some(41_000),
        iterations: 1,
        entries: &entries,
    };
    trace_requests(&exported, &Redactor::new(vec!["correct-horse-battery".to_string()]))
}

fn spans_of(body: &str) -> Vec<Value> {
    let body: Value = serde_json::from_str(body).unwrap();
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

#[test]
fn a_run_is_a_trace_of_sessions_stops_and_gates() {
    let bodies = sample_bodies("make it work", "tests");
    assert_eq!(bodies.len(), 1);
    assert_snapshot!(bodies[0], @"");
    assert_eq!(bodies, sample_bodies("make it work", "tests"), "ids do not depend on chance");
}

/// The JSON form of proto3: ids in hexadecimal, numbers of 64 bits as strings, and every parent within the trace.
#[test]
fn spans_follow_the_json_mapping() {
    let spans = spans_of(&sample_bodies("make it work", "tests")[0]);
    let ids: Vec<_> = spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    for span in &spans {
        let trace = span["traceId"].as_str().unwrap();
        assert!(trace.len() == 32 && is_hex(trace) && trace == spans[0]["traceId"]);
        let id = span["spanId"].as_str().unwrap();
        assert!(id.len() == 16 && is_hex(id), "{id}");
        assert_eq!(ids.iter().filter(|known| **known == id).count(), 1);
        if let Some(parent) = span.get("parentSpanId") {
            assert!(ids.contains(&parent.as_str().unwrap()), "{span}");
        }
        let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    }
    assert_eq!(spans.iter().filter(|span| span.get("parentSpanId").is_none()).count(), 1);
}

#[test]
fn texts_are_redacted_cleaned_and_bounded() {
    let hostile = format!("\u{1b}[31mcorrect-horse-battery\u{202e}{}", "x".repeat(100_000));
    let bodies = sample_bodies(&hostile, &hostile);
    let all = bodies.concat();
    assert!(!all.contains("horse") && !all.contains("\\u001b") && !all.contains('\u{202e}'));
    assert!(all.len() < 20_000, "{}", all.len());
}

#[test]
fn a_long_run_is_sent_in_bounded_parts() {
    let run = sample_run("x");
    let held = || StopOutcome::Blocked { reason: String::new() };
    let mut changes = vec![RunChange::Started(Box::new(run.clone()))];
    changes.extend((0..3_000).map(|_| stop(held(), "b", vec![gate("tests", "failed", false)])));
    let entries = entries(changes);
    let exported = ExportedRun {
        run: &run,
        status: "working",
        has_ended: false,
        micro_usd: None,
        tokens: None,
        iterations: 3_000,
        entries: &entries,
    };
    let bodies = trace_requests(&exported, &Redactor::new(Vec::new()));
    let spans: usize = bodies.iter().map(|body| spans_of(body).len()).sum();
    assert_eq!((bodies.len(), spans), (9, 2_002));
    assert!(bodies.iter().all(|body| body.len() < 500_000));
}

#[test]
fn metrics_are_gauges() {
    let run = StatsRun {
        id: "a".to_string(),
        status: "verified".to_string(),
        ended_ms: Some(1),
        micro_usd: Some(1_820_007),
        stops: 4,
        held: 3,
        ..StatsRun::default()
    };
    let rows = StatsRows { runs: vec![run], ..StatsRows::default() };
    let families = metric_families(rows);
    let body = metric_request(&families[4..6], &Redactor::new(Vec::new()), START_MS);
    assert_snapshot!(body, @"");
}
