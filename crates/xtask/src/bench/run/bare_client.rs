//! The client without ralph: a callback holds every stop at once. The baseline of the benchmark.

use super::runner_stage::RunnerStage;
use anyhow::Result;
use ralph_sys::clock::Deadline;
use ralph_sys::proc::line_process::{LineProcess, LineProcessOutput};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const FLAGS: [&str; 6] =
    ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];

/// A running client. Its process ends on drop.
pub(super) struct BareClient {
    sender: Sender<BareClientEvent>,
    host: Option<JoinHandle<()>>,
}

enum BareClientEvent {
    Heard(LineProcessOutput),
    Over,
}

impl BareClient {
    pub(super) fn start(stage: &RunnerStage, model: &str) -> Result<Self> {
        let (sender, words) = mpsc::channel();
        let theirs = sender.clone();
        let mut argv: Vec<OsString> = vec![stage.client.clone().into()];
        argv.extend(FLAGS.map(OsString::from));
        let mut talk = stage.start_program(&argv, Some(model), move |heard| {
            theirs.send(BareClientEvent::Heard(heard)).ok();
        })?;
        let stop = json!([{ "matcher": null, "hookCallbackIds": ["stop"] }]);
        let request = json!({ "subtype": "initialize", "hooks": { "Stop": stop } });
        let start = json!({ "type": "control_request", "request_id": "start", "request": request });
        let message = json!({ "role": "user", "content": "Work until you are let go." });
        let user = json!({
            "type": "user", "message": message, "parent_tool_use_id": null, "session_id": ""
        });
        send_line(&mut talk, &start)?;
        send_line(&mut talk, &user)?;
        let host = thread::spawn(move || hold_every_stop(talk, &words));
        Ok(Self { sender, host: Some(host) })
    }
}

impl Drop for BareClient {
    fn drop(&mut self) {
        self.sender.send(BareClientEvent::Over).ok();
        if let Some(host) = self.host.take() {
            host.join().ok();
        }
    }
}

fn send_line(talk: &mut LineProcess, line: &Value) -> Result<()> {
    talk.send(format!("{line}\n").as_bytes(), Deadline::after(SEND_TIMEOUT))?;
    Ok(())
}

fn hold_every_stop(mut talk: LineProcess, words: &Receiver<BareClientEvent>) {
    while let Ok(BareClientEvent::Heard(LineProcessOutput::Line(line))) = words.recv() {
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
        if send_line(&mut talk, &json!({ "type": "control_response", "response": response }))
            .is_err()
        {
            return;
        }
    }
}
