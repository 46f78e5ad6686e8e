//! Prints the result of a replay, as text and as JSON.

use super::args::{Expected, Replay as Args};
use super::{Ruling, Shown, is_met};
use crate::cmd::{print_json, why};
use crate::report::Failure;
use crate::story::{self, Story};
use crate::term::{self, BAD, DIM, GOOD, ODD, paint};
use crate::wording::safe;
use ralph_core::{limits, text};
use ralph_sim::replay::Decision;
use ralph_sim::timeline::{Effect, Entry, Handled, Role, Said};
use serde::Serialize;

#[derive(Serialize)]
struct ReplayJson<'a> {
    v: u8,
    event: &'a str,
    project: String,
    decision: Decision,
    effect: &'a Effect,
    reason: Option<String>,
    handlers: &'a [Handled],
    reads: &'a [Said],
    person: &'a [String],
    ralph: Option<RalphJson<'a>>,
    notices: &'a [String],
    ms: u64,
    expected: Option<Expected>,
}

#[derive(Serialize)]
struct RalphJson<'a> {
    rule: &'a str,
    because: &'a str,
    facts: Option<why::DecisionJson<'a>>,
}

pub(super) fn as_json(args: &Args, shown: &Shown) -> Result<(), Failure> {
    let replayed = &shown.replayed;
    let reasons = reasons(&replayed.hook.effect);
    let ralph = shown.ruling.as_ref().and_then(|ruling| match ruling {
        Ruling::Unrecorded { rule, because } => Some(RalphJson { rule, because, facts: None }),
        Ruling::Recorded(history) => {
            let facts = why::newest(history)?;
            Some(RalphJson { rule: facts.rule, because: facts.because, facts: Some(facts) })
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

fn reasons(effect: &Effect) -> Vec<String> {
    match effect {
        Effect::Allowed => Vec::new(),
        Effect::Blocked { reasons } | Effect::Overridden { reasons } => reasons.clone(),
        Effect::Stopped { reason } => reason.iter().cloned().collect(),
        Effect::Continued { context } => context.clone(),
    }
}

pub(super) fn to_person(args: &Args, shown: &Shown) -> Result<(), Failure> {
    let replayed = &shown.replayed;
    let event = &replayed.hook.event;
    let mut out = match replayed.decision {
        Decision::Killed => {
            let handlers = replayed.hook.handlers.iter().map(story::handler);
            line(event, &paint(BAD, "a hook killed the client")) + &handlers.collect::<String>()
        }
        Decision::Allowed | Decision::Blocked | Decision::Stopped => {
            Story::default().tell(&Entry::Hook(replayed.hook.clone()))
        }
    };
    if replayed.hook.handlers.is_empty() {
        out.push_str(&line(event, &safe(&shown.silence)));
    }
    for message in &replayed.reads {
        let role = match message.role {
            Role::User => "user",
            Role::System => "system",
            Role::Tool => "tool result",
        };
        out.push_str(&line("model reads", &paint(DIM, &format!("as {role}:"))));
        out.push_str(&whole(&message.text));
    }
    for text in &replayed.person {
        out.push_str(&line("person", &paint(DIM, "reads:")));
        out.push_str(&whole(text));
    }
    match &shown.ruling {
        None => {}
        Some(Ruling::Unrecorded { rule, because }) => {
            out.push_str(&line("ralph", &format!("rule `{rule}` {}", safe(because))));
        }
        Some(Ruling::Recorded(history)) => {
            out.push_str(&line("ralph", &paint(DIM, &format!("of `{}`:", safe(&history.name)))));
            out.push_str(&why::told(history));
        }
    }
    for text in &replayed.notices {
        out.push_str(&line("notice", &paint(ODD, &safe(text))));
    }
    out.push_str(&line("took", &limits::duration(shown.ms)));
    if let Some(expected) = args.expect {
        let (wanted, found) = (expected.name(), name(replayed.decision));
        if is_met(expected, replayed.decision) {
            out.push_str(&paint(GOOD, &format!("✓ {found}, as expected")));
            out.push('\n');
        } else {
            out.push_str(&line("expected", &paint(BAD, &format!("{wanted}, found {found}"))));
        }
    }
    term::out(&out)?;
    Ok(())
}

fn name(decision: Decision) -> &'static str {
    match decision {
        Decision::Allowed => "allowed",
        Decision::Blocked => "blocked",
        Decision::Stopped => "stopped",
        Decision::Killed => "killed",
    }
}

fn line(label: &str, what: &str) -> String {
    format!("{} {what}\n", paint(DIM, &format!("{label:>11}")))
}

/// The whole text, with control and invisible characters spelled out.
fn whole(foreign: &str) -> String {
    let mut out = String::new();
    for line in text::reveal(foreign).lines() {
        out.push_str("            ");
        out.push_str(line);
        out.push('\n');
    }
    out
}
