//! The text output of a queue: a line for each event of a task, and a board at the bottom with the running tasks.

use super::super::drive_view::DriveOutput;
use super::super::run_screen::SignSet;
use super::super::status_bar::join_fitting;
use super::super::text_lines::labelled_line;
use super::queue_report;
use super::task_process::LONGEST_REASON;
use crate::term::{self, TextWidth, paint};
use ralph_core::text;
use ralph_core::units::{format_duration, format_usd};
use ralph_deck::view::run_report::with_limit;
use ralph_deck::wording::{count_noun, safe_line};
use ralph_drive::queue::{
    KnownQueueTask, QueueBudget, QueueId, QueueOutcome, QueueTaskEnd, QueueTaskEnding,
    QueueTaskOrder, QueueTaskOutput, QueueTaskState, TaskQueue, TaskSchedule,
};
use serde_json::Value;

/// The limit on the lines of the board, so that it does not fill the window.
const MAX_BOARD_LINES: usize = 16;
const MAX_TEXT_CHARS: usize = 400;
const MAX_COLUMNS: usize = 100;
const LONGEST_NAME: usize = 24;

pub(super) struct QueueScreenOptions {
    pub signs: SignSet,
    pub is_live: bool,
    pub is_quiet: bool,
    pub now_ms: fn() -> u64,
}

pub(super) struct QueueScreen<'a, O> {
    output: O,
    id: &'a QueueId,
    queue: &'a TaskQueue,
    options: QueueScreenOptions,
    rows: Vec<TaskRow>,
    /// The board as it is drawn.
    drawn: String,
    since_ms: u64,
}

/// The state of a task between two events.
#[derive(Clone, Debug, Default)]
struct TaskRow {
    iteration: u64,
    most: Option<u64>,
    /// Its current activity.
    activity: String,
}

impl<'a, O: DriveOutput> QueueScreen<'a, O> {
    pub(super) fn new(
        output: O,
        (id, queue): (&'a QueueId, &'a TaskQueue),
        look: QueueScreenOptions,
    ) -> Self {
        let since_ms = (look.now_ms)();
        let rows = vec![TaskRow::default(); queue.tasks.len()];
        Self { output, id, queue, options: look, rows, drawn: String::new(), since_ms }
    }

    pub(super) fn opened(&mut self, known: &[KnownQueueTask]) {
        let id = self.id.as_str();
        let landed = known.iter().filter_map(|known| known.end.as_ref());
        let landed = landed.filter(|end| end.how == QueueTaskEnding::Landed).count();
        let source = safe_line(&self.queue.source.to_string_lossy());
        let tasks = count_noun(known.len(), "task");
        let mut text = format!("{}  {tasks} of `{source}`", paint(term::BOLD, id));
        if landed > 0 {
            text.push_str(&format!(", {landed} landed already"));
        }
        text.push('\n');
        let stop = format!(
            "Ctrl-C lets the turns end and parks the tasks, a second Ctrl-C ends them now; `ralph run --resume {id}` continues"
        );
        text.push_str(&labelled_line("", &paint(term::DIM, "stop"), &stop, self.text_width()));
        self.print_text(&text);
    }

    pub(super) fn started(&mut self, task: usize, how: &QueueTaskOrder) {
        let mut facts = match &how.run {
            Some(run) => format!("resumes {run}"),
            None => "starts".to_string(),
        };
        if let Some(most) = how.max_cost_micro_usd {
            facts.push_str(&format!(", at most {}", format_usd(most)));
        }
        self.row(task, |row| row.activity = "starts".to_string());
        self.print_task_line(task, &facts);
    }

    /// Shows only the events that matter to a person who watches many tasks at once.
    pub(super) fn on_run_event(&mut self, task: usize, heard: &QueueTaskOutput) {
        let line = &heard.line;
        let text = |name: &str| {
            safe_line(&text::clean_line(
                line.get(name).and_then(Value::as_str).unwrap_or_default(),
                MAX_TEXT_CHARS,
            ))
        };
        let number = |name: &str| line.get(name).and_then(Value::as_u64);
        match line.get("event").and_then(Value::as_str).unwrap_or_default() {
            "prepared" => {
                let run = text("run");
                self.print_task_line(task, &format!("is run {run}: {}", text("title")));
            }
            "standing" => {
                let (iteration, most) = (number("iteration"), number("max_iterations"));
                self.row(task, |row| {
                    row.iteration = iteration.unwrap_or(row.iteration);
                    row.most = most;
                });
            }
            "said" => self.row(task, |row| row.activity = text("text")),
            "tool" => {
                self.row(task, |row| row.activity = format!("{} {}", text("name"), text("what")));
            }
            "gate_started" => self.row(task, |row| row.activity = format!("gate {}", text("name"))),
            "held" => {
                let because = text("because");
                self.row(task, |row| row.activity.clone_from(&because));
                self.print_task_line(task, &format!("held — {because}"));
            }
            "waiting" => {
                self.print_task_line(
                    task,
                    &format!("waits until {}: {}", text("until"), text("why")),
                );
            }
            "handed_over" => self.print_task_line(task, &format!("hands over: {}", text("why"))),
            "trouble" => self
                .print_task_line(task, &format!("trouble — {}: {}", text("class"), text("text"))),
            "question" => {
                let run = text("run");
                let asks = format!("asks: {} (answer with `ralph tell {run} \"…\"`)", text("text"));
                self.print_task_line(task, &asks);
            }
            _ => {}
        }
    }

    pub(super) fn ended(&mut self, task: usize, end: &QueueTaskEnd) {
        let why = text::clean_line(&end.why, LONGEST_REASON);
        let facts = match (end.how, end.status) {
            (QueueTaskEnding::Landed, _) => format!("{} {why}", paint(term::GOOD, "✓ landed:")),
            (QueueTaskEnding::Parked, status) => {
                let status = status.map_or("failed", ralph_core::status::RunStatus::name);
                format!("{} {why}", paint(term::BAD, &format!("✗ {status}:")))
            }
        };
        self.print_task_line(task, &facts);
    }

    pub(super) fn tick(&mut self, schedule: &TaskSchedule, purse: &QueueBudget) {
        if !self.options.is_live {
            return;
        }
        let board = self.board(schedule, purse);
        let board = self.replace_signs(&board);
        if board != self.drawn {
            self.output.redraw(self.drawn.lines().count(), &board);
            self.drawn = board;
        }
    }

    pub(super) fn close(mut self, outcome: &QueueOutcome) -> O {
        self.erase();
        let elapsed = (self.options.now_ms)().saturating_sub(self.since_ms);
        let text = queue_report::render_queue_report(
            (self.id, self.queue),
            outcome,
            elapsed,
            self.text_width(),
        );
        let text = self.replace_signs(&text);
        self.output.print(&if self.options.is_quiet { text } else { format!("\n{text}") });
        self.output
    }

    fn board(&self, schedule: &TaskSchedule, purse: &QueueBudget) -> String {
        let columns = self.output.columns();
        let mut lines = Vec::new();
        let mut counts = [0_usize; 4];
        for (task, (of, row)) in self.queue.tasks.iter().zip(&self.rows).enumerate() {
            let name = self.padded_name(&of.name);
            let line = match schedule.state(task) {
                QueueTaskState::Running => {
                    let most = row.most.map(|most| most.to_string());
                    let count = with_limit(&format!("iteration {}", row.iteration), most);
                    let spent = format_usd(purse.spent_on(task));
                    Some(format!("▸ {name}  {count} · {spent} · {}", row.activity))
                }
                QueueTaskState::Ready => Some(format!("· {name}  is next")),
                QueueTaskState::Waits(_)
                | QueueTaskState::Done
                | QueueTaskState::Parked
                | QueueTaskState::Blocked(_) => None,
            };
            match schedule.state(task) {
                QueueTaskState::Done => counts[0] += 1,
                QueueTaskState::Running => counts[1] += 1,
                QueueTaskState::Ready | QueueTaskState::Waits(_) => counts[2] += 1,
                QueueTaskState::Parked | QueueTaskState::Blocked(_) => counts[3] += 1,
            }
            lines.extend(line);
        }
        let left_out = lines.len().saturating_sub(MAX_BOARD_LINES);
        lines.truncate(MAX_BOARD_LINES);
        if left_out > 0 {
            lines.push(format!("  and {left_out} more"));
        }
        let [done, running, open, parked] = counts;
        let elapsed = (self.options.now_ms)().saturating_sub(self.since_ms);
        let spent = with_limit(&format_usd(purse.spent()), purse.total().map(format_usd));
        let all = self.queue.tasks.len();
        let summary = [
            format!("{done} of {all} landed"),
            format!("{running} running"),
            format!("{open} to come"),
            format!("{parked} parked"),
            spent,
            format_duration(elapsed),
        ];
        lines.push(join_fitting(summary, columns));
        let mut board = String::new();
        for line in &lines {
            board.push_str(&paint(term::DIM, &term::fit(line, columns.saturating_sub(1))));
            board.push('\n');
        }
        board
    }

    fn row(&mut self, task: usize, change: impl FnOnce(&mut TaskRow)) {
        if let Some(row) = self.rows.get_mut(task) {
            change(row);
        }
    }

    fn print_task_line(&mut self, task: usize, facts: &str) {
        let name = self.queue.tasks.get(task).map_or("?", |task| task.name.as_str());
        let line = format!("{}  {facts}\n", paint(term::BOLD, &self.padded_name(name)));
        self.print_text(&line);
    }

    /// The name, padded to the widest one.
    fn padded_name(&self, name: &str) -> String {
        let widest = self.queue.tasks.iter().map(|task| task.name.chars().count()).max();
        let widest = widest.unwrap_or(0).min(LONGEST_NAME);
        format!("{:<widest$}", text::clean_line(name, LONGEST_NAME))
    }

    fn print_text(&mut self, text: &str) {
        if self.options.is_quiet {
            return;
        }
        self.erase();
        let text = self.replace_signs(text);
        self.output.print(&text);
    }

    fn erase(&mut self) {
        if !self.drawn.is_empty() {
            self.output.redraw(self.drawn.lines().count(), "");
            self.drawn.clear();
        }
    }

    fn text_width(&self) -> TextWidth {
        self.output.text_width(MAX_COLUMNS)
    }

    /// Replaces signs by letters where there is no UTF-8.
    fn replace_signs(&self, text: &str) -> String {
        super::super::run_screen::replace_signs(self.options.signs, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::id::RunId;
    use ralph_core::status::RunStatus;
    use ralph_drive::queue::{QueueStopReason, QueueTask, QueueTaskOutcome};
    use serde_json::json;
    use std::path::Path;

    /// Records what is printed and what is redrawn.
    struct QueueRecordedOutput {
        text: String,
        columns: usize,
    }

    impl Default for QueueRecordedOutput {
        fn default() -> Self {
            Self { text: String::new(), columns: 72 }
        }
    }

    impl DriveOutput for QueueRecordedOutput {
        fn print(&mut self, text: &str) {
            self.text.push_str(&term::strip_styles(text));
        }

        fn redraw(&mut self, lines: usize, text: &str) {
            self.text.push_str(&format!("<up {lines}>\n{}", term::strip_styles(text)));
        }

        fn columns(&self) -> usize {
            self.columns
        }

        fn text_width(&self, most: usize) -> TextWidth {
            TextWidth::Columns(self.columns.min(most))
        }
    }

    fn queue(names: &[(&str, &[usize])]) -> TaskQueue {
        let task = |(name, after): &(&str, &[usize])| QueueTask {
            name: (*name).to_string(),
            after: after.to_vec(),
            ..QueueTask::default()
        };
        TaskQueue { source: "/srv/queue.toml".into(), tasks: names.iter().map(task).collect() }
    }

    fn heard(line: Value) -> QueueTaskOutput {
        QueueTaskOutput { line, ..QueueTaskOutput::default() }
    }

    fn order(task: usize) -> QueueTaskOrder {
        QueueTaskOrder {
            task,
            run: None,
            max_cost_micro_usd: Some(3_000_000),
            max_duration_ms: None,
        }
    }

    /// Parts are never cut: `$0 of $2` would be another budget than `$0 of $20`.
    #[test]
    fn parts_that_do_not_fit_are_left_out() {
        let queue = queue(&[("parser", &[])]);
        let id = QueueId::for_queue(Path::new("/srv/queue.toml"), Path::new("/srv"));
        let look = || QueueScreenOptions {
            signs: SignSet::Unicode,
            is_live: true,
            is_quiet: false,
            now_ms: || 1_794_000_000_000,
        };
        let mut output_text = String::new();
        for columns in [80, 66, 60, 59, 40, 12] {
            let paper = QueueRecordedOutput { text: String::new(), columns };
            let mut screen = QueueScreen::new(paper, (&id, &queue), look());
            let purse = QueueBudget::new(Some(20_000_000), 0, &[(0, None)]);
            screen.tick(&TaskSchedule::new(&queue.tasks, 1), &purse);
            let bar = screen.output.text.lines().last().unwrap_or_default();
            output_text.push_str(&format!("{columns:>2} {bar}\n"));
        }
        insta::assert_snapshot!(output_text, @"
        80 0 of 1 landed · 0 running · 1 to come · 0 parked · $0 of $20 · 0 ms
        66 0 of 1 landed · 0 running · 1 to come · 0 parked · $0 of $20
        60 0 of 1 landed · 0 running · 1 to come · 0 parked
        59 0 of 1 landed · 0 running · 1 to come · 0 parked
        40 0 of 1 landed · 0 running · 1 to come
        12
        ");
    }

    /// One line for each running task and one for the queue, none wider than the terminal whatever an agent prints.
    #[test]
    #[expect(
        clippy::too_many_lines,
        reason = "a table of cases, or one story with its whole output"
    )]
    fn board_shows_the_running_tasks() {
        let queue = queue(&[("parser", &[]), ("lexer", &[]), ("docs", &[0]), ("site", &[])]);
        let id = QueueId::for_queue(Path::new("/q"), Path::new("/p"));
        let look = QueueScreenOptions {
            signs: SignSet::Unicode,
            is_live: true,
            is_quiet: false,
            now_ms: || 60_000,
        };
        let mut screen = QueueScreen::new(QueueRecordedOutput::default(), (&id, &queue), look);
        let mut schedule = TaskSchedule::new(&queue.tasks, 2);
        let mut purse = QueueBudget::new(Some(20_000_000), 1, &[(0, None); 4]);
        schedule.start(0);
        schedule.start(1);
        screen.started(0, &order(0));
        purse.record_spent(0, 1_200_000);
        screen
            .on_run_event(0, &heard(json!({"event":"standing","iteration":3,"max_iterations":25})));
        screen.on_run_event(
            0,
            &heard(json!({"event":"tool","name":"Bash","what":"cargo test\u{1b}[2J"})),
        );
        let long = "x".repeat(500);
        screen.on_run_event(1, &heard(json!({"event":"said","text":long})));
        screen.on_run_event(1, &heard(json!({"event":"unheard of"})));
        screen.on_run_event(9, &heard(json!(17)));
        screen.tick(&schedule, &purse);
        screen.tick(&schedule, &purse);
        let why = "merged into `main` as 3f1c2ab".to_string();
        schedule.end(0, QueueTaskEnding::Landed);
        screen.ended(
            0,
            &QueueTaskEnd { how: QueueTaskEnding::Landed, status: Some(RunStatus::Verified), why },
        );
        let why = "nobody answered".to_string();
        schedule.end(1, QueueTaskEnding::Parked);
        screen.ended(
            1,
            &QueueTaskEnd {
                how: QueueTaskEnding::Parked,
                status: Some(RunStatus::NeedsHuman),
                why,
            },
        );
        screen.tick(&schedule, &purse);
        let became = |stand, run: Option<&str>| QueueTaskOutcome {
            state: stand,
            end: None,
            run: run.and_then(RunId::parse),
            spent_micro_usd: 0,
        };
        let tasks = vec![
            became(QueueTaskState::Done, Some("k7f2")),
            became(QueueTaskState::Parked, Some("9qd1")),
            became(QueueTaskState::Ready, None),
            became(QueueTaskState::Ready, None),
        ];
        let stopped = Some(QueueStopReason::OutOfBudget {
            left_micro_usd: 10_000,
            least_micro_usd: 1_000_000,
        });
        let outcome = QueueOutcome { tasks, stopped, spent_micro_usd: 1_200_000 };
        let output_text = screen.close(&outcome).text.replace(id.as_str(), "[queue]");
        insta::assert_snapshot!(output_text, @"
        parser  starts, at most $3
        <up 0>
        ▸ parser  iteration 3 of 25 · $1.20 · Bash cargo test
        ▸ lexer   iteration 0 · $0 · xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        · site    is next
        0 of 4 landed · 2 running · 2 to come · 0 parked · $1.20 of $20 · 0 ms
        <up 4>
        parser  ✓ landed: merged into `main` as 3f1c2ab
        lexer   ✗ needs_human: nobody answered
        <up 0>
        · docs    is next
        · site    is next
        1 of 4 landed · 0 running · 2 to come · 1 parked · $1.20 of $20 · 0 ms
        <up 3>

        ✓ parser  k7f2  landed            $0
        ✗ lexer   9qd1  failed            $0
        · docs          not started       $0
                $0.01 of the budget is left, and a task starts with at least $1
                (`runner.worst_turn_usd`)
        · site          not started       $0
                $0.01 of the budget is left, and a task starts with at least $1
                (`runner.worst_turn_usd`)

        not done: queue.toml — 1 of 4 tasks landed, 0 ms, $1.20
        next    `ralph run --queue /srv/queue.toml --max-cost USD` continues
                with a larger budget
        ");
    }
}
