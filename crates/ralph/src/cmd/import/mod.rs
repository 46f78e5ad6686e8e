//! `ralph import`: converts the loop files of another tool into a loop of ralph's, after it has shown what it
//! understood. The original files are not changed.

mod import_json;

use super::init::{ConfirmationOptions, InstallStatus, confirm};
use super::print_json;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use clap::Args;
use ralph_deck::wording::{count_noun, count_of, safe_line};
use ralph_lists::import::loop_files::{self, ImportWriteError, NewFile};
use ralph_lists::import::{self, ImportSource, ImportedContent, ImportedLimits, MergedImport};
use ralph_lists::loop_directory::{self, PROMPT_FILE};
use ralph_lists::loops;
use ralph_policy::config;
use ralph_policy::detect::{self, DeclaredGates, DetectedGates};
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

/// How many keys are named; the rest is only counted.
const MAX_NAMED_KEYS: usize = 6;
/// How many lines without a check are shown per file.
const MAX_NAMED_LINES: usize = 8;
const MAX_LINE_CHARS: usize = 90;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph import
  ralph import --dry-run
  ralph import prd.json --name checkout
  ralph import --yes --json | jq '.next'

Reads prd.json, feature_list.json, features.json, tasks.json, PRD.md,
PLAN.md, TODO.md, fix_plan.md, IMPLEMENTATION_PLAN.md, tasks.md,
tasks.yaml, RALPH_TASK.md, PROMPT.md, plan-state.json, progress.txt,
docs/plans/*.md with validation commands, .claude/ralph-loop.local.md,
.claude/hookify.*.local.md, .ralphrc, ralph.yml, .ralphy/config.yaml,
the files in .ralph/, Task Master, Beads, agent-validator, and the task
lists and documents of spec-kit, Kiro, OpenSpec and specs/*. It changes
none of them and runs nothing. What does not fit into the new loop is
kept in its NOTES.md; checks that were not understood are listed with
line and reason. Items that are marked done become claims.")]
pub(crate) struct ImportArgs {
    /// Read this project or file [default: the current directory]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Name the loop, in letters, digits and `-` [default: from the files]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<String>,
    /// Don't ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// Show what would be created, and create nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Print one JSON object, and don't ask
    #[arg(long)]
    pub json: bool,
}

fn parse_name(text: &str) -> Result<String, String> {
    let slug = import::loop_slug(text).filter(|slug| slug == text);
    slug.ok_or_else(|| "expected lowercase letters, digits and `-`, but not `current`, which the first session to stop would take over".to_string())
}

/// The plan of an import: what is shown and what is created.
struct ImportPlan {
    project: PathBuf,
    name: String,
    /// The preferred name, which another loop may have already.
    preferred_name: String,
    sources: Vec<ImportSource>,
    merged: MergedImport,
    detected: DetectedGates,
    without_gate: usize,
    /// An existing policy file, which is not changed: gates are then only shown.
    policy: Option<PathBuf>,
    files: Vec<NewFile>,
}

pub(crate) fn run(env: &Env, args: &ImportArgs) -> Result<(), CommandFailure> {
    let planned = plan_import(env, args)?;
    let status = if args.dry_run { InstallStatus::Planned } else { InstallStatus::Written };
    if !args.json {
        term::out(&render_plan(&planned))?;
    }
    if status == InstallStatus::Written {
        confirm(
            &ConfirmationOptions {
                yes: args.yes,
                json: args.json,
                command: "import",
                refusal: "nothing was written",
            },
            "create this? [y/N] ",
        )?;
        loop_files::create_files(&planned.project, &planned.files)?;
    }
    if args.json {
        print_json(&import_json::import_json(&planned, status))?;
        return Ok(());
    }
    let out = match status {
        InstallStatus::Planned | InstallStatus::Unchanged => "nothing was created\n".to_string(),
        InstallStatus::Written => {
            let steps = next_steps(&planned).into_iter().map(|step| format!("next: {step}\n"));
            std::iter::once(created_text(&planned)).chain(steps).collect()
        }
    };
    term::out(&out)?;
    Ok(())
}

fn plan_import(env: &Env, args: &ImportArgs) -> Result<ImportPlan, CommandFailure> {
    let (project, from) = resolve_paths(env, args.path.as_deref())?;
    let sources = import::find_sources(&project, &from);
    if sources.is_empty() {
        let what = format!("no loop files found in `{}`", from.display());
        let hint = "`ralph import --help` lists the files that it reads";
        return Err(CommandFailure::new(&what, hint));
    }
    let merged = import::merge_sources(&sources);
    if sources.iter().all(|source| source.content.is_err()) {
        let lines: Vec<_> = sources.iter().map(source_text).collect();
        term::err(&format!("{}\n", lines.concat().trim_start_matches('\n')));
        let what = "none of the files could be read";
        let hint = "nothing was created; fix one of them, then try again";
        return Err(CommandFailure::new(what, hint));
    }
    let yields_nothing = |source: &ImportSource| match &source.content {
        Ok(content) => understood_text(content).is_empty(),
        Err(_) => true,
    };
    if sources.iter().all(yields_nothing) {
        let lines: Vec<_> = sources.iter().map(source_text).collect();
        term::err(&format!("{}\n", lines.concat().trim_start_matches('\n')));
        let what = "none of the files has anything for a loop";
        let hint = "nothing was created; `ralph import FILE` also reads a finished list";
        return Err(CommandFailure::new(what, hint));
    }
    let preferred = args.name.clone().or_else(|| merged.name.clone());
    let preferred = preferred.or_else(|| {
        let of_file = from.file_stem().filter(|_| from != project);
        import::loop_slug(&of_file.or(project.file_name())?.to_string_lossy())
    });
    let preferred = preferred.unwrap_or_else(|| "imported".to_string());
    let name = loops::free_loop_name(&project, &preferred).ok_or_else(|| {
        let what = format!("there are too many loops named `{preferred}`");
        CommandFailure::new(&what, "choose another name with `--name`")
    })?;
    let DeclaredGates { detected, without_gate } =
        detect::import_declared(&project, env, &loop_files::declared_commands(&merged));
    let mut paths = config::POLICY_FILE_NAMES.iter().map(|name| project.join(name));
    let policy = paths.find(|path| fs::stat_no_follow(path).is_some());
    let notes = loop_files::render_notes(&sources, &merged, &without_gate);
    let mut files = loop_files::render_files(&name, &merged, &notes)?;
    let has_rules = !merged.protect.is_empty() || !merged.line_rules.is_empty();
    if policy.is_none() && (has_rules || !detected.gates.is_empty()) {
        let text = loop_files::render_import_policy(detected.clone(), &merged);
        files.push(NewFile { path: PathBuf::from(config::POLICY_FILE_NAMES[0]), text });
    }
    let without_gate = without_gate.len();
    Ok(ImportPlan {
        project,
        name,
        preferred_name: preferred,
        sources,
        merged,
        detected,
        without_gate,
        policy,
        files,
    })
}

/// The project, and the directory or file to read.
fn resolve_paths(env: &Env, path: Option<&Path>) -> Result<(PathBuf, PathBuf), CommandFailure> {
    let here = env.current_dir().ok_or_else(|| {
        CommandFailure::new(
            "the current directory no longer exists",
            "change to a directory that exists",
        )
    })?;
    let named = path.map_or_else(|| here.clone(), |path| here.join(path));
    let missing =
        || CommandFailure::new(&format!("`{}` does not exist", named.display()), "check the path");
    if fs::is_directory(&named) {
        let project = fs::resolve(&named).ok_or_else(missing)?;
        return Ok((project.clone(), project));
    }
    let above = named.parent().and_then(fs::resolve).ok_or_else(missing)?;
    let file = named.file_name().ok_or_else(missing)?;
    let from = above.join(file);
    if fs::stat_no_follow(&from).is_none() {
        return Err(missing());
    }
    let here = fs::resolve(&here).unwrap_or(here);
    let inside = if above.starts_with(&here) { here } else { above };
    Ok((config::find_project(&inside), from))
}

fn render_plan(planned: &ImportPlan) -> String {
    let mut out =
        format!("{}\n", paint(term::BOLD, &safe_line(&planned.project.to_string_lossy())));
    for source in &planned.sources {
        out.push_str(&source_text(source));
    }
    let remarks = remarks(planned);
    if !remarks.is_empty() {
        out.push_str(&format!("\n{remarks}"));
    }
    out.push_str(&created_files_text(planned));
    out
}

/// Notes about all files together.
fn remarks(planned: &ImportPlan) -> String {
    let mut out = String::new();
    let total = planned.merged.features.len();
    let done = planned.merged.features.iter().filter(|feature| feature.passes).count();
    if done > 0 {
        out.push_str(&format!(
            "{done} of {total} marked as passing: claims until their checks pass\n"
        ));
    }
    if planned.without_gate > 0 {
        let what = count_of(planned.without_gate, "command has no gate", "commands have no gate");
        out.push_str(&format!("{what}: kept as notes\n"));
    }
    for trouble in planned.merged.conflicts.iter().chain(&planned.detected.notes) {
        out.push_str(&format!("{}: {}\n", paint(term::WARN, "note"), safe_line(trouble)));
    }
    for missing in &planned.detected.missing {
        let (tool, gates) = (safe_line(&missing.tool), safe_line(&missing.gates));
        out.push_str(&format!("{}: `{tool}`, for {gates}\n", paint(term::WARN, "missing")));
    }
    if planned.name != planned.preferred_name {
        let (preferred, name) = (&planned.preferred_name, &planned.name);
        let what = format!("there is a loop `{preferred}` already, so this one is named `{name}`");
        out.push_str(&format!("{}: {what}\n", paint(term::WARN, "note")));
    }
    out
}

fn created_files_text(planned: &ImportPlan) -> String {
    let mut out = "\n".to_string();
    let policy = Path::new(config::POLICY_FILE_NAMES[0]);
    for file in &planned.files {
        let lines = count_noun(file.text.lines().count(), "line");
        let path = safe_line(&file.path.to_string_lossy());
        out.push_str(&format!("{} `{path}`, {lines}\n", paint(term::GOOD, "create")));
    }
    let rules = loop_files::render_rules(&planned.merged);
    let has_additions = !planned.detected.gates.is_empty() || !rules.is_empty();
    let gates = match (&planned.policy, has_additions) {
        (None, _) => {
            let file = planned.files.iter().find(|file| file.path == policy);
            file.map(|file| format!("\n{}", file.text)).unwrap_or_default()
        }
        (Some(_), false) => String::new(),
        (Some(path), true) => format!(
            "\n`{}` exists and is not changed; this could be added:\n{}{rules}",
            safe_line(&path.to_string_lossy()),
            detect::render_policy::render_gates(&planned.detected)
        ),
    };
    for line in gates.lines() {
        out.push_str(&format!("{}\n", paint(term::DIM, &ralph_core::text::reveal(line))));
    }
    out.push('\n');
    out
}

/// How many files were created, and how to remove them.
fn created_text(planned: &ImportPlan) -> String {
    let policy = config::POLICY_FILE_NAMES[0];
    let is_policy = planned.files.iter().any(|file| file.path == Path::new(policy));
    let more = if is_policy { format!(" {policy}") } else { String::new() };
    format!(
        "created {}; `rm -r {}/{}{more}` removes all of it\n",
        count_noun(planned.files.len(), "file"),
        loop_directory::LOOPS_DIR,
        planned.name
    )
}

/// The result for one file: what was understood, kept as notes, or left out.
fn source_text(source: &ImportSource) -> String {
    let path = safe_line(&source.path);
    let content = match &source.content {
        Ok(content) => content,
        Err(why) => {
            return format!(
                "\n{} `{path}` was not read: {}\n",
                paint(term::BAD, "✗"),
                safe_line(why)
            );
        }
    };
    let understood = understood_text(content);
    // Only a file that the loop gets something of is marked as understood.
    let mark =
        if understood.is_empty() { paint(term::DIM, "·") } else { paint(term::GOOD, "✓") };
    let mut out = format!("\n{mark} `{path}` ({})\n", source.family.name());
    if !understood.is_empty() {
        out.push_str(&format!("    understood  {understood}\n"));
    }
    if !content.kept.is_empty() {
        let keys = content.kept.iter().map(|kept| match kept.line {
            Some(line) => format!("{} (line {line})", safe_line(&kept.key)),
            None => safe_line(&kept.key),
        });
        out.push_str(&format!("    as notes    {}\n", join_keys(keys)));
    }
    let unread: Vec<_> = content.not_understood().collect();
    for (line, why) in unread.iter().take(MAX_NAMED_LINES) {
        let text = line.text.trim_start_matches(['-', '*', ' ']).replacen("**:", ":", 1);
        let text = safe_line(&ralph_core::text::clean_line(&text, MAX_LINE_CHARS));
        out.push_str(&format!("    no check    line {}: {why}: {text}\n", line.line));
    }
    if let Some(more) = unread.len().checked_sub(MAX_NAMED_LINES).filter(|more| *more > 0) {
        let lines = count_of(more, "more line", "more lines");
        out.push_str(&format!("    no check    {lines}, all in `NOTES.md` and with `--json`\n"));
    }
    if !content.ignored.is_empty() {
        let mut by_reason: Vec<(&str, Vec<String>)> = Vec::new();
        for ignored in &content.ignored {
            let key = safe_line(&ignored.key);
            match by_reason.iter_mut().find(|(why, _)| *why == ignored.why) {
                Some((_, keys)) => keys.push(key),
                None => by_reason.push((ignored.why, vec![key])),
            }
        }
        for (why, keys) in by_reason {
            out.push_str(&format!("    left out    {}: {why}\n", join_keys(keys.into_iter())));
        }
    }
    out
}

fn join_keys(keys: impl Iterator<Item = String>) -> String {
    let keys: Vec<_> = keys.collect();
    let mut shown = keys.iter().take(MAX_NAMED_KEYS).cloned().collect::<Vec<_>>().join(", ");
    if keys.len() > MAX_NAMED_KEYS {
        shown.push_str(&format!(" and {} more", keys.len().saturating_sub(MAX_NAMED_KEYS)));
    }
    shown
}

fn understood_text(content: &ImportedContent) -> String {
    let mut parts = Vec::new();
    if !content.features.is_empty() {
        let done = content.features.iter().filter(|feature| feature.passes).count();
        let checks = content.features.iter().filter(|feature| feature.verify.is_some()).count();
        parts.push(count_noun(content.features.len(), "item"));
        parts.push(format!("{done} done"));
        parts.push(count_noun(checks, "check"));
    }
    if !content.commands.is_empty() {
        parts.push(count_noun(content.commands.len(), "command"));
    }
    let limits = content.limits.to_options();
    if !limits.is_empty() {
        parts.push(safe_line(&limits.join(" ")));
    }
    if !content.goal.is_empty() {
        parts.push("the goal".to_string());
    }
    if !content.protect.is_empty() {
        parts.push(count_of(content.protect.len(), "path to protect", "paths to protect"));
    }
    if !content.line_rules.is_empty() {
        parts.push(count_of(
            content.line_rules.len(),
            "rule for added lines",
            "rules for added lines",
        ));
    }
    if content.progress.is_some() {
        parts.push("progress so far".to_string());
    }
    if content.is_reference {
        parts.push("a document for the agent to read".to_string());
    }
    if parts.is_empty() {
        parts.extend(content.name.as_ref().map(|name| format!("its name, {}", safe_line(name))));
    }
    parts.join(" · ")
}

/// The next steps for the person.
fn next_steps(planned: &ImportPlan) -> Vec<String> {
    let mut steps = Vec::new();
    let has_checks = planned.merged.features.iter().any(|feature| feature.verify.is_some());
    if has_checks || !planned.detected.gates.is_empty() {
        steps.push("`ralph trust`, after reviewing what it would run".to_string());
    }
    let directory = format!("{}/{}", loop_directory::LOOPS_DIR, planned.name);
    let limits = &planned.merged.limits;
    let list_options = |options: Vec<String>| match options.join(" ") {
        none if none.is_empty() => none,
        some => format!(" {some}"),
    };
    // `ralph run` holds its agent to no promise.
    let driven = list_options(ImportedLimits { promise: None, ..limits.clone() }.to_options());
    let in_session = list_options(limits.to_options());
    if planned.merged.features.is_empty() {
        steps.push(format!("`ralph run --goal-file {directory}/{PROMPT_FILE}{driven}`"));
        steps.push(format!(
            "`/ralph:goal{in_session} Follow the instructions in {directory}/{PROMPT_FILE}` in the agent's session instead"
        ));
    } else {
        steps.push(format!("`ralph run --loop {}{driven}`", planned.name));
        steps.push(format!(
            "`/ralph:goal --features {directory}{in_session}` in the agent's session instead"
        ));
    }
    steps
}

impl From<ImportWriteError> for CommandFailure {
    fn from(error: ImportWriteError) -> Self {
        let made: Vec<_> = error.made.iter().map(|path| format!("`{}`", path.display())).collect();
        let failure = Self::from(error.source);
        if made.is_empty() {
            return failure;
        }
        failure.with_hint(&format!("created so far, and kept: {}", made.join(", ")))
    }
}
