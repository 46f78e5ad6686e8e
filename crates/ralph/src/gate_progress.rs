//! Draws the progress of running gates on a terminal, a line per gate.

use crate::describe;
use crate::term::{self, paint};
use ralph_core::gate::{Gate, GateOutcome};
use ralph_core::text;
use ralph_core::units;
use ralph_deck::{gate_wording, wording};
use ralph_gates::gates::gate_history::GateHistory;
use ralph_gates::gates::{GateEvent, GateResult, ResultSource};
use ralph_sys::clock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

const REDRAW: Duration = Duration::from_millis(100);
const BAR_WIDTH: u64 = 20;
const LONGEST_NAME: usize = 24;

/// The state of every gate at one moment.
#[derive(Clone, Debug)]
pub(crate) struct GateBoard {
    lines: Vec<GateBoardLine>,
}

#[derive(Clone, Debug)]
struct GateBoardLine {
    name: String,
    expected_ms: Option<u64>,
    state: GateBoardState,
}

#[derive(Clone, Debug)]
enum GateBoardState {
    Waiting,
    Running { since_ms: u64 },
    Ended { text: String },
}

impl GateBoard {
    pub(crate) fn new(gates: &[&Gate], history: &GateHistory) -> Self {
        let lines = gates.iter().map(|gate| GateBoardLine {
            name: text::clean_line(&gate.name, LONGEST_NAME),
            expected_ms: history.expected_ms(&gate.name),
            state: GateBoardState::Waiting,
        });
        Self { lines: lines.collect() }
    }

    pub(crate) fn note(&mut self, seen: GateEvent<'_>, now_ms: u64) {
        let (name, state) = match seen {
            GateEvent::TreeListed(_) | GateEvent::TreeChanged { .. } | GateEvent::Confirming(_) => {
                return;
            }
            GateEvent::Started(gate) => (&gate.name, GateBoardState::Running { since_ms: now_ms }),
            GateEvent::Ended(ran) => {
                (&ran.gate.name, GateBoardState::Ended { text: ended_text(ran) })
            }
        };
        let name = text::clean_line(name, LONGEST_NAME);
        if let Some(line) = self.lines.iter_mut().find(|line| line.name == name) {
            line.state = state;
        }
    }

    /// No line is wider than the terminal: redrawing moves the cursor up by the number of lines, so none may wrap.
    pub(crate) fn frame(&self, now_ms: u64, columns: usize) -> String {
        let longest = self.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
        let width = longest.min(columns / 2);
        let mut out = String::new();
        for GateBoardLine { name, expected_ms, state } in &self.lines {
            let name = text::truncate(name, width);
            let line = match state {
                GateBoardState::Waiting => format!("{} {name}", paint(term::DIM, "·")),
                GateBoardState::Ended { text } => {
                    text.replacen("{name}", &format!("{name:<width$}"), 1)
                }
                GateBoardState::Running { since_ms } => {
                    let elapsed = now_ms.saturating_sub(*since_ms);
                    let elapsed_words = wording::short_duration(elapsed);
                    match expected_ms {
                        Some(expected) => format!(
                            "{} {name:<width$}  {elapsed_words:>7}  {}  of about {}",
                            paint(term::BOLD, "▸"),
                            bar(elapsed, *expected),
                            units::format_duration(*expected)
                        ),
                        None => {
                            format!("{} {name:<width$}  {elapsed_words:>7}", paint(term::BOLD, "▸"))
                        }
                    }
                }
            };
            // The last column stays free: some terminals wrap when it is written.
            out.push_str(&term::fit(&line, columns.saturating_sub(1)));
            out.push('\n');
        }
        out
    }
}

fn ended_text(ran: &GateResult) -> String {
    let how = describe::gate_mark(&ran.report.outcome);
    let took = match (ran.source, &ran.report.outcome) {
        (ResultSource::Fresh, _) => wording::short_duration(ran.report.took_ms),
        (ResultSource::Cached, _) => "cached".to_string(),
        (ResultSource::NotRun, _) => String::new(),
    };
    let note = match &ran.report.outcome {
        GateOutcome::Passed => gate_wording::steadiness(&ran.report).to_string(),
        GateOutcome::Failed | GateOutcome::Unknown(_) => gate_wording::gate_note(&ran.report),
    };
    format!("{how} {{name}}  {took:>7}  {note}").trim_end().to_string()
}

fn bar(elapsed: u64, expected: u64) -> String {
    let done = elapsed
        .saturating_mul(BAR_WIDTH)
        .checked_div(expected)
        .map_or(BAR_WIDTH, |done| done.min(BAR_WIDTH));
    let count = |cells: u64| usize::try_from(cells).unwrap_or_default();
    format!("{}{}", "█".repeat(count(done)), paint(term::DIM, &"░".repeat(count(BAR_WIDTH - done))))
}

/// Redraws the board while `work` runs, then clears it.
pub(crate) fn watch<T>(
    board: GateBoard,
    work: impl FnOnce(&(dyn Fn(GateEvent<'_>) + Sync)) -> T,
) -> T {
    let shared = Mutex::new((board, false));
    let changed = Condvar::new();
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let drawer = scope.spawn(|| {
            let mut drawn = 0;
            let mut state = lock();
            while !state.1 {
                let frame = state.0.frame(clock::now_ms(), term::columns());
                term::redraw(drawn, &frame);
                drawn = frame.lines().count();
                state =
                    changed.wait_timeout(state, REDRAW).unwrap_or_else(PoisonError::into_inner).0;
            }
            term::redraw(drawn, "");
        });
        let done = work(&|seen| {
            lock().0.note(seen, clock::now_ms());
            changed.notify_one();
        });
        lock().1 = true;
        changed.notify_one();
        drop(drawer.join());
        done
    })
}
