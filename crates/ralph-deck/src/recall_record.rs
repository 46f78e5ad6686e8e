//! The records that can be searched.

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecallKind {
    /// A run: its goal, how it ended, and its obstacles.
    Run,
    /// The hand-over that a run's session wrote for the next one.
    Handover,
    /// A learning saved with `ralph learn`.
    Learning,
    /// A finding that held runs, and what fixed it.
    Lesson,
    /// A section of a file that agents keep as memory.
    Memory,
}

impl RecallKind {
    pub const ALL: [Self; 5] =
        [Self::Run, Self::Handover, Self::Learning, Self::Lesson, Self::Memory];

    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Handover => "handoff",
            Self::Learning => "learning",
            Self::Lesson => "lesson",
            Self::Memory => "memory",
        }
    }

    /// The word for people, which `ralph memory` has too.
    pub fn label(self) -> &'static str {
        match self {
            Self::Learning => "note",
            Self::Run | Self::Handover | Self::Lesson | Self::Memory => self.name(),
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A searchable record whose text is safe to store and to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecallRecord {
    pub kind: RecallKind,
    pub run: Option<String>,
    pub project: String,
    pub at_ms: u64,
    pub title: String,
    pub body: String,
    pub path: String,
    pub line: Option<u32>,
}
