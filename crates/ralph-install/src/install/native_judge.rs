//! The client's own stop hook that asks a model. `ralph init --native-judge` writes it beside ralph's hooks, for people
//! who want it; ralph never reads its verdict.
//!
//! The hook runs no command, so it is recognized by a mark in its prompt. A person may edit the rest of the prompt.

use super::jsonc::SettingsTextError;
use super::settings_document::{SettingsDocument, SettingsPathStep};
use ralph_host::HostProfile;
use ralph_host::client_settings::{HookOccurrence, NativeJudgeEntry, NativeJudgeKind};

/// Ends both presets.
const PROMPT_MARK: &str = "ralph init --native-judge";
const PROMPT_PRESET: &str = include_str!("../../presets/native-judge-prompt.txt");
const AGENT_PRESET: &str = include_str!("../../presets/native-judge-agent.txt");
/// What the client shows while it waits for the model.
const STATUS_MESSAGE: &str = "the client's own judge is reading";
/// Longer than the client's defaults, because at a timeout it lets the agent stop and says nothing.
const PROMPT_TIMEOUT_SECS: u32 = 60;
const AGENT_TIMEOUT_SECS: u32 = 180;

/// Whether the settings get the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeJudgeChoice {
    /// One of an earlier installation stays.
    Keep,
    Write(NativeJudgeKind),
    Remove,
}

/// Whether this is the prompt of a hook that `ralph init` wrote.
pub fn is_native_judge(kind: Option<&str>, prompt: Option<&str>) -> bool {
    let is_asked = NativeJudgeKind::ALL.iter().any(|known| Some(known.name()) == kind);
    is_asked && prompt.is_some_and(|prompt| prompt.contains(PROMPT_MARK))
}

pub(super) fn is_native_judge_hook(hook: &HookOccurrence) -> bool {
    is_native_judge(hook.kind.as_deref(), hook.prompt.as_deref())
}

/// The hook to write, if any. A prompt that a person edited stays, as long as the type does.
pub(super) fn wanted_judge(
    host: &HostProfile,
    current: &[u8],
    choice: NativeJudgeChoice,
) -> Option<NativeJudgeEntry> {
    let installed = || find_installed_judge(host, current);
    match choice {
        NativeJudgeChoice::Remove => None,
        NativeJudgeChoice::Keep => installed(),
        NativeJudgeChoice::Write(kind) => Some(
            installed().filter(|judge| judge.kind == kind).unwrap_or_else(|| preset(host, kind)),
        ),
    }
}

fn find_installed_judge(host: &HostProfile, bytes: &[u8]) -> Option<NativeJudgeEntry> {
    let document = SettingsDocument::read(bytes).ok()?;
    let hooks = (host.settings.find_hooks)(&document.value());
    let hook = hooks.into_iter().find(is_native_judge_hook)?;
    let kind =
        NativeJudgeKind::ALL.into_iter().find(|kind| Some(kind.name()) == hook.kind.as_deref())?;
    Some(NativeJudgeEntry { prompt: hook.prompt?, ..preset(host, kind) })
}

pub(super) fn preset(host: &HostProfile, kind: NativeJudgeKind) -> NativeJudgeEntry {
    let (prompt, timeout) = match kind {
        NativeJudgeKind::Prompt => (PROMPT_PRESET, PROMPT_TIMEOUT_SECS),
        NativeJudgeKind::Agent => (AGENT_PRESET, AGENT_TIMEOUT_SECS),
    };
    NativeJudgeEntry {
        event: host.hooks.session_stop(),
        kind,
        prompt: prompt.trim().to_string(),
        timeout,
        status_message: STATUS_MESSAGE,
    }
}

/// The cost of the hook and the value of its answers, shown before it is added.
pub(super) fn native_judge_notes(kind: NativeJudgeKind) -> Vec<String> {
    let cost = match kind {
        NativeJudgeKind::Prompt => {
            "the native judge sends the whole conversation to a model at every stop: 46,000 tokens a call in one \
             measurement"
        }
        NativeJudgeKind::Agent => {
            "the native judge is an agent of its own at every stop: up to 50 answers and tool calls, with your session's \
             model; it can read files, but not run your tests"
        }
    };
    [
        cost,
        "it can be persuaded: a false claim passed on the second try in 2 of 3 measured runs",
        "it fails open: after an unreadable answer, an API error or a timeout the agent may stop",
        "its answer is never evidence for ralph, which always runs its own gates; `ralph init \
         --native-judge=off` removes it",
    ]
    .map(str::to_string)
    .into()
}

/// Refuses a file in which the hook could not be added.
pub(super) fn check_judge_list(
    host: &HostProfile,
    document: &SettingsDocument,
    judge: Option<&NativeJudgeEntry>,
) -> Result<(), SettingsTextError> {
    let Some(judge) = judge else { return Ok(()) };
    let hooks = host.settings.hooks;
    let path = [SettingsPathStep::Key(hooks), SettingsPathStep::Key(judge.event)];
    match document.get(&path) {
        Some(value) if !value.is_array() => {
            Err(document.error_at(&path, &format!("`{hooks}.{}` must be a list", judge.event)))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_host::default_host;

    /// A longer prompt would be cut when it is repeated, and every block repeats it to the agent.
    #[test]
    fn the_presets_are_short_and_marked() {
        for kind in NativeJudgeKind::ALL {
            let judge = preset(default_host(), kind);
            assert!(judge.prompt.len() <= 500, "{}", judge.prompt.len());
            assert_eq!(judge.prompt.matches("$ARGUMENTS").count(), 1);
            assert!(is_native_judge(Some(kind.name()), Some(&judge.prompt)));
            assert!(!judge.prompt.contains('\n'));
        }
        assert!(!is_native_judge(Some("command"), Some(PROMPT_MARK)));
        assert!(!is_native_judge(Some("prompt"), Some("Is it done?")));
        assert!(!is_native_judge(Some("prompt"), None));
    }

    #[test]
    fn an_edited_prompt_stays_while_its_type_does() {
        let edited = br#"{"hooks": {"Stop": [{"hooks": [
            {"type": "prompt", "prompt": "Only the docs. (ralph init --native-judge)", "timeout": 9}
        ]}]}}"#;
        let wanted = |choice| wanted_judge(default_host(), edited, choice);
        let shown = |choice| wanted(choice).map(|judge| (judge.kind, judge.prompt.len()));
        let own = Some((NativeJudgeKind::Prompt, 42));
        assert_eq!(shown(NativeJudgeChoice::Keep), own);
        assert_eq!(shown(NativeJudgeChoice::Write(NativeJudgeKind::Prompt)), own);
        let agent = preset(default_host(), NativeJudgeKind::Agent);
        assert_eq!(wanted(NativeJudgeChoice::Write(NativeJudgeKind::Agent)), Some(agent));
        assert_eq!(wanted(NativeJudgeChoice::Remove), None);
        assert_eq!(wanted_judge(default_host(), b"{", NativeJudgeChoice::Keep), None);
    }
}
