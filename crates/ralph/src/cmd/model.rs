//! `ralph model`: serves the scripted model of a scenario to a real client.

use super::simulate::failure;
use crate::report::Failure;
use crate::term::{self, Reader};
use crate::wording::safe;
use clap::Args;
use ralph_sim::scenario::{self, AgentTurn};
use ralph_sim::script::Script;
use ralph_sim::server::{self, Asked, Happened, KEY, Nth, Options, Pace, Who};
use ralph_sim::wire;
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::signals;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often Ctrl-C is checked.
const LOOK: Duration = Duration::from_millis(100);

/// Serve the model of a scenario to a real client
#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph model scenarios/stop/exit-2.toml --port 8765
  ANTHROPIC_BASE_URL=http://127.0.0.1:8765 ANTHROPIC_API_KEY=sk-ant-dummy-000000000000000000000000 \\
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 claude

Returns the turns of the scenario in order, whatever the prompts are.
Listens on this machine only.")]
pub(crate) struct Model {
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

pub(crate) fn run(env: &Env, args: &Model) -> Result<(), Failure> {
    let scenario = scenario::read(&args.scenario).map_err(|mistakes| failure(&mistakes))?;
    let directory = args.project.clone().or_else(|| env.current_dir()).unwrap_or_default();
    let project = ralph_sys::fs::resolve(&directory).ok_or_else(|| {
        let what = format!("there is no directory `{}`", directory.display());
        Failure::new(&what, "give another one with `--project DIR`")
    })?;
    let cancel = Cancel::new()
        .map(Arc::new)
        .map_err(|error| Failure::because("cannot prepare for Ctrl-C", &error))?;
    signals::wish_on_signals(&cancel)
        .map_err(|error| Failure::because("cannot watch for Ctrl-C", &error))?;
    let server = server::serve(
        Script::new(&scenario),
        Options {
            port: args.port,
            project,
            pace: Pace::InOrder,
            observer: Box::new(|happened| match happened {
                Happened::Asked(asked) => term::err(&line(&asked)),
                Happened::Answered(_) => {}
            }),
        },
    )
    .map_err(|error| {
        let hint = "the port may be in use; omit `--port` to use any free port";
        Failure::because("cannot serve the model", &error).with_hint(hint)
    })?;
    let url = server.url();
    let lines = format!(
        "ANTHROPIC_BASE_URL={url}\nANTHROPIC_API_KEY={KEY}\nCLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1\n"
    );
    term::err(&format!("serving `{}` until Ctrl-C\n", safe(&scenario.name)));
    if term::out(&lines)? == Reader::Gone {
        return Ok(());
    }
    while !cancel.is_wished() {
        clock::pause(LOOK);
    }
    Ok(())
}

/// `12:03:55   3  agent   7 messages  "They pass." Bash Write`
fn line(asked: &Asked) -> String {
    let source = match &asked.who {
        Who::Main => "main",
        Who::Agent(_) => "agent",
        Who::Summary => "summary",
    };
    let again = match asked.nth {
        Nth::First => "",
        Nth::Retry => "  (retry)",
    };
    format!(
        "{}  {:>4}  {source:<7}  {:>4} messages  {}{again}\n",
        clock::local_time(asked.at_ns / 1_000_000),
        asked.number,
        asked.messages.len(),
        answer(&asked.turn)
    )
}

fn answer(turn: &AgentTurn) -> String {
    if let Some(error) = &turn.error {
        return format!("error {} {}", error.status, safe(&error.kind));
    }
    let text = ralph_core::text::line(&turn.text, 60);
    let tools = turn.tools.iter().map(|call| safe(&wire::tool_use(call, Path::new("")).0));
    let mut parts = vec![format!("\"{text}\"")];
    parts.extend(tools);
    parts.join(" ")
}
