//! Writes the rows of a run.

use super::run_refresh::ReadJournal;
use ralph_core::cost_reading::CostBasis;
use ralph_core::id::RunId;
use ralph_core::record::RunOrigin;
use ralph_core::text;
use ralph_tally::{DisputeEnd, RunTally};
use rusqlite::{CachedStatement, Transaction, params};

const MAX_TITLE_CHARS: usize = 300;
const MAX_REASON_CHARS: usize = 500;
const MAX_PATH_CHARS: usize = 1000;

const PUT_RUN: &str = "INSERT OR REPLACE INTO run (
    id, project, title, host, origin, branch, started_ms, last_ms, ended_ms, phase,
    status, because, iteration, max_iterations, ran_ms, max_time_ms, micro_usd, max_micro_usd, tokens, sessions,
    stops, held, policy_hash, driven, met, required, waivers, disputes, questions, denied,
    accepted_by, last_seq, question, asked_ms, question_until_ms, wait_until_ms, wait_cause, lines, damaged,
    damaged_line, cost_basis, question_approval, closed
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40,
    ?41, ?42, ?43)";
const PUT_JOURNAL: &str = "INSERT OR REPLACE INTO journal
    (run, inode, length, modified_ns, read_to, tail, tally) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const PUT_REQUIREMENT: &str = "INSERT OR REPLACE INTO run_requirement VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
const PUT_GATE: &str = "INSERT OR REPLACE INTO run_gate VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
const PUT_JUDGE: &str = "INSERT OR REPLACE INTO run_judge VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
const PUT_DAY: &str = "INSERT OR REPLACE INTO run_day VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const DROP_RUN: [&str; 6] = [
    "DELETE FROM run_requirement WHERE run = ?1",
    "DELETE FROM run_gate WHERE run = ?1",
    "DELETE FROM run_judge WHERE run = ?1",
    "DELETE FROM run_day WHERE run = ?1",
    "DELETE FROM run WHERE id = ?1",
    "DELETE FROM journal WHERE run = ?1",
];
/// The tables with several rows per run come first in `DROP_RUN`.
const ROW_TABLES: usize = 4;

/// Prepared statements for the rows of many runs.
pub(super) struct RunWriter<'a> {
    transaction: &'a Transaction<'a>,
    journal: CachedStatement<'a>,
    run: CachedStatement<'a>,
    requirement: CachedStatement<'a>,
    gate: CachedStatement<'a>,
    judge: CachedStatement<'a>,
    day: CachedStatement<'a>,
}

impl<'a> RunWriter<'a> {
    pub(super) fn new(transaction: &'a Transaction<'a>) -> rusqlite::Result<Self> {
        Ok(Self {
            transaction,
            journal: transaction.prepare_cached(PUT_JOURNAL)?,
            run: transaction.prepare_cached(PUT_RUN)?,
            requirement: transaction.prepare_cached(PUT_REQUIREMENT)?,
            gate: transaction.prepare_cached(PUT_GATE)?,
            judge: transaction.prepare_cached(PUT_JUDGE)?,
            day: transaction.prepare_cached(PUT_DAY)?,
        })
    }

    pub(super) fn drop_run(&mut self, run: &str) -> rusqlite::Result<()> {
        for sql in DROP_RUN {
            self.transaction.prepare_cached(sql)?.execute([run])?;
        }
        Ok(())
    }

    pub(super) fn put_run(&mut self, read: &ReadJournal) -> rusqlite::Result<()> {
        let (run, tally) = (read.run.as_str(), &read.tally);
        if read.is_indexed {
            for sql in &DROP_RUN[..ROW_TABLES] {
                self.transaction.prepare_cached(sql)?.execute([run])?;
            }
        }
        let position = &read.position;
        self.journal.execute(params![
            run,
            position.inode.cast_signed(),
            position.length.cast_signed(),
            position.modified_ns.cast_signed(),
            position.read_to.cast_signed(),
            position.tail,
            read.stored
        ])?;
        self.put_facts(&read.run, tally)?;
        for known in &tally.requirements.0 {
            let met = known.met_ms.map(u64::cast_signed);
            let until_met = known.met_ms.map(|_| known.open_stops);
            let dispute = tally.disputed.latest(&known.name);
            self.requirement.execute(params![
                run,
                name(&known.name),
                name(&known.stage),
                known.held_stops,
                known.open_stops,
                known.first_open_ms.cast_signed(),
                met,
                until_met,
                known.waived,
                known.disputed,
                known.findings_max,
                dispute.and_then(|dispute| dispute.end).map(DisputeEnd::name),
                dispute.and_then(|dispute| dispute.ended_ms).map(u64::cast_signed),
                dispute.and_then(|dispute| dispute.by.as_deref()).map(name)
            ])?;
        }
        for gate in &tally.gates.gates {
            self.gate.execute(params![
                run,
                name(&gate.name),
                name(&gate.site),
                gate.results,
                gate.executed,
                gate.cached,
                gate.passed,
                gate.failed,
                gate.no_result,
                gate.flaky,
                gate.took_ms.cast_signed(),
                gate.saved_ms.cast_signed(),
                gate.longest_ms.cast_signed(),
                gate.tests
            ])?;
        }
        self.put_judges(run, tally)?;
        for day in &tally.days {
            let (spent, tokens) = (day.micro_usd.cast_signed(), day.tokens.cast_signed());
            self.day.execute(params![run, day.day, spent, tokens, day.stops, day.held])?;
        }
        Ok(())
    }

    fn put_judges(&mut self, run: &str, tally: &RunTally) -> rusqlite::Result<()> {
        for judge in &tally.judges.0 {
            self.judge.execute(params![
                run,
                name(&judge.name),
                name(&judge.kind),
                judge.verdicts,
                judge.cached,
                judge.met,
                judge.unmet,
                judge.impossible,
                judge.no_verdict,
                judge.misquoted,
                judge.unconfirmed,
                judge.calls,
                judge.tokens.cast_signed(),
                judge.micro_usd.map(u64::cast_signed),
                judge.took_ms.cast_signed()
            ])?;
        }
        Ok(())
    }

    fn put_facts(&mut self, run: &RunId, tally: &RunTally) -> rusqlite::Result<()> {
        let limits = tally.limits.as_ref();
        let asked = tally.asked.as_ref();
        let wait_until_ms = tally.wait.as_ref().map(|wait| wait.until_ms);
        let waits = tally.wait.as_ref().map(|wait| wait.cause.name());
        let declared = tally.declared_wait_ms.map(|_| "declared wait");
        self.run.execute(params![
            run.as_str(),
            text::clean_line(&tally.project, MAX_PATH_CHARS),
            text::clean_line(&tally.title, MAX_TITLE_CHARS),
            name(&tally.host),
            origin_name(tally.origin, run),
            tally.branch.as_deref().map(name),
            tally.started_ms.cast_signed(),
            tally.last_ms.cast_signed(),
            tally.ended_ms.map(u64::cast_signed),
            tally.phase_name(),
            tally.status(),
            text::clean_line(&tally.because, MAX_REASON_CHARS),
            tally.iteration,
            limits.and_then(|limits| limits.max_iterations),
            tally.ran_ms.cast_signed(),
            limits.and_then(|limits| limits.max_duration_ms).map(u64::cast_signed),
            tally.spend.micro_usd().map(u64::cast_signed),
            limits.and_then(|limits| limits.max_cost_micro_usd).map(u64::cast_signed),
            tally.spend.tokens().map(u64::cast_signed),
            tally.spend.sessions,
            tally.stops,
            tally.held,
            tally.policy_hash.as_deref().map(name),
            tally.driven,
            tally.met,
            tally.required,
            i64::try_from(tally.waivers.len()).unwrap_or(i64::MAX),
            tally.disputes,
            tally.questions,
            tally.denied,
            tally.accepted_by.as_deref().map(name),
            tally.last_seq.cast_signed(),
            asked.map(|asked| text::clean_line(&asked.question, MAX_REASON_CHARS)),
            asked.map(|asked| asked.at_ms.cast_signed()),
            asked.and_then(|asked| asked.until_ms).map(u64::cast_signed),
            wait_until_ms.or(tally.declared_wait_ms).map(u64::cast_signed),
            waits.or(declared),
            tally.lines.cast_signed(),
            tally.damaged.cast_signed(),
            tally.first_damaged.map(u64::cast_signed),
            // Before the first reading there is no cost to have a basis.
            tally.spend.micro_usd().map_or(CostBasis::Unknown, |_| tally.spend.cost_basis()).name(),
            asked.and_then(|asked| asked.approval.as_deref()).map(name),
            tally.closed
        ])?;
        Ok(())
    }
}

fn name(text: &str) -> String {
    text::clean_line(text, MAX_TITLE_CHARS)
}

/// A journal whose first line is damaged has no origin.
fn origin_name(origin: Option<RunOrigin>, run: &RunId) -> &'static str {
    match origin {
        Some(RunOrigin::Adopted) => "adopted",
        Some(RunOrigin::Session) => "session",
        None if run.is_of_session() => "session",
        Some(RunOrigin::Started) | None => "started",
    }
}
