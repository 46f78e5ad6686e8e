//! `CMake` and Meson: configures, builds and runs the registered tests.

use std::path::Path;

use ralph_core::gate::{GateInvocation, ReportFormat};

use super::gate_draft::{GateAspect, GateDraft};
use super::project_dir::{self, DetectionNotes, ProjectDir};

struct NativeBuild {
    file: &'static str,
    tools: &'static [&'static str],
    /// Text that registers a test.
    marks: &'static [&'static str],
    canonical: &'static [&'static str],
    steps: &'static str,
    report: ReportFormat,
}

const NATIVE_BUILDS: [NativeBuild; 2] = [
    NativeBuild {
        file: "CMakeLists.txt",
        tools: &["cmake", "ctest"],
        marks: &["enable_testing", "include(CTest)", "add_test("],
        canonical: &["cmake", "ctest"],
        steps: "cmake -S . -B \"$dir\" && cmake --build \"$dir\" && ctest --test-dir \"$dir\" --output-on-failure --no-tests=error --output-junit \"$RALPH_REPORT\"",
        report: ReportFormat::Junit,
    },
    NativeBuild {
        file: "meson.build",
        tools: &["meson", "ninja"],
        marks: &["test("],
        canonical: &["meson", "ninja"],
        steps: "meson setup \"$dir\" && meson test -C \"$dir\" --print-errorlogs",
        report: ReportFormat::Text,
    },
];

pub(super) fn native_gates(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<GateDraft> {
    let mut drafts = Vec::new();
    for build in &NATIVE_BUILDS {
        if !place.has_entry(build.file) {
            continue;
        }
        let source = place.relative(build.file);
        let text = place.read_text(build.file, notes).unwrap_or_default();
        if !build.marks.iter().any(|mark| text.contains(mark)) {
            continue;
        }
        // The build directory must not be in the work tree, unless git ignores it.
        let start = if is_ignored(place, "build", notes) {
            "dir=build"
        } else {
            "dir=$(mktemp -d) && trap 'rm -rf \"$dir\"' EXIT"
        };
        let line = format!("{start} && {}", build.steps);
        drafts.push(
            GateDraft::new(place, "tests", GateAspect::Test, GateInvocation::Shell(line))
                .with_tool(place.find_tools(build.tools))
                .with_report(build.report)
                .covering(build.canonical)
                .with_reason(&source, format!("`{source}` registers tests")),
        );
    }
    drafts
}

fn is_ignored(place: &ProjectDir<'_>, directory: &str, notes: &mut DetectionNotes) -> bool {
    if !place.has_entry(".gitignore") {
        return false;
    }
    let ignored = place.read_text(".gitignore", notes).unwrap_or_default();
    ignored.lines().any(|line| line.trim().trim_matches('/') == directory)
}

/// Files of build systems whose tests need a gate.
const BUILD_FILES: [&str; 16] = [
    "BUILD.bazel",
    "CMakeLists.txt",
    "Gemfile",
    "MODULE.bazel",
    "Makefile",
    "Package.swift",
    "Rakefile",
    "build.zig",
    "composer.json",
    "configure.ac",
    "dune-project",
    "meson.build",
    "mix.exs",
    "rebar.config",
    "stack.yaml",
    "tox.ini",
];

/// Notes the build files of directories in which no gate runs tests: a proposal that says nothing about them would look
/// complete.
pub(super) fn note_uncovered(
    places: &[ProjectDir<'_>],
    drafts: &[GateDraft],
    notes: &mut DetectionNotes,
) {
    for place in places.iter().filter(|place| !place.cwd.contains('/')) {
        let has_tests = |draft: &GateDraft| {
            matches!(draft.aspect, GateAspect::Test | GateAspect::Whole)
                && (draft.gate.cwd == place.cwd || draft.gate.cwd.is_empty())
        };
        for file in BUILD_FILES.iter().filter(|file| place.has_entry(file)) {
            // A build file above includes those below it.
            let mut above = Path::new(&place.cwd).ancestors();
            let is_built = above.any(|cwd| {
                let file = project_dir::join_relative(&cwd.to_string_lossy(), file);
                drafts.iter().any(|draft| has_tests(draft) && draft.is_from(&file))
            });
            let is_native = NATIVE_BUILDS.iter().any(|build| build.file == *file);
            let is_covered = if is_native { is_built } else { drafts.iter().any(has_tests) };
            if !is_covered {
                notes.add(&format!("`{}`: its tests are not covered", place.relative(file)));
            }
        }
    }
}
