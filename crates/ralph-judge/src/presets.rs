//! The instructions that ship with ralph, one file for each kind of judge.

use ralph_core::judge::{Judge, JudgeKind};

/// The kinds with a preset, in the order in which they are listed.
pub const PRESET_KINDS: [JudgeKind; 6] = [
    JudgeKind::Prompt,
    JudgeKind::Agent,
    JudgeKind::Adversarial,
    JudgeKind::Plan,
    JudgeKind::Goal,
    JudgeKind::Amended,
];

/// How to answer. It follows every instruction, also those of the user.
pub const ANSWER_RULES: &str = include_str!("../presets/answer.md");
/// For a reviewer that checks a finding of another one.
pub const CONFIRM_PRESET: &str = include_str!("../presets/confirm.md");
/// How an agent judge asks for gates.
pub const GATE_RULES: &str = include_str!("../presets/gates.md");

/// How a reviewer shows a mistake by a test.
pub const TEST_RULES: &str = include_str!("../presets/tests.md");

/// The name of a kind, as in the policy.
pub const fn kind_name(kind: JudgeKind) -> &'static str {
    match kind {
        JudgeKind::Prompt => "prompt",
        JudgeKind::Agent => "agent",
        JudgeKind::Adversarial => "adversarial",
        JudgeKind::Plan => "plan",
        JudgeKind::Goal => "goal",
        JudgeKind::Amended => "amended",
    }
}

/// What a kind decides, in one line.
pub const fn kind_question(kind: JudgeKind) -> &'static str {
    match kind {
        JudgeKind::Prompt => "does the change meet the goal?",
        JudgeKind::Agent => {
            "does the change meet the goal? (an agent that reads files and has gates run)"
        }
        JudgeKind::Adversarial => "can one of several reviewers refute the work?",
        JudgeKind::Plan => "does the work match the plan, step by step?",
        JudgeKind::Goal => "is a goal met that no test measures?",
        JudgeKind::Amended => "did the goal ask for the changes to existing tests?",
    }
}

pub const fn preset_text(kind: JudgeKind) -> &'static str {
    match kind {
        JudgeKind::Prompt => include_str!("../presets/prompt.md"),
        JudgeKind::Agent => include_str!("../presets/agent.md"),
        JudgeKind::Adversarial => include_str!("../presets/adversarial.md"),
        JudgeKind::Plan => include_str!("../presets/plan.md"),
        JudgeKind::Goal => include_str!("../presets/goal.md"),
        JudgeKind::Amended => include_str!("../presets/amended.md"),
    }
}

/// The instructions of a judge: the user's own, or the preset of its kind.
pub fn judge_instructions(judge: &Judge) -> &str {
    judge.prompt.as_deref().unwrap_or_else(|| preset_text(judge.kind))
}
