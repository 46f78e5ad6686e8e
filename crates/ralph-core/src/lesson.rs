//! Lessons: what held earlier runs of a project, what fixed it and what did not. ralph derives them from journals, and
//! shows the relevant ones to the agent of a later run.
//!
//! A lesson belongs to one requirement and one finding, compared without line numbers and other details that differ each
//! time. Every figure of a lesson is computed from the records of single runs, so learning the same run twice changes
//! nothing.

mod lesson_ranking;
mod lesson_signature;
mod lesson_text;
mod retrospective;
mod significant_words;

use crate::digest64::Digest64;
use crate::id::RunId;
use crate::redact::Redactor;
use crate::serde_skip::is_zero;
use crate::{reason, text};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

pub use lesson_ranking::{MemoryNote, MemoryQuery, rank_lessons, rank_notes, select_memory};
pub use lesson_signature::{lesson_signature, normalize_finding};
pub use lesson_text::{
    MemoryBlock, describe_lesson, render_block, render_markdown, with_export, without_export,
};
pub use retrospective::{
    BlockingFinding, CheckpointSpan, Retrospective, RetrospectiveInput, SpanEffect,
};
pub use significant_words::significant_words;

/// The version of the file that this ralph writes.
pub const LESSON_FORMAT: u8 = 1;
/// Lessons of one project. Those that rank lowest are dropped.
pub const MAX_LESSONS: usize = 200;
/// Runs whose details a lesson keeps; older ones are only counted.
const MAX_RUNS: usize = 12;
const MAX_USES: usize = 12;
const MAX_FORGOTTEN: usize = 2000;
/// Files that a run contributes, of each kind.
const MAX_FILES: usize = 6;
const MAX_WORDS: usize = 24;
const MAX_NAME_CHARS: usize = 80;
const MAX_FINDING_CHARS: usize = 240;
const MAX_REMARK_CHARS: usize = 200;
const MAX_PATH_CHARS: usize = 160;
const ID_DIGITS: usize = 8;

/// `memory/<hash>.json`: the lessons of one project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonFile {
    pub v: u8,
    pub project: String,
    pub lessons: Vec<Lesson>,
    /// Lessons that a person removed with `ralph memory forget`, latest last. Missing in files of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<ForgottenLesson>,
}

/// A lesson that a person removed. Runs that began before that cannot bring it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenLesson {
    pub signature: Digest64,
    pub at_ms: u64,
}

impl LessonFile {
    pub fn new(project: &str) -> Self {
        let (lessons, forgotten) = (Vec::new(), Vec::new());
        Self { v: LESSON_FORMAT, project: project.to_string(), lessons, forgotten }
    }

    /// Removes the lessons with these ids, and remembers that a person did not want them.
    pub fn forget(&mut self, ids: &[String], now_ms: u64) {
        let (gone, kept) = core::mem::take(&mut self.lessons)
            .into_iter()
            .partition::<Vec<_>, _>(|lesson| ids.contains(&lesson.id));
        self.lessons = kept;
        for Lesson { signature, .. } in gone {
            self.forgotten.retain(|one| one.signature != signature);
            self.forgotten.push(ForgottenLesson { signature, at_ms: now_ms });
        }
        let surplus = self.forgotten.len().saturating_sub(MAX_FORGOTTEN);
        self.forgotten.drain(..surplus);
    }

    /// Whether a run that began at `started_ms` adds no lesson about this finding, because a person removed it afterwards.
    pub fn is_forgotten(&self, signature: Digest64, started_ms: u64) -> bool {
        self.forgotten.iter().any(|one| one.signature == signature && started_ms <= one.at_ms)
    }
}

/// A finding that held the agents of one or more runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lesson {
    /// The first digits of the signature, for commands.
    pub id: String,
    pub requirement: String,
    pub stage: String,
    /// The finding in its latest wording.
    pub finding: String,
    pub signature: Digest64,
    pub first_ms: u64,
    pub last_ms: u64,
    /// Oldest first.
    pub runs: Vec<LessonRun>,
    /// Runs whose details were dropped, and the stops they were held at.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub older_runs: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub older_holds: u32,
    /// Words of the goals of these runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// Runs whose agent was shown the lesson. Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<LessonUse>,
}

/// What one run contributed to a lesson.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonRun {
    pub run: RunId,
    pub at_ms: u64,
    /// Stops that the finding held.
    pub holds: u32,
    pub result: LessonResult,
    /// Files that changed between the last stop with the finding and the first one without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed_by: Vec<String>,
    /// Files that changed between two stops which both had the finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "in_vain")]
    pub ineffective: Vec<String>,
    /// Fresh sessions that took over while it was open.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub handovers: u32,
    /// Why a person waived the requirement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waived: Option<String>,
    /// Why the agent disputed the requirement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disputed: Option<String>,
    /// The last hint of a person while it was open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How a finding ended in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LessonResult {
    /// A later stop did not have it.
    Fixed,
    /// A person waived its requirement.
    Waived,
    /// The run ended with it.
    Open,
}

impl LessonResult {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Waived => "waived",
            Self::Open => "open",
        }
    }
}

/// A run whose agent was shown a lesson.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonUse {
    pub run: RunId,
    pub effect: LessonEffect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LessonEffect {
    /// The requirement was met in the run, and the finding never held it.
    Avoided,
    /// The finding held the run again.
    Repeated,
    /// The run never came to the requirement.
    Unmeasured,
}

/// A file, and the number of runs in which it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTally {
    pub path: String,
    pub runs: u32,
}

impl Lesson {
    /// Runs that the finding held.
    pub fn run_count(&self) -> u32 {
        u32::try_from(self.runs.len()).unwrap_or(u32::MAX).saturating_add(self.older_runs)
    }

    /// Stops that the finding held.
    pub fn hold_count(&self) -> u32 {
        self.runs.iter().fold(self.older_holds, |sum, run| sum.saturating_add(run.holds))
    }

    /// Files that changed when the finding went away, those of most runs first.
    pub fn fixed_by(&self) -> Vec<FileTally> {
        tally_files(self.runs.iter().flat_map(|run| &run.fixed_by))
    }

    /// Files that changed while the finding stayed, without those that fixed it in some run.
    pub fn ineffective(&self) -> Vec<FileTally> {
        let helpful = self.fixed_by();
        let mut files = tally_files(self.runs.iter().flat_map(|run| &run.ineffective));
        files.retain(|file| !helpful.iter().any(|it| it.path == file.path));
        files
    }

    /// Runs whose agent was shown the lesson and then avoided the finding.
    pub fn helped(&self) -> u32 {
        self.count_uses(LessonEffect::Avoided)
    }

    /// Runs whose agent was shown the lesson and was held by the finding all the same.
    pub fn missed(&self) -> u32 {
        self.count_uses(LessonEffect::Repeated)
    }

    fn count_uses(&self, effect: LessonEffect) -> u32 {
        let count = self.uses.iter().filter(|used| used.effect == effect).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The latest remark of a kind.
    fn latest(&self, read: fn(&LessonRun) -> Option<&String>) -> Option<&str> {
        self.runs.iter().rev().find_map(read).map(String::as_str)
    }

    pub fn waived(&self) -> Option<&str> {
        self.latest(|run| run.waived.as_ref())
    }

    pub fn disputed(&self) -> Option<&str> {
        self.latest(|run| run.disputed.as_ref())
    }

    pub fn hint(&self) -> Option<&str> {
        self.latest(|run| run.hint.as_ref())
    }

    /// Whether the run is one of those that were dropped, and counted, before.
    fn was_dropped(&self, run: &LessonRun) -> bool {
        let is_older = |first: &LessonRun| (run.at_ms, &run.run) < (first.at_ms, &first.run);
        self.older_runs > 0
            && self.runs.len() >= MAX_RUNS
            && self.runs.first().is_some_and(is_older)
    }

    fn add_run(&mut self, run: LessonRun) {
        self.first_ms = self.first_ms.min(run.at_ms);
        self.last_ms = self.last_ms.max(run.at_ms);
        self.runs.push(run);
        self.runs.sort_by(|a, b| (a.at_ms, &a.run).cmp(&(b.at_ms, &b.run)));
        while self.runs.len() > MAX_RUNS {
            let oldest = self.runs.remove(0);
            self.older_runs = self.older_runs.saturating_add(1);
            self.older_holds = self.older_holds.saturating_add(oldest.holds);
        }
    }

    fn add_words(&mut self, words: &[String]) {
        // Those of the latest goal come first, and the last ones are dropped.
        let mut all = words.to_vec();
        all.extend(self.words.iter().filter(|word| !words.contains(word)).cloned());
        all.truncate(MAX_WORDS);
        self.words = all;
    }
}

fn tally_files<'a>(paths: impl Iterator<Item = &'a String>) -> Vec<FileTally> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for path in paths {
        let count = counts.entry(path).or_default();
        *count = count.saturating_add(1);
    }
    let mut files: Vec<_> =
        counts.into_iter().map(|(path, runs)| FileTally { path: path.to_string(), runs }).collect();
    files.sort_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.path.cmp(&b.path)));
    files
}

/// The files that changed between two checkpoints, by their numbers.
pub type ChangedFiles<'a> = dyn FnMut(u32, u32) -> Vec<String> + 'a;

/// What learning a run changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearnedRun {
    /// The ids of lessons that the run contributed to, those that held most stops first.
    pub lessons: Vec<String>,
    /// How many of them are new.
    pub new: usize,
}

/// Adds a run to the lessons of its project. A run that was learned before is replaced. Text of others is cleaned,
/// redacted and shortened here, before it is stored.
pub fn learn_run(
    lessons: &mut Vec<Lesson>,
    retrospective: &Retrospective,
    redactor: &Redactor,
    changed_files: &mut ChangedFiles<'_>,
) -> LearnedRun {
    let run = &retrospective.run;
    let known: Vec<Digest64> = lessons.iter().map(|lesson| lesson.signature).collect();
    for lesson in lessons.iter_mut() {
        lesson.runs.retain(|one| one.run != *run);
    }
    let mut learned = LearnedRun::default();
    for blocking in &retrospective.findings {
        let record = run_record(retrospective, blocking, redactor, changed_files);
        let position = lessons.iter().position(|lesson| lesson.signature == blocking.signature);
        let position = position.unwrap_or_else(|| {
            lessons.push(new_lesson(blocking, record.at_ms, redactor));
            lessons.len() - 1
        });
        let Some(lesson) = lessons.get_mut(position) else { continue };
        learned.lessons.push(lesson.id.clone());
        if lesson.was_dropped(&record) {
            continue;
        }
        if record.at_ms >= lesson.last_ms {
            lesson.finding = reason::safe_line(&blocking.finding, MAX_FINDING_CHARS, redactor);
        }
        lesson.add_run(record);
        lesson.add_words(&retrospective.words);
        learned.new += usize::from(!known.contains(&blocking.signature));
    }
    record_uses(lessons, retrospective);
    lessons.retain(|lesson| lesson.run_count() > 0);
    make_ids_unique(lessons);
    drop_lowest(lessons, retrospective.ended_ms);
    learned.lessons.retain(|id| lessons.iter().any(|lesson| lesson.id == *id));
    learned
}

fn new_lesson(blocking: &BlockingFinding, at_ms: u64, redactor: &Redactor) -> Lesson {
    Lesson {
        id: format!("{:016x}", blocking.signature.0).chars().take(ID_DIGITS).collect(),
        requirement: reason::safe_line(&blocking.requirement, MAX_NAME_CHARS, redactor),
        stage: text::clean_line(&blocking.stage, MAX_NAME_CHARS),
        finding: reason::safe_line(&blocking.finding, MAX_FINDING_CHARS, redactor),
        signature: blocking.signature,
        first_ms: at_ms,
        last_ms: at_ms,
        runs: Vec::new(),
        older_runs: 0,
        older_holds: 0,
        words: Vec::new(),
        uses: Vec::new(),
    }
}

fn run_record(
    retrospective: &Retrospective,
    blocking: &BlockingFinding,
    redactor: &Redactor,
    changed_files: &mut ChangedFiles<'_>,
) -> LessonRun {
    let remark = |remark: &Option<String>| {
        let line = remark.as_ref().map(|it| reason::safe_line(it, MAX_REMARK_CHARS, redactor));
        line.filter(|line| !line.is_empty())
    };
    let mut files = |effect: SpanEffect| {
        let mut found: Vec<String> = Vec::new();
        for span in blocking.spans.iter().filter(|span| span.effect == effect) {
            for path in changed_files(span.from, span.to) {
                let path = reason::safe_line(&path, MAX_PATH_CHARS, redactor);
                if !found.contains(&path) && found.len() < MAX_FILES {
                    found.push(path);
                }
            }
        }
        found
    };
    LessonRun {
        run: retrospective.run.clone(),
        at_ms: blocking.last_ms,
        holds: blocking.holds,
        result: blocking.result,
        fixed_by: files(SpanEffect::Fixed),
        ineffective: files(SpanEffect::Ineffective),
        handovers: blocking.handovers,
        waived: remark(&blocking.waived),
        disputed: remark(&blocking.disputed),
        hint: remark(&blocking.hint),
    }
}

/// Notes how the run went with each lesson that its agent was shown.
fn record_uses(lessons: &mut [Lesson], retrospective: &Retrospective) {
    for lesson in lessons.iter_mut().filter(|it| retrospective.shown.contains(&it.id)) {
        let has_held = retrospective.findings.iter().any(|it| it.signature == lesson.signature);
        let effect = if has_held {
            LessonEffect::Repeated
        } else if retrospective.met.contains(&lesson.requirement) {
            LessonEffect::Avoided
        } else {
            LessonEffect::Unmeasured
        };
        match lesson.uses.iter_mut().find(|used| used.run == retrospective.run) {
            Some(used) => used.effect = effect,
            None => lesson.uses.push(LessonUse { run: retrospective.run.clone(), effect }),
        }
        if lesson.uses.len() > MAX_USES {
            lesson.uses.remove(0);
        }
    }
}

/// Two signatures with the same first digits are unlikely. The later one gets more digits.
fn make_ids_unique(lessons: &mut [Lesson]) {
    for position in 1..lessons.len() {
        let (before, rest) = lessons.split_at_mut(position);
        if let Some(lesson) = rest.first_mut()
            && before.iter().any(|it| it.id == lesson.id)
        {
            lesson.id = format!("{:016x}", lesson.signature.0);
        }
    }
}

/// Keeps the lessons that are worth most, without regard to any goal.
fn drop_lowest(lessons: &mut Vec<Lesson>, now_ms: u64) {
    if lessons.len() <= MAX_LESSONS {
        return;
    }
    let mut scores: Vec<_> = lessons
        .iter()
        .map(|lesson| {
            (lesson_ranking::base_score(lesson, now_ms), lesson.last_ms, lesson.id.clone())
        })
        .collect();
    scores.sort_by(|a, b| b.cmp(a));
    let kept: Vec<String> = scores.into_iter().take(MAX_LESSONS).map(|(.., id)| id).collect();
    lessons.retain(|lesson| kept.contains(&lesson.id));
}
