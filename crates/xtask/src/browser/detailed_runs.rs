//! Runs with everything that a page can show: a driven run in progress, one with a proof and judges, one that waits for
//! an approval, and one whose journal was edited.

use super::sample_home::{HOSTILE, SampleStop, TESTS_GATE};
use super::sample_journal::SampleJournal;
use crate::disk;
use anyhow::{Context, Result};
use ralph_core::digest64::Digest64;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{
    DecisionRule, Dispute, JudgedContent, PendingKind, ReportLine, ReportedStatus, RunChange,
    RunRecord, StopOutcome, StopRecord, TranscriptReading, Waiver,
};
use ralph_core::requirement::TEST_CHANGES_REQUIREMENT;
use ralph_core::status::RunStatus;
use ralph_home::paths::RalphHome;
use ralph_sys::clock;
use ralph_sys::fs::file_slot::{self, FileSlot};
use ralph_sys::process_identity;
use serde_json::{Value, json};
use std::path::Path;

/// The driven run in progress.
pub(super) const DRIVEN_RUN: &str = "dr4v";
/// The run with a proof, judges and a waiver.
pub(super) const PROVED_RUN: &str = "pr7f";
/// The run that waits for an approval.
pub(super) const APPROVAL_RUN: &str = "ap9w";
const EDITED_RUN: &str = "ed6j";
/// Runs of the detailed home that have a page worth a look.
pub(super) const DETAILED_RUNS: [&str; 4] = [DRIVEN_RUN, PROVED_RUN, APPROVAL_RUN, EDITED_RUN];
const SESSIONS: [&str; 2] =
    ["1b810b37-0c11-4c0e-9a51-2f6d2f6b8a01", "5999882c-e786-462c-84d4-07d1c65b5e76"];
const MINUTE_MS: u64 = 60_000;
/// The requirement that a person waives.
const WAIVED: &str = "fmt";

/// Which texts the runs of a home have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleWording {
    Realistic,
    /// Every text that can come from elsewhere tries to be markup.
    Hostile,
}

impl SampleWording {
    pub(super) fn text(self, realistic: &str) -> String {
        match self {
            Self::Realistic => realistic.to_string(),
            Self::Hostile => format!("{HOSTILE} {realistic}"),
        }
    }
}

/// Writes the four runs. The driven one counts as driven, and its gates as running, while the returned lock is held.
pub(super) fn write_detailed_runs(root: &Path, wording: SampleWording) -> Result<FileSlot> {
    write_proved_run(root, wording)?;
    write_approval_run(root, wording)?;
    write_edited_run(root, wording)?;
    write_driven_run(root, wording)
}

/// A run in its second session, with a question that was answered, a wait, a remedy and running gates.
pub(super) fn write_driven_run(root: &Path, wording: SampleWording) -> Result<FileSlot> {
    let home = RalphHome::new(root.to_path_buf());
    let text = |realistic: &str| wording.text(realistic);
    let mut record = new_record(
        DRIVEN_RUN,
        "/srv/search",
        4 * 60 + 12,
        &text("Index in blocks, so that a search reads less"),
    )?;
    let mut drive = serde_json::to_value(ralph_core::drive::DriveSettings::DEFAULT)?;
    drive["model"] = json!("opus");
    drive["worktree"] = json!({
        "path": "/srv/.ralph-worktrees/dr4v", "branch": text("ralph/index-in-blocks"), "from": "/srv/search",
        "into": "main", "base": "4f1c2a9e7b", "then": "pull_request",
    });
    record.drive = Some(Box::new(serde_json::from_value(drive)?));
    let mut run = SampleJournal::begin(&home, &record)?;
    run.after(0, session(0)?)?;
    for (stop, open) in [5, 4, 4].into_iter().enumerate() {
        run.after(19, metered(0, stop, "agent")?)?;
        run.after(3, decided(detailed_stop(stop, open, wording)))?;
    }
    run.after(1, change(json!({ "denied": {
        "tool": "Bash", "what": text("changes git history"), "call": text("git push --force origin main"),
    } }))?)?;
    let why = text("the generated tables are formatted when they are released");
    let until_ms = clock::now_ms() + 570 * MINUTE_MS;
    let waiver = Waiver { requirement: WAIVED.to_string(), why, by: text("ada"), until_ms };
    run.after(4, RunChange::Waived(waiver))?;
    let why = text("the old test expects the order in which hash maps iterate");
    run.after(9, RunChange::Disputed(Dispute { requirement: "clippy".to_string(), why }))?;
    let why = text("the context is 83 % full");
    run.after(2, drove(&json!({ "hands_over": { "why": why, "permille": 830 } }))?)?;
    run.after(1, session(1)?)?;
    let to = session_id(1)?;
    let how = ralph_core::record::MoveReason::HandedOver;
    run.after(0, RunChange::Moved { to, how, process: None, seen: 0 })?;
    run.after(11, drove(&json!({ "waits": {
        "cause": "rate_limit", "since_ms": record.started_ms, "until_ms": record.started_ms, "attempt": 1,
        "why": text("the limit of five hours is used up"), "window": "five_hour",
    } }))?)?;
    run.after(21, drove(&json!("woke"))?)?;
    let question = text("Blocks of 128 postings read least, blocks of 64 write faster. Which one?");
    run.after(
        8,
        drove(&json!({ "asks_person": { "question": question, "until_ms": until_ms } }))?,
    )?;
    run.after(6, change(json!({ "hint_given": { "text": text("128"), "by": text("ada") } }))?)?;
    let why = text("the same two findings three times in a row");
    run.after(15, drove(&json!({ "tried": { "remedy": "approach", "why": why } }))?)?;
    run.after(7, change(json!({ "recalled": { "query": text("varint blocks"), "found": 2 } }))?)?;
    run.after(13, metered(1, 4, "agent")?)?;
    run.after(1, metered(1, 4, "gate")?)?;
    let mut last = detailed_stop(3, 2, wording);
    waive_fmt(&mut last, wording);
    last.judges = vec![judge("unmet", wording)?];
    run.after(3, decided(last))?;
    run.save(&text(
        "Index in blocks, so that a search reads less.\n\n- Old indexes can still be read.\n",
    ))?;
    write_driven_files(&home, &record, wording)
}

/// What a runner and its worker keep beside the journal.
fn write_driven_files(
    home: &RalphHome,
    record: &RunRecord,
    wording: SampleWording,
) -> Result<FileSlot> {
    let RunRecord { id: run, project, .. } = record;
    let paths = home.run(run);
    let notes = wording.text("# Notes\n\nBlocks are written. Reading the old format is next.");
    disk::write_file(&paths.numbered_handover(2), notes.as_bytes())?;
    let runner = process_identity::identify_process(std::process::id());
    disk::write_file(&paths.runner(), &serde_json::to_vec(&runner)?)?;
    let since_ms = clock::now_ms() - 21_000;
    let gate = wording.text(TESTS_GATE);
    let usual = json!({ &gate: 38_200 });
    let history = home.gate_history(Path::new(project));
    disk::write_with_parents(&history, usual.to_string().as_bytes())?;
    let began = json!({ "at": "began" });
    let started = json!({ "at": "started", "gate": gate, "since_ms": since_ms });
    disk::write_file(&paths.gates_log(), format!("{began}\n{started}\n").as_bytes())?;
    file_slot::acquire(&paths.worker_lock(), &|| false)?.context("the worker of a sample run")
}

/// A run that ended well, with things to look at first.
fn write_proved_run(root: &Path, wording: SampleWording) -> Result<()> {
    let home = RalphHome::new(root.to_path_buf());
    let text = |realistic: &str| wording.text(realistic);
    let record =
        new_record(PROVED_RUN, "/srv/mail", 7 * 60, &text("Retry mails that the relay deferred"))?;
    let mut run = SampleJournal::begin(&home, &record)?;
    for (stop, open) in [4, 2, 1].into_iter().enumerate() {
        run.after(26, decided(detailed_stop(stop, open, wording)))?;
    }
    run.after(
        2,
        change(json!({ "learned": { "id": "l1", "title": text("run the relay tests alone") } }))?,
    )?;
    let mut last = detailed_stop(3, 0, wording);
    last.rule = DecisionRule::Verified;
    last.outcome = StopOutcome::Ended(RunStatus::Verified);
    last.because = text("all 5 requirements are met, in a clean checkout");
    let clean = last.gates.iter().map(|gate| {
        let site = ralph_core::record::MeasuredSite::Clean;
        ralph_core::record::GateRecord { site, cached: false, ..gate.clone() }
    });
    last.gates = last.gates.iter().cloned().chain(clean).collect();
    last.judges = vec![judge("met", wording)?];
    last.judged = Some(JudgedContent {
        checkpoint: 4,
        commit: "4f1c2a9e7b0d4f1c2a9e7b0d4f1c2a9e7b0d4f1c".to_string(),
        tree: "b1946ac92492d2347c6235b4d2611184b1946ac9".to_string(),
    });
    // No run with a broken test is verified, but a text must be shown as text even then.
    let broken = match wording {
        SampleWording::Realistic => json!([]),
        SampleWording::Hostile => json!([
            { "gate": "tests", "test": HOSTILE, "how": "missing", "message": HOSTILE },
        ]),
    };
    last.proof = Some(serde_json::from_value(json!({
        "verdict": "verified", "held": 148, "telling": 3,
        "broken_count": broken.as_array().map_or(0, Vec::len), "broken": broken,
        "doubts": [text("`fmt` names no tests")],
        "removed": [text("relay::sleeps")],
        "allowed": [text("tests/relay.rs")],
    }))?);
    run.after(31, decided(last))?;
    run.save(&text("Retry mails that the relay deferred, for two days."))
}

/// A run that waits until a person approves its phase.
fn write_approval_run(root: &Path, wording: SampleWording) -> Result<()> {
    let home = RalphHome::new(root.to_path_buf());
    let text = |realistic: &str| wording.text(realistic);
    let record =
        new_record(APPROVAL_RUN, "/srv/billing", 95, &text("Move invoices to the new ledger"))?;
    let mut run = SampleJournal::begin(&home, &record)?;
    run.after(22, decided(detailed_stop(0, 3, wording)))?;
    let mut waits = detailed_stop(1, 1, wording);
    waits.rule = DecisionRule::NeedsHuman;
    waits.outcome = StopOutcome::Allowed;
    waits.because = text("a person has to approve design: `ralph approve ap9w design`");
    let lines = waits.report.iter_mut().flat_map(|report| &mut report.lines);
    for line in lines.filter(|line| line.standing == ReportedStatus::Unmet) {
        line.name = text("design");
        line.standing = ReportedStatus::Pending;
        line.pending = Some(PendingKind::AwaitsPerson);
    }
    run.after(17, decided(waits))?;
    run.save(&text("Move invoices to the new ledger."))
}

/// A run that ended well according to a journal that is not as ralph wrote it.
fn write_edited_run(root: &Path, wording: SampleWording) -> Result<()> {
    let home = RalphHome::new(root.to_path_buf());
    let text = |realistic: &str| wording.text(realistic);
    let record =
        new_record(EDITED_RUN, "/srv/site", 130, &text("Serve pictures in modern formats"))?;
    let mut run = SampleJournal::begin(&home, &record)?;
    run.after(31, decided(detailed_stop(0, 2, wording)))?;
    let mut last = detailed_stop(1, 0, wording);
    last.outcome = StopOutcome::Ended(RunStatus::Verified);
    last.tampering = Some(text("`run.json` was changed after the start"));
    run.after(28, decided(last))?;
    run.save_edited(&text("Serve pictures in modern formats."))
}

fn new_record(run: &str, project: &str, minutes: u64, title: &str) -> Result<RunRecord> {
    let run = RunId::parse(run).context("a wrong id")?;
    // Half a minute more, so that no age is close to the next whole minute.
    let started_ms = clock::now_ms() - minutes * MINUTE_MS - MINUTE_MS / 2;
    let mut record = RunRecord::new(run, project.to_string(), started_ms);
    record.title = title.to_string();
    record.owner = Some(session_id(0)?);
    Ok(record)
}

fn session_id(number: usize) -> Result<SessionId> {
    SESSIONS.get(number).and_then(|id| SessionId::parse(id)).context("a wrong session")
}

fn change(value: Value) -> Result<RunChange> {
    serde_json::from_value(value).context("a sample entry of a journal")
}

fn drove(event: &Value) -> Result<RunChange> {
    change(json!({ "drove": event }))
}

fn session(number: usize) -> Result<RunChange> {
    let argv = ["claude", "--print", "--output-format", "stream-json"];
    let id = session_id(number)?;
    drove(&json!({ "session": { "id": id, "how": "fresh", "model": "opus", "argv": argv } }))
}

fn metered(number: usize, turns: usize, source: &str) -> Result<RunChange> {
    let turns = u64::try_from(turns + 1)?;
    let session = session_id(number)?;
    drove(&json!({ "metered": {
        "session": session, "source": source, "micro_usd": turns * 830_000, "tokens": turns * 61_000,
        "turns": turns * 9,
    } }))
}

fn decided(stop: StopRecord) -> RunChange {
    RunChange::Decided(Box::new(stop))
}

/// A held stop of a session whose context fills, with a changed test.
fn detailed_stop(stop: usize, open: usize, wording: SampleWording) -> StopRecord {
    let mut held = SampleStop { number: stop, open, seed: 7, wording }.held();
    held.observed = Some(TranscriptReading {
        inode: 10_071_772,
        offset: 6021 * (stop as u64 + 1),
        context_tokens: Some(44_000 * (stop as u64 + 1)),
        context_window: Some(200_000),
        ..TranscriptReading::default()
    });
    if let Some(report) = &mut held.report {
        report.lines.push(ReportLine {
            name: TEST_CHANGES_REQUIREMENT.to_string(),
            stage: "correctness".to_string(),
            judge: None,
            standing: ReportedStatus::Advisory,
            pending: None,
            was: None,
            note: wording.text("1 expectation differs"),
            first: Some(wording.text("tests/relay.rs:12: 3 instead of 4")),
            listed: Vec::new(),
            findings: 1,
            signature: Digest64(7),
        });
    }
    held
}

/// Reports `fmt` as waived, although its gate still fails.
fn waive_fmt(stop: &mut StopRecord, wording: SampleWording) {
    let Some(report) = &mut stop.report else { return };
    report.met.retain(|name| name != WAIVED);
    report.lines.push(ReportLine {
        name: WAIVED.to_string(),
        stage: "correctness".to_string(),
        judge: None,
        standing: ReportedStatus::Advisory,
        pending: None,
        was: None,
        note: wording.text("waived by ada for another 9 h"),
        first: Some(wording.text("src/tables.rs:12: not formatted")),
        listed: Vec::new(),
        findings: 3,
        signature: Digest64(3),
    });
    for gate in stop.gates.iter_mut().filter(|gate| gate.name == WAIVED) {
        gate.outcome = "failed".to_string();
        (gate.findings, gate.cached) = (3, false);
    }
}

fn judge(outcome: &str, wording: SampleWording) -> Result<ralph_core::record::JudgeRecord> {
    let why = wording.text("the index of a crashed writer is not tried");
    Ok(serde_json::from_value(json!({
        "name": wording.text("review"), "kind": "adversarial", "outcome": outcome, "why": why,
        "reason": why, "model": wording.text("opus"), "prompt_hash": "9f86d081884c7d65", "calls": 3,
        "input_tokens": 18_400, "output_tokens": 2_100, "micro_usd": 190_000, "took_ms": 41_000,
        "findings": u32::from(outcome == "unmet"),
    }))?)
}
