//! The size of a directory with everything in it.

use std::ffi::CStr;
use std::path::Path;

use super::dir_handle::DirHandle;
use super::{FileKind, stat_no_follow};

/// The bytes of all regular files at `path` and below. Links are not followed, and what cannot be read counts as empty.
pub fn measure_tree(path: &Path) -> u64 {
    match stat_no_follow(path) {
        Some(stat) if stat.kind == FileKind::File => stat.len,
        Some(stat) if stat.kind == FileKind::Directory => {
            DirHandle::open(path).map_or(0, |handle| measure_directory(&handle))
        }
        Some(_) | None => 0,
    }
}

/// Holds one handle per level only, so that a deep tree does not use them up.
fn measure_directory(directory: &DirHandle) -> u64 {
    let mut total: u64 = 0;
    let mut inner = Vec::new();
    let listed = directory.for_each_name(|name: &CStr, _| {
        let Ok(stamp) = directory.stat(name) else { return };
        match stamp.kind {
            FileKind::File => total = total.saturating_add(stamp.len),
            FileKind::Directory => inner.push(name.to_owned()),
            FileKind::Symlink | FileKind::Other => {}
        }
    });
    if listed.is_err() {
        return total;
    }
    inner
        .iter()
        .filter_map(|name| directory.open_directory(name).ok())
        .map(|handle| measure_directory(&handle))
        .fold(total, u64::saturating_add)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests prepare files directly")]
mod tests {
    use super::*;

    #[test]
    fn files_are_added_up_and_links_are_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let tree = parent.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::fs::write(tree.join("one"), "12345").unwrap();
        std::fs::write(tree.join("a/b/two"), "123").unwrap();
        std::fs::write(parent.path().join("outside"), "1234567890").unwrap();
        std::os::unix::fs::symlink(parent.path(), tree.join("a/link")).unwrap();
        assert_eq!(measure_tree(&tree), 8);
        assert_eq!(measure_tree(&tree.join("one")), 5);
        assert_eq!(measure_tree(&tree.join("a/link")), 0);
        assert_eq!(measure_tree(&tree.join("missing")), 0);
    }
}
