//! `ralph init`: shows every change to the agent's settings, asks, and writes. Also the parts that `ralph uninstall`
//! shares.

use super::{open_home, print_json, refuse_agent};
use crate::failure::CommandFailure;
use crate::host_arg::HostArg;
use crate::term::{self, paint};
use crate::typed_consent;
use clap::{Args, ValueEnum};
use ralph_core::policy::SessionGates;
use ralph_core::sealed_file::SealedFile;
use ralph_core::text;
use ralph_deck::wording::{self, safe_line};
use ralph_install::install::file_change::{self, InstallChange};
use ralph_install::install::foreign_setups::ForeignSetup;
use ralph_install::install::install_plan::{
    self, ForeignSetupChoice, GateSetupChoice, InstallContext, InstallObstacle, InstallPlan,
    InstallRequest, ProposedPolicy, StatusLineChoice,
};
use ralph_install::install::registration::{GateWarming, HookExtent};
use ralph_install::install::{install_notes, program_link, slash_commands};
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph init
  ralph init --dry-run
  ralph init --scope user --no-gates
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
    /// Remove other loop plugins and stop hooks until `ralph uninstall`
    #[arg(long)]
    pub replace: bool,
    /// Don't propose a `ralph.toml`
    #[arg(long)]
    pub no_gates: bool,
    /// Choose the sessions that the gates hold
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = SessionGatesArg::Every)]
    pub session_gates: SessionGatesArg,
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
    let host = args.host.profile();
    let context = InstallContext { env, host, home: &home, project: &project };
    let order = install_order(args);
    let mut plan = install_plan::plan_install(&context, &order)?;
    let is_new = plan.changes.iter().any(InstallChange::is_visible);
    let status = match (is_new, args.dry_run) {
        (false, _) => InstallStatus::Unchanged,
        (true, true) => InstallStatus::Planned,
        (true, false) => InstallStatus::Written,
    };
    if !args.json {
        term::out(&render_init_plan(&plan, args, &project))?;
    }
    if status == InstallStatus::Written {
        if ask_to_write(args, &plan)? == InitAnswer::GoalsOnly {
            let order = InstallRequest { sessions: SessionGates::Goal, ..order };
            plan = install_plan::plan_install(&context, &order)?;
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
    lines.push(result_text(&plan, args, (&project, status)));
    term::out(&lines.join("\n"))?;
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InitAnswer {
    Write,
    /// Write it, but with gates that hold only sessions with a goal.
    GoalsOnly,
}

/// Asks once, unless `--yes` was given. Showing the changes in full repeats the question.
fn ask_to_write(args: &InitArgs, plan: &InstallPlan) -> Result<InitAnswer, CommandFailure> {
    let asking = ConfirmationOptions { yes: args.yes, json: args.json, command: "init" };
    if args.yes {
        return Ok(InitAnswer::Write);
    }
    require_terminal(&asking)?;
    let holds_every = plan.policy.is_some() && args.session_gates == SessionGatesArg::Every;
    let question = match &plan.policy {
        Some(_) if holds_every => {
            "write this and approve these gates? [y]es · [g]oals only · [d]iff · [N]o: "
        }
        Some(_) => "write this and approve these gates? [y]es · [d]iff · [N]o: ",
        None => "write this? [y]es · [d]iff · [N]o: ",
    };
    loop {
        term::out(question)?;
        match term::read_answer().unwrap_or_default().as_str() {
            "y" | "yes" => return Ok(InitAnswer::Write),
            "g" | "goal" if holds_every => return Ok(InitAnswer::GoalsOnly),
            "d" | "diff" => {
                let shown = render_diffs(&plan.changes);
                term::out(&format!("{shown}\n"))?;
            }
            _ => return Err(nothing_written(&asking)),
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
        sessions: args.session_gates.into(),
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
}

/// Asks for confirmation, unless `--yes` was given.
pub(super) fn confirm(asking: &ConfirmationOptions, question: &str) -> Result<(), CommandFailure> {
    if asking.yes {
        return Ok(());
    }
    require_terminal(asking)?;
    term::out(question)?;
    if term::is_confirmed().unwrap_or(false) { Ok(()) } else { Err(nothing_written(asking)) }
}

fn require_terminal(asking: &ConfirmationOptions) -> Result<(), CommandFailure> {
    if asking.json || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let hint = "`--dry-run` shows what would change, `--yes` skips the question";
        return Err(CommandFailure::new(
            "not a terminal, so I can't ask; nothing was written",
            hint,
        ));
    }
    Ok(())
}

fn nothing_written(asking: &ConfirmationOptions) -> CommandFailure {
    let hint = format!("`ralph {}` asks again", asking.command);
    CommandFailure::new("nothing was written", &hint)
}

fn render_init_plan(plan: &InstallPlan, args: &InitArgs, project: &Path) -> String {
    let mut out = format!("{}\n", paint(term::BOLD, &safe_line(&project.to_string_lossy())));
    out.push_str(&if args.dry_run {
        render_diffs(&plan.changes)
    } else {
        render_summary(plan, args, project)
    });
    out.push_str(&plan.policy.as_ref().map(render_gates).unwrap_or_default());
    let mut lines: Vec<_> = plan.foreign.iter().map(|one| foreign_line(one, args)).collect();
    lines.extend(note_lines(&plan.notes));
    if !lines.is_empty() {
        out.push_str(&format!("\n{}\n", lines.join("\n")));
    }
    if plan.changes.iter().any(InstallChange::is_visible) {
        out.push('\n');
    }
    out
}

/// One line for each changed file, with what it is for.
fn render_summary(plan: &InstallPlan, args: &InitArgs, project: &Path) -> String {
    let is_command = |change: &&InstallChange| slash_commands::is_command_file(&change.path);
    let files = plan.changes.iter().filter(|change| change.is_visible() && !is_command(change));
    let line = |change: &InstallChange| {
        let verb = match (&change.current_content, &change.new_content) {
            (_, None) => "remove",
            (None, Some(_)) => "create",
            (Some(_), Some(_)) => "edit",
        };
        let path = change.path.strip_prefix(project).unwrap_or(&change.path);
        let is_policy = plan.policy.as_ref().is_some_and(|policy| policy.path == change.path);
        let purpose = match (is_policy, args.session_gates) {
            (true, SessionGatesArg::Every) => "gates for every session, and for goals",
            (true, SessionGatesArg::Goal) => "gates for sessions with a goal",
            (false, _) => "hooks that call ralph",
        };
        format!("{verb:<8}{:<32}{purpose}\n", safe_line(&path.to_string_lossy()))
    };
    let mut out = String::from("\n");
    out.extend(files.map(line));
    let count = plan.changes.iter().filter(|it| it.is_visible() && is_command(it)).count();
    if count > 0 {
        out.push_str(&format!(
            "{:<8}{:<32}/ralph:goal, /ralph:why …\n",
            "create",
            format!("{count} slash commands")
        ));
    }
    if out.len() == 1 { String::new() } else { out }
}

/// The changed lines of every file. A removed file is only named.
pub(super) fn render_diffs(changes: &[InstallChange]) -> String {
    let mut out = render_commands(changes);
    let others = changes.iter().filter(|change| !slash_commands::is_command_file(&change.path));
    for change in others.filter(|change| change.is_visible()) {
        out.push('\n');
        if change.new_content.is_none() {
            let path = safe_line(&change.path.to_string_lossy());
            out.push_str(&format!(
                "{} `{path}`, which `ralph init` created\n",
                paint(term::BAD, "remove")
            ));
            continue;
        }
        for line in change.diff().lines() {
            let line = text::reveal(line.trim_end_matches('\r'));
            out.push_str(&match line.as_bytes().first() {
                Some(b'+') => paint(term::GOOD, &line),
                Some(b'-') => paint(term::BAD, &line),
                Some(b'@') => paint(term::DIM, &line),
                Some(_) | None => line,
            });
            out.push('\n');
        }
    }
    out
}

/// The slash commands, by name only: their texts come with ralph, and the JSON has them in full.
fn render_commands(changes: &[InstallChange]) -> String {
    let visible = || {
        changes
            .iter()
            .filter(|change| change.is_visible() && slash_commands::is_command_file(&change.path))
    };
    let Some(first) = visible().next() else { return String::new() };
    let directory = first.path.ancestors().find(|path| path.ends_with("commands"));
    let directory = safe_line(&directory.unwrap_or(&first.path).to_string_lossy());
    let names: Vec<_> = visible()
        .filter_map(|change| {
            let name = change.path.file_stem()?.to_string_lossy();
            let below = change.path.parent()?.ends_with("ralph");
            Some(if below { format!("/ralph:{name}") } else { format!("/{name}") })
        })
        .collect();
    let word = match (&first.current_content, &first.new_content) {
        (_, None) => paint(term::BAD, "remove"),
        (None, Some(_)) => paint(term::GOOD, "create"),
        (Some(_), Some(_)) => paint(term::GOOD, "update"),
    };
    format!("\n{word} commands in `{directory}`: {}\n", names.join(" "))
}

/// The gates that a yes approves, in the format of `ralph trust`.
pub(super) fn render_gates(proposed: &ProposedPolicy) -> String {
    if proposed.gates.is_empty() {
        return "\nno gates can run yet\n".to_string();
    }
    let mut out = "\ngates:\n".to_string();
    for (gate, command, program) in &proposed.gates {
        let command = command.replace('\n', "\n    ");
        out.push_str(&format!("  {}\n    {command}\n", paint(term::BOLD, &safe_line(gate))));
        let program = text::clean_line(&text::reveal(&program.to_string_lossy()), 500);
        out.push_str(&format!("{}\n", paint(term::DIM, &format!("    → {program}"))));
    }
    if !proposed.sealed.is_empty() {
        out.push_str("\nsealed in a run, so that its agent cannot change them:\n");
        let file = |file: &SealedFile| format!("  {}\n", wording::sealed_file(file));
        out.extend(proposed.sealed.iter().map(file));
    }
    out
}

fn foreign_line(foreign: &ForeignSetup, args: &InitArgs) -> String {
    let is_within = foreign.is_within(install_plan::InstallScope::from(args.scope).layer());
    let what = match foreign {
        ForeignSetup::Plugin { name, by } => {
            let what =
                format!("plugin `{}`, enabled in the {} settings", safe_line(name), by.name());
            match (is_within, args.replace) {
                (false, _) => format!("{what}, which override these: disable it there"),
                (true, false) => format!("{what}; `--replace` disables it"),
                (true, true) => what,
            }
        }
        ForeignSetup::Hook { event, command, .. } => {
            let offer = if args.replace { "" } else { "; `--replace` removes it" };
            format!("hook at {} `{}`{offer}", safe_line(event), safe_line(command))
        }
        ForeignSetup::Loop(path) => {
            let path = safe_line(&path.to_string_lossy());
            format!("an active loop in `{path}`: `/cancel-ralph` in its session ends it")
        }
        ForeignSetup::Rules(path) => {
            format!(
                "hookify rules in `{}`, which stay in force",
                safe_line(&path.to_string_lossy())
            )
        }
    };
    format!("{}: {what}", paint(term::WARN, "found"))
}

pub(super) fn note_lines(notes: &[String]) -> impl Iterator<Item = String> {
    notes.iter().map(|note| format!("{}: {}", paint(term::WARN, "note"), safe_line(note)))
}

fn result_text(
    plan: &InstallPlan,
    args: &InitArgs,
    (project, status): (&Path, InstallStatus),
) -> String {
    let project = safe_line(&project.to_string_lossy());
    let program = args.host.profile().program;
    let (obstacle, next) = match plan.obstacle {
        None => (
            None,
            format!("next: start `{program}` in `{project}` and work, or type `/ralph:goal …`"),
        ),
        Some(InstallObstacle::Unapproved) => {
            (Some("no goal is accepted before `ralph trust`"), "next: `ralph trust`".to_string())
        }
        Some(InstallObstacle::HooksAreOff) => (
            Some("no agent is held until the problems in the notes are fixed"),
            "next: fix them, then run `ralph doctor`".to_string(),
        ),
    };
    let out = match args.scope {
        _ if args.plugin => {
            format!("`{program} plugin uninstall ralph@ralph` and `ralph uninstall` remove")
        }
        ScopeArg::User => "`ralph uninstall --scope user` removes".to_string(),
        ScopeArg::Local | ScopeArg::Project => "`ralph uninstall` removes".to_string(),
    };
    match status {
        InstallStatus::Unchanged => match obstacle {
            None => format!("{}\n", paint(term::GOOD, "already set up")),
            Some(obstacle) => {
                format!("already set up, but {}; {next}\n", paint(term::BAD, obstacle))
            }
        },
        InstallStatus::Planned => "nothing was written\n".to_string(),
        InstallStatus::Written => {
            let mut text = file_lines(&plan.changes);
            if plan.policy.is_some() {
                text.push_str("approved; any change of a gate needs a new approval\n");
            }
            if let Some(obstacle) = obstacle {
                text.push_str(&format!("{}\n", paint(term::BAD, obstacle)));
            }
            text.push_str(&format!("{next}; {out} all of it\n"));
            text
        }
    }
}

/// One line for each changed file.
pub(super) fn file_lines(changes: &[InstallChange]) -> String {
    let visible = || changes.iter().filter(|change| change.is_visible());
    let is_command = |change: &&InstallChange| slash_commands::is_command_file(&change.path);
    let lines = visible().filter(|change| !is_command(change)).map(|change| {
        format!("{:<8}`{}`\n", change_word(change), safe_line(&change.path.to_string_lossy()))
    });
    let mut out: String = lines.collect();
    if let Some(first) = visible().find(is_command) {
        let count = visible().filter(is_command).count();
        out.push_str(&format!("{:<8}{count} commands\n", change_word(first)));
    }
    out
}

fn change_word(change: &InstallChange) -> &'static str {
    match (&change.current_content, &change.new_content) {
        (None, _) => "created",
        (Some(_), Some(_)) => "edited",
        (Some(_), None) => "removed",
    }
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
        others: plan.foreign.iter().map(other).collect(),
        notes: &plan.notes,
    }
}
