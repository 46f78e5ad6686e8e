//! The one question before a run starts: the gates, what the agent may do, and the limits, with one answer.

use super::dry_run;
use super::gate_source::{self, GateSource};
use super::permission_notes::{self, EditPermission};
use super::run_args::RunArgs;
use super::run_plan::{NewRun, PlannedWork, RunPlan};
use crate::approval_text::whole_command;
use crate::cmd::gate::add;
use crate::cmd::{init_text, open_world};
use crate::failure::CommandFailure;
use crate::term::{self, ColorWhen, paint};
use crate::typed_consent;
use ralph_core::drive::DriveSettings;
use ralph_core::gate::shell_quote;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_deck::wording::{self, safe_line};
use ralph_host::HostProfile;
use ralph_install::install::install_plan::ProposedPolicy;
use ralph_policy::config;
use ralph_policy::detect::DetectedGates;
use ralph_policy::detect::typed_command::TypedCommand;
use ralph_policy::trust;
use ralph_sys::env::Env;
use std::path::Path;

/// Indents the continuation of a wide line.
const WRAP_INDENT: usize = 10;
const MAX_TITLE_CHARS: usize = 80;
const UNMEASURED: &str = "no gate was detected, so nothing would measure the goal";
const MAX_SHOWN_SEALED: usize = 5;
/// More gates are only counted; `d` shows all of them.
const MAX_SHOWN_GATES: usize = 8;
/// How often a command is asked for that cannot be a gate.
const MAX_ATTEMPTS: usize = 3;

/// What a person reads before they answer.
struct ConsentScreen {
    title: String,
    project: String,
    /// The name of the file that a yes creates.
    new_policy: Option<String>,
    gates: Vec<(String, String)>,
    /// How many of the gates, at the end, are checks of this run only.
    checks: usize,
    /// Files that the agent may not change.
    sealed: Option<String>,
    agent: String,
    limits: String,
    notes: Vec<String>,
}

/// Settles what is still open: gates that are not approved, and whether the agent may edit files. Asks at most once;
/// `--yes` is the same answer. Without a terminal nothing is approved or allowed.
pub(super) fn settle_plan(
    env: &Env,
    args: &RunArgs,
    mut plan: RunPlan,
) -> Result<RunPlan, CommandFailure> {
    let PlannedWork::New(new) = &mut plan.work else { return Ok(plan) };
    let can_ask = term::can_ask() && !args.json && !args.yes;
    let has_items = new.issue.as_ref().is_some_and(|of| !of.items.is_empty());
    let is_measured =
        !new.request.terms.checks.is_empty() || !new.request.terms.lists.is_empty() || has_items;
    if let GateSource::Undetected(detected) = &new.gate_source {
        new.gate_source = match (is_measured, can_ask) {
            (true, _) => GateSource::NoGates,
            (false, true) => ask_for_gate(env, &new.request.project, detected)?,
            (false, false) => return Err(undetected_failure(env)),
        };
    }
    let has_new_gates = matches!(new.gate_source, GateSource::Proposed(_));
    let is_open = plan.edits == EditPermission::Open;
    if !has_new_gates && !is_open {
        return Ok(plan);
    }
    if !args.yes && !can_ask {
        return if has_new_gates { Err(unapproved_failure(env, &plan)) } else { Ok(plan) };
    }
    let host = agent_host(&plan);
    add_edit_flags(&mut plan, host);
    if !args.json && !args.quiet {
        term::out_fitted(&consent_screen(env, &plan, host)?.render(), WRAP_INDENT)?;
    }
    if can_ask {
        ask(env, &plan)?;
    }
    accept(env, plan)
}

/// Fails if nothing would measure the work of a queue's task: its run has no terminal to ask for a command.
pub(super) fn require_measure(plan: &RunPlan) -> Result<(), CommandFailure> {
    match new_run(plan) {
        Some(new)
            if matches!(new.gate_source, GateSource::Undetected(_))
                && new.request.terms.lists.is_empty()
                && new.request.terms.checks.is_empty() =>
        {
            let hint =
                "`ralph gate add \"CMD\"` adds one for every goal; `--no-gates` runs without one";
            Err(CommandFailure::new(UNMEASURED, hint))
        }
        Some(_) | None => Ok(()),
    }
}

fn new_run(plan: &RunPlan) -> Option<&NewRun> {
    match &plan.work {
        PlannedWork::New(new) => Some(new),
        PlannedWork::Resumed(_) => None,
    }
}

fn proposed_policy(plan: &RunPlan) -> Option<&ProposedPolicy> {
    match new_run(plan).map(|new| &new.gate_source) {
        Some(GateSource::Proposed(proposed)) => Some(proposed),
        Some(GateSource::Policy(_) | GateSource::Undetected(_) | GateSource::NoGates) | None => {
            None
        }
    }
}

fn agent_host(plan: &RunPlan) -> &'static HostProfile {
    let usual = DriveSettings::DEFAULT;
    ralph_host::recorded_host(&plan.settings().unwrap_or(&usual).agent)
}

/// What a person can type at the question.
#[derive(Clone, Copy)]
enum StartChoice<'a> {
    Run,
    EditFirst(&'a ProposedPolicy),
    ShowDetails,
}

/// Asks until the answer is yes. Every other answer starts nothing.
fn ask(env: &Env, plan: &RunPlan) -> Result<(), CommandFailure> {
    let proposed = proposed_policy(plan);
    let edit = if proposed.is_some() { " · [e] edit ralph.toml first" } else { "" };
    let question = format!("[y] run{edit} · [d] details · [N] cancel: ");
    let mut choices = vec![("yes", StartChoice::Run)];
    choices.extend(proposed.map(|proposed| ("edit", StartChoice::EditFirst(proposed))));
    choices.push(("details", StartChoice::ShowDetails));
    loop {
        match term::ask_for_choice(&question, &choices)? {
            Some(StartChoice::Run) => return Ok(()),
            Some(StartChoice::ShowDetails) => {
                let gates = proposed.map(init_text::render_gates).unwrap_or_default();
                let plan = format!("{}{gates}\n", dry_run::render_plan(env, plan));
                term::out_fitted(&plan, WRAP_INDENT)?;
            }
            Some(StartChoice::EditFirst(proposed)) => {
                gate_source::write_policy(proposed)?;
                let path = safe_line(&proposed.path.to_string_lossy());
                let what = format!("wrote `{path}`; nothing was approved or started");
                let hint =
                    format!("edit it, then paste `ralph trust && {}`", line_to_paste(env, ""));
                return Err(CommandFailure::chosen(&what, &hint));
            }
            None => return Err(cancelled_failure(env)),
        }
    }
}

fn cancelled_failure(env: &Env) -> CommandFailure {
    let hint = format!("paste `{}` to start it later", line_to_paste(env, ""));
    CommandFailure::chosen("nothing was written or started", &hint)
}

/// For a dry run: what `--yes` allows is part of the plan.
pub(super) fn apply_given_answer(plan: &mut RunPlan) {
    if plan.is_answered {
        let host = agent_host(plan);
        add_edit_flags(plan, host);
    }
}

/// Adds the flags that let the agent edit, so that the question shows the command that a yes runs.
fn add_edit_flags(plan: &mut RunPlan, host: &HostProfile) {
    let PlannedWork::New(new) = &mut plan.work else { return };
    if plan.edits != EditPermission::Open {
        return;
    }
    let Some(drive) = &mut new.request.drive else { return };
    let note = permission_notes::no_permissions_note(host, &drive.arguments);
    drive.arguments.extend(permission_notes::edit_flags(host));
    plan.notes.retain(|known| Some(known) != note.as_ref());
}

/// Does what the answer allows: writes and approves the gates, and records that the agent may edit.
fn accept(env: &Env, mut plan: RunPlan) -> Result<RunPlan, CommandFailure> {
    let world = open_world(env)?;
    let PlannedWork::New(new) = &mut plan.work else { return Ok(plan) };
    if let GateSource::Proposed(proposed) = &new.gate_source {
        new.gate_source = gate_source::accept_gates(&world, &new.request, proposed)?;
    }
    if plan.edits == EditPermission::Open {
        if let GateSource::Policy(config) = &new.gate_source {
            typed_consent::require_while_held(&world.home, "let the agent edit files")?;
            let subject = trust::policy_subject(&world.home, config, env)?;
            trust::allow_edits(&world.home, &subject)?;
        }
        plan.edits = EditPermission::Project;
    }
    Ok(plan)
}

/// Asks how the project is tested. The command becomes a gate of the policy, which the next question shows. An empty
/// answer leaves the run without gates.
fn ask_for_gate(
    env: &Env,
    project: &Path,
    detected: &DetectedGates,
) -> Result<GateSource, CommandFailure> {
    term::out("no gate was detected, and without one nothing measures the goal\n")?;
    for _ in 0..MAX_ATTEMPTS {
        term::out("how do you test this? (a command such as `sh test.sh`; empty for none) ")?;
        let Ok(command) = term::read_answer() else { return Err(cancelled_failure(env)) };
        if command.is_empty() {
            return Ok(GateSource::NoGates);
        }
        let typed = TypedCommand { command: &command, name: Some("tests"), stage: None };
        match add::typed_proposal(env, project, typed) {
            Ok(gate) => {
                if let Some(note) = add::missing_script_note(project, &gate) {
                    term::out(&format!("note: {note}\n"))?;
                }
                let policy = gate_source::typed_policy(env, project, detected, gate);
                return Ok(GateSource::Proposed(policy));
            }
            Err(failure) => term::out(&format!("{}\n", failure.message()))?,
        };
    }
    Err(undetected_failure(env))
}

fn undetected_failure(env: &Env) -> CommandFailure {
    let check = line_to_paste(env, "--check \"CMD\"");
    CommandFailure::new(
        UNMEASURED,
        &format!(
            "name a command that tests the work: `{check}` for this goal, `ralph gate add \"CMD\"` for every goal; `--no-gates` runs without one"
        ),
    )
}

fn unapproved_failure(env: &Env, plan: &RunPlan) -> CommandFailure {
    let gates = proposed_policy(plan).map(|proposed| proposed.gates.as_slice()).unwrap_or_default();
    let names: Vec<_> = gates.iter().map(|(name, ..)| name.as_str()).collect();
    let what = format!(
        "the detected gates are not approved: {}; not a terminal, so I can't ask",
        names.join(", ")
    );
    let hint = format!(
        "paste `{}` to see everything, `{}` to approve the gates and let the agent edit files",
        line_to_paste(env, "--dry-run"),
        line_to_paste(env, "--yes")
    );
    CommandFailure::new(&what, &hint)
}

/// The command line as typed, with another option, to paste into a shell.
fn line_to_paste(env: &Env, option: &str) -> String {
    let redactor = Redactor::new(env.secrets());
    let words = env.args();
    let words = ColorWhen::without_option(&words).iter().skip(1);
    let words =
        words.map(|word| shell_quote(&redactor.redact(&safe_line(&word.to_string_lossy()))));
    let option = Some(option.to_string()).filter(|option| !option.is_empty());
    let words: Vec<_> =
        ["ralph".to_string(), "run".to_string()].into_iter().chain(option).chain(words).collect();
    words.join(" ")
}

fn consent_screen(
    env: &Env,
    plan: &RunPlan,
    host: &HostProfile,
) -> Result<ConsentScreen, CommandFailure> {
    let world = open_world(env)?;
    let Some(new) = new_run(plan) else {
        return Err(CommandFailure::new("the run exists already", "`--resume` continues it"));
    };
    let project = &new.request.project;
    // The limits of the person's own file count once there is a policy.
    let usual = config::load(&config::find_project(project), &world.home)?;
    let has_policy = !matches!(new.gate_source, GateSource::Undetected(_) | GateSource::NoGates);
    let limits = new.request.limits(Some(&usual).filter(|_| has_policy));
    let title = Redactor::new(env.secrets()).redact(&new.title);
    let mut notes = dry_run::plan_notes(env, plan);
    notes.retain(|note| !dry_run::is_proposal_note(note));
    Ok(ConsentScreen {
        title: text::clean_line(&title, MAX_TITLE_CHARS),
        project: safe_line(&project.to_string_lossy()),
        new_policy: proposed_policy(plan).map(|proposed| {
            safe_line(&proposed.path.file_name().unwrap_or_default().to_string_lossy())
        }),
        gates: dry_run::shown_gates(new),
        checks: new.request.terms.checks.len(),
        sealed: sealed_text(env, new),
        agent: format!("{} {}", agent_name(plan, host), plan.edits.describe(host)),
        limits: wording::limits(&limits),
        notes,
    })
}

/// `` `claude` ``, or the program that stands in for it.
fn agent_name(plan: &RunPlan, host: &HostProfile) -> String {
    let is_usual = plan.program.file_name().is_some_and(|name| name == host.program);
    if is_usual {
        return format!("`{}`", host.name);
    }
    format!("`{}` (as `{}`)", safe_line(&plan.program.to_string_lossy()), host.name)
}

/// The files whose change holds the agent, and how to allow it.
fn sealed_text(env: &Env, new: &NewRun) -> Option<String> {
    let mut files = new.gate_source.sealed_files(env, &new.request);
    files.retain(|file| !new.request.terms.may_change.contains(&file.name));
    let more = files.len().saturating_sub(MAX_SHOWN_SEALED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown: Vec<_> = files
        .iter()
        .take(MAX_SHOWN_SEALED)
        .map(|file| format!("`{}`", safe_line(&file.name)))
        .collect();
    let them = if files.len() == 1 { "it" } else { "them" };
    (!shown.is_empty()).then(|| {
        format!(
            "{}{more}: the agent may not change {them}; `--may-change FILE` allows it",
            shown.join(", ")
        )
    })
}

impl ConsentScreen {
    /// Checks of this run only are not written.
    fn written_text(&self, file: &str) -> String {
        let written = self.gates.len().saturating_sub(self.checks);
        if self.checks == 0 {
            return format!("a yes writes them to `{file}` and approves them");
        }
        let names: Vec<_> =
            self.gates.iter().take(written).map(|(name, _)| safe_line(name)).collect();
        format!(
            "a yes writes {} to `{file}` and approves it; checks are for this run only",
            names.join(", ")
        )
    }

    fn render(&self) -> String {
        let mut out = format!("{}\n", paint(term::BOLD, &self.title));
        let mut line = |label: &str, value: &str| {
            out.push_str(&format!("  {label:<8} {value}\n"));
        };
        line("project", &format!("`{}`", self.project));
        let width = self.gates.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (at, (name, command)) in self.gates.iter().take(MAX_SHOWN_GATES).enumerate() {
            let label = if at == 0 { "gates" } else { "" };
            let command = whole_command(command, width + 13);
            line(label, &format!("{:<width$}  {command}", safe_line(name)));
        }
        if self.gates.is_empty() {
            line("gates", "none");
        }
        if let Some(rest) = self.gates.get(MAX_SHOWN_GATES..).filter(|rest| !rest.is_empty()) {
            let names: Vec<_> = rest.iter().map(|(name, _)| safe_line(name)).collect();
            line("", &format!("and {} (`d` shows their commands)", names.join(", ")));
        }
        if let Some(file) = &self.new_policy {
            line("", &paint(term::DIM, &self.written_text(file)));
        }
        if let Some(files) = &self.sealed {
            line("sealed", files);
        }
        line("agent", &self.agent);
        line("limits", &self.limits);
        for note in &self.notes {
            line("note", note);
        }
        out
    }
}
