//! Scenario files: any text is parsed, or its mistakes are reported at valid positions; a parsed scenario survives a
//! round trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_sim::scenario::{self, ScenarioError};
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let place = Path::new("scenario.toml");
    match scenario::parse(text, place) {
        Ok(read) => {
            let written = scenario::write(&read);
            match scenario::parse(&written, place) {
                Ok(again) => assert_eq!(again, read, "{written}"),
                Err(error) => panic!("{error:?}\n{written}"),
            }
        }
        Err(ScenarioError::Invalid(problems)) => {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!(problem.span.start <= problem.span.end && problem.span.end <= text.len());
            }
        }
        Err(ScenarioError::NotText(_) | ScenarioError::File(_)) => {}
    }
});
