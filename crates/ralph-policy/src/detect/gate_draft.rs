//! A gate before it is proposed, with what it checks and which commands it covers.

use std::path::PathBuf;

use ralph_core::gate::{Gate, GateInvocation, MinTests, ReportFormat};
use ralph_core::requirement::{RequirementStage, RequirementWeight};

use super::project_dir::ProjectDir;
use super::{ProposalConfidence, ProposedGate, ToolLookup};

/// What a gate checks. Two gates of one aspect in one directory would be redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateAspect {
    Test,
    Types,
    Build,
    Lint,
    Format,
    Audit,
    /// Several aspects at once, such as `make check`.
    Whole,
}

/// A gate that may be proposed.
#[derive(Clone, Debug)]
pub(super) struct GateDraft {
    pub(super) gate: Gate,
    pub(super) aspect: GateAspect,
    pub(super) stack: &'static str,
    /// Commands that this gate makes redundant, in the form of `canonical_command`.
    pub(super) covers: Vec<String>,
    pub(super) tool: ToolLookup,
    why: String,
    source: String,
    confidence: ProposalConfidence,
}

impl GateAspect {
    fn stage(self) -> RequirementStage {
        match self {
            Self::Test | Self::Types | Self::Build | Self::Whole => RequirementStage::Correctness,
            Self::Lint | Self::Format => RequirementStage::Quality,
            Self::Audit => RequirementStage::Security,
        }
    }

    fn minutes(self) -> u64 {
        match self {
            Self::Format => 2,
            Self::Types | Self::Lint | Self::Audit => 5,
            Self::Test | Self::Build => 10,
            Self::Whole => 20,
        }
    }
}

impl GateDraft {
    /// A gate that runs `command` in `place`.
    pub(super) fn new(
        place: &ProjectDir<'_>,
        name: &str,
        aspect: GateAspect,
        command: GateInvocation,
    ) -> Self {
        let tool = match &command {
            GateInvocation::Argv(words) => {
                place.find_tool(words.first().map(String::as_str).unwrap_or_default())
            }
            GateInvocation::Shell(_) => place.find_tool("sh"),
        };
        let gate = Gate {
            stage: aspect.stage(),
            cwd: place.cwd.clone(),
            timeout_ms: aspect.minutes() * 60_000,
            ..Gate::new(name, command)
        };
        Self {
            gate,
            aspect,
            stack: "",
            covers: Vec::new(),
            tool,
            why: String::new(),
            source: String::new(),
            confidence: ProposalConfidence::Certain,
        }
    }

    pub(super) fn from_words(
        place: &ProjectDir<'_>,
        name: &str,
        aspect: GateAspect,
        words: &[&str],
    ) -> Self {
        let words = words.iter().map(ToString::to_string).collect();
        Self::new(place, name, aspect, GateInvocation::Argv(words))
    }

    /// Sets the reason for the gate and the file it is derived from.
    pub(super) fn with_reason(mut self, source: &str, why: String) -> Self {
        self.source = source.to_string();
        self.why = why;
        self
    }

    pub(super) fn with_report(mut self, format: ReportFormat) -> Self {
        self.gate.report = format;
        // A baseline is useful only if the report is sure to count tests.
        if format.counts_tests() { self.with_counted_tests() } else { self }
    }

    /// The report consists of several files of `JUnit`.
    pub(super) fn with_report_files(mut self, globs: &[&str]) -> Self {
        self.gate.report_files = globs.iter().map(ToString::to_string).collect();
        self.with_report(ReportFormat::Junit)
    }

    /// Requires as many tests as at the start of a run.
    pub(super) fn with_counted_tests(mut self) -> Self {
        self.gate.min_tests = MinTests::Baseline;
        self
    }

    pub(super) fn with_paths(mut self, globs: &[&str]) -> Self {
        self.gate.paths = globs.iter().map(ToString::to_string).collect();
        self
    }

    pub(super) fn with_tool(mut self, tool: ToolLookup) -> Self {
        self.tool = tool;
        self
    }

    pub(super) fn covering(mut self, essences: &[&str]) -> Self {
        self.covers.extend(essences.iter().map(ToString::to_string));
        self
    }

    pub(super) fn likely(mut self) -> Self {
        self.confidence = ProposalConfidence::Likely;
        self
    }

    pub(super) fn advisory(mut self) -> Self {
        self.gate.weight = RequirementWeight::Advisory;
        self
    }

    /// Whether the gate is derived from this file, relative to the project.
    pub(super) fn is_from(&self, file: &str) -> bool {
        self.source == file
    }

    pub(super) fn with_stack(mut self, stack: &'static str) -> Self {
        self.stack = stack;
        self
    }

    pub(super) fn into_proposal(self) -> ProposedGate {
        ProposedGate {
            gate: self.gate,
            why: self.why,
            source: PathBuf::from(self.source),
            confidence: self.confidence,
            tool: self.tool,
        }
    }
}

/// Gives every gate a unique name: below the root it is prefixed with the directory, at the root with the stack if two
/// names clash.
pub(super) fn assign_unique_names(drafts: &mut [GateDraft]) {
    let at_root: Vec<_> = drafts
        .iter()
        .filter(|draft| draft.gate.cwd.is_empty())
        .map(|draft| (slug(&draft.gate.name), draft.stack))
        .collect();
    let mut taken: Vec<String> = Vec::new();
    for draft in drafts {
        let plain = slug(&draft.gate.name);
        let clashes = at_root.iter().any(|(name, stack)| *name == plain && *stack != draft.stack);
        let wanted = match (draft.gate.cwd.as_str(), draft.stack) {
            ("", stack) if clashes && !stack.is_empty() => format!("{stack}-{plain}"),
            ("", _) => plain,
            (cwd, _) => slug(&format!("{cwd}-{plain}")),
        };
        let mut name = wanted.clone();
        let mut number = 2;
        while taken.contains(&name) {
            name = format!("{wanted}-{number}");
            number += 1;
        }
        taken.push(name.clone());
        draft.gate.name = name;
    }
}

/// Reduces a text to letters, digits, `-`, `_` and `.`, at most 48 of them, which leaves room for a prefix or suffix.
pub(super) fn slug(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        let is_inner = matches!(char, '_' | '.') && out.ends_with(|last: char| last != '-');
        if char.is_ascii_alphanumeric() || is_inner {
            out.push(char.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(48);
    let out = out.trim_matches(['-', '.', '_']);
    if out.is_empty() { "gate".to_string() } else { out.to_string() }
}
