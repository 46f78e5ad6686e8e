//! Handles the lines of the driver: prompts, answers and control requests.

use super::hook_callbacks::RegisteredCallback;
use super::process::{
    FakeClientProcess, PromptPriority, QueuedPrompt, ReceivedInput, TurnBreak, resolve_model,
};
use crate::model_answer::content_text;
use crate::scenario::DEFAULT_AGENT_TYPE;
use crate::transcript::CLIENT_VERSION;
use serde_json::{Value, json};

/// Context window of the client's models, in tokens.
pub(super) const CONTEXT_WINDOW: u64 = 1_000_000;

impl FakeClientProcess<'_> {
    pub(super) fn handle_line(&mut self, mut line: Value) -> Result<ReceivedInput, TurnBreak> {
        match line["type"].as_str() {
            Some("user") => {
                let priority = match line["priority"].as_str() {
                    Some("later") => PromptPriority::Later,
                    Some(_) | None => PromptPriority::Next,
                };
                let text = content_text(&line["message"]["content"]).unwrap_or_default();
                let id = line["uuid"].as_str().map(str::to_owned);
                let prompt = QueuedPrompt { text, priority, task_run_id: None, id };
                self.write_lifecycle(&prompt, "queued")?;
                self.queue.push_back(prompt);
                Ok(ReceivedInput::Handled)
            }
            Some("control_response") => {
                let response = &mut line["response"];
                let id = response["request_id"].as_str().unwrap_or_default().to_owned();
                let answer = match response["subtype"].as_str() {
                    Some("success") => Ok(response["response"].take()),
                    Some(_) | None => Err(content_text(&response["error"]).unwrap_or_default()),
                };
                Ok(ReceivedInput::Answer(id, answer))
            }
            Some("control_request") => self.handle_control_request(&line),
            // The client ignores unknown lines.
            Some(_) | None => Ok(ReceivedInput::Handled),
        }
    }

    fn handle_control_request(&mut self, line: &Value) -> Result<ReceivedInput, TurnBreak> {
        let request = &line["request"];
        let id = line["request_id"].as_str().unwrap_or_default();
        let kind = request["subtype"].as_str().unwrap_or_default();
        let answer = match kind {
            "initialize" => match RegisteredCallback::parse_all(&request["hooks"]) {
                Ok(hooks) => {
                    self.hooks = hooks;
                    self.initialize_response()
                }
                Err(why) => return self.reject_control_request(id, why),
            },
            "interrupt" => {
                self.cancel_open_requests()?;
                json!({"still_queued": []})
            }
            "get_context_usage" => self.context_usage(),
            "get_session_cost" => json!({"text": self.session_cost_text()}),
            "set_model" => {
                self.model = resolve_model(request["model"].as_str().unwrap_or("default"));
                let text = format!("Set model to `{}`", self.model);
                let content = format!("<local-command-stdout>{text}</local-command-stdout>");
                self.write_message(json!({
                    "type": "user",
                    "message": {"role": "user", "content": content},
                    "parent_tool_use_id": null,
                    "isReplay": true,
                }))?;
                json!({"model": self.model})
            }
            "set_permission_mode" => {
                let mode = request["mode"].as_str().unwrap_or("default").to_owned();
                self.options.flags.permission_mode = Some(mode.clone());
                json!({"mode": mode})
            }
            "end_session" => json!({}),
            other => {
                return self.reject_control_request(
                    id,
                    &format!("Unsupported control request subtype: {other}"),
                );
            }
        };
        let mut response = json!({
            "type": "control_response",
            "response": {"subtype": "success", "request_id": id, "response": answer},
        });
        if kind == "initialize" {
            response["response"]["pending_permission_requests"] = json!([]);
            response["response"]["pending_user_dialog_requests"] = json!([]);
        }
        self.write_line(&response)?;
        Ok(if kind == "interrupt" { ReceivedInput::Interrupt } else { ReceivedInput::Handled })
    }

    fn reject_control_request(&mut self, id: &str, why: &str) -> Result<ReceivedInput, TurnBreak> {
        self.write_line(&json!({
            "type": "control_response",
            "response": {"subtype": "error", "request_id": id, "error": why},
        }))?;
        Ok(ReceivedInput::Handled)
    }

    fn initialize_response(&self) -> Value {
        let styles = self.options.home.join(".claude/output-styles");
        json!({
            "commands": [{"name": "compact", "description": "", "argumentHint": "", "builtin": true}],
            "agents": [{"name": DEFAULT_AGENT_TYPE, "description": ""}],
            "output_style": "default",
            "available_output_styles": ["default"],
            "user_output_styles_dir": styles.to_string_lossy(),
            "models": [{
                "value": "default",
                "resolvedModel": crate::transcript::DEFAULT_MODEL,
                "displayName": "Default (recommended)",
                "description": "",
            }],
            "account": {"tokenSource": "none", "apiKeySource": "ANTHROPIC_API_KEY", "apiProvider": "firstParty"},
            "pid": self.options.pid,
            "claude_code_version": CLIENT_VERSION,
            "current_permission_mode": self.permission_mode(),
            "hooks_applied": true,
            "hook_on_failure_supported": true,
            "other_hook_ask_outranks_host": true,
            "feedback_mode": {"kind": "disabled"},
            "analytics_disabled": true,
            "remote_control_auto_enable": false,
            "remote_control_auto_connect_default": false,
            "remote_control_available": false,
            "remote_control_auto_on_by_default": false,
            "ide_rc_auto_enable_gate": false,
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
            "session_state": "idle",
            "capabilities": ["interrupt_receipt_v1"],
        })
    }

    /// Cancels all requests that the driver has not answered.
    pub(super) fn cancel_open_requests(&mut self) -> Result<(), TurnBreak> {
        for id in std::mem::take(&mut self.open_requests) {
            self.write_line(&json!({"type": "control_cancel_request", "request_id": id}))?;
        }
        Ok(())
    }

    #[expect(clippy::integer_division, reason = "the client reports whole percents")]
    fn context_usage(&self) -> Value {
        let used = self.context.min(CONTEXT_WINDOW);
        let category = |id: &str, name: &str, tokens: u64, kind: &str| json!({"id": id, "name": name, "tokens": tokens, "color": "inactive", "kind": kind});
        json!({
            "categories": [
                category("messages", "Messages", used, "used"),
                category("free_space", "Free space", CONTEXT_WINDOW - used, "free"),
            ],
            "totalTokens": used,
            "maxTokens": CONTEXT_WINDOW,
            "rawMaxTokens": CONTEXT_WINDOW,
            "autocompactSource": "model-default",
            "percentage": used * 100 / CONTEXT_WINDOW,
            "gridRows": [],
            "model": self.model,
        })
    }
}
