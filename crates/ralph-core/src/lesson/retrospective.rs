//! Derives from a journal what held a run, what fixed it and what was changed without effect.
//!
//! Only measured findings count: of gates and of ralph's own checks of the change. An unfinished list, a missing promise
//! or a plan without approval say that work was left, not what went wrong.

use super::lesson_signature::lesson_signature;
use super::significant_words::significant_words;
use super::{LessonResult, MAX_WORDS};
use crate::digest64::Digest64;
use crate::drive::RunnerEvent;
use crate::id::RunId;
use crate::record::{
    JournalEntry, ReportLine, ReportedStatus, RunChange, RunRecord, StopOutcome, StopRecord,
    StopReport,
};
use crate::requirement::RequirementStage;
use crate::status::RunStatus;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

/// More findings than this say that nothing worked yet.
const MAX_BLOCKING_FINDINGS: usize = 40;

/// What there is to learn from one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retrospective {
    pub run: RunId,
    /// When the run was last active.
    pub ended_ms: u64,
    /// Significant words of its goal.
    pub words: Vec<String>,
    /// The names of requirements that were met at some stop.
    pub met: BTreeSet<String>,
    /// The ids of the lessons that its agent was shown.
    pub shown: Vec<String>,
    /// Those that held most stops first.
    pub findings: Vec<BlockingFinding>,
}

/// A finding that held the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingFinding {
    pub requirement: String,
    pub stage: String,
    /// In its latest wording.
    pub finding: String,
    pub signature: Digest64,
    pub last_ms: u64,
    pub holds: u32,
    pub result: LessonResult,
    pub spans: Vec<CheckpointSpan>,
    pub handovers: u32,
    pub waived: Option<String>,
    pub disputed: Option<String>,
    pub hint: Option<String>,
}

/// The work between two stops, by the numbers of their checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSpan {
    pub from: u32,
    pub to: u32,
    pub effect: SpanEffect,
}

/// Whether the finding was still there after the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanEffect {
    Fixed,
    Ineffective,
}

/// A run, as far as there is something to learn from it.
#[derive(Clone, Debug)]
pub struct RetrospectiveInput<'a> {
    pub run: &'a RunRecord,
    /// The text of its goal, or its title.
    pub goal: &'a str,
    pub entries: &'a [JournalEntry],
    /// The names of the requirements that gates and ralph's own checks measure. No lesson is derived from others.
    pub measured: &'a [String],
    /// The ids of lessons that its agent was shown.
    pub shown: Vec<String>,
}

impl Retrospective {
    pub fn new(input: RetrospectiveInput<'_>) -> Self {
        let RetrospectiveInput { run, goal, entries, measured, shown } = input;
        let mut walk = JournalWalk { measured, tracks: Vec::new(), met: BTreeSet::new() };
        for entry in entries {
            walk.apply(entry);
        }
        let mut findings: Vec<_> = walk.tracks.into_iter().map(|track| track.blocking).collect();
        findings.retain(|blocking| blocking.holds > 0);
        findings
            .sort_by(|a, b| b.holds.cmp(&a.holds).then_with(|| a.requirement.cmp(&b.requirement)));
        findings.truncate(MAX_BLOCKING_FINDINGS);
        Self {
            run: run.id.clone(),
            ended_ms: entries.last().map_or(run.started_ms, |entry| entry.at_ms),
            words: significant_words(goal, MAX_WORDS),
            met: walk.met,
            shown,
            findings,
        }
    }
}

/// The findings so far, in the order in which they first appeared.
struct JournalWalk<'a> {
    measured: &'a [String],
    tracks: Vec<FindingTrack>,
    met: BTreeSet<String>,
}

struct FindingTrack {
    blocking: BlockingFinding,
    is_open: bool,
    /// The checkpoint of the last stop that had the finding.
    checkpoint: Option<u32>,
}

impl JournalWalk<'_> {
    fn apply(&mut self, entry: &JournalEntry) {
        if let RunChange::Decided(decided) = &entry.change {
            if decided.outcome != StopOutcome::Repeated
                && let Some(report) = &decided.report
            {
                self.apply_stop(entry.at_ms, decided, report);
            }
            return;
        }
        if let RunChange::Waived(waiver) = &entry.change {
            for track in self.open_of(&waiver.requirement) {
                track.blocking.waived = Some(waiver.why.clone());
                track.blocking.result = LessonResult::Waived;
                track.is_open = false;
            }
        } else if let RunChange::Disputed(dispute) = &entry.change {
            for track in self.open_of(&dispute.requirement) {
                track.blocking.disputed = Some(dispute.why.clone());
            }
        } else if let RunChange::HintGiven { text, .. } = &entry.change {
            for track in self.tracks.iter_mut().filter(|track| track.is_open) {
                track.blocking.hint = Some(text.clone());
            }
        } else if let RunChange::Drove(event) = &entry.change
            && let RunnerEvent::HandsOver { .. } = event.as_ref()
        {
            for track in self.tracks.iter_mut().filter(|track| track.is_open) {
                track.blocking.handovers = track.blocking.handovers.saturating_add(1);
            }
        }
    }

    fn open_of<'a>(
        &'a mut self,
        requirement: &'a str,
    ) -> impl Iterator<Item = &'a mut FindingTrack> {
        self.tracks
            .iter_mut()
            .filter(move |track| track.is_open && track.blocking.requirement == requirement)
    }

    fn apply_stop(&mut self, at_ms: u64, decided: &StopRecord, report: &StopReport) {
        let checkpoint = decided.judged.as_ref().map(|judged| judged.checkpoint);
        let open: Vec<_> = report
            .lines
            .iter()
            .filter(|line| self.measured.contains(&line.name) && is_learnable(line, decided))
            .map(|line| (line, lesson_signature(&line.name, finding_text(line))))
            .collect();
        for track in self.tracks.iter_mut().filter(|track| track.is_open) {
            let blocking = &track.blocking;
            let is_there = open.iter().any(|(_, signature)| *signature == blocking.signature);
            let is_met = report.met.contains(&blocking.requirement);
            let has_another = || open.iter().any(|(line, _)| line.name == blocking.requirement);
            // A gate that is still running says nothing about the finding.
            if !is_there && (is_met || has_another()) {
                track.close(checkpoint);
            }
        }
        let is_held = is_held_stop(&decided.outcome);
        for (line, signature) in open {
            let known = self.tracks.iter().position(|it| it.blocking.signature == signature);
            let position = known.unwrap_or_else(|| {
                self.tracks.push(FindingTrack::new(line, signature));
                self.tracks.len() - 1
            });
            if let Some(track) = self.tracks.get_mut(position) {
                track.hold(line, at_ms, checkpoint, is_held);
            }
        }
        self.met.extend(report.met.iter().cloned());
    }
}

impl FindingTrack {
    fn new(line: &ReportLine, signature: Digest64) -> Self {
        let blocking = BlockingFinding {
            requirement: line.name.clone(),
            stage: line.stage.clone(),
            finding: String::new(),
            signature,
            last_ms: 0,
            holds: 0,
            result: LessonResult::Open,
            spans: Vec::new(),
            handovers: 0,
            waived: None,
            disputed: None,
            hint: None,
        };
        Self { blocking, is_open: false, checkpoint: None }
    }

    /// A stop that has the finding.
    fn hold(&mut self, line: &ReportLine, at_ms: u64, checkpoint: Option<u32>, is_held: bool) {
        if self.is_open {
            self.add_span(checkpoint, SpanEffect::Ineffective);
        }
        self.is_open = true;
        self.checkpoint = checkpoint.or(self.checkpoint);
        self.blocking.result = LessonResult::Open;
        self.blocking.last_ms = at_ms;
        self.blocking.finding = finding_text(line).into();
        self.blocking.holds = self.blocking.holds.saturating_add(u32::from(is_held));
    }

    /// The first stop without the finding.
    fn close(&mut self, checkpoint: Option<u32>) {
        self.add_span(checkpoint, SpanEffect::Fixed);
        self.is_open = false;
        self.blocking.result = LessonResult::Fixed;
    }

    fn add_span(&mut self, to: Option<u32>, effect: SpanEffect) {
        if let Some((from, to)) = self.checkpoint.zip(to).filter(|(from, to)| from != to) {
            self.blocking.spans.push(CheckpointSpan { from, to, effect });
        }
    }
}

fn is_learnable(line: &ReportLine, decided: &StopRecord) -> bool {
    let is_open = match line.standing {
        ReportedStatus::Unmet | ReportedStatus::Unknown => true,
        ReportedStatus::Pending | ReportedStatus::Advisory => false,
    };
    // Without a finding, CI says that a commit is missing or that its checks take long: work was left.
    let is_gate = || {
        line.stage != RequirementStage::Ci.name()
            && decided.gates.iter().any(|gate| gate.name == line.name)
    };
    is_open
        && line.stage != RequirementStage::Planning.name()
        && (line.first.is_some() || is_gate())
}

fn finding_text(line: &ReportLine) -> &str {
    line.first.as_deref().unwrap_or(&line.note)
}

/// Whether the stop was held for what its report lists, or the run ended because of it.
fn is_held_stop(outcome: &StopOutcome) -> bool {
    match outcome {
        StopOutcome::Blocked { .. } | StopOutcome::HandedOver => true,
        StopOutcome::Allowed
        | StopOutcome::Awaited { .. }
        | StopOutcome::Repeated
        | StopOutcome::Orphaned => false,
        StopOutcome::Ended(status) => match status {
            RunStatus::Exhausted
            | RunStatus::Stuck
            | RunStatus::NeedsHuman
            | RunStatus::NeedsReview
            | RunStatus::GateBroken => true,
            RunStatus::Verified
            | RunStatus::Green
            | RunStatus::Claimed
            | RunStatus::RateLimited
            | RunStatus::Cancelled
            | RunStatus::Overridden
            | RunStatus::Crashed => false,
        },
    }
}
