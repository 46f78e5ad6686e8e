//! Lenient JSON: a value of the wrong type is not a parse error but can be reported by name, and values that the caller
//! does not ask for are skipped without being stored.

use super::SourceError;
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::marker::PhantomData;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Any JSON value. The content of lists and objects is parsed only if the caller names a type for it.
#[derive(Debug, Default)]
pub enum LenientJson<'a, Object = IgnoredAny, List = IgnoredAny> {
    #[default]
    Null,
    Flag(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(List),
    Object(Object),
}

pub fn read_json<'a, Object, List>(
    bytes: &'a [u8],
) -> Result<LenientJson<'a, Object, List>, SourceError>
where
    Object: Deserialize<'a>,
    List: Deserialize<'a>,
{
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    if bytes.trim_ascii().is_empty() {
        return Err(SourceError::new("it is empty"));
    }
    Ok(serde_json::from_slice(bytes)?)
}

pub fn read_object<'a, Object: Deserialize<'a>>(bytes: &'a [u8]) -> Result<Object, SourceError> {
    match read_json::<Object, IgnoredAny>(bytes)? {
        LenientJson::Object(object) => Ok(object),
        other @ (LenientJson::Null
        | LenientJson::Flag(_)
        | LenientJson::Number(_)
        | LenientJson::Text(_)
        | LenientJson::List(_)) => {
            Err(SourceError::new(&format!("the file is {}, not an object", other.kind())))
        }
    }
}

impl<Object, List> LenientJson<'_, Object, List> {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Flag(true) => "true",
            Self::Flag(false) => "false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    pub fn type_error(&self, key: &str, wanted: &str) -> SourceError {
        SourceError::new(&format!("\"{key}\" is {}, not {wanted}", self.kind()))
    }

    pub fn as_flag(&self, key: &str) -> Result<Option<bool>, SourceError> {
        match self {
            Self::Null => Ok(None),
            Self::Flag(flag) => Ok(Some(*flag)),
            Self::Number(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => {
                Err(self.type_error(key, "true or false"))
            }
        }
    }

    pub fn as_text(&self, key: &str) -> Result<Option<&str>, SourceError> {
        match self {
            Self::Null => Ok(None),
            Self::Text(text) => Ok(Some(text)),
            Self::Flag(_) | Self::Number(_) | Self::List(_) | Self::Object(_) => {
                Err(self.type_error(key, "a string"))
            }
        }
    }

    /// Saturates at `u32::MAX`.
    pub fn as_count(&self, key: &str) -> Result<Option<u32>, SourceError> {
        match self {
            Self::Null => Ok(None),
            Self::Number(number) => match number.as_u64() {
                Some(count) => Ok(Some(u32::try_from(count).unwrap_or(u32::MAX))),
                None => Err(SourceError::new(&format!("\"{key}\" is {number}, not a count"))),
            },
            Self::Flag(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => {
                Err(self.type_error(key, "a number"))
            }
        }
    }

    pub fn into_object(self, key: &str) -> Result<Option<Object>, SourceError> {
        match self {
            Self::Null => Ok(None),
            Self::Object(object) => Ok(Some(object)),
            Self::Flag(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => {
                Err(self.type_error(key, "an object"))
            }
        }
    }

    /// A string or number as text; `None` for anything else.
    pub fn as_label(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::Null | Self::Flag(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    pub fn is_text(&self, wanted: &str) -> bool {
        matches!(self, Self::Text(text) if text == wanted)
    }
}

impl<'de: 'a, 'a, Object, List> Deserialize<'de> for LenientJson<'a, Object, List>
where
    Object: Deserialize<'de>,
    List: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientJsonVisitor(PhantomData))
    }
}

struct LenientJsonVisitor<T>(PhantomData<T>);

impl<'de: 'a, 'a, Object, List> Visitor<'de> for LenientJsonVisitor<LenientJson<'a, Object, List>>
where
    Object: Deserialize<'de>,
    List: Deserialize<'de>,
{
    type Value = LenientJson<'a, Object, List>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(LenientJson::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(LenientJson::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(LenientJson::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(LenientJson::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(number).map_or(LenientJson::Null, LenientJson::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(LenientJson::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(LenientJson::Text(Cow::Borrowed(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        List::deserialize(SeqAccessDeserializer::new(list)).map(LenientJson::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        Object::deserialize(MapAccessDeserializer::new(object)).map(LenientJson::Object)
    }
}
