//! The files of other loop tools, by name, and the parser of each.

use super::{
    ImportedContent, KeptText, beads, feature_list, front_matter, hookify, markdown, plan_state,
    prd, shell_rc, task_master, validator, yaml_files,
};

/// Files with the same format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFamily {
    Stories,
    Features,
    Plan,
    Task,
    Tasks,
    TaskMaster,
    Issues,
    PlanState,
    LoopFile,
    Settings,
    Orchestrator,
    Ralphy,
    Validator,
    ValidatorCheck,
    Rule,
    Progress,
    Prompt,
    /// A document that the agent should read.
    Reference,
    Notes,
}

impl FileFamily {
    pub fn name(self) -> &'static str {
        match self {
            Self::Stories => "stories",
            Self::Features => "features",
            Self::Plan => "plan",
            Self::Task => "task",
            Self::Tasks | Self::TaskMaster => "tasks",
            Self::Issues => "issues",
            Self::PlanState => "plan state",
            Self::LoopFile => "loop",
            Self::Settings | Self::Orchestrator | Self::Ralphy | Self::Validator => "settings",
            Self::ValidatorCheck => "check",
            Self::Rule => "rule",
            Self::Progress => "progress",
            Self::Prompt => "prompt",
            Self::Reference => "reference",
            Self::Notes => "notes",
        }
    }

    pub(super) fn parse(self, name: &str, text: &str) -> Result<ImportedContent, String> {
        match self {
            Self::Stories => prd::import_prd(text),
            Self::Features => feature_list::import_feature_list(text),
            Self::Plan => markdown::import_plan(text),
            Self::Task => front_matter::import_task(text),
            Self::Tasks => yaml_files::import_tasks(text),
            Self::TaskMaster => task_master::import_task_master(text),
            Self::Issues => beads::import_issues(text),
            Self::PlanState => plan_state::import_plan_state(text),
            Self::LoopFile => front_matter::import_loop_file(text),
            Self::Settings => shell_rc::import_shell_rc(text),
            Self::Orchestrator => yaml_files::import_orchestrator(text),
            Self::Ralphy => yaml_files::import_ralphy(text),
            Self::Validator => validator::import_config(text),
            Self::ValidatorCheck => validator::import_check(file_stem(name), text),
            Self::Rule => hookify::import_rule(text),
            Self::Progress => import_whole_text(text, |text, into| into.progress = Some(text)),
            Self::Prompt => import_whole_text(text, |text, into| into.goal.push(text)),
            Self::Reference => import_whole_text(text, |_, into| into.is_reference = true),
            Self::Notes => import_whole_text(text, |text, into| {
                into.kept.push(KeptText { key: "text".to_string(), line: Some(1), text });
            }),
        }
    }
}

fn file_stem(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.split('.').next().unwrap_or(file)
}

fn import_whole_text(
    text: &str,
    put: fn(String, &mut ImportedContent),
) -> Result<ImportedContent, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is empty".to_string());
    }
    let mut understood = ImportedContent::default();
    put(text.to_string(), &mut understood);
    Ok(understood)
}

/// Known files, by precedence: where files contradict each other, the earlier one wins.
pub(super) const KNOWN_FILES: [(&str, FileFamily); 56] = [
    ("prd.json", FileFamily::Stories),
    ("tasks/prd.json", FileFamily::Stories),
    ("scripts/ralph/prd.json", FileFamily::Stories),
    (".ralph/prd.json", FileFamily::Stories),
    (".omc/prd.json", FileFamily::Stories),
    ("feature_list.json", FileFamily::Features),
    ("features.json", FileFamily::Features),
    (".taskmaster/tasks/tasks.json", FileFamily::TaskMaster),
    ("tasks/tasks.json", FileFamily::TaskMaster),
    ("tasks.json", FileFamily::Stories),
    (".beads/issues.jsonl", FileFamily::Issues),
    (".beads/beads.jsonl", FileFamily::Issues),
    ("RALPH_TASK.md", FileFamily::Task),
    (".ralph/ralph-tasks.md", FileFamily::Plan),
    (".ralph/fix_plan.md", FileFamily::Plan),
    (".ralph/@fix_plan.md", FileFamily::Plan),
    ("fix_plan.md", FileFamily::Plan),
    ("@fix_plan.md", FileFamily::Plan),
    ("IMPLEMENTATION_PLAN.md", FileFamily::Plan),
    ("PLAN.md", FileFamily::Plan),
    ("plan.md", FileFamily::Plan),
    ("PRD.md", FileFamily::Plan),
    ("prd.md", FileFamily::Plan),
    ("TODO.md", FileFamily::Plan),
    (".ralph-state.json", FileFamily::PlanState),
    ("tasks.md", FileFamily::Plan),
    ("tasks.yaml", FileFamily::Tasks),
    ("tasks.yml", FileFamily::Tasks),
    (".ralph/tasks.yml", FileFamily::Tasks),
    (".claude/plan-state.json", FileFamily::PlanState),
    ("plan-state.json", FileFamily::PlanState),
    (".claude/ralph-loop.local.md", FileFamily::LoopFile),
    (".ralphrc", FileFamily::Settings),
    ("ralph.yml", FileFamily::Orchestrator),
    ("ralph.yaml", FileFamily::Orchestrator),
    (".ralphy/config.yaml", FileFamily::Ralphy),
    (".validator/config.yml", FileFamily::Validator),
    (".gauntlet/config.yml", FileFamily::Validator),
    (".ralph/PROMPT.md", FileFamily::Prompt),
    ("PROMPT.md", FileFamily::Prompt),
    ("PROMPT_build.md", FileFamily::Prompt),
    ("PROMPT_plan.md", FileFamily::Notes),
    ("progress.txt", FileFamily::Progress),
    ("claude-progress.txt", FileFamily::Progress),
    (".ralph/progress.md", FileFamily::Progress),
    ("scripts/ralph/progress.txt", FileFamily::Progress),
    (".ralph/guardrails.md", FileFamily::Notes),
    (".ralph/agent/scratchpad.md", FileFamily::Notes),
    ("SHARED_TASK_NOTES.md", FileFamily::Notes),
    (".specify/memory/constitution.md", FileFamily::Reference),
    ("AGENTS.md", FileFamily::Reference),
    ("@AGENT.md", FileFamily::Reference),
    ("AGENT.md", FileFamily::Reference),
    (".ralph/AGENT.md", FileFamily::Reference),
    (".ralph/@AGENT.md", FileFamily::Reference),
    ("openspec/project.md", FileFamily::Reference),
];

/// Files that alone are no loop: nearly every project has some of them.
pub(super) fn is_common_file(name: &str) -> bool {
    matches!(name, "AGENTS.md" | "TODO.md" | "PLAN.md" | "plan.md" | "AGENT.md")
}

/// A directory whose subdirectories are specifications, each with a task list and documents.
pub(super) struct SpecificationLayout {
    pub(super) directory: &'static str,
    /// Documents beside `tasks.md` that the agent should read.
    pub(super) documents: &'static [&'static str],
    /// Subdirectories that are not specifications.
    pub(super) excluded: &'static [&'static str],
}

pub(super) const SPECIFICATIONS: [SpecificationLayout; 3] = [
    SpecificationLayout {
        directory: "specs",
        documents: &[
            "requirements.md",
            "design.md",
            "research.md",
            "spec.md",
            "plan.md",
            "data-model.md",
            "quickstart.md",
        ],
        excluded: &[],
    },
    SpecificationLayout {
        directory: ".kiro/specs",
        documents: &["requirements.md", "bugfix.md", "design.md"],
        excluded: &[],
    },
    SpecificationLayout {
        directory: "openspec/changes",
        documents: &["proposal.md", "design.md"],
        excluded: &["archive"],
    },
];

/// Directories of single files.
pub(super) struct FileDirectory {
    pub(super) directory: &'static str,
    pub(super) is_file: fn(&str) -> bool,
    pub(super) family: FileFamily,
}

pub(super) const FILE_DIRECTORIES: [FileDirectory; 9] = [
    FileDirectory {
        directory: ".validator/checks",
        is_file: is_yaml,
        family: FileFamily::ValidatorCheck,
    },
    FileDirectory {
        directory: ".gauntlet/checks",
        is_file: is_yaml,
        family: FileFamily::ValidatorCheck,
    },
    FileDirectory {
        directory: ".validator/reviews",
        is_file: is_document,
        family: FileFamily::Notes,
    },
    FileDirectory {
        directory: ".gauntlet/reviews",
        is_file: is_document,
        family: FileFamily::Notes,
    },
    FileDirectory { directory: ".claude", is_file: is_hookify_rule, family: FileFamily::Rule },
    FileDirectory {
        directory: ".kiro/steering",
        is_file: is_markdown,
        family: FileFamily::Reference,
    },
    FileDirectory {
        directory: ".ralph/specs",
        is_file: is_markdown,
        family: FileFamily::Reference,
    },
    FileDirectory { directory: "specs", is_file: is_markdown, family: FileFamily::Reference },
    FileDirectory { directory: ".taskmaster/docs", is_file: is_prd, family: FileFamily::Reference },
];

fn is_yaml(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".yml", ".yaml"].iter().any(|extension| name.ends_with(extension))
}

pub(super) fn is_markdown(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".md")
}

fn is_document(name: &str) -> bool {
    is_markdown(name) || is_yaml(name)
}

fn is_prd(name: &str) -> bool {
    matches!(name, "prd.txt" | "prd.md")
}

fn is_hookify_rule(name: &str) -> bool {
    name.starts_with("hookify.") && name.ends_with(".local.md")
}

/// The family of a file that belongs to a loop by its place, in any directory.
pub fn known_family(path: &str) -> Option<FileFamily> {
    let is_at = |known: &str| {
        path.strip_suffix(known).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let known = KNOWN_FILES.iter().filter(|(known, _)| is_at(known));
    let longest = known.max_by_key(|(known, _)| known.len()).map(|(_, family)| *family);
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let ends_with = |wanted: &str| {
        directory.strip_suffix(wanted).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let single =
        FILE_DIRECTORIES.iter().find(|one| ends_with(one.directory) && (one.is_file)(name));
    let above = directory.rsplit_once('/').map_or("", |(above, _)| above);
    let is_specification = |layout: &&SpecificationLayout| {
        above == layout.directory || above.ends_with(&format!("/{}", layout.directory))
    };
    let specification = SPECIFICATIONS.iter().find(is_specification);
    let is_document = specification.is_some_and(|layout| layout.documents.contains(&name));
    if is_document {
        return Some(FileFamily::Reference);
    }
    let is_task_part = ends_with("tasks")
        && SPECIFICATIONS.iter().any(|layout| {
            directory.starts_with(&format!("{}/", layout.directory))
                || directory.contains(&format!("/{}/", layout.directory))
        });
    let is_plan =
        (ends_with("docs/plans") || ends_with("doc/plans") || is_task_part) && is_markdown(name);
    longest.or(single.map(|one| one.family)).or(is_plan.then_some(FileFamily::Plan))
}

/// The family of a file that a person names, by its place, its name or its extension.
pub(super) fn family_of_name(path: &str) -> FileFamily {
    let name = path.rsplit('/').next().unwrap_or(path);
    let by_name = || {
        let known = KNOWN_FILES.iter().find(|(known, _)| {
            let known = known.rsplit('/').next().unwrap_or(known);
            // Settings of many tools have this name.
            known == name && !known.starts_with("config.")
        });
        known.map(|(_, family)| *family)
    };
    known_family(path).or_else(by_name).unwrap_or_else(|| match name.rsplit('.').next() {
        _ if is_hookify_rule(name) => FileFamily::Rule,
        Some("json") => FileFamily::Stories,
        Some("jsonl") => FileFamily::Issues,
        Some("yaml" | "yml") => FileFamily::Tasks,
        Some("txt") => FileFamily::Progress,
        _ => FileFamily::Plan,
    })
}
