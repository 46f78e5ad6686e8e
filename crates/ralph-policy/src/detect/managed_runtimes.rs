//! .NET, Ruby, PHP and Elixir: the test runner that the project's own files set up.

use ralph_core::gate::ReportFormat;

use super::ToolLookup;
use super::gate_draft::{GateAspect, GateDraft};
use super::project_dir::{DetectionNotes, ProjectDir};

const SOLUTION_SUFFIXES: [&str; 2] = [".sln", ".slnx"];
const PROJECT_SUFFIXES: [&str; 3] = [".csproj", ".fsproj", ".vbproj"];
/// Every .NET test project depends on it.
const TEST_SDK: &str = "Microsoft.NET.Test.Sdk";

const RUBY_FILES: [&str; 4] = ["Gemfile", "Rakefile", ".rspec", "rakefile"];
const PHPUNIT_FILES: [&str; 3] = ["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"];

pub(super) fn dotnet_gates(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<GateDraft> {
    let named = |suffixes: &[&str]| {
        let ends = |name: &&String| suffixes.iter().any(|suffix| name.ends_with(suffix));
        place.names().iter().find(ends).cloned()
    };
    let (file, has_tests) = if let Some(file) = named(&SOLUTION_SUFFIXES) {
        let text = place.read_text(&file, notes).unwrap_or_default();
        (file, text.to_ascii_lowercase().contains("test"))
    } else if let Some(file) = named(&PROJECT_SUFFIXES) {
        let text = place.read_text(&file, notes).unwrap_or_default();
        (file, text.contains(TEST_SDK))
    } else {
        return Vec::new();
    };
    let source = place.relative(&file);
    if has_tests {
        let words = ["dotnet", "test", &file, "--nologo"];
        return vec![
            GateDraft::from_words(place, "tests", GateAspect::Test, &words)
                .with_counted_tests()
                .covering(&["dotnet test", "dotnet build"])
                .with_reason(&source, format!("`{source}` has test projects")),
        ];
    }
    let words = ["dotnet", "build", &file, "--nologo"];
    vec![
        GateDraft::from_words(place, "build", GateAspect::Build, &words)
            .covering(&["dotnet build"])
            .with_reason(&source, format!("`{source}` defines a project without tests")),
    ]
}

pub(super) fn ruby_gates(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<GateDraft> {
    if place.first_present(&RUBY_FILES).is_none() {
        return Vec::new();
    }
    let mut text = |name: &str| {
        let text = if place.has_entry(name) { place.read_text(name, notes) } else { None };
        text.unwrap_or_default()
    };
    let (gemfile, rakefile) = (text("Gemfile"), text("Rakefile"));
    // Bundler finds the versions that the project locks.
    let start: &[&str] = if gemfile.is_empty() { &[] } else { &["bundle", "exec"] };
    let gate = |words: &[&str], canonical: &str, source: String, why: &str| {
        let words = [start, words].concat();
        let first = words.first().copied().unwrap_or_default();
        GateDraft::from_words(place, "tests", GateAspect::Test, &words)
            .with_tool(place.find_tools(&[first, "ruby"]))
            .with_counted_tests()
            .covering(&[canonical])
            .with_reason(&source, format!("`{source}` {why}"))
    };
    let has_specs = place.list_names("spec", notes).iter().any(|name| name.ends_with("_spec.rb"));
    if place.has_entry(".rspec") || has_specs {
        let file = if place.has_entry(".rspec") { ".rspec" } else { "spec/" };
        return vec![gate(&["rspec"], "rspec", place.relative(file), "sets up rspec")];
    }
    let defines_task = ["TestTask", "task :test", "task test:", "task(:test", "load_tasks"];
    if defines_task.iter().any(|mark| rakefile.contains(mark)) {
        return vec![gate(
            &["rake", "test"],
            "rake test",
            place.relative("Rakefile"),
            "defines the task `test`",
        )];
    }
    let has_tests = place.list_names("test", notes).iter().any(|name| name.ends_with("_test.rb"));
    if has_tests {
        let each = "Dir['./test/**/*_test.rb'].sort.each { |file| require file }";
        let words = ["ruby", "-Ilib", "-Itest", "-e", each];
        return vec![
            gate(&words, "ruby", place.relative("test/"), "contains tests of minitest").likely(),
        ];
    }
    Vec::new()
}

pub(super) fn php_gates(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<GateDraft> {
    let configured = place.first_present(&PHPUNIT_FILES);
    let manifest = if place.has_entry("composer.json") {
        place.read_text("composer.json", notes)
    } else {
        None
    };
    let manifest: serde_json::Value =
        manifest.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let requires = |package: &str| {
        let lists = ["require-dev", "require"].iter().filter_map(|list| manifest.get(list));
        lists.into_iter().any(|list| list.get(package).is_some())
    };
    let runner = if requires("pestphp/pest") {
        Some("vendor/bin/pest")
    } else if configured.is_some() || requires("phpunit/phpunit") {
        Some("vendor/bin/phpunit")
    } else {
        None
    };
    let source = place.relative(configured.unwrap_or("composer.json"));
    let tool_of = |words: &[&str]| {
        let first = words.first().copied().unwrap_or_default();
        match place.find_tool("php") {
            ToolLookup::Found(_) => place.find_tool(first),
            missing @ ToolLookup::Missing(_) => missing,
        }
    };
    if let Some(runner) = runner {
        let words = [runner, "--log-junit", "{report}"];
        return vec![
            GateDraft::from_words(place, "tests", GateAspect::Test, &words)
                .with_tool(tool_of(&words))
                .with_report(ReportFormat::Junit)
                .covering(&["phpunit", "pest", "composer test"])
                .with_reason(&source, format!("`{source}` sets up PHPUnit")),
        ];
    }
    if manifest.get("scripts").is_some_and(|scripts| scripts.get("test").is_some()) {
        let words = ["composer", "test"];
        return vec![
            GateDraft::from_words(place, "tests", GateAspect::Test, &words)
                .with_tool(tool_of(&words))
                .covering(&["composer test"])
                .with_reason(&source, format!("`{source}` has a script `test`")),
        ];
    }
    Vec::new()
}

pub(super) fn elixir_gates(place: &ProjectDir<'_>, _: &mut DetectionNotes) -> Vec<GateDraft> {
    if !place.has_entry("mix.exs") {
        return Vec::new();
    }
    let source = place.relative("mix.exs");
    let mut drafts = vec![
        GateDraft::from_words(place, "tests", GateAspect::Test, &["mix", "test"])
            .with_counted_tests()
            .covering(&["mix test", "mix compile"])
            .with_reason(&source, format!("`{source}` defines a project")),
    ];
    if place.has_entry(".formatter.exs") {
        let source = place.relative(".formatter.exs");
        let words = ["mix", "format", "--check-formatted"];
        drafts.push(
            GateDraft::from_words(place, "format", GateAspect::Format, &words)
                .with_paths(&["**/*.ex", "**/*.exs", "**/*.heex"])
                .covering(&["mix format"])
                .with_reason(&source, format!("`{source}` sets up the formatter")),
        );
    }
    drafts
}
