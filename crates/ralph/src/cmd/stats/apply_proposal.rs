//! `ralph stats --apply`: changes one value of a policy, after showing the change and asking.

use crate::cmd::init_text;
use crate::failure::CommandFailure;
use crate::term;
use crate::typed_consent;
use ralph_deck::page::stats::{AppliedProposal, PolicyProposal, ProposedEdit, StatsPage};
use ralph_deck::wording::safe_line;
use ralph_home::paths::RalphHome;
use ralph_install::install::file_change;
use ralph_policy::config;
use ralph_policy::policy_edit::{self, EditedTable};
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability};
use std::path::{Path, PathBuf};

const MAX_POLICY_BYTES: usize = 1024 * 1024;

/// A file with the proposed value, not written yet.
struct PlannedEdit {
    path: PathBuf,
    before: Option<Vec<u8>>,
    after: String,
}

/// The proposal to apply.
#[derive(Clone, Copy)]
pub(super) struct ChosenProposal<'a> {
    pub number: usize,
    /// The command that lists the proposals: a number means another one with other options.
    pub command: &'a str,
    pub is_confirmed: bool,
}

pub(super) fn apply(
    home: &RalphHome,
    page: &StatsPage,
    chosen: &ChosenProposal<'_>,
) -> Result<(), CommandFailure> {
    let ChosenProposal { number, command, .. } = *chosen;
    let proposal = page.proposals.iter().find(|one| one.number == number).ok_or_else(|| {
        let what = format!("there is no proposal {number}");
        CommandFailure::new(&what, &format!("`{command}` lists the proposals"))
    })?;
    let planned = plan_edit(home, proposal)?;
    let before = planned.before.as_deref();
    let diff = file_change::unified_diff(&planned.path, before, Some(planned.after.as_bytes()));
    term::out(&format!("{}\n{}\n", safe_line(&proposal.title), safe_line(&proposal.reason)))?;
    term::out(&format!("{}\n", init_text::render_diff(&diff)))?;
    confirm(chosen)?;
    typed_consent::require_while_held(home, "change this setting")?;
    write_edit(&planned)?;
    record(home, proposal)?;
    let next = if proposal.edit.is_user_file {
        "it applies to the next run"
    } else {
        "the policy changed, so its approval lapsed: `ralph trust` shows it and asks"
    };
    term::out(&format!("applied; {next}\n`{command}` compares the runs before and after\n"))?;
    Ok(())
}

fn plan_edit(home: &RalphHome, proposal: &PolicyProposal) -> Result<PlannedEdit, CommandFailure> {
    let ProposedEdit { file, is_user_file, section, gate, key, value, .. } = &proposal.edit;
    let path = if *is_user_file { home.user_config() } else { PathBuf::from(file) };
    let before = fs::read_if_exists(&path, MAX_POLICY_BYTES)?;
    let shown = safe_line(&path.to_string_lossy());
    let text = String::from_utf8(before.clone().unwrap_or_default())
        .map_err(|_| CommandFailure::new(&format!("`{shown}` is not UTF-8"), "edit it yourself"))?;
    let table = gate.as_deref().map_or(EditedTable::Section(section), EditedTable::Gate);
    let after = policy_edit::set_value(&text, table, key, value).map_err(|error| {
        let what = format!("`{shown}` cannot be changed: {error}");
        CommandFailure::new(&what, "a gate of your own `config.toml` is changed there, by hand")
    })?;
    if !is_user_file {
        let project = Path::new(&proposal.project.path);
        config::load_with_text(&config::find_project(project), home, &after)?;
    }
    Ok(PlannedEdit { path, before, after })
}

fn confirm(chosen: &ChosenProposal<'_>) -> Result<(), CommandFailure> {
    let ChosenProposal { number, command, is_confirmed } = *chosen;
    if is_confirmed {
        return Ok(());
    }
    let hint = format!("paste `{command} --apply {number} --yes`");
    if !term::can_ask() {
        let what = "not a terminal, so I can't ask; nothing was written";
        return Err(CommandFailure::untrusted(what, &hint));
    }
    term::out("write this? [y/N] ")?;
    if term::is_confirmed().unwrap_or(false) {
        return Ok(());
    }
    let hint = format!("`{command} --apply {number}` asks again");
    Err(CommandFailure::chosen("nothing was written", &hint))
}

/// Writes the file if it still has the content that was shown.
fn write_edit(planned: &PlannedEdit) -> Result<(), CommandFailure> {
    let PlannedEdit { path, before, after } = planned;
    let is_same = fs::read_if_exists(path, MAX_POLICY_BYTES)? == *before;
    let is_written = match before {
        None => fs::create_new_user_file(path, after.as_bytes())?,
        Some(_) if is_same => {
            fs::replace_user_file(path, after.as_bytes())?;
            true
        }
        Some(_) => false,
    };
    if is_written {
        return Ok(());
    }
    let what =
        format!("`{}` was just changed by another process", safe_line(&path.to_string_lossy()));
    Err(CommandFailure::new(&what, "run the command again"))
}

fn record(home: &RalphHome, proposal: &PolicyProposal) -> Result<(), CommandFailure> {
    let path = home.applied_proposals();
    if let Some(directory) = path.parent() {
        fs::create_private_dir(directory)?;
    }
    let line = crate::cmd::json_line(&AppliedProposal::new(proposal, clock::now_ms()));
    fs::append(&path, line.as_bytes(), Durability::Synced)?;
    Ok(())
}
