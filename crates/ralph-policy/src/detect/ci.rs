//! Gates from the configuration of GitHub Actions, GitLab CI, `CircleCI`, Azure Pipelines, Travis, Bitbucket Pipelines
//! and pre-commit.

use super::ci_facts::CiFacts;
use super::command_import::{self, CommandOrigin, ImportedScript};
use super::gate_draft::{GateAspect, GateDraft};
use super::project_dir::{DetectionNotes, ProjectDir};
use super::yaml::DataNode;

const MAX_WORKFLOWS: usize = 40;
const WORKFLOWS_DIR: &str = ".github/workflows";

/// Events that a change triggers. A job that runs only for releases or on a schedule is not a gate.
const CHANGE_EVENTS: [&str; 6] = [
    "push",
    "pull_request",
    "pull_request_target",
    "merge_group",
    "workflow_call",
    "merge_request",
];

/// Top-level keys of `.gitlab-ci.yml` that are not jobs.
const GITLAB_NON_JOBS: [&str; 12] = [
    "after_script",
    "before_script",
    "cache",
    "default",
    "image",
    "include",
    "pages",
    "services",
    "spec",
    "stages",
    "variables",
    "workflow",
];

/// The files of other systems than GitHub Actions.
const OTHER_CI_FILES: [(&str, CiScriptReader); 6] = [
    (".gitlab-ci.yml", gitlab_scripts),
    (".circleci/config.yml", circleci_scripts),
    ("azure-pipelines.yml", azure_scripts),
    (".azure-pipelines.yml", azure_scripts),
    (".travis.yml", travis_scripts),
    ("bitbucket-pipelines.yml", bitbucket_scripts),
];

pub(super) fn ci_gates(
    root: &ProjectDir<'_>,
    known: &[GateDraft],
    notes: &mut DetectionNotes,
) -> Vec<GateDraft> {
    let mut scripts = github_scripts(root, notes);
    for (file, read) in OTHER_CI_FILES {
        if let Some(node) = root.read_yaml(file, notes) {
            let found = read(&node);
            scripts.extend(
                found.into_iter().filter_map(|found| to_imported_script(root, file, &found)),
            );
        }
    }
    let mut drafts = command_import::import_scripts(root, scripts, known, notes);
    drafts.extend(pre_commit_gate(root, notes));
    drafts
}

/// What CI runs, for comparison with the gates that the project's files suggest.
pub(super) fn read_facts(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> CiFacts {
    let mut facts = CiFacts::default();
    for (file, node) in change_workflows(root, notes) {
        for script in &workflow_scripts(&node) {
            facts.add_script(script);
        }
        facts.add_variables(&file, node.get("env"));
        for (_, job) in node.get("jobs").map(DataNode::entries).unwrap_or_default() {
            facts.add_variables(&file, job.get("env"));
            let steps = job.get("steps").map(DataNode::items).unwrap_or_default();
            for step in steps.iter().filter(|step| step.get("run").is_some()) {
                facts.add_variables(&file, step.get("env"));
            }
        }
    }
    for (file, read) in OTHER_CI_FILES {
        if let Some(node) = root.read_yaml(file, notes) {
            for script in &read(&node) {
                facts.add_script(script);
            }
            match file {
                ".gitlab-ci.yml" => add_gitlab_variables(&mut facts, file, &node),
                ".circleci/config.yml" => add_circleci_variables(&mut facts, file, &node),
                ".travis.yml" => add_travis_variables(&mut facts, file, &node),
                _ => {}
            }
        }
    }
    facts
}

fn add_gitlab_variables(facts: &mut CiFacts, file: &str, node: &DataNode) {
    facts.add_variables(file, node.get("variables"));
    for job in gitlab_jobs(node) {
        facts.add_variables(file, job.get("variables"));
    }
}

fn add_circleci_variables(facts: &mut CiFacts, file: &str, node: &DataNode) {
    for (_, job) in node.get("jobs").map(DataNode::entries).unwrap_or_default() {
        facts.add_variables(file, job.get("environment"));
        let images = job.get("docker").map(DataNode::items).unwrap_or_default();
        // The first image is the one that the steps run in.
        facts.add_variables(file, images.first().and_then(|image| image.get("environment")));
        let steps = job.get("steps").map(DataNode::items).unwrap_or_default();
        for run in steps.iter().filter_map(|step| step.get("run")) {
            facts.add_variables(file, run.get("environment"));
        }
    }
}

fn add_travis_variables(facts: &mut CiFacts, file: &str, node: &DataNode) {
    let Some(env) = node.get("env") else { return };
    let groups = ["global", "jobs", "matrix"].into_iter().filter_map(|name| env.get(name));
    for group in std::iter::once(env).chain(groups) {
        facts.add_variables(file, Some(group));
        for line in group.texts() {
            facts.add_assignments(file, line);
        }
        for item in group.items() {
            facts.add_variables(file, Some(item));
        }
    }
}

type CiScriptReader = fn(&DataNode) -> Vec<CiScript<'_>>;

/// A script and the working directory configured for it.
pub(super) struct CiScript<'n> {
    pub(super) text: String,
    cwd: &'n str,
}

fn to_imported_script(
    root: &ProjectDir<'_>,
    source: &str,
    found: &CiScript<'_>,
) -> Option<ImportedScript> {
    let cwd = command_import::resolve_directory(root, "", found.cwd)?;
    Some(ImportedScript {
        source: source.to_string(),
        text: found.text.clone(),
        cwd,
        label: None,
        origin: CommandOrigin::Ci,
    })
}

fn github_scripts(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<ImportedScript> {
    let mut scripts = Vec::new();
    for (file, node) in change_workflows(root, notes) {
        let found = workflow_scripts(&node);
        scripts
            .extend(found.into_iter().filter_map(|found| to_imported_script(root, &file, &found)));
    }
    scripts
}

/// The workflows that run for a change, with their paths.
fn change_workflows(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<(String, DataNode)> {
    let mut workflows = Vec::new();
    let is_workflow = |name: &String| {
        let lower = name.to_ascii_lowercase();
        [".yml", ".yaml"].iter().any(|end| lower.ends_with(end))
    };
    let names = root.list_names(WORKFLOWS_DIR, notes).into_iter().filter(is_workflow);
    for name in names.take(MAX_WORKFLOWS) {
        let file = format!("{WORKFLOWS_DIR}/{name}");
        let Some(node) = root.read_yaml(&file, notes) else { continue };
        if runs_on_changes(&node) {
            workflows.push((file, node));
        }
    }
    workflows
}

fn runs_on_changes(workflow: &DataNode) -> bool {
    let Some(on) = workflow.get("on") else { return false };
    let keys = on.entries().iter().map(|(key, _)| key.as_str());
    let mut events = on.texts().into_iter().chain(keys);
    events.any(|event| CHANGE_EVENTS.contains(&event)) && !is_for_tags_only(on)
}

/// A workflow triggered only by pushed tags is a release.
fn is_for_tags_only(on: &DataNode) -> bool {
    on.entries().len() == 1
        && on
            .get("push")
            .is_some_and(|push| push.get("tags").is_some() && push.get("branches").is_none())
}

fn workflow_scripts(node: &DataNode) -> Vec<CiScript<'_>> {
    let mut found = Vec::new();
    for (_, job) in node.get("jobs").map(DataNode::entries).unwrap_or_default() {
        let runner = job.get("runs-on").and_then(DataNode::text).unwrap_or_default();
        if runner.starts_with("windows") || job.get("environment").is_some() {
            continue;
        }
        for step in job.get("steps").map(DataNode::items).unwrap_or_default() {
            let shell = step.get("shell").and_then(DataNode::text).unwrap_or("sh");
            let Some(run) = step.get("run").and_then(DataNode::text) else { continue };
            if !matches!(shell, "sh" | "bash") {
                continue;
            }
            let own = step.get("working-directory").and_then(DataNode::text);
            let cwd = own.or_else(|| working_directory(job)).or_else(|| working_directory(node));
            let cwd = cwd.unwrap_or_default();
            found.push(CiScript { text: run.to_string(), cwd });
        }
    }
    found
}

fn working_directory(node: &DataNode) -> Option<&str> {
    node.get("defaults")?.get("run")?.get("working-directory")?.text()
}

/// The jobs that check a change.
fn gitlab_jobs(node: &DataNode) -> impl Iterator<Item = &DataNode> {
    let jobs = node
        .entries()
        .iter()
        .filter(|(name, _)| !name.starts_with('.') && !GITLAB_NON_JOBS.contains(&name.as_str()));
    jobs.map(|(_, job)| job).filter(|job| {
        let stage = job.get("stage").and_then(DataNode::text).unwrap_or_default();
        job.get("environment").is_none() && !matches!(stage, "deploy" | "release" | "publish")
    })
}

fn gitlab_scripts(node: &DataNode) -> Vec<CiScript<'_>> {
    gitlab_jobs(node).filter_map(|job| job.get("script")).map(join_lines).collect()
}

/// Joins a list of commands into one script, because a `cd` affects the commands after it.
fn join_lines(node: &DataNode) -> CiScript<'_> {
    CiScript { text: node.texts().join("\n"), cwd: "" }
}

fn circleci_scripts(node: &DataNode) -> Vec<CiScript<'_>> {
    let jobs = node.get("jobs").map(DataNode::entries).unwrap_or_default();
    let steps = jobs.iter().filter_map(|(_, job)| job.get("steps")).flat_map(DataNode::items);
    steps
        .filter_map(|step| step.get("run"))
        .filter_map(|run| {
            let text = run.text().or_else(|| run.get("command")?.text())?;
            let cwd = run.get("working_directory").and_then(DataNode::text).unwrap_or_default();
            Some(CiScript { text: text.to_string(), cwd })
        })
        .collect()
}

fn azure_scripts(node: &DataNode) -> Vec<CiScript<'_>> {
    let stages = node.get("stages").map(DataNode::items).unwrap_or_default();
    let jobs = std::iter::once(node)
        .chain(stages)
        .filter_map(|scope| scope.get("jobs"))
        .flat_map(DataNode::items);
    let steps = std::iter::once(node)
        .chain(jobs)
        .filter_map(|scope| scope.get("steps"))
        .flat_map(DataNode::items);
    steps
        .filter_map(|step| {
            let text = step.get("script").or_else(|| step.get("bash"))?.text()?;
            let cwd = step.get("workingDirectory").and_then(DataNode::text).unwrap_or_default();
            Some(CiScript { text: text.to_string(), cwd })
        })
        .collect()
}

fn travis_scripts(node: &DataNode) -> Vec<CiScript<'_>> {
    node.get("script").map(join_lines).into_iter().collect()
}

fn bitbucket_scripts(node: &DataNode) -> Vec<CiScript<'_>> {
    let Some(pipelines) = node.get("pipelines") else { return Vec::new() };
    let always = pipelines.get("default").map(DataNode::items).unwrap_or_default();
    let requests = pipelines.get("pull-requests").map(DataNode::entries).unwrap_or_default();
    let requests = requests.iter().flat_map(|(_, list)| list.items());
    always
        .iter()
        .chain(requests)
        .filter_map(|item| item.get("step")?.get("script"))
        .map(join_lines)
        .collect()
}

/// The pre-commit gate. Its hooks may change files, so it is advisory.
fn pre_commit_gate(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Option<GateDraft> {
    let managers = [
        ("lefthook.yml", "lefthook"),
        (".lefthook.yml", "lefthook"),
        ("lefthook.yaml", "lefthook"),
        (".husky", "husky"),
    ];
    for (file, manager) in managers.into_iter().filter(|(file, _)| root.has_entry(file)) {
        notes.add(&format!(
            "`{file}`: {manager} runs checks before each commit; consider making them gates"
        ));
    }
    let file = ".pre-commit-config.yaml";
    root.has_entry(file).then(|| {
        GateDraft::from_words(
            root,
            "pre-commit",
            GateAspect::Lint,
            &["pre-commit", "run", "--all-files"],
        )
        .advisory()
        .with_reason(
            file,
            format!("`{file}` exists; its hooks may change files, so the gate is advisory"),
        )
    })
}
