//! The view of an orchestrated run, as text and as JSON: its phases on one line, then its nine conditions with their
//! owner and a note on the evidence.

use crate::term::{self, paint};
use crate::wording::safe;
use ralph_core::source::orchestrator::{Phase, Seen, Shown};
use ralph_hook::orchestrator::Picture;
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct PictureJson<'a> {
    /// The first phase with an unmet condition.
    phase: Option<&'static str>,
    said_phase: Option<&'a str>,
    complexity: Option<u8>,
    conditions: Vec<ConditionJson<'a>>,
    missing: Vec<&'static str>,
}

#[derive(Serialize)]
struct ConditionJson<'a> {
    name: &'static str,
    owner: &'static str,
    standing: &'static str,
    note: &'a str,
}

pub(crate) fn json(picture: &Picture) -> PictureJson<'_> {
    PictureJson {
        phase: picture.current.map(Phase::name),
        said_phase: picture.said.as_deref(),
        complexity: picture.complexity,
        conditions: picture.conditions.iter().map(condition_json).collect(),
        missing: missing(picture).map(|one| one.condition.key()).collect(),
    }
}

fn condition_json(one: &Shown) -> ConditionJson<'_> {
    ConditionJson {
        name: one.condition.key(),
        owner: one.owner.name(),
        standing: match one.seen {
            Seen::Met => "met",
            Seen::Unmet => "unmet",
            Seen::Unknown => "unknown",
            Seen::Pending => "pending",
            Seen::Idle => "idle",
        },
        note: &one.note,
    }
}

pub(crate) fn missing(picture: &Picture) -> impl Iterator<Item = &Shown> {
    picture.conditions.iter().filter(|one| one.is_missing())
}

/// `✓ clarify → ✓ classify → [plan] → implement → validate → retrospect`
pub(crate) fn line(picture: &Picture) -> String {
    let phase = |phase: Phase| {
        let is_missing = |one: &Shown| one.condition.phase() == phase && one.is_missing();
        if picture.current == Some(phase) {
            paint(term::BOLD, &format!("[{}]", phase.name()))
        } else if picture.conditions.iter().any(is_missing) {
            phase.name().to_string()
        } else {
            format!("{} {}", paint(term::GOOD, "✓"), phase.name())
        }
    };
    let mut line = Phase::ALL.map(phase).join(" → ");
    if let Some(phase) = &picture.said {
        line.push_str(&format!("  (the agent says \"{}\")", safe(phase).replace('"', "'")));
    }
    line
}

/// The whole view, indented like the other lines about a run.
pub(crate) fn shown(picture: &Picture) -> String {
    let mut out = format!("      {}\n", line(picture));
    for one in &picture.conditions {
        let mark = match one.seen {
            Seen::Met => paint(term::GOOD, "✓"),
            Seen::Unmet => paint(term::BAD, "✗"),
            Seen::Unknown => paint(term::ODD, "?"),
            Seen::Pending | Seen::Idle => paint(term::DIM, "·"),
        };
        out.push_str(&format!(
            "      {mark} {:<28}  {:<6}  {}\n",
            one.condition.name(),
            one.owner.name(),
            safe(&one.note)
        ));
    }
    let missing: Vec<_> = missing(picture).map(|one| one.condition.name()).collect();
    if !missing.is_empty() {
        out.push_str(&format!("      missing: {}\n", missing.join(", ")));
    }
    out
}
