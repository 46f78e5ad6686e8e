//! Whether a scenario came true. It looks on while it is played and keeps only what does not fit, so that it is as small
//! after ten thousand turns as after one.

use crate::scenario::Expect;
use crate::stage::Stage;
use crate::timeline::{Effect, Entry, Hook};
use ralph_exec::fs;
use serde::Serialize;

const LARGEST: usize = 16 * 1024 * 1024;
/// Of one kind; the first say enough.
const MOST: usize = 5;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// How often the model was asked, all agents together.
    pub requests: u64,
    /// How often the agent wanted to stop.
    pub stops: u64,
    /// How often it had to go on.
    pub blocks: u64,
    /// How often the client let go although it was held.
    pub overridden: u64,
    pub tools: u64,
    pub hooks: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// The key of the expectation, with a place where it is a list.
    pub what: String,
    pub expected: String,
    pub found: String,
}

#[derive(Debug)]
pub struct Check<'a> {
    expect: &'a Expect,
    pub counts: Counts,
    endings: usize,
    events: usize,
    exit: Option<i32>,
    mismatches: Vec<Mismatch>,
}

impl<'a> Check<'a> {
    pub fn new(expect: &'a Expect) -> Self {
        Self {
            expect,
            counts: Counts::default(),
            endings: 0,
            events: 0,
            exit: None,
            mismatches: Vec::new(),
        }
    }

    pub fn watch(&mut self, entry: &Entry) {
        match entry {
            Entry::Request(_) => self.counts.requests += 1,
            Entry::Hook(hook) => self.hook(hook),
            Entry::Tool(_) => self.counts.tools += 1,
            Entry::Ending(ending) => {
                let place = self.endings;
                self.endings += 1;
                self.compare(("endings", self.expect.endings.as_ref()), place, &ending.reason);
                self.compare(("results", self.expect.results.as_ref()), place, &ending.result);
            }
            Entry::Exit { code } => self.exit = Some(*code),
            Entry::Prompt { .. } | Entry::Reply(_) | Entry::Notice { .. } => {}
        }
    }

    fn hook(&mut self, hook: &Hook) {
        self.counts.hooks += hook.handlers.len() as u64;
        let place = self.events;
        self.events += 1;
        self.compare(("events", self.expect.events.as_ref()), place, &hook.event);
        if hook.event != "Stop" {
            return;
        }
        self.counts.stops += 1;
        match &hook.effect {
            Effect::Blocked { reasons } => self.held(&reasons.join("\n")),
            Effect::Continued { context } => self.held(&context.join("\n")),
            Effect::Overridden { .. } => self.counts.overridden += 1,
            Effect::Allowed | Effect::Stopped { .. } => {}
        }
    }

    fn held(&mut self, reason: &str) {
        let place = usize::try_from(self.counts.blocks).unwrap_or(usize::MAX);
        self.counts.blocks += 1;
        let Some(part) = self.expect.reasons.as_ref().and_then(|parts| parts.get(place)) else {
            return;
        };
        if !reason.contains(part.as_str()) {
            let expected = format!("something with {part:?}");
            self.miss(format!("reasons[{place}]"), expected, format!("{reason:?}"));
        }
    }

    fn compare(&mut self, expected: (&str, Option<&Vec<String>>), place: usize, found: &str) {
        let (what, Some(expected)) = expected else { return };
        let wanted = expected.get(place);
        if wanted.is_none_or(|wanted| wanted != found) {
            let expected = wanted.map_or_else(|| "nothing more".to_owned(), |it| format!("{it:?}"));
            self.miss(format!("{what}[{place}]"), expected, format!("{found:?}"));
        }
    }

    fn miss(&mut self, what: String, expected: String, found: String) {
        let kind = |what: &str| what.split('[').next().unwrap_or_default().to_owned();
        let same = self.mismatches.iter().filter(|other| kind(&other.what) == kind(&what));
        if same.count() < MOST {
            self.mismatches.push(Mismatch { what, expected, found });
        }
    }

    /// What did not come true, now that it is over.
    pub fn finish(mut self, stage: &Stage) -> (Counts, Vec<Mismatch>) {
        let expect = self.expect;
        let Counts { requests, stops, blocks, .. } = self.counts;
        let numbers = [
            ("stops", expect.stops, stops),
            ("blocks", expect.blocks, blocks),
            ("requests", expect.requests, requests),
        ];
        for (what, expected, found) in numbers {
            if let Some(expected) = expected.filter(|expected| *expected != found) {
                self.miss(what.to_owned(), expected.to_string(), found.to_string());
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
                self.miss(
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
            self.miss("exit".to_owned(), expected.to_string(), found);
        }
        self.files(stage);
        (self.counts, self.mismatches)
    }

    fn files(&mut self, stage: &Stage) {
        for (name, text) in &self.expect.files {
            let found = match fs::read_opt(&stage.project.join(name), LARGEST) {
                Ok(Some(bytes)) if bytes == text.as_bytes() => continue,
                Ok(Some(bytes)) => format!("{:?}", String::from_utf8_lossy(&bytes)),
                Ok(None) => "no such file".to_owned(),
                Err(error) => error.to_string(),
            };
            self.miss(format!("files.{name}"), format!("{text:?}"), found);
        }
        for name in &self.expect.absent {
            if fs::stat_link(&stage.project.join(name)).is_some() {
                self.miss(
                    format!("absent.{name}"),
                    "no such file".to_owned(),
                    "it is there".to_owned(),
                );
            }
        }
    }
}
