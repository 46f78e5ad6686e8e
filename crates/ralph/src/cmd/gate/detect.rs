//! `ralph gate detect`: proposes gates for a project, and writes them to `ralph.toml` if asked to.

use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::safe;
use clap::Args;
use ralph_core::gate::{Command, MinTests};
use ralph_core::requirement::Weight;
use ralph_policy::config;
use ralph_policy::detect::{self, Confidence, Detected, Proposal, Tool, write};
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The limit on the size of an existing policy file.
const LARGEST_POLICY: usize = 1024 * 1024;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph gate detect
  ralph gate detect --write
  ralph gate detect --project services/api --json | jq '.gates[].name'

Reads files (manifests, CI, settings of other tools) and runs nothing. A
gate whose tool is not installed is written as a comment. `--write`
creates `ralph.toml` and never changes an existing one.")]
pub(crate) struct Detect {
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
struct DetectJson<'a> {
    v: u8,
    project: String,
    written: Option<String>,
    gates: Vec<GateJson<'a>>,
    missing: Vec<MissingJson<'a>>,
    notes: &'a [String],
    protect: &'a [String],
    link: &'a [String],
}

#[derive(Serialize)]
struct GateJson<'a> {
    name: &'a str,
    stage: &'static str,
    run: Option<&'a [String]>,
    shell: Option<&'a str>,
    cwd: &'a str,
    timeout_ms: u64,
    paths: &'a [String],
    required: bool,
    report: &'static str,
    min_tests: MinTests,
    why: &'a str,
    source: String,
    confidence: &'static str,
    active: bool,
    tool: String,
}

#[derive(Serialize)]
struct MissingJson<'a> {
    tool: &'a str,
    for_what: &'a str,
}

pub(crate) fn run(env: &Env, args: &Detect) -> Result<(), Failure> {
    let project = crate::cmd::config::project(env, args.project.as_deref())?;
    let detected = detect::survey(&project, env);
    let written = if args.write { Some(put(&project, &detected)?) } else { None };
    if args.json {
        crate::cmd::print_json(&json(&project, &detected, written.as_deref()))?;
        return Ok(());
    }
    if let Some(path) = written {
        term::out(&format!("wrote `{}` with {}\n", path.display(), count(&detected)))?;
        term::err(&summary(&detected));
        term::err("next: review it, then approve it with `ralph trust`\n");
        return Ok(());
    }
    term::out(&write::render(&detected))?;
    term::err(&format!("\n{}\n", count(&detected)));
    term::err(&summary(&detected));
    term::err(match policy(&project) {
        Some(_) => "next: compare it with the existing policy\n",
        None => "next: `ralph gate detect --write` writes this to `ralph.toml`\n",
    });
    Ok(())
}

/// Creates the policy file. If there is one already, prints the gates it lacks and fails.
fn put(project: &Path, detected: &Detected) -> Result<PathBuf, Failure> {
    let existing = policy(project);
    let path = existing.clone().unwrap_or_else(|| project.join(config::NAMES[0]));
    let text = write::render(detected);
    if existing.is_none() && fs::create_new_ordinary(&path, text.as_bytes())? {
        return Ok(path);
    }
    let existing = fs::read(&path, LARGEST_POLICY)?;
    let absent = write::absent(&String::from_utf8_lossy(&existing), detected);
    for proposal in absent.iter().flatten() {
        term::err(&format!("+ {}\n", line(proposal)));
    }
    let what = format!("`{}` exists already and was not changed", path.display());
    let hint = match absent.as_deref() {
        None => "it is not valid TOML; fix it, or move it away",
        Some([]) => "it has every detected gate",
        Some(_) => "add the missing gates by hand; `ralph gate detect` prints them as TOML",
    };
    Err(Failure::new(&what, hint))
}

/// The existing policy file, by either name. A dangling link counts too.
fn policy(project: &Path) -> Option<PathBuf> {
    let mut paths = config::NAMES.iter().map(|name| project.join(name));
    paths.find(|path| fs::stat_link(path).is_some())
}

fn line(proposal: &Proposal) -> String {
    let command = match &proposal.gate.command {
        Command::Argv(words) => words.join(" "),
        Command::Shell(line) => line.clone(),
    };
    let place = match proposal.gate.cwd.as_str() {
        "" => String::new(),
        cwd => format!(" (in {})", safe(cwd)),
    };
    format!("{}: {}{place}", proposal.gate.name, safe(&command))
}

fn count(detected: &Detected) -> String {
    let total = detected.gates.len();
    let idle = detected.gates.iter().filter(|proposal| !is_active(proposal)).count();
    let gates = if total == 1 { "1 gate".to_string() } else { format!("{total} gates") };
    if idle == 0 { gates } else { format!("{gates}, {idle} of them not active") }
}

fn is_active(proposal: &Proposal) -> bool {
    matches!(proposal.tool, Tool::Found(_))
}

fn summary(detected: &Detected) -> String {
    let mut out = String::new();
    for missing in &detected.missing {
        out.push_str(&format!(
            "{}: `{}`, for {}\n",
            paint(term::ODD, "missing"),
            safe(&missing.tool),
            safe(&missing.for_what)
        ));
    }
    for note in &detected.notes {
        out.push_str(&format!("{}: {}\n", paint(term::DIM, "note"), safe(note)));
    }
    out
}

fn json<'a>(project: &Path, detected: &'a Detected, written: Option<&Path>) -> DetectJson<'a> {
    DetectJson {
        v: 1,
        project: project.display().to_string(),
        written: written.map(|path| path.display().to_string()),
        gates: detected.gates.iter().map(gate_json).collect(),
        missing: detected
            .missing
            .iter()
            .map(|missing| MissingJson { tool: &missing.tool, for_what: &missing.for_what })
            .collect(),
        notes: &detected.notes,
        protect: &detected.protect,
        link: &detected.link,
    }
}

fn gate_json(proposal: &Proposal) -> GateJson<'_> {
    let gate = &proposal.gate;
    let (run, shell) = match &gate.command {
        Command::Argv(words) => (Some(words.as_slice()), None),
        Command::Shell(line) => (None, Some(line.as_str())),
    };
    GateJson {
        name: &gate.name,
        stage: gate.stage.name(),
        run,
        shell,
        cwd: &gate.cwd,
        timeout_ms: gate.timeout_ms,
        paths: &gate.paths,
        required: gate.weight == Weight::Required,
        report: gate.report.name(),
        min_tests: gate.min_tests,
        why: &proposal.why,
        source: proposal.source.display().to_string(),
        confidence: match proposal.confidence {
            Confidence::Certain => "certain",
            Confidence::Likely => "likely",
        },
        active: is_active(proposal),
        tool: match &proposal.tool {
            Tool::Found(path) => path.display().to_string(),
            Tool::Missing(name) => name.clone(),
        },
    }
}
