//! Reads SARIF 2.1.0, the format of static analysers.

use super::locate::Spot;
use super::{Context, Draft, Found, doubtful, json};
use ralph_core::gate::Reading;
use ralph_core::requirement::Severity;
use serde::Deserialize;
use std::borrow::Cow;

type Text<'a> = Option<Cow<'a, str>>;

#[derive(Deserialize)]
struct Log<'a> {
    #[serde(borrow)]
    runs: Vec<Run<'a>>,
}

#[derive(Deserialize)]
struct Run<'a> {
    /// Missing if the tool did not analyse anything.
    #[serde(borrow, default)]
    results: Option<Vec<Outcome<'a>>>,
    #[serde(borrow, default)]
    tool: Tool<'a>,
    #[serde(borrow, default)]
    artifacts: Vec<Artifact<'a>>,
    #[serde(borrow, default)]
    invocations: Vec<Invocation<'a>>,
}

#[derive(Default, Deserialize)]
struct Tool<'a> {
    #[serde(borrow, default)]
    driver: Driver<'a>,
}

#[derive(Default, Deserialize)]
struct Driver<'a> {
    #[serde(borrow, default)]
    rules: Vec<Rule<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    default_configuration: Option<Configuration<'a>>,
}

#[derive(Deserialize)]
struct Configuration<'a> {
    #[serde(borrow, default)]
    level: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invocation<'a> {
    #[serde(default)]
    execution_successful: Option<bool>,
    #[serde(borrow, default)]
    tool_execution_notifications: Vec<Notification<'a>>,
    #[serde(borrow, default)]
    tool_configuration_notifications: Vec<Notification<'a>>,
}

/// A message of the tool about itself, such as that it could not parse a file.
#[derive(Deserialize)]
struct Notification<'a> {
    #[serde(borrow, default)]
    level: Text<'a>,
    #[serde(borrow, default)]
    message: Message<'a>,
    #[serde(borrow, default)]
    locations: Vec<Location<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    #[serde(borrow, default)]
    rule_id: Text<'a>,
    #[serde(default)]
    rule_index: Option<i64>,
    #[serde(borrow, default)]
    level: Text<'a>,
    #[serde(borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    baseline_state: Text<'a>,
    #[serde(borrow, default)]
    message: Message<'a>,
    #[serde(borrow, default)]
    locations: Vec<Location<'a>>,
    #[serde(borrow, default)]
    suppressions: Option<Vec<Suppression<'a>>>,
}

#[derive(Default, Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    markdown: Text<'a>,
    #[serde(borrow, default)]
    id: Text<'a>,
}

#[derive(Deserialize)]
struct Suppression<'a> {
    #[serde(borrow, default)]
    status: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location<'a> {
    #[serde(borrow, default)]
    physical_location: Option<Physical<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Physical<'a> {
    #[serde(borrow, default)]
    artifact_location: Option<ArtifactLocation<'a>>,
    #[serde(default)]
    region: Option<Region>,
}

#[derive(Deserialize)]
struct ArtifactLocation<'a> {
    #[serde(borrow, default)]
    uri: Text<'a>,
    #[serde(default)]
    index: Option<i64>,
}

#[derive(Deserialize)]
struct Artifact<'a> {
    #[serde(borrow, default)]
    location: Option<ArtifactLocation<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    #[serde(default)]
    start_line: Option<u32>,
    #[serde(default)]
    start_column: Option<u32>,
}

pub(super) fn read(text: &str, context: &Context<'_>) -> Reading {
    let log: Log<'_> = match json::document(text, '{') {
        Ok(log) => log,
        Err(unread) => return doubtful(unread.why()),
    };
    let mut found = Found::new(context);
    for run in &log.runs {
        for outcome in run.results.iter().flatten() {
            tell(outcome, run, &mut found);
        }
        for invocation in &run.invocations {
            let configuration = &invocation.tool_configuration_notifications;
            for notification in invocation.tool_execution_notifications.iter().chain(configuration)
            {
                // Without a location it is a problem of the tool, not of the project.
                if notification.level.as_deref() == Some("error")
                    && !notification.locations.is_empty()
                {
                    add(&notification.locations, run, notification.draft(), &mut found);
                }
            }
        }
    }
    let doubt = if log.runs.is_empty() {
        Some("the report contains no run")
    } else if log.runs.iter().any(|run| run.results.is_none()) {
        Some("a run in the report has no results")
    } else if log.runs.iter().flat_map(|run| &run.invocations).any(Invocation::is_failure) {
        Some("the report marks the tool's run as failed")
    } else {
        None
    };
    found.into_reading(None, doubt)
}

fn tell(outcome: &Outcome<'_>, run: &Run<'_>, found: &mut Found<'_>) {
    let rule = outcome.rule(run);
    let level = outcome
        .level
        .as_deref()
        .or_else(|| rule.and_then(|rule| rule.default_configuration.as_ref()?.level.as_deref()));
    let severity = match level {
        Some("error") => Severity::Error,
        Some("note") => Severity::Note,
        Some("none") => return,
        Some(_) | None => Severity::Warning,
    };
    if outcome.is_settled() {
        return;
    }
    let id = outcome.rule_id.as_deref().or_else(|| rule.and_then(|rule| rule.id.as_deref()));
    let rule = id.unwrap_or_default();
    let draft = Draft { spot: None, rule, message: outcome.message.words(), severity };
    add(&outcome.locations, run, draft, found);
}

/// Adds a finding with the first of its locations.
fn add(locations: &[Location<'_>], run: &Run<'_>, draft: Draft<'_>, found: &mut Found<'_>) {
    let physical = locations.first().and_then(|location| location.physical_location.as_ref());
    let file = physical.and_then(|physical| physical.file(run));
    let region = physical.and_then(|physical| physical.region.as_ref());
    let spot = file.as_deref().map(|file| Spot {
        file,
        line: region.and_then(|region| region.start_line).filter(|line| *line > 0),
        column: region.and_then(|region| region.start_column).filter(|column| *column > 0),
    });
    found.add(&Draft { spot, ..draft });
}

impl Message<'_> {
    fn words(&self) -> &str {
        let words = self.text.as_deref().or(self.markdown.as_deref()).or(self.id.as_deref());
        words.unwrap_or_default()
    }
}

impl Notification<'_> {
    fn draft(&self) -> Draft<'_> {
        Draft { message: self.message.words(), ..Draft::default() }
    }
}

impl Outcome<'_> {
    /// Whether the result is suppressed, absent since the baseline, or not a failure.
    fn is_settled(&self) -> bool {
        let is_suppressed = self.suppressions.iter().flatten().any(|suppression| {
            !matches!(suppression.status.as_deref(), Some("rejected" | "underReview"))
        });
        is_suppressed
            || self.baseline_state.as_deref() == Some("absent")
            || !matches!(self.kind.as_deref(), None | Some("fail" | "open" | "review"))
    }

    fn rule<'r, 'a>(&self, run: &'r Run<'a>) -> Option<&'r Rule<'a>> {
        let rules = &run.tool.driver.rules;
        if let Some(index) = self.rule_index {
            return usize::try_from(index).ok().and_then(|index| rules.get(index));
        }
        // Limited, because there may be many rules and many results. Reports without an index are small in practice.
        let id = self.rule_id.as_deref()?;
        rules.iter().take(1_000).find(|rule| rule.id.as_deref() == Some(id))
    }
}

impl Physical<'_> {
    fn file(&self, run: &Run<'_>) -> Option<String> {
        let location = self.artifact_location.as_ref()?;
        if let Some(uri) = location.uri.as_deref() {
            return Some(percent_decoded(uri));
        }
        let index = usize::try_from(location.index?).ok()?;
        let uri = run.artifacts.get(index)?.location.as_ref()?.uri.as_deref()?;
        Some(percent_decoded(uri))
    }
}

impl Invocation<'_> {
    fn is_failure(&self) -> bool {
        self.execution_successful == Some(false)
    }
}

fn percent_decoded(uri: &str) -> String {
    let mut bytes = Vec::with_capacity(uri.len());
    let mut rest = uri.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let digits = (byte == b'%').then(|| Some((digit(ahead.next()?)?, digit(ahead.next()?)?)));
        if let Some(Some((high, low))) = digits {
            bytes.push(high << 4 | low);
            rest = ahead;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
