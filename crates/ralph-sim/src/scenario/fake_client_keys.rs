//! Reads the keys that only the fake client supports: crashes, hangs and rate limits.

use super::scenario_parser::ScenarioReader;
use super::{ScriptedRateLimit, TurnHang, TurnMishap, file_format};
use toml::Spanned;

/// Default type and status of a rate limit.
pub(super) const DEFAULT_LIMIT_TYPE: &str = "five_hour";
pub(super) const DEFAULT_LIMIT_STATUS: &str = "rejected";
const LIMIT_STATUSES: [&str; 3] = ["allowed", "allowed_warning", DEFAULT_LIMIT_STATUS];

impl ScenarioReader {
    pub(super) fn reject_fake_client_keys(&mut self, file: &file_format::ScenarioFile) {
        let is_typed =
            |step: &file_format::ScenarioStepToml| step.person.is_some() || step.shell.is_some();
        let is_silent = !file.step.iter().any(|step| is_typed(step.as_ref()));
        if is_silent && file.runner.is_none() {
            let hint = "begin with a `[[step]]` that has `person = \"…\"`";
            self.add_problem(0..0, "this scenario has no prompt".to_owned(), Some(hint));
        }
        let inner = file.subagent.iter().chain(&file.evaluator).flat_map(|agent| &agent.step);
        for step in file.step.iter().chain(inner).map(Spanned::as_ref) {
            let unreached = step.error.as_ref().filter(|error| *error.status.as_ref() == 0);
            // The real client reports rate limits too, if a runner drives it.
            let limit = step.rate_limit.as_ref().filter(|_| file.runner.is_none());
            let spans = [
                step.crash.as_ref().map(Spanned::span),
                step.hang.as_ref().map(Spanned::span),
                limit.map(Spanned::span),
                unreached.map(|error| error.status.span()),
            ];
            for span in spans.into_iter().flatten() {
                let message = "only the fake client supports this".to_owned();
                self.add_problem(span, message, Some("set `only = \"pretend\"`"));
            }
        }
    }

    pub(super) fn read_mishap(
        &mut self,
        crash: Option<&Spanned<file_format::TurnCrashToml>>,
        hang: Option<&Spanned<TurnHang>>,
    ) -> TurnMishap {
        match (crash.map(Spanned::as_ref), hang) {
            (None, None) => TurnMishap::None,
            (Some(file_format::TurnCrashToml::Killed(at)), None) => {
                TurnMishap::Crash { at: *at, exit: None }
            }
            (Some(file_format::TurnCrashToml::Exits(exits)), None) => {
                TurnMishap::Crash { at: exits.at, exit: Some(exits.exit) }
            }
            (None, Some(hang)) => TurnMishap::Hang(*hang.as_ref()),
            (Some(_), Some(hang)) => {
                let message = "a turn cannot both crash and hang".to_owned();
                self.add_problem(hang.span(), message, Some("use either `crash` or `hang`"));
                TurnMishap::None
            }
        }
    }

    pub(super) fn read_rate_limit(
        &mut self,
        limit: file_format::ScriptedRateLimitToml,
    ) -> ScriptedRateLimit {
        if let Some(status) = &limit.status {
            self.require_one_of(status, &LIMIT_STATUSES, "rate limit status");
        }
        ScriptedRateLimit {
            status: limit
                .status
                .map_or_else(|| DEFAULT_LIMIT_STATUS.to_owned(), Spanned::into_inner),
            kind: limit.r#type.unwrap_or_else(|| DEFAULT_LIMIT_TYPE.to_owned()),
            resets_in_ms: limit.resets_in_ms,
            used_percent: limit.used_percent,
        }
    }
}
