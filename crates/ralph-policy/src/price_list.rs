//! The list prices of models: the dated file `prices.toml`, and a person's own rows before it.

use ralph_core::model_price::{LongPromptPrice, ModelPrice, PriceTable, TokenRates};
use serde::Deserialize;
use std::sync::LazyLock;

const PRICES_TOML: &str = include_str!("prices.toml");

/// The built-in prices. A test checks that the file parses.
static BUILT_IN: LazyLock<PriceList> =
    LazyLock::new(|| parse_prices(PRICES_TOML).unwrap_or_default());

/// The prices of a dated list.
#[derive(Clone, Debug, Default)]
struct PriceList {
    /// The day on which the prices were looked up.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "a list without a date or a source does not parse")
    )]
    date: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "as above"))]
    source: String,
    table: PriceTable,
}

/// A person's own prices, then the built-in ones.
pub fn price_table(own: &[ModelPrice]) -> PriceTable {
    let built_in = &BUILT_IN.table;
    PriceTable { prices: [own, &built_in.prices].concat(), ..built_in.clone() }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceListWire {
    date: String,
    source: String,
    web_search: f64,
    model: Vec<ModelPriceWire>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelPriceWire {
    name: String,
    rates: TokenRatesWire,
    fast: Option<TokenRatesWire>,
    long_prompt: Option<LongPromptWire>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongPromptWire {
    above_tokens: u64,
    rates: TokenRatesWire,
}

/// US dollars per million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRatesWire {
    input: f64,
    output: f64,
    cache_write_5m: f64,
    cache_write_1h: f64,
    cache_read: f64,
}

fn parse_prices(text: &str) -> Result<PriceList, toml::de::Error> {
    let wire: PriceListWire = toml::from_str(text)?;
    let prices = wire.model.iter().map(|model| ModelPrice {
        model: model.name.clone(),
        rates: model.rates.to_rates(),
        fast: model.fast.as_ref().map(TokenRatesWire::to_rates),
        long_prompt: model.long_prompt.as_ref().map(|long| LongPromptPrice {
            above_tokens: long.above_tokens,
            rates: long.rates.to_rates(),
        }),
    });
    let web_search_micro_usd = micro_usd(wire.web_search);
    let table = PriceTable { prices: prices.collect(), web_search_micro_usd };
    Ok(PriceList { date: wire.date, source: wire.source, table })
}

impl TokenRatesWire {
    fn to_rates(&self) -> TokenRates {
        TokenRates {
            input: micro_usd(self.input),
            output: micro_usd(self.output),
            cache_write_5m: micro_usd(self.cache_write_5m),
            cache_write_1h: micro_usd(self.cache_write_1h),
            cache_read: micro_usd(self.cache_read),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to a range that a u64 holds"
)]
fn micro_usd(usd: f64) -> u64 {
    (usd * 1e6).round().clamp(0.0, 1e15) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::model_price::{CallUsage, canonical_model};
    use std::collections::BTreeSet;

    #[test]
    fn the_built_in_prices_are_dated_and_plausible() {
        let list = parse_prices(PRICES_TOML).unwrap_or_else(|error| panic!("{error}"));
        assert!(list.date.len() == "2026-11-17".len() && list.source.starts_with("https://"));
        let names: BTreeSet<_> = list.table.prices.iter().map(|price| &price.model).collect();
        assert_eq!(names.len(), list.table.prices.len(), "a model has two rows");
        for price in &list.table.prices {
            assert_eq!(canonical_model(&price.model), price.model);
            let long = price.long_prompt.map(|long| long.rates);
            for rates in [Some(price.rates), price.fast, long].into_iter().flatten() {
                let TokenRates { input, output, cache_write_5m, cache_write_1h, cache_read } =
                    rates;
                assert!(0 < cache_read && cache_read < input, "{}", price.model);
                assert_eq!(
                    (output, cache_write_5m, cache_write_1h),
                    (input * 5, input / 4 * 5, input * 2),
                    "{}",
                    price.model
                );
            }
        }
    }

    /// The cost of recorded sessions, as the client itself reported it.
    #[test]
    fn the_client_charges_the_same() {
        let call = |input, output, cache_read, cache_write_5m| CallUsage {
            model: "claude-opus-5-5".to_string(),
            input,
            output,
            cache_read,
            cache_write_5m,
            ..CallUsage::default()
        };
        let table = price_table(&[]);
        for (usage, nano_usd) in [
            // `tool-and-stop`: `cost-state`.
            (call(200, 40, 0, 0), 1_600_000),
            // `auto-compaction`: `cost-state`.
            (call(150, 270, 200_000, 0), 46_000_000),
            // The status line.
            (call(10, 50, 120_000, 5_000), 50_040_000),
        ] {
            assert_eq!(table.nano_usd(&usage), Some(nano_usd), "{usage:?}");
        }
    }

    #[test]
    fn own_prices_come_first() {
        let free = ModelPrice { model: "claude-opus-*".to_string(), ..ModelPrice::default() };
        let usage =
            CallUsage { model: "claude-opus-5-5".to_string(), input: 1000, ..CallUsage::default() };
        assert_eq!(price_table(&[free]).nano_usd(&usage), Some(0));
        assert_eq!(price_table(&[]).nano_usd(&usage), Some(4_000_000));
    }
}
