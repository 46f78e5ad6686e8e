//! provisional
use ralph_core::drive::Cause;
use ralph_core::record::{Entry, Run};
use ralph_core::redact::Redactor;
use ralph_core::run::State;
#[derive(Debug)]
pub struct Handoff<'a> {
    pub goal: &'a str,
    pub run: &'a Run,
    pub state: &'a State,
    pub entries: &'a [Entry],
    pub changed: &'a [String],
    pub commits: &'a [String],
    pub learnings: &'a [String],
    pub notes: Option<&'a str>,
    pub why: &'a str,
    pub nonce: u64,
}
pub fn text(handoff: &Handoff<'_>, _: &Redactor) -> String {
    format!("{}\nnotes: {:?}\nwhy: {}", handoff.goal, handoff.notes, handoff.why)
}
pub fn request() -> &'static str {
    "Write notes for whoever goes on."
}
pub fn nudge() -> &'static str {
    "ralph: nothing was heard of you for a while. Go on with the work."
}
pub fn after_break(answer: Option<&str>) -> String {
    format!("ralph: go on. {}", answer.unwrap_or(""))
}
pub fn after_wait(why: &str) -> String {
    format!("ralph: the wait is over: {why}")
}
pub fn after_weather(cause: Cause, answer: Option<&str>) -> String {
    format!("ralph: {} is over, go on. {}", cause.name(), answer.unwrap_or(""))
}
pub fn answered(question: &str, said: &str) -> String {
    format!("ralph: you asked: {question}\nA person says: {said}")
}
pub fn after_checks(what: &str) -> String {
    format!("ralph: the checks of the pull request fail: {what}")
}
