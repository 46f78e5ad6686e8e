//! The text output of a queue: a line for each event of a task, and a board at the bottom with the running tasks.

use super::super::bar::{fitting, of_most};
use super::super::screen::{Signs, line_of};
use super::super::view::Output;
use super::report;
use crate::term::{self, paint};
use crate::wording::safe;
use ralph_core::limits::{duration, money};
use ralph_core::text;
use ralph_drive::queue::{
    End, Ending, Heard, Known, Order, Outcome, Purse, Queue, QueueId, Schedule, Stand,
};
use serde_json::Value;

/// The limit on the lines of the board, so that it does not fill the window.
const MOST_LINES: usize = 16;
const LONGEST: usize = 400;
const WIDEST: usize = 100;
const LONGEST_NAME: usize = 24;

pub(super) struct Look {
    pub signs: Signs,
    pub is_live: bool,
    pub is_quiet: bool,
    pub now_ms: fn() -> u64,
}

pub(super) struct Screen<'a, O> {
    output: O,
    id: &'a QueueId,
    queue: &'a Queue,
    look: Look,
    rows: Vec<Row>,
    /// The board as it is drawn.
    drawn: String,
    since_ms: u64,
}

/// The state of a task between two events.
#[derive(Clone, Debug, Default)]
struct Row {
    iteration: u64,
    most: Option<u64>,
    /// Its current activity.
    at: String,
}

impl<'a, O: Output> Screen<'a, O> {
    pub(super) fn new(output: O, (id, queue): (&'a QueueId, &'a Queue), look: Look) -> Self {
        let since_ms = (look.now_ms)();
        let rows = vec![Row::default(); queue.tasks.len()];
        Self { output, id, queue, look, rows, drawn: String::new(), since_ms }
    }

    pub(super) fn opened(&mut self, known: &[Known]) {
        let id = self.id.as_str();
        let landed = known.iter().filter_map(|known| known.end.as_ref());
        let landed = landed.filter(|end| end.how == Ending::Landed).count();
        let source = safe(&self.queue.source.to_string_lossy());
        let tasks = text::counted(u64::try_from(known.len()).unwrap_or(u64::MAX), "task");
        let mut text = format!("{}  {tasks} of `{source}`", paint(term::BOLD, id));
        if landed > 0 {
            text.push_str(&format!(", {landed} landed already"));
        }
        text.push('\n');
        let stop = format!(
            "Ctrl-C lets the turns end and parks the tasks, twice ends them now; `ralph run --resume {id}` continues"
        );
        text.push_str(&line_of("", &paint(term::DIM, "stop"), &stop, self.columns()));
        self.say(&text);
    }

    pub(super) fn started(&mut self, task: usize, how: &Order) {
        let mut facts = match &how.run {
            Some(run) => format!("resumes {run}"),
            None => "starts".to_string(),
        };
        if let Some(most) = how.max_cost_micro_usd {
            facts.push_str(&format!(", at most {}", money(most)));
        }
        self.row(task, |row| row.at = "starts".to_string());
        self.tell(task, &facts);
    }

    /// Shows only the events that matter to a person who watches many tasks at once.
    pub(super) fn heard(&mut self, task: usize, heard: &Heard) {
        let line = &heard.line;
        let text = |name: &str| {
            safe(&text::line(line.get(name).and_then(Value::as_str).unwrap_or_default(), LONGEST))
        };
        let number = |name: &str| line.get(name).and_then(Value::as_u64);
        match line.get("event").and_then(Value::as_str).unwrap_or_default() {
            "prepared" => {
                let run = text("run");
                self.tell(task, &format!("is run {run}: {}", text("title")));
            }
            "standing" => {
                let (iteration, most) = (number("iteration"), number("max_iterations"));
                self.row(task, |row| {
                    row.iteration = iteration.unwrap_or(row.iteration);
                    row.most = most;
                });
            }
            "said" => self.row(task, |row| row.at = text("text")),
            "tool" => self.row(task, |row| row.at = format!("{} {}", text("name"), text("what"))),
            "gate_started" => self.row(task, |row| row.at = format!("gate {}", text("name"))),
            "held" => {
                let because = text("because");
                self.row(task, |row| row.at.clone_from(&because));
                self.tell(task, &format!("held — {because}"));
            }
            "waiting" => {
                self.tell(task, &format!("waits until {}: {}", text("until"), text("why")));
            }
            "handed_over" => self.tell(task, &format!("hands over: {}", text("why"))),
            "trouble" => self.tell(task, &format!("trouble — {}: {}", text("class"), text("text"))),
            "question" => {
                let run = text("run");
                let asks = format!("asks: {} (answer with `ralph tell {run} \"…\"`)", text("text"));
                self.tell(task, &asks);
            }
            _ => {}
        }
    }

    pub(super) fn ended(&mut self, task: usize, end: &End) {
        let why = safe(&text::line(&end.why, LONGEST));
        let facts = match (end.how, end.status) {
            (Ending::Landed, _) => format!("{} {why}", paint(term::GOOD, "✓ landed:")),
            (Ending::Parked, status) => {
                let status = status.map_or("failed", ralph_core::status::Status::name);
                format!("{} {why}", paint(term::BAD, &format!("✗ {status}:")))
            }
        };
        self.tell(task, &facts);
    }

    pub(super) fn tick(&mut self, schedule: &Schedule, purse: &Purse) {
        if !self.look.is_live {
            return;
        }
        let board = self.board(schedule, purse);
        let board = self.spelled(&board);
        if board != self.drawn {
            self.output.redraw(self.drawn.lines().count(), &board);
            self.drawn = board;
        }
    }

    pub(super) fn close(mut self, outcome: &Outcome) -> O {
        self.erase();
        let elapsed = (self.look.now_ms)().saturating_sub(self.since_ms);
        let text = report::told((self.id, self.queue), outcome, elapsed, self.columns());
        let text = self.spelled(&text);
        self.output.print(&if self.look.is_quiet { text } else { format!("\n{text}") });
        self.output
    }

    fn board(&self, schedule: &Schedule, purse: &Purse) -> String {
        let columns = self.output.columns();
        let mut lines = Vec::new();
        let mut counts = [0_usize; 4];
        for (task, (of, row)) in self.queue.tasks.iter().zip(&self.rows).enumerate() {
            let name = self.named(&of.name);
            let line = match schedule.stand(task) {
                Stand::Running => {
                    let most = row.most.map(|most| most.to_string());
                    let count = of_most(&format!("iteration {}", row.iteration), most);
                    let spent = money(purse.spent_on(task));
                    Some(format!("▸ {name}  {count} · {spent} · {}", row.at))
                }
                Stand::Ready => Some(format!("· {name}  is next")),
                Stand::Waits(_) | Stand::Done | Stand::Parked | Stand::Blocked(_) => None,
            };
            match schedule.stand(task) {
                Stand::Done => counts[0] += 1,
                Stand::Running => counts[1] += 1,
                Stand::Ready | Stand::Waits(_) => counts[2] += 1,
                Stand::Parked | Stand::Blocked(_) => counts[3] += 1,
            }
            lines.extend(line);
        }
        let left_out = lines.len().saturating_sub(MOST_LINES);
        lines.truncate(MOST_LINES);
        if left_out > 0 {
            lines.push(format!("  and {left_out} more"));
        }
        let [done, running, open, parked] = counts;
        let elapsed = (self.look.now_ms)().saturating_sub(self.since_ms);
        let spent = of_most(&money(purse.spent()), purse.total().map(money));
        let all = self.queue.tasks.len();
        let summary = [
            format!("{done} of {all} landed"),
            format!("{running} running"),
            format!("{open} to come"),
            format!("{parked} parked"),
            spent,
            duration(elapsed),
        ];
        lines.push(fitting(summary, columns));
        let mut board = String::new();
        for line in &lines {
            board.push_str(&paint(term::DIM, &term::fit(line, columns.saturating_sub(1))));
            board.push('\n');
        }
        board
    }

    fn row(&mut self, task: usize, change: impl FnOnce(&mut Row)) {
        if let Some(row) = self.rows.get_mut(task) {
            change(row);
        }
    }

    fn tell(&mut self, task: usize, facts: &str) {
        let name = self.queue.tasks.get(task).map_or("?", |task| task.name.as_str());
        let line = format!("{}  {facts}\n", paint(term::BOLD, &self.named(name)));
        self.say(&line);
    }

    /// The name, padded to the widest one.
    fn named(&self, name: &str) -> String {
        let widest = self.queue.tasks.iter().map(|task| task.name.chars().count()).max();
        let widest = widest.unwrap_or(0).min(LONGEST_NAME);
        format!("{:<widest$}", text::line(name, LONGEST_NAME))
    }

    fn say(&mut self, text: &str) {
        if self.look.is_quiet {
            return;
        }
        self.erase();
        let text = self.spelled(text);
        self.output.print(&text);
    }

    fn erase(&mut self) {
        if !self.drawn.is_empty() {
            self.output.redraw(self.drawn.lines().count(), "");
            self.drawn.clear();
        }
    }

    fn columns(&self) -> usize {
        self.output.columns().min(WIDEST)
    }

    /// Replaces signs by letters where there is no UTF-8.
    fn spelled(&self, text: &str) -> String {
        super::super::screen::spelled(self.look.signs, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::id::RunId;
    use ralph_core::status::Status;
    use ralph_drive::queue::{Became, Stopped, Task};
    use serde_json::json;
    use std::path::Path;

    /// Records what is printed and what is redrawn.
    struct Paper {
        text: String,
        columns: usize,
    }

    impl Default for Paper {
        fn default() -> Self {
            Self { text: String::new(), columns: 72 }
        }
    }

    impl Output for Paper {
        fn print(&mut self, text: &str) {
            self.text.push_str(&term::plain(text));
        }

        fn redraw(&mut self, lines: usize, text: &str) {
            self.text.push_str(&format!("<up {lines}>\n{}", term::plain(text)));
        }

        fn columns(&self) -> usize {
            self.columns
        }
    }

    fn queue(names: &[(&str, &[usize])]) -> Queue {
        let task = |(name, after): &(&str, &[usize])| Task {
            name: (*name).to_string(),
            after: after.to_vec(),
            ..Task::default()
        };
        Queue { source: "/srv/queue.toml".into(), tasks: names.iter().map(task).collect() }
    }

    fn heard(line: Value) -> Heard {
        Heard { line, ..Heard::default() }
    }

    fn order(task: usize) -> Order {
        Order { task, run: None, max_cost_micro_usd: Some(3_000_000), max_duration_ms: None }
    }

    /// Parts are never cut: `$0 of $2` would be another budget than `$0 of $20`.
    #[test]
    fn parts_that_do_not_fit_are_left_out() {
        let queue = queue(&[("parser", &[])]);
        let id = QueueId::of(Path::new("/srv/queue.toml"), Path::new("/srv"));
        let look = || Look {
            signs: Signs::Unicode,
            is_live: true,
            is_quiet: false,
            now_ms: || 1_794_000_000_000,
        };
        let mut output_text = String::new();
        for columns in [80, 66, 60, 59, 40, 12] {
            let paper = Paper { text: String::new(), columns };
            let mut screen = Screen::new(paper, (&id, &queue), look());
            let purse = Purse::new(Some(20_000_000), 0, &[(0, None)]);
            screen.tick(&Schedule::new(&queue.tasks, 1), &purse);
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
    fn board_shows_the_running_tasks() {
        let queue = queue(&[("parser", &[]), ("lexer", &[]), ("docs", &[0]), ("site", &[])]);
        let id = QueueId::of(Path::new("/q"), Path::new("/p"));
        let look =
            Look { signs: Signs::Unicode, is_live: true, is_quiet: false, now_ms: || 60_000 };
        let mut screen = Screen::new(Paper::default(), (&id, &queue), look);
        let mut schedule = Schedule::new(&queue.tasks, 2);
        let mut purse = Purse::new(Some(20_000_000), 1, &[(0, None); 4]);
        schedule.start(0);
        schedule.start(1);
        screen.started(0, &order(0));
        purse.note(0, 1_200_000);
        screen.heard(0, &heard(json!({"event":"standing","iteration":3,"max_iterations":25})));
        screen.heard(0, &heard(json!({"event":"tool","name":"Bash","what":"cargo test\u{1b}[2J"})));
        let long = "x".repeat(500);
        screen.heard(1, &heard(json!({"event":"said","text":long})));
        screen.heard(1, &heard(json!({"event":"unheard of"})));
        screen.heard(9, &heard(json!(17)));
        screen.tick(&schedule, &purse);
        screen.tick(&schedule, &purse);
        let why = "merged into `main` as 3f1c2ab".to_string();
        schedule.end(0, Ending::Landed);
        screen.ended(0, &End { how: Ending::Landed, status: Some(Status::Verified), why });
        let why = "nobody answered".to_string();
        schedule.end(1, Ending::Parked);
        screen.ended(1, &End { how: Ending::Parked, status: Some(Status::NeedsHuman), why });
        screen.tick(&schedule, &purse);
        let became = |stand, run: Option<&str>| Became {
            stand,
            end: None,
            run: run.and_then(RunId::parse),
            spent_micro_usd: 0,
        };
        let tasks = vec![
            became(Stand::Done, Some("k7f2")),
            became(Stand::Parked, Some("9qd1")),
            became(Stand::Ready, None),
            became(Stand::Ready, None),
        ];
        let stopped = Some(Stopped::OutOfBudget);
        let outcome = Outcome { tasks, stopped, spent_micro_usd: 1_200_000 };
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
                the budget is used up
        · site          not started       $0
                the budget is used up

        not done: queue.toml — 1 of 4 tasks landed, 0 ms, $1.20
        next    `ralph run --resume [queue]` continues with what is left
        ");
    }
}
