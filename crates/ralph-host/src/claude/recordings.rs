//! Recordings of a real client, for tests: `<` marks its lines, `>` ours.

/// Name and text of each recording, sorted by name.
pub const RECORDINGS: &[(&str, &str)] = &[
    ("another-hook-stopped", include_str!("../../fixtures/stream/another-hook-stopped.txt")),
    ("background-agent", include_str!("../../fixtures/stream/background-agent.txt")),
    ("background-shell-states", include_str!("../../fixtures/stream/background-shell-states.txt")),
    ("bare", include_str!("../../fixtures/stream/bare.txt")),
    ("budget", include_str!("../../fixtures/stream/budget.txt")),
    ("cap", include_str!("../../fixtures/stream/cap.txt")),
    ("cap-by-context", include_str!("../../fixtures/stream/cap-by-context.txt")),
    ("compaction", include_str!("../../fixtures/stream/compaction.txt")),
    ("connection-refused", include_str!("../../fixtures/stream/connection-refused.txt")),
    ("connection-reset", include_str!("../../fixtures/stream/connection-reset.txt")),
    ("context-usage", include_str!("../../fixtures/stream/context-usage.txt")),
    ("empty-answer", include_str!("../../fixtures/stream/empty-answer.txt")),
    ("fallback", include_str!("../../fixtures/stream/fallback.txt")),
    ("held-then-let-go", include_str!("../../fixtures/stream/held-then-let-go.txt")),
    ("hook-answer-invalid", include_str!("../../fixtures/stream/hook-answer-invalid.txt")),
    ("hook-timed-out", include_str!("../../fixtures/stream/hook-timed-out.txt")),
    ("interrupt-stop", include_str!("../../fixtures/stream/interrupt-stop.txt")),
    ("interrupt-streaming", include_str!("../../fixtures/stream/interrupt-streaming.txt")),
    ("interrupt-tool", include_str!("../../fixtures/stream/interrupt-tool.txt")),
    ("killed", include_str!("../../fixtures/stream/killed.txt")),
    ("limit-text", include_str!("../../fixtures/stream/limit-text.txt")),
    ("max-turns", include_str!("../../fixtures/stream/max-turns.txt")),
    ("no-session", include_str!("../../fixtures/stream/no-session.txt")),
    ("output-limit", include_str!("../../fixtures/stream/output-limit.txt")),
    ("permission-denied", include_str!("../../fixtures/stream/permission-denied.txt")),
    ("prompt-too-long", include_str!("../../fixtures/stream/prompt-too-long.txt")),
    ("question", include_str!("../../fixtures/stream/question.txt")),
    ("refusal", include_str!("../../fixtures/stream/refusal.txt")),
    ("set-model", include_str!("../../fixtures/stream/set-model.txt")),
    ("sigint", include_str!("../../fixtures/stream/sigint.txt")),
    ("sigterm", include_str!("../../fixtures/stream/sigterm.txt")),
    ("slash-command", include_str!("../../fixtures/stream/slash-command.txt")),
    ("status-400", include_str!("../../fixtures/stream/status-400.txt")),
    ("status-401", include_str!("../../fixtures/stream/status-401.txt")),
    ("status-403", include_str!("../../fixtures/stream/status-403.txt")),
    ("status-404", include_str!("../../fixtures/stream/status-404.txt")),
    ("status-429", include_str!("../../fixtures/stream/status-429.txt")),
    ("status-429-retried", include_str!("../../fixtures/stream/status-429-retried.txt")),
    ("status-500", include_str!("../../fixtures/stream/status-500.txt")),
    ("status-529", include_str!("../../fixtures/stream/status-529.txt")),
];

/// Not recorded, because that needs a client with a subscription: these lines follow its schema.
pub const LIMIT_REJECTED: &str = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794812400,"rateLimitType":"five_hour","utilization":1.0,"overageStatus":"rejected","isUsingOverage":false},"uuid":"0b6f3d5e-6c9b-4a55-9d0e-0c3b8f0e2b11","session_id":"e7f1e605-eb3b-4704-a4b4-05b53fdc0385"}"#;
pub const LIMIT_OVERAGE: &str = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794812400,"rateLimitType":"five_hour","utilization":1.0,"overageStatus":"allowed","isUsingOverage":true}}"#;
pub const LIMIT_WARNING: &str = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1794812400,"rateLimitType":"seven_day","utilization":0.91,"surpassedThreshold":0.9}}"#;

#[expect(clippy::expect_used, reason = "only tests call this")]
pub fn recording(name: &str) -> &'static str {
    let found = RECORDINGS.iter().find(|(named, _)| *named == name);
    found.map(|(_, text)| *text).expect("no such recording")
}

/// The client's lines of a recording.
pub fn client_lines(recording: &'static str) -> impl Iterator<Item = &'static str> {
    recording.lines().filter_map(|line| line.strip_prefix("< "))
}
