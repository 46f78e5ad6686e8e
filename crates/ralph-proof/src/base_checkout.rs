//! A checkout of the base for a command that measures the work without being part of it: that of a judge, or one that
//! asks CI. In the work tree an agent could write what the command loads, such as an ignored module beside a script.

use std::path::{Path, PathBuf};

use ralph_core::policy::GateEnvironment;
use ralph_core::proof::ProofStep;
use ralph_core::text;
use ralph_gates::command_place::{CommandCheckout, CommandPlace};
use ralph_git::checkpoint::{CheckoutRequest, VerificationCheckout};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileKind};

use crate::checkout_environment::command_environment;
use crate::checkout_view::{CheckoutView, all_environments};
use crate::environment_marks::EnvironmentMarks;
use crate::proof_step::CHECKOUT_TIMEOUT;
use crate::prove::{ProofError, ProofRequest};

const MAX_WORD_CHARS: usize = 100;

/// It is part of the directory of the request, and removed with it.
#[derive(Debug)]
pub struct BaseCheckout {
    checkout: VerificationCheckout,
    view: CheckoutView,
    environment: GateEnvironment,
    /// The installed packages when it was made.
    packages: EnvironmentMarks,
    /// The work tree, and the project in it.
    root: PathBuf,
    project: PathBuf,
}

impl CommandCheckout for BaseCheckout {
    fn place_command(&self, words: &[String], cwd: &str) -> CommandPlace<'_> {
        let refusal = || words.iter().find_map(|word| self.refuse_word(word, cwd));
        CommandPlace {
            directory: self.view.project.join(cwd),
            mounts: self.view.mounts.as_ref(),
            environment: &self.environment,
            refusal: self.view.refusal.clone().or_else(refusal),
            checkout: Some(self),
        }
    }

    fn describe_package_change(&self) -> Option<String> {
        self.packages.describe_package_change()
    }
}

impl BaseCheckout {
    /// Writes the base of the request. Of the ignored directories it has only installed packages that are compared with the
    /// start of a run: an agent could add to the others whatever the command loads.
    ///
    /// Of checkouts with the same label, one at a time exists in a run.
    pub fn prepare(request: &ProofRequest<'_>, label: &'static str) -> Result<Self, ProofError> {
        let root = request.repository.root();
        let directories = request.directory.step(ProofStep::Before, root)?;
        let repository = request.repository.with_checkout_dir(directories.tree.clone(), label);
        let deadline = Deadline::after(CHECKOUT_TIMEOUT);
        let checkout = repository.checkout(&CheckoutRequest::whole(request.base), &deadline)?;
        let compared = all_environments(request);
        // Before any of them is copied.
        let packages = EnvironmentMarks::read(compared.clone(), request.project);
        let is_compared = |path: &Path| {
            compared.iter().any(|known| {
                known.path == path || fs::resolve(&known.path).as_deref() == Some(path)
            })
        };
        let links = request.links.iter().filter(|name| is_compared(&request.project.join(name)));
        let links: Vec<String> = links.cloned().collect();
        let offered = ProofRequest { links: &links, ..*request };
        let mut view = CheckoutView::prepare(&offered, &directories, &checkout.dir)?;
        if let Some(mounts) = &mut view.mounts {
            mounts.overlays.retain(|overlay| is_compared(&overlay.original));
        }
        let unmounted = view.mounts.is_none().then_some(&*view.project);
        let environment = command_environment(request.env, request.environment, unmounted);
        let (root, project) = (root.to_owned(), request.project.to_owned());
        Ok(Self { checkout, view, environment, packages, root, project })
    }

    /// Why a command with this word cannot run, if the word names a file: it must be the same one in the checkout.
    fn refuse_word(&self, word: &str, cwd: &str) -> Option<String> {
        let original = self.project.join(cwd).join(word);
        if fs::stat(&original).is_none_or(|stat| stat.kind != FileKind::File) {
            return None;
        }
        let named = fs::normalize_lexically(&original);
        let inside = named.strip_prefix(&self.root).ok();
        let (is_mounted, is_absolute) = (self.view.mounts.is_some(), Path::new(word).is_absolute());
        let word = text::clean_line(word, MAX_WORD_CHARS);
        let Some(inside) = inside else {
            let leads_elsewhere = !is_mounted && !is_absolute;
            return leads_elsewhere.then(|| {
                format!("`{word}` leads out of the checkout of the base: name its absolute path")
            });
        };
        // Without a mount, an absolute path into the project is that of the work tree.
        if !is_mounted && is_absolute {
            return Some(format!(
                "`{word}` is not in the checkout of the base: name it relative to the project"
            ));
        }
        let copy = self.checkout.dir.join(inside);
        let is_installed = || {
            let mut overlays = self.view.mounts.iter().flat_map(|mounts| &mounts.overlays);
            overlays.any(|overlay| copy.starts_with(&overlay.at))
        };
        // Nor does a link lead back to the work tree.
        let is_there = |real: PathBuf| is_mounted || !real.starts_with(&self.root);
        let is_missing = !fs::resolve(&copy).is_some_and(is_there) && !is_installed();
        is_missing.then(|| describe_missing_script(&word))
    }
}

/// What to do about a program or script in the project that a checkout of the base does not have.
pub fn describe_missing_script(word: &str) -> String {
    format!(
        "`{word}` is not in the checkout of the base: commit it before the run starts, or keep it outside of the project"
    )
}
