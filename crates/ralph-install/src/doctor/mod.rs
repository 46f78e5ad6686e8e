//! Whether everything is in place for a run to hold an agent: looked at, and tried as the client would.
//!
//! [`examine`] changes nothing of a person's: hooks run in a home of their own that is made for them. [`repair`] does
//! the few things that are safe to do.

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

/// Where everything is.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    pub env: &'a Env,
    pub home: &'a Home,
    pub project: &'a Path,
    /// This program, which supervises what is tried, and its version.
    pub program: &'a Path,
    pub version: &'a str,
    /// A directory of this examination alone, which whoever made it removes.
    pub scratch: &'a Path,
    pub cancel: &'a Cancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Good,
    /// It does not work, or will not for long.
    Bad,
    /// It could not be told, or looks odd.
    Unclear,
    /// Something to know.
    Note,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub standing: Standing,
    pub what: String,
    /// What a person does about it.
    pub fix: Option<String>,
    /// What [`repair`] would do about it.
    pub repair: Option<Repair>,
}

/// What is safe to do without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nobody else may look into ralph's home.
    PrivateHome,
    /// Ralph's own entries in these settings, as `ralph init` would write them.
    Settings(Scope),
    /// What gates that were killed left behind.
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

/// Everything, in the order in which a person would look: the settings, the hooks, ralph's home, the project.
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
