//! Checks whether a run could hold an agent here, by inspecting the setup and by running the hooks as the client would.
//!
//! [`examine_setup`] changes none of the person's files: hooks run with a temporary home. [`repair`] makes the few
//! changes that are safe.

mod client;
mod command;
mod consent;
mod fire;
mod hooks;
mod limits;
mod payload;
mod plugins;
mod project;
pub mod protection;
mod registered;
pub mod repair;
mod runs;
mod settings;
mod state;

use std::path::Path;

use crate::install::layers;
use crate::install::plan::Scope;
use ralph_home::paths::Home;
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::Cancel;
use serde::Serialize;

/// The setup to examine.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    pub env: &'a Env,
    pub home: &'a Home,
    pub project: &'a Path,
    /// This program, which supervises the hooks under test, and its version.
    pub program: &'a Path,
    pub version: &'a str,
    /// A temporary directory for this examination only; the caller removes it.
    pub scratch: &'a Path,
    pub cancel: &'a Cancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Good,
    /// It does not work, or will stop working soon.
    Bad,
    /// The result is unknown, or looks odd.
    Unclear,
    /// Information only.
    Note,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub standing: Standing,
    pub what: String,
    /// How a person can fix it.
    pub fix: Option<String>,
    /// The safe repair that [`repair`] would make.
    pub repair: Option<Repair>,
}

/// A repair that is safe to make without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Remove other users' access to ralph's home.
    PrivateHome,
    /// Rewrite ralph's own entries in these settings, as `ralph init` would.
    Settings(Scope),
    /// Remove temporary directories of killed gates.
    Scratch,
}

impl Check {
    fn new(name: &'static str, standing: Standing, what: impl Into<String>) -> Self {
        Self { name, standing, what: what.into(), fix: None, repair: None }
    }

    fn good(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, Standing::Good, what)
    }

    fn bad(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, Standing::Bad, what)
    }

    fn unclear(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, Standing::Unclear, what)
    }

    fn note(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, Standing::Note, what)
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    fn repair(self, repair: Option<Repair>) -> Self {
        Self { repair, ..self }
    }
}

/// Runs every check, in the order of likely causes: settings, hooks, ralph's home, the project.
pub fn examine(scene: &Scene<'_>) -> Vec<Check> {
    let layers = layers::read(scene.env, scene.project);
    let registered = registered::read(scene.env, &layers);
    let policy = project::load(scene);
    let mut checks = settings::layers(&layers);
    checks.extend(settings::switches(&layers));
    checks.extend(settings::variables(scene, &layers));
    checks.extend(hooks::registration(&layers, &registered));
    checks.extend(hooks::duplicates(&registered));
    checks.extend(hooks::tried(scene, &layers, &registered));
    checks.extend(limits::timeouts(&registered, policy.gates_ms()));
    checks.extend(limits::cap(scene, &layers, (&registered, &policy)));
    checks.extend(hooks::of_others(&registered));
    checks.extend(state::home(scene));
    checks.extend(state::inside(scene));
    checks.extend(runs::all(scene));
    checks.extend(project::checks(scene, &policy));
    checks.push(client::version(scene));
    checks
}
