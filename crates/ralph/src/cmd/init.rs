//! `ralph init`: into the agent's settings, after a person saw all of it.

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

/// An answer is a word.
const LONGEST_ANSWER: u64 = 100;

/// What git should leave alone.
const PERSONAL: &str = ".claude/settings.local.json";

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph init
  ralph init --dry-run
  ralph init --scope user --no-gates
  ralph init --yes --replace --json

Nothing is written before all of it was shown and somebody said yes. The hooks name ralph by its
absolute path, which is right on one machine only: so they go to a file of your own in the
project, unless `--scope` says otherwise. `ralph uninstall` brings back every byte.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct Init {
    /// Whose settings: yours in this project, yours everywhere, or everybody's in this project
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = Scope::Local)]
    pub scope: Scope,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Only show what would change
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Only the hooks that a run cannot do without: no guard, no tasks, no compaction
    #[arg(long)]
    pub minimal: bool,
    /// The plugin has the hooks: only approve the gates, raise the client's limit, and let the plugin find ralph
    #[arg(long, conflicts_with_all = ["minimal", "warm"])]
    pub plugin: bool,
    /// Run gates in the background after edits, so that a stop finds their results
    #[arg(long)]
    pub warm: bool,
    /// Show the run in the client's status line, if it has none
    #[arg(long)]
    pub statusline: bool,
    /// Take out the loop plugin and the stop hooks of others that were found; `ralph uninstall` brings them back
    #[arg(long)]
    pub replace: bool,
    /// Propose no `ralph.toml`
    #[arg(long)]
    pub no_gates: bool,
    /// The project; by default the nearest directory upwards that has a policy, or the repository
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object, and do not ask
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// `.claude/settings.local.json` of the project
    Local,
    /// `settings.json` in `~/.claude`
    User,
    /// `.claude/settings.json` of the project, which git shares
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
            Some(_) => "write this, and let these gates run? [y/N] ",
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
    let mut said: Vec<_> = noted(late.as_slice()).collect();
    said.push(written(&plan, args, (&project, status)));
    term::out(&said.join("\n"))?;
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

/// What judges the agent is not the agent's to install or to take out.
pub(super) fn person_only(env: &Env, dry_run: bool) -> Result<(), Failure> {
    if caller(env) == Caller::Agent && !dry_run {
        let hint =
            "ask a person to do this in their own terminal; `--dry-run` shows what it would be";
        return Err(Failure::new("the agent may not install or remove what judges it", hint));
    }
    Ok(())
}

/// Without symbolic links: what is remembered of its files is kept by their names.
pub(super) fn project(env: &Env, named: Option<&Path>) -> Result<PathBuf, Failure> {
    let project = super::config::project(env, named)?;
    Ok(fs::resolve(&project).unwrap_or(project))
}

pub(super) struct Asking {
    pub(super) yes: bool,
    pub(super) json: bool,
    pub(super) command: &'static str,
}

/// The one question.
pub(super) fn confirm(asking: &Asking, question: &str) -> Result<(), Failure> {
    if asking.yes {
        return Ok(());
    }
    if asking.json || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let hint = "`--dry-run` shows what would change, `--yes` does it";
        return Err(Failure::new("nobody is here to ask, so nothing was written", hint));
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

/// Every line that changes, but not of a file that goes.
pub(super) fn diffs(changes: &[Change]) -> String {
    let mut out = typed(changes);
    let others = changes.iter().filter(|change| !commands::is_one(&change.path));
    for change in others.filter(|change| change.is_visible()) {
        out.push('\n');
        if change.then.is_none() {
            let path = safe(&change.path.to_string_lossy());
            out.push_str(&format!(
                "{} `{path}`, which `ralph init` made\n",
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

/// The commands that a person can type are told by their names: their texts are ralph's own, and whole in the JSON.
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

/// What a yes lets run, as `ralph trust` shows it.
pub(super) fn gates(proposed: &Proposed) -> String {
    if proposed.gates.is_empty() {
        return "\nno gates that could run yet\n".to_string();
    }
    let mut out = "\ngates run\n".to_string();
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
            let what = format!("plugin `{}`, on in the {} settings", safe(name), by.name());
            match (is_within, args.replace) {
                (false, _) => format!("{what}, which say more than these: switch it off there"),
                (true, false) => format!("{what}; `--replace` switches it off"),
                (true, true) => what,
            }
        }
        Foreign::Hook { event, command, .. } => {
            let offer = if args.replace { "" } else { "; `--replace` takes it out" };
            format!("hook at {} `{}`{offer}", safe(event), safe(command))
        }
        Foreign::Loop(path) => {
            let path = safe(&path.to_string_lossy());
            format!("a loop under way in `{path}`: `/cancel-ralph` in its session ends it")
        }
        Foreign::Rules(path) => {
            format!("rules of hookify in `{}`, which stay in force", safe(&path.to_string_lossy()))
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
            (Some("no goal is taken before `ralph trust`"), "next: `ralph trust`".to_string())
        }
        Some(Obstacle::HooksAreOff) => (
            Some("nobody is held before what the notes say is mended"),
            "next: mend it, then `ralph doctor`".to_string(),
        ),
    };
    let out = match args.scope {
        _ if args.plugin => "`claude plugin uninstall ralph@ralph` and `ralph uninstall` take",
        Scope::User => "`ralph uninstall --scope user` takes",
        Scope::Local | Scope::Project => "`ralph uninstall` takes",
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
                text.push_str("approved; a change of any gate asks again\n");
            }
            if let Some(obstacle) = obstacle {
                text.push_str(&format!("{}\n", paint(term::BAD, obstacle)));
            }
            text.push_str(&format!("{next}; {out} all of it out again\n"));
            text
        }
    }
}

/// What was done to each file.
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
