use super::*;
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::policy::TestPolicy;

fn no_rules() -> ClassRules {
    ClassRules::new(&Policy::default(), Vec::new())
}

/// Files of public projects: psf/requests, pallets/click, gorilla/mux, BurntSushi/ripgrep, expressjs/express,
/// google/gson, rspec/rspec-core, vitejs/vite, jestjs/jest, sebastianbergmann/phpunit.
const REAL_FILES: &[(FileClass, &[&str])] = &[
    (
        FileClass::Code,
        &[
            "src/requests/certs.py",
            "requirements-dev.txt",
            "setup.py",
            "uv.lock",
            "pyproject.toml",
            "src/click/testing.py",
            "examples/completion/pyproject.toml",
            "docs/SnapshotTesting.md",
            "mux.go",
            "go.mod",
            "build.rs",
            "Cargo.lock",
            "Cargo.toml",
            "crates/core/main.rs",
            "crates/globset/benches/bench.rs",
            "crates/grep/examples/simplegrep.rs",
            "examples/auth/index.js",
            "package.json",
            "gson/src/main/java/com/google/gson/Gson.java",
            "pom.xml",
            "lib/rspec/core/example_group.rb",
            "exe/rspec",
            "Gemfile",
            "benchmarks/call_v_yield.rb",
            "packages/vite/src/node/plugins/asset.ts",
            "packages/vite/client.d.ts",
            "pnpm-lock.yaml",
            "packages/jest-core/src/FailedTestsCache.ts",
            "packages/pretty-format/__benchmarks__/test.js",
            "src/Event/Events/Test/AdditionalInformationProvided.php",
            "composer.json",
            ".github/CONTRIBUTING.md",
        ],
    ),
    (
        FileClass::Tests,
        &[
            "tests/__init__.py",
            "tests/certs/expired/Makefile",
            "tests/test_utils/test_echo.py",
            "bench_test.go",
            "example_route_test.go",
            "test_helpers.go",
            "crates/ignore/tests/gitignore_skip_bom.gitignore",
            "crates/searcher/src/testutil.rs",
            "tests/data/sherlock.gz",
            "test/fixtures/.name",
            "test/acceptance/auth.js",
            "gson/src/test/java/com/google/gson/common/MoreAsserts.java",
            "gson/src/test/resources/testcases-proguard.conf",
            "features/clear_examples.feature",
            "features/support/diff_lcs_versions.rb",
            "spec/rspec/core_spec.rb",
            "spec/rspec/core/resources/a_bar.rb",
            "playground/alias/__tests__/alias.spec.ts",
            "packages/vite/src/node/__tests__/fixtures/config/siblings/foo.ts",
            "packages/vite/src/node/__tests__/plugins/fixtures/sass/node_modules/a/index.scss",
            "e2e/failures/__tests__/__snapshots__/snapshot.test.js.snap",
            "e2e/package.json",
            "tests/_files/failure.phpt",
            "tests/_files/3194.php",
        ],
    ),
    (
        FileClass::Harness,
        &[
            ".coveragerc",
            "tox.ini",
            "Makefile",
            "tests/conftest.py",
            ".pre-commit-config.yaml",
            ".github/workflows/run-tests.yml",
            ".cargo/config.toml",
            "rustfmt.toml",
            "ci/test-complete",
            ".eslintrc.yml",
            ".npmrc",
            ".mvn/jvm.config",
            ".rspec",
            "Rakefile",
            "spec/spec_helper.rb",
            "script/run_build",
            "vitest.config.e2e.ts",
            "eslint.config.js",
            "packages/vite/tsconfig.check.json",
            "jest",
            "jest.config.mjs",
            "babel.config.js",
            "tsconfig.test.json",
            "scripts/lintTs.mjs",
            "phpunit",
            "phpunit.xml",
            "phpstan.neon",
        ],
    ),
    (FileClass::Environment, &[".yarn/releases/yarn-4.18.0.cjs"]),
];

#[test]
fn files_of_public_projects_have_the_class_that_their_authors_meant() {
    for (expected, paths) in REAL_FILES {
        for path in *paths {
            let found = classify_file(path, &no_rules());
            assert_eq!(found.class, *expected, "{path}: {}", found.why);
        }
    }
}

/// R-S5b: a new test is run without the change only if it can be separated from the code.
#[test]
fn names_of_each_ecosystem_decide_the_class() {
    use FileClass::{Code, Environment, Harness, Tests};
    for (path, expected) in [
        ("src/lib.rs", Code),
        ("src/parser/tests.rs", Tests),
        ("src/parser/test.rs", Tests),
        ("src/latests.rs", Code),
        ("src/snapshots/a__b.snap", Tests),
        ("src/app.py", Code),
        ("app/tests.py", Tests),
        ("pkg/a_test.py", Tests),
        ("src/a.test.tsx", Tests),
        ("src/a.spec.mts", Tests),
        ("src/test-utils.ts", Tests),
        ("src/latest.ts", Code),
        ("internal/testutil/assert.go", Tests),
        ("pkg/testdata/in.txt", Tests),
        ("app/src/commonTest/kotlin/A.kt", Tests),
        ("src/main/java/UserTest.java", Tests),
        ("Sources/App/App.swift", Code),
        ("Tests/AppTests/A.swift", Tests),
        ("App.Tests/App.Tests.csproj", Tests),
        ("lib/a_test.exs", Tests),
        ("lib/a_test.dart", Tests),
        ("t/basic.t", Tests),
        ("src/a_unittest.cc", Tests),
        ("check.bats", Tests),
        ("spec/openapi.yaml", Code),
        ("spec/plan.md", Code),
        ("golden/out.txt", Tests),
        ("cassettes/login.yml", Tests),
        // Harness.
        ("ralph.toml", Harness),
        ("noxfile.py", Harness),
        ("justfile", Harness),
        ("Taskfile.yml", Harness),
        (".config/nextest.toml", Harness),
        ("rust-toolchain.toml", Harness),
        ("bunfig.toml", Harness),
        (".env.test.local", Harness),
        ("vite.config.ts", Harness),
        ("next.config.js", Code),
        ("scripts/test.sh", Harness),
        ("scripts/seed.py", Code),
        ("bin/deploy.sh", Code),
        ("gradlew", Harness),
        // New files that shadow a runner, or that a runner imports.
        ("pytest.py", Harness),
        ("unittest/__init__.py", Harness),
        ("sitecustomize.py", Harness),
        ("src/usercustomize.py", Harness),
        ("a.pth", Harness),
        ("jest.js", Harness),
        ("bin/cargo", Harness),
        ("src/coverage.py", Code),
        ("src/go", Code),
        // Environments.
        ("node_modules/jest/bin/jest.js", Environment),
        ("web/node_modules/a/tests/a.js", Environment),
        (".venv/lib/python3/site-packages/pytest.py", Environment),
        ("src/__pycache__/a.cpython-312.pyc", Environment),
        ("vendor/github.com/stretchr/testify/assert.go", Environment),
        ("src/vendor/a.js", Code),
        ("target/debug/app", Environment),
        ("crates/a/target/release/app", Environment),
        ("src/target/mod.rs", Code),
        (".pnp.cjs", Environment),
        ("", Code),
        ("/", Code),
    ] {
        let found = classify_file(path, &no_rules());
        assert_eq!(found.class, expected, "{path}: {}", found.why);
    }
}

#[test]
fn the_policy_decides_before_the_name_does() {
    let command = GateInvocation::Argv(vec!["./check".to_string(), "data".to_string()]);
    let mut suite = Gate::new("suite", command);
    suite.tests = vec!["cases/**".to_string()];
    let tests = TestPolicy {
        paths: vec!["acceptance/*.txt".to_string(), "src/selftest.rs".to_string()],
        harness: vec!["tools/**".to_string(), "tests/run.py".to_string()],
        ..TestPolicy::default()
    };
    let policy = Policy { gates: vec![suite], tests, ..Policy::default() };
    let file = |path: &str| GateFile {
        gate: "suite".to_string(),
        path: path.to_string(),
        role: GateFileRole::Judge,
    };
    let files = ["check", "package.json", "tests/a.rs"].map(file);
    let rules = ClassRules::new(&policy, files.to_vec());
    let mut shown = String::new();
    for path in [
        "acceptance/a.txt",
        "acceptance/deep/a.txt",
        "src/selftest.rs",
        "tools/run/a.py",
        "tests/run.py",
        "cases/1/in.json",
        "check",
        "package.json",
        "tests/a.rs",
        "src/main.rs",
        "notes.txt",
    ] {
        let found = classify_file(path, &rules);
        shown.push_str(&format!("{path}: {}: {}\n", found.class.name(), found.why));
    }
    insta::assert_snapshot!(shown, @"
    acceptance/a.txt: tests: `[tests] paths` contains `acceptance/*.txt`
    acceptance/deep/a.txt: code: no other rule applies
    src/selftest.rs: tests: `[tests] paths` contains `src/selftest.rs`
    tools/run/a.py: harness: `[tests] harness` contains `tools/**`
    tests/run.py: harness: `[tests] harness` contains `tests/run.py`
    cases/1/in.json: tests: `tests` of gate `suite` contains `cases/**`
    check: harness: the command of gate `suite` names it
    package.json: code: it is a manifest; only its sections about tests and tools go with the tests
    tests/a.rs: tests: it is in a directory for tests
    src/main.rs: code: it is Rust; only its inline tests go with the tests
    notes.txt: code: no other rule applies
    ");
}

/// R-V1b: files that decide what old tests expect go with them, also beside the code.
#[test]
fn expected_results_and_assertions_of_shells_are_tests() {
    let cases = [
        ("expected/receipt.json", FileClass::Tests),
        ("lib/assert.sh", FileClass::Tests),
        ("lib/assert.js", FileClass::Code),
    ];
    for (path, expected) in cases {
        assert_eq!(
            crate::naming_conventions::classify_by_name(path)
                .map_or(FileClass::Code, |(class, _)| class),
            expected,
            "{path}"
        );
    }
}
