//! Plays `ralph plan`, with the agent of the runs, before they start.

use super::{
    EXIT_TIMEOUT, POLL_INTERVAL, RunnerPlay, RunnerPlayError, RunnerPlayEvent, SCENARIO_TIMEOUT,
    stderr_path,
};
use crate::timeline::TimelineEntry;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError};
use std::sync::mpsc::RecvTimeoutError;

const MAX_OUTPUT_BYTES: usize = 256 * 1024;

impl RunnerPlay<'_, '_> {
    /// Runs `ralph plan` to its end and returns its exit code. It prints text, as for a person: its progress is part of
    /// what a scenario expects. That it fails is an error, unless the scenario expects what it prints.
    pub(super) fn make_plan(&mut self) -> Result<i32, RunnerPlayError> {
        let number = self.runs.len();
        let mut talk = self.start_ralph("plan", &[], number, &self.runner.plan)?;
        let bound = Deadline::after(SCENARIO_TIMEOUT);
        let mut printed = String::new();
        loop {
            if self.context.tools.cancel.is_cancelled() {
                return Err(RunnerPlayError::Cancelled);
            }
            if bound.has_passed() {
                return Err(RunnerPlayError::TimedOut);
            }
            match self.events.recv_timeout(POLL_INTERVAL) {
                Ok(RunnerPlayEvent::End(_)) => break,
                Ok(RunnerPlayEvent::Line(_, line)) if printed.len() < MAX_OUTPUT_BYTES => {
                    printed.push_str(String::from_utf8_lossy(&line).trim_end());
                    printed.push('\n');
                }
                Ok(RunnerPlayEvent::Line(..))
                | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.count_requests()?;
        }
        let code = talk.wait(Deadline::after(EXIT_TIMEOUT)).map_err(RunnerPlayError::Wait)?;
        let code = code.ok_or(RunnerPlayError::TimedOut)?;
        self.count_requests()?;
        let errors = self.read_stderr(number)?;
        if code != 0 && !self.expects_output() {
            let lines = errors.lines().map(str::trim).collect::<Vec<_>>();
            return Err(RunnerPlayError::PlanFailed { code, said: lines.join(" · ") });
        }
        self.add_output("plan", &format!("{printed}{errors}"));
        Ok(code)
    }

    pub(super) fn expects_output(&self) -> bool {
        !self.context.scenario.expect.output.is_empty()
    }

    pub(super) fn read_stderr(&self, number: usize) -> Result<String, FileError> {
        let bytes = fs::read_range(&stderr_path(self.context.stage, number), 0, MAX_OUTPUT_BYTES)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Keeps the output of a command for the expectations, and shows it in the timeline.
    pub(super) fn add_output(&mut self, command: &str, text: &str) {
        self.output.push_str(text);
        let text = format!("$ ralph {command}\n{}", text.trim_end());
        (self.watcher)(&TimelineEntry::Prompt { text });
    }
}
