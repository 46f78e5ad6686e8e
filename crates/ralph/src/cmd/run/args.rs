//! `ralph run` as people type it, and the mistakes that are told before anything is looked at.

use crate::cli::LimitArgs;
use crate::report::Failure;
use crate::values::{at_least_one, complexity, duration, tokens};
use clap::{Args, ValueEnum};
use ralph_core::drive;
use ralph_core::text;
use std::path::PathBuf;

/// A command line is bounded, whatever a script puts into it.
const MOST_FLAGS: usize = 200;
const LONGEST_FLAG: usize = 32 * 1024;

#[derive(Args, Clone, Default)]
#[command(after_help = "\
Examples:
  ralph run \"make the parser handle nested quotes\"
  ralph run --goal-file goal.md --max-duration 8h --max-cost 20 --wait-for-limits 6h
  ralph run --loop csv --worktree
  ralph run --resume k7f2
  ralph run --resume k7f2 --wait-for-limits 6h
  ralph run --fork k7f2 --max-cost 40
  ralph run \"now do it\" --fork 0b53ac6e-53a9-4d0e-9c5d-6f1a2c9be1aa
  ralph run --queue goals.md --parallel 2
  ralph run \"upgrade to axum 0.8\" --dry-run -- --permission-mode acceptEdits

ralph starts the agent and answers its stops itself: nothing has to be installed for it. What is
met, spent and counted is kept over all sessions of a run. Ctrl-C once lets the turn end, twice
ends it now; `--resume` goes on from either. The exit code says how it ended: 0 verified,
2 exhausted, 3 claimed, 4 stuck, 5 needs_human, 6 needs_review, 7 gate_broken, 8 rate_limited,
9 overridden, 10 crashed, 130 cancelled, 1 anything else.")]
#[expect(
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    reason = "flags of a command line, by the names that they have there"
)]
pub(crate) struct Run {
    /// What is to be reached, in a sentence or more
    #[arg(value_name = "GOAL", conflicts_with_all = ["goal_file", "of", "resume", "queue"])]
    pub goal: Option<String>,
    /// Read the goal from this file, or from stdin with `-`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["of", "resume", "queue"])]
    pub goal_file: Option<PathBuf>,
    /// Work through a loop: its `RALPH_PROMPT.md` is the goal, its list what has to be met
    #[arg(long = "loop", value_name = "NAME", conflicts_with_all = ["resume", "queue"])]
    pub of: Option<String>,
    /// Go on with a run that was parked, interrupted or killed
    #[arg(long, value_name = "RUN", conflicts_with = "queue")]
    pub resume: Option<String>,
    /// Begin with a copy of this session, or of the last one of this run; without a goal, a run that
    /// has ended goes on so: with its goal, lists and flags, and as much again of its limits
    #[arg(long, value_name = "SESSION|RUN", conflicts_with_all = ["resume", "queue"])]
    pub fork: Option<String>,
    /// Work through a list of goals: a file, or a directory with a file for each
    #[arg(long, value_name = "FILE|DIR")]
    pub queue: Option<PathBuf>,
    /// How many goals of the queue are worked on at once
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub parallel: Option<u32>,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// How many tokens all sessions may use together, such as `2M`; 0 is without limit
    #[arg(long, value_name = "N", value_parser = tokens)]
    pub max_tokens: Option<u64>,
    /// How full the context is when a fresh session takes over [default: the policy's, or 0.8]
    #[arg(long, value_name = "SHARE", value_parser = permille)]
    pub handover_at: Option<u16>,
    /// When a fresh session takes over
    #[arg(long, value_name = "WHEN", value_enum)]
    pub sessions: Option<Sessions>,
    /// The model; by default the agent's own choice
    #[arg(long, value_name = "MODEL", value_parser = model)]
    pub model: Option<String>,
    /// The model that is tried when nothing else moved the work
    #[arg(long, value_name = "MODEL", value_parser = model)]
    pub stronger_model: Option<String>,
    /// Which agent is driven
    #[arg(long, value_name = "AGENT", value_enum)]
    pub agent: Option<Agent>,
    /// The agent's program; by default the one on `PATH`
    #[arg(long, value_name = "PATH")]
    pub agent_program: Option<PathBuf>,
    /// Wait for rate limits to be lifted, all waits together no longer than this; by default not at all
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub wait_for_limits: Option<u64>,
    /// Without a sign of life for this long the agent is asked, after as long again restarted [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = a_while)]
    pub idle_after: Option<u64>,
    /// A Markdown file whose unticked items are to be done; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub plan: Vec<PathBuf>,
    /// A directory with `feature_list.json`; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub features: Vec<PathBuf>,
    /// Leave the project's policy and its gates out of this run
    #[arg(long)]
    pub no_gates: bool,
    /// How complex the work is, from 0 to 10: gates with a higher `min_complexity` do not count
    #[arg(long, value_name = "N", value_parser = complexity)]
    pub complexity: Option<u8>,
    /// Work in a git work tree and on a branch of its own; merged when the merged tree is verified
    #[arg(long)]
    pub worktree: bool,
    /// As `--worktree`, but open a pull request with the report instead of merging
    #[arg(long)]
    pub pr: bool,
    /// Wait so long for the checks of the pull request, and count them as a gate
    #[arg(long, value_name = "DURATION", requires = "pr", value_parser = a_while)]
    pub wait_for_checks: Option<u64>,
    /// The project; by default the nearest directory upwards that has a policy, or the repository
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask: where the project has no policy, write the gates that were found and approve them
    #[arg(long, short)]
    pub yes: bool,
    /// Print one JSON object per event
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    /// Print only how it ended
    #[arg(long, short)]
    pub quiet: bool,
    /// Let the agent's flags of this run switch off its permission prompts
    #[arg(long)]
    pub allow_skip_permissions: bool,
    /// Flags for the agent, as they are
    #[arg(last = true, value_name = "AGENT FLAGS")]
    pub flags: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sessions {
    /// When the context is nearly full
    Hybrid,
    /// Never
    SameSession,
    /// Also whenever something of the contract was met
    FreshPerFeature,
}

impl From<Sessions> for drive::Sessions {
    fn from(sessions: Sessions) -> Self {
        match sessions {
            Sessions::Hybrid => Self::Hybrid,
            Sessions::SameSession => Self::SameSession,
            Sessions::FreshPerFeature => Self::FreshPerFeature,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Agent {
    Claude,
}

impl From<Agent> for drive::Agent {
    fn from(agent: Agent) -> Self {
        match agent {
            Agent::Claude => Self::Claude,
        }
    }
}

/// Whether the agent's flags switch its permission prompts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permissions {
    Asked,
    Skipped,
}

/// The one mode of the client in which no permission is asked for.
const BYPASS: &str = "bypassPermissions";

const SKIPPING: [&str; 2] =
    ["--dangerously-skip-permissions", "--allow-dangerously-skip-permissions"];

/// Flags that are ralph's, or that leave no session to drive, and what to do instead.
const OURS: [(&str, &str); 35] = [
    ("-p", "ralph gives it, and talks with the agent over it"),
    ("--print", "ralph gives it, and talks with the agent over it"),
    ("--input-format", "ralph gives it, and talks with the agent over it"),
    ("--output-format", "ralph gives it, and talks with the agent over it"),
    ("--verbose", "ralph gives it, and talks with the agent over it"),
    ("--permission-prompt-tool", "ralph answers for it; `--allowedTools` names what is allowed"),
    ("--session-id", "ralph names its sessions itself"),
    ("-r", "`ralph run --resume RUN` continues a run"),
    ("--resume", "`ralph run --resume RUN` continues a run"),
    ("-c", "`ralph run --resume RUN` continues a run"),
    ("--continue", "`ralph run --resume RUN` continues a run"),
    ("--from-pr", "`ralph run --resume RUN` continues a run"),
    ("--fork-session", "`--fork SESSION` before the `--` begins with a copy"),
    ("--no-session-persistence", "without its transcript no session can be taken up again"),
    ("--max-budget-usd", "`--max-cost` before the `--` bounds all sessions together"),
    ("--max-turns", "`--max-iterations` before the `--` bounds all sessions together"),
    ("--model", "give `--model` before the `--`"),
    ("--settings", "ralph gives its own; put yours into `.claude/settings.local.json`"),
    ("--managed-settings", "put yours into `.claude/settings.local.json`"),
    ("--bare", "with it no stop would be asked about"),
    ("--worktree", "give `--worktree` before the `--`"),
    ("-w", "give `--worktree` before the `--`"),
    ("--tmux", "ralph is the agent's terminal"),
    ("--bg", "ralph is the agent's terminal"),
    ("--background", "ralph is the agent's terminal"),
    ("--cloud", "ralph drives an agent on this machine"),
    ("--desktop", "ralph drives an agent on this machine"),
    ("--environment", "ralph drives an agent on this machine"),
    ("--remote-control", "ralph drives an agent on this machine"),
    ("--teleport", "ralph drives an agent on this machine"),
    ("--init-only", "with it there would be no session to drive"),
    ("--help", "`claude --help` shows it"),
    ("-h", "`claude --help` shows it"),
    ("--version", "`claude --version` shows it"),
    ("-v", "`claude --version` shows it"),
];

impl Run {
    /// Everything that can be wrong with the words alone.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let is_known = self.resume.is_some() || self.queue.is_some() || self.fork.is_some();
        if !is_known && !self.says_what() {
            let hint = "`ralph run \"what is to be reached\"`, or `--goal-file`, `--loop`, `--plan` or `--features`";
            return Err(Failure::new("it is not said what is to be done", hint));
        }
        if self.goal.as_deref().is_some_and(|goal| goal.trim().is_empty()) {
            return Err(Failure::new("the goal is empty", "write what is to be reached"));
        }
        if self.parallel.is_some() && self.queue.is_none() {
            let hint = "`--queue` names them; one goal is worked on by one agent";
            return Err(Failure::new("`--parallel` needs more goals than one", hint));
        }
        if let Some(option) = self.resume.as_ref().and_then(|_| self.settled()) {
            let what = format!("{option} was settled when the run started");
            let hint = "`ralph limits RUN` sets other limits; the rest of it stays";
            return Err(Failure::new(&what, hint));
        }
        flags(&self.flags).map(drop)
    }

    /// Whether anything says what is to be done in a run that begins.
    pub(crate) fn says_what(&self) -> bool {
        self.goal.is_some()
            || self.goal_file.is_some()
            || self.of.is_some()
            || !self.plan.is_empty()
            || !self.features.is_empty()
    }

    /// Whether the agent may be given these flags in this run, wherever they come from.
    pub(crate) fn agent(&self, given: &[String]) -> Result<Permissions, Failure> {
        let permissions = flags(given)?;
        match (permissions, self.allow_skip_permissions) {
            (Permissions::Skipped, false) => {
                let what = "the agent's flags switch off its permission prompts";
                let hint = "`--allow-skip-permissions` before the `--` agrees to it for this run; only do so in a container or a virtual machine";
                Err(Failure::new(what, hint))
            }
            (Permissions::Asked, true) => {
                let what = "`--allow-skip-permissions` has nothing to allow";
                let hint = "ralph adds no such flag itself: `-- --permission-mode bypassPermissions` asks for it";
                Err(Failure::new(what, hint))
            }
            (Permissions::Asked, false) | (Permissions::Skipped, true) => Ok(permissions),
        }
    }

    /// What cannot be said about a run that is there already.
    fn settled(&self) -> Option<&'static str> {
        let limits = &self.limits;
        let given = [
            (limits.max_iterations.is_some(), "`--max-iterations`"),
            (limits.min_iterations.is_some(), "`--min-iterations`"),
            (limits.max_duration.is_some(), "`--max-duration`"),
            (limits.max_cost_usd.is_some(), "`--max-cost`"),
            (limits.stuck_after.is_some(), "`--stuck-after`"),
            (self.max_tokens.is_some(), "`--max-tokens`"),
            (self.handover_at.is_some(), "`--handover-at`"),
            (self.sessions.is_some(), "`--sessions`"),
            (self.model.is_some(), "`--model`"),
            (self.stronger_model.is_some(), "`--stronger-model`"),
            (self.agent.is_some(), "`--agent`"),
            (self.idle_after.is_some(), "`--idle-after`"),
            (!self.plan.is_empty(), "`--plan`"),
            (!self.features.is_empty(), "`--features`"),
            (self.no_gates, "`--no-gates`"),
            (self.complexity.is_some(), "`--complexity`"),
            (self.worktree, "`--worktree`"),
            (self.pr, "`--pr`"),
            (self.project.is_some(), "`--project`"),
            (self.allow_skip_permissions, "`--allow-skip-permissions`"),
            (!self.flags.is_empty(), "what comes after `--`"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option)
    }
}

/// What the agent's flags ask for; refused by name where they are not the person's to give.
fn flags(flags: &[String]) -> Result<Permissions, Failure> {
    if flags.len() > MOST_FLAGS || flags.iter().any(|flag| flag.len() > LONGEST_FLAG) {
        let hint = "put what is long into `.claude/settings.local.json`";
        return Err(Failure::new("the agent's flags are too many, or too long", hint));
    }
    if let Some(first) = flags.first().filter(|first| !first.starts_with('-')) {
        let what = format!("`{}` is no flag of the agent", text::line(first, 80));
        return Err(Failure::new(&what, "the goal comes before the `--`"));
    }
    for flag in flags {
        if flag == "--" {
            let hint = "the goal comes before the `--`";
            return Err(Failure::new("`--` may be there once", hint));
        }
        if let Some((name, why)) = ours(flag) {
            let what = format!("`{name}` cannot be given to the agent");
            return Err(Failure::new(&what, why));
        }
    }
    Ok(permissions(flags))
}

/// The flag of ralph's that a word is, also as `--flag=value` or among short ones, as in `-dp`.
fn ours(flag: &str) -> Option<(&'static str, &'static str)> {
    let name = flag.split('=').next().unwrap_or_default();
    let letters = name.strip_prefix('-').unwrap_or_default();
    let is_cluster = letters.bytes().all(|byte| byte.is_ascii_alphabetic());
    OURS.into_iter().find(|(known, _)| {
        let letter = known.strip_prefix('-').filter(|rest| rest.len() == 1);
        name == *known || is_cluster && letter.is_some_and(|letter| letters.contains(letter))
    })
}

/// Whether flags switch the permission prompts off, in any of the ways there are.
pub(crate) fn permissions(flags: &[String]) -> Permissions {
    let is_skipping = |flag: &str| {
        let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
        SKIPPING.contains(&name) || name == "--permission-mode" && is_bypass(value)
    };
    let after_mode = flags.windows(2).any(|pair| match pair {
        [name, value] => name == "--permission-mode" && is_bypass(value),
        _ => false,
    });
    if after_mode || flags.iter().any(|flag| is_skipping(flag)) {
        Permissions::Skipped
    } else {
        Permissions::Asked
    }
}

fn is_bypass(mode: &str) -> bool {
    mode.trim().eq_ignore_ascii_case(BYPASS)
}

/// `0.8` or `80%`, in thousandths.
fn permille(text: &str) -> Result<u16, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    let share = share.ok().filter(|share| (0.1..=0.99).contains(share));
    let wrong = || "a share from 0.1 to 0.99 is needed, such as `0.8`".to_string();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be between 0.1 and 0.99"
    )]
    let permille = share.map(|share| (share * 1000.0).round() as u16);
    permille.ok_or_else(wrong)
}

fn a_while(text: &str) -> Result<u64, String> {
    duration(text).and_then(|ms| match ms {
        0..1000 => Err("1s is the least".to_string()),
        _ => Ok(ms),
    })
}

/// It becomes a word of the agent's command line.
fn model(text: &str) -> Result<String, String> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || "._-/:@[]".contains(char);
    let begins = text.starts_with(|char: char| char.is_ascii_alphanumeric());
    if begins && text.len() <= 200 && text.chars().all(is_name) {
        Ok(text.to_string())
    } else {
        Err("a name such as `opus` or `claude-sonnet-4-5` is needed".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Permissions, String> {
        let given: Vec<String> = words.iter().map(ToString::to_string).collect();
        flags(&given).map_err(|failure| failure.told())
    }

    /// R-H4e: what ralph says to the agent's client, nobody else says too.
    #[test]
    fn flags_that_are_ralphs_are_refused_by_name() {
        for (name, why) in OURS {
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
            assert_eq!(of(allowed), Ok(Permissions::Asked), "{allowed:?}");
        }
    }

    /// R-S8a: no way to switch permissions off goes unseen.
    #[test]
    fn every_way_to_skip_permissions_is_seen() {
        for skipping in [
            &["--dangerously-skip-permissions"][..],
            &["--dangerously-skip-permissions=true"],
            &["--allow-dangerously-skip-permissions"],
            &["--permission-mode", "bypassPermissions"],
            &["--permission-mode=bypassPermissions"],
            &["--permission-mode", "BYPASSPERMISSIONS"],
            &["--debug", "--permission-mode", "bypassPermissions", "--add-dir", "x"],
        ] {
            assert_eq!(of(skipping), Ok(Permissions::Skipped), "{skipping:?}");
        }
        for asking in [
            &["--permission-mode", "acceptEdits"][..],
            &["--permission-mode=plan"],
            &["--append-system-prompt", "bypassPermissions"],
        ] {
            assert_eq!(of(asking), Ok(Permissions::Asked), "{asking:?}");
        }
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("500000", Some(500_000)),
            ("500_000", Some(500_000)),
            ("500k", Some(500_000)),
            ("2M", Some(2_000_000)),
            ("M", None),
            ("", None),
            ("-1", None),
            ("é", None),
            ("99999999999999999999", None),
            ("9999999999999M", Some(9_999_999_999_999_000_000)),
            ("99999999999999M", None),
        ] {
            assert_eq!(tokens(text).ok(), expected, "{text:?}");
        }
        for (text, expected) in [
            ("0.8", Some(800)),
            ("80%", Some(800)),
            ("0.805", Some(805)),
            ("0.99", Some(990)),
            ("1", None),
            ("80", None),
            ("0.05", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(permille(text).ok(), expected, "{text:?}");
        }
        for (text, is_name) in [
            ("opus", true),
            ("claude-opus-5-5[1m]", true),
            ("us.anthropic.claude-v1:0", true),
            ("--bare", false),
            ("a b", false),
            ("", false),
        ] {
            assert_eq!(model(text).is_ok(), is_name, "{text:?}");
        }
    }
}
