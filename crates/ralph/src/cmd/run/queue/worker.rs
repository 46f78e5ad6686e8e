//! The processes of a queue: each task is a separate `ralph run --json`, which dies with this process.

use super::prepare::Prepared;
use super::words;
use ralph_core::drive::Then;
use ralph_core::id::RunId;
use ralph_core::limits::Bounds;
use ralph_core::status::Status;
use ralph_core::text;
use ralph_drive::Wish;
use ralph_drive::queue::{Book, End, Ending, Event, Heard, Order, Task, Worker};
use ralph_git::worktree;
use ralph_home::paths::Home;
use ralph_home::store;
use ralph_hook::control::Caller;
use ralph_hook::words::{self as speech, Speech};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::{self, Env};
use ralph_sys::fs::{self, Durability};
use ralph_sys::proc::talk::{self, Heard as Said, Spec, Talk, Tie};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// How many unread lines are buffered. When the buffer is full, the writers block.
const MOST_WAITING: usize = 1_000;
const LONGEST_REASON: usize = 500;
/// How long a process may take to exit after it closed its output.
const LAST_BREATH: Duration = Duration::from_secs(30);
/// How long processes may take to exit after a person asked to end them now.
const GRACE: Duration = Duration::from_mins(1);
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_mins(1);

pub(super) struct Processes<'a> {
    env: &'a Env,
    home: &'a Home,
    prepared: &'a Prepared,
    book: &'a Book,
    sender: SyncSender<(usize, Said)>,
    said: Receiver<(usize, Said)>,
    at_work: BTreeMap<usize, Process>,
    wish: Wish,
    /// Whether a second interrupt is due. Two signals sent at once would arrive as one.
    owes_word: bool,
    /// When the remaining processes are killed.
    bound: Option<Deadline>,
}

struct Process {
    talk: Option<Talk>,
    errors: PathBuf,
    run: Option<RunId>,
    /// The `ended` event, if it was received.
    ended: Option<Value>,
}

impl<'a> Processes<'a> {
    pub(super) fn new(
        env: &'a Env,
        home: &'a Home,
        prepared: &'a Prepared,
        book: &'a Book,
    ) -> Self {
        let (sender, said) = sync_channel(MOST_WAITING);
        Self {
            env,
            home,
            prepared,
            book,
            sender,
            said,
            at_work: BTreeMap::new(),
            wish: Wish::None,
            owes_word: false,
            bound: None,
        }
    }

    fn ask_to_end(&self) {
        let talks = self.at_work.values().filter_map(|process| process.talk.as_ref());
        talks.for_each(Talk::interrupt);
    }

    /// The command line that starts a run.
    fn begin(&self, task: &Task, order: &Order) -> Result<Vec<String>, String> {
        let goal = self.book.file(&task.name, "goal.md");
        fs::replace(&goal, task.goal.as_bytes(), Durability::Cached)
            .map_err(|it| it.to_string())?;
        let prepared = self.prepared;
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut words = vec!["run".to_string(), "--json".to_string(), "--worktree".to_string()];
        words.extend(prepared.arguments.iter().cloned());
        let mut add = |option: &str, value: String| words.extend([option.to_string(), value]);
        add("--project", path(&prepared.project));
        add("--goal-file", path(&goal));
        add("--max-cost-usd", words::dollars(order.max_cost_micro_usd.unwrap_or(0)));
        add("--max-duration", words::milliseconds(order.max_duration_ms.unwrap_or(0)));
        if let Some(most) = task.max_iterations.or(prepared.max_iterations) {
            add("--max-iterations", most.to_string());
        }
        if let Some(complexity) = task.complexity.or(prepared.complexity) {
            add("--complexity", complexity.to_string());
        }
        if let Some(model) = task.model.as_ref().or(prepared.model.as_ref()) {
            add("--model", model.clone());
        }
        task.features.iter().for_each(|features| add("--features", path(features)));
        task.plans.iter().for_each(|plan| add("--plan", path(plan)));
        if !prepared.flags.is_empty() {
            words.push("--".to_string());
            words.extend(prepared.flags.iter().cloned());
        }
        Ok(words)
    }

    /// The command line that resumes a run. Sets its limits to what is left of the queue's budget.
    fn go_on(&self, run: &RunId, order: &Order) -> Vec<String> {
        let elapsed = store::load(self.home, run)
            .map_or(0, |opened| opened.state.elapsed_ms(clock::now_ms()));
        let max_duration_ms = order.max_duration_ms.map(|left| elapsed.saturating_add(left));
        self.limit(
            run,
            &Bounds {
                max_cost_micro_usd: order.max_cost_micro_usd,
                max_duration_ms,
                ..Bounds::default()
            },
        );
        let mut words: Vec<_> =
            ["run", "--json", "--resume", run.as_str()].map(String::from).into();
        for option in ["--agent-program", "--wait-for-limits"] {
            let mut arguments = self.prepared.arguments.iter();
            if arguments.any(|word| word == option)
                && let Some(value) = arguments.next()
            {
                words.extend([option.to_string(), value.clone()]);
            }
        }
        words
    }

    fn limit(&self, run: &RunId, bounds: &Bounds) {
        let deadline = Deadline::after(PATIENCE);
        let (home, caller) = (self.home, Caller::Person);
        // A run that has ended keeps the limits it had, and spends nothing.
        speech::limit(&Speech { home, run, caller, deadline: &deadline }, bounds).ok();
    }

    fn hear(&mut self, task: usize, line: &[u8]) -> Option<Event> {
        let process = self.at_work.get_mut(&task)?;
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
            spent.and_then(|usd| ralph_core::limits::parse_micro_usd(&format!("{usd:.6}")));
        if event == Some("ended") {
            process.ended = Some(line.clone());
        }
        Some(Event::Heard(Box::new(Heard { run, spent_micro_usd, line })))
    }

    fn end(&mut self, task: usize) -> Option<Event> {
        let mut process = self.at_work.remove(&task)?;
        let code = process
            .talk
            .as_mut()
            .and_then(|talk| talk.wait(Deadline::after(LAST_BREATH)).ok().flatten());
        // Kills the processes that it left behind.
        process.talk = None;
        Some(Event::Ended(self.became(&process, code)))
    }

    fn became(&self, process: &Process, code: Option<i32>) -> End {
        let text_of = |name: &str| {
            let text = process.ended.as_ref().and_then(|ended| ended.get(name)?.as_str());
            text.map(|text| text::line(text, LONGEST_REASON)).filter(|text| !text.is_empty())
        };
        let Some(status) = text_of("status").and_then(|name| Status::parse(&name)) else {
            let status = match (self.wish, code) {
                (Wish::AfterTheTurn | Wish::Now, _) => Some(Status::Cancelled),
                (Wish::None, Some(0..128)) => None,
                (Wish::None, Some(_) | None) => Some(Status::Crashed),
            };
            return End { how: Ending::Parked, status, why: complaint(process, code) };
        };
        let settled = text_of("settled");
        let why = settled.or_else(|| text_of("because")).unwrap_or_default();
        if status != Status::Verified {
            return End { how: Ending::Parked, status: Some(status), why };
        }
        match self.landed(process) {
            Ok(()) if code == Some(0) => End { how: Ending::Landed, status: Some(status), why },
            Ok(()) => End { how: Ending::Parked, status: Some(status), why },
            Err(kept) => {
                let why = if why.is_empty() { kept } else { format!("{why}; {kept}") };
                End { how: Ending::Parked, status: Some(status), why }
            }
        }
    }

    /// R-D1c: asks git whether the work has landed. The error names where the work is kept.
    fn landed(&self, process: &Process) -> Result<(), String> {
        if self.prepared.then == Then::PullRequest {
            return Ok(());
        }
        let run = process.run.as_ref().ok_or("its run is unknown")?;
        let opened = store::load(self.home, run).map_err(|error| error.to_string())?;
        let settings = opened.run.drive.as_deref();
        let worktree = settings.and_then(|settings| settings.worktree.as_ref());
        let worktree = worktree.ok_or("it had no separate work tree")?;
        let kept = || {
            let kept = worktree::kept(worktree);
            format!("kept on branch `{}` in `{}`", kept.branch, kept.path)
        };
        match worktree::has_landed(self.home, worktree, &Deadline::after(LOOK)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(kept()),
            Err(error) => Err(format!("{error}; {}", kept())),
        }
    }
}

impl Worker for Processes<'_> {
    fn start(&mut self, order: &Order) -> Result<(), String> {
        let place = order.task;
        let task = self.prepared.queue.tasks.get(place).ok_or("there is no such task")?;
        let words = match &order.run {
            Some(run) => self.go_on(run, order),
            None => self.begin(task, order)?,
        };
        let this = env::this_program();
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let argv: Vec<&OsStr> =
            std::iter::once(this.as_os_str()).chain(words.iter().map(|it| &**it)).collect();
        let variables = self.env.variables();
        let variables: Vec<_> = variables.iter().map(|(name, it)| (&**name, &**it)).collect();
        let errors = self.book.file(&task.name, "err");
        let spec = Spec {
            argv: &argv,
            cwd: &self.prepared.project,
            env: &variables,
            errors: &errors,
            mark: None,
            tie: Tie::Tight(&this),
        };
        let sender = self.sender.clone();
        // Sending fails only after the queue has ended.
        let hear = move |message| drop(sender.send((place, message)));
        let mut child = talk::start(&spec, hear).map_err(|error| error.to_string())?;
        child.hang_up();
        let run = order.run.clone();
        let process = Process { talk: Some(child), errors, run, ended: None };
        self.at_work.insert(place, process);
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Option<(usize, Event)> {
        if self.bound.as_ref().is_some_and(Deadline::is_over) {
            self.at_work.values_mut().for_each(|process| process.talk = None);
        }
        let received = self.said.recv_timeout(wait).ok();
        if std::mem::take(&mut self.owes_word) {
            self.ask_to_end();
        }
        let (task, message) = received?;
        let event = match message {
            Said::Line(line) => self.hear(task, &line),
            Said::End => self.end(task),
        };
        event.map(|event| (task, event))
    }

    fn raise(&mut self, task: usize, max_cost_micro_usd: u64) {
        let run = self.at_work.get(&task).and_then(|process| process.run.as_ref());
        if let Some(run) = run {
            let max_cost_micro_usd = Some(max_cost_micro_usd);
            self.limit(run, &Bounds { max_cost_micro_usd, ..Bounds::default() });
        }
    }

    fn wish(&mut self, wish: Wish) {
        // Each run counts the interrupts: one ends it after the turn, two end it now.
        self.ask_to_end();
        self.owes_word = self.wish == Wish::None && wish == Wish::Now;
        self.wish = wish;
        if wish == Wish::Now {
            self.bound = Some(Deadline::after(GRACE));
        }
    }
}

/// The error of a run without a result, from its stderr.
fn complaint(process: &Process, code: Option<i32>) -> String {
    const LARGEST: usize = 64 * 1024;
    let stderr = fs::read(&process.errors, LARGEST).unwrap_or_default();
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
        (shown, _) => text::line(shown, LONGEST_REASON),
    }
}
