//! Composes a file from the code of one version and the tests and harness of another.

use crate::documentation_examples::compare_examples;
use crate::file_class::{ClassReason, ClassRules, Classification, FileClass, classify_file};
use ralph_check::may_contain_tests;

use crate::naming_conventions::{
    MIXED_BUILD_FILES, MIXED_MANIFESTS, TEST_FILE_NAME, file_extension, is_ambiguous_data,
    is_project_manifest,
};
use crate::{ini_merge, json_merge, rust_splice, toml_merge};

/// Larger files are not searched for tests; if they could contain any, they are not separable.
pub const MAX_TEXT_BYTES: usize = 2 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComposedFile {
    /// The version on the code side; absent if it is absent there.
    TakeCode,
    /// The version on the test side; absent if it is absent there.
    TakeTests,
    /// The version on the code side. The file is named like a test and contains none: it is code, or a helper of tests.
    TakeUndecided,
    /// The code of the code side with the tests or settings of the test side.
    Text(String),
    /// Code and tests cannot be separated; the reason completes "it cannot be separated: …".
    NotSeparable(String),
}

/// Composes a file from its two versions; `None` is a version without the file. The same function composes new code
/// with old tests and old code with new tests.
pub fn compose_file(
    path: &str,
    code_side: Option<&str>,
    test_side: Option<&str>,
    rules: &ClassRules,
) -> ComposedFile {
    let Classification { class, why } = classify_file(path, rules);
    // In these languages programs have such names too.
    let is_test_name = why == ClassReason::Convention(TEST_FILE_NAME)
        && matches!(file_extension(path), "py" | "rs" | "js" | "mjs" | "cjs" | "ts");
    let mut sides = [code_side, test_side].into_iter().flatten();
    match class {
        // A product may have files that are named like tests. Tests cannot depend on a version without the file.
        FileClass::Tests if is_test_name && !sides.any(|text| may_contain_tests(path, text)) => {
            match test_side {
                Some(_) => ComposedFile::TakeUndecided,
                None => ComposedFile::TakeCode,
            }
        }
        // A file of which only the mode differs, too.
        FileClass::Tests | FileClass::Harness => ComposedFile::TakeTests,
        FileClass::Code | FileClass::Environment if code_side == test_side => {
            ComposedFile::TakeCode
        }
        FileClass::Environment => {
            ComposedFile::NotSeparable("code and tests share this environment".to_string())
        }
        FileClass::Code => {
            let Some(code) = code_side else { return compose_absent_code(path, test_side) };
            compose_code(path, code, test_side)
        }
    }
}

/// The code side does not have the file. A manifest goes with the tests, and a crate keeps its inline tests: otherwise the
/// runner could not start, and that would count as a test that fails, whatever the tests say.
fn compose_absent_code(path: &str, test_side: Option<&str>) -> ComposedFile {
    if is_project_manifest(path) {
        return ComposedFile::TakeTests;
    }
    let code = match path.rsplit_once("src/") {
        Some((_, "lib.rs")) => "",
        Some((_, "main.rs")) => "fn main() {}\n",
        // Inline tests have nothing to test.
        Some(_) | None => return ComposedFile::TakeCode,
    };
    let spliced = rust_splice::splice_inline_tests(code, test_side.unwrap_or_default());
    spliced.map_or(ComposedFile::TakeCode, |text| {
        ComposedFile::Text(text.unwrap_or_else(|| code.to_string()))
    })
}

fn compose_code(path: &str, code: &str, test_side: Option<&str>) -> ComposedFile {
    if is_ambiguous_data(path) {
        return ComposedFile::NotSeparable(
            "its directory may hold data of tests or of the product".to_string(),
        );
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_manifest = MIXED_MANIFESTS.contains(&name);
    let is_build_file = MIXED_BUILD_FILES.contains(&name);
    let needs_text = is_manifest || is_build_file || has_inline_tests(name);
    if !needs_text {
        return ComposedFile::TakeCode;
    }
    if code.len().max(test_side.map_or(0, str::len)) > MAX_TEXT_BYTES {
        return ComposedFile::NotSeparable("it is larger than 2 MiB".to_string());
    }
    // A version without the manifest has no settings.
    let tests = test_side.unwrap_or_default();
    let merged = match name {
        _ if is_build_file && test_side.is_none() => return ComposedFile::TakeCode,
        _ if is_build_file => Err("it builds both code and tests".to_string()),
        "Cargo.toml" | "pyproject.toml" => toml_merge::merge_toml(name, code, tests),
        "setup.cfg" => ini_merge::merge_ini(code, tests),
        _ if is_manifest => {
            let tests = test_side.unwrap_or("{}");
            json_merge::merge_json(code, tests, json_merge::json_harness_keys(name))
        }
        _ => compose_source(path, code, test_side),
    };
    match merged {
        Ok(None) => ComposedFile::TakeCode,
        Ok(Some(text)) => ComposedFile::Text(text),
        Err(why) => ComposedFile::NotSeparable(why),
    }
}

/// Whether the file may contain tests or settings besides code, so that it must be read to be taken apart.
pub(crate) fn needs_separation(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    MIXED_MANIFESTS.contains(&name) || MIXED_BUILD_FILES.contains(&name) || has_inline_tests(name)
}

fn has_inline_tests(name: &str) -> bool {
    let extension = file_extension(name);
    matches!(extension, "rs" | "py" | "pyi" | "ex" | "zig" | "md" | "rst")
        || matches!(extension, "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" | "vue")
}

fn compose_source(
    path: &str,
    code: &str,
    test_side: Option<&str>,
) -> Result<Option<String>, String> {
    // A version without the file has no tests and no examples in it.
    let tests = test_side.unwrap_or_default();
    if let Some(why) = test_side.and_then(|tests| compare_examples(path, code, tests)) {
        return Err(why.to_string());
    }
    if file_extension(path) == "rs" {
        rust_splice::splice_inline_tests(code, tests)
    } else {
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
