//! `ralph mcp`: answers the tools of the MCP server with the texts of the commands.

use super::{declare, memory, open_home, recall, run_choice, status, verify, why};
use crate::failure::CommandFailure;
use crate::term;
use clap::Args;
use ralph_core::goal_origin::goal_label;
use ralph_core::id::{RunId, SessionId};
use ralph_core::reason::{self, ReasonContext};
use ralph_core::redact::Redactor;
use ralph_core::run::RunPhase;
use ralph_deck::wording::{self, safe_line};
use ralph_deck::{RecallContext, RecallKind, RecallQuery, RecallScope};
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, LoadedRun};
use ralph_home::world::World;
use ralph_hook::control::{self, RunOrSession};
use ralph_hook::overview;
use ralph_hook::project_runs::RunPurpose;
use ralph_hook::reminder;
use ralph_mcp::{RunTools, ToolRequest};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use std::time::Duration;

/// Everything but a check answers within this time, or reports what it waits for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_GOAL_CHARS: usize = 4_000;

#[derive(Args)]
#[command(after_help = "\
Examples:
  claude mcp add ralph -- ralph mcp
  codex mcp add ralph -- ralph mcp
  printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}' | ralph mcp

For other agents: a stdio server with the command `ralph` and the argument
`mcp`, started in the project. It serves what an agent may see and say:
contract, verify, status, why, ask, dispute, recall and memory. Nothing
that loosens a run. It ends when its stdin is closed. docs/mcp.md has
the details.")]
pub(crate) struct McpArgs {}

pub(crate) fn run(env: &Env) -> Result<(), CommandFailure> {
    open_home(env)?;
    term::use_plain_text();
    let tools = CommandTools { env: env.clone() };
    ralph_mcp::serve_stdio(env!("CARGO_PKG_VERSION"), tools)
        .map_err(|error| CommandFailure::caused_by("the MCP server failed", &error))
}

/// The tools, answered as the commands of the same names answer in the agent's shell.
struct CommandTools {
    env: Env,
}

impl RunTools for CommandTools {
    fn answer(&self, request: &ToolRequest) -> Result<String, String> {
        self.carry_out(request).map_err(|failure| failure.to_plain_text())
    }
}

impl CommandTools {
    fn carry_out(&self, request: &ToolRequest) -> Result<String, CommandFailure> {
        let home = open_home(&self.env)?;
        match request {
            ToolRequest::Contract { run } => {
                let run = self.find_run(&home, run.as_deref())?;
                self.contract(&run)
            }
            ToolRequest::Verify { run, wait_seconds } => {
                let run = match run {
                    Some(run) => Some(self.find_run(&home, Some(run))?),
                    None => verify::find_verifiable(&self.env, &home)?,
                };
                match run {
                    Some(run) => self.verify(&run, Duration::from_secs(*wait_seconds)),
                    None => {
                        verify::offer_gates(&self.env, &home)?.ok_or_else(verify::no_run_failure)
                    }
                }
            }
            ToolRequest::Status { run } => {
                status::render_run(&home, &self.find_run(&home, run.as_deref())?)
            }
            ToolRequest::Why { run, last } => {
                let run = self.find_run(&home, run.as_deref())?;
                Ok(why::render_history(&overview::run_history(&home, &run)?, *last))
            }
            ToolRequest::Ask { question } => {
                let run = self.own_run(&home)?;
                let next = declare::record_question(&self.env, &home, &run, question)?;
                Ok(format!("{run}  {next}"))
            }
            ToolRequest::Dispute { requirement, why } => {
                let run = self.own_run(&home)?;
                let next = declare::record_dispute(&self.env, &home, &run, requirement, why)?;
                Ok(format!("{run}  {next}"))
            }
            ToolRequest::Recall { query, limit, kind } => {
                self.recall(home, query, *limit, kind.as_deref())
            }
            ToolRequest::Memory => memory::describe_memory(&self.env),
        }
    }

    fn find_run(&self, home: &RalphHome, name: Option<&str>) -> Result<RunId, CommandFailure> {
        match name {
            Some(name) => run_choice::find_run(home, name, |_| verify::no_run_failure()),
            None => run_choice::project_run(&self.env, home, RunPurpose::Steer),
        }
    }

    /// The run that holds the session of the calling agent. Whatever its environment says, a caller of this server is an
    /// agent, so no other run will do.
    fn own_run(&self, home: &RalphHome) -> Result<RunId, CommandFailure> {
        let hint = "run `ralph ask \"…\"` or `ralph dispute …` in the agent's own shell, or stop and put it in your last message";
        let session = host_env::host_session(&self.env)
            .ok_or_else(|| CommandFailure::new("the client did not identify its session", hint))?;
        let unheld = || {
            let hint = "you may stop freely; `status` shows the run of this project";
            CommandFailure::new("no run holds this session", hint)
        };
        match control::resolve_name(home, &session) {
            Ok(RunOrSession::Run(run)) if !run.is_of_session() => {
                let opened = store::load_run(home, &run)?;
                let owner = opened.state.owner(&opened.run).map(SessionId::as_str);
                if owner == Some(session.as_str()) { Ok(run) } else { Err(unheld()) }
            }
            Ok(RunOrSession::Run(_) | RunOrSession::Session(_))
            | Err(control::ControlError::UnknownName(_)) => Err(unheld()),
            Err(error) => Err(error.into()),
        }
    }

    fn world(&self, timeout: Duration) -> Result<World, CommandFailure> {
        let world = World::new(self.env.clone(), Deadline::after(timeout));
        world.ok_or_else(super::unknown_home_failure)
    }

    fn verify(&self, run: &RunId, timeout: Duration) -> Result<String, CommandFailure> {
        let world = self.world(timeout)?;
        let opened = store::load_run(&world.home, run)?;
        let is_over = matches!(control::effective_phase(&world.home, &opened), RunPhase::Ended(_));
        let owner = opened.state.owner(&opened.run).filter(|_| !is_over);
        let session = owner.ok_or_else(verify::no_run_failure)?;
        verify::render_verification(&world, session, Some(run))
    }

    /// The goal, what the run is held to, and the last report. Runs nothing.
    fn contract(&self, run: &RunId) -> Result<String, CommandFailure> {
        let world = self.world(ANSWER_TIMEOUT)?;
        let opened = store::load_run(&world.home, run)?;
        let LoadedRun { run, state, .. } = &opened;
        let redactor = Redactor::new(self.env.secrets());
        let mut out = format!("run {}", run.id);
        match control::effective_phase(&world.home, &opened) {
            RunPhase::Active => {}
            RunPhase::Paused { .. } => out.push_str(", paused"),
            RunPhase::Orphaned => out.push_str(", orphaned"),
            RunPhase::Ended(status) => out.push_str(&format!(", ended: {}", status.name())),
        }
        out.push_str(&format!("\nlimits   {}\n", wording::limits(state.limits(run))));
        for (label, value) in wording::contract(run) {
            out.push_str(&format!("{label:<8} {}\n", redactor.redact(&value)));
        }
        if let Some(goal) = reminder::goal_excerpt(&world, run) {
            let context = ReasonContext {
                redactor: &redactor,
                nonce: clock::nonce(),
                goal: None,
                adoption_notice: None,
            };
            let label = goal_label(&goal);
            out.push_str(&reason::fence_text(label, &goal, MAX_GOAL_CHARS, &context));
        }
        match &state.report {
            None => out.push_str("nothing has been measured yet; call `verify`\n"),
            Some(report) => {
                out.push_str(&format!("at the last stop: {}\n", report.tally().describe()));
                out.push_str(&verify::render_report(report));
            }
        }
        for dispute in &state.disputes {
            out.push_str(&format!("disputed: {}\n", safe_line(&dispute.requirement)));
        }
        Ok(out)
    }

    fn recall(
        &self,
        home: RalphHome,
        query: &str,
        limit: usize,
        kind: Option<&str>,
    ) -> Result<String, CommandFailure> {
        let project = super::config::project_dir(&self.env, None)?;
        let context = RecallContext::new(&self.env, home, &project);
        let asked = RecallQuery {
            text: query,
            scope: RecallScope::Project,
            kind: kind.and_then(RecallKind::parse),
            limit,
        };
        let answer = recall::search_and_record(&self.env, &context, &asked)?;
        Ok(recall::render_answer(&context, &asked, &answer))
    }
}
