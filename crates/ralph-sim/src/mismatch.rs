//! Compares a timeline with the expectations of its scenario. Entries are checked as they happen and only mismatches
//! are kept, so memory use does not grow with the length of the scenario.

use crate::scenario::ScenarioExpectations;
use crate::scratch::ScratchProject;
use crate::timeline::{HookEffect, TimelineEntry, TimelineHook};
use ralph_sys::fs;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;
/// Mismatches kept for each expectation.
const MAX_PER_EXPECTATION: usize = 5;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimelineCounts {
    /// Requests to the model, from all agents together.
    pub requests: u64,
    /// `Stop` events.
    pub stops: u64,
    /// Stops at which hooks made the agent continue.
    pub blocks: u64,
    /// Blocks that the client overrode because its cap was exceeded.
    pub overridden: u64,
    pub tools: u64,
    pub hooks: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExpectationMismatch {
    /// The key of the expectation, with an index if it is a list.
    pub what: String,
    pub expected: String,
    pub found: String,
}

/// Values collected from the events of the runners.
#[derive(Debug, Default)]
struct RunnerReports {
    status: Option<String>,
    iterations: Option<u64>,
    sessions: Option<u64>,
    event_counts: BTreeMap<String, u64>,
    /// Cost of each runner so far, in USD.
    spent: BTreeMap<usize, f64>,
}

#[derive(Debug)]
pub struct ExpectationWatcher<'a> {
    expect: &'a ScenarioExpectations,
    pub counts: TimelineCounts,
    endings: usize,
    events: usize,
    exit: Option<i32>,
    run: RunnerReports,
    mismatches: Vec<ExpectationMismatch>,
}

impl<'a> ExpectationWatcher<'a> {
    pub fn new(expect: &'a ScenarioExpectations) -> Self {
        Self {
            expect,
            counts: TimelineCounts::default(),
            endings: 0,
            events: 0,
            exit: None,
            run: RunnerReports::default(),
            mismatches: Vec::new(),
        }
    }

    pub fn watch(&mut self, entry: &TimelineEntry) {
        match entry {
            TimelineEntry::Request(_) => self.counts.requests += 1,
            TimelineEntry::Hook(hook) => self.watch_hook(hook),
            TimelineEntry::Tool(_) => self.counts.tools += 1,
            TimelineEntry::Ending(ending) => {
                let place = self.endings;
                self.endings += 1;
                let ScenarioExpectations { endings, results, .. } = self.expect;
                self.compare_list_item("endings", endings.as_deref(), place, &ending.reason);
                self.compare_list_item("results", results.as_deref(), place, &ending.result);
            }
            TimelineEntry::Run { runner, told } => self.watch_runner_event(*runner, told),
            TimelineEntry::Exit { code } => self.exit = Some(*code),
            TimelineEntry::Prompt { .. }
            | TimelineEntry::Reply(_)
            | TimelineEntry::Notice { .. } => {}
        }
    }

    fn watch_hook(&mut self, hook: &TimelineHook) {
        self.counts.hooks += hook.handlers.len() as u64;
        let place = self.events;
        self.events += 1;
        self.compare_list_item("events", self.expect.events.as_deref(), place, &hook.event);
        if hook.event != "Stop" {
            return;
        }
        self.counts.stops += 1;
        match &hook.effect {
            HookEffect::Blocked { reasons } => self.watch_block(&reasons.join("\n")),
            HookEffect::Continued { context } => self.watch_block(&context.join("\n")),
            HookEffect::Overridden { .. } => self.counts.overridden += 1,
            HookEffect::Allowed | HookEffect::Stopped { .. } => {}
        }
    }

    fn watch_runner_event(&mut self, runner: usize, line: &Value) {
        let event = line["event"].as_str().unwrap_or_default();
        let count = self.run.event_counts.entry(event.to_owned()).or_default();
        *count = count.saturating_add(1);
        let standing = if event == "ended" { &line["standing"] } else { line };
        if let Some(now) = standing["spent_usd"].as_f64() {
            let before = self.run.spent.insert(runner, now).unwrap_or_default();
            if now < before {
                self.add_mismatch(
                    "spent".to_owned(),
                    format!("at least {before}"),
                    now.to_string(),
                );
            }
        }
        match event {
            "held" => self.watch_block(line["reason"].as_str().unwrap_or_default()),
            "tool" => self.counts.tools += 1,
            "ended" if runner == 0 => {
                self.run.status = line["status"].as_str().map(str::to_owned);
                self.run.iterations = line["standing"]["iteration"].as_u64();
                self.run.sessions = line["standing"]["sessions"].as_u64();
            }
            _ => {}
        }
    }

    fn watch_block(&mut self, reason: &str) {
        let place = usize::try_from(self.counts.blocks).unwrap_or(usize::MAX);
        self.counts.blocks += 1;
        let Some(part) = self.expect.reasons.as_ref().and_then(|parts| parts.get(place)) else {
            return;
        };
        if !reason.contains(part.as_str()) {
            let expected = format!("text containing {part:?}");
            self.add_mismatch(format!("reasons[{place}]"), expected, format!("{reason:?}"));
        }
    }

    fn compare_list_item(
        &mut self,
        what: &str,
        expected: Option<&[String]>,
        place: usize,
        found: &str,
    ) {
        let Some(expected) = expected else { return };
        let wanted = expected.get(place);
        if wanted.is_none_or(|wanted| wanted != found) {
            let expected = wanted.map_or_else(|| "nothing more".to_owned(), |it| format!("{it:?}"));
            self.add_mismatch(format!("{what}[{place}]"), expected, format!("{found:?}"));
        }
    }

    fn add_mismatch(&mut self, what: String, expected: String, found: String) {
        let kind = |what: &str| what.split('[').next().unwrap_or_default().to_owned();
        let same = self.mismatches.iter().filter(|other| kind(&other.what) == kind(&what));
        if same.count() < MAX_PER_EXPECTATION {
            self.mismatches.push(ExpectationMismatch { what, expected, found });
        }
    }

    /// Checks the expectations that depend on the whole timeline, and returns every mismatch.
    pub fn finish(mut self, stage: &ScratchProject) -> (TimelineCounts, Vec<ExpectationMismatch>) {
        let expect = self.expect;
        let TimelineCounts { requests, stops, blocks, .. } = self.counts;
        let numbers = [
            ("stops", expect.stops, stops),
            ("blocks", expect.blocks, blocks),
            ("requests", expect.requests, requests),
        ];
        for (what, expected, found) in numbers {
            if let Some(expected) = expected.filter(|expected| *expected != found) {
                self.add_mismatch(what.to_owned(), expected.to_string(), found.to_string());
            }
        }
        let lists = [
            ("endings", expect.endings.as_ref(), self.endings),
            ("results", expect.results.as_ref(), self.endings),
            ("events", expect.events.as_ref(), self.events),
            ("reasons", expect.reasons.as_ref(), usize::try_from(blocks).unwrap_or(usize::MAX)),
        ];
        for (what, expected, found) in lists {
            let missing = expected.and_then(|expected| expected.get(found));
            if let Some(missing) = missing {
                self.add_mismatch(
                    format!("{what}[{found}]"),
                    format!("{missing:?}"),
                    "nothing more".to_owned(),
                );
            }
        }
        if let (Some(expected), found) = (expect.exit, self.exit)
            && found != Some(expected)
        {
            let found = found.map_or_else(|| "nothing".to_owned(), |code| code.to_string());
            self.add_mismatch("exit".to_owned(), expected.to_string(), found);
        }
        self.check_runner();
        self.check_files(stage);
        (self.counts, self.mismatches)
    }

    fn check_runner(&mut self) {
        let expect = self.expect;
        if expect.status.is_some() && expect.status != self.run.status {
            let shown = |status: &Option<String>| status.clone().unwrap_or("nothing".to_owned());
            let (expected, found) = (shown(&expect.status), shown(&self.run.status));
            self.add_mismatch("status".to_owned(), expected, found);
        }
        let counts = [
            ("iterations", expect.iterations, self.run.iterations),
            ("sessions", expect.sessions, self.run.sessions),
        ];
        for (what, expected, found) in counts {
            if let Some(expected) = expected.filter(|expected| found != Some(*expected)) {
                let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
                self.add_mismatch(what.to_owned(), expected.to_string(), found);
            }
        }
        for (event, expected) in &expect.told {
            let found = self.run.event_counts.get(event).copied().unwrap_or_default();
            if found != *expected {
                self.add_mismatch(format!("told.{event}"), expected.to_string(), found.to_string());
            }
        }
    }

    /// Reports processes that outlived the scenario.
    pub fn check_leftover_processes(&mut self, alive: &[String]) {
        for process in alive {
            self.add_mismatch("processes".to_owned(), "none left".to_owned(), process.clone());
        }
    }

    /// Runs the commands under `says` through `said` and compares their output.
    pub fn check_command_output(&mut self, said: impl Fn(&str) -> String) {
        for (command, expected) in &self.expect.says {
            let found = said(command);
            if found != *expected {
                self.add_mismatch(
                    format!("says.{command}"),
                    format!("{expected:?}"),
                    format!("{found:?}"),
                );
            }
        }
    }

    /// Compares the final terminal screen with `screen`: each part must appear below the previous one. Line breaks and
    /// repeated spaces do not count.
    pub fn check_screen(&mut self, screen: &str) {
        self.check_parts("screen", &self.expect.screen, screen, |_| "not on the screen".to_owned());
    }

    /// Compares the output of `ralph plan`, and of a `ralph run` that started no run, with `output`.
    pub fn check_output(&mut self, output: &str) {
        self.check_parts("output", &self.expect.output, output, |output| format!("{output:?}"));
    }

    /// Finds each part of a text below the previous one.
    fn check_parts(
        &mut self,
        what: &str,
        parts: &[String],
        text: &str,
        found: impl Fn(&str) -> String,
    ) {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = words(text);
        let mut below = text.as_str();
        for (place, part) in parts.iter().enumerate() {
            match below.split_once(&words(part)) {
                Some((_, rest)) => below = rest,
                None => {
                    self.add_mismatch(
                        format!("{what}[{place}]"),
                        format!("{part:?}"),
                        found(below),
                    );
                }
            }
        }
    }

    fn check_files(&mut self, stage: &ScratchProject) {
        for (name, text) in &self.expect.files {
            let found = match fs::read_if_exists(&stage.project.join(name), MAX_FILE_BYTES) {
                Ok(Some(bytes)) if bytes == text.as_bytes() => continue,
                Ok(Some(bytes)) => format!("{:?}", String::from_utf8_lossy(&bytes)),
                Ok(None) => "no such file".to_owned(),
                Err(error) => error.to_string(),
            };
            self.add_mismatch(format!("files.{name}"), format!("{text:?}"), found);
        }
        for name in &self.expect.absent {
            if fs::stat_no_follow(&stage.project.join(name)).is_some() {
                self.add_mismatch(
                    format!("absent.{name}"),
                    "no such file".to_owned(),
                    "it exists".to_owned(),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::scratch;
    use crate::timeline::{HandlerResult, TimelineEnding, TimelineRequest, TimelineTool};
    use serde_json::json;

    fn request() -> TimelineEntry {
        TimelineEntry::Request(TimelineRequest { agent: None, messages: Vec::new() })
    }

    fn hook(event: &str, effect: HookEffect) -> TimelineEntry {
        let handler = HandlerResult {
            command: "./gate.sh".to_owned(),
            source: "project".to_owned(),
            ended: "exit 0".to_owned(),
            stdout: String::new(),
            stderr: String::new(),
            outcome: "success".to_owned(),
            evaluator: None,
            remark: None,
            ms: 1,
        };
        TimelineEntry::Hook(TimelineHook {
            event: event.to_owned(),
            agent: None,
            input: Value::Null,
            handlers: vec![handler],
            effect,
        })
    }

    fn blocked(reasons: &[&str]) -> HookEffect {
        HookEffect::Blocked { reasons: texts(reasons) }
    }

    fn ending(reason: &str, result: &str) -> TimelineEntry {
        let (reason, result) = (reason.to_owned(), result.to_owned());
        TimelineEntry::Ending(TimelineEnding { reason, result, is_error: false })
    }

    /// One prompt with three stops: blocked, continued by context alone, and overridden.
    fn story() -> Vec<TimelineEntry> {
        let tool = TimelineTool {
            agent: None,
            name: "Bash".to_owned(),
            input: Value::Null,
            result: String::new(),
            is_error: false,
        };
        vec![
            TimelineEntry::Prompt { text: "Go.".to_owned() },
            request(),
            TimelineEntry::Tool(tool),
            hook("PostToolUse", blocked(&["not counted"])),
            request(),
            hook("Stop", blocked(&["two tests fail", "and the linter"])),
            request(),
            hook("Stop", HookEffect::Continued { context: vec!["mind the docs".to_owned()] }),
            hook("SubagentStop", blocked(&["not counted either"])),
            request(),
            hook("Stop", HookEffect::Overridden { reasons: vec!["once more".to_owned()] }),
            ending("completed", "Done."),
            TimelineEntry::Exit { code: 0 },
        ]
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    fn judged(
        expect: &ScenarioExpectations,
        entries: &[TimelineEntry],
    ) -> (TimelineCounts, String) {
        let directory = tempfile::tempdir().unwrap();
        let files = [("there.txt", "as it is\n"), ("sub/other.txt", "x")];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let scenario = Scenario { files: files.into(), ..Scenario::default() };
        let stage = scratch::build(&scenario, directory.path()).unwrap();
        let mut check = ExpectationWatcher::new(expect);
        for entry in entries {
            check.watch(entry);
        }
        let (counts, mismatches) = check.finish(&stage);
        let lines = mismatches.iter().map(|ExpectationMismatch { what, expected, found }| {
            format!("{what}: {expected}, not {found}")
                .replace(&stage.root.display().to_string(), "ROOT")
        });
        (counts, lines.collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn met_expectations_are_counted_and_give_no_mismatch() {
        let expect = ScenarioExpectations {
            endings: Some(texts(&["completed"])),
            results: Some(texts(&["Done."])),
            stops: Some(3),
            blocks: Some(2),
            requests: Some(4),
            reasons: Some(texts(&["the linter", "docs"])),
            events: Some(texts(&["PostToolUse", "Stop", "Stop", "SubagentStop", "Stop"])),
            exit: Some(0),
            files: [("there.txt".to_owned(), "as it is\n".to_owned())].into(),
            absent: vec!["missing.txt".to_owned()],
            ..ScenarioExpectations::default()
        };
        let (counts, missed) = judged(&expect, &story());
        assert_eq!(missed, "");
        let expected =
            TimelineCounts { requests: 4, stops: 3, blocks: 2, overridden: 1, tools: 1, hooks: 5 };
        assert_eq!(counts, expected);
        assert_eq!(judged(&ScenarioExpectations::default(), &story()).1, "");
    }

    #[test]
    fn every_kind_of_mismatch_has_its_text() {
        let expect = ScenarioExpectations {
            endings: Some(texts(&["api_error"])),
            results: Some(texts(&["Well done."])),
            stops: Some(2),
            blocks: Some(0),
            requests: Some(5),
            reasons: Some(texts(&["three tests", "docs"])),
            events: Some(texts(&["PostToolUse", "Stop", "PreCompact", "SubagentStop", "Stop"])),
            exit: Some(1),
            files: [("there.txt", ""), ("missing.txt", "x"), ("sub", "x")]
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .into(),
            absent: ["there.txt", "sub", "missing.txt"].map(str::to_owned).into(),
            ..ScenarioExpectations::default()
        };
        insta::assert_snapshot!(judged(&expect, &story()).1, @r#"
        reasons[0]: text containing "three tests", not "two tests fail\nand the linter"
        events[2]: "PreCompact", not "Stop"
        endings[0]: "api_error", not "completed"
        results[0]: "Well done.", not "Done."
        stops: 2, not 3
        blocks: 0, not 2
        requests: 5, not 4
        exit: 1, not 0
        files.missing.txt: "x", not no such file
        files.sub: "x", not cannot read `ROOT/project/sub`
        files.there.txt: "", not "as it is\n"
        absent.there.txt: no such file, not it exists
        absent.sub: no such file, not it exists
        "#);
    }

    #[test]
    fn reports_where_a_list_is_too_short_or_too_long() {
        let short = ScenarioExpectations {
            endings: Some(texts(&[])),
            results: Some(texts(&[])),
            events: Some(texts(&["PostToolUse"])),
            reasons: Some(texts(&[])),
            ..ScenarioExpectations::default()
        };
        insta::assert_snapshot!(judged(&short, &story()).1, @r#"
        events[1]: nothing more, not "Stop"
        events[2]: nothing more, not "Stop"
        events[3]: nothing more, not "SubagentStop"
        events[4]: nothing more, not "Stop"
        endings[0]: nothing more, not "completed"
        results[0]: nothing more, not "Done."
        "#);
        let long = ScenarioExpectations {
            endings: Some(texts(&["completed", "completed"])),
            results: Some(texts(&["Done.", "And done."])),
            events: Some(texts(&[
                "PostToolUse",
                "Stop",
                "Stop",
                "SubagentStop",
                "Stop",
                "SessionEnd",
            ])),
            reasons: Some(texts(&["two", "docs", "more", "still more"])),
            ..ScenarioExpectations::default()
        };
        insta::assert_snapshot!(judged(&long, &story()).1, @r#"
        endings[1]: "completed", not nothing more
        results[1]: "And done.", not nothing more
        events[5]: "SessionEnd", not nothing more
        reasons[2]: "more", not nothing more
        "#);
    }

    /// Lines wrap at the terminal's width, and expected parts must appear in order.
    #[test]
    fn the_screen_is_read_from_top_to_bottom() {
        let screen = texts(&["held: two tests", "verified", "held: two", "verified"]);
        let expect = ScenarioExpectations { screen, ..ScenarioExpectations::default() };
        let mut check = ExpectationWatcher::new(&expect);
        check.check_screen("  held:\n   two  tests fail\n● verified\n");
        let missed: Vec<_> = check.mismatches.iter().map(|missed| missed.what.as_str()).collect();
        assert_eq!(missed, ["screen[2]", "screen[3]"]);
    }

    #[test]
    fn the_output_of_a_plan_is_read_in_order() {
        let output = texts(&["red a", "wrote", "red a"]);
        let expect = ScenarioExpectations { output, ..ScenarioExpectations::default() };
        let mut check = ExpectationWatcher::new(&expect);
        check.check_output("  red   a\nwrote it\n");
        let missed: Vec<_> =
            check.mismatches.iter().map(|missed| (&*missed.what, &*missed.found)).collect();
        assert_eq!(missed, [("output[2]", "\" it\"")]);
    }

    #[test]
    fn compares_the_output_of_commands() {
        let says = [("echo one", "one\n"), ("echo two", "2\n")];
        let says = says.map(|(command, said)| (command.to_owned(), said.to_owned())).into();
        let expect = ScenarioExpectations { says, ..ScenarioExpectations::default() };
        let mut check = ExpectationWatcher::new(&expect);
        check.check_command_output(|command| format!("{}\n", command.trim_start_matches("echo ")));
        let missed: Vec<_> = check
            .mismatches
            .iter()
            .map(|miss| [&miss.what, &miss.expected, &miss.found].map(String::as_str))
            .collect();
        assert_eq!(missed, [["says.echo two", r#""2\n""#, r#""two\n""#]]);
    }

    /// A loop of ten thousand turns gives five mismatches, not ten thousand.
    #[test]
    fn keeps_only_the_first_mismatches_of_a_kind() {
        let expect = ScenarioExpectations {
            events: Some(texts(&[])),
            reasons: Some(vec!["never".to_owned(); 20]),
            exit: Some(0),
            ..ScenarioExpectations::default()
        };
        let entries = vec![hook("Stop", blocked(&["no"])); 20];
        let (counts, missed) = judged(&expect, &entries);
        assert_eq!(counts.blocks, 20);
        let kinds = missed.lines().map(|line| line.split(['[', ':']).next().unwrap());
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == "events").count(), MAX_PER_EXPECTATION);
        assert_eq!(kinds.iter().filter(|kind| **kind == "reasons").count(), MAX_PER_EXPECTATION);
        // A client that never exited has no exit code.
        assert_eq!(missed.lines().last(), Some("exit: 0, not nothing"));
    }

    #[test]
    fn counts_events_of_all_runners_and_keeps_the_last_status_of_the_first() {
        let told = |runner: usize, told: Value| TimelineEntry::Run { runner, told };
        let ended = |status: &str| json!({"event": "ended", "status": status, "standing": {"iteration": 2, "sessions": 3}});
        let story = [
            told(0, json!({"event": "held", "reason": "the tests fail"})),
            told(0, json!({"event": "tool"})),
            told(0, ended("rate_limited")),
            told(0, ended("verified")),
            told(1, ended("stuck")),
            told(1, json!("no event")),
            told(1, json!({"event": "standing", "spent_usd": 0.5})),
            told(0, json!({"event": "standing", "spent_usd": 0.1})),
            told(0, json!({"event": "standing", "spent_usd": 0.1})),
            TimelineEntry::Exit { code: 0 },
        ];
        let true_of_it = ScenarioExpectations {
            status: Some("verified".to_owned()),
            iterations: Some(2),
            sessions: Some(3),
            blocks: Some(1),
            reasons: Some(texts(&["tests"])),
            told: [("held", 1), ("ended", 3), ("waiting", 0)]
                .map(|(name, count)| (name.to_owned(), count))
                .into(),
            ..ScenarioExpectations::default()
        };
        assert_eq!(judged(&true_of_it, &story).1, "");
        let wrong = ScenarioExpectations {
            status: Some("claimed".to_owned()),
            iterations: Some(1),
            sessions: Some(1),
            told: [("held".to_owned(), 2)].into(),
            ..ScenarioExpectations::default()
        };
        insta::assert_snapshot!(judged(&wrong, &story).1, @"
        status: claimed, not verified
        iterations: 1, not 2
        sessions: 1, not 3
        told.held: 2, not 1
        ");
        let less = [told(0, json!({"event": "standing", "spent_usd": 0.2})), story[8].clone()];
        insta::assert_snapshot!(judged(&ScenarioExpectations::default(), &less).1, @"spent: at least 0.2, not 0.1");
        insta::assert_snapshot!(judged(&wrong, &[]).1, @"
        status: claimed, not nothing
        iterations: 1, not nothing
        sessions: 1, not nothing
        told.held: 2, not 0
        ");
    }
}
