//! Python: pytest, type checkers and linters that are configured, run through uv, poetry, pdm, pipenv or a virtual
//! environment. tox and nox are proposed only if nothing else is.

use ralph_core::gate::ReportFormat;

use super::ToolLookup;
use super::gate_draft::{GateAspect, GateDraft};
use super::project_dir::{DetectionNotes, ProjectDir};

const RUFF_PATHS: [&str; 7] = [
    "**/*.py",
    "**/*.pyi",
    "**/*.ipynb",
    "**/pyproject.toml",
    "**/ruff.toml",
    "**/.ruff.toml",
    "**/.gitignore",
];

const PROJECT_FILES: [&str; 10] = [
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "pytest.ini",
    "tox.ini",
    "noxfile.py",
    "requirements.txt",
    "conftest.py",
    "mypy.ini",
    ".flake8",
];

struct PythonProject<'a> {
    place: &'a ProjectDir<'a>,
    pyproject: toml::Table,
    setup_cfg: String,
    tox_ini: String,
    /// The text of all files that list dependencies, or install them for tests.
    dependencies: String,
    launcher: PythonLauncher,
}

#[derive(Clone, Copy)]
enum PythonLauncher {
    /// A tool that manages the environment, as the words before the program.
    Manager(&'static [&'static str]),
    Venv,
    Plain,
}

pub(super) fn python_gates(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<GateDraft> {
    if place.first_present(&PROJECT_FILES).is_none() {
        return Vec::new();
    }
    let settings = PythonProject::read(place, notes);
    let is_usable = |draft: &GateDraft| matches!(draft.tool, ToolLookup::Found(_));
    let own = settings.tests_gate(notes);
    let isolated = settings.tox_or_nox_gate();
    // tox and nox create environments of their own, which takes minutes, so they are the last resort.
    let tests = match (own, isolated) {
        (Some(own), Some(isolated)) if !is_usable(&own) && is_usable(&isolated) => Some(isolated),
        (own, isolated) => own.or(isolated),
    };
    let mut drafts: Vec<GateDraft> = tests.into_iter().collect();
    drafts.extend(settings.types_gate());
    drafts.extend(settings.lint_gates());
    drafts
}

/// The tests of a project that has Python tests, but none of the files of a Python project.
pub(super) fn plain_gate(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Option<GateDraft> {
    if root.first_present(&PROJECT_FILES).is_some() {
        return None;
    }
    PythonProject::read(root, notes).tests_gate(notes)
}

impl<'a> PythonProject<'a> {
    fn read(place: &'a ProjectDir<'a>, notes: &mut DetectionNotes) -> Self {
        let mut text = |name: &str| {
            if place.has_entry(name) { place.read_text(name, notes) } else { None }
                .unwrap_or_default()
        };
        let manifest = text("pyproject.toml");
        let setup_cfg = text("setup.cfg");
        let tox_ini = text("tox.ini");
        let requirements = ["requirements.txt", "requirements-dev.txt", "dev-requirements.txt"];
        let listed: Vec<_> = requirements.into_iter().map(&mut text).collect();
        let noxfile = text("noxfile.py");
        let listed = listed.join("\n");
        let dependencies = [&manifest, &setup_cfg, &tox_ini, &noxfile, &listed];
        let dependencies = dependencies.map(String::as_str).join("\n");
        let pyproject = manifest.parse::<toml::Table>().unwrap_or_else(|_| {
            notes.add(&format!("`{}` is not valid TOML", place.relative("pyproject.toml")));
            toml::Table::new()
        });
        let runner = if place.is_here_or_above("uv.lock") {
            // `--frozen` keeps the check from changing the lock file.
            PythonLauncher::Manager(&["uv", "run", "--frozen"])
        } else if place.has_entry("poetry.lock") {
            PythonLauncher::Manager(&["poetry", "run"])
        } else if place.has_entry("pdm.lock") {
            PythonLauncher::Manager(&["pdm", "run"])
        } else if place.has_entry("Pipfile.lock") {
            PythonLauncher::Manager(&["pipenv", "run"])
        } else if matches!(place.find_tool(".venv/bin/python"), ToolLookup::Found(_)) {
            PythonLauncher::Venv
        } else {
            PythonLauncher::Plain
        };
        Self { place, pyproject, setup_cfg, tox_ini, dependencies, launcher: runner }
    }

    /// `[tool.NAME]` in `pyproject.toml`.
    fn has_tool(&self, name: &str) -> bool {
        self.pyproject.get("tool").is_some_and(|tools| tools.get(name).is_some())
    }

    /// The file that configures a tool: its own file, or a shared one with a section for it.
    fn config_file_of(&self, own: &[&str], table: &str, section: &str) -> Option<String> {
        let shared = || {
            if self.has_tool(table) {
                Some("pyproject.toml")
            } else if has_section(&self.setup_cfg, section) {
                Some("setup.cfg")
            } else if has_section(&self.tox_ini, section) {
                Some("tox.ini")
            } else {
                None
            }
        };
        self.place.first_present(own).or_else(shared).map(|file| self.place.relative(file))
    }

    /// The words that run a module of the project's environment.
    fn module_command(&self, module: &'static str) -> Vec<&'static str> {
        match self.launcher {
            PythonLauncher::Manager(words) => [words, &[module]].concat(),
            PythonLauncher::Venv => vec![".venv/bin/python", "-m", module],
            PythonLauncher::Plain => vec!["python3", "-m", module],
        }
    }

    /// The words that run a tool that may also be installed outside the environment.
    fn tool_command(&self, name: &'static str, in_venv: &'static str) -> Vec<&'static str> {
        match self.launcher {
            PythonLauncher::Manager(words) => [words, &[name]].concat(),
            PythonLauncher::Venv
                if matches!(self.place.find_tool(in_venv), ToolLookup::Found(_)) =>
            {
                vec![in_venv]
            }
            PythonLauncher::Venv | PythonLauncher::Plain => vec![name],
        }
    }

    fn tests_gate(&self, notes: &mut DetectionNotes) -> Option<GateDraft> {
        let own = ["pytest.ini", ".pytest.ini"];
        let configured = self.config_file_of(&own, "pytest", "tool:pytest").or_else(|| {
            has_section(&self.tox_ini, "pytest").then(|| self.place.relative("tox.ini"))
        });
        let (source, why) = match (configured, find_tests(self.place, notes)) {
            (Some(file), _) => (file.clone(), format!("`{file}` sets up pytest")),
            (None, Some(found)) => {
                let source = self.place.relative(&found);
                let Some(why) = self.reason_for_pytest(&found, notes) else {
                    return Some(self.unittest_gate(&found, &source));
                };
                (source.clone(), format!("`{source}` contains tests, and {why}"))
            }
            (None, None) => return None,
        };
        let words = [self.module_command("pytest"), vec!["-q", "--junitxml={report}"]].concat();
        let draft = GateDraft::from_words(self.place, "tests", GateAspect::Test, &words);
        // The launcher exists without pytest. A manager installs what its lock file lists.
        let installed = match self.launcher {
            PythonLauncher::Manager(_) => draft.tool.clone(),
            PythonLauncher::Venv if self.has_venv_package("pytest", notes) => draft.tool.clone(),
            PythonLauncher::Venv => self.place.find_tool(".venv/bin/pytest"),
            PythonLauncher::Plain => {
                // Distributions name it differently.
                let names =
                    ["pytest-3", "py.test", "pytest"].map(|name| self.place.find_tool(name));
                let is_found = |tool: &ToolLookup| matches!(tool, ToolLookup::Found(_));
                let [.., usual] = &names;
                let installed = names.iter().find(|tool| is_found(tool)).unwrap_or(usual);
                if is_found(installed) { draft.tool.clone() } else { installed.clone() }
            }
        };
        Some(
            draft
                .with_tool(installed)
                .with_report(ReportFormat::Junit)
                .covering(&["pytest", "tox", "nox"])
                .with_reason(&source, why),
        )
    }

    /// Whether a package is installed in the virtual environment.
    fn has_venv_package(&self, name: &str, notes: &mut DetectionNotes) -> bool {
        let versions = self.place.list_names(".venv/lib", notes);
        versions.iter().any(|version| {
            let package = format!(".venv/lib/{version}/site-packages/{name}");
            ralph_sys::fs::is_directory(&self.place.path(&package))
        })
    }

    /// Why the tests are pytest's, although nothing configures it.
    fn reason_for_pytest(&self, found: &str, notes: &mut DetectionNotes) -> Option<&'static str> {
        if self.dependencies.contains("pytest") || self.place.has_entry("conftest.py") {
            Some("pytest is a dependency")
        } else if matches!(self.launcher, PythonLauncher::Venv)
            && matches!(self.place.find_tool(".venv/bin/pytest"), ToolLookup::Found(_))
        {
            Some("pytest is installed in `.venv`")
        } else if self.are_tests_functions(found, notes) {
            Some("its tests are functions, which only pytest runs")
        } else {
            None
        }
    }

    /// Whether a test file imports pytest, or has tests outside a class, which unittest does not find.
    fn are_tests_functions(&self, found: &str, notes: &mut DetectionNotes) -> bool {
        const MAX_READ_FILES: usize = 5;
        let files: Vec<String> = match found.strip_suffix('/') {
            Some(directory) => {
                let names = self
                    .place
                    .list_names(directory, notes)
                    .into_iter()
                    .filter(|name| is_test(name));
                names.map(|name| format!("{directory}/{name}")).take(MAX_READ_FILES).collect()
            }
            None => vec![found.to_string()],
        };
        files.iter().any(|file| {
            let text = self.place.read_text(file, notes).unwrap_or_default();
            let mut lines = text.lines();
            lines.any(|line| {
                let is_import = ["import pytest", "from pytest"];
                let is_function = ["def test_", "async def test_"];
                is_import.iter().chain(&is_function).any(|start| line.starts_with(start))
            })
        })
    }

    fn unittest_gate(&self, found: &str, source: &str) -> GateDraft {
        let directory = found.strip_suffix('/').unwrap_or(".");
        // Without `-v` only failed tests have names.
        let discover = ["-m", "unittest", "discover", "-v", "-s", directory];
        // Tests inside a package import it by its name, or relative to it.
        let top: &[&str] = if directory.contains('/') { &["-t", "."] } else { &[] };
        let words = [&self.python_command()[..], &discover, top].concat();
        GateDraft::from_words(self.place, "tests", GateAspect::Test, &words)
            .with_counted_tests()
            .covering(&["unittest", "tox", "nox"])
            .with_reason(source, format!("`{source}` contains tests, and nothing mentions pytest"))
            .likely()
    }

    fn python_command(&self) -> Vec<&'static str> {
        match self.launcher {
            PythonLauncher::Manager(words) => [words, &["python"]].concat(),
            PythonLauncher::Venv => vec![".venv/bin/python"],
            PythonLauncher::Plain => vec!["python3"],
        }
    }

    fn types_gate(&self) -> Option<GateDraft> {
        if let Some(source) = self.config_file_of(&["mypy.ini", ".mypy.ini"], "mypy", "mypy") {
            let mut words = self.tool_command("mypy", ".venv/bin/mypy");
            let mypy = self.pyproject.get("tool").and_then(|tools| tools.get("mypy"));
            let names_files = mypy.is_some_and(|mypy| {
                ["files", "packages", "modules"].iter().any(|key| mypy.get(key).is_some())
            });
            if !names_files {
                words.push(".");
            }
            return Some(
                GateDraft::from_words(self.place, "types", GateAspect::Types, &words)
                    .covering(&["mypy"])
                    .with_reason(&source, format!("`{source}` sets up mypy")),
            );
        }
        let source = self.config_file_of(&["pyrightconfig.json"], "pyright", "pyright")?;
        let words = self.tool_command("pyright", ".venv/bin/pyright");
        Some(
            GateDraft::from_words(self.place, "types", GateAspect::Types, &words)
                .covering(&["pyright"])
                .with_reason(&source, format!("`{source}` sets up pyright")),
        )
    }

    fn lint_gates(&self) -> Vec<GateDraft> {
        let mut drafts = Vec::new();
        if let Some(source) = self.config_file_of(&["ruff.toml", ".ruff.toml"], "ruff", "ruff") {
            let start = self.tool_command("ruff", ".venv/bin/ruff");
            let check = ["check", "--output-format=sarif", "--output-file={report}"];
            drafts.push(
                GateDraft::from_words(
                    self.place,
                    "lint",
                    GateAspect::Lint,
                    &[&start[..], &check].concat(),
                )
                .with_report(ReportFormat::Sarif)
                .with_paths(&RUFF_PATHS)
                .covering(&["ruff check", "ruff"])
                .with_reason(&source, format!("`{source}` sets up ruff")),
            );
            let ruff = self.pyproject.get("tool").and_then(|tools| tools.get("ruff"));
            if ruff.is_some_and(|ruff| ruff.get("format").is_some()) {
                drafts.push(
                    GateDraft::from_words(
                        self.place,
                        "format",
                        GateAspect::Format,
                        &[&start[..], &["format", "--check"]].concat(),
                    )
                    .with_paths(&RUFF_PATHS)
                    .covering(&["ruff format"])
                    .with_reason(&source, format!("`{source}` sets up ruff's formatter")),
                );
            }
        }
        if let Some(source) = self.config_file_of(&[".flake8"], "flake8", "flake8") {
            let words = self.tool_command("flake8", ".venv/bin/flake8");
            drafts.push(
                GateDraft::from_words(self.place, "flake8", GateAspect::Lint, &words)
                    .covering(&["flake8"])
                    .with_reason(&source, format!("`{source}` sets up flake8")),
            );
        }
        drafts
    }

    fn tox_or_nox_gate(&self) -> Option<GateDraft> {
        let (file, program) =
            if has_section(&self.tox_ini, "tox") || has_section(&self.tox_ini, "testenv") {
                ("tox.ini", "tox")
            } else if self.place.has_entry("tox.toml") {
                ("tox.toml", "tox")
            } else if self.has_tool("tox") {
                ("pyproject.toml", "tox")
            } else if self.place.has_entry("noxfile.py") {
                ("noxfile.py", "nox")
            } else {
                return None;
            };
        let source = self.place.relative(file);
        Some(
            GateDraft::from_words(self.place, "tests", GateAspect::Test, &[program])
                .covering(&["pytest", "unittest", "tox", "nox"])
                .with_reason(&source, format!("`{source}` sets up {program}")),
        )
    }
}

fn has_section(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) == Some(name)
    })
}

/// The directory that contains tests, with a trailing `/`, or else a test file next to the manifest; relative to the
/// project's directory. Tests beside the code come first, then those that a package ships.
fn find_tests(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Option<String> {
    const MAX_DIRECTORIES: usize = 50;
    let mut contains_tests = |directory: &str| {
        let names = place.list_names(directory, notes);
        // Tests are often in subdirectories such as `tests/unit`.
        names.iter().any(|name| is_test(name))
            || names.iter().take(MAX_DIRECTORIES).any(|name| {
                place
                    .list_names(&format!("{directory}/{name}"), notes)
                    .iter()
                    .any(|name| is_test(name))
            })
    };
    let beside = ["tests", "test"]
        .into_iter()
        .find(|directory| place.has_entry(directory) && contains_tests(directory));
    let packages = || {
        let names = place.names().iter().filter(|name| is_package_name(name));
        names.take(MAX_DIRECTORIES).map(|name| format!("{name}/tests"))
    };
    beside
        .map(str::to_owned)
        .or_else(|| packages().find(|directory| contains_tests(directory)))
        .map(|directory| format!("{directory}/"))
        .or_else(|| place.names().iter().find(|name| is_test(name)).cloned())
}

fn is_test(name: &str) -> bool {
    let stem = name.strip_suffix(".py");
    stem.is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
}

fn is_package_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
