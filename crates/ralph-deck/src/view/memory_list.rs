//! What ralph remembers of a project.

use super::learning_list::LearningView;
use ralph_core::id::RunId;
use ralph_core::lesson::{FileTally, Lesson, LessonRun};
use ralph_sys::clock;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct MemoryListView<'a> {
    pub v: u8,
    pub project: String,
    pub lessons: Vec<LessonView<'a>>,
    pub notes: Vec<LearningView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct LessonView<'a> {
    pub id: &'a str,
    pub requirement: &'a str,
    pub stage: &'a str,
    pub finding: &'a str,
    pub first_at: String,
    pub last_at: String,
    /// Stops that the finding held, and the runs with them.
    pub holds: u32,
    pub runs: u32,
    pub fixed_by: Vec<FileTallyView>,
    pub ineffective: Vec<FileTallyView>,
    pub hint: Option<&'a str>,
    pub waived: Option<&'a str>,
    pub disputed: Option<&'a str>,
    /// Runs whose agent was shown the lesson, and then avoided the finding or not.
    pub helped: u32,
    pub missed: u32,
}

#[derive(Debug, Serialize)]
pub struct FileTallyView {
    pub path: String,
    pub runs: u32,
}

/// One lesson with the runs that it keeps.
#[derive(Debug, Serialize)]
pub struct LessonDetailView<'a> {
    pub v: u8,
    #[serde(flatten)]
    pub lesson: LessonView<'a>,
    /// Oldest first.
    pub history: Vec<LessonRunView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct LessonRunView<'a> {
    pub run: &'a str,
    pub at: String,
    pub holds: u32,
    /// `fixed`, `waived` or `open`
    pub result: &'static str,
    pub fixed_by: &'a [String],
    pub ineffective: &'a [String],
    pub handovers: u32,
}

#[derive(Debug, Serialize)]
pub struct MemoryForgottenView<'a> {
    pub v: u8,
    pub forgotten: &'a [String],
}

#[derive(Debug, Serialize)]
pub struct MemoryLearnedView<'a> {
    pub v: u8,
    pub runs: Vec<LearnedRunView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct LearnedRunView<'a> {
    pub run: &'a str,
    pub lessons: &'a [String],
    pub new: usize,
}

#[derive(Debug, Serialize)]
pub struct MemoryExportView<'a> {
    pub v: u8,
    pub path: Option<String>,
    pub markdown: &'a str,
}

pub fn lesson_view(lesson: &Lesson) -> LessonView<'_> {
    let tallies = |files: Vec<FileTally>| {
        files.into_iter().map(|FileTally { path, runs }| FileTallyView { path, runs }).collect()
    };
    LessonView {
        id: &lesson.id,
        requirement: &lesson.requirement,
        stage: &lesson.stage,
        finding: &lesson.finding,
        first_at: clock::format_rfc3339(lesson.first_ms),
        last_at: clock::format_rfc3339(lesson.last_ms),
        holds: lesson.hold_count(),
        runs: lesson.run_count(),
        fixed_by: tallies(lesson.fixed_by()),
        ineffective: tallies(lesson.ineffective()),
        hint: lesson.hint(),
        waived: lesson.waived(),
        disputed: lesson.disputed(),
        helped: lesson.helped(),
        missed: lesson.missed(),
    }
}

pub fn lesson_detail_view<'a>(lesson: &'a Lesson) -> LessonDetailView<'a> {
    let run_view = |run: &'a LessonRun| LessonRunView {
        run: RunId::as_str(&run.run),
        at: clock::format_rfc3339(run.at_ms),
        holds: run.holds,
        result: run.result.name(),
        fixed_by: &run.fixed_by,
        ineffective: &run.ineffective,
        handovers: run.handovers,
    };
    let history = lesson.runs.iter().map(run_view).collect();
    LessonDetailView { v: 1, lesson: lesson_view(lesson), history }
}
