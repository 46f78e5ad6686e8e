//! The scripted answers of the model, in order: one queue for the main conversation and one for each subagent.

use crate::scenario::{AgentTurn, Repeat, Scenario, Step};
use std::collections::VecDeque;

/// The answer when a scenario has no turn left: visible, and without a tool call. It is numbered from the second time
/// on, because two identical messages in quick succession can be mistaken for one.
pub const EXHAUSTED: &str = "(The scenario has no more turns.)";

#[derive(Clone, Debug)]
pub struct Script {
    /// The turns after each prompt; the front queue belongs to the current prompt.
    prompts: VecDeque<Queue>,
    agents: Vec<(String, Queue)>,
    /// How often a turn was requested and none was left.
    missed: u32,
    /// The summary that the model returns when the conversation is compacted.
    pub summary: String,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    turns: VecDeque<AgentTurn>,
    /// How often the front turn was used.
    given: u32,
}

impl Script {
    pub fn new(scenario: &Scenario) -> Self {
        // Turns before the first prompt belong to it.
        let mut prompts = VecDeque::from([Queue::default()]);
        let mut is_first = true;
        for step in &scenario.steps {
            match step {
                Step::Agent(turn) => {
                    if let Some(queue) = prompts.back_mut() {
                        queue.turns.push_back(turn.clone());
                    }
                }
                Step::Person(_) if is_first => is_first = false,
                Step::Person(_) => prompts.push_back(Queue::default()),
                Step::Session(_) | Step::Screen(_) => {}
            }
        }
        let agents = scenario.subagents.iter().map(|agent| {
            let turns = agent.turns.iter().cloned().collect();
            (agent.prompt.clone(), Queue { turns, given: 0 })
        });
        let summary = scenario.summary.clone();
        Self { prompts, agents: agents.collect(), missed: 0, summary }
    }

    /// Moves on to the next prompt and skips the turns left over from the previous one.
    pub fn next_prompt(&mut self) {
        if self.prompts.len() > 1 {
            self.prompts.pop_front();
        } else if let Some(queue) = self.prompts.front_mut() {
            queue.turns.clear();
        }
    }

    /// The next turn of the conversation.
    pub fn answer(&mut self) -> AgentTurn {
        let turn = self.prompts.front_mut().and_then(Queue::next);
        turn.unwrap_or_else(|| self.exhausted())
    }

    /// The next turn of the first subagent whose `prompt` is a substring of this task.
    pub fn agent_answer(&mut self, task: &str) -> AgentTurn {
        let mut agents = self.agents.iter_mut();
        let agent = agents.find(|(prompt, _)| task.contains(prompt.as_str()));
        let turn = agent.and_then(|(_, queue)| queue.next());
        turn.unwrap_or_else(|| self.exhausted())
    }

    /// Whether the scenario has a subagent for this task.
    pub fn is_agent(&self, task: &str) -> bool {
        self.agents.iter().any(|(prompt, _)| task.contains(prompt.as_str()))
    }

    fn exhausted(&mut self) -> AgentTurn {
        self.missed += 1;
        let text = match self.missed {
            1 => EXHAUSTED.to_owned(),
            count => format!("{EXHAUSTED} ({count})"),
        };
        AgentTurn { text, ..AgentTurn::default() }
    }

    /// Whether the conversation has turns left.
    pub fn has_more(&self) -> bool {
        self.prompts.front().is_some_and(|queue| !queue.turns.is_empty())
    }
}

impl Queue {
    fn next(&mut self) -> Option<AgentTurn> {
        let turn = self.turns.front()?;
        self.given += 1;
        let is_over = match turn.repeat {
            Repeat::Times(most) => self.given >= most,
            Repeat::Forever => false,
        };
        if !is_over {
            return Some(turn.clone());
        }
        self.given = 0;
        self.turns.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{SessionStep, Subagent};

    fn says(text: &str, repeat: Repeat) -> AgentTurn {
        AgentTurn { text: text.to_owned(), repeat, ..AgentTurn::default() }
    }

    fn once(text: &str) -> Step {
        Step::Agent(says(text, Repeat::Times(1)))
    }

    fn person() -> Step {
        Step::Person("Go.".to_owned())
    }

    fn script(steps: Vec<Step>) -> Script {
        Script::new(&Scenario { steps, ..Scenario::default() })
    }

    fn next(script: &mut Script, count: usize) -> Vec<String> {
        (0..count).map(|_| script.answer().text).collect()
    }

    #[test]
    fn turns_come_in_order_and_repeat_as_configured() {
        let twice = Step::Agent(says("again", Repeat::Times(2)));
        let mut script = script(vec![person(), once("one"), twice, once("last")]);
        assert!(script.has_more());
        assert_eq!(next(&mut script, 4), ["one", "again", "again", "last"]);
        assert!(!script.has_more());
        assert_eq!(next(&mut script, 2), [EXHAUSTED.to_owned(), format!("{EXHAUSTED} (2)")]);
    }

    #[test]
    fn forever_ends_with_the_next_prompt() {
        let forever = Step::Agent(says("still here", Repeat::Forever));
        let mut script = script(vec![person(), forever, once("never"), person(), once("two")]);
        assert_eq!(next(&mut script, 500), vec!["still here"; 500]);
        script.next_prompt();
        assert_eq!(next(&mut script, 2), ["two", EXHAUSTED]);
    }

    #[test]
    fn the_next_prompt_skips_leftover_turns() {
        let steps = vec![
            person(),
            once("one"),
            once("skipped"),
            Step::Session(SessionStep::Resume),
            person(),
            person(),
            once("three"),
        ];
        let mut script = script(steps);
        assert_eq!(next(&mut script, 1), ["one"]);
        script.next_prompt();
        // The second prompt has no turns of its own.
        assert_eq!(next(&mut script, 1), [EXHAUSTED]);
        script.next_prompt();
        assert_eq!(next(&mut script, 1), ["three"]);
        script.next_prompt();
        assert_eq!(next(&mut script, 1), [format!("{EXHAUSTED} (2)")]);
    }

    #[test]
    fn a_prompt_resets_the_repeat_count() {
        let thrice = |text: &str| Step::Agent(says(text, Repeat::Times(3)));
        let mut script = script(vec![person(), thrice("a"), person(), thrice("b"), once("c")]);
        assert_eq!(next(&mut script, 2), ["a", "a"]);
        script.next_prompt();
        assert_eq!(next(&mut script, 4), ["b", "b", "b", "c"]);
    }

    #[test]
    fn subagents_are_selected_by_a_substring_of_their_task() {
        let agent = |prompt: &str, texts: &[&str]| Subagent {
            prompt: prompt.to_owned(),
            turns: texts.iter().map(|text| says(text, Repeat::Times(1))).collect(),
        };
        let mut script = Script::new(&Scenario {
            steps: vec![person(), once("main")],
            subagents: vec![agent("count the files", &["one", "two"]), agent("count", &["other"])],
            ..Scenario::default()
        });
        assert_eq!(script.agent_answer("Please count the files below src").text, "one");
        assert_eq!(script.agent_answer("count the lines").text, "other");
        assert_eq!(next(&mut script, 1), ["main"]);
        assert_eq!(script.agent_answer("count the files").text, "two");
        assert_eq!(script.agent_answer("count the files").text, EXHAUSTED);
        assert_eq!(script.agent_answer("sing").text, format!("{EXHAUSTED} (2)"));
        assert!(script.is_agent("count the words"));
        assert!(!script.is_agent("sing"));
    }
}
