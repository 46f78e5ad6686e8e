//! The processes of a queue: each task is a separate `ralph run --json`, which dies with this process.

use super::super::issue_run;
use super::queue_prepare::PreparedQueue;
use ralph_core::drive::LandingMode;
use ralph_core::id::RunId;
use ralph_core::limits::{LimitKind, LimitOverrides};
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_drive::StopRequest;
use ralph_drive::queue::{
    QueueRecord, QueueTask, QueueTaskEnd, QueueTaskEnding, QueueTaskEvent, QueueTaskOrder,
    QueueTaskOutput, QueueWorker,
};
use ralph_git::worktree;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::adjustments::{self, RunAdjustment};
use ralph_hook::control::{CommandCaller, ControlError};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::{self, Env};
use ralph_sys::fs::{self, Durability};
use ralph_sys::proc::line_process::{
    self, LineProcess, LineProcessOutput as Said, LineProcessSpec, OnParentDeath,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// How many unread lines are buffered. When the buffer is full, the writers block.
const MAX_BUFFERED_LINES: usize = 1_000;
/// Reasons end with commands to paste, and those contain paths.
pub(super) const LONGEST_REASON: usize = 2_000;
/// How long a process may take to exit after it closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long processes may take to exit after a person asked to end them now.
const FORCED_EXIT_TIMEOUT: Duration = Duration::from_mins(1);
const LIMIT_TIMEOUT: Duration = Duration::from_secs(10);
const GIT_CHECK_TIMEOUT: Duration = Duration::from_mins(1);

pub(super) struct TaskProcesses<'a> {
    env: &'a Env,
    home: &'a RalphHome,
    prepared: &'a PreparedQueue,
    record: &'a QueueRecord,
    sender: SyncSender<(usize, Said)>,
    received: Receiver<(usize, Said)>,
    running: BTreeMap<usize, TaskProcess>,
    stop_request: StopRequest,
    /// Whether a second interrupt is due. Two signals sent at once would arrive as one.
    second_interrupt_due: bool,
    /// When the remaining processes are killed.
    kill_deadline: Option<Deadline>,
}

struct TaskProcess {
    talk: Option<LineProcess>,
    errors: PathBuf,
    run: Option<RunId>,
    /// The `ended` event, if it was received.
    ended: Option<Value>,
}

/// The time limit of a task: its own or that of the queue, whichever is shorter.
fn duration_limit(task: &QueueTask, queue_limit_ms: Option<u64>) -> Option<u64> {
    [task.terms.limits.get(LimitKind::MaxDuration), queue_limit_ms].into_iter().flatten().min()
}

impl<'a> TaskProcesses<'a> {
    pub(super) fn new(
        env: &'a Env,
        home: &'a RalphHome,
        prepared: &'a PreparedQueue,
        record: &'a QueueRecord,
    ) -> Self {
        let (sender, said) = sync_channel(MAX_BUFFERED_LINES);
        Self {
            env,
            home,
            prepared,
            record,
            sender,
            received: said,
            running: BTreeMap::new(),
            stop_request: StopRequest::None,
            second_interrupt_due: false,
            kill_deadline: None,
        }
    }

    fn interrupt_all(&self) {
        let talks = self.running.values().filter_map(|process| process.talk.as_ref());
        talks.for_each(LineProcess::interrupt);
    }

    /// The command line that starts a run.
    fn start_arguments(
        &self,
        task: &QueueTask,
        order: &QueueTaskOrder,
    ) -> Result<Vec<String>, String> {
        let (option, file, bytes) = match &task.issue {
            None => ("--goal-file", "goal.md", task.terms.goal.clone()),
            Some(of) => ("--sealed-issue", "issue.json", issue_run::sealed_bytes(&of.issue)),
        };
        let goal = self.record.task_file(&task.name, file);
        fs::replace(&goal, &bytes, Durability::Cached).map_err(|it| it.to_string())?;
        let prepared = self.prepared;
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut words = vec!["run".to_string(), "--json".to_string(), "--worktree".to_string()];
        words.extend(prepared.arguments.iter().cloned());
        let mut add = |option: &str, value: String| words.extend([option.to_string(), value]);
        add("--project", path(&prepared.project));
        add(option, path(&goal));
        // A person has answered the question about its commands.
        let approved = task.issue.iter().flat_map(|of| &of.checks);
        approved.for_each(|command| add("--check", command.clone()));
        // The task gets a share of the queue's budget and the rest of its time; 0 means no limit.
        let max_duration_ms = duration_limit(task, order.max_duration_ms);
        let limits = (task.terms.limits.or(prepared.given_limits))
            .with(LimitKind::MaxCost, order.max_cost_micro_usd.unwrap_or(0))
            .with(LimitKind::MaxDuration, max_duration_ms.unwrap_or(0));
        for (option, value) in limits.to_options() {
            add(option, value);
        }
        if let Some(complexity) = task.terms.complexity.or(prepared.complexity) {
            add("--complexity", complexity.to_string());
        }
        if let Some(model) = task.model.as_ref().or(prepared.model.as_ref()) {
            add("--model", model.clone());
        }
        let lists = &task.terms.lists;
        lists.features.iter().for_each(|features| add("--features", features.clone()));
        lists.plans.iter().for_each(|plan| add("--plan", plan.clone()));
        if task.issue.is_some() {
            words.push("--skip-issue-checks".to_string());
        }
        if !prepared.flags.is_empty() {
            words.push("--".to_string());
            words.extend(prepared.flags.iter().cloned());
        }
        Ok(words)
    }

    /// The command line that resumes a run. First sets the run's limits to the rest of the queue's budget, which the run
    /// could otherwise exceed.
    fn resume_arguments(
        &self,
        run: &RunId,
        task: &QueueTask,
        order: &QueueTaskOrder,
    ) -> Result<Vec<String>, ControlError> {
        let elapsed = store::load_run(self.home, run)?.state.elapsed_ms(clock::now_ms());
        let queue_limit_ms = order.max_duration_ms.map(|left| elapsed.saturating_add(left));
        let limits = LimitOverrides::default()
            .with(LimitKind::MaxCost, order.max_cost_micro_usd)
            .with(LimitKind::MaxDuration, duration_limit(task, queue_limit_ms));
        self.set_limits(run, &limits)?;
        let mut words: Vec<_> =
            ["run", "--json", "--resume", run.as_str()].map(String::from).into();
        words.extend(self.prepared.arguments.iter().filter(|word| *word == "--comment").cloned());
        for option in ["--agent-program", "--wait-for-limits"] {
            let mut arguments = self.prepared.arguments.iter();
            if arguments.any(|word| word == option)
                && let Some(value) = arguments.next()
            {
                words.extend([option.to_string(), value.clone()]);
            }
        }
        Ok(words)
    }

    fn set_limits(&self, run: &RunId, overrides: &LimitOverrides) -> Result<(), ControlError> {
        let deadline = Deadline::after(LIMIT_TIMEOUT);
        let (home, caller) = (self.home, CommandCaller::Person);
        let adjustment = RunAdjustment { home, run, caller, by: None, deadline: &deadline };
        match adjustments::set_run_limits(&adjustment, overrides) {
            // A run that has ended keeps the limits it had, and spends nothing.
            Ok(_) | Err(ControlError::HasEnded { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn parse_line(&mut self, task: usize, line: &[u8]) -> Option<QueueTaskEvent> {
        let process = self.running.get_mut(&task)?;
        let line: Value = serde_json::from_slice(line).ok()?;
        let run = line.get("run").and_then(Value::as_str).and_then(RunId::parse);
        if run.is_some() {
            process.run.clone_from(&run);
        }
        let event = line.get("event").and_then(Value::as_str);
        let standing = match event {
            Some("standing") => Some(&line),
            Some("ended") => line.get("standing"),
            Some(_) | None => None,
        };
        let spent = standing.and_then(|standing| standing.get("spent_usd")?.as_f64());
        let spent_micro_usd =
            spent.and_then(|usd| ralph_core::units::parse_micro_usd(&format!("{usd:.6}")));
        if event == Some("ended") {
            process.ended = Some(line.clone());
        }
        Some(QueueTaskEvent::Output(Box::new(QueueTaskOutput { run, spent_micro_usd, line })))
    }

    fn finish_task(&mut self, task: usize) -> Option<QueueTaskEvent> {
        let mut process = self.running.remove(&task)?;
        let code = process
            .talk
            .as_mut()
            .and_then(|talk| talk.wait(Deadline::after(EXIT_TIMEOUT)).ok().flatten());
        // Kills the processes that it left behind.
        process.talk = None;
        Some(QueueTaskEvent::Ended(self.task_end(&process, code)))
    }

    fn task_end(&self, process: &TaskProcess, code: Option<i32>) -> QueueTaskEnd {
        let text_of = |name: &str| {
            let text = process.ended.as_ref().and_then(|ended| ended.get(name)?.as_str());
            text.map(|text| text::clean_line(text, LONGEST_REASON)).filter(|text| !text.is_empty())
        };
        let Some(status) = text_of("status").and_then(|name| RunStatus::parse(&name)) else {
            let status = match (self.stop_request, code) {
                (StopRequest::AfterTurn | StopRequest::Now, _) => Some(RunStatus::Cancelled),
                (StopRequest::None, Some(0..128)) => None,
                (StopRequest::None, Some(_) | None) => Some(RunStatus::Crashed),
            };
            return QueueTaskEnd {
                how: QueueTaskEnding::Parked,
                status,
                why: stderr_error(process, code),
            };
        };
        let settled = text_of("settled");
        let why = settled.or_else(|| text_of("because")).unwrap_or_default();
        let opened = process.run.as_ref().and_then(|run| store::load_run(self.home, run).ok());
        let may_merge = opened
            .as_ref()
            .map_or(status == RunStatus::Verified, |opened| opened.run.allows_merge(status));
        if !may_merge {
            // Only the person's threshold keeps green work from being merged.
            let worktree = opened.as_ref().and_then(|opened| opened.run.worktree());
            let why = match worktree.filter(|_| status == RunStatus::Green) {
                Some(worktree) => {
                    format!("{why}; {}", worktree::describe_unmerged(worktree, Some(0)))
                }
                None => why,
            };
            return QueueTaskEnd { how: QueueTaskEnding::Parked, status: Some(status), why };
        }
        match self.check_landed(process) {
            Ok(()) if code == Some(i32::from(status.exit_code())) => {
                QueueTaskEnd { how: QueueTaskEnding::Landed, status: Some(status), why }
            }
            Ok(()) => QueueTaskEnd { how: QueueTaskEnding::Parked, status: Some(status), why },
            Err(kept) => {
                let why = if why.is_empty() { kept } else { format!("{why}; {kept}") };
                QueueTaskEnd { how: QueueTaskEnding::Parked, status: Some(status), why }
            }
        }
    }

    /// R-D1c: asks git whether the work has landed. The error names where the work is kept.
    fn check_landed(&self, process: &TaskProcess) -> Result<(), String> {
        if self.prepared.then == LandingMode::PullRequest {
            return Ok(());
        }
        let run = process.run.as_ref().ok_or("its run is unknown")?;
        let opened = store::load_run(self.home, run).map_err(|error| error.to_string())?;
        let worktree = opened.run.worktree().ok_or("it had no separate work tree")?;
        let kept = || {
            let kept = worktree::describe_kept(worktree);
            format!("kept on branch `{}` in `{}`", kept.branch, kept.path)
        };
        match worktree::has_landed(self.home, worktree, &Deadline::after(GIT_CHECK_TIMEOUT)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(kept()),
            Err(error) => Err(format!("{error}; {}", kept())),
        }
    }
}

impl QueueWorker for TaskProcesses<'_> {
    fn start(&mut self, order: &QueueTaskOrder) -> Result<(), String> {
        let place = order.task;
        let task = self.prepared.queue.tasks.get(place).ok_or("there is no such task")?;
        let words = match &order.run {
            Some(run) => self.resume_arguments(run, task, order).map_err(|error| {
                format!("its limits could not be set: {}", describe_error(&error))
            })?,
            None => self.start_arguments(task, order)?,
        };
        let this = env::own_executable();
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let argv: Vec<&OsStr> =
            std::iter::once(this.as_os_str()).chain(words.iter().map(|it| &**it)).collect();
        let variables = self.env.variables();
        let variables: Vec<_> = variables.iter().map(|(name, it)| (&**name, &**it)).collect();
        let errors = self.record.task_file(&task.name, "err");
        let spec = LineProcessSpec {
            argv: &argv,
            cwd: &self.prepared.project,
            env: &variables,
            stderr_path: &errors,
            mark: None,
            on_parent_death: OnParentDeath::Kill(&this),
        };
        let sender = self.sender.clone();
        // Sending fails only after the queue has ended.
        let hear = move |message| drop(sender.send((place, message)));
        let mut child =
            line_process::start_line_process(&spec, hear).map_err(|error| error.to_string())?;
        child.close_input();
        let run = order.run.clone();
        let process = TaskProcess { talk: Some(child), errors, run, ended: None };
        self.running.insert(place, process);
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Option<(usize, QueueTaskEvent)> {
        if self.kill_deadline.as_ref().is_some_and(Deadline::has_passed) {
            self.running.values_mut().for_each(|process| process.talk = None);
        }
        let received = self.received.recv_timeout(wait).ok();
        if std::mem::take(&mut self.second_interrupt_due) {
            self.interrupt_all();
        }
        let (task, message) = received?;
        let event = match message {
            Said::Line(line) => self.parse_line(task, &line),
            Said::End => self.finish_task(task),
        };
        event.map(|event| (task, event))
    }

    fn raise_cost_limit(&mut self, task: usize, max_cost_micro_usd: u64) {
        let run = self.running.get(&task).and_then(|process| process.run.as_ref());
        if let Some(run) = run {
            let limits = LimitOverrides::default().with(LimitKind::MaxCost, max_cost_micro_usd);
            if let Err(error) = self.set_limits(run, &limits) {
                let what =
                    format!("the cost limit of the run was not raised: {}", describe_error(&error));
                let fault = Fault::new(FaultKind::File, &what).with_run(run);
                faults::record_fault(self.home, &fault);
            }
        }
    }

    fn request_stop(&mut self, wish: StopRequest) {
        // Each run counts the interrupts: one ends it after the turn, two end it now.
        self.interrupt_all();
        self.second_interrupt_due =
            self.stop_request == StopRequest::None && wish == StopRequest::Now;
        self.stop_request = wish;
        if wish == StopRequest::Now {
            self.kill_deadline = Some(Deadline::after(FORCED_EXIT_TIMEOUT));
        }
    }
}

/// The error of a run without a result, from its stderr.
fn stderr_error(process: &TaskProcess, code: Option<i32>) -> String {
    const MOST: usize = 64 * 1024;
    let length = fs::stat(&process.errors).map_or(0, |stat| stat.len);
    let stderr = match fs::read_range(&process.errors, length.saturating_sub(MOST as u64), MOST) {
        Ok(stderr) => stderr,
        Err(error) => return text::clean_line(&describe_error(&error), LONGEST_REASON),
    };
    let stderr = String::from_utf8_lossy(&stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    let error = lines.iter().position(|line| line.starts_with("error: "));
    let shown: Vec<_> = match error {
        Some(at) => lines.iter().skip(at).take(4).map(|line| line.trim()).collect(),
        None => {
            lines.iter().rev().find(|line| !line.trim().is_empty()).copied().into_iter().collect()
        }
    };
    let shown = shown.join("; ");
    let shown = shown.strip_prefix("error: ").unwrap_or(&shown);
    match (shown, code) {
        ("", Some(code)) => format!("its process exited with code {code} and no output"),
        ("", None) => "its process was killed".to_string(),
        (shown, _) => text::clean_line(shown, LONGEST_REASON),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_reported_and_so_is_an_unreadable_file() {
        let directory = tempfile::tempdir().unwrap();
        let errors = directory.path().join("err");
        let process = TaskProcess { talk: None, errors, run: None, ended: None };
        let shown =
            |code| stderr_error(&process, code).replace(directory.path().to_str().unwrap(), "");
        assert_eq!(shown(Some(1)), "cannot read `/err`: No such file or directory (os error 2)");
        fs::replace(&process.errors, b"", Durability::Cached).unwrap();
        assert_eq!(shown(Some(1)), "its process exited with code 1 and no output");
        let long = "note: again\n".repeat(10_000) + "error: the disk is full\n  hint: free some\n";
        fs::replace(&process.errors, long.as_bytes(), Durability::Cached).unwrap();
        assert_eq!(shown(Some(1)), "the disk is full; hint: free some");
    }
}
