//! Reads SARIF 2.1.0, the format of static analysers.

use super::source_location::RawLocation;
use super::{FindingCollector, FindingDraft, ReportContext, doubtful_report, json_document};
use ralph_core::gate::ParsedReport;
use ralph_core::requirement::FindingSeverity;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;

type SarifText<'a> = Option<Cow<'a, str>>;

#[derive(Deserialize)]
struct SarifLogWire<'a> {
    #[serde(borrow)]
    runs: Vec<SarifRunWire<'a>>,
}

#[derive(Deserialize)]
struct SarifRunWire<'a> {
    /// Missing if the tool did not analyse anything.
    #[serde(borrow, default)]
    results: Option<Vec<SarifResultWire<'a>>>,
    #[serde(borrow, default)]
    tool: SarifToolWire<'a>,
    #[serde(borrow, default)]
    artifacts: Vec<SarifArtifactWire<'a>>,
    #[serde(borrow, default)]
    invocations: Vec<SarifInvocationWire<'a>>,
}

#[derive(Default, Deserialize)]
struct SarifToolWire<'a> {
    #[serde(borrow, default)]
    driver: SarifDriverWire<'a>,
    /// Rule packs, such as those of `CodeQL`.
    #[serde(borrow, default)]
    extensions: Vec<SarifDriverWire<'a>>,
}

#[derive(Default, Deserialize)]
struct SarifDriverWire<'a> {
    #[serde(borrow, default)]
    rules: Vec<SarifRuleWire<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifRuleWire<'a> {
    #[serde(borrow, default)]
    id: SarifText<'a>,
    #[serde(borrow, default)]
    default_configuration: Option<SarifConfigurationWire<'a>>,
    #[serde(borrow, default)]
    properties: Option<SarifPropertiesWire<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SarifPropertiesWire<'a> {
    /// A score from 0 to 10, as in CVSS.
    #[serde(borrow, default)]
    security_severity: Option<SarifScoreWire<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SarifScoreWire<'a> {
    Number(f64),
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(IgnoredAny),
}

/// A reference to a rule, in the tool itself or in one of its rule packs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifRuleReferenceWire<'a> {
    #[serde(borrow, default)]
    id: SarifText<'a>,
    #[serde(default)]
    index: Option<i64>,
    #[serde(default)]
    tool_component: Option<SarifComponentWire>,
}

#[derive(Deserialize)]
struct SarifComponentWire {
    #[serde(default)]
    index: Option<i64>,
}

#[derive(Deserialize)]
struct SarifConfigurationWire<'a> {
    #[serde(borrow, default)]
    level: SarifText<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifInvocationWire<'a> {
    #[serde(default)]
    execution_successful: Option<bool>,
    #[serde(borrow, default)]
    tool_execution_notifications: Vec<SarifNotificationWire<'a>>,
    #[serde(borrow, default)]
    tool_configuration_notifications: Vec<SarifNotificationWire<'a>>,
}

/// A message of the tool about itself, such as that it could not parse a file.
#[derive(Deserialize)]
struct SarifNotificationWire<'a> {
    #[serde(borrow, default)]
    level: SarifText<'a>,
    #[serde(borrow, default)]
    message: SarifMessageWire<'a>,
    #[serde(borrow, default)]
    locations: Vec<SarifLocationWire<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifResultWire<'a> {
    #[serde(borrow, default)]
    rule_id: SarifText<'a>,
    #[serde(default)]
    rule_index: Option<i64>,
    #[serde(borrow, default)]
    rule: Option<SarifRuleReferenceWire<'a>>,
    #[serde(borrow, default)]
    properties: Option<SarifPropertiesWire<'a>>,
    #[serde(borrow, default)]
    level: SarifText<'a>,
    #[serde(borrow, default)]
    kind: SarifText<'a>,
    #[serde(borrow, default)]
    baseline_state: SarifText<'a>,
    #[serde(borrow, default)]
    message: SarifMessageWire<'a>,
    #[serde(borrow, default)]
    locations: Vec<SarifLocationWire<'a>>,
    #[serde(borrow, default)]
    suppressions: Option<Vec<SarifSuppressionWire<'a>>>,
}

#[derive(Default, Deserialize)]
struct SarifMessageWire<'a> {
    #[serde(borrow, default)]
    text: SarifText<'a>,
    #[serde(borrow, default)]
    markdown: SarifText<'a>,
    #[serde(borrow, default)]
    id: SarifText<'a>,
}

#[derive(Deserialize)]
struct SarifSuppressionWire<'a> {
    #[serde(borrow, default)]
    status: SarifText<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifLocationWire<'a> {
    #[serde(borrow, default)]
    physical_location: Option<SarifPhysicalWire<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifPhysicalWire<'a> {
    #[serde(borrow, default)]
    artifact_location: Option<SarifArtifactLocationWire<'a>>,
    #[serde(default)]
    region: Option<SarifRegionWire>,
}

#[derive(Deserialize)]
struct SarifArtifactLocationWire<'a> {
    #[serde(borrow, default)]
    uri: SarifText<'a>,
    #[serde(default)]
    index: Option<i64>,
}

#[derive(Deserialize)]
struct SarifArtifactWire<'a> {
    #[serde(borrow, default)]
    location: Option<SarifArtifactLocationWire<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifRegionWire {
    #[serde(default)]
    start_line: Option<u32>,
    #[serde(default)]
    start_column: Option<u32>,
}

pub(super) fn read_sarif(text: &str, context: &ReportContext<'_>) -> ParsedReport {
    let log: SarifLogWire<'_> = match json_document::parse_document(text, '{') {
        Ok(log) => log,
        Err(unread) => return doubtful_report(unread.doubt()),
    };
    let mut found = FindingCollector::new(context);
    for run in &log.runs {
        for outcome in run.results.iter().flatten() {
            add_result(outcome, run, &mut found);
        }
        for invocation in &run.invocations {
            let configuration = &invocation.tool_configuration_notifications;
            for notification in invocation.tool_execution_notifications.iter().chain(configuration)
            {
                // Without a location it is a problem of the tool, not of the project.
                if notification.level.as_deref() == Some("error")
                    && !notification.locations.is_empty()
                {
                    add_at_first_location(
                        &notification.locations,
                        run,
                        (notification.draft(), FindingSeverity::Error),
                        &mut found,
                    );
                }
            }
        }
    }
    let doubt = if log.runs.is_empty() {
        Some("the report contains no run")
    } else if log.runs.iter().any(|run| run.results.is_none()) {
        Some("a run in the report has no results")
    } else if log.runs.iter().flat_map(|run| &run.invocations).any(SarifInvocationWire::is_failure)
    {
        Some("the report marks the tool's run as failed")
    } else {
        None
    };
    found.into_report(None, doubt)
}

fn add_result(
    outcome: &SarifResultWire<'_>,
    run: &SarifRunWire<'_>,
    found: &mut FindingCollector<'_>,
) {
    let rule = outcome.find_rule(run);
    let level = outcome
        .level
        .as_deref()
        .or_else(|| rule.and_then(|rule| rule.default_configuration.as_ref()?.level.as_deref()));
    let severity = match level {
        Some("error") => FindingSeverity::Error,
        Some("note") => FindingSeverity::Note,
        Some("none") => return,
        Some(_) | None => FindingSeverity::Warning,
    };
    if outcome.is_dismissed() {
        return;
    }
    let id = outcome.named_rule().or_else(|| rule.and_then(|rule| rule.id.as_deref()));
    let own = outcome.properties.as_ref().and_then(SarifPropertiesWire::score);
    let score = own.or_else(|| rule.and_then(|rule| rule.properties.as_ref()?.score()));
    let rule = id.unwrap_or_default();
    let counted = score.and_then(|score| score.raises(severity)).unwrap_or(severity);
    let words = outcome.message.text_or_id();
    let message = match score {
        Some(SecurityScore::Known(score)) => format!("{words} (security severity {score:.1})"),
        Some(SecurityScore::Unknown) => format!("{words} (unknown security severity)"),
        None => words.to_string(),
    };
    let message = message.as_str();
    let draft = FindingDraft { location: None, rule, message, severity };
    add_at_first_location(&outcome.locations, run, (draft, counted), found);
}

/// Adds a finding with the first of its locations.
fn add_at_first_location(
    locations: &[SarifLocationWire<'_>],
    run: &SarifRunWire<'_>,
    (draft, counted): (FindingDraft<'_>, FindingSeverity),
    found: &mut FindingCollector<'_>,
) {
    let physical = locations.first().and_then(|location| location.physical_location.as_ref());
    let file = physical.and_then(|physical| physical.file(run));
    let region = physical.and_then(|physical| physical.region.as_ref());
    let spot = file.as_deref().map(|file| RawLocation {
        file,
        line: region.and_then(|region| region.start_line).filter(|line| *line > 0),
        column: region.and_then(|region| region.start_column).filter(|column| *column > 0),
    });
    found.add_counted(&FindingDraft { location: spot, ..draft }, counted);
}

impl SarifMessageWire<'_> {
    fn text_or_id(&self) -> &str {
        let words = self.text.as_deref().or(self.markdown.as_deref()).or(self.id.as_deref());
        words.unwrap_or_default()
    }
}

impl SarifNotificationWire<'_> {
    fn draft(&self) -> FindingDraft<'_> {
        FindingDraft { message: self.message.text_or_id(), ..FindingDraft::default() }
    }
}

impl SarifResultWire<'_> {
    /// Whether the result is suppressed, absent since the baseline, or not a failure. A value that the format does not
    /// define dismisses nothing.
    fn is_dismissed(&self) -> bool {
        let is_accepted = |one: &SarifSuppressionWire<'_>| {
            matches!(one.status.as_deref(), None | Some("accepted"))
        };
        let suppressions = self.suppressions.as_deref().unwrap_or_default();
        !suppressions.is_empty() && suppressions.iter().all(is_accepted)
            || self.baseline_state.as_deref() == Some("absent")
            || matches!(self.kind.as_deref(), Some("pass" | "notApplicable" | "informational"))
    }

    fn named_rule(&self) -> Option<&str> {
        let referred = || self.rule.as_ref().and_then(|rule| rule.id.as_deref());
        self.rule_id.as_deref().or_else(referred)
    }

    fn find_rule<'r, 'a>(&self, run: &'r SarifRunWire<'a>) -> Option<&'r SarifRuleWire<'a>> {
        let component = self.rule.as_ref().and_then(|rule| rule.tool_component.as_ref()?.index);
        let pack = match component {
            Some(index) => run.tool.extensions.get(usize::try_from(index).ok()?)?,
            None => &run.tool.driver,
        };
        let index = self.rule.as_ref().and_then(|rule| rule.index).or(self.rule_index);
        if let Some(index) = index.filter(|index| *index >= 0) {
            return usize::try_from(index).ok().and_then(|index| pack.rules.get(index));
        }
        // Limited, because there may be many rules and many results. Reports without an index are small in practice.
        let id = self.named_rule()?;
        let packs = [&run.tool.driver].into_iter().chain(&run.tool.extensions);
        let mut rules = packs.flat_map(|pack| &pack.rules).take(1_000);
        rules.find(|rule| rule.id.as_deref() == Some(id))
    }
}

/// A security severity: 9 and above is critical, 7 high, 4 medium.
#[derive(Clone, Copy)]
enum SecurityScore {
    /// From 0 to 10.
    Known(f64),
    /// Not a number from 0 to 10, so it counts as the highest.
    Unknown,
}

impl SecurityScore {
    /// The severity that it stands for, if that is higher than the tool's own level.
    fn raises(self, level: FindingSeverity) -> Option<FindingSeverity> {
        let severity = match self {
            Self::Unknown => FindingSeverity::Error,
            Self::Known(score) if score >= 7.0 => FindingSeverity::Error,
            Self::Known(score) if score >= 4.0 => FindingSeverity::Warning,
            Self::Known(_) => FindingSeverity::Note,
        };
        // The highest severity comes first.
        ((severity as u8) < level as u8).then_some(severity)
    }
}

impl SarifPropertiesWire<'_> {
    fn score(&self) -> Option<SecurityScore> {
        let score = match self.security_severity.as_ref()? {
            SarifScoreWire::Number(score) => Some(*score),
            SarifScoreWire::Text(text) => text.trim().parse().ok(),
            SarifScoreWire::Other(_) => None,
        };
        let known = score.filter(|score| (0.0..=10.0).contains(score));
        Some(known.map_or(SecurityScore::Unknown, SecurityScore::Known))
    }
}

impl SarifPhysicalWire<'_> {
    fn file(&self, run: &SarifRunWire<'_>) -> Option<String> {
        let location = self.artifact_location.as_ref()?;
        if let Some(uri) = location.uri.as_deref() {
            return Some(percent_decode(uri));
        }
        let index = usize::try_from(location.index?).ok()?;
        let uri = run.artifacts.get(index)?.location.as_ref()?.uri.as_deref()?;
        Some(percent_decode(uri))
    }
}

impl SarifInvocationWire<'_> {
    fn is_failure(&self) -> bool {
        self.execution_successful == Some(false)
    }
}

fn percent_decode(uri: &str) -> String {
    let mut bytes = Vec::with_capacity(uri.len());
    let mut rest = uri.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let digits =
            (byte == b'%').then(|| Some((hex_digit(ahead.next()?)?, hex_digit(ahead.next()?)?)));
        if let Some(Some((high, low))) = digits {
            bytes.push(high << 4 | low);
            rest = ahead;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
