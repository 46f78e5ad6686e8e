//! A run as a trace: the run, its sessions, their stops, and the gates of each stop.

use super::otlp_json::{
    OtlpAttribute, OtlpResource, OtlpSpan, OtlpStatus, OtlpValue, ResourceSpans, SCOPE, ScopeSpans,
    TraceRequest, body, int_attribute, nanoseconds, service, text_attribute,
};
use crate::view::decisions;
use crate::wording::{self, micro_usd_as_usd};
use ralph_core::drive::RunnerEvent;
use ralph_core::record::{CostBasis, GateRecord, JournalEntry, RunChange, RunRecord, StopRecord};
use ralph_core::redact::Redactor;
use ralph_core::text;
use std::path::Path;

const LONGEST_TEXT: usize = 300;
/// How many spans one request has. Together with the bound on texts, a body stays below half a megabyte.
const SPANS_PER_REQUEST: usize = 250;
/// How many stops of a run are sent, the latest ones.
const MAX_STOPS: usize = 1_000;
const MAX_GATES_PER_STOP: usize = 100;
const INTERNAL_SPAN: u8 = 1;

/// What a trace is made of.
#[derive(Debug)]
pub struct ExportedRun<'a> {
    pub run: &'a RunRecord,
    /// The final status, or the one now.
    pub status: &'a str,
    pub has_ended: bool,
    pub micro_usd: Option<u64>,
    pub cost_basis: CostBasis,
    /// Why it was parked, if no decision ended it.
    pub parked_because: Option<&'a str>,
    pub tokens: Option<u64>,
    pub iterations: u32,
    pub entries: &'a [JournalEntry],
}

/// The bodies of the requests to [`TRACES_PATH`](super::TRACES_PATH) that together are the trace of a run.
pub fn trace_requests(exported: &ExportedRun<'_>, redactor: &Redactor) -> Vec<String> {
    let writer = SpanWriter { exported, redactor, trace: trace_id(exported.run) };
    let mut spans = writer.spans();
    let mut bodies = Vec::new();
    while !spans.is_empty() {
        let rest = spans.split_off(spans.len().min(SPANS_PER_REQUEST));
        bodies.push(body(&TraceRequest {
            resource_spans: [ResourceSpans {
                resource: OtlpResource { attributes: vec![service()] },
                scope_spans: [ScopeSpans { scope: SCOPE, spans }],
            }],
        }));
        spans = rest;
    }
    bodies
}

/// Run ids are unique on a machine only, so the project and the time are part of the hash.
fn trace_id(run: &RunRecord) -> String {
    let mut hash = blake3::Hasher::new();
    for part in [run.id.as_str(), &run.project, &run.started_ms.to_string()] {
        hash.update(&part.len().to_le_bytes()).update(part.as_bytes());
    }
    hash.finalize().to_hex().chars().take(32).collect()
}

/// A session and when it began.
struct SessionSpan<'a> {
    /// The number of its journal entry.
    seq: u64,
    id: &'a str,
    model: Option<&'a str>,
    start_ms: u64,
    end_ms: u64,
}

/// A span of the trace, before its times and ids are written as the protocol wants them.
struct SpanDraft {
    id: String,
    parent: String,
    name: String,
    start_ms: u64,
    end_ms: u64,
    attributes: Vec<OtlpAttribute>,
    status: OtlpStatus,
}

struct SpanWriter<'a> {
    exported: &'a ExportedRun<'a>,
    redactor: &'a Redactor,
    trace: String,
}

impl<'a> SpanWriter<'a> {
    fn spans(&self) -> Vec<OtlpSpan> {
        let sessions = self.sessions();
        let mut spans = vec![self.run_span()];
        spans.extend(sessions.iter().map(|session| self.session_span(session)));
        let stops: Vec<_> = self.stops().collect();
        let skipped = stops.len().saturating_sub(MAX_STOPS);
        for (entry, stop) in stops.into_iter().skip(skipped) {
            let session = sessions.iter().rev().find(|session| session.seq <= entry.seq);
            let parent = session.map_or(self.span_id("run", 0, ""), |session| {
                self.span_id("session", session.seq, "")
            });
            spans.push(self.stop_span(entry, stop, parent));
            let gates = stop.gates.iter().take(MAX_GATES_PER_STOP);
            spans.extend(gates.map(|gate| self.gate_span(entry, gate)));
        }
        spans
    }

    fn stops(&self) -> impl Iterator<Item = (&'a JournalEntry, &'a StopRecord)> {
        self.exported.entries.iter().filter_map(|entry| {
            let RunChange::Decided(stop) = &entry.change else { return None };
            Some((entry, stop.as_ref()))
        })
    }

    /// The sessions that a runner started; without one, the session that the run holds.
    fn sessions(&self) -> Vec<SessionSpan<'a>> {
        let mut sessions: Vec<SessionSpan<'a>> = Vec::new();
        let end_ms = self.end_ms();
        for entry in self.exported.entries {
            let Some((id, model)) = self.begun_session(&entry.change) else { continue };
            if let Some(last) = sessions.last_mut() {
                last.end_ms = entry.at_ms;
            }
            sessions.push(SessionSpan { seq: entry.seq, id, model, start_ms: entry.at_ms, end_ms });
        }
        sessions
    }

    /// The id and the model of the session that begins with this change.
    fn begun_session(&self, change: &'a RunChange) -> Option<(&'a str, Option<&'a str>)> {
        if let RunChange::Drove(drove) = change
            && let RunnerEvent::Session(session) = drove.as_ref()
        {
            return Some((session.id.as_str(), session.model.as_deref()));
        }
        if self.exported.run.drive.is_some() {
            return None;
        }
        if let RunChange::Started(run) = change {
            return Some((run.owner.as_ref().map_or("", |owner| owner.as_str()), None));
        }
        if let RunChange::Moved { to, .. } = change { Some((to.as_str(), None)) } else { None }
    }

    fn end_ms(&self) -> u64 {
        let last = self.exported.entries.last();
        last.map_or(self.exported.run.started_ms, |entry| entry.at_ms)
    }

    fn run_span(&self) -> OtlpSpan {
        let ExportedRun { run, status, has_ended, micro_usd, tokens, iterations, entries, .. } =
            *self.exported;
        let project = Path::new(&run.project).file_name();
        let project = project.map(|name| name.to_string_lossy()).unwrap_or_default();
        let mut attributes = vec![
            text_attribute("ralph.run.id", run.id.as_str()),
            text_attribute("ralph.run.title", self.safe(&run.title)),
            text_attribute("ralph.run.status", self.safe(status)),
            text_attribute("ralph.project.name", self.safe(&project)),
            text_attribute("ralph.host", self.safe(run.host.as_str())),
            int_attribute("ralph.run.iterations", iterations),
        ];
        attributes.extend(micro_usd.map(|micro| OtlpAttribute {
            key: "ralph.run.cost_usd",
            value: OtlpValue::Decimal(micro_usd_as_usd(micro)),
        }));
        let basis = self.exported.cost_basis.name();
        attributes.extend(micro_usd.map(|_| text_attribute("ralph.run.cost_basis", basis)));
        attributes.extend(tokens.map(|tokens| int_attribute("ralph.run.tokens", tokens)));
        let parked = self.exported.parked_because.map(str::to_string);
        let because = parked.or_else(|| decisions::ending_reason(entries));
        let status = match status {
            _ if !has_ended => OtlpStatus::default(),
            "verified" => OtlpStatus { code: 1, message: String::new() },
            status => {
                let because = because.map(|why| format!(": {why}")).unwrap_or_default();
                let message = self.safe(&format!("{status}{because}"));
                OtlpStatus { code: 2, message }
            }
        };
        self.span(SpanDraft {
            id: self.span_id("run", 0, ""),
            parent: String::new(),
            name: "ralph.run".to_string(),
            start_ms: run.started_ms,
            end_ms: self.end_ms(),
            attributes,
            status,
        })
    }

    fn session_span(&self, session: &SessionSpan<'_>) -> OtlpSpan {
        let mut attributes = vec![text_attribute("ralph.session.id", self.safe(session.id))];
        let model = session.model.map(|model| self.safe(model));
        attributes.extend(model.map(|model| text_attribute("gen_ai.request.model", model)));
        self.span(SpanDraft {
            id: self.span_id("session", session.seq, ""),
            parent: self.span_id("run", 0, ""),
            name: "ralph.session".to_string(),
            start_ms: session.start_ms,
            end_ms: session.end_ms,
            attributes,
            status: OtlpStatus::default(),
        })
    }

    fn stop_span(&self, entry: &JournalEntry, stop: &StopRecord, parent: String) -> OtlpSpan {
        let mut attributes = vec![
            int_attribute("ralph.stop.seq", entry.seq),
            text_attribute("ralph.stop.rule", stop.rule.name()),
            text_attribute("ralph.stop.outcome", wording::decision_outcome(stop)),
            text_attribute("ralph.stop.because", self.safe(&stop.because)),
            int_attribute("ralph.iteration", entry.iteration),
        ];
        if let Some(report) = &stop.report {
            attributes.push(int_attribute("ralph.requirements.total", report.total));
            attributes.push(int_attribute("ralph.requirements.open", report.open_count()));
        }
        self.span(SpanDraft {
            id: self.span_id("stop", entry.seq, ""),
            parent,
            name: "ralph.stop".to_string(),
            start_ms: entry.at_ms.saturating_sub(stop.took_ms),
            end_ms: entry.at_ms,
            attributes,
            status: OtlpStatus::default(),
        })
    }

    /// The journal has the duration of a gate, not its beginning: the span ends with the stop. A result that was known
    /// before takes no time.
    fn gate_span(&self, entry: &JournalEntry, gate: &GateRecord) -> OtlpSpan {
        let name = self.safe(&gate.name);
        let took_ms = if gate.cached { 0 } else { gate.took_ms };
        let site = serde_json::to_value(gate.site).unwrap_or_default();
        let attributes = vec![
            text_attribute("ralph.gate.name", name.clone()),
            text_attribute("ralph.gate.site", site.as_str().unwrap_or_default()),
            text_attribute("ralph.gate.outcome", self.safe(&gate.outcome)),
            OtlpAttribute { key: "ralph.gate.cached", value: OtlpValue::Flag(gate.cached) },
            int_attribute("ralph.gate.findings", gate.findings),
        ];
        let status = match gate.outcome.as_str() {
            "failed" => OtlpStatus { code: 2, message: String::new() },
            _ => OtlpStatus::default(),
        };
        let which = format!("{}\0{}", gate.name, site.as_str().unwrap_or_default());
        self.span(SpanDraft {
            id: self.span_id("gate", entry.seq, &which),
            parent: self.span_id("stop", entry.seq, ""),
            name: format!("ralph.gate {name}"),
            start_ms: entry.at_ms.saturating_sub(took_ms),
            end_ms: entry.at_ms,
            attributes,
            status,
        })
    }

    fn span(&self, draft: SpanDraft) -> OtlpSpan {
        let SpanDraft { id, parent, name, start_ms, end_ms, attributes, status } = draft;
        OtlpSpan {
            trace_id: self.trace.clone(),
            span_id: id,
            parent_span_id: parent,
            name,
            kind: INTERNAL_SPAN,
            start_time_unix_nano: nanoseconds(start_ms),
            end_time_unix_nano: nanoseconds(end_ms.max(start_ms)),
            attributes,
            status,
        }
    }

    fn span_id(&self, kind: &str, seq: u64, which: &str) -> String {
        let mut hash = blake3::Hasher::new();
        for part in [self.trace.as_str(), kind, &seq.to_string(), which] {
            hash.update(&part.len().to_le_bytes()).update(part.as_bytes());
        }
        hash.finalize().to_hex().chars().take(16).collect()
    }

    fn safe(&self, foreign: &str) -> String {
        let cleaned = text::clean(&text::truncate(foreign, LONGEST_TEXT * 16));
        text::clean_line(&self.redactor.redact(&cleaned), LONGEST_TEXT)
    }
}
