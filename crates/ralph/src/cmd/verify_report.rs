//! `ralph verify-report`: checks a signed statement about a run against a repository.

use super::{open_home, print_json};
use crate::describe;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::value_parsers::{parse_attested_status, parse_policy_hash};
use crate::{FAILURE, SUCCESS};
use clap::Args;
use ralph_attest::{
    AttestedStatus, CheckTarget, CheckedStatement, EnvelopeError, MAX_ENVELOPE_BYTES, PublicKey,
    RunStatement, StatementExpectations,
};
use ralph_deck::view::checked_report::{checked_report_view, unchecked_report_view};
use ralph_deck::wording::{FactMark, safe_line};
use ralph_git::commit_content::{CommitReader, CommittedFile};
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const GIT_TIMEOUT: Duration = Duration::from_mins(1);
const MAX_KEY_BYTES: usize = 1024;
const NAME_COLUMNS: usize = 9;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph verify-report k7f2.intoto.json
  ralph verify-report k7f2.intoto.json --judged-commit
  ralph verify-report --note HEAD
  ralph verify-report k7f2.intoto.json --key build.pub --json

Checks the signature, that the results fit the status, that HEAD has the
tree that was judged, and that the policy file and the scripts of its
gates are the ones that judged it.

Without `--key` it trusts the key of your own ralph home.

The signature shows which account made the statement. An agent of that
account could have read its key; SECURITY.md says what to do about it.

Exit codes: 0 every check passed, 1 one or more failed.")]
pub(crate) struct VerifyReportArgs {
    /// Read the statement that `ralph report --attest` wrote
    #[arg(value_name = "FILE", required_unless_present = "note", conflicts_with = "note")]
    pub file: Option<PathBuf>,
    /// Read the note on this commit instead, which must have the judged tree
    #[arg(long, value_name = "COMMIT", conflicts_with = "judged_commit")]
    pub note: Option<String>,
    /// Check the commit that was judged, whatever HEAD is
    #[arg(long)]
    pub judged_commit: bool,
    /// Trust this public key, or the file with it [default: your own]
    #[arg(long, value_name = "KEY|FILE")]
    pub key: Option<String>,
    /// Require the policy with this hash, as `ralph trust` prints it
    #[arg(long, value_name = "HASH", value_parser = parse_policy_hash)]
    pub policy: Option<String>,
    /// Require at least this status: `verified`, `green` or `claimed`
    #[arg(long, value_name = "STATUS", default_value = "verified", value_parser = parse_attested_status)]
    pub accept: AttestedStatus,
    /// Compare with this repository [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub repo: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &VerifyReportArgs) -> Result<u8, CommandFailure> {
    match check_statement(env, args) {
        Err(failure) if args.json => {
            let text = failure.to_plain_text();
            let (why, hint) = match text.split_once("\n  hint: ") {
                Some((why, hint)) => (why, Some(hint)),
                None => (text.as_str(), None),
            };
            let why = why.replace("\n  caused by: ", ": ");
            print_json(&unchecked_report_view(&why, hint))?;
            Ok(FAILURE)
        }
        checked => checked,
    }
}

fn check_statement(env: &Env, args: &VerifyReportArgs) -> Result<u8, CommandFailure> {
    let home = open_home(env)?;
    // A file that is missing is the mistake to name, wherever the command runs.
    let given = args.file.as_deref().map(read_statement).transpose()?;
    let repository = open_repository(env, args.repo.as_deref())?;
    let key = trusted_key(&home, args.key.as_deref())?;
    let noted = args.note.as_deref().map(|name| noted_commit(&repository, name)).transpose()?;
    let target = match &noted {
        Some((commit, _)) => CheckTarget::Commit(commit),
        None if args.judged_commit => CheckTarget::Attested,
        None => CheckTarget::Head,
    };
    let expected = StatementExpectations {
        key: key.as_ref(),
        lowest_status: args.accept,
        policy: args.policy.as_deref(),
        target,
    };
    let bytes = match (noted.as_ref(), given) {
        (Some((_, bytes)), _) => bytes.clone(),
        (None, Some(bytes)) => bytes,
        (None, None) => None,
    };
    let checked = match bytes {
        Some(bytes) => ralph_attest::check_envelope(&bytes, &expected, &repository)
            .map_err(|error| CommandFailure::caused_by("cannot read the repository", &error))?,
        None => CheckedStatement::of_unreadable(&EnvelopeError::TooLarge),
    };
    if args.json {
        print_json(&checked_report_view(&checked))?;
    } else {
        term::out(&render_checked(&checked))?;
    }
    Ok(if checked.is_valid() { SUCCESS } else { FAILURE })
}

fn open_repository(env: &Env, given: Option<&Path>) -> Result<CommitReader, CommandFailure> {
    let here = env.current_dir();
    let directory = given.map(Path::to_path_buf).or(here);
    let directory = directory.and_then(|directory| fs::resolve(&directory));
    let deadline = Deadline::after(GIT_TIMEOUT);
    directory.and_then(|directory| CommitReader::open(&directory, deadline)).ok_or_else(|| {
        let hint = "change to the repository, or name it: `--repo DIR`";
        CommandFailure::new("this is not in a git repository", hint)
    })
}

/// The given key, or that of the home; `None` if the home has none.
fn trusted_key(home: &RalphHome, given: Option<&str>) -> Result<Option<PublicKey>, CommandFailure> {
    let Some(given) = given else {
        return ralph_attest::load_public_key(home)
            .map_err(|error| CommandFailure::caused_by("cannot read your own key", &error));
    };
    if let Ok(key) = PublicKey::parse(given) {
        return Ok(Some(key));
    }
    let path = Path::new(given);
    let text = fs::read(path, MAX_KEY_BYTES).map_err(|error| {
        CommandFailure::caused_by("`--key` is neither a public key nor a readable file", &error)
            .with_hint("`ralph report --public-key` prints the key of its signer")
    })?;
    let key = PublicKey::parse(&String::from_utf8_lossy(&text)).map_err(|error| {
        CommandFailure::caused_by(&format!("cannot use `{}`", path.display()), &error)
    })?;
    Ok(Some(key))
}

/// The id of the commit, and its note; `None` in place of a note that is too large.
fn noted_commit(
    repository: &CommitReader,
    name: &str,
) -> Result<(String, Option<Vec<u8>>), CommandFailure> {
    let failure = |error| CommandFailure::caused_by("cannot read the note", &error);
    let commit = repository.find_commit(name).map_err(failure)?.ok_or_else(|| {
        let what = format!("there is no commit `{}`", safe_line(name));
        CommandFailure::new(&what, "`git log` lists commits")
    })?;
    match repository.read_note(&commit, MAX_ENVELOPE_BYTES).map_err(failure)? {
        Some(CommittedFile::Content(bytes)) => Ok((commit, Some(bytes))),
        Some(CommittedFile::Unreadable | CommittedFile::Missing) => Ok((commit, None)),
        None => {
            let what = format!("commit `{}` has no note of ralph", safe_line(name));
            let hint = "`ralph report RUN --attest --note` adds one; others fetch it with `git fetch origin refs/notes/ralph:refs/notes/ralph`";
            Err(CommandFailure::new(&what, hint))
        }
    }
}

/// `None` if the file is too large.
fn read_statement(file: &Path) -> Result<Option<Vec<u8>>, CommandFailure> {
    match fs::read(file, MAX_ENVELOPE_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_too_large() => Ok(None),
        Err(error) => {
            let hint = "`ralph report RUN --attest --out FILE` writes one";
            Err(CommandFailure::caused_by("cannot read the statement", &error).with_hint(hint))
        }
    }
}

fn render_checked(checked: &CheckedStatement) -> String {
    let (style, verdict) =
        if checked.is_valid() { (term::GOOD, "valid") } else { (term::BAD, "not valid") };
    let subject = checked.statement.as_ref().map(describe_statement).unwrap_or_default();
    let mut out = format!("{}{subject}\n", paint(style, verdict));
    for check in &checked.checks {
        let mark = if check.passed { FactMark::Good } else { FactMark::Bad };
        let (mark, name) = (describe::paint_mark(mark), check.name);
        out.push_str(&format!("{mark} {name:<NAME_COLUMNS$} {}\n", safe_line(&check.detail)));
        if let Some(hint) = &check.hint {
            out.push_str(&format!("  {:<NAME_COLUMNS$} {}\n", "", safe_line(hint)));
        }
    }
    out
}

/// `: run k7f2, verified, Let main.sh say goodbye.`
fn describe_statement(statement: &RunStatement) -> String {
    let predicate = &statement.predicate;
    let (run, title) = (safe_line(&predicate.run), safe_line(&predicate.goal.title));
    format!(": run {run}, {}, {title}", predicate.status.name())
}
