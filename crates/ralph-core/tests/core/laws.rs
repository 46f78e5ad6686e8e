//! Properties that hold for every sequence of events, tested with random sequences. `RALPH_LAW_CASES` sets how many for
//! each property.

use crate::scenario::{At, Scenario, Taken, advisory, at, files, requirement, run, session};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use ralph_core::drive::{
    Cause, Drove, How, Meter, Metered, Remedy, Session, Sessions, Settings, Source, Wait,
};
use ralph_core::event::{Occasion, PendingKind, Trouble};
use ralph_core::facts::{Declared, Delivery, Driver, Off, Owner, Tree, Trust};
use ralph_core::limits::Limits;
use ralph_core::policy::OnTampering;
use ralph_core::record::{Change, Entry, Observed, Origin, Outcome, Process, Restored, Rule, Run};
use ralph_core::requirement::{Evidence as Proof, Failure, Pending, Requirement, Standing};
use ralph_core::run::{Phase, Spent, State};
use ralph_core::status::Status;
use ralph_core::verdict::Verdict;
use ralph_host::{Host, Reply, Style};
use serde_json::Value;

const CASES: u32 = 20_000;
const MINUTE_MS: u64 = 60_000;
const STYLES: [Style; 3] = [Style::Exit2, Style::Context, Style::Json];

#[expect(clippy::disallowed_methods, reason = "the number of test cases is not an input of ralph")]
fn config() -> ProptestConfig {
    let cases = std::env::var("RALPH_LAW_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(CASES),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A run, and what happens to it.
#[derive(Clone, Debug)]
struct Story {
    run: Run,
    acts: Vec<Act>,
}

#[derive(Clone, Debug)]
enum Act {
    Stop(Box<At>),
    /// Nothing changed since the last one.
    Again,
    Later {
        ms: u64,
    },
    Earlier {
        ms: u64,
    },
    Pause,
    Resume,
    Cancel,
    Fail,
    LoseJournal,
    Drive(Box<Drove>),
}

/// A random number that is consumed choice by choice. Strategies for every field would be slower than the code under
/// test.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        let choice = self.0 % bound;
        self.0 /= bound;
        choice
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == bound - 1
    }
}

fn stories() -> impl Strategy<Value = Story> {
    (any::<u64>(), vec(any::<u64>(), 1..=16)).prop_map(|(run, acts)| Story {
        run: run_of(&mut Choices(run)),
        acts: acts.into_iter().map(|act| act_of(&mut Choices(act))).collect(),
    })
}

fn stops() -> impl Strategy<Value = Vec<At>> {
    vec(any::<u64>(), 1..=4)
        .prop_map(|stops| stops.into_iter().map(|stop| stop_of(&mut Choices(stop))).collect())
}

fn run_of(choices: &mut Choices) -> Run {
    let most = u32::try_from(choices.below(8)).unwrap();
    let stuck_after = 2 + u32::try_from(choices.below(3)).unwrap();
    let limits = Limits {
        max_iterations: (most < 7).then_some(most),
        max_duration_ms: Some(choices.below(4) * 30 * MINUTE_MS + 30 * MINUTE_MS),
        stuck_after,
        ..Limits::DEFAULT
    };
    let origin = if choices.one_in(3) { Origin::Adopted } else { Origin::Started };
    let on_tampering =
        if choices.one_in(3) { OnTampering::EndInReview } else { OnTampering::Block };
    let first_iteration = u32::try_from(choices.below(4)).unwrap().saturating_sub(1);
    let drive = choices.one_in(2).then(|| Box::new(settings_of(choices)));
    Run { limits, origin, on_tampering, first_iteration, drive, ..run() }
}

fn settings_of(choices: &mut Choices) -> Settings {
    let sessions = [Sessions::Hybrid, Sessions::SameSession, Sessions::FreshPerFeature];
    let sessions = sessions[usize::try_from(choices.below(3)).unwrap()];
    let stronger_model = choices.one_in(2).then(|| "opus".to_owned());
    Settings { sessions, stronger_model, ..Settings::DEFAULT }
}

fn act_of(choices: &mut Choices) -> Act {
    match choices.below(36) {
        32.. => Act::Drive(Box::new(drove_of(choices))),
        20..=24 => Act::Again,
        0..=19 => Act::Stop(Box::new(stop_of(choices))),
        25 => Act::Later { ms: choices.below(60) * MINUTE_MS },
        26 => Act::Earlier { ms: choices.below(600) * MINUTE_MS },
        27 => Act::Pause,
        28 | 29 => Act::Resume,
        30 => Act::Fail,
        _ if choices.one_in(2) => Act::Cancel,
        _ => Act::LoseJournal,
    }
}

fn drove_of(choices: &mut Choices) -> Drove {
    let id = session(u32::try_from(choices.below(3)).unwrap());
    match choices.below(12) {
        0..=2 => Drove::Session(Session {
            id,
            how: How::Fresh,
            model: choices.one_in(3).then(|| "opus".into()),
            argv: Vec::new(),
            env: Vec::new(),
            mark: None,
        }),
        3..=5 => Drove::Metered(Metered {
            session: id,
            source: if choices.one_in(3) { Source::Gate } else { Source::Agent },
            micro_usd: choices.below(8) * 1_000_000,
            tokens: choices.below(8) * 10_000,
            turns: u32::try_from(choices.below(4)).unwrap(),
            meter: Meter::Told,
        }),
        6 => Drove::HandsOver { why: "the context is full".into(), permille: Some(900) },
        7 => Drove::Waits(Wait {
            cause: if choices.one_in(2) { Cause::RateLimit } else { Cause::Network },
            since_ms: choices.below(60) * MINUTE_MS,
            until_ms: choices.below(60) * MINUTE_MS,
            attempt: 1,
            why: "429".into(),
            window: None,
        }),
        8 => Drove::Woke,
        9 => Drove::Tried { remedy: Remedy::Approach, why: "nothing new".into() },
        10 => Drove::Broke { how: "killed".into() },
        _ => Drove::Parked { status: Status::RateLimited, why: "until tomorrow".into() },
    }
}

fn stop_of(choices: &mut Choices) -> At {
    let tree = choices.below(4);
    let mut stop = at(tree);
    if tree == 3 {
        stop = stop.tree(Tree::Unknown);
    }
    for name in ["a", "b", "c", "d"] {
        stop.evidence.requirements.extend(requirement_of(name, choices));
    }
    stop = stop.continuing(choices.one_in(2));
    stop.facts.delivery = choices.below(4).checked_sub(1).map(|stop| Delivery {
        stop,
        length: choices.below(3).checked_sub(1),
        arrived_ms: u64::MAX,
    });
    if choices.one_in(4) {
        stop.process = Some(Process { pid: 7, started: choices.below(3) });
        let offset = choices.below(1_000);
        stop.observed = Some(Observed { inode: 1, offset, ..Observed::default() });
    }
    stop.facts.driver = match choices.below(6) {
        0 | 1 => Driver::Runner,
        2 => Driver::Alone,
        3 => Driver::Closing,
        _ => Driver::Person,
    };
    with_fact(stop, choices.below(32))
}

fn requirement_of(name: &str, choices: &mut Choices) -> Option<Requirement> {
    let failure = Failure::new("it fails".into());
    let standing = match choices.below(10) {
        0 => return None,
        1..=3 => Standing::Met(Proof::Measured),
        4 => Standing::Met(Proof::Claimed),
        5 => Standing::Unmet(failure),
        6 => Standing::Unknown("timed out".into()),
        7 => Standing::Pending(Pending::Running("still running".into())),
        8 => Standing::Pending(Pending::NotReached("comes later".into())),
        _ => return Some(advisory(requirement(name, Standing::Unmet(failure)))),
    };
    Some(requirement(name, standing))
}

fn with_fact(stop: At, fact: u64) -> At {
    match fact {
        0 => stop.pending(PendingKind::Background, "shell \"build\""),
        1 => stop.pending(PendingKind::WakeUp, "*/5 * * * *"),
        2 => stop.trouble(Trouble::RateLimit),
        3 | 4 => stop.trouble(Trouble::Unknown("solar_flare".into())),
        5 => stop.declared(Declared::NeedsHuman("which licence?".into())),
        6 => stop.declared(Declared::Waiting { until_ms: u64::MAX, why: "a build".into() }),
        7 => stop.trust(Trust::Missing { what: "`ralph.toml`".into(), how: "ralph trust".into() }),
        8 => stop.tampering("`run.json` was changed after the start"),
        9 => stop.off(Off::KillSwitch),
        10 => stop.owner(Owner::Gone),
        11 => stop.spent(20_000_000),
        12 => stop.context(900, Driver::Runner),
        13 => stop.own_limit("`progress.txt` is at 9 of 9"),
        _ => stop,
    }
}

/// One stop with the state before it, the answer, and the state after it.
struct Told<'a> {
    before: &'a Scenario,
    stop: &'a At,
    taken: &'a Taken,
    after: &'a Scenario,
}

/// Plays a story, as the hook and the commands would, and checks `law` at every stop.
fn tell(
    story: &Story,
    mut law: impl FnMut(&Told<'_>) -> Result<(), TestCaseError>,
) -> Result<Scenario, TestCaseError> {
    let mut now = Scenario::of(story.run.clone());
    let mut last = None;
    for act in &story.acts {
        now.now_ms += MINUTE_MS;
        match (act, now.state.phase) {
            (Act::Stop(_) | Act::Again, _) => {
                if let Act::Stop(stop) = act {
                    last = Some(stop);
                }
                let Some(stop) = last else { continue };
                let before = now.clone();
                let taken = now.take((**stop).clone()).clone();
                law(&Told { before: &before, stop, taken: &taken, after: &now })?;
            }
            (Act::Drive(drove), _) => now.write(Change::Drove(drove.clone())),
            (Act::Later { ms }, _) => now.now_ms += ms,
            (Act::Earlier { ms }, _) => now.now_ms = now.now_ms.saturating_sub(*ms),
            (Act::Pause, Phase::Active | Phase::Orphaned) => now.write(Change::Paused),
            (Act::Resume, Phase::Paused { .. } | Phase::Orphaned) => now.write(Change::Resumed),
            (Act::Cancel, Phase::Active | Phase::Paused { .. } | Phase::Orphaned) => {
                now.write(Change::Cancelled);
            }
            (Act::Fail, _) => now.write(Change::Trouble { class: "server".into() }),
            (Act::LoseJournal, _) => {
                now.journal.clear();
                let (run, state) = (now.run.clone(), now.state.clone());
                now.write(Change::Restored(Box::new(Restored { run, state })));
            }
            (Act::Pause | Act::Resume | Act::Cancel, _) => {}
        }
    }
    Ok(now)
}

/// R-L10d: the random stories below reach every row of the table.
#[test]
fn the_stories_reach_every_rule() {
    let mut runner = TestRunner::deterministic();
    let mut fired = Vec::new();
    for _ in 0..10_000 {
        let story = stories().new_tree(&mut runner).unwrap().current();
        let played = tell(&story, |_| Ok(())).unwrap();
        fired.extend(played.taken.iter().map(|taken| taken.decision.rule));
        let stop = stops().new_tree(&mut runner).unwrap().current().remove(0);
        fired.push(files().ask(&stop).rule);
    }
    let never: Vec<Rule> = Rule::ALL.into_iter().filter(|rule| !fired.contains(rule)).collect();
    assert_eq!(never, []);
}

fn is_block(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Block { .. })
}

fn is_charged(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Blocked { .. } | Outcome::HandedOver)
}

proptest! {
    #![proptest_config(config())]

    /// A run never exceeds its iterations, charges exactly its blocks, and allows every stop after its end. Its time only
    /// increases, whatever happens to the clock. A repeated delivery gets the same answer, but only once, so that even an
    /// agent whose stops all look alike is released in the end.
    #[test]
    fn a_run_is_finite(story in stories()) {
        let run = &story.run;
        let (mut charged, mut awaited, mut repeats, mut elapsed) = (0, 0, 0, 0);
        tell(&story, |transition| {
            let decision = &transition.taken.decision;
            charged += u32::from(is_charged(&decision.outcome));
            prop_assert_eq!(transition.after.state.iteration, run.first_iteration + charged);
            if let Some(most) = run.limits.max_iterations {
                prop_assert!(charged <= most.saturating_sub(run.first_iteration));
            }
            if matches!(transition.before.state.phase, Phase::Ended(_)) {
                prop_assert_eq!(&decision.verdict, &Verdict::Allow);
                prop_assert_eq!(transition.after.state.phase, transition.before.state.phase);
            }
            if decision.rule != Rule::NotMine {
                let now = transition.after.state.elapsed_ms(transition.after.now_ms);
                prop_assert!(now >= elapsed, "{} ms, then {} ms", elapsed, now);
                elapsed = now;
            }
            if let Outcome::Awaited { .. } = decision.outcome {
                // Waiting is not charged, but the time limit ends it.
                awaited += 1;
                prop_assert!(run.limits.max_duration_ms.is_some_and(|most| elapsed <= most));
            } else if is_block(&decision.verdict) && !is_charged(&decision.outcome) {
                prop_assert_eq!(decision.rule, Rule::Repeat);
                let answered = transition.before.state.delivery.map(|it| (it.stop.0, it.length, it.repeats));
                let delivered = transition.stop.facts.delivery.map(|it| (it.stop, it.length, 0));
                prop_assert_eq!(delivered, answered);
                repeats += 1;
                prop_assert!(repeats <= charged + awaited, "{} repeats of {} blocks", repeats, charged);
            }
            Ok(())
        })?;
    }

    /// A stop with one more failure than a held one is held too, or handed over. `stuck` is a necessary exception: one
    /// more failure can make the failures equal to those of an earlier stop.
    #[test]
    fn one_more_failure_never_frees(story in stories(), others in stops()) {
        let worse = |scenario: &Scenario, stop: &At| {
            let failure = || Standing::Unmet(Failure::new("it fails".into()));
            let count = stop.evidence.requirements.len();
            for turned in 0..=count {
                let mut worse = stop.clone();
                match worse.evidence.requirements.get_mut(turned) {
                    Some(one) => *one = Requirement { standing: failure(), ..one.clone() },
                    None => worse.evidence.requirements.push(requirement("e", failure())),
                }
                let answer = scenario.ask(&worse);
                prop_assert!(
                    is_block(&answer.verdict)
                        || answer.outcome == Outcome::HandedOver
                        || answer.rule == Rule::Stuck,
                    "{:?} for {:?}", answer, worse.evidence
                );
            }
            Ok(())
        };
        tell(&story, |transition| {
            if is_block(&transition.taken.decision.verdict) {
                worse(&transition.before.clone(), transition.stop)?;
            }
            Ok(())
        })?;
        for stop in others {
            let scenario = files();
            if is_block(&scenario.ask(&stop).verdict) {
                worse(&scenario, &stop)?;
            }
        }
    }

    /// R-H1a: the client accepts every answer: it neither discards one, treats it as an error, nor hides it.
    #[test]
    fn every_answer_is_valid_for_the_host(story in stories(), others in stops()) {
        tell(&story, |transition| valid_in_every_style(&transition.taken.decision.verdict))?;
        for stop in others {
            valid_in_every_style(&files().ask(&stop).verdict)?;
        }
    }

    /// The journal lines alone rebuild the state of a run.
    #[test]
    fn the_journal_rebuilds_the_state(story in stories()) {
        let now = tell(&story, |_| Ok(()))?;
        let lines: Vec<String> =
            now.journal.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
        let entries: Vec<Entry> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert!(lines.iter().all(|line| !line.contains('\n')));
        prop_assert_eq!(&entries, &now.journal);
        prop_assert_eq!(State::replay(&entries), Some((now.run.clone(), now.state.clone())));
        let counted = entries.last().unwrap().iteration;
        prop_assert_eq!(counted, now.state.iteration);
        let state = serde_json::to_string(&now.state).unwrap();
        prop_assert_eq!(serde_json::from_str::<State>(&state).unwrap(), now.state);
    }

    /// A run ends `verified` only if ralph measured all requirements at that stop, the run was never tampered with, and
    /// no runner has yet to make a final look.
    #[test]
    fn verified_requires_measured_evidence(story in stories()) {
        let mut tampered = false;
        tell(&story, |transition| {
            tampered |= matches!(transition.before.journal[0].change, Change::Restored(_));
            tampered |= transition.stop.facts.tampering.is_some();
            let required: Vec<_> =
                transition.stop.evidence.requirements.iter().filter(|one| one.is_required()).collect();
            let measured = !required.is_empty()
                && required.iter().all(|one| one.standing == Standing::Met(Proof::Measured));
            let ended = transition.taken.decision.outcome == Outcome::Ended(Status::Verified);
            let announced = matches!(transition.taken.decision.verdict, Verdict::End { status: Status::Verified, .. });
            prop_assert_eq!(ended, announced);
            prop_assert!(!ended || (measured && !tampered));
            let driver = transition.stop.facts.driver;
            prop_assert!(!ended || !matches!(driver, Driver::Runner | Driver::Closing));
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(config())]

    /// R-K1b: recorded spending never decreases, whatever a meter shows and however often a session is resumed.
    #[test]
    fn spending_never_goes_down(story in stories()) {
        let mut spent = Spent::default();
        tell(&story, |transition| {
            let now = transition.after.state.driving.spent();
            prop_assert!(now.micro_usd >= spent.micro_usd && now.tokens >= spent.tokens);
            spent = now;
            let tried = &transition.after.state.driving.tried;
            prop_assert!(tried.len() <= 3, "{:?}", tried);
            Ok(())
        })?;
    }
}

fn valid_in_every_style(verdict: &Verdict) -> Result<(), TestCaseError> {
    for style in STYLES {
        let reply = Host::Claude.render(style, Occasion::Stop, verdict);
        let expected = match verdict {
            Verdict::Allow | Verdict::AllowNoting(_) | Verdict::End { .. } => Effect::Stops,
            Verdict::Block { .. } => Effect::GoesOn,
            Verdict::Answer { .. }
            | Verdict::Tell { .. }
            | Verdict::Deny { .. }
            | Verdict::Ask { .. } => panic!("no answer to a stop: {verdict:?}"),
        };
        prop_assert_eq!(effect(&reply), Ok(expected), "{:?} {:?}", style, reply);
        prop_assert!(*verdict != Verdict::Allow || reply == Reply::default());
        if let Verdict::Block { reason } = verdict {
            let first = reason.lines().next().unwrap_or_default();
            prop_assert!(reason.chars().count() <= 8_000);
            prop_assert!((1..=120).contains(&first.chars().count()), "{}", first);
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Effect {
    Stops,
    GoesOn,
}

/// The effect of a reply on the client, as observed: `protocol/claude-code.md` §2.4 and §3.2.
fn effect(reply: &Reply) -> Result<Effect, &'static str> {
    let stdout = std::str::from_utf8(&reply.stdout).map_err(|_| "stdout is not text")?;
    match reply.exit {
        2 if stdout != "{}" => {
            Err("exit 2 with anything but `{}` on stdout is read as something else")
        }
        2 if reply.stderr.trim_ascii().is_empty() => Err("exit 2 without a reason"),
        2 => Ok(Effect::GoesOn),
        0 if !reply.stderr.is_empty() => Err("stderr is ignored at exit 0"),
        0 if stdout.is_empty() => Ok(Effect::Stops),
        0 => answer(&serde_json::from_str(stdout).map_err(|_| "stdout is not one JSON value")?),
        _ => Err("an exit code that the client treats as an error"),
    }
}

fn answer(value: &Value) -> Result<Effect, &'static str> {
    let object = value.as_object().ok_or("stdout is not an object")?;
    let mut effect = Effect::Stops;
    for (key, value) in object {
        match (key.as_str(), value) {
            ("systemMessage", Value::String(text)) if !text.is_empty() => {}
            ("decision", Value::String(word)) if word == "block" => effect = Effect::GoesOn,
            ("reason", Value::String(text)) if !text.is_empty() => {}
            ("hookSpecificOutput", Value::Object(of)) => {
                let text = of.get("additionalContext").and_then(Value::as_str).unwrap_or_default();
                if of.get("hookEventName") != Some(&Value::from("Stop")) {
                    return Err("for another event");
                }
                if of.len() != 2 || text.is_empty() || text.chars().count() > 10_000 {
                    return Err("not one context that is shown whole");
                }
                effect = Effect::GoesOn;
            }
            ("continue", _) => return Err("`continue` ends the turn or is ignored"),
            _ => return Err("an unknown key, or a known one of the wrong type"),
        }
    }
    let is_whole = object.contains_key("decision") == object.contains_key("reason");
    if is_whole && !object.is_empty() { Ok(effect) } else { Err("half an answer") }
}
