//! The JSON output of a run: one object per line, as documented in `docs/json.md`.

use super::drive_view::DriveOutput;
use crate::describe::micro_usd_as_usd;
use ralph_core::id::SessionId;
use ralph_core::status::RunStatus;
use ralph_drive::run_event::{
    DeniedTool, DriveReport, MissingRequirement, OpenRequirement, RunEvent, RunProgress,
};
use ralph_sys::clock;
use serde::Serialize;

pub(super) struct RunJsonLines<O> {
    output: O,
    now_ms: fn() -> u64,
    run: Option<String>,
    /// The end and the attempt of the wait that was written last.
    waiting: Option<(u64, u32)>,
}

#[derive(Serialize)]
struct RunJsonLine<'a> {
    v: u8,
    at: String,
    run: Option<&'a str>,
    #[serde(flatten)]
    body: RunJsonBody<'a>,
}

/// An event as it is, or rewritten: amounts in USD, times in RFC 3339, and the run only in the line itself.
#[derive(Serialize)]
#[serde(untagged)]
enum RunJsonBody<'a> {
    Unchanged(&'a RunEvent),
    Rewritten(RewrittenEvent<'a>),
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum RewrittenEvent<'a> {
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
        missing: &'a [MissingRequirement],
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
    Standing(RunProgressJson),
    Ended(Box<RunReportJson<'a>>),
}

#[derive(Serialize)]
struct RunProgressJson {
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
struct RunReportJson<'a> {
    title: &'a str,
    status: RunStatus,
    exit_code: u8,
    because: &'a str,
    standing: RunProgressJson,
    open: &'a [OpenRequirement],
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
    denied: &'a [DeniedTool],
    sessions: &'a [SessionId],
}

impl<O: DriveOutput> RunJsonLines<O> {
    pub(super) fn new(output: O, now_ms: fn() -> u64) -> Self {
        Self { output, now_ms, run: None, waiting: None }
    }

    pub(super) fn close(self) -> O {
        self.output
    }

    pub(super) fn on_event(&mut self, event: &RunEvent) {
        if let RunEvent::Prepared { run, .. } = event {
            self.run = Some(run.to_string());
        }
        // The event repeats every second; it is written once.
        let wait = if let RunEvent::Waiting { until_ms, attempt, .. } = event {
            Some((*until_ms, *attempt))
        } else {
            None
        };
        if wait.is_some() && self.waiting == wait {
            return;
        }
        if wait.is_some() || matches!(event, RunEvent::Woke) {
            self.waiting = wait;
        }
        let at = clock::format_rfc3339((self.now_ms)());
        let line = RunJsonLine { v: 1, at, run: self.run.as_deref(), body: json_body(event) };
        // The types consist of strings, numbers and lists; serialising them cannot fail.
        let mut line = serde_json::to_string(&line).unwrap_or_default();
        line.push('\n');
        self.output.print(&line);
    }
}

fn json_body(event: &RunEvent) -> RunJsonBody<'_> {
    RunJsonBody::Rewritten(match event {
        RunEvent::Prepared { title, project, gates, notes, .. } => {
            let project = project.to_string_lossy().into_owned();
            RewrittenEvent::Prepared { title, project, gates, notes }
        }
        RunEvent::Held { iteration, most, open, because, reason, missing } => {
            RewrittenEvent::Held {
                iteration: *iteration,
                max_iterations: *most,
                open: *open,
                because,
                reason,
                missing,
            }
        }
        RunEvent::HandedOver { why, permille, handoff } => {
            let handoff = handoff.to_string_lossy().into_owned();
            RewrittenEvent::HandedOver { why, context: permille.map(permille_as_share), handoff }
        }
        RunEvent::Waiting { why, until_ms, attempt } => RewrittenEvent::Waiting {
            why,
            until: clock::format_rfc3339(*until_ms),
            attempt: *attempt,
        },
        RunEvent::Question { text, until_ms } => {
            RewrittenEvent::Question { text, until: clock::format_rfc3339(*until_ms) }
        }
        RunEvent::Standing(now) => RewrittenEvent::Standing(progress_json(now)),
        RunEvent::Ended(report) => RewrittenEvent::Ended(Box::new(report_json(report))),
        RunEvent::Session { .. }
        | RunEvent::Said { .. }
        | RunEvent::Tool { .. }
        | RunEvent::ToolFailed { .. }
        | RunEvent::GateStarted { .. }
        | RunEvent::GateEnded { .. }
        | RunEvent::LetGo { .. }
        | RunEvent::Trouble { .. }
        | RunEvent::Woke
        | RunEvent::Silent { .. }
        | RunEvent::Tried { .. }
        | RunEvent::Note { .. } => return RunJsonBody::Unchanged(event),
    })
}

fn permille_as_share(permille: u16) -> f64 {
    f64::from(permille) / 1000.0
}

fn progress_json(now: &RunProgress) -> RunProgressJson {
    RunProgressJson {
        iteration: now.iteration,
        max_iterations: now.max_iterations,
        context: now.context_permille.map(permille_as_share),
        spent_usd: micro_usd_as_usd(now.spent_micro_usd),
        max_cost_usd: now.max_cost_micro_usd.map(micro_usd_as_usd),
        tokens: now.tokens,
        max_tokens: now.max_tokens,
        elapsed_ms: now.elapsed_ms,
        max_duration_ms: now.max_duration_ms,
        sessions: now.sessions,
        open: now.open,
        total: now.total,
    }
}

fn report_json(report: &DriveReport) -> RunReportJson<'_> {
    RunReportJson {
        title: &report.title,
        status: report.status,
        exit_code: report.status.exit_code(),
        because: &report.because,
        standing: progress_json(&report.standing),
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
        assumed_usd: micro_usd_as_usd(report.assumed_micro_usd),
        denied: &report.denied,
        sessions: &report.sessions,
    }
}
