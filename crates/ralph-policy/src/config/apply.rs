//! The policy and the settings of a person (runner, notifications, cleaning) while their values are set.
//!
//! How a key sets its value is part of the table in `keys`.

use super::ci_draft::CiDraft;
use super::judge_check::empty_judge;
use super::parse::{ConfigEntry, ConfigSetting};
use crate::notify_config::NotifySettings;
use ralph_core::drive::DriveSettings;
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::judge::Judge;
use ralph_core::model_price::{ModelPrice, TokenRates};
use ralph_core::policy::{Chunk, LinePattern, Policy};
use ralph_core::retention::RetentionRules;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use std::mem;

/// Everything that a key can set.
#[derive(Debug)]
pub(super) struct ConfigDraft {
    pub(super) policy: Policy,
    pub(super) runner: DriveSettings,
    pub(super) notify: NotifySettings,
    pub(super) keep: RetentionRules,
    /// `[export] otlp`
    pub(super) otlp_endpoint: Option<String>,
    /// The entry being built; it is complete once all its keys are set.
    pub(super) gate: Gate,
    pub(super) judge: Judge,
    pub(super) ci: CiDraft,
    pub(super) chunk: Chunk,
    pub(super) pattern: LinePattern,
    pub(super) price: PriceDraft,
    pub(super) prices: Vec<ModelPrice>,
}

/// A `[[price]]` whose defaults depend on another key. Millionths of a dollar per million tokens.
#[derive(Debug, Default)]
pub(super) struct PriceDraft {
    pub(super) model: String,
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_write_5m: Option<u64>,
    pub(super) cache_write_1h: Option<u64>,
    pub(super) cache_read: Option<u64>,
}

impl PriceDraft {
    pub(super) fn complete(self) -> ModelPrice {
        let Self { model, input, output, .. } = self;
        let rates = TokenRates {
            input,
            output,
            cache_write_5m: self.cache_write_5m.unwrap_or(input.saturating_mul(5).div_ceil(4)),
            cache_write_1h: self.cache_write_1h.unwrap_or(input.saturating_mul(2)),
            cache_read: self.cache_read.unwrap_or(input.div_ceil(10)),
        };
        ModelPrice { model, rates, ..ModelPrice::default() }
    }
}

impl ConfigDraft {
    pub(super) fn build(settings: &[ConfigSetting], entries: &[ConfigEntry]) -> Self {
        let mut draft = Self::new();
        draft.set_all(settings);
        for entry in entries {
            draft.set_all(&entry.settings);
            (entry.table.add)(&mut draft);
        }
        draft
    }

    fn new() -> Self {
        Self {
            policy: Policy::default(),
            runner: DriveSettings::DEFAULT,
            notify: NotifySettings {
                channels: Vec::new(),
                statuses: Vec::new(),
                notifies_questions: false,
            },
            keep: RetentionRules::DEFAULT,
            otlp_endpoint: None,
            gate: empty_gate(),
            judge: empty_judge(),
            ci: CiDraft::new(),
            chunk: empty_chunk(),
            pattern: empty_pattern(),
            price: PriceDraft::default(),
            prices: Vec::new(),
        }
    }

    fn set_all(&mut self, settings: &[ConfigSetting]) {
        for setting in settings {
            setting.value.apply(self);
        }
    }

    /// The finished chunk. A `[[chunk]]` is named after its `match`, and a pipeline chunk matches its own name.
    pub(super) fn take_chunk(&mut self) -> Chunk {
        let mut chunk = mem::replace(&mut self.chunk, empty_chunk());
        if chunk.name.is_empty() {
            chunk.name.clone_from(&chunk.r#match);
        } else if chunk.r#match.is_empty() {
            chunk.r#match.clone_from(&chunk.name);
        }
        chunk
    }
}

pub(super) fn empty_gate() -> Gate {
    Gate::new("", GateInvocation::Argv(Vec::new()))
}

fn empty_chunk() -> Chunk {
    Chunk {
        after: Vec::new(),
        approval: false,
        name: String::new(),
        r#match: String::new(),
        gates: Vec::new(),
        outputs: Vec::new(),
        max_holds: 0,
    }
}

pub(super) fn empty_pattern() -> LinePattern {
    LinePattern {
        name: String::new(),
        pattern: String::new(),
        message: String::new(),
        paths: Vec::new(),
    }
}

/// A limit for which 0 means "no limit".
pub(super) fn unless_zero<T: Default + PartialEq>(limit: T) -> Option<T> {
    (limit != T::default()).then_some(limit)
}

/// Normalizes a relative path: `./web/` becomes `web`, `.` becomes empty.
pub(super) fn normalize_path(text: &str) -> String {
    let parts: Vec<_> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// Parses a choice by the serde name of its type. The table lists choices by the same names, which the parser checked.
fn parse_choice<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    let name: StrDeserializer<'_, Error> = text.into_deserializer();
    let choice = T::deserialize(name).ok();
    debug_assert!(choice.is_some(), "the table lists `{text}`, its type does not");
    choice
}

pub(super) fn set_choice<T: for<'de> Deserialize<'de>>(target: &mut T, text: &str) {
    if let Some(chosen) = parse_choice(text) {
        *target = chosen;
    }
}

pub(super) fn parse_choices<T: for<'de> Deserialize<'de>>(texts: &[String]) -> Vec<T> {
    texts.iter().filter_map(|text| parse_choice(text)).collect()
}
