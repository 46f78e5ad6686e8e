//! What the model will answer, in order: one queue for the conversation, one for each subagent.

use crate::scenario::{AgentTurn, Repeat, Scenario, Step};
use std::collections::VecDeque;

/// Answered when a scenario has no turn left: visible, and without a tool call. From the second time on it is numbered:
/// who says the same again within a moment may be taken for one who said it once.
pub const EXHAUSTED: &str = "(The scenario has no more turns.)";

#[derive(Clone, Debug)]
pub struct Script {
    /// The turns after each prompt, the first of them under way.
    prompts: VecDeque<Queue>,
    agents: Vec<(String, Queue)>,
    /// How often there was no turn left.
    missed: u32,
    /// What the conversation is summed up as when it is compacted.
    pub summary: String,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    turns: VecDeque<AgentTurn>,
    /// How often the first of them was given.
    given: u32,
}

impl Script {
    pub fn new(scenario: &Scenario) -> Self {
        // What stands before the first prompt belongs to it.
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
                Step::Session(_) => {}
            }
        }
        let agents = scenario.subagents.iter().map(|agent| {
            let turns = agent.turns.iter().cloned().collect();
            (agent.prompt.clone(), Queue { turns, given: 0 })
        });
        let summary = scenario.summary.clone();
        Self { prompts, agents: agents.collect(), missed: 0, summary }
    }

    /// The next prompt was sent: what was left of the turns before is skipped.
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

    /// The next turn of the subagent that was given this task.
    pub fn agent_answer(&mut self, task: &str) -> AgentTurn {
        let mut agents = self.agents.iter_mut();
        let agent = agents.find(|(prompt, _)| task.contains(prompt.as_str()));
        let turn = agent.and_then(|(_, queue)| queue.next());
        turn.unwrap_or_else(|| self.exhausted())
    }

    /// Whether a subagent of the scenario was given this task.
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
