//! The commit message of a checkpoint, written and parsed.
//!
//! The subject is the reason for the checkpoint. Below it is one line for each directory that was left out. Paths are
//! quoted as git quotes them.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::plumbing::{quote_path, unquote_path};

const EXCLUDED_LABEL: &[u8] = b"excluded: ";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointReason {
    /// The run starts.
    Start,
    /// The agent is held for this iteration.
    Iteration(u32),
    /// The user asked for it.
    Requested,
    /// This checkpoint is about to be restored.
    Restore(u32),
    /// Any other subject.
    Other(String),
}

impl fmt::Display for CheckpointReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start of the run"),
            Self::Iteration(number) => write!(f, "iteration {number}"),
            Self::Requested => f.write_str("by hand"),
            Self::Restore(number) => write!(f, "before restoring {number}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl CheckpointReason {
    pub(super) fn parse(subject: &str) -> Self {
        let number = |prefix| subject.strip_prefix(prefix).and_then(|rest: &str| rest.parse().ok());
        if subject == Self::Start.to_string() {
            Self::Start
        } else if subject == Self::Requested.to_string() {
            Self::Requested
        } else if let Some(number) = number("iteration ") {
            Self::Iteration(number)
        } else if let Some(number) = number("before restoring ") {
            Self::Restore(number)
        } else {
            Self::Other(ralph_core::text::clean_line(subject, 80))
        }
    }
}

/// What the checkpoint's tree does not hold as it was on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CheckpointRemarks {
    /// Directories that were left out.
    pub excluded: Vec<PathBuf>,
}

pub(super) fn write_message(why: &CheckpointReason, remarks: &CheckpointRemarks) -> Vec<u8> {
    let mut message = ralph_core::text::clean_line(&why.to_string(), 200).into_bytes();
    message.extend(b"\n\n");
    for path in &remarks.excluded {
        message.extend(EXCLUDED_LABEL);
        message.extend(quote_path(path.as_os_str().as_bytes()));
        message.push(b'\n');
    }
    message
}

/// Parses the remarks of any commit, including one that ralph did not create.
pub(super) fn parse_remarks(commit: &[u8]) -> CheckpointRemarks {
    let mut remarks = CheckpointRemarks::default();
    for line in commit.split(|byte| *byte == b'\n') {
        if let Some(path) = line.strip_prefix(EXCLUDED_LABEL).and_then(unquote_path) {
            remarks.excluded.push(OsString::from_vec(path).into());
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_as_written() {
        for why in [
            CheckpointReason::Start,
            CheckpointReason::Iteration(7),
            CheckpointReason::Requested,
            CheckpointReason::Restore(0),
        ] {
            assert_eq!(CheckpointReason::parse(&why.to_string()), why);
        }
        assert_eq!(
            CheckpointReason::parse("a\u{1b}[31m"),
            CheckpointReason::Other("a".to_string())
        );
        let remarks = CheckpointRemarks {
            excluded: [&b"/home/user/.ralph"[..], b"a b", b"\"q\"\n\\", b"\xff\x01"]
                .map(|path| OsString::from_vec(path.to_vec()).into())
                .into(),
        };
        let message = write_message(&CheckpointReason::Start, &remarks);
        assert_eq!(super::parse_remarks(&message), remarks);
    }
}
