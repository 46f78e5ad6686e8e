//! `ralph run --dry-run`: shows what would happen, and starts nothing.

use super::gate_source::GateSource;
use super::run_plan::{NewRun, PlannedWork, RunPlan, RunWorkspace};
use crate::approval_text::whole_command;
use crate::cmd::start;
use crate::term::{self, paint};
use ralph_core::drive::{DriveSettings, LandingMode, SessionOrigin, SessionPolicy};
use ralph_core::gate::shell_quote;
use ralph_core::id::SessionId;
use ralph_core::limits::{LimitKind, RunLimits};
use ralph_core::record::RunRecord;
use ralph_core::redact::Redactor;
use ralph_core::run::DriveState;
use ralph_core::run_terms::RequestedLists;
use ralph_core::sealed_file::SealedFile;
use ralph_core::text;
use ralph_core::units;
use ralph_deck::view::limit_fields::LimitFields;
use ralph_deck::wording::{self, safe_line};
use ralph_drive::agent;
use ralph_drive::meter::native_caps;
use ralph_hook::control::{self, StartNote};
use ralph_host::agent_launch::AgentLaunch;
use ralph_policy::config::ProjectConfig;
use ralph_policy::trust;
use ralph_sys::env::Env;
use serde::Serialize;

const MAX_TITLE_CHARS: usize = 80;
const PROPOSAL_NOTE: &str = "these gates are not approved yet";

#[derive(Serialize)]
pub(super) struct PlannedRunJson {
    v: u8,
    event: &'static str,
    run: Option<String>,
    title: String,
    project: String,
    #[serde(flatten)]
    limits: LimitFields,
    gates: Vec<PlannedGateJson>,
    /// Whether the gates are approved.
    approved: bool,
    /// Sealed files, which decide what the gates do.
    sealed: Vec<String>,
    argv: Vec<String>,
    worktree: Option<&'static str>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct PlannedGateJson {
    gate: String,
    command: String,
}

/// The description of a plan.
struct PlannedRun {
    run: Option<String>,
    title: String,
    project: String,
    limits: RunLimits,
    /// The name and the command of each gate.
    gates: Vec<(String, String)>,
    is_approved: bool,
    sealed: Vec<SealedFile>,
    lists: Vec<(&'static str, String)>,
    argv: Vec<String>,
    place: RunWorkspace,
    notes: Vec<String>,
}

pub(super) fn dry_run_json(env: &Env, plan: &RunPlan) -> PlannedRunJson {
    let planned = describe_plan(env, plan);
    let gate = |(gate, command): (String, String)| PlannedGateJson { gate, command };
    PlannedRunJson {
        v: 1,
        event: "planned",
        run: planned.run,
        title: planned.title,
        project: planned.project,
        limits: LimitFields::of_limits(
            &planned.limits,
            &[
                LimitKind::MaxIterations,
                LimitKind::MaxDuration,
                LimitKind::MaxCost,
                LimitKind::MaxTokens,
                LimitKind::HandoverAt,
            ],
        ),
        gates: planned.gates.into_iter().map(gate).collect(),
        approved: planned.is_approved,
        sealed: planned.sealed.into_iter().map(|file| file.name).collect(),
        argv: planned.argv,
        worktree: match planned.place {
            RunWorkspace::Project => None,
            RunWorkspace::Worktree { then: LandingMode::Merge, .. } => Some("merge"),
            RunWorkspace::Worktree { then: LandingMode::PullRequest, .. } => Some("pull_request"),
        },
        notes: planned.notes,
    }
}

pub(super) fn render_dry_run(env: &Env, plan: &RunPlan) -> String {
    format!("{}nothing was started\n", render_plan(env, plan))
}

/// Everything that the run would do.
pub(super) fn render_plan(env: &Env, plan: &RunPlan) -> String {
    let planned = describe_plan(env, plan);
    let mut out = match &planned.run {
        Some(run) => format!("{}  resumes     {}\n", paint(term::BOLD, run), planned.title),
        None => format!("{}  {}\n", paint(term::BOLD, "would start"), planned.title),
    };
    let mut line = |label: &str, value: &str| {
        out.push_str(&format!("  {label:<9} {value}\n"));
    };
    line("project", &format!("`{}`", safe_line(&planned.project)));
    line("limits", &wording::limits(&planned.limits));
    for (label, value) in &planned.lists {
        line(label, value);
    }
    let width = planned.gates.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (at, (name, command)) in planned.gates.iter().enumerate() {
        let label = if at == 0 { "gates" } else { "" };
        let command = whole_command(command, width + 14);
        line(label, &format!("{:<width$}  {command}", safe_line(name)));
    }
    if let Some(files) = wording::sealed_files(&planned.sealed) {
        line("sealed", &format!("{files}; any change blocks every stop"));
    }
    if let Some(settings) = plan.settings() {
        line("sessions", &sessions_text(settings, &planned.limits));
        line("waits", &waits_text(settings));
        if let Some(model) = &settings.stronger_model {
            line("stuck", &format!("then `{}` is tried", safe_line(model)));
        }
    }
    if let RunWorkspace::Worktree { then, checks_ms, draft } = planned.place {
        line("worktree", &worktree_text(then, checks_ms, draft));
    }
    let argv: Vec<_> = planned.argv.iter().map(|word| shell_quote(&safe_line(word))).collect();
    line("agent", &argv.join(" "));
    for note in &planned.notes {
        line("note", note);
    }
    out
}

fn describe_plan(env: &Env, plan: &RunPlan) -> PlannedRun {
    let mut planned = match &plan.work {
        PlannedWork::New(new) => describe_new_run(env, new),
        PlannedWork::Resumed(opened) => {
            describe_resumed_run(&opened.run, opened.state.limits(&opened.run))
        }
    };
    let redactor = Redactor::new(env.secrets());
    planned.title = text::clean_line(&redactor.redact(&planned.title), MAX_TITLE_CHARS);
    planned.argv = redacted_argv(env, plan, &planned.limits);
    planned.notes = plan_notes(env, plan);
    planned
}

/// Whether a note of the plan says that its gates are not approved.
pub(super) fn is_proposal_note(note: &str) -> bool {
    note.starts_with(PROPOSAL_NOTE)
}

/// Warnings about the plan and its possible results.
pub(super) fn plan_notes(env: &Env, plan: &RunPlan) -> Vec<String> {
    let mut notes = plan.notes.clone();
    let PlannedWork::New(new) = &plan.work else { return notes };
    if let GateSource::Proposed(proposed) = &new.gate_source {
        let path = safe_line(&proposed.path.to_string_lossy());
        notes.push(if plan.is_answered {
            format!("{PROPOSAL_NOTE}: `--yes` writes `{path}` and approves them")
        } else {
            format!("{PROPOSAL_NOTE}: a start asks and writes `{path}`; `--yes` approves")
        });
    }
    let (policy, has_gates) = match &new.gate_source {
        GateSource::Policy(config) => (Some(&config.policy), !config.policy.gates.is_empty()),
        GateSource::Proposed(proposed) => (None, !proposed.gates.is_empty()),
        GateSource::Undetected(_) | GateSource::NoGates => (None, false),
    };
    let lists = new.request.list_files();
    if !has_gates && lists.is_empty() && new.request.terms.checks.is_empty() {
        notes.push(match new.gate_source {
            GateSource::Undetected(_) if plan.is_answered => {
                "no gate was detected, so `--yes` starts nothing; `--check \"CMD\"` or `ralph gate add \"CMD\"` names one".to_string()
            }
            GateSource::Undetected(_) => {
                "no gate was detected: a start asks for a command; `--check \"CMD\"` or `ralph gate add \"CMD\"` names one".to_string()
            }
            GateSource::Policy(_) | GateSource::Proposed(_) | GateSource::NoGates => {
                start::note_text(&StartNote::Unmeasured)
            }
        });
    }
    notes.extend(control::list_note(&lists, policy).as_ref().map(start::note_text));
    let terms = &new.request.terms;
    let sealed = new.gate_source.sealed_files(env, &new.request);
    let of_goal = control::sealed_goal_notes(&terms.goal, &sealed, &terms.may_change);
    notes.extend(of_goal.iter().map(start::note_text));
    notes
}

fn describe_new_run(env: &Env, new: &NewRun) -> PlannedRun {
    let demand = &new.request;
    let config = match &new.gate_source {
        GateSource::Policy(config) => Some(&**config),
        GateSource::Proposed(_) | GateSource::Undetected(_) | GateSource::NoGates => None,
    };
    PlannedRun {
        run: None,
        title: new.title.clone(),
        project: demand.project.to_string_lossy().into_owned(),
        limits: demand.limits(config),
        is_approved: matches!(new.gate_source, GateSource::Policy(_)),
        sealed: new.gate_source.sealed_files(env, demand),
        gates: shown_gates(new),
        lists: list_lines(&demand.terms.lists),
        argv: Vec::new(),
        place: new.workspace,
        notes: Vec::new(),
    }
}

fn describe_resumed_run(run: &RunRecord, limits: &RunLimits) -> PlannedRun {
    let gates = run.seal.iter().flat_map(|seal| &seal.policy.gates);
    let worktree = run.worktree();
    PlannedRun {
        run: Some(run.id.to_string()),
        title: run.title.clone(),
        project: run.project.clone(),
        limits: limits.clone(),
        gates: gates
            .map(|gate| (gate.name.clone(), trust::display_command(&gate.command)))
            .collect(),
        is_approved: true,
        sealed: Vec::new(),
        lists: wording::contract(run)
            .into_iter()
            .filter(|(label, _)| !["gates", "check"].contains(label))
            .collect(),
        argv: Vec::new(),
        place: worktree.map_or(RunWorkspace::Project, |it| RunWorkspace::Worktree {
            then: it.then,
            checks_ms: None,
            draft: it.draft,
        }),
        notes: Vec::new(),
    }
}

/// The name and the command of each gate, then of each check that a person typed.
pub(super) fn shown_gates(new: &NewRun) -> Vec<(String, String)> {
    let gates: Vec<_> = match &new.gate_source {
        GateSource::Policy(config) => policy_gates(config),
        GateSource::Proposed(proposed) => {
            let named = |(name, command, _): &(String, String, _)| (name.clone(), command.clone());
            proposed.gates.iter().map(named).collect()
        }
        GateSource::Undetected(_) | GateSource::NoGates => Vec::new(),
    };
    let checks =
        new.request.terms.checks.iter().map(|check| trust::display_command(&check.command));
    let checks: Vec<_> = checks
        .zip(1..)
        .map(|(command, number): (_, u32)| (format!("check-{number}"), command))
        .collect();
    gates.into_iter().chain(checks).collect()
}

pub(super) fn policy_gates(config: &ProjectConfig) -> Vec<(String, String)> {
    let gates = config.policy.gates.iter();
    gates.map(|gate| (gate.name.clone(), trust::display_command(&gate.command))).collect()
}

fn list_lines(lists: &RequestedLists) -> Vec<(&'static str, String)> {
    let shown = |path: &String| format!("`{}`", safe_line(path));
    let features = lists.features.iter().map(|path| ("list", shown(path)));
    features.chain(lists.plans.iter().map(|path| ("plan", shown(path)))).collect()
}

fn sessions_text(settings: &DriveSettings, limits: &RunLimits) -> String {
    let full = format!("{} % full", limits.handover_at_permille / 10);
    match settings.sessions {
        SessionPolicy::Hybrid => format!("a fresh one when the context is {full}"),
        SessionPolicy::SameSession => "one for the whole run".to_string(),
        SessionPolicy::FreshPerFeature => {
            format!("a fresh one when a requirement is met, or the context is {full}")
        }
    }
}

fn waits_text(settings: &DriveSettings) -> String {
    let errors = units::format_duration(settings.waits.errors_ms);
    let limit = match settings.waits.limit_ms {
        0 => "not for rate limits".to_string(),
        ms => format!("up to {} for rate limits", units::format_duration(ms)),
    };
    let idle = units::format_duration(settings.idle_ms);
    format!("{limit}, up to {errors} for network errors; {idle} for a sign of life")
}

fn worktree_text(then: LandingMode, checks_ms: Option<u64>, is_draft: bool) -> String {
    let request = if is_draft { "a draft pull request" } else { "a pull request" };
    match (then, checks_ms) {
        (LandingMode::Merge, _) => {
            "a separate one with its own branch; merged when the merged tree is verified"
                .to_string()
        }
        (LandingMode::PullRequest, None) => {
            format!("a separate one with its own branch; then {request}")
        }
        (LandingMode::PullRequest, Some(ms)) => format!(
            "a separate one with its own branch; then {request}, with {} for its checks",
            units::format_duration(ms)
        ),
    }
}

/// The command line of the agent's next session, without secrets.
pub(super) fn redacted_argv(env: &Env, plan: &RunPlan, limits: &RunLimits) -> Vec<String> {
    let redactor = Redactor::new(env.secrets());
    next_argv(plan, limits).iter().map(|word| redactor.redact(word)).collect()
}

fn next_argv(plan: &RunPlan, limits: &RunLimits) -> Vec<String> {
    let Some(settings) = plan.settings() else { return Vec::new() };
    let (driving, resumed) = match &plan.work {
        PlannedWork::New(_) => (DriveState::default(), None),
        PlannedWork::Resumed(opened) => {
            (opened.state.driving.clone(), opened.state.driven_session().cloned())
        }
    };
    let how = match (&resumed, &settings.from) {
        (Some(_), _) => SessionOrigin::Resumed,
        (None, Some(_)) => SessionOrigin::Forked,
        (None, None) => SessionOrigin::Fresh,
    };
    let Some(session) = resumed.or_else(|| SessionId::parse("NEW")) else { return Vec::new() };
    let caps = native_caps(limits, driving.spent(), None);
    let call = AgentLaunch {
        session: &session,
        how,
        model: settings.model.as_deref(),
        max_budget_usd: caps.max_budget_usd.as_deref(),
        block_cap: agent::block_cap(limits),
    };
    let argv = agent::agent_argv(&plan.program, settings, &call);
    argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
