//! `ralph verify` and `/ralph:verify`: what the next stop would find, without deciding anything.

use super::gate::gate_args::GateRunArgs;
use super::gate::{self, gate_run};
use super::{open_home, run_choice};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use clap::Args;
use ralph_core::facts::StopEvidence;
use ralph_core::id::{RunId, SessionId};
use ralph_core::proof::{Proof, ProofVerdict};
use ralph_core::reason;
use ralph_core::record::{ReportedStatus, StopReport};
use ralph_core::redact::Redactor;
use ralph_core::requirement;
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_deck::view::requirement_check::{requirement_check_view, requirement_exit_code};
use ralph_deck::wording::safe_line;
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_home::world::World;
use ralph_hook::control::{self, RunOrSession};
use ralph_hook::overview;
use ralph_hook::project_runs::RunPurpose;
use ralph_hook::verify;
use ralph_policy::trust;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use std::time::Duration;

/// How many names of met requirements are listed.
const MAX_MET_NAMES: usize = 20;
/// As long as the client gives its hooks; slower gates go on in the background, as after a stop.
const VERIFY_TIMEOUT: Duration = Duration::from_mins(10);

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph verify
  ralph verify k7f2
  ralph verify --json | jq '.requirements[] | select(.state != \"met\")'

Shows the same as `/ralph:verify` in the session. For a session without
a run, judges it by the gates of its project. Without a run and without
such a session, runs the approved gates, as `ralph gate run` does.

Exit codes: 0 everything required is met, 1 something is not met, 3 the
policy is not approved, 4 something gave no result, or has none yet, 130
interrupted.")]
pub(crate) struct VerifyArgs {
    /// Check this run or session [default: the run of this project]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &VerifyArgs) -> Result<u8, CommandFailure> {
    let home = open_home(env)?;
    let run = match &args.name {
        Some(name) => match run_choice::find_named(&home, name)? {
            RunOrSession::Run(run) => run,
            RunOrSession::Session(_) => return Err(no_run_failure()),
        },
        None => match find_verifiable(env, &home)? {
            Some(run) => run,
            None => return run_project_gates(env, &home, args),
        },
    };
    let opened = store::load_run(&home, &run)?;
    let is_over = matches!(control::effective_phase(&home, &opened), RunPhase::Ended(_));
    let session =
        opened.state.owner(&opened.run).filter(|_| !is_over).ok_or_else(no_run_failure)?;
    let world = World::new(env.clone(), Deadline::after(VERIFY_TIMEOUT));
    let world = world.ok_or_else(super::unknown_home_failure)?;
    let evidence = verify::verify_run(&world, session, &run)?;
    if args.json {
        let redactor = Redactor::new(env.secrets());
        super::print_json(&requirement_check_view(&run, session, &evidence, &redactor))?;
    } else {
        term::out(&render_evidence(&world, &run, &evidence))?;
    }
    Ok(requirement_exit_code(&evidence.requirements))
}

/// The run of the project that a stop would judge, or the session that only its gates judge.
pub(super) fn find_verifiable(
    env: &Env,
    home: &RalphHome,
) -> Result<Option<RunId>, CommandFailure> {
    let run = run_choice::find_project_run(env, home, RunPurpose::Steer);
    if let Ok(Some(run)) = &run {
        let opened = store::load_run(home, run)?;
        if !matches!(control::effective_phase(home, &opened), RunPhase::Ended(_)) {
            return Ok(Some(run.clone()));
        }
    }
    match latest_gated(env, home)? {
        Some(gated) => Ok(Some(gated)),
        None => run.map(|_| None),
    }
}

/// Without a run, a person who verifies means the gates.
fn run_project_gates(env: &Env, home: &RalphHome, args: &VerifyArgs) -> Result<u8, CommandFailure> {
    if gate::load_policy(env, home, None)?.policy.gates.is_empty() {
        return Err(no_run_failure());
    }
    term::err("note: no run holds a session here; these are the gates of the project\n");
    gate_run::run(env, &GateRunArgs { json: args.json, ..GateRunArgs::default() })
}

/// For an agent: names the gates of the project, and whether they may run; `None` if there are none.
pub(crate) fn offer_gates(env: &Env, home: &RalphHome) -> Result<Option<String>, CommandFailure> {
    let config = gate::load_policy(env, home, None)?;
    let names: Vec<_> = config.policy.gates.iter().map(|gate| safe_line(&gate.name)).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let subject = trust::policy_subject(home, &config, env)?;
    let next = if trust::is_approved(home, &subject) {
        "`ralph gate run` runs them"
    } else {
        "no person has approved them yet (`ralph trust`)"
    };
    Ok(Some(format!(
        "no run holds this session, so nothing is required of it\ngates of this project: {}; {next}\n",
        names.join(", ")
    )))
}

/// The session of this project that its gates decided about last.
fn latest_gated(env: &Env, home: &RalphHome) -> Result<Option<RunId>, CommandFailure> {
    let scope = run_choice::current_scope(env)?;
    let sessions = overview::list_gated_sessions(home, Some(&scope), 0)?;
    Ok(sessions.into_iter().find(|session| !session.is_off).map(|session| session.record))
}

pub(super) fn no_run_failure() -> CommandFailure {
    let hint = "`ralph gate run` runs the gates without a run; `/ralph:goal …` starts one";
    CommandFailure::new("no run holds this session", hint)
}

/// What the next stop would find, as `/ralph:verify` shows it.
pub(crate) fn render_verification(
    world: &World,
    session: &SessionId,
    run: Option<&RunId>,
) -> Result<String, CommandFailure> {
    let run = run.ok_or_else(no_run_failure)?;
    Ok(render_evidence(world, run, &verify::verify_run(world, session, run)?))
}

fn render_evidence(world: &World, run: &RunId, evidence: &StopEvidence) -> String {
    let subject =
        if run.is_of_session() { "gates of the session".to_string() } else { format!("run {run}") };
    let redactor = Redactor::new(world.env.secrets());
    let report = reason::build_stop_report(&evidence.requirements, &redactor);
    // The same count as in the reason for a block.
    let mut out = match reason::describe_unmet(&evidence.requirements) {
        None => {
            let total = text::count_noun(report.total, "requirement");
            let are = if report.total == 1 { "is" } else { "are" };
            let proof = evidence.proof.as_ref().and_then(describe_unproven).unwrap_or_default();
            format!("{subject}: all {total} {are} met in the current tree{proof}\n")
        }
        Some(unmet) => format!("{subject}: {unmet}\n"),
    };
    out.push_str(&render_report(&report));
    out
}

/// `; the proof is green: no test fails without the change`; `None` if it is verified. It holds once, and then decides how
/// the run ends.
fn describe_unproven(proof: &Proof) -> Option<String> {
    if proof.verdict == ProofVerdict::Verified {
        return None;
    }
    let verdict = proof.verdict.name().replace('_', " ");
    Some(format!("; the proof is {verdict}: {}", safe_line(&proof.describe())))
}

/// The open requirements with their first findings, then the met ones.
pub(super) fn render_report(report: &StopReport) -> String {
    let mut out = String::new();
    for line in &report.lines {
        let mark = match line.standing {
            ReportedStatus::Unmet => paint(term::BAD, "✗"),
            ReportedStatus::Unknown => paint(term::WARN, "?"),
            ReportedStatus::Pending | ReportedStatus::Advisory => paint(term::DIM, "·"),
        };
        out.push_str(&format!(
            "  {mark} {} ({}): {}\n",
            safe_line(&line.name),
            requirement::stage_label(&line.stage, line.judge),
            safe_line(&line.note)
        ));
        for finding in line.first.iter().chain(&line.listed) {
            out.push_str(&format!("      {}\n", safe_line(finding)));
        }
        let shown = usize::from(line.first.is_some()) + line.listed.len();
        let more = usize::try_from(line.findings).unwrap_or(usize::MAX).saturating_sub(shown);
        if shown > 0 && more > 0 {
            out.push_str(&format!("      {}\n", paint(term::DIM, &format!("and {more} more"))));
        }
    }
    if !report.met.is_empty() {
        let names: Vec<_> =
            report.met.iter().take(MAX_MET_NAMES).map(|name| safe_line(name)).collect();
        let rest = match report.met.len().saturating_sub(MAX_MET_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = names.join("  ✓ ");
        out.push_str(&format!("  {} {names}{rest}\n", paint(term::GOOD, "✓")));
    }
    out
}
