//! Gates from the configuration of GitHub Actions, GitLab CI, CircleCI, Azure Pipelines, Travis, Bitbucket Pipelines
//! and pre-commit.

use super::command::{self, Origin, Script};
use super::draft::{Aspect, Draft};
use super::place::{Notes, Place};
use super::yaml::{self, Node};

const MOST_WORKFLOWS: usize = 40;
const WORKFLOWS: &str = ".github/workflows";

/// Events that a change triggers. A job that runs only for releases or on a schedule is not a gate.
const CHANGES: [&str; 6] = [
    "push",
    "pull_request",
    "pull_request_target",
    "merge_group",
    "workflow_call",
    "merge_request",
];

/// Top-level keys of `.gitlab-ci.yml` that are not jobs.
const GITLAB_GLOBAL: [&str; 12] = [
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

pub(super) fn look(root: &Place<'_>, known: &[Draft], notes: &mut Notes) -> Vec<Draft> {
    let mut scripts = github(root, notes);
    let others: [(&str, Reader); 6] = [
        (".gitlab-ci.yml", gitlab),
        (".circleci/config.yml", circle),
        ("azure-pipelines.yml", azure),
        (".azure-pipelines.yml", azure),
        (".travis.yml", travis),
        ("bitbucket-pipelines.yml", bitbucket),
    ];
    for (file, read) in others {
        if let Some(node) = parsed(root, file, notes) {
            let found = read(&node);
            scripts.extend(found.into_iter().filter_map(|found| script(root, file, &found)));
        }
    }
    let mut drafts = command::import(root, scripts, known, notes);
    drafts.extend(hooks(root, notes));
    drafts
}

type Reader = fn(&Node) -> Vec<Found<'_>>;

/// A script and the working directory configured for it.
struct Found<'n> {
    text: String,
    cwd: &'n str,
}

fn parsed(root: &Place<'_>, file: &str, notes: &mut Notes) -> Option<Node> {
    if !ralph_sys::fs::exists(&root.path(file)) {
        return None;
    }
    let text = root.text(file, notes)?;
    match yaml::read(&text) {
        Ok(node) => Some(node),
        Err(why) => {
            notes.add(&format!("`{file}` was not read: {why}"));
            None
        }
    }
}

fn script(root: &Place<'_>, source: &str, found: &Found<'_>) -> Option<Script> {
    let cwd = command::directory(root, "", found.cwd)?;
    Some(Script {
        source: source.to_string(),
        text: found.text.clone(),
        cwd,
        label: None,
        origin: Origin::Ci,
    })
}

fn github(root: &Place<'_>, notes: &mut Notes) -> Vec<Script> {
    let mut scripts = Vec::new();
    let is_workflow = |name: &String| {
        let lower = name.to_ascii_lowercase();
        [".yml", ".yaml"].iter().any(|end| lower.ends_with(end))
    };
    for name in root.list(WORKFLOWS).into_iter().filter(is_workflow).take(MOST_WORKFLOWS) {
        let file = format!("{WORKFLOWS}/{name}");
        let Some(node) = parsed(root, &file, notes) else { continue };
        if !runs_on_changes(&node) {
            continue;
        }
        let found = workflow(&node);
        scripts.extend(found.into_iter().filter_map(|found| script(root, &file, &found)));
    }
    scripts
}

fn runs_on_changes(workflow: &Node) -> bool {
    let Some(on) = workflow.get("on") else { return false };
    let keys = on.entries().iter().map(|(key, _)| key.as_str());
    let mut events = on.texts().into_iter().chain(keys);
    events.any(|event| CHANGES.contains(&event)) && !is_for_tags_only(on)
}

/// A workflow triggered only by pushed tags is a release.
fn is_for_tags_only(on: &Node) -> bool {
    on.entries().len() == 1
        && on
            .get("push")
            .is_some_and(|push| push.get("tags").is_some() && push.get("branches").is_none())
}

fn workflow(node: &Node) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    for (_, job) in node.get("jobs").map(Node::entries).unwrap_or_default() {
        let runner = job.get("runs-on").and_then(Node::text).unwrap_or_default();
        if runner.starts_with("windows") || job.get("environment").is_some() {
            continue;
        }
        for step in job.get("steps").map(Node::items).unwrap_or_default() {
            let shell = step.get("shell").and_then(Node::text).unwrap_or("sh");
            let Some(run) = step.get("run").and_then(Node::text) else { continue };
            if !matches!(shell, "sh" | "bash") {
                continue;
            }
            let own = step.get("working-directory").and_then(Node::text);
            let cwd = own.or_else(|| working_directory(job)).or_else(|| working_directory(node));
            let cwd = cwd.unwrap_or_default();
            found.push(Found { text: run.to_string(), cwd });
        }
    }
    found
}

fn working_directory(node: &Node) -> Option<&str> {
    node.get("defaults")?.get("run")?.get("working-directory")?.text()
}

fn gitlab(node: &Node) -> Vec<Found<'_>> {
    let jobs = node
        .entries()
        .iter()
        .filter(|(name, _)| !name.starts_with('.') && !GITLAB_GLOBAL.contains(&name.as_str()));
    jobs.map(|(_, job)| job)
        .filter(|job| {
            let stage = job.get("stage").and_then(Node::text).unwrap_or_default();
            job.get("environment").is_none() && !matches!(stage, "deploy" | "release" | "publish")
        })
        .filter_map(|job| job.get("script"))
        .map(lines)
        .collect()
}

/// Joins a list of commands into one script, because a `cd` affects the commands after it.
fn lines(node: &Node) -> Found<'_> {
    Found { text: node.texts().join("\n"), cwd: "" }
}

fn circle(node: &Node) -> Vec<Found<'_>> {
    let jobs = node.get("jobs").map(Node::entries).unwrap_or_default();
    let steps = jobs.iter().filter_map(|(_, job)| job.get("steps")).flat_map(Node::items);
    steps
        .filter_map(|step| step.get("run"))
        .filter_map(|run| {
            let text = run.text().or_else(|| run.get("command")?.text())?;
            let cwd = run.get("working_directory").and_then(Node::text).unwrap_or_default();
            Some(Found { text: text.to_string(), cwd })
        })
        .collect()
}

fn azure(node: &Node) -> Vec<Found<'_>> {
    let stages = node.get("stages").map(Node::items).unwrap_or_default();
    let jobs = std::iter::once(node)
        .chain(stages)
        .filter_map(|scope| scope.get("jobs"))
        .flat_map(Node::items);
    let steps = std::iter::once(node)
        .chain(jobs)
        .filter_map(|scope| scope.get("steps"))
        .flat_map(Node::items);
    steps
        .filter_map(|step| {
            let text = step.get("script").or_else(|| step.get("bash"))?.text()?;
            let cwd = step.get("workingDirectory").and_then(Node::text).unwrap_or_default();
            Some(Found { text: text.to_string(), cwd })
        })
        .collect()
}

fn travis(node: &Node) -> Vec<Found<'_>> {
    node.get("script").map(lines).into_iter().collect()
}

fn bitbucket(node: &Node) -> Vec<Found<'_>> {
    let Some(pipelines) = node.get("pipelines") else { return Vec::new() };
    let always = pipelines.get("default").map(Node::items).unwrap_or_default();
    let requests = pipelines.get("pull-requests").map(Node::entries).unwrap_or_default();
    let requests = requests.iter().flat_map(|(_, list)| list.items());
    always
        .iter()
        .chain(requests)
        .filter_map(|item| item.get("step")?.get("script"))
        .map(lines)
        .collect()
}

/// The pre-commit gate. Its hooks may change files, so it is advisory.
fn hooks(root: &Place<'_>, notes: &mut Notes) -> Option<Draft> {
    let managers = [
        ("lefthook.yml", "lefthook"),
        (".lefthook.yml", "lefthook"),
        ("lefthook.yaml", "lefthook"),
        (".husky", "husky"),
    ];
    for (file, manager) in managers.into_iter().filter(|(file, _)| root.has(file)) {
        notes.add(&format!(
            "`{file}`: {manager} runs checks before each commit; consider making them gates"
        ));
    }
    let file = ".pre-commit-config.yaml";
    root.has(file).then(|| {
        Draft::argv(root, "pre-commit", Aspect::Lint, &["pre-commit", "run", "--all-files"])
            .advisory()
            .because(
                file,
                format!("`{file}` exists; its hooks may change files, so the gate is advisory"),
            )
    })
}
