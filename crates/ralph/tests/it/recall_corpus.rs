//! Generates a corpus for `ralph recall` of any size: runs, hand-overs, learnings and memory of one project in
//! realistic vocabulary, always the same, with twenty records among them that answer known queries. Returns the files
//! without writing them. The recall benchmark of `xtask` includes this file too.

use ralph_home::journal;
use ralph_home::paths::RalphHome;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A query, and the title of the record that answers it.
pub(crate) const RECALL_QUERIES: [(&str, &str); 20] = [
    (
        "csv rows broken apart by newlines inside quotes",
        "make the CSV importer accept quoted line breaks",
    ),
    ("midnight off by an hour in summer, timezone of Vienna", "speed up the nightly report"),
    ("are we allowed to delete old invoices?", "move billing to the new provider"),
    ("force push to the release branch was denied", "clean up the deployment scripts"),
    (
        "websocket reconnects for ever when the proxy drops idle connections",
        "replace the websocket library",
    ),
    ("somebody edited the iteration count in state.json", "raise the coverage of the scheduler"),
    ("support staff seeing what the customer sees", "let administrators impersonate a customer"),
    ("halos around logos in thumbnails", "port the image pipeline to webp"),
    ("which batch size for the backfill, lock timeout", "split the user table of the monolith"),
    ("screen readers announcing suggestions with arrow keys", "rewrite the search box"),
    ("why do the integration tests hang", "Integration tests need redis"),
    ("in which order are database migrations applied", "Migrations run in alphabetical order"),
    (
        "payment rejected in the sandbox, amount too high",
        "The payment sandbox rejects amounts above 500",
    ),
    (
        "toggled a feature flag and nothing happened for minutes",
        "Feature flags are cached for five minutes",
    ),
    ("how to fake the clock in tests of the scheduler", "Never mock the clock in scheduler tests"),
    (
        "who signs the tag of a release, and where is the changelog from",
        "Releases › Release process",
    ),
    ("latency limit of the checkout, p99", "Operations › Error budget"),
    ("installer breaks with long paths on windows", "Platforms › Windows builds"),
    ("german translation too long for the button", "Texts › Translation files"),
    ("is the crawler of the partner exempt from the rate limit", "Interfaces › Rate limiting"),
];

/// Kind and text of the records that answer the queries, in the same order.
const RECALL_ANSWERS: [(CorpusRecordKind, &str); 20] = [
    (
        CorpusRecordKind::Goal,
        "Rows with newlines inside quotes are split in two. The importer must keep them as one record.",
    ),
    (
        CorpusRecordKind::Finding,
        "tests/report.rs:41: timezone_of_vienna: summer time shifts midnight by one hour",
    ),
    (
        CorpusRecordKind::Asked,
        "may invoices from before 2021 be deleted, or does the law keep them for seven years?",
    ),
    (CorpusRecordKind::Denied, "git push --force origin release"),
    (
        CorpusRecordKind::Ended,
        "the same 3 failures three times: it reconnects in a loop after the proxy drops idle sockets",
    ),
    (CorpusRecordKind::Tampering, "state.json of the run was edited: iteration 9 became 2"),
    (
        CorpusRecordKind::Goal,
        "Support staff need to see what a customer sees, with an entry in the audit log each time.",
    ),
    (
        CorpusRecordKind::Handover,
        "Thumbnails keep their alpha channel only in lossless mode; quality 82 made halos around logos.",
    ),
    (
        CorpusRecordKind::Handover,
        "The backfill stops at row 4 million with a lock timeout; a batch size of 500 goes through.",
    ),
    (
        CorpusRecordKind::Handover,
        "Arrow keys stay in the list of suggestions; screen readers announce the active option.",
    ),
    (
        CorpusRecordKind::Learning,
        "Start it with `make redis` first, otherwise thirty of them hang until their timeout.",
    ),
    (
        CorpusRecordKind::Learning,
        "Begin their names with a date: two database migrations called add_index raced in staging.",
    ),
    (
        CorpusRecordKind::Learning,
        "Use amounts below 500 in tests; the provider answers 402 and says nothing else.",
    ),
    (
        CorpusRecordKind::Learning,
        "After a toggle wait, or call `flags:flush`; the old value is served until then.",
    ),
    (
        CorpusRecordKind::Learning,
        "Use the fake timer of test_support; a mocked clock let tests pass that failed in production.",
    ),
    (
        CorpusRecordKind::Memory,
        "Tag from main only and sign the tag with the key of the team. git-cliff writes the changelog.",
    ),
    (
        CorpusRecordKind::Memory,
        "The p99 latency of the checkout stays below 300 ms; past that limit somebody is paged.",
    ),
    (
        CorpusRecordKind::Memory,
        "Paths of more than 260 characters break the installer; keep the workspace at C:\\b.",
    ),
    (
        CorpusRecordKind::Memory,
        "German is 40 percent longer: a translation must not overflow its button, so set min-width.",
    ),
    (
        CorpusRecordKind::Memory,
        "100 requests per minute and token; the crawler of the partner Acme has an exception.",
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum CorpusRecordKind {
    Goal,
    Finding,
    Asked,
    Denied,
    Ended,
    Tampering,
    Handover,
    Learning,
    Memory,
}

/// How many of every twenty records are of which kind. A run with a hand-over counts as two.
const RECORD_MIX: [(CorpusRecordKind, usize); 4] = [
    (CorpusRecordKind::Goal, 4),
    (CorpusRecordKind::Handover, 1),
    (CorpusRecordKind::Learning, 5),
    (CorpusRecordKind::Memory, 9),
];
const SECTIONS_PER_FILE: usize = 50;
const FIRST_RUN_MS: u64 = 1_780_000_000_000;

const VERBS: [&str; 16] = [
    "fix", "add", "remove", "rename", "test", "document", "speed up", "split", "merge", "port",
    "check", "simplify", "cache", "retry", "log", "validate",
];
const NOUNS: [&str; 40] = [
    "parser",
    "importer",
    "report",
    "invoice",
    "login",
    "session",
    "scheduler",
    "queue",
    "worker",
    "upload",
    "thumbnail",
    "migration",
    "index",
    "table",
    "column",
    "endpoint",
    "token",
    "header",
    "proxy",
    "socket",
    "client",
    "customer",
    "account",
    "release",
    "branch",
    "build",
    "pipeline",
    "script",
    "installer",
    "translation",
    "button",
    "form",
    "list",
    "search",
    "filter",
    "export",
    "backup",
    "alert",
    "metric",
    "flag",
];
const PLACES: [&str; 12] = [
    "in staging",
    "on windows",
    "for administrators",
    "in the nightly job",
    "behind the proxy",
    "of the mobile app",
    "in the sandbox",
    "for partners",
    "at midnight",
    "in the checkout",
    "of the archive",
    "under load",
];
const REMARKS: [&str; 12] = [
    "fails when two of them run at once",
    "needs a lock around the write",
    "times out after 30 seconds",
    "is slow because nothing is cached",
    "was green again after a rebuild",
    "keeps a copy of the old value",
    "has to be enabled by a flag",
    "breaks the tests of the other team",
    "must not block the main thread",
    "returns the rows in the wrong order",
    "leaks a connection with every retry",
    "is read twice and written once",
];

/// The files of a corpus with this many records, below ralph's home and the project.
pub(crate) fn corpus_files(home: &Path, project: &Path, records: usize) -> Vec<(PathBuf, Vec<u8>)> {
    let mut past = CorpusBuilder {
        home: RalphHome::new(home.to_path_buf()),
        project: project.to_path_buf(),
        dice: FixedRandom(7),
        files: Vec::new(),
        sections: String::new(),
        made: 0,
    };
    let each = (records / RECALL_QUERIES.len()).max(1);
    let mix: Vec<CorpusRecordKind> =
        RECORD_MIX.iter().flat_map(|(spot, times)| std::iter::repeat_n(*spot, *times)).collect();
    for ((_, title), (spot, text)) in RECALL_QUERIES.iter().zip(RECALL_ANSWERS) {
        past.add_record(spot, title, text);
        let end = past.made + each - 1;
        while past.made < end {
            let spot = past.dice.pick(&mix);
            let (title, text) = (past.random_title(), past.random_text());
            past.add_record(spot, &title, &text);
        }
    }
    past.finish_memory_file();
    past.files
}

struct CorpusBuilder {
    home: RalphHome,
    project: PathBuf,
    dice: FixedRandom,
    files: Vec<(PathBuf, Vec<u8>)>,
    sections: String,
    made: usize,
}

/// A pseudo-random generator with a fixed seed.
struct FixedRandom(u64);

impl FixedRandom {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(self.0 >> 33).unwrap_or_default() % from.len();
        from[at]
    }
}

impl CorpusBuilder {
    fn random_title(&mut self) -> String {
        let (verb, noun) = (self.dice.pick(&VERBS), self.dice.pick(&NOUNS));
        format!("{verb} the {noun} {}", self.dice.pick(&PLACES))
    }

    fn random_text(&mut self) -> String {
        let mut out = String::new();
        for _ in 0..self.dice.pick(&[1, 2, 3, 4, 6]) {
            let (noun, place) = (self.dice.pick(&NOUNS), self.dice.pick(&PLACES));
            out.push_str(&format!("The {noun} {place} {}. ", self.dice.pick(&REMARKS)));
        }
        out
    }

    fn add_record(&mut self, spot: CorpusRecordKind, title: &str, text: &str) {
        self.made += 1;
        match spot {
            CorpusRecordKind::Learning => self.add_learning(title, text),
            CorpusRecordKind::Memory => self.add_memory_section(title, text),
            CorpusRecordKind::Goal
            | CorpusRecordKind::Finding
            | CorpusRecordKind::Asked
            | CorpusRecordKind::Denied
            | CorpusRecordKind::Ended
            | CorpusRecordKind::Tampering
            | CorpusRecordKind::Handover => self.add_run(spot, title, text),
        }
    }

    fn add_learning(&mut self, title: &str, text: &str) {
        let number = self.made;
        let directory = self.home.project_learnings(&self.project);
        let project = json!(self.project);
        let front = format!("---\nv: 1\nproject: {project}\ntitle: {}\n", json!(title));
        let bytes = format!("{front}at: 2026-09-01T12:00:00Z\n---\n\n{text}\n");
        self.files.push((directory.join(format!("20260901-{number:06}.md")), bytes.into_bytes()));
    }

    fn add_memory_section(&mut self, title: &str, text: &str) {
        let (chapter, name) = title.split_once(" › ").unwrap_or(("Notes", title));
        self.sections.push_str(&format!("# {chapter}\n## {name}\n\n{text}\n\n"));
        if self.sections.matches("\n## ").count() >= SECTIONS_PER_FILE {
            self.finish_memory_file();
        }
    }

    fn finish_memory_file(&mut self) {
        let sections = std::mem::take(&mut self.sections);
        let plan = format!("docs/plans/plan-{}/MEMORY.md", self.made);
        self.files.push((self.project.join(plan), sections.into_bytes()));
    }

    fn add_run(&mut self, spot: CorpusRecordKind, title: &str, text: &str) {
        let id = format!("r{:05}", self.made);
        let directory = self.home.runs().join(&id);
        let goal =
            if spot == CorpusRecordKind::Goal { text.to_string() } else { self.random_text() };
        let at_ms = FIRST_RUN_MS + self.made as u64 * 60_000;
        let mut changes = vec![self.started_change(&id, title, at_ms)];
        changes.extend(self.later_changes(spot, text));
        let mut journal = Vec::new();
        let mut head = String::new();
        for (seq, change) in changes.into_iter().enumerate() {
            let at_ms = at_ms + seq as u64 * 1000;
            let entry = json!({ "v": 1, "seq": seq, "at_ms": at_ms, "prev": head, "iteration": seq, "change": change });
            let line = format!("{entry}\n");
            head = journal::hash_bytes(line.as_bytes());
            journal.extend_from_slice(line.as_bytes());
        }
        self.files.push((directory.join("journal.jsonl"), journal));
        self.files.push((directory.join("goal.txt"), format!("{title}\n{goal}\n").into_bytes()));
        if spot == CorpusRecordKind::Handover {
            self.made += 1;
            let handover = format!("# {title}\n\n{text}\n");
            self.files.push((directory.join("handoff.md"), handover.into_bytes()));
        }
    }

    fn started_change(&self, id: &str, title: &str, at_ms: u64) -> Value {
        json!({ "started": {
            "v": 1, "id": id, "owner": format!("session-{id}"), "started_ms": at_ms,
            "project": self.project, "origin": "started", "first_iteration": 0,
            "limits": { "max_iterations": 25, "max_duration_ms": null, "max_cost_micro_usd": null,
                "stuck_after": 3, "handover_at_permille": 800 },
            "features": [], "promise": null, "checklist": "no", "goal_bytes": 0, "title": title,
            "on_tampering": "block",
        } })
    }

    /// Two held stops, the change that holds the record's text, and an ending.
    fn later_changes(&mut self, spot: CorpusRecordKind, text: &str) -> Vec<Value> {
        let find = |first: &str| {
            let line = json!({ "name": "tests", "stage": "correctness", "standing": "unmet",
                "note": "1 of 148 failed", "first": first, "findings": 1, "signature": "b81080e231b44f3b" });
            json!({ "total": 2, "unmet": 1, "unknown": 0, "failures": "98470980d33103dc", "lines": [line], "met": ["build"] })
        };
        let held = |report: Value, tampering: Option<&str>| {
            json!({ "decided": { "rule": "block", "outcome": { "blocked": { "reason": "ralph: 1 of 2 is not met" } },
                "because": "1 not met", "report": report, "tampering": tampering, "took_ms": 12 } })
        };
        let first =
            if spot == CorpusRecordKind::Finding { text.to_string() } else { self.random_text() };
        let tampering = (spot == CorpusRecordKind::Tampering).then_some(text);
        let mut changes =
            vec![held(find(&first), None), held(find(&self.random_text()), tampering)];
        match spot {
            CorpusRecordKind::Asked => changes.push(json!({ "asked": { "question": text } })),
            CorpusRecordKind::Denied => changes.push(
                json!({ "denied": { "tool": "Bash", "what": "a push by force", "call": text } }),
            ),
            CorpusRecordKind::Goal
            | CorpusRecordKind::Finding
            | CorpusRecordKind::Ended
            | CorpusRecordKind::Tampering
            | CorpusRecordKind::Handover
            | CorpusRecordKind::Learning
            | CorpusRecordKind::Memory => {}
        }
        let (rule, because) = if spot == CorpusRecordKind::Ended {
            ("stuck", text)
        } else {
            ("verified", "all 2 requirements are met and measured")
        };
        changes.push(json!({ "decided": { "rule": rule, "outcome": { "ended": rule }, "because": because, "took_ms": 9 } }));
        changes
    }
}
