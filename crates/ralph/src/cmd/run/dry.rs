//! `ralph run --dry-run`: shows what would happen, and starts nothing.

use super::policy::Judge;
use super::prepare::{New, Place, Plan, Work};
use crate::cmd::start::{self, Demand, UNMEASURED};
use crate::term::{self, paint};
use crate::wording::{self, safe};
use ralph_core::drive::{How, Sessions, Settings, Then};
use ralph_core::gate::quoted;
use ralph_core::id::SessionId;
use ralph_core::limits::{self, Limits};
use ralph_core::record::{ListKind, Run};
use ralph_core::redact::Redactor;
use ralph_core::run::Driving;
use ralph_core::text;
use ralph_drive::agent::{self, Call};
use ralph_drive::meter::native_caps;
use ralph_lists::lists::Named;
use ralph_lists::loop_directory;
use ralph_policy::config::Config;
use ralph_policy::trust;
use ralph_sys::env::Env;
use serde::Serialize;

const LONGEST_TITLE: usize = 80;
const MOST_SEALED: usize = 8;

#[derive(Serialize)]
pub(super) struct PlannedJson {
    v: u8,
    event: &'static str,
    run: Option<String>,
    title: String,
    project: String,
    max_iterations: Option<u32>,
    max_duration_ms: Option<u64>,
    max_cost_usd: Option<f64>,
    max_tokens: Option<u64>,
    handover_at: f64,
    gates: Vec<GateJson>,
    /// Whether the gates are approved.
    approved: bool,
    /// Sealed files, which decide what the gates do.
    sealed: Vec<String>,
    argv: Vec<String>,
    worktree: Option<&'static str>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct GateJson {
    gate: String,
    command: String,
}

/// The description of a plan.
struct Planned {
    run: Option<String>,
    title: String,
    project: String,
    bounds: Limits,
    /// The name and the command of each gate.
    gates: Vec<(String, String)>,
    is_approved: bool,
    sealed: Vec<String>,
    lists: Vec<(&'static str, String)>,
    argv: Vec<String>,
    place: Place,
    notes: Vec<String>,
}

pub(super) fn json(env: &Env, plan: &Plan) -> PlannedJson {
    let planned = planned(env, plan);
    let gate = |(gate, command): (String, String)| GateJson { gate, command };
    PlannedJson {
        v: 1,
        event: "planned",
        run: planned.run,
        title: planned.title,
        project: planned.project,
        max_iterations: planned.bounds.max_iterations,
        max_duration_ms: planned.bounds.max_duration_ms,
        max_cost_usd: planned.bounds.max_cost_micro_usd.map(wording::usd),
        max_tokens: planned.bounds.max_tokens,
        handover_at: f64::from(planned.bounds.handover_at_permille) / 1000.0,
        gates: planned.gates.into_iter().map(gate).collect(),
        approved: planned.is_approved,
        sealed: planned.sealed,
        argv: planned.argv,
        worktree: match planned.place {
            Place::Project => None,
            Place::Worktree { then: Then::Merge, .. } => Some("merge"),
            Place::Worktree { then: Then::PullRequest, .. } => Some("pull_request"),
        },
        notes: planned.notes,
    }
}

pub(super) fn shown(env: &Env, plan: &Plan) -> String {
    let planned = planned(env, plan);
    let mut out = match &planned.run {
        Some(run) => format!("{}  resumes     {}\n", paint(term::BOLD, run), planned.title),
        None => format!("{}  {}\n", paint(term::BOLD, "would start"), planned.title),
    };
    let mut line = |label: &str, value: &str| {
        out.push_str(&format!("  {label:<9} {value}\n"));
    };
    line("project", &format!("`{}`", safe(&planned.project)));
    line("limits", &wording::limits(&planned.bounds));
    for (label, value) in &planned.lists {
        line(label, value);
    }
    let width = planned.gates.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (at, (name, command)) in planned.gates.iter().enumerate() {
        let label = if at == 0 { "gates" } else { "" };
        line(label, &format!("{:<width$}  {}", safe(name), safe(command)));
    }
    if !planned.sealed.is_empty() {
        let more = planned.sealed.len().saturating_sub(MOST_SEALED);
        let files = planned.sealed.iter().take(MOST_SEALED);
        let files: Vec<_> = files.map(|file| format!("`{}`", safe(file))).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        line("sealed", &format!("{}{more}; any change blocks every stop", files.join(", ")));
    }
    if let Some(settings) = plan.settings() {
        line("sessions", &sessions(settings, &planned.bounds));
        line("waits", &waits(settings));
        if let Some(model) = &settings.stronger_model {
            line("stuck", &format!("then `{}` is tried", safe(model)));
        }
    }
    if let Place::Worktree { then, checks_ms } = planned.place {
        line("worktree", &worktree(then, checks_ms));
    }
    let argv: Vec<_> = planned.argv.iter().map(|word| quoted(&safe(word))).collect();
    line("agent", &argv.join(" "));
    for note in &planned.notes {
        line("note", note);
    }
    out.push_str("nothing was started\n");
    out
}

fn planned(env: &Env, plan: &Plan) -> Planned {
    let mut planned = match &plan.work {
        Work::New(new) => of_new(new),
        Work::Resumed(opened) => of_run(&opened.run, opened.state.limits(&opened.run)),
    };
    let redactor = Redactor::new(env.secrets());
    planned.title = text::line(&redactor.redact(&planned.title), LONGEST_TITLE);
    planned.argv = command_line(env, plan, &planned.bounds);
    planned.notes = notes(plan);
    planned
}

/// Warnings about the plan and its possible results.
pub(super) fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = plan.notes.clone();
    let Work::New(new) = &plan.work else { return notes };
    if let Judge::Proposed(proposed) = &new.judge {
        let path = safe(&proposed.path.to_string_lossy());
        notes.push(format!(
            "these gates are not approved yet: a start asks and writes `{path}`; `--yes` approves"
        ));
    }
    let (policy, has_gates) = match &new.judge {
        Judge::Policy(config) => (Some(&config.policy), !config.policy.gates.is_empty()),
        Judge::Proposed(proposed) => (None, !proposed.gates.is_empty()),
        Judge::Nothing => (None, false),
    };
    let lists = named_lists(&new.demand);
    if !has_gates && lists.is_empty() {
        notes.push(UNMEASURED.to_string());
    }
    notes.extend(start::list_notes(&lists, policy));
    notes
}

fn of_new(new: &New) -> Planned {
    let demand = &new.demand;
    let (gates, config) = match &new.judge {
        Judge::Policy(config) => (of_policy(config), Some(&**config)),
        Judge::Proposed(proposed) => {
            let named = |(name, command, _): &(String, String, _)| (name.clone(), command.clone());
            (proposed.gates.iter().map(named).collect(), None)
        }
        Judge::Nothing => (Vec::new(), None),
    };
    Planned {
        run: None,
        title: new.title.clone(),
        project: demand.project.to_string_lossy().into_owned(),
        bounds: demand.limits(config),
        is_approved: matches!(new.judge, Judge::Policy(_)),
        sealed: new.judge.sealed(),
        gates,
        lists: shown_lists(demand),
        argv: Vec::new(),
        place: new.place,
        notes: Vec::new(),
    }
}

fn of_run(run: &Run, bounds: &Limits) -> Planned {
    let gates = run.seal.iter().flat_map(|seal| &seal.policy.gates);
    let worktree = run.drive.as_ref().and_then(|settings| settings.worktree.as_ref());
    Planned {
        run: Some(run.id.to_string()),
        title: run.title.clone(),
        project: run.project.clone(),
        bounds: bounds.clone(),
        gates: gates.map(|gate| (gate.name.clone(), trust::literal(&gate.command))).collect(),
        is_approved: true,
        sealed: Vec::new(),
        lists: wording::contract(run).into_iter().filter(|(label, _)| *label != "gates").collect(),
        argv: Vec::new(),
        place: worktree
            .map_or(Place::Project, |it| Place::Worktree { then: it.then, checks_ms: None }),
        notes: Vec::new(),
    }
}

pub(super) fn of_policy(config: &Config) -> Vec<(String, String)> {
    let gates = config.policy.gates.iter();
    gates.map(|gate| (gate.name.clone(), trust::literal(&gate.command))).collect()
}

/// The lists whose items the run would require.
fn named_lists(demand: &Demand) -> Vec<Named> {
    let features = demand.features.iter().map(|directory| Named {
        path: directory.join(loop_directory::FEATURES),
        kind: ListKind::Features,
    });
    let plans = demand.plans.iter().map(|path| Named { path: path.clone(), kind: ListKind::Plan });
    features.chain(plans).collect()
}

fn shown_lists(demand: &Demand) -> Vec<(&'static str, String)> {
    let shown = |path: &std::path::PathBuf| format!("`{}`", safe(&path.to_string_lossy()));
    let features = demand.features.iter().map(|path| ("list", shown(path)));
    features.chain(demand.plans.iter().map(|path| ("plan", shown(path)))).collect()
}

fn sessions(settings: &Settings, bounds: &Limits) -> String {
    let full = format!("{} % full", bounds.handover_at_permille / 10);
    match settings.sessions {
        Sessions::Hybrid => format!("a fresh one when the context is {full}"),
        Sessions::SameSession => "one for the whole run".to_string(),
        Sessions::FreshPerFeature => {
            format!("a fresh one when a requirement is met, or the context is {full}")
        }
    }
}

fn waits(settings: &Settings) -> String {
    let errors = limits::duration(settings.waits.errors_ms);
    let limit = match settings.waits.limit_ms {
        0 => "not for rate limits".to_string(),
        ms => format!("up to {} for rate limits", limits::duration(ms)),
    };
    let idle = limits::duration(settings.idle_ms);
    format!("{limit}, up to {errors} for network errors; {idle} for a sign of life")
}

fn worktree(then: Then, checks_ms: Option<u64>) -> String {
    match (then, checks_ms) {
        (Then::Merge, _) => {
            "a separate one with its own branch; merged when the merged tree is verified"
                .to_string()
        }
        (Then::PullRequest, None) => {
            "a separate one with its own branch; then a pull request".to_string()
        }
        (Then::PullRequest, Some(ms)) => format!(
            "a separate one with its own branch; then a pull request, with {} for its checks",
            limits::duration(ms)
        ),
    }
}

/// The command line of the agent's next session, without secrets.
pub(super) fn command_line(env: &Env, plan: &Plan, bounds: &Limits) -> Vec<String> {
    let redactor = Redactor::new(env.secrets());
    argv(plan, bounds).iter().map(|word| redactor.redact(word)).collect()
}

fn argv(plan: &Plan, bounds: &Limits) -> Vec<String> {
    let Some(settings) = plan.settings() else { return Vec::new() };
    let (driving, resumed) = match &plan.work {
        Work::New(_) => (Driving::default(), None),
        Work::Resumed(opened) => {
            (opened.state.driving.clone(), opened.state.driven_session().cloned())
        }
    };
    let how = match (&resumed, &settings.from) {
        (Some(_), _) => How::Resumed,
        (None, Some(_)) => How::Forked,
        (None, None) => How::Fresh,
    };
    let Some(session) = resumed.or_else(|| SessionId::parse("NEW")) else { return Vec::new() };
    let call = Call {
        session: &session,
        how,
        model: settings.model.as_deref(),
        caps: &native_caps(bounds, driving.spent(), None),
        block_cap: agent::block_cap(bounds),
    };
    let argv = agent::argv(&plan.program, settings, &call);
    argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
