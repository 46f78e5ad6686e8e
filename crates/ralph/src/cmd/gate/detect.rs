//! `ralph gate detect`: proposes gates for a project, and writes them to `ralph.toml` if asked to.

use crate::failure::CommandFailure;
use crate::term::{self, paint};
use clap::Args;
use ralph_core::gate::{GateInvocation, MinTests};
use ralph_core::requirement::RequirementWeight;
use ralph_deck::wording::{count_noun, safe_line};
use ralph_policy::config;
use ralph_policy::detect::{
    self, DetectedGates, ProposalConfidence, ProposedGate, ToolLookup, render_policy,
};
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph gate detect
  ralph gate detect --write
  ralph gate detect --project services/api --json | jq '.gates[].name'

Reads files (manifests, CI, settings of other tools) and runs nothing. A
gate whose tool is not installed is written as a comment. `--write`
creates `ralph.toml` and never changes an existing one.")]
pub(crate) struct GateDetectArgs {
    /// Write the proposal to `ralph.toml` in the project
    #[arg(long)]
    pub write: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
}

#[derive(Serialize)]
struct GateDetectJson<'a> {
    v: u8,
    project: String,
    written: Option<String>,
    gates: Vec<ProposedGateJson<'a>>,
    missing: Vec<MissingToolJson<'a>>,
    notes: &'a [String],
    protect: &'a [String],
    link: &'a [String],
}

#[derive(Serialize)]
struct ProposedGateJson<'a> {
    name: &'a str,
    stage: &'static str,
    run: Option<&'a [String]>,
    shell: Option<&'a str>,
    cwd: &'a str,
    timeout_ms: u64,
    paths: &'a [String],
    required: bool,
    report: &'static str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    report_files: &'a [String],
    min_tests: MinTests,
    why: &'a str,
    source: String,
    confidence: &'static str,
    active: bool,
    tool: String,
}

#[derive(Serialize)]
struct MissingToolJson<'a> {
    tool: &'a str,
    for_what: &'a str,
}

pub(crate) fn run(env: &Env, args: &GateDetectArgs) -> Result<(), CommandFailure> {
    let project = crate::cmd::config::project_dir(env, args.project.as_deref())?;
    let detected = detect::detect_gates(&project, env);
    let written = if args.write { Some(write_policy(&project, &detected)?) } else { None };
    if args.json {
        crate::cmd::print_json(&detect_json(&project, &detected, written.as_deref()))?;
        return Ok(());
    }
    if let Some(path) = written {
        term::out(&format!("wrote `{}` with {}\n", path.display(), gate_count(&detected)))?;
        term::err(&summary(&detected));
        term::err("next: review it, then approve it with `ralph trust`\n");
        return Ok(());
    }
    term::out(&render_policy::render(&detected))?;
    term::err(&format!("\n{}\n", gate_count(&detected)));
    term::err(&summary(&detected));
    term::err(match existing_policy(&project) {
        Some(_) => "next: compare it with the existing policy\n",
        None => "next: `ralph gate detect --write` writes this to `ralph.toml`\n",
    });
    Ok(())
}

/// Creates the policy file. If there is one already, prints the gates it lacks and fails.
fn write_policy(project: &Path, detected: &DetectedGates) -> Result<PathBuf, CommandFailure> {
    let existing = existing_policy(project);
    let path = existing.clone().unwrap_or_else(|| project.join(config::POLICY_FILE_NAMES[0]));
    let text = render_policy::render(detected);
    if existing.is_none() && fs::create_new_user_file(&path, text.as_bytes())? {
        return Ok(path);
    }
    let existing = fs::read(&path, super::MAX_POLICY_BYTES)?;
    let absent = render_policy::absent_gates(&String::from_utf8_lossy(&existing), detected);
    for proposal in absent.iter().flatten() {
        term::err(&format!("+ {}\n", proposal_line(proposal)));
    }
    let what = format!("`{}` exists already and was not changed", path.display());
    let hint = match absent.as_deref() {
        None => "it is not valid TOML; fix it, or move it away",
        Some([]) => "it has every detected gate",
        Some(_) => "`ralph gate add \"CMD\"` adds one; `ralph gate detect` prints them as TOML",
    };
    Err(CommandFailure::new(&what, hint))
}

/// The existing policy file, by either name. A dangling link counts too.
fn existing_policy(project: &Path) -> Option<PathBuf> {
    let mut paths = config::POLICY_FILE_NAMES.iter().map(|name| project.join(name));
    paths.find(|path| fs::stat_no_follow(path).is_some())
}

fn proposal_line(proposal: &ProposedGate) -> String {
    let command = match &proposal.gate.command {
        GateInvocation::Argv(words) => words.join(" "),
        GateInvocation::Shell(line) => line.clone(),
    };
    let place = match proposal.gate.cwd.as_str() {
        "" => String::new(),
        cwd => format!(" (in {})", safe_line(cwd)),
    };
    format!("{}: {}{place}", proposal.gate.name, safe_line(&command))
}

fn gate_count(detected: &DetectedGates) -> String {
    let total = detected.gates.len();
    let idle = detected.gates.iter().filter(|proposal| !is_active(proposal)).count();
    let gates = count_noun(total, "gate");
    if idle == 0 { gates } else { format!("{gates}, {idle} of them not active") }
}

fn is_active(proposal: &ProposedGate) -> bool {
    matches!(proposal.tool, ToolLookup::Found(_))
}

fn summary(detected: &DetectedGates) -> String {
    let mut out = String::new();
    for missing in &detected.missing {
        out.push_str(&format!(
            "{}: `{}`, for {}\n",
            paint(term::WARN, "missing"),
            safe_line(&missing.tool),
            safe_line(&missing.gates)
        ));
    }
    for note in &detected.notes {
        out.push_str(&format!("{}: {}\n", paint(term::DIM, "note"), safe_line(note)));
    }
    out
}

fn detect_json<'a>(
    project: &Path,
    detected: &'a DetectedGates,
    written: Option<&Path>,
) -> GateDetectJson<'a> {
    GateDetectJson {
        v: 1,
        project: project.display().to_string(),
        written: written.map(|path| path.display().to_string()),
        gates: detected.gates.iter().map(gate_json).collect(),
        missing: detected
            .missing
            .iter()
            .map(|missing| MissingToolJson { tool: &missing.tool, for_what: &missing.gates })
            .collect(),
        notes: &detected.notes,
        protect: &detected.protect_globs,
        link: &detected.linked_directories,
    }
}

fn gate_json(proposal: &ProposedGate) -> ProposedGateJson<'_> {
    let gate = &proposal.gate;
    let (run, shell) = match &gate.command {
        GateInvocation::Argv(words) => (Some(words.as_slice()), None),
        GateInvocation::Shell(line) => (None, Some(line.as_str())),
    };
    ProposedGateJson {
        name: &gate.name,
        stage: gate.stage.name(),
        run,
        shell,
        cwd: &gate.cwd,
        timeout_ms: gate.timeout_ms,
        paths: &gate.paths,
        required: gate.weight == RequirementWeight::Required,
        report: gate.report.name(),
        report_files: &gate.report_files,
        min_tests: gate.min_tests,
        why: &proposal.why,
        source: proposal.source.display().to_string(),
        confidence: match proposal.confidence {
            ProposalConfidence::Certain => "certain",
            ProposalConfidence::Likely => "likely",
        },
        active: is_active(proposal),
        tool: match &proposal.tool {
            ToolLookup::Found(path) => path.display().to_string(),
            ToolLookup::Missing(name) => name.clone(),
        },
    }
}
