//! Properties that hold for every sequence of events, tested with random sequences. `RALPH_LAW_CASES` sets how many for
//! each property.

use crate::scenario::{
    TakenStop, TestRun, TestStop, advisory, files_only, gated_session, requirement, run,
    sealed_run, session, stop_at,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use ralph_core::drive::{
    CostSource, DriveSettings, MeterBasis, MeterReading, PlannedWait, Remedy, RunnerEvent,
    RunnerSession, SessionOrigin, SessionPolicy, WaitCause,
};
use ralph_core::event::{HostTrouble, PendingWorkKind, ReplyOccasion};
use ralph_core::facts::{
    DeclaredPause, OffReason, PolicyTrust, StopDelivery, StopDriver, TreeIdentity,
};
use ralph_core::limits::RunLimits;
use ralph_core::policy::OnTampering;
use ralph_core::proof::ProofVerdict;
use ralph_core::record::{
    DecisionRule, JournalEntry, ProcessIdentity, RestoredRun, RunChange, RunOrigin, RunRecord,
    StopOutcome, TranscriptReading,
};
use ralph_core::requirement::{
    EvidenceKind, PendingReason, Requirement, RequirementFailure, RequirementStatus,
};
use ralph_core::run::{RunPhase, RunState, Spending};
use ralph_core::status::RunStatus;
use ralph_core::verdict::Verdict;
use ralph_host::claude::PROFILE;
use ralph_host::{BlockStyle, HookReply};
use serde_json::Value;

/// Enough to catch a broken rule in practice; `cargo xtask thorough` tries ten times as many.
const CASES: u32 = 2_000;
const MINUTE_MS: u64 = 60_000;
const STYLES: [BlockStyle; 3] = [BlockStyle::Exit2, BlockStyle::Context, BlockStyle::Json];

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
struct RunStory {
    run: RunRecord,
    acts: Vec<StoryAct>,
}

#[derive(Clone, Debug)]
enum StoryAct {
    Stop(Box<TestStop>),
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
    Drive(Box<RunnerEvent>),
}

/// A random number that is consumed choice by choice. Strategies for every field would be slower than the code under
/// test.
struct ChoiceSource(u64);

impl ChoiceSource {
    fn below(&mut self, bound: u64) -> u64 {
        let choice = self.0 % bound;
        self.0 /= bound;
        choice
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == bound - 1
    }
}

fn stories() -> impl Strategy<Value = RunStory> {
    (any::<u64>(), vec(any::<u64>(), 1..=16)).prop_map(|(run, acts)| RunStory {
        run: run_of(&mut ChoiceSource(run)),
        acts: acts.into_iter().map(|act| act_of(&mut ChoiceSource(act))).collect(),
    })
}

fn stops() -> impl Strategy<Value = Vec<TestStop>> {
    vec(any::<u64>(), 1..=4)
        .prop_map(|stops| stops.into_iter().map(|stop| stop_of(&mut ChoiceSource(stop))).collect())
}

fn run_of(choices: &mut ChoiceSource) -> RunRecord {
    let most = u32::try_from(choices.below(8)).unwrap();
    let stuck_after = 2 + u32::try_from(choices.below(3)).unwrap();
    let limits = RunLimits {
        max_iterations: (most < 7).then_some(most),
        max_duration_ms: Some(choices.below(4) * 30 * MINUTE_MS + 30 * MINUTE_MS),
        stuck_after,
        ..RunLimits::DEFAULT
    };
    let origin = if choices.one_in(3) { RunOrigin::Adopted } else { RunOrigin::Started };
    let on_tampering =
        if choices.one_in(3) { OnTampering::EndInReview } else { OnTampering::Block };
    let first_iteration = u32::try_from(choices.below(4)).unwrap().saturating_sub(1);
    let drive = choices.one_in(2).then(|| Box::new(settings_of(choices)));
    let known = if choices.one_in(2) { sealed_run() } else { run() };
    RunRecord { limits, origin, on_tampering, first_iteration, drive, ..known }
}

fn settings_of(choices: &mut ChoiceSource) -> DriveSettings {
    let sessions =
        [SessionPolicy::Hybrid, SessionPolicy::SameSession, SessionPolicy::FreshPerFeature];
    let sessions = sessions[usize::try_from(choices.below(3)).unwrap()];
    let stronger_model = choices.one_in(2).then(|| "opus".to_owned());
    DriveSettings { sessions, stronger_model, ..DriveSettings::DEFAULT }
}

fn act_of(choices: &mut ChoiceSource) -> StoryAct {
    match choices.below(36) {
        32.. => StoryAct::Drive(Box::new(drove_of(choices))),
        20..=24 => StoryAct::Again,
        0..=19 => StoryAct::Stop(Box::new(stop_of(choices))),
        25 => StoryAct::Later { ms: choices.below(60) * MINUTE_MS },
        26 => StoryAct::Earlier { ms: choices.below(600) * MINUTE_MS },
        27 => StoryAct::Pause,
        28 | 29 => StoryAct::Resume,
        30 => StoryAct::Fail,
        _ if choices.one_in(2) => StoryAct::Cancel,
        _ => StoryAct::LoseJournal,
    }
}

fn drove_of(choices: &mut ChoiceSource) -> RunnerEvent {
    let id = session(u32::try_from(choices.below(3)).unwrap());
    match choices.below(12) {
        0..=2 => RunnerEvent::Session(RunnerSession {
            id,
            how: SessionOrigin::Fresh,
            model: choices.one_in(3).then(|| "opus".into()),
            argv: Vec::new(),
            env: Vec::new(),
            mark: None,
        }),
        3..=5 => RunnerEvent::Metered(MeterReading {
            session: id,
            source: if choices.one_in(3) { CostSource::Gate } else { CostSource::Agent },
            micro_usd: choices.below(8) * 1_000_000,
            tokens: choices.below(8) * 10_000,
            turns: u32::try_from(choices.below(4)).unwrap(),
            meter: MeterBasis::Told,
        }),
        6 => RunnerEvent::HandsOver { why: "the context is full".into(), permille: Some(900) },
        7 => RunnerEvent::Waits(PlannedWait {
            cause: if choices.one_in(2) { WaitCause::RateLimit } else { WaitCause::Network },
            since_ms: choices.below(60) * MINUTE_MS,
            until_ms: choices.below(60) * MINUTE_MS,
            attempt: 1,
            why: "429".into(),
            window: None,
        }),
        8 => RunnerEvent::Woke,
        9 => RunnerEvent::Tried { remedy: Remedy::Approach, why: "nothing new".into() },
        10 => RunnerEvent::Broke { how: "killed".into() },
        _ => RunnerEvent::Parked { status: RunStatus::RateLimited, why: "until tomorrow".into() },
    }
}

fn stop_of(choices: &mut ChoiceSource) -> TestStop {
    let tree = choices.below(4);
    let mut stop = stop_at(tree);
    if tree == 3 {
        stop = stop.tree(TreeIdentity::Unknown);
    }
    for name in ["a", "b", "c", "d"] {
        stop.evidence.requirements.extend(requirement_of(name, choices));
    }
    stop = stop.continuing(choices.one_in(2));
    stop.facts.delivery = choices.below(4).checked_sub(1).map(|stop| StopDelivery {
        stop,
        length: choices.below(3).checked_sub(1),
        arrived_ms: u64::MAX,
    });
    if choices.one_in(4) {
        stop.process = Some(ProcessIdentity { pid: 7, started: choices.below(3) });
        let offset = choices.below(1_000);
        stop.observed =
            Some(TranscriptReading { inode: 1, offset, ..TranscriptReading::default() });
    }
    stop.facts.driver = match choices.below(6) {
        0 | 1 => StopDriver::Runner,
        2 => StopDriver::RunnerAlone,
        3 => StopDriver::RunnerLanding,
        _ => StopDriver::Person,
    };
    stop = match choices.below(4) {
        0 => stop,
        1 => stop.proof(ProofVerdict::Verified, &[]),
        2 => stop.proof(ProofVerdict::Green, &[]),
        _ => stop.proof(ProofVerdict::NeedsReview, &["test_old"]),
    };
    with_fact(stop, choices.below(32))
}

fn requirement_of(name: &str, choices: &mut ChoiceSource) -> Option<Requirement> {
    let failure = RequirementFailure::new("it fails".into());
    let standing = match choices.below(10) {
        0 => return None,
        1..=3 => RequirementStatus::Met(EvidenceKind::Measured),
        4 => RequirementStatus::Met(EvidenceKind::Claimed),
        5 => RequirementStatus::Unmet(failure),
        6 => RequirementStatus::Unknown("timed out".into()),
        7 => RequirementStatus::Pending(PendingReason::Running("still running".into())),
        8 => RequirementStatus::Pending(PendingReason::NotReached("comes later".into())),
        _ => return Some(advisory(requirement(name, RequirementStatus::Unmet(failure)))),
    };
    Some(requirement(name, standing))
}

fn with_fact(stop: TestStop, fact: u64) -> TestStop {
    match fact {
        0 => stop.pending(PendingWorkKind::Background, "shell \"build\""),
        1 => stop.pending(PendingWorkKind::WakeUp, "*/5 * * * *"),
        2 => stop.trouble(HostTrouble::RateLimit),
        3 | 4 => stop.trouble(HostTrouble::Unknown("solar_flare".into())),
        5 => stop.declared(DeclaredPause::NeedsHuman("which licence?".into())),
        6 => stop.declared(DeclaredPause::Waiting { until_ms: u64::MAX, why: "a build".into() }),
        7 => stop
            .trust(PolicyTrust::Missing { what: "`ralph.toml`".into(), how: "ralph trust".into() }),
        8 => stop.tampering("`run.json` was changed after the start"),
        9 => stop.off(OffReason::KillSwitch),
        10 => stop.owner_gone(),
        11 => stop.spent(20_000_000),
        12 => stop.context(900, StopDriver::Runner),
        13 => stop.own_limit("`progress.txt` is at 9 of 9"),
        _ => stop,
    }
}

/// One stop with the state before it, the answer, and the state after it.
struct StopTransition<'a> {
    before: &'a TestRun,
    stop: &'a TestStop,
    taken: &'a TakenStop,
    after: &'a TestRun,
}

/// Plays a story, as the hook and the commands would, and checks `law` at every stop.
fn play_story(
    story: &RunStory,
    mut law: impl FnMut(&StopTransition<'_>) -> Result<(), TestCaseError>,
) -> Result<TestRun, TestCaseError> {
    let mut now = TestRun::of(story.run.clone());
    let mut last = None;
    for act in &story.acts {
        now.now_ms += MINUTE_MS;
        match (act, now.state.phase) {
            (StoryAct::Stop(_) | StoryAct::Again, _) => {
                if let StoryAct::Stop(stop) = act {
                    last = Some(stop);
                }
                let Some(stop) = last else { continue };
                let before = now.clone();
                let taken = now.take((**stop).clone()).clone();
                law(&StopTransition { before: &before, stop, taken: &taken, after: &now })?;
            }
            (StoryAct::Drive(drove), _) => now.write(RunChange::Drove(drove.clone())),
            (StoryAct::Later { ms }, _) => now.now_ms += ms,
            (StoryAct::Earlier { ms }, _) => now.now_ms = now.now_ms.saturating_sub(*ms),
            (StoryAct::Pause, RunPhase::Active | RunPhase::Orphaned) => {
                now.write(RunChange::Paused);
            }
            (StoryAct::Resume, RunPhase::Paused { .. } | RunPhase::Orphaned) => {
                now.write(RunChange::Resumed);
            }
            (StoryAct::Cancel, RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned) => {
                now.write(RunChange::Cancelled);
            }
            (StoryAct::Fail, _) => now.write(RunChange::Trouble { class: "server".into() }),
            (StoryAct::LoseJournal, _) => {
                now.journal.clear();
                let (run, state) = (now.run.clone(), now.state.clone());
                now.write(RunChange::Restored(Box::new(RestoredRun { run, state })));
            }
            (StoryAct::Pause | StoryAct::Resume | StoryAct::Cancel, _) => {}
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
        let played = play_story(&story, |_| Ok(())).unwrap();
        fired.extend(played.taken.iter().map(|taken| taken.decision.rule));
        let stop = stops().new_tree(&mut runner).unwrap().current().remove(0);
        fired.push(files_only().ask(&stop).rule);
        fired.push(gated_session().ask(&stop).rule);
    }
    let never: Vec<DecisionRule> =
        DecisionRule::ALL.into_iter().filter(|rule| !fired.contains(rule)).collect();
    assert_eq!(never, []);
}

fn is_block(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Block { .. })
}

fn is_charged(outcome: &StopOutcome) -> bool {
    matches!(outcome, StopOutcome::Blocked { .. } | StopOutcome::HandedOver)
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
        play_story(&story, |transition| {
            let decision = &transition.taken.decision;
            charged += u32::from(is_charged(&decision.outcome));
            prop_assert_eq!(transition.after.state.iteration, run.first_iteration + charged);
            if let Some(most) = run.limits.max_iterations {
                prop_assert!(charged <= most.saturating_sub(run.first_iteration));
            }
            if matches!(transition.before.state.phase, RunPhase::Ended(_)) {
                prop_assert_eq!(&decision.verdict, &Verdict::Allow);
                prop_assert_eq!(transition.after.state.phase, transition.before.state.phase);
            }
            if decision.rule != DecisionRule::NotMine {
                let now = transition.after.state.elapsed_ms(transition.after.now_ms);
                prop_assert!(now >= elapsed, "{} ms, then {} ms", elapsed, now);
                elapsed = now;
            }
            if let StopOutcome::Awaited { .. } = decision.outcome {
                // Waiting is not charged, but the time limit ends it.
                awaited += 1;
                prop_assert!(run.limits.max_duration_ms.is_some_and(|most| elapsed <= most));
            } else if is_block(&decision.verdict) && !is_charged(&decision.outcome) {
                prop_assert_eq!(decision.rule, DecisionRule::Repeat);
                let answered = transition.before.state.delivery.map(|it| (it.stop.0, it.length, it.repeats));
                let delivered = transition.stop.facts.delivery.map(|it| (it.stop, it.length, 0));
                prop_assert_eq!(delivered, answered);
                repeats += 1;
                prop_assert!(repeats <= charged + awaited, "{} repeats of {} blocks", repeats, charged);
            }
            Ok(())
        })?;
    }

    /// A wait for results is free only with the files of the wait before it, unless a result came in between. Files that
    /// cannot be identified are never the same as before.
    #[test]
    fn only_one_tree_waits_for_free(story in stories()) {
        let mut waits_with = None;
        play_story(&story, |transition| {
            let decision = &transition.taken.decision;
            if matches!(decision.outcome, StopOutcome::Repeated) || decision.report.is_none() {
                return Ok(());
            }
            let open = || transition.stop.evidence.requirements.iter().filter(|one| one.is_open());
            let is_waiting = is_block(&decision.verdict)
                && transition.stop.facts.tampering.is_none()
                && open().any(Requirement::is_running)
                && open().all(|one| one.is_running() || one.comes_later());
            let tree = transition.stop.evidence.tree_without_gate_writes;
            if matches!(decision.outcome, StopOutcome::Awaited { .. }) {
                prop_assert!(is_waiting);
                let is_same = |before| before == tree && tree != TreeIdentity::Unknown;
                prop_assert!(waits_with.is_none_or(is_same));
            }
            waits_with = match (tree, waits_with) {
                _ if !is_waiting => None,
                (TreeIdentity::Unknown, Some(before)) => Some(before),
                (TreeIdentity::Known(_), _) | (TreeIdentity::Unknown, None) => Some(tree),
            };
            Ok(())
        })?;
    }

    /// R-V1a, R-V1b: with a policy nothing ends `verified` but a proof that is `verified`, and the agent is held at most
    /// once because of a proof.
    #[test]
    fn verified_needs_a_proof(story in stories()) {
        let mut held = 0;
        play_story(&story, |transition| {
            let decision = &transition.taken.decision;
            let proof = transition.stop.evidence.proof.as_ref().map(|proof| proof.verdict);
            if story.run.seal.is_some()
                && decision.outcome == StopOutcome::Ended(RunStatus::Verified)
            {
                prop_assert_eq!(proof, Some(ProofVerdict::Verified));
            }
            held += u32::from(decision.rule == DecisionRule::Proof && is_block(&decision.verdict));
            prop_assert!(held <= 1);
            Ok(())
        })?;
    }

    /// A stop with one more failure than a held one is held too, or handed over. `stuck` is a necessary exception: one
    /// more failure can make the failures equal to those of an earlier stop.
    #[test]
    fn one_more_failure_never_frees(story in stories(), others in stops()) {
        let worse = |scenario: &TestRun, stop: &TestStop| {
            let failure = || RequirementStatus::Unmet(RequirementFailure::new("it fails".into()));
            let count = stop.evidence.requirements.len();
            for turned in 0..=count {
                let mut worse = stop.clone();
                match worse.evidence.requirements.get_mut(turned) {
                    Some(one) => *one = Requirement { status: failure(), ..one.clone() },
                    None => worse.evidence.requirements.push(requirement("e", failure())),
                }
                let answer = scenario.ask(&worse);
                prop_assert!(
                    is_block(&answer.verdict)
                        || answer.outcome == StopOutcome::HandedOver
                        || answer.rule == DecisionRule::Stuck,
                    "{:?} for {:?}", answer, worse.evidence
                );
            }
            Ok(())
        };
        play_story(&story, |transition| {
            if is_block(&transition.taken.decision.verdict) {
                worse(&transition.before.clone(), transition.stop)?;
            }
            Ok(())
        })?;
        for stop in others {
            let scenario = files_only();
            if is_block(&scenario.ask(&stop).verdict) {
                worse(&scenario, &stop)?;
            }
        }
    }

    /// R-H1a: the client accepts every answer: it neither discards one, treats it as an error, nor hides it.
    #[test]
    fn every_answer_is_valid_for_the_host(story in stories(), others in stops()) {
        play_story(&story, |transition| valid_in_every_style(&transition.taken.decision.verdict))?;
        for stop in others {
            valid_in_every_style(&files_only().ask(&stop).verdict)?;
        }
    }

    /// The journal lines alone rebuild the state of a run.
    #[test]
    fn the_journal_rebuilds_the_state(story in stories()) {
        let now = play_story(&story, |_| Ok(()))?;
        let lines: Vec<String> =
            now.journal.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
        let entries: Vec<JournalEntry> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert!(lines.iter().all(|line| !line.contains('\n')));
        prop_assert_eq!(&entries, &now.journal);
        prop_assert_eq!(RunState::replay(&entries), Some((now.run.clone(), now.state.clone())));
        let counted = entries.last().unwrap().iteration;
        prop_assert_eq!(counted, now.state.iteration);
        let state = serde_json::to_string(&now.state).unwrap();
        prop_assert_eq!(serde_json::from_str::<RunState>(&state).unwrap(), now.state);
    }

    /// A run ends `verified` only if ralph measured all requirements at that stop, the run was never tampered with, and
    /// no runner has yet to make a final look.
    #[test]
    fn verified_requires_measured_evidence(story in stories()) {
        let mut tampered = false;
        play_story(&story, |transition| {
            tampered |= matches!(transition.before.journal[0].change, RunChange::Restored(_));
            tampered |= transition.stop.facts.tampering.is_some();
            let required: Vec<_> =
                transition.stop.evidence.requirements.iter().filter(|one| one.is_required()).collect();
            let measured = !required.is_empty()
                && required.iter().all(|one| one.status == RequirementStatus::Met(EvidenceKind::Measured));
            let ended = transition.taken.decision.outcome == StopOutcome::Ended(RunStatus::Verified);
            let announced = matches!(transition.taken.decision.verdict, Verdict::EndRun { status: RunStatus::Verified, .. });
            prop_assert_eq!(ended, announced);
            prop_assert!(!ended || (measured && !tampered));
            let driver = transition.stop.facts.driver;
            prop_assert!(!ended || !matches!(driver, StopDriver::Runner | StopDriver::RunnerLanding));
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(config())]

    /// R-K1b: recorded spending never decreases, whatever a meter shows and however often a session is resumed.
    #[test]
    fn spending_never_goes_down(story in stories()) {
        let mut spent = Spending::default();
        play_story(&story, |transition| {
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
        let reply = (PROFILE.render_verdict)(style, ReplyOccasion::Stop, verdict);
        let expected = match verdict {
            Verdict::Allow | Verdict::AllowWithNotice(_) | Verdict::EndRun { .. } => {
                ClientEffect::Stops
            }
            Verdict::Block { .. } => ClientEffect::GoesOn,
            Verdict::AnswerPrompt { .. }
            | Verdict::AddContext { .. }
            | Verdict::DenyTool { .. }
            | Verdict::AskPerson { .. } => panic!("no answer to a stop: {verdict:?}"),
        };
        prop_assert_eq!(client_effect(&reply), Ok(expected), "{:?} {:?}", style, reply);
        prop_assert!(*verdict != Verdict::Allow || reply == HookReply::default());
        if let Verdict::Block { reason } = verdict {
            let first = reason.lines().next().unwrap_or_default();
            prop_assert!(reason.chars().count() <= 8_000);
            prop_assert!((1..=120).contains(&first.chars().count()), "{}", first);
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum ClientEffect {
    Stops,
    GoesOn,
}

/// The effect of a reply on the client, as observed: `protocol/claude-code.md` §2.4 and §3.2.
fn client_effect(reply: &HookReply) -> Result<ClientEffect, &'static str> {
    let stdout = std::str::from_utf8(&reply.stdout).map_err(|_| "stdout is not text")?;
    match reply.exit {
        2 if stdout != "{}" => {
            Err("exit 2 with anything but `{}` on stdout is read as something else")
        }
        2 if reply.stderr.trim_ascii().is_empty() => Err("exit 2 without a reason"),
        2 => Ok(ClientEffect::GoesOn),
        0 if !reply.stderr.is_empty() => Err("stderr is ignored at exit 0"),
        0 if stdout.is_empty() => Ok(ClientEffect::Stops),
        0 => {
            json_effect(&serde_json::from_str(stdout).map_err(|_| "stdout is not one JSON value")?)
        }
        _ => Err("an exit code that the client treats as an error"),
    }
}

fn json_effect(value: &Value) -> Result<ClientEffect, &'static str> {
    let object = value.as_object().ok_or("stdout is not an object")?;
    let mut effect = ClientEffect::Stops;
    for (key, value) in object {
        match (key.as_str(), value) {
            ("systemMessage", Value::String(text)) if !text.is_empty() => {}
            ("decision", Value::String(word)) if word == "block" => effect = ClientEffect::GoesOn,
            ("reason", Value::String(text)) if !text.is_empty() => {}
            ("hookSpecificOutput", Value::Object(of)) => {
                let text = of.get("additionalContext").and_then(Value::as_str).unwrap_or_default();
                if of.get("hookEventName") != Some(&Value::from("Stop")) {
                    return Err("for another event");
                }
                if of.len() != 2 || text.is_empty() || text.chars().count() > 10_000 {
                    return Err("not one context that is shown whole");
                }
                effect = ClientEffect::GoesOn;
            }
            ("continue", _) => return Err("`continue` ends the turn or is ignored"),
            _ => return Err("an unknown key, or a known one of the wrong type"),
        }
    }
    let is_whole = object.contains_key("decision") == object.contains_key("reason");
    if is_whole && !object.is_empty() { Ok(effect) } else { Err("half an answer") }
}
