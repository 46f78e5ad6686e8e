//! The lessons of a project on disk: one file, replaced as a whole. Everything in it can be derived again from the
//! journals that still exist.

use crate::paths::RalphHome;
use ralph_core::lesson::{LESSON_FORMAT, Lesson, LessonFile};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Durability, FileError, LockError};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum LessonStoreError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("`{}` was written by a newer ralph (format {version})", path.display())]
    Newer { path: PathBuf, version: u64 },
    #[error("`{}` does not contain lessons", path.display())]
    Garbled { path: PathBuf },
}

/// The field that files of every version have.
#[derive(Deserialize)]
struct FormatVersion {
    v: u64,
}

/// The lessons of a project; empty if it has none yet.
pub fn load_lessons(home: &RalphHome, project: &Path) -> Result<Vec<Lesson>, LessonStoreError> {
    load_lesson_file(home, project).map(|file| file.lessons)
}

fn load_lesson_file(home: &RalphHome, project: &Path) -> Result<LessonFile, LessonStoreError> {
    let path = home.project_memory(project);
    let Some(bytes) = fs::read_if_exists(&path, MAX_FILE_BYTES)? else {
        return Ok(LessonFile::new(&project.to_string_lossy()));
    };
    let version = serde_json::from_slice::<FormatVersion>(&bytes).ok();
    match version {
        Some(FormatVersion { v }) if v > u64::from(LESSON_FORMAT) => {
            Err(LessonStoreError::Newer { path, version: v })
        }
        _ => match serde_json::from_slice::<LessonFile>(&bytes) {
            Ok(file) => Ok(file),
            Err(_) => Err(LessonStoreError::Garbled { path }),
        },
    }
}

/// Changes the lessons of a project under its lock, and writes them if they differ. A file that cannot be read is put
/// aside first; one of a newer version is left alone.
pub fn update_lessons<T>(
    home: &RalphHome,
    project: &Path,
    deadline: &Deadline,
    change: impl FnOnce(&mut LessonFile) -> T,
) -> Result<T, LessonStoreError> {
    fs::create_private_dir(&home.memory())?;
    let _lock = fs::acquire_lock(&home.project_memory_lock(project), deadline)?;
    let path = home.project_memory(project);
    let new = LessonFile::new(&project.to_string_lossy());
    let before = match load_lesson_file(home, project) {
        Err(LessonStoreError::Garbled { path }) => {
            fs::quarantine(&path, clock::now_ms())?;
            new.clone()
        }
        loaded => loaded?,
    };
    let mut file = before.clone();
    let answer = change(&mut file);
    if file != before {
        let file = LessonFile { v: new.v, project: new.project, ..file };
        let mut bytes = fs::encode_json(&path, &file)?;
        bytes.push(b'\n');
        fs::replace(&path, &bytes, Durability::Cached)?;
    }
    Ok(answer)
}
