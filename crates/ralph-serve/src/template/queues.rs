//! The queues and their tasks.

use super::marks;
use crate::page_region::PageRegion;
use maud::{Markup, html};
use ralph_core::id::RunId;
use ralph_core::text;
use ralph_deck::view::queue_status::{QueueStatus, QueueTaskView};
use ralph_deck::wording::safe_line;

pub(crate) fn queues_regions(queues: &[QueueStatus], unreadable: usize) -> Vec<PageRegion> {
    let lists = html! { div #queues { @for queue in queues { (queue_section(queue)) } } };
    vec![
        PageRegion::new("queues-head", queues_head(queues, unreadable)),
        PageRegion::new("queues", lists),
    ]
}

fn queues_head(queues: &[QueueStatus], unreadable: usize) -> Markup {
    let open = queues.iter().filter(|queue| queue.count().done < queue.tasks.tasks.len()).count();
    html! {
        div.page-head #queues-head { div {
            @if queues.is_empty() { h1 { "No queues" } }
            @else if open == 0 { h1 { "Every queue is done" } }
            @else { h1 { (text::count_noun(open, "queue")) " in progress" } }
            @if queues.is_empty() { p.detail { code { "ralph run --queue FILE" } " works through a list of goals." } }
            @if unreadable > 0 { p.detail { (text::count_noun(unreadable, "queue")) " cannot be read; " code { "ralph list queues" } " shows why." } }
        } }
    }
}

fn queue_section(queue: &QueueStatus) -> Markup {
    let view = queue.view();
    let heading = format!("h-queue-{}", queue.id.as_str());
    html! {
        section aria-labelledby=(heading) id={ "queue-" (queue.id.as_str()) } {
            div.head {
                h2 id=(heading) { (safe_line(&view.source)) }
                span.quiet { (queue.progress_text()) }
            }
            table.tbl.cards {
                thead { tr { th scope="col" { "Task" } th scope="col" { "State" } th scope="col" { "Why" } th.num scope="col" { "Run" } } }
                tbody { @for task in &view.tasks { (task_row(task)) } }
            }
            @if let Some(resume) = &view.resume { p.hint { code { (resume) } " continues it" } }
        }
    }
}

fn task_row(task: &QueueTaskView<'_>) -> Markup {
    let (class, name) = match task.state {
        "landed" | "done" => ("st-verified", "verified"),
        "at_work" | "running" => ("st-working", "working"),
        "parked" => ("st-parked", "parked"),
        "blocked" => ("st-cancelled", "blocked"),
        _ => ("st-queue", "queue"),
    };
    let run = task.run.and_then(RunId::parse);
    html! {
        tr class=(class) {
            th scope="row" { (safe_line(task.name)) }
            td.r.state { (marks::mark(name)) span.word { (task.state.replace('_', " ")) } }
            td.full { (safe_line(&task.because)) }
            td.num { @if let Some(run) = run { a href={ "/run/" (run) } { span.mono { (run) } } } }
        }
    }
}
