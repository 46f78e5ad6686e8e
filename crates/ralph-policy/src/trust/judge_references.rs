//! What judges add to an approval and to the seal of a run: the programs that they start, and the files with their
//! instructions.

use super::{GateCommand, GateSearch, TrustError, content_hash, gate_search};
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::judge::{Judge, JudgeBackend};
use ralph_core::policy::Policy;
use ralph_core::sealed_file::{SealReason, SealedFile};
use ralph_core::text;
use ralph_sys::fs;
use std::path::Path;

/// The gates of the policy, and one for the program of each judge. They are searched for files and programs, and never
/// run.
pub fn policy_programs(policy: &Policy) -> Vec<Gate> {
    policy.gates.iter().cloned().chain(policy.judges.iter().map(judge_program)).collect()
}

/// The program that asks an endpoint.
const ENDPOINT_PROGRAM: &str = "curl";

/// A gate for the program of a judge. A replaced `curl` could forge the verdicts of an endpoint, so it counts as the judge's program.
pub fn judge_program(judge: &Judge) -> Gate {
    let words = match &judge.backend {
        JudgeBackend::Command(words) => words.clone(),
        JudgeBackend::Host(host) => vec![host.host.clone()],
        JudgeBackend::Http(_) => vec![ENDPOINT_PROGRAM.to_string()],
    };
    let gate = Gate::new(judge_label(judge), GateInvocation::Argv(words));
    Gate { weight: judge.weight, proof: false, ..gate }
}

const JUDGE_SUFFIX: &str = " (judge)";

/// The name of a judge among those of gates.
pub fn judge_label(judge: &Judge) -> String {
    format!("{}{JUDGE_SUFFIX}", judge.name)
}

/// What a program belongs to and its name, from the name among those of gates: `gate`, `tests`; `judge`, `review`.
pub fn program_owner(label: &str) -> (&'static str, &str) {
    label.strip_suffix(JUDGE_SUFFIX).map_or(("gate", label), |name| ("judge", name))
}

/// What each judge starts or calls.
pub(super) fn judge_commands(policy: &Policy) -> impl Iterator<Item = GateCommand> {
    let command = |judge: &Judge| {
        let backend = text::reveal(&judge.backend.describe());
        // The person must know that more than the backend runs.
        if judge.tests { format!("{backend}, and tests that its reviewers write") } else { backend }
    };
    let shown = move |judge| GateCommand { gate: judge_label(judge), command: command(judge) };
    policy.judges.iter().map(shown)
}

/// The files with the instructions of judges. A file that is gone has no entry.
pub(super) fn prompt_files<'a>(
    project: &Path,
    judges: impl IntoIterator<Item = &'a Judge>,
) -> Result<Vec<SealedFile>, TrustError> {
    let mut files: Vec<SealedFile> = Vec::new();
    for judge in judges {
        let Some(name) = &judge.prompt_file else { continue };
        let path = project.join(name);
        if files.iter().any(|file| file.name == *name) || !fs::exists(&path) {
            continue;
        }
        let (name, hash) = (name.clone(), content_hash::hash_file(&path)?);
        let (gate, why, by) = (judge_label(judge), SealReason::Named, String::new());
        files.push(SealedFile { name, hash, gate, why, by });
    }
    Ok(files)
}

/// The files of the project that decide the results of required gates and judges.
pub fn sealed_policy_files(
    project: &Path,
    policy: &Policy,
    search: &GateSearch<'_>,
) -> Result<Vec<SealedFile>, TrustError> {
    let mut files = gate_search::sealed_files(project, &policy_programs(policy), search)?;
    let required = policy.judges.iter().filter(|judge| judge.is_required());
    merge_files(&mut files, prompt_files(project, required)?);
    Ok(files)
}

/// Adds files that are not known yet, in the order of their names.
pub(super) fn merge_files(files: &mut Vec<SealedFile>, more: Vec<SealedFile>) {
    let new = more.into_iter().filter(|one| files.iter().all(|known| known.name != one.name));
    let new: Vec<SealedFile> = new.collect();
    files.extend(new);
    files.sort_by(|one, other| one.name.cmp(&other.name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::judge::{JudgeApi, JudgeEndpoint, JudgeHost, JudgeKind};
    use ralph_core::requirement::RequirementWeight;

    #[test]
    fn every_judge_has_a_program() {
        let (url, model) = ("https://api.example.org".to_string(), "m".to_string());
        let endpoint = JudgeEndpoint { url, key: None, model, api: JudgeApi::Anthropic };
        for (backend, expected) in [
            (JudgeBackend::Command(vec!["sh".into(), "judge.sh".into()]), &["sh", "judge.sh"][..]),
            (JudgeBackend::Host(JudgeHost { host: "claude".into(), model: None }), &["claude"]),
            (JudgeBackend::Http(endpoint), &["curl"]),
        ] {
            let judge = Judge {
                name: "review".into(),
                kind: JudgeKind::Prompt,
                backend,
                prompt: None,
                prompt_file: None,
                max_tokens: 1,
                timeout_ms: 1,
                reviewers: 1,
                weight: RequirementWeight::Required,
                counts: false,
                tests: false,
                when: Vec::new(),
                min_complexity: 0,
            };
            let words = expected.iter().map(ToString::to_string).collect();
            assert_eq!(judge_program(&judge).command, GateInvocation::Argv(words));
        }
    }
}
