//! Checks a statement: its signature first, then what it says, against the repository.

use crate::attested_policy::JudgedFiles;
use crate::envelope::{EnvelopeError, SignedEnvelope};
use crate::run_statement::{AttestedPolicy, AttestedStatus, RunPredicate, RunStatement};
use crate::signing_key::PublicKey;
use ralph_core::text;
use ralph_git::commit_content::CommitReader;
use ralph_git::worktree::GitCommandError;

const MAX_NAME_CHARS: usize = 80;
const MAX_ERROR_CHARS: usize = 200;
const MAX_NAMED_FILES: usize = 5;

/// What is expected of a statement.
#[derive(Clone, Copy, Debug)]
pub struct StatementExpectations<'a> {
    /// `None` if no key is known.
    pub key: Option<&'a PublicKey>,
    /// The weakest status that is enough.
    pub lowest_status: AttestedStatus,
    /// The policy that the run must have had, by the beginning of its hash.
    pub policy: Option<&'a str>,
    pub target: CheckTarget<'a>,
}

/// Which commit must have the attested tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckTarget<'a> {
    /// The commits that the statement names, as far as the repository has them.
    Attested,
    /// What is checked out, and those commits, as far as the repository has them: a squashed merge has none.
    Head,
    /// The commit that the statement is a note on, by its id.
    Commit(&'a str),
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementCheck {
    pub name: &'static str,
    pub passed: bool,
    /// Without foreign text that is not cleaned.
    pub detail: String,
    pub hint: Option<String>,
}

/// All checks up to the one after which nothing else can be trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedStatement {
    pub checks: Vec<StatementCheck>,
    /// `None` if no trusted key signed it, or it cannot be read.
    pub statement: Option<RunStatement>,
}

impl CheckedStatement {
    /// For a file that is too large to be read.
    pub fn of_unreadable(error: &EnvelopeError) -> Self {
        Self { checks: vec![failed_envelope(error)], statement: None }
    }

    pub fn is_valid(&self) -> bool {
        self.statement.is_some() && self.checks.iter().all(|check| check.passed)
    }
}

impl StatementCheck {
    fn passed(name: &'static str, detail: String) -> Self {
        Self { name, passed: true, detail, hint: None }
    }

    fn failed(name: &'static str, detail: String, hint: &str) -> Self {
        Self { name, passed: false, detail, hint: Some(hint.to_string()) }
    }
}

/// Checks the bytes of an envelope.
pub fn check_envelope(
    bytes: &[u8],
    expected: &StatementExpectations<'_>,
    repository: &CommitReader,
) -> Result<CheckedStatement, GitCommandError> {
    let mut checks = Vec::new();
    let Some(statement) = read_signed(bytes, expected.key, &mut checks) else {
        return Ok(CheckedStatement { checks, statement: None });
    };
    checks.push(check_status(&statement, expected.lowest_status));
    let (commit, tree) = check_commit(&statement, expected.target, repository)?;
    let policy = PolicyCheck { statement: &statement, expected: expected.policy, repository };
    // A commit that passed has what was judged.
    let judged =
        if commit.passed { tree.clone() } else { repository.find_tree(statement.tree())? };
    checks.push(commit);
    checks.push(policy.check(tree.as_deref(), judged.as_deref())?);
    Ok(CheckedStatement { checks, statement: Some(statement) })
}

/// The statement, if the key signed it.
fn read_signed(
    bytes: &[u8],
    key: Option<&PublicKey>,
    checks: &mut Vec<StatementCheck>,
) -> Option<RunStatement> {
    let envelope = match SignedEnvelope::parse(bytes) {
        Ok(envelope) => envelope,
        Err(error) => {
            checks.push(failed_envelope(&error));
            return None;
        }
    };
    let signed = key.and_then(|key| Some((key, envelope.verified_payload(key)?)));
    let Some((key, payload)) = signed else {
        let is_own_id = key.is_some_and(|key| key.id() == envelope.key_id());
        checks.push(if is_own_id {
            let detail = "it does not match: the statement was changed after it was signed";
            let hint = "do not trust it; `ralph report RUN --attest` makes a new one";
            StatementCheck::failed("signature", detail.to_string(), hint)
        } else {
            let detail = "signed by a key that is not known here";
            let hint =
                "ask the signer for the output of `ralph report --public-key`, and pass it with `--key`";
            StatementCheck::failed("signature", detail.to_string(), hint)
        });
        return None;
    };
    checks.push(StatementCheck::passed("signature", format!("by key {}", key.short_id())));
    match RunStatement::parse(payload) {
        Ok(statement) => Some(statement),
        Err(error) => {
            let detail = text::clean_line(&error.to_string(), MAX_ERROR_CHARS);
            let hint = "a newer ralph may have made it; check it with that version";
            checks.push(StatementCheck::failed("statement", detail, hint));
            None
        }
    }
}

fn failed_envelope(error: &EnvelopeError) -> StatementCheck {
    let detail = text::clean_line(&error.to_string(), MAX_ERROR_CHARS);
    StatementCheck::failed("envelope", detail, "`ralph report RUN --attest` makes a new one")
}

fn check_status(statement: &RunStatement, lowest: AttestedStatus) -> StatementCheck {
    let predicate = &statement.predicate;
    if let Some(contradiction) = predicate.find_contradiction() {
        let detail = format!("it says {}, but {contradiction}", predicate.status.name());
        let hint = "do not trust it: no run of ralph ends like this";
        return StatementCheck::failed("status", detail, hint);
    }
    let status = predicate.status;
    let detail = match &predicate.accepted {
        Some(accepted) => {
            format!("accepted by {}", text::clean_line(&accepted.by, MAX_NAME_CHARS))
        }
        None => status.name().to_string(),
    };
    if status < lowest {
        let detail = format!("{detail}, which is less than {}", lowest.name());
        let hint = format!("if that is enough, pass `--accept {}`", status.name());
        return StatementCheck::failed("status", detail, &hint);
    }
    StatementCheck::passed("status", format!("{detail}, {}", describe_basis(predicate)))
}

/// `as 2 gate results say; judge goal-review counts as the measure of the goal`
fn describe_basis(predicate: &RunPredicate) -> String {
    let measured = match predicate.gates.len() {
        0 => "without a gate result".to_string(),
        1 => "as 1 gate result says".to_string(),
        count => format!("as {count} gate results say"),
    };
    let judges = predicate.decisive_judges();
    let names: Vec<_> = judges.map(|one| text::clean_line(&one.name, MAX_NAME_CHARS)).collect();
    match names.as_slice() {
        [] => measured,
        [name] => format!("{measured}; judge {name} counts as the measure of the goal"),
        names => {
            format!("{measured}; judges {} count as the measure of the goal", names.join(", "))
        }
    }
}

/// Compares trees. Returns the tree to compare the policy with.
fn check_commit(
    statement: &RunStatement,
    target: CheckTarget<'_>,
    repository: &CommitReader,
) -> Result<(StatementCheck, Option<String>), GitCommandError> {
    let attested = || {
        let landed = statement.landed_commit().map(str::to_string);
        landed.into_iter().chain([statement.judged_commit().to_string()])
    };
    let named: Vec<String> = match target {
        CheckTarget::Head => std::iter::once("HEAD".to_string()).chain(attested()).collect(),
        CheckTarget::Commit(commit) => vec![commit.to_string()],
        CheckTarget::Attested => attested().collect(),
    };
    let mut found: Option<(String, String, JudgedTree)> = None;
    let mut has_attested = false;
    for name in &named {
        let Some(tree) = repository.tree_of(name)? else {
            if name == "HEAD" {
                break;
            }
            continue;
        };
        has_attested |= name != "HEAD";
        let content = judged_content(statement, &tree, repository)?;
        if content == JudgedTree::Other {
            let label = if name == "HEAD" { "HEAD".to_string() } else { text::short_id(name) };
            let detail = format!(
                "{label} has tree {}, but {} was judged",
                text::short_id(&tree),
                text::short_id(statement.tree())
            );
            let other = match (target, statement.landed_commit()) {
                (CheckTarget::Head, Some(landed)) => format!(
                    "; the work landed as {}, which `--judged-commit` checks",
                    text::short_id(landed)
                ),
                (CheckTarget::Head, None) => {
                    "; `--judged-commit` checks the commit that was judged".to_string()
                }
                (CheckTarget::Attested | CheckTarget::Commit(_), _) => String::new(),
            };
            let hint = format!(
                "`git diff {} {}` shows the difference{other}",
                text::short_id(statement.tree()),
                text::short_id(&tree)
            );
            return Ok((StatementCheck::failed("commit", detail, &hint), Some(tree)));
        }
        found = found.or(Some((name.clone(), tree, content)));
    }
    let Some((name, tree, content)) = found else {
        let (detail, hint) = match target {
            CheckTarget::Head => ("the repository has no commit yet", "fetch the judged commit"),
            CheckTarget::Attested | CheckTarget::Commit(_) => (
                "the repository has none of the commits that were judged",
                "fetch them, or omit `--judged-commit` to compare with HEAD",
            ),
        };
        return Ok((StatementCheck::failed("commit", detail.to_string(), hint), None));
    };
    let label = if name == "HEAD" { "HEAD".to_string() } else { text::short_id(&name) };
    let unchecked = match target {
        CheckTarget::Attested => "; HEAD was not compared",
        CheckTarget::Head if !has_attested => "; the judged commits are not in this repository",
        CheckTarget::Head | CheckTarget::Commit(_) => "",
    };
    let settings = match content {
        JudgedTree::Same | JudgedTree::Other => "",
        JudgedTree::WithLocalSettings => ", apart from the host's local settings",
    };
    let judged = text::short_id(statement.tree());
    let detail = format!("{label} has the judged tree {judged}{settings}{unchecked}");
    Ok((StatementCheck::passed("commit", detail), Some(tree)))
}

/// How the tree of a commit compares with the judged one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JudgedTree {
    Same,
    /// It also has the host's local settings, which are never judged.
    WithLocalSettings,
    Other,
}

fn judged_content(
    statement: &RunStatement,
    tree: &str,
    repository: &CommitReader,
) -> Result<JudgedTree, GitCommandError> {
    if tree == statement.tree() {
        return Ok(JudgedTree::Same);
    }
    let policy = statement.predicate.policy.as_ref();
    let directory = policy.map_or("", |policy| policy.directory.as_str());
    let pruned = repository.without_local_settings(&[tree], directory)?;
    let is_same = pruned.iter().any(|pruned| pruned == statement.tree());
    Ok(if is_same { JudgedTree::WithLocalSettings } else { JudgedTree::Other })
}

struct PolicyCheck<'a> {
    statement: &'a RunStatement,
    expected: Option<&'a str>,
    repository: &'a CommitReader,
}

impl PolicyCheck<'_> {
    /// Compares the files of the policy with those of `tree`. `judged` is the tree that the gates judged, if the
    /// repository has it.
    fn check(
        &self,
        tree: Option<&str>,
        judged: Option<&str>,
    ) -> Result<StatementCheck, GitCommandError> {
        let name = "policy";
        let Some(policy) = &self.statement.predicate.policy else {
            let detail = "the run had none".to_string();
            return Ok(match self.expected {
                None => StatementCheck::passed(name, detail),
                Some(_) => StatementCheck::failed(name, detail, "run it again with the policy"),
            });
        };
        if !policy.has_own_hash() {
            let detail = "its hash is not that of its files".to_string();
            let hint = "do not trust it: no run of ralph has such a policy";
            return Ok(StatementCheck::failed(name, detail, hint));
        }
        if let Some(expected) = self.expected
            && (policy.hash.is_empty() || !policy.hash.starts_with(&expected.to_ascii_lowercase()))
        {
            let detail = format!("the run was judged by another policy, {}", describe_hash(policy));
            let hint = "`ralph trust` shows the hash of the policy as it is now";
            return Ok(StatementCheck::failed(name, detail, hint));
        }
        let Some(tree) = tree else {
            let detail = "not compared, because there is no commit to compare with".to_string();
            return Ok(StatementCheck::failed(name, detail, "fix the `commit` check first"));
        };
        let judged = judged
            .map(|tree| JudgedFiles { tree, is_proved: self.statement.predicate.proof.is_some() });
        let compared = policy.compare(self.repository, tree, judged)?;
        if !compared.changed.is_empty() {
            let (verb, names) =
                (plural_verb(compared.changed.len()), join_names(&compared.changed));
            let detail = format!("{names} {verb} not what the gates were judged by");
            let hint = "restore the old policy, or run it again with the new one";
            return Ok(StatementCheck::failed(name, detail, hint));
        }
        let files = text::count_noun(compared.same, "file");
        let untracked = match compared.untracked.as_slice() {
            [] => String::new(),
            names => format!("; not in the commit, so not compared: {}", join_names(names)),
        };
        let detail = format!("{}, {files} as judged{untracked}", describe_hash(policy));
        Ok(StatementCheck::passed(name, detail))
    }
}

fn describe_hash(policy: &AttestedPolicy) -> String {
    match policy.short_hash() {
        hash if hash.is_empty() => "not from the repository".to_string(),
        hash => text::clean_line(&hash, MAX_NAME_CHARS),
    }
}

fn plural_verb(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn join_names(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMED_FILES);
    let shown: Vec<_> =
        shown.map(|name| format!("`{}`", text::clean_line(name, MAX_NAME_CHARS))).collect();
    match names.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
