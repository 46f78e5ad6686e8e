//! `ralph init`: shows every change to the agent's settings, asks, and writes. Also the parts that `ralph uninstall`
//! shares.

use super::{caller, home, print_json};
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::safe;
use clap::{Args, ValueEnum};
use ralph_core::text;
use ralph_hook::control::Caller;
use ralph_install::install::change::{self, Change};
use ralph_install::install::foreign::Foreign;
use ralph_install::install::plan::{
    self, Gates, Ground, Obstacle, Order, Others, Plan, Proposed, StatusLine,
};
use ralph_install::install::registration::{Extent, Warming};
use ralph_install::install::{commands, link, notes};
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;
use std::io::{BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// The limit on an answer in bytes; an answer is one word.
const LONGEST_ANSWER: u64 = 100;

/// The personal settings file, which git should ignore.
const PERSONAL: &str = ".claude/settings.local.json";

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
pub(crate) struct Init {
    /// Choose whose settings to change
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = Scope::Local)]
    pub scope: Scope,
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
    /// Use this project [default: nearest parent with a policy, or the repo]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object, and don't ask
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Yours in this project: `.claude/settings.local.json`
    Local,
    /// Yours in every project: `settings.json` in `~/.claude`
    User,
    /// Shared through git: `.claude/settings.json` of this project
    Project,
}

impl From<Scope> for plan::Scope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::User => Self::User,
            Scope::Project => Self::Project,
            Scope::Local => Self::Local,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Planned,
    Written,
    Unchanged,
}

#[derive(Serialize)]
struct InitJson<'a> {
    v: u8,
    project: String,
    scope: Scope,
    status: Status,
    files: Vec<FileJson>,
    gates: Vec<GateJson<'a>>,
    others: Vec<OtherJson>,
    notes: &'a [String],
}

#[derive(Serialize)]
pub(super) struct FileJson {
    path: String,
    change: &'static str,
    diff: String,
}

#[derive(Serialize)]
struct GateJson<'a> {
    gate: &'a str,
    command: &'a str,
    program: String,
}

#[derive(Serialize)]
struct OtherJson {
    kind: &'static str,
    what: String,
    replaced: bool,
}

pub(crate) fn run(env: &Env, args: &Init) -> Result<(), Failure> {
    person_only(env, args.dry_run)?;
    let home = home(env)?;
    let project = project(env, args.project.as_deref())?;
    let ground = Ground { env, home: &home, project: &project };
    let mut plan = plan::install(&ground, &order(args))?;
    let is_new = plan.changes.iter().any(Change::is_visible);
    let status = match (is_new, args.dry_run) {
        (false, _) => Status::Unchanged,
        (true, true) => Status::Planned,
        (true, false) => Status::Written,
    };
    if !args.json {
        term::out(&shown(&plan, args, &project))?;
    }
    if status == Status::Written {
        let question = match &plan.policy {
            Some(_) => "write this and approve these gates? [y/N] ",
            None => "write this? [y/N] ",
        };
        confirm(&Asking { yes: args.yes, json: args.json, command: "init" }, question)?;
        change::apply(&home, &plan.changes)?;
        if let Some(proposed) = &plan.policy {
            plan::approve(&ground, proposed)?;
        }
    }
    if let Some(program) = plan.program.as_ref().filter(|_| status != Status::Planned) {
        link::refresh(&home, program)?;
    }
    let personal = plan.changes.iter().find(|change| change.path.ends_with(PERSONAL));
    let personal = personal.filter(|_| status == Status::Written);
    let late = personal.and_then(|change| notes::of_git(&project, &change.path));
    if args.json {
        plan.notes.extend(late);
        print_json(&json(&plan, args, (&project, status)))?;
        return Ok(());
    }
    let mut lines: Vec<_> = noted(late.as_slice()).collect();
    lines.push(written(&plan, args, (&project, status)));
    term::out(&lines.join("\n"))?;
    Ok(())
}

fn order(args: &Init) -> Order {
    Order {
        scope: args.scope.into(),
        extent: match (args.plugin, args.minimal) {
            (true, _) => Extent::Plugin,
            (false, true) => Extent::Minimal,
            (false, false) => Extent::Full,
        },
        warming: if args.warm { Warming::AfterEdits } else { Warming::Off },
        status_line: if args.statusline { StatusLine::Set } else { StatusLine::Leave },
        gates: if args.no_gates { Gates::Leave } else { Gates::Propose },
        others: if args.replace { Others::Replace } else { Others::Leave },
    }
}

/// An agent must not install or remove the program that judges it.
pub(super) fn person_only(env: &Env, dry_run: bool) -> Result<(), Failure> {
    if caller(env) == Caller::Agent && !dry_run {
        let hint =
            "ask a person to do this in their own terminal; `--dry-run` shows what would change";
        return Err(Failure::new("an agent may not install or remove ralph", hint));
    }
    Ok(())
}

/// The project without symbolic links, because the record of changed files is kept by path.
pub(super) fn project(env: &Env, named: Option<&Path>) -> Result<PathBuf, Failure> {
    let project = super::config::project(env, named)?;
    Ok(fs::resolve(&project).unwrap_or(project))
}

pub(super) struct Asking {
    pub(super) yes: bool,
    pub(super) json: bool,
    pub(super) command: &'static str,
}

/// Asks for confirmation, unless `--yes` was given.
pub(super) fn confirm(asking: &Asking, question: &str) -> Result<(), Failure> {
    if asking.yes {
        return Ok(());
    }
    if asking.json || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let hint = "`--dry-run` shows what would change, `--yes` skips the question";
        return Err(Failure::new("not a terminal, so I can't ask; nothing was written", hint));
    }
    term::out(question)?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().take(LONGEST_ANSWER).read_line(&mut answer);
    if read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    let hint = format!("`ralph {}` asks again", asking.command);
    Err(Failure::new("nothing was written", &hint))
}

fn shown(plan: &Plan, args: &Init, project: &Path) -> String {
    let mut out = format!("{}\n", paint(term::BOLD, &safe(&project.to_string_lossy())));
    out.push_str(&diffs(&plan.changes));
    out.push_str(&plan.policy.as_ref().map(gates).unwrap_or_default());
    let mut lines: Vec<_> = plan.foreign.iter().map(|one| found(one, args)).collect();
    lines.extend(noted(&plan.notes));
    if !lines.is_empty() {
        out.push_str(&format!("\n{}\n", lines.join("\n")));
    }
    if plan.changes.iter().any(Change::is_visible) {
        out.push('\n');
    }
    out
}

/// The changed lines of every file. A removed file is only named.
pub(super) fn diffs(changes: &[Change]) -> String {
    let mut out = typed(changes);
    let others = changes.iter().filter(|change| !commands::is_one(&change.path));
    for change in others.filter(|change| change.is_visible()) {
        out.push('\n');
        if change.then.is_none() {
            let path = safe(&change.path.to_string_lossy());
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
fn typed(changes: &[Change]) -> String {
    let visible =
        || changes.iter().filter(|change| change.is_visible() && commands::is_one(&change.path));
    let Some(first) = visible().next() else { return String::new() };
    let directory = first.path.ancestors().find(|path| path.ends_with("commands"));
    let directory = safe(&directory.unwrap_or(&first.path).to_string_lossy());
    let names: Vec<_> = visible()
        .filter_map(|change| {
            let name = change.path.file_stem()?.to_string_lossy();
            let below = change.path.parent()?.ends_with("ralph");
            Some(if below { format!("/ralph:{name}") } else { format!("/{name}") })
        })
        .collect();
    let word = match (&first.now, &first.then) {
        (_, None) => paint(term::BAD, "remove"),
        (None, Some(_)) => paint(term::GOOD, "create"),
        (Some(_), Some(_)) => paint(term::GOOD, "update"),
    };
    format!("\n{word} commands in `{directory}`: {}\n", names.join(" "))
}

/// The gates that a yes approves, in the format of `ralph trust`.
pub(super) fn gates(proposed: &Proposed) -> String {
    if proposed.gates.is_empty() {
        return "\nno gates can run yet\n".to_string();
    }
    let mut out = "\ngates:\n".to_string();
    for (gate, command, program) in &proposed.gates {
        let command = command.replace('\n', "\n    ");
        out.push_str(&format!("  {}\n    {command}\n", paint(term::BOLD, &safe(gate))));
        let program = text::line(&text::reveal(&program.to_string_lossy()), 500);
        out.push_str(&format!("{}\n", paint(term::DIM, &format!("    → {program}"))));
    }
    out
}

fn found(foreign: &Foreign, args: &Init) -> String {
    let is_within = foreign.is_within(plan::Scope::from(args.scope).layer());
    let what = match foreign {
        Foreign::Plugin { name, by } => {
            let what = format!("plugin `{}`, enabled in the {} settings", safe(name), by.name());
            match (is_within, args.replace) {
                (false, _) => format!("{what}, which override these: disable it there"),
                (true, false) => format!("{what}; `--replace` disables it"),
                (true, true) => what,
            }
        }
        Foreign::Hook { event, command, .. } => {
            let offer = if args.replace { "" } else { "; `--replace` removes it" };
            format!("hook at {} `{}`{offer}", safe(event), safe(command))
        }
        Foreign::Loop(path) => {
            let path = safe(&path.to_string_lossy());
            format!("an active loop in `{path}`: `/cancel-ralph` in its session ends it")
        }
        Foreign::Rules(path) => {
            format!("hookify rules in `{}`, which stay in force", safe(&path.to_string_lossy()))
        }
    };
    format!("{}: {what}", paint(term::ODD, "found"))
}

pub(super) fn noted(notes: &[String]) -> impl Iterator<Item = String> {
    notes.iter().map(|note| format!("{}: {}", paint(term::ODD, "note"), safe(note)))
}

fn written(plan: &Plan, args: &Init, (project, status): (&Path, Status)) -> String {
    let project = safe(&project.to_string_lossy());
    let (obstacle, next) = match plan.obstacle {
        None => (None, format!("next: start `claude` in `{project}` and type `/ralph:goal …`")),
        Some(Obstacle::Unapproved) => {
            (Some("no goal is accepted before `ralph trust`"), "next: `ralph trust`".to_string())
        }
        Some(Obstacle::HooksAreOff) => (
            Some("no agent is held until the problems in the notes are fixed"),
            "next: fix them, then run `ralph doctor`".to_string(),
        ),
    };
    let out = match args.scope {
        _ if args.plugin => "`claude plugin uninstall ralph@ralph` and `ralph uninstall` remove",
        Scope::User => "`ralph uninstall --scope user` removes",
        Scope::Local | Scope::Project => "`ralph uninstall` removes",
    };
    match status {
        Status::Unchanged => match obstacle {
            None => format!("{}\n", paint(term::GOOD, "already set up")),
            Some(obstacle) => {
                format!("already set up, but {}; {next}\n", paint(term::BAD, obstacle))
            }
        },
        Status::Planned => "nothing was written\n".to_string(),
        Status::Written => {
            let mut text = files(&plan.changes);
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
pub(super) fn files(changes: &[Change]) -> String {
    let visible = || changes.iter().filter(|change| change.is_visible());
    let is_command = |change: &&Change| commands::is_one(&change.path);
    let lines = visible()
        .filter(|change| !is_command(change))
        .map(|change| format!("{:<8}`{}`\n", word(change), safe(&change.path.to_string_lossy())));
    let mut out: String = lines.collect();
    if let Some(first) = visible().find(is_command) {
        let count = visible().filter(is_command).count();
        out.push_str(&format!("{:<8}{count} commands\n", word(first)));
    }
    out
}

fn word(change: &Change) -> &'static str {
    match (&change.now, &change.then) {
        (None, _) => "created",
        (Some(_), Some(_)) => "edited",
        (Some(_), None) => "removed",
    }
}

pub(super) fn files_json(changes: &[Change]) -> Vec<FileJson> {
    let visible = changes.iter().filter(|change| change.is_visible());
    let json = visible.map(|change| FileJson {
        path: change.path.display().to_string(),
        change: word(change),
        diff: change.diff(),
    });
    json.collect()
}

fn json<'a>(plan: &'a Plan, args: &Init, (project, status): (&Path, Status)) -> InitJson<'a> {
    let gates = plan.policy.iter().flat_map(|proposed| &proposed.gates);
    let layer = plan::Scope::from(args.scope).layer();
    let other = |foreign: &Foreign| {
        let (kind, what) = match foreign {
            Foreign::Plugin { name, .. } => ("plugin", name.clone()),
            Foreign::Hook { command, .. } => ("hook", command.clone()),
            Foreign::Loop(path) => ("loop", path.display().to_string()),
            Foreign::Rules(path) => ("rules", path.display().to_string()),
        };
        OtherJson { kind, what, replaced: args.replace && foreign.is_within(layer) }
    };
    InitJson {
        v: 1,
        project: project.display().to_string(),
        scope: args.scope,
        status,
        files: files_json(&plan.changes),
        gates: gates
            .map(|(gate, command, program)| GateJson {
                gate,
                command,
                program: program.display().to_string(),
            })
            .collect(),
        others: plan.foreign.iter().map(other).collect(),
        notes: &plan.notes,
    }
}
