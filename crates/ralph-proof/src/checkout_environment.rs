//! The environment variables of gates in a checkout: a home and a temporary directory of its own, the caches of
//! toolchains where they are, and, if the checkout has another path than the project, its own code before any that is
//! installed from the project.

use std::path::{Path, PathBuf};

use ralph_core::policy::GateEnvironment;
use ralph_sys::env::Env;
use ralph_sys::fs;

use crate::proof_directory::StepDirectories;

/// Files and directories that tools keep below the home directory, and the variables that name them. With another home
/// they would be missing: installed toolchains, downloads that cannot be repeated offline, and the settings that tell a
/// package manager what it may download and install. The first that exists counts.
const TOOL_HOMES: [(&str, &str); 31] = [
    ("BUN_INSTALL", ".bun"),
    ("BUNDLE_USER_CONFIG", ".bundle/config"),
    ("CARGO_HOME", ".cargo"),
    ("COMPOSER_HOME", ".composer"),
    ("CONDARC", ".condarc"),
    ("COREPACK_HOME", ".cache/node/corepack"),
    ("DENO_DIR", ".cache/deno"),
    ("GEM_HOME", ".gem"),
    ("GIT_CONFIG_GLOBAL", ".gitconfig"),
    ("GIT_CONFIG_GLOBAL", ".config/git/config"),
    ("GOCACHE", ".cache/go-build"),
    ("GOENV", ".config/go/env"),
    ("GOPATH", "go"),
    ("GRADLE_USER_HOME", ".gradle"),
    ("HEX_HOME", ".hex"),
    ("MIX_HOME", ".mix"),
    ("NPM_CONFIG_CACHE", ".npm"),
    ("NPM_CONFIG_USERCONFIG", ".npmrc"),
    ("NUGET_PACKAGES", ".nuget/packages"),
    ("NVM_DIR", ".nvm"),
    ("PIP_CACHE_DIR", ".cache/pip"),
    ("PIP_CONFIG_FILE", ".config/pip/pip.conf"),
    ("PIP_CONFIG_FILE", ".pip/pip.conf"),
    ("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright"),
    ("POETRY_CONFIG_DIR", ".config/pypoetry"),
    ("PYENV_ROOT", ".pyenv"),
    ("PYTHONUSERBASE", ".local"),
    ("RUSTUP_HOME", ".rustup"),
    ("SDKMAN_DIR", ".sdkman"),
    ("UV_CACHE_DIR", ".cache/uv"),
    ("VOLTA_HOME", ".volta"),
];

/// The policy's environment, extended for a checkout. `unmounted` is the project's directory in a checkout that is not
/// mounted at the project's own path.
pub(crate) fn checkout_environment(
    env: &Env,
    policy: &GateEnvironment,
    step: &StepDirectories,
    unmounted: Option<&Path>,
) -> GateEnvironment {
    let mut environment = command_environment(env, policy, unmounted);
    let mut add = |name: &str, value: PathBuf| add_variable(&mut environment, name, value);
    if let Some(home) = env.home() {
        for (name, below) in TOOL_HOMES {
            let path = home.join(below);
            // npm reads its variables in either case.
            let is_set = env.get(name).or_else(|| env.get(&name.to_ascii_lowercase())).is_some();
            if !is_set && fs::exists(&path) {
                add(name, path);
            }
        }
        // uv has no variable for its user settings that would leave the project's own in force.
        let config = home.join(".config");
        if env.get("XDG_CONFIG_HOME").is_none() && fs::exists(&config) {
            let others = env.get("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
            let all = std::iter::once(config).chain(std::env::split_paths(&others));
            if let Ok(all) = std::env::join_paths(all) {
                add("XDG_CONFIG_DIRS", all.into());
            }
        }
    }
    add("HOME", step.home.clone());
    add("TMPDIR", step.temporary.clone());
    // Without it, build results would be shared with the project or between checkouts.
    add("CARGO_TARGET_DIR", step.build.join("cargo"));
    // The virtual environment is that of the project. `uv run` would install the code of the checkout into it.
    add("UV_NO_SYNC", "1".into());
    environment
}

/// The policy's environment, extended for a command in a checkout that keeps the home of the user, for logins.
pub(crate) fn command_environment(
    env: &Env,
    policy: &GateEnvironment,
    unmounted: Option<&Path>,
) -> GateEnvironment {
    let mut environment = policy.clone();
    add_variable(&mut environment, "PYTHONDONTWRITEBYTECODE", "1".into());
    let own_code = unmounted.map(|project| python_path(env, project));
    if let Some(Ok(path)) = own_code.map(|paths| std::env::join_paths(paths.iter())) {
        add_variable(&mut environment, "PYTHONPATH", path.into());
    }
    environment
}

/// What the policy sets has precedence.
fn add_variable(environment: &mut GateEnvironment, name: &str, value: PathBuf) {
    if !environment.set.iter().any(|(known, _)| known == name)
        && let Ok(value) = value.into_os_string().into_string()
    {
        environment.set.push((name.to_string(), value));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    use ralph_core::gate::{Gate, GateInvocation};
    use ralph_gates::environment::gate_environment;

    /// A gate in a checkout has another home, and still the owner's settings, from variables and from files. What the
    /// policy sets has precedence over both.
    #[test]
    fn a_checkout_keeps_the_settings_of_the_machine() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        for below in [
            ".cargo",
            ".config/go/env",
            ".config/pip/pip.conf",
            ".npmrc",
            ".pip/pip.conf",
            ".rustup",
        ] {
            fs::create_private_dir(&home.join(below)).unwrap();
        }
        let home = home.to_str().unwrap();
        let env = Env::from_pairs(
            [
                ("CARGO_NET_OFFLINE", "true"),
                ("GOFLAGS", "-mod=vendor"),
                ("HOME", home),
                ("PIP_NO_INDEX", "1"),
                ("RUSTUP_AUTO_INSTALL", "0"),
                ("UV_OFFLINE", "1"),
                ("npm_config_offline", "true"),
            ],
            None,
            Vec::new(),
        );
        let policy = GateEnvironment {
            pass: Vec::new(),
            set: vec![("NPM_CONFIG_USERCONFIG".to_string(), "/team.npmrc".to_string())],
            ..GateEnvironment::default()
        };
        let step = StepDirectories {
            home: "/step/home".into(),
            temporary: "/step/tmp".into(),
            build: "/step/build".into(),
            tree: "/step/tree".into(),
            overlays: "/step/overlays".into(),
        };
        let policy = checkout_environment(&env, &policy, &step, None);
        let gate = Gate::new("tests", GateInvocation::Argv(vec!["true".to_string()]));
        let variables = gate_environment(&env, &policy, &gate, Some(OsStr::new("/bin")));
        let shown: Vec<_> = variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        insta::assert_snapshot!(shown.join("\n").replace(home, "~"), @"
        CARGO_HOME=~/.cargo
        CARGO_NET_OFFLINE=true
        CARGO_TARGET_DIR=/step/build/cargo
        CI=true
        GOENV=~/.config/go/env
        GOFLAGS=-mod=vendor
        HOME=/step/home
        NPM_CONFIG_USERCONFIG=/team.npmrc
        PATH=/bin
        PIP_CONFIG_FILE=~/.config/pip/pip.conf
        PIP_NO_INDEX=1
        PYTHONDONTWRITEBYTECODE=1
        RUSTUP_AUTO_INSTALL=0
        RUSTUP_HOME=~/.rustup
        TMPDIR=/step/tmp
        UV_NO_SYNC=1
        UV_OFFLINE=1
        XDG_CONFIG_DIRS=~/.config:/etc/xdg
        npm_config_offline=true
        ");
    }
}
