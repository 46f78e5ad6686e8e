//! Reads `go test -json`: one event per line, and the compiler's messages between them.

use super::locate::{self, Spot};
use super::text::General;
use super::{Context, Draft, Found, doubt_about, lines, place};
use ralph_core::gate::{Reading, Tests};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;

const MOST_TESTS: usize = 20_000;
/// Lines that are kept of one test's output.
const MOST_LINES: usize = 60;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event<'a> {
    #[serde(borrow)]
    action: Cow<'a, str>,
    #[serde(borrow, default)]
    package: Cow<'a, str>,
    #[serde(borrow, default)]
    test: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    output: Cow<'a, str>,
}

#[derive(Default)]
struct Course {
    said: HashMap<(String, String), Vec<String>>,
    /// Number of findings reported for each package.
    told: HashMap<String, u32>,
    tests: Tests,
    events: u64,
}

pub(super) fn read(text: &str, context: &Context<'_>) -> Reading {
    let mut found = Found::new(context);
    let mut course = Course::default();
    let mut compiler = General::default();
    for line in text.split('\n') {
        if line.starts_with('{')
            && let Ok(event) = serde_json::from_str::<Event<'_>>(line)
        {
            course.events += 1;
            if event.action == "build-output" {
                lines(event.output.trim_end()).for_each(|line| compiler.line(&line, &mut found));
            } else {
                course.event(&event, &mut found);
            }
            continue;
        }
        lines(line).for_each(|line| compiler.line(&line, &mut found));
    }
    compiler.end(&mut found);
    let tests = (course.events > 0).then_some(course.tests);
    let doubt = match tests {
        None => Some("the output contains no `go test` event"),
        Some(tests) => doubt_about(tests),
    };
    found.into_reading(tests, doubt)
}

impl Course {
    fn event(&mut self, event: &Event<'_>, found: &mut Found<'_>) {
        let test = event.test.as_deref().unwrap_or_default();
        match (&*event.action, test.is_empty()) {
            ("output", _) => self.output(event, test),
            ("pass", false) => {
                self.tests.run = self.tests.run.saturating_add(1);
                self.said.remove(&key(event, test));
            }
            ("skip", false) => {
                self.tests.skipped = self.tests.skipped.saturating_add(1);
                self.said.remove(&key(event, test));
            }
            ("fail", false) => {
                self.tests.run = self.tests.run.saturating_add(1);
                self.tests.failed = self.tests.failed.saturating_add(1);
                self.failed(event, test, found);
            }
            // A package fails because of its tests. It is reported itself only if no test failed.
            ("fail", true) if found.is_empty() && !self.told.contains_key(&*event.package) => {
                self.failed(event, test, found);
            }
            _ => {}
        }
    }

    fn output(&mut self, event: &Event<'_>, test: &str) {
        let line = event.output.trim_end();
        let is_noise = line.starts_with("=== ") || line.trim_start().starts_with("--- ");
        if line.is_empty() || is_noise {
            return;
        }
        if self.said.len() >= MOST_TESTS && !self.said.contains_key(&key(event, test)) {
            return;
        }
        let kept = self.said.entry(key(event, test)).or_default();
        if kept.len() < MOST_LINES {
            kept.extend(lines(line).map(Cow::into_owned));
        }
    }

    fn failed(&mut self, event: &Event<'_>, test: &str, found: &mut Found<'_>) {
        let output = self.said.remove(&key(event, test)).unwrap_or_default();
        let reported = self.told.entry(event.package.to_string()).or_default();
        // A test fails together with its subtests, usually without output of its own.
        if output.is_empty() && *reported > 0 {
            return;
        }
        *reported = reported.saturating_add(1);
        let located = output.iter().find_map(|line| {
            locate::first(line).filter(|located| located.before.trim().is_empty())
        });
        let own = output.iter().find_map(|line| {
            let located = locate::first(line)?;
            (located.spot.file.contains('/') && place::is_own(located.spot.file, found.context))
                .then_some(located.spot)
        });
        let panic = output.iter().find(|line| line.starts_with("panic: "));
        let message = match (panic, located) {
            (Some(panic), _) => panic.clone(),
            (None, Some(located)) => located.after.trim_start_matches([':', ' ']).to_owned(),
            (None, None) => output.last().cloned().unwrap_or_default(),
        };
        let spot = if panic.is_some() { own } else { located.map(|located| located.spot) };
        let file = spot.map(|spot| file(spot.file, &event.package));
        let rule = if test.is_empty() { &*event.package } else { test };
        found.add(&Draft {
            spot: file.as_deref().zip(spot).map(|(file, spot)| Spot { file, ..spot }),
            rule,
            message: if message.is_empty() { "the test failed" } else { &message },
            ..Draft::default()
        });
    }
}

fn key(event: &Event<'_>, test: &str) -> (String, String) {
    (event.package.to_string(), test.to_owned())
}

/// Adds the package's directory to a file name, because go names a test's file without it. The root of the module is
/// known only for hosts with a fixed path layout; for others, the whole import path is kept.
fn file(name: &str, package: &str) -> String {
    if name.contains('/') {
        return name.to_owned();
    }
    let mut parts = package.split('/');
    let host = parts.clone().next().unwrap_or_default();
    if matches!(host, "github.com" | "gitlab.com" | "bitbucket.org" | "codeberg.org") {
        let rest: Vec<_> = parts.by_ref().skip(3).filter(|part| !is_major(part)).collect();
        return rest.into_iter().chain([name]).collect::<Vec<_>>().join("/");
    }
    format!("{package}/{name}")
}

/// `v2`
fn is_major(part: &str) -> bool {
    part.strip_prefix('v').is_some_and(|number| number.parse::<u32>().is_ok())
}
