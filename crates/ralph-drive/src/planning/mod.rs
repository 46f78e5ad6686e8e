//! Asks an agent for a plan before work begins: questions for the person, and steps with a check each. The agent can
//! read the project and has no tool that changes it. Its answers are hostile data: [`plan_answer`] parses and bounds
//! them, and nothing here runs a check.

pub mod plan_answer;
pub mod plan_text;
pub mod planner;
pub mod planner_messages;
