//! Keys of what is beside gates: checks over the change, what may not be touched, who is told.

use super::{Key, Kind};

pub(super) static LINES: &[Key] = &[
    Key {
        name: "forbid",
        kind: Kind::Choices(&["todo", "placeholder", "debug-print", "debugger", "skipped-test"]),
        about: "Built-in checks.",
    },
    Key { name: "exclude", kind: Kind::Globs, about: "Files that are not looked at." },
    Key {
        name: "pattern",
        kind: Kind::Named(PATTERN),
        about: "A check of your own. It needs `name` and `pattern`.",
    },
];

static PATTERN: &[Key] = &[
    Key { name: "name", kind: Kind::Name, about: "Unique; 1 to 60 of `A-Z a-z 0-9 . _ -`." },
    Key {
        name: "pattern",
        kind: Kind::Regex,
        about: "A regular expression that no added line may match.",
    },
    Key { name: "message", kind: Kind::Text, about: "What the agent is told." },
    Key { name: "paths", kind: Kind::Globs, about: "Where it applies; empty is every text file." },
];

pub(super) static PROTECT: &[Key] = &[
    Key {
        name: "guard",
        kind: Kind::Choice(&["deny", "ask", "off"]),
        about: "Tool calls that would touch what is not the agent's: refused, asked about, or only found out at the stop.",
    },
    Key { name: "paths", kind: Kind::Globs, about: "Files that the agent may not change." },
];

pub(super) static TESTS: &[Key] = &[
    Key {
        name: "integrity",
        kind: Kind::Choice(&["block", "advise", "off"]),
        about: "Deleted, skipped or weakened tests: hold the agent, only tell, or do not look.",
    },
    Key {
        name: "red_first",
        kind: Kind::Choice(&["optional", "required"]),
        about: "`required`: at least one new test fails at the base of the run, by an assertion.",
    },
    Key {
        name: "paths",
        kind: Kind::Globs,
        about: "Test files beside those known by their names.",
    },
];

pub(super) static VERIFY: &[Key] = &[
    Key {
        name: "checkout",
        kind: Kind::Choice(&["auto", "clean", "tree"]),
        about: "`clean`: every gate passes once more in a clean checkout; `tree`: the work tree is enough; `auto`: clean when a runner drives.",
    },
    Key {
        name: "link",
        kind: Kind::Directories,
        about: "Ignored directories that a clean checkout gets a link to, such as `node_modules`.",
    },
    Key {
        name: "claims",
        kind: Kind::Choice(&["claimed", "with_gates"]),
        about: "Items of lists that are ticked and have no check, when every required gate passes: `claimed` ends the run so, `with_gates` lets it end verified.",
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
        about: "Variables that every gate gets beside the usual ones. A secret has to be named to be seen.",
    },
    Key { name: "set", kind: Kind::Variables, about: "Variables with their values." },
];

pub(super) static NOTIFY: &[Key] = &[
    Key { name: "bell", kind: Kind::Flag, about: "Ring the bell of the terminal." },
    Key {
        name: "desktop",
        kind: Kind::Flag,
        about: "Show it on the desktop, by `notify-send` or `osascript`, where there is one.",
    },
    Key {
        name: "command",
        kind: Kind::Argv,
        about: "A program and its arguments, started in your home directory. It reads the message as JSON and finds it in `RALPH_MESSAGE`, `RALPH_STATUS`, `RALPH_TITLE` and `RALPH_RUN`.",
    },
    Key {
        name: "webhook",
        kind: Kind::Address,
        about: "An address that `curl` sends the message to, as JSON.",
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
        about: "Which ends are told. What a person cancels is not.",
    },
];
