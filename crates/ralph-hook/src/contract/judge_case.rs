//! Builds the case that a judge is given: the goal, the evidence and the change. Nothing in it comes from the agent's
//! messages, and secrets are removed before it leaves this process.

use std::collections::BTreeSet;
use std::path::Path;

use ralph_core::gate::Gate;
use ralph_core::judge::{
    CaseEvidence, ContractItem, ContractKind, Judge, JudgeCase, JudgeKind, RedactedFile,
};
use ralph_core::proof::Proof;
use ralph_core::record::{GateRecord, ListKind, MeasuredSite};
use ralph_core::redact::Redactor;
use ralph_core::requirement::{EvidenceKind, Requirement, RequirementStatus};
use ralph_core::text;

use super::change_summary::CandidateCheckpoint;
use super::judge_worker::JudgedTrees;
use super::proof_evidence::class_rules;
use super::shown_section::{ShownSection, show_section};
use super::{ContractContext, base_checkpoint, judged_contract};
use ralph_git::checkpoint::{BlobContent, ChangeStatus, Checkpoint, CheckpointRepository};
use ralph_git::git;
use ralph_git::tree::TreeEntryMode;
use ralph_home::faults::describe_error;
use ralph_home::goal_file;
use ralph_lists::run_lists::sealed_items;
use ralph_proof::{ClassRules, FileClass, classify_file};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileKind};

const CASE_VERSION: u8 = 1;
/// How much of a patch is read at all.
const MAX_PATCH_BYTES: usize = 32 * 1024 * 1024;
/// How much of it a case contains.
const MAX_SHOWN_BYTES: usize = 2 * 1024 * 1024;
const MAX_PATH_CHARS: usize = 200;
/// A larger change of one file is data, or generated.
const MAX_FILE_PATCH_BYTES: usize = 256 * 1024;
/// A file is data if more than one in so many characters is no text.
const DATA_SHARE: usize = 20;
/// How many files a case names as left out.
const MAX_OMITTED: usize = 200;
const MAX_PLAN_BYTES: usize = 256 * 1024;
const MAX_EVIDENCE: usize = 200;
const MAX_EVIDENCE_CHARS: usize = 400;
const HIDDEN_LINES_TEXT: &str = "stand between the marks of a private key and are none, so a judge would not see them; remove the marks";
pub const PLAN_FILE: &str = "PLAN.md";
/// Why a judge of kind `plan` has nothing to compare with.
pub const MISSING_PLAN: &str =
    "there is no plan to compare with: start the run with `--plan FILE`, or with a `PLAN.md`";
const MISMATCH_TEXT: &str = "the patch of the change does not match its list of files";

/// The change of a run, split into code and tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JudgedChange {
    pub diff: String,
    pub test_diff: String,
    pub omitted: Vec<String>,
    pub redacted: Vec<RedactedFile>,
    /// Whether a test or its harness that the base has was changed or deleted, even if that cannot be shown.
    pub amends_tests: bool,
}

/// What all judges of a stop receive.
#[derive(Clone, Debug)]
pub(super) struct CaseFacts {
    pub goal: String,
    pub contract: Vec<ContractItem>,
    pub evidence: Vec<CaseEvidence>,
    pub change: JudgedChange,
    /// The plan, or why there is none.
    pub plan: Result<String, String>,
    pub trees: JudgedTrees,
}

impl CaseFacts {
    pub(super) fn case_for(&self, judge: &Judge) -> Result<JudgeCase, String> {
        let plan = match judge.kind {
            JudgeKind::Plan => Some(self.plan.clone()?),
            JudgeKind::Prompt
            | JudgeKind::Agent
            | JudgeKind::Adversarial
            | JudgeKind::Goal
            | JudgeKind::Amended => None,
        };
        // A plan is shown once.
        let is_in_plan =
            |item: &ContractItem| plan.is_some() && item.kind == ContractKind::PlanStep;
        let contract = self.contract.iter().filter(|item| !is_in_plan(item)).cloned().collect();
        Ok(JudgeCase {
            v: CASE_VERSION,
            judge: judge.name.clone(),
            kind: judge.kind,
            goal: self.goal.clone(),
            contract,
            evidence: self.evidence.clone(),
            diff: self.change.diff.clone(),
            test_diff: self.change.test_diff.clone(),
            plan,
            omitted: self.change.omitted.clone(),
            redacted: self.change.redacted.clone(),
        })
    }
}

/// The facts of the current stop, or why they are not known.
pub(super) fn gather_case_facts(
    contract: &ContractContext<'_>,
    candidate: &CandidateCheckpoint,
    evidence: &[CaseEvidence],
) -> Result<CaseFacts, String> {
    let world = contract.world;
    let redactor = Redactor::new(world.env.secrets());
    let goal =
        goal_file::read_goal(&world.home, contract.run).map_err(|error| describe_error(&error))?;
    let goal = String::from_utf8_lossy(&goal).into_owned();
    let goal = if goal.trim().is_empty() { contract.run.title.clone() } else { goal };
    let deadline = world.step_deadline();
    let describe = |error| describe_error(&error);
    let repository = base_checkpoint::open_repository(contract, &deadline).map_err(describe)?;
    let base =
        base_checkpoint::find_proof_base(contract, &repository, &deadline).map_err(describe)?;
    let now = repository.find(candidate.content.checkpoint, &deadline).map_err(describe)?;
    let rules = class_rules(&contract.seal.policy, contract.project(), &[])
        .map_err(|error| describe_error(&error))?;
    let compared = ComparedTrees { repository: &repository, base: &base, now: &now };
    let change = read_change(&compared, contract.project(), &rules, &redactor, &deadline)?;
    let plan = read_plan(contract, &compared, &deadline);
    Ok(CaseFacts {
        goal: redactor.redact(&text::clean(&goal)),
        contract: judged_contract::read_contract(contract, &redactor)?,
        evidence: evidence.iter().map(|one| redact_evidence(one, &redactor)).collect(),
        change,
        plan: plan.map(|plan| redactor.redact(&text::clean(&plan))),
        trees: compared.tree_ids(),
    })
}

fn redact_evidence(one: &CaseEvidence, redactor: &Redactor) -> CaseEvidence {
    let line = |text: &str| text::clean_line(&redactor.redact(text), MAX_EVIDENCE_CHARS);
    CaseEvidence { requirement: line(&one.requirement), result: line(&one.result) }
}

/// Two checkpoints of one repository.
#[derive(Clone, Copy, Debug)]
pub struct ComparedTrees<'a> {
    pub repository: &'a CheckpointRepository,
    pub base: &'a Checkpoint,
    pub now: &'a Checkpoint,
}

impl ComparedTrees<'_> {
    fn tree_ids(&self) -> JudgedTrees {
        let hex = |checkpoint: &Checkpoint| self.repository.hex(&checkpoint.tree);
        JudgedTrees { base: hex(self.base), candidate: hex(self.now) }
    }

    /// The path of the project in the trees.
    fn project_path<'p>(&self, project: &'p Path) -> &'p Path {
        project.strip_prefix(self.repository.root()).unwrap_or(Path::new(""))
    }
}

/// Reads the patch between two trees of a project and splits it by the class of each file.
fn read_change(
    compared: &ComparedTrees<'_>,
    project: &Path,
    rules: &ClassRules,
    redactor: &Redactor,
    deadline: &Deadline,
) -> Result<JudgedChange, String> {
    let ComparedTrees { repository, base, now } = compared;
    let describe = |error| describe_error(&error);
    let changed = repository.diff(base, now, deadline).map_err(describe)?;
    let patch = repository.text_patch(base, now, MAX_PATCH_BYTES, deadline).map_err(describe)?;
    let text = String::from_utf8_lossy(&patch.bytes).into_owned();
    let mut sections = split_patch(&text);
    // The last section of a truncated patch is incomplete.
    if patch.truncated {
        sections.pop();
    }
    let statuses: Vec<ChangeStatus> = changed.iter().map(|one| one.status).collect();
    let sections = match_sections(&statuses, &sections, patch.truncated)?;
    let below = compared.project_path(project);
    let mut files = CaseFiles::default();
    for (one, sections) in changed.iter().zip(sections) {
        let whole = Path::new(&one.path);
        let Ok(inside) = whole.strip_prefix(below) else {
            files
                .omitted_code
                .push(format!("{} (outside of the project)", show_path(whole, redactor)));
            continue;
        };
        let class = classify_file(&inside.to_string_lossy(), rules).class;
        let is_test = class != FileClass::Code;
        files.amends_tests |= is_amended_test(class, one.status);
        let name = show_path(inside, redactor);
        // The files of a nested repository are in no tree of ours, only its state is.
        let is_repository = [one.before, one.after]
            .iter()
            .flatten()
            .any(|version| version.mode == TreeEntryMode::Repository);
        let section = sections.filter(|_| !is_repository).map(<[&str]>::concat);
        match section.filter(|section| is_shown(section)) {
            Some(section) => {
                let section = show_section(&section, redactor);
                if section.hides_other_lines {
                    return Err(format!("lines of `{name}` {HIDDEN_LINES_TEXT}"));
                }
                files.shown.push(ShownFile { name, is_test, section });
            }
            None => files.omit(is_test, name),
        }
    }
    Ok(files.into_change(MAX_SHOWN_BYTES))
}

/// Whether the change is to a test that was there before. A test that moved is a deletion and a new file.
fn is_amended_test(class: FileClass, status: ChangeStatus) -> bool {
    let was_there = match status {
        ChangeStatus::Added => false,
        ChangeStatus::Deleted | ChangeStatus::Modified | ChangeStatus::TypeChanged => true,
    };
    match class {
        FileClass::Tests | FileClass::Harness => was_there,
        FileClass::Code | FileClass::Environment => false,
    }
}

fn show_path(path: &Path, redactor: &Redactor) -> String {
    redactor.redact(&text::clean_line(&path.to_string_lossy(), MAX_PATH_CHARS))
}

/// A file whose changes a judge can see.
struct ShownFile {
    name: String,
    /// Whether it is anything but code.
    is_test: bool,
    section: ShownSection,
}

/// The changed files of a case.
#[derive(Default)]
struct CaseFiles {
    shown: Vec<ShownFile>,
    amends_tests: bool,
    omitted_tests: Vec<String>,
    omitted_code: Vec<String>,
}

impl CaseFiles {
    fn omit(&mut self, is_test: bool, name: String) {
        if is_test { &mut self.omitted_tests } else { &mut self.omitted_code }.push(name);
    }

    /// Keeps the smallest changes if all of them are too long: otherwise large files could push out a small one.
    fn into_change(mut self, most: usize) -> JudgedChange {
        let mut by_size: Vec<(usize, usize)> =
            self.shown.iter().map(|file| file.section.text.len()).zip(0..).collect();
        by_size.sort_unstable();
        let mut total = 0_usize;
        let fits = |one: &(usize, usize)| {
            total = total.saturating_add(one.0);
            total <= most
        };
        let kept: BTreeSet<usize> =
            by_size.into_iter().take_while(fits).map(|(_, number)| number).collect();
        let mut change =
            JudgedChange { amends_tests: self.amends_tests, ..JudgedChange::default() };
        for (number, file) in std::mem::take(&mut self.shown).into_iter().enumerate() {
            let ShownFile { name, is_test, section } = file;
            if !kept.contains(&number) {
                self.omit(is_test, name);
                continue;
            }
            if section.hidden_places > 0 {
                change.redacted.push(RedactedFile { file: name, places: section.hidden_places });
            }
            let diff = if is_test { &mut change.test_diff } else { &mut change.diff };
            diff.push_str(&section.text);
        }
        // Tests first: a judge of tests must learn of each one that it cannot see, however much code is left out.
        change.omitted = self.omitted_tests;
        change.omitted.extend(self.omitted_code);
        if let Some(more) = change.omitted.len().checked_sub(MAX_OMITTED).filter(|more| *more > 0) {
            change.omitted.truncate(MAX_OMITTED);
            change.omitted.push(format!("and {}", text::count_noun(more as u64, "other file")));
        }
        change
    }
}

/// The sections of each path, `None` where the patch ends before. Git lists paths and sections in the same order: one
/// for each path, and two for another type, which is a deletion and a new file.
fn match_sections<'s, 'p>(
    statuses: &[ChangeStatus],
    sections: &'s [&'p str],
    is_truncated: bool,
) -> Result<Vec<Option<&'s [&'p str]>>, String> {
    let mut rest = sections;
    let mut matched = Vec::new();
    for status in statuses {
        let count = match status {
            ChangeStatus::Added | ChangeStatus::Deleted | ChangeStatus::Modified => 1,
            ChangeStatus::TypeChanged => 2,
        };
        let own = rest.split_at_checked(count);
        rest = own.map_or(&[][..], |(_, rest)| rest);
        matched.push(own.map(|(own, _)| own));
    }
    // Otherwise a change would be shown under the name of another file.
    let is_whole = rest.is_empty() && (is_truncated || matched.iter().all(Option::is_some));
    if is_whole { Ok(matched) } else { Err(MISMATCH_TEXT.to_string()) }
}

/// Whether a judge gets the changes of a file. Data is not shown, but a few bytes of it among text do not hide the text.
fn is_shown(section: &str) -> bool {
    let is_data = |char: &char| {
        *char == char::REPLACEMENT_CHARACTER
            || char.is_control() && !matches!(char, '\n' | '\r' | '\t')
    };
    let data = section.chars().filter(is_data).count();
    section.len() <= MAX_FILE_PATCH_BYTES && data.saturating_mul(DATA_SHARE) <= section.len()
}

/// One section per file. Lines of content begin with a space, a sign or `@`, so they never look like a header.
fn split_patch(patch: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    for line in patch.split_inclusive('\n') {
        if line.starts_with("diff --git ") {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    starts.iter().zip(ends).filter_map(|(start, end)| patch.get(*start..end)).collect()
}

/// The plan that was sealed at the start, or the `PLAN.md` of the base: the agent can write the one in the work tree.
fn read_plan(
    contract: &ContractContext<'_>,
    compared: &ComparedTrees<'_>,
    deadline: &Deadline,
) -> Result<String, String> {
    let run = contract.run;
    // Only plan judges get the plan, and listing a large tree takes time.
    if !contract.seal.policy.judges.iter().any(|judge| judge.kind == JudgeKind::Plan) {
        return Err("no judge asks about a plan".to_string());
    }
    let sealed = run.lists.iter().position(|list| list.kind == ListKind::Plan);
    let plan = match sealed {
        Some(number) => {
            let paths = contract.world.home.run(&run.id);
            let items = run.lists.get(number).and_then(|seal| sealed_items(&paths, number, seal));
            let items = items.ok_or("the sealed copy of the plan is missing or was edited")?;
            Some(serde_json::to_vec(&items).map_err(|error| error.to_string())?)
        }
        None => read_base_plan(compared, contract.project(), deadline)?,
    };
    match plan {
        Some(bytes) if bytes.len() > MAX_PLAN_BYTES => {
            Err(format!("the plan has {} bytes, more than {MAX_PLAN_BYTES}", bytes.len()))
        }
        Some(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        None => Err(describe_missing_plan(contract, compared, deadline)),
    }
}

/// A file that git ignores is not in the base, so a person who sees it there has to be told why it does not count.
fn describe_missing_plan(
    contract: &ContractContext<'_>,
    compared: &ComparedTrees<'_>,
    deadline: &Deadline,
) -> String {
    let path = compared.project_path(contract.project()).join(PLAN_FILE);
    let root = compared.repository.root();
    let is_ignored = || {
        let path = path.to_str()?;
        git::is_ignored(root, path, deadline).ok().flatten()
    };
    if fs::exists(&root.join(&path)) && is_ignored() == Some(true) {
        return format!(
            "git ignores `{PLAN_FILE}`, so it is not part of the work: start the run with `--plan {PLAN_FILE}`"
        );
    }
    MISSING_PLAN.to_string()
}

/// Read from git's objects, in which no link is followed.
fn read_base_plan(
    compared: &ComparedTrees<'_>,
    project: &Path,
    deadline: &Deadline,
) -> Result<Option<Vec<u8>>, String> {
    let ComparedTrees { repository, base, .. } = compared;
    let describe = |error| describe_error(&error);
    let wanted = compared.project_path(project).join(PLAN_FILE);
    let files = repository.checkpoint_files(base, deadline).map_err(describe)?;
    let Some(file) = files.iter().find(|file| Path::new(&file.path) == wanted) else {
        return Ok(None);
    };
    match file.version.mode {
        TreeEntryMode::File | TreeEntryMode::Executable => {}
        TreeEntryMode::Symlink | TreeEntryMode::Repository => {
            return Err(format!("`{PLAN_FILE}` is not a regular file"));
        }
    }
    let id = file.version.id;
    let mut blobs =
        repository.read_blobs(&[id], MAX_PLAN_BYTES, MAX_PLAN_BYTES, deadline).map_err(describe)?;
    match blobs.remove(&id) {
        Some(BlobContent::Content(bytes)) => Ok(Some(bytes)),
        Some(BlobContent::TooLarge(size)) => {
            Err(format!("`{PLAN_FILE}` has {size} bytes, more than {MAX_PLAN_BYTES}"))
        }
        Some(BlobContent::Missing) | None => {
            Err(format!("the content of `{PLAN_FILE}` is missing"))
        }
    }
}

/// What ralph measured, one line for each requirement. Times are left out, so that the same content gives the same case.
pub(super) fn evidence_lines(
    requirements: &[Requirement],
    gates: &[GateRecord],
    proof: Option<&Proof>,
) -> Vec<CaseEvidence> {
    let line = |one: &Requirement| {
        let RequirementStatus::Met(evidence) = &one.status else { return None };
        let result = match evidence {
            EvidenceKind::Measured => gate_result(&one.name, gates),
            EvidenceKind::Claimed => "claimed, not measured".to_string(),
            EvidenceKind::Backed => "claimed, while all gates pass".to_string(),
            EvidenceKind::Judged => return None,
        };
        Some(CaseEvidence { requirement: one.name.clone(), result })
    };
    let met = requirements.iter().filter(|one| one.is_required()).filter_map(line);
    let proof = proof
        .map(|proof| CaseEvidence { requirement: "proof".to_string(), result: proof.describe() });
    met.take(MAX_EVIDENCE).chain(proof).collect()
}

fn gate_result(name: &str, gates: &[GateRecord]) -> String {
    let record = gates.iter().find(|gate| gate.name == name && gate.site == MeasuredSite::Tree);
    match record {
        Some(GateRecord { outcome, tests: Some(tests), .. }) => {
            format!("{outcome}, {}", text::count_noun(tests.run, "test"))
        }
        Some(GateRecord { outcome, .. }) => outcome.clone(),
        None => "met".to_string(),
    }
}

/// The case of a change without a run.
#[derive(Debug)]
pub struct ManualCase<'a> {
    pub judge: &'a Judge,
    pub goal: &'a str,
    /// Those of the policy.
    pub gates: &'a [Gate],
    pub compared: ComparedTrees<'a>,
    pub project: &'a Path,
    pub rules: &'a ClassRules,
    pub redactor: &'a Redactor,
}

impl ManualCase<'_> {
    pub fn build(&self, deadline: &Deadline) -> Result<JudgeCase, String> {
        let Self { judge, goal, gates, compared, project, rules, redactor } = self;
        let change = read_change(compared, project, rules, redactor, deadline)?;
        let plan = read_own_plan(project).map(|plan| redactor.redact(&text::clean(&plan)));
        let goal = redactor.redact(&text::clean(goal));
        let trees = compared.tree_ids();
        let contract = judged_contract::gate_items(gates, redactor);
        CaseFacts { goal, contract, evidence: Vec::new(), change, plan, trees }.case_for(judge)
    }
}

/// The plan in the work tree. A link could send any file of the person to the judge.
fn read_own_plan(project: &Path) -> Result<String, String> {
    let path = project.join(PLAN_FILE);
    if fs::stat_no_follow(&path).is_some_and(|stat| stat.kind == FileKind::Symlink) {
        return Err(format!("`{PLAN_FILE}` is a link, and links are not followed"));
    }
    match fs::read_if_exists(&path, MAX_PLAN_BYTES) {
        Ok(Some(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(None) => Err(format!("there is no `{PLAN_FILE}` to compare with")),
        Err(error) => Err(describe_error(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_sys::fs::Durability;

    #[test]
    fn a_patch_has_one_section_per_file() {
        let one = "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+diff --git a/y b/y\n";
        let two = "diff --git a/z b/z\n+\u{0}\u{1}\u{fffd}\u{fffd}x\n";
        let patch = format!("{one}{two}");
        assert_eq!(split_patch(&patch), [one, two]);
        assert_eq!(split_patch(""), [""; 0]);
        assert!(is_shown(one));
        assert!(!is_shown(two));
        assert!(is_shown("diff --git a/x b/x\n@@ -0,0 +1 @@\n+exit 0 # \u{0}\n"));
    }

    #[test]
    fn only_existing_tests_are_amended() {
        use ChangeStatus::{Added, Deleted, Modified, TypeChanged};
        let all = [Added, Modified, Deleted, TypeChanged];
        let amended = |class| all.map(|status| is_amended_test(class, status));
        for class in [FileClass::Tests, FileClass::Harness] {
            assert_eq!(amended(class), [false, true, true, true], "{class:?}");
        }
        for class in [FileClass::Code, FileClass::Environment] {
            assert_eq!(amended(class), [false; 4], "{class:?}");
        }
    }

    /// Large files cannot push a small one out of the case.
    #[test]
    fn the_smallest_changes_are_kept() {
        let mut files = CaseFiles::default();
        for (name, size, is_test) in
            [("a", 60, false), ("b", 60, false), ("c", 10, false), ("t", 20, true)]
        {
            let section = ShownSection {
                text: name.repeat(size),
                hidden_places: u32::from(name == "c"),
                hides_other_lines: false,
            };
            files.shown.push(ShownFile { name: name.to_string(), is_test, section });
        }
        files.omitted_code.push("z".to_string());
        let change = files.into_change(100);
        assert_eq!(
            (change.diff, change.test_diff),
            (format!("{}{}", "a".repeat(60), "c".repeat(10)), "t".repeat(20))
        );
        assert_eq!(change.omitted, ["z", "b"]);
        assert_eq!(change.redacted, [RedactedFile { file: "c".to_string(), places: 1 }]);
        let omitted_code = (0..MAX_OMITTED + 2).map(|number| number.to_string()).collect();
        let many = CaseFiles { omitted_code, ..CaseFiles::default() };
        let omitted = many.into_change(100).omitted;
        assert_eq!(
            (omitted.len(), omitted.last().unwrap().as_str()),
            (MAX_OMITTED + 1, "and 2 other files")
        );
    }

    #[test]
    fn sections_belong_to_paths() {
        use ChangeStatus::{Added, Modified, TypeChanged};
        let all = [Modified, TypeChanged, Added];
        let shown = |sections: &[&str], is_truncated: bool| {
            match_sections(&all, sections, is_truncated).map(|matched| {
                let join = |one: Option<&[&str]>| one.map_or("-".to_string(), <[&str]>::concat);
                matched.iter().copied().map(join).collect::<Vec<_>>().join(" ")
            })
        };
        let mismatch = || Err(MISMATCH_TEXT.to_string());
        for (sections, is_truncated, expected) in [
            // A file that becomes a link has two sections, and the next file is not hidden.
            (&["a", "b", "B", "c"][..], false, Ok("a bB c".to_string())),
            (&["a", "b", "B"], true, Ok("a bB -".to_string())),
            (&["a", "b"], true, Ok("a - -".to_string())),
            (&["a", "b", "B"], false, mismatch()),
            (&["a", "b", "B", "c", "d"], false, mismatch()),
            (&["a", "b", "B", "c", "d"], true, mismatch()),
        ] {
            assert_eq!(shown(sections, is_truncated), expected, "{sections:?}");
        }
    }

    #[test]
    fn a_plan_that_is_a_link_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let project = directory.path();
        assert!(read_own_plan(project).unwrap_err().starts_with("there is no "));
        let write = |name: &str, text: &str| {
            fs::replace(&project.join(name), text.as_bytes(), Durability::Cached).unwrap();
        };
        write("other", "secret");
        fs::replace_link(&project.join(PLAN_FILE), Path::new("other")).unwrap();
        assert!(read_own_plan(project).unwrap_err().contains("is a link"));
        fs::remove_file(&project.join(PLAN_FILE)).unwrap();
        write(PLAN_FILE, "- [ ] x\n");
        assert_eq!(read_own_plan(project).unwrap(), "- [ ] x\n");
    }
}
