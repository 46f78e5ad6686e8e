//! The options that set limits, for each command that has them, and how they become [`LimitOverrides`].

use crate::value_parsers::{
    parse_count, parse_duration, parse_micro_usd, parse_permille, parse_tokens,
};
use clap::Args;
use ralph_core::limits::LimitOverrides;

/// The limits of a run, for both `ralph start` and `ralph run`.
#[derive(Args, Clone, Default)]
pub(crate) struct LimitArgs {
    /// Hold the agent at most N times; 0: no limit [default: policy, or 25]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub max_iterations: Option<u32>,
    /// Hold the agent at least N times, even when everything is met
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub min_iterations: Option<u32>,
    /// End after a time such as `90m`; 0: no limit [default: policy, or 8h]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub max_duration: Option<u64>,
    /// Spend at most this from now on; 0: no limit [default: policy, or 20]
    #[arg(
        long,
        visible_alias = "max-cost",
        value_name = "USD",
        allow_negative_numbers = true,
        value_parser = parse_micro_usd
    )]
    pub max_cost_usd: Option<u64>,
    /// End after N stops in a row without progress [default: policy, or 3]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub stuck_after: Option<u32>,
}

impl LimitArgs {
    pub(crate) fn overrides(&self) -> LimitOverrides {
        LimitOverrides {
            max_iterations: self.max_iterations,
            min_iterations: self.min_iterations,
            max_duration_ms: self.max_duration,
            max_cost_micro_usd: self.max_cost_usd,
            stuck_after: self.stuck_after,
            ..LimitOverrides::default()
        }
    }
}

/// The limits of a run that ralph drives.
#[derive(Args, Clone, Default)]
pub(crate) struct DrivenLimitArgs {
    #[command(flatten)]
    pub shared: LimitArgs,
    /// Use at most N tokens over all sessions, such as `2M`; 0: no limit
    #[arg(long, value_name = "N", value_parser = parse_tokens)]
    pub max_tokens: Option<u64>,
    /// Hand over when the context is this full [default: policy, or 0.8]
    #[arg(long, value_name = "SHARE", value_parser = parse_permille)]
    pub handover_at: Option<u16>,
}

impl DrivenLimitArgs {
    pub(crate) fn overrides(&self) -> LimitOverrides {
        LimitOverrides {
            max_tokens: self.max_tokens,
            handover_at_permille: self.handover_at,
            ..self.shared.overrides()
        }
    }
}

/// The limits of an existing run, which count from its start.
#[derive(Args)]
pub(crate) struct TotalLimitArgs {
    /// Hold the agent at most N times in total; 0: no limit
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub max_iterations: Option<u32>,
    /// Hold the agent at least N times, even when everything is met
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub min_iterations: Option<u32>,
    /// End after this total time, such as `90m`; 0: no limit
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub max_duration: Option<u64>,
    /// Spend at most this in total; 0: no limit
    #[arg(
        long,
        visible_alias = "max-cost",
        value_name = "USD",
        allow_negative_numbers = true,
        value_parser = parse_micro_usd
    )]
    pub max_cost_usd: Option<u64>,
    /// Use at most N tokens in total, such as `2M` (driven runs); 0: no limit
    #[arg(long, value_name = "N", value_parser = parse_tokens)]
    pub max_tokens: Option<u64>,
    /// End after N stops in a row without progress
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub stuck_after: Option<u32>,
}

impl TotalLimitArgs {
    pub(crate) fn overrides(&self) -> LimitOverrides {
        LimitOverrides {
            max_iterations: self.max_iterations,
            min_iterations: self.min_iterations,
            max_duration_ms: self.max_duration,
            max_cost_micro_usd: self.max_cost_usd,
            max_tokens: self.max_tokens,
            stuck_after: self.stuck_after,
            ..LimitOverrides::default()
        }
    }
}
