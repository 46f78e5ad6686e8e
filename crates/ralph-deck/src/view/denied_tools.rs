//! Which tools the client did not permit, and the flags that allow them.

use ralph_core::gate::shell_quote;
use ralph_core::record::{JournalEntry, NOT_PERMITTED, RunChange};
use ralph_host::HostProfile;
use std::collections::BTreeSet;

const MAX_TOOLS: usize = 6;

/// Tools that the client did not permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedTools {
    /// Their names: `Bash, Edit`.
    pub tools: String,
    /// What follows `--` of `ralph run` to allow them.
    pub flags: String,
}

/// The tools that the client did not permit according to the journal; `None` if there are none, or if one has a name that
/// cannot be an option's value.
pub fn allowing_flags(host: &HostProfile, entries: &[JournalEntry]) -> Option<DeniedTools> {
    let denied = entries.iter().filter_map(|entry| {
        let RunChange::Denied { tool, what, .. } = &entry.change else { return None };
        (what == NOT_PERMITTED).then_some(tool.as_str())
    });
    let tools: BTreeSet<&str> = denied.collect();
    if tools.is_empty() || tools.len() > MAX_TOOLS || !tools.iter().all(|tool| is_tool_name(tool)) {
        return None;
    }
    let (edits, others): (Vec<&str>, Vec<&str>) =
        tools.iter().partition(|tool| host.tools.edit_tools.contains(tool));
    let edits = (!edits.is_empty()).then(|| host.flags.allow_edits.to_string());
    let others = (!others.is_empty())
        .then(|| format!("{} {}", host.flags.allow_tools, shell_quote(&others.join(","))));
    let flags: Vec<_> = edits.into_iter().chain(others).collect();
    let tools: Vec<_> = tools.into_iter().collect();
    Some(DeniedTools { tools: tools.join(", "), flags: flags.join(" ") })
}

/// The name comes from the agent's stream.
fn is_tool_name(name: &str) -> bool {
    (1..=60).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
