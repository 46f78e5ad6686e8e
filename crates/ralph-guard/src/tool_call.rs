//! Judges what a tool call would touch.

use super::denial_text::deny;
use super::guarded_path::PathUse;
use super::loosening::{is_person_command, person_command};
use super::script_walk::{ShellState, TOKEN_BUDGET, judge_shell_script};
use super::word_expansion::WordSpelling;
use super::{DeniedCall, GuardContext, GuardScope, GuardTarget, GuardedCall, prescan};
use alloc::borrow::Cow;
use alloc::format;
use core::cell::Cell;
use ralph_host::tool_effect::{FileAccess, ToolEffect};

/// Longer commands are judged by their beginning.
const MAX_COMMAND_BYTES: usize = 2 << 20;

/// Why this call must be denied; `None` if it is allowed.
pub fn judge_call(call: &GuardedCall<'_>, ground: &GuardContext<'_>) -> Option<DeniedCall> {
    match (ground.host.tools.parse_call)(call.tool, call.input)? {
        ToolEffect::RunsScript(script) => judge_command_text(&script, ground),
        ToolEffect::TouchesFiles { paths, access } => {
            let touch = match access {
                FileAccess::Read => PathUse::Read,
                FileAccess::Write => PathUse::Write,
                FileAccess::Remove => PathUse::Remove,
            };
            paths.iter().find_map(|path| judge_file(path, touch, call.tool, ground))
        }
        ToolEffect::SendsPrompt { skill, texts } => {
            judge_prompt(skill.as_deref(), &texts, call.tool, ground)
        }
    }
}

fn judge_command_text(script: &str, ground: &GuardContext<'_>) -> Option<DeniedCall> {
    let end = script.len().min(MAX_COMMAND_BYTES);
    let end = (0..=end).rev().find(|end| script.is_char_boundary(*end))?;
    let script = script.get(..end)?;
    if !prescan::needs_parsing(script, ground.ralph_homes) {
        return None;
    }
    judge_shell_script(script, &mut ShellState::new(ground, &Cell::new(TOKEN_BUDGET)))
}

fn judge_file(
    path: &str,
    touch: PathUse,
    tool: &str,
    ground: &GuardContext<'_>,
) -> Option<DeniedCall> {
    let mut spelling = WordSpelling::literal(path);
    if let (Some(rest), Some(home)) = (path.strip_prefix("~/"), ground.user_home) {
        spelling = WordSpelling::literal(&format!("{home}/{rest}"));
    }
    ShellState::new(ground, &Cell::new(TOKEN_BUDGET)).objection(touch, &[spelling], tool)
}

/// A skill or a prompt may be a command that only a person may give (R-S6b).
fn judge_prompt(
    skill: Option<&str>,
    texts: &[Cow<'_, str>],
    tool: &str,
    ground: &GuardContext<'_>,
) -> Option<DeniedCall> {
    if ground.scope == GuardScope::HomeOnly {
        return None;
    }
    let skill = skill.filter(|skill| is_person_command(skill.trim().trim_start_matches('/')));
    let typed = || texts.iter().find_map(|text| person_command(text.trim_start()));
    let named = skill.or_else(typed)?;
    let named = format!("/{}", named.trim().trim_start_matches('/'));
    Some(deny(GuardTarget::PersonCommand, tool, &named))
}
