//! What calls of a model cost: token counts times list prices. The prices are data of the `ralph-policy` crate.

use crate::text;
use crate::wildcard::matches_wildcard;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Prices in millionths of a dollar per million tokens, which is the same number in 10⁻¹² dollars per token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRates {
    pub input: u64,
    pub output: u64,
    pub cache_write_5m: u64,
    pub cache_write_1h: u64,
    pub cache_read: u64,
}

/// The prices of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPrice {
    /// A canonical name, or a wildcard.
    pub model: String,
    pub rates: TokenRates,
    /// For calls at a higher speed, if they have a price of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast: Option<TokenRates>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPromptPrice>,
}

/// The prices of calls with more input tokens than this, cached ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongPromptPrice {
    pub above_tokens: u64,
    pub rates: TokenRates,
}

/// The usage of one call, as the provider billed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallUsage {
    pub model: String,
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write_5m: u64,
    pub cache_write_1h: u64,
    pub web_searches: u64,
    pub is_fast: bool,
    /// Whether the call was restricted to one region, which costs a tenth more.
    pub is_regional: bool,
}

const MAX_MODEL_CHARS: usize = 100;

/// The name of a model in messages and records. Hosts and transcripts may name anything.
pub fn shown_model(model: &str) -> String {
    text::clean_line(model, MAX_MODEL_CHARS)
}

/// All known prices. The first that matches a model applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceTable {
    pub prices: Vec<ModelPrice>,
    /// The price of a web search, in millionths of a dollar.
    pub web_search_micro_usd: u64,
}

impl TokenRates {
    /// In 10⁻¹² dollars.
    fn cost_of(&self, usage: &CallUsage) -> u128 {
        let parts = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.cache_read),
            (usage.cache_write_5m, self.cache_write_5m),
            (usage.cache_write_1h, self.cache_write_1h),
        ];
        parts.into_iter().fold(0, |sum: u128, (tokens, rate)| {
            sum.saturating_add(u128::from(tokens).saturating_mul(rate.into()))
        })
    }
}

impl CallUsage {
    fn prompt_tokens(&self) -> u64 {
        [self.cache_read, self.cache_write_5m, self.cache_write_1h]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }
}

impl ModelPrice {
    fn rates_for(&self, usage: &CallUsage) -> &TokenRates {
        match (&self.fast, &self.long_prompt) {
            (Some(fast), _) if usage.is_fast => fast,
            (_, Some(long)) if usage.prompt_tokens() > long.above_tokens => &long.rates,
            (_, _) => &self.rates,
        }
    }
}

impl PriceTable {
    /// The price of a model under any of the names that providers give it.
    pub fn find(&self, model: &str) -> Option<&ModelPrice> {
        let canonical = canonical_model(model);
        let is_meant = |price: &&ModelPrice| {
            let pattern = price.model.as_bytes();
            matches_wildcard(pattern, model.as_bytes())
                || matches_wildcard(pattern, canonical.as_bytes())
        };
        self.prices.iter().find(is_meant)
    }

    /// The cost of a call in 10⁻⁹ dollars, rounded up; `None` if the model has no known price.
    pub fn nano_usd(&self, usage: &CallUsage) -> Option<u64> {
        let tokens = self.find(&usage.model)?.rates_for(usage).cost_of(usage);
        let tenths: u128 = if usage.is_regional { 11 } else { 10 };
        let tokens = tokens.saturating_mul(tenths).div_ceil(10_000);
        let searches =
            u128::from(usage.web_searches).saturating_mul(self.web_search_micro_usd.into());
        let nano = tokens.saturating_add(searches.saturating_mul(1000));
        Some(u64::try_from(nano).unwrap_or(u64::MAX))
    }
}

/// The name of a model without the decoration that providers and clients add: `us.anthropic.claude-opus-4-1-20250805-v1:0`,
/// `claude-opus-4-1@20250805` and `anthropic/claude-opus-4.1[1m]` are all `claude-opus-4-1`. Other vendors' names stay
/// as they are.
pub fn canonical_model(model: &str) -> String {
    const FAMILY: &str = "claude-";
    let Some(at) = model.find(FAMILY) else { return model.to_string() };
    let name = &model[at..];
    let name = name.split(['[', '@', ':']).next().unwrap_or(name);
    let name = name.strip_suffix("-latest").unwrap_or(name);
    let name = strip_number(name, "-v", 1..=2);
    let name = strip_number(name, "-", 8..=8);
    let name = name.replace('.', "-");
    // The first models of a generation were named without a minor version.
    match name.strip_suffix("-0") {
        Some(major) if major.ends_with(|last: char| last.is_ascii_digit()) => major.to_string(),
        Some(_) | None => name,
    }
}

/// Removes a number of that many digits, and what precedes it, from the end of a name.
fn strip_number<'a>(
    name: &'a str,
    before: &str,
    digits: core::ops::RangeInclusive<usize>,
) -> &'a str {
    let rest = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let is_number = digits.contains(&(name.len() - rest.len()));
    rest.strip_suffix(before).filter(|_| is_number).unwrap_or(name)
}

/// Names of models in a sentence: `` `a`, `b` and 2 more ``.
pub fn list_models(models: &[String]) -> String {
    const SHOWN: usize = 2;
    let names: Vec<_> = models.iter().take(SHOWN).map(|model| format!("`{model}`")).collect();
    match models.len().saturating_sub(SHOWN) {
        0 => names.join(" and "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_model_are_the_same_model() {
        for (names, expected) in [
            (
                &[
                    "claude-opus-4-1",
                    "claude-opus-4-1-20250805",
                    "claude-opus-4-1-latest",
                    "claude-opus-4-1@20250805",
                    "claude-opus-4-1-20250805[1m]",
                    "us.anthropic.claude-opus-4-1-20250805-v1:0",
                    "anthropic/claude-opus-4.1",
                    "arn:aws:bedrock:eu-west-1::foundation-model/anthropic.claude-opus-4-1-20250805-v1:0",
                ][..],
                "claude-opus-4-1",
            ),
            (
                &["claude-sonnet-4-20250514", "claude-sonnet-4-0", "claude-sonnet-4@20250514"],
                "claude-sonnet-4",
            ),
            (&["claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet-20241022"], "claude-3-5-sonnet"),
            (&["claude-opus-5-5", "us.anthropic.claude-opus-5-5"], "claude-opus-5-5"),
            (&["claude-opus-10"], "claude-opus-10"),
            (&["claude-"], "claude-"),
            (&["glm-4.6"], "glm-4.6"),
            (&[""], ""),
        ] {
            for name in names {
                assert_eq!(canonical_model(name), expected, "{name}");
            }
        }
    }

    fn rates(scale: u64) -> TokenRates {
        TokenRates {
            input: 4_000_000 * scale,
            output: 20_000_000 * scale,
            cache_write_5m: 5_000_000 * scale,
            cache_write_1h: 8_000_000 * scale,
            cache_read: 200_000 * scale,
        }
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let price = |model: &str| ModelPrice {
            model: model.into(),
            rates: rates(1),
            fast: Some(rates(2)),
            long_prompt: Some(LongPromptPrice { above_tokens: 100_000, rates: rates(5) }),
        };
        let table =
            PriceTable { prices: [price("a"), price("b-*")].into(), web_search_micro_usd: 10_000 };
        let call = CallUsage { model: "a".into(), ..CallUsage::default() };
        for (usage, expected) in [
            (CallUsage { input: 100, output: 20, ..call.clone() }, Some(800_000)),
            // One call with all kinds of tokens: $0.04404.
            (
                CallUsage {
                    input: 10,
                    output: 50,
                    cache_write_5m: 5_000,
                    cache_read: 90_000,
                    ..call.clone()
                },
                Some(44_040_000),
            ),
            (CallUsage { cache_write_1h: 1000, ..call.clone() }, Some(8_000_000)),
            (CallUsage { cache_read: 100_000, ..call.clone() }, Some(20_000_000)),
            (CallUsage { cache_read: 100_001, ..call.clone() }, Some(100_001_000)),
            (CallUsage { input: 100, is_fast: true, ..call.clone() }, Some(800_000)),
            (CallUsage { input: 100, is_regional: true, ..call.clone() }, Some(440_000)),
            (CallUsage { web_searches: 2, ..call.clone() }, Some(20_000_000)),
            // Less than the smallest unit is not nothing.
            (CallUsage { cache_read: 1, ..call.clone() }, Some(200)),
            (CallUsage { model: "b-1".into(), input: 1, ..call.clone() }, Some(4_000)),
            (CallUsage { model: "c".into(), input: 1, ..call.clone() }, None),
            (CallUsage { input: u64::MAX, output: u64::MAX, ..call.clone() }, Some(u64::MAX)),
        ] {
            assert_eq!(table.nano_usd(&usage), expected, "{usage:?}");
        }
    }

    #[test]
    fn models_are_listed_briefly() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(ToString::to_string).into();
        let shown: Vec<_> = (1..=4).map(|count| list_models(&names[..count])).collect();
        assert_eq!(shown, ["`a`", "`a` and `b`", "`a`, `b` and 1 more", "`a`, `b` and 2 more"]);
    }
}
