//! How many findings of each severity a gate may have.

use crate::requirement::FindingSeverity;
use crate::text;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The rule of a finding about too many findings.
pub const TOO_MANY_RULE: &str = "too-many-findings";

/// Thresholds of a gate. Without any, one error fails the gate, and warnings and notes never do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FindingLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<u32>,
}

/// Findings by severity. A security severity can raise the level that the tool gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeverityCounts {
    pub errors: u32,
    pub warnings: u32,
    pub notes: u32,
}

impl SeverityCounts {
    pub fn add(&mut self, severity: FindingSeverity) {
        let count = match severity {
            FindingSeverity::Error => &mut self.errors,
            FindingSeverity::Warning => &mut self.warnings,
            FindingSeverity::Note => &mut self.notes,
        };
        *count = count.saturating_add(1);
    }
}

impl FindingLimits {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The limits that these findings exceed: `3 warnings (limit 0)`.
    pub fn exceeded(&self, counts: &SeverityCounts) -> Vec<String> {
        let rows = [
            ("error", counts.errors, Some(self.errors.unwrap_or(0))),
            ("warning", counts.warnings, self.warnings),
            ("note", counts.notes, self.notes),
        ];
        rows.into_iter()
            .filter_map(|(noun, count, most)| {
                let most = most.filter(|most| count > *most)?;
                Some(format!("{} (limit {most})", text::count_noun(count, noun)))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_limited_even_if_only_another_severity_is() {
        let counts = SeverityCounts { errors: 1, warnings: 3, notes: 9 };
        for (limits, expected) in [
            ((None, None, None), "1 error (limit 0)"),
            ((Some(1), None, None), ""),
            ((Some(1), Some(3), Some(9)), ""),
            (
                (None, Some(1), Some(8)),
                "1 error (limit 0); 3 warnings (limit 1); 9 notes (limit 8)",
            ),
        ] {
            let (errors, warnings, notes) = limits;
            let limits = FindingLimits { errors, warnings, notes };
            assert_eq!(limits.exceeded(&counts).join("; "), expected);
        }
    }
}
