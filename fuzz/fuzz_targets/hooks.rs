//! The simulated client: any hook output and any settings are either understood or ignored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_sim::answer::{self, Exit, Output, Verdict};
use ralph_sim::replay::Payload;
use ralph_sim::settings::{self, Layer, Source};

const EVENTS: [&str; 6] =
    ["Stop", "SubagentStop", "PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart"];

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (stdout, stderr) = text.split_once('\0').unwrap_or((&text, ""));
    for event in EVENTS {
        for exit in [Exit::Code(0), Exit::Code(1), Exit::Code(2), Exit::Signal(9), Exit::TimedOut] {
            answers(&Output { event, exit: &exit, stdout, stderr });
        }
    }
    loads(stdout);
    drop(Payload::read(data));
});

fn answers(output: &Output<'_>) {
    let answer = answer::read(output);
    let is_block = matches!(answer.verdict, Verdict::Block { .. });
    let is_plain = !stdout_is_object(output.stdout);
    match output.exit {
        Exit::TimedOut => assert_eq!(answer.verdict, Verdict::TimedOut),
        // Plain text does not block.
        Exit::Code(0 | 1) | Exit::Signal(_) if is_plain => assert!(!is_block, "{output:?}"),
        // Exit code 2 blocks a stop, except for an error about a missing file without stdout.
        Exit::Code(2) if is_plain && output.event == "Stop" && !output.stdout.trim().is_empty() => {
            assert!(is_block, "{output:?}");
        }
        Exit::Code(_) | Exit::Signal(_) | Exit::NotStarted(_) | Exit::Lost => {}
    }
    if let Verdict::Block { reason, .. } = &answer.verdict {
        assert!(!reason.is_empty(), "{output:?}");
    }
    if let Some(context) = &answer.context {
        let (answer::Context::Additional(text) | answer::Context::Stdout(text)) = context;
        let delivered = answer::deliver(text).wording("/a/file");
        assert!(delivered.chars().count() <= text.chars().count().max(3000));
    }
}

fn stdout_is_object(stdout: &str) -> bool {
    stdout.trim_start_matches('\u{feff}').trim().trim_start_matches('\u{feff}').starts_with('{')
}

fn loads(text: &str) {
    let root = "/plugin".to_owned();
    let plugin = Source::Plugin { name: "p".to_owned(), marketplace: "inline".to_owned(), root };
    let layers = [Layer { source: Source::Project, text }, Layer { source: plugin, text }];
    let loaded = settings::load(&layers);
    for event in EVENTS {
        for hook in loaded.handlers(event, Some("Bash")) {
            assert!(loaded.limit(hook).is_finite());
        }
    }
}
