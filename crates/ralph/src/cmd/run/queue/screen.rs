//! A queue as a person watches it: a line for each task that moves, and below it a board that does not scroll away.

use super::super::bar::of_most;
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

/// More lines than this would push everything else out of the window.
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
    /// As it is drawn.
    drawn: String,
    since_ms: u64,
}

/// What is known of a task between two events.
#[derive(Clone, Debug, Default)]
struct Row {
    iteration: u64,
    most: Option<u64>,
    /// What it is at.
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
        let mut text = format!("{}  {} tasks of `{source}`", paint(term::BOLD, id), known.len());
        if landed > 0 {
            text.push_str(&format!(", {landed} landed already"));
        }
        text.push('\n');
        let stop = format!(
            "Ctrl-C lets the turns end and parks the tasks, twice ends them now; `ralph run --resume {id}` goes on"
        );
        text.push_str(&line_of("", &paint(term::DIM, "stop"), &stop, self.columns()));
        self.say(&text);
    }

    pub(super) fn started(&mut self, task: usize, how: &Order) {
        let mut facts = match &how.run {
            Some(run) => format!("goes on with {run}"),
            None => "begins".to_string(),
        };
        if let Some(most) = how.max_cost_micro_usd {
            facts.push_str(&format!(", at most {}", money(most)));
        }
        self.row(task, |row| row.at = "starts".to_string());
        self.tell(task, &facts);
    }

    /// Only what a person who watches many at once wants to know.
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
                self.row(task, |row| row.at = because.clone());
                self.tell(task, &format!("held — {because}"));
            }
            "waiting" => {
                self.tell(task, &format!("waits until {}: {}", text("until"), text("why")))
            }
            "handed_over" => self.tell(task, &format!("hands over: {}", text("why"))),
            "trouble" => self.tell(task, &format!("trouble: {} {}", text("class"), text("text"))),
            "question" => {
                let run = text("run");
                let asks = format!("asks: {} (`ralph tell {run} \"…\"` answers)", text("text"));
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
            let name = text::line(&of.name, LONGEST_NAME);
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
        lines.push(format!(
            "{done} of {all} landed · {running} at work · {open} to come · {parked} parked · {spent} · {}",
            duration(elapsed)
        ));
        let fit = |line: &String| paint(term::DIM, &term::fit(line, columns.saturating_sub(1)));
        lines.iter().map(|line| format!("{}\n", fit(line))).collect()
    }

    fn row(&mut self, task: usize, change: impl FnOnce(&mut Row)) {
        if let Some(row) = self.rows.get_mut(task) {
            change(row);
        }
    }

    fn tell(&mut self, task: usize, facts: &str) {
        let name = self.queue.tasks.get(task).map_or("?", |task| task.name.as_str());
        let name = text::line(name, LONGEST_NAME);
        let line = format!("{}  {facts}\n", paint(term::BOLD, &name));
        self.say(&line);
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

    /// With letters where there is nothing better.
    fn spelled(&self, text: &str) -> String {
        super::super::screen::spelled(self.look.signs, text)
    }
}
