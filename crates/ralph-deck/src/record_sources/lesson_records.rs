//! Lessons that ralph derived from the runs of a project, one record each.

use crate::recall_context::RecallContext;
use crate::recall_record::{RecallKind, RecallRecord};
use ralph_core::lesson;
use ralph_home::lesson_store;
use ralph_sys::clock;
use std::path::Path;

/// Between the file of a project's lessons and the id of one of them, in the path of a record.
pub(crate) const LESSON_ID_MARK: char = '#';

/// The lessons of a project. A file that cannot be read has none.
pub(crate) fn lesson_records(context: &RecallContext, project: &Path) -> Vec<RecallRecord> {
    let lessons = lesson_store::load_lessons(&context.home, project).unwrap_or_default();
    let file = context.home.project_memory(project).display().to_string();
    let record = |lesson: &lesson::Lesson| {
        let clean = |text: &str| context.clean_and_redact(text.as_bytes());
        // Dates instead of ages, which would be wrong the next day. The first line is the title.
        let markdown =
            lesson::render_markdown(&[lesson], &[], clock::local_date, context.redactor());
        let lines = markdown.lines().skip(1).map(|line| line.trim_start_matches("  - "));
        let body = lines.collect::<Vec<_>>().join("; ");
        RecallRecord {
            kind: RecallKind::Lesson,
            run: None,
            project: project.display().to_string(),
            at_ms: lesson.last_ms,
            title: format!("{}: {}", clean(&lesson.requirement), clean(&lesson.finding)),
            body: clean(&body),
            path: format!("{file}{LESSON_ID_MARK}{}", clean(&lesson.id)),
            line: None,
        }
    };
    lessons.iter().map(record).collect()
}
