//! Builds the policy, the runner settings and the notification settings from parsed settings.
//!
//! Values were checked when they were parsed, so unknown keys and unexpected value kinds are ignored here.

use super::read::{Entry, PIPELINE, Setting};
use super::value::{Value, hours};
use crate::notify_config::{Notify, Way};
use ralph_core::drive::Settings;
use ralph_core::gate::{Command, Format, Gate, MinTests, Moment, Rerun};
use ralph_core::policy::OnTampering;
use ralph_core::policy::{Chunk, LineCheck, LinePattern, Policy};
use ralph_core::requirement::{Stage, Weight};
use ralph_core::status::Status;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

pub(super) fn policy(settings: &[Setting], entries: &[Entry]) -> Policy {
    let mut policy = Policy::default();
    for setting in settings {
        set(&mut policy, &setting.key, &setting.value);
    }
    for entry in entries {
        match entry.table {
            "gate" => policy.gates.push(gate(&entry.settings)),
            "chunk" => policy.chunks.push(chunk(entry)),
            PIPELINE => policy.pipeline.push(chunk(entry)),
            _ => policy.lines.patterns.push(pattern(&entry.settings)),
        }
    }
    policy
}

pub(super) fn notify(settings: &[Setting]) -> Notify {
    let mut notify = Notify { ways: Vec::new(), on: Vec::new() };
    for setting in settings {
        match (&*setting.key, &setting.value) {
            ("notify.bell", Value::Flag(true)) => notify.ways.push(Way::Bell),
            ("notify.desktop", Value::Flag(true)) => notify.ways.push(Way::Desktop),
            ("notify.command", Value::Texts(argv)) => notify.ways.push(Way::Command(argv.clone())),
            ("notify.webhook", Value::Address(address)) => {
                notify.ways.push(Way::Webhook(address.clone()));
            }
            ("notify.on", Value::Texts(names)) => {
                notify.on = names.iter().filter_map(|name| Status::parse(name)).collect();
            }
            _ => {}
        }
    }
    notify
}

pub(super) fn runner(settings: &[Setting]) -> Settings {
    let mut runner = Settings::DEFAULT;
    for setting in settings {
        drive(&mut runner, &setting.key, &setting.value);
    }
    runner
}

fn drive(runner: &mut Settings, key: &str, value: &Value) {
    let waits = &mut runner.waits;
    match (key, value) {
        ("runner.sessions", Value::Text(text)) => choose(&mut runner.sessions, text),
        ("runner.model", Value::Text(text)) => runner.model = Some(text.clone()),
        ("runner.stronger_model", Value::Text(text)) => {
            runner.stronger_model = Some(text.clone());
        }
        ("runner.agent_arguments", Value::Texts(texts)) => runner.arguments.clone_from(texts),
        ("runner.idle_after", Value::DurationMs(ms)) => runner.idle_ms = *ms,
        ("runner.question_after", Value::DurationMs(ms)) => runner.question_ms = *ms,
        ("runner.wait_for_limits", Value::DurationMs(ms)) => waits.limit_ms = *ms,
        ("runner.max_resumes", Value::Count(count)) => waits.resumes = *count,
        ("runner.limit_jitter", Value::DurationMs(ms)) => waits.jitter_ms = *ms,
        ("runner.quiet_hours", Value::Text(text)) => waits.quiet = hours(text),
        ("runner.max_window_share", Value::Permille(share)) => {
            waits.share_permille = Some(*share);
        }
        ("runner.wait_for_errors", Value::DurationMs(ms)) => waits.errors_ms = *ms,
        ("runner.worst_turn_usd", Value::MicroUsd(micro)) => runner.worst_turn_micro_usd = *micro,
        ("runner.max_cost_per_day_usd", Value::MicroUsd(micro)) => {
            runner.day_micro_usd = (*micro > 0).then_some(*micro);
        }
        _ => {}
    }
}

fn set(policy: &mut Policy, key: &str, value: &Value) {
    match (key, value) {
        ("run.max_iterations", Value::Count(count)) => {
            policy.limits.max_iterations = (*count > 0).then_some(*count);
        }
        ("run.max_duration", Value::DurationMs(ms)) => {
            policy.limits.max_duration_ms = (*ms > 0).then_some(*ms);
        }
        ("run.max_cost_usd", Value::MicroUsd(micro)) => {
            policy.limits.max_cost_micro_usd = (*micro > 0).then_some(*micro);
        }
        ("run.max_tokens", Value::Count(count)) => {
            policy.limits.max_tokens = (*count > 0).then_some(u64::from(*count));
        }
        ("run.min_iterations", Value::Count(count)) => policy.limits.min_iterations = *count,
        ("run.stuck_after", Value::Count(count)) => policy.limits.stuck_after = *count,
        ("run.handover_at", Value::Permille(permille)) => {
            policy.limits.handover_at_permille = *permille;
        }
        ("run.baseline", Value::Text(text)) => choose(&mut policy.baseline, text),
        ("run.change", Value::Text(text)) => choose(&mut policy.change, text),
        ("run.on_tampering", Value::Text(text)) => {
            policy.on_tampering =
                if text == "review" { OnTampering::EndInReview } else { OnTampering::Block };
        }
        ("lines.forbid", Value::Texts(texts)) => {
            policy.lines.forbid =
                texts.iter().filter_map(|text| choice::<LineCheck>(text)).collect();
        }
        ("lines.exclude", Value::Texts(texts)) => policy.lines.exclude.clone_from(texts),
        ("protect.guard", Value::Text(text)) => choose(&mut policy.protect.guard, text),
        ("protect.paths", Value::Texts(texts)) => policy.protect.paths.clone_from(texts),
        ("tests.integrity", Value::Text(text)) => choose(&mut policy.tests.integrity, text),
        ("tests.red_first", Value::Text(text)) => choose(&mut policy.tests.red_first, text),
        ("tests.paths", Value::Texts(texts)) => policy.tests.paths.clone_from(texts),
        ("verify.checkout", Value::Text(text)) => choose(&mut policy.verify.checkout, text),
        ("verify.claims", Value::Text(text)) => choose(&mut policy.verify.claims, text),
        ("orchestrator.plan", Value::Text(text)) => choose(&mut policy.plan_approver, text),
        ("verify.link", Value::Texts(texts)) => policy.verify.link.clone_from(texts),
        ("environment.pass", Value::Texts(texts)) => policy.environment.pass.clone_from(texts),
        (key, Value::Text(text)) => {
            if let Some(name) = key.strip_prefix("environment.set.") {
                policy.environment.set.push((name.to_string(), text.clone()));
            }
        }
        _ => {}
    }
}

fn gate(settings: &[Setting]) -> Gate {
    let mut gate = Gate {
        name: String::new(),
        stage: Stage::Correctness,
        command: Command::Argv(Vec::new()),
        cwd: String::new(),
        timeout_ms: 0,
        paths: Vec::new(),
        when: Vec::new(),
        on: Vec::new(),
        min_complexity: 0,
        weight: Weight::Required,
        report: Format::default(),
        min_tests: MinTests::default(),
        rerun: Rerun::default(),
        env: Vec::new(),
    };
    for setting in settings {
        match (&*setting.key, &setting.value) {
            ("name", Value::Text(text)) => gate.name.clone_from(text),
            ("stage", Value::Text(text)) => choose(&mut gate.stage, text),
            ("run", Value::Texts(words)) => gate.command = Command::Argv(words.clone()),
            ("shell", Value::Text(line)) => gate.command = Command::Shell(line.clone()),
            ("cwd", Value::Text(text)) => gate.cwd = relative(text),
            ("timeout", Value::DurationMs(ms)) => gate.timeout_ms = *ms,
            ("paths", Value::Texts(texts)) => gate.paths.clone_from(texts),
            ("when", Value::Texts(texts)) => gate.when.clone_from(texts),
            ("on", Value::Texts(texts)) => {
                gate.on = texts.iter().filter_map(|text| choice::<Moment>(text)).collect();
            }
            ("min_complexity", Value::Count(count)) => {
                gate.min_complexity = u8::try_from(*count).unwrap_or(u8::MAX);
            }
            ("required", Value::Flag(true)) => gate.weight = Weight::Required,
            ("required", Value::Flag(false)) => gate.weight = Weight::Advisory,
            ("report", Value::Text(text)) => choose(&mut gate.report, text),
            ("min_tests", Value::Text(text)) => choose(&mut gate.min_tests, text),
            ("min_tests", Value::Count(count)) => gate.min_tests = MinTests::AtLeast(*count),
            ("rerun", Value::Text(text)) => choose(&mut gate.rerun, text),
            ("env", Value::Texts(texts)) => gate.env.clone_from(texts),
            _ => {}
        }
    }
    gate
}

pub(super) fn chunk(entry: &Entry) -> Chunk {
    let mut chunk = Chunk {
        after: Vec::new(),
        name: entry.name.clone(),
        // The default for a pipeline chunk without `match`.
        r#match: entry.name.clone(),
        gates: Vec::new(),
        outputs: Vec::new(),
        max_holds: 0,
    };
    for setting in &entry.settings {
        match (&*setting.key, &setting.value) {
            ("match", Value::Text(text)) => chunk.r#match.clone_from(text),
            ("gates", Value::Texts(texts)) => chunk.gates.clone_from(texts),
            ("outputs", Value::Texts(texts)) => chunk.outputs.clone_from(texts),
            ("max_holds", Value::Count(count)) => chunk.max_holds = *count,
            ("after", Value::Texts(names)) => chunk.after.clone_from(names),
            _ => {}
        }
    }
    chunk
}

fn pattern(settings: &[Setting]) -> LinePattern {
    let mut pattern = LinePattern {
        name: String::new(),
        pattern: String::new(),
        message: String::new(),
        paths: Vec::new(),
    };
    for setting in settings {
        match (&*setting.key, &setting.value) {
            ("name", Value::Text(text)) => pattern.name.clone_from(text),
            ("pattern", Value::Text(text)) => pattern.pattern.clone_from(text),
            ("message", Value::Text(text)) => pattern.message.clone_from(text),
            ("paths", Value::Texts(texts)) => pattern.paths.clone_from(texts),
            _ => {}
        }
    }
    pattern
}

/// Normalizes a relative path: `./web/` becomes `web`, `.` becomes empty.
fn relative(text: &str) -> String {
    let parts: Vec<_> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// Parses a choice by the serde name of its type; policy files use the same names.
fn choice<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    let text: StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(text).ok()
}

fn choose<T: for<'de> Deserialize<'de>>(target: &mut T, text: &str) {
    if let Some(chosen) = choice(text) {
        *target = chosen;
    }
}
