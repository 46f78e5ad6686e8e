//! A `[[ci]]` entry while its keys are set, and the checks that involve several of them.

use super::keys::{CI, GATE};
use super::parse::{ConfigEntry, ConfigProblems};
use super::value::ConfigValue;
use super::{ConfigDraft, ConfigSource, apply};
use ralph_core::ci_query::{COMMIT_PLACEHOLDER, CiProvider, CiQuery};
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::request_address::RequestAddress;
use ralph_core::text;

const MAX_CHECK_BYTES: usize = 200;

/// An entry whose provider depends on several keys.
#[derive(Debug)]
pub(super) struct CiDraft {
    pub(super) gate: Gate,
    pub(super) query: CiQuery,
    pub(super) provider: String,
    pub(super) host: String,
    pub(super) repo: String,
    pub(super) url: String,
}

impl CiDraft {
    pub(super) fn new() -> Self {
        Self {
            gate: apply::empty_gate(),
            query: CiQuery {
                provider: CiProvider::Command,
                checks: Vec::new(),
                branch: String::new(),
                token: String::new(),
                statuses: false,
                poll_ms: 0,
                start_ms: 0,
            },
            provider: String::new(),
            host: String::new(),
            repo: String::new(),
            url: String::new(),
        }
    }

    pub(super) fn complete(self) -> Gate {
        let Self { gate, query, provider, host, repo, url } = self;
        let host_or = |usual: &str| if host.is_empty() { usual.to_string() } else { host.clone() };
        let provider = match provider.as_str() {
            "github" => CiProvider::Github { host: host_or("github.com"), repo },
            "gitlab" => CiProvider::Gitlab { host: host_or("gitlab.com"), repo },
            "http" => CiProvider::Http { url },
            _ => CiProvider::Command,
        };
        gate.of_ci(CiQuery { provider, ..query })
    }
}

/// Keys that only some providers use, and those providers.
const PROVIDER_KEYS: [(&str, &[&str]); 7] = [
    ("repo", &["github", "gitlab"]),
    ("host", &["github", "gitlab"]),
    ("branch", &["github"]),
    ("run", &["command"]),
    ("env", &["command"]),
    ("url", &["http"]),
    ("token", &["github", "gitlab", "http"]),
];

/// A key, what is wrong with it, and what to do.
type CiProblem = (&'static str, String, String);

pub(super) fn check_ci(
    entries: &[ConfigEntry],
    sources: &[ConfigSource],
    problems: &mut ConfigProblems,
) {
    let gates: Vec<&ConfigEntry> = entries.iter().filter(|entry| entry.is_in(&GATE)).collect();
    for entry in entries.iter().filter(|entry| entry.is_in(&CI)) {
        let built = ConfigDraft::build(&[], std::slice::from_ref(entry)).policy.gates;
        let Some((gate, query)) = built.first().and_then(|gate| Some((gate, gate.ci.as_ref()?)))
        else {
            continue;
        };
        let mut found: Vec<CiProblem> = Vec::new();
        if gates.iter().any(|other| other.name == entry.name) {
            let name = text::clean_line(&entry.name, 60);
            let what = format!("there is also a `[[gate]]` named `{name}`");
            found.push(("name", what, "rename one of the two".to_string()));
        }
        found.extend(unused_keys(entry, query));
        found.extend(provider_problem(gate, query));
        found.extend(query_problem(query));
        for (key, message, hint) in found {
            let setting = entry.settings.iter().find(|setting| setting.key == key);
            let setting = setting.filter(|it| it.location.layer != super::ConfigLayer::BuiltIn);
            let setting = setting.or_else(|| entry.settings.iter().find(|it| it.key == "provider"));
            if let Some(setting) = setting
                && let Some(source) = sources.iter().find(|it| it.layer == setting.location.layer)
            {
                problems.add(source, setting.span.clone(), message, Some(hint));
            }
        }
    }
}

/// Keys that would silently have no effect.
fn unused_keys(entry: &ConfigEntry, query: &CiQuery) -> Vec<CiProblem> {
    let provider = match &query.provider {
        CiProvider::Github { .. } => "github",
        CiProvider::Gitlab { .. } => "gitlab",
        CiProvider::Command => "command",
        CiProvider::Http { .. } => "http",
    };
    // The defaults are empty, and `ralph config` prints them for every entry.
    let is_set = |key: &str| {
        let value = entry.settings.iter().find(|it| it.key == key).map(|it| &it.value);
        match value {
            Some(ConfigValue::Text(text, _)) => !text.is_empty(),
            Some(ConfigValue::Texts(texts, _)) => !texts.is_empty(),
            Some(_) | None => false,
        }
    };
    let unused =
        PROVIDER_KEYS.iter().filter(|(key, users)| is_set(key) && !users.contains(&provider));
    let problem = |(key, users): &(&'static str, &[&str])| {
        let message = format!("`ci.{key}` has no meaning for `provider = \"{provider}\"`");
        let hint = format!("it is for `{}`: remove it", users.join("`, `"));
        (*key, message, hint)
    };
    unused.map(problem).collect()
}

/// What the provider lacks, or has in a form that cannot be part of an address.
fn provider_problem(gate: &Gate, query: &CiQuery) -> Option<CiProblem> {
    match &query.provider {
        CiProvider::Github { host, repo } => server_problem(host, repo, 2..=2),
        CiProvider::Gitlab { host, repo } => server_problem(host, repo, 2..=20),
        CiProvider::Command => {
            let words: &[String] = match &gate.command {
                GateInvocation::Argv(words) => words,
                GateInvocation::Shell(_) => &[],
            };
            if words.is_empty() {
                let hint = "add the command: `run = [\"./ci-state\", \"{commit}\"]`".to_string();
                let message = "`[[ci]]` with `provider = \"command\"` is missing `run`".to_string();
                return Some(("run", message, hint));
            }
            let names_commit = words.iter().any(|word| word.contains(COMMIT_PLACEHOLDER));
            (!names_commit).then(|| {
                let hint = "the program has to know which commit is meant: `run = [\"./ci-state\", \"{commit}\"]`";
                ("run", format!("`ci.run` has no `{COMMIT_PLACEHOLDER}`"), hint.to_string())
            })
        }
        CiProvider::Http { url } => (!is_document_url(url)).then(|| {
            let hint = format!("give an `https://` address with `{COMMIT_PLACEHOLDER}` in its path or query; `http://` is for this machine only");
            ("url", "`ci.url` is not the address of a commit's checks".to_string(), hint)
        }),
    }
}

fn server_problem(
    host: &str,
    repo: &str,
    depth: std::ops::RangeInclusive<usize>,
) -> Option<CiProblem> {
    let is_part = |part: &str| {
        !part.is_empty()
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let parts = repo.split('/').count();
    if !depth.contains(&parts) || repo.len() > 400 || !repo.split('/').all(is_part) {
        let message = if repo.is_empty() {
            "`[[ci]]` is missing `repo`".to_string()
        } else {
            "`ci.repo` is not the name of a repository".to_string()
        };
        return Some(("repo", message, "name the repository: `repo = \"owner/name\"`".to_string()));
    }
    let is_host = !host.starts_with(['-', '.'])
        && host.len() <= 253
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    (!is_host).then(|| {
        let hint = "name the server without a scheme or a port: `host = \"git.example.com\"`";
        ("host", "`ci.host` is not the name of a server".to_string(), hint.to_string())
    })
}

fn query_problem(query: &CiQuery) -> Option<CiProblem> {
    let is_variable = |name: &str| {
        name.len() <= 100
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !is_variable(&query.token) {
        // Not quoted: it may be the token itself.
        let message = "`ci.token` is not the name of a variable".to_string();
        let hint = "name the variable, and keep the token out of the file: `token = \"GH_TOKEN\"`";
        return Some(("token", message, hint.to_string()));
    }
    let is_check = |name: &String| {
        !name.trim().is_empty()
            && name.len() <= MAX_CHECK_BYTES
            && !name.contains(|each: char| each.is_control())
    };
    if !query.checks.iter().all(is_check) {
        let hint = "give the names as the provider shows them: `checks = [\"build\", \"test*\"]`";
        let message = "`ci.checks` has a name that no check can have".to_string();
        return Some(("checks", message, hint.to_string()));
    }
    let is_branch =
        query.branch.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte))
            && !query.branch.contains("..");
    (!is_branch).then(|| {
        let hint = "name a branch: `branch = \"main\"`".to_string();
        ("branch", "`ci.branch` is not the name of a branch".to_string(), hint)
    })
}

/// Whether this is an address with a commit in it. Without encryption, only a server on this machine is asked.
fn is_document_url(url: &str) -> bool {
    RequestAddress::parse(url).is_ok_and(|address| address.path.contains(COMMIT_PLACEHOLDER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encrypted_unless_they_are_local() {
        for (url, expected) in [
            ("https://ci.example.com/commits/{commit}", true),
            ("https://ci.example.com/?sha={commit}", true),
            ("http://127.0.0.1:8080/{commit}", true),
            ("http://localhost/{commit}", true),
            ("http://[::1]:9/{commit}", true),
            ("http://ci.example.com/{commit}", false),
            ("http://127.0.0.1@evil.example/{commit}", false),
            ("http://127.0.0.1.evil.example/{commit}", false),
            ("https://ci.example.com/", false),
            ("https://{commit}/", false),
            ("file:///etc/{commit}", false),
            ("https://ci.example.com/{commit}\nheader = x", false),
            ("https://ci.example.com/\"{commit}", false),
            ("", false),
        ] {
            assert_eq!(is_document_url(url), expected, "{url}");
        }
    }
}
