//! Facts about a new run that a person should know before its first stop.

use super::off_reason;
use crate::contract::{MISSING_PLAN, PLAN_FILE};
use crate::overview::{self, RunView};
use crate::session_model;
use crate::sources::describe_unsealed;
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::id::RunId;
use ralph_core::judge::{Judge, JudgeBackend, JudgeKind};
use ralph_core::model_price;
use ralph_core::policy::{ClaimPolicy, Policy, ProofMode};
use ralph_core::record::{ListKind, ListSeal, PolicySeal, RunRecord};
use ralph_core::requirement::{RequirementStage, RequirementWeight};
use ralph_core::run::RunPhase;
use ralph_core::run_terms::RunTerms;
use ralph_core::sealed_file::SealedFile;
use ralph_core::source::work_list;
use ralph_gates::gates::gate_tools;
use ralph_gates::gates::result_key::compile_globs;
use ralph_git::git;
use ralph_git::tree::{self, ListingRequest};
use ralph_home::world::World;
use ralph_judge::check_token_limit;
use ralph_lists::plan::{self, PlanNote};
use ralph_lists::run_lists::{self, ListFile};
use ralph_policy::trust;
use ralph_proof::environment_roots::is_package_directory;
use ralph_proof::{DEPENDENCY_DIRECTORIES, describe_missing_script};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileKind};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many notes about plans are kept.
const MAX_PLAN_NOTES: usize = 8;
const LISTING_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_MANIFEST_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug)]
pub enum StartNote {
    /// ralph is off, and why.
    Off(&'static str),
    /// A check in a plan that cannot be run. The file is as a person would name it.
    Plan {
        file: String,
        note: PlanNote,
    },
    /// Every item is marked done, and none has a check.
    AllItemsDone,
    /// Items without a check, which no gates back.
    UncheckedItems {
        unchecked: usize,
        count: usize,
    },
    /// Changes cannot be compared with the start.
    NoGit,
    MissingTool {
        gate: String,
        program: String,
    },
    /// A judge asks an endpoint with the key in a variable that has no value.
    MissingKey {
        judge: String,
        variable: String,
    },
    /// A judge or CI check is asked without encryption on this machine, where an agent can listen.
    LoopbackService {
        /// Its name among those of gates.
        gate: String,
        authority: String,
    },
    /// A gate runs a script of `package.json` that the agent has to write first.
    MissingScript {
        gate: String,
        script: String,
    },
    /// Dependencies are declared, and none are installed.
    MissingNodeModules,
    /// Tracked links whose targets are outside of the project.
    OutsideLinks(Vec<String>),
    /// A limit on the cost that nothing can enforce.
    CostLimitOff {
        most_micro_usd: u64,
        model: String,
    },
    /// The goal names a file whose change holds every stop.
    SealedGoal(SealedFile),
    /// A check runs a script that cannot be sealed; the sentence says why and what to do.
    Unsealed(String),
    /// A glob of `--may-change` that matches no file.
    UnmatchedGlob(String),
    /// Another active run works in the same directory.
    OtherRun(RunId),
    /// No gate can show that tests notice the work.
    Unproved(UnprovedReason),
    /// A required judge that can never give a verdict, and why.
    NoVerdict {
        judge: String,
        why: String,
    },
    /// Neither a gate nor a list nor a promise measures the goal.
    Unmeasured,
    /// Stages without a required gate, in a run with phases.
    UnmeasuredStages(Vec<RequirementStage>),
}

/// Why the work of a run cannot be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnprovedReason {
    /// Every gate is advisory or has `proof = false`.
    NoGateTakesPart,
    /// The gates that take part judge the text of files.
    NoGateRunsTests,
}

pub(super) fn start_notes(world: &World, run: &RunRecord, terms: &RunTerms) -> Vec<StartNote> {
    let goal = &terms.goal;
    let mut notes = Vec::new();
    notes.extend(off_reason(&world.env, &world.home).map(StartNote::Off));
    notes.extend(other_run(world, run));
    notes.extend(plan_notes(run));
    let file = |list: &ListSeal| ListFile { path: PathBuf::from(&list.path), kind: list.kind };
    let lists: Vec<_> = run.lists.iter().map(file).collect();
    notes.extend(list_note(&lists, run.seal.as_ref().map(|seal| &seal.policy)));
    if run.seal.as_ref().is_some_and(|seal| seal.base.is_none()) {
        notes.push(StartNote::NoGit);
    }
    notes.extend(run.seal.iter().flat_map(|seal| missing_tools(seal)));
    notes.extend(run.seal.iter().flat_map(|seal| missing_keys(world, seal)));
    notes.extend(run.seal.iter().flat_map(|seal| loopback_services(seal)));
    notes.extend(run.seal.iter().flat_map(|seal| missing_scripts(seal)));
    notes.extend(run.seal.as_deref().and_then(|seal| missing_node_modules(run, seal)));
    notes.extend(run.seal.as_deref().and_then(outside_links_note));
    if let Some(seal) = &run.seal {
        let files = seal.files.as_deref().unwrap_or_default();
        notes.extend(sealed_goal_notes(goal, files, &seal.policy.verify.may_change));
        notes.extend(unmatched_globs(world, run, &terms.may_change));
        notes.extend(unsealed_notes(&seal.project, &seal.policy, &lists));
    }
    notes.extend(run.seal.iter().flat_map(|seal| mute_judges(run, seal)));
    let is_goal_judge = |judge: &Judge| judge.kind == JudgeKind::Goal && judge.is_required();
    let measured = run.seal.as_ref().is_some_and(|seal| {
        !seal.policy.gates.is_empty() || seal.policy.judges.iter().any(is_goal_judge)
    });
    let listed = !run.lists.is_empty() || run.checklist || run.tasks;
    if !listed && run.promise.is_none() && !run.phases && !measured {
        notes.push(StartNote::Unmeasured);
    }
    notes.extend(run.seal.as_deref().and_then(|seal| unproved_note(&lists, seal)));
    notes.extend(stage_note(run));
    notes.extend(cost_note(world, run));
    notes
}

fn outside_links_note(seal: &PolicySeal) -> Option<StartNote> {
    let links = seal.base.as_ref()?.outside_links.iter();
    let names: Vec<String> = links.map(|link| link.path.clone()).collect();
    (!names.is_empty()).then_some(StartNote::OutsideLinks(names))
}

/// The gates and list checks that run scripts which cannot be sealed.
fn unsealed_notes(project: &str, policy: &Policy, lists: &[ListFile]) -> Vec<StartNote> {
    let project = Path::new(project);
    let mut names = Vec::new();
    let mut add = |gates: &[Gate], name: &dyn Fn(&str) -> String| {
        // A command whose files cannot be listed has failed to be sealed before.
        let unsealed = trust::unsealed_scripts(project, gates).unwrap_or_default();
        names.extend(unsealed.iter().map(|one| describe_unsealed(&name(&one.gate), one)));
    };
    add(&trust::policy_programs(policy), &ToString::to_string);
    for list in lists {
        let Ok(items) = run_lists::read_list(list) else { continue };
        let item = |gate: &str| {
            let at = work_list::parse_check_name(gate).map(|(_, position)| position);
            at.and_then(|at| items.get(at)).map_or(gate.to_string(), |item| item.name.clone())
        };
        add(&work_list::check_gates(0, &items), &item);
    }
    names.into_iter().map(StartNote::Unsealed).collect()
}

/// Another active run in the same directory.
fn other_run(world: &World, run: &RunRecord) -> Option<StartNote> {
    let mut outlined = overview::outline_runs(&world.home).ok()?;
    outlined.retain(|one| {
        let outline = one.outline.as_ref();
        outline.is_none_or(|one| !one.has_ended() && one.directories.contains(&run.project))
    });
    let runs = outlined.into_iter().map(|run| run.id);
    let (runs, _) = overview::load_run_views(&world.home, runs);
    let is_other = |view: &RunView| {
        let other = &view.opened.run;
        view.phase == RunPhase::Active && other.id != run.id && other.project == run.project
    };
    let other = runs.into_iter().find(is_other)?;
    Some(StartNote::OtherRun(other.opened.run.id))
}

/// The globs of `--may-change` that match no file, which are often misspelt.
fn unmatched_globs(world: &World, run: &RunRecord, globs: &[String]) -> Vec<StartNote> {
    if globs.is_empty() {
        return Vec::new();
    }
    let project = Path::new(&run.project);
    let listing = tree::list_work_tree(&ListingRequest {
        project,
        exclude: &[world.home.root().to_path_buf()],
        cache: Some(&world.home.stat_cache(project)),
        deadline: &Deadline::after(LISTING_TIMEOUT),
    });
    let Ok(listing) = listing else { return Vec::new() };
    let below = project.strip_prefix(&listing.root).unwrap_or(Path::new(""));
    let is_unmatched = |glob: &&String| {
        let matcher = compile_globs(std::slice::from_ref(*glob));
        !listing.entries.iter().any(|entry| {
            let path = Path::new(&entry.path);
            let in_project = path.strip_prefix(below).unwrap_or(path);
            [path, in_project]
                .into_iter()
                .filter_map(Path::to_str)
                .any(|path| matcher.is_match(path))
        })
    };
    globs.iter().filter(is_unmatched).cloned().map(StartNote::UnmatchedGlob).collect()
}

/// Whether neither a price nor the client's status line can tell what the session costs.
fn cost_note(world: &World, run: &RunRecord) -> Option<StartNote> {
    let most_micro_usd = run.limits.max_cost_micro_usd.filter(|_| run.drive.is_none())?;
    let model = session_model::session_model(world, run.owner.as_ref()?)?;
    let (env, project) = (&world.env, Path::new(&run.project));
    let is_known = session_model::is_cost_known(env, world.host, project, &run.prices, &model);
    let model = model_price::shown_model(&model);
    (!is_known).then_some(StartNote::CostLimitOff { most_micro_usd, model })
}

/// The sealed files that the goal names, except those that a person allowed to change.
pub fn sealed_goal_notes(
    goal: &[u8],
    files: &[SealedFile],
    may_change: &[String],
) -> Vec<StartNote> {
    let goal = String::from_utf8_lossy(goal);
    let is_between = |char: char| char.is_whitespace() || "`\"'()[]<>,;:!?".contains(char);
    let words: Vec<&str> = goal.split(is_between).collect();
    let is_named = |file: &&SealedFile| {
        let name = file.name.rsplit('/').next().unwrap_or_default();
        let mut spellings = words.iter().flat_map(|word| [*word, word.trim_end_matches('.')]);
        spellings.any(|word| word.strip_prefix("./").unwrap_or(word) == file.name || word == name)
    };
    let is_allowed = |file: &&SealedFile| may_change.contains(&file.name);
    let named = files.iter().filter(|file| is_named(file) && !is_allowed(file));
    named.cloned().map(StartNote::SealedGoal).collect()
}

/// Checks of lists take part in the proof too.
fn unproved_note(lists: &[ListFile], seal: &PolicySeal) -> Option<StartNote> {
    let policy = &seal.policy;
    let mut items = lists.iter().filter_map(|list| run_lists::read_list(list).ok()).flatten();
    if policy.verify.proof != ProofMode::Full
        || seal.base.is_none()
        || policy.gates.is_empty()
        || items.any(|item| item.check.is_some())
    {
        return None;
    }
    let mut proved = policy.gates.iter().filter(|gate| gate.takes_part_in_proof()).peekable();
    if proved.peek().is_none() {
        return Some(StartNote::Unproved(UnprovedReason::NoGateTakesPart));
    }
    let runs_tests = proved.any(ralph_proof::may_run_tests);
    (!runs_tests).then_some(StartNote::Unproved(UnprovedReason::NoGateRunsTests))
}

fn stage_note(run: &RunRecord) -> Option<StartNote> {
    let is_measured = |stage: RequirementStage| {
        let mut gates = run.seal.iter().flat_map(|seal| &seal.policy.gates);
        gates.any(|gate| gate.stage == stage && gate.weight == RequirementWeight::Required)
    };
    let missing: Vec<_> = [RequirementStage::Correctness, RequirementStage::Quality]
        .into_iter()
        .filter(|stage| run.phases && !is_measured(*stage))
        .collect();
    (!missing.is_empty()).then_some(StartNote::UnmeasuredStages(missing))
}

fn plan_notes(run: &RunRecord) -> Vec<StartNote> {
    let plans = run.lists.iter().filter(|list| list.kind == ListKind::Plan);
    let notes = plans.flat_map(|list| {
        let path = Path::new(&list.path);
        let file = run_lists::display_path(run, path);
        let bytes = fs::read(path, plan::MAX_PLAN_BYTES).unwrap_or_default();
        let notes = plan::parse_plan(&bytes).map(|plan| plan.notes).unwrap_or_default();
        notes.into_iter().map(move |note| StartNote::Plan { file: file.clone(), note })
    });
    notes.take(MAX_PLAN_NOTES).collect()
}

/// Whether the lists are already done, or have items without a check.
pub fn list_note(lists: &[ListFile], policy: Option<&Policy>) -> Option<StartNote> {
    let items: Vec<_> =
        lists.iter().filter_map(|list| run_lists::read_list(list).ok()).flatten().collect();
    let (unchecked, count) =
        (items.iter().filter(|item| item.check.is_none()).count(), items.len());
    let backed = policy.is_some_and(|policy| {
        policy.verify.claims == ClaimPolicy::WithGates && !policy.gates.is_empty()
    });
    if unchecked == 0 {
        None
    } else if unchecked == count && items.iter().all(|item| item.done) {
        Some(StartNote::AllItemsDone)
    } else {
        (!backed).then_some(StartNote::UncheckedItems { unchecked, count })
    }
}

/// A proof compares packages with the start of the run, so those installed later have nothing to be compared with.
fn missing_node_modules(run: &RunRecord, seal: &PolicySeal) -> Option<StartNote> {
    let project = Path::new(&run.project);
    let is_installed =
        || ["node_modules", ".pnp.cjs"].iter().any(|name| fs::exists(&project.join(name)));
    let manifest = fs::read(&project.join("package.json"), MAX_MANIFEST_BYTES).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
    let declares = |key: &str| {
        let names = manifest.get(key).and_then(serde_json::Value::as_object);
        names.is_some_and(|names| !names.is_empty())
    };
    let is_missing = seal.policy.verify.proof == ProofMode::Full
        && ["dependencies", "devDependencies"].into_iter().any(declares)
        && !is_installed();
    is_missing.then_some(StartNote::MissingNodeModules)
}

/// Required judges whose first question is already known to have no answer: the run would end `gate_broken` after the work.
fn mute_judges(run: &RunRecord, seal: &PolicySeal) -> Vec<StartNote> {
    let has_plan = || {
        run.lists.iter().any(|list| list.kind == ListKind::Plan)
            || fs::exists(&Path::new(&seal.project).join(PLAN_FILE))
    };
    let asked = seal
        .policy
        .judges
        .iter()
        .filter(|judge| judge.is_required() && judge.applies_to_complexity(seal.complexity));
    let note = |judge: &Judge| {
        let why = match check_token_limit(judge) {
            Err(why) => why,
            Ok(()) if judge.kind == JudgeKind::Plan && !has_plan() => MISSING_PLAN.to_string(),
            Ok(()) => describe_missing_script(ignored_script(seal, judge)?),
        };
        Some(StartNote::NoVerdict { judge: judge.name.clone(), why })
    };
    asked.filter_map(note).collect()
}

/// The first file of the project that the command of a judge names and git ignores. Installed packages are in checkouts.
fn ignored_script<'a>(seal: &PolicySeal, judge: &'a Judge) -> Option<&'a str> {
    let JudgeBackend::Command(words) = &judge.backend else { return None };
    let (project, links) = (Path::new(&seal.project), &seal.policy.verify.link);
    let deadline = Deadline::after(LISTING_TIMEOUT);
    let is_installed = |word: &str| {
        let packages = DEPENDENCY_DIRECTORIES.iter().map(OsStr::new);
        links.iter().any(|link| is_package_directory(link) && Path::new(word).starts_with(link))
            || packages.into_iter().any(|name| Path::new(word).iter().any(|part| part == name))
    };
    let is_missing = |word: &&str| {
        let is_file = fs::stat(&project.join(word)).is_some_and(|stat| stat.kind == FileKind::File);
        is_file
            && !is_installed(word)
            && git::is_ignored(project, word, &deadline).ok().flatten() == Some(true)
    };
    words.iter().map(String::as_str).find(is_missing)
}

fn missing_scripts(seal: &PolicySeal) -> impl Iterator<Item = StartNote> {
    let project = Path::new(&seal.project);
    seal.policy.gates.iter().filter_map(move |gate| {
        let script = gate_tools::missing_script(gate, project)?;
        Some(StartNote::MissingScript { gate: gate.name.clone(), script })
    })
}

fn loopback_services(seal: &PolicySeal) -> impl Iterator<Item = StartNote> {
    let judges = asked_judges(seal)
        .filter_map(|judge| Some((trust::judge_label(judge), judge.backend.loopback_authority()?)));
    let gates = seal.policy.gates.iter().filter_map(|gate| {
        let query = gate.ci.as_ref()?;
        Some((gate.name.clone(), query.provider.loopback_authority()?))
    });
    judges.chain(gates).map(|(gate, authority)| StartNote::LoopbackService {
        gate,
        authority: authority.to_string(),
    })
}

fn asked_judges(seal: &PolicySeal) -> impl Iterator<Item = &Judge> {
    let judges = seal.policy.judges.iter();
    judges.filter(|judge| judge.applies_to_complexity(seal.complexity))
}

/// The judges that would be asked without the key of their endpoint.
fn missing_keys(world: &World, seal: &PolicySeal) -> impl Iterator<Item = StartNote> {
    asked_judges(seal).filter_map(|judge| {
        let JudgeBackend::Http(endpoint) = &judge.backend else { return None };
        let variable = endpoint.key.as_ref()?;
        let is_unset = world.env.get(variable).is_none_or(|value| value.is_empty());
        is_unset.then(|| StartNote::MissingKey {
            judge: judge.name.clone(),
            variable: variable.clone(),
        })
    })
}

fn missing_tools(seal: &PolicySeal) -> impl Iterator<Item = StartNote> {
    let is_found = |gate: &Gate| seal.tools.iter().any(|tool| tool.gate == gate.name);
    let missing = trust::policy_programs(&seal.policy).into_iter();
    let missing = missing.filter(move |gate| !is_found(gate));
    missing.filter_map(|gate| match &gate.command {
        GateInvocation::Argv(words) => Some(StartNote::MissingTool {
            gate: gate.name.clone(),
            program: words.first()?.clone(),
        }),
        GateInvocation::Shell(_) => None,
    })
}
