//! Parses a scenario file and collects every error in it, not only the first.

use super::expect::{ENDINGS, EVENTS};
use super::{
    AgentTurn, ApiError, Client, Expect, Hook, Interrupt, Layer, Player, Plugin, Repeat, Run,
    Scenario, SessionStep, Settings, Step, Subagent, ToolCall, Usage, near, possible, raw, wording,
};
use ralph_policy::config::Problem;
use ralph_sys::fs::{self, FileError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use toml::Spanned;

const LARGEST: usize = 4 * 1024 * 1024;
/// Default type of a subagent.
pub(super) const USUAL_AGENT: &str = "general-purpose";
pub(super) const SUMMARY: &str = "<summary>The work so far.</summary>";

#[derive(Debug, thiserror::Error)]
pub enum Mistakes {
    #[error("the scenario is invalid")]
    Found(Vec<Problem>),
    #[error("`{}` is not UTF-8", .0.display())]
    NotText(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
}

pub fn read(path: &Path) -> Result<Scenario, Mistakes> {
    let bytes = fs::read(path, LARGEST)?;
    let text = String::from_utf8(bytes).map_err(|_| Mistakes::NotText(path.to_owned()))?;
    parse(&text, path)
}

/// Reads the script of the fake client. It needs no `person` steps, because the program that drives the client sends the
/// prompts. A scenario with `only` keeps its player.
pub fn read_to_pretend(path: &Path) -> Result<Scenario, Mistakes> {
    let bytes = fs::read(path, LARGEST)?;
    let text = String::from_utf8(bytes).map_err(|_| Mistakes::NotText(path.to_owned()))?;
    parse_for(&text, path, Some(raw::Player::Pretend))
}

/// Parses the text of a scenario file. Other files are resolved relative to `path`.
pub fn parse(text: &str, path: &Path) -> Result<Scenario, Mistakes> {
    parse_for(text, path, None)
}

/// `usual` is the player of a scenario without `only`.
fn parse_for(text: &str, path: &Path, usual: Option<raw::Player>) -> Result<Scenario, Mistakes> {
    let mut reader =
        Reader { path: path.to_owned(), source: Arc::from(text), problems: Vec::new() };
    let file = match toml::from_str::<raw::File>(text) {
        Ok(file) => file,
        Err(error) => {
            let (message, hint) = wording::explain(error.message());
            reader.problem(error.span().unwrap_or_default(), message, hint.as_deref());
            return Err(Mistakes::Found(reader.problems));
        }
    };
    let scenario = reader.scenario(raw::File { only: file.only.or(usual), ..file });
    if reader.problems.is_empty() {
        return Ok(scenario);
    }
    // In the order of the file, not of the checks.
    reader.problems.sort_by_key(|problem| problem.span.start);
    Err(Mistakes::Found(reader.problems))
}

pub(super) struct Reader {
    path: PathBuf,
    source: Arc<str>,
    problems: Vec<Problem>,
}

impl Reader {
    pub(super) fn problem(&mut self, span: Range<usize>, message: String, hint: Option<&str>) {
        self.problems.push(Problem {
            path: self.path.clone(),
            source: Arc::clone(&self.source),
            span,
            message,
            hint: hint.map(str::to_owned),
        });
    }

    fn scenario(&mut self, file: raw::File) -> Scenario {
        if file.only != Some(raw::Player::Terminal) {
            self.nothing_of_a_terminal(&file);
        }
        if file.only != Some(raw::Player::Pretend) {
            self.nothing_of_a_pretended_client(&file);
        }
        self.nothing_of_another_driver(&file);
        let steps = self.steps(file.step);
        let expect = self.expect(file.expect, &steps);
        Scenario {
            name: file.name.unwrap_or_else(|| stem(&self.path)),
            only: file.only.map(|only| match only {
                raw::Player::Simulator => Player::Simulator,
                raw::Player::Client => Player::Client,
                raw::Player::Terminal => Player::Terminal,
                raw::Player::Pretend => Player::Pretend,
            }),
            client: self.client(file.client),
            runner: file.runner.map(|runner| Box::new(self.runner(runner.into_inner()))),
            env: file.env,
            copy: file.copy.and_then(|copy| self.copy(&copy)),
            files: self.files(file.files),
            home: self.files(file.home),
            setup: file.setup,
            settings: Settings {
                user: file.settings.user,
                project: file.settings.project,
                local: file.settings.local,
            },
            hooks: file.hook.into_iter().map(|hook| self.hook(hook)).collect(),
            plugins: file.plugin.into_iter().map(|plugin| self.plugin(plugin)).collect(),
            steps,
            subagents: file.subagent.into_iter().map(|agent| self.subagent(agent)).collect(),
            summary: file.summary.unwrap_or_else(|| SUMMARY.to_owned()),
            expect,
        }
    }

    fn nothing_of_a_terminal(&mut self, file: &raw::File) {
        let waits = file.step.iter().filter(|step| step.as_ref().screen.is_some());
        let waits = waits.map(Spanned::span);
        for span in waits.chain(file.expect.screen.as_ref().map(Spanned::span)) {
            let message = "`screen` needs a terminal".to_owned();
            self.problem(span, message, Some("set `only = \"terminal\"`"));
        }
    }

    fn client(&mut self, client: raw::Client) -> Client {
        let session = client.session.map(|id| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            let value = id.as_ref();
            if value.is_empty() || value.len() > 64 || !value.bytes().all(is_plain) {
                let hint = "for example 5999882c-e786-462c-84d4-07d1c65b5e76";
                self.problem(id.span(), "invalid session id".to_owned(), Some(hint));
            }
            id.into_inner()
        });
        Client {
            session,
            directory: client.directory.map(|name| self.name(name)),
            model: client.model,
            autocompact: client.autocompact,
            max_turns: client.max_turns,
        }
    }

    fn copy(&mut self, copy: &Spanned<String>) -> Option<PathBuf> {
        let directory = self.path.parent().unwrap_or(Path::new("")).join(copy.as_ref());
        if fs::is_directory(&directory) {
            return Some(directory);
        }
        let message = format!("directory `{}` does not exist", directory.display());
        let hint = "the path is relative to the scenario file";
        self.problem(copy.span(), message, Some(hint));
        None
    }

    fn files(&mut self, files: BTreeMap<Spanned<String>, String>) -> BTreeMap<String, String> {
        let named = files.into_iter().map(|(name, text)| (self.name(name), text));
        named.collect()
    }

    /// Checks that a path is relative and has no `.` or `..`.
    fn name(&mut self, name: Spanned<String>) -> String {
        let path = Path::new(name.as_ref());
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if name.as_ref().is_empty() || !is_inside {
            let hint = "use a relative path without `.` and `..`";
            let message = "the path must stay inside the scratch directory".to_owned();
            self.problem(name.span(), message, Some(hint));
        }
        name.into_inner()
    }

    fn hook(&mut self, hook: raw::Hook) -> Hook {
        self.one_of(&hook.event, &EVENTS, "event");
        let span = hook.event.span();
        let run = match (hook.command, hook.script, hook.args) {
            (Some(command), None, None) => Run::Command(command),
            (Some(command), None, Some(args)) => Run::Program { command, args },
            (None, Some(script), None) => Run::Script(script),
            (command, script, _) => {
                let message = match (command, script) {
                    (None, None) => "this hook has no command",
                    (None, Some(_)) => "`args` needs `command`",
                    (Some(_), _) => "this hook has both `command` and `script`",
                };
                let hint = "use `command`, with or without `args`, or `script`";
                self.problem(span, message.to_owned(), Some(hint));
                Run::default()
            }
        };
        Hook {
            event: hook.event.into_inner(),
            matcher: hook.matcher,
            run,
            timeout: hook.timeout,
            is_async: hook.r#async,
            layer: match hook.r#in {
                raw::Layer::User => Layer::User,
                raw::Layer::Project => Layer::Project,
                raw::Layer::Local => Layer::Local,
                raw::Layer::Flag => Layer::Flag,
            },
        }
    }

    fn plugin(&mut self, plugin: raw::Plugin) -> Plugin {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if plugin.name.as_ref().is_empty() || !plugin.name.as_ref().bytes().all(is_plain) {
            let hint = "use letters, digits and `-`";
            let message = "invalid plugin name".to_owned();
            self.problem(plugin.name.span(), message, Some(hint));
        }
        let copy = plugin.copy.and_then(|copy| {
            if !plugin.hook.is_empty() {
                let message = "this plugin has both `copy` and hooks".to_owned();
                self.problem(copy.span(), message, Some("use either `copy` or `[[plugin.hook]]`"));
            }
            self.copy(&copy)
        });
        let hooks = plugin.hook.into_iter().map(|hook| self.hook(hook)).collect();
        Plugin { name: plugin.name.into_inner(), copy, hooks }
    }

    fn subagent(&mut self, agent: raw::Subagent) -> Subagent {
        let turns = agent.step.into_iter().filter_map(|step| {
            let span = step.span();
            match self.step(step) {
                Some(Step::Agent(turn)) => Some(turn),
                Some(Step::Person(_) | Step::Session(_) | Step::Screen(_)) => {
                    let message = "this step is not allowed in a subagent".to_owned();
                    self.problem(span, message, Some("use `agent` steps"));
                    None
                }
                None => None,
            }
        });
        Subagent { turns: turns.collect(), prompt: agent.prompt }
    }

    fn steps(&mut self, steps: Vec<Spanned<raw::Step>>) -> Vec<Step> {
        steps.into_iter().filter_map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: Spanned<raw::Step>) -> Option<Step> {
        let span = step.span();
        let step = step.into_inner();
        let is_agent = step.agent.is_some()
            || step.error.is_some()
            || step.interrupt.is_some()
            || step.crash.is_some()
            || step.hang.is_some()
            || step.rate_limit.is_some()
            || !step.tools.is_empty();
        match (step.person.is_some(), step.session, is_agent) {
            (false, None, false) if step.screen.is_some() => {
                self.nothing_of_an_agent(&step, span);
                step.screen.map(Step::Screen)
            }
            (true, None, false) if step.screen.is_none() => {
                let times = self.times(&step);
                self.nothing_of_an_agent(&step, span);
                step.person.map(|text| Step::Person(text.repeat(times)))
            }
            (false, Some(session), false) if step.screen.is_none() => {
                self.nothing_of_an_agent(&step, span);
                Some(Step::Session(match session {
                    raw::SessionStep::Resume => SessionStep::Resume,
                    raw::SessionStep::Fork => SessionStep::Fork,
                    raw::SessionStep::New => SessionStep::New,
                }))
            }
            (false, None, true) if step.screen.is_none() => Some(Step::Agent(self.turn(step))),
            (is_person, session, is_agent) => {
                let is_empty = !is_person && session.is_none() && !is_agent;
                let message =
                    if is_empty { "this step does nothing" } else { "this is more than one step" };
                let message = message.to_owned();
                let hint = "use one of `person`, `session`, or `agent` with its `tools`";
                self.problem(span, message, Some(hint));
                None
            }
        }
    }

    fn nothing_of_an_agent(&mut self, step: &raw::Step, span: Range<usize>) {
        let given = [
            ("usage", step.usage.is_some()),
            ("delay_ms", step.delay_ms != 0),
            ("repeat", step.repeat.is_some() && step.person.is_none()),
            ("stop_reason", step.stop_reason.is_some()),
        ];
        if let Some((key, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            let message = format!("`{key}` is only for agent steps");
            self.problem(span, message, None);
        }
    }

    /// How often a person's text is repeated within one prompt.
    fn times(&mut self, step: &raw::Step) -> usize {
        let (Some(repeat), Some(text)) = (&step.repeat, &step.person) else { return 1 };
        match repeat.as_ref() {
            raw::Repeat::Times(times) if text.len().saturating_mul(*times as usize) <= LARGEST => {
                *times as usize
            }
            raw::Repeat::Times(_) | raw::Repeat::Forever(_) => {
                let message = format!("a prompt has at most {LARGEST} bytes");
                self.problem(repeat.span(), message, None);
                1
            }
        }
    }

    fn turn(&mut self, step: raw::Step) -> AgentTurn {
        let usual = Usage::default();
        let usage = step.usage.map_or(usual, |usage| Usage {
            input: usage.input.unwrap_or(usual.input),
            output: usage.output.unwrap_or(usual.output),
            cache_read: usage.cache_read.unwrap_or_default(),
            cache_creation: usage.cache_creation.unwrap_or_default(),
        });
        let mishap = self.mishap(step.crash.as_ref(), step.hang.as_ref());
        AgentTurn {
            mishap,
            rate_limit: step.rate_limit.map(|limit| Box::new(self.rate_limit(limit.into_inner()))),
            text: step.agent.unwrap_or_default(),
            tools: step.tools.into_iter().filter_map(|tool| self.tool(tool)).collect(),
            usage,
            error: step.error.map(|error| ApiError {
                status: error.status.into_inner(),
                kind: error.r#type,
                message: error.message,
            }),
            delay_ms: step.delay_ms,
            repeat: step.repeat.map_or_else(Repeat::default, |repeat| self.repeat(repeat)),
            stop_reason: step.stop_reason,
            interrupt: match step.interrupt {
                None => Interrupt::No,
                Some(raw::Interrupt::Answer) => Interrupt::Answer,
                Some(raw::Interrupt::Tools) => Interrupt::Tools,
            },
        }
    }

    fn repeat(&mut self, repeat: Spanned<raw::Repeat>) -> Repeat {
        let span = repeat.span();
        match repeat.into_inner() {
            raw::Repeat::Times(0) => {
                let message = "`repeat` must be at least 1".to_owned();
                self.problem(span, message, None);
                Repeat::default()
            }
            raw::Repeat::Times(times) => Repeat::Times(times),
            raw::Repeat::Forever(raw::Forever::Forever) => Repeat::Forever,
        }
    }

    fn tool(&mut self, tool: Spanned<raw::Call>) -> Option<ToolCall> {
        let span = tool.span();
        let tool = tool.into_inner();
        if kinds(&tool) == 1 {
            self.nothing_of_another_tool(&tool, span.clone());
        }
        let raw::Call { run, write, text, edit, old, new, read, agent, r#type, .. } = tool;
        let background = tool.background;
        match (run, write, edit, read, agent, tool.tool) {
            (Some(command), None, None, None, None, None) => {
                Some(ToolCall::Bash { command, background: background.unwrap_or_default() })
            }
            (None, Some(path), None, None, None, None) => {
                Some(ToolCall::Write { path, text: text.unwrap_or_default() })
            }
            (None, None, Some(path), None, None, None) => Some(ToolCall::Edit {
                path,
                old: old.unwrap_or_default(),
                new: new.unwrap_or_default(),
            }),
            (None, None, None, Some(path), None, None) => Some(ToolCall::Read { path }),
            (None, None, None, None, Some(prompt), None) => Some(ToolCall::Agent {
                prompt,
                kind: r#type.unwrap_or_else(|| USUAL_AGENT.to_owned()),
                background: background.unwrap_or(true),
            }),
            (None, None, None, None, None, Some(name)) => {
                let input = tool.input.unwrap_or_else(|| serde_json::json!({}));
                Some(ToolCall::Other { name, input })
            }
            (None, None, None, None, None, None) => {
                let hint = "use one of `run`, `write`, `edit`, `read`, `agent` and `tool`";
                self.problem(span, "this calls no tool".to_owned(), Some(hint));
                None
            }
            _ => {
                let message = "this is more than one tool call".to_owned();
                let hint = "use one of `run`, `write`, `edit`, `read`, `agent` and `tool`";
                self.problem(span, message, Some(hint));
                None
            }
        }
    }

    fn nothing_of_another_tool(&mut self, tool: &raw::Call, span: Range<usize>) {
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
            self.problem(span, format!("`{key}` is only for {owner}"), None);
        }
    }

    pub(super) fn one_of(&mut self, value: &Spanned<String>, known: &[&str], what: &str) {
        if !known.contains(&value.as_ref().as_str()) {
            let hint = match near::meant(value.as_ref(), known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("expected one of {}", known.join(", ")),
            };
            let message = format!("unknown {what} `{}`", value.as_ref());
            self.problem(value.span(), message, Some(&hint));
        }
    }

    fn expect(&mut self, expect: raw::Expect, steps: &[Step]) -> Expect {
        for (span, message) in possible::impossible(&expect, steps) {
            self.problem(span, message, None);
        }
        let words = |words: Vec<Spanned<String>>| words.into_iter().map(Spanned::into_inner);
        for ending in expect.endings.iter().flatten() {
            self.one_of(ending, &ENDINGS, "ending");
        }
        for event in expect.events.iter().flatten() {
            self.one_of(event, &EVENTS, "event");
        }
        Expect {
            endings: expect.endings.map(|endings| words(endings).collect()),
            results: expect.results.map(Spanned::into_inner),
            stops: expect.stops.map(Spanned::into_inner),
            blocks: expect.blocks.map(Spanned::into_inner),
            requests: expect.requests.map(Spanned::into_inner),
            reasons: expect.reasons.map(Spanned::into_inner),
            events: expect.events.map(|events| words(events).collect()),
            exit: expect.exit,
            files: self.files(expect.files),
            says: expect.says,
            absent: expect.absent.into_iter().map(|name| self.name(name)).collect(),
            screen: expect.screen.map(Spanned::into_inner).unwrap_or_default(),
            status: expect.status.map(Spanned::into_inner),
            iterations: expect.iterations.map(Spanned::into_inner),
            sessions: expect.sessions.map(Spanned::into_inner),
            told: expect.told.into_iter().map(|(name, count)| (name.into_inner(), count)).collect(),
        }
    }
}

/// The number of tools that a call names; valid calls name one.
fn kinds(tool: &raw::Call) -> usize {
    let named = [&tool.run, &tool.write, &tool.edit, &tool.read, &tool.agent, &tool.tool];
    named.into_iter().flatten().count()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
