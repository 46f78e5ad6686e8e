//! The state of the simulated client's process, which all its conversations share.

use super::background_work::SimulatedBackgroundTask;
use super::hook_dispatch::{AsyncHook, fire_event};
use super::tool_calls::SimulatedTaskList;
use crate::client_ids;
use crate::client_rules::client_variables;
use crate::client_rules::event_outcome::{DispatchedEvent, EventOutcome};
use crate::client_rules::hook_input::{
    HookInput, HookInputContext, SharedInputFields, SubagentIdentity,
};
use crate::client_rules::tool_invocation::ToolOutcome;
use crate::hook_answer::{self, AddedContext, TextDelivery};
use crate::hook_settings::{LoadedHookSettings, load_settings_files};
use crate::scenario::Scenario;
use crate::scratch::ScratchProject;
use crate::script::ModelScript;
use crate::timeline::{AgentLane, HookEffect, TimelineEntry, TimelineWatcher};
use crate::transcript;
use ralph_sys::fs::{self, FileError};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::decoy::DecoyProcess;
use ralph_sys::proc::job::SparedProcesses;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct SimulatedClient<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) stage: &'a ScratchProject,
    /// The `ralph` binary, which supervises hooks and tools.
    pub(super) program: &'a Path,
    /// `PATH` of hooks and tools.
    pub(super) search_path: OsString,
    pub(super) cancel: Arc<CancelToken>,
    pub(super) watcher: &'a mut TimelineWatcher<'a>,
    pub(super) script: ModelScript,
    /// The pid that hooks see as the client's. It belongs to the stand-in process in `client`.
    pub(super) pid: u32,
    pub(super) client: Option<DecoyProcess>,
    /// Whether a hook or a tool killed its parent, which is the client.
    pub(super) was_killed: bool,
    pub(super) session: String,
    pub(super) transcript_path: PathBuf,
    /// The id of the current prompt.
    pub(super) prompt_id: Option<String>,
    /// Follows the agent's `cd`.
    pub(super) cwd: PathBuf,
    /// Number of requests to the model.
    pub(super) requests: u64,
    pub(super) background: Vec<SimulatedBackgroundTask>,
    pub(super) async_hooks: Vec<AsyncHook>,
    pub(super) tasks: SimulatedTaskList,
    /// Processes that hooks and tools left running.
    remains: Vec<SparedProcesses>,
    /// The first write error. It ends the simulation after the current step.
    pub(super) write_error: Option<FileError>,
    /// Notices that were already shown.
    shown_notices: Vec<String>,
    /// Prompts of hooks that a block has quoted, each with the session.
    pub(super) quoted_prompts: Vec<(String, String)>,
}

impl<'a> SimulatedClient<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        stage: &'a ScratchProject,
        options: &super::SimulatorOptions<'a>,
        watcher: &'a mut TimelineWatcher<'a>,
    ) -> Self {
        Self {
            scenario,
            stage,
            program: options.program,
            search_path: options.search_path.clone(),
            cancel: Arc::clone(&options.cancel),
            watcher,
            script: ModelScript::new(scenario),
            pid: 0,
            client: None,
            was_killed: false,
            session: String::new(),
            transcript_path: PathBuf::new(),
            prompt_id: None,
            cwd: stage.project.clone(),
            requests: 0,
            background: Vec::new(),
            async_hooks: Vec::new(),
            tasks: SimulatedTaskList::default(),
            remains: Vec::new(),
            write_error: None,
            shown_notices: Vec::new(),
            quoted_prompts: Vec::new(),
        }
    }

    pub(super) fn emit(&mut self, entry: &TimelineEntry) {
        (self.watcher)(entry);
    }

    pub(super) fn notice(&mut self, text: String) {
        self.emit(&TimelineEntry::Notice { text });
    }

    pub(super) fn note_write(&mut self, wrote: Result<(), FileError>) {
        if let Err(error) = wrote {
            self.write_error.get_or_insert(error);
        }
    }

    /// Records a write error and returns it as the result of a tool.
    pub(super) fn fail_write(&mut self, error: FileError) -> ToolOutcome {
        let text = error.to_string();
        self.note_write(Err(error));
        ToolOutcome::Failed { text }
    }

    /// Whether the simulation should stop: cancelled, killed, or out of order.
    pub(super) fn should_stop(&self) -> bool {
        self.write_error.is_some() || self.cancel.is_cancelled() || self.is_killed()
    }

    pub(super) fn is_killed(&self) -> bool {
        self.was_killed || self.client.as_ref().is_some_and(DecoyProcess::was_killed)
    }

    pub(super) fn model(&self) -> String {
        let named = self.scenario.client.model.as_deref();
        named.unwrap_or(transcript::DEFAULT_MODEL).to_owned()
    }

    /// Loads the settings. They are read again for every event, because the client notices changes.
    pub(super) fn load_settings(&mut self) -> LoadedHookSettings {
        let loaded = load_settings_files(&self.stage.settings_places());
        for complaint in &loaded.notices {
            self.notice_once(format!("settings, {complaint}"));
        }
        loaded
    }

    /// Shows a notice, but each text only once.
    pub(super) fn notice_once(&mut self, complaint: String) {
        if !self.shown_notices.contains(&complaint) {
            self.shown_notices.push(complaint.clone());
            self.notice(complaint);
        }
    }

    /// The `background_tasks` field of `Stop`.
    pub(super) fn background_tasks(&self) -> Vec<serde_json::Value> {
        self.background.iter().map(SimulatedBackgroundTask::to_json).collect()
    }

    /// An environment variable of the client. Settings override the variables that it was started with.
    pub(super) fn variable(&mut self, name: &str) -> Option<String> {
        let settings = self.load_settings();
        settings.env.get(name).or_else(|| self.scenario.env.get(name)).cloned()
    }

    /// The environment of a hook or a tool.
    pub(super) fn environment(&self, settings: &LoadedHookSettings) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = vec![("PATH".into(), self.search_path.clone())];
        for (name, value) in self.scenario.env.iter().chain(&settings.env) {
            env.push((name.into(), value.into()));
        }
        // The last value of a variable wins: hooks and tools never see the user's own home.
        env.push(("HOME".into(), self.stage.home.clone().into()));
        env.extend(client_variables(&self.stage.project, &self.session, Some(self.pid)));
        env
    }

    /// The environment of a hook. A `SessionStart` hook may write variables for the agent's commands to a file.
    pub(super) fn hook_environment(
        &self,
        settings: &LoadedHookSettings,
        event: &str,
    ) -> Vec<(OsString, OsString)> {
        let mut env = self.environment(settings);
        if event == "SessionStart" {
            env.push(("CLAUDE_ENV_FILE".into(), self.env_file().into()));
        }
        env
    }

    /// The file of variables that the shell reads before every command of the agent.
    pub(super) fn env_file(&self) -> PathBuf {
        self.stage.root.join(format!("env-{}.sh", self.session))
    }

    /// The first fields of a hook's input, common to all events.
    pub(super) fn hook_input(
        &self,
        event: &str,
        shared: SharedInputFields,
        agent: Option<&SubagentIdentity>,
    ) -> HookInput {
        let context = HookInputContext {
            session: &self.session,
            transcript: &self.transcript_path,
            cwd: &self.cwd,
            prompt_id: self.prompt_id.as_deref(),
            permission_mode: transcript::BYPASS_MODE,
            agent,
        };
        context.input(event, shared)
    }

    /// Fires an event whose hooks can only add context, and emits it.
    pub(super) fn fire_context_event(&mut self, telling: DispatchedEvent) -> EventOutcome {
        let outcome = fire_event(self, telling);
        self.emit_hook(&outcome, outcome.context_effect());
        outcome
    }

    pub(super) fn emit_hook(&mut self, outcome: &EventOutcome, effect: HookEffect) {
        // With all hooks disabled, the event does not appear in the timeline.
        if !outcome.hooks_enabled {
            return;
        }
        self.emit(&TimelineEntry::Hook(outcome.timeline_hook(effect)));
        for text in outcome.system_messages() {
            self.notice(text);
        }
    }

    /// The context that a hook adds, as the model reads it. A long text is written to a file.
    pub(super) fn deliver_context(&mut self, event: &str, context: &AddedContext) -> String {
        let (text, name) = match context {
            AddedContext::Additional(text) => {
                (text, format!("hook-{}-{event}-additionalContext.txt", client_ids::new_uuid()))
            }
            AddedContext::Stdout(text) => {
                (text, format!("hook-{}-stdout.txt", client_ids::new_uuid()))
            }
        };
        let delivery = hook_answer::deliver(text);
        let directory = self.transcript_path.with_extension("").join("tool-results");
        let path = directory.join(name);
        if let TextDelivery::Spilled { .. } = &delivery {
            let put = fs::create_private_dir(&directory).and_then(|()| {
                fs::replace_with_mode(&path, text.as_bytes(), fs::SharedFileMode::Ordinary)
            });
            if let Err(error) = put {
                self.notice_once(error.to_string());
            }
        }
        delivery.delivered_text(&path.to_string_lossy())
    }

    pub(super) fn keep_leftovers(&mut self, remains: Option<SparedProcesses>) {
        self.remains.retain(|remains| !remains.have_exited());
        self.remains.extend(remains);
    }

    /// Ends all processes that the client started, as when it exits.
    pub(super) fn end_children(&mut self) {
        for asynchronous in self.async_hooks.drain(..) {
            asynchronous.kill();
        }
        for background in self.background.drain(..) {
            background.end();
        }
        self.remains.clear();
    }
}

/// The timeline lane of a conversation.
pub(super) fn agent_lane(agent: Option<&SubagentIdentity>) -> AgentLane {
    agent.map(|agent| agent.lane().to_owned())
}
