//! JSON, parsed one level at a time. A field of an unexpected type counts as absent, unused fields are never parsed, and
//! nesting depth does not matter.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use ralph_core::text;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The client writes about forty fields per object, and lists as long as the list of available tools.
const MOST_FIELDS: usize = 200;
const MOST_ITEMS: usize = 1000;
const LONGEST_ID: usize = 200;
const MOST_MICRO_USD: f64 = 1e15;

/// The fields of a JSON object, unparsed.
#[derive(Debug, Default)]
pub(super) struct JsonFields<'a>(BTreeMap<String, &'a RawValue>);

struct JsonList<'a>(Vec<&'a RawValue>);

/// A string that may contain unpaired surrogates, because JavaScript cuts strings inside a character. They are replaced.
struct LossyString(String);

pub(super) fn parse_object(json: &str) -> Option<JsonFields<'_>> {
    serde_json::from_str(json).ok()
}

pub(super) fn parse_string(json: &str) -> Option<String> {
    serde_json::from_str::<LossyString>(json).ok().map(|lossy| lossy.0)
}

pub(super) fn parse_list(json: &str) -> Vec<&RawValue> {
    serde_json::from_str::<JsonList<'_>>(json).map(|list| list.0).unwrap_or_default()
}

impl<'a> JsonFields<'a> {
    pub(super) fn raw(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|raw| raw.get())
    }

    pub(super) fn object(&self, key: &str) -> Option<JsonFields<'a>> {
        self.raw(key).and_then(parse_object)
    }

    /// The objects of a list; other items are skipped.
    pub(super) fn objects(&self, key: &str) -> Vec<JsonFields<'a>> {
        self.raw(key)
            .map(parse_list)
            .unwrap_or_default()
            .iter()
            .filter_map(|raw| parse_object(raw.get()))
            .collect()
    }

    pub(super) fn strings(&self, key: &str) -> Vec<String> {
        self.raw(key)
            .map(parse_list)
            .unwrap_or_default()
            .iter()
            .filter_map(|raw| parse_string(raw.get()))
            .collect()
    }

    pub(super) fn string(&self, key: &str) -> Option<String> {
        self.raw(key).and_then(parse_string)
    }

    pub(super) fn is(&self, key: &str, expected: &str) -> bool {
        self.string(key).is_some_and(|text| text == expected)
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.raw(key).and_then(|raw| serde_json::from_str(raw).ok())
    }

    /// Multi-line text, safe to show.
    pub(super) fn text(&self, key: &str, most: usize) -> Option<String> {
        self.string(key).map(|text| clean_text(&text, most))
    }

    /// One line, safe to show; `None` if empty.
    pub(super) fn line(&self, key: &str, most: usize) -> Option<String> {
        self.string(key).map(|text| text::clean_line(&text, most)).filter(|line| !line.is_empty())
    }

    /// An id that is returned or compared verbatim; `None` if it is longer than any id of the client's.
    pub(super) fn id(&self, key: &str) -> Option<String> {
        self.string(key).filter(|id| {
            !id.is_empty() && id.len() <= LONGEST_ID && !id.chars().any(text::is_hidden)
        })
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        let number: f64 = self.raw(key).and_then(|raw| serde_json::from_str(raw).ok())?;
        (number.is_finite() && number >= 0.0).then_some(number)
    }

    pub(super) fn count(&self, key: &str) -> Option<u64> {
        let exact: Option<u64> = self.raw(key).and_then(|raw| serde_json::from_str(raw).ok());
        exact.or_else(|| self.number(key).map(to_whole_number))
    }

    pub(super) fn micro_usd(&self, key: &str) -> Option<u64> {
        self.number(key).map(usd_to_micro)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(key, raw)| (key.as_str(), raw.get()))
    }
}

pub(super) fn clean_text(foreign: &str, most: usize) -> String {
    // Cut first: cleaning megabytes to keep a few thousand characters would be slow.
    text::truncate(&text::clean(&text::truncate(foreign, most.saturating_mul(4))), most)
}

pub(super) fn usd_to_micro(usd: f64) -> u64 {
    // `round` is not part of `core`.
    to_whole_number((usd * 1e6).clamp(0.0, MOST_MICRO_USD) + 0.5)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts saturate: too large a number becomes the maximum, a negative one 0"
)]
pub(super) fn to_whole_number(number: f64) -> u64 {
    number as u64
}

impl<'de> Deserialize<'de> for JsonFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = JsonFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((key, raw)) = map.next_entry::<LossyString, &RawValue>()? {
                    if fields.len() < MOST_FIELDS {
                        fields.insert(key.0, raw);
                    }
                }
                Ok(JsonFields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

impl<'de> Deserialize<'de> for JsonList<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = JsonList<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(raw) = items.next_element::<&RawValue>()? {
                    if list.len() < MOST_ITEMS {
                        list.push(raw);
                    }
                }
                Ok(JsonList(list))
            }
        }
        deserializer.deserialize_seq(ListVisitor)
    }
}

impl<'de> Deserialize<'de> for LossyString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LossyVisitor;
        impl Visitor<'_> for LossyVisitor {
            type Value = LossyString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<LossyString, E> {
                Ok(LossyString(String::from_utf8_lossy(bytes).into_owned()))
            }

            fn visit_str<E>(self, text: &str) -> Result<LossyString, E> {
                Ok(LossyString(text.to_owned()))
            }
        }
        deserializer.deserialize_bytes(LossyVisitor)
    }
}
