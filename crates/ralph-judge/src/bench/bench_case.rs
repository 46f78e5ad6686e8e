//! One case of the benchmark: a goal, the files before and after a change, and where its defect is, if it has one.

use imara_diff::{Algorithm, Diff, InternedInput};
use ralph_core::judge::{CaseEvidence, Judge, JudgeCase};
use serde::Deserialize;
use std::ops::Range;

const CONTEXT_LINES: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchCase {
    pub name: String,
    pub language: String,
    pub goal: String,
    /// `None` for a change without a defect.
    pub defect: Option<String>,
    /// Where a finding about the defect points to: one of these places.
    pub places: Vec<DefectPlace>,
    /// Why a change without a defect may look as if it had one.
    pub suspicious: Option<String>,
    pub files: Vec<BenchFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefectPlace {
    pub file: String,
    /// Text of the file, after the change or before it.
    pub quote: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchFile {
    pub path: String,
    /// `None` for a new file.
    #[serde(default)]
    pub before: Option<String>,
    pub after: String,
    #[serde(default, rename = "test")]
    pub is_test: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum BenchCaseError {
    #[error("the case `{name}` cannot be read")]
    Syntax { name: String, source: toml::de::Error },
    #[error("the case `{name}` {why}")]
    Invalid { name: String, why: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseWire {
    language: String,
    goal: String,
    #[serde(default)]
    defect: Option<String>,
    #[serde(default)]
    places: Vec<DefectPlace>,
    #[serde(default)]
    suspicious: Option<String>,
    file: Vec<BenchFile>,
}

impl BenchCase {
    pub fn parse(name: &str, text: &str) -> Result<Self, BenchCaseError> {
        let wire: CaseWire = toml::from_str(text)
            .map_err(|source| BenchCaseError::Syntax { name: name.to_string(), source })?;
        let case = Self {
            name: name.to_string(),
            language: wire.language,
            goal: wire.goal,
            defect: wire.defect,
            places: wire.places,
            suspicious: wire.suspicious,
            files: wire.file,
        };
        case.check().map_err(|why| BenchCaseError::Invalid { name: name.to_string(), why })?;
        Ok(case)
    }

    fn check(&self) -> Result<(), String> {
        if self.defect.is_some() == self.places.is_empty() {
            return Err("must have both a defect and its places, or neither".to_string());
        }
        for place in &self.places {
            let file = self.files.iter().find(|file| file.path == place.file);
            let has_quote = file.is_some_and(|file| {
                let before = file.before.as_deref().unwrap_or_default();
                file.after.contains(&place.quote) || before.contains(&place.quote)
            });
            if !has_quote {
                return Err(format!("has no `{}` in `{}`", place.quote, place.file));
            }
        }
        match self.files.iter().find(|file| file.before.as_deref() == Some(&file.after)) {
            Some(same) => Err(format!("does not change `{}`", same.path)),
            None => Ok(()),
        }
    }

    /// The facts, as a judge of a run gets them.
    pub fn judge_case(&self, judge: &Judge) -> JudgeCase {
        let diffs = |is_test: bool| -> String {
            self.files.iter().filter(|file| file.is_test == is_test).map(BenchFile::diff).collect()
        };
        let passed = CaseEvidence { requirement: "tests".into(), result: "passed".into() };
        JudgeCase {
            v: 1,
            judge: judge.name.clone(),
            kind: judge.kind,
            goal: self.goal.clone(),
            contract: Vec::new(),
            evidence: vec![passed],
            diff: diffs(false),
            test_diff: diffs(true),
            plan: None,
            omitted: Vec::new(),
            redacted: Vec::new(),
        }
    }
}

impl BenchFile {
    fn diff(&self) -> String {
        let before = self.before.as_deref().unwrap_or_default();
        let path = &self.path;
        let old = if self.before.is_some() { format!("a/{path}") } else { "/dev/null".to_string() };
        let mut out = format!("diff --git a/{path} b/{path}\n--- {old}\n+++ b/{path}\n");
        let input = InternedInput::new(before, self.after.as_str());
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        let old_lines: Vec<&str> = before.lines().collect();
        let new_lines: Vec<&str> = self.after.lines().collect();
        let mut group: Vec<LineHunk> = Vec::new();
        for hunk in diff.hunks() {
            let hunk = LineHunk { old: to_range(hunk.before), new: to_range(hunk.after) };
            let is_far = |last: &LineHunk| hunk.old.start - last.old.end > 2 * CONTEXT_LINES;
            if group.last().is_some_and(is_far) {
                out.push_str(&print_group(&group, &old_lines, &new_lines));
                group.clear();
            }
            group.push(hunk);
        }
        out.push_str(&print_group(&group, &old_lines, &new_lines));
        out
    }
}

/// Lines that were replaced by others, counted from 0.
struct LineHunk {
    old: Range<usize>,
    new: Range<usize>,
}

fn to_range(lines: Range<u32>) -> Range<usize> {
    let number = |line: u32| usize::try_from(line).unwrap_or(usize::MAX);
    number(lines.start)..number(lines.end)
}

/// One `@@` section: changes with the lines around and between them. imara-diff prints wrong line numbers for sections near
/// the start of a file, and judges read them.
fn print_group(group: &[LineHunk], old: &[&str], new: &[&str]) -> String {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return String::new() };
    let lead = first.old.start.min(CONTEXT_LINES);
    let trail = (old.len() - last.old.end).min(CONTEXT_LINES);
    let olds = first.old.start - lead..last.old.end + trail;
    let news = first.new.start - lead..last.new.end + trail;
    // An empty side begins at line 0.
    let start = |lines: &Range<usize>| if lines.is_empty() { lines.start } else { lines.start + 1 };
    let mut out =
        format!("@@ -{},{} +{},{} @@\n", start(&olds), olds.len(), start(&news), news.len());
    let mut print = |mark: char, lines: &[&str]| {
        for line in lines {
            out.push_str(&format!("{mark}{line}\n"));
        }
    };
    let mut at = olds.start;
    for hunk in group {
        print(' ', old.get(at..hunk.old.start).unwrap_or_default());
        print('-', old.get(hunk.old.clone()).unwrap_or_default());
        print('+', new.get(hunk.new.clone()).unwrap_or_default());
        at = hunk.old.end;
    }
    print(' ', old.get(at..olds.end).unwrap_or_default());
    out
}
