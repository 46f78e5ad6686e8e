//! Checks that the project's policy can judge a run: policy file, approval, tools, git.

use std::ffi::OsStr;

use super::{CheckStatus, DoctorCheck, DoctorContext};
use crate::install::install_notes;
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::judge::JudgeBackend;
use ralph_core::limits::RunLimits;
use ralph_core::policy::{Policy, SessionGates};
use ralph_core::requirement::RequirementWeight;
use ralph_core::text;
use ralph_gates::environment;
use ralph_git::git;
use ralph_home::faults::describe_error;
use ralph_policy::config::{self, ConfigError, ProjectConfig};
use ralph_policy::trust;
use ralph_sys::proc::program_search;

/// Shell builtins and keywords, which are not programs.
const SHELL_BUILTINS: [&str; 20] = [
    ".", ":", "[", "case", "cd", "echo", "eval", "exec", "exit", "export", "false", "for", "if",
    "set", "source", "test", "time", "true", "until", "while",
];

#[derive(Debug)]
pub(super) struct DoctorPolicy(Result<ProjectConfig, ConfigError>);

pub(super) fn load_doctor_policy(context: &DoctorContext<'_>) -> DoctorPolicy {
    DoctorPolicy(config::load(context.project, context.home))
}

impl DoctorPolicy {
    /// The timeouts of all gates together.
    pub(super) fn gates_ms(&self) -> u64 {
        let gates = self.0.iter().flat_map(|config| &config.policy.gates);
        // A stop does not have to wait for a CI provider: the worker continues after it.
        let gates = gates.filter(|gate| !gate.is_ci());
        gates.fold(0, |total, gate| total.saturating_add(gate.timeout_ms))
    }

    /// Whether the gates hold sessions without a run too.
    fn holds_every_session(&self) -> bool {
        self.0.as_ref().is_ok_and(|config| {
            config.policy.session.gates == SessionGates::Every && !config.policy.gates.is_empty()
        })
    }

    pub(super) fn max_iterations(&self) -> Option<u32> {
        let limits = self.0.as_ref().map(|config| &config.policy.limits);
        limits.map_or(RunLimits::DEFAULT.max_iterations, |limits| limits.max_iterations)
    }
}

pub(super) fn check_project(
    context: &DoctorContext<'_>,
    policy: &DoctorPolicy,
) -> Vec<DoctorCheck> {
    const NAME: &str = "policy";
    let repository = check_repository(context, policy);
    let config = match &policy.0 {
        Ok(config) => config,
        Err(error) => {
            let what = error.describe_on_one_line();
            return vec![
                DoctorCheck::bad(NAME, what).fix("fix it; `ralph config` shows every problem"),
                repository,
            ];
        }
    };
    let mut checks = Vec::new();
    match &config.file {
        Some(file) => {
            let what = format!("`{}`, {}", file.path.display(), describe_parts(&config.policy));
            checks.push(DoctorCheck::good(NAME, what));
        }
        None => checks.push(
            DoctorCheck::note(
                NAME,
                "the project has none, so a run is held only to what it was started with",
            )
            .fix("`ralph gate detect` proposes gates"),
        ),
    }
    checks.extend(check_approval(context, config));
    checks.extend(check_tools(context, config));
    checks.extend(check_ci(context, config));
    checks.extend(check_judges(context, config));
    checks.push(repository);
    checks
}

/// `3 gates, 1 CI check, 1 judge`
fn describe_parts(policy: &Policy) -> String {
    let ci_checks = policy.gates.iter().filter(|gate| gate.is_ci()).count();
    let mut parts = vec![text::count_noun(policy.gates.len() - ci_checks, "gate")];
    parts.extend((ci_checks > 0).then(|| text::count_noun(ci_checks, "CI check")));
    let judges = policy.judges.len();
    parts.extend((judges > 0).then(|| text::count_noun(judges, "judge")));
    parts.join(", ")
}

/// What each `[[ci]]` asks, and whether the variable with its token is set.
fn check_ci(context: &DoctorContext<'_>, config: &ProjectConfig) -> Vec<DoctorCheck> {
    let queries = config.policy.gates.iter().filter_map(|gate| Some((gate, gate.ci.as_ref()?)));
    let checks = queries.map(|(gate, query)| {
        let facts = query.describe(gate.timeout_ms);
        let what = shown_part(&gate.name, &gate.command_line(), &facts);
        let token = Some(query.token.as_str()).filter(|token| !token.is_empty());
        check_variable(context, DoctorCheck::good("ci", what), token, CheckStatus::Unclear)
    });
    checks.collect()
}

/// What each judge starts or calls, and whether the variable with its key is set.
fn check_judges(context: &DoctorContext<'_>, config: &ProjectConfig) -> Vec<DoctorCheck> {
    let checks = config.policy.judges.iter().map(|judge| {
        let what = shown_part(&judge.name, &judge.backend.describe(), &judge.describe_limits());
        let key = match &judge.backend {
            JudgeBackend::Http(endpoint) => endpoint.key.as_deref(),
            JudgeBackend::Command(_) | JudgeBackend::Host(_) => None,
        };
        // Without its key a required judge gives no verdict, and no run ends well.
        let unset = if judge.is_required() { CheckStatus::Bad } else { CheckStatus::Unclear };
        check_variable(context, DoctorCheck::good("judge", what), key, unset)
    });
    checks.collect()
}

fn shown_part(name: &str, command: &str, facts: &str) -> String {
    let command = text::clean_line(&text::reveal(command), 200);
    format!("{}: `{command}` ({facts})", text::clean_line(name, 80))
}

/// The check, or, if the variable has no value, one that names it and has the status `unset`.
fn check_variable(
    context: &DoctorContext<'_>,
    checked: DoctorCheck,
    variable: Option<&str>,
    unset: CheckStatus,
) -> DoctorCheck {
    match variable {
        Some(variable) if context.env.get(variable).is_none_or(|value| value.is_empty()) => {
            let variable = text::clean_line(&text::reveal(variable), 80);
            let what = format!("{}; ${variable} is not set in this shell", checked.what);
            let fix = format!("set {variable} where the agent is started");
            DoctorCheck { standing: unset, what, ..checked }.fix(fix)
        }
        Some(_) | None => checked,
    }
}

fn check_approval(context: &DoctorContext<'_>, config: &ProjectConfig) -> Option<DoctorCheck> {
    const NAME: &str = "trust";
    match trust::policy_subject(context.home, config, context.env) {
        Ok(subject) if !subject.needs_approval() => None,
        Ok(subject) if trust::is_approved(context.home, &subject) => {
            Some(DoctorCheck::good(NAME, "a person approved what the policy runs"))
        }
        Ok(subject) => {
            let what = match trust::check_approval_file(context.home, &subject) {
                Ok(()) => {
                    "the current policy is not approved, so no run can start with it".to_string()
                }
                Err(error) => describe_error(&error),
            };
            Some(DoctorCheck::bad(NAME, what).fix("`ralph trust`"))
        }
        Err(error) => Some(DoctorCheck::unclear(NAME, describe_error(&error))),
    }
}

/// Looks for the programs of the gates and judges on the `PATH` that gates run with.
fn check_tools(context: &DoctorContext<'_>, config: &ProjectConfig) -> Option<DoctorCheck> {
    const NAME: &str = "tools";
    let programs = trust::policy_programs(&config.policy);
    if programs.is_empty() {
        return None;
    }
    let subject = trust::policy_subject(context.home, config, context.env).ok();
    let recorded = subject.and_then(|subject| trust::recorded_path(context.home, &subject));
    let path = recorded.or_else(|| context.env.search_path());
    let path = environment::gate_search_path(&config.policy.environment, path).unwrap_or_default();
    let missing: Vec<_> = programs
        .iter()
        .filter_map(|gate| {
            let tool = gate_program(gate)?;
            let directory = config.project.join(&gate.cwd);
            let is_there =
                program_search::find_program(OsStr::new(tool), &directory, &path).is_some();
            (!is_there).then(|| {
                let (owner, name) = trust::program_owner(&gate.name);
                let tool = text::clean_line(tool, 80);
                let named = format!("`{tool}` for {owner} `{}`", text::clean_line(name, 80));
                (gate.weight, named)
            })
        })
        .collect();
    let is_required = missing.iter().any(|(weight, _)| *weight == RequirementWeight::Required);
    let names: Vec<_> = missing.into_iter().map(|(_, named)| named).collect();
    let what = format!("not found: {}", names.join(", "));
    let fix = "install it, then `ralph trust` records its path";
    Some(match (names.is_empty(), is_required) {
        (true, _) => DoctorCheck::good(NAME, "every gate's program was found"),
        (false, true) => DoctorCheck::bad(NAME, what).fix(fix),
        // What is only advice keeps no run from its end.
        (false, false) => DoctorCheck::unclear(NAME, what).fix(fix),
    })
}

/// The program that a gate starts; `None` if only a shell could determine it.
fn gate_program(gate: &Gate) -> Option<&str> {
    match &gate.command {
        GateInvocation::Argv(words) => words.first().map(String::as_str),
        GateInvocation::Shell(line) => {
            let word = line.split_whitespace().next()?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
            (word.bytes().all(is_plain) && !SHELL_BUILTINS.contains(&word)).then_some(word)
        }
    }
}

fn check_repository(context: &DoctorContext<'_>, policy: &DoctorPolicy) -> DoctorCheck {
    const NAME: &str = "git";
    let path = context.env.search_path().unwrap_or_default();
    if program_search::find_program(OsStr::new("git"), context.scratch, &path).is_none() {
        return DoctorCheck::bad(NAME, "git is not on the `PATH`, so changes cannot be detected")
            .fix("install git");
    }
    match git::work_tree_root(context.project) {
        Some(root) => DoctorCheck::good(NAME, format!("`{}` is a repository", root.display())),
        None if policy.holds_every_session() => {
            DoctorCheck::unclear(NAME, install_notes::NO_COMPARISON).fix("`git init`")
        }
        None => DoctorCheck::note(
            NAME,
            "the project is not a git repository, which `--worktree`, `--pr` and `gate run --changed` need",
        )
        .fix("`git init`"),
    }
}
