//! The learnings of a project.

use crate::learning::Learning;
use ralph_core::id::RunId;
use ralph_sys::clock;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct LearningView<'a> {
    pub id: &'a str,
    pub title: &'a str,
    pub run: Option<&'a str>,
    pub project: &'a str,
    pub at: String,
    pub path: String,
    pub text: &'a str,
}

#[derive(Debug, Serialize)]
pub struct LearningSavedView<'a> {
    pub v: u8,
    pub new: bool,
    #[serde(flatten)]
    pub learning: LearningView<'a>,
}

#[derive(Debug, Serialize)]
pub struct LearningListView<'a> {
    pub v: u8,
    pub project: String,
    pub learnings: Vec<LearningView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct LearningForgottenView<'a> {
    pub v: u8,
    pub forgotten: &'a str,
}

pub fn learning_view(learning: &Learning) -> LearningView<'_> {
    LearningView {
        id: &learning.id,
        title: &learning.title,
        run: learning.run.as_ref().map(RunId::as_str),
        project: &learning.project,
        at: clock::format_rfc3339(learning.at_ms),
        path: learning.path.display().to_string(),
        text: &learning.text,
    }
}
