//! What a person can type in a session: the texts of the plugin, for settings that do without it.

/// By path below a directory `commands` of the client's; a directory in it is the part before the colon.
pub const FILES: &[(&str, &str)] = &[
    ("ralph/ask.md", include_str!("../../../../plugin/commands/ask.md")),
    ("ralph/cancel.md", include_str!("../../../../plugin/commands/cancel.md")),
    ("ralph/goal.md", include_str!("../../../../plugin/commands/goal.md")),
    ("ralph/loop.md", include_str!("../../../../plugin/commands/loop.md")),
    ("ralph/orchestrator.md", include_str!("../../../../plugin/commands/orchestrator.md")),
    ("ralph/pause.md", include_str!("../../../../plugin/commands/pause.md")),
    ("ralph/resume.md", include_str!("../../../../plugin/commands/resume.md")),
    ("ralph/status.md", include_str!("../../../../plugin/commands/status.md")),
    ("ralph/verify.md", include_str!("../../../../plugin/commands/verify.md")),
    ("ralph/why.md", include_str!("../../../../plugin/commands/why.md")),
    ("ralph-loop.md", include_str!("../../../../plugin/commands/ralph-loop.md")),
];
