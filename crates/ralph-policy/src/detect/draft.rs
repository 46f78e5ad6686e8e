//! A gate before it is proposed, with what it checks and which commands it covers.

use std::path::PathBuf;

use ralph_core::gate::{Command, Format, Gate, MinTests, Moment, Rerun};
use ralph_core::requirement::{Stage, Weight};

use super::place::Place;
use super::{Confidence, Proposal, Tool};

/// What a gate checks. Two gates of one aspect in one directory would be redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aspect {
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
pub(super) struct Draft {
    pub(super) gate: Gate,
    pub(super) aspect: Aspect,
    pub(super) stack: &'static str,
    /// Commands that this gate makes redundant, in the form of `canonical_command`.
    pub(super) covers: Vec<String>,
    pub(super) tool: Tool,
    why: String,
    source: String,
    confidence: Confidence,
}

impl Aspect {
    fn stage(self) -> Stage {
        match self {
            Self::Test | Self::Types | Self::Build | Self::Whole => Stage::Correctness,
            Self::Lint | Self::Format => Stage::Quality,
            Self::Audit => Stage::Security,
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

impl Draft {
    /// A gate that runs `command` in `place`.
    pub(super) fn new(place: &Place<'_>, name: &str, aspect: Aspect, command: Command) -> Self {
        let tool = match &command {
            Command::Argv(words) => {
                place.tool(words.first().map(String::as_str).unwrap_or_default())
            }
            Command::Shell(_) => place.tool("sh"),
        };
        let gate = Gate {
            name: name.to_string(),
            stage: aspect.stage(),
            command,
            cwd: place.cwd.clone(),
            timeout_ms: aspect.minutes() * 60_000,
            paths: Vec::new(),
            when: Vec::new(),
            on: vec![Moment::Stop],
            min_complexity: 0,
            weight: Weight::Required,
            report: Format::Text,
            min_tests: MinTests::Some,
            rerun: Rerun::Tests,
            env: Vec::new(),
        };
        Self {
            gate,
            aspect,
            stack: "",
            covers: Vec::new(),
            tool,
            why: String::new(),
            source: String::new(),
            confidence: Confidence::Certain,
        }
    }

    pub(super) fn argv(place: &Place<'_>, name: &str, aspect: Aspect, words: &[&str]) -> Self {
        let words = words.iter().map(ToString::to_string).collect();
        Self::new(place, name, aspect, Command::Argv(words))
    }

    /// Sets the reason for the gate and the file it is derived from.
    pub(super) fn because(mut self, source: &str, why: String) -> Self {
        self.source = source.to_string();
        self.why = why;
        self
    }

    pub(super) fn report(mut self, format: Format) -> Self {
        self.gate.report = format;
        // A baseline is useful only if the report is sure to count tests.
        let counted = match format {
            Format::Junit | Format::GoTestJson | Format::Tap | Format::Pytest => true,
            Format::Text
            | Format::Sarif
            | Format::CargoJson
            | Format::EslintJson
            | Format::Tsc
            | Format::None => false,
        };
        if counted { self.counting() } else { self }
    }

    /// Requires as many tests as at the start of a run.
    pub(super) fn counting(mut self) -> Self {
        self.gate.min_tests = MinTests::Baseline;
        self
    }

    pub(super) fn paths(mut self, globs: &[&str]) -> Self {
        self.gate.paths = globs.iter().map(ToString::to_string).collect();
        self
    }

    pub(super) fn needs(mut self, tool: Tool) -> Self {
        self.tool = tool;
        self
    }

    pub(super) fn covers(mut self, essences: &[&str]) -> Self {
        self.covers.extend(essences.iter().map(ToString::to_string));
        self
    }

    pub(super) fn likely(mut self) -> Self {
        self.confidence = Confidence::Likely;
        self
    }

    pub(super) fn advisory(mut self) -> Self {
        self.gate.weight = Weight::Advisory;
        self
    }

    pub(super) fn of(mut self, stack: &'static str) -> Self {
        self.stack = stack;
        self
    }

    pub(super) fn into_proposal(self) -> Proposal {
        Proposal {
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
pub(super) fn name_apart(drafts: &mut [Draft]) {
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
