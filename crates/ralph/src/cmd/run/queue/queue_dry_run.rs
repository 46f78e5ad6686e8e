//! `ralph run --queue --dry-run`: shows what would be done, and starts nothing.

use super::queue_prepare::PreparedQueue;
use crate::approval_text::whole_command;
use crate::term::{self, paint};
use ralph_core::gate::shell_quote;
use ralph_core::goal_origin::goal_title;
use ralph_core::limits::{LimitKind, LimitOverrides, RunLimits};
use ralph_core::text;
use ralph_deck::view::limit_fields::LimitFields;
use ralph_deck::view::queue_events::predecessor_names;
use ralph_deck::wording::{self, count_noun, micro_usd_as_usd, safe_line};
use ralph_drive::queue::{KnownQueueTask, QueueTask, QueueTaskEnding};
use serde::Serialize;

const LONGEST_TITLE: usize = 60;

#[derive(Serialize)]
pub(super) struct QueueDryRunJson<'a> {
    v: u8,
    source: String,
    project: String,
    parallel: usize,
    max_cost_usd: Option<f64>,
    max_duration_ms: Option<u64>,
    gates: Vec<&'a str>,
    commands: Vec<QueueGateJson<'a>>,
    argv: &'a [String],
    notes: &'a [String],
    tasks: Vec<QueueTaskPlanJson<'a>>,
}

#[derive(Serialize)]
struct QueueGateJson<'a> {
    gate: &'a str,
    command: &'a str,
}

#[derive(Serialize)]
struct QueueTaskPlanJson<'a> {
    name: &'a str,
    title: String,
    after: Vec<&'a str>,
    /// `begins`, `goes_on`, `landed` or `parked`.
    then: &'static str,
    run: Option<&'a str>,
    /// Its own limits, as far as those of the queue allow.
    #[serde(flatten)]
    limits: LimitFields,
}

pub(super) fn queue_dry_run_json<'a>(
    prepared: &'a PreparedQueue,
    known: &'a [KnownQueueTask],
) -> QueueDryRunJson<'a> {
    let tasks = prepared.queue.tasks.iter().zip(known).map(|(task, known)| QueueTaskPlanJson {
        name: &task.name,
        title: task_title(&task.terms.goal),
        after: predecessor_names(&prepared.queue, task),
        then: planned_action(known),
        run: known.run.as_ref().map(ralph_core::id::RunId::as_str),
        limits: LimitFields::of_overrides(&own_limits(task, prepared), &[LimitKind::MaxCost]),
    });
    let commands = prepared.gates.iter().map(|(gate, command)| QueueGateJson { gate, command });
    QueueDryRunJson {
        v: 1,
        source: prepared.queue.source.to_string_lossy().into_owned(),
        project: prepared.project.to_string_lossy().into_owned(),
        parallel: prepared.parallel,
        max_cost_usd: prepared.limits.max_cost_micro_usd.map(micro_usd_as_usd),
        max_duration_ms: prepared.limits.max_duration_ms,
        gates: prepared.gates.iter().map(|(gate, _)| gate.as_str()).collect(),
        commands: commands.collect(),
        argv: &prepared.argv,
        notes: &prepared.notes,
        tasks: tasks.collect(),
    }
}

/// The limits that the task sets itself. It never gets more money or time than the queue has.
fn own_limits(task: &QueueTask, prepared: &PreparedQueue) -> LimitOverrides {
    [LimitKind::MaxCost, LimitKind::MaxDuration].into_iter().fold(task.terms.limits, |own, kind| {
        let most = (kind.row().get)(&prepared.limits).unwrap_or(u64::MAX);
        own.with(kind, own.get(kind).map(|value| value.min(most)))
    })
}

/// The limits of the task itself in words; empty if it sets none.
fn own_limits_text(task: &QueueTask, prepared: &PreparedQueue) -> String {
    let unlimited = RunLimits {
        max_iterations: None,
        max_duration_ms: None,
        max_cost_micro_usd: None,
        stuck_after: u32::MAX,
        min_iterations: 0,
        max_tokens: None,
        ..prepared.limits
    };
    let own = own_limits(task, prepared);
    let text = wording::limits_with(&own.apply_to(&unlimited), &own);
    if text.is_empty() { text } else { format!(" ({text})") }
}

fn planned_action(known: &KnownQueueTask) -> &'static str {
    match (&known.end, &known.run) {
        (Some(end), _) if end.how == QueueTaskEnding::Landed => "landed",
        (Some(_), _) => "parked",
        (None, Some(_)) => "goes_on",
        (None, None) => "begins",
    }
}

fn task_title(goal: &[u8]) -> String {
    text::clean_line(goal_title(&String::from_utf8_lossy(goal)), LONGEST_TITLE)
}

pub(super) fn render_queue_dry_run(prepared: &PreparedQueue, known: &[KnownQueueTask]) -> String {
    let queue = &prepared.queue;
    let project = safe_line(&prepared.project.to_string_lossy());
    let tasks = count_noun(queue.tasks.len(), "task");
    let mut out = format!("{tasks}, {} at once, in `{project}`\n", prepared.parallel);
    let mut line = |label: &str, value: &str| {
        out.push_str(&format!("  {} {value}\n", paint(term::DIM, &format!("{label:<6}"))));
    };
    if prepared.gates.is_empty() {
        line("gates", "none");
    }
    let width = prepared.gates.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (at, (name, command)) in prepared.gates.iter().enumerate() {
        let label = if at == 0 { "gates" } else { "" };
        let command = whole_command(command, width + 11);
        line(label, &format!("{:<width$}  {command}", safe_line(name)));
    }
    line("limits", &wording::limits(&prepared.limits));
    let argv: Vec<_> = prepared.argv.iter().map(|word| shell_quote(&safe_line(word))).collect();
    line("agent", &argv.join(" "));
    out.push('\n');
    let widest = queue.tasks.iter().map(|task| task.name.len()).max().unwrap_or(0).min(40);
    for (task, known) in queue.tasks.iter().zip(known) {
        let run = known.run.as_ref().map(|run| format!(" {run}")).unwrap_or_default();
        let then = match planned_action(known) {
            "landed" => "has landed".to_string(),
            "parked" => format!("stays parked{run}"),
            "goes_on" => format!("resumes{run}"),
            _ => "starts".to_string(),
        };
        let after = predecessor_names(queue, task);
        let after =
            if after.is_empty() { String::new() } else { format!(", after {}", after.join(", ")) };
        let line = format!(
            "  {:widest$}  {then}{after}{}: {}",
            task.name,
            own_limits_text(task, prepared),
            safe_line(&task_title(&task.terms.goal))
        );
        out.push_str(line.trim_end());
        out.push('\n');
    }
    for note in &prepared.notes {
        out.push_str(&format!("  {} {}\n", paint(term::WARN, "note  "), whole_command(note, 9)));
    }
    out.push_str("\nnothing was started\n");
    out
}
