//! Keys of `[[price]]`.

use super::{ConfigKey, EntryTable, ValueKind};
use std::mem;

pub(in crate::config) static PRICE: EntryTable = EntryTable {
    path: "price",
    keys: PRICE_KEYS,
    required: &["model", "input", "output"],
    is_user_only: true,
    add: |draft| {
        let price = mem::take(&mut draft.price).complete();
        draft.prices.push(price);
    },
};

static PRICE_KEYS: &[ConfigKey] = &[
    ConfigKey {
        name: "model",
        kind: ValueKind::Model(|draft, text| draft.price.model = text.to_string()),
        description: "The name of the model in the client's transcripts; `*` matches anything, `?` one character.",
    },
    ConfigKey {
        name: "input",
        kind: ValueKind::Usd(|draft, micro| draft.price.input = micro),
        description: "The price of input that was not cached.",
    },
    ConfigKey {
        name: "output",
        kind: ValueKind::Usd(|draft, micro| draft.price.output = micro),
        description: "The price of output, including thinking.",
    },
    ConfigKey {
        name: "cache_write_5m",
        kind: ValueKind::Usd(|draft, micro| draft.price.cache_write_5m = Some(micro)),
        description: "The price of input that is cached for five minutes. Defaults to 1.25 times `input`.",
    },
    ConfigKey {
        name: "cache_write_1h",
        kind: ValueKind::Usd(|draft, micro| draft.price.cache_write_1h = Some(micro)),
        description: "The price of input that is cached for an hour. Defaults to twice `input`.",
    },
    ConfigKey {
        name: "cache_read",
        kind: ValueKind::Usd(|draft, micro| draft.price.cache_read = Some(micro)),
        description: "The price of input that is read from the cache. Defaults to a tenth of `input`.",
    },
];
