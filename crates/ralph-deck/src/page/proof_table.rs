//! The four runs of a proof: old and new code with old and new tests.

use ralph_core::proof::{BaseResults, ProofRuns};
use ralph_core::proof_summary::ProofRecord;
use ralph_core::record::{MeasuredSite, StopRecord};
use ralph_core::text;
use serde::Serialize;

const LONGEST_DOUBT: usize = 600;
const NOT_MEASURED: &str = "not measured";

/// The four runs of a proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProofTable {
    /// `verified`, `green`, `needs_review` or `failed`.
    pub verdict: String,
    pub rows: Vec<ProofTableRow>,
    pub doubts: Vec<String>,
}

/// A run of a proof: which code with which tests, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProofTableRow {
    /// `T0` to `T3`.
    pub name: &'static str,
    pub code: &'static str,
    pub tests: &'static str,
    pub result: String,
    /// `None` where nothing is required of the run, or where it was not measured.
    pub passed: Option<bool>,
}

impl ProofTable {
    /// Whether the proof rests on tests that fail without the change.
    pub fn has_telling_tests(&self) -> bool {
        self.rows.iter().any(|row| row.name == "T3" && row.passed == Some(true))
    }
}

/// The result of a run, and whether it is the one that a proof needs.
struct ProofRunResult {
    text: String,
    passed: Option<bool>,
}

pub(super) fn proof_table(decided: &StopRecord) -> Option<ProofTable> {
    let proof = decided.proof.as_ref()?;
    let runs = proof.runs_or_assumed();
    let row = |name, code, tests, result: ProofRunResult| ProofTableRow {
        name,
        code,
        tests,
        result: result.text,
        passed: result.passed,
    };
    let rows = vec![
        row("T0", "old", "old", base_result(runs.base)),
        row("T1", "new", "new", new_result(decided)),
        row("T2", "new", "old", old_tests_result(proof, &runs)),
        row("T3", "old", "new", new_tests_result(proof, &runs)),
    ];
    let doubts = proof.doubts.iter().map(|doubt| text::clean_line(doubt, LONGEST_DOUBT)).collect();
    Some(ProofTable { verdict: proof.verdict.name().to_string(), rows, doubts })
}

/// Nothing is required of the old code with its own tests. It shows which failures are old.
fn base_result(base: Option<BaseResults>) -> ProofRunResult {
    let Some(base) = base else { return not_measured() };
    let failed = if base.failed > 0 { format!(", {} failed", base.failed) } else { String::new() };
    let text = format!("{}{failed}", gates_result(base.passed, base.gates, base.tests));
    ProofRunResult { text, passed: None }
}

fn new_result(decided: &StopRecord) -> ProofRunResult {
    let has_clean = decided.gates.iter().any(|gate| gate.site == MeasuredSite::Clean);
    let site = if has_clean { MeasuredSite::Clean } else { MeasuredSite::Tree };
    let is_new = |site: MeasuredSite| site != MeasuredSite::Base;
    let mut outcomes = decided.gates.iter().filter(|gate| is_new(gate.site));
    let passed = (!decided.gates.is_empty()).then(|| outcomes.all(|gate| gate.outcome == "passed"));
    ProofRunResult { text: site_result(decided, site), passed }
}

fn old_tests_result(proof: &ProofRecord, runs: &ProofRuns) -> ProofRunResult {
    if runs.old_tests == 0 && proof.broken_count == 0 {
        return not_measured();
    }
    let removed = match proof.removed.len() {
        0 => String::new(),
        1 => "; 1 of them no longer runs".to_string(),
        count => format!("; {count} of them no longer run"),
    };
    let result = match proof.held.saturating_add(proof.broken_count) {
        0 => "no old tests".to_string(),
        all => {
            let verb = if all == 1 { "passes" } else { "pass" };
            format!("{} of {} {verb}{removed}", proof.held, text::count_noun(all, "old test"))
        }
    };
    let missing = missing_result(runs.old_tests, runs.gates);
    let passed = match (proof.broken_count, &missing) {
        (0, Some(_)) => None,
        (broken, _) => Some(broken == 0),
    };
    ProofRunResult { text: format!("{result}{}", missing.unwrap_or_default()), passed }
}

fn new_tests_result(proof: &ProofRecord, runs: &ProofRuns) -> ProofRunResult {
    if runs.new_tests == 0 && proof.telling == 0 {
        return not_measured();
    }
    let missing = missing_result(runs.new_tests, runs.gates);
    let result = match proof.telling {
        0 => "no test fails without the change".to_string(),
        1 => "1 test fails without the change".to_string(),
        count => format!("{count} tests fail without the change"),
    };
    let passed = match (proof.telling, &missing) {
        (0, Some(_)) => None,
        (telling, _) => Some(telling > 0),
    };
    ProofRunResult { text: format!("{result}{}", missing.unwrap_or_default()), passed }
}

/// `; 1 of 2 gates gave no result`
fn missing_result(measured: u32, gates: u32) -> Option<String> {
    let missing = gates.saturating_sub(measured);
    (missing > 0)
        .then(|| format!("; {missing} of {} gave no result", text::count_noun(gates, "gate")))
}

fn not_measured() -> ProofRunResult {
    ProofRunResult { text: NOT_MEASURED.to_string(), passed: None }
}

fn site_result(decided: &StopRecord, site: MeasuredSite) -> String {
    let gates: Vec<_> = decided.gates.iter().filter(|gate| gate.site == site).collect();
    if gates.is_empty() {
        return "not recorded at this stop".to_string();
    }
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let passed = gates.iter().filter(|gate| gate.outcome == "passed").count();
    let tests = gates.iter().filter_map(|gate| gate.tests);
    let tests = tests.map(|tests| tests.run).fold(0, u32::saturating_add);
    gates_result(count(passed), count(gates.len()), tests)
}

/// `6 of 6 gates passed, 148 tests`
fn gates_result(passed: u32, gates: u32, tests: u32) -> String {
    let tests =
        if tests > 0 { format!(", {}", text::count_noun(tests, "test")) } else { String::new() };
    format!("{passed} of {} passed{tests}", text::count_noun(gates, "gate"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::record::{JournalEntry, RunChange};
    use serde_json::{Value, json};

    /// The table of a stop with these parts, as a journal has them.
    fn show_table(gates: &Value, proof: &Value) -> String {
        let line = json!({
            "v": 2, "seq": 1, "at_ms": 0, "prev": "", "iteration": 0, "change": {"decided": {
                "rule": "proof", "outcome": {"ended": "green"}, "because": "", "took_ms": 1,
                "gates": gates, "proof": proof,
            }},
        });
        let entry: JournalEntry = serde_json::from_value(line).unwrap();
        let RunChange::Decided(decided) = &entry.change else { unreachable!() };
        let table = proof_table(decided).unwrap();
        let line = |row: &ProofTableRow| {
            let mark = match row.passed {
                Some(true) => "✓",
                Some(false) => "✗",
                None => "-",
            };
            format!("{} {mark} {}", row.name, row.result)
        };
        let lines: Vec<_> = table.rows.iter().map(line).collect();
        format!("{} {:?}\n{}", table.verdict, table.doubts, lines.join("\n"))
    }

    fn gate(site: &str, outcome: &str, run: u32) -> Value {
        let tests = json!({"run": run, "failed": 0, "skipped": 0});
        json!({"name": "tests", "site": site, "outcome": outcome, "took_ms": 5, "tests": tests, "key": "k"})
    }

    #[test]
    fn a_table_has_every_run_of_a_proof() {
        let gates = json!([gate("tree", "passed", 12), gate("clean", "passed", 12)]);
        let proof = json!({
            "verdict": "verified", "held": 9, "telling": 2, "broken_count": 0, "removed": ["old"],
            "runs": {
                "gates": 1, "old_tests": 1, "new_tests": 1,
                "base": {"gates": 1, "passed": 0, "tests": 11, "failed": 2},
            },
        });
        insta::assert_snapshot!(show_table(&gates, &proof), @"
        verified []
        T0 - 0 of 1 gate passed, 11 tests, 2 failed
        T1 ✓ 1 of 1 gate passed, 12 tests
        T2 ✓ 9 of 9 old tests pass; 1 of them no longer runs
        T3 ✓ 2 tests fail without the change
        ");
        let proof = json!({
            "verdict": "needs_review", "held": 0, "telling": 0, "broken_count": 1,
            "runs": {"gates": 2, "old_tests": 1, "new_tests": 2, "base": {"gates": 1, "passed": 1, "tests": 0, "failed": 0}},
        });
        insta::assert_snapshot!(show_table(&json!([gate("tree", "failed", 0)]), &proof), @"
        needs_review []
        T0 - 1 of 1 gate passed
        T1 ✗ 0 of 1 gate passed
        T2 ✗ 0 of 1 old test passes; 1 of 2 gates gave no result
        T3 ✗ no test fails without the change
        ");
    }

    /// A proof that could not be made has measured nothing, which is neither a pass nor a failure.
    #[test]
    fn a_run_that_did_not_take_place_is_not_measured() {
        let doubt = "the work tree could not be checkpointed";
        let mut proof = json!({
            "verdict": "green", "held": 0, "telling": 0, "broken_count": 0, "doubts": [doubt],
            "runs": {"gates": 0, "old_tests": 0, "new_tests": 0},
        });
        let expected = "green [\"the work tree could not be checkpointed\"]
T0 - not measured
T1 - not recorded at this stop
T2 - not measured
T3 - not measured";
        assert_eq!(show_table(&json!([]), &proof), expected);
        // Older versions recorded no more than this.
        proof.as_object_mut().unwrap().remove("runs");
        assert_eq!(show_table(&json!([]), &proof), expected);
        proof["held"] = json!(3);
        proof["doubts"] = json!([]);
        insta::assert_snapshot!(show_table(&json!([]), &proof), @"
        green []
        T0 - not measured
        T1 - not recorded at this stop
        T2 ✓ 3 of 3 old tests pass
        T3 ✗ no test fails without the change
        ");
        proof["runs"] = json!({"gates": 2, "old_tests": 1, "new_tests": 1});
        insta::assert_snapshot!(show_table(&json!([]), &proof), @"
        green []
        T0 - not measured
        T1 - not recorded at this stop
        T2 - 3 of 3 old tests pass; 1 of 2 gates gave no result
        T3 - no test fails without the change; 1 of 2 gates gave no result
        ");
    }

    /// A project without tests at its base has nothing to hold, which is measured.
    #[test]
    fn a_base_without_tests_is_measured() {
        let proof = json!({
            "verdict": "verified", "held": 0, "telling": 1, "broken_count": 0,
            "runs": {"gates": 1, "old_tests": 1, "new_tests": 1, "base": {"gates": 1, "passed": 0, "tests": 0, "failed": 0}},
        });
        insta::assert_snapshot!(show_table(&json!([gate("tree", "passed", 1)]), &proof), @"
        verified []
        T0 - 0 of 1 gate passed
        T1 ✓ 1 of 1 gate passed, 1 test
        T2 ✓ no old tests
        T3 ✓ 1 test fails without the change
        ");
    }

    /// A forged journal may have any numbers; a screen shows the greatest possible instead of failing.
    #[test]
    fn numbers_of_a_table_do_not_overflow() {
        let most = u32::MAX;
        let runs = json!({
            "gates": most, "old_tests": most, "new_tests": 0,
            "base": {"gates": most, "passed": most, "tests": most, "failed": most},
        });
        let proof = json!({
            "verdict": "green", "held": u64::MAX, "telling": u64::MAX, "broken_count": u64::MAX, "runs": runs,
        });
        let gates = json!([gate("tree", "passed", most), gate("tree", "passed", most)]);
        insta::assert_snapshot!(show_table(&gates, &proof), @"
        green []
        T0 - 4294967295 of 4294967295 gates passed, 4294967295 tests, 4294967295 failed
        T1 ✓ 2 of 2 gates passed, 4294967295 tests
        T2 ✗ 18446744073709551615 of 18446744073709551615 old tests pass
        T3 ✓ 18446744073709551615 tests fail without the change; 4294967295 of 4294967295 gates gave no result
        ");
    }
}
