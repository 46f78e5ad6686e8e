//! A failure of tests is confirmed by running the failed tests alone, with real runners.

use crate::real_projects::{
    install_go_toolchain, install_python_packages, install_test_runners, pass_variables,
};
use crate::sandbox::Sandbox;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A runner, and a project with a test that passes and one that fails. Both append their names to the file `$RAN`.
struct RunnerProject {
    name: &'static str,
    packages: Option<(PathBuf, &'static str)>,
    command: &'static str,
    report: &'static str,
    files: &'static [(&'static str, &'static str)],
}

const NODE_TEST: &str = "const fs = require('node:fs');
const assert = require('node:assert');
describe('a group', () => {
  it('is good (1 + 1)', () => { fs.appendFileSync(process.env.RAN, 'good '); });
  it('is bad (2 * 2)', () => { fs.appendFileSync(process.env.RAN, 'bad '); assert.equal(2 * 2, 5); });
});
";
const OWN_NODE_TEST: &str = "const fs = require('node:fs');
const assert = require('node:assert');
const { describe, it } = require('node:test');
describe('a group', () => {
  it('is good (1 + 1)', () => { fs.appendFileSync(process.env.RAN, 'good '); });
  it('is bad (2 * 2)', () => { fs.appendFileSync(process.env.RAN, 'bad '); assert.equal(2 * 2, 5); });
});
";
const UNITTEST_TEST: &str = "import os
import unittest


def note(word):
    with open(os.environ['RAN'], 'a') as file:
        file.write(word + ' ')


class GroupCase(unittest.TestCase):
    def test_good(self):
        note('good')

    def test_bad(self):
        note('bad')
        self.assertEqual(2 * 2, 5)
";
const VITEST_TEST: &str = "import fs from 'node:fs';
import { describe, expect, it } from 'vitest';
describe('a group', () => {
  it('is good (1 + 1)', () => { fs.appendFileSync(process.env.RAN, 'good '); });
  it('is bad (2 * 2)', () => { fs.appendFileSync(process.env.RAN, 'bad '); expect(2 * 2).toBe(5); });
});
";
const PYTHON_TEST: &str = "import os


def note(word):
    with open(os.environ['RAN'], 'a') as file:
        file.write(word + ' ')


class TestGroup:
    def test_good(self):
        note('good')

    def test_bad(self):
        note('bad')
        assert 2 * 2 == 5
";
const RUST_TEST: &str = r#"#[cfg(test)]
mod tests {
    use std::io::Write;

    fn note(word: &str) {
        let path = std::env::var("RAN").unwrap();
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.unwrap().write_all(format!("{word} ").as_bytes()).unwrap();
    }

    #[test]
    fn good() {
        note("good");
    }

    #[test]
    fn bad() {
        note("bad");
        assert_eq!(2 * 2, 5);
    }
}
"#;
const GO_TEST: &str = r#"package sum

import (
	"os"
	"testing"
)

func note(word string) {
	file, _ := os.OpenFile(os.Getenv("RAN"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	file.WriteString(word + " ")
	file.Close()
}

func TestGood(t *testing.T) { note("good") }

func TestBad(t *testing.T) {
	note("bad")
	t.Error("2 * 2 is not 5")
}
"#;

fn runner_projects() -> Option<Vec<RunnerProject>> {
    let modules = || Some((install_test_runners()?.join("node_modules"), "node_modules"));
    Some(vec![
        RunnerProject {
            name: "pytest",
            packages: Some((install_python_packages()?, ".venv")),
            command: r#"[".venv/bin/python", "-m", "pytest", "-q", "--junitxml={report}"]"#,
            report: "junit",
            files: &[("tests/test_sum.py", PYTHON_TEST), ("tests/__init__.py", "")],
        },
        RunnerProject {
            name: "mocha",
            packages: modules(),
            command: r#"["node_modules/.bin/mocha", "spec", "--reporter=tap"]"#,
            report: "tap",
            files: &[("spec/sum.js", NODE_TEST)],
        },
        RunnerProject {
            name: "node",
            packages: None,
            command: r#"["node", "--test", "--test-reporter=junit", "--test-reporter-destination={report}"]"#,
            report: "junit",
            files: &[("sum.test.js", OWN_NODE_TEST)],
        },
        RunnerProject {
            name: "npm test",
            packages: None,
            command: r#"["npm", "test"]"#,
            report: "text",
            files: &[
                ("sum.test.js", OWN_NODE_TEST),
                (
                    "package.json",
                    r#"{"scripts": {"test": "true && npm run unit", "unit": "node --test"}}"#,
                ),
            ],
        },
        RunnerProject {
            name: "unittest",
            packages: None,
            command: r#"["python3", "-m", "unittest", "discover", "-s", "tests"]"#,
            report: "text",
            files: &[("tests/test_sum.py", UNITTEST_TEST)],
        },
        RunnerProject {
            name: "jest",
            packages: modules(),
            command: r#"["node_modules/.bin/jest", "--ci", "--verbose"]"#,
            report: "text",
            files: &[("sum.test.js", NODE_TEST), ("package.json", "{}\n")],
        },
        RunnerProject {
            name: "vitest",
            packages: modules(),
            command: r#"["node_modules/.bin/vitest", "run", "--reporter=junit", "--outputFile={report}"]"#,
            report: "junit",
            files: &[("sum.test.js", VITEST_TEST), ("package.json", "{\"type\": \"module\"}\n")],
        },
        RunnerProject {
            name: "cargo",
            packages: None,
            command: r#"["cargo", "test", "--offline"]"#,
            report: "text",
            files: &[
                ("src/lib.rs", RUST_TEST),
                ("Cargo.toml", "[package]\nname = \"sum\"\nedition = \"2024\"\n"),
                (
                    "Cargo.lock",
                    "# This file is automatically @generated by Cargo.\n# It is not intended for manual editing.\nversion = 4\n\n[[package]]\nname = \"sum\"\nversion = \"0.0.0\"\n",
                ),
            ],
        },
        RunnerProject {
            name: "go",
            packages: Some((install_go_toolchain()?, ".go")),
            command: r#"[".go/bin/go", "test", "-json", "./..."]"#,
            report: "go-test-json",
            files: &[("sum_test.go", GO_TEST), ("go.mod", "module example.com/sum\n")],
        },
    ])
}

impl RunnerProject {
    fn sandbox(&self, ran: &Path, sandbox: Sandbox) -> Sandbox {
        let home = std::env::home_dir().unwrap();
        let variables = [
            ("CARGO_HOME", home.join(".cargo")),
            ("RUSTUP_HOME", home.join(".rustup")),
            ("RAN", ran.to_owned()),
        ];
        let mut sandbox = variables
            .into_iter()
            .fold(sandbox, |sandbox, (name, path)| sandbox.env(name, path.to_str().unwrap()));
        let Self { command, report, .. } = self;
        let gate = format!(
            "[[gate]]\nname = \"tests\"\nrun = {command}\nreport = \"{report}\"\nenv = [\"RAN\", \"GOCACHE\"]\n"
        );
        sandbox.write("ralph.toml", crate::sandbox::without_proof(&gate));
        for (path, text) in self.files {
            sandbox.write(path, text);
        }
        if let Some((installed, name)) = &self.packages {
            symlink(installed, sandbox.project().join(name)).unwrap();
            sandbox = sandbox.env("GOCACHE", installed.join("cache").to_str().unwrap());
        }
        sandbox.write(".gitignore", "node_modules\n.venv\n.go\ntarget\n__pycache__\n");
        sandbox.commit();
        sandbox.approve_policy();
        sandbox
    }
}

/// The failed test runs twice, the other one once, and the failure counts as confirmed.
#[test]
fn failed_tests_run_again_alone() {
    let Some(projects) = runner_projects() else { return };
    for project in projects {
        let sandbox = pass_variables(Sandbox::new());
        let ran = sandbox.root().join("ran");
        let sandbox = project.sandbox(&ran, sandbox);
        let shown = sandbox.ralph(["gate", "run", "--format", "json"]);
        let report: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        let gate = &report["gates"][0];
        let words = fs::read_to_string(&ran).unwrap_or_default();
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.sort_unstable();
        assert_eq!(
            (project.name, &gate["outcome"], &gate["steadiness"], words.join(" ").as_str()),
            (project.name, &"failed".into(), &"confirmed".into(), "bad bad good"),
            "{shown}"
        );
    }
}
