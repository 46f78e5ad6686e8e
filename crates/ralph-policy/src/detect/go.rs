//! Go: `go.mod`. Every module gets its own gates, because `./...` does not descend into nested modules.

use ralph_core::gate::Format;

use super::draft::{Aspect, Draft};
use super::place::{Notes, Place};

const LINTER_FILES: [&str; 4] =
    [".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json"];

pub(super) fn look(place: &Place<'_>, notes: &mut Notes) -> Vec<Draft> {
    if !place.has("go.mod") || place.text("go.mod", notes).is_none() {
        return Vec::new();
    }
    let source = place.relative("go.mod");
    let why = format!("`{source}` defines a module");
    let mut drafts = vec![
        Draft::argv(place, "tests", Aspect::Test, &["go", "test", "-json", "./..."])
            .report(Format::GoTestJson)
            .covers(&["go test", "go build"])
            .because(&source, why.clone()),
        Draft::argv(place, "vet", Aspect::Lint, &["go", "vet", "./..."])
            .covers(&["go vet"])
            .because(&source, why),
    ];
    if let Some(file) = place.first(&LINTER_FILES) {
        let source = place.relative(file);
        drafts.push(
            Draft::argv(place, "lint", Aspect::Lint, &["golangci-lint", "run"])
                .needs(place.tools(&["golangci-lint", "go"]))
                .covers(&["golangci-lint"])
                .because(&source, format!("`{source}` sets up golangci-lint")),
        );
    }
    drafts
}
