//! Files on users' disks stay readable: a fixture of every format that was ever written.

use ralph_core::drive::{MeterReading, RunnerEvent};
use ralph_core::gate::TestCounts;
use ralph_core::host_name::HostName;
use ralph_core::proof::{BaseResults, BrokenTest, ProofRuns};
use ralph_core::proof_summary::ProofRecord;
use ralph_core::record::{
    Acceptance, CostReading, DecisionRule, DeliveryId, Dispute, FORMAT_VERSION, GateRecord,
    GateTool, JournalEntry, JudgeRecord, JudgedContent, MeasuredSite, PolicySeal, ReportLine,
    ReportedStatus, RunBase, RunChange, RunRecord, StopOutcome, StopRecord, StopReport,
    TranscriptReading, Waiver,
};
use ralph_core::run::RunState;
use ralph_core::status::RunStatus;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde_json::Value;
use std::collections::BTreeSet;

const RUN: &str = include_str!("../../../../fixtures/state/v1/run.json");
const SEALED: &str = include_str!("../../../../fixtures/state/v1/sealed-run.json");
const STATE: &str = include_str!("../../../../fixtures/state/v1/state.json");
const JOURNAL: &str = include_str!("../../../../fixtures/state/v1/journal.jsonl");
const DRIVEN_STATE: &str = include_str!("../../../../fixtures/state/v1/driven-state.json");
const DRIVEN_JOURNAL: &str = include_str!("../../../../fixtures/state/v1/driven-journal.jsonl");

fn written(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

fn stored(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn journal() -> Vec<JournalEntry> {
    JOURNAL.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn format_1_round_trips() {
    let run: RunRecord = serde_json::from_str(RUN).unwrap();
    let state: RunState = serde_json::from_str(STATE).unwrap();
    assert_eq!(written(&run), stored(RUN));
    assert_eq!(written(&state), stored(STATE));
    for (entry, line) in journal().iter().zip(JOURNAL.lines()) {
        assert_eq!(written(entry), stored(line));
    }
}

/// Records of the default host are the bytes that older versions wrote.
#[test]
fn only_another_host_is_recorded() {
    let run: RunRecord = serde_json::from_str(RUN).unwrap();
    assert_eq!(run.host, HostName::DEFAULT);
    let run = RunRecord { host: HostName::new("other"), ..run };
    let mut expected = stored(RUN);
    expected["host"] = "other".into();
    assert_eq!(written(&run), expected);
    assert_eq!(serde_json::from_value::<RunRecord>(expected).unwrap(), run);
}

/// A run with a policy stores the whole policy.
#[test]
fn a_sealed_policy_of_format_1_round_trips() {
    let run: RunRecord = serde_json::from_str(SEALED).unwrap();
    assert_eq!(written(&run), stored(SEALED));
    assert_eq!(run.seal.map(|seal| seal.policy.gates.len()), Some(2));
}

#[test]
fn a_journal_of_format_1_replays_to_its_state() {
    let run: RunRecord = serde_json::from_str(RUN).unwrap();
    let state: RunState = serde_json::from_str(STATE).unwrap();
    assert_eq!(RunState::replay(&journal()), Some((run, state)));
    let counted: Vec<u32> = journal().iter().map(|entry| entry.iteration).collect();
    let replayed: Vec<u32> = (1..=journal().len())
        .map(|length| RunState::replay(&journal()[..length]).unwrap().1.iteration)
        .collect();
    assert_eq!(counted, replayed);
    assert!(journal().iter().all(|entry| entry.v == 1));
}

/// Format 2 adds what a session costs, and a person's own prices.
#[test]
fn a_journal_of_format_2_round_trips_and_replays_to_its_state() {
    const RUN: &str = include_str!("../../../../fixtures/state/v2/run.json");
    const STATE: &str = include_str!("../../../../fixtures/state/v2/state.json");
    const JOURNAL: &str = include_str!("../../../../fixtures/state/v2/journal.jsonl");
    let entries: Vec<JournalEntry> =
        JOURNAL.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (entry, line) in entries.iter().zip(JOURNAL.lines()) {
        assert_eq!((written(entry), entry.v), (stored(line), 2));
    }
    let (run, state) = RunState::replay(&entries).unwrap();
    assert_eq!((written(&run), written(&state)), (stored(RUN), stored(STATE)));
    assert_eq!(run.prices.len(), 1);
    assert_eq!(state.cost.and_then(|cost| cost.spent_micro_usd()), Some(1600));
}

/// A recorded run in which a stop rests on everything that it can rest on, and a person and the agent adjust the run.
#[test]
fn a_judged_run_of_format_2_round_trips_and_replays_to_its_state() {
    const STATE: &str = include_str!("../../../../fixtures/state/v2/judged-state.json");
    const JOURNAL: &str = include_str!("../../../../fixtures/state/v2/judged-journal.jsonl");
    let mut names = BTreeSet::new();
    let mut entries = Vec::new();
    for line in JOURNAL.lines() {
        let entry: JournalEntry = serde_json::from_str(line).unwrap();
        assert_eq!((written(&entry), entry.v), (stored(line), 2));
        collect_paths(&stored(line)["change"], "", &mut names);
        entries.push(entry);
    }
    let (_, state) = RunState::replay(&entries).unwrap();
    assert_eq!(written(&state), stored(STATE));
    for name in [
        "decided.report.lines.judge",
        "decided.report.also_open",
        "decided.report.met",
        "decided.gates.cached",
        "decided.gates.steadiness",
        "decided.gates.findings",
        "decided.gates.tests.failed",
        "decided.gates.key",
        "decided.gates.log",
        "decided.judged.checkpoint",
        "decided.judged.commit",
        "decided.judged.tree",
        "decided.judges.prompt_hash",
        "decided.judge_spending.micro_usd",
        "decided.proof.allowed",
        "decided.proof.runs.base.failed",
        "decided.proof.runs.new_tests",
        "disputed.why",
        "hint_given.by",
        "waived.until_ms",
        "waiver_revoked.requirement",
    ] {
        assert!(names.contains(name), "the fixture has no `{name}`: {names:#?}");
    }
}

/// The paths of all fields, without the places in lists.
fn collect_paths(value: &Value, path: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect_paths(field, &path, names);
                names.insert(path);
            }
        }
        Value::Array(list) => list.iter().for_each(|one| collect_paths(one, path, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A cancelled run and a lost journal, which a single journal cannot both contain. The run had ended and stays ended.
#[test]
fn the_other_changes_of_format_1_are_read() {
    let restored = format!(
        r#"{{"v":1,"seq":11,"at_ms":1,"prev":"","iteration":2,"after":"","change":{{"restored":{{"run":{RUN},"state":{STATE}}}}}}}"#
    );
    let cancelled =
        r#"{"v":1,"seq":12,"at_ms":2,"prev":"x","iteration":2,"after":"","change":"cancelled"}"#;
    let entries: Vec<JournalEntry> = [restored.as_str(), cancelled]
        .iter()
        .map(|line| {
            let entry: JournalEntry = serde_json::from_str(line).unwrap();
            assert_eq!(written(&entry), stored(line));
            entry
        })
        .collect();
    let (run, state) = RunState::replay(&entries).unwrap();
    assert_eq!(written(&run), stored(RUN));
    let mut expected = stored(STATE);
    expected["seq"] = 13.into();
    assert_eq!(written(&state), expected);
}

/// A recorded part stays readable, and a state without parts is serialised as before.
#[test]
fn a_part_of_format_1_round_trips() {
    let line = r#"{"v":1,"seq":4,"at_ms":9,"prev":"x","iteration":2,"after":"","change":{"part":{"who":{"kind":"subagent","id":"a1","name":"implementer"},"chunk":"parser","rule":"hold","reason":"ralph: hold 1 of 3","because":"1 of 2 requirements is not met","holds":1,"max_holds":3,"delivery":{"stop":"00000000000000ff","length":12},"took_ms":5}}}"#;
    let entry: JournalEntry = serde_json::from_str(line).unwrap();
    assert_eq!(written(&entry), stored(line));
    let run: RunRecord = serde_json::from_str(RUN).unwrap();
    let mut state = RunState::new(&run);
    assert_eq!(written(&state).get("parts"), None);
    state.apply(&entry);
    let expected = r#"[{"who":{"kind":"subagent","id":"a1","name":"implementer"},"chunk":"parser","rule":"hold","holds":1,"delivery":{"stop":"00000000000000ff","length":12},"at_ms":9,"answer":"ralph: hold 1 of 3"}]"#;
    assert_eq!(written(&state)["parts"], stored(expected));
}

/// A driven run with every kind of runner event.
#[test]
fn a_driven_run_of_format_1_round_trips() {
    let mut kinds = BTreeSet::new();
    let mut entries = Vec::new();
    for line in DRIVEN_JOURNAL.lines() {
        let entry: JournalEntry = serde_json::from_str(line).unwrap();
        assert_eq!(written(&entry), stored(line));
        if let RunChange::Drove(drove) = &entry.change {
            kinds.insert(kind(drove));
        }
        entries.push(entry);
    }
    let all = "asks_person broke granted hands_over metered parked passed_on proof_base session settled silent tried waited_enough waits woke";
    assert_eq!(kinds.into_iter().collect::<Vec<_>>().join(" "), all);
    let (run, state) = RunState::replay(&entries).unwrap();
    assert_eq!(written(&state), stored(DRIVEN_STATE));
    assert_eq!(serde_json::from_str::<RunState>(DRIVEN_STATE).unwrap(), state);
    assert_eq!(run.drive.map(|settings| settings.idle_ms), Some(600_000));
    let counted: Vec<u32> = entries.iter().map(|entry| entry.iteration).collect();
    let replayed: Vec<u32> = (1..=entries.len())
        .map(|length| RunState::replay(&entries[..length]).unwrap().1.iteration)
        .collect();
    assert_eq!(counted, replayed);
}

/// No wildcard arm: a new kind must be added to the fixture.
fn kind(drove: &RunnerEvent) -> &'static str {
    match drove {
        RunnerEvent::Session(_) => "session",
        RunnerEvent::Metered(_) => "metered",
        RunnerEvent::HandsOver { .. } => "hands_over",
        RunnerEvent::Waits(_) => "waits",
        RunnerEvent::AsksPerson { .. } => "asks_person",
        RunnerEvent::Woke => "woke",
        RunnerEvent::WaitedEnough { .. } => "waited_enough",
        RunnerEvent::Tried { .. } => "tried",
        RunnerEvent::Silent { .. } => "silent",
        RunnerEvent::Broke { .. } => "broke",
        RunnerEvent::Parked { .. } => "parked",
        RunnerEvent::Settled { .. } => "settled",
        RunnerEvent::ProofBase { .. } => "proof_base",
        RunnerEvent::PassedOn => "passed_on",
        RunnerEvent::Granted { .. } => "granted",
    }
}

/// The state of a run that is not driven, and so its hash, is the same as before runners existed.
#[test]
fn the_state_of_a_run_that_is_not_driven_omits_driving() {
    let run: RunRecord = serde_json::from_str(RUN).unwrap();
    assert_eq!(written(&RunState::new(&run)).get("driving"), None);
    assert_eq!(written(&run).get("drive"), None);
}

/// Lists the fields of a struct, or the variants of an enum, as serde knows them.
struct NameCollector<'a>(&'a mut Vec<&'static str>);

impl<'de> Deserializer<'de> for NameCollector<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("neither a struct nor an enum"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.extend(fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.extend(variants);
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

fn serde_names<'de, T: Deserialize<'de>>() -> String {
    let mut names = Vec::new();
    assert!(T::deserialize(NameCollector(&mut names)).is_err());
    names.join(" ")
}

/// An older ralph quarantines a journal with a name that it does not know, and calls a state with another hash edited,
/// unless the format's version says that a newer ralph wrote them. So a name may be added here only together with a new
/// `FORMAT_VERSION`, or while the current one has not been released.
#[test]
fn names_of_the_current_format() {
    assert_eq!(FORMAT_VERSION, 2);
    let shown = [
        ("RunState", serde_names::<RunState>()),
        ("RunChange", serde_names::<RunChange>()),
        ("StopRecord", serde_names::<StopRecord>()),
        ("StopOutcome", serde_names::<StopOutcome>()),
        ("DecisionRule", serde_names::<DecisionRule>()),
        ("RunnerEvent", serde_names::<RunnerEvent>()),
        ("RunStatus", RunStatus::ALL.map(RunStatus::name).join(" ")),
        ("JournalEntry", serde_names::<JournalEntry>()),
        ("RunRecord", serde_names::<RunRecord>()),
        ("PolicySeal", serde_names::<PolicySeal>()),
        ("RunBase", serde_names::<RunBase>()),
        ("GateTool", serde_names::<GateTool>()),
        ("StopReport", serde_names::<StopReport>()),
        ("ReportLine", serde_names::<ReportLine>()),
        ("ReportedStatus", serde_names::<ReportedStatus>()),
        ("GateRecord", serde_names::<GateRecord>()),
        ("MeasuredSite", serde_names::<MeasuredSite>()),
        ("TestCounts", serde_names::<TestCounts>()),
        ("JudgedContent", serde_names::<JudgedContent>()),
        ("JudgeRecord", serde_names::<JudgeRecord>()),
        ("ProofRecord", serde_names::<ProofRecord>()),
        ("ProofRuns", serde_names::<ProofRuns>()),
        ("BaseResults", serde_names::<BaseResults>()),
        ("BrokenTest", serde_names::<BrokenTest>()),
        ("CostReading", serde_names::<CostReading>()),
        ("DeliveryId", serde_names::<DeliveryId>()),
        ("TranscriptReading", serde_names::<TranscriptReading>()),
        ("MeterReading", serde_names::<MeterReading>()),
        ("Waiver", serde_names::<Waiver>()),
        ("Dispute", serde_names::<Dispute>()),
        ("Acceptance", serde_names::<Acceptance>()),
    ];
    insta::assert_snapshot!(shown.map(|(name, names)| format!("{name}: {names}")).join("\n"), @r"
    RunState: seq phase iteration started_ms last_seen_ms ran_ms clock_ms seen stale odd_stops delivery answer report observed process trouble tampered owner declared in_a_row background memory anchored_ms heeded parts hints waivers disputes limits way garbled driving accepted held_for_proof cost moved_ms judges approvals awaited answered_ms
    RunChange: started restored decided trouble paused interrupted resumed cancelled asked waits moved compacted anchored denied overridden part hint_given waived waiver_revoked disputed limited stepped recalled learned drove approved accepted
    StopRecord: rule outcome because mark delivery report observed process tampering background in_a_row prompt_hold garbled remedy proof gates judged judges judge_spending cost awaited arrived_ms took_ms
    StopOutcome: allowed blocked awaited handed_over repeated orphaned ended
    DecisionRule: not-mine off repeat host-trouble odd-stop waiting needs-human untrusted verified proof claimed tampered gate-broken limit stuck remedy hand-over final-look hold-once block passed
    RunnerEvent: session metered hands_over waits asks_person woke waited_enough tried silent broke parked settled proof_base passed_on granted
    RunStatus: verified green claimed exhausted stuck needs_human needs_review gate_broken rate_limited cancelled overridden crashed
    JournalEntry: v seq at_ms prev iteration after change by
    RunRecord: v id owner started_ms project origin first_iteration limits features promise checklist goal_bytes goal_hash title on_tampering prompt listed lists tasks phases transcript_length process seal drive host prices
    PolicySeal: policy project hash base path tools complexity git files checks variables mounts_checkouts
    RunBase: commit identity absent outside_links
    GateTool: gate path content
    StopReport: total unmet unknown pending failures lines also_open met claimed
    ReportLine: name stage judge standing pending was note first listed findings signature
    ReportedStatus: unmet unknown pending advisory
    GateRecord: name site outcome took_ms cached steadiness findings tests coverage changed_coverage key log
    MeasuredSite: tree clean base
    TestCounts: run failed skipped
    JudgedContent: checkpoint commit tree
    JudgeRecord: name kind outcome why reason model prompt_hash calls input_tokens output_tokens micro_usd is_cost_estimated took_ms cached findings misquoted unconfirmed unread dropped_findings shown_by_tests rejected_tests unseen raised
    ProofRecord: verdict held telling broken_count broken doubts removed allowed runs
    ProofRuns: gates base old_tests new_tests
    BaseResults: gates passed tests failed
    BrokenTest: gate test how message
    CostReading: estimated_micro_usd reported_micro_usd unpriced meter
    DeliveryId: stop length
    TranscriptReading: inode offset context_tokens context_window cost_micro_usd first_cost_micro_usd checklist queued
    MeterReading: session source micro_usd tokens turns meter
    Waiver: requirement why by until_ms
    Dispute: requirement why
    Acceptance: by why at_ms was
    ");
}

/// The owner is parsed leniently: a run without a valid owner holds no session.
#[test]
fn an_invalid_owner_is_ignored() {
    for owner in [Value::Null, "".into(), "../../etc/passwd".into(), "a b".into()] {
        let mut run = stored(RUN);
        run["owner"] = owner;
        assert_eq!(serde_json::from_value::<RunRecord>(run).unwrap().owner, None);
    }
    let mut run = stored(RUN);
    run.as_object_mut().unwrap().remove("owner");
    assert_eq!(serde_json::from_value::<RunRecord>(run).unwrap().owner, None);
}

/// A field that a later version adds does not make this version fail.
#[test]
fn unknown_fields_are_ignored() {
    let mut state = stored(STATE);
    state["mood"] = "hopeful".into();
    let known: RunState = serde_json::from_value(state).unwrap();
    assert_eq!(written(&known), stored(STATE));
}

#[test]
fn a_journal_without_a_valid_first_entry_is_rejected() {
    let entries = journal();
    assert_eq!(RunState::replay(&entries[1..]), None);
    assert_eq!(RunState::replay(&[]), None);
    assert!(matches!(entries[0].change, RunChange::Started(_)));
}
