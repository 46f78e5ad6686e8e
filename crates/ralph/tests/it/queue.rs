//! `ralph run --queue`: runs in real work trees, each with a fake client.

use crate::sandbox::{
    CommandOutcome, Sandbox, eventually, run_command, spawn_with_input, write_file, write_program,
};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output};

const TESTS_POLICY: &str =
    "[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"tests.sh\"]\n[verify]\nproof = \"off\"\n";
const TESTS_SCRIPT: &str = "test ! -e broken || { echo 'broken is there'; exit 1; }\n";

/// A project with an approved policy, and an agent program that plays the scenario named like its `--model`.
struct QueueSandbox {
    sandbox: Sandbox,
}

impl QueueSandbox {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("ralph.toml", TESTS_POLICY);
        sandbox.write("tests.sh", TESTS_SCRIPT);
        sandbox.commit();
        sandbox.approve_policy();
        Self { sandbox }
    }

    /// Writes the scenarios, by model name, and the agent program, which runs the shell code `first` before the client.
    fn write_agent(&self, scenarios: &[(&str, &str)], first: &str) {
        let root = self.sandbox.root();
        for (name, steps) in scenarios {
            let text = format!("name = \"{name}\"\n[[step]]\nperson = \"go\"\n{steps}");
            write_file(&root.join(format!("{name}.toml")), text);
        }
        let script = format!(
            "#!/bin/sh\nfor word in \"$@\"; do [ \"$last\" = --model ] && model=$word; last=$word; done\n\
             {first}\nexec '{ralph}' pretend --scenario '{root}'/$model.toml --position '{root}'/$model.at -- \"$@\"\n",
            ralph = env!("CARGO_BIN_EXE_ralph"),
            root = root.display(),
        );
        write_program(&root.join("agent"), &script);
    }

    fn write_queue(&self, text: &str) {
        write_file(&self.sandbox.root().join("queue.toml"), text);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command();
        command.args(["run", "--agent-program", "../agent", "--allow-skip-permissions"]);
        command.args(args).args(["--", "--permission-mode", "bypassPermissions"]);
        command
    }

    fn run_queue(&self, args: &[&str]) -> CommandOutcome {
        run_command(&mut self.command(&[&["--queue", "../queue.toml"], args].concat()), b"")
    }

    fn spawn_queue(&self, args: &[&str]) -> Child {
        spawn_with_input(&mut self.command(&[&["--queue", "../queue.toml"], args].concat()), b"")
    }

    fn resume_queue(&self) -> CommandOutcome {
        let id = self.queue_dir();
        let id = id.file_name().unwrap().to_str().unwrap();
        self.sandbox.ralph(["run", "--resume", id])
    }

    fn queue_dir(&self) -> PathBuf {
        fs::read_dir(self.sandbox.ralph_home("queues")).unwrap().next().unwrap().unwrap().path()
    }

    /// Kind and content of each entry in the queue's record.
    fn read_record(&self) -> Vec<(String, Value)> {
        let Ok(mut all) = fs::read_dir(self.sandbox.ralph_home("queues")) else {
            return Vec::new();
        };
        let Some(Ok(one)) = all.next() else { return Vec::new() };
        let text = fs::read_to_string(one.path().join("queue.jsonl")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let kinds = ["opened", "started", "runs", "ended", "closed"];
        let entries = lines.filter_map(|line| {
            kinds.iter().find_map(|kind| Some(((*kind).to_string(), line.get(kind)?.clone())))
        });
        entries.collect()
    }

    fn runs_of(&self, task: &str) -> Vec<String> {
        let record = self.read_record();
        let of = record.iter().filter(|(kind, entry)| kind == "runs" && entry["task"] == task);
        of.map(|(_, entry)| entry["run"].as_str().unwrap().to_string()).collect()
    }

    fn start_count(&self, task: &str) -> usize {
        let record = self.read_record();
        record.iter().filter(|(kind, entry)| kind == "started" && entry["task"] == task).count()
    }

    /// Waits for a file that the agent creates.
    fn wait_for_file(&self, name: &str) {
        let path = self.sandbox.root().join(name);
        eventually(|| path.exists().then_some(()));
    }

    fn create_file(&self, name: &str) {
        write_file(&self.sandbox.root().join(name), "");
    }

    /// The commit subjects of the branch, newest first.
    fn commit_subjects(&self) -> Vec<String> {
        let output: Output = Command::new("git")
            .args(["log", "--format=%s", "main"])
            .current_dir(self.sandbox.project())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
    }

    fn normalize(&self, text: &str) -> String {
        let text = self.sandbox.normalize(text);
        let text = mask_pattern(&text, r"\bq[0-9a-f]{7}\b", "[queue]");
        let text = mask_pattern(&text, r"as [0-9a-f]{10}", "as [commit]");
        let text = mask_pattern(&text, r"diff [0-9a-f]{10}\b", "diff [commit]");
        let text = mask_pattern(&text, r"[0-9a-f]{40}", "[commit]");
        let text = mask_pattern(&text, r" +\$[0-9.]+", " $X");
        let text = mask_pattern(&text, r", \d+ (ms|s), ", ", [time], ");
        // Line breaks depend on the length of the temporary directory's name.
        mask_pattern(&text, r"\n {8}", " ")
    }

    /// Command lines of processes that this sandbox started and that still run.
    fn leftover_processes(&self) -> Vec<String> {
        let mark = self.sandbox.root().display().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|process| {
            let read = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
            let environ = String::from_utf8_lossy(&read("environ")).into_owned();
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            environ.contains(&mark).then_some(line)
        });
        lines.filter(|line| !line.is_empty()).collect()
    }
}

fn mask_pattern(text: &str, pattern: &str, with: &str) -> String {
    regex::Regex::new(pattern).unwrap().replace_all(text, regex::NoExpand(with)).into_owned()
}

fn writing_steps(file: &str, text: &str) -> String {
    format!(
        "[[step]]\nagent = \"I do it.\"\ntools = [{{ write = \"{file}\", text = \"{text}\\n\" }}]\n[[step]]\nagent = \"It is done.\"\n"
    )
}

fn task_toml(name: &str, more: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\ngoal = \"Write {name}.\"\nmodel = \"{name}\"\n{more}\n")
}

/// R-L5c, R-D1c: a failed task is parked and independent tasks continue. A dependent task starts once its dependencies
/// have landed, and landed tasks are not repeated.
#[test]
fn a_failed_task_is_parked_and_independent_tasks_land() {
    let scene = QueueSandbox::new();
    let uses_a = "[[step]]\nagent = \"I go on.\"\ntools = [{ edit = \"a.txt\", old = \"a\", new = \"b\" }]\n[[step]]\nagent = \"It is done.\"\n";
    scene.write_agent(
        &[
            ("a", &writing_steps("a.txt", "a")),
            ("b", uses_a),
            ("c", &writing_steps("broken", "c")),
            ("d", "[[step]]\nagent = \"x\"\n"),
        ],
        "",
    );
    let tasks = [
        task_toml("b", "after = [\"a\"]"),
        task_toml("a", ""),
        task_toml("c", "max_iterations = 2"),
        task_toml("d", "after = [\"c\", \"b\"]"),
    ];
    scene.write_queue(&tasks.concat());
    let ended = scene.run_queue(&["--quiet"]);
    assert_eq!(ended.stderr, "", "{ended}");
    assert_snapshot!(scene.normalize(&format!("{}exit {:?}", ended.stdout, ended.code)), @"
    ✓ b  [run]  landed $X
    ✓ a  [run]  landed $X
    ✗ c  [run]  exhausted $X all 2 iterations are used up, 1 not met
    ? d        blocked $X `c` has not landed

    not done: queue.toml — 2 of 4 tasks landed, [time], $X
    next    `ralph run --resume [queue]` continues with what is left a run that has ended is not repeated: change the goal or limits of its task to start another
    exit Some(2)
    ");
    assert_eq!(scene.commit_subjects(), ["Write b.", "Write a.", "c", "c"]);
    assert_eq!(fs::read_to_string(scene.sandbox.project().join("a.txt")).unwrap(), "b\n");
    assert!(!scene.sandbox.project().join("broken").exists());
    let again = scene.resume_queue();
    assert_eq!(again.code, Some(2), "{again}");
    let starts: Vec<_> = ["a", "b", "c", "d"].iter().map(|task| scene.start_count(task)).collect();
    assert_eq!(starts, [1, 1, 1, 0]);
    // With a changed limit the task is tried again.
    scene.write_queue(&tasks.concat().replace("max_iterations = 2", "max_iterations = 1"));
    assert_eq!(scene.run_queue(&["--quiet"]).code, Some(2));
    let starts: Vec<_> = ["a", "b", "c", "d"].iter().map(|task| scene.start_count(task)).collect();
    assert_eq!((starts, scene.runs_of("c").len()), (vec![1, 1, 2, 0], 2));
}

/// R-D1c: on a conflict the branch and the work tree are kept and named, and the task is not done.
#[test]
fn a_conflict_keeps_the_work_and_other_tasks_land() {
    let scene = QueueSandbox::new();
    let project = scene.sandbox.project().display().to_string();
    let meanwhile = format!(
        "[ $model = x ] && [ ! -e '{project}/same' ] && cd '{project}' && echo mine > same && git add same && \
         git -c user.name=t -c user.email=t@t commit --quiet -m meanwhile && cd \"$OLDPWD\""
    );
    scene.write_agent(
        &[("x", &writing_steps("same", "theirs")), ("y", &writing_steps("y.txt", "y"))],
        &meanwhile,
    );
    scene.write_queue(&[task_toml("x", ""), task_toml("y", "")].concat());
    let ended = scene.run_queue(&["--quiet", "--parallel", "2"]);
    assert_snapshot!(scene.normalize(&format!("{}exit {:?}", ended.stdout, ended.code)), @"
    ✗ x  [run]  needs_human $X it conflicts with `main` in same; branch `ralph/[run]` and work tree `$ROOT/home/ralph-worktrees/[run]/project` are kept; see `git -C $ROOT/project diff [commit]...ralph/[run]`
    ✓ y  [run]  landed $X

    not done: queue.toml — 1 of 2 tasks landed, [time], $X
    next    `ralph run --resume [queue]` continues with what is left
    exit Some(5)
    ");
    assert_eq!(fs::read_to_string(scene.sandbox.project().join("same")).unwrap(), "mine\n");
    assert!(scene.sandbox.project().join("y.txt").exists());
    let run = &scene.runs_of("x")[0];
    let kept = scene.sandbox.home().join("ralph-worktrees").join(run).join("project/same");
    assert_eq!(fs::read_to_string(kept).unwrap(), "theirs\n");
}

fn waiting_steps(name: &str, file: &str, root: &str) -> String {
    format!(
        "[[step]]\nagent = \"I wait.\"\ntools = [{{ run = \"touch '{root}/at-{name}'; until [ -e '{root}/go-{name}' ]; do sleep 0.02; done\" }}]\n{}",
        writing_steps(file, name)
    )
}

/// A killed queue leaves no process behind, and a resume continues its runs.
#[test]
fn a_killed_queue_resumes_where_it_was() {
    kill_and_resume_queue(RunRecorded::Yes);
}

/// The same if the queue was killed after it started a run and before it recorded that.
#[test]
fn an_unrecorded_run_is_found_on_resume() {
    kill_and_resume_queue(RunRecorded::No);
}

#[derive(Clone, Copy, PartialEq)]
enum RunRecorded {
    Yes,
    No,
}

fn kill_and_resume_queue(noted: RunRecorded) {
    let scene = QueueSandbox::new();
    let root = scene.sandbox.root().display().to_string();
    scene.write_agent(
        &[
            ("a", &writing_steps("a.txt", "a")),
            ("k", &waiting_steps("k", "k.txt", &root)),
            ("z", &writing_steps("z.txt", "z")),
        ],
        "",
    );
    scene.write_queue(
        &[task_toml("a", ""), task_toml("k", "after = [\"a\"]"), task_toml("z", "after = [\"k\"]")]
            .concat(),
    );
    let mut child = scene.spawn_queue(&["--json"]);
    scene.wait_for_file("at-k");
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    eventually(|| scene.leftover_processes().is_empty().then_some(()));
    let before = scene.runs_of("k");
    assert_eq!(before.len(), 1);
    if noted == RunRecorded::No {
        let path = scene.queue_dir().join("queue.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let is_other = |line: &&str| !line.contains("\"runs\":{\"task\":\"k\"");
        let lines: Vec<&str> = text.lines().filter(is_other).collect();
        fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
    scene.create_file("go-k");
    let ended = scene.resume_queue();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_eq!(scene.commit_subjects(), ["Write z.", "Write k.", "Write a.", "c", "c"]);
    assert_eq!((scene.start_count("a"), scene.start_count("k"), scene.start_count("z")), (1, 2, 1));
    let after = scene.runs_of("k");
    assert!(
        if noted == RunRecorded::Yes { after == before } else { after.is_empty() },
        "{after:?}"
    );
    let nothing = scene.run_queue(&["--json"]);
    let last: Value = serde_json::from_str(nothing.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (nothing.code, &last["event"], &last["exit_code"]),
        (Some(0), &"queue_ended".into(), &0.into())
    );
}

/// R-L5c: an unanswered question parks its task while the others land. Once answered, the task continues.
#[test]
fn an_unanswered_question_parks_its_task() {
    let scene = QueueSandbox::new();
    write_file(&scene.sandbox.ralph_home("config.toml"), "[runner]\nquestion_after = \"1s\"\n");
    let asks = format!(
        "[[step]]\nagent = \"I ask.\"\ntools = [{{ run = \"'{}' ask 'red or blue?'\" }}]\n[[step]]\nagent = \"I wait for you.\"\n{}",
        env!("CARGO_BIN_EXE_ralph"),
        writing_steps("q.txt", "blue")
    );
    scene.write_agent(&[("q", &asks), ("z", &writing_steps("z.txt", "z"))], "");
    scene.write_queue(&[task_toml("q", ""), task_toml("z", "")].concat());
    let ended = scene.run_queue(&["--quiet"]);
    assert_snapshot!(scene.normalize(&format!("{}exit {:?}", ended.stdout, ended.code)), @"
    ✗ q  [run]  needs_human $X red or blue?
    ✓ z  [run]  landed $X

    not done: queue.toml — 1 of 2 tasks landed, [time], $X
    next    `ralph run --resume [queue]` continues with what is left
    exit Some(5)
    ");
    assert_eq!(scene.commit_subjects(), ["Write z.", "c", "c"]);
    let run = scene.runs_of("q").remove(0);
    assert_eq!(scene.sandbox.ralph(["tell", &run, "blue"]).code, Some(0));
    let ended = scene.resume_queue();
    assert_eq!(ended.code, Some(0), "{ended}");
    let merge = format!("Merge branch 'main' into ralph/{run}");
    assert_eq!(scene.commit_subjects(), [&merge, "Write q.", "Write z.", "c", "c"]);
    assert_eq!((scene.runs_of("q"), scene.start_count("z")), (vec![run], 1));
}

/// After Ctrl-C the turn ends, its task is parked and no other starts. A resume continues all of them.
#[test]
fn an_interrupted_queue_parks_the_active_task() {
    let scene = QueueSandbox::new();
    let root = scene.sandbox.root().display().to_string();
    scene.write_agent(
        &[("k", &waiting_steps("k", "k.txt", &root)), ("z", &writing_steps("z.txt", "z"))],
        "",
    );
    scene.write_queue(&[task_toml("k", ""), task_toml("z", "")].concat());
    let child = scene.spawn_queue(&["--json"]);
    scene.wait_for_file("at-k");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    scene.create_file("go-k");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let summary = (
        last["stopped"].clone(),
        last["tasks"][0]["status"].clone(),
        last["tasks"][1]["state"].clone(),
    );
    assert_eq!(summary, ("cancelled".into(), "cancelled".into(), "not_started".into()), "{text}");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(scene.start_count("z"), 0);
    // A parked run needs a new runner, and it may work in another project than the current one.
    let advice = scene.sandbox.ralph(["doctor"]).stdout;
    let advice = advice.lines().skip_while(|line| !line.contains(" run ")).take(2);
    assert_snapshot!(scene.normalize(&advice.collect::<Vec<_>>().join("\n")), @"· run         [run] (Write k., in `$ROOT/home/ralph-worktrees/[run]/project`) is paused       → `ralph run --resume [run]`");
    let id = scene.queue_dir();
    let id = id.file_name().unwrap().to_str().unwrap();
    let refused = scene.sandbox.ralph(["run", "--resume", id, "--max-cost", "5"]);
    assert_snapshot!(scene.normalize(&refused.to_string()), @"
    exit 1
    --- stderr
    error: `--max-cost` cannot be changed with `--resume`
      hint: `ralph run --queue $ROOT/queue.toml` with the flags of your choice continues the same queue
    ");
    let ended = scene.resume_queue();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_eq!(scene.runs_of("k").len(), 1);
    assert!(
        scene.sandbox.project().join("k.txt").exists()
            && scene.sandbox.project().join("z.txt").exists()
    );
}

/// Every JSON line names its task, and the lines of a task belong to one run.
#[test]
fn a_queue_that_cannot_be_read_is_not_called_unknown() {
    let sandbox = Sandbox::new();
    write_file(&sandbox.ralph_home("queues/q0123456/queue.jsonl"), "{\"v\":9,\"at_ms\":1}\n");
    let refused = sandbox.ralph(["why", "q0123456"]);
    assert_snapshot!(sandbox.normalize(&refused.to_string()), @"
    exit 1
    --- stderr
    error: cannot read the state of the queue
      caused by: `$ROOT/home/.ralph/queues/q0123456/queue.jsonl` was written by a newer ralph
      hint: use that version, or a newer one
    ");
}

/// A queue file is TOML; a Markdown list gets one error that says so.
#[test]
fn a_markdown_list_is_not_a_queue_file() {
    let scene = QueueSandbox::new();
    write_file(&scene.sandbox.root().join("goals.md"), "- fix the parser\n- write the docs\n");
    let refused = run_command(&mut scene.command(&["--queue", "../goals.md"]), b"");
    assert_snapshot!(scene.sandbox.normalize(&refused.to_string()), @"
    exit 1
    --- stderr
    error: `$ROOT/goals.md` is not TOML, as a queue file must be
      hint: write `[[task]]` with `name` and `goal` for each goal, or give a directory with one Markdown file per goal
    ");
}

/// A resumed run with its old limits could spend more than the queue may.
#[test]
fn a_run_whose_limits_cannot_be_set_is_not_resumed() {
    let scene = QueueSandbox::new();
    let root = scene.sandbox.root().display().to_string();
    scene.write_agent(&[("k", &waiting_steps("k", "k.txt", &root))], "");
    scene.write_queue(&task_toml("k", ""));
    let child = scene.spawn_queue(&["--json"]);
    scene.wait_for_file("at-k");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    scene.create_file("go-k");
    child.wait_with_output().unwrap();
    let run = scene.runs_of("k").remove(0);
    let lock = fs::File::create(scene.sandbox.ralph_home(&format!("runs/{run}/lock"))).unwrap();
    lock.lock().unwrap();
    let parked = scene.resume_queue();
    let parked = format!("{}exit {:?}", parked.stdout, parked.code);
    assert_snapshot!(mask_pattern(&scene.normalize(&parked), r"\d+ ms", "[ms]"), @"
    [queue]  1 task of `$ROOT/queue.toml`
    stop    Ctrl-C lets the turns end and parks the tasks, a second Ctrl-C ends them now; `ralph run --resume [queue]` continues
    k  ✗ failed: its limits could not be set: `$ROOT/home/.ralph/runs/[run]/lock` is still locked by another process after [ms]

    ✗ k  [run]  failed $X its limits could not be set: `$ROOT/home/.ralph/runs/[run]/lock` is still locked by another process after [ms]

    not done: queue.toml — 0 of 1 tasks landed, [time], $X
    next    `ralph run --resume [queue]` continues with what is left
    exit Some(1)
    ");
    lock.unlock().unwrap();
    let ended = scene.resume_queue();
    assert_eq!(ended.code, Some(0), "{ended}");
}

#[test]
fn json_lines_are_tagged_with_the_task() {
    let scene = QueueSandbox::new();
    scene.write_agent(
        &[("a", &writing_steps("a.txt", "a")), ("b", &writing_steps("b.txt", "b"))],
        "",
    );
    scene.write_queue(&[task_toml("a", ""), task_toml("b", "")].concat());
    let ended = scene.run_queue(&["--json", "--parallel", "2", "--max-cost", "6"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let lines: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(ended.stdout.lines().all(|line| line.starts_with("{\"v\":1,")));
    assert!(lines.iter().all(|line| line["queue"] == lines[0]["queue"]));
    for name in ["a", "b"] {
        let of: Vec<_> = lines.iter().filter(|line| line["task"] == name).collect();
        let first = ("task_started".into(), 3.0.into());
        assert_eq!((of[0]["event"].clone(), of[0]["max_cost_usd"].clone()), first);
        let run = of[1]["run"].clone();
        let is_of_run =
            |line: &&&Value| line.get("run").is_none_or(|of| *of == run || of.is_null());
        assert_eq!(of.iter().filter(is_of_run).count(), of.len());
        let last = &of[of.len() - 1];
        assert_eq!(
            (last["event"].clone(), last["landed"].clone()),
            ("task_ended".into(), true.into())
        );
        assert!(of.iter().any(|line| line["event"] == "ended" && line["status"] == "verified"));
    }
}

#[test]
fn errors_are_reported_before_any_run_starts() {
    let scene = QueueSandbox::new();
    scene.write_agent(&[], "");
    scene.write_queue("[[task]]\nname = \"a\"\ngoal = \"x\"\nafter = [\"b\"]\n\n[[task]]\nname = \"b\"\ngoal = \"x\"\nafter = \"a\"\nmax_cost = 3\n");
    let ended = scene.run_queue(&[]);
    let mut errors = scene.normalize(&ended.to_string());
    scene.write_queue("[[task]]\nname = \"a\"\ngoal = \"x\"\nplan = \"none.md\"\n");
    errors.push_str(&scene.normalize(&scene.run_queue(&[]).to_string()));
    scene.write_queue("[[task]]\nname = \"a\"\ngoal = \"x\"\n[[task]]\nname = \"b\"\ngoal = \"x\"\nafter = \"a\"\n");
    errors.push_str(&scene.normalize(&scene.run_queue(&["--pr"]).to_string()));
    errors.push_str(&scene.normalize(&scene.run_queue(&["--plan", "README.md"]).to_string()));
    assert_snapshot!(errors, @r#"
    exit 1
    --- stderr
    error: tasks depend on each other: `a` after `b` after `a`
     --> $ROOT/queue.toml:2:8
      |
    2 | name = "a"
      |        ^^^
      |
      = hint: remove one of them from `after`

    error: unknown key `max_cost`
      --> $ROOT/queue.toml:10:1
       |
    10 | max_cost = 3
       | ^^^^^^^^
       |
       = hint: did you mean `max_cost_usd`?

    error: 2 problems in the queue
    exit 1
    --- stderr
    error: task `a`: `none.md` is not a file
      hint: name a Markdown file with `- [ ]` items
    exit 1
    --- stderr
    error: `--pr` merges nothing, so `b` could never start
      hint: omit `--pr`, or remove `after`
    exit 1
    --- stderr
    error: `--plan` is for one goal, but a queue has many
      hint: give a task its own: `plan = "…"`
    "#);
    assert!(!scene.sandbox.ralph_home("queues").exists());
    let dry = scene.run_queue(&["--dry-run", "--parallel", "3", "--max-cost", "7.5"]);
    assert_snapshot!(scene.normalize(&dry.stdout), @r#"
    2 tasks, 3 at once, in `$ROOT/project`
      gates  tests  sh tests.sh
      limits 25 iterations · 8 h · $X · stuck at the 3rd stop without progress
      agent  $ROOT/project/../agent -p --input-format stream-json --output-format stream-json --verbose --session-id NEW --max-budget-usd 7.500000 --settings '{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"1025"}}' --permission-mode bypassPermissions

      a  starts: x
      b  starts, after a: x
      note   the agent runs without permission prompts: use a container or a virtual machine, without your keys

    nothing was started
    "#);
    assert!(!scene.sandbox.ralph_home("queues").exists());
}

/// A task's own limits are shown as it will get them: never more money or time than the queue has.
#[test]
fn a_dry_run_shows_the_limits_of_each_task() {
    let scene = QueueSandbox::new();
    scene.write_agent(&[], "");
    let limits = "max_cost_usd = 50\nmax_duration = \"9h\"\nmax_iterations = 5\nmin_iterations = 2\n\
                  max_tokens = 2000000\nstuck_after = 4\nhandover_at = 0.6";
    let tasks = [("a", limits), ("b", "max_cost_usd = 0.5"), ("c", "handover_at = 0.7"), ("d", "")];
    let tasks: Vec<_> = tasks.iter().map(|(name, limits)| task_toml(name, limits)).collect();
    scene.write_queue(&tasks.concat());
    let dry = scene.run_queue(&["--dry-run", "--max-cost", "1"]);
    let lines: Vec<_> = dry.stdout.lines().filter(|line| line.contains(": ")).collect();
    assert_snapshot!(lines.join("\n"), @"
    a  starts (2 to 5 iterations · 8 h · $1 · 2 M tokens · stuck at the 4th stop without progress · hand-over at 60 % of the context): Write a.
    b  starts ($0.50): Write b.
    c  starts (hand-over at 70 % of the context): Write c.
    d  starts: Write d.
    note   the agent runs without permission prompts: use a container or a virtual machine, without your keys
    ");
    let json = scene.run_queue(&["--dry-run", "--max-cost", "1", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap_or_else(|_| panic!("{json}"));
    let tasks: Vec<_> = json["tasks"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_snapshot!(tasks.join("\n"), @r#"
    {"after":[],"handover_at":0.6,"max_cost_usd":1.0,"max_duration_ms":28800000,"max_iterations":5,"max_tokens":2000000,"min_iterations":2,"name":"a","run":null,"stuck_after":4,"then":"begins","title":"Write a."}
    {"after":[],"max_cost_usd":0.5,"name":"b","run":null,"then":"begins","title":"Write b."}
    {"after":[],"handover_at":0.7,"max_cost_usd":null,"name":"c","run":null,"then":"begins","title":"Write c."}
    {"after":[],"max_cost_usd":null,"name":"d","run":null,"then":"begins","title":"Write d."}
    "#);
}

/// `ralph status` lists an unfinished queue with its tasks and runs. Commands that need a run list the queue's runs.
#[test]
fn a_queue_is_shown_with_its_runs() {
    let scene = QueueSandbox::new();
    scene.write_agent(
        &[("a", &writing_steps("a.txt", "a")), ("long-one", &writing_steps("broken", "b"))],
        "",
    );
    let (a, b) = (task_toml("a", ""), task_toml("long-one", "max_iterations = 1"));
    let c = task_toml("c", "after = [\"long-one\"]");
    scene.write_queue(&[&*a, &b, &c].concat());
    let ended = scene.run_queue(&[]);
    assert_snapshot!(scene.normalize(&ended.to_string()), @"
    exit 2
    --- stdout
    [queue]  3 tasks of `$ROOT/queue.toml`
    stop    Ctrl-C lets the turns end and parks the tasks, a second Ctrl-C ends them now; `ralph run --resume [queue]` continues
    a         starts, at most $X
    a         is run [run]: Write a.
    a         ✓ landed: merged into `main` as [commit]
    long-one  starts, at most $X
    long-one  is run [run]: Write long-one.
    long-one  held — 1 not met
    long-one  ✗ exhausted: its 1 iteration is used up, 1 not met

    ✓ a         [run]  landed $X
    ✗ long-one  [run]  exhausted $X its 1 iteration is used up, 1 not met
    ? c               blocked $X `long-one` has not landed

    not done: queue.toml — 1 of 3 tasks landed, [time], $X
    next    `ralph run --resume [queue]` continues with what is left a run that has ended is not repeated: change the goal or limits of its task to start another
    ");
    let id = scene.queue_dir().file_name().unwrap().to_str().unwrap().to_string();
    let show = |words: &[&str]| {
        let ended = scene.sandbox.ralph(words.iter().copied());
        scene.normalize(&format!("$ ralph {}\n{ended}\n", words.join(" ")))
    };
    let names = ["why", "log", "limits", "cancel", "tell"];
    let others =
        names.map(|name| show(&[&[name, &id], &["x"][..usize::from(name == "tell")]].concat()));
    let shown = [show(&["status"]), show(&["status", &id]), others.concat()];
    assert_snapshot!(shown.concat(), @r"
    $ ralph status
    exit 0
    --- stdout
    0 wait for you · 0 working · 2 ended
    [run]  exhausted     Write long-one.  (just now, 1 iteration, $X)
          its 1 iteration is used up, 1 not met
          next: `ralph why [run]` shows what is open; `ralph run --fork [run]` continues with fresh limits
          not merged; `ralph status [run]` shows how to merge it
          ? the agent runs without permission prompts, as a person requested
    [run]  verified      Write a.  (just now, 0 iterations, $X)
          merged into `main` as [commit]
          ? the agent runs without permission prompts, as a person requested
    [queue]  queue  `$ROOT/queue.toml`   1 of 3 tasks landed · 0 running · 1 open · 1 parked · $X   `ralph run --resume [queue]` continues, `ralph status [queue]` shows its tasks

    $ ralph status [queue]
    exit 0
    --- stdout
    [queue]  queue  `$ROOT/queue.toml`   1 of 3 tasks landed · 0 running · 1 open · 1 parked · $X
    ✓ a         [run]  landed $X
    ✗ long-one  [run]  exhausted $X its 1 iteration is used up, 1 not met
    ? c               blocked $X `long-one` has not landed
    next    `ralph run --resume [queue]` continues

    $ ralph why [queue]
    exit 1
    --- stderr
    error: `[queue]` is a queue, not a run; its runs are [run] (a), [run] (long-one)
      hint: name one of them; `ralph status [queue]` shows its tasks

    $ ralph log [queue]
    exit 1
    --- stderr
    error: `[queue]` is a queue, not a run; its runs are [run] (a), [run] (long-one)
      hint: name one of them; `ralph status [queue]` shows its tasks

    $ ralph limits [queue]
    exit 1
    --- stderr
    error: `[queue]` is a queue, not a run; its runs are [run] (a), [run] (long-one)
      hint: name one of them; `ralph status [queue]` shows its tasks

    $ ralph cancel [queue]
    exit 1
    --- stderr
    error: `[queue]` is a queue, not a run; its runs are [run] (a), [run] (long-one)
      hint: name one of them; `ralph status [queue]` shows its tasks

    $ ralph tell [queue] x
    exit 1
    --- stderr
    error: `[queue]` is a queue, not a run; its runs are [run] (a), [run] (long-one)
      hint: name one of them; `ralph status [queue]` shows its tasks
    ");
    let json = scene.sandbox.ralph(["status", &id, "--json"]).stdout;
    let mut json: Value = serde_json::from_str(&json).unwrap();
    let runs = json["runs"].as_array().unwrap().len();
    assert_eq!(runs, 2);
    json["queues"][0]["spent_usd"] = 0.into();
    json["queues"][0]["tasks"].as_array_mut().unwrap().iter_mut().for_each(|task| {
        task["spent_usd"] = 0.into();
    });
    assert_snapshot!(scene.normalize(&serde_json::to_string_pretty(&json["queues"]).unwrap()), @r#"
    [
      {
        "at_work": 0,
        "done": 1,
        "open": 1,
        "parked": 1,
        "project": "$ROOT/project",
        "queue": "[queue]",
        "resume": "ralph run --resume [queue]",
        "source": "$ROOT/queue.toml",
        "spent_usd": 0,
        "tasks": [
          { "because": "merged into `main` as [commit]", "name": "a", "run": "[run]", "spent_usd": 0, "state": "done", "status": "verified"
          },
          { "because": "its 1 iteration is used up, 1 not met", "name": "long-one", "run": "[run]", "spent_usd": 0, "state": "parked", "status": "exhausted"
          },
          { "because": "`long-one` has not landed", "name": "c", "run": null, "spent_usd": 0, "state": "blocked", "status": null
          }
        ]
      }
    ]
    "#);
    // A queue whose tasks have all landed is no longer listed, nor is one whose file was deleted.
    let is_listed = || show(&["status"]).contains("[queue]");
    scene.write_queue(&a);
    assert!(!is_listed());
    scene.write_queue(&[&*a, &b].concat());
    assert!(is_listed());
    fs::remove_file(scene.sandbox.root().join("queue.toml")).unwrap();
    assert!(!is_listed());
    assert_snapshot!(show(&["status", &id]), @"
    $ ralph status [queue]
    exit 0
    --- stdout
    [queue]  queue  `$ROOT/queue.toml`   1 of 2 tasks landed · 0 running · 0 open · 1 parked · $X
    ✓ a         [run]  landed $X
    ✗ long-one  [run]  exhausted $X its 1 iteration is used up, 1 not met
    next    its file can no longer be read
    ");
}
