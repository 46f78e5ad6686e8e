//! Errors as people read them: what failed, why, and what to do next.

use crate::{FAILURE, UNTRUSTED, excerpt, term};
use ralph_core::text;
use ralph_exec::adopt;
use ralph_exec::checkpoint::CheckpointError;
use ralph_exec::config::{self, ConfigError};
use ralph_exec::contract::SealError;
use ralph_exec::control::ControlError;
use ralph_exec::features::FeatureError;
use ralph_exec::fs::{FileError, LockError};
use ralph_exec::holder::HolderError;
use ralph_exec::install::InstallError;
use ralph_exec::lists::ListError;
use ralph_exec::store::StoreError;
use ralph_exec::trust::TrustError;
use std::error::Error;

/// An error of a command, with the next step.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
    /// Where in a file the mistakes are; printed first.
    excerpts: String,
    code: u8,
}

impl Failure {
    pub(crate) fn new(what: &str, hint: &str) -> Self {
        Self::of(vec![what.to_string()], Some(hint.to_string()))
    }

    /// With the exit code of its own that a script can tell from a failure.
    pub(crate) fn untrusted(what: &str, hint: &str) -> Self {
        Self { code: UNTRUSTED, ..Self::new(what, hint) }
    }

    /// With the exit code of every failure, where each other one says how a run ended.
    pub(crate) fn ordinary(self) -> Self {
        Self { code: FAILURE, ..self }
    }

    /// What failed, and why in turn.
    fn of(chain: Vec<String>, hint: Option<String>) -> Self {
        let mut causes = chain.into_iter();
        Self {
            what: causes.next().unwrap_or_default(),
            causes: causes.collect(),
            hint,
            excerpts: String::new(),
            code: FAILURE,
        }
    }

    /// With the places in a file where the mistakes are.
    pub(crate) fn in_file(what: &str, excerpts: String) -> Self {
        Self { excerpts, ..Self::of(vec![what.to_string()], None) }
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// All of it as plain text, for a person who has no terminal here.
    pub(crate) fn told(&self) -> String {
        let mut out = term::plain(&self.excerpts);
        out.push_str(&text::line(&self.what, 500));
        for cause in &self.causes {
            out.push_str(&format!("\n  caused by: {}", text::line(cause, 500)));
        }
        if let Some(hint) = &self.hint {
            out.push_str(&format!("\n  hint: {hint}"));
        }
        out
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn because(what: &str, cause: &dyn Error) -> Self {
        Self { causes: chain(Some(cause)), ..Self::of(vec![what.to_string()], None) }
    }

    /// With another next step than the one that its kind suggests.
    pub(crate) fn with_hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// Which of several things it is that failed.
    pub(crate) fn about(self, subject: &str) -> Self {
        Self { what: format!("{subject}: {}", self.what), ..self }
    }

    pub(crate) fn print(&self) {
        let mut out = self.excerpts.clone();
        out.push_str(&format!(
            "{}: {}\n",
            term::paint(term::BAD, "error"),
            text::line(&self.what, 500)
        ));
        for cause in &self.causes {
            out.push_str(&format!("  caused by: {}\n", text::line(cause, 500)));
        }
        if let Some(hint) = &self.hint {
            out.push_str(&format!("  {}: {hint}\n", term::paint(term::BOLD, "hint")));
        }
        term::err(&out);
    }
}

/// The two-line form for a mistake on the command line of `ralph hook`.
pub(crate) fn plain(what: &str, hint: &str) -> String {
    format!("error: {what}\n  hint: {hint}\n")
}

fn chain(mut next: Option<&dyn Error>) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    while let Some(error) = next {
        let said = error.to_string();
        // Transparent wrappers repeat what they wrap.
        if causes.last() != Some(&said) {
            causes.push(said);
        }
        next = error.source();
    }
    causes
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let hint = hint(&error);
        let is_unapproved = matches!(error, ControlError::Unapproved { .. });
        let code = if is_unapproved { UNTRUSTED } else { FAILURE };
        Self { code, ..Self::of(chain(Some(&error)), hint) }
    }
}

impl From<FeatureError> for Failure {
    fn from(error: FeatureError) -> Self {
        let hint = feature_hint(&error);
        Self::of(chain(Some(&error)), hint)
    }
}

fn feature_hint(error: &FeatureError) -> Option<String> {
    Some(match error {
        FeatureError::List(ListError::File(file) | ListError::Trust(TrustError::File(file)))
        | FeatureError::File(file)
        | FeatureError::Lock(LockError::File(file)) => return file_hint(file),
        FeatureError::List(ListError::Trust(TrustError::TooMuch(_))) => {
            "let a script do it, and call that".to_string()
        }
        FeatureError::List(ListError::Garbled { .. } | ListError::Empty { .. }) => {
            "a list is `{\"features\": [{\"id\": 1, \"description\": \"…\", \"steps\": [\"…\"], \"passes\": false}]}`".to_string()
        }
        FeatureError::Lock(LockError::Busy { .. }) => {
            "another ralph is changing this list; try again in a moment".to_string()
        }
        FeatureError::NoName(_) => {
            "a name is 1 to 64 letters, digits, `.`, `_` and `-`, and begins with a letter or digit".to_string()
        }
        FeatureError::IsThere(_) => "choose another name, or move it away".to_string(),
        FeatureError::LeadsOut(_) => "make it a directory of the project".to_string(),
        FeatureError::ListsNothing(_) => {
            "one feature is one `- ` item, or one object in `features`".to_string()
        }
        FeatureError::NoSuchFeature { near: Some(near), .. } => {
            format!("did you mean `{near}`?")
        }
        FeatureError::NoSuchFeature { near: None, .. } => {
            "`ralph feature list` shows the ones there are".to_string()
        }
        FeatureError::IdIsTaken(_) => "leave `--id` out, and it gets the next number".to_string(),
        FeatureError::NoId(_) => {
            "an id is 1 to 40 letters, digits, `.`, `_` and `-`".to_string()
        }
        FeatureError::CannotChange { .. } => {
            "nothing was written; change it in an editor".to_string()
        }
    })
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        ControlError::from(error).into()
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        ControlError::from(error).into()
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let (excerpts, hint) = match &error {
            ConfigError::Problems { first, more } => {
                let hint = "`ralph config --schema` says what there is";
                (excerpt::render(first, *more), Some(hint.to_string()))
            }
            ConfigError::NoSuchProject(_) => (String::new(), Some("check the path".to_string())),
            ConfigError::Both(_) => {
                let [keep, delete] = config::NAMES;
                let hint = format!("keep `{keep}` and delete `{delete}`, or the other way round");
                (String::new(), Some(hint))
            }
            ConfigError::LeadsOut(_) => {
                let hint = "put the file itself there; `~/.ralph/config.toml` is for every project";
                (String::new(), Some(hint.to_string()))
            }
            ConfigError::File(file) => (String::new(), file_hint(file)),
        };
        Self { excerpts, ..Self::of(chain(Some(&error)), hint) }
    }
}

impl From<SealError> for Failure {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Config(error) => error.into(),
            SealError::Trust(error) => error.into(),
            SealError::Tree(_) | SealError::Checkpoint(_) | SealError::NeedsGit => {
                let hint = "`--no-gates` starts the run without the policy".to_string();
                Self::of(chain(Some(&error)), Some(hint))
            }
        }
    }
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        let hint = match &error {
            TrustError::File(file) => file_hint(file),
            TrustError::TooMuch(_) => Some("let a script do it, and call that".to_string()),
        };
        Self::of(chain(Some(&error)), hint)
    }
}

impl From<InstallError> for Failure {
    fn from(error: InstallError) -> Self {
        let hint = match error {
            InstallError::Config(error) => return error.into(),
            InstallError::Trust(error) => return error.into(),
            InstallError::File(error) => return error.into(),
            InstallError::NoHome => "set `HOME` to an absolute path",
            InstallError::Damaged { .. } => "nothing was written; mend it by hand, then try again",
            InstallError::ReadOnly(_) => {
                "nothing was written; `chmod u+w` it, or choose another `--scope`"
            }
            InstallError::LeadsNowhere(_) => "nothing was written; remove the link, or mend it",
            InstallError::Changed(_) => "nothing of it was overwritten; look again, then try again",
            InstallError::Halfway(_) => "do it again, or take it out with `ralph uninstall`",
            InstallError::Program(_) => "install ralph, then run it from where it is",
            InstallError::Lock(LockError::Busy { .. }) => {
                "another ralph is at it; try again in a moment"
            }
            InstallError::Lock(LockError::File(_)) => "look at who owns the directory",
        };
        Self::of(chain(Some(&error)), Some(hint.to_string()))
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        let hint = checkpoint_hint(&error);
        Self::of(chain(Some(&error)), hint)
    }
}

fn checkpoint_hint(error: &CheckpointError) -> Option<String> {
    Some(match error {
        CheckpointError::NoGit => "install git; a project needs no repository for it".to_string(),
        CheckpointError::NoProject(_) => "the project was moved or removed".to_string(),
        CheckpointError::Moved(_) | CheckpointError::Elsewhere { .. } => {
            "the checkpoints are in the repository that was there when they were made".to_string()
        }
        CheckpointError::NoSuch { run, .. } => {
            format!("`ralph checkpoint list {run}` shows the ones there are")
        }
        CheckpointError::Replaced { .. } => {
            "somebody moved a ref of ralph's; `ralph why` says what the run saw".to_string()
        }
        CheckpointError::Forged { .. } => {
            "somebody made it by hand; restore another one".to_string()
        }
        CheckpointError::Changed(_) => {
            "nothing was restored; pause what works there and try again".to_string()
        }
        CheckpointError::BadLink(_) => "name a path below the project".to_string(),
        CheckpointError::Lock(LockError::Busy { .. }) => {
            "another ralph is making a checkpoint; try again in a moment".to_string()
        }
        CheckpointError::Lock(LockError::File(file)) | CheckpointError::File(file) => {
            return file_hint(file);
        }
        CheckpointError::OutOfTime { .. } => "try again when the machine is less busy".to_string(),
        CheckpointError::Git { .. } => {
            "`git fsck` in the project tells whether its repository is whole".to_string()
        }
    })
}

#[expect(clippy::too_many_lines, reason = "one arm for each thing that can go wrong")]
fn hint(error: &ControlError) -> Option<String> {
    Some(match error {
        ControlError::Store(StoreError::NoSuchRun(_)) | ControlError::Unknown(_) => {
            "`ralph status --all` lists the runs there are".to_string()
        }
        ControlError::Store(StoreError::OutOfTime) => "try again in a moment".to_string(),
        ControlError::Store(StoreError::Newer { .. }) => "use that version, or a newer one".to_string(),
        ControlError::Store(StoreError::Unreadable { path }) => {
            format!("the files are kept; look at `{}`", path.display())
        }
        ControlError::Store(StoreError::Lock(LockError::Busy { .. }))
        | ControlError::Holder(HolderError::Lock(LockError::Busy { .. })) => {
            "another ralph is working on this run; try again in a moment".to_string()
        }
        ControlError::Store(StoreError::File(file) | StoreError::Lock(LockError::File(file)))
        | ControlError::File(file)
        | ControlError::Holder(HolderError::File(file) | HolderError::Lock(LockError::File(file))) => {
            return file_hint(file);
        }
        ControlError::Holder(HolderError::Garbled { .. }) => {
            "the session is free; start a new run for it with `ralph start`".to_string()
        }
        ControlError::Unapproved { trust, .. } => {
            format!("`{trust}` shows what would run, and asks")
        }
        ControlError::List(ListError::Empty { path }) if !path.ends_with(adopt::FEATURES) => {
            "name a Markdown file with `- [ ]` items".to_string()
        }
        ControlError::Features(_) | ControlError::List(_) => {
            "a features directory holds `feature_list.json` with a list of `{id, description, steps, passes}`".to_string()
        }
        ControlError::AlreadyHeld { run, .. } => {
            format!(
                "`/ralph:cancel` in its session or `ralph cancel {run}` ends it, `ralph why {run}` says how it stands"
            )
        }
        ControlError::Endless => {
            "give `--max-iterations` or `--max-duration` a number; 0 means without limit".to_string()
        }
        ControlError::StuckTooSoon(_) => "2 is the smallest number that makes sense".to_string(),
        ControlError::MorePasses { .. } => {
            "make `--min-iterations` smaller or `--max-iterations` larger".to_string()
        }
        ControlError::NotWaived { .. } => "`ralph waive --list` shows what is waived".to_string(),
        ControlError::NothingToHold => {
            "give a goal with `--goal-file`, a list with `--features`, `--checklist` or `--completion-promise`".to_string()
        }
        ControlError::Seal(SealError::Tree(_) | SealError::Checkpoint(_) | SealError::NeedsGit) => {
            "`--no-gates` starts the run without the policy".to_string()
        }
        ControlError::Seal(SealError::Config(_) | SealError::Trust(_)) => {
            "`ralph config` shows the policy, `ralph trust` what it would run".to_string()
        }
        ControlError::HasEnded { .. } => "start a new run with `ralph start`".to_string(),
        ControlError::Taken(_) => "try again: the next one has another id".to_string(),
        ControlError::NothingToDo { run, .. } => format!("`ralph why {run}` says how it stands"),
        ControlError::WithoutPhases { .. } => {
            "`ralph orchestrator start` begins one that does".to_string()
        }
        ControlError::Ambiguous { .. } => "give more of its beginning".to_string(),
        ControlError::HalfCancelled { run, .. } => {
            format!("`ralph cancel {run}` in a moment finishes it")
        }
        ControlError::FromTheAgent { .. } => {
            "a person does this, in a terminal of their own".to_string()
        }
        ControlError::Elsewhere { .. } => "leave that session first, or go on there".to_string(),
        ControlError::NoneWaits => {
            "`ralph status --all` lists the runs; `/ralph:goal …` starts one".to_string()
        }
        ControlError::ManyWait { .. } => "name the one: `/ralph:resume RUN`".to_string(),
        ControlError::NotCancelled { path, .. } => {
            format!("make `{}` writable, then cancel again", path.display())
        }
    })
}

fn file_hint(file: &FileError) -> Option<String> {
    let path = file.path().display();
    if file.is_full() {
        Some("the disk is full; nothing was changed".to_string())
    } else if file.is_read_only() {
        Some("the file system is read-only; `RALPH_HOME` can name another place".to_string())
    } else if file.is_denied() {
        Some(format!("see who owns it with `ls -l {path}`"))
    } else if file.is_missing() {
        Some("check the path".to_string())
    } else {
        None
    }
}
