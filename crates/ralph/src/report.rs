//! Errors as people read them: what failed, why, and what to do next.

use crate::term;
use ralph_core::text;
use ralph_exec::control::ControlError;
use ralph_exec::fs::{FileError, LockError};
use ralph_exec::holder::HolderError;
use ralph_exec::store::StoreError;
use std::error::Error;

/// An error of a command, with the next step.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(what: &str, hint: &str) -> Self {
        Self { what: what.to_string(), causes: Vec::new(), hint: Some(hint.to_string()) }
    }

    pub(crate) fn because(what: &str, cause: &dyn Error) -> Self {
        Self { what: what.to_string(), causes: chain(Some(cause)), hint: None }
    }

    pub(crate) fn print(&self) {
        let mut out =
            format!("{}: {}\n", term::paint(term::BAD, "error"), text::line(&self.what, 500));
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
        let mut causes = chain(Some(&error)).into_iter();
        Self { what: causes.next().unwrap_or_default(), causes: causes.collect(), hint }
    }
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
        ControlError::Features(_) | ControlError::NoFeatures { .. } => {
            "a features directory holds `feature_list.json` with a list of `{id, description, steps, passes}`".to_string()
        }
        ControlError::AlreadyHeld { run, .. } => {
            format!("`ralph cancel {run}` ends it, `ralph why {run}` says how it stands")
        }
        ControlError::Endless => {
            "give `--max-iterations` or `--max-duration` a number; 0 means without limit".to_string()
        }
        ControlError::StuckTooSoon(_) => "2 is the smallest number that makes sense".to_string(),
        ControlError::NothingToHold => {
            "give a goal with `--goal-file`, a list with `--features`, `--checklist` or `--completion-promise`".to_string()
        }
        ControlError::HasEnded { .. } => "start a new run with `ralph start`".to_string(),
        ControlError::NothingToDo { run, .. } => format!("`ralph why {run}` says how it stands"),
        ControlError::Ambiguous { .. } => "give more of its beginning".to_string(),
        ControlError::HalfCancelled { run, .. } => {
            format!("`ralph cancel {run}` in a moment finishes it")
        }
        ControlError::FromTheAgent { .. } => {
            "a person does this, in a terminal of their own".to_string()
        }
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
