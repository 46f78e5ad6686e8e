//! Checks judges over all layers, and reads the files with their instructions.

use super::keys::{GATE, JUDGE};
use super::parse::{ConfigEntry, ConfigProblems};
use super::{ConfigDraft, ConfigSource, schema};
use ralph_core::judge::{Judge, JudgeBackend, JudgeKind};
use ralph_core::policy::Policy;
use ralph_core::text;
use ralph_home::faults::describe_error;
use ralph_sys::fs;
use std::path::Path;

/// More than this is not a prompt. Every verdict pays for it.
pub const MAX_PROMPT_BYTES: usize = 64 * 1024;

/// The default, which `ralph config` prints for every judge.
const USUAL_REVIEWERS: u8 = 2;

pub(super) fn check_judges(
    entries: &[ConfigEntry],
    sources: &[ConfigSource],
    problems: &mut ConfigProblems,
) {
    for entry in entries.iter().filter(|entry| entry.is_in(&JUDGE)) {
        let built = ConfigDraft::build(&[], std::slice::from_ref(entry)).policy.judges;
        let Some(judge) = built.first() else { continue };
        let has_gate = entries.iter().any(|other| other.is_in(&GATE) && other.name == judge.name);
        if has_gate {
            let message = format!("there is also a `[[gate]]` named `{}`", judge.name);
            let hint = "requirements are reported by their name: rename one of the two";
            add_problem(entry, "name", (message, hint.to_string()), sources, problems);
        }
        if judge.counts && judge.kind != JudgeKind::Goal {
            let message =
                format!("`counts` has no meaning for a judge of kind `{}`", judge.kind.name());
            let hint = "only a judge of `kind = \"goal\"` can confirm the goal: remove `counts`";
            add_problem(entry, "counts", (message, hint.to_string()), sources, problems);
        }
        if judge.tests && judge.kind != JudgeKind::Adversarial {
            let message =
                format!("`tests` has no meaning for a judge of kind `{}`", judge.kind.name());
            let hint = "only reviewers of `kind = \"adversarial\"` write tests: remove `tests`";
            add_problem(entry, "tests", (message, hint.to_string()), sources, problems);
        }
        if judge.reviewers != USUAL_REVIEWERS && judge.kind != JudgeKind::Adversarial {
            let message =
                format!("`reviewers` has no meaning for a judge of kind `{}`", judge.kind.name());
            let hint =
                "only a judge of `kind = \"adversarial\"` asks reviewers: remove `reviewers`";
            add_problem(entry, "reviewers", (message, hint.to_string()), sources, problems);
        }
        if judge.kind == JudgeKind::Agent && matches!(judge.backend, JudgeBackend::Http(_)) {
            let message = "`judge.backend` cannot be an endpoint for a judge of kind `agent`";
            let hint = "an agent reads files: use `{ host = \"claude\" }`, a command, or `kind = \"prompt\"`";
            let told = (message.to_string(), hint.to_string());
            add_problem(entry, "backend", told, sources, problems);
        }
    }
}

/// Reads the instructions of each judge that names a file. The approved text is the one in effect, so a link may not lead
/// out of the project.
pub(super) fn read_prompts(
    policy: &mut Policy,
    project: &Path,
    entries: &[ConfigEntry],
    sources: &[ConfigSource],
    problems: &mut ConfigProblems,
) {
    for judge in &mut policy.judges {
        let Some(file) = judge.prompt_file.clone() else { continue };
        match read_prompt(project, &file) {
            Ok(text) => judge.prompt = Some(text),
            Err(why) => {
                let entry = entries.iter().find(|one| one.is_in(&JUDGE) && one.name == judge.name);
                let file = text::clean_line(&file, 100);
                let told =
                    (format!("cannot read the prompt `{file}`: {why}"), PROMPT_HINT.to_string());
                if let Some(entry) = entry {
                    add_problem(entry, "prompt", told, sources, problems);
                }
            }
        }
    }
}

const PROMPT_HINT: &str =
    "name a text file inside the project, or remove `prompt` to use the preset of the kind";

fn read_prompt(project: &Path, file: &str) -> Result<String, String> {
    let path = project.join(file);
    let resolved = fs::resolve(&path).ok_or("there is no such file")?;
    let is_inside = fs::resolve(project).is_some_and(|project| resolved.starts_with(project));
    if !is_inside {
        return Err("it leads out of the project".to_string());
    }
    let bytes = fs::read(&resolved, MAX_PROMPT_BYTES).map_err(|error| describe_error(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_string())?;
    if text.trim().is_empty() { Err("it is empty".to_string()) } else { Ok(text) }
}

fn add_problem(
    entry: &ConfigEntry,
    key: &str,
    (message, hint): (String, String),
    sources: &[ConfigSource],
    problems: &mut ConfigProblems,
) {
    let setting = entry.settings.iter().find(|setting| setting.key == key);
    let source = setting
        .and_then(|setting| sources.iter().find(|source| source.layer == setting.location.layer));
    if let (Some(setting), Some(source)) = (setting, source) {
        problems.add(source, setting.span.clone(), message, Some(hint));
    }
}

/// A judge with the defaults of `[[judge]]`, for one that no policy describes.
pub fn default_judge() -> Judge {
    let entries = schema::parse_defaults().entries;
    let entry = entries.iter().find(|entry| entry.is_in(&JUDGE));
    let built = entry
        .and_then(|entry| ConfigDraft::build(&[], std::slice::from_ref(entry)).policy.judges.pop());
    built.unwrap_or_else(empty_judge)
}

/// A judge whose keys are not set yet.
pub(super) fn empty_judge() -> Judge {
    Judge {
        name: String::new(),
        kind: JudgeKind::default(),
        backend: JudgeBackend::Command(Vec::new()),
        prompt: None,
        prompt_file: None,
        max_tokens: 0,
        timeout_ms: 0,
        reviewers: 0,
        weight: ralph_core::requirement::RequirementWeight::Required,
        counts: false,
        tests: false,
        when: Vec::new(),
        min_complexity: 0,
    }
}
