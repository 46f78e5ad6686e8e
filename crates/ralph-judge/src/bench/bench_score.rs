//! Scores the verdicts of a judge.

use super::bench_case::{BenchCase, DefectPlace};
use crate::presets::kind_name;
use ralph_core::judge::{Judge, JudgeFinding, JudgeOutcome, JudgeResult};
use ralph_core::text::collapse_whitespace;
use serde::{Serialize, Serializer};

/// A finding this many lines from a defect is about it.
const NEARBY_LINES: usize = 3;
const REPORT_VERSION: u8 = 1;

/// The result of a benchmark: the shape of `ralph judge bench --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchReport {
    pub v: u8,
    pub kind: &'static str,
    /// As the backend named it.
    pub model: Option<String>,
    pub score: BenchScore,
    pub cases: Vec<BenchRow>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BenchRow {
    pub case: String,
    pub language: String,
    /// `null` for a change without a defect.
    pub defect: Option<String>,
    pub verdict: &'static str,
    pub grade: BenchGrade,
    /// Why there is no verdict.
    pub why: Option<String>,
    pub findings: Vec<JudgeFinding>,
    pub misquoted: u32,
    pub unconfirmed: u32,
    pub calls: u32,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(rename = "usd", serialize_with = "serialize_usd")]
    pub micro_usd: Option<u64>,
    pub took_ms: u64,
    #[serde(skip)]
    model: Option<String>,
}

/// What a verdict is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BenchGrade {
    /// The defect was found.
    Found,
    /// There is a defect, but the findings are about something else.
    WrongPlace,
    /// There is a defect, and the verdict is `met`.
    Missed,
    /// There is no defect, and the verdict is `met`.
    Accepted,
    /// There is no defect, and the verdict is not `met`.
    FalseAlarm,
    Unsure,
    /// No call was made, for example because the budget is used up. This says nothing about the judge.
    NotAsked,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BenchScore {
    pub cases: u32,
    /// Cases without a call. The figures below are about the others.
    pub not_asked: u32,
    pub defects: u32,
    pub found: u32,
    pub wrong_place: u32,
    pub missed: u32,
    pub accepted: u32,
    pub false_alarms: u32,
    pub unsure: u32,
    /// Of the changes it objected to, how many for the right reason; `null` if there are none.
    pub precision: Option<f64>,
    /// Of the defects, how many it found; `null` if there are none.
    pub recall: Option<f64>,
    pub unsure_rate: Option<f64>,
    pub misquoted: u32,
    pub unconfirmed: u32,
    pub calls: u32,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Of the calls whose price is known.
    #[serde(rename = "usd", serialize_with = "serialize_usd")]
    pub micro_usd: Option<u64>,
    pub took_ms: u64,
}

impl BenchGrade {
    pub fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::WrongPlace => "wrong place",
            Self::Missed => "missed",
            Self::Accepted => "accepted",
            Self::FalseAlarm => "false alarm",
            Self::Unsure => "unsure",
            Self::NotAsked => "not asked",
        }
    }
}

impl BenchRow {
    pub(super) fn score(case: &BenchCase, result: &JudgeResult) -> Self {
        let has_defect = case.defect.is_some();
        let is_located = || result.findings.iter().any(|finding| is_about_defect(case, finding));
        let (verdict, grade, why) = match &result.outcome {
            JudgeOutcome::Unknown { why } => {
                let is_asked = result.usage.calls > 0;
                let grade = if is_asked { BenchGrade::Unsure } else { BenchGrade::NotAsked };
                ("unknown", grade, Some(why.clone()))
            }
            JudgeOutcome::Met if has_defect => ("met", BenchGrade::Missed, None),
            JudgeOutcome::Met => ("met", BenchGrade::Accepted, None),
            JudgeOutcome::Unmet if !has_defect => ("unmet", BenchGrade::FalseAlarm, None),
            JudgeOutcome::Unmet if is_located() => ("unmet", BenchGrade::Found, None),
            JudgeOutcome::Unmet => ("unmet", BenchGrade::WrongPlace, None),
            JudgeOutcome::Impossible if has_defect => ("impossible", BenchGrade::WrongPlace, None),
            JudgeOutcome::Impossible => ("impossible", BenchGrade::FalseAlarm, None),
        };
        Self {
            case: case.name.clone(),
            language: case.language.clone(),
            defect: case.defect.clone(),
            verdict,
            grade,
            why,
            findings: result.findings.clone(),
            misquoted: result.misquoted,
            unconfirmed: result.unconfirmed,
            calls: result.usage.calls,
            input_tokens: result.usage.input_tokens,
            output_tokens: result.usage.output_tokens,
            micro_usd: result.usage.micro_usd,
            took_ms: result.took_ms,
            model: result.model.clone(),
        }
    }
}

impl BenchReport {
    pub(super) fn new(judge: &Judge, rows: Vec<BenchRow>) -> Self {
        let model = rows.iter().find_map(|row| row.model.clone());
        let score = BenchScore::of_rows(&rows);
        Self { v: REPORT_VERSION, kind: kind_name(judge.kind), model, score, cases: rows }
    }
}

impl BenchScore {
    fn of_rows(rows: &[BenchRow]) -> Self {
        let mut score = Self::default();
        for row in rows {
            score.cases += 1;
            let is_asked = row.grade != BenchGrade::NotAsked;
            score.defects += u32::from(row.defect.is_some() && is_asked);
            let counter = match row.grade {
                BenchGrade::Found => &mut score.found,
                BenchGrade::WrongPlace => &mut score.wrong_place,
                BenchGrade::Missed => &mut score.missed,
                BenchGrade::Accepted => &mut score.accepted,
                BenchGrade::FalseAlarm => &mut score.false_alarms,
                BenchGrade::Unsure => &mut score.unsure,
                BenchGrade::NotAsked => &mut score.not_asked,
            };
            *counter += 1;
            score.misquoted = score.misquoted.saturating_add(row.misquoted);
            score.unconfirmed = score.unconfirmed.saturating_add(row.unconfirmed);
            score.calls = score.calls.saturating_add(row.calls);
            score.input_tokens = score.input_tokens.saturating_add(row.input_tokens);
            score.output_tokens = score.output_tokens.saturating_add(row.output_tokens);
            score.took_ms = score.took_ms.saturating_add(row.took_ms);
            if let Some(cost) = row.micro_usd {
                score.micro_usd = Some(score.micro_usd.unwrap_or(0).saturating_add(cost));
            }
        }
        let objected = score.found + score.wrong_place + score.false_alarms;
        score.precision = ratio(score.found, objected);
        score.recall = ratio(score.found, score.defects);
        score.unsure_rate = ratio(score.unsure, score.cases - score.not_asked);
        score
    }
}

/// To three digits, so that the figures of two runs can be compared as text.
fn ratio(part: u32, whole: u32) -> Option<f64> {
    let ratio = f64::from(part) / f64::from(whole);
    (whole > 0).then(|| (ratio * 1000.0).round() / 1000.0)
}

fn is_about_defect(case: &BenchCase, finding: &JudgeFinding) -> bool {
    case.places.iter().any(|place| is_at_place(case, place, finding))
}

fn is_at_place(case: &BenchCase, place: &DefectPlace, finding: &JudgeFinding) -> bool {
    let Some(file) = case.files.iter().find(|file| file.path == place.file) else { return false };
    if finding.file != place.file {
        return false;
    }
    // The place is a removed line. Such files have no other change.
    let Some(at) = file.after.find(&place.quote) else { return true };
    let line = file.after[..at].lines().count() + usize::from(file.after[..at].ends_with('\n'));
    let found = finding.line.and_then(|line| usize::try_from(line).ok());
    found.is_some_and(|found| found.abs_diff(line.max(1)) <= NEARBY_LINES)
        || collapse_whitespace(&finding.quote).contains(&collapse_whitespace(&place.quote))
}

/// Views show money in USD.
#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn serialize_usd<S: Serializer>(micro_usd: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    #[expect(clippy::cast_precision_loss, reason = "amounts below 9 billion dollars are exact")]
    let usd = micro_usd.map(|micro| micro as f64 / 1e6);
    usd.serialize(serializer)
}
