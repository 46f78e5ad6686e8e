//! `ralph lab model`: serves the scripted model of a scenario to a real client.

use super::simulate::built_in::read_file_or_built_in;
use super::simulate::scenario_failure;
use crate::failure::CommandFailure;
use crate::term::{self, OutputReader};
use clap::Args;
use ralph_deck::wording::safe_line;
use ralph_sim::model_answer;
use ralph_sim::scenario::ScriptedTurn;
use ralph_sim::script::ModelScript;
use ralph_sim::server::{
    self, DUMMY_API_KEY, ModelEvent, ModelRequest, ModelServerOptions, RequestAttempt,
    RequestOrigin, ScriptPace,
};
use ralph_sys::clock;
use ralph_sys::env::Env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often Ctrl-C is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Serve the model of a scenario to a real client
#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph lab model try/tests-first.toml --port 8765
  ANTHROPIC_BASE_URL=http://127.0.0.1:8765 \\
    ANTHROPIC_API_KEY=sk-ant-dummy-000000000000000000000000 \\
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 claude

Returns the turns of the scenario in order, whatever the prompts are.
Listens on this machine only.")]
pub(crate) struct ModelArgs {
    /// Read this scenario file
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Listen on this port of 127.0.0.1 [default: any free port]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Resolve relative paths of tool calls here [default: current directory]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
}

pub(crate) fn run(env: &Env, args: &ModelArgs) -> Result<(), CommandFailure> {
    let scenario =
        read_file_or_built_in(&args.scenario).map_err(|mistakes| scenario_failure(&mistakes))?;
    let directory = args.project.clone().or_else(|| env.current_dir()).unwrap_or_default();
    let project = ralph_sys::fs::resolve(&directory).ok_or_else(|| {
        let what = format!("there is no directory `{}`", directory.display());
        CommandFailure::new(&what, "give another one with `--project DIR`")
    })?;
    let cancel = super::cancel_on_signals()?;
    let server = server::serve(
        ModelScript::new(&scenario),
        ModelServerOptions {
            port: args.port,
            project,
            pace: ScriptPace::InOrder,
            observer: Box::new(|happened| match happened {
                ModelEvent::Requested(asked) => term::err(&request_line(&asked)),
                ModelEvent::Answered(_) => {}
            }),
        },
    )
    .map_err(|error| {
        let hint = "the port may be in use; omit `--port` to use any free port";
        CommandFailure::caused_by("cannot serve the model", &error).with_hint(hint)
    })?;
    let url = server.url();
    let lines = format!(
        "ANTHROPIC_BASE_URL={url}\nANTHROPIC_API_KEY={DUMMY_API_KEY}\nCLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1\n"
    );
    term::err(&format!("serving `{}` until Ctrl-C\n", safe_line(&scenario.name)));
    if term::out(&lines)? == OutputReader::Closed {
        return Ok(());
    }
    while !cancel.is_cancelled() {
        clock::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// `12:03:55   3  agent   7 messages  "They pass." Bash Write`
fn request_line(asked: &ModelRequest) -> String {
    let source = match &asked.origin {
        RequestOrigin::Main => "main",
        RequestOrigin::Agent(_) => "agent",
        RequestOrigin::Summary => "summary",
        RequestOrigin::Evaluator(_) => "hook",
    };
    let again = match asked.attempt {
        RequestAttempt::First => "",
        RequestAttempt::Retry => "  (retry)",
    };
    format!(
        "{}  {:>4}  {source:<7}  {:>4} messages  {}{again}\n",
        clock::local_time(asked.at_ns / 1_000_000),
        asked.number,
        asked.messages.len(),
        turn_text(&asked.turn)
    )
}

fn turn_text(turn: &ScriptedTurn) -> String {
    if let Some(error) = &turn.error {
        return format!("error {} {}", error.status, safe_line(&error.kind));
    }
    let text = ralph_core::text::clean_line(&turn.text, 60);
    let tools =
        turn.tools.iter().map(|call| safe_line(&model_answer::tool_use(call, Path::new("")).0));
    let mut parts = vec![format!("\"{text}\"")];
    parts.extend(tools);
    parts.join(" ")
}
