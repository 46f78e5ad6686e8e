//! A person's acceptance of a run that ended without proof.

use crate::scenario::run;
use ralph_core::record::{
    Acceptance, DecisionRule, FORMAT_VERSION, JournalEntry, RunChange, StopOutcome, StopRecord,
};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;

fn accepted(was: RunStatus) -> RunChange {
    RunChange::Accepted(Acceptance {
        by: "kim".into(),
        why: "read it".into(),
        at_ms: run().started_ms,
        was,
    })
}

fn ended(status: RunStatus) -> RunChange {
    let outcome = StopOutcome::Ended(status);
    RunChange::Decided(Box::new(StopRecord::new(DecisionRule::Tampered, outcome, String::new())))
}

fn state_after(changes: Vec<RunChange>) -> RunState {
    let started = RunChange::Started(Box::new(run()));
    let entries: Vec<_> = (0..)
        .zip(std::iter::once(started).chain(changes))
        .map(|(seq, change)| JournalEntry {
            v: FORMAT_VERSION,
            seq,
            at_ms: run().started_ms + seq,
            prev: String::new(),
            iteration: 0,
            after: String::new(),
            change,
            by: None,
        })
        .collect();
    let (_, state) = RunState::replay(&entries).expect("it begins with `started`");
    state
}

/// R-V1b: only a person makes a run that needs a review count as verified, and the state keeps the name.
#[test]
fn only_an_acceptable_end_becomes_verified() {
    for status in RunStatus::ALL {
        let before = state_after(vec![ended(status)]);
        let after = state_after(vec![ended(status), accepted(status)]);
        let kept = after.accepted.as_ref().map(Acceptance::describe_status);
        let expected = if status.is_acceptable() {
            let text = "verified (accepted by kim: read it)".to_string();
            (RunPhase::Ended(RunStatus::Verified), Some(text))
        } else {
            (RunPhase::Ended(status), None)
        };
        assert_eq!((after.phase, kept), expected, "{status:?}");
        // Everything else about the end stays as it was.
        assert_eq!(after.last_seen_ms, before.last_seen_ms);
        assert_eq!(after.ran_ms, before.ran_ms);
    }
    let acceptable = RunStatus::ALL.into_iter().filter(|status| status.is_acceptable());
    let names: Vec<_> = acceptable.map(RunStatus::name).collect();
    assert_eq!(names, ["green", "needs_review"]);
}

/// A run in progress cannot be accepted, so that the entry cannot be prepared in advance.
#[test]
fn an_acceptance_before_the_end_has_no_effect() {
    let status = RunStatus::NeedsReview;
    let early = state_after(vec![accepted(status)]);
    assert_eq!((early.phase, early.accepted), (RunPhase::Active, None));
    let ended = state_after(vec![accepted(status), ended(status)]);
    assert_eq!((ended.phase, ended.accepted), (RunPhase::Ended(status), None));
}

/// The journal kind and its fields are part of the disk format.
#[test]
fn an_acceptance_has_a_fixed_form_on_disk() {
    let text = serde_json::to_string(&accepted(RunStatus::NeedsReview)).unwrap();
    assert_eq!(
        text,
        r#"{"accepted":{"by":"kim","why":"read it","at_ms":1000000,"was":"needs_review"}}"#
    );
    assert_eq!(serde_json::from_str::<RunChange>(&text).unwrap(), accepted(RunStatus::NeedsReview));
    let state = state_after(vec![ended(RunStatus::NeedsReview)]);
    assert!(
        !serde_json::to_string(&state).unwrap().contains("accepted"),
        "older states keep their hash"
    );
}
