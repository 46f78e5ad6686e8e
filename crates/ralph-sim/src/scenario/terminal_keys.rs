//! Keys for scenarios that are played at a terminal.

use super::scenario_parser::ScenarioReader;
use super::{ScenarioStep, ScreenStep, ShellStep, TypedAnswer, file_format};
use std::ops::Range;

impl ScenarioReader {
    pub(super) fn reject_terminal_keys(&mut self, file: &file_format::ScenarioFile) {
        let key = |step: &file_format::ScenarioStepToml| {
            let shell = step.shell.is_some().then_some("shell");
            step.screen.is_some().then_some("screen").or(shell)
        };
        let steps = file.step.iter().filter_map(|step| Some((key(step.as_ref())?, step.span())));
        let expected = file.expect.screen.as_ref().map(|screen| ("screen", screen.span()));
        for (key, span) in steps.chain(expected) {
            let message = format!("`{key}` needs a terminal");
            self.add_problem(span, message, Some("set `only = \"terminal\"`"));
        }
    }

    pub(super) fn reject_stray_input(
        &mut self,
        step: &file_format::ScenarioStepToml,
        span: Range<usize>,
    ) {
        if step.keys.is_some() && step.screen.is_none() {
            let message = "`keys` are pressed once the terminal shows a text".to_owned();
            self.add_problem(span.clone(), message, Some("add `screen`, the text to wait for"));
        }
        let is_asked = step.shell.is_some() && step.asks.is_some();
        if step.asks.is_some() != step.answer.is_some() || (step.asks.is_some() && !is_asked) {
            let message = "`asks` and `answer` are for one question of a `shell` command";
            let hint = "use both beside `shell`, or neither";
            self.add_problem(span, message.to_owned(), Some(hint));
        }
    }
}

pub(super) fn read_terminal_step(step: file_format::ScenarioStepToml) -> Option<ScenarioStep> {
    let question = step.asks.zip(step.answer);
    let answer = question.map(|(question, text)| TypedAnswer { question, text });
    let shell = step.shell.map(|command| ShellStep { command, answer });
    let keys = step.keys.unwrap_or_default();
    let screen = step.screen.map(|text| ScreenStep { text, keys });
    shell.map(ScenarioStep::Shell).or(screen.map(ScenarioStep::Screen))
}
