//! The environment variables of a gate: those listed here, those that the user names in the policy, and nothing else.
//! None of them is ralph's own: code that runs under a gate could behave differently if it knew that it is judged.
//!
//! It is a list of allowed names rather than of forbidden ones, because the host, its plug-ins and the user's shell put
//! keys, tokens and switches into variables that cannot all be listed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use ralph_core::gate::Gate;
use ralph_core::policy::GateEnvironment;

use ralph_sys::env::{Env, is_secret_name};

/// The user, the system and the language.
const SYSTEM_VARIABLES: &[&str] = &[
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "TZDIR",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// Proxies and certificates.
const NETWORK_VARIABLES: &[&str] = &[
    "ALL_PROXY",
    "CURL_CA_BUNDLE",
    "DOCKER_HOST",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "REQUESTS_CA_BUNDLE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Locations of tools and their caches, and build options.
const TOOL_VARIABLES: &[&str] = &[
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "AR",
    "BUNDLE_PATH",
    "BUN_INSTALL",
    "CARGO_BUILD_JOBS",
    "CARGO_HOME",
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "CARGO_TARGET_DIR",
    "CC",
    "CFLAGS",
    "CMAKE_PREFIX_PATH",
    "COMPOSER_HOME",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "COREPACK_HOME",
    "CPATH",
    "CPPFLAGS",
    "CXX",
    "CXXFLAGS",
    "DENO_DIR",
    "DOTNET_CLI_HOME",
    "DOTNET_ROOT",
    "FNM_DIR",
    "GEM_HOME",
    "GEM_PATH",
    "GO111MODULE",
    "GOBIN",
    "GOCACHE",
    "GOFLAGS",
    "GOMODCACHE",
    "GONOSUMDB",
    "GOPATH",
    "GOPRIVATE",
    "GOPROXY",
    "GOROOT",
    "GOTOOLCHAIN",
    "HEX_HOME",
    "JAVA_HOME",
    "JENV_ROOT",
    "LDFLAGS",
    "LIBRARY_PATH",
    "M2_HOME",
    "MIX_HOME",
    "MYPYPATH",
    "NODE_EXTRA_CA_CERTS",
    "NODE_PATH",
    "NPM_CONFIG_CACHE",
    "NPM_CONFIG_PREFIX",
    "NPM_CONFIG_REGISTRY",
    "NUGET_PACKAGES",
    "NVM_BIN",
    "NVM_DIR",
    "PIPENV_VENV_IN_PROJECT",
    "PIP_CACHE_DIR",
    "PIP_INDEX_URL",
    "PKG_CONFIG_PATH",
    "PLAYWRIGHT_BROWSERS_PATH",
    "PNPM_HOME",
    "PROTOC",
    "PROTO_HOME",
    "PYTHONPATH",
    "RBENV_ROOT",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SCCACHE_DIR",
    "SDKMAN_DIR",
    "SDKROOT",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
    "YARN_CACHE_FOLDER",
    "npm_config_cache",
    "npm_config_prefix",
    "npm_config_registry",
];

/// Prefixes of further tool variables. Names that look like a secret are left out.
const TOOL_PREFIXES: &[&str] =
    &["ASDF_", "GRADLE_", "LC_", "MAVEN_", "MISE_", "NIX_", "POETRY_", "PYENV_", "UV_"];

/// Set for every gate, so that it neither prompts nor prints colours.
const FIXED_VARIABLES: &[(&str, &str)] = &[("CI", "true"), ("NO_COLOR", "1"), ("TERM", "dumb")];

/// Variables that tell git where a repository, its index, objects and configuration are. They would make a gate work on
/// another repository than the one it runs in, so they are never passed, even if the policy names them.
const GIT_LOCATION_VARIABLES: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];
const GIT_LOCATION_PREFIXES: &[&str] = &["GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"];

/// Variables that differ between a user's shells and do not affect a result.
const IRRELEVANT_VARIABLES: &[&str] = &["LOGNAME", "SHELL", "TMPDIR", "USER", "XDG_RUNTIME_DIR"];

/// The complete environment of a gate, sorted by name. `path` is the `PATH` of the terminal in which the user approved
/// the policy or started the run; the hook's own may be shorter.
pub fn gate_environment(
    env: &Env,
    policy: &GateEnvironment,
    gate: &Gate,
    path: Option<&OsStr>,
) -> Vec<(OsString, OsString)> {
    let named: Vec<&OsStr> =
        policy.pass.iter().chain(&gate.env).map(|name| OsStr::new(name.as_str())).collect();
    let mut variables = BTreeMap::new();
    for (name, value) in FIXED_VARIABLES {
        variables.insert(OsString::from(name), OsString::from(value));
    }
    env.for_each_variable(|name, value| {
        if is_always_passed(name) || named.contains(&name) {
            variables.insert(name.to_owned(), value.to_owned());
        }
    });
    if let Some(path) = path {
        variables.insert("PATH".into(), path.to_owned());
    }
    for (name, value) in &policy.set {
        variables.insert(name.into(), value.into());
    }
    variables.retain(|name, _| is_valid_name(name) && !is_git_location(name));
    variables.into_iter().collect()
}

/// The `PATH` that gates run with: the policy's own, or the given one.
pub fn gate_search_path(policy: &GateEnvironment, path: Option<OsString>) -> Option<OsString> {
    let own = policy.set.iter().rev().find(|(name, _)| name == "PATH");
    own.map(|(_, value)| OsString::from(value)).or(path)
}

/// The variables that may affect a gate's result. They are part of the key of its cached result.
pub fn relevant_variables(
    variables: &[(OsString, OsString)],
) -> impl Iterator<Item = (&OsStr, &OsStr)> + Clone {
    variables
        .iter()
        .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
        .filter(|(name, _)| !IRRELEVANT_VARIABLES.iter().any(|indifferent| name == indifferent))
}

/// Whether the variable redirects git to another repository. No policy can pass or set such a variable.
pub fn is_git_location(name: &OsStr) -> bool {
    GIT_LOCATION_VARIABLES.iter().any(|location| name == *location)
        || has_prefix(name, GIT_LOCATION_PREFIXES)
}

fn is_always_passed(name: &OsStr) -> bool {
    let is_listed = [SYSTEM_VARIABLES, NETWORK_VARIABLES, TOOL_VARIABLES]
        .into_iter()
        .flatten()
        .any(|listed| name == *listed);
    is_listed || has_prefix(name, TOOL_PREFIXES) && !is_secret_name(name)
}

fn has_prefix(name: &OsStr, families: &[&str]) -> bool {
    families.iter().any(|family| name.as_encoded_bytes().starts_with(family.as_bytes()))
}

/// A name that contains `=` would set another variable.
fn is_valid_name(name: &OsStr) -> bool {
    !name.is_empty() && !name.as_encoded_bytes().contains(&b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::gate::GateInvocation;

    fn gate(pass: &[&str]) -> Gate {
        Gate {
            env: pass.iter().map(ToString::to_string).collect(),
            ..Gate::new("types", GateInvocation::Argv(vec!["true".to_string()]))
        }
    }

    fn policy(pass: &[&str], set: &[(&str, &str)]) -> GateEnvironment {
        GateEnvironment {
            pass: pass.iter().map(ToString::to_string).collect(),
            set: set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        }
    }

    fn shown(variables: &[(OsString, OsString)]) -> String {
        let lines =
            variables.iter().map(|(name, value)| format!("{}={}", name.display(), value.display()));
        lines.collect::<Vec<_>>().join("\n")
    }

    const SESSION_VARIABLES: &[(&str, &str)] = &[
        ("ANTHROPIC_API_KEY", "sk-ant-1"),
        ("ANTHROPIC_BASE_URL", "https://host"),
        ("AWS_SECRET_ACCESS_KEY", "aws"),
        ("CARGO_HOME", "/home/u/.cargo"),
        ("CARGO_REGISTRY_TOKEN", "cio"),
        ("CI", "0"),
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_SESSION_ID", "5999882c"),
        ("GIT_AUTHOR_NAME", "u"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "core.hooksPath"),
        ("GIT_DIR", "/elsewhere/.git"),
        ("GIT_INDEX_FILE", "/elsewhere/.git/index"),
        ("GIT_WORK_TREE", "/elsewhere"),
        ("HOME", "/home/u"),
        ("LC_ALL", "de_DE.UTF-8"),
        ("NODE_OPTIONS", "--require /host/spy.js"),
        ("OPENAI_API_KEY", "sk-2"),
        ("PATH", "/usr/bin"),
        ("RALPH_HOME", "/state"),
        ("TERM", "xterm"),
        ("TMPDIR", "/tmp/u"),
        ("UV_CACHE_DIR", "/cache"),
        ("UV_PUBLISH_TOKEN", "pypi"),
    ];

    /// R-S7c: a gate gets the listed variables, but no keys of the host or of any other tool.
    /// R-D3a: no variable that redirects git to another repository is passed.
    /// No variable shows the code under test that ralph runs it.
    #[test]
    fn a_gate_gets_only_listed_variables() {
        let env = Env::from_pairs(SESSION_VARIABLES.iter().copied(), None, Vec::new());
        let variables = gate_environment(&env, &policy(&[], &[]), &gate(&[]), None);
        insta::assert_snapshot!(shown(&variables), @"
        CARGO_HOME=/home/u/.cargo
        CI=true
        HOME=/home/u
        LC_ALL=de_DE.UTF-8
        NO_COLOR=1
        PATH=/usr/bin
        TERM=dumb
        TMPDIR=/tmp/u
        UV_CACHE_DIR=/cache
        ");
    }

    #[test]
    fn named_and_set_variables_are_passed_except_git_locations() {
        let env = Env::from_pairs(SESSION_VARIABLES.iter().copied(), None, Vec::new());
        let policy = policy(
            &["OPENAI_API_KEY", "GIT_AUTHOR_NAME", "GIT_DIR", "NOT_SET"],
            &[("CI", ""), ("GIT_INDEX_FILE", "/x"), ("GIT_DIR=/x", ""), ("RUST_BACKTRACE", "1")],
        );
        let gate = gate(&["UV_PUBLISH_TOKEN"]);
        let path = Some(OsStr::new("/home/u/bin:/usr/bin"));
        let variables = gate_environment(&env, &policy, &gate, path);
        insta::assert_snapshot!(shown(&variables), @"
        CARGO_HOME=/home/u/.cargo
        CI=
        GIT_AUTHOR_NAME=u
        HOME=/home/u
        LC_ALL=de_DE.UTF-8
        NO_COLOR=1
        OPENAI_API_KEY=sk-2
        PATH=/home/u/bin:/usr/bin
        RUST_BACKTRACE=1
        TERM=dumb
        TMPDIR=/tmp/u
        UV_CACHE_DIR=/cache
        UV_PUBLISH_TOKEN=pypi
        ");
        let decisive: Vec<_> =
            relevant_variables(&variables).map(|(name, _)| name.display().to_string()).collect();
        insta::assert_snapshot!(decisive.join(" "), @"CARGO_HOME CI GIT_AUTHOR_NAME HOME LC_ALL NO_COLOR OPENAI_API_KEY PATH RUST_BACKTRACE TERM UV_CACHE_DIR UV_PUBLISH_TOKEN");
    }

    #[test]
    fn no_listed_name_looks_like_a_secret() {
        for name in [SYSTEM_VARIABLES, NETWORK_VARIABLES, TOOL_VARIABLES].into_iter().flatten() {
            assert!(!is_secret_name(OsStr::new(name)), "{name}");
        }
    }
}
