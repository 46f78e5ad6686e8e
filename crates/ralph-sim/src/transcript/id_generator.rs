//! Generates ids in the client's formats, reproducibly if seeded.

use ralph_sys::clock;

/// A generator of ids: the same seed gives the same ids.
#[derive(Clone, Debug)]
pub struct IdGenerator(u64);

impl IdGenerator {
    pub fn random() -> Self {
        Self(clock::nonce())
    }

    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Derives an independent generator.
    pub fn derive(&mut self) -> Self {
        Self(self.next_u64())
    }

    /// A version 4 UUID.
    pub fn uuid(&mut self) -> String {
        let (high, low) = (self.next_u64(), self.next_u64());
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
        format!("a{:016x}", self.next_u64())
    }

    /// `SplitMix64`.
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
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
