//! The cost of a run as the client reports it to its status line, which is the only place where it does so while a
//! session is open. `ralph statusline` records it here, and the next stop reads it.

use crate::paths::RalphHome;
use ralph_core::id::{RunId, SessionId};
use ralph_sys::fs::{self, Durability, FileError};
use serde::{Deserialize, Serialize};

const CLIENT_COST_VERSION: u8 = 1;
const MAX_CLIENT_COST_BYTES: usize = 4096;

/// Content of `runs/<run>/client-cost.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ClientCost {
    v: u8,
    session: SessionId,
    /// The client's last figure, which includes what the session had cost before the run.
    session_micro_usd: u64,
    run_micro_usd: u64,
}

impl ClientCost {
    /// The first figure of a session is what it had cost before. A figure that went down far was reset to zero in between,
    /// which the client does when it is started again. One that went down a little was reported earlier and came late.
    fn advance(before: Option<&Self>, session: &SessionId, session_micro_usd: u64) -> Self {
        let known = before.filter(|before| before.session == *session);
        let grown = match known {
            None => 0,
            Some(known) => match session_micro_usd.checked_sub(known.session_micro_usd) {
                Some(grown) => grown,
                None if session_micro_usd > known.session_micro_usd / 2 => return known.clone(),
                None => session_micro_usd,
            },
        };
        let earlier = before.map_or(0, |before| before.run_micro_usd);
        Self {
            v: CLIENT_COST_VERSION,
            session: session.clone(),
            session_micro_usd,
            run_micro_usd: earlier.saturating_add(grown),
        }
    }
}

/// Records the client's figure for the session, and returns the cost of the run. An unchanged figure is not written
/// again, because the client reports it several times a second.
pub fn record_client_cost(
    home: &RalphHome,
    run: &RunId,
    session: &SessionId,
    session_micro_usd: u64,
) -> Result<u64, FileError> {
    let path = home.run(run).client_cost();
    let before = read_file(home, run);
    let now = ClientCost::advance(before.as_ref(), session, session_micro_usd);
    if before.as_ref() != Some(&now) {
        fs::replace(&path, &fs::encode_json(&path, &now)?, Durability::Cached)?;
    }
    Ok(now.run_micro_usd)
}

/// The cost of the run by the client's figures; `None` if its status line has not reported any.
pub fn read_client_cost(home: &RalphHome, run: &RunId) -> Option<u64> {
    read_file(home, run).map(|known| known.run_micro_usd)
}

/// A file that cannot be read is replaced by the next figure, from which the count starts again.
fn read_file(home: &RalphHome, run: &RunId) -> Option<ClientCost> {
    let known = fs::read_json(&home.run(run).client_cost(), MAX_CLIENT_COST_BYTES).ok()??;
    Some(known).filter(|known: &ClientCost| known.v == CLIENT_COST_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_growth_of_each_session_counts() {
        let mut known = None;
        let mut shown = Vec::new();
        for (session, total) in
            // The fourth figure was reported before the third.
            [
                ("a", 500),
                ("a", 500),
                ("a", 700),
                ("a", 690),
                ("a", 50),
                ("b", 900),
                ("b", 901),
            ]
        {
            let session = SessionId::parse(session).unwrap();
            let now = ClientCost::advance(known.as_ref(), &session, total);
            shown.push(now.run_micro_usd);
            known = Some(now);
        }
        assert_eq!(shown, [0, 0, 200, 200, 250, 250, 251]);
    }
}
