//! Judges the current work tree by the policy that is sealed into a run.
//!
//! Checks run in order of cost: the change alone, then cached gate results, then the gates themselves. Gates run in a
//! separate process, so that they can continue after the host's deadline.

mod baseline;
mod changes;
mod checkout;
mod checks;
mod gates;
mod look;
mod part;
mod pipeline;
pub mod progress;
mod red;
mod seal;
pub mod work;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ralph_core::facts::{Driver, Tree};
use ralph_core::gate::{Gate, Moment};
use ralph_core::policy::OnTampering;
use ralph_core::policy::{Change, Checkout};
use ralph_core::record::{Run, Seal, Waiver};
use ralph_core::requirement::{Evidence, Failure, Finding, Requirement, Stage, Standing, Weight};
use ralph_core::run::PartState;
use ralph_core::waiver;

use gates::Inquiry;
use look::Candidate;
use part::Chunks;
use pipeline::{Site, Weighed};
use ralph_gates::gates::{Content, Place, View};
use ralph_git::tree::Listing;
use ralph_home::faults::describe;
use ralph_home::world::World;
use ralph_lists::lists;
use work::Where;

pub use part::{Demand, is_elsewhere, judge_part};
pub use seal::{SealError, Sealing, bare, policy, seal};

/// How often the tree is judged again because it changed meanwhile.
const ROUNDS: usize = 3;

/// Name of the requirement from `[lines]`.
const LINES: &str = "added lines";

/// A run with a sealed policy, and everything needed to judge it.
#[derive(Clone, Copy, Debug)]
pub struct Contract<'a> {
    pub world: &'a World,
    pub run: &'a Run,
    pub seal: &'a Seal,
    /// Blocks charged so far.
    pub iteration: u32,
    /// Subagents, teammates and tasks that were judged so far.
    pub parts: &'a [PartState],
    pub checks: &'a Checks,
    /// Requirements that a person has waived.
    pub waivers: &'a [Waiver],
}

/// Checks of list items. Each runs like a gate and counts for its item alone.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// The checks to run now.
    pub due: Vec<Gate>,
    /// One gate for each program that any check runs.
    pub programs: Vec<Gate>,
}

/// The result of judging one state of the tree.
#[derive(Debug)]
pub struct Judged {
    pub requirements: Vec<Requirement>,
    /// Whether one of them is open and not waived.
    pub holds: bool,
    /// Results of list checks, under the names of the checks.
    pub checks: Vec<Requirement>,
    /// Paths that differ from the base, relative to the project.
    pub touched: Vec<String>,
    /// The forbidden change, in one line, if the policy asks for a review by a person.
    pub tampering: Option<String>,
    /// Identity of the judged tree; `None` if the tree could not be listed.
    mark: Option<u64>,
    candidate: Option<Candidate>,
    /// Names of tests that the base does not have.
    new_tests: Vec<String>,
}

/// Judges one state of the tree. Gates take time, so before a tree is called good it is listed again and must be
/// unchanged.
pub fn judge(contract: &Contract<'_>) -> Judged {
    let judged = settled(contract);
    let holds = judged.requirements.iter().any(|one| contract.holds(one));
    Judged { holds, ..judged }
}

fn settled(contract: &Contract<'_>) -> Judged {
    let mut judged = judge_once(contract);
    for _ in 0..ROUNDS {
        let mut all = judged.requirements.iter().chain(&judged.checks);
        if all.any(|one| contract.holds(one)) || is_current(contract, &judged) {
            return judged;
        }
        judged = judge_once(contract);
    }
    judged.requirements.push(untold("work tree", "it keeps changing while it is judged"));
    judged
}

fn is_current(contract: &Contract<'_>, judged: &Judged) -> bool {
    let now = marked(contract);
    now.is_some() && now == judged.mark
}

/// The identity of the current tree; `None` if it cannot be listed.
fn marked(contract: &Contract<'_>) -> Option<u64> {
    let exclude = contract.exclude();
    match View::of(&contract.place(Content::Tree { exclude: &exclude })) {
        Ok(View::Tree(listing)) => Some(listing.mark()),
        Ok(View::Checkout(_)) | Err(_) => None,
    }
}

fn judge_once(contract: &Contract<'_>) -> Judged {
    let exclude = contract.exclude();
    let place = contract.place(Content::Tree { exclude: &exclude });
    let listing = match View::of(&place) {
        Ok(View::Tree(listing)) => listing.into_owned(),
        Ok(View::Checkout(_)) => return Judged::nothing(Vec::new()),
        Err(error) => return Judged::nothing(vec![untold("work tree", &describe(&error))]),
    };
    let look = look::at(contract, &listing);
    let mut requirements: Vec<_> = something_changed(contract, &listing).into_iter().collect();
    let mut guards = seal::kept(contract);
    guards.push(checks::nothing_hidden(contract.project(), &look.elusive));
    guards.extend(look.requirements);
    let tampering = match contract.seal.policy.on_tampering {
        OnTampering::Block => None,
        OnTampering::EndInReview => guards.iter().find_map(breach),
    };
    requirements.append(&mut guards);
    let chunks = Chunks::of(contract);
    let asks = |gate: &Gate| gate.on.contains(&Moment::Stop) || chunks.ask(gate);
    let wanted = gates::wanted(contract, &look.touched, &asks);
    let inquiry = Inquiry {
        contract,
        wanted: &wanted,
        place: &place,
        site: Where::Tree,
        listing: Some(&listing),
    };
    let results = gates::told(&inquiry);
    let site = Site { inquiry: &inquiry, listing: &listing, touched: &look.touched };
    let Weighed { requirements: mut weighed, is_busy } = pipeline::weigh(&site, &results);
    let checks = gates::checked(&inquiry, is_busy);
    requirements.append(&mut weighed);
    requirements.extend(chunks.weigh(contract, (&listing, &look.touched), results));
    // The first open requirement becomes the agent's next step.
    requirements.sort_by_key(|one| one.stage);
    let (candidate, new_tests, touched) = (look.candidate, look.new_tests, look.touched);
    let mark = Some(listing.mark());
    let holds = false;
    Judged { requirements, holds, checks, touched, tampering, mark, candidate, new_tests }
}

/// The checks that need checkouts. Run only when everything else is met, before a run may end `verified`.
pub fn confirm(contract: &Contract<'_>, judged: &Judged) -> Vec<Requirement> {
    let Some(candidate) = &judged.candidate else { return Vec::new() };
    let policy = &contract.seal.policy;
    let has_counted = |gate: &Gate| {
        let is_asked = judged.requirements.iter().any(|one| one.name == gate.name)
            || policy.pipeline.iter().any(|chunk| chunk.gates.contains(&gate.name));
        is_asked && !contract.is_waived(&gate.name)
    };
    let mut wanted = gates::wanted(contract, &judged.touched, &has_counted);
    let mut found = red::requirement(contract, candidate, (&wanted, &judged.new_tests));
    wanted.extend(contract.checks.due.iter().filter(|gate| !contract.is_waived(&gate.name)));
    let is_clean = match policy.verify.checkout {
        Checkout::Clean => true,
        // A runner verifies in a clean checkout once the agent's process is gone.
        Checkout::Auto => {
            let driver = contract.world.driven.map(|driven| driven.driver);
            matches!(driver, Some(Driver::Alone | Driver::Closing))
        }
        Checkout::Tree => false,
    };
    if is_clean {
        found.extend(clean(contract, candidate, &wanted));
    }
    if !found.is_empty() && !is_current(contract, judged) {
        found.push(untold("work tree", "it changed while it was verified"));
    }
    found
}

/// Runs every gate again in a clean checkout, with protected files as at the base.
fn clean(contract: &Contract<'_>, candidate: &Candidate, wanted: &[&Gate]) -> Vec<Requirement> {
    let Some(content) = checkout::content_of(contract, Where::Clean, candidate) else {
        return Vec::new();
    };
    let project = checkout::project(contract);
    let place = Place { project: &project, ..contract.place(Content::Checkout(content)) };
    let results = gates::told(&Inquiry {
        contract,
        wanted,
        place: &place,
        site: Where::Clean,
        listing: None,
    });
    let rename =
        |one: Requirement| Requirement { name: format!("{} (clean checkout)", one.name), ..one };
    results.into_iter().map(rename).collect()
}

/// Requires that the tree differs from the base: an agent that changed nothing is not done.
fn something_changed(contract: &Contract<'_>, listing: &Listing) -> Option<Requirement> {
    let base = contract.seal.base.as_ref()?;
    if contract.seal.policy.change == Change::Optional {
        return None;
    }
    let now = blake3::Hash::from_bytes(listing.identity()).to_hex();
    let standing = if now.as_str() == base.identity {
        Standing::Unmet(Failure::new(
            "the work tree has not changed since the run began".to_string(),
        ))
    } else {
        Standing::Met(Evidence::Measured)
    };
    // A pipeline names a more specific next step.
    let has_pipeline = !contract.seal.policy.pipeline.is_empty();
    let next =
        if has_pipeline || matches!(standing, Standing::Met(_)) { "" } else { "Do the work" };
    Some(requirement("a change", standing, next))
}

/// Describes a failed guard in one line.
fn breach(requirement: &Requirement) -> Option<String> {
    let Standing::Unmet(failure) = &requirement.standing else { return None };
    let first = failure.findings.first().map(shown).unwrap_or_default();
    requirement.is_required().then(|| format!("{}: {}{first}", requirement.name, failure.summary))
}

fn shown(finding: &Finding) -> String {
    match &finding.place {
        Some(place) => format!(" (`{}`: {})", place.file, finding.message),
        None => format!(" ({})", finding.message),
    }
}

fn requirement(name: &str, standing: Standing, next: &str) -> Requirement {
    Requirement {
        name: name.to_string(),
        stage: Stage::Correctness,
        standing,
        weight: Weight::Required,
        next: next.to_string(),
    }
}

fn untold(name: &str, why: &str) -> Requirement {
    requirement(name, Standing::Unknown(why.to_string()), "")
}

impl Judged {
    pub fn tree(&self) -> Tree {
        self.mark.map_or(Tree::Unknown, Tree::Known)
    }

    fn nothing(requirements: Vec<Requirement>) -> Self {
        let (checks, touched, new_tests) = (Vec::new(), Vec::new(), Vec::new());
        let (tampering, mark, candidate) = (None, None, None);
        let holds = false;
        Self { requirements, holds, checks, touched, tampering, mark, candidate, new_tests }
    }
}

impl<'a> Contract<'a> {
    /// The directory of the policy.
    pub fn project(&self) -> &'a Path {
        Path::new(&self.seal.project)
    }

    /// Whether the requirement is open and not waived.
    pub(crate) fn holds(&self, requirement: &Requirement) -> bool {
        waiver::holds(requirement, self.waivers, self.world.arrived_ms)
    }

    fn is_waived(&self, name: &str) -> bool {
        waiver::of(name, self.waivers, self.world.arrived_ms).is_some()
    }

    /// Whether this is a gate of the policy rather than a check of a list.
    pub(crate) fn is_of_policy(&self, gate: &Gate) -> bool {
        self.seal.policy.gates.iter().any(|known| known.name == gate.name)
    }

    /// Paths outside the judged work, such as lists that ralph itself writes to.
    pub(crate) fn exclude(&self) -> Vec<PathBuf> {
        lists::excluded(&self.world.home, self.run)
    }

    pub(crate) fn place<'b>(&'b self, content: Content<'b>) -> Place<'b> {
        Place {
            home: &self.world.home,
            env: &self.world.env,
            project: self.project(),
            content,
            environment: &self.seal.policy.environment,
            path: self.seal.path.as_deref().map(OsStr::new),
            deadline: self.world.end,
        }
    }
}
