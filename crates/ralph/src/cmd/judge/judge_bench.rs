//! `ralph judge bench`: what the verdicts of a judge are worth.

use super::bench_args::BenchArgs;
use crate::cmd::{ASK_A_PERSON, cancel_on_signals, gate, open_home, print_json, refuse_agent};
use crate::failure::CommandFailure;
use crate::term;
use crate::text_table::{ColumnSide, TextTable};
use crate::{FAILURE, SUCCESS};
use ralph_core::judge::{Judge, JudgeBackend, JudgeKind, JudgeOutcome};
use ralph_core::policy::GateEnvironment;
use ralph_core::text::{self, count_noun};
use ralph_core::units::{estimate_usd, format_usd, format_usd_alike};
use ralph_deck::wording::safe_line;
use ralph_gates::command_place::CommandPlace;
use ralph_home::paths::RalphHome;
use ralph_judge::bench::bench_case::BenchCase;
use ralph_judge::bench::bench_score::{BenchReport, BenchRow, BenchScore};
use ralph_judge::bench::{self, BenchError};
use ralph_judge::{JudgeRequest, JudgeStep, JudgeSupport, ask_judge};
use ralph_policy::{config, price_list};
use ralph_sys::clock;
use ralph_sys::env::{self, Env};
use ralph_sys::fs::{self, FreshDir};
use ralph_sys::proc::program_search;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The length of a finding or a reason in the table.
const NOTE_CHARS: usize = 60;

pub(crate) fn run(env: &Env, args: &BenchArgs) -> Result<u8, CommandFailure> {
    let cases = bench::shipped_cases(&args.case).map_err(case_failure)?;
    if args.list && args.json {
        let cases = cases.iter().map(listed_case).collect();
        return print_json(&CaseListView { v: 1, cases }).map(|_| SUCCESS);
    }
    if args.list {
        return term::out(&list_cases(&cases)).map(|_| SUCCESS);
    }
    refuse_agent(env, "an agent may not measure a judge", ASK_A_PERSON)?;
    let home = open_home(env)?;
    let BenchSetup { judge, variables, project } = choose_judge(env, &home, args)?;
    check_reachable(env, &judge, args, &project)?;
    let cancel = cancel_on_signals()?;
    let prices = price_list::price_table(&config::load_prices(&home)?);
    let scratch = FreshDir::create(home.scratch(clock::nonce()))?;
    let supervisor = env::own_executable();
    let place = CommandPlace::in_directory(project, &variables);
    let support = BenchProgress;
    let mut spent = 0_u64;
    let count = cases.len();
    let mut number = 0;
    let report = bench::run_bench(
        &judge,
        &cases,
        scratch.path(),
        |case, files| {
            let request = JudgeRequest {
                judge: &judge,
                case,
                files,
                place: &place,
                scratch: scratch.path(),
                env,
                search_path: None,
                host_program: args.host_program.as_deref(),
                supervisor: &supervisor,
                prices: &prices,
                budget_micro_usd: args.max_cost.map(|most| most.saturating_sub(spent)),
                support: &support,
            };
            let mut result = ask_judge(&request, &cancel);
            // The judge knows only what was left for it.
            if let Some(most) = args.max_cost.filter(|most| spent >= *most) {
                let [most, spent] = format_usd_alike([most, spent]);
                let why = format!("the budget of {most} is used up: {spent} spent");
                result.outcome = JudgeOutcome::Unknown { why };
            }
            spent = spent.saturating_add(result.usage.micro_usd.unwrap_or(0));
            result
        },
        |row| {
            number += 1;
            term::err(&format!("{number}/{count}  {}: {}\n", row.case, row.grade.name()));
        },
    );
    let report = report.map_err(case_failure)?;
    if cancel.is_cancelled() {
        return Err(CommandFailure::new("interrupted", "nothing was stored; run it again"));
    }
    if args.json {
        print_json(&report)?;
    } else {
        term::out(&render_report(&report))?;
    }
    let BenchScore { unsure, not_asked, cases, .. } = report.score;
    Ok(if unsure + not_asked == cases { FAILURE } else { SUCCESS })
}

/// A judge, and where and with which variables its command runs.
struct BenchSetup {
    judge: Judge,
    variables: GateEnvironment,
    project: PathBuf,
}

/// The judge that the options describe, or one of the policy. That one may be a command of the repository, so the policy
/// must be approved.
fn choose_judge(
    env: &Env,
    home: &RalphHome,
    args: &BenchArgs,
) -> Result<BenchSetup, CommandFailure> {
    if let Some(judge) = args.described_judge() {
        let project = env.current_dir().ok_or_else(|| {
            CommandFailure::new("the current directory no longer exists", "change to another one")
        })?;
        check_described(&judge, &project)?;
        // The person gave the command, so it gets what they have, apart from secrets.
        let variables = GateEnvironment { ci: false, ..GateEnvironment::default() };
        return Ok(BenchSetup { judge, variables, project });
    }
    let Some(name) = &args.judge else {
        return Err(CommandFailure::new(
            "no judge given",
            "use `--judge NAME`, `--host claude`, `--http URL --model MODEL` or `-- COMMAND`",
        ));
    };
    let config = gate::load_policy(env, home, None)?;
    let judges = &config.policy.judges;
    let Some(judge) = judges.iter().find(|judge| judge.name == *name) else {
        let names: Vec<_> = judges.iter().map(|judge| judge.name.as_str()).collect();
        let hint = match text::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => "this project has no `[[judge]]`".to_string(),
            None => format!("the judges are {}", names.join(", ")),
        };
        let what = format!("there is no judge `{}`", safe_line(name));
        return Err(CommandFailure::new(&what, &hint));
    };
    gate::require_approval(env, home, &config, None)?;
    Ok(BenchSetup {
        judge: judge.clone(),
        variables: config.policy.environment.clone(),
        project: config.project.clone(),
    })
}

/// Fails for a judge that could answer none of the cases.
fn check_described(judge: &Judge, project: &Path) -> Result<(), CommandFailure> {
    config::check_backend(&judge.backend)
        .map_err(|(what, hint)| CommandFailure::new(&format!("the judge {what}"), &hint))?;
    match &judge.backend {
        JudgeBackend::Http(_) if judge.kind == JudgeKind::Agent => Err(CommandFailure::new(
            "an agent judge needs a host or a command, not an endpoint",
            "use `--host claude`, or another `--kind`",
        )),
        JudgeBackend::Command(words) => match words.first() {
            Some(program) if program.contains('/') && !fs::exists(&project.join(program)) => {
                let what = format!("there is no program `{}`", safe_line(program));
                Err(CommandFailure::new(&what, "give its path after `--`"))
            }
            Some(_) | None => Ok(()),
        },
        JudgeBackend::Http(_) | JudgeBackend::Host(_) => Ok(()),
    }
}

/// Fails once, before the first case, if the judge has no program or no key.
fn check_reachable(
    env: &Env,
    judge: &Judge,
    args: &BenchArgs,
    project: &Path,
) -> Result<(), CommandFailure> {
    if let JudgeBackend::Http(endpoint) = &judge.backend
        && let Some(key) = &endpoint.key
        && env.get(key).is_none_or(|value| value.is_empty())
    {
        let what = format!("the judge needs ${}, which is not set here", safe_line(key));
        return Err(CommandFailure::new(&what, "set it and run this again"));
    }
    let program = match &judge.backend {
        JudgeBackend::Host(_) if args.host_program.is_some() => None,
        JudgeBackend::Host(host) => {
            ralph_host::host_named(&host.host).map(|known| known.program.to_string())
        }
        JudgeBackend::Command(words) => words.first().cloned(),
        JudgeBackend::Http(_) => None,
    };
    let path = env.search_path().unwrap_or_default();
    let is_missing = |program: &String| {
        program_search::find_program(OsStr::new(program), project, &path).is_none()
    };
    match program.filter(is_missing) {
        Some(program) => {
            let what = format!("the judge needs `{}`, which was not found", safe_line(&program));
            let hint = match &judge.backend {
                JudgeBackend::Host(_) => "install it, or give its path: `--host-program PATH`",
                JudgeBackend::Command(_) | JudgeBackend::Http(_) => "install it, or give its path",
            };
            Err(CommandFailure::new(&what, hint))
        }
        None => Ok(()),
    }
}

fn case_failure(error: BenchError) -> CommandFailure {
    match error {
        BenchError::UnknownCase(name) => CommandFailure::new(
            &format!("there is no case `{}`", safe_line(&name)),
            "`ralph judge bench --list` lists them",
        ),
        BenchError::File(error) => error.into(),
        BenchError::Case(error) => CommandFailure::caused_by("a case is invalid", &error),
    }
}

/// Retries are worth a line, because they explain the wait.
#[derive(Debug)]
struct BenchProgress;

impl JudgeSupport for BenchProgress {
    fn report_progress(&self, step: &JudgeStep<'_>) {
        match step {
            JudgeStep::Retry { after_ms, why } => {
                let seconds = after_ms.div_ceil(1000);
                term::err(&format!("      {}; asked again in {seconds} s\n", safe_line(why)));
            }
            JudgeStep::Verdict
            | JudgeStep::Reviewer { .. }
            | JudgeStep::Confirmation { .. }
            | JudgeStep::Gate(_)
            | JudgeStep::Test(_) => {}
        }
    }
}

#[derive(Serialize)]
struct CaseListView<'a> {
    v: u8,
    cases: Vec<ListedCaseView<'a>>,
}

#[derive(Serialize)]
struct ListedCaseView<'a> {
    name: &'a str,
    language: &'a str,
    /// What is wrong with the change; `null` if nothing is.
    defect: Option<&'a str>,
    /// What only looks wrong about it.
    suspicious: Option<&'a str>,
}

fn listed_case(case: &BenchCase) -> ListedCaseView<'_> {
    ListedCaseView {
        name: &case.name,
        language: &case.language,
        defect: case.defect.as_deref(),
        suspicious: case.suspicious.as_deref(),
    }
}

fn list_cases(cases: &[BenchCase]) -> String {
    let row = |case: &BenchCase| {
        let about = match (&case.defect, &case.suspicious) {
            (Some(defect), _) => defect.clone(),
            (None, Some(suspicious)) => format!("no defect; {suspicious}"),
            (None, None) => "no defect".to_string(),
        };
        vec![case.name.clone(), case.language.clone(), about]
    };
    let rows: Vec<_> = cases.iter().map(row).collect();
    render_table(&["CASE", "LANGUAGE", "DEFECT"], &rows)
}

fn render_table(names: &[&str], rows: &[Vec<String>]) -> String {
    let columns: Vec<_> = names.iter().map(|name| (*name, ColumnSide::Left)).collect();
    TextTable { columns: &columns, rows, indent: "", header_style: term::BOLD }.render()
}

fn render_report(report: &BenchReport) -> String {
    let rows: Vec<_> = report.cases.iter().map(report_row).collect();
    let mut out = render_table(&["CASE", "VERDICT", "GRADE", "TOKENS", "NOTE"], &rows);
    out.push('\n');
    out.push_str(&score_lines(report));
    out
}

fn report_row(row: &BenchRow) -> Vec<String> {
    let finding = row.findings.first().map(|finding| {
        let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{}{line}: {}", finding.file, finding.claim)
    });
    let note = row.why.clone().or(finding).unwrap_or_default();
    vec![
        row.case.clone(),
        row.verdict.to_string(),
        row.grade.name().to_string(),
        (row.input_tokens + row.output_tokens).to_string(),
        text::truncate(&safe_line(&note), NOTE_CHARS),
    ]
}

fn score_lines(report: &BenchReport) -> String {
    let score = &report.score;
    let BenchScore { found, defects, false_alarms, wrong_place, missed, unsure, .. } = score;
    let asked = score.cases - score.not_asked;
    let not_asked = match score.not_asked {
        0 => String::new(),
        count => format!("not asked  {count} of {}\n", count_noun(score.cases, "case")),
    };
    let objected = found + wrong_place + false_alarms;
    let model = report.model.as_deref().map(|model| format!(", model {}", safe_line(model)));
    let cost = score.micro_usd.map(if score.is_cost_estimated { estimate_usd } else { format_usd });
    let cost = cost.map(|cost| format!(", {cost}")).unwrap_or_default();
    format!(
        "{}{}\n\
         precision  {:>5}  {found} of {} were about a defect, {}\n\
         recall     {:>5}  {found} of {} found, {missed} missed\n\
         unsure     {:>5}  {unsure} of {}\n\
         quotes     {} not in the file, {} unconfirmed\n\
         usage      {}, {} tokens in, {} out{cost}, {} s\n\
         {not_asked}",
        report.kind,
        model.unwrap_or_default(),
        percent(score.precision),
        count_noun(objected, "objection"),
        count_noun(*false_alarms, "false alarm"),
        percent(score.recall),
        count_noun(*defects, "defect"),
        percent(score.unsure_rate),
        count_noun(asked, "case"),
        score.misquoted,
        score.unconfirmed,
        count_noun(score.calls, "call"),
        score.input_tokens,
        score.output_tokens,
        score.took_ms.div_ceil(1000),
    )
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_string(), |ratio| format!("{:.0} %", ratio * 100.0))
}
