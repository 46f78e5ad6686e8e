//! `ralph prove`: shows what the tests of a change prove, by hand or in CI, without a run.

mod annotations;
mod gate_choice;
mod hunk_lines;
mod next_step;
mod progress_line;

use super::gate::gate_run::INTERRUPTED;
use super::gate::{load_policy, require_approval};
use super::{open_home, print_json};
use crate::describe;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::value_parsers::{parse_duration, parse_hunk_count, parse_merge_threshold};
use annotations::{AnnotatedFiles, annotate_broken, annotate_hunks};
use clap::Args;
use gate_choice::{GateChoice, choose_gates, name_left_out};
use next_step::next_step;
use progress_line::ProgressLine;
use ralph_core::gate::{BaselineMode, Gate, GateOutcome, GateReport};
use ralph_core::id::RunId;
use ralph_core::policy::MergeThreshold;
use ralph_core::proof::{CanaryResult, ProofStep, ProofVerdict};
use ralph_deck::view::proof_report::{
    LeftOutGateView, ProofView, broken_word, describe_step_report, proof_exit_code, proof_view,
};
use ralph_deck::wording::{safe_line, short_duration};
use ralph_gates::findings::write;
use ralph_git::checkpoint::{
    Checkpoint, CheckpointReason, CheckpointRepository, CheckpointSnapshot,
};
use ralph_git::git;
use ralph_git::tree::{self, ListingRequest};
use ralph_home::paths::RalphHome;
use ralph_policy::config::ProjectConfig;
use ralph_policy::trust;
use ralph_proof::tree_changes::{ComparedCheckpoints, TreeChanges};
use ralph_proof::{
    HunkLimits, HunkProgress, HunkTrials, ProofDirectory, ProofReport, ProofRequest, ResultReuse,
    StepOutcome, StepReport,
};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LISTED_TESTS: usize = 20;
const LISTED_FINDINGS: usize = 5;
const GIT_TIMEOUT: Duration = Duration::from_mins(5);

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph prove                     # what is not committed yet, against HEAD
  ralph prove main                # the work tree against `main`
  ralph prove main..HEAD          # a range of commits
  ralph prove main...HEAD         # a branch since its merge base, for CI
  ralph prove HEAD~1..HEAD --json
  ralph prove main --hunks 20     # also revert hunks of the change one by one

Runs the gates of the policy four times, in checkouts of its own: old and
new tests on old and new code. The old tests must pass on the new code,
and at least one test must fail without the change.

It is the proof that a run has to pass: advisory gates and gates with
`proof = false` are left out and named, unless `--gate` names them, and
the files of `[verify] may_change` may change.

With `--hunks`, the hunks of the code, largest first, are then reverted
one by one, and those without which every test still passes are listed.
They do not affect the exit code.

Output: `+` a test that fails without the change, `✗` an old test that
does not hold, `·` an old test that no longer runs, `?` a doubt.

Exit codes: 0 verified, 11 green: no test fails without the change (0
with `--accept green`), 6 needs_review: old tests fail or are missing, or
a gate fails with the old settings, 1 a gate fails on the change itself,
or there is nothing to compare, 3 the policy is not approved, 130
interrupted.")]
pub(crate) struct ProveArgs {
    /// Choose what to compare [default: HEAD with the work tree]
    #[arg(value_name = "BASE[..HEAD]")]
    pub range: Option<String>,
    /// Set the lowest verdict that exits with 0: `verified` or `green`
    #[arg(long, value_name = "VERDICT", default_value = "verified", value_parser = parse_merge_threshold)]
    pub accept: MergeThreshold,
    /// Use only these gates [default: those that prove a run]
    #[arg(long = "gate", value_name = "NAME")]
    pub gates: Vec<String>,
    /// Revert up to N hunks of the code one by one; list those no test notices
    #[arg(long, value_name = "N", value_parser = parse_hunk_count)]
    pub hunks: Option<u16>,
    /// Stop reverting hunks after this time
    #[arg(long, value_name = "DURATION", default_value = "10m", requires = "hunks", value_parser = parse_duration)]
    pub hunks_time: u64,
    /// Allow these test files to change, besides those of the policy
    #[arg(long, value_name = "GLOB")]
    pub may_change: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Run the policy with this hash without an approval (for CI)
    #[arg(long, value_name = "HASH")]
    pub trust_hash: Option<String>,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
}

/// What is compared, as the person named it.
struct ComparedRange {
    base: String,
    /// `None` for the work tree.
    head: Option<String>,
    /// `A...B`: the base is the last commit that both have in common.
    from_merge_base: bool,
}

pub(crate) fn run(env: &Env, args: &ProveArgs) -> Result<u8, CommandFailure> {
    let home = open_home(env)?;
    let config = load_policy(env, &home, args.project.as_deref())?;
    if args.trust_hash.is_some() {
        super::refuse_agent(env, "an agent may not approve its own gates", super::ASK_A_PERSON)?;
    }
    let subject = require_approval(env, &home, &config, args.trust_hash.as_deref())?;
    let GateChoice { gates, left_out } = choose_gates(&config, &args.gates)?;
    let gates: Vec<Gate> = gates.iter().map(|gate| gate.without_coverage_conditions()).collect();
    let gates: Vec<&Gate> = gates.iter().collect();
    let path = trust::recorded_path(&home, &subject);
    let cancel = super::cancel_on_signals()?;
    let mut range = parse_range(args.range.as_deref());
    let directory =
        ProofDirectory::create(&home, env, &config.project, &cancel).map_err(|error| {
            CommandFailure::caused_by("cannot create a directory for checkouts", &error)
        })?;
    let deadline = Deadline::after(GIT_TIMEOUT);
    let name = RunId::temporary(clock::nonce());
    let repository =
        CheckpointRepository::open_temporary(&name, directory.root(), &config.project, &deadline)?;
    let (base, candidate) = find_versions(&repository, &config, &home, &mut range, &deadline)?;
    let line = ProgressLine::new(args.json, term::is_watched(env));
    let rules = super::explain_files::class_rules(&config)?;
    let may_change = [config.policy.verify.may_change.as_slice(), &args.may_change].concat();
    let request = ProofRequest {
        home: &home,
        env,
        project: &config.project,
        repository: &repository,
        base: &base,
        candidate: &candidate,
        gates: &gates,
        environment: &config.policy.environment,
        path: path.as_deref(),
        links: &config.policy.verify.link,
        installed: [0; 32],
        rules: &rules,
        may_change: &may_change,
        accepts_old_failures: config.policy.baseline == BaselineMode::Ratchet,
        tree_reports: &[],
        base_reports: None,
        gate_writes: &[],
        reuse: ResultReuse::Never,
        must_mount: false,
        directory: &directory,
        cancel: &cancel,
        watch: &|progress| line.show(progress),
        ended: &|_| {},
    };
    let report = ralph_proof::prove(&request)?;
    let limits = args.hunks.filter(|_| !cancel.is_cancelled()).map(|count| HunkLimits {
        count: usize::from(count),
        time: Duration::from_millis(args.hunks_time),
    });
    let show_hunk = |hunk: HunkProgress<'_>| line.show_hunk(hunk);
    let trial = |limits| ralph_proof::try_hunks(&request, &report, limits, &show_hunk);
    let hunks = limits.map(trial).transpose()?;
    line.clear();
    if cancel.is_cancelled() {
        return Ok(INTERRUPTED);
    }
    let shown =
        ShownProof { report: &report, hunks: hunks.as_ref(), left_out: &left_out, range: &range };
    shown.show(args, &request, &deadline)?;
    Ok(match (report.proof.verdict, args.accept) {
        (ProofVerdict::Green, MergeThreshold::Green) => proof_exit_code(ProofVerdict::Verified),
        (verdict, _) => proof_exit_code(verdict),
    })
}

/// The base and the candidate. With three dots, the range gets the common commit as its base.
fn find_versions(
    repository: &CheckpointRepository,
    config: &ProjectConfig,
    home: &RalphHome,
    range: &mut ComparedRange,
    deadline: &Deadline,
) -> Result<(Checkpoint, Checkpoint), CommandFailure> {
    if range.from_merge_base {
        let head = range.head.as_deref().unwrap_or("HEAD");
        for name in [&range.base, head] {
            find_commit(repository, name, deadline)?;
        }
        let common = repository.find_merge_base(&range.base, head, deadline)?;
        range.base = common.ok_or_else(|| {
            let (base, head) = (safe_line(&range.base), safe_line(head));
            let what = format!("`{base}` and `{head}` have no commit in common");
            CommandFailure::new(&what, missing_commit_hint(repository, deadline))
        })?;
    }
    let base = find_commit(repository, &range.base, deadline)?;
    let candidate = match &range.head {
        Some(head) => find_commit(repository, head, deadline)?,
        None => capture_work_tree(repository, config, &home.root().to_path_buf(), deadline)?,
    };
    let compared = ComparedCheckpoints { base: &base, now: &candidate };
    let changes = TreeChanges::between(repository, compared, &config.project, deadline)?;
    if changes.all.is_empty() {
        let head = range.head.as_deref().unwrap_or("the work tree");
        let what = format!(
            "{} and {} have the same files in `{}`",
            safe_line(&range.base),
            safe_line(head),
            config.project.display()
        );
        let hint = "name a range, for example `ralph prove main..HEAD`";
        return Err(CommandFailure::new(&what, hint));
    }
    Ok((base, candidate))
}

/// Everything that is shown of a proof.
struct ShownProof<'a> {
    report: &'a ProofReport,
    hunks: Option<&'a HunkTrials>,
    left_out: &'a [LeftOutGateView<'a>],
    range: &'a ComparedRange,
}

impl ShownProof<'_> {
    fn show(
        &self,
        args: &ProveArgs,
        request: &ProofRequest<'_>,
        deadline: &Deadline,
    ) -> Result<(), CommandFailure> {
        if args.json {
            return self.print_json();
        }
        let mut out = self.render(args);
        if request.env.is_github_actions() {
            out = write::without_github_commands(&out);
            out.push_str(&self.annotate(request, deadline)?);
        }
        term::out(&out)?;
        Ok(())
    }

    fn print_json(&self) -> Result<(), CommandFailure> {
        let head = self.range.head.as_deref().unwrap_or("work tree");
        let view = proof_view(self.report, self.hunks, &self.range.base, head);
        print_json(&ProofView { left_out: self.left_out, ..view })?;
        Ok(())
    }

    fn render(&self, args: &ProveArgs) -> String {
        let mut out = render_proof(self.report, self.left_out, args);
        out.push_str(&self.hunks.map(hunk_lines::render_hunks).unwrap_or_default());
        out
    }

    fn annotate(
        &self,
        request: &ProofRequest<'_>,
        deadline: &Deadline,
    ) -> Result<String, CommandFailure> {
        let mut paths = BTreeSet::new();
        for version in [request.base, request.candidate] {
            let files = request.repository.checkpoint_files(version, deadline)?;
            paths.extend(files.into_iter().filter_map(|file| file.path.into_string().ok()));
        }
        let below = request.project.strip_prefix(request.repository.root());
        let files = AnnotatedFiles { below: below.unwrap_or(Path::new("")), paths: &paths };
        let hunks = self.hunks.map(|hunks| annotate_hunks(hunks, &files));
        Ok(annotate_broken(self.report, &files) + &hunks.unwrap_or_default())
    }
}

fn parse_range(text: Option<&str>) -> ComparedRange {
    let text = text.unwrap_or("HEAD");
    let or_head = |name: &str| if name.is_empty() { "HEAD" } else { name }.to_string();
    let (base, head, from_merge_base) = match (text.split_once("..."), text.split_once("..")) {
        (Some((base, head)), _) => (or_head(base), Some(or_head(head)), true),
        (None, Some((base, head))) => (or_head(base), Some(or_head(head)), false),
        (None, None) => (text.to_string(), None, false),
    };
    ComparedRange { base, head, from_merge_base }
}

pub(super) fn find_commit(
    repository: &CheckpointRepository,
    name: &str,
    deadline: &Deadline,
) -> Result<Checkpoint, CommandFailure> {
    repository.find_commit(name, deadline)?.ok_or_else(|| {
        let what = match git::work_tree_root(repository.root()) {
            None => format!("`{}` is not in a git repository", repository.root().display()),
            Some(_) if name == "HEAD" => "there is no commit yet".to_string(),
            Some(_) => format!("git knows no commit `{}`", safe_line(name)),
        };
        CommandFailure::new(&what, missing_commit_hint(repository, deadline))
    })
}

fn missing_commit_hint(repository: &CheckpointRepository, deadline: &Deadline) -> &'static str {
    if git::work_tree_root(repository.root()).is_none() {
        "`git init` and commit first: a proof compares two versions"
    } else if git::head_commit(repository.root(), deadline).is_none() {
        "commit first: a proof compares two versions"
    } else if repository.is_shallow(deadline) {
        "a shallow clone lacks older commits: `git fetch --unshallow`"
    } else {
        "name commits or branches that `git log` shows, for example `ralph prove main..HEAD`"
    }
}

pub(super) fn capture_work_tree(
    repository: &CheckpointRepository,
    config: &ProjectConfig,
    excluded: &PathBuf,
    deadline: &Deadline,
) -> Result<Checkpoint, CommandFailure> {
    let excluded = std::slice::from_ref(excluded);
    let listing = tree::list_work_tree(&ListingRequest {
        project: &config.project,
        exclude: excluded,
        cache: None,
        deadline,
    })
    .map_err(|error| CommandFailure::caused_by("cannot list the work tree", &error))?;
    let reason = CheckpointReason::Other("the work tree".to_string());
    let snapshot = CheckpointSnapshot { listing: &listing, excluded, reason };
    Ok(repository.capture_present(&snapshot, deadline)?)
}

fn render_proof(
    report: &ProofReport,
    left_out: &[LeftOutGateView<'_>],
    args: &ProveArgs,
) -> String {
    let mut out = String::new();
    for step in &report.steps {
        out.push_str(&step_lines(step));
    }
    if !left_out.is_empty() {
        let names = format!("not part of the proof: {}", name_left_out(left_out));
        out.push_str(&format!("{}\n", paint(term::DIM, &names)));
    }
    let proof = &report.proof;
    let style = match proof.verdict {
        ProofVerdict::Verified => term::GOOD,
        ProofVerdict::Green => term::WARN,
        ProofVerdict::NeedsReview | ProofVerdict::Failed => term::BAD,
    };
    let verdict = paint(style, proof.verdict.name());
    out.push_str(&format!("\n{verdict}: {}\n", safe_line(&proof.describe())));
    if proof.verdict == ProofVerdict::Failed {
        out.push_str(&failure_lines(report));
    }
    for test in proof.broken.iter().take(LISTED_TESTS) {
        let message = match test.message.as_str() {
            "" => String::new(),
            message => format!(": {}", safe_line(message)),
        };
        let how = broken_word(test.how);
        out.push_str(&format!(
            "  {} {} {how}{message}\n",
            paint(term::BAD, "✗"),
            safe_line(&test.test)
        ));
    }
    out.push_str(&more_line(proof.broken.len()));
    for test in proof.telling.iter().take(LISTED_TESTS) {
        let name = safe_line(&test.test);
        out.push_str(&format!("  {} {name} fails without the change\n", paint(term::GOOD, "+")));
    }
    out.push_str(&more_line(proof.telling.len()));
    for test in proof.removed.iter().take(LISTED_TESTS) {
        out.push_str(&format!("  {} {} no longer runs\n", paint(term::DIM, "·"), safe_line(test)));
    }
    out.push_str(&more_line(proof.removed.len()));
    if !matches!(proof.verdict, ProofVerdict::Failed) {
        for doubt in &proof.doubts {
            out.push_str(&format!("  {} {}\n", paint(term::WARN, "?"), safe_line(doubt)));
        }
    }
    if let Some(next) = next_step(report, args) {
        out.push_str(&format!("next: {next}\n"));
    }
    out
}

/// The first findings of the gates that fail on the change, and where their output is.
fn failure_lines(report: &ProofReport) -> String {
    let now = report.steps.iter().find(|step| step.step == ProofStep::Now);
    let Some(StepOutcome::Ran { reports, .. }) = now.map(|step| &step.outcome) else {
        return String::new();
    };
    let mut out = String::new();
    for gate in reports.iter().filter(|gate| gate.outcome != GateOutcome::Passed) {
        for finding in gate.findings.iter().take(LISTED_FINDINGS) {
            let rule = finding.rule.as_deref().map(|rule| format!("{rule}: ")).unwrap_or_default();
            let text = safe_line(&format!("{rule}{}", finding.message));
            out.push_str(&format!("  {} {text}\n", paint(term::BAD, "✗")));
        }
        if let Some(log) = &gate.log {
            out.push_str(&format!("    log: `{}`\n", safe_line(log)));
        }
    }
    out
}

fn more_line(count: usize) -> String {
    match count.checked_sub(LISTED_TESTS) {
        None | Some(0) => String::new(),
        Some(more) => format!("    and {more} more\n"),
    }
}

fn step_lines(step: &StepReport) -> String {
    let title = format!("{:<22}", step.step.describe());
    match &step.outcome {
        StepOutcome::SameAs(other) => {
            let why = format!("the same files as {}", other.describe());
            format!("{title} {}\n", paint(term::DIM, &why))
        }
        StepOutcome::NotNeeded => format!("{title} {}\n", paint(term::DIM, "not needed")),
        StepOutcome::Ran { reports, canaries, .. } => {
            let mut out = String::new();
            for (gate, canary) in reports.iter().zip(canaries) {
                out.push_str(&format!("{title} {}\n", gate_line(step.step, gate, *canary)));
            }
            out
        }
    }
}

fn gate_line(step: ProofStep, gate: &GateReport, canary: CanaryResult) -> String {
    let is_reported = canary == CanaryResult::Failed;
    let canary = match canary {
        CanaryResult::Failed => ", and the added failing test is reported",
        CanaryResult::Silent => ", but the added failing test is not reported",
        CanaryResult::NotPossible => "",
    };
    let holds = gate.cases.as_ref().is_some_and(|cases| cases.failed.is_empty());
    let mark = match (step, &gate.outcome) {
        // It failed by the added test alone.
        (ProofStep::OldTests, GateOutcome::Failed) if is_reported && holds => {
            describe::gate_mark(&GateOutcome::Passed)
        }
        // Only the change itself must pass; elsewhere a failure is a measurement, and the verdict says what it means.
        (
            ProofStep::Before | ProofStep::OldTests | ProofStep::NewTests | ProofStep::OldSettings,
            GateOutcome::Failed,
        ) => paint(term::DIM, "·"),
        (_, outcome) => describe::gate_mark(outcome),
    };
    let (name, took) = (safe_line(&gate.name), short_duration(gate.took_ms));
    format!("{mark} {name}  {took:>7}  {}{canary}", safe_line(&describe_step_report(gate)))
}
