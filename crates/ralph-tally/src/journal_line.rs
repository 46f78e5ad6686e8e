//! The parts of a journal line that the index needs. The rest of the line, most of it, is skipped without a copy.
//!
//! An unknown kind of change is not an error: a newer ralph may have written it. The hash chain is not checked here.

use ralph_core::drive::{MeterBasis, WaitCause};
use ralph_core::limits::RunLimits;
use ralph_core::record::{MoveReason, ReportedStatus, RestoredRun, RunOrigin};
use ralph_core::requirement::PendingKind;
use ralph_core::run::Spending;
use ralph_core::status::RunStatus;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

#[derive(Deserialize)]
pub(crate) struct JournalLine<'a> {
    pub seq: u64,
    pub at_ms: u64,
    #[serde(default)]
    pub iteration: u32,
    #[serde(borrow)]
    pub change: LineChange<'a>,
}

impl<'a> JournalLine<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        Self::parse_as_written(text).or_else(|| serde_json::from_str(text).ok())
    }

    /// The fields before the change take as long to parse as a short change. ralph writes them in one order and without
    /// spaces, so they are found without looking at each name.
    fn parse_as_written(text: &'a str) -> Option<Self> {
        let (_, rest) = strip_number(text.strip_prefix("{\"v\":")?)?;
        let (seq, rest) = strip_number(rest.strip_prefix(",\"seq\":")?)?;
        let (at_ms, rest) = strip_number(rest.strip_prefix(",\"at_ms\":")?)?;
        let rest = strip_hash(rest.strip_prefix(",\"prev\":")?)?;
        let (iteration, rest) = match rest.strip_prefix(",\"iteration\":") {
            Some(rest) => strip_number(rest)?,
            None => (0, rest),
        };
        let rest = rest.strip_prefix(",\"after\":").map_or(Some(rest), strip_hash)?;
        let change = rest.strip_prefix(",\"change\":")?.strip_suffix('}')?;
        let change = serde_json::from_str(change).ok()?;
        Some(Self { seq, at_ms, iteration: u32::try_from(iteration).ok()?, change })
    }
}

fn strip_number(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    // JSON allows no leading zeros.
    if digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().ok()?, rest))
}

fn strip_hash(text: &str) -> Option<&str> {
    let text = text.strip_prefix('"')?;
    let digits = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    text[digits..].strip_prefix('"')
}

pub(crate) enum LineChange<'a> {
    Started(Box<StartLine<'a>>),
    Restored(Box<RestoredRun>),
    Decided(Box<StopLine<'a>>),
    Paused,
    Resumed,
    Cancelled,
    Asked(QuestionLine<'a>),
    Waits(WaitLine),
    Moved(MoveLine),
    Denied,
    Overridden(OverrideLine<'a>),
    Waived(WaiverLine<'a>),
    WaiverRevoked(RequirementName<'a>),
    Disputed(RequirementName<'a>),
    HintGiven,
    Approved,
    Limited(RunLimits),
    Drove(RunnerLine<'a>),
    Accepted(AcceptanceLine<'a>),
    /// Anything else.
    Other,
}

pub(crate) enum RunnerLine<'a> {
    Session(SessionLine<'a>),
    Metered(MeterLine<'a>),
    Waits(PlannedWaitLine),
    Woke,
    WaitedEnough,
    AsksPerson(QuestionLine<'a>),
    PassedOn,
    Parked(ParkedLine<'a>),
    Granted,
    Other,
}

/// A string that is borrowed from the line unless it contains an escape.
#[derive(Debug, Default)]
pub(crate) struct LineText<'a>(pub Cow<'a, str>);

impl LineText<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Deserialize)]
pub(crate) struct StartLine<'a> {
    pub started_ms: u64,
    #[serde(borrow)]
    pub project: LineText<'a>,
    pub origin: RunOrigin,
    pub limits: RunLimits,
    #[serde(borrow, default)]
    pub title: LineText<'a>,
    #[serde(borrow, default)]
    pub seal: Option<SealLine<'a>>,
    #[serde(borrow, default)]
    pub drive: Option<DriveLine<'a>>,
    #[serde(borrow, default)]
    pub host: Option<LineText<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct SealLine<'a> {
    #[serde(borrow)]
    pub hash: LineText<'a>,
}

#[derive(Deserialize)]
pub(crate) struct DriveLine<'a> {
    #[serde(borrow, default)]
    pub worktree: Option<WorktreeLine<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct WorktreeLine<'a> {
    #[serde(borrow)]
    pub branch: LineText<'a>,
    #[serde(borrow)]
    pub from: LineText<'a>,
}

#[derive(Deserialize)]
pub(crate) struct StopLine<'a> {
    #[serde(borrow)]
    pub rule: LineText<'a>,
    pub outcome: OutcomeLine,
    #[serde(borrow)]
    pub because: LineText<'a>,
    #[serde(borrow, default)]
    pub report: Option<ReportSummary<'a>>,
    #[serde(borrow, default)]
    pub proof: Option<ProofLine<'a>>,
    #[serde(borrow, default)]
    pub gates: Vec<GateLine<'a>>,
    #[serde(borrow, default)]
    pub judges: Vec<JudgeLine<'a>>,
    #[serde(default)]
    pub judge_spending: Option<Spending>,
    #[serde(borrow, default)]
    pub cost: Option<CostLine<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutcomeLine {
    Allowed,
    Blocked(IgnoredAny),
    Awaited(IgnoredAny),
    HandedOver,
    Repeated,
    Orphaned,
    Ended(RunStatus),
}

#[derive(Deserialize)]
pub(crate) struct ReportSummary<'a> {
    pub total: u32,
    pub unmet: u32,
    pub unknown: u32,
    #[serde(default)]
    pub pending: u32,
    #[serde(borrow)]
    pub lines: Vec<OpenRequirementLine<'a>>,
    #[serde(borrow, default)]
    pub also_open: Vec<LineText<'a>>,
    #[serde(borrow)]
    pub met: Vec<LineText<'a>>,
}

/// The verdict of a proof. Its tests are in the line, too.
#[derive(Deserialize)]
pub(crate) struct ProofLine<'a> {
    #[serde(borrow)]
    pub verdict: LineText<'a>,
}

impl ProofLine<'_> {
    pub(crate) fn holds(&self) -> bool {
        self.verdict.as_str() == "verified"
    }
}

#[derive(Deserialize)]
pub(crate) struct OpenRequirementLine<'a> {
    #[serde(borrow)]
    pub name: LineText<'a>,
    #[serde(borrow)]
    pub stage: LineText<'a>,
    pub standing: ReportedStatus,
    #[serde(default)]
    pub pending: Option<PendingKind>,
    #[serde(borrow)]
    pub note: LineText<'a>,
    #[serde(default)]
    pub findings: u32,
}

impl OpenRequirementLine<'_> {
    pub(crate) fn awaits_person(&self) -> bool {
        let kind = || self.pending.unwrap_or_else(|| PendingKind::of_note(self.note.as_str()));
        self.standing == ReportedStatus::Pending && kind() == PendingKind::AwaitsPerson
    }
}

/// The verdict of a judge.
#[derive(Deserialize)]
pub(crate) struct JudgeLine<'a> {
    #[serde(borrow)]
    pub name: LineText<'a>,
    #[serde(borrow)]
    pub kind: LineText<'a>,
    #[serde(borrow)]
    pub outcome: LineText<'a>,
    /// Missing if the judge was not asked.
    #[serde(borrow, default)]
    pub prompt_hash: Option<LineText<'a>>,
    #[serde(default)]
    pub misquoted: u32,
    #[serde(default)]
    pub unconfirmed: u32,
    #[serde(default)]
    pub calls: u32,
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    #[serde(default)]
    pub micro_usd: Option<u64>,
    #[serde(default)]
    pub took_ms: u64,
    #[serde(default)]
    pub cached: bool,
}

#[derive(Deserialize)]
pub(crate) struct GateLine<'a> {
    #[serde(borrow)]
    pub name: LineText<'a>,
    #[serde(borrow)]
    pub site: LineText<'a>,
    #[serde(borrow)]
    pub outcome: LineText<'a>,
    pub took_ms: u64,
    #[serde(default)]
    pub cached: bool,
    #[serde(borrow, default)]
    pub steadiness: Option<LineText<'a>>,
    #[serde(default)]
    pub tests: Option<TestCountLine>,
    #[serde(borrow)]
    pub key: LineText<'a>,
}

#[derive(Deserialize)]
pub(crate) struct TestCountLine {
    pub run: u32,
}

#[derive(Deserialize)]
pub(crate) struct CostLine<'a> {
    #[serde(default)]
    pub estimated_micro_usd: Option<u64>,
    #[serde(default)]
    pub reported_micro_usd: Option<u64>,
    #[serde(borrow, default)]
    pub unpriced: Vec<LineText<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct QuestionLine<'a> {
    #[serde(borrow)]
    pub question: LineText<'a>,
    #[serde(default)]
    pub until_ms: Option<u64>,
}

#[derive(Deserialize)]
pub(crate) struct WaitLine {
    pub until_ms: u64,
}

#[derive(Deserialize)]
pub(crate) struct MoveLine {
    pub how: MoveReason,
}

#[derive(Deserialize)]
pub(crate) struct OverrideLine<'a> {
    #[serde(borrow)]
    pub how: LineText<'a>,
}

#[derive(Deserialize)]
pub(crate) struct RequirementName<'a> {
    #[serde(borrow)]
    pub requirement: LineText<'a>,
}

#[derive(Deserialize)]
pub(crate) struct WaiverLine<'a> {
    #[serde(borrow)]
    pub requirement: LineText<'a>,
    #[serde(borrow)]
    pub by: LineText<'a>,
}

#[derive(Deserialize)]
pub(crate) struct AcceptanceLine<'a> {
    #[serde(borrow)]
    pub by: LineText<'a>,
}

#[derive(Deserialize)]
pub(crate) struct SessionLine<'a> {
    #[serde(borrow)]
    pub id: LineText<'a>,
}

#[derive(Deserialize)]
pub(crate) struct MeterLine<'a> {
    #[serde(borrow)]
    pub session: LineText<'a>,
    #[serde(borrow)]
    pub source: LineText<'a>,
    pub micro_usd: u64,
    pub tokens: u64,
    #[serde(default)]
    pub meter: MeterBasis,
}

#[derive(Deserialize)]
pub(crate) struct PlannedWaitLine {
    pub cause: WaitCause,
    pub until_ms: u64,
}

#[derive(Deserialize)]
pub(crate) struct ParkedLine<'a> {
    pub status: RunStatus,
    #[serde(borrow)]
    pub why: LineText<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for LineText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = LineText<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(LineText(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(LineText(Cow::Owned(text.to_string())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// An externally tagged enum of which not every variant is known.
trait TaggedLine<'de>: Sized {
    /// A variant without content.
    fn from_name(name: &str) -> Self;
    /// A variant whose content is the next value of `map`.
    fn from_content<A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<Self, A::Error>;
}

struct TaggedVisitor<T>(PhantomData<T>);

impl<'de, T: TaggedLine<'de>> Visitor<'de> for TaggedVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name, or a name with content")
    }

    fn visit_str<E>(self, name: &str) -> Result<T, E> {
        Ok(T::from_name(name))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let Some(name) = map.next_key::<LineText<'de>>()? else { return Ok(T::from_name("")) };
        let value = T::from_content(name.as_str(), &mut map)?;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LineChange<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TaggedVisitor::<LineChange<'de>>(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RunnerLine<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TaggedVisitor::<RunnerLine<'de>>(PhantomData))
    }
}

impl<'de> TaggedLine<'de> for LineChange<'de> {
    fn from_name(name: &str) -> Self {
        match name {
            "paused" => Self::Paused,
            "resumed" => Self::Resumed,
            "cancelled" => Self::Cancelled,
            _ => Self::Other,
        }
    }

    fn from_content<A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<Self, A::Error> {
        let skipped = match name {
            "decided" => return map.next_value().map(Self::Decided),
            "drove" => return map.next_value().map(Self::Drove),
            "started" => return map.next_value().map(Self::Started),
            "restored" => return map.next_value().map(Self::Restored),
            "asked" => return map.next_value().map(Self::Asked),
            "waits" => return map.next_value().map(Self::Waits),
            "moved" => return map.next_value().map(Self::Moved),
            "overridden" => return map.next_value().map(Self::Overridden),
            "waived" => return map.next_value().map(Self::Waived),
            "waiver_revoked" => return map.next_value().map(Self::WaiverRevoked),
            "disputed" => return map.next_value().map(Self::Disputed),
            "limited" => return map.next_value().map(Self::Limited),
            "accepted" => return map.next_value().map(Self::Accepted),
            "denied" => Self::Denied,
            "interrupted" => Self::Paused,
            "hint_given" => Self::HintGiven,
            "approved" => Self::Approved,
            _ => Self::Other,
        };
        map.next_value::<IgnoredAny>()?;
        Ok(skipped)
    }
}

impl<'de> TaggedLine<'de> for RunnerLine<'de> {
    fn from_name(name: &str) -> Self {
        match name {
            "woke" => Self::Woke,
            "passed_on" => Self::PassedOn,
            _ => Self::Other,
        }
    }

    fn from_content<A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<Self, A::Error> {
        let skipped = match name {
            "session" => return map.next_value().map(Self::Session),
            "metered" => return map.next_value().map(Self::Metered),
            "waits" => return map.next_value().map(Self::Waits),
            "asks_person" => return map.next_value().map(Self::AsksPerson),
            "parked" => return map.next_value().map(Self::Parked),
            "waited_enough" => Self::WaitedEnough,
            "granted" => Self::Granted,
            _ => Self::Other,
        };
        map.next_value::<IgnoredAny>()?;
        Ok(skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line with another order of fields or with spaces is parsed by `serde_json`.
    #[test]
    fn both_parsers_read_a_line_alike() {
        let head = r#"{"v":2,"seq":7,"at_ms":40,"prev":"9f","iteration":3,"after":"0b","change":"#;
        let fields = |line: &JournalLine<'_>| {
            let is_paused = matches!(line.change, LineChange::Paused);
            (line.seq, line.at_ms, line.iteration, is_paused)
        };
        for (text, is_direct) in [
            (format!("{head}\"paused\"}}"), true),
            (format!("{head}{{\"interrupted\":{{\"a\":[1]}}}}}}"), true),
            (head.replace("2,\"seq", "2, \"seq") + "\"paused\"}", false),
            (format!("{head}\"paused\",\"later\":[]}}"), false),
            (head.replace("\"v\":2,", "") + "\"paused\",\"v\":3}", false),
        ] {
            let direct = JournalLine::parse_as_written(&text);
            assert_eq!(direct.is_some(), is_direct, "{text}");
            let line = JournalLine::parse(&text).unwrap();
            assert_eq!(fields(&line), (7, 40, 3, true), "{text}");
        }
        for damaged in [
            format!("{head}\"paused\""),
            format!("{head}\"paused\"}}}}"),
            format!("{head}{{\"denied\":{{]}}}}}}"),
            head.replace("40", "040") + "\"paused\"}",
            head.replace("40", "") + "\"paused\"}",
            head.replace("9f", "9f\n") + "\"paused\"}",
        ] {
            assert!(JournalLine::parse(&damaged).is_none(), "{damaged}");
        }
    }
}
