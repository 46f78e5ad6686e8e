//! `ralph uninstall`: removes ralph from the agent's settings and restores the files that `ralph init` changed. Says what
//! stays, and removes that too with `--all`.

use super::init::{self, ConfirmationOptions, InstallFileJson, InstallStatus, ScopeArg};
use super::init_text;
use super::uninstall_leftovers::{self, ProjectLeftovers, StayingItems};
use super::{clean, open_home, print_json};
use crate::failure::CommandFailure;
use crate::host_arg::HostArg;
use crate::term::{self, paint};
use crate::typed_consent;
use clap::Args;
use ralph_deck::wording::safe_line;
use ralph_hook::clean::RemovalSummary;
use ralph_install::install::file_change::{self, InstallChange};
use ralph_install::install::install_plan::{self, InstallContext, InstallPlan, KeepPolicy};
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
  ralph uninstall --all

Restores every file that you have not touched since `ralph init`, byte
for byte. From any other file, removes only ralph's entries. Runs, refs
and caches stay, and are listed with the command that removes each.
With `--all` they go too: the runs of this project, its refs below
`refs/ralph/`, a `ralph.toml` as `ralph run --yes` writes it, and the
cached results. Work trees with work that is not merged stay.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub(crate) struct UninstallArgs {
    /// Choose whose settings [default: both files of this project]
    #[arg(long, value_name = "SCOPE", value_enum)]
    pub scope: Option<ScopeArg>,
    /// Don't ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Keep the `ralph.toml` that `ralph init` wrote
    #[arg(long)]
    pub keep_policy: bool,
    /// Remove the runs, refs and caches too; ends runs of this project
    #[arg(long)]
    pub all: bool,
    /// Use this project [default: nearest parent with a policy, or the repo]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    #[command(flatten)]
    pub host: HostArg,
    /// Print one JSON object, and don't ask
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct UninstallJson<'a> {
    v: u8,
    project: String,
    status: InstallStatus,
    files: Vec<InstallFileJson>,
    /// How many approvals of the policy were revoked.
    revoked: usize,
    /// The directory of runs and journals, which stays.
    kept: String,
    /// What else stays, and the command that removes it.
    stays: Vec<StayingItems>,
    /// What `--all` removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<usize>,
    notes: &'a [String],
}

pub(crate) fn run(env: &Env, args: &UninstallArgs) -> Result<(), CommandFailure> {
    init::require_person(env, args.dry_run)?;
    let home = open_home(env)?;
    let project = init::resolved_project(env, args.project.as_deref())?;
    let host = args.host.profile();
    let context = InstallContext { env, host, home: &home, project: &project };
    let scopes = match args.scope {
        Some(scope) => vec![scope.into()],
        None => vec![install_plan::InstallScope::Project, install_plan::InstallScope::Local],
    };
    let keep = if args.keep_policy { KeepPolicy::Yes } else { KeepPolicy::No };
    let plan = install_plan::plan_uninstall(&context, &scopes, keep)?;
    let status = match (plan.changes.iter().any(InstallChange::is_visible), args.dry_run) {
        (false, _) => InstallStatus::Unchanged,
        (true, true) => InstallStatus::Planned,
        (true, false) => InstallStatus::Written,
    };
    if !args.json {
        term::out(&render_uninstall_plan(&plan, &project))?;
    }
    let keeps_policy = !removes_policy(&plan);
    let named = args.project.as_deref();
    let leftovers = || ProjectLeftovers::find(env, &home, &project, named, keeps_policy);
    let refusal = "nothing was changed";
    let asking =
        ConfirmationOptions { yes: args.yes, json: args.json, command: "uninstall", refusal };
    let mut done = UninstallDone::default();
    if !args.dry_run {
        if args.all {
            let found = leftovers()?;
            if !args.json {
                let items = found.items();
                term::out(&uninstall_leftovers::render_removals(&items))?;
            }
            init::confirm(&asking, "remove this and everything above? [y/N] ")?;
            typed_consent::require_while_held(&home, "end it and remove its records")?;
        } else if status == InstallStatus::Written {
            init::confirm(&asking, "remove this? [y/N] ")?;
        }
        file_change::apply_changes(&home, &plan.changes)?;
        if removes_policy(&plan) {
            done.revoked = trust::revoke_approvals(&home, &project)?;
        }
        if args.all {
            done.removed = Some(leftovers()?.remove()?);
        }
    }
    let left = leftovers()?;
    let (staying, all_command) = (left.items(), left.all_command());
    let kept = home.root().display().to_string();
    if args.json {
        print_json(&UninstallJson {
            v: 1,
            project: project.display().to_string(),
            status,
            files: init::files_json(&plan.changes),
            revoked: done.revoked,
            kept,
            stays: staying,
            removed: done.removed.as_ref().map(|summary| summary.removed),
            notes: &plan.notes,
        })?;
    } else {
        term::out(&render_done(&plan, status, &done))?;
        term::out(&match &done.removed {
            Some(summary) => uninstall_leftovers::render_removed(summary, &staying, &kept),
            None => uninstall_leftovers::render_staying(&staying, &all_command, &kept),
        })?;
    }
    done.removed.map_or(Ok(()), |summary| clean::report_failures(&summary, args.json))
}

#[derive(Default)]
struct UninstallDone {
    revoked: usize,
    /// With `--all`.
    removed: Option<RemovalSummary>,
}

fn render_done(plan: &InstallPlan, status: InstallStatus, done: &UninstallDone) -> String {
    match status {
        InstallStatus::Unchanged => "ralph is not in the settings of this project\n".to_string(),
        InstallStatus::Planned => "nothing was changed\n".to_string(),
        InstallStatus::Written => {
            let files = init_text::file_lines(&plan.changes);
            let revoked = if done.revoked > 0 { "its gates are no longer approved\n" } else { "" };
            format!("{files}{revoked}")
        }
    }
}

fn removes_policy(plan: &InstallPlan) -> bool {
    let is_policy =
        |path: &Path| path.file_name().is_some_and(|name| name == config::POLICY_FILE_NAMES[0]);
    plan.changes.iter().any(|change| is_policy(&change.path) && change.new_content.is_none())
}

fn render_uninstall_plan(plan: &InstallPlan, project: &Path) -> String {
    let mut out = format!("{}\n", paint(term::BOLD, &safe_line(&project.to_string_lossy())));
    out.push_str(&init_text::render_diffs(&plan.changes));
    let notes: Vec<_> = init_text::note_lines(&plan.notes).collect();
    if !notes.is_empty() {
        out.push_str(&format!("\n{}\n", notes.join("\n")));
    }
    if plan.changes.iter().any(InstallChange::is_visible) {
        out.push('\n');
    }
    out
}
