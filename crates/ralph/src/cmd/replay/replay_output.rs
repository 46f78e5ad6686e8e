//! Prints the result of a replay, as text and as JSON.

use super::replay_args::{ExpectedDecision, ReplayArgs as Args};
use super::{RalphDecision, ReplayResult, meets_expectation};
use crate::cmd::{print_json, why};
use crate::failure::CommandFailure;
use crate::term::{self, BAD, DIM, GOOD, WARN, paint};
use crate::timeline_view::{self, TimelineView};
use ralph_core::text;
use ralph_core::units;
use ralph_deck::view::decisions::{self, DecisionView};
use ralph_deck::wording::safe_line;
use ralph_sim::replay::ReplayDecision;
use ralph_sim::timeline::{HandlerResult, HookEffect, MessageRole, TimelineEntry, TimelineMessage};
use serde::Serialize;

#[derive(Serialize)]
struct ReplayJson<'a> {
    v: u8,
    event: &'a str,
    project: String,
    decision: ReplayDecision,
    effect: &'a HookEffect,
    reason: Option<String>,
    handlers: &'a [HandlerResult],
    reads: &'a [TimelineMessage],
    person: &'a [String],
    ralph: Option<RalphDecisionJson<'a>>,
    notices: &'a [String],
    ms: u64,
    expected: Option<ExpectedDecision>,
}

#[derive(Serialize)]
struct RalphDecisionJson<'a> {
    rule: &'a str,
    because: &'a str,
    facts: Option<DecisionView<'a>>,
}

pub(super) fn print_json_result(args: &Args, shown: &ReplayResult) -> Result<(), CommandFailure> {
    let replayed = &shown.replayed;
    let reasons = reasons(&replayed.hook.effect);
    let ralph = shown.ruling.as_ref().and_then(|ruling| match ruling {
        RalphDecision::Unrecorded { rule, because } => {
            Some(RalphDecisionJson { rule, because, facts: None })
        }
        RalphDecision::Recorded(history) => {
            let facts = decisions::newest_decision(history)?;
            let rule = facts.row.rule.unwrap_or_default();
            Some(RalphDecisionJson { rule, because: facts.because, facts: Some(facts) })
        }
    });
    print_json(&ReplayJson {
        v: 1,
        event: &replayed.hook.event,
        project: shown.project.display().to_string(),
        decision: replayed.decision,
        effect: &replayed.hook.effect,
        reason: (!reasons.is_empty()).then(|| reasons.join("\n")),
        handlers: &replayed.hook.handlers,
        reads: &replayed.reads,
        person: &replayed.person,
        ralph,
        notices: &replayed.notices,
        ms: shown.ms,
        expected: args.expect,
    })?;
    Ok(())
}

fn reasons(effect: &HookEffect) -> Vec<String> {
    match effect {
        HookEffect::Allowed => Vec::new(),
        HookEffect::Blocked { reasons } | HookEffect::Overridden { reasons } => reasons.clone(),
        HookEffect::Stopped { reason } => reason.iter().cloned().collect(),
        HookEffect::Continued { context } => context.clone(),
    }
}

pub(super) fn print_text_result(args: &Args, shown: &ReplayResult) -> Result<(), CommandFailure> {
    let replayed = &shown.replayed;
    let event = &replayed.hook.event;
    let mut out = match replayed.decision {
        ReplayDecision::Killed => {
            let handlers = replayed.hook.handlers.iter().map(timeline_view::render_handler);
            labeled_line(event, &paint(BAD, "a hook killed the client"))
                + &handlers.collect::<String>()
        }
        ReplayDecision::Allowed | ReplayDecision::Blocked | ReplayDecision::Stopped => {
            TimelineView::default().render(&TimelineEntry::Hook(replayed.hook.clone()))
        }
    };
    if replayed.hook.handlers.is_empty() {
        out.push_str(&labeled_line(event, &safe_line(&shown.no_hook_text)));
    }
    for message in &replayed.reads {
        let role = match message.role {
            MessageRole::User => "user",
            MessageRole::System => "system",
            MessageRole::Tool => "tool result",
        };
        out.push_str(&labeled_line("model reads", &paint(DIM, &format!("as {role}:"))));
        out.push_str(&reveal_text(&message.text));
    }
    for text in &replayed.person {
        out.push_str(&labeled_line("person", &paint(DIM, "reads:")));
        out.push_str(&reveal_text(text));
    }
    match &shown.ruling {
        None => {}
        Some(RalphDecision::Unrecorded { rule, because }) => {
            out.push_str(&labeled_line("ralph", &format!("rule `{rule}` {}", safe_line(because))));
        }
        Some(RalphDecision::Recorded(history)) => {
            out.push_str(&labeled_line(
                "ralph",
                &paint(DIM, &format!("of `{}`:", safe_line(&history.name))),
            ));
            out.push_str(&why::render_decisions(history));
        }
    }
    for text in &replayed.notices {
        out.push_str(&labeled_line("notice", &paint(WARN, &safe_line(text))));
    }
    out.push_str(&labeled_line("took", &units::format_duration(shown.ms)));
    if let Some(expected) = args.expect {
        let (wanted, found) = (expected.name(), decision_name(replayed.decision));
        if meets_expectation(expected, replayed.decision) {
            out.push_str(&paint(GOOD, &format!("✓ {found}, as expected")));
            out.push('\n');
        } else {
            out.push_str(&labeled_line(
                "expected",
                &paint(BAD, &format!("{wanted}, found {found}")),
            ));
        }
    }
    term::out(&out)?;
    Ok(())
}

fn decision_name(decision: ReplayDecision) -> &'static str {
    match decision {
        ReplayDecision::Allowed => "allowed",
        ReplayDecision::Blocked => "blocked",
        ReplayDecision::Stopped => "stopped",
        ReplayDecision::Killed => "killed",
    }
}

fn labeled_line(label: &str, what: &str) -> String {
    format!("{} {what}\n", paint(DIM, &format!("{label:>11}")))
}

/// The whole text, with control and invisible characters spelled out.
fn reveal_text(foreign: &str) -> String {
    let mut out = String::new();
    for line in text::reveal(foreign).lines() {
        out.push_str("            ");
        out.push_str(line);
        out.push('\n');
    }
    out
}
