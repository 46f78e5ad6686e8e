//! JVM languages: Maven and Gradle, run through their wrapper scripts if there are any.

use super::ToolLookup;
use super::gate_draft::{GateAspect, GateDraft};
use super::project_dir::{DetectionNotes, ProjectDir};

const GRADLE_FILES: [&str; 4] =
    ["settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts"];

pub(super) fn jvm_gates(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<GateDraft> {
    let maven = if place.has_entry("pom.xml") { maven_gate(place, notes) } else { None };
    let gradle = place.first_present(&GRADLE_FILES).map(|file| gradle_gate(place, file));
    maven.into_iter().chain(gradle).collect()
}

fn maven_gate(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Option<GateDraft> {
    let source = place.relative("pom.xml");
    let text = place.read_text("pom.xml", notes)?;
    // Integration tests run in `verify`, and only if the failsafe plugin is configured.
    let goal = if text.contains("maven-failsafe-plugin") { "verify" } else { "test" };
    notes.add(&format!(
        "`{source}`: Maven writes one report per test class to `target/surefire-reports`; the gate reads Maven's output instead"
    ));
    Some(
        wrapper_gate(place, "mvnw", "mvn", &["-B", "-q", goal])
            .covering(&["maven"])
            .with_reason(&source, format!("`{source}` defines a Maven project")),
    )
}

fn gradle_gate(place: &ProjectDir<'_>, file: &str) -> GateDraft {
    let source = place.relative(file);
    wrapper_gate(place, "gradlew", "gradle", &["test", "--console=plain"])
        .covering(&["gradle"])
        .with_reason(&source, format!("`{source}` defines a Gradle project"))
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
