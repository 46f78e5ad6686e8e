//! The cost of a session that a person works in, metered from what the client writes while it runs. The transcripts are
//! recordings of the real client; only their times are moved to now, and their models are changed where a test says so.

use crate::sandbox::{CommandOutcome, SESSION, Sandbox, json_string, write_file};
use insta::assert_snapshot;
use ralph_sys::clock;
use regex::Regex;
use std::fs;
use std::path::PathBuf;

const MAIN: &str =
    include_str!("../../../../fixtures/captures/transcripts/subagent-foreground-blocked.jsonl");
const SUBAGENT: &str = include_str!(
    "../../../../fixtures/captures/transcripts/subagent-foreground-blocked.subagent.jsonl"
);
const COMPACTED: &str =
    include_str!("../../../../fixtures/captures/transcripts/auto-compaction.jsonl");
/// What the client passes to a status line command, as recorded.
const STATUS_LINE: &str = r#""version":"2.1.325","cost":{"total_cost_usd":0.05004,"total_duration_ms":5332,"total_api_duration_ms":98}"#;

/// A run that no number of stops without progress ends.
const GOAL: [&str; 4] = ["--goal-file", "-", "--stuck-after", "100"];

/// A recording as if it were made now. The client writes `cost-state` only when it exits, so it is left out.
fn recorded_now(recording: &str) -> Vec<String> {
    let time = Regex::new(r#""timestamp": ?"[^"]+""#).unwrap();
    let now = format!("\"timestamp\":\"{}\"", clock::format_rfc3339(clock::now_ms() + 1));
    let open = recording.lines().filter(|line| !line.contains("\"cost-state\""));
    open.map(|line| time.replace_all(line, &*now).into_owned()).collect()
}

/// The index of the first line of this call.
fn line_of_call(lines: &[String], id: &str) -> usize {
    lines.iter().position(|line| line.contains(id) && line.contains("\"usage\"")).unwrap()
}

struct MeteredSession {
    sandbox: Sandbox,
    prompts: std::cell::Cell<u32>,
}

impl MeteredSession {
    fn new() -> Self {
        let sandbox = Sandbox::new().env("NO_COLOR", "1");
        Self { sandbox, prompts: std::cell::Cell::new(0) }
    }

    fn transcript(&self) -> PathBuf {
        self.sandbox.home().join(format!(".claude/projects/-project/{SESSION}.jsonl"))
    }

    fn subagent_transcript(&self) -> PathBuf {
        self.transcript().with_extension("").join("subagents/agent-a992fcbb72ecc398e.jsonl")
    }

    fn write(&self, lines: &[String]) {
        write_file(&self.transcript(), lines.join("\n") + "\n");
    }

    fn append(&self, lines: &[String]) {
        let before = fs::read_to_string(self.transcript()).unwrap_or_default();
        fs::write(self.transcript(), before + &lines.join("\n") + "\n").unwrap();
    }

    fn stop(&self) -> CommandOutcome {
        self.prompts.set(self.prompts.get() + 1);
        let path = json_string(self.transcript().to_str().unwrap());
        let prompt = self.prompts.get();
        self.sandbox
            .send_stop(SESSION, &format!(",\"transcript_path\":{path},\"prompt_id\":\"p{prompt}\""))
    }

    /// The run's lines in `ralph status` that are about its cost.
    fn cost(&self) -> String {
        let shown = self.sandbox.ralph(["status"]).stdout;
        let part = |line: &str| {
            let parts = line.split(" · ").filter(|part| part.contains('$'));
            parts.map(|part| part.trim().to_string()).collect::<Vec<_>>().join(" · ")
        };
        let lines: Vec<_> = shown.lines().map(part).filter(|line| !line.is_empty()).collect();
        lines.join("\n")
    }

    fn status_line(&self, usd: &str) -> String {
        let fields = STATUS_LINE.replace("0.05004", usd);
        let input = format!("{{\"session_id\":\"{SESSION}\",{fields}}}");
        let ended = self.sandbox.ralph_with_input(["statusline"], input.as_bytes());
        self.sandbox.normalize(ended.stdout.trim_end())
    }
}

/// R-V1k: the client reports no cost while it runs, and still the goal ends at its limit. Calls of the subagent count,
/// and each call counts once, although the client writes its usage with every content block. The estimate is what the
/// client itself reports in the end.
#[test]
fn a_goal_ends_at_its_cost_limit() {
    let session = MeteredSession::new();
    let goal = "/ralph:goal fix it --max-cost-usd 0.0045";
    session.sandbox.send_prompt(SESSION, goal).context_and_notice();
    let main = recorded_now(MAIN);
    let last = line_of_call(&main, "msg_fake_000006");
    session.write(&main[..last]);
    write_file(&session.subagent_transcript(), recorded_now(SUBAGENT).join("\n") + "\n");
    let held = session.stop();
    assert!(held.is_block(), "{held}");
    assert!(!held.stderr.contains("For the person"), "{held}");
    assert_snapshot!(session.cost(), @"≈ $0.004 of $0.0045");
    session.append(&main[last..]);
    assert_snapshot!(session.sandbox.normalize(&session.stop().notice()), @"ralph: exhausted: fix it — its budget of $0.0045 is spent (≈ $0.0048 by list prices), 1 not met (run [run]); `ralph why [run]` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`");
    let cost = MAIN.lines().find(|line| line.contains("\"cost-state\"")).unwrap();
    let cost: serde_json::Value = serde_json::from_str(cost).unwrap();
    let spent = session.sandbox.status()["runs"][0]["spent_usd"].as_f64().unwrap();
    assert!((spent - cost["totalCostUSD"].as_f64().unwrap()).abs() < 1e-9, "{spent} {cost}");
}

/// Earlier calls of the session do not count, lines of one call may be read at different stops, and the meter starts
/// again from the transcripts if its file is gone or was edited.
#[test]
fn a_call_counts_once_and_only_for_the_run() {
    let session = MeteredSession::new();
    session.write(&MAIN.lines().map(str::to_string).collect::<Vec<_>>());
    let run = session.sandbox.start_run(GOAL);
    let mut shown = Vec::new();
    session.stop();
    shown.push(format!("before the run: {}", session.cost()));
    let main = recorded_now(MAIN);
    let first = line_of_call(&main, "msg_fake_000001");
    session.append(&main[..=first]);
    session.stop();
    shown.push(format!("one line of a call: {}", session.cost()));
    session.append(&main[first + 1..line_of_call(&main, "msg_fake_000006")]);
    session.stop();
    shown.push(format!("all its lines: {}", session.cost()));
    let meter = session.sandbox.ralph_home(&format!("runs/{run}/meter.json"));
    let text = fs::read_to_string(&meter).unwrap();
    fs::write(&meter, text.replace("\"offset\":", "\"offset\":9")).unwrap();
    session.append(&main[line_of_call(&main, "msg_fake_000006")..]);
    session.stop();
    shown.push(format!("an edited meter: {}", session.cost()));
    fs::remove_file(&meter).unwrap();
    write_file(&session.subagent_transcript(), recorded_now(SUBAGENT).join("\n") + "\n");
    session.stop();
    shown.push(format!("no meter: {}", session.cost()));
    fs::remove_file(session.transcript()).unwrap();
    session.stop();
    shown.push(format!("no transcript: {}", session.cost()));
    assert_snapshot!(shown.join("\n"), @"
    before the run: ≈ $0 of $20
    one line of a call: ≈ $0.0008 of $20
    all its lines: ≈ $0.0008 of $20
    an edited meter: ≈ $0.0016 of $20
    no meter: ≈ $0.0048 of $20
    no transcript: ≈ $0.0048 of $20
    ");
}

/// A run that moves keeps what it has cost, also without its meter, and does not take on what its new session cost before.
#[test]
fn a_run_that_moves_keeps_its_cost() {
    const OTHER: &str = "0e6f1e7a-1111-4222-8333-444455556666";
    let session = MeteredSession::new();
    let run = session.sandbox.start_run(GOAL);
    session.write(&recorded_now(MAIN));
    assert!(session.stop().is_block());
    let mut shown = vec![session.cost()];
    let other = session.transcript().with_file_name(format!("{OTHER}.jsonl"));
    let before = recorded_now(MAIN).join("\n").replace("msg_fake", "msg_other") + "\n";
    write_file(&other, &before);
    let resume = format!("/ralph:resume {run}");
    session.sandbox.ralph(["pause", &run]);
    session.sandbox.send_prompt(OTHER, &resume).prompt_answer();
    let path = json_string(other.to_str().unwrap());
    let stop = |prompt: &str| {
        let more = format!(",\"transcript_path\":{path},\"prompt_id\":\"{prompt}\"");
        assert!(session.sandbox.send_stop(OTHER, &more).is_block());
    };
    stop("q1");
    shown.push(session.cost());
    let meter = session.sandbox.ralph_home(&format!("runs/{run}/meter.json"));
    fs::remove_file(meter).unwrap();
    let later = recorded_now(SUBAGENT).join("\n") + "\n";
    fs::write(&other, before + &later).unwrap();
    stop("q2");
    shown.push(session.cost());
    assert_snapshot!(shown.join("\n"), @"
    ≈ $0.0016 of $20
    ≈ $0.0016 of $20
    ≈ $0.0048 of $20
    ");
}

/// The client records no usage for the call that compacts a conversation, only the sizes before and after.
#[test]
fn compactions_are_estimated() {
    let session = MeteredSession::new();
    session.sandbox.start_run(GOAL);
    let lines = recorded_now(COMPACTED);
    let boundary = lines.iter().position(|line| line.contains("compact_boundary")).unwrap();
    session.write(&lines[..boundary]);
    session.stop();
    let before = session.cost();
    session.write(&lines[..=boundary]);
    session.stop();
    let compacted = session.cost();
    session.write(&lines);
    session.stop();
    assert_snapshot!(format!("{before}\n{compacted}\n{}", session.cost()), @"
    ≈ $0.04 of $20
    ≈ $0.11 of $20
    ≈ $0.12 of $20
    ");
}

/// R-V1k: a limit that nothing can enforce is called off when the run is started, at its stops, by `ralph status` and
/// by `ralph doctor`. A price makes it work, also in the middle of a run.
#[test]
fn a_model_without_a_price_turns_the_limit_off() {
    let session = MeteredSession::new();
    let unpriced: Vec<_> =
        recorded_now(MAIN).iter().map(|line| line.replace("claude-opus-5-5", "glm-5")).collect();
    session.write(&unpriced);
    let mut start = session.sandbox.command();
    start.args(["start", "--session", SESSION]).args(GOAL);
    let started = crate::sandbox::run_command(&mut start, b"make it work\n").stdout;
    let note = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("cost limit"));
        session.sandbox.normalize(&lines.map(str::trim).collect::<Vec<_>>().join("\n"))
    };
    let mut shown = vec![format!("start: {}", note(&started))];
    assert!(!started.contains("$20 ·"), "{started}");
    session.append(&recorded_now(&unpriced.join("\n")));
    shown.push(format!("stop: {}", note(&session.stop().stderr)));
    shown.push(format!("status: {}", session.cost()));
    shown.push(format!("doctor: {}", note(&session.sandbox.ralph(["doctor"]).stdout)));
    write_file(
        &session.sandbox.ralph_home("config.toml"),
        "[[price]]\nmodel = \"glm-*\"\ninput = 0.6\noutput = 2.2\n",
    );
    shown.push(format!("priced: {}", note(&session.stop().stderr)));
    shown.push(format!("status: {}", session.cost()));
    assert_snapshot!(shown.join("\n"), @"
    start: note    the cost limit of $20 is off: no price is known for `glm-5` (`[[price]]` in `~/.ralph/config.toml` sets one); `ralph init --statusline` lets the client report the cost
    stop: For the person: the cost limit of $20 is off: no price is known for `glm-5` (`[[price]]` in `~/.ralph/config.toml` sets one)
    status: cost unknown, limit of $20 off
    ? the cost limit of $20 is off: no price is known for `glm-5` (`[[price]]` in `~/.ralph/config.toml` sets one)
    doctor: ? cost        run [run]: the cost limit of $20 is off: no price is known for `glm-5` (`[[price]]` in `~/.ralph/config.toml` sets one)
    priced: 
    status: ≈ $0.00021 of $20
    ");
}

/// A slash command's answer has the note too, and so has a limit that is changed later.
#[test]
fn a_slash_command_says_that_its_limit_is_off() {
    let session = MeteredSession::new();
    let sandbox = session.sandbox.env("ANTHROPIC_MODEL", "glm-5");
    let goal = "/ralph:goal fix it --max-cost-usd 2";
    let (_, notice) = sandbox.send_prompt(SESSION, goal).context_and_notice();
    assert_snapshot!(sandbox.normalize(&notice.unwrap()), @"
    ralph: run [run] holds this session: fix it
    limits  25 iterations · 8 h · stuck at the 3rd stop without progress
    note: nothing measures this goal: the run ends as `claimed` when the agent says so, or at a limit
    note: the cost limit of $2 is off: no price is known for `glm-5` (`[[price]]` in `~/.ralph/config.toml` sets one); `ralph init --statusline` lets the client report the cost
    `/ralph:status` shows its state, `/ralph:cancel` ends it
    ");
    let checked = sandbox.ralph(["doctor"]).stdout;
    let about_cost = checked.lines().filter(|line| line.contains("glm-5")).collect::<Vec<_>>();
    assert_snapshot!(about_cost.join("\n"), @"? cost        the cost limit of $20 is off: no price is known for `glm-5` (`[[price]]` in `~/.ralph/config.toml` sets one)");
    // The client's status line tells the cost, so the limit works.
    let settings = r#"{"statusLine":{"type":"command","command":"ralph statusline"}}"#;
    write_file(&sandbox.home().join(".claude/settings.json"), settings);
    let (_, notice) = sandbox.send_prompt("another", goal).context_and_notice();
    assert!(!notice.unwrap().contains("cost limit"));
}

/// A model that appears in the middle of a run is named at the next stop.
#[test]
fn a_model_without_a_price_is_named_when_it_appears() {
    let session = MeteredSession::new();
    session.sandbox.start_run(GOAL);
    let main = recorded_now(MAIN);
    session.write(&main);
    assert!(!session.stop().stderr.contains("For the person"));
    let later = recorded_now(SUBAGENT).join("\n").replace("claude-opus-5-5", r"glm-5\u001b[31m");
    write_file(&session.subagent_transcript(), later + "\n");
    let held = session.stop();
    let said: Vec<_> = held.stderr.lines().filter(|line| line.contains("person")).collect();
    assert_snapshot!(format!("{}\n{}", said.join("\n"), session.cost()), @"
    For the person: the cost limit of $20 does not count `glm-5`: no price is known (`[[price]]` in `~/.ralph/config.toml` sets one)
    more than ≈ $0.0016 of $20
    ? the cost limit of $20 does not count `glm-5`: no price is known (`[[price]]` in `~/.ralph/config.toml` sets one)
    ");
}

/// The status line's own figure counts if it is larger, from the run's start on, whatever the model costs.
#[test]
fn the_larger_of_both_figures_counts() {
    let session = MeteredSession::new();
    session.status_line("3");
    session.sandbox.start_run([&GOAL[..], &["--max-cost-usd", "2"]].concat());
    let mut shown = vec![session.status_line("3.1")];
    session.write(&recorded_now(MAIN));
    session.stop();
    shown.push(session.status_line("3.1"));
    shown.push(session.status_line("4.92"));
    session.stop();
    shown.push(session.cost());
    // The client was started again and counts from zero.
    shown.push(session.status_line("0.2"));
    shown.push(session.sandbox.normalize(&session.stop().notice()));
    assert_snapshot!(shown.join("\n"), @"
    ralph [run] · 0 of 25 · $0 of $2
    ralph [run] · 1 of 25 · ✗ goal · ≈ $0.0016 of $2
    ralph [run] · 1 of 25 · ✗ goal · $1.82 of $2
    $1.82 of $2
    ralph [run] · 2 of 25 · ✗ goal · $2.02 of $2
    ralph: exhausted: make it work — its budget of $2 is spent, 1 not met (run [run]); `ralph why [run]` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`
    ");
}
