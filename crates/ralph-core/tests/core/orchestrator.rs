//! The nine conditions of an orchestrated run: their requirements, their evidence, and the effect of an agent's edits of
//! the view.

use ralph_core::policy::PlanApprover;
use ralph_core::record::OrchestratorStep;
use ralph_core::requirement::{EvidenceKind, Requirement, RequirementStatus, RequirementWeight};
use ralph_core::run::OrchestratorProgress;
use ralph_core::source::orchestrator::{
    ConditionBasis, GatesByStage, LearningStatus, OrchestratorCondition, OrchestratorPhase,
    StageGates, condition_requirements, condition_views, find_view_edits,
    ignored_edits_requirement, read_orchestrator,
};
use std::fmt::Write;

fn gauges(gauge: &StageGates) -> GatesByStage {
    GatesByStage { correctness: gauge.clone(), quality: gauge.clone(), adversarial: gauge.clone() }
}

fn ground(way: &OrchestratorProgress) -> ConditionBasis<'_> {
    let learned =
        if way.learned.is_some() { LearningStatus::Saved } else { LearningStatus::Nothing };
    ConditionBasis {
        progress: way,
        approver: PlanApprover::Person,
        person_complexity: None,
        learned,
        approved_phases: &[],
        approvals: &[],
    }
}

fn all_done() -> OrchestratorProgress {
    OrchestratorProgress {
        phase: None,
        claims: vec![
            OrchestratorCondition::MustHaveAnswered,
            OrchestratorCondition::ImplementationComplete,
        ],
        complexity: Some(8),
        approved_by: Some("a person, in the session".to_owned()),
        recalled: 2,
        learned: Some("20261116-quotes".to_owned()),
    }
}

fn standing(one: &Requirement) -> String {
    match &one.status {
        RequirementStatus::Met(evidence) => format!("met, {evidence:?}"),
        RequirementStatus::Unmet(failure) if one.weight == RequirementWeight::Advisory => {
            format!("advisory: {}", failure.summary)
        }
        RequirementStatus::Unmet(failure) => format!("unmet: {}", failure.summary),
        RequirementStatus::Unknown(why) => format!("unknown: {why}"),
        RequirementStatus::Pending(pending) => format!("pending: {}", pending.why()),
    }
}

fn table(requirements: &[Requirement]) -> String {
    requirements.iter().fold(String::new(), |mut out, one| {
        writeln!(out, "{} ({}) {}", one.name, one.stage.name(), standing(one)).unwrap();
        if !one.next.is_empty() {
            writeln!(out, "    {}", one.next).unwrap();
        }
        out
    })
}

#[test]
fn a_new_run_has_all_conditions_open() {
    let way = OrchestratorProgress::default();
    let open = StageGates::Failed(vec!["tests".to_owned()]);
    insta::assert_snapshot!(table(&condition_requirements(&ground(&way), &gauges(&open))), @r#"
    memory search (planning) unmet: no search of earlier runs yet
        Search earlier runs and learnings: `ralph recall "…"`
    task classified (planning) unmet: the complexity of the task is not set yet
        Rate the complexity of the task from 1 to 10: `ralph orchestrator set task_classified --complexity N`
    must-have questions answered (planning) unmet: not marked as answered yet
        Answer the must-have questions (use `ralph ask "…"` for those only a person can answer), then run `ralph orchestrator set must_have_answered`
    plan approved (planning) unmet: no person has approved the plan yet
        Show the plan to the person, who approves it with `/ralph:approve`; meanwhile run `ralph wait "plan approval" --for 2h`
    implementation complete (planning) unmet: not marked as complete yet
        Do the work, then run `ralph orchestrator set implementation_complete`
    correctness passed (correctness) unmet: not passed: tests
    quality passed (quality) unmet: not passed: tests
    adversarial passed (adversarial) unmet: not passed: tests
    retrospective done (planning) unmet: no learning was saved yet
    "#);
}

/// R-L3a: recorded facts are measured, claims are backed by passing gates.
#[test]
fn evidence_of_met_conditions() {
    let way = all_done();
    insta::assert_snapshot!(table(&condition_requirements(&ground(&way), &gauges(&StageGates::Passed))), @"
    memory search (planning) met, Measured
    task classified (planning) met, Measured
    must-have questions answered (planning) met, Backed
    plan approved (planning) met, Measured
    implementation complete (planning) met, Backed
    correctness passed (correctness) met, Measured
    quality passed (quality) met, Measured
    adversarial passed (adversarial) met, Measured
    retrospective done (planning) met, Measured
    ");
}

/// R-S4c: a claim without gates stays a claim.
#[test]
fn without_gates_stages_are_advisory_and_claims_stay_claims() {
    let way = all_done();
    insta::assert_snapshot!(table(&condition_requirements(&ground(&way), &gauges(&StageGates::Absent))), @"
    memory search (planning) met, Measured
    task classified (planning) met, Measured
    must-have questions answered (planning) met, Claimed
    plan approved (planning) met, Measured
    implementation complete (planning) met, Claimed
    correctness passed (correctness) advisory: nothing measures it: the policy has no gate of this stage that applies here
    quality passed (quality) advisory: nothing measures it: the policy has no gate of this stage that applies here
    adversarial passed (adversarial) advisory: nothing measures it: the policy has no gate of this stage that applies here
    retrospective done (planning) met, Measured
    ");
    let no_quality = GatesByStage { quality: StageGates::Absent, ..gauges(&StageGates::Passed) };
    let backed = |gauges: &GatesByStage| {
        let requirements = condition_requirements(&ground(&way), gauges);
        requirements
            .iter()
            .filter(|one| one.status == RequirementStatus::Met(EvidenceKind::Backed))
            .count()
    };
    assert_eq!(backed(&no_quality), 0);
    assert_eq!(
        backed(&GatesByStage { adversarial: StageGates::Absent, ..gauges(&StageGates::Passed) }),
        0
    );
    assert_eq!(backed(&gauges(&StageGates::Passed)), 2);
}

#[test]
fn adversarial_gates_are_required_from_complexity_7() {
    for (agent, person, expected) in [
        (None, None, true),
        (Some(6), None, false),
        (Some(7), None, true),
        (None, Some(3), false),
        (Some(9), Some(3), true),
        (Some(3), Some(7), true),
        (Some(1), Some(0), false),
    ] {
        let way = OrchestratorProgress { complexity: agent, ..all_done() };
        let ground = ConditionBasis { person_complexity: person, ..ground(&way) };
        let requirements = condition_requirements(&ground, &gauges(&StageGates::Passed));
        let required = requirements.iter().any(|one| one.name == "adversarial passed");
        assert_eq!(required, expected, "agent {agent:?}, person {person:?}");
    }
}

/// Without gates, nothing of the phase `validate` is open, not even before the work began.
#[test]
fn a_phase_is_approved_after_the_phases_before_it() {
    let (new, done) = (OrchestratorProgress::default(), all_done());
    let not_complete = OrchestratorProgress {
        claims: vec![OrchestratorCondition::MustHaveAnswered],
        ..all_done()
    };
    let mut out = String::new();
    for (name, way) in [("new", &new), ("not complete", &not_complete), ("done", &done)] {
        let approved_phases = [OrchestratorPhase::Implement, OrchestratorPhase::Validate];
        let ground = ConditionBasis { approved_phases: &approved_phases, ..ground(way) };
        let requirements = condition_requirements(&ground, &gauges(&StageGates::Absent));
        // After the conditions.
        for one in requirements.iter().rev().take(2).rev() {
            writeln!(out, "{name}, {}: {}", one.name, standing(one)).unwrap();
        }
    }
    insta::assert_snapshot!(out, @"
    new, implement approved: pending: comes after the conditions of phase `clarify`
    new, validate approved: pending: comes after the conditions of phase `clarify`
    not complete, implement approved: pending: comes after the conditions of phase `implement`
    not complete, validate approved: pending: comes after the conditions of phase `implement`
    done, implement approved: pending: waits for a person: not approved yet
    done, validate approved: pending: waits for a person: not approved yet
    ");
}

#[test]
fn each_condition_alone() {
    let mut out = String::new();
    let (person, agent) = (PlanApprover::Person, PlanApprover::Agent);
    let forgotten =
        OrchestratorProgress { learned: Some("x".to_owned()), ..OrchestratorProgress::default() };
    let cases: [(&str, OrchestratorProgress, PlanApprover); 8] = [
        (
            "memory searched once",
            OrchestratorProgress { recalled: 1, ..OrchestratorProgress::default() },
            person,
        ),
        ("memory search claimed", claimed(OrchestratorCondition::MemorySearch), person),
        (
            "classification claimed without a number",
            claimed(OrchestratorCondition::TaskClassified),
            person,
        ),
        ("plan claimed, a person approves", claimed(OrchestratorCondition::PlanApproved), person),
        ("plan claimed, the agent approves", claimed(OrchestratorCondition::PlanApproved), agent),
        ("nothing, the agent approves", OrchestratorProgress::default(), agent),
        ("retrospective claimed", claimed(OrchestratorCondition::RetrospectiveDone), person),
        ("learning deleted", forgotten, person),
    ];
    let plain = condition_requirements(
        &ground(&OrchestratorProgress::default()),
        &gauges(&StageGates::Passed),
    );
    for (name, way, approver) in cases {
        let learned =
            if way.learned.is_some() { LearningStatus::Gone } else { LearningStatus::Nothing };
        let ground = ConditionBasis {
            progress: &way,
            approver,
            person_complexity: None,
            learned,
            approved_phases: &[],
            approvals: &[],
        };
        let requirements = condition_requirements(&ground, &gauges(&StageGates::Passed));
        writeln!(out, "{name}").unwrap();
        for one in requirements.iter().filter(|one| !plain.contains(one)) {
            writeln!(out, "    {}: {}", one.name, standing(one)).unwrap();
        }
    }
    insta::assert_snapshot!(out, @"
    memory searched once
        memory search: met, Measured
    memory search claimed
        memory search: met, Backed
    classification claimed without a number
    plan claimed, a person approves
    plan claimed, the agent approves
        plan approved: met, Backed
    nothing, the agent approves
        plan approved: unmet: not marked as approved yet
    retrospective claimed
        retrospective done: unmet: marked as done, but no learning was saved
    learning deleted
        retrospective done: unmet: the saved learning no longer exists
    ");
}

fn claimed(condition: OrchestratorCondition) -> OrchestratorProgress {
    OrchestratorProgress { claims: vec![condition], ..OrchestratorProgress::default() }
}

#[test]
fn gates_determine_the_status_of_their_stage() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut out = String::new();
    for gauge in [
        StageGates::Absent,
        StageGates::Passed,
        StageGates::Failed(names(&["tests"])),
        StageGates::Failed(names(&["a", "b", "c", "d", "e", "f"])),
        StageGates::Running(names(&["tests"])),
        StageGates::Unknown(names(&["tests", "build"])),
    ] {
        let requirements =
            condition_requirements(&ground(&OrchestratorProgress::default()), &gauges(&gauge));
        let one = requirements.iter().find(|one| one.name == "correctness passed").unwrap();
        writeln!(out, "{gauge:?}\n    {}", standing(one)).unwrap();
    }
    insta::assert_snapshot!(out, @r#"
    Absent
        advisory: nothing measures it: the policy has no gate of this stage that applies here
    Passed
        met, Measured
    Failed(["tests"])
        unmet: not passed: tests
    Failed(["a", "b", "c", "d", "e", "f"])
        unmet: not passed: a, b, c, d and 2 more
    Running(["tests"])
        pending: tests is still running
    Unknown(["tests", "build"])
        pending: waiting for tests, build
    "#);
}

#[test]
fn the_view_before_the_first_stop_shows_what_is_known() {
    let way = OrchestratorProgress { complexity: Some(3), ..OrchestratorProgress::default() };
    let shown = condition_views(&ground(&way), None);
    let shown = shown.iter().fold(String::new(), |mut out, one| {
        let (owner, name) = (one.owner.name(), one.condition.key());
        writeln!(out, "{name} {owner} {:?}: {}", one.status, one.note).unwrap();
        out
    });
    insta::assert_snapshot!(shown, @"
    memory_search agent Unmet: no search of earlier runs yet
    task_classified agent Met: complexity 3 of 10
    must_have_answered agent Unmet: not marked as answered yet
    plan_approved person Unmet: no person has approved the plan yet
    implementation_complete agent Unmet: not marked as complete yet
    correctness_passed ralph Pending: not measured yet
    quality_passed ralph Pending: not measured yet
    adversarial_passed ralph Idle: not required below complexity 7
    retrospective_done agent Unmet: no learning was saved yet
    ");
}

/// The version that ralph wrote last in the cases below: memory searched, nothing else, complexity 8.
const LAST: &str = r#"{"ralph_run":"k7f2","phase":"classify","complexity":8,"verified_done":false,"conditions":{
    "memory_search":true,"task_classified":true,"must_have_answered":false,"plan_approved":false,"implementation_complete":false,
    "correctness_passed":null,"quality_passed":null,"adversarial_passed":null,"retrospective_done":false}}"#;

fn edited(file: &str, last: Option<&str>, approver: PlanApprover) -> String {
    let now = match read_orchestrator(file.as_bytes()) {
        Ok(now) => now,
        Err(garbled) => return format!("garbled: {}", garbled.why),
    };
    let way = OrchestratorProgress {
        claims: vec![OrchestratorCondition::MemorySearch],
        complexity: Some(8),
        ..OrchestratorProgress::default()
    };
    let last = last.map(|last| read_orchestrator(last.as_bytes()).unwrap());
    let found = find_view_edits(&now, last.as_ref(), &way, approver);
    let steps = found.steps.iter().map(|step| match step {
        OrchestratorStep::Phase(phase) => format!("phase {phase:?}"),
        OrchestratorStep::Claims(condition) => format!("claims {}", condition.key()),
        OrchestratorStep::Withdraws(condition) => format!("withdraws {}", condition.key()),
        OrchestratorStep::Classified(complexity) => format!("complexity {complexity}"),
        OrchestratorStep::Approved { .. } => panic!("no file approves a plan"),
    });
    let ignored = found.ignored.iter().map(|key| format!("({key})"));
    let all: Vec<_> = steps.chain(ignored).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}

const EVERYTHING: &str = r#"{"verified_done":true,"phase":"complete","conditions":{"memory_search":true,"task_classified":true,
    "must_have_answered":true,"plan_approved":true,"implementation_complete":true,"correctness_passed":true,"quality_passed":true,
    "adversarial_passed":true,"retrospective_done":true}}"#;

const FILES: [(&str, &str); 26] = [
    ("as ralph wrote it", LAST),
    ("everything true", EVERYTHING),
    ("verified_done alone", r#"{"verified_done":true}"#),
    ("one claim", r#"{"conditions":{"must_have_answered":true}}"#),
    ("a claim taken back", r#"{"conditions":{"memory_search":false}}"#),
    ("a classification taken back", r#"{"conditions":{"task_classified":false}}"#),
    ("the plan", r#"{"conditions":{"plan_approved":true}}"#),
    ("a measured one set", r#"{"conditions":{"correctness_passed":true}}"#),
    ("a measured one denied", r#"{"conditions":{"quality_passed":false}}"#),
    (
        "null for all",
        r#"{"phase":null,"verified_done":null,"conditions":{"memory_search":null,"plan_approved":null}}"#,
    ),
    ("empty object", "{}"),
    ("a phase", r#"{"phase":"implementation"}"#),
    ("the same phase", r#"{"phase":"classify"}"#),
    ("harder", r#"{"complexity":10}"#),
    ("easier", r#"{"complexity":3}"#),
    ("complexity out of range", r#"{"complexity":11}"#),
    ("complexity as a word", r#"{"complexity":"high"}"#),
    (
        "keys of another tool",
        r#"{"agents":[1,2],"conditions":{"reviewed":true},"extra":{"plan_approved":true}}"#,
    ),
    (
        "byte order mark and CRLF",
        "\u{feff}{\r\n\"conditions\":{\"implementation_complete\":true}\r\n}",
    ),
    ("a condition of a wrong type", r#"{"conditions":{"plan_approved":"yes"}}"#),
    ("conditions as a list", r#"{"conditions":["plan_approved"]}"#),
    ("verified_done as a word", r#"{"verified_done":"true"}"#),
    ("duplicate key", r#"{"verified_done":false,"verified_done":true}"#),
    ("half written", r#"{"phase":"implementation","conditions":{"memory_se"#),
    ("empty", ""),
    ("not JSON", "phase: implementation\n"),
];

/// R-S4c: an agent's edit of `orchestrator.json` is a claim for the agent's own conditions, and ignored for all others.
#[test]
fn edits_of_the_view() {
    let mut out = String::new();
    for (name, file) in FILES {
        writeln!(out, "{name}\n    {}", edited(file, Some(LAST), PlanApprover::Person)).unwrap();
    }
    insta::assert_snapshot!(out, @r#"
    as ralph wrote it
        nothing
    everything true
        phase "complete", claims must_have_answered, claims implementation_complete, claims retrospective_done, (plan_approved), (correctness_passed), (quality_passed), (adversarial_passed), (verified_done)
    verified_done alone
        (verified_done)
    one claim
        claims must_have_answered
    a claim taken back
        withdraws memory_search
    a classification taken back
        nothing
    the plan
        (plan_approved)
    a measured one set
        (correctness_passed)
    a measured one denied
        (quality_passed)
    null for all
        nothing
    empty object
        nothing
    a phase
        phase "implementation"
    the same phase
        nothing
    harder
        complexity 10
    easier
        (complexity)
    complexity out of range
        nothing
    complexity as a word
        nothing
    keys of another tool
        nothing
    byte order mark and CRLF
        claims implementation_complete
    a condition of a wrong type
        garbled: "plan_approved" is a string, not true, false or null
    conditions as a list
        garbled: "conditions" is a list, not an object
    verified_done as a word
        garbled: "verified_done" is a string, not true or false
    duplicate key
        garbled: line 1, column 38: duplicate field `verified_done`
    half written
        garbled: line 1, column 50: EOF while parsing a string
    empty
        garbled: it is empty
    not JSON
        garbled: line 1, column 1: expected value
    "#);
}

#[test]
fn hostile_files_are_bounded() {
    let long = format!(r#"{{"phase":"\u001b[2J{}\nx"}}"#, "p".repeat(500));
    let deep = format!("{}{}", r#"{"conditions":"#, "[".repeat(5_000));
    for (file, expected) in [
        (long, format!("phase \"{}…\"", "p".repeat(59))),
        (deep, "garbled: line 1, column 5014: EOF while parsing a list".to_owned()),
    ] {
        assert_eq!(edited(&file, Some(LAST), PlanApprover::Person), expected);
    }
}

/// If the previous version is not known, a `false` may be as old as the file.
#[test]
fn without_the_previous_version_only_true_is_an_edit() {
    for (file, expected) in [
        (
            EVERYTHING,
            "phase \"complete\", claims task_classified, claims must_have_answered, claims plan_approved, claims implementation_complete, claims retrospective_done, (correctness_passed), (quality_passed), (adversarial_passed), (verified_done)",
        ),
        (r#"{"conditions":{"memory_search":false,"plan_approved":false}}"#, "nothing"),
    ] {
        assert_eq!(
            edited(file, None, PlanApprover::Agent),
            expected,
            "without the previous version"
        );
    }
}

#[test]
fn ignored_edits_are_advisory() {
    assert_eq!(ignored_edits_requirement(&[]), None);
    let requirement = ignored_edits_requirement(&["plan_approved", "verified_done"]).unwrap();
    insta::assert_snapshot!(table(&[requirement]), @"`orchestrator.json` (planning) advisory: edits of `plan_approved`, `verified_done` were ignored: a person approves the plan, and ralph measures the rest itself");
}
