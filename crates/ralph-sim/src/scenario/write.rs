//! Writes a scenario as the text of its file. [`super::parse`] turns the text back into the same scenario.

use super::scenario_parser::{DEFAULT_AGENT_TYPE, DEFAULT_SUMMARY};
use super::toml_text::{format_inline, format_key, format_list, format_number, format_string};
use super::{
    InterventionAction, Scenario, ScenarioClient, ScenarioExpectations, ScenarioHook,
    ScenarioHookCommand, ScenarioPlayer, ScenarioPlugin, ScenarioRunner, ScenarioSettings,
    ScenarioSettingsLayer, ScenarioStep, ScreenStep, ScriptedSubagent, ScriptedToolCall,
    ScriptedTurn, ScriptedUsage, SessionStep, ShellStep, TurnHang, TurnInterrupt, TurnMishap,
    TurnPoint, TurnRepeat, TypedAnswer,
};
use std::collections::BTreeMap;

/// Returns readable TOML in a fixed order of keys. JSON nulls, which TOML lacks, are left out.
pub fn write(scenario: &Scenario) -> String {
    let mut out = TomlWriter::default();
    out.set("name", &format_string(&scenario.name));
    out.set_opt("only", scenario.only.map(format_player));
    if let Some(copy) = &scenario.copy {
        out.set("copy", &format_string(&copy.to_string_lossy()));
    }
    if !scenario.setup.is_empty() {
        out.set("setup", &format_strings(&scenario.setup));
    }
    if scenario.summary != DEFAULT_SUMMARY {
        out.set("summary", &format_string(&scenario.summary));
    }
    write_client(&mut out, &scenario.client);
    if let Some(each) = &scenario.runner {
        write_runner(&mut out, each);
    }
    out.table("env", &scenario.env);
    out.table("files", &scenario.files);
    out.table("home", &scenario.home);
    write_settings(&mut out, &scenario.settings);
    for each in &scenario.hooks {
        out.heading("[[hook]]");
        write_hook(&mut out, each);
    }
    for each in &scenario.plugins {
        write_plugin(&mut out, each);
    }
    for each in &scenario.steps {
        out.heading("[[step]]");
        write_step(&mut out, each);
    }
    for each in &scenario.subagents {
        write_subagent(&mut out, each, "subagent");
    }
    for each in &scenario.evaluators {
        write_subagent(&mut out, each, "evaluator");
    }
    write_expectations(&mut out, &scenario.expect);
    out.0
}

#[derive(Default)]
struct TomlWriter(String);

impl TomlWriter {
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

    fn set_opt(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.set(name, &value);
        }
    }

    fn table(&mut self, heading: &str, map: &BTreeMap<String, String>) {
        if !map.is_empty() {
            self.heading(&format!("[{heading}]"));
        }
        for (name, value) in map {
            self.set(&format_key(name), &format_string(value));
        }
    }
}

fn format_player(only: ScenarioPlayer) -> String {
    format_string(match only {
        ScenarioPlayer::Simulator => "simulator",
        ScenarioPlayer::Client => "client",
        ScenarioPlayer::Terminal => "terminal",
        ScenarioPlayer::Pretend => "pretend",
    })
}

fn write_client(out: &mut TomlWriter, client: &ScenarioClient) {
    if *client == ScenarioClient::default() {
        return;
    }
    out.heading("[client]");
    out.set_opt("session", client.session.as_deref().map(format_string));
    out.set_opt("directory", client.directory.as_deref().map(format_string));
    out.set_opt("model", client.model.as_deref().map(format_string));
    out.set_opt("autocompact", client.autocompact.map(format_count));
    out.set_opt("max_turns", client.max_turns.map(|turns| turns.to_string()));
}

fn write_runner(out: &mut TomlWriter, runner: &ScenarioRunner) {
    out.heading("[runner]");
    if !runner.args.is_empty() {
        out.set("args", &format_strings(&runner.args));
    }
    if !runner.beside.is_empty() {
        out.set("beside", &format_list(runner.beside.iter().map(|args| format_strings(args))));
    }
    if !runner.plan.is_empty() {
        out.set("plan", &format_strings(&runner.plan));
    }
    if !runner.wrapper.is_empty() {
        out.set("wrapper", &format_strings(&runner.wrapper));
    }
    if runner.resumes != 0 {
        out.set("resumes", &runner.resumes.to_string());
    }
    for moment in &runner.interventions {
        out.heading("[[runner.at]]");
        out.set("request", &format_count(moment.request));
        if moment.after_ms != 0 {
            out.set("after_ms", &format_count(moment.after_ms));
        }
        match &moment.action {
            InterventionAction::KillRunner => out.set("kill", "\"runner\""),
            InterventionAction::KillAgent => out.set("kill", "\"agent\""),
            InterventionAction::CtrlC => out.set("press", "\"ctrl-c\""),
            InterventionAction::Command(command) => out.set("run", &format_string(command)),
        }
    }
}

fn write_settings(out: &mut TomlWriter, settings: &ScenarioSettings) {
    let files =
        [("user", &settings.user), ("project", &settings.project), ("local", &settings.local)];
    if files.iter().any(|(_, settings)| settings.is_some()) {
        out.heading("[settings]");
    }
    for (name, settings) in files {
        out.set_opt(name, settings.as_ref().map(format_inline));
    }
}

fn write_hook(out: &mut TomlWriter, hook: &ScenarioHook) {
    out.set("event", &format_string(&hook.event));
    out.set_opt("matcher", hook.matcher.as_deref().map(format_string));
    match &hook.run {
        ScenarioHookCommand::Command(command) => out.set("command", &format_string(command)),
        ScenarioHookCommand::Program { command, args } => {
            out.set("command", &format_string(command));
            out.set("args", &format_strings(args));
        }
        ScenarioHookCommand::Script(script) => out.set("script", &format_string(script)),
        ScenarioHookCommand::Evaluator { kind, prompt, model } => {
            out.set(kind.name(), &format_string(prompt));
            out.set_opt("model", model.as_deref().map(format_string));
        }
    }
    out.set_opt("timeout", hook.timeout.map(format_number));
    if hook.is_async {
        out.set("async", "true");
    }
    let layer = match hook.layer {
        ScenarioSettingsLayer::Project => return,
        ScenarioSettingsLayer::User => "user",
        ScenarioSettingsLayer::Local => "local",
        ScenarioSettingsLayer::Flag => "flag",
    };
    out.set("in", &format_string(layer));
}

fn write_plugin(out: &mut TomlWriter, plugin: &ScenarioPlugin) {
    out.heading("[[plugin]]");
    out.set("name", &format_string(&plugin.name));
    out.set_opt("copy", plugin.copy.as_ref().map(|copy| format_string(&copy.to_string_lossy())));
    for each in &plugin.hooks {
        out.heading("[[plugin.hook]]");
        write_hook(out, each);
    }
}

fn write_step(out: &mut TomlWriter, step: &ScenarioStep) {
    match step {
        ScenarioStep::Person(text) => out.set("person", &format_string(text)),
        ScenarioStep::Session(SessionStep::Resume) => out.set("session", "\"resume\""),
        ScenarioStep::Session(SessionStep::Fork) => out.set("session", "\"fork\""),
        ScenarioStep::Session(SessionStep::New) => out.set("session", "\"new\""),
        ScenarioStep::Screen(ScreenStep { text, keys }) => {
            out.set("screen", &format_string(text));
            if !keys.is_empty() {
                out.set("keys", &format_strings(keys));
            }
        }
        ScenarioStep::Shell(ShellStep { command, answer }) => {
            out.set("shell", &format_string(command));
            if let Some(TypedAnswer { question, text }) = answer {
                out.set("asks", &format_string(question));
                out.set("answer", &format_string(text));
            }
        }
        ScenarioStep::Agent(turn) => write_turn(out, turn),
    }
}

fn write_turn(out: &mut TomlWriter, turn: &ScriptedTurn) {
    let has_other_keys = turn.error.is_some()
        || !turn.tools.is_empty()
        || turn.interrupt != TurnInterrupt::No
        || turn.mishap != TurnMishap::None
        || turn.rate_limit.is_some();
    if !turn.text.is_empty() || !has_other_keys {
        out.set("agent", &format_string(&turn.text));
    }
    match &turn.tools[..] {
        [] => {}
        [only] => out.set("tools", &format!("[{}]", format_tool_call(only))),
        many => {
            let calls = many.iter().map(|call| format!("  {},\n", format_tool_call(call)));
            out.set("tools", &format!("[\n{}]", calls.collect::<String>()));
        }
    }
    if turn.usage != ScriptedUsage::default() {
        out.set("usage", &format_usage(turn.usage));
    }
    if let Some(error) = &turn.error {
        let (kind, message) = (format_string(&error.kind), format_string(&error.message));
        let fields = format!("status = {}, type = {kind}, message = {message}", error.status);
        out.set("error", &format!("{{ {fields} }}"));
    }
    if turn.delay_ms != 0 {
        out.set("delay_ms", &format_count(turn.delay_ms));
    }
    match turn.repeat {
        TurnRepeat::Times(1) => {}
        TurnRepeat::Times(times) => out.set("repeat", &times.to_string()),
        TurnRepeat::Forever => out.set("repeat", "\"forever\""),
    }
    out.set_opt("stop_reason", turn.stop_reason.as_deref().map(format_string));
    match turn.interrupt {
        TurnInterrupt::No => {}
        TurnInterrupt::Answer => out.set("interrupt", "\"answer\""),
        TurnInterrupt::Tools => out.set("interrupt", "\"tools\""),
    }
    write_fake_client_keys(out, turn);
}

fn write_fake_client_keys(out: &mut TomlWriter, turn: &ScriptedTurn) {
    let point = |point: TurnPoint| {
        format_string(match point {
            TurnPoint::Answer => "answer",
            TurnPoint::Tools => "tools",
            TurnPoint::Stop => "stop",
            TurnPoint::Result => "result",
            TurnPoint::Idle => "idle",
        })
    };
    match turn.mishap {
        TurnMishap::None => {}
        TurnMishap::Crash { at, exit: None } => out.set("crash", &point(at)),
        TurnMishap::Crash { at, exit: Some(code) } => {
            out.set("crash", &format!("{{ at = {}, exit = {code} }}", point(at)));
        }
        TurnMishap::Hang(TurnHang::Answer) => out.set("hang", "\"answer\""),
        TurnMishap::Hang(TurnHang::Client) => out.set("hang", "\"client\""),
    }
    if let Some(limit) = &turn.rate_limit {
        let reset = limit.resets_in_ms.map(|ms| format!(", resets_in_ms = {}", format_count(ms)));
        let used = limit.used_percent.map(|percent| format!(", used_percent = {percent}"));
        let (status, kind) = (format_string(&limit.status), format_string(&limit.kind));
        let (reset, used) = (reset.unwrap_or_default(), used.unwrap_or_default());
        out.set("rate_limit", &format!("{{ status = {status}, type = {kind}{reset}{used} }}"));
    }
}

fn format_tool_call(call: &ScriptedToolCall) -> String {
    let fields = match call {
        ScriptedToolCall::Bash { command, background: false } => {
            vec![("run", format_string(command))]
        }
        ScriptedToolCall::Bash { command, background: true } => {
            vec![("run", format_string(command)), ("background", "true".to_owned())]
        }
        ScriptedToolCall::Write { path, text } => {
            vec![("write", format_string(path)), ("text", format_string(text))]
        }
        ScriptedToolCall::Edit { path, old, new } => {
            vec![
                ("edit", format_string(path)),
                ("old", format_string(old)),
                ("new", format_string(new)),
            ]
        }
        ScriptedToolCall::Read { path } => vec![("read", format_string(path))],
        ScriptedToolCall::Agent { prompt, kind, background } => {
            let mut fields = vec![("agent", format_string(prompt))];
            if kind != DEFAULT_AGENT_TYPE {
                fields.push(("type", format_string(kind)));
            }
            if !background {
                fields.push(("background", "false".to_owned()));
            }
            fields
        }
        ScriptedToolCall::Other { name, input } => {
            vec![("tool", format_string(name)), ("input", format_inline(input))]
        }
    };
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    format!("{{ {} }}", fields.join(", "))
}

fn format_usage(usage: ScriptedUsage) -> String {
    let mut fields =
        format!("input = {}, output = {}", format_count(usage.input), format_count(usage.output));
    for (name, tokens) in
        [("cache_read", usage.cache_read), ("cache_creation", usage.cache_creation)]
    {
        if tokens != 0 {
            fields.push_str(&format!(", {name} = {}", format_count(tokens)));
        }
    }
    format!("{{ {fields} }}")
}

fn write_subagent(out: &mut TomlWriter, agent: &ScriptedSubagent, table: &str) {
    out.heading(&format!("[[{table}]]"));
    out.set("prompt", &format_string(&agent.prompt));
    for turn in &agent.turns {
        out.heading(&format!("[[{table}.step]]"));
        write_turn(out, turn);
    }
}

fn write_expectations(out: &mut TomlWriter, expect: &ScenarioExpectations) {
    if *expect == ScenarioExpectations::default() {
        return;
    }
    out.heading("[expect]");
    out.set_opt("endings", expect.endings.as_deref().map(format_strings));
    out.set_opt("results", expect.results.as_deref().map(format_strings));
    out.set_opt("stops", expect.stops.map(format_count));
    out.set_opt("blocks", expect.blocks.map(format_count));
    out.set_opt("requests", expect.requests.map(format_count));
    out.set_opt("reasons", expect.reasons.as_deref().map(format_strings));
    out.set_opt("events", expect.events.as_deref().map(format_strings));
    out.set_opt("exit", expect.exit.map(|exit| exit.to_string()));
    if !expect.absent.is_empty() {
        out.set("absent", &format_strings(&expect.absent));
    }
    if !expect.screen.is_empty() {
        out.set("screen", &format_strings(&expect.screen));
    }
    out.set_opt("status", expect.status.as_deref().map(format_string));
    out.set_opt("iterations", expect.iterations.map(format_count));
    out.set_opt("sessions", expect.sessions.map(format_count));
    if !expect.output.is_empty() {
        out.set("output", &format_strings(&expect.output));
    }
    if !expect.told.is_empty() {
        let counts = expect
            .told
            .iter()
            .map(|(name, times)| format!("{} = {}", format_key(name), format_count(*times)));
        out.set("told", &format!("{{ {} }}", counts.collect::<Vec<_>>().join(", ")));
    }
    out.table("expect.files", &expect.files);
    out.table("expect.says", &expect.says);
}

fn format_strings(texts: &[String]) -> String {
    format_list(texts.iter().map(|text| format_string(text)))
}

/// TOML integers are signed; larger values are capped.
fn format_count(number: u64) -> String {
    i64::try_from(number).unwrap_or(i64::MAX).to_string()
}
