//! The project in the picture of `ralph prove`: a change with one part that a new test checks and one that none does.

use crate::bench::approve_policy;
use crate::{disk, shell};
use anyhow::Result;
use std::ffi::OsString;

const POLICY: &str = r#"[[gate]]
name = "tests"
run = ["node", "--test", "--test-reporter=junit", "--test-reporter-destination={report}"]
report = "junit"
"#;
const CODE: &str = "exports.total = (items) => {
  let sum = 0;
  for (const { price, count } of items) {
    sum += price * count;
  }
  return sum;
};
";
const NEW_CODE: &str = "exports.total = (items) => {
  let sum = 0;
  for (const { price, count } of items) {
    if (count < 0) throw new RangeError(\"a negative count\");
    sum += price * count;
  }
  return sum >= 100 ? sum * 0.9 : sum;
};
";
const TESTS: &str = "const test = require(\"node:test\");
const assert = require(\"node:assert\");
const { total } = require(\"../src/cart.js\");

test(\"an empty cart costs nothing\", () => assert.equal(total([]), 0));
test(\"prices add up\", () => assert.equal(total([{ price: 2, count: 3 }]), 6));
";
const NEW_TEST: &str = "test(\"large orders get a discount\", () =>
  assert.equal(total([{ price: 50, count: 2 }]), 90));
";

pub(super) fn prove_output() -> Result<String> {
    let ralph = shell::build_program("release", "ralph")?;
    let directory = tempfile::Builder::new().prefix("ralph-picture-").tempdir()?;
    let (home, project) = (directory.path().join("home"), directory.path().join("cart"));
    disk::create_directory(&home)?;
    let write =
        |path: &str, text: &str| disk::write_with_parents(&project.join(path), text.as_bytes());
    write("ralph.toml", POLICY)?;
    write("src/cart.js", CODE)?;
    write("tests/cart.test.js", TESTS)?;
    let env: Vec<(OsString, OsString)> = vec![
        ("HOME".into(), home.into()),
        ("PATH".into(), shell::path_variable()),
        ("CLICOLOR_FORCE".into(), "1".into()),
    ];
    shell::commit_all(&env, &project)?;
    approve_policy(&ralph, &env, &project)?;
    write("src/cart.js", NEW_CODE)?;
    write("tests/cart.test.js", &format!("{TESTS}{NEW_TEST}"))?;
    let mut prove = shell::command(ralph);
    prove.env_clear().envs(env).args(["prove", "--hunks", "10", "--project"]).arg(&project);
    Ok(String::from_utf8(shell::command_output(&mut prove)?)?)
}
