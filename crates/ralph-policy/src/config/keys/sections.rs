//! Keys of the smaller sections: `[lines]`, `[protect]`, `[tests]`, `[verify]`, `[orchestrator]`, `[environment]` and
//! `[notify]`.

use super::{ConfigKey, ValueKind};

pub(super) static LINES: &[ConfigKey] = &[
    ConfigKey {
        name: "forbid",
        kind: ValueKind::Choices(&[
            "todo",
            "placeholder",
            "debug-print",
            "debugger",
            "skipped-test",
        ]),
        description: "Built-in checks to apply.",
    },
    ConfigKey {
        name: "exclude",
        kind: ValueKind::Globs,
        description: "Files that are not checked.",
    },
    ConfigKey {
        name: "pattern",
        kind: ValueKind::NamedEntries(PATTERN),
        description: "A check of your own. Requires `name` and `pattern`.",
    },
];

static PATTERN: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        kind: ValueKind::Name,
        description: "Unique; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    ConfigKey {
        name: "pattern",
        kind: ValueKind::Regex,
        description: "A regular expression that no added line may match.",
    },
    ConfigKey { name: "message", kind: ValueKind::Text, description: "The message to the agent." },
    ConfigKey {
        name: "paths",
        kind: ValueKind::Globs,
        description: "Files it applies to; empty means every text file.",
    },
];

pub(super) static PROTECT: &[ConfigKey] = &[
    ConfigKey {
        name: "guard",
        kind: ValueKind::Choice(&["deny", "ask", "off"]),
        description: "Tool calls that would change what the agent may not change: `deny` refuses them, `ask` asks you, `off` lets them through, to be detected at the stop.",
    },
    ConfigKey {
        name: "paths",
        kind: ValueKind::Globs,
        description: "Files that the agent may not change.",
    },
];

pub(super) static TESTS: &[ConfigKey] = &[
    ConfigKey {
        name: "integrity",
        kind: ValueKind::Choice(&["block", "advise", "off"]),
        description: "Deleted, skipped or weakened tests: `block` holds the agent, `advise` only reports them, `off` does not check.",
    },
    ConfigKey {
        name: "red_first",
        kind: ValueKind::Choice(&["optional", "required"]),
        description: "`required`: at least one new test has to fail at the base of the run, by an assertion.",
    },
    ConfigKey {
        name: "paths",
        kind: ValueKind::Globs,
        description: "Test files in addition to those recognized by name.",
    },
];

pub(super) static VERIFY: &[ConfigKey] = &[
    ConfigKey {
        name: "checkout",
        kind: ValueKind::Choice(&["auto", "clean", "tree"]),
        description: "`clean`: every gate has to pass again in a clean checkout; `tree`: the work tree is enough; `auto`: `clean` if a runner drives the agent.",
    },
    ConfigKey {
        name: "link",
        kind: ValueKind::Directories,
        description: "Ignored directories to link into a clean checkout, such as `node_modules`.",
    },
    ConfigKey {
        name: "claims",
        kind: ValueKind::Choice(&["claimed", "with_gates"]),
        description: "Ticked list items without a check, when every required gate passes: with `claimed` the run ends `claimed`, with `with_gates` it can end `verified`.",
    },
];

pub(super) static ORCHESTRATOR: &[ConfigKey] = &[ConfigKey {
    name: "plan",
    kind: ValueKind::Choice(&["person", "agent"]),
    description: "Who may approve the plan of an orchestrated run.",
}];

pub(super) static ENVIRONMENT: &[ConfigKey] = &[
    ConfigKey {
        name: "pass",
        kind: ValueKind::VariableNames,
        description: "Variables that every gate gets in addition to the usual ones. Secrets are passed only if named here.",
    },
    ConfigKey {
        name: "set",
        kind: ValueKind::Variables,
        description: "Variables to set, with their values.",
    },
];

pub(super) static NOTIFY: &[ConfigKey] = &[
    ConfigKey { name: "bell", kind: ValueKind::Flag, description: "Ring the terminal bell." },
    ConfigKey {
        name: "desktop",
        kind: ValueKind::Flag,
        description: "Show a desktop notification with `notify-send` or `osascript`, if there is one.",
    },
    ConfigKey {
        name: "command",
        kind: ValueKind::Argv,
        description: "A program and its arguments, started in your home directory. It gets the message as JSON on stdin, and its parts in `RALPH_MESSAGE`, `RALPH_STATUS`, `RALPH_TITLE` and `RALPH_RUN`.",
    },
    ConfigKey {
        name: "webhook",
        kind: ValueKind::Url,
        description: "A URL to which `curl` posts the message, as JSON.",
    },
    ConfigKey {
        name: "on",
        kind: ValueKind::Choices(&[
            "verified",
            "claimed",
            "exhausted",
            "stuck",
            "needs_human",
            "needs_review",
            "gate_broken",
            "rate_limited",
            "overridden",
            "crashed",
        ]),
        description: "The final statuses to notify about. A run that a person cancels sends nothing.",
    },
];
