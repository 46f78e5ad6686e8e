//! Files that a runner reads although its command line does not name them: recipes, and settings that control which
//! programs it starts.

use ralph_core::sealed_file::SealReason;

pub(super) struct RunnerFiles {
    /// Empty for any program.
    pub(super) programs: &'static [&'static str],
    /// Searched for in the gate's directory and in those above it.
    pub(super) files: &'static [&'static str],
    pub(super) why: SealReason,
}

const fn recipe(programs: &'static [&'static str], files: &'static [&'static str]) -> RunnerFiles {
    RunnerFiles { programs, files, why: SealReason::Recipe }
}

const fn settings(
    programs: &'static [&'static str],
    files: &'static [&'static str],
) -> RunnerFiles {
    RunnerFiles { programs, files, why: SealReason::Settings }
}

pub(super) const RUNNERS: &[RunnerFiles] = &[
    recipe(&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"]),
    recipe(&["just"], &["justfile", "Justfile", "JUSTFILE", ".justfile"]),
    recipe(&["task"], &["Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml"]),
    recipe(&["rake"], &["Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"]),
    recipe(&["tox"], &["tox.ini"]),
    recipe(&["nox"], &["noxfile.py"]),
    recipe(&["pre-commit", "prek"], &[".pre-commit-config.yaml"]),
    settings(
        &["cargo", "cargo-nextest", "cross"],
        &[".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain"],
    ),
    settings(&["npm", "npx"], &[".npmrc"]),
    settings(&["pnpm", "pnpx"], &[".npmrc", ".pnpmfile.cjs", ".pnpmfile.mjs"]),
    settings(&["yarn"], &[".yarnrc.yml", ".yarnrc", ".npmrc"]),
    settings(&["bun", "bunx"], &["bunfig.toml", ".npmrc"]),
    settings(&["uv", "uvx"], &["uv.toml"]),
    settings(&["poetry"], &["poetry.toml"]),
    settings(&["go"], &["go.work"]),
    settings(&["bundle"], &[".bundle/config"]),
    settings(
        &["gradle", "gradlew"],
        &["gradle/wrapper/gradle-wrapper.properties", "gradle/wrapper/gradle-wrapper.jar"],
    ),
    settings(
        &["mvn", "mvnw"],
        &[
            ".mvn/maven.config",
            ".mvn/jvm.config",
            ".mvn/extensions.xml",
            ".mvn/wrapper/maven-wrapper.properties",
        ],
    ),
    // Version managers start another program for the name of every tool, by these files.
    settings(
        &[],
        &[
            ".tool-versions",
            "mise.toml",
            ".mise.toml",
            ".python-version",
            ".node-version",
            ".nvmrc",
            ".ruby-version",
            ".java-version",
        ],
    ),
];

/// Settings in `.npmrc` that concern only how packages are installed and published.
const INSTALL_SETTINGS: [&str; 15] = [
    "access",
    "allow-git",
    "audit",
    "audit-level",
    "fund",
    "lockfile-version",
    "min-release-age",
    "minimum-release-age",
    "package-lock",
    "provenance",
    "save",
    "save-exact",
    "save-prefix",
    "tag-version-prefix",
    "update-notifier",
];

/// Whether lines of a file with this name may concern only installation.
pub(super) fn has_other_lines(file_name: &str) -> bool {
    file_name == ".npmrc"
}

/// The lines of such a file that can change what a gate runs.
pub(super) fn deciding_lines(text: &str) -> String {
    let decides = |line: &&str| {
        let line = line.trim();
        let key = line.split_once('=').map_or(line, |(key, _)| key.trim_end());
        !line.is_empty() && !line.starts_with(['#', ';']) && !INSTALL_SETTINGS.contains(&key)
    };
    // npm ends a line at either character.
    text.split(['\r', '\n']).filter(decides).flat_map(|line| [line, "\n"]).collect()
}

/// Beginnings of lines that include another file, or name a program or module to run.
const INCLUDE_PREFIXES: [&str; 9] = [
    "include ",
    "-include ",
    "sinclude ",
    "import ",
    "import? ",
    "yarnPath:",
    "yarn-path ",
    "script-shell",
    "node-options",
];

/// The part of a line that names other files.
pub(super) fn included_text(line: &str) -> Option<&str> {
    // Inside of a condition they may be indented by blanks. A tab begins a command.
    let line = line.trim_start_matches(' ');
    INCLUDE_PREFIXES.iter().find_map(|prefix| line.strip_prefix(prefix))
}

/// These also find a recipe in a directory above the one they run in.
const UPWARD_RUNNERS: [&str; 3] = ["just", "rake", "task"];

/// Whether one of `names` is a recipe of the same runner, which a new one called `name` would replace.
pub(super) fn replaces_recipe<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> bool {
    fn split(path: &str) -> (&str, &str) {
        path.rsplit_once('/').unwrap_or(("", path))
    }
    let (directory, file) = split(name);
    let mut recipes = RUNNERS.iter().filter(|runner| runner.why == SealReason::Recipe);
    let Some(runner) = recipes.find(|runner| runner.files.contains(&file)) else { return false };
    let is_found_above = runner.programs.iter().any(|program| UPWARD_RUNNERS.contains(program));
    let mut known = names.map(split).filter(|(_, known)| runner.files.contains(known));
    known.any(|(beside, _)| is_found_above || beside == directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_for_installation_decide_nothing() {
        for (text, expected) in [
            ("package-lock=false\n; fund\n\nmin-release-age = 7\n", ""),
            ("ignore-scripts=true\nfund=false\n", "ignore-scripts=true\n"),
            ("fund=false\rscript-shell=./sh\n", "script-shell=./sh\n"),
            ("fund-x=1\n fund[]=1\n", "fund-x=1\n fund[]=1\n"),
        ] {
            assert_eq!(deciding_lines(text), expected, "{text}");
        }
    }
}
