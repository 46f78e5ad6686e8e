//! The arguments of `ralph run`, and the checks that need nothing but the arguments.

use crate::failure::CommandFailure;
use crate::host_arg::host_parser;
use crate::limit_args::NewLimitArgs;
use crate::value_parsers::{
    parse_complexity, parse_duration, parse_merge_threshold, parse_positive_count,
};
use clap::{Args, ValueEnum};
use ralph_core::drive;
use ralph_core::policy::MergeThreshold;
use ralph_core::text;
use ralph_drive::issues::{IssueError, IssueQueue};
use ralph_host::{AgentFlags, HOSTS, HostProfile};
use std::path::PathBuf;

/// A limit on the agent's flags, against scripts that pass too much.
const MAX_FLAGS: usize = 200;
const MAX_FLAG_BYTES: usize = 32 * 1024;

#[derive(Args, Clone, Default)]
#[command(after_help = "\
Examples:
  ralph run \"make the parser handle nested quotes\"
  ralph run \"add a --verbose flag\" --check \"sh check-verbose.sh\"
  ralph run --goal-file goal.md --max-duration 8h --max-cost 20
  ralph run --loop csv --worktree
  ralph run --resume k7f2
  ralph run --resume k7f2 --wait-for-limits 6h
  ralph run --fork k7f2 --max-cost 40
  ralph run \"now do it\" --fork 0b53ac6e-53a9-4d0e-9c5d-6f1a2c9be1aa
  ralph run --queue queue.toml --parallel 2
  ralph run --issue 123 --comment
  ralph run --issue gh:acme/rocket#7 --pr --draft
  ralph run --fork k7f2 --from-review
  ralph run --queue gh:label:ralph --parallel 2
  ralph run \"upgrade to axum 0.8\" --dry-run -- --permission-mode acceptEdits

ralph starts the agent and answers its stops itself; no hook has to be
installed. Requirements, cost and iterations count over all sessions of
a run. Ctrl-C once lets the turn end, twice ends it now; `--resume`
continues after either. Exit codes: 0 verified, 2 exhausted, 3 claimed,
4 stuck, 5 needs_human, 6 needs_review, 7 gate_broken, 8 rate_limited, 9
overridden, 10 crashed, 11 green, 130 cancelled, 1 anything else.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "command-line flags, with the names that they have there"
)]
pub(crate) struct RunArgs {
    /// Describe the goal in a sentence or more
    #[arg(value_name = "GOAL", conflicts_with_all = ["goal_file", "of", "issue", "resume", "queue"])]
    pub goal: Option<String>,
    /// Read the goal from this file, or from stdin with `-`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["of", "issue", "resume", "queue"])]
    pub goal_file: Option<PathBuf>,
    /// Work through a loop: its `RALPH_PROMPT.md` and its feature list
    #[arg(long = "loop", value_name = "NAME", conflicts_with_all = ["resume", "queue"])]
    pub of: Option<String>,
    /// Make an issue the goal: `123`, `gh:owner/name#123`, an address, …
    ///
    /// Also `gl:45`, `bd:ID` and `file:FILE` (JSON). The text of the issue is data for the agent, and approves nothing.
    #[arg(long, value_name = "ISSUE", conflicts_with_all = ["of", "resume", "queue", "fork"])]
    pub issue: Option<String>,
    /// Report the end of the run as a comment on its issue
    #[arg(long)]
    pub comment: bool,
    /// Leave out the commands in the acceptance section of the issue
    #[arg(long)]
    pub skip_issue_checks: bool,
    /// Accept an issue that is closed
    #[arg(long, requires = "issue")]
    pub allow_closed: bool,
    /// Use the issue in this file, which a queue has read
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "issue")]
    pub sealed_issue: Option<PathBuf>,
    /// Continue a run that was parked, interrupted or killed
    #[arg(long, value_name = "RUN", conflicts_with = "queue")]
    pub resume: Option<String>,
    /// Start from a copy of a session, or of the last session of a run
    ///
    /// Without a goal, continues a run that has ended: with its goal, lists and flags, and its limits anew.
    #[arg(long, value_name = "SESSION|RUN", conflicts_with_all = ["resume", "queue"])]
    pub fork: Option<String>,
    /// Work through goals: a TOML file, Markdown files, or issues
    ///
    /// The TOML file has one `[[task]]` with `name` and `goal` per goal; the directory has one Markdown file per goal.
    /// Issues: `gh:label:NAME`, `gl:label:NAME`, `bd:ready`, or `cmd:PROGRAM ARG…`, which prints a JSON array of `id`,
    /// `title`, `body`, `labels` and `url`.
    #[arg(long, value_name = "FILE|DIR|ISSUES")]
    pub queue: Option<PathBuf>,
    /// Work on at most N goals of the queue at once
    #[arg(long, value_name = "N", value_parser = parse_positive_count)]
    pub parallel: Option<u32>,
    #[command(flatten)]
    pub limits: NewLimitArgs,
    /// Choose when a fresh session takes over
    #[arg(long, value_name = "WHEN", value_enum)]
    pub sessions: Option<SessionsArg>,
    /// Use this model [default: the agent's own choice]
    #[arg(long, value_name = "MODEL", value_parser = parse_model)]
    pub model: Option<String>,
    /// Try this model when nothing else has helped
    #[arg(long, value_name = "MODEL", value_parser = parse_model)]
    pub stronger_model: Option<String>,
    /// Drive this agent
    #[arg(long, value_name = "AGENT", value_parser = host_parser())]
    pub agent: Option<&'static HostProfile>,
    /// Run this program as the agent [default: the one on `PATH`]
    #[arg(long, value_name = "PATH")]
    pub agent_program: Option<PathBuf>,
    /// Wait this long in total for rate limits [default: not at all]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub wait_for_limits: Option<u64>,
    /// Nudge a silent agent after this time, then restart it [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    pub idle_after: Option<u64>,
    /// Require every unticked item of this Markdown file (repeatable)
    #[arg(long, value_name = "FILE")]
    pub plan: Vec<PathBuf>,
    /// Require every feature of `DIR/feature_list.json` (repeatable)
    #[arg(long, value_name = "DIR")]
    pub features: Vec<PathBuf>,
    /// Require this command to succeed, for this goal only (repeatable)
    #[arg(long, value_name = "CMD", conflicts_with = "queue")]
    pub check: Vec<String>,
    /// Run without the project's policy and gates
    #[arg(long)]
    pub no_gates: bool,
    /// Ignore gates whose `min_complexity` is higher than this (0 to 10)
    #[arg(long, value_name = "N", value_parser = parse_complexity)]
    pub complexity: Option<u8>,
    /// Allow these test files to change, because the goal asks for it
    #[arg(long, value_name = "GLOB")]
    pub may_change: Vec<String>,
    /// Merge a separate work tree with this status or a better one
    #[arg(long, value_name = "STATUS", value_parser = parse_merge_threshold)]
    pub accept: Option<MergeThreshold>,
    /// Use a separate work tree; merge it when the merged tree is verified
    #[arg(long)]
    pub worktree: bool,
    /// Like `--worktree`, but open a pull request instead of merging
    #[arg(long)]
    pub pr: bool,
    /// Open the pull request as a draft
    #[arg(long, requires = "pr")]
    pub draft: bool,
    /// Send new review comments from the run's pull request
    ///
    /// Continues the run that `--fork` names, even if it is verified, on the same branch.
    #[arg(long, requires = "fork", conflicts_with_all = ["goal", "goal_file", "of", "pr", "worktree", "project"])]
    pub from_review: bool,
    /// Wait this long for the pull request's checks, and require them
    #[arg(long, value_name = "DURATION", requires = "pr", value_parser = parse_timeout)]
    pub wait_for_checks: Option<u64>,
    /// Use this project [default: nearest parent with a policy, or the repo]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Show what would be done, and start nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Answer yes: approve the detected gates, and let the agent edit files
    #[arg(long, short)]
    pub yes: bool,
    /// Print one JSON object per event
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    /// Print only the result
    #[arg(long, short)]
    pub quiet: bool,
    /// Let the agent's flags disable its permission prompts in this run
    #[arg(long)]
    pub allow_skip_permissions: bool,
    /// Pass these flags to the agent unchanged
    #[arg(last = true, value_name = "AGENT FLAGS")]
    pub flags: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SessionsArg {
    /// When the context is nearly full
    Hybrid,
    /// Never
    SameSession,
    /// Also whenever another requirement is met
    FreshPerFeature,
}

impl From<SessionsArg> for drive::SessionPolicy {
    fn from(sessions: SessionsArg) -> Self {
        match sessions {
            SessionsArg::Hybrid => Self::Hybrid,
            SessionsArg::SameSession => Self::SameSession,
            SessionsArg::FreshPerFeature => Self::FreshPerFeature,
        }
    }
}

/// Whether the agent asks for permissions, or its flags disable the prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermissionPrompts {
    Asked,
    Skipped,
}

impl RunArgs {
    /// Rejects everything that is wrong with the arguments alone.
    pub(crate) fn check_arguments(&self) -> Result<(), CommandFailure> {
        let is_known = self.resume.is_some() || self.queue.is_some() || self.fork.is_some();
        if !is_known && !self.has_goal() {
            let hint = "run `ralph run \"your goal\"`, or use `--goal-file`, `--issue`, `--loop`, `--plan` or `--features`";
            return Err(CommandFailure::new("no goal given", hint));
        }
        if self.goal.as_deref().is_some_and(|goal| goal.trim().is_empty()) {
            return Err(CommandFailure::new("the goal is empty", "describe the goal"));
        }
        if self.parallel.is_some() && self.queue.is_none() {
            let hint = "give one with `--queue`; a single goal has a single agent";
            return Err(CommandFailure::new("`--parallel` needs a queue", hint));
        }
        let has_issue =
            self.issue.is_some() || self.sealed_issue.is_some() || self.issue_queue().is_some();
        for (is_given, option) in [
            // A resumed run knows its issue.
            (self.comment && self.resume.is_none(), "--comment"),
            (self.skip_issue_checks, "--skip-issue-checks"),
        ] {
            if is_given && !has_issue {
                let what = format!("`{option}` needs an issue");
                return Err(CommandFailure::new(&what, "name one with `--issue`"));
            }
        }
        if let Some(option) = self.resume.as_ref().and_then(|_| self.fixed_option()) {
            let what = format!("{option} cannot be changed after the start of a run");
            let hint = "`ralph limits RUN` changes the limits; the rest stays as it is";
            return Err(CommandFailure::new(&what, hint));
        }
        let host = self.agent.unwrap_or_else(ralph_host::default_host);
        check_flags(host, &self.flags).map(drop)
    }

    /// The issues that `--queue` names, unless it names a file.
    pub(crate) fn issue_queue(&self) -> Option<Result<IssueQueue, IssueError>> {
        IssueQueue::parse(self.queue.as_ref()?.to_str()?)
    }

    /// Whether the arguments define the goal of a new run.
    pub(crate) fn has_goal(&self) -> bool {
        self.goal.is_some()
            || self.goal_file.is_some()
            || self.issue.is_some()
            || self.sealed_issue.is_some()
            || self.of.is_some()
            || !self.plan.is_empty()
            || !self.features.is_empty()
    }

    /// Checks the agent's flags, from the command line or the policy. Disabling permission prompts needs
    /// `--allow-skip-permissions`.
    pub(crate) fn check_agent_flags(
        &self,
        host: &HostProfile,
        given: &[String],
    ) -> Result<PermissionPrompts, CommandFailure> {
        let permissions = check_flags(host, given)?;
        match (permissions, self.allow_skip_permissions) {
            (PermissionPrompts::Skipped, false) => {
                let what = "the agent's flags disable its permission prompts";
                let hint = "add `--allow-skip-permissions` before the `--` to allow it for this run; only do so in a container or a virtual machine";
                Err(CommandFailure::new(what, hint))
            }
            (PermissionPrompts::Asked, true) => {
                let what = "`--allow-skip-permissions` has nothing to allow";
                let AgentFlags { permission_mode, bypass_mode, .. } = host.flags;
                let hint = format!(
                    "ralph adds no such flag itself; add `-- {permission_mode} {bypass_mode}`"
                );
                Err(CommandFailure::new(what, &hint))
            }
            (PermissionPrompts::Asked, false) | (PermissionPrompts::Skipped, true) => {
                Ok(permissions)
            }
        }
    }

    /// The first given option that cannot be changed in an existing run.
    pub(super) fn fixed_option(&self) -> Option<String> {
        if let Some((limit, _)) = self.limits.overrides().to_options().first() {
            return Some(format!("`{}`", limit.trim_end_matches("-usd")));
        }
        let given = [
            (self.sessions.is_some(), "`--sessions`"),
            (self.model.is_some(), "`--model`"),
            (self.stronger_model.is_some(), "`--stronger-model`"),
            (self.agent.is_some(), "`--agent`"),
            (self.idle_after.is_some(), "`--idle-after`"),
            (!self.plan.is_empty(), "`--plan`"),
            (!self.features.is_empty(), "`--features`"),
            (!self.check.is_empty(), "`--check`"),
            (self.no_gates, "`--no-gates`"),
            (self.complexity.is_some(), "`--complexity`"),
            (!self.may_change.is_empty(), "`--may-change`"),
            (self.accept.is_some(), "`--accept`"),
            (self.worktree, "`--worktree`"),
            (self.pr, "`--pr`"),
            (self.draft, "`--draft`"),
            (self.project.is_some(), "`--project`"),
            (self.allow_skip_permissions, "`--allow-skip-permissions`"),
            (!self.flags.is_empty(), "the part after `--`"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option.to_string())
    }
}

/// Checks the agent's flags: refuses reserved flags by name, and finds out whether permission prompts are disabled.
fn check_flags(host: &HostProfile, flags: &[String]) -> Result<PermissionPrompts, CommandFailure> {
    if flags.len() > MAX_FLAGS || flags.iter().any(|flag| flag.len() > MAX_FLAG_BYTES) {
        let settings = host.files.local_settings;
        let hint = format!("put long values into `{settings}`");
        return Err(CommandFailure::new("the agent's flags are too many or too long", &hint));
    }
    if let Some(first) = flags.first().filter(|first| !first.starts_with('-')) {
        let what = format!("`{}` is not a flag of the agent", text::clean_line(first, 80));
        return Err(CommandFailure::new(&what, "the goal comes before the `--`"));
    }
    for flag in flags {
        if flag == "--" {
            let hint = "the goal comes before the `--`";
            return Err(CommandFailure::new("`--` is given more than once", hint));
        }
        if let Some((name, why)) = reserved_flag(host, flag) {
            let what = format!("`{name}` cannot be given to the agent");
            return Err(CommandFailure::new(&what, why));
        }
    }
    Ok(permission_prompts(host, flags))
}

/// The reserved flag in a word: `--flag`, `--flag=value`, or a letter of a cluster such as `-dp`.
fn reserved_flag(host: &HostProfile, flag: &str) -> Option<(&'static str, &'static str)> {
    let name = flag.split('=').next().unwrap_or_default();
    let letters = name.strip_prefix('-').unwrap_or_default();
    let is_cluster = letters.bytes().all(|byte| byte.is_ascii_alphabetic());
    host.flags.reserved.iter().copied().find(|(known, _)| {
        let letter = known.strip_prefix('-').filter(|rest| rest.len() == 1);
        name == *known || is_cluster && letter.is_some_and(|letter| letters.contains(letter))
    })
}

/// Whether the flags disable the permission prompts, in any of the ways that the client has.
pub(crate) fn permission_prompts(host: &HostProfile, flags: &[String]) -> PermissionPrompts {
    if host.flags.skip_permissions(flags) {
        PermissionPrompts::Skipped
    } else {
        PermissionPrompts::Asked
    }
}

/// A duration of at least a second.
fn parse_timeout(text: &str) -> Result<u64, String> {
    parse_duration(text).and_then(|ms| match ms {
        0..1000 => Err("expected at least 1s".to_string()),
        _ => Ok(ms),
    })
}

/// A model name. It becomes an argument of the agent, so it must not look like a flag.
pub(crate) fn parse_model(text: &str) -> Result<String, String> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || "._-/:@[]".contains(char);
    let begins = text.starts_with(|char: char| char.is_ascii_alphanumeric());
    if begins && text.len() <= 200 && text.chars().all(is_name) {
        Ok(text.to_string())
    } else {
        let examples = HOSTS.map(|host| host.flags.model_examples).concat();
        Err(format!("expected a name such as `{}`", examples.join("` or `")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<PermissionPrompts, String> {
        let given: Vec<String> = words.iter().map(ToString::to_string).collect();
        check_flags(ralph_host::default_host(), &given).map_err(|failure| failure.to_plain_text())
    }

    /// R-H4e: a person cannot give the flags that ralph gives the client itself.
    #[test]
    fn reserved_flags_are_refused_by_name() {
        for (name, why) in ralph_host::default_host().flags.reserved {
            let expected = Err(format!("`{name}` cannot be given to the agent\n  hint: {why}"));
            assert_eq!(of(&[name]), expected);
            assert_eq!(of(&["--debug", &format!("{name}=x")]), expected);
        }
        for cluster in ["-dp", "-cd", "-pr"] {
            assert!(of(&[cluster]).is_err(), "{cluster}");
        }
        for allowed in [
            &["--allowedTools", "Bash(git *)", "Edit"][..],
            &["--add-dir", "../other"],
            &["--mcp-config=mcp.json", "--strict-mcp-config"],
            &["--append-system-prompt", "speak -- plainly"],
            &["--append-system-prompt", "-p prints"],
            &["-d"],
            &[],
        ] {
            assert_eq!(of(allowed), Ok(PermissionPrompts::Asked), "{allowed:?}");
        }
    }

    /// R-S8a: no way to disable permission prompts goes undetected.
    #[test]
    fn every_way_to_skip_permissions_is_detected() {
        for skipping in [
            &["--dangerously-skip-permissions"][..],
            &["--dangerously-skip-permissions=true"],
            &["--allow-dangerously-skip-permissions"],
            &["--permission-mode", "bypassPermissions"],
            &["--permission-mode=bypassPermissions"],
            &["--permission-mode", "BYPASSPERMISSIONS"],
            &["--debug", "--permission-mode", "bypassPermissions", "--add-dir", "x"],
        ] {
            assert_eq!(of(skipping), Ok(PermissionPrompts::Skipped), "{skipping:?}");
        }
        for asking in [
            &["--permission-mode", "acceptEdits"][..],
            &["--permission-mode=plan"],
            &["--append-system-prompt", "bypassPermissions"],
        ] {
            assert_eq!(of(asking), Ok(PermissionPrompts::Asked), "{asking:?}");
        }
    }

    #[test]
    fn model_names_are_checked() {
        for (text, is_name) in [
            ("opus", true),
            ("claude-opus-5-5[1m]", true),
            ("us.anthropic.claude-v1:0", true),
            ("--bare", false),
            ("a b", false),
            ("", false),
        ] {
            assert_eq!(parse_model(text).is_ok(), is_name, "{text:?}");
        }
    }
}
