//! What the agent's flags let it do, as far as they say, and what a person is told where that was not enough.

use crate::wording::safe;
use ralph_core::text;
use ralph_drive::told::Denied;

/// Flags that allow something. Which rules they name is the client's to read.
const GRANTING: [&str; 4] =
    ["--permission-mode", "--allowedTools", "--allowed-tools", "--dangerously-skip-permissions"];
/// What `acceptEdits` allows.
const EDITING: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];
const SHOWN: usize = 6;

/// Told before anything is started, where no flag allows anything: nobody is there to be asked.
pub(super) fn note(flags: &[String]) -> Option<String> {
    let is_granting = |flag: &String| {
        let name = flag.split('=').next().unwrap_or_default();
        GRANTING.contains(&name)
    };
    (!flags.iter().any(is_granting)).then(|| {
        "no flag allows the agent anything: what its own settings do not allow, such as edits, will be refused; `-- --permission-mode acceptEdits` lets it edit".to_string()
    })
}

/// What was refused, and what allows it.
pub(super) fn refused(denied: &[Denied]) -> Option<String> {
    let count = denied.iter().fold(0, |sum: u64, one| sum.saturating_add(one.count.into()));
    if count == 0 {
        return None;
    }
    let is_editing = |one: &&Denied| EDITING.contains(&one.tool.as_str());
    let names: Vec<_> = denied.iter().map(|one| safe(&one.tool)).collect();
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = names.get(..SHOWN).unwrap_or(&names).join(", ");
    let edits = denied.iter().any(|one| is_editing(&one));
    let others: Vec<_> = denied.iter().filter(|one| !is_editing(one)).collect();
    let others = match others.as_slice() {
        [] => None,
        [one] => {
            let tool = safe(&one.tool);
            Some(format!("`-- --allowedTools {tool}` allows {tool}"))
        }
        [..] => Some("`-- --allowedTools …` names what else it may".to_string()),
    };
    let edits = edits.then(|| "`-- --permission-mode acceptEdits` lets it edit".to_string());
    let how: Vec<_> = edits.into_iter().chain(others).collect();
    let (calls, were) =
        (text::counted(count, "tool call"), if count == 1 { "was" } else { "were" });
    Some(format!("{calls} {were} not permitted: {shown}{more}; {}", how.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_says_what_allows_it() {
        let of = |denied: &[(&str, u32)]| {
            let one = |(tool, count): &(&str, u32)| Denied { tool: (*tool).into(), count: *count };
            refused(&denied.iter().map(one).collect::<Vec<_>>()).unwrap_or_default()
        };
        let told = [
            of(&[]),
            of(&[("Edit", 1)]),
            of(&[("Bash", 1), ("Edit", 2)]),
            of(&[("Bash\u{1b}[31m", 1)]),
            of(&[("A", 1), ("B", 1), ("C", 1), ("D", 1), ("E", 1), ("F", 1), ("Write", u32::MAX)]),
        ];
        insta::assert_snapshot!(told.join("\n"), @"

        1 tool call was not permitted: Edit; `-- --permission-mode acceptEdits` lets it edit
        3 tool calls were not permitted: Bash, Edit; `-- --permission-mode acceptEdits` lets it edit, `-- --allowedTools Bash` allows Bash
        1 tool call was not permitted: Bash; `-- --allowedTools Bash` allows Bash
        4294967301 tool calls were not permitted: A, B, C, D, E, F and 1 more; `-- --permission-mode acceptEdits` lets it edit, `-- --allowedTools …` names what else it may
        ");
    }

    #[test]
    fn flags_that_allow_something_are_seen() {
        let told = |flags: &[&str]| {
            note(&flags.iter().map(ToString::to_string).collect::<Vec<_>>()).is_some()
        };
        for silent in [
            &["--permission-mode", "acceptEdits"][..],
            &["--permission-mode=plan"],
            &["--debug", "--allowedTools", "Bash"],
            &["--allowed-tools=Edit"],
            &["--dangerously-skip-permissions"],
        ] {
            assert!(!told(silent), "{silent:?}");
        }
        for noted in [&[][..], &["--debug"], &["--disallowedTools", "Bash"]] {
            assert!(told(noted), "{noted:?}");
        }
    }
}
