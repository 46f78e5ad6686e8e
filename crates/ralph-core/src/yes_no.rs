//! Stores a flag as `"yes"` or `"no"`, for use with `#[serde(with = "yes_no")]`.

use alloc::borrow::Cow;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
pub(crate) fn serialize<S: Serializer>(flag: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *flag { "yes" } else { "no" })
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match Cow::<str>::deserialize(deserializer)?.as_ref() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(D::Error::custom("neither `yes` nor `no`")),
    }
}
