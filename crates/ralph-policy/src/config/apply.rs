//! Builds the policy, the runner settings and the notification settings from parsed settings.
//!
//! Values were checked when they were parsed, so unknown keys and unexpected value kinds are ignored here.

use super::parse::{ConfigEntry, ConfigSetting, PIPELINE_TABLE};
use super::value::{ConfigValue, parse_hours};
use crate::notify_config::{NotifyChannel, NotifySettings};
use ralph_core::drive::DriveSettings;
use ralph_core::gate::{Gate, GateInvocation, GateTrigger, MinTests, ReportFormat, RerunPolicy};
use ralph_core::policy::OnTampering;
use ralph_core::policy::{Chunk, LineCheck, LinePattern, Policy};
use ralph_core::requirement::{RequirementStage, RequirementWeight};
use ralph_core::status::RunStatus;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

pub(super) fn build_policy(settings: &[ConfigSetting], entries: &[ConfigEntry]) -> Policy {
    let mut policy = Policy::default();
    for setting in settings {
        set_policy_key(&mut policy, &setting.key, &setting.value);
    }
    for entry in entries {
        match entry.table {
            "gate" => policy.gates.push(build_gate(&entry.settings)),
            "chunk" => policy.chunks.push(build_chunk(entry)),
            PIPELINE_TABLE => policy.pipeline.push(build_chunk(entry)),
            _ => policy.lines.patterns.push(build_pattern(&entry.settings)),
        }
    }
    policy
}

pub(super) fn build_notify(settings: &[ConfigSetting]) -> NotifySettings {
    let mut notify = NotifySettings { channels: Vec::new(), statuses: Vec::new() };
    for setting in settings {
        match (&*setting.key, &setting.value) {
            ("notify.bell", ConfigValue::Flag(true)) => notify.channels.push(NotifyChannel::Bell),
            ("notify.desktop", ConfigValue::Flag(true)) => {
                notify.channels.push(NotifyChannel::Desktop)
            }
            ("notify.command", ConfigValue::Texts(argv)) => {
                notify.channels.push(NotifyChannel::Command(argv.clone()))
            }
            ("notify.webhook", ConfigValue::Url(address)) => {
                notify.channels.push(NotifyChannel::Webhook(address.clone()));
            }
            ("notify.on", ConfigValue::Texts(names)) => {
                notify.statuses = names.iter().filter_map(|name| RunStatus::parse(name)).collect();
            }
            _ => {}
        }
    }
    notify
}

pub(super) fn build_runner(settings: &[ConfigSetting]) -> DriveSettings {
    let mut runner = DriveSettings::DEFAULT;
    for setting in settings {
        set_runner_key(&mut runner, &setting.key, &setting.value);
    }
    runner
}

fn set_runner_key(runner: &mut DriveSettings, key: &str, value: &ConfigValue) {
    let waits = &mut runner.waits;
    match (key, value) {
        ("runner.sessions", ConfigValue::Text(text)) => set_choice(&mut runner.sessions, text),
        ("runner.model", ConfigValue::Text(text)) => runner.model = Some(text.clone()),
        ("runner.stronger_model", ConfigValue::Text(text)) => {
            runner.stronger_model = Some(text.clone());
        }
        ("runner.agent_arguments", ConfigValue::Texts(texts)) => runner.arguments.clone_from(texts),
        ("runner.idle_after", ConfigValue::DurationMs(ms)) => runner.idle_ms = *ms,
        ("runner.question_after", ConfigValue::DurationMs(ms)) => runner.question_ms = *ms,
        ("runner.wait_for_limits", ConfigValue::DurationMs(ms)) => waits.limit_ms = *ms,
        ("runner.max_resumes", ConfigValue::Count(count)) => waits.resumes = *count,
        ("runner.limit_jitter", ConfigValue::DurationMs(ms)) => waits.jitter_ms = *ms,
        ("runner.quiet_hours", ConfigValue::Text(text)) => waits.quiet = parse_hours(text),
        ("runner.max_window_share", ConfigValue::Permille(share)) => {
            waits.share_permille = Some(*share);
        }
        ("runner.wait_for_errors", ConfigValue::DurationMs(ms)) => waits.errors_ms = *ms,
        ("runner.worst_turn_usd", ConfigValue::MicroUsd(micro)) => {
            runner.worst_turn_micro_usd = *micro
        }
        ("runner.max_cost_per_day_usd", ConfigValue::MicroUsd(micro)) => {
            runner.day_micro_usd = (*micro > 0).then_some(*micro);
        }
        _ => {}
    }
}

fn set_policy_key(policy: &mut Policy, key: &str, value: &ConfigValue) {
    match (key, value) {
        ("run.max_iterations", ConfigValue::Count(count)) => {
            policy.limits.max_iterations = (*count > 0).then_some(*count);
        }
        ("run.max_duration", ConfigValue::DurationMs(ms)) => {
            policy.limits.max_duration_ms = (*ms > 0).then_some(*ms);
        }
        ("run.max_cost_usd", ConfigValue::MicroUsd(micro)) => {
            policy.limits.max_cost_micro_usd = (*micro > 0).then_some(*micro);
        }
        ("run.max_tokens", ConfigValue::Count(count)) => {
            policy.limits.max_tokens = (*count > 0).then_some(u64::from(*count));
        }
        ("run.min_iterations", ConfigValue::Count(count)) => policy.limits.min_iterations = *count,
        ("run.stuck_after", ConfigValue::Count(count)) => policy.limits.stuck_after = *count,
        ("run.handover_at", ConfigValue::Permille(permille)) => {
            policy.limits.handover_at_permille = *permille;
        }
        ("run.baseline", ConfigValue::Text(text)) => set_choice(&mut policy.baseline, text),
        ("run.change", ConfigValue::Text(text)) => set_choice(&mut policy.change, text),
        ("run.on_tampering", ConfigValue::Text(text)) => {
            policy.on_tampering =
                if text == "review" { OnTampering::EndInReview } else { OnTampering::Block };
        }
        ("lines.forbid", ConfigValue::Texts(texts)) => {
            policy.lines.forbid =
                texts.iter().filter_map(|text| parse_choice::<LineCheck>(text)).collect();
        }
        ("lines.exclude", ConfigValue::Texts(texts)) => policy.lines.exclude.clone_from(texts),
        ("protect.guard", ConfigValue::Text(text)) => set_choice(&mut policy.protect.guard, text),
        ("protect.paths", ConfigValue::Texts(texts)) => policy.protect.paths.clone_from(texts),
        ("tests.integrity", ConfigValue::Text(text)) => {
            set_choice(&mut policy.tests.integrity, text)
        }
        ("tests.red_first", ConfigValue::Text(text)) => {
            set_choice(&mut policy.tests.red_first, text)
        }
        ("tests.paths", ConfigValue::Texts(texts)) => policy.tests.paths.clone_from(texts),
        ("verify.checkout", ConfigValue::Text(text)) => {
            set_choice(&mut policy.verify.checkout, text)
        }
        ("verify.claims", ConfigValue::Text(text)) => set_choice(&mut policy.verify.claims, text),
        ("orchestrator.plan", ConfigValue::Text(text)) => {
            set_choice(&mut policy.plan_approver, text)
        }
        ("verify.link", ConfigValue::Texts(texts)) => policy.verify.link.clone_from(texts),
        ("environment.pass", ConfigValue::Texts(texts)) => {
            policy.environment.pass.clone_from(texts)
        }
        (key, ConfigValue::Text(text)) => {
            if let Some(name) = key.strip_prefix("environment.set.") {
                policy.environment.set.push((name.to_string(), text.clone()));
            }
        }
        _ => {}
    }
}

fn build_gate(settings: &[ConfigSetting]) -> Gate {
    let mut gate = Gate {
        name: String::new(),
        stage: RequirementStage::Correctness,
        command: GateInvocation::Argv(Vec::new()),
        cwd: String::new(),
        timeout_ms: 0,
        paths: Vec::new(),
        when: Vec::new(),
        on: Vec::new(),
        min_complexity: 0,
        weight: RequirementWeight::Required,
        report: ReportFormat::default(),
        min_tests: MinTests::default(),
        rerun: RerunPolicy::default(),
        env: Vec::new(),
    };
    for setting in settings {
        match (&*setting.key, &setting.value) {
            ("name", ConfigValue::Text(text)) => gate.name.clone_from(text),
            ("stage", ConfigValue::Text(text)) => set_choice(&mut gate.stage, text),
            ("run", ConfigValue::Texts(words)) => {
                gate.command = GateInvocation::Argv(words.clone())
            }
            ("shell", ConfigValue::Text(line)) => {
                gate.command = GateInvocation::Shell(line.clone())
            }
            ("cwd", ConfigValue::Text(text)) => gate.cwd = normalize_path(text),
            ("timeout", ConfigValue::DurationMs(ms)) => gate.timeout_ms = *ms,
            ("paths", ConfigValue::Texts(texts)) => gate.paths.clone_from(texts),
            ("when", ConfigValue::Texts(texts)) => gate.when.clone_from(texts),
            ("on", ConfigValue::Texts(texts)) => {
                gate.on =
                    texts.iter().filter_map(|text| parse_choice::<GateTrigger>(text)).collect();
            }
            ("min_complexity", ConfigValue::Count(count)) => {
                gate.min_complexity = u8::try_from(*count).unwrap_or(u8::MAX);
            }
            ("required", ConfigValue::Flag(true)) => gate.weight = RequirementWeight::Required,
            ("required", ConfigValue::Flag(false)) => gate.weight = RequirementWeight::Advisory,
            ("report", ConfigValue::Text(text)) => set_choice(&mut gate.report, text),
            ("min_tests", ConfigValue::Text(text)) => set_choice(&mut gate.min_tests, text),
            ("min_tests", ConfigValue::Count(count)) => gate.min_tests = MinTests::AtLeast(*count),
            ("rerun", ConfigValue::Text(text)) => set_choice(&mut gate.rerun, text),
            ("env", ConfigValue::Texts(texts)) => gate.env.clone_from(texts),
            _ => {}
        }
    }
    gate
}

pub(super) fn build_chunk(entry: &ConfigEntry) -> Chunk {
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
            ("match", ConfigValue::Text(text)) => chunk.r#match.clone_from(text),
            ("gates", ConfigValue::Texts(texts)) => chunk.gates.clone_from(texts),
            ("outputs", ConfigValue::Texts(texts)) => chunk.outputs.clone_from(texts),
            ("max_holds", ConfigValue::Count(count)) => chunk.max_holds = *count,
            ("after", ConfigValue::Texts(names)) => chunk.after.clone_from(names),
            _ => {}
        }
    }
    chunk
}

fn build_pattern(settings: &[ConfigSetting]) -> LinePattern {
    let mut pattern = LinePattern {
        name: String::new(),
        pattern: String::new(),
        message: String::new(),
        paths: Vec::new(),
    };
    for setting in settings {
        match (&*setting.key, &setting.value) {
            ("name", ConfigValue::Text(text)) => pattern.name.clone_from(text),
            ("pattern", ConfigValue::Text(text)) => pattern.pattern.clone_from(text),
            ("message", ConfigValue::Text(text)) => pattern.message.clone_from(text),
            ("paths", ConfigValue::Texts(texts)) => pattern.paths.clone_from(texts),
            _ => {}
        }
    }
    pattern
}

/// Normalizes a relative path: `./web/` becomes `web`, `.` becomes empty.
fn normalize_path(text: &str) -> String {
    let parts: Vec<_> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// Parses a choice by the serde name of its type; policy files use the same names.
fn parse_choice<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    let text: StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(text).ok()
}

fn set_choice<T: for<'de> Deserialize<'de>>(target: &mut T, text: &str) {
    if let Some(chosen) = parse_choice(text) {
        *target = chosen;
    }
}
