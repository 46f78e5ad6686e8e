//! Reads the keys that only the fake client supports: crashes, hangs and rate limits.

use super::read::Reader;
use super::{Hang, Mishap, Point, RateLimit, raw};
use toml::Spanned;

/// Default type and status of a rate limit.
pub(super) const USUAL_LIMIT: &str = "five_hour";
pub(super) const REJECTED: &str = "rejected";
const STATUSES: [&str; 3] = ["allowed", "allowed_warning", REJECTED];

impl Reader {
    pub(super) fn nothing_of_a_pretended_client(&mut self, file: &raw::File) {
        let is_silent = file.step.iter().all(|step| step.as_ref().person.is_none());
        if is_silent && file.runner.is_none() {
            let hint = "begin with a `[[step]]` that has `person = \"…\"`";
            self.problem(0..0, "this scenario has no prompt".to_owned(), Some(hint));
        }
        let inner = file.subagent.iter().flat_map(|agent| &agent.step);
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
                self.problem(span, message, Some("set `only = \"pretend\"`"));
            }
        }
    }

    pub(super) fn mishap(
        &mut self,
        crash: Option<&Spanned<raw::Crash>>,
        hang: Option<&Spanned<raw::Hang>>,
    ) -> Mishap {
        let point = |point: raw::Point| match point {
            raw::Point::Answer => Point::Answer,
            raw::Point::Tools => Point::Tools,
            raw::Point::Stop => Point::Stop,
            raw::Point::Result => Point::Result,
            raw::Point::Idle => Point::Idle,
        };
        match (crash.map(Spanned::as_ref), hang) {
            (None, None) => Mishap::None,
            (Some(raw::Crash::Killed(at)), None) => Mishap::Crash { at: point(*at), exit: None },
            (Some(raw::Crash::Exits(exits)), None) => {
                Mishap::Crash { at: point(exits.at), exit: Some(exits.exit) }
            }
            (None, Some(hang)) => Mishap::Hang(match hang.as_ref() {
                raw::Hang::Answer => Hang::Answer,
                raw::Hang::Client => Hang::Client,
            }),
            (Some(_), Some(hang)) => {
                let message = "a turn cannot both crash and hang".to_owned();
                self.problem(hang.span(), message, Some("use either `crash` or `hang`"));
                Mishap::None
            }
        }
    }

    pub(super) fn rate_limit(&mut self, limit: raw::RateLimit) -> RateLimit {
        if let Some(status) = &limit.status {
            self.one_of(status, &STATUSES, "rate limit status");
        }
        RateLimit {
            status: limit.status.map_or_else(|| REJECTED.to_owned(), Spanned::into_inner),
            kind: limit.r#type.unwrap_or_else(|| USUAL_LIMIT.to_owned()),
            resets_in_ms: limit.resets_in_ms,
            used_percent: limit.used_percent,
        }
    }
}
