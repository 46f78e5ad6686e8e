//! Reports that consist of one file per test class, as Maven and Gradle write them.

use crate::sandbox::Sandbox;
use insta::assert_snapshot;
use serde_json::Value;

const POLICY: &str = "[[gate]]\nname = \"suite\"\nrun = [\"sh\", \"suite.sh\"]\nreport = \"junit\"\nreport_files = [\"target/surefire-reports/TEST-*.xml\"]\n";

/// Runs every file in `tests` and writes a report for each of them.
const SUITE: &str = r#"
mkdir -p target/surefire-reports
bad=0
for test in tests/*.sh; do
  class=$(basename "$test" .sh)
  if sh "$test" >/dev/null 2>&1; then failures=0; details=; else failures=1; bad=1; details='<failure message="no"/>'; fi
  echo "<testsuite name='shop.$class' tests='1' failures='$failures'><testcase name='works' classname='shop.$class'>$details</testcase></testsuite>" > "target/surefire-reports/TEST-$class.xml"
done
exit $bad
"#;

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", POLICY);
    sandbox.write("suite.sh", SUITE);
    sandbox.write(".gitignore", "target\n");
    sandbox.write("add.sh", "echo $(($1 + $2))\n");
    sandbox.write("tests/adds.sh", "test \"$(sh add.sh 1 2)\" = 3\n");
    sandbox.write("tests/zero.sh", "test \"$(sh add.sh 0 0)\" = 0\n");
    sandbox.approve_policy();
    sandbox.commit();
    sandbox
}

fn gate_result(sandbox: &Sandbox) -> String {
    let shown = sandbox.ralph(["gate", "run", "--no-cache", "--format", "json"]).stdout;
    let report: Value = serde_json::from_str(&shown).unwrap();
    let gate = &report["gates"][0];
    let findings = gate["findings"].as_array().unwrap().iter();
    let findings: Vec<String> = findings.map(|one| one["rule"].to_string()).collect();
    format!("{} {} {} {}", gate["outcome"], gate["tests"], gate["why"], findings.join(" "))
}

#[test]
fn only_reports_that_the_gate_wrote_count() {
    let sandbox = project();
    let stale = "<testsuite name='shop.gone' tests='1'><testcase name='works' classname='shop.gone'/></testsuite>";
    sandbox.write("target/surefire-reports/TEST-gone.xml", stale);
    assert_snapshot!(gate_result(&sandbox), @r#""passed" {"failed":0,"run":2,"skipped":0} null "#);
    let rewrite = |suite: &str| {
        sandbox.write("suite.sh", suite);
        sandbox.approve_policy();
        gate_result(&sandbox)
    };
    // The reports of the run before are left over, and count no more than the other one.
    assert_snapshot!(rewrite("exit 0\n"), @r#""inconclusive" null "the report was not written" "#);
    assert_snapshot!(rewrite(&SUITE.replace("</testsuite>\"", "\"")), @r#""inconclusive" {"failed":0,"run":2,"skipped":0} "the report is truncated" "#);
    // Nothing was built, so nothing was tested.
    assert_snapshot!(rewrite("echo 'e: Cart.kt: unresolved reference'\nexit 1\n"), @r#""failed" null null null"#);
    sandbox.write("tests/zero.sh", "test \"$(sh add.sh 0 0)\" = 1\n");
    assert_snapshot!(rewrite(SUITE), @r#""failed" {"failed":1,"run":2,"skipped":0} null "shop.zero::works""#);
}

/// In a checkout the reports are those of the checkout, and stale ones of the project do not count.
#[test]
fn reports_name_tests_in_checkouts() {
    let sandbox = project();
    sandbox.write(
        "target/surefire-reports/TEST-gone.xml",
        "<testsuite name='gone'><testcase name='works'/></testsuite>",
    );
    sandbox.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    let report: Value = serde_json::from_str(&sandbox.ralph(["prove", "--json"]).stdout).unwrap();
    assert_snapshot!(format!("{} {} {}", report["verdict"], report["telling"], report["held"]), @r#""verified" [{"gate":"suite","test":"shop.three > works"}] 2"#);
}
