//! `[[ci]]`: a gate whose evidence is the state of the checks that a CI provider ran for the commit that is checked out.
//! The `ralph-gates` crate asks the provider.

use crate::gate::{Gate, GateInvocation, RerunPolicy};
use crate::request_address::RequestAddress;
use crate::requirement::RequirementStage;
use crate::text;
use crate::units::format_duration;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The length of the line about a query.
const MAX_SHOWN_CHARS: usize = 300;

/// Stands for the id of the commit in the arguments and the address of a query.
pub const COMMIT_PLACEHOLDER: &str = "{commit}";

/// Where the state of a commit's checks is read, and which of them count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CiQuery {
    pub provider: CiProvider,
    /// Names of the checks that must pass, which may contain `*`. If empty, the checks that the provider marks as
    /// required; if it marks none, all of them.
    pub checks: Vec<String>,
    /// The branch whose rules say which checks are required. Empty for the default branch.
    pub branch: String,
    /// The variable with the token. Empty for the login of the provider's program, and for none.
    pub token: String,
    /// Whether a status that anyone with write access can set counts as a pass.
    pub statuses: bool,
    /// The time between the first two queries. It grows from query to query.
    pub poll_ms: u64,
    /// Checks that have not appeared after this time count as absent.
    pub start_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CiProvider {
    /// Through `gh`.
    Github { host: String, repo: String },
    /// Through `glab`.
    Gitlab { host: String, repo: String },
    /// The command of the gate prints the state as JSON.
    Command,
    /// A JSON document at this address, through `curl`.
    Http { url: String },
}

impl CiProvider {
    /// Where on this machine it is asked without encryption.
    pub fn loopback_authority(&self) -> Option<&str> {
        match self {
            Self::Http { url } => RequestAddress::loopback_authority(url),
            Self::Github { .. } | Self::Gitlab { .. } | Self::Command => None,
        }
    }

    /// The command that stands for the queries: it is shown to the person who approves the policy, and its program is
    /// sealed. `None` if the gate has a command of its own.
    pub fn shown_command(&self) -> Option<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        match self {
            Self::Github { host, repo } => {
                let endpoint = format!("repos/{repo}/commits/{COMMIT_PLACEHOLDER}/check-runs");
                Some(words(&["gh", "api", "--hostname", host, &endpoint]))
            }
            Self::Gitlab { host, repo } => {
                let endpoint = format!(
                    "projects/{}/pipelines?sha={COMMIT_PLACEHOLDER}",
                    repo.replace('/', "%2F")
                );
                Some(words(&["glab", "api", "--hostname", host, &endpoint]))
            }
            Self::Command => None,
            Self::Http { url } => Some(words(&["curl", url])),
        }
    }
}

impl CiQuery {
    /// `checks build, test*, login of gh, asked every 10 s for at most 30 min`
    pub fn describe(&self, timeout_ms: u64) -> String {
        let checks = match (&self.checks[..], self.branch.as_str()) {
            ([], "") => "checks that the default branch requires, or all".to_string(),
            ([], branch) => format!("checks that `{branch}` requires, or all"),
            (checks, _) => format!("checks {}", checks.join(", ")),
        };
        let login = match (&self.provider, self.token.as_str()) {
            (CiProvider::Github { .. }, "") => ", login of gh".to_string(),
            (CiProvider::Gitlab { .. }, "") => ", login of glab".to_string(),
            (CiProvider::Command | CiProvider::Http { .. }, "") => String::new(),
            (_, token) => format!(", token from ${token}"),
        };
        let (poll, most) = (format_duration(self.poll_ms), format_duration(timeout_ms));
        let text = format!("{checks}{login}, asked every {poll} for at most {most}");
        text::clean_line(&text::reveal(&text), MAX_SHOWN_CHARS)
    }
}

impl Gate {
    /// A gate that asks a CI provider. It comes after all other gates, needs the commit rather than the files, and takes
    /// no part in a proof.
    pub fn of_ci(self, query: CiQuery) -> Self {
        let command = query.provider.shown_command().map(GateInvocation::Argv);
        Self {
            stage: RequirementStage::Ci,
            command: command.unwrap_or(self.command),
            rerun: RerunPolicy::Never,
            proof: false,
            ci: Some(query),
            on: vec![crate::gate::GateTrigger::Stop],
            ..self
        }
    }

    /// Whether its evidence comes from a CI provider.
    pub fn is_ci(&self) -> bool {
        self.ci.is_some()
    }

    /// Whether a command of the person asks CI.
    pub fn asks_by_command(&self) -> bool {
        self.ci.as_ref().is_some_and(|query| query.provider == CiProvider::Command)
    }
}
