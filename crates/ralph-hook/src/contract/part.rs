//! Requirements for subagents, teammates and tasks, and the chunks they worked on at the run's own stop.

use std::path::{Path, PathBuf};

use globset::GlobSet;
use ralph_core::chunk::{self, Tally};
use ralph_core::gate::{Gate, Moment};
use ralph_core::policy::{Chunk, Policy};
use ralph_core::record::PartKind;
use ralph_core::requirement::{Evidence, Failure, Requirement, Standing};

use super::gates::{self, Inquiry};
use super::pipeline::{self, Site};
use super::work::Where;
use super::{Contract, LINES, ROUNDS, look, requirement, untold};
use ralph_gates::gates::key::globs_of;
use ralph_gates::gates::{Content, View};
use ralph_git::git;
use ralph_git::tree::{Listing, Mode};
use ralph_home::faults::describe;
use ralph_sys::fs::{self, Kind};

/// An output file is empty if it has only white space up to this size.
const LOOKED_AT: usize = 64 * 1024;

/// The moment and the chunk that determine what an agent must satisfy.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    pub moment: Moment,
    pub chunk: Option<&'a Chunk>,
}

impl Demand<'_> {
    fn asks(&self, gate: &Gate) -> bool {
        gate.on.contains(&self.moment)
            || self.chunk.is_some_and(|chunk| chunk.gates.contains(&gate.name))
    }

    /// A subagent answers only for its chunk; tasks and teammates also answer for added lines.
    fn asks_lines(&self, policy: &Policy) -> bool {
        let has_checks = !policy.lines.forbid.is_empty() || !policy.lines.patterns.is_empty();
        has_checks && matches!(self.moment, Moment::Task | Moment::Teammate)
    }

    /// Whether the policy demands anything at this moment.
    pub fn is_empty(&self, policy: &Policy) -> bool {
        self.chunk.is_none()
            && !self.asks_lines(policy)
            && !policy.gates.iter().any(|gate| self.asks(gate))
    }
}

/// Judges an agent on the current tree. Other agents may change the tree meanwhile; then unknown results are judged
/// again, unless a requirement is already known to be unmet.
pub fn judge_part(contract: &Contract<'_>, demand: &Demand<'_>) -> Vec<Requirement> {
    let mut requirements = Vec::new();
    for _ in 0..ROUNDS {
        let (found, listing) = once(contract, demand);
        requirements = found;
        let is_settled = requirements.iter().any(Requirement::is_unmet)
            || !requirements.iter().any(Requirement::is_unknown)
            || requirements.iter().any(Requirement::is_running);
        let moved = || super::marked(contract) != listing.as_ref().map(Listing::mark);
        if is_settled || contract.world.end.is_over() || !moved() {
            break;
        }
    }
    requirements
}

fn once(contract: &Contract<'_>, demand: &Demand<'_>) -> (Vec<Requirement>, Option<Listing>) {
    let exclude = contract.exclude();
    let place = contract.place(Content::Tree { exclude: &exclude });
    let listing = match View::of(&place) {
        Ok(View::Tree(listing)) => listing.into_owned(),
        Ok(View::Checkout(_)) => return (Vec::new(), None),
        Err(error) => return (vec![untold("work tree", &describe(&error))], None),
    };
    let look = look::at(contract, &listing);
    let mut requirements = Vec::new();
    if demand.asks_lines(&contract.seal.policy) {
        let counts = |one: &&Requirement| one.name == LINES || one.is_unknown();
        requirements.extend(look.requirements.iter().filter(counts).cloned());
    }
    if let Some(chunk) = demand.chunk {
        requirements.extend(outputs(contract, chunk, (&listing, &look.touched)));
    }
    let wanted = gates::wanted(contract, &look.touched, &|gate| demand.asks(gate));
    let inquiry = Inquiry {
        contract,
        wanted: &wanted,
        place: &place,
        site: Where::Tree,
        listing: Some(&listing),
    };
    requirements.extend(gates::told(&inquiry));
    if let Some(chunk) = demand.chunk.filter(|chunk| !chunk.after.is_empty()) {
        let site = Site { inquiry: &inquiry, listing: &listing, touched: &look.touched };
        // An agent that started too early must learn that first.
        requirements.splice(0..0, pipeline::earlier(&site, chunk, &requirements));
    }
    requirements.sort_by_key(|one| one.stage);
    (requirements, Some(listing))
}

/// The chunks that an agent worked on in this run.
#[derive(Debug)]
pub(super) struct Chunks<'a>(Vec<(Demand<'a>, Tally)>);

impl<'a> Chunks<'a> {
    pub(super) fn of(contract: &Contract<'a>) -> Self {
        let had_agents = |chunk: &'a Chunk| {
            let is_its = |name: &Option<String>| name.as_deref() == Some(chunk.name.as_str());
            let last = contract.parts.iter().rev().find(|part| is_its(&part.chunk))?;
            let moment = moment(last.who.kind);
            let tally = chunk::tally(contract.parts, Some(&chunk.name));
            Some((Demand { moment, chunk: Some(chunk) }, tally))
        };
        Self(contract.seal.policy.chunks.iter().filter_map(had_agents).collect())
    }

    pub(super) fn ask(&self, gate: &Gate) -> bool {
        self.0.iter().any(|(demand, _)| demand.asks(gate))
    }

    /// The gate results of the stop, plus one requirement for each chunk. Findings that the stop reports are not
    /// repeated in a chunk.
    pub(super) fn weigh(
        &self,
        contract: &Contract<'_>,
        tree: (&Listing, &[String]),
        results: Vec<Requirement>,
    ) -> Vec<Requirement> {
        let gates = &contract.seal.policy.gates;
        let of_stop = |one: &Requirement| {
            let name = one.name.strip_suffix(" (flaky)").unwrap_or(&one.name);
            gates.iter().any(|gate| gate.name == name && gate.on.contains(&Moment::Stop))
        };
        let mut weighed = Vec::new();
        for (demand, tally) in &self.0 {
            let Some(chunk) = demand.chunk else { continue };
            let asked = |one: &&Requirement| {
                gates.iter().any(|gate| gate.name == one.name && demand.asks(gate))
            };
            let mut demands: Vec<Requirement> = results
                .iter()
                .filter(asked)
                .map(|one| if of_stop(one) { briefly(one) } else { one.clone() })
                .collect();
            demands.extend(outputs(contract, chunk, tree));
            weighed.extend(chunk::requirement(chunk, &demands, *tally));
        }
        let mut requirements: Vec<_> = results.into_iter().filter(of_stop).collect();
        requirements.append(&mut weighed);
        requirements
    }
}

pub(super) fn moment(kind: PartKind) -> Moment {
    match kind {
        PartKind::Subagent => Moment::Subagent,
        PartKind::Teammate => Moment::Teammate,
        PartKind::Task => Moment::Task,
    }
}

pub(super) fn briefly(one: &Requirement) -> Requirement {
    let standing = match &one.standing {
        Standing::Unmet(failure) => Standing::Unmet(Failure::new(failure.summary.clone())),
        standing @ (Standing::Met(_) | Standing::Unknown(_) | Standing::Pending(_)) => {
            standing.clone()
        }
    };
    Requirement { standing, ..one.clone() }
}

/// The state of an output file, from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Near {
    Missing,
    Untouched,
    Empty,
    There,
}

pub(super) fn outputs(
    contract: &Contract<'_>,
    chunk: &Chunk,
    (listing, touched): (&Listing, &[String]),
) -> Vec<Requirement> {
    let found = |glob: &String| {
        let globs = globs_of(std::slice::from_ref(glob));
        let listed = listed(contract, listing, &globs);
        let is_touched = |path: &Path| {
            contract.seal.base.is_none() || touched.iter().any(|one| Path::new(one) == path)
        };
        let among = |path: &PathBuf| near(contract, path, is_touched(path));
        let nearest = listed.iter().map(among).max().unwrap_or(Near::Missing);
        // A literal path may be ignored by git; then only its modification time shows that it is new.
        let is_unlisted = nearest == Near::Missing && is_plain(glob);
        output(glob, if is_unlisted { ignored(contract, Path::new(glob)) } else { nearest })
    };
    chunk.outputs.iter().map(found).collect()
}

/// Files of the tree that match, relative to the project.
fn listed(contract: &Contract<'_>, listing: &Listing, globs: &GlobSet) -> Vec<PathBuf> {
    let below = contract.project().strip_prefix(&listing.root).unwrap_or(Path::new(""));
    let files = listing.entries.iter().filter(|entry| match entry.mode {
        Mode::File | Mode::Executable => true,
        Mode::Symlink | Mode::Repository => false,
    });
    files
        .filter_map(|entry| Path::new(&entry.path).strip_prefix(below).ok())
        .filter(|path| globs.is_match(path))
        .map(Path::to_path_buf)
        .collect()
}

fn near(contract: &Contract<'_>, path: &Path, is_touched: bool) -> Near {
    let whole = contract.project().join(path);
    let Some(stat) = fs::stat_link(&whole).filter(|stat| stat.kind == Kind::File) else {
        return Near::Missing;
    };
    let is_new = contract.seal.base.is_some() || is_later(contract, &stat);
    let has_text = || {
        let looked = fs::read_range(&whole, 0, LOOKED_AT).unwrap_or_default();
        looked.len() == LOOKED_AT || looked.iter().any(|byte| !byte.is_ascii_whitespace())
    };
    match is_touched && is_new {
        false => Near::Untouched,
        true if has_text() => Near::There,
        true => Near::Empty,
    }
}

fn ignored(contract: &Contract<'_>, path: &Path) -> Near {
    let whole = contract.project().join(path);
    let Some(stat) = fs::stat_link(&whole) else { return Near::Missing };
    let is_inside = fs::resolve(&whole).is_some_and(|real| real.starts_with(contract.project()));
    if is_inside { near(contract, path, is_later(contract, &stat)) } else { Near::Missing }
}

fn is_later(contract: &Contract<'_>, stat: &fs::Stat) -> bool {
    stat.modified_ns / 1_000_000 >= contract.run.started_ms
}

fn is_plain(glob: &str) -> bool {
    !glob.contains(['*', '?', '[', '{', '\\'])
}

fn output(glob: &str, nearest: Near) -> Requirement {
    let why = match nearest {
        Near::There => {
            return requirement(&format!("output {glob}"), Standing::Met(Evidence::Measured), "");
        }
        Near::Missing if is_plain(glob) => "there is no such file",
        Near::Missing => "no file matches",
        Near::Untouched => "it has not changed since the run began",
        Near::Empty => "it is empty",
    };
    let what = if is_plain(glob) { "Write" } else { "Write a file that matches" };
    let next = format!("{what} `{glob}`");
    let failure = Failure::new(why.to_string());
    requirement(&format!("output {glob}"), Standing::Unmet(failure), &next)
}

/// Whether the agent worked in a different work tree than the one that is judged.
pub fn is_elsewhere(project: &Path, cwd: &Path) -> bool {
    let Some(theirs) = git::root(cwd) else { return false };
    git::root(project).is_some_and(|ours| ours != theirs)
}
