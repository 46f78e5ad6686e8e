//! One run that is open: its page, the tab that is shown, and what was loaded for it.

use crate::screen_line::ListPosition;
use ralph_deck::page::{CheckpointDiff, CheckpointRow, FileComparison, RunPage, TimelineRow};

/// A part of the page of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunTab {
    Stops,
    Reason,
    Gates,
    Diff,
    Checkpoints,
    Log,
}

impl RunTab {
    pub(crate) const ALL: [Self; 6] =
        [Self::Stops, Self::Reason, Self::Gates, Self::Diff, Self::Checkpoints, Self::Log];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stops => "stops",
            Self::Reason => "reason",
            Self::Gates => "gates",
            Self::Diff => "diff",
            Self::Checkpoints => "checkpoints",
            Self::Log => "log",
        }
    }

    pub(crate) fn index(self) -> usize {
        Self::ALL.iter().position(|tab| *tab == self).unwrap_or(0)
    }
}

/// Something that is loaded when it is first shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LoadablePart<T> {
    #[default]
    Requested,
    Failed(String),
    Loaded(T),
}

/// What is opened within a tab, the last one on top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenedDetail {
    /// The files that differ between a checkpoint and the one before.
    Files {
        files: CheckpointDiff,
        position: ListPosition,
    },
    Comparison {
        from: u32,
        to: u32,
        comparison: FileComparison,
        position: ListPosition,
    },
}

impl OpenedDetail {
    pub(crate) fn position(&self) -> &ListPosition {
        match self {
            Self::Files { position, .. } | Self::Comparison { position, .. } => position,
        }
    }

    pub(crate) fn position_mut(&mut self) -> &mut ListPosition {
        match self {
            Self::Files { position, .. } | Self::Comparison { position, .. } => position,
        }
    }
}

/// What the agent read at a stop whose reason the page does not have; empty if it read nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OlderReason {
    pub(crate) seq: u64,
    pub(crate) text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OpenedRun {
    pub(crate) page: RunPage,
    pub(crate) tab: RunTab,
    positions: [ListPosition; 6],
    /// By how many stops the matrix is moved back.
    pub(crate) shift: usize,
    /// The journal line whose reason is shown; `None` for the latest.
    pub(crate) reason_seq: Option<u64>,
    pub(crate) older_reason: Option<OlderReason>,
    pub(crate) files: LoadablePart<CheckpointDiff>,
    pub(crate) checkpoints: LoadablePart<Vec<CheckpointRow>>,
    pub(crate) opened: Vec<OpenedDetail>,
}

impl OpenedRun {
    pub(crate) fn new(page: RunPage) -> Self {
        let mut positions: [ListPosition; 6] = Default::default();
        let latest = page.timeline.last().map(|row| stop_key(row.seq));
        positions[RunTab::Stops.index()].selected = latest;
        positions[RunTab::Log.index()].follows = true;
        Self {
            page,
            tab: RunTab::Stops,
            positions,
            shift: 0,
            reason_seq: None,
            older_reason: None,
            files: LoadablePart::Requested,
            checkpoints: LoadablePart::Requested,
            opened: Vec::new(),
        }
    }

    pub(crate) fn run(&self) -> &str {
        &self.page.row.run
    }

    /// Shows a newer page of the same run. Files and checkpoints are loaded again when a stop was added.
    pub(crate) fn update(&mut self, page: RunPage) {
        if page.row.seq != self.page.row.seq && self.opened.is_empty() {
            self.files = LoadablePart::Requested;
            self.checkpoints = LoadablePart::Requested;
        }
        let latest = |page: &RunPage| page.timeline.last().map(|row| stop_key(row.seq));
        let position = &mut self.positions[RunTab::Stops.index()];
        if position.selected == latest(&self.page) {
            position.selected = latest(&page);
        }
        self.page = page;
    }

    pub(crate) fn position(&self) -> &ListPosition {
        match self.opened.last() {
            Some(opened) => opened.position(),
            None => &self.positions[self.tab.index()],
        }
    }

    pub(crate) fn position_mut(&mut self) -> &mut ListPosition {
        match self.opened.last_mut() {
            Some(opened) => opened.position_mut(),
            None => &mut self.positions[self.tab.index()],
        }
    }

    /// The stop that is selected in the first tab.
    pub(crate) fn selected_stop(&self) -> Option<&TimelineRow> {
        let selected = self.positions[RunTab::Stops.index()].selected.as_deref()?;
        self.page.timeline.iter().find(|row| stop_key(row.seq) == selected)
    }

    /// The requirement that is selected in the first tab.
    pub(crate) fn selected_requirement(&self) -> Option<&str> {
        let selected = self.positions[RunTab::Stops.index()].selected.as_deref()?;
        selected.strip_prefix(REQUIREMENT_PREFIX)
    }
}

const REQUIREMENT_PREFIX: &str = "requirement ";

pub(crate) fn stop_key(seq: u64) -> String {
    format!("stop {seq}")
}

pub(crate) fn requirement_key(name: &str) -> String {
    format!("{REQUIREMENT_PREFIX}{name}")
}
