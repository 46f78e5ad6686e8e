//! `ralph report`: the report of a run, or a signed statement about it.

use super::{open_home, run_choice};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::value_parsers::parse_report_format;
use clap::Args;
use ralph_attest::{
    AttestError, AttestRequest, BuiltStatement, MAX_ENVELOPE_BYTES, SignedEnvelope, SigningKeyError,
};
use ralph_core::id::RunId;
use ralph_core::redact::Redactor;
use ralph_core::text::{self, short_id};
use ralph_deck::report::{RunReport, render_html, render_json, render_markdown};
use ralph_deck::wording::safe_line;
use ralph_git::commit_content::CommittedFile;
use ralph_home::paths::RalphHome;
use ralph_hook::project_runs::RunPurpose;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs::{self, Durability};
use std::path::{Path, PathBuf};
use std::time::Duration;

const GIT_TIMEOUT: Duration = Duration::from_mins(1);
/// A run has ended: nothing should make its user wait for a page about it.
const END_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(after_help = "\
Examples:
  ralph report
  ralph report k7f2 --out k7f2.html
  ralph report k7f2 --attest --out k7f2.intoto.json
  ralph report k7f2 --attest --note
  ralph report --public-key > ralph.pub

The report shows what was asked, how the run ended and what that rests on,
what to look at first, the evidence, what happened, what it cost and what
changed. `ralph run` writes it as `report.md` and `report.html` into the
directory of the run when it ends. The page needs no other file and no
script, and prints on paper.

`--attest` signs a statement of what the run was judged by, and with which
results, with a key in your ralph home. `ralph verify-report` checks it.
Only runs that ended `verified`, `green` or `claimed` can be attested, and
the statement says which. Agents cannot attest.")]
pub(crate) struct ReportArgs {
    /// Name the run or its session [default: the last one of this project]
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Choose `md`, `html` or `json` [default: as `--out` ends, or `md`]
    #[arg(long, value_name = "FORMAT", value_parser = parse_report_format)]
    pub format: Option<ReportFormat>,
    /// Print one JSON object, as `--format json`
    #[arg(long, conflicts_with_all = ["format", "attest"])]
    pub json: bool,
    /// Write to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write a signed statement about the run instead
    #[arg(long, conflicts_with = "format")]
    pub attest: bool,
    /// Also add the statement to the commit, under `refs/notes/ralph`
    #[arg(long, requires = "attest")]
    pub note: bool,
    /// Print the public key that checks your statements
    #[arg(long, conflicts_with_all = ["name", "out", "attest", "format", "json"])]
    pub public_key: bool,
}

pub(crate) fn run(env: &Env, args: &ReportArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    if args.public_key {
        let key = ralph_attest::load_signing_key(&home).map_err(|error| key_failure(&error))?;
        term::out(&format!("{}\n", key.public().to_text()))?;
        return Ok(());
    }
    let run = find_run(env, &home, args.name.as_deref())?;
    if args.attest {
        super::refuse_agent(env, "an agent may not sign statements", super::ASK_A_PERSON)?;
        return attest(&home, &run, args);
    }
    let format = if args.json { Some(ReportFormat::Json) } else { args.format };
    let format = match (format, &args.out) {
        (Some(format), _) => format,
        (None, Some(path)) => format_of_file(path)?,
        (None, None) => ReportFormat::Markdown,
    };
    let deadline = Deadline::after(GIT_TIMEOUT);
    let report = RunReport::load(env, &home, &run, clock::now_ms(), &deadline)?;
    let text = render_report(env, &report, format);
    match &args.out {
        None => drop(term::out(&text)?),
        Some(path) => {
            fs::replace_user_file(path, text.as_bytes())?;
            let run = paint(term::BOLD, run.as_str());
            let shown = safe_line(&path.to_string_lossy());
            term::out(&format!("{run}  report in `{shown}`\n"))?;
        }
    }
    Ok(())
}

/// The format that the ending of a file name stands for. A file without one is Markdown.
fn format_of_file(path: &Path) -> Result<ReportFormat, CommandFailure> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        None | Some("md" | "markdown") => Ok(ReportFormat::Markdown),
        Some("html" | "htm") => Ok(ReportFormat::Html),
        Some("json") => Ok(ReportFormat::Json),
        Some(ending) => {
            let ending = text::clean_line(ending, 20);
            Err(CommandFailure::new(
                &format!("no format of a report has the ending `.{ending}`"),
                "use `.md`, `.html` or `.json`, or choose the format: `--format md`",
            ))
        }
    }
}

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    Markdown,
    Html,
    Json,
}

fn render_report(env: &Env, report: &RunReport, format: ReportFormat) -> String {
    let redactor = Redactor::new(env.secrets());
    match format {
        ReportFormat::Markdown => render_markdown(report, &redactor),
        ReportFormat::Html => render_html(report, &redactor),
        ReportFormat::Json => render_json(report, &redactor),
    }
}

/// Writes both reports of a run into its directory, and returns the path of the page. A report that cannot be written
/// changes nothing about the run, so that every error is `None`.
pub(super) fn write_reports(env: &Env, run: &RunId) -> Option<PathBuf> {
    let home = open_home(env).ok()?;
    let deadline = Deadline::after(END_TIMEOUT);
    let report = RunReport::load(env, &home, run, clock::now_ms(), &deadline).ok()?;
    let paths = home.run(run);
    for (path, format) in [
        (paths.markdown_report(), ReportFormat::Markdown),
        (paths.html_report(), ReportFormat::Html),
    ] {
        let text = render_report(env, &report, format);
        fs::replace(&path, text.as_bytes(), Durability::Cached).ok()?;
    }
    Some(paths.html_report())
}

fn find_run(env: &Env, home: &RalphHome, name: Option<&str>) -> Result<RunId, CommandFailure> {
    match name {
        Some(name) => run_choice::find_run(home, name, run_choice::unowned_session),
        None => run_choice::project_run(env, home, RunPurpose::Read),
    }
}

fn attest(home: &RalphHome, run: &RunId, args: &ReportArgs) -> Result<(), CommandFailure> {
    let version = env!("CARGO_PKG_VERSION");
    let deadline = Deadline::after(GIT_TIMEOUT);
    let request = AttestRequest { home, run, version, deadline };
    let built = ralph_attest::build_statement(&request).map_err(|error| attest_failure(&error))?;
    let key = ralph_attest::load_signing_key(home).map_err(|error| key_failure(&error))?;
    // The statement consists of strings, numbers and lists; serialising it cannot fail.
    let payload = serde_json::to_vec(&built.statement).unwrap_or_default();
    let envelope = SignedEnvelope::sign(payload, &key).to_json();
    if envelope.len() > MAX_ENVELOPE_BYTES {
        let hint = "its list of requirements is too long for a statement";
        return Err(CommandFailure::new("the statement would be larger than 1 MB", hint));
    }
    let noted = if args.note { Some(add_note(home, &built, &envelope)?) } else { None };
    if let Some(path) = &args.out {
        fs::replace_user_file(path, envelope.as_bytes())?;
        term::out(&written_lines(run, path, noted.as_deref()))?;
    } else if let Some(commit) = noted {
        term::out(&format!("added to commit {commit} under refs/notes/ralph\n"))?;
    } else {
        term::out(&envelope)?;
    }
    Ok(())
}

fn written_lines(run: &RunId, path: &Path, noted: Option<&str>) -> String {
    let run = paint(term::BOLD, run.as_str());
    let mut out = format!("{run}  attested in `{}`\n", path.display());
    if let Some(commit) = noted {
        out.push_str(&format!("      added to commit {commit} under refs/notes/ralph\n"));
    }
    out
}

/// Adds the statement as a note to the commit that has landed, or else to the judged one. Returns its short id.
fn add_note(
    home: &RalphHome,
    built: &BuiltStatement,
    envelope: &str,
) -> Result<String, CommandFailure> {
    let (statement, repository) = (&built.statement, &built.repository);
    let commit = statement.landed_commit().unwrap_or(statement.judged_commit());
    let failure = |error| CommandFailure::caused_by("cannot add the note", &error);
    if let Some(note) = repository.read_note(commit, MAX_ENVELOPE_BYTES).map_err(failure)? {
        let is_ours =
            matches!(&note, CommittedFile::Content(bytes) if SignedEnvelope::parse(bytes).is_ok());
        if !is_ours {
            let what =
                format!("commit `{commit}` has a note under refs/notes/ralph that is no statement");
            let hint = format!("`git notes --ref=ralph remove {commit}` removes it");
            return Err(CommandFailure::new(&what, &hint));
        }
    }
    let directory = home.scratch(clock::nonce());
    fs::create_private_dir(&directory)?;
    let content = directory.join("note");
    fs::replace(&content, envelope.as_bytes(), Durability::Cached)?;
    let written = repository.write_note(commit, &content).map_err(failure);
    fs::remove_own_dir_tree(&directory)?;
    written?;
    Ok(short_id(commit))
}

fn key_failure(error: &SigningKeyError) -> CommandFailure {
    let hint = "if the key is damaged, move its file away; a new one is made, and older statements need the old public key";
    CommandFailure::caused_by("cannot use the key that signs statements", error).with_hint(hint)
}

fn attest_failure(error: &AttestError) -> CommandFailure {
    let hint = match error {
        AttestError::Journal { .. } => "`ralph status --all` lists the runs",
        AttestError::AmbiguousEnd { .. } => "such a journal proves nothing: run it again",
        AttestError::Damaged { .. } => "a damaged journal proves nothing: run it again",
        AttestError::Newer { .. } => "attest it with that version",
        AttestError::NotEnded { run } => {
            let hint = format!("`ralph status {run}` shows its state");
            return CommandFailure::caused_by("cannot attest the run", error).with_hint(&hint);
        }
        AttestError::NotAttestable { .. } => {
            "only runs that ended `verified`, `green` or `claimed` can be attested; `ralph accept` makes `needs_review` verified"
        }
        AttestError::NothingJudged { .. } => "only runs of gates in a git repository record it",
        AttestError::NoRepository { .. } => {
            "a statement is about a commit; `git init` makes one possible for the next run"
        }
        AttestError::PolicyUnknown { .. } => {
            "`ralph trust` approves the policy again, if it is the same"
        }
        AttestError::Git(_) => "`ralph doctor` checks the installation",
    };
    CommandFailure::caused_by("cannot attest the run", error).with_hint(hint)
}
