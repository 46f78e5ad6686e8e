//! Teammates: named subagents that fire `TeammateIdle` before they become idle.
//!
//! The real client has teammates only in its terminal. Headless, it treats a named agent like any other.

use super::agents::{self, Task};
use super::background::Background;
use super::conversation::{Conversation, cap, converse};
use super::hooks::{Telling, tell};
use super::host::{Agent, Host, Shared};
use super::tools::{Call, Done};
use crate::id;
use crate::timeline::Effect;
use serde_json::{Value, json};

const VARIABLE: &str = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS";

fn name(call: &Call) -> Option<&str> {
    call.input.get("name").and_then(Value::as_str)
}

/// Whether the call starts a teammate.
pub(super) fn is_wanted(host: &mut Host<'_>, call: &Call) -> bool {
    name(call).is_some() && host.variable(VARIABLE).is_some_and(|value| value == "1")
}

pub(super) fn start(host: &mut Host<'_>, chat: &mut Conversation, call: &Call) -> Done {
    let name = name(call).unwrap_or_default().to_owned();
    let mut task = Task::of(call, true);
    let tail = id::agent();
    let tail = tail.trim_start_matches('a');
    task.agent = Agent { id: format!("a{name}-{tail}"), kind: name.clone() };
    let own = match agents::begin(host, chat, &task) {
        Ok(own) => own,
        Err(error) => return host.cannot_write(error),
    };
    let team = team(host);
    let text = format!(
        "Spawned successfully.\nagent_id: {}\nname: {name}\nteam_name: {team}\nThe agent is now running and will receive \
         instructions via mailbox.",
        task.agent.id
    );
    let response = json!({"status": "teammate_spawned", "agentId": task.agent.id, "name": name, "team_name": team});
    host.background.push(Background::teammate(call, &task, own));
    Done::Ran { response, text }
}

/// The name of the session's default team.
fn team(host: &Host<'_>) -> String {
    format!("session-{}", host.session.get(..8).unwrap_or(&host.session))
}

/// Runs a teammate until its hooks let it become idle.
pub(super) fn work(host: &mut Host<'_>, own: &mut Conversation) {
    let mut held = 0;
    loop {
        let over = converse(host, own);
        if over.is_error || host.is_over() {
            return;
        }
        let Some(agent) = own.agent.clone() else { return };
        let event = "TeammateIdle";
        let input = host
            .input(event, Shared::Mode, Some(&agent))
            .with("teammate_name", agent.kind.clone())
            .with("team_name", team(host));
        let told = tell(host, Telling { event, subject: None, agent: own.lane(), input });
        let reasons = told.reasons();
        if reasons.is_empty() || told.stop().is_some() {
            host.show(&told, Effect::Allowed);
            return;
        }
        held += 1;
        if cap(host).is_some_and(|cap| held > cap) {
            host.show(&told, Effect::Overridden { reasons });
            return;
        }
        for text in told.feedback() {
            own.pending.text(text);
        }
        for text in told.asides() {
            own.pending.context(text);
        }
        host.show(&told, Effect::Blocked { reasons });
    }
}
