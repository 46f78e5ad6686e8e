//! The symlink in ralph's home through which the plugin's hooks find the program, wherever it is installed.

use std::path::{Path, PathBuf};

use ralph_home::paths::RalphHome;
use ralph_sys::fs::{self, FileError, FileKind};

/// Longer chains of symlinks are refused by every system.
const MAX_LINKS: usize = 40;

/// Points the symlink in ralph's home at `program`, an absolute path that stays valid after an upgrade.
pub fn refresh_link(home: &RalphHome, program: &Path) -> Result<(), FileError> {
    let link = home.program();
    if !program.is_absolute() {
        return Err(FileError::refused(&link, "the program's path is not absolute"));
    }
    // The program itself is installed in ralph's home.
    if program == link {
        return Ok(());
    }
    let target = if resolves_through(program, &link) {
        let gone = || FileError::refused(&link, "the program is a symlink to this link");
        fs::resolve(program).ok_or_else(gone)?
    } else {
        program.to_path_buf()
    };
    // The resolved path may be the link's own path, if the program was copied there.
    if target == link {
        return Ok(());
    }
    match fs::stat_no_follow(&link).map(|found| found.kind) {
        Some(FileKind::Symlink) if fs::read_link(&link)? == target => return Ok(()),
        Some(FileKind::Symlink) | None => {}
        Some(FileKind::File | FileKind::Directory | FileKind::Other) => {
            return Err(FileError::refused(&link, "it exists and is not a symlink"));
        }
    }
    fs::create_private_dir(link.parent().unwrap_or(home.root()))?;
    fs::replace_link(&link, &target)
}

/// Whether a path resolves through the link, which would then point at itself.
fn resolves_through(path: &Path, link: &Path) -> bool {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        if is_same_entry(&path, link) {
            return true;
        }
        let Ok(next) = fs::read_link(&path) else { return false };
        path = path.parent().map_or_else(PathBuf::new, Path::to_path_buf).join(next);
    }
    true
}

/// Compares resolved parent directories and file names; the last component is not followed.
fn is_same_entry(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| Some((fs::resolve(path.parent()?)?, path.file_name()?.to_owned()));
    one == other || place(one).is_some_and(|one| place(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use ralph_sys::fs::SharedFileMode;

    struct LinkFixture {
        root: tempfile::TempDir,
        home: RalphHome,
    }

    impl LinkFixture {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let home = RalphHome::new(root.path().join("h ome/.ralph"));
            for name in ["one/ralph", "two/ralph"] {
                fs::create_private_dir(root.path().join(name).parent().unwrap()).unwrap();
                fs::replace_with_mode(
                    &root.path().join(name),
                    name.as_bytes(),
                    SharedFileMode::Executable,
                )
                .unwrap();
            }
            Self { root, home }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.root.path().join(name)
        }

        /// The target of the link after [`refresh_link`], or the error.
        fn refreshed(&self, program: &Path) -> String {
            let shown = match refresh_link(&self.home, program) {
                Ok(()) => match fs::read_link(&self.home.program()) {
                    Ok(target) => format!("-> {}", target.display()),
                    Err(_) => "no link".to_owned(),
                },
                Err(error) => {
                    let source = std::error::Error::source(&error);
                    format!("{error}: {}", source.map(ToString::to_string).unwrap_or_default())
                }
            };
            shown.replace(&self.root.path().display().to_string(), "ROOT")
        }

        fn content(&self) -> String {
            String::from_utf8(fs::read(&self.home.program(), 100).unwrap()).unwrap()
        }
    }

    #[test]
    fn the_link_follows_the_program() {
        let scene = LinkFixture::new();
        assert_eq!(scene.refreshed(&scene.path("one/ralph")), "-> ROOT/one/ralph");
        assert_eq!(scene.content(), "one/ralph");
        let before = fs::stat_no_follow(&scene.home.program());
        assert_eq!(scene.refreshed(&scene.path("one/ralph")), "-> ROOT/one/ralph");
        assert_eq!(fs::stat_no_follow(&scene.home.program()), before, "nothing was written");
        assert_eq!(scene.refreshed(&scene.path("two/ralph")), "-> ROOT/two/ralph");
        assert_eq!(scene.content(), "two/ralph");
        let left = std::fs::read_dir(scene.home.root().join("bin")).unwrap().count();
        assert_eq!(left, 1);
    }

    /// The name on `PATH` may be a symlink to the link, or the link by another path.
    #[test]
    fn the_link_never_points_at_itself() {
        let scene = LinkFixture::new();
        scene.refreshed(&scene.path("one/ralph"));
        symlink(scene.home.program(), scene.path("ralph")).unwrap();
        symlink(scene.home.root(), scene.path("other way")).unwrap();
        for program in
            [scene.path("ralph"), scene.path("other way/bin/ralph"), scene.home.program()]
        {
            assert_eq!(scene.refreshed(&program), "-> ROOT/one/ralph", "{}", program.display());
        }
        assert_eq!(scene.content(), "one/ralph");
    }

    #[test]
    fn a_program_in_place_of_the_link_stays() {
        let scene = LinkFixture::new();
        fs::create_private_dir(&scene.home.root().join("bin")).unwrap();
        fs::replace_with_mode(&scene.home.program(), b"itself", SharedFileMode::Executable)
            .unwrap();
        symlink(scene.home.program(), scene.path("ralph")).unwrap();
        assert_eq!(scene.refreshed(&scene.home.program()), "no link");
        assert_eq!(scene.refreshed(&scene.path("ralph")), "no link");
        insta::assert_snapshot!(scene.refreshed(&scene.path("one/ralph")), @"cannot write `ROOT/h ome/.ralph/bin/ralph`: it exists and is not a symlink");
        assert_eq!(scene.content(), "itself");
    }

    #[test]
    fn invalid_targets_are_refused() {
        let scene = LinkFixture::new();
        insta::assert_snapshot!(scene.refreshed(Path::new("ralph")), @"cannot write `ROOT/h ome/.ralph/bin/ralph`: the program's path is not absolute");
        fs::create_private_dir(&scene.home.root().join("bin")).unwrap();
        symlink(scene.path("ralph"), scene.home.program()).unwrap();
        symlink(scene.home.program(), scene.path("ralph")).unwrap();
        insta::assert_snapshot!(scene.refreshed(&scene.path("ralph")), @"cannot write `ROOT/h ome/.ralph/bin/ralph`: the program is a symlink to this link");
    }
}
