//! Keys of the named entries: `[[gate]]`, `[[chunk]]`, `[[pipeline.chunk]]` and `[[lines.pattern]]`.

use super::{ConfigKey, EntryTable, MAX_GATE_TIMEOUT_MS, SetCount, ValueKind};
use crate::config::apply::{self, normalize_path, parse_choices, set_choice, unless_zero};
use ralph_core::coverage::CoverageShare;
use ralph_core::gate::{GateInvocation, MinTests, ReportFormat};
use ralph_core::requirement::RequirementWeight;
use std::mem;

pub(in crate::config) static GATE: EntryTable = EntryTable {
    path: "gate",
    keys: GATE_KEYS,
    required: &["name"],
    is_user_only: false,
    add: |draft| {
        let gate = mem::replace(&mut draft.gate, apply::empty_gate());
        draft.policy.gates.push(gate);
    },
};

pub(in crate::config) static CHUNK: EntryTable = EntryTable {
    path: "chunk",
    keys: CHUNK_KEYS,
    required: &["match"],
    is_user_only: false,
    add: |draft| {
        let chunk = draft.take_chunk();
        draft.policy.chunks.push(chunk);
    },
};

pub(in crate::config) static PIPELINE_CHUNK: EntryTable = EntryTable {
    path: "pipeline.chunk",
    keys: PIPELINE_KEYS,
    required: &["name"],
    is_user_only: false,
    add: |draft| {
        let chunk = draft.take_chunk();
        draft.policy.pipeline.push(chunk);
    },
};

pub(in crate::config) static PATTERN: EntryTable = EntryTable {
    path: "lines.pattern",
    keys: PATTERN_KEYS,
    required: &["name", "pattern"],
    is_user_only: false,
    add: |draft| {
        let pattern = mem::replace(&mut draft.pattern, apply::empty_pattern());
        draft.policy.lines.patterns.push(pattern);
    },
};

static GATE_KEYS: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        kind: ValueKind::Name(|draft, text| draft.gate.name = text.to_string()),
        description: "Unique; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    ConfigKey {
        name: "stage",
        kind: ValueKind::Choice(
            &["correctness", "quality", "security", "adversarial"],
            |draft, text| set_choice(&mut draft.gate.stage, text),
        ),
        description: "A stage runs once the stage before it has passed.",
    },
    ConfigKey {
        name: "run",
        kind: ValueKind::Argv(|draft, words| {
            draft.gate.command = GateInvocation::Argv(words.to_vec());
        }),
        description: "The program and its arguments. `{report}` is replaced with the path of the file that the report is read from.",
    },
    ConfigKey {
        name: "shell",
        kind: ValueKind::Shell(|draft, line| {
            draft.gate.command = GateInvocation::Shell(line.to_string());
        }),
        description: "Instead of `run`: a command line for `/bin/sh -c`. Nothing is substituted in it; the report's path is in `$RALPH_REPORT`, which is not exported.",
    },
    ConfigKey {
        name: "cwd",
        kind: ValueKind::Directory(|draft, path| draft.gate.cwd = normalize_path(path)),
        description: "The working directory, relative to the project.",
    },
    ConfigKey {
        name: "timeout",
        kind: ValueKind::Duration {
            least_ms: 1,
            most_ms: MAX_GATE_TIMEOUT_MS,
            set: |draft, ms| draft.gate.timeout_ms = ms,
        },
        description: "A gate that takes longer is stopped and gives no result. At most `24h`.",
    },
    ConfigKey {
        name: "paths",
        kind: ValueKind::Selection(|draft, texts| draft.gate.paths = texts.to_vec()),
        description: "The files it reads: once it has passed, it is not run again until one of them changes. A glob after `!` excludes files. Empty means all files.",
    },
    ConfigKey {
        name: "when",
        kind: ValueKind::Selection(|draft, texts| draft.gate.when = texts.to_vec()),
        description: "The gate counts only once the run has changed one of these files. A glob after `!` excludes files. Empty means always.",
    },
    ConfigKey {
        name: "on",
        kind: ValueKind::Choices(&["stop", "subagent", "task", "teammate"], |draft, texts| {
            draft.gate.on = parse_choices(texts);
        }),
        description: "The events at which it runs.",
    },
    ConfigKey {
        name: "min_complexity",
        kind: ValueKind::Count {
            least: 0,
            most: 10,
            set: |draft, count| draft.gate.min_complexity = u8::try_from(count).unwrap_or(u8::MAX),
        },
        description: "The gate counts only for runs that are at least this complex.",
    },
    ConfigKey {
        name: "required",
        kind: ValueKind::Flag(|draft, flag| {
            draft.gate.weight =
                if flag { RequirementWeight::Required } else { RequirementWeight::Advisory };
        }),
        description: "`false` makes the gate advisory: its result is reported but holds no agent.",
    },
    ConfigKey {
        name: "report",
        kind: ValueKind::Choice(ReportFormat::NAMES, |draft, text| {
            set_choice(&mut draft.gate.report, text);
        }),
        description: "The format of its report; with `none` only the exit code counts.",
    },
    ConfigKey {
        name: "report_files",
        kind: ValueKind::Globs(|draft, texts| draft.gate.report_files = texts.to_vec()),
        description: "Instead of `{report}`, for tools that choose the path of their JUnit or coverage reports: globs relative to `cwd`. Only files that the gate wrote while it ran count.",
    },
    ConfigKey {
        name: "min_tests",
        kind: ValueKind::MinTests {
            count: |draft, count| draft.gate.min_tests = MinTests::AtLeast(count),
            text: |draft, text| set_choice(&mut draft.gate.min_tests, text),
        },
        description: "How many tests must run: a number, `baseline` for no fewer than at the start, or `some` for at least one if the report counts tests.",
    },
    ConfigKey {
        name: "rerun",
        kind: ValueKind::Choice(&["tests", "always", "never"], |draft, text| {
            set_choice(&mut draft.gate.rerun, text);
        }),
        description: "Which failures must occur twice to count.",
    },
    ConfigKey {
        name: "env",
        kind: ValueKind::VariableNames(|draft, texts| draft.gate.env = texts.to_vec()),
        description: "Environment variables it gets in addition to those that every gate gets.",
    },
    ConfigKey {
        name: "tests",
        kind: ValueKind::Globs(|draft, texts| draft.gate.tests = texts.to_vec()),
        description: "Test files of the gate, in addition to those recognized by name. `ralph explain` shows the class of a file.",
    },
    ConfigKey {
        name: "proof",
        kind: ValueKind::Flag(|draft, flag| draft.gate.proof = flag),
        description: "`false` leaves the gate out of the proof, for example if it needs services that a checkout does not have.",
    },
    ConfigKey {
        name: "tier",
        kind: ValueKind::Choice(&["fast", "slow"], |draft, text| {
            set_choice(&mut draft.gate.tier, text);
        }),
        description: "A `slow` gate starts only when everything else is met, except clean checkouts, CI and judges.",
    },
    ConfigKey {
        name: "min_coverage",
        kind: ValueKind::Percent(|draft, units| {
            draft.gate.coverage.min = unless_zero(units).map(CoverageShare);
        }),
        description: "With a coverage report: the minimum share of covered lines, in percent. 0 means no minimum.",
    },
    ConfigKey {
        name: "min_changed_coverage",
        kind: ValueKind::Percent(|draft, units| {
            draft.gate.coverage.min_changed = unless_zero(units).map(CoverageShare);
        }),
        description: "With a coverage report: the minimum share of the added and changed lines that is covered, in percent. 0 means no minimum.",
    },
    ConfigKey {
        name: "coverage_ratchet",
        kind: ValueKind::Flag(|draft, flag| draft.gate.coverage.ratchet = flag),
        description: "With a coverage report: the share of covered lines must not fall below that at the start of the run.",
    },
    ConfigKey {
        name: "coverage_exclude",
        kind: ValueKind::Globs(|draft, texts| draft.gate.coverage.exclude = texts.to_vec()),
        description: "With a coverage report: files that do not count, for none of the three conditions.",
    },
    ConfigKey {
        name: "max_errors",
        kind: finding_limit(|draft, count| draft.gate.limits.errors = Some(count)),
        description: "With a SARIF, ESLint or Cargo report: how many errors the gate may have. Without it, one fails the gate.",
    },
    ConfigKey {
        name: "max_warnings",
        kind: finding_limit(|draft, count| draft.gate.limits.warnings = Some(count)),
        description: "How many warnings the gate may have. Without it, any number.",
    },
    ConfigKey {
        name: "max_notes",
        kind: finding_limit(|draft, count| draft.gate.limits.notes = Some(count)),
        description: "How many notes the gate may have. Without it, any number.",
    },
];

const fn finding_limit(set: SetCount) -> ValueKind {
    ValueKind::Count { least: 0, most: 1_000_000, set }
}

const CHUNK_GATES: ConfigKey = ConfigKey {
    name: "gates",
    kind: ValueKind::Names(|draft, texts| draft.chunk.gates = texts.to_vec()),
    description: "Names of gates that must pass, regardless of their `on`.",
};

const CHUNK_OUTPUTS: ConfigKey = ConfigKey {
    name: "outputs",
    kind: ValueKind::Globs(|draft, texts| draft.chunk.outputs = texts.to_vec()),
    description: "For each glob there must be a non-empty file that was created or changed since the run began.",
};

const CHUNK_MAX_HOLDS: ConfigKey = ConfigKey {
    name: "max_holds",
    kind: ValueKind::Count {
        least: 1,
        most: 100,
        set: |draft, count| draft.chunk.max_holds = count,
    },
    description: "How often one agent is held in a row; after that it may stop, unverified.",
};

static CHUNK_KEYS: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        kind: ValueKind::Name(|draft, text| draft.chunk.name = text.to_string()),
        description: "Unique; 1 to 60 characters of `A-Z a-z 0-9 . _ -`. Defaults to the value of `match`.",
    },
    ConfigKey {
        name: "match",
        kind: ValueKind::Wildcard(|draft, text| draft.chunk.r#match = text.to_string()),
        description: "The type of the subagents, or the name of the teammate; `*` matches anything, `?` one character.",
    },
    CHUNK_GATES,
    CHUNK_OUTPUTS,
    CHUNK_MAX_HOLDS,
];

static PIPELINE_KEYS: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        kind: ValueKind::Name(|draft, text| draft.chunk.name = text.to_string()),
        description: "Unique, also among `[[chunk]]`; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    ConfigKey {
        name: "match",
        kind: ValueKind::Wildcard(|draft, text| draft.chunk.r#match = text.to_string()),
        description: "The type of the subagents, or the name of the teammate; `*` matches anything, `?` one character. Defaults to the name.",
    },
    CHUNK_GATES,
    CHUNK_OUTPUTS,
    CHUNK_MAX_HOLDS,
    ConfigKey {
        name: "after",
        kind: ValueKind::Names(|draft, texts| draft.chunk.after = texts.to_vec()),
        description: "Names of pipeline chunks that must be done first.",
    },
    ConfigKey {
        name: "approval",
        kind: ValueKind::Flag(|draft, flag| draft.chunk.approval = flag),
        description: "Whether a person has to approve the finished chunk with `ralph approve`. Chunks after it wait for that.",
    },
];

static PATTERN_KEYS: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        kind: ValueKind::Name(|draft, text| draft.pattern.name = text.to_string()),
        description: "Unique; 1 to 60 characters of `A-Z a-z 0-9 . _ -`.",
    },
    ConfigKey {
        name: "pattern",
        kind: ValueKind::Regex(|draft, text| draft.pattern.pattern = text.to_string()),
        description: "A regular expression that no added line may match.",
    },
    ConfigKey {
        name: "message",
        kind: ValueKind::Text(|draft, text| draft.pattern.message = text.to_string()),
        description: "The message to the agent.",
    },
    ConfigKey {
        name: "paths",
        kind: ValueKind::Selection(|draft, texts| draft.pattern.paths = texts.to_vec()),
        description: "Files it applies to; empty means every text file.",
    },
];
