//! What judges said over many runs, how many of their findings were dropped, and what they cost.

use super::stats_rows::{StatsJudge, StatsProject, StatsRows};
use crate::json_units;
use serde::Serialize;
use std::collections::BTreeMap;

/// A judge of a project over all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JudgeStatistics {
    pub judge: String,
    pub project: StatsProject,
    /// `prompt`, `agent`, `adversarial`, `plan`, `goal` or `amended`.
    pub kind: String,
    pub runs: u64,
    /// How often it was asked. A verdict that was known already is not asked for again.
    pub asked: u64,
    /// Verdicts that were known already.
    pub cached: u64,
    pub met: u64,
    pub unmet: u64,
    pub impossible: u64,
    pub no_verdict: u64,
    /// Findings that were dropped because their quote is not in the file.
    pub misquoted: u64,
    /// Findings that were dropped because no other reviewer confirmed them.
    pub unconfirmed: u64,
    pub tokens: u64,
    /// `None` if no cost is known.
    #[serde(rename = "cost_usd", serialize_with = "json_units::optional_usd")]
    pub micro_usd: Option<u64>,
}

/// Judges, the most often asked first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JudgeTable {
    pub rows: Vec<JudgeStatistics>,
    pub left_out: usize,
    pub next: Option<String>,
}

pub(super) fn judge_table(rows: &StatsRows, most: usize) -> JudgeTable {
    let runs = rows.by_id();
    let mut groups: BTreeMap<(&str, &str), Vec<&StatsJudge>> = BTreeMap::new();
    for judge in &rows.judges {
        if let Some(run) = runs.get(judge.run.as_str()) {
            groups.entry((&run.project, &judge.name)).or_default().push(judge);
        }
    }
    let mut rows: Vec<_> =
        groups.into_iter().map(|((project, _), judges)| summarize(project, &judges)).collect();
    rows.sort_by_key(|judge| std::cmp::Reverse((judge.asked, judge.cached)));
    let left_out = rows.len().saturating_sub(most);
    rows.truncate(most);
    let has_misquotes = rows.iter().any(|judge| judge.misquoted > 0);
    let next = has_misquotes
        .then(|| "`ralph judge bench` measures how often a judge is right".to_string());
    JudgeTable { rows, left_out, next }
}

fn summarize(project: &str, judges: &[&StatsJudge]) -> JudgeStatistics {
    let sum = |field: fn(&StatsJudge) -> u64| {
        judges.iter().map(|judge| field(judge)).fold(0, u64::saturating_add)
    };
    let (verdicts, cached) = (sum(|judge| judge.verdicts.into()), sum(|judge| judge.cached.into()));
    let costs = judges.iter().filter_map(|judge| judge.micro_usd);
    let last = judges.last();
    JudgeStatistics {
        judge: last.map(|judge| judge.name.clone()).unwrap_or_default(),
        project: StatsProject::of(project),
        kind: last.map(|judge| judge.kind.clone()).unwrap_or_default(),
        runs: u64::try_from(judges.len()).unwrap_or(u64::MAX),
        asked: verdicts.saturating_sub(cached),
        cached,
        met: sum(|judge| judge.met.into()),
        unmet: sum(|judge| judge.unmet.into()),
        impossible: sum(|judge| judge.impossible.into()),
        no_verdict: sum(|judge| judge.no_verdict.into()),
        misquoted: sum(|judge| judge.misquoted.into()),
        unconfirmed: sum(|judge| judge.unconfirmed.into()),
        tokens: sum(|judge| judge.tokens),
        micro_usd: costs.reduce(u64::saturating_add),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::stats::StatsRun;

    #[test]
    fn the_verdicts_of_a_judge_are_added_up_by_project() {
        let run = |id: &str, project: &str| StatsRun {
            id: id.to_string(),
            project: project.to_string(),
            ..StatsRun::default()
        };
        let judge = |run: &str, name: &str, verdicts: u32| StatsJudge {
            run: run.to_string(),
            name: name.to_string(),
            kind: "prompt".to_string(),
            verdicts,
            cached: 1,
            met: 1,
            unmet: verdicts - 1,
            misquoted: 2,
            unconfirmed: 1,
            tokens: 100,
            micro_usd: (name == "review").then_some(5_000),
            ..StatsJudge::default()
        };
        let rows = StatsRows {
            runs: vec![run("a1", "/shop"), run("a2", "/shop"), run("b1", "/site")],
            judges: vec![
                judge("a1", "review", 3),
                judge("a2", "review", 4),
                judge("b1", "review", 2),
                judge("a1", "goal", 1),
                judge("gone", "goal", 9),
            ],
            ..StatsRows::default()
        };
        let table = judge_table(&rows, 2);
        assert_eq!((table.left_out, table.next.is_some()), (1, true));
        let shown = table.rows.iter().map(|row| serde_json::to_string(row).unwrap());
        insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @r#"
        {"judge":"review","project":{"name":"shop","path":"/shop"},"kind":"prompt","runs":2,"asked":5,"cached":2,"met":2,"unmet":5,"impossible":0,"no_verdict":0,"misquoted":4,"unconfirmed":2,"tokens":200,"cost_usd":0.01}
        {"judge":"review","project":{"name":"site","path":"/site"},"kind":"prompt","runs":1,"asked":1,"cached":1,"met":1,"unmet":1,"impossible":0,"no_verdict":0,"misquoted":2,"unconfirmed":1,"tokens":100,"cost_usd":0.005}
        "#);
    }
}
