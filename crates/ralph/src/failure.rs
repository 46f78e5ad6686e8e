//! The errors that commands print: what failed, its causes, and a hint. Holds the hint for every kind of error.

use crate::{FAILURE, UNTRUSTED, term};
use ralph_core::gate::shell_quote;
use ralph_core::run_terms::GoalTooLong;
use ralph_core::text;
use ralph_git::checkpoint::CheckpointError;
use ralph_git::tree::ListingError;
use ralph_home::goal_file::GoalFileError;
use ralph_home::session_pointer::SessionPointerError;
use ralph_home::store::StoreError;
use ralph_hook::contract::SealError;
use ralph_hook::control::{self, ControlError, StartError};
use ralph_install::install::InstallError;
use ralph_lists::import::loop_files::ImportRenderError;
use ralph_lists::loop_directory;
use ralph_lists::loops::FeatureError;
use ralph_lists::run_lists::ListError;
use ralph_policy::trust::TrustError;
use ralph_proof::ProofError;
use ralph_sys::fs::{FileError, LockError};
use std::error::Error;
use std::path::Path;

/// An error of a command, with its causes and a hint.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
    /// Where in a file the mistakes are; printed first.
    excerpts: String,
    code: u8,
    /// Whether a person chose this instead of what the command would have done.
    is_choice: bool,
}

impl CommandFailure {
    /// The end of a command that a person declined or changed: not an error, although the exit code is the same.
    pub(crate) fn chosen(what: &str, hint: &str) -> Self {
        Self { is_choice: true, ..Self::new(what, hint) }
    }

    pub(crate) fn new(what: &str, hint: &str) -> Self {
        Self::from_chain(vec![what.to_string()], Some(hint.to_string()))
    }

    /// Has its own exit code, so that scripts can distinguish it from other failures.
    pub(crate) fn untrusted(what: &str, hint: &str) -> Self {
        Self { code: UNTRUSTED, ..Self::new(what, hint) }
    }

    /// Resets the exit code to that of every failure, for commands whose other exit codes report how a run ended.
    pub(crate) fn with_failure_code(self) -> Self {
        Self { code: FAILURE, ..self }
    }

    pub(crate) fn from_chain(chain: Vec<String>, hint: Option<String>) -> Self {
        let mut causes = chain.into_iter();
        Self {
            what: causes.next().unwrap_or_default(),
            causes: causes.collect(),
            hint,
            excerpts: String::new(),
            code: FAILURE,
            is_choice: false,
        }
    }

    pub(crate) fn in_file(what: &str, excerpts: String) -> Self {
        Self { excerpts, ..Self::from_chain(vec![what.to_string()], None) }
    }

    pub(crate) fn message(&self) -> &str {
        &self.what
    }

    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The whole error as plain text, for an answer in a session instead of a terminal.
    pub(crate) fn to_plain_text(&self) -> String {
        let mut out = self.excerpts.clone();
        out.push_str(&text::clean_line(&self.what, 500));
        for cause in &self.causes {
            out.push_str(&format!("\n  caused by: {}", text::clean_line(cause, 500)));
        }
        if let Some(hint) = &self.hint {
            out.push_str(&format!("\n  hint: {hint}"));
        }
        out
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn caused_by(what: &str, cause: &dyn Error) -> Self {
        Self { causes: error_chain(Some(cause)), ..Self::from_chain(vec![what.to_string()], None) }
    }

    pub(crate) fn with_hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// With the places of mistakes in a file, and its own message about them if there is one.
    pub(crate) fn with_excerpts(self, excerpts: String, what: Option<String>) -> Self {
        Self { excerpts, what: what.unwrap_or(self.what), ..self }
    }

    pub(crate) fn with_subject(self, subject: &str) -> Self {
        Self { what: format!("{subject}: {}", self.what), ..self }
    }

    pub(crate) fn print(&self) {
        let mut out = self.excerpts.clone();
        let label = (!self.is_choice).then(|| format!("{}: ", term::paint(term::BAD, "error")));
        let what = text::clean_line(&self.what, 500);
        out.push_str(&format!("{}{what}\n", label.unwrap_or_default()));
        for cause in &self.causes {
            out.push_str(&format!("  caused by: {}\n", text::clean_line(cause, 500)));
        }
        if let Some(hint) = &self.hint {
            out.push_str(&format!("  {}: {hint}\n", term::paint(term::BOLD, "hint")));
        }
        term::err(&out);
    }
}

pub(crate) fn plain_usage_error(what: &str, hint: &str) -> String {
    format!("error: {what}\n  hint: {hint}\n")
}

pub(crate) fn error_chain(mut next: Option<&dyn Error>) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    while let Some(error) = next {
        let text = error.to_string();
        // A transparent wrapper has the text of the error that it wraps.
        if causes.last() != Some(&text) {
            causes.push(text);
        }
        next = error.source();
    }
    causes
}

impl From<ControlError> for CommandFailure {
    fn from(error: ControlError) -> Self {
        let hint = control_hint(&error);
        let is_unapproved = matches!(error, ControlError::Unapproved { .. });
        let code = if is_unapproved { UNTRUSTED } else { FAILURE };
        Self { code, ..Self::from_chain(error_chain(Some(&error)), hint) }
    }
}

impl From<StartError> for CommandFailure {
    fn from(error: StartError) -> Self {
        let hint = match error {
            StartError::Control(error) => return error.into(),
            StartError::Policy(error) => return error.into(),
            StartError::Goal(error) => return error.into(),
            StartError::PolicyUnapproved => {
                let hint = "`ralph trust` shows what would run and asks for approval";
                return Self::untrusted(&error.to_string(), hint);
            }
            StartError::Approval(error) => return error.into(),
            StartError::NotADirectory(_) => "check the path",
            StartError::InvalidGlob { .. } => {
                "name test files relative to the project, such as `tests/api_*.py`"
            }
            StartError::NotUtf8(_) => "rename the directory",
            StartError::NotAFile(_) => "name a Markdown file with `- [ ]` items",
            StartError::InvalidPromise => {
                "choose a short phrase that the agent would not write by chance"
            }
        };
        Self::new(&error.to_string(), hint)
    }
}

impl From<GoalTooLong> for CommandFailure {
    fn from(error: GoalTooLong) -> Self {
        Self::new(&error.to_string(), GoalTooLong::HINT)
    }
}

impl From<GoalFileError> for CommandFailure {
    fn from(error: GoalFileError) -> Self {
        let hint = "restore the file, or give the goal again: `ralph run \"…\"`".to_string();
        Self::from_chain(error_chain(Some(&error)), Some(hint))
    }
}

impl From<ImportRenderError> for CommandFailure {
    fn from(error: ImportRenderError) -> Self {
        match error {
            ImportRenderError::Goal(error) => Self::from(error).with_subject("the imported files"),
            ImportRenderError::Serialize(_) => {
                let hint = "nothing was created".to_string();
                Self::from_chain(error_chain(Some(&error)), Some(hint))
            }
        }
    }
}

impl From<FeatureError> for CommandFailure {
    fn from(error: FeatureError) -> Self {
        let hint = feature_hint(&error);
        Self::from_chain(error_chain(Some(&error)), hint)
    }
}

fn feature_hint(error: &FeatureError) -> Option<String> {
    Some(match error {
        FeatureError::List(ListError::File(file) | ListError::Trust(TrustError::File(file)))
        | FeatureError::File(file)
        | FeatureError::Lock(LockError::File(file)) => return file_hint(file),
        FeatureError::List(ListError::Trust(TrustError::UnreadableApproval { path, .. })) => {
            unreadable_approval_hint(path)
        }
        FeatureError::List(ListError::Trust(TrustError::TooManyReferences(_))) => {
            "move the commands into a script and call it".to_string()
        }
        FeatureError::List(
            ListError::Invalid { .. } | ListError::Empty { .. } | ListError::Seal(_),
        ) => {
            "a list is `{\"features\": [{\"id\": 1, \"description\": \"…\", \"steps\": [\"…\"], \"passes\": false}]}`".to_string()
        }
        FeatureError::Lock(LockError::Busy { .. }) => {
            "another ralph is changing this list; try again in a moment".to_string()
        }
        FeatureError::Goal(_) => GoalTooLong::HINT.to_string(),
        FeatureError::InvalidLoopName(_) => {
            "a name is 1 to 64 letters, digits, `.`, `_` and `-`, and begins with a letter or digit".to_string()
        }
        FeatureError::AlreadyExists(_) => "choose another name, or move the existing one".to_string(),
        FeatureError::OutsideProject(_) => "use a directory inside the project".to_string(),
        FeatureError::EmptyList(_) => {
            "one feature is one `- ` item, or one object in `features`".to_string()
        }
        FeatureError::NoSuchFeature { near: Some(near), .. } => {
            format!("did you mean `{near}`?")
        }
        FeatureError::NoSuchFeature { near: None, .. } => {
            "`ralph list features` shows all features".to_string()
        }
        FeatureError::IdIsTaken(_) => "omit `--id` to use the next number".to_string(),
        FeatureError::InvalidId(_) => {
            "an id is 1 to 40 letters, digits, `.`, `_` and `-`".to_string()
        }
        FeatureError::Serialize(_)
        | FeatureError::List(ListError::Trust(TrustError::Serialize(_))) => return None,
        FeatureError::CannotChange { .. } => {
            "nothing was written; edit the file by hand".to_string()
        }
    })
}

impl From<StoreError> for CommandFailure {
    fn from(error: StoreError) -> Self {
        ControlError::from(error).into()
    }
}

impl From<FileError> for CommandFailure {
    fn from(error: FileError) -> Self {
        ControlError::from(error).into()
    }
}

impl From<SealError> for CommandFailure {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Config(error) => error.into(),
            SealError::Trust(error) => error.into(),
            SealError::Tree(_) | SealError::Checkpoint(_) | SealError::NeedsGit => {
                let hint = "`--no-gates` starts the run without the policy".to_string();
                Self::from_chain(error_chain(Some(&error)), Some(hint))
            }
        }
    }
}

impl From<TrustError> for CommandFailure {
    fn from(error: TrustError) -> Self {
        let hint = match &error {
            TrustError::File(file) => file_hint(file),
            TrustError::Serialize(_) => None,
            TrustError::UnreadableApproval { path, .. } => Some(unreadable_approval_hint(path)),
            TrustError::TooManyReferences(_) => {
                Some("move the commands into a script and call it".to_string())
            }
        };
        Self::from_chain(error_chain(Some(&error)), hint)
    }
}

impl From<InstallError> for CommandFailure {
    fn from(error: InstallError) -> Self {
        let hint = match error {
            InstallError::Config(error) => return error.into(),
            InstallError::Trust(error) => return error.into(),
            InstallError::File(error) => return error.into(),
            InstallError::NoHome => "set `HOME` to an absolute path",
            InstallError::Damaged { .. } => "nothing was written; fix it by hand, then try again",
            InstallError::DamagedRecord(_) => {
                "nothing was written; restore the original files, which are next to the record, then move its directory away"
            }
            InstallError::OtherRecordVersion(_) => {
                "nothing was written; use the version of ralph that installed it"
            }
            InstallError::ReadOnly(_) => {
                "nothing was written; `chmod u+w` it, or choose another `--scope`"
            }
            InstallError::BrokenLink(_) => "nothing was written; remove the link or fix it",
            InstallError::Changed(_) => "it was not overwritten; check it, then try again",
            InstallError::PartlyWritten(_) => {
                "run the command again, or undo it with `ralph uninstall`"
            }
            InstallError::Program(_) => "install ralph, then run the installed program",
            InstallError::Lock(LockError::Busy { .. }) => {
                "another ralph process is changing the settings; try again in a moment"
            }
            InstallError::Lock(LockError::File(_)) => "check who owns the directory",
        };
        Self::from_chain(error_chain(Some(&error)), Some(hint.to_string()))
    }
}

impl From<ProofError> for CommandFailure {
    fn from(error: ProofError) -> Self {
        match error {
            ProofError::Checkpoint(error) => error.into(),
            ProofError::File(error) => error.into(),
            ProofError::Listing(error) => Self::caused_by("cannot list a checkout", &error),
        }
    }
}

impl From<CheckpointError> for CommandFailure {
    fn from(error: CheckpointError) -> Self {
        let hint = checkpoint_hint(&error);
        Self::from_chain(error_chain(Some(&error)), hint)
    }
}

fn checkpoint_hint(error: &CheckpointError) -> Option<String> {
    Some(match error {
        CheckpointError::GitMissing => {
            "install git; the project need not be a repository".to_string()
        }
        CheckpointError::NoProject(_) => "the project was moved or removed".to_string(),
        CheckpointError::ObjectsMoved(_) | CheckpointError::WrongRoot { .. } => {
            "the checkpoints are in the repository that existed when they were made".to_string()
        }
        CheckpointError::NotFound { run, .. } => {
            format!("`ralph list checkpoints {run}` lists its checkpoints")
        }
        CheckpointError::Replaced { .. } => {
            "a ref below `refs/ralph` was moved by hand; `ralph why` shows what the run recorded"
                .to_string()
        }
        CheckpointError::InvalidPath { .. } => {
            "it was not made by ralph; restore another one".to_string()
        }
        CheckpointError::FileChanged(_) => {
            "nothing was restored; pause whatever changes files there, then try again".to_string()
        }
        CheckpointError::BadPath(_) => "name a path below the project".to_string(),
        CheckpointError::Lock(LockError::Busy { .. }) => {
            "another ralph is making a checkpoint; try again in a moment".to_string()
        }
        CheckpointError::Lock(LockError::File(file)) | CheckpointError::File(file) => {
            return file_hint(file);
        }
        CheckpointError::TimedOut { .. } | CheckpointError::Listing(ListingError::TimedOut(_)) => {
            "try again when the machine is less busy".to_string()
        }
        CheckpointError::Listing(ListingError::Failed { .. } | ListingError::NoSuchProject(_)) => {
            return None;
        }
        CheckpointError::WrongContent { .. } => {
            "a file below `.git/objects` was changed; `git fsck` lists all such objects".to_string()
        }
        CheckpointError::Git { .. } | CheckpointError::CommitMissing(_) => {
            "run `git fsck` in the project to check its repository".to_string()
        }
    })
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind of error")]
fn control_hint(error: &ControlError) -> Option<String> {
    Some(match error {
        ControlError::Store(StoreError::NoSuchRun(_)) | ControlError::UnknownName(_) => {
            "`ralph status --all` lists runs and sessions".to_string()
        }
        ControlError::Store(StoreError::TimedOut) => "try again in a moment".to_string(),
        ControlError::Store(StoreError::Newer { .. })
        | ControlError::SessionOwner(SessionPointerError::Newer { .. }) => "use that version, or a newer one".to_string(),
        ControlError::Store(StoreError::Unreadable { path }) => {
            format!("the files are kept; look at `{}`", path.display())
        }
        ControlError::Store(StoreError::Lock(LockError::Busy { .. }))
        | ControlError::SessionOwner(SessionPointerError::Lock(LockError::Busy { .. })) => {
            "another ralph is working on this run; try again in a moment".to_string()
        }
        ControlError::Store(StoreError::File(file) | StoreError::Lock(LockError::File(file)))
        | ControlError::File(file)
        | ControlError::SessionOwner(SessionPointerError::File(file) | SessionPointerError::Lock(LockError::File(file))) => {
            return file_hint(file);
        }
        ControlError::SessionOwner(SessionPointerError::Quarantined { .. }) => {
            "the session is free; start a new run in it with `/ralph:goal …`".to_string()
        }
        ControlError::Unapproved { trust, .. } => {
            format!("`{trust}` shows what would run and asks for approval")
        }
        ControlError::List(ListError::Empty { path }) if !path.ends_with(loop_directory::FEATURES_FILE) => {
            "name a Markdown file with `- [ ]` items".to_string()
        }
        ControlError::Features(_) | ControlError::List(_) => {
            "a features directory holds `feature_list.json` with a list of `{id, description, steps, passes}`".to_string()
        }
        ControlError::AlreadyHeld { run, .. } => {
            format!(
                "`/ralph:cancel` in its session or `ralph cancel {run}` ends it, `ralph why {run}` explains its state"
            )
        }
        ControlError::NoLimit => {
            "set `--max-iterations` or `--max-duration`; 0 means no limit".to_string()
        }
        ControlError::LimitNeedsRunner { option } => {
            format!("omit `{option}`, or start the work with `ralph run`")
        }
        ControlError::StuckTooSoon(_) => "use 2 or more".to_string(),
        ControlError::MinimumAboveMaximum { .. } => {
            "make `--min-iterations` smaller or `--max-iterations` larger".to_string()
        }
        ControlError::NotWaived { .. } => "`ralph list waivers` shows what is waived".to_string(),
        ControlError::NothingToHold => {
            "give a goal with `--goal-file`, a list with `--features`, `--checklist` or `--completion-promise`".to_string()
        }
        ControlError::Seal(SealError::Tree(_) | SealError::Checkpoint(_) | SealError::NeedsGit) => {
            "`--no-gates` starts the run without the policy".to_string()
        }
        ControlError::Seal(SealError::Config(_) | SealError::Trust(_)) => {
            "`ralph config` shows the policy, `ralph trust` what it would run".to_string()
        }
        ControlError::NotAcceptable { run, .. } | ControlError::NotEnded { run } => {
            format!("only `green` and `needs_review` can be accepted; `ralph why {run}` explains its state")
        }
        ControlError::HasEnded { .. } => "start a new run with `ralph run \"…\"`, or with `/ralph:goal …` in a session".to_string(),
        ControlError::RunExists(_) => "try again; the next run gets another id".to_string(),
        ControlError::NothingToDo { run, .. } => format!("`ralph why {run}` explains its state"),
        ControlError::WithoutPhases { .. } => {
            "`ralph orchestrator start` starts one that does".to_string()
        }
        ControlError::Ambiguous { .. } => "give more characters of the id".to_string(),
        ControlError::HalfCancelled { run, .. } => {
            format!("run `ralph cancel {run}` again in a moment")
        }
        ControlError::CallerIsAgent { .. } => control::ASK_A_PERSON.to_string(),
        ControlError::CallerHidden => control::SHOW_PROCESSES.to_string(),
        ControlError::OwnedElsewhere { .. } => "leave that session first, or continue there".to_string(),
        ControlError::NoResumableRun => {
            "`ralph status --all` lists the runs; `/ralph:goal …` starts one".to_string()
        }
        ControlError::SeveralResumableRuns { .. } => "name one: `/ralph:resume RUN`".to_string(),
        ControlError::NotCancelled { path, .. } => {
            format!("make `{}` writable, then cancel again", path.display())
        }
    })
}

fn unreadable_approval_hint(path: &Path) -> String {
    let path = shell_quote(&path.to_string_lossy());
    format!("move it away with `mv {path} {path}.bak`, then run `ralph trust`")
}

pub(crate) fn file_hint(file: &FileError) -> Option<String> {
    let path = file.path().display();
    if file.is_disk_full() {
        Some("the disk is full; nothing was changed".to_string())
    } else if file.is_read_only() {
        Some("the file system is read-only; set `RALPH_HOME` to another directory".to_string())
    } else if file.is_denied() {
        Some(format!("check its owner with `ls -l {path}`"))
    } else if file.is_missing() {
        Some("check the path".to_string())
    } else {
        None
    }
}
