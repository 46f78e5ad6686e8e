//! JVM languages: Maven and Gradle, run through their wrapper scripts if there are any.

use super::Tool;
use super::draft::{Aspect, Draft};
use super::place::{Notes, Place};

const GRADLE_FILES: [&str; 4] =
    ["settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts"];

pub(super) fn look(place: &Place<'_>, notes: &mut Notes) -> Vec<Draft> {
    let maven = if place.has("pom.xml") { maven(place, notes) } else { None };
    let gradle = place.first(&GRADLE_FILES).map(|file| gradle(place, file));
    maven.into_iter().chain(gradle).collect()
}

fn maven(place: &Place<'_>, notes: &mut Notes) -> Option<Draft> {
    let source = place.relative("pom.xml");
    let text = place.text("pom.xml", notes)?;
    // Integration tests run in `verify`, and only if the failsafe plugin is configured.
    let goal = if text.contains("maven-failsafe-plugin") { "verify" } else { "test" };
    notes.add(&format!(
        "`{source}`: Maven writes one report per test class to `target/surefire-reports`; the gate reads Maven's output instead"
    ));
    Some(
        wrapped(place, "mvnw", "mvn", &["-B", "-q", goal])
            .covers(&["maven"])
            .because(&source, format!("`{source}` defines a Maven project")),
    )
}

fn gradle(place: &Place<'_>, file: &str) -> Draft {
    let source = place.relative(file);
    wrapped(place, "gradlew", "gradle", &["test", "--console=plain"])
        .covers(&["gradle"])
        .because(&source, format!("`{source}` defines a Gradle project"))
}

fn wrapped(place: &Place<'_>, wrapper: &str, plain: &str, rest: &[&str]) -> Draft {
    let own = format!("./{wrapper}");
    let start: &[&str] = match (place.has(wrapper), place.tool(&own)) {
        (true, Tool::Found(_)) => &[&own],
        // The executable bit is missing, as after a download.
        (true, Tool::Missing(_)) => &["sh", &own],
        (false, _) => &[plain],
    };
    let words = [start, rest].concat();
    let first = words.first().copied().unwrap_or_default();
    Draft::argv(place, "tests", Aspect::Test, &words).needs(place.tools(&[first, "java"]))
}
