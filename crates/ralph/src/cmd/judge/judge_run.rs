//! `ralph judge run`: asks judges by hand about the change in the work tree, without a run.

use super::judged_goal::{GoalSearch, JudgedGoal};
use super::manual_checkouts::ManualCheckouts;
use crate::cmd::gate::{load_policy, require_approval};
use crate::cmd::prove::{capture_work_tree, find_commit};
use crate::cmd::{ASK_A_PERSON, cancel_on_signals, open_home, print_json, refuse_agent};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::{FAILURE, SUCCESS};
use clap::Args;
use ralph_core::gate::{Gate, GateTrigger};
use ralph_core::id::RunId;
use ralph_core::judge::{Judge, JudgeBackend, JudgeFinding, JudgeOutcome, JudgeResult};
use ralph_core::model_price::PriceTable;
use ralph_core::record::JudgeRecord;
use ralph_core::redact::Redactor;
use ralph_core::requirement::RequirementWeight;
use ralph_core::text;
use ralph_deck::view::judge_verdicts::{JudgeVerdictView, describe_verdict, judge_verdict_view};
use ralph_deck::wording::safe_line;
use ralph_gates::command_place::{CommandCheckout, CommandPlace};
use ralph_git::checkpoint::{CheckpointRepository, VerificationCheckout};
use ralph_home::faults::describe_error;
use ralph_home::paths::RalphHome;
use ralph_hook::contract::{
    CandidateCheckouts, CheckoutSupport, ComparedTrees, JUDGE_BASE_LABEL, ManualCase,
    checkout_for_judge,
};
use ralph_judge::JudgeRequest;
use ralph_policy::config::{self, ProjectConfig};
use ralph_policy::{price_list, trust};
use ralph_proof::{BaseCheckout, ClassRules, ProofDirectory};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::{self, Env};
use ralph_sys::proc::cancel::CancelToken;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const GIT_TIMEOUT: Duration = Duration::from_mins(5);
const SHOWN_FINDINGS: usize = 20;
const SHOWN_BASE_CHARS: usize = 80;
/// No required judge says that something is wrong, but one gave no verdict.
const NO_VERDICT: u8 = 4;
const INTERRUPTED: u8 = 130;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph judge run
  ralph judge run review --base main
  ralph judge run goal-review --goal \"the export has a header row\" --json

The judge sees the difference between the base and the work tree, one of
kind `plan` also `PLAN.md`. Its verdict is printed and kept nowhere: a run
asks again. A command judge runs in a checkout of the base.

Exit codes: 0 every required judge says met, 1 one of them says unmet or
impossible, or the command failed, 3 the policy is not approved, 4 one
gave no verdict, 130 interrupted.")]
pub(crate) struct JudgeRunArgs {
    /// Ask this judge [default: all of the policy]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Compare the work tree with this commit
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    pub base: String,
    /// Tell the judge what the change is for [default: the goal of the
    /// active run, or else the messages of the commits since the base]
    #[arg(long, value_name = "TEXT")]
    pub goal: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
}

#[derive(Serialize)]
struct JudgeRunView<'a> {
    v: u8,
    goal: &'a JudgedGoal,
    judges: Vec<JudgedView<'a>>,
}

#[derive(Serialize)]
struct JudgedView<'a> {
    #[serde(flatten)]
    verdict: JudgeVerdictView<'a>,
    required: bool,
    details: &'a [JudgeFinding],
}

/// A judge and what it said.
struct ManualVerdict<'a> {
    judge: &'a Judge,
    outcome: JudgeOutcome,
    findings: Vec<JudgeFinding>,
    /// Why tests of reviewers were not accepted.
    rejected_tests: Vec<String>,
    record: JudgeRecord,
}

impl<'a> ManualVerdict<'a> {
    fn new(judge: &'a Judge, result: JudgeResult) -> Self {
        let record = JudgeRecord::new(judge, &result, false);
        let JudgeResult { outcome, findings, rejected_tests, .. } = result;
        Self { judge, outcome, findings, rejected_tests, record }
    }

    /// A judge that cannot be asked has no verdict, and those of the others are worth what they cost.
    fn unasked(judge: &'a Judge, why: String) -> Self {
        let record = JudgeRecord::not_asked(judge, &why);
        let outcome = JudgeOutcome::Unknown { why };
        Self { judge, outcome, findings: Vec::new(), rejected_tests: Vec::new(), record }
    }
}

pub(crate) fn run(env: &Env, args: &JudgeRunArgs) -> Result<u8, CommandFailure> {
    refuse_agent(env, "an agent may not ask the judges of its own work", ASK_A_PERSON)?;
    let home = open_home(env)?;
    let config = load_policy(env, &home, args.project.as_deref())?;
    let subject = require_approval(env, &home, &config, None)?;
    let chosen = choose_judges(&config, args)?;
    let path = trust::recorded_path(&home, &subject);
    let cancel = cancel_on_signals()?;
    let directory = ProofDirectory::create(&home, env, &config.project, &cancel)
        .map_err(|error| CommandFailure::caused_by("cannot create a directory", &error))?;
    let deadline = Deadline::after(GIT_TIMEOUT);
    let name = RunId::temporary(clock::nonce());
    let repository =
        CheckpointRepository::open_temporary(&name, directory.root(), &config.project, &deadline)?;
    let base = find_commit(&repository, &args.base, &deadline)
        .map_err(|failure| failure.with_hint("a judge compares with a commit: `--base main`"))?;
    let now = capture_work_tree(&repository, &config, &home.root().to_path_buf(), &deadline)?;
    if base.tree == now.tree {
        return Err(nothing_changed(args));
    }
    let redactor = Redactor::new(env.secrets());
    let common = repository.find_merge_base(&args.base, "HEAD", &deadline)?;
    let search = GoalSearch {
        home: &home,
        project: &config.project,
        given: args.goal.as_deref(),
        base: &args.base,
        common: common.as_deref(),
    };
    let goal = state_goal(&search, args, &redactor, &deadline)?;
    let mut prices = price_list::price_table(&[]);
    prices.prices.extend(config::load_prices(&home)?);
    let judging = ManualJudging {
        home: &home,
        env,
        config: &config,
        path: path.as_deref(),
        compared: ComparedTrees { repository: &repository, base: &base, now: &now },
        rules: &crate::cmd::explain_files::class_rules(&config)?,
        redactor: &redactor,
        prices: &prices,
        directory: directory.root(),
        cancel: &cancel,
    };
    let mut judged = Vec::new();
    for judge in chosen {
        judged.push(judging.ask(judge, &goal.text, args)?);
    }
    if cancel.is_cancelled() {
        return Ok(INTERRUPTED);
    }
    show(args, &goal, &judged)?;
    Ok(exit_code(&judged))
}

/// The change that all judges are asked about, and what they are asked with.
struct ManualJudging<'a> {
    home: &'a RalphHome,
    env: &'a Env,
    config: &'a ProjectConfig,
    path: Option<&'a OsStr>,
    compared: ComparedTrees<'a>,
    rules: &'a ClassRules,
    redactor: &'a Redactor,
    prices: &'a PriceTable,
    directory: &'a Path,
    cancel: &'a CancelToken,
}

impl ManualJudging<'_> {
    fn ask<'j>(
        &self,
        judge: &'j Judge,
        goal: &str,
        args: &JudgeRunArgs,
    ) -> Result<ManualVerdict<'j>, CommandFailure> {
        let (config, compared) = (self.config, self.compared);
        let (project, rules, redactor) = (config.project.as_path(), self.rules, self.redactor);
        let gates = &config.policy.gates;
        let case = ManualCase { judge, goal, gates, compared, project, rules, redactor };
        // The judges before it took their time.
        let deadline = Deadline::after(GIT_TIMEOUT);
        let asked = case.build(&deadline).and_then(|case| {
            Ok((case, checkout_candidate(judge, &compared, self.directory, &deadline)?))
        });
        let (case, checkout) = match asked {
            Ok(asked) => asked,
            Err(why) => return Ok(ManualVerdict::unasked(judge, why)),
        };
        if case.diff.is_empty() && case.test_diff.is_empty() && case.omitted.is_empty() {
            return Err(nothing_changed(args));
        }
        let root = compared.repository.root();
        let checkouts = ManualCheckouts {
            home: self.home,
            env: self.env,
            config,
            path: self.path,
            repository: compared.repository,
            base: compared.base,
            candidate: compared.now,
            rules,
            cancel: self.cancel,
        };
        let support = CheckoutSupport {
            judge,
            policy: &config.policy,
            gates: config.policy.gates.iter().filter(|gate| may_run(gate)).collect(),
            evidence: &case.evidence,
            project_below: project.strip_prefix(root).unwrap_or(Path::new("")),
            checkouts: &checkouts,
        };
        let ask = |place: &CommandPlace<'_>| {
            let request = JudgeRequest {
                judge,
                case: &case,
                files: checkout.as_ref().map_or(root, |checkout| &checkout.dir),
                place,
                scratch: self.directory,
                env: self.env,
                search_path: self.path,
                host_program: None,
                supervisor: &env::own_executable(),
                prices: self.prices,
                budget_micro_usd: None,
                support: &support,
            };
            ManualVerdict::new(judge, ralph_judge::ask_judge(&request, self.cancel))
        };
        let JudgeBackend::Command(words) = &judge.backend else {
            return Ok(ask(&CommandPlace::in_directory(project, &config.policy.environment)));
        };
        // As it is in the base, like the judge of a run: the work tree may be that of an agent.
        let base = text::clean_line(&args.base, SHOWN_BASE_CHARS);
        term::err(&format!("{}: its command runs in a checkout of `{base}`\n", judge.name));
        let mut verdict = None;
        let asked = checkouts.with_request(&[], deadline, &mut |request| {
            verdict = Some(ask(
                &BaseCheckout::prepare(request, JUDGE_BASE_LABEL)?.place_command(words, "")
            ));
            Ok(())
        });
        Ok(match (asked, verdict) {
            (Ok(()), Some(verdict)) => verdict,
            (Ok(()), None) => ManualVerdict::unasked(judge, "it was not asked".to_string()),
            (Err(why), _) => ManualVerdict::unasked(judge, why),
        })
    }
}

/// Finds the goal, and prints it: a verdict is about this goal and no other.
fn state_goal(
    search: &GoalSearch<'_>,
    args: &JudgeRunArgs,
    redactor: &Redactor,
    deadline: &Deadline,
) -> Result<JudgedGoal, CommandFailure> {
    let found = search.find_goal(deadline)?;
    let goal = JudgedGoal { text: redactor.redact(&text::clean(&found.text)), ..found };
    if !args.json {
        term::err(&format!("{}\n", goal.describe()));
    }
    Ok(goal)
}

fn nothing_changed(args: &JudgeRunArgs) -> CommandFailure {
    let what = format!("nothing changed since `{}`", safe_line(&args.base));
    CommandFailure::new(&what, "name another base: `--base main`")
}

/// The files of the candidate, for a judge that gets them.
fn checkout_candidate(
    judge: &Judge,
    compared: &ComparedTrees<'_>,
    directory: &Path,
    deadline: &Deadline,
) -> Result<Option<VerificationCheckout>, String> {
    if !judge.reads_files() {
        return Ok(None);
    }
    let checkout = checkout_for_judge(compared.repository, compared.now, directory, deadline);
    checkout.map(Some).map_err(|error| describe_error(&error))
}

fn choose_judges<'a>(
    config: &'a ProjectConfig,
    args: &JudgeRunArgs,
) -> Result<Vec<&'a Judge>, CommandFailure> {
    let judges = &config.policy.judges;
    if judges.is_empty() {
        let what = format!("no judges are set up for `{}`", config.project.display());
        return Err(CommandFailure::new(&what, "add a `[[judge]]` to `ralph.toml`"));
    }
    Ok(match &args.name {
        None => judges.iter().collect(),
        Some(name) => vec![find_judge(judges, name)?],
    })
}

fn find_judge<'a>(judges: &'a [Judge], name: &str) -> Result<&'a Judge, CommandFailure> {
    judges.iter().find(|judge| judge.name == name).ok_or_else(|| {
        let names: Vec<&str> = judges.iter().map(|judge| judge.name.as_str()).collect();
        let what = format!("there is no judge `{}`", text::clean_line(name, 80));
        let hint = match text::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the judges are {}", names.join(", ")),
        };
        CommandFailure::new(&what, &hint)
    })
}

/// Whether a gate may run for a judge: those that a stop needs, in a checkout.
fn may_run(gate: &Gate) -> bool {
    gate.weight == RequirementWeight::Required
        && gate.on.contains(&GateTrigger::Stop)
        && !gate.is_ci()
}

fn show(
    args: &JudgeRunArgs,
    goal: &JudgedGoal,
    judged: &[ManualVerdict<'_>],
) -> Result<(), CommandFailure> {
    if args.json {
        print_json(&JudgeRunView { v: 1, goal, judges: judged.iter().map(judged_view).collect() })?;
        return Ok(());
    }
    let mut out = String::new();
    for ManualVerdict { judge, outcome, findings, rejected_tests, record } in judged {
        let mark = match outcome {
            JudgeOutcome::Met => paint(term::GOOD, "✓"),
            JudgeOutcome::Unmet | JudgeOutcome::Impossible => paint(term::BAD, "✗"),
            JudgeOutcome::Unknown { .. } => paint(term::WARN, "?"),
        };
        out.push_str(&format!("{mark} {}: {}\n", judge.name, describe_verdict(record)));
        for finding in findings.iter().take(SHOWN_FINDINGS) {
            let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
            let (file, claim) = (safe_line(&finding.file), safe_line(&finding.claim));
            out.push_str(&format!("    {file}{line}: {claim}\n"));
            if let Some(test) = &finding.shown_by {
                out.push_str(&format!("      a test fails: {}\n", safe_line(test)));
            }
        }
        for why in rejected_tests {
            out.push_str(&format!("    not accepted: {}\n", safe_line(why)));
        }
        for dropped in &record.dropped_findings {
            out.push_str(&format!("    dropped: {}\n", safe_line(&dropped.describe())));
        }
    }
    term::out(&out)?;
    Ok(())
}

fn judged_view<'a>(one: &'a ManualVerdict<'_>) -> JudgedView<'a> {
    JudgedView {
        verdict: judge_verdict_view(&one.record),
        required: one.judge.is_required(),
        details: &one.findings,
    }
}

fn exit_code(judged: &[ManualVerdict<'_>]) -> u8 {
    let required = || judged.iter().filter(|one| one.judge.is_required());
    let is_unmet = |one: &ManualVerdict<'_>| {
        matches!(one.outcome, JudgeOutcome::Unmet | JudgeOutcome::Impossible)
    };
    let is_unknown = |one: &ManualVerdict<'_>| matches!(one.outcome, JudgeOutcome::Unknown { .. });
    if required().any(is_unmet) {
        FAILURE
    } else if required().any(is_unknown) {
        NO_VERDICT
    } else {
        SUCCESS
    }
}
