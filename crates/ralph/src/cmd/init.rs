//! `ralph init`: shows every change to the agent's settings, asks, and writes. Also the parts that `ralph uninstall`
//! shares.

use super::init_text::{change_word, note_lines, render_diffs, render_init_plan, result_text};
use super::{open_home, print_json, refuse_agent};
use crate::failure::CommandFailure;
use crate::host_arg::HostArg;
use crate::term;
use crate::typed_consent;
use clap::{Args, ValueEnum};
use ralph_core::policy::SessionGates;
use ralph_deck::wording::safe_line;
use ralph_host::client_settings::NativeJudgeKind;
use ralph_install::install::file_change::{self, InstallChange};
use ralph_install::install::foreign_setups::ForeignSetup;
use ralph_install::install::install_plan::{
    self, ForeignSetupChoice, GateSetupChoice, InstallContext, InstallPlan, InstallRequest,
    SessionSetupChoice, StatusLineChoice,
};
use ralph_install::install::native_judge::NativeJudgeChoice;
use ralph_install::install::registration::{GateWarming, HookExtent};
use ralph_install::install::{install_notes, program_link};
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Indents the continuation of a wide line.
const WRAP_INDENT: usize = 2;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph init
  ralph init --dry-run
  ralph init --gate \"sh test.sh\"
  ralph init --scope user --no-gates
  ralph init --native-judge --dry-run
  ralph init --yes --replace --json

Shows every change and asks before it writes anything. The hooks contain
ralph's absolute path, which is valid on one machine only, so they go
into your personal settings of the project unless `--scope` says
otherwise. `ralph uninstall` restores every byte.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub(crate) struct InitArgs {
    /// Choose whose settings to change
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = ScopeArg::Local)]
    pub scope: ScopeArg,
    /// Don't ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Install only what a run needs: no guard, task or compaction hooks
    #[arg(long)]
    pub minimal: bool,
    /// Install no hooks, as the plugin has them; do the rest of the setup
    #[arg(long, conflicts_with_all = ["minimal", "warm"])]
    pub plugin: bool,
    /// Run gates in the background after edits, so that stops are faster
    #[arg(long)]
    pub warm: bool,
    /// Show the run in the client's status line, if it has none
    #[arg(long)]
    pub statusline: bool,
    /// Add the client's own stop hook that asks a model: `prompt` or `agent`
    #[arg(
        long,
        value_name = "KIND",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "prompt"
    )]
    pub native_judge: Option<NativeJudgeArg>,
    /// Remove other loop plugins and stop hooks until `ralph uninstall`
    #[arg(long)]
    pub replace: bool,
    /// Propose this command as a gate too (repeatable)
    #[arg(long, value_name = "CMD", conflicts_with = "no_gates")]
    pub gate: Vec<String>,
    /// Don't propose a `ralph.toml`
    #[arg(long)]
    pub no_gates: bool,
    /// Choose the sessions that the gates hold [default: every]
    #[arg(long, value_name = "WHICH", value_enum)]
    pub session_gates: Option<SessionGatesArg>,
    /// Use this project [default: nearest parent with a policy, or the repo]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    #[command(flatten)]
    pub host: HostArg,
    /// Print one JSON object, and don't ask
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScopeArg {
    /// Yours in this project: `.claude/settings.local.json`
    Local,
    /// Yours in every project: `settings.json` in `~/.claude`
    User,
    /// Shared through git: `.claude/settings.json` of this project
    Project,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SessionGatesArg {
    /// Every session, if its work makes a gate worse
    Every,
    /// Only sessions with a goal
    Goal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NativeJudgeArg {
    /// One request at every stop, with the whole conversation
    Prompt,
    /// An agent at every stop, which can read files
    Agent,
    /// Remove it again
    Off,
}

impl From<NativeJudgeArg> for NativeJudgeChoice {
    fn from(choice: NativeJudgeArg) -> Self {
        match choice {
            NativeJudgeArg::Prompt => Self::Write(NativeJudgeKind::Prompt),
            NativeJudgeArg::Agent => Self::Write(NativeJudgeKind::Agent),
            NativeJudgeArg::Off => Self::Remove,
        }
    }
}

impl From<SessionGatesArg> for SessionGates {
    fn from(choice: SessionGatesArg) -> Self {
        match choice {
            SessionGatesArg::Every => Self::Every,
            SessionGatesArg::Goal => Self::Goal,
        }
    }
}

impl From<ScopeArg> for install_plan::InstallScope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::User => Self::User,
            ScopeArg::Project => Self::Project,
            ScopeArg::Local => Self::Local,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InstallStatus {
    Planned,
    Written,
    Unchanged,
}

#[derive(Serialize)]
struct InitJson<'a> {
    v: u8,
    project: String,
    scope: ScopeArg,
    status: InstallStatus,
    files: Vec<InstallFileJson>,
    gates: Vec<InitGateJson<'a>>,
    /// The sessions that the gates hold: `every` or `goal`; `null` without gates.
    session_gates: Option<SessionGates>,
    /// The client's own stop hook that asks a model: `prompt` or `agent`; `null` without one.
    native_judge: Option<&'static str>,
    others: Vec<InitOtherJson>,
    notes: &'a [String],
}

#[derive(Serialize)]
pub(super) struct InstallFileJson {
    path: String,
    change: &'static str,
    diff: String,
}

#[derive(Serialize)]
struct InitGateJson<'a> {
    gate: &'a str,
    command: &'a str,
    program: String,
}

#[derive(Serialize)]
struct InitOtherJson {
    kind: &'static str,
    what: String,
    replaced: bool,
}

pub(crate) fn run(env: &Env, args: &InitArgs) -> Result<(), CommandFailure> {
    require_person(env, args.dry_run)?;
    let home = open_home(env)?;
    let project = resolved_project(env, args.project.as_deref())?;
    refuse_no_project(env, args, &project)?;
    let host = args.host.profile();
    let context = InstallContext { env, host, home: &home, project: &project };
    let typed = super::gate::add::typed_proposals(&context, &args.gate)?;
    let order = install_order(args);
    let mut plan = install_plan::plan_install_with(&context, &order, &typed)?;
    let is_new = plan.changes.iter().any(InstallChange::is_visible);
    let status = match (is_new, args.dry_run) {
        (false, _) => InstallStatus::Unchanged,
        (true, true) => InstallStatus::Planned,
        (true, false) => InstallStatus::Written,
    };
    if !args.json {
        term::out_fitted(&render_init_plan(&plan, args, &project), WRAP_INDENT)?;
    }
    if status == InstallStatus::Written {
        if ask_to_write(args, &plan)? == InitAnswer::GoalsOnly {
            let order = InstallRequest { sessions: SessionGates::Goal, ..order };
            plan = install_plan::plan_install_with(&context, &order, &typed)?;
        }
        if plan.policy.is_some() {
            typed_consent::require_while_held(&home, "approve these gates")?;
        }
        file_change::apply_changes(&home, &plan.changes)?;
        if let Some(proposed) = &plan.policy {
            install_plan::approve_proposed(&context, proposed)?;
        }
    }
    if let Some(program) = plan.program.as_ref().filter(|_| status != InstallStatus::Planned) {
        program_link::refresh_link(&home, program)?;
    }
    // Git should ignore this file.
    let personal = host.files.local_settings;
    let personal = plan.changes.iter().find(|change| change.path.ends_with(personal));
    let personal = personal.filter(|_| status == InstallStatus::Written);
    let late = personal.and_then(|change| install_notes::git_ignore_note(&project, &change.path));
    if args.json {
        plan.notes.extend(late);
        print_json(&init_json(&plan, args, (&project, status)))?;
        return Ok(());
    }
    let mut lines: Vec<_> = note_lines(late.as_slice()).collect();
    lines.push(result_text(&plan, args, &project, status));
    term::out_fitted(&lines.join("\n"), WRAP_INDENT)?;
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InitAnswer {
    Write,
    /// Write it, but with gates that hold only sessions with a goal.
    GoalsOnly,
}

/// What a person can type at the question.
#[derive(Clone, Copy)]
enum InitChoice {
    Answer(InitAnswer),
    ShowDiff,
}

/// A root or home directory would be searched as a whole, and hooks there hold nothing below it.
fn refuse_no_project(env: &Env, args: &InitArgs, project: &Path) -> Result<(), CommandFailure> {
    if args.scope == ScopeArg::User || install_plan::is_project_directory(env, project) {
        return Ok(());
    }
    let what = format!("`{}` is not a project", safe_line(&project.to_string_lossy()));
    let hint = "change to the directory of a project; `ralph init --scope user` installs the hooks for all of them";
    Err(CommandFailure::new(&what, hint))
}

/// Asks once, unless `--yes` was given. Showing the changes in full repeats the question.
fn ask_to_write(args: &InitArgs, plan: &InstallPlan) -> Result<InitAnswer, CommandFailure> {
    let refusal = "nothing was written";
    let asking = ConfirmationOptions { yes: args.yes, json: args.json, command: "init", refusal };
    if args.yes {
        return Ok(InitAnswer::Write);
    }
    require_terminal(&asking)?;
    let holds_every = plan.policy.is_some() && plan.sessions == Some(SessionGates::Every);
    let mut choices = vec![("yes", InitChoice::Answer(InitAnswer::Write))];
    if holds_every {
        choices.push(("goals", InitChoice::Answer(InitAnswer::GoalsOnly)));
    }
    choices.push(("diff", InitChoice::ShowDiff));
    let question = match &plan.policy {
        Some(_) if holds_every => {
            "write this and approve these gates? [y]es · [g]oals only · [d]iff · [N]o: "
        }
        Some(_) => "write this and approve these gates? [y]es · [d]iff · [N]o: ",
        None => "write this? [y]es · [d]iff · [N]o: ",
    };
    loop {
        match term::ask_for_choice(question, &choices)? {
            Some(InitChoice::Answer(answer)) => return Ok(answer),
            Some(InitChoice::ShowDiff) => {
                let shown = render_diffs(&plan.changes);
                term::out(&format!("{shown}\n"))?;
            }
            None => return Err(refused(&asking)),
        }
    }
}

fn install_order(args: &InitArgs) -> InstallRequest {
    InstallRequest {
        scope: args.scope.into(),
        extent: match (args.plugin, args.minimal) {
            (true, _) => HookExtent::Plugin,
            (false, true) => HookExtent::Minimal,
            (false, false) => HookExtent::Full,
        },
        warming: if args.warm { GateWarming::AfterEdits } else { GateWarming::Off },
        status_line: if args.statusline { StatusLineChoice::Set } else { StatusLineChoice::Leave },
        judge: args.native_judge.map_or(NativeJudgeChoice::Keep, Into::into),
        sessions: args.session_gates.map_or(SessionGates::Every, Into::into),
        session_setup: match args.session_gates {
            // A script that answers in advance has not seen this question.
            None if args.yes || args.json => SessionSetupChoice::Leave,
            Some(_) | None => SessionSetupChoice::Propose,
        },
        gates: if args.no_gates { GateSetupChoice::Leave } else { GateSetupChoice::Propose },
        others: if args.replace { ForeignSetupChoice::Replace } else { ForeignSetupChoice::Leave },
    }
}

/// An agent must not install or remove the program that judges it.
pub(super) fn require_person(env: &Env, dry_run: bool) -> Result<(), CommandFailure> {
    if dry_run {
        return Ok(());
    }
    let hint = "ask a person to do this in their own terminal; `--dry-run` shows what would change";
    refuse_agent(env, "an agent may not install or remove ralph", hint)
}

/// The project without symbolic links, because the record of changed files is kept by path.
pub(super) fn resolved_project(env: &Env, named: Option<&Path>) -> Result<PathBuf, CommandFailure> {
    let project = super::config::project_dir(env, named)?;
    Ok(fs::resolve(&project).unwrap_or(project))
}

pub(super) struct ConfirmationOptions {
    pub(super) yes: bool,
    pub(super) json: bool,
    pub(super) command: &'static str,
    /// What did not happen without a yes.
    pub(super) refusal: &'static str,
}

/// Asks for confirmation, unless `--yes` was given.
pub(super) fn confirm(asking: &ConfirmationOptions, question: &str) -> Result<(), CommandFailure> {
    if asking.yes {
        return Ok(());
    }
    require_terminal(asking)?;
    term::out(question)?;
    if term::is_confirmed().unwrap_or(false) { Ok(()) } else { Err(refused(asking)) }
}

fn require_terminal(asking: &ConfirmationOptions) -> Result<(), CommandFailure> {
    if asking.json || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let hint = "`--dry-run` shows what would change, `--yes` skips the question";
        let why =
            if asking.json { "`--json` does not ask" } else { "not a terminal, so I can't ask" };
        return Err(CommandFailure::new(&format!("{why}; {}", asking.refusal), hint));
    }
    Ok(())
}

fn refused(asking: &ConfirmationOptions) -> CommandFailure {
    let hint = format!("`ralph {}` asks again", asking.command);
    CommandFailure::chosen(asking.refusal, &hint)
}

pub(super) fn files_json(changes: &[InstallChange]) -> Vec<InstallFileJson> {
    let visible = changes.iter().filter(|change| change.is_visible());
    let json = visible.map(|change| InstallFileJson {
        path: change.path.display().to_string(),
        change: change_word(change),
        diff: change.diff(),
    });
    json.collect()
}

fn init_json<'a>(
    plan: &'a InstallPlan,
    args: &InitArgs,
    (project, status): (&Path, InstallStatus),
) -> InitJson<'a> {
    let gates = plan.policy.iter().flat_map(|proposed| &proposed.gates);
    let layer = install_plan::InstallScope::from(args.scope).layer();
    let other = |foreign: &ForeignSetup| {
        let (kind, what) = match foreign {
            ForeignSetup::Plugin { name, .. } => ("plugin", name.clone()),
            ForeignSetup::Hook { command, .. } => ("hook", command.clone()),
            ForeignSetup::Loop(path) => ("loop", path.display().to_string()),
            ForeignSetup::Rules(path) => ("rules", path.display().to_string()),
        };
        InitOtherJson { kind, what, replaced: args.replace && foreign.is_within(layer) }
    };
    InitJson {
        v: 1,
        project: project.display().to_string(),
        scope: args.scope,
        status,
        files: files_json(&plan.changes),
        gates: gates
            .map(|(gate, command, program)| InitGateJson {
                gate,
                command,
                program: program.display().to_string(),
            })
            .collect(),
        session_gates: plan.sessions,
        native_judge: plan.judge.map(NativeJudgeKind::name),
        others: plan.foreign.iter().map(other).collect(),
        notes: &plan.notes,
    }
}
