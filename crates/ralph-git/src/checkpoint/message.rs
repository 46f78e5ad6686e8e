//! The commit message of a checkpoint, written and parsed.
//!
//! The subject is the reason for the checkpoint. Below it is one line for each file that only git's filters can
//! restore, and one for each directory that was left out. Paths are quoted as git quotes them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::objects::{quoted, unquoted};

const FILTERED: &[u8] = b"filtered: ";
const EXCLUDED: &[u8] = b"excluded: ";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The run starts.
    Start,
    /// The agent is held for this iteration.
    Iteration(u32),
    /// The user asked for it.
    Asked,
    /// This checkpoint is about to be restored.
    Restore(u32),
    /// Any other subject.
    Other(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start of the run"),
            Self::Iteration(number) => write!(f, "iteration {number}"),
            Self::Asked => f.write_str("by hand"),
            Self::Restore(number) => write!(f, "before restoring {number}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Why {
    pub(super) fn parse(subject: &str) -> Self {
        let number = |prefix| subject.strip_prefix(prefix).and_then(|rest: &str| rest.parse().ok());
        if subject == Self::Start.to_string() {
            Self::Start
        } else if subject == Self::Asked.to_string() {
            Self::Asked
        } else if let Some(number) = number("iteration ") {
            Self::Iteration(number)
        } else if let Some(number) = number("before restoring ") {
            Self::Restore(number)
        } else {
            Self::Other(ralph_core::text::line(subject, 80))
        }
    }
}

/// Files and directories that the checkpoint's tree does not hold as they were on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Remarks {
    /// Files stored with git's filtered content instead of the bytes on disk.
    pub filtered: BTreeSet<OsString>,
    /// Directories that were left out.
    pub excluded: Vec<PathBuf>,
}

pub(super) fn write(why: &Why, remarks: &Remarks) -> Vec<u8> {
    let mut message = ralph_core::text::line(&why.to_string(), 200).into_bytes();
    message.extend(b"\n\n");
    let filtered = remarks.filtered.iter().map(|path| (FILTERED, path.as_bytes()));
    let excluded = remarks.excluded.iter().map(|path| (EXCLUDED, path.as_os_str().as_bytes()));
    for (label, path) in filtered.chain(excluded) {
        message.extend(label);
        message.extend(quoted(path));
        message.push(b'\n');
    }
    message
}

/// Parses the remarks of any commit, including one that ralph did not create.
pub(super) fn remarks(commit: &[u8]) -> Remarks {
    let mut remarks = Remarks::default();
    let path =
        |line: &[u8], label| line.strip_prefix(label).and_then(unquoted).map(OsString::from_vec);
    for line in commit.split(|byte| *byte == b'\n') {
        if let Some(path) = path(line, FILTERED) {
            remarks.filtered.insert(path);
        } else if let Some(path) = path(line, EXCLUDED) {
            remarks.excluded.push(path.into());
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_as_written() {
        for why in [Why::Start, Why::Iteration(7), Why::Asked, Why::Restore(0)] {
            assert_eq!(Why::parse(&why.to_string()), why);
        }
        assert_eq!(Why::parse("a\u{1b}[31m"), Why::Other("a".to_string()));
        let remarks = Remarks {
            filtered: [&b"a b"[..], b"\"q\"\n\\", b"\xff\x01"]
                .map(|path| OsString::from_vec(path.to_vec()))
                .into(),
            excluded: vec!["/home/user/.ralph".into()],
        };
        let message = write(&Why::Start, &remarks);
        assert_eq!(super::remarks(&message), remarks);
    }
}
