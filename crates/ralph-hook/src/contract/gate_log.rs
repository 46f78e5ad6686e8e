//! A log of running and finished gates, for other processes that watch a run.

use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::id::RunId;
use ralph_core::proof::ProofStep;
use ralph_core::record::RunRecord;
use ralph_gates::gates::gate_history::GateHistory;
use ralph_gates::gates::{GateEvent, GateResult, ResultSource};
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::paths::RalphHome;
use ralph_host::stream::StreamLine;
use ralph_host::{HOSTS, HostProfile};
use ralph_proof::ProofProgress;
use ralph_sys::clock;
use ralph_sys::fs::file_slot::{self, SlotContent};
use ralph_sys::fs::{self, Durability, FileError};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The log is truncated beyond this size. One pass over the gates writes less.
const MAX_LOG_BYTES: u64 = 1024 * 1024;
/// How much of the end of the log [`read_activity`] reads, since a status line calls it often.
const MAX_TAIL_BYTES: u64 = 64 * 1024;
const MAX_BILL_BYTES: usize = 256 * 1024;
/// A larger amount is not a bill.
const MAX_BILL_MICRO_USD: u64 = 1_000_000_000_000_000;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum GateLogLine {
    /// A worker began: gates and steps of earlier ones no longer run.
    Began,
    Started {
        gate: String,
        /// Missing in logs of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_ms: Option<u64>,
    },
    Ended {
        gate: String,
        outcome: String,
        took_ms: u64,
        /// The cost of a gate that called a model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bill: Option<GateBill>,
    },
    /// A judge that runs is asked the next question, or waits for its service.
    JudgeStep {
        judge: String,
        step: String,
    },
    /// A gate that called a model ended in a checkout.
    Billed {
        gate: String,
        bill: GateBill,
    },
    /// A step of the proof started, or more of its tests ended.
    Proof {
        step: ProofStep,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        done: Option<usize>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<usize>,
    },
    ProofStepEnded {
        step: ProofStep,
    },
}

/// The gates and the steps of the proof that a worker of the run is at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateActivity {
    pub gates: Vec<ActiveGate>,
    pub proof: Vec<StepActivity>,
}

/// A gate that runs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveGate {
    pub name: String,
    pub since_ms: Option<u64>,
    /// How long it took when it last ran.
    pub usual_ms: Option<u64>,
    /// The current step of a judge: `asking reviewer 2 of 3`.
    pub step: Option<String>,
}

/// How many tests of a step ended, of how many, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepActivity {
    pub step: ProofStep,
    pub done: Option<usize>,
    pub of: Option<usize>,
}

/// The cost that the client reported for a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateBill {
    pub micro_usd: u64,
    pub tokens: u64,
}

#[derive(Debug)]
pub(super) struct GateLog<'a> {
    home: &'a RalphHome,
    run: &'a RunId,
}

impl<'a> GateLog<'a> {
    pub(super) fn open(home: &'a RalphHome, run: &'a RunId) -> Self {
        let path = home.run(run).gates_log();
        if fs::stat(&path).is_some_and(|stat| stat.len > MAX_LOG_BYTES) {
            // Watchers have already read these lines.
            drop(fs::overwrite(&path, b""));
        }
        Self { home, run }
    }

    pub(super) fn record_begin(&self) {
        // Without the line only the progress display is wrong.
        drop(self.append_line(&GateLogLine::Began));
    }

    /// A line that cannot be written, or a bill that cannot be read, is a fault: the runner charges the bills in this
    /// log to the run, so no limit would count a lost one.
    pub(super) fn record(&self, seen: GateEvent<'_>) {
        if let Err(error) = self.try_record(seen) {
            self.report_fault(&error);
        }
    }

    fn report_fault(&self, error: &FileError) {
        let fault = Fault::new(FaultKind::File, &describe_error(error)).with_run(self.run);
        faults::record_fault(self.home, &fault);
    }

    fn try_record(&self, seen: GateEvent<'_>) -> Result<(), FileError> {
        let progress = match seen {
            GateEvent::TreeListed(_) | GateEvent::TreeChanged { .. } | GateEvent::Confirming(_) => {
                return Ok(());
            }
            GateEvent::Ended(ran) if ran.source != ResultSource::Fresh => return Ok(()),
            GateEvent::Started(gate) => {
                GateLogLine::Started { gate: gate.name.clone(), since_ms: Some(clock::now_ms()) }
            }
            GateEvent::Ended(ran) => GateLogLine::Ended {
                gate: ran.gate.name.clone(),
                outcome: ran.report.outcome.name().to_string(),
                took_ms: ran.report.took_ms,
                bill: find_bill(&ran.gate, ran.report.log.as_deref())?,
            },
        };
        self.append_line(&progress)
    }

    /// A gate in a checkout is part of a step, but its cost is charged like that of any other.
    pub(super) fn record_bill(&self, ran: &GateResult) {
        let line = |bill| GateLogLine::Billed { gate: ran.gate.name.clone(), bill };
        let charged = match find_bill(&ran.gate, ran.report.log.as_deref()) {
            Ok(Some(bill)) => self.append_line(&line(bill)),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = charged {
            self.report_fault(&error);
        }
    }

    /// A judge is shown like a gate that runs.
    pub(super) fn record_judge_start(&self, judge: &str) {
        let since_ms = Some(clock::now_ms());
        // Without the line only the progress display lags.
        drop(self.append_line(&GateLogLine::Started { gate: judge.to_string(), since_ms }));
    }

    pub(super) fn record_judge_step(&self, judge: &str, step: &str) {
        let (judge, step) = (judge.to_string(), step.to_string());
        // Without the line only the progress display lags.
        drop(self.append_line(&GateLogLine::JudgeStep { judge, step }));
    }

    pub(super) fn record_judge_end(&self, judge: &str, outcome: &str, took_ms: u64) {
        let (gate, outcome) = (judge.to_string(), outcome.to_string());
        // The meter of the judges has the cost.
        let line = GateLogLine::Ended { gate, outcome, took_ms, bill: None };
        drop(self.append_line(&line));
    }

    pub(super) fn record_proof(&self, progress: ProofProgress) {
        let ProofProgress { step, tests, has_ended } = progress;
        let (done, of) = (tests.map(|tests| tests.done), tests.and_then(|tests| tests.of));
        let line = if has_ended {
            GateLogLine::ProofStepEnded { step }
        } else {
            GateLogLine::Proof { step, done, of }
        };
        // Without the line only the progress display lags.
        drop(self.append_line(&line));
    }

    fn append_line(&self, progress: &GateLogLine) -> Result<(), FileError> {
        let path = self.home.run(self.run).gates_log();
        let mut line = fs::encode_json(&path, progress)?;
        line.push(b'\n');
        fs::append(&path, &line, Durability::Cached).map(drop)
    }
}

/// R-K1c: a gate whose program is the agent's client judges with a model, and that costs money. The output of other
/// programs is never read as a bill.
fn find_bill(gate: &Gate, log: Option<&str>) -> Result<Option<GateBill>, FileError> {
    let (Some(host), Some(log)) = (client_of_gate(gate), log) else { return Ok(None) };
    let path = Path::new(log);
    let from = fs::stat(path).map_or(0, |stat| stat.len).saturating_sub(MAX_BILL_BYTES as u64);
    let bytes = fs::read_range(path, from, MAX_BILL_BYTES)?;
    Ok(bytes.rsplit(|byte| *byte == b'\n').find_map(|line| parse_bill(host, line)))
}

fn client_of_gate(gate: &Gate) -> Option<&'static HostProfile> {
    let GateInvocation::Argv(words) = &gate.command else { return None };
    let program = Path::new(words.first()?).file_name()?;
    HOSTS.iter().find(|host| program == host.program).copied()
}

fn parse_bill(host: &HostProfile, line: &[u8]) -> Option<GateBill> {
    let StreamLine::Result(result) = (host.stream.parse_line)(line) else { return None };
    let micro_usd = result.micro_usd.filter(|micro_usd| *micro_usd < MAX_BILL_MICRO_USD)?;
    Some(GateBill { micro_usd, tokens: result.usage.unwrap_or_default().total() })
}

/// Reads the complete lines after `offset`, and returns them with the new offset. A file that became shorter was
/// truncated and is read from the beginning. Other lines are skipped: a worker that was killed may leave half a line.
pub fn read_gate_log(
    home: &RalphHome,
    run: &RunId,
    offset: u64,
) -> Result<(Vec<GateLogLine>, u64), FileError> {
    let path = home.run(run).gates_log();
    let Some(stat) = fs::stat(&path) else { return Ok((Vec::new(), 0)) };
    let from = if stat.len < offset { 0 } else { offset };
    let most = usize::try_from(MAX_LOG_BYTES).unwrap_or(usize::MAX);
    let bytes = fs::read_range(&path, from, most)?;
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
    let lines = bytes.get(..whole).unwrap_or_default();
    let parsed =
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    Ok((parsed.collect(), from.saturating_add(whole as u64)))
}

/// What a worker of the run does now; `None` if none runs. The base, which is measured in the background from the start,
/// does not count.
pub fn read_activity(home: &RalphHome, run: &RunRecord) -> Option<GateActivity> {
    let RunRecord { id, project, .. } = run;
    match file_slot::peek(&home.run(id).worker_lock(), 0) {
        Ok(SlotContent::Held) => {}
        Ok(SlotContent::Free(_)) | Err(_) => return None,
    }
    let length = fs::stat(&home.run(id).gates_log()).map_or(0, |stat| stat.len);
    // An unreadable log shows nothing; the worker reports it.
    let (lines, _) = read_gate_log(home, id, length.saturating_sub(MAX_TAIL_BYTES)).ok()?;
    let mut activity = lines.into_iter().fold(GateActivity::default(), GateActivity::after);
    if !activity.gates.is_empty() {
        let history = GateHistory::read(home, Path::new(project));
        for gate in &mut activity.gates {
            gate.usual_ms = history.expected_ms(&gate.name);
        }
    }
    Some(activity)
}

impl GateActivity {
    fn after(mut self, line: GateLogLine) -> Self {
        match line {
            GateLogLine::Began => return Self::default(),
            GateLogLine::Started { gate: name, since_ms } => {
                self.gates.push(ActiveGate { name, since_ms, usual_ms: None, step: None });
            }
            GateLogLine::Ended { gate, .. } => self.gates.retain(|known| known.name != gate),
            GateLogLine::Proof { step, done, of } => {
                let now = StepActivity { step, done, of };
                match self.proof.iter_mut().find(|known| known.step == step) {
                    Some(known) => *known = now,
                    None => self.proof.push(now),
                }
            }
            GateLogLine::ProofStepEnded { step } => self.proof.retain(|known| known.step != step),
            GateLogLine::JudgeStep { judge, step } => {
                if let Some(known) = self.gates.iter_mut().find(|known| known.name == judge) {
                    known.step = Some(step);
                }
            }
            GateLogLine::Billed { .. } => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::requirement::RequirementStage;
    use ralph_proof::TestProgress;

    fn gate(program: &str) -> Gate {
        let command = GateInvocation::Argv(vec![program.to_string()]);
        Gate { stage: RequirementStage::Quality, timeout_ms: 1000, ..Gate::new("judge", command) }
    }

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

    /// R-K1c: a gate whose bill cannot be read is an error; it does not count as free.
    #[test]
    fn a_bill_that_cannot_be_read_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().to_str();
        assert!(find_bill(&gate(HOSTS[0].program), log).is_err());
        assert_eq!(find_bill(&gate("make"), log).unwrap(), None);
        assert_eq!(find_bill(&gate(HOSTS[0].program), None).unwrap(), None);
    }

    /// A gate that was killed with its worker has no end in the log.
    #[test]
    fn only_the_present_worker_is_active() {
        let directory = tempfile::tempdir().unwrap();
        let home = RalphHome::new(directory.path().to_path_buf());
        let id = RunId::parse("abcd").unwrap();
        let run = RunRecord::new(id.clone(), "/project".to_string(), 0);
        fs::create_private_dir(home.run(&id).gates_log().parent().unwrap()).unwrap();
        let log = GateLog::open(&home, &id);
        log.record_begin();
        log.record(GateEvent::Started(&gate("make")));
        assert_eq!(read_activity(&home, &run), None);
        let _working = file_slot::acquire(&home.run(&id).worker_lock(), &|| false).unwrap();
        GateHistory::write(&home, Path::new("/project"), [("judge".to_string(), 40_000)]);
        let gates = read_activity(&home, &run).unwrap().gates;
        let [ActiveGate { name, since_ms: Some(_), usual_ms: Some(40_000), step: None }] =
            &gates[..]
        else {
            panic!("{gates:?}");
        };
        assert_eq!(name, "judge");
        log.record_begin();
        let old = br#"{"at":"started","gate":"lint"}"#;
        fs::append(&home.run(&id).gates_log(), &[old, &b"\n"[..]].concat(), Durability::Cached)
            .unwrap();
        let lint =
            ActiveGate { name: "lint".to_string(), since_ms: None, usual_ms: None, step: None };
        assert_eq!(read_activity(&home, &run).unwrap().gates, [lint]);
        log.record_begin();
        assert_eq!(read_activity(&home, &run), Some(GateActivity::default()));
        let prove = |step, done| {
            let tests = Some(TestProgress { done, of: Some(148) });
            log.record_proof(ProofProgress { step, tests, has_ended: false });
        };
        prove(ProofStep::OldTests, 3);
        prove(ProofStep::NewTests, 9);
        prove(ProofStep::OldTests, 31);
        let (step, tests, has_ended) = (ProofStep::NewTests, None, true);
        log.record_proof(ProofProgress { step, tests, has_ended });
        let old = StepActivity { step: ProofStep::OldTests, done: Some(31), of: Some(148) };
        assert_eq!(read_activity(&home, &run).unwrap().proof, [old]);
    }

    /// The last step of a running judge is shown, and only as long as it runs.
    #[test]
    fn a_running_judge_has_a_step() {
        let directory = tempfile::tempdir().unwrap();
        let home = RalphHome::new(directory.path().to_path_buf());
        let id = RunId::parse("abcd").unwrap();
        fs::create_private_dir(home.run(&id).gates_log().parent().unwrap()).unwrap();
        let log = GateLog::open(&home, &id);
        let steps = || {
            let (lines, _) = read_gate_log(&home, &id, 0).unwrap();
            let activity = lines.into_iter().fold(GateActivity::default(), GateActivity::after);
            activity.gates.into_iter().map(|gate| (gate.name, gate.step)).collect::<Vec<_>>()
        };
        let review = |step: Option<&str>| vec![("review".to_string(), step.map(str::to_string))];
        log.record_judge_step("review", "before its start");
        log.record_judge_start("review");
        assert_eq!(steps(), review(None));
        log.record_judge_step("review", "asking reviewer 1 of 3");
        log.record_judge_step("review", "asking reviewer 2 of 3");
        log.record_judge_step("another", "asking for a verdict");
        assert_eq!(steps(), review(Some("asking reviewer 2 of 3")));
        log.record_judge_end("review", "met", 1);
        assert_eq!(steps(), []);
    }

    #[test]
    fn an_unreadable_log_is_an_error_and_a_missing_one_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let home = RalphHome::new(directory.path().to_path_buf());
        let run = RunId::parse("abcd").unwrap();
        assert_eq!(read_gate_log(&home, &run, 0).unwrap(), (Vec::new(), 0));
        fs::create_private_dir(&home.run(&run).gates_log()).unwrap();
        assert!(read_gate_log(&home, &run, 0).is_err());
        assert_eq!(faults::list_faults(&home), []);
        GateLog::open(&home, &run).record(GateEvent::Started(&gate("make")));
        assert_eq!(faults::list_faults(&home).len(), 1);
    }
}
