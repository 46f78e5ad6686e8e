//! The units of JSON that people and their programs read: times as RFC 3339, money in US dollars, shares from 0 to 1.
//!
//! The types keep milliseconds, millionths and thousandths, because screens compute with them.

use crate::wording::micro_usd_as_usd;
use ralph_sys::clock;
use serde::{Serialize, Serializer};

/// Passed by reference, because `serialize_with` does so.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(crate) fn time<S: Serializer>(ms: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&clock::format_rfc3339(*ms))
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
pub(crate) fn optional_time<S: Serializer>(
    ms: &Option<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    ms.map(clock::format_rfc3339).serialize(serializer)
}

/// Zero stands for no time.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(crate) fn time_unless_zero<S: Serializer>(ms: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    optional_time(&Some(*ms).filter(|ms| *ms > 0), serializer)
}

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde calls"
)]
pub(crate) fn zero_if_unknown<S: Serializer>(
    count: &Option<u32>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(count.unwrap_or_default())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(crate) fn usd<S: Serializer>(micro: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(micro_usd_as_usd(*micro))
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
pub(crate) fn optional_usd<S: Serializer>(
    micro: &Option<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    micro.map(micro_usd_as_usd).serialize(serializer)
}

pub(crate) fn share<S: Serializer>(
    permille: &(impl Copy + Into<u32>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(permille_as_share((*permille).into()))
}

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde calls"
)]
pub(crate) fn optional_share<S: Serializer>(
    permille: &Option<u16>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    permille.map(|permille| permille_as_share(permille.into())).serialize(serializer)
}

pub(crate) fn permille_as_share(permille: u32) -> f64 {
    f64::from(permille) / 1000.0
}
