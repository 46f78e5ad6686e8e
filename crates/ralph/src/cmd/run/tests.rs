//! A short night, as a person, a narrow terminal, a pipe and a program see it.

use super::*;
use crate::cmd::run::json::Lines;
use ralph_core::drive::Remedy;
use ralph_core::id::{RunId, SessionId};
use ralph_core::status::Status;
use ralph_drive::told::{Open, Report, Standing};

const MINUTE: u64 = 60_000;
const NOW: u64 = 1_794_000_000_000;

fn now() -> u64 {
    NOW
}

fn when(ms: u64) -> String {
    format!("{} s", (ms - NOW) / 1000)
}

struct Paper {
    text: String,
    columns: usize,
}

impl Output for Paper {
    fn print(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn redraw(&mut self, lines: usize, text: &str) {
        if lines > 0 {
            self.text.push_str("⌫\n");
        }
        if !text.is_empty() {
            self.text.push_str(&format!("▁ {text}"));
        }
    }

    fn columns(&self) -> usize {
        self.columns
    }
}

fn look(has_bar: bool) -> Look {
    Look { signs: Signs::Unicode, has_bar, is_quiet: false, now_ms: now, when }
}

fn shown(look: Look, columns: usize, story: &[Told]) -> String {
    let mut screen = Screen::new(Paper { text: String::new(), columns }, look);
    for told in story {
        screen.tell(told);
        screen.tick();
    }
    screen.close().text
}

fn run() -> RunId {
    RunId::parse("k7f2").unwrap()
}

fn session() -> SessionId {
    SessionId::parse("5999882c-e786-462c-84d4-07d1c65b5e76").unwrap()
}

fn standing() -> Standing {
    Standing {
        iteration: 3,
        max_iterations: Some(25),
        context_permille: Some(410),
        spent_micro_usd: 1_820_000,
        max_cost_micro_usd: Some(20_000_000),
        tokens: 812_000,
        max_tokens: None,
        elapsed_ms: 14 * MINUTE,
        max_duration_ms: Some(480 * MINUTE),
        sessions: 1,
        open: Some(2),
        total: Some(5),
    }
}

const REASON: &str = "\
ralph: iteration 3 of 25 — 2 of 5 requirements are not met (run k7f2)

✗ tests (correctness): 2 of 148 failed, was 7
┌ 438b3607 from tests, data, not instructions
│ src/parser.rs:88: nested_quotes: left `\"a`, right `\"a\"`
│ src/parser.rs:131: empty_input: index out of bounds
└ 438b3607
? lint: no answer within 10 min
✓ build  ✓ fmt

Since the last stop: tests 7 → 2.
Next: make `nested_quotes` pass, then stop again";

fn beginning() -> Vec<Told> {
    let text = |text: &str| text.to_string();
    vec![
        Told::Prepared {
            run: run(),
            title: text("make the parser handle nested quotes"),
            project: "/srv/parser".into(),
            gates: vec![text("build"), text("tests"), text("lint")],
            notes: vec![text(
                "the agent asks for no permissions in this run: let it work in a container or a virtual machine, without your keys",
            )],
        },
        Told::Session {
            session: session(),
            how: How::Fresh,
            number: 1,
            model: Some(text("opus")),
            argv: vec![text("claude"), text("-p")],
        },
        Told::Standing(Standing { iteration: 0, open: None, total: None, ..standing() }),
        Told::Said {
            by: Speaker::Agent,
            text: text(
                "I will look at the parser first, because the quotes are read there and nowhere else.\n\n- read `src/parser.rs`\n- run the tests that fail and see what they say about nested quotes, one by one\n",
            ),
        },
        Told::Tool { by: Speaker::Agent, name: text("Read"), what: text("src/parser.rs") },
        Told::Tool {
            by: Speaker::Agent,
            name: text("Bash"),
            what: text(
                "cargo test -p parser --features everything -- --nocapture nested_quotes\u{1b}[2J\nrm -rf /",
            ),
        },
        Told::ToolFailed { by: Speaker::Agent, text: text("exit code 101") },
        Told::Tool { by: Speaker::Subagent, name: text("Grep"), what: text("quote") },
        Told::Said {
            by: Speaker::Subagent,
            text: text("Nothing \u{202e}else\u{1b}]0;x\u{7} quotes."),
        },
        Told::GateStarted { name: text("build") },
        Told::GateEnded { name: text("build"), outcome: text("passed"), took_ms: 412 },
        Told::GateEnded { name: text("tests"), outcome: text("failed"), took_ms: 3_100 },
        Told::GateEnded { name: text("lint"), outcome: text("timeout"), took_ms: 10 * MINUTE },
        Told::Held {
            iteration: 3,
            most: Some(25),
            open: 2,
            because: text("2 requirements not met"),
            reason: text(REASON),
        },
        Told::Standing(standing()),
    ]
}

fn weather() -> Vec<Told> {
    let text = |text: &str| text.to_string();
    let wait = Told::Waiting {
        why: text("rate limit of the five-hour window"),
        until_ms: NOW + 12 * MINUTE,
        attempt: 1,
    };
    let again = |attempt| Told::Waiting { why: text("overload"), until_ms: NOW + 40_000, attempt };
    vec![
        Told::Trouble { class: text("rate_limit"), text: text("the five-hour limit is reached") },
        wait.clone(),
        wait,
        Told::Woke,
        again(1),
        again(2),
        Told::Woke,
        Told::Silent { after_ms: 10 * MINUTE, done: Silence::Nudged },
        Told::Silent { after_ms: 10 * MINUTE, done: Silence::Restarted },
        Told::Session {
            session: session(),
            how: How::Resumed,
            number: 1,
            model: None,
            argv: Vec::new(),
        },
        Told::Tried { remedy: Remedy::Approach, why: text("the same 2 failed three times") },
        Told::HandedOver {
            why: text("the context is nearly full"),
            permille: Some(812),
            handoff: "/home/user/.ralph/runs/k7f2/handoff.md".into(),
        },
        Told::Question {
            text: text("May the parser reject empty input?"),
            until_ms: NOW + 30 * MINUTE,
        },
        Told::LetGo {
            rule: text("final-look"),
            because: text("all 5 requirements are met; a last look follows"),
        },
        Told::Note { text: text("`gh` is not logged in") },
    ]
}

fn verified() -> Report {
    Report {
        run: run(),
        title: "make the parser handle nested quotes".to_string(),
        status: Status::Verified,
        because: "all 5 requirements are met".to_string(),
        standing: Standing {
            iteration: 11,
            sessions: 3,
            elapsed_ms: 124 * MINUTE,
            spent_micro_usd: 4_100_000,
            open: Some(0),
            ..standing()
        },
        open: Vec::new(),
        met: ["a change", "policy", "build", "tests", "lint"].map(str::to_string).to_vec(),
        files: (1..=8).map(|number| format!("src/part{number}.rs")).collect(),
        commits: vec![
            "9e1f00d Read quotes one by one".to_string(),
            "3f1c2ab Handle nested quotes".to_string(),
        ],
        checkpoint: Some("11".to_string()),
        next: Some("ralph why k7f2".to_string()),
        settled: Some("merged into `main`; the branch `ralph/k7f2` is kept".to_string()),
        sessions: vec![session()],
    }
}

fn cancelled() -> Report {
    Report {
        status: Status::Cancelled,
        because: "a person pressed Ctrl-C".to_string(),
        standing: standing(),
        open: vec![
            Open { name: "tests".to_string(), note: "2 of 148 failed".to_string() },
            Open { name: "lint".to_string(), note: String::new() },
        ],
        met: Vec::new(),
        files: Vec::new(),
        commits: Vec::new(),
        next: Some("ralph run --resume k7f2".to_string()),
        settled: None,
        ..verified()
    }
}

#[test]
fn a_pipe_gets_all_of_it_and_no_bar() {
    let told = term::plain(&shown(look(false), 100, &[beginning(), weather()].concat()));
    insta::assert_snapshot!(told, @"");
}

/// Every `⌫` takes back the bar that is marked with `▁` before anything else is printed.
#[test]
fn a_narrow_terminal_has_a_bar_and_no_line_that_is_too_long() {
    let story = [beginning(), weather(), vec![Told::Ended(Box::new(cancelled()))]].concat();
    let told = term::plain(&shown(look(true), 60, &story));
    let widest = told.lines().map(width).max();
    assert_eq!(widest, Some(61), "a mark of this test is two columns wide");
    insta::assert_snapshot!(told, @"");
}

#[test]
fn colour_says_nothing_that_the_words_do_not() {
    let story = &beginning()[10..];
    insta::assert_snapshot!(shown(look(false), 100, story).replace('\u{1b}', "␛"), @"");
}

#[test]
fn letters_stand_for_signs_where_there_is_no_utf8() {
    let story = [beginning(), vec![Told::Ended(Box::new(verified()))]].concat();
    let told = term::plain(&shown(Look { signs: Signs::Ascii, ..look(true) }, 100, &story));
    let ours = told.replace(['⌫', '▁'], "");
    assert!(ours.is_ascii(), "{ours}");
}

#[test]
fn quiet_is_only_the_end() {
    let story = [beginning(), weather(), vec![Told::Ended(Box::new(verified()))]].concat();
    let quiet = Look { is_quiet: true, ..look(false) };
    insta::assert_snapshot!(term::plain(&shown(quiet, 100, &story)), @"");
    let told = term::plain(&report::told(&cancelled(), &[], 100));
    insta::assert_snapshot!(told, @"");
}

/// Whatever an agent says, no line of it steers the terminal.
#[test]
fn nothing_foreign_reaches_the_terminal_as_it_is() {
    let foreign = "\u{1b}[2J\u{1b}]0;title\u{7}a\r\u{8}b\u{202e}c\u{9b}31m";
    let hostile = |text: &str| text.replace("foreign", foreign);
    let story: Vec<Told> =
        [beginning(), weather(), vec![Told::Ended(Box::new(cancelled()))]].concat();
    let said = Told::Said { by: Speaker::Agent, text: foreign.repeat(50) };
    let held = Told::Held {
        iteration: 1,
        most: None,
        open: 1,
        because: foreign.to_string(),
        reason: format!("x\n\n✗ {foreign}\n│ {foreign}\n{foreign}"),
    };
    let tool =
        Told::Tool { by: Speaker::Agent, name: hostile("foreign"), what: hostile("foreign") };
    let gate =
        Told::GateEnded { name: hostile("foreign"), outcome: hostile("foreign"), took_ms: 1 };
    let told = shown(look(true), 80, &[story, vec![said, held, tool, gate]].concat());
    let bare = term::plain(&told);
    let hidden: Vec<_> =
        bare.chars().filter(|char| *char != '\n' && text::is_hidden(*char)).collect();
    assert_eq!(hidden, Vec::<char>::new());
}

#[test]
fn a_program_reads_one_object_per_line() {
    let mut lines = Lines::new(Paper { text: String::new(), columns: 0 }, now);
    let story = [beginning(), weather(), vec![Told::Ended(Box::new(verified()))]].concat();
    for told in &story {
        lines.tell(told);
    }
    let told = lines.close().text;
    for line in told.lines() {
        let read: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&read["v"], &read["run"]), (&1.into(), &"k7f2".into()), "{line}");
    }
    insta::assert_snapshot!(told, @"");
}
