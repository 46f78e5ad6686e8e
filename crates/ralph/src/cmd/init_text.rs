//! The text that `ralph init` and `ralph uninstall` show: what would change, and what did.

use super::init::{InitArgs, InstallStatus, ScopeArg};
use crate::term::{self, paint};
use ralph_core::policy::SessionGates;
use ralph_core::sealed_file::SealedFile;
use ralph_core::text;
use ralph_deck::wording::{self, safe_line};
use ralph_install::install::file_change::InstallChange;
use ralph_install::install::foreign_setups::ForeignSetup;
use ralph_install::install::install_plan::{self, InstallObstacle, InstallPlan, ProposedPolicy};
use ralph_install::install::slash_commands;
use std::path::Path;

pub(super) fn render_init_plan(plan: &InstallPlan, args: &InitArgs, project: &Path) -> String {
    let mut out = format!("{}\n", paint(term::BOLD, &safe_line(&project.to_string_lossy())));
    out.push_str(&if args.dry_run {
        render_diffs(&plan.changes)
    } else {
        render_summary(plan, project)
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
fn render_summary(plan: &InstallPlan, project: &Path) -> String {
    let is_command = |change: &&InstallChange| slash_commands::is_command_file(&change.path);
    let files = plan.changes.iter().filter(|change| change.is_visible() && !is_command(change));
    let line = |change: &InstallChange| {
        let verb = change_verb(change);
        let path = change.path.strip_prefix(project).unwrap_or(&change.path);
        let is_policy = plan.policy.as_ref().is_some_and(|policy| policy.path == change.path);
        let purpose = match (is_policy, plan.sessions) {
            (true, Some(SessionGates::Every)) => "gates for every session, and for goals",
            (true, Some(SessionGates::Goal) | None) => "gates for sessions with a goal",
            (false, _) => "hooks that call ralph",
        };
        format!("{verb:<8}{:<32}{purpose}\n", safe_line(&path.to_string_lossy()))
    };
    let mut out = String::from("\n");
    out.extend(files.map(line));
    let commands = || plan.changes.iter().filter(|it| it.is_visible() && is_command(it));
    if let Some(first) = commands().next() {
        let count = text::count_noun(commands().count(), "slash command");
        let (verb, directory) = (change_verb(first), command_directory(first));
        out.push_str(&format!("{verb:<8}{count:<32}/ralph:goal … in {directory}\n"));
    }
    if out.len() == 1 { String::new() } else { out }
}

fn change_verb(change: &InstallChange) -> &'static str {
    match (&change.current_content, &change.new_content) {
        (_, None) => "remove",
        (None, Some(_)) => "create",
        (Some(_), Some(_)) => "edit",
    }
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
        out.push_str(&render_diff(&change.diff()));
    }
    out
}

/// A unified diff in colour, without control characters.
pub(super) fn render_diff(diff: &str) -> String {
    let lines = diff.lines().map(|line| {
        let line = text::reveal(line.trim_end_matches('\r'));
        let line = match line.as_bytes().first() {
            Some(b'+') => paint(term::GOOD, &line),
            Some(b'-') => paint(term::BAD, &line),
            Some(b'@') => paint(term::DIM, &line),
            Some(_) | None => line,
        };
        format!("{line}\n")
    });
    lines.collect()
}

/// The client's directory of commands, which is outside of the project.
fn command_directory(change: &InstallChange) -> String {
    let directory = change.path.ancestors().find(|path| path.ends_with("commands"));
    safe_line(&directory.unwrap_or(&change.path).to_string_lossy())
}

/// The slash commands, by name only: their texts come with ralph, and the JSON has them in full.
fn render_commands(changes: &[InstallChange]) -> String {
    let visible = || {
        changes
            .iter()
            .filter(|change| change.is_visible() && slash_commands::is_command_file(&change.path))
    };
    let Some(first) = visible().next() else { return String::new() };
    let directory = command_directory(first);
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

pub(super) fn result_text(
    plan: &InstallPlan,
    args: &InitArgs,
    project: &Path,
    status: InstallStatus,
) -> String {
    let project = safe_line(&project.to_string_lossy());
    let program = args.host.profile().program;
    let (obstacle, next) = match plan.obstacle {
        None if plan.sessions == Some(SessionGates::Every) => (
            None,
            format!("next: start `{program}` in `{project}` and work, or type `/ralph:goal …`"),
        ),
        None => (None, format!("next: start `{program}` in `{project}` and type `/ralph:goal …`")),
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
            None => {
                let gates = if plan.sessions.is_some() { "; gates" } else { "" };
                let sessions = held_sessions(plan.sessions);
                format!("{}{gates}{sessions}\n", paint(term::GOOD, "already set up"))
            }
            Some(obstacle) => {
                format!("already set up, but {}; {next}\n", paint(term::BAD, obstacle))
            }
        },
        InstallStatus::Planned => "nothing was written\n".to_string(),
        InstallStatus::Written => {
            let mut text = file_lines(&plan.changes);
            if plan.policy.is_some() {
                text.push_str("approved; any change of a gate needs a new approval\n");
            } else if let Some(sessions) = plan.sessions {
                text.push_str(&format!("gates{}\n", held_sessions(Some(sessions))));
            }
            if let Some(obstacle) = obstacle {
                text.push_str(&format!("{}\n", paint(term::BAD, obstacle)));
            }
            text.push_str(&format!("{next}; {out} all of it\n"));
            text
        }
    }
}

/// The mode that is in force.
fn held_sessions(sessions: Option<SessionGates>) -> &'static str {
    match sessions {
        Some(SessionGates::Every) => ": they hold every session (`[session] gates = \"every\"`)",
        Some(SessionGates::Goal) => {
            ": they hold only sessions with a goal (`[session] gates = \"goal\"`)"
        }
        None => "",
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
        let count = text::count_noun(count, "command");
        out.push_str(&format!("{:<8}{count}\n", change_word(first)));
    }
    out
}

pub(super) fn change_word(change: &InstallChange) -> &'static str {
    match (&change.current_content, &change.new_content) {
        (None, _) => "created",
        (Some(_), Some(_)) => "edited",
        (Some(_), None) => "removed",
    }
}
