//! The paths at which the client stores a session.

use ralph_sys::fs::{self, FileError};
use std::path::{Path, PathBuf};

/// The client truncates longer directory names and appends a hash.
const MAX_SLUG_LENGTH: usize = 200;
const MAX_PROJECTS: usize = 10_000;

#[derive(Clone, Copy, Debug)]
pub struct ClientSessionPaths<'a> {
    /// The user's home, which contains the client's directory `.claude`.
    pub home: &'a Path,
    /// The directory in which the client was started.
    pub project: &'a Path,
    pub session: &'a str,
}

impl ClientSessionPaths<'_> {
    /// `~/.claude/projects/-home-user-project`
    pub fn directory(&self) -> PathBuf {
        self.home.join(".claude/projects").join(project_slug(&self.project.to_string_lossy()))
    }

    /// `~/.claude/projects/-home-user-project/SESSION.jsonl`
    pub fn transcript(&self) -> PathBuf {
        self.directory().join(format!("{}.jsonl", self.session))
    }

    /// Finds the transcript of the session in this project or in any other. The client searches all projects for a
    /// session to fork.
    pub fn find_transcript(&self) -> Result<Option<PathBuf>, FileError> {
        let here = self.transcript();
        if fs::exists(&here) {
            return Ok(Some(here));
        }
        let projects = self.home.join(".claude/projects");
        if !fs::exists(&projects) {
            return Ok(None);
        }
        let names = fs::list(&projects, MAX_PROJECTS)?;
        let file = format!("{}.jsonl", self.session);
        let mut places = names.into_iter().map(|name| projects.join(name).join(&file));
        Ok(places.find(|place| is_safe_id(self.session) && fs::exists(place)))
    }
}

/// Whether an id is safe to use in a path.
pub(super) fn is_safe_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !id.is_empty() && id.len() <= 64 && id.bytes().all(is_plain)
}

/// Replaces every UTF-16 code unit that is not an ASCII letter or digit with a dash, as the client does.
fn project_slug(path: &str) -> String {
    let mut name = String::new();
    for char in path.chars() {
        if char.is_ascii_alphanumeric() {
            name.push(char);
        } else {
            name.extend(std::iter::repeat_n('-', char.len_utf16()));
        }
    }
    if name.len() > MAX_SLUG_LENGTH {
        name.truncate(MAX_SLUG_LENGTH);
        name.push_str(&format!("-{:x}", fnv1a(path)));
    }
    name
}

/// FNV-1a. The client uses another hash, but the value only has to distinguish long paths.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_of_directories() {
        for (path, expected) in [
            ("/home/user/project", "-home-user-project"),
            ("/tmp/.a_b c/ä", "-tmp--a-b-c--"),
            ("/😀", "---"),
        ] {
            assert_eq!(project_slug(path), expected, "{path}");
        }
        let (one, other) =
            (project_slug(&format!("/{}a", "x/".repeat(200))), project_slug(&"/x".repeat(200)));
        assert_ne!(one, other);
        assert!(one.len() < 255 && other.len() < 255);
    }

    #[test]
    fn rejects_ids_that_are_unsafe_in_paths() {
        for (id, expected) in [
            ("5999882c-e786-462c-84d4-07d1c65b5e76", true),
            ("a992fcbb72ecc398e", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("a\n", false),
        ] {
            assert_eq!(is_safe_id(id), expected, "{id:?}");
        }
        assert!(!is_safe_id(&"a".repeat(65)));
    }
}
