//! Generates a corpus for `ralph recall` of any size: runs, hand-overs, learnings and memory of one project in
//! realistic vocabulary, always the same, with twenty records among them that answer known queries. Returns the files
//! without writing them. The recall benchmark of `xtask` includes this file too.

use ralph_home::journal;
use ralph_home::paths::RalphHome;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A query, and the title of the record that answers it.
pub(crate) const QUESTIONS: [(&str, &str); 20] = [
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
const ANSWERS: [(Spot, &str); 20] = [
    (
        Spot::Goal,
        "Rows with newlines inside quotes are split in two. The importer must keep them as one record.",
    ),
    (
        Spot::Finding,
        "tests/report.rs:41: timezone_of_vienna: summer time shifts midnight by one hour",
    ),
    (
        Spot::Asked,
        "may invoices from before 2021 be deleted, or does the law keep them for seven years?",
    ),
    (Spot::Denied, "git push --force origin release"),
    (
        Spot::Ended,
        "the same 3 failures three times: it reconnects in a loop after the proxy drops idle sockets",
    ),
    (Spot::Tampering, "state.json of the run was edited: iteration 9 became 2"),
    (
        Spot::Goal,
        "Support staff need to see what a customer sees, with an entry in the audit log each time.",
    ),
    (
        Spot::Handoff,
        "Thumbnails keep their alpha channel only in lossless mode; quality 82 made halos around logos.",
    ),
    (
        Spot::Handoff,
        "The backfill stops at row 4 million with a lock timeout; a batch size of 500 goes through.",
    ),
    (
        Spot::Handoff,
        "Arrow keys stay in the list of suggestions; screen readers announce the active option.",
    ),
    (
        Spot::Learning,
        "Start it with `make redis` first, otherwise thirty of them hang until their timeout.",
    ),
    (
        Spot::Learning,
        "Begin their names with a date: two database migrations called add_index raced in staging.",
    ),
    (
        Spot::Learning,
        "Use amounts below 500 in tests; the provider answers 402 and says nothing else.",
    ),
    (
        Spot::Learning,
        "After a toggle wait, or call `flags:flush`; the old value is served until then.",
    ),
    (
        Spot::Learning,
        "Use the fake timer of test_support; a mocked clock let tests pass that failed in production.",
    ),
    (
        Spot::Memory,
        "Tag from main only and sign the tag with the key of the team. git-cliff writes the changelog.",
    ),
    (
        Spot::Memory,
        "The p99 latency of the checkout stays below 300 ms; past that limit somebody is paged.",
    ),
    (
        Spot::Memory,
        "Paths of more than 260 characters break the installer; keep the workspace at C:\\b.",
    ),
    (
        Spot::Memory,
        "German is 40 percent longer: a translation must not overflow its button, so set min-width.",
    ),
    (
        Spot::Memory,
        "100 requests per minute and token; the crawler of the partner Acme has an exception.",
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spot {
    Goal,
    Finding,
    Asked,
    Denied,
    Ended,
    Tampering,
    Handoff,
    Learning,
    Memory,
}

/// How many of every twenty records are of which kind. A run with a hand-over counts as two.
const MIX: [(Spot, usize); 4] =
    [(Spot::Goal, 4), (Spot::Handoff, 1), (Spot::Learning, 5), (Spot::Memory, 9)];
const SECTIONS_OF_A_FILE: usize = 50;
const BEGAN_MS: u64 = 1_780_000_000_000;

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
pub(crate) fn files(home: &Path, project: &Path, records: usize) -> Vec<(PathBuf, Vec<u8>)> {
    let mut past = Past {
        home: RalphHome::new(home.to_path_buf()),
        project: project.to_path_buf(),
        dice: Dice(7),
        files: Vec::new(),
        sections: String::new(),
        made: 0,
    };
    let each = (records / QUESTIONS.len()).max(1);
    let mix: Vec<Spot> =
        MIX.iter().flat_map(|(spot, times)| std::iter::repeat_n(*spot, *times)).collect();
    for ((_, title), (spot, text)) in QUESTIONS.iter().zip(ANSWERS) {
        past.put(spot, title, text);
        let end = past.made + each - 1;
        while past.made < end {
            let spot = past.dice.pick(&mix);
            let (title, text) = (past.title(), past.text());
            past.put(spot, &title, &text);
        }
    }
    past.end_file();
    past.files
}

struct Past {
    home: RalphHome,
    project: PathBuf,
    dice: Dice,
    files: Vec<(PathBuf, Vec<u8>)>,
    sections: String,
    made: usize,
}

/// A pseudo-random generator with a fixed seed.
struct Dice(u64);

impl Dice {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(self.0 >> 33).unwrap_or_default() % from.len();
        from[at]
    }
}

impl Past {
    fn title(&mut self) -> String {
        let (verb, noun) = (self.dice.pick(&VERBS), self.dice.pick(&NOUNS));
        format!("{verb} the {noun} {}", self.dice.pick(&PLACES))
    }

    fn text(&mut self) -> String {
        let mut out = String::new();
        for _ in 0..self.dice.pick(&[1, 2, 3, 4, 6]) {
            let (noun, place) = (self.dice.pick(&NOUNS), self.dice.pick(&PLACES));
            out.push_str(&format!("The {noun} {place} {}. ", self.dice.pick(&REMARKS)));
        }
        out
    }

    fn put(&mut self, spot: Spot, title: &str, text: &str) {
        self.made += 1;
        match spot {
            Spot::Learning => self.learning(title, text),
            Spot::Memory => self.section(title, text),
            Spot::Goal
            | Spot::Finding
            | Spot::Asked
            | Spot::Denied
            | Spot::Ended
            | Spot::Tampering
            | Spot::Handoff => self.run(spot, title, text),
        }
    }

    fn learning(&mut self, title: &str, text: &str) {
        let number = self.made;
        let directory = self.home.project_learnings(&self.project);
        let project = json!(self.project);
        let front = format!("---\nv: 1\nproject: {project}\ntitle: {}\n", json!(title));
        let bytes = format!("{front}at: 2026-09-01T12:00:00Z\n---\n\n{text}\n");
        self.files.push((directory.join(format!("20260901-{number:06}.md")), bytes.into_bytes()));
    }

    fn section(&mut self, title: &str, text: &str) {
        let (chapter, name) = title.split_once(" › ").unwrap_or(("Notes", title));
        self.sections.push_str(&format!("# {chapter}\n## {name}\n\n{text}\n\n"));
        if self.sections.matches("\n## ").count() >= SECTIONS_OF_A_FILE {
            self.end_file();
        }
    }

    fn end_file(&mut self) {
        let sections = std::mem::take(&mut self.sections);
        let plan = format!("docs/plans/plan-{}/MEMORY.md", self.made);
        self.files.push((self.project.join(plan), sections.into_bytes()));
    }

    fn run(&mut self, spot: Spot, title: &str, text: &str) {
        let id = format!("r{:05}", self.made);
        let directory = self.home.runs().join(&id);
        let goal = if spot == Spot::Goal { text.to_string() } else { self.text() };
        let at_ms = BEGAN_MS + self.made as u64 * 60_000;
        let mut changes = vec![self.started(&id, title, at_ms)];
        changes.extend(self.happened(spot, text));
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
        if spot == Spot::Handoff {
            self.made += 1;
            let handoff = format!("# {title}\n\n{text}\n");
            self.files.push((directory.join("handoff.md"), handoff.into_bytes()));
        }
    }

    fn started(&self, id: &str, title: &str, at_ms: u64) -> Value {
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
    fn happened(&mut self, spot: Spot, text: &str) -> Vec<Value> {
        let find = |first: &str| {
            let line = json!({ "name": "tests", "stage": "correctness", "standing": "unmet",
                "note": "1 of 148 failed", "first": first, "findings": 1, "signature": "b81080e231b44f3b" });
            json!({ "total": 2, "unmet": 1, "unknown": 0, "failures": "98470980d33103dc", "lines": [line], "met": ["build"] })
        };
        let held = |report: Value, tampering: Option<&str>| {
            json!({ "decided": { "rule": "block", "outcome": { "blocked": { "reason": "ralph: 1 of 2 is not met" } },
                "because": "1 not met", "report": report, "tampering": tampering, "took_ms": 12 } })
        };
        let first = if spot == Spot::Finding { text.to_string() } else { self.text() };
        let tampering = (spot == Spot::Tampering).then_some(text);
        let mut changes = vec![held(find(&first), None), held(find(&self.text()), tampering)];
        match spot {
            Spot::Asked => changes.push(json!({ "asked": { "question": text } })),
            Spot::Denied => changes.push(
                json!({ "denied": { "tool": "Bash", "what": "a push by force", "call": text } }),
            ),
            Spot::Goal
            | Spot::Finding
            | Spot::Ended
            | Spot::Tampering
            | Spot::Handoff
            | Spot::Learning
            | Spot::Memory => {}
        }
        let (rule, because) = if spot == Spot::Ended {
            ("stuck", text)
        } else {
            ("verified", "all 2 requirements are met and measured")
        };
        changes.push(json!({ "decided": { "rule": rule, "outcome": { "ended": rule }, "because": because, "took_ms": 9 } }));
        changes
    }
}
