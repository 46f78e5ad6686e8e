//! Checks out a checkpoint into a separate directory, in which it is verified while the agent's work tree stays
//! untouched.
//!
//! Git's bookkeeping for the checkout is in the shadow, where programs that run in the checkout cannot change it. The
//! checkout's own `.git` is recreated each time, for programs that call git: it has one commit, no history and no
//! access to the user's refs.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::diff::Changed;
use super::make::Draft;
use super::materialise::{Piece, put_for};
use super::message::Remarks;
use super::objects::{self, At, Call, index_line, mode_digits, odd};
use super::{Checkpoint, CheckpointError, Keeper, NO_CONVERSION, Repository, Why};
use crate::tree::ObjectId;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, Inside, Kind, Lock};

/// Index of the files that ralph wrote to the checkout.
const INDEX: &str = "checkout.index";
const LARGEST_INDEX: usize = 1024 * 1024 * 1024;

/// What to check out.
pub struct Verification<'a> {
    pub candidate: &'a Checkpoint,
    /// The source of protected files. A protected file that it does not have is left out.
    pub base: &'a Checkpoint,
    pub is_protected: &'a dyn Fn(&OsStr) -> bool,
    /// Directories and files of the project to link into the checkout unless it has them, such as `node_modules`.
    pub links: &'a [PathBuf],
    pub leftovers: Leftovers,
}

/// How to treat ignored files that an earlier verification left behind, such as a build cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// Keeping them is fast, but they are only as trustworthy as the commands that created them.
    Keep,
    Remove,
}

/// A checkout. It stays locked against other verifications until it is dropped.
#[derive(Debug)]
pub struct Checkout {
    pub dir: PathBuf,
    pub tree: ObjectId,
    /// Protected files that differ from the candidate; `before` is the candidate's version.
    pub restored: Vec<Changed>,
    _lock: Lock,
}

impl fmt::Debug for Verification<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { candidate, base, links, leftovers, is_protected: _ } = self;
        f.debug_struct("CheckoutRequest")
            .field("candidate", candidate)
            .field("base", base)
            .field("links", links)
            .field("leftovers", leftovers)
            .finish_non_exhaustive()
    }
}

impl Repository {
    pub fn checkout(
        &self,
        what: &Verification<'_>,
        deadline: &Deadline,
    ) -> Result<Checkout, CheckpointError> {
        let alone = fs::lock(&self.shadow.join("checkout.lock"), deadline)?;
        let _lock = self.lock(deadline)?;
        let mut restored = self.diff(what.candidate, what.base, deadline)?;
        restored.retain(|changed| (what.is_protected)(&changed.path));
        let tree = self.mixed(what.candidate, &restored, deadline)?;
        let index = self.shadow.join(INDEX);
        objects::unlock(&index)?;
        let is_reusable = what.leftovers == Leftovers::Keep
            && fs::stat_link(&self.checkout).is_some_and(|stat| stat.kind == Kind::Directory);
        if !is_reusable {
            fs::remove_made_dir(&self.checkout)?;
            fs::remove_file(&index)?;
        }
        fs::create_dir(&self.checkout)?;
        fs::remove_made_dir(&self.checkout.join(".git"))?;
        let hex = self.hex(&tree);
        let arguments = ["read-tree", "--reset", "-u", &hex];
        self.git(&self.in_checkout(&index, &arguments), deadline)?;
        if is_reusable {
            self.remove_strays(&index, deadline)?;
        }
        let filtered = self.smudge(what, &restored, deadline)?;
        let linked = self.link(what.links)?;
        self.make_git(&tree, (&filtered, &linked), deadline)?;
        Ok(Checkout { dir: self.checkout.clone(), tree, restored, _lock: alone })
    }

    fn in_checkout<'a>(&'a self, index: &'a Path, arguments: &[&'a str]) -> Call<'a> {
        let call = Call::new(At::ShadowOnly, arguments.iter().copied());
        call.on_index(index).in_work_tree(&self.checkout)
    }

    /// The candidate's tree after applying `changes`.
    fn mixed(
        &self,
        candidate: &Checkpoint,
        changes: &[Changed],
        deadline: &Deadline,
    ) -> Result<ObjectId, CheckpointError> {
        if changes.is_empty() {
            return Ok(candidate.tree);
        }
        let index = self.fresh_index("mixed.index")?;
        let hex = self.hex(&candidate.tree);
        let read = Call::new(At::ShadowOnly, ["read-tree", &hex]).on_index(&index);
        self.git(&read, deadline)?;
        let (mut input, zero) = (Vec::new(), self.format.zero());
        for changed in changes.iter().filter(|changed| changed.after.is_none()) {
            input.extend(index_line("0", &zero, &changed.path));
        }
        for changed in changes {
            if let Some(side) = changed.after {
                let id = self.hex(&side.id);
                input.extend(index_line(mode_digits(side.mode), &id, &changed.path));
            }
        }
        let feed = Call::new(At::ShadowOnly, ["update-index", "-z", "--index-info"]);
        self.git(&feed.on_index(&index).reading(&input), deadline)?;
        let write = Call::new(At::ShadowOnly, ["write-tree", "--missing-ok"]).on_index(&index);
        let output = self.git(&write, deadline)?;
        fs::remove_file(&index)?;
        self.format.parse(output.trim_ascii_end()).ok_or_else(|| odd("write-tree"))
    }

    /// Removes files that are neither in the tree nor ignored.
    fn remove_strays(&self, index: &Path, deadline: &Deadline) -> Result<(), CheckpointError> {
        let arguments = ["ls-files", "-z", "--others", "--exclude-standard"];
        let listed = self.git(&self.in_checkout(index, &arguments), deadline)?;
        let inside = Inside::open(&self.checkout)?;
        for path in listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            // A nested repository is listed as one entry with a trailing slash.
            match path.strip_suffix(b"/") {
                Some(path) if fs::is_plain(OsStr::from_bytes(path)) => {
                    fs::remove_made_dir(&self.checkout.join(OsStr::from_bytes(path)))?;
                }
                Some(_) => {}
                None => inside.remove(Path::new(OsStr::from_bytes(path)))?,
            }
        }
        Ok(())
    }

    /// Writes the files that are stored filtered, through their filter.
    fn smudge(
        &self,
        what: &Verification<'_>,
        restored: &[Changed],
        deadline: &Deadline,
    ) -> Result<Vec<OsString>, CheckpointError> {
        let replaced: BTreeSet<_> = restored.iter().map(|changed| &changed.path).collect();
        let inside = Inside::open(&self.checkout)?;
        let mut written = Vec::new();
        for of in [what.candidate, what.base] {
            let Remarks { filtered, .. } = self.remarks(of, deadline)?;
            if filtered.is_empty() {
                continue;
            }
            let is_base = of == what.base && of != what.candidate;
            let pieces: Vec<Piece> = self
                .pieces(of, deadline)?
                .into_iter()
                .filter(|piece| filtered.contains(&piece.path))
                .filter(|piece| replaced.contains(&piece.path) == is_base)
                .collect();
            let stage = self.materialise(&pieces, (of, &filtered), deadline)?;
            for piece in pieces {
                if let Some(put) = put_for(piece.side.mode) {
                    let path = Path::new(&piece.path);
                    inside.put(path, &stage.original(&piece.path), put)?;
                    written.push(piece.path);
                }
            }
        }
        Ok(written)
    }

    fn link(&self, links: &[PathBuf]) -> Result<Vec<PathBuf>, CheckpointError> {
        let inside = Inside::open(&self.checkout)?;
        let mut made = Vec::new();
        for path in links {
            if !fs::is_plain(path.as_os_str()) {
                return Err(CheckpointError::BadLink(path.clone()));
            }
            let target = self.root.join(path);
            let found = inside.stat(path)?.map(|stat| stat.kind);
            if !fs::exists(&target) || !matches!(found, None | Some(Kind::Symlink)) {
                continue;
            }
            inside.link(path, &target)?;
            made.push(path.clone());
        }
        Ok(made)
    }

    fn make_git(
        &self,
        tree: &ObjectId,
        (filtered, linked): (&[OsString], &[PathBuf]),
        deadline: &Deadline,
    ) -> Result<(), CheckpointError> {
        let why = Why::Other("the tree that is verified".to_owned());
        let (number, tree, at_ms) = (0, *tree, 0);
        let checkpoint = Checkpoint { number, commit: tree, tree, at_ms, why };
        let draft = Draft { at: At::ShadowOnly, of: &checkpoint, parent: None };
        let commit = self.commit(&draft, &Remarks::default(), deadline)?;
        let git = self.checkout.join(".git");
        let mut alternates = objects::alternate(&self.shadow.join("objects"));
        if let Keeper::Project { objects } = &self.keeper {
            alternates.extend(objects::alternate(objects));
        }
        let mut exclude = Vec::new();
        for link in linked {
            exclude.push(b'/');
            exclude.extend(escaped(link.as_os_str().as_bytes()));
            exclude.push(b'\n');
        }
        let config = format!(
            "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tautocrlf = false\n[extensions]\n\tobjectformat = {}\n",
            self.format.name()
        );
        let head = format!("{}\n", self.hex(&commit));
        let index = fs::read(&self.shadow.join(INDEX), LARGEST_INDEX)?;
        for (name, bytes) in [
            ("config", config.as_bytes()),
            ("info/attributes", NO_CONVERSION),
            ("info/exclude", &exclude),
            ("objects/info/alternates", &alternates),
            ("refs/heads/main", head.as_bytes()),
            ("index", &index),
            ("HEAD", b"ref: refs/heads/main\n"),
        ] {
            let path = git.join(name);
            fs::create_dir(path.parent().unwrap_or(&git))?;
            fs::replace(&path, bytes, Durability::Cached)?;
        }
        if filtered.is_empty() {
            return Ok(());
        }
        // The index has the filtered content of these files; without this they would look modified.
        let mut input = Vec::new();
        for path in filtered {
            input.extend(path.clone().into_vec());
            input.push(0);
        }
        let own = git.join("index");
        let arguments = ["update-index", "--assume-unchanged", "-z", "--stdin"];
        self.git(&self.in_checkout(&own, &arguments).reading(&input), deadline)?;
        Ok(())
    }
}

/// Escapes a path for use as an ignore pattern.
fn escaped(path: &[u8]) -> Vec<u8> {
    let special = |byte: &u8| b"*?[]\\ !#".contains(byte);
    path.iter().flat_map(|byte| special(byte).then_some(b'\\').into_iter().chain([*byte])).collect()
}
