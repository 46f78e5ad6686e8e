//! The state of the simulated client's process, which all its conversations share.

use super::background::Background;
use super::hooks::{Asynchronous, Telling, tell, variables};
use super::input::Input;
use super::told::Told;
use super::tools::{Done, Tasks};
use crate::answer::{self, Context, Delivery};
use crate::id;
use crate::scenario::Scenario;
use crate::script::Script;
use crate::settings::{self, Layer, Loaded, Source};
use crate::stage::Stage;
use crate::timeline::{Effect, Entry, Lane, Watcher};
use crate::transcript;
use ralph_sys::fs::{self, FileError};
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::job::Remains;
use ralph_sys::proc::stand_in::StandIn;
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LARGEST_SETTINGS: usize = 4 * 1024 * 1024;
const MODE: &str = "bypassPermissions";
const EFFORT: &str = "medium";

/// Which of the shared input fields an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    /// `permission_mode` and `effort`
    Turn,
    /// `permission_mode`
    Mode,
    /// `effort`
    Effort,
    Neither,
}

/// A subagent as named in the input of hooks.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) id: String,
    pub(super) kind: String,
}

pub(super) struct Host<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) stage: &'a Stage,
    /// The `ralph` binary, which supervises hooks and tools.
    pub(super) program: &'a Path,
    /// `PATH` of hooks and tools.
    pub(super) search_path: OsString,
    pub(super) cancel: Arc<Cancel>,
    pub(super) watcher: &'a mut Watcher<'a>,
    pub(super) script: Script,
    /// The pid that hooks see as the client's. It belongs to the stand-in process in `client`.
    pub(super) pid: u32,
    pub(super) client: Option<StandIn>,
    /// Whether a hook or a tool killed its parent, which is the client.
    pub(super) was_killed: bool,
    pub(super) session: String,
    pub(super) transcript_path: PathBuf,
    /// The id of the current prompt.
    pub(super) prompt: Option<String>,
    /// Follows the agent's `cd`.
    pub(super) cwd: PathBuf,
    /// Number of requests to the model.
    pub(super) requests: u64,
    pub(super) background: Vec<Background>,
    pub(super) asynchronous: Vec<Asynchronous>,
    pub(super) tasks: Tasks,
    /// Processes that hooks and tools left running.
    remains: Vec<Remains>,
    /// The first write error. It ends the simulation after the current step.
    pub(super) trouble: Option<FileError>,
    /// Notices that were already shown.
    complaints: Vec<String>,
}

impl<'a> Host<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        stage: &'a Stage,
        options: &super::Options<'a>,
        watcher: &'a mut Watcher<'a>,
    ) -> Self {
        Self {
            scenario,
            stage,
            program: options.program,
            search_path: options.search_path.clone(),
            cancel: Arc::clone(&options.cancel),
            watcher,
            script: Script::new(scenario),
            pid: 0,
            client: None,
            was_killed: false,
            session: String::new(),
            transcript_path: PathBuf::new(),
            prompt: None,
            cwd: stage.project.clone(),
            requests: 0,
            background: Vec::new(),
            asynchronous: Vec::new(),
            tasks: Tasks::default(),
            remains: Vec::new(),
            trouble: None,
            complaints: Vec::new(),
        }
    }

    pub(super) fn emit(&mut self, entry: &Entry) {
        (self.watcher)(entry);
    }

    pub(super) fn notice(&mut self, text: String) {
        self.emit(&Entry::Notice { text });
    }

    pub(super) fn wrote(&mut self, wrote: Result<(), FileError>) {
        if let Err(error) = wrote {
            self.trouble.get_or_insert(error);
        }
    }

    /// Records a write error and returns it as the result of a tool.
    pub(super) fn cannot_write(&mut self, error: FileError) -> Done {
        let text = error.to_string();
        self.wrote(Err(error));
        Done::Failed { text }
    }

    /// Whether the simulation should stop: cancelled, killed, or out of order.
    pub(super) fn is_over(&self) -> bool {
        self.trouble.is_some() || self.cancel.is_wished() || self.is_killed()
    }

    pub(super) fn is_killed(&self) -> bool {
        self.was_killed || self.client.as_ref().is_some_and(StandIn::is_gone)
    }

    pub(super) fn model(&self) -> String {
        let named = self.scenario.client.model.as_deref();
        named.unwrap_or(transcript::MODEL).to_owned()
    }

    /// Loads the settings. They are read again for every event, because the client notices changes.
    pub(super) fn settings(&mut self) -> Loaded {
        let claude = |directory: &Path| directory.join(".claude");
        let text = |path: PathBuf| -> Option<String> {
            let bytes = fs::read_opt(&path, LARGEST_SETTINGS).ok()??;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let stage = self.stage;
        let mut texts = Vec::new();
        let files = [
            (Source::User, Some(claude(&stage.home).join("settings.json"))),
            (Source::Project, Some(claude(&stage.project).join("settings.json"))),
            (Source::Local, Some(claude(&stage.project).join("settings.local.json"))),
            (Source::Flag, stage.flag.clone()),
        ];
        texts.extend(files.into_iter().filter_map(|(source, path)| Some((source, text(path?)?))));
        for root in &stage.plugins {
            let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let source = Source::Plugin {
                name,
                marketplace: "inline".to_owned(),
                root: root.to_string_lossy().into_owned(),
            };
            texts.extend(text(root.join("hooks/hooks.json")).map(|text| (source, text)));
        }
        let layers = texts.iter().map(|(source, text)| Layer { source: source.clone(), text });
        let loaded = settings::load(&layers.collect::<Vec<_>>());
        for complaint in &loaded.notices {
            self.complain(format!("settings, {complaint}"));
        }
        loaded
    }

    /// Shows a notice, but each text only once.
    pub(super) fn complain(&mut self, complaint: String) {
        if !self.complaints.contains(&complaint) {
            self.complaints.push(complaint.clone());
            self.notice(complaint);
        }
    }

    /// The `background_tasks` field of `Stop`.
    pub(super) fn background_tasks(&self) -> Vec<serde_json::Value> {
        self.background.iter().map(Background::listed).collect()
    }

    /// An environment variable of the client. Settings override the variables that it was started with.
    pub(super) fn variable(&mut self, name: &str) -> Option<String> {
        let settings = self.settings();
        settings.env.get(name).or_else(|| self.scenario.env.get(name)).cloned()
    }

    /// The environment of a hook or a tool.
    pub(super) fn environment(&self, settings: &Loaded) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = vec![("PATH".into(), self.search_path.clone())];
        for (name, value) in self.scenario.env.iter().chain(&settings.env) {
            env.push((name.into(), value.into()));
        }
        // The last value of a variable wins: hooks and tools never see the user's own home.
        env.push(("HOME".into(), self.stage.home.clone().into()));
        env.extend(variables(&self.stage.project, &self.session, self.pid));
        env
    }

    /// The environment of a hook. A `SessionStart` hook may write variables for the agent's commands to a file.
    pub(super) fn hook_environment(
        &self,
        settings: &Loaded,
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
    pub(super) fn input(&self, event: &str, shared: Shared, agent: Option<&Agent>) -> Input {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let has_mode = matches!(shared, Shared::Turn | Shared::Mode);
        let has_effort = matches!(shared, Shared::Turn | Shared::Effort);
        Input::default()
            .with("session_id", self.session.clone())
            .with("transcript_path", path(&self.transcript_path))
            .with("cwd", path(&self.cwd))
            .with_some("prompt_id", self.prompt.clone())
            .with_some("permission_mode", has_mode.then_some(MODE))
            .with_some("agent_id", agent.map(|agent| agent.id.clone()))
            .with_some("agent_type", agent.map(|agent| agent.kind.clone()))
            .with_some("effort", has_effort.then(|| json!({"level": EFFORT})))
            .with("hook_event_name", event)
    }

    /// Fires an event whose hooks can only add context, and emits it.
    pub(super) fn inform(&mut self, telling: Telling) -> Told {
        let told = tell(self, telling);
        let effect = match told.contexts() {
            contexts if contexts.is_empty() => Effect::Allowed,
            contexts => Effect::Continued { context: contexts },
        };
        self.show(&told, effect);
        told
    }

    pub(super) fn show(&mut self, told: &Told, effect: Effect) {
        // With all hooks disabled, the event does not appear in the timeline.
        if !told.is_heard {
            return;
        }
        self.emit(&Entry::Hook(told.entry(effect)));
        for text in told.messages() {
            self.notice(text);
        }
    }

    /// The context that a hook adds, as the model reads it. A long text is written to a file.
    pub(super) fn deliver(&mut self, event: &str, context: &Context) -> String {
        let (text, name) = match context {
            Context::Additional(text) => {
                (text, format!("hook-{}-{event}-additionalContext.txt", id::uuid()))
            }
            Context::Stdout(text) => (text, format!("hook-{}-stdout.txt", id::uuid())),
        };
        let delivery = answer::deliver(text);
        let directory = self.transcript_path.with_extension("").join("tool-results");
        let path = directory.join(name);
        if let Delivery::Spilled { .. } = &delivery {
            let put = fs::create_dir(&directory)
                .and_then(|()| fs::put(&path, text.as_bytes(), fs::Mode::Ordinary));
            if let Err(error) = put {
                self.complain(error.to_string());
            }
        }
        delivery.wording(&path.to_string_lossy())
    }

    pub(super) fn keep(&mut self, remains: Option<Remains>) {
        self.remains.retain(|remains| !remains.is_over());
        self.remains.extend(remains);
    }

    /// Ends all processes that the client started, as when it exits.
    pub(super) fn end_all(&mut self) {
        for asynchronous in self.asynchronous.drain(..) {
            asynchronous.end();
        }
        for background in self.background.drain(..) {
            background.end();
        }
        self.remains.clear();
    }
}

/// The timeline lane of a conversation.
pub(super) fn lane(agent: Option<&Agent>) -> Lane {
    agent.map(|agent| agent.kind.clone())
}
