//! How long each gate took when it last ran. It determines the order of gates and is shown while they run.

use std::collections::BTreeMap;
use std::path::Path;

use ralph_home::paths::RalphHome;
use ralph_sys::fs::{self, Durability};

const MAX_HISTORY_BYTES: usize = 256 * 1024;
const MAX_GATES: usize = 1000;

/// Milliseconds by the gate's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateHistory(BTreeMap<String, u64>);

impl GateHistory {
    /// An unreadable file gives an empty history, which only makes estimates worse.
    pub fn read(home: &RalphHome, project: &Path) -> Self {
        let bytes =
            fs::read_if_exists(&home.gate_history(project), MAX_HISTORY_BYTES).ok().flatten();
        Self(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    pub fn expected_ms(&self, gate: &str) -> Option<u64> {
        self.0.get(gate).copied()
    }

    /// How long it took in a checkout, where it may have to build everything.
    pub fn expected_in_checkout_ms(&self, gate: &str) -> Option<u64> {
        self.expected_ms(&checkout_name(gate))
    }

    /// Of two concurrent writers, one loses its numbers, which is harmless.
    pub fn write(home: &RalphHome, project: &Path, took: impl IntoIterator<Item = (String, u64)>) {
        let mut history = Self::read(home, project);
        history.0.extend(took);
        while history.0.len() > MAX_GATES {
            history.0.pop_first();
        }
        let path = home.gate_history(project);
        if let (Some(parent), Ok(bytes)) = (path.parent(), serde_json::to_vec(&history.0))
            && fs::create_private_dir(parent).is_ok()
        {
            drop(fs::replace(&path, &bytes, Durability::Cached));
        }
    }
}

/// The name under which durations in checkouts are recorded.
pub(super) fn checkout_name(gate: &str) -> String {
    format!("{gate} (checkout)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_recorded_by_project() {
        let dir = tempfile::tempdir().unwrap();
        let home = RalphHome::new(dir.path().to_path_buf());
        let (one, other) = (Path::new("/one"), Path::new("/other"));
        GateHistory::write(&home, one, [("tests".to_string(), 5), ("lint".to_string(), 2)]);
        GateHistory::write(&home, one, [("tests".to_string(), 7)]);
        let known = |project: &Path| {
            let history = GateHistory::read(&home, project);
            (history.expected_ms("tests"), history.expected_ms("lint"))
        };
        assert_eq!(known(one), (Some(7), Some(2)));
        assert_eq!(known(other), (None, None));
        fs::replace(&home.gate_history(one), b"garbage", Durability::Cached).unwrap();
        assert_eq!(known(one), (None, None));
    }
}
