//! How `ralph memory` shows a lesson.

use crate::term::{self, paint};
use ralph_core::lesson::{FileTally, Lesson};
use ralph_core::text::count_noun;
use ralph_deck::wording::{self, safe_line};
use ralph_sys::clock;

/// The page of `ralph memory show`.
pub(super) fn render_lesson(lesson: &Lesson) -> String {
    let now_ms = clock::now_ms();
    let id = paint(term::BOLD, &safe_line(&lesson.id));
    let mut out = format!(
        "{id}  {} ({})\n  {}\n  {}\n",
        safe_line(&lesson.requirement),
        safe_line(&lesson.stage),
        safe_line(&lesson.finding),
        paint(term::DIM, &lesson_note(lesson, now_ms)),
    );
    let mut add = |label: &str, value: String| {
        if !value.is_empty() {
            out.push_str(&format!("  {label}: {value}\n"));
        }
    };
    let files = |files: Vec<FileTally>| {
        let names: Vec<_> = files.iter().map(|file| safe_line(&file.path)).collect();
        names.join(", ")
    };
    add("fixed by changes to", files(lesson.fixed_by()));
    add("changes that did not help", files(lesson.ineffective()));
    add("a person's hint", lesson.hint().map(safe_line).unwrap_or_default());
    add("waived by a person", lesson.waived().map(safe_line).unwrap_or_default());
    add("disputed by an agent", lesson.disputed().map(safe_line).unwrap_or_default());
    out.push_str("  runs\n");
    for run in &lesson.runs {
        let handovers = match run.handovers {
            0 => String::new(),
            count => format!(" · {}", count_noun(count, "hand-over")),
        };
        out.push_str(&format!(
            "    {}  {} · {}{handovers} · {}\n",
            run.run,
            count_noun(run.holds, "stop"),
            run.result.name(),
            wording::ago(now_ms, run.at_ms)
        ));
    }
    if lesson.older_runs > 0 {
        let older = count_noun(lesson.older_runs, "older run");
        out.push_str(&format!("    and {older}\n"));
    }
    out
}

/// `2 stops in 1 run · fixed by src/a.rs · helped 1 of 2 runs · 3 d ago`
pub(super) fn lesson_note(lesson: &Lesson, now_ms: u64) -> String {
    let mut parts = vec![format!(
        "{} in {}",
        count_noun(lesson.hold_count(), "stop"),
        count_noun(lesson.run_count(), "run")
    )];
    let fixed = lesson.fixed_by();
    if let Some(first) = fixed.first() {
        let more = match fixed.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        parts.push(format!("fixed by {}{more}", safe_line(&first.path)));
    }
    if lesson.waived().is_some() {
        parts.push("waived".to_string());
    }
    if let used @ 1.. = lesson.helped().saturating_add(lesson.missed()) {
        let runs = count_noun(used, "run");
        parts.push(format!("helped {} of {runs}", lesson.helped()));
    }
    parts.push(wording::ago(now_ms, lesson.last_ms));
    parts.join(" · ")
}
