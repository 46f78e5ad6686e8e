//! What the agent may do: before a run whose flags allow nothing, and after tool calls were denied.

use ralph_core::text;
use ralph_deck::wording::safe_line;
use ralph_drive::run_event::DeniedTool;
use ralph_home::world::World;
use ralph_host::HostProfile;
use ralph_install::install::settings_layers::{self, SettingsLayerState};
use ralph_policy::{config, trust};
use std::path::Path;

const MAX_SHOWN_TOOLS: usize = 6;

/// What lets the agent of a new run edit files. No person is there to answer its permission prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EditPermission {
    /// The person's flags.
    Flags,
    /// The permission mode of the client's own settings.
    Settings(String),
    /// An earlier answer for the same project.
    Project,
    /// Nothing; a person can allow it before the start.
    Open,
}

impl EditPermission {
    pub(super) fn find(
        world: &World,
        host: &HostProfile,
        project: &Path,
        flags: &[String],
    ) -> Self {
        if decide_edits(host, flags) {
            return Self::Flags;
        }
        let layers = settings_layers::read_layers(&world.env, host, project);
        let mut modes = layers.into_iter().filter_map(|layer| match layer.state {
            SettingsLayerState::Read(settings) => settings.permissions.default_mode,
            SettingsLayerState::Missing | SettingsLayerState::Broken(_) => None,
        });
        // The last layer has the highest precedence.
        match modes.next_back() {
            Some(mode) if mode != "default" => Self::Settings(mode),
            Some(_) | None => {
                let is_allowed =
                    trust::are_edits_allowed(&world.home, &config::find_project(project));
                if is_allowed { Self::Project } else { Self::Open }
            }
        }
    }

    /// One line about it, for the plan.
    pub(super) fn describe(&self, host: &HostProfile) -> String {
        let rest = "anything else as its settings allow";
        match self {
            Self::Flags => "does what your flags and its settings allow".to_string(),
            Self::Settings(mode) => {
                format!("has the permission mode `{}` of its settings", safe_line(mode))
            }
            Self::Project | Self::Open => {
                format!("may edit files here (`{}`), {rest}", host.flags.allow_edits)
            }
        }
    }
}

/// The flags that let the agent edit files.
pub(super) fn edit_flags(host: &HostProfile) -> impl Iterator<Item = String> {
    host.flags.allow_edits.split_whitespace().map(str::to_owned)
}

fn decide_edits(host: &HostProfile, flags: &[String]) -> bool {
    host.flags.decide_edits(flags, host.tools.edit_tools)
}

/// The note before a run whose flags do not decide about edits: no person is there to answer permission prompts.
pub(super) fn no_permissions_note(host: &HostProfile, flags: &[String]) -> Option<String> {
    let edits = host.flags.allow_edits;
    if decide_edits(host, flags) {
        return None;
    }
    Some(if host.flags.grant_anything(flags) {
        format!(
            "no flag lets the agent edit files: edits that its own settings do not allow are denied; `-- {edits}` lets it edit"
        )
    } else {
        format!(
            "no flag gives the agent permissions: whatever its own settings do not allow, such as edits, is denied; `-- {edits}` lets it edit"
        )
    })
}

/// The denied tool calls, and the flags that would allow them.
pub(super) fn denied_text(host: &HostProfile, denied: &[DeniedTool]) -> Option<String> {
    let count = denied.iter().fold(0, |sum: u64, one| sum.saturating_add(one.count.into()));
    if count == 0 {
        return None;
    }
    let (edit_tools, flags) = (host.tools.edit_tools, &host.flags);
    let is_editing = |one: &&DeniedTool| edit_tools.contains(&one.tool.as_str());
    let names: Vec<_> = denied.iter().map(|one| safe_line(&one.tool)).collect();
    let more = names.len().saturating_sub(MAX_SHOWN_TOOLS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = names.get(..MAX_SHOWN_TOOLS).unwrap_or(&names).join(", ");
    let edits = denied.iter().any(|one| is_editing(&one));
    let others: Vec<_> = denied.iter().filter(|one| !is_editing(one)).collect();
    let others = match others.as_slice() {
        [] => None,
        [one] => {
            let tool = safe_line(&one.tool);
            Some(format!("`-- {} {tool}` allows {tool}", flags.allow_tools))
        }
        [..] => Some(format!("`-- {} …` allows the others", flags.allow_tools)),
    };
    let edits = edits.then(|| format!("`-- {}` lets it edit", flags.allow_edits));
    let how: Vec<_> = edits.into_iter().chain(others).collect();
    let (calls, were) =
        (text::count_noun(count, "tool call"), if count == 1 { "was" } else { "were" });
    Some(format!("{calls} {were} not permitted: {shown}{more}; {}", how.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_calls_name_the_flags_that_allow_them() {
        let of = |denied: &[(&str, u32)]| {
            let one =
                |(tool, count): &(&str, u32)| DeniedTool { tool: (*tool).into(), count: *count };
            denied_text(ralph_host::default_host(), &denied.iter().map(one).collect::<Vec<_>>())
                .unwrap_or_default()
        };
        let texts = [
            of(&[]),
            of(&[("Edit", 1)]),
            of(&[("Bash", 1), ("Edit", 2)]),
            of(&[("Bash\u{1b}[31m", 1)]),
            of(&[("A", 1), ("B", 1), ("C", 1), ("D", 1), ("E", 1), ("F", 1), ("Write", u32::MAX)]),
        ];
        insta::assert_snapshot!(texts.join("\n"), @"

        1 tool call was not permitted: Edit; `-- --permission-mode acceptEdits` lets it edit
        3 tool calls were not permitted: Bash, Edit; `-- --permission-mode acceptEdits` lets it edit, `-- --allowedTools Bash` allows Bash
        1 tool call was not permitted: Bash; `-- --allowedTools Bash` allows Bash
        4294967301 tool calls were not permitted: A, B, C, D, E, F and 1 more; `-- --permission-mode acceptEdits` lets it edit, `-- --allowedTools …` allows the others
        ");
    }

    #[test]
    fn note_appears_only_without_granting_flags() {
        let note = |flags: &[&str]| {
            let flags: Vec<_> = flags.iter().map(ToString::to_string).collect();
            no_permissions_note(ralph_host::default_host(), &flags)
        };
        let has_note = |flags: &[&str]| note(flags).is_some();
        for silent in [
            &["--permission-mode", "acceptEdits"][..],
            &["--permission-mode=plan"],
            &["--debug", "--allowedTools", "Bash(git *)", "Edit"],
            &["--allowedTools", "Bash(git *), Write(src/**)"],
            &["--allowed-tools=Edit"],
            &["--dangerously-skip-permissions"],
        ] {
            assert!(!has_note(silent), "{silent:?}");
        }
        for noted in [
            &[][..],
            &["--debug"],
            &["--disallowedTools", "Edit"],
            &["--allowedTools", "Bash(ralph ask *)"],
            &["--allowed-tools=Bash(echo Edit now)", "--add-dir", "Edit"],
        ] {
            assert!(has_note(noted), "{noted:?}");
        }
        let granted = note(&["--allowedTools", "Bash(ralph ask *)"]).unwrap_or_default();
        insta::assert_snapshot!(granted, @"no flag lets the agent edit files: edits that its own settings do not allow are denied; `-- --permission-mode acceptEdits` lets it edit");
    }
}
