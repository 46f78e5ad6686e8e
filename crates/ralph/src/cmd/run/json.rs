//! The JSON output of a run: one object per line, as documented in `docs/json.md`.

use super::view::Output;
use crate::wording::usd;
use ralph_core::id::SessionId;
use ralph_core::status::Status;
use ralph_drive::told::{Denied, Missing, Open, Report, Standing, Told};
use ralph_sys::clock;
use serde::Serialize;

pub(super) struct Lines<O> {
    output: O,
    now_ms: fn() -> u64,
    run: Option<String>,
    /// The end and the attempt of the wait that was written last.
    waiting: Option<(u64, u32)>,
}

#[derive(Serialize)]
struct Line<'a> {
    v: u8,
    at: String,
    run: Option<&'a str>,
    #[serde(flatten)]
    told: Body<'a>,
}

/// An event as it is, or rewritten: amounts in USD, times in RFC 3339, and the run only in the line itself.
#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    As(&'a Told),
    Other(Other<'a>),
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Other<'a> {
    Prepared {
        title: &'a str,
        project: String,
        gates: &'a [String],
        notes: &'a [String],
    },
    Held {
        iteration: u32,
        max_iterations: Option<u32>,
        open: u32,
        because: &'a str,
        reason: &'a str,
        missing: &'a [Missing],
    },
    HandedOver {
        why: &'a str,
        context: Option<f64>,
        handoff: String,
    },
    Waiting {
        why: &'a str,
        until: String,
        attempt: u32,
    },
    Question {
        text: &'a str,
        until: String,
    },
    Standing(StandingJson),
    Ended(Box<ReportJson<'a>>),
}

#[derive(Serialize)]
struct StandingJson {
    iteration: u32,
    max_iterations: Option<u32>,
    context: Option<f64>,
    spent_usd: f64,
    max_cost_usd: Option<f64>,
    tokens: u64,
    max_tokens: Option<u64>,
    elapsed_ms: u64,
    max_duration_ms: Option<u64>,
    sessions: u32,
    open: Option<u32>,
    total: Option<u32>,
}

#[derive(Serialize)]
struct ReportJson<'a> {
    title: &'a str,
    status: Status,
    exit_code: u8,
    because: &'a str,
    standing: StandingJson,
    open: &'a [Open],
    met: &'a [String],
    files: &'a [String],
    commits: &'a [String],
    commit: Option<&'a str>,
    uncommitted: Option<usize>,
    checkpoint: Option<&'a str>,
    settled: Option<&'a str>,
    unmerged: Option<&'a str>,
    next: Option<&'a str>,
    assumed_usd: f64,
    denied: &'a [Denied],
    sessions: &'a [SessionId],
}

impl<O: Output> Lines<O> {
    pub(super) fn new(output: O, now_ms: fn() -> u64) -> Self {
        Self { output, now_ms, run: None, waiting: None }
    }

    pub(super) fn close(self) -> O {
        self.output
    }

    pub(super) fn tell(&mut self, event: &Told) {
        if let Told::Prepared { run, .. } = event {
            self.run = Some(run.to_string());
        }
        // The event repeats every second; it is written once.
        let wait = if let Told::Waiting { until_ms, attempt, .. } = event {
            Some((*until_ms, *attempt))
        } else {
            None
        };
        if wait.is_some() && self.waiting == wait {
            return;
        }
        if wait.is_some() || matches!(event, Told::Woke) {
            self.waiting = wait;
        }
        let at = clock::rfc3339((self.now_ms)());
        let line = Line { v: 1, at, run: self.run.as_deref(), told: body(event) };
        // The types consist of strings, numbers and lists; serialising them cannot fail.
        let mut line = serde_json::to_string(&line).unwrap_or_default();
        line.push('\n');
        self.output.print(&line);
    }
}

fn body(event: &Told) -> Body<'_> {
    Body::Other(match event {
        Told::Prepared { title, project, gates, notes, .. } => {
            let project = project.to_string_lossy().into_owned();
            Other::Prepared { title, project, gates, notes }
        }
        Told::Held { iteration, most, open, because, reason, missing } => Other::Held {
            iteration: *iteration,
            max_iterations: *most,
            open: *open,
            because,
            reason,
            missing,
        },
        Told::HandedOver { why, permille, handoff } => {
            let handoff = handoff.to_string_lossy().into_owned();
            Other::HandedOver { why, context: permille.map(share), handoff }
        }
        Told::Waiting { why, until_ms, attempt } => {
            Other::Waiting { why, until: clock::rfc3339(*until_ms), attempt: *attempt }
        }
        Told::Question { text, until_ms } => {
            Other::Question { text, until: clock::rfc3339(*until_ms) }
        }
        Told::Standing(now) => Other::Standing(standing(now)),
        Told::Ended(report) => Other::Ended(Box::new(ended(report))),
        Told::Session { .. }
        | Told::Said { .. }
        | Told::Tool { .. }
        | Told::ToolFailed { .. }
        | Told::GateStarted { .. }
        | Told::GateEnded { .. }
        | Told::LetGo { .. }
        | Told::Trouble { .. }
        | Told::Woke
        | Told::Silent { .. }
        | Told::Tried { .. }
        | Told::Note { .. } => return Body::As(event),
    })
}

fn share(permille: u16) -> f64 {
    f64::from(permille) / 1000.0
}

fn standing(now: &Standing) -> StandingJson {
    StandingJson {
        iteration: now.iteration,
        max_iterations: now.max_iterations,
        context: now.context_permille.map(share),
        spent_usd: usd(now.spent_micro_usd),
        max_cost_usd: now.max_cost_micro_usd.map(usd),
        tokens: now.tokens,
        max_tokens: now.max_tokens,
        elapsed_ms: now.elapsed_ms,
        max_duration_ms: now.max_duration_ms,
        sessions: now.sessions,
        open: now.open,
        total: now.total,
    }
}

fn ended(report: &Report) -> ReportJson<'_> {
    ReportJson {
        title: &report.title,
        status: report.status,
        exit_code: report.status.exit_code(),
        because: &report.because,
        standing: standing(&report.standing),
        open: &report.open,
        met: &report.met,
        files: &report.files,
        commits: &report.commits,
        commit: report.commit.as_deref(),
        uncommitted: report.uncommitted,
        checkpoint: report.checkpoint.as_deref(),
        settled: report.settled.as_deref(),
        unmerged: report.unmerged.as_deref(),
        next: report.next.as_deref(),
        assumed_usd: usd(report.assumed_micro_usd),
        denied: &report.denied,
        sessions: &report.sessions,
    }
}
