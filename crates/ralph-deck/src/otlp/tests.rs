use super::*;
use crate::page::metrics::metric_families;
use crate::page::stats::{StatsRows, StatsRun};
use insta::assert_snapshot;
use ralph_core::gate::ResultStability;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{
    CostBasis, DecisionRule, GateRecord, JournalEntry, MeasuredSite, RunChange, RunRecord,
    StopOutcome, StopRecord, StopReport,
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
        coverage: None,
        changed_coverage: None,
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
        by: None,
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
        cost_basis: CostBasis::Reported,
        parked_because: None,
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
    assert_snapshot!(bodies[0], @r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"ralph"}}]},"scopeSpans":[{"scope":{"name":"ralph","version":"0.1.0"},"spans":[{"traceId":"3e7f4995e2b2d64c18b860cee9612a2a","spanId":"39d6770cc5fa7e2b","name":"ralph.run","kind":1,"startTimeUnixNano":"1794915243836000000","endTimeUnixNano":"1794915263836000000","attributes":[{"key":"ralph.run.id","value":{"stringValue":"k7f2"}},{"key":"ralph.run.title","value":{"stringValue":"make it work"}},{"key":"ralph.run.status","value":{"stringValue":"verified"}},{"key":"ralph.project.name","value":{"stringValue":"shop"}},{"key":"ralph.host","value":{"stringValue":"claude"}},{"key":"ralph.run.iterations","value":{"intValue":"1"}},{"key":"ralph.run.cost_usd","value":{"doubleValue":1.82}},{"key":"ralph.run.cost_basis","value":{"stringValue":"reported"}},{"key":"ralph.run.tokens","value":{"intValue":"41000"}}],"status":{"code":1}},{"traceId":"3e7f4995e2b2d64c18b860cee9612a2a","spanId":"e27f2972d33943c1","parentSpanId":"39d6770cc5fa7e2b","name":"ralph.session","kind":1,"startTimeUnixNano":"1794915243836000000","endTimeUnixNano":"1794915263836000000","attributes":[{"key":"ralph.session.id","value":{"stringValue":"5999882c"}}]},{"traceId":"3e7f4995e2b2d64c18b860cee9612a2a","spanId":"c2011c3126036c25","parentSpanId":"e27f2972d33943c1","name":"ralph.stop","kind":1,"startTimeUnixNano":"1794915252336000000","endTimeUnixNano":"1794915253836000000","attributes":[{"key":"ralph.stop.seq","value":{"intValue":"1"}},{"key":"ralph.stop.rule","value":{"stringValue":"block"}},{"key":"ralph.stop.outcome","value":{"stringValue":"held"}},{"key":"ralph.stop.because","value":{"stringValue":"make it work"}},{"key":"ralph.iteration","value":{"intValue":"1"}},{"key":"ralph.requirements.total","value":{"intValue":"3"}},{"key":"ralph.requirements.open","value":{"intValue":"1"}}]},{"traceId":"3e7f4995e2b2d64c18b860cee9612a2a","spanId":"9de247898e11c819","parentSpanId":"c2011c3126036c25","name":"ralph.gate tests","kind":1,"startTimeUnixNano":"1794915252636000000","endTimeUnixNano":"1794915253836000000","attributes":[{"key":"ralph.gate.name","value":{"stringValue":"tests"}},{"key":"ralph.gate.site","value":{"stringValue":"tree"}},{"key":"ralph.gate.outcome","value":{"stringValue":"failed"}},{"key":"ralph.gate.cached","value":{"boolValue":false}},{"key":"ralph.gate.findings","value":{"intValue":"2"}}],"status":{"code":2}},{"traceId":"3e7f4995e2b2d64c18b860cee9612a2a","spanId":"e7e0a5fc2f848ef2","parentSpanId":"c2011c3126036c25","name":"ralph.gate lint","kind":1,"startTimeUnixNano":"1794915253836000000","endTimeUnixNano":"1794915253836000000","attributes":[{"key":"ralph.gate.name","value":{"stringValue":"lint"}},{"key":"ralph.gate.site","value":{"stringValue":"tree"}},{"key":"ralph.gate.outcome","value":{"stringValue":"passed"}},{"key":"ralph.gate.cached","value":{"boolValue":true}},{"key":"ralph.gate.findings","value":{"intValue":"2"}}]},{"traceId":"3e7f4995e2b2d64c18b860cee9612a2a","spanId":"7827f3177d10a3eb","parentSpanId":"e27f2972d33943c1","name":"ralph.stop","kind":1,"startTimeUnixNano":"1794915262336000000","endTimeUnixNano":"1794915263836000000","attributes":[{"key":"ralph.stop.seq","value":{"intValue":"2"}},{"key":"ralph.stop.rule","value":{"stringValue":"block"}},{"key":"ralph.stop.outcome","value":{"stringValue":"verified"}},{"key":"ralph.stop.because","value":{"stringValue":"all met"}},{"key":"ralph.iteration","value":{"intValue":"2"}},{"key":"ralph.requirements.total","value":{"intValue":"3"}},{"key":"ralph.requirements.open","value":{"intValue":"1"}}]}]}]}]}"#);
    assert_eq!(bodies, sample_bodies("make it work", "tests"), "ids do not depend on chance");
}

/// A run that was parked has no decision that ended it, and an assumed cost is marked.
#[test]
fn a_parked_run_has_its_reason_and_the_basis_of_its_cost() {
    let run = sample_run("x");
    let entries = entries(vec![RunChange::Started(Box::new(run.clone()))]);
    let exported = ExportedRun {
        run: &run,
        status: "crashed",
        has_ended: true,
        micro_usd: Some(4_000_000),
        cost_basis: CostBasis::Assumed,
        parked_because: Some("the agent exited with 1 four times"),
        tokens: None,
        iterations: 0,
        entries: &entries,
    };
    let span = &spans_of(&trace_requests(&exported, &Redactor::new(Vec::new()))[0])[0];
    let basis = span["attributes"].as_array().unwrap().iter().find_map(|attribute| {
        (attribute["key"] == "ralph.run.cost_basis").then_some(&attribute["value"]["stringValue"])
    });
    assert_eq!(basis.unwrap(), "assumed");
    assert_eq!(span["status"]["message"], "crashed: the agent exited with 1 four times");
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
        cost_basis: CostBasis::Unknown,
        parked_because: None,
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
    assert_snapshot!(body, @r#"{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"ralph"}}]},"scopeMetrics":[{"scope":{"name":"ralph","version":"0.1.0"},"metrics":[{"name":"ralph.stops","description":"Decided stops of runs, by whether the agent was held.","unit":"{stop}","gauge":{"dataPoints":[{"attributes":[{"key":"outcome","value":{"stringValue":"held"}}],"timeUnixNano":"1794915243836000000","asInt":"3"},{"attributes":[{"key":"outcome","value":{"stringValue":"let_go"}}],"timeUnixNano":"1794915243836000000","asInt":"1"}]}},{"name":"ralph.spend_usd","description":"What runs cost, in US dollars, as far as it is known.","unit":"USD","gauge":{"dataPoints":[{"attributes":[],"timeUnixNano":"1794915243836000000","asDouble":1.820007}]}}]}]}]}"#);
}
