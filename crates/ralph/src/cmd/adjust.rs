//! `ralph waive` and `ralph limits`: how a person adjusts a run while it is active. The session commands
//! of the same names use the functions here too.

use super::{declare, identify_caller, open_home, run_choice};
use crate::driven_status;
use crate::failure::CommandFailure;
use crate::limit_args::TotalLimitArgs;
use crate::term::{self, paint};
use crate::typed_consent;
use clap::Args;
use ralph_core::dispute::{self, NamedRequirement as Meant};
use ralph_core::id::RunId;
use ralph_core::limits::{LimitOverrides, LimitUsage, RunLimits};
use ralph_core::proof_summary::PROOF_REQUIREMENT;
use ralph_core::record::{RunRecord, Waiver};
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_core::units;
use ralph_core::waiver;
use ralph_deck::person_action::LONGEST_WAIVER_REASON;
use ralph_deck::view::run_limits::run_limits_view;
use ralph_deck::view::waiver_list::{RunWaiversView, WaiverView, WaiversView};
use ralph_deck::wording::{self, safe_line};
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun};
use ralph_hook::adjustments::{self, RunAdjustment, person_name};
use ralph_hook::contract::{CONTRACT_REQUIREMENTS, checkout_requirement_name};
use ralph_hook::control::{self, CommandCaller};
use ralph_hook::overview;
use ralph_hook::project_runs::RunPurpose;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;

/// Indents the continuation of a wide line.
const WRAP_INDENT: usize = 6;
/// A requirement that is waived for longer should be removed from the policy instead.
const LONGEST_WAIVER_MS: u64 = 30 * 24 * 60 * 60 * 1000;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph waive tests --until 2h --why \"the test service is down\"\n  ralph waive \"feature 4\" --until 2d --why \"not in this release\" --run k7f2\n  ralph waive \"test-removed: test_old\" --until 2h --why \"the old API goes\"\n  ralph waive \"test-changed: test_sum\" --until 2h --why \"tax is added now\"\n  ralph list waivers\n  ralph waive --undo tests\n\nA waived requirement is still measured, and every report shows it with\nyour name and reason, but it does not block a stop until then. At most\n30 days. A run that ends during a waiver ends as `claimed`, even if the\nrequirement is met: `--undo` withdraws the waiver. A waiver of one\nfinding, `RULE: TEST`, lets only that test change: the run can still\nend as `verified`, and its end names the waiver."
)]
pub(crate) struct WaiveArgs {
    /// Waive this requirement, as in `ralph status`, or one test finding
    #[arg(value_name = "REQUIREMENT", required_unless_present_any = ["list", "undo"])]
    pub requirement: Option<String>,
    /// Give the reason
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["list", "undo"])]
    pub why: Option<String>,
    /// End the waiver after `2h`, on a date, or at `2026-11-20T18:00:00Z`
    #[arg(long, value_name = "WHEN", required_unless_present_any = ["list", "undo"])]
    pub until: Option<String>,
    /// List the waivers
    #[arg(long, conflicts_with_all = ["requirement", "why", "until", "undo"])]
    pub list: bool,
    /// Withdraw the waiver of this requirement
    #[arg(long, value_name = "REQUIREMENT", conflicts_with_all = ["requirement", "why", "until"])]
    pub undo: Option<String>,
    /// Name the run or its session [default: the run of this project]
    #[arg(long, value_name = "RUN|SESSION")]
    pub run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph limits\n  ralph limits k7f2 --max-iterations 40 --max-cost 50\n\nWithout options, shows the limits. Changes count from the next stop on."
)]
pub(crate) struct SetLimitsArgs {
    /// Name the run or its session [default: the run of this project]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    #[command(flatten)]
    pub limits: TotalLimitArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn waive(env: &Env, args: &WaiveArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    if args.list {
        let run = args.run.as_deref();
        return list_waivers(env, &WaiverListChoice { run, all: false, json: args.json });
    }
    let run = match &args.run {
        Some(name) => find_run(&home, name)?,
        None => run_choice::project_run(env, &home, RunPurpose::Steer)?,
    };
    let (caller, by) = (identify_caller(env), person_name(env));
    let adjustment =
        RunAdjustment { home: &home, run: &run, caller, by: Some(&by), deadline: &deadline };
    let done = match (&args.undo, &args.requirement) {
        (Some(name), _) => withdraw_waiver(&adjustment, name)?,
        (None, name) => {
            let name = name.as_deref().unwrap_or_default();
            let (why, until) = (args.why.as_deref(), args.until.as_deref());
            waive_requirement(
                env,
                &adjustment,
                name,
                why.unwrap_or_default(),
                until.unwrap_or_default(),
            )?
        }
    };
    if args.json {
        let opened = store::load_run(&home, &run)?;
        let runs = vec![RunWaiversView { run: run.as_str(), waivers: active_waivers(&opened) }];
        super::print_json(&WaiversView { v: 1, runs })?;
    } else {
        let line = format!("{}  {done}\n", paint(term::BOLD, run.as_str()));
        term::out_fitted(&line, WRAP_INDENT)?;
    }
    Ok(())
}

/// Waives a requirement. Returns the confirmation for the person.
pub(crate) fn waive_requirement(
    env: &Env,
    adjustment: &RunAdjustment<'_>,
    name: &str,
    why: &str,
    until: &str,
) -> Result<String, CommandFailure> {
    let now_ms = clock::now_ms();
    let until_ms = parse_until(until, now_ms)?;
    let why = declare::clean_text(env, why, LONGEST_WAIVER_REASON);
    if why.is_empty() {
        let hint = "give it with `--why`; every report shows it";
        return Err(CommandFailure::new("no reason given", hint));
    }
    let opened = store::load_run(adjustment.home, adjustment.run)?;
    let requirement = requirement_name(name, &opened)?;
    let waiver = Waiver { requirement, why, by: person_name(env), until_ms };
    let deadline = confirm_by_word(adjustment, "waive it")?;
    adjustments::add_waiver(&RunAdjustment { deadline: &deadline, ..*adjustment }, &waiver)
        .map_err(|error| driven_status::control_failure(adjustment.home, error))?;
    Ok(format!(
        "{} is {}; every report shows it, and it blocks no stop",
        safe_line(&waiver.requirement),
        waiver::describe_waiver(&waiver, now_ms)
    ))
}

/// Asks at the terminal before a command loosens a run; a prompt in the session was typed by a person already. Returns
/// the deadline for the lock, which must not pass while the person types.
fn confirm_by_word(
    adjustment: &RunAdjustment<'_>,
    action: &str,
) -> Result<Deadline, CommandFailure> {
    let RunAdjustment { home, run, caller, .. } = *adjustment;
    control::require_person_caller(home, run, caller, "loosen")?;
    if caller == CommandCaller::Session {
        return Ok(*adjustment.deadline);
    }
    typed_consent::require_while_held(home, action)?;
    Ok(Deadline::after(super::control::LOCK_TIMEOUT))
}

/// Withdraws a waiver. Returns the confirmation for the person.
pub(crate) fn withdraw_waiver(
    adjustment: &RunAdjustment<'_>,
    name: &str,
) -> Result<String, CommandFailure> {
    let opened = store::load_run(adjustment.home, adjustment.run)?;
    let known = opened.state.waivers.iter().map(|one| one.requirement.as_str());
    let found = known.clone().find(|known| known.eq_ignore_ascii_case(name)).unwrap_or(name);
    adjustments::revoke_waiver(adjustment, found).map_err(|error| {
        let near = text::nearest(name, known).map(|near| format!("did you mean `{near}`?"));
        let failure = driven_status::control_failure(adjustment.home, error);
        match near {
            Some(near) => failure.with_hint(&near),
            None => failure,
        }
    })?;
    Ok(format!("{} is required again", safe_line(found)))
}

/// The name of the requirement in the last report. A misspelt name is an error, so that it waives nothing.
fn requirement_name(name: &str, opened: &LoadedRun) -> Result<String, CommandFailure> {
    let run = &opened.run.id;
    let given = text::clean_line(name, 120);
    if waiver::parse_finding(&given).is_some() {
        return Ok(given);
    }
    if given.eq_ignore_ascii_case(PROOF_REQUIREMENT) {
        return Err(CommandFailure::new(
            "the proof cannot be waived",
            &format!(
                "`ralph waive \"test-changed: NAME\" --until 2h --why \"…\"` lets one test change; `ralph accept {run}` accepts the run once it has ended"
            ),
        ));
    }
    if given.contains(" > ") || given.contains("::") {
        return Err(CommandFailure::new(
            &format!("run `{run}` has no requirement `{given}`"),
            &format!(
                "to let this test change: `ralph waive \"test-changed: {given}\" --until 2h --why \"…\"`"
            ),
        ));
    }
    let Some(report) = &opened.state.report else { return unreported_name(given, &opened.run) };
    match dispute::find_named(name, report) {
        Meant::Open(name) | Meant::Met(name) => Ok(name),
        Meant::Unlisted => Ok(given),
        Meant::Advisory(name) if opened.state.waivers.iter().any(|one| one.requirement == name) => {
            Ok(name)
        }
        Meant::Advisory(name) => Err(CommandFailure::new(
            &format!("`{name}` is advisory: it never blocks a stop"),
            &format!("`ralph why {run}` shows what blocks the stop"),
        )),
        Meant::NotFound(near) => Err(CommandFailure::new(
            &format!("run `{run}` has no requirement `{given}`"),
            &match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("`ralph why {run}` lists them"),
            },
        )),
    }
}

/// Before the first stop, only the requirements that do not come from lists and files of the run are known.
fn unreported_name(given: String, run: &RunRecord) -> Result<String, CommandFailure> {
    let gates = run.seal.iter().flat_map(|seal| &seal.policy.gates);
    let gates = gates.flat_map(|gate| [gate.name.clone(), checkout_requirement_name(&gate.name)]);
    let judges = run.seal.iter().flat_map(|seal| &seal.policy.judges);
    let judges = judges.map(|judge| judge.name.clone());
    let known: Vec<String> =
        gates.chain(judges).chain(CONTRACT_REQUIREMENTS.iter().map(ToString::to_string)).collect();
    if let Some(name) = known.iter().find(|known| known.eq_ignore_ascii_case(&given)) {
        return Ok(name.clone());
    }
    let near = text::nearest(&given, known.iter().map(String::as_str));
    let has_others = !run.lists.is_empty()
        || run.checklist
        || run.tasks
        || run.phases
        || run.promise.is_some()
        || run.seal.is_none();
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if has_others => return Ok(given),
        None => format!("its requirements are {}", known.join(", ")),
    };
    Err(CommandFailure::new(&format!("run `{}` has no requirement `{given}`", run.id), &hint))
}

fn parse_until(until: &str, now_ms: u64) -> Result<u64, CommandFailure> {
    let hint = "give a duration such as `2h`, a date such as `2026-11-20`, or an RFC 3339 time";
    let span = units::parse_duration(until).map(|span| now_ms.saturating_add(span));
    let shown = text::clean_line(until, 60);
    let Some(until_ms) = span.or_else(|| clock::parse_timestamp_or_date(until)) else {
        return Err(CommandFailure::new(&format!("`{shown}` is not a time"), hint));
    };
    if until_ms <= now_ms {
        return Err(CommandFailure::new(&format!("`{shown}` is not in the future"), hint));
    }
    if until_ms - now_ms > LONGEST_WAIVER_MS {
        let what = format!("a waiver lasts at most {}", units::format_duration(LONGEST_WAIVER_MS));
        let hint = "remove the requirement from `ralph.toml` instead";
        return Err(CommandFailure::new(&what, hint));
    }
    Ok(until_ms)
}

/// Whose waivers are listed: those of one run, of this project's runs in progress, or of all of them.
pub(super) struct WaiverListChoice<'a> {
    pub(super) run: Option<&'a str>,
    pub(super) all: bool,
    pub(super) json: bool,
}

pub(super) fn list_waivers(env: &Env, args: &WaiverListChoice<'_>) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let (mut views, _) = overview::list_run_views(&home)?;
    match args.run {
        Some(name) => {
            let run = find_run(&home, name)?;
            views.retain(|view| view.opened.run.id == run);
        }
        None => views.retain(|view| !matches!(view.phase, RunPhase::Ended(_))),
    }
    if let (None, false) = (args.run, args.all)
        && let Some(scope) = run_choice::scope_with_runs(env, &home)?
    {
        views.retain(|view| scope.contains_run(&view.opened.run));
    }
    for view in &views {
        control::require_person_caller(
            &home,
            &view.opened.run.id,
            identify_caller(env),
            "list the waivers of",
        )?;
    }
    if args.json {
        let runs = views
            .iter()
            .map(|view| RunWaiversView {
                run: view.opened.run.id.as_str(),
                waivers: active_waivers(&view.opened),
            })
            .collect();
        super::print_json(&WaiversView { v: 1, runs })?;
        return Ok(());
    }
    let lines: String = views.iter().map(|view| waiver_lines(&view.opened)).collect();
    let shown = if lines.is_empty() { "nothing is waived\n" } else { &lines };
    term::out_fitted(shown, WRAP_INDENT)?;
    Ok(())
}

/// The waivers of a run, a line each.
pub(crate) fn waiver_lines(opened: &LoadedRun) -> String {
    let now_ms = clock::now_ms();
    let id = paint(term::BOLD, opened.run.id.as_str());
    let mut out = String::new();
    for waiver in opened.state.waivers.iter().filter(|one| one.until_ms > now_ms) {
        let sentence = safe_line(&waiver::describe_waiver(waiver, now_ms));
        out.push_str(&format!("{id}  {}: {sentence}\n", safe_line(&waiver.requirement)));
    }
    out
}

fn active_waivers(opened: &LoadedRun) -> Vec<WaiverView> {
    let now_ms = clock::now_ms();
    let counting = opened.state.waivers.iter().filter(|one| one.until_ms > now_ms);
    counting.map(WaiverView::from_waiver).collect()
}

pub(crate) fn limits(env: &Env, args: &SetLimitsArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let run = match &args.name {
        Some(name) => find_run(&home, name)?,
        None => run_choice::project_run(env, &home, RunPurpose::Steer)?,
    };
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    let (caller, by) = (identify_caller(env), person_name(env));
    let adjustment =
        RunAdjustment { home: &home, run: &run, caller, by: Some(&by), deadline: &deadline };
    let (now, done) = change_limits(&adjustment, &args.limits.overrides())?;
    if args.json {
        super::print_json(&run_limits_view(&run, &now))?;
    } else {
        let line = format!("{}  {done}\n", paint(term::BOLD, run.as_str()));
        term::out_fitted(&line, WRAP_INDENT)?;
    }
    Ok(())
}

/// Changes the limits, or only reads them if `overrides` is empty. Returns them with the text for the person.
pub(crate) fn change_limits(
    adjustment: &RunAdjustment<'_>,
    overrides: &LimitOverrides,
) -> Result<(RunLimits, String), CommandFailure> {
    if overrides.is_empty() {
        control::require_person_caller(
            adjustment.home,
            adjustment.run,
            adjustment.caller,
            "change the limits of",
        )?;
        let opened = store::load_run(adjustment.home, adjustment.run)?;
        let limits = opened.state.limits(&opened.run).clone();
        let text = format!("limits  {}", wording::limits(&limits));
        return Ok((limits, text));
    }
    let deadline = confirm_by_word(adjustment, "change the limits")?;
    let changed = RunAdjustment { deadline: &deadline, ..*adjustment };
    let limits = adjustments::set_run_limits(&changed, overrides);
    let limits = limits.map_err(|error| driven_status::control_failure(adjustment.home, error))?;
    let opened = store::load_run(adjustment.home, adjustment.run)?;
    let usage = LimitUsage::recorded(&opened.state, clock::now_ms());
    let used = limits.reached(&usage);
    let used = used.map(|used| format!("; {used}, so the next stop ends the run"));
    let shown = wording::limits_with(&limits, overrides);
    let gap = wording::cost_gap(&opened.run, &opened.state);
    let gap = gap.map(|gap| format!("; {}", gap.text)).unwrap_or_default();
    let text = format!("limits  {shown} from now on{}{gap}", used.unwrap_or_default());
    Ok((limits, text))
}

pub(super) fn find_run(home: &RalphHome, name: &str) -> Result<RunId, CommandFailure> {
    run_choice::find_run(home, name, |session| {
        let hint = "only files of other tools hold it; `ralph status` lists the runs";
        CommandFailure::new(&format!("no run owns session `{session}`"), hint)
    })
}
