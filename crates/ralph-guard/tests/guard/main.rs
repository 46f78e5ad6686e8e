//! The verdicts of the guard about ordinary and hostile tool calls.

#[cfg(test)]
mod verdicts;
