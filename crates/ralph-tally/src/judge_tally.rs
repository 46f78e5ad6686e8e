//! What the judges of a run said, and what that cost.

use crate::journal_line::JudgeLine;
use serde::{Deserialize, Serialize};

/// A run has a few judges. The verdicts of further ones are not counted.
const MAX_JUDGES: usize = 100;
const MAX_NAME_BYTES: usize = 200;

/// The verdicts of one judge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeTally {
    pub name: String,
    pub kind: String,
    pub verdicts: u32,
    pub cached: u32,
    pub met: u32,
    pub unmet: u32,
    pub impossible: u32,
    pub no_verdict: u32,
    /// Findings that were dropped because their quote is not in the file. Cached verdicts do not count.
    pub misquoted: u32,
    /// Findings that were dropped because no other reviewer confirmed them. Cached verdicts do not count.
    pub unconfirmed: u32,
    pub calls: u32,
    pub tokens: u64,
    /// `None` while no cost is known.
    pub micro_usd: Option<u64>,
    pub took_ms: u64,
}

/// All judges of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeTallies(pub Vec<JudgeTally>);

impl JudgeTallies {
    pub(crate) fn add(&mut self, line: &JudgeLine<'_>) {
        if line.prompt_hash.is_none() {
            return;
        }
        let Some(judge) = self.judge(line.name.as_str(), line.kind.as_str()) else { return };
        let outcome = match line.outcome.as_str() {
            "met" => &mut judge.met,
            "unmet" => &mut judge.unmet,
            "impossible" => &mut judge.impossible,
            _ => &mut judge.no_verdict,
        };
        *outcome = outcome.saturating_add(1);
        judge.verdicts = judge.verdicts.saturating_add(1);
        if line.cached {
            judge.cached = judge.cached.saturating_add(1);
            return;
        }
        judge.misquoted = judge.misquoted.saturating_add(line.misquoted);
        judge.unconfirmed = judge.unconfirmed.saturating_add(line.unconfirmed);
        judge.calls = judge.calls.saturating_add(line.calls);
        let tokens = line.input_tokens.saturating_add(line.output_tokens);
        judge.tokens = judge.tokens.saturating_add(tokens);
        if let Some(cost) = line.micro_usd {
            judge.micro_usd = Some(judge.micro_usd.unwrap_or(0).saturating_add(cost));
        }
        judge.took_ms = judge.took_ms.saturating_add(line.took_ms);
    }

    fn judge(&mut self, name: &str, kind: &str) -> Option<&mut JudgeTally> {
        let known = self.0.iter().position(|judge| judge.name == name);
        let at = match known {
            Some(at) => at,
            None if self.0.len() >= MAX_JUDGES || name.len() > MAX_NAME_BYTES => return None,
            None => {
                let (name, kind) = (name.to_string(), kind.to_string());
                self.0.push(JudgeTally { name, kind, ..JudgeTally::default() });
                self.0.len() - 1
            }
        };
        self.0.get_mut(at)
    }
}
