//! `ralph why`: for every decision, the rule that matched and the evidence.

use super::{open_home, run_choice};
use crate::describe;
use crate::driven_status;
use crate::failure::CommandFailure;
use crate::term::{self, OutputReader, paint};
use crate::value_parsers::parse_positive_count;
use clap::Args;
use ralph_core::id::RunId;
use ralph_core::proof_summary::ProofRecord;
use ralph_core::record::{
    JournalEntry, PartRecord, RunChange, StopOutcome, StopRecord, StopReport,
};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::units;
use ralph_deck::page::question_in_phase;
use ralph_deck::standing_wording;
use ralph_deck::view::decisions::{self, DecisionEntry, run_decision};
use ralph_deck::view::driven_run;
use ralph_deck::view::judge_verdicts::describe_verdict;
use ralph_deck::view::next_step::next_step;
use ralph_deck::wording::{self, FactMark, part_owner, safe_line};
use ralph_home::journal::JournalDamage;
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control;
use ralph_hook::overview::{self, DecisionHistory, HistorySubject};
use ralph_sys::clock;
use ralph_sys::env::Env;

/// How many met requirements are named.
const SHOWN_MET: usize = 16;
const SHOWN_BROKEN: usize = 12;
/// Indents the continuation of a wide line, as the evidence of a decision is indented.
const WRAP_INDENT: usize = 10;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph why\n  ralph why k7f2 --last 1\n  ralph why 5999882c --json"
)]
pub(crate) struct WhyArgs {
    /// Show this run or session [default: the last one here]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Consider all projects, not only this one
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
    /// Show at most this many decisions
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_positive_count)]
    pub last: u32,
    /// Print one JSON object per decision
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &WhyArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let is_project = args.name.is_none() && !args.all;
    let found = if is_project {
        project_history(env, &home)?
    } else {
        find_history(env, &home, args.name.as_deref(), HistoryScope::from_flag(args.all))?
    };
    let Some(history) = found else { return Err(no_history_failure(env, &home, is_project)?) };
    let last = usize::try_from(args.last).unwrap_or(usize::MAX);
    if args.json {
        for decision in decisions::decision_views(&history, last) {
            if super::print_json(&decision)? == OutputReader::Closed {
                break;
            }
        }
        return Ok(());
    }
    let text = format!("{}{}", render_history(&history, last), next_step_line(&home, &history));
    term::out_wrapped(&text, WRAP_INDENT)?;
    Ok(())
}

/// What a person can do next, as the report of the run has it; empty while it works.
fn next_step_line(home: &RalphHome, history: &DecisionHistory) -> String {
    let run = RunId::parse(&history.name).filter(|run| !run.is_of_session());
    let Some(opened) = run.and_then(|run| store::load_run(home, &run).ok()) else {
        return String::new();
    };
    let phase = control::effective_phase(home, &opened);
    let next = next_step(&opened.run, &opened.state, phase, &history.entries);
    // This is what `ralph why` shows; what follows it is the step.
    let this = format!("`ralph why {}` shows ", opened.run.id);
    // Without a checkpoint to compare with, the next step after a verified run is to read this.
    let next = next.filter(|next| *next != format!("see `ralph why {}`", opened.run.id));
    let next =
        next.map(|next| match next.strip_prefix(&this).and_then(|rest| rest.split_once("; ")) {
            Some((_, rest)) => rest.to_string(),
            None => next,
        });
    next.map_or_else(String::new, |next| format!("next: {}\n", safe_line(&next)))
}

/// The decisions of the agent's own run, or the last ones of this project.
fn project_history(env: &Env, home: &RalphHome) -> Result<Option<DecisionHistory>, CommandFailure> {
    if let Some(own) = run_choice::own_run(env, home) {
        return Ok(Some(overview::run_history(home, &own)?));
    }
    Ok(overview::latest_project_history(home, &run_choice::current_scope(env)?)?)
}

fn no_history_failure(
    env: &Env,
    home: &RalphHome,
    is_project: bool,
) -> Result<CommandFailure, CommandFailure> {
    if is_project && overview::find_history(home, None)?.is_some() {
        let root = run_choice::current_scope(env)?;
        let what = format!("no decisions yet in `{}`", root.root().display());
        return Ok(CommandFailure::new(
            &what,
            "`ralph why --all` shows the last ones of all projects",
        ));
    }
    let hint = "`ralph run \"…\"` starts a run";
    Ok(CommandFailure::new("no decisions yet", hint))
}

/// Where the last decision is looked for if no run or session is named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HistoryScope {
    Project,
    Everywhere,
}

impl HistoryScope {
    /// From `--all`.
    pub(super) fn from_flag(all: bool) -> Self {
        if all { Self::Everywhere } else { Self::Project }
    }
}

/// The history of the named run or session; without a name, that of the agent's own run, or the last one of this project,
/// or of all projects if nothing was decided in this one.
pub(super) fn find_history(
    env: &Env,
    home: &RalphHome,
    name: Option<&str>,
    scope: HistoryScope,
) -> Result<Option<DecisionHistory>, CommandFailure> {
    if name.is_none() && scope == HistoryScope::Project {
        if let Some(history) = project_history(env, home)? {
            return Ok(Some(history));
        }
        let scope = run_choice::current_scope(env)?;
        let latest = overview::find_history(home, None)?;
        if latest.is_some() {
            term::err(&run_choice::elsewhere_note(&scope));
        }
        return Ok(latest);
    }
    overview::find_history(home, name).map_err(|error| run_choice::name_failure(home, error))
}

/// The last decisions, newest first, after a damaged journal, the status lines and open remarks, and before the place of
/// work that is not merged.
pub(crate) fn render_history(history: &DecisionHistory, last: usize) -> String {
    let decisions: Vec<_> = decisions::decisions(history).take(last).collect();
    let mut out = String::new();
    if let Some(broken) = &history.broken {
        out.push_str(&broken_line(broken));
    }
    let replayed = RunState::replay(&history.entries);
    let outcome = driven_run::worktree_outcome(&history.entries);
    if let Some((run, state)) = &replayed {
        let driven = driven_status::status_lines(run, state, state.phase, outcome.as_deref());
        let needs_runner = run.drive.is_some() && state.driving.parked.is_some();
        let question = question_in_phase(&history.entries, state.phase);
        let question = question.map(|question| {
            let line = standing_wording::question_line(run, &question, needs_runner);
            describe::paint_marked(&line)
        });
        let remarks = describe::remark_lines(state, clock::now_ms());
        for line in question.into_iter().chain(driven).chain(remarks) {
            out.push_str(&format!("{line}\n"));
        }
    }
    if let Some(denied) = decisions::denied_calls_text(&history.entries) {
        out.push_str(&format!("{} {denied}\n", describe::paint_mark(FactMark::Unclear)));
    }
    if decisions.is_empty() {
        let name = &history.name;
        out.push_str(&match replayed.as_ref().map(|(_, state)| state.phase) {
            _ if history.broken.as_ref().is_some_and(JournalDamage::is_edit) => {
                format!("no decision about `{name}` can be trusted\n")
            }
            Some(RunPhase::Ended(status)) => {
                format!("`{name}` was {} before its first stop\n", status.name())
            }
            _ => format!("no decisions about `{name}` yet: its session has not stopped\n"),
        });
    }
    if let Some(class) = history.entries.last().and_then(trouble_class) {
        out.push_str(&format!(
            "the last turn was cut short by {}: no decision was needed\n",
            wording::turn_end_cause(class)
        ));
    }
    for (entry, subject) in decisions {
        out.push_str(&match subject {
            DecisionEntry::Run(decided) => decision_paragraph(history, entry, decided),
            DecisionEntry::Part(part) => part_paragraph(entry, part),
        });
    }
    let unmerged = replayed.and_then(|(run, state)| {
        driven_run::unmerged_text(&run, &state, state.phase, outcome.as_deref())
    });
    if let Some(unmerged) = unmerged {
        out.push_str(&format!("{unmerged}\n"));
    }
    out
}

/// Renders every decision about the run, newest first.
pub(super) fn render_decisions(history: &DecisionHistory) -> String {
    let decisions = history.entries.iter().rev().filter_map(run_decision);
    decisions.map(|(entry, decided)| decision_paragraph(history, entry, decided)).collect()
}

fn trouble_class(entry: &JournalEntry) -> Option<&str> {
    if let RunChange::Trouble { class } = &entry.change { Some(class) } else { None }
}

pub(crate) fn broken_line(damage: &JournalDamage) -> String {
    let what = decisions::journal_damage_text(damage);
    format!("{} {what}\n", describe::paint_mark(FactMark::Unclear))
}

/// The first line of a decision: time, outcome, rule and reason.
pub(super) fn decision_head(
    history: &DecisionHistory,
    entry: &JournalEntry,
    decided: &StopRecord,
) -> String {
    let charged = match decided.outcome {
        StopOutcome::Blocked { .. } if decided.prompt_hold > 0 => {
            format!("hold {} of {}", decided.prompt_hold, most_prompt_holds(history))
        }
        StopOutcome::Blocked { .. } | StopOutcome::HandedOver
            if history.subject == HistorySubject::Run =>
        {
            format!("iteration {}", entry.iteration)
        }
        StopOutcome::Blocked { .. }
        | StopOutcome::Awaited { .. }
        | StopOutcome::HandedOver
        | StopOutcome::Allowed
        | StopOutcome::Repeated
        | StopOutcome::Orphaned
        | StopOutcome::Ended(_) => "not charged".to_string(),
    };
    let took = units::format_duration(decided.took_ms);
    let is_of_session = RunId::parse(&history.name).is_some_and(|run| run.is_of_session());
    // A session without a run has no iterations.
    let has_no_count = is_of_session && decided.prompt_hold == 0;
    let figures = if has_no_count { took } else { format!("{charged} · {took}") };
    format!(
        "{}  {:<9} rule {:<14} {}   {}\n",
        wording::local_time(entry.at_ms),
        wording::decision_outcome(decided),
        format!("`{}`", decided.rule.name()),
        safe_line(&decided.because),
        paint(term::DIM, &figures),
    )
}

/// How often the gates hold one prompt of a session without a run.
fn most_prompt_holds(history: &DecisionHistory) -> u32 {
    let seal = history.entries.iter().find_map(|entry| {
        if let RunChange::Started(run) = &entry.change { run.seal.as_deref() } else { None }
    });
    seal.map_or(0, |seal| seal.policy.session.holds)
}

fn decision_paragraph(
    history: &DecisionHistory,
    entry: &JournalEntry,
    decided: &StopRecord,
) -> String {
    let mut out = decision_head(history, entry, decided);
    if let Some(what) = &decided.tampering {
        out.push_str(&format!("          {} {}\n", paint(term::BAD, "✗"), safe_line(what)));
    }
    if let Some(report) = &decided.report {
        out.push_str(&evidence_lines(report));
    }
    for record in &decided.judges {
        let line = format!("{}: {}", safe_line(&record.name), describe_verdict(record));
        out.push_str(&format!("          {}\n", paint(term::DIM, &line)));
        for dropped in &record.dropped_findings {
            let line = format!("  dropped: {}", safe_line(&dropped.describe()));
            out.push_str(&format!("          {}\n", paint(term::DIM, &line)));
        }
    }
    // A held stop has them in its report.
    if let (StopOutcome::Ended(_), Some(proof)) = (&decided.outcome, &decided.proof) {
        out.push_str(&proof_lines(proof));
    }
    out
}

/// The tests of the base that do not hold, and what else keeps the proof from `verified`.
fn proof_lines(proof: &ProofRecord) -> String {
    let mut out = String::new();
    for line in proof.broken_lines().iter().take(SHOWN_BROKEN) {
        out.push_str(&format!("          {} {}\n", paint(term::BAD, "✗"), safe_line(line)));
    }
    if proof.broken_count > SHOWN_BROKEN {
        let more = proof.broken_count - SHOWN_BROKEN;
        out.push_str(&format!("          {} and {more} more\n", paint(term::BAD, "✗")));
    }
    for doubt in &proof.doubts {
        out.push_str(&format!("          {} {}\n", paint(term::WARN, "?"), safe_line(doubt)));
    }
    out
}

fn part_paragraph(entry: &JournalEntry, part: &PartRecord) -> String {
    let counted = format!("hold {} of {}", part.holds, part.max_holds);
    let mut out = format!(
        "{}  {:<9} rule {:<14} {}: {}   {}\n",
        wording::local_time(entry.at_ms),
        part.rule.outcome_label(),
        format!("`{}`", part.rule.name()),
        part_owner(part),
        safe_line(&part.because),
        paint(term::DIM, &format!("{counted} · {}", units::format_duration(part.took_ms))),
    );
    if let Some(report) = &part.report {
        out.push_str(&evidence_lines(report));
    }
    out
}

fn evidence_lines(report: &StopReport) -> String {
    let mut out = String::new();
    for line in report.lines.iter().take(12) {
        out.push_str(&format!(
            "          {} {:<20} {}\n",
            describe::mark(line.standing),
            safe_line(&line.name),
            safe_line(&line.note)
        ));
        for finding in line.first.iter().chain(&line.listed) {
            out.push_str(&format!("            {}\n", paint(term::DIM, &safe_line(finding))));
        }
        let shown = usize::from(line.first.is_some()) + line.listed.len();
        let more = usize::try_from(line.findings).unwrap_or(usize::MAX).saturating_sub(shown);
        if shown > 0 && more > 0 {
            let more = paint(term::DIM, &format!("and {more} more"));
            out.push_str(&format!("            {more}\n"));
        }
    }
    let open = report.open_count();
    if open > 12 {
        out.push_str(&format!("          {} and {} more\n", paint(term::BAD, "✗"), open - 12));
    }
    let met = report.met_count();
    if met > 0 {
        let names: Vec<_> = report.met.iter().take(SHOWN_MET).map(|name| safe_line(name)).collect();
        let more = met.saturating_sub(u32::try_from(names.len()).unwrap_or(u32::MAX));
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = names.join(", ");
        out.push_str(&format!("          {} {names}{rest}\n", paint(term::GOOD, "✓")));
    }
    out
}
