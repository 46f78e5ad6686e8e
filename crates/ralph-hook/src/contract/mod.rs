//! What a sealed policy demands of the work tree as it is now.
//!
//! The order is that of cost: what can be told from the change alone, then what gates said before, then gates. They
//! run in a process of their own, so that they can go on when the host wants its answer.

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
use ralph_core::policy::{Change, Checkout};
use ralph_core::record::{OnTampering, Run, Seal, Waiver};
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

/// How often a tree may change under the judge.
const ROUNDS: usize = 3;

/// The requirement that `[lines]` makes.
const LINES: &str = "added lines";

/// A run with a policy, about to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Contract<'a> {
    pub world: &'a World,
    pub run: &'a Run,
    pub seal: &'a Seal,
    /// Blocks charged so far.
    pub iteration: u32,
    /// Subagents, teammates and tasks that were looked at so far.
    pub parts: &'a [PartState],
    pub checks: &'a Checks,
    /// What a person does without.
    pub waivers: &'a [Waiver],
}

/// Checks of lists: each is run like a gate and counts for its item alone.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// Those that are run now.
    pub due: Vec<Gate>,
    /// One for each program that any of them runs.
    pub programs: Vec<Gate>,
}

#[derive(Debug)]
pub struct Judged {
    pub requirements: Vec<Requirement>,
    /// Whether one of them stands in the way.
    pub holds: bool,
    /// What the checks of lists say, by their own names.
    pub checks: Vec<Requirement>,
    /// Paths that are not as at the base, from the project.
    pub touched: Vec<String>,
    /// What was changed that may not be, when the policy wants a person to look at that.
    pub tampering: Option<String>,
    /// `None` when the work tree could not be listed.
    mark: Option<u64>,
    candidate: Option<Candidate>,
    /// Names of tests that the base does not have.
    new_tests: Vec<String>,
}

/// Judged is one state of the tree. Gates take their time, and what is about to be called good must still be that state.
pub fn judge(contract: &Contract<'_>) -> Judged {
    let judged = settled(contract);
    let holds = judged.requirements.iter().any(|one| contract.holds(one));
    Judged { holds, ..judged }
}

fn settled(contract: &Contract<'_>) -> Judged {
    let mut judged = judge_once(contract);
    for _ in 0..ROUNDS {
        let mut told = judged.requirements.iter().chain(&judged.checks);
        if told.any(|one| contract.holds(one)) || is_current(contract, &judged) {
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

/// The state of the tree, as it is now; `None` when it cannot be listed.
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
    let told = gates::told(&inquiry);
    let site = Site { inquiry: &inquiry, listing: &listing, touched: &look.touched };
    let Weighed { requirements: mut weighed, is_busy } = pipeline::weigh(&site, &told);
    let checks = gates::checked(&inquiry, is_busy);
    requirements.append(&mut weighed);
    requirements.extend(chunks.weigh(contract, (&listing, &look.touched), told));
    // What comes first is what the agent is told to do next.
    requirements.sort_by_key(|one| one.stage);
    let (candidate, new_tests, touched) = (look.candidate, look.new_tests, look.touched);
    let mark = Some(listing.mark());
    let holds = false;
    Judged { requirements, holds, checks, touched, tampering, mark, candidate, new_tests }
}

/// Before the word `verified`, when everything else is met: what takes checkouts to find out.
pub fn confirm(contract: &Contract<'_>, judged: &Judged) -> Vec<Requirement> {
    let Some(candidate) = &judged.candidate else { return Vec::new() };
    let policy = &contract.seal.policy;
    let has_counted = |gate: &Gate| {
        let is_asked = judged.requirements.iter().any(|one| one.name == gate.name)
            || policy.pipeline.iter().any(|chunk| chunk.gates.contains(&gate.name));
        is_asked && !contract.is_waived(&gate.name)
    };
    let mut wanted = gates::wanted(contract, &judged.touched, &has_counted);
    let mut told = red::requirement(contract, candidate, (&wanted, &judged.new_tests));
    wanted.extend(contract.checks.due.iter().filter(|gate| !contract.is_waived(&gate.name)));
    let is_clean = match policy.verify.checkout {
        Checkout::Clean => true,
        // Whoever drives the agent looks last when its process is gone.
        Checkout::Auto => {
            let driver = contract.world.driven.map(|driven| driven.driver);
            matches!(driver, Some(Driver::Alone | Driver::Closing))
        }
        Checkout::Tree => false,
    };
    if is_clean {
        told.extend(clean(contract, candidate, &wanted));
    }
    if !told.is_empty() && !is_current(contract, judged) {
        told.push(untold("work tree", "it changed while it was verified"));
    }
    told
}

/// Every gate passes once more where nobody works, with protected files as at the base.
fn clean(contract: &Contract<'_>, candidate: &Candidate, wanted: &[&Gate]) -> Vec<Requirement> {
    let Some(content) = checkout::content_of(contract, Where::Clean, candidate) else {
        return Vec::new();
    };
    let project = checkout::project(contract);
    let place = Place { project: &project, ..contract.place(Content::Checkout(content)) };
    let told = gates::told(&Inquiry {
        contract,
        wanted,
        place: &place,
        site: Where::Clean,
        listing: None,
    });
    let rename =
        |one: Requirement| Requirement { name: format!("{} (clean checkout)", one.name), ..one };
    told.into_iter().map(rename).collect()
}

/// An agent that says it is done and has touched nothing is not.
fn something_changed(contract: &Contract<'_>, listing: &Listing) -> Option<Requirement> {
    let base = contract.seal.base.as_ref()?;
    if contract.seal.policy.change == Change::Optional {
        return None;
    }
    let now = blake3::Hash::from_bytes(listing.identity()).to_hex();
    let standing = if now.as_str() == base.identity {
        Standing::Unmet(Failure::new("the work tree is as it was when the run began".to_string()))
    } else {
        Standing::Met(Evidence::Measured)
    };
    // What has to be done, a pipeline says better.
    let is_said = !contract.seal.policy.pipeline.is_empty();
    let next = if is_said || matches!(standing, Standing::Met(_)) { "" } else { "Do the work" };
    Some(requirement("a change", standing, next))
}

/// One line about a guard that fell.
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
    /// Where the policy is.
    pub fn project(&self) -> &'a Path {
        Path::new(&self.seal.project)
    }

    /// Whether it stands in the way: open, and nobody does without it.
    pub(crate) fn holds(&self, requirement: &Requirement) -> bool {
        waiver::holds(requirement, self.waivers, self.world.arrived_ms)
    }

    fn is_waived(&self, name: &str) -> bool {
        waiver::of(name, self.waivers, self.world.arrived_ms).is_some()
    }

    /// Whether it is a gate of the policy, not a check of a list.
    pub(crate) fn is_of_policy(&self, gate: &Gate) -> bool {
        self.seal.policy.gates.iter().any(|known| known.name == gate.name)
    }

    /// Lists that ralph itself writes to are not part of the work.
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
