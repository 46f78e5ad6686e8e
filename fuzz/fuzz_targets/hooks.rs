//! The simulated client: any hook output and any settings are either understood or ignored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_sim::hook_answer::{self, AddedContext, FinishedHookOutput, HookExit, HookVerdict};
use ralph_sim::hook_settings::{self, HookSettingsFile, HookSettingsSource};
use ralph_sim::replay::HookPayload;

const EVENTS: [&str; 6] =
    ["Stop", "SubagentStop", "PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart"];

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (stdout, stderr) = text.split_once('\0').unwrap_or((&text, ""));
    for event in EVENTS {
        for exit in [
            HookExit::Code(0),
            HookExit::Code(1),
            HookExit::Code(2),
            HookExit::Signal(9),
            HookExit::TimedOut,
        ] {
            answers(&FinishedHookOutput { event, exit: &exit, stdout, stderr });
        }
    }
    loads(stdout);
    drop(HookPayload::parse(data));
});

fn answers(output: &FinishedHookOutput<'_>) {
    let answer = hook_answer::interpret(output);
    let is_block = matches!(answer.verdict, HookVerdict::Block { .. });
    let is_plain = !stdout_is_object(output.stdout);
    match output.exit {
        HookExit::TimedOut => assert_eq!(answer.verdict, HookVerdict::TimedOut),
        // Plain text does not block.
        HookExit::Code(0 | 1) | HookExit::Signal(_) if is_plain => assert!(!is_block, "{output:?}"),
        // Exit code 2 blocks a stop, except for an error about a missing file without stdout.
        HookExit::Code(2) if is_plain && output.event == "Stop" && !is_blank(output.stdout) => {
            assert!(is_block, "{output:?}");
        }
        HookExit::Code(_) | HookExit::Signal(_) | HookExit::NotStarted(_) | HookExit::Lost => {}
    }
    if let HookVerdict::Block { reason, .. } = &answer.verdict {
        assert!(!reason.is_empty(), "{output:?}");
    }
    if let Some(context) = &answer.context {
        let (AddedContext::Additional(text) | AddedContext::Stdout(text)) = context;
        let delivered = hook_answer::deliver(text).delivered_text("/a/file");
        assert!(delivered.chars().count() <= text.chars().count().max(3000));
    }
}

/// As in JavaScript, a byte order mark counts as white space.
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == '\u{feff}')
}

fn stdout_is_object(stdout: &str) -> bool {
    stdout.trim_start_matches('\u{feff}').trim().trim_start_matches('\u{feff}').starts_with('{')
}

fn loads(text: &str) {
    let root = "/plugin".to_owned();
    let plugin =
        HookSettingsSource::Plugin { name: "p".to_owned(), marketplace: "inline".to_owned(), root };
    let layers = [
        HookSettingsFile { source: HookSettingsSource::Project, text },
        HookSettingsFile { source: plugin, text },
    ];
    let loaded = hook_settings::load(&layers);
    for event in EVENTS {
        for handler in loaded.handlers(event, Some("Bash")) {
            assert!(loaded.timeout(handler).is_finite());
        }
    }
}
