//! Parses a scenario file and collects every error in it, not only the first.

use super::expectations::{PROMPT_ENDINGS, SIMULATED_EVENTS};
use super::terminal_keys::read_terminal_step;
use super::{
    Scenario, ScenarioClient, ScenarioExpectations, ScenarioPlayer, ScenarioSettings, ScenarioStep,
    ScriptedApiError, ScriptedSubagent, ScriptedToolCall, ScriptedTurn, ScriptedUsage, TurnRepeat,
    contradictions, file_format, serde_messages, suggestion,
};
use ralph_policy::config::ConfigProblem;
use ralph_sys::fs::{self, FileError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use toml::Spanned;

const MAX_SCENARIO_BYTES: usize = 4 * 1024 * 1024;
/// Default type of a subagent.
pub(crate) const DEFAULT_AGENT_TYPE: &str = "general-purpose";
pub(super) const DEFAULT_SUMMARY: &str = "<summary>The work so far.</summary>";

#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("the scenario is invalid")]
    Invalid(Vec<ConfigProblem>),
    #[error("`{}` is not UTF-8", .0.display())]
    NotText(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
}

pub fn read(path: &Path) -> Result<Scenario, ScenarioError> {
    parse(&read_text(path)?, path)
}

/// Reads the script of the fake client. It needs no `person` steps, because the program that drives the client sends
/// the prompts. A scenario with `only` keeps its player.
pub fn read_for_fake_client(path: &Path) -> Result<Scenario, ScenarioError> {
    parse_for_player(&read_text(path)?, path, Some(ScenarioPlayer::Pretend))
}

fn read_text(path: &Path) -> Result<String, ScenarioError> {
    let bytes = fs::read(path, MAX_SCENARIO_BYTES)?;
    String::from_utf8(bytes).map_err(|_| ScenarioError::NotText(path.to_owned()))
}

/// Parses the text of a scenario file. Other files are resolved relative to `path`.
pub fn parse(text: &str, path: &Path) -> Result<Scenario, ScenarioError> {
    parse_for_player(text, path, None)
}

/// `usual` is the player of a scenario without `only`.
fn parse_for_player(
    text: &str,
    path: &Path,
    usual: Option<ScenarioPlayer>,
) -> Result<Scenario, ScenarioError> {
    let mut reader =
        ScenarioReader { path: path.to_owned(), source: Arc::from(text), problems: Vec::new() };
    let file = match toml::from_str::<file_format::ScenarioFile>(text) {
        Ok(file) => file,
        Err(error) => {
            let (message, hint) = serde_messages::explain_serde_error(error.message());
            reader.add_problem(error.span().unwrap_or_default(), message, hint.as_deref());
            return Err(ScenarioError::Invalid(reader.problems));
        }
    };
    let scenario =
        reader.read_scenario(file_format::ScenarioFile { only: file.only.or(usual), ..file });
    if reader.problems.is_empty() {
        return Ok(scenario);
    }
    // In the order of the file, not of the checks.
    reader.problems.sort_by_key(|problem| problem.span.start);
    Err(ScenarioError::Invalid(reader.problems))
}

pub(super) struct ScenarioReader {
    path: PathBuf,
    source: Arc<str>,
    problems: Vec<ConfigProblem>,
}

impl ScenarioReader {
    pub(super) fn add_problem(&mut self, span: Range<usize>, message: String, hint: Option<&str>) {
        self.problems.push(ConfigProblem {
            path: self.path.clone(),
            source: Arc::clone(&self.source),
            span,
            message,
            hint: hint.map(str::to_owned),
        });
    }

    fn read_scenario(&mut self, file: file_format::ScenarioFile) -> Scenario {
        if file.only != Some(ScenarioPlayer::Terminal) {
            self.reject_terminal_keys(&file);
        }
        if file.only != Some(ScenarioPlayer::Pretend) {
            self.reject_fake_client_keys(&file);
        }
        self.check_driver_keys(&file);
        let steps = self.read_steps(file.step);
        let expect = self.read_expectations(file.expect, &steps);
        Scenario {
            name: file.name.unwrap_or_else(|| {
                self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
            }),
            only: file.only,
            client: self.read_client(file.client),
            runner: file.runner.map(|runner| Box::new(self.read_runner(runner.into_inner()))),
            env: file.env,
            copy: file.copy.and_then(|copy| self.resolve_copy(&copy)),
            files: self.check_file_paths(file.files),
            home: self.check_file_paths(file.home),
            setup: file.setup,
            settings: ScenarioSettings {
                user: file.settings.user,
                project: file.settings.project,
                local: file.settings.local,
            },
            hooks: file.hook.into_iter().map(|hook| self.read_hook(hook)).collect(),
            plugins: file.plugin.into_iter().map(|plugin| self.read_plugin(plugin)).collect(),
            steps,
            subagents: file
                .subagent
                .into_iter()
                .map(|agent| self.read_subagent(agent, "a subagent"))
                .collect(),
            evaluators: file
                .evaluator
                .into_iter()
                .map(|evaluator| self.read_subagent(evaluator, "an evaluator"))
                .collect(),
            summary: file.summary.unwrap_or_else(|| DEFAULT_SUMMARY.to_owned()),
            expect,
        }
    }

    fn read_client(&mut self, client: file_format::ScenarioClientToml) -> ScenarioClient {
        let session = client.session.map(|id| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            let value = id.as_ref();
            if value.is_empty() || value.len() > 64 || !value.bytes().all(is_plain) {
                let hint = "for example 5999882c-e786-462c-84d4-07d1c65b5e76";
                self.add_problem(id.span(), "invalid session id".to_owned(), Some(hint));
            }
            id.into_inner()
        });
        ScenarioClient {
            session,
            directory: client.directory.map(|name| self.check_path(name)),
            model: client.model,
            autocompact: client.autocompact,
            max_turns: client.max_turns,
        }
    }

    pub(super) fn resolve_copy(&mut self, copy: &Spanned<String>) -> Option<PathBuf> {
        let directory = self.path.parent().unwrap_or(Path::new("")).join(copy.as_ref());
        if fs::is_directory(&directory) {
            return Some(directory);
        }
        let message = format!("directory `{}` does not exist", directory.display());
        let hint = "the path is relative to the scenario file";
        self.add_problem(copy.span(), message, Some(hint));
        None
    }

    fn check_file_paths(
        &mut self,
        files: BTreeMap<Spanned<String>, String>,
    ) -> BTreeMap<String, String> {
        let named = files.into_iter().map(|(name, text)| (self.check_path(name), text));
        named.collect()
    }

    /// Checks that a path is relative and has no `.` or `..`.
    fn check_path(&mut self, name: Spanned<String>) -> String {
        let path = Path::new(name.as_ref());
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if name.as_ref().is_empty() || !is_inside {
            let hint = "use a relative path without `.` and `..`";
            let message = "the path must stay inside the scratch directory".to_owned();
            self.add_problem(name.span(), message, Some(hint));
        }
        name.into_inner()
    }

    fn read_subagent(
        &mut self,
        agent: file_format::ScriptedSubagentToml,
        what: &str,
    ) -> ScriptedSubagent {
        let turns = agent.step.into_iter().filter_map(|step| {
            let span = step.span();
            match self.read_step(step) {
                Some(ScenarioStep::Agent(turn)) => Some(turn),
                Some(
                    ScenarioStep::Person(_)
                    | ScenarioStep::Session(_)
                    | ScenarioStep::Screen(_)
                    | ScenarioStep::Shell(_),
                ) => {
                    let message = format!("this step is not allowed in {what}");
                    self.add_problem(span, message, Some("use `agent` steps"));
                    None
                }
                None => None,
            }
        });
        ScriptedSubagent { turns: turns.collect(), prompt: agent.prompt }
    }

    fn read_steps(
        &mut self,
        steps: Vec<Spanned<file_format::ScenarioStepToml>>,
    ) -> Vec<ScenarioStep> {
        steps.into_iter().filter_map(|step| self.read_step(step)).collect()
    }

    fn read_step(&mut self, step: Spanned<file_format::ScenarioStepToml>) -> Option<ScenarioStep> {
        let span = step.span();
        let step = step.into_inner();
        let is_agent = step.agent.is_some()
            || step.error.is_some()
            || step.interrupt.is_some()
            || step.crash.is_some()
            || step.hang.is_some()
            || step.rate_limit.is_some()
            || !step.tools.is_empty();
        let is_terminal = step.screen.is_some() || step.shell.is_some();
        self.reject_stray_input(&step, span.clone());
        match (step.person.is_some(), step.session, is_agent) {
            (false, None, false) if step.screen.is_some() != step.shell.is_some() => {
                self.reject_agent_keys(&step, span);
                read_terminal_step(step)
            }
            (true, None, false) if !is_terminal => {
                let times = self.prompt_repeats(&step);
                self.reject_agent_keys(&step, span);
                step.person.map(|text| ScenarioStep::Person(text.repeat(times)))
            }
            (false, Some(session), false) if !is_terminal => {
                self.reject_agent_keys(&step, span);
                Some(ScenarioStep::Session(session))
            }
            (false, None, true) if !is_terminal => Some(ScenarioStep::Agent(self.read_turn(step))),
            (is_person, session, is_agent) => {
                let is_empty = !is_person && session.is_none() && !is_agent && !is_terminal;
                let message =
                    if is_empty { "this step does nothing" } else { "this is more than one step" };
                let message = message.to_owned();
                let hint = "use one of `person`, `session`, or `agent` with its `tools`";
                self.add_problem(span, message, Some(hint));
                None
            }
        }
    }

    fn reject_agent_keys(&mut self, step: &file_format::ScenarioStepToml, span: Range<usize>) {
        let given = [
            ("usage", step.usage.is_some()),
            ("delay_ms", step.delay_ms != 0),
            ("repeat", step.repeat.is_some() && step.person.is_none()),
            ("stop_reason", step.stop_reason.is_some()),
        ];
        if let Some((key, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            let message = format!("`{key}` is only for agent steps");
            self.add_problem(span, message, None);
        }
    }

    /// How often a person's text is repeated within one prompt.
    fn prompt_repeats(&mut self, step: &file_format::ScenarioStepToml) -> usize {
        let (Some(repeat), Some(text)) = (&step.repeat, &step.person) else { return 1 };
        match repeat.as_ref() {
            file_format::TurnRepeatToml::Times(times)
                if text.len().saturating_mul(*times as usize) <= MAX_SCENARIO_BYTES =>
            {
                *times as usize
            }
            file_format::TurnRepeatToml::Times(_) | file_format::TurnRepeatToml::Forever(_) => {
                let message = format!("a prompt has at most {MAX_SCENARIO_BYTES} bytes");
                self.add_problem(repeat.span(), message, None);
                1
            }
        }
    }

    fn read_turn(&mut self, step: file_format::ScenarioStepToml) -> ScriptedTurn {
        let usual = ScriptedUsage::default();
        let usage = step.usage.map_or(usual, |usage| ScriptedUsage {
            input: usage.input.unwrap_or(usual.input),
            output: usage.output.unwrap_or(usual.output),
            cache_read: usage.cache_read.unwrap_or_default(),
            cache_creation: usage.cache_creation.unwrap_or_default(),
        });
        let mishap = self.read_mishap(step.crash.as_ref(), step.hang.as_ref());
        ScriptedTurn {
            mishap,
            rate_limit: step
                .rate_limit
                .map(|limit| Box::new(self.read_rate_limit(limit.into_inner()))),
            text: step.agent.unwrap_or_default(),
            tools: step.tools.into_iter().filter_map(|tool| self.read_tool_call(tool)).collect(),
            usage,
            error: step.error.map(|error| ScriptedApiError {
                status: error.status.into_inner(),
                kind: error.r#type,
                message: error.message,
            }),
            delay_ms: step.delay_ms,
            repeat: step.repeat.map_or_else(TurnRepeat::default, |repeat| self.read_repeat(repeat)),
            stop_reason: step.stop_reason,
            interrupt: step.interrupt.unwrap_or_default(),
        }
    }

    fn read_repeat(&mut self, repeat: Spanned<file_format::TurnRepeatToml>) -> TurnRepeat {
        let span = repeat.span();
        match repeat.into_inner() {
            file_format::TurnRepeatToml::Times(0) => {
                let message = "`repeat` must be at least 1".to_owned();
                self.add_problem(span, message, None);
                TurnRepeat::default()
            }
            file_format::TurnRepeatToml::Times(times) => TurnRepeat::Times(times),
            file_format::TurnRepeatToml::Forever(file_format::ForeverToml::Forever) => {
                TurnRepeat::Forever
            }
        }
    }

    fn read_tool_call(
        &mut self,
        tool: Spanned<file_format::ScriptedToolCallToml>,
    ) -> Option<ScriptedToolCall> {
        let span = tool.span();
        let tool = tool.into_inner();
        let named = [&tool.run, &tool.write, &tool.edit, &tool.read, &tool.agent, &tool.tool];
        // A call that names no tool or several is reported below.
        if named.into_iter().flatten().count() == 1 {
            self.reject_keys_of_other_tools(&tool, span.clone());
        }
        let file_format::ScriptedToolCallToml {
            run,
            write,
            text,
            edit,
            old,
            new,
            read,
            agent,
            r#type,
            ..
        } = tool;
        let background = tool.background;
        match (run, write, edit, read, agent, tool.tool) {
            (Some(command), None, None, None, None, None) => {
                Some(ScriptedToolCall::Bash { command, background: background.unwrap_or_default() })
            }
            (None, Some(path), None, None, None, None) => {
                Some(ScriptedToolCall::Write { path, text: text.unwrap_or_default() })
            }
            (None, None, Some(path), None, None, None) => Some(ScriptedToolCall::Edit {
                path,
                old: old.unwrap_or_default(),
                new: new.unwrap_or_default(),
            }),
            (None, None, None, Some(path), None, None) => Some(ScriptedToolCall::Read { path }),
            (None, None, None, None, Some(prompt), None) => Some(ScriptedToolCall::Agent {
                prompt,
                kind: r#type.unwrap_or_else(|| DEFAULT_AGENT_TYPE.to_owned()),
                background: background.unwrap_or(true),
            }),
            (None, None, None, None, None, Some(name)) => {
                let input = tool.input.unwrap_or_else(|| serde_json::json!({}));
                Some(ScriptedToolCall::Other { name, input })
            }
            named => {
                let is_none = matches!(named, (None, None, None, None, None, None));
                let message =
                    if is_none { "this calls no tool" } else { "this is more than one tool call" };
                let hint = "use one of `run`, `write`, `edit`, `read`, `agent` and `tool`";
                self.add_problem(span, message.to_owned(), Some(hint));
                None
            }
        }
    }

    fn reject_keys_of_other_tools(
        &mut self,
        tool: &file_format::ScriptedToolCallToml,
        span: Range<usize>,
    ) {
        let (run, agent) = (tool.run.is_some(), tool.agent.is_some());
        let given = [
            ("text", tool.text.is_some() && tool.write.is_none(), "`write`"),
            ("old", tool.old.is_some() && tool.edit.is_none(), "`edit`"),
            ("new", tool.new.is_some() && tool.edit.is_none(), "`edit`"),
            ("type", tool.r#type.is_some() && !agent, "`agent`"),
            ("background", tool.background.is_some() && !run && !agent, "`run` and `agent`"),
            ("input", tool.input.is_some() && tool.tool.is_none(), "`tool`"),
        ];
        if let Some((key, _, owner)) = given.into_iter().find(|(_, is_stray, _)| *is_stray) {
            self.add_problem(span, format!("`{key}` is only for {owner}"), None);
        }
    }

    pub(super) fn require_one_of(&mut self, value: &Spanned<String>, known: &[&str], what: &str) {
        if !known.contains(&value.as_ref().as_str()) {
            let hint = match suggestion::closest_word(value.as_ref(), known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("expected one of {}", known.join(", ")),
            };
            let message = format!("unknown {what} `{}`", value.as_ref());
            self.add_problem(value.span(), message, Some(&hint));
        }
    }

    fn read_expectations(
        &mut self,
        expect: file_format::ScenarioExpectationsToml,
        steps: &[ScenarioStep],
    ) -> ScenarioExpectations {
        for (span, message) in contradictions::find_contradictions(&expect, steps) {
            self.add_problem(span, message, None);
        }
        let words = |words: Vec<Spanned<String>>| words.into_iter().map(Spanned::into_inner);
        for ending in expect.endings.iter().flatten() {
            self.require_one_of(ending, &PROMPT_ENDINGS, "ending");
        }
        for event in expect.events.iter().flatten() {
            self.require_one_of(event, &SIMULATED_EVENTS, "event");
        }
        ScenarioExpectations {
            endings: expect.endings.map(|endings| words(endings).collect()),
            results: expect.results.map(Spanned::into_inner),
            stops: expect.stops.map(Spanned::into_inner),
            blocks: expect.blocks.map(Spanned::into_inner),
            requests: expect.requests.map(Spanned::into_inner),
            reasons: expect.reasons.map(Spanned::into_inner),
            events: expect.events.map(|events| words(events).collect()),
            exit: expect.exit,
            files: self.check_file_paths(expect.files),
            says: expect.says,
            absent: expect.absent.into_iter().map(|name| self.check_path(name)).collect(),
            screen: expect.screen.map(Spanned::into_inner).unwrap_or_default(),
            status: expect.status.map(Spanned::into_inner),
            iterations: expect.iterations.map(Spanned::into_inner),
            sessions: expect.sessions.map(Spanned::into_inner),
            output: expect.output.map(Spanned::into_inner).unwrap_or_default(),
            told: expect.told.into_iter().map(|(name, count)| (name.into_inner(), count)).collect(),
        }
    }
}
