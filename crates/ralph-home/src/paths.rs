//! Paths of all files in ralph's home. Only validated ids become path components.

use ralph_core::id::{RunId, SessionId};
use ralph_core::record::ProcessIdentity;
use ralph_sys::clock;
use std::path::{Path, PathBuf};

/// Ralph's home directory: `~/.ralph`, or `RALPH_HOME`.
#[derive(Clone, Debug)]
pub struct RalphHome(PathBuf);

impl RalphHome {
    pub fn new(root: PathBuf) -> Self {
        Self(root)
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Names the run that owns the session. Every stop looks for it first.
    pub fn session_pointer(&self, session: &SessionId) -> PathBuf {
        self.sessions().join(session.as_str())
    }

    /// Locked while the session's pointer is changed.
    pub fn session_lock(&self, session: &SessionId) -> PathBuf {
        self.0.join("locks").join(session.as_str())
    }

    /// Directory with files that other tools may write about a session.
    pub fn session_state(&self, session: &SessionId) -> PathBuf {
        self.0.join("state").join(session.as_str())
    }

    /// What the gates of a session without a run were last compared with.
    pub fn session_note(&self, session: &SessionId) -> PathBuf {
        self.0.join("session-notes").join(session.as_str())
    }

    pub fn session_notes(&self) -> PathBuf {
        self.0.join("session-notes")
    }

    pub fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    pub fn run(&self, run: &RunId) -> RunPaths {
        RunPaths(self.runs().join(run.as_str()))
    }

    /// The work tree of a run started with `--worktree`. It lies beside ralph's home, not in it, because no agent may
    /// touch ralph's home and every listing of a work tree leaves it out. It is not hidden, because some programs treat
    /// files below a hidden directory differently: servers refuse to serve them, and test runners do not find them.
    pub fn worktree(&self, run: &RunId) -> PathBuf {
        let name = self.0.file_name().unwrap_or_default().to_string_lossy();
        self.worktrees(name.trim_start_matches('.')).join(run.as_str())
    }

    /// Where the work trees of runs that an earlier version started are.
    pub fn hidden_worktree(&self, run: &RunId) -> PathBuf {
        let name = self.0.file_name().unwrap_or_default().to_string_lossy();
        self.worktrees(&name).join(run.as_str())
    }

    fn worktrees(&self, name: &str) -> PathBuf {
        self.0.with_file_name(format!("{name}-worktrees"))
    }

    /// The directories with the work trees of runs.
    pub fn worktree_directories(&self) -> [PathBuf; 2] {
        let name = self.0.file_name().unwrap_or_default().to_string_lossy();
        [self.worktrees(name.trim_start_matches('.')), self.worktrees(&name)]
    }

    /// Directory with the journals of sessions that are held by files of other tools, without a run.
    pub fn held_sessions(&self) -> PathBuf {
        self.0.join("held")
    }

    pub fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    /// Decisions for a session that is held by files of other tools, without a run.
    pub fn held_journal(&self, session: &SessionId) -> PathBuf {
        self.held_sessions().join(session.as_str()).join("journal.jsonl")
    }

    /// Marks a run or session as cancelled. Tombstones have a directory of their own, so that re-creating a run does
    /// not remove its tombstone.
    pub fn tombstone(&self, id: &str) -> PathBuf {
        self.0.join("cancelled").join(id)
    }

    /// Names the session that adopted a loop directory without an owner.
    pub fn adoption(&self, directory: &Path) -> PathBuf {
        self.0.join("adopted").join(short_hash(directory))
    }

    /// Everything in it is addressed by content and can be rebuilt.
    pub fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    /// Metadata and hashes of a work tree's files, so that unchanged files need not be read again.
    pub fn stat_cache(&self, root: &Path) -> PathBuf {
        self.cache().join("stat").join(short_hash(root))
    }

    /// How long the project's gates took in the past.
    pub fn gate_history(&self, project: &Path) -> PathBuf {
        self.cache().join("history").join(short_hash(project))
    }

    /// Locked by the process that runs a project's gates in advance.
    pub fn warming_lock(&self, project: &Path) -> PathBuf {
        self.cache().join("warming").join(short_hash(project))
    }

    /// Scratch directory for one execution of one gate.
    pub fn scratch(&self, nonce: u64) -> PathBuf {
        self.0.join("scratch").join(format!("{nonce:016x}"))
    }

    pub fn scratch_directories(&self) -> PathBuf {
        self.0.join("scratch")
    }

    /// Directories that are being removed. Nothing in it is needed.
    pub fn trash(&self) -> PathBuf {
        self.0.join("trash")
    }

    /// A new name in the trash.
    pub fn trash_name(&self) -> PathBuf {
        self.trash().join(format!("{:016x}", clock::nonce()))
    }

    /// Locked while ralph's home is cleaned.
    pub fn cleaning_lock(&self) -> PathBuf {
        self.0.join("cleaning")
    }

    /// Changed whenever ralph's home was cleaned without being asked to.
    pub fn cleaning_stamp(&self) -> PathBuf {
        self.cache().join("cleaned")
    }

    /// Names the directories in which proofs are running, so that those of killed processes can be removed.
    pub fn proof_records(&self) -> PathBuf {
        self.0.join("proofs")
    }

    /// The secret key that seals cache entries, so that a hand-written entry is detected.
    pub fn seal_key(&self) -> PathBuf {
        self.0.join("key")
    }

    /// The private key that signs statements about runs. It is created when the first one is signed.
    pub fn signing_key(&self) -> PathBuf {
        self.0.join("signing-key")
    }

    /// The user's defaults for all projects.
    pub fn user_config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    pub fn trust(&self) -> PathBuf {
        self.0.join("trust")
    }

    /// Exists if the user approved exactly this content in this project.
    pub fn approval(&self, project: &Path, hash: &str) -> PathBuf {
        let project = project.as_os_str().as_encoded_bytes();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(project.len() as u64).to_le_bytes());
        hasher.update(project);
        hasher.update(hash.as_bytes());
        self.trust().join(&hasher.finalize().to_hex()[..32])
    }

    /// When the session that the run owns last showed activity.
    pub fn heartbeat(&self, run: &RunId) -> PathBuf {
        self.0.join("heard").join(run.as_str())
    }

    /// Names the run that a host process released when it cleared its conversation; the next session of that process
    /// takes it over.
    pub fn cleared_session(&self, process: &ProcessIdentity) -> PathBuf {
        self.0.join("cleared").join(format!("{}-{}", process.pid, process.started))
    }

    /// Locked by the run that is landing its work in the repository.
    pub fn landing_lock(&self, repository: &Path) -> PathBuf {
        self.0.join("landing").join(short_hash(repository))
    }

    /// Locked while a work tree of the repository is created.
    pub fn worktree_lock(&self, repository: &Path) -> PathBuf {
        self.0.join("landing").join(format!("{}.add", short_hash(repository)))
    }

    /// Changes made to other programs' files, and their previous content.
    pub fn install_records(&self) -> PathBuf {
        self.0.join("install")
    }

    pub fn install_record(&self, file: &Path) -> PathBuf {
        self.install_records().join(short_hash(file))
    }

    /// Indexes, each of which is rebuilt if it is missing.
    pub fn index(&self) -> PathBuf {
        self.0.join("index")
    }

    /// Search index over past runs, learnings and memory.
    pub fn recall_index(&self) -> PathBuf {
        self.index().join("recall.sqlite")
    }

    /// Locked while the index is open.
    pub fn recall_lock(&self) -> PathBuf {
        self.index().join("lock")
    }

    /// Index over the journals of all runs. It is rebuilt from them if it is missing.
    pub fn run_index(&self) -> PathBuf {
        self.index().join("runs.sqlite")
    }

    /// Locked while the run index is refreshed.
    pub fn run_index_lock(&self) -> PathBuf {
        self.index().join("runs.lock")
    }

    pub fn learnings(&self) -> PathBuf {
        self.0.join("learnings")
    }

    /// Learnings from runs in a project.
    pub fn project_learnings(&self, project: &Path) -> PathBuf {
        self.learnings().join(short_hash(project))
    }

    /// Lessons from the runs of all projects.
    pub fn memory(&self) -> PathBuf {
        self.0.join("memory")
    }

    /// Lessons from the runs of a project.
    pub fn project_memory(&self, project: &Path) -> PathBuf {
        self.memory().join(format!("{}.json", short_hash(project)))
    }

    /// Locked while the lessons of a project are changed.
    pub fn project_memory_lock(&self, project: &Path) -> PathBuf {
        self.memory().join(format!("{}.lock", short_hash(project)))
    }

    /// What a session without a run was given of the memory of its project.
    pub fn session_memory(&self, session: &SessionId) -> PathBuf {
        self.session_memories().join(session.as_str())
    }

    pub fn session_memories(&self) -> PathBuf {
        self.0.join("session-memory")
    }

    /// The proposals of `ralph stats` that a person applied, one per line.
    pub fn applied_proposals(&self) -> PathBuf {
        self.0.join("deck").join("applied.jsonl")
    }

    /// Spending of all runs on the local day that contains `ms`.
    pub fn spending_ledger(&self, ms: u64) -> PathBuf {
        self.0.join("spend").join(format!("{}.jsonl", clock::local_date(ms)))
    }

    /// Records of `ralph run` queues.
    pub fn queues(&self) -> PathBuf {
        self.0.join("queues")
    }

    pub fn faults(&self) -> PathBuf {
        self.0.join("faults")
    }

    /// Where hooks find the program when they have no other path to it.
    pub fn program(&self) -> PathBuf {
        self.0.join("bin/ralph")
    }

    /// What the screens remember about the person who looks at them.
    pub fn deck(&self) -> PathBuf {
        self.0.join("deck")
    }

    /// When the board was last closed.
    pub fn last_look(&self) -> PathBuf {
        self.deck().join("seen")
    }

    /// While this file exists, no stop is held.
    pub fn kill_switch(&self) -> PathBuf {
        self.0.join("off")
    }
}

fn short_hash(path: &Path) -> String {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes());
    hash.to_hex()[..32].to_string()
}

/// Paths of the files of one run.
#[derive(Clone, Debug)]
pub struct RunPaths(PathBuf);

impl RunPaths {
    pub fn directory(&self) -> &Path {
        &self.0
    }

    pub fn run_record(&self) -> PathBuf {
        self.0.join("run.json")
    }

    pub fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    pub fn journal(&self) -> PathBuf {
        self.0.join("journal.jsonl")
    }

    /// The number of charged iterations, stored redundantly: a lower bound when the other files are truncated.
    pub fn count(&self) -> PathBuf {
        self.0.join("count")
    }

    /// How much of the session's transcripts is metered already. It is rebuilt from them if it is missing.
    pub fn meter(&self) -> PathBuf {
        self.0.join("meter.json")
    }

    /// The cost that the client reported to its status line.
    pub fn client_cost(&self) -> PathBuf {
        self.0.join("client-cost.json")
    }

    /// What the judges of the run have cost so far.
    pub fn judge_meter(&self) -> PathBuf {
        self.0.join("judge-meter.json")
    }

    pub fn goal(&self) -> PathBuf {
        self.0.join("goal.txt")
    }

    /// Copies of the run's lists.
    pub fn lists(&self) -> PathBuf {
        self.0.join("lists")
    }

    /// Copy of a list from the start of the run.
    pub fn list(&self, number: usize) -> PathBuf {
        self.lists().join(format!("{}.json", number + 1))
    }

    /// Copy of the same list from the last time it parsed.
    pub fn list_latest(&self, number: usize) -> PathBuf {
        self.lists().join(format!("{}.now.json", number + 1))
    }

    /// Locked while gates of the run are running.
    pub fn worker_lock(&self) -> PathBuf {
        self.0.join("working")
    }

    /// Locked while the base of the run is measured.
    pub fn base_lock(&self) -> PathBuf {
        self.0.join("measuring")
    }

    /// Which checks of the run's lists passed at its base.
    pub fn base_checks(&self) -> PathBuf {
        self.0.join("base-checks.json")
    }

    /// Mark of the task that is currently wanted. A worker with another mark may stop.
    pub fn worker_task(&self) -> PathBuf {
        self.0.join("task")
    }

    /// Errors of the worker that runs the gates.
    pub fn worker_log(&self) -> PathBuf {
        self.0.join("worker.log")
    }

    /// The notification about the run's end. Whichever process creates the file sends it, so it is sent once.
    pub fn notification(&self) -> PathBuf {
        self.0.join("notified")
    }

    /// The notification about a question, by the number of the journal entry that asked it.
    pub fn question_notification(&self, seq: u64) -> PathBuf {
        self.0.join(format!("asked-{seq}"))
    }

    /// Locked while a subagent, a teammate or a task is judged, so that their gates do not cancel each
    /// other.
    pub fn parts_lock(&self) -> PathBuf {
        self.0.join("parts.lock")
    }

    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Locked by the runner that drives the run.
    pub fn runner_lock(&self) -> PathBuf {
        self.0.join("runner.lock")
    }

    /// The process id of that runner.
    pub fn runner(&self) -> PathBuf {
        self.0.join("runner.json")
    }

    /// Live progress of the gates, for display.
    pub fn gates_log(&self) -> PathBuf {
        self.0.join("gates.log")
    }

    /// Standard error of the agent's process.
    pub fn agent_errors(&self) -> PathBuf {
        self.0.join("agent.err")
    }

    /// Exists if the agent scheduled a prompt that would look like one typed by the user.
    pub fn impersonation_mark(&self) -> PathBuf {
        self.0.join("posed")
    }

    /// What the agent of the run was given of the memory of its project.
    pub fn given_memory(&self) -> PathBuf {
        self.0.join("memory.json")
    }

    /// The last view of an orchestrated run that ralph wrote. Edits made since are found by comparing with it.
    pub fn orchestrator(&self) -> PathBuf {
        self.0.join("orchestrator.json")
    }

    /// Facts that the agent is given again after its conversation was compacted.
    pub fn handover(&self) -> PathBuf {
        self.0.join("handoff.md")
    }

    /// The hand-over to the session of this number, which is never overwritten.
    pub fn numbered_handover(&self, number: u32) -> PathBuf {
        self.0.join(format!("handoff-{number}.md"))
    }

    /// The report of a driven run, written when it ends.
    pub fn markdown_report(&self) -> PathBuf {
        self.0.join("report.md")
    }

    /// The same report as a page that needs no other file.
    pub fn html_report(&self) -> PathBuf {
        self.0.join("report.html")
    }

    /// Git data of checkpoints that does not belong in the user's repository, or all of it if there is no repository.
    pub fn shadow_repository(&self) -> PathBuf {
        self.0.join("shadow.git")
    }

    /// The checkout of a run that an earlier version started. Now checkouts are outside ralph's home.
    pub fn old_checkout(&self) -> PathBuf {
        self.shadow_repository().join("checkout")
    }
}
