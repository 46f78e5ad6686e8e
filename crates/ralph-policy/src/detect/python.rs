//! Python: pytest, type checkers and linters that are configured, run through uv, poetry, pdm, pipenv or a virtual
//! environment. tox and nox are proposed only if nothing else is.

use ralph_core::gate::Format;

use super::Tool;
use super::draft::{Aspect, Draft};
use super::place::{Notes, Place};

const RUFF_PATHS: [&str; 7] = [
    "**/*.py",
    "**/*.pyi",
    "**/*.ipynb",
    "**/pyproject.toml",
    "**/ruff.toml",
    "**/.ruff.toml",
    "**/.gitignore",
];

const MARKERS: [&str; 10] = [
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

struct Settings<'a> {
    place: &'a Place<'a>,
    pyproject: toml::Table,
    setup_cfg: String,
    tox_ini: String,
    /// The text of all files that list dependencies.
    dependencies: String,
    runner: Runner,
}

#[derive(Clone, Copy)]
enum Runner {
    /// A tool that manages the environment, as the words before the program.
    Through(&'static [&'static str]),
    Venv,
    Plain,
}

pub(super) fn look(place: &Place<'_>, notes: &mut Notes) -> Vec<Draft> {
    if place.first(&MARKERS).is_none() {
        return Vec::new();
    }
    let settings = Settings::read(place, notes);
    let mut drafts: Vec<Draft> = settings.tests(notes).into_iter().collect();
    drafts.extend(settings.types());
    drafts.extend(settings.linters());
    if drafts.is_empty() {
        drafts.extend(settings.environments());
    }
    drafts
}

impl<'a> Settings<'a> {
    fn read(place: &'a Place<'a>, notes: &mut Notes) -> Self {
        let mut text = |name: &str| {
            if place.has(name) { place.text(name, notes) } else { None }.unwrap_or_default()
        };
        let manifest = text("pyproject.toml");
        let setup_cfg = text("setup.cfg");
        let tox_ini = text("tox.ini");
        let requirements = ["requirements.txt", "requirements-dev.txt", "dev-requirements.txt"];
        let listed: Vec<_> = requirements.into_iter().map(&mut text).collect();
        let dependencies = [manifest.clone(), setup_cfg.clone(), listed.join("\n")].join("\n");
        let pyproject = manifest.parse::<toml::Table>().unwrap_or_else(|_| {
            notes.add(&format!("`{}` is not valid TOML", place.relative("pyproject.toml")));
            toml::Table::new()
        });
        let runner = if place.is_here_or_above("uv.lock") {
            // `--frozen` keeps the check from changing the lock file.
            Runner::Through(&["uv", "run", "--frozen"])
        } else if place.has("poetry.lock") {
            Runner::Through(&["poetry", "run"])
        } else if place.has("pdm.lock") {
            Runner::Through(&["pdm", "run"])
        } else if place.has("Pipfile.lock") {
            Runner::Through(&["pipenv", "run"])
        } else if matches!(place.tool(".venv/bin/python"), Tool::Found(_)) {
            Runner::Venv
        } else {
            Runner::Plain
        };
        Self { place, pyproject, setup_cfg, tox_ini, dependencies, runner }
    }

    /// `[tool.NAME]` in `pyproject.toml`.
    fn has_tool(&self, name: &str) -> bool {
        self.pyproject.get("tool").is_some_and(|tools| tools.get(name).is_some())
    }

    /// The file that configures a tool: its own file, or a shared one with a section for it.
    fn set_up(&self, own: &[&str], table: &str, section: &str) -> Option<String> {
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
        self.place.first(own).or_else(shared).map(|file| self.place.relative(file))
    }

    /// The words that run a module of the project's environment.
    fn start(&self, module: &'static str) -> Vec<&'static str> {
        match self.runner {
            Runner::Through(words) => [words, &[module]].concat(),
            Runner::Venv => vec![".venv/bin/python", "-m", module],
            Runner::Plain => vec!["python3", "-m", module],
        }
    }

    /// The words that run a tool that may also be installed outside the environment.
    fn start_tool(&self, name: &'static str, in_venv: &'static str) -> Vec<&'static str> {
        match self.runner {
            Runner::Through(words) => [words, &[name]].concat(),
            Runner::Venv if matches!(self.place.tool(in_venv), Tool::Found(_)) => vec![in_venv],
            Runner::Venv | Runner::Plain => vec![name],
        }
    }

    fn tests(&self, notes: &mut Notes) -> Option<Draft> {
        let own = ["pytest.ini", ".pytest.ini"];
        let configured = self.set_up(&own, "pytest", "tool:pytest").or_else(|| {
            has_section(&self.tox_ini, "pytest").then(|| self.place.relative("tox.ini"))
        });
        let directory = test_directory(self.place);
        let mentions = self.dependencies.contains("pytest") || self.place.has("conftest.py");
        let (source, why, certain) = match (configured, &directory, mentions) {
            (Some(file), ..) => (file.clone(), format!("`{file}` sets up pytest"), true),
            (None, Some(found), true) => (
                found.clone(),
                format!("`{found}` contains tests, and pytest is a dependency"),
                true,
            ),
            (None, Some(found), false) => return Some(self.unittest(found)),
            (None, None, _) => return None,
        };
        if matches!(self.runner, Runner::Plain)
            && matches!(self.place.tool("pytest"), Tool::Missing(_))
        {
            notes.add(&format!(
                "`{source}`: pytest is not on PATH and there is no `.venv`; it may not be installed"
            ));
        }
        let words = [self.start("pytest"), vec!["-q", "--junitxml={report}"]].concat();
        let draft = Draft::argv(self.place, "tests", Aspect::Test, &words)
            .report(Format::Junit)
            .covers(&["pytest", "tox", "nox"])
            .because(&source, why);
        Some(if certain { draft } else { draft.likely() })
    }

    fn unittest(&self, found: &str) -> Draft {
        let directory = if found.ends_with('/') { found.trim_end_matches('/') } else { "." };
        let below = directory.rsplit('/').next().unwrap_or(".");
        let words = [self.start_python(), vec!["-m", "unittest", "discover", "-s", below]].concat();
        Draft::argv(self.place, "tests", Aspect::Test, &words)
            .covers(&["unittest"])
            .because(found, format!("`{found}` contains tests, and nothing mentions pytest"))
            .likely()
    }

    fn start_python(&self) -> Vec<&'static str> {
        match self.runner {
            Runner::Through(words) => [words, &["python"]].concat(),
            Runner::Venv => vec![".venv/bin/python"],
            Runner::Plain => vec!["python3"],
        }
    }

    fn types(&self) -> Option<Draft> {
        if let Some(source) = self.set_up(&["mypy.ini", ".mypy.ini"], "mypy", "mypy") {
            let mut words = self.start_tool("mypy", ".venv/bin/mypy");
            let mypy = self.pyproject.get("tool").and_then(|tools| tools.get("mypy"));
            let names_files = mypy.is_some_and(|mypy| {
                ["files", "packages", "modules"].iter().any(|key| mypy.get(key).is_some())
            });
            if !names_files {
                words.push(".");
            }
            return Some(
                Draft::argv(self.place, "types", Aspect::Types, &words)
                    .covers(&["mypy"])
                    .because(&source, format!("`{source}` sets up mypy")),
            );
        }
        let source = self.set_up(&["pyrightconfig.json"], "pyright", "pyright")?;
        let words = self.start_tool("pyright", ".venv/bin/pyright");
        Some(
            Draft::argv(self.place, "types", Aspect::Types, &words)
                .covers(&["pyright"])
                .because(&source, format!("`{source}` sets up pyright")),
        )
    }

    fn linters(&self) -> Vec<Draft> {
        let mut drafts = Vec::new();
        if let Some(source) = self.set_up(&["ruff.toml", ".ruff.toml"], "ruff", "ruff") {
            let start = self.start_tool("ruff", ".venv/bin/ruff");
            let check = ["check", "--output-format=sarif", "--output-file={report}"];
            drafts.push(
                Draft::argv(self.place, "lint", Aspect::Lint, &[&start[..], &check].concat())
                    .report(Format::Sarif)
                    .paths(&RUFF_PATHS)
                    .covers(&["ruff check", "ruff"])
                    .because(&source, format!("`{source}` sets up ruff")),
            );
            let ruff = self.pyproject.get("tool").and_then(|tools| tools.get("ruff"));
            if ruff.is_some_and(|ruff| ruff.get("format").is_some()) {
                drafts.push(
                    Draft::argv(
                        self.place,
                        "format",
                        Aspect::Format,
                        &[&start[..], &["format", "--check"]].concat(),
                    )
                    .paths(&RUFF_PATHS)
                    .covers(&["ruff format"])
                    .because(&source, format!("`{source}` sets up ruff's formatter")),
                );
            }
        }
        if let Some(source) = self.set_up(&[".flake8"], "flake8", "flake8") {
            let words = self.start_tool("flake8", ".venv/bin/flake8");
            drafts.push(
                Draft::argv(self.place, "flake8", Aspect::Lint, &words)
                    .covers(&["flake8"])
                    .because(&source, format!("`{source}` sets up flake8")),
            );
        }
        drafts
    }

    /// tox and nox create environments of their own, which takes minutes, so they are the last resort.
    fn environments(&self) -> Option<Draft> {
        let (file, program) =
            if has_section(&self.tox_ini, "tox") || has_section(&self.tox_ini, "testenv") {
                ("tox.ini", "tox")
            } else if self.place.has("noxfile.py") {
                ("noxfile.py", "nox")
            } else {
                return None;
            };
        let source = self.place.relative(file);
        Some(
            Draft::argv(self.place, "tests", Aspect::Test, &[program])
                .covers(&[program])
                .because(&source, format!("`{source}` sets up {program}")),
        )
    }
}

fn has_section(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) == Some(name)
    })
}

/// The directory that contains tests, with a trailing `/`, or else a test file next to the manifest.
fn test_directory(place: &Place<'_>) -> Option<String> {
    let is_test = |name: &String| {
        name.strip_suffix(".py")
            .is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
    };
    let directory = ["tests", "test"].into_iter().find(|directory| {
        place.has(directory) && {
            let names = place.list(directory);
            // Tests are often in subdirectories such as `tests/unit`.
            names.iter().any(is_test)
                || names
                    .iter()
                    .take(50)
                    .any(|name| place.list(&format!("{directory}/{name}")).iter().any(is_test))
        }
    });
    directory.map(|directory| format!("{}/", place.relative(directory))).or_else(|| {
        place.names().iter().find(|name| is_test(name)).map(|name| place.relative(name))
    })
}
