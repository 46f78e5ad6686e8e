//! The requirement that a judge's verdict amounts to, and what people and agents read about it.

use crate::judge::{
    DropReason, DroppedFinding, Judge, JudgeBackend, JudgeFinding, JudgeKind, JudgeOutcome,
    JudgeResult,
};
use crate::request_address::RequestAddress;
use crate::requirement::{
    EvidenceKind, Finding, FindingLocation, FindingSeverity, PendingReason, Requirement,
    RequirementFailure, RequirementStage, RequirementStatus, RequirementWeight,
};
use crate::text;
use crate::units::{format_duration, format_tokens};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// How many findings of a verdict a requirement holds.
const MAX_FINDINGS: usize = 50;
const MAX_SHOWN_COMMAND_CHARS: usize = 200;

impl JudgeKind {
    pub const NAMES: &'static [&'static str] =
        &["prompt", "agent", "adversarial", "plan", "goal", "amended"];

    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Agent => "agent",
            Self::Adversarial => "adversarial",
            Self::Plan => "plan",
            Self::Goal => "goal",
            Self::Amended => "amended",
        }
    }
}

impl JudgeOutcome {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Unmet => "unmet",
            Self::Impossible => "impossible",
            Self::Unknown { .. } => "unknown",
        }
    }
}

impl JudgeBackend {
    /// Where on this machine it is asked without encryption.
    pub fn loopback_authority(&self) -> Option<&str> {
        match self {
            Self::Http(endpoint) => RequestAddress::loopback_authority(&endpoint.url),
            Self::Command(_) | Self::Host(_) => None,
        }
    }

    /// What is started or called, as a person reads it before the approval. The key is never part of it.
    pub fn describe(&self) -> String {
        match self {
            Self::Command(words) => {
                let words: Vec<String> =
                    words.iter().map(|word| crate::gate::shell_quote(word)).collect();
                words.join(" ")
            }
            Self::Host(host) => {
                let model = host.model.as_deref().unwrap_or("its default model");
                format!("{} (headless, read-only, {model})", host.host)
            }
            Self::Http(endpoint) => {
                let key = match &endpoint.key {
                    Some(name) => format!(", key from ${name}"),
                    None => String::new(),
                };
                format!("POST {} (model {}{key})", endpoint.url, endpoint.model)
            }
        }
    }
}

impl Judge {
    pub fn is_required(&self) -> bool {
        self.weight == RequirementWeight::Required
    }

    /// Whether it is asked about runs of this complexity. If none is stated, every judge is.
    pub fn applies_to_complexity(&self, complexity: Option<u8>) -> bool {
        self.min_complexity <= complexity.unwrap_or(u8::MAX)
    }

    /// `adversarial judge, ./judge`
    pub fn describe(&self) -> String {
        let backend = text::clean_line(&self.backend.describe(), MAX_SHOWN_COMMAND_CHARS);
        format!("{} judge, {backend}", self.kind.name())
    }

    /// `adversarial, required, 2 reviewers, at most 20 k tokens and 5 min for a verdict`
    pub fn describe_limits(&self) -> String {
        let weight = if self.is_required() { "required" } else { "advisory" };
        let mut parts = alloc::vec![self.kind.name().to_string(), weight.to_string()];
        if self.counts {
            parts.push("its verdict can make a run verified".to_string());
        }
        if self.kind == JudgeKind::Adversarial {
            parts.push(text::count_noun(self.reviewers, "reviewer"));
        }
        let (tokens, time) = (format_tokens(self.max_tokens), format_duration(self.timeout_ms));
        parts.push(format!("at most {tokens} and {time} for a verdict"));
        parts.extend(self.prompt_file.iter().map(|file| format!("instructions from `{file}`")));
        text::clean_line(&text::reveal(&parts.join(", ")), MAX_SHOWN_COMMAND_CHARS)
    }

    pub fn requirement(&self, result: &JudgeResult) -> Requirement {
        self.requirement_with(match &result.outcome {
            JudgeOutcome::Met => RequirementStatus::Met(EvidenceKind::Judged),
            // Without a finding the agent has nothing to work on, and no one can check the verdict.
            JudgeOutcome::Unmet if result.findings.is_empty() => {
                RequirementStatus::Unknown(match describe_dropped(result) {
                    Some(dropped) => {
                        format!("it answered unmet, but no finding is left ({dropped})")
                    }
                    None => "it answered unmet without a finding".to_string(),
                })
            }
            JudgeOutcome::Unmet => RequirementStatus::Unmet(Self::failure(result)),
            JudgeOutcome::Impossible => {
                let summary = "the goal cannot be met as stated".to_string();
                RequirementStatus::Unmet(RequirementFailure { summary, ..Self::failure(result) })
            }
            JudgeOutcome::Unknown { why } => RequirementStatus::Unknown(why.clone()),
        })
    }

    pub fn requirement_with(&self, status: RequirementStatus) -> Requirement {
        let next = match &status {
            RequirementStatus::Met(_)
            | RequirementStatus::Pending(
                PendingReason::NotReached(_) | PendingReason::AwaitsPerson(_),
            ) => String::new(),
            RequirementStatus::Unknown(_) => {
                format!("Leave the work as it is; {} is asked once more", self.name)
            }
            RequirementStatus::Unmet(_) => format!(
                "Fix what {} found; if a finding is wrong, dispute it with `ralph dispute {} \"…\"`",
                self.name, self.name
            ),
            RequirementStatus::Pending(PendingReason::Running(_)) => {
                "Wait for the judge with `ralph wait`".to_string()
            }
        };
        Requirement {
            name: self.name.clone(),
            stage: RequirementStage::Judged(self.kind),
            status,
            weight: self.weight,
            next,
        }
    }

    fn failure(result: &JudgeResult) -> RequirementFailure {
        let count = text::count_noun(result.findings.len(), "finding");
        let dropped = describe_dropped(result).map(|text| format!(", {text}")).unwrap_or_default();
        RequirementFailure {
            findings: result.findings.iter().take(MAX_FINDINGS).map(finding_of).collect(),
            unlisted: result.findings.len().saturating_sub(MAX_FINDINGS),
            ..RequirementFailure::new(format!("{count}{dropped}"))
        }
    }
}

/// How many findings of a verdict do not count, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedFindings {
    pub misquoted: u32,
    pub unconfirmed: u32,
    pub unread: u32,
}

impl DroppedFindings {
    /// `2 misquoted and dropped, 1 unconfirmed and dropped, 3 more not read`; `None` without any.
    pub fn describe(self) -> Option<String> {
        let parts = [
            (self.misquoted, "misquoted and dropped"),
            (self.unconfirmed, "unconfirmed and dropped"),
            (self.unread, "more not read"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// How many dropped findings of a verdict are kept.
pub const MAX_DROPPED: usize = 4;
const MAX_DROPPED_CLAIM_CHARS: usize = 160;
const MAX_DROPPED_FILE_CHARS: usize = 100;

impl DroppedFinding {
    /// The finding may have secrets. `safe` cleans and redacts.
    pub fn new(finding: &JudgeFinding, why: DropReason, safe: impl Fn(&str) -> String) -> Self {
        let line = |foreign: &str, most| text::clean_line(&safe(foreign), most);
        Self {
            file: line(&finding.file, MAX_DROPPED_FILE_CHARS),
            line: finding.line,
            claim: line(&finding.claim, MAX_DROPPED_CLAIM_CHARS),
            why,
        }
    }

    /// `add.sh:9: made up (its quote is not in the file)`
    pub fn describe(&self) -> String {
        let why = match self.why {
            DropReason::BadPath => "its path is not inside the project",
            DropReason::NoQuote => "it quotes nothing",
            DropReason::Misquoted => "its quote is not in the file",
            DropReason::Unconfirmed => "no other reviewer confirmed it",
        };
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{}{line}: {} ({why})", self.file, self.claim)
    }
}

/// The words of a judge in quotation marks that they cannot close.
pub fn quote_reason(reason: &str, max_chars: usize) -> String {
    format!("\"{}\"", text::clean_line(&reason.replace('"', "'"), max_chars))
}

fn describe_dropped(result: &JudgeResult) -> Option<String> {
    let JudgeResult { misquoted, unconfirmed, unread, .. } = *result;
    DroppedFindings { misquoted, unconfirmed, unread }.describe()
}

fn finding_of(finding: &JudgeFinding) -> Finding {
    let place = (!finding.file.is_empty()).then(|| FindingLocation {
        file: finding.file.clone(),
        line: finding.line,
        column: None,
    });
    let rule = match finding.severity {
        FindingSeverity::Error => None,
        FindingSeverity::Warning => Some("warning".to_string()),
        FindingSeverity::Note => Some("note".to_string()),
    };
    let message = match &finding.shown_by {
        Some(test) => format!("{} (shown by a test that fails: {test})", finding.claim),
        None => finding.claim.clone(),
    };
    Finding { place, rule, severity: finding.severity, ..Finding::new(message) }
}
