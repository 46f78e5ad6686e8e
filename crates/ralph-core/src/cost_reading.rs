//! What a session that a person works in has cost, and how much of that is known.

use crate::digest64::Digest64;
use crate::model_price::list_models;
use crate::units::{estimate_usd, format_usd};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The cost of a session since the run began, as of one stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostReading {
    /// From the token usage in the transcripts and list prices; `None` if no transcript could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_micro_usd: Option<u64>,
    /// The client's own figure, which only its status line has while the session is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_micro_usd: Option<u64>,
    /// Models that were used and whose price is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpriced: Vec<String>,
    /// Digest of the run's `meter.json`, which the next reading continues from.
    pub meter: Digest64,
}

/// How a person can give a model a price.
const PRICE_HINT: &str = "`[[price]]` in `~/.ralph/config.toml` sets one";

/// Says that a limit on the cost is off, because no model that is used has a known price.
pub fn unpriced_limit(most_micro_usd: u64, models: &[String]) -> String {
    let (most, models) = (format_usd(most_micro_usd), list_models(models));
    format!("the cost limit of {most} is off: no price is known for {models} ({PRICE_HINT})")
}

/// How a cost is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CostBasis {
    /// The client's own figure.
    #[default]
    Reported,
    /// Token usage times list prices.
    Estimated,
    /// An estimate without the models whose price is unknown.
    Incomplete,
    /// The client never reported a cost, so the worst case is assumed.
    Assumed,
    /// The client's own figure, and the worst case for turns whose cost it never reported.
    PartlyAssumed,
    Unknown,
}

impl CostBasis {
    /// The basis of a metered cost, of which `assumed_micro_usd` was never reported.
    pub fn of_metered(micro_usd: u64, assumed_micro_usd: u64) -> Self {
        match assumed_micro_usd {
            0 => Self::Reported,
            assumed if assumed >= micro_usd => Self::Assumed,
            _ => Self::PartlyAssumed,
        }
    }

    /// The basis of the agent's cost together with that of judges, which is always known: without the agent's own cost, it
    /// is only a part.
    pub fn with_judges(self, agent_micro_usd: Option<u64>, judges_micro_usd: u64) -> Self {
        if judges_micro_usd > 0 && agent_micro_usd.is_none() { Self::Incomplete } else { self }
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Estimated => "estimated",
            Self::Incomplete => "incomplete",
            Self::Assumed => "assumed",
            Self::PartlyAssumed => "partly_assumed",
            Self::Unknown => "unknown",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        let all = [
            Self::Reported,
            Self::Estimated,
            Self::Incomplete,
            Self::Assumed,
            Self::PartlyAssumed,
            Self::Unknown,
        ];
        all.into_iter().find(|basis| basis.name() == name)
    }

    /// An amount with its basis: `$1.82`, `≈ $1.82`, `~$4 assumed`. `None` if it is unknown.
    pub fn describe_cost(self, micro_usd: u64) -> Option<String> {
        let amount = format_usd(micro_usd);
        match self {
            Self::Reported => Some(amount),
            Self::Estimated => Some(estimate_usd(micro_usd)),
            Self::Incomplete => Some(format!("more than {}", estimate_usd(micro_usd))),
            Self::Assumed => Some(format!("~{amount} assumed")),
            Self::PartlyAssumed => Some(format!("~{amount} partly assumed")),
            Self::Unknown => None,
        }
    }

    /// As [`Self::describe_cost`], for a column: `~$4` for what is assumed, and `unknown`.
    pub fn column_text(self, micro_usd: Option<u64>) -> String {
        let text = micro_usd.and_then(|micro_usd| match self {
            Self::Assumed | Self::PartlyAssumed => Some(format!("~{}", format_usd(micro_usd))),
            Self::Reported | Self::Estimated | Self::Incomplete | Self::Unknown => {
                self.describe_cost(micro_usd)
            }
        });
        text.unwrap_or_else(|| String::from("unknown"))
    }
}

impl CostReading {
    /// The larger of both figures; `None` if nothing is known.
    pub fn spent_micro_usd(&self) -> Option<u64> {
        self.reported_micro_usd.max(self.priced_micro_usd())
    }

    /// The estimate, unless it is zero only because no call had a known price.
    fn priced_micro_usd(&self) -> Option<u64> {
        self.estimated_micro_usd.filter(|estimate| *estimate > 0 || self.unpriced.is_empty())
    }

    pub fn basis(&self) -> CostBasis {
        match (self.priced_micro_usd(), self.reported_micro_usd) {
            (None, None) => CostBasis::Unknown,
            // The reported figure counts all models, but it may be an old one.
            (Some(estimated), Some(reported)) if estimated > reported => {
                if self.unpriced.is_empty() { CostBasis::Estimated } else { CostBasis::Incomplete }
            }
            (_, Some(_)) => CostBasis::Reported,
            (Some(_), None) if self.unpriced.is_empty() => CostBasis::Estimated,
            (Some(_), None) => CostBasis::Incomplete,
        }
    }

    /// Why a limit on the cost does not work, or not for everything; `None` if it works.
    pub fn limit_gap(&self, most_micro_usd: u64) -> Option<String> {
        let (most, models) = (format_usd(most_micro_usd), list_models(&self.unpriced));
        match self.basis() {
            CostBasis::Reported
            | CostBasis::Estimated
            | CostBasis::Assumed
            | CostBasis::PartlyAssumed => None,
            CostBasis::Incomplete => Some(format!(
                "the cost limit of {most} does not count {models}: no price is known ({PRICE_HINT})"
            )),
            CostBasis::Unknown if self.unpriced.is_empty() => {
                Some(format!("the cost limit of {most} is off: the transcript cannot be read"))
            }
            CostBasis::Unknown => Some(unpriced_limit(most_micro_usd, &self.unpriced)),
        }
    }

    /// Neither figure ever goes down. The later list of models without a price replaces the earlier one, because a price
    /// may have been added.
    pub fn merge(&mut self, later: &Self) {
        self.estimated_micro_usd = self.estimated_micro_usd.max(later.estimated_micro_usd);
        self.reported_micro_usd = self.reported_micro_usd.max(later.reported_micro_usd);
        self.unpriced.clone_from(&later.unpriced);
        self.meter = later.meter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-V1k: the larger figure counts, and a limit that cannot be enforced is called off.
    #[test]
    fn the_larger_figure_counts_and_gaps_are_named() {
        let shown = [
            (None, None, &[][..]),
            (None, None, &["glm-5"]),
            (Some(0), None, &[]),
            (Some(0), None, &["glm-5"]),
            (Some(0), Some(1_500_000), &["glm-5"]),
            (Some(1_820_000), None, &[]),
            (Some(1_820_000), None, &["glm-5"]),
            (Some(1_820_000), Some(1_500_000), &["glm-5"]),
            (Some(1_820_000), Some(2_500_000), &[]),
            (None, Some(2_500_000), &[]),
        ]
        .map(|(estimated_micro_usd, reported_micro_usd, unpriced)| {
            let unpriced = unpriced.iter().map(|model| (*model).into()).collect();
            let reading = CostReading {
                estimated_micro_usd,
                reported_micro_usd,
                unpriced,
                meter: Digest64::default(),
            };
            let spent = reading.spent_micro_usd().map(format_usd);
            format!("{spent:?} {:?} {:?}", reading.basis(), reading.limit_gap(20_000_000))
        });
        assert_eq!(
            shown,
            [
                r#"None Unknown Some("the cost limit of $20 is off: the transcript cannot be read")"#,
                r#"None Unknown Some("the cost limit of $20 is off: no price is known for `glm-5` (`[[price]]` in `~/.ralph/config.toml` sets one)")"#,
                r#"Some("$0") Estimated None"#,
                r#"None Unknown Some("the cost limit of $20 is off: no price is known for `glm-5` (`[[price]]` in `~/.ralph/config.toml` sets one)")"#,
                r#"Some("$1.50") Reported None"#,
                r#"Some("$1.82") Estimated None"#,
                r#"Some("$1.82") Incomplete Some("the cost limit of $20 does not count `glm-5`: no price is known (`[[price]]` in `~/.ralph/config.toml` sets one)")"#,
                r#"Some("$1.82") Incomplete Some("the cost limit of $20 does not count `glm-5`: no price is known (`[[price]]` in `~/.ralph/config.toml` sets one)")"#,
                r#"Some("$2.50") Reported None"#,
                r#"Some("$2.50") Reported None"#,
            ]
        );
    }
}
