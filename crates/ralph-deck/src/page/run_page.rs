//! One run: how it stands, what that rests on, and how it got there.

use super::board_row::{BoardRow, clean_paragraph};
use super::changed_file_hints::{HintedRun, changed_file_hints};
use super::checkpoint_reader::CheckpointReader;
use super::cost_rows::{CostRow, cost_rows};
use super::curves::{CurvePoint, context_curve, context_points, spend_curve, spend_points};
use super::gate_history::{GateHistoryRow, gate_history};
use super::judge_history::{JudgeHistoryRow, judge_history, judged_count};
use super::look_first::{
    LookFirst, LookFirstContext, LookFirstKind, look_first_line, run_look_first,
};
use super::proof_table::{ProofTable, proof_table};
use super::requirement_matrix::{RequirementMatrix, requirement_matrix};
use super::run_sessions::{
    HandoverRow, QuestionRow, SessionRow, handover_rows, question_rows, session_rows,
};
use super::run_standing::{Attention, RunStanding};
use super::timeline::{TimelineRow, stop_reason, timeline};
use crate::json_units;
use crate::view::decisions::journal_damage_text;
use crate::view::next_step::next_step;
use ralph_core::id::RunId;
use ralph_core::record::{JournalEntry, MeasuredSite, RunChange, RunRecord, StopRecord};
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_home::goal_file;
use ralph_home::journal::JournalDamage;
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control::ControlError;
use ralph_hook::overview::{self, DecisionHistory, RunView};
use ralph_install::doctor::protection::find_unprotected;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use serde::Serialize;

/// The next step if the journal was edited.
const UNTRUSTED_NEXT: &str =
    "do not rely on this result: review the work yourself, or run it again";

const LONGEST_GOAL: usize = 20_000;
const LONGEST_LINE: usize = 600;
/// More columns are joined. A screen that is narrower shows the last ones.
const MAX_COLUMNS: usize = 200;
const MAX_POINTS: usize = 600;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunPage {
    pub v: u8,
    #[serde(rename = "now", serialize_with = "json_units::time")]
    pub now_ms: u64,
    pub row: BoardRow,
    pub goal: String,
    /// The agent's host.
    pub host: String,
    pub owner: Option<String>,
    /// What the standing rests on, a sentence each.
    pub rests_on: Vec<String>,
    /// What a person can do next: a command or a sentence.
    pub next: Option<String>,
    pub look_first: Vec<LookFirst>,
    /// Changed files that the goal does not seem to be about: a guess from their names, made only if the goal names
    /// files.
    pub outside_goal: Vec<String>,
    /// Whether it is known which files changed, so that an empty list of changes says something.
    #[serde(skip)]
    pub are_changes_known: bool,
    pub matrix: RequirementMatrix,
    pub timeline: Vec<TimelineRow>,
    pub gates: Vec<GateHistoryRow>,
    pub judges: Vec<JudgeHistoryRow>,
    /// The latest proof.
    pub proof: Option<ProofTable>,
    /// In thousandths.
    #[serde(serialize_with = "context_points")]
    pub context: Vec<CurvePoint>,
    /// When the work is handed over, in thousandths.
    #[serde(rename = "handover_at", serialize_with = "json_units::share")]
    pub handover_at_permille: u16,
    /// In millionths of a dollar.
    #[serde(serialize_with = "spend_points")]
    pub spend: Vec<CurvePoint>,
    pub sessions: Vec<SessionRow>,
    /// What the sessions and the judges cost. The rows add up to what the run has spent.
    pub costs: Vec<CostRow>,
    pub handovers: Vec<HandoverRow>,
    pub questions: Vec<QuestionRow>,
    /// What the agent read at the last stop that was held.
    pub last_reason: Option<String>,
    /// The commit, tree and checkpoint that the last decision judged.
    pub judged_commit: Option<String>,
    pub judged_tree: Option<String>,
    pub checkpoint: Option<u32>,
    /// Why the journal is not trusted or not read to its end.
    pub damage: Option<String>,
    /// Set if something other than ralph changed the journal, so that nothing shows what the standing rests on.
    pub journal_edit: Option<&'static str>,
    /// How many of the met requirements only a claim of the agent meets.
    pub claimed: u32,
    /// How many of them only the verdict of a judge meets.
    pub judged: u32,
}

impl RunPage {
    /// The deadline limits how long git may list the changed files; the rest is read without git.
    pub fn load(
        env: &Env,
        home: &RalphHome,
        run: &RunId,
        now_ms: u64,
        deadline: &Deadline,
    ) -> Result<Self, ControlError> {
        let view = RunView::new(home, store::load_run(home, run)?);
        let history = overview::run_history(home, run)?;
        Ok(Self::of_history(env, home, &view, &history, now_ms, deadline))
    }

    /// The page of a run whose files were read.
    pub(crate) fn of_history(
        env: &Env,
        home: &RalphHome,
        view: &RunView,
        history: &DecisionHistory,
        now_ms: u64,
        deadline: &Deadline,
    ) -> Self {
        let entries = &history.entries;
        let (record, state) = (&view.opened.run, &view.opened.state);
        let mut row = BoardRow::of_view(home, view, Some(entries), now_ms);
        let unprotected = find_unprotected(env, home, std::slice::from_ref(view));
        if let Some(Some(why)) = unprotected.first() {
            row.mark_unprotected(why, now_ms);
        }
        let goal = read_goal_text(home, record);
        let sessions = session_rows(entries);
        let owner = state.owner(record).map(ToString::to_string);
        let questions = question_rows(entries);
        let journal_edit = history.broken.as_ref().and_then(describe_edit);
        let mut look_first = row_look_first(&row, &questions, history);
        let goal_edit = goal_file::find_goal_edit(home, record);
        let goal_edit =
            goal_edit.map(|edit| look_first_line(LookFirstKind::Tampering, &edit, None));
        look_first.extend(goal_edit);
        let judged = latest_stop(entries, |decided| decided.judged.is_some())
            .and_then(|decided| decided.judged.as_ref());
        let proof = latest_stop(entries, |decided| decided.proof.is_some());
        let next = match journal_edit {
            Some(_) => Some(UNTRUSTED_NEXT.to_string()),
            None => next_step(record, state, view.phase, entries),
        };
        let mut page = Self {
            v: 1,
            now_ms,
            goal: clean_paragraph(&goal, LONGEST_GOAL),
            host: ralph_host::recorded_host(&record.host).name.to_string(),
            rests_on: match journal_edit {
                Some(edit) => vec![format!("not known: {edit}")],
                None => row.acceptance_sentence().into_iter().chain(rests_on(entries)).collect(),
            },
            next,
            look_first,
            outside_goal: Vec::new(),
            are_changes_known: false,
            matrix: requirement_matrix(entries, MAX_COLUMNS),
            timeline: timeline(entries),
            gates: gate_history(entries),
            judges: judge_history(entries),
            proof: proof.and_then(proof_table),
            context: context_curve(entries, MAX_POINTS),
            handover_at_permille: state.limits(record).handover_at_permille,
            spend: spend_curve(entries, MAX_POINTS),
            handovers: handover_rows(&home.run(&record.id), sessions.len()),
            costs: cost_rows(entries, &sessions, owner.as_deref()),
            owner,
            sessions,
            questions,
            last_reason: latest_reason(entries),
            judged_commit: judged.map(|judged| text::clean_line(&judged.commit, LONGEST_LINE)),
            judged_tree: judged.map(|judged| text::clean_line(&judged.tree, LONGEST_LINE)),
            checkpoint: judged.map(|judged| judged.checkpoint),
            damage: history.broken.as_ref().map(journal_damage_text),
            journal_edit,
            claimed: state.report.as_ref().map_or(0, |report| report.claimed),
            judged: latest_stop(entries, |decided| decided.report.is_some())
                .map_or(0, judged_count),
            row,
        };
        page.add_changed_files(home, record, deadline);
        page
    }

    /// Names changed tests and settings, and files outside the goal.
    fn add_changed_files(&mut self, home: &RalphHome, record: &RunRecord, deadline: &Deadline) {
        let changed = CheckpointReader::open(home, &record.id, *deadline)
            .and_then(|reader| reader.files_changed_until(self.checkpoint));
        let about = HintedRun {
            goal: &self.goal,
            seal: record.seal.as_deref(),
            rests_on_new_tests: self.proof.as_ref().is_some_and(ProofTable::has_telling_tests),
            look_first: &self.look_first,
        };
        let hints = changed_file_hints(&about, changed);
        self.are_changes_known = hints.is_complete;
        self.look_first.extend(hints.look_first);
        self.look_first.sort_by_key(|one| one.kind);
        self.outside_goal = hints.outside_goal;
    }

    /// What to look at first, on a screen that shows the open question by itself.
    pub fn look_first_without_question(&self) -> impl Iterator<Item = &LookFirst> {
        let is_shown = self.row.question.is_some();
        self.look_first.iter().filter(move |one| !(is_shown && one.kind == LookFirstKind::Question))
    }

    /// The standing in words, and why it cannot be trusted: `verified, but the journal was edited`.
    pub fn headline(&self) -> String {
        let label = self.row.headline();
        match self.journal_edit {
            Some(edit) => format!("{label}, but {edit}"),
            None => label,
        }
    }

    /// The attention that the run needs: after an edit of the journal, a good end needs a person too.
    pub fn attention(&self) -> Attention {
        let attention = self.row.standing.attention();
        let is_good = matches!(attention, Attention::Done | Attention::Unproven);
        if is_good && self.journal_edit.is_some() { Attention::Broken } else { attention }
    }
}

/// What to look at first, from the journal and the row of a run.
fn row_look_first(
    row: &BoardRow,
    questions: &[QuestionRow],
    history: &DecisionHistory,
) -> Vec<LookFirst> {
    let ended_asking = row.standing == RunStanding::Ended(RunStatus::NeedsHuman);
    let last = questions.last().filter(|asked| ended_asking && asked.answer.is_none());
    let asked = row.question.as_ref().map(|question| question.text.as_str());
    let asked = asked.or_else(|| last.map(|asked| asked.question.as_str()));
    run_look_first(
        &history.entries,
        &LookFirstContext {
            standing: row.standing,
            note: row.note.as_deref(),
            question: asked,
            journal_edit: history.broken.as_ref().filter(|damage| damage.is_edit()),
        },
    )
}

/// The goal of a run, or at least its title.
fn read_goal_text(home: &RalphHome, record: &RunRecord) -> String {
    match goal_file::read_goal(home, record).unwrap_or_default().as_slice() {
        [] => record.title.clone(),
        bytes => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn describe_edit(damage: &JournalDamage) -> Option<&'static str> {
    match damage {
        JournalDamage::BrokenChain { .. } => Some("the journal was edited"),
        JournalDamage::Missing => Some("the journal is missing"),
        JournalDamage::TornLine | JournalDamage::NewerFormat { .. } => None,
    }
}

/// How many requirements of a run are met, and what that rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetCount {
    pub met: u32,
    pub all: u32,
    pub claimed: u32,
    pub judged: u32,
}

impl MetCount {
    /// `6 of 6 requirements met: 3 measured, 1 judged, 2 claimed`
    pub(crate) fn describe(self) -> String {
        let Self { met, all, claimed, judged } = self;
        let met_text = format!("{met} of {} met", text::count_noun(u64::from(all), "requirement"));
        let measured = met.saturating_sub(claimed).saturating_sub(judged);
        if claimed == 0 && judged == 0 {
            return met_text;
        }
        if measured == 0 && judged == 0 {
            return format!("{met_text}, none measured: all are claims");
        }
        let counts = [(measured, "measured"), (judged, "judged"), (claimed, "claimed")];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, how)| format!("{count} {how}")).collect();
        format!("{met_text}: {}", counts.join(", "))
    }
}

/// The result of the proof, if it is not a good one.
pub(crate) fn proof_text(verdict: &str) -> Option<String> {
    (verdict != "verified").then(|| format!("proof: {}", verdict.replace('_', " ")))
}

fn decisions(entries: &[JournalEntry]) -> impl DoubleEndedIterator<Item = (u64, &StopRecord)> {
    entries.iter().filter_map(|entry| {
        if let RunChange::Decided(decided) = &entry.change {
            Some((entry.at_ms, decided.as_ref()))
        } else {
            None
        }
    })
}

fn latest_stop(
    entries: &[JournalEntry],
    wanted: impl Fn(&StopRecord) -> bool,
) -> Option<&StopRecord> {
    decisions(entries).rev().map(|(_, decided)| decided).find(|decided| wanted(decided))
}

fn latest_reason(entries: &[JournalEntry]) -> Option<String> {
    entries.iter().rev().find_map(|entry| stop_reason(entries, entry.seq))
}

/// What the standing rests on, measured by ralph at the last judged stop.
fn rests_on(entries: &[JournalEntry]) -> Vec<String> {
    let stops: Vec<_> =
        decisions(entries).filter(|(_, decided)| decided.report.is_some()).collect();
    let Some((at_ms, last)) = stops.last() else {
        return vec!["No stop has been judged yet".to_string()];
    };
    let mut sentences = Vec::new();
    if let Some(report) = &last.report {
        let met = report.met_count();
        let (all, claimed, judged) = (report.total, report.claimed, judged_count(last));
        let met = MetCount { met, all, claimed, judged }.describe();
        let proof = last.proof.as_ref().and_then(|proof| proof_text(proof.verdict.name()));
        let proof = proof.map(|proof| format!("; {proof}")).unwrap_or_default();
        let at = crate::wording::local_time(*at_ms);
        let place =
            last.judged.as_ref().map(|judged| format!(" on checkpoint {}", judged.checkpoint));
        sentences.push(format!(
            "{met}{proof}, at stop {} ({at}){}",
            stops.len(),
            place.unwrap_or_default()
        ));
    }
    let has_clean = last.gates.iter().any(|gate| gate.site == MeasuredSite::Clean);
    if !last.gates.is_empty() {
        let place = if has_clean { "a clean checkout" } else { "the work tree" };
        let passed = last.gates.iter().filter(|gate| gate.outcome == "passed").count();
        let of =
            text::count_noun(u64::try_from(last.gates.len()).unwrap_or(u64::MAX), "gate result");
        sentences.push(format!("{passed} of {of} passed; measured in {place}"));
    }
    sentences.push(text::clean_line(&last.because, LONGEST_LINE));
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{RunStanding, earlier_lines};
    use crate::view::journal_log::journal_change_text;
    use ralph_core::drive::RunnerEvent;
    use ralph_core::gate::{ResultStability, TestCounts};
    use ralph_core::limits::RunLimits;
    use ralph_core::record::GateRecord;
    use ralph_core::record::{DecisionRule, StopOutcome};
    use ralph_home::journal;

    const DRIVEN: &[u8] = include_bytes!("../../../../fixtures/state/v1/driven-journal.jsonl");
    const HELD: &[u8] = include_bytes!("../../../../fixtures/state/v1/journal.jsonl");

    fn read(bytes: &[u8]) -> Vec<JournalEntry> {
        // The lines of the fixture were written by hand, so their hashes do not match.
        let read = journal::parse_journal(bytes, 0, "");
        read.entries.into_iter().chain(read.untrusted).collect()
    }

    fn show_timeline(entries: &[JournalEntry]) -> String {
        let line = |row: TimelineRow| {
            let facts = [
                row.stop.map(|stop| format!(" #{stop}")),
                row.cost_micro_usd.map(|cost| format!(" +{cost}")),
                row.met.zip(row.requirements).map(|(met, all)| format!(" {met}/{all}")),
            ];
            let facts: String = facts.into_iter().flatten().collect();
            format!("{} {}: {}{facts}", row.seq, row.kind.label(), row.text)
        };
        timeline(entries).into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Times are shown in the local time zone, and those of today without the date.
    fn without_times() -> impl Drop {
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(r"(\d{4}-\d\d-\d\d )?\b\d\d:\d\d:\d\d\b", "TIME");
        settings.bind_to_scope()
    }

    #[test]
    fn a_timeline_has_every_event_of_a_journal() {
        let _filter = without_times();
        insta::assert_snapshot!(show_timeline(&read(DRIVEN)), @r"
        0 started: Make the parser handle nested quotes.
        1 runner: session 5999882c starts
        2 held: tests: 2 findings, feature 4 #1 1/3
        5 runner: waits until TIME (rate limit): the five-hour limit
        6 runner: woke and continues
        7 runner: silent for 10 min; the agent was asked for a sign of life
        8 runner: silent for 10 min; the agent was restarted
        9 runner: broke off killed by signal 9
        10 runner: session 5999882c resumes
        11 held: tests: 2 findings, as before, feature 4 #2 +1840000 1/3
        12 runner: tries a fresh session: nothing moved
        13 hand-over: the context is 80 % full, 1 not met #3 +0 2/3
        15 hand-over: session 6a0b1c2d takes over
        16 runner: session 6a0b1c2d starts as a fork
        17 let go: all 3 requirements are met #4 +0 3/3
        18 runner: kept as `ralph/k7f2`
        19 runner: waits until TIME (declared wait): the nightly build
        20 runner: parked as rate limited: the limit is lifted at 6
        21 runner: passed on a person's message
        22 runner: checks instead of waiting again: the build is still running
        23 runner: granted 6 h of waiting for limits
        25 asks: keep the old routes?
        ");
        insta::assert_snapshot!(show_timeline(&read(HELD)), @r#"
        0 started: Make the parser handle nested quotes.
        1 held: tests: 2 findings, audit: no result #1 2/4
        3 let go: 1 background task pending: shell "build"
        4 runner: the turn was cut short by a rate limit
        5 person: paused
        6 person: resumed
        7 let go: the process that owned the run is gone
        8 person: resumed
        9 held: tests 2 → 1, audit done #2 3/4
        10 ended: needs review: all 4 requirements are met after 2 iterations and 8 min, but ralph's own files were changed on the way #3 4/4
        "#);
    }

    /// A page of earlier lines has the reason of every stop, also beyond those that the page of the run has.
    #[test]
    fn every_one_of_120_stops_has_what_the_agent_read() {
        let entry = |seq: u64| {
            let reason = format!("reason {seq}");
            let stop = StopRecord::new(
                DecisionRule::Block,
                StopOutcome::Blocked { reason },
                String::new(),
            );
            JournalEntry {
                by: None,
                v: ralph_core::record::FORMAT_VERSION,
                seq,
                at_ms: seq,
                prev: String::new(),
                iteration: 0,
                after: String::new(),
                change: RunChange::Decided(Box::new(stop)),
            }
        };
        let entries: Vec<_> = (1..=120).map(entry).collect();
        let (mut before, mut pages, mut read) = (u64::MAX, Vec::new(), Vec::new());
        loop {
            let lines = earlier_lines(&entries, before, 50);
            pages.push((lines.rows.len(), lines.left_out));
            read.extend(lines.rows.iter().rev().map(|row| row.reason.clone().unwrap()));
            match lines.rows.first() {
                Some(first) if lines.left_out > 0 => before = first.seq,
                _ => break,
            }
        }
        assert_eq!(pages, [(50, 70), (50, 20), (20, 0)]);
        let expected: Vec<_> = (1..=120).rev().map(|seq| format!("reason {seq}")).collect();
        assert_eq!(read, expected);
        let with_reason = timeline(&entries).iter().filter(|row| row.reason.is_some()).count();
        assert_eq!(with_reason, 50);
    }

    /// The journal of a real run, whose chain is unbroken.
    #[test]
    fn a_recorded_run_has_its_proof_and_its_disputes() {
        const JUDGED: &[u8] = include_bytes!("../../../../fixtures/state/v2/judged-journal.jsonl");
        let _filter = without_times();
        let read = journal::parse_journal(JUDGED, 0, "");
        assert_eq!((read.untrusted.len(), read.damage), (0, None));
        let entries = read.entries;
        insta::assert_snapshot!(show_timeline(&entries), @"
        0 started: Let add.sh add any number of arguments, and print `none` without any.
        1 held: suite: 2 findings, lint: 1 finding, notes: 1 finding, 17 more #1 4/30
        2 held: suite: 2 findings, as before, lint: 1 finding, as before, notes: 1 finding, as before, 17 more #2 4/30
        3 agent: disputes lint (met later): the note is only a reminder
        4 agent: disputes suite (met later): zero.sh wants the old output
        5 message: zero.sh may change: without arguments the output is none (by ada)
        6 person: waived lint until TIME, by ada: the note may stay
        7 held: message from a person, suite 2 → 1, notes: 1 finding, as before, 1 more, sum-1 done, sum-2 done, sum-3 done #3 26/30
        8 held: notes: 1 finding, as before, review: not reached, message from a person done, suite done #4 28/30
        9 person: revoked the waiver of lint
        10 ended: verified: all 55 requirements are met after 4 iterations and 12 s, 1 of them by the judge review; 1 old test and 1 check pass on the new code; 2 tests and 23 checks fail without the change; allowed to change: tests/zero.sh #5 +4200 55/55
        ");
        let table = latest_stop(&entries, |decided| decided.proof.is_some()).and_then(proof_table);
        let rows = table.unwrap().rows;
        let rows: Vec<_> = rows.iter().map(|row| format!("{} {}", row.name, row.result)).collect();
        insta::assert_snapshot!(rows.join("\n"), @"
        T0 1 of 25 gates passed, 2 tests, 1 failed
        T1 25 of 25 gates passed, 3 tests
        T2 2 of 2 old tests pass
        T3 25 tests fail without the change
        ");
        let first = super::super::look_first::look_first(&entries);
        let first: Vec<_> =
            first.iter().map(|one| format!("{}: {}", one.kind.label(), one.text)).collect();
        insta::assert_snapshot!(first.join("\n"), @"
        an old test was changed: tests/zero.sh was allowed to change
        waived: lint waived by ada: the note may stay
        disputed by the agent: lint (met later): the note is only a reminder
        disputed by the agent: suite (met later): zero.sh wants the old output
        ");
        let gates = gate_history(&entries);
        let lint: Vec<_> = gates.iter().filter(|gate| gate.name == "lint").collect();
        let counts: Vec<_> =
            lint.iter().map(|gate| (gate.site, gate.executed, gate.flaky)).collect();
        assert_eq!(counts, [(MeasuredSite::Tree, 4, 1), (MeasuredSite::Clean, 1, 0)]);
    }

    #[test]
    fn sessions_have_their_cost_and_their_end() {
        let _filter = without_times();
        insta::assert_debug_snapshot!(session_rows(&read(DRIVEN)), @r#"
        [
            SessionRow {
                number: 1,
                session: "5999882c-e786-462c-84d4-07d1c65b5e76",
                model: Some(
                    "sonnet",
                ),
                started_ms: 1790000060000,
                turns: 3,
                tokens: 340000,
                micro_usd: 1820000,
                gates_micro_usd: 20000,
                is_assumed: true,
                handed_over: Some(
                    "the context is 80 % full, 1 not met",
                ),
                context_permille: Some(
                    801,
                ),
            },
            SessionRow {
                number: 2,
                session: "6a0b1c2d-e786-462c-84d4-07d1c65b5e76",
                model: None,
                started_ms: 1790000960000,
                turns: 0,
                tokens: 0,
                micro_usd: 0,
                gates_micro_usd: 0,
                is_assumed: false,
                handed_over: None,
                context_permille: None,
            },
        ]
        "#);
        insta::assert_debug_snapshot!(spend_curve(&read(DRIVEN), 10), @r"
        [
            CurvePoint {
                at_ms: 1790000180000,
                value: 1820000,
            },
            CurvePoint {
                at_ms: 1790000240000,
                value: 1840000,
            },
        ]
        ");
    }

    #[test]
    fn an_action_of_a_person_has_their_name() {
        let limits = RunLimits { max_iterations: Some(7), ..RunLimits::DEFAULT };
        let changes = [
            RunChange::Paused,
            RunChange::Resumed,
            RunChange::WaiverRevoked { requirement: "tests".to_string() },
            RunChange::Limited(limits),
            RunChange::Cancelled,
        ];
        let first = read(DRIVEN).remove(0);
        let named = |by: Option<&str>| {
            let by = by.map(str::to_string);
            let entries: Vec<_> = (0..)
                .zip(changes.clone())
                .map(|(seq, change)| JournalEntry { seq, change, by: by.clone(), ..first.clone() })
                .collect();
            let log = entries.iter().map(|entry| journal_change_text(entry, &[]));
            let log = log.collect::<Vec<_>>().join("\n");
            format!("{}\n\n{log}", show_timeline(&entries))
        };
        insta::assert_snapshot!(named(Some("kim")), @"
        0 person: paused, by kim
        1 person: resumed, by kim
        2 person: revoked the waiver of tests, by kim
        3 person: set limits: 7 iterations · 8 h · $20 · stuck at the 3rd stop without progress, by kim
        4 ended: cancelled, by kim

        paused     by kim
        resumed    by kim
        unwaived   tests is required again, by kim
        limits     7 iterations · 8 h · $20 · stuck at the 3rd stop without progress, by kim
        cancelled  by kim
        ");
        insta::assert_snapshot!(named(None), @"
        0 person: paused
        1 person: resumed
        2 person: revoked the waiver of tests
        3 person: set limits: 7 iterations · 8 h · $20 · stuck at the 3rd stop without progress
        4 ended: cancelled

        paused
        resumed
        unwaived   tests is required again
        limits     7 iterations · 8 h · $20 · stuck at the 3rd stop without progress
        cancelled
        ");
    }

    /// Without the link, the answer belongs to the last question.
    #[test]
    fn an_answer_belongs_to_the_question_that_it_names() {
        let asked = |text: &str| RunChange::Asked { question: text.to_string() };
        let told = |answers: Option<u64>| RunChange::HintGiven {
            text: "MIT".to_string(),
            by: Some("kim".to_string()),
            answers,
        };
        let first = read(DRIVEN).remove(0);
        let answers = |answers: Option<u64>| {
            let changes = [asked("which licence?"), asked("which port?"), told(answers)];
            let entries: Vec<_> = (3..)
                .zip(changes)
                .map(|(seq, change)| JournalEntry { seq, change, ..first.clone() })
                .collect();
            let rows = question_rows(&entries).into_iter();
            rows.map(|row| (row.question, row.answer)).collect::<Vec<_>>()
        };
        let (licence, port) = ("which licence?".to_string(), "which port?".to_string());
        let mit = || Some("MIT".to_string());
        assert_eq!(answers(Some(3)), [(licence.clone(), mit()), (port.clone(), None)]);
        assert_eq!(answers(Some(4)), [(licence.clone(), None), (port.clone(), mit())]);
        assert_eq!(answers(None), [(licence, None), (port, mit())]);
    }

    /// A question is one line, although the stop and the runner record it again; asked again after an answer, it is two.
    #[test]
    fn a_question_is_shown_once() {
        let question = || "keep the old routes?".to_string();
        let mut stop = read(HELD).into_iter().find_map(|entry| {
            if let RunChange::Decided(decided) = entry.change { Some(decided) } else { None }
        });
        let stop = stop.as_mut().unwrap();
        stop.rule = DecisionRule::NeedsHuman;
        stop.outcome = StopOutcome::Allowed;
        stop.because = question();
        stop.report = None;
        let asks = || {
            let event = RunnerEvent::AsksPerson { question: question(), until_ms: 9 };
            RunChange::Drove(Box::new(event))
        };
        let changes = [
            RunChange::Asked { question: question() },
            RunChange::Decided(stop.clone()),
            asks(),
            RunChange::HintGiven { text: "yes".to_string(), by: None, answers: None },
            asks(),
        ];
        let first = read(DRIVEN).remove(0);
        let entries: Vec<_> = (0..)
            .zip(changes)
            .map(|(seq, change)| JournalEntry { seq, change, ..first.clone() })
            .collect();
        insta::assert_snapshot!(show_timeline(&entries), @r"
        0 asks: keep the old routes?
        1 let go: until a person answers
        3 message: yes
        4 asks: keep the old routes?
        ");
    }

    #[test]
    fn a_run_that_stopped_shows_what_it_needs() {
        use ralph_core::status::RunStatus::{NeedsHuman, Stuck, Verified};
        let entries = read(HELD);
        let question = "keep the old routes?";
        let show = |standing, question, journal_edit| {
            let note = Some("no progress for 3 stops");
            let context = LookFirstContext { standing, note, question, journal_edit };
            let found = run_look_first(&entries[..2], &context);
            let line = |one: &LookFirst| format!("{:?} {:?}: {}\n", one.kind, one.stop, one.text);
            found.iter().map(line).collect::<String>()
        };
        let edit = JournalDamage::BrokenChain { line: 3 };
        let shown = [
            show(RunStanding::Ended(Stuck), None, None),
            show(RunStanding::Ended(NeedsHuman), Some(question), None),
            show(RunStanding::Parked(NeedsHuman), None, None),
            show(RunStanding::Ended(Verified), None, None),
            show(RunStanding::Working, None, None),
            show(RunStanding::Ended(Verified), None, Some(&edit)),
        ];
        insta::assert_snapshot!(shown.join("--\n"), @"
        Unmet Some(1): tests: 2 of 148 failed
        Unmet Some(1): audit: timed out after 5 min
        Halted None: no progress for 3 stops
        --
        Question None: keep the old routes?
        Unmet Some(1): tests: 2 of 148 failed
        Unmet Some(1): audit: timed out after 5 min
        --
        Unmet Some(1): tests: 2 of 148 failed
        Unmet Some(1): audit: timed out after 5 min
        Waits None: no progress for 3 stops
        --
        --
        --
        JournalEdit None: the journal was edited: line 3 does not continue the one before it
        ");
    }

    #[test]
    fn a_green_run_says_first_why_it_is_not_verified() {
        let note = Some("all 2 requirements are met; no test fails without the change");
        let standing = RunStanding::Ended(ralph_core::status::RunStatus::Green);
        let context = LookFirstContext { standing, note, question: None, journal_edit: None };
        let found = run_look_first(&read(HELD)[..2], &context);
        let shown: Vec<_> =
            found.iter().map(|one| format!("{}: {}", one.kind.label(), one.text)).collect();
        insta::assert_snapshot!(shown.join("\n"), @"why it is not verified: all 2 requirements are met; no test fails without the change");
    }

    #[test]
    fn claims_and_a_failed_proof_are_counted_apart() {
        let met = |claimed, judged| MetCount { met: 6, all: 6, claimed, judged }.describe();
        insta::assert_snapshot!(met(0, 0), @"6 of 6 requirements met");
        insta::assert_snapshot!(met(1, 0), @"6 of 6 requirements met: 5 measured, 1 claimed");
        insta::assert_snapshot!(met(6, 0), @"6 of 6 requirements met, none measured: all are claims");
        insta::assert_snapshot!(met(0, 2), @"6 of 6 requirements met: 4 measured, 2 judged");
        insta::assert_snapshot!(met(4, 2), @"6 of 6 requirements met: 2 judged, 4 claimed");
        assert_eq!(proof_text("verified"), None);
        assert_eq!(proof_text("needs_review").as_deref(), Some("proof: needs review"));
    }

    fn show_matrix(matrix: &RequirementMatrix) -> String {
        use super::super::CellState;
        let columns = matrix.columns.iter();
        let columns = columns.map(|column| format!("{}-{}", column.first, column.last));
        let mut lines = vec![format!("stops {}", columns.collect::<Vec<_>>().join(" "))];
        lines.extend(matrix.rows.iter().map(|row| {
            let cells = row.cells.iter().map(|cell| match cell.state {
                CellState::NotReached => ".".to_string(),
                CellState::Met => "met".to_string(),
                CellState::Advisory => "advisory".to_string(),
                CellState::Pending => "pending".to_string(),
                CellState::AwaitsPerson => "awaits".to_string(),
                CellState::Unknown => "unknown".to_string(),
                CellState::Unmet => format!("unmet:{}", cell.findings),
            });
            let cells = cells.collect::<Vec<_>>().join(" ");
            let (name, stage, since) = (&row.name, &row.stage, row.met_since);
            format!("{name} ({stage}): {cells}; {} open, met since {since:?}", row.open_stops)
        }));
        lines.push(format!("always met: {}", matrix.always_met.join(", ")));
        lines.join("\n")
    }

    #[test]
    fn a_matrix_has_a_column_for_each_stop() {
        insta::assert_snapshot!(show_matrix(&requirement_matrix(&read(HELD), 200)), @r"
        stops 1-1 2-2 3-3
        tests (correctness): unmet:2 unmet:1 met; 2 open, met since Some(3)
        audit (security): unknown met met; 1 open, met since Some(2)
        style (quality): advisory . .; 1 open, met since None
        always met: build, feature 3
        ");
        insta::assert_snapshot!(show_matrix(&requirement_matrix(&read(HELD), 2)), @r"
        stops 1-2 3-3
        tests (correctness): unmet:2 met; 2 open, met since Some(3)
        audit (security): unknown met; 1 open, met since Some(2)
        style (quality): advisory .; 1 open, met since None
        always met: build, feature 3
        ");
    }

    /// A proof that holds is in no list of the report.
    #[test]
    fn a_proof_that_holds_is_met_once_it_was_open() {
        let stop = |seq: u64, lines: serde_json::Value, verdict: Option<&str>| {
            let proof = verdict.map(|verdict| {
                serde_json::json!({"verdict": verdict, "held": 1, "telling": 1, "broken_count": 0, "broken": [], "doubts": []})
            });
            let line = serde_json::json!({
                "v": 2, "seq": seq, "at_ms": 0, "prev": "", "iteration": 0, "change": {"decided": {
                    "rule": "block", "outcome": "allowed", "because": "", "took_ms": 1, "proof": proof,
                    "report": {"total": 2, "unmet": 1, "unknown": 0, "failures": "0000000000000000", "lines": lines, "met": ["tests"]},
                }},
            });
            serde_json::from_value::<JournalEntry>(line).unwrap()
        };
        let open = |name: &str| serde_json::json!([{"name": name, "stage": "correctness", "standing": "unmet", "note": "", "findings": 0, "signature": "0000000000000000"}]);
        let entries = [
            stop(1, open("proof"), Some("green")),
            stop(2, open("review"), Some("verified")),
            stop(3, open("review"), None),
            stop(4, serde_json::json!([]), Some("verified")),
        ];
        insta::assert_snapshot!(show_matrix(&requirement_matrix(&entries, 200)), @r"
        stops 1-1 2-2 3-3 4-4
        proof (correctness): unmet:0 met . met; 1 open, met since Some(2)
        review (correctness): . unmet:0 unmet:0 .; 2 open, met since None
        always met: tests
        ");
        // The run ended although the proof was not good, so that it held nothing.
        let ended = [entries[0].clone(), stop(2, serde_json::json!([]), Some("green"))];
        insta::assert_snapshot!(show_matrix(&requirement_matrix(&ended, 200)), @"
        stops 1-1 2-2
        proof (correctness): unmet:0 unmet:0; 2 open, met since None
        always met: tests
        ");
        let never_open = &entries[3..];
        insta::assert_snapshot!(show_matrix(&requirement_matrix(never_open, 200)), @r"
        stops 1-1
        always met: tests
        ");
    }

    /// A forged journal may have any numbers; a screen shows the greatest possible instead of failing.
    #[test]
    fn numbers_of_a_journal_do_not_overflow() {
        let record = |name: &str, site: MeasuredSite, cached: bool| GateRecord {
            name: name.to_string(),
            site,
            outcome: "failed".to_string(),
            took_ms: u64::MAX,
            cached,
            steadiness: ResultStability::Flaky,
            findings: u32::MAX,
            tests: Some(TestCounts { run: u32::MAX, failed: u32::MAX, skipped: u32::MAX }),
            coverage: None,
            changed_coverage: None,
            key: String::new(),
            log: None,
        };
        let mut entries = read(DRIVEN);
        for entry in &mut entries {
            if let RunChange::Decided(decided) = &mut entry.change {
                let gates = [("a", false), ("b", false), ("a", true), ("a", true)];
                decided.gates =
                    gates.map(|(name, cached)| record(name, MeasuredSite::Tree, cached)).into();
            } else if let RunChange::Drove(drove) = &mut entry.change
                && let RunnerEvent::Metered(metered) = drove.as_mut()
            {
                metered.micro_usd = u64::MAX;
            }
        }
        let gate = gate_history(&entries).remove(0);
        let shown = [
            ("time of a gate", Some(gate.took_ms)),
            ("saved by the cache", Some(gate.saved_ms)),
            ("gates of a stop", timeline(&entries).iter().find_map(|row| row.gates_ms)),
            ("spent", spend_curve(&entries, 10).last().map(|point| point.value)),
        ];
        for (name, value) in shown {
            assert_eq!(value, Some(u64::MAX), "{name}");
        }
    }

    #[test]
    fn an_edit_of_ralphs_files_is_looked_at_first() {
        let _filter = without_times();
        insta::assert_debug_snapshot!(super::super::look_first::look_first(&read(HELD)), @r#"
        [
            LookFirst {
                kind: Tampering,
                text: "`run.json` was changed after the start",
                stop: Some(
                    2,
                ),
            },
        ]
        "#);
        insta::assert_debug_snapshot!(rests_on(&read(HELD)), @r#"
        [
            "4 of 4 requirements met, at stop 3 (TIME)",
            "all 4 requirements are met after 2 iterations and 8 min, but ralph's own files were changed on the way",
        ]
        "#);
    }
}
