//! The facts that ralph takes from a host's transcript, and their summary. Each host parses its own lines.

use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::source::checklist::Checklist;

/// The meaning of one transcript line.
#[derive(Clone, Debug, PartialEq)]
pub enum TranscriptLine {
    /// One content block of the main thread; subagents are [`TranscriptLine::Other`].
    Assistant(TranscriptAssistant),
    /// A person interrupted the agent's turn.
    Interrupted,
    /// The host ended a turn because hooks had blocked its end too often.
    Overridden,
    /// A hook blocked a stop. Later lines follow that block.
    StopBlocked,
    /// A person typed something during the agent's turn; it waits until the turn ends.
    Queued {
        is_command: bool,
    },
    /// A queued message was delivered or removed.
    Dequeued,
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranscriptAssistant {
    pub context_tokens: Option<u64>,
    /// The model's context window in tokens, if the model's name determines it.
    pub context_window: Option<u64>,
    pub text: Option<String>,
    pub api_error: bool,
    pub tool_calls: u32,
    /// How many of them may have changed a file.
    pub writing_calls: u32,
    /// Empty if the agent cleared its todo list.
    pub checklist: Option<Checklist>,
}

/// The combined content of the lines so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranscriptSummary {
    pub context_tokens: Option<u64>,
    pub context_window: Option<u64>,
    pub last_assistant: Option<LastAssistantMessage>,
    /// Counted since the last blocked stop, if there was one.
    pub tool_calls: u32,
    /// Calls of tools that may have changed a file.
    pub writing_calls: u32,
    pub saw_blocked_stop: bool,
    pub checklist: Option<Checklist>,
    pub interrupted: bool,
    pub overridden: bool,
    pub queue: TypedMessageQueue,
}

/// Messages that a person typed and that have not reached the agent yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypedMessageQueue {
    /// The number of messages that an earlier observation already saw.
    pub old: u32,
    /// For each newer message, whether it is a command for ralph.
    pub new: Vec<bool>,
}

impl TypedMessageQueue {
    const MOST: usize = 1000;

    pub fn len(&self) -> u32 {
        self.old.saturating_add(u32::try_from(self.new.len()).unwrap_or(u32::MAX))
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a message waits for the turn to end. The prompt that started the current turn may still be listed, so
    /// anything but a command counts only if an earlier observation saw it.
    pub fn has_waiting_message(&self) -> bool {
        self.old > 0 || self.new.contains(&true)
    }

    fn add(&mut self, is_command: bool) {
        if self.new.len() < Self::MOST {
            self.new.push(is_command);
        }
    }

    fn remove_first(&mut self) {
        if self.old > 0 {
            self.old -= 1;
        } else if !self.new.is_empty() {
            self.new.remove(0);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAssistantMessage {
    pub text: Option<String>,
    pub api_error: bool,
}

impl TranscriptSummary {
    pub fn add(&mut self, line: TranscriptLine) {
        match line {
            TranscriptLine::Assistant(assistant) => {
                self.context_tokens = assistant.context_tokens.or(self.context_tokens);
                self.context_window = assistant.context_window.or(self.context_window);
                self.tool_calls = self.tool_calls.saturating_add(assistant.tool_calls);
                self.writing_calls = self.writing_calls.saturating_add(assistant.writing_calls);
                self.last_assistant = Some(LastAssistantMessage {
                    text: assistant.text,
                    api_error: assistant.api_error,
                });
                if let Some(checklist) = assistant.checklist {
                    self.checklist =
                        Some(checklist).filter(|checklist| !checklist.items.is_empty());
                }
            }
            TranscriptLine::StopBlocked => {
                self.saw_blocked_stop = true;
                self.tool_calls = 0;
            }
            TranscriptLine::Interrupted => self.interrupted = true,
            TranscriptLine::Overridden => self.overridden = true,
            TranscriptLine::Queued { is_command } => self.queue.add(is_command),
            TranscriptLine::Dequeued => self.queue.remove_first(),
            TranscriptLine::Other => {}
        }
    }
}
