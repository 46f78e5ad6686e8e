//! `ralph gate run`: runs gates and prints their results in several formats. `ralph feature verify` uses it too.

use super::gate_args::{GateFormat, GateRunArgs};
use super::{find_gate, load_policy, require_approval};
use crate::cmd::open_home;
use crate::describe;
use crate::failure::CommandFailure;
use crate::gate_progress::{self, GateBoard};
use crate::term::{self, paint};
use ralph_core::gate::{Gate, GateOutcome, GateTrigger, UnknownReason};
use ralph_core::reason::FULL_LOG_LABEL;
use ralph_core::requirement::{Finding, RequirementStage};
use ralph_core::text;
use ralph_deck::view::gate_results::{self, reported_gate};
use ralph_deck::wording;
use ralph_gates::findings::write;
use ralph_gates::gates::gate_history::GateHistory;
use ralph_gates::gates::{
    self, GateContent, GateContext, GateEvent, GateOrder, GateResult, GateRunRequest, ResultReuse,
    ResultSource,
};
use ralph_git::git;
use ralph_policy::config::ProjectConfig;
use ralph_policy::trust;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs::{self, Durability};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const INTERRUPTED: u8 = 130;
/// Names the file with the summary of a job of GitHub Actions.
const STEP_SUMMARY_VARIABLE: &str = "GITHUB_STEP_SUMMARY";
const SHOWN_FINDINGS: usize = 5;
const GIT_TIMEOUT: Duration = Duration::from_mins(1);
/// A log gets a line about a gate that took this long when it ends, because a job without output may be ended.
const LONG_GATE_MS: u64 = 10_000;

pub(crate) fn run(env: &Env, args: &GateRunArgs) -> Result<u8, CommandFailure> {
    let home = open_home(env)?;
    let config = load_policy(env, &home, args.project.as_deref())?;
    if args.trust_hash.is_some() {
        let what = "an agent may not approve its own gates";
        crate::cmd::refuse_agent(env, what, crate::cmd::ASK_A_PERSON)?;
    }
    let subject = require_approval(env, &home, &config, args.trust_hash.as_deref())?;
    let chosen = choose_gates(&config, args)?;
    let path = trust::recorded_path(&home, &subject);
    let cancel = crate::cmd::cancel_on_signals()?;
    let course = GateRunRequest {
        listing: None,
        context: GateContext {
            home: &home,
            env,
            project: &config.project,
            content: GateContent::Tree { exclude: &[home.root().to_path_buf()] },
            environment: &config.policy.environment,
            path: path.as_deref(),
            mounts: None,
            ci_base: None,
            deadline: Deadline::after(super::LISTING_TIMEOUT),
        },
        gates: &chosen,
        order: if args.all { GateOrder::All } else { GateOrder::Staged },
        reuse: if args.no_cache { ResultReuse::Never } else { ResultReuse::CachedUnlessCi },
        cancel: &cancel,
        ci_checkout: None,
        accepts: &GateResult::passed,
        watch: &|_| {},
    };
    let format = match args.format {
        None if args.json => GateFormat::Json,
        format => format.unwrap_or(GateFormat::Human),
    };
    let ran = match (term::is_watched(env), format) {
        (true, _) => {
            let board = GateBoard::new(&chosen, &GateHistory::read(&home, &config.project));
            gate_progress::watch(board, |watch| {
                gates::run_gates(&GateRunRequest { watch, ..course })
            })
        }
        (false, GateFormat::Human) => {
            gates::run_gates(&GateRunRequest { watch: &plain_line, ..course })
        }
        (false, _) => gates::run_gates(&course),
    };
    print_results(env, format, &config.project, &ran)?;
    write_summaries(env, args.summary.as_deref(), &ran)?;
    note_unasked(&config, &chosen);
    ralph_hook::cleaning_worker::clean_if_due(&home);
    Ok(if cancel.is_cancelled() { INTERRUPTED } else { gate_results::gate_exit_code(&ran) })
}

/// Adds the results as Markdown to the file that the person names, and to the summary of a job of GitHub Actions.
fn write_summaries(
    env: &Env,
    named: Option<&Path>,
    ran: &[GateResult],
) -> Result<(), CommandFailure> {
    let results: Vec<write::ReportedGate<'_>> = ran.iter().map(reported_gate).collect();
    let page = format!("{}\n", write::write_markdown(&results));
    if let Some(path) = named {
        fs::append(path, page.as_bytes(), Durability::Cached)?;
    }
    let of_job = env.get(STEP_SUMMARY_VARIABLE).map(PathBuf::from);
    if let Some(path) = of_job.filter(|path| named != Some(path)) {
        // The results are known without it.
        if let Err(error) = fs::append(&path, page.as_bytes(), Durability::Cached) {
            let why = ralph_home::faults::describe_error(&error);
            term::err(&format!(
                "note: could not write the job summary: {}\n",
                text::clean_line(&why, 200)
            ));
        }
    }
    Ok(())
}

/// Names the gates that ask a CI provider, which run only if they are named.
fn note_unasked(config: &ProjectConfig, chosen: &[&Gate]) {
    let is_chosen = |gate: &&Gate| chosen.iter().any(|one| one.name == gate.name);
    let unasked = config.policy.gates.iter().filter(|gate| gate.is_ci() && !is_chosen(gate));
    let names: Vec<&str> = unasked.map(|gate| gate.name.as_str()).collect();
    if !names.is_empty() {
        let names = names.join(" ");
        term::err(&format!("note: CI was not asked; `ralph gate run {names}` asks it\n"));
    }
}

fn choose_gates<'a>(
    config: &'a ProjectConfig,
    args: &GateRunArgs,
) -> Result<Vec<&'a Gate>, CommandFailure> {
    let gates = &config.policy.gates;
    if gates.is_empty() {
        let what = format!("no gates are set up for `{}`", config.project.display());
        return Err(CommandFailure::new(
            &what,
            "`ralph gate detect` proposes some and lists missing tools",
        ));
    }
    if !args.names.is_empty() {
        return args.names.iter().map(|name| find_gate(config, name)).collect();
    }
    let on = args.on.unwrap_or(GateTrigger::Stop);
    let mut chosen: Vec<&Gate> = gates
        .iter()
        .filter(|gate| gate.on.contains(&on))
        // A job that waited for the checks of its own commit would wait for itself.
        .filter(|gate| !gate.is_ci() || args.stage == Some(RequirementStage::Ci))
        .filter(|gate| args.stage.is_none_or(|stage| stage == gate.stage))
        .collect();
    if chosen.is_empty() {
        return Err(no_such_gates(gates, on, args.stage));
    }
    if args.changed {
        let changed =
            git::changed_paths(&config.project, &Deadline::after(GIT_TIMEOUT)).map_err(|why| {
                CommandFailure::new(
                    &format!("cannot determine what changed: {why}"),
                    "omit `--changed`",
                )
            })?;
        chosen.retain(|gate| {
            let globs =
                [&gate.paths, &gate.when].map(|globs| gates::result_key::compile_globs(globs));
            let reads = |path: &String| globs.iter().any(|globs| globs.is_match(path));
            gate.paths.is_empty() && gate.when.is_empty() || changed.iter().any(reads)
        });
    }
    Ok(chosen)
}

/// Zero gates would pass, so a stage or an event without gates is an error.
fn no_such_gates(
    gates: &[Gate],
    on: GateTrigger,
    stage: Option<RequirementStage>,
) -> CommandFailure {
    let at_event: Vec<&Gate> = gates.iter().filter(|gate| gate.on.contains(&on)).collect();
    if let Some(stage) = stage.filter(|_| !at_event.is_empty()) {
        let known = RequirementStage::GATE_STAGES.into_iter();
        let known = known.filter(|known| at_event.iter().any(|gate| gate.stage == *known));
        let names: Vec<_> = known.map(|known| format!("`{}`", known.name())).collect();
        let what = format!("no gate of stage `{}` runs on `{}`", stage.name(), on.name());
        return CommandFailure::new(&what, &format!("stages with gates: {}", names.join(", ")));
    }
    let ci: Vec<&str> =
        at_event.iter().filter(|gate| gate.is_ci()).map(|gate| gate.name.as_str()).collect();
    if !ci.is_empty() {
        let what = format!("no gate but CI runs on `{}`", on.name());
        return CommandFailure::new(&what, &format!("`ralph gate run {}` asks it", ci.join(" ")));
    }
    let events = GateTrigger::ALL.into_iter();
    let events = events.filter(|event| gates.iter().any(|gate| gate.on.contains(event)));
    let events: Vec<_> = events.map(|event| format!("`--on {}`", event.name())).collect();
    let what = format!("no gate runs on `{}`", on.name());
    CommandFailure::new(&what, &format!("there are gates for {}", events.join(", ")))
}

/// Whether a line is printed when a gate ends. Its result follows on stdout, and a log with both would have it twice.
fn has_end_line(source: ResultSource, took_ms: u64, is_terminal: bool) -> bool {
    is_terminal || source == ResultSource::Fresh && took_ms >= LONG_GATE_MS
}

/// Prints one line when a gate ends, if stderr is a terminal or the gate took long.
pub(crate) fn plain_line(seen: GateEvent<'_>) {
    if let GateEvent::Ended(ran) = seen
        && has_end_line(ran.source, ran.report.took_ms, term::is_error_terminal())
    {
        let took = match ran.source {
            ResultSource::Fresh => wording::short_duration(ran.report.took_ms),
            ResultSource::Cached => "cached".to_string(),
            ResultSource::NotRun => "not run".to_string(),
        };
        term::err(&format!(
            "{} {}  {took}\n",
            describe::gate_mark(&ran.report.outcome),
            text::clean_line(&ran.gate.name, 60)
        ));
    }
}

pub(crate) fn report_failure(error: &serde_json::Error) -> CommandFailure {
    CommandFailure::caused_by("cannot write the report", error)
}

fn print_results(
    env: &Env,
    format: GateFormat,
    project: &Path,
    ran: &[GateResult],
) -> Result<(), CommandFailure> {
    let results: Vec<write::ReportedGate<'_>> = ran.iter().map(reported_gate).collect();
    let annotations = || write::write_github(&results, git::path_in_work_tree(project));
    let out = match format {
        GateFormat::Human if env.is_github_actions() => {
            let page = write::without_github_commands(&render_results(ran, "gate"));
            format!("{page}{}", annotations())
        }
        GateFormat::Human => render_results(ran, "gate"),
        GateFormat::Json => write::write_json(&results).map_err(|error| report_failure(&error))?,
        GateFormat::Junit => write::write_junit(&results),
        GateFormat::Sarif => {
            write::write_sarif(&results).map_err(|error| report_failure(&error))?
        }
        GateFormat::Github => annotations(),
        GateFormat::Markdown => write::write_markdown(&results),
    };
    term::out(&out)?;
    Ok(())
}

pub(crate) fn render_results(ran: &[GateResult], noun: &str) -> String {
    let width = ran.iter().map(|ran| ran.gate.name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for stage in RequirementStage::GATE_STAGES {
        let members: Vec<_> = ran.iter().filter(|ran| ran.gate.stage == stage).collect();
        if members.is_empty() {
            continue;
        }
        out.push_str(&format!("{}\n", paint(term::BOLD, stage.name())));
        for ran in members {
            out.push_str(&result_lines(ran, width));
        }
    }
    out.push_str(&format!("\n{}\n", gate_results::count_line(ran, noun)));
    out
}

fn result_lines(ran: &GateResult, width: usize) -> String {
    let report = &ran.report;
    let took = match ran.source {
        ResultSource::Fresh => wording::short_duration(report.took_ms),
        ResultSource::Cached => "cached".to_string(),
        ResultSource::NotRun => String::new(),
    };
    let notes = gate_results::result_notes(ran);
    let name = text::clean_line(&ran.gate.name, 60);
    let line = format!(
        "  {} {name:<width$}  {took:>7}  {}",
        describe::gate_mark(&report.outcome),
        notes.join(", ")
    );
    let mut out = format!("{}\n", line.trim_end());
    if report.outcome == GateOutcome::Failed {
        let mut shown = 0;
        for finding in report.shown_findings().take(SHOWN_FINDINGS) {
            out.push_str(&format!("      {}\n", finding_line(finding)));
            shown += 1;
        }
        let count = usize::try_from(report.shown_count()).unwrap_or(usize::MAX);
        if count > shown {
            out.push_str(&format!("      and {} more\n", count - shown));
        }
    }
    let worth_a_look = !matches!(
        report.outcome,
        GateOutcome::Passed | GateOutcome::Unknown(UnknownReason::Skipped(_))
    );
    if let Some(log) = report.log.as_ref().filter(|_| worth_a_look) {
        out.push_str(&format!(
            "      {} `{}`\n",
            paint(term::DIM, FULL_LOG_LABEL),
            text::clean_line(log, 400)
        ));
    }
    out
}

pub(super) fn finding_line(finding: &Finding) -> String {
    let mut out = String::new();
    if let Some(place) = &finding.place {
        out.push_str(&text::clean_line(&place.file, 120));
        for number in [place.line, place.column].into_iter().map_while(|number| number) {
            out.push_str(&format!(":{number}"));
        }
        out.push_str(": ");
    }
    out.push_str(&text::clean_line(&finding.message, 200));
    if let Some(rule) = &finding.rule {
        out.push_str(&format!(
            " {}",
            paint(term::DIM, &format!("[{}]", text::clean_line(rule, 80)))
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gets_a_line_about_long_gates_only() {
        for (source, took_ms, is_terminal, expected) in [
            (ResultSource::Fresh, 9_999, false, false),
            (ResultSource::Fresh, 10_000, false, true),
            (ResultSource::Cached, 10_000, false, false),
            (ResultSource::NotRun, 0, false, false),
            (ResultSource::Fresh, 1, true, true),
            (ResultSource::Cached, 1, true, true),
        ] {
            assert_eq!(
                has_end_line(source, took_ms, is_terminal),
                expected,
                "{source:?} {took_ms}"
            );
        }
    }
}
