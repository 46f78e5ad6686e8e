//! Writes a scenario as the text of its file. [`super::parse`] turns the text back into the same scenario.

use super::read::{SUMMARY, USUAL_AGENT};
use super::toml_text::{inline, key, list, number, string};
use super::{
    Act, AgentTurn, Client, Expect, Hang, Hook, Interrupt, Layer, Mishap, Player, Plugin, Point,
    Repeat, Run, Runner, Scenario, SessionStep, Settings, Step, Subagent, ToolCall, Usage,
};
use std::collections::BTreeMap;

/// Returns readable TOML in a fixed order of keys. JSON nulls, which TOML lacks, are left out.
pub fn write(scenario: &Scenario) -> String {
    let mut out = Text::default();
    out.set("name", &string(&scenario.name));
    out.maybe("only", scenario.only.map(player));
    if let Some(copy) = &scenario.copy {
        out.set("copy", &string(&copy.to_string_lossy()));
    }
    if !scenario.setup.is_empty() {
        out.set("setup", &strings(&scenario.setup));
    }
    if scenario.summary != SUMMARY {
        out.set("summary", &string(&scenario.summary));
    }
    client(&mut out, &scenario.client);
    if let Some(each) = &scenario.runner {
        runner(&mut out, each);
    }
    out.map("env", &scenario.env);
    out.map("files", &scenario.files);
    out.map("home", &scenario.home);
    settings(&mut out, &scenario.settings);
    for each in &scenario.hooks {
        out.heading("[[hook]]");
        hook(&mut out, each);
    }
    for each in &scenario.plugins {
        plugin(&mut out, each);
    }
    for each in &scenario.steps {
        out.heading("[[step]]");
        step(&mut out, each);
    }
    for each in &scenario.subagents {
        subagent(&mut out, each);
    }
    expect(&mut out, &scenario.expect);
    out.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn heading(&mut self, heading: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(heading);
        self.0.push('\n');
    }

    fn set(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("{name} = {value}\n"));
    }

    fn maybe(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.set(name, &value);
        }
    }

    fn map(&mut self, heading: &str, map: &BTreeMap<String, String>) {
        if !map.is_empty() {
            self.heading(&format!("[{heading}]"));
        }
        for (name, value) in map {
            self.set(&key(name), &string(value));
        }
    }
}

fn player(only: Player) -> String {
    string(match only {
        Player::Simulator => "simulator",
        Player::Client => "client",
        Player::Terminal => "terminal",
        Player::Pretend => "pretend",
    })
}

fn client(out: &mut Text, client: &Client) {
    if *client == Client::default() {
        return;
    }
    out.heading("[client]");
    out.maybe("session", client.session.as_deref().map(string));
    out.maybe("directory", client.directory.as_deref().map(string));
    out.maybe("model", client.model.as_deref().map(string));
    out.maybe("autocompact", client.autocompact.map(count));
    out.maybe("max_turns", client.max_turns.map(|turns| turns.to_string()));
}

fn runner(out: &mut Text, runner: &Runner) {
    out.heading("[runner]");
    out.set("args", &strings(&runner.args));
    if !runner.beside.is_empty() {
        out.set("beside", &list(runner.beside.iter().map(|args| strings(args))));
    }
    if !runner.wrapper.is_empty() {
        out.set("wrapper", &strings(&runner.wrapper));
    }
    if runner.resumes != 0 {
        out.set("resumes", &runner.resumes.to_string());
    }
    for moment in &runner.moments {
        out.heading("[[runner.at]]");
        out.set("request", &count(moment.request));
        if moment.after_ms != 0 {
            out.set("after_ms", &count(moment.after_ms));
        }
        match &moment.act {
            Act::KillRunner => out.set("kill", "\"runner\""),
            Act::KillAgent => out.set("kill", "\"agent\""),
            Act::CtrlC => out.set("press", "\"ctrl-c\""),
            Act::Command(command) => out.set("run", &string(command)),
        }
    }
}

fn settings(out: &mut Text, settings: &Settings) {
    let files =
        [("user", &settings.user), ("project", &settings.project), ("local", &settings.local)];
    if files.iter().any(|(_, settings)| settings.is_some()) {
        out.heading("[settings]");
    }
    for (name, settings) in files {
        out.maybe(name, settings.as_ref().map(inline));
    }
}

fn hook(out: &mut Text, hook: &Hook) {
    out.set("event", &string(&hook.event));
    out.maybe("matcher", hook.matcher.as_deref().map(string));
    match &hook.run {
        Run::Command(command) => out.set("command", &string(command)),
        Run::Program { command, args } => {
            out.set("command", &string(command));
            out.set("args", &strings(args));
        }
        Run::Script(script) => out.set("script", &string(script)),
    }
    out.maybe("timeout", hook.timeout.map(number));
    if hook.is_async {
        out.set("async", "true");
    }
    let layer = match hook.layer {
        Layer::Project => return,
        Layer::User => "user",
        Layer::Local => "local",
        Layer::Flag => "flag",
    };
    out.set("in", &string(layer));
}

fn plugin(out: &mut Text, plugin: &Plugin) {
    out.heading("[[plugin]]");
    out.set("name", &string(&plugin.name));
    out.maybe("copy", plugin.copy.as_ref().map(|copy| string(&copy.to_string_lossy())));
    for each in &plugin.hooks {
        out.heading("[[plugin.hook]]");
        hook(out, each);
    }
}

fn step(out: &mut Text, step: &Step) {
    match step {
        Step::Person(text) => out.set("person", &string(text)),
        Step::Session(SessionStep::Resume) => out.set("session", "\"resume\""),
        Step::Session(SessionStep::Fork) => out.set("session", "\"fork\""),
        Step::Session(SessionStep::New) => out.set("session", "\"new\""),
        Step::Screen(text) => out.set("screen", &string(text)),
        Step::Agent(turn) => agent_turn(out, turn),
    }
}

fn agent_turn(out: &mut Text, turn: &AgentTurn) {
    let has_other_keys = turn.error.is_some()
        || !turn.tools.is_empty()
        || turn.interrupt != Interrupt::No
        || turn.mishap != Mishap::None
        || turn.rate_limit.is_some();
    if !turn.text.is_empty() || !has_other_keys {
        out.set("agent", &string(&turn.text));
    }
    match &turn.tools[..] {
        [] => {}
        [only] => out.set("tools", &format!("[{}]", tool(only))),
        many => {
            let calls = many.iter().map(|call| format!("  {},\n", tool(call)));
            out.set("tools", &format!("[\n{}]", calls.collect::<String>()));
        }
    }
    if turn.usage != Usage::default() {
        out.set("usage", &usage(turn.usage));
    }
    if let Some(error) = &turn.error {
        let (kind, message) = (string(&error.kind), string(&error.message));
        let fields = format!("status = {}, type = {kind}, message = {message}", error.status);
        out.set("error", &format!("{{ {fields} }}"));
    }
    if turn.delay_ms != 0 {
        out.set("delay_ms", &count(turn.delay_ms));
    }
    match turn.repeat {
        Repeat::Times(1) => {}
        Repeat::Times(times) => out.set("repeat", &times.to_string()),
        Repeat::Forever => out.set("repeat", "\"forever\""),
    }
    out.maybe("stop_reason", turn.stop_reason.as_deref().map(string));
    match turn.interrupt {
        Interrupt::No => {}
        Interrupt::Answer => out.set("interrupt", "\"answer\""),
        Interrupt::Tools => out.set("interrupt", "\"tools\""),
    }
    pretended(out, turn);
}

fn pretended(out: &mut Text, turn: &AgentTurn) {
    let point = |point: Point| {
        string(match point {
            Point::Answer => "answer",
            Point::Tools => "tools",
            Point::Stop => "stop",
            Point::Result => "result",
            Point::Idle => "idle",
        })
    };
    match turn.mishap {
        Mishap::None => {}
        Mishap::Crash { at, exit: None } => out.set("crash", &point(at)),
        Mishap::Crash { at, exit: Some(code) } => {
            out.set("crash", &format!("{{ at = {}, exit = {code} }}", point(at)));
        }
        Mishap::Hang(Hang::Answer) => out.set("hang", "\"answer\""),
        Mishap::Hang(Hang::Client) => out.set("hang", "\"client\""),
    }
    if let Some(limit) = &turn.rate_limit {
        let reset = limit.resets_in_ms.map(|ms| format!(", resets_in_ms = {}", count(ms)));
        let used = limit.used_percent.map(|percent| format!(", used_percent = {percent}"));
        let (status, kind) = (string(&limit.status), string(&limit.kind));
        let (reset, used) = (reset.unwrap_or_default(), used.unwrap_or_default());
        out.set("rate_limit", &format!("{{ status = {status}, type = {kind}{reset}{used} }}"));
    }
}

fn tool(call: &ToolCall) -> String {
    let fields = match call {
        ToolCall::Bash { command, background: false } => vec![("run", string(command))],
        ToolCall::Bash { command, background: true } => {
            vec![("run", string(command)), ("background", "true".to_owned())]
        }
        ToolCall::Write { path, text } => vec![("write", string(path)), ("text", string(text))],
        ToolCall::Edit { path, old, new } => {
            vec![("edit", string(path)), ("old", string(old)), ("new", string(new))]
        }
        ToolCall::Read { path } => vec![("read", string(path))],
        ToolCall::Agent { prompt, kind, background } => {
            let mut fields = vec![("agent", string(prompt))];
            if kind != USUAL_AGENT {
                fields.push(("type", string(kind)));
            }
            if !background {
                fields.push(("background", "false".to_owned()));
            }
            fields
        }
        ToolCall::Other { name, input } => vec![("tool", string(name)), ("input", inline(input))],
    };
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    format!("{{ {} }}", fields.join(", "))
}

fn usage(usage: Usage) -> String {
    let mut fields = format!("input = {}, output = {}", count(usage.input), count(usage.output));
    for (name, tokens) in
        [("cache_read", usage.cache_read), ("cache_creation", usage.cache_creation)]
    {
        if tokens != 0 {
            fields.push_str(&format!(", {name} = {}", count(tokens)));
        }
    }
    format!("{{ {fields} }}")
}

fn subagent(out: &mut Text, agent: &Subagent) {
    out.heading("[[subagent]]");
    out.set("prompt", &string(&agent.prompt));
    for turn in &agent.turns {
        out.heading("[[subagent.step]]");
        agent_turn(out, turn);
    }
}

fn expect(out: &mut Text, expect: &Expect) {
    if *expect == Expect::default() {
        return;
    }
    out.heading("[expect]");
    out.maybe("endings", expect.endings.as_deref().map(strings));
    out.maybe("results", expect.results.as_deref().map(strings));
    out.maybe("stops", expect.stops.map(count));
    out.maybe("blocks", expect.blocks.map(count));
    out.maybe("requests", expect.requests.map(count));
    out.maybe("reasons", expect.reasons.as_deref().map(strings));
    out.maybe("events", expect.events.as_deref().map(strings));
    out.maybe("exit", expect.exit.map(|exit| exit.to_string()));
    if !expect.absent.is_empty() {
        out.set("absent", &strings(&expect.absent));
    }
    if !expect.screen.is_empty() {
        out.set("screen", &strings(&expect.screen));
    }
    out.maybe("status", expect.status.as_deref().map(string));
    out.maybe("iterations", expect.iterations.map(count));
    out.maybe("sessions", expect.sessions.map(count));
    if !expect.told.is_empty() {
        let told =
            expect.told.iter().map(|(name, times)| format!("{} = {}", key(name), count(*times)));
        out.set("told", &format!("{{ {} }}", told.collect::<Vec<_>>().join(", ")));
    }
    out.map("expect.files", &expect.files);
    out.map("expect.says", &expect.says);
}

fn strings(texts: &[String]) -> String {
    list(texts.iter().map(|text| string(text)))
}

/// TOML integers are signed; larger values are capped.
fn count(number: u64) -> String {
    i64::try_from(number).unwrap_or(i64::MAX).to_string()
}
