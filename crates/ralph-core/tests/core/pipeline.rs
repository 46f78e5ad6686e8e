//! Pipelines: layers, circles, what chunks amount to, what comes next, and how far a run is.

use crate::scenario::{START_MS, requirement};
use insta::assert_snapshot;
use proptest::collection::vec;
use proptest::prelude::*;
use ralph_core::mark::Mark;
use ralph_core::pipeline::{self, History, Where};
use ralph_core::policy::Chunk;
use ralph_core::reason;
use ralph_core::record::{
    Change, Decided, Delivered, Entry, Outcome, Part, PartKind, PartRule, Rule, VERSION, Waiver,
    Who,
};
use ralph_core::redact::Redactor;
use ralph_core::requirement::{Evidence, Failure, Pending, Requirement, Standing};
use ralph_core::run::PartState;
use std::collections::BTreeSet;

/// `parser: types, plan` is one that comes after two.
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
fn layers_and_circles() {
    for (lines, layers, circle) in [
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
        // Nobody is called so.
        (&["a: nobody", "b: a"], "a | b", ""),
        (&["a", "b: a, a"], "a | b", ""),
    ] {
        let chunks = chunks(lines);
        assert_eq!(shown(&pipeline::layers(&chunks)), layers, "{lines:?}");
        let found = pipeline::circle(&chunks).unwrap_or_default();
        assert_eq!(shown(&[found]), circle, "{lines:?}");
    }
}

#[test]
fn what_comes_before() {
    let all = chunks(&["plan", "x: plan", "y: plan", "z", "end: x"]);
    for (name, before) in [("plan", ""), ("x", "plan"), ("end", "plan x"), ("z", "")] {
        let chunk = all.iter().find(|chunk| chunk.name == name).unwrap();
        let found = pipeline::before(&all, chunk);
        assert_eq!(shown(&[found.iter().collect()]), before, "{name}");
    }
    let ring = chunks(&["a: b", "b: c", "c: a"]);
    assert_eq!(shown(&[pipeline::before(&ring, &ring[0]).iter().collect()]), "b c");
}

fn met(name: &str) -> Requirement {
    requirement(name, Standing::Met(Evidence::Measured))
}

fn unmet(name: &str) -> Requirement {
    let next = format!("Make {name} pass");
    Requirement { next, ..requirement(name, Standing::Unmet(Failure::new("1 finding".into()))) }
}

fn stood(chunk: &str, id: &str, rule: PartRule) -> PartState {
    PartState {
        who: Who { kind: PartKind::Subagent, id: id.into(), name: chunk.into() },
        chunk: Some(chunk.into()),
        rule,
        holds: 0,
        delivery: Delivered { stop: Mark(1), length: None },
        at_ms: START_MS,
        answer: None,
    }
}

#[test]
fn what_a_chunk_amounts_to() {
    let measured = chunks(&["a"]).remove(0);
    let bare = Chunk { gates: Vec::new(), ..measured.clone() };
    let finished = [stood("a", "1", PartRule::Unmeasured)];
    let verified = [stood("a", "1", PartRule::Verified)];
    let spent = [stood("a", "1", PartRule::Spent)];
    let other = [stood("b", "1", PartRule::Verified)];
    let mut shown = String::new();
    for (what, chunk, demands, parts) in [
        ("its gate passes", &measured, vec![met("a-tests")], &[][..]),
        ("its gate fails", &measured, vec![unmet("a-tests")], &[]),
        ("its gate fails, its agent was let go", &measured, vec![unmet("a-tests")], &spent),
        ("its gate does not count", &measured, vec![], &[]),
        ("nor does it, and an agent finished", &measured, vec![], &finished),
        ("nothing measures it", &bare, vec![], &[]),
        ("nothing does, and an agent finished", &bare, vec![], &finished),
        ("the agent was verified by what it came after", &bare, vec![], &verified),
        ("its agent was let go", &bare, vec![], &spent),
        ("another's agent finished", &bare, vec![], &other),
        ("a gate for all agents passes", &bare, vec![met("lint")], &finished),
        ("a gate for all agents fails", &bare, vec![unmet("lint")], &finished),
    ] {
        let told = pipeline::requirement(chunk, &demands, parts);
        let standing = match &told.standing {
            Standing::Met(evidence) => format!("met, {evidence:?}"),
            Standing::Unmet(failure) => format!("unmet, {}", failure.summary),
            Standing::Unknown(why) => format!("unknown, {why}"),
            Standing::Pending(pending) => format!("pending, {}", pending.why()),
        };
        shown.push_str(&format!("{what}: {standing}\n"));
    }
    assert_snapshot!(shown, @"
    its gate passes: met, Measured
    its gate fails: unmet, a-tests: 1 finding; no agent has worked on it yet
    its gate fails, its agent was let go: unmet, a-tests: 1 finding; 0 of 1 agent verified
    its gate does not count: unmet, nothing measures it, and no agent for it has finished yet
    nor does it, and an agent finished: met, Claimed
    nothing measures it: unmet, nothing measures it, and no agent for it has finished yet
    nothing does, and an agent finished: met, Claimed
    the agent was verified by what it came after: met, Claimed
    its agent was let go: unmet, nothing measures it, and no agent for it has finished yet
    another's agent finished: unmet, nothing measures it, and no agent for it has finished yet
    a gate for all agents passes: met, Claimed
    a gate for all agents fails: unmet, lint: 1 finding; 0 of 1 agent verified
    ");
}

#[test]
fn what_an_agent_is_told_of_what_its_chunk_comes_after() {
    let all = chunks(&["types", "parser: types"]);
    let (types, parser) = (&all[0], &all[1]);
    let running = requirement("a", Standing::Pending(Pending::Running("still running".into())));
    let mut shown = String::new();
    for told in [
        met("chunk types"),
        pipeline::requirement(types, &[unmet("types-tests")], &[]),
        pipeline::waits(types, &["plan", "schema"]),
        running,
        requirement("a", Standing::Unknown("timed out after 5 min".into())),
    ] {
        let told = pipeline::after(parser, (types, &told));
        shown.push_str(&format!("{} {:?} [{}]\n", told.name, told.standing, told.next));
    }
    assert_snapshot!(shown, @r#"
    after types Met(Measured) []
    after types Unmet(Failure { summary: "`parser` comes after `types`, which is not done: types-tests: 1 finding; no agent has worked on it yet", findings: [], unlisted: 0, quote: None, log: None }) [Get chunk `types` done first: Make types-tests pass]
    after types Unmet(Failure { summary: "`parser` comes after `types`, which is not done: it comes after plan and schema", findings: [], unlisted: 0, quote: None, log: None }) [Get chunk `types` done first]
    after types Pending(Running("`types`: still running")) []
    after types Unknown("`types`: timed out after 5 min") []
    "#);
}

fn next(weighed: Vec<(&Chunk, Requirement)>) -> String {
    let told = pipeline::guided(weighed);
    let lines = told.iter().map(|one| format!("{}: {}", one.name, one.next).trim_end().to_string());
    lines.collect::<Vec<_>>().join("\n")
}

/// The first that is open says which can be begun, and that they can be at once.
#[test]
fn what_comes_next() {
    let all = chunks(&["plan", "x: plan", "y: plan", "end: x, y"]);
    let open = |chunk: &Chunk| {
        pipeline::requirement(chunk, &[unmet(&format!("{}-tests", chunk.name))], &[])
    };
    let done =
        |chunk: &Chunk| pipeline::requirement(chunk, &[met(&format!("{}-tests", chunk.name))], &[]);
    let weigh = |states: &str| -> Vec<(&Chunk, Requirement)> {
        let told = all.iter().zip(states.chars()).map(|(chunk, state)| match state {
            'd' => (chunk, done(chunk)),
            'o' => (chunk, open(chunk)),
            _ => (chunk, pipeline::waits(chunk, &["plan"])),
        });
        told.collect()
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
    let first = pipeline::guided(many.iter().map(|chunk| (chunk, open(chunk))).collect());
    assert_snapshot!(first[0].next, @"Do chunks `c0`, `c1`, `c2`, `c3`, `c4`, `c5` and 194 more. They do not depend on each other: give each to its own subagent, in parallel");
    let bare = Chunk { gates: Vec::new(), r#match: "rev*".into(), ..all[0].clone() };
    assert_snapshot!(next(vec![(&bare, pipeline::requirement(&bare, &[], &[]))]), @"chunk plan: Give chunk `plan` to a subagent whose type matches `rev*`");
}

fn entry(change: Change) -> Entry {
    Entry {
        v: VERSION,
        seq: 1,
        at_ms: START_MS,
        prev: String::new(),
        iteration: 0,
        after: String::new(),
        change,
    }
}

fn stop(requirements: &[Requirement]) -> Entry {
    entry(Change::Decided(Box::new(Decided {
        rule: Rule::Block,
        because: String::new(),
        outcome: Outcome::Blocked { reason: String::new() },
        delivery: None,
        report: Some(reason::report(requirements, &Redactor::new(Vec::new()))),
        mark: None,
        tampering: None,
        observed: None,
        process: None,
        in_a_row: 0,
        background: None,
        garbled: Vec::new(),
        remedy: None,
        took_ms: 0,
    })))
}

fn agent(chunk: &str, id: &str, rule: PartRule) -> Entry {
    let told = [unmet(&format!("{chunk}-tests"))];
    entry(Change::Part(Box::new(Part {
        who: Who { kind: PartKind::Subagent, id: id.into(), name: chunk.into() },
        chunk: Some(chunk.into()),
        rule,
        reason: None,
        because: "its requirement is met".into(),
        holds: 0,
        max_holds: 3,
        delivery: Delivered { stop: Mark(1), length: None },
        report: (rule == PartRule::Hold).then(|| reason::report(&told, &Redactor::new(Vec::new()))),
        tampering: None,
        took_ms: 0,
    })))
}

/// What was seen last counts, and what comes after it is told from that.
#[test]
#[expect(clippy::too_many_lines, reason = "one table and all that it shows")]
fn how_far_a_run_is() {
    let all = chunks(&["plan", "x: plan", "y: plan", "end: x, y"]);
    let mut bare = all.clone();
    bare[0].gates.clear();
    let first = stop(&[
        unmet("chunk plan"),
        pipeline::waits(&all[1], &["plan"]),
        pipeline::waits(&all[2], &["plan"]),
        pipeline::waits(&all[3], &["x", "y"]),
    ]);
    let second = stop(&[
        met("chunk plan"),
        unmet("chunk x"),
        requirement("chunk y", Standing::Unknown("timed out after 5 min".into())),
        pipeline::waits(&all[3], &["x", "y"]),
    ]);
    let waived = |until_ms| {
        entry(Change::Waived(Waiver {
            requirement: "chunk plan".into(),
            by: "kim".into(),
            why: "later".into(),
            until_ms,
        }))
    };
    let over = stop(&all.iter().map(|chunk| met(&pipeline::name(chunk))).collect::<Vec<_>>());
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
        let history = History { entries: &entries, parts: &[], now_ms: START_MS };
        let nodes = pipeline::nodes(chunks, &history);
        shown.push_str(&format!("{what}: {}\n", pipeline::summary(&nodes)));
        for node in &nodes {
            let (name, working) = (&node.chunk.name, node.working);
            shown.push_str(&format!(
                "  {} {name} {:?} ({}) {working}\n",
                node.layer, node.at, node.note
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

/// Of 200 chunks a report tells 20 that are open, and it is known all the same how far each is.
#[test]
fn nothing_of_a_long_pipeline_is_lost() {
    let names: Vec<String> = (0..200)
        .map(|at| if at == 0 { "c0".to_string() } else { format!("c{at}: c{}", at - 1) })
        .collect();
    let all = chunks(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let told: Vec<Requirement> = all
        .iter()
        .enumerate()
        .map(|(at, chunk)| match at {
            0..150 => met(&pipeline::name(chunk)),
            150 => unmet(&pipeline::name(chunk)),
            _ => pipeline::waits(chunk, &["c150"]),
        })
        .collect();
    let entries = [stop(&told)];
    let history = History { entries: &entries, parts: &[], now_ms: START_MS };
    let nodes = pipeline::nodes(&all, &history);
    assert_eq!(pipeline::summary(&nodes).to_string(), "150 of 200 done; next: c150");
    assert!(nodes[151..].iter().all(|node| node.at == Where::Waits));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes after what: every chunk is in one layer, after all it names unless there is a circle, and a circle
    /// is one.
    #[test]
    fn layers_keep_the_order(edges in vec(vec(0_usize..12, 0..4), 0..12)) {
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
        match pipeline::circle(&all) {
            None => {
                let mut earlier: BTreeSet<&str> = BTreeSet::new();
                for layer in &layers {
                    for name in layer.iter().flat_map(|chunk| &chunk.after) {
                        prop_assert!(!known(name) || earlier.contains(&**name));
                    }
                    earlier.extend(layer.iter().map(|chunk| &*chunk.name));
                }
            }
            Some(circle) => {
                prop_assert_eq!(&circle[0].name, &circle[circle.len() - 1].name);
                for pair in circle.windows(2) {
                    prop_assert!(pair[0].after.contains(&pair[1].name));
                }
            }
        }
    }
}
