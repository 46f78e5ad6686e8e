//! Teammates: named subagents that fire `TeammateIdle` before they become idle.
//!
//! The real client has teammates only in its terminal. Headless, it treats a named agent like any other.

use super::background_work::SimulatedBackgroundTask;
use super::client_process::SimulatedClient;
use super::conversation::{SimulatedConversation, block_cap, run_query_loop};
use super::hook_dispatch::fire_event;
use super::subagents::{self, SubagentTask};
use crate::client_ids;
use crate::client_rules::event_outcome::DispatchedEvent;
use crate::client_rules::hook_input::{SharedInputFields, SubagentIdentity};
use crate::client_rules::tool_invocation::{ToolInvocation, ToolOutcome};
use crate::timeline::HookEffect;
use serde_json::{Value, json};

const TEAMS_VARIABLE: &str = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS";

fn teammate_name(call: &ToolInvocation) -> Option<&str> {
    call.input.get("name").and_then(Value::as_str)
}

/// Whether the call starts a teammate.
pub(super) fn is_teammate_call(host: &mut SimulatedClient<'_>, call: &ToolInvocation) -> bool {
    teammate_name(call).is_some() && host.variable(TEAMS_VARIABLE).is_some_and(|value| value == "1")
}

pub(super) fn spawn_teammate(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    call: &ToolInvocation,
) -> ToolOutcome {
    let name = teammate_name(call).unwrap_or_default().to_owned();
    let mut task = SubagentTask::from_call(call, true);
    let tail = client_ids::new_agent_id();
    let tail = tail.trim_start_matches('a');
    task.agent = SubagentIdentity { id: format!("a{name}-{tail}"), kind: name.clone() };
    let own = match subagents::begin_subagent(host, chat, &task) {
        Ok(own) => own,
        Err(error) => return host.fail_write(error),
    };
    let team = team_name(host);
    let text = format!(
        "Spawned successfully.\nagent_id: {}\nname: {name}\nteam_name: {team}\nThe agent is now running and will receive \
         instructions via mailbox.",
        task.agent.id
    );
    let response = json!({"status": "teammate_spawned", "agentId": task.agent.id, "name": name, "team_name": team});
    host.background.push(SimulatedBackgroundTask::teammate(call, &task, own));
    ToolOutcome::Ran { response, text }
}

/// The name of the session's default team.
fn team_name(host: &SimulatedClient<'_>) -> String {
    format!("session-{}", host.session.get(..8).unwrap_or(&host.session))
}

/// Runs a teammate until its hooks let it become idle.
pub(super) fn run_until_idle(host: &mut SimulatedClient<'_>, own: &mut SimulatedConversation) {
    let mut held = 0;
    loop {
        let over = run_query_loop(host, own);
        if over.is_error || host.should_stop() {
            return;
        }
        let Some(agent) = own.agent.clone() else { return };
        let event = "TeammateIdle";
        let input = host
            .hook_input(event, SharedInputFields::Mode, Some(&agent))
            .with("teammate_name", agent.kind.clone())
            .with("team_name", team_name(host));
        let outcome =
            fire_event(host, DispatchedEvent { event, subject: None, agent: own.lane(), input });
        let reasons = outcome.reasons();
        if reasons.is_empty() || outcome.continue_false().is_some() {
            host.emit_hook(&outcome, HookEffect::Allowed);
            return;
        }
        held += 1;
        if block_cap(host).is_some_and(|cap| held > cap) {
            host.emit_hook(&outcome, HookEffect::Overridden { reasons });
            return;
        }
        for text in outcome.feedback_texts() {
            own.pending.add_user_text(text);
        }
        for text in outcome.side_texts() {
            own.pending.add_context(text);
        }
        host.emit_hook(&outcome, HookEffect::Blocked { reasons });
    }
}
