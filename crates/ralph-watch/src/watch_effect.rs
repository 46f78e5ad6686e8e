//! What the state machine asks the event loop to do, and what the event loop reports back.

use crate::key_event::PersonInput;
use ralph_core::id::RunId;
use ralph_deck::page::{
    BoardPage, BoardRow, CheckpointDiff, CheckpointRow, FileComparison, RunPage,
};
use ralph_deck::person_action::PersonAction;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    Input(PersonInput),
    Resized {
        columns: u16,
        rows: u16,
    },
    /// The time now.
    Time(u64),
    Loaded(LoadedPage),
    /// The answer to [`WatchEffect::Act`]: a sentence for the person, or what went wrong.
    Acted(Result<String, String>),
    /// The text after an editor has ended; the error if it could not be used.
    Edited(Result<String, String>),
    /// Something below ralph's home changed.
    Changed,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEffect {
    Quit,
    Suspend,
    /// Writes every cell again.
    ClearScreen,
    Bell,
    Load(LoadRequest),
    /// In the terminal itself if the command may have to ask for a word.
    Act {
        run: RunId,
        action: PersonAction,
        asks_at_terminal: bool,
    },
    OpenEditor {
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadRequest {
    Board,
    Run(RunId),
    /// Ended runs that match the filter, newest first; the page after the key.
    Earlier {
        filter: String,
        before: Option<String>,
    },
    /// What the agent read at an older stop.
    Reason {
        run: RunId,
        seq: u64,
    },
    /// What changed since the start of the run.
    Files(RunId),
    Checkpoints(RunId),
    /// What changed between a checkpoint and the one before it.
    CheckpointFiles {
        run: RunId,
        number: u32,
    },
    Comparison {
        run: RunId,
        from: u32,
        to: u32,
        path: String,
    },
}

#[derive(Clone, Debug)]
pub enum LoadedPage {
    Board(Box<BoardPage>),
    Run(Box<RunPage>),
    Earlier {
        filter: String,
        is_first: bool,
        rows: Vec<BoardRow>,
        total: u64,
        next: Option<String>,
    },
    Reason {
        run: RunId,
        seq: u64,
        text: Option<String>,
    },
    /// What is wrong with the filter.
    FilterRefused {
        filter: String,
        why: String,
    },
    Files {
        run: RunId,
        files: Result<CheckpointDiff, String>,
    },
    Checkpoints {
        run: RunId,
        checkpoints: Result<Vec<CheckpointRow>, String>,
    },
    CheckpointFiles {
        run: RunId,
        files: CheckpointDiff,
    },
    Comparison {
        run: RunId,
        from: u32,
        to: u32,
        comparison: FileComparison,
    },
    /// What could not be loaded, and why.
    Failed(String),
}
