//! Cache of gate results by key. An entry and the lock on it are one file, and an empty file means that there is no
//! result yet. Thus two processes that need the same result run the gate once, and a crash leaves a cache miss.
//!
//! Entries are sealed with a secret key in ralph's home. Forging one requires reading that key; writing the file is not
//! enough.

use std::path::PathBuf;

use ralph_core::gate::{Gate, GateOutcome, GateReport};

use super::result_key::ResultKey;
use ralph_home::paths::RalphHome;
use ralph_sys::clock;
use ralph_sys::fs::file_slot::{self, FileSlot, SlotContent};
use ralph_sys::fs::{self, Durability, FileError};

/// Enough for the largest list of test names, even if JSON escapes every character.
const MAX_ENTRY_BYTES: usize = 16 * 1024 * 1024;
const SEAL_DIGITS: usize = 64;
const KEY_BYTES: usize = 32;

#[derive(Debug)]
pub struct ResultCache {
    root: PathBuf,
    logs: PathBuf,
    secret: [u8; KEY_BYTES],
}

/// The state of a cache entry.
#[derive(Debug)]
pub enum CachedResult {
    Result(Box<GateReport>),
    /// Another process is running the gate.
    Running,
    Missing,
}

/// The result of claiming an entry before running a gate.
#[derive(Debug)]
pub enum ClaimOutcome {
    Cached(Box<GateReport>),
    /// There is no result, and no other process can claim the entry while this is held.
    Claimed(ResultClaim),
    /// Another process still holds the entry, and the caller does not want to wait any longer.
    Busy,
}

/// An exclusive claim to fill an entry. If it is dropped, the entry stays empty.
#[derive(Debug)]
pub struct ResultClaim {
    slot: FileSlot,
    sealer: EntrySealer,
}

#[derive(Clone, Debug)]
struct EntrySealer {
    secret: [u8; KEY_BYTES],
    key: ResultKey,
}

impl ResultCache {
    pub fn open(home: &RalphHome) -> Result<Self, FileError> {
        let (root, logs) = (home.cache().join("gates"), home.cache().join("logs"));
        fs::create_private_dir(&logs)?;
        Ok(Self { root, logs, secret: load_secret(home)? })
    }

    fn path(&self, key: &ResultKey) -> PathBuf {
        let name = key.hex();
        self.root.join(&name[..2]).join(name)
    }

    /// The log file of a gate. The second attempt, which confirms a failure, has its own.
    pub fn log_path(&self, gate: &Gate, key: &ResultKey, attempt: u32) -> PathBuf {
        let again = if attempt == 0 { "" } else { "-again" };
        self.logs.join(format!("{}-{}{again}.log", gate.name, &key.hex()[..12]))
    }

    pub fn lookup(&self, key: &ResultKey) -> Result<CachedResult, FileError> {
        Ok(match file_slot::peek(&self.path(key), MAX_ENTRY_BYTES)? {
            SlotContent::Held => CachedResult::Running,
            SlotContent::Free(bytes) => match self.sealer(key).open_report(&bytes) {
                Some(report) => CachedResult::Result(Box::new(report)),
                None => CachedResult::Missing,
            },
        })
    }

    /// Returns a passed or failed result, or claims the entry to run the gate. An unknown result is not reused: the
    /// gate is run again. While another process holds the entry, waits as long as `patient` returns `true`.
    pub fn claim(
        &self,
        key: &ResultKey,
        patient: &dyn Fn() -> bool,
    ) -> Result<ClaimOutcome, FileError> {
        let path = self.path(key);
        if let Some(parent) = path.parent() {
            fs::create_private_dir(parent)?;
        }
        let Some(slot) = file_slot::acquire(&path, patient)? else { return Ok(ClaimOutcome::Busy) };
        let seal = self.sealer(key);
        // An entry that cannot be read is a miss: the gate is run again.
        match slot.read(MAX_ENTRY_BYTES).ok().and_then(|bytes| seal.open_report(&bytes)) {
            Some(report) if !matches!(report.outcome, GateOutcome::Unknown(_)) => {
                Ok(ClaimOutcome::Cached(Box::new(report)))
            }
            Some(_) | None => {
                slot.clear()?;
                Ok(ClaimOutcome::Claimed(ResultClaim { slot, sealer: seal }))
            }
        }
    }

    /// Claims the entry even if it has a result.
    pub fn claim_fresh(
        &self,
        key: &ResultKey,
        patient: &dyn Fn() -> bool,
    ) -> Result<ClaimOutcome, FileError> {
        self.clear(key, patient)?;
        self.claim(key, patient)
    }

    /// Clears the entry. An unknown result is reported once, then the gate is run again.
    pub fn clear(&self, key: &ResultKey, patient: &dyn Fn() -> bool) -> Result<(), FileError> {
        let path = self.path(key);
        if !fs::exists(&path) {
            return Ok(());
        }
        match file_slot::acquire(&path, patient)? {
            Some(slot) => slot.clear(),
            None => Ok(()),
        }
    }

    /// Reads other data that is cached by content and has to be protected against forgery.
    pub fn read_note(&self, key: &ResultKey) -> Option<Vec<u8>> {
        match file_slot::peek(&self.path(key), MAX_ENTRY_BYTES).ok()? {
            SlotContent::Held => None,
            SlotContent::Free(mut bytes) => {
                let content = self.sealer(key).unseal(&bytes)?.len();
                bytes.drain(..bytes.len().saturating_sub(content));
                Some(bytes)
            }
        }
    }

    pub fn write_note(&self, key: &ResultKey, note: &[u8]) -> Result<(), FileError> {
        let path = self.path(key);
        if let Some(parent) = path.parent() {
            fs::create_private_dir(parent)?;
        }
        match file_slot::acquire(&path, &|| false)? {
            Some(slot) => slot.fill(&self.sealer(key).seal(note)),
            None => Ok(()),
        }
    }

    fn sealer(&self, key: &ResultKey) -> EntrySealer {
        EntrySealer { secret: self.secret, key: *key }
    }
}

impl ResultClaim {
    pub fn fill(self, report: &GateReport) -> Result<(), FileError> {
        self.slot.fill(&self.sealer.seal(&fs::encode_json(self.slot.path(), report)?))
    }
}

impl EntrySealer {
    fn digest(&self, content: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(&self.key.0);
        hasher.update(content);
        hasher.finalize()
    }

    fn seal(&self, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEAL_DIGITS + 1 + content.len());
        bytes.extend(self.digest(content).to_hex().as_bytes());
        bytes.push(b'\n');
        bytes.extend(content);
        bytes
    }

    fn unseal<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (seal, rest) = bytes.split_at_checked(SEAL_DIGITS)?;
        let content = rest.strip_prefix(b"\n")?;
        let seal = blake3::Hash::from_hex(seal).ok()?;
        (seal == self.digest(content)).then_some(content)
    }

    fn open_report(&self, bytes: &[u8]) -> Option<GateReport> {
        serde_json::from_slice(self.unseal(bytes)?).ok()
    }
}

/// Reads the secret key, or creates it, readable by this user only.
fn load_secret(home: &RalphHome) -> Result<[u8; KEY_BYTES], FileError> {
    let path = home.seal_key();
    if let Some(bytes) = fs::read_if_exists(&path, KEY_BYTES)?
        && let Ok(secret) = bytes.try_into()
    {
        return Ok(secret);
    }
    fs::create_private_dir(home.root())?;
    let Some(secret) = clock::random_key() else {
        return Err(FileError::refused(&path, "the system provides no random numbers"));
    };
    fs::replace(&path, &secret, Durability::Cached)?;
    // If two processes create a key at the same time, both use the one that was written last.
    let bytes = fs::read(&path, KEY_BYTES)?;
    bytes.try_into().map_err(|_| FileError::refused(&path, "it is not 32 bytes long"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::gate::UnknownReason;
    use ralph_core::test_cases::{MAX_CASE_BYTES, MAX_CASES, TestCaseCollector, TestOutcome};

    fn report(outcome: GateOutcome) -> GateReport {
        crate::gates::testing::sample_report("tests", outcome)
    }

    fn expect_claim(taken: ClaimOutcome) -> ResultClaim {
        match taken {
            ClaimOutcome::Claimed(claim) => claim,
            ClaimOutcome::Cached(_) | ClaimOutcome::Busy => panic!("{taken:?}"),
        }
    }

    fn lookup_name(cache: &ResultCache, key: &ResultKey) -> String {
        match cache.lookup(key).unwrap() {
            CachedResult::Result(report) => report.outcome.name().to_string(),
            CachedResult::Running => "running".to_string(),
            CachedResult::Missing => "nothing".to_string(),
        }
    }

    #[test]
    fn a_result_is_computed_once_and_shared() {
        let dir = tempfile::tempdir().unwrap();
        let home = RalphHome::new(dir.path().join("home"));
        let cache = ResultCache::open(&home).unwrap();
        let (key, other) = (ResultKey([1; 32]), ResultKey([2; 32]));
        assert_eq!(lookup_name(&cache, &key), "nothing");
        let claim = expect_claim(cache.claim(&key, &|| false).unwrap());
        assert_eq!(lookup_name(&cache, &key), "running");
        assert!(matches!(cache.claim(&key, &|| false).unwrap(), ClaimOutcome::Busy));
        claim.fill(&report(GateOutcome::Passed)).unwrap();
        assert_eq!(lookup_name(&ResultCache::open(&home).unwrap(), &key), "passed");
        assert_eq!(lookup_name(&cache, &other), "nothing");
        assert!(matches!(cache.claim(&key, &|| false).unwrap(), ClaimOutcome::Cached(_)));
        drop(expect_claim(cache.claim_fresh(&key, &|| false).unwrap()));
        assert_eq!(lookup_name(&cache, &key), "nothing");
    }

    #[test]
    fn a_gate_with_an_unknown_result_is_run_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ResultCache::open(&RalphHome::new(dir.path().join("home"))).unwrap();
        let key = ResultKey([1; 32]);
        let unknown = report(GateOutcome::Unknown(UnknownReason::timeout(1)));
        expect_claim(cache.claim(&key, &|| false).unwrap()).fill(&unknown).unwrap();
        assert_eq!(lookup_name(&cache, &key), "timeout");
        drop(expect_claim(cache.claim(&key, &|| false).unwrap()));
        assert_eq!(lookup_name(&cache, &key), "nothing");
    }

    #[test]
    fn a_result_with_the_most_test_names_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = ResultCache::open(&RalphHome::new(dir.path().join("home"))).unwrap();
        let key = ResultKey([1; 32]);
        // Each character of these names takes two bytes in JSON, and no two begin alike.
        let length = MAX_CASE_BYTES / MAX_CASES;
        let mut collector = TestCaseCollector::default();
        for number in 0..MAX_CASES {
            let first = char::from_u32(0x4e00 + u32::try_from(number / 4).unwrap()).unwrap();
            let rest = "\"".repeat(length - 4 - number % 4);
            collector.add(format!("{first}{rest}"), TestOutcome::Passed);
        }
        let cases = collector.into_cases(true);
        let with_names = GateReport { cases, ..report(GateOutcome::Passed) };
        expect_claim(cache.claim(&key, &|| false).unwrap()).fill(&with_names).unwrap();
        match cache.lookup(&key).unwrap() {
            CachedResult::Result(kept) => assert_eq!(*kept, with_names),
            other @ (CachedResult::Running | CachedResult::Missing) => panic!("{other:?}"),
        }
        let bare = serde_json::to_string(&report(GateOutcome::Passed)).unwrap();
        assert!(!bare.contains("cases"), "{bare}");
    }

    /// R-S4c: a result that ralph did not write is not used.
    #[test]
    fn a_forged_moved_or_truncated_entry_is_a_miss() {
        let dir = tempfile::tempdir().unwrap();
        let home = RalphHome::new(dir.path().join("home"));
        let cache = ResultCache::open(&home).unwrap();
        let (key, other) = (ResultKey([1; 32]), ResultKey([2; 32]));
        expect_claim(cache.claim(&key, &|| false).unwrap())
            .fill(&report(GateOutcome::Failed))
            .unwrap();
        let good = fs::read(&cache.path(&key), MAX_ENTRY_BYTES).unwrap();
        let passed = String::from_utf8(good.clone()).unwrap().replace("failed", "passed");
        let bare = serde_json::to_vec(&report(GateOutcome::Passed)).unwrap();
        for forged in [passed.as_bytes(), &bare, &good[..good.len() - 1], &good[..30], b"\n"] {
            fs::replace(&cache.path(&key), forged, Durability::Cached).unwrap();
            assert_eq!(lookup_name(&cache, &key), "nothing");
        }
        fs::create_private_dir(cache.path(&other).parent().unwrap()).unwrap();
        fs::replace(&cache.path(&other), &good, Durability::Cached).unwrap();
        assert_eq!(lookup_name(&cache, &other), "nothing");
        fs::replace(&cache.path(&key), &good, Durability::Cached).unwrap();
        assert_eq!(lookup_name(&cache, &key), "failed");
    }
}
