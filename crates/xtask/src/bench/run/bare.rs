//! The client without ralph: a callback holds every stop at once. The baseline of the benchmark.

use super::stage::Stage;
use anyhow::Result;
use ralph_sys::clock::Deadline;
use ralph_sys::proc::talk::{Heard, Talk};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const SAY: Duration = Duration::from_secs(10);
const FLAGS: [&str; 6] =
    ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];

/// A running client. Its process ends on drop.
pub(super) struct Bare {
    sender: Sender<Word>,
    host: Option<JoinHandle<()>>,
}

enum Word {
    Heard(Heard),
    Over,
}

impl Bare {
    pub(super) fn start(stage: &Stage, model: &str) -> Result<Self> {
        let (sender, words) = mpsc::channel();
        let theirs = sender.clone();
        let mut argv: Vec<OsString> = vec![stage.client.clone().into()];
        argv.extend(FLAGS.map(OsString::from));
        let mut talk = stage.start(&argv, Some(model), move |heard| {
            theirs.send(Word::Heard(heard)).ok();
        })?;
        let stop = json!([{ "matcher": null, "hookCallbackIds": ["stop"] }]);
        let request = json!({ "subtype": "initialize", "hooks": { "Stop": stop } });
        let start = json!({ "type": "control_request", "request_id": "start", "request": request });
        let message = json!({ "role": "user", "content": "Work until you are let go." });
        let user = json!({
            "type": "user", "message": message, "parent_tool_use_id": null, "session_id": ""
        });
        say(&mut talk, &start)?;
        say(&mut talk, &user)?;
        let host = thread::spawn(move || hold(talk, &words));
        Ok(Self { sender, host: Some(host) })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.sender.send(Word::Over).ok();
        if let Some(host) = self.host.take() {
            host.join().ok();
        }
    }
}

fn say(talk: &mut Talk, line: &Value) -> Result<()> {
    talk.say(format!("{line}\n").as_bytes(), Deadline::after(SAY))?;
    Ok(())
}

fn hold(mut talk: Talk, words: &Receiver<Word>) {
    while let Ok(Word::Heard(Heard::Line(line))) = words.recv() {
        let Ok(line) = serde_json::from_slice::<Value>(&line) else { continue };
        if line["request"]["subtype"] != "hook_callback" {
            continue;
        }
        let context = json!({ "hookEventName": "Stop", "additionalContext": "Go on." });
        let response = json!({
            "subtype": "success",
            "request_id": line["request_id"],
            "response": { "hookSpecificOutput": context },
        });
        // If the client has exited, the benchmark fails when the model gets no request.
        if say(&mut talk, &json!({ "type": "control_response", "response": response })).is_err() {
            return;
        }
    }
}
