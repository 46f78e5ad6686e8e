//! The events of a run that ralph drives itself, up to its report: one line of JSON each.

use super::limit_fields::LimitFields;
use crate::wording::micro_usd_as_usd;
use ralph_core::id::SessionId;
use ralph_core::limits::LimitKind;
use ralph_core::status::RunStatus;
use ralph_drive::run_event::{
    DeniedTool, DriveReport, MissingRequirement, OpenRequirement, RunEvent, RunProgress,
};
use ralph_sys::clock;
use serde::Serialize;

/// What the lines of one run have in common.
#[derive(Debug, Default)]
pub struct RunEventLines {
    run: Option<String>,
    /// The end and the attempt of the last wait.
    waiting: Option<(u64, u32)>,
}

impl RunEventLines {
    /// The view of an event; `None` if it only repeats the one before.
    pub fn view<'a>(&'a mut self, event: &'a RunEvent, now_ms: u64) -> Option<RunEventView<'a>> {
        if let RunEvent::Prepared { run, .. } = event {
            self.run = Some(run.to_string());
        }
        // The event repeats every second; it is shown once.
        let wait = if let RunEvent::Waiting { until_ms, attempt, .. } = event {
            Some((*until_ms, *attempt))
        } else {
            None
        };
        if wait.is_some() && self.waiting == wait {
            return None;
        }
        if wait.is_some() || matches!(event, RunEvent::Woke) {
            self.waiting = wait;
        }
        let at = clock::format_rfc3339(now_ms);
        Some(RunEventView { v: 1, at, run: self.run.as_deref(), body: event_body(event) })
    }
}

#[derive(Debug, Serialize)]
pub struct RunEventView<'a> {
    pub v: u8,
    pub at: String,
    pub run: Option<&'a str>,
    #[serde(flatten)]
    pub body: RunEventBody<'a>,
}

/// An event as it is, or rewritten: amounts in USD, times in RFC 3339, and the run only in the line itself.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum RunEventBody<'a> {
    Unchanged(&'a RunEvent),
    Rewritten(RewrittenEventView<'a>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RewrittenEventView<'a> {
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
    Standing(RunProgressView),
    Ended(Box<RunReportView<'a>>),
}

#[derive(Debug, Serialize)]
pub struct RunProgressView {
    #[serde(flatten)]
    pub iterations: LimitFields,
    pub context: Option<f64>,
    #[serde(flatten)]
    pub other_limits: LimitFields,
    pub sessions: u32,
    pub open: Option<u32>,
    pub total: Option<u32>,
}

#[derive(Debug, Serialize)]
pub struct RunReportView<'a> {
    pub title: &'a str,
    pub status: RunStatus,
    pub exit_code: u8,
    pub because: &'a str,
    pub standing: RunProgressView,
    pub open: &'a [OpenRequirement],
    pub met: &'a [String],
    pub files: &'a [String],
    pub commits: &'a [String],
    pub commit: Option<&'a str>,
    pub uncommitted: Option<usize>,
    pub checkpoint: Option<&'a str>,
    pub settled: Option<&'a str>,
    pub unmerged: Option<&'a str>,
    pub next: Option<&'a str>,
    pub assumed_usd: f64,
    pub denied: &'a [DeniedTool],
    pub sessions: &'a [SessionId],
}

fn event_body(event: &RunEvent) -> RunEventBody<'_> {
    RunEventBody::Rewritten(match event {
        RunEvent::Prepared { title, project, gates, notes, .. } => {
            let project = project.to_string_lossy().into_owned();
            RewrittenEventView::Prepared { title, project, gates, notes }
        }
        RunEvent::Held { iteration, most, open, because, reason, missing } => {
            RewrittenEventView::Held {
                iteration: *iteration,
                max_iterations: *most,
                open: *open,
                because,
                reason,
                missing,
            }
        }
        RunEvent::HandedOver { why, permille, handover } => RewrittenEventView::HandedOver {
            why,
            context: permille.map(permille_as_share),
            handoff: handover.to_string_lossy().into_owned(),
        },
        RunEvent::Waiting { why, until_ms, attempt } => RewrittenEventView::Waiting {
            why,
            until: clock::format_rfc3339(*until_ms),
            attempt: *attempt,
        },
        RunEvent::Question { text, until_ms } => {
            RewrittenEventView::Question { text, until: clock::format_rfc3339(*until_ms) }
        }
        RunEvent::Standing(now) => RewrittenEventView::Standing(run_progress_view(now)),
        RunEvent::Ended(report) => RewrittenEventView::Ended(Box::new(run_report_view(report))),
        RunEvent::Session { .. }
        | RunEvent::Said { .. }
        | RunEvent::Tool { .. }
        | RunEvent::ToolFailed { .. }
        | RunEvent::GateStarted { .. }
        | RunEvent::GateEnded { .. }
        | RunEvent::JudgeStep { .. }
        | RunEvent::ProofProgress { .. }
        | RunEvent::LetGo { .. }
        | RunEvent::Trouble { .. }
        | RunEvent::Woke
        | RunEvent::Silent { .. }
        | RunEvent::Tried { .. }
        | RunEvent::Note { .. } => return RunEventBody::Unchanged(event),
    })
}

fn permille_as_share(permille: u16) -> f64 {
    f64::from(permille) / 1000.0
}

fn run_progress_view(now: &RunProgress) -> RunProgressView {
    let (limits, usage) = (&now.limits, &now.usage);
    let first = [LimitKind::MaxIterations];
    let then = [LimitKind::MaxCost, LimitKind::MaxTokens, LimitKind::MaxDuration];
    let shown = [&first[..], &then].concat();
    RunProgressView {
        iterations: LimitFields::of_usage(limits, usage, &first),
        context: now.context_permille.map(permille_as_share),
        other_limits: LimitFields::of_usage(limits, usage, &then)
            .and_other_usage(limits, usage, &shown),
        sessions: now.sessions,
        open: now.open,
        total: now.total,
    }
}

fn run_report_view(report: &DriveReport) -> RunReportView<'_> {
    RunReportView {
        title: &report.title,
        status: report.status,
        exit_code: report.status.exit_code(),
        because: &report.because,
        standing: run_progress_view(&report.standing),
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
