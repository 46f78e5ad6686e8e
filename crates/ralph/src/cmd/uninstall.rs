//! `ralph uninstall`: removes ralph from the agent's settings and restores the files that `ralph init` changed.

use super::init::{self, Asking, FileJson, Scope, Status};
use super::{home, print_json};
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::safe;
use clap::Args;
use ralph_install::install::change::{self, Change};
use ralph_install::install::plan::{self, Ground, KeepPolicy, Plan};
use ralph_policy::{config, trust};
use ralph_sys::env::Env;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph uninstall
  ralph uninstall --scope user --yes
  ralph uninstall --dry-run --keep-policy

Restores every file that you have not touched since `ralph init`, byte
for byte. From any other file, removes only ralph's entries. Runs and
their journals stay in `~/.ralph`.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub(crate) struct Uninstall {
    /// Choose whose settings [default: both files of this project]
    #[arg(long, value_name = "SCOPE", value_enum)]
    pub scope: Option<Scope>,
    /// Don't ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Keep the `ralph.toml` that `ralph init` wrote
    #[arg(long)]
    pub keep_policy: bool,
    /// Use this project [default: nearest parent with a policy, or the repo]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object, and don't ask
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct UninstallJson<'a> {
    v: u8,
    project: String,
    status: Status,
    files: Vec<FileJson>,
    /// How many approvals of the policy were revoked.
    revoked: usize,
    /// The directory of runs and journals, which stays.
    kept: String,
    notes: &'a [String],
}

pub(crate) fn run(env: &Env, args: &Uninstall) -> Result<(), Failure> {
    init::person_only(env, args.dry_run)?;
    let home = home(env)?;
    let project = init::project(env, args.project.as_deref())?;
    let ground = Ground { env, home: &home, project: &project };
    let scopes = match args.scope {
        Some(scope) => vec![scope.into()],
        None => vec![plan::Scope::Project, plan::Scope::Local],
    };
    let keep = if args.keep_policy { KeepPolicy::Yes } else { KeepPolicy::No };
    let plan = plan::uninstall(&ground, &scopes, keep)?;
    let status = match (plan.changes.iter().any(Change::is_visible), args.dry_run) {
        (false, _) => Status::Unchanged,
        (true, true) => Status::Planned,
        (true, false) => Status::Written,
    };
    if !args.json {
        term::out(&shown(&plan, &project))?;
    }
    let mut revoked = 0;
    if !args.dry_run {
        if status == Status::Written {
            let asking = Asking { yes: args.yes, json: args.json, command: "uninstall" };
            init::confirm(&asking, "remove this? [y/N] ")?;
        }
        change::apply(&home, &plan.changes)?;
        if removes_policy(&plan) {
            revoked = trust::revoke(&home, &project)?;
        }
    }
    let kept = home.root().display().to_string();
    if args.json {
        print_json(&UninstallJson {
            v: 1,
            project: project.display().to_string(),
            status,
            files: init::files_json(&plan.changes),
            revoked,
            kept,
            notes: &plan.notes,
        })?;
        return Ok(());
    }
    let text = match status {
        Status::Unchanged => "ralph is not in the settings of this project\n".to_string(),
        Status::Planned => "nothing was written\n".to_string(),
        Status::Written => {
            let files = init::files(&plan.changes);
            let revoked = if revoked > 0 { "its gates are no longer approved\n" } else { "" };
            format!("{files}{revoked}runs and their journals stay in `{}`\n", safe(&kept))
        }
    };
    term::out(&text)?;
    Ok(())
}

fn removes_policy(plan: &Plan) -> bool {
    let is_policy = |path: &Path| path.file_name().is_some_and(|name| name == config::NAMES[0]);
    plan.changes.iter().any(|change| is_policy(&change.path) && change.then.is_none())
}

fn shown(plan: &Plan, project: &Path) -> String {
    let mut out = format!("{}\n", paint(term::BOLD, &safe(&project.to_string_lossy())));
    out.push_str(&init::diffs(&plan.changes));
    let notes: Vec<_> = init::noted(&plan.notes).collect();
    if !notes.is_empty() {
        out.push_str(&format!("\n{}\n", notes.join("\n")));
    }
    if plan.changes.iter().any(Change::is_visible) {
        out.push('\n');
    }
    out
}
