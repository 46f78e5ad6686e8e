//! Pipelines: layers, cycles, requirements of chunks, next steps, and progress.

use crate::scenario::{START_MS, requirement};
use insta::assert_snapshot;
use proptest::collection::vec;
use proptest::prelude::*;
use ralph_core::digest64::Digest64;
use ralph_core::pipeline::{self, ChunkStatus, JudgedChunk, PipelineHistory};
use ralph_core::policy::Chunk;
use ralph_core::reason;
use ralph_core::record::{
    DecisionRule, DeliveryId, FORMAT_VERSION, JournalEntry, PartIdentity, PartKind, PartRecord,
    PartRule, RunChange, StopOutcome, StopRecord, Waiver,
};
use ralph_core::redact::Redactor;
use ralph_core::requirement::{
    EvidenceKind, PendingReason, Requirement, RequirementFailure, RequirementStatus,
};
use ralph_core::run::PartState;
use std::collections::BTreeSet;

/// `parser: types, plan` is a chunk with two prerequisites.
fn chunks(lines: &[&str]) -> Vec<Chunk> {
    let chunk = |line: &&str| {
        let (name, after) = line.split_once(": ").unwrap_or((line, ""));
        Chunk {
            name: name.into(),
            r#match: name.into(),
            gates: vec![format!("{name}-tests")],
            outputs: Vec::new(),
            max_holds: 3,
            after: after.split(", ").filter(|one| !one.is_empty()).map(Into::into).collect(),
            approval: false,
        }
    };
    lines.iter().map(chunk).collect()
}

fn shown(layers: &[Vec<&Chunk>]) -> String {
    let names = |layer: &Vec<&Chunk>| {
        layer.iter().map(|chunk| chunk.name.as_str()).collect::<Vec<_>>().join(" ")
    };
    layers.iter().map(names).collect::<Vec<_>>().join(" | ")
}

#[test]
fn layers_and_cycles() {
    for (lines, layers, cycle) in [
        (&[][..], "", ""),
        (&["a"], "a", ""),
        (&["a", "b", "c"], "a b c", ""),
        (&["c: b", "b: a", "a"], "a | b | c", ""),
        (&["plan", "x: plan", "y: plan", "end: x, y"], "plan | x y | end", ""),
        (&["plan", "end: plan, x", "x: plan"], "plan | x | end", ""),
        (&["a: a"], "a", "a a"),
        (&["a: b", "b: a"], "a b", "a b a"),
        (&["s", "a: s, c", "b: a", "c: b", "d: c"], "s | a b c d", "a c b a"),
        (&["d: a", "a: b", "b: a"], "d a b", "a b a"),
        // An unknown prerequisite.
        (&["a: unknown", "b: a"], "a | b", ""),
        (&["a", "b: a, a"], "a | b", ""),
    ] {
        let chunks = chunks(lines);
        assert_eq!(shown(&pipeline::layers(&chunks)), layers, "{lines:?}");
        let found = pipeline::find_cycle(&chunks).unwrap_or_default();
        assert_eq!(shown(&[found]), cycle, "{lines:?}");
    }
}

#[test]
fn prerequisites_are_transitive() {
    let all = chunks(&["plan", "x: plan", "y: plan", "z", "end: x"]);
    for (name, before) in [("plan", ""), ("x", "plan"), ("end", "plan x"), ("z", "")] {
        let chunk = all.iter().find(|chunk| chunk.name == name).unwrap();
        let found = pipeline::prerequisites(&all, chunk);
        assert_eq!(shown(&[found.iter().collect()]), before, "{name}");
    }
    let ring = chunks(&["a: b", "b: c", "c: a"]);
    assert_eq!(shown(&[pipeline::prerequisites(&ring, &ring[0]).iter().collect()]), "b c");
}

fn met(name: &str) -> Requirement {
    requirement(name, RequirementStatus::Met(EvidenceKind::Measured))
}

fn unmet(name: &str) -> Requirement {
    let next = format!("Make {name} pass");
    Requirement {
        next,
        ..requirement(name, RequirementStatus::Unmet(RequirementFailure::new("1 finding".into())))
    }
}

fn part_state(chunk: &str, id: &str, rule: PartRule) -> PartState {
    PartState {
        who: PartIdentity { kind: PartKind::Subagent, id: id.into(), name: chunk.into() },
        chunk: Some(chunk.into()),
        rule,
        holds: 0,
        delivery: DeliveryId { stop: Digest64(1), length: None },
        at_ms: START_MS,
        answer: None,
    }
}

#[test]
fn requirements_of_ready_chunks() {
    let measured = chunks(&["a"]).remove(0);
    let bare = Chunk { gates: Vec::new(), ..measured.clone() };
    let finished = [part_state("a", "1", PartRule::Unmeasured)];
    let verified = [part_state("a", "1", PartRule::Verified)];
    let spent = [part_state("a", "1", PartRule::Spent)];
    let other = [part_state("b", "1", PartRule::Verified)];
    let mut shown = String::new();
    for (what, chunk, demands, parts) in [
        ("its gate passes", &measured, vec![met("a-tests")], &[][..]),
        ("its gate fails", &measured, vec![unmet("a-tests")], &[]),
        ("its gate fails, its agent stopped", &measured, vec![unmet("a-tests")], &spent),
        ("its gate does not apply", &measured, vec![], &[]),
        ("its gate does not apply, an agent finished", &measured, vec![], &finished),
        ("nothing measures it", &bare, vec![], &[]),
        ("nothing measures it, an agent finished", &bare, vec![], &finished),
        ("its agent was verified by prerequisites", &bare, vec![], &verified),
        ("its agent stopped unverified", &bare, vec![], &spent),
        ("an agent of another chunk finished", &bare, vec![], &other),
        ("a gate for all agents passes", &bare, vec![met("lint")], &finished),
        ("a gate for all agents fails", &bare, vec![unmet("lint")], &finished),
    ] {
        let one = pipeline::judge_ready_chunk(chunk, &demands, parts).requirement;
        let standing = match &one.status {
            RequirementStatus::Met(evidence) => format!("met, {evidence:?}"),
            RequirementStatus::Unmet(failure) => format!("unmet, {}", failure.summary),
            RequirementStatus::Unknown(why) => format!("unknown, {why}"),
            RequirementStatus::Pending(pending) => format!("pending, {}", pending.why()),
        };
        shown.push_str(&format!("{what}: {standing}\n"));
    }
    assert_snapshot!(shown, @"
    its gate passes: met, Measured
    its gate fails: unmet, a-tests: 1 finding; no agent has worked on it yet
    its gate fails, its agent stopped: unmet, a-tests: 1 finding; 0 of 1 agent verified
    its gate does not apply: unmet, nothing measures it, and no agent for it has finished yet
    its gate does not apply, an agent finished: met, Claimed
    nothing measures it: unmet, nothing measures it, and no agent for it has finished yet
    nothing measures it, an agent finished: met, Claimed
    its agent was verified by prerequisites: met, Claimed
    its agent stopped unverified: unmet, nothing measures it, and no agent for it has finished yet
    an agent of another chunk finished: unmet, nothing measures it, and no agent for it has finished yet
    a gate for all agents passes: met, Claimed
    a gate for all agents fails: unmet, lint: 1 finding; 0 of 1 agent verified
    ");
}

#[test]
fn requirements_of_prerequisites() {
    let all = chunks(&["types", "parser: types"]);
    let (types, parser) = (&all[0], &all[1]);
    let running = requirement(
        "a",
        RequirementStatus::Pending(PendingReason::Running("still running".into())),
    );
    let mut shown = String::new();
    for one in [
        met("chunk types"),
        pipeline::judge_ready_chunk(types, &[unmet("types-tests")], &[]).requirement,
        pipeline::judge_waiting_chunk(types, &["plan", "schema"]).requirement,
        running,
        requirement("a", RequirementStatus::Unknown("timed out after 5 min".into())),
    ] {
        let earlier = JudgedChunk { chunk: types, requirement: one, needs_agent: false };
        let one = pipeline::prerequisite_requirement(parser, &earlier);
        shown.push_str(&format!("{} {:?} [{}]\n", one.name, one.status, one.next));
    }
    assert_snapshot!(shown, @r#"
    after types Met(Measured) []
    after types Unmet(RequirementFailure { summary: "`parser` comes after `types`, which is not done: types-tests: 1 finding; no agent has worked on it yet", findings: [], unlisted: 0, quote: None, log: None }) [Get chunk `types` done first: Make types-tests pass]
    after types Unmet(RequirementFailure { summary: "`parser` comes after `types`, which is not done: it comes after plan and schema", findings: [], unlisted: 0, quote: None, log: None }) [Get chunk `types` done first]
    after types Pending(Running("`types`: still running")) []
    after types Unknown("`types`: timed out after 5 min") []
    "#);
}

fn next(judged: Vec<JudgedChunk<'_>>) -> String {
    let requirements = pipeline::add_next_steps(judged);
    let lines =
        requirements.iter().map(|one| format!("{}: {}", one.name, one.next).trim_end().to_string());
    lines.collect::<Vec<_>>().join("\n")
}

fn open(chunk: &Chunk) -> JudgedChunk<'_> {
    pipeline::judge_ready_chunk(chunk, &[unmet(&format!("{}-tests", chunk.name))], &[])
}

fn done(chunk: &Chunk) -> JudgedChunk<'_> {
    pipeline::judge_ready_chunk(chunk, &[met(&format!("{}-tests", chunk.name))], &[])
}

/// The first open chunk's next step names all chunks that can be started in parallel.
#[test]
fn next_steps() {
    let all = chunks(&["plan", "x: plan", "y: plan", "end: x, y"]);
    let weigh = |states: &str| -> Vec<JudgedChunk<'_>> {
        let requirements = all.iter().zip(states.chars()).map(|(chunk, state)| match state {
            'd' => done(chunk),
            'o' => open(chunk),
            _ => pipeline::judge_waiting_chunk(chunk, &["plan"]),
        });
        requirements.collect()
    };
    assert_snapshot!(next(weigh("owww")), @"
    chunk plan: Do chunk `plan`, yourself or with a subagent of type `plan`: Make plan-tests pass
    chunk x:
    chunk y:
    chunk end:
    ");
    assert_snapshot!(next(weigh("doow")), @"
    chunk plan:
    chunk x: Do chunks `x` and `y`. They do not depend on each other: give each to its own subagent, in parallel (types: `x` and `y`)
    chunk y: Do chunk `y`, yourself or with a subagent of type `y`: Make y-tests pass
    chunk end:
    ");
    assert_snapshot!(next(weigh("ddow")), @"
    chunk plan:
    chunk x:
    chunk y: Do chunk `y`, yourself or with a subagent of type `y`: Make y-tests pass
    chunk end:
    ");
    assert_snapshot!(next(weigh("dddd")), @"
    chunk plan:
    chunk x:
    chunk y:
    chunk end:
    ");
    let many: Vec<String> = (0..200).map(|at| format!("c{at}")).collect();
    let many = chunks(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let first = pipeline::add_next_steps(many.iter().map(open).collect());
    assert_snapshot!(first[0].next, @"Do chunks `c0`, `c1`, `c2`, `c3`, `c4`, `c5` and 194 more. They do not depend on each other: give each to its own subagent, in parallel");
    let bare = Chunk { gates: Vec::new(), r#match: "rev*".into(), ..all[0].clone() };
    assert_snapshot!(next(vec![pipeline::judge_ready_chunk(&bare, &[], &[])]), @"chunk plan: Give chunk `plan` to a subagent whose type matches `rev*`");
}

fn entry(change: RunChange) -> JournalEntry {
    JournalEntry {
        v: FORMAT_VERSION,
        seq: 1,
        at_ms: START_MS,
        prev: String::new(),
        iteration: 0,
        after: String::new(),
        change,
        by: None,
    }
}

fn stop(requirements: &[Requirement]) -> JournalEntry {
    entry(RunChange::Decided(Box::new(StopRecord {
        report: Some(reason::build_stop_report(requirements, &Redactor::new(Vec::new()))),
        ..StopRecord::new(
            DecisionRule::Block,
            StopOutcome::Blocked { reason: String::new() },
            String::new(),
        )
    })))
}

fn agent(chunk: &str, id: &str, rule: PartRule) -> JournalEntry {
    let requirements = [unmet(&format!("{chunk}-tests"))];
    entry(RunChange::Part(Box::new(PartRecord {
        who: PartIdentity { kind: PartKind::Subagent, id: id.into(), name: chunk.into() },
        chunk: Some(chunk.into()),
        rule,
        reason: None,
        because: "its requirement is met".into(),
        holds: 0,
        max_holds: 3,
        delivery: DeliveryId { stop: Digest64(1), length: None },
        report: (rule == PartRule::Hold)
            .then(|| reason::build_stop_report(&requirements, &Redactor::new(Vec::new()))),
        tampering: None,
        took_ms: 0,
    })))
}

/// The latest report of each chunk counts, and waiting chunks are derived from it.
#[test]
#[expect(clippy::too_many_lines, reason = "one table with its full output")]
fn progress_of_a_pipeline() {
    let all = chunks(&["plan", "x: plan", "y: plan", "end: x, y"]);
    let mut bare = all.clone();
    bare[0].gates.clear();
    let first = stop(&[
        unmet("chunk plan"),
        pipeline::judge_waiting_chunk(&all[1], &["plan"]).requirement,
        pipeline::judge_waiting_chunk(&all[2], &["plan"]).requirement,
        pipeline::judge_waiting_chunk(&all[3], &["x", "y"]).requirement,
    ]);
    let second = stop(&[
        met("chunk plan"),
        unmet("chunk x"),
        requirement("chunk y", RequirementStatus::Unknown("timed out after 5 min".into())),
        pipeline::judge_waiting_chunk(&all[3], &["x", "y"]).requirement,
    ]);
    let waived = |until_ms| {
        entry(RunChange::Waived(Waiver {
            requirement: "chunk plan".into(),
            by: "kim".into(),
            why: "later".into(),
            until_ms,
        }))
    };
    let over = stop(&all.iter().map(|chunk| met(&chunk.requirement_name())).collect::<Vec<_>>());
    let mut shown = String::new();
    for (what, chunks, entries) in [
        ("nothing yet", &all, vec![]),
        ("a stop", &all, vec![first.clone()]),
        ("then an agent", &all, vec![first.clone(), agent("plan", "1", PartRule::Verified)]),
        ("a plan by word", &bare, vec![agent("plan", "1", PartRule::Unmeasured)]),
        (
            "two at work",
            &all,
            vec![
                second.clone(),
                agent("x", "1", PartRule::Hold),
                agent("x", "2", PartRule::Waiting),
            ],
        ),
        (
            "one of them done",
            &all,
            vec![
                second.clone(),
                agent("x", "1", PartRule::Hold),
                agent("x", "1", PartRule::Verified),
            ],
        ),
        ("a later stop", &all, vec![agent("x", "1", PartRule::Hold), second]),
        ("the plan is waived", &all, vec![first.clone(), waived(u64::MAX)]),
        ("no longer", &all, vec![first, waived(START_MS - 1)]),
        ("all done", &all, vec![over]),
    ] {
        let history = PipelineHistory { entries: &entries, parts: &[], now_ms: START_MS };
        let nodes = pipeline::pipeline_nodes(chunks, &history);
        shown.push_str(&format!("{what}: {}\n", pipeline::summarize_nodes(&nodes)));
        for node in &nodes {
            let (name, working) = (&node.chunk.name, node.working_agents);
            shown.push_str(&format!(
                "  {} {name} {:?} ({}) {working}\n",
                node.layer, node.status, node.note
            ));
        }
    }
    assert_snapshot!(shown, @"
    nothing yet: 0 of 4 done; next: plan
      0 plan Unknown (not checked yet) 0
      1 x Waits (plan) 0
      1 y Waits (plan) 0
      2 end Waits (x and y) 0
    a stop: 0 of 4 done; next: plan
      0 plan Failing (1 finding) 0
      1 x Waits (plan) 0
      1 y Waits (plan) 0
      2 end Waits (x and y) 0
    then an agent: 1 of 4 done; next: x and y
      0 plan Done () 0
      1 x Unknown (not checked yet) 0
      1 y Unknown (not checked yet) 0
      2 end Waits (x and y) 0
    a plan by word: 1 of 4 done; next: x and y
      0 plan Claimed () 0
      1 x Unknown (not checked yet) 0
      1 y Unknown (not checked yet) 0
      2 end Waits (x and y) 0
    two at work: 1 of 4 done; next: y
      0 plan Done () 0
      1 x Running (its requirement is met) 2
      1 y Unknown (timed out after 5 min) 0
      2 end Waits (x and y) 0
    one of them done: 2 of 4 done; next: y
      0 plan Done () 0
      1 x Done () 0
      1 y Unknown (timed out after 5 min) 0
      2 end Waits (y) 0
    a later stop: 1 of 4 done; next: x and y
      0 plan Done () 0
      1 x Failing (1 finding) 0
      1 y Unknown (timed out after 5 min) 0
      2 end Waits (x and y) 0
    the plan is waived: 0 of 4 done; next: x and y
      0 plan Waived () 0
      1 x Unknown (not checked yet) 0
      1 y Unknown (not checked yet) 0
      2 end Waits (x and y) 0
    no longer: 0 of 4 done; next: plan
      0 plan Failing (1 finding) 0
      1 x Waits (plan) 0
      1 y Waits (plan) 0
      2 end Waits (x and y) 0
    all done: 4 of 4 done
      0 plan Done () 0
      1 x Done () 0
      1 y Done () 0
      2 end Done () 0
    ");
}

/// A report lists only the first 20 open requirements; the status of all 200 chunks is still known.
#[test]
fn the_progress_of_a_long_pipeline_is_complete() {
    let names: Vec<String> = (0..200)
        .map(|at| if at == 0 { "c0".to_string() } else { format!("c{at}: c{}", at - 1) })
        .collect();
    let all = chunks(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let requirements: Vec<Requirement> = all
        .iter()
        .enumerate()
        .map(|(at, chunk)| match at {
            0..150 => met(&chunk.requirement_name()),
            150 => unmet(&chunk.requirement_name()),
            _ => pipeline::judge_waiting_chunk(chunk, &["c150"]).requirement,
        })
        .collect();
    let entries = [stop(&requirements)];
    let history = PipelineHistory { entries: &entries, parts: &[], now_ms: START_MS };
    let nodes = pipeline::pipeline_nodes(&all, &history);
    assert_eq!(pipeline::summarize_nodes(&nodes).to_string(), "150 of 200 done; next: c150");
    assert!(nodes[151..].iter().all(|node| node.status == ChunkStatus::Waits));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any dependencies, every chunk is in exactly one layer, after all its prerequisites unless there is a cycle,
    /// and a reported cycle is one.
    #[test]
    fn layers_respect_dependencies(edges in vec(vec(0_usize..12, 0..4), 0..12)) {
        let lines: Vec<String> = edges
            .iter()
            .enumerate()
            .map(|(at, after)| {
                let names: Vec<_> = after.iter().map(|to| format!("c{to}")).collect();
                format!("c{at}: {}", names.join(", "))
            })
            .collect();
        let all = chunks(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let layers = pipeline::layers(&all);
        let names: Vec<&str> = layers.iter().flatten().map(|chunk| &*chunk.name).collect();
        prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), all.len());
        let known = |name: &str| all.iter().any(|chunk| chunk.name == name);
        match pipeline::find_cycle(&all) {
            None => {
                let mut earlier: BTreeSet<&str> = BTreeSet::new();
                for layer in &layers {
                    for name in layer.iter().flat_map(|chunk| &chunk.after) {
                        prop_assert!(!known(name) || earlier.contains(&**name));
                    }
                    earlier.extend(layer.iter().map(|chunk| &*chunk.name));
                }
            }
            Some(cycle) => {
                prop_assert_eq!(&cycle[0].name, &cycle[cycle.len() - 1].name);
                for pair in cycle.windows(2) {
                    prop_assert!(pair[0].after.contains(&pair[1].name));
                }
            }
        }
    }
}
