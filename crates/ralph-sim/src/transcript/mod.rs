//! Writes a session's transcript in the format of the client (2.1.325), for hooks and tools to read.
//!
//! It contains prompts, answers, tool results, hook output, compactions, errors, interruptions, and at the end the
//! last prompt and the cost, with the client's keys in the client's order. It leaves out records that only the client
//! reads: its standing context and its accounting of requests. Two differences remain: keys inside a tool's input and
//! structured result are sorted, and a manual compaction has its keys in the order of an automatic one.

mod attachment_lines;
mod conversation_lines;
mod id_generator;
mod resume_point;
mod session_lines;
mod session_paths;
mod session_totals;
mod system_lines;
mod tool_result_lines;

#[cfg(test)]
mod tests;

pub use attachment_lines::{AttachedHookOutput, HookAttachment, HookAttachmentKind};
pub use conversation_lines::{
    AnswerBlock, StructuredToolResult, synthetic_message_json, usage_json,
};
pub use id_generator::IdGenerator;
pub use session_lines::{CompactionTrigger, StopHookSummary, WrittenApiError, WrittenCompaction};
pub use session_paths::ClientSessionPaths;
pub use session_totals::ModelTotals;
pub use system_lines::StopHookInfo;
pub use tool_result_lines::{WrittenToolOutcome, WrittenToolResult};

use crate::scenario::ScriptedUsage;
use conversation_lines::{
    AssistantLine, AssistantLineMessage, ChainedLine, ChainedLineTail, TaskOriginWire,
    TextBlockWire, TurnPositionWire, UserLine, UserLineContent, UserLineMessage, UserLineType,
};
use ralph_sys::clock::{self, Stopwatch};
use ralph_sys::fs::{self, FileError, LineAppender};
use serde::Serialize;
use session_totals::SessionTotals;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use system_lines::{QueueOperationLine, SubagentMetaFile};

pub const CLIENT_VERSION: &str = "2.1.325";
/// The client's default model.
pub const DEFAULT_MODEL: &str = "claude-opus-5-5";
/// The permission mode in which nothing is asked.
pub const BYPASS_MODE: &str = "bypassPermissions";
/// The client's default effort.
pub const EFFORT: &str = "medium";

/// Writes one transcript file, which stays open as long as the session. Keeps no line in memory.
#[derive(Debug)]
pub struct TranscriptWriter {
    lines: LineAppender,
    session: String,
    cwd: String,
    branch: String,
    agent: Option<SidechainAgent>,
    /// The uuid of the last line, which becomes the parent of the next one.
    last_uuid: Option<String>,
    prompt: Option<String>,
    turns: u64,
    last_prompt: String,
    /// The tool calls of the last answer, each with the uuid of its line.
    calls: Vec<(String, String)>,
    ids: IdGenerator,
    totals: SessionTotals,
    before_ms: u64,
    watch: Stopwatch,
    slug: Option<&'static str>,
    dropped: u64,
}

/// A subagent. Its transcript is a separate file.
#[derive(Clone, Debug)]
pub struct SidechainAgent {
    pub id: String,
    /// For example `general-purpose`.
    pub kind: String,
    pub description: String,
    pub tool_use_id: String,
    pub background: bool,
}

/// The origin of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenPromptOrigin {
    Person,
    /// The notification of a finished background task.
    Task,
    /// The agent that gave a subagent its task.
    Agent,
}

/// One answer of the model. Each block becomes a line; all of them share the id and usage of the answer.
#[derive(Clone, Copy, Debug)]
pub struct WrittenAnswer<'a> {
    pub id: &'a str,
    pub request: &'a str,
    pub model: &'a str,
    pub blocks: &'a [AnswerBlock<'a>],
    pub stop_reason: &'a str,
    pub usage: ScriptedUsage,
}

impl TranscriptWriter {
    /// Opens or creates a transcript; an existing one is continued.
    pub fn open(place: &ClientSessionPaths<'_>, ids: IdGenerator) -> Result<Self, FileError> {
        let path = place.transcript();
        let cwd = place.project.to_string_lossy().into_owned();
        Self::open_at(&path, place.session, cwd, ids)
    }

    /// Copies a session under a new id and opens the copy.
    pub fn fork(
        from: &ClientSessionPaths<'_>,
        session: &str,
        ids: IdGenerator,
    ) -> Result<Self, FileError> {
        let to = ClientSessionPaths { session, ..*from };
        check_id(session, &to.transcript())?;
        fs::create_private_dir(&to.directory())?;
        let original = from.find_transcript()?.unwrap_or_else(|| from.transcript());
        resume_point::copy_conversation(&original, &to.transcript(), from.session, session)?;
        let mut fork = Self::open(&to, ids)?;
        let found = resume_point::read_resume_point(&original)?;
        fork.before_ms = found.totals.total_duration;
        fork.totals = found.totals;
        fork.last_prompt = found.last_prompt;
        Ok(fork)
    }

    fn open_at(
        path: &Path,
        session: &str,
        cwd: String,
        ids: IdGenerator,
    ) -> Result<Self, FileError> {
        check_id(session, path)?;
        if let Some(directory) = path.parent() {
            fs::create_private_dir(directory)?;
        }
        let found = resume_point::read_resume_point(path)?;
        let lines = LineAppender::open(path)?;
        let mut totals = found.totals;
        if totals.start_time == 0 {
            totals.start_time = clock::now_ms();
        }
        Ok(Self {
            lines,
            session: session.to_owned(),
            cwd,
            branch: "HEAD".to_owned(),
            agent: None,
            last_uuid: found.last_uuid,
            prompt: None,
            turns: found.turns,
            last_prompt: found.last_prompt,
            calls: Vec::new(),
            ids,
            before_ms: totals.total_duration,
            totals,
            watch: Stopwatch::start(),
            slug: None,
            dropped: 0,
        })
    }

    pub fn path(&self) -> &Path {
        self.lines.path()
    }

    /// The cost of the session in USD, including the cost recorded when its client last exited normally.
    pub fn cost_usd(&self) -> f64 {
        self.totals.total_cost
    }

    /// Token usage by model, over the same period as [`Self::cost_usd`].
    pub fn usage_by_model(&self) -> &BTreeMap<String, ModelTotals> {
        &self.totals.model_usage
    }

    /// Records a change of directory by the agent.
    pub fn set_cwd(&mut self, cwd: &Path) {
        self.cwd = cwd.to_string_lossy().into_owned();
    }

    /// Sets the git branch of the project; `HEAD` outside a repository.
    pub fn set_branch(&mut self, branch: &str) {
        branch.clone_into(&mut self.branch);
    }

    pub fn prompt_id(&self) -> Option<&str> {
        self.prompt.as_deref()
    }

    /// Records that a prompt was queued and taken from the queue.
    pub fn write_queued_prompt(&mut self, text: &str) -> Result<(), FileError> {
        for (operation, content) in [("enqueue", Some(text)), ("dequeue", None)] {
            let timestamp = timestamp_now();
            let session_id = &self.session;
            let queued = QueueOperationLine {
                kind: "queue-operation",
                operation,
                timestamp,
                session_id,
                content,
            };
            write_line(&mut self.lines, &queued)?;
        }
        Ok(())
    }

    /// Starts a new prompt and returns its id, which hooks receive before the line of the prompt is written.
    pub fn begin_prompt(&mut self) -> String {
        let id = self.ids.uuid();
        self.prompt = Some(id.clone());
        id
    }

    pub fn write_prompt(
        &mut self,
        text: &str,
        origin: WrittenPromptOrigin,
    ) -> Result<(), FileError> {
        let run = self.ids.agent_id();
        let user =
            UserLine { message: user_message(UserLineContent::Text(text)), ..UserLine::default() };
        if origin == WrittenPromptOrigin::Agent {
            return self.write_user_line(user);
        }
        self.turns += 1;
        let is_task = origin == WrittenPromptOrigin::Task;
        if !is_task {
            text.clone_into(&mut self.last_prompt);
        }
        self.write_user_line(UserLine {
            permission_mode: Some(BYPASS_MODE),
            origin: is_task.then_some(TaskOriginWire {
                kind: "task-notification",
                producer: "session-task",
                run_id: &run,
            }),
            prompt_source: Some(if is_task { "system" } else { "sdk" }),
            turn_origin: Some(if is_task { "task_notification" } else { "sdk" }),
            turn_position: Some(TurnPositionWire { prompt_index: 0, turn_index: self.turns }),
            queue_skip_attachments: is_task.then_some(true),
            ..user
        })
    }

    /// Writes a user message that no person typed, such as `Stop hook feedback:\n…`.
    pub fn write_feedback(&mut self, text: &str) -> Result<(), FileError> {
        let message = user_message(UserLineContent::Text(text));
        self.write_user_line(UserLine { message, is_meta: Some(true), ..UserLine::default() })
    }

    /// Writes a message such as `[Request interrupted by user]`.
    pub fn write_interruption(&mut self, text: &str) -> Result<(), FileError> {
        let message = user_message(UserLineContent::Texts([TextBlockWire::new(text)]));
        self.write_user_line(UserLine { message, ..UserLine::default() })
    }

    pub fn write_answer(&mut self, answer: &WrittenAnswer<'_>) -> Result<(), FileError> {
        self.totals.add(answer.model, answer.usage);
        self.calls.clear();
        let request_ref = self.ids.uuid();
        let agent = self.agent.clone();
        for (index, block) in answer.blocks.iter().enumerate() {
            let uuid = self.ids.uuid();
            let is_call = match block {
                AnswerBlock::ToolUse { id, .. } => {
                    self.calls.push(((*id).to_owned(), uuid.clone()));
                    true
                }
                AnswerBlock::Text { .. } => false,
            };
            let body = AssistantLine {
                agent_id: agent.as_ref().map(|agent| &*agent.id),
                message: AssistantLineMessage {
                    id: answer.id,
                    kind: "message",
                    role: "assistant",
                    model: answer.model,
                    content: [*block],
                    stop_reason: answer.stop_reason,
                    stop_sequence: None,
                    usage: answer.usage.into(),
                    stop_details: None,
                },
                tool_input_stream_ms: is_call.then_some(1),
                api_block_index: index,
                request_id: answer.request,
                request_ref: &request_ref,
                requested_model: answer.model,
                prompt_cache_requested: "5m",
                attribution_agent: agent.as_ref().map(|agent| &*agent.kind),
                kind: "assistant",
                uuid: &uuid,
                timestamp: timestamp_now(),
                effort: EFFORT,
                per_turn_effort: EFFORT,
                made_by: "model",
            };
            self.write_chained(&uuid, body)?;
        }
        Ok(())
    }

    pub fn write_tool_result(&mut self, result: &WrittenToolResult<'_>) -> Result<(), FileError> {
        let source = self.calls.iter().find(|(call, _)| call == result.id);
        let source = source.map(|(_, line)| line.clone());
        if source.is_some() {
            // The parent of a result is its call, even if several calls were made at once.
            self.last_uuid.clone_from(&source);
        }
        let mut user = result.user_line();
        user.source_tool_assistant = source.as_deref();
        if self.agent.is_some() {
            user.tool_use_result = None;
        }
        self.write_user_line(user)
    }

    pub fn write_attachment(&mut self, answered: &HookAttachment<'_>) -> Result<(), FileError> {
        let uuid = self.ids.uuid();
        let agent = self.agent_id();
        let mut body = attachment_lines::AttachmentLine::new(answered);
        body.agent_id = agent.as_deref();
        body.uuid = &uuid;
        body.timestamp = timestamp_now();
        self.write_chained(&uuid, body)
    }

    /// Opens the transcript of a subagent and writes its metadata file.
    pub fn open_sidechain(&mut self, agent: SidechainAgent) -> Result<Self, FileError> {
        check_id(&agent.id, self.path())?;
        let directory = self.path().with_extension("").join("subagents");
        let path = directory.join(format!("agent-{}.jsonl", agent.id));
        let ids = self.ids.derive();
        let mut sidechain = Self::open_at(&path, &self.session, self.cwd.clone(), ids)?;
        sidechain.branch.clone_from(&self.branch);
        sidechain.prompt.clone_from(&self.prompt);
        sidechain.agent = Some(agent);
        sidechain.write_meta(None)?;
        Ok(sidechain)
    }

    /// Marks a subagent as finished and adds its usage to the session's.
    pub fn finish_sidechain(&mut self, sidechain: &Self) -> Result<(), FileError> {
        self.totals.absorb(&sidechain.totals);
        sidechain.write_meta(Some(true))
    }

    fn write_meta(&self, finished: Option<bool>) -> Result<(), FileError> {
        let Some(agent) = &self.agent else { return Ok(()) };
        let meta = SubagentMetaFile {
            agent_type: &agent.kind,
            is_built_in: true,
            launched_with_defaults: agent.background.then_some(true),
            description: &agent.description,
            tool_use_id: &agent.tool_use_id,
            spawn_depth: 1,
            request_shape: if agent.background { "background" } else { "foreground" },
            request_non_interactive: true,
            picked_effort_model: DEFAULT_MODEL,
            finished,
        };
        let path: PathBuf = self.path().with_extension("meta.json");
        fs::overwrite(&path, &to_json(&meta))
    }

    fn agent_id(&self) -> Option<String> {
        self.agent.as_ref().map(|agent| agent.id.clone())
    }

    fn write_user_line(&mut self, user: UserLine<'_>) -> Result<(), FileError> {
        let (uuid, prompt, agent) = (self.ids.uuid(), self.prompt.clone(), self.agent_id());
        let user = UserLine {
            prompt_id: prompt.as_deref(),
            agent_id: agent.as_deref(),
            uuid: &uuid,
            timestamp: timestamp_now(),
            ..user
        };
        self.write_chained(&uuid, user)
    }

    fn write_chained<B: Serialize>(&mut self, uuid: &str, body: B) -> Result<(), FileError> {
        self.write_with_logical_parent(uuid, None, body)
    }

    fn write_with_logical_parent<B: Serialize>(
        &mut self,
        uuid: &str,
        logical_parent_uuid: Option<&str>,
        body: B,
    ) -> Result<(), FileError> {
        let line = ChainedLine {
            parent_uuid: self.last_uuid.as_deref(),
            logical_parent_uuid,
            is_sidechain: self.agent.is_some(),
            body,
            tail: ChainedLineTail {
                user_type: "external",
                entrypoint: "sdk-cli",
                cwd: &self.cwd,
                session_id: &self.session,
                version: CLIENT_VERSION,
                git_branch: &self.branch,
                slug: self.slug,
            },
        };
        write_line(&mut self.lines, &line)?;
        self.last_uuid = Some(uuid.to_owned());
        Ok(())
    }
}

fn user_message(content: UserLineContent<'_>) -> UserLineMessage<'_> {
    UserLineMessage { role: UserLineType::User, content }
}

fn write_line<T: Serialize>(lines: &mut LineAppender, line: &T) -> Result<(), FileError> {
    lines.append_line(&to_json(line))
}

/// Serialization fails only for maps with non-string keys, and no type here has one.
fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn check_id(id: &str, path: &Path) -> Result<(), FileError> {
    if session_paths::is_safe_id(id) {
        Ok(())
    } else {
        Err(FileError::refused(path, "the id may contain only letters, digits and `-`"))
    }
}

fn timestamp_now() -> String {
    clock::format_rfc3339(clock::now_ms())
}
