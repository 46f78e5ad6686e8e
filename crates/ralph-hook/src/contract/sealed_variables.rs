//! Seals the environment variables that decide which service answers in place of a judge or a CI provider.
//!
//! Every process can send a stop of a session, with an environment of its own: another proxy, other certificates, another
//! address of the model. Such a stop would choose its own verdict. So judges and CI are asked only where these variables
//! are what they were when the run began. Keys and tokens may differ: with another login, the same service answers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ralph_core::record::SealedVariable;
use ralph_core::text;
use ralph_gates::environment;
use ralph_sys::env::{Env, is_secret_name};

use super::ContractContext;

/// Where programs find their settings and logins, how they reach the network, and what is loaded into them, as far as gates
/// do not get it anyway.
const SEALED_NAMES: [&str; 22] = [
    "ALL_PROXY",
    "CLAUDE_CONFIG_DIR",
    "CURL_CA_BUNDLE",
    "CURL_HOME",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "NO_PROXY",
    "OPENSSL_CONF",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "XDG_CONFIG_HOME",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
/// Addresses of models and of CI servers.
const SEALED_PREFIXES: [&str; 6] =
    ["ANTHROPIC_", "AWS_ENDPOINT_", "CLAUDE_CODE_USE_", "GH_", "GITLAB_", "OPENAI_"];
const MAX_NAMED: usize = 3;
const MAX_NAME_CHARS: usize = 60;

fn is_sealed(name: &OsStr) -> bool {
    let is_listed = SEALED_NAMES.iter().any(|listed| name == *listed);
    let starts = |prefix: &&str| name.as_bytes().starts_with(prefix.as_bytes());
    is_listed
        || environment::may_load_code(name)
        || SEALED_PREFIXES.iter().any(starts) && !is_secret_name(name)
}

/// The variables of a new run, sorted by name. Only hashes are stored: a proxy may contain a password.
pub(super) fn seal_variables(env: &Env) -> Vec<SealedVariable> {
    let mut sealed = Vec::new();
    env.for_each_variable(|name, value| {
        if is_sealed(name) && !value.is_empty() {
            let hash = blake3::hash(value.as_bytes()).to_hex().to_string();
            sealed.push(SealedVariable { name: name.to_string_lossy().into_owned(), hash });
        }
    });
    sealed.sort_by(|one, other| one.name.cmp(&other.name));
    sealed
}

/// Why no service may be asked from this process; `None` if its variables are those of the start. Runs of older versions
/// sealed none.
pub(super) fn describe_changed_variables(contract: &ContractContext<'_>) -> Option<String> {
    let then = contract.seal.variables.as_ref()?;
    let now = seal_variables(&contract.world.env);
    let differs = |one: &&SealedVariable, others: &[SealedVariable]| !others.contains(one);
    let gone = then.iter().filter(|one| differs(one, &now));
    let new = now.iter().filter(|one| differs(one, then));
    let mut names: Vec<&str> = gone.chain(new).map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let shown = names.iter().take(MAX_NAMED);
    let shown = shown.map(|name| format!("`{}`", text::clean_line(name, MAX_NAME_CHARS)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let verb = if names.len() == 1 { "is" } else { "are" };
    let others = if names.len() > MAX_NAMED { " and others" } else { "" };
    (!names.is_empty()).then(|| {
        format!("{shown}{others} {verb} not as when the run began, so another service could answer")
    })
}
