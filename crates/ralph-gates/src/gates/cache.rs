//! Cache of gate results by key. An entry and the lock on it are one file, and an empty file means that there is no
//! result yet. Thus two processes that need the same result run the gate once, and a crash leaves a cache miss.
//!
//! Entries are sealed with a secret key in ralph's home. Forging one requires reading that key; writing the file is not
//! enough.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::gate::{Gate, GateReport, Outcome};

use super::key::Key;
use ralph_home::paths::Home;
use ralph_sys::clock;
use ralph_sys::fs::slot::{self, Peeked, Slot};
use ralph_sys::fs::{self, Durability, FileError};

const LARGEST_ENTRY: usize = 4 * 1024 * 1024;
const SEAL_DIGITS: usize = 64;
const KEY_BYTES: usize = 32;
/// Older results are removed.
const KEPT: Duration = Duration::from_hours(30 * 24);
/// How many of the 256 directories are cleaned up at a time.
const TIDIED: u64 = 8;
const MOST_IN_DIRECTORY: usize = 100_000;

#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    logs: PathBuf,
    secret: [u8; KEY_BYTES],
}

/// The state of a cache entry.
#[derive(Debug)]
pub enum Known {
    Result(Box<GateReport>),
    /// Another process is running the gate.
    Running,
    Nothing,
}

/// The result of claiming an entry before running a gate.
#[derive(Debug)]
pub enum Taken {
    Result(Box<GateReport>),
    /// There is no result, and no other process can claim the entry while this is held.
    Ours(Claim),
    /// Another process still holds the entry, and the caller does not want to wait any longer.
    Busy,
}

/// An exclusive claim to fill an entry. If it is dropped, the entry stays empty.
#[derive(Debug)]
pub struct Claim {
    slot: Slot,
    seal: Sealer,
}

#[derive(Clone, Debug)]
struct Sealer {
    secret: [u8; KEY_BYTES],
    key: Key,
}

impl Cache {
    pub fn open(home: &Home) -> Result<Self, FileError> {
        let (root, logs) = (home.cache().join("gates"), home.cache().join("logs"));
        fs::create_dir(&logs)?;
        Ok(Self { root, logs, secret: secret(home)? })
    }

    fn path(&self, key: &Key) -> PathBuf {
        let name = key.hex();
        self.root.join(&name[..2]).join(name)
    }

    /// The log file of a gate. The second attempt, which confirms a failure, has its own.
    pub fn log(&self, gate: &Gate, key: &Key, attempt: u32) -> PathBuf {
        let again = if attempt == 0 { "" } else { "-again" };
        self.logs.join(format!("{}-{}{again}.log", gate.name, &key.hex()[..12]))
    }

    pub fn look(&self, key: &Key) -> Result<Known, FileError> {
        Ok(match slot::peek(&self.path(key), LARGEST_ENTRY)? {
            Peeked::Held => Known::Running,
            Peeked::Free(bytes) => match self.sealer(key).open(&bytes) {
                Some(report) => Known::Result(Box::new(report)),
                None => Known::Nothing,
            },
        })
    }

    /// Returns a passed or failed result, or claims the entry to run the gate. An unknown result is not reused: the
    /// gate is run again. While another process holds the entry, waits as long as `patient` returns `true`.
    pub fn take(&self, key: &Key, patient: &dyn Fn() -> bool) -> Result<Taken, FileError> {
        let path = self.path(key);
        if let Some(parent) = path.parent() {
            fs::create_dir(parent)?;
        }
        let Some(slot) = slot::take(&path, patient)? else { return Ok(Taken::Busy) };
        let seal = self.sealer(key);
        match seal.open(&slot.read(LARGEST_ENTRY).unwrap_or_default()) {
            Some(report) if !matches!(report.outcome, Outcome::Unknown(_)) => {
                Ok(Taken::Result(Box::new(report)))
            }
            Some(_) | None => {
                slot.clear()?;
                Ok(Taken::Ours(Claim { slot, seal }))
            }
        }
    }

    /// Claims the entry even if it has a result.
    pub fn take_anew(&self, key: &Key, patient: &dyn Fn() -> bool) -> Result<Taken, FileError> {
        self.forget(key, patient)?;
        self.take(key, patient)
    }

    /// Clears the entry. An unknown result is reported once, then the gate is run again.
    pub fn forget(&self, key: &Key, patient: &dyn Fn() -> bool) -> Result<(), FileError> {
        let path = self.path(key);
        if !fs::exists(&path) {
            return Ok(());
        }
        match slot::take(&path, patient)? {
            Some(slot) => slot.clear(),
            None => Ok(()),
        }
    }

    /// Reads other data that is cached by content and has to be protected against forgery.
    pub fn note(&self, key: &Key) -> Option<Vec<u8>> {
        match slot::peek(&self.path(key), LARGEST_ENTRY).ok()? {
            Peeked::Held => None,
            Peeked::Free(bytes) => self.sealer(key).unsealed(&bytes).map(<[u8]>::to_vec),
        }
    }

    pub fn write_note(&self, key: &Key, note: &[u8]) -> Result<(), FileError> {
        let path = self.path(key);
        if let Some(parent) = path.parent() {
            fs::create_dir(parent)?;
        }
        match slot::take(&path, &|| false)? {
            Some(slot) => slot.fill(&self.sealer(key).sealed(note)),
            None => Ok(()),
        }
    }

    fn sealer(&self, key: &Key) -> Sealer {
        Sealer { secret: self.secret, key: *key }
    }

    /// Removes old entries and logs, a few directories at a time. Entries that a process holds are kept.
    pub fn tidy(&self) {
        let now = clock::now_ms();
        let kept_ms = u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
        let old = |directory: &Path| -> Vec<PathBuf> {
            let names = fs::list(directory, MOST_IN_DIRECTORY).unwrap_or_default();
            let paths = names.into_iter().map(|name| directory.join(name));
            let is_old = |path: &PathBuf| {
                let modified = fs::stat_link(path).map(|stat| stat.modified_ns / 1_000_000);
                modified.is_some_and(|modified| now.saturating_sub(modified) > kept_ms)
            };
            paths.filter(is_old).collect()
        };
        let first = clock::nonce();
        for step in 0..TIDIED {
            let directory = self.root.join(format!("{:02x}", first.wrapping_add(step) & 0xff));
            for path in old(&directory) {
                if let Ok(Some(slot)) = slot::take(&path, &|| false) {
                    drop(slot.remove());
                }
            }
        }
        for path in old(&self.logs) {
            drop(fs::remove_file(&path));
        }
    }
}

impl Claim {
    pub fn settle(self, report: &GateReport) -> Result<(), FileError> {
        self.slot.fill(&self.seal.close(report))
    }
}

impl Sealer {
    fn digest(&self, content: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(&self.key.0);
        hasher.update(content);
        hasher.finalize()
    }

    fn sealed(&self, content: &[u8]) -> Vec<u8> {
        let mut bytes = self.digest(content).to_hex().as_bytes().to_vec();
        bytes.push(b'\n');
        bytes.extend(content);
        bytes
    }

    fn unsealed<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (seal, rest) = bytes.split_at_checked(SEAL_DIGITS)?;
        let content = rest.strip_prefix(b"\n")?;
        let seal = blake3::Hash::from_hex(seal).ok()?;
        (seal == self.digest(content)).then_some(content)
    }

    fn close(&self, report: &GateReport) -> Vec<u8> {
        self.sealed(&serde_json::to_vec(report).unwrap_or_default())
    }

    fn open(&self, bytes: &[u8]) -> Option<GateReport> {
        serde_json::from_slice(self.unsealed(bytes)?).ok()
    }
}

/// Reads the secret key, or creates it, readable by this user only.
fn secret(home: &Home) -> Result<[u8; KEY_BYTES], FileError> {
    let path = home.key();
    if let Some(bytes) = fs::read_opt(&path, KEY_BYTES)?
        && let Ok(secret) = bytes.try_into()
    {
        return Ok(secret);
    }
    fs::create_dir(home.root())?;
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
    use ralph_core::gate::Unknown;

    fn report(outcome: Outcome) -> GateReport {
        crate::gates::testing::report("tests", outcome)
    }

    fn ours(taken: Taken) -> Claim {
        match taken {
            Taken::Ours(claim) => claim,
            Taken::Result(_) | Taken::Busy => panic!("{taken:?}"),
        }
    }

    fn known(cache: &Cache, key: &Key) -> String {
        match cache.look(key).unwrap() {
            Known::Result(report) => report.outcome.name().to_string(),
            Known::Running => "running".to_string(),
            Known::Nothing => "nothing".to_string(),
        }
    }

    #[test]
    fn a_result_is_computed_once_and_shared() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        let cache = Cache::open(&home).unwrap();
        let (key, other) = (Key([1; 32]), Key([2; 32]));
        assert_eq!(known(&cache, &key), "nothing");
        let claim = ours(cache.take(&key, &|| false).unwrap());
        assert_eq!(known(&cache, &key), "running");
        assert!(matches!(cache.take(&key, &|| false).unwrap(), Taken::Busy));
        claim.settle(&report(Outcome::Passed)).unwrap();
        assert_eq!(known(&Cache::open(&home).unwrap(), &key), "passed");
        assert_eq!(known(&cache, &other), "nothing");
        assert!(matches!(cache.take(&key, &|| false).unwrap(), Taken::Result(_)));
        drop(ours(cache.take_anew(&key, &|| false).unwrap()));
        assert_eq!(known(&cache, &key), "nothing");
    }

    #[test]
    fn a_gate_with_an_unknown_result_is_run_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&Home::new(dir.path().join("home"))).unwrap();
        let key = Key([1; 32]);
        let unknown = report(Outcome::Unknown(Unknown::Timeout { after_ms: 1 }));
        ours(cache.take(&key, &|| false).unwrap()).settle(&unknown).unwrap();
        assert_eq!(known(&cache, &key), "timeout");
        drop(ours(cache.take(&key, &|| false).unwrap()));
        assert_eq!(known(&cache, &key), "nothing");
    }

    /// R-S4c: a result that ralph did not write is not used.
    #[test]
    fn a_forged_moved_or_truncated_entry_is_a_miss() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        let cache = Cache::open(&home).unwrap();
        let (key, other) = (Key([1; 32]), Key([2; 32]));
        ours(cache.take(&key, &|| false).unwrap()).settle(&report(Outcome::Failed)).unwrap();
        let good = fs::read(&cache.path(&key), LARGEST_ENTRY).unwrap();
        let passed = String::from_utf8(good.clone()).unwrap().replace("failed", "passed");
        let bare = serde_json::to_vec(&report(Outcome::Passed)).unwrap();
        for forged in [passed.as_bytes(), &bare, &good[..good.len() - 1], &good[..30], b"\n"] {
            fs::replace(&cache.path(&key), forged, Durability::Cached).unwrap();
            assert_eq!(known(&cache, &key), "nothing");
        }
        fs::create_dir(cache.path(&other).parent().unwrap()).unwrap();
        fs::replace(&cache.path(&other), &good, Durability::Cached).unwrap();
        assert_eq!(known(&cache, &other), "nothing");
        fs::replace(&cache.path(&key), &good, Durability::Cached).unwrap();
        assert_eq!(known(&cache, &key), "failed");
    }
}
