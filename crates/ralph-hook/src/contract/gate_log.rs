//! A log of running and finished gates, for other processes that watch a run.

use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::id::RunId;
use ralph_gates::gates::{GateEvent, ResultSource};
use ralph_home::paths::RalphHome;
use ralph_host::stream::StreamLine;
use ralph_host::{HOSTS, HostProfile};
use ralph_sys::fs::{self, Durability};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The log is truncated beyond this size. One pass over the gates writes less.
const MAX_LOG_BYTES: u64 = 1024 * 1024;
const MAX_BILL_BYTES: u64 = 256 * 1024;
/// A larger amount is not a bill.
const MAX_BILL_MICRO_USD: u64 = 1_000_000_000_000_000;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum GateLogLine {
    Started {
        gate: String,
    },
    Ended {
        gate: String,
        outcome: String,
        took_ms: u64,
        /// The cost of a gate that called a model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bill: Option<GateBill>,
    },
}

/// The cost that the client reported for a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateBill {
    pub micro_usd: u64,
    pub tokens: u64,
}

#[derive(Debug)]
pub(super) struct GateLog(PathBuf);

impl GateLog {
    pub(super) fn open(home: &RalphHome, run: &RunId) -> Self {
        let path = home.run(run).gates_log();
        if fs::stat(&path).is_some_and(|stat| stat.len > MAX_LOG_BYTES) {
            // Watchers have already read these lines.
            drop(fs::overwrite(&path, b""));
        }
        Self(path)
    }

    pub(super) fn record(&self, seen: GateEvent<'_>) {
        let progress = match seen {
            GateEvent::Ended(ran) if ran.source != ResultSource::Fresh => return,
            GateEvent::Started(gate) => GateLogLine::Started { gate: gate.name.clone() },
            GateEvent::Ended(ran) => GateLogLine::Ended {
                gate: ran.gate.name.clone(),
                outcome: ran.report.outcome.name().to_string(),
                took_ms: ran.report.took_ms,
                bill: find_bill(&ran.gate, ran.report.log.as_deref()),
            },
        };
        let mut line = serde_json::to_vec(&progress).unwrap_or_default();
        line.push(b'\n');
        // Only for display; no decision depends on it.
        drop(fs::append(&self.0, &line, Durability::Cached));
    }
}

/// R-K1c: a gate whose program is the agent's client judges with a model, and that costs money. The output of other
/// programs is never read as a bill.
fn find_bill(gate: &Gate, log: Option<&str>) -> Option<GateBill> {
    let GateInvocation::Argv(words) = &gate.command else { return None };
    let program = Path::new(words.first()?).file_name()?;
    let host = HOSTS.iter().find(|host| program == host.program)?;
    let path = Path::new(log?);
    let from = fs::stat(path)?.len.saturating_sub(MAX_BILL_BYTES);
    let most = usize::try_from(MAX_BILL_BYTES).ok()?;
    let bytes = fs::read_range(path, from, most).ok()?;
    bytes.rsplit(|byte| *byte == b'\n').find_map(|line| parse_bill(host, line))
}

fn parse_bill(host: &HostProfile, line: &[u8]) -> Option<GateBill> {
    let StreamLine::Result(result) = (host.stream.parse_line)(line) else { return None };
    let micro_usd = result.micro_usd.filter(|micro_usd| *micro_usd < MAX_BILL_MICRO_USD)?;
    Some(GateBill { micro_usd, tokens: result.usage.unwrap_or_default().total() })
}

/// Reads the complete lines after `offset`, and returns them with the new offset. A file that became shorter was
/// truncated and is read from the beginning.
pub fn read_gate_log(home: &RalphHome, run: &RunId, offset: u64) -> (Vec<GateLogLine>, u64) {
    let path = home.run(run).gates_log();
    let Some(stat) = fs::stat(&path) else { return (Vec::new(), 0) };
    let from = if stat.len < offset { 0 } else { offset };
    let most = usize::try_from(MAX_LOG_BYTES).unwrap_or(usize::MAX);
    let bytes = fs::read_range(&path, from, most).unwrap_or_default();
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
    let lines = bytes.get(..whole).unwrap_or_default();
    let parsed =
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    (parsed.collect(), from.saturating_add(u64::try_from(whole).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-K1c: only the client's own result line is a bill.
    #[test]
    fn only_a_result_line_is_parsed_as_a_bill() {
        let result = br#"{"type":"result","total_cost_usd":0.042,"usage":{"input_tokens":900,"output_tokens":100},"result":"fine"}"#;
        assert_eq!(
            parse_bill(HOSTS[0], result),
            Some(GateBill { micro_usd: 42_000, tokens: 1000 })
        );
        for odd in [
            &b"all is well"[..],
            br#"{"type":"result"}"#,
            br#"{"type":"result","total_cost_usd":-1}"#,
            br#"{"type":"result","total_cost_usd":1e300}"#,
            br#"{"type":"other","total_cost_usd":1}"#,
        ] {
            assert_eq!(parse_bill(HOSTS[0], odd), None, "{}", String::from_utf8_lossy(odd));
        }
    }
}
