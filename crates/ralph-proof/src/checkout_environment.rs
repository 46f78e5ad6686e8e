//! The environment variables of gates in a checkout: a home and a temporary directory of its own, the caches of
//! toolchains where they are, and the checkout's own code before any that is installed from the project.

use std::path::{Path, PathBuf};

use ralph_core::policy::GateEnvironment;
use ralph_sys::env::Env;
use ralph_sys::fs;

use crate::proof_directory::StepDirectories;

/// Directories that tools keep below the home directory, and the variables that name them. With another home they would
/// be missing: installed toolchains, and downloads that cannot be repeated offline.
const TOOL_HOMES: [(&str, &str); 23] = [
    ("BUN_INSTALL", ".bun"),
    ("CARGO_HOME", ".cargo"),
    ("COMPOSER_HOME", ".composer"),
    ("COREPACK_HOME", ".cache/node/corepack"),
    ("DENO_DIR", ".cache/deno"),
    ("GEM_HOME", ".gem"),
    ("GIT_CONFIG_GLOBAL", ".gitconfig"),
    ("GOCACHE", ".cache/go-build"),
    ("GOPATH", "go"),
    ("GRADLE_USER_HOME", ".gradle"),
    ("HEX_HOME", ".hex"),
    ("MIX_HOME", ".mix"),
    ("NPM_CONFIG_CACHE", ".npm"),
    ("NUGET_PACKAGES", ".nuget/packages"),
    ("NVM_DIR", ".nvm"),
    ("PIP_CACHE_DIR", ".cache/pip"),
    ("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright"),
    ("PYENV_ROOT", ".pyenv"),
    ("PYTHONUSERBASE", ".local"),
    ("RUSTUP_HOME", ".rustup"),
    ("SDKMAN_DIR", ".sdkman"),
    ("UV_CACHE_DIR", ".cache/uv"),
    ("VOLTA_HOME", ".volta"),
];

/// The policy's environment, extended for a checkout. `project` is the directory of the policy in the checkout.
pub(crate) fn checkout_environment(
    env: &Env,
    policy: &GateEnvironment,
    step: &StepDirectories,
    project: &Path,
) -> GateEnvironment {
    let mut set = policy.set.clone();
    let mut add = |name: &str, value: PathBuf| {
        if !policy.set.iter().any(|(known, _)| known == name)
            && let Ok(value) = value.into_os_string().into_string()
        {
            set.push((name.to_string(), value));
        }
    };
    if let Some(home) = env.home() {
        for (name, below) in TOOL_HOMES {
            let directory = home.join(below);
            if env.get(name).is_none() && fs::exists(&directory) {
                add(name, directory);
            }
        }
    }
    add("HOME", step.home.clone());
    add("TMPDIR", step.temporary.clone());
    // Without these, build results and byte code would be shared with the project or between checkouts.
    add("CARGO_TARGET_DIR", step.build.join("cargo"));
    add("PYTHONDONTWRITEBYTECODE", "1".into());
    // The virtual environment is that of the project. `uv run` would install the code of the checkout into it.
    add("UV_NO_SYNC", "1".into());
    let own_code = python_path(env, project);
    if let Ok(path) = std::env::join_paths(own_code.iter()) {
        add("PYTHONPATH", path.into());
    }
    GateEnvironment { set, ..policy.clone() }
}

/// An editable installation in a virtual environment refers to the project's directory, so tests in a checkout would
/// import the project's code. `PYTHONPATH` comes before such installations.
fn python_path(env: &Env, project: &Path) -> Vec<PathBuf> {
    let mut path: Vec<PathBuf> = ["src", "lib", ""]
        .iter()
        .map(|below| project.join(below))
        .filter(|path| fs::is_directory(path))
        .collect();
    if let Some(given) = env.get("PYTHONPATH") {
        path.extend(std::env::split_paths(&given));
    }
    path
}
