//! What can be found.

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A run: its goal, how it ended, and what was in its way.
    Run,
    /// What was kept of a run when its conversation was summed up.
    Handoff,
    /// What somebody wrote down with `ralph learn`.
    Learning,
    /// A section of a file that agents keep as memory.
    Memory,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Run, Self::Handoff, Self::Learning, Self::Memory];

    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Handoff => "handoff",
            Self::Learning => "learning",
            Self::Memory => "memory",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One thing to be found, with text that is safe to keep and to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub kind: Kind,
    pub run: Option<String>,
    pub project: String,
    pub at_ms: u64,
    pub title: String,
    pub body: String,
    pub path: String,
    pub line: Option<u32>,
}
