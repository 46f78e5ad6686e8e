//! Benchmarks the run index: building it, refreshing it, and the queries that the screens make.

use super::BenchRace;
use super::budget::BudgetResult;
use super::journal_corpus::{self, LONG_RUN, LONG_RUN_LINES};
use super::race::{self, BenchRacer, RacerPace, RacerProof, RacerSetup};
use super::served_board::{ServedBoard, peak_mib};
use crate::shell::{self, RacerCommand};
use crate::{BenchOutputOptions, disk};
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

const LINES_PER_RUN: u64 = 200;
/// The size that the figures of the documentation are about.
const DOCUMENTED_LINES: u64 = 1_000_000;
/// `jq` reads only this share of the journals: it takes a minute for all of them.
const JQ_SHARE: u64 = 20;

const TRUE: &str = "/bin/true";
const COUNT_LINES: &str = "wc -l, all journals";
const JQ: &str = "jq -c ., a twentieth of them";
const BUILD: &str = "ralph sql, builds the index";
const APPENDED: &str = "ralph sql, after one more line";
const BOARD: &str = "ralph sql, open runs";
const PAGE: &str = "ralph sql, a page of the history";
const FILTERED: &str = "ralph sql, a filtered page";
const STATS: &str = "ralph sql, requirements, gates and weeks";
const BOARD_SCREEN: &str = "ralph watch --once";
const STATS_SCREEN: &str = "ralph stats --all --json";
const STATUS: &str = "ralph status";
const STATUS_RUN: &str = "ralph status RUN, 10,000 stops";
const WHY: &str = "ralph why --all";
const RUN_SCREEN: &str = "ralph watch RUN --once, 10,000 stops";
const REPORT: &str = "ralph report RUN --json, 10,000 stops";
const JQ_RUN: &str = "jq -c ., its journal";

const BOARD_QUERY: &str = "SELECT * FROM run WHERE ended_ms IS NULL AND origin <> 'session'
    ORDER BY status = 'asks' DESC, last_ms DESC";
const PAGE_QUERY: &str = "SELECT * FROM run WHERE phase = 'ended' AND origin <> 'session'
    ORDER BY coalesce(ended_ms, last_ms) DESC, id DESC LIMIT 50";
const FILTERED_QUERY: &str =
    "SELECT * FROM run WHERE phase = 'ended' AND status = 'green' AND title LIKE '%quotes%'
    AND id IN (SELECT run FROM run_gate WHERE name = 'clippy' AND failed > 0) AND micro_usd > 1000000
    ORDER BY coalesce(ended_ms, last_ms) DESC, id DESC LIMIT 50";
const STATS_QUERY: &str = "SELECT 'requirement', name, count(*), sum(held_stops), avg(stops_until_met)
        FROM run_requirement JOIN run ON run.id = run GROUP BY name
    UNION ALL SELECT 'gate', name, sum(results), sum(took_ms), sum(saved_ms)
        FROM run_gate JOIN run ON run.id = run GROUP BY name
    UNION ALL SELECT 'week', strftime('%G-W%V', day), sum(run_day.micro_usd), sum(run_day.stops), sum(run_day.held)
        FROM run_day JOIN run ON run.id = run GROUP BY 2";

const SERVED_PAGES: [(&str, &str); 4] = [
    ("GET /, ralph serve", "/"),
    ("GET /history", "/history"),
    ("GET /history, filtered", "/history?q=is:green+gate:clippy+quotes"),
    ("GET /stats", "/stats"),
];
const SERVED_RUN: &str = "GET /run/RUN, 10,000 stops";

/// A build reads one journal after the other, so its memory does not grow with their number.
const MOST_BUILD_MIB: f64 = 64.0;
/// Parsing a long journal on all processors takes memory for each of them.
const MOST_SERVER_MIB: f64 = 160.0;

/// Every budget is a ratio to a command that is timed in turn with it, because the machine is not known. 200 ms for a
/// screen is 40 times the start of a process on a slow machine, where that takes 5 ms.
fn check_deck_budgets(racers: &[BenchRacer]) -> Vec<BudgetResult> {
    let median = |name: &str| race::median_time(racers, name);
    let index = median(BUILD);
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let jq = median(JQ) * JQ_SHARE as f64;
    let mut judged = vec![
        BudgetResult::new("index ÷ wc -l", index / median(COUNT_LINES), 5.0),
        BudgetResult::new("20 × index ÷ jq -c .", 20.0 * index / jq, 1.0),
    ];
    for (name, most) in [
        (BOARD, 0.5),
        (PAGE, 0.5),
        (FILTERED, 0.5),
        (STATS, 0.5),
        (APPENDED, 0.5),
        (BOARD_SCREEN, 1.0),
        (STATS_SCREEN, 1.0),
        (STATUS, 1.0),
        (WHY, 1.0),
    ] {
        let what = format!("{name} ÷ wc -l");
        judged.push(BudgetResult::new(&what, median(name) / median(COUNT_LINES), most));
    }
    // The journal of one run has the same length whatever the number of others.
    for name in [STATUS_RUN, RUN_SCREEN, REPORT] {
        let what = format!("{name} ÷ jq -c .");
        judged.push(BudgetResult::new(&what, median(name) / median(JQ_RUN), 0.5));
    }
    judged
}

fn check_page_budgets(racers: &[BenchRacer]) -> Vec<BudgetResult> {
    let median = |name: &str| race::median_time(racers, name);
    let judge = |(name, _): (&str, &str)| {
        let what = format!("{name} ÷ wc -l");
        BudgetResult::new(&what, median(name) / median(COUNT_LINES), 1.0)
    };
    let mut judged = Vec::from(SERVED_PAGES.map(judge));
    let what = format!("{SERVED_RUN} ÷ jq -c .");
    judged.push(BudgetResult::new(&what, median(SERVED_RUN) / median(JQ_RUN), 0.5));
    judged
}

pub(super) struct DeckStage {
    directory: TempDir,
    ralph: PathBuf,
    runs: u64,
}

/// The index that was built once.
pub(super) struct BuiltIndex {
    pub(super) summary: String,
    pub(super) memory: BudgetResult,
}

impl DeckStage {
    /// With about as many journal lines as given, besides those of one long run.
    pub(super) fn new(ralph: PathBuf, lines: u64) -> Result<Self> {
        let target = shell::target_directory();
        let directory = tempfile::Builder::new().prefix("ralph-bench-").tempdir_in(target)?;
        Ok(Self { directory, ralph, runs: lines / LINES_PER_RUN })
    }

    /// Writes the journals.
    pub(super) fn write(&self) -> Result<String> {
        let now = shell::now().duration_since(UNIX_EPOCH)?;
        let now_ms = u64::try_from(now.as_millis())?;
        let home = self.path("home");
        let length = journal_corpus::write_journals(&home, self.runs, LINES_PER_RUN, now_ms)?;
        journal_corpus::write_long_run(&home, now_ms)?;
        disk::write_with_parents(&self.path("nothing"), b"")?;
        disk::write_file(&self.path("all"), &self.names(1)?)?;
        disk::write_file(&self.path("some"), &self.names(JQ_SHARE)?)?;
        disk::write_file(&self.path("long"), self.long_journal().as_os_str().as_encoded_bytes())?;
        let (mib, runs) = (length / (1 << 20), self.runs);
        let lines = runs * LINES_PER_RUN;
        let note = if lines == DOCUMENTED_LINES {
            ""
        } else {
            "; the documented figures are those of a million lines"
        };
        Ok(format!("{lines} lines in {runs} journals, {mib} MiB{note}"))
    }

    fn long_journal(&self) -> PathBuf {
        self.path("home/runs").join(LONG_RUN).join("journal.jsonl")
    }

    /// The paths of every `share`-th journal, separated by zero bytes. The long one is in the list of all journals only.
    fn names(&self, share: u64) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        let mut runs = disk::list(&self.path("home/runs"))?;
        runs.retain(|run| share == 1 || !run.ends_with(LONG_RUN));
        for run in runs.iter().step_by(usize::try_from(share)?) {
            names.extend(run.join("journal.jsonl").as_os_str().as_encoded_bytes());
            names.push(0);
        }
        Ok(names)
    }

    /// Builds the index once, and returns its size and the peak memory of that.
    pub(super) fn build(&self) -> Result<BuiltIndex> {
        let mut command = shell::command(Path::new(&self.ralph));
        command
            .env_clear()
            .envs(self.env())
            .args(["sql", "SELECT count(*), sum(lines), sum(damaged) FROM run"]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut peak: f64 = 0.0;
        while child.try_wait()?.is_none() {
            peak = peak.max(peak_mib(child.id()).unwrap_or(0.0));
            std::thread::park_timeout(Duration::from_millis(2));
        }
        let output = child.wait_with_output()?;
        let found = String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .skip(3)
            .collect::<Vec<_>>()
            .join(" ");
        let expected =
            format!("{} {} 0", self.runs + 1, self.runs * LINES_PER_RUN + LONG_RUN_LINES);
        ensure!(found == expected, "the index has `{found}` instead of `{expected}`");
        let index = disk::file_length(&self.path("home/index/runs.sqlite"))? / (1 << 20);
        Ok(BuiltIndex {
            summary: format!("an index of {index} MiB, built with at most {peak:.0} MiB of memory"),
            memory: BudgetResult::new("MiB of memory to build the index", peak, MOST_BUILD_MIB),
        })
    }

    pub(super) fn contest(&self, rounds: u32) -> Result<BenchRace> {
        let show = |name: &str, args: &[&str]| {
            let args = args.iter().map(OsString::from).collect();
            let command = self.command(self.ralph.clone(), args, "nothing");
            BenchRacer::new(name, command, RacerProof::Exit(0))
        };
        let ask = |name: &str, query: &str| show(name, &["sql", query]);
        let mut built = ask(BUILD, "SELECT count(*) FROM run");
        built.setup = RacerSetup::Remove(self.path("home/index/runs.sqlite"));
        let mut jq = self.read(JQ, "jq", &["-c", "."], "some")?;
        jq.pace = RacerPace::EveryRound;
        let mut appended = ask(APPENDED, "SELECT count(*) FROM run");
        let journal = self.path("home/runs/r00001/journal.jsonl");
        let line = disk::read_text(&journal)?.lines().nth(9).context("no line")?.to_owned() + "\n";
        appended.setup = RacerSetup::Append(journal, line.into_bytes());
        let idle = self.command(TRUE.into(), Vec::new(), "nothing");
        let racers = vec![
            BenchRacer::new(TRUE, idle, RacerProof::Exit(0)),
            self.count_lines()?,
            jq,
            built,
            appended,
            ask(BOARD, BOARD_QUERY),
            ask(PAGE, PAGE_QUERY),
            ask(FILTERED, FILTERED_QUERY),
            ask(STATS, STATS_QUERY),
            show(BOARD_SCREEN, &["watch", "--once"]),
            show(STATS_SCREEN, &["stats", "--all", "--json"]),
            show(STATUS, &["status"]),
            show(WHY, &["why", "--all"]),
            self.parse_long_journal()?,
            show(STATUS_RUN, &["status", LONG_RUN]),
            show(RUN_SCREEN, &["watch", LONG_RUN, "--once"]),
            show(REPORT, &["report", LONG_RUN, "--json"]),
        ];
        Ok(BenchRace { racers, rounds, base: COUNT_LINES.to_owned(), judge: check_deck_budgets })
    }

    /// The pages of `ralph serve` over the same journals. Building the index anew would disturb them, so they have a
    /// contest of their own.
    pub(super) fn serve(
        &self,
        rounds: u32,
        manner: &BenchOutputOptions,
    ) -> Result<Vec<BudgetResult>> {
        let board = ServedBoard::start(&self.ralph, self.env(), self.directory.path())?;
        let page = |name: &str, path: &str| board.page(name, path, self.path("nothing"));
        let mut racers = vec![self.count_lines()?, self.parse_long_journal()?];
        racers.extend(SERVED_PAGES.map(|(name, path)| page(name, path)));
        racers.push(page(SERVED_RUN, &format!("/run/{LONG_RUN}")));
        let base = COUNT_LINES.to_owned();
        let contest = BenchRace { racers, rounds, base, judge: check_page_budgets };
        let mut judged = super::run_race(contest, manner)?;
        let peak = board.peak_mib()?;
        judged.push(BudgetResult::new("MiB of memory of ralph serve", peak, MOST_SERVER_MIB));
        Ok(judged)
    }

    fn count_lines(&self) -> Result<BenchRacer> {
        self.read(COUNT_LINES, "wc", &["-l"], "all")
    }

    fn parse_long_journal(&self) -> Result<BenchRacer> {
        self.read(JQ_RUN, "jq", &["-c", "."], "long")
    }

    /// A program that reads the files of a list.
    fn read(&self, name: &str, program: &str, args: &[&str], list: &str) -> Result<BenchRacer> {
        let xargs = shell::find_program("xargs").context("there is no xargs")?;
        let program = shell::find_program(program).context("a program is missing")?;
        let mut all: Vec<OsString> =
            vec!["-0".into(), "-n".into(), "100000".into(), program.into()];
        all.extend(args.iter().map(OsString::from));
        Ok(BenchRacer::new(name, self.command(xargs, all, list), RacerProof::Exit(0)))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        let home = self.path("home").into_os_string();
        vec![
            ("HOME".into(), home.clone()),
            ("RALPH_HOME".into(), home),
            ("PATH".into(), shell::path_variable()),
        ]
    }

    fn command(&self, program: PathBuf, args: Vec<OsString>, stdin: &str) -> RacerCommand {
        RacerCommand { program, args, env: self.env(), stdin: self.path(stdin) }
    }
}
