//! A benchmark for judges: small changes, of which most have one planted defect, and a scorer. It measures a judge
//! before its verdicts hold agents.

pub mod bench_case;
pub mod bench_score;
mod case_texts;

use crate::bench::bench_case::{BenchCase, BenchCaseError};
use crate::bench::bench_score::{BenchReport, BenchRow};
use ralph_core::judge::{Judge, JudgeCase, JudgeResult};
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError, FreshDir};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Case(#[from] BenchCaseError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("there is no case `{0}`")]
    UnknownCase(String),
}

/// The cases that ship with ralph: all of them, or those with these names.
pub fn shipped_cases(names: &[String]) -> Result<Vec<BenchCase>, BenchError> {
    let all: Result<Vec<_>, _> =
        case_texts::CASE_TEXTS.iter().map(|(name, text)| BenchCase::parse(name, text)).collect();
    let mut all = all?;
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|case| case.name != **name)) {
        return Err(BenchError::UnknownCase(unknown.clone()));
    }
    all.retain(|case| names.is_empty() || names.contains(&case.name));
    Ok(all)
}

/// Puts each case to a judge and scores its verdicts. `ask` gets the case and a directory with the changed files;
/// `on_row` gets every row as soon as it is known.
pub fn run_bench(
    judge: &Judge,
    cases: &[BenchCase],
    scratch: &Path,
    mut ask: impl FnMut(&JudgeCase, &Path) -> JudgeResult,
    mut on_row: impl FnMut(&BenchRow),
) -> Result<BenchReport, BenchError> {
    let mut rows = Vec::new();
    for case in cases {
        let directory = FreshDir::create(scratch.join(format!("bench-{:016x}", clock::nonce())))?;
        for file in &case.files {
            let path = directory.path().join(&file.path);
            if let Some(parent) = path.parent() {
                fs::create_private_dir(parent)?;
            }
            fs::replace(&path, file.after.as_bytes(), Durability::Cached)?;
        }
        let result = ask(&case.judge_case(judge), directory.path());
        let row = BenchRow::score(case, &result);
        on_row(&row);
        rows.push(row);
    }
    Ok(BenchReport::new(judge, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge_tests::judge;
    use ralph_core::judge::{JudgeFinding, JudgeKind, JudgeOutcome, JudgeUsage};

    /// 20 changes with a defect and 10 without one, each of them valid and listed.
    #[test]
    fn thirty_cases_ship() {
        let cases = shipped_cases(&[]).unwrap_or_else(|error| panic!("{error:?}"));
        let defects = cases.iter().filter(|case| case.defect.is_some()).count();
        assert_eq!((cases.len(), defects), (30, 20));
        let suspicious = cases.iter().filter(|case| case.suspicious.is_some()).count();
        assert_eq!(suspicious, 10);
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/cases");
        let mut files: Vec<_> = fs::list(&directory, 1000)
            .unwrap()
            .into_iter()
            .map(|name| name.into_string().unwrap().replace(".toml", ""))
            .collect();
        files.sort();
        let names: Vec<_> = cases.iter().map(|case| case.name.clone()).collect();
        assert_eq!(names, files);
        let error = shipped_cases(&["none".to_string()]).unwrap_err();
        assert_eq!(error.to_string(), "there is no case `none`");
    }

    /// The judge gets a diff, and tests apart from it.
    #[test]
    fn a_case_becomes_facts() {
        let diff = |name: &str| {
            let case = &shipped_cases(&[name.to_string()]).unwrap()[0];
            let facts = case.judge_case(&judge(JudgeKind::Prompt));
            facts.diff + &facts.test_diff
        };
        let headers: Vec<_> = ["go-map-race", "shell-unset-directory"]
            .map(|name| {
                diff(name).lines().filter(|line| line.starts_with("@@")).collect::<String>()
            })
            .into();
        assert_eq!(headers, ["@@ -1,13 +1,22 @@", "@@ -0,0 +1,9 @@"]);
        let case = &shipped_cases(&["python-deleted-assertion".to_string()]).unwrap()[0];
        let facts = case.judge_case(&judge(JudgeKind::Prompt));
        insta::assert_snapshot!(format!("{}{}", facts.diff, facts.test_diff), @"
        diff --git a/app/stats.py b/app/stats.py
        --- a/app/stats.py
        +++ b/app/stats.py
        @@ -1,5 +1,2 @@
         def mean(values):
        -    total = 0
        -    for value in values:
        -        total += value
        -    return total / len(values) if values else None
        +    return sum(values) / len(values)
        diff --git a/tests/test_stats.py b/tests/test_stats.py
        --- a/tests/test_stats.py
        +++ b/tests/test_stats.py
        @@ -3,4 +3,3 @@
         
         def test_mean():
             assert mean([1, 2, 3]) == 2
        -    assert mean([]) is None
        ");
    }

    fn answer(outcome: JudgeOutcome, findings: Vec<JudgeFinding>) -> JudgeResult {
        JudgeResult {
            judge: "review".into(),
            outcome,
            findings,
            reason: None,
            dropped: Vec::new(),
            misquoted: 1,
            unread: 0,
            rejected_tests: Vec::new(),
            unconfirmed: 0,
            unseen: Vec::new(),
            prompt_hash: String::new(),
            model: Some("m".into()),
            usage: JudgeUsage {
                calls: 1,
                input_tokens: 10,
                output_tokens: 2,
                micro_usd: Some(3),
                ..JudgeUsage::default()
            },
            took_ms: 5,
            cached: false,
        }
    }

    /// A judge that finds 12 of 20 defects, points elsewhere twice, misses 4, is unsure twice, and raises one false alarm
    /// has exactly these figures.
    #[test]
    fn the_score_counts_every_grade() {
        let cases = shipped_cases(&[]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut defects = 0;
        let mut clean = 0;
        let report = run_bench(
            &judge(JudgeKind::Goal),
            &cases,
            directory.path(),
            |facts, files| {
                let case = cases.iter().find(|case| {
                    case.goal == facts.goal && {
                        let file = &case.files[0];
                        fs::read(&files.join(&file.path), 10_000)
                            .is_ok_and(|text| text == file.after.as_bytes())
                    }
                });
                let case = case.unwrap();
                let Some(place) = case.places.first() else {
                    clean += 1;
                    return match clean {
                        1 => answer(JudgeOutcome::Unmet, Vec::new()),
                        _ => answer(JudgeOutcome::Met, Vec::new()),
                    };
                };
                defects += 1;
                let finding = JudgeFinding {
                    file: place.file.clone(),
                    quote: place.quote.clone(),
                    ..JudgeFinding::default()
                };
                let elsewhere = JudgeFinding { file: "other".into(), ..finding.clone() };
                match defects {
                    1..=12 => answer(JudgeOutcome::Unmet, vec![finding]),
                    13 => answer(JudgeOutcome::Unmet, vec![elsewhere]),
                    14 => answer(JudgeOutcome::Impossible, Vec::new()),
                    15..=18 => answer(JudgeOutcome::Met, Vec::new()),
                    _ => answer(JudgeOutcome::Unknown { why: "x".into() }, Vec::new()),
                }
            },
            |_| {},
        );
        let score = report.unwrap().score;
        insta::assert_snapshot!(serde_json::to_string_pretty(&score).unwrap(), @r#"
        {
          "cases": 30,
          "not_asked": 0,
          "defects": 20,
          "found": 12,
          "wrong_place": 2,
          "missed": 4,
          "accepted": 9,
          "false_alarms": 1,
          "unsure": 2,
          "precision": 0.8,
          "recall": 0.6,
          "unsure_rate": 0.067,
          "misquoted": 30,
          "unconfirmed": 0,
          "calls": 30,
          "input_tokens": 300,
          "output_tokens": 60,
          "usd": 0.00009,
          "took_ms": 150
        }
        "#);
        assert_eq!(fs::list(directory.path(), 9).unwrap(), [""; 0]);
    }
}
