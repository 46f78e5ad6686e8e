use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use ralph_core::drive::{DriveSettings, LandingMode, RunWorktree};
use ralph_core::id::RunId;
use ralph_core::limits::LimitKind;
use ralph_core::record::{Acceptance, DecisionRule, RunChange, RunRecord, StopOutcome, StopRecord};
use ralph_core::status::RunStatus;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, RunFiles, RunTransaction, TransactionStep};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability};

use super::*;
use crate::stop_requests::{StopRequest, StopRequests};

// --- parsing

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::create_private_dir(path.parent().unwrap()).unwrap();
    fs::replace(&path, text.as_bytes(), Durability::Cached).unwrap();
}

fn describe(directory: &Path, read: Result<TaskQueue, QueueError>) -> String {
    let root = fs::resolve(directory).unwrap();
    let text = match read {
        Ok(queue) => {
            let lines = queue.tasks.iter().map(|task| {
                let after: Vec<_> =
                    task.after.iter().map(|at| queue.tasks[*at].name.as_str()).collect();
                let limits = task.terms.limits.given();
                let limits: Vec<_> =
                    limits.map(|(limit, value)| format!("{} {value}", limit.key)).collect();
                format!(
                    "{} after {after:?}: {:?} {:?} {:?} {:?} {:?} [{}]\n",
                    task.name,
                    String::from_utf8_lossy(&task.terms.goal),
                    task.terms.lists.features,
                    task.terms.lists.plans,
                    task.terms.complexity,
                    task.model,
                    limits.join(", ")
                )
            });
            lines.collect::<String>()
        }
        Err(QueueError::Problems { first, more }) => {
            let lines = first.iter().map(|problem| {
                let line = problem.source[..problem.span.start].matches('\n').count() + 1;
                let name = problem.path.file_name().unwrap().to_string_lossy();
                let marked =
                    problem.source[problem.span.clone()].lines().next().unwrap_or_default();
                let hint = problem.hint.as_deref().unwrap_or("-");
                format!("{name}:{line} `{marked}`: {} ({hint})\n", problem.message)
            });
            format!("{}{more} more\n", lines.collect::<String>())
        }
        Err(other) => format!("{other}\n"),
    };
    text.replace(root.to_str().unwrap(), "/dir")
}

fn of_table(text: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "etc/passwd", "outside");
    let directory = root.path().join("project/queues");
    write(&directory, "goal.md", "Export it\nas CSV.\n");
    write(&directory, "queue.toml", text);
    describe(&directory, read_queue(&directory.join("queue.toml")))
}

#[test]
fn a_queue_file_is_parsed() {
    let text = r#"
[[task]]
name = "parser"
goal = "Make the parser handle nested quotes."
max_iterations = 1_0
min_iterations = 2
max_duration = "90m"
max_cost_usd = 2.5
max_tokens = 2_000_000
stuck_after = 4
handover_at = 0.6

[[task]]
name = "export"
goal_file = "goal.md"
after = ["parser", "lexer", "parser"]
features = "csv"
plan = ["plan.md", "more.md"]
complexity = 3
model = "claude-opus-5-5[1m]"

[[task]]
name = "lexer"
goal = "x"
max_cost_usd = 20
"#;
    insta::assert_snapshot!(of_table(text), @r#"
    parser after []: "Make the parser handle nested quotes." [] [] None None [max_iterations 10, min_iterations 2, max_duration 5400000, max_cost_usd 2500000, max_tokens 2000000, stuck_after 4, handover_at 600]
    export after ["parser", "lexer"]: "Export it\nas CSV.\n" ["csv"] ["plan.md", "more.md"] Some(3) Some("claude-opus-5-5[1m]") []
    lexer after []: "x" [] [] None None [max_cost_usd 20000000]
    "#);
}

#[test]
fn mistakes_in_a_file_are_reported_at_their_position() {
    let text = r#"
title = "x"
[[task]]
name = "a"
gaol = "x"
after = ["b", "nobody", "a"]
complexity = 11
max_iterations = 0
max_cost_usd = "5"
model = "--bare"
[[task]]
goal = "x"
goal_file = "goal.md"
[[task]]
name = "../b"
goal_file = "../../etc/passwd"
after = [1, true]
max_cost_usd = 0x10
[[task]]
name = "pars"
goal = " "
[[task]]
name = "pars"
goal_file = "missing.md"
after = ["par"]
"#;
    insta::assert_snapshot!(of_table(text), @r#"
    queue.toml:2 `title`: unknown key `title` (only `[[task]]` is allowed)
    queue.toml:3 `[[task]]`: `[[task]]` has no `goal` (add `goal = "…"` or `goal_file = "goal.md"`)
    queue.toml:5 `gaol`: unknown key `gaol` (did you mean `goal`?)
    queue.toml:6 `"b"`: unknown task `b` (`after` names other tasks of the queue)
    queue.toml:6 `"nobody"`: unknown task `nobody` (`after` names other tasks of the queue)
    queue.toml:6 `"a"`: `a` depends on itself (remove it from `after`)
    queue.toml:7 `11`: `complexity` cannot be `11` (expected a number from 0 to 10)
    queue.toml:8 `0`: `max_iterations` cannot be `0` (expected more than 0)
    queue.toml:9 `"5"`: `max_cost_usd` must be a number (-)
    queue.toml:10 `"--bare"`: `model` cannot be `--bare` (expected a name such as `opus`)
    queue.toml:11 `[[task]]`: `[[task]]` has no `name` (add a short name, such as `name = "parser"`)
    queue.toml:13 `"goal.md"`: `[[task]]` has both `goal` and `goal_file` (keep one)
    queue.toml:15 `"../b"`: `../b` is not a valid task name (use 1 to 64 letters, digits, `.`, `_` and `-`, starting with a letter or digit)
    queue.toml:16 `"../../etc/passwd"`: `../../etc/passwd` is outside the queue's directory (put the file next to the queue)
    queue.toml:17 `[1, true]`: `after` must be a string or a list of strings (-)
    queue.toml:18 `0x10`: `max_cost_usd` must be a number (-)
    queue.toml:21 `" "`: the goal is empty (write what the task is to achieve)
    queue.toml:23 `"pars"`: duplicate task `pars` (names must be unique in a queue)
    queue.toml:24 `"missing.md"`: cannot find `missing.md` (check the path)
    queue.toml:25 `"par"`: unknown task `par` (did you mean `pars`?)
    0 more
    "#);
}

#[test]
fn limits_of_a_task_have_the_units_of_the_command_line() {
    let text = r#"
[[task]]
name = "a"
goal = "x"
max_duration = 90
max_tokens = "2M"
handover_at = 2
stuck_after = 2.5
max_iterations = 4294967296
"#;
    insta::assert_snapshot!(of_table(text), @r#"
    queue.toml:5 `90`: `max_duration` must be a string (-)
    queue.toml:6 `"2M"`: `max_tokens` must be an integer (-)
    queue.toml:7 `2`: `handover_at` cannot be `2` (expected a share from 0.1 to 0.99, such as `0.8`)
    queue.toml:8 `2.5`: `stuck_after` cannot be `2.5` (expected a whole number)
    queue.toml:9 `4294967296`: `max_iterations` cannot be `4294967296` (expected a smaller number: 4294967295 or less)
    0 more
    "#);
}

#[test]
fn broken_queue_files_are_rejected() {
    let mut all = String::new();
    for text in [
        "",
        "[[task]",
        "task = 1",
        "task = [1]",
        "[task]\nname = \"a\"",
        "[[task]]\nname=\"a\"\ngoal=\"x\"\nafter=\"c\"\n[[task]]\nname=\"b\"\ngoal=\"x\"\nafter=\"a\"\n[[task]]\nname=\"c\"\ngoal=\"x\"\nafter=\"b\"\n[[task]]\nname=\"d\"\ngoal=\"x\"\nafter=\"c\"\n",
    ] {
        all.push_str(&of_table(text));
        all.push('\n');
    }
    all.push_str(&of_table(&"[[task]]\nname=\"a\"\ngoal=\"x\"\n".repeat(201)));
    insta::assert_snapshot!(all, @r#"
    no tasks in `/dir/queue.toml`

    queue.toml:1 ``: unclosed array table, expected `]` (a queue file is TOML with one `[[task]]` per task)
    0 more

    queue.toml:1 `1`: `task` must be an array of tables (write one `[[task]]` per task)
    0 more

    queue.toml:1 `1`: `task` must be an array of tables (write one `[[task]]` per task)
    0 more

    queue.toml:1 `[task]`: `task` must be an array of tables (write one `[[task]]` per task)
    0 more

    queue.toml:2 `"a"`: tasks depend on each other: `a` after `c` after `b` after `a` (remove one of them from `after`)
    0 more

    more than 200 tasks in `/dir/queue.toml`
    "#);
}

#[test]
fn a_directory_has_one_file_per_task() {
    let directory = tempfile::tempdir().unwrap();
    let all = directory.path().join("all");
    write(&all, "10-parser.md", "# Parser\n\nHandle nested quotes.\n");
    write(&all, "20-export.md", "after: 10-parser\n\nExport as CSV.\n");
    let terms = "---\nafter: [10-parser, \"20-export\"]\n# a note\nmodel: opus[1m]\nmax_cost_usd: 2.50\nmax_tokens: 2M\nmax_duration: 90m\nplan: a.md, b.md\n---\nDocument it.\n";
    write(&all, "30-docs.md", terms);
    write(&all, ".hidden.md", "x");
    write(&all, "notes.txt", "x");
    insta::assert_snapshot!(describe(&all, read_queue(&all)), @r##"
    10-parser after []: "# Parser\n\nHandle nested quotes.\n" [] [] None None []
    20-export after ["10-parser"]: "\nExport as CSV.\n" [] [] None None []
    30-docs after ["10-parser", "20-export"]: "Document it.\n" [] ["a.md", "b.md"] None Some("opus[1m]") [max_duration 5400000, max_cost_usd 2500000, max_tokens 2000000]
    "##);

    let wrong = directory.path().join("wrong");
    write(&wrong, "a.md", "---\nafter: c\nmax_cost: 3\nnothing\nplan:\n---\nx\n");
    write(&wrong, "b.md", "---\nafter: a\n");
    write(&wrong, "c d.md", "x");
    write(&wrong, "e.md", "after: a\n");
    insta::assert_snapshot!(describe(&wrong, read_queue(&wrong)), @"
    a.md:2 `c`: unknown task `c` (`after` names other tasks of the queue)
    a.md:3 `max_cost: 3`: unknown key `max_cost` (did you mean `max_cost_usd`?)
    a.md:4 `nothing`: `nothing` is not `key: value` (text belongs below the front matter)
    a.md:5 `plan:`: `plan` has no value (add one, or remove the key)
    b.md:1 `---`: the front matter has no end (close it with `---`)
    b.md:3 ``: the goal is empty (write what the task is to achieve)
    c d.md:1 ``: `c d.md` is not a valid task name (use 1 to 64 letters, digits, `.`, `_` and `-`, starting with a letter or digit)
    e.md:2 ``: the goal is empty (write what the task is to achieve)
    0 more
    ");

    write(&wrong, "secret", "x");
    let leads_out = directory.path().join("out");
    fs::create_private_dir(&leads_out).unwrap();
    std::os::unix::fs::symlink(wrong.join("secret"), leads_out.join("a.md")).unwrap();
    let mut all = describe(&leads_out, read_queue(&leads_out));
    all.push_str(&describe(directory.path(), read_queue(&directory.path().join("nowhere"))));
    all.push_str(&describe(directory.path(), read_queue(directory.path())));
    insta::assert_snapshot!(all, @"
    `/dir/a.md` links to a file outside the queue
    cannot find `/dir/nowhere`
    no tasks in `/dir`
    ");
}

proptest! {
    /// No input makes the parser panic.
    #[test]
    fn any_text_is_a_queue_or_an_error(text in "(\\[\\[task\\]\\]|name|goal|after|=|\"|'|\\[|\\]|,|\n|---|:|é|\\PC){0,60}") {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "queue.toml", &text);
        write(directory.path(), "all/a.md", &text);
        for path in ["queue.toml", "all"] {
            if let Err(QueueError::Problems { first, .. }) = read_queue(&directory.path().join(path)) {
                for problem in first {
                    prop_assert!(problem.source.get(problem.span).is_some());
                }
            }
        }
    }
}

// --- execution

/// A worker whose tasks end as configured, in a pseudo-random order.
struct FakeQueueWorker {
    /// How each task ends, and how much it would spend.
    fates: Vec<(QueueTaskEnding, u64)>,
    chance: u64,
    at_work: Vec<(usize, u64)>,
    log: Vec<String>,
    most: usize,
    pending: Vec<(usize, QueueTaskEvent)>,
    wish: StopRequest,
}

impl FakeQueueWorker {
    fn new(fates: Vec<(QueueTaskEnding, u64)>, chance: u64) -> Self {
        Self {
            fates,
            chance,
            at_work: Vec::new(),
            log: Vec::new(),
            most: 0,
            pending: Vec::new(),
            wish: StopRequest::None,
        }
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.chance >> 33).unwrap() % sides.max(1)
    }
}

impl QueueWorker for FakeQueueWorker {
    fn start(&mut self, order: &QueueTaskOrder) -> Result<(), String> {
        self.log.push(format!("start {}", order.task));
        self.at_work.push((order.task, order.max_cost_micro_usd.unwrap_or(u64::MAX)));
        self.most = self.most.max(self.at_work.len());
        Ok(())
    }

    fn poll(&mut self, _wait: Duration) -> Option<(usize, QueueTaskEvent)> {
        if let Some(event) = self.pending.pop() {
            return Some(event);
        }
        if self.roll(4) == 0 {
            return None;
        }
        let place = self.roll(self.at_work.len());
        let (task, limit) = self.at_work.swap_remove(place);
        let (how, wants) = self.fates[task];
        let is_short = wants > limit;
        let how =
            if is_short || self.wish > StopRequest::None { QueueTaskEnding::Parked } else { how };
        self.log.push(format!("{how:?} {task}"));
        let run = RunId::parse(&format!("run{task}"));
        let line = serde_json::Value::Null;
        let spent_micro_usd = Some(wants.min(limit));
        self.pending.push((
            task,
            QueueTaskEvent::Ended(QueueTaskEnd { how, status: None, why: String::new() }),
        ));
        Some((
            task,
            QueueTaskEvent::Output(Box::new(QueueTaskOutput { run, spent_micro_usd, line })),
        ))
    }

    fn raise_cost_limit(&mut self, task: usize, max_cost_micro_usd: u64) {
        for (at, limit) in &mut self.at_work {
            if *at == task {
                assert!(*limit <= max_cost_micro_usd, "a limit was lowered");
                *limit = max_cost_micro_usd;
            }
        }
    }

    fn request_stop(&mut self, wish: StopRequest) {
        self.wish = wish;
        self.log.push(format!("{wish:?}"));
    }
}

struct SilentQueueWatcher;

impl QueueWatcher for SilentQueueWatcher {
    fn started(&mut self, _: usize, _: &QueueTaskOrder) {}
    fn output(&mut self, _: usize, _: &QueueTaskOutput) {}
    fn ended(&mut self, _: usize, _: &QueueTaskEnd) {}
    fn tick(&mut self, _: &TaskSchedule, _: &QueueBudget) {}
}

fn plan(tasks: &[QueueTask], parallel: usize, total: Option<u64>) -> QueuePlan<'_> {
    QueuePlan {
        tasks,
        known: vec![KnownQueueTask::default(); tasks.len()],
        parallel,
        max_cost_micro_usd: total,
        least_micro_usd: 10,
        until_ms: None,
    }
}

fn play(
    plan: QueuePlan<'_>,
    fake: &mut FakeQueueWorker,
    stop_requests: &StopRequests,
) -> (QueueOutcome, Vec<QueueRecordEntry>) {
    let mut entries = Vec::new();
    let mut note = |entry: QueueRecordEntry| {
        entries.push(entry);
        Ok(())
    };
    let mut ctx = QueueContext {
        worker: fake,
        watcher: &mut SilentQueueWatcher,
        note: &mut note,
        stop_requests,
        now_ms: || 1_000,
    };
    let outcome = run_queue(plan, &mut ctx).unwrap();
    (outcome, entries)
}

fn goal_terms(goal: &str) -> RunTerms {
    RunTerms { goal: goal.as_bytes().to_vec(), ..RunTerms::default() }
}

fn tasks(after: &[Vec<usize>]) -> Vec<QueueTask> {
    let task = |(place, after): (usize, &Vec<usize>)| QueueTask {
        name: format!("t{place}"),
        terms: goal_terms("x"),
        after: after.clone(),
        ..QueueTask::default()
    };
    after.iter().enumerate().map(task).collect()
}

type QueueCase = (Vec<QueueTask>, Vec<(QueueTaskEnding, u64)>, usize, u64);

/// Tasks that depend on some of the earlier ones, and how each ends.
fn cases() -> impl Strategy<Value = QueueCase> {
    let one =
        (proptest::collection::vec(any::<prop::sample::Index>(), 0..3), any::<bool>(), 0..60_u64);
    (proptest::collection::vec(one, 1..12), 1..5_usize, any::<u64>()).prop_map(
        |(all, parallel, chance)| {
            let mut after: Vec<Vec<usize>> = Vec::new();
            let mut fates = Vec::new();
            for (place, (needed, is_good, wants)) in all.into_iter().enumerate() {
                let needed: BTreeSet<usize> = match place {
                    0 => BTreeSet::new(),
                    place => needed.iter().map(|index| index.index(place)).collect(),
                };
                after.push(needed.into_iter().collect());
                fates.push((
                    if is_good { QueueTaskEnding::Landed } else { QueueTaskEnding::Parked },
                    wants,
                ));
            }
            (tasks(&after), fates, parallel, chance)
        },
    )
}

fn behind(tasks: &[QueueTask], fates: &[(QueueTaskEnding, u64)], task: usize) -> bool {
    let is_bad = |needed: &usize| {
        fates[*needed].0 == QueueTaskEnding::Parked || behind(tasks, fates, *needed)
    };
    tasks[task].after.iter().any(is_bad)
}

proptest! {
    /// R-L5c, R-D1c: a parked task blocks only the tasks that depend on it, and a dependent task starts only after its
    /// dependencies have landed. Never more tasks run than allowed, and the queue always ends.
    #[test]
    fn only_dependent_tasks_wait((tasks, fates, parallel, chance) in cases()) {
        let mut fake = FakeQueueWorker::new(fates.clone(), chance);
        let (outcome, entries) = play(plan(&tasks, parallel, None), &mut fake, &StopRequests::default());
        prop_assert!(fake.most <= parallel);
        let mut landed = BTreeSet::new();
        for line in &fake.log {
            let (word, task) = line.split_once(' ').unwrap();
            let task: usize = task.parse().unwrap();
            match word {
                "start" => prop_assert!(tasks[task].after.iter().all(|needed| landed.contains(needed))),
                "Landed" => drop(landed.insert(task)),
                _ => {}
            }
        }
        for (task, became) in outcome.tasks.iter().enumerate() {
            let expected = match (behind(&tasks, &fates, task), fates[task].0) {
                (true, _) => None,
                (false, QueueTaskEnding::Landed) => Some(QueueTaskState::Done),
                (false, QueueTaskEnding::Parked) => Some(QueueTaskState::Parked),
            };
            match expected {
                Some(stand) => prop_assert_eq!(became.state, stand),
                None => prop_assert!(matches!(became.state, QueueTaskState::Blocked(_))),
            }
        }
        prop_assert_eq!(outcome.stopped, None);
        let starts = entries.iter().filter(|entry| matches!(entry, QueueRecordEntry::Started { .. })).count();
        let ends = entries.iter().filter(|entry| matches!(entry, QueueRecordEntry::Ended { .. })).count();
        prop_assert_eq!(starts, ends);
        let mut again = FakeQueueWorker::new(fates, chance);
        let (same, same_entries) = play(plan(&tasks, parallel, None), &mut again, &StopRequests::default());
        prop_assert_eq!((outcome, entries, fake.log), (same, same_entries, again.log));
    }

    /// R-K1a: all tasks share one budget, and no task exceeds its own.
    #[test]
    fn the_budget_is_never_exceeded(
        (mut tasks, fates, parallel, chance) in cases(),
        total in 1..200_u64,
        own in proptest::option::of(1..80_u64),
    ) {
        for task in tasks.iter_mut().step_by(2) {
            task.terms.limits = task.terms.limits.with(LimitKind::MaxCost, own);
        }
        let mut fake = FakeQueueWorker::new(fates.clone(), chance);
        let (outcome, _) = play(plan(&tasks, parallel, Some(total)), &mut fake, &StopRequests::default());
        prop_assert!(outcome.spent_micro_usd <= total, "{} of {total}", outcome.spent_micro_usd);
        for (task, became) in tasks.iter().zip(&outcome.tasks) {
            prop_assert!(became.spent_micro_usd <= task.terms.limits.get(LimitKind::MaxCost).unwrap_or(u64::MAX));
            if became.state == QueueTaskState::Ready {
                let left_micro_usd = total - outcome.spent_micro_usd;
                let least_micro_usd = 10.min(total);
                prop_assert!(left_micro_usd < least_micro_usd);
                let short = QueueStopReason::OutOfBudget { left_micro_usd, least_micro_usd };
                prop_assert_eq!(outcome.stopped, Some(short));
            }
        }
    }

}

proptest! {
    // Every case syncs files.
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A queue that was killed at any point resumes without repeating finished tasks, and ends the same way.
    #[test]
    fn a_killed_queue_resumes((tasks, fates, parallel, chance) in cases(), cut in 0..200_usize) {
        let home = tempfile::tempdir().unwrap();
        let home = RalphHome::new(home.path().to_owned());
        let id = QueueId::for_queue(Path::new("/q.toml"), Path::new("/p"));
        let mut fake = FakeQueueWorker::new(fates.clone(), chance);
        let (whole, entries) = play(plan(&tasks, parallel, None), &mut fake, &StopRequests::default());
        {
            let (record, past) = QueueRecord::open(&home, &id).unwrap();
            prop_assert_eq!(past, QueueHistory::default());
            for entry in entries.iter().take(cut) {
                record.append(entry.clone()).unwrap();
            }
            prop_assert!(QueueRecord::read(&home, &id).is_ok());
        }
        let path = home.queues().join(id.as_str()).join("queue.jsonl");
        fs::append(&path, b"{\"v\":1,\"at_ms\":17,\"ended\":{\"ta", Durability::Cached).unwrap();
        let (record, past) = QueueRecord::open(&home, &id).unwrap();
        record.append(QueueRecordEntry::Closed {}).unwrap();
        let known = tasks.iter().map(|task| {
            let tried = past.tasks.get(&task.name).cloned().unwrap_or_default();
            KnownQueueTask { end: tried.end, run: tried.run, ..KnownQueueTask::default() }
        });
        let known: Vec<KnownQueueTask> = known.collect();
        let ended: BTreeSet<usize> =
            known.iter().enumerate().filter(|(_, known)| known.end.is_some()).map(|(at, _)| at).collect();
        let mut fake = FakeQueueWorker::new(fates, chance.wrapping_add(1));
        let plan = QueuePlan { known, ..plan(&tasks, parallel, None) };
        let (after, _) = play(plan, &mut fake, &StopRequests::default());
        let stands = |outcome: &QueueOutcome| {
            outcome.tasks.iter().map(|task| std::mem::discriminant(&task.state)).collect::<Vec<_>>()
        };
        prop_assert_eq!(stands(&after), stands(&whole));
        for line in fake.log.iter().filter_map(|line| line.strip_prefix("start ")) {
            prop_assert!(!ended.contains(&line.parse().unwrap()));
        }
    }
}

/// After the first request, running tasks finish and no new ones start.
#[test]
fn a_stop_request_starts_nothing_new() {
    let stop_requests = StopRequests::default();
    stop_requests.add();
    let tasks = tasks(&[vec![], vec![]]);
    let mut fake = FakeQueueWorker::new(vec![(QueueTaskEnding::Landed, 0); 2], 1);
    let (outcome, _) = play(plan(&tasks, 2, None), &mut fake, &stop_requests);
    assert_eq!(fake.log, ["AfterTurn"]);
    assert_eq!(outcome.stopped, Some(QueueStopReason::Cancelled));
    assert_eq!(outcome.tasks[0].state, QueueTaskState::Ready);
    let late = QueuePlan { until_ms: Some(1_000), ..plan(&tasks, 2, None) };
    let (outcome, _) =
        play(late, &mut FakeQueueWorker::new(Vec::new(), 1), &StopRequests::default());
    assert_eq!(outcome.stopped, Some(QueueStopReason::OutOfTime));
}

/// Each task that could start gets a share, the rest is divided again, and no task gets more than its own limit.
#[test]
fn a_budget_is_divided_and_refilled() {
    let mut purse =
        QueueBudget::new(Some(100), 10, &[(0, None), (0, Some(20)), (4, None), (0, Some(3))]);
    let caps = [purse.reserve(0, 3), purse.reserve(1, 2), purse.reserve(2, 1)];
    assert_eq!(caps, [Some(32), Some(20), Some(48)]);
    let short = QueueStopReason::OutOfBudget { left_micro_usd: 0, least_micro_usd: 10 };
    assert_eq!(purse.shortage(), Some(short));
    purse.record_spent(1, 8);
    purse.release(1);
    assert_eq!(purse.shortage(), None);
    assert_eq!(purse.share_out(), []);
    purse.record_spent(0, 2);
    purse.release(0);
    assert_eq!(purse.share_out(), [(2, 90)]);
    assert_eq!(purse.spent(), 14);
    let mut endless = QueueBudget::new(None, 10, &[(0, None), (5, Some(7))]);
    assert_eq!((endless.reserve(0, 1), endless.reserve(1, 1)), (None, Some(7)));
    assert_eq!((endless.share_out(), endless.shortage()), (Vec::new(), None));
}

#[test]
fn a_queue_record_survives_a_round_trip() {
    let directory = tempfile::tempdir().unwrap();
    let home = RalphHome::new(directory.path().to_owned());
    let id = QueueId::for_queue(Path::new("/srv/queue.toml"), Path::new("/srv"));
    assert_eq!(QueueId::parse(&id.as_str().to_uppercase()), Some(id.clone()));
    for wrong in ["", "q", "q123456", "q12345678", "q../../.", "k7f2", "q12345g7"] {
        assert_eq!(QueueId::parse(wrong), None, "{wrong}");
    }
    assert_eq!(QueueRecord::read(&home, &id).unwrap(), None);
    let run = RunId::parse("k7f2").unwrap();
    let opening = QueueOpening {
        source: "/srv/queue.toml".into(),
        project: "/srv".into(),
        arguments: vec!["--max-cost-usd".to_owned(), "20".to_owned()],
    };
    let (task, asks, terms) = ("parser".to_owned(), "a".to_owned(), "t".to_owned());
    let why = "the merged tree is verified".to_owned();
    let end = QueueTaskEnd { how: QueueTaskEnding::Landed, status: Some(RunStatus::Verified), why };
    let entries = [
        QueueRecordEntry::Opened(opening.clone()),
        QueueRecordEntry::Started {
            task: task.clone(),
            asks: asks.clone(),
            terms: terms.clone(),
            run: None,
        },
        QueueRecordEntry::Runs { task: task.clone(), run: run.clone() },
        QueueRecordEntry::Ended { task: task.clone(), end: end.clone() },
        QueueRecordEntry::Closed {},
    ];
    {
        let (record, _) = QueueRecord::open(&home, &id).unwrap();
        for entry in entries {
            record.append(entry).unwrap();
        }
        assert_eq!(
            QueueRecord::open(&home, &id).unwrap_err().to_string(),
            format!("queue `{}` is already running", id.as_str())
        );
    }
    let past = QueueRecord::read(&home, &id).unwrap().unwrap();
    let tried = past.tasks["parser"].clone();
    assert!(tried.has_landed());
    assert_eq!(past.opening, Some(opening));
    let known = (tried.asks, tried.terms, tried.run, tried.runs, tried.end);
    assert_eq!(known, (asks, terms, Some(run.clone()), vec![run], Some(end)));
    let path = home.queues().join(id.as_str()).join("queue.jsonl");
    let text = String::from_utf8(fs::read(&path, 10_000).unwrap()).unwrap();
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let (before, rest) = line.split_once("\"at_ms\":").unwrap();
            let (_, rest) = rest.split_once(',').unwrap();
            format!("{before}{rest}\n")
        })
        .collect();
    insta::assert_snapshot!(lines.concat(), @r#"
    {"v":1,"opened":{"source":"/srv/queue.toml","project":"/srv","arguments":["--max-cost-usd","20"]}}
    {"v":1,"started":{"task":"parser","asks":"a","terms":"t"}}
    {"v":1,"runs":{"task":"parser","run":"k7f2"}}
    {"v":1,"ended":{"task":"parser","how":"landed","status":"verified","why":"the merged tree is verified"}}
    {"v":1,"closed":{}}
    "#);
    fs::append(&path, b"[]\n\xff\n{\"v\":1,\"at_ms\":1,\"new\":{}}\n", Durability::Cached).unwrap();
    assert_eq!(QueueRecord::read(&home, &id).unwrap(), Some(past));
    fs::append(&path, b"{\"v\":2,\"at_ms\":1}\n", Durability::Cached).unwrap();
    assert!(matches!(QueueRecord::open(&home, &id), Err(QueueRecordError::Newer(_))));
}

/// The cost of a task includes all of its runs, however often it was restarted.
#[test]
fn every_run_of_a_task_is_remembered() {
    let directory = tempfile::tempdir().unwrap();
    let home = RalphHome::new(directory.path().to_owned());
    let id = QueueId::for_queue(Path::new("/q"), Path::new("/p"));
    let (record, _) = QueueRecord::open(&home, &id).unwrap();
    let started = |run: Option<&str>| QueueRecordEntry::Started {
        task: "a".to_owned(),
        asks: String::new(),
        terms: String::new(),
        run: run.and_then(RunId::parse),
    };
    let runs = |run: &str| QueueRecordEntry::Runs {
        task: "a".to_owned(),
        run: RunId::parse(run).unwrap(),
    };
    for entry in [started(None), runs("one"), started(None), runs("two"), started(Some("six"))] {
        record.append(entry).unwrap();
    }
    let past = QueueRecord::read(&home, &id).unwrap().unwrap();
    let known: Vec<&str> = past.tasks["a"].runs.iter().map(RunId::as_str).collect();
    assert_eq!((known, &past.tasks["a"].run), (vec!["one", "two", "six"], &RunId::parse("six")));
}

/// A changed goal makes a different task; changed limits only make it run again.
#[test]
fn tasks_are_identified_by_their_goal() {
    let task = QueueTask { name: "a".to_owned(), terms: goal_terms("x"), ..QueueTask::default() };
    let renamed = QueueTask { name: "b".to_owned(), after: vec![1], ..task.clone() };
    let mut dearer = task.clone();
    dearer.terms.limits.set(LimitKind::MaxCost, 1);
    // Recorded by versions that knew only two limits.
    let recorded = blake3::hash(br#"["x",[],[],[null,null,[null,1]]]"#).to_hex();
    assert_eq!(dearer.terms_digest(), recorded[..32]);
    let mut shorter = task.clone();
    shorter.terms.limits.set(LimitKind::MaxDuration, 1);
    let other = QueueTask { terms: goal_terms("y"), ..task.clone() };
    let digests: BTreeMap<&str, (bool, bool)> =
        [("renamed", &renamed), ("dearer", &dearer), ("shorter", &shorter), ("other", &other)]
            .into_iter()
            .map(|(name, it)| {
                (
                    name,
                    (
                        it.goal_digest() == task.goal_digest(),
                        it.terms_digest() == task.terms_digest(),
                    ),
                )
            })
            .collect();
    let expected = [
        ("renamed", (true, true)),
        ("dearer", (true, false)),
        ("shorter", (true, false)),
        ("other", (false, false)),
    ];
    assert_eq!(digests, BTreeMap::from(expected));
}

/// An unreadable run does not count as free, and its task does not count as never started.
#[test]
fn a_task_with_an_unreadable_run_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let home = RalphHome::new(directory.path().to_path_buf());
    let run = RunId::parse("abcd").unwrap();
    let task = QueueTask { name: "parser".to_string(), ..QueueTask::default() };
    let tried = QueueTaskHistory {
        asks: task.goal_digest(),
        run: Some(run.clone()),
        runs: vec![run.clone()],
        ..QueueTaskHistory::default()
    };
    let mut past = QueueHistory::default();
    past.tasks.insert(task.name.clone(), tried);
    let tasks = [task];
    assert!(known_tasks(&home, &tasks, &past).unwrap()[0].run.is_none(), "it was deleted");
    fs::create_private_dir(&home.run(&run).run_record()).unwrap();
    assert!(known_tasks(&home, &tasks, &past).is_err());
}

/// No runner lands the work of an accepted run, so its task waits for a person to merge it, and then counts as landed.
#[test]
fn the_task_of_an_accepted_run_waits_until_its_work_is_merged() {
    let directory = tempfile::tempdir().unwrap();
    let home = RalphHome::new(directory.path().join("home"));
    let deadline = Deadline::after(Duration::from_mins(1));
    let tree = RunWorktree {
        path: "/nowhere/tree".to_string(),
        branch: "ralph/abcd".to_string(),
        from: "/nowhere".to_string(),
        into: Some("main".to_string()),
        base: "3f1c2ab".to_string(),
        then: LandingMode::Merge,
        checks_ms: None,
        draft: false,
    };
    let mut ends = Vec::new();
    for (id, worktree) in [("abcd", Some(tree)), ("efgh", None)] {
        let id = RunId::parse(id).unwrap();
        let drive = Some(Box::new(DriveSettings { worktree, ..DriveSettings::DEFAULT }));
        let run = RunRecord { drive, ..RunRecord::new(id.clone(), "/nowhere".to_string(), 1) };
        let files = RunFiles { goal: b"", lists: &[] };
        assert!(store::create_run(&home, &run, &files, &deadline).unwrap());
        let outcome = StopOutcome::Ended(RunStatus::NeedsReview);
        let ended = StopRecord::new(DecisionRule::Tampered, outcome, String::new());
        let (by, was) = ("kim".to_string(), RunStatus::NeedsReview);
        let accepted = Acceptance { by, why: String::new(), at_ms: 2, was };
        for change in [RunChange::Decided(Box::new(ended)), RunChange::Accepted(accepted)] {
            let durability = Durability::Cached;
            let transaction =
                RunTransaction { home: &home, run: &id, deadline, by: None, loaded: None };
            store::transact(&transaction, |_| TransactionStep::Write {
                change,
                durability,
                answer: (),
            })
            .unwrap();
        }
        let task = QueueTask { name: id.to_string(), ..QueueTask::default() };
        let (asks, runs) = (task.goal_digest(), vec![id.clone()]);
        let tried = QueueTaskHistory { asks, run: Some(id), runs, ..QueueTaskHistory::default() };
        let mut past = QueueHistory::default();
        past.tasks.insert(task.name.clone(), tried);
        let end = known_tasks(&home, &[task], &past).unwrap().remove(0).end.unwrap();
        ends.push(format!("{:?}: {}", end.how, end.why));
    }
    insta::assert_snapshot!(ends.join("\n"), @"
    Parked: accepted by kim; not merged: branch `ralph/abcd`, work tree `/nowhere/tree`; `git -C /nowhere/tree diff 3f1c2ab` and `git -C /nowhere/tree status` show it, `git -C /nowhere merge ralph/abcd` merges what is committed
    Landed: accepted by kim
    ");
}
