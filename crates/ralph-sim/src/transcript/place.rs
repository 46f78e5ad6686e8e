//! Where the client keeps a session.

use ralph_sys::fs;
use std::path::{Path, PathBuf};

/// The client cuts longer names and puts a hash behind them.
const LONGEST: usize = 200;
const MOST_PROJECTS: usize = 10_000;

#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The person's home; the client's own directory is `.claude` in it.
    pub home: &'a Path,
    /// Where the client was started.
    pub project: &'a Path,
    pub session: &'a str,
}

impl Place<'_> {
    /// `~/.claude/projects/-home-user-project`
    pub fn directory(&self) -> PathBuf {
        self.home.join(".claude/projects").join(slug(&self.project.to_string_lossy()))
    }

    /// `~/.claude/projects/-home-user-project/SESSION.jsonl`
    pub fn transcript(&self) -> PathBuf {
        self.directory().join(format!("{}.jsonl", self.session))
    }
}

impl Place<'_> {
    /// Where the session is: here, or wherever else the client was started. It looks everywhere for what it is to copy.
    pub fn find(&self) -> Option<PathBuf> {
        let here = self.transcript();
        if fs::exists(&here) {
            return Some(here);
        }
        let projects = self.home.join(".claude/projects");
        let names = fs::list(&projects, MOST_PROJECTS).unwrap_or_default();
        let file = format!("{}.jsonl", self.session);
        let mut places = names.into_iter().map(|name| projects.join(name).join(&file));
        places.find(|place| is_plain(self.session) && fs::exists(place))
    }
}

/// An id that may become part of a path.
pub(super) fn is_plain(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !id.is_empty() && id.len() <= 64 && id.bytes().all(is_plain)
}

/// Whatever is neither a letter nor a digit is a dash; beyond the first plane it is two, for the client counts in
/// UTF-16.
fn slug(path: &str) -> String {
    let mut name = String::new();
    for char in path.chars() {
        if char.is_ascii_alphanumeric() {
            name.push(char);
        } else {
            name.extend(std::iter::repeat_n('-', char.len_utf16()));
        }
    }
    if name.len() > LONGEST {
        name.truncate(LONGEST);
        name.push_str(&format!("-{:x}", hash(path)));
    }
    name
}

/// FNV-1a: it only has to tell two long paths apart.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_becomes_a_name() {
        for (path, expected) in [
            ("/home/user/project", "-home-user-project"),
            ("/tmp/.a_b c/ä", "-tmp--a-b-c--"),
            ("/😀", "---"),
        ] {
            assert_eq!(slug(path), expected, "{path}");
        }
        let (one, other) = (slug(&format!("/{}a", "x/".repeat(200))), slug(&"/x".repeat(200)));
        assert_ne!(one, other);
        assert!(one.len() < 255 && other.len() < 255);
    }

    #[test]
    fn ids_are_no_paths() {
        for (id, expected) in [
            ("5999882c-e786-462c-84d4-07d1c65b5e76", true),
            ("a992fcbb72ecc398e", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("a\n", false),
        ] {
            assert_eq!(is_plain(id), expected, "{id:?}");
        }
        assert!(!is_plain(&"a".repeat(65)));
    }
}
