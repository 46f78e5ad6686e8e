//! Files written by agents and other tools: parsed values are clean and bounded, a claim stays a claim, and edits change
//! only the intended bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::claim::{self, CompletionMarker};
use ralph_core::policy::{ClaimPolicy, PlanApprover};
use ralph_core::record::{ListKind, OrchestratorStep};
use ralph_core::requirement::{EvidenceKind, Requirement, RequirementStatus};
use ralph_core::run::OrchestratorProgress;
use ralph_core::source::progress_file::{self, ProgressFile};
use ralph_core::source::work_list::{ListContext, RequiredGates, item_requirements};
use ralph_core::source::{
    SourceError, checklist, feature_list, loop_file, orchestrator, quality_gate, state_tasks,
};
use ralph_core::text;
use std::collections::{BTreeMap, BTreeSet};

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    match choice % 8 {
        0 => read(orchestrator::read_orchestrator(bytes), |it| orchestrated(&it)),
        1 => read(loop_file::read_loop_file(bytes), |it| {
            it.requirement().iter().for_each(is_a_claim);
        }),
        2 => read(quality_gate::read_quality_gate(bytes), |it| {
            it.requirement().iter().for_each(is_a_claim);
        }),
        3 => read(state_tasks::read_task(bytes), |task| {
            state_tasks::tasks_requirement(&[task.clone(), task]).iter().for_each(is_a_claim);
        }),
        4 => read(feature_list::read_features(bytes), |list| feature_list(&list)),
        5 => progress_file(bytes),
        6 => task_list(&String::from_utf8_lossy(bytes)),
        _ => promise(&String::from_utf8_lossy(bytes)),
    }
});

fn read<T>(outcome: Result<T, SourceError>, check: impl FnOnce(T)) {
    match outcome {
        Ok(value) => check(value),
        Err(error) => {
            assert!(error.why.chars().count() <= 160);
            is_clean(&error.why);
        }
    }
}

fn is_clean(line: &str) {
    assert!(!line.chars().any(char::is_control), "{line:?}");
}

fn is_a_claim(requirement: &Requirement) {
    assert!(!requirement.name.is_empty());
    is_clean(&requirement.name);
    is_clean(&requirement.next);
    match &requirement.status {
        RequirementStatus::Met(evidence) => assert_eq!(*evidence, EvidenceKind::Claimed),
        RequirementStatus::Unmet(failure) => {
            assert!(!failure.summary.is_empty());
            is_clean(&failure.summary);
            assert!(failure.findings.len() <= 50);
            failure.findings.iter().for_each(|finding| is_clean(&finding.message));
            if let Some(quote) = &failure.quote {
                is_clean(&quote.label);
                quote.text.lines().for_each(is_clean);
            }
        }
        RequirementStatus::Unknown(why) => is_clean(why),
        RequirementStatus::Pending(pending) => is_clean(pending.why()),
    }
}

fn orchestrated(file: &orchestrator::OrchestratorFile) {
    file.requirement().iter().for_each(is_a_claim);
    let edits = orchestrator::find_view_edits(
        file,
        None,
        &OrchestratorProgress::default(),
        PlanApprover::Person,
    );
    for step in &edits.steps {
        if let OrchestratorStep::Phase(phase) = step {
            assert!(phase.chars().count() <= 60);
            is_clean(phase);
        }
    }
    orchestrator::ignored_edits_requirement(&edits.ignored).iter().for_each(is_a_claim);
}

fn feature_list(found: &feature_list::FeatureList) {
    let items = found.items();
    let checked = BTreeMap::new();
    let (kind, gates, claims) = (ListKind::Features, RequiredGates::None, ClaimPolicy::default());
    let context = ListContext { file: "feature_list.json", kind, gates, claims, checked: &checked };
    let requirements = item_requirements(0, &items, &context);
    assert_eq!(requirements.len(), found.features.len());
    let names: BTreeSet<_> = requirements.iter().map(|one| &one.name).collect();
    assert_eq!(names.len(), requirements.len());
    for (feature, requirement) in found.features.iter().zip(&requirements) {
        is_a_claim(requirement);
        // A feature with a check stays open without the check's result, whatever the file claims.
        let is_met = feature.passes && feature.verify.is_none();
        assert_eq!(is_met, !requirement.is_open());
    }
    assert_eq!(found.next_feature().is_none(), found.features.iter().all(|feature| feature.passes));
    assert!(requirements.iter().filter(|one| !one.next.is_empty()).count() <= 1);
}

fn progress_file(bytes: &[u8]) {
    let before = progress_file::read_progress(bytes);
    let iteration = bytes.iter().fold(7_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
    if let Some(edited) = progress_file::with_iteration(bytes, iteration) {
        let after = progress_file::read_progress(&edited);
        assert_eq!(after, ProgressFile { iteration, ..before.clone() });
        only_differs_by(bytes, &edited, iteration.to_string().as_bytes());
    } else {
        assert_eq!(before.iteration, 0);
    }
    match progress_file::with_status(bytes, "COMPLETE") {
        Some(edited) => {
            let status = Some("COMPLETE".to_owned());
            assert_eq!(progress_file::read_progress(&edited), ProgressFile { status, ..before });
            only_differs_by(bytes, &edited, b"COMPLETE");
        }
        None => assert_eq!(before.status, None),
    }
}

fn only_differs_by(before: &[u8], after: &[u8], value: &[u8]) {
    let pairs = before.iter().zip(after);
    let same_start = pairs.take_while(|(a, b)| a == b).count();
    let pairs = before.iter().rev().zip(after.iter().rev());
    let same_end = pairs.take_while(|(a, b)| a == b).count();
    let is_the_place = |start: usize| {
        after[start..]
            .strip_prefix(value)
            .is_some_and(|rest| rest.len() <= same_end && start + rest.len() <= before.len())
    };
    assert!((0..=same_start).any(is_the_place), "{:?}", after.escape_ascii().to_string());
}

fn task_list(markdown: &str) {
    let Some(list) = checklist::from_markdown(markdown) else {
        return;
    };
    assert!(!list.items.is_empty());
    is_a_claim(&list.requirement());
    assert_eq!(list.requirement().is_unmet(), list.items.iter().any(|item| !item.done));
    let tick = |done| if done { 'x' } else { ' ' };
    let lines = list.items.iter().map(|item| format!("- [{}] {}", tick(item.done), item.text));
    let shown = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(checklist::from_markdown(&shown), Some(list));
}

fn promise(text: &str) {
    let (promise, said) = text.split_once('\n').unwrap_or(("ALL DONE", text));
    let kept = claim::is_promised(said, promise);
    // A promise also counts within a message.
    let has_promise = said.contains("<promise>");
    match claim::find_marker(said) {
        Some(CompletionMarker::Promise(_)) => assert!(has_promise),
        Some(CompletionMarker::Plain(word)) => assert_eq!(kept, word == promise.trim()),
        Some(CompletionMarker::ExitSignal) | None => assert!(!kept),
    }
    assert!(!kept || !promise.trim().is_empty());
    for shown in [
        format!("{said}\nnot yet"),
        format!("{said}\n\nnot yet LOOP_COMPLETE"),
        format!("{said}\n\n\"LOOP_COMPLETE\""),
        format!("{said}\n\n> LOOP_COMPLETE"),
        format!("{said}\n\n    LOOP_COMPLETE"),
        format!("{said}\n```\nLOOP_COMPLETE\n```"),
    ] {
        if has_promise {
            continue;
        }
        assert_eq!(claim::find_marker(&shown), None, "{shown:?}");
    }
    let plain = text::clean_line(promise, 80);
    if !plain.is_empty() && !plain.contains("promise>") {
        assert!(claim::is_promised(&format!("<promise>{plain}</promise>"), &plain));
        assert!(!claim::is_promised(&format!("`<promise>{plain}</promise>`"), &plain));
    }
}
