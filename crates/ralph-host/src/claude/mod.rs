//! The formats of Claude Code.

pub mod event;
pub mod status_line;
pub mod transcript;
