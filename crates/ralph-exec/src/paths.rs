//! Every path below ralph's home. Only checked ids become part of one.

use crate::clock;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::Process;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Home(PathBuf);

impl Home {
    pub fn new(root: PathBuf) -> Self {
        Self(root)
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Which run owns the session: the first thing every stop looks for.
    pub fn session(&self, session: &SessionId) -> PathBuf {
        self.sessions().join(session.as_str())
    }

    /// Held by whoever changes what the session points to.
    pub fn session_lock(&self, session: &SessionId) -> PathBuf {
        self.0.join("locks").join(session.as_str())
    }

    /// Files that any tool may write about a session.
    pub fn state(&self, session: &SessionId) -> PathBuf {
        self.0.join("state").join(session.as_str())
    }

    pub fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    pub fn run(&self, run: &RunId) -> RunPaths {
        RunPaths(self.runs().join(run.as_str()))
    }

    /// What a run of its own work tree works in: beside ralph's own files, not among them: those are nobody's work, and no agent may touch them.
    pub fn worktree(&self, run: &RunId) -> PathBuf {
        let mut name = self.0.file_name().unwrap_or_default().to_os_string();
        name.push("-worktrees");
        self.0.with_file_name(name).join(run.as_str())
    }

    pub fn held(&self) -> PathBuf {
        self.0.join("held")
    }

    pub fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    /// What was decided in a session that only adopted files hold.
    pub fn held_journal(&self, session: &SessionId) -> PathBuf {
        self.held().join(session.as_str()).join("journal.jsonl")
    }

    /// Tombstones stand apart from what they bury: nothing that re-creates a run removes them.
    pub fn tombstone(&self, id: &str) -> PathBuf {
        self.0.join("cancelled").join(id)
    }

    /// Who took over a loop directory that named no owner.
    pub fn adoption(&self, directory: &Path) -> PathBuf {
        self.0.join("adopted").join(short_hash(directory))
    }

    /// What is known by content and can be made again.
    pub fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    /// What the files of a work tree were when they were last read, so that they need not be read again.
    pub fn stat_cache(&self, root: &Path) -> PathBuf {
        self.cache().join("stat").join(short_hash(root))
    }

    /// How long the gates of a project took.
    pub fn history(&self, project: &Path) -> PathBuf {
        self.cache().join("history").join(short_hash(project))
    }

    /// Held by whoever runs a project's gates before anybody asks.
    pub fn warming(&self, project: &Path) -> PathBuf {
        self.cache().join("warming").join(short_hash(project))
    }

    /// A directory for one run of one gate.
    pub fn scratch(&self, nonce: u64) -> PathBuf {
        self.0.join("scratch").join(format!("{nonce:016x}"))
    }

    /// What seals cache entries: nobody fills one in by hand.
    pub fn key(&self) -> PathBuf {
        self.0.join("key")
    }

    /// The person's own defaults for every project.
    pub fn user_config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    pub fn trust(&self) -> PathBuf {
        self.0.join("trust")
    }

    /// That a person approved exactly this content in this project.
    pub fn approval(&self, project: &Path, hash: &str) -> PathBuf {
        let project = project.as_os_str().as_encoded_bytes();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(project.len() as u64).to_le_bytes());
        hasher.update(project);
        hasher.update(hash.as_bytes());
        self.trust().join(&hasher.finalize().to_hex()[..32])
    }

    /// When anything was last heard of the session that the run holds.
    pub fn heard(&self, run: &RunId) -> PathBuf {
        self.0.join("heard").join(run.as_str())
    }

    /// Which run was let go by a process that cleared its conversation, for the session that comes next.
    pub fn cleared(&self, process: &Process) -> PathBuf {
        self.0.join("cleared").join(format!("{}-{}", process.pid, process.started))
    }

    /// Held by the run of a repository whose work is landing.
    pub fn landing(&self, repository: &Path) -> PathBuf {
        self.0.join("landing").join(short_hash(repository))
    }

    /// What was done to files of other programs, and how they were.
    pub fn install(&self) -> PathBuf {
        self.0.join("install")
    }

    pub fn installed(&self, file: &Path) -> PathBuf {
        self.install().join(short_hash(file))
    }

    /// What past runs, learnings and memory are searched by: made of them, and made again when it is gone.
    pub fn index(&self) -> PathBuf {
        self.0.join("index")
    }

    pub fn recall_index(&self) -> PathBuf {
        self.index().join("recall.sqlite")
    }

    /// Held by whoever has the index open.
    pub fn recall_lock(&self) -> PathBuf {
        self.index().join("lock")
    }

    pub fn learnings(&self) -> PathBuf {
        self.0.join("learnings")
    }

    /// What was learned in a project.
    pub fn learnings_of(&self, project: &Path) -> PathBuf {
        self.learnings().join(short_hash(project))
    }

    /// What all runs spent on the day of that moment, where the user is.
    pub fn spend(&self, ms: u64) -> PathBuf {
        self.0.join("spend").join(format!("{}.jsonl", clock::local_date(ms)))
    }

    /// What became of lists of goals.
    pub fn queues(&self) -> PathBuf {
        self.0.join("queues")
    }

    pub fn faults(&self) -> PathBuf {
        self.0.join("faults")
    }

    /// Where hooks that know no other place find the program.
    pub fn program(&self) -> PathBuf {
        self.0.join("bin/ralph")
    }

    /// While this file exists, nobody is held.
    pub fn kill_switch(&self) -> PathBuf {
        self.0.join("off")
    }
}

fn short_hash(path: &Path) -> String {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes());
    hash.to_hex()[..32].to_string()
}

#[derive(Clone, Debug)]
pub struct RunPaths(PathBuf);

impl RunPaths {
    pub fn directory(&self) -> &Path {
        &self.0
    }

    pub fn run(&self) -> PathBuf {
        self.0.join("run.json")
    }

    pub fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    pub fn journal(&self) -> PathBuf {
        self.0.join("journal.jsonl")
    }

    /// The iterations charged, once more: the least that is believed when the other files are cut short.
    pub fn count(&self) -> PathBuf {
        self.0.join("count")
    }

    pub fn goal(&self) -> PathBuf {
        self.0.join("goal.txt")
    }

    /// A list as it was when the run began.
    pub fn list(&self, number: usize) -> PathBuf {
        self.0.join("lists").join(format!("{}.json", number + 1))
    }

    /// The same when it could last be read.
    pub fn list_now(&self, number: usize) -> PathBuf {
        self.0.join("lists").join(format!("{}.now.json", number + 1))
    }

    /// Held while gates of the run are at work.
    pub fn working(&self) -> PathBuf {
        self.0.join("working")
    }

    /// What they are asked for: whoever works at something else may stop.
    pub fn task(&self) -> PathBuf {
        self.0.join("task")
    }

    /// What went wrong with the process that runs them.
    pub fn worker_log(&self) -> PathBuf {
        self.0.join("worker.log")
    }

    /// What a person was told of its end, made by whoever tells them: nobody tells it twice.
    pub fn notified(&self) -> PathBuf {
        self.0.join("notified")
    }

    /// Held by whoever judges a subagent, a teammate or a task: their gates would put each other off.
    pub fn parts_lock(&self) -> PathBuf {
        self.0.join("parts.lock")
    }

    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Held by whoever drives the run.
    pub fn runner_lock(&self) -> PathBuf {
        self.0.join("runner.lock")
    }

    /// Which process that is.
    pub fn runner(&self) -> PathBuf {
        self.0.join("runner.json")
    }

    /// Which gates are at work, for whoever watches.
    pub fn progress(&self) -> PathBuf {
        self.0.join("gates.log")
    }

    /// What the agent's process said on standard error.
    pub fn agent_errors(&self) -> PathBuf {
        self.0.join("agent.err")
    }

    /// The agent scheduled a prompt that would pass for a person's.
    pub fn posed(&self) -> PathBuf {
        self.0.join("posed")
    }

    /// The last view of an orchestrated run that ralph wrote, to tell what was edited since.
    pub fn orchestrator(&self) -> PathBuf {
        self.0.join("orchestrator.json")
    }

    /// What the agent has to know again when the conversation was summed up.
    pub fn handoff(&self) -> PathBuf {
        self.0.join("handoff.md")
    }

    /// Git's side of the checkpoints that must not be in the user's repository; all of it where there is none.
    pub fn shadow(&self) -> PathBuf {
        self.0.join("shadow.git")
    }

    /// Where a checkpoint is verified.
    pub fn checkout(&self) -> PathBuf {
        self.0.join("checkout")
    }
}
