//! What an agent's tool call would touch. Each host parses its own tools.

use alloc::borrow::Cow;
use alloc::vec::Vec;

#[derive(Debug)]
pub enum ToolEffect<'a> {
    /// Runs a shell script.
    RunsScript(Cow<'a, str>),
    TouchesFiles {
        paths: Vec<Cow<'a, str>>,
        access: FileAccess,
    },
    /// Starts a conversation or sends a message to one. A text may be a command that only a person may give.
    SendsPrompt {
        skill: Option<Cow<'a, str>>,
        texts: Vec<Cow<'a, str>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    Read,
    Write,
    /// Writes, moves or deletes.
    Remove,
}
