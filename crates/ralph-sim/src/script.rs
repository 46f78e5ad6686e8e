//! The scripted answers of the model, in order: one queue for the main conversation and one for each subagent.

use crate::scenario::{Scenario, ScenarioStep, ScriptedSubagent, ScriptedTurn, TurnRepeat};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The answer when a scenario has no turn left: visible, and without a tool call. It is numbered from the second time
/// on, because two identical messages in quick succession can be mistaken for one.
pub const EXHAUSTED: &str = "(The scenario has no more turns.)";

#[derive(Clone, Debug)]
pub struct ModelScript {
    /// The turns after each prompt; the front queue belongs to the current prompt.
    prompts: VecDeque<TurnQueue>,
    agents: Vec<(String, TurnQueue)>,
    evaluators: Vec<(String, TurnQueue)>,
    /// How often a turn was requested and none was left.
    exhausted_count: u32,
    /// The summary that the model returns when the conversation is compacted.
    pub summary: String,
}

#[derive(Clone, Debug, Default)]
struct TurnQueue {
    turns: Vec<ScriptedTurn>,
    at: QueuePosition,
}

/// A position in a list of turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueuePosition {
    /// Number of finished turns.
    turn: usize,
    /// How often the next turn was already taken.
    given: u32,
}

impl QueuePosition {
    /// Takes the next turn, which stays the next one until it was taken as often as it repeats.
    pub(crate) fn take(&mut self, turns: &[ScriptedTurn]) -> Option<ScriptedTurn> {
        let turn = turns.get(self.turn)?;
        self.given += 1;
        let is_over = match turn.repeat {
            TurnRepeat::Times(most) => self.given >= most,
            TurnRepeat::Forever => false,
        };
        if is_over {
            *self = Self { turn: self.turn + 1, given: 0 };
        }
        Some(turn.clone())
    }
}

impl ModelScript {
    pub fn new(scenario: &Scenario) -> Self {
        // Turns before the first prompt belong to it.
        let mut prompts = VecDeque::from([TurnQueue::default()]);
        let mut is_first = true;
        for step in &scenario.steps {
            match step {
                ScenarioStep::Agent(turn) => {
                    if let Some(queue) = prompts.back_mut() {
                        queue.turns.push(turn.clone());
                    }
                }
                ScenarioStep::Person(_) if is_first => is_first = false,
                ScenarioStep::Person(_) => prompts.push_back(TurnQueue::default()),
                ScenarioStep::Session(_) | ScenarioStep::Screen(_) | ScenarioStep::Shell(_) => {}
            }
        }
        let queues = |scripts: &[ScriptedSubagent]| {
            let queues = scripts.iter().map(|script| {
                let queue = TurnQueue { turns: script.turns.clone(), at: QueuePosition::default() };
                (script.prompt.clone(), queue)
            });
            queues.collect()
        };
        Self {
            prompts,
            agents: queues(&scenario.subagents),
            evaluators: queues(&scenario.evaluators),
            exhausted_count: 0,
            summary: scenario.summary.clone(),
        }
    }

    /// Moves on to the next prompt and skips the turns left over from the previous one.
    pub fn start_next_prompt(&mut self) {
        if self.prompts.len() > 1 {
            self.prompts.pop_front();
        } else if let Some(queue) = self.prompts.front_mut() {
            queue.turns.clear();
        }
    }

    /// The next turn of the conversation.
    pub fn next_turn(&mut self) -> ScriptedTurn {
        let turn = self.prompts.front_mut().and_then(TurnQueue::next_turn);
        turn.unwrap_or_else(|| self.exhausted_turn())
    }

    /// The next turn of the first subagent whose `prompt` is a substring of this task.
    pub fn next_subagent_turn(&mut self, task: &str) -> ScriptedTurn {
        let mut agents = self.agents.iter_mut();
        let agent = agents.find(|(prompt, _)| task.contains(prompt.as_str()));
        let turn = agent.and_then(|(_, queue)| queue.next_turn());
        turn.unwrap_or_else(|| self.exhausted_turn())
    }

    /// The next answer of the first evaluator whose `prompt` is a substring of the question that a hook asks. Without
    /// one the answer is no verdict.
    pub fn next_evaluator_turn(&mut self, question: &str) -> ScriptedTurn {
        let mut evaluators = self.evaluators.iter_mut();
        let evaluator = evaluators.find(|(prompt, _)| question.contains(prompt.as_str()));
        let turn = evaluator.and_then(|(_, queue)| queue.next_turn());
        turn.unwrap_or_else(|| self.exhausted_turn())
    }

    /// Whether the scenario has an evaluator for this question.
    pub fn has_evaluator(&self, question: &str) -> bool {
        self.evaluators.iter().any(|(prompt, _)| question.contains(prompt.as_str()))
    }

    /// Whether the scenario has a subagent for this task.
    pub fn has_subagent(&self, task: &str) -> bool {
        self.agents.iter().any(|(prompt, _)| task.contains(prompt.as_str()))
    }

    fn exhausted_turn(&mut self) -> ScriptedTurn {
        self.exhausted_count += 1;
        let text = match self.exhausted_count {
            1 => EXHAUSTED.to_owned(),
            count => format!("{EXHAUSTED} ({count})"),
        };
        ScriptedTurn { text, ..ScriptedTurn::default() }
    }

    /// Whether the conversation has turns left.
    pub fn has_turns(&self) -> bool {
        self.prompts.front().is_some_and(|queue| queue.at.turn < queue.turns.len())
    }
}

impl TurnQueue {
    fn next_turn(&mut self) -> Option<ScriptedTurn> {
        self.at.take(&self.turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::SessionStep;

    fn says(text: &str, repeat: TurnRepeat) -> ScriptedTurn {
        ScriptedTurn { text: text.to_owned(), repeat, ..ScriptedTurn::default() }
    }

    fn once(text: &str) -> ScenarioStep {
        ScenarioStep::Agent(says(text, TurnRepeat::Times(1)))
    }

    fn person() -> ScenarioStep {
        ScenarioStep::Person("Go.".to_owned())
    }

    fn script(steps: Vec<ScenarioStep>) -> ModelScript {
        ModelScript::new(&Scenario { steps, ..Scenario::default() })
    }

    fn next(script: &mut ModelScript, count: usize) -> Vec<String> {
        (0..count).map(|_| script.next_turn().text).collect()
    }

    #[test]
    fn turns_come_in_order_and_repeat_as_configured() {
        let twice = ScenarioStep::Agent(says("again", TurnRepeat::Times(2)));
        let mut script = script(vec![person(), once("one"), twice, once("last")]);
        assert!(script.has_turns());
        assert_eq!(next(&mut script, 4), ["one", "again", "again", "last"]);
        assert!(!script.has_turns());
        assert_eq!(next(&mut script, 2), [EXHAUSTED.to_owned(), format!("{EXHAUSTED} (2)")]);
    }

    #[test]
    fn forever_ends_with_the_next_prompt() {
        let forever = ScenarioStep::Agent(says("still here", TurnRepeat::Forever));
        let mut script = script(vec![person(), forever, once("never"), person(), once("two")]);
        assert_eq!(next(&mut script, 500), vec!["still here"; 500]);
        script.start_next_prompt();
        assert_eq!(next(&mut script, 2), ["two", EXHAUSTED]);
    }

    #[test]
    fn the_next_prompt_skips_leftover_turns() {
        let steps = vec![
            person(),
            once("one"),
            once("skipped"),
            ScenarioStep::Session(SessionStep::Resume),
            person(),
            person(),
            once("three"),
        ];
        let mut script = script(steps);
        assert_eq!(next(&mut script, 1), ["one"]);
        script.start_next_prompt();
        // The second prompt has no turns of its own.
        assert_eq!(next(&mut script, 1), [EXHAUSTED]);
        script.start_next_prompt();
        assert_eq!(next(&mut script, 1), ["three"]);
        script.start_next_prompt();
        assert_eq!(next(&mut script, 1), [format!("{EXHAUSTED} (2)")]);
    }

    #[test]
    fn a_prompt_resets_the_repeat_count() {
        let thrice = |text: &str| ScenarioStep::Agent(says(text, TurnRepeat::Times(3)));
        let mut script = script(vec![person(), thrice("a"), person(), thrice("b"), once("c")]);
        assert_eq!(next(&mut script, 2), ["a", "a"]);
        script.start_next_prompt();
        assert_eq!(next(&mut script, 4), ["b", "b", "b", "c"]);
    }

    #[test]
    fn subagents_are_selected_by_a_substring_of_their_task() {
        let agent = |prompt: &str, texts: &[&str]| ScriptedSubagent {
            prompt: prompt.to_owned(),
            turns: texts.iter().map(|text| says(text, TurnRepeat::Times(1))).collect(),
        };
        let mut script = ModelScript::new(&Scenario {
            steps: vec![person(), once("main")],
            subagents: vec![agent("count the files", &["one", "two"]), agent("count", &["other"])],
            ..Scenario::default()
        });
        assert_eq!(script.next_subagent_turn("Please count the files below src").text, "one");
        assert_eq!(script.next_subagent_turn("count the lines").text, "other");
        assert_eq!(next(&mut script, 1), ["main"]);
        assert_eq!(script.next_subagent_turn("count the files").text, "two");
        assert_eq!(script.next_subagent_turn("count the files").text, EXHAUSTED);
        assert_eq!(script.next_subagent_turn("sing").text, format!("{EXHAUSTED} (2)"));
        assert!(script.has_subagent("count the words"));
        assert!(!script.has_subagent("sing"));
    }
}
