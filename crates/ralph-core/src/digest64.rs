//! A 64-bit digest that distinguishes states of a run. It is not cryptographic.

use alloc::borrow::Cow;
use alloc::string::String;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Serialised as hexadecimal text, because other tools' JSON numbers are exact only up to 2^53.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest64(pub u64);

impl Digest64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

    /// FNV-1a over the parts and their lengths. All an agent could gain from a collision is that its run ends `stuck`.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Self::BASIS;
        for part in parts {
            for byte in part.len().to_le_bytes().iter().chain(part.iter()) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Self(hash)
    }

    pub fn combine(self, other: u64) -> Self {
        Self::of_parts(&[&self.0.to_le_bytes(), &other.to_le_bytes()])
    }

    /// The first seven digits, like an abbreviated commit id.
    pub fn short(self) -> String {
        alloc::format!("{:016x}", self.0).chars().take(7).collect()
    }
}

impl Serialize for Digest64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Digest64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16)
            .map(Self)
            .map_err(|_| D::Error::custom("not 16 hexadecimal digits"))
    }
}
