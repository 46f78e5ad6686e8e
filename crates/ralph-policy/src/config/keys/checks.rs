//! Keys of the smaller sections: `[lines]`, `[protect]`, `[tests]`, `[verify]`, `[orchestrator]`, `[environment]` and
//! `[notify]`.

use super::{Key, Kind};

pub(super) static LINES: &[Key] = &[
    Key {
        name: "forbid",
        kind: Kind::Choices(&["todo", "placeholder", "debug-print", "debugger", "skipped-test"]),
        about: "Built-in checks to apply.",
    },
    Key { name: "exclude", kind: Kind::Globs, about: "Files that are not checked." },
    Key {
        name: "pattern",
        kind: Kind::Named(PATTERN),
        about: "A check of your own. Requires `name` and `pattern`.",
    },
];

static PATTERN: &[Key] = &[
    Key {
        name: "name",
        kind: Kind::Name,
        about: "Unique; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    Key {
        name: "pattern",
        kind: Kind::Regex,
        about: "A regular expression that no added line may match.",
    },
    Key { name: "message", kind: Kind::Text, about: "The message to the agent." },
    Key {
        name: "paths",
        kind: Kind::Globs,
        about: "Files it applies to; empty means every text file.",
    },
];

pub(super) static PROTECT: &[Key] = &[
    Key {
        name: "guard",
        kind: Kind::Choice(&["deny", "ask", "off"]),
        about: "Tool calls that would change what the agent may not change: `deny` refuses them, `ask` asks you, `off` lets them through, to be detected at the stop.",
    },
    Key { name: "paths", kind: Kind::Globs, about: "Files that the agent may not change." },
];

pub(super) static TESTS: &[Key] = &[
    Key {
        name: "integrity",
        kind: Kind::Choice(&["block", "advise", "off"]),
        about: "Deleted, skipped or weakened tests: `block` holds the agent, `advise` only reports them, `off` does not check.",
    },
    Key {
        name: "red_first",
        kind: Kind::Choice(&["optional", "required"]),
        about: "`required`: at least one new test has to fail at the base of the run, by an assertion.",
    },
    Key {
        name: "paths",
        kind: Kind::Globs,
        about: "Test files in addition to those recognized by name.",
    },
];

pub(super) static VERIFY: &[Key] = &[
    Key {
        name: "checkout",
        kind: Kind::Choice(&["auto", "clean", "tree"]),
        about: "`clean`: every gate has to pass again in a clean checkout; `tree`: the work tree is enough; `auto`: `clean` if a runner drives the agent.",
    },
    Key {
        name: "link",
        kind: Kind::Directories,
        about: "Ignored directories to link into a clean checkout, such as `node_modules`.",
    },
    Key {
        name: "claims",
        kind: Kind::Choice(&["claimed", "with_gates"]),
        about: "Ticked list items without a check, when every required gate passes: with `claimed` the run ends `claimed`, with `with_gates` it can end `verified`.",
    },
];

pub(super) static ORCHESTRATOR: &[Key] = &[Key {
    name: "plan",
    kind: Kind::Choice(&["person", "agent"]),
    about: "Who may approve the plan of an orchestrated run.",
}];

pub(super) static ENVIRONMENT: &[Key] = &[
    Key {
        name: "pass",
        kind: Kind::VariableNames,
        about: "Variables that every gate gets in addition to the usual ones. Secrets are passed only if named here.",
    },
    Key { name: "set", kind: Kind::Variables, about: "Variables to set, with their values." },
];

pub(super) static NOTIFY: &[Key] = &[
    Key { name: "bell", kind: Kind::Flag, about: "Ring the terminal bell." },
    Key {
        name: "desktop",
        kind: Kind::Flag,
        about: "Show a desktop notification with `notify-send` or `osascript`, if there is one.",
    },
    Key {
        name: "command",
        kind: Kind::Argv,
        about: "A program and its arguments, started in your home directory. It gets the message as JSON on stdin, and its parts in `RALPH_MESSAGE`, `RALPH_STATUS`, `RALPH_TITLE` and `RALPH_RUN`.",
    },
    Key {
        name: "webhook",
        kind: Kind::Address,
        about: "A URL to which `curl` posts the message, as JSON.",
    },
    Key {
        name: "on",
        kind: Kind::Choices(&[
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
        about: "The final statuses to notify about. A run that a person cancels sends nothing.",
    },
];
