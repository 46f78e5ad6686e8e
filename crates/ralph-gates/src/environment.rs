//! The environment variables of a gate: those listed here, those that the user names in the policy, and nothing else.
//! None of them is ralph's own: code that runs under a gate could behave differently if it knew that it is judged.
//!
//! It is a list of allowed names rather than of forbidden ones, because the host, its plug-ins and the user's shell put
//! keys, tokens and switches into variables that cannot all be listed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ralph_core::gate::Gate;
use ralph_core::policy::GateEnvironment;

use ralph_sys::env::{Env, is_secret_name};
use ralph_sys::fs::{self, Durability, FileError, FreshDir};

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
    "CARGO_HOME",
    "CARGO_INCREMENTAL",
    "CARGO_TARGET_DIR",
    "CC",
    "CFLAGS",
    "CGO_ENABLED",
    "CMAKE_PREFIX_PATH",
    "CONDARC",
    "CPATH",
    "CPPFLAGS",
    "CXX",
    "CXXFLAGS",
    "FNM_DIR",
    "GEM_HOME",
    "GEM_PATH",
    "GO111MODULE",
    "GOARCH",
    "GOBIN",
    "GOCACHE",
    "GODEBUG",
    "GOENV",
    "GOEXPERIMENT",
    "GOFLAGS",
    "GOINSECURE",
    "GOMODCACHE",
    "GONOPROXY",
    "GONOSUMDB",
    "GOOS",
    "GOPATH",
    "GOPRIVATE",
    "GOPROXY",
    "GOROOT",
    "GOSUMDB",
    "GOTOOLCHAIN",
    "GOVCS",
    "GOWORK",
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
    "NVM_BIN",
    "NVM_DIR",
    "PKG_CONFIG_PATH",
    "PLAYWRIGHT_BROWSERS_PATH",
    "PROTOC",
    "PROTO_HOME",
    "PYTHONPATH",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "SCCACHE_DIR",
    "SDKMAN_DIR",
    "SDKROOT",
    "VIRTUAL_ENV",
];

/// Prefixes of the settings of toolchains and package managers: whether they may use the network, install or update
/// anything, and from where. Without them a gate would do to the machine what its owner forbade. Names that look like a
/// secret are left out.
///
/// `CARGO_` as a whole is not among them, because cargo itself sets such variables for the programs it runs.
const TOOL_PREFIXES: &[&str] = &[
    "ASDF_",
    "BUNDLE_",
    "BUN_",
    "CARGO_BUILD_",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_PROFILE_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_TARGET_",
    "COMPOSER_",
    "CONDA_",
    "COREPACK_",
    "DENO_",
    "DOTNET_",
    "GRADLE_",
    "HATCH_",
    "LC_",
    "MAVEN_",
    "MISE_",
    "NIX_",
    "NPM_CONFIG_",
    "NUGET_",
    "PDM_",
    "PIPENV_",
    "PIPX_",
    "PIP_",
    "PNPM_",
    "POETRY_",
    "PYENV_",
    "RBENV_",
    "RUSTUP_",
    "UV_",
    "VOLTA_",
    "YARN_",
    "npm_config_",
    "pnpm_config_",
];

/// Tells tools that no person watches, so that they neither prompt nor wait for changes. `[environment] ci` is about it.
/// Nothing else is set, and nothing about colours in particular: tests of what a program prints depend on it.
const CI_VARIABLE: (&str, &str) = ("CI", "true");

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

/// Variables of language and time zone, besides those that begin with `LC_`.
const LOCALE_VARIABLES: &[&str] = &["LANG", "LANGUAGE", "TZ", "TZDIR"];
const FIXED_LANGUAGE: (&str, &str) = ("LC_ALL", "C.UTF-8");
const FIXED_TIME_ZONE: (&str, &str) = ("TZ", "UTC");

/// Where `curl` looks for its `.curlrc` before it looks in the home.
const CURL_HOME: &str = "CURL_HOME";
/// Python then loads nothing from the home.
const NO_USER_SITE: (&str, &str) = ("PYTHONNOUSERSITE", "1");

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
    listed_environment(env, policy, &gate.env, path)
}

/// The environment of any command that the policy names, with the variables `own` of this command.
fn listed_environment(
    env: &Env,
    policy: &GateEnvironment,
    own: &[String],
    path: Option<&OsStr>,
) -> Vec<(OsString, OsString)> {
    let named: Vec<&OsStr> =
        policy.pass.iter().chain(own).map(|name| OsStr::new(name.as_str())).collect();
    let mut variables = BTreeMap::new();
    if policy.ci {
        variables.insert(CI_VARIABLE.0.into(), CI_VARIABLE.1.into());
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

/// Creates the directory that commands get as `CURL_HOME`. Without a `.curlrc` in it, `curl` would read that of the home.
pub fn create_curl_home(path: PathBuf) -> Result<FreshDir, FileError> {
    let directory = FreshDir::create(path)?;
    fs::replace(&directory.path().join(".curlrc"), b"", Durability::Cached)?;
    Ok(directory)
}

/// The environment of a command that answers about the work of an agent: that of a judge, or one that asks CI. Every
/// process can send a stop, with an environment of its own, and language and time zone change how programs sort, match and
/// print. An agent can write to the home, where `curl` and Python find settings and code. So these variables are fixed,
/// unless the policy sets them.
pub fn measuring_environment(
    env: &Env,
    policy: &GateEnvironment,
    own: &[String],
    path: Option<&OsStr>,
    curl_home: &Path,
) -> Vec<(OsString, OsString)> {
    let is_fixed =
        |name: &OsStr| is_locale_variable(name) || name == CURL_HOME || name == NO_USER_SITE.0;
    let is_set = |name: &OsStr| policy.set.iter().any(|(set, _)| name == set.as_str());
    let listed = listed_environment(env, policy, own, path).into_iter();
    let mut variables: BTreeMap<OsString, OsString> =
        listed.filter(|(name, _)| !is_fixed(name) || is_set(name)).collect();
    // `LC_ALL` would override the language of the policy.
    let is_language = |name: &OsString| name == "LANG" || has_prefix(name, &["LC_"]);
    if !variables.keys().any(is_language) {
        variables.insert(FIXED_LANGUAGE.0.into(), FIXED_LANGUAGE.1.into());
    }
    let others = [FIXED_TIME_ZONE, NO_USER_SITE].map(|(name, value)| (name, OsStr::new(value)));
    for (name, value) in others.into_iter().chain([(CURL_HOME, curl_home.as_os_str())]) {
        variables.entry(name.into()).or_insert_with(|| value.into());
    }
    variables.into_iter().collect()
}

fn is_locale_variable(name: &OsStr) -> bool {
    LOCALE_VARIABLES.iter().any(|listed| name == *listed) || has_prefix(name, &["LC_"])
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
    is_listed || has_prefix(name, TOOL_PREFIXES) && !may_hold_login(name)
}

/// Whether every command that the policy names gets the variable, and may load other code because of it. `PATH` is sealed
/// in its own way, and Claude Code sets `COREPACK_ENABLE_AUTO_PIN` for its hooks.
pub fn may_load_code(name: &OsStr) -> bool {
    const OTHERS: &[&str] = &["COREPACK_ENABLE_AUTO_PIN", "PATH"];
    let is_other = IRRELEVANT_VARIABLES.iter().chain(OTHERS).any(|other| name == *other);
    is_always_passed(name) && !is_other && !is_locale_variable(name)
}

/// `COMPOSER_AUTH`, `npm_config__auth` and `YARN_NPM_AUTH_IDENT` hold logins. Bundler makes names from the hosts that it
/// logs in to, with `__` for each dot.
fn may_hold_login(name: &OsStr) -> bool {
    let upper = name.as_encoded_bytes().to_ascii_uppercase();
    let contains = |part: &str| memchr::memmem::find(&upper, part.as_bytes()).is_some();
    is_secret_name(name)
        || contains("AUTH")
        || upper.starts_with(b"BUNDLE_") && contains("__")
        // Its lines may be settings of any kind, among them `access-tokens`.
        || name == "NIX_CONFIG"
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
            ..GateEnvironment::default()
        }
    }

    fn shown(variables: &[(OsString, OsString)]) -> String {
        let lines =
            variables.iter().map(|(name, value)| format!("{}={}", name.display(), value.display()));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// R-S6b: no stop chooses the language and the time zone of a judge, or what it loads from the home, and no policy passes
    /// that. A policy may set it.
    #[test]
    fn language_time_zone_and_home_settings_of_a_measuring_command_are_fixed() {
        let pairs = [
            ("CURL_HOME", "/tmp/curl"),
            ("HOME", "/home/u"),
            ("LANG", "de_DE.UTF-8"),
            ("LANGUAGE", "de"),
            ("LC_ALL", "C"),
            ("LC_COLLATE", "C"),
            ("PATH", "/bin"),
            ("PYTHONNOUSERSITE", ""),
            ("TZ", "Asia/Tokyo"),
            ("TZDIR", "/tmp/zones"),
        ];
        let env = Env::from_pairs(pairs, None, Vec::new());
        let rows: [&[(&str, &str)]; 4] = [
            &[],
            &[("LANG", "fr_FR.UTF-8")],
            &[("LC_NUMERIC", "C"), ("TZ", "Europe/Paris")],
            &[("CURL_HOME", ""), ("PYTHONNOUSERSITE", "")],
        ];
        let shown = rows.map(|set| {
            let policy = policy(&["CURL_HOME", "LC_ALL", "PYTHONNOUSERSITE", "TZ"], set);
            let own = ["CURL_HOME".to_string(), "LANG".to_string()];
            let curl_home = Path::new("/own");
            shown(&measuring_environment(&env, &policy, &own, None, curl_home)).replace('\n', " ")
        });
        insta::assert_snapshot!(shown.join("\n"), @"
        CI=true CURL_HOME=/own HOME=/home/u LC_ALL=C.UTF-8 PATH=/bin PYTHONNOUSERSITE=1 TZ=UTC
        CI=true CURL_HOME=/own HOME=/home/u LANG=fr_FR.UTF-8 PATH=/bin PYTHONNOUSERSITE=1 TZ=UTC
        CI=true CURL_HOME=/own HOME=/home/u LC_NUMERIC=C PATH=/bin PYTHONNOUSERSITE=1 TZ=Europe/Paris
        CI=true CURL_HOME= HOME=/home/u LC_ALL=C.UTF-8 PATH=/bin PYTHONNOUSERSITE= TZ=UTC
        ");
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
        PATH=/usr/bin
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
        OPENAI_API_KEY=sk-2
        PATH=/home/u/bin:/usr/bin
        RUST_BACKTRACE=1
        TMPDIR=/tmp/u
        UV_CACHE_DIR=/cache
        UV_PUBLISH_TOKEN=pypi
        ");
        let decisive: Vec<_> =
            relevant_variables(&variables).map(|(name, _)| name.display().to_string()).collect();
        insta::assert_snapshot!(decisive.join(" "), @"CARGO_HOME CI GIT_AUTHOR_NAME HOME LC_ALL OPENAI_API_KEY PATH RUST_BACKTRACE UV_CACHE_DIR UV_PUBLISH_TOKEN");
    }

    /// The owner's settings of toolchains and package managers reach a gate, so that it does not install, update or
    /// download what they forbid. Logins do not.
    #[test]
    fn a_gate_keeps_the_settings_of_the_machine() {
        let settings = "BUNDLE_FROZEN BUN_CONFIG_REGISTRY CARGO_HTTP_PROXY CARGO_NET_OFFLINE CARGO_REGISTRIES_CRATES_IO_PROTOCOL CARGO_TARGET_DIR COREPACK_ENABLE_NETWORK GOFLAGS GOPROXY GOSUMDB GOTOOLCHAIN NPM_CONFIG_OFFLINE PIP_NO_INDEX PNPM_HOME RUSTUP_AUTO_INSTALL RUSTUP_DIST_SERVER RUSTUP_UPDATE_ROOT UV_OFFLINE UV_PYTHON_DOWNLOADS YARN_ENABLE_NETWORK npm_config_ignore_scripts npm_config_offline";
        let logins = "BUNDLE_GEMS__EXAMPLE__COM CARGO_MANIFEST_DIR CARGO_REGISTRIES_MINE_TOKEN CARGO_REGISTRY_TOKEN COMPOSER_AUTH GOAUTH NIX_CONFIG NPM_CONFIG__AUTH UV_INDEX_MINE_PASSWORD YARN_NPM_AUTH_IDENT npm_config_//packages.example.com/:_authToken npm_config__auth";
        let names = settings.split(' ').chain(logins.split(' '));
        let env = Env::from_pairs(names.map(|name| (name, "1")), None, Vec::new());
        let variables = gate_environment(&env, &policy(&[], &[]), &gate(&[]), None);
        let mut passed: Vec<_> =
            variables.iter().map(|(name, _)| name.display().to_string()).collect();
        passed.retain(|name| name != CI_VARIABLE.0);
        assert_eq!(passed.join(" "), settings);
    }

    #[test]
    fn the_policy_decides_about_ci() {
        let env = Env::from_pairs(SESSION_VARIABLES.iter().copied(), None, Vec::new());
        let ci = |policy: &GateEnvironment| {
            let variables = gate_environment(&env, policy, &gate(&[]), None);
            let found = variables.into_iter().find(|(name, _)| name == "CI");
            found.map(|(_, value)| value.display().to_string())
        };
        let off = GateEnvironment { ci: false, ..policy(&[], &[]) };
        let own = GateEnvironment { ci: false, ..policy(&["CI"], &[]) };
        assert_eq!(ci(&policy(&[], &[])).as_deref(), Some("true"));
        assert_eq!(ci(&off), None);
        assert_eq!(ci(&own).as_deref(), Some("0"));
        assert_eq!(ci(&policy(&[], &[("CI", "woodpecker")])).as_deref(), Some("woodpecker"));
    }

    #[test]
    fn no_listed_name_looks_like_a_secret() {
        for name in [SYSTEM_VARIABLES, NETWORK_VARIABLES, TOOL_VARIABLES].into_iter().flatten() {
            assert!(!is_secret_name(OsStr::new(name)), "{name}");
        }
    }
}
