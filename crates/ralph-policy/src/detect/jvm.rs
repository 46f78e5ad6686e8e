//! JVM languages: Maven and Gradle, run through their wrapper scripts if there are any.

use super::ToolLookup;
use super::gate_draft::{GateAspect, GateDraft};
use super::project_dir::{DetectionNotes, ProjectDir};

const GRADLE_FILES: [&str; 4] =
    ["settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts"];

/// Files that name the plugins of a Gradle build.
const PLUGIN_FILES: [&str; 5] = [
    "settings.gradle",
    "settings.gradle.kts",
    "build.gradle",
    "build.gradle.kts",
    "gradle/libs.versions.toml",
];
const TEST_SOURCES: &str = "src/test";

pub(super) fn jvm_gates(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<GateDraft> {
    let maven = if place.has_entry("pom.xml") { maven_gate(place, notes) } else { None };
    let gradle = place.first_present(&GRADLE_FILES).map(|file| gradle_gate(place, file, notes));
    maven.into_iter().chain(gradle).collect()
}

fn maven_gate(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Option<GateDraft> {
    let source = place.relative("pom.xml");
    let text = place.read_text("pom.xml", notes)?;
    // Integration tests run in `verify`, and only if the failsafe plugin is configured.
    let has_integration = text.contains("maven-failsafe-plugin");
    let goal = if has_integration { "verify" } else { "test" };
    let gate = wrapper_gate(place, "mvnw", "mvn", &["-B", "-q", goal])
        .covering(&["maven"])
        .with_reason(&source, format!("`{source}` defines a Maven project"));
    let modules = text.split("<module>").skip(1).filter_map(|rest| rest.split('<').next());
    let modules: Vec<&str> = modules.map(str::trim).collect();
    let has_tests = text.contains("<testSourceDirectory>")
        || place.has_path(TEST_SOURCES)
        || modules.iter().any(|module| place.has_path(&format!("{module}/{TEST_SOURCES}")));
    if !has_tests {
        return Some(gate);
    }
    let below = if modules.is_empty() { "" } else { "**/" };
    let globs =
        ["surefire", "failsafe"].map(|plugin| format!("{below}target/{plugin}-reports/TEST-*.xml"));
    let globs: Vec<&str> =
        globs.iter().take(1 + usize::from(has_integration)).map(String::as_str).collect();
    Some(gate.with_report_files(&globs))
}

fn gradle_gate(place: &ProjectDir<'_>, file: &str, notes: &mut DetectionNotes) -> GateDraft {
    let source = place.relative(file);
    let present = PLUGIN_FILES.iter().filter(|file| place.has_path(file));
    let texts: Vec<String> = present.filter_map(|file| place.read_text(file, notes)).collect();
    let mentions = |word: &str| texts.iter().any(|text| text.contains(word));
    let has_parts = file.starts_with("settings") && mentions("include");
    // The tasks of Android have other names, and `cleanTest` would not make them run again.
    let names_tests = !mentions("com.android") && (has_parts || place.has_path(TEST_SOURCES));
    let gate = |words| {
        wrapper_gate(place, "gradlew", "gradle", words)
            .covering(&["gradle"])
            .with_reason(&source, format!("`{source}` defines a Gradle project"))
    };
    if !names_tests {
        return gate(&["test", "--console=plain"]);
    }
    let below = if has_parts { "**/" } else { "" };
    // Gradle writes no reports if the results of an earlier run are up to date.
    gate(&["cleanTest", "test", "--console=plain"])
        .with_report_files(&[&format!("{below}build/test-results/**/TEST-*.xml")])
}

fn wrapper_gate(place: &ProjectDir<'_>, wrapper: &str, plain: &str, rest: &[&str]) -> GateDraft {
    let own = format!("./{wrapper}");
    let start: &[&str] = match (place.has_entry(wrapper), place.find_tool(&own)) {
        (true, ToolLookup::Found(_)) => &[&own],
        // The executable bit is missing, as after a download.
        (true, ToolLookup::Missing(_)) => &["sh", &own],
        (false, _) => &[plain],
    };
    let words = [start, rest].concat();
    let first = words.first().copied().unwrap_or_default();
    GateDraft::from_words(place, "tests", GateAspect::Test, &words)
        .with_tool(place.find_tools(&[first, "java"]))
}
