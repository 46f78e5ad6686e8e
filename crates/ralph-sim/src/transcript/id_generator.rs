//! Generates ids in the client's formats, reproducibly if seeded.

use crate::split_mix::SplitMix64;
use ralph_sys::clock;

/// A generator of ids: the same seed gives the same ids.
#[derive(Clone, Debug)]
pub struct IdGenerator(SplitMix64);

impl IdGenerator {
    pub fn random() -> Self {
        Self::seeded(clock::nonce())
    }

    pub fn seeded(seed: u64) -> Self {
        Self(SplitMix64::seeded(seed))
    }

    /// Derives an independent generator.
    pub fn derive(&mut self) -> Self {
        Self::seeded(self.0.next_u64())
    }

    /// A version 4 UUID.
    pub fn uuid(&mut self) -> String {
        let (high, low) = (self.0.next_u64(), self.0.next_u64());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 48 & 0x3fff),
            low & 0xffff_ffff_ffff,
        )
    }

    /// A subagent id such as `a992fcbb72ecc398e`.
    pub fn agent_id(&mut self) -> String {
        format!("a{:016x}", self.0.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_reproducible_and_distinct_ids() {
        let mut ids = IdGenerator::seeded(1);
        let mut other = ids.derive();
        insta::assert_snapshot!(
            [ids.uuid(), ids.uuid(), ids.agent_id(), other.uuid()].join("\n"),
            @"
        beeb8da1-658e-4c67-b893-a2eefb32555e
        71c18690-ee42-490b-b1bb-54d8d101b5b9
        ac34d0bff90150280
        5e41ab08-7439-411e-b18d-6ce93d6cf1ee
        "
        );
    }
}
